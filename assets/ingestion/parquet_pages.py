"""Whether a Parquet file agrees with itself, and whether each of its pages has a checksum.

The checksum of a page covers its values, but neither its header nor the file's footer. A flipped bit there can take
rows away, move a decimal point or call a column by another name without any reader noticing. Much of it is written
twice, so it is compared: a column's name and type in the schema and in each row group, the old and the new name of a
type, the rows of row groups and columns, the kind of a page. The layout is that of the format's specification
(parquet.thrift, in Thrift's compact protocol).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resources.contract.errors import DataError

_DEEP = 16  # no footer is nested more deeply
_HEADER_BYTES = (1 << 10, 1 << 16, 1 << 26)  # of a page; the last holds the longest text that it may cite
# Fields of the structs of parquet.thrift, as far as they are needed: the footer's, ...
_SCHEMA, _GROUPS = 2, 4
_GROUP_COLUMNS, _GROUP_ROWS = 1, 3
# ... a column chunk's, ...
_META, _TYPE, _PATH, _VALUES, _SIZE, _DATA_AT, _DICTIONARY_AT = 3, 1, 3, 5, 7, 9, 11
# ... a schema's element's (a flipped bit may make another field of any of these), ...
_ELEMENT = {field: int for field in range(1, 10)} | {4: bytes, 10: dict}
_REPETITION, _NAME, _CHILDREN, _OLD_TYPE, _SCALE, _PRECISION, _NEW_TYPE = 3, 4, 5, 6, 7, 8, 10
_REPEATED = 2
# ... and a page header's.
_PAGE_TYPE, _PAGE_SIZE, _PAGE_CRC, _PAGE, _PAGE_V2 = 1, 3, 4, 5, 8
_KINDS = {0: _PAGE, 1: 6, 2: 7, 3: _PAGE_V2}  # the field that must follow from a page's type; readers skip unknown ones

Struct = Mapping[int, Any]


@dataclass(frozen=True)
class _Leaf:
    """A column as the schema has it."""

    path: list[bytes]
    type: int
    repeated: bool

    def __str__(self) -> str:
        return repr(b".".join(self.path).decode(errors="replace"))


def every_page_checked(path: Path, data: mmap.mmap) -> bool:
    """Whether each page of each column has a CRC in its header.

    The footer is parsed here: Arrow's accessors end the process at some damaged ones.

    Raises DataError where what the file says of itself does not agree, or lacks what the format requires.
    """
    try:
        footer = data[len(data) - 8 - int.from_bytes(data[-8:-4], "little") : -8]
        told, _ = _struct(footer, 0)
        checked = all(map(_is_known, told[_SCHEMA]))
        fault = next((fault for element in told[_SCHEMA] if (fault := _type_fault(element))), None)
        for chunk, leaf, rows, where in () if fault else _chunks(told):
            fault, crc = _chunk_fault(chunk, leaf, rows), False
            if fault is None:
                fault, crc = _pages_fault(data, chunk)
            checked &= crc
            if fault is not None:
                fault = f"{where}: {fault}"
                break
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path.name} is damaged and refused as a whole: its footer or a page's header is not as the format wants it "
            f"({type(error).__name__}: {error}). Land it again."
        ) from error
    if fault is not None:
        raise DataError(
            f"{path.name} is damaged and refused as a whole: it contradicts itself ({fault}). Land it again."
        )
    return checked


def _chunks(told: Struct) -> Iterator[tuple[Struct, _Leaf, int, str]]:
    """Each column chunk with its column, the rows of its group, and where it is."""
    leaves = list(_leaves(told[_SCHEMA]))
    for number, group in enumerate(told[_GROUPS]):
        for chunk, leaf in zip(group[_GROUP_COLUMNS], leaves, strict=True):
            yield chunk[_META], leaf, group[_GROUP_ROWS], f"column {leaf} of row group {number}"


def _leaves(schema: list[Struct]) -> Iterator[_Leaf]:
    """The columns of a schema, which is a tree written down depth first."""
    above: list[tuple[list[bytes], bool, int]] = []  # path, repeated, children that are still to come
    for index, element in enumerate(schema):
        path, repeated = (above[-1][0], above[-1][1]) if above else ([], False)
        if index:
            path, repeated = [*path, element[_NAME]], repeated or element.get(_REPETITION) == _REPEATED
            above[-1] = (*above[-1][:2], above[-1][2] - 1)
        if _TYPE in element:
            yield _Leaf(path, element[_TYPE], repeated)
        else:
            above.append((path, repeated, element[_CHILDREN]))
        while above and not above[-1][2]:
            above.pop()


def _chunk_fault(chunk: Struct, leaf: _Leaf, rows: int) -> str | None:
    """Where a column chunk is not of the column that the schema has in its place, in words."""
    if chunk[_PATH] != leaf.path:
        return f"it is called {b'.'.join(chunk[_PATH]).decode(errors='replace')!r} there"
    if chunk[_TYPE] != leaf.type:
        return f"it is of type {chunk[_TYPE]} there, and of {leaf.type} in the schema"
    if not leaf.repeated and chunk[_VALUES] != rows:
        return f"{chunk[_VALUES]} values of {rows} rows"
    return None


def _pages_fault(data: mmap.mmap, chunk: Struct) -> tuple[str | None, bool]:
    """Where the pages of a column chunk are not what it says of them, in words, and whether each has a CRC."""
    if not chunk[_VALUES] and not chunk[_SIZE]:  # an empty row group may have no pages at all
        return None, True
    at = min(offset for offset in (chunk.get(_DICTIONARY_AT), chunk[_DATA_AT]) if offset)
    end, checked = at + chunk[_SIZE], True
    while at < end:
        header, length = _page_header(data, at)
        at += length + max(header[_PAGE_SIZE], 0)
        # a page of version 2 says in its header alone where its values begin: nothing vouches for that
        checked &= _PAGE_CRC in header and _PAGE_V2 not in header
        if _KINDS.get(header[_PAGE_TYPE]) not in header:
            return f"a page of type {header[_PAGE_TYPE]}, whose header is of another", checked
    if at != end:
        return f"its pages end at byte {at}, and it says {end}", checked
    return None, checked


def _page_header(data: mmap.mmap, at: int) -> tuple[dict[int, Any], int]:
    """A page's header and its length, which nothing tells beforehand."""
    for size in _HEADER_BYTES[:-1]:
        try:
            return _struct(data[at : at + size], 0)
        except IndexError:  # it is longer
            continue
    return _struct(data[at : at + _HEADER_BYTES[-1]], 0)


def _is_known(element: Struct) -> bool:
    """Whether an element of the schema says nothing but what is known, so that none of it is overlooked."""
    return all(field in _ELEMENT and isinstance(value, _ELEMENT[field]) for field, value in element.items())


def _type_fault(element: Struct) -> str | None:
    """Where the old and the new way to write a column's type say different things, in words."""
    if _OLD_TYPE not in element or _NEW_TYPE not in element:
        return None
    old, new = element[_OLD_TYPE], element[_NEW_TYPE]
    if old not in _old_types(new, element):
        return f"column {element[_NAME]!r} has the types {old} and {new}, which are not the same"
    return None


def _old_types(new: Struct, element: Struct) -> tuple[int, ...]:
    """The `ConvertedType`s that say the same as a `LogicalType`."""
    if len(new) != 1:
        return ()
    [(kind, inner)] = new.items()
    if not isinstance(inner, dict):
        return ()
    if kind == 5:
        same = (inner.get(1), inner.get(2)) == (element.get(_SCALE), element.get(_PRECISION))
        return (5,) if same else ()
    if kind in (7, 8):  # TIME, TIMESTAMP: the unit is a union with one field
        return {(7, 1): (7,), (7, 2): (8,), (8, 1): (9,), (8, 2): (10,)}.get((kind, *inner[2]), ())
    if kind == 10:  # INTEGER: bits, signed
        first = 15 if inner[2] else 11
        return tuple(first + place for place, bits in enumerate((8, 16, 32, 64)) if bits == inner[1])
    return {1: (0,), 2: (1, 2), 3: (3,), 4: (4,), 6: (6,), 12: (19,), 13: (20,)}.get(kind, ())


def _struct(data: bytes, at: int, *, depth: int = 0) -> tuple[dict[int, Any], int]:
    """A struct's values by field id, and where it ends."""
    if depth > _DEEP:
        raise ValueError("nested too deeply")
    fields: dict[int, Any] = {}
    field = 0
    while head := data[at]:
        at += 1
        field += head >> 4
        if not head >> 4:
            field, at = _zigzag(data, at)
        fields[field], at = _value(data, at, head & 15, depth=depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, *, depth: int) -> tuple[Any, int]:
    """A field's value, and where it ends. Raises ValueError for a type that is none."""
    if kind in (1, 2):  # a flag is told by its type
        return kind == 1, at
    if kind == 3:
        return data[at], at + 1
    if kind in (4, 5, 6):
        return _zigzag(data, at)
    if kind == 7:
        return data[at : at + 8], at + 8
    if kind == 8:
        length, at = _varint(data, at)
        return data[at : at + length], at + length
    if kind in (9, 10):
        length, element = data[at] >> 4, data[at] & 15
        length, at = _varint(data, at + 1) if length == 15 else (length, at + 1)
        values = []
        for _ in range(length):
            value, at = _value(data, at, 3 if element in (1, 2) else element, depth=depth + 1)
            values.append(value)
        return values, at
    if kind == 12:
        return _struct(data, at, depth=depth + 1)
    raise ValueError(f"there is no type {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128 or shift > 63:
            return value, at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return value >> 1 ^ -(value & 1), at
