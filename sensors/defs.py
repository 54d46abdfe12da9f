"""The three sensors and the two daily schedules of a dataset."""

from collections.abc import Callable
from datetime import UTC, datetime

import dagster as dg
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus
from dagster._core.storage.dagster_run import FINISHED_STATUSES

from assets.ingestion.landing import Landing
from assets.partitions import PROCESS, RANGE_END, RANGE_START
from resources.contract.dataset import Dataset
from resources.deployments import Deployment
from resources.lake import Lake
from resources.launcher.process import process_lives
from sensors.decisions import MAX_ATTEMPTS, Attempts, Decision, Request, judged_days, new_data, stale_days
from sensors.state import State

_TAG = "slicewise/request"
_IN_FLIGHT = [status for status in dg.DagsterRunStatus if status not in FINISHED_STATUSES]
Decide = Callable[[State, Attempts], Decision]


def read_state(dataset: Dataset, deployment: Deployment) -> State:
    """The dataset as it stands now."""
    lake, now = Lake(deployment.lake), datetime.now(UTC)
    return State(dataset, Landing.scan(dataset, lake=lake, now=now), lake.ledger(dataset.name), now)


def automation_of(
    dataset: Dataset, deployment: Deployment
) -> tuple[list[dg.SensorDefinition], list[dg.ScheduleDefinition]]:
    """Sensors that ask for what is missing every minute, and schedules for those who prefer a clock."""
    data_job, judgement_job = f"{dataset.name}_data", f"{dataset.name}_judgement"

    def sensor(decide: Decide, job: str, text: str) -> dg.SensorDefinition:
        @dg.sensor(
            name=f"{dataset.name}_{decide.__name__}",
            job_name=job,
            minimum_interval_seconds=60,
            default_status=dg.DefaultSensorStatus.RUNNING,
            description=text,
        )
        def tick(context: dg.SensorEvaluationContext):
            return _tick(dataset, deployment, decide, context)

        return tick

    def schedule(decide: Decide, job: str, hour: int) -> dg.ScheduleDefinition:
        @dg.schedule(
            name=f"{dataset.name}_daily_{decide.__name__}",
            job_name=job,
            cron_schedule=f"0 {hour} * * *",
            execution_timezone=dataset.days.zone,
            description="The same decision as the sensor of that name, once a day.",
        )
        def tick(context: dg.ScheduleEvaluationContext):
            return _tick(dataset, deployment, decide, context)

        return tick

    sensors = [
        sensor(
            new_data,
            data_job,
            "Asks for days whose landed files are new or rewritten, and for closed days without a file.",
        ),
        sensor(stale_days, data_job, "Asks for delivered days whose later assets are missing or behind their inputs."),
        sensor(judged_days, judgement_job, "Asks for training and judgement of the next day whose labels are mature."),
    ]
    return sensors, [
        schedule(new_data, data_job, 7),
        schedule(stale_days, data_job, 8),
        schedule(judged_days, judgement_job, 9),
    ]


def end_orphaned_runs(instance: dg.DagsterInstance) -> list[str]:
    """Runs whose process on this machine is gone are FAILURE; their ids.

    `slicewise run` executes in its own process, which no launcher watches: killed, its run would stay STARTED for ever.
    """
    ended = []
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED])):
        if (owner := run.tags.get(PROCESS)) and not process_lives(owner):
            instance.report_run_failed(run, f"its process {owner} is gone")
            ended.append(run.run_id)
    return ended


def _tick(
    dataset: Dataset,
    deployment: Deployment,
    decide: Decide,
    context: dg.SensorEvaluationContext | dg.ScheduleEvaluationContext,
) -> dg.SkipReason | list[dg.RunRequest]:
    end_orphaned_runs(context.instance)
    if busy := _busy(context.instance, dataset.name):
        return dg.SkipReason(busy)
    return _answer(decide(read_state(dataset, deployment), _attempts(context.instance)), context.log.info)


def _busy(instance: dg.DagsterInstance, dataset: str) -> str | None:
    """What is building this dataset right now: while it does, what is missing says nothing."""
    for run in instance.get_runs(filters=dg.RunsFilter(statuses=_IN_FLIGHT)):
        assets = run.asset_selection or frozenset()
        if run.job_name in (f"{dataset}_data", f"{dataset}_judgement") or any(key.path[0] == dataset for key in assets):
            return f"run {run.run_id[:8]} of {run.job_name} is {run.status.value.lower()}: decided when it has ended"
    for backfill in instance.get_backfills(filters=BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED])):
        if any(key.path[0] == dataset for key in backfill.asset_selection or []):
            return f"backfill {backfill.backfill_id} is going on: decided when it has ended"
    return None


def _attempts(instance: dg.DagsterInstance) -> Attempts:
    def attempts(key: str) -> int | None:
        runs = instance.get_runs(filters=dg.RunsFilter(tags={_TAG: key}))
        if any(run.status == dg.DagsterRunStatus.CANCELED for run in runs):
            return MAX_ATTEMPTS  # a person has decided
        return None if any(not run.is_finished for run in runs) else sum(not run.is_success for run in runs)

    return attempts


def _answer(decision: Decision, say: Callable[[str], None]) -> dg.SkipReason | list[dg.RunRequest]:
    for text in (*(request.reason for request in decision.requests), *decision.waiting):
        say(text)
    if not decision.requests:
        return dg.SkipReason("; ".join(decision.waiting) or "everything is as it should be")
    return [_run_request(request) for request in decision.requests]


def _run_request(request: Request) -> dg.RunRequest:
    tags = {_TAG: request.key, "slicewise/reason": request.reason}
    if request.first == request.last:
        return dg.RunRequest(run_key=request.run_key, partition_key=request.first.isoformat(), tags=tags)
    span = {RANGE_START: request.first.isoformat(), RANGE_END: request.last.isoformat()}
    return dg.RunRequest(run_key=request.run_key, tags={**tags, **span})
