"""The roof: one code location from `datasets/*.yaml`. A broken YAML takes out its own dataset and nothing else.

The code server and every run import this file: no torch, mlflow or pandas here or below at import time.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

warnings.filterwarnings("ignore", category=dg.BetaWarning)
warnings.filterwarnings("ignore", category=dg.PreviewWarning)

from assets.evaluation.defs import evaluation_assets  # noqa: E402
from assets.ingestion.defs import ingestion_assets  # noqa: E402
from assets.preprocessing.defs import preprocessing_assets  # noqa: E402
from assets.sharding.defs import sharding_assets  # noqa: E402
from assets.training.defs import training_assets  # noqa: E402
from resources.contract.dataset import Dataset, load_dataset  # noqa: E402
from resources.contract.errors import ConfigError  # noqa: E402
from resources.contract.manifest import DATA_ASSETS, JUDGEMENT_ASSETS  # noqa: E402
from resources.defs import resources_of  # noqa: E402
from resources.deployments import Deployment, silence  # noqa: E402
from resources.progress import Progress, Silence  # noqa: E402
from sensors.defs import automation_of  # noqa: E402

log = logging.getLogger(__name__)
MAX_RUNTIME_S = 24 * 3600
_JOBS = {
    "data": (DATA_ASSETS, "Everything up to features and labels, for any days, in any order."),
    "judgement": (JUDGEMENT_ASSETS, "Train, evaluate and judge, one day a run, in order of the days."),
}


@dataclass(frozen=True, kw_only=True)
class Contracts:
    """The datasets that could be read, and for each of the others what is wrong with its file."""

    good: dict[str, Dataset]
    broken: dict[str, str]


def read_contracts(deployment: Deployment) -> Contracts:
    """All contracts of a deployment."""
    good: dict[str, Dataset] = {}
    broken: dict[str, str] = {}
    for path in sorted(Path(deployment.datasets).glob("*.yaml")):
        try:
            good[path.stem] = load_dataset(path, variables=deployment.variables(path.stem))
        except (ConfigError, OSError, UnicodeDecodeError) as error:
            broken[path.stem] = str(error)
    return Contracts(good=good, broken=broken)


def build_definitions(deployment: Deployment, progress: Progress) -> dg.Definitions:
    """Assets, jobs, sensors and schedules of every dataset of a deployment."""
    contracts = read_contracts(deployment)
    found: list[dg.AssetsDefinition | dg.AssetSpec] = [
        dg.AssetSpec(
            key=["broken_contracts", name],
            group_name="broken_contracts",
            description=f"This dataset is left out.\n\n```\n{text}\n```",
        )
        for name, text in contracts.broken.items()
    ]
    jobs, sensors, schedules = [], [], []
    for dataset in contracts.good.values():
        found += ingestion_assets(dataset) + sharding_assets(dataset) + preprocessing_assets(dataset)
        found += training_assets(dataset) + evaluation_assets(dataset)
        for name, (asset_names, text) in _JOBS.items():
            jobs.append(
                dg.define_asset_job(
                    f"{dataset.name}_{name}",
                    selection=dg.AssetSelection.assets(*([dataset.name, asset] for asset in asset_names)),
                    description=text,
                    tags={"dagster/max_runtime": str(MAX_RUNTIME_S)},
                )
            )
        asked, clocked = automation_of(dataset, deployment)
        sensors += asked
        schedules += clocked
    return dg.Definitions(
        assets=found,
        jobs=jobs,
        sensors=sensors,
        schedules=schedules,
        resources=resources_of(deployment, progress),
        executor=dg.in_process_executor,
    )


def _this_place() -> dg.Definitions:
    deployment = Deployment.from_env()
    silence()  # and nothing more: importing this file leaves no trace
    for text in read_contracts(deployment).broken.values():
        log.error(f"left out a dataset: {text}")
    return build_definitions(deployment, Silence())


defs = _this_place()
