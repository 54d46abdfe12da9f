import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

# a child that starts a grandchild in a session of its own, as torchrun does, and writes both process ids
FAMILY = """
import os, signal, subprocess, sys, time
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
inner = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
grandchild = subprocess.Popen([sys.executable, "-c", inner], start_new_session=True)
open(sys.argv[1] + ".tmp", "w").write(f"{os.getpid()} {grandchild.pid}")
os.rename(sys.argv[1] + ".tmp", sys.argv[1])
time.sleep(600 if "exits" not in sys.argv else 0)
"""


@pytest.fixture
def family(tmp_path: Path) -> Iterator[list[psutil.Process]]:
    """Filled by `started` with the processes below the supervisor; killed at the end, should a test have failed."""
    processes: list[psutil.Process] = []
    yield processes
    for process in processes:
        if process.is_running():
            process.kill()


def supervised(*command: str, grace_s: float = 0.3) -> list[str]:
    return [sys.executable, "-m", "resources.launcher.supervisor", "--grace", str(grace_s), "--", *command]


def started(tmp_path: Path, family: list[psutil.Process], *words: str) -> subprocess.Popen[bytes]:
    told = tmp_path / "pids"
    command = supervised(sys.executable, "-c", FAMILY, str(told), *words)
    supervisor = subprocess.Popen(command, stdin=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not told.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    family += [psutil.Process(int(pid)) for pid in told.read_text().split()]
    return supervisor


def all_gone(family: list[psutil.Process], *, within_s: float = 20) -> bool:
    deadline = time.monotonic() + within_s
    while any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize(
    ("code", "expected"), [("raise SystemExit(7)", 7), ("pass", 0), ("import os; os.kill(os.getpid(), 9)", 137)]
)
def test_the_exit_code_of_the_command_is_kept(code: str, expected: int) -> None:
    with subprocess.Popen(supervised(sys.executable, "-c", code), stdin=subprocess.PIPE) as process:
        assert process.wait(60) == expected


def test_the_end_of_the_starter_ends_a_stubborn_family_in_other_sessions(
    tmp_path: Path, family: list[psutil.Process]
) -> None:
    supervisor = started(tmp_path, family, "stubborn")
    assert supervisor.stdin is not None
    supervisor.stdin.close()
    assert supervisor.wait(30) == 128 + signal.SIGKILL
    assert all_gone(family)


def test_term_ends_the_whole_family(tmp_path: Path, family: list[psutil.Process]) -> None:
    supervisor = started(tmp_path, family)
    supervisor.send_signal(signal.SIGTERM)
    assert supervisor.wait(30) == 128 + signal.SIGTERM
    assert all_gone(family)


def test_what_the_command_leaves_behind_is_ended_when_it_is_killed(
    tmp_path: Path, family: list[psutil.Process]
) -> None:
    supervisor = started(tmp_path, family)
    os.kill(family[0].pid, signal.SIGKILL)
    assert supervisor.wait(30) == 128 + signal.SIGKILL
    assert all_gone(family)


def test_what_the_command_leaves_behind_is_ended_when_it_is_done(tmp_path: Path, family: list[psutil.Process]) -> None:
    supervisor = started(tmp_path, family, "exits")
    assert supervisor.wait(30) == 0
    assert all_gone(family)


def test_a_killed_supervisor_takes_the_command_along(tmp_path: Path, family: list[psutil.Process]) -> None:
    supervisor = started(tmp_path, family)
    supervisor.kill()
    assert all_gone(family[:1])
