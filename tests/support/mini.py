"""A small shop for whole-pipeline tests: the demo's contract and generator at another scale, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from resources.contract.manifest import Ledger
from resources.demo.generate import FIRST_DAY, write_day, write_days
from resources.deployments import Deployment
from resources.lake import Lake

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Mini:
    """A dataset `shop` with its own landing, contract and home below `folder`."""

    folder: Path
    days: tuple[date, ...]
    scale: float
    name: str = "shop"

    @classmethod
    def write(cls, folder: Path, *, days: int, scale: float, window_days: int, epochs: int = 1) -> Mini:
        """Its days have landed; nothing is built."""
        mini = cls(folder=folder, days=tuple(FIRST_DAY + timedelta(days=n) for n in range(days)), scale=scale)
        yaml = YAML()
        contract = yaml.load((ROOT / "datasets" / "demo.yaml").read_text(encoding="utf-8"))
        contract["name"] = mini.name
        contract["train"] = {"window_days": window_days, "epochs": epochs, "batch_rows": 64}
        contract["days"].pop("last", None)
        contract["cut"] = {"buckets": 4}
        contract["source"]["settle_seconds"] = 0
        (folder / "datasets").mkdir()
        with (folder / "datasets" / "shop.yaml").open("w", encoding="utf-8") as stream:
            yaml.dump(contract, stream)
        write_days(mini.landing, days=mini.days, scale=scale)
        return mini

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def landing(self) -> Path:
        return self.folder / "landing"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "SLICEWISE_HOME": str(self.home),
            "SLICEWISE_DATASETS": str(self.folder / "datasets"),
            "LANDING_SHOP": str(self.landing),
            "SLICEWISE_RANKS": "2",
        }

    @property
    def day_names(self) -> list[str]:
        return [day.isoformat() for day in self.days]

    @property
    def next_day(self) -> date:
        return self.days[-1] + timedelta(days=1)

    def ledger(self) -> Ledger:
        """What is published by now."""
        return Lake(Deployment.from_env(self.environment).lake).ledger(self.name)

    def command(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """`slicewise ARGUMENTS` in a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "slicewise", *arguments],
            cwd=ROOT,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
            **options,
        )

    def land_another_day(self) -> None:
        """The day after the last one lands."""
        write_day(self.landing, self.next_day, scale=self.scale)

    def rewrite_last_day(self) -> None:
        """The last day's file lands again with other rows."""
        (path,) = self.landing.glob(f"{self.days[-1]}.csv.gz")
        path.unlink()
        write_day(self.landing, self.days[-1], seed=1, scale=self.scale)

    @staticmethod
    def is_judgement(run: dict[str, Any]) -> bool:
        """Whether a run of the page's list is one of the judgement job."""
        return run["pipelineName"] == "shop_judgement"
