"""MLflow, as far as we need it: runs with a true status, metrics, checkpoints, registered models and their aliases.

Everything goes through `MlflowClient` with an explicit address, never through MLflow's global state: that state is per
working directory, and whoever forgets to set it writes a second database beside the first. `mlflow` is imported
inside methods (2 s of CPU): a process that has nothing to log never pays for it.
"""

from __future__ import annotations

import json
import logging
import math
import posixpath
import re
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from resources.contract.digest import combined
from resources.contract.errors import ConfigError
from resources.lake import locked, sha256_of

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

log = logging.getLogger(__name__)

Status = Literal["FINISHED", "FAILED", "KILLED"]
Alias = Literal["champion", "challenger"]

OWNER = "owner"
JUDGED_DAY = "judged_day"
NONFINITE = "nonfinite_metrics"

_NAME = re.compile(r"[\w./:\- ]{1,250}")
_METRICS_PER_BATCH, _ENTRIES_PER_BATCH = 1000, 100
# what MLflow's page goes by: without the first it shows its tools for language models
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
_RUN_TAGS = {"mlflow.source.name": "slicewise", "mlflow.source.type": "JOB"}
NOTE = "mlflow.note.content"  # the run's description on the page, Markdown
_PARAM_CHARS, _TAG_CHARS = 6000, 8000  # MLflow cuts longer ones silently
_MODEL = "model"


@dataclass(frozen=True, kw_only=True)
class Metric:
    key: str
    value: float
    step: int
    time_ms: int


@dataclass(frozen=True, kw_only=True)
class Package:
    """A model as MLflow keeps and serves it.

    `python_model` is a file of MLflow's models-from-code, which finds `model_file` as its artifact "model"; `code`
    are the packages that it imports. So nothing is pickled, and it loads wherever it is asked for. `example`, a
    DataFrame of a few rows, and their `predictions` give the signature.
    """

    model_file: Path
    python_model: Path
    code: tuple[Path, ...]
    requirements: tuple[str, ...]
    example: Any
    predictions: Any


def checked_name(name: str) -> str:
    """`name`, if MLflow takes it for a metric. Raises ValueError: better before a training than at its end."""
    if not _NAME.fullmatch(name) or posixpath.normpath(name) != name or name.startswith(("/", "..")) or name == ".":
        raise ValueError(
            f"a metric's name holds letters, digits, spaces and '_ - . / :' and reads as a plain relative path, got "
            f"{name!r}: MLflow refuses it, at the latest when it is logged. Write auc/2025-03-01, not auc@2025-03-01."
        )
    return name


def status_of(error: BaseException | None) -> Status:
    """How a run ended that was left by `error`: an error or a failed exit fails it, an interruption kills it.

    Interruptions are what no `except Exception` catches: Ctrl-C, Dagster's, what a handler of SIGTERM raises.
    """
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return "FINISHED"
    return "FAILED" if isinstance(error, Exception | SystemExit) else "KILLED"


def _shortened(value: object, limit: int) -> str:
    text = str(value)
    return text if len(text) <= limit else f"{text[: limit - 40]}... ({len(text):,} characters)"


def _chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


class Tracker:
    """One MLflow store. An experiment per dataset, a run per training, a registered model per dataset."""

    def __init__(self, uri: str) -> None:
        parts = urlsplit(uri)
        self._file = Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:////") else None
        if self._file is None and not (parts.scheme in ("http", "https") and parts.netloc):
            raise ConfigError(
                f"the MLflow address must be sqlite:////absolute/path.db or http(s)://host, got {uri!r}: file stores are "
                "refused by MLflow, and a relative path makes one database per working directory. Name an absolute one."
            )
        self.uri = uri
        self._experiments: dict[str, str] = {}
        self._nonfinite: dict[str, int] = {}
        self._reached: dict[str, dict[str, int]] = {}  # run -> metric -> last step that it had when it was reopened

    def initialise(self) -> None:
        """The store exists in the installed version's schema. A server minds its own; a file is made or upgraded here.

        Under a lock, since two processes that migrate a fresh file at once break it for good; and beside, then
        renamed, since a migration that was killed half-way does not start again.
        """
        if self._file is None:
            return
        from mlflow.store.db import utils as db

        with locked(self._file.with_name(f".{self._file.name}.init.lock")):
            beside = self._file.with_name(f".{self._file.name}.new")
            path = self._file if self._file.exists() else beside
            beside.unlink(missing_ok=True)
            engine = db.create_sqlalchemy_engine_with_retry(f"sqlite:///{path}")
            try:
                if db._get_schema_version(engine) != db._get_latest_schema_revision():
                    db._initialize_tables(engine)  # also takes an older schema to the newest
            finally:
                engine.dispose()
            if path == beside:
                beside.rename(self._file)

    def _exclusive(self) -> AbstractContextManager[None]:
        """Alone among this machine's processes, where the store is a file."""
        return locked(self._file.with_name(f".{self._file.name}.lock")) if self._file else nullcontext()

    @cached_property
    def _client(self) -> MlflowClient:
        from mlflow import MlflowClient

        self.initialise()
        return MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)

    def _experiment(self, dataset: str) -> str:
        if dataset not in self._experiments:
            with self._exclusive():
                found = self._client.get_experiment_by_name(dataset)
                root = None if self._file is None else (self._file.parent / "mlflow-artifacts" / dataset).as_uri()
                self._experiments[dataset] = (
                    found.experiment_id
                    if found
                    else self._client.create_experiment(dataset, artifact_location=root, tags=_EXPERIMENT_TAGS)
                )
        return self._experiments[dataset]

    def start(
        self,
        *,
        dataset: str,
        name: str,
        tags: Mapping[str, str],
        params: Mapping[str, object],
        inputs: Sequence[tuple[str, str, str]],
    ) -> str:
        """The id of a new run of the dataset's experiment, RUNNING.

        Args:
            params: logged here and never again: what differs when a run is resumed belongs into tags.
            inputs: (name, digest, path) of everything the run reads; also one tag that says whether two runs read the same.
        """
        from mlflow.entities import Dataset, DatasetInput, InputTag, Param

        experiment = self._experiment(dataset)
        read = combined((name, digest) for name, digest, _ in inputs)
        texts = {key: _shortened(value, _TAG_CHARS) for key, value in {**_RUN_TAGS, **tags, "inputs": read}.items()}
        run_id = self._client.create_run(experiment, tags=texts, run_name=name).info.run_id
        logged = [Param(key, _shortened(value, _PARAM_CHARS)) for key, value in params.items()]
        for chunk in _chunks(logged, _ENTRIES_PER_BATCH):
            self._client.log_batch(run_id, params=chunk)
        context = [InputTag("mlflow.data.context", "training")]
        datasets = [
            DatasetInput(Dataset(name, digest, "local", json.dumps({"uri": path})), context)
            for name, digest, path in inputs
        ]
        for chunk in _chunks(datasets, _METRICS_PER_BATCH):
            self._client.log_inputs(run_id, chunk)
        self._nonfinite[run_id] = 0
        return run_id

    def page_of(self, run_id: str) -> str | None:
        """Where the run stands on MLflow's page, to be put behind its address; None if it is gone."""
        run = self._run(run_id)
        return f"/#/experiments/{run.info.experiment_id}/runs/{run_id}" if run else None

    def _run(self, run_id: str) -> Run | None:
        from mlflow.exceptions import MlflowException

        try:
            run = self._client.get_run(run_id)
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise
        return run if run.info.lifecycle_stage == "active" else None

    def knows(self, run_id: str) -> bool:
        """Whether the run is there: somebody may have deleted it, or the whole store."""
        return self._run(run_id) is not None

    def reopen(self, run_id: str) -> bool:
        """Whether there is such a run; it is RUNNING again, and steps that it has logged already are not logged twice."""
        run = self._run(run_id)
        if run is None:
            return False
        self._client.update_run(run_id, status="RUNNING")
        self._nonfinite[run_id] = int(run.data.tags.get(NONFINITE, 0))
        self._reached[run_id] = {metric.key: metric.step for metric in run.data.to_proto().metrics}
        return True

    @contextmanager
    def ending(self, run_id: str) -> Iterator[None]:
        """Leaves the run with the status that the block's end deserves: see `status_of`. Errors pass through.

        A signal reaches it as the exception that its handler raises; a SIGKILL does not: see `reconcile`.
        """
        try:
            yield
        except BaseException as error:
            self.finish(run_id, status_of(error), reason=f"{type(error).__name__}: {error}".removesuffix(": "))
            raise
        self.finish(run_id, "FINISHED", reason="it came to its end")

    def log(self, run_id: str, metrics: Sequence[Metric]) -> None:
        """The metrics stand in the run. Those that are not finite do not: MLflow would store 1.8e308; a tag counts them."""
        from mlflow import entities

        reached = self._reached.get(run_id, {})
        fresh = [metric for metric in metrics if metric.step > reached.get(checked_name(metric.key), -1)]
        finite = [metric for metric in fresh if math.isfinite(metric.value)]
        for chunk in _chunks(finite, _METRICS_PER_BATCH):
            logged = [entities.Metric(m.key, m.value, m.time_ms, m.step) for m in chunk]
            self._client.log_batch(run_id, metrics=logged)
        if len(finite) < len(fresh):
            self._count_nonfinite(run_id, [metric for metric in fresh if not math.isfinite(metric.value)])

    def _count_nonfinite(self, run_id: str, metrics: Sequence[Metric]) -> None:
        if run_id not in self._nonfinite:
            self._nonfinite[run_id] = int(self._client.get_run(run_id).data.tags.get(NONFINITE, 0))
        self._nonfinite[run_id] += len(metrics)
        self._client.set_tag(run_id, NONFINITE, str(self._nonfinite[run_id]))
        first = metrics[0]
        log.warning(f"run {run_id}: {first.key} was {first.value} at step {first.step}; {len(metrics)} such not logged")

    def set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        entries = [RunTag(key, _shortened(value, _TAG_CHARS)) for key, value in tags.items()]
        for chunk in _chunks(entries, _ENTRIES_PER_BATCH):
            self._client.log_batch(run_id, tags=chunk)

    def log_checkpoint(
        self, run_id: str, *, name: str, step: int, metrics: Mapping[str, float], address: str, checksum: str
    ) -> None:
        """A checkpoint of our own store is listed under the run as an external model; once, however often it is resumed."""
        from mlflow.entities import LoggedModelOutput, LoggedModelStatus, Metric

        where = {"address": address, "checksum": checksum, "step": str(step)}
        known = self._logged_models(run_id, name)
        if known:
            self._client.set_logged_model_tags(known[0].model_id, where)
            return
        model = self._client.create_logged_model(
            self._client.get_run(run_id).info.experiment_id,
            name=name,
            source_run_id=run_id,
            tags={**where, "mlflow.model.isExternal": "true"},
            model_type="checkpoint",
        )
        self._client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
        self._client.log_outputs(run_id, [LoggedModelOutput(model.model_id, step)])
        now_ms = int(time.time() * 1000)
        entries = [
            Metric(checked_name(key), value, now_ms, step, model_id=model.model_id, run_id=run_id)
            for key, value in metrics.items()
            if math.isfinite(value)
        ]
        self._client.log_batch(run_id, metrics=entries)

    def _logged_models(self, run_id: str, name: str) -> list[Any]:
        experiment = self._client.get_run(run_id).info.experiment_id
        return list(
            self._client.search_logged_models(
                [experiment], filter_string=f"name = '{name}' AND source_run_id = '{run_id}'"
            )
        )

    def register(self, run_id: str, *, dataset: str, day: date, package: Package) -> int:
        """The version under which the run's model is registered as `dataset`; the same again for the same file.

        `day` is the judged day: aliases move only forwards along it.
        """
        checksum = sha256_of(package.model_file)
        with self._exclusive():
            versions = self._client.search_model_versions(f"name = '{dataset}' and run_id = '{run_id}'")
            known = [int(version.version) for version in versions if version.tags.get("checksum") == checksum]
            if known:
                return min(known)
            model = self._log_model(run_id, checksum=checksum, package=package)
            self._create_registered_model(dataset)
            # a file store looks `models:/` up at MLflow's global address; a server takes nothing else
            source = model.artifact_location if self._file else f"models:/{model.model_id}"
            tags = {JUDGED_DAY: day.isoformat(), "checksum": checksum}
            made = self._client.create_model_version(
                dataset, source=source, run_id=run_id, model_id=model.model_id, tags=tags
            )
            linked = json.dumps([{"name": dataset, "version": made.version}])
            self._client.set_logged_model_tags(model.model_id, {"mlflow.modelVersions": linked})
        return int(made.version)

    def _log_model(self, run_id: str, *, checksum: str, package: Package) -> Any:
        from mlflow.entities import LoggedModelStatus
        from mlflow.models import Model, infer_signature
        from mlflow.pyfunc import save_model

        for model in self._logged_models(run_id, _MODEL):
            if model.status == LoggedModelStatus.READY and model.tags.get("checksum") == checksum:
                return model
            if model.status != LoggedModelStatus.READY:
                self._client.delete_logged_model(model.model_id)  # its writer was killed
        model = self._client.create_logged_model(
            self._client.get_run(run_id).info.experiment_id,
            name=_MODEL,
            source_run_id=run_id,
            tags={"checksum": checksum},
        )
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # hints for whoever writes a signature by hand
            save_model(
                f"{folder}/{_MODEL}",
                mlflow_model=Model(run_id=run_id, model_id=model.model_id, artifact_path=model.artifact_location),
                python_model=str(package.python_model),
                artifacts={"model": str(package.model_file)},
                code_paths=[str(path) for path in package.code],
                pip_requirements=list(package.requirements),
                input_example=package.example,
                signature=infer_signature(package.example, package.predictions),
            )
            self._client.log_model_artifacts(model.model_id, f"{folder}/{_MODEL}")
        return self._client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)

    def _create_registered_model(self, dataset: str) -> None:
        from mlflow.exceptions import MlflowException

        try:
            self._client.create_registered_model(dataset)
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise

    def tag_version(self, *, dataset: str, version: int, tags: Mapping[str, str]) -> None:
        for key, value in tags.items():
            self._client.set_model_version_tag(dataset, str(version), key, value)

    def version_of(self, run_id: str, *, dataset: str) -> int | None:
        """The newest version that a run was registered as."""
        versions = self._client.search_model_versions(f"name = '{dataset}' and run_id = '{run_id}'")
        return max((int(version.version) for version in versions), default=None)

    def set_alias(self, *, dataset: str, alias: Alias, version: int | None, day: date) -> bool:
        """Whether the alias moved to the version (None: to none) that a verdict on `day` named.

        Only forwards in time: it stays where a version has it that was judged on a later day.
        """
        with self._exclusive():
            holder = self._holder(dataset, alias)
            if holder is not None and int(holder.version) == version:
                return False
            held = date.fromisoformat(holder.tags[JUDGED_DAY]) if holder and JUDGED_DAY in holder.tags else None
            if held is not None and held > day:
                return False
            if version is not None:
                self._client.set_registered_model_alias(dataset, alias, str(version))
            elif held is not None:  # not one that somebody set by hand
                self._client.delete_registered_model_alias(dataset, alias)
            return version is not None or held is not None

    def _holder(self, dataset: str, alias: Alias) -> Any:
        version = self._client.get_registered_model(dataset).aliases.get(alias)
        return None if version is None else self._client.get_model_version(dataset, str(version))

    def finish(self, run_id: str, status: Status, *, reason: str | None = None) -> None:
        """The run has ended with `status`, and its tag `ended_by` says why."""
        if reason is not None:
            self.set_tags(run_id, {"ended_by": reason})
        self._client.set_terminated(run_id, status)

    def reconcile(self, *, dataset: str, alive: Callable[[str], bool]) -> list[str]:
        """The runs that said RUNNING though their owner (tag `owner`) is gone; now they say KILLED.

        Only a look from outside finds them: nobody can write down his own SIGKILL.
        """
        gone, token = [], None
        while True:
            page = self._client.search_runs(
                [self._experiment(dataset)], filter_string="attributes.status = 'RUNNING'", page_token=token
            )
            owned = [(run.info.run_id, run.data.tags.get(OWNER)) for run in page]
            gone += [(run_id, owner) for run_id, owner in owned if owner is not None and not alive(owner)]
            token = page.token
            if not token:
                break
        for run_id, owner in gone:
            self.finish(run_id, "KILLED", reason=f"its owner {owner} was gone while it said RUNNING")
        return [run_id for run_id, _ in gone]
