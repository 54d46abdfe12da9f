"""The whole pipeline on real data with real dirt, against counts that were made by other means."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from resources.contract.manifest import Ledger
from resources.deployments import CODE, Deployment
from resources.lake import Lake

DATA = (CODE / "../shared/data/online_retail_2011-11").resolve()

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the Online Retail slice is not on this machine")


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A home in which the slice was run, its last two judgeable days judged."""
    home = tmp_path_factory.mktemp("retail")
    environment = {"SLICEWISE_HOME": str(home), "LANDING_ONLINE_RETAIL": str(DATA)}
    done = slicewise(environment, "run", "online_retail")
    assert done.returncode == 0, done.stderr
    return environment


def slicewise(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "slicewise", *arguments]
    return subprocess.run(
        command, cwd=CODE, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return json.loads((DATA / "EXPECTED.json").read_text())


@pytest.fixture(scope="module")
def days(environment: dict[str, str]) -> dict[str, dict[str, Any]]:
    found = json.loads(slicewise(environment, "status", "online_retail", "--json").stdout)
    return {row["day"]: row for row in found["days"]}


@pytest.fixture(scope="module")
def ledger(environment: dict[str, str]) -> Ledger:
    return Lake(Deployment.from_env(environment).lake).ledger("online_retail")


def test_rows_users_and_duplicates_of_every_day_are_exact(
    days: dict[str, dict[str, Any]], expected: dict[str, Any]
) -> None:
    for day, wanted in expected["per_day"].items():
        row = days[day]
        assert (row["delivered"], row["quarantined"], row["good"]) == (wanted["rows"], 0, wanted["rows"]), day
        assert row["users"] == wanted["users"], day
        assert row["duplicates"] == expected["duplicates_per_day"].get(day, 0), day
    assert sum(row["without_user"] for row in days.values()) == expected["rows_without_user"]


def test_saturdays_without_a_file_are_empty_days(days: dict[str, dict[str, Any]], expected: dict[str, Any]) -> None:
    empty = [day for day, row in days.items() if row["delivered"] == 0]
    assert empty == expected["days_without_file"]
    assert all(days[day]["shards"] == "built" for day in empty)


def test_examples_and_positives_of_every_mature_day_are_exact(
    days: dict[str, dict[str, Any]], ledger: Ledger, expected: dict[str, Any]
) -> None:
    for day in ledger.days("labels"):
        labels = ledger.get("labels", day)
        assert labels is not None
        wanted = expected["label"]["per_day"].get(day.isoformat())
        if wanted is None:
            continue  # a Saturday
        assert labels.counts["examples"] == wanted["examples"], day
        assert (days[day.isoformat()]["labels"] == "built") == wanted["mature"], day
        if wanted["mature"]:
            assert labels.counts["positives"] == wanted["positives"], day


def test_the_last_two_mature_days_have_a_verdict_with_its_interval(
    days: dict[str, dict[str, Any]], ledger: Ledger
) -> None:
    judged = {day: row["verdict"] for day, row in days.items() if row["verdict"] is not None}
    assert list(judged) == ["2011-12-01", "2011-12-02"]
    assert set(judged.values()) <= {"promote", "keep", "undecided"}
    for day in ledger.days("champion"):
        champion, evaluation = ledger.get("champion", day), ledger.get("evaluation", day)
        assert champion is not None
        assert evaluation is not None
        assert champion.facts["reason"]
        assert 0.0 < evaluation.facts["metrics"]["candidate"]["auc"] < 1.0
        low, high = champion.facts["interval"]
        assert low <= champion.facts["difference"] <= high
