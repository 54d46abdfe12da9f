"""CSV and its kin: every record has its line number and its raw text, and fields are found by their names.

A quote opens a field only at its beginning; elsewhere it is a letter like any other. Where quotes do not pair, the one
physical line in which they began goes to quarantine and reading goes on with the next, so that a stray quote never
swallows the rows behind it. An escape makes the letter behind it literal, a line break too. Lines without a letter hold
nothing, as do comments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from assets.ingestion import unpacking
from assets.ingestion.chunk import Chunk, Layout, categories_of, declared_columns, require_columns, resolved
from assets.ingestion.files import LandedFile
from assets.ingestion.reasons import Reason
from assets.ingestion.spans import Reading, Spans
from assets.ingestion.unpacking import text_blocks
from resources.contract.dataset import Dataset
from resources.contract.errors import DataError
from resources.contract.source import Csv

_REASONS = (Reason.RAGGED, Reason.BROKEN_QUOTES)


def chunks(dataset: Dataset, file: LandedFile) -> Iterator[Chunk]:
    """The rows of a CSV file; nothing for an empty one, a chunk without rows for one that has only a header."""
    csv, blocks, line = dataset.source.csv, text_blocks(file, dataset.source.encoding), 1
    if isinstance(csv.header, tuple):
        names = list(csv.header)
    else:
        header = _header(csv, blocks, file=file.name)
        if header is None:
            return
        names, line, rest = header
        blocks = chain([rest], blocks)
        require_columns(dataset, names, file=file.name)
    places = resolved(names, declared_columns(dataset), file=file.name)
    scan = Delimited.of(csv, names, wanted=[place for place in places.values() if place is not None])
    reading = Reading(
        file=file.name,
        scan=scan,
        columns={name: None if place is None else int(scan.places[place]) for name, place in places.items()},
        reasons=_REASONS,
        categories=categories_of(dataset),
    )
    yield from reading.chunks(blocks, line=line)


@dataclass(frozen=True, kw_only=True)
class Delimited:
    """How the records of one file are found: its letters, its columns, and which of them are wanted."""

    letters: np.ndarray  # int64: delimiter, quote, escape, comment; -1 where there is none
    plain: np.ndarray  # bool [2, 256]: whether a letter means only itself, outside and inside of quotes
    names: tuple[str, ...]
    places: np.ndarray  # int32: which column of the spans a field goes to, or -1
    width: int  # how many fields a record has; 0: any number
    memo: np.ndarray = field(default_factory=lambda: np.zeros(2, np.int64))

    @classmethod
    def of(cls, csv: Csv, names: list[str], *, wanted: list[int], width: int | None = None) -> Delimited:
        """For a file with these columns, of which those at the `wanted` places are."""
        letters = [-1 if c is None else ord(c) for c in (csv.delimiter, csv.quote, csv.escape, csv.comment)]
        delimiter, quote, escape, _ = letters
        plain = np.ones((2, 256), np.bool_)
        for row, special in enumerate(((delimiter, escape, *b"\r\n"), (quote, escape, *b"\r\n"))):
            plain[row, [letter for letter in special if letter >= 0]] = False
        places = np.full(len(names), -1, np.int32)
        places[wanted] = np.arange(len(wanted))
        return cls(
            letters=np.array(letters, np.int64),
            plain=plain,
            names=tuple(names),
            places=places,
            width=len(names) if width is None else width,
        )

    def __call__(self, data: bytes, at: int, line: int, spans: Spans, *, last: bool) -> tuple[int, int, int, int]:
        from assets.ingestion.kernels.delimited import scan

        if at == 0:
            self.memo[:] = 0
        return scan(
            np.frombuffer(data, np.uint8),
            at,
            line,
            last,
            self.letters,
            self.plain,
            self.width,
            self.places,
            unpacking.LINE_BYTES,
            *spans.places,
            self.memo,
        )

    def gather(self, data: bytes, *places_and_buffers: np.ndarray) -> int:
        from assets.ingestion.kernels.delimited import gather

        starts, stops, kinds, *buffers = places_and_buffers
        return gather(np.frombuffer(data, np.uint8), starts, stops, kinds, self.letters, *buffers)

    def seen(self) -> Layout:
        return tuple((name, "") for name in self.names)


def _header(
    csv: Csv, blocks: Iterator[tuple[bytes, bool]], *, file: str
) -> tuple[list[str], int, tuple[bytes, bool]] | None:
    """The names in the first record, the line behind it, and what else has been read; None if there is no record."""
    data, last, first = b"", False, Spans.of(0, rows=1)
    scan = Delimited.of(csv, [], wanted=[], width=0)
    while not last:
        block, last = next(blocks)
        data += block
        at, line, rows, broken = scan(data, 0, 1, first, last=last)
        if broken:
            raise DataError(
                f"{file}: the quotes of the header do not pair, so its columns cannot be told. Land it again."
            )
        if rows:
            return _fields(csv, data[first.rows[0, 0] : first.rows[1, 0]]), line, (data[at:], last)
        if len(data) - at > unpacking.LINE_BYTES + 1 or (last and at < len(data)):
            raise DataError(
                f"{file}: no line ends within {unpacking.LINE_BYTES:,} bytes, so it has no header and no rows. Land it again."
            )
    return None


def _fields(csv: Csv, text: bytes) -> list[str]:
    """The values of one record."""
    most = text.count(csv.delimiter.encode()) + 1
    scan = Delimited.of(csv, [""] * most, wanted=list(range(most)), width=0)
    spans = Spans.of(most, rows=1)
    spans.values[:] = -1
    scan(text, 0, 1, spans, last=True)
    values = (spans.texts(scan, text, column, 1)[0].as_py() for column in range(most))
    return [value for value in values if value is not None]
