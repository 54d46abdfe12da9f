"""Killed at any point and started again, the result is the same: content digests, weights, verdict."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mini import ROOT, Mini
from servers import processes_of, wait_for

from resources.contract.manifest import ASSETS
from resources.lake import Lake

DRIVER = Path(__file__).parent / "driver.py"
# in the order in which a run comes to them: each kill leaves the later ones still to be reached
STAGES = ("deliveries", "shards", "labels", "rollups", "features", "model", "evaluation", "champion")
FINISHED_POINTS = [f"{asset}:{point}" for asset in STAGES for point in ("begun", "written", "publishing", "published")]
RANDOM_MOMENTS = 10


def digests(shop: Mini) -> dict[tuple[str, str], str]:
    """Content digest of every built day of every asset."""
    ledger = shop.ledger()
    found = {(asset, day.isoformat()): ledger.get(asset, day) for asset in ASSETS for day in ledger.days(asset)}
    return {key: manifest.content_digest for key, manifest in found.items() if manifest is not None}


def small_shop(folder: Path) -> Mini:
    return Mini.write(folder, days=3, scale=0.02, window_days=2, epochs=2)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], str]:
    """What a run gives that nobody kills."""
    shop = small_shop(tmp_path_factory.mktemp("undisturbed"))
    done = shop.command("run", "shop", "--judge", "1")
    assert done.returncode == 0, done.stderr
    found = digests(shop)
    assert {asset for asset, _ in found} == set(ASSETS)
    return found


def run_until_killed(shop: Mini, point: str) -> int:
    """Exit code of a run that kills itself at a point."""
    environment = {**os.environ, **shop.environment, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(DRIVER), point, "run", "shop", "--judge", "1"]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False).returncode


def finish(shop: Mini) -> None:
    wait_for(
        "the killed run's processes to end", lambda: not processes_of(shop.home, "assets.training.worker"), timeout_s=30
    )
    done = shop.command("run", "shop", "--judge", "1")
    assert done.returncode == 0, done.stdout + done.stderr


def test_killed_at_named_points_of_every_stage(
    tmp_path: Path, undisturbed: dict[tuple[str, str], str], kill_all: bool
) -> None:
    shop = small_shop(tmp_path)
    points = FINISHED_POINTS if kill_all else ["shards:written", "features:publishing"]
    for point in points:
        assert run_until_killed(shop, point) == -signal.SIGKILL, point
    finish(shop)
    assert digests(shop) == undisturbed
    assert Lake(shop.home / "lake").sweep("shop", older_than_s=0) > 0, (
        "the kills left nothing behind: they came too late"
    )
    assert digests(shop) == undisturbed


def test_a_training_killed_at_a_checkpoint_ends_in_the_same_weights(
    tmp_path: Path, undisturbed: dict[tuple[str, str], str]
) -> None:
    shop = small_shop(tmp_path)
    environment = {**os.environ, **shop.environment}
    command = [sys.executable, "-m", "slicewise", "run", "shop", "--judge", "1"]
    running = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    checkpoints = shop.home / "lake" / "shop" / "checkpoints"
    wait_for(
        "a checkpoint",
        lambda: running.poll() is not None or any(checkpoints.rglob("step=*")),
        timeout_s=200,
        every_s=0.05,
    )
    running.send_signal(signal.SIGKILL)
    running.wait()
    finish(shop)
    assert digests(shop) == undisturbed


@pytest.mark.parametrize("attempt", range(RANDOM_MOMENTS))
def test_killed_at_a_random_moment(
    tmp_path: Path, undisturbed: dict[tuple[str, str], str], kill_all: bool, attempt: int
) -> None:
    if not kill_all and attempt:
        pytest.skip("one of ten; `make test-kill` runs them all")
    shop = small_shop(tmp_path)
    environment = {**os.environ, **shop.environment}
    command = [sys.executable, "-m", "slicewise", "run", "shop", "--judge", "1"]
    running = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    moment_s = random.Random(attempt).uniform(2, 30)
    deadline = time.monotonic() + moment_s
    while running.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()
    finish(shop)
    assert digests(shop) == undisturbed, f"killed after {moment_s:.2f} s"
