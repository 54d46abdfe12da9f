"""Which files belong to which day, and until when a day may get more of them."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pytest

from assets.ingestion.landing import Landing
from resources.contract.errors import ConfigError, TransientError

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

D1, D2, D3 = date(2025, 3, 1), date(2025, 3, 2), date(2025, 3, 3)


def names(landing: Landing, day: date) -> list[str]:
    return [file.name for file in landing.files(day)]


def when(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("pattern", "landed", "expected"),
    [
        ("{day}.csv", ["2025-03-01.csv"], ["2025-03-01.csv"]),
        ("{day}*.csv.gz", ["2025-03-01_b.csv.gz", "2025-03-01_a.csv.gz", "2025-03-01.csv"], ["2025-03-01_a.csv.gz", "2025-03-01_b.csv.gz"]),
        ("{day}/*.jsonl", ["2025-03-01/a.jsonl", "2025-03-01/deep/b.jsonl"], ["2025-03-01/a.jsonl"]),
        ("day={day}/part-?.csv", ["day=2025-03-01/part-1.csv", "day=2025-03-01/part-12.csv"], ["day=2025-03-01/part-1.csv"]),
        ("{day}/{day}.csv", ["2025-03-01/2025-03-01.csv", "2025-03-01/2025-03-02.csv"], ["2025-03-01/2025-03-01.csv"]),
        ("{day}*", ["2025-03-01.csv.tmp", "2025-03-01.csv.part", "2025-03-01.csv"], ["2025-03-01.csv"]),
        ("*{day}.csv", [".2025-03-01.csv", ".hidden-2025-03-01.csv", "x2025-03-01.csv"], ["x2025-03-01.csv"]),
        ("{day}/*", ["2025-03-01/.a.csv", "2025-03-01/a.csv"], ["2025-03-01/a.csv"]),
        ("*/{day}.csv", ["x.tmp/2025-03-01.csv", "x/2025-03-01.csv"], ["x/2025-03-01.csv"]),
        ("{day}.csv", ["2025-03-01xcsv", "2025-3-01.csv", "2025-02-30.csv"], []),
        ("[x]{day}.csv", ["[x]2025-03-01.csv", "x2025-03-01.csv"], ["[x]2025-03-01.csv"]),
    ],
)  # fmt: skip
def test_a_pattern_finds_the_finished_files_of_a_day(
    room: Room, pattern: str, landed: list[str], expected: list[str]
) -> None:
    for name in landed:
        room.land(name, "x")
    landing = room.scan(room.dataset(files=pattern))
    assert names(landing, D1) == expected
    assert landing.days() == ([D1] if expected else [])


def test_a_folder_that_is_not_there_holds_no_files(room: Room) -> None:
    assert room.scan(room.dataset(files="elsewhere/{day}.csv")).days() == []


def test_a_folder_with_the_name_of_a_file_is_no_file(room: Room) -> None:
    (room.landing / "2025-03-01.csv").mkdir()
    assert room.scan(room.dataset()).days() == []


def test_a_link_that_leads_to_itself_is_refused_by_name_and_the_others_go_on(room: Room) -> None:
    loop = room.landing / "2025-03-01.csv"
    loop.symlink_to(loop)
    room.land("2025-03-01_b.csv", "event_time,event_id,item_id,event_type\n2025-03-01T00:00:00Z,e,i,v\n")
    manifest = room.build(room.dataset()).manifest
    assert manifest.counts["good"] == 1 and manifest.counts["refused_files"] == 1
    assert "2025-03-01.csv cannot be read: Too many levels" in manifest.facts["landed"]["2025-03-01.csv"]["refused"]


def test_a_name_that_is_no_utf_8_is_told_by_its_bytes(room: Room) -> None:
    path = os.fsencode(room.landing) + b"/2025-03-01_caf\xe9.csv"
    with open(path, "wb") as stream:  # noqa: PTH123 (a name of bytes)
        stream.write(b"event_time,event_id,item_id,event_type\njunk,e,i,v\n")
    manifest = room.build(room.dataset()).manifest
    assert list(manifest.facts["landed"]) == ["2025-03-01_caf\\xe9.csv"]
    assert [row["file"] for row in room.quarantine(manifest)] == ["2025-03-01_caf\\xe9.csv"]


@pytest.mark.parametrize("files", ["landing/{day}.csv", "${LANDING}/{day}.csv", "ftp://host/{day}.csv"])
def test_a_pattern_that_depends_on_where_one_stands_is_refused(room: Room, files: str) -> None:
    dataset = room.dataset()
    dataset = dataset.model_copy(update={"source": dataset.source.model_copy(update={"files": files})})
    with pytest.raises(ConfigError, match=r"source\.files must be an absolute local path"):
        Landing.scan(dataset)


@pytest.mark.parametrize(
    ("landed", "now", "closed"),
    [
        ({}, "2025-03-02T23:59:59", False),  # the deadline is 24 hours after the day's end
        ({}, "2025-03-03T00:00:00", True),
        ({D1: "2025-03-01T01:00"}, "2025-03-02T12:00", False),  # its own file says nothing of its end
        ({D2: "2025-03-02T01:00"}, "2025-03-02T06:59:59", False),
        ({D2: "2025-03-02T01:00"}, "2025-03-02T07:00", True),  # 6 hours to settle
        ({D3: "2025-03-02T01:00"}, "2025-03-02T07:00", True),  # a day without a file does not hold up the others
        ({D2: "2025-03-02T05:00", D3: "2025-03-02T01:00"}, "2025-03-02T07:00", True),
        ({date(2025, 2, 28): "2025-02-28T01:00"}, "2025-03-02T12:00", False),
    ],
)
def test_a_day_closes_when_a_later_one_has_settled_or_its_deadline_has_passed(
    room: Room, landed: dict[date, str], now: str, closed: bool
) -> None:
    for day, at in landed.items():
        room.land(f"{day}.csv", "x", at=when(at))
    assert room.scan(room.dataset()).closed(D1, when(now)) is closed


def test_a_deadline_is_counted_from_the_end_of_the_day_in_its_zone(room: Room) -> None:
    dataset = room.dataset(days="zone: Europe/Berlin, first: 2025-03-01, deadline_hours: 1.5")
    assert room.scan(dataset).deadline(date(2025, 3, 30)) == when("2025-03-30T23:30")
    assert room.scan(dataset).deadline(D1) == when("2025-03-02T00:30")


def test_the_first_file_of_a_later_day_is_enough(room: Room) -> None:
    room.land("2025-03-02_a.csv", "x", at=when("2025-03-02T01:00"))
    room.land("2025-03-02_b.csv", "x", at=when("2025-03-02T05:00"))
    assert room.scan(room.dataset()).closed(D1, when("2025-03-02T07:00"))


def waiting(landing: Landing) -> list[str]:
    return [str(file) for file in landing.waiting]


@pytest.mark.parametrize(
    ("now", "taken"),
    [
        ("2025-03-01T00:59:59", True),  # written in the future: some clock is wrong, and nobody waits for it
        ("2025-03-01T01:00:00", False),
        ("2025-03-01T01:00:29.9", False),
        ("2025-03-01T01:00:30", True),
    ],
)
def test_a_file_is_taken_once_nobody_has_written_to_it_for_a_while(room: Room, now: str, taken: bool) -> None:
    dataset = room.dataset(settle=30)
    room.land("2025-03-01.csv", "x", at=when("2025-03-01T01:00"))
    landing = Landing.scan(dataset, now=when(now))
    assert names(landing, D1) == (["2025-03-01.csv"] if taken else [])
    assert landing.days() == [D1]  # a day whose file waits is a day
    why = "2025-03-01.csv, which was written to less than 30 s ago (source.settle_seconds)"
    assert waiting(landing) == ([] if taken else [why])
    if not taken:
        assert landing.waiting[0].until == when("2025-03-01T01:00:30")


def test_a_day_waits_until_all_its_files_are_whole(room: Room) -> None:
    dataset = room.dataset(settle=30)
    head = "event_id,user_id,item_id,event_time,event_type,price\n"
    room.land("2025-03-01_a.csv", f"{head}1,u,i,2025-03-01T10:00:00Z,view,1\n", at=when("2025-03-01T11:00"))
    room.land("2025-03-01_b.csv", f"{head}2,u,i,2025-03-01T10:00:00Z,vi", at=when("2025-03-01T12:00"))
    room.now = when("2025-03-01T12:00:10")
    with pytest.raises(TransientError, match=r"2025-03-01_b\.csv, which was written to less than 30 s ago"):
        room.build(dataset, D1)
    room.now = when("2025-03-01T12:00:30")
    assert room.build(dataset, D1).manifest.counts["files"] == 2
    # a file that is being landed again is not taken for gone meanwhile
    room.land("2025-03-01_b.csv", head, at=when("2025-03-01T13:00"))
    room.now = when("2025-03-01T13:00:01")
    with pytest.raises(TransientError, match="to be whole"):
        room.build(dataset, D1)


def test_an_export_that_is_still_written_holds_up_only_the_days_that_it_is_known_on(room: Room) -> None:
    dataset = room.dataset(files="*.csv", settle=30)
    head = "event_id,user_id,item_id,event_time,event_type,price\n"
    room.land("a.csv", f"{head}1,u,i,2025-03-01T10:00:00Z,view,1\n", at=when("2025-03-03T11:00"))
    room.land("b.csv", f"{head}2,u,i,2025-03-02T10:00:00Z,view,1\n", at=when("2025-03-03T11:00"))
    room.now = when("2025-03-03T12:00")
    room.build(dataset, D1)
    room.land("a.csv", head, at=when("2025-03-03T11:59:59"))
    assert room.build(dataset, D2).built
    with pytest.raises(TransientError, match=r"a\.csv, which was written to"):
        room.build(dataset, D1)


@pytest.mark.parametrize(
    ("ready", "files", "marks", "taken"),
    [
        ("{file}.done", "{day}*", [], []),
        ("{file}.done", "{day}*", ["2025-03-01_a.csv.done"], ["2025-03-01_a.csv"]),
        ("{file}.done", "{day}*", ["2025-03-01_a.csv.done", "2025-03-01_b.csv.done"], ["2025-03-01_a.csv", "2025-03-01_b.csv"]),
        ("$/marks/{file}.ok", "{day}*", ["marks/2025-03-01_b.csv.ok"], ["2025-03-01_b.csv"]),
        ("$/{day}/_SUCCESS", "*{day}*", [], []),
        ("$/{day}/_SUCCESS", "*{day}*", ["2025-03-01/_SUCCESS"], ["2025-03-01_a.csv", "2025-03-01_b.csv"]),
        ("$/{day}.ready", "{day}*", ["2025-03-01.ready"], ["2025-03-01_a.csv", "2025-03-01_b.csv"]),
    ],
)  # fmt: skip
def test_a_file_is_taken_once_it_is_marked_and_marks_are_no_data(
    room: Room, ready: str, files: str, marks: list[str], taken: list[str]
) -> None:
    ready = ready.replace("$", str(room.landing))
    dataset = room.dataset(files=files, source=f'format: csv, ready: "{ready}"')
    for name in ("2025-03-01_a.csv", "2025-03-01_b.csv", *marks):
        room.land(name, "")
    landing = room.scan(dataset)
    assert names(landing, D1) == taken
    assert len(landing.waiting) == 2 - len(taken)
    assert all("is not marked as whole by /" in why for why in waiting(landing))


def test_a_mark_that_depends_on_where_one_stands_is_refused(room: Room) -> None:
    with pytest.raises(ConfigError, match=r"source\.ready must be an absolute local path"):
        room.scan(room.dataset(source="format: csv, ready: 'marks/{file}.done'"))


def test_checksums_beside_files_are_no_data(room: Room) -> None:
    room.land("2025-03-01.csv", "x")
    for ending in ("md5", "sha256"):
        room.land(f"2025-03-01.csv.{ending}", "d41d8cd98f00b204e9800998ecf8427e")
    assert names(room.scan(room.dataset()), D1) == ["2025-03-01.csv"]
