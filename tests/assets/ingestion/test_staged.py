"""Rows of any day, in any order, end in one file a day: with the memory of one run, few open files, and nothing half done."""

from __future__ import annotations

import random
import resource
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.ingestion import blocks, index, joined, staged, unpacking
from assets.ingestion.sifting import QUARANTINE
from assets.ingestion.staged import Staging, staged_name

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

FIRST = date(2025, 3, 1)
HEAD = "event_id,user_id,item_id,event_time,event_type,price\n"


def good(day: date, numbers: list[int]) -> pa.Table:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    times = pa.array([start + timedelta(seconds=number % 86_400) for number in numbers], pa.timestamp("us", "UTC"))
    return pa.table({"event_time": times, "user": [f"{number}" for number in numbers]})


def bad(numbers: list[int]) -> pa.Table:
    rows = [{"file": "f", "line": number, "reason": "ragged"} for number in numbers]
    return pa.Table.from_pylist(rows, schema=QUARANTINE)


@pytest.mark.parametrize("run_rows", [7, 10_000])
def test_an_export_of_800_days_in_any_order_is_split_with_few_open_files(
    room: Room, monkeypatch: pytest.MonkeyPatch, run_rows: int
) -> None:
    monkeypatch.setattr(staged, "_RUN_ROWS", 7 if run_rows == 7 else 1000)
    dataset = room.dataset("{u: {as: user, type: id}}")
    days = [FIRST + timedelta(days=n) for n in range(800 if run_rows > 7 else 20)]
    chance, expected = random.Random(1), {day: [] for day in days}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    open_now = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + 32, hard))
    try:
        with Staging(dataset, room.root / "staged") as staging:
            for number in range(3000 if run_rows > 7 else 60):
                day = chance.choice(days)
                expected[day].append(number)
                staging.add(good(day, [number]), quarantined=False, day=day)
            staging.add(bad([1, 2]), quarantined=True, day=days[1])
            staging.add(bad([3]), quarantined=True, day=None)
            written = staging.finish(room.root / "staged" / "whole", home=days[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert {p.name for p in (room.root / "staged").iterdir()} == {"whole"}
    for day, numbers in expected.items():
        name = staged_name(quarantined=False, day=day)
        assert written.get(name, 0) == len(numbers)
        if numbers:
            assert pq.read_table(room.root / "staged" / "whole" / name)["user"].to_pylist() == [str(n) for n in numbers]
    home = pq.read_table(room.root / "staged" / "whole" / staged_name(quarantined=True, day=days[1]))
    assert home["line"].to_pylist() == [1, 2, 3]


def test_what_ends_early_leaves_nothing(room: Room) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        Staging(room.dataset("{u: {as: user, type: id}}"), room.root / "x") as staging,
    ):
        staging.add(good(FIRST, [1]), quarantined=False, day=FIRST)
        raise KeyboardInterrupt
    assert list((room.root / "x").iterdir()) == []


def rows(days: range, price: str = "1") -> str:
    return "".join(f"{n},u,i,{FIRST + timedelta(days=n)}T10:00:00Z,view,{price}\n" for n in days)


def test_an_export_is_read_once_for_all_its_days(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = room.dataset(files="*.csv")
    room.land("a.csv", HEAD + rows(range(30)) + rows(range(30), "x") + "ragged\n")
    read, real = [], blocks.joined
    monkeypatch.setattr(blocks, "joined", lambda d, files: real(d, [f for f in files if not read.append(f.name)]))
    for n in range(30):
        manifest = room.build(dataset, FIRST + timedelta(days=n)).manifest
        assert (manifest.counts["good"], manifest.counts["quarantined"]) == (1, 2 if n == 0 else 1)
        assert room.good(dataset, manifest)["event_id"].to_pylist() == [f"{n}"]
    assert read == ["a.csv"]


def test_the_size_of_blocks_and_runs_cannot_be_seen(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = room.dataset(files="*.csv")
    room.land("a.csv", HEAD + rows(range(40)) + rows(range(10), "x") + "ragged\n" + rows(range(40)))
    whole = {n: room.build(dataset, FIRST + timedelta(days=n)).manifest for n in range(40)}
    monkeypatch.setattr(unpacking, "BLOCK_BYTES", 150)
    monkeypatch.setattr(blocks, "_BLOCK_ROWS", 2)
    monkeypatch.setattr(staged, "_RUN_ROWS", 5)
    monkeypatch.setattr(joined, "_SMALL_BYTES", 0)
    room.lake = type(room.lake)(room.root / "other")
    for n, before in whole.items():
        after = room.build(dataset, FIRST + timedelta(days=n)).manifest
        assert (after.content_digest, after.counts, after.quarantined) == (
            *(before.content_digest, before.counts, before.quarantined),
        )


def staged_folders(room: Room) -> list[Path]:
    return sorted(path for path in (room.lake.root / "shop" / "staged").iterdir() if path.is_dir())


def test_rows_of_a_content_or_contract_that_is_no_more_are_swept(room: Room) -> None:
    dataset = room.dataset(files="*.csv")
    room.land("a.csv", HEAD + rows(range(2)))
    room.build(dataset, FIRST)
    first = staged_folders(room)
    room.land("a.csv", HEAD + rows(range(3)))
    room.build(dataset, FIRST)
    second = [path for path in staged_folders(room) if path not in first]
    assert len(first) == len(second) == 1
    (room.lake.root / "shop" / "staged" / ".half.tmp").mkdir()
    assert room.lake.sweep("shop", older_than_s=3600) == 0
    room.lake.sweep("shop", older_than_s=-1)
    assert staged_folders(room) == second
    assert not room.build(dataset, FIRST).built
    room.build(room.dataset(files="*.csv", time="column: event_time, zone: UTC"), FIRST)
    room.lake.sweep("shop", older_than_s=-1)
    assert len(staged_folders(room)) == 1 and staged_folders(room) != second


def test_a_contract_that_could_not_read_an_export_differently_does_not_read_it_again(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = "{event_id: {type: id}, user_id: {as: user, type: id}, price: {type: decimal, at_most: 10}}"
    room.land("a.csv", HEAD + rows(range(2)))
    room.land("b.csv", HEAD + rows(range(2), "11"))
    assert room.build(room.dataset(columns, files="*.csv"), FIRST).manifest.rows_out == 1
    read, real = [], blocks.joined
    monkeypatch.setattr(blocks, "joined", lambda d, files: real(d, [f for f in files if not read.append(f.name)]))
    wider = room.dataset(columns.replace("10", "20"), files="*.csv")
    assert room.build(wider, FIRST).manifest.rows_out == 2
    assert read == ["b.csv"]
    assert room.build(room.dataset(columns.replace("10", "20"), files="*.csv", bad=0.5), FIRST).manifest.rows_out == 2
    assert read == ["b.csv"]


def test_an_export_under_another_name_is_not_read_again(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = room.dataset(files="*.csv")
    room.land("a.csv", HEAD + rows(range(2)) + rows(range(1), "x"))
    before = room.build(dataset, FIRST).manifest
    monkeypatch.setattr(blocks, "joined", lambda *_: pytest.fail("read again"))
    (room.landing / "a.csv").rename(room.landing / "b.csv")
    after = room.build(dataset, FIRST).manifest
    assert after.rows_out == before.rows_out == 1
    assert after.facts["landed"]["a.csv"]["gone"] and after.facts["landed"]["b.csv"]["same_as"] == "a.csv"


def test_a_staged_folder_that_was_lost_is_made_again(room: Room) -> None:
    import shutil

    dataset = room.dataset(files="*.csv")
    room.land("a.csv", HEAD + rows(range(2)))
    before = room.build(dataset, FIRST).manifest
    for folder in staged_folders(room):
        shutil.rmtree(folder)
    index._read.cache_clear()
    room.land("b.csv", HEAD + rows(range(1), "2"))
    after = room.build(dataset, FIRST + timedelta(days=1)).manifest
    assert after.rows_out == 1 and room.build(dataset, FIRST).manifest.rows_out == before.rows_out + 1


def test_exports_that_cannot_be_read_are_left_out_and_stop_only_where_the_contract_says_so(room: Room) -> None:
    from resources.contract.errors import DataError

    room.land("a.csv", HEAD + rows(range(1)))
    room.land("b.csv", b"\xff")
    dataset = room.dataset(files="*.csv")
    assert room.build(dataset, FIRST).manifest.blocked_by is None
    assert "b.csv: byte 0" in str(room.scan(dataset).refused("b.csv"))
    with pytest.raises(DataError, match=r"b\.csv: byte 0"):
        room.build(room.dataset(files="*.csv", source="format: csv, bad_files: stop"), FIRST)
