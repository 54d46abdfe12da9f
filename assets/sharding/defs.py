"""The `shards` asset of a dataset."""

import dagster as dg

from assets.ingestion.defs import row_columns
from assets.partitions import DATA_BACKFILL, RETRIES, check_specs, day_grid, walk_days
from assets.sharding import cut
from resources.contract.buckets import HASH_NAME, HASH_VERSION
from resources.contract.dataset import Dataset
from resources.defs import LakeResource
from resources.progress import Progress


def sharding_assets(dataset: Dataset) -> list[dg.AssetsDefinition]:
    """What happened on each day, cut by user."""
    key, grid = dg.AssetKey([dataset.name, "shards"]), day_grid(dataset)

    @dg.asset(
        key=key,
        partitions_def=grid,
        backfill_policy=DATA_BACKFILL,
        retry_policy=RETRIES,
        group_name=dataset.name,
        kinds={"parquet", "duckdb"},
        deps=[dg.AssetKey([dataset.name, "deliveries"])],
        description=f"The events of a day, de-duplicated, cut into {dataset.cut.num_buckets} buckets by user and sorted by user and "
        f"time. Rows delivered up to {dataset.days.late} days late end here too.",
        metadata={
            "buckets": dataset.cut.num_buckets,
            "bucket_hash": f"{HASH_NAME}/{HASH_VERSION}",
            "dagster/column_schema": row_columns(
                dataset, dg.TableColumn("event", "string", description="kind of event")
            ),
        },
        check_specs=check_specs(key, grid, cut.CHECKS),
    )
    def shards(context: dg.AssetExecutionContext, lake: LakeResource, progress: dg.ResourceParam[Progress]):
        opened = lake.open()
        yield from walk_days(
            context,
            cut.CHECKS,
            lambda day, rebuild: cut.build(dataset, opened, day, rebuild=rebuild),
            advance=progress.days,
        )

    return [shards]
