"""The roof: one set of assets per contract, and a broken contract takes out itself alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from definitions import build_definitions, read_contracts
from resources.contract.manifest import ASSETS, DATA_ASSETS
from resources.deployments import CODE, Deployment
from resources.progress import Silence


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    """A deployment with a good contract and a broken one."""
    (tmp_path / "datasets").mkdir()
    good = (CODE / "datasets" / "online_retail.yaml").read_text(encoding="utf-8")
    (tmp_path / "datasets" / "online_retail.yaml").write_text(good, encoding="utf-8")
    (tmp_path / "datasets" / "broken.yaml").write_text(
        good.replace("window_days: 14", "window_days: many"), encoding="utf-8"
    )
    environment = {"SLICEWISE_HOME": str(tmp_path / "home"), "SLICEWISE_DATASETS": str(tmp_path / "datasets")}
    return Deployment.from_env(environment)


def test_a_broken_contract_leaves_the_good_one_working_and_says_what_is_wrong(deployment: Deployment) -> None:
    contracts = read_contracts(deployment)
    assert list(contracts.good) == ["online_retail"]
    assert "train.window_days" in contracts.broken["broken"]
    graph = build_definitions(deployment, Silence()).resolve_asset_graph()
    assert {dg.AssetKey(["online_retail", asset]) for asset in ASSETS} <= graph.get_all_asset_keys()
    broken = dg.AssetKey(["broken_contracts", "broken"])
    assert "train.window_days" in (graph.get(broken).description or "")


def test_a_contract_that_is_no_text_at_all_is_left_out_too(deployment: Deployment) -> None:
    (deployment.datasets / "binary.yaml").write_bytes(b"\xff\xfe\x00\x80")
    assert set(read_contracts(deployment).broken) == {"binary", "broken"}


def test_only_training_looks_over_a_window_of_days(deployment: Deployment) -> None:
    graph = build_definitions(deployment, Silence()).resolve_asset_graph()
    windows = set()
    for asset in ASSETS:
        key = dg.AssetKey(["online_retail", asset])
        for parent in graph.get(key).parent_keys:
            mapping = graph.get_partition_mapping(key, parent)
            if isinstance(mapping, dg.TimeWindowPartitionMapping) and (mapping.start_offset, mapping.end_offset) != (
                0,
                0,
            ):
                windows.add((asset, parent.path[-1], mapping.start_offset, mapping.end_offset))
    assert windows == {("model", "features", -21, -8), ("model", "labels", -21, -8), ("champion", "champion", -1, -1)}


def test_every_asset_says_what_it_is_and_data_assets_what_columns_they_have(deployment: Deployment) -> None:
    graph = build_definitions(deployment, Silence()).resolve_asset_graph()
    for asset in ASSETS:
        node = graph.get(dg.AssetKey(["online_retail", asset]))
        assert node.description
        assert node.kinds
        assert ("dagster/column_schema" in node.metadata) == (asset in DATA_ASSETS)


def test_data_assets_and_judgement_are_two_jobs_with_three_sensors(deployment: Deployment) -> None:
    repository = build_definitions(deployment, Silence()).get_repository_def()
    assert {"online_retail_data", "online_retail_judgement"} <= set(repository.job_names)
    assert {sensor.name for sensor in repository.sensor_defs} == {
        f"online_retail_{name}" for name in ("new_data", "stale_days", "judged_days")
    }
    assert all(sensor.default_status == dg.DefaultSensorStatus.RUNNING for sensor in repository.sensor_defs)


def test_no_secret_or_machine_name_is_in_the_shipped_instance() -> None:
    text = (CODE / "resources" / "dagster.yaml").read_text(encoding="utf-8")
    assert "enabled: false" in text.split("telemetry:")[1].splitlines()[1]
    assert "run_monitoring" in text


def test_two_datasets_have_no_asset_in_common(deployment: Deployment) -> None:
    text = (deployment.datasets / "online_retail.yaml").read_text(encoding="utf-8")
    (deployment.datasets / "other.yaml").write_text(
        text.replace("name: online_retail", "name: other"), encoding="utf-8"
    )
    graph = build_definitions(replace(deployment), Silence()).resolve_asset_graph()
    for asset in ASSETS:
        ancestors = graph.get_ancestor_asset_keys(dg.AssetKey(["other", asset]))
        assert {key.path[0] for key in ancestors} <= {"other"}
