"""Where things lie on this machine, and the only reader of the environment.

    SLICEWISE_HOME      all that runs leave behind: lake, DAGSTER_HOME, mlflow.db (default: .slicewise beside the code)
    SLICEWISE_DATASETS  the folder of the contracts (default: datasets beside the code)
    SLICEWISE_RANKS     training processes (default: one per GPU; without one, 2 or the number of cores)
    SLICEWISE_PAGES     addresses of the Dagster and the MLflow page, for links between them, separated by a comma
    SLICEWISE_FETCH_GB  how much of remote files may lie on this disk at once, while they are read (default: 8)
    LANDING_<NAME>      what ${LANDING} means in datasets/<name>.yaml (default: LANDING/<name>, or ./landing/<name>);
                        an address such as s3://bucket/folder as well
    AWS_... GOOGLE_... AZURE_...  what the clients of object stores are told: keys, region, endpoint

`make run LANDING=...` writes these into `.env`, so that the UI and the sensors see the same.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path

from dotenv import dotenv_values, set_key

from resources.contract.errors import ConfigError

CODE = Path(__file__).resolve().parents[1]
ENV_FILE = CODE / ".env"
_LANES = 64
_GRACE_S = 10.0
_FETCH_GB = 8.0
_REMOTE = "://"
# of the many variables that begin like these, those that the clients know
_STORAGE = {
    "AWS_": (
        *(
            "ACCESS_KEY_ID",
            "SECRET_ACCESS_KEY",
            "SESSION_TOKEN",
            "REGION",
            "DEFAULT_REGION",
            "ENDPOINT_URL",
            "ENDPOINT",
        ),
        *("ROLE_ARN", "ROLE_SESSION_NAME", "WEB_IDENTITY_TOKEN_FILE", "CONTAINER_CREDENTIALS_RELATIVE_URI"),
        *("CONTAINER_CREDENTIALS_FULL_URI", "CONTAINER_AUTHORIZATION_TOKEN_FILE", "SKIP_SIGNATURE", "REQUEST_PAYER"),
        "VIRTUAL_HOSTED_STYLE_REQUEST",
    ),
    "GOOGLE_": ("SERVICE_ACCOUNT", "SERVICE_ACCOUNT_KEY", "APPLICATION_CREDENTIALS", "SKIP_SIGNATURE"),
    "AZURE_": (
        *("STORAGE_ACCOUNT_NAME", "STORAGE_ACCOUNT_KEY", "STORAGE_SAS_KEY", "STORAGE_CLIENT_ID", "STORAGE_ENDPOINT"),
        *("STORAGE_CLIENT_SECRET", "STORAGE_TENANT_ID", "TENANT_ID", "CLIENT_ID", "FEDERATED_TOKEN_FILE"),
        "SKIP_SIGNATURE",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """One place to run: folders, addresses and the number of training processes."""

    home: Path
    datasets: Path
    landing: Path
    landings: Mapping[str, Path]
    ranks: int
    addresses: Mapping[str, str] = field(default_factory=dict)  # of landings that lie elsewhere; "": of all others
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)  # holds secrets: never logged
    fetch_bytes: int = round(_FETCH_GB * 1e9)
    dagster_page: str = "http://127.0.0.1:3000"
    mlflow_page: str = "http://127.0.0.1:5000"
    grace_s: float = _GRACE_S

    @property
    def lake(self) -> Path:
        return self.home / "lake"

    @property
    def dagster_home(self) -> Path:
        return self.home / "dagster"

    @property
    def mlflow_uri(self) -> str:
        """Absolute: a relative address would mean one database per working directory."""
        return f"sqlite:///{self.home / 'mlflow.db'}"

    def landing_of(self, dataset: str) -> Path:
        """Where files of a dataset land."""
        return self.landings.get(dataset, self.landing / dataset)

    def variables(self, dataset: str) -> dict[str, str]:
        """What `${...}` stands for in a dataset's YAML."""
        address = self.addresses.get(dataset)
        if address is None and dataset not in self.landings and "" in self.addresses:
            address = f"{self.addresses['']}/{dataset}"
        return {"LANDING": address or str(self.landing_of(dataset))}

    def fetched(self, dataset: str) -> Path:
        """Where remote files of a dataset lie while they are read."""
        return self.home / "fetched" / dataset

    @classmethod
    def from_env(cls, environment: Mapping[str, str] | None = None) -> Deployment:
        """The deployment that `.env` and the environment describe; the environment wins."""
        if environment is None:
            environment = {**{k: v for k, v in dotenv_values(ENV_FILE).items() if v is not None}, **os.environ}
        prefix = "LANDING_"
        landings = {k.removeprefix(prefix).lower(): v for k, v in environment.items() if k.startswith(prefix)}
        landing = environment.get("LANDING", "landing")
        remote = {name: v.rstrip("/") for name, v in {**landings, "": landing}.items() if _REMOTE in v}
        known = {f"{prefix}{name}" for prefix, names in _STORAGE.items() for name in names}
        dagster_page, _, mlflow_page = environment.get("SLICEWISE_PAGES", "").partition(",")
        return cls(
            home=_absolute(environment.get("SLICEWISE_HOME", ".slicewise")),
            datasets=_absolute(environment.get("SLICEWISE_DATASETS", "datasets")),
            landing=_absolute("landing" if "" in remote else landing),
            landings={name: _absolute(v) for name, v in landings.items() if name not in remote},
            addresses=remote,
            storage={name: value for name, value in environment.items() if name in known and value},
            fetch_bytes=_fetch_bytes(environment.get("SLICEWISE_FETCH_GB")),
            ranks=_ranks(environment.get("SLICEWISE_RANKS")),
            dagster_page=dagster_page or cls.dagster_page,
            mlflow_page=mlflow_page or cls.mlflow_page,
        )

    def prepare(self, environment: MutableMapping[str, str] = os.environ) -> None:
        """Folders and the Dagster instance's settings exist, and child processes see the same deployment, silently."""
        self.dagster_home.mkdir(parents=True, exist_ok=True)
        self.lake.mkdir(parents=True, exist_ok=True)
        settings = self.dagster_home / "dagster.yaml"
        shipped = CODE / "resources" / "dagster.yaml"
        if not settings.exists() or settings.read_bytes() != shipped.read_bytes():
            shutil.copyfile(shipped, settings)
        environment["DAGSTER_HOME"] = str(self.dagster_home)
        environment["SLICEWISE_HOME"] = str(self.home)
        silence(environment)


def silence(environment: MutableMapping[str, str] = os.environ) -> None:
    """Nothing that this process or its children use phones home or prints what nobody asked for."""
    for name in ("MLFLOW_DISABLE_TELEMETRY", "DAGSTER_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        environment[name] = "true"
    environment["MLFLOW_LOGGING_LEVEL"] = "WARNING"
    environment["MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"] = "false"
    environment["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"  # its workers would take 2 GB
    environment["RAY_USAGE_STATS_ENABLED"] = "0"


def remember_landing(dataset: str, folder: Path) -> None:
    """`.env` names the landing folder of a dataset, for every later process."""
    set_key(ENV_FILE, f"LANDING_{dataset.upper()}", str(folder.resolve()))


def _absolute(text: str) -> Path:
    path = Path(text).expanduser()
    return path if path.is_absolute() else CODE / path


def _fetch_bytes(text: str | None) -> int:
    try:
        gigabytes = float(text) if text else _FETCH_GB
    except ValueError:
        gigabytes = 0.0
    if not 0 < gigabytes < float("inf"):
        raise ConfigError(
            f"SLICEWISE_FETCH_GB must be a number of gigabytes above 0, got {text!r}. Say 8, or leave it out."
        )
    return round(gigabytes * 1e9)


def _ranks(text: str | None) -> int:
    devices = len([p for p in Path("/dev").glob("nvidia[0-9]*")]) or min(2, os.cpu_count() or 1)
    if text is not None and not text.isdigit():
        raise ConfigError(
            f"SLICEWISE_RANKS must be a whole number of training processes, got {text!r}. Say 2, or leave it out."
        )
    ranks = int(text) if text else max(n for n in range(1, devices + 1) if _LANES % n == 0)
    if ranks < 1 or _LANES % ranks:
        raise ConfigError(f"SLICEWISE_RANKS must divide the {_LANES} lanes of a batch, got {ranks}: say 1, 2, 4 or 8.")
    return ranks
