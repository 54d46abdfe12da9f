"""A shop of a few lines a day that a test writes itself, taken through the data rooms by their own build functions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from assets.ingestion import deliver
from assets.ingestion.landing import Landing
from assets.preprocessing import features, labels, rollups
from assets.sharding import cut
from resources.contract.dataset import Dataset, parse_dataset
from resources.contract.manifest import DATA_ASSETS
from resources.lake import Lake
from sensors.state import State

FIRST = date(2025, 3, 7)
_ROOMS: dict[str, Any] = {"shards": cut, "rollups": rollups, "features": features, "labels": labels}
_CONTRACT = """
name: {name}
source: {{files: "{landing}/{{day}}*.csv", format: csv, settle_seconds: 0}}
time: {{column: at}}
days: {{zone: UTC, first: {first}, late: 3}}
columns:
  user: {{type: id, required: false}}
  kind: {{type: category}}
user: {{column: user}}
events: {{buy: "kind = 'buy'"}}
cut: {{buckets: 2}}
label: {{event: buy, same: [user], within_hours: 24}}
features: {{categories: [kind], history: [{{count: user, days: [2]}}]}}
train: {{window_days: 2}}
"""


def moment(text: str) -> datetime:
    """`10T09:00` is nine o'clock on 2025-03-10, UTC."""
    return datetime.fromisoformat(f"2025-03-{text}").replace(tzinfo=UTC)


@dataclass(frozen=True)
class ToyShop:
    """A dataset with its own landing; several may share a lake."""

    lake: Lake
    landing: Path
    name: str = "shop"

    @property
    def dataset(self) -> Dataset:
        text = _CONTRACT.format(name=self.name, landing=self.landing, first=FIRST)
        return parse_dataset(text, file=f"{self.name}.yaml")

    def land(self, name: str, lines: Iterable[str], *, at: datetime) -> None:
        """A file of that name lands at that moment; a line is `10T09:00,u1,buy`."""
        self.landing.mkdir(parents=True, exist_ok=True)
        path = self.landing / f"{name}.csv"
        path.write_text("at,user,kind\n" + "".join(f"2025-03-{_with_zone(line)}\n" for line in lines))
        os.utime(path, (at.timestamp(), at.timestamp()))

    def state(self, now: datetime) -> State:
        """How it stands at that moment."""
        return State(
            self.dataset, Landing.scan(self.dataset, lake=self.lake, now=now), self.lake.ledger(self.name), now
        )

    def build(self, days: Iterable[date], *, now: datetime, rooms: Iterable[str] = DATA_ASSETS) -> None:
        """Builds days of some rooms, one room after the other."""
        dataset, every = self.dataset, list(days)
        for room in rooms:
            for day in every:
                if room == "deliveries":
                    deliver.build(dataset, self.lake, Landing.scan(dataset, lake=self.lake, now=now), day, now=now)
                else:
                    _ROOMS[room].build(dataset, self.lake, day)


def _with_zone(line: str) -> str:
    time, _, rest = line.partition(",")
    return f"{time}Z,{rest}"
