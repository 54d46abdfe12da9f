"""Files in a store or on the web end in the same deliveries as the same files in a folder."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from seaweed import S3
from web import Page, WebServer

from assets.ingestion.check import check_sample
from resources import transfer
from resources.contract.dataset import Dataset
from resources.contract.errors import ConfigError, TransientError
from resources.remote import RemoteFile

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

FIRST = date(2025, 3, 1)
DAYS = [FIRST + timedelta(n) for n in range(3)]
HEADER = "event_id,user_id,item_id,event_time,event_type,price\n"


def content(day: date, *, price: int = 1) -> bytes:
    """A day with a good row of the day before, and a bad one."""
    rows = [f"{day}-{i},u{i % 9},i,{day - timedelta(i % 50 == 7)}T0{i % 9}:00:00Z,view,{price}\n" for i in range(500)]
    return gzip.compress((HEADER + "".join(rows) + f"x,u,i,{day}T00:00:00Z,view,-1\n").encode(), mtime=0)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLICEWISE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(transfer, "_WAIT_S", 0.001)
    return tmp_path / "home"


@pytest.fixture
def stored(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bytes], str]:
    """Puts a file into a folder of this test's own in the store; its address."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return lambda name, data: s3.put(f"{tmp_path.name}/{name}", data)


def at(room: Room, address: str, *, source: str = "format: csv", days: str = "") -> Dataset:
    dataset = room.dataset(source=source, days=f"zone: UTC, first: 2025-02-28, last: 2025-03-04{days}")
    return dataset.model_copy(update={"source": dataset.source.model_copy(update={"files": address})})


def contents(room: Room, dataset: Dataset) -> dict[date, object]:
    found = {}
    for day in DAYS:
        manifest = room.build(dataset, day).manifest
        facts = manifest.facts["landed"]
        found[day] = (
            manifest.content_digest,
            manifest.counts,
            manifest.quarantined,
            {n: (fact["rows"], fact.get("verified_by")) for n, fact in facts.items()},
        )
    return found


def in_a_folder(room: Room) -> dict[date, object]:
    for day in DAYS:
        room.land(f"{day}.csv.gz", content(day))
    return contents(room, at(room, f"{room.landing}/{{day}}.csv.gz"))


def test_days_in_an_object_store_are_delivered_as_those_in_a_folder(
    room: Room, tmp_path: Path, stored: Callable[[str, bytes], str], home: Path
) -> None:
    from tests.assets.ingestion.conftest import Room

    for day in DAYS:
        stored(f"in/{day}.csv.gz", content(day))
    other = Room(tmp_path / "other")
    dataset = at(other, f"s3://landing/{tmp_path.name}/in/{{day}}.csv.gz")
    assert contents(other, dataset) == in_a_folder(room)
    assert not [path for path in (home / "fetched").rglob("*") if path.is_file()]
    assert not other.build(dataset, DAYS[0]).built
    stored(f"in/{DAYS[0]}.csv.gz", content(DAYS[0], price=2))
    again = other.build(dataset, DAYS[0])
    assert again.built and again.manifest.counts["good"] == 500
    # the same content under a second name adds nothing, and is known without fetching it
    both = at(other, f"s3://landing/{tmp_path.name}/in/{{day}}*.csv.gz")
    stored(f"in/{DAYS[0]}-again.csv.gz", content(DAYS[0], price=2))
    manifest = other.build(both, DAYS[0]).manifest
    assert manifest.counts["good"] == 500 and manifest.counts["files"] == 1


def test_days_on_the_web_are_delivered_as_those_in_a_folder(room: Room, tmp_path: Path, web: WebServer) -> None:
    from tests.assets.ingestion.conftest import Room

    for day in DAYS:
        web.pages[f"/in/{day}.csv.gz"] = Page(data=content(day), end_after=100, times=2)
    other = Room(tmp_path / "other")
    dataset = at(other, f"{web.address}/in/{{day}}.csv.gz")
    assert contents(other, dataset) == in_a_folder(room)
    before = len(web.asked)
    assert not other.build(dataset, DAYS[0]).built
    assert [method for method, _, _ in web.asked[before:]] == ["HEAD"] * 5  # from 2025-02-28 to 2025-03-04
    del web.pages[f"/in/{DAYS[0]}.csv.gz"]  # what disappears keeps its rows
    assert other.build(dataset, DAYS[0]).manifest.counts["good"] == 500


def test_files_that_are_not_marked_yet_wait_in_a_store_too(
    room: Room, tmp_path: Path, stored: Callable[[str, bytes], str]
) -> None:
    dataset = at(room, f"s3://landing/{tmp_path.name}/in/{{day}}*", source='format: csv, ready: "{file}.done"')
    stored(f"in/{FIRST}.csv.gz", content(FIRST))
    with pytest.raises(TransientError, match="not marked as whole"):
        room.build(dataset, FIRST)
    stored(f"in/{FIRST}.csv.gz.done", b"")
    assert room.build(dataset, FIRST).manifest.counts["good"] == 500


def test_a_damaged_file_of_a_store_is_left_out_by_name_and_a_plain_one_is_vouched_for_by_it(
    room: Room, tmp_path: Path, stored: Callable[[str, bytes], str], home: Path
) -> None:
    dataset = at(room, f"s3://landing/{tmp_path.name}/in/{{day}}*")
    stored(f"in/{FIRST}-1.csv.gz", content(FIRST)[:-5])
    stored(f"in/{FIRST}-2.csv", gzip.decompress(content(FIRST)))
    manifest = room.build(dataset, FIRST).manifest
    landed = manifest.facts["landed"]
    assert f"{FIRST}-1.csv.gz is damaged" in landed[f"{FIRST}-1.csv.gz"]["refused"]
    assert landed[f"{FIRST}-2.csv"]["verified_by"] == "its server's md5"
    assert manifest.counts["good"] == 500 and manifest.facts["unverifiable"] == 0
    assert not [path for path in (home / "fetched").rglob("*") if path.is_file()]


def test_the_files_of_a_day_are_fetched_ahead_by_one_transfer(
    room: Room, tmp_path: Path, stored: Callable[[str, bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    real = transfer.Transfer.ahead

    def ahead(self: transfer.Transfer, files: Iterable[RemoteFile]) -> None:
        wanted = list(files)
        asked.append([file.name for file in wanted])
        real(self, wanted)

    monkeypatch.setattr(transfer.Transfer, "ahead", ahead)
    for part in range(3):
        stored(f"in/{FIRST}-{part}.csv.gz", content(FIRST, price=part + 1))
    dataset = at(room, f"s3://landing/{tmp_path.name}/in/{{day}}-*")
    assert room.build(dataset, FIRST).manifest.counts["files"] == 3
    assert asked == [[f"{FIRST}-{part}.csv.gz" for part in range(3)]]


def test_exports_in_a_store_are_read_once_into_the_days_that_they_hold(
    room: Room, tmp_path: Path, stored: Callable[[str, bytes], str]
) -> None:
    dataset = at(room, f"s3://landing/{tmp_path.name}/in/*.csv")
    stored("in/all.csv", gzip.decompress(content(DAYS[1])))
    assert room.build(dataset, DAYS[0]).manifest.counts["good"] == 10
    assert room.build(dataset, DAYS[1]).manifest.counts["good"] == 490


def test_a_look_at_a_sample_reaches_into_a_store_and_says_who_must_act_where_it_cannot(
    room: Room, tmp_path: Path, stored: Callable[[str, bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = at(room, f"s3://landing/{tmp_path.name}/in/{{day}}.csv.gz")
    stored(f"in/{FIRST}.csv.gz", content(FIRST))
    [finding] = check_sample(dataset, room.scan(dataset))
    assert (finding.file, finding.rows) == (f"{FIRST}.csv.gz", 1)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "anotherword")
    with pytest.raises(ConfigError, match="cannot be read as it is set up") as raised:
        room.scan(dataset)
    assert "anotherword" not in str(raised.value)
