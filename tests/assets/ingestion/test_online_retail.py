"""Real data with real dirt: one shop's November, to the row."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest

from resources.contract.dataset import load_dataset
from resources.contract.days import days_between

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "../shared/data/online_retail_2011-11"


@pytest.mark.skipif(not FOLDER.exists(), reason="the Online Retail slice is not there")
def test_every_day_of_online_retail_has_exactly_its_rows(room: Room) -> None:
    dataset = load_dataset(ROOT / "datasets/online_retail.yaml", variables={"LANDING": str(FOLDER.resolve())})
    expected = json.loads((FOLDER / "EXPECTED.json").read_text())
    users, revenue, without_user = set(), Decimal(0), 0
    for day in days_between(dataset.days.first, dataset.days.last or date.max):
        manifest = room.build(dataset, day).manifest
        wanted = expected["per_day"].get(str(day), {"rows": 0, "users": 0})
        table = room.good(dataset, manifest)
        of_day = set(table["user"].drop_null().to_pylist())
        assert (manifest.counts["delivered"], manifest.counts["good"]) == (wanted["rows"],) * 2
        assert {entry.event_day for entry in manifest.files} <= {day}
        assert len(of_day) == wanted["users"]
        assert manifest.facts["empty"] is (str(day) in expected["days_without_file"])
        users |= of_day
        without_user += table["user"].null_count
        revenue += pc.sum(pc.multiply(table["price"], table["quantity"])).as_py() or 0
    assert len(users) == expected["users"] and not any(user.endswith(".0") for user in users)
    assert without_user == expected["rows_without_user"]
    assert revenue == Decimal(expected["revenue"])
