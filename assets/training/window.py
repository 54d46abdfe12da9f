"""Which days a candidate is trained on, and whether they can be trained on: pure decisions over the ledger.

The candidate for judged day D sees the W days that end at D-1-H, where H is the smallest number of days such that every
label of the window was known before D began. So nothing of D, and no label that only D or a later day could tell, is in
it. A window is never cut short: a day that is missing, immature, open or before the dataset's first is named, and the
training waits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, timedelta

from assets.preprocessing import features as features_room
from assets.preprocessing import labels as labels_room
from assets.preprocessing.layout import Layout
from resources.contract.dataset import Dataset
from resources.contract.days import days_between, horizon_day
from resources.contract.manifest import DATA_ASSETS, Ledger, Manifest, Parent, Plan, contract_digest

LOGIC_VERSION = 2

Closed = Callable[[date], bool]


def _horizon(dataset: Dataset, day: date) -> date:
    return horizon_day(day, zone=dataset.days.zone, within_hours=dataset.horizon_hours)


def gap_days(dataset: Dataset) -> int:
    """H where days have 24 hours: the days between a window's end and its judged day. A clock change may make it one more."""
    return math.ceil(dataset.horizon_hours / 24)


def window_of(dataset: Dataset, day: date) -> tuple[date, date]:
    """First and last day of the window of a judged day."""
    last = day - timedelta(days=1)
    while _horizon(dataset, last) >= day:
        last -= timedelta(days=1)
    return last - timedelta(days=dataset.train.window_days - 1), last


def _first_judged(dataset: Dataset) -> date:
    """The first day whose window begins on the dataset's first day or later."""
    day = dataset.days.first + timedelta(days=dataset.train.window_days)
    while window_of(dataset, day)[0] < dataset.days.first:
        day += timedelta(days=1)
    return day


def immature(dataset: Dataset, ledger: Ledger, day: date, *, closed: Closed) -> str | None:
    """Why the features and labels of a day cannot be used yet, or None: built, complete, closed, of the same shards."""
    features, labels = ledger.get("features", day), ledger.get("labels", day)
    if features is None or labels is None:
        return f"{'labels' if features else 'features'} {day}"
    for manifest, present in ((features, features_room.present(dataset)), (labels, labels_room.present(dataset))):
        if (manifest.contract_digest, manifest.logic_version) != present:
            return f"{manifest.asset} {day} by the present contract"
    horizon = _horizon(dataset, day)
    still_open = next((other for other in days_between(day, horizon) if not closed(other)), None)
    if still_open is not None:
        return f"labels {day} (immature: {still_open} is still open)"
    if not labels.facts.get("complete", False):
        return f"labels {day} (immature: built before all days up to {horizon} were there)"
    if _made_of(features) != _made_of(labels):
        return f"labels {day} (made from other shards than its features)"
    return None


def _made_of(manifest: Manifest) -> tuple[str | None, str | None]:
    """The content of the day's own shards, and which of its rows are examples, in which order."""
    shards = (p.digest for p in manifest.parents if (p.asset, p.day, p.role) == ("shards", manifest.day, "own"))
    return next(shards, None), manifest.facts.get("examples")


def blocked(ledger: Ledger, day: date) -> list[str]:
    """The verdicts that forbid training on a day, of every data asset: checks guard only the run they were made in."""
    manifests = [m for asset in DATA_ASSETS if (m := ledger.get(asset, day)) is not None]
    return [f"{m.asset} {day} failed {m.blocked_by}" for m in manifests if m.blocked_by is not None]


def plan(dataset: Dataset, ledger: Ledger, day: date, *, closed: Closed) -> Plan:
    """What the candidate for judged day `day` would be trained on now."""
    first, last = window_of(dataset, day)
    parents: list[Parent] = []
    missing: list[str] = []
    if first < dataset.days.first:
        horizon = f", and the {dataset.horizon_hours:g} hours of their labels" if dataset.horizon_hours else ""
        missing.append(
            f"features {first} (it lies before {dataset.days.first}, the dataset's first day: "
            f"a judged day has {dataset.train.window_days} full days before it{horizon}, so the first is {_first_judged(dataset)}; "
            f"a smaller train.window_days comes to one sooner)"
        )
    days = list(days_between(max(first, dataset.days.first), last))
    for past in days:
        reason = immature(dataset, ledger, past, closed=closed)
        if reason is not None:
            missing.append(reason)
            continue
        for asset in ("features", "labels"):
            manifest = ledger.get(asset, past)
            assert manifest is not None
            parents.append(Parent(asset=asset, day=past, digest=manifest.content_digest, rows=manifest.rows_out))
    if not missing and not any(parent.rows for parent in parents):
        missing.append(f"examples {first}..{last} (the window has none)")
    return Plan(
        asset="model",
        day=day,
        contract_digest=contract_digest({"train": dataset.train, "layout": Layout.of(dataset).as_json()}),
        logic_version=LOGIC_VERSION,
        parents=tuple(parents),
        missing=tuple(missing),
        blocked=tuple(reason for past in days for reason in blocked(ledger, past)),
    )


def judgeable(dataset: Dataset, ledger: Ledger, day: date, *, closed: Closed) -> str | None:
    """Why a day cannot be judged now, or None: its window must be full and its own labels mature."""
    planned = plan(dataset, ledger, day, closed=closed)
    own = immature(dataset, ledger, day, closed=closed)
    reasons = [*planned.blocked, *blocked(ledger, day), *planned.missing, *([own] if own else [])]
    if not reasons:
        return None
    return reasons[0] + (f" and {len(reasons) - 1} more" if reasons[1:] else "")
