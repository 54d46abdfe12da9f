from __future__ import annotations

import pytest

from resources.contract.errors import ConfigError
from resources.contract.expressions import columns_of

KNOWN = ("event_time", "user", "kind", "quantity", "price")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("true", set()),
        ("quantity > 0 and not starts_with(kind, 'C')", {"quantity", "kind"}),
        ("kind in ('buy', 'look')", {"kind"}),
        ("kind like 'b%' or kind ilike '%Y'", {"kind"}),
        ("price between 1 and 2.5", {"price"}),
        ("case when quantity is null then false else coalesce(price, 0) > 1 end", {"quantity", "price"}),
        ("cast(quantity as double) / 2 >= round(price, 1)", {"quantity", "price"}),
        ("try_cast(kind as decimal(10, 2)) > 0", {"kind"}),
        ("quantity % 2 = 0", {"quantity"}),
        ("hour(event_time) < 6", {"event_time"}),
        ("length(trim(kind)) = 3", {"kind"}),
        ("-quantity < 0", {"quantity"}),
        ("regexp_matches(kind, '^a.*')", {"kind"}),
    ],
)
def test_scalar_expressions_over_a_row_are_taken_and_their_columns_known(text: str, columns: set[str]) -> None:
    assert columns_of(text, key="examples", known=KNOWN) == columns


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("quantity >", "not a DuckDB expression"),
        (" ", "empty text"),
        ("nothing > 1", "no column"),
        ("other.quantity > 1", "no column"),
        ("random() < 0.5", "random"),
        ("now() > event_time", "now"),
        ("getenv('HOME') = ''", "getenv"),
        ("current_setting('TimeZone') = 'UTC'", "current_setting"),
        ("sum(quantity) > 1", "sum"),
        ("row_number() over () = 1", "window"),
        ("quantity > (select 1)", "subquery"),
        ("exists (select 1)", "subquery"),
        ("true from range(3)", "one scalar expression|not a DuckDB"),
        ("true) as a, (false", "one scalar expression"),
        ("true); drop table x; select (true", "one scalar expression|not a DuckDB"),
        ("*", "star"),
        ("quantity > $1", "parameter"),
        ("list_transform([quantity], x -> random()) is null", "not allowed|holds a"),
    ],
)
def test_whatever_is_more_than_a_function_of_the_row_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f"(?i){why}"):
        columns_of(text, key="examples", known=KNOWN)


def test_every_refusal_begins_with_the_key() -> None:
    for text in ("quantity >", "", "sum(quantity) > 0", "nothing"):
        with pytest.raises(ConfigError, match=r"^events\.buy: "):
            columns_of(text, key="events.buy", known=KNOWN)


def test_the_refusal_names_the_key_the_text_and_what_is_allowed() -> None:
    with pytest.raises(ConfigError) as raised:
        columns_of("random() < 0.5", key="label.where", known=KNOWN)
    message = str(raised.value)
    assert message.startswith("label.where: ")
    assert "'random() < 0.5'" in message
    assert "starts_with" in message
