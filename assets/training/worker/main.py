"""The training process. By hand, as one rank: `python -m assets.training.worker.main --spec .../spec.json`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from torch.distributed.elastic.multiprocessing.errors import record

from assets.training.spec import Spec
from assets.training.worker.group import Group, from_env
from assets.training.worker.loop import train
from assets.training.worker.report import opened


def _log_to(folder: Path, group: Group) -> None:
    """Every rank writes its own file; rank 0 also speaks to the console."""
    handlers: list[logging.Handler] = [logging.FileHandler(folder / f"rank{group.rank}.log")]
    if group.rank == 0:
        handlers.append(logging.StreamHandler())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s", handlers=handlers)


@record
def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description="Trains one model, as one of the ranks that torchrun started or alone."
    )
    parser.add_argument("--spec", type=Path, required=True)
    spec = Spec.load(parser.parse_args(arguments).spec)
    group = from_env(timeout_s=spec.timeout_s, log_folder=spec.log_folder)
    _log_to(spec.log_folder, group)
    if group.device.type == "cuda":
        torch.use_deterministic_algorithms(True)
    with opened(spec.progress_file, rank=group.rank) as report:
        train(spec, group, report)
    group.close()


if __name__ == "__main__":
    main(sys.argv[1:])
