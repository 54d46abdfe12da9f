"""A small lake whose models are text files: how much one knows of the truth is written in it, so verdicts can be planned."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from assets.evaluation import baselines, evaluate, judge
from assets.evaluation.examples import Trained
from assets.preprocessing import features
from assets.preprocessing import labels as labels_room
from assets.preprocessing.layout import Layout
from assets.training import window
from resources.contract.buckets import bucket_of, mix32, salt_of
from resources.contract.dataset import Dataset, parse_dataset
from resources.contract.digest import EMPTY, digest_of_json, record_digest, splitmix64
from resources.contract.manifest import Manifest, Parent, Plan
from resources.lake import Lake, Materialized, Outcome, Piece
from resources.tracking import Metric, Package, Tracker

NUM_BUCKETS = 4
CONTRACT = """
name: shop
source: {files: "/landing/{day}.csv", format: csv}
time: {column: at, zone: UTC}
days: {zone: UTC, first: 2026-01-01}
columns:
  who: {as: user, type: id}
  what: {as: item, type: id}
  country: {type: category}
  price: {type: number}
  clicked: {type: flag}
user: {column: user}
item: {column: item}
label: {where: clicked}
features: {categories: [item, country], numbers: [price]}
train: {window_days: 2}
"""


@dataclass
class Told(Tracker):
    """A tracker that only remembers what it was told."""

    runs: set[str] = field(default_factory=set)
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    versions: dict[int, str] = field(default_factory=dict)
    aliases: dict[str, int | None] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def knows(self, run_id: str) -> bool:
        return run_id in self.runs

    def log(self, run_id: str, metrics: Sequence[Metric]) -> None:
        self.calls.append("log")
        self.metrics.setdefault(run_id, {}).update({metric.key: metric.value for metric in metrics})

    def set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        self.tags.setdefault(run_id, {}).update(tags)

    def register(self, run_id: str, *, dataset: str, day: date, package: Package) -> int:
        self.calls.append("register")
        known = self.version_of(run_id, dataset=dataset)
        if known is None:
            self.versions[len(self.versions) + 1] = run_id
        return known or len(self.versions)

    def tag_version(self, *, dataset: str, version: int, tags: Mapping[str, str]) -> None:
        assert version in self.versions

    def version_of(self, run_id: str, *, dataset: str) -> int | None:
        return max((version for version, run in self.versions.items() if run == run_id), default=None)

    def set_alias(self, *, dataset: str, alias: str, version: int | None, day: date) -> bool:
        self.aliases[alias] = version
        return True


def skilled(path: Path) -> Trained:
    """The model of a text file: its score is the truth (which these rows carry in their time), blurred by its noise.

    A skill of 0 gives an AUC of 0.5, 0.25 of 0.78, 0.45 of 0.98.
    """
    told = json.loads(path.read_text())
    layout = Layout.from_json(told["layout"])

    def score(records: np.ndarray) -> np.ndarray:
        times = layout.times_of(records)
        blur = splitmix64(times.view(np.uint64) ^ np.uint64(told["seed"])) / 2.0**64
        return (told["skill"] * (times % 2) + (1 - told["skill"]) * blur).astype(np.float32)

    return Trained(layout, score)


@dataclass
class World:
    """The lake, and what makes its days."""

    lake: Lake
    dataset: Dataset
    told: Told

    @property
    def layout(self) -> Layout:
        return Layout.of(self.dataset)

    def closed(self, day: date) -> bool:
        return day < date(2027, 1, 1)

    def rows(self, num: int, *, seed: int, share: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
        """Records and their labels: the price says something of the label, item and country do not."""
        random = np.random.default_rng(seed)
        labels = (random.random(num) < share).astype(np.float32)
        records = self.layout.empty(num)
        items = random.integers(1, 20, num).astype(np.uint64)
        records[:, 0] = mix32(items * np.uint64(0x9E3779B97F4A7C15), salt_of("item"))
        records[:, 1] = mix32(random.integers(1, 5, num).astype(np.uint64), salt_of("country"))
        records.view(np.float32)[:, 2] = random.normal(labels * 0.5, 1)
        users = splitmix64(random.integers(1, 1 + max(1, num // 4), num).astype(np.uint64))
        times = 2 * random.integers(1, 1 << 40, num) + labels.astype(np.int64)
        self.layout.set_ids(records, users=users, items=items, times_us=times)
        return records, labels

    def data(self, day: date, num: int, *, seed: int | None = None, share: float = 0.5) -> None:
        """Features and labels of a day."""
        records, labels = self.rows(num, seed=day.toordinal() if seed is None else seed, share=share)
        self.put(day, records, labels)

    def put(self, day: date, records: np.ndarray, labels: np.ndarray, *, complete: bool = True) -> None:
        bucket = bucket_of(self.layout.users_of(records), NUM_BUCKETS)
        shards = Parent(asset="shards", day=day, digest=record_digest(records) if len(records) else EMPTY)
        for asset, values, facts, (contract, logic) in (
            ("features", records, {"layout": self.layout.as_json()}, features.present(self.dataset)),
            (
                "labels",
                labels,
                {"complete": complete, "horizon_last": day.isoformat()},
                labels_room.present(self.dataset),
            ),
        ):
            self._materialize(
                Plan(asset=asset, day=day, contract_digest=contract, logic_version=logic, parents=(shards,)),
                {f"bucket={b:03d}.npy": values[bucket == b] for b in range(NUM_BUCKETS) if (bucket == b).any()},
                facts,
            )

    def _materialize(self, plan: Plan, files: dict[str, np.ndarray], facts: dict[str, Any]) -> Manifest:
        def write(folder: Path) -> Outcome:
            for name, values in files.items():
                np.save(folder / name, values)
            pieces = tuple(
                Piece(name=name, rows=len(v), content=record_digest(v, ordered=True), bucket=int(name[7:10]))
                for name, v in files.items()
            )
            rows = sum(len(v) for v in files.values())
            return Outcome(pieces=pieces, rows_in=rows, rows_out=rows, facts=facts)

        return self.lake.materialize(plan, write, dataset=self.dataset.name, rebuild=True).manifest

    def model(self, day: date, *, skill: float, seed: int = 0, run_id: str | None = None) -> Manifest:
        """A model of that skill, 0 to 1, "trained" on the window of the day."""
        text = json.dumps({"skill": skill, "seed": seed, "layout": self.layout.as_json()})
        run_id = run_id or f"run of {day}"
        self.told.runs.add(run_id)

        def write(folder: Path) -> Outcome:
            (folder / "model.pt").write_text(text)
            piece = Piece(name="model.pt", rows=1, content=digest_of_json(text))
            return Outcome(pieces=(piece,), rows_in=0, rows_out=1, facts={"run_id": run_id, "steps": 7})

        return self.lake.materialize(self.model_plan(day), write, dataset="shop", rebuild=True).manifest

    def model_plan(self, day: date) -> Plan:
        return window.plan(self.dataset, self.lake.ledger("shop"), day, closed=self.closed)

    def evaluate(self, day: date, **options: Any) -> Materialized:
        wanted = {"closed": self.closed, "tracker": self.told, "load_scorer": skilled, **options}
        return evaluate.build(self.dataset, self.lake, day, **wanted)

    def judge(self, day: date, **options: Any) -> Materialized:
        fakes = {"tracker": self.told, "load_scorer": skilled, "package_of": lambda file, records: None}
        return judge.build(self.dataset, self.lake, day, **{**fakes, **options})

    def judged(self, day: date, *, skill: float, num: int = 400, seed: int = 0, share: float = 0.5) -> Manifest:
        """The verdict on a new model of that skill, on new rows, through all the assets."""
        self.data(day, num, share=share)
        self.model(day, skill=skill, seed=seed)
        self.evaluate(day)
        return self.judge(day).manifest

    def scores(self, day: date) -> dict[str, np.ndarray]:
        """The columns of a day's scores.parquet."""
        manifest = self.lake.read("shop", "evaluation", day)
        assert manifest is not None
        [entry] = manifest.files
        table = pq.read_table(self.lake.verified_path(manifest, entry))
        return {name: table[name].to_numpy() for name in table.column_names}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Two days of 400 rows before the first day that can be judged, 2026-01-03."""
    monkeypatch.setattr(baselines, "_HASHED", 1 << 10)  # a fit of so few rows spends its time on unused columns
    made = World(Lake(tmp_path / "lake"), parse_dataset(CONTRACT, file="shop.yaml"), Told())
    for number in (1, 2):
        made.data(date(2026, 1, number), 400)
    return made
