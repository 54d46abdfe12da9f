"""The day grid, and what a step reports of its days."""

from datetime import UTC, date, datetime
from pathlib import Path

import dagster as dg
import pytest

from assets.partitions import RANGE_END, RANGE_START, day_grid, metadata_of, walk_days
from resources.contract.dataset import Dataset, parse_dataset
from resources.contract.errors import DataError, TransientError
from resources.contract.manifest import Check, Plan
from resources.lake import Lake, Materialized, Outcome

CONTRACT = """
name: toy
source: {{files: "/landing/{{day}}.csv", format: csv}}
time: {{column: at}}
days: {{zone: {zone}, first: {first}}}
columns:
  who: {{type: id}}
  hit: {{type: flag}}
user: {{column: who}}
label: {{where: "hit"}}
features: {{categories: [who]}}
"""
CHECKS = {"small": (True, "few rows")}


def toy(zone: str = "UTC", first: str = "2025-03-01") -> Dataset:
    return parse_dataset(CONTRACT.format(zone=zone, first=first), file="toy.yaml")


def test_a_day_is_the_local_one() -> None:  # case F9
    window = day_grid(toy("Asia/Shanghai")).time_window_for_partition_key("2025-03-05")
    assert window.start.astimezone(UTC) == datetime(2025, 3, 4, 16, tzinfo=UTC)
    assert window.end.astimezone(UTC) == datetime(2025, 3, 5, 16, tzinfo=UTC)


@pytest.mark.parametrize(("zone", "last"), [("Asia/Shanghai", "2025-03-10"), ("UTC", "2025-03-09")])
def test_a_day_is_a_partition_once_it_is_over_in_its_zone(zone: str, last: str) -> None:  # case F9
    moment = datetime(2025, 3, 10, 16, 30, tzinfo=UTC)
    assert day_grid(toy(zone)).get_partition_keys(current_time=moment)[-1] == last


def test_the_grid_ends_where_the_contract_says() -> None:
    ended = toy().model_copy(update={"days": toy().days.model_copy(update={"last": date(2025, 3, 3)})})
    assert day_grid(ended).get_partition_keys() == ["2025-03-01", "2025-03-02", "2025-03-03"]


def make(lake: Lake, day: date, *, rows: int, passed: bool = True) -> Materialized:
    """A day of an asset of so many rows."""

    def write(folder: Path) -> Outcome:
        del folder
        check = Check(name="small", passed=passed, blocking=True, message=f"{rows} rows")
        return Outcome(pieces=(), rows_in=rows, rows_out=rows, checks=(check,))

    return lake.materialize(Plan(asset="shards", day=day, contract_digest="c", logic_version=1), write, dataset="toy")


def run_range(
    build, first: str, last: str, *, retry: bool = False
) -> tuple[dg.ExecuteInProcessResult, dg.DagsterInstance]:
    """One run over a range of days of a toy asset that is built by `build`."""
    grid = day_grid(toy())
    key = dg.AssetKey(["toy", "shards"])
    policy = dg.RetryPolicy(max_retries=2) if retry else None

    @dg.asset(
        key=key,
        partitions_def=grid,
        retry_policy=policy,
        check_specs=[dg.AssetCheckSpec("small", asset=key, blocking=True)],
    )
    def shards(context: dg.AssetExecutionContext):
        yield from walk_days(context, CHECKS, build, advance=lambda *_: None)

    instance = dg.DagsterInstance.ephemeral()
    job = dg.Definitions([shards], jobs=[dg.define_asset_job("all_days", [shards])]).resolve_job_def("all_days")
    tags = {RANGE_START: first, RANGE_END: last}
    return job.execute_in_process(instance=instance, tags=tags, raise_on_error=False), instance


def test_each_day_of_a_range_run_has_its_own_row_count(tmp_path: Path) -> None:  # cases F11, F13
    lake = Lake(tmp_path)
    _, instance = run_range(lambda day, _: make(lake, day, rows=100 + day.day), "2025-03-01", "2025-03-03")
    records = instance.fetch_materializations(dg.AssetKey(["toy", "shards"]), limit=10).records
    found = {
        r.partition_key: r.asset_materialization.metadata["rows_out"].value for r in records if r.asset_materialization
    }
    assert found == {"2025-03-01": 101, "2025-03-02": 102, "2025-03-03": 103}


def test_a_day_that_fails_does_not_stop_the_others_and_the_step_names_it(tmp_path: Path) -> None:
    lake = Lake(tmp_path)

    def build(day: date, _: bool) -> Materialized:
        if day.day == 2:
            raise DataError("toy.csv is damaged. Land it again.")
        return make(lake, day, rows=1)

    result, _ = run_range(build, "2025-03-01", "2025-03-03", retry=True)
    assert not result.success
    assert lake.ledger("toy").days("shards") == [date(2025, 3, 1), date(2025, 3, 3)]
    failures = [e for e in result.all_events if e.is_step_failure]
    assert len(failures) == 1, "a DataError is not retried"
    assert "toy.csv is damaged" in str(failures[0].step_failure_data.user_failure_data)


def test_a_transient_failure_is_retried_and_only_the_missing_day_is_built(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    calls: list[date] = []

    def build(day: date, _: bool) -> Materialized:
        calls.append(day)
        if day.day == 2 and calls.count(day) == 1:
            raise TransientError("deliveries 2025-03-01 is being built. Wait.")
        return make(lake, day, rows=1)

    result, _ = run_range(build, "2025-03-01", "2025-03-02", retry=True)
    assert result.success
    assert calls.count(date(2025, 3, 2)) == 2
    assert {m.generation for day in (1, 2) if (m := lake.read("toy", "shards", date(2025, 3, day)))} == {1}


def test_a_failed_check_names_its_day_although_a_range_run_has_none(tmp_path: Path) -> None:
    lake = Lake(tmp_path)
    result, _ = run_range(lambda day, _: make(lake, day, rows=1, passed=day.day != 2), "2025-03-01", "2025-03-03")
    (evaluation,) = result.get_asset_check_evaluations()
    assert not evaluation.passed
    assert "2025-03-02" in str(evaluation.metadata["failed_days"].value)


def test_the_verdict_stands_first_on_a_days_page(tmp_path: Path) -> None:
    shown = metadata_of(make(Lake(tmp_path), date(2025, 3, 1), rows=5, passed=False).manifest)
    assert next(iter(shown)) == "verdict"
    assert shown["verdict"] == "small: 5 rows"
