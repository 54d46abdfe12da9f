"""With the real MLflow, the real scorer and the real package: what was judged is what MLflow serves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from mlflow import MlflowClient

from assets.evaluation.examples import load_scorer
from assets.training.fit import BINS, Fit
from assets.training.package import package_of
from assets.training.worker.model import Dcn
from assets.training.worker.table import WIDTH
from resources.contract.manifest import Manifest
from resources.lake import Outcome, Piece
from resources.tracking import Tracker

if TYPE_CHECKING:
    from tests.assets.evaluation.conftest import World

DAY = date(2026, 1, 3)
ROOT = Path(__file__).resolve().parents[3]

# as on a machine that has the libraries, but not this repository: an editable install is taken off the path
SERVES = """
import sys
sys.meta_path = [finder for finder in sys.meta_path if "editable" not in str(finder)]
sys.path = [path for path in sys.path if path != sys.argv[2]]
import importlib.util
assert importlib.util.find_spec("assets") is None
import mlflow
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model("models:/shop@challenger")
print(model.predict(model.input_example).tolist())
"""


def write_model(path: Path) -> None:
    """Random weights in the form that a training leaves them."""
    torch.manual_seed(0)
    fit = Fit(
        categories=("item", "country"),
        numbers=("price",),
        known=((0,), (0,)),
        hashed_rows=(64, 64),
        means=(0.0,),
        inverse_deviations=(1.0,),
        edges=((None,) * (BINS - 1),),
    )
    table = torch.randn(fit.table_rows, WIDTH)
    table[-1] = 0
    model = {
        "format": 1,
        "fit": fit.as_json(),
        "table": table,
        "trained": torch.ones(fit.table_rows, dtype=torch.bool),
        "dense": Dcn(fit).state_dict(),
    }
    torch.save(model, path)


def trained(world: World, tracker: Tracker) -> Manifest:
    """The day's model, with a run of its own in MLflow."""
    run_id = tracker.start(dataset="shop", name=f"shop {DAY}", tags={}, params={}, inputs=[])
    placeholder = world.model(DAY, skill=0.0, run_id=run_id)

    def write(folder: Path) -> Outcome:
        write_model(folder / "model.pt")
        return Outcome(
            pieces=(Piece(name="model.pt", rows=1, content="1" * 32),), rows_in=0, rows_out=1, facts=placeholder.facts
        )

    plan = world.model_plan(DAY)
    return world.lake.materialize(plan, write, dataset="shop", rebuild=True).manifest


def test_what_was_judged_is_what_mlflow_serves_in_another_process_elsewhere(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    tracker, client = Tracker(uri), MlflowClient(tracking_uri=uri, registry_uri=uri)
    world.data(DAY, 200)
    model = trained(world, tracker)
    for _ in range(2):  # told twice, as after a kill: one version
        world.evaluate(DAY, tracker=tracker, load_scorer=load_scorer, rebuild=True)
        world.judge(DAY, tracker=tracker, load_scorer=load_scorer, package_of=package_of, rebuild=True)
    evaluation, judged = (world.lake.read("shop", asset, DAY) for asset in ("evaluation", "champion"))
    assert evaluation is not None
    assert judged is not None
    run = client.get_run(model.facts["run_id"])
    assert run.data.metrics["eval/auc"] == evaluation.facts["metrics"]["candidate"]["auc"]
    assert run.data.tags["verdict"] == judged.facts["verdict"]
    [version] = client.search_model_versions("name = 'shop'")
    assert version.tags["reason"] == judged.facts["reason"]
    assert version.tags["judged_day"] == "2026-01-03"
    assert judged.facts["verdict"] == "keep"  # its weights are random
    assert client.get_registered_model("shop").aliases == {"challenger": 1}

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    scores = world.scores(DAY)["candidate"][:5].tolist()
    shutil.rmtree(world.lake.root)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SERVES, uri, str(ROOT)]
    found = subprocess.run(command, cwd=elsewhere, env=environment, text=True, capture_output=True, check=False)
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout) == pytest.approx(scores, abs=1e-6)
    assert list((tmp_path / "here").iterdir()) == []
