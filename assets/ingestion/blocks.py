"""Landed files as blocks of rows of a good size: large files in several, many small files together in one.

A block is sifted and hashed as one, whatever files its rows are of; then every row is counted for its own file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.ingestion.checksums import carried_checksum, verify
from assets.ingestion.chunk import Broken, Chunk, Layout
from assets.ingestion.elsewhere import at_hand
from assets.ingestion.files import LandedFile, require_unchanged, sha256_of_landed
from assets.ingestion.joined import Joined, joinable, joined
from assets.ingestion.reading import read
from assets.ingestion.sifting import Sifted, Span, sift
from assets.ingestion.tally import Tally, faults_of
from assets.ingestion.unpacking import PACKED
from resources.contract.dataset import Dataset
from resources.contract.digest import row_hashes
from resources.contract.errors import DataError

log = logging.getLogger(__name__)

_BLOCK_ROWS = 1 << 16
_BLOCK_BYTES = 8 << 20


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A file has been read to its end, or (`refused`) not: then none of its rows count."""

    name: str
    rows: int = 0
    layout: Layout = ()
    verified_by: str | None = None
    refused: str | None = None

    def with_(self, chunk: Chunk) -> Ended:
        """The same file after one chunk more."""
        return replace(
            self,
            rows=self.rows + chunk.num_rows,
            layout=self.layout if chunk.seen == self.layout else _merged(self.layout, chunk.seen),
        )


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some rows of one file or of several, one after the other.

    `starts` is where in the chunk's columns the rows of each file begin, `firsts` the first of its lines in the chunk's
    count; its own count goes on from `bases`.
    """

    chunk: Chunk
    names: tuple[str, ...]
    starts: np.ndarray
    firsts: np.ndarray
    bases: np.ndarray

    @property
    def bounds(self) -> np.ndarray:
        """Where the rows of each file begin, and where the last ones end."""
        return np.append(self.starts, self.chunk.columns.num_rows)

    def owners(self, lines: np.ndarray) -> np.ndarray:
        """Which of the files each line is of."""
        return np.searchsorted(self.firsts, lines, side="right") - 1

    def located(self, quarantine: pa.Table) -> tuple[pa.Table, np.ndarray]:
        """The quarantine of the block under its files' names and lines, and which file each row is of."""
        if len(self.names) == 1:
            return quarantine, np.zeros(quarantine.num_rows, np.int64)
        lines = quarantine["line"].to_numpy()
        owners = self.owners(lines)
        places = {
            "file": pa.array(self.names, pa.string()).take(pa.array(owners)),
            "line": pa.array(lines - self.bases[owners]),
        }
        for name, values in places.items():
            at = quarantine.schema.get_field_index(name)
            quarantine = quarantine.set_column(at, quarantine.schema.field(at), values)
        return quarantine, owners


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Some typed rows, the sum of their hashes in each lane, and the span of their times."""

    table: pa.Table
    sums: np.ndarray
    first_us: int | None = None
    last_us: int | None = None

    @classmethod
    def of(cls, table: pa.Table, *, timed: bool) -> Rows:
        sums = row_hashes(table).sum(axis=1, dtype=np.uint64)
        if not timed or not table.num_rows:
            return cls(table=table, sums=sums)
        span = pc.min_max(table["event_time"].cast(pa.int64()))
        return cls(table=table, sums=sums, first_us=span["min"].as_py(), last_us=span["max"].as_py())


@dataclass(frozen=True, kw_only=True)
class Sorted:
    """A block after sifting: its good rows by event day, its quarantine, and what is to be counted of each file."""

    good: dict[date, Rows]
    quarantine: Rows
    tallies: dict[str, Tally]
    sifted: Sifted = field(repr=False)


def blocks(dataset: Dataset, files: Iterable[LandedFile]) -> Iterator[Block | Ended]:
    """The rows of some files, one file after the other; behind the last row of each its end."""
    gathering, by = _Gathering(dataset), joinable(dataset)
    for found in joined(dataset, files) if by is not None else files:
        if isinstance(found, LandedFile):
            yield from gathering.read(found)
            continue
        assert by is not None
        if (together := _of_text(by, found)) is not None:
            yield from gathering.flushed()
            yield from together
        else:
            for file in found.files:
                yield from gathering.read(file)
    yield from gathering.flushed()


class _Gathering:
    """Chunks of small files that wait until they make a block, and the ends of files behind them."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._alone = dataset.time.epoch == "auto"  # one unit for all rows of a file, not of its neighbours
        self._chunks: list[tuple[str, Chunk]] = []
        self._ended: list[Ended] = []
        self._rows = self._bytes = 0

    def flushed(self) -> Iterator[Block | Ended]:
        """What waits."""
        chunks, ended = self._chunks, self._ended
        self._chunks, self._ended, self._rows, self._bytes = [], [], 0, 0
        if chunks:
            yield _together(chunks)
        yield from ended

    def read(self, file: LandedFile) -> Iterator[Block | Ended]:
        """What does not have to wait for more, of this file and those before."""
        end = Ended(name=file.name)
        try:
            with at_hand(file) as here:
                voucher = verified_by(self._dataset, here)
                for chunk in read(self._dataset, here):
                    if self._chunks and not self._fits(chunk):
                        yield from self.flushed()
                    self._chunks.append((file.name, chunk))
                    self._rows, self._bytes = self._rows + chunk.num_rows, self._bytes + chunk.columns.nbytes
                    end = end.with_(chunk)
                require_unchanged(here)
        except DataError as error:
            log.error(f"left out {file.name}: {error}")
            # what of it is still here goes; what went ahead is taken out again by whoever wrote it
            self._chunks = [(name, chunk) for name, chunk in self._chunks if name != file.name]
            self._ended.append(Ended(name=file.name, refused=str(error)))
        else:
            self._ended.append(replace(end, verified_by=voucher))

    def _fits(self, chunk: Chunk) -> bool:
        full = self._rows + chunk.num_rows > _BLOCK_ROWS or self._bytes + chunk.columns.nbytes > _BLOCK_BYTES
        return not (full or self._alone) and chunk.columns.schema.equals(self._chunks[0][1].columns.schema)


def _of_text(dataset: Dataset, text: Joined) -> list[Block | Ended] | None:
    """The rows of files that are one text, and their ends; None where they must be read alone."""
    try:
        vouchers = [verified_by(dataset, file) for file in text.files]
        found, rows = _read_text(dataset, text)
    except DataError:
        return None  # whichever file it is
    if (rows != text.lines).any():
        return None
    for file in text.files:
        require_unchanged(file)
    layout = found[-1].chunk.seen
    ends = [
        Ended(name=file.name, rows=count, layout=layout, verified_by=voucher)
        for file, count, voucher in zip(text.files, rows.tolist(), vouchers, strict=True)
    ]
    return [*found, *ends]


def _read_text(dataset: Dataset, text: Joined) -> tuple[list[Block], np.ndarray]:
    """The blocks of files that are one text, and how many rows each of the files has."""
    names, firsts, bases = tuple(file.name for file in text.files), text.firsts, text.bases
    found, rows = [], np.zeros(len(names), np.int64)
    with text.landed() as file:
        for chunk in read(dataset, file):
            starts = np.searchsorted(chunk.lines, firsts)
            block = Block(chunk=chunk, names=names, starts=starts, firsts=firsts, bases=bases)
            lines = np.concatenate([chunk.lines, [row.line for row in chunk.broken]]).astype(np.int64)
            rows += np.bincount(block.owners(lines), minlength=len(names))
            found.append(block)
    return found, rows


def sorted_block(dataset: Dataset, block: Block | Ended, span: Span) -> Sorted | Ended:
    """The rows of a block in their places, hashed and counted; the end of a file as it is."""
    if isinstance(block, Ended):
        return block
    sifted = sift(dataset, block.chunk, file=block.names[0], span=span)
    quarantine, owners = block.located(sifted.quarantine)
    tallies = {name: Tally() for name in block.names}
    for day, places in sifted.rows.items():
        for name, count in zip(block.names, np.diff(np.searchsorted(places, block.bounds)).tolist(), strict=True):
            tallies[name].days[day] += count
    repeated, shifted = (
        np.diff(np.searchsorted(places, block.bounds)).tolist() for places in (sifted.repeated, sifted.shifted)
    )
    quarantined = np.bincount(owners, minlength=len(block.names)).tolist()
    for at, name in enumerate(block.names):
        tallies[name].ambiguous += repeated[at]
        tallies[name].shifted += shifted[at]
        tallies[name].quarantined += quarantined[at]
    for fault in faults_of(quarantine):
        tallies[fault["file"]].add_fault(fault)
    return Sorted(
        good={day: Rows.of(table, timed=True) for day, table in sifted.good.items()},
        quarantine=Rows.of(quarantine, timed=False),
        tallies=tallies,
        sifted=sifted,
    )


def verified_by(dataset: Dataset, file: LandedFile) -> str | None:
    """What vouches for the file's bytes. Raises DataError where it says otherwise."""
    if file.fault is not None:
        raise DataError(file.fault)
    if file.sidecar is not None:
        if file.sidecar.algorithm != "sha256" or sha256_of_landed(file) != file.sidecar.digest:
            verify(file.path, file.sidecar)
        return f"{file.sidecar.algorithm} sidecar"
    packed = file.path.suffix in PACKED
    carried = carried_checksum(file.path) if packed or dataset.source.format == "parquet" else None
    return carried or file.fetched_by


def _merged(layout: Layout, seen: Layout) -> Layout:
    """The columns of several chunks: a JSON line may show keys that the ones before did not."""
    known = set(layout)
    return (*layout, *(column for column in seen if column not in known)) if layout else seen


def _together(gathered: list[tuple[str, Chunk]]) -> Block:
    """The chunks as one, in which each file's lines are counted on behind those of the file before."""
    if len(gathered) == 1:
        (name, chunk), zero = gathered[0], np.zeros(1, np.int64)
        return Block(chunk=chunk, names=(name,), starts=zero, firsts=zero, bases=zero)
    chunks = [chunk for _, chunk in gathered]
    starts = np.cumsum([0, *(chunk.columns.num_rows for chunk in chunks)])
    longest = [
        max(int(chunk.lines[-1]) if len(chunk.lines) else 0, chunk.broken[-1].line if chunk.broken else 0)
        for chunk in chunks
    ]
    bases = np.cumsum([0, *(last + 1 for last in longest)])

    def raw(row: int) -> str | None:
        at = int(np.searchsorted(starts, row, side="right")) - 1
        return chunks[at].raw(row - int(starts[at]))

    names, first = [], []
    for at, (name, _) in enumerate(gathered):
        if not names or names[-1] != name:
            names.append(name)
            first.append(at)
        else:  # more of the same file: its lines go on
            bases[at] = bases[first[-1]]
    columns = pa.concat_tables([chunk.columns for chunk in chunks])
    return Block(
        chunk=replace(
            chunks[0],
            columns=columns.unify_dictionaries().combine_chunks(),
            lines=np.concatenate([chunk.lines + bases[at] for at, chunk in enumerate(chunks)]),
            raw=raw,
            broken=tuple(
                Broken(line=row.line + int(bases[at]), reason=row.reason, raw=row.raw)
                for at, chunk in enumerate(chunks)
                for row in chunk.broken
            ),
        ),
        names=tuple(names),
        starts=starts[:-1][first],
        firsts=bases[:-1][first] + 1,
        bases=bases[:-1][first],
    )
