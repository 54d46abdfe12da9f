"""Real processes below a real torchrun. The ranks import no torch where they need none: it costs seconds."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from resources.contract.errors import TransientError
from resources.launcher import local

SLEEPS = """
import os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
(folder / f"rank{os.environ['RANK']}.pid").write_text(str(os.getpid()))
time.sleep(600)
"""
MEETS = """
import pathlib, sys, time
import torch
from assets.training.worker.group import from_env
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    folder = pathlib.Path(sys.argv[1])
    group = from_env(timeout_s=float(sys.argv[2]), log_folder=folder / "logs")
    total = torch.tensor([group.rank + 1.0])
    group.add_up(total)
    gathered = group.gather(torch.full((2, 3), group.rank))
    assert gathered[:, 0].tolist() == [0, 0, 1, 1], gathered
    assert group.from_first(group.rank + 5) == 5
    if group.rank == 0:
        (folder / "total").write_text(str(total.item()))
    if group.rank == 1:
        time.sleep(float(sys.argv[3]))
    group.add_up(total)
    group.close()

main()
"""


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "rank.py"
    path.write_text(text)
    return str(path)


def run(tmp_path: Path, text: str, *arguments: str, ranks: int = 2, **options: object) -> None:
    folder = tmp_path / "logs"
    command = [script(tmp_path, text), str(tmp_path), *arguments]
    local.run(command, ranks=ranks, env={}, log_folder=folder, grace_s=2.0, **options)  # pyright: ignore[reportArgumentType]


def living(tmp_path: Path) -> list[psutil.Process]:
    """Every living process that was started for this test."""
    return [
        process
        for process in psutil.process_iter(["cmdline", "status"])
        if str(tmp_path) in " ".join(process.info["cmdline"] or []) and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def left_of(tmp_path: Path) -> list[str]:
    return [" ".join(process.info["cmdline"]) for process in living(tmp_path)]


@pytest.fixture(autouse=True)
def no_leftovers(tmp_path: Path) -> Iterator[None]:
    """What a failing test leaves running is ended with it."""
    yield
    for process in living(tmp_path):
        process.kill()


def wait_for_pids(tmp_path: Path, ranks: int = 2) -> list[int]:
    deadline = time.monotonic() + 60
    while len(pids := [p.read_text() for p in sorted(tmp_path.glob("rank*.pid")) if p.read_text()]) < ranks:
        assert time.monotonic() < deadline, "the ranks did not begin"
        time.sleep(0.05)
    return [int(pid) for pid in pids]


def test_two_jobs_at_once_do_not_meet(tmp_path: Path) -> None:  # case D24
    errors: list[BaseException] = []

    def job(folder: Path) -> None:
        folder.mkdir()
        try:
            run(folder, MEETS, "60", "0")
        except BaseException as error:  # noqa: BLE001  shown by the assertion below
            errors.append(error)

    jobs = [threading.Thread(target=job, args=(tmp_path / name,)) for name in ("one", "two")]
    for thread in jobs:
        thread.start()
    for thread in jobs:
        thread.join()
    assert errors == []
    assert [(tmp_path / name / "total").read_text() for name in ("one", "two")] == ["3.0", "3.0"]
    assert left_of(tmp_path) == []


def test_a_slow_rank_ends_the_job_within_the_timeout_and_is_named(tmp_path: Path) -> None:  # case D3
    started = time.monotonic()
    with pytest.raises(TransientError, match="rank 1 of 2 did not come to collective 4 in time") as caught:
        run(tmp_path, MEETS, "2", "100")
    assert time.monotonic() - started < 60
    assert "rank 0 waited in all-reduce" in str(caught.value)
    assert left_of(tmp_path) == []


class Interrupted(BaseException):
    """Like Dagster's interruption: no Exception."""


def test_an_interruption_of_the_caller_ends_every_process_and_is_raised_again(tmp_path: Path) -> None:
    def interrupt() -> None:
        if len(list(tmp_path.glob("rank*.pid"))) == 2:
            raise Interrupted

    with pytest.raises(Interrupted):
        run(tmp_path, SLEEPS, while_waiting=interrupt)
    assert left_of(tmp_path) == []


CALLER = """
import sys
from pathlib import Path
from resources.launcher import local
folder = Path(sys.argv[1])
local.run([str(folder / "rank.py"), str(folder)], ranks=2, env={}, log_folder=folder / "logs", grace_s=2.0)
"""


def test_a_killed_caller_leaves_no_process(tmp_path: Path) -> None:
    script(tmp_path, SLEEPS)
    caller = subprocess.Popen([sys.executable, "-c", CALLER, str(tmp_path)])
    try:
        wait_for_pids(tmp_path)
    finally:
        caller.kill()
        caller.wait()
    deadline = time.monotonic() + 30
    while left_of(tmp_path):
        assert time.monotonic() < deadline, left_of(tmp_path)
        time.sleep(0.1)


def test_a_killed_torchrun_leaves_no_rank(tmp_path: Path) -> None:
    def kill_torchrun() -> None:
        if len(list(tmp_path.glob("rank*.pid"))) == 2:
            rank = psutil.Process(wait_for_pids(tmp_path)[0])
            parent = rank.parent()
            if parent is not None and "torch.distributed.run" in parent.cmdline():
                parent.send_signal(signal.SIGKILL)

    with pytest.raises(TransientError, match="before any rank said why"):
        run(tmp_path, SLEEPS, while_waiting=kill_torchrun)
    assert left_of(tmp_path) == []


BEATS = """
import os, pathlib, sys, time
from resources.launcher.failure import Beat
beat = Beat(pathlib.Path(sys.argv[1]) / "logs", int(os.environ["RANK"]))
for _ in range(5 - int(os.environ["RANK"])):
    beat()
time.sleep(600)
"""


def test_ranks_that_all_fall_silent_are_ended_and_the_furthest_behind_is_named(tmp_path: Path) -> None:  # case D3
    with pytest.raises(TransientError, match=r"no rank entered a collective for 1 s; rank 1 of 2 .*number 4"):
        run(tmp_path, BEATS, timeout_s=1.0)
    assert left_of(tmp_path) == []
