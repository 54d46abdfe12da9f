"""Where things lie: what the environment and `.env` say, in which order, and what is made ready."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from resources import deployments
from resources.contract.errors import ConfigError
from resources.deployments import CODE, Deployment, remember_landing


@pytest.fixture
def env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An `.env` of this test's own, and an environment that says nothing of us."""
    for name in list(os.environ):
        if name.startswith(("SLICEWISE_", "LANDING")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(deployments, "ENV_FILE", tmp_path / ".env")
    return tmp_path / ".env"


def test_without_a_word_everything_lies_beside_the_code() -> None:
    here = Deployment.from_env({})
    assert (here.home, here.datasets, here.landing) == (CODE / ".slicewise", CODE / "datasets", CODE / "landing")
    assert here.lake == CODE / ".slicewise" / "lake"
    assert here.mlflow_uri == f"sqlite:///{CODE}/.slicewise/mlflow.db"
    assert here.landing_of("shop") == CODE / "landing" / "shop"
    assert (here.dagster_page, here.mlflow_page) == ("http://127.0.0.1:3000", "http://127.0.0.1:5000")
    assert here.ranks >= 1


def test_relative_folders_mean_the_same_from_every_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Deployment.from_env({"SLICEWISE_HOME": "elsewhere"}).home == CODE / "elsewhere"
    assert Deployment.from_env({"SLICEWISE_HOME": "~/elsewhere"}).home == Path.home() / "elsewhere"


def test_a_landing_of_the_datasets_own_beats_the_common_one() -> None:
    told = Deployment.from_env({"LANDING": "/common", "LANDING_SHOP": "/shops/own"})
    assert told.landing_of("shop") == Path("/shops/own")
    assert told.landing_of("other") == Path("/common/other")
    assert told.variables("shop") == {"LANDING": "/shops/own"}


def test_the_environment_beats_the_env_file(env_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env_file.write_text("SLICEWISE_HOME=/from/file\nSLICEWISE_RANKS=4\nLANDING_SHOP=/from/file\n")
    monkeypatch.setenv("SLICEWISE_HOME", "/from/environment")
    told = Deployment.from_env()
    assert told.home == Path("/from/environment")
    assert (told.ranks, told.landing_of("shop")) == (4, Path("/from/file"))


def test_a_landing_is_remembered_for_every_later_process(
    env_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("first", "second"):
        remember_landing("shop", Path(folder))
    remember_landing("other", tmp_path / "third")
    told = Deployment.from_env()
    assert told.landing_of("shop") == tmp_path / "second"
    assert told.landing_of("other") == tmp_path / "third"
    assert env_file.read_text().count("LANDING_SHOP") == 1


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_ranks_that_divide_the_lanes_are_taken(ranks: int) -> None:
    assert Deployment.from_env({"SLICEWISE_RANKS": str(ranks)}).ranks == ranks


@pytest.mark.parametrize("ranks", ["3", "two", "0", "-2", "1.5", "128"])
def test_ranks_that_do_not_are_refused_with_what_to_say(ranks: str) -> None:
    with pytest.raises(ConfigError, match=rf"SLICEWISE_RANKS must .*{ranks}.*[Ss]ay"):
        Deployment.from_env({"SLICEWISE_RANKS": ranks})


def test_the_pages_are_what_is_said_of_them() -> None:
    told = Deployment.from_env({"SLICEWISE_PAGES": "http://dagster:1,http://mlflow:2"})
    assert (told.dagster_page, told.mlflow_page) == ("http://dagster:1", "http://mlflow:2")
    assert Deployment.from_env({"SLICEWISE_PAGES": "http://dagster:1"}).mlflow_page == "http://127.0.0.1:5000"


def test_the_instances_settings_are_written_once_and_follow_the_shipped_ones(tmp_path: Path) -> None:
    here = Deployment.from_env({"SLICEWISE_HOME": str(tmp_path)})
    here.prepare({})
    settings = tmp_path / "dagster" / "dagster.yaml"
    assert settings.read_bytes() == (CODE / "resources" / "dagster.yaml").read_bytes()
    assert here.lake.is_dir()
    written = settings.stat().st_mtime_ns
    here.prepare({})
    assert settings.stat().st_mtime_ns == written
    settings.write_text("telemetry: {enabled: true}\n")
    here.prepare({})
    assert YAML(typ="safe").load(settings.read_text())["telemetry"] == {"enabled": False}


def test_child_processes_see_the_same_place_and_send_nothing_home(tmp_path: Path) -> None:
    environment: dict[str, str] = {"PATH": "kept"}
    here = Deployment.from_env({"SLICEWISE_HOME": str(tmp_path)})
    here.prepare(environment)
    assert environment["PATH"] == "kept"
    assert environment["DAGSTER_HOME"] == str(tmp_path / "dagster")
    assert Deployment.from_env(environment).home == here.home
    for name in ("DAGSTER_DISABLE_TELEMETRY", "MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        assert environment[name] == "true"


def test_a_landing_may_be_an_address_and_a_folder_of_the_datasets_own_beats_it() -> None:
    told = Deployment.from_env({"LANDING": "s3://logs/all/", "LANDING_SHOP": "gs://other/shop", "LANDING_AD": "/ads"})
    assert told.variables("web") == {"LANDING": "s3://logs/all/web"}
    assert told.variables("shop") == {"LANDING": "gs://other/shop"}
    assert told.variables("ad") == {"LANDING": "/ads"}
    assert Deployment.from_env({"LANDING_SHOP": "s3://a/b"}).variables("ad") == {"LANDING": f"{CODE}/landing/ad"}


def test_what_stores_are_told_is_read_here_and_never_shown() -> None:
    told = Deployment.from_env({"AWS_SECRET_ACCESS_KEY": "hidden", "AWS_REGION": "eu", "AWS_PROFILE": "x", "HOME": "/"})
    assert told.storage == {"AWS_SECRET_ACCESS_KEY": "hidden", "AWS_REGION": "eu"}
    assert "hidden" not in repr(told)


def test_the_room_for_remote_files_is_a_number_of_gigabytes() -> None:
    assert Deployment.from_env({}).fetch_bytes == 8_000_000_000
    assert Deployment.from_env({"SLICEWISE_FETCH_GB": "0.5"}).fetch_bytes == 500_000_000
    assert Deployment.from_env({"SLICEWISE_HOME": "/h"}).fetched("shop") == Path("/h/fetched/shop")
    for wrong in ("0", "-1", "nan", "inf", "much"):
        with pytest.raises(ConfigError, match=rf"SLICEWISE_FETCH_GB must .*{wrong}.*Say 8"):
            Deployment.from_env({"SLICEWISE_FETCH_GB": wrong})
