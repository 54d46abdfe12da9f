from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.contract.days import (
    HOUR_US,
    day_bounds_us,
    day_of,
    days_between,
    days_of,
    horizon_day,
    instant_us,
)

# half-hour clock changes, a midnight that does not exist, a day that was left out, no changes at all
ZONES = ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kolkata"]


def us(text: str) -> int:
    return instant_us(datetime.fromisoformat(text))


@pytest.mark.parametrize(
    ("zone", "day", "start", "hours"),
    [
        ("UTC", date(2025, 3, 30), "2025-03-30T00:00+00:00", 24),
        ("Europe/Berlin", date(2025, 3, 30), "2025-03-29T23:00+00:00", 23),
        ("Europe/Berlin", date(2025, 10, 26), "2025-10-25T22:00+00:00", 25),
        ("Asia/Shanghai", date(2025, 3, 5), "2025-03-04T16:00+00:00", 24),
        ("Australia/Lord_Howe", date(2025, 4, 6), "2025-04-05T13:00+00:00", 24.5),
        ("America/Sao_Paulo", date(2018, 11, 4), "2018-11-04T03:00+00:00", 23),
        ("Pacific/Apia", date(2011, 12, 30), "2011-12-30T10:00+00:00", 0),
    ],
)
def test_a_day_lasts_from_local_midnight_to_the_next(zone: str, day: date, start: str, hours: float) -> None:
    first, end = day_bounds_us(day, zone)
    assert first == us(start)
    assert end - first == hours * HOUR_US


@pytest.mark.parametrize(
    ("instant", "berlin"),
    [
        ("2025-03-29T22:59:59Z", date(2025, 3, 29)),
        ("2025-03-29T23:00:00Z", date(2025, 3, 30)),
        ("2025-03-30T21:59:59Z", date(2025, 3, 30)),
        ("2025-03-30T22:00:00Z", date(2025, 3, 31)),
        ("2025-10-25T21:59:59Z", date(2025, 10, 25)),
        ("2025-10-25T22:00:00Z", date(2025, 10, 26)),
        ("2025-10-26T22:59:59Z", date(2025, 10, 26)),
        ("2025-10-26T23:00:00Z", date(2025, 10, 27)),
    ],
)
def test_a21_instants_fall_on_the_days_of_the_zone_not_of_the_machine(instant: str, berlin: date) -> None:
    assert day_of(us(instant), "Europe/Berlin") == berlin
    assert days_of(np.array([us(instant)]), "Europe/Berlin").tolist() == [berlin]


@given(
    st.sampled_from(ZONES),
    st.lists(st.integers(us("2011-12-25T00:00+00:00"), us("2026-01-01T00:00+00:00")), max_size=20),
)
def test_many_instants_fall_where_each_of_them_falls(zone: str, instants: list[int]) -> None:
    assert days_of(np.array(instants, np.int64), zone).tolist() == [day_of(instant, zone) for instant in instants]


@given(st.sampled_from(ZONES), st.dates(date(2011, 12, 1), date(2030, 1, 1)))
def test_the_first_and_last_instant_of_a_day_are_on_it_and_their_neighbours_are_not(zone: str, day: date) -> None:
    start, end = day_bounds_us(day, zone)
    if start < end:
        assert day_of(start, zone) == day_of(end - 1, zone) == day
        assert day_of(start - 1, zone) < day < day_of(end, zone)


@pytest.mark.parametrize(
    ("zone", "day", "hours", "last"),
    [
        ("UTC", date(2026, 1, 1), 0, date(2026, 1, 1)),
        ("UTC", date(2026, 1, 1), 0.5, date(2026, 1, 2)),
        ("UTC", date(2026, 1, 1), 24, date(2026, 1, 2)),
        ("UTC", date(2026, 1, 1), 24.0001, date(2026, 1, 3)),
        ("Europe/London", date(2011, 12, 2), 168, date(2011, 12, 9)),
        # the day after loses an hour: 24 real hours reach into a third day
        ("Europe/Berlin", date(2025, 3, 29), 24, date(2025, 3, 31)),
        ("Europe/Berlin", date(2025, 3, 28), 24, date(2025, 3, 29)),
        # the day after has 25 hours: 25 real hours stay on it
        ("Europe/Berlin", date(2025, 10, 25), 25, date(2025, 10, 26)),
        ("Europe/Berlin", date(2025, 10, 25), 25.1, date(2025, 10, 27)),
        ("Europe/Berlin", date(2025, 10, 24), 25, date(2025, 10, 26)),
    ],
)
def test_a_horizon_is_counted_in_real_hours_over_both_clock_changes(
    zone: str, day: date, hours: float, last: date
) -> None:
    assert horizon_day(day, zone=zone, within_hours=hours) == last


@given(st.sampled_from(ZONES), st.dates(date(2012, 1, 1), date(2030, 1, 1)), st.integers(0, 200))
def test_nothing_within_the_hours_happens_after_the_horizon(zone: str, day: date, hours: int) -> None:
    last = horizon_day(day, zone=zone, within_hours=hours)
    latest_cause = day_bounds_us(day, zone)[1] - 1
    assert day_bounds_us(last, zone)[0] <= latest_cause + hours * HOUR_US < day_bounds_us(last, zone)[1]


def test_an_instant_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="aware"):
        instant_us(datetime(2026, 1, 1))


def test_microseconds_are_exact_where_a_float_would_round() -> None:
    assert instant_us(datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC)) % 1_000_000 == 1
    assert instant_us(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == 253402300799999999


def test_implausible_spans_are_refused_before_they_cost_memory() -> None:
    with pytest.raises(ValueError, match="implausible"):
        days_of(np.array([us("0001-01-01T12:00+00:00"), us("3000-01-01T00:00+00:00")]), "UTC")


def test_days_between_holds_both_ends_and_nothing_backwards() -> None:
    first = date(2026, 2, 27)
    assert list(days_between(first, date(2026, 3, 1))) == [first, date(2026, 2, 28), date(2026, 3, 1)]
    assert list(days_between(first, first - timedelta(days=1))) == []
