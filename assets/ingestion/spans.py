"""Where the rows and values of a block of text lie, and the chunks of text columns that are made from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
import pyarrow as pa

from assets.ingestion import unpacking
from assets.ingestion.chunk import Broken, Chunk, Layout
from assets.ingestion.reasons import Reason
from resources.contract.errors import DataError

_ROWS = 1 << 17  # of a chunk at most
_CELLS = 1 << 22
_DISTINCT = 1 << 13  # that a column of categories may have in a chunk to be kept as a dictionary


@dataclass(frozen=True)
class Spans:
    """Places in a block, used again for each: of rows, of the values of `columns`, and of rows that are broken."""

    rows: np.ndarray  # int32 [start and stop, rows]
    lines: np.ndarray  # int64 [rows]
    values: np.ndarray  # int32 [start and stop, columns, rows]; a null starts at -1
    kinds: np.ndarray  # uint8 [columns, rows]; what is to be done with a value's bytes
    broken: np.ndarray  # int64 [start, stop, line and reason, rows]

    @classmethod
    def of(cls, columns: int, *, rows: int | None = None) -> Spans:
        """Room for so many rows; if none are said, for those of one chunk."""
        rows = min(_ROWS, max(64, _CELLS // max(columns, 1))) if rows is None else rows
        return cls(
            rows=np.empty((2, rows), np.int32),
            lines=np.empty(rows, np.int64),
            values=np.empty((2, columns, rows), np.int32),
            kinds=np.empty((columns, rows), np.uint8),
            broken=np.empty((4, rows), np.int64),
        )

    @property
    def places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """All of them, as a scan fills them in."""
        return self.rows, self.lines, self.values, self.kinds, self.broken

    def categories(self, scan: Scan, data: bytes, column: int, rows: int) -> pa.Array:
        """The values of a column in which they repeat, as a dictionary; as texts where it is not so."""
        from assets.ingestion.kernels.repeated import encode

        starts, stops, kinds = (places[column, :rows] for places in (*self.values, self.kinds))
        slots, codes = np.full(4 * _DISTINCT, -1, np.int32), np.empty(rows, np.int32)
        firsts, hashes = np.empty(_DISTINCT, np.int32), np.empty(_DISTINCT, np.uint64)
        distinct = encode(np.frombuffer(data, np.uint8), starts, stops, kinds, slots, hashes, codes, firsts)
        if distinct < 0 or 2 * distinct > rows:
            return self.texts(scan, data, column, rows)
        of = firsts[:distinct]
        return pa.DictionaryArray.from_arrays(
            pa.array(codes, mask=codes < 0), _texts(scan, data, starts[of], stops[of], kinds[of])
        )

    def texts(self, scan: Scan, data: bytes, column: int, rows: int) -> pa.Array:
        """The values of a column."""
        return _texts(scan, data, *(places[column, :rows] for places in (*self.values, self.kinds)))


def _texts(scan: Scan, data: bytes, starts: np.ndarray, stops: np.ndarray, kinds: np.ndarray) -> pa.Array:
    """The values that stand in these places."""
    rows = len(starts)
    offsets, valid = np.empty(rows + 1, np.int32), np.zeros((rows + 7) // 8, np.uint8)
    out = np.empty(int((stops - starts).sum(dtype=np.int64)), np.uint8)
    nulls = scan.gather(data, starts, stops, kinds, offsets, valid, out)
    buffers = [pa.py_buffer(valid) if nulls else None, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.string(), rows, buffers, nulls)


class Scan(Protocol):
    """One format's way to find rows."""

    def __call__(self, data: bytes, at: int, line: int, spans: Spans, *, last: bool) -> tuple[int, int, int, int]:
        """Fills in the rows from `at` on: where the next one begins, its line, how many are sound, how many broken."""
        ...

    def gather(self, data: bytes, *places_and_buffers: np.ndarray) -> int:
        """From starts, stops and kinds of values: fills in Arrow's offsets, validity and bytes; how many are null."""
        ...

    def seen(self) -> Layout:
        """The columns that the file has shown so far."""
        ...


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What it takes to make chunks of a text: which column of the spans holds a declared name (None: it is missing)."""

    file: str
    scan: Scan
    columns: dict[str, int | None]
    reasons: tuple[Reason, ...]  # by the numbers that the scan gives
    categories: frozenset[str] = frozenset()  # declared names of columns whose values repeat

    def chunks(self, blocks: Iterator[tuple[bytes, bool]], *, line: int) -> Iterator[Chunk]:
        """The rows of a text whose first line has this number; at least one chunk, of which the last may be empty."""
        num_columns = sum(place is not None for place in self.columns.values())
        spans, rest, given = Spans.of(num_columns), b"", False
        for block, last in blocks:
            data, at = rest + block, 0
            while True:
                begun = at
                at, line, rows, broken = self.scan(data, at, line, spans, last=last)
                if rows or broken or (last and not given):
                    given = True
                    yield self._chunk(data, spans, rows, broken)
                if at == begun or at == len(data):
                    break
            rest = data[at:]
            if len(rest) > unpacking.LINE_BYTES + 1 or (last and rest):
                raise DataError(
                    f"{self.file}: line {line} is longer than {unpacking.LINE_BYTES:,} bytes, so it is no row, and the file "
                    "is refused. Land it again, with the line breaks that its format has."
                )

    def _chunk(self, data: bytes, spans: Spans, rows: int, broken: int) -> Chunk:
        nulls, columns = pa.nulls(rows, pa.string()), {}
        for name, place in self.columns.items():
            values = spans.categories if name in self.categories else spans.texts
            columns[name] = nulls if place is None else values(self.scan, data, place, rows)
        return Chunk(
            columns=pa.table(columns),
            lines=spans.lines[:rows].copy(),
            raw=partial(_raw, data, spans.rows[:, :rows].copy()),
            broken=tuple(
                Broken(line=line, reason=self.reasons[reason], raw=data[start:stop].decode())
                for start, stop, line, reason in spans.broken[:, :broken].T.tolist()
            ),
            seen=self.scan.seen(),
        )


def _raw(data: bytes, rows: np.ndarray, row: int) -> str:
    return data[rows[0, row] : rows[1, row]].decode()
