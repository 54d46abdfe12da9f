"""The `deliveries` asset of a dataset."""

from collections.abc import Callable
from datetime import UTC, date, datetime

import dagster as dg

from assets.ingestion import deliver
from assets.ingestion.landing import Landing
from assets.partitions import data_asset
from resources.contract.dataset import Dataset
from resources.lake import Lake, Materialized


def ingestion_assets(dataset: Dataset) -> list[dg.AssetsDefinition]:
    """What was delivered on each day."""

    def builder(lake: Lake) -> Callable[[date, bool], Materialized]:
        now, landing = datetime.now(UTC), Landing.scan(dataset, lake=lake)
        return lambda day, rebuild: deliver.build(dataset, lake, landing, day, now=now, rebuild=rebuild)

    deliveries = data_asset(
        dataset,
        "deliveries",
        after=(),
        kinds={dataset.source.format, "parquet"},
        description=f"Rows that were delivered on a day from `{dataset.source.files}`: typed by the contract, split by the day on "
        "which they happened. What does not fit the contract lies in quarantine with file, line and reason.",
        checks=deliver.CHECKS,
        builder=builder,
        columns=row_columns(dataset),
        metadata={"source": dataset.source.files},
    )
    return [deliveries]


def row_columns(dataset: Dataset, *more: dg.TableColumn) -> dg.TableSchema:
    """The columns of an ingested row, for the asset's page."""
    described = dataset.by_name
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
