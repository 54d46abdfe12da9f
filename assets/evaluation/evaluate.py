"""The asset `evaluation`: the candidate and the baselines scored on every row of the judged day. Numbers, no verdict.

All three know the same window, and each row of the day is scored exactly once, in one process: nothing is padded,
repeated or averaged over parts.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from assets.evaluation.examples import LoadScorer, examples, load_scorer, model_file, scored
from assets.evaluation.metrics import metrics
from assets.evaluation.registry import log_metrics
from assets.evaluation.rivals import fit_rivals
from assets.preprocessing.layout import Layout
from assets.training import window
from resources.contract.dataset import Dataset
from resources.contract.digest import table_digest
from resources.contract.errors import DataError
from resources.contract.manifest import DATA_ASSETS, Ledger, Parent, Plan, contract_digest
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
        facts: dict[str, Any] = {"unseen": {}, "window": {}}
        scores = {who: np.zeros(0, np.float32) for who in (CANDIDATE, *BASELINES)}
        if parts:
            rivals = fit_rivals(lake, ledger, model, layout)
            lake.step("evaluation:fitted")
            candidate = load_scorer(model_file(lake, model))
            if candidate.layout != layout:
                raise DataError(
                    f"model {day} reads other columns than features {day} hold: its scores would mean nothing. "
                    f"Train it again: slicewise run {dataset.name} --days {day}..{day} --rebuild"
                )
            scores = {
                CANDIDATE: scored(candidate.score, parts),
                "item_rate": np.concatenate([rivals.item_rate.score(layout.items_of(part.records)) for part in parts]),
                "logistic_regression": scored(rivals.logistic_regression.score, parts),
            }
            facts = {
                "unseen": rivals.unseen(parts),
                "window": {
                    "rows": rivals.rows,
                    "logistic_regression_rows": rivals.logistic_regression.rows,
                    "changed": list(rivals.changed),
                },
            }
        users = np.concatenate([np.zeros(0, np.uint64), *[layout.users_of(part.records) for part in parts]])
        answers = np.concatenate([np.zeros(0, np.float32), *[part.labels for part in parts]])
        found = {who: metrics(answers, values, users).as_json() for who, values in scores.items()}
        table = pa.table(
            {
                "bucket": np.repeat([p.bucket for p in parts], [len(p.labels) for p in parts]).astype(np.int32),
                "row": np.concatenate([np.zeros(0, np.int64), *[np.arange(len(p.labels)) for p in parts]]),
                "user": users,
                "label": answers.astype(np.uint8),
                **scores,
            },
            schema=_SCHEMA,
        )
        pq.write_table(table, folder / SCORES, compression="zstd", write_page_checksum=True)
        lake.step("evaluation:scored")
        flat = {f"unseen/{name}": share for name, share in facts["unseen"].items()}
        for who, values in found.items():
            flat |= {f"{who}/{name}".removeprefix("candidate/"): value for name, value in values.items()}
        log_metrics(tracker, model, flat)
        return Outcome(
            pieces=(Piece(name=SCORES, rows=table.num_rows, content=table_digest(table)),),
            rows_in=features.rows_out,
            rows_out=table.num_rows,
            counts={"rows": table.num_rows, "positives": int(answers.sum())},
            facts={"metrics": found, **facts},
        )

    return lake.materialize(plan(dataset, ledger, day, closed=closed), write, dataset=dataset.name, rebuild=rebuild)
