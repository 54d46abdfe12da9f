"""A small lake with features and labels as the room before training writes them, and a tracker that only remembers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from assets.preprocessing import features, labels
from assets.preprocessing.layout import Layout
from assets.preprocessing.statistics import Moments, sketch_of
from assets.training import train, window
from assets.training.spec import Spec
from resources.contract.buckets import mix32, salt_of
from resources.contract.dataset import Dataset
from resources.contract.digest import record_digest
from resources.contract.manifest import Check, Parent, Plan
from resources.lake import Lake, Outcome, Piece
from resources.tracking import Metric, Tracker

FIRST = date(2026, 1, 1)

YAML = """
name: shop
source: {files: "/nowhere/{day}.csv", format: csv}
time: {column: at}
days: {zone: UTC, first: 2026-01-01}
columns:
  user: {type: id}
  item: {type: id}
  country: {type: category}
  price: {type: number}
  quantity: {type: number}
  clicked: {type: flag}
user: {column: user}
item: {column: item}
label: {where: "clicked"}
features: {categories: [user, item, country], numbers: [price, quantity]}
train: {window_days: 2, batch_rows: 64}
"""


def trained_as(dataset: Dataset, **train: Any) -> Dataset:
    return dataset.model_copy(update={"train": dataset.train.model_copy(update=train)})


def always(_: date) -> bool:
    return True


@dataclass
class Rows:
    """The rows of one day: what a person would say of them, before they are packed."""

    categories: dict[str, np.ndarray]  # 64-bit hashes, 0 is missing
    numbers: dict[str, np.ndarray]
    labels: np.ndarray


def toy_rows(day: date, rows: int = 600) -> Rows:
    """A rule that a model can learn and a constant cannot: the click depends on country and item together."""
    rng = np.random.default_rng(day.toordinal())
    item, country = rng.integers(1, 9, rows), rng.integers(1, 5, rows)
    price = rng.normal(10, 3, rows).astype(np.float32)
    chance = np.where((item + country) % 2 == 0, 0.9, 0.1)
    return Rows(
        categories={
            "user": rng.integers(1, 200, rows).astype(np.uint64),
            "item": item.astype(np.uint64),
            "country": country.astype(np.uint64),
        },
        numbers={"price": np.where(rng.random(rows) < 0.05, np.nan, price), "quantity": np.ones(rows, np.float32)},
        labels=(rng.random(rows) < chance).astype(np.float32),
    )


def packed(dataset: Dataset, rows: Rows) -> np.ndarray:
    layout = Layout.of(dataset)
    records = layout.empty(len(rows.labels))
    for place, name in enumerate(layout.categories):
        codes = mix32(rows.categories[name], salt_of(name))
        layout.categories_of(records)[:, place] = np.where(rows.categories[name] == 0, np.uint32(0), codes)
    for place, name in enumerate(layout.numbers):
        layout.numbers_of(records)[:, place] = rows.numbers[name]
    return records


def write_day(
    lake: Lake,
    dataset: Dataset,
    day: date,
    rows: Rows | None,
    *,
    buckets: int = 3,
    complete: bool = True,
    shards: Mapping[str, str] | None = None,
    checks: Sequence[Check] = (),
    wild: tuple[int, float] | None = None,
) -> None:
    """Features and labels of a day, cut into buckets of uneven size.

    Args:
        rows: None for a day without any.
        shards: digest of the shards that "features" and "labels" were made from.
        wild: a row, and the price it gets after the moments were taken.
    """
    layout = Layout.of(dataset)
    records = packed(dataset, rows) if rows else layout.empty(0)
    answers = rows.labels if rows else np.empty(0, np.float32)
    moments = {name: Moments.of(layout.numbers_of(records)[:, i]) for i, name in enumerate(layout.numbers)}
    if wild is not None:
        layout.numbers_of(records)[wild[0], 0] = wild[1]
    sketches = np.stack([sketch_of(layout.categories_of(records)[:, i]) for i in range(len(layout.categories))])
    cuts = (len(records) * np.arange(buckets + 1) ** 2 // buckets**2).tolist()
    spans = list(pairwise(cuts))

    def write(folder: Path, values: np.ndarray) -> list[Piece]:
        pieces = []
        for bucket, (start, end) in enumerate(spans):
            if end > start:
                np.save(folder / f"bucket={bucket:03d}.npy", values[start:end])
                content = record_digest(values[start:end], ordered=True)
                pieces.append(Piece(name=f"bucket={bucket:03d}.npy", rows=end - start, content=content, bucket=bucket))
        return pieces

    def write_features(folder: Path) -> Outcome:
        pieces = write(folder, records)
        if rows:
            np.save(folder / features.DISTINCT, sketches)
            pieces.append(Piece(name=features.DISTINCT, rows=0, content=record_digest(sketches)))
        facts = {"layout": layout.as_json(), "moments": {k: [m.n, m.mean, m.m2] for k, m in moments.items()}}
        return Outcome(
            pieces=tuple(pieces), rows_in=len(records), rows_out=len(records), facts=facts, checks=tuple(checks)
        )

    def write_labels(folder: Path) -> Outcome:
        pieces = write(folder, answers)
        facts = {"complete": complete, "horizon_last": day.isoformat()}
        return Outcome(pieces=tuple(pieces), rows_in=len(answers), rows_out=len(answers), facts=facts)

    for room, name, writer in ((features, "features", write_features), (labels, "labels", write_labels)):
        contract, version = room.present(dataset)
        digest = (shards or {}).get(name, f"shards of {day}")
        lake.materialize(
            Plan(
                asset=name,
                day=day,
                contract_digest=contract,
                logic_version=version,
                parents=(Parent(asset="shards", day=day, digest=digest, rows=len(records)),),
            ),
            writer,
            dataset=dataset.name,
            rebuild=True,
        )


def write_days(lake: Lake, dataset: Dataset, days: int, rows: int = 600) -> None:
    for offset in range(days):
        day = FIRST + timedelta(days=offset)
        write_day(lake, dataset, day, toy_rows(day, rows))


@dataclass
class Run:
    dataset: str
    name: str
    tags: dict[str, str]
    params: dict[str, object]
    inputs: list[tuple[str, str, str]]
    metrics: list[Metric] = field(default_factory=list)
    checkpoints: dict[str, dict[str, Any]] = field(default_factory=dict)
    status: str = "RUNNING"
    reason: str | None = None


class Notebook:
    """The part of `resources.tracking.Tracker` that a training uses, in memory."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}

    def start(self, *, dataset: str, name: str, tags: Any, params: Any, inputs: Any) -> str:
        run_id = f"run-{len(self.runs)}"
        self.runs[run_id] = Run(dataset, name, dict(tags), dict(params), list(inputs))
        return run_id

    def reopen(self, run_id: str) -> bool:
        if run_id in self.runs:
            self.runs[run_id].status = "RUNNING"
        return run_id in self.runs

    def log(self, run_id: str, metrics: Sequence[Metric]) -> None:
        self.runs[run_id].metrics += metrics

    def set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        self.runs[run_id].tags |= tags

    def log_checkpoint(self, run_id: str, *, name: str, **what: Any) -> None:
        self.runs[run_id].checkpoints[name] = what

    ending = Tracker.ending

    def finish(self, run_id: str, status: str, *, reason: str | None = None) -> None:
        self.runs[run_id].status, self.runs[run_id].reason = status, reason


def spec_of(lake: Lake, dataset: Dataset, folder: Path, *, day: date = FIRST + timedelta(days=2)) -> Spec:
    """What the ranks would be told for a judged day of a written lake, with checkpoints every 5 steps."""
    folder.mkdir(parents=True)
    ledger = lake.ledger(dataset.name)
    planned = window.plan(dataset, ledger, day, closed=always)
    assert not planned.missing
    prepared = train.prepared(dataset, lake, ledger, planned, folder=folder, home=folder / "checkpoints")
    return replace(prepared, checkpoint_steps=5)
