"""Which events of a bucket become training rows, and in which order they lie.

Features and labels both ask here, so that row i of one is row i of the other. The order is a permutation by
hash(row, day), so that the first k rows of a file are a uniform sample of it. Of a row it takes user and time, and its
number among the rows that share both, in canonical order: that tells all rows apart without hashing every text again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa

from assets.sharding.expressions import holds
from resources.contract.buckets import hash64, hash64_text
from resources.contract.dataset import Dataset
from resources.contract.digest import digest_of_hashes, splitmix64
from resources.contract.manifest import Check, Plan
from resources.lake import Piece

CONSERVATION = (True, "All events of the shards are read, and each bucket holds one row per example among them.")


@dataclass(frozen=True, kw_only=True)
class Examples:
    """The training rows of one bucket of a day, in their order."""

    table: pa.Table
    rows: np.ndarray  # their places in the shard, int64
    users: np.ndarray  # 64-bit hashes, 0 is missing
    times_us: np.ndarray
    digest: str  # of these rows in this order: equal for features and labels that fit together


def examples_of(dataset: Dataset, shard: pa.Table, day: date) -> Examples:
    """The examples among a bucket's events, which stand in canonical order, in the day's permutation."""
    rows = np.flatnonzero(holds(shard, dataset.examples, key="examples"))
    table = shard.take(rows)
    users = hash64(table[dataset.user.column])
    times_us = table["event_time"].cast(pa.int64()).to_numpy()
    places = _places(users, times_us, day)
    order = np.argsort(places, kind="stable")
    numbered = splitmix64(places[order] + np.arange(len(order), dtype=np.uint64))
    return Examples(
        table=table.take(order),
        rows=rows[order],
        users=users[order],
        times_us=times_us[order],
        digest=digest_of_hashes(np.stack([numbered, splitmix64(numbered)])),
    )


def conservation(wanted: Plan, pieces: Sequence[Piece], *, num_read: int, examples: Mapping[str, int]) -> Check:
    """Whether all events that the day's shards promise were read, and every example among them has its one row.

    Args:
        num_read: events read from the shards.
        examples: how many of them are examples, by the name of the file that their rows belong into.
    """
    promised = sum(parent.rows for parent in wanted.parents if (parent.asset, parent.role) == ("shards", "own"))
    rows = {piece.name: piece.rows for piece in pieces if piece.bucket is not None}
    differing = [name for name in examples.keys() | rows.keys() if examples.get(name) != rows.get(name)]
    return Check(
        name="conservation",
        passed=num_read == promised and not differing,
        blocking=CONSERVATION[0],
        message=f"{num_read:,} of {promised:,} events read, {sum(examples.values()):,} examples among them, "
        f"{sum(rows.values()):,} rows" + (f"; they differ in {', '.join(sorted(differing))}" if differing else ""),
        value=abs(promised - num_read) + len(differing),
        limit=0,
    )


def _places(users: np.ndarray, times_us: np.ndarray, day: date) -> np.ndarray:
    """uint64 per row, another for every row of the day: where it stands in the permutation."""
    seed = np.uint64(hash64_text(day.isoformat()))
    instant = splitmix64(users ^ seed) ^ splitmix64(times_us.view(np.uint64))
    first = np.arange(len(users))
    first[1:][(users[1:] == users[:-1]) & (times_us[1:] == times_us[:-1])] = 0
    number = np.arange(len(users)) - np.maximum.accumulate(first)
    return splitmix64(splitmix64(instant) + number.view(np.uint64))
