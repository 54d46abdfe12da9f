"""How landed files share parts: few of them, rewritten seldom, and every row found again."""

from __future__ import annotations

import tempfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.ingestion import parts
from assets.ingestion.blocks import Rows
from assets.ingestion.parts import Member, PartWriter, Range, arranged, copied, part_name, ranges
from assets.ingestion.sifting import QUARANTINE
from resources.contract.digest import sum_of, table_digest

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

MB = 1 << 20


def member(name: str, megabytes: float, of: str | None = None) -> Member:
    return Member(name=name, key=name, bytes=round(megabytes * MB), of=of)


def names(packed: list[list[Member]]) -> list[str]:
    return [" ".join(found.name for found in members) for members in packed]


@pytest.mark.parametrize(
    ("loose", "intact", "kept", "new"),
    [
        ([], {"p": [1.0]}, ["p"], []),
        ([1.0, 2.0], {}, [], ["0 1"]),  # small files share one
        ([20.0, 20.0], {}, [], ["0", "1"]),  # two are written side by side
        ([20.0] * 4, {}, [], ["0 1", "2 3"]),
        ([200.0, 1.0], {}, [], ["0", "1"]),
        ([50.0] * 6, {}, [], ["0", "1", "2", "3", "4", "5"]),
        ([1.0], {"p": [30.0], "q": [62.0]}, ["q"], ["p0 0"]),  # takes in what is small, up to 64 MB
        ([1.0], {"p": [30.0], "q": [33.0]}, [], ["q0 p0 0"]),
        ([1.0], {"p": [30.0], "q": [33.5]}, ["q"], ["p0 0"]),
        ([1.0], {"p": [1.0, 1.0]}, [], ["p0 p1 0"]),
        ([64.0], {"p": [1.0]}, ["p"], ["0"]),
    ],
)
def test_files_are_packed_into_parts_of_a_good_size(
    loose: list[float], intact: dict[str, list[float]], kept: list[str], new: list[str]
) -> None:
    old = {part: [member(f"{part}{i}", size, part) for i, size in enumerate(sizes)] for part, sizes in intact.items()}
    stay, made = arranged([member(f"{i}", size) for i, size in enumerate(loose)], old)
    assert (stay, names(made)) == (kept, new)


@given(sizes=st.lists(st.floats(0.01, 100), min_size=1, max_size=60))
def test_a_day_of_many_deliveries_ends_in_few_parts_and_rewrites_little_each_time(sizes: list[float]) -> None:
    built: dict[str, list[Member]] = {}
    for number, size in enumerate(sizes):
        kept, new = arranged([member(f"{number}", size)], built)
        rewritten = sum(found.bytes for members in new for found in members if found.of is not None)
        assert rewritten <= parts.PART_BYTES
        made = {
            part_name(members): [member(m.name, m.bytes / MB, part_name(members)) for m in members] for members in new
        }
        built = {part: built[part] for part in kept} | made
        assert sorted(m.name for members in built.values() for m in members) == sorted(
            f"{n}" for n in range(number + 1)
        )
    small = [part for part, members in built.items() if sum(m.bytes for m in members) < parts.PART_BYTES / 2]
    assert len(small) <= 1


@given(counts=st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=12))
def test_every_wanted_row_of_a_file_is_copied_in_order_and_no_other(counts: list[tuple[bool, int]]) -> None:
    members = [(f"f{i}", f"g{i}" if wanted else None, rows) for i, (wanted, rows) in enumerate(counts)]
    table = pa.table(
        {
            "file": [name for name, _, rows in members for _ in range(rows)],
            "line": range(sum(rows for _, _, rows in members)),
            **{name: pa.nulls(sum(rows for _, _, rows in members), pa.string()) for name in ("column", "value", "raw")},
            "reason": ["ragged" for _, _, rows in members for _ in range(rows)],
        }
    ).select(QUARANTINE.names)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "part.parquet"
        pq.write_table(table.cast(QUARANTINE), path, row_group_size=3, write_page_checksum=True)
        found = [row for rows in copied(path, ranges(members), place=None) for row in rows.table.to_pylist()]
    wanted = {name: now for name, now, _ in members if now is not None}
    assert found == [{**row, "file": wanted[row["file"]]} for row in table.to_pylist() if row["file"] in wanted]


def rows_of(day: date, numbers: range) -> pa.Table:
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    times = pa.array([start + timedelta(seconds=number) for number in numbers], pa.timestamp("us", "UTC"))
    return pa.table({"event_time": times, "user": [f"u{number}" for number in numbers]})


def test_rows_wait_until_they_are_worth_a_row_group_and_all_are_written(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "GROUP_ROWS", 100)
    monkeypatch.setattr(parts, "_HELD_ROWS", 150)
    dataset = room.dataset("{u: {as: user, type: id}}")
    days = [date(2025, 3, day) for day in range(1, 31)]
    writer = PartWriter(dataset, room.root, "p")
    for start in range(0, 60, 3):
        for day in days:
            writer.add(day, Rows.of(rows_of(day, range(start, start + 3)), timed=True))
    pieces = {piece.event_day: piece for piece in writer.pieces()}
    for day in days:
        table = pq.read_table(room.root / pieces[day].name)
        assert table["user"].to_pylist() == [f"u{number}" for number in range(60)]
        assert pieces[day].content == table_digest(table) and pieces[day].rows == 60
        assert pieces[day].whole == f"event_day={day}"
        midnight = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1_000_000
        assert (pieces[day].first_us, pieces[day].last_us) == (midnight, midnight + 59_000_000)


def test_the_digests_of_parts_add_up_to_that_of_the_whole(room: Room) -> None:
    day = date(2025, 3, 1)
    table = rows_of(day, range(10))
    assert sum_of([table_digest(table.slice(0, 4)), table_digest(table.slice(4))]) == table_digest(table)


def test_ranges_that_are_dead_are_written_away(room: Room) -> None:
    dataset, day = room.dataset("{u: {as: user, type: id}}"), date(2025, 3, 1)
    writer = PartWriter(dataset, room.root, "p")
    writer.add(day, Rows.of(rows_of(day, range(10)), timed=True))
    writer.add(date(2025, 3, 2), Rows.of(rows_of(date(2025, 3, 2), range(3)), timed=True))
    [piece] = writer.pieces(dead={day: [Range(start=0, rows=2, name=""), Range(start=7, rows=3, name="")]})
    table = pq.read_table(room.root / piece.name)
    assert table["user"].to_pylist() == ["u0", "u1", "u7", "u8", "u9"]
    assert (piece.rows, piece.content) == (5, table_digest(table))
    assert [path.name for path in room.root.rglob("*.parquet")] == ["p.parquet"]
    assert not list(room.root.rglob("*.dead"))
