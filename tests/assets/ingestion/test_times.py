"""Texts are instants exactly, by the contract's format and zone alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.ingestion import times
from assets.ingestion.clocks import offsets
from assets.ingestion.epochs import Fits, credible_us, epoch_units
from assets.ingestion.reasons import Reason
from assets.ingestion.timeformat import program_of
from assets.ingestion.times import instants
from resources.contract.days import instant_us
from resources.contract.errors import ConfigError, DataError
from resources.contract.source import Time

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room


def read(text: str | pa.Array | None, **time: Any) -> Any:
    """The instant of one text as an ISO text in UTC (with `~` before it where it is ambiguous), or its Reason."""
    values = text if isinstance(text, pa.Array) else pa.array([text], pa.string())
    found = instants(values, Time(column="t", **time))
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
        ("1740787200123.5", "ms", "2025-03-01T00:00:00.123500"),
        ("1740787200123456", "us", "2025-03-01T00:00:00.123456"),
        ("1740787200123456000", "ns", "2025-03-01T00:00:00.123456"),
        ("1740787200123456789", "ns", Reason.NOT_EXACT),
        ("1740787200000000000", "s", Reason.IMPLAUSIBLE_TIME),
        ("9999999999999999999", "us", Reason.IMPLAUSIBLE_TIME),
        ("-9999999999999999999", "ms", Reason.IMPLAUSIBLE_TIME),
        ("1.7407872e9", "s", Reason.UNREADABLE_TIME),
        ("+1740787200", "s", "2025-03-01T00:00:00"),
        ("1740787200.0", "s", "2025-03-01T00:00:00"),
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


FORMATS = [
    None,
    "%Y-%m-%d %H:%M:%S",
    "%Y%m%d%H%M%S",
    "%d/%m/%Y %H:%M",
    "%d/%b/%Y:%H:%M:%S %z",
    "%B %d, %Y %I:%M %p",
    "%d.%m.%y %H:%M:%S.%f",
    "%Y-%m-%dT%H:%M:%S.%f%z",
    "am %d. %m. %Y um %H Uhr, 100%%",
    "%y%m%d",
]
PIECES = [
    "0",
    "1",
    "9",
    "12",
    "31",
    "60",
    "2024",
    "-",
    ":",
    "/",
    " ",
    ".",
    "T",
    "Z",
    "+",
    "é",
    "Feb",
    "may",
    "PM",
    "x",
    "",
]


def by_engine(texts: list[str], time: Time) -> list:
    """What DuckDB alone makes of the texts."""
    us, walls, reasons = times._of_engine(pa.array(texts, pa.string()), time)
    return [(int(u), bool(w)) if r == Reason.FINE else int(r) for u, w, r in zip(us, walls, reasons, strict=True)]


def by_loop(texts: list[str], time: Time) -> list:
    """What the loop makes of them; None where it leaves them to DuckDB."""
    from assets.ingestion.kernels import times as kernel
    from resources.contract.buffers import text_bytes

    us, codes = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.uint8)
    program = program_of(time.format)
    assert program is not None
    kernel.read_times(*text_bytes(pa.array(texts, pa.string())), program, us, codes)
    return [(int(u), c == kernel.WALL) if c != kernel.OTHER else None for u, c in zip(us, codes, strict=True)]


@settings(max_examples=300)
@given(st.sampled_from(FORMATS), st.data())
def test_what_the_loop_reads_is_what_duckdb_reads(form: str | None, data: st.DataObject) -> None:
    time = Time(column="t", format=form, zone="UTC" if form else None)
    moments = data.draw(
        st.lists(
            st.datetimes(
                datetime(1970 if form and "%y" in form else 1000, 1, 1),
                datetime(2068, 1, 1) if form and "%y" in form else datetime(9999, 12, 31),
            ),
            min_size=1,
            max_size=8,
        )
    )
    zones = [data.draw(st.sampled_from(["Z", "+01:00", "-0530", "+14"])) for _ in moments]
    right = [
        moment.isoformat(
            data.draw(st.sampled_from([" ", "T"])),
            data.draw(st.sampled_from(["minutes", "seconds", "milliseconds", "auto"])),
        )
        + zone
        if form is None
        else moment.strftime(form.replace("%Y", f"{moment.year:04d}")).removesuffix("Z").replace("%z", zone)
        + (zone if form.endswith("%z") else "")
        for moment, zone in zip(moments, zones, strict=True)
    ]
    assert all(found is not None for found in by_loop(right, time)), "the loop takes what is written in full"
    wrong = []
    for text in right:  # and the same with something else in some place
        at, length = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 3))
        wrong.append(text[:at] + data.draw(st.sampled_from(PIECES)) + text[at + length :])
    texts = [*right, *wrong]
    for text, loop, engine in zip(texts, by_loop(texts, time), by_engine(texts, time), strict=True):
        assert loop is None or loop == engine, text


@pytest.mark.parametrize(
    "form", ["%H:%M", "%Y-%m", "%Y-%m-%d %j", "%Y-%m-%d %I:%M", "%Y-%m-%d %H %p", "%z %Y-%m-%d", "%Y-%m-%d %f%H", " %Y-%m-%d", "%Y-%m-%d%", "%Y-%m-%d %Z", "%Y-%y-%m-%d"]
)  # fmt: skip
def test_a_format_that_the_loop_cannot_be_sure_of_is_left_to_duckdb(form: str) -> None:
    assert program_of(form) is None


@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [
        ({}, "2025-03-30 02:30:00", Reason.NONEXISTENT_TIME),
        ({"skipped": "shift"}, "2025-03-30 02:30:00", "2025-03-30T01:30:00"),  # 3:30 in summer
        ({"skipped": "shift"}, "2025-03-30 03:30:00", "2025-03-30T01:30:00"),
        ({"skipped": "shift", "zone": "Pacific/Apia"}, "2011-12-30 12:00:00", "2011-12-30T22:00:00"),  # a day later
        ({}, "2025-10-26 02:30:00", "~2025-10-26T00:30:00"),
        ({"repeated": "last"}, "2025-10-26 02:30:00", "~2025-10-26T01:30:00"),
        ({"repeated": "quarantine"}, "2025-10-26 02:30:00", Reason.AMBIGUOUS_TIME),
        ({"repeated": "quarantine"}, "2025-10-26 03:30:00", "2025-10-26T02:30:00"),
        ({"repeated": "quarantine", "skipped": "shift"}, "2025-10-26 02:30:00Z", "2025-10-26T02:30:00"),
    ],
)
def test_clock_changes_go_by_the_contract_s_rule(rule: dict, text: str, expected: object) -> None:
    assert read(text, **{"zone": "Europe/Berlin"} | rule) == expected
    time = Time.model_validate({"column": "t", "zone": "Europe/Berlin"} | rule)
    found = instants(pa.array([text, text]), time)
    assert found.skipped.tolist() == [text == "2025-03-30 02:30:00" or "2011" in text] * 2
    assert found.ambiguous.tolist() == [text == "2025-10-26 02:30:00"] * 2


@settings(max_examples=30)
@given(
    st.lists(st.datetimes(datetime(1900, 1, 1), datetime(2040, 1, 1)), min_size=1),
    st.sampled_from(["Europe/London", "America/New_York", "Australia/Lord_Howe", "Africa/Monrovia", "Pacific/Apia"]),
)
def test_many_wall_clock_times_at_once_have_the_offsets_of_each(walls: list[datetime], zone: str) -> None:
    walls += [
        wall.replace(month=10 if wall.month > 6 else 3, day=max(wall.day, 25), hour=wall.hour % 4) for wall in walls
    ]
    us = np.array([(wall - datetime(1970, 1, 1)) // timedelta(microseconds=1) for wall in walls])
    for fold, found in enumerate(offsets(us, zone)):
        each = [wall.replace(tzinfo=ZoneInfo(zone), fold=fold).utcoffset() for wall in walls]
        assert found.tolist() == [offset // timedelta(microseconds=1) for offset in each if offset is not None]


T = 1740787200


@pytest.mark.parametrize(
    ("kind", "value", "time", "expected"),
    [
        (pa.timestamp("s", "UTC"), T, {}, "2025-03-01T00:00:00"),
        (pa.timestamp("ms", "Asia/Tokyo"), T * 1000, {}, "2025-03-01T00:00:00"),
        (pa.timestamp("us", "UTC"), T * 10**6 + 1, {}, "2025-03-01T00:00:00.000001"),
        (pa.timestamp("ns", "UTC"), T * 10**9, {}, "2025-03-01T00:00:00"),
        (pa.timestamp("ns", "UTC"), T * 10**9 + 1, {}, Reason.NOT_EXACT),
        (pa.timestamp("ns", "UTC"), -1000, {}, "1969-12-31T23:59:59.999999"),
        (pa.timestamp("s", "UTC"), 2**62, {}, Reason.IMPLAUSIBLE_TIME),
        (pa.timestamp("us"), T * 10**6, {}, Reason.TIME_WITHOUT_ZONE),
        (pa.timestamp("us"), T * 10**6, {"zone": "Europe/Berlin"}, "2025-02-28T23:00:00"),
        (pa.timestamp("ms"), 1761445800000, {"zone": "Europe/Berlin"}, "~2025-10-26T00:30:00"),
        (pa.timestamp("us", "UTC"), None, {}, Reason.MISSING),
        (pa.int32(), T, {"epoch": "s"}, "2025-03-01T00:00:00"),
        (pa.int64(), T * 1000, {"epoch": "ms"}, "2025-03-01T00:00:00"),
        (pa.uint64(), 2**64 - 1, {"epoch": "us"}, Reason.IMPLAUSIBLE_TIME),
        (pa.uint64(), 2**64 - 1, {"epoch": "ns"}, Reason.IMPLAUSIBLE_TIME),
        (pa.int64(), None, {"epoch": "s"}, Reason.MISSING),
        (pa.float64(), float(T), {"epoch": "s"}, "2025-03-01T00:00:00"),
        (pa.float64(), T + 0.5, {"epoch": "s"}, "2025-03-01T00:00:00.500000"),
        (pa.float64(), float("nan"), {"epoch": "s"}, Reason.UNREADABLE_TIME),
        (pa.decimal128(20, 3), Decimal("1740787200.5"), {"epoch": "s"}, "2025-03-01T00:00:00.500000"),
        (pa.int64(), 20250301, {"format": "%Y%m%d", "zone": "UTC"}, "2025-03-01T00:00:00"),
        (pa.int64(), T, {}, Reason.UNREADABLE_TIME),
        (pa.date32(), 20148, {"format": "%Y-%m-%d", "zone": "UTC"}, "2025-03-01T00:00:00"),
        (pa.binary(), b"2025-03-01T00:00:00Z", {}, "2025-03-01T00:00:00"),
    ],
)
def test_a_column_that_is_typed_as_times_or_counts_says_them_itself(
    kind: pa.DataType, value: Any, time: dict, expected: object
) -> None:
    array = pa.array([value, None, value], kind)
    for stored in (array, pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), array)):
        found = instants(stored, Time(column="t", **time))
        assert found.reasons[1] == Reason.MISSING and found.reasons[0] == found.reasons[2]
    assert read(array.slice(2), **time) == expected


def test_one_unit_is_found_where_all_rows_agree_and_only_then(room: Room) -> None:
    days = room.dataset().days
    first_us, last_us = credible_us(days)

    def fits(values: list, kind: pa.DataType) -> Fits:
        return epoch_units(pa.array(values, kind), first_us=first_us, last_us=last_us)

    for power, unit in enumerate(["s", "ms", "us", "ns"]):
        count = T * 1000**power
        for values, kind in (
            ([count, None], pa.int64()),
            ([str(count), "x", None], pa.string()),
            ([float(count)], pa.float64()),
        ):
            assert fits(values, kind).units == {unit} and fits(values, kind).rows == 1
        assert (fits([count], pa.int64()) + fits([f"{count}.0"], pa.string())).units == {unit}
    mixed = fits([T, T * 1000], pa.int64()) + fits([T * 10**9], pa.int64())
    assert mixed.units == frozenset() and mixed.by_unit == {"s": 1, "ms": 1, "us": 0, "ns": 1}
    assert fits([0, T], pa.int64()).units == frozenset()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_an_epoch_of_any_unit_is_read_where_the_contract_leaves_it_to_the_file(room: Room, unit: str) -> None:
    count = T * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    dataset = room.dataset("{u: {as: user, type: id}}", time="column: ts, epoch: auto")
    manifest = room.delivered(dataset, f"u,ts\na,{count}\nb,{count}\nc,never\n")
    assert room.good(dataset, manifest)["event_time"].cast(pa.int64()).to_pylist() == [T * 10**6] * 2
    assert [row["reason"] for row in room.quarantine(manifest)] == ["unreadable_time"]


def test_a20_a_file_whose_rows_count_in_several_units_is_refused_with_those_that_were_found(room: Room) -> None:
    text = "u,ts\n" + "".join(f"{n},{T * 1000**n}\n" for n in range(4))
    dataset = room.dataset("{u: {as: user, type: id}}", time="column: ts, epoch: auto")
    with pytest.raises(DataError, match=r"of its 4 rows 1 in s, 1 in ms, 1 in us, 1 in ns"):
        room.chunks(dataset, text)
