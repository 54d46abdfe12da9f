"""Runs a training's ranks on this machine, below a supervisor, and says which rank failed."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from resources.contract.errors import TransientError
from resources.launcher.failure import beats, failure_of

log = logging.getLogger(__name__)

_POLL_S = 0.1


def _nothing() -> None:
    """What is done while waiting, when nobody asks for anything."""


def run(
    command: Sequence[str],
    *,
    ranks: int,
    env: Mapping[str, str],
    log_folder: Path,
    grace_s: float = 10.0,
    timeout_s: float = 600.0,
    while_waiting: Callable[[], None] = _nothing,
) -> None:
    """All ranks of `command` ran to their end, and none is left.

    Whatever is raised here, in `while_waiting` or by a signal, ends every process first. Two calls at once do not meet:
    each has a store on a port of its own.

    Args:
        command: what stands after `python`: a script or `-m module`, and its arguments.
        env: added to this process's environment.
        log_folder: a fresh folder; afterwards every rank's output, errors and beat are in it.
        grace_s: between TERM and KILL.
        timeout_s: the longest that no rank may enter a collective.
        while_waiting: called about ten times a second, and once more at the end.

    Raises:
        DataError, ConfigError, CorruptError: as the rank that failed first raised it.
        TransientError: a rank was killed, lost, or late.
        SlicewiseError: a rank failed with an exception that is none of ours.
    """
    log_folder.mkdir(parents=True, exist_ok=True)
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "--max-restarts", "0"]
    redirected = ["--redirects", "3", "--log-dir", str(log_folder / "torchrun")]
    supervisor = ["-m", "resources.launcher.supervisor", "--grace", f"{grace_s:g}", "--"]
    added = {
        # More cores mean more ranks. Two threads on two busy cores took 8 times as long as one (490,000 rows in batches
        # of 512, our measurement): at each of many small products they wait for each other. And bits depend on it.
        "OMP_NUM_THREADS": "1",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # without it CUDA's matrix products are not reproducible, and refused
        "GLOO_SOCKET_IFNAME": next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo"),
        # a restarted rank would else read the addresses of dead ranks from the agent's own store
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    with (log_folder / "agent.log").open("wb") as agent_log:
        process = subprocess.Popen(
            [sys.executable, *supervisor, sys.executable, "-m", *torchrun, *redirected, *command],
            stdin=subprocess.PIPE,  # the lifeline: the supervisor ends everything when we are gone
            stdout=agent_log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **added, **env},
        )
    assert process.stdin is not None
    silence = _Silence(log_folder, ranks)
    try:
        while process.poll() is None:
            while_waiting()
            if silence.seconds() > timeout_s:
                raise TransientError(silence.message(timeout_s))
            time.sleep(_POLL_S)
    finally:
        process.stdin.close()
        if process.poll() is None:
            log.warning(f"ended the {ranks} ranks of {log_folder}")
            process.wait()
    while_waiting()
    if process.returncode:
        raise failure_of(log_folder, ranks=ranks, exit_code=process.returncode)


class _Silence:
    """How long no rank has entered a collective; counted from when all of them have begun."""

    def __init__(self, log_folder: Path, ranks: int) -> None:
        self._log_folder, self._ranks = log_folder, ranks
        self._last: list[int] | None = None
        self._since = time.monotonic()

    def seconds(self) -> float:
        now = beats(self._log_folder, self._ranks)
        if now is None or now != self._last:
            self._last, self._since = now, time.monotonic()
        return time.monotonic() - self._since

    def message(self, timeout_s: float) -> str:
        assert self._last is not None
        late = self._last.index(min(self._last))
        return (
            f"no rank entered a collective for {timeout_s:g} s; rank {late} of {self._ranks} is the furthest behind, at "
            f"number {self._last[late]}. The job was ended: its logs are in {self._log_folder}."
        )
