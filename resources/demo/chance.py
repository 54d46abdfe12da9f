"""Chance by hashing: a number is drawn from what it is for, so any row of any day can be made alone.

Integers, and one correctly rounded division at the end: every machine and every version of numpy draws the same.
"""

from __future__ import annotations

import math

import numpy as np

from resources.contract.buckets import hash64_text
from resources.contract.digest import splitmix64

_SIXTEEN_BITS = np.uint64(0xFFFF)
_SHIFTS = (0, 16, 32, 48)
# The sum of four uniform 16-bit integers has this mean and this standard deviation.
_SUM_MEAN = 4 * 65_535 / 2
_SUM_DEVIATION = math.sqrt(4 * (65_536**2 - 1) / 12)


def _bits(purpose: str, seed: int, words: tuple[np.ndarray, ...]) -> np.ndarray:
    """uint64 per position: splitmix64 chained over the purpose and the words."""
    state = np.full(len(words[0]), hash64_text(f"{seed}/{purpose}"), dtype=np.uint64)
    for word in words:
        state = splitmix64(state ^ splitmix64(word.astype(np.uint64)))
    return state


def uniforms(purpose: str, *words: np.ndarray, seed: int) -> np.ndarray:
    """Uniform numbers in [0, 1), one per position of the words (integers); equal words draw equal numbers."""
    return (_bits(purpose, seed, words) >> np.uint64(11)) * 2.0**-53


def deviates(purpose: str, *words: np.ndarray, seed: int) -> np.ndarray:
    """Nearly normal numbers of mean 0 and standard deviation 1, none beyond 3.5: scaled sums of four uniforms."""
    drawn = _bits(purpose, seed, words)
    summed = np.sum([(drawn >> np.uint64(shift)) & _SIXTEEN_BITS for shift in _SHIFTS], axis=0).astype(np.float64)
    return (summed - _SUM_MEAN) / _SUM_DEVIATION
