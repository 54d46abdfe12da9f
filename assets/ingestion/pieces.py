"""One landed file as pieces of its delivery: its good rows by event day, and its quarantine."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from assets.ingestion.files import LandedFile, require_unchanged
from assets.ingestion.reading import read
from assets.ingestion.sifting import QUARANTINE, Span, sift
from resources.contract.dataset import Dataset
from resources.contract.digest import digest_of_hashes, row_hashes
from resources.lake import Piece

log = logging.getLogger(__name__)

_SHOWN = 80  # letters of a value that a manifest repeats


def key_of(name: str) -> str:
    """The folder of a landed file's pieces, from its name alone."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


class PieceWriter:
    """A Parquet file that grows chunk by chunk, with the digest of its rows."""

    def __init__(self, folder: Path, name: str, schema: pa.Schema, *, event_day: date | None = None) -> None:
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        self._name, self._event_day = name, event_day
        self._file = pq.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True)
        self._rows, self._sums = 0, np.zeros((2, 1), dtype=np.uint64)
        self._spans: list[int] = []

    def add(self, table: pa.Table) -> None:
        """Rows behind those that are there."""
        self._file.write_table(table)
        self._rows += table.num_rows
        self._sums += row_hashes(table).sum(axis=1, dtype=np.uint64, keepdims=True)
        if self._event_day is not None:
            times = table["event_time"].cast(pa.int64()).to_numpy()
            self._spans += [int(times.min()), int(times.max())]

    def piece(self) -> Piece:
        """The finished file."""
        self._file.close()
        return Piece(
            name=self._name,
            rows=self._rows,
            content=digest_of_hashes(self._sums),
            event_day=self._event_day,
            first_us=min(self._spans, default=None),
            last_us=max(self._spans, default=None),
        )


def write_pieces(
    dataset: Dataset, file: LandedFile, folder: Path, *, span: Span, num_indexed: int | None = None
) -> tuple[list[Piece], dict[str, Any]]:
    """The pieces of one landed file, now in `folder`, and what is to be remembered of it.

    Its `rows` are counted where they are read, not where they are sorted out, so that a row that is lost between is missed.
    Of an export, `num_indexed` of them belong to the day, as its index counted them.

    Raises DataError where the file is refused as a whole, TransientError where it changed in the meantime.
    """
    started = time.monotonic()
    writers: dict[date | None, PieceWriter] = {}
    reasons: Counter[str] = Counter()
    faults: dict[tuple[str, str | None], dict[str, Any]] = {}
    undeclared: set[str] = set()
    num_read = good = ambiguous = 0
    for chunk in read(dataset, file):
        sifted = sift(dataset, chunk, file=file.name, span=span)
        quarantine = {None: sifted.quarantine} if sifted.quarantine.num_rows else {}
        for event_day, table in {**sifted.good, **quarantine}.items():
            if event_day not in writers:
                writers[event_day] = _writer(dataset, folder, file.name, event_day)
            writers[event_day].add(table)
        for fault in _faults(sifted.quarantine):
            first = faults.setdefault((fault["reason"], fault["column"]), {**fault, "rows": 0})
            first["rows"] += fault["rows"]
            reasons[fault["reason"]] += fault["rows"]
        undeclared |= chunk.undeclared
        num_read += chunk.num_rows
        good += sifted.num_good
        ambiguous += sifted.ambiguous
    require_unchanged(file)
    rows = num_read if num_indexed is None else num_indexed
    log.info(
        f"read {file.name}: {rows:,} rows, {good:,} good, {reasons.total():,} quarantined, {time.monotonic() - started:.2f} s"
    )
    fact = {
        "rows": rows,
        "good": good,
        "quarantined": reasons.total(),
        "reasons": dict(reasons),
        "faults": list(faults.values()),
        "ambiguous": ambiguous,
    }
    if undeclared:
        fact["extra_columns"] = sorted(undeclared)[:100]
    return [writer.piece() for writer in writers.values()], fact


def _faults(quarantine: pa.Table) -> list[dict[str, Any]]:
    """The quarantined rows by reason and column: how many they are, and the line and value of the first."""
    grouped = quarantine.group_by(["reason", "column"], use_threads=False)  # threads know no first
    found = grouped.aggregate([([], "count_all"), ("line", "first"), ("value", "first")]).to_pylist()
    return [
        {
            "reason": fault["reason"],
            "column": fault["column"],
            "rows": fault["count_all"],
            "line": fault["line_first"],
            "value": fault["value_first"] and fault["value_first"][:_SHOWN],
        }
        for fault in found
    ]


def _writer(dataset: Dataset, folder: Path, name: str, event_day: date | None) -> PieceWriter:
    if event_day is None:
        return PieceWriter(folder, f"{key_of(name)}/quarantine.parquet", QUARANTINE)
    return PieceWriter(folder, f"{key_of(name)}/event_day={event_day}.parquet", dataset.row_schema, event_day=event_day)
