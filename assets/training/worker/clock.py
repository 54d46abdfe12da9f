"""Where the wall time of a training goes: every second belongs to a part, or is said to be unexplained."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

PARTS = ("wait", "copy", "compute", "communication", "checkpoint")
UNEXPLAINED = "unexplained"


class Clock:
    """Seconds per part since the last `split`, and in total, beginning with what an earlier attempt spent."""

    def __init__(self, spent: Mapping[str, float]) -> None:
        self.total_s = {part: spent.get(part, 0.0) for part in (*PARTS, UNEXPLAINED)}
        self._parts_s: dict[str, float] = dict.fromkeys(PARTS, 0.0)
        self._since = time.perf_counter()

    @contextmanager
    def measure(self, part: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self._parts_s[part] += time.perf_counter() - started

    def split(self) -> dict[str, float]:
        """Seconds per part since the last call; with "unexplained" they add up to the wall time."""
        now = time.perf_counter()
        found = {**self._parts_s, UNEXPLAINED: now - self._since - sum(self._parts_s.values())}
        for part, seconds in found.items():
            self.total_s[part] += seconds
        self._parts_s, self._since = dict.fromkeys(PARTS, 0.0), now
        return found
