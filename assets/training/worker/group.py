"""The ranks of a training and their collectives: one process alone, or many through torch.distributed, the same calls."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from resources.launcher.failure import Beat, PeerLost


class Group(Protocol):
    """All collectives of a training. Every rank must make the same calls in the same order."""

    @property
    def rank(self) -> int: ...
    @property
    def ranks(self) -> int: ...
    @property
    def device(self) -> torch.device: ...

    def add_up(self, tensor: torch.Tensor) -> None:
        """`tensor` holds the sum over all ranks, bit-identical on each."""
        ...

    def gather(self, part: torch.Tensor) -> torch.Tensor:
        """The parts of all ranks, which have one shape, along the first axis, in the ranks' order."""
        ...

    def from_first(self, value: int) -> int:
        """What rank 0 has."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Alone:
    """A group of one."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    rank: int = 0
    ranks: int = 1
    beat: Callable[[], None] = lambda: None

    def add_up(self, tensor: torch.Tensor) -> None:
        del tensor
        self.beat()

    def gather(self, part: torch.Tensor) -> torch.Tensor:
        self.beat()
        return part

    def from_first(self, value: int) -> int:
        return value

    def close(self) -> None:
        """Nothing to close."""


@dataclass(frozen=True)
class Torch:
    """The ranks that torchrun started: NCCL on GPUs, gloo on CPUs."""

    device: torch.device
    rank: int
    ranks: int
    beat: Beat

    def add_up(self, tensor: torch.Tensor) -> None:
        self._together("all-reduce", lambda: dist.all_reduce(tensor))

    def gather(self, part: torch.Tensor) -> torch.Tensor:
        whole = part.new_empty((self.ranks * part.shape[0], *part.shape[1:]))
        self._together("all-gather", lambda: dist.all_gather_single(whole, part))
        return whole

    def from_first(self, value: int) -> int:
        tensor = torch.tensor([value], dtype=torch.int64, device=self.device)
        self._together("broadcast", lambda: dist.broadcast(tensor, src=0))
        return int(tensor.item())

    def _together(self, name: str, collective: Callable[[], object]) -> None:
        self.beat()
        try:
            collective()
        except RuntimeError as error:  # what gloo and NCCL raise when a peer is gone or late
            raise PeerLost(f"rank {self.rank} waited in {name}: {str(error).splitlines()[0]}") from error

    def close(self) -> None:
        dist.destroy_process_group()


def from_env(*, timeout_s: float, log_folder: Path) -> Group:
    """The group that torchrun's variables describe; without them, a group of one."""
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    beat = Beat(log_folder, rank)
    if ranks == 1:
        return Alone(device=device, beat=beat)
    timeout = timedelta(seconds=timeout_s)
    try:
        store, _, _ = next(iter(rendezvous("env://", rank, ranks, timeout=timeout)))
        # a restarted attempt must not read what dead ranks wrote
        store = PrefixStore(f"attempt{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        backend = "nccl" if device.type == "cuda" else "gloo"
        dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=timeout)
    except RuntimeError as error:  # a port taken in the meantime, a rank that never came
        raise PeerLost(f"rank {rank} could not meet the other {ranks - 1}: {error}") from error
    return Torch(device=device, rank=rank, ranks=ranks, beat=beat)
