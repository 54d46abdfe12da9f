"""A delivery is a function of what has landed: not of the order, the number of tries, or the names' second copies."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.ingestion import blocks, deliver, known
from assets.ingestion.sifting import Sifted, shown, sift
from resources.contract.digest import table_digest
from resources.contract.errors import DataError, TransientError
from resources.contract.manifest import Ledger, Manifest, content_digest
from resources.lake import Lake

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

D1, D2, D3 = date(2025, 3, 1), date(2025, 3, 2), date(2025, 3, 3)
HEAD = "event_id,user_id,item_id,event_time,event_type,price\n"
SHIFTS = {"good": "2025-03-03T10:00:00Z", "late": "2025-03-01T10:00:00Z", "next": "2025-03-04T01:00:00Z"}


def row(number: int, kind: str = "good") -> str:
    """One line of a delivery of March 3rd."""
    if kind == "ragged":
        return f"{number},ragged\n"
    if kind == "quotes":
        return f'{number},u,"i,2025-03-03T10:00:00Z,view,1\n'
    if kind == "priceless":
        return f"{number},u,i,2025-03-03T10:00:00Z,view,cheap\n"
    return f"{number},u,i,{SHIFTS.get(kind, kind)},view,1\n"


def event_ids(room: Room, manifest: Manifest) -> Counter:
    """How often each event of a delivery lies in its good pieces or its quarantine."""
    dataset = room.dataset()
    good = room.good(dataset, manifest)["event_id"].to_pylist()
    return Counter([*good, *(line["raw"].split(",")[0] for line in room.quarantine(manifest))])


KINDS = [
    "good",
    "late",
    "next",
    "ragged",
    "quotes",
    "priceless",
    "never",
    "9999-12-31T00:00:00Z",
    "2025-02-28T00:00:00Z",
]


@settings(max_examples=40)
@given(files=st.lists(st.lists(st.sampled_from(KINDS), max_size=12), min_size=1, max_size=4))
def test_every_delivered_row_is_good_or_quarantined_and_never_both(room: Room, files: list[list[str]]) -> None:
    dataset = room.dataset(days="zone: UTC, first: 2025-03-01, late: 2")
    for path in room.landing.iterdir():
        path.unlink()
    room.lake = Lake(room.root / f"lake-{len(list(room.root.iterdir()))}")
    number = 0
    for index, kinds in enumerate(files):
        room.land(f"2025-03-03_{index}.csv", HEAD + "".join(row(number + i, kind) for i, kind in enumerate(kinds)))
        number += len(kinds)
    manifest = room.build(dataset, D3).manifest
    counts = manifest.counts
    # two files without rows are the same content
    assert counts["delivered"] == counts["good"] + counts["quarantined"] == number
    assert event_ids(room, manifest) == {str(i): 1 for i in range(number)}
    assert sum(manifest.quarantined.values()) == counts["quarantined"]
    for entry in room.entries(manifest):
        days = {t.date() for t in room.good(dataset, manifest, event_day=entry.event_day)["event_time"].to_pylist()}
        assert days == {entry.event_day}


CONTENTS = ["", *(HEAD + "".join(row(i, kind) for i, kind in enumerate(kinds, start)) for start, kinds in
            [(0, ["good"]), (10, ["good", "late", "never"]), (20, ["late", "ragged"])])]  # fmt: skip
Step = tuple[str, int]


@settings(max_examples=25)
@given(
    steps=st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 3)), min_size=1, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_deliveries_replayed_in_any_order_have_the_same_content(room: Room, steps: list[Step], order) -> None:
    dataset = room.dataset()

    def replayed(moves: list[Step]) -> Manifest:
        for path in room.landing.iterdir():
            path.unlink()
        room.lake = Lake(room.root / f"lake-{len(list(room.root.iterdir()))}")
        built = []
        for name, content in moves:
            room.land(f"2025-03-03_{name}.csv", CONTENTS[content])
            built.append(room.build(dataset, D3).manifest)
        return built[-1]

    final = list(dict(steps).items())  # what lies there at the end, whatever lay there before
    shuffled = order.sample(final, len(final))
    step_by_step, at_once = replayed(steps), replayed(shuffled)
    assert step_by_step.content_digest == at_once.content_digest
    assert step_by_step.counts == at_once.counts and step_by_step.quarantined == at_once.quarantined


def test_the_pieces_of_a_delivery_lie_by_file_and_event_day(room: Room) -> None:
    dataset = room.dataset()
    room.land("2025-03-03.csv", HEAD + row(1) + row(2, "late") + row(3, "never") + row(4))
    manifest = room.build(dataset, D3).manifest
    part = manifest.facts["landed"]["2025-03-03.csv"]["part"]
    assert [(f.name, f.whole, f.event_day, f.rows) for f in manifest.files] == [
        (f"event_day=2025-03-01/{part}.parquet", "event_day=2025-03-01", D1, 1),
        (f"event_day=2025-03-03/{part}.parquet", "event_day=2025-03-03", D3, 2),
        (f"quarantine/{part}.parquet", "quarantine", None, 1),
    ]
    for entry in manifest.files[:2]:
        table = room.good(dataset, manifest, event_day=entry.event_day)
        assert entry.content == table_digest(table)
        assert entry.first_us == table["event_time"].cast("int64").to_pylist()[0] == entry.last_us
    assert room.good(dataset, manifest, event_day=D3)["event_id"].to_pylist() == ["1", "4"]  # in the file's order
    assert manifest.content_digest == content_digest(manifest.files)
    assert [(p.asset, p.day, p.role) for p in manifest.parents] == [("landed", D3, "own")]


def test_a_file_longer_than_a_block_has_the_same_pieces(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    room.land("2025-03-03.csv", HEAD + "".join(row(i, KINDS[i % len(KINDS)]) for i in range(60)))
    whole = room.build(room.dataset(), D3).manifest
    monkeypatch.setattr("assets.ingestion.unpacking.BLOCK_BYTES", 100)
    cut = room.build(room.dataset(), D3, rebuild=True)
    assert cut.built and cut.manifest.content_digest == whole.content_digest and cut.manifest.counts == whole.counts


def test_only_files_that_changed_are_read(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = room.dataset()
    room.land("2025-03-03_a.csv", HEAD + row(1))
    room.land("2025-03-03_b.csv", HEAD + row(2) + row(3, "never"))
    first = room.build(dataset, D3).manifest
    read = []
    real = blocks.joined
    monkeypatch.setattr(
        blocks, "joined", lambda d, files: real(d, [file for file in files if not read.append(file.name)])
    )
    room.land("2025-03-03_a.csv", HEAD + row(1) + row(4))
    room.land("2025-03-03_c.csv", HEAD + row(5))
    second = room.build(dataset, D3).manifest
    assert read == ["2025-03-03_a.csv", "2025-03-03_c.csv"]
    assert (
        first.counts["delivered"] == 3
        and second.counts["delivered"] == 5
        and second.quarantined == {"unreadable_time": 1}
    )
    assert event_ids(room, second) == {str(i): 1 for i in range(1, 6)}
    assert not room.build(dataset, D3).built and len(read) == 2


def test_a_changed_contract_reads_every_file_again(room: Room) -> None:
    room.land("2025-03-03.csv", HEAD + row(1) + row(2, "priceless"))
    assert room.build(room.dataset(), D3).manifest.rows_out == 1
    mended = room.dataset("{event_id: {type: id}, user_id: {as: user, type: id}, price: {type: text}}")
    again = room.build(mended, D3)
    assert again.built and again.manifest.rows_out == 2


def test_files_of_a_part_that_stand_in_another_order_are_not_taken_for_each_other(room: Room) -> None:
    b = room.land("2025-03-03_b.csv", HEAD + row(1) + row(2, "priceless"))
    room.build(room.dataset(), D3)
    room.land("2025-03-03_a.csv", HEAD + row(3) + row(4) + row(5, "priceless"))
    room.build(room.dataset(), D3)  # what was there stands in front
    room.build(room.dataset(time="column: event_time, zone: UTC"), D3)  # all is read again, to the same rows
    b.write_text(HEAD + row(6))
    manifest = room.build(room.dataset(time="column: event_time, zone: UTC"), D3).manifest
    assert event_ids(room, manifest) == Counter(["3", "4", "5", "6"])


def test_a_touched_file_is_not_read_again(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = room.dataset()
    path = room.land("2025-03-03.csv", HEAD + row(1))
    first = room.build(dataset, D3).manifest
    os.utime(path, (1_000_000_000, 1_000_000_000))
    touched = room.build(dataset, D3)
    assert not touched.built and touched.manifest.attempt == first.attempt
    assert touched.manifest.facts["landed"]["2025-03-03.csv"]["modified_ns"] == 1_000_000_000 * 10**9
    assert touched.manifest.input_digest == first.input_digest
    monkeypatch.setattr(known, "sha256_of_landed", lambda file: pytest.fail("hashed again"))
    assert room.build(dataset, D3).manifest == touched.manifest  # the new fingerprint is remembered


def test_a_file_that_disappears_keeps_its_rows(room: Room) -> None:
    dataset = room.dataset()
    path = room.land("2025-03-03_a.csv", HEAD + row(1))
    room.land("2025-03-03_b.csv", HEAD + row(2))
    room.build(dataset, D3)
    path.unlink()
    gone = room.build(dataset, D3)
    assert not gone.built and gone.manifest.rows_out == 2
    assert gone.manifest.facts["landed"]["2025-03-03_a.csv"]["gone"] is True
    room.land("2025-03-03_b.csv", HEAD + row(3))
    rebuilt = room.build(dataset, D3).manifest
    assert event_ids(room, rebuilt) == {"1": 1, "3": 1}
    assert event_ids(room, room.build(dataset, D3, rebuild=True).manifest) == {"1": 1, "3": 1}


def test_rows_of_a_file_that_is_gone_are_not_passed_off_as_read_by_a_new_contract(room: Room) -> None:
    room.land("2025-03-03_a.csv", HEAD + row(1)).unlink()
    path = room.land("2025-03-03_a.csv", HEAD + row(1))
    room.build(room.dataset(), D3)
    path.unlink()
    other = room.dataset("{event_id: {as: user, type: id}}")
    with pytest.raises(DataError, match=r"2025-03-03_a\.csv is gone, and its 1 rows were read by an earlier contract"):
        room.build(other, D3)


def test_the_same_content_under_a_second_name_adds_nothing(room: Room) -> None:
    dataset = room.dataset()
    room.land("2025-03-03_b.csv", HEAD + row(1) + row(2, "never"))
    first = room.build(dataset, D3).manifest
    room.land("2025-03-03_c.csv", HEAD + row(1) + row(2, "never"))
    second = room.build(dataset, D3)
    assert not second.built and second.manifest.counts == first.counts
    assert second.manifest.facts["landed"]["2025-03-03_c.csv"]["same_as"] == "2025-03-03_b.csv"
    # were it only then that the first name got other rows, the second would stand for its own
    room.land("2025-03-03_b.csv", HEAD + row(3))
    third = room.build(dataset, D3)
    assert third.built and event_ids(room, third.manifest) == {"1": 1, "2": 1, "3": 1}


def test_a_file_that_comes_again_damaged_holds_its_day_until_it_is_sound_or_taken_away(room: Room) -> None:
    dataset, name = room.dataset(), "2025-03-03_a.csv"
    room.land("2025-03-03_b.csv", HEAD + row(7))
    path = room.land(name, HEAD + row(1) + row(2))
    before = room.build(dataset, D3).manifest
    room.land(name, HEAD.encode() + b"\xff")
    damaged = room.build(dataset, D3).manifest
    assert damaged.blocked_by is not None and f"{name}: byte 53" in damaged.blocked_by
    assert "It had 2 rows before" in damaged.blocked_by
    assert not room.build(dataset, D3).built  # the same bytes are not tried again
    room.land("2025-03-03_c.csv", HEAD + row(9))
    more = room.build(dataset, D3).manifest
    assert more.blocked_by is not None and "It had 2 rows before" in more.blocked_by
    room.land(name, HEAD + row(1) + row(2))
    sound = room.build(dataset, D3).manifest
    assert sound.blocked_by is None and event_ids(room, sound) == {"1": 1, "2": 1, "7": 1, "9": 1}
    assert sound.counts["refused_files"] == 0 and before.rows_out == 3
    room.land(name, HEAD.encode() + b"\xff")
    assert room.build(dataset, D3).manifest.blocked_by is not None
    path.unlink()
    taken = room.build(dataset, D3).manifest
    assert taken.blocked_by is None and event_ids(room, taken) == {"7": 1, "9": 1}


def test_a_day_whose_only_file_cannot_be_read_is_refused(room: Room) -> None:
    dataset = room.dataset()
    refused = room.delivered(dataset, HEAD.encode() + b"\xff", name="2025-03-03.csv")
    assert refused.rows_out == 0 and refused.blocked_by is not None
    assert "1 of 1 files could not be read: 2025-03-03.csv: byte 53" in refused.blocked_by


def test_a_file_that_changes_while_it_is_read_is_taken_at_the_next_try(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = room.dataset()
    path = room.land("2025-03-03.csv", HEAD + row(1))
    real = blocks.read

    def read_and_append(d, file):
        yield from real(d, file)
        if path.stat().st_size == file.bytes:
            path.write_text(HEAD + row(1) + row(2))

    monkeypatch.setattr(blocks, "read", read_and_append)
    with pytest.raises(TransientError, match=r"2025-03-03\.csv changed while it was being read"):
        room.build(dataset, D3)
    monkeypatch.undo()
    assert room.build(dataset, D3).manifest.rows_out == 2


def test_a_closed_day_without_a_file_is_an_empty_day(room: Room) -> None:
    manifest = room.build(room.dataset(), D3).manifest
    assert (manifest.facts["landed"], manifest.facts["empty"], manifest.facts["drift"]) == ({}, True, [])
    assert (manifest.rows_in, manifest.files, manifest.blocked_by) == (0, (), None)
    room.land("2025-03-03.csv", HEAD + row(1))  # and what comes after all is taken
    assert room.build(room.dataset(), D3).manifest.facts["empty"] is False


def test_an_open_day_without_a_file_waits_and_says_until_when(room: Room) -> None:
    room.now = datetime(2025, 3, 4, 23, tzinfo=UTC)
    wanted = deliver.plan(room.dataset(), room.scan(room.dataset()), Ledger([]), D3, now=room.now)
    assert wanted.missing == (
        "a file for 2025-03-03 (the day is still open, until 2025-03-05T00:00+00:00 at the latest)",
    )
    with pytest.raises(TransientError, match="the day is still open"):
        room.build(room.dataset(), D3)
    room.land("2025-03-03.csv", HEAD + row(1))  # an open day with a file is built at once
    assert room.build(room.dataset(), D3).manifest.rows_out == 1


def test_plan_and_build_agree_on_the_input_digest(room: Room) -> None:
    dataset = room.dataset()
    room.land("2025-03-03_a.csv", HEAD + row(1))
    room.land("2025-03-03_b.csv", HEAD + row(1))
    before = deliver.plan(dataset, room.scan(dataset), Ledger([]), D3, now=room.now)
    manifest = room.build(dataset, D3).manifest
    after = deliver.plan(dataset, room.scan(dataset), Ledger([manifest]), D3, now=room.now)
    assert before.input_digest == manifest.input_digest == after.input_digest


@pytest.mark.parametrize(
    ("bad", "at_most", "blocked"), [(2, 0.02, False), (3, 0.02, True), (0, 0.0, False), (1, 0.0, True)]
)
def test_too_many_bad_rows_block_the_day(room: Room, bad: int, at_most: float, blocked: bool) -> None:
    dataset = room.dataset(bad=at_most)
    room.land("2025-03-03.csv", HEAD + "".join(row(i, "never" if i < bad else "good") for i in range(100)))
    manifest = room.build(dataset, D3).manifest
    assert bool(manifest.blocked_by) is blocked
    check = next(check for check in manifest.checks if check.name == "bad_row_share")
    assert (check.value, check.limit, check.blocking) == (bad / 100, at_most, True)
    assert set(deliver.CHECKS) == {check.name for check in manifest.checks}


@pytest.mark.parametrize("files", ["{day}*", "export*"])
@pytest.mark.parametrize("lost", ["good", "quarantine"])
def test_a_row_that_is_read_and_then_lost_blocks_the_day(
    room: Room, monkeypatch: pytest.MonkeyPatch, files: str, lost: str
) -> None:
    dataset = room.dataset(files=files)
    name = "2025-03-03.csv" if "day" in files else "export.csv"
    room.land(name, HEAD + row(1) + row(2) + row(3, "late" if "day" in files else "good") + row(4, "priceless"))
    sound = room.build(dataset, D3).manifest
    conservation = next(check for check in sound.checks if check.name == "conservation")
    assert (conservation.passed, conservation.blocking) == (True, True)
    assert conservation.message == "4 rows read, 3 good, 1 in quarantine"

    def losing(*arguments: Any, **options: Any) -> Sifted:
        found = sift(*arguments, **options)
        if lost == "good":
            return replace(
                found,
                good={day: table.slice(table.num_rows > 1) for day, table in found.good.items()},
                rows={day: rows[len(rows) > 1 :] for day, rows in found.rows.items()},
            )
        return replace(found, quarantine=found.quarantine.slice(1), days=found.days[1:])

    monkeypatch.setattr(blocks, "sift", losing)
    shutil.rmtree(room.lake.root / "shop" / "staged", ignore_errors=True)
    blocked = room.build(dataset, D3, rebuild=True).manifest.blocked_by
    assert blocked is not None and blocked.startswith("conservation: 4 rows read, ")


def test_a_refused_day_says_why_with_an_example_that_hides_what_is_personal(room: Room) -> None:
    dataset = room.dataset("{user_id: {as: user, type: id}, n: {type: integer, personal: true}}", bad=0.5)
    room.land("2025-03-03_a.csv", "user_id,event_time,n\n" + "u,2025-03-03T00:00:00Z,secret\n" * 2 + "u,never,1\n")
    room.build(dataset, D3)
    room.land("2025-03-03_b.csv", "user_id,event_time,n\nu,2025-03-03T00:00:00Z,1\n")
    manifest = room.build(dataset, D3).manifest  # the first file is not read again
    assert manifest.blocked_by == (
        f"bad_row_share: 3 of 4 rows (75.00%) are bad, 2 of them not_an_integer (such as 2025-03-03_a.csv, line 2, column n, value "
        f"{shown('secret', personal=True)!r}), where at most 50.00% may be: correct the file, or the column's rules in the "
        "contract, or raise bad_rows.at_most"
    )


def test_rows_of_files_that_are_not_read_again_are_conserved_too(room: Room) -> None:
    dataset = room.dataset()
    room.land("2025-03-03_a.csv", HEAD + row(1) + row(2, "never"))
    room.build(dataset, D3)
    room.land("2025-03-03_b.csv", HEAD + row(3))
    (room.landing / "2025-03-03_a.csv").unlink()
    manifest = room.build(dataset, D3).manifest
    assert "3 rows read, 2 good, 1 in quarantine" in [check.message for check in manifest.checks]
    assert manifest.blocked_by is None


def test_rows_that_are_only_too_late_are_counted_apart_and_do_not_block(room: Room) -> None:
    dataset = room.dataset(days="zone: UTC, first: 2025-03-01, late: 1", bad=0)
    room.land("2025-03-03.csv", HEAD + row(1) + row(2, "late") + row(3, "2025-02-28T00:00:00Z"))
    manifest = room.build(dataset, D3).manifest
    assert manifest.quarantined == {"too_late": 1, "before_first_day": 1} and manifest.counts["bad"] == 0
    assert manifest.blocked_by is None
    bounds = next(check for check in manifest.checks if check.name == "time_bounds")
    assert not bounds.passed and not bounds.blocking and bounds.value == 2 / 3


def test_repeated_times_are_counted(room: Room) -> None:
    dataset = room.dataset(
        days="zone: Europe/Berlin, first: 2025-10-01", time="column: event_time, zone: Europe/Berlin"
    )
    times = ["2025-10-26 02:30:00", "2025-10-26 03:30:00", "2025-10-26 02:30:00Z"]
    room.land("2025-10-26.csv", HEAD + "".join(row(i, time) for i, time in enumerate(times)))
    manifest = room.build(dataset, date(2025, 10, 26)).manifest
    assert manifest.counts["ambiguous_times"] == 1
    assert [f"{t:%d %H:%M}" for t in room.good(dataset, manifest)["event_time"].to_pylist()] == [
        *("26 00:30", "26 02:30", "26 02:30")
    ]


def test_a_kill_between_two_files_leaves_nothing_visible_and_nothing_lost(room: Room, tmp_path: Path) -> None:
    dataset = room.dataset()
    for name in "ab":
        room.land(f"2025-03-03_{name}.csv", HEAD + row(ord(name)))

    def killed(point: str) -> None:
        if point == "deliveries:part":
            raise KeyboardInterrupt

    undisturbed = room.lake
    room.lake = Lake(tmp_path / "other", step=killed)
    with pytest.raises(KeyboardInterrupt):
        room.build(dataset, D3)
    assert room.lake.read("shop", "deliveries", D3) is None
    room.lake.step = lambda _: None
    again = room.build(dataset, D3).manifest
    room.lake = undisturbed
    assert again.content_digest == room.build(dataset, D3).manifest.content_digest


def test_undeclared_columns_are_ignored_and_noted(room: Room) -> None:
    dataset = room.dataset()
    room.land("2025-03-03.csv", "colour," + HEAD + "red," + row(1))
    manifest = room.build(dataset, D3).manifest
    assert manifest.facts["layouts"][0][0] == ["colour", ""]
    room.land("2025-03-03.csv", HEAD + row(1))
    without = room.build(dataset, D3).manifest
    assert without.content_digest == manifest.content_digest
