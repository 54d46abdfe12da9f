"""Checkpoints of a training: written beside, flushed, checked, renamed; the last two and the best are kept.

`step=N.pt` counts once `step=N.json` beside it tells its checksum. A file that was cut, zeroed or flipped does not have
it, and the one before is taken: a new one is verified, by loading it, before an old one goes.
"""

from __future__ import annotations

import json
import logging
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from resources.contract.errors import CorruptError
from resources.lake import sha256_of, write_atomically

log = logging.getLogger(__name__)

KEPT = 2


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A checkpoint that counts. `loss`: progressive, over the steps since the one before."""

    step: int
    loss: float
    path: str
    bytes: int
    checksum: str

    def is_whole(self) -> bool:
        path = Path(self.path)
        return path.exists() and path.stat().st_size == self.bytes and sha256_of(path) == self.checksum


def write(folder: Path, state: dict[str, Any], *, step: int, loss: float) -> Checkpoint:
    """`state` (tensors and plain values) counts as a checkpoint, and those that are no longer wanted are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step={step:09d}.pt"
    beside = folder / f".{path.name}.{uuid.uuid4().hex}.tmp"
    with beside.open("wb") as stream:
        torch.save(state, stream)
        stream.flush()
        os.fsync(stream.fileno())
    # a value that is not plain is refused at loading, not at saving: better now than when it is needed
    torch.load(beside, map_location="cpu", weights_only=True, mmap=True)
    made = Checkpoint(step=step, loss=loss, path=str(path), bytes=beside.stat().st_size, checksum=sha256_of(beside))
    beside.replace(path)
    write_atomically(path.with_suffix(".json"), json.dumps(asdict(made)).encode())
    for old in unwanted(known(folder)):
        Path(old.path).with_suffix(".json").unlink()
        Path(old.path).unlink(missing_ok=True)
    return made


def known(folder: Path) -> list[Checkpoint]:
    """The checkpoints of a folder that count, by step; one whose own record is damaged counts no more."""
    found = []
    for file in sorted(folder.glob("step=*.json")):
        try:
            found.append(Checkpoint(**{**json.loads(file.read_bytes()), "path": str(file.with_suffix(".pt"))}))
        except (ValueError, TypeError) as error:
            log.warning(f"passed over the checkpoint of {file}: its record cannot be read ({error})")
    return found


def unwanted(checkpoints: list[Checkpoint]) -> list[Checkpoint]:
    """All but the last two and the one of the lowest loss."""
    best = min(checkpoints, key=lambda checkpoint: (checkpoint.loss, -checkpoint.step), default=None)
    return [checkpoint for checkpoint in checkpoints[:-KEPT] if checkpoint != best]


def newest_whole(folder: Path) -> Checkpoint | None:
    """The newest checkpoint with the checksum that it was written with.

    Those passed over are logged and count no more; what killed writers left behind is removed.
    """
    for half_written in folder.glob(".*.tmp"):
        half_written.unlink(missing_ok=True)
    for checkpoint in reversed(known(folder)):
        if checkpoint.is_whole():
            return checkpoint
        log.warning(f"passed over {checkpoint.path}: it was damaged, its checksum is not {checkpoint.checksum[:12]}")
        Path(checkpoint.path).with_suffix(".json").unlink()
    return None


def load(folder: Path, step: int) -> dict[str, Any]:
    """The state of the checkpoint at `step`, on the CPU. Raises CorruptError where it is not whole."""
    checkpoint = next((checkpoint for checkpoint in known(folder) if checkpoint.step == step), None)
    if checkpoint is None or not checkpoint.is_whole():
        raise CorruptError(f"the checkpoint of step {step} in {folder} is gone or damaged: start the training again.")
    return torch.load(checkpoint.path, map_location="cpu", weights_only=True)
