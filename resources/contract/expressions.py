"""Contract expressions: DuckDB scalar SQL over one row, parsed and checked against an allow-list, never pasted into SQL.

DuckDB's own parser turns the text into a tree; the tree is walked, and only what is known to be a pure function of the
row's columns may stand in it. The checked text then enters a query as a parsed `duckdb.SQLExpression`, not as text.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from functools import lru_cache
from typing import Any

import duckdb

from resources.contract.errors import ConfigError

_FUNCTIONS = frozenset(
    "abs ceil floor round sign sqrt ln log log2 log10 exp pow power greatest least coalesce nullif ifnull isnan isinf "
    "lower upper trim ltrim rtrim length strlen left right substring substr replace concat contains starts_with "
    "ends_with prefix suffix like_escape not_like_escape ~~ !~~ ~~* !~~* ~~~ regexp_matches regexp_full_match "
    "+ - * / // % || & | << >> year month day hour minute second dayofweek isodow".split()
)
_CLASSES = frozenset(
    ["CONSTANT", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "OPERATOR", "FUNCTION", "BETWEEN", "CASE", "CAST", "TYPE"]
)


@lru_cache(maxsize=1024)
def _tree(text: str) -> dict[str, Any]:
    if not text.strip():
        raise ConfigError("an empty text is no expression: leave the key out, or say `true`.")
    with duckdb.connect() as connection:
        row = connection.execute("select json_serialize_sql(?)", [f"select ({text}) as value"]).fetchone()
    assert row is not None
    parsed = json.loads(row[0])
    if parsed["error"]:
        raise ConfigError(f"{text!r} is not a DuckDB expression: {parsed['error_message']}")
    nodes = [statement["node"] for statement in parsed["statements"]]
    node = nodes[0] if len(nodes) == 1 else {}
    plain = node.get("type") == "SELECT_NODE" and node["from_table"]["type"] == "EMPTY" and not node["modifiers"]
    selected = node.get("select_list", [])
    if not plain or len(selected) != 1 or node["where_clause"] or node["group_expressions"] or node["having"]:
        raise ConfigError(f"{text!r} must be one scalar expression over a row's columns, without FROM, WHERE or ';'.")
    return selected[0]


def _children(node: Any) -> list[Any]:
    if isinstance(node, dict):
        return [node] if "class" in node else [child for value in node.values() for child in _children(value)]
    if isinstance(node, list):
        return [child for value in node for child in _children(value)]
    return []


def columns_of(text: str, *, key: str, known: Collection[str]) -> frozenset[str]:
    """The columns an expression reads. Raises ConfigError where anything but the allow-list stands in it.

    Args:
        key: where the expression stands in the YAML, for the message.
        known: the columns it may read.
    """
    found: set[str] = set()

    def visit(node: dict[str, Any]) -> None:
        if node["class"] not in _CLASSES:
            kind = str(node["type"]).lower()
            raise ConfigError(
                f"{key}: {text!r} holds a {kind}; only scalar functions of one row's columns may stand here."
            )
        if node["class"] == "FUNCTION" and node["function_name"] not in _FUNCTIONS:
            raise ConfigError(
                f"{key}: the function {node['function_name']!r} in {text!r} is not allowed: its value might not depend on "
                f"the row alone. Allowed: {', '.join(sorted(f for f in _FUNCTIONS if f[0].isalpha()))}."
            )
        if node["class"] == "COLUMN_REF":
            name = ".".join(node["column_names"])
            if name not in known:
                raise ConfigError(
                    f"{key}: {text!r} reads {name!r}, which is no column. Known: {', '.join(sorted(known))}."
                )
            found.add(name)
        for child in _children([value for k, value in node.items() if k != "class"]):
            visit(child)

    try:
        tree = _tree(text)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error
    visit(tree)
    return frozenset(found)
