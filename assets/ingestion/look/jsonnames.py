"""The names of all plain values in JSON lines: paths through objects, and of each list to its first entry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from assets.ingestion.fieldpath import parse_path
from assets.ingestion.files import LandedFile
from assets.ingestion.look.encoding import text_of

Steps = tuple[str | int, ...]

_MOST_KEYS = 100  # of one object over all lines; more are data, not names


def _lines(file: LandedFile, encoding: str) -> Iterator[str]:
    rest = ""
    for text in text_of(file, encoding):
        *lines, rest = (rest + text).split("\n")
        yield from lines
    yield rest


def json_names(file: LandedFile, encoding: str, *, max_rows: int) -> tuple[tuple[str, ...], dict[str, str]]:
    """The paths of all plain values, and those that cannot be columns. Of a list its first entry is taken."""
    plain: dict[Steps, None] = {}
    nested: set[Steps] = set()
    keys: dict[Steps, set[str]] = {}

    def visit(value: Any, path: Steps) -> None:
        if isinstance(value, dict):
            nested.add(path)
            known = keys.setdefault(path, set())
            known.update(value)
            if path and len(known) > _MOST_KEYS:
                return
            for key, inner in value.items():
                visit(inner, (*path, key))
        elif isinstance(value, list):
            nested.add(path)
            if value:
                visit(value[0], (*path, 0))
        elif value is not None:
            plain[path] = None

    for number, line in enumerate(_lines(file, encoding)):
        if number >= max_rows:
            break
        try:
            row = json.loads(line) if line.strip() else {}
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            for key, inner in row.items():
                visit(inner, (key,))
                if inner is None:
                    plain.setdefault((key,), None)
    names, left_out = [], {}
    crowded = {path for path, known in keys.items() if path and len(known) > _MOST_KEYS}
    for path in plain:
        name = joined(path)
        if inside := next((outer for outer in crowded if path[: len(outer)] == outer), None):
            left_out[joined(inside)] = f"its keys are data: there are more than {_MOST_KEYS}"
        elif path in nested:
            left_out[name] = "a plain value in some lines, an object or a list in others"
        elif (parse_path(name) or (name,)) != path:
            left_out[name] = "its name is made of the marks of a path"
        else:
            names.append(name)
    return tuple(names), left_out


def joined(path: Steps) -> str:
    """A path as a contract writes it."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[1:]
