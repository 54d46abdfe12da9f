"""Runs a command so that none of its descendants outlives it, or whoever asked for it.

    python -m resources.launcher.supervisor --grace 10 -- command ...

torchrun gives every rank a session of its own, so killing its process group reaches none of them, and a starter that
dies of SIGKILL tells nobody. Three things make the end certain here:

- the starter's life is our standard input, a pipe whose other end it alone holds: end-of-file means it is gone;
- we are a child subreaper, so that a process whose parent died becomes our child and stays in sight;
- the end is TERM to all descendants, a grace, then KILL, repeated until nobody is left.

The command's exit code is kept (128 + n after signal n).
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType

import psutil

log = logging.getLogger(__name__)

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # <linux/prctl.h>
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_S = 0.05
_KILL_TRIES = 30


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _descendants() -> list[psutil.Process]:
    """Every living process below this one, also those whose own parent died."""
    living = []
    for process in psutil.Process().children(recursive=True):
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                living.append(process)
        except psutil.NoSuchProcess:
            continue
    return living


def _send(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


def _all_ended(child: subprocess.Popen[bytes], *, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while _descendants():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
        child.poll()  # or it would stay a zombie
    return True


def end_descendants(child: subprocess.Popen[bytes], *, grace_s: float) -> None:
    """No descendant is alive: TERM, up to `grace_s` seconds, then KILL until nobody is left."""
    _send(_descendants(), signal.SIGTERM)
    if _all_ended(child, within_s=grace_s):
        return
    log.warning(f"killed what did not end within {grace_s:g} s: {sorted(p.pid for p in _descendants())}")
    for _ in range(_KILL_TRIES):
        _send(_descendants(), signal.SIGKILL)  # again and again: a process may have started another meanwhile
        if _all_ended(child, within_s=1.0):
            return
    log.error(f"could not kill {sorted(p.pid for p in _descendants())}: the kernel holds them, look at the machine")


def supervise(command: Sequence[str], *, grace_s: float) -> int:
    """Exit code of `command`, after which nothing that it started is alive. Call it once, in a process of its own."""
    stopped: list[str] = []  # appending is safe in a signal handler, setting an Event is not

    def stop(number: int, _: FrameType | None) -> None:
        stopped.append(signal.Signals(number).name)

    def follow_lifeline() -> None:
        while os.read(sys.stdin.fileno(), 512):
            pass
        stopped.append("its starter is gone")

    def begin() -> None:  # in the child, before the command: nothing of ours may be inherited
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # where somebody kills the supervisor itself

    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    for number in _STOP_SIGNALS:
        signal.signal(number, stop)
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=begin)
    threading.Thread(target=follow_lifeline, daemon=True).start()
    while child.poll() is None and not stopped:
        time.sleep(_POLL_S)
    if stopped:
        log.warning(f"ended {command[0]}: {stopped[0]}")
    end_descendants(child, grace_s=grace_s)
    code = child.wait()
    if code < 0:
        return 128 - code
    return 130 if stopped and code == 0 else code


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Runs a command; no descendant outlives it or its starter.")
    parser.add_argument("--grace", type=float, default=10.0, help="seconds between TERM and KILL")
    parser.add_argument("command", nargs="+", help="after --: the command and its arguments")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="supervisor: %(message)s")
    return supervise(options.command, grace_s=options.grace)


if __name__ == "__main__":
    sys.exit(main())
