from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mlflow import pyfunc
from mlflow.models import infer_signature
from trainable import FIRST, packed, spec_of, toy_rows, write_days

from assets.training.package import package_of
from assets.training.worker.group import Alone
from assets.training.worker.loop import train
from assets.training.worker.report import silent
from assets.training.worker.scoring import Scorer
from assets.training.worker.serving import frame_of, records_from
from resources.contract.dataset import Dataset
from resources.contract.errors import DataError
from resources.lake import Lake


@pytest.fixture
def model_file(lake: Lake, shop: Dataset, tmp_path: Path) -> Path:
    write_days(lake, shop, 2, rows=200)
    spec = spec_of(lake, shop, tmp_path / "attempt")
    train(spec, Alone(), silent)
    return spec.model_file


def test_a_served_model_scores_as_the_file_does(model_file: Path, shop: Dataset, tmp_path: Path) -> None:
    records = packed(shop, toy_rows(FIRST, 50))
    package = package_of(model_file, records[:5])
    signature = infer_signature(package.example, package.predictions)
    pyfunc.save_model(
        tmp_path / "served",
        python_model=str(package.python_model),
        artifacts={"model": str(package.model_file)},
        pip_requirements=list(package.requirements),
        signature=signature,
    )
    served = pyfunc.load_model(str(tmp_path / "served"))
    frame = frame_of(records, Scorer.load(model_file).fit)
    assert np.isnan(frame["price"].to_numpy()).any()  # case E13: doubles may be missing
    np.testing.assert_array_equal(served.predict(frame), Scorer.load(model_file).score(records))
    types = {column.name: str(column.type) for column in signature.inputs.inputs}
    assert types == {
        "user": "DataType.long",
        "item": "DataType.long",
        "country": "DataType.long",
        "price": "DataType.double",
        "quantity": "DataType.double",
    }
    assert [path.name for path in package.code] == ["assets", "resources"]


def test_a_request_is_the_record_that_it_was_made_of(model_file: Path, shop: Dataset) -> None:
    fit, records = Scorer.load(model_file).fit, packed(shop, toy_rows(FIRST, 30))
    np.testing.assert_array_equal(records_from(frame_of(records, fit), fit), records[:, :5])


@pytest.mark.parametrize("code", [-1, 2**32])
def test_a_code_that_is_none_is_refused(model_file: Path, code: int) -> None:
    fit = Scorer.load(model_file).fit
    frame = pd.DataFrame({"user": [code], "item": [1], "country": [1], "price": [1.0], "quantity": [1.0]})
    with pytest.raises(DataError, match=f"user must hold category codes .* got {code} to {code}"):
        records_from(frame, fit)
