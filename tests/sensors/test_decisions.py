"""The sensors' decisions on states that are set by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from types import SimpleNamespace
from typing import Any, cast

from resources.contract.digest import digest_of_json
from resources.contract.manifest import DATA_ASSETS, Ledger, Manifest, Parent, Plan, Staleness
from sensors.decisions import MAX_ATTEMPTS, Decision, judged_days, new_data, stale_days
from sensors.state import DayState, State


def day(number: int) -> date:
    return date(2026, 1, number)


def built(asset: str, on: date, generation: int = 1) -> Manifest:
    return Manifest(
        dataset="shop",
        asset=asset,
        day=on,
        generation=generation,
        attempt="a",
        logic_version=1,
        contract_digest="c",
        input_digest="i",
        content_digest="x",
        parents=(),
        files=(),
        counts={},
        facts={"champion": None},
        rows_in=0,
        rows_out=0,
        bytes=0,
        seconds=0.0,
        created="2026-01-01T00:00:00+00:00",
    )


@dataclass
class FakeState:
    """Days by hand: which assets are missing or stale, of what content, and what hinders them."""

    days: list[int]
    missing: dict[int, set[str]] = field(default_factory=dict)
    stale: dict[tuple[int, str], Staleness] = field(default_factory=dict)
    content: dict[tuple[int, str], str] = field(default_factory=dict)
    lacking: dict[tuple[int, str], str] = field(default_factory=dict)
    judged: list[int] = field(default_factory=list)
    cannot: dict[int, str] = field(default_factory=dict)
    generation: int = 1

    @property
    def grid(self) -> list[date]:
        return [day(n) for n in self.days]

    @property
    def dataset(self) -> Any:
        return SimpleNamespace(name="shop", days=SimpleNamespace(rebuild_history_above=0.01))

    @property
    def ledger(self) -> Ledger:
        manifests = [
            built(asset, day(n), self.generation)
            for n in self.days
            for asset in DATA_ASSETS
            if asset not in self.missing.get(n, set())
        ]
        return Ledger([*manifests, *(built("champion", day(n)) for n in self.judged)])

    def plan(self, asset: str, on: date) -> Plan:
        digest = digest_of_json(self.content.get((on.day, asset), "A"))
        lacking = self.lacking.get((on.day, asset))
        return Plan(
            asset=asset,
            day=on,
            contract_digest="c",
            logic_version=1,
            parents=(Parent(asset="landed", day=on, digest=digest),),
            missing=(lacking,) if lacking else (),
        )

    def of(self, asset: str, on: date) -> DayState:
        state = "missing" if asset in self.missing.get(on.day, set()) else "built"
        return DayState(
            asset=asset, day=on, state=state, stale=self.stale.get((on.day, asset)), plan=self.plan(asset, on)
        )

    def work(self, on: date, *, history_above: float) -> list[DayState]:
        states = [self.of(asset, on) for asset in DATA_ASSETS]
        return [
            s
            for s in states
            if s.state == "missing" or (s.stale and (not s.stale.history_only or s.stale.weight > history_above))
        ]

    def unjudgeable(self, on: date) -> str | None:
        return self.cannot.get(on.day)

    def moving(self, on: date) -> str | None:
        return next(
            (f"{w.asset} {n}" for n in self.days if n <= on.day for w in self.work(day(n), history_above=0.01)), None
        )


def decide(rule: Any, state: FakeState, attempts: Any = lambda _: 0) -> Decision:
    return rule(cast(State, state), attempts)


CONTENT = Staleness(reason="landed a.csv changed", history_only=False, weight=1.0)


def test_four_days_that_landed_at_once_are_all_asked_for() -> None:  # case F5
    state = FakeState(days=[1, 2, 3, 4], missing={n: set(DATA_ASSETS) for n in (1, 2, 3, 4)})
    requests = decide(new_data, state).requests
    assert [(r.first, r.last) for r in requests] == [(day(1), day(4))]


def test_neighbouring_days_share_a_run_and_distant_ones_do_not() -> None:
    state = FakeState(days=[1, 2, 3, 4, 5], missing={n: {"deliveries"} for n in (1, 2, 5)})
    assert [(r.first, r.last) for r in decide(new_data, state).requests] == [(day(1), day(2)), (day(5), day(5))]


def test_nothing_is_asked_for_when_everything_stands() -> None:
    state = FakeState(days=[1, 2], judged=[2])
    for rule in (new_data, stale_days, judged_days):
        assert decide(rule, state).requests == ()


def test_the_same_state_asks_with_the_same_key_so_that_dagster_runs_it_once() -> None:
    state = FakeState(days=[1], missing={1: {"deliveries"}})
    keys = {decide(new_data, state).requests[0].run_key for _ in range(2)}
    assert len(keys) == 1
    assert len({r.run_key for r in decide(new_data, state).requests}) == len(decide(new_data, state).requests)


def test_content_that_goes_a_b_a_is_three_requests() -> None:
    keys = set()
    for generation, content in ((1, "A"), (2, "B"), (3, "A")):
        state = FakeState(
            days=[1], stale={(1, "deliveries"): CONTENT}, content={(1, "deliveries"): content}, generation=generation
        )
        keys.add(decide(new_data, state).requests[0].run_key)
    assert len(keys) == 3


def test_a_failed_request_is_asked_again_a_bounded_number_of_times() -> None:
    state = FakeState(days=[1], missing={1: {"deliveries"}})
    keys = [decide(new_data, state, lambda _, n=tried: n).requests[0].run_key for tried in range(MAX_ATTEMPTS)]
    assert len(set(keys)) == MAX_ATTEMPTS
    given_up = decide(new_data, state, lambda _: MAX_ATTEMPTS)
    assert given_up.requests == ()
    assert "given up" in given_up.waiting[0]


def test_a_request_in_flight_is_not_asked_again() -> None:
    state = FakeState(days=[1], missing={1: {"deliveries"}})
    assert decide(new_data, state, lambda _: None).waiting == ("2026-01-01: a run is in flight",)


def test_an_open_day_without_a_file_is_left_alone() -> None:
    state = FakeState(days=[1, 2], missing={2: set(DATA_ASSETS)}, lacking={(2, "deliveries"): "a file for 2026-01-02"})
    assert decide(new_data, state).requests == ()
    assert decide(stale_days, state).requests == ()


def test_a_small_change_of_history_is_left_and_a_large_one_is_asked_for() -> None:
    def with_weight(weight: float) -> FakeState:
        return FakeState(
            days=[1], stale={(1, "features"): Staleness(reason="history: rollups", history_only=True, weight=weight)}
        )

    assert decide(stale_days, with_weight(0.005)).requests == ()
    assert len(decide(stale_days, with_weight(0.02)).requests) == 1


def test_a_day_that_waits_for_another_says_so_instead_of_failing() -> None:
    state = FakeState(days=[1], missing={1: {"features"}}, lacking={(1, "features"): "rollups 2025-12-31"})
    decided = decide(stale_days, state)
    assert decided.requests == ()
    assert decided.waiting == ("features 2026-01-01 waits for rollups 2025-12-31",)


def test_the_first_judgement_is_of_the_newest_day_that_can_be_judged() -> None:
    state = FakeState(days=[1, 2, 3, 4], cannot={1: "window", 4: "labels 2026-01-04 are not mature"})
    assert [r.first for r in decide(judged_days, state).requests] == [day(3)]


def test_later_judgements_follow_in_order_and_never_go_back() -> None:
    state = FakeState(days=[1, 2, 3, 4], judged=[2])
    assert [r.first for r in decide(judged_days, state).requests] == [day(3)]
    assert decide(judged_days, FakeState(days=[1, 2], judged=[2])).waiting == ("every day is judged",)


def test_a_day_is_not_judged_while_what_it_reads_still_moves() -> None:
    state = FakeState(days=[1, 2, 3], judged=[1], stale={(2, "labels"): CONTENT})
    assert decide(judged_days, state).requests == ()
    assert "labels 2" in decide(judged_days, state).waiting[0]


def test_a_later_day_that_moves_does_not_stop_the_judgement_of_an_earlier_one() -> None:
    state = FakeState(days=[1, 2, 3], judged=[1], missing={3: set(DATA_ASSETS)}, cannot={3: "labels 2026-01-03"})
    assert [r.first for r in decide(judged_days, state).requests] == [day(2)]


def test_nothing_is_judged_where_nothing_landed() -> None:
    assert decide(judged_days, FakeState(days=[])).waiting == ("nothing has landed yet",)
