"""Access logs: one pass over a block finds the lines and where their fields lie."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

compiled: Any = njit(cache=True, nogil=True, _nrt=False)  # pyright: ignore[reportCallIssue]

LF, CR, SPACE, QUOTE, BACKSLASH, OPENING, CLOSING = 10, 13, 32, 34, 92, 91, 93
REQUEST = 4  # host, ident, user, time and then the request
COMMON, COMBINED = 7, 9  # fields as they are written
ZERO, NOWHERE = np.int64(0), np.int64(-1)


@compiled
def _field(data, at, stop):
    """(where the field that begins here starts, where it stops, where the next one begins or -1 if it is none)."""
    if at >= stop:
        return at, at, NOWHERE
    opening = data[at]
    if opening == QUOTE or opening == OPENING:
        first = at = at + 1
        closing = QUOTE if opening == QUOTE else CLOSING
        while at < stop and data[at] != closing:
            at += 2 if data[at] == BACKSLASH and opening == QUOTE else 1
        if at >= stop:
            return first, stop, NOWHERE
        end, at = at, at + 1
    else:
        first = at
        while at < stop and data[at] != SPACE:
            if data[at] == QUOTE or data[at] == OPENING:
                return first, at, NOWHERE
            at += 1
        end = at
    if at == stop:
        return first, end, at
    return first, end, at + 1 if data[at] == SPACE else NOWHERE


@compiled
def _request(data, start, stop):
    """(the end of the method, the beginning of the protocol), or (-1, -1) if the request is something else."""
    first = start
    while first < stop and 65 <= (data[first] & 0xDF) <= 90:
        first += 1
    last = stop - 1
    while last > first and data[last] != SPACE:
        last -= 1
    is_http = last + 5 < stop and data[last + 1] == 72 and data[last + 2] == 84 and data[last + 3] == 84
    is_http = is_http and data[last + 4] == 80 and data[last + 5] == 47
    if first == start or not is_http or data[first] != SPACE or last < first + 2:
        return NOWHERE, NOWHERE
    return first, last + 1


@compiled
def _note(data, column, row, start, stop, values, kinds):
    """The place of a field that may be wanted; a hyphen stands for nothing."""
    if column < 0:
        return
    if start < 0 or (stop == start + 1 and data[start] == 45):
        start, stop = NOWHERE, NOWHERE
    values[0, column, row] = start
    values[1, column, row] = stop
    kinds[column, row] = 0


@compiled
def scan(data, at, line, last, limit, places, rows, lines, values, kinds, broken, most) -> Any:
    """Fills in the lines from `at` on: (where the next begins, its line, how many are sound, how many broken).

    Args:
        places: of each of the 11 fields that a request split in three makes, its column of `values` or -1.
        most: [1], the most fields that a line had.
    """
    row, bad = ZERO, ZERO
    while at < data.size and row < lines.size and bad < broken.shape[1]:
        stop = at
        while stop < data.size and data[stop] != LF and data[stop] != CR:
            stop += 1
        if stop - at > limit or (not last and (stop == data.size or (data[stop] == CR and stop + 1 == data.size))):
            break
        behind = min(stop + 1, data.size)
        if behind < data.size and data[stop] == CR and data[behind] == LF:
            behind += 1
        if stop > at:
            field, place = ZERO, at
            while place >= 0 and (place < stop or (field > 0 and place == stop and data[stop - 1] == SPACE)):
                opening = data[place] if place < stop else SPACE
                start, end, place = _field(data, place, stop)
                if field >= COMBINED:
                    pass
                elif field == REQUEST:
                    method, protocol = _request(data, start, end)
                    if method < 0:
                        _note(data, places[4], row, NOWHERE, NOWHERE, values, kinds)
                        _note(data, places[5], row, start, end, values, kinds)
                        _note(data, places[6], row, NOWHERE, NOWHERE, values, kinds)
                    else:
                        _note(data, places[4], row, start, method, values, kinds)
                        _note(data, places[5], row, method + 1, protocol - 1, values, kinds)
                        _note(data, places[6], row, protocol, end, values, kinds)
                else:
                    _note(data, places[field if field < REQUEST else field + 2], row, start, end, values, kinds)
                # the time stands in brackets, the request, the referer and the agent in quotes, the others as they are
                wanted = OPENING if field == 3 else QUOTE if field in (REQUEST, 7, 8) else ZERO
                marked = opening == QUOTE or opening == OPENING
                if (start == end and not marked) or (field < COMBINED and (opening != wanted if wanted else marked)):
                    place = NOWHERE
                field += 1
            if place < 0 or (field != COMMON and field < COMBINED):
                broken[0, bad], broken[1, bad], broken[2, bad], broken[3, bad] = at, stop, line, 0
                bad += 1
            else:
                for missing in range(field, COMBINED):
                    _note(data, places[missing + 2], row, NOWHERE, NOWHERE, values, kinds)
                rows[0, row], rows[1, row], lines[row] = at, stop, line
                most[0] = max(most[0], min(field, COMBINED))
                row += 1
        at, line = behind, line + 1
    return at, line, row, bad
