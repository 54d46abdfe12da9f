"""The `evaluation` and `champion` assets of a dataset."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from assets.evaluation import evaluate, judge
from assets.ingestion.landing import Landing
from assets.partitions import JUDGEMENT_BACKFILL, RETRIES, day_grid, walk_days
from resources.attempts import dead_attempts
from resources.contract.dataset import Dataset
from resources.contract.manifest import Manifest
from resources.defs import LakeResource, TrackingResource
from resources.deployments import Deployment
from resources.progress import Progress

# an attempt that nothing names is kept this long: whoever began to read it an hour ago may still be at it
_KEEP_S = 24 * 3600.0


def evaluation_assets(dataset: Dataset) -> list[dg.AssetsDefinition]:
    """How the candidate did on each judged day, and what follows from it."""
    grid = day_grid(dataset)
    keys = {
        name: dg.AssetKey([dataset.name, name]) for name in ("features", "labels", "model", "evaluation", "champion")
    }

    @dg.asset(
        key=keys["evaluation"],
        partitions_def=grid,
        backfill_policy=JUDGEMENT_BACKFILL,
        retry_policy=RETRIES,
        group_name=dataset.name,
        kinds={"scikitlearn", "mlflow"},
        deps=[keys["model"], keys["features"], keys["labels"]],
        description="The candidate and the baselines scored on all rows of the judged day together: AUC, log loss, calibration, AUC within users.",
    )
    def evaluation(
        context: dg.AssetExecutionContext,
        lake: LakeResource,
        tracking: TrackingResource,
        progress: dg.ResourceParam[Progress],
    ):
        opened, tracker, now = lake.open(), tracking.open(), datetime.now(UTC)
        landing = Landing.scan(dataset, lake=opened)
        yield from walk_days(
            context,
            {},
            lambda day, rebuild: evaluate.build(
                dataset, opened, day, closed=lambda other: landing.closed(other, now), tracker=tracker, rebuild=rebuild
            ),
            advance=progress.days,
            describe=_metrics,
        )

    @dg.asset(
        key=keys["champion"],
        partitions_def=grid,
        backfill_policy=JUDGEMENT_BACKFILL,
        retry_policy=RETRIES,
        group_name=dataset.name,
        kinds={"mlflow"},
        deps=[
            keys["evaluation"],
            dg.AssetDep(
                keys["champion"],
                partition_mapping=dg.TimeWindowPartitionMapping(
                    start_offset=-1, end_offset=-1, allow_nonexistent_upstream_partitions=True
                ),
            ),
        ],
        description="The verdict of a judged day: the candidate is promoted when it beats the incumbent on the same rows beyond doubt "
        "(paired bootstrap by user, 95 %); kept or undecided otherwise, with the reason.",
    )
    def champion(
        context: dg.AssetExecutionContext,
        lake: LakeResource,
        tracking: TrackingResource,
        progress: dg.ResourceParam[Progress],
    ):
        opened, tracker = lake.open(), tracking.open()
        yield from walk_days(
            context,
            {},
            lambda day, rebuild: judge.build(dataset, opened, day, tracker=tracker, rebuild=rebuild),
            advance=progress.days,
            describe=lambda made: {"decision": made.facts["verdict"], "reason": made.facts["reason"]},
        )
        swept = opened.sweep(dataset.name, older_than_s=_KEEP_S, pins=judge.pins(opened.ledger(dataset.name)))
        dead_attempts(Deployment.from_env().fetched(dataset.name))  # of fetching: what is old goes
        context.log.info(f"retention removed {swept} attempts that nothing names any more")

    return [evaluation, champion]


def _metrics(manifest: Manifest) -> Mapping[str, Any]:
    return {
        f"{who}/{name}": value
        for who, metrics in manifest.facts["metrics"].items()
        for name, value in metrics.items()
        if value is not None
    }
