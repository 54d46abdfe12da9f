"""Counts and times of the past against a slow oracle in SQL, on days that are full of ties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from assets.preprocessing.history import Lookback, Past, Today, history_numbers
from assets.preprocessing.layout import Layout
from resources.contract.buckets import hash64_text
from resources.contract.dataset import Dataset
from resources.contract.days import SECOND_US
from resources.contract.manifest import Manifest
from resources.lake import Lake

Fixture = Callable[..., Any]
HISTORY = [
    {"count": "user", "days": [1, 2, 4]},
    {"count": "item", "days": [1, 3]},
    {"count": "user", "event": "buy", "days": [1, 3]},
    {"count": "item", "event": "other", "days": [2]},
    {"since_last": "user"},
]


def _events(key: str, condition: str) -> str:
    """SQL: how many events of the same user or item, or null without one."""
    return f"(select case when a.{key} is not null then count(*) end from events p where p.{key} = a.{key} and {condition})"


ORACLE = f"""
select a.user, a.item, a.t,
    {_events("user", "p.t < a.t and p.day > a.day - 1")} as user_count_1d,
    {_events("user", "p.t < a.t and p.day > a.day - 2")} as user_count_2d,
    {_events("user", "p.t < a.t and p.day > a.day - 4")} as user_count_4d,
    {_events("item", "p.day = a.day - 1")} as item_count_1d,
    {_events("item", "p.day between a.day - 3 and a.day - 1")} as item_count_3d,
    {_events("user", "p.t < a.t and p.day > a.day - 1 and p.kind = 'buy'")} as user_buy_count_1d,
    {_events("user", "p.t < a.t and p.day > a.day - 3 and p.kind = 'buy'")} as user_buy_count_3d,
    {_events("item", "p.day between a.day - 2 and a.day - 1 and p.kind not in ('buy', 'look')")} as item_other_count_2d,
    (select (a.t - max(p.t)) / 1e6 from events p where p.user = a.user and p.t < a.t and p.day >= a.day - 30)
        as user_since_last_s
from (select distinct user, item, t, day from events) a
"""


def oracle(days: Mapping[date, list[dict[str, Any]]]) -> dict[tuple[int, int, int], dict[str, float | None]]:
    """(user, item, time) -> history number -> value, by SQL over all rows of all days."""
    names = ("user", "item", "event_time", "kind")
    rows = [(*(row[name] for name in names), day.toordinal()) for day, found in days.items() for row in found]
    users, items, times, kinds, numbers = zip(*rows, strict=True)
    events = pa.table({"user": users, "item": items, "t": times, "kind": kinds, "day": numbers})
    with duckdb.connect() as connection:
        connection.register("raw", events)
        connection.execute("create table events as select * replace (coalesce(kind, 'none') as kind) from raw")
        found = connection.sql(ORACLE).to_arrow_table().to_pylist()
    return {
        (_hash(row.pop("user")), _hash(row.pop("item")), row.pop("t")): {name: row[name] for name in row}
        for row in found
    }


def _hash(text: str | None) -> int:
    return 0 if text is None else hash64_text(text)


def records_of(lake: Lake, made: Manifest) -> np.ndarray:
    return np.concatenate([np.load(lake.path(made, entry)) for entry in made.files if entry.bucket is not None])


@pytest.mark.parametrize(
    ("zone", "first"),
    [
        ("UTC", date(2026, 1, 1)),
        ("Europe/Berlin", date(2026, 3, 27)),  # 29 March has 23 hours
        ("Europe/Berlin", date(2026, 10, 23)),  # 25 October has 25
        ("America/Sao_Paulo", date(2018, 11, 2)),  # 4 November begins at one o'clock
    ],
)
def test_every_number_is_what_sql_over_all_rows_says(
    lake: Lake, shop: Fixture, built: Fixture, week: Fixture, manifest: Fixture, zone: str, first: date
) -> None:
    dataset: Dataset = shop(
        days={"zone": zone, "first": first},
        user={"column": "user", "missing": "spread"},
        duplicates={"keep": "all"},
        features={"history": HISTORY},
    )
    days = week(dataset, num_days=6, num_rows=60, seed=first.toordinal())
    days[first + timedelta(days=2)] = []
    built(dataset, days, upto="features")
    expected, layout = oracle(days), Layout.of(dataset)
    compared = 0
    for day in days:
        records = records_of(lake, manifest("features", day)) if days[day] else layout.empty(0)
        assert len(records) == len(days[day])
        numbers = dict(zip(layout.numbers, layout.numbers_of(records).T, strict=True))
        keys = list(zip(layout.users_of(records), layout.items_of(records), layout.times_of(records), strict=True))
        for name in next(iter(expected.values())):
            wanted = np.array([expected[key][name] for key in keys], np.float64).astype(np.float32)
            assert np.array_equal(numbers[name], wanted, equal_nan=True), (day, name)
            compared += len(wanted)
    assert compared == 300 * 9


def test_since_last_looks_back_thirty_days_and_no_further(
    lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture
) -> None:
    dataset = shop(features={"history": [{"since_last": "user"}]})
    first = dataset.days.first
    days = {
        first + timedelta(days=d): [{"event_time": f"{first + timedelta(days=d)}T01:00Z", "user": u}]
        for d, u in [(0, "u"), (1, "v"), (30, "u"), (32, "v")]
    }
    built(dataset, days, upto="features")
    layout = Layout.of(dataset)

    def since(day: date) -> float:
        return float(layout.numbers_of(records_of(lake, manifest("features", day)))[0, -1])

    assert since(first + timedelta(days=30)) == 30 * 24 * 3600
    assert np.isnan(since(first + timedelta(days=32)))
    assert np.isnan(since(first))


def test_c5_counts_beyond_31_bits_do_not_wrap(shop: Fixture, rows: Fixture) -> None:
    bought = [{"count": key, "event": "buy", "days": [2]} for key in ("user", "item")]
    dataset = shop(features={"history": bought})
    table = rows(dataset, [{"event_time": f"2026-01-05T0{i}:00Z", "user": "u", "item": "a"} for i in range(2)])
    shard = table.append_column("event", pa.array(["buy", "buy"]))
    counts = {f"count_{kind}": [n] for kind, n in (("buy", 2_147_483_647), ("look", 0), ("other", 4_000_000_000))}
    key = np.array([hash64_text("u")] * 2, np.uint64)
    past = Past.of(dataset, {1: pa.table({"k": key[:1], **counts})}, key="k", rows=key, days=1)
    assert past.counted(1, None).tolist() == [6_147_483_647] * 2
    today = Today.of(dataset, shard)
    by_user, _ = history_numbers(dataset, rows=np.arange(2), today=today, users=past, items=past)
    assert by_user.tolist() == [2_147_483_647, 2_147_483_648]


def test_a_row_counts_neither_itself_nor_what_happened_at_the_same_instant(shop: Fixture, rows: Fixture) -> None:
    dataset = shop()
    found = [("u", 0), ("u", 1), ("u", 1), ("u", 1), ("u", 2), ("v", 0), ("v", 0)]
    table = rows(dataset, [{"event_time": second * SECOND_US, "user": user} for user, second in found])
    shard = table.append_column("event", pa.array(["buy", "buy", "look", "buy", "buy", "buy", "buy"]))
    today, everything = Today.of(dataset, shard), np.arange(7)
    assert today.earlier(everything, None).tolist() == [0, 1, 1, 1, 4, 0, 0]
    assert today.earlier(everything, 0).tolist() == [0, 1, 1, 1, 3, 0, 0]
    assert today.earlier(np.array([4, 0]), 1).tolist() == [1, 0]
    previous = today.previous_us(everything)
    assert previous[1:5].tolist() == [0, 0, 0, SECOND_US]
    assert len(set(previous[[0, 5, 6]].tolist())) == 1 and previous[0] < 0


@pytest.mark.parametrize(
    ("history", "users", "items"),
    [
        ([], 0, 0),
        ([{"count": "user", "days": [1]}], 0, 0),
        ([{"count": "user", "days": [1, 7]}], 6, 0),
        ([{"count": "item", "days": [7, 1]}], 0, 7),
        ([{"count": "user", "days": [3]}, {"count": "item", "days": [2]}, {"since_last": "user"}], 30, 2),
    ],
)
def test_no_more_days_are_read_than_the_contract_asks_for(
    shop: Fixture, history: list[Any], users: int, items: int
) -> None:
    assert Lookback.of(shop(features={"history": history})) == Lookback(users=users, items=items)
