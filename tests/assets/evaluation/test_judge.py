"""A verdict follows from numbers by a rule, and the champion is always the one of its own time."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from assets.evaluation import judge
from assets.evaluation.bootstrap import Difference
from assets.evaluation.judge import decide
from resources.contract.errors import CorruptError, TransientError
from resources.contract.manifest import Manifest, staleness

if TYPE_CHECKING:
    from tests.assets.evaluation.conftest import World

D3, D4, D5, D6 = (date(2026, 1, number) for number in (3, 4, 5, 6))


def difference(value: float, *interval: float) -> Difference:
    return Difference(value=value, interval=(interval[0], interval[1]) if interval else None)


@pytest.mark.parametrize(
    ("rows", "positives", "found", "verdict", "reason"),
    [
        (1000, 500, difference(0.02, 0.01, 0.03), "promote", "better beyond doubt"),
        (1000, 500, difference(0.02, 1e-9, 0.03), "promote", "better beyond doubt"),
        (1000, 500, difference(0.02, 0.0, 0.03), "keep", "may be chance"),
        (1000, 500, difference(0.0, 0.0, 0.0), "keep", "may be chance"),
        (1000, 500, difference(0.01, -0.01, 0.03), "keep", "may be chance"),
        (1000, 500, difference(-0.02, -0.03, -0.01), "keep", "worse beyond doubt"),
        (1000, 50, difference(0.02, 0.01, 0.03), "promote", "better beyond doubt"),
        (1000, 49, difference(0.02, 0.01, 0.03), "undecided", "49 positive examples and 50 are needed"),
        (1000, 951, difference(0.02, 0.01, 0.03), "undecided", "49 negative examples and 50 are needed"),
        (100, 50, difference(-0.02, -0.03, -0.01), "keep", "worse beyond doubt"),
        (30, 0, Difference(value=None, interval=None), "undecided", "0 positive examples"),
        (0, 0, Difference(value=None, interval=None), "undecided", "no examples"),
        (1000, 500, difference(0.02), "undecided", "one user"),
    ],
)
def test_the_verdict_follows_from_the_interval_and_from_how_much_data_there_is(
    rows: int, positives: int, found: Difference, verdict: str, reason: str
) -> None:
    decision = decide(rows=rows, positives=positives, difference=found, rival="item rate")
    assert decision.verdict == verdict
    assert reason in decision.reason


def test_the_reason_names_the_rival_the_difference_and_its_interval() -> None:
    decision = decide(
        rows=1000, positives=500, difference=difference(0.02, 0.01, 0.034), rival="the champion of 2026-01-03"
    )
    assert decision.reason == (
        "AUC +0.0200 against the champion of 2026-01-03, 95 % interval +0.0100 to +0.0340: better beyond doubt"
    )


def test_without_an_incumbent_the_best_baseline_stands_in(world: World) -> None:
    found = world.judged(D3, skill=0.45)
    assert found.facts["verdict"] == "promote"
    assert found.facts["rival"] == "logistic regression"
    assert (found.facts["incumbent"], found.facts["metrics"]["incumbent"]) == (None, None)
    model = world.lake.read("shop", "model", D3)
    assert model is not None
    assert found.facts["champion"] == {
        "day": "2026-01-03",
        "since": "2026-01-03",
        "run_id": "run of 2026-01-03",
        "attempt": model.attempt,
        "generation": 1,
        "file": model.files[0].model_dump(mode="json"),
    }
    assert world.told.aliases == {"challenger": 1, "champion": 1}
    assert world.told.tags["run of 2026-01-03"]["verdict"] == "promote"


def test_a_first_candidate_that_does_not_beat_the_baselines_is_no_champion(world: World) -> None:
    found = world.judged(D3, skill=0.0)
    assert found.facts["verdict"] == "keep"
    assert found.facts["champion"] is None
    assert world.told.aliases == {"challenger": 1, "champion": None}


def test_the_incumbent_is_scored_afresh_on_the_days_own_rows(world: World) -> None:
    world.judged(D3, skill=0.25, seed=1)
    found = world.judged(D4, skill=0.45, seed=2)
    facts = found.facts
    assert facts["incumbent"]["day"] == "2026-01-03"
    assert facts["rival"] == "the champion of 2026-01-03"
    world.model(D4, skill=0.25, seed=1)  # what the incumbent is, evaluated as if it were the day's candidate
    world.evaluate(D4)
    evaluation = world.lake.read("shop", "evaluation", D4)
    assert evaluation is not None
    assert facts["metrics"]["incumbent"] == evaluation.facts["metrics"]["candidate"]
    assert facts["difference"] == pytest.approx(
        facts["metrics"]["candidate"]["auc"] - facts["metrics"]["incumbent"]["auc"], abs=1e-12
    )
    assert world.told.metrics["run of 2026-01-04"]["eval/incumbent/auc"] == facts["metrics"]["incumbent"]["auc"]


def test_the_champion_stays_until_it_is_beaten_beyond_doubt(world: World) -> None:
    verdicts = [
        world.judged(D3, skill=0.25, seed=1),
        world.judged(D4, skill=0.25, seed=2),
        world.judged(D5, skill=0.05, seed=3),
        world.judged(D6, skill=0.48, seed=4),
    ]
    assert [found.facts["verdict"] for found in verdicts] == ["promote", "keep", "keep", "promote"]
    named = [(found.facts["champion"]["day"], found.facts["champion"]["since"]) for found in verdicts]
    assert named == [("2026-01-03",) * 2] * 3 + [("2026-01-06",) * 2]
    assert "may be chance" in verdicts[1].facts["reason"]
    assert "worse beyond doubt" in verdicts[2].facts["reason"]
    assert world.told.aliases == {"challenger": 4, "champion": 4}


def test_the_same_model_again_does_not_differ_from_itself(world: World) -> None:
    world.judged(D3, skill=0.25)
    found = world.judged(D4, skill=0.25)
    assert (found.facts["difference"], found.facts["interval"]) == (0.0, [0.0, 0.0])
    assert found.facts["verdict"] == "keep"


def test_few_positives_decide_nothing(world: World) -> None:
    world.judged(D3, skill=0.25)
    found = world.judged(D4, skill=1.0, num=60)
    assert found.facts["verdict"] == "undecided"
    assert found.facts["champion"]["day"] == "2026-01-03"


def test_an_empty_day_carries_the_champion_over(world: World) -> None:
    first = world.judged(D3, skill=0.25)
    found = world.judged(D4, skill=0.45, num=0)
    assert found.facts["verdict"] == "undecided"
    assert found.facts["champion"] == first.facts["champion"]
    after = world.judged(D5, skill=0.45, seed=2)
    assert after.facts["incumbent"] == first.facts["champion"]


def test_a_champion_is_found_again_after_its_day_was_trained_anew(world: World) -> None:
    first = world.judged(D3, skill=0.25, seed=1)
    world.model(D3, skill=0.05, seed=9)
    found = world.judged(D4, skill=0.45, seed=2)
    assert found.facts["incumbent"] == first.facts["champion"]
    assert found.facts["metrics"]["incumbent"]["auc"] > 0.7  # of skill 0.25, not of 0.05
    attempt = first.facts["champion"]["attempt"]
    now = world.lake.read("shop", "model", D3)
    assert now is not None
    assert now.attempt != attempt
    pins = judge.pins(world.lake.ledger("shop"))
    assert ("model", D3, attempt) in pins
    world.lake.sweep("shop", older_than_s=-1, pins=pins)
    assert world.judge(D4, rebuild=True).manifest.facts["incumbent"] == first.facts["champion"]
    world.lake.sweep("shop", older_than_s=-1)
    with pytest.raises(CorruptError, match="is gone"):
        world.judge(D4, rebuild=True)


def test_a_champion_whose_file_was_damaged_is_not_compared_with(world: World) -> None:
    world.judged(D3, skill=0.25)
    model = world.lake.read("shop", "model", D3)
    assert model is not None
    world.lake.path(model, model.files[0]).write_text("{}")
    with pytest.raises(CorruptError, match="2026-01-03"):
        world.judged(D4, skill=0.45)


def test_a_damaged_champion_that_was_trained_again_to_the_same_weights_is_compared_with(world: World) -> None:
    first = world.judged(D3, skill=0.25, seed=1)
    world.judged(D4, skill=0.05, seed=2)  # the verdict that names it is no longer that of its own day
    model = world.lake.read("shop", "model", D3)
    assert model is not None
    world.lake.path(model, model.files[0]).write_text("{}")
    world.model(D3, skill=0.25, seed=1)
    found = world.judged(D5, skill=0.05, seed=3)
    assert found.facts["incumbent"] == first.facts["champion"]
    assert found.facts["metrics"]["incumbent"]["auc"] > 0.7


def test_a_damaged_champion_whose_day_gives_other_weights_now_says_which_days_to_judge_again(world: World) -> None:
    world.judged(D3, skill=0.25, seed=1)
    world.judged(D4, skill=0.05, seed=2)
    model = world.lake.read("shop", "model", D3)
    assert model is not None
    world.lake.path(model, model.files[0]).write_text("{}")
    world.model(D3, skill=0.24, seed=9)
    with pytest.raises(CorruptError, match=r"--days 2026-01-03..2026-01-05 --rebuild --judge 3"):
        world.judged(D5, skill=0.05, seed=3)


def test_an_incumbent_that_reads_other_columns_is_replaced_by_the_best_baseline(world: World) -> None:
    world.judged(D3, skill=0.25)
    features = world.dataset.features.model_copy(update={"categories": ("country", "item")})
    world.dataset = world.dataset.model_copy(update={"features": features})
    for number in (2, 3):
        world.data(date(2026, 1, number), 400)
    found = world.judged(D4, skill=0.45)
    assert found.facts["rival"] == (
        "logistic regression (the champion of 2026-01-03 reads other columns than this day has)"
    )
    assert found.facts["incumbent"] is None
    assert found.facts["champion"]["day"] == "2026-01-04"


def test_a_backtest_compares_with_the_incumbent_of_its_own_time_and_moves_no_alias(world: World) -> None:
    for number in (3, 4, 5):
        world.data(date(2026, 1, number), 400)
    world.judged(D5, skill=0.45, seed=1)
    aliases = dict(world.told.aliases)
    found = world.judged(D4, skill=0.25, seed=2)
    assert found.facts["incumbent"] is None
    assert found.facts["champion"]["day"] == "2026-01-04"
    assert world.told.aliases == aliases
    late = world.lake.read("shop", "champion", D5)
    assert late is not None
    behind = staleness(late, judge.plan(world.dataset, world.lake.ledger("shop"), D5))
    assert behind is not None
    assert behind.history_only


def test_a_promotion_that_is_taken_back_takes_the_alias_back(world: World) -> None:
    world.judged(D3, skill=0.25, seed=1)
    world.judged(D4, skill=0.45, seed=2)
    assert world.told.aliases == {"challenger": 2, "champion": 2}
    again = world.judged(D4, skill=0.05, seed=3)
    assert (again.facts["verdict"], again.generation) == ("keep", 2)
    assert world.told.aliases == {"challenger": 2, "champion": 1}


def content(world: World, **options: float) -> str:
    return world.judged(D4, **options).content_digest  # pyright: ignore[reportArgumentType]


def test_the_content_is_the_decision_alone(world: World) -> None:
    world.judged(D3, skill=0.25, seed=1)
    kept = content(world, skill=0.0, seed=2)
    assert content(world, skill=0.05, seed=3) == kept  # other numbers, same verdict, same champion
    promoted = content(world, skill=0.45, seed=2)
    assert promoted != kept
    assert content(world, skill=0.48, seed=2) != promoted  # the same verdict, another champion


def test_an_unchanged_day_is_left_alone_and_a_killed_one_is_told_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.data(D3, 400)
    world.model(D3, skill=0.45)
    world.evaluate(D3)

    def killed(point: str) -> None:
        if point == "champion:told":
            raise KeyboardInterrupt

    monkeypatch.setattr(world.lake, "step", killed)
    with pytest.raises(KeyboardInterrupt):
        world.judge(D3)
    assert world.lake.read("shop", "champion", D3) is None
    monkeypatch.undo()
    assert world.judge(D3).built
    assert world.told.versions == {1: "run of 2026-01-03"}
    world.told.calls.clear()
    assert not world.judge(D3).built
    assert world.told.calls == []


def test_a_verdict_on_a_run_that_somebody_deleted_stands_on_the_lake(world: World) -> None:
    world.data(D3, 400)
    world.model(D3, skill=0.45)
    world.evaluate(D3)
    world.told.runs.clear()
    world.told.calls.clear()
    assert world.judge(D3).manifest.facts["verdict"] == "promote"
    assert world.told.calls == []


def missing(world: World, day: date) -> tuple[str, ...]:
    return judge.plan(world.dataset, world.lake.ledger("shop"), day).missing


def test_what_is_missing_or_behind_is_named(world: World) -> None:
    assert missing(world, D3) == tuple(f"{asset} {D3}" for asset in ("evaluation", "model", "features", "labels"))
    world.judged(D3, skill=0.45)
    assert missing(world, D3) == ()
    world.model(D3, skill=0.8)
    assert missing(world, D3) == (f"evaluation {D3} (made from another model)",)
    with pytest.raises(TransientError, match="made from another model"):
        world.judge(D3)


def parents(manifest: Manifest) -> list[tuple[str, date, str]]:
    return [(parent.asset, parent.day, parent.role) for parent in manifest.parents]


def test_a_verdict_is_made_from_the_evaluation_the_model_and_the_champion_before(world: World) -> None:
    first = world.judged(D3, skill=0.25)
    world.data(D4, 400)
    second = world.judged(D5, skill=0.45, seed=2)
    assert parents(first) == [("evaluation", D3, "own"), ("model", D3, "own")]
    assert parents(second) == [("evaluation", D5, "own"), ("model", D5, "own"), ("champion", D3, "history")]
