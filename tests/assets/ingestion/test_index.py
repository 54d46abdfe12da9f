"""Exports whose path does not tell the day: each row is delivered on its own event day, and on no other."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import pytest

from assets.ingestion import blocks
from resources.contract.dataset import Dataset
from resources.contract.manifest import Check, Manifest

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

HEAD = "event_id,user_id,item_id,event_time,event_type,price\n"
D1, D2, D3 = date(2025, 3, 1), date(2025, 3, 2), date(2025, 3, 3)


def row(number: int, time: str, price: str = "1") -> str:
    return f"{number},u,i,{time},view,{price}\n"


def all_days(room: Room, dataset: Dataset) -> dict[date, Manifest]:
    return {day: room.build(dataset, day).manifest for day in room.scan(dataset).days()}


def test_each_row_is_delivered_once_on_its_own_event_day(room: Room) -> None:
    dataset = room.dataset(files="*.csv")
    room.land(
        "a.csv",
        HEAD
        + row(1, "2025-03-02T10:00:00Z")
        + row(2, "2025-03-03T10:00:00Z")
        + row(3, "2025-03-03T11:00:00Z", price="cheap")  # bad, but its day is known
        + row(4, "yesterday")
        + "5,ragged\n"
        + row(6, "9999-12-31T00:00:00Z")
        + row(7, "2025-02-27T00:00:00Z"),  # sound, before the first day
    )
    manifests = all_days(room, dataset)
    assert list(manifests) == [D2, D3]
    assert room.good(dataset, manifests[D2])["event_id"].to_pylist() == ["1"]
    assert room.good(dataset, manifests[D3])["event_id"].to_pylist() == ["2"]
    assert [row["line"] for row in room.quarantine(manifests[D3])] == [4]
    assert [(row["line"], row["reason"]) for row in room.quarantine(manifests[D2])] == [
        (5, "unreadable_time"),
        (6, "ragged"),
        (7, "implausible_time"),
        (8, "before_first_day"),
    ]
    assert sum(manifest.counts["delivered"] for manifest in manifests.values()) == 7
    assert manifests[D2].counts["bad"] == 3


def test_lateness_does_not_apply(room: Room) -> None:
    dataset = room.dataset(files="*.csv", days="zone: UTC, first: 2025-01-01, late: 0")
    room.land("a.csv", HEAD + row(1, "2025-01-05T10:00:00Z") + row(2, "2025-03-03T10:00:00Z"))
    assert {day: m.counts["good"] for day, m in all_days(room, dataset).items()} == {date(2025, 1, 5): 1, D3: 1}


def test_a_file_without_a_single_readable_time_belongs_to_the_first_day(room: Room) -> None:
    dataset = room.dataset(files="*.csv")
    room.land("a.csv", HEAD + row(1, "never"))
    room.land("b.csv", HEAD + "ragged\n")
    assert {day: m.quarantined for day, m in all_days(room, dataset).items()} == {
        D1: {"unreadable_time": 1, "ragged": 1}
    }


def test_rows_of_no_day_are_on_one_day_whichever_days_are_taken_next(room: Room) -> None:
    first = "zone: UTC, first: {}"
    room.land("a.csv", HEAD + row(1, "2025-03-01T10:00:00Z") + row(2, "2025-03-03T10:00:00Z") + row(3, "yesterday"))
    room.land("b.csv", HEAD + row(4, "yesterday"))
    rows = {
        day: {
            on.day: manifest.counts["delivered"]
            for on, manifest in all_days(room, room.dataset(files="*.csv", days=first.format(day))).items()
        }
        for day in (D1, D2, "2025-02-28")
    }
    assert rows == {D1: {1: 3, 3: 1}, D2: {2: 1, 3: 3}, "2025-02-28": {28: 1, 1: 2, 3: 1}}


def test_rows_after_the_last_day_are_not_taken_and_not_bad(room: Room) -> None:
    dataset = room.dataset(files="*.csv", days="zone: UTC, first: 2025-03-01, last: 2025-03-02")
    room.land("a.csv", HEAD + row(1, "2025-03-02T10:00:00Z") + row(2, "2025-03-03T10:00:00Z"))
    [(day, manifest)] = all_days(room, dataset).items()
    assert (day, manifest.quarantined, manifest.counts["bad"]) == (D2, {"after_last_day": 1}, 0)


def test_a_file_is_indexed_once(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = room.dataset(files="*.csv")
    room.land("a.csv", HEAD + row(1, "2025-03-02T10:00:00Z"))
    room.scan(dataset)
    kept = json.loads((room.lake.root / "shop" / "staged" / "index.json").read_text())
    assert list(kept["files"]) == ["a.csv"]
    calls = Counter()
    monkeypatch.setattr(blocks, "read", lambda _, file: calls.update([file.name]) or iter(()))
    room.land("b.csv", HEAD)
    room.scan(dataset)
    assert calls == {"b.csv": 1}
    room.scan(room.dataset(files="*.csv", days="zone: Asia/Tokyo, first: 2025-03-01"))  # other days: read again
    assert calls == {"b.csv": 2, "a.csv": 1}


def test_a_touched_export_is_not_read_again_and_its_rows_stay_on_their_days(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = room.dataset(files="*.csv")
    room.land("a.csv", HEAD + row(1, "2025-03-02T10:00:00Z") + row(2, "2026-08-01T00:00:00Z"))  # after tomorrow
    before = all_days(room, dataset)
    assert list(before) == [D2] and before[D2].quarantined == {"implausible_time": 1}
    room.now = datetime(2027, 1, 1, tzinfo=UTC)
    room.land("a.csv", (room.landing / "a.csv").read_bytes(), at=room.now)
    monkeypatch.setattr(blocks, "read", lambda *_: pytest.fail("read again"))
    assert room.scan(dataset).days() == [D2]
    assert not room.build(dataset, D2).built


def test_a_further_file_touches_only_the_days_that_it_names(room: Room) -> None:
    dataset = room.dataset(files="*.csv")
    room.land("a.csv", HEAD + row(1, "2025-03-01T10:00:00Z") + row(2, "2025-03-02T10:00:00Z"))
    before = all_days(room, dataset)
    room.land("b.csv", HEAD + row(3, "2025-03-02T11:00:00Z"))
    after = all_days(room, dataset)
    assert after[D1] == before[D1]
    assert after[D2].counts["good"] == 2


def test_an_export_that_comes_again_drops_the_rows_it_no_longer_has(room: Room) -> None:
    dataset = room.dataset(files="*.csv")
    room.land("a.csv", HEAD + row(1, "2025-03-01T10:00:00Z") + row(2, "2025-03-02T10:00:00Z"))
    all_days(room, dataset)
    room.land("a.csv", HEAD + row(1, "2025-03-01T10:00:00Z"))
    assert room.build(dataset, D2).manifest.rows_out == 0
    assert room.build(dataset, D1).manifest.rows_out == 1


def test_an_export_that_disappears_keeps_its_rows(room: Room) -> None:
    dataset = room.dataset(files="*.csv")
    path = room.land("a.csv", HEAD + row(1, "2025-03-01T10:00:00Z"))
    before = room.build(dataset, D1).manifest
    path.unlink()
    after = room.build(dataset, D1)
    assert not after.built and after.manifest.files == before.files


def test_an_export_that_comes_again_damaged_is_refused_where_its_rows_are_known(room: Room) -> None:
    dataset = room.dataset(files="*.csv")
    room.land("a.csv", HEAD + row(1, "2025-03-01T10:00:00Z"))
    room.land("b.csv", HEAD + row(2, "2025-03-02T10:00:00Z"))
    all_days(room, dataset)
    room.land("a.csv", b"\xff\xfe")
    assert room.scan(dataset).days() == [D2]  # and the other file goes on
    assert not room.build(dataset, D2).built
    refused = room.build(dataset, D1).manifest
    assert refused.blocked_by is not None and "a.csv: byte 0 (0xff)" in refused.blocked_by
    room.land("a.csv", HEAD + row(1, "2025-03-01T10:00:00Z"))
    assert room.build(dataset, D1).manifest.rows_out == 1


def judged(manifest: Manifest) -> Check:
    return next(check for check in manifest.checks if check.name == "bad_row_share")


def two_days(undated: int, dear: int = 0) -> str:
    """An export of ten rows of March 2nd, of which so many are bad, 90 of the 3rd, and others of no day."""
    rows = [row(i, "2025-03-02T10:00:00Z", price="dear" if i < dear else "1") for i in range(10)]
    rows += [row(i, "2025-03-03T10:00:00Z") for i in range(90)]
    return HEAD + "".join(rows) + row(0, "never") * (undated - undated // 2) + "ragged\n" * (undated // 2)


def test_rows_of_no_day_are_judged_against_their_whole_file(room: Room) -> None:
    dataset = room.dataset(files="*.csv", bad=0.1)
    room.land("a.csv", two_days(undated=11))
    manifests = all_days(room, dataset)
    assert manifests[D2].counts["bad"] == 11 and manifests[D2].counts["delivered"] == 21
    assert judged(manifests[D2]).value == 11 / 111 and manifests[D2].blocked_by is None
    assert judged(manifests[D3]).value == 0

    room.land("a.csv", two_days(undated=12))
    manifest = room.build(dataset, D2).manifest
    assert (
        manifest.blocked_by is not None
        and "12 of 112 rows of a.csv (10.71%) are bad and of no day" in manifest.blocked_by
    )
    room.land("b.csv", HEAD + row(1, "2025-03-02T10:00:00Z") * 1000)  # another file is no excuse, nor is reading it
    assert room.build(dataset, D2).manifest.blocked_by == manifest.blocked_by


def test_rows_of_no_day_do_not_hide_that_a_day_is_bad(room: Room) -> None:
    dataset = room.dataset(files="*.csv", bad=0.1)
    room.land("a.csv", two_days(undated=11, dear=2))
    manifest = room.build(dataset, D2).manifest
    assert judged(manifest).message == (
        "2 of 10 rows of the day (20.00%) are bad, 2 of them not_a_decimal (such as a.csv, line 2, column price, value 'dear'), "
        "where at most 10.00% may be: correct the file, or the column's rules in the contract, or raise bad_rows.at_most"
    )
    assert manifest.blocked_by is not None


def test_an_export_of_which_no_row_has_a_day_is_refused(room: Room) -> None:
    dataset = room.dataset(files="*.csv", bad=0.1)
    room.land("a.csv", HEAD + row(1, "never"))
    room.land("b.csv", HEAD + row(1, "2025-03-01T10:00:00Z") * 99)
    assert "1 of 1 rows of a.csv (100.00%)" in str(room.build(dataset, D1).manifest.blocked_by)
