"""How much happened before an event, exact to the event: the day itself from its shard, earlier days from rollups.

The cut keeps a user in one bucket, so one bucket's rows and rollups know all of a user's past. Counts stay int64 until
they are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from assets.preprocessing.rollups import count_column, kind_codes, kinds_of
from resources.contract.dataset import CountHistory, Dataset
from resources.contract.days import SECOND_US

SINCE_LAST_DAYS = 30
NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, kw_only=True)
class Lookback:
    """How many days before its own the features of a day read, by user and by item."""

    users: int
    items: int

    @classmethod
    def of(cls, dataset: Dataset) -> Lookback:
        """What the contract's history asks for."""
        users = items = 0
        for history in dataset.features.history:
            if not isinstance(history, CountHistory):
                users = max(users, SINCE_LAST_DAYS)
            elif history.count == "user":
                users = max(users, *(days - 1 for days in history.days))  # the day itself is the first of the k days
            else:
                items = max(items, *history.days)
        return cls(users=users, items=items)

    @property
    def days(self) -> int:
        return max(self.users, self.items)


@dataclass(frozen=True, kw_only=True)
class Today:
    """What one bucket's shard says of the same day: rows in order of user and time."""

    kinds: np.ndarray  # int64 per row
    times_us: np.ndarray
    of_user: np.ndarray  # the place of the user's first row, per row
    of_instant: np.ndarray  # the place of the user's first row of the same timestamp, per row

    @classmethod
    def of(cls, dataset: Dataset, shard: pa.Table) -> Today:
        """The day as a shard holds it, in canonical order."""
        users = shard[dataset.user.column].combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy()
        times = shard["event_time"].cast(pa.int64()).to_numpy()
        other_user = users[1:] != users[:-1]
        return cls(
            kinds=kind_codes(dataset, shard),
            times_us=times,
            of_user=_first_places(other_user),
            of_instant=_first_places(other_user | (times[1:] != times[:-1])),
        )

    def earlier(self, rows: np.ndarray, kind: int | None) -> np.ndarray:
        """int64 per chosen row: events of its user, and of a kind if there is one, at strictly earlier times of the day."""
        counted = np.ones(len(self.kinds), bool) if kind is None else self.kinds == kind
        before = np.concatenate([[0], np.cumsum(counted)])
        return before[self.of_instant[rows]] - before[self.of_user[rows]]

    def previous_us(self, rows: np.ndarray) -> np.ndarray:
        """int64 per chosen row: the time of its user's last strictly earlier event of the day, or NEVER."""
        at = self.of_instant[rows]
        return np.where(at > self.of_user[rows], self.times_us[at - 1], NEVER)


def _first_places(begins: np.ndarray) -> np.ndarray:
    """Per row the place of the first row of its run; `begins` says of every row but the first whether it begins one."""
    begins = np.insert(begins, 0, True)
    return np.maximum.accumulate(np.where(begins, np.arange(len(begins)), 0))


@dataclass(frozen=True, kw_only=True)
class Past:
    """Earlier days' events of certain keys (users or items): [days back, kinds, distinct keys]."""

    events: np.ndarray  # int64; days back 1, 2, ... stand at 0, 1, ...
    last_us: np.ndarray  # int64 [days back, distinct keys], NEVER where there is none
    place: np.ndarray  # per row: its key among the distinct ones
    known: np.ndarray  # per row: whether it has a key at all

    @classmethod
    def of(cls, dataset: Dataset, tables: Mapping[int, pa.Table], *, key: str, rows: np.ndarray, days: int) -> Past:
        """What rollups of `days` earlier days, by days back, say of the keys of some rows."""
        distinct, place = np.unique(rows, return_inverse=True)
        kinds = kinds_of(dataset)
        events = np.zeros((days, len(kinds), len(distinct)), np.int64)
        last_us = np.full((days, len(distinct)), NEVER)
        for back, table in tables.items():
            keys = table[key].to_numpy()
            at = np.minimum(np.searchsorted(keys, distinct), len(keys) - 1)
            found = np.flatnonzero(keys[at] == distinct)
            for code, kind in enumerate(kinds):
                events[back - 1, code, found] = table[count_column(kind)].to_numpy()[at[found]]
            if "last_us" in table.column_names:
                last_us[back - 1, found] = table["last_us"].to_numpy()[at[found]]
        return cls(events=events, last_us=last_us, place=place, known=rows != 0)

    def counted(self, days: int, kind: int | None) -> np.ndarray:
        """int64 per row: events of its key on the last `days` days before this one."""
        kinds = slice(None) if kind is None else slice(kind, kind + 1)
        return self.events[:days, kinds].sum(axis=(0, 1), dtype=np.int64)[self.place]

    def latest_us(self) -> np.ndarray:
        """int64 per row: the last time its key was seen before this day, or NEVER."""
        return self.last_us.max(axis=0, initial=NEVER)[self.place]


def history_numbers(
    dataset: Dataset, *, rows: np.ndarray, today: Today, users: Past, items: Past
) -> Iterator[np.ndarray]:
    """float64 per example, one array per history number of the layout, in its order; NaN for rows without user or item.

    Args:
        rows: the examples' places in the shard.
        users: the past of the examples' users.
        items: the past of the examples' items.
    """
    kinds = kinds_of(dataset)
    for history in dataset.features.history:
        if isinstance(history, CountHistory):
            kind = None if history.event is None else kinds.index(history.event)
            for days in history.days:
                if history.count == "item":
                    yield np.where(items.known, items.counted(days, kind), np.nan)
                else:
                    yield np.where(users.known, users.counted(days - 1, kind) + today.earlier(rows, kind), np.nan)
        else:
            last_us = np.maximum(today.previous_us(rows), users.latest_us())
            ever = users.known & (last_us != NEVER)
            yield np.where(ever, (today.times_us[rows] - np.where(ever, last_us, 0)) / SECOND_US, np.nan)
