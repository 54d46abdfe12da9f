"""Dagster's handles on what the assets stand on: the lake, MLflow, the training processes, and whoever watches."""

from pathlib import Path
from typing import Any

import dagster as dg

from resources.deployments import Deployment
from resources.lake import Lake
from resources.progress import Progress
from resources.tracking import Tracker


class LakeResource(dg.ConfigurableResource):
    """Where all results lie."""

    root: str

    def open(self) -> Lake:
        return Lake(Path(self.root))


class TrackingResource(dg.ConfigurableResource):
    """The MLflow store that records runs, checkpoints and models; and the two pages, for links between them."""

    uri: str
    dagster_page: str
    mlflow_page: str

    def open(self) -> Tracker:
        tracker = Tracker(self.uri)
        tracker.initialise()
        return tracker


class TrainingResource(dg.ConfigurableResource):
    """The processes that train: how many, and how long they may take to stop (seconds)."""

    ranks: int
    grace_s: float


def resources_of(deployment: Deployment, progress: Progress) -> dict[str, Any]:
    """Everything the assets ask for, for one deployment."""
    return {
        "lake": LakeResource(root=str(deployment.lake)),
        "tracking": TrackingResource(
            uri=deployment.mlflow_uri, dagster_page=deployment.dagster_page, mlflow_page=deployment.mlflow_page
        ),
        "training": TrainingResource(ranks=deployment.ranks, grace_s=deployment.grace_s),
        "progress": progress,
    }
