"""The `rollups`, `features` and `labels` assets of a dataset."""

import dagster as dg

from assets.partitions import data_asset
from assets.preprocessing import features as features_room
from assets.preprocessing import labels as labels_room
from assets.preprocessing import rollups as rollups_room
from assets.preprocessing.layout import Layout
from resources.contract.dataset import OTHER_EVENT, Dataset


def preprocessing_assets(dataset: Dataset) -> list[dg.AssetsDefinition]:
    """Rollups, features and labels of each day. Identity-mapped: earlier and later days are read by their manifests."""
    layout = Layout.of(dataset)
    horizon = f"within {dataset.horizon_hours:g} hours" if dataset.horizon_hours else "on the row itself"
    rollups = data_asset(
        dataset,
        "rollups",
        after=("shards",),
        kinds={"parquet", "numpy"},
        description="A day's counts and last events by user and by item, from its own shards alone: what later days read as history.",
        checks=rollups_room.CHECKS,
        builder=lambda lake: lambda day, rebuild: rollups_room.build(dataset, lake, day, rebuild=rebuild),
        columns=dg.TableSchema(
            columns=[
                dg.TableColumn("user", "uint64", description="hash of the id; `item` in the file over all buckets"),
                *(dg.TableColumn(f"count_{kind}", "int64") for kind in (*dataset.events, OTHER_EVENT)),
                dg.TableColumn("last_us", "int64", description="time of the last event; users only"),
            ]
        ),
    )
    features = data_asset(
        dataset,
        "features",
        after=("shards", "rollups"),
        kinds={"numpy"},
        description="One fixed-width record per example, in the day's fixed permutation. History counts hold strictly earlier events only.",
        checks=features_room.CHECKS,
        builder=lambda lake: lambda day, rebuild: features_room.build(dataset, lake, day, rebuild=rebuild),
        columns=dg.TableSchema(
            columns=[
                *(
                    dg.TableColumn(name, "uint32", description="category code, 0 is missing")
                    for name in layout.categories
                ),
                *(dg.TableColumn(name, "float32", description="number, NaN is missing") for name in layout.numbers),
            ]
        ),
    )
    labels = data_asset(
        dataset,
        "labels",
        after=("shards",),
        kinds={"numpy"},
        description=f"One label per feature row, in the same order, decided {horizon}. Mature once that time is over and closed.",
        checks=labels_room.CHECKS,
        builder=lambda lake: lambda day, rebuild: labels_room.build(dataset, lake, day, rebuild=rebuild),
        columns=dg.TableSchema(columns=[dg.TableColumn("label", "float32", description="0 or 1")]),
        describe=lambda made: {"complete": made.facts["complete"], "horizon_last": made.facts["horizon_last"]},
    )
    return [rollups, features, labels]
