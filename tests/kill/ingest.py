"""A day of big files and its delivery, in a process that can be killed: `ingest.py FOLDER`."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from assets.ingestion import deliver
from assets.ingestion.landing import Landing
from resources.contract.dataset import Dataset, parse_dataset
from resources.lake import Lake

DAY = date(2025, 3, 2)
FILES = 4


def dataset_of(folder: Path) -> Dataset:
    text = f"""
name: shop
source: {{files: "{folder}/landing/{{day}}-*.csv", format: csv, settle_seconds: 0}}
time: {{column: at, epoch: ms}}
days: {{zone: UTC, first: 2025-03-01}}
columns:
  user_id: {{as: user, type: id}}
  item: {{type: id}}
  price: {{type: decimal, scale: 2, at_least: 0}}
user: {{column: user}}
label: {{where: "true"}}
features: {{categories: [item]}}
"""
    return parse_dataset(text, file="shop.yaml")


def land(folder: Path, *, rows: int) -> None:
    """The day's files, some of whose rows are bad or of the day before."""
    (folder / "landing").mkdir(parents=True)
    chance = np.random.default_rng(7)
    start_ms = 1_740_873_600_000  # 2025-03-02
    for number in range(FILES):
        size = rows // FILES
        prices = chance.integers(0, 100_000, size) / 100
        prices[chance.random(size) < 0.003] = -1
        table = pa.table(
            {
                "at": start_ms + chance.integers(-3_600_000, 86_400_000, size),
                "user_id": chance.integers(0, 1_000_000, size),
                "item": chance.integers(0, 200_000, size),
                "price": prices,
            }
        )
        pa_csv.write_csv(table, folder / "landing" / f"{DAY}-{number}.csv")


def build(folder: Path) -> None:
    dataset, lake, now = dataset_of(folder), Lake(folder / "lake"), datetime(2026, 7, 1, tzinfo=UTC)
    deliver.build(dataset, lake, Landing.scan(dataset, lake=lake, now=now), DAY, now=now)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
