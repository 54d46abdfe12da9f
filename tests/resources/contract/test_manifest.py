from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from resources.contract.dataset import Train
from resources.contract.manifest import (
    Check,
    FileEntry,
    Ledger,
    Manifest,
    Parent,
    Plan,
    content_digest,
    contract_digest,
    input_digest,
    staleness,
)

DAY = date(2026, 1, 10)


def parent(digest: str = "a", *, back: int = 0, role: Any = "own", rows: int = 10, piece: str | None = None) -> Parent:
    return Parent(asset="shards", day=DAY - timedelta(days=back), digest=digest, role=role, rows=rows, piece=piece)


def plan(*parents: Parent, contract: str = "c", logic: int = 1) -> Plan:
    return Plan(asset="features", day=DAY, contract_digest=contract, logic_version=logic, parents=parents)


def entry(name: str, content: str = "a", rows: int = 1) -> FileEntry:
    return FileEntry(name=name, path=f"x/{name}", rows=rows, bytes=1, checksum="0", content=content)


def built(planned: Plan, *, checks: tuple[Check, ...] = (), generation: int = 1) -> Manifest:
    return Manifest(
        dataset="shop",
        asset=planned.asset,
        day=planned.day,
        generation=generation,
        attempt="x",
        logic_version=planned.logic_version,
        contract_digest=planned.contract_digest,
        input_digest=planned.input_digest,
        content_digest="0",
        parents=planned.parents,
        files=(),
        counts={},
        checks=checks,
        rows_in=0,
        rows_out=0,
        bytes=0,
        seconds=0.0,
        created="2026-01-10T00:00:00+00:00",
    )


@given(st.permutations([parent("a", back=i, piece=p) for i in range(3) for p in ("x", None)]))
def test_the_order_in_which_parents_are_named_does_not_matter(parents: list[Parent]) -> None:
    assert input_digest("c", 1, parents) == input_digest("c", 1, sorted(parents, key=lambda p: (p.day, p.piece or "")))


def test_everything_that_a_result_is_made_from_changes_its_input_digest() -> None:
    base = plan(parent())
    others = [
        plan(parent(), contract="d"),
        plan(parent(), logic=2),
        plan(parent("b")),
        plan(parent(back=1)),
        plan(parent(piece="x")),
        plan(parent(), parent(back=1)),
        plan(),
    ]
    assert len({p.input_digest for p in (base, *others)}) == 8


def test_weights_and_roles_of_parents_are_no_inputs() -> None:
    assert plan(parent(rows=1)).input_digest == plan(parent(rows=2, role="history")).input_digest


def test_a_content_digest_holds_names_and_contents_and_no_empty_file() -> None:
    base = content_digest([entry("a"), entry("b", "x")])
    assert content_digest([entry("b", "x"), entry("a")]) == base
    assert content_digest([entry("a"), entry("b", "x"), entry("distinct.npy", "z", rows=0)]) == base
    assert content_digest([entry("a"), entry("b", "y")]) != base
    assert content_digest([entry("a"), entry("c", "x")]) != base


def test_a_contract_digest_sees_into_models_and_ignores_the_order_of_keys() -> None:
    assert contract_digest({"a": Train(), "b": 1}) == contract_digest({"b": 1, "a": Train()})
    assert contract_digest({"a": Train()}) != contract_digest({"a": Train(epochs=2)})


def test_a_failed_blocking_check_blocks_and_no_other_does() -> None:
    warned = Check(name="share", passed=False, blocking=False, message="m")
    passed = Check(name="rows", passed=True, blocking=True, message="m")
    failed = Check(name="bounds", passed=False, blocking=True, message="3 rows outside")
    assert built(plan(), checks=(warned, passed)).blocked_by is None
    assert built(plan(), checks=(warned, passed, failed)).blocked_by == "bounds: 3 rows outside"


def test_a_ledger_knows_the_newest_of_each_day_and_touches_nothing_else() -> None:
    first, second = built(plan(parent("a"))), built(plan(parent("b")), generation=2)
    ledger = Ledger([first])
    newer = ledger.with_(second)
    assert newer.get("features", DAY) == second
    assert ledger.get("features", DAY) == first
    assert newer.days("features") == [DAY]
    assert (newer.get("labels", DAY), newer.days("labels")) == (None, [])


def test_a_day_that_is_what_its_plan_gives_is_not_stale() -> None:
    assert staleness(built(plan(parent())), plan(parent())) is None


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (plan(parent(), logic=2), "logic of features is now version 2, was 1"),
        (plan(parent(), contract="d"), "the contract's keys for features changed"),
        (plan(parent("b")), "shards 2026-01-10 changed"),
        (plan(parent("a"), parent("z", back=-1, role="ahead")), "shards 2026-01-11 changed"),
        (plan(), "shards 2026-01-10 changed"),
        (plan(parent("b"), parent("c", back=1, role="history")), "shards 2026-01-10 changed and 1 more"),
    ],
)
def test_a_change_of_its_own_inputs_makes_a_day_stale_with_full_weight(now: Plan, reason: str) -> None:
    stale = staleness(built(plan(parent("a"))), now)
    assert stale is not None
    assert stale.reason.startswith(reason.split(" and ")[0])
    assert (stale.history_only, stale.weight) == (False, 1.0)


def test_a_change_in_history_weighs_as_much_as_its_share_of_rows() -> None:
    before = plan(
        parent("a"), parent("b", back=1, role="history", rows=300), parent("c", back=2, role="history", rows=100)
    )
    now = replace(before, parents=(*before.parents[:2], parent("d", back=2, role="history", rows=100)))
    stale = staleness(built(before), now)
    assert stale is not None
    assert stale.reason == "history: shards 2026-01-08 changed"
    assert (stale.history_only, stale.weight) == (True, 0.25)


def test_history_that_appears_or_disappears_counts_as_changed() -> None:
    before = plan(parent("a"), parent("b", back=1, role="history", rows=300))
    more = replace(before, parents=(*before.parents, parent("c", back=2, role="history", rows=100)))
    grown, shrunk = staleness(built(before), more), staleness(built(more), before)
    assert grown is not None and (grown.history_only, grown.weight) == (True, 0.25)
    assert shrunk is not None and shrunk.history_only and 0 < shrunk.weight <= 1


def test_a_manifest_survives_json_and_refuses_what_it_does_not_know() -> None:
    made = built(plan(parent()))
    assert Manifest.model_validate_json(made.model_dump_json()) == made
    with pytest.raises(ValidationError):
        Manifest.model_validate({**made.model_dump(), "surprise": 1})
    with pytest.raises(ValidationError):
        Manifest.model_validate({**made.model_dump(), "format": 2})
