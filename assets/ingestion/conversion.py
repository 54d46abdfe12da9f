"""Columns that a file has typed itself as the contract's types: straight from one to the other wherever that is exact.

What has no such way goes by its text, the one that says the same: a float's is the shortest, with `.0` where it is
whole, as CSV exports write it. An id that passed through a float is the contract's to accept, not ours to hide.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.ingestion.numerals import DIGITS, Cast, decimals_of, whole_range
from assets.ingestion.reasons import Reason
from resources.contract.buffers import array_over, fixed_width
from resources.contract.column import Column

BY_TEXT = np.uint8(255)
_BYTES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
_EXACT = {32: 2**24, 64: 2**53}  # floats of so many bits hold every integer up to here
_SHORT = {32: 10**6, 64: 10**15}  # ... and have one of their own for every numeral of so many units


def texts_of(column: pa.Array) -> pa.Array:
    """Each value as the text that says exactly the same; null for bytes that are none."""
    kind = column.type
    if isinstance(column, pa.DictionaryArray):
        return texts_of(column.dictionary).take(column.indices)
    if pa.types.is_string(kind):
        return column
    if any(holds(kind) for holds in _BYTES):
        return _decoded(column.cast(pa.large_binary()))
    if pa.types.is_timestamp(kind) and kind.tz:
        column = column.cast(pa.timestamp(kind.unit, "UTC"))  # the same instants, without asking a zone database
    texts = column.cast(pa.string())
    if not pa.types.is_floating(kind):
        return texts
    numbers = column.cast(pa.float64())
    whole = pc.and_(pc.equal(pc.floor(numbers), numbers), pc.less(pc.abs(numbers), float(_EXACT[64])))
    integers = pc.if_else(whole, numbers, None).cast(pa.int64()).cast(pa.string())
    return pc.if_else(whole, pc.binary_join_element_wise(integers, "0", "."), texts)


def _decoded(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(value) for value in column.to_pylist()], pa.string())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def converted(values: pa.Array, column: Column) -> Cast | None:
    """The values of a typed column, without a look at any text; None where it has to be looked at.

    A row's Reason is BY_TEXT where only its text tells.
    """
    kind = values.type
    if column.type == "flag" and pa.types.is_boolean(kind):
        return values, np.zeros(len(values), np.uint8)
    if not column.is_number:
        return None
    if pa.types.is_integer(kind):
        return _of_integers(values, column)
    if pa.types.is_floating(kind):
        bits = kind.bit_width
        return _of_floats(fixed_width(values.cast(pa.float64()), np.float64), column, bits=bits)
    if pa.types.is_decimal(kind) and kind.precision <= DIGITS and column.type == "decimal":
        words = fixed_width(values.cast(pa.decimal128(38, kind.scale)), np.dtype("2i8"))
        return _of_decimals(np.ascontiguousarray(words[:, 0]), column, scale=kind.scale)
    return None


def _of_integers(values: pa.Array, column: Column) -> Cast:
    kind = values.type
    signed = not pa.types.is_uint64(kind)
    whole = fixed_width(values, np.dtype(kind.to_pandas_dtype())).astype(np.int64 if signed else np.uint64, copy=False)
    if column.type == "number":
        found = (whole <= _EXACT[64]) & (whole >= -_EXACT[64]) if signed else whole <= _EXACT[64]
        return _array(whole.astype(np.float64), column, np.where(found, Reason.FINE, BY_TEXT))
    unit = 10**column.scale if column.type == "decimal" else 1
    lowest, highest = (1 - 10**DIGITS, 10**DIGITS - 1) if column.type == "decimal" else whole_range(column)
    within = np.ones(len(whole), bool)
    if highest // unit < np.iinfo(whole.dtype).max:
        within &= whole <= highest // unit
    if -(-lowest // unit) > np.iinfo(whole.dtype).min:
        within &= whole >= -(-lowest // unit)
    scaled = whole if unit == 1 else np.where(within, whole, 0).astype(np.int64) * unit
    return _array(scaled, column, np.where(within, Reason.FINE, Reason.OUT_OF_RANGE))


def _of_floats(floats: np.ndarray, column: Column, *, bits: int) -> Cast:
    finite = np.isfinite(floats)
    reasons = np.where(finite, Reason.FINE, Reason.NOT_FINITE)
    if column.type == "number":
        return _array(floats, column, reasons)
    floats = np.where(finite, floats, 0.0)
    if column.type == "integer":
        reasons[finite & (np.floor(floats) != floats)] = Reason.NOT_AN_INTEGER
        reasons[(reasons == Reason.FINE) & (np.abs(floats) > _EXACT[bits])] = Reason.NOT_EXACT
        if column.unsigned:
            reasons[(reasons == Reason.FINE) & (floats < 0)] = Reason.OUT_OF_RANGE
        return _array(np.where(reasons == Reason.FINE, floats, 0.0).astype(np.int64), column, reasons)
    unit = 10.0**column.scale
    with np.errstate(over="ignore"):
        units = np.rint(floats * unit)
        short = np.abs(units) < _SHORT[bits]  # so the numeral of so many units has a float of its own: is it this one?
        same = (units / unit).astype(f"f{bits // 8}") == floats
    reasons[finite & ~(short & same)] = BY_TEXT
    return _array(np.where(short, units, 0.0).astype(np.int64), column, reasons)


def _of_decimals(units: np.ndarray, column: Column, *, scale: int) -> Cast:
    reasons = np.zeros(len(units), np.uint8)
    finer = column.scale - scale
    if finer < 0:
        units, rest = np.divmod(units, 10 ** min(-finer, DIGITS))
        reasons[rest != 0] = Reason.NOT_EXACT
    else:
        outside = np.abs(units) > (10**DIGITS - 1) // 10**finer
        reasons[outside] = Reason.OUT_OF_RANGE
        units = np.where(outside, 0, units) * 10**finer
    return _array(units, column, reasons)


def _array(values: np.ndarray, column: Column, reasons: np.ndarray) -> Cast:
    failed = reasons != Reason.FINE
    if column.type == "decimal":
        return decimals_of(values, column, missing=failed), reasons.astype(np.uint8)
    return array_over(values, column.arrow_type, missing=failed), reasons.astype(np.uint8)
