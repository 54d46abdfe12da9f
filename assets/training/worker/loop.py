"""The training itself, from the first step or the last checkpoint to the end, the same on every rank.

A step: the rank's part of the batch, forward and backward, one all-reduce of the dense gradients and the loss, one
all-gather of the table's gradients, and the same update everywhere. The loss is the sum over the rows that count,
divided by their number over all ranks, so that N ranks compute what one would.
"""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import time
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from assets.training.loader import Batch, Loader
from assets.training.order import files_at
from assets.training.spec import Spec
from assets.training.worker import checkpoint, table
from assets.training.worker.clock import Clock
from assets.training.worker.group import Group
from assets.training.worker.model import Dense, Encoder
from assets.training.worker.report import Report
from assets.training.worker.table import WIDTH, Table
from resources.contract.errors import DataError
from resources.lake import write_json

log = logging.getLogger(__name__)

# The loss is read from the device this seldom: a read at every step halves a GPU's busy share.
_READ_STEPS = 25
_REPORT_S = 1.0


def rate_share(position: int, steps: int) -> float:
    """The share of the learning rates at a step: all of it in the first half, then evenly down towards nothing."""
    return min(1.0, 2.0 * (steps - position) / steps)


class Training:
    """The state of a training on one rank, and what a step does to it."""

    def __init__(self, spec: Spec, group: Group) -> None:
        self.spec, self.group = spec, group
        generator = torch.Generator().manual_seed(spec.order.seed)
        self.encoder = Encoder(spec.fit, device=group.device)
        self.table = Table(spec.fit.table_rows, generator=generator, device=group.device)
        self.dense = Dense(spec.fit, seed=spec.order.seed, device=group.device)
        self.position = 0
        self.clock = Clock({})
        self._losses = torch.zeros(_READ_STEPS, device=group.device)

    def state(self) -> dict[str, Any]:
        """All that a resumed training needs to end in the same bits; tensors and plain values only."""
        return {
            "position": self.position,
            "table": self.table.weight,
            "accumulator": self.table.accumulator,
            "dense": self.dense.flat.data,
            "optimizer": self.dense.optimizer.state_dict(),
            "rng": torch.get_rng_state(),
            "seconds": self.clock.total_s(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        self.position = state["position"]
        self.table.weight.copy_(state["table"])
        self.table.accumulator.copy_(state["accumulator"])
        self.dense.flat.data.copy_(state["dense"])
        self.dense.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
        self.clock = Clock(state["seconds"])

    def digest(self) -> str:
        """sha256 of the table and the dense part, hex: equal on all ranks, and for all trainings of the same inputs."""
        tensors = (self.table.weight, self.table.accumulator, self.dense.flat.data)
        return hashlib.sha256(b"".join(t.cpu().numpy().tobytes() for t in tensors)).hexdigest()

    def step(self, batch: Batch) -> None:
        """The weights after one more batch; its loss waits on the device."""
        clock, device = self.clock, self.group.device
        with clock.measure("copy"):
            words = torch.from_numpy(batch.records.view(np.int32)).to(device)
            labels, weights = torch.from_numpy(batch.labels).to(device), torch.from_numpy(batch.weights).to(device)
        with clock.measure("compute"):
            ids_BF, z_BM = self.encoder(words)
            ids = ids_BF.reshape(-1)
            embedded = self.table.weight.index_select(0, ids).requires_grad_()
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                logits = self.dense.module(embedded.view(*ids_BF.shape, WIDTH), z_BM)
            losses = binary_cross_entropy_with_logits(logits, labels, weight=weights, reduction="sum")
            num_rows = self.spec.order.rows_in_batch(batch.position)
            loss = losses / num_rows
            self.dense.gradients_and_loss.zero_()
            loss.backward()
            self.dense.gradients_and_loss[-1] = loss.detach()
            assert embedded.grad is not None
            # one exchange for both: a row's id travels as the bits of one more float
            packed = torch.cat([embedded.grad * num_rows, ids.to(torch.int32).view(torch.float32)[:, None]], dim=1)
        with clock.measure("communication"):
            self.group.add_up(self.dense.gradients_and_loss)
            packed = self.group.gather(packed)
        with clock.measure("compute"):
            all_ids = packed[:, WIDTH].contiguous().view(torch.int32).to(torch.int64)
            share = rate_share(batch.position, self.spec.order.steps)
            self.table.update(all_ids, packed[:, :WIDTH], rate=share * table.RATE)
            self.dense.update(rate=share * self.dense.RATE)
            self._losses[self.position % _READ_STEPS] = self.dense.gradients_and_loss[-1]
        self.position += 1

    def losses(self, first: int) -> np.ndarray:
        """The losses of positions `first` to the last step, at most 25 of them. Raises DataError for one that is not finite."""
        positions = np.arange(first, self.position)
        found = self._losses.cpu().numpy()[positions % _READ_STEPS].astype(np.float64)
        for position, loss in zip(positions, found, strict=True):
            if not np.isfinite(loss):
                names = [source.name for source in self.spec.sources]
                raise DataError(
                    f"the loss of batch {position} is {loss}: all weights are spoilt from there on, and the training is "
                    f"refused. Look at the numbers in its files: {files_at(self.spec.order, int(position), names)}."
                )
        return found


def train(spec: Spec, group: Group, report: Report) -> None:
    """The model and the result lie where the spec says; checkpoints on the way.

    Called again after a kill, with the same spec, it goes on from the newest checkpoint that is whole.
    """
    training = Training(spec, group)
    newest = checkpoint.newest_whole(spec.checkpoint_folder) if group.rank == 0 else None
    resumed = group.from_first(newest.step if newest else 0)
    if resumed:
        training.resume(checkpoint.load(spec.checkpoint_folder, resumed))
        log.info(f"resumed after {resumed:,} of {spec.order.steps:,} steps")
    with Loader(
        spec.sources,
        order=spec.order,
        layout=spec.layout,
        rank=group.rank,
        ranks=group.ranks,
        start=training.position,
        allocate=_pinned if group.device.type == "cuda" else np.zeros,
    ) as loader:
        _run(training, loader, report)
    _agree(training)
    if group.rank == 0:
        _finish(training)


def _run(training: Training, loader: Loader, report: Report) -> None:
    spec, steps = training.spec, training.spec.order.steps
    clock = training.clock = Clock(training.clock.total_s())
    batches = iter(loader)
    unread = reported = training.position
    since_checkpoint: list[float] = []
    points: list[tuple[int, float]] = []
    reported_at = time.perf_counter()
    while training.position < steps:
        if spec.kill_at is not None and (spec.kill_at.rank, spec.kill_at.step) == (
            training.group.rank,
            training.position,
        ):
            os.kill(os.getpid(), signal.SIGKILL)
        with clock.measure("wait"):
            batch = next(batches)
        training.step(batch)
        done = training.position
        due = done == steps or done % spec.checkpoint_steps == 0
        if not due and done - unread < _READ_STEPS:
            continue
        with clock.measure("compute"):
            losses = training.losses(unread).tolist()
        unread = done
        since_checkpoint += losses
        points.append((done, float(np.mean(losses))))
        if due:
            with clock.measure("checkpoint"):
                _keep(training, loss=float(np.mean(since_checkpoint)))
            since_checkpoint = []
        if done == steps or time.perf_counter() - reported_at > _REPORT_S:
            elapsed, reported_at = time.perf_counter() - reported_at, time.perf_counter()
            rows = sum(spec.order.rows_in_batch(position) for position in range(reported, done))
            progress = {
                "step": done,
                "steps": steps,
                "loss": float(np.mean([loss for _, loss in points])),
                "rows_per_s": rows / elapsed,
            }
            report({**progress, "losses": points, "day": spec.day, "seconds": clock.split_s()})
            points, reported = [], done


def _keep(training: Training, *, loss: float) -> None:
    if training.group.rank == 0:  # the others have the same bits
        checkpoint.write(training.spec.checkpoint_folder, training.state(), step=training.position, loss=loss)


def _agree(training: Training) -> None:
    """Raises RuntimeError where the ranks ended with different weights: a bug or broken hardware."""
    mine = torch.tensor([int(training.digest()[:15], 16)], dtype=torch.int64, device=training.group.device)
    digests = training.group.gather(mine).tolist()
    if len(set(digests)) > 1:
        raise RuntimeError(f"the {len(digests)} ranks ended with different weights: {[f'{d:x}' for d in digests]}")


def _finish(training: Training) -> None:
    spec, order = training.spec, training.spec.order
    trained = training.table.trained
    model = {
        "format": 1,
        "fit": spec.fit.as_json(),
        "table": torch.where(trained[:, None], training.table.weight, 0.0).cpu(),  # what was never trained says nothing
        "trained": trained.cpu(),
        "dense": {name: value.detach().clone().cpu() for name, value in training.dense.module.state_dict().items()},
    }
    torch.save(model, spec.model_file)
    kept = checkpoint.known(spec.checkpoint_folder)
    write_json(
        spec.result_file,
        {
            "digest": training.digest(),
            "steps": order.steps,
            "rows": order.total,
            "ranks": training.group.ranks,
            "loss": kept[-1].loss,
            "seconds_split": training.clock.total_s(),
            "checkpoints": [asdict(made) for made in kept],
            "table_rows": {"all": len(trained), "trained": int(trained.sum())},
        },
    )


def _pinned(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Page-locked memory, from which a GPU copies faster."""
    return (
        torch.zeros(shape, dtype=torch.int32 if dtype is np.uint32 else torch.float32).pin_memory().numpy().view(dtype)
    )
