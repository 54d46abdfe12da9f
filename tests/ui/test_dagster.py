"""Dagster as a person uses it: a backfill from the page, sensors at work, a cancelled and a killed training."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from mini import Mini
from playwright.sync_api import sync_playwright
from servers import Servers, dagster_servers, parent_of, processes_of, wait_for

from resources.contract.manifest import ASSETS, DATA_ASSETS

WORKER = "assets.training.worker"
CHROMIUM = [
    *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"),
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Mini:
    """Five small days of a shop whose training takes minutes, so that it can be cancelled."""
    return Mini.write(tmp_path_factory.mktemp("shop"), days=5, scale=0.02, window_days=3, epochs=100)


@pytest.fixture(scope="module")
def servers(shop: Mini) -> Iterator[Servers]:
    with dagster_servers(shop.environment, shop.folder) as running:
        yield running


@pytest.mark.timeout(600)
def test_a_backfill_from_the_page_completes_and_the_sensors_take_over(servers: Servers, shop: Mini) -> None:
    days = shop.day_names
    backfill = servers.backfill(shop.name, DATA_ASSETS, days)
    wait_for(
        "the backfill",
        lambda: servers.backfill_status(backfill) in ("COMPLETED_SUCCESS", "COMPLETED", "COMPLETED_FAILED", "FAILED"),
        timeout_s=240,
    )
    assert servers.backfill_status(backfill) in ("COMPLETED_SUCCESS", "COMPLETED")
    ledger = shop.ledger()
    assert {asset: len(ledger.days(asset)) for asset in DATA_ASSETS} == dict.fromkeys(DATA_ASSETS, len(days))

    before = ledger.get("deliveries", shop.days[-1])
    assert before is not None
    shop.rewrite_last_day()
    shop.land_another_day()

    def both_are_in() -> bool:
        now = shop.ledger()
        rewritten, added = now.get("deliveries", shop.days[-1]), now.get("labels", shop.next_day)
        return rewritten is not None and rewritten.content_digest != before.content_digest and added is not None

    wait_for("the sensors to take a rewritten and a new file", both_are_in, timeout_s=240, every_s=2)
    asked = servers.runs(dagster__sensor_name=f"{shop.name}_new_data")
    assert asked, "the days were built, but not by the sensor"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["cancelled from the page", "step killed with SIGKILL"])
def test_a_training_that_ends_early_leaves_no_process(servers: Servers, shop: Mini, how: str) -> None:
    # the sensor may already train the newest day: whichever training runs is the one to end
    if not processes_of(shop.home, WORKER):
        running = [run for run in servers.runs() if run["status"] in ("QUEUED", "STARTING", "STARTED")]
        if not any("judged" in str(run["tags"]) for run in running):
            servers.launch(f"{shop.name}_judgement", shop.days[-1].isoformat())
    wait_for("a training", lambda: len(processes_of(shop.home, WORKER)) >= 3, timeout_s=180)
    run_id = next(run["runId"] for run in servers.runs() if run["status"] == "STARTED" and shop.is_judgement(run))
    if how.startswith("cancelled"):
        servers.terminate(run_id)
    else:
        os.kill(step_process(shop.home), signal.SIGKILL)
    wait_for("every training process to end", lambda: not processes_of(shop.home, WORKER), timeout_s=60)
    if how.startswith("cancelled"):
        wait_for("the run to be CANCELED", lambda: servers.status(run_id) == "CANCELED", timeout_s=120)
    else:
        wait_for("the run to be FAILURE", lambda: servers.status(run_id) == "FAILURE", timeout_s=240, every_s=2)


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not on this machine")
def test_the_page_shows_the_graph_of_the_shop(servers: Servers, shop: Mini) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=CHROMIUM)
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(f"{servers.url}/asset-groups", wait_until="domcontentloaded")
        for asset in ASSETS:
            page.get_by_text(asset, exact=True).first.wait_for(timeout=60_000)
        browser.close()


def step_process(home: Path) -> int:
    """The process that runs the step: the parent of the supervisor of the training."""
    supervisor = next(
        pid
        for pid in processes_of(home, "resources.launcher.supervisor")
        if "torch.distributed.run" in Path(f"/proc/{pid}/cmdline").read_text()
    )
    return parent_of(supervisor)
