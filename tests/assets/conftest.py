"""A small shop whose deliveries the test makes itself, so that the rooms after ingestion are tried alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from ruamel.yaml import YAML

from assets.sharding.pieces import write_table
from resources.contract.dataset import Dataset, parse_dataset
from resources.contract.days import day_bounds_us, days_of, instant_us
from resources.contract.digest import table_digest
from resources.contract.manifest import Check, Manifest, Parent, Plan
from resources.lake import Lake, Outcome

SHOP: dict[str, Any] = {
    "name": "shop",
    "source": {"files": "/nowhere/{day}.csv", "format": "csv"},
    "time": {"column": "at", "epoch": "us"},
    "days": {"zone": "UTC", "first": date(2026, 1, 1), "late": 2},
    "columns": {
        "visitor": {"as": "user", "type": "id", "required": False},
        "product": {"as": "item", "type": "id", "required": False},
        "kind": {"type": "category", "required": False},
        "amount": {"type": "integer", "required": False},
        "price": {"type": "decimal", "scale": 2, "required": False},
        "gift": {"type": "flag", "required": False},
    },
    "user": {"column": "user"},
    "item": {"column": "item"},
    "events": {"buy": "kind = 'buy'", "look": "kind = 'look'"},
    "cut": {"buckets": 4},
    "label": {"event": "buy", "same": ["user", "item"], "within_hours": 48},
    "features": {
        "categories": ["user", "item", "kind", "amount", "gift", "hour", "weekday"],
        "numbers": ["price", {"log1p": "amount"}],
        "history": [
            {"count": "user", "days": [1, 3]},
            {"count": "item", "days": [1, 3]},
            {"count": "user", "event": "buy", "days": [2]},
            {"since_last": "user"},
        ],
    },
}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture(scope="session")
def shop() -> Callable[..., Dataset]:
    """The shop's contract, with some of its keys replaced (inner ones are merged, None takes a key away)."""

    def contract(**changes: Any) -> Dataset:
        raw = deepcopy(SHOP)
        for key, value in changes.items():
            if value is None:
                del raw[key]
            elif isinstance(value, dict) and key in ("days", "source", "features", "train", "columns"):
                raw[key] = {**raw.get(key, {}), **value}
            else:
                raw[key] = value
        stream, yaml = StringIO(), YAML(typ="safe", pure=True)
        yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
        yaml.dump(raw, stream)
        return parse_dataset(stream.getvalue(), file="shop.yaml")

    return contract


@pytest.fixture(scope="session")
def rows() -> Callable[[Dataset, Sequence[Mapping[str, Any]]], pa.Table]:
    """Rows as a delivery holds them; `event_time` is a datetime, an ISO text or microseconds."""

    def instant(value: datetime | str | int) -> int:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        return value if isinstance(value, int) else instant_us(value)

    def table(dataset: Dataset, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        schema = dataset.row_schema
        columns: dict[str, pa.Array] = {
            field.name: pa.array([row.get(field.name) for row in rows], field.type)
            for field in schema
            if field.name != "event_time"
        }
        times = pa.array([instant(row["event_time"]) for row in rows], pa.int64()).cast(pa.timestamp("us", "UTC"))
        return pa.table({"event_time": times, **columns}, schema=schema)

    return table


@pytest.fixture(scope="session")
def traffic() -> Callable[..., list[dict[str, Any]]]:
    """Random rows of one day with few users, items and instants, so that almost everything ties with something."""

    def random_rows(dataset: Dataset, day: date, *, num_rows: int, seed: int, users: int = 6) -> list[dict[str, Any]]:
        random = np.random.default_rng([seed, day.toordinal()])
        start, end = day_bounds_us(day, dataset.days.zone)
        # the first and last instants of the day, and a few in between
        instants = [start, end - 1, *(start + (end - start) // 1000 * random.integers(0, 1000, 8))]

        def one_of(*values: Any) -> Any:
            return values[random.integers(len(values))]

        return [
            {
                "event_time": int(one_of(*instants)),
                "user": one_of(None, *(f"u{i}" for i in range(users))),
                "item": one_of(None, "a", "b", "c"),
                "kind": one_of("buy", "look", "look", "odd", None),
                "amount": one_of(None, 0, 1, 7),
                "price": one_of(None, Decimal("0.10"), Decimal("9.99")),
                "gift": one_of(None, True, False),
            }
            for _ in range(num_rows)
        ]

    return random_rows


@pytest.fixture
def deliver(lake: Lake) -> Callable[..., None]:
    """Publishes what was delivered on some days, as the room before does."""

    def publish(dataset: Dataset, deliveries: Mapping[date, pa.Table], *, checks: Sequence[Check] = ()) -> None:
        for day, table in deliveries.items():
            lake.materialize(*_delivery(dataset, day, table, tuple(checks)), dataset=dataset.name)

    return publish


def _delivery(
    dataset: Dataset, day: date, table: pa.Table, checks: tuple[Check, ...]
) -> tuple[Plan, Callable[[Path], Outcome]]:
    digest = f"{table_digest(table)}{len(checks)}"
    plan = Plan(
        asset="deliveries",
        day=day,
        contract_digest="of deliveries",
        logic_version=1,
        parents=(Parent(asset="landed", day=day, piece=f"{day}.csv", digest=digest, rows=table.num_rows),),
    )

    def write(folder: Path) -> Outcome:
        event_days = days_of(table["event_time"].cast(pa.int64()).to_numpy(), dataset.days.zone)
        pieces = []
        for event_day in np.unique(event_days).tolist():
            part = table.filter(pa.array(event_days == np.datetime64(event_day, "D")))
            name = f"{day:%m%d}/event_day={event_day}.parquet"
            pieces.append(replace(write_table(folder, name, part, content=table_digest(part)), event_day=event_day))
        return Outcome(
            pieces=tuple(pieces), rows_in=table.num_rows, rows_out=table.num_rows, checks=checks, counts={"files": 1}
        )

    return plan, write


@pytest.fixture
def manifest(lake: Lake) -> Callable[[str, date], Manifest]:
    """The published manifest of one asset and day of the shop."""

    def read(asset: str, day: date) -> Manifest:
        found = lake.read("shop", asset, day)
        assert found is not None
        return found

    return read
