from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from resources.contract.digest import record_digest
from resources.demo.shop import events
from resources.demo.truth import (
    best_possible,
    hours_of,
    logits,
    planted_probability,
    price_bands,
    probability,
)

DAY = date(2026, 1, 5)


@pytest.fixture(scope="module")
def day() -> pa.Table:
    return events(DAY, scale=0.2)


def columns(**changed: object) -> dict[str, pa.Array]:
    row: dict[str, object] = {
        "user": "u1",
        "item": "007",
        "category": "books",
        "brand": "brand-001",
        "device": "tablet",
        "country": "DE",
        "price": 19.9,
        "hour": 7,
    }
    types = {"price": pa.float64(), "hour": pa.int64()}
    return {name: pa.array([value], types.get(name, pa.string())) for name, value in {**row, **changed}.items()}


def test_the_truth_is_golden() -> None:
    rows = events(DAY, scale=0.01)
    table = {**{name: rows[name] for name in rows.column_names}, "hour": hours_of(rows["event_time"])}
    assert record_digest(logits(table, seed=0), ordered=True) == "43f86233e7e7b7652f23b89926e392e9"
    assert probability(columns(), seed=0)[0] == pytest.approx(0.065099504980, abs=1e-12)
    assert probability(columns(user=None, price=None, country=None), seed=0)[0] == pytest.approx(
        0.015815095581, abs=1e-12
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"user": "u2"},
        {"item": "7"},
        {"category": "toys"},
        {"brand": "brand-002"},
        {"device": "tv"},
        {"country": "FR"},
        {"price": 50.0},
        {"hour": 8},
        *({name: None} for name in ("user", "item", "category", "brand", "device", "country", "price")),
    ],
    ids=str,
)
def test_every_column_matters_and_missing_is_a_level_of_its_own(changed: dict[str, object]) -> None:
    assert logits(columns(**changed), seed=0) != logits(columns(), seed=0)


def test_the_empty_text_is_not_the_missing_one() -> None:
    assert logits(columns(brand=""), seed=0) != logits(columns(brand=None), seed=0)


def test_pairs_have_effects_that_no_sum_of_main_effects_has() -> None:
    def beyond_the_sum(one: dict[str, object], other: dict[str, object]) -> float:
        """The largest interaction of two changes over some truths: one of them may be small by chance."""
        sizes = []
        for seed in range(5):
            both, first, second, neither = (
                float(logits(columns(**changed), seed=seed)[0]) for changed in ({**one, **other}, one, other, {})
            )
            sizes.append(abs(both - first - second + neither))
        return max(sizes)

    assert beyond_the_sum({"country": "FR"}, {"category": "toys"}) > 0.3
    assert beyond_the_sum({"hour": 8}, {"device": "tv"}) > 0.3
    assert beyond_the_sum({"price": 50.0}, {"country": "FR"}) > 0.3
    assert beyond_the_sum({"item": "7"}, {"brand": "brand-002"}) < 1e-12


def test_a_row_has_its_probability_whatever_stands_around_it(day: pa.Table) -> None:
    whole = planted_probability(day)
    some = np.random.default_rng(0).permutation(day.num_rows)[:500]
    assert np.array_equal(planted_probability(day.take(pa.array(some))), whole[some])
    split = pa.concat_tables([day.slice(0, 100), day.slice(100)])
    assert np.array_equal(planted_probability(split), whole)


def test_the_pipelines_decimals_and_doubles_tell_the_same_price_band(day: pa.Table) -> None:
    price = day["price"]
    assert np.array_equal(price_bands(price.cast(pa.decimal128(18, 6))), price_bands(price.cast(pa.float64())))
    assert price_bands(pa.array([7.99, 8.0, 79.99, 80.0, None])).tolist() == [0, 1, 4, 5, 255]


def test_a_seed_is_another_truth(day: pa.Table) -> None:
    assert abs(np.corrcoef(planted_probability(day, seed=0), planted_probability(day, seed=1))[0, 1]) < 0.3


def test_clicks_happen_as_often_as_the_truth_says(day: pa.Table) -> None:
    planted, clicked = planted_probability(day), day["clicked"].to_numpy()
    for low, high in ((0, 0.1), (0.1, 0.2), (0.2, 0.4), (0.4, 1)):
        within = (low <= planted) & (planted < high)
        error = (planted[within] * (1 - planted[within])).sum() ** 0.5
        assert within.sum() > 100
        assert abs(clicked[within].sum() - planted[within].sum()) < 4 * error


def test_the_hour_is_the_shops_and_follows_its_clock_changes() -> None:
    def hour(moment: datetime) -> int:
        return hours_of(pa.array([moment], pa.timestamp("us", tz="UTC"))).to_pylist()[0]

    assert hour(datetime(2026, 1, 5, 22, 59, 59, 999_999, tzinfo=UTC)) == 23
    assert hour(datetime(2026, 1, 5, 23, tzinfo=UTC)) == 0
    spring = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
    assert [hour(spring + timedelta(hours=n)) for n in range(3)] == [1, 3, 4]
    autumn = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert [hour(autumn + timedelta(hours=n)) for n in range(3)] == [2, 2, 3]


def test_the_best_possible_is_that_of_the_planted_probability() -> None:
    rows = events(DAY, scale=0.005)
    planted, clicked = planted_probability(rows), rows["clicked"].to_numpy()
    pairs = planted[clicked][:, None] - planted[~clicked][None, :]
    best = best_possible(rows)
    assert best.rows == rows.num_rows
    assert best.auc == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())
    assert best.log_loss == pytest.approx(-np.log(np.where(clicked, planted, 1 - planted)).mean())


def test_the_best_possible_auc_is_unknown_where_all_rows_agree() -> None:
    rows = events(DAY, scale=0.005)
    best = best_possible(rows.filter(rows["clicked"]))
    assert np.isnan(best.auc) and best.log_loss > 0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_best_possible_lies_where_a_model_has_something_to_learn(seed: int) -> None:
    rows = pa.concat_tables([events(DAY + timedelta(days=n), seed=seed) for n in range(2)])
    assert 0.74 < best_possible(rows, seed=seed).auc < 0.79
    assert 0.15 < rows["clicked"].to_numpy().mean() < 0.35
