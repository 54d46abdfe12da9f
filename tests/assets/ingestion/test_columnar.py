"""Parquet: typed columns say exactly what they said."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from assets.ingestion import columnar
from assets.ingestion.columnar import _text
from resources.contract.errors import DataError

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

PARQUET = "format: parquet"
INSTANT = datetime(2025, 3, 1, 12, 30, 0, 123456)


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array([9007199254740993, None, -1]), ["9007199254740993", None, "-1"]),
        (pa.array([2**64 - 1], pa.uint64()), ["18446744073709551615"]),
        (pa.array([17850.0, 12.75, -0.5, 1e15, 1e300, None]), ["17850.0", "12.75", "-0.5", "1000000000000000.0", "1e+300", None]),
        (pa.array([0.1, 3], pa.float32()), ["0.1", "3.0"]),
        (pa.array([float("nan"), float("inf")]), ["nan", "inf"]),
        (pa.array(np.array([0.5, 2], np.float16)), ["0.5", "2.0"]),
        (pa.array([Decimal("12.750"), Decimal("-1")], pa.decimal128(10, 3)), ["12.750", "-1.000"]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array(["NO", "007", ""]), ["NO", "007", ""]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
        (pa.array(["a"], pa.large_string()), ["a"]),
        (pa.array([date(2025, 3, 1)]), ["2025-03-01"]),
        (pa.array([INSTANT], pa.timestamp("us")), ["2025-03-01 12:30:00.123456"]),
        (pa.array([INSTANT], pa.timestamp("ns")), ["2025-03-01 12:30:00.123456000"]),
        (pa.array([INSTANT.replace(tzinfo=UTC)], pa.timestamp("us", "Europe/Berlin")), ["2025-03-01 12:30:00.123456Z"]),
    ],
)  # fmt: skip
def test_a_typed_value_becomes_the_text_that_says_the_same(column: pa.Array, texts: list[Any]) -> None:
    assert _text(column, "c", file="f").to_pylist() == texts


@pytest.mark.parametrize("column", [pa.array([[1]]), pa.array([{"a": 1}]), pa.array([b"x"])])
def test_what_is_no_single_text_is_refused_with_file_and_column(room: Room, column: pa.Array) -> None:
    dataset = room.dataset("{u: {as: user, type: id}}", source=PARQUET)
    with pytest.raises(DataError, match=r"2025-03-01\.csv: column 'u' is of type"):
        room.delivered(dataset, pa.table({"u": column, "event_time": [INSTANT]}))


def test_rows_are_numbered_and_shown_in_quarantine(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "_BATCH_ROWS", 2)
    dataset = room.dataset(
        "{u: {as: user, type: id}, n: {type: integer}}", source=PARQUET, time="column: event_time, zone: UTC"
    )
    table = pa.table({"n": [1.0, 2.5, None], "event_time": [INSTANT] * 3, "u": ["a", "b", "c"], "x": [[1]] * 3})
    manifest = room.delivered(dataset, table)
    assert room.good(dataset, manifest).to_pylist() == [
        {"event_time": INSTANT.replace(tzinfo=UTC), "user": "a", "n": 1}
    ]
    assert [(row["line"], row["column"], row["reason"], row["raw"]) for row in room.quarantine(manifest)] == [
        (2, "n", "not_an_integer", '{"event_time": "2025-03-01 12:30:00.123456", "u": "b", "n": "2.5"}'),
        (3, "n", "missing", '{"event_time": "2025-03-01 12:30:00.123456", "u": "c", "n": null}'),
    ]
    assert manifest.facts["landed"]["2025-03-01.csv"]["extra_columns"] == ["x"]


def test_instants_finer_than_a_microsecond_are_not_rounded(room: Room) -> None:
    times = pa.array([1740787200_000000000, 1740787200_000000001, 1740787200_000001000], pa.timestamp("ns", "UTC"))
    dataset = room.dataset("{u: {as: user, type: id}}", source=PARQUET)
    manifest = room.delivered(dataset, pa.table({"u": ["a", "b", "c"], "event_time": times}))
    good = room.good(dataset, manifest)["event_time"].cast(pa.int64()).to_pylist()
    assert good == [1740787200_000000, 1740787200_000001]
    assert [(row["line"], row["reason"]) for row in room.quarantine(manifest)] == [(2, "not_exact")]


def test_a_missing_required_column_and_a_damaged_file_are_refused_by_name(room: Room) -> None:
    dataset = room.dataset("{u: {as: user, type: id}}", source=PARQUET)
    with pytest.raises(DataError, match=r"2025-03-01\.csv has no column 'event_time'"):
        room.delivered(dataset, pa.table({"u": ["a"]}))
    with pytest.raises(DataError, match=r"2025-03-01\.csv is damaged"):
        room.delivered(dataset, b"PAR1 is not enough")
