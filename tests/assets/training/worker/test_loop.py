from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from trainable import FIRST, packed, spec_of, toy_rows, trained_as, write_day, write_days

from assets.training.loader import Loader
from assets.training.spec import Spec
from assets.training.worker import checkpoint, loop
from assets.training.worker.clock import PARTS, UNEXPLAINED, Clock
from assets.training.worker.group import Alone
from assets.training.worker.loop import Training, rate_share, train
from assets.training.worker.report import Lines, silent
from assets.training.worker.scoring import Scorer
from resources.contract.dataset import Dataset
from resources.contract.errors import CorruptError, DataError
from resources.lake import Lake


@pytest.fixture
def spec(lake: Lake, shop: Dataset, tmp_path: Path) -> Spec:
    write_days(lake, shop, 2)
    return spec_of(lake, shop, tmp_path / "attempt")


def again(spec: Spec, tmp_path: Path, name: str) -> Spec:
    """The same training with another place for all that it leaves behind."""
    folder = tmp_path / name
    folder.mkdir()
    return replace(spec, checkpoint_folder=folder, model_file=folder / "model.pt", result_file=folder / "result.json")


def digest(spec: Spec) -> str:
    return json.loads(spec.result_file.read_text())["digest"]


class Cut(Exception):
    """The training ends here, without any warning."""


def train_and_cut_after(spec: Spec, step: int) -> None:
    """Trains until the checkpoint at `step` counts."""
    write = checkpoint.write

    def cut(*arguments: Any, **named: Any) -> checkpoint.Checkpoint:
        made = write(*arguments, **named)
        if made.step == step:
            raise Cut
        return made

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Cut):
        patch.setattr(checkpoint, "write", cut)
        train(spec, Alone(), silent)


def test_a_toy_problem_is_learned(lake: Lake, shop: Dataset, tmp_path: Path) -> None:
    dataset = trained_as(shop, epochs=3)
    write_days(lake, dataset, 2, rows=1500)
    spec = spec_of(lake, dataset, tmp_path / "attempt")
    train(spec, Alone(), silent)
    scorer, rows = Scorer.load(spec.model_file), toy_rows(FIRST.replace(day=20), 2000)
    right = (scorer.score(packed(dataset, rows)) > 0.5) == (rows.labels == 1)
    assert right.mean() > 0.85  # the best possible is 0.9, a constant gets 0.5
    result = json.loads(spec.result_file.read_text())
    assert result["steps"] == 3 * 47
    assert result["rows"] == 3000
    assert result["loss"] < 0.45


def test_two_trainings_of_the_same_inputs_end_in_the_same_bits(spec: Spec, tmp_path: Path) -> None:
    other = again(spec, tmp_path, "other")
    train(spec, Alone(), silent)
    train(other, Alone(), silent)
    assert digest(spec) == digest(other)
    one, two = (torch.load(s.model_file, weights_only=True) for s in (spec, other))
    assert torch.equal(one["table"], two["table"])


@pytest.mark.parametrize("damaged", [False, True])
def test_a_resumed_training_ends_in_the_bits_of_one_that_never_stopped(
    spec: Spec, tmp_path: Path, damaged: bool
) -> None:
    other = again(spec, tmp_path, "other")
    train(spec, Alone(), silent)
    train_and_cut_after(other, 10)
    if damaged:
        (other.checkpoint_folder / "step=000000010.pt").write_bytes(b"")
    positions: list[int] = []
    train(other, Alone(), lambda message: positions.extend(step for step, _ in message["losses"]))
    assert positions[0] == (10 if damaged else 15)
    assert digest(spec) == digest(other)
    assert json.loads(spec.result_file.read_text())["loss"] == json.loads(other.result_file.read_text())["loss"]


@pytest.mark.parametrize("forgotten", ["position", "accumulator", "optimizer", "dense", "table"])
def test_a_checkpoint_holds_nothing_that_could_be_left_out(
    spec: Spec, tmp_path: Path, forgotten: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = again(spec, tmp_path, "other")
    train(spec, Alone(), silent)
    fresh = Training(other, Alone()).state()
    train_and_cut_after(other, 10)
    load = checkpoint.load
    monkeypatch.setattr(checkpoint, "load", lambda *a: load(*a) | {forgotten: fresh[forgotten]})
    train(other, Alone(), silent)
    assert digest(spec) != digest(other)


def test_a_finished_training_that_is_asked_for_again_only_writes_its_model(spec: Spec) -> None:
    train(spec, Alone(), silent)
    before = digest(spec)
    spec.model_file.unlink()
    messages: list[dict[str, Any]] = []
    train(spec, Alone(), messages.append)
    assert messages == []
    assert digest(spec) == before
    assert spec.model_file.exists()


def test_the_seconds_of_a_report_are_its_wall_time(spec: Spec) -> None:
    reports: list[dict[str, Any]] = []
    train(spec, Alone(), reports.append)
    split = json.loads(spec.result_file.read_text())["seconds_split"]
    assert reports[-1]["step"] == reports[-1]["steps"] == spec.order.steps
    assert set(split) == {*PARTS, UNEXPLAINED} == set(reports[0]["seconds"])
    assert min(split.values()) >= 0
    for part in ("compute", "checkpoint"):
        assert 0 < sum(report["seconds"][part] for report in reports) == pytest.approx(split[part])
    rows = sum(report["rows_per_s"] * sum(report["seconds"].values()) for report in reports)
    assert rows == pytest.approx(spec.order.total, rel=0.1)


def test_a_report_tells_the_loss_of_every_read_since_the_one_before(
    spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_REPORT_S", 0.01)
    reports: list[dict[str, Any]] = []
    train(spec, Alone(), reports.append)
    assert len(reports) > 1
    losses = [point for report in reports for point in report["losses"]]
    assert [step for step, _ in losses] == [*range(5, spec.order.steps, 5), spec.order.steps]  # a checkpoint reads too
    kept = checkpoint.known(spec.checkpoint_folder)
    assert [(made.step, made.loss) for made in kept] == [
        point for point in losses if point[0] in {m.step for m in kept}
    ]


def test_every_second_belongs_to_a_part_or_is_unexplained() -> None:
    clock = Clock({"wait": 5.0})
    with clock.measure("wait"):
        time.sleep(0.02)
    time.sleep(0.01)
    split = clock.split_s()
    assert split["wait"] >= 0.02
    assert split[UNEXPLAINED] >= 0.01
    assert clock.split_s()["wait"] == 0.0
    assert clock.total_s()["wait"] == pytest.approx(5.0 + split["wait"])


def test_a_step_weighs_a_row_the_same_in_a_batch_of_any_size(spec: Spec) -> None:
    training = Training(spec, Alone())
    with Loader(spec.sources, order=spec.order, layout=spec.layout) as loader:
        batch = next(iter(loader))
        ids_BF, z_BM = training.encoder(torch.from_numpy(batch.records.view(np.int32)))
        embedded = training.table.weight[ids_BF].requires_grad_()
        logits = training.dense.module(embedded, z_BM)
        losses = binary_cross_entropy_with_logits(logits, torch.from_numpy(batch.labels), reduction="sum")
        [gradients] = torch.autograd.grad(losses, embedded)
        training.step(batch)
    summed = torch.zeros_like(training.table.weight).index_add_(0, ids_BF.flatten(), gradients.flatten(0, 1))
    torch.testing.assert_close(training.table.accumulator, summed.square().mean(1))
    assert training.losses(0) == pytest.approx([losses.item() / 64])


def test_places_without_a_row_train_nothing(lake: Lake, shop: Dataset, tmp_path: Path) -> None:
    write_day(lake, shop, FIRST, toy_rows(FIRST, 5))
    write_day(lake, shop, FIRST.replace(day=2), None)
    spec = spec_of(lake, shop, tmp_path / "attempt")
    train(spec, Alone(), silent)
    trained = torch.load(spec.model_file, weights_only=True)["trained"]
    starts = np.cumsum([0, *[len(codes) for codes in spec.fit.known]])[:-1]
    assert not trained[torch.from_numpy(starts)].any()  # the rows for "missing": no row of the day misses a category
    assert trained[: spec.fit.num_known].sum() == spec.fit.num_known - len(starts)
    assert not trained[-1]


def test_a_loss_that_is_not_finite_is_refused_by_batch_and_file_and_never_kept(
    spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:  # case D14
    step = Training.step

    def poisoned(self: Training, batch: Any) -> None:
        if batch.position == 7:
            self.dense.flat.data[0] = float("nan")
        step(self, batch)

    monkeypatch.setattr(Training, "step", poisoned)
    with pytest.raises(DataError, match=r"the loss of batch 7 is nan.*2026-01-0. bucket=00"):
        train(spec, Alone(), silent)
    assert [made.step for made in checkpoint.known(spec.checkpoint_folder)] == [5]


def test_epochs_follow_each_other(lake: Lake, shop: Dataset, tmp_path: Path) -> None:
    dataset = trained_as(shop, epochs=2)
    write_days(lake, dataset, 2, rows=100)
    spec = spec_of(lake, dataset, tmp_path / "attempt")
    assert spec.order.steps == 2 * 4
    train(spec, Alone(), silent)
    assert json.loads(spec.result_file.read_text())["steps"] == 8


def test_a_damaged_input_is_found_before_the_first_step(lake: Lake, shop: Dataset, tmp_path: Path) -> None:
    write_days(lake, shop, 2)
    manifest = lake.read("shop", "features", FIRST)
    assert manifest is not None
    path = lake.path(manifest, manifest.files[-1])
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptError, match="2026-01-01"):
        spec_of(lake, shop, tmp_path / "attempt")


def test_a_report_is_a_line_of_json_at_a_time(tmp_path: Path) -> None:
    report = Lines(tmp_path / "deep" / "progress.jsonl", None)
    for step in (1, 2):
        report({"step": step, "steps": 2, "loss": 0.5, "rows_per_s": 10.0, "seconds": {}})
    lines = (tmp_path / "deep" / "progress.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2]


def test_the_rates_stay_and_then_go_evenly_down() -> None:
    shares = [rate_share(position, 100) for position in range(100)]
    assert shares[:51] == [1.0] * 51
    assert np.allclose(np.diff(shares[50:]), -0.02)
    assert shares[-1] == pytest.approx(0.02)


def test_a_spec_goes_through_its_file(spec: Spec, tmp_path: Path) -> None:
    spec.save(tmp_path / "spec.json")
    assert Spec.load(tmp_path / "spec.json") == spec
