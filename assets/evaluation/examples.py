"""The rows of a day as they lie on the lake, undamaged: features and labels side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from assets.preprocessing.layout import Layout
from resources.contract.errors import CorruptError
from resources.contract.manifest import Manifest
from resources.lake import Lake

MODEL = "model.pt"

Score = Callable[[np.ndarray], np.ndarray]  # packed records -> float32 probabilities


@dataclass(frozen=True)
class Trained:
    """A trained model, as far as judging it goes: the columns that it reads, and what it says of them."""

    layout: Layout
    score: Score


LoadScorer = Callable[[Path], Trained]


def load_scorer(path: Path) -> Trained:
    """The model in a `model.pt`."""
    from assets.training.worker.scoring import Scorer

    scorer = Scorer.load(path)
    return Trained(Layout(categories=scorer.fit.categories, numbers=scorer.fit.numbers), scorer.score)


@dataclass(frozen=True)
class Examples:
    """One bucket of a day: packed records (mapped, not read yet) and their labels."""

    bucket: int
    records: np.ndarray
    labels: np.ndarray


def examples(lake: Lake, features: Manifest, labels: Manifest) -> Iterator[Examples]:
    """The rows of a day, bucket by bucket. Raises CorruptError where a file is damaged or labels do not fit."""
    for entry in features.files:
        if entry.bucket is None or not entry.rows:
            continue
        answer = labels.file(entry.name)
        if answer is None or answer.rows != entry.rows:
            raise CorruptError(
                f"{features.dataset} {features.day}: features and labels of {entry.name} do not have the same rows, so "
                "no row's label is known. Rebuild the labels of the day."
            )
        yield Examples(
            entry.bucket,
            np.load(lake.verified_path(features, entry), mmap_mode="r"),
            np.load(lake.verified_path(labels, answer)),
        )


def model_file(lake: Lake, model: Manifest) -> Path:
    """The weights of a model's day, undamaged."""
    [entry] = [entry for entry in model.files if entry.name == MODEL]
    return lake.verified_path(model, entry)
