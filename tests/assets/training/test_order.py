from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.training.order import LANES, Order, block_rows_of, files_at
from resources.contract.errors import ConfigError


def order_of(*rows: int, batch_rows: int = 64, epochs: int = 1, seed: int = 0, contents: str = "x") -> Order:
    return Order(
        rows=rows,
        contents=tuple(f"{contents}{file}" for file in range(len(rows))),
        batch_rows=batch_rows,
        epochs=epochs,
        seed=seed,
    )


def epoch_rows(order: Order, epoch: int, *, ranks: int = 1) -> list[tuple[int, int]]:
    """(file, row) of every place that holds a row, over all steps and ranks of an epoch."""
    found = []
    for position in range(epoch * order.steps_per_epoch, (epoch + 1) * order.steps_per_epoch):
        for rank in range(ranks):
            files, rows = order.rows_at(position, rank=rank, ranks=ranks)
            found += [(f, r) for f, r in zip(files.tolist(), rows.tolist(), strict=True) if f >= 0]
    return found


def all_rows(order: Order) -> list[tuple[int, int]]:
    return [(file, row) for file, rows in enumerate(order.rows) for row in range(rows)]


uneven = st.lists(st.integers(0, 700), min_size=1, max_size=6).filter(sum)


@settings(max_examples=60)
@given(rows=uneven, share=st.integers(1, 3), ranks=st.sampled_from([1, 2, 4, 64]), seed=st.integers(0, 5))
def test_every_row_comes_exactly_once_an_epoch_for_any_number_of_ranks(
    rows: list[int], share: int, ranks: int, seed: int
) -> None:
    order = order_of(*rows, batch_rows=LANES * share, seed=seed)
    assert sorted(epoch_rows(order, 0, ranks=ranks)) == all_rows(order)


@settings(max_examples=40)
@given(rows=uneven, share=st.integers(1, 3), ranks=st.sampled_from([2, 4, 8]))
def test_the_batch_holds_the_same_rows_in_the_same_order_for_any_number_of_ranks(
    rows: list[int], share: int, ranks: int
) -> None:
    order = order_of(*rows, batch_rows=LANES * share)
    for position in range(order.steps):
        alone = np.stack(order.rows_at(position))
        parts = [np.stack(order.rows_at(position, rank=rank, ranks=ranks)) for rank in range(ranks)]
        assert (np.concatenate(parts, axis=1) == alone).all()
        assert len({part.shape for part in parts}) == 1


@settings(max_examples=40)
@given(rows=uneven, share=st.integers(1, 3))
def test_only_the_last_step_of_an_epoch_has_places_without_a_row_and_the_count_says_how_many(
    rows: list[int], share: int
) -> None:
    order = order_of(*rows, batch_rows=LANES * share, epochs=2)
    counts = [int((order.rows_at(position)[0] >= 0).sum()) for position in range(order.steps)]
    assert counts == [order.rows_in_batch(position) for position in range(order.steps)]
    assert all(count == order.batch_rows for count in counts[: order.steps_per_epoch - 1])
    assert sum(counts) == 2 * order.total


@settings(max_examples=40)
@given(rows=uneven, ranks=st.sampled_from([1, 4]))
def test_runs_say_the_same_as_rows(rows: list[int], ranks: int) -> None:
    order = order_of(*rows, batch_rows=128)
    for position in range(order.steps):
        files, places = order.rows_at(position, rank=ranks - 1, ranks=ranks)
        told = np.full((2, len(files)), -1)
        for file, first, place, length in order.runs_at(position, rank=ranks - 1, ranks=ranks).tolist():
            told[:, place : place + length] = [[file] * length, range(first, first + length)]
        assert (told[0] == files).all()
        assert (told[1][files >= 0] == places[files >= 0]).all()


def test_a_new_epoch_has_another_order_and_the_same_rows() -> None:  # case D6
    order = order_of(300, 50, 150, epochs=2)
    first, second = epoch_rows(order, 0), epoch_rows(order, 1)
    assert first != second
    assert sorted(first) == sorted(second) == all_rows(order)


def test_six_rows_over_two_ranks_are_six_rows() -> None:  # case D8
    assert sorted(epoch_rows(order_of(6), 0, ranks=2)) == [(0, row) for row in range(6)]


def test_five_rows_over_four_ranks_have_an_accuracy_of_four_fifths() -> None:  # case D4
    order = order_of(5)
    right = np.array([0.0, 1, 1, 1, 1])
    hits = weights = 0.0
    for rank in range(4):
        files, rows = order.rows_at(0, rank=rank, ranks=4)
        weight = (files >= 0).astype(float)
        hits, weights = hits + float((right[rows] * weight).sum()), weights + float(weight.sum())
    assert order.steps == 1
    assert hits / weights == 0.80


def test_the_order_depends_on_seed_and_contents_and_on_nothing_else() -> None:
    rows = epoch_rows(order_of(500, 200), 0)
    assert rows == epoch_rows(order_of(500, 200), 0)
    assert rows != epoch_rows(order_of(500, 200, seed=1), 0)
    assert rows != epoch_rows(order_of(500, 200, contents="y"), 0)


def test_the_order_never_changes_between_versions() -> None:
    assert epoch_rows(order_of(5, 3, seed=7), 0) == [
        (1, 2), (0, 1), (0, 2), (0, 4), (0, 0), (0, 3), (1, 1), (1, 0),
    ]  # fmt: skip


def test_ranks_read_different_blocks() -> None:
    order = order_of(64 * 40 * 32)
    blocks = [
        {
            row // block_rows_of(order.total)
            for position in range(order.steps)
            for row in order.rows_at(position, rank=rank, ranks=4)[1].tolist()
        }
        for rank in range(4)
    ]
    assert sum(map(len, blocks)) <= len(set.union(*blocks)) + 3  # a block on the border of two ranks


def test_a_batch_mixes_many_files() -> None:
    order = order_of(*[2000] * 32, batch_rows=512)
    assert len(set(order.rows_at(3)[0].tolist())) > 20


@pytest.mark.parametrize(("rows", "expected"), [(10, 1), (490_000, 239), (2048 * 100, 100), (10**9, 4096)])
def test_blocks_are_small_enough_for_32_a_lane(rows: int, expected: int) -> None:
    assert block_rows_of(rows) == expected


def test_ranks_that_do_not_divide_the_lanes_are_refused() -> None:
    with pytest.raises(ConfigError, match="must divide the 64 lanes, got 3"):
        order_of(100).lanes_of(0, 3)
    with pytest.raises(ConfigError, match="multiple of the 64 lanes that feed a batch, got 100"):
        order_of(100, batch_rows=100)


def test_files_of_a_step_are_named() -> None:
    order = order_of(3, 4)
    assert files_at(order, 0, ["monday", "tuesday"]) == "monday, tuesday"
