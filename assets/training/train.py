"""The candidate for a judged day: plan the window, fit what must be fitted, start the ranks, follow them, keep the model.

A training that was killed goes on from its newest checkpoint, in the same MLflow run, when it is asked for again: both
lie in a folder named by the input digest and the number of ranks, since only those give the same bits.

MLflow has one writer, this process: it follows the lines that rank 0 writes. So the ranks import no MLflow (2 s of CPU
each), and the run's status is written by the one who survives a killed rank.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from assets.preprocessing.features import DISTINCT
from assets.preprocessing.layout import Layout
from assets.preprocessing.statistics import Moments
from assets.training.fit import Fit, fit_window, sample_of
from assets.training.follow import Follower
from assets.training.loader import Source
from assets.training.order import Order
from assets.training.spec import KillAt, Spec
from assets.training.window import Closed, plan, window_of
from resources.contract.dataset import Dataset
from resources.contract.manifest import DATA_ASSETS, Ledger, Manifest, Plan
from resources.lake import Lake, Materialized, Outcome, Piece, locked, write_atomically
from resources.launcher import local
from resources.tracking import JUDGED_DAY, NOTE, OWNER, Tracker

log = logging.getLogger(__name__)

TIMEOUT_S = 300.0
_CHECKPOINTS = 8  # of a short training; a long one has one every 2,000 steps


def build(
    dataset: Dataset,
    lake: Lake,
    day: date,
    *,
    closed: Closed,
    tracker: Tracker,
    ranks: int,
    env: Mapping[str, str] | None = None,
    on_progress: Callable[[dict[str, Any]], None] | None = None,
    owner: str | None = None,
    note: str | None = None,
    rebuild: bool = False,
    grace_s: float = 10.0,
    timeout_s: float = TIMEOUT_S,
    kill_at: KillAt | None = None,
) -> Materialized:
    """The model of a judged day, trained now or found as it was.

    Args:
        ranks: training processes, a divisor of 64.
        env: added to the ranks' environment, such as Dagster's pipes.
        on_progress: gets {"step", "steps", "loss", "losses", "rows_per_s", "seconds", "day"} about once a second.
        owner: who runs this, for MLflow: a run whose owner is gone was killed.
        note: the description of the MLflow run, Markdown.
        rebuild: train from the first step, whatever is there.
        grace_s, timeout_s: see `resources.launcher.local.run`.
        kill_at: for tests.

    Raises:
        TransientError: an input is not there yet, or a rank was killed or lost.
        DataError: an input's verdict forbids training, or a batch was refused.
        CorruptError: a file of ours is damaged.
    """
    first, last = window_of(dataset, day)
    ledger = lake.ledger(dataset.name, assets=DATA_ASSETS, first=first, last=last)
    planned = plan(dataset, ledger, day, closed=closed)

    def write(folder: Path) -> Outcome:
        home = checkpoint_folder(lake, dataset, planned, ranks=ranks)
        if rebuild:
            shutil.rmtree(home, ignore_errors=True)
        spec = prepared(dataset, lake, ledger, planned, folder=folder, home=home, timeout_s=timeout_s, kill_at=kill_at)
        spec.save(folder / "spec.json")
        run_id = _opened_run(dataset, lake, planned, spec, tracker=tracker, ranks=ranks, owner=owner, note=note)
        follow = Follower(spec.progress_file, tracker=tracker, run_id=run_id, on_progress=on_progress)
        with tracker.ending(run_id):
            local.run(
                ["-m", "assets.training.worker.main", "--spec", str(folder / "spec.json")],
                ranks=ranks,
                env=env or {},
                log_folder=spec.log_folder,
                grace_s=grace_s,
                timeout_s=2 * timeout_s,  # the ranks know better who is late, they speak first
                while_waiting=follow,
            )
            follow.flush()
            result: dict[str, Any] = json.loads(spec.result_file.read_bytes())
            spec.model_file.stat()  # raises: a run without a model has not finished
            _log_checkpoints(tracker, run_id, result["checkpoints"])
        lake.step("model:trained")
        return Outcome(
            pieces=(Piece(name=spec.model_file.name, rows=1, content=result["digest"][:32]),),
            rows_in=spec.order.total,
            rows_out=1,
            counts={"rows": spec.order.total, "steps": spec.order.steps},
            facts={"run_id": run_id, "window": [first.isoformat(), last.isoformat()], **result},
        )

    # two trainings of one day would write the same checkpoints: the second waits, and finds what the first has made
    with locked(lake.root / dataset.name / "checkpoints" / f".{day}.lock"):
        return lake.materialize(planned, write, dataset=dataset.name, rebuild=rebuild)


def _log_checkpoints(tracker: Tracker, run_id: str, kept: Sequence[Mapping[str, Any]]) -> None:
    """Those that retention has left: while a training runs, one listed now would soon be gone."""
    for made in kept:
        tracker.log_checkpoint(
            run_id,
            name=f"step-{made['step']}",
            step=made["step"],
            metrics={"checkpoint/loss": made["loss"]},
            address=made["path"],
            checksum=made["checksum"],
        )


def checkpoint_folder(lake: Lake, dataset: Dataset, planned: Plan, *, ranks: int) -> Path:
    """Where the checkpoints of a training lie: the same inputs and ranks give the same bits, others never meet them."""
    day = f"day={planned.day.isoformat()}"
    return lake.root / dataset.name / "checkpoints" / day / f"{planned.input_digest[:16]}-r{ranks}"


def prepared(
    dataset: Dataset,
    lake: Lake,
    ledger: Ledger,
    planned: Plan,
    *,
    folder: Path,
    home: Path,
    timeout_s: float = TIMEOUT_S,
    kill_at: KillAt | None = None,
) -> Spec:
    """All that the ranks are told. Every file is compared with its checksum here, once, before they map it."""
    manifests = [ledger.get(parent.asset, parent.day) for parent in planned.parents]
    days = [m for m in manifests if m is not None and m.rows_out]
    features, labels = ([m for m in days if m.asset == asset] for asset in ("features", "labels"))
    layout = Layout.of(dataset)
    sources, contents, rows = [], [], []
    for records, truth in zip(features, labels, strict=True):
        label_files = {entry.bucket: entry for entry in truth.files}
        for entry in (entry for entry in records.files if entry.bucket is not None and entry.rows):
            label_entry = label_files[entry.bucket]
            sources.append(
                Source(
                    name=f"{records.day} {entry.name}",
                    features=lake.verified_path(records, entry),
                    labels=lake.verified_path(truth, label_entry),
                )
            )
            contents.append(entry.content)
            rows.append(entry.rows)
    train = dataset.train
    order = Order(
        rows=tuple(rows), contents=tuple(contents), batch_rows=train.batch_rows, epochs=train.epochs, seed=train.seed
    )
    log_folder = home / "logs" / folder.name
    return Spec(
        day=planned.day.isoformat(),
        sources=tuple(sources),
        order=order,
        layout=layout,
        fit=_fitted(lake, features, sources, layout),
        model_file=folder / "model.pt",
        result_file=folder / "result.json",
        checkpoint_folder=home,
        checkpoint_steps=min(max(order.steps // _CHECKPOINTS, 50), 2000),
        progress_file=log_folder / "progress.jsonl",
        log_folder=log_folder,
        timeout_s=timeout_s,
        kill_at=kill_at,
    )


def _fitted(lake: Lake, features: list[Manifest], sources: list[Source], layout: Layout) -> Fit:
    sketches = []
    for manifest in features if layout.categories else ():
        entry = manifest.file(DISTINCT)
        assert entry is not None, "features write a sketch for every day that has rows and categories"
        sketches.append(np.load(lake.verified_path(manifest, entry)))
    sample = sample_of([source.open(layout)[0] for source in sources])
    return fit_window(
        categories=layout.categories,
        numbers=layout.numbers,
        moments=[
            {name: Moments(n=n, mean=mean, m2=m2) for name, (n, mean, m2) in manifest.facts["moments"].items()}
            for manifest in features
        ],
        sketches=sketches,
        sample=layout.numbers_of(sample),
    )


def _opened_run(
    dataset: Dataset,
    lake: Lake,
    planned: Plan,
    spec: Spec,
    *,
    tracker: Tracker,
    ranks: int,
    owner: str | None,
    note: str | None,
) -> str:
    """The id of the MLflow run of this training: the one that a killed attempt began, or a new one."""
    remembered = spec.checkpoint_folder / "run.json"
    tags = {key: text for key, text in ((OWNER, owner), (NOTE, note)) if text is not None}
    if remembered.exists():
        run_id = str(json.loads(remembered.read_bytes())["run_id"])
        if tracker.reopen(run_id):
            # parameters cannot change in a run: what this attempt adds is a tag
            tracker.set_tags(run_id, {**tags, "resumed_by": spec.log_folder.name})
            return run_id
        log.warning(f"MLflow knows no run {run_id} any more: this training gets a new one")
    run_id = tracker.start(
        dataset=dataset.name,
        name=f"{dataset.name} {planned.day}",
        tags={**tags, JUDGED_DAY: planned.day.isoformat(), "checkpoints": str(spec.checkpoint_folder)},
        params={
            **dataset.train.model_dump(mode="json"),
            "ranks": ranks,
            "rows": spec.order.total,
            "steps": spec.order.steps,
            "table_rows": spec.fit.table_rows,
            "categories": len(spec.fit.categories),
            "numbers": len(spec.fit.numbers),
        },
        inputs=[
            (f"{p.asset} {p.day}", p.digest, str(lake.day_folder(dataset.name, p.asset, p.day)))
            for p in planned.parents
        ],
    )
    write_atomically(remembered, json.dumps({"run_id": run_id}).encode())
    return run_id
