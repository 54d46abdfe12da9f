"""The traps that broke others, with their exact values: on data made here, and on the given inputs where they are."""

from __future__ import annotations

import gzip
import resource
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from assets.ingestion.parts import PART_BYTES

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

    Case = Callable[[str, bytes | str], bytes]

HEAD = "event_id,user_id,item_id,event_time,event_type,price\n"


def test_a1_a_decimal_that_comes_late_in_the_file_stays_exact(room: Room, case: Case) -> None:
    rows = [f"{i},{1000 + i % 50},{500 + i % 20},2025-03-01T00:00:{i % 60:02}Z,view,{i % 7}\n" for i in range(21_000)]
    own = gzip.compress((HEAD + "".join(rows) + "21000,1001,500,2025-03-01T01:00:00Z,purchase,12.75\n").encode())
    dataset = room.dataset()
    manifest = room.delivered(dataset, case("late_decimal_price.csv.gz", own), name="2025-03-01.csv.gz")
    good = room.good(dataset, manifest)
    by_id = dict(zip(good["event_id"].to_pylist(), good["price"].to_pylist(), strict=True))
    assert len(by_id) == 21_001 and by_id["21000"] == Decimal("12.75")
    assert pc.sum(good["price"]).as_py() == Decimal("63012.75")


def test_a3_leading_zeros_keep_two_users_and_two_items_apart(room: Room, case: Case) -> None:
    own = HEAD + "1,00042,007,2025-03-01T00:00:00Z,view,1.0\n2,42,7,2025-03-01T00:00:01Z,view,1.0\n"
    dataset = room.dataset()
    good = room.good(dataset, room.delivered(dataset, case("ids_leading_zero.csv", own)))
    assert good["user"].to_pylist() == ["00042", "42"]
    assert good["item"].to_pylist() == ["007", "7"]


@pytest.mark.parametrize(
    ("kind", "value", "less"),
    [("id", "9007199254740993", "9007199254740992"), ("integer", 9007199254740993, 9007199254740992)],
)
def test_a5_a_large_integer_beside_a_null_stays_exact(
    room: Room, case: Case, kind: str, value: object, less: object
) -> None:
    own = HEAD + (
        "1,9007199254740993,1,2025-03-01T00:00:00Z,view,1.0\n2,9007199254740992,1,2025-03-01T00:00:01Z,view,1.0\n"
        "3,,1,2025-03-01T00:00:02Z,view,1.0\n"
    )
    columns = f"{{user_id: {{as: number, type: {kind}, required: false}}, event_id: {{as: user, type: id}}}}"
    dataset = room.dataset(columns)
    good = room.good(dataset, room.delivered(dataset, case("ids_big.csv", own)))
    assert good["number"].to_pylist() == [value, less, None]


@pytest.mark.parametrize("kind", ["id", "integer"])
def test_a5_a_large_integer_beside_a_null_stays_exact_in_parquet(room: Room, kind: str) -> None:
    table = pa.table(
        {
            "u": ["1", "2"],
            "n": pa.array([9007199254740993, None], pa.int64()),
            "event_time": pa.array([datetime(2025, 3, 1, tzinfo=UTC)] * 2),
        }
    )
    columns = f"{{u: {{as: user, type: id}}, n: {{type: {kind}, required: false}}}}"
    dataset = room.dataset(columns, source="format: parquet")
    good = room.good(dataset, room.delivered(dataset, table))
    assert [None if n is None else int(n) for n in good["n"].to_pylist()] == [9007199254740993, None]


def of_1970(room: Room, content: bytes, column: str, *, source: str = "format: csv") -> tuple[list, list[dict]]:
    """A column's good values and the quarantine of a case without times: its event ids 1, 2, 3 count seconds from 1970."""
    columns = f"{{user_id: {{as: user, type: id}}, {column}: {{as: value, type: category}}}}"
    if column == "user_id":
        columns = "{user_id: {as: value, type: id}}"
    dataset = room.dataset(
        columns,
        source=source,
        time="column: event_id, epoch: s",
        days="zone: UTC, first: 1970-01-01",
        user="value" if column == "user_id" else "user",
    )
    manifest = room.delivered(dataset, content, name="1970-01-01.csv")
    return room.good(dataset, manifest)["value"].to_pylist(), room.quarantine(manifest)


def test_a7_the_country_no_is_no_boolean(room: Room, case: Case) -> None:
    own = "event_id,user_id,country\n1,u1,NO\n2,u2,no\n3,u3,NO\n"
    assert of_1970(room, case("ids_bool_words.csv", own), "country") == (["NO", "no", "NO"], [])


def test_a7_ids_that_spell_true_and_false_stay_text(room: Room, case: Case) -> None:
    own = "event_id,user_id\n1,true\n2,false\n3,TRUE\n"
    assert of_1970(room, case("ids_true_false.csv", own), "user_id") == (["true", "false", "TRUE"], [])


def test_a12_ragged_rows_are_quarantined_with_their_line_and_text(room: Room, case: Case) -> None:
    own = "event_id,user_id,event_type\n1,5,view\n2,6\n3,7,view,extra\n4,8,view\n"
    good, quarantined = of_1970(room, case("ragged.csv", own), "event_type")
    assert good == ["view", "view"]
    assert [(row["line"], row["reason"], row["raw"]) for row in quarantined] == [
        (3, "ragged", "2,6"),
        (4, "ragged", "3,7,view,extra"),
    ]


def refusal(room: Room, day: date) -> str:
    """Why a day whose only file cannot be read is refused."""
    manifest = room.lake.read("shop", "deliveries", day)
    assert manifest is not None and manifest.rows_in == 0 and manifest.blocked_by is not None
    return manifest.blocked_by


LATIN = "event_id,user_id,city\n1,5,Málaga\n2,6,Köln\n3,7,Paris\n".encode("latin-1")


def test_a12_latin1_is_read_when_declared(room: Room, case: Case) -> None:
    source = "format: csv, encoding: latin-1"
    assert of_1970(room, case("latin1.csv", LATIN), "city", source=source) == (["Málaga", "Köln", "Paris"], [])


def test_a12_latin1_is_refused_with_its_byte_when_not_declared(room: Room, case: Case) -> None:
    assert of_1970(room, case("latin1.csv", LATIN), "city") == ([], [])
    assert "1970-01-01.csv: byte 27 (0xe1) cannot be utf-8" in refusal(room, date(1970, 1, 1))


FULL = (
    HEAD + "".join(f"{i},{i % 99},{i % 9},2025-03-01T00:00:00Z,view,{i % 999 / 10}\n" for i in range(5000))
).encode()


@pytest.mark.parametrize(
    ("name", "own"),
    [("truncated.csv.gz", gzip.compress(FULL)[:-20_000]), ("truncated_footer.csv.gz", gzip.compress(FULL)[:-4])],
)
def test_a14_a_truncated_gzip_is_refused_by_name(room: Room, case: Case, name: str, own: bytes) -> None:
    room.delivered(room.dataset(), case(name, own), name="2025-03-01.csv.gz")
    assert "2025-03-01.csv.gz is damaged, cut short" in refusal(room, date(2025, 3, 1))


@pytest.mark.parametrize(
    ("name", "own", "rows"),
    [
        ("full.csv.gz", gzip.compress(FULL), 5000),
        ("trailing_zeros.csv.gz", gzip.compress(FULL) + bytes(64), 5000),
        (
            "two_members.csv.gz",
            gzip.compress((HEAD + "1,1,1,2025-03-01T00:00:00Z,view,1.0\n").encode())
            + gzip.compress(b"2,2,2,2025-03-01T00:00:00Z,view,2.0\n"),
            2,
        ),
    ],
)
def test_a14_members_and_zero_padding_are_read_whole(room: Room, case: Case, name: str, own: bytes, rows: int) -> None:
    manifest = room.delivered(room.dataset(), case(name, own), name="2025-03-01.csv.gz")
    assert manifest.counts["delivered"] == manifest.counts["good"] == rows


def test_a14_a_flipped_bit_in_a_gzip_checksum_is_refused(room: Room) -> None:
    packed = bytearray(gzip.compress(FULL))
    packed[-6] ^= 1
    room.delivered(room.dataset(), bytes(packed), name="2025-03-01.csv.gz")
    assert "CRC" in refusal(room, date(2025, 3, 1))


def test_a16_an_empty_file_is_delivered_empty_and_reported(room: Room, case: Case) -> None:
    manifest = room.delivered(room.dataset(), case("empty.csv", b""))
    assert manifest.rows_in == manifest.rows_out == 0 and manifest.files == ()
    assert manifest.facts["empty"] is True and manifest.facts["landed"]["2025-03-01.csv"]["rows"] == 0
    assert manifest.blocked_by is None


def test_a16_a_header_alone_is_a_day_of_no_rows_with_the_declared_schema(room: Room, case: Case) -> None:
    dataset = room.dataset()
    manifest = room.delivered(dataset, case("header_only.csv", HEAD))
    assert room.good(dataset, manifest).schema == dataset.row_schema and manifest.rows_in == 0
    [chunk] = room.chunks(dataset, case("header_only.csv", HEAD))
    categories = pa.dictionary(pa.int32(), pa.string())
    assert chunk.columns.num_rows == 0 and set(chunk.columns.schema.types) <= {pa.string(), categories}
    assert chunk.columns.schema.names == ["event_time", "event_id", "user_id", "item_id", "event_type", "price"]


def test_a18_a_byte_order_mark_is_no_part_of_the_first_name(room: Room, case: Case) -> None:
    own = "\ufeff" + HEAD + "1,5,6,2025-03-01T00:00:00Z,view,1.0\n"
    dataset = room.dataset()
    assert room.good(dataset, room.delivered(dataset, case("bom.csv", own)))["event_id"].to_pylist() == ["1"]


def test_a18_crlf_is_no_part_of_the_last_value(room: Room, case: Case) -> None:
    own = (HEAD + "1,5,6,2025-03-01T00:00:00Z,view,1.0\n2,5,6,2025-03-01T00:00:01Z,view,2.0\n").replace("\n", "\r\n")
    dataset = room.dataset()
    good = room.good(dataset, room.delivered(dataset, case("crlf.csv", own)))
    assert good["price"].to_pylist() == [Decimal("1.000000"), Decimal("2.000000")]


def test_a18_quoted_newlines_quotes_and_delimiters_are_part_of_the_value(room: Room, case: Case) -> None:
    own = 'event_id,user_id,query\n1,5,"red\nshoes"\n2,6,"a ""b"" c"\n3,7,"x,y"\n'
    assert of_1970(room, case("quoted_newline.csv", own), "query") == (["red\nshoes", 'a "b" c', "x,y"], [])


def test_a18_a_nul_byte_is_a_letter_like_any_other(room: Room, case: Case) -> None:
    own = b"event_id,user_id,query\n1,5,ab\0cd\n2,6,ok\n"
    assert of_1970(room, case("nul_byte.csv", own), "query") == (["ab\0cd", "ok"], [])


def test_a18_a_last_line_without_its_end_is_a_row(room: Room, case: Case) -> None:
    own = HEAD + "1,5,6,2025-03-01T00:00:00Z,view,1.0"
    dataset = room.dataset()
    assert room.delivered(dataset, case("no_final_newline.csv", own)).counts["good"] == 1


@pytest.mark.parametrize(("unit", "event"), [("s", "1"), ("ms", "2"), ("us", "3"), ("ns", "4")])
def test_a20_each_declared_unit_reads_its_own_row_and_quarantines_the_others(
    room: Room, case: Case, unit: str, event: str
) -> None:
    own = "event_id,user_id,ts\n1,5,1740787200\n2,5,1740787200000\n3,5,1740787200000000\n4,5,1740787200000000000\n"
    columns = "{event_id: {type: id}, user_id: {as: user, type: id}}"
    dataset = room.dataset(columns, time=f"column: ts, epoch: {unit}")
    manifest = room.delivered(dataset, case("epoch_mixed.csv", own))
    good = room.good(dataset, manifest)
    assert good["event_id"].to_pylist() == [event]
    assert good["event_time"].to_pylist() == [datetime(2025, 3, 1, tzinfo=UTC)]
    assert len(room.quarantine(manifest)) == 3 and manifest.counts["bad"] == 3
    assert {row["reason"] for row in room.quarantine(manifest)} <= {"implausible_time", "not_exact"}


DST = "event_id,user_id,event_time\n" + "".join(
    f"{i},5,{t}Z\n"
    for i, t in enumerate(
        [
            *("2025-03-29T22:59:59", "2025-03-29T23:00:00", "2025-03-30T21:59:59", "2025-03-30T22:00:00"),
            *("2025-10-25T21:59:59", "2025-10-25T22:00:00", "2025-10-26T22:59:59", "2025-10-26T23:00:00"),
        ],
        start=1,
    )
)


@pytest.mark.parametrize("machine", ["UTC", "Asia/Shanghai", "America/New_York"])
@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("UTC", {"03-29": [1, 2], "03-30": [3, 4], "10-25": [5, 6], "10-26": [7, 8]}),
        ("Europe/Berlin", {"03-29": [1], "03-30": [2, 3], "03-31": [4], "10-25": [5], "10-26": [6, 7], "10-27": [8]}),
    ],
)
def test_a21_event_days_follow_the_contract_not_the_machine(
    room: Room, case: Case, monkeypatch: pytest.MonkeyPatch, zone: str, expected: dict, machine: str
) -> None:
    monkeypatch.setenv("TZ", machine)
    time.tzset()
    try:
        columns = "{event_id: {type: id}, user_id: {as: user, type: id}}"
        dataset = room.dataset(columns, files="export.csv", days=f"zone: {zone}, first: 2025-03-01")
        room.land("export.csv", case("dst_berlin.csv", DST))
        found = {}
        for day in room.scan(dataset).days():
            manifest = room.build(dataset, day).manifest
            assert {entry.event_day for entry in manifest.files} == {day}
            found[f"{day:%m-%d}"] = [int(event) for event in room.good(dataset, manifest)["event_id"].to_pylist()]
        assert found == expected
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_a25_late_rows_reach_their_day_and_implausible_ones_are_quarantined(room: Room, case: Case) -> None:
    times = [
        "2025-03-01T10:00:00",
        "2025-02-24T10:00:00",
        "9999-12-31T23:59:59",
        "1970-01-01T00:00:00",
        "2262-04-12T00:00:00",
    ]
    own = HEAD + "".join(f"{i},5,6,{t}Z,view,1.0\n" for i, t in enumerate(times, start=1))
    dataset = room.dataset(days="zone: UTC, first: 2025-01-01, late: 7")
    manifest = room.delivered(dataset, case("far_future_late.csv", own))
    assert Counter({entry.event_day: entry.rows for entry in room.entries(manifest)}) == {
        date(2025, 3, 1): 1,
        date(2025, 2, 24): 1,
    }
    assert manifest.quarantined == {"implausible_time": 3}
    assert manifest.counts["delivered"] == 5
    assert [row["line"] for row in room.quarantine(manifest)] == [4, 5, 6]


def test_a26_a_second_delivery_with_one_more_row_gives_seven_events_and_is_idempotent(room: Room, case: Case) -> None:
    rows = [f"{i},{i % 3},6,2025-03-01T00:00:0{i}Z,view,1.0\n" for i in range(6)]
    a = HEAD + "".join(rows)
    b = a + "6,1,6,2025-03-01T00:00:06Z,purchase,5.0\n"
    dataset = room.dataset()
    room.land("2025-03-01_a.csv", case("dup_delivery_a.csv", a))
    assert room.build(dataset).manifest.counts["good"] == 6
    room.land("2025-03-01_b.csv", case("dup_delivery_b.csv", b))
    second = room.build(dataset)
    assert second.built and len(set(room.good(dataset, second.manifest)["event_id"].to_pylist())) == 7
    again = room.build(dataset)
    assert not again.built and again.manifest == second.manifest
    assert room.build(dataset, rebuild=True).manifest.content_digest == second.manifest.content_digest


@pytest.mark.parametrize(("kind", "infinite"), [("number", "not_finite"), ("decimal", "not_finite")])
def test_a27_nan_infinity_and_negative_prices_are_flagged(room: Room, case: Case, kind: str, infinite: str) -> None:
    own = HEAD + "".join(
        f"{i},5,6,2025-03-01T00:00:0{i - 1}Z,purchase,{price}\n"
        for i, price in enumerate(["NaN", "inf", "-9.99", "10"], 1)
    )
    columns = f"{{event_id: {{type: id}}, user_id: {{as: user, type: id}}, price: {{type: {kind}, at_least: 0}}}}"
    dataset = room.dataset(columns, bad=0.5)
    manifest = room.delivered(dataset, case("bad_numbers.csv", own))
    assert room.good(dataset, manifest)["price"].to_pylist() == [10]
    assert [(row["line"], row["column"], row["value"], row["reason"]) for row in room.quarantine(manifest)] == [
        (2, "price", "NaN", infinite),
        (3, "price", "inf", infinite),
        (4, "price", "-9.99", "out_of_bounds"),
    ]
    assert manifest.blocked_by is not None and "3 of 4 rows (75.00%)" in manifest.blocked_by


def test_a31_thousands_of_tiny_files_become_few_of_a_good_size_with_few_open(room: Room) -> None:
    dataset, num_files, num_rows = room.dataset(), 2_000, 20
    for number in range(num_files):
        rows = [f"{number * num_rows + i},u{i},i{i},2025-03-01T00:00:{i:02}Z,view,1.5\n" for i in range(num_rows)]
        room.land(f"2025-03-01-{number:05}.csv", HEAD + "".join(rows))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(opened.name) for opened in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 64, before[1]))
    try:
        manifest = room.build(dataset).manifest
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert manifest.counts["files"] == num_files
    assert sum(file.stat().st_size for file in room.landing.iterdir()) < PART_BYTES  # what a part is made of at most
    assert len(room.entries(manifest)) == 1
    assert sorted(map(int, room.good(dataset, manifest)["event_id"].to_pylist())) == list(range(num_files * num_rows))
