"""The state of a real small lake: which days exist, how they stand, and why one is stale."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path

import pytest
from toyshop import ToyShop, moment

from resources.contract.days import days_between
from resources.contract.manifest import DATA_ASSETS
from resources.lake import Lake
from sensors.decisions import Decision, new_data, stale_days
from sensors.state import State


def march(number: int) -> date:
    return date(2025, 3, number)


@pytest.fixture
def shop(tmp_path: Path) -> ToyShop:
    """Days 7 to 9 of March have landed, each in the first hour of the next day."""
    made = ToyShop(Lake(tmp_path / "lake"), tmp_path / "landing")
    for day in (7, 8, 9):
        lines = [f"{day:02}T{hour}:00,u{hour},buy" for hour in (10, 11)]
        made.land(str(march(day)), lines, at=moment(f"{day + 1:02}T00:30"))
    return made


def asked(decision: Decision) -> list[tuple[date, date]]:
    return [(request.first, request.last) for request in decision.requests]


def stale(state: State) -> dict[tuple[str, int], str]:
    """The reason of everything stale, by asset and day of March."""
    found = {(asset, day.day): state.of(asset, day).stale for asset in DATA_ASSETS for day in state.grid}
    return {key: behind.reason for key, behind in found.items() if behind}


def rows(shop: ToyShop, now: datetime) -> dict[str, dict]:
    return {row["day"][-2:]: row for row in shop.state(now).as_json()["days"]}


def test_f8_a_file_of_today_waits_until_its_day_is_over(shop: ToyShop) -> None:
    """Case F8: a file for 2025-03-10 is there at 09:00Z; the last day that can be asked for is 2025-03-09."""
    shop.build(days_between(march(7), march(9)), now=moment("10T09:00"))
    shop.land("2025-03-10", ["10T08:00,u1,buy"], at=moment("10T09:00"))
    for now in ("10T09:00", "10T23:59"):
        state = shop.state(moment(now))
        assert state.grid[-1] == march(9)
        assert asked(new_data(state, lambda _: 0)) == []
    after = shop.state(moment("11T00:00"))
    assert after.grid[-1] == march(10)
    assert asked(new_data(after, lambda _: 0)) == [(march(10), march(10))]


def test_a_day_without_a_file_is_left_open_and_then_delivered_empty(shop: ToyShop) -> None:
    shop.land("2025-03-11", ["11T09:00,u1,buy"], at=moment("11T10:00"))
    shop.build(days_between(march(7), march(9)), now=moment("10T02:00"))

    def state(now: str) -> State:
        return shop.state(moment(now))

    # the 10th closes when a file of the 11th has been there for six hours
    assert rows(shop, moment("11T15:59"))["10"]["shards"] == "open"
    assert asked(new_data(state("11T15:59"), lambda _: 0)) == []
    assert rows(shop, moment("11T16:00"))["10"]["shards"] == "missing"
    assert asked(new_data(state("11T16:00"), lambda _: 0)) == [(march(10), march(10))]
    shop.build([march(10)], now=moment("11T16:00"))
    row = rows(shop, moment("11T16:00"))["10"]
    assert (row["delivered"], row["good"], row["users"], row["features"]) == (0, 0, 0, "built")
    assert asked(new_data(state("11T16:00"), lambda _: 0)) == []


def test_a_late_file_makes_its_days_and_what_depends_on_them_stale_and_nothing_else(shop: ToyShop) -> None:
    days, now = list(days_between(march(7), march(9))), moment("10T09:00")
    shop.build(days, now=now)
    assert stale(shop.state(now)) == {}

    # it came on the 8th, and holds a row of the 8th; the 7th and the 9th keep their rows
    shop.land("2025-03-08_late", ["08T12:00,u12,buy"], at=now)
    assert stale(shop.state(now)) == {("deliveries", 8): "landed 2025-03-08_late.csv changed"}
    assert asked(new_data(shop.state(now), lambda _: 0)) == [(march(8), march(8))]

    shop.build(days, now=now, rooms=["deliveries"])
    assert stale(shop.state(now)) == {("shards", 8): "deliveries 2025-03-08 changed"}
    assert asked(stale_days(shop.state(now), lambda _: 0)) == [(march(8), march(8))]

    shop.build(days, now=now, rooms=["shards"])
    own = "shards 2025-03-08 changed"
    assert stale(shop.state(now)) == {("rollups", 8): own, ("features", 8): own, ("labels", 7): own, ("labels", 8): own}

    shop.build(days, now=now, rooms=["rollups"])
    history = "history: rollups 2025-03-08 changed"
    assert stale(shop.state(now))["features", 9] == history
    assert rows(shop, now)["09"]["stale"] == f"features: {history}"

    shop.build(days, now=now, rooms=["features", "labels"])
    assert stale(shop.state(now)) == {}
    assert rows(shop, now)["08"]["good"] == 3


def test_a_days_row_says_open_missing_immature_and_built(shop: ToyShop) -> None:
    def states(now: str, day: str) -> list[str]:
        row = rows(shop, moment(now))[day]
        return [row[asset] for asset in ("shards", "features", "labels", "model")]

    assert states("10T00:31", "09") == ["open"] * 4
    assert states("10T07:00", "08") == ["missing"] * 4
    shop.build([march(7)], now=moment("10T07:00"))
    assert states("10T07:00", "07") == ["built", "built", "immature", "immature"]
    shop.build([march(8), march(9)], now=moment("10T07:00"))
    shop.build([march(7), march(8)], now=moment("10T07:00"), rooms=["labels"])
    assert states("10T07:00", "07") == ["built", "built", "built", "missing"]
    # the 9th, on which the labels of the 8th are decided, stays open until its deadline
    assert states("10T23:59", "08") == ["built", "built", "immature", "immature"]
    assert states("11T00:00", "08") == ["built", "built", "built", "missing"]


def test_the_json_of_a_dataset_has_exactly_the_agreed_keys(shop: ToyShop) -> None:
    shop.build([march(7)], now=moment("10T07:00"))
    found = shop.state(moment("10T07:00")).as_json()
    assert list(found) == ["dataset", "champion", "left_out", "waiting", "days"]
    assert (found["dataset"], found["champion"], len(found["days"])) == ("shop", None, 3)
    wanted = (
        "day delivered quarantined unverifiable left_out waiting drift good duplicates late users without_user shards "
        "features labels model verdict stale"
    )
    for row in found["days"]:
        assert sorted(row) == sorted(wanted.split())
    built, missing = found["days"][:2]
    assert (built["delivered"], built["quarantined"], built["good"], built["users"], built["verdict"]) == (
        2,
        0,
        2,
        2,
        None,
    )
    assert {missing[key] for key in ("delivered", "quarantined", "good", "duplicates", "late", "users")} == {None}


def test_where_nothing_landed_there_is_no_day(tmp_path: Path) -> None:
    state = ToyShop(Lake(tmp_path / "lake"), tmp_path / "landing").state(moment("10T09:00"))
    assert (state.grid, state.as_json()["days"]) == ([], [])
    assert asked(new_data(state, lambda _: 0)) == asked(stale_days(state, lambda _: 0)) == []
