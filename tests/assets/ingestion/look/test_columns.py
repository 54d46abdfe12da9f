"""What is told of a column: planted types are found, and what a type would lose keeps it from being taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.ingestion.look.columns import held
from assets.ingestion.look.values import Held, Values, words_of

if TYPE_CHECKING:
    from tests.assets.ingestion.look.conftest import Beginner


def told(texts: Sequence[str | None], *, name: str = "x", is_id: bool = False) -> Held:
    return held(Values.of(name, pa.chunked_array([pa.array(texts, pa.string())])), is_id=is_id)


@pytest.mark.parametrize(
    ("texts", "type_", "options"),
    [
        (["1", "80", "-3"], "integer", {}),
        (["0", "1"], "integer", {}),
        (["9223372036854775807"], "integer", {}),
        (["9223372036854775808"], "id", {}),
        (["1", "123456789012345678901234567890"], "id", {}),
        (["007", "7"], "id", {}),
        (["1"] * 999 + ["07"], "id", {}),
        (["1", "2.50"], "decimal", {}),
        ([".5", "-0.25"], "decimal", {}),
        (["0.12345678"], "number", {}),
        (["1.5e-07", "2"], "number", {}),
        (["1e5", "2e7"], "category", {}),
        (["NO", "no", "NO"], "category", {}),
        (["no", "YES"], "flag", {}),
        (["true", "TRUE"], "flag", {}),
        (["Y", "n"], "flag", {"true": ["y"], "false": ["n"]}),
        (["nan", "nan"], "category", {}),
        (["NaN", "10", "-inf"], "integer", {}),
        (["1.234,50", "3,00"], "decimal", {"thousands": ".", "decimal_mark": ","}),
        (["3,5", "1,25"], "decimal", {"decimal_mark": ","}),
        (["1,234.50", "3"], "decimal", {"thousands": ","}),
        (["1.234.567", "12"], "integer", {"thousands": ".", "decimal_mark": ","}),
        (["1 234 567", "1 000"], "integer", {"thousands": " "}),
        (["1'234.5"], "decimal", {"thousands": "'"}),
        (["1,234", "5,678"], "category", {}),
        (["10", "NA", "7"], "integer", {"nulls": ["", "NA"], "required": False}),
        (["1.5", "\\N", "-"], "decimal", {"nulls": ["", "\\N", "-"], "required": False}),
        (["NA", "DE"], "category", {}),
        (["NA"], "category", {}),
        (["5", None], "integer", {"required": False}),
        ([None, None], "text", {"required": False}),
        (["a@b.org", "c@d.org"], "category", {"personal": True}),
        (["10.0.0.1", "::1"], "category", {"personal": True}),
        (["+49 30 12345", "+1 555 0100"], "category", {"personal": True}),
        ([f"{at:032x}" for at in range(101)], "id", {}),
        ([f"a long sentence, number {at}" for at in range(9)], "text", {}),
        (["red", "blue"], "category", {}),
    ],
)
def test_each_rule(texts: list[str | None], type_: str, options: dict) -> None:
    found = told(texts)
    assert (found.type, dict(found.options)) == (type_, options)


def test_ids_are_ids_whatever_they_look_like() -> None:
    assert told(["true", "false"], is_id=True).type == "id"
    assert dict(told(["17850.0", None, "12.0"], is_id=True).options) == {"strip_decimal_zero": True, "required": False}
    assert told(["17850.0", "12.5"], is_id=True).options == {}
    assert told(["12", "NULL"], is_id=True).options["nulls"] == ["", "NULL"]
    assert "nulls" not in told(["ab", "NULL"], is_id=True).options


def test_a_zero_or_one_is_a_flag_where_its_name_is_one() -> None:
    assert told(["0", "1"], name="is_new").type == told(["0", "1"], name="clicked").type == "flag"
    assert told(["0", "1"], name="quantity").type == told(["1", "1"], name="clicked").type == "integer"


def test_a_few_faults_are_asked_about_and_do_not_hide_a_number() -> None:
    found = told([str(at) for at in range(999)] + ["oops"])
    assert found.type == "integer" and found.question is not None and "'oops'" in found.question
    assert told([str(at) for at in range(900)] + ["oops"] * 100).type != "integer"
    assert told(["1", "oops"]).type == "category"
    german = told([f"1.{at:03},50" for at in range(999)] + ["1.00.0,5"])
    assert german.contract == {"type": "decimal", "thousands": ".", "decimal_mark": ","}
    assert german.question is not None and "1 of 1,000 are not, such as '1.00.0,5'" in german.question
    assert told(["1.234,5"] * 900 + ["1.00.0,5"] * 100).type == "category"
    # a decimal among whole numbers is no fault, however rare
    late = told(["1"] * 9999 + ["12.75"])
    assert (late.type, late.question) == ("decimal", None)


def test_nan_is_asked_about_and_is_no_number_until_somebody_says() -> None:
    found = told(["1.5", "NaN", "NaN"])
    assert found.type == "decimal" and found.options == {}
    assert (
        found.question is not None and "2 of 3 values are 'NaN'" in found.question and "['', 'NaN']" in found.question
    )


def test_the_comma_that_may_be_either_mark_is_asked_about() -> None:
    found = told(["1,234", "5,678", "7"])
    assert found.question is not None and "'1,234'" in found.question
    assert told(["1,234", "1,234,567"]).options == {"thousands": ","}


def test_a_parquet_file_says_its_types() -> None:
    def kept(array: pa.Array) -> Held:
        texts = Values.of("x", pa.chunked_array([array.cast(pa.string())]))
        return held(texts, kind=array.type)

    assert kept(pa.array([1.0, 2.0])).type == kept(pa.array([float("nan")])).type == "number"
    assert kept(pa.array([2**63], pa.uint64())).contract == {"type": "integer", "unsigned": True}
    assert kept(pa.array([1], pa.uint64())).contract == {"type": "integer"}
    assert kept(pa.array([Decimal("0.12345678")], pa.decimal128(9, 8))).contract == {"type": "decimal", "scale": 8}
    assert kept(pa.array([True])).type == "flag" and kept(pa.array(["007"])).type == "id"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("InvoiceNo", ("invoice", "no")),
        ("CustomerID", ("customer", "id")),
        ("user_id", ("user", "id")),
        ("items[0].SKU", ("items", "0", "sku")),
        ("HTTPStatus", ("http", "status")),
        ("é", ()),
    ],
)
def test_names_are_told_apart_into_words(name: str, words: tuple[str, ...]) -> None:
    assert words_of(name) == words


_german = st.decimals(min_value=-(10**9), max_value=10**9, places=2).map(
    lambda n: f"{n:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".")
)
_words = st.sampled_from(["red", "Blue", "NO", "x-1", "nan", "1e5", "9z"])
# the planted type, a value that shows it, and others of its kind
PLANTED = {
    "integer": ("7", st.integers(-(2**63), 2**63 - 1).map(str)),
    "decimal": ("0.5", st.decimals(min_value=-(10**11), max_value=10**11, places=6).map("{:f}".format)),
    "number": ("0.1234567890123", st.floats(allow_nan=False, allow_infinity=False).map(repr)),
    "zeros": ("007", st.integers(0, 10**9).map("{:09}".format)),
    "beyond": (str(2**70), st.integers(0, 2**64).map(str)),
    "words": ("red", _words),
    "flag": ("true", st.sampled_from(["true", "False", "TRUE"])),
    "german": ("1.234,50", _german),
}
TYPES = {"zeros": "id", "beyond": "id", "words": "category", "german": "decimal"}


@settings(max_examples=40)
@given(
    data=st.data(), rows=st.integers(2, 40), kinds=st.lists(st.sampled_from(sorted(PLANTED)), min_size=1, max_size=5)
)
def test_planted_types_are_told_and_every_row_fits(
    beginner: Beginner, columns: Callable, data: st.DataObject, rows: int, kinds: list[str]
) -> None:
    texts, empty = {}, set()
    for at, kind in enumerate(kinds):
        shows, others = PLANTED[kind]
        values = [shows, *data.draw(st.lists(others, min_size=rows - 1, max_size=rows - 1))]
        if data.draw(st.booleans()):
            values[data.draw(st.integers(1, rows - 1))] = ""
            empty.add(f"c{at}")
        texts[f"c{at}"] = values
    dataset = columns(texts)
    found = {name: column for name, column in dataset.by_name.items() if name in texts}
    assert {name: column.type for name, column in found.items()} == {
        f"c{at}": TYPES.get(kind, kind) for at, kind in enumerate(kinds)
    }
    assert {name for name, column in found.items() if not column.required} == empty
    text = (beginner.room.landing / "2026-03-01.csv").read_text()
    begun = beginner.begin_with({"2026-03-01.csv": text})
    assert "all of them fit" in begun.fit and begun.faults == ()
