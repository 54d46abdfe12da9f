"""Case F17: a day that failed its checks is refused by whatever reads it, in later runs and alone, not only in its own."""

from __future__ import annotations

import gzip
from datetime import date

import dagster as dg
import pytest
from mini import Mini

from assets.partitions import RANGE_END, RANGE_START
from definitions import build_definitions
from resources.contract.manifest import DATA_ASSETS, JUDGEMENT_ASSETS
from resources.deployments import Deployment
from resources.progress import Silence


def run(shop: Mini, first: date, last: date, *asset_names: str) -> tuple[bool, str]:
    """One run of these assets alone in this process: whether it succeeded, and what failed in it."""
    names = asset_names or DATA_ASSETS
    job = f"shop_{'data' if set(names) <= set(DATA_ASSETS) else 'judgement'}"
    tags = {RANGE_START: first.isoformat(), RANGE_END: last.isoformat()}
    defs = build_definitions(Deployment.from_env(shop.environment), Silence())
    result = defs.resolve_job_def(job).execute_in_process(
        instance=dg.DagsterInstance.ephemeral(),
        partition_key=first.isoformat() if first == last else None,
        tags=tags if first != last else {},
        asset_selection=[dg.AssetKey([shop.name, name]) for name in names],
        raise_on_error=False,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )
    failures = [event.step_failure_data.user_failure_data for event in result.all_events if event.is_step_failure]
    checks = [check for check in result.get_asset_check_evaluations() if not check.passed and check.blocking]
    return result.success, "\n".join(
        [
            *(failure.description or "" for failure in failures if failure),
            *(f"{check.asset_key.path[-1]} {check.check_name} {check.description}" for check in checks),
        ]
    )


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Mini:
    """Four days that are built to their labels; then the second one comes again, half of it unreadable."""
    made = Mini.write(tmp_path_factory.mktemp("shop"), days=4, scale=0.005, window_days=3)
    assert run(made, made.days[0], made.days[-1]) == (True, "")
    path = made.landing / f"{made.days[1]}.csv.gz"
    head, *lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    spoiled = [line if number % 2 else "no,row,of,the,contract" for number, line in enumerate(lines)]
    path.write_bytes(gzip.compress("\n".join([head, *spoiled, ""]).encode()))
    return made


def test_f17_the_day_is_refused_by_its_own_run_and_by_every_later_one(shop: Mini) -> None:
    spoiled, judged = shop.days[1], shop.days[-1]
    assert shop.ledger().get("labels", spoiled), "features and labels of its good content are still there"

    succeeded, why = run(shop, spoiled, spoiled)
    assert not succeeded
    assert why.startswith(f"deliveries bad_row_share {spoiled}: ")
    verdict = shop.ledger().get("deliveries", spoiled)
    assert verdict is not None and verdict.blocked_by is not None

    for day, asset in ((spoiled, "shards"), (shop.days[2], "shards"), (judged, "model")):
        succeeded, why = run(shop, day, day, asset)
        assert not succeeded
        assert f"shop/{asset} {day} is refused: deliveries {spoiled} failed bad_row_share" in why
    assert not any(shop.ledger().days(asset) for asset in JUDGEMENT_ASSETS)


def test_f17_a_range_that_holds_the_day_fails_and_names_it(shop: Mini) -> None:
    succeeded, why = run(shop, shop.days[0], shop.days[-1])
    assert not succeeded
    assert str(shop.days[1]) in why
    assert not any(str(day) in why for day in (shop.days[0], *shop.days[2:]))
