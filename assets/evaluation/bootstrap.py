"""How sure a difference of two AUCs is: a paired bootstrap by user.

Users are drawn with replacement, not rows, since a user's rows resemble each other; both models are judged on the same
draw, so what makes a day easy or hard for both cancels. A drawn user counts as often as it was drawn: a replicate is
an AUC with whole-number weights, exact, computed from an order of the rows that is found once per model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from assets.evaluation.metrics import auc, checked_labels

REPLICATES = 1_000
_CONFIDENCE = 0.95
_CHUNK_CELLS = 1 << 21  # weights held at once: 16 MB


@dataclass(frozen=True, kw_only=True)
class Difference:
    """AUC of the first minus AUC of the second, with its 95 % interval; None where it does not exist."""

    value: float | None
    interval: tuple[float, float] | None


def auc_difference(
    labels: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    users: np.ndarray,
    *,
    replicates: int = REPLICATES,
    seed: int = 0,
) -> Difference:
    """The difference of two models' AUCs on the same rows; the same again for the same users, in whatever order.

    Rows without a user (hash 0) each stand for themselves. Replicates that happen to hold one class only say nothing
    and are left out.
    """
    positive = checked_labels(labels)
    ours, theirs = auc(labels, first), auc(labels, second)
    if ours is None or theirs is None:
        return Difference(value=None, interval=None)
    owner, num_owners = _owners(users)
    models = [_Ordered(positive, scores, owner) for scores in (first, second)]
    # a numpy with another stream would move the bounds by less than they are sure to: the manifest keeps those of its time
    random = np.random.default_rng(seed)
    differences: list[np.ndarray] = []
    chunk = max(1, _CHUNK_CELLS // len(labels))
    for start in range(0, replicates, chunk):
        drawn = random.integers(0, num_owners, size=(min(chunk, replicates - start), num_owners))
        weights = np.stack([np.bincount(row, minlength=num_owners) for row in drawn])
        differences.append(models[0].auc(weights) - models[1].auc(weights))
    found = np.concatenate(differences)
    found = found[~np.isnan(found)]
    if not len(found):
        return Difference(value=ours - theirs, interval=None)
    low, high = np.quantile(found, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
    return Difference(value=ours - theirs, interval=(float(low), float(high)))


def _owners(users: np.ndarray) -> tuple[np.ndarray, int]:
    """Per row the number of the user who is drawn with it, and how many there are."""
    known = users != 0
    _, owner_of_known = np.unique(users[known], return_inverse=True)
    num_users = int(owner_of_known.max()) + 1 if len(owner_of_known) else 0
    owner = np.empty(len(users), np.int64)
    owner[known] = owner_of_known
    owner[~known] = num_users + np.arange(len(users) - known.sum())
    return owner, num_users + int(len(users) - known.sum())


class _Ordered:
    """One model's rows in the order of its scores: what its weighted AUC needs, whatever the weights are."""

    def __init__(self, positive: np.ndarray, scores: np.ndarray, owner: np.ndarray) -> None:
        negatives = np.flatnonzero(~positive)
        negatives = negatives[np.argsort(scores[negatives], kind="stable")]
        self._positive_owner, self._negative_owner = owner[positive], owner[negatives]
        self._lower = np.searchsorted(scores[negatives], scores[positive], "left")
        self._not_higher = np.searchsorted(scores[negatives], scores[positive], "right")

    def auc(self, weights: np.ndarray) -> np.ndarray:
        """AUC per replicate; NaN where one class weighs nothing. Args: weights, int64[replicates, owners]."""
        of_positive = weights[:, self._positive_owner]
        below = np.zeros((len(weights), len(self._negative_owner) + 1), np.int64)
        np.cumsum(weights[:, self._negative_owner], axis=1, out=below[:, 1:])
        twice_right = np.einsum("rp,rp->r", of_positive, below[:, self._lower] + below[:, self._not_higher])
        pairs = of_positive.sum(axis=1) * below[:, -1]
        return np.divide(twice_right, 2 * pairs, out=np.full(len(weights), np.nan), where=pairs > 0)
