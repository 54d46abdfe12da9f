"""Delimited text: one pass over a block finds its records, their lines, and where the wanted values lie.

Where quotes do not pair, the line in which the record began is broken and reading goes on with the next one. Such a
record tells something of the lines behind it that the next attempts would find out again: what becomes of a quote that
is open at their beginnings. Up to `reach` it never closes rightly (`FAILS`), is still open there (`OPEN`) or ends a
record there (`CLOSES`). Remembering that keeps the cost linear whatever the bytes are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

compiled: Any = njit(cache=True, nogil=True, _nrt=False)  # pyright: ignore[reportCallIssue]

LF, CR = 10, 13
# values: as they stand, with escapes, with doubled quotes or escapes between quotes
CLEAN, ESCAPED, QUOTED = np.int64(0), np.int64(1), np.int64(2)
RAGGED, BROKEN_QUOTES = 0, 1
SOUND, UNFINISHED, BROKEN, LEAPT = 0, 1, 2, 3  # records; LEAPT: sound, but not all of its values were seen
FAILS, OPEN, CLOSES = np.int64(0), np.int64(1), np.int64(2)
ZERO, NO_LETTER = np.int64(0), np.int64(-1)  # not literals, of which each would be compiled for itself


@compiled
def _ends_field(letter, delimiter):
    return letter == delimiter or letter == LF or letter == CR


@compiled
def _behind_break(data, at):
    """Behind the line break (LF, CRLF or CR) at this place."""
    return at + 2 if data[at] == CR and at + 1 < data.size and data[at + 1] == LF else at + 1


@compiled
def _behind_line(data, at, last):
    """Where the line behind the one that ends here begins; -1 if only the next block can tell."""
    if at >= data.size:
        return data.size if last else -1
    if data[at] == CR and at + 1 == data.size and not last:
        return -1
    return _behind_break(data, at)


@compiled
def _behind_escape(data, at):
    """Behind the letter that the escape at this place makes literal, and how many line breaks that is."""
    if at + 1 >= data.size:
        return data.size, 0
    if data[at + 1] == LF or data[at + 1] == CR:
        return _behind_break(data, at + 1), 1
    return at + 2, 0


@compiled
def _line(data, at, last, escape):
    """The end of a line, where the next one begins, and the escaped line breaks within it."""
    escaped = 0
    while at < data.size and data[at] != LF and data[at] != CR:
        if data[at] == escape:
            at, broken = _behind_escape(data, at)
            escaped += broken
        else:
            at += 1
    return at, _behind_line(data, at, last), escaped


@compiled
def _remember(memo, reach, outcome):
    if reach > memo[0]:
        memo[0], memo[1] = reach, outcome


@compiled
def _closing(data, start, at, last, letters, plain, limit, memo):
    """(status, the closing quote of the field that `at` lies in, the field's kind, its line breaks)."""
    quote, escape, size = letters[1], letters[2], data.size
    kind, breaks, status = CLEAN, 0, SOUND
    while at < size:
        letter = data[at]
        if plain[1, letter]:
            at += 1
        elif letter == quote:
            if at + 1 < size and data[at + 1] == quote:
                kind = QUOTED
                at += 2
            elif at + 1 == size and not last:  # the next block may double it
                if size - start <= limit:
                    return UNFINISHED, at, kind, breaks
                _remember(memo, size, CLOSES)
                return BROKEN, at, kind, breaks
            elif at + 1 < size and not _ends_field(data[at + 1], letters[0]):
                _remember(memo, at + 1, FAILS)
                return BROKEN, at, kind, breaks
            else:
                return status, at, kind, breaks
        elif letter == escape:
            kind = QUOTED
            at, broken = _behind_escape(data, at)
            breaks += broken
        else:
            at = _behind_break(data, at)
            breaks += 1
            if at < memo[0]:
                if memo[1] == FAILS or (memo[1] == CLOSES and memo[0] - start > limit):
                    return BROKEN, at, kind, breaks
                if memo[1] == OPEN:
                    at, status = memo[0], LEAPT
            if at - start > limit:
                _remember(memo, at, OPEN)
                return BROKEN, at, kind, breaks
    if last:
        _remember(memo, size, FAILS)
        return BROKEN, at, kind, breaks
    if size - start > limit:
        _remember(memo, size, OPEN)
        return BROKEN, at, kind, breaks
    return UNFINISHED, at, kind, breaks


@compiled
def _record(data, start, last, letters, plain, places, limit, row, values, kinds, memo):
    """(status, end, fields, line breaks) of the record that begins at `start`; notes where its wanted values lie."""
    delimiter, quote, escape, size = letters[0], letters[1], letters[2], data.size
    at, fields, breaks, outcome = start, 0, 0, SOUND
    while True:
        if at < size and data[at] == quote:
            first = at + 1
            stop, kind = first, CLEAN
            while stop < size and plain[1, data[stop]]:
                stop += 1
            if not (stop + 1 < size and data[stop] == quote and _ends_field(data[stop + 1], delimiter)):
                status, stop, kind, broken = _closing(data, start, stop, last, letters, plain, limit, memo)
                breaks += broken
                if status == LEAPT:
                    outcome = LEAPT
                elif status != SOUND:
                    return status, stop, fields, breaks
            at = stop + 1
        else:
            first, kind = at, CLEAN
            while at < size:
                if plain[0, data[at]]:
                    at += 1
                elif data[at] == escape:
                    kind = ESCAPED
                    at, broken = _behind_escape(data, at)
                    breaks += broken
                else:
                    break
            stop = at
        if fields < places.size and places[fields] >= 0:
            values[0, places[fields], row] = first
            values[1, places[fields], row] = stop
            kinds[places[fields], row] = kind
        fields += 1
        if at < size and data[at] == delimiter:
            at += 1
        elif at - start > limit:
            _remember(memo, at, CLOSES)
            return BROKEN, at, fields, breaks
        elif _behind_line(data, at, last) < 0:
            return UNFINISHED, at, fields, breaks
        else:
            return outcome, at, fields, breaks


@compiled
def scan(data, at, line, last, letters, plain, width, places, limit, rows, lines, values, kinds, broken, memo) -> Any:
    """Fills in the records from `at` on: (where the next begins, its line, how many are sound, how many broken).

    Args:
        letters: delimiter, quote, escape, comment; -1 where there is none.
        plain: [2, 256], whether a letter means nothing but itself outside and inside of quotes.
        width: how many fields a record has to have; 0 for any number.
        places: of each field the column of `values` that it goes to, or -1.
        rows: [2, rows], where records start and stop; `lines` the lines in which they begin.
        values: [2, columns, rows], where values start and stop; `kinds` what is to be done with their bytes.
        broken: [4, rows], start, stop, line and reason.
        memo: [2], zeros with a new block.
    """
    row, bad = ZERO, ZERO
    while at < data.size and row < lines.size and bad < broken.shape[1]:
        first = data[at]
        if first == LF or first == CR or first == letters[3]:
            stop, behind, _ = _line(data, at, last, NO_LETTER)
            if behind < 0 or stop - at > limit:
                break
            at, line = behind, line + 1
            continue
        status, stop, fields, breaks = _record(data, at, last, letters, plain, places, limit, row, values, kinds, memo)
        if status == LEAPT:
            reach, memo[0] = memo[0], 0
            status, stop, fields, breaks = _record(
                data, at, last, letters, plain, places, limit, row, values, kinds, memo
            )
            memo[0] = reach
        if status == UNFINISHED:
            break
        reason = RAGGED
        if status == BROKEN:
            stop, behind, breaks = _line(data, at, last, letters[2])
            reason = BROKEN_QUOTES
            if stop - at > limit:
                break
        else:
            behind = _behind_line(data, stop, last)
        if behind < 0:
            break
        if status == SOUND and (width == 0 or fields == width):
            rows[0, row], rows[1, row], lines[row] = at, stop, line
            row += 1
        else:
            broken[0, bad], broken[1, bad], broken[2, bad], broken[3, bad] = at, stop, line, reason
            bad += 1
        at, line = behind, line + breaks + 1
    return at, line, row, bad


@compiled
def _undone(data, start, stop, kind, quote, escape, out, at):
    """Where the bytes of a value end that has escapes or doubled quotes."""
    if kind == ESCAPED and stop - start == 2 and data[start + 1] == 78:
        # escape and N: how databases write that there is no value; the contract's null words tell it from an N
        out[at], out[at + 1] = data[start], data[start + 1]
        return at + 2
    while start < stop:
        letter = data[start]
        if start + 1 < stop and (letter == escape or (kind == QUOTED and letter == quote)):
            start += 1
        out[at] = data[start]
        at, start = at + 1, start + 1
    return at


@compiled
def gather(data, starts, stops, kinds, letters, offsets, valid, out) -> Any:
    """Fills in Arrow's three buffers of a text column, and says how many values are null: those that start at -1.

    `out` has room for the bytes as they were written: with doubled quotes and escapes undone they are never more.
    """
    at, nulls = ZERO, ZERO
    for row in range(starts.size):
        offsets[row] = at
        start, stop = np.int64(starts[row]), np.int64(stops[row])
        if start < 0:
            nulls += 1
            continue
        valid[row >> 3] |= 1 << (row & 7)
        if kinds[row] == CLEAN:
            for place in range(start, stop):
                out[at] = data[place]
                at += 1
        else:
            at = _undone(data, start, stop, kinds[row], letters[1], letters[2], out, at)
    offsets[starts.size] = at
    return nulls
