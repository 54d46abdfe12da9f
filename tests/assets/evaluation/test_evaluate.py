"""The evaluation scores each row of the judged day once, has seen nothing of it before, and says what it lacks."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import numpy as np
import pytest

from assets.evaluation import evaluate
from assets.evaluation.metrics import metrics
from resources.contract.errors import CorruptError, DataError, TransientError
from resources.contract.manifest import Check, content_digest
from resources.lake import Materialized

if TYPE_CHECKING:
    from tests.assets.evaluation.conftest import World

DAY, BEFORE = date(2026, 1, 3), date(2026, 1, 2)
WHO = ("candidate", "item_rate", "logistic_regression")


@pytest.fixture
def made(world: World) -> Materialized:
    world.data(DAY, 300)
    world.model(DAY, skill=0.7)
    return world.evaluate(DAY)


def test_every_row_is_scored_once_by_all_three_with_its_own_label(world: World, made: Materialized) -> None:
    found = world.scores(DAY)
    assert len(found["row"]) == made.manifest.rows_out == 300
    assert len(set(zip(found["bucket"].tolist(), found["row"].tolist(), strict=True))) == 300
    features, labels = (world.lake.read("shop", asset, DAY) for asset in ("features", "labels"))
    assert features is not None
    assert labels is not None
    for bucket in np.unique(found["bucket"]):
        entries = [manifest.file(f"bucket={bucket:03d}.npy") for manifest in (features, labels)]
        assert entries[0] is not None
        assert entries[1] is not None
        here = found["bucket"] == bucket
        records = np.load(world.lake.path(features, entries[0]))
        assert found["row"][here].tolist() == list(range(len(records)))
        assert (found["user"][here] == world.layout.users_of(records)).all()
        assert (found["label"][here] == np.load(world.lake.path(labels, entries[1]))).all()
    assert {found[who].dtype for who in WHO} == {np.dtype(np.float32)}


def test_the_metrics_are_those_of_all_rows_together(world: World, made: Materialized) -> None:
    found = world.scores(DAY)
    for who in WHO:
        expected = metrics(found["label"], found[who], found["user"]).as_json()
        assert made.manifest.facts["metrics"][who] == expected
    assert made.manifest.counts == {"rows": 300, "positives": int(found["label"].sum())}


def test_five_rows_in_four_buckets_are_five_rows(world: World) -> None:  # case D4
    records, _ = world.rows(5, seed=0)
    records = np.repeat(records[:1], 5, axis=0)
    labels = np.array([1, 1, 1, 0, 0], np.float32)
    users = np.array([bucket << 32 for bucket in (0, 1, 2, 3, 3)], np.uint64) + np.arange(5, dtype=np.uint64)
    truth_but_for_row_0 = np.array([0, 1, 1, 0, 0], np.int64)
    world.layout.set_ids(records, users=users, items=users, times_us=truth_but_for_row_0)
    world.put(DAY, records, labels)
    world.model(DAY, skill=1.0)
    world.evaluate(DAY)
    found = world.scores(DAY)
    assert len(set(found["bucket"].tolist())) == 4
    assert ((found["candidate"] > 0.5) == found["label"]).mean() == 0.8  # padded to 4 equal shares: 0.75


def test_the_baselines_know_the_window_and_nothing_of_the_day(world: World, made: Materialized) -> None:
    before = world.scores(DAY)
    records, labels = world.rows(300, seed=DAY.toordinal())
    world.put(DAY, records, 1 - labels)
    world.evaluate(DAY)
    after = world.scores(DAY)
    assert (before["label"] != after["label"]).all()
    for who in WHO:
        assert before[who].tobytes() == after[who].tobytes()
    assert made.manifest.facts["window"] == {"rows": 800, "logistic_regression_rows": 800, "changed": []}
    assert made.manifest.facts["metrics"]["logistic_regression"]["auc"] > 0.55


def test_a_window_with_more_rows_than_the_regression_may_see_is_sampled_evenly(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assets.evaluation.fitted.SAMPLE_ROWS", 200)
    world.data(DAY, 300)
    world.model(DAY, skill=0.7)
    window = world.evaluate(DAY).manifest.facts["window"]
    assert window["rows"] == 800
    assert 190 <= window["logistic_regression_rows"] <= 200


def test_values_that_the_window_never_had_are_counted(world: World) -> None:
    records, labels = world.rows(200, seed=9)
    records[:50, 0] = 12345  # an item nobody saw
    records[:20, 1] = 0  # missing is no unseen value
    world.put(DAY, records, labels)
    world.model(DAY, skill=0.7)
    assert world.evaluate(DAY).manifest.facts["unseen"] == {"item": 0.25, "country": 0.0}


def test_the_same_inputs_give_the_same_content_and_an_unchanged_day_is_left_alone(
    world: World, made: Materialized
) -> None:
    world.told.calls.clear()
    again = world.evaluate(DAY)
    assert not again.built
    assert world.told.calls == []
    rebuilt = world.evaluate(DAY, rebuild=True).manifest
    assert rebuilt.generation == 2
    assert rebuilt.content_digest == made.manifest.content_digest == content_digest(made.manifest.files)


def test_the_numbers_stand_in_the_models_mlflow_run(world: World, made: Materialized) -> None:
    logged = world.told.metrics[f"run of {DAY}"]
    facts = made.manifest.facts
    assert logged["eval/auc"] == facts["metrics"]["candidate"]["auc"]
    assert logged["eval/logistic_regression/log_loss"] == facts["metrics"]["logistic_regression"]["log_loss"]
    assert logged["eval/item_rate/calibration_ratio"] == facts["metrics"]["item_rate"]["calibration_ratio"]
    assert logged["eval/unseen/item"] == facts["unseen"]["item"]


def test_a_run_that_somebody_deleted_does_not_stop_the_evaluation(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.data(DAY, 50)
    world.model(DAY, skill=0.7)
    world.told.runs.clear()
    assert world.evaluate(DAY).manifest.facts["metrics"]["candidate"]["rows"] == 50
    assert "stand in the manifest alone" in caplog.text


def test_a_label_outside_0_and_1_is_refused(world: World) -> None:
    records, labels = world.rows(50, seed=1)
    labels[7] = 2
    world.put(DAY, records, labels)
    world.model(DAY, skill=0.7)
    with pytest.raises(DataError, match=r"labels must be 0 or 1, got 2\.0"):
        world.evaluate(DAY)


def test_an_empty_day_is_evaluated_as_empty_without_a_model_being_read(world: World) -> None:
    world.data(DAY, 0)
    world.model(DAY, skill=0.7)
    found = world.evaluate(DAY, load_scorer=None).manifest
    assert found.rows_out == 0
    assert found.counts == {"rows": 0, "positives": 0}
    for who in WHO:
        assert found.facts["metrics"][who] == metrics(np.zeros(0), np.zeros(0), np.zeros(0, np.uint64)).as_json()
    assert world.told.metrics[f"run of {DAY}"] == {
        f"eval/{prefix}{name}": 0.0
        for prefix in ("", "item_rate/", "logistic_regression/")
        for name in ("rows", "positives")
    }


def test_what_is_missing_or_immature_or_forbidden_is_named(world: World) -> None:
    def plan(closed: bool = True) -> list[str]:
        found = evaluate.plan(world.dataset, world.lake.ledger("shop"), DAY, closed=lambda _: closed)
        return [*found.missing, *found.blocked]

    assert plan() == [f"model {DAY}", f"features {DAY}"]
    world.data(DAY, 50)
    world.model(DAY, skill=0.7)
    assert plan() == []
    assert plan(closed=False) == [f"labels {DAY} (immature: {DAY} is still open)"]
    world.put(DAY, *world.rows(50, seed=1), complete=False)
    [reason] = plan()
    assert "immature" in reason
    with pytest.raises(TransientError, match="immature"):
        world.evaluate(DAY)
    world.data(DAY, 50)
    features = world.lake.read("shop", "features", DAY)
    assert features is not None
    failed = Check(name="row_agreement", passed=False, blocking=True, message="3 rows lost")
    blocked = features.model_copy(update={"checks": (failed,), "generation": features.generation + 1})
    world.lake.publish(blocked, expected=features.generation)
    assert plan() == [f"features {DAY} failed row_agreement: 3 rows lost"]
    with pytest.raises(DataError, match="3 rows lost"):
        world.evaluate(DAY)


def test_a_model_that_reads_other_columns_is_refused(world: World) -> None:
    world.data(DAY, 50)
    world.model(DAY, skill=0.7)
    for number in (1, 2, 3):
        manifest = world.lake.read("shop", "features", date(2026, 1, number))
        assert manifest is not None
        world.lake.amend(manifest, {"layout": {"categories": ["country", "item"], "numbers": ["price"]}})
    with pytest.raises(DataError, match="reads other columns"):
        world.evaluate(DAY)


def test_a_window_whose_days_hold_other_columns_is_refused(world: World) -> None:
    world.data(DAY, 50)
    world.model(DAY, skill=0.7)
    manifest = world.lake.read("shop", "features", BEFORE)
    assert manifest is not None
    world.lake.amend(manifest, {"layout": {"categories": ["country", "item"], "numbers": ["price"]}})
    with pytest.raises(DataError, match=f"features {BEFORE} hold other columns"):
        world.evaluate(DAY)


def test_a_window_day_that_changed_after_the_training_is_told(world: World) -> None:
    world.data(DAY, 50)
    world.model(DAY, skill=0.7)
    world.data(BEFORE, 400, seed=77)
    assert world.evaluate(DAY).manifest.facts["window"]["changed"] == [f"features {BEFORE}", f"labels {BEFORE}"]


@pytest.mark.parametrize("asset", ["features", "labels", "model"])
def test_a_damaged_file_is_noticed(world: World, asset: str) -> None:
    world.data(DAY, 50)
    world.model(DAY, skill=0.7)
    manifest = world.lake.read("shop", asset, DAY)
    assert manifest is not None
    path = world.lake.path(manifest, manifest.files[0])
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptError, match="does not have the checksum"):
        world.evaluate(DAY)
