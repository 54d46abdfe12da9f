from __future__ import annotations

import pytest
import torch

from assets.training.worker import table as module
from assets.training.worker.table import INITIAL_DEVIATION, WIDTH, Table

ROWS = 50


def table_of(seed: int = 0) -> Table:
    return Table(ROWS, generator=torch.Generator().manual_seed(seed), device=torch.device("cpu"))


def textbook(table: Table, ids: list[int], gradients: torch.Tensor, rate: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and accumulators after one step, row by row in double precision."""
    weight, accumulator = table.weight.double(), table.accumulator.double()
    for row in sorted(set(ids)):
        summed = gradients[[place for place, other in enumerate(ids) if other == row]].double().sum(0)
        accumulator[row] += summed.square().mean()
        weight[row] -= rate * summed / (accumulator[row] + module._DAMPING).sqrt()
    return weight, accumulator


def test_an_update_adds_up_the_gradients_of_a_row_before_it_is_applied_once() -> None:
    table, generator = table_of(), torch.Generator().manual_seed(1)
    for _ in range(3):
        ids = torch.randint(0, 12, (40,), generator=generator)
        gradients = torch.randn(40, WIDTH, generator=generator)
        weight, accumulator = textbook(table, ids.tolist(), gradients, 0.3)
        table.update(ids, gradients, rate=0.3)
        torch.testing.assert_close(table.weight.double(), weight, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(table.accumulator.double(), accumulator, atol=1e-5, rtol=1e-5)


def test_rows_that_no_batch_named_stay_and_are_known_as_untrained() -> None:
    table = table_of()
    before = table.weight.clone()
    table.update(torch.tensor([3, 7, 3]), torch.ones(3, WIDTH), rate=0.1)
    assert table.trained.nonzero().flatten().tolist() == [3, 7]
    untouched = ~table.trained
    assert torch.equal(table.weight[untouched], before[untouched])


def test_a_gradient_moves_a_row_that_is_hardly_known_no_further_than_one_that_is_known_well() -> None:
    table, gradient = table_of(), torch.full((1, WIDTH), 0.3)
    for _ in range(20):
        table.update(torch.tensor([3]), gradient, rate=0.3)
    before = table.weight.clone()
    table.update(torch.tensor([3, 7]), gradient.expand(2, WIDTH), rate=0.3)
    known, new = (before - table.weight)[[3, 7], 0].tolist()
    assert new == pytest.approx(known, rel=0.1)


def test_the_row_of_the_unseen_stays_zero() -> None:
    table = table_of()
    table.update(torch.tensor([ROWS - 1, 2]), torch.ones(2, WIDTH), rate=0.1)
    assert not table.weight[-1].any()
    assert not table.trained[-1]


def test_the_same_seed_begins_with_the_same_bits() -> None:
    assert torch.equal(table_of(3).weight, table_of(3).weight)
    assert not torch.equal(table_of(3).weight, table_of(4).weight)
    large = Table(5000, generator=torch.Generator().manual_seed(0), device=torch.device("cpu"))
    assert abs(float(large.weight.std()) - INITIAL_DEVIATION) < 0.01
