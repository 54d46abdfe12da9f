"""Follows a training from outside: what rank 0 writes, read while it is written, and passed on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from resources.tracking import Metric, Tracker

_FLUSH_S = 1.0


class Follower:
    """Reads what rank 0 writes while it writes it, and passes it on: to MLflow about once a second, to whoever watches at once."""

    def __init__(
        self, path: Path, *, tracker: Tracker, run_id: str, on_progress: Callable[[dict[str, Any]], None] | None
    ) -> None:
        self._path, self._tracker, self._run_id, self._on_progress = path, tracker, run_id, on_progress
        self._read_bytes = 0
        self._metrics: list[Metric] = []
        self._flushed_at = time.monotonic()

    def __call__(self) -> None:
        for message in self._new_messages():
            self._metrics += _metrics_of(message)
            if self._on_progress is not None:
                self._on_progress(message)
        if time.monotonic() - self._flushed_at > _FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """All metrics read so far are logged."""
        if self._metrics:
            self._tracker.log(self._run_id, self._metrics)
        self._metrics, self._flushed_at = [], time.monotonic()

    def _new_messages(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as stream:
            stream.seek(self._read_bytes)
            whole = stream.read().rpartition(b"\n")[0]  # a line without its end comes next time
        self._read_bytes += len(whole) + 1 if whole else 0
        return [json.loads(line) for line in whole.splitlines()]


def _metrics_of(message: Mapping[str, Any]) -> list[Metric]:
    seconds: Mapping[str, float] = message["seconds"]
    wall_s = sum(seconds.values()) or 1.0
    values = {"train/rows_per_s": message["rows_per_s"]}
    values |= {f"time/{part}_share": spent / wall_s for part, spent in seconds.items()}
    points = [("train/loss", step, loss) for step, loss in message["losses"]]
    points += [(key, message["step"], value) for key, value in values.items()]
    return [Metric(key=key, value=value, step=step, time_ms=message["time_ms"]) for key, step, value in points]
