"""Day D's aggregates from its own shards alone: what later days fold into their history.

`users/bucket=NNN.parquet` holds a row per user (64-bit hash), `items.parquet` one per item over all buckets: events by
kind, and for users the time of the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.sharding import cut
from assets.sharding.inputs import Inputs, own_buckets
from assets.sharding.pieces import write_table
from resources.contract.buckets import hash64
from resources.contract.dataset import OTHER_EVENT, Dataset
from resources.contract.digest import table_digest
from resources.contract.manifest import Check, Ledger, Plan, contract_digest
from resources.lake import Lake, Materialized, Outcome, Piece

LOGIC_VERSION = 2
CHECKS = {"conservation": (True, "The users' counts and the rows without a user add up to the shards' rows.")}
ITEMS = "items.parquet"


def contract_key(dataset: Dataset) -> str:
    """The digest of what a contract says of rollups; what it says of shards is part of it, so that no day mixes both."""
    return contract_digest({"shards": cut.contract_key(dataset), "item": dataset.item})


def present(dataset: Dataset) -> tuple[str, int]:
    """What rollups of today's contract are known by."""
    return contract_key(dataset), LOGIC_VERSION


def users_name(bucket: int) -> str:
    """The file of one bucket's users."""
    return f"users/{cut.bucket_name(bucket)}"


def kinds_of(dataset: Dataset) -> tuple[str, ...]:
    """All kinds of events, in the order of the contract."""
    return (*dataset.events, OTHER_EVENT)


def count_column(kind: str) -> str:
    """The column that counts events of a kind."""
    return f"count_{kind}"


def kind_codes(dataset: Dataset, table: pa.Table) -> np.ndarray:
    """int64 per row: the place of its event among the kinds."""
    return pc.index_in(table["event"], pa.array(kinds_of(dataset))).to_numpy().astype(np.int64)


def plan(dataset: Dataset, ledger: Ledger, day: date) -> Plan:
    """What the rollups of a day would be made from now."""
    inputs = Inputs(ledger)
    shards = inputs.readable("shards", day, required=True, present=cut.present(dataset))
    if shards is not None and shards.rows_out:
        inputs.add(shards, role="own", rows=shards.rows_out)
    return inputs.plan("rollups", day, present=present(dataset))


def build(dataset: Dataset, lake: Lake, day: date, *, rebuild: bool = False) -> Materialized:
    """The rollups of a day, as its shards are now."""
    ledger = lake.ledger(dataset.name, assets=("deliveries", "shards"), first=day, last=day)
    wanted = plan(dataset, ledger, day)

    def write(folder: Path) -> Outcome:
        columns = [dataset.user.column, "event_time", "event", *([dataset.item.column] if dataset.item else [])]
        buckets = own_buckets(lake, ledger, wanted, columns=columns)
        return _rolled_up(dataset, buckets, lake=lake, folder=folder, promised=sum(p.rows for p in wanted.parents))

    return lake.materialize(wanted, write, dataset=dataset.name, rebuild=rebuild)


def _rolled_up(
    dataset: Dataset, buckets: Iterator[tuple[int, pa.Table]], *, lake: Lake, folder: Path, promised: int
) -> Outcome:
    num_kinds = len(kinds_of(dataset))
    pieces: list[Piece] = []
    items = [_Counts(keys=np.empty(0, np.uint64), events=np.empty((0, num_kinds), np.int64))]
    rows = counted = without_user = 0
    for bucket, shard in buckets:
        kinds = kind_codes(dataset, shard)
        hashes = hash64(shard[dataset.user.column])
        known = hashes != 0
        users = _counts(hashes[known], kinds[known], num_kinds)
        last_us = np.zeros(len(users.keys), np.int64)
        times = shard["event_time"].cast(pa.int64()).to_numpy()
        np.maximum.at(last_us, np.searchsorted(users.keys, hashes[known]), times[known])
        if len(users.keys):
            table = users.as_table(dataset, "user").append_column("last_us", pa.array(last_us))
            pieces.append(_piece(folder, users_name(bucket), table, bucket=bucket))
        if dataset.item:
            hashes = hash64(shard[dataset.item.column])
            items.append(_counts(hashes[hashes != 0], kinds[hashes != 0], num_kinds))
        rows, without_user = rows + shard.num_rows, without_user + int((~known).sum())
        counted += int(users.events.sum())
        lake.step("rollups:bucket")
    num_users = sum(piece.rows for piece in pieces)
    together = _merged(items)
    if len(together.keys):
        pieces.append(_piece(folder, ITEMS, together.as_table(dataset, "item")))
    return Outcome(
        pieces=tuple(pieces),
        rows_in=rows,
        rows_out=sum(piece.rows for piece in pieces),
        counts={"events": rows, "users": num_users, "items": len(together.keys)},
        checks=(
            Check(
                name="conservation",
                passed=counted + without_user == rows == promised,
                blocking=True,
                message=f"{rows:,} of {promised:,} events read, {counted:,} counted by user, {without_user:,} without a user",
                value=promised - counted - without_user,
                limit=0,
            ),
        ),
        num_buckets=dataset.cut.num_buckets,
    )


@dataclass(frozen=True, kw_only=True)
class _Counts:
    """Events by key and kind: sorted distinct keys, uint64[keys], and int64[keys, kinds]."""

    keys: np.ndarray
    events: np.ndarray

    def as_table(self, dataset: Dataset, key: str) -> pa.Table:
        counts = {count_column(kind): self.events[:, place] for place, kind in enumerate(kinds_of(dataset))}
        return pa.table({key: self.keys, **counts})


def _counts(keys: np.ndarray, kinds: np.ndarray, num_kinds: int) -> _Counts:
    distinct, place = np.unique(keys, return_inverse=True)
    events = np.bincount(place * num_kinds + kinds, minlength=len(distinct) * num_kinds)
    return _Counts(keys=distinct, events=events.reshape(-1, num_kinds))


def _merged(parts: Sequence[_Counts]) -> _Counts:
    distinct, place = np.unique(np.concatenate([part.keys for part in parts]), return_inverse=True)
    events = np.zeros((len(distinct), parts[0].events.shape[1]), np.int64)
    np.add.at(events, place, np.concatenate([part.events for part in parts]))
    return _Counts(keys=distinct, events=events)


def _piece(folder: Path, name: str, table: pa.Table, *, bucket: int | None = None) -> Piece:
    return write_table(folder, name, table, content=table_digest(table), bucket=bucket, often_opened=True)
