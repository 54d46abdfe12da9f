"""Folders that one process works in, so that a later one can tell what a dead one has left."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from pathlib import Path

_DEAD_S = 24 * 3600


def locked_attempt(folder: Path) -> int:
    """The lock of an attempt's folder, which says that somebody still works in it; a killed holder lets go."""
    folder.mkdir(parents=True)
    lock = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR, 0o644)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def dead_attempts(folder: Path) -> list[Path]:
    """The folders of attempts that nobody works in any more; those that are a day old are gone now."""
    found = []
    for attempt in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            with (attempt / ".lock").open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        except FileNotFoundError:  # being made, or being removed, at this moment
            pass
        newest = max((path.stat().st_mtime for path in attempt.rglob("*")), default=attempt.stat().st_mtime)
        if newest < time.time() - _DEAD_S:
            shutil.rmtree(attempt, ignore_errors=True)
        else:
            found.append(attempt)
    return found


def is_empty(attempt: Path) -> bool:
    """Whether nothing but its lock is left of an attempt."""
    return attempt.is_dir() and all(path.name == ".lock" for path in attempt.iterdir())
