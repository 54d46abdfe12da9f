from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.preprocessing.statistics import (
    NO_CODE,
    SKETCH_CODES,
    Moments,
    distinct_estimate,
    merged_sketch,
    sketch_of,
)
from resources.contract.buckets import mix32

VALUES = st.lists(st.floats(-1e6, 1e6, width=32), max_size=20)


@given(VALUES, VALUES, VALUES)
def test_moments_that_are_merged_are_those_of_all_values_together(
    a: list[float], b: list[float], c: list[float]
) -> None:
    first, second, third = (Moments.of(np.array(part, np.float32)) for part in (a, b, c))
    together = np.array([*a, *b, *c], np.float64)
    for merged in (first.merged(second).merged(third), first.merged(second.merged(third))):
        assert merged.n == len(together)
        if merged.n:
            assert merged.mean == pytest.approx(together.mean(), rel=1e-9, abs=1e-9)
            assert merged.std == pytest.approx(together.std(), rel=1e-7, abs=1e-7)


def test_c1_moments_of_the_training_days_know_nothing_of_later_days() -> None:
    days = [Moments.of(np.array(day, np.float32)) for day in ([1, 1, 1, 1], [1, 1, 3, 3], [9, 9, 9, 9])]
    window = days[0].merged(days[1])
    assert (window.mean, window.std) == (1.5, pytest.approx(0.8660, abs=5e-5))
    assert (9 - window.mean) / window.std == pytest.approx(8.66, abs=5e-3)
    assert window.merged(days[2]).mean == 4.0


@pytest.mark.parametrize("values", [[5.0, 5.0], [0.1] * 7, [5.0]])
def test_c7_a_constant_has_no_variance_at_all_however_it_is_merged(values: list[float]) -> None:
    moments = Moments.of(np.array(values, np.float32))
    assert (moments.m2, moments.std) == (0.0, 0.0)
    assert moments.merged(moments).merged(Moments()).m2 == 0.0


def test_missing_values_are_no_values() -> None:
    assert Moments.of(np.array([np.nan, 2.0, np.nan, 4.0], np.float32)) == Moments(n=2, mean=3.0, m2=2.0)
    assert Moments.of(np.array([np.nan], np.float32)) == Moments()
    assert Moments().merged(Moments()) == Moments()
    assert Moments().std == 0.0


def test_large_values_with_a_small_spread_keep_their_variance() -> None:
    values = np.array([1e7, 1e7 + 1, 1e7 + 2], np.float32)
    assert Moments.of(values).std == pytest.approx(values.astype(np.float64).std())


CODES = st.lists(st.integers(0, 2**32 - 2), max_size=60)


@given(CODES, CODES)
def test_sketches_merge_to_the_sketch_of_everything(left: list[int], right: list[int]) -> None:
    a, b = np.array(left, np.uint32), np.array(right, np.uint32)
    assert np.array_equal(merged_sketch([sketch_of(a), sketch_of(b)]), sketch_of(np.concatenate([a, b])))
    assert np.array_equal(sketch_of(np.concatenate([sketch_of(a), b])), sketch_of(np.concatenate([a, b])))


@given(CODES)
def test_few_values_are_counted_exactly_without_the_missing_one(codes: list[int]) -> None:
    sketch = sketch_of(np.array(codes, np.uint32))
    assert distinct_estimate(sketch) == len(set(codes) - {0})
    assert (sketch.dtype, sketch.shape) == (np.uint32, (SKETCH_CODES,))
    assert sketch.tolist() == sorted(sketch.tolist())
    assert (sketch[len(set(codes) - {0}) :] == NO_CODE).all()


@pytest.mark.parametrize("distinct", [2_000, 10_000, 300_000])
def test_many_values_are_estimated_within_the_promised_error(distinct: int) -> None:
    codes = mix32(np.arange(1, distinct + 1).astype(np.uint64), salt=7)
    halves = [sketch_of(codes[: distinct // 2]), sketch_of(codes[distinct // 3 :])]
    estimate = distinct_estimate(merged_sketch(halves))
    assert estimate == pytest.approx(distinct, rel=0.07)  # three standard errors
    assert distinct >= SKETCH_CODES or estimate == len(set(codes.tolist()))


def test_no_sketches_merge_to_the_empty_one() -> None:
    assert distinct_estimate(merged_sketch([])) == 0
