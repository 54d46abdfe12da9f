"""What can be known of a column without seeing its days together: moments that add up, and sketches of distinct codes.

Moments: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979).
Distinct values: the k smallest hashes (Bar-Yossef et al., "Counting distinct elements in a data stream", 2002) with the
unbiased estimator of Beyer et al., "On synopses for distinct-value estimation under multiset operations" (2007).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

SKETCH_CODES = 2048  # standard error about 1 / sqrt(k - 2): 2.2 %
NO_CODE = np.uint32(0xFFFFFFFF)


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Number of values, their mean, and the sum of squared distances from it."""

    n: int = 0
    mean: float = 0.0
    m2: float = 0.0

    @classmethod
    def of(cls, values: np.ndarray) -> Moments:
        """The moments of all values but NaN, in float64."""
        known = values[~np.isnan(values)].astype(np.float64)
        if len(known) == 0:
            return cls()
        # from the first value on, so that a constant column has a variance of exactly 0
        shifted = known - known[0]
        mean = float(shifted.mean())
        return cls(n=len(known), mean=float(known[0]) + mean, m2=float(np.square(shifted - mean).sum()))

    def merged(self, other: Moments) -> Moments:
        """The moments of both sets of values together."""
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        n, delta = self.n + other.n, other.mean - self.mean
        return Moments(
            n=n,
            mean=self.mean + delta * other.n / n,
            m2=self.m2 + other.m2 + delta * delta * self.n * other.n / n,
        )

    @property
    def std(self) -> float:
        """Standard deviation of the values themselves (divided by n); 0 without values."""
        return (self.m2 / self.n) ** 0.5 if self.n else 0.0


def sketch_of(codes: np.ndarray) -> np.ndarray:
    """uint32[SKETCH_CODES]: the smallest distinct category codes, ascending, 0 (missing) left out, padded with NO_CODE.

    A sketch is a set of codes itself: that of a sketch and more codes together is the sketch of all of them.
    """
    distinct = np.unique(codes)
    smallest = distinct[(distinct != 0) & (distinct != NO_CODE)][:SKETCH_CODES]
    return np.pad(smallest, (0, SKETCH_CODES - len(smallest)), constant_values=NO_CODE).astype(np.uint32)


def merged_sketch(sketches: Iterable[np.ndarray]) -> np.ndarray:
    """The sketch of all codes that went into several sketches."""
    return sketch_of(np.concatenate([np.empty(0, np.uint32), *sketches]))


def distinct_estimate(sketch: np.ndarray) -> float:
    """How many distinct codes went into a sketch: exact below SKETCH_CODES, else (k - 1) / (k-th smallest, in 0..1)."""
    known = int((sketch != NO_CODE).sum())
    return float(known) if known < SKETCH_CODES else (SKETCH_CODES - 1) / (float(sketch[-1]) / 2**32)
