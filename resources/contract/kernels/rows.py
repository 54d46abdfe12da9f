"""Row hashes, straight from Arrow's buffers: what the digests of all data rest on, so nothing here may ever change.

Two lanes of 64 bits. A value enters as two words: a number twice as itself, a text as two hashes of its bytes, a null
as two words that no value has both of. Each word is chained into its lane by splitmix64.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.types import Array, uint8, uint64
from numba.extending import intrinsic

_BYTES = Array(uint8, 1, "C", readonly=True)
_WORDS = Array(uint64, 1, "C", readonly=True)
_PLACES = Array(types.int64, 1, "C", readonly=True)
_LANES = Array(uint64, 2, "C")

_NULL_0, _NULL_1 = np.uint64(0xA4093822299F31D0), np.uint64(0x082EFA98EC4E6C89)  # of pi's digits, as all constants here
_SEED_0, _SEED_1 = np.uint64(0x452821E638D01377), np.uint64(0xBE5466CF34E90C6C)
_ODD_0, _ODD_1 = np.uint64(0xC0AC29B7C97C50DD), np.uint64(0x3F84D5B5B5470917)
_ODD_2, _ODD_3 = np.uint64(0x9216D5D98979FB1B), np.uint64(0xD1310BA698DFB5AD)
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@njit(inline="always")
def _splitmix64(x):
    z = x + _GAMMA
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@njit(inline="always")
def _turned(x, by):
    return (x << np.uint64(by)) | (x >> np.uint64(64 - by))


@intrinsic
def _word_at(typing, data, place):  # called without the first, which is numba's own
    """The eight bytes from a place, low byte first; whoever asks has made sure that they are there."""

    def code(context, builder, signature, arguments):
        array = cgutils.create_struct_proxy(signature.args[0])(context, builder, arguments[0])
        address = builder.gep(array.data, [arguments[1]])
        word = builder.load(builder.bitcast(address, ir.IntType(64).as_pointer()))
        word.align = 1
        return word

    return uint64(data, place), code


@njit([(_BYTES, _PLACES, _LANES)], cache=True, nogil=True)
def hash_texts(data, bounds, out):
    """Two words per text into `out`: text i is the bytes from bounds[i] to bounds[i + 1]. What lies outside counts as empty."""
    size = np.int64(len(data))
    for row in range(out.shape[1]):
        start, end = bounds[row], bounds[row + 1]
        if start < 0 or end > size or end < start:
            start = end = np.int64(0)
        a, b = _SEED_0, _SEED_1
        place = start
        while place + 8 <= end:
            word = _word_at(data, place)  # pyright: ignore[reportCallIssue]
            a = _turned(a + word * _ODD_0, 31) * _ODD_1
            b = _turned(b ^ (word * _ODD_2), 29) * _ODD_3
            place += 8
        word, rest = np.uint64(0), np.uint64(8 * (end - place))
        if place + 8 <= size:  # the text's last bytes and some of the next one's, which are cut off
            word = _word_at(data, place)  # pyright: ignore[reportCallIssue]
            word &= (np.uint64(1) << rest) - np.uint64(1)
        else:
            for byte in range(end - place):
                word |= np.uint64(data[place + byte]) << np.uint64(8 * byte)
        length = np.uint64(end - start)
        a = _turned(a + word * _ODD_0, 31) * _ODD_1
        b = _turned(b ^ (word * _ODD_2), 29) * _ODD_3
        out[0, row] = _splitmix64(a ^ length)
        out[1, row] = _splitmix64(b + length)


@njit([(_LANES, _WORDS, _WORDS, _PLACES, _BYTES, types.int64)], cache=True, nogil=True)
def chain(lanes, first, second, places, valid, offset):
    """Each row's lanes, with one more value in them.

    The value of row i is the words at i, or at places[i] where there are `places`. `valid` is Arrow's bitmap, from bit
    `offset`; empty where nothing is null. A place that does not exist is a null.
    """
    looked_up, has_nulls, size = len(places) > 0, len(valid) > 0, np.int64(len(first))
    if not looked_up and not has_nulls and size == lanes.shape[1]:
        # a loop without branches, which is compiled to wide registers
        for row in range(size):
            lanes[0, row] = _splitmix64(lanes[0, row] ^ _splitmix64(first[row]))
            lanes[1, row] = _splitmix64(lanes[1, row] ^ _splitmix64(second[row]))
        return
    for row in range(lanes.shape[1]):
        place = places[row] if looked_up else np.int64(row)
        bit = offset + np.int64(row)
        null = place < 0 or place >= size
        if has_nulls and not null:
            null = (valid[bit >> 3] >> np.uint8(bit & 7)) & 1 == 0
        a = _NULL_0 if null else first[place]
        b = _NULL_1 if null else second[place]
        lanes[0, row] = _splitmix64(lanes[0, row] ^ _splitmix64(a))
        lanes[1, row] = _splitmix64(lanes[1, row] ^ _splitmix64(b))
