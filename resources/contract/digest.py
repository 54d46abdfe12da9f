"""Digests: what a result was made from, and what it holds. Neither knows of paths, times, hosts or library versions.

A *content digest* is the sum, modulo 2**64 in each of two lanes, of two 64-bit hashes per row: rows may be counted in
any order and in any split, and two copies of a row differ from one (an xor would cancel). It is written as 32 hex
digits. A row's hash chains splitmix64 (Steele, Lea, Flood 2014) over its columns in order (kernels/rows.py); what a
column is called is not part of it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from resources.contract.buffers import fixed_width, is_text, text_bytes, validity

_LANE_SEEDS = (np.uint64(0x243F6A8885A308D3), np.uint64(0x13198A2E03707344))  # first digits of pi
EMPTY = "0" * 32


def splitmix64(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64 over uint64, elementwise."""
    z = x + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def row_hashes(table: pa.Table) -> np.ndarray:
    """uint64[2, rows]: two independent 64-bit hashes of each row, over its columns in their order.

    A value counts, not how it is stored: a dictionary is the texts that it stands for, a chunk can start anywhere.
    """
    from resources.contract.kernels.rows import chain

    parts = [np.empty((2, 0), np.uint64)]
    for batch in table.to_batches():
        if batch.num_rows == 0:
            continue
        lanes = np.tile(np.array(_LANE_SEEDS)[:, None], (1, batch.num_rows))
        for column in batch.columns:
            first, second, places, values = _words(column)
            chain(lanes, first, second, places, *validity(values))
        parts.append(lanes)
    return parts[1] if len(parts) == 2 else np.concatenate(parts, axis=1)


def _words(column: pa.Array) -> tuple[np.ndarray, np.ndarray, np.ndarray, pa.Array]:
    """The two words of each value, the place of each row's among them (empty: in order), and the array that knows the nulls."""
    kind, in_order = column.type, np.empty(0, np.int64)
    if isinstance(column, pa.DictionaryArray):
        if not is_text(kind.value_type) or column.dictionary.null_count:
            return _words(column.dictionary_decode())
        first, second = _text_words(column.dictionary)
        places = column.indices
        return first, second, fixed_width(places, places.type.to_pandas_dtype()).astype(np.int64), places
    if is_text(kind):
        return *_text_words(column), in_order, column
    if pa.types.is_decimal(kind):
        column = column.cast(pa.decimal128(38, kind.scale))
        low, high = np.ascontiguousarray(fixed_width(column, np.dtype("2u8")).T)
        return low ^ splitmix64(high), low ^ splitmix64(~high), in_order, column
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_null(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_floating(kind):
        column = column.cast(pa.float64())
        words = (fixed_width(column, np.float64) + 0.0).view(np.uint64)  # -0.0 and 0.0 are one number
        return words, words, in_order, column
    width = column.type.bit_width // 8
    words = fixed_width(column, f"{'u' if pa.types.is_unsigned_integer(column.type) else 'i'}{width}").astype(
        np.int64, copy=False
    )
    return words.view(np.uint64), words.view(np.uint64), in_order, column


def _text_words(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Two hashes of the bytes of each text; of a null, whatever they are."""
    from resources.contract.kernels.rows import hash_texts

    words = np.empty((2, len(texts)), np.uint64)
    hash_texts(*text_bytes(texts.cast(pa.large_string()) if pa.types.is_string_view(texts.type) else texts), words)
    return words[0], words[1]


def record_hashes(records: np.ndarray) -> np.ndarray:
    """uint64[2, rows] for a packed array of shape [rows, words] of 32-bit words (or [rows] of any 4- or 8-byte dtype)."""
    flat = np.ascontiguousarray(records).reshape(len(records), math.prod(records.shape[1:]))
    words = flat.view(np.uint32) if flat.dtype.itemsize != 1 else flat
    lanes = np.tile(np.array(_LANE_SEEDS)[:, None], (1, len(records)))
    for column in range(words.shape[1]):
        lanes = splitmix64(lanes ^ splitmix64(words[:, column].astype(np.uint64)))
    return lanes


def digest_of_hashes(hashes: np.ndarray) -> str:
    """32 hex digits: the per-lane sums modulo 2**64 of uint64[2, rows]."""
    low, high = (int(lane) for lane in hashes.sum(axis=1, dtype=np.uint64)) if hashes.shape[1] else (0, 0)
    return f"{high:016x}{low:016x}"


def sum_of(digests: Iterable[str]) -> str:
    """The content digest of all rows together whose parts have these: sums add up."""
    lanes = [0, 0]
    for digest in digests:
        lanes = [(lanes[0] + int(digest[:16], 16)) % 2**64, (lanes[1] + int(digest[16:], 16)) % 2**64]
    return f"{lanes[0]:016x}{lanes[1]:016x}"


def table_digest(table: pa.Table) -> str:
    """Content digest of a table's rows, whatever their order and chunking."""
    return digest_of_hashes(row_hashes(table))


def record_digest(records: np.ndarray, *, ordered: bool = False) -> str:
    """Content digest of packed records; with `ordered`, the position of a row counts too."""
    hashes = record_hashes(records)
    if ordered:
        hashes = splitmix64(hashes + np.arange(len(records), dtype=np.uint64))
    return digest_of_hashes(hashes)


def digest_of_json(value: object) -> str:
    """32 hex digits of a JSON value in canonical form (sorted keys, no spaces)."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def combined(digests: Iterable[tuple[str, str]]) -> str:
    """One digest of named digests, in the order of their names."""
    return digest_of_json(sorted(digests))
