"""The `deliveries` asset of a dataset."""

from datetime import UTC, datetime

import dagster as dg

from assets.ingestion import deliver
from assets.ingestion.landing import Landing
from assets.partitions import DATA_BACKFILL, RETRIES, check_specs, day_grid, walk_days
from resources.contract.dataset import Dataset
from resources.defs import LakeResource
from resources.progress import Progress


def ingestion_assets(dataset: Dataset) -> list[dg.AssetsDefinition]:
    """What was delivered on each day."""
    key, grid = dg.AssetKey([dataset.name, "deliveries"]), day_grid(dataset)

    @dg.asset(
        key=key,
        partitions_def=grid,
        backfill_policy=DATA_BACKFILL,
        retry_policy=RETRIES,
        group_name=dataset.name,
        kinds={dataset.source.format, "parquet"},
        description=f"Rows that were delivered on a day from `{dataset.source.files}`: typed by the contract, split by the day on "
        "which they happened. What does not fit the contract lies in quarantine with file, line and reason.",
        metadata={"source": dataset.source.files, "dagster/column_schema": row_columns(dataset)},
        check_specs=check_specs(key, grid, deliver.CHECKS),
    )
    def deliveries(context: dg.AssetExecutionContext, lake: LakeResource, progress: dg.ResourceParam[Progress]):
        opened, now = lake.open(), datetime.now(UTC)
        landing = Landing.scan(dataset, lake=opened)
        yield from walk_days(
            context,
            deliver.CHECKS,
            lambda day, rebuild: deliver.build(dataset, opened, landing, day, now=now, rebuild=rebuild),
            advance=progress.days,
        )

    return [deliveries]


def row_columns(dataset: Dataset, *more: dg.TableColumn) -> dg.TableSchema:
    """The columns of an ingested row, for the asset's page."""
    described = {name: column for name, column in dataset.by_name.items()}
    columns = [
        dg.TableColumn(
            field.name,
            str(field.type),
            description="when it happened" if field.name == "event_time" else described[field.name].type,
            tags={"personal": ""} if field.name in described and described[field.name].personal else {},
        )
        for field in dataset.row_schema
    ]
    return dg.TableSchema(columns=[*columns, *more])
