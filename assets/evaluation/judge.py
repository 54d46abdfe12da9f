"""The asset `champion`: candidate and incumbent on the same rows of the judged day, and what follows from it.

The incumbent is the champion of its own time: that of the latest earlier verdict, read by the file that its manifest
pins. Without one, or where it reads other columns than the day's features hold, the best baseline stands in: a model
that does not beat it has nothing to offer. MLflow's aliases follow only the newest judged day.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow.parquet as pq

from assets.evaluation.bootstrap import Difference, auc_difference
from assets.evaluation.evaluate import BASELINES, CANDIDATE
from assets.evaluation.examples import MODEL, LoadScorer, examples, load_scorer, model_file
from assets.evaluation.metrics import metrics
from assets.evaluation.registry import tell_verdict
from assets.preprocessing.layout import Layout
from assets.training.package import package_of
from resources.contract.dataset import Dataset
from resources.contract.digest import digest_of_json
from resources.contract.manifest import FileEntry, Ledger, Manifest, Parent, Plan, contract_digest
from resources.lake import Lake, Materialized, Outcome, Piece, write_json
from resources.tracking import Package, Tracker

LOGIC_VERSION = 1
VERDICT = "verdict.json"
ENOUGH = 50  # positives, and negatives, below which no difference is believed

Verdict = Literal["promote", "keep", "undecided"]


@dataclass(frozen=True, kw_only=True)
class Decision:
    verdict: Verdict
    reason: str


def decide(*, rows: int, positives: int, difference: Difference, rival: str) -> Decision:
    """The verdict on a candidate whose AUC differs from its rival's by `difference`, and the reason in a sentence."""
    fewest, kind = min((positives, "positive"), (rows - positives, "negative"))
    if rows == 0:
        return Decision(verdict="undecided", reason="the day has no examples: everything stays as it is")
    if fewest < ENOUGH:
        reason = f"the day has {fewest} {kind} examples and {ENOUGH} are needed: a difference would be chance"
        return Decision(verdict="undecided", reason=reason)
    if difference.value is None or difference.interval is None:
        return Decision(verdict="undecided", reason="one user has all examples of a class: there is no interval")
    low, high = difference.interval
    found = f"AUC {difference.value:+.4f} against {rival}, 95 % interval {low:+.4f} to {high:+.4f}"
    if low > 0:
        return Decision(verdict="promote", reason=f"{found}: better beyond doubt")
    return Decision(verdict="keep", reason=f"{found}: " + ("worse beyond doubt" if high < 0 else "it may be chance"))


def plan(dataset: Dataset, ledger: Ledger, day: date) -> Plan:
    """What the verdict on judged day `day` would be made from now."""
    del dataset
    evaluation, model, previous = ledger.get("evaluation", day), ledger.get("model", day), incumbent(ledger, day)
    parents = [
        Parent(asset=m.asset, day=day, digest=m.content_digest, rows=m.rows_out) for m in (evaluation, model) if m
    ]
    if previous is not None:
        parents.append(
            Parent(asset="champion", day=previous.day, digest=previous.content_digest, role="history", rows=1)
        )
    missing = [
        f"{asset} {day}" for asset in ("evaluation", "model", "features", "labels") if not ledger.get(asset, day)
    ]
    if evaluation is not None and not missing:
        behind = [p.asset for p in evaluation.parents if _digest(ledger, p) != p.digest]
        missing += [f"evaluation {day} (made from another {asset})" for asset in behind]
    return Plan(
        asset="champion",
        day=day,
        contract_digest=contract_digest({}),
        logic_version=LOGIC_VERSION,
        parents=tuple(parents),
        missing=tuple(missing),
    )


def _digest(ledger: Ledger, parent: Parent) -> str | None:
    manifest = ledger.get(parent.asset, parent.day)
    return manifest.content_digest if manifest else None


def incumbent(ledger: Ledger, day: date) -> Manifest | None:
    """The latest verdict before `day` that names a champion."""
    earlier = (ledger.get("champion", other) for other in reversed(ledger.days("champion")) if other < day)
    return next((manifest for manifest in earlier if manifest and manifest.facts["champion"]), None)


def pins(ledger: Ledger) -> set[tuple[str, date, str]]:
    """(asset, day, attempt) of every model that some verdict calls champion: retention must keep these."""
    manifests = (ledger.get("champion", day) for day in ledger.days("champion"))
    named = [m.facts["champion"] for m in manifests if m and m.facts["champion"]]
    return {("model", date.fromisoformat(champion["day"]), champion["attempt"]) for champion in named}


def build(
    dataset: Dataset,
    lake: Lake,
    day: date,
    *,
    tracker: Tracker,
    rebuild: bool = False,
    load_scorer: LoadScorer = load_scorer,
    package_of: Callable[[Path, np.ndarray], Package] = package_of,
) -> Materialized:
    """The day's verdict as it stands, or made now; MLflow's versions, aliases and tags say the same."""
    ledger = lake.ledger(dataset.name)

    def write(folder: Path) -> Outcome:
        found = {asset: _built(ledger, asset, day) for asset in ("evaluation", "model", "features", "labels")}
        evaluation, model = found["evaluation"], found["model"]
        previous = incumbent(ledger, day)
        champion = previous.facts["champion"] if previous else None
        trial = _compare(lake, found, champion, load_scorer=load_scorer)
        lake.step("champion:compared")
        ours = evaluation.facts["metrics"][CANDIDATE]
        decision = decide(
            rows=ours["rows"], positives=ours["positives"], difference=trial.difference, rival=trial.rival
        )
        if decision.verdict == "promote":
            champion = _pointer(model)
        made = {"verdict": decision.verdict, "model": champion and champion["file"]["content"]}
        facts = {
            "verdict": decision.verdict,
            "reason": decision.reason,
            "champion": champion,
            "incumbent": trial.incumbent,
            "rival": trial.rival,
            "difference": trial.difference.value,
            "interval": trial.difference.interval and list(trial.difference.interval),
            "metrics": {CANDIDATE: ours, "incumbent": trial.metrics},
        }
        write_json(folder / VERDICT, made)
        newest = all(other <= day for other in ledger.days("champion"))
        tell_verdict(
            tracker,
            model=model,
            facts=facts,
            package=lambda: package_of(model_file(lake, model), _few_records(lake, found)),
            newest=newest,
        )
        lake.step("champion:told")
        return Outcome(
            pieces=(Piece(name=VERDICT, rows=1, content=digest_of_json(made)),),
            rows_in=ours["rows"],
            rows_out=1,
            counts={"rows": ours["rows"], "positives": ours["positives"]},
            facts=facts,
        )

    return lake.materialize(plan(dataset, ledger, day), write, dataset=dataset.name, rebuild=rebuild)


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What the candidate was measured against. Without an incumbent the rival is a baseline, and `metrics` is None."""

    rival: str
    incumbent: dict[str, Any] | None
    metrics: dict[str, Any] | None
    difference: Difference


def _compare(
    lake: Lake, found: dict[str, Manifest], champion: dict[str, Any] | None, *, load_scorer: LoadScorer
) -> Trial:
    """The candidate against the champion of its time on the very rows that were evaluated."""
    evaluation, features = found["evaluation"], found["features"]
    [entry] = evaluation.files
    table = pq.read_table(lake.verified_path(evaluation, entry))
    columns = {name: table[name].to_numpy() for name in table.column_names}
    labels, users = columns["label"], columns["user"]
    best = max(BASELINES, key=lambda who: evaluation.facts["metrics"][who]["auc"] or 0.0)
    rival = best.replace("_", " ")
    if champion is not None and len(labels):
        day = date.fromisoformat(champion["day"])
        trained = load_scorer(_weights(lake, found["model"], champion))
        if trained.layout == Layout.from_json(features.facts["layout"]):
            parts = examples(lake, features, found["labels"])
            scores = np.concatenate([trained.score(part.records) for part in parts])
            return Trial(
                rival=f"the champion of {day}",
                incumbent=champion,
                metrics=metrics(labels, scores, users).as_json(),
                difference=auc_difference(labels, columns[CANDIDATE], scores, users),
            )
        rival = f"{rival} (the champion of {day} reads other columns than this day has)"
    difference = auc_difference(labels, columns[CANDIDATE], columns[best], users)
    return Trial(rival=rival, incumbent=None, metrics=None, difference=difference)


def _weights(lake: Lake, candidate: Manifest, champion: dict[str, Any]) -> Path:
    """The champion's weights, undamaged: the file that its verdict pinned, or the same weights trained again since."""
    day, pinned = date.fromisoformat(champion["day"]), FileEntry.model_validate(champion["file"])
    model = lake.read(candidate.dataset, "model", day)
    entry = model.file(MODEL) if model else None
    if model is not None and entry is not None and entry.content == pinned.content:
        return lake.verified_path(model, entry)
    # training that day again gives other weights by now, and the verdicts since would still name these
    days = (candidate.day - day).days + 1
    again = f"slicewise run {candidate.dataset} --days {day}..{candidate.day} --rebuild --judge {days}"
    return lake.verified_path(
        candidate.model_copy(update={"day": day}), pinned, remedy=f"Judge every day since again: {again}"
    )


def _few_records(lake: Lake, found: dict[str, Manifest]) -> np.ndarray:
    """Up to five records of the day; on an empty one a record of nothing, since an example has to have a row."""
    layout = Layout.from_json(found["features"].facts["layout"])
    some = next(examples(lake, found["features"], found["labels"]), None)
    return np.array(some.records[:5]) if some else layout.empty(1)


def _built(ledger: Ledger, asset: str, day: date) -> Manifest:
    manifest = ledger.get(asset, day)
    assert manifest is not None  # the plan requires it
    return manifest


def _pointer(model: Manifest) -> dict[str, Any]:
    """What a later day needs to find the model again, whatever becomes of the day's own pointer."""
    [entry] = [entry for entry in model.files if entry.name == MODEL]
    return {
        "day": model.day.isoformat(),
        "since": model.day.isoformat(),
        "run_id": model.facts["run_id"],
        "attempt": entry.path.split("/")[0],
        "generation": model.generation,
        "file": entry.model_dump(mode="json"),
    }
