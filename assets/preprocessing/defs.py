"""The `rollups`, `features` and `labels` assets of a dataset."""

import dagster as dg

from assets.partitions import DATA_BACKFILL, RETRIES, check_specs, day_grid, walk_days
from assets.preprocessing import features as features_room
from assets.preprocessing import labels as labels_room
from assets.preprocessing import rollups as rollups_room
from assets.preprocessing.layout import Layout
from resources.contract.dataset import Dataset
from resources.defs import LakeResource
from resources.progress import Progress


def preprocessing_assets(dataset: Dataset) -> list[dg.AssetsDefinition]:
    """Rollups, features and labels of each day. Identity-mapped: earlier and later days are read by their manifests."""
    grid = day_grid(dataset)
    keys = {name: dg.AssetKey([dataset.name, name]) for name in ("shards", "rollups", "features", "labels")}
    layout = Layout.of(dataset)
    horizon = f"within {dataset.horizon_hours:g} hours" if dataset.horizon_hours else "on the row itself"

    @dg.asset(
        key=keys["rollups"],
        partitions_def=grid,
        backfill_policy=DATA_BACKFILL,
        retry_policy=RETRIES,
        group_name=dataset.name,
        kinds={"parquet", "numpy"},
        deps=[keys["shards"]],
        description="A day's counts and last events by user and by item, from its own shards alone: what later days read as history.",
        check_specs=check_specs(keys["rollups"], grid, rollups_room.CHECKS),
    )
    def rollups(context: dg.AssetExecutionContext, lake: LakeResource, progress: dg.ResourceParam[Progress]):
        opened = lake.open()
        yield from walk_days(
            context,
            rollups_room.CHECKS,
            lambda day, rebuild: rollups_room.build(dataset, opened, day, rebuild=rebuild),
            advance=progress.days,
        )

    @dg.asset(
        key=keys["features"],
        partitions_def=grid,
        backfill_policy=DATA_BACKFILL,
        retry_policy=RETRIES,
        group_name=dataset.name,
        kinds={"numpy"},
        deps=[keys["shards"], keys["rollups"]],
        description="One fixed-width record per example, in the day's fixed permutation. History counts hold strictly earlier events only.",
        metadata={
            "dagster/column_schema": dg.TableSchema(
                columns=[
                    *(
                        dg.TableColumn(name, "uint32", description="category code, 0 is missing")
                        for name in layout.categories
                    ),
                    *(dg.TableColumn(name, "float32", description="number, NaN is missing") for name in layout.numbers),
                ]
            )
        },
        check_specs=check_specs(keys["features"], grid, features_room.CHECKS),
    )
    def features(context: dg.AssetExecutionContext, lake: LakeResource, progress: dg.ResourceParam[Progress]):
        opened = lake.open()
        yield from walk_days(
            context,
            features_room.CHECKS,
            lambda day, rebuild: features_room.build(dataset, opened, day, rebuild=rebuild),
            advance=progress.days,
        )

    @dg.asset(
        key=keys["labels"],
        partitions_def=grid,
        backfill_policy=DATA_BACKFILL,
        retry_policy=RETRIES,
        group_name=dataset.name,
        kinds={"numpy"},
        deps=[keys["shards"]],
        description=f"One label per feature row, in the same order, decided {horizon}. Mature once that time is over and closed.",
        metadata={
            "dagster/column_schema": dg.TableSchema(columns=[dg.TableColumn("label", "float32", description="0 or 1")])
        },
        check_specs=check_specs(keys["labels"], grid, labels_room.CHECKS),
    )
    def labels(context: dg.AssetExecutionContext, lake: LakeResource, progress: dg.ResourceParam[Progress]):
        opened = lake.open()
        yield from walk_days(
            context,
            labels_room.CHECKS,
            lambda day, rebuild: labels_room.build(dataset, opened, day, rebuild=rebuild),
            advance=progress.days,
            describe=lambda made: {"complete": made.facts["complete"], "horizon_last": made.facts["horizon_last"]},
        )

    return [rollups, features, labels]
