"""What a person sees in the terminal: progress bars while long work runs. Tables are drawn where their rows are made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class Bars:
    """A bar per asset over its days, and one per training over its steps."""

    def __init__(self, console: Console) -> None:
        self._bars = Progress(
            TextColumn("{task.description:<24}"),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def days(self, asset: str, day: date, done: int, total: int) -> None:
        name = asset if total > 1 else f"{asset} {day}"
        self._update(name, done, total, note=str(day) if total > 1 else "")

    def training(self, message: Mapping[str, Any]) -> None:
        if "step" in message:
            note = (
                f"loss {message['loss']:.4f}, {message['rows_per_s']:,.0f} rows/s"
                if message.get("loss") is not None
                else ""
            )
            self._update(
                f"training {message.get('day', '')}".strip(), int(message["step"]), int(message["steps"]), note=note
            )

    def _update(self, name: str, done: int, total: int, *, note: str) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total, note=note)
        self._bars.update(self._tasks[name], completed=done, total=total, note=note)
