from collections.abc import Iterator
from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from resources.contract.days import day_bounds_us, days_between
from resources.demo.shop import FIRST_DAY, events
from resources.demo.truth import ZONE

SCALE = 0.05


@pytest.fixture(scope="module")
def days() -> dict[date, pa.Table]:
    return {day: events(day, scale=SCALE) for day in days_between(FIRST_DAY, FIRST_DAY + timedelta(days=7))}


def newcomers(days: dict[date, pa.Table], column: str) -> Iterator[int]:
    known: set[str] = set()
    for table in days.values():
        today = set(pc.unique(table[column].drop_null()).to_pylist())
        yield len(today - known)
        known |= today


def test_a_day_depends_on_nothing_but_its_date_seed_and_scale(days: dict[date, pa.Table]) -> None:
    day = FIRST_DAY + timedelta(days=3)
    assert events(day, scale=SCALE).equals(days[day])
    assert not events(day, scale=SCALE, seed=1)["clicked"].equals(days[day]["clicked"])


def test_new_users_and_items_come_every_day(days: dict[date, pa.Table]) -> None:
    assert all(count >= 10 for count in newcomers(days, "user"))
    assert all(count >= 1 for count in newcomers(days, "item"))


def test_a_new_user_was_not_there_on_any_day_before(days: dict[date, pa.Table]) -> None:
    """Joined on the last day means unseen by all the days before, however long they are looked at."""
    last = max(days)
    before = {user for day, table in days.items() if day < last for user in table["user"].to_pylist()}
    tomorrow = events(last + timedelta(days=1), scale=SCALE)["user"].to_pylist()
    assert len({user for user in tomorrow if user not in before}) > 10


def test_users_and_items_are_heavy_tailed() -> None:
    table = events(FIRST_DAY)
    for column in ("user", "item"):
        counts = np.sort(pc.value_counts(table[column].drop_null()).field("counts").to_numpy())[::-1]
        assert counts[: len(counts) // 100].sum() > 8 * counts.sum() / 100
        assert counts[0] < 0.05 * counts.sum()
        assert np.median(counts) <= 3


def test_users_keep_their_country_and_items_their_category_and_brand(days: dict[date, pa.Table]) -> None:
    rows = pa.concat_tables(days.values())
    for key, value in (("user", "country"), ("item", "category"), ("item", "brand")):
        pairs = rows.select([key, value]).drop_null().group_by([key, value]).aggregate([])
        assert pairs.num_rows == pc.count_distinct(pairs[key]).as_py()


def test_ids_are_distinct_texts_with_leading_zeros(days: dict[date, pa.Table]) -> None:
    items = pc.unique(pa.concat_tables(days.values())["item"])
    assert pc.all(pc.match_substring_regex(items, "^[0-9]{6}$")).as_py()
    assert pc.any(pc.starts_with(items, "0")).as_py()


def test_impressions_are_numbered_once_over_all_days(days: dict[date, pa.Table]) -> None:
    impressions = pa.concat_tables(days.values())["impression"]
    assert pc.count_distinct(impressions).as_py() == len(impressions)


def test_some_values_are_missing_and_the_others_are_not(days: dict[date, pa.Table]) -> None:
    rows = pa.concat_tables(days.values())
    shares = {name: rows[name].null_count / rows.num_rows for name in rows.column_names}
    assert {name for name, share in shares.items() if share} == {
        *("user", "category", "brand", "device", "country", "price")
    }
    assert all(share < 0.05 for share in shares.values())


@pytest.mark.parametrize("day", [FIRST_DAY, date(2026, 3, 29), date(2026, 10, 25)], ids=str)
def test_all_that_happens_on_a_day_happens_within_it_in_order(day: date) -> None:
    instants = events(day, scale=SCALE)["event_time"].cast(pa.int64()).to_pylist()
    start, end = day_bounds_us(day, ZONE)
    assert start <= instants[0] < start + (end - start) / 20 and start + 0.95 * (end - start) < instants[-1] < end
    assert all(one <= other for one, other in pairwise(instants))


@pytest.mark.parametrize("scale", [300 / 36_000, 2_000 / 36_000, 1.0])
def test_a_scale_is_a_number_of_rows(scale: float) -> None:
    assert events(FIRST_DAY, scale=scale).num_rows == pytest.approx(36_000 * scale, rel=0.12)


def test_nothing_happened_before_the_shop_opened() -> None:
    with pytest.raises(ValueError, match="2025-12-31"):
        events(FIRST_DAY - timedelta(days=1))
