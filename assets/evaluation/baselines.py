"""What a model has to beat: how often an item was positive, and a logistic regression on the same features.

Both are fitted on the window that the candidate was trained on and know nothing else, and both are deterministic.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from assets.preprocessing.layout import Layout

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

SAMPLE_ROWS = 500_000  # the logistic regression is fitted on at most so many rows, evenly from all files of the window
_PRIOR_ROWS = 20  # an item's rate counts as much as the global one once it has been seen so often
_HASHED = 1 << 18
_BINS = 20
_MOST_DEVIATIONS = 5.0  # counts have long tails: one row must not steer a weight
_C = 0.1  # on one-hot columns: weights of about 0.3 = sqrt(C) are expected, as effects of single ids are
_MOST_ITERATIONS = 100


@dataclass(frozen=True)
class ItemCounts:
    """Rows and positives per item (64-bit hashes, ascending; 0: no item)."""

    items: np.ndarray
    rows: np.ndarray
    positives: np.ndarray

    @classmethod
    def of(cls, items: np.ndarray, labels: np.ndarray) -> ItemCounts:
        ids, at, rows = np.unique(items, return_inverse=True, return_counts=True)
        return cls(ids, rows, np.bincount(at, weights=labels, minlength=len(ids)))

    @classmethod
    def total(cls, parts: Sequence[ItemCounts]) -> ItemCounts:
        """The counts of several files together."""
        ids, at = np.unique(np.concatenate([part.items for part in parts]), return_inverse=True)
        rows, positives = (
            np.bincount(at, weights=np.concatenate(counts), minlength=len(ids))
            for counts in ([part.rows for part in parts], [part.positives for part in parts])
        )
        return cls(ids, rows, positives)


class ItemRate:
    """The share of positives per item over the window, drawn towards the global share; that alone for unknown items."""

    def __init__(self, counts: ItemCounts) -> None:
        self._share = counts.positives.sum() / max(1, counts.rows.sum())
        known = counts.items != 0
        self._items = counts.items[known]
        smoothed = (counts.positives + _PRIOR_ROWS * self._share) / (counts.rows + _PRIOR_ROWS)
        self._rates = np.append(smoothed[known], self._share)

    def score(self, items: np.ndarray) -> np.ndarray:
        """Probability per row, float32."""
        at = np.searchsorted(self._items, items)
        found = np.append(self._items, 0)[at] == items
        return self._rates[np.where(found, at, -1)].astype(np.float32)


class LogisticRegression:
    """scikit-learn's, on one-hot categories (hashed into 2**18 columns) and numbers, standardised and as 20 quantile bins.

    A plain but fair rival: bins let it bend, a column per number says where it is missing, and C expects effects of
    the size that single ids have.
    """

    def __init__(self, records: np.ndarray, labels: np.ndarray, layout: Layout) -> None:
        self._layout = layout
        numbers = layout.numbers_of(records).astype(np.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a number that is missing everywhere
            self._means = np.nan_to_num(np.nanmean(numbers, axis=0))
            deviations = np.nan_to_num(np.nanstd(numbers, axis=0))
            steps = np.nanquantile(numbers, np.linspace(0, 1, _BINS + 1)[1:-1], axis=0)
        self._scales = np.where(deviations > 1e-6 * np.maximum(1, np.abs(self._means)), deviations, np.inf)
        self._edges = [np.unique(steps[:, number]) for number in range(len(layout.numbers))]
        self.rows = len(records)
        self._fit(records, labels)

    def _fit(self, records: np.ndarray, labels: np.ndarray) -> None:
        from scipy.special import logit
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression as Sklearn
        from threadpoolctl import threadpool_limits

        self._weights = np.zeros(self._columns)
        self._bias = float(logit(labels.mean(dtype=np.float64))) if len(labels) else 0.0
        if len(np.unique(labels)) < 2:
            return  # their share is all there is to learn
        model: Any = Sklearn(C=_C, solver="lbfgs", max_iter=_MOST_ITERATIONS)
        with warnings.catch_warnings(), threadpool_limits(1):  # sums over threads differ from run to run
            warnings.simplefilter("ignore", ConvergenceWarning)  # the last digits of a baseline are not worth more
            model.fit(self._matrix(records), labels)
        self._weights, self._bias = model.coef_[0], float(model.intercept_[0])

    @property
    def _columns(self) -> int:
        return _HASHED + len(self._layout.numbers) * (_BINS + 2)

    def score(self, records: np.ndarray) -> np.ndarray:
        """Probability per row, float32."""
        from scipy.special import expit

        return expit(self._matrix(records) @ self._weights + self._bias).astype(np.float32)

    def _matrix(self, records: np.ndarray) -> csr_matrix:
        from scipy.sparse import csr_matrix

        layout, rows = self._layout, len(records)
        num_categories, num_numbers = len(layout.categories), len(layout.numbers)
        columns = np.empty((rows, num_categories + 2 * num_numbers), np.int32)
        values = np.ones(columns.shape)
        # a field's missing value is the code 0 in every field: moved apart by the golden ratio
        shifts = (np.arange(num_categories, dtype=np.uint64) * np.uint64(0x9E3779B1)).astype(np.uint32)
        columns[:, :num_categories] = (layout.categories_of(records) + shifts) & np.uint32(_HASHED - 1)
        numbers = layout.numbers_of(records)
        for j in range(num_numbers):
            number, first, at = numbers[:, j].astype(np.float64), _HASHED + j * (_BINS + 2), num_categories + 2 * j
            missing = np.isnan(number)
            scaled = np.clip((number - self._means[j]) / self._scales[j], -_MOST_DEVIATIONS, _MOST_DEVIATIONS)
            columns[:, at] = first
            values[:, at] = np.where(missing, 0.0, scaled)
            bins = np.searchsorted(self._edges[j], number, side="right")
            columns[:, at + 1] = first + 1 + np.where(missing, _BINS, bins)
        starts = np.arange(rows + 1, dtype=np.int32) * columns.shape[1]
        return csr_matrix((values.reshape(-1), columns.reshape(-1), starts), shape=(rows, self._columns))
