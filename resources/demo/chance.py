"""Chance without a generator: numbers drawn by hashing what they are for. Any row of any day can be asked for alone.

Everything is integer arithmetic and one exact division, so every machine and every version of numpy draws the same.
"""

from __future__ import annotations

import numpy as np

from resources.contract.buckets import hash64_text
from resources.contract.digest import splitmix64

_SIXTEEN_BITS = np.uint64(0xFFFF)
# Four independent 16-bit words: mean 4 * 65,535 / 2, variance 4 * (65,536**2 - 1) / 12.
_SUM_MEAN = 131_070
_SUM_DEVIATION = (4 * (65_536**2 - 1) / 12) ** 0.5


def bits(purpose: str, *words: np.ndarray, seed: int) -> np.ndarray:
    """64 random bits (uint64) per position of `words`: equal purpose, seed and words give equal bits."""
    state = np.full(len(words[0]), hash64_text(f"{seed}/{purpose}"), dtype=np.uint64)
    for word in words:
        state = splitmix64(state ^ splitmix64(word.astype(np.uint64)))
    return state


def uniforms(purpose: str, *words: np.ndarray, seed: int) -> np.ndarray:
    """Uniform numbers in [0, 1), of 53 bits."""
    return (bits(purpose, *words, seed=seed) >> np.uint64(11)) * 2.0**-53


def deviates(purpose: str, *words: np.ndarray, seed: int) -> np.ndarray:
    """Nearly normal numbers of mean 0 and deviation 1, none beyond 3.5 (Irwin and Hall's sum, of four uniforms)."""
    drawn = bits(purpose, *words, seed=seed)
    summed = sum(((drawn >> np.uint64(shift)) & _SIXTEEN_BITS).astype(np.int64) for shift in (0, 16, 32, 48))
    return (summed - _SUM_MEAN) / _SUM_DEVIATION
