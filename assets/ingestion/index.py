"""Which event days the files of an export hold, where the path does not tell the day.

Each landed file is read once for it; the answer is a small JSON below `<lake>/<dataset>/index/`, good for as long as
the file and the contract's idea of time stay as they are.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from assets.ingestion.casting import without_nulls
from assets.ingestion.files import LandedFile, require_unchanged, sha256_of_landed
from assets.ingestion.reading import read
from assets.ingestion.reasons import Reason
from assets.ingestion.sifting import Span, out_of_days
from assets.ingestion.times import instants
from resources.contract.dataset import Dataset
from resources.contract.days import day_of, days_of, instant_us
from resources.contract.errors import DataError
from resources.contract.manifest import contract_digest
from resources.lake import Lake, write_atomically

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Indexed:
    """What a file holds: rows per event day. A row whose time cannot be told belongs to the earliest of them.

    A file that cannot be read holds no days; `refused` says why.
    """

    sha256: str
    days: Mapping[date, int]
    plausible: date  # the last day that a row could have happened on when the file was indexed
    refused: str | None

    def span(self, dataset: Dataset, day: date) -> Span:
        """What to take from the file for one of its days."""
        return Span(
            oldest=dataset.days.first,
            newest=max(self.days),
            plausible=self.plausible,
            only=day,
            home=day == min(self.days),
        )


def indexed(dataset: Dataset, lake: Lake, files: Sequence[LandedFile], *, now: datetime) -> dict[str, Indexed]:
    """What each file holds, by name. A file that was indexed before, and is as it was, is not read again."""
    contract = contract_digest(
        {
            "source": dataset.source.model_dump(mode="json", exclude={"files", "region", "on_delete"}),
            "time": dataset.time,
            "days": dataset.days.model_dump(mode="json", include={"zone", "first", "last"}),
            "required": sorted(name for name, column in dataset.columns.items() if column.required),
        }
    )
    found = {}
    for file in files:
        state = {"name": file.name, "bytes": file.bytes, "modified_ns": file.modified_ns, "contract": contract}
        path = index_path(dataset, lake, file.name)
        kept = _kept(path)
        if kept is None or {key: kept.get(key) for key in state} != state:
            # a file that was only touched holds what it held: a later `now` must not give its rows other days
            touched = kept and (kept.get("contract"), kept.get("sha256")) == (contract, sha256_of_landed(file))
            kept = {**kept, **state} if kept and touched else {**state, **_read_index(dataset, file, now=now)}
            write_atomically(path, json.dumps(kept, sort_keys=True, indent=1).encode())
        found[file.name] = Indexed(
            sha256=kept["sha256"],
            days={date.fromisoformat(day): rows for day, rows in kept["days"].items()},
            plausible=date.fromisoformat(kept["plausible"]),
            refused=kept["refused"],
        )
        if kept["refused"]:
            log.error(f"left out {file.name}: {kept['refused']}")
    return found


def index_path(dataset: Dataset, lake: Lake, name: str) -> Path:
    """Where the index of one file lies."""
    return lake.root / dataset.name / "index" / f"{hashlib.sha256(name.encode()).hexdigest()[:12]}.json"


def _kept(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):  # what cannot be read is made again: it holds nothing of its own
        return None


def _read_index(dataset: Dataset, file: LandedFile, *, now: datetime) -> dict[str, Any]:
    """Rows per event day of a file, by reading it; what refuses it, if it cannot be read."""
    last = dataset.days.last
    plausible = day_of(instant_us(now), dataset.days.zone) + timedelta(days=1)
    span = Span(oldest=dataset.days.first, newest=min(plausible, last or plausible), plausible=plausible)
    found: dict[str, Any] = {"sha256": sha256_of_landed(file), "plausible": plausible.isoformat(), "refused": None}
    try:
        rows = _rows_per_day(dataset, file, span)
    except DataError as error:
        return {**found, "days": {}, "refused": str(error)}
    require_unchanged(file)
    log.info(f"indexed {file.name}: {rows.total():,} rows of {len(rows):,} days")
    return {**found, "days": dict(rows)}


def _rows_per_day(dataset: Dataset, file: LandedFile, span: Span) -> Counter[str]:
    rows: Counter[str] = Counter()
    homeless = 0
    for chunk in read(dataset, file):
        text = without_nulls(chunk.columns[dataset.time.column].combine_chunks(), dataset.source.nulls)
        found = instants(text, dataset.time)
        inside = (found.reasons == Reason.FINE) & (out_of_days(dataset, found.times_us, span) == Reason.FINE)
        days, counts = np.unique(days_of(found.times_us[inside], dataset.days.zone), return_counts=True)
        rows.update(dict(zip(days.astype(str).tolist(), counts.tolist(), strict=True)))
        homeless += len(inside) - int(np.count_nonzero(inside)) + len(chunk.broken)
    if homeless:
        rows[min(rows, default=dataset.days.first.isoformat())] += homeless
    return rows
