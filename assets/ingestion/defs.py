"""The `deliveries` asset of a dataset."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import dagster as dg

from assets.ingestion import deliver
from assets.ingestion.landing import Landing
from assets.ingestion.verdict import refused_files
from assets.partitions import data_asset
from resources.contract.dataset import Dataset
from resources.contract.manifest import Manifest
from resources.lake import Lake, Materialized

_SHOWN = 50  # files and events that a day's page lists


def ingestion_assets(dataset: Dataset) -> list[dg.AssetsDefinition]:
    """What was delivered on each day."""

    def builder(lake: Lake) -> Callable[[date, bool], Materialized]:
        now = datetime.now(UTC)
        landing = Landing.scan(dataset, lake=lake, now=now)
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
        describe=shown_of,
    )
    return [deliveries]


def shown_of(manifest: Manifest) -> dict[str, Any]:
    """What a day's page says of its files beyond rows and checks: which were left out, what changed about their columns."""
    facts = manifest.facts
    shown: dict[str, Any] = {}
    if without := facts["unverifiable"]:
        have = "1 file has" if without == 1 else f"{without:,} files have"
        shown["unverifiable"] = f"{have} no checksum of any kind: damage inside would not be noticed"
    if refused := refused_files(facts["landed"]):
        shown["left_out"] = dg.MetadataValue.md("\n".join(f"- {why}" for why in list(refused.values())[:_SHOWN]))
    if facts["drift"]:
        records = [dg.TableRecord(event) for event in facts["drift"][:_SHOWN]]
        shown["drift"] = dg.MetadataValue.table(records)
    return shown


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
