"""The day grid of a dataset, and the one way in which a Dagster step walks over its days.

Data assets may get many days in one run. Each day is built and reported by itself (range runs stamp one result on all
days otherwise); a day that fails does not stop the other days of its step, and the step then fails with all of them.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import date, timedelta
from typing import Any

import dagster as dg
from dagster._core.errors import DagsterExecutionInterruptedError

from resources.contract.dataset import Dataset
from resources.contract.errors import SlicewiseError, TransientError
from resources.contract.manifest import Manifest
from resources.defs import LakeResource
from resources.lake import Lake, Materialized
from resources.progress import Progress

RANGE_START = "dagster/asset_partition_range_start"
RANGE_END = "dagster/asset_partition_range_end"
REBUILD = "slicewise/rebuild"
PROCESS = "slicewise/process"  # of a run that executes in the process that started it

_MOST_REASONS = 5
_COLUMNS = "dagster/column_schema"

# chunks of a backfill run side by side: a chunk may meet days that another one is still building
RETRIES = dg.RetryPolicy(max_retries=4, delay=5, backoff=dg.Backoff.EXPONENTIAL)
DATA_BACKFILL = dg.BackfillPolicy.multi_run(max_partitions_per_run=10)
JUDGEMENT_BACKFILL = dg.BackfillPolicy.multi_run(max_partitions_per_run=1)


def day_grid(dataset: Dataset) -> dg.DailyPartitionsDefinition:
    """One partition per day from the dataset's first day, in its zone; it ends where the contract says so."""
    last = dataset.days.last
    return dg.DailyPartitionsDefinition(
        start_date=dataset.days.first.isoformat(),
        end_date=(last + timedelta(days=1)).isoformat() if last else None,
        timezone=dataset.days.zone,
    )


def data_asset(
    dataset: Dataset,
    name: str,
    *,
    after: tuple[str, ...],
    kinds: set[str],
    description: str,
    checks: Mapping[str, tuple[bool, str]],
    builder: Callable[[Lake], Callable[[date, bool], Materialized]],
    columns: dg.TableSchema,
    metadata: Mapping[str, Any] | None = None,
    describe: Callable[[Manifest], Mapping[str, Any]] = lambda _: {},
) -> dg.AssetsDefinition:
    """One data asset of a dataset: identity-mapped onto the assets `after` which it comes, any number of days a run.

    Args:
        builder: given the lake, what builds a day.
        columns: shown with the asset and with each of its days, which keep those that they were built with.
        metadata: of the asset itself.
        describe: what its days' pages show beyond the metadata of every room.
    """
    key, grid = dg.AssetKey([dataset.name, name]), day_grid(dataset)

    @dg.asset(
        key=key,
        partitions_def=grid,
        backfill_policy=DATA_BACKFILL,
        retry_policy=RETRIES,
        group_name=dataset.name,
        kinds=kinds,
        deps=[dg.AssetKey([dataset.name, other]) for other in after],
        description=description,
        metadata={**(metadata or {}), _COLUMNS: columns},
        check_specs=check_specs(key, grid, checks),
    )
    def days(context: dg.AssetExecutionContext, lake: LakeResource, progress: dg.ResourceParam[Progress]):
        yield from walk_days(
            context,
            checks,
            builder(lake.open()),
            advance=progress.days,
            describe=lambda made: {**describe(made), _COLUMNS: columns},
        )

    return days


def metadata_of(manifest: Manifest) -> dict[str, Any]:
    """What the day's page shows, under the same keys in every room."""
    failed = [check for check in manifest.checks if not check.passed]
    return {
        "verdict": "passed" if not failed else "; ".join(f"{c.name}: {c.message}" for c in failed),
        "dagster/row_count": manifest.rows_out,
        "rows_in": manifest.rows_in,
        "rows_out": manifest.rows_out,
        **{f"count/{name}": value for name, value in manifest.counts.items()},
        **{f"quarantined/{reason}": rows for reason, rows in manifest.quarantined.items()},
        "bytes": manifest.bytes,
        "seconds": manifest.seconds,
        "files": len(manifest.files),
        "path": f"{manifest.dataset}/{manifest.asset}/day={manifest.day}/{manifest.attempt}",
        "generation": manifest.generation,
        "content_digest": manifest.content_digest,
        "input_digest": manifest.input_digest,
    }


def check_specs(
    key: dg.AssetKey, grid: dg.PartitionsDefinition, checks: Mapping[str, tuple[bool, str]]
) -> list[dg.AssetCheckSpec]:
    """Specs of an asset's checks, from name -> (blocking, description)."""
    return [
        dg.AssetCheckSpec(name, asset=key, blocking=blocking, description=text, partitions_def=grid)
        for name, (blocking, text) in checks.items()
    ]


def walk_days(
    context: dg.AssetExecutionContext,
    checks: Mapping[str, tuple[bool, str]],
    build: Callable[[date, bool], Materialized],
    *,
    advance: Callable[[str, date, int, int], None],
    describe: Callable[[Manifest], Mapping[str, Any]] = lambda _: {},
) -> Iterator[dg.MaterializeResult]:
    """Builds every day of the run's range, in order, and reports each; the result carries the checks over all days.

    `build` gets the day and whether to build it although nothing changed (the run's tag `slicewise/rebuild`).
    """
    rebuild = context.run.tags.get(REBUILD) == "true"
    manifests: list[Manifest] = []
    failures: list[tuple[date, SlicewiseError]] = []
    keys = context.partition_keys
    asset = context.asset_key.path[-1]
    for index, key in enumerate(keys):
        day = date.fromisoformat(key)
        try:
            made = build(day, rebuild)
        except SlicewiseError as error:
            failures.append((day, error))
            context.log.error(f"{asset} {day}: {error}")
            continue
        except DagsterExecutionInterruptedError as error:
            # with a retry policy Dagster would start the step again after a cancellation
            raise dg.Failure(f"{asset} {day} was cancelled", allow_retries=False) from error
        except Exception as error:
            # a mistake in our own code: trying again would only hide it
            raise dg.Failure(f"{asset} {day}: {type(error).__name__}: {error}", allow_retries=False) from error
        finally:
            advance(asset, day, index + 1, len(keys))
        manifests.append(made.manifest)
        context.log.info(f"{asset} {day}: {'built' if made.built else 'unchanged'}, {made.manifest.rows_out:,} rows")
        shown = metadata_of(made.manifest)
        context.add_asset_metadata({"verdict": shown["verdict"], **describe(made.manifest), **shown}, partition_key=key)
    if failures:
        raise _failure_over_days(failures, alone=PROCESS in context.run.tags)
    yield dg.MaterializeResult(check_results=[_over_days(name, manifests) for name in checks])


def _failure_over_days(failures: list[tuple[date, SlicewiseError]], *, alone: bool) -> dg.Failure:
    """One failure that names every day. Retried where one of them is transient, unless nobody else builds (`alone`)."""
    shown = [f"{day}: {error}" for day, error in failures[:_MOST_REASONS]]
    more = [f"and {len(failures) - _MOST_REASONS} more days"] if failures[_MOST_REASONS:] else []
    return dg.Failure(
        description="\n".join([*shown, *more]),
        metadata={"days": [str(day) for day, _ in failures], "kinds": sorted({type(e).__name__ for _, e in failures})},
        allow_retries=not alone and any(isinstance(error, TransientError) for _, error in failures),
    )


def _over_days(name: str, manifests: list[Manifest]) -> dg.AssetCheckResult:
    """One check over all days of a run; the failing days stand in its metadata."""
    found = [(m.day, check) for m in manifests for check in m.checks if check.name == name]
    failed = {str(day): check.message for day, check in found if not check.passed}
    blocking = any(check.blocking and not check.passed for _, check in found)
    worst = max((check.value for _, check in found if check.value is not None), default=None)
    return dg.AssetCheckResult(
        check_name=name,
        passed=not failed,
        severity=dg.AssetCheckSeverity.ERROR if blocking else dg.AssetCheckSeverity.WARN,
        metadata={"days": len(found), "failed_days": failed, **({"worst": worst} if worst is not None else {})},
        description="; ".join(f"{day}: {message}" for day, message in failed.items()) or None,
    )
