"""What MLflow is told of an evaluation and of a verdict: metrics, one registered version per candidate, aliases, tags.

All of it before the result is published, and all of it the same when it is told again: what is published was told.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from resources.contract.manifest import Manifest
from resources.tracking import JUDGED_DAY, Metric, Package, Tracker

log = logging.getLogger(__name__)


def log_metrics(tracker: Tracker, model: Manifest, values: Mapping[str, float | None]) -> bool:
    """Whether MLflow has the model's run; if so, `eval/...` stands in it for all values that exist."""
    run_id = model.facts["run_id"]
    if not tracker.knows(run_id):
        log.warning(
            f"MLflow has no run {run_id} of model {model.day} any more: its numbers stand in the manifest alone"
        )
        return False
    found = {f"eval/{name}": float(value) for name, value in values.items() if value is not None}
    now_ms, step = int(time.time() * 1000), model.facts["steps"]
    tracker.log(run_id, [Metric(key=key, value=value, step=step, time_ms=now_ms) for key, value in found.items()])
    return True


def tell_verdict(
    tracker: Tracker, *, model: Manifest, facts: Mapping[str, Any], package: Callable[[], Package], newest: bool
) -> None:
    """MLflow knows the verdict on a candidate. Aliases follow the newest judged day only (`newest`).

    `challenger` is its candidate; `champion` whatever its verdict calls so, also when it takes an earlier promotion back.
    """
    incumbent = facts["metrics"]["incumbent"] or {}
    values = {f"incumbent/{name}": value for name, value in incumbent.items()} | {"difference": facts["difference"]}
    if not log_metrics(tracker, model, values):
        return
    dataset, day, run_id = model.dataset, model.day, model.facts["run_id"]
    version = tracker.register(run_id, dataset=dataset, day=day, package=package())
    told = {JUDGED_DAY: day.isoformat(), "verdict": facts["verdict"], "reason": facts["reason"]}
    tracker.set_tags(run_id, told)
    tracker.tag_version(dataset=dataset, version=version, tags=told)
    if newest:
        champion = facts["champion"]
        named = tracker.version_of(champion["run_id"], dataset=dataset) if champion else None
        tracker.set_alias(dataset=dataset, alias="challenger", version=version, day=day)
        tracker.set_alias(dataset=dataset, alias="champion", version=named, day=day)
