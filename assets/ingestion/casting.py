"""Texts as the contract's types, exactly: what would change when written back is a failure, never a rounding.

Each distinct text is cast once: the plainly written ones by Arrow, the others one by one. A failure is a
`Reason` per value; nothing here raises because of data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.ingestion.reasons import Reason
from assets.ingestion.times import instants
from resources.contract.column import Column
from resources.contract.dataset import Dataset

_INTEGER = re.compile(r"([+-]?[0-9]+)(\.0*)?")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_DIGITS = 18  # of a decimal, and what surely fits into 64 bits

Cast = tuple[pa.Array, np.ndarray]  # values (undefined where they failed), a Reason per value (uint8)


@dataclass(frozen=True, kw_only=True)
class Typed:
    """Rows as the contract types them. `reason` is 0 where a row is good; `column` is undefined there."""

    rows: pa.Table  # the columns of dataset.row_schema; null where a value failed
    times_us: np.ndarray  # event_time; 0 where it failed
    reason: np.ndarray  # uint8: the Reason of the first failing column
    column: np.ndarray  # int16: which of the declared columns that was, the time being 0
    ambiguous: np.ndarray  # bool: zone-less times that a clock change repeats, taken as the earlier


def typed(dataset: Dataset, columns: pa.Table) -> Typed:
    """Text columns, in the contract's order with the time first, as typed rows with their failures."""
    texts = [without_nulls(column.combine_chunks(), dataset.source.nulls) for column in columns.columns]
    found = instants(texts[0], dataset.time)
    times = pa.array(found.times_us, mask=found.reasons != Reason.FINE).cast(pa.timestamp("us", tz="UTC"))
    casts = [(times, found.reasons)]
    casts += [cast_column(text, column) for text, column in zip(texts[1:], dataset.columns.values(), strict=True)]
    reason = np.zeros(columns.num_rows, dtype=np.uint8)
    place = np.zeros(columns.num_rows, dtype=np.int16)
    for index, (_, reasons) in reversed(list(enumerate(casts))):  # the first failing column stays
        failed = reasons != Reason.FINE
        reason[failed], place[failed] = reasons[failed], index
    return Typed(
        rows=pa.table(dict(zip(dataset.row_columns, (values for values, _ in casts), strict=True))),
        times_us=found.times_us,
        reason=reason,
        column=place,
        ambiguous=found.ambiguous,
    )


def without_nulls(text: pa.Array, words: Sequence[str]) -> pa.Array:
    """The column with the contract's null words as nulls."""
    named = pc.is_in(text, value_set=pa.array(words, pa.string()))
    return pc.if_else(named, None, text) if pc.any(named).as_py() else text


def cast_column(text: pa.Array, column: Column) -> Cast:
    """One text column as its declared type, with `required` and the bounds checked."""
    null = np.uint8(Reason.MISSING if column.required else Reason.FINE)
    if column.type not in _CASTS:  # ids, categories and texts are what was written
        missing = text.is_null().to_numpy(zero_copy_only=False)
        return _without_decimal_zero(text) if column.strip_decimal_zero else text, missing * null
    encoded = text.dictionary_encode()
    values, reasons = _CASTS[column.type](encoded.dictionary, column)
    if column.is_number:
        reasons[(reasons == Reason.FINE) & _out_of_bounds(values, column)] = Reason.OUT_OF_BOUNDS
    values = pc.if_else(pa.array(reasons == Reason.FINE), values, None)
    places = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
    return values.take(encoded.indices), np.append(reasons, null)[places]


def _without_decimal_zero(text: pa.Array) -> pa.Array:
    """Ids that went through a float on their way: "17850.0" is 17850."""
    return pc.replace_substring_regex(text, pattern=r"^([+-]?[0-9]+)\.0+$", replacement=r"\1")


def _flags(text: pa.Array, column: Column) -> Cast:
    words = pc.utf8_lower(text)
    yes, no = (pc.is_in(words, value_set=pa.array([w.lower() for w in said])) for said in (column.true, column.false))
    known = pc.or_(yes, no).to_numpy(zero_copy_only=False)
    return yes, np.where(known, Reason.FINE, Reason.NOT_A_FLAG).astype(np.uint8)


def _integers(text: pa.Array, column: Column) -> Cast:
    return _cast(text, column, plain=rf"^-?[0-9]{{1,{_DIGITS}}}$", other=_integer)


def _decimals(text: pa.Array, column: Column) -> Cast:
    point = rf"(\.[0-9]{{1,{column.scale}}})?" if column.scale else ""
    return _cast(text, column, plain=rf"^-?[0-9]{{1,{_DIGITS - column.scale}}}{point}$", other=_decimal)


def _numbers(text: pa.Array, column: Column) -> Cast:
    return _cast(text, column, plain=r"^-?[0-9]{1,18}(\.[0-9]{1,18})?$", other=_number)


def _cast(text: pa.Array, column: Column, *, plain: str, other: Callable[[str, Column], tuple[object, Reason]]) -> Cast:
    """Values that match the regex `plain` by Arrow's cast, which takes those as they are; each other one by `other`."""
    matched = pc.match_substring_regex(text, plain)
    values = pc.if_else(matched, text, None).cast(column.arrow_type)
    reasons = np.zeros(len(text), dtype=np.uint8)
    rest = pc.invert(matched)
    if pc.any(rest).as_py():
        each = [other(value, column) for value in text.filter(rest).to_pylist()]
        values = pc.replace_with_mask(values, rest, pa.array([value for value, _ in each], column.arrow_type))
        reasons[rest.to_numpy(zero_copy_only=False)] = [reason for _, reason in each]
    return values, reasons


def _integer(text: str, _: Column) -> tuple[int | None, Reason]:
    found = _INTEGER.fullmatch(text)
    if not found:
        return None, Reason.NOT_FINITE if _NOT_FINITE.fullmatch(text) else Reason.NOT_AN_INTEGER
    digits = found[1]
    value = int(digits) if len(digits) < 40 else 2**63
    return (value, Reason.FINE) if -(2**63) <= value < 2**63 else (None, Reason.OUT_OF_RANGE)


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
    if len(kept) + exponent > _DIGITS - column.scale:
        return None, Reason.OUT_OF_RANGE
    return Decimal((sign, tuple(map(int, kept)), exponent)), Reason.FINE


def _number(text: str, _: Column) -> tuple[float | None, Reason]:
    if not _NUMBER.fullmatch(text):
        return None, Reason.NOT_FINITE if _NOT_FINITE.fullmatch(text) else Reason.NOT_A_NUMBER
    value = float(text)
    return (value, Reason.FINE) if math.isfinite(value) else (None, Reason.OUT_OF_RANGE)


_CASTS: dict[str, Callable[[pa.Array, Column], Cast]] = {
    "flag": _flags,
    "integer": _integers,
    "decimal": _decimals,
    "number": _numbers,
}


def _out_of_bounds(values: pa.Array, column: Column) -> np.ndarray:
    """Whether each value lies outside the contract's bounds, which belong to what is allowed."""
    outside = np.zeros(len(values), dtype=bool)
    for bound, compare, whole in zip(column.bounds, (pc.less, pc.greater), (math.ceil, math.floor), strict=True):
        if bound is not None:
            limit = {"integer": whole, "number": float}.get(column.type, Decimal)(bound)
            if column.type == "integer":
                limit = max(-(2**63), min(2**63 - 1, limit))
            outside |= compare(values, pa.scalar(limit)).fill_null(False).to_numpy(zero_copy_only=False)
    return outside
