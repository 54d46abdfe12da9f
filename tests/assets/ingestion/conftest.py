"""A landing folder and a lake in a temporary place, and a contract that is written in a line."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.ingestion import deliver
from assets.ingestion.chunk import Chunk
from assets.ingestion.files import LandedFile
from assets.ingestion.landing import Landing
from assets.ingestion.reading import read
from resources.contract.dataset import Dataset, parse_dataset
from resources.contract.manifest import FileEntry, Manifest
from resources.lake import Lake, Materialized

INPUTS = Path(__file__).resolve().parents[3] / "../shared/cases/inputs"
EVENTS = """
  event_id: {type: id}
  user_id: {as: user, type: id, required: false}
  item_id: {as: item, type: id}
  event_type: {as: kind, type: category}
  price: {type: decimal, at_least: 0, required: false}
"""
MARCH = date(2025, 3, 1)


@dataclass
class Room:
    """Where files land, and what becomes of them. `now` is a clock set by hand, long after every deadline."""

    root: Path
    now: datetime = datetime(2026, 7, 1, tzinfo=UTC)
    lake: Lake = field(init=False)

    def __post_init__(self) -> None:
        self.landing.mkdir(parents=True)
        self.lake = Lake(self.root / "lake")

    @property
    def landing(self) -> Path:
        return self.root / "landing"

    def dataset(
        self,
        columns: str = EVENTS,
        *,
        files: str = "{day}*",
        source: str = "format: csv",
        time: str = "column: event_time",
        days: str = "zone: UTC, first: 2025-03-01",
        user: str = "user",
        bad: float = 1.0,
        settle: float = 0,
    ) -> Dataset:
        text = f"""
name: shop
source: {{files: "{self.landing}/{files}", settle_seconds: {settle}, {source}}}
time: {{{time}}}
days: {{{days}}}
columns: {columns}
user: {{column: {user}}}
label: {{where: "true"}}
features: {{categories: [{user}]}}
bad_rows: {{at_most: {bad}}}
"""
        return parse_dataset(text, file="shop.yaml")

    def land(self, name: str, content: bytes | str | pa.Table, *, at: datetime | None = None) -> Path:
        """A file that has landed, at a moment that can be set."""
        path = self.landing / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, pa.Table):
            pq.write_table(content, path)
        else:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        if at is not None:
            os.utime(path, (at.timestamp(), at.timestamp()))
        return path

    def scan(self, dataset: Dataset) -> Landing:
        return Landing.scan(dataset, lake=self.lake, now=self.now)

    def build(self, dataset: Dataset, day: date = MARCH, *, rebuild: bool = False) -> Materialized:
        return deliver.build(dataset, self.lake, self.scan(dataset), day, now=self.now, rebuild=rebuild)

    def delivered(self, dataset: Dataset, content: bytes | str | pa.Table, *, name: str = "2025-03-01.csv") -> Manifest:
        """The manifest of the day on which this content has landed, alone."""
        self.land(name, content)
        return self.build(dataset, date.fromisoformat(name[:10])).manifest

    def entries(self, manifest: Manifest, *, event_day: date | None = None) -> list[FileEntry]:
        return [f for f in manifest.files if f.event_day and event_day in (None, f.event_day)]

    def good(self, dataset: Dataset, manifest: Manifest, *, event_day: date | None = None) -> pa.Table:
        """The good rows of a delivery, with exactly the contract's schema."""
        tables = [
            pq.read_table(self.lake.verified_path(manifest, f)) for f in self.entries(manifest, event_day=event_day)
        ]
        assert all(table.schema == dataset.row_schema for table in tables)
        return pa.concat_tables([dataset.row_schema.empty_table(), *tables])

    def quarantine(self, manifest: Manifest) -> list[dict]:
        entries = [f for f in manifest.files if f.event_day is None]
        return [row for f in entries for row in pq.read_table(self.lake.verified_path(manifest, f)).to_pylist()]

    def chunks(self, dataset: Dataset, content: bytes | str, *, name: str = "landed.csv") -> list[Chunk]:
        """What the reader gives of a file, before anything is typed."""
        status = self.land(name, content).stat()
        file = LandedFile(name=name, path=self.landing / name, bytes=status.st_size, modified_ns=status.st_mtime_ns)
        return list(read(dataset, file))


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@pytest.fixture(params=["made here", "given"])
def case(request: pytest.FixtureRequest):
    """A function from the name of a case's input and what the test would write itself to the bytes to use."""

    def content(name: str, own: bytes | str) -> bytes:
        if request.param == "made here":
            return own if isinstance(own, bytes) else own.encode()
        path = INPUTS / name
        if not path.exists():
            pytest.skip("the given inputs are not there")
        return path.read_bytes()

    return content
