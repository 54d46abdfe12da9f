"""Texts as the contract's integers, decimals and doubles, exactly: what would change when written back is a failure.

Compiled loops take what is plainly written. A double of 16 or 17 digits is compared with the shortest text of what it
became; everything else is looked at one by one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.ingestion.reasons import Reason
from resources.contract.buffers import array_over, text_bytes, validity
from resources.contract.column import Column

DIGITS = 18  # of a decimal
_INTEGER = re.compile(r"([+-]?[0-9]+)(\.0*)?")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_POINT, _NO_MARK = np.frombuffer(b".", np.uint8), np.empty(0, np.uint8)
_PLAIN = Column.model_validate({"type": "integer"})
_POWER = 280  # of ten: far enough from where doubles end

Cast = tuple[pa.Array, np.ndarray]  # values (null where they failed), a Reason per value (uint8)


def whole_range(column: Column) -> tuple[int, int]:
    """The lowest and highest integer that an integer column keeps."""
    return (0, 2**64 - 1) if column.unsigned else (-(2**63), 2**63 - 1)


def integers(text: pa.Array, column: Column) -> Cast:
    """Whole numbers of 64 bits; `5.0` is one, `1e3` is not."""
    values, plain = _fixed_point(text, column, powers=False, scale=0, limits=whole_range(column))
    return _with_others(text, column, array_over(values, column.arrow_type, missing=~plain), plain, other=_integer)


def decimals(text: pa.Array, column: Column) -> Cast:
    """Decimals of 18 digits, `scale` of them behind the point."""
    limits = (1 - 10**DIGITS, 10**DIGITS - 1)
    units, plain = _fixed_point(text, column, powers=True, scale=column.scale, limits=limits)
    return _with_others(text, column, decimals_of(units, column, missing=~plain), plain, other=_decimal)


def units_of(text: pa.Array, *, scale: int) -> tuple[np.ndarray, np.ndarray]:
    """Plain decimals times 10**scale as int64, and bool: which texts are one, exactly."""
    units, plain = _fixed_point(text, _PLAIN, powers=False, scale=scale, limits=whole_range(_PLAIN))
    return units.view(np.int64), plain


def decimals_of(units: np.ndarray, column: Column, *, missing: np.ndarray) -> pa.Array:
    """An Arrow array of decimals from 64-bit integers of their last digit."""
    signed = units.view(np.int64)
    return array_over(np.stack([signed, signed >> 63], axis=1), column.arrow_type, missing=missing)


def numbers(text: pa.Array, column: Column) -> Cast:
    """Doubles whose shortest text says what was written, but for signs, zeros and the way the power of ten is put."""
    from assets.ingestion.kernels import casting as kernel

    values, codes = np.empty(len(text)), np.empty(len(text), np.uint8)
    parts, exponents = np.zeros(len(text), np.uint64), np.zeros(len(text), np.int64)
    kernel.doubles(*text_bytes(text), *validity(text), *_marks(column), values, parts, exponents, codes)
    rows = np.flatnonzero((codes == kernel.DIGITS) & (np.abs(exponents) <= _POWER))
    codes[codes == kernel.DIGITS] = kernel.OTHER
    if len(rows) and (column.thousands, column.decimal_mark) == (None, "."):
        read = pc.utf8_ltrim(text.take(rows), "+").cast(pa.float64())
        same = _as_shortest(read, parts[rows], exponents[rows])
        values[rows[same]], codes[rows[same]] = read.to_numpy()[same], kernel.FINE
    plain = codes == kernel.FINE
    return _with_others(text, column, array_over(values, pa.float64(), missing=~plain), plain, other=_number)


def roughly(text: pa.Array) -> np.ndarray:
    """The texts that are numerals, as doubles good to 15 digits and without their sign."""
    from assets.ingestion.kernels import casting as kernel

    parts, exponents, codes = (
        np.zeros(len(text), np.uint64),
        np.zeros(len(text), np.int64),
        np.zeros(len(text), np.uint8),
    )
    marks = (_NO_MARK, _POINT)
    kernel.doubles(*text_bytes(text), *validity(text), *marks, np.empty(len(text)), parts, exponents, codes)
    read = (codes == kernel.FINE) | (codes == kernel.DIGITS)
    return parts[read] * 10.0 ** exponents[read]


def _as_shortest(values: pa.Array, parts: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Whether the shortest text of each double has these digits and this power of ten."""
    from assets.ingestion.kernels import casting as kernel

    text, again = values.cast(pa.string()), (np.empty_like(parts), np.empty_like(exponents))
    codes = np.empty(len(text), np.uint8)
    kernel.doubles(*text_bytes(text), *validity(text), _NO_MARK, _POINT, np.empty(len(text)), *again, codes)
    return (codes != kernel.OTHER) & (again[0] == parts) & (again[1] == exponents)


def _fixed_point(
    text: pa.Array, column: Column, *, powers: bool, scale: int, limits: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray]:
    """Each text times 10**scale as 64 bits, and bool: where the loop was certain."""
    from assets.ingestion.kernels import casting as kernel

    values, codes = np.empty(len(text), np.uint64), np.empty(len(text), np.uint8)
    below, above = np.uint64(-limits[0]), np.uint64(limits[1])
    kernel.fixed_point(*text_bytes(text), *validity(text), *_marks(column), powers, scale, below, above, values, codes)
    return values, codes == kernel.FINE


def _marks(column: Column) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of the marks between groups of three digits, and before the decimals."""
    thousands, mark = (column.thousands or "").encode(), column.decimal_mark.encode()
    return np.frombuffer(thousands, np.uint8) if thousands else _NO_MARK, np.frombuffer(mark, np.uint8)


def _with_others(
    text: pa.Array, column: Column, values: pa.Array, plain: np.ndarray, *, other: Callable[[str, Column], tuple]
) -> Cast:
    """The values with those that the loops left over, read one by one; a null is FINE here."""
    reasons = np.zeros(len(text), np.uint8)
    rows = np.flatnonzero(~plain)
    if text.null_count:
        rows = rows[text.take(rows).is_valid().to_numpy(zero_copy_only=False)]
    if len(rows):
        each = [other(_plain(value, column), column) for value in text.take(rows).to_pylist()]
        reasons[rows] = [reason for _, reason in each]
        late = np.flatnonzero(reasons[rows] == Reason.FINE)
        if len(late):
            mask = np.zeros(len(text), bool)
            mask[rows[late]] = True
            found = pa.array([each[place][0] for place in late], values.type)
            values = pc.replace_with_mask(values, pa.array(mask), found)
    return values, reasons


def _plain(text: str, column: Column) -> str:
    """A numeral with the declared marks as one with a point and none between its groups; where it is none, no numeral."""
    if column.thousands is None and column.decimal_mark == ".":
        return text
    group, mark = re.escape(column.thousands or "\0"), re.escape(column.decimal_mark)
    found = re.fullmatch(
        rf"([+-]?)([0-9]{{1,3}}(?:{group}[0-9]{{3}})+|[0-9]*)(?:{mark}([0-9]*))?([eE].*)?", text, re.DOTALL
    )
    if found is None:
        return text if _NOT_FINITE.fullmatch(text) else ""
    sign, whole, behind, power = found.groups(default="")
    return f"{sign}{whole.replace(column.thousands or '', '')}{'.' if found[3] is not None else ''}{behind}{power}"


def _integer(text: str, column: Column) -> tuple[int | None, Reason]:
    found = _INTEGER.fullmatch(text)
    if not found:
        return None, Reason.NOT_FINITE if _NOT_FINITE.fullmatch(text) else Reason.NOT_AN_INTEGER
    digits = found[1].lstrip("+-").lstrip("0")[:40]  # as many are far out of range, and quickly read
    value = int(digits or 0) * (-1 if text.startswith("-") else 1)
    lowest, highest = whole_range(column)
    return (value, Reason.FINE) if lowest <= value <= highest else (None, Reason.OUT_OF_RANGE)


def _decimal(text: str, column: Column) -> tuple[Decimal | None, Reason]:
    if not _NUMBER.fullmatch(text):
        return None, Reason.NOT_FINITE if _NOT_FINITE.fullmatch(text) else Reason.NOT_A_DECIMAL
    sign, digits, exponent = Decimal(text).as_tuple()
    assert isinstance(exponent, int)
    written = "".join(map(str, digits)).lstrip("0")
    kept = written.rstrip("0")
    exponent += len(written) - len(kept)
    if not kept:
        return Decimal(0), Reason.FINE
    if -exponent > column.scale:
        return None, Reason.NOT_EXACT
    if len(kept) + exponent > DIGITS - column.scale:
        return None, Reason.OUT_OF_RANGE
    return Decimal((sign, tuple(map(int, kept)), exponent)), Reason.FINE


def _number(text: str, _: Column) -> tuple[float | None, Reason]:
    if not _NUMBER.fullmatch(text):
        return None, Reason.NOT_FINITE if _NOT_FINITE.fullmatch(text) else Reason.NOT_A_NUMBER
    value = float(text)
    if not math.isfinite(value):
        return None, Reason.OUT_OF_RANGE
    return (value, Reason.FINE) if Decimal(text) == Decimal(repr(value)) else (None, Reason.NOT_EXACT)
