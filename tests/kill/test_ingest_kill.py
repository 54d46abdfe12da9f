"""A big day's delivery, killed at random moments: what is visible is whole or not there, and the re-run ends the same."""

from __future__ import annotations

import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from mini import ROOT

from resources.contract.manifest import Manifest
from resources.lake import Lake

SCRIPT = Path(__file__).parent / "ingest.py"
spec = importlib.util.spec_from_file_location("ingest", SCRIPT)
assert spec is not None and spec.loader is not None
ingest = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ingest)


def started(folder: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, str(SCRIPT), str(folder)], cwd=ROOT, env=environment)


def visible(folder: Path) -> Manifest | None:
    """The published day, all of whose files have the checksums that it names."""
    lake = Lake(folder / "lake")
    manifest = lake.read("shop", "deliveries", ingest.DAY)
    if manifest is not None:
        for entry in manifest.files:
            lake.verified_path(manifest, entry)
    return manifest


def files_below(folder: Path) -> set[str]:
    lake = folder / "lake"
    found = {str(path.relative_to(lake)) for path in lake.rglob("*") if path.is_file()}
    return {path for path in found if not path.endswith(".lock")}


def test_a_day_killed_at_random_moments_ends_as_if_it_never_had_been(tmp_path: Path, kill_all: bool) -> None:
    rows, kills = (5_000_000, 30) if kill_all else (400_000, 3)
    ingest.land(tmp_path, rows=rows)
    begun = time.monotonic()
    assert started(tmp_path).wait() == 0
    whole_s = time.monotonic() - begun
    undisturbed = visible(tmp_path)
    assert undisturbed is not None and undisturbed.rows_in == rows // ingest.FILES * ingest.FILES
    assert undisturbed.counts["quarantined"] > 0
    chance = random.Random(3)
    hit = 0
    for _ in range(kills):
        shutil.rmtree(tmp_path / "lake")
        running = started(tmp_path)
        # the first half second is Python's own
        time.sleep(chance.uniform(min(0.5, whole_s / 2), whole_s))
        running.send_signal(signal.SIGKILL)
        hit += running.wait() == -signal.SIGKILL
        seen = visible(tmp_path)
        assert seen is None or seen.content_digest == undisturbed.content_digest
        assert started(tmp_path).wait() == 0
        again = visible(tmp_path)
        assert again is not None and again.content_digest == undisturbed.content_digest
        assert again.counts == undisturbed.counts
        lake = Lake(tmp_path / "lake")
        lake.sweep("shop", older_than_s=-1)
        lake.sweep("shop", older_than_s=-1)
        whole = visible(tmp_path)
        assert whole is not None
        named = {str(lake.path(whole, entry).relative_to(lake.root)) for entry in whole.files}
        assert files_below(tmp_path) == {
            *named,
            str(lake.pointer_path("shop", "deliveries", ingest.DAY).relative_to(lake.root)),
        }
    assert hit >= kills // 2, "most kills came after the end"
