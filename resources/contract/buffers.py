"""Arrow arrays as the numpy arrays that compiled loops take: views of the same memory, slices included."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa


def fixed_width(array: pa.Array, kind: np.dtype | type | str) -> np.ndarray:
    """The values of an array of fixed width as they lie in memory; where one is null, whatever lies there."""
    kind = np.dtype(kind)
    if len(array) == 0:
        return np.empty((0, *kind.shape), kind.base)
    count = len(array) * math.prod(kind.shape)
    values = np.frombuffer(array.buffers()[1], kind.base, count, array.offset * kind.itemsize)
    return np.require(values, requirements="A").reshape(len(array), *kind.shape)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column's values are texts, however they are stored."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def text_bytes(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of a string or large_string array, and the int64 bounds between which each text lies in them."""
    if len(texts) == 0:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = texts.buffers()
    width = np.dtype(np.int64 if pa.types.is_large_string(texts.type) else np.int32)
    bounds = np.frombuffer(offsets, width, len(texts) + 1, texts.offset * width.itemsize)
    return np.frombuffer(data or b"", np.uint8), bounds.astype(np.int64)


def validity(array: pa.Array) -> tuple[np.ndarray, int]:
    """The bitmap of an array's values that are not null, and the bit at which it begins; empty where none is null."""
    bitmap = array.buffers()[0] if array.null_count else None
    return (np.frombuffer(bitmap, np.uint8), array.offset) if bitmap is not None else (np.empty(0, np.uint8), 0)


def array_over(values: np.ndarray, kind: pa.DataType, *, missing: np.ndarray) -> pa.Array:
    """An Arrow array of fixed width over numpy's memory, null where `missing` says so."""
    bitmap = pa.py_buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None
    return pa.Array.from_buffers(kind, len(values), [bitmap, pa.py_buffer(np.ascontiguousarray(values))])
