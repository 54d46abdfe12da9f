"""A trained model as MLflow serves it: one column per category (its code, a long) and per number (a double) in, a
probability out. MLflow runs this file to load a model ("models from code"), so nothing is pickled.

A category's code is `mix32` of its value's 64-bit hash and the field's salt; 0 is missing. A missing number is NaN.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel

from assets.training.fit import Fit
from assets.training.worker.scoring import Scorer
from resources.contract.errors import DataError


class Served(PythonModel):
    """float32 probabilities of a DataFrame's rows. The artifact "model" is a `model.pt`."""

    def load_context(self, context: Any) -> None:
        self._scorer = Scorer.load(Path(context.artifacts["model"]))

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> Any:
        del context, params
        return self._scorer.score(records_from(model_input, self._scorer.fit))


def records_from(frame: pd.DataFrame, fit: Fit) -> np.ndarray:
    """uint32[rows, categories + numbers], as far as a packed record concerns a model."""
    records = np.zeros((len(frame), len(fit.categories) + len(fit.numbers)), np.uint32)
    for place, name in enumerate(fit.categories):
        codes = frame[name].to_numpy(np.int64)
        if len(codes) and not 0 <= codes.min() <= codes.max() <= 0xFFFFFFFF:
            raise DataError(
                f"{name} must hold category codes from 0 (missing) to 4294967295, got {codes.min()} to {codes.max()}: "
                f"cut off, they would be other values' codes. Make them by mix32."
            )
        records[:, place] = codes
    numbers = records.view(np.float32)[:, len(fit.categories) :]
    for place, name in enumerate(fit.numbers):
        numbers[:, place] = frame[name].to_numpy(np.float64)
    return records


def frame_of(records: np.ndarray, fit: Fit) -> pd.DataFrame:
    """Packed records as a request: what `records_from` takes back."""
    values = records[:, : len(fit.categories) + len(fit.numbers)].copy()
    numbers = values.view(np.float32).astype(np.float64)
    categories = {name: values[:, place].astype(np.int64) for place, name in enumerate(fit.categories)}
    return pd.DataFrame(
        categories | {name: numbers[:, len(fit.categories) + place] for place, name in enumerate(fit.numbers)}
    )


set_model(Served())
