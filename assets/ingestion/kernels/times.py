"""Written times as microseconds, by a small program that `assets.ingestion.timeformat` makes of a format.

A step is the byte that must stand there, or one of the codes below. Only what is written in full is taken (two digits
for a day, four for a year); a text that is not is left to the caller (OTHER), whose engine may be more forgiving.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.core.types import Array

OTHER, INSTANT, WALL = np.uint8(0), np.uint8(1), np.uint8(2)

YEAR, MONTH, DAY, HOUR, HOUR_12, MINUTE, SECOND, SHORT_YEAR = range(256, 264)
MONTH_WORD, MONTH_NAME, FRACTION, HALF, OFFSET, T_OR_SPACE, SECONDS_IF_ANY, OFFSET_IF_ANY = range(264, 272)

_BYTES = Array(types.uint8, 1, "C", readonly=True)
_PLACES = Array(types.int64, 1, "C", readonly=True)
_NAMES = b"january  february march    april    may      june     july     august   septemberoctober  november december "
_MONTHS = np.frombuffer(_NAMES, np.uint8).reshape(12, 9)
_LENGTHS = np.array([len(name) for name in _NAMES.decode().replace("septemberoctober", "september october").split()])
_DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_NONE = np.int64(-1)


@njit(inline="always")
def _digits(data, place, end, count):
    """The number of so many digits at a place, or -1."""
    if place + count > end:
        return _NONE
    number = np.int64(0)
    for _ in range(count):
        digit = np.int64(data[place]) - 48
        if digit < 0 or digit > 9:
            return _NONE
        number = number * 10 + digit
        place += 1
    return number


@njit(inline="always")
def _fraction(data, place, end):
    """(microseconds, the place behind them) of the digits at a place; -1 where none stand there, or one that counts is finer."""
    first, number, unit = place, np.int64(0), np.int64(100_000)
    while place < end and 48 <= data[place] <= 57:
        digit = np.int64(data[place]) - 48
        if unit == 0 and digit:
            return _NONE, place
        number += digit * unit
        unit //= 10
        place += 1
    return (number, place) if place > first else (_NONE, place)


@njit(inline="always")
def _offset(data, place, end):
    """(minutes east, the place behind it) of a Z, +01, +0130 or +01:30; the place is -1 where there is none."""
    if place < end and data[place] == 90:
        return np.int64(0), place + 1
    if place >= end or (data[place] != 43 and data[place] != 45):
        return np.int64(0), _NONE
    sign = np.int64(1) if data[place] == 43 else np.int64(-1)
    hours = _digits(data, place + 1, end, 2)
    if hours < 0 or hours > 23:
        return np.int64(0), _NONE
    place += 3
    if place == end:
        return sign * hours * 60, place
    place += data[place] == 58
    minutes = _digits(data, place, end, 2)
    if minutes < 0 or minutes > 59:
        return np.int64(0), _NONE
    return sign * (hours * 60 + minutes), place + 2


@njit(inline="always")
def _month_at(data, place, end, whole):
    """(1 to 12, the place behind it) of an English month's name or its first three letters, in any case; 0 where there is none."""
    for month in range(12):
        length = _LENGTHS[month] if whole else 3
        if place + length > end:
            continue
        same = True
        for letter in range(length):
            if data[place + letter] | 32 != _MONTHS[month, letter]:
                same = False
                break
        if same:
            return month + 1, place + length
    return 0, place


@njit([(_BYTES, _PLACES, _PLACES, Array(types.int64, 1, "C"), Array(types.uint8, 1, "C"))], cache=True, nogil=True)
def read_times(data, bounds, program, out, codes):
    """Microseconds since 1970 per text into `out`: of an INSTANT in UTC, of a WALL time as if it were in UTC."""
    size = np.int64(len(data))
    for row in range(len(out)):
        place, end = bounds[row], bounds[row + 1]
        out[row], codes[row] = 0, OTHER
        if not 0 <= place < end <= size:
            continue
        year, month, day, hour, minute, second, micros = 0, 0, 0, 0, 0, 0, np.int64(0)
        half, east, zoned, sound = 0, np.int64(0), False, True
        for step in program:
            if step < 256:
                sound = place < end and data[place] == step
                place += 1
            elif step == YEAR:
                year = _digits(data, place, end, 4)
                place += 4
            elif step <= SHORT_YEAR:
                number = _digits(data, place, end, 2)
                place += 2
                sound = number >= 0
                if step == MONTH:
                    month = number
                elif step == DAY:
                    day = number
                elif step == HOUR:
                    hour = number
                elif step == HOUR_12:
                    hour = number % 12
                    sound = 1 <= number <= 12
                elif step == MINUTE:
                    minute = number
                elif step == SECOND:
                    second = number
                else:
                    year = number + (2000 if number < 69 else 1900)
            elif step in (MONTH_WORD, MONTH_NAME):
                month, place = _month_at(data, place, end, step == MONTH_NAME)
            elif step == FRACTION:
                first = place
                micros, place = _fraction(data, place, end)
                sound = micros >= 0 and place <= first + 6
            elif step == HALF:
                sound = place + 2 <= end and data[place + 1] | 32 == 109
                if sound:
                    letter = data[place] | 32
                    sound = letter == 97 or letter == 112
                    half = 12 if letter == 112 else 0
                place += 2
            elif step == T_OR_SPACE:
                sound = place < end and (data[place] == 84 or data[place] == 32)
                place += 1
            elif step == SECONDS_IF_ANY:
                if place < end and data[place] == 58:
                    second = _digits(data, place + 1, end, 2)
                    sound = second >= 0
                    place += 3
                    if sound and place < end and data[place] == 46:
                        micros, place = _fraction(data, place + 1, end)
                        sound = micros >= 0
            elif step == OFFSET or place < end:
                east, place = _offset(data, place, end)
                zoned = True
                sound = place >= 0
            if not sound:
                break
        if not sound or place != end or year < 1 or not 1 <= month <= 12 or day < 1:
            continue
        leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        if day > _DAYS[month - 1] + leap or hour + half > 23 or minute > 59 or second > 59:
            continue
        # days of a calendar that begins with March, in cycles of 400 years
        y = year - (month <= 2)
        m = month - 3 if month > 2 else month + 9
        days = 365 * y + y // 4 - y // 100 + y // 400 + (153 * m + 2) // 5 + day - 719469
        seconds = ((days * 24 + hour + half) * 60 + minute - east) * 60 + second
        out[row] = seconds * 1_000_000 + micros
        codes[row] = INSTANT if zoned else WALL
