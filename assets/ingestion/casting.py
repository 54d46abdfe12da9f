"""A file's columns as the contract's types, exactly: what would change when written back is a failure, never a rounding.

A failure is a `Reason` per value; nothing here raises because of data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.ingestion.conversion import BY_TEXT, converted, texts_of
from assets.ingestion.numerals import Cast, decimals, integers, numbers, whole_range
from assets.ingestion.reasons import Reason
from assets.ingestion.times import instants
from resources.contract.buffers import array_over, is_text, text_bytes, validity
from resources.contract.column import Column
from resources.contract.dataset import Dataset
from resources.contract.source import Time


@dataclass(frozen=True, kw_only=True)
class Typed:
    """Rows as the contract types them. `reason` is 0 where a row is good; `column` is undefined there."""

    rows: pa.Table  # of dataset.row_schema, categories perhaps as dictionaries; what failed is null or anything
    times_us: np.ndarray  # event_time; 0 where it failed
    reason: np.ndarray  # uint8: the Reason of the first failing column
    column: np.ndarray  # int16: which of the declared columns that was, the time being 0
    ambiguous: np.ndarray  # bool: zone-less times that a clock change repeats, taken by the contract's rule
    skipped: np.ndarray  # bool: zone-less times that a clock change leaves out, shifted by the contract's rule


def typed(dataset: Dataset, columns: pa.Table, *, time: Time | None = None) -> Typed:
    """A chunk's columns, in the contract's order with the time first, as typed rows with their failures.

    Args:
        time: how its times are written, where the contract leaves that to the file.
    """
    landed = [column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for column in columns.columns]
    found = instants(without_nulls(landed[0], dataset.source.nulls), time or dataset.time)
    untimed = found.reasons != Reason.FINE
    casts = [(array_over(found.times_us, pa.timestamp("us", "UTC"), missing=untimed), found.reasons)]
    for values, column in zip(landed[1:], dataset.columns.values(), strict=True):
        nulls = dataset.source.nulls if column.nulls is None else column.nulls
        casts.append(cast_column(without_nulls(values, nulls), column))
    reason = np.zeros(columns.num_rows, dtype=np.uint8)
    place = np.zeros(columns.num_rows, dtype=np.int16)
    for index, (_, reasons) in reversed(list(enumerate(casts))):  # the first failing column stays
        if reasons.any():
            failed = reasons != Reason.FINE
            reason[failed], place[failed] = reasons[failed], index
    arrays = [values for values, _ in casts]
    fields = [field.with_type(values.type) for field, values in zip(dataset.row_schema, arrays, strict=True)]
    return Typed(
        rows=pa.Table.from_arrays(arrays, schema=pa.schema(fields)),
        times_us=found.times_us,
        reason=reason,
        column=place,
        ambiguous=found.ambiguous,
        skipped=found.skipped,
    )


def without_nulls(values: pa.Array, words: Sequence[str]) -> pa.Array:
    """The column with the contract's null words as nulls; of a typed one, the values that are written like them."""
    kind = values.type
    if isinstance(values, pa.DictionaryArray):
        distinct = values.dictionary
        kept = without_nulls(distinct, words)
        return values if kept is distinct else pa.DictionaryArray.from_arrays(values.indices, kept)
    if not words or len(values) == 0 or pa.types.is_null(kind):
        return values
    if pa.types.is_string(kind):
        from assets.ingestion.kernels.casting import named

        found = np.empty(len(values), np.bool_)
        if not named(*text_bytes(values), *validity(values), *text_bytes(pa.array(words, pa.string())), found):
            return values
        return pc.if_else(pa.array(found), None, values)
    if is_text(kind):
        return without_nulls(texts_of(values), words)
    named_values = [value for word in words if (value := _value_of(word, kind)) is not None]
    if not named_values:
        return values
    found = pc.is_in(values, value_set=pa.array(named_values, kind))
    return pc.if_else(found, None, values) if pc.any(found).as_py() else values


def _value_of(word: str, kind: pa.DataType) -> object:
    """The value of a type that is written like this word, if there is one."""
    try:
        value = pa.array([word]).cast(kind)
        return value[0].as_py() if texts_of(value)[0].as_py() == word else None
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def cast_column(values: pa.Array, column: Column) -> Cast:
    """One column as its declared type, with `required` and the bounds checked: values, and a Reason each."""
    if isinstance(values, pa.DictionaryArray):
        return _of_dictionary(values, column)
    found, reasons = _unbounded(values, column)
    if column.is_number:
        _bound(found, reasons, column)
    if values.null_count:
        reasons[values.is_null().to_numpy(zero_copy_only=False)] = Reason.MISSING if column.required else Reason.FINE
    return found, reasons


def _of_dictionary(values: pa.DictionaryArray, column: Column) -> Cast:
    """Each distinct value is cast once; a category that is one already stays a dictionary, which is quicker to move."""
    found, reasons = cast_column(values.dictionary, column)
    null = np.uint8(Reason.MISSING if column.required else Reason.FINE)
    if reasons.any() or values.null_count:
        places = values.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)
        reasons = np.append(reasons, null)[places]
    else:
        reasons = np.zeros(len(values), np.uint8)
    stays = column.type == "category" and found is values.dictionary and not found.null_count
    return values if stays else found.take(values.indices), reasons


def _unbounded(values: pa.Array, column: Column) -> Cast:
    """The values in their type, nulls among them; what is said of those does not matter."""
    if is_text(values.type):
        return _CASTS[column.type](texts_of(values), column)
    plain = column.model_copy(update={"thousands": None, "decimal_mark": "."})  # the marks are those of texts
    direct = converted(values, column)
    if direct is None:
        if column.type == "flag":  # whose distinct values are few
            words = values.dictionary_encode()
            return _of_dictionary(pa.DictionaryArray.from_arrays(words.indices, texts_of(words.dictionary)), column)
        texts = texts_of(values)
        found, reasons = _CASTS[column.type](texts, plain)
        if pa.types.is_floating(values.type):  # two that are no numbers are not the same id
            finite = pc.is_finite(values).fill_null(True)
            reasons[~finite.to_numpy(zero_copy_only=False)] = Reason.NOT_FINITE
        if texts.null_count > values.null_count:
            no_text = pc.and_(texts.is_null(), values.is_valid())
            reasons[no_text.to_numpy(zero_copy_only=False)] = Reason.NOT_TEXT
        return found, reasons
    found, reasons = direct
    if values.null_count:
        found = pc.if_else(values.is_valid(), found, None)
    rows = np.flatnonzero(reasons == BY_TEXT)
    if len(rows):
        late, late_reasons = _CASTS[column.type](texts_of(values.take(rows)), plain)
        mask = reasons == BY_TEXT
        found, reasons[rows] = pc.replace_with_mask(found, pa.array(mask), late), late_reasons
    return found, reasons


def _texts(text: pa.Array, column: Column) -> Cast:
    """Ids, categories and texts are what was written."""
    if column.strip_decimal_zero and pc.any(pc.match_substring(text, ".0")).as_py():
        # ids that went through a float on their way: "17850.0" is 17850
        text = pc.replace_substring_regex(text, pattern=r"^([+-]?[0-9]+)\.0+$", replacement=r"\1")
    return text, np.zeros(len(text), np.uint8)


def _flags(text: pa.Array, column: Column) -> Cast:
    words = text.dictionary_encode()
    lower = pc.utf8_lower(words.dictionary)
    yes, no = (pc.is_in(lower, value_set=pa.array([w.lower() for w in said])) for said in (column.true, column.false))
    known = pc.or_(yes, no).to_numpy(zero_copy_only=False)
    reasons = np.append(np.where(known, Reason.FINE, Reason.NOT_A_FLAG).astype(np.uint8), np.uint8(Reason.FINE))
    return yes.take(words.indices), reasons[words.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)]


_CASTS: dict[str, Callable[[pa.Array, Column], Cast]] = {
    "id": _texts,
    "category": _texts,
    "text": _texts,
    "flag": _flags,
    "integer": integers,
    "decimal": decimals,
    "number": numbers,
}


def _bound(values: pa.Array, reasons: np.ndarray, column: Column) -> None:
    """Notes which good values lie outside the contract's bounds, which belong to what is allowed."""
    for bound, compare, whole in zip(column.bounds, (pc.less, pc.greater), (math.ceil, math.floor), strict=True):
        if bound is None:
            continue
        limit = {"integer": whole, "number": float}.get(column.type, Decimal)(bound)
        if column.type == "integer":
            lowest, highest = whole_range(column)
            limit = max(lowest, min(highest, limit))
        outside = compare(values, pa.scalar(limit, values.type if column.type == "integer" else None))
        if pc.any(outside).as_py():
            found = outside.fill_null(False).to_numpy(zero_copy_only=False)
            reasons[found & (reasons == Reason.FINE)] = Reason.OUT_OF_BOUNDS
