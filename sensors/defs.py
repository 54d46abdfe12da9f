"""The three sensors and the two daily schedules of a dataset."""

from collections.abc import Callable
from datetime import UTC, datetime

import dagster as dg

from assets.ingestion.landing import Landing
from assets.partitions import RANGE_END, RANGE_START
from resources.contract.dataset import Dataset
from resources.deployments import Deployment
from resources.lake import Lake
from sensors.decisions import Attempts, Decision, Request, judged_days, new_data, stale_days
from sensors.state import State

_TAG = "slicewise/request"
Decide = Callable[[State, Attempts], Decision]


def read_state(dataset: Dataset, deployment: Deployment) -> State:
    """The dataset as it stands now."""
    lake = Lake(deployment.lake)
    return State(dataset, Landing.scan(dataset, lake=lake), lake.ledger(dataset.name), datetime.now(UTC))


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
            return _answer(decide(read_state(dataset, deployment), _attempts(context.instance)), context.log.info)

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
            return _answer(decide(read_state(dataset, deployment), _attempts(context.instance)), context.log.info)

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


def _attempts(instance: dg.DagsterInstance) -> Attempts:
    def attempts(key: str) -> int | None:
        runs = instance.get_runs(filters=dg.RunsFilter(tags={_TAG: key}))
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
