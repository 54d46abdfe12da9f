"""CSV: records are found here, so that each has its line number and its raw text; Arrow's parser splits their fields.

A quote opens a field only at its beginning; elsewhere it is a letter like any other. Where quotes do not pair, the one
physical line in which they began goes to quarantine and reading goes on with the next, so that a stray quote never
swallows the rows behind it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from assets.ingestion.chunk import Broken, Chunk, declared_columns, require_columns
from assets.ingestion.files import LandedFile
from assets.ingestion.reasons import Reason
from assets.ingestion.unpacking import BLOCK_BYTES, line_spans, text_blocks
from resources.contract.dataset import Dataset
from resources.contract.errors import DataError
from resources.contract.source import Csv

Skip = Callable[[pa_csv.InvalidRow], str]


def chunks(dataset: Dataset, file: LandedFile) -> Iterator[Chunk]:
    """The rows of a CSV file; an empty one gives none, a header alone gives a chunk without rows."""
    grammar, rest, line, header = Grammar.of(dataset.source.csv), b"", 1, None
    for block, last in text_blocks(file, dataset.source.encoding):
        data = rest + block
        records = grammar.records(data, last=last)
        rest, begun = data[records.end :], line
        line += records.num_lines
        if not len(records.starts) and not records.broken:
            continue
        if header is None:
            header = Header.of(dataset, _first_row(records, data, dataset.source.csv, file=file.name), file=file.name)
            records = records.without_first()
        yield _parsed(records, data, header, csv=dataset.source.csv, line=begun)


@dataclass(frozen=True, kw_only=True)
class Records:
    """Where the records of a block lie. `lines` counts from 0 at the block's beginning; blank lines are no records."""

    starts: np.ndarray
    stops: np.ndarray
    lines: np.ndarray
    broken: tuple[tuple[int, int, int], ...]  # start, stop, line
    end: int  # where the rest begins: an unfinished record, for the next block
    num_lines: int

    def without_first(self) -> Records:
        """All but the first record, which is the header."""
        return replace(self, starts=self.starts[1:], stops=self.stops[1:], lines=self.lines[1:])


@dataclass(frozen=True, kw_only=True)
class Grammar:
    """What a record looks like, for one delimiter and one quote."""

    quote: bytes
    delimiter: bytes
    record: re.Pattern[bytes]  # one whole record, up to the end of its line or of the text
    unclosed: re.Pattern[bytes]  # fields, then a quote that is still open at the end of the text

    @classmethod
    def of(cls, declared: Csv) -> Grammar:
        assert declared.quote is not None
        quote, delimiter = re.escape(declared.quote.encode()), re.escape(declared.delimiter.encode())
        inside = rb"%b[^%b]*+(?:%b%b[^%b]*+)*+" % (quote, quote, quote, quote, quote)
        field = rb"(?:%b%b|(?!%b)[^%b\r\n]*+)" % (inside, quote, quote, delimiter)
        return cls(
            quote=declared.quote.encode(),
            delimiter=declared.delimiter.encode(),
            record=re.compile(rb"%b(?:%b%b)*+(?=[\r\n]|\Z)" % (field, delimiter, field)),
            unclosed=re.compile(rb"(?:%b%b)*+%b\Z" % (field, delimiter, inside)),
        )

    def records(self, data: bytes, *, last: bool) -> Records:
        """The records of a block. Lines without a quote are records as they stand; the others are matched."""
        starts, stops, end = line_spans(data, last=last)
        first = np.ones(len(starts), dtype=bool)  # lines that begin a record
        stops, broken = stops.copy(), []
        free = 0  # the first line that no earlier record has taken
        for index in self._quoted_lines(data, starts, stops):
            if index < free:
                continue
            start, stop = int(starts[index]), int(stops[index])
            found = self.record.match(data, start)
            reached = found.end() if found else 0
            unfinished = reached >= end if found else self.unclosed.match(data, start) is not None
            if unfinished and not last:
                if len(data) - start < BLOCK_BYTES:
                    starts, stops, first, end = starts[:index], stops[:index], first[:index], start
                    break
                found = None  # no record is that long: this quote was not meant to open one
            if not found:
                broken.append((start, stop, index))
                free = index + 1
            elif reached == stop:
                free = index + 1
            else:
                free = int(np.searchsorted(starts, reached, side="right"))
                first[index + 1 : free] = False
                stops[index] = reached
        kept = first & (stops > starts)
        kept[[index for _, _, index in broken]] = False
        return Records(
            starts=starts[kept],
            stops=stops[kept],
            lines=np.flatnonzero(kept),
            broken=tuple(broken),
            end=end,
            num_lines=len(starts),
        )

    def _quoted_lines(self, data: bytes, starts: np.ndarray, stops: np.ndarray) -> list[int]:
        """Lines with a quote in them, but for those whose quotes plainly pair within the line.

        They plainly pair where every odd one stands behind a delimiter or opens the line, every even one before a
        delimiter or ends it, and two in a row stand for one.
        """
        if self.quote not in data:
            return []
        buffer = np.frombuffer(data, np.uint8)
        quotes = np.flatnonzero(buffer == self.quote[0])
        quotes = quotes[: np.searchsorted(quotes, stops[-1])] if len(stops) else quotes[:0]
        lines = np.searchsorted(starts, quotes, side="right") - 1
        number = np.arange(len(quotes)) - np.searchsorted(lines, lines)  # within its line
        before, after = buffer[np.maximum(quotes - 1, 0)], buffer[np.minimum(quotes + 1, len(buffer) - 1)]
        opens = number % 2 == 0
        doubled = np.where(opens, (before == self.quote[0]) & (number > 0), after == self.quote[0])
        edge = np.where(opens, quotes == starts[lines], quotes + 1 == stops[lines])
        plain = doubled | edge | (np.where(opens, before, after) == self.delimiter[0])
        counts = np.bincount(lines, minlength=len(starts))
        unclear = counts % 2 == 1
        unclear[lines[~plain]] = True
        return np.flatnonzero(unclear).tolist()


@dataclass(frozen=True, kw_only=True)
class Header:
    """The columns of a file: their number, where the declared ones stand, and the names of the others."""

    width: int
    places: dict[str, int | None]
    undeclared: frozenset[str]

    @classmethod
    def of(cls, dataset: Dataset, names: list[str], *, file: str) -> Header:
        """Raises DataError where a required column is missing or a declared one stands there twice."""
        declared = declared_columns(dataset)
        require_columns(dataset, names, file=file)
        twice = [name for name in declared if names.count(name) > 1]
        if twice:
            raise DataError(f"{file} has two columns {twice[0]!r}: it cannot be told which one is meant. Rename one.")
        places = {name: names.index(name) if name in names else None for name in declared}
        return cls(width=len(names), places=places, undeclared=frozenset(names) - declared.keys())


def _first_row(records: Records, data: bytes, declared: Csv, *, file: str) -> list[str]:
    """The names in the header."""
    if records.broken and (not len(records.lines) or records.broken[0][2] < records.lines[0]):
        raise DataError(f"{file}: the quotes of the header do not pair, so its columns cannot be told. Land it again.")
    text = data[records.starts[0] : records.stops[0]].decode()
    return next(csv.reader(io.StringIO(text, newline=""), delimiter=declared.delimiter, quotechar=declared.quote))


def _parsed(records: Records, data: bytes, header: Header, *, csv: Csv, line: int) -> Chunk:
    """The records of one block as columns; those with another number of fields than the header are broken rows."""
    ragged: list[int] = []

    def skip(row: pa_csv.InvalidRow) -> str:
        assert row.number is not None
        ragged.append(row.number - 1)
        return "skip"

    def text(spans: tuple[np.ndarray, np.ndarray], row: int) -> str:
        return data[spans[0][row] : spans[1][row]].decode()

    broken = [
        Broken(line=line + at, reason=Reason.BROKEN_QUOTES, raw=data[start:stop].decode())
        for start, stop, at in records.broken
    ]
    taken = {name: f"{place}" for name, place in header.places.items() if place is not None}
    table = _fields(_without(data, records), header.width, list(taken.values()), records, csv=csv, skip=skip)
    sound = np.ones(len(records.starts), dtype=bool)
    sound[ragged] = False
    broken += [
        Broken(
            line=line + int(records.lines[row]), reason=Reason.RAGGED, raw=text((records.starts, records.stops), row)
        )
        for row in ragged
    ]
    assert table.num_rows == np.count_nonzero(sound), "Arrow and we disagree on where records begin"
    nulls = pa.nulls(table.num_rows, pa.string())
    return Chunk(
        columns=pa.table({name: table[taken[name]] if name in taken else nulls for name in header.places}),
        lines=line + records.lines[sound],
        raw=partial(text, (records.starts[sound], records.stops[sound])),
        broken=tuple(sorted(broken, key=lambda row: row.line)),
        undeclared=header.undeclared,
    )


def _without(data: bytes, records: Records) -> bytes:
    """The part of a block that holds the records, without the lines whose quotes do not pair."""
    if not len(records.starts):
        return b""
    bounds = [int(records.starts[0]), *(at for start, stop, _ in records.broken for at in (start, stop)), records.end]
    pieces = [data[start:stop] for start, stop in zip(bounds[::2], bounds[1::2], strict=True) if start < stop]
    return pieces[0] if len(pieces) == 1 else b"\n".join(pieces)


def _fields(data: bytes, width: int, taken: list[str], records: Records, *, csv: Csv, skip: Skip) -> pa.Table:
    """The taken columns (named by their places) of whole records; `skip` hears of rows of another width."""
    if not len(records.starts):
        return pa.table({name: pa.nulls(0, pa.string()) for name in taken})
    return pa_csv.read_csv(
        pa.BufferReader(data),
        read_options=pa_csv.ReadOptions(
            column_names=[f"{place}" for place in range(width)],
            use_threads=False,  # with threads it does not tell the numbers of the rows it skips
            block_size=len(data) + 1,
        ),
        parse_options=pa_csv.ParseOptions(
            delimiter=csv.delimiter,
            quote_char=csv.quote,
            newlines_in_values=True,
            invalid_row_handler=skip,
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(taken, pa.string()), include_columns=taken, strings_can_be_null=False
        ),
    )
