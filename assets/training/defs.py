"""The `model` asset of a dataset."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from assets.ingestion.landing import Landing
from assets.partitions import JUDGEMENT_BACKFILL, RETRIES, day_grid, walk_days
from assets.training import train, window
from resources.contract.dataset import Dataset
from resources.contract.manifest import Manifest
from resources.defs import LakeResource, TrackingResource, TrainingResource
from resources.progress import Progress

POOL = "training"


def training_assets(dataset: Dataset) -> list[dg.AssetsDefinition]:
    """The candidate for each judged day."""
    gap = window.gap_days(dataset)
    days = dg.TimeWindowPartitionMapping(
        start_offset=-(dataset.train.window_days + gap),
        end_offset=-(1 + gap),
        allow_nonexistent_upstream_partitions=True,
    )

    @dg.asset(
        key=[dataset.name, "model"],
        partitions_def=day_grid(dataset),
        backfill_policy=JUDGEMENT_BACKFILL,
        retry_policy=RETRIES,
        group_name=dataset.name,
        kinds={"pytorch", "mlflow"},
        pool=POOL,
        deps=[
            dg.AssetDep(dg.AssetKey([dataset.name, name]), partition_mapping=days) for name in ("features", "labels")
        ],
        description=f"The candidate for a judged day: {dataset.train.model} trained on the {dataset.train.window_days} days whose labels "
        "were all known before that day began, by one process per device.",
    )
    def model(
        context: dg.AssetExecutionContext,
        lake: LakeResource,
        tracking: TrackingResource,
        training: TrainingResource,
        progress: dg.ResourceParam[Progress],
    ):
        opened, tracker, now = lake.open(), tracking.open(), datetime.now(UTC)
        tracker.reconcile(dataset=dataset.name, alive=lambda owner: _alive(context.instance, owner))
        landing = Landing.scan(dataset, lake=opened)
        with dg.open_pipes_session(
            context=context,
            context_injector=dg.PipesTempFileContextInjector(),
            message_reader=dg.PipesTempFileMessageReader(),
        ) as session:
            yield from walk_days(
                context,
                {},
                lambda day, rebuild: train.build(
                    dataset,
                    opened,
                    day,
                    closed=lambda other: landing.closed(other, now),
                    tracker=tracker,
                    ranks=training.ranks,
                    grace_s=training.grace_s,
                    env=session.get_bootstrap_env_vars(),
                    on_progress=progress.training,
                    owner=context.run_id,
                    note=f"Candidate for {day}, from [this Dagster run]({tracking.dagster_page}/runs/{context.run_id}).",
                    rebuild=rebuild,
                ),
                advance=progress.days,
                describe=lambda made: _described(made, tracking.mlflow_page, tracker.page_of(made.facts["run_id"])),
            )

    return [model]


def _described(manifest: Manifest, mlflow_page: str, run_page: str | None) -> Mapping[str, Any]:
    facts = manifest.facts
    run = dg.MetadataValue.url(mlflow_page + run_page) if run_page else facts["run_id"]
    split = {f"seconds/{part}": round(float(seconds), 3) for part, seconds in facts["seconds_split"].items()}
    return {
        "mlflow_run": run,
        "window": " .. ".join(facts["window"]),
        "ranks": facts["ranks"],
        "steps": facts["steps"],
        **split,
    }


def _alive(instance: dg.DagsterInstance, owner: str) -> bool:
    run = instance.get_run_by_id(owner)
    return run is not None and not run.is_finished
