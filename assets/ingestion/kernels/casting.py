"""Written numbers, digit by digit: exact in 64-bit integers, and doubles only where they are certain to be right.

What a loop is not sure of it leaves to its caller (OTHER). Marks between digits are given as their UTF-8 bytes.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.core.types import Array

FINE, OTHER, NULL, DIGITS = np.uint8(0), np.uint8(1), np.uint8(2), np.uint8(3)

_BYTES = Array(types.uint8, 1, "C", readonly=True)
_PLACES = Array(types.int64, 1, "C", readonly=True)
_TEXTS = (_BYTES, _PLACES, _BYTES, types.int64)
_MARKS = (_BYTES, _BYTES)
_WORDS = Array(types.uint64, 1, "C")
_CODES = Array(types.uint8, 1, "C")

_POWERS = np.array([10**n for n in range(20)], np.uint64)
_DOUBLES = np.array([10.0**n for n in range(23)], np.float64)  # exact up to 10**22
_EXACT = np.uint64(1 << 53)


@njit(inline="always")
def _stands(data, place, end, mark):
    """Whether a mark's bytes stand at a place."""
    if len(mark) == 0 or place + len(mark) > end or data[place] != mark[0]:
        return False
    for byte in range(1, len(mark)):
        if data[place + byte] != mark[byte]:
            return False
    return True


@njit(inline="always")
def _scanned(data, start, end, thousands, mark, powers):
    """A numeral's parts: (understood, negative, digits, exponent), meaning digits * 10**exponent with no zero at the end.

    Not understood is all that is no numeral, one with a power of ten unless `powers`, and more than 19 digits that count.
    """
    place, negative = start, False
    if place < end and (data[place] == 45 or data[place] == 43):
        negative = data[place] == 45
        place += 1
    digits, exponent = np.uint64(0), 0
    zeros, kept = 0, 0  # zeros that have not been taken in yet, as none may follow; digits that have
    group, groups, num_digits, behind = 0, 0, 0, False
    while place < end:
        digit = np.uint64(data[place]) - np.uint64(48)
        if digit <= 9:
            place += 1
            group += 1
            num_digits += 1
            exponent -= behind
            if digit == 0:
                zeros += digits > 0
                continue
            kept += zeros + 1
            if kept > 19:
                return False, negative, digits, exponent
            digits = digits * _POWERS[zeros + 1] + digit
            zeros = 0
        elif not behind and _stands(data, place, end, mark):
            if groups and group != 3:
                return False, negative, digits, exponent
            behind, groups, group = True, 0, 0
            place += len(mark)
        elif not behind and _stands(data, place, end, thousands):
            if group > 3 or group == 0 or (groups and group != 3):
                return False, negative, digits, exponent
            groups, group = groups + 1, 0
            place += len(thousands)
        else:
            break
    if num_digits == 0 or (groups and group != 3):
        return False, negative, digits, exponent
    if powers and place < end and (data[place] == 101 or data[place] == 69):
        place += 1
        power, sign = 0, 1
        if place < end and (data[place] == 45 or data[place] == 43):
            sign = -1 if data[place] == 45 else 1
            place += 1
        first = place
        while place < end and place < first + 4 and 48 <= data[place] <= 57:
            power = power * 10 + np.int64(data[place]) - 48
            place += 1
        if place == first:
            return False, negative, digits, exponent
        exponent += sign * power
    return place == end, negative, digits, exponent + zeros if digits else 0


@njit(inline="always")
def _whole(data, start, end):
    """(understood, negative, digits) of a whole number of at most 18 digits and nothing else: most are just that."""
    negative = data[start] == 45
    place = start + np.int64(negative)
    if place == end or end - place > 18:
        return False, negative, np.uint64(0)
    digits = np.uint64(0)
    while place < end:
        digit = np.uint64(data[place]) - np.uint64(48)
        if digit > 9:
            return False, negative, digits
        digits = digits * np.uint64(10) + digit
        place += 1
    return True, negative, digits


@njit(inline="always")
def _is_null(valid, offset, row):
    bit = offset + row
    return len(valid) > 0 and (valid[bit >> 3] >> np.uint8(bit & 7)) & 1 == 0


@njit(
    [(*_TEXTS, *_MARKS, types.boolean, types.int64, types.uint64, types.uint64, _WORDS, _CODES)], cache=True, nogil=True
)
def fixed_point(data, bounds, valid, offset, thousands, mark, powers, scale, lowest, highest, out, codes):
    """Each text times 10**scale as a 64-bit integer, in two's complement, if that is whole and from -lowest to highest."""
    size = np.int64(len(data))
    for row in range(len(out)):
        start, end = bounds[row], bounds[row + 1]
        out[row] = 0
        codes[row] = OTHER
        if _is_null(valid, offset, row):
            codes[row] = NULL
        elif 0 <= start < end <= size:
            understood, negative, digits = _whole(data, start, end)
            power = scale
            if not understood:
                understood, negative, digits, exponent = _scanned(data, start, end, thousands, mark, powers)
                power = exponent + scale
            if not understood or power < 0 or power > 19:
                continue
            limit = lowest if negative else highest
            if digits > (limit // _POWERS[power] if power else limit):  # a division takes as long as all of the rest
                continue
            scaled = digits * _POWERS[power]
            out[row] = ~scaled + np.uint64(1) if negative else scaled
            codes[row] = FINE


@njit(
    [(*_TEXTS, *_MARKS, Array(types.float64, 1, "C"), _WORDS, Array(types.int64, 1, "C"), _CODES)],
    cache=True,
    nogil=True,
)
def doubles(data, bounds, valid, offset, thousands, mark, out, parts, exponents, codes):
    """Each text as a double, where one multiplication or division of exact doubles gives it (Clinger 1990).

    Up to 15 digits every numeral has a double of its own, so its text is the shortest one. DIGITS is a numeral that
    needs more care: |value| = parts * 10**exponents.
    """
    size = np.int64(len(data))
    for row in range(len(out)):
        start, end = bounds[row], bounds[row + 1]
        out[row] = 0.0
        codes[row] = OTHER
        if _is_null(valid, offset, row):
            codes[row] = NULL
        elif 0 <= start < end <= size:
            understood, negative, digits, exponent = _scanned(data, start, end, thousands, mark, True)
            if not understood:
                continue
            parts[row], exponents[row], codes[row] = digits, exponent, DIGITS
            if digits < _POWERS[15] and -22 <= exponent <= 22:
                value = np.float64(digits)
                value = value / _DOUBLES[-exponent] if exponent < 0 else value * _DOUBLES[exponent]
                out[row] = -value if negative else value
                codes[row] = FINE


@njit([(*_TEXTS, _BYTES, _PLACES, Array(types.boolean, 1, "C"))], cache=True, nogil=True)
def named(data, bounds, valid, offset, words, word_bounds, out):
    """How many texts are one of the words; `out` says which."""
    size, found = np.int64(len(data)), 0
    for row in range(len(out)):
        start, end = bounds[row], bounds[row + 1]
        out[row] = False
        if _is_null(valid, offset, row) or not 0 <= start <= end <= size:
            continue
        for word in range(len(word_bounds) - 1):
            first = word_bounds[word]
            if word_bounds[word + 1] - first != end - start:
                continue
            same = True
            for byte in range(end - start):
                if words[first + byte] != data[start + byte]:
                    same = False
                    break
            if same:
                out[row] = True
                found += 1
                break
    return found
