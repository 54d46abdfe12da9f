"""Slicewise: the delivery as the product builds it, then the repeats of the declared key over what it delivered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from assets.ingestion import deliver
from assets.ingestion.landing import Landing
from ingest_rivals.event_day import DAY, KEY, NOW, LandedDay
from ingest_rivals.taken import Taken
from resources.contract.digest import row_hashes
from resources.lake import Lake

_BITS = 6  # of a hash, by which the keys are taken apart
_AT_ONCE = 4


def take(day: LandedDay, folder: Path) -> Taken:
    """The day in a new lake."""
    dataset, lake = day.contract, Lake(folder / "lake")
    manifest = deliver.build(dataset, lake, Landing.scan(dataset), DAY, now=NOW).manifest
    good: dict[str, list[Path]] = {}
    quarantine = []
    for entry in manifest.files:
        of_day = quarantine if entry.event_day is None else good.setdefault(entry.event_day.isoformat(), [])
        of_day.append(lake.path(manifest, entry))
    return Taken(good=good, quarantine=quarantine, duplicates=sum(map(repeats, good.values())))


def repeats(paths: list[Path]) -> int:
    """How many rows of these files have the key of another one that is counted already, in bounded memory.

    The keys' hashes of 128 bits, the product's own measure of equality, go to disk by their highest bits; each part is
    then sorted by itself.
    """
    with TemporaryDirectory() as spilled, ThreadPoolExecutor(2) as pool:
        parts = [(Path(spilled) / str(number)).open("wb") for number in range(1 << _BITS)]
        groups = [(path, group) for path in paths for group in range(pq.read_metadata(path).num_row_groups)]
        for hashes in _ahead(pool, groups):
            for part, some in zip(parts, hashes, strict=True):
                part.write(some)
        for part in parts:
            part.close()
        return sum(pool.map(_repeats_in, [Path(part.name) for part in parts]))


def _repeats_in(part: Path) -> int:
    first, second = np.fromfile(part, dtype=np.uint64).reshape(-1, 2).T.copy()
    order = np.argsort(first)  # that two keys share one lane and not the other is not to be expected
    first, second = first[order], second[order]
    return int(np.count_nonzero((first[1:] == first[:-1]) & (second[1:] == second[:-1])))


def _ahead(pool: ThreadPoolExecutor, groups: Iterable[tuple[Path, int]]) -> Iterator[list[bytes]]:
    """The hashes of each row group, a few of them under way at a time."""
    rest = iter(groups)
    running = [pool.submit(_hashes, *group) for group in islice(rest, _AT_ONCE)]
    while running:
        yield running.pop(0).result()
        running += [pool.submit(_hashes, *group) for group in islice(rest, 1)]


def _hashes(path: Path, group: int) -> list[bytes]:
    """The hashes of a row group's keys, by their highest bits."""
    with pq.ParquetFile(path, read_dictionary=["event_type"]) as file:
        batches = file.iter_batches(1 << 17, row_groups=[group], columns=list(KEY), use_threads=False)
        keys = np.concatenate([row_hashes(pa.Table.from_batches([b]).select(KEY)).T for b in batches])
    parts = (keys[:, 0] >> np.uint64(64 - _BITS)).astype(np.uint8)
    order = np.argsort(parts, kind="stable")
    ends = np.cumsum(np.bincount(parts, minlength=1 << _BITS))[:-1]
    return [part.tobytes() for part in np.split(keys[order], ends)]
