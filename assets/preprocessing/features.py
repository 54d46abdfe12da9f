"""One packed record per example of day D: facts of the row and of what happened before it, nothing fitted.

Table sizes, fills and normalisation belong to the model, which merges the days' moments and sketches over its window.
"""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from assets.preprocessing import rollups
from assets.preprocessing.examples import CONSERVATION, conservation, examples_of
from assets.preprocessing.history import Lookback
from assets.preprocessing.layout import Layout
from assets.preprocessing.records import records_of, refuse
from assets.preprocessing.statistics import Moments, merged_sketch, sketch_of
from assets.sharding import cut
from assets.sharding.inputs import Inputs, columns_key, manifest_of, own_buckets
from assets.sharding.pieces import read_table
from resources.contract.dataset import Dataset
from resources.contract.days import days_between
from resources.contract.digest import combined, record_digest
from resources.contract.manifest import Check, Ledger, Plan, contract_digest
from resources.lake import Lake, Materialized, Outcome, Piece

LOGIC_VERSION = 1
CHECKS = {
    "conservation": CONSERVATION,
    "missing_share": (False, "Share of missing values in the emptiest of the contract's numbers."),
}
NOTABLE_MISSING_SHARE = 0.5
DISTINCT = "distinct.npy"


def present(dataset: Dataset) -> tuple[str, int]:
    """What features of today's contract are known by."""
    keys = {
        "columns": columns_key(dataset),
        "user": dataset.user.column,
        "item": dataset.item,
        "zone": dataset.days.zone,
        "examples": dataset.examples,
        "features": dataset.features,
    }
    return contract_digest(keys), LOGIC_VERSION


def history_days(dataset: Dataset, day: date) -> list[date]:
    """The earlier days whose rollups the features of a day read; there is no history before the dataset's first day."""
    first = max(dataset.days.first, day - timedelta(days=Lookback.of(dataset).days))
    return list(days_between(first, day - timedelta(days=1)))


def plan(dataset: Dataset, ledger: Ledger, day: date) -> Plan:
    """What the features of a day would be made from now."""
    inputs = Inputs(ledger)
    shards = inputs.readable("shards", day, required=True, present=cut.present(dataset))
    if shards is not None and shards.rows_out:
        inputs.add(shards, role="own", rows=shards.rows_out)
    for earlier in history_days(dataset, day):
        past = inputs.readable("rollups", earlier, required=True, present=rollups.present(dataset))
        if past is not None and past.rows_out:
            inputs.add(past, role="history", rows=past.rows_in)
    return inputs.plan("features", day, present=present(dataset))


def build(dataset: Dataset, lake: Lake, day: date, *, rebuild: bool = False) -> Materialized:
    """The features of a day, as its shards and the earlier days' rollups are now."""
    first = min([day, *history_days(dataset, day)])
    ledger = lake.ledger(dataset.name, assets=("deliveries", "shards", "rollups"), first=first, last=day)
    wanted = plan(dataset, ledger, day)
    return lake.materialize(
        wanted,
        lambda folder: _written(folder, dataset=dataset, lake=lake, ledger=ledger, wanted=wanted),
        dataset=dataset.name,
        rebuild=rebuild,
    )


def _written(folder: Path, *, dataset: Dataset, lake: Lake, ledger: Ledger, wanted: Plan) -> Outcome:
    day, layout, lookback = wanted.day, Layout.of(dataset), Lookback.of(dataset)
    pieces: list[Piece] = []
    digests: list[tuple[str, str]] = []
    expected: dict[str, int] = {}
    summary, faults = _Summary(layout), Counter[str]()
    items = _past_tables(lake, ledger, wanted, rollups.ITEMS, days=lookback.items)
    rows_in = 0
    for bucket, shard in own_buckets(lake, ledger, wanted):
        rows_in += shard.num_rows
        examples = examples_of(dataset, shard, day)
        if len(examples.rows) == 0:
            continue
        users = _past_tables(lake, ledger, wanted, rollups.users_name(bucket), days=lookback.users)
        records = records_of(
            dataset, layout, day, shard=shard, examples=examples, users=users, items=items, faults=faults
        )
        summary.add(records)
        piece = Piece(
            name=cut.bucket_name(bucket, "npy"),
            rows=len(records),
            content=record_digest(records, ordered=True),
            bucket=bucket,
            first_us=int(examples.times_us.min()),
            last_us=int(examples.times_us.max()),
        )
        np.save(folder / piece.name, records)
        pieces.append(piece)
        digests.append((piece.name, examples.digest))
        expected[piece.name] = len(examples.rows)
        lake.step("features:bucket")
    refuse(faults, where=f"{dataset.name}/features {day}")
    rows = sum(piece.rows for piece in pieces)
    if rows and layout.categories:
        distinct = np.stack(summary.sketches)
        np.save(folder / DISTINCT, distinct)
        pieces.append(Piece(name=DISTINCT, rows=0, content=record_digest(distinct, ordered=True)))
    moments = dict(zip(layout.numbers, summary.moments, strict=True))
    return Outcome(
        pieces=tuple(pieces),
        rows_in=rows_in,
        rows_out=rows,
        counts={"examples": rows},
        checks=(
            conservation(wanted, pieces, num_read=rows_in, examples=expected),
            _missing_share(moments, dataset=dataset, rows=rows),
        ),
        facts={
            "layout": layout.as_json(),
            "moments": {name: [m.n, m.mean, m.m2] for name, m in moments.items()},
            "examples": combined(digests),
        },
        num_buckets=dataset.cut.num_buckets,
    )


class _Summary:
    """Moments of every number and the sketch of every category, over all records so far."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.moments = [Moments() for _ in layout.numbers]
        self.sketches = [merged_sketch([]) for _ in layout.categories]

    def add(self, records: np.ndarray) -> None:
        for place, values in enumerate(self._layout.numbers_of(records).T):
            self.moments[place] = self.moments[place].merged(Moments.of(values))
        for place, codes in enumerate(self._layout.categories_of(records).T):
            self.sketches[place] = sketch_of(np.concatenate([self.sketches[place], codes]))


def _past_tables(lake: Lake, ledger: Ledger, wanted: Plan, name: str, *, days: int) -> dict[int, pa.Table]:
    """The rollups of one name, by how many days back they lie."""
    tables: dict[int, pa.Table] = {}
    for parent in wanted.parents:
        back = (wanted.day - parent.day).days
        if parent.role == "history" and back <= days:
            manifest = manifest_of(ledger, parent)
            entry = manifest.file(name)
            if entry is not None:
                tables[back] = read_table(lake, manifest, entry)
    return tables


def _missing_share(moments: dict[str, Moments], *, dataset: Dataset, rows: int) -> Check:
    names = list(moments)[: len(dataset.features.numbers)]  # those of history are missing on first sight by nature
    shares = {name: 1 - moments[name].n / rows for name in names} if rows else {}
    worst = max(shares, key=lambda name: shares[name], default=None)
    share = shares[worst] if worst else 0.0
    return Check(
        name="missing_share",
        passed=share <= NOTABLE_MISSING_SHARE,
        blocking=False,
        message=f"{worst} is missing in {share:.1%} of {rows:,} examples" if worst else "no numbers to look at",
        value=share,
        limit=NOTABLE_MISSING_SHARE,
    )
