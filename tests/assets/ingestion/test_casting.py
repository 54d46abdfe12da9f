"""Every text is cast exactly or fails with its reason; nothing is ever rounded, trimmed or guessed."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.ingestion.casting import cast_column, typed, without_nulls
from assets.ingestion.conversion import texts_of
from assets.ingestion.reasons import Reason
from resources.contract.column import Column

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room


def cast(text: str | None, **column: Any) -> Any:
    """The value of one text, or the Reason why it has none."""
    values, reasons = cast_column(pa.array([text, "0", text], pa.string()), Column(**column))
    assert values.type == Column(**column).arrow_type and reasons.dtype == "uint8"
    assert reasons[0] == reasons[2]
    return values[0].as_py() if reasons[0] == Reason.FINE else Reason(int(reasons[0]))


@pytest.mark.parametrize(
    ("column", "text", "expected"),
    [
        ({"type": "id"}, "00042", "00042"),
        ({"type": "id"}, "17850.0", "17850.0"),
        ({"type": "id"}, "1e5", "1e5"),
        ({"type": "id"}, " nan ", " nan "),
        ({"type": "id"}, None, Reason.MISSING),
        ({"type": "id", "required": False}, None, None),
        ({"type": "id", "strip_decimal_zero": True}, "17850.0", "17850"),
        ({"type": "id", "strip_decimal_zero": True}, "0017.000", "0017"),
        ({"type": "id", "strip_decimal_zero": True}, "17850.5", "17850.5"),
        ({"type": "id", "strip_decimal_zero": True}, "A1.0", "A1.0"),
        ({"type": "id", "strip_decimal_zero": True}, "1.0\n", "1.0\n"),
        ({"type": "category"}, "NO", "NO"),
        ({"type": "text"}, "a\0\nb", "a\0\nb"),
        ({"type": "flag"}, "TRUE", True),
        ({"type": "flag"}, "0", False),
        ({"type": "flag"}, "yes", True),
        ({"type": "flag"}, "perhaps", Reason.NOT_A_FLAG),
        ({"type": "flag", "true": ("Ja",), "false": ("NEIN", "0")}, "ja", True),
        ({"type": "flag", "required": False}, None, None),
    ],
)
def test_texts_and_flags(column: dict, text: str | None, expected: object) -> None:
    assert cast(text, **column) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("-0", 0),
        ("+5", 5),
        ("007", 7),
        ("5.0", 5),
        ("5.", 5),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0000000000000000000000000001", 1),
        ("9223372036854775808", Reason.OUT_OF_RANGE),
        ("-9223372036854775809", Reason.OUT_OF_RANGE),
        ("9" * 5000, Reason.OUT_OF_RANGE),
        ("5.5", Reason.NOT_AN_INTEGER),
        ("1e3", Reason.NOT_AN_INTEGER),
        ("0x1F", Reason.NOT_AN_INTEGER),
        ("1_000", Reason.NOT_AN_INTEGER),
        ("1,000", Reason.NOT_AN_INTEGER),
        (" 5", Reason.NOT_AN_INTEGER),
        ("5\n", Reason.NOT_AN_INTEGER),
        ("٥", Reason.NOT_AN_INTEGER),
        ("", Reason.NOT_AN_INTEGER),
        ("-", Reason.NOT_AN_INTEGER),
        ("NaN", Reason.NOT_FINITE),
    ],
)
def test_integers(text: str, expected: object) -> None:
    assert cast(text, type="integer") == expected


@pytest.mark.parametrize(
    ("text", "scale", "expected"),
    [
        ("12.75", 6, Decimal("12.75")),
        ("12.750", 2, Decimal("12.75")),
        ("12.751", 2, Reason.NOT_EXACT),
        (".5", 6, Decimal("0.5")),
        ("5.", 6, Decimal(5)),
        ("+1.5", 6, Decimal("1.5")),
        ("-0.0", 6, Decimal(0)),
        ("1e2", 6, Decimal(100)),
        ("1.5E-3", 6, Decimal("0.0015")),
        ("1e-7", 6, Reason.NOT_EXACT),
        ("999999999999.999999", 6, Decimal("999999999999.999999")),
        ("1000000000000", 6, Reason.OUT_OF_RANGE),
        ("1e4000", 6, Reason.OUT_OF_RANGE),
        ("0e4000", 6, Decimal(0)),
        ("000000000000000000000000001.50", 2, Decimal("1.5")),
        ("7", 0, Decimal(7)),
        ("7.0", 0, Decimal(7)),
        ("7.5", 0, Reason.NOT_EXACT),
        ("0.1" + "0" * 60, 1, Decimal("0.1")),
        ("abc", 6, Reason.NOT_A_DECIMAL),
        ("1.2.3", 6, Reason.NOT_A_DECIMAL),
        ("12,75", 6, Reason.NOT_A_DECIMAL),
        ("nan", 6, Reason.NOT_FINITE),
        ("-Infinity", 6, Reason.NOT_FINITE),
    ],
)
def test_decimals(text: str, scale: int, expected: object) -> None:
    assert cast(text, type="decimal", scale=scale) == expected


@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=8) | st.decimals(allow_nan=False, allow_infinity=False),
    st.integers(0, 12),
)
def test_a_decimal_is_kept_exactly_or_refused(value: Decimal, scale: int) -> None:
    found = cast(str(value), type="decimal", scale=scale)
    whole = int(abs(value)) < 10 ** (18 - scale) if abs(value.adjusted()) < 100 else value == 0 or value.adjusted() < 0
    digits = value.as_tuple()
    assert isinstance(digits.exponent, int)
    excess = -digits.exponent - scale  # digits behind the last that is kept
    exact = excess <= 0 or all(d == 0 for d in digits.digits[-excess:])
    assert found == (Reason.NOT_EXACT if not exact else value if whole else Reason.OUT_OF_RANGE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12.75", 12.75),
        ("+1.5", 1.5),
        (".5", 0.5),
        ("1e5", 1e5),
        ("-1E-5", -1e-5),
        ("0.1", 0.1),
        ("1e400", Reason.OUT_OF_RANGE),
        ("9" * 400, Reason.OUT_OF_RANGE),
        ("NaN", Reason.NOT_FINITE),
        ("inf", Reason.NOT_FINITE),
        ("-INFINITY", Reason.NOT_FINITE),
        ("1_0", Reason.NOT_A_NUMBER),
        ("0x10", Reason.NOT_A_NUMBER),
        (" 1", Reason.NOT_A_NUMBER),
        ("12abc", Reason.NOT_A_NUMBER),
        ("0.30000000000000004", 0.30000000000000004),  # 17 digits, and the shortest text of this double
        ("+0.30000000000000004", 0.30000000000000004),
        ("0.300000000000000040", 0.30000000000000004),
        ("30000000000000004e-17", 0.30000000000000004),
        ("0.10000000000000001", Reason.NOT_EXACT),  # the same double as 0.1
        ("0.1000000000000000055511151231257827021181583404541015625", Reason.NOT_EXACT),
        ("9007199254740993", Reason.NOT_EXACT),
        ("9007199254740992", 9007199254740992.0),
        ("1e23", 1e23),
        ("1e-400", Reason.NOT_EXACT),
        ("4.9e-324", Reason.NOT_EXACT),
        ("5e-324", 5e-324),
        ("1.7976931348623157e308", 1.7976931348623157e308),
        ("0e-9999", 0.0),
        ("-0", -0.0),
        ("000000000000000000000000012.50", 12.5),
        ("1" + "0" * 300, 1e300),
        ("1e", Reason.NOT_A_NUMBER),
        ("1e+", Reason.NOT_A_NUMBER),
        (".", Reason.NOT_A_NUMBER),
        ("e5", Reason.NOT_A_NUMBER),
        ("1e00005", Reason.NOT_A_NUMBER),
    ],
)
def test_numbers(text: str, expected: object) -> None:
    assert cast(text, type="number") == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_the_double_that_was_written(value: float) -> None:
    found = cast(repr(value), type="number")
    assert found == value and math.copysign(1, found) == math.copysign(1, value)


DIGITS = st.text("0123456789", max_size=22)


@given(DIGITS, DIGITS, st.none() | st.integers(-330, 330), st.sampled_from(["", "-", "+"]))
def test_a_number_is_exact_or_refused_however_it_is_written(
    whole: str, behind: str, power: int | None, sign: str
) -> None:
    text = f"{sign}{whole}.{behind}" + (f"e{power}" if power is not None else "")
    found = cast(text, type="number")
    if not whole + behind:
        assert found == Reason.NOT_A_NUMBER
    elif math.isinf(float(text)):
        assert found == Reason.OUT_OF_RANGE
    elif Decimal(repr(float(text))) == Decimal(text):
        assert found == float(text)
    else:
        assert found == Reason.NOT_EXACT


@given(DIGITS, st.text("0", max_size=3), st.booleans(), st.sampled_from(["", "-", "+"]))
def test_an_integer_is_kept_in_64_bits_with_or_without_a_sign(
    digits: str, zeros: str, unsigned: bool, sign: str
) -> None:
    text = f"{sign}{digits}" + (f".{zeros}" if zeros else "")
    lowest, highest = (0, 2**64 - 1) if unsigned else (-(2**63), 2**63 - 1)
    value = int(sign + (digits or "0")) if digits + zeros else None
    expected = Reason.NOT_AN_INTEGER if value is None else value if lowest <= value <= highest else Reason.OUT_OF_RANGE
    assert cast(text, type="integer", unsigned=unsigned) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("18446744073709551615", 2**64 - 1),
        ("18446744073709551616", Reason.OUT_OF_RANGE),
        ("99999999999999999999", Reason.OUT_OF_RANGE),
        ("-1", Reason.OUT_OF_RANGE),
        ("-0", 0),
        ("9223372036854775808", 2**63),
    ],
)
def test_unsigned_integers(text: str, expected: object) -> None:
    assert cast(text, type="integer", unsigned=True) == expected
    if isinstance(expected, int):
        assert cast(text, type="integer", unsigned=True, at_least=expected) == expected
        assert cast(text, type="integer", unsigned=True, at_most=expected) == expected


@pytest.mark.parametrize(
    ("thousands", "mark", "text", "expected"),
    [
        (".", ",", "1.234,5", "1234.5"),
        (".", ",", "1234,5", "1234.5"),
        (".", ",", "-1.234.567", "-1234567"),
        (".", ",", "1.234.567,25", "1234567.25"),
        (".", ",", ",5", "0.5"),
        (".", ",", "12.34,5", None),
        (".", ",", "1.2345", None),
        (".", ",", "1234.567", None),
        (".", ",", "1.234,567.8", None),
        (".", ",", ".234", None),
        (".", ",", "1..234", None),
        (".", ",", "1.234.", None),
        (".", ",", "1,234,5", None),
        (None, ",", "12,75", "12.75"),
        (None, ",", "12.75", None),
        ("'", ".", "1'000.5", "1000.5"),
        (",", ".", "1,000", "1000"),
        (",", ".", "1000000.5", "1000000.5"),
        (" ", ",", "12 345", "12345"),
        ("\u00a0", ",", "12\u00a0345,5", "12345.5"),
        ("\u202f", ",", "12\u202f345,5", "12345.5"),
        ("\u202f", ",", "12\u00a0345,5", None),
        ("_", ".", "1_000", "1000"),
    ],
)
def test_groups_of_three_are_right_or_it_is_no_number(
    thousands: str | None, mark: str, text: str, expected: str | None
) -> None:
    written = {"thousands": thousands, "decimal_mark": mark}
    for kind in ("number", "decimal", "integer"):
        whole = expected is not None and Decimal(expected) % 1 == 0
        found = cast(text, type=kind, **written)
        if expected is None or (kind == "integer" and not whole):
            assert found in (Reason.NOT_A_NUMBER, Reason.NOT_A_DECIMAL, Reason.NOT_AN_INTEGER)
        else:
            assert found == Decimal(expected)


def test_a_number_in_groups_that_is_too_long_for_the_loop_is_read_by_the_same_rules() -> None:
    groups = {"thousands": ".", "decimal_mark": ","}
    assert cast("1" + ".234" * 7, type="integer", **groups) == Reason.OUT_OF_RANGE
    assert cast("1" + ".234" * 6 + ".23", type="integer", **groups) == Reason.NOT_AN_INTEGER
    assert cast("1" + ".000" * 7, type="number", **groups) == 1e21
    assert cast("1" + ".234" * 7, type="number", **groups) == Reason.NOT_EXACT
    assert cast("0,30000000000000004", type="number", **groups) == 0.30000000000000004
    assert cast("0.30000000000000004", type="number", **groups) == Reason.NOT_A_NUMBER
    assert cast("nan", type="number", **groups) == Reason.NOT_FINITE


def test_marks_belong_to_texts_and_not_to_columns_that_the_file_has_typed() -> None:
    column = Column.model_validate({"type": "decimal", "thousands": ".", "decimal_mark": ","})
    values, reasons = cast_column(pa.array([1234.5, 0.1234567, 1e9]), column)
    assert values.to_pylist()[::2] == [Decimal("1234.5"), Decimal(10**9)]
    assert reasons.tolist() == [Reason.FINE, Reason.NOT_EXACT, Reason.FINE]


@pytest.mark.parametrize("kind", ["integer", "decimal", "number"])
@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [
        ({"at_least": 0}, ["0", "5"], ["-1"]),
        ({"at_most": 7}, ["7", "-9"], ["8"]),
        ({"between": (-2, 2)}, ["-2", "2"], ["-3", "3"]),
        ({"between": (0.5, 1.5)}, ["1"], ["0", "2"]),
    ],
)
def test_bounds_belong_to_what_is_allowed(kind: str, bounds: dict, inside: list[str], outside: list[str]) -> None:
    assert [cast(text, type=kind, **bounds) for text in inside] == [Decimal(text) for text in inside]
    assert {cast(text, type=kind, **bounds) for text in outside} == {Reason.OUT_OF_BOUNDS}


def test_a_decimal_bound_is_compared_exactly() -> None:
    assert cast("0.1", type="decimal", at_most=0.1) == Decimal("0.1")
    most = Decimal("123456789012.345677")  # one more than the digits of a double
    assert cast("123456789012.345677", type="decimal", at_most=most) == most
    assert cast("123456789012.345678", type="decimal", at_most=most) == Reason.OUT_OF_BOUNDS


def converted(values: Any, kind: pa.DataType, **column: Any) -> list[Any]:
    """What a typed column of a file becomes: values, or Reasons."""
    array = pa.array(values, kind)
    found, reasons = cast_column(array, Column(**column))
    assert found.type == Column(**column).arrow_type
    for other in (pa.concat_arrays([array, array]).slice(len(array)), array.dictionary_encode()):
        again, reasons_again = cast_column(other, Column(**column))
        assert reasons_again.tolist() == reasons.tolist()
        assert [again[at] for at in np.flatnonzero(reasons == 0)] == [found[at] for at in np.flatnonzero(reasons == 0)]
    return [v if r == Reason.FINE else Reason(r) for v, r in zip(found.to_pylist(), reasons.tolist(), strict=True)]


OUT, INEXACT = Reason.OUT_OF_RANGE, Reason.NOT_EXACT


@pytest.mark.parametrize(
    ("kind", "values", "column", "expected"),
    [
        (pa.int64(), [9007199254740993, None, -1], {"type": "id", "required": False}, ["9007199254740993", None, "-1"]),
        (pa.uint64(), [2**64 - 1], {"type": "id"}, ["18446744073709551615"]),
        (pa.float64(), [17850.0, 12.75, 1e300], {"type": "id"}, ["17850.0", "12.75", "1e+300"]),
        (pa.float64(), [17850.0, 12.75], {"type": "id", "strip_decimal_zero": True}, ["17850", "12.75"]),
        (pa.float64(), [float("nan"), None, 1.0], {"type": "id", "required": False}, [Reason.NOT_FINITE, None, "1.0"]),
        (pa.binary(), [b"x", "ä".encode(), b"\xff"], {"type": "id"}, ["x", "ä", Reason.NOT_TEXT]),
        (pa.binary(2), [b"ab", None], {"type": "id"}, ["ab", Reason.MISSING]),
        (pa.large_string(), ["a", None], {"type": "text"}, ["a", Reason.MISSING]),
        (pa.string_view(), ["a", "b"], {"type": "category"}, ["a", "b"]),
        (pa.decimal128(9, 2), [Decimal("17850.00")], {"type": "id", "strip_decimal_zero": True}, ["17850"]),
        (pa.bool_(), [True, None, False], {"type": "category"}, ["true", Reason.MISSING, "false"]),
        (pa.int8(), [0, 1, 2], {"type": "flag"}, [False, True, Reason.NOT_A_FLAG]),
        (pa.float64(), [0.0, 1.0], {"type": "flag", "true": ("1.0",), "false": ("0.0",)}, [False, True]),
        (pa.bool_(), [True, None, False], {"type": "flag", "required": False}, [True, None, False]),
        (pa.int32(), [5, None, -7], {"type": "integer", "at_least": 0}, [5, Reason.MISSING, Reason.OUT_OF_BOUNDS]),
        (pa.uint64(), [2**64 - 1, 2**63 - 1], {"type": "integer"}, [OUT, 2**63 - 1]),
        (pa.uint64(), [2**64 - 1, 0], {"type": "integer", "unsigned": True}, [2**64 - 1, 0]),
        (pa.int64(), [-1, 2**63 - 1], {"type": "integer", "unsigned": True}, [OUT, 2**63 - 1]),
        (pa.float64(), [5.0, 2.5, 2.0**53, 2.0**53 + 2], {"type": "integer"}, [5, Reason.NOT_AN_INTEGER, 2**53, INEXACT]),
        (pa.float64(), [float("nan"), float("-inf"), -1.0], {"type": "integer", "unsigned": True}, [Reason.NOT_FINITE] * 2 + [OUT]),
        (pa.float32(), [2.0**24, 2.0**24 + 2], {"type": "integer"}, [2**24, INEXACT]),
        (pa.decimal128(20, 2), [Decimal("12.00"), Decimal("12.50")], {"type": "integer"}, [12, Reason.NOT_AN_INTEGER]),
        (pa.bool_(), [True], {"type": "integer"}, [Reason.NOT_AN_INTEGER]),
        (pa.float64(), [0.1, float("nan"), -0.5], {"type": "number", "at_least": 0}, [0.1, Reason.NOT_FINITE, Reason.OUT_OF_BOUNDS]),
        (pa.float32(), [0.5, 0.1], {"type": "number"}, [0.5, float(np.float32(0.1))]),
        (pa.int64(), [2**53, 2**53 + 1, -5], {"type": "number"}, [2.0**53, INEXACT, -5.0]),
        (pa.decimal128(38, 20), [Decimal("0.1"), Decimal("0.10000000000000000001")], {"type": "number"}, [0.1, INEXACT]),
        (pa.int64(), [3, 10**12, -(10**12) + 1], {"type": "decimal"}, [3, OUT, -(10**12) + 1]),
        (pa.uint64(), [2**64 - 1, 7], {"type": "decimal", "scale": 0}, [OUT, 7]),
        (pa.decimal128(18, 2), [Decimal("1.50"), Decimal("-0.01")], {"type": "decimal", "scale": 2}, [Decimal("1.5"), Decimal("-0.01")]),
        (pa.decimal128(10, 4), [Decimal("1.5"), Decimal("1.2345")], {"type": "decimal", "scale": 2}, [Decimal("1.5"), INEXACT]),
        (pa.decimal128(18, 0), [Decimal(10**12 - 1), Decimal(10**12)], {"type": "decimal"}, [Decimal(10**12 - 1), OUT]),
        (pa.decimal256(60, 30), [Decimal("12.75"), Decimal(10**20)], {"type": "decimal"}, [Decimal("12.75"), OUT]),
        (pa.float64(), [12.75, 0.1, 1e-7, 1e17, float("inf")], {"type": "decimal"}, [Decimal("12.75"), Decimal("0.1"), INEXACT, OUT, Reason.NOT_FINITE]),
        (pa.float64(), [123456789012.34567], {"type": "decimal"}, [Decimal("123456789012.34567")]),
        (pa.float32(), [0.1, 16777.215], {"type": "decimal"}, [Decimal("0.1"), Decimal("16777.215")]),
        (pa.timestamp("us"), [0], {"type": "integer"}, [Reason.NOT_AN_INTEGER]),
        (pa.timestamp("us", "Europe/Berlin"), [1], {"type": "text"}, ["1970-01-01 00:00:00.000001Z"]),
        (pa.date32(), [1], {"type": "category"}, ["1970-01-02"]),
        (pa.null(), [None], {"type": "integer"}, [Reason.MISSING]),
        (pa.float64(), [None, 2.5, 3.0], {"type": "integer", "required": False}, [None, Reason.NOT_AN_INTEGER, 3]),
        *(
            (kind, [None, 5, None], {"type": to, "required": False}, [None, 5, None])
            for kind in (pa.int16(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.decimal128(30, 2))
            for to in ("integer", "number", "decimal")
        ),
    ],
)  # fmt: skip
def test_a_typed_column_becomes_the_contract_s_type_exactly(
    kind: pa.DataType, values: list, column: dict, expected: list
) -> None:
    assert converted(values, kind, **column) == expected


@given(st.lists(st.floats(allow_nan=False), min_size=1), st.integers(0, 12), st.sampled_from([32, 64]))
def test_a_float_is_the_decimal_that_its_shortest_text_says(values: list[float], scale: int, bits: int) -> None:
    column = {"type": "decimal", "scale": scale}
    kind = pa.float64() if bits == 64 else pa.float32()
    with np.errstate(over="ignore"):
        array = pa.array(np.array(values, f"f{bits // 8}"))
    texts = texts_of(array).to_pylist()
    assert converted(array, kind, **column) == [cast(text, **column) for text in texts]


@given(
    st.lists(st.decimals(-(10**17), 10**17, places=4), min_size=1), st.sampled_from(["integer", "decimal", "number"])
)
def test_a_typed_decimal_is_what_its_text_is(values: list[Decimal], kind: str) -> None:
    assert converted(values, pa.decimal128(30, 4), type=kind) == [cast(f"{value:f}", type=kind) for value in values]
    small = [value % 1000 for value in values]
    assert converted(small, pa.decimal128(18, 4), type=kind) == [cast(f"{value:f}", type=kind) for value in small]


@pytest.mark.parametrize(
    ("kind", "values", "words", "expected"),
    [
        (pa.string(), ["", "-", "NULL", None, "x"], ["", "NULL"], [None, "-", None, None, "x"]),
        (pa.string(), ["x", "ab"], ["abc"], ["x", "ab"]),
        (pa.int32(), [-1, 0, None], ["-1", "", "nan"], [None, 0, None]),
        (pa.float64(), [-1.0, -1.5], ["-1", "-1.5"], [-1.0, None]),
        (pa.float64(), [1.0, float("nan")], ["nan"], [1.0, None]),
        (pa.bool_(), [True, False], ["", "0"], [True, False]),
        (pa.large_string(), ["", "a"], [""], [None, "a"]),
    ],
)
def test_null_words_stand_for_no_value_in_columns_of_every_type(
    kind: pa.DataType, values: list, words: list[str], expected: list
) -> None:
    array = pa.array(values, kind)
    assert without_nulls(array, words).to_pylist() == expected
    assert without_nulls(pa.concat_arrays([array, array]).slice(len(array)), words).to_pylist() == expected
    assert without_nulls(array.dictionary_encode(), words).to_pylist() == expected


def test_a_column_s_own_null_words_take_the_place_of_the_source_s(room: Room) -> None:
    columns = '{a: {type: text, required: false, nulls: ["-"]}, u: {as: user, type: id, required: false}}'
    dataset = room.dataset(columns, source='format: csv, nulls: ["NULL"]')
    times = ["2025-03-01T00:00:00Z"] * 3
    rows = typed(dataset, pa.table({"t": times, "a": ["-", "NULL", ""], "u": ["-", "NULL", ""]})).rows
    assert rows["a"].to_pylist() == [None, "NULL", ""]
    assert rows["user"].to_pylist() == ["-", None, ""]


def test_the_first_failing_column_is_named_and_null_words_are_the_contract_s(room: Room) -> None:
    columns = "{a: {type: integer}, u: {as: user, type: id, required: false}, b: {type: number, required: false}}"
    dataset = room.dataset(columns, source='format: csv, nulls: ["", "NULL", "-"]')
    table = pa.table(
        {
            "event_time": ["2025-03-01T00:00:00Z", "never", "2025-03-01T00:00:00Z", "-", "2025-03-01T00:00:00Z"],
            "a": ["1", "x", "NULL", "1", "1"],
            "u": ["null", "u", "-", "u", ""],
            "b": ["1", "1", "x", "x", "NULL"],
        }
    )
    found = typed(dataset, table)
    assert [Reason(code) for code in found.reason] == [
        *(Reason.FINE, Reason.UNREADABLE_TIME, Reason.MISSING, Reason.MISSING, Reason.FINE),
    ]
    assert found.column[1:4].tolist() == [0, 1, 0]
    assert found.rows["user"].to_pylist() == ["null", "u", None, "u", None]
    assert found.rows["b"].to_pylist() == [1.0, 1.0, None, None, None]
