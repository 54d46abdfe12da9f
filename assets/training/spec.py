"""What a training process is told: one JSON file, which the asset writes and the worker reads."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from assets.preprocessing.layout import Layout
from assets.training.fit import Fit
from assets.training.loader import Source
from assets.training.order import Order
from resources.lake import write_atomically


@dataclass(frozen=True, kw_only=True)
class KillAt:
    """Where a test has a rank die of SIGKILL: before the step of that position."""

    rank: int
    step: int


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One training.

    Attributes:
        day: the judged day, for messages.
        model_file, result_file: what the training leaves behind at its end, in this order.
        checkpoint_folder: where it begins again if there are checkpoints, and writes them every `checkpoint_steps`.
        progress_file: JSON lines, about one a second, for whoever waits.
        timeout_s: the longest that a rank waits for the others.
    """

    day: str
    sources: tuple[Source, ...]
    order: Order
    layout: Layout
    fit: Fit
    model_file: Path
    result_file: Path
    checkpoint_folder: Path
    checkpoint_steps: int
    progress_file: Path
    log_folder: Path
    timeout_s: float
    kill_at: KillAt | None = None

    def save(self, path: Path) -> None:
        write_atomically(path, json.dumps(asdict(self), default=os.fspath, allow_nan=False).encode())

    @classmethod
    def load(cls, path: Path) -> Spec:
        value: dict[str, Any] = json.loads(path.read_bytes())
        order, layout, kill_at = value["order"], value["layout"], value["kill_at"]
        paths = {key: Path(value[key]) for key in value if key.endswith(("_file", "_folder"))}
        return cls(
            **{
                **value,
                **paths,
                "sources": tuple(
                    Source(name=s["name"], features=Path(s["features"]), labels=Path(s["labels"]))
                    for s in value["sources"]
                ),
                "order": Order(**{**order, "rows": tuple(order["rows"]), "contents": tuple(order["contents"])}),
                "layout": Layout.from_json(layout),
                "fit": Fit.from_json(value["fit"]),
                "kill_at": KillAt(**kill_at) if kill_at else None,
            }
        )
