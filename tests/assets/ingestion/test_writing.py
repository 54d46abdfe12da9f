"""Files that share a part: copied when others change, taken out again when they turn out to be damaged."""

from __future__ import annotations

import gzip
import hashlib
import threading
from datetime import date
from typing import TYPE_CHECKING

import pytest

from assets.ingestion import blocks, joined, parts, unpacking
from resources.contract.manifest import Check, Manifest

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.assets.ingestion.conftest import Room

D1, D2, D3 = date(2025, 3, 1), date(2025, 3, 2), date(2025, 3, 3)
HEAD = "event_id,user_id,item_id,event_time,event_type,price\n"


def row(number: int, day: date | str = D3, price: str = "1") -> str:
    return f"{number},u,i,{day}T10:00:00Z,view,{price}\n"


def ids(room: Room, manifest: Manifest) -> list[int]:
    """The events of a delivery, good ones and those in quarantine."""
    good = room.good(room.dataset(), manifest)["event_id"].to_pylist()
    return sorted(map(int, [*good, *(line["raw"].split(",")[0] for line in room.quarantine(manifest))]))


def check_of(manifest: Manifest, name: str) -> Check:
    return next(check for check in manifest.checks if check.name == name)


def read_names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read from now on."""
    names: list[str] = []
    real = blocks.joined

    def recorded(dataset, files: Iterable):
        return real(dataset, [file for file in files if not names.append(file.name)])

    monkeypatch.setattr(blocks, "joined", recorded)
    return names


def fresh_digest(room: Room, tmp_path: Path) -> str:
    """What a lake that sees the landing as it is now for the first time holds of the day."""
    known, room.lake = room.lake, type(room.lake)(tmp_path / "fresh")
    try:
        return room.build(room.dataset(), D3).manifest.content_digest
    finally:
        room.lake = known


def test_small_files_share_a_part_and_each_keeps_its_rows(room: Room) -> None:
    for number in range(20):
        room.land(
            f"2025-03-03_{number:02}.csv", HEAD + row(number) + row(100 + number, D2) + row(200 + number, D3, "x")
        )
    manifest = room.build(room.dataset(), D3).manifest
    assert sorted((f.whole, f.rows) for f in manifest.files) == [
        ("event_day=2025-03-02", 20),
        ("event_day=2025-03-03", 20),
        ("quarantine", 20),
    ]
    assert {(line["file"], line["line"], line["raw"].split(",")[0]) for line in room.quarantine(manifest)} == {
        (f"2025-03-03_{number:02}.csv", 4, f"{200 + number}") for number in range(20)
    }
    fact = manifest.facts["landed"]["2025-03-03_07.csv"]
    assert (fact["rows"], fact["days"], fact["quarantined"]) == (3, {"2025-03-02": 1, "2025-03-03": 1}, 1)


def test_when_one_of_many_changes_the_others_are_copied(
    room: Room, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dataset = room.dataset()
    for number in range(9):
        room.land(f"2025-03-03_{number}.csv", HEAD + row(number) + row(10 + number, D2) + row(20 + number, D3, "x"))
    room.build(dataset, D3)
    read = read_names(monkeypatch)
    room.land("2025-03-03_4.csv", HEAD + row(4) + row(44))
    (room.landing / "2025-03-03_7.csv").unlink()
    second = room.build(dataset, D3).manifest
    assert read == ["2025-03-03_4.csv"]
    assert ids(room, second) == sorted(
        [*range(9), *(10 + n for n in range(9) if n != 4), *(20 + n for n in range(9) if n != 4), 44]
    )
    room.land("2025-03-03_7.csv", HEAD + row(7) + row(17, D2) + row(27, D3, "x"))
    assert second.content_digest == fresh_digest(room, tmp_path)


def test_a_file_under_a_new_name_is_copied_and_its_quarantine_names_it(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = room.dataset(source="format: csv, on_delete: retract")
    room.land("2025-03-03_b.csv", HEAD + row(1) + row(2, D3, "x"))
    room.build(dataset, D3)
    read = read_names(monkeypatch)
    (room.landing / "2025-03-03_b.csv").rename(room.landing / "2025-03-03_c.csv")
    renamed = room.build(dataset, D3)
    assert renamed.built and read == []
    assert ids(room, renamed.manifest) == [1, 2]
    assert [line["file"] for line in room.quarantine(renamed.manifest)] == ["2025-03-03_c.csv"]


@pytest.mark.parametrize("ending", [".csv.gz", ".csv"])
def test_one_file_that_cannot_be_read_is_left_out_by_name_and_the_others_go_on(room: Room, ending: str) -> None:
    dataset, sound = room.dataset(), HEAD + row(1) + row(2, D3, "x")
    room.land(f"2025-03-03_a{ending}", gzip.compress(sound.encode()) if ending == ".csv.gz" else sound)
    damaged = gzip.compress((HEAD + row(3)).encode())[:-4] if ending == ".csv.gz" else HEAD.encode() + b"\xff\n"
    room.land(f"2025-03-03_b{ending}", damaged)
    room.land("2025-03-03_c.csv", "event_id\n1\n")  # required columns are missing
    manifest = room.build(dataset, D3).manifest
    assert ids(room, manifest) == [1, 2] and manifest.blocked_by is None
    refused = {name: fact["refused"] for name, fact in manifest.facts["landed"].items() if "refused" in fact}
    assert set(refused) == {f"2025-03-03_b{ending}", "2025-03-03_c.csv"}
    assert all(name in why for name, why in refused.items())
    read = check_of(manifest, "files_read")
    assert (read.passed, read.blocking, read.value) == (False, False, 2)
    assert "2 of 3 files could not be read: " in read.message
    assert manifest.counts["refused_files"] == 2


def test_where_one_bad_file_stops_the_day_it_does(room: Room) -> None:
    room.land("2025-03-03_a.csv", HEAD + row(1))
    room.land("2025-03-03_b.csv", b"\xff")
    manifest = room.build(room.dataset(source="format: csv, bad_files: stop"), D3).manifest
    assert manifest.blocked_by is not None and manifest.blocked_by.startswith(
        "files_read: 1 of 2 files could not be read"
    )
    skipping = room.build(room.dataset(), D3)  # nothing has to be read again for that
    assert skipping.built and skipping.manifest.blocked_by is None


def test_a_refused_file_is_read_again_when_it_or_the_contract_changes_and_else_not(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.land("2025-03-03_a.csv", HEAD + row(1))
    room.land("2025-03-03_b.csv", HEAD.encode() + b"2,u,i,2025-03-03T10:00:00Z,caf\xe9,1\n")
    assert ids(room, room.build(room.dataset(), D3).manifest) == [1]
    read = read_names(monkeypatch)
    room.land("2025-03-03_c.csv", HEAD + row(3))
    assert ids(room, room.build(room.dataset(), D3).manifest) == [1, 3] and read == ["2025-03-03_c.csv"]
    mended = room.build(room.dataset(source="format: csv, encoding: latin-1"), D3).manifest
    assert ids(room, mended) == [1, 2, 3] and "refused" not in mended.facts["landed"]["2025-03-03_b.csv"]


@pytest.mark.parametrize("small", [True, False])
def test_a_file_that_turns_out_to_be_damaged_behind_some_of_its_rows_leaves_none_of_them(
    room: Room, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, small: bool
) -> None:
    if not small:  # blocks go to the writer before the damage shows
        monkeypatch.setattr(unpacking, "BLOCK_BYTES", 200)
        monkeypatch.setattr(blocks, "_BLOCK_ROWS", 3)
        monkeypatch.setattr(joined, "_SMALL_BYTES", 0)
        monkeypatch.setattr(joined, "_SMALL_PACKED_BYTES", 0)
    dataset = room.dataset()
    many = "".join(row(number, (D2, D3)[number % 2], "x" if number % 5 == 0 else "1") for number in range(100, 150))
    room.land("2025-03-03_a.csv", HEAD + row(1) + row(2, D2) + row(3, D3, "x"))
    room.land("2025-03-03_b.csv", HEAD.encode() + many.encode() + b"9,u,i,2025-03-03T10:00:00Z,caf\xe9,1\n")
    room.land("2025-03-03_c.csv", HEAD + row(4) + row(5, D2) + row(6, D3, "x"))
    manifest = room.build(dataset, D3).manifest
    assert ids(room, manifest) == [1, 2, 3, 4, 5, 6] and manifest.blocked_by is None
    assert manifest.facts["landed"]["2025-03-03_b.csv"]["rows"] == 0
    room.land("2025-03-03_d.csv", HEAD + row(7))  # and they are found again where they lie now
    assert ids(room, room.build(dataset, D3).manifest) == [1, 2, 3, 4, 5, 6, 7]
    room.land("2025-03-03_b.csv", HEAD + many)
    assert ids(room, room.build(dataset, D3).manifest) == [*range(1, 8), *range(100, 150)]


def test_a_checksum_beside_a_file_vouches_for_it_and_refuses_another_content(room: Room) -> None:
    dataset, content = room.dataset(), HEAD + row(1)
    room.land("2025-03-03_a.csv", content)
    without = room.build(dataset, D3).manifest
    assert without.facts["unverifiable"] == 1
    room.land("2025-03-03_a.csv.md5", hashlib.md5(content.encode()).hexdigest())
    with_one = room.build(dataset, D3)
    assert with_one.built and with_one.manifest.facts["unverifiable"] == 0
    assert with_one.manifest.facts["landed"]["2025-03-03_a.csv"]["verified_by"] == "md5 sidecar"
    assert with_one.manifest.content_digest == without.content_digest and not room.build(dataset, D3).built
    room.land("2025-03-03_a.csv.md5", hashlib.md5(b"another").hexdigest())
    refused = room.build(dataset, D3).manifest
    assert refused.blocked_by is not None and "2025-03-03_a.csv has the md5" in refused.blocked_by
    room.land("2025-03-03_a.csv.md5", "no checksum at all")
    unclear = room.build(dataset, D3).manifest
    assert unclear.blocked_by is not None and "2025-03-03_a.csv.md5 must hold the md5" in unclear.blocked_by
    (room.landing / "2025-03-03_a.csv.md5").unlink()
    assert room.build(dataset, D3).manifest.content_digest == without.content_digest


def test_a_file_that_nobody_may_read_is_left_out_until_somebody_may(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = room.dataset()
    room.land("2025-03-03_a.csv", HEAD + row(1))
    room.land("2025-03-03_b.csv", HEAD + row(2))
    real = type(room.root).open

    def refusing(path: Path, *arguments, **options):
        if path.name == "2025-03-03_b.csv":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments, **options)

    monkeypatch.setattr(type(room.root), "open", refusing)
    manifest = room.build(dataset, D3).manifest
    assert ids(room, manifest) == [1]
    assert "Permission denied" in manifest.facts["landed"]["2025-03-03_b.csv"]["refused"]
    monkeypatch.undo()
    assert ids(room, room.build(dataset, D3).manifest) == [1, 2]


def test_a_build_leaves_no_thread_and_no_open_file(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_LEAST_BYTES", 100)
    monkeypatch.setattr(joined, "_SMALL_BYTES", 0)
    for number in range(12):
        room.land(
            f"2025-03-03_{number:02}.csv", HEAD + "".join(row(i, (D1, D2, D3)[i % 3]) for i in range(30)) + row(number)
        )
    before = threading.active_count()
    manifest = room.build(room.dataset(), D3).manifest
    assert manifest.counts["good"] == 12 * 31 and len({f.name.split("/")[1] for f in manifest.files}) > 1
    assert threading.active_count() == before
