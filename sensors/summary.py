"""What the work on a dataset amounts to: plain rows for a table, from manifests alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from resources.contract.manifest import ASSETS, Ledger


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One asset over some days."""

    asset: str
    days: int
    rows_in: int
    rows_out: int
    quarantined: int
    bytes: int
    seconds: float

    @property
    def rows_per_s(self) -> float | None:
        return self.rows_in / self.seconds if self.seconds else None


@dataclass(frozen=True, kw_only=True)
class Scored:
    """One model on the judged day."""

    who: str
    auc: float | None
    log_loss: float | None
    calibration: float | None  # mean prediction / observed share


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The newest verdict and what led to it."""

    day: date
    verdict: str
    reason: str
    scored: tuple[Scored, ...]
    difference: float | None
    interval: tuple[float, float] | None
    seconds_split: dict[str, float]
    cycle_s: float


def stages(ledger: Ledger, days: Sequence[date]) -> list[Stage]:
    """A row per asset that is built on any of these days."""
    rows = []
    for asset in ASSETS:
        built = [manifest for day in days if (manifest := ledger.get(asset, day)) is not None]
        if built:
            rows.append(
                Stage(
                    asset=asset,
                    days=len(built),
                    rows_in=sum(m.rows_in for m in built),
                    rows_out=sum(m.rows_out for m in built),
                    quarantined=sum(sum(m.quarantined.values()) for m in built),
                    bytes=sum(m.bytes for m in built),
                    seconds=sum(m.seconds for m in built),
                )
            )
    return rows


def newest_judgement(ledger: Ledger) -> Judged | None:
    """The newest judged day, or None."""
    for day in reversed(ledger.days("champion")):
        verdict, evaluation, model = (ledger.get(asset, day) for asset in ("champion", "evaluation", "model"))
        delivered = ledger.get("deliveries", day)
        if verdict is None or evaluation is None or model is None or delivered is None:
            continue
        metrics: dict[str, dict[str, Any]] = dict(evaluation.facts["metrics"])
        incumbent = (verdict.facts.get("metrics") or {}).get("incumbent")
        if incumbent and verdict.facts.get("incumbent"):
            metrics["incumbent"] = incumbent
        interval = verdict.facts["interval"]
        ended = datetime.fromisoformat(verdict.created).timestamp() + verdict.seconds
        return Judged(
            day=day,
            verdict=verdict.facts["verdict"],
            reason=verdict.facts["reason"],
            scored=tuple(_scored(who.replace("_", " "), values) for who, values in metrics.items()),
            difference=verdict.facts["difference"],
            interval=(interval[0], interval[1]) if interval else None,
            seconds_split=model.facts["seconds_split"],
            cycle_s=ended - datetime.fromisoformat(delivered.created).timestamp(),
        )
    return None


def _scored(who: str, metrics: dict[str, Any]) -> Scored:
    return Scored(
        who=who, auc=metrics.get("auc"), log_loss=metrics.get("log_loss"), calibration=metrics.get("calibration_ratio")
    )
