"""What a model must know of its window before the first step: normalisation, quantile bins and the rows of its table.

Fitted on the window alone, from what the features' manifests hold (moments, distinct sketches) and a sample of their
rows, and kept with the weights: nothing leaks from other days, and a served model needs no data to be prepared.

The fused table's rows, in order: one per known code of a category (the code 0, "missing", is always known); the hashed
ranges of categories with too many codes to list; for each number a row for "missing" and one per bin; a last row that
stays zero and stands for everything unseen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Any

import numpy as np

from assets.preprocessing.statistics import NO_CODE, Moments, distinct_estimate, merged_sketch
from resources.contract.errors import DataError

BINS = 32
_HEADROOM = 4  # table rows per distinct code of a hashed category: about 1 code in 5 shares its row
_SAMPLE_ROWS = 200_000
_RESOLUTION = 1e-7  # a deviation below this share of the mean is float32 rounding, no variance


@dataclass(frozen=True, kw_only=True)
class Fit:
    """All plain values, so that it goes through JSON and into a checkpoint as it is.

    Attributes:
        known: per category its listed codes, sorted; [0] for a hashed one.
        hashed_rows: per category the rows of its hashed range, a power of two; 0 where all codes are listed.
        means, inverse_deviations: per number; the latter 0 where the window has no variance, so that z is 0.
        edges: per number the 31 edges of its bins, ascending, None where the window has fewer distinct quantiles.
    """

    categories: tuple[str, ...]
    numbers: tuple[str, ...]
    known: tuple[tuple[int, ...], ...]
    hashed_rows: tuple[int, ...]
    means: tuple[float, ...]
    inverse_deviations: tuple[float, ...]
    edges: tuple[tuple[float | None, ...], ...]

    @property
    def num_known(self) -> int:
        return sum(len(codes) for codes in self.known)

    @property
    def first_bin_row(self) -> int:
        """Table row of the first number's "missing"."""
        return self.num_known + sum(self.hashed_rows)

    @property
    def unseen_row(self) -> int:
        return self.first_bin_row + len(self.numbers) * (BINS + 1)

    @property
    def table_rows(self) -> int:
        return self.unseen_row + 1

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Fit:
        return cls(**{key: _tuples(inner) for key, inner in value.items()})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(inner) for inner in value) if isinstance(value, list | tuple) else value


def inverse_deviation(moments: Moments) -> float:
    """1 / standard deviation (of the window itself, not as of a sample), or 0 where there is no variance."""
    return 0.0 if moments.std <= _RESOLUTION * abs(moments.mean) else 1.0 / moments.std


def codes_and_rows(sketches: Sequence[np.ndarray]) -> tuple[tuple[int, ...], int]:
    """The codes of a category and 0, or 0 alone and the rows of its hashed range: from its days' distinct sketches.

    A sketch that is not full lists all codes of its day. Where one is full, the codes cannot be listed, and their
    number is estimated. A power of two stays the same from one window to the next, so that a model can begin where
    another ended.
    """
    if all(sketch[-1] == NO_CODE for sketch in sketches):
        union = np.unique(np.concatenate([*sketches, np.zeros(1, np.uint32)]))
        return tuple(int(code) for code in union if code != NO_CODE), 0
    estimate = distinct_estimate(merged_sketch(sketches))
    return (0,), 1 << math.ceil(math.log2(_HEADROOM * estimate))


def quantile_edges(sample: np.ndarray) -> tuple[float | None, ...]:
    """The distinct inner quantiles of float32[rows], of its finite values, ascending; None (no edge) up to 31."""
    values = np.sort(sample[np.isfinite(sample)])
    if not len(values):
        return (None,) * (BINS - 1)
    inner = np.unique(values[np.arange(1, BINS) * len(values) // BINS])
    # a lowest edge at the minimum would leave the bin below it empty
    found = [float(edge) for edge in inner if edge > values[0]]
    return (*found, *[None] * (BINS - 1 - len(found)))


def sample_of(files: Sequence[np.ndarray]) -> np.ndarray:
    """About 200,000 of the rows of all files: the first of each, in proportion, since a file's rows lie in random order."""
    total = sum(len(records) for records in files)
    share = min(1.0, _SAMPLE_ROWS / max(total, 1))
    return np.concatenate([records[: int(np.ceil(len(records) * share))] for records in files])


def fit_window(
    *,
    categories: Sequence[str],
    numbers: Sequence[str],
    moments: Sequence[Mapping[str, Moments]],
    sketches: Sequence[np.ndarray],
    sample: np.ndarray,
) -> Fit:
    """The fit of a window.

    Args:
        moments: per day those of each number, over the values that are there.
        sketches: per day uint32[categories, k].
        sample: float32[rows, numbers], NaN where missing.

    Raises:
        DataError: a number's moments are not finite.
    """
    codes = [codes_and_rows([sketch[field] for sketch in sketches]) for field in range(len(categories))]
    merged = [reduce(Moments.merged, [day[name] for day in moments], Moments()) for name in numbers]
    for name, part in zip(numbers, merged, strict=True):
        if not (math.isfinite(part.mean) and math.isfinite(part.m2)):
            raise DataError(
                f"the number {name} must be finite or missing, but its mean over the window is {part.mean}: every row "
                f"would be scaled to nonsense. Give the column bounds in the contract, and rebuild its features."
            )
    return Fit(
        categories=tuple(categories),
        numbers=tuple(numbers),
        known=tuple(known for known, _ in codes),
        hashed_rows=tuple(rows for _, rows in codes),
        means=tuple(part.mean for part in merged),
        inverse_deviations=tuple(inverse_deviation(part) for part in merged),
        edges=tuple(quantile_edges(sample[:, field]) for field in range(len(numbers))),
    )
