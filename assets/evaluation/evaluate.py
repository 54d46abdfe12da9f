"""The asset `evaluation`: the candidate and the baselines scored on every row of the judged day. Numbers, no verdict.

All three know the same window, and each row of the day is scored exactly once, in one process: nothing is padded,
repeated or averaged over parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from assets.evaluation.examples import Examples, LoadScorer, Score, examples, load_scorer, model_file
from assets.evaluation.fitted import FittedBaselines, fit_baselines
from assets.evaluation.metrics import checked_labels, metrics
from assets.evaluation.registry import log_metrics
from assets.preprocessing.layout import Layout
from assets.training import window
from resources.contract.dataset import Dataset
from resources.contract.digest import table_digest
from resources.contract.errors import DataError
from resources.contract.manifest import DATA_ASSETS, Ledger, Manifest, Parent, Plan, contract_digest
from resources.lake import Lake, Materialized, Outcome, Piece
from resources.tracking import Tracker

LOGIC_VERSION = 1
SCORES = "scores.parquet"
CANDIDATE = "candidate"
BASELINES = ("item_rate", "logistic_regression")

_SCHEMA = pa.schema(
    [
        ("bucket", pa.int32()),
        ("row", pa.int64()),
        ("user", pa.uint64()),
        ("label", pa.uint8()),
        *[(who, pa.float32()) for who in (CANDIDATE, *BASELINES)],
    ]
)


def plan(dataset: Dataset, ledger: Ledger, day: date, *, closed: Callable[[date], bool]) -> Plan:
    """What the evaluation of judged day `day` would be made from now."""
    immature = window.immature(dataset, ledger, day, closed=closed)
    found = {asset: ledger.get(asset, day) for asset in ("model", "features", "labels")}
    return Plan(
        asset="evaluation",
        day=day,
        contract_digest=contract_digest({}),
        logic_version=LOGIC_VERSION,
        parents=tuple(
            Parent(asset=asset, day=day, digest=manifest.content_digest, rows=manifest.rows_out)
            for asset, manifest in found.items()
            if manifest is not None
        ),
        missing=(*([] if found["model"] else [f"model {day}"]), *([immature] if immature else [])),
        blocked=tuple(window.blocked(ledger, day)),
    )


def build(
    dataset: Dataset,
    lake: Lake,
    day: date,
    *,
    closed: Callable[[date], bool],
    tracker: Tracker,
    rebuild: bool = False,
    load_scorer: LoadScorer = load_scorer,
) -> Materialized:
    """The day's evaluation as it stands, or made now; its metrics stand in the model's MLflow run too."""
    ledger = lake.ledger(dataset.name, assets=(*DATA_ASSETS, "model"))

    def write(folder: Path) -> Outcome:
        model, features, labels = (ledger.get(asset, day) for asset in ("model", "features", "labels"))
        assert model is not None
        assert features is not None
        assert labels is not None
        layout = Layout.from_json(features.facts["layout"])
        parts = list(examples(lake, features, labels))
        table, facts = _SCHEMA.empty_table(), {"unseen": {}, "window": {}}
        if parts:
            baselines = fit_baselines(lake, ledger, model, layout)
            lake.step("evaluation:fitted")
            table = _table(parts, _candidate(lake, model, layout, load_scorer), baselines)
            facts = {"unseen": baselines.unseen(parts), "window": baselines.as_json()}
        pq.write_table(table, folder / SCORES, compression="zstd", write_page_checksum=True)
        lake.step("evaluation:scored")
        columns = {name: table[name].to_numpy() for name in table.column_names}
        found = {
            who: metrics(columns["label"], columns[who], columns["user"]).as_json() for who in (CANDIDATE, *BASELINES)
        }
        log_metrics(tracker, model, _named(found, facts["unseen"]))
        return Outcome(
            pieces=(Piece(name=SCORES, rows=table.num_rows, content=table_digest(table)),),
            rows_in=features.rows_out,
            rows_out=table.num_rows,
            counts={"rows": table.num_rows, "positives": int(columns["label"].sum())},
            facts={"metrics": found, **facts},
        )

    return lake.materialize(plan(dataset, ledger, day, closed=closed), write, dataset=dataset.name, rebuild=rebuild)


def _candidate(lake: Lake, model: Manifest, layout: Layout, load_scorer: LoadScorer) -> Score:
    trained = load_scorer(model_file(lake, model))
    if trained.layout != layout:
        raise DataError(
            f"model {model.day} reads other columns than features {model.day} hold: its scores would mean nothing. "
            f"Train it again: slicewise run {model.dataset} --days {model.day}..{model.day} --rebuild"
        )
    return trained.score


def _table(parts: list[Examples], candidate: Score, baselines: FittedBaselines) -> pa.Table:
    """A row per example, bucket by bucket, in the order of the features."""
    layout = baselines.layout
    columns = {
        "bucket": [np.full(len(part.labels), part.bucket, np.int32) for part in parts],
        "row": [np.arange(len(part.labels)) for part in parts],
        "user": [layout.users_of(part.records) for part in parts],
        "label": [checked_labels(part.labels).astype(np.uint8) for part in parts],
        CANDIDATE: [candidate(part.records) for part in parts],
        "item_rate": [baselines.item_rate.score(layout.items_of(part.records)) for part in parts],
        "logistic_regression": [baselines.logistic_regression.score(part.records) for part in parts],
    }
    return pa.table({name: np.concatenate(values) for name, values in columns.items()}, schema=_SCHEMA)


def _named(found: Mapping[str, Mapping[str, float | None]], unseen: Mapping[str, float]) -> dict[str, float | None]:
    """The numbers under MLflow names: the candidate's own are plain, so that runs compare."""
    named: dict[str, float | None] = {f"unseen/{name}": share for name, share in unseen.items()}
    for who, values in found.items():
        named |= {f"{who}/{name}".removeprefix(f"{CANDIDATE}/"): value for name, value in values.items()}
    return named
