"""New parts of a delivery, from landed files, staged exports and parts that are there: two at a time, in a fixed order."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from assets.ingestion.blocks import Ended, blocks, sorted_block
from assets.ingestion.chunk import Layout
from assets.ingestion.elsewhere import fetching
from assets.ingestion.flow import in_order, prefetched, side_by_side
from assets.ingestion.known import Delivered, members_of, rows_at
from assets.ingestion.landing import Landing
from assets.ingestion.parts import Member, PartWriter, Place, Range, copied, grouped, part_name, ranges
from assets.ingestion.sifting import Span
from assets.ingestion.tally import Tally
from resources.contract.dataset import Dataset
from resources.contract.errors import CorruptError
from resources.contract.manifest import Manifest
from resources.lake import Lake, Piece, sha256_of

log = logging.getLogger(__name__)

_WORKERS = 2  # that sift, and parts that are written side by side
_AHEAD = 2  # blocks that a reader is in front of them


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where the rows of a day come from."""

    dataset: Dataset
    lake: Lake
    landing: Landing
    current: Manifest | None
    day: date
    span: Span
    files: Mapping[str, Delivered]


@dataclass
class Part:
    """A part while it is written: whose rows lie in it in which order, and what is remembered of them."""

    writer: PartWriter
    checkpoint: Callable[[], None]
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    layouts: dict[str, Layout] = field(default_factory=dict)
    order: list[tuple[str, Tally]] = field(default_factory=list)  # of the files that are read, also of refused ones

    def place(self, name: str, fact: Mapping[str, Any]) -> None:
        """The rows of a file stand behind those that are there."""
        self.facts[name] = {**fact}
        if fact.get("days") or fact.get("quarantined"):
            self.facts[name] |= {"part": self.writer.name, "at": len(self.facts)}


def write_parts(
    sources: Sources, parts: Sequence[Sequence[Member]], folder: Path
) -> tuple[list[Piece], dict[str, dict[str, Any]], dict[str, Layout]]:
    """The pieces of new parts, now in `folder`; what is to be remembered of each file in them, and the columns it shows.

    Raises TransientError where a file changed in the meantime.
    """
    # Arrow's own pool takes a fifth more work where one thread frees what another one has asked for
    pa.set_memory_pool(pa.system_memory_pool())
    with ThreadPoolExecutor(_WORKERS) as pool:

        def write(members: Sequence[Member], checkpoint: Callable[[], None]) -> tuple[list[Piece], Part]:
            return _write_part(sources, members, folder, pool=pool, checkpoint=checkpoint)

        names = [member.name for members in parts for member in members if member.of is None]
        files = [file for name in names if (file := sources.files[name].file) is not None]
        with fetching(() if sources.landing.index is not None else files):
            made = side_by_side(list(parts), write, workers=_WORKERS)
    return (
        [piece for pieces, _ in made for piece in pieces],
        {name: fact for _, part in made for name, fact in part.facts.items()},
        {name: layout for _, part in made for name, layout in part.layouts.items()},
    )


def _write_part(
    sources: Sources, members: Sequence[Member], folder: Path, *, pool: Executor, checkpoint: Callable[[], None]
) -> tuple[list[Piece], Part]:
    started = time.monotonic()
    part = Part(writer=PartWriter(sources.dataset, folder, part_name(members)), checkpoint=checkpoint)
    try:
        for old, present in grouped(members).items():
            _copy_part(sources, part, old, {sources.files[member.name].source: member.name for member in present})
        read = [member.name for member in members if member.of is None]
        if sources.landing.index is not None:
            for name in read:
                _copy_staged(sources, part, name)
            pieces = part.writer.pieces()
        else:
            before = {**part.facts}
            _read_files(sources, part, read, pool=pool)
            pieces = part.writer.pieces(dead=_living(part, before))
    finally:
        part.writer.abandon()
    sources.lake.step("deliveries:part")
    rows = sum(piece.rows for piece in pieces)
    log.info(
        f"wrote part {part.writer.name} of {sources.day}: {len(members):,} files, of which {len(read):,} were read, "
        f"{rows:,} rows, {time.monotonic() - started:.2f} s"
    )
    return pieces, part


def _copy_part(sources: Sources, part: Part, old: str, wanted: Mapping[str, str]) -> None:
    """Copies the rows of some files (name then -> name now) of an old part."""
    lake, current = sources.lake, sources.current
    assert current is not None
    members = members_of(current)[old]
    for entry in current.files:
        if Path(entry.name).stem != old:
            continue
        place = entry.event_day
        counts = [(name, wanted.get(name), rows_at(fact, place)) for name, fact in members]
        for rows in copied(lake.verified_path(current, entry), ranges(counts), place=place):
            part.writer.add(place, rows)
            part.checkpoint()
    for name, fact in members:
        if name in wanted:
            part.place(wanted[name], fact)


def _copy_staged(sources: Sources, part: Part, name: str) -> None:
    """Copies the rows of the day of an export, or remembers why it cannot be read."""
    assert sources.landing.index is not None
    holds, day = sources.landing.index[name], sources.day
    if holds.refused is not None:
        part.facts[name] = {"rows": 0, "refused": holds.refused}
        return
    fact = {**holds.days[day], "rows_of_file": holds.rows}
    if holds.verified_by is not None:
        fact["verified_by"] = holds.verified_by
    for place in (day, None):
        staged = holds.staged(day, quarantined=place is None)
        if staged is None:
            continue
        path, checksum = staged
        if not path.exists() or sha256_of(path) != checksum:
            raise CorruptError(
                f"{path}, the rows of {name} of {day}, is gone or was damaged. Delete its folder: the file is then read again."
            )
        count = rows_at(fact, place)
        for rows in copied(path, [Range(start=0, rows=count, name=name)], place=place):
            part.writer.add(place, rows)
            part.checkpoint()
    part.place(name, fact)
    part.layouts[name] = holds.layout


def _read_files(sources: Sources, part: Part, names: Sequence[str], *, pool: Executor) -> None:
    """Reads landed files into a part, in their order. Their blocks are sifted side by side and written one by one."""
    files = [file for name in names if (file := sources.files[name].file) is not None]
    tallies: dict[str, Tally] = {}
    work = partial(sorted_block, sources.dataset, span=sources.span)
    with prefetched(blocks(sources.dataset, files), ahead=_AHEAD) as source:
        for found in in_order(source, work, pool=pool, ahead=_WORKERS + 1):
            part.checkpoint()
            if isinstance(found, Ended):
                _end(part, found, tallies.get(found.name, Tally()))
                continue
            for name, tally in found.tallies.items():
                tallies.setdefault(name, Tally()).add(tally)
            for day, rows in found.good.items():
                part.writer.add(day, rows)
            part.writer.add(None, found.quarantine)


def _end(part: Part, ended: Ended, tally: Tally) -> None:
    part.order.append((ended.name, tally))
    if ended.refused is not None:
        part.facts[ended.name] = {"rows": 0, "refused": ended.refused}
        return
    fact = tally.fact(rows=ended.rows)
    if ended.verified_by is not None:
        fact["verified_by"] = ended.verified_by
    part.place(ended.name, fact)
    part.layouts[ended.name] = ended.layout


def _living(part: Part, before: Mapping[str, Mapping[str, Any]]) -> Mapping[Place, Sequence[Range]] | None:
    """The ranges of the part's files that stay, or None where all do: a file may be refused after some of its blocks.

    Args:
        before: the facts of what was copied in front of the files that were read, in the part's order.
    """
    dead = {name for name, tally in part.order if "refused" in part.facts[name] and (tally.days or tally.quarantined)}
    if not dead:
        return None
    facts = [(name, fact) for name, fact in before.items() if "part" in fact]
    facts += [(name, tally.fact(rows=0)) for name, tally in part.order]
    places: set[Place] = {None, *(date.fromisoformat(day) for _, fact in facts for day in fact.get("days", ()))}
    return {
        place: ranges([(name, None if name in dead else name, rows_at(fact, place)) for name, fact in facts])
        for place in places
    }
