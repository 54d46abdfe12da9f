from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from assets.preprocessing.statistics import SKETCH_CODES, Moments, sketch_of
from assets.training.fit import BINS, Fit, codes_and_rows, fit_window, quantile_edges, sample_of
from resources.contract.errors import DataError


def fitted(*days: list[float], codes: list[int] | None = None) -> Fit:
    """The fit of one category and one number."""
    values = [np.array(day, np.float32) for day in days]
    return fit_window(
        categories=("a",),
        numbers=("x",),
        moments=[{"x": Moments.of(day)} for day in values],
        sketches=[sketch_of(np.array(codes or [1], np.uint32))[None]],
        sample=np.concatenate(values)[:, None],
    )


def test_normalisation_knows_the_training_days_only() -> None:  # case C1
    fit = fitted([1, 1, 1, 1], [1, 1, 3, 3])
    assert fit.means == (1.5,)
    assert 1 / fit.inverse_deviations[0] == pytest.approx(0.8660, abs=5e-5)
    assert (9 - fit.means[0]) * fit.inverse_deviations[0] == pytest.approx(8.66, abs=5e-3)


@pytest.mark.parametrize("values", [[5, 5], [0.1] * 7, [0.1, 0.10000001], [7], [0, 0, 0], [float("nan")]])
def test_a_number_without_variance_is_scaled_to_zero(values: list[float]) -> None:  # case C7
    assert fitted(values).inverse_deviations == (0.0,)


def test_a_tiny_variance_is_one() -> None:
    assert fitted([1e-12, 3e-12]).inverse_deviations[0] == pytest.approx(1e12)


def test_an_infinite_number_is_refused_by_name() -> None:
    with pytest.raises(DataError, match="the number x must be finite or missing"), np.errstate(invalid="ignore"):
        fitted([1.0, float("inf")])


def test_codes_are_listed_where_every_day_lists_them() -> None:
    days = [sketch_of(np.array(codes, np.uint32)) for codes in ([7, 3], [3, 2**32 - 2], [])]
    assert codes_and_rows(days) == ((0, 3, 7, 2**32 - 2), 0)
    assert codes_and_rows([]) == ((0,), 0)


def test_codes_are_hashed_where_a_day_has_too_many() -> None:
    rng = np.random.default_rng(0)
    days = [sketch_of(rng.integers(1, 2**32, 30_000).astype(np.uint32)) for _ in range(2)]
    known, rows = codes_and_rows([*days, sketch_of(np.array([5], np.uint32))])
    assert known == (0,)
    assert rows == 2**18  # the power of two above 4 x 60,000


def test_a_full_sketch_counts_as_too_many() -> None:
    assert codes_and_rows([sketch_of(np.arange(1, SKETCH_CODES + 1, dtype=np.uint32))])[1] > 0


def test_the_table_has_a_row_for_everything() -> None:
    fit = fitted([1, 2, 3], codes=[4, 9])
    assert (fit.num_known, fit.first_bin_row, fit.unseen_row, fit.table_rows) == (3, 3, 3 + BINS + 1, 3 + BINS + 2)


def test_edges_part_a_sample_evenly() -> None:
    edges = [edge for edge in quantile_edges(np.random.default_rng(0).random(32_000).astype(np.float32)) if edge]
    assert len(edges) == BINS - 1
    assert np.allclose(edges, np.arange(1, BINS) / BINS, atol=0.02)


@pytest.mark.parametrize(
    ("values", "expected"), [([0, 0, 0, 1, 2], [1, 2]), ([5, 5], []), ([float("nan"), float("inf")], []), ([], [])]
)
def test_edges_are_distinct_and_above_the_lowest_value(values: list[float], expected: list[float]) -> None:
    edges = quantile_edges(np.array(values, np.float32))
    assert list(edges) == expected + [None] * (BINS - 1 - len(expected))


def test_a_sample_takes_the_first_rows_of_each_file_in_proportion() -> None:
    files = [np.arange(300_000)[:, None], np.arange(100_000)[:, None], np.arange(1)[:, None]]
    sample = sample_of(files)
    assert len(sample) == pytest.approx(200_000, rel=1e-4)
    assert int(np.argmin(np.diff(sample[:, 0]))) + 1 == pytest.approx(150_000, rel=1e-4)
    assert len(sample_of(files[2:])) == 1


def test_a_fit_goes_through_json(tmp_path: Path) -> None:
    fit = fitted([1, 2, 2, 5], codes=[4, 2**32 - 2])
    (tmp_path / "fit.json").write_text(json.dumps(fit.as_json(), allow_nan=False))
    assert Fit.from_json(json.loads((tmp_path / "fit.json").read_text())) == fit
