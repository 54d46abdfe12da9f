"""What is written is read back as it was meant, one line a thing, whatever stands in it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from assets.ingestion.look.contract_text import Line, contract_text, flow

_texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


@example(key="\x85", value="\x85 \u2028", why="a\nb")
@given(
    key=_texts,
    value=st.recursive(_texts | st.booleans() | st.integers(), lambda v: st.lists(v, max_size=3)),
    why=_texts,
)
def test_any_key_value_and_reason_are_one_line(key: str, value: object, why: str) -> None:
    text = contract_text("title", [Line(key="outer", value=(Line(key=key, value={"a": value}, reason=why),))])
    assert text.count("\n") == 3 and "\r" not in text
    assert YAML(typ="safe", pure=True).load(text) == {"outer": {key: {"a": value}}}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"since_last": "user"}, "{since_last: user}"),
        ([{"log1p": "price"}], "[{log1p: price}]"),
        ("no", "no"),
        ("true", "'true'"),
        ("007", "'007'"),
        ("\t", '"\\t"'),
    ],
)
def test_values_are_quoted_where_they_must_be(value: object, text: str) -> None:
    assert flow(value) == text


def test_a_question_stands_before_its_reason() -> None:
    line = Line(key="zone", value="UTC", question="which zone?", reason="no offset")
    assert contract_text("t", [line]).splitlines()[1] == "zone: UTC # QUESTION: which zone? (no offset)"
