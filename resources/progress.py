"""What long work tells whoever watches. `Silence` is the default; the command line shows bars."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any, Protocol


class Progress(Protocol):
    def days(self, asset: str, day: date, done: int, total: int) -> None:
        """`done` of `total` days of an asset are finished; `day` was the last."""

    def training(self, message: Mapping[str, Any]) -> None:
        """A training process reports: step, steps, loss, rows_per_s."""


class Silence:
    """Nobody watches."""

    def days(self, asset: str, day: date, done: int, total: int) -> None:
        del asset, day, done, total

    def training(self, message: Mapping[str, Any]) -> None:
        del message
