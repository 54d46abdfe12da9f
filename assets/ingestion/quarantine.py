"""What lies in quarantine: how many rows of which days for which reasons, and some of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from resources.contract.manifest import Manifest
from resources.lake import Lake

_BATCH_ROWS = 1 << 16


@dataclass(kw_only=True)
class Faults:
    """The rows of one day in quarantine for one reason and column, and the first of them as they lie there."""

    day: date
    reason: str
    column: str | None
    rows: int = 0
    samples: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "day": self.day.isoformat()}


def quarantined(
    lake: Lake, manifests: Iterable[Manifest], *, reason: str | None = None, samples: int = 3
) -> list[Faults]:
    """What lies in quarantine of some days of deliveries, by day, the most frequent first.

    It is shown as it lies there, where the values of columns that are marked `personal` are hashes.

    Args:
        reason: only rows of this one.
        samples: how many rows of each kind are shown.
    """
    found: dict[tuple[date, str, str | None], Faults] = {}
    for manifest in manifests:
        for entry in manifest.files:
            if entry.event_day is not None:
                continue
            with pq.ParquetFile(lake.verified_path(manifest, entry)) as parquet:
                for batch in parquet.iter_batches(_BATCH_ROWS, use_threads=False):
                    table = pa.Table.from_batches([batch])
                    table = table if reason is None else table.filter(pc.equal(table["reason"], reason))
                    _add(found, manifest.day, table, samples=samples)
    return sorted(found.values(), key=lambda faults: (faults.day, -faults.rows, faults.reason, faults.column or ""))


def _add(found: dict[tuple[date, str, str | None], Faults], day: date, table: pa.Table, *, samples: int) -> None:
    kinds = table.append_column("at", pa.array(range(table.num_rows), pa.int64()))
    grouped = kinds.group_by(["reason", "column"], use_threads=False).aggregate([("at", "list")]).to_pylist()
    for kind in grouped:
        key = day, kind["reason"], kind["column"]
        faults = found.setdefault(key, Faults(day=day, reason=kind["reason"], column=kind["column"]))
        faults.rows += len(kind["at_list"])
        faults.samples += table.take(kind["at_list"][: samples - len(faults.samples)]).to_pylist()
