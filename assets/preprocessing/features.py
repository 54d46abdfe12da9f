"""One packed record per example of day D: facts of the row and of what happened before it, nothing fitted.

Table sizes, fills and normalisation belong to the model, which merges the days' moments and sketches over its window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import chain
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from assets.preprocessing import rollups
from assets.preprocessing.examples import Examples, examples_of
from assets.preprocessing.history import Lookback, Past, Today, history_numbers
from assets.preprocessing.layout import Layout
from assets.preprocessing.statistics import Moments, merged_sketch, sketch_of
from assets.sharding import cut
from assets.sharding.inputs import Inputs, columns_key, manifest_of, own_buckets
from assets.sharding.pieces import read_table
from resources.contract.buckets import hash64, hash64_text, mix32, salt_of
from resources.contract.dataset import Dataset, Log1p
from resources.contract.days import SECOND_US, day_bounds_us, days_between
from resources.contract.digest import combined, record_digest
from resources.contract.errors import DataError
from resources.contract.manifest import Check, Ledger, Plan, contract_digest
from resources.lake import Lake, Materialized, Outcome, Piece

LOGIC_VERSION = 1
CHECKS = {"missing_share": (False, "Share of missing values in the emptiest of the contract's numbers.")}
NOTABLE_MISSING_SHARE = 0.5
DISTINCT = "distinct.npy"
MINUTE_US = 60 * SECOND_US


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
    moments = [Moments() for _ in layout.numbers]
    sketches = [merged_sketch([]) for _ in layout.categories]
    faults: Counter[str] = Counter()
    items_past = _past_tables(lake, ledger, wanted, rollups.ITEMS, days=lookback.items)
    rows_in = 0
    for bucket, shard in own_buckets(lake, ledger, wanted):
        rows_in += shard.num_rows
        examples = examples_of(dataset, shard, day)
        if len(examples.rows) == 0:
            continue
        hashes = {dataset.user.column: examples.users, **_hashes(dataset, examples, day)}
        items = hashes[dataset.item.column] if dataset.item else np.zeros_like(examples.users)
        users_past = _past_tables(lake, ledger, wanted, rollups.users_name(bucket), days=lookback.users)
        history = history_numbers(
            dataset,
            rows=examples.rows,
            today=Today.of(dataset, shard),
            users=Past.of(dataset, users_past, key="user", rows=examples.users, days=lookback.users),
            items=Past.of(dataset, items_past, key="item", rows=items, days=lookback.items),
        )
        records = layout.empty(len(examples.rows))
        layout.set_ids(records, users=examples.users, items=items, times_us=examples.times_us)
        for place, name in enumerate(layout.categories):
            codes = np.where(hashes[name] == 0, np.uint32(0), mix32(hashes[name], salt_of(name)))
            layout.categories_of(records)[:, place] = codes
            sketches[place] = sketch_of(np.concatenate([sketches[place], codes]))
        for place, values in enumerate(chain(_numbers(dataset, examples.table, faults), history)):
            layout.numbers_of(records)[:, place] = values + 0.0  # -0.0 is 0.0
            moments[place] = moments[place].merged(Moments.of(layout.numbers_of(records)[:, place]))
        pieces.append(
            Piece(
                name=cut.bucket_name(bucket, "npy"),
                rows=len(records),
                content=record_digest(records, ordered=True),
                bucket=bucket,
                first_us=int(examples.times_us.min()),
                last_us=int(examples.times_us.max()),
            )
        )
        np.save(folder / pieces[-1].name, records)
        digests.append((pieces[-1].name, examples.digest))
        lake.step("features:bucket")
    _refuse(faults, where=f"{dataset.name}/features {day}")
    rows = sum(piece.rows for piece in pieces)
    if rows and sketches:
        distinct = np.stack(sketches)
        np.save(folder / DISTINCT, distinct)
        pieces.append(Piece(name=DISTINCT, rows=0, content=record_digest(distinct, ordered=True)))
    return Outcome(
        pieces=tuple(pieces),
        rows_in=rows_in,
        rows_out=rows,
        counts={"examples": rows},
        checks=(_missing_share(dict(zip(layout.numbers, moments, strict=True)), dataset=dataset, rows=rows),),
        facts={
            "layout": layout.as_json(),
            "moments": {name: [m.n, m.mean, m.m2] for name, m in zip(layout.numbers, moments, strict=True)},
            "examples": combined(digests),
        },
        num_buckets=dataset.cut.num_buckets,
    )


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


def _hashes(dataset: Dataset, examples: Examples, day: date) -> dict[str, np.ndarray]:
    """The 64-bit hash of each row's canonical text, by name, of the item and every category but the user; 0 is missing."""
    names = {*dataset.features.categories, *([dataset.item.column] if dataset.item else [])} - {dataset.user.column}
    hashes: dict[str, np.ndarray] = {}
    for name in names:
        if name == "weekday":
            hashes[name] = np.full(len(examples.rows), hash64_text(str(day.isoweekday())), np.uint64)
        elif name == "hour":
            by_hour = np.array([hash64_text(str(hour)) for hour in range(24)], np.uint64)
            since_midnight = examples.times_us - day_bounds_us(day, dataset.days.zone)[0]
            hashes[name] = by_hour[_local_hours(day, dataset.days.zone)[since_midnight // MINUTE_US]]
        else:
            hashes[name] = hash64(examples.table[name].cast(pa.string()))
    return hashes


@lru_cache(maxsize=64)
def _local_hours(day: date, zone: str) -> np.ndarray:
    """The hour on the wall for each minute of a day, of which there may be 23 or 25 hours."""
    start, end = (value // SECOND_US for value in day_bounds_us(day, zone))
    local = ZoneInfo(zone)
    return np.array([datetime.fromtimestamp(second, UTC).astimezone(local).hour for second in range(start, end, 60)])


def _numbers(dataset: Dataset, table: pa.Table, faults: Counter[str]) -> Iterator[np.ndarray]:
    """float64 per row for each of the contract's numbers, null as NaN; what cannot be one is counted among the faults."""
    for number in dataset.features.numbers:
        name = number.log1p if isinstance(number, Log1p) else number
        values = table[name].cast(pa.float64(), safe=False).to_numpy()
        if isinstance(number, Log1p):
            negative = values < 0
            faults[
                f"a negative {name!r}, and log1p of it means nothing: say `at_least: 0` of the column or restrict `examples`"
            ] += int(negative.sum())
            values = np.log1p(np.where(negative, np.nan, values))
        infinite = np.abs(values) > np.finfo(np.float32).max
        faults[f"a {name!r} beyond what a float32 holds: bound the column or take `log1p` of it"] += int(infinite.sum())
        yield np.where(infinite, np.nan, values)


def _refuse(faults: Counter[str], *, where: str) -> None:
    found = [f"{rows:,} examples have {fault}" for fault, rows in faults.items() if rows]
    if found:
        raise DataError(
            f"{where}: {'; '.join(found)}. Nothing was published, since training would see no number there."
        )


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
