"""The baselines learn what is there for them to learn, know nothing else, and are the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from assets.evaluation.baselines import ItemCounts, ItemRate, LogisticRegression
from assets.evaluation.metrics import auc
from assets.preprocessing.layout import Layout
from resources.contract.buckets import mix32, salt_of

LAYOUT = Layout(categories=("item", "country"), numbers=("price", "constant"))


def counts(*rows: tuple[int, int]) -> ItemCounts:
    items, labels = zip(*rows, strict=True)
    return ItemCounts.of(np.array(items, np.uint64), np.array(labels, np.float32))


def records(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose label depends on item and country one by one, on price in a bend, and on price being missing."""
    random = np.random.default_rng(seed)
    item, country = random.integers(1, 50, rows), random.integers(1, 8, rows)
    price = random.normal(0, 1, rows).astype(np.float32)
    effect = np.sin(item) + 0.7 * np.cos(3 * country) + 1.5 * (np.abs(price) < 0.5)
    missing = random.random(rows) < 0.2
    price[missing], effect[missing] = np.nan, effect[missing] - 1.0
    made = LAYOUT.empty(rows)
    for place, (name, values) in enumerate((("item", item), ("country", country))):
        made[:, place] = mix32(values.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15), salt_of(name))
    made.view(np.float32)[:, 2], made.view(np.float32)[:, 3] = price, 7.0
    return made, (random.random(rows) < 1 / (1 + np.exp(1.0 - effect))).astype(np.float32)


def test_an_items_rate_is_drawn_towards_the_global_rate() -> None:
    rate = ItemRate(counts(*[(1, 1)] * 20, *[(2, 0)] * 60))
    assert rate.score(np.array([1, 2, 3, 0], np.uint64)).tolist() == [
        np.float32((20 + 20 * 0.25) / 40),
        np.float32((0 + 20 * 0.25) / 80),
        0.25,
        0.25,
    ]


def test_rows_without_an_item_count_for_the_global_rate_alone() -> None:
    rate = ItemRate(counts((0, 1), (0, 1), (0, 1), (5, 0)))
    assert rate.score(np.array([0, 6, 5], np.uint64)).tolist() == [0.75, 0.75, np.float32(15 / 21)]


def test_counts_of_several_files_are_the_counts_of_all_their_rows() -> None:
    rows = [(1, 1), (2, 0), (1, 0), (9, 1), (2, 1), (1, 1)]
    apart = ItemCounts.total([counts(*rows[:2]), counts(*rows[2:5]), counts(*rows[5:])])
    together = counts(*rows)
    assert apart.items.tolist() == together.items.tolist() == [1, 2, 9]
    assert apart.rows.tolist() == together.rows.tolist() == [3, 2, 1]
    assert apart.positives.tolist() == together.positives.tolist() == [2.0, 1.0, 1.0]


def test_the_logistic_regression_learns_effects_bends_and_missing_numbers() -> None:
    fitted = LogisticRegression(*records(8_000, seed=1), LAYOUT)
    unseen, labels = records(8_000, seed=2)
    found = auc(labels, fitted.score(unseen))
    flat = unseen.copy()
    flat.view(np.float32)[:, 2] = 0.0
    without_price = auc(labels, fitted.score(flat))
    assert found is not None
    assert without_price is not None
    assert found > 0.77
    assert found - without_price > 0.05
    assert abs(fitted.score(unseen).mean() / labels.mean() - 1) < 0.05


def test_the_logistic_regression_is_the_same_every_time() -> None:
    train, labels = records(2_000, seed=1)
    scores = [LogisticRegression(train, labels, LAYOUT).score(train) for _ in range(2)]
    assert scores[0].tobytes() == scores[1].tobytes()
    assert scores[0].dtype == np.float32


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_where_the_window_has_one_class_the_logistic_regression_says_so(label: float) -> None:
    train, _ = records(50, seed=1)
    fitted = LogisticRegression(train, np.full(50, label, np.float32), LAYOUT)
    assert fitted.score(train).tolist() == [label] * 50


def test_a_number_that_is_always_missing_and_a_layout_without_numbers_do_no_harm() -> None:
    train, labels = records(2_000, seed=1)
    train.view(np.float32)[:, 3] = np.nan
    assert np.isfinite(LogisticRegression(train, labels, LAYOUT).score(train)).all()
    bare = Layout(categories=("item",), numbers=())
    few = bare.empty(2_000)
    few[:, 0] = train[:, 0]
    assert np.isfinite(LogisticRegression(few, labels, bare).score(few)).all()


def test_one_wild_number_does_not_steer_the_fit() -> None:
    train, labels = records(4_000, seed=1)
    wild = train.copy()
    wild.view(np.float32)[0, 2] = 1e12
    unseen, truth = records(4_000, seed=2)
    calm, steered = (auc(truth, LogisticRegression(t, labels, LAYOUT).score(unseen)) for t in (train, wild))
    assert calm is not None
    assert steered is not None
    assert abs(calm - steered) < 0.01
