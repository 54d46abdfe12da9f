"""How good predictions are, computed exactly over all rows of a day together.

Never per batch, rank or bucket and then averaged: an average of AUCs is no AUC. Every function depends on its rows as
a set, not on their order, and says None where its value does not exist (one class only, no rows).
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

from resources.contract.errors import DataError

_CLIP = 1e-7  # about a float32's step below 1: a prediction of exactly 0 or 1 costs at most 16.1, not infinity
_BINS = 20


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """What is told of one model on one day. `auc_within_users` needs users who have both classes."""

    rows: int
    positives: int
    auc: float | None
    log_loss: float | None
    calibration_ratio: float | None  # mean prediction / observed share
    calibration_error: float | None
    auc_within_users: float | None

    def as_json(self) -> dict[str, float | None]:
        return asdict(self)


def metrics(labels: np.ndarray, scores: np.ndarray, users: np.ndarray) -> Metrics:
    """All of them. Args: labels of 0 and 1, scores as probabilities, users as 64-bit hashes (0: missing)."""
    positives = int(checked_labels(labels).sum())
    share = positives / len(labels) if positives else None
    return Metrics(
        rows=len(labels),
        positives=positives,
        auc=auc(labels, scores),
        log_loss=log_loss(labels, scores),
        calibration_ratio=math.fsum(scores) / len(scores) / share if share else None,
        calibration_error=calibration_error(labels, scores),
        auc_within_users=auc_within_users(labels, scores, users),
    )


def checked_labels(labels: np.ndarray) -> np.ndarray:
    """The labels as booleans. Raises DataError for anything but 0 and 1: a loss would take a 2 without a word."""
    wrong = np.flatnonzero((labels != 0) & (labels != 1))
    if len(wrong):
        raise DataError(
            f"labels must be 0 or 1, got {labels[wrong[0]]} in row {wrong[0]} and {len(wrong) - 1} more: "
            "no metric means anything then. Mend label.where or rebuild the labels of the day."
        )
    return labels.astype(bool)


def auc(labels: np.ndarray, scores: np.ndarray) -> float | None:
    """The share of (positive, negative) pairs that the scores order rightly, a tie counting half: exact in integers."""
    positive = checked_labels(labels)
    below, ties = _pairs(positive, scores, np.zeros(len(scores), np.int64))
    pairs = int(positive.sum()) * int((~positive).sum())
    return (2 * int(below.sum()) + int(ties.sum())) / (2 * pairs) if pairs else None


def auc_within_users(labels: np.ndarray, scores: np.ndarray, users: np.ndarray) -> float | None:
    """The mean AUC of the users who have both classes, weighted by their rows; rows without a user are no user."""
    known = users != 0
    positive, scores = checked_labels(labels)[known], scores[known]
    _, user, rows = np.unique(users[known], return_inverse=True, return_counts=True)
    below, ties = _pairs(positive, scores, user)
    positives = np.bincount(user, weights=positive, minlength=len(rows))
    pairs = positives * (rows - positives)
    right = np.bincount(user[positive], weights=below + ties / 2, minlength=len(rows))
    both = pairs > 0
    return float(np.average(right[both] / pairs[both], weights=rows[both])) if both.any() else None


def _pairs(positive: np.ndarray, scores: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Per positive row, in their order: the negatives of its group that score lower, and those that score the same."""
    if not np.isfinite(scores).all():
        raise DataError(
            "a score is not a finite number: such a model cannot be compared. Look at its training's loss and its data."
        )
    _, level = np.unique(scores, return_inverse=True)
    width = len(scores) + 1
    key = group * width + level
    negatives = np.sort(key[~positive])
    mine, first = key[positive], (group * width)[positive]
    below = np.searchsorted(negatives, mine, "left")
    return below - np.searchsorted(negatives, first, "left"), np.searchsorted(negatives, mine, "right") - below


def log_loss(labels: np.ndarray, scores: np.ndarray) -> float | None:
    """Mean negative log likelihood, predictions clipped to 1e-7 .. 1 - 1e-7."""
    positive = checked_labels(labels)
    if not len(scores):
        return None
    p = np.clip(scores.astype(np.float64), _CLIP, 1 - _CLIP)
    return -math.fsum(np.log(np.where(positive, p, 1 - p))) / len(p)


def calibration_error(labels: np.ndarray, scores: np.ndarray) -> float | None:
    """The expected calibration error over 20 bins of equally many rows in order of score.

    Rows of one score share their labels' mean, so that a bin's border between them says nothing of their order.
    """
    positive = checked_labels(labels)
    if not len(scores):
        return None
    values, at, rows = np.unique(scores, return_inverse=True, return_counts=True)
    observed = np.bincount(at, weights=positive) / rows
    gap = np.repeat(values.astype(np.float64) - observed, rows)
    return math.fsum(abs(bin_.sum()) for bin_ in np.array_split(gap, _BINS)) / len(scores)
