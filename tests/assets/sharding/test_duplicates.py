from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.sharding import cut
from assets.sharding.canonical import canonical_order
from assets.sharding.duplicates import repeats
from resources.contract.dataset import Duplicates
from resources.contract.digest import row_hashes
from resources.lake import Lake

ROW = st.tuples(
    st.sampled_from(["a", "b", None]), st.sampled_from([None, 1, 2]), st.sampled_from([None, 1, 2]), st.booleans()
)
RULES = [
    Duplicates(),
    Duplicates(key=("user", "n"), keep="first", order="rank"),
    Duplicates(key=("user", "n"), keep="last", order="rank"),
    Duplicates(key=("n",), keep="last", order="event_time"),
    Duplicates(keep="all"),
]


def kept(rows: list[tuple[Any, ...]], rule: Duplicates) -> list[tuple[Any, ...]]:
    """The rows that a rule keeps, after they were brought into canonical order."""
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    table = pa.table(
        {
            "event_time": pa.array([0] * len(rows), pa.int64()).cast(pa.timestamp("us", "UTC")),
            "user": pa.array(columns[0], pa.string()),
            "n": pa.array(columns[1], pa.int64()),
            "rank": pa.array(columns[2], pa.int64()),
            "flag": pa.array(columns[3], pa.bool_()),
        }
    )
    order = canonical_order(table, user="user", buckets=np.zeros(len(rows), np.int64))
    table = table.take(order)
    left = table.filter(pa.array(~repeats(table, row_hashes(table), rule)))
    return [tuple(row[name] for name in ("user", "n", "rank", "flag")) for row in left.to_pylist()]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_rows_that_are_kept_do_not_depend_on_arrival(rule: Duplicates) -> None:
    @given(st.lists(ROW, max_size=15), st.randoms())
    def holds(rows: list[tuple[Any, ...]], random: Any) -> None:
        shuffled = rows.copy()
        random.shuffle(shuffled)
        assert kept(shuffled, rule) == kept(rows, rule)

    check: Callable[[], None] = holds
    check()


@given(st.lists(ROW, max_size=15))
def test_of_equal_rows_one_is_kept_and_no_value_is_lost(rows: list[tuple[Any, ...]]) -> None:
    found = kept(rows, Duplicates())
    assert len(found) == len(set(found))
    assert set(found) == set(rows)


@pytest.mark.parametrize(("keep", "wanted"), [("first", min), ("last", max)])
def test_of_each_key_the_row_at_the_end_of_its_order_is_kept(keep: Any, wanted: Callable[..., Any]) -> None:
    rule = Duplicates(key=("user", "n"), keep=keep, order="rank")

    @given(st.lists(ROW, max_size=15))
    def holds(rows: list[tuple[Any, ...]]) -> None:
        found = kept(rows, rule)
        keys = {row[:2] for row in rows if row[:2] != (None, None)}
        named = [row for row in found if row[:2] != (None, None)]
        assert sorted(map(repr, (row[:2] for row in named))) == sorted(map(repr, keys))
        for row in named:
            ranks = [other[2] for other in rows if other[:2] == row[:2] and other[2] is not None]
            assert row[2] == (wanted(ranks) if ranks else None)
        assert sum(row[:2] == (None, None) for row in found) == sum(row[:2] == (None, None) for row in rows)

    check: Callable[[], None] = holds
    check()


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        (Duplicates(keep="all"), [("a", 1, 1, True)] * 2),
        (Duplicates(), [("a", 1, 1, True)]),
    ],
)
def test_copies_stay_only_where_the_contract_keeps_all(rule: Duplicates, left: list[tuple[Any, ...]]) -> None:
    assert kept([("a", 1, 1, True)] * 2, rule) == left


@pytest.mark.parametrize(("keep", "flag"), [("first", False), ("last", True)])
def test_where_the_order_ties_the_canonical_order_decides(keep: Any, flag: bool) -> None:
    rule = Duplicates(key=("user",), keep=keep, order="rank")
    assert kept([("a", 1, 5, True), ("a", 1, 5, False)], rule) == [("a", 1, 5, flag)]


@pytest.mark.parametrize("keep", ["first", "last"])
def test_a_row_without_an_order_loses(keep: Any) -> None:
    rule = Duplicates(key=("user",), keep=keep, order="rank")
    assert kept([("a", 1, None, True), ("a", 1, 2, False)], rule) == [("a", 1, 2, False)]


def test_rows_that_lack_the_whole_key_are_no_repeats_and_those_that_lack_a_part_may_be() -> None:
    rule = Duplicates(key=("user", "n"), keep="first", order="rank")
    assert len(kept([(None, None, 1, True), (None, None, 1, True)], rule)) == 2
    assert kept([("a", None, 2, True), ("a", None, 1, True)], rule) == [("a", None, 1, True)]


def test_a26_a_second_delivery_with_one_more_row_adds_one_row(
    lake: Lake, shop: Callable[..., Any], rows: Callable[..., Any], deliver: Callable[..., None]
) -> None:
    inputs = Path(__file__).parents[3] / "../shared/cases/inputs"
    if inputs.is_dir():
        first, second = (
            list(csv.DictReader((inputs / f"dup_delivery_{name}.csv").read_text().splitlines())) for name in "ab"
        )
    else:
        second = [
            {"event_id": str(i), "user_id": str(i % 3), "item_id": "6", "event_time": f"2025-03-01T00:00:0{i}Z"}
            for i in range(7)
        ]
        first = second[:6]
    assert (len(first), len(second)) == (6, 7)
    day = date(2025, 3, 1)
    dataset = shop(
        days={"first": day},
        columns={"event_id": {"type": "id"}},
        duplicates={"key": ["event_id"], "keep": "first", "order": "event_time"},
    )

    def delivered(found: list[dict[str, str]]) -> list[dict[str, Any]]:
        names = {"event_id": "event_id", "user_id": "user", "item_id": "item", "event_time": "event_time"}
        return [{names[name]: value for name, value in row.items() if name in names} for row in found]

    deliver(dataset, {day: rows(dataset, delivered(first) + delivered(second))})
    made = cut.build(dataset, lake, day).manifest
    assert (made.counts["good"], made.counts["duplicates"], made.rows_out) == (13, 6, 7)
    assert not cut.build(dataset, lake, day).built
