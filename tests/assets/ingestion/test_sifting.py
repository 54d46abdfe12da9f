"""Every row ends in one place, and nothing personal can be read in quarantine."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.ingestion.chunk import Broken, Chunk
from assets.ingestion.reasons import Reason
from assets.ingestion.sifting import Span, out_of_days, sift
from resources.contract.days import day_bounds_us, day_start_us, instant_us
from resources.contract.errors import DataError

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

D = date(2025, 3, 20)
HEAD = "event_time,user_id,secret,n\n"
PRIVATE = "{user_id: {as: user, type: id, personal: true}, secret: {type: integer, personal: true}, n: {type: integer}}"


@pytest.mark.parametrize(
    ("day", "reason"),
    [
        (date(1970, 1, 1), Reason.IMPLAUSIBLE_TIME),
        (date(2015, 2, 20), Reason.IMPLAUSIBLE_TIME),
        (date(2025, 2, 28), Reason.BEFORE_FIRST_DAY),
        (date(2025, 3, 1), Reason.TOO_LATE),
        (date(2025, 3, 12), Reason.TOO_LATE),
        (date(2025, 3, 13), Reason.FINE),
        (date(2025, 3, 20), Reason.FINE),
        (date(2025, 3, 21), Reason.FINE),
        (date(2025, 3, 22), Reason.IMPLAUSIBLE_TIME),
        (date(9999, 12, 30), Reason.IMPLAUSIBLE_TIME),
    ],
)
def test_a_delivery_takes_the_days_before_as_late_as_allowed_and_the_next(
    room: Room, day: date, reason: Reason
) -> None:
    dataset = room.dataset(days="zone: Europe/Berlin, first: 2025-03-01, late: 7")
    start = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(hours=1)  # midnight in Berlin in winter
    times = np.array([instant_us(start), instant_us(start + timedelta(hours=24)) - 1])
    assert set(out_of_days(dataset, times, Span.of_delivery(dataset, D)).tolist()) == {reason}


@pytest.mark.parametrize(
    ("hours", "behind", "reason"),
    [(24, 24, Reason.FINE), (0, 0, Reason.FINE), (6, 6, Reason.FINE), (6, 5, Reason.FINE), (0.5, 0.5, Reason.FINE)],
)
def test_a_row_may_have_happened_so_many_hours_behind_its_delivery_day(
    room: Room, hours: float, behind: float, reason: Reason
) -> None:
    zone = "America/New_York"
    dataset = room.dataset(days=f"zone: {zone}, first: 2025-03-01, ahead_hours: {hours}")
    until = day_start_us(date(2025, 3, 21), zone) + round(behind * 3600e6)
    span = Span.of_delivery(dataset, D)
    assert out_of_days(dataset, np.array([until - 1]), span).tolist() == [reason]
    assert out_of_days(dataset, np.array([until]), span).tolist() == [
        Reason.IMPLAUSIBLE_TIME if behind == hours else Reason.FINE
    ]


@pytest.mark.parametrize(
    ("delivery", "day", "reason"),
    [
        (date(2025, 3, 20), date(2025, 3, 21), Reason.AFTER_LAST_DAY),
        (date(2025, 3, 20), date(2025, 3, 22), Reason.IMPLAUSIBLE_TIME),
        (date(2025, 3, 22), date(2025, 3, 20), Reason.FINE),
        (date(2025, 4, 20), date(2025, 3, 20), Reason.TOO_LATE),
        (date(2025, 4, 20), date(2025, 3, 30), Reason.TOO_LATE),
        (date(2025, 4, 20), date(2025, 4, 20), Reason.AFTER_LAST_DAY),
    ],
)
def test_after_the_last_day_only_late_rows_are_taken(room: Room, delivery: date, day: date, reason: Reason) -> None:
    dataset = room.dataset(days="zone: UTC, first: 2025-03-01, last: 2025-03-20")
    times = np.array([instant_us(datetime(day.year, day.month, day.day, tzinfo=UTC))])
    assert out_of_days(dataset, times, Span.of_delivery(dataset, delivery)).tolist() == [reason]


def test_quarantine_names_file_line_column_value_reason_and_raw_line(room: Room) -> None:
    dataset = room.dataset("{user_id: {as: user, type: id}, secret: {type: text}, n: {type: integer}}")
    content = (
        HEAD
        + '2025-03-01T00:00:00Z,u,"a\nb",1\nnever,u,"c\nd",x\nragged\n2025-03-01T00:00:00Z,u,s,"x, y"\n1970-01-01T00:00:00Z,u,s,x\n'
    )
    assert room.quarantine(room.delivered(dataset, content)) == [
        {
            "file": "2025-03-01.csv",
            "line": 4,
            "column": "event_time",
            "value": "never",
            "reason": "unreadable_time",
            "raw": 'never,u,"c\nd",x',
        },
        {"file": "2025-03-01.csv", "line": 6, "column": None, "value": None, "reason": "ragged", "raw": "ragged"},
        {
            "file": "2025-03-01.csv",
            "line": 7,
            "column": "n",
            "value": "x, y",
            "reason": "not_an_integer",
            "raw": '2025-03-01T00:00:00Z,u,s,"x, y"',
        },
        {
            "file": "2025-03-01.csv",
            "line": 8,
            "column": "event_time",
            "value": "1970-01-01T00:00:00Z",
            "reason": "implausible_time",
            "raw": "1970-01-01T00:00:00Z,u,s,x",
        },
    ]


@pytest.mark.parametrize("source", ["csv", "jsonl"])
def test_personal_values_are_shown_only_as_hashes(room: Room, source: str, caplog: pytest.LogCaptureFixture) -> None:
    lines = {
        "csv": [
            "event_time,user_id,secret,n,mail",
            "2025-03-01T00:00:00Z,Alice,Wonderland,1,Alice@x",
            "never,Alice,5,1,Alice@x",
            "2025-03-01T00:00:00Z,Alice",
            '2025-03-01T00:00:00Z,"Alice"x,5,1,Alice@x',
        ],
        "jsonl": [
            '{"event_time":"2025-03-01T00:00:00Z","user_id":"Alice","secret":"Wonderland","n":1,"mail":"Alice@x"}',
            '{"event_time":"never","user_id":"Alice","secret":5,"n":1}',
            '{"event_time":"2025-03-01T00:00:00Z","user_id":"Alice"',
            '{"user_id":["Alice"]}',
        ],
    }[source]
    dataset = room.dataset(PRIVATE, source=f"format: {source}", bad=0)
    with caplog.at_level(logging.DEBUG):
        manifest = room.delivered(dataset, "\n".join(lines))
    quarantined = room.quarantine(manifest)
    assert [row["reason"] for row in quarantined[:2]] == ["not_an_integer", "unreadable_time"]
    assert quarantined[0]["value"].startswith("sha256:") and quarantined[0]["raw"].count("sha256:") == 2
    assert quarantined[1]["value"] == "never"  # a time is no personal value
    assert [row["raw"] for row in quarantined[2:]] == [None, None]
    told = [str(quarantined), caplog.text, manifest.model_dump_json()]
    assert not any(word in text for text in told for word in ("Alice", "Wonderland"))
    assert "2025-03-01: 4 rows in, 0 out" in caplog.text


def test_a_file_without_its_header_does_not_show_its_first_row(room: Room) -> None:
    with pytest.raises(DataError, match="it has 2 others") as refused:
        room.chunks(room.dataset(PRIVATE), "2025-03-01T00:00:00Z,Alice\n")
    assert "Alice" not in str(refused.value)


def test_a_header_with_a_declared_name_shows_its_names_though_columns_are_personal(room: Room) -> None:
    with pytest.raises(DataError, match="it has 'event_time', 'customer', 'secret', 'n'"):
        room.chunks(room.dataset(PRIVATE), "event_time,customer,secret,n\n")


@settings(max_examples=60)
@given(
    rows=st.lists(
        st.tuples(st.integers(-40, 40), st.sampled_from(["u", "", "v"]), st.sampled_from(["1", "x", "9999", ""]))
    )
)
def test_every_row_ends_in_exactly_one_place(room: Room, rows: list[tuple[int, str, str]]) -> None:
    columns = "{u: {as: user, type: id}, n: {type: integer, at_most: 1000}, i: {type: integer}}"
    dataset = room.dataset(columns, days="zone: Europe/Berlin, first: 2025-03-01")
    noon = datetime(2025, 3, 20, 12, tzinfo=UTC)
    times = [(noon + timedelta(hours=6 * hours)).isoformat() if hours else "never" for hours, _, _ in rows]
    text = pa.table(
        {
            "event_time": pa.array(times, pa.string()),
            "u": pa.array([user or None for _, user, _ in rows], pa.string()),
            "n": pa.array([number or None for _, _, number in rows], pa.string()),
            "i": pa.array([str(at) for at in range(len(rows))], pa.string()),
        }
    )
    broken = (Broken(line=10**6, reason=Reason.RAGGED, raw="x"),)
    chunk = Chunk(columns=text, lines=np.arange(len(rows)) * 2, raw=str, broken=broken)
    found = sift(dataset, chunk, file="f", span=Span.of_delivery(dataset, D))
    good = [row["i"] for table in found.good.values() for row in table.to_pylist()]
    placed = {day: table["i"].to_pylist() for day, table in found.good.items()}
    assert placed == {day: where.tolist() for day, where in found.rows.items()}
    assert all(table.schema == dataset.row_schema for table in found.good.values())
    lines = found.quarantine["line"].to_pylist()
    assert lines == sorted(lines) and lines[-1] == 10**6
    assert sorted([*good, *(line // 2 for line in lines[:-1])]) == list(range(len(rows)))
    for day, table in found.good.items():
        start, end = day_bounds_us(day, dataset.days.zone)
        assert all(start <= instant < end for instant in table["event_time"].cast(pa.int64()).to_pylist())
    assert len(found.days) == found.quarantine.num_rows


def test_threads_sift_side_by_side_as_one_alone(room: Room) -> None:
    dataset = room.dataset("{u: {as: user, type: id}, n: {type: number}}")
    texts = [f"2025-03-01T0{n % 10}:00:00.{n:09d}Z" for n in range(500)]  # some are too fine, and left to DuckDB
    columns = pa.table({"event_time": texts, "u": texts, "n": [f"0.{n}{'1' * (n % 20)}" for n in range(500)]})
    chunk = Chunk(columns=columns, lines=np.arange(500), raw=str)

    def places(_: int) -> tuple:
        found = sift(dataset, chunk, file="f", span=Span.of_delivery(dataset, date(2025, 3, 1)))
        return {day: table.to_pylist() for day, table in found.good.items()}, found.quarantine.to_pylist()

    alone = places(0)
    assert alone[0] and {row["reason"] for row in alone[1]} == {"not_exact"}
    with ThreadPoolExecutor(4) as pool:
        assert all(found == alone for found in pool.map(places, range(12)))


def test_a_chunk_without_a_fault_is_given_on_as_it_is(room: Room) -> None:
    dataset = room.dataset("{u: {as: user, type: id}}")
    users = pa.array(["a", "b"])
    chunk = Chunk(
        columns=pa.table({"event_time": ["2025-03-01T00:00:00Z"] * 2, "u": users}), lines=np.arange(2), raw=str
    )
    found = sift(dataset, chunk, file="f", span=Span.of_delivery(dataset, date(2025, 3, 1)))
    [table] = found.good.values()
    assert table["user"].chunk(0).buffers()[2].address == users.buffers()[2].address
    assert found.quarantine.num_rows == 0


@pytest.mark.parametrize(
    ("rule", "repeated", "shifted", "reasons"),
    [
        ("", [2], [], ["nonexistent_time"]),
        (", skipped: shift, repeated: last", [2], [1], []),
        (", repeated: quarantine", [], [], ["nonexistent_time", "ambiguous_time"]),
    ],
)
def test_times_that_a_clock_change_repeats_or_leaves_out_are_counted(
    room: Room, rule: str, repeated: list[int], shifted: list[int], reasons: list[str]
) -> None:
    dataset = room.dataset(
        "{u: {as: user, type: id}}",
        time=f"column: t, zone: Europe/Berlin{rule}",
        days="zone: UTC, first: 2025-03-01, late: 60",
    )
    times = ["2025-10-26 12:00", "2025-03-30 02:30", "2025-10-26 02:30"]
    for column in (pa.array(times), pa.array([datetime.fromisoformat(text) for text in times])):
        chunk = Chunk(columns=pa.table({"t": column, "u": ["a", "b", "c"]}), lines=np.arange(3), raw=str)
        span = Span(oldest=date(2025, 3, 1), newest=date(2025, 10, 26), plausible=date(2025, 10, 27))
        found = sift(dataset, chunk, file="f", span=span)
        assert (found.repeated.tolist(), found.shifted.tolist()) == (repeated, shifted)
        assert found.quarantine["reason"].to_pylist() == reasons


def test_typed_values_are_shown_in_quarantine_as_the_texts_that_say_the_same(room: Room) -> None:
    dataset = room.dataset("{u: {as: user, type: id}, n: {type: integer}}", source="format: parquet")
    moments = pa.array([datetime(2025, 3, 1, 12, tzinfo=UTC)] * 2)
    columns = pa.table({"event_time": moments, "u": [5, 6], "n": [1.0, 2.5]})
    chunk = Chunk(columns=columns, lines=np.array([1, 2]), raw=lambda _: None)
    found = sift(dataset, chunk, file="f", span=Span.of_delivery(dataset, date(2025, 3, 1)))
    [row] = found.quarantine.to_pylist()
    assert (row["line"], row["column"], row["value"], row["reason"]) == (2, "n", "2.5", "not_an_integer")
    assert row["raw"] == '{"event_time": "2025-03-01 12:00:00.000000Z", "u": "6", "n": "2.5"}'
