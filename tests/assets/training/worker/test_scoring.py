from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from trainable import FIRST, Rows, packed, spec_of, toy_rows, write_days

from assets.training.worker import scoring
from assets.training.worker.group import Alone
from assets.training.worker.loop import Training, train
from assets.training.worker.report import silent
from assets.training.worker.scoring import Scorer
from resources.contract.dataset import Dataset
from resources.contract.errors import CorruptError
from resources.lake import Lake


@pytest.fixture
def model_file(lake: Lake, shop: Dataset, tmp_path: Path) -> Path:
    write_days(lake, shop, 2)
    spec = spec_of(lake, shop, tmp_path / "attempt")
    train(spec, Alone(), silent)
    return spec.model_file


def rows_of(*countries: int) -> Rows:
    """Rows of a known user and item in these countries; training saw 1 to 4."""
    ones = np.ones(len(countries))
    return Rows(
        categories={
            "user": ones.astype(np.uint64),
            "item": ones.astype(np.uint64),
            "country": np.array(countries, np.uint64),
        },
        numbers={"price": 10 * ones, "quantity": ones},
        labels=ones,
    )


def test_a_score_is_a_probability_and_the_same_each_time(model_file: Path, shop: Dataset) -> None:
    records = packed(shop, toy_rows(FIRST, 700))
    one, two = Scorer.load(model_file).score(records), Scorer.load(model_file).score(records)
    assert one.dtype == np.float32
    assert one.shape == (700,)
    assert ((one > 0) & (one < 1)).all()
    assert (one == two).all()
    assert Scorer.load(model_file).score(records[:0]).shape == (0,)


def test_the_file_scores_as_the_training_would(lake: Lake, shop: Dataset, tmp_path: Path) -> None:
    write_days(lake, shop, 2)
    spec = spec_of(lake, shop, tmp_path / "attempt")
    train(spec, Alone(), silent)
    training = Training(spec, Alone())
    training.resume(torch.load(spec.checkpoint_folder / f"step={spec.order.steps:09d}.pt", weights_only=True))
    records = packed(shop, toy_rows(FIRST, 200))  # of the window: nothing is unseen
    ids_BF, z_BM = training.encoder(torch.from_numpy(records.view(np.int32)))
    with torch.no_grad():
        logits = training.dense.module(training.table.weight[ids_BF], z_BM)
    np.testing.assert_allclose(Scorer.load(spec.model_file).score(records), logits.sigmoid().numpy(), atol=1e-6)


def test_chunks_change_nothing_but_the_last_bits(
    model_file: Path, shop: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = packed(shop, toy_rows(FIRST, 700))
    whole = Scorer.load(model_file).score(records)
    monkeypatch.setattr(scoring, "_CHUNK_ROWS", 100)
    np.testing.assert_allclose(Scorer.load(model_file).score(records), whole, atol=1e-6)


def test_unseen_values_all_score_alike(model_file: Path, shop: Dataset) -> None:  # case C3
    scorer = Scorer.load(model_file)
    scores = scorer.score(packed(shop, rows_of(1, 2, 77, 78)))
    assert scores[2] == pytest.approx(scores[3], rel=1e-5)
    assert abs(scores[2] - scores[:2]).min() > 1e-4


def test_a_missing_value_that_training_never_saw_missing_is_unseen(model_file: Path, shop: Dataset) -> None:
    scorer = Scorer.load(model_file)
    scores = scorer.score(packed(shop, rows_of(0, 77)))
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)  # where a row stands in a chunk may change its last bits


def test_another_format_is_refused(tmp_path: Path) -> None:
    torch.save({"format": 2}, tmp_path / "model.pt")
    with pytest.raises(CorruptError, match="no model of format 1"):
        Scorer.load(tmp_path / "model.pt")
