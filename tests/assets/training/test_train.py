"""Trainings as the asset starts them: two real ranks below a real torchrun. One undisturbed training serves most tests."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from dagster_pipes import encode_param
from trainable import FIRST, YAML, Notebook, always, packed, toy_rows, write_day, write_days

from assets.training import train, window
from assets.training.spec import KillAt, Spec
from assets.training.worker import loop
from assets.training.worker.group import Alone
from assets.training.worker.report import silent
from assets.training.worker.scoring import Scorer
from resources.contract.dataset import Dataset, parse_dataset
from resources.contract.errors import CorruptError, DataError, TransientError
from resources.contract.manifest import Plan
from resources.lake import Lake, Materialized

JUDGED = FIRST + timedelta(days=2)
ROWS = 3300
WILD_ROW = 17  # of rank 1
KILLED_AT = 70  # after the checkpoint at 50 of 104 steps


def build(dataset: Dataset, lake: Lake, book: Notebook, **changed: Any) -> Materialized:
    options = {"closed": always, "ranks": 2, "grace_s": 2.0, "timeout_s": 60.0} | changed
    return train.build(dataset, lake, JUDGED, tracker=book, **options)  # pyright: ignore[reportArgumentType]


def planned_for(lake: Lake, dataset: Dataset) -> Plan:
    return window.plan(dataset, lake.ledger(dataset.name), JUDGED, closed=always)


def left_of(lake: Lake) -> list[str]:
    commands = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    return [command for command in commands if str(lake.root) in command]


@dataclass
class Trained:
    lake: Lake
    book: Notebook
    made: Materialized
    progress: list[dict[str, Any]]
    messages: Path

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.made.manifest.facts

    @property
    def spec(self) -> Spec:
        folder = self.lake.day_folder("shop", "model", JUDGED) / self.made.manifest.attempt
        return Spec.load(folder / "spec.json")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A training of two ranks, told of Dagster's pipes."""
    folder = tmp_path_factory.mktemp("undisturbed")
    lake, book, dataset = Lake(folder / "lake"), Notebook(), parse_dataset(YAML, file="shop.yaml")
    write_days(lake, dataset, 2, rows=ROWS)
    messages, progress = folder / "messages", []
    messages.touch()
    (folder / "context").write_text(json.dumps({"asset_keys": ["shop/model"], "run_id": "r", "extras": {}}))
    pipes = {
        "DAGSTER_PIPES_CONTEXT": encode_param({"path": str(folder / "context")}),
        "DAGSTER_PIPES_MESSAGES": encode_param({"path": str(messages)}),
    }
    made = build(dataset, lake, book, env=pipes, on_progress=progress.append, owner="dagster run 1")
    return Trained(lake=lake, book=book, made=made, progress=progress, messages=messages)


def test_a_candidate_tells_what_it_was_made_of(undisturbed: Trained) -> None:
    manifest, facts = undisturbed.made.manifest, undisturbed.facts
    assert [(entry.name, entry.rows) for entry in manifest.files] == [("model.pt", 1)]
    assert facts["window"] == ["2026-01-01", "2026-01-02"]
    assert (facts["steps"], facts["ranks"], facts["rows"]) == (104, 2, 2 * ROWS)
    assert manifest.rows_in == 2 * ROWS
    assert {"wait", "copy", "compute", "communication", "checkpoint", "unexplained"} == set(facts["seconds_split"])
    assert [made["step"] for made in facts["checkpoints"]] == [100, 104]
    assert all(Path(made["path"]).exists() for made in facts["checkpoints"])
    assert left_of(undisturbed.lake) == []


def test_the_candidate_has_learned(undisturbed: Trained, shop: Dataset) -> None:
    manifest = undisturbed.made.manifest
    scorer = Scorer.load(undisturbed.lake.verified_path(manifest, manifest.files[0]))
    rows = toy_rows(date(2026, 2, 1), 2000)
    assert ((scorer.score(packed(shop, rows)) > 0.5) == (rows.labels == 1)).mean() > 0.8


def test_unchanged_inputs_mean_nothing_to_do(undisturbed: Trained, shop: Dataset) -> None:
    again = build(shop, undisturbed.lake, undisturbed.book)
    assert not again.built
    assert again.manifest == undisturbed.made.manifest
    assert len(undisturbed.book.runs) == 1


def test_mlflow_has_one_true_run_with_inputs_metrics_and_checkpoints(undisturbed: Trained) -> None:
    [(run_id, run)] = undisturbed.book.runs.items()
    assert undisturbed.facts["run_id"] == run_id
    assert (run.status, run.reason) == ("FINISHED", "it came to its end")
    assert run.tags["owner"] == "dagster run 1"
    assert run.tags["judged_day"] == "2026-01-03"
    assert run.params["batch_rows"] == 64
    assert run.params["rows"] == 2 * ROWS
    assert [name for name, _, _ in run.inputs] == [
        "features 2026-01-01", "labels 2026-01-01", "features 2026-01-02", "labels 2026-01-02",
    ]  # fmt: skip
    assert [digest for _, digest, _ in run.inputs] == [p.digest for p in undisturbed.made.manifest.parents]
    assert {m.key for m in run.metrics} >= {
        "train/loss",
        "train/rows_per_s",
        "time/wait_share",
        "time/unexplained_share",
    }
    last = {m.key: m.value for m in run.metrics if m.step == 104}
    assert sum(value for key, value in last.items() if key.startswith("time/")) == pytest.approx(1)
    kept = {f"step-{made['step']}": made["checksum"] for made in undisturbed.facts["checkpoints"]}
    assert {name: what["checksum"] for name, what in run.checkpoints.items()} == kept  # nothing that retention removed
    assert all(Path(what["address"]).exists() for what in run.checkpoints.values())
    losses = [m.step for m in run.metrics if m.key == "train/loss"]
    assert losses == [25, 50, 75, 100, 104]


def test_whoever_waits_sees_progress_to_the_last_step(undisturbed: Trained) -> None:
    last = undisturbed.progress[-1]
    assert (last["step"], last["steps"], last["day"]) == (104, 104, "2026-01-03")
    assert last["rows_per_s"] > 0


def test_dagster_hears_of_progress_through_pipes_from_one_rank(undisturbed: Trained) -> None:
    messages = [json.loads(line) for line in undisturbed.messages.read_text().splitlines()]
    assert [m["method"] for m in messages].count("opened") == 1
    told = [m["params"]["payload"] for m in messages if m["method"] == "report_custom_message"]
    assert set(told[-1]) == {"step", "steps", "loss", "rows_per_s"}
    assert told[-1]["step"] == 104
    assert any("trained 104 of 104 steps" in m["params"]["message"] for m in messages if m["method"] == "log")


def test_two_ranks_compute_what_one_process_does(undisturbed: Trained, tmp_path: Path) -> None:
    alone = replace(
        undisturbed.spec,
        checkpoint_folder=tmp_path / "checkpoints",
        model_file=tmp_path / "model.pt",
        result_file=tmp_path / "result.json",
    )
    loop.train(alone, Alone(), silent)
    manifest = undisturbed.made.manifest
    one = torch.load(alone.model_file, weights_only=True)
    two = torch.load(undisturbed.lake.path(manifest, manifest.files[0]), weights_only=True)
    assert torch.equal(one["trained"], two["trained"])
    torch.testing.assert_close(one["table"], two["table"], atol=1e-5, rtol=1e-5)
    for name, values in one["dense"].items():
        torch.testing.assert_close(values, two["dense"][name], atol=1e-5, rtol=1e-5)
    assert json.loads(alone.result_file.read_text())["loss"] == pytest.approx(undisturbed.facts["loss"], abs=1e-6)


def test_a_killed_rank_is_named_and_the_training_goes_on_to_the_same_bits(
    undisturbed: Trained, lake: Lake, shop: Dataset
) -> None:  # case D3
    book = Notebook()
    write_days(lake, shop, 2, rows=ROWS)
    with pytest.raises(TransientError, match=r"rank 1 of 2 was killed by SIGKILL"):
        build(shop, lake, book, kill_at=KillAt(rank=1, step=KILLED_AT))
    assert left_of(lake) == []
    [run] = book.runs.values()
    assert run.status == "FAILED"
    assert "SIGKILL" in str(run.reason)
    assert run.checkpoints == {}
    assert lake.read("shop", "model", JUDGED) is None

    progress: list[dict[str, Any]] = []
    made = build(shop, lake, book, on_progress=progress.append)
    assert made.built
    assert made.manifest.content_digest == undisturbed.made.manifest.content_digest
    assert made.manifest.facts["digest"] == undisturbed.facts["digest"]
    assert made.manifest.facts["loss"] == undisturbed.facts["loss"]
    [run] = book.runs.values()
    assert run.status == "FINISHED"
    assert run.tags["resumed_by"] == made.manifest.attempt
    home = train.checkpoint_folder(lake, shop, planned_for(lake, shop), ranks=2)
    log = home / "logs" / made.manifest.attempt / "rank0.log"
    assert "resumed after 50 of 104 steps" in log.read_text()


def place_of(lake: Lake, shop: Dataset, folder: Path, *, name: str, row: int) -> tuple[int, int]:
    """Position and rank at which two ranks meet a row of a file."""
    planned = planned_for(lake, shop)
    spec = train.prepared(shop, lake, lake.ledger("shop"), planned, folder=folder, home=folder)
    file = [source.name for source in spec.sources].index(name)
    return next(
        (position, rank)
        for position in range(spec.order.steps)
        for rank in range(2)
        if [file, row] in np.stack(spec.order.rows_at(position, rank=rank, ranks=2), axis=1).tolist()
    )


def test_a_batch_that_one_rank_refuses_is_the_cause_and_keeps_its_class(
    lake: Lake, shop: Dataset, tmp_path: Path
) -> None:  # case D14
    write_days(lake, shop, 2)
    write_day(lake, shop, FIRST, toy_rows(FIRST), wild=(WILD_ROW, np.inf))
    position, rank = place_of(lake, shop, tmp_path, name="2026-01-01 bucket=000.npy", row=WILD_ROW)
    assert rank == 1, "choose another WILD_ROW"
    book = Notebook()
    refused = (
        f"rank 1 of 2 failed with DataError: batch {position} is refused: price must be finite or missing, got inf"
    )
    with pytest.raises(DataError, match=refused):
        build(shop, lake, book)
    assert left_of(lake) == []
    assert [run.status for run in book.runs.values()] == ["FAILED"]


class Interrupted(BaseException):
    """Like Dagster's interruption: no Exception."""


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (Interrupted(), ("KILLED", "Interrupted")),
        (KeyboardInterrupt(), ("KILLED", "KeyboardInterrupt")),
        (SystemExit(1), ("FAILED", "SystemExit: 1")),
        (OSError("disk full"), ("FAILED", "OSError: disk full")),
    ],
    ids=repr,
)
def test_the_status_of_a_training_is_true_however_it_ends(
    lake: Lake, shop: Dataset, monkeypatch: pytest.MonkeyPatch, error: BaseException, ended: tuple[str, str]
) -> None:  # case E2
    book = Notebook()
    write_days(lake, shop, 2)

    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(train.local, "run", fail)
    with pytest.raises(type(error)):
        build(shop, lake, book)
    assert [(run.status, run.reason) for run in book.runs.values()] == [ended]


def leave_behind(command: list[str], *, without: str = "") -> None:
    """What ranks leave at their end."""
    spec = Spec.load(Path(command[-1]))
    result = {"digest": "d" * 64, "checkpoints": [], "seconds_split": {}}
    for path, text in ((spec.model_file, "weights"), (spec.result_file, json.dumps(result))):
        if path.name != without:
            path.write_text(text)


@pytest.mark.parametrize("without", ["model.pt", "result.json"])
def test_ranks_that_leave_no_model_or_no_result_have_not_finished(
    lake: Lake, shop: Dataset, monkeypatch: pytest.MonkeyPatch, without: str
) -> None:
    book = Notebook()
    write_days(lake, shop, 2)
    monkeypatch.setattr(train.local, "run", lambda command, **_: leave_behind(command, without=without))
    with pytest.raises(FileNotFoundError, match=without):
        build(shop, lake, book)
    assert [run.status for run in book.runs.values()] == ["FAILED"]


def test_a_second_training_of_a_day_waits_and_finds_the_model_of_the_first(
    lake: Lake, shop: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Notebook()
    write_days(lake, shop, 2)
    began: list[str] = []

    def run(command: list[str], **_: Any) -> None:
        began.append(command[-1])
        time.sleep(0.5)  # long enough for the other to come
        leave_behind(command)

    monkeypatch.setattr(train.local, "run", run)
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda _: build(shop, lake, book), range(2)))
    assert sorted(one.built for one in made) == [False, True]
    assert made[0].manifest == made[1].manifest
    assert len(began) == len(book.runs) == 1


def test_what_is_missing_or_damaged_is_said_before_anything_starts(lake: Lake, shop: Dataset) -> None:
    book = Notebook()
    write_days(lake, shop, 1)
    with pytest.raises(TransientError, match="features 2026-01-02 is required and not built yet"):
        build(shop, lake, book)
    write_days(lake, shop, 2)
    manifest = lake.read("shop", "labels", FIRST)
    assert manifest is not None
    lake.path(manifest, manifest.files[0]).unlink()
    with pytest.raises(CorruptError, match="is gone"):
        build(shop, lake, book)
    assert book.runs == {}


def test_a_rebuild_begins_at_the_first_step(lake: Lake, shop: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    write_days(lake, shop, 2)
    home = train.checkpoint_folder(lake, shop, planned_for(lake, shop), ranks=2)
    home.mkdir(parents=True)
    (home / "step=000000005.json").touch()
    found: list[bool] = []

    def looked(*_: Any, **__: Any) -> None:
        found.append((home / "step=000000005.json").exists())
        raise Interrupted

    monkeypatch.setattr(train.local, "run", looked)
    for rebuild in (False, True):
        with pytest.raises(Interrupted):
            build(shop, lake, Notebook(), rebuild=rebuild)
    assert found == [True, False]
