"""MLflow keeps what we tell it, in one place, and never says more than is true."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient

from resources.contract.errors import ConfigError
from resources.tracking import Metric, Package, Tracker, checked_name, status_of

ROOT = Path(__file__).resolve().parents[2]
DAY = date(2026, 1, 10)


@pytest.fixture(scope="session")
def fresh_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fresh") / "mlflow.db"
    Tracker(f"sqlite:///{path}").initialise()
    return path


@pytest.fixture
def uri(fresh_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    shutil.copy(fresh_store, tmp_path / "mlflow.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


@pytest.fixture
def tracker(uri: str) -> Tracker:
    return Tracker(uri)


@pytest.fixture
def client(uri: str) -> MlflowClient:
    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def started(tracker: Tracker, **changed: object) -> str:
    wanted = {
        "dataset": "demo",
        "name": "demo 2026-01-10",
        "tags": {"owner": "me"},
        "params": {"lr": 0.1},
        "inputs": [],
    }
    return tracker.start(**{**wanted, **changed})  # pyright: ignore[reportArgumentType]


def points(*values: float, key: str = "loss", first: int = 0) -> list[Metric]:
    return [Metric(key=key, value=v, step=first + i, time_ms=1_000 + first + i) for i, v in enumerate(values)]


@pytest.mark.parametrize(
    "uri",
    ["./mlruns", "mlruns", "file:./mlruns", "file:///tmp/mlruns", "sqlite:///mlflow.db", "sqlite://", "", "http://"],
)
def test_a_store_that_depends_on_the_working_directory_or_on_files_is_refused(uri: str) -> None:  # cases E3, E4
    with pytest.raises(ConfigError, match=r"must be sqlite:////absolute"):
        Tracker(uri)


def run_python(code: str, *arguments: str, cwd: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MLFLOW_DISABLE_TELEMETRY": "true"}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], cwd=cwd, env=environment, text=True, stdout=subprocess.PIPE
    )


# a forked child has mlflow imported already: ten processes would otherwise cost half a minute
FORK = multiprocessing.get_context("fork")


def start_a_run(uri: str, folder: Path, together: Barrier) -> None:
    os.chdir(folder)
    together.wait(60)
    tracker = Tracker(uri)
    tracker.initialise()
    started(tracker)


def test_processes_in_different_folders_that_meet_a_fresh_store_at_once_share_it(tmp_path: Path) -> None:  # case E4
    uri = f"sqlite:///{tmp_path / 'store' / 'mlflow.db'}"
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    together = FORK.Barrier(3)
    processes = [FORK.Process(target=start_a_run, args=(uri, folder, together)) for folder in folders]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("demo")
    assert experiment is not None
    assert len(client.search_runs([experiment.experiment_id])) == 3
    assert [list(folder.iterdir()) for folder in folders] == [[], [], []]
    assert experiment.artifact_location == (tmp_path / "store" / "mlflow-artifacts" / "demo").as_uri()


def test_a_store_whose_making_was_killed_is_made_anew(tmp_path: Path, fresh_store: Path) -> None:
    half = tmp_path / ".mlflow.db.new"
    with sqlite3.connect(half) as half_made:
        half_made.execute("create table experiments (nonsense text)")
    tracker = Tracker(f"sqlite:///{tmp_path / 'mlflow.db'}")
    started(tracker)
    assert not half.exists()


def end(uri: str, run_id: str, how: str, inside: Event) -> None:
    """What a training process would do: its handler turns SIGTERM into an exception, as Python does with SIGINT."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with Tracker(uri).ending(run_id):
        inside.set()
        if how == "exception":
            raise OSError("disk full")
        if how.startswith("exit"):
            sys.exit(int(how[-1]))
        if how.startswith("SIG"):
            time.sleep(60)


ENDINGS = {
    "exception": ("FAILED", "OSError: disk full"),
    "exit 1": ("FAILED", "SystemExit: 1"),
    "exit 0": ("FINISHED", "SystemExit: 0"),
    "the end": ("FINISHED", "it came to its end"),
    "SIGINT": ("KILLED", "KeyboardInterrupt"),
    "SIGTERM": ("KILLED", "KeyboardInterrupt"),
    "SIGKILL": ("KILLED", "its owner SIGKILL was gone while it said RUNNING"),
}


def test_the_final_status_is_true_however_the_process_ends(tracker: Tracker, client: MlflowClient) -> None:  # case E2
    runs = {name: started(tracker, tags={"owner": name}) for name in ENDINGS}
    stranger = started(tracker, tags={})
    for name in ENDINGS:
        inside = FORK.Event()
        process = FORK.Process(target=end, args=(tracker.uri, runs[name], name, inside))
        process.start()
        assert inside.wait(60)
        if name.startswith("SIG"):
            assert process.pid is not None
            os.kill(process.pid, signal.Signals[name])
        process.join(60)
    assert client.get_run(runs["SIGKILL"]).info.status == "RUNNING"
    assert tracker.reconcile(dataset="demo", alive=lambda owner: owner != "SIGKILL") == [runs["SIGKILL"]]
    found = [client.get_run(run_id) for run_id in runs.values()]
    assert [(run.info.status, run.data.tags.get("ended_by")) for run in found] == list(ENDINGS.values())
    assert client.get_run(stranger).info.status == "RUNNING"  # a run without an owner is not ours to end
    assert tracker.reconcile(dataset="demo", alive=lambda _: False) == []


def test_an_interruption_kills_and_an_error_or_a_failed_exit_fails() -> None:
    class Interrupted(BaseException):
        """As Dagster's."""

    ends = {
        "FINISHED": [None, SystemExit(), SystemExit(0)],
        "FAILED": [SystemExit(1), SystemExit("no"), OSError()],
        "KILLED": [KeyboardInterrupt(), Interrupted()],
    }
    assert {status: [status_of(error) for error in errors] for status, errors in ends.items()} == {
        status: [status] * len(errors) for status, errors in ends.items()
    }


def test_numbers_that_are_not_finite_are_counted_instead_of_logged(
    tracker: Tracker, client: MlflowClient
) -> None:  # case E5
    run_id = started(tracker)
    tracker.log(run_id, points(0.5, float("inf"), float("-inf"), float("nan"), 0.25))
    history = client.get_metric_history(run_id, "loss")
    assert [(metric.step, metric.value) for metric in history] == [(0, 0.5), (4, 0.25)]
    assert client.get_run(run_id).data.tags["nonfinite_metrics"] == "3"
    later = Tracker(tracker.uri)
    later.log(run_id, points(float("nan"), first=9))
    assert client.get_run(run_id).data.tags["nonfinite_metrics"] == "4"


@pytest.mark.parametrize("name", ["auc@2025-03-01", "auc=1", "a//b", "x[1]", "loss(ema)", "", "/a", "../a", ".", "a\n"])
def test_a_name_that_mlflow_refuses_is_refused_before_anything_is_logged(  # case E12
    name: str, tracker: Tracker, client: MlflowClient
) -> None:
    with pytest.raises(ValueError, match="a metric's name"):
        checked_name(name)
    run_id = started(tracker)
    with pytest.raises(ValueError, match="a metric's name"):
        tracker.log(run_id, [*points(0.5), Metric(key=name, value=1.0, step=0, time_ms=0)])
    assert client.get_run(run_id).data.metrics == {}


@pytest.mark.parametrize("name", ["auc/2025-03-01", "eval/logistic_regression/auc", "time: wait.s", "a_b-c"])
def test_a_name_that_we_accept_mlflow_accepts(name: str, tracker: Tracker, client: MlflowClient) -> None:  # case E12
    run_id = started(tracker)
    tracker.log(run_id, points(0.5, key=checked_name(name)))
    assert client.get_run(run_id).data.metrics == {name: 0.5}


def test_two_thousand_points_all_arrive(tracker: Tracker, client: MlflowClient) -> None:
    run_id = started(tracker)
    tracker.log(run_id, points(*(float(i) for i in range(2_001))))
    assert sorted(m.value for m in client.get_metric_history(run_id, "loss")) == [float(i) for i in range(2_001)]


def test_a_resumed_run_repeats_neither_its_steps_nor_its_params(
    tracker: Tracker, client: MlflowClient
) -> None:  # case E9
    run_id = started(tracker)
    tracker.log(run_id, points(1.0, 0.9, 0.8))
    tracker.finish(run_id, "KILLED")
    again = Tracker(tracker.uri)
    assert again.reopen(run_id)
    assert client.get_run(run_id).info.status == "RUNNING"
    again.set_tags(run_id, {"resumed_lr": "0.2"})
    repeated = [replace(point, time_ms=point.time_ms + 60_000) for point in points(0.8, 0.7, 0.6, first=2)]
    again.log(run_id, repeated)
    run = client.get_run(run_id)
    assert [(m.step, m.value) for m in client.get_metric_history(run_id, "loss")] == [
        (0, 1.0),
        (1, 0.9),
        (2, 0.8),
        (3, 0.7),
        (4, 0.6),
    ]
    assert run.data.params == {"lr": "0.1"}
    assert run.data.tags["resumed_lr"] == "0.2"


def test_a_run_that_is_not_there_or_was_deleted_cannot_be_reopened(tracker: Tracker, client: MlflowClient) -> None:
    run_id = started(tracker)
    client.delete_run(run_id)
    assert not tracker.reopen(run_id)
    assert not tracker.reopen("0" * 32)


def test_what_a_run_reads_stands_in_it(tracker: Tracker, client: MlflowClient) -> None:
    inputs = [(f"features 2026-01-{day:02d}", f"{day:032x}", f"/lake/{day}") for day in range(1, 29)]
    run_id = started(tracker, inputs=inputs, params={f"p{i}": i for i in range(150)})
    other = started(tracker, inputs=[*inputs[1:], ("features 2026-01-01", "f" * 32, "/lake/1")])
    same = started(tracker, inputs=inputs[::-1])
    run = client.get_run(run_id)
    assert len(run.data.params) == 150
    assert run.inputs is not None
    read = {(i.dataset.name, i.dataset.digest, i.dataset.source) for i in run.inputs.dataset_inputs}
    assert read == {(name, digest, f'{{"uri": "{path}"}}') for name, digest, path in inputs}
    tags = [client.get_run(r).data.tags["inputs"] for r in (run_id, same, other)]
    assert tags[0] == tags[1] != tags[2]


def test_a_text_that_mlflow_would_cut_silently_is_cut_visibly(tracker: Tracker, client: MlflowClient) -> None:
    run_id = started(tracker, params={"long": "p" * 7_000}, tags={"long": "t" * 9_000})
    run = client.get_run(run_id)
    assert run.data.params["long"].endswith("... (7,000 characters)")
    assert run.data.tags["long"].endswith("... (9,000 characters)")


def test_a_checkpoint_is_listed_once_with_its_step_metrics_address_and_checksum(
    tracker: Tracker, client: MlflowClient
) -> None:
    run_id = started(tracker)
    for checksum in ("aa", "bb"):  # the same step again after a resume
        tracker.log_checkpoint(
            run_id, name="step-100", step=100, metrics={"loss": 0.5}, address="s3://b/step-100", checksum=checksum
        )
    experiment = client.get_run(run_id).info.experiment_id
    [model] = client.search_logged_models([experiment], filter_string="metrics.loss = 0.5")
    assert (model.name, model.model_type, str(model.status), model.source_run_id) == (
        "step-100",
        "checkpoint",
        "READY",
        run_id,
    )
    assert {k: model.tags[k] for k in ("address", "checksum", "step", "mlflow.model.isExternal")} == {
        "address": "s3://b/step-100",
        "checksum": "bb",
        "step": "100",
        "mlflow.model.isExternal": "true",
    }
    outputs = client.get_run(run_id).outputs
    assert outputs is not None
    assert [(output.model_id, output.step) for output in outputs.model_outputs] == [(model.model_id, 100)]


SERVED = """
import mlflow
import pandas
import planted

class Doubled(mlflow.pyfunc.PythonModel):
    def load_context(self, context):
        with open(context.artifacts["model"]) as stream:
            self.factor = float(stream.read())

    def predict(self, context, model_input: pandas.DataFrame, params=None):
        return planted.times(model_input["price"].to_numpy(), self.factor)

mlflow.models.set_model(Doubled())
"""


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Package]:
    code = tmp_path / "code" / "planted"
    code.mkdir(parents=True)
    (code / "__init__.py").write_text("def times(values, factor):\n    return values * factor\n")
    (tmp_path / "served.py").write_text(SERVED)
    (tmp_path / "model.pt").write_text("2.0")
    sys.path.insert(0, str(code.parent))
    example = pd.DataFrame({"price": [1.0, float("nan")]})
    yield Package(
        model_file=tmp_path / "model.pt",
        python_model=tmp_path / "served.py",
        code=(code,),
        requirements=("mlflow", "numpy"),
        example=example,
        predictions=np.array([2.0, np.nan]),
    )
    sys.path.remove(str(code.parent))


LOADS = """
import sys, mlflow, pandas
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model("models:/demo@champion")
print(model.predict(pandas.DataFrame({"price": [4.0]})), model.metadata.signature.inputs.input_names())
"""


def test_a_model_is_registered_once_and_loads_in_another_process_elsewhere(
    tracker: Tracker, client: MlflowClient, package: Package, tmp_path: Path
) -> None:
    run_id = started(tracker)
    version = tracker.register(run_id, dataset="demo", day=DAY, package=package)
    assert Tracker(tracker.uri).register(run_id, dataset="demo", day=DAY, package=package) == version == 1
    assert tracker.version_of(run_id, dataset="demo") == 1
    assert tracker.version_of("0" * 32, dataset="demo") is None
    assert tracker.set_alias(dataset="demo", alias="champion", version=version, day=DAY)
    experiment = client.get_run(run_id).info.experiment_id
    [model] = client.search_logged_models([experiment])
    assert model.tags["mlflow.modelVersions"] == '[{"name": "demo", "version": 1}]'
    assert client.get_model_version("demo", "1").run_id == run_id
    assert list(Path.cwd().iterdir()) == []
    shutil.rmtree(tmp_path / "code")
    elsewhere = tmp_path / "server"
    elsewhere.mkdir()
    process = run_python(LOADS, tracker.uri, cwd=elsewhere)
    output, _ = process.communicate(timeout=60)
    assert output == "[8.] ['price']\n"


def test_another_file_of_the_same_run_is_another_version_and_a_killed_logging_leaves_nothing(
    tracker: Tracker, client: MlflowClient, package: Package
) -> None:
    run_id = started(tracker)
    experiment = client.get_run(run_id).info.experiment_id
    client.create_logged_model(experiment, name="model", source_run_id=run_id)  # as a kill would leave it
    assert tracker.register(run_id, dataset="demo", day=DAY, package=package) == 1
    assert [str(model.status) for model in client.search_logged_models([experiment])] == ["READY"]
    package.model_file.write_text("3.0")
    assert tracker.register(run_id, dataset="demo", day=DAY, package=package) == 2


def test_an_alias_moves_only_forwards_in_time(tracker: Tracker, client: MlflowClient) -> None:
    client.create_registered_model("demo")
    days = {1: date(2026, 1, 10), 2: date(2026, 1, 9), 3: date(2026, 1, 11), 4: date(2026, 1, 11)}
    for version, day in days.items():
        client.create_model_version("demo", source="s3://m", tags={"judged_day": day.isoformat()})
        assert client.get_model_version("demo", str(version)).version == version
    moved = [tracker.set_alias(dataset="demo", alias="champion", version=v, day=days[v]) for v in (1, 1, 2, 3, 4, 1)]
    assert moved == [True, False, False, True, True, False]
    assert client.get_model_version_by_alias("demo", "champion").version == 4
    assert tracker.set_alias(dataset="demo", alias="challenger", version=2, day=days[2])
    assert not tracker.set_alias(dataset="demo", alias="champion", version=None, day=date(2026, 1, 10))
    assert tracker.set_alias(dataset="demo", alias="champion", version=None, day=date(2026, 1, 11))
    assert client.get_registered_model("demo").aliases == {"challenger": 2}


def test_an_alias_that_somebody_set_by_hand_may_be_moved_but_is_not_removed(
    tracker: Tracker, client: MlflowClient
) -> None:
    client.create_registered_model("demo")
    client.create_model_version("demo", source="s3://m", tags={"judged_day": DAY.isoformat()})
    client.create_model_version("demo", source="s3://own")
    client.set_registered_model_alias("demo", "champion", "2")
    assert not tracker.set_alias(dataset="demo", alias="champion", version=None, day=DAY)
    assert client.get_model_version_by_alias("demo", "champion").version == 2
    assert tracker.set_alias(dataset="demo", alias="champion", version=1, day=DAY)


def test_a_version_carries_the_tags_it_is_given(tracker: Tracker, client: MlflowClient) -> None:
    client.create_registered_model("demo")
    client.create_model_version("demo", source="s3://m")
    tracker.tag_version(dataset="demo", version=1, tags={"verdict": "keep"})
    assert client.get_model_version("demo", "1").tags == {"verdict": "keep"}


def test_mlflow_is_not_imported_before_it_is_needed(tmp_path: Path) -> None:
    code = (
        "import sys; from resources.tracking import Tracker; Tracker('sqlite:////a.db'); print('mlflow' in sys.modules)"
    )
    assert run_python(code, cwd=tmp_path).communicate(timeout=60)[0] == "False\n"
    assert mlflow.__version__
