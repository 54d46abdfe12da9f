"""What exports hold, where the path does not tell the day: each landed file is read once, when it is first seen.

Its rows are then staged by event day below `<lake>/<dataset>/staged/`, and good for as long as the file and what the
contract says of reading it stay as they are; `index.json` beside them names the folder of each file.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from assets.ingestion.affected import FileOutcome, affected, reading_key, reading_of
from assets.ingestion.blocks import Ended, Sorted, blocks, sorted_block
from assets.ingestion.chunk import Layout
from assets.ingestion.files import LandedFile, sha256_of_landed
from assets.ingestion.flow import in_order, prefetched
from assets.ingestion.sifting import Span
from assets.ingestion.staged import Staging, staged_name
from assets.ingestion.tally import Tally, faults_of
from resources.contract.dataset import Dataset
from resources.contract.days import day_of, instant_us
from resources.contract.errors import DataError
from resources.lake import Lake, locked, sha256_of, write_atomically

log = logging.getLogger(__name__)

_WORKERS = 2
_WRITTEN_EVERY_S = 2.0
_FORGOTTEN_S = 30 * 86_400  # how long a file that is gone may come back without being read again


@dataclass(frozen=True, kw_only=True)
class Indexed:
    """What a file holds: per event day what a manifest remembers of its rows. Rows of no day are of the earliest.

    A file that cannot be read holds no days; `refused` says why.
    """

    sha256: str
    folder: Path
    days: Mapping[date, Mapping[str, Any]]
    checksums: Mapping[str, str]  # sha256 of each staged file
    rows: int
    layout: Layout
    verified_by: str | None
    refused: str | None

    def staged(self, day: date, *, quarantined: bool) -> tuple[Path, str] | None:
        """The file with the rows of one day and its checksum, if there are any."""
        name = staged_name(quarantined=quarantined, day=day)
        return (self.folder / name, self.checksums[name]) if name in self.checksums else None


def staged_root(dataset: Dataset, lake: Lake) -> Path:
    return lake.root / dataset.name / "staged"


def indexed(dataset: Dataset, lake: Lake, files: Sequence[LandedFile], *, now: datetime) -> dict[str, Indexed]:
    """What each file holds, by name. A file that was read before, and is as it was, is not read again."""
    root, contract = staged_root(dataset, lake), reading_key(dataset)
    known = _known(root)
    if any(not _same(known.get(file.name), file, contract) for file in files) or known.keys() - {f.name for f in files}:
        with locked(root / ".lock"):  # whoever comes second finds it done
            known = _brought_up_to_date(dataset, root, files, contract=contract, now=now)
    found = {file.name: _indexed(root / known[file.name]["folder"]) for file in files}
    for name, holds in found.items():
        if holds.refused:
            log.error(f"left out {name}: {holds.refused}")
    return found


def _known(root: Path) -> dict[str, dict[str, Any]]:
    try:
        return json.loads((root / "index.json").read_bytes())["files"]
    except (FileNotFoundError, ValueError, KeyError):  # what cannot be read is made again: it holds nothing of its own
        return {}


def _same(entry: Mapping[str, Any] | None, file: LandedFile, contract: str) -> bool:
    return entry is not None and "gone_since" not in entry and _fits(entry, file, contract)


def _fits(entry: Mapping[str, Any], file: LandedFile, contract: str) -> bool:
    state = {"bytes": file.bytes, "modified_ns": file.modified_ns, "witness": file.witness, "contract": contract}
    return {key: entry.get(key) for key in state} == state


def _brought_up_to_date(
    dataset: Dataset, root: Path, files: Sequence[LandedFile], *, contract: str, now: datetime
) -> dict[str, dict[str, Any]]:
    """The index with an entry for each file, reading those whose rows are not known."""
    known, written = _known(root), time.monotonic()
    named = {file.name for file in files}
    by_content = {_content(name, entry["sha256"], entry["witness"]): entry for name, entry in known.items()}
    for name in known.keys() - named:
        gone_since = known[name].setdefault("gone_since", now.timestamp())
        if now.timestamp() - gone_since > _FORGOTTEN_S:
            del known[name]
    for file in files:
        entry = known.get(file.name)
        if entry is not None and _fits(entry, file, contract) and (root / entry["folder"]).exists():
            entry.pop("gone_since", None)
            continue
        try:
            sha256 = sha256_of_landed(file)
        except DataError as error:
            sha256, fault = "", str(error)
        else:
            fault = None
        content = _content(file.name, sha256, file.witness)
        held = by_content.get(content) if fault is None else None
        folder = held and _folder_of(dataset, root, held, contract=contract)
        known[file.name] = by_content[content] = {
            "bytes": file.bytes,
            "modified_ns": file.modified_ns,
            "witness": file.witness,
            "contract": contract if fault is None else None,  # the right to read it may be given at any time
            "sha256": sha256,
            "folder": folder or _stage(dataset, root, file, sha256=sha256, fault=fault, now=now).name,
        }
        if time.monotonic() - written > _WRITTEN_EVERY_S:
            _write(root, known)
            written = time.monotonic()
    _write(root, known)
    return known


def _write(root: Path, known: Mapping[str, Any]) -> None:
    write_atomically(root / "index.json", json.dumps({"files": known}, sort_keys=True).encode())


def _content(name: str, sha256: str, witness: str | None) -> tuple[str, str, str | None]:
    """What is read alike: another ending is read by other rules, and another checksum beside it may refuse it."""
    return sha256, Path(name).suffix, witness


def _folder_of(dataset: Dataset, root: Path, entry: Mapping[str, Any], *, contract: str) -> str | None:
    """Where the rows of a content lie already, if the contract would read them so now."""
    if not (root / entry["folder"]).exists():
        return None
    if entry["contract"] == contract:
        return entry["folder"]
    held = _read(root / entry["folder"])
    outcomes = [FileOutcome.of(fact, delivered=None) for fact in held["days"].values() or [{}]]
    # a refused file may be readable now
    if held["refused"] or any(affected(held["contract"], dataset, outcome) for outcome in outcomes):
        return None
    return entry["folder"]


def _stage(dataset: Dataset, root: Path, file: LandedFile, *, sha256: str, fault: str | None, now: datetime) -> Path:
    """The folder with the rows of a file, by reading it; without any where it is refused."""
    folder = root / f"{sha256[:12] or 'unreadable'}-{uuid.uuid4().hex[:8]}"
    last = dataset.days.last
    plausible = day_of(instant_us(now), dataset.days.zone) + timedelta(days=1)
    span = Span(oldest=dataset.days.first, newest=min(plausible, last or plausible), plausible=plausible)
    tallies: dict[date | None, Tally] = defaultdict(Tally)
    end = Ended(name=file.name, refused=fault)
    with Staging(dataset, root) as staging:
        if fault is None:
            with ThreadPoolExecutor(_WORKERS) as pool, prefetched(blocks(dataset, [file]), ahead=2) as source:
                work = partial(sorted_block, dataset, span=span)
                for found in in_order(source, work, pool=pool, ahead=_WORKERS + 1):
                    if isinstance(found, Ended):
                        end = found
                    else:
                        _add(staging, tallies, found)
        if end.refused is not None:
            tallies.clear()
        home = min((day for day in tallies if day is not None), default=dataset.days.first)
        if (homeless := tallies.pop(None, None)) is not None:
            tallies[home].add(homeless)
        lost = end.rows - sum(tally.days.total() + tally.quarantined for tally in tallies.values())
        days = {
            day: tally.fact(rows=tally.days.total() + tally.quarantined + (lost if day == home else 0))
            for day, tally in sorted((day, tally) for day, tally in tallies.items() if day is not None)
        }
        beside = root / f".{folder.name}.tmp"
        if end.refused is None:
            staging.finish(beside, home=home)
        else:
            beside.mkdir()
    held = {
        "contract": reading_of(dataset),
        "sha256": sha256,
        "refused": end.refused,
        "rows": end.rows,
        "layout": end.layout,
        "verified_by": end.verified_by,
        "days": {day.isoformat(): fact for day, fact in days.items()},
        "checksums": {path.name: sha256_of(path) for path in sorted(beside.iterdir())},
    }
    (beside / "holds.json").write_text(json.dumps(held, sort_keys=True), encoding="utf-8")
    beside.rename(folder)
    log.info(f"read {file.name}: {end.rows:,} rows of {len(days):,} days")
    return folder


def _add(staging: Staging, tallies: dict[date | None, Tally], found: Sorted) -> None:
    sifted = found.sifted
    for day, rows in found.good.items():
        tallies[day].days[day] += rows.table.num_rows
        tallies[day].ambiguous += int(np.isin(sifted.repeated, sifted.rows[day]).sum())
        tallies[day].shifted += int(np.isin(sifted.shifted, sifted.rows[day]).sum())
        staging.add(rows.table, quarantined=False, day=day)
    quarantine = found.quarantine.table
    for value, count in Counter(sifted.days.tolist()).items():
        of_day = np.isnat(sifted.days) if value is None else sifted.days == np.datetime64(value)
        part = quarantine.filter(of_day)
        staging.add(part, quarantined=True, day=value)
        tallies[value].quarantined += count
        for fault in faults_of(part):
            tallies[value].add_fault(fault)


@lru_cache(maxsize=65_536)
def _read(folder: Path) -> dict[str, Any]:
    """What is written of a staged folder, which never changes."""
    return json.loads((folder / "holds.json").read_bytes())


def _indexed(folder: Path) -> Indexed:
    held = _read(folder)
    return Indexed(
        sha256=held["sha256"],
        folder=folder,
        days={date.fromisoformat(day): fact for day, fact in held["days"].items()},
        checksums=held["checksums"],
        rows=held["rows"],
        layout=tuple((name, kind) for name, kind in held["layout"]),
        verified_by=held["verified_by"],
        refused=held["refused"],
    )
