"""A trained model packed for MLflow: its weights, the code that serves them, an example of a request."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import numpy as np

from resources.tracking import Package

_CODE = Path(__file__).resolve().parents[2]


def package_of(model_file: Path, records: np.ndarray) -> Package:
    """What `Tracker.register` needs of a `model.pt`; the example and the signature are made of a few packed records."""
    from assets.training.worker import serving
    from assets.training.worker.scoring import Scorer

    scorer = Scorer.load(model_file)
    return Package(
        model_file=model_file,
        python_model=Path(serving.__file__),
        code=(_CODE / "assets", _CODE / "resources"),
        requirements=tuple(f"{name}=={version(name).split('+')[0]}" for name in ("mlflow", "numpy", "pandas", "torch")),
        example=serving.frame_of(records, scorer.fit),
        predictions=scorer.score(records),
    )
