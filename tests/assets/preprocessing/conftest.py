"""Several days of the small shop, built up to the rooms under test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest

from assets.preprocessing import features, labels, rollups
from assets.sharding import cut
from resources.contract.dataset import Dataset
from resources.contract.days import days_between
from resources.lake import Lake

ROOMS: dict[str, Any] = {"shards": cut, "rollups": rollups, "features": features, "labels": labels}


@pytest.fixture
def built(
    lake: Lake, rows: Callable[..., pa.Table], deliver: Callable[..., None]
) -> Callable[[Dataset, Mapping[date, Iterable[Mapping[str, Any]]]], None]:
    """Delivers rows on their own event days, fills the days between with empty ones, and builds everything."""

    def build(
        dataset: Dataset,
        days: Mapping[date, Iterable[Mapping[str, Any]]],
        upto: str = "labels",
        last: date | None = None,
    ) -> None:
        every = list(days_between(dataset.days.first, last or max(days, default=dataset.days.first)))
        deliver(dataset, {day: rows(dataset, list(days.get(day, []))) for day in every})
        for name in list(ROOMS)[: list(ROOMS).index(upto) + 1]:
            for day in every:
                ROOMS[name].build(dataset, lake, day)

    return build


@pytest.fixture
def week(traffic: Callable[..., list[dict[str, Any]]]) -> Callable[..., dict[date, list[dict[str, Any]]]]:
    """Random rows of the first days of a dataset."""

    def rows_of_days(dataset: Dataset, *, num_days: int, num_rows: int, seed: int) -> dict[date, list[dict[str, Any]]]:
        days = [dataset.days.first + timedelta(days=i) for i in range(num_days)]
        return {day: traffic(dataset, day, num_rows=num_rows, seed=seed) for day in days}

    return rows_of_days
