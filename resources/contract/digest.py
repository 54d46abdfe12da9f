"""Digests: what a result was made from, and what it holds. Neither knows of paths, times, hosts or library versions.

A *content digest* is the sum, modulo 2**64 in each of two lanes, of two 64-bit hashes per row: rows may be counted in
any order and in any split, and two copies of a row differ from one (an xor would cancel). It is written as 32 hex
digits. A row's hash chains splitmix64 (Steele, Lea, Flood 2014) over its columns in order; texts enter as `hash64`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from resources.contract.buckets import hash64

_LANE_SEEDS = (np.uint64(0x243F6A8885A308D3), np.uint64(0x13198A2E03707344))  # first digits of pi
_NULL = np.uint64(0xA4093822299F31D0)
EMPTY = "0" * 32


def splitmix64(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64 over uint64, elementwise."""
    z = x + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _words(column: pa.Array) -> np.ndarray:
    """One uint64 per value of a column: the value's bits, or the hash of its text."""
    kind = column.type
    if pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return hash64(column)
    if pa.types.is_decimal(kind):
        return hash64(column.cast(pa.string()))
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_floating(kind):
        # -0.0 and 0.0 are one number
        floats = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
        return floats.view(np.uint64)
    numbers = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64 if numbers.dtype.kind == "i" else np.uint64).view(np.uint64)


def row_hashes(table: pa.Table) -> np.ndarray:
    """uint64[2, rows]: two independent 64-bit hashes of each row, over its columns in their order."""
    lanes = np.tile(np.array(_LANE_SEEDS)[:, None], (1, table.num_rows))
    for column in table.columns:
        chunk = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        words = _words(chunk)
        if chunk.null_count:
            words = np.where(pc.is_null(chunk).to_numpy(zero_copy_only=False), _NULL, words)
        lanes = splitmix64(lanes ^ splitmix64(words))
    return lanes


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
