from __future__ import annotations

import numpy as np
import pytest
import torch

from assets.training.fit import BINS, Fit
from assets.training.worker.model import Dcn, Dense, Encoder
from assets.training.worker.table import WIDTH

CPU = torch.device("cpu")
FIT = Fit(
    categories=("country", "user"),
    numbers=("price", "constant"),
    known=((0, 5, 9), (0,)),
    hashed_rows=(0, 8),
    means=(1.5, 5.0),
    inverse_deviations=(1 / 0.75**0.5, 0.0),
    edges=((1.0, 2.0, *[None] * (BINS - 3)), (None,) * (BINS - 1)),
)


def words(codes: list[list[int]], numbers: list[list[float]]) -> torch.Tensor:
    """int32 words of records with the two categories, the two numbers and an id behind them."""
    categories = np.array(codes, np.uint32).view(np.int32)
    bits = np.array(numbers, np.float32).view(np.int32)
    return torch.from_numpy(np.concatenate([categories, bits, np.full((len(codes), 2), 77, np.int32)], axis=1))


def encoded(codes: list[int], numbers: list[float]) -> tuple[list[int], list[float]]:
    ids, z = Encoder(FIT, device=CPU)(words([codes], [numbers]))
    return ids[0].tolist(), z[0].tolist()


def test_a_listed_code_has_its_own_row_and_an_unlisted_one_is_unseen() -> None:  # case C3
    rows = [encoded([code, 0], [0, 0])[0][0] for code in (0, 5, 9, 6, 2**32 - 1)]
    assert rows == [0, 1, 2, FIT.unseen_row, FIT.unseen_row]


def test_a_hashed_code_falls_into_its_own_range_and_missing_has_a_row_of_its_own() -> None:
    first = FIT.num_known
    codes = (0, 1, 8, 9, 2**32 - 1)
    assert [encoded([0, code], [0, 0])[0][1] for code in codes] == [3, first + 1, first, first + 1, first + 7]
    assert first + 8 == FIT.first_bin_row


def test_codes_above_two_to_the_24_do_not_merge() -> None:  # case C9
    fit = Fit(
        categories=("id",), numbers=(), known=((0, 16777216, 16777217, 2**32 - 2),), hashed_rows=(0,), means=(),
        inverse_deviations=(), edges=(),
    )  # fmt: skip
    codes = torch.from_numpy(np.array([[16777216], [16777217], [2**32 - 2], [2**32 - 1]], np.uint32).view(np.int32))
    ids, z = Encoder(fit, device=CPU)(codes)
    assert ids.flatten().tolist() == [1, 2, 3, fit.unseen_row]
    assert z.shape == (4, 0)


def test_a_model_of_numbers_alone_is_one() -> None:
    fit = Fit(
        categories=(), numbers=("x",), known=(), hashed_rows=(), means=(0.0,), inverse_deviations=(1.0,),
        edges=((None,) * (BINS - 1),),
    )  # fmt: skip
    ids, z = Encoder(fit, device=CPU)(torch.from_numpy(np.array([[2.5]], np.float32).view(np.int32)))
    assert (ids.tolist(), z.tolist()) == ([[1]], [[2.5]])


@pytest.mark.parametrize(
    ("price", "row"), [(float("nan"), 0), (-3, 1), (0.999, 1), (1, 2), (1.5, 2), (2, 3), (1e30, 3)]
)
def test_a_number_falls_into_the_bin_between_its_edges(price: float, row: int) -> None:
    assert encoded([0, 0], [price, 0])[0][2] == FIT.first_bin_row + row


def test_z_is_exact_and_zero_where_nothing_varies_or_is_known() -> None:  # cases C1, C7
    assert encoded([0, 0], [9, 5])[1] == [pytest.approx(8.66, abs=5e-3), 0.0]
    assert encoded([0, 0], [float("nan"), 123])[1] == [0.0, 0.0]


def test_one_wild_value_is_cut_to_ten_deviations() -> None:
    assert encoded([0, 0], [1e20, 0])[1][0] == 10.0
    assert encoded([0, 0], [-1e20, 0])[1][0] == -10.0


def test_the_network_is_the_papers() -> None:
    dense = Dcn(FIT).double()
    embedded, z = torch.randn(3, 4, WIDTH, dtype=torch.float64), torch.randn(3, 2, dtype=torch.float64)
    x0 = torch.cat([embedded.reshape(3, -1), z], dim=1)
    x = x0
    for layer in dense.cross:
        weight, bias = layer.parameters()
        x = x0 * (x @ weight.T + bias) + x
    expected = dense.out(torch.cat([x, dense.deep(x0)], dim=1))[:, 0]
    torch.testing.assert_close(dense(embedded, z), expected.float())


def test_one_flat_tensor_is_all_parameters_and_one_all_gradients() -> None:
    dense = Dense(FIT, seed=1, device=CPU)
    dense.module(torch.randn(5, 4, WIDTH), torch.randn(5, 2)).sum().backward()
    gradients = torch.cat([p.grad.reshape(-1) for p in dense.module.parameters() if p.grad is not None])
    assert torch.equal(gradients, dense.gradients_and_loss[:-1])
    assert gradients.abs().sum() > 0
    before = dense.flat.detach().clone()
    dense.update(rate=1e-3)
    parameters = torch.cat([p.detach().reshape(-1) for p in dense.module.parameters()])
    assert torch.equal(parameters, dense.flat.detach())
    assert not torch.equal(parameters, before)


def test_the_dense_part_begins_the_same_whatever_was_drawn_before() -> None:
    one = Dense(FIT, seed=1, device=CPU).flat.detach().clone()
    torch.randn(7)
    assert torch.equal(one, Dense(FIT, seed=1, device=CPU).flat.detach())
    assert not torch.equal(one, Dense(FIT, seed=2, device=CPU).flat.detach())
