"""The one way in which results are made: all or nothing, once, and never two at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import pytest

from resources.contract.errors import CorruptError, DataError, TransientError
from resources.contract.manifest import Parent, Plan
from resources.lake import Lake, Outcome, Piece, locked, write_atomically

DAY = date(2026, 1, 1)


class Killed(BaseException):
    """Stands for the process dying: nothing in the product catches it."""


def plan(digest: str = "a", *, day: date = DAY, missing: tuple[str, ...] = (), blocked: tuple[str, ...] = ()) -> Plan:
    return Plan(
        asset="shards",
        day=day,
        contract_digest="c",
        logic_version=1,
        parents=(Parent(asset="deliveries", day=day, digest=digest),),
        missing=missing,
        blocked=blocked,
    )


def writes(**contents: str) -> Callable[[Path], Outcome]:
    """A room that writes one file per name, whose content digest is its text."""

    def write(folder: Path) -> Outcome:
        for name, text in contents.items():
            (folder / name).write_text(text)
        pieces = tuple(Piece(name=name, rows=1, content=text) for name, text in contents.items())
        return Outcome(pieces=pieces, rows_in=len(pieces), rows_out=len(pieces))

    return write


def refuses(folder: Path) -> Outcome:
    raise AssertionError("nothing was to be written")


def held(lake: Lake) -> dict[str, str]:
    """What a reader of the day's pointer finds."""
    manifest = lake.read("shop", "shards", DAY)
    assert manifest is not None
    return {entry.name: lake.verified_path(manifest, entry).read_text() for entry in manifest.files}


def test_a_published_day_holds_its_files_and_says_how_it_was_made(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    made = lake.materialize(plan(), writes(x="1", y="2"), dataset="shop")
    assert made.built
    assert made.manifest == lake.read("shop", "shards", DAY)
    assert held(lake) == {"x": "1", "y": "2"}
    assert (made.manifest.generation, made.manifest.input_digest) == (1, plan().input_digest)
    assert {"duckdb", "numpy", "pyarrow"} <= made.manifest.made_by.keys()


def test_unchanged_inputs_mean_no_work(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    first = lake.materialize(plan(), writes(x="1"), dataset="shop")
    again = lake.materialize(plan(), refuses, dataset="shop")
    assert (again.built, again.manifest) == (False, first.manifest)


def test_a_rebuild_is_done_when_asked_for_and_takes_no_old_byte_on_trust(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    first = lake.materialize(plan(), writes(x="1"), dataset="shop").manifest
    lake.path(first, first.files[0]).write_text("damaged")
    again = lake.materialize(plan(), writes(x="1"), dataset="shop", rebuild=True)
    assert again.built
    assert held(lake) == {"x": "1"}


def test_pieces_that_did_not_change_keep_their_bytes(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    first = lake.materialize(plan(), writes(x="1", y="2"), dataset="shop").manifest
    second = lake.materialize(plan("b"), writes(x="1", y="3"), dataset="shop").manifest
    assert second.file("x") == first.file("x")
    assert second.file("y") != first.file("y")
    assert not (lake.day_folder("shop", "shards", DAY) / second.attempt / "x").exists()
    assert held(lake) == {"x": "1", "y": "3"}
    assert second.generation == 2


def test_an_equal_piece_is_written_anew_where_the_old_file_is_gone(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    first = lake.materialize(plan(), writes(x="1"), dataset="shop").manifest
    lake.path(first, first.files[0]).unlink()
    lake.materialize(plan("b"), writes(x="1"), dataset="shop")
    assert held(lake) == {"x": "1"}


def test_b1_a_result_with_fewer_files_leaves_none_of_the_old_ones_behind(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.materialize(plan(), writes(**{f"b{i}": str(i) for i in range(8)}), dataset="shop")
    lake.materialize(plan("b"), writes(b1="1", b2="new"), dataset="shop")
    assert held(lake) == {"b1": "1", "b2": "new"}


def test_entries_that_are_carried_over_need_not_be_written_again(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    first = lake.materialize(plan(), writes(x="1"), dataset="shop").manifest

    def adds(folder: Path) -> Outcome:
        (folder / "y").write_text("2")
        return Outcome(pieces=(Piece(name="y", rows=1, content="2"),), rows_in=1, rows_out=2, kept=first.files)

    lake.materialize(plan("b"), adds, dataset="shop")
    assert held(lake) == {"x": "1", "y": "2"}


@pytest.mark.parametrize("point", ["begun", "written", "publishing"])
def test_a_kill_before_publishing_leaves_what_was_there(tmp_path: Path, point: str) -> None:
    def step(name: str) -> None:
        if name == f"shards:{point}":
            raise Killed

    Lake(tmp_path).materialize(plan(), writes(x="old"), dataset="shop")
    with pytest.raises(Killed):
        Lake(tmp_path, step=step).materialize(plan("b"), writes(x="new"), dataset="shop")
    lake = Lake(tmp_path)
    assert held(lake) == {"x": "old"}
    assert lake.materialize(plan("b"), writes(x="new"), dataset="shop").built
    assert held(lake) == {"x": "new"}
    assert lake.sweep("shop", older_than_s=-1) == 2
    assert held(lake) == {"x": "new"}


def test_a_kill_after_publishing_loses_nothing(tmp_path: Path) -> None:
    def step(name: str) -> None:
        if name == "shards:published":
            raise Killed

    with pytest.raises(Killed):
        Lake(tmp_path, step=step).materialize(plan(), writes(x="1"), dataset="shop")
    lake = Lake(tmp_path)
    assert held(lake) == {"x": "1"}
    assert not lake.materialize(plan(), refuses, dataset="shop").built


def test_an_error_while_writing_publishes_nothing(tmp_path: Path) -> None:
    def write(folder: Path) -> Outcome:
        (folder / "x").write_text("half")
        raise DataError("a label of 2")

    lake = Lake(tmp_path)
    with pytest.raises(DataError, match="a label of 2"):
        lake.materialize(plan(), write, dataset="shop")
    assert lake.read("shop", "shards", DAY) is None


def test_whoever_publishes_second_loses_cleanly(tmp_path: Path) -> None:
    lake = Lake(tmp_path)

    def overtaken(folder: Path) -> Outcome:
        Lake(tmp_path).materialize(plan("b"), writes(x="theirs"), dataset="shop")
        return writes(x="ours")(folder)

    with pytest.raises(TransientError, match="generation 1 was published by somebody else"):
        lake.materialize(plan(), overtaken, dataset="shop")
    assert held(lake) == {"x": "theirs"}
    assert lake.materialize(plan(), writes(x="ours"), dataset="shop").manifest.generation == 2


RACER = """
import sys
from datetime import date
from pathlib import Path
from resources.contract.errors import TransientError
from resources.contract.manifest import Parent, Plan
from resources.lake import Lake, Outcome, Piece

root, name = sys.argv[1:]
for attempt in range(30):
    day, text = date(2026, 1, 1), f"{name}{attempt}"
    parents = (Parent(asset="deliveries", day=day, digest=text),)
    plan = Plan(asset="shards", day=day, contract_digest="c", logic_version=1, parents=parents)

    def write(folder):
        (folder / "x").write_text(text)
        return Outcome(pieces=(Piece(name="x", rows=1, content=text),), rows_in=1, rows_out=1)

    try:
        made = Lake(Path(root)).materialize(plan, write, dataset="shop")
    except TransientError:
        print("lost")
    else:
        print(made.manifest.generation)
"""


def test_of_two_processes_that_race_each_generation_belongs_to_one(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, tmp_path, name], env=environment, stdout=subprocess.PIPE, text=True
        )
        for name in "ab"
    ]
    results = [line for racer in racers for line in racer.communicate(timeout=120)[0].splitlines()]
    published = [int(line) for line in results if line != "lost"]
    assert len(results) == 60
    assert sorted(published) == list(range(1, len(published) + 1))
    manifest = Lake(tmp_path).read("shop", "shards", DAY)
    assert manifest is not None and manifest.generation == len(published)
    assert set(held(Lake(tmp_path))) == {"x"}


def test_f15_a_missing_input_is_named_and_refused_before_anything_is_written(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    with pytest.raises(TransientError, match="shop/shards 2026-01-01: deliveries 2025-12-31 is required and not built"):
        lake.materialize(plan(missing=("deliveries 2025-12-31",)), refuses, dataset="shop")
    assert not lake.day_folder("shop", "shards", DAY).exists()


def test_f17_an_input_whose_verdict_forbids_is_refused_even_where_a_result_stands(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.materialize(plan(), writes(x="1"), dataset="shop")
    with pytest.raises(DataError, match="deliveries 2026-01-01 failed bad_row_share"):
        lake.materialize(plan(blocked=("deliveries 2026-01-01 failed bad_row_share",)), refuses, dataset="shop")
    assert held(lake) == {"x": "1"}


def test_f17_a_refused_input_is_not_waited_for_though_another_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="bad_row_share"):
        Lake(tmp_path).materialize(
            plan(missing=("shards 2025-12-31",), blocked=("deliveries 2025-12-31 failed bad_row_share",)),
            refuses,
            dataset="shop",
        )


@pytest.mark.parametrize("damage", ["flip", "cut", "grow", "remove"])
def test_a_damaged_file_is_found_before_it_is_read(tmp_path: Path, damage: str) -> None:
    lake = Lake(tmp_path)
    made = lake.materialize(plan(), writes(x="1234"), dataset="shop").manifest
    path = lake.path(made, made.files[0])
    if damage == "remove":
        path.unlink()
    else:
        path.write_text({"flip": "1235", "cut": "123", "grow": "12345"}[damage])
    with pytest.raises(CorruptError, match=r"shop/shards 2026-01-01.*--rebuild --judge 0$"):
        lake.verified_path(made, made.files[0])


def test_a_pointer_that_cannot_be_read_is_an_error_and_not_an_unbuilt_day(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.materialize(plan(), writes(x="1"), dataset="shop")
    lake.pointer_path("shop", "shards", DAY).write_text('{"format": 1')
    with pytest.raises(CorruptError, match="no manifest of format 1"):
        lake.read("shop", "shards", DAY)
    with pytest.raises(CorruptError):
        lake.ledger("shop")


def test_the_ledger_is_the_state_of_all_days_or_of_those_asked_for(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    days = [DAY + timedelta(days=i) for i in range(4)]
    for day in days:
        lake.materialize(plan(day=day), writes(x="1"), dataset="shop")
    lake.pointer_path("shop", "shards", DAY).with_name(".2026-01-09.json.tmp").write_text("half")
    assert lake.ledger("shop").days("shards") == days
    assert lake.ledger("shop", first=days[1], last=days[2]).days("shards") == days[1:3]
    assert lake.ledger("shop", assets=("labels",)).days("shards") == []
    assert lake.ledger("other").days("shards") == []


def test_two_datasets_in_one_lake_never_touch_each_other(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.materialize(plan(), writes(x="1"), dataset="shop")
    lake.materialize(plan(), writes(x="2"), dataset="store")
    assert held(lake) == {"x": "1"}
    assert lake.sweep("store", older_than_s=-1) == 0


def test_facts_can_be_amended_without_touching_what_was_built(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    first = lake.materialize(plan(), writes(x="1"), dataset="shop").manifest
    amended = lake.amend(first, {"seen": True})
    assert (amended.generation, amended.facts, amended.files) == (2, {"seen": True}, first.files)
    assert not lake.materialize(plan(), refuses, dataset="shop").built
    with pytest.raises(TransientError):
        lake.amend(first, {"seen": False})


def test_the_sweep_keeps_what_is_referenced_and_what_is_young(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    lake.materialize(plan(), writes(x="1", y="2"), dataset="shop", attempt="first")
    lake.materialize(plan("b"), writes(x="1", y="3"), dataset="shop", attempt="second")
    lake.materialize(plan("c"), writes(x="1", y="4"), dataset="shop", attempt="third")
    folder = lake.day_folder("shop", "shards", DAY)
    assert lake.sweep("shop", older_than_s=3600) == 0
    old = time.time() - 7200
    for name in ("first", "second"):
        os.utime(folder / name, (old, old))
    assert lake.sweep("shop", older_than_s=3600) == 0, "replaced a moment ago: somebody may still read the old ones"
    os.utime(lake.pointer_path("shop", "shards", DAY), (old, old))
    assert lake.sweep("shop", older_than_s=3600) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["first", "third"]
    assert held(lake) == {"x": "1", "y": "4"}


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pointer.json"
    write_atomically(path, b"old")

    def dies(descriptor: int) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", dies)
        with pytest.raises(Killed):
            write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_a_lock_is_let_go_when_its_holder_fails(tmp_path: Path) -> None:
    with pytest.raises(Killed), locked(tmp_path / ".lock"):
        raise Killed
    with locked(tmp_path / ".lock"):
        pass


def test_a_pointer_is_readable_json_with_the_hash_of_the_cut(tmp_path: Path) -> None:
    def cut(folder: Path) -> Outcome:
        return Outcome(pieces=(), rows_in=0, rows_out=0, num_buckets=16)

    lake = Lake(tmp_path)
    lake.materialize(plan(), cut, dataset="shop")
    pointer = json.loads(lake.pointer_path("shop", "shards", DAY).read_text())
    assert (pointer["format"], pointer["bucket_hash"], pointer["num_buckets"]) == (1, "md5-low64-le/1", 16)
