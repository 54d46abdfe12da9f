"""One label, 0 or 1, per feature row of day D, in the same order.

A label about the future is looked up in the same bucket of the days ahead, as far as their shards are there. A day
ahead is a parent even when it holds no rows: that nothing happened on it is what makes the labels mature.
"""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.preprocessing.examples import CONSERVATION, conservation, examples_of
from assets.sharding import cut
from assets.sharding.expressions import evaluate
from assets.sharding.groups import groups_of
from assets.sharding.inputs import Inputs, columns_key, manifest_of, own_buckets
from assets.sharding.pieces import read_table
from resources.contract.dataset import Dataset, EventLabel
from resources.contract.days import HOUR_US, days_between, horizon_day
from resources.contract.digest import combined, record_digest
from resources.contract.errors import DataError
from resources.contract.manifest import Check, Ledger, Plan, contract_digest
from resources.lake import Lake, Materialized, Outcome, Piece

LOGIC_VERSION = 1
CHECKS = {"conservation": CONSERVATION, "label_share": (False, "There are examples of both kinds.")}


def present(dataset: Dataset) -> tuple[str, int]:
    """What labels of today's contract are known by."""
    keys = {
        "columns": columns_key(dataset),
        "zone": dataset.days.zone,
        "examples": dataset.examples,
        "label": dataset.label,
    }
    return contract_digest(keys), LOGIC_VERSION


def days_ahead(dataset: Dataset, day: date) -> list[date]:
    """The later days on which the labels of a day may still be decided."""
    last = horizon_day(day, zone=dataset.days.zone, within_hours=dataset.horizon_hours)
    return list(days_between(day + timedelta(days=1), last))


def plan(dataset: Dataset, ledger: Ledger, day: date) -> Plan:
    """What the labels of a day would be made from now."""
    inputs = Inputs(ledger)
    shards = inputs.readable("shards", day, required=True, present=cut.present(dataset))
    if shards is not None and shards.rows_out:
        inputs.add(shards, role="own", rows=shards.rows_out)
    for later in days_ahead(dataset, day):
        ahead = inputs.readable("shards", later, required=False, present=cut.present(dataset))
        if ahead is not None:
            inputs.add(ahead, role="ahead", rows=ahead.rows_out)
    return inputs.plan("labels", day, present=present(dataset))


def build(dataset: Dataset, lake: Lake, day: date, *, rebuild: bool = False) -> Materialized:
    """The labels of a day, as its shards and those of the days ahead are now."""
    last = max([day, *days_ahead(dataset, day)])
    ledger = lake.ledger(dataset.name, assets=("deliveries", "shards"), first=day, last=last)
    wanted = plan(dataset, ledger, day)
    return lake.materialize(
        wanted,
        lambda folder: _written(folder, dataset=dataset, lake=lake, ledger=ledger, wanted=wanted),
        dataset=dataset.name,
        rebuild=rebuild,
    )


def _written(folder: Path, *, dataset: Dataset, lake: Lake, ledger: Ledger, wanted: Plan) -> Outcome:
    pieces: list[Piece] = []
    digests: list[tuple[str, str]] = []
    expected: dict[str, int] = {}
    faults: Counter[str] = Counter()
    rows_in = positives = 0
    for bucket, shard in own_buckets(lake, ledger, wanted):
        rows_in += shard.num_rows
        examples = examples_of(dataset, shard, wanted.day)
        if len(examples.rows) == 0:
            continue
        if isinstance(dataset.label, EventLabel):
            later = _events_ahead(dataset.label, shard, lake=lake, ledger=ledger, wanted=wanted, bucket=bucket)
            labels = followed(examples.table, later, dataset.label)
        else:
            labels = row_labels(examples.table, dataset.label.where, faults)
        labels = labels.astype(np.float32)
        positives += int(labels.sum())
        piece = Piece(
            name=cut.bucket_name(bucket, "npy"),
            rows=len(labels),
            content=record_digest(labels, ordered=True),
            bucket=bucket,
        )
        np.save(folder / piece.name, labels)
        pieces.append(piece)
        digests.append((piece.name, examples.digest))
        expected[piece.name] = len(examples.rows)
        lake.step("labels:bucket")
    _refuse(faults, where=f"{dataset.name}/labels {wanted.day}")
    rows = sum(piece.rows for piece in pieces)
    ahead = days_ahead(dataset, wanted.day)
    seen = {parent.day for parent in wanted.parents if parent.role == "ahead"}
    return Outcome(
        pieces=tuple(pieces),
        rows_in=rows_in,
        rows_out=rows,
        counts={"examples": rows, "positives": positives},
        checks=(
            conservation(wanted, pieces, num_read=rows_in, examples=expected),
            _label_share(rows, positives),
        ),
        facts={
            "complete": seen == set(ahead),
            "horizon_last": max([wanted.day, *ahead]).isoformat(),
            "examples": combined(digests),
        },
        num_buckets=dataset.cut.num_buckets,
    )


def _events_ahead(
    label: EventLabel, shard: pa.Table, *, lake: Lake, ledger: Ledger, wanted: Plan, bucket: int
) -> pa.Table:
    """The events of the label's kind in one bucket, of the day itself and of all later days that were there."""
    columns = [*label.same, "event_time", "event"]
    tables = [shard.select(columns)]
    for parent in wanted.parents:
        if parent.role == "ahead":
            manifest = manifest_of(ledger, parent)
            entry = manifest.file(cut.bucket_name(bucket))
            if entry is not None:
                tables.append(read_table(lake, manifest, entry, columns=columns))
    return pa.concat_tables(table.filter(pc.equal(table["event"], label.event)) for table in tables)


def followed(examples: pa.Table, events: pa.Table, label: EventLabel) -> np.ndarray:
    """bool per example: whether one of the events equals it in the label's columns and comes later, within its hours.

    Strictly later, in real time, to the microsecond. A missing value equals nothing.
    """
    both = pa.concat_tables([table.select([*label.same, "event_time"]) for table in (examples, events)])
    groups, nulls = groups_of(both.select(label.same))
    times = both["event_time"].cast(pa.int64()).to_numpy()
    instants = np.unique(times)

    # group and instant as one number: both are counted densely, so it fits into 63 bits
    def fused(groups: np.ndarray, times: np.ndarray) -> np.ndarray:
        return groups * (len(instants) + 1) + np.searchsorted(instants, times, side="right")

    own, other = slice(0, examples.num_rows), slice(examples.num_rows, None)
    events_at = np.sort(
        fused(groups[other], times[other])[nulls[other] == 0]
    )  # so no example without a value finds one
    until = times[own] + round(label.within_hours * HOUR_US)
    first = np.searchsorted(events_at, fused(groups[own], times[own]), side="right")
    last = np.searchsorted(events_at, fused(groups[own], until), side="right")
    return last > first


def row_labels(examples: pa.Table, expression: str, faults: Counter[str]) -> np.ndarray:
    """bool per example; values that are neither true nor false, 0 nor 1 are counted among the faults."""
    values = evaluate(examples, expression, key="label.where")
    kind = values.type
    numbers = np.full(len(values), np.nan)
    if (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    ):
        numbers = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    refused = values.filter(pa.array((numbers != 0) & (numbers != 1)))
    faults.update(repr(value) for value in refused.to_pylist())
    return numbers == 1


def _refuse(faults: Counter[str], *, where: str) -> None:
    if faults:
        found = ", ".join(f"{value} ({rows:,} times)" for value, rows in faults.most_common(3))
        raise DataError(
            f"{where}: {faults.total():,} examples get a label that is neither true nor false, 0 nor 1: {found}. Training would fit "
            f"nonsense without a word. Mend `label.where`, or leave such rows out by `examples`."
        )


def _label_share(rows: int, positives: int) -> Check:
    return Check(
        name="label_share",
        passed=rows == 0 or 0 < positives < rows,
        blocking=False,
        message=f"{positives:,} of {rows:,} examples are positive",
        value=positives / rows if rows else 0.0,
    )
