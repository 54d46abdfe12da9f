"""One shop's real lines, with real dirt, against counts that were made without us. Skipped where the data is not at hand."""

from __future__ import annotations

import csv
import gzip
import json
import logging
import time
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from assets.preprocessing import features, labels, rollups
from assets.sharding import cut
from resources.contract.dataset import Dataset, load_dataset
from resources.contract.days import days_between, instant_us
from resources.contract.manifest import Manifest
from resources.lake import Lake

log = logging.getLogger(__name__)

REPOSITORY = Path(__file__).parents[3]
DATA = REPOSITORY / "../shared/data/online_retail_2011-11"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"the Online Retail slice is not at {DATA}")


def delivered(dataset: Dataset, day: date) -> pa.Table:
    """A day's lines as typed rows, by the csv module and by hand."""
    path = DATA / f"{day}.csv.gz"
    if not path.exists():
        return dataset.row_schema.empty_table()
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    zone = ZoneInfo(str(dataset.time.zone))
    typed: dict[str, Callable[[str], Any]] = {"integer": int, "decimal": Decimal}
    instants = [instant_us(datetime.fromisoformat(line["InvoiceDate"]).replace(tzinfo=zone)) for line in lines]
    columns = {"event_time": pa.array(instants, pa.int64()).cast(pa.timestamp("us", "UTC"))}
    for source, column in dataset.columns.items():
        texts = [line[source].removesuffix(".0") if column.strip_decimal_zero else line[source] for line in lines]
        cast = typed.get(column.type, str)
        columns[str(column.as_)] = pa.array([cast(text) if text else None for text in texts], column.arrow_type)
    return pa.table(columns, schema=dataset.row_schema)


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return json.loads((DATA / "EXPECTED.json").read_text())


def test_every_day_has_the_exact_rows_users_repeats_examples_and_positives(
    lake: Lake, deliver: Callable[..., None], expected: dict[str, Any]
) -> None:
    dataset = load_dataset(REPOSITORY / "datasets/online_retail.yaml")
    assert dataset.days.last is not None
    days = list(days_between(dataset.days.first, dataset.days.last))
    deliver(dataset, {day: delivered(dataset, day) for day in days})
    for room in (cut, rollups, features, labels):
        started = time.monotonic()
        rows = sum(room.build(dataset, lake, day).manifest.rows_in for day in days)
        seconds = time.monotonic() - started
        log.info(f"{room.__name__}: {rows:,} rows of {len(days)} days in {seconds:.1f} s, {rows / seconds:,.0f} rows/s")

    ledger = lake.ledger(dataset.name)

    def of(asset: str, day: date) -> Manifest:
        manifest = ledger.get(asset, day)
        assert manifest is not None
        return manifest

    for day in days:
        counts, found = of("shards", day).counts, of("labels", day)
        wanted = expected["per_day"].get(str(day), {"rows": 0, "users": 0})
        assert {"rows": counts["good"], "users": counts["users"]} == wanted, day
        assert counts["duplicates"] == expected["duplicates_per_day"].get(str(day), 0), day
        assert counts["late"] == 0
        in_label = expected["label"]["per_day"].get(str(day))
        if in_label is None:
            assert str(day) in expected["days_without_file"]
            assert found.counts == {"examples": 0, "positives": 0}
        else:
            assert found.counts | {"mature": found.facts["complete"]} == in_label, day
        assert of("features", day).counts["examples"] == found.counts["examples"]
        assert of("features", day).facts["examples"] == found.facts["examples"]
        for asset in ("shards", "rollups", "features", "labels"):
            assert of(asset, day).blocked_by is None

    together = [of("shards", day).counts for day in days]
    assert sum(counts["good"] for counts in together) == expected["rows"] == 110_236
    assert sum(counts["without_user"] for counts in together) == expected["rows_without_user"] == 26_977
    assert sum(counts["duplicates"] for counts in together) == expected["exact_duplicates"] == 1_647
    mature = [of("labels", day) for day in days if of("labels", day).facts["complete"]]
    assert max(manifest.day for manifest in mature) == date(2011, 12, 2)
    assert sum(manifest.counts["examples"] for manifest in mature) == expected["label"]["examples_mature"] == 67_241
    assert sum(manifest.counts["positives"] for manifest in mature) == expected["label"]["positives_mature"] == 3_551

    for room in (cut, rollups, features, labels):
        assert not any(room.build(dataset, lake, day).built for day in days)
