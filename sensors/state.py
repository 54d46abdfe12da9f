"""What is and what should be: the state of every day of a dataset, computed from the contract, the landing and the ledger.

The command line prints it and the sensors act on it; both see the same. Nothing here touches a file of the lake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any, Literal

from assets.evaluation import evaluate, judge
from assets.ingestion import deliver
from assets.ingestion.landing import Landing
from assets.ingestion.verdict import refused_files
from assets.preprocessing import features, labels, rollups
from assets.sharding import cut
from assets.training import window
from resources.contract.dataset import Dataset
from resources.contract.days import day_of, days_between, instant_us
from resources.contract.manifest import DATA_ASSETS, Ledger, Manifest, Plan, Staleness, staleness

Built = Literal["missing", "open", "built", "immature"]


@dataclass(frozen=True, kw_only=True)
class DayState:
    """One day of one asset: how it stands, and why it is stale if it is."""

    asset: str
    day: date
    state: Built
    stale: Staleness | None
    plan: Plan

    @property
    def hindered(self) -> str | None:
        """What must come or be mended before this day can be built, or None."""
        return next(iter((*self.plan.missing, *self.plan.blocked)), None)


@dataclass(frozen=True)
class State:
    """A dataset at one moment. Plans are made on demand."""

    dataset: Dataset
    landing: Landing
    ledger: Ledger
    now: datetime

    def closed(self, day: date) -> bool:
        return self.landing.closed(day, self.now)

    @cached_property
    def grid(self) -> list[date]:
        """The days that exist by now: from the first to the contract's last, or to the last one that landed.

        A day that is not over has no partition yet: its file waits.
        """
        known = [*self.landing.days(), *self.ledger.days("deliveries")]
        if not known:
            return []
        over = day_of(instant_us(self.now), self.dataset.days.zone) - timedelta(days=1)
        last = min(max(known), over, self.dataset.days.last or over)
        return list(days_between(self.dataset.days.first, last))

    def plan(self, asset: str, day: date) -> Plan:
        """What the asset's day would be made from now."""
        dataset, ledger = self.dataset, self.ledger
        plans: dict[str, Callable[[], Plan]] = {
            "deliveries": lambda: deliver.plan(dataset, self.landing, ledger, day, now=self.now),
            "shards": lambda: cut.plan(dataset, ledger, day),
            "rollups": lambda: rollups.plan(dataset, ledger, day),
            "features": lambda: features.plan(dataset, ledger, day),
            "labels": lambda: labels.plan(dataset, ledger, day),
            "model": lambda: window.plan(dataset, ledger, day, closed=self.closed),
            "evaluation": lambda: evaluate.plan(dataset, ledger, day, closed=self.closed),
            "champion": lambda: judge.plan(dataset, ledger, day),
        }
        return plans[asset]()

    def of(self, asset: str, day: date) -> DayState:
        """How one day of one asset stands."""
        plan, built = self.plan(asset, day), self.ledger.get(asset, day)
        if built is None:
            state: Built = "missing" if self.closed(day) else "open"
            return DayState(asset=asset, day=day, state=state, stale=None, plan=plan)
        state = "immature" if asset == "labels" and not self.mature(built) else "built"
        return DayState(asset=asset, day=day, state=state, stale=staleness(built, plan), plan=plan)

    def mature(self, labels_of_day: Manifest) -> bool:
        """Whether no later delivery can be expected to change these labels: their horizon is built and closed."""
        return bool(labels_of_day.facts["complete"]) and self.closed(
            date.fromisoformat(labels_of_day.facts["horizon_last"])
        )

    def unjudgeable(self, day: date) -> str | None:
        """Why a day cannot be judged yet, or None."""
        reason = window.judgeable(self.dataset, self.ledger, day, closed=self.closed)
        labels_of_day = self.ledger.get("labels", day)
        if reason is None and labels_of_day is not None and not labels_of_day.counts.get("examples"):
            return f"{day} has no examples"
        return reason

    def moving(self, day: date) -> str | None:
        """What is still to be built of the data that judging a day would read, or None."""
        first, _ = window.window_of(self.dataset, day)
        for other in days_between(max(first, self.dataset.days.first), day):
            work = self.work(other, history_above=self.dataset.days.rebuild_history_above)
            if work and not work[0].hindered:
                return f"{work[0].asset} {other} {work[0].stale.reason if work[0].stale else work[0].state}"
        return None

    def work(self, day: date, *, history_above: float) -> list[DayState]:
        """The data assets of a day that are missing or stale; a change of history counts above this weight."""
        todo = []
        for asset in DATA_ASSETS:
            state = self.of(asset, day)
            stale = state.stale is not None and (not state.stale.history_only or state.stale.weight > history_above)
            if state.state in ("missing", "open") or stale:
                todo.append(state)
        return todo

    def champion(self) -> Manifest | None:
        """The newest champion manifest that names a champion."""
        for day in reversed(self.ledger.days("champion")):
            manifest = self.ledger.get("champion", day)
            if manifest is not None and manifest.facts["champion"] is not None:
                return manifest
        return None

    def as_json(self) -> dict[str, Any]:
        """What `slicewise status --json` prints."""
        newest = self.champion()
        champion = newest.facts["champion"] if newest else None
        return {
            "dataset": self.dataset.name,
            "champion": champion
            and {
                "day": champion["day"],
                "model": f"{self.dataset.name}/model/day={champion['day']}/{champion['attempt']}",
                "run_id": champion["run_id"],
                "since": champion["since"],
            },
            "left_out": self.unread(),
            "waiting": [str(file) for file in self.landing.waiting if file.day is None],
            "days": [self._row(day) for day in self.grid],
        }

    def unread(self) -> list[str]:
        """Why exports of no known day cannot be read."""
        return [holds.refused for holds in (self.landing.index or {}).values() if holds.refused]

    def left_out(self, day: date) -> list[str]:
        """Why each landed file that a day was built without could not be read."""
        delivered = self.ledger.get("deliveries", day)
        return list(refused_files(delivered.facts["landed"]).values()) if delivered else []

    def _row(self, day: date) -> dict[str, Any]:
        delivered, cut_day = self.ledger.get("deliveries", day), self.ledger.get("shards", day)
        verdict = self.ledger.get("champion", day)
        states = {asset: self.of(asset, day) for asset in DATA_ASSETS}
        model, labels_state = self.ledger.get("model", day), states["labels"].state
        built = [m for asset in DATA_ASSETS if (m := self.ledger.get(asset, day)) is not None]
        stale = [f"{m.asset}: refused, {m.blocked_by}" for m in built if m.blocked_by]
        stale += [f"{asset}: {s.stale.reason}" for asset, s in states.items() if s.stale]
        if model is not None and (behind := staleness(model, self.plan("model", day))):
            stale.append(f"model: {behind.reason}")
        return {
            "day": day.isoformat(),
            "delivered": delivered.counts["delivered"] if delivered else None,
            "quarantined": delivered.counts["quarantined"] if delivered else None,
            "unverifiable": delivered.facts.get("unverifiable") if delivered else None,
            "left_out": self.left_out(day),
            "waiting": [str(file) for file in self.landing.waiting if file.day == day],
            "drift": delivered.facts.get("drift", []) if delivered else [],
            **{
                name: cut_day.counts[name] if cut_day else None
                for name in ("good", "duplicates", "late", "users", "without_user")
            },
            **{asset: states[asset].state for asset in ("shards", "features", "labels")},
            "model": "built"
            if model
            else "immature"
            if labels_state == "immature"
            else "open"
            if labels_state == "open"
            else "missing",
            "verdict": verdict.facts["verdict"] if verdict else None,
            "stale": "; ".join(stale) or None,
        }
