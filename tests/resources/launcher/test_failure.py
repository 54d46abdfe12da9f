from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from resources.contract.errors import ConfigError, CorruptError, DataError, SlicewiseError, TransientError
from resources.launcher.failure import Beat, RankEnd, beats, failure_of, root_cause

KILLED = RankEnd(rank=1, exit_code=-signal.SIGKILL, beat=7)
VICTIM = RankEnd(rank=0, exit_code=1, error="PeerLost", message="Connection reset by peer", time_s=5, beat=8)
ENDED = RankEnd(rank=0, exit_code=-signal.SIGTERM, beat=8)  # by torchrun, since another one failed
LATE = RankEnd(rank=2, exit_code=-signal.SIGTERM, beat=3)
WRONG = RankEnd(rank=2, exit_code=1, error="ValueError", message="no", time_s=9, beat=3)
WRONG_LATER = RankEnd(rank=0, exit_code=1, error="KeyError", message="no", time_s=10, beat=9)
ABORTED = RankEnd(rank=0, exit_code=-signal.SIGABRT, beat=8)
SILENT = RankEnd(rank=1, exit_code=3, beat=8)
UNKNOWN = RankEnd(rank=1)


@pytest.mark.parametrize(
    ("ends", "cause"),
    [
        ([VICTIM, KILLED], KILLED),
        ([ENDED, KILLED], KILLED),
        ([VICTIM, UNKNOWN, WRONG], WRONG),
        ([WRONG_LATER, WRONG], WRONG),
        ([ABORTED, WRONG], WRONG),
        ([VICTIM, ENDED, LATE], LATE),
        ([VICTIM, SILENT], SILENT),
        ([ENDED, UNKNOWN], None),
        ([VICTIM], VICTIM),
    ],
)
def test_the_rank_that_failed_by_itself_is_the_cause(ends: list[RankEnd], cause: RankEnd | None) -> None:
    assert root_cause(ends) == cause


def leave(
    folder: Path, rank: int, *, error: str | None = None, stderr: str = "", time_s: int = 1, count: int = 0
) -> None:
    """What a rank leaves behind, as torch.distributed.run arranges it."""
    place = folder / "torchrun" / "none_abc" / "attempt_0" / str(rank)
    place.mkdir(parents=True)
    (place / "stderr.log").write_text(stderr)
    if error is not None:
        told = {"message": error, "extraInfo": {"py_callstack": "...", "timestamp": str(time_s)}}
        (place / "error.json").write_text(json.dumps({"message": told}))
    beat = Beat(folder, rank)
    for _ in range(count):
        beat()


def report(*failed: tuple[int, int]) -> str:
    """The end of what torch.distributed.run 2.13 writes to its standard error."""
    return "Failures:\n" + "\n".join(
        f"[{n}]:\n  time      : 2026-01-01\n  host      : here\n  rank      : {rank} (local_rank: {rank})\n"
        f"  exitcode  : {code} (pid: 77)\n  error_file: <N/A>\n  traceback : Signal 9"
        for n, (rank, code) in enumerate(failed)
    )


def test_a_killed_rank_is_named_with_its_signal_and_last_words(tmp_path: Path) -> None:
    leave(tmp_path, 0, error="PeerLost: rank 0 waited in all-reduce: Connection reset by peer", count=4)
    leave(tmp_path, 1, stderr="step 3 is done", count=4)
    (tmp_path / "agent.log").write_text(report((0, 1), (1, -9)))
    error = failure_of(tmp_path, ranks=2, exit_code=1)
    assert isinstance(error, TransientError)
    assert str(error).startswith("rank 1 of 2 was killed by SIGKILL (out of memory?)")
    assert "step 3 is done" in str(error)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("DataError", DataError),
        ("ConfigError", ConfigError),
        ("CorruptError", CorruptError),
        ("TransientError", TransientError),
        ("ValueError", SlicewiseError),
    ],
)
def test_an_error_of_ours_keeps_its_class(tmp_path: Path, name: str, kind: type[SlicewiseError]) -> None:
    leave(tmp_path, 0, error="PeerLost: gone")
    leave(tmp_path, 1, error=f"{name}: batch 7 is refused: price", time_s=2)
    (tmp_path / "agent.log").write_text(report((0, 1), (1, 1)))
    error = failure_of(tmp_path, ranks=2, exit_code=1)
    assert type(error) is kind
    assert str(error).startswith(f"rank 1 of 2 failed with {name}: batch 7 is refused: price. ")


def test_a_late_rank_is_named_by_its_beat(tmp_path: Path) -> None:
    leave(tmp_path, 0, error="PeerLost: rank 0 waited in all-reduce: timed out", count=9)
    leave(tmp_path, 1, count=8)
    (tmp_path / "agent.log").write_text(report((0, 1), (1, -15)))
    error = failure_of(tmp_path, ranks=2, exit_code=1)
    assert isinstance(error, TransientError)
    assert "rank 1 of 2 did not come to collective 9 in time, and the others waited: rank 0 waited in" in str(error)


def test_a_rank_that_ends_without_a_word_is_nobodys_retry(tmp_path: Path) -> None:
    leave(tmp_path, 0, stderr="ImportError: no such module")
    (tmp_path / "agent.log").write_text(report((0, 1)))
    error = failure_of(tmp_path, ranks=1, exit_code=1)
    assert type(error) is SlicewiseError
    assert "ended with exit code 1" in str(error)
    assert "ImportError: no such module" in str(error)


def test_a_launcher_that_fails_by_itself_is_quoted(tmp_path: Path) -> None:
    (tmp_path / "agent.log").write_text("torchrun: unknown option")
    error = failure_of(tmp_path, ranks=2, exit_code=2)
    assert "exit code 2 before any rank said why" in str(error)
    assert "unknown option" in str(error)


def test_beats_are_known_once_every_rank_has_begun(tmp_path: Path) -> None:
    first = Beat(tmp_path, 0)
    assert beats(tmp_path, 2) is None
    second = Beat(tmp_path, 1)
    first()
    first()
    second()
    assert beats(tmp_path, 2) == [2, 1]
