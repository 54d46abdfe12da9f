from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

import pytest

from assets.preprocessing import features, labels
from assets.training import window
from resources.contract.dataset import Dataset, EventLabel
from resources.contract.days import days_between
from resources.contract.manifest import Check, Ledger, Manifest, Parent

FIRST = date(2026, 1, 1)


def always(_: date) -> bool:
    return True


def with_label(dataset: Dataset, hours: float, *, zone: str = "UTC") -> Dataset:
    """The same with a label that looks `hours` ahead."""
    label = EventLabel(event="purchase", same=("user",), within_hours=hours)
    days = dataset.days.model_copy(update={"zone": zone})
    return dataset.model_copy(update={"label": label, "days": days})


def manifest(dataset: Dataset, asset: str, day: date, **changed: object) -> Manifest:
    contract, version = {"features": features, "labels": labels}.get(asset, features).present(dataset)
    values = {
        "dataset": dataset.name,
        "asset": asset,
        "day": day,
        "generation": 1,
        "attempt": "a",
        "logic_version": version,
        "contract_digest": contract,
        "input_digest": "i",
        "content_digest": f"{asset} of {day}",
        "parents": (Parent(asset="shards", day=day, digest=f"shards of {day}"),),
        "files": (),
        "counts": {},
        "facts": {"complete": True, "examples": "e"},
        "rows_in": 10,
        "rows_out": 10,
        "bytes": 0,
        "seconds": 0,
        "created": "now",
    }
    return Manifest.model_validate(values | changed)


def full_ledger(dataset: Dataset, days: int = 20) -> Ledger:
    span = list(days_between(FIRST, FIRST + timedelta(days=days - 1)))
    return Ledger(manifest(dataset, asset, day) for asset in ("features", "labels") for day in span)


def missing(dataset: Dataset, ledger: Ledger, day: date, closed: Callable[[date], bool] = always) -> str:
    return "; ".join(window.plan(dataset, ledger, day, closed=closed).missing)


def test_row_labels_are_known_the_day_before(shop: Dataset) -> None:
    assert window.window_of(shop, date(2026, 1, 10)) == (date(2026, 1, 8), date(2026, 1, 9))
    assert window.gap_days(shop) == 0


@pytest.mark.parametrize(
    ("hours", "last", "gap"),
    [(1, date(2026, 1, 8), 1), (24, date(2026, 1, 8), 1), (25, date(2026, 1, 7), 2), (168, date(2026, 1, 2), 7)],
)
def test_a_label_that_looks_ahead_ends_the_window_earlier(shop: Dataset, hours: float, last: date, gap: int) -> None:
    dataset = with_label(shop, hours)
    assert window.window_of(dataset, date(2026, 1, 10)) == (last - timedelta(days=1), last)
    assert window.gap_days(dataset) == gap


def test_a_short_day_inside_the_horizon_moves_the_window_by_one_more(shop: Dataset) -> None:
    dataset = with_label(shop, 168, zone="Europe/Berlin")  # 2026-03-29 has 23 hours
    assert window.window_of(dataset, date(2026, 4, 2))[1] == date(2026, 3, 24)
    assert window.window_of(dataset, date(2026, 4, 7))[1] == date(2026, 3, 30)


def test_a_plan_pins_features_and_labels_of_each_day(shop: Dataset) -> None:
    plan = window.plan(shop, full_ledger(shop), date(2026, 1, 10), closed=always)
    assert not plan.missing
    assert [(p.asset, p.day.day, p.digest, p.role) for p in plan.parents] == [
        (asset, day, f"{asset} of 2026-01-0{day}", "own") for day in (8, 9) for asset in ("features", "labels")
    ]


def test_a_missing_day_in_the_middle_is_named_and_refused(shop: Dataset) -> None:  # case F15
    ledger = Ledger(m for day in (8, 9) for m in (manifest(shop, "features", date(2026, 1, day)),))
    ledger = ledger.with_(manifest(shop, "labels", date(2026, 1, 9)))
    assert missing(shop, ledger, date(2026, 1, 10)) == "labels 2026-01-08"
    assert missing(shop, Ledger([]), date(2026, 1, 10)) == "features 2026-01-08; features 2026-01-09"


def test_a_window_is_never_cut_short(shop: Dataset) -> None:  # case F15
    assert "it lies before 2026-01-01, the dataset's first day: a judged day has 2 full days before it" in missing(
        shop, full_ledger(shop), date(2026, 1, 2)
    )
    assert not missing(shop, full_ledger(shop), date(2026, 1, 3))


def test_immature_labels_are_refused(shop: Dataset) -> None:
    ledger = full_ledger(shop).with_(manifest(shop, "labels", date(2026, 1, 9), facts={"complete": False}))
    assert missing(shop, ledger, date(2026, 1, 10)) == (
        "labels 2026-01-09 (immature: built before all days up to 2026-01-09 were there)"
    )


def test_a_day_counts_once_all_days_that_its_labels_look_at_are_closed(shop: Dataset) -> None:
    dataset = with_label(shop, 24)
    ledger = full_ledger(dataset)
    day = date(2026, 1, 10)
    assert window.immature(dataset, ledger, day, closed=lambda d: d <= date(2026, 1, 11)) is None
    assert window.immature(dataset, ledger, day, closed=lambda d: d <= day) == (
        "labels 2026-01-10 (immature: 2026-01-11 is still open)"
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"parents": (Parent(asset="shards", day=date(2026, 1, 9), digest="older shards"),)},
        {"facts": {"complete": True, "examples": "other examples"}},
    ],
)
def test_features_and_labels_of_other_shards_do_not_mix(shop: Dataset, changed: dict[str, object]) -> None:
    ledger = full_ledger(shop).with_(manifest(shop, "labels", date(2026, 1, 9), **changed))
    assert missing(shop, ledger, date(2026, 1, 10)) == "labels 2026-01-09 (made from other shards than its features)"


def test_results_of_an_older_contract_are_waited_for(shop: Dataset) -> None:
    ledger = full_ledger(shop).with_(manifest(shop, "features", date(2026, 1, 9), contract_digest="older"))
    assert missing(shop, ledger, date(2026, 1, 10)) == "features 2026-01-09 by the present contract"


@pytest.mark.parametrize("asset", ["deliveries", "shards", "features", "labels"])
def test_a_blocking_verdict_refuses_training_whoever_runs_it(shop: Dataset, asset: str) -> None:  # case F17
    failed = Check(name="conservation", passed=False, blocking=True, message="3 rows are gone")
    refused = manifest(shop, asset, date(2026, 1, 9), checks=(failed,))
    plan = window.plan(shop, full_ledger(shop).with_(refused), date(2026, 1, 10), closed=always)
    assert plan.blocked == (f"{asset} 2026-01-09 failed conservation: 3 rows are gone",)


def test_a_warning_does_not_block(shop: Dataset) -> None:
    warned = Check(name="balance", passed=False, blocking=False, message="uneven")
    ledger = full_ledger(shop).with_(manifest(shop, "shards", date(2026, 1, 9), checks=(warned,)))
    assert window.plan(shop, ledger, date(2026, 1, 10), closed=always).blocked == ()


def test_a_day_without_rows_is_fine_and_a_window_without_any_is_not(shop: Dataset) -> None:
    def emptied(ledger: Ledger, day: date) -> Ledger:
        for asset in ("features", "labels"):
            ledger = ledger.with_(manifest(shop, asset, day, rows_out=0, parents=(), facts={"complete": True}))
        return ledger

    one = emptied(full_ledger(shop), date(2026, 1, 8))
    assert not missing(shop, one, date(2026, 1, 10))
    assert missing(shop, emptied(one, date(2026, 1, 9)), date(2026, 1, 10)) == (
        "examples 2026-01-08..2026-01-09 (the window has none)"
    )


def test_a_judged_day_needs_mature_labels_of_its_own(shop: Dataset) -> None:
    ledger = full_ledger(shop)
    assert window.judgeable(shop, ledger, date(2026, 1, 10), closed=always) is None
    still_open = window.judgeable(shop, ledger, date(2026, 1, 10), closed=lambda d: d < date(2026, 1, 10))
    assert still_open == "labels 2026-01-10 (immature: 2026-01-10 is still open)"
    assert window.judgeable(shop, ledger, date(2026, 1, 22), closed=always) == "features 2026-01-21 and 1 more"


def test_other_content_another_contract_or_another_window_is_another_input(shop: Dataset) -> None:
    day = date(2026, 1, 10)
    ledger = full_ledger(shop)
    longer = shop.model_copy(update={"train": shop.train.model_copy(update={"epochs": 2})})
    digests = [
        window.plan(shop, ledger, day, closed=always).input_digest,
        window.plan(longer, ledger, day, closed=always).input_digest,
        window.plan(shop, ledger, day + timedelta(days=1), closed=always).input_digest,
        window.plan(
            shop, ledger.with_(manifest(shop, "labels", date(2026, 1, 9), content_digest="new")), day, closed=always
        ).input_digest,
    ]
    assert len(set(digests)) == 4
    assert digests[0] == window.plan(shop, ledger, day, closed=always).input_digest
