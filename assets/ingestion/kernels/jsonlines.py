"""JSON lines: one strict pass over a block finds the objects, their lines, and where the values of wanted keys lie.

The wanted names are a small tree. Node 0 is the object of a line; an edge leads by a key (or, in lists, by a place) to a
node, and a node may stand for a column. Keys are looked up by a hash that does not see the case of Latin letters, then
compared; the key that followed last time is tried first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

compiled: Any = njit(cache=True, nogil=True, _nrt=False)  # pyright: ignore[reportCallIssue]

LF, CR, TAB, SPACE, QUOTE, BACKSLASH = 10, 13, 9, 32, 34, 92
CLEAN, ESCAPED = np.int64(0), np.int64(1)  # values: as they stand, with JSON's escapes
MALFORMED, NESTED, NOT_TEXT, DUPLICATE = np.int64(0), np.int64(1), np.int64(2), np.int64(3)
HAS_ESCAPES, HALF = 1, 2  # of a string; HALF: a surrogate without its other half
BY_CASE, BY_PATH, BY_NAME = np.int64(1), np.int64(2), np.int64(3)  # how a value was found; the highest counts
NO_FAULT, NOWHERE = np.int64(-1), np.int64(-1)
TRUE, FALSE, NULL = (np.array(list(word), np.uint8) for word in (b"true", b"false", b"null"))
NAN, INFINITY = (np.array(list(word), np.uint8) for word in (b"NaN", b"Infinity"))
DEPTH = 512
ZERO = np.int64(0)  # not a literal, of which each would be compiled for itself
KEY, KEY_OR_END, VALUE, VALUE_OR_END, NEXT = 0, 1, 2, 3, 4


@compiled
def _blanks(data, at):
    while at < data.size and (data[at] == SPACE or data[at] == TAB):
        at += 1
    return at


@compiled
def _unit(data, at):
    """The number that four hexadecimal digits say; -1 if they are none."""
    if at + 4 > data.size:
        return -1
    number = 0
    for place in range(at, at + 4):
        digit = data[place]
        if 48 <= digit <= 57:
            number = number * 16 + digit - 48
        elif 65 <= (digit & 0xDF) <= 70:
            number = number * 16 + (digit & 0xDF) - 55
        else:
            return -1
    return number


@compiled
def _string(data, at, plain):
    """(the quote that ends a string, what is to be known of it); -1 if there is no such quote."""
    found = 0
    while at < data.size:
        letter = data[at]
        if plain[letter]:
            at += 1
        elif letter == QUOTE:
            return at, found
        elif letter != BACKSLASH or at + 1 >= data.size:
            return -1, found
        else:
            found |= HAS_ESCAPES
            letter = data[at + 1]
            at += 2
            if letter == 117:  # u
                unit = _unit(data, at)
                if unit < 0:
                    return -1, found
                at += 4
                if 0xD800 <= unit < 0xDC00:
                    other = _unit(data, at + 2)
                    if other >= 0xDC00 and other < 0xE000 and data[at] == BACKSLASH and data[at + 1] == 117:
                        at += 6
                    else:
                        found |= HALF
                elif 0xDC00 <= unit < 0xE000:
                    found |= HALF
            elif not (letter == QUOTE or letter == BACKSLASH or letter == 47 or letter in (98, 102, 110, 114, 116)):
                return -1, found
    return -1, found


@compiled
def _digits(data, at):
    while at < data.size and 48 <= data[at] <= 57:
        at += 1
    return at


@compiled
def _word(data, at, word):
    """Behind a word, or -1 if it does not stand here."""
    if at + word.size > data.size:
        return -1
    for place in range(word.size):
        if data[at + place] != word[place]:
            return -1
    return at + word.size


@compiled
def _number(data, at):
    """Behind a number, or -1 if none stands here."""
    if at < data.size and data[at] == 45:  # -
        at += 1
    end = _digits(data, at)
    if end == at or (data[at] == 48 and end > at + 1):
        return -1
    at = end
    if at < data.size and data[at] == 46:  # .
        end = _digits(data, at + 1)
        if end == at + 1:
            return -1
        at = end
    if at < data.size and (data[at] & 0xDF) == 69:  # e, E
        at += 1
        if at < data.size and (data[at] == 43 or data[at] == 45):
            at += 1
        end = _digits(data, at)
        if end == at:
            return -1
        at = end
    return at


@compiled
def _fold(letter):
    return letter | 0x20 if 65 <= letter <= 90 else letter


@compiled
def _hash(data, start, stop, node):
    """A hash of a key below a node that does not see the case of Latin letters; below no node (-1), one that does."""
    mixed = np.uint64(0xCBF29CE484222325) ^ np.uint64(node)
    for place in range(start, stop):
        letter = _fold(data[place]) if node >= 0 else data[place]
        mixed = (mixed ^ np.uint64(letter)) * np.uint64(0x100000001B3)
    return mixed ^ (mixed >> np.uint64(29))


@compiled
def _edge(data, start, stop, node, keys, edges, slots):
    """(the edge whose key this is or -1, whether it is that only but for case)."""
    mask, alike, num_alike = np.uint64(slots.size - 1), -1, 0
    slot = _hash(data, start, stop, node) & mask
    while slots[slot] >= 0:
        edge = slots[slot]
        first = edges[1, edge]
        if edges[0, edge] == node and edges[2, edge] == stop - start:
            same, like = True, True
            for place in range(stop - start):
                same = same and data[start + place] == keys[first + place]
                like = like and _fold(data[start + place]) == _fold(keys[first + place])
            if same:
                return edge, False
            if like:
                alike, num_alike = edge, num_alike + 1
        slot = (slot + np.uint64(1)) & mask
    if num_alike == 1 and edges[5, alike]:
        return alike, True
    return -1, False


@compiled
def enter(keys, edges, slots):
    """Fills in the table by which edges are found."""
    slots[:] = -1
    mask = np.uint64(slots.size - 1)
    for edge in range(edges.shape[1]):
        slot = _hash(keys, edges[1, edge], edges[1, edge] + edges[2, edge], edges[0, edge]) & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = edge


@compiled
def _foretold(data, at, node, edge, keys, edges):
    """Whether the key that begins here is that of an edge."""
    if edge < 0 or edges[0, edge] != node:
        return False
    first, length = edges[1, edge], edges[2, edge]
    if at + length >= data.size or data[at + length] != QUOTE:
        return False
    for place in range(length):
        if data[at + place] != keys[first + place]:
            return False
    return True


@compiled
def _is_new(hashed, known):
    """Whether a key of the lines' objects was not seen before; always false once very many were."""
    mask = np.uint64(known.size - 1)
    wanted = hashed | np.uint64(1)
    slot = (hashed >> np.uint64(7)) & mask
    for _ in range(known.size // 2):
        if known[slot] == wanted:
            return False
        if known[slot] == 0:
            known[slot] = wanted
            return True
        slot = (slot + np.uint64(1)) & mask
    return False


@compiled
def _put(column, how, row, start, stop, kind, fault, values, kinds, hows, faults):
    """Notes the value of a column, unless it was found in a better way already."""
    if how < hows[column]:
        return
    faults[column] = DUPLICATE if how == hows[column] else fault
    hows[column] = how
    values[0, column, row] = start
    values[1, column, row] = stop
    kinds[column, row] = kind


@compiled
def _undone(data, start, stop, out, at):
    """Where the bytes of a string end whose escapes are sound."""
    while start < stop:
        if data[start] != BACKSLASH:
            out[at] = data[start]
            at, start = at + 1, start + 1
            continue
        letter = data[start + 1]
        start += 2
        if letter != 117:  # u
            if letter == 98:
                letter = 8
            elif letter == 102:
                letter = 12
            elif letter == 110:
                letter = 10
            elif letter == 114:
                letter = 13
            elif letter == 116:
                letter = 9
            out[at] = letter
            at += 1
            continue
        code = _unit(data, start)
        start += 4
        if 0xD800 <= code < 0xDC00:
            code = 0x10000 + ((code - 0xD800) << 10) + (_unit(data, start + 2) - 0xDC00)
            start += 6
        if code < 0x80:
            out[at] = code
            at += 1
            continue
        if code < 0x800:
            out[at] = 0xC0 | (code >> 6)
        else:
            if code < 0x10000:
                out[at] = 0xE0 | (code >> 12)
            else:
                out[at] = 0xF0 | (code >> 18)
                at += 1
                out[at] = 0x80 | ((code >> 12) & 0x3F)
            at += 1
            out[at] = 0x80 | ((code >> 6) & 0x3F)
        out[at + 1] = 0x80 | (code & 0x3F)
        at += 2
    return at


@compiled
def _item(node, place, items):
    """The node that an entry of a list is, or -1."""
    if node >= 0:
        for item in range(items.shape[1]):
            if items[0, item] == node and items[1, item] == place:
                return items[2, item]
    return -1


@compiled
def _object(
    data,
    at,
    row,
    plain,
    keys,
    edges,
    nodes,
    items,
    slots,
    follow,
    shown,
    known,
    met,
    stack,
    hows,
    faults,
    undone,
    values,
    kinds,
    fresh,
    num_fresh,
):
    """(where the object that begins here ends or breaks, what is wrong with it, how many keys are fresh)."""
    depth, expected, node, how, fault = 0, VALUE, ZERO, BY_NAME, NO_FAULT
    while True:
        while at < data.size and (data[at] == SPACE or data[at] == TAB):
            at += 1
        if at >= data.size:
            return at, MALFORMED, num_fresh
        letter, top = data[at], depth - 1
        if expected == NEXT:
            if letter == 44:  # comma
                at += 1
                if stack[1, top] < 0:
                    expected = KEY
                else:
                    stack[1, top] += 1
                    expected, how = VALUE, BY_PATH
                    node = _item(stack[0, top], stack[1, top], items)
            elif letter == (125 if stack[1, top] < 0 else 93):  # the closing brace or bracket
                at, depth = at + 1, top
                if depth == 0:
                    return at, fault, num_fresh
            else:
                return at, MALFORMED, num_fresh
        elif expected == KEY or expected == KEY_OR_END:
            if letter == 125 and expected == KEY_OR_END:
                at, depth, expected = at + 1, top, NEXT
                if depth == 0:
                    return at, fault, num_fresh
                continue
            if letter != QUOTE:
                return at, MALFORMED, num_fresh
            owner, first, alike, edge = stack[0, top], at + 1, False, -1
            if owner >= 0 and _foretold(data, first, owner, follow[stack[2, top]], keys, edges):
                edge = follow[stack[2, top]]
                end = first + edges[2, edge]
            else:
                end, found = _string(data, first, plain)
                if end < 0:
                    return at, MALFORMED, num_fresh
                if owner >= 0 and not found:
                    edge, alike = _edge(data, first, end, owner, keys, edges, slots)
                elif owner >= 0 and not found & HALF and end - first <= undone.size:
                    length = _undone(data, first, end, undone, ZERO)
                    edge, alike = _edge(undone, ZERO, length, owner, keys, edges, slots)
                if edge >= 0 and not alike and edges[4, edge]:
                    follow[stack[2, top]] = edge
            node = -1
            if edge >= 0:
                node = edges[3, edge]
                how = BY_CASE if alike else nodes[1, node]
                if not alike:
                    if met[edge]:
                        fault = DUPLICATE
                    met[edge] = True
                    stack[2, top] = edge
            if owner == 0 and (edge < 0 or alike or not shown[edge]) and num_fresh < fresh.shape[1]:
                if edge >= 0 and not alike:
                    shown[edge] = True
                if _is_new(_hash(data, first, end, NOWHERE), known):
                    fresh[0, num_fresh], fresh[1, num_fresh] = at, end + 1
                    num_fresh += 1
            at = end + 1
            if at < data.size and data[at] != 58:
                at = _blanks(data, at)
            if at >= data.size or data[at] != 58:  # colon
                return at, MALFORMED, num_fresh
            at, expected = at + 1, VALUE
        elif letter == 93 and expected == VALUE_OR_END:
            at, depth, expected = at + 1, top, NEXT
        elif letter == 123 or letter == 91:
            if depth == DEPTH or (depth == 0 and letter == 91):
                return at, MALFORMED, num_fresh
            if node >= 0 and nodes[0, node] >= 0:
                _put(nodes[0, node], how, row, NOWHERE, NOWHERE, CLEAN, NESTED, values, kinds, hows, faults)
            stack[0, depth], stack[1, depth] = node, -1 if letter == 123 else 0
            stack[2, depth] = edges.shape[1] + max(node, 0)
            at, depth = at + 1, depth + 1
            if letter == 123:
                expected = KEY_OR_END
            else:
                expected, how, node = VALUE_OR_END, BY_PATH, _item(node, ZERO, items)
        else:
            start, kind, wrong = at, CLEAN, NO_FAULT
            if letter == QUOTE:
                start = stop = at + 1
                while stop < data.size and plain[data[stop]]:
                    stop += 1
                if stop >= data.size or data[stop] != QUOTE:
                    stop, found = _string(data, stop, plain)
                    if found:
                        kind, wrong = ESCAPED, NOT_TEXT if found & HALF else NO_FAULT
                at = stop + 1
            else:
                if letter == 116:
                    at = _word(data, at, TRUE)
                elif letter == 102:
                    at = _word(data, at, FALSE)
                elif letter == 110:
                    at = _word(data, at, NULL)
                elif letter == 78:
                    at = _word(data, at, NAN)
                elif letter == 73:
                    at = _word(data, at, INFINITY)
                elif letter == 45 and at + 1 < data.size and data[at + 1] == 73:
                    at = _word(data, at + 1, INFINITY)
                else:
                    at = _number(data, at)
                stop = at
            if stop < 0 or depth == 0:
                return start, MALFORMED, num_fresh
            if node >= 0 and nodes[0, node] >= 0:
                if letter == 110:
                    start, stop = NOWHERE, NOWHERE
                _put(nodes[0, node], how, row, start, stop, kind, wrong, values, kinds, hows, faults)
            expected = NEXT


@compiled
def scan(
    data,
    at,
    line,
    last,
    limit,
    plain,
    keys,
    edges,
    nodes,
    items,
    slots,
    follow,
    shown,
    known,
    met,
    stack,
    hows,
    faults,
    undone,
    rows,
    lines,
    values,
    kinds,
    broken,
    fresh,
) -> Any:
    """Fills in the objects from `at` on: (where the next begins, its line, how many sound, broken, and fresh keys).

    Args:
        plain: [256], whether a letter means nothing but itself in a string.
        keys: the bytes of the edges' keys, one after the other.
        edges: [6, edges], from which node, where in `keys`, how long, to which node, whether the key is written as it is,
            whether one that differs in case will do.
        nodes: [2, nodes], the column or -1, and how a value there is found; items: [3, items], node, place, node.
        slots: a table of edges by the hashes of their keys, never full; -1 is empty.
        follow: [edges + nodes], which edge to try behind this one, or first at this node.
        shown, known: which edges and keys of the lines' objects were seen; fresh: [2, keys], where new ones stand.
        met, stack, hows, faults, undone: room for the edges met, [3, DEPTH] levels, how each column was found and what is
            wrong with it, and a key without its escapes.
        rows, lines, values, kinds, broken: as in delimited text.
    """
    row, bad, num_fresh = ZERO, ZERO, ZERO
    while at < data.size and row < lines.size and bad < broken.shape[1]:
        stop, fault = _blanks(data, at), NO_FAULT
        blank = stop >= data.size or data[stop] == LF or data[stop] == CR
        if not blank:
            for edge in range(met.size):
                met[edge] = False
            for column in range(hows.size):
                hows[column] = 0
            stop, fault, num_fresh = _object(
                data,
                stop,
                row,
                plain,
                keys,
                edges,
                nodes,
                items,
                slots,
                follow,
                shown,
                known,
                met,
                stack,
                hows,
                faults,
                undone,
                values,
                kinds,
                fresh,
                num_fresh,
            )
            stop = _blanks(data, stop)
            while stop < data.size and data[stop] != LF and data[stop] != CR:
                stop, fault = stop + 1, MALFORMED
        if stop - at > limit or (not last and (stop >= data.size or (data[stop] == CR and stop + 1 == data.size))):
            break
        behind = min(stop + 1, data.size)
        if behind < data.size and data[stop] == CR and data[behind] == LF:
            behind += 1
        if not blank:
            for column in range(hows.size):
                if hows[column] == 0:
                    values[0, column, row] = -1
                    values[1, column, row] = -1
                    kinds[column, row] = CLEAN
                elif fault == NO_FAULT:
                    fault = faults[column]
            if fault == NO_FAULT:
                rows[0, row], rows[1, row], lines[row] = at, stop, line
                row += 1
            else:
                broken[0, bad], broken[1, bad], broken[2, bad], broken[3, bad] = at, stop, line, fault
                bad += 1
        at, line = behind, line + 1
    return at, line, row, bad, num_fresh


@compiled
def gather(data, starts, stops, kinds, offsets, valid, out) -> Any:
    """Fills in Arrow's three buffers of a text column, and says how many values are null: those that start at -1.

    `out` has room for the bytes as they were written: with their escapes undone they are never more.
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
            at = _undone(data, start, stop, out, at)
    offsets[starts.size] = at
    return nulls
