"""The programs of benchmarks/ingest.py do the same work. How fast each is, a test does not ask."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
ROWS = 2_000


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Modules of the benchmark by name, as its own processes import them."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in [name for name in sys.modules if name.split(".")[0] in ("ingest", "ingest_rivals")]:
        del sys.modules[name]


@pytest.mark.parametrize("format", ["parquet", "csv.gz", "jsonl.gz"])
@pytest.mark.parametrize("who", ["ours", "DuckDB", "Polars", "pyarrow"])
def test_a_program_finds_what_was_planted(program: Any, tmp_path: Path, who: str, format: str) -> None:  # noqa: A002
    ingest = program("ingest")
    shape = ingest.shape_for(who, ingest.Shape(format=format, rows=ROWS, files=2, seed=7, bad=0.05))
    assert ingest.measured(who, shape, tmp_path, compare=True)["wrong"] == []


@pytest.mark.parametrize("files", [1, 20])
def test_tiny_files_hold_the_same_rows(program: Any, tmp_path: Path, files: int) -> None:
    ingest = program("ingest")
    shape = ingest.Shape(format="csv", rows=ROWS // 4, files=files)
    assert ingest.measured("ours", shape, tmp_path, compare=True)["wrong"] == []


def test_a_result_that_lost_rows_is_told(program: Any, tmp_path: Path) -> None:
    event_day, taken, ours = (program(f"ingest_rivals.{name}") for name in ("event_day", "taken", "ours"))
    day = event_day.landed_day(tmp_path, event_day.Shape(format="csv.gz", rows=ROWS, files=2))
    found = ours.take(day, tmp_path)
    fewer = dict(sorted(found.good.items())[1:])  # without the rows that came a day late
    wrong = taken.differences(day, taken.Taken(good=fewer, quarantine=found.quarantine, duplicates=found.duplicates))
    assert [text.split(":")[0] for text in wrong] == ["good rows", "sums of the good rows"]
