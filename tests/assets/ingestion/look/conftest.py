"""Sample files in a temporary folder, the contract that is begun for them, and what it takes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from assets.ingestion.look.begin import Begun, begin
from assets.ingestion.look.samples import MAX_ROWS
from resources.contract.dataset import Dataset, parse_dataset

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

TODAY = date(2026, 7, 1)


@dataclass(frozen=True)
class Taken:
    """What a contract takes of the landed files: the good rows of all days, and the others by reason."""

    rows: pa.Table
    days: dict[str, int]
    quarantined: Counter[str]


@dataclass(frozen=True)
class Beginner:
    """Somebody with files and no contract."""

    room: Room

    def begin(self, **files: bytes | str | pa.Table) -> Begun:
        """The contract for files of these contents; `__` in a name stands for its point."""
        return self.begin_with({name.replace("__", "."): content for name, content in files.items()})

    def begin_with(self, files: dict[str, bytes | str | pa.Table], max_rows: int = MAX_ROWS) -> Begun:
        paths = [self.room.land(name, content) for name, content in files.items()]
        return begin(paths, name="shop", today=TODAY, max_rows=max_rows)

    def contract(self, begun: Begun | str) -> Dataset:
        """What the text says, for files that were written a moment ago."""
        text = begun if isinstance(begun, str) else begun.text
        dataset = parse_dataset(text, file="shop.yaml", variables={"LANDING": str(self.room.landing)})
        return dataset.model_copy(update={"source": dataset.source.model_copy(update={"settle_seconds": 0.0})})

    def taken(self, begun: Begun | str) -> Taken:
        """What is taken of the files that have landed, by the whole of ingestion."""
        dataset = self.contract(begun)
        rows, days, quarantined = [dataset.row_schema.empty_table()], Counter(), Counter()
        for day in self.room.scan(dataset).days():
            manifest = self.room.build(dataset, day).manifest
            rows.append(self.room.good(dataset, manifest))
            quarantined.update(manifest.quarantined)
            for entry in self.room.entries(manifest):
                days[str(entry.event_day)] += entry.rows
        return Taken(rows=pa.concat_tables(rows), days=dict(days), quarantined=quarantined)


@pytest.fixture
def beginner(room: Room) -> Beginner:
    return Beginner(room)


@pytest.fixture
def columns(beginner: Beginner) -> Callable[[dict[str, list[str]]], Dataset]:
    """A function from columns of texts to the contract that is begun for a CSV file of them, with users and times added."""

    def begun(texts: dict[str, list[str]]) -> Dataset:
        rows = len(next(iter(texts.values())))
        all_ = {
            "user_id": [f"u{row % 7}" for row in range(rows)],
            "at": [f"2026-03-01T00:{row // 60 % 60:02}:{row % 60:02}Z" for row in range(rows)],
            **texts,
        }
        lines = [
            ",".join(all_),
            *(",".join(f'"{v}"' if "," in v else v for v in row) for row in zip(*all_.values(), strict=True)),
        ]
        return beginner.contract(beginner.begin_with({"2026-03-01.csv": "\n".join(lines) + "\n"}))

    return begun
