"""Where the wall time of a training goes: every second belongs to a part, or is said to be unexplained."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

PARTS = ("wait", "copy", "compute", "communication", "checkpoint")
UNEXPLAINED = "unexplained"


class Clock:
    """Seconds per part, in total and since the last report; it begins with what earlier attempts spent."""

    def __init__(self, spent_s: Mapping[str, float]) -> None:
        self._spent_s = {part: spent_s.get(part, 0.0) for part in (*PARTS, UNEXPLAINED)}
        self._told_s = dict(self._spent_s)
        self._parts_s: dict[str, float] = dict.fromkeys(PARTS, 0.0)
        self._began = time.perf_counter()

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self._parts_s[part] += time.perf_counter() - started

    def total_s(self) -> dict[str, float]:
        """Seconds per part; with "unexplained" they add up to the wall time."""
        unexplained = time.perf_counter() - self._began - sum(self._parts_s.values())
        return {part: self._spent_s[part] + self._parts_s.get(part, unexplained) for part in self._spent_s}

    def split_s(self) -> dict[str, float]:
        """The same, since this was last asked for."""
        before, self._told_s = self._told_s, self.total_s()
        return {part: seconds - before[part] for part, seconds in self._told_s.items()}
