"""The interval of an AUC difference is a bootstrap by user, paired, exact and repeatable."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from assets.evaluation import bootstrap
from assets.evaluation.bootstrap import auc_difference


def day(rows: int, num_users: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, a score that knows something of them (with ties), and users who own several rows each."""
    random = np.random.default_rng(seed)
    labels = (random.random(rows) < 0.3).astype(np.float32)
    scores = (random.random(rows) + 0.5 * labels).round(2).astype(np.float32)
    return labels, scores, random.integers(1, num_users + 1, rows).astype(np.uint64)


def noisy(scores: np.ndarray, by: float, seed: int = 1) -> np.ndarray:
    return (scores + np.random.default_rng(seed).normal(0, by, len(scores))).astype(np.float32)


def test_each_replicate_is_the_auc_of_the_drawn_users_rows_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, first, users = day(300, 40)
    second = noisy(first, 0.5)
    drawn: list[np.ndarray] = []

    class Recording:
        def __init__(self, seed: int) -> None:
            self._random = np.random.Generator(np.random.PCG64(seed))

        def integers(self, *arguments: int, **named: tuple[int, int]) -> np.ndarray:
            drawn.append(self._random.integers(*arguments, **named))
            return drawn[-1]

    monkeypatch.setattr(np.random, "default_rng", Recording)
    monkeypatch.setattr(bootstrap, "_CHUNK_CELLS", 300 * 7)  # several chunks
    found = auc_difference(labels, first, second, users, replicates=50)
    everybody = np.unique(users)
    expected = []
    for owners in np.concatenate(drawn):
        rows = np.concatenate([np.flatnonzero(users == everybody[owner]) for owner in owners])
        expected.append(roc_auc_score(labels[rows], first[rows]) - roc_auc_score(labels[rows], second[rows]))
    assert len(expected) == 50
    assert found.interval == pytest.approx(np.quantile(expected, [0.025, 0.975]), abs=1e-12)
    assert found.value == pytest.approx(roc_auc_score(labels, first) - roc_auc_score(labels, second), abs=1e-12)


def test_a_model_does_not_differ_from_itself() -> None:
    labels, scores, users = day(2_000, 300)
    found = auc_difference(labels, scores, scores, users)
    assert (found.value, found.interval) == (0.0, (0.0, 0.0))


def test_swapping_the_models_mirrors_the_interval() -> None:
    labels, first, users = day(2_000, 300)
    second = noisy(first, 0.3)
    one, other = auc_difference(labels, first, second, users), auc_difference(labels, second, first, users)
    assert one.value is not None
    assert one.interval is not None
    assert one.interval[0] > 0
    assert other.value == -one.value
    assert other.interval == pytest.approx((-one.interval[1], -one.interval[0]), abs=1e-12)


def test_it_is_the_same_again_and_in_any_order_of_the_rows_and_in_any_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    labels, first, users = day(2_000, 300)
    second = noisy(first, 0.3)
    order = np.random.default_rng(5).permutation(2_000)
    once = auc_difference(labels, first, second, users)
    assert auc_difference(labels[order], first[order], second[order], users[order]) == once
    assert auc_difference(labels, first, second, users, seed=1) != once
    monkeypatch.setattr(bootstrap, "_CHUNK_CELLS", 2_000 * 13)
    assert auc_difference(labels, first, second, users) == once


def test_the_interval_is_wider_where_few_users_own_the_rows() -> None:
    labels, first, many = day(3_000, 3_000)
    random = np.random.default_rng(3)
    few = (np.arange(3_000) // 100 + 1).astype(np.uint64)
    second = first + np.repeat(random.normal(0, 0.4, 30), 100).astype(np.float32)  # what differs, differs by user
    widths = []
    for users in (many, few):
        interval = auc_difference(labels, first, second, users).interval
        assert interval is not None
        widths.append(interval[1] - interval[0])
    assert widths[1] > 1.5 * widths[0]


def test_the_interval_covers_no_difference_about_95_times_in_100() -> None:
    covered = 0
    for seed in range(200):
        labels, truth, users = day(400, 150, seed)
        found = auc_difference(
            labels, noisy(truth, 0.3, seed + 1_000), noisy(truth, 0.3, seed + 5_000), users, replicates=200
        )
        assert found.interval is not None
        covered += found.interval[0] <= 0 <= found.interval[1]
    assert 180 <= covered <= 199


def test_rows_without_a_user_are_drawn_one_by_one() -> None:
    labels, first, _ = day(1_000, 1)
    second = noisy(first, 0.3)
    nobody, everybody = np.zeros(1_000, np.uint64), np.arange(1, 1_001, dtype=np.uint64)
    assert auc_difference(labels, first, second, nobody) == auc_difference(labels, first, second, everybody)


def test_without_both_classes_there_is_no_difference() -> None:
    _, scores, users = day(100, 10)
    found = auc_difference(np.zeros(100), scores, scores, users)
    assert (found.value, found.interval) == (None, None)
    nothing = np.zeros(0, np.float32)
    assert auc_difference(nothing, nothing, nothing, np.zeros(0, np.uint64)).value is None


def test_replicates_of_one_class_only_are_left_out() -> None:
    labels, users = np.array([1, 0, 0, 0], np.float32), np.array([1, 2, 3, 4], np.uint64)
    first, second = np.array([0.9, 0.1, 0.2, 0.3], np.float32), np.array([0.2, 0.1, 0.3, 0.4], np.float32)
    found = auc_difference(labels, first, second, users)
    assert found.value == pytest.approx(2 / 3)
    assert found.interval is not None
    assert not np.isnan(found.interval).any()
