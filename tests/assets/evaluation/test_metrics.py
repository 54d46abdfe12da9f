"""Metrics are exact, over all rows together, and do not depend on the rows' order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from assets.evaluation.metrics import auc, auc_within_users, calibration_error, log_loss, metrics
from resources.contract.errors import DataError

NOBODY = np.zeros(0, np.float32)


def arrays(*rows: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    labels, scores = zip(*rows, strict=True)
    return np.array(labels, np.float32), np.array(scores, np.float32)


def test_auc_is_over_all_rows_and_not_a_mean_over_ranks() -> None:  # case D9
    first, second = [(1, 0.9), (0, 0.8)], [(1, 0.2), (0, 0.1)]
    assert auc(*arrays(*first, *second)) == 0.75
    assert [auc(*arrays(*first)), auc(*arrays(*second))] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(1, 0.5), (0, 0.5)], 0.5),
        ([(1, 0.5), (0, 0.5), (0, 0.1)], 0.75),
        ([(1, 0.1), (0, 0.9)], 0.0),
        ([(1, 0.5)], None),
        ([(0, 0.5), (0, 0.7)], None),
    ],
)
def test_a_tie_counts_half_and_one_class_has_no_auc(rows: list[tuple[float, float]], expected: float | None) -> None:
    assert auc(*arrays(*rows)) == expected


few_scores = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.50001, 1.0])
some_rows = st.lists(st.tuples(st.booleans(), few_scores, st.integers(0, 4)), min_size=1, max_size=60)


@given(some_rows)
def test_auc_is_the_share_of_pairs_in_the_right_order(rows: list[tuple[bool, float, int]]) -> None:
    labels, scores, _ = (np.array(column) for column in zip(*rows, strict=True))
    pairs = [(p, n) for p in scores[labels] for n in scores[~labels]]
    right = sum(1.0 if p > n else 0.5 if p == n else 0.0 for p, n in pairs)
    assert auc(labels, scores) == (right / len(pairs) if pairs else None)


@given(some_rows)
def test_auc_within_users_is_the_mean_over_users_by_their_rows(rows: list[tuple[bool, float, int]]) -> None:
    labels, scores, users = (np.array(column) for column in zip(*rows, strict=True))
    each = [
        (auc(labels[users == user], scores[users == user]), int((users == user).sum()))
        for user in range(1, 5)  # user 0 is nobody
    ]
    known = [(value, rows) for value, rows in each if value is not None]
    expected = sum(v * n for v, n in known) / sum(n for _, n in known) if known else None
    found = auc_within_users(labels, scores, users.astype(np.uint64))
    assert found == expected if expected is None else found == pytest.approx(expected, abs=1e-12)


@given(some_rows, st.randoms(use_true_random=False))
def test_no_metric_depends_on_the_order_of_the_rows(rows: list[tuple[bool, float, int]], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # pyright: ignore[reportAttributeAccessIssue]
    found = [
        metrics(labels, scores, users.astype(np.uint64))
        for labels, scores, users in ([np.array(c) for c in zip(*r, strict=True)] for r in (rows, shuffled))
    ]
    assert found[0] == found[1]


def test_auc_is_exact_where_pairs_are_many() -> None:
    random = np.random.default_rng(0)
    labels, scores = random.random(200_000) < 0.1, random.random(200_000).astype(np.float32).round(4)
    assert auc(labels, scores) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


@pytest.mark.parametrize("label", [2, -1, 0.5, float("nan")])
@pytest.mark.parametrize("metric", [auc, log_loss, calibration_error])
def test_a_label_outside_0_and_1_is_refused(label: float, metric: object) -> None:
    with pytest.raises(DataError, match=r"labels must be 0 or 1, got .* in row 1"):
        metric(*arrays((1, 0.5), (label, 0.5)))  # pyright: ignore[reportCallIssue]


def test_a_score_that_is_no_number_is_refused() -> None:
    with pytest.raises(DataError, match="not a finite number"):
        auc(*arrays((1, 0.5), (0, float("nan"))))


def test_log_loss_is_the_mean_negative_log_likelihood_and_never_infinite() -> None:
    assert log_loss(*arrays((1, 0.5), (0, 0.5))) == pytest.approx(math.log(2))
    assert log_loss(*arrays((1, 0.25), (0, 0.25))) == pytest.approx(-(math.log(0.25) + math.log(0.75)) / 2)
    assert log_loss(*arrays((1, 0.0))) == pytest.approx(-math.log(1e-7))


def test_calibration_tells_how_far_predictions_lie_from_what_happened() -> None:
    labels = np.repeat([1, 0], [100, 300]).astype(np.float32)  # one score: in whatever order, all bins are alike
    users = np.ones(400, np.uint64)
    right = metrics(labels, np.full(400, 0.25, np.float32), users)
    double = metrics(labels, np.full(400, 0.5, np.float32), users)
    assert (right.calibration_ratio, right.calibration_error) == (1.0, 0.0)
    assert (double.calibration_ratio, double.calibration_error) == (2.0, 0.25)


def test_calibration_error_sees_opposite_errors_that_the_ratio_does_not() -> None:
    labels = np.array([1] * 50 + [0] * 50, np.float32)
    scores = np.array([0.4] * 50 + [0.6] * 50, np.float32)
    found = metrics(labels, scores, np.ones(100, np.uint64))
    assert found.calibration_ratio == pytest.approx(1.0)
    assert found.calibration_error == pytest.approx(0.6)


def test_a_day_without_rows_has_no_metrics() -> None:
    found = metrics(NOBODY, NOBODY, np.zeros(0, np.uint64)).as_json()
    assert {name for name, value in found.items() if value is not None} == {"rows", "positives"}
    assert (found["rows"], found["positives"]) == (0, 0)
