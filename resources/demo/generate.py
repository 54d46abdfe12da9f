"""The demo's landed files: the shop's impressions, delivered with the dirt that real deliveries have.

A day's export runs at five past midnight, so it holds the first minutes of the next day. Some rows are delivered a day
late; of two days in ten some are held back for a late file; one day in ten is delivered again under a second name, with
a few rows more; one row in a thousand is unreadable. All of it is a pure function of (day, seed, scale), and `planted`
counts what a pipeline must find.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from resources.contract.days import SECOND_US, day_start_us, days_between
from resources.demo.chance import uniforms
from resources.demo.shop import FIRST_DAY, events
from resources.demo.truth import ZONE

DAYS = tuple(days_between(FIRST_DAY, FIRST_DAY + timedelta(days=15)))
FAULTS = ("not_a_decimal", "out_of_bounds", "unreadable_time", "ragged")  # as ingestion calls them

_HEADER = "impression_id,shown_at,user_id,item_id,category,brand,device,country,price,clicked"
_EXPORT_AFTER_US = 300 * SECOND_US
_DAY_LATE_SHARE = 0.002
_HELD_BACK_SHARE = 0.03
_AGAIN_SHARE = 0.003
_FAULT_SHARE = 0.001
_CYCLE = 10  # days after which the special deliveries come round again
_LATE_FILE = 7  # the day of the cycle with a late file, for the second and third day before it
_AGAIN = 9  # the day of the cycle that is delivered twice


@dataclass(frozen=True, kw_only=True)
class Landed:
    """One file to be landed. `rows` are those of `events`, with `event_day` and `fault` ("" for a good row)."""

    name: str
    day: date
    rows: pa.Table


@dataclass(frozen=True, kw_only=True)
class Planted:
    """What a pipeline must find for one day.

    `files` to `next_day` are of what was delivered on the day. The rest is of what happened on it: `good` to
    `without_user` count readable rows before duplicates and missing users are dropped.
    """

    files: int
    delivered: int
    faults: Mapping[str, int]  # bad rows by reason
    next_day: int  # readable rows of the day after: in quarantine too where the dataset ends before it
    good: int
    late: int
    users: int
    without_user: int
    duplicates: int
    examples: int  # good rows that have a user, without duplicates
    clicks: int  # of the examples


@lru_cache(maxsize=5)  # neighbouring days share rows
def _sent(day: date, seed: int, scale: float) -> pa.Table:
    """The events of a day, with the `file` that each is delivered in and its `fault`."""
    table = events(day, seed=seed, scale=scale)
    num_rows, age = table.num_rows, (day - FIRST_DAY).days
    rows, turn = np.arange(num_rows), age % _CYCLE

    def lot(purpose: str, share: float) -> np.ndarray:
        return uniforms(f"{purpose} {day}", rows, seed=seed) < share

    names = np.full(num_rows, _name(day), dtype=object)
    names[lot("day late", _DAY_LATE_SHARE)] = _name(day + timedelta(days=1))
    if turn in (_LATE_FILE - 3, _LATE_FILE - 2):
        names[lot("held back", _HELD_BACK_SHARE)] = _name(day + timedelta(days=_LATE_FILE - turn), "-late")
    if turn == _AGAIN:
        names[lot("again", _AGAIN_SHARE)] = _name(day, "-again")
    if day > FIRST_DAY:
        instants = table["event_time"].cast(pa.int64()).to_numpy()
        names[instants < day_start_us(day, ZONE) + _EXPORT_AFTER_US] = _name(day - timedelta(days=1))
    num_faults = max(1, round(num_rows * _FAULT_SHARE))
    faults = np.full(num_rows, "", dtype=object)
    for number in range(num_faults):
        faults[(2 * number + 1) * num_rows // (2 * num_faults)] = FAULTS[(age + number) % len(FAULTS)]
    return table.append_column("file", pa.array(names, pa.string())).append_column(
        "fault", pa.array(faults, pa.string())
    )


def _name(day: date, kind: str = "") -> str:
    return f"{day}{kind}.csv.gz"


def landed(day: date, *, seed: int = 0, scale: float = 1.0) -> list[Landed]:
    """The files delivered on a day, in the order of their names.

    Raises:
        ValueError: the day lies before the shop opened.
    """
    turn = (day - FIRST_DAY).days % _CYCLE

    def delivered(kind: str, first: int, last: int) -> pa.Table:
        span = days_between(max(FIRST_DAY, day + timedelta(days=first)), day + timedelta(days=last))
        parts = []
        for event_day in span:
            sent = _sent(event_day, seed, scale)
            part = sent.filter(pc.equal(sent["file"], _name(day, kind))).drop_columns("file")
            parts.append(part.append_column("event_day", pa.array([event_day] * part.num_rows, pa.date32())))
        return pa.concat_tables(parts).combine_chunks()

    if day < FIRST_DAY:
        raise ValueError(f"the demo's shop opened on {FIRST_DAY}, nothing was delivered on {day}")
    main = delivered("", -1, 1)
    files = [Landed(name=_name(day), day=day, rows=main)]
    if turn == _LATE_FILE:
        files.append(Landed(name=_name(day, "-late"), day=day, rows=delivered("-late", -3, -2)))
    if turn == _AGAIN:
        rows = pa.concat_tables([main, delivered("-again", 0, 0)]).combine_chunks()
        files.append(Landed(name=_name(day, "-again"), day=day, rows=rows))
    return sorted(files, key=lambda file: file.name)


def text_of(rows: pa.Table) -> str:
    """The CSV text of a landed file's rows, faults included."""
    fault = rows["fault"]
    price = rows["price"].cast(pa.string())
    price = pc.if_else(pc.equal(fault, "not_a_decimal"), "n/a", price)
    price = pc.if_else(pc.equal(fault, "out_of_bounds"), "-19.90", price)
    time = pc.strftime(rows["event_time"].cast(pa.timestamp("ms", tz="UTC")), format="%Y-%m-%dT%H:%M:%SZ")
    time = pc.if_else(pc.equal(fault, "unreadable_time"), "yesterday", time)
    texts = [rows["impression"].cast(pa.string()), time]
    texts += [rows[name] for name in ("user", "item", "category", "brand", "device", "country")]
    texts += [price, rows["clicked"].cast(pa.int8()).cast(pa.string())]
    lines = pc.binary_join_element_wise(*texts, ",", null_handling="replace", null_replacement="").to_pylist()
    for row in np.flatnonzero(pc.equal(fault, "ragged").to_numpy()):
        lines[row] = ",".join(lines[row].split(",")[:6])
    return "\n".join([_HEADER, *lines, ""])


def write_day(folder: Path, day: date, *, seed: int = 0, scale: float = 1.0) -> list[Path]:
    """The day's files lie in the folder; returns them. A file that is there with the same bytes is not touched."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for file in landed(day, seed=seed, scale=scale):
        path = folder / file.name
        content = gzip.compress(text_of(file.rows).encode(), compresslevel=6, mtime=0)
        if not path.exists() or path.read_bytes() != content:
            beside = path.with_name(f"{file.name}.part")
            beside.write_bytes(content)
            # as old as a real export would be, so that nobody waits for it to settle; another content has another time
            written_ns = (day_start_us(day + timedelta(days=1), ZONE) + _EXPORT_AFTER_US) * 1000 + zlib.crc32(content)
            os.utime(beside, ns=(written_ns, written_ns))
            beside.replace(path)
        paths.append(path)
    return paths


def write_days(folder: Path, *, days: Iterable[date] = DAYS, seed: int = 0, scale: float = 1.0) -> list[Path]:
    """The files of these days lie in the folder; returns them."""
    return [path for day in days for path in write_day(folder, day, seed=seed, scale=scale)]


def planted(*, days: Iterable[date] = DAYS, seed: int = 0, scale: float = 1.0) -> dict[date, Planted]:
    """What a pipeline must find, per day, once these days have been delivered and no more."""
    files = [file for day in days for file in landed(day, seed=seed, scale=scale)]
    rows = pa.concat_tables(
        [file.rows.append_column("late", pc.less(file.rows["event_day"], pa.scalar(file.day))) for file in files]
    )
    return {day: _found(day, [file for file in files if file.day == day], rows) for day in {f.day: None for f in files}}


def _found(day: date, files: list[Landed], rows: pa.Table) -> Planted:
    faults = Counter(fault for file in files for fault in file.rows["fault"].to_pylist() if fault)
    good = _readable_of(rows, day)
    _, firsts = np.unique(good["impression"].to_numpy(), return_index=True)
    examples = good.take(pa.array(firsts)).filter(pc.is_valid(good["user"].take(pa.array(firsts))))
    return Planted(
        files=len(files),
        delivered=sum(file.rows.num_rows for file in files),
        faults=dict(faults),
        next_day=sum(_readable_of(file.rows, day + timedelta(days=1)).num_rows for file in files),
        good=good.num_rows,
        late=pc.sum(good["late"]).as_py() or 0,
        users=pc.count_distinct(good["user"]).as_py(),
        without_user=good["user"].null_count,
        duplicates=good.num_rows - len(firsts),
        examples=examples.num_rows,
        clicks=pc.sum(examples["clicked"]).as_py() or 0,
    )


def _readable_of(rows: pa.Table, day: date) -> pa.Table:
    return rows.filter(pc.and_(pc.equal(rows["event_day"], pa.scalar(day)), pc.equal(rows["fault"], "")))
