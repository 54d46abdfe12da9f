"""How a training tells what it does: rank 0 to whoever waits, in JSON lines and through Dagster Pipes, the others to nobody."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dagster_pipes import PipesContext, PipesEnvVarParamsLoader, open_dagster_pipes

log = logging.getLogger(__name__)


Report = Callable[[dict[str, Any]], None]


def silent(message: dict[str, Any]) -> None:
    """The report of a rank that nobody listens to."""
    del message


class Lines:
    """JSON lines that a waiting process can read while they are written: one write each, whole or not there."""

    def __init__(self, path: Path, pipes: PipesContext | None) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._stream, self._pipes = path.open("ab", buffering=0), pipes

    def __call__(self, message: dict[str, Any]) -> None:
        line = json.dumps({"time_ms": int(time.time() * 1000), **message}, allow_nan=False)
        self._stream.write(line.encode() + b"\n")
        text = "trained {step:,} of {steps:,} steps, loss {loss:.4f}, {rows_per_s:,.0f} rows/s".format(**message)
        log.info(text)
        if self._pipes is not None:
            self._pipes.log.info(text)
            self._pipes.report_custom_message({key: message[key] for key in ("step", "steps", "loss", "rows_per_s")})


@contextmanager
def opened(path: Path, *, rank: int) -> Iterator[Report]:
    """The report of a rank. Pipes are opened by rank 0 alone, and only where Dagster started the training."""
    if rank != 0:
        yield silent
    elif PipesEnvVarParamsLoader().is_dagster_pipes_process():
        with open_dagster_pipes() as pipes:
            yield Lines(path, pipes)
    else:
        yield Lines(path, None)
