"""Every row of a chunk in exactly one place: good, on its event day, or in quarantine with line, column and reason.

Values of columns that the contract marks `personal` are shown as hashes; where it marks any, the raw line gives way to
the declared columns as JSON, since a line may hold more than what was declared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import pyarrow as pa

from assets.ingestion.casting import Typed, typed
from assets.ingestion.chunk import Chunk, declared_columns
from assets.ingestion.reasons import Reason
from resources.contract.dataset import Dataset
from resources.contract.days import day_bounds_us, day_start_us, days_of

# Times further back than this before the first day come from a wrong unit or a reset clock, not from an old event.
_CREDIBLE = timedelta(days=3653)

QUARANTINE = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("line", pa.int64(), nullable=False),
        pa.field("column", pa.string()),
        pa.field("value", pa.string()),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("raw", pa.string()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Span:
    """The event days that are taken (`oldest` to `newest`), and the last day that is plausible at all.

    An export of many days asks for the rows of its day `only`; rows that have no day of their own go to `home`.
    """

    oldest: date
    newest: date
    plausible: date
    only: date | None = None
    home: bool = True

    @classmethod
    def of_delivery(cls, dataset: Dataset, day: date) -> Span:
        """What may be delivered on a day: rows of the days before, as late as is allowed, and of the next one."""
        days, ahead = dataset.days, day + timedelta(days=1)
        oldest = max(days.first, day - timedelta(days=days.late))
        return cls(oldest=oldest, newest=min(ahead, days.last or ahead), plausible=ahead)


@dataclass(frozen=True, kw_only=True)
class Sifted:
    """The good rows by event day, in the dataset's row schema, and the others. Each is in the order of the file."""

    good: dict[date, pa.Table]
    quarantine: pa.Table
    ambiguous: int

    @property
    def num_good(self) -> int:
        return sum(table.num_rows for table in self.good.values())


def sift(dataset: Dataset, chunk: Chunk, *, file: str, span: Span) -> Sifted:
    """The rows of a chunk, each in its one place."""
    zone, cast = dataset.days.zone, typed(dataset, chunk.columns)
    readable = (cast.reason == Reason.FINE) | (cast.column > 0)  # the time is the first column
    outside = out_of_days(dataset, cast.times_us, span)
    inside = readable & (outside == Reason.FINE)
    reason = np.where(readable & ~inside, outside, cast.reason)
    column = np.where(inside, cast.column, 0)
    asked = np.ones(len(reason), dtype=bool)
    if span.only is not None:
        start, end = day_bounds_us(span.only, zone)
        asked = np.where(inside, (start <= cast.times_us) & (cast.times_us < end), span.home)
    good, failed = np.flatnonzero(asked & (reason == Reason.FINE)), np.flatnonzero(asked & (reason != Reason.FINE))
    quarantine = _failed_rows(dataset, chunk, failed, reason=reason[failed], column=column[failed], file=file)
    if span.home and chunk.broken:
        quarantine = pa.concat_tables([quarantine, _broken_rows(dataset, chunk, file=file)]).sort_by("line")
    return Sifted(
        good={day: table.cast(dataset.row_schema) for day, table in _by_day(cast, good, zone)},
        quarantine=quarantine,
        ambiguous=int(np.count_nonzero(cast.ambiguous[good])),
    )


def _by_day(cast: Typed, good: np.ndarray, zone: str) -> Iterator[tuple[date, pa.Table]]:
    """The good rows of each event day."""
    days = days_of(cast.times_us[good], zone)
    distinct = np.unique(days).tolist()
    if len(distinct) == 1 and len(good) == cast.rows.num_rows:
        yield distinct[0], cast.rows
        return
    for day in distinct:
        yield day, cast.rows.take(good[days == np.datetime64(day)])


def out_of_days(dataset: Dataset, times_us: np.ndarray, span: Span) -> np.ndarray:
    """Per time: FINE if its day is taken, else why it is not."""
    zone, first = dataset.days.zone, dataset.days.first
    starts = [
        first - _CREDIBLE,
        first,
        span.oldest,
        *(day + timedelta(days=1) for day in (span.newest, span.plausible)),
    ]
    # a delivery long after the dataset's last day takes nothing: its edges must not cross
    edges = np.maximum.accumulate([day_start_us(day, zone) for day in starts])
    between = [
        *(Reason.IMPLAUSIBLE_TIME, Reason.BEFORE_FIRST_DAY, Reason.TOO_LATE, Reason.FINE),
        *(Reason.AFTER_LAST_DAY, Reason.IMPLAUSIBLE_TIME),
    ]
    return np.array(between, dtype=np.uint8)[np.searchsorted(edges, times_us, side="right")]


def shown(value: str | None, *, personal: bool) -> str | None:
    """A value as it may be shown: a personal one as a hash, by which equal values can still be recognised."""
    if value is None or not personal:
        return value
    return f"sha256:{hashlib.sha256(value.encode()).hexdigest()[:16]}"


def _personal(dataset: Dataset) -> frozenset[str]:
    return frozenset(name for name, column in dataset.columns.items() if column.personal)


def _failed_rows(
    dataset: Dataset, chunk: Chunk, failed: np.ndarray, *, reason: np.ndarray, column: np.ndarray, file: str
) -> pa.Table:
    """Rows that could be split, but have a value that does not fit."""
    personal, names = _personal(dataset), list(declared_columns(dataset))
    rows = chunk.columns.take(failed).to_pylist()
    hidden = [{name: shown(value, personal=name in personal) for name, value in row.items()} for row in rows]
    at_fault = [names[place] for place in column]
    raw = [chunk.raw(row) if not personal else None for row in failed.tolist()]
    return pa.table(
        {
            "file": pa.array([file] * len(rows), pa.string()),
            "line": chunk.lines[failed],
            "column": pa.array(at_fault, pa.string()),
            "value": pa.array([row[name] for row, name in zip(hidden, at_fault, strict=True)], pa.string()),
            "reason": pa.array([Reason(code).text for code in reason], pa.string()),
            "raw": pa.array(
                [
                    text if text is not None else json.dumps(row, ensure_ascii=False)
                    for text, row in zip(raw, hidden, strict=True)
                ],
                pa.string(),
            ),
        },
        schema=QUARANTINE,
    )


def _broken_rows(dataset: Dataset, chunk: Chunk, *, file: str) -> pa.Table:
    """Rows that could not be split: what of them is personal cannot be told."""
    hide = bool(_personal(dataset))
    rows = [
        {"file": file, "line": row.line, "reason": row.reason.text, "raw": None if hide else row.raw}
        for row in chunk.broken
    ]
    return pa.Table.from_pylist(rows, schema=QUARANTINE)
