"""Day D's events, de-duplicated, cut into buckets by user, in canonical order.

A day's rows come from the deliveries of the day before to `late` days after. Everything that chooses between rows
works on the canonical order (bucket, user, time, all other columns), so neither the order of files nor of arrival
can be seen in the result.
"""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.sharding.canonical import canonical_order
from assets.sharding.duplicates import repeats
from assets.sharding.expressions import holds
from assets.sharding.inputs import Inputs, columns_key, manifest_of, names_and_types
from assets.sharding.pieces import read_table, write_table
from resources.contract.buckets import bucket_of, hash64
from resources.contract.dataset import OTHER_EVENT, Dataset
from resources.contract.days import day_bounds_us, days_between
from resources.contract.digest import digest_of_hashes, row_hashes, sum_of
from resources.contract.errors import TransientError
from resources.contract.manifest import Check, FileEntry, Ledger, Manifest, Parent, Plan, contract_digest
from resources.lake import Lake, Materialized, Outcome, Piece

LOGIC_VERSION = 2
CHECKS = {
    "conservation": (True, "Rows in are rows out, plus repeats, plus rows dropped for want of a user."),
    "time_bounds": (True, "Every row happened within the day, in the dataset's zone."),
    "duplicate_share": (False, "Share of rows that repeat another one."),
    "bucket_balance": (False, "Rows of the largest bucket over the mean of all buckets."),
}
NOTABLE_DUPLICATE_SHARE = 0.2
NOTABLE_IMBALANCE = 4.0


def contract_key(dataset: Dataset) -> str:
    """The digest of what a contract says of shards."""
    return contract_digest(
        {
            "columns": columns_key(dataset),
            "user": dataset.user,
            "events": list(dataset.events.items()),
            "duplicates": dataset.duplicates,
            "buckets": dataset.cut.num_buckets,
        }
    )


def present(dataset: Dataset) -> tuple[str, int]:
    """What shards of today's contract are known by."""
    return contract_key(dataset), LOGIC_VERSION


def bucket_name(bucket: int, suffix: str = "parquet") -> str:
    """The file of one bucket."""
    return f"bucket={bucket:03d}.{suffix}"


def delivery_days(dataset: Dataset, day: date) -> list[date]:
    """The delivery days that may hold rows of an event day."""
    if not dataset.source.names_day:
        return [day]
    first = max(dataset.days.first, day - timedelta(days=1))
    return list(days_between(first, day + timedelta(days=dataset.days.late)))


def plan(dataset: Dataset, ledger: Ledger, day: date) -> Plan:
    """What the shards of a day would be made from now."""
    inputs = Inputs(ledger)
    for delivery in delivery_days(dataset, day):
        manifest = inputs.readable("deliveries", delivery, required=delivery <= day)
        entries = _of_event_day(manifest, day) if manifest else []
        if entries:
            inputs.parents.append(
                Parent(
                    asset="deliveries",
                    day=delivery,
                    digest=sum_of(entry.content for entry in entries),  # however its rows lie in parts
                    role="own" if delivery <= day else "ahead",
                    rows=sum(entry.rows for entry in entries),
                )
            )
    return inputs.plan("shards", day, present=present(dataset))


def build(dataset: Dataset, lake: Lake, day: date, *, rebuild: bool = False) -> Materialized:
    """The shards of a day, as its deliveries are now."""
    days = delivery_days(dataset, day)
    ledger = lake.ledger(dataset.name, assets=("deliveries",), first=days[0], last=days[-1])
    wanted = plan(dataset, ledger, day)

    def write(folder: Path) -> Outcome:
        return cut_rows(
            _delivered(dataset, lake, ledger, wanted), dataset=dataset, lake=lake, folder=folder, wanted=wanted
        )

    return lake.materialize(wanted, write, dataset=dataset.name, rebuild=rebuild)


def _of_event_day(manifest: Manifest, day: date) -> list[FileEntry]:
    return [entry for entry in manifest.files if entry.event_day == day and entry.rows]


def _delivered(dataset: Dataset, lake: Lake, ledger: Ledger, wanted: Plan) -> pa.Table:
    """All rows of the event day, as they were delivered."""
    tables = [dataset.row_schema.empty_table()]
    for parent in wanted.parents:
        manifest = manifest_of(ledger, parent)
        for entry in _of_event_day(manifest, wanted.day):
            table = read_table(lake, manifest, entry)
            if names_and_types(table.schema) != columns_key(dataset):
                raise TransientError(
                    f"{dataset.name}/shards {wanted.day}: deliveries {parent.day} hold other columns than the contract now "
                    f"names. Build that day's deliveries again first."
                )
            tables.append(table.cast(dataset.row_schema))
    return pa.concat_tables(tables).combine_chunks()


def cut_rows(table: pa.Table, *, dataset: Dataset, lake: Lake, folder: Path, wanted: Plan) -> Outcome:
    """The outcome of cutting one day's delivered rows into an attempt's folder."""
    num_buckets, missing = dataset.cut.num_buckets, dataset.user.missing
    table = table.append_column("event", event_kinds(table, dataset.events))
    hashes = row_hashes(table)
    users = table[dataset.user.column].combine_chunks()
    without_user = users.is_null().to_numpy(zero_copy_only=False)
    buckets = bucket_of(hash64(users), num_buckets)
    buckets[without_user] = bucket_of(hashes[0, without_user], num_buckets) if missing == "spread" else 0

    order = canonical_order(table, user=dataset.user.column, buckets=buckets)
    table, hashes = table.take(order), hashes[:, order]
    repeated = repeats(table, hashes, dataset.duplicates)
    dropped = without_user[order] & ~repeated & (missing == "drop")
    kept = np.flatnonzero(~(repeated | dropped))
    table, hashes = table.take(kept), hashes[:, kept]
    times = table["event_time"].cast(pa.int64()).to_numpy()

    bounds = np.searchsorted(buckets[order][kept], np.arange(num_buckets + 1))
    pieces: list[Piece] = []
    for bucket, (start, stop) in enumerate(pairwise(bounds.tolist())):
        if start < stop:
            pieces.append(
                write_table(
                    folder,
                    bucket_name(bucket),
                    table.slice(start, stop - start),
                    content=digest_of_hashes(hashes[:, start:stop]),
                    bucket=bucket,
                    span_us=(int(times[start:stop].min()), int(times[start:stop].max())),
                )
            )
            lake.step("shards:bucket")
    counts = {
        "good": sum(parent.rows for parent in wanted.parents),  # as the deliveries promise
        "duplicates": int(repeated.sum()),
        "late": sum(parent.rows for parent in wanted.parents if parent.day > wanted.day),
        "users": pc.count_distinct(users, mode="only_valid").as_py(),
        "without_user": int(without_user.sum()),
        "dropped": int(dropped.sum()),
        "max_bucket_rows": max((piece.rows for piece in pieces), default=0),
    }
    rows_out = sum(piece.rows for piece in pieces)
    bounds_us = day_bounds_us(wanted.day, dataset.days.zone)
    return Outcome(
        pieces=tuple(pieces),
        rows_in=counts["good"],
        rows_out=rows_out,
        counts=counts,
        checks=_checks(counts, rows_out=rows_out, times=times, bounds_us=bounds_us, num_buckets=num_buckets),
        num_buckets=num_buckets,
    )


def event_kinds(table: pa.Table, events: dict[str, str]) -> pa.Array:
    """The kind of every row: the first of the contract's conditions that holds, else 'other'."""
    conditions = [holds(table, expression, key=f"events.{kind}") for kind, expression in events.items()]
    kinds = np.select(conditions, list(range(len(events))), default=len(events)) if events else np.zeros(table.num_rows)
    return pa.array([*events, OTHER_EVENT], pa.string()).take(pa.array(kinds.astype(np.int32)))


def _checks(
    counts: dict[str, int], *, rows_out: int, times: np.ndarray, bounds_us: tuple[int, int], num_buckets: int
) -> tuple[Check, ...]:
    good, repeated, dropped = counts["good"], counts["duplicates"], counts["dropped"]
    outside = int(((times < bounds_us[0]) | (times >= bounds_us[1])).sum())
    share = repeated / good if good else 0.0
    balance = counts["max_bucket_rows"] * num_buckets / rows_out if rows_out else 1.0
    return (
        Check(
            name="conservation",
            passed=good == rows_out + repeated + dropped,
            blocking=True,
            message=f"{good:,} rows in, {rows_out:,} out, {repeated:,} repeats, {dropped:,} dropped without a user",
            value=good - rows_out - repeated - dropped,
            limit=0,
        ),
        Check(
            name="time_bounds",
            passed=outside == 0,
            blocking=True,
            message=f"{outside:,} of {rows_out:,} rows did not happen on the day",
            value=outside,
            limit=0,
        ),
        Check(
            name="duplicate_share",
            passed=share <= NOTABLE_DUPLICATE_SHARE,
            blocking=False,
            message=f"{repeated:,} of {good:,} rows repeat another one",
            value=share,
            limit=NOTABLE_DUPLICATE_SHARE,
        ),
        Check(
            name="bucket_balance",
            passed=balance <= NOTABLE_IMBALANCE,
            blocking=False,
            message=f"the largest of {num_buckets} buckets holds {counts['max_bucket_rows']:,} rows, {balance:.2f} times the mean",
            value=balance,
            limit=NOTABLE_IMBALANCE,
        ),
    )
