"""The packed records of a bucket's examples: codes of what is a category, raw float32 of what is a number.

Categories are hashed by their canonical text: ids and words as they are, whole numbers in decimal, flags as true or
false, the hour (0 to 23) and the weekday (1 is Monday) on the wall of the dataset's zone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import chain
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from assets.preprocessing.examples import Examples
from assets.preprocessing.history import Lookback, Past, Today, history_numbers
from assets.preprocessing.layout import Layout
from resources.contract.buckets import hash64, hash64_text, mix32, salt_of
from resources.contract.dataset import Dataset, Log1p
from resources.contract.days import SECOND_US, day_bounds_us
from resources.contract.errors import DataError

MINUTE_US = 60 * SECOND_US


def records_of(
    dataset: Dataset,
    layout: Layout,
    day: date,
    *,
    shard: pa.Table,
    examples: Examples,
    users: dict[int, pa.Table],
    items: dict[int, pa.Table],
    faults: Counter[str],
) -> np.ndarray:
    """uint32[examples, words]: the packed records of one bucket.

    Args:
        users: the rollups of the bucket's users, by days back.
        items: the rollups of all items, by days back.
        faults: counts what no record can hold.
    """
    lookback = Lookback.of(dataset)
    hashes = {dataset.user.column: examples.users, **_hashes(dataset, examples, day)}
    item_hashes = hashes[dataset.item.column] if dataset.item else np.zeros_like(examples.users)
    history = history_numbers(
        dataset,
        rows=examples.rows,
        today=Today.of(dataset, shard),
        users=Past.of(dataset, users, key="user", rows=examples.users, days=lookback.users),
        items=Past.of(dataset, items, key="item", rows=item_hashes, days=lookback.items),
    )
    records = layout.empty(len(examples.rows))
    layout.set_ids(records, users=examples.users, items=item_hashes, times_us=examples.times_us)
    for place, name in enumerate(layout.categories):
        codes = mix32(hashes[name], salt_of(name))
        layout.categories_of(records)[:, place] = np.where(hashes[name] == 0, np.uint32(0), codes)
    for place, values in enumerate(chain(_numbers(dataset, examples.table, faults), history)):
        layout.numbers_of(records)[:, place] = values + 0.0  # -0.0 is 0.0
    return records


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


def refuse(faults: Counter[str], *, where: str) -> None:
    """Raises DataError where something was counted among the faults of a day."""
    found = [f"{rows:,} examples have {fault}" for fault, rows in faults.items() if rows]
    if found:
        raise DataError(
            f"{where}: {'; '.join(found)}. Nothing was published, since training would see no number there."
        )
