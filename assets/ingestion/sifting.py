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
from assets.ingestion.conversion import texts_of
from assets.ingestion.epochs import CREDIBLE
from assets.ingestion.reasons import Reason
from resources.contract.dataset import Dataset
from resources.contract.days import HOUR_US, day_start_us, days_of

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

    From the instant `until_us` on nothing is plausible, whatever its day.
    """

    oldest: date
    newest: date
    plausible: date
    until_us: int | None = None

    @classmethod
    def of_delivery(cls, dataset: Dataset, day: date) -> Span:
        """What may be delivered on a day: rows of the days before, as late as is allowed, and of some hours behind it."""
        days, ahead = dataset.days, day + timedelta(days=1)
        return cls(
            oldest=max(days.first, day - timedelta(days=days.late)),
            newest=min(ahead, days.last or ahead),
            plausible=ahead,
            until_us=day_start_us(ahead, days.zone) + round(days.ahead_hours * HOUR_US),
        )


@dataclass(frozen=True, kw_only=True)
class Sifted:
    """The good rows by event day, in the dataset's row schema, and the others. Each is in the order of the file."""

    good: dict[date, pa.Table]
    quarantine: pa.Table
    rows: dict[date, np.ndarray]  # where in the chunk's columns the good rows of each day stood
    days: np.ndarray  # datetime64[D]: the event day of each row in quarantine, NaT where it has none that is taken
    repeated: np.ndarray  # where the good rows stood whose local time comes twice, taken by the contract's rule
    shifted: np.ndarray  # where the good rows stood whose local time a clock change leaves out, moved by its hour

    @property
    def num_good(self) -> int:
        return sum(table.num_rows for table in self.good.values())


def sift(dataset: Dataset, chunk: Chunk, *, file: str, span: Span) -> Sifted:
    """The rows of a chunk, each in its one place."""
    zone = dataset.days.zone
    time = dataset.time if chunk.epoch is None else dataset.time.model_copy(update={"epoch": chunk.epoch})
    cast = typed(dataset, chunk.columns, time=time)
    reason, column = cast.reason, cast.column
    readable = (reason == Reason.FINE) | (column > 0)  # the time is the first column
    outside = out_of_days(dataset, cast.times_us, span)
    inside = readable & (outside == Reason.FINE)
    if not inside.all():
        reason, column = np.where(readable & ~inside, outside, reason), np.where(inside, column, 0)
    good, failed = np.flatnonzero(reason == Reason.FINE), np.flatnonzero(reason != Reason.FINE)
    quarantine, days = QUARANTINE.empty_table(), np.empty(0, "datetime64[D]")
    if len(failed):
        quarantine = _failed_rows(dataset, chunk, failed, reason=reason[failed], column=column[failed], file=file)
        days = np.full(len(failed), "NaT", dtype="datetime64[D]")
        days[inside[failed]] = days_of(cast.times_us[failed[inside[failed]]], zone)
    if chunk.broken:
        quarantine = pa.concat_tables([quarantine, _broken_rows(dataset, chunk, file=file)])
        order = np.argsort(quarantine["line"].to_numpy(), kind="stable")
        quarantine = quarantine.take(order)
        days = np.append(days, np.full(len(chunk.broken), "NaT", dtype="datetime64[D]"))[order]
    by_day = list(_by_day(cast, good, zone))
    return Sifted(
        good={day: table for day, table, _ in by_day},
        quarantine=quarantine,
        rows={day: rows for day, _, rows in by_day},
        days=days,
        repeated=good[cast.ambiguous[good]],
        shifted=good[cast.skipped[good]],
    )


def _by_day(cast: Typed, good: np.ndarray, zone: str) -> Iterator[tuple[date, pa.Table, np.ndarray]]:
    """The good rows of each event day, and where they stood."""
    if not len(good):
        return
    times = cast.times_us if len(good) == cast.rows.num_rows else cast.times_us[good]
    first, last = days_of(np.array([times.min(), times.max()]), zone)
    if first == last:
        yield first.item(), _rows_at(cast.rows, good), good
        return
    days = days_of(times, zone)
    for day in np.unique(days):
        rows = good[days == day]
        yield day.item(), _rows_at(cast.rows, rows), rows


def _rows_at(table: pa.Table, rows: np.ndarray) -> pa.Table:
    """Some rows of a table, in its order."""
    if len(rows) == table.num_rows:
        return table
    if 2 * len(rows) < table.num_rows:
        return table.take(rows)
    chosen = np.zeros(table.num_rows, bool)
    chosen[rows] = True
    return table.filter(pa.array(chosen))  # copies what stands together as one


def out_of_days(dataset: Dataset, times_us: np.ndarray, span: Span) -> np.ndarray:
    """Per time: FINE if its day is taken, else why it is not."""
    zone, first = dataset.days.zone, dataset.days.first
    starts = [day_start_us(day, zone) for day in (first - CREDIBLE, first, span.oldest)]
    ends = [day_start_us(day + timedelta(days=1), zone) for day in (span.newest, span.plausible)]
    if span.until_us is not None:
        ends = [min(end, span.until_us) for end in ends]
    # a delivery long after the dataset's last day takes nothing: its edges must not cross
    edges = np.maximum.accumulate([*starts, *ends])
    if len(times_us) and edges[2] <= times_us.min() and times_us.max() < edges[3]:
        return np.zeros(len(times_us), np.uint8)
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
    taken = chunk.columns.take(failed)  # of columns that the file has typed, the texts that say the same
    texts = {name: texts_of(taken[name].combine_chunks()) for name in names}
    rows = pa.table(texts).to_pylist()
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
