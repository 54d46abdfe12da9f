"""Every text is cast exactly or fails with its reason; nothing is ever rounded, trimmed or guessed."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.ingestion.casting import cast_column, typed
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
    ],
)
def test_numbers(text: str, expected: object) -> None:
    assert cast(text, type="number") == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_the_double_that_was_written(value: float) -> None:
    found = cast(repr(value), type="number")
    assert found == value and math.copysign(1, found) == math.copysign(1, value)


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
