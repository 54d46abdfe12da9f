"""Columns whose values repeat: each distinct one once, and for every row which of them it is."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_BEGIN, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # FNV-1a (Fowler, Noll, Vo)
_FREE, _TOO_MANY, _ZERO, _ONE = np.int32(-1), np.int64(-1), np.int64(0), np.int64(1)


@njit(cache=True, nogil=True, _nrt=False)  # pyright: ignore[reportCallIssue]
def encode(data, starts, stops, kinds, slots, hashes, codes, firsts) -> Any:
    """How many distinct texts there are; -1 where they are more than `firsts` has room for, or one is not as it stands.

    `codes` becomes the number of each row's text (-1: it starts at -1 and is null), `firsts` the row in which each text
    stands first. `slots` are a power of two, all -1, and more than twice as many as there may be texts.
    """
    mask, found = np.int64(slots.size - 1), _ZERO
    for row in range(starts.size):
        start, stop = np.int64(starts[row]), np.int64(stops[row])
        if start < 0:
            codes[row] = _FREE
            continue
        if kinds[row] != 0:
            return _TOO_MANY
        mixed = _BEGIN
        for place in range(start, stop):
            mixed = (mixed ^ np.uint64(data[place])) * _PRIME
        slot = np.int64(mixed ^ (mixed >> np.uint64(32))) & mask
        while True:
            code = np.int64(slots[slot])
            if code < 0:
                if found == firsts.size:
                    return _TOO_MANY
                slots[slot], firsts[found], hashes[found], codes[row] = found, row, mixed, found
                found += _ONE
                break
            if hashes[code] == mixed:
                first = np.int64(starts[firsts[code]])
                same = np.int64(stops[firsts[code]]) - first == stop - start
                place = start
                while same and place < stop:
                    same = data[place] == data[first + place - start]
                    place += _ONE
                if same:
                    codes[row] = code
                    break
            slot = (slot + _ONE) & mask
    return found
