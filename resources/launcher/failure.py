"""Who failed first: a reading of what the ranks of a job left behind.

When one rank dies, the others fail too, in the collective that it did not take part in. torchrun blames whoever it
saw first, and a rank that was killed leaves no word at all, so a surviving victim's "Connection reset by peer" would
be taken for the cause. Here a rank tells by `PeerLost` that it is a victim, and every rank counts the collectives that
it entered (`Beat`), so that among ranks that only waited the late one is known.
"""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from resources.contract.errors import ConfigError, CorruptError, DataError, SlicewiseError, TransientError

_OURS = {error.__name__: error for error in (ConfigError, DataError, TransientError, CorruptError)}
_TAIL_CHARS = 1500
# One failed rank in the report that torch.distributed.run writes at its end (ChildFailedError.format_msg, torch 2.13).
_REPORTED = re.compile(r"rank\s+: (\d+) \(local_rank: \d+\)\s+exitcode\s+: (-?\d+) \(pid: \d+\)")


class PeerLost(TransientError):
    """Another rank did not take part in a collective: this rank is a victim, not the cause."""


class Beat:
    """A rank's count of the collectives that it entered, in a file that its launcher can read at any time."""

    def __init__(self, log_folder: Path, rank: int) -> None:
        log_folder.mkdir(parents=True, exist_ok=True)
        self._count = np.memmap(_beat_path(log_folder, rank), dtype=np.int64, mode="w+", shape=(1,))

    def __call__(self) -> None:
        self._count[0] += 1


def _beat_path(log_folder: Path, rank: int) -> Path:
    return log_folder / f"rank{rank}.beat"


def beats(log_folder: Path, ranks: int) -> list[int] | None:
    """The collectives that each rank entered so far, or None while a rank has not begun."""
    paths = [_beat_path(log_folder, rank) for rank in range(ranks)]
    if not all(path.exists() and path.stat().st_size for path in paths):
        return None
    return [int(np.fromfile(path, dtype=np.int64, count=1)[0]) for path in paths]


@dataclass(frozen=True, kw_only=True)
class RankEnd:
    """What is known of how one rank ended. `exit_code` is negative for a signal, None while torchrun says nothing."""

    rank: int
    exit_code: int | None = None
    error: str | None = None  # the exception's class
    message: str = ""
    time_s: int = 0  # of the exception
    beat: int = 0


def root_cause(ends: Sequence[RankEnd]) -> RankEnd | None:
    """The rank that failed by itself, or None when no rank says anything.

    In this order, each being the possible consequence of those before it: an exception of its own; a signal other than
    the TERM by which torchrun ends the others; an exit code; being late, while the others waited for it.
    """
    own = [end for end in ends if end.error not in (None, PeerLost.__name__)]
    if own:
        return min(own, key=lambda end: (end.time_s, end.rank))
    for failed in (
        [end for end in ends if end.exit_code is not None and end.exit_code < 0 and end.exit_code != -signal.SIGTERM],
        [end for end in ends if end.exit_code is not None and end.exit_code > 0 and end.error is None],
    ):
        if failed:
            return failed[0]
    if any(end.error == PeerLost.__name__ for end in ends):
        return min(ends, key=lambda end: (end.beat, end.error is not None, end.rank))
    return None


def ends_in(log_folder: Path, ranks: int) -> list[RankEnd]:
    """How every rank ended, from its error file, torchrun's report and its beat."""
    agent = _text(log_folder / "agent.log")
    exit_codes = {int(rank): int(code) for rank, code in _REPORTED.findall(agent)}
    counts = beats(log_folder, ranks) or [0] * ranks
    ends = []
    for rank in range(ranks):
        error, message, time_s = None, "", 0
        for path in log_folder.glob(f"torchrun/*/attempt_*/{rank}/error.json"):
            told = json.loads(path.read_text(encoding="utf-8"))["message"]
            error, _, message = str(told["message"]).partition(": ")
            time_s = int(told["extraInfo"]["timestamp"])
        ends.append(
            RankEnd(
                rank=rank,
                exit_code=exit_codes.get(rank),
                error=error,
                message=message,
                time_s=time_s,
                beat=counts[rank],
            )
        )
    return ends


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _tail(path: Path) -> str:
    return _text(path)[-_TAIL_CHARS:].strip()


def _how(end: RankEnd, ends: Sequence[RankEnd]) -> str:
    if end.error is not None and end.error != PeerLost.__name__:
        return f"failed with {end.error}: {end.message}"
    waited = [other.message for other in ends if other.error == PeerLost.__name__ and other.rank != end.rank]
    if end.exit_code is not None and end.exit_code < 0 and end.exit_code != -signal.SIGTERM:
        name = signal.Signals(-end.exit_code).name
        return f"was killed by {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"
    if waited:
        return f"did not come to collective {end.beat + 1} in time, and the others waited: {waited[0]}"
    return f"ended with exit code {end.exit_code}"


def failure_of(log_folder: Path, *, ranks: int, exit_code: int) -> SlicewiseError:
    """The error of a job that ended with `exit_code`: it names the rank that really failed, how, and its last words.

    An exception of ours keeps its class. A rank that was killed, lost or late is a TransientError.
    """
    ends = ends_in(log_folder, ranks)
    end = root_cause(ends)
    if end is None:
        return TransientError(
            f"the training's launcher ended with exit code {exit_code} before any rank said why. "
            f"Its last words, from {log_folder}:\n{_tail(log_folder / 'agent.log')}"
        )
    words = "\n".join(_tail(path) for path in log_folder.glob(f"torchrun/*/attempt_*/{end.rank}/stderr.log"))
    text = (
        f"rank {end.rank} of {ranks} {_how(end, ends)}. The job ended with it. "
        f"Its last words, from {log_folder}:\n{words or '(none)'}"
    )
    if end.error == PeerLost.__name__ or (end.error is None and (end.exit_code or 0) <= 0):
        return TransientError(text)
    return _OURS.get(end.error or "", SlicewiseError)(text)
