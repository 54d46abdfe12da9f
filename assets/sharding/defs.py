"""The `shards` asset of a dataset."""

import dagster as dg

from assets.ingestion.defs import row_columns
from assets.partitions import data_asset
from assets.sharding import cut
from resources.contract.buckets import HASH_NAME, HASH_VERSION
from resources.contract.dataset import Dataset


def sharding_assets(dataset: Dataset) -> list[dg.AssetsDefinition]:
    """What happened on each day, cut by user."""
    shards = data_asset(
        dataset,
        "shards",
        after=("deliveries",),
        kinds={"parquet", "duckdb"},
        description=f"The events of a day, de-duplicated, cut into {dataset.cut.num_buckets} buckets by user and sorted by user and "
        f"time. Rows delivered up to {dataset.days.late} days late end here too.",
        checks=cut.CHECKS,
        builder=lambda lake: lambda day, rebuild: cut.build(dataset, lake, day, rebuild=rebuild),
        columns=row_columns(dataset, dg.TableColumn("event", "string", description="kind of event")),
        metadata={"buckets": dataset.cut.num_buckets, "bucket_hash": f"{HASH_NAME}/{HASH_VERSION}"},
    )
    return [shards]
