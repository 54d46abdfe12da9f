"""The sensors as Dagster evaluates them, on an instance of their own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test
from mini import Mini

from assets.partitions import RANGE_END, RANGE_START
from definitions import build_definitions
from resources.deployments import Deployment
from resources.progress import Silence


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Mini:
    """Four days have landed within one interval; nothing is built."""
    return Mini.write(tmp_path_factory.mktemp("shop"), days=4, scale=0.002, window_days=2)


def tick(shop: Mini, instance: dg.DagsterInstance) -> tuple[Sequence[dg.RunRequest], str]:
    """What one tick of the sensor for new data asks for, or why it does not."""
    defs = build_definitions(Deployment.from_env(shop.environment), Silence())
    sensor = defs.get_repository_def().get_sensor_def("shop_new_data")
    found = sensor.evaluate_tick(dg.build_sensor_context(instance=instance, repository_def=defs.get_repository_def()))
    return found.run_requests or [], found.skip_message or ""


def days_of(request: dg.RunRequest, shop: Mini) -> list[str]:
    first, last = (request.tags.get(tag, request.partition_key) for tag in (RANGE_START, RANGE_END))
    return [day for day in shop.day_names if str(first) <= day <= str(last)]


def test_f5_four_days_that_landed_within_one_interval_are_all_asked_for(shop: Mini) -> None:
    """Case F5: a sensor that follows events would ask for the newest day alone."""
    requests, _ = tick(shop, dg.DagsterInstance.ephemeral())
    assert [day for request in requests for day in days_of(request, shop)] == shop.day_names


def test_f4_a_tick_asks_with_no_key_twice_and_the_same_again_until_dagster_has_a_run(shop: Mini) -> None:
    """Case F4, as far as it is ours: Dagster starts one run per key, also for a key that comes twice."""
    instance = dg.DagsterInstance.ephemeral()
    first, second = tick(shop, instance)[0], tick(shop, instance)[0]
    keys = [request.run_key for request in first]
    assert keys and len(set(keys)) == len(keys) and None not in keys
    assert [request.run_key for request in second] == keys
    for one, other in combinations(first, 2):
        assert not set(days_of(one, shop)) & set(days_of(other, shop)), "no day is in two runs"


def test_while_a_run_of_the_dataset_is_going_on_nothing_is_asked_for(shop: Mini) -> None:
    instance = dg.DagsterInstance.ephemeral()
    [request] = tick(shop, instance)[0]
    create_run_for_test(instance, job_name="shop_data", tags=dict(request.tags), status=dg.DagsterRunStatus.STARTED)
    requests, why = tick(shop, instance)
    assert not requests and "decided when it has ended" in why


@pytest.mark.parametrize(("status", "again"), [("FAILURE", True), ("CANCELED", False)])
def test_a_failed_run_is_asked_for_again_under_another_key_and_a_cancelled_one_is_not(
    shop: Mini, status: str, again: bool
) -> None:
    instance = dg.DagsterInstance.ephemeral()
    [request] = tick(shop, instance)[0]
    create_run_for_test(instance, job_name="shop_data", tags=dict(request.tags), status=dg.DagsterRunStatus(status))
    requests, why = tick(shop, instance)
    assert bool(requests) is again
    if again:
        assert requests[0].run_key != request.run_key
        assert dict(requests[0].tags) == dict(request.tags)
    else:
        assert "given up" in why
