"""Texts are instants exactly, by the contract's format and zone alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.ingestion.reasons import Reason
from assets.ingestion.times import instants
from resources.contract.days import instant_us
from resources.contract.errors import ConfigError
from resources.contract.source import Time

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room


def read(text: str | None, **time: Any) -> Any:
    """The instant of one text as an ISO text in UTC (with `~` before it where it is ambiguous), or its Reason."""
    found = instants(pa.array([text], pa.string()), Time(column="t", **time))
    if found.reasons[0] != Reason.FINE:
        assert found.times_us[0] == 0
        return Reason(int(found.reasons[0]))
    moment = datetime(1970, 1, 1) + timedelta(microseconds=int(found.times_us[0]))
    return ("~" if found.ambiguous[0] else "") + moment.isoformat()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2025-03-01T00:00:00Z", "2025-03-01T00:00:00"),
        ("2025-03-01 10:20:30Z", "2025-03-01T10:20:30"),
        ("2025-03-01T10:20Z", "2025-03-01T10:20:00"),
        ("2025-03-01T10:20:30.5Z", "2025-03-01T10:20:30.500000"),
        ("2025-03-01T10:20:30.123456Z", "2025-03-01T10:20:30.123456"),
        ("2025-03-01T10:20:30.123456000Z", "2025-03-01T10:20:30.123456"),
        ("2025-03-01T10:20:30.123456001Z", Reason.NOT_EXACT),
        ("2025-03-01T00:00:00+01:00", "2025-02-28T23:00:00"),
        ("2025-03-01T00:00:00-0530", "2025-03-01T05:30:00"),
        ("2025-03-01T00:00:00+14", "2025-02-28T10:00:00"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00"),
        ("2025-02-29T00:00:00Z", Reason.UNREADABLE_TIME),
        ("2025-04-31T00:00:00Z", Reason.UNREADABLE_TIME),
        ("2025-13-01T00:00:00Z", Reason.UNREADABLE_TIME),
        ("2025-03-01T24:00:00Z", Reason.UNREADABLE_TIME),
        ("2025-03-01T23:60:00Z", Reason.UNREADABLE_TIME),
        ("2025-03-01T23:59:60Z", Reason.UNREADABLE_TIME),
        ("2025-03-01T00:00:00+24:00", Reason.UNREADABLE_TIME),
        ("2025-03-01", Reason.UNREADABLE_TIME),
        ("2025-3-1 1:2:3Z", Reason.UNREADABLE_TIME),
        (" 2025-03-01T00:00:00Z", Reason.UNREADABLE_TIME),
        ("2025-03-01T00:00:00Z\n", Reason.UNREADABLE_TIME),
        ("1740787200", Reason.UNREADABLE_TIME),
        ("version 1.1234567", Reason.UNREADABLE_TIME),
        ("infinity", Reason.UNREADABLE_TIME),
        ("epoch", Reason.UNREADABLE_TIME),
        (None, Reason.MISSING),
        ("2025-03-01T00:00:00", Reason.TIME_WITHOUT_ZONE),
    ],
)
def test_iso_8601_is_read_to_the_microsecond_or_not_at_all(text: str | None, expected: object) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2025-07-01 12:00:00", "Europe/Berlin", "2025-07-01T10:00:00"),
        ("2025-07-01 12:00:00Z", "Europe/Berlin", "2025-07-01T12:00:00"),  # an offset in the text comes first
        ("2025-03-30 01:59:59", "Europe/Berlin", "2025-03-30T00:59:59"),
        ("2025-03-30 02:00:00", "Europe/Berlin", Reason.NONEXISTENT_TIME),
        ("2025-03-30 02:59:59.999999", "Europe/Berlin", Reason.NONEXISTENT_TIME),
        ("2025-03-30 03:00:00", "Europe/Berlin", "2025-03-30T01:00:00"),
        ("2025-10-26 01:59:59", "Europe/Berlin", "2025-10-25T23:59:59"),
        ("2025-10-26 02:00:00", "Europe/Berlin", "~2025-10-26T00:00:00"),
        ("2025-10-26 02:59:59", "Europe/Berlin", "~2025-10-26T00:59:59"),
        ("2025-10-26 03:00:00", "Europe/Berlin", "2025-10-26T02:00:00"),
        ("2025-04-06 01:45:00", "Australia/Lord_Howe", "~2025-04-05T14:45:00"),  # half an hour is repeated
        ("2011-12-30 12:00:00", "Pacific/Apia", Reason.NONEXISTENT_TIME),  # a whole day is skipped
        ("0000-01-01 00:00:00", "Europe/Berlin", "0000"),
        ("9999-12-31 23:59:59", "America/New_York", "9999"),
    ],
)  # fmt: skip
def test_a_zone_less_time_is_read_by_the_declared_zone(text: str, zone: str, expected: object) -> None:
    if expected in ("0000", "9999"):  # beyond any calendar, but no crash
        found = instants(pa.array([text]), Time(column="t", zone=zone))
        assert found.reasons[0] == Reason.FINE and abs(found.times_us[0]) > 60_000_000_000_000_000
        return
    assert read(text, zone=zone) == expected


@settings(max_examples=150)
@given(
    wall=st.datetimes(datetime(1975, 1, 1), datetime(2036, 1, 1)),
    zone=st.sampled_from(["Europe/London", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca"]),
    clock_change=st.booleans(),
)  # fmt: skip
def test_zone_less_times_agree_with_the_calendar_of_python(wall: datetime, zone: str, clock_change: bool) -> None:
    if clock_change:  # near the hours in which clocks are changed, where a blind draw would never come
        wall = wall.replace(month=10 if wall.month > 6 else 3, day=max(wall.day, 25), hour=wall.hour % 4)
    earlier, later = (wall.replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC) for fold in (0, 1))
    found = instants(pa.array([wall.isoformat()]), Time(column="t", zone=zone))
    if earlier.astimezone(ZoneInfo(zone)).replace(tzinfo=None) != wall:
        assert found.reasons[0] == Reason.NONEXISTENT_TIME
        return
    assert found.reasons[0] == Reason.FINE and found.times_us[0] == instant_us(earlier)
    assert found.ambiguous[0] == (earlier != later)


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ("01/03/2025 10:11", "%d/%m/%Y %H:%M", "2025-03-01T10:11:00"),
        ("31/02/2025 10:11", "%d/%m/%Y %H:%M", Reason.UNREADABLE_TIME),
        ("2025-03-01 00:00:00", "%d/%m/%Y %H:%M", Reason.UNREADABLE_TIME),
        ("2025-03-01 00:00:00.12", "%Y-%m-%d %H:%M:%S.%f", "2025-03-01T00:00:00.120000"),
        ("2025-03-01 00:00:00.1234567", "%Y-%m-%d %H:%M:%S.%f", Reason.UNREADABLE_TIME),
        ("01/Mar/2025:10:11:12 +0100", "%d/%b/%Y:%H:%M:%S %z", "2025-03-01T09:11:12"),
        ("2025-03-01T10:11:12Z", "%Y-%m-%dT%H:%M:%S%z", "2025-03-01T10:11:12"),
        ("2025-03-01T10:11:12-05:30", "%Y-%m-%dT%H:%M:%S%z", "2025-03-01T15:41:12"),
        ("2025-03-01T10:11:12", "%Y-%m-%dT%H:%M:%S%z", Reason.UNREADABLE_TIME),
        ("20250301", "%Y%m%d", "2025-03-01T00:00:00"),
        ("infinity", "%Y%m%d", Reason.UNREADABLE_TIME),
        ("it's 2025-03-01", "it's %Y-%m-%d", "2025-03-01T00:00:00"),
    ],
)
def test_a_declared_format_is_followed(text: str, form: str, expected: object) -> None:
    assert read(text, format=form, zone="UTC") == expected


def test_a_format_that_cannot_be_is_a_fault_of_the_contract() -> None:
    with pytest.raises(ConfigError, match=r"time\.format '%Q'"):
        read("x", format="%Q", zone="UTC")


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("1740787200", "s", "2025-03-01T00:00:00"),
        ("1740787200.123456", "s", "2025-03-01T00:00:00.123456"),
        ("1740787200.1234560000", "s", "2025-03-01T00:00:00.123456"),
        ("1740787200.1234567", "s", Reason.UNREADABLE_TIME),
        ("-1", "s", "1969-12-31T23:59:59"),
        ("-0.5", "s", "1969-12-31T23:59:59.500000"),
        ("1740787200123", "ms", "2025-03-01T00:00:00.123000"),
        ("1740787200123.5", "ms", Reason.UNREADABLE_TIME),
        ("1740787200123456", "us", "2025-03-01T00:00:00.123456"),
        ("1740787200123456000", "ns", "2025-03-01T00:00:00.123456"),
        ("1740787200123456789", "ns", Reason.NOT_EXACT),
        ("1740787200000000000", "s", Reason.IMPLAUSIBLE_TIME),
        ("9999999999999999999", "us", Reason.IMPLAUSIBLE_TIME),
        ("-9999999999999999999", "ms", Reason.IMPLAUSIBLE_TIME),
        ("1.7407872e9", "s", Reason.UNREADABLE_TIME),
        ("+1740787200", "s", Reason.UNREADABLE_TIME),
        ("2025-03-01T00:00:00Z", "s", Reason.UNREADABLE_TIME),
        ("", "s", Reason.UNREADABLE_TIME),
        (None, "s", Reason.MISSING),
    ],
)
def test_an_epoch_is_counted_exactly_in_its_unit(text: str | None, unit: str, expected: object) -> None:
    assert read(text, epoch=unit) == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.none()), st.integers(0, 3))
def test_whole_columns_of_epochs_are_exact(values: list[int | None], cut: int) -> None:
    column = pa.array([None if v is None else str(v) for v in values], pa.string()).slice(cut)
    found = instants(column, Time(column="t", epoch="us"))
    assert found.times_us.tolist() == [v or 0 for v in values[cut:]]


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ("format: yyyy-MM-dd, zone: UTC", "strptime's % letters, such as '%Y-%m-%d %H:%M:%S', got 'yyyy-MM-dd'"),
        ("format: '%Y-%m-%d'", "name the `zone`"),
    ],
)
def test_a_format_that_reads_no_row_is_refused_with_the_contract(room: Room, time: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"shop.yaml: time: .*{message}"):
        room.dataset(time=f"column: event_time, {time}")
    room.dataset(time="column: event_time, format: '%Y-%m-%d %H:%M:%S %z'")
