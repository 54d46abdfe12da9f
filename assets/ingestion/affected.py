"""Which landed files could come out differently by another contract: only those are read again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from assets.ingestion.reasons import OUT_OF_DAYS, Reason
from assets.ingestion.sifting import Span
from resources.contract.dataset import Dataset
from resources.contract.digest import digest_of_json

_READ = ("format", "encoding", "csv", "nulls")
_DAYS = ("first", "last", "late", "ahead_hours")  # which days are taken; the zone says what a day is
_BOUNDS = ("between", "at_least", "at_most")


@dataclass(frozen=True, kw_only=True)
class FileOutcome:
    """What a file came to: the (reason, column) of rows in quarantine, and the event days of its good rows.

    `delivered`: the day of the delivery; None for an export, which may hold any days.
    """

    faults: Collection[tuple[str, str | None]]
    days: Collection[date]
    delivered: date | None

    @classmethod
    def of(cls, fact: Mapping[str, Any], *, delivered: date | None) -> FileOutcome:
        """From what a manifest remembers of the file."""
        return cls(
            faults={(fault["reason"], fault["column"]) for fault in fact.get("faults", ())},
            days=[date.fromisoformat(day) for day in fact.get("days", ())],
            delivered=delivered,
        )


def reading_of(dataset: Dataset) -> dict[str, Any]:
    """All that a contract says of how a row is read, as JSON. What a share of bad rows leads to is no part of it."""
    return {
        "source": {key: value for key, value in dataset.source.model_dump(mode="json").items() if key in _READ},
        "time": dataset.time.model_dump(mode="json"),
        "days": dataset.days.model_dump(mode="json", include={"zone", *_DAYS}),
        "columns": [[name, column.model_dump(mode="json")] for name, column in dataset.columns.items()],
    }


def reading_key(dataset: Dataset) -> str:
    """The digest of it."""
    return digest_of_json(reading_of(dataset))


def affected(old: Mapping[str, Any], dataset: Dataset, outcome: FileOutcome) -> bool:
    """Whether a file that was read by one contract (`reading_of`) could come out differently by another.

    Where that is not plain to see, it could.
    """
    new = reading_of(dataset)
    if old["source"] != new["source"] or old["time"] != new["time"] or old["days"]["zone"] != new["days"]["zone"]:
        return True
    if [name for name, _ in old["columns"]] != [name for name, _ in new["columns"]]:
        return True  # their order is that of the rows
    if old["days"] != new["days"] and _other_days(old["days"], dataset, outcome):
        return True
    pairs = zip(old["columns"], new["columns"], strict=True)
    return any(_other_column(name, before, now, outcome) for (name, before), (_, now) in pairs if before != now)


def _other_days(old: Mapping[str, Any], dataset: Dataset, outcome: FileOutcome) -> bool:
    if {reason for reason, _ in outcome.faults} & {reason.text for reason in OUT_OF_DAYS}:
        return True
    if {column for _, column in outcome.faults} - {None, dataset.time.column}:
        return True  # on which days these rows lie is not known
    delivered = outcome.delivered
    if delivered is None:
        last = dataset.days.last or date.max
        if outcome.faults and not outcome.days and old["first"] != str(dataset.days.first):
            return True  # rows of no day stand on the first one where there is no other
        return any(not dataset.days.first <= day <= last for day in outcome.days)
    ahead = old["ahead_hours"] != dataset.days.ahead_hours
    span = Span.of_delivery(dataset, delivered)
    # how far into the day ahead a row lies is not known
    return any(not span.oldest <= day <= span.newest or (ahead and day > delivered) for day in outcome.days)


def _other_column(name: str, before: Mapping[str, Any], now: Mapping[str, Any], outcome: FileOutcome) -> bool:
    changed = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
    if changed & {*_BOUNDS}:
        changed -= {*_BOUNDS}
        if not _within(_bounds(before), _bounds(now)) or (Reason.OUT_OF_BOUNDS.text, name) in outcome.faults:
            return True
    if "required" in changed:
        changed.remove("required")
        if now["required"] or (Reason.MISSING.text, name) in outcome.faults:
            return True
    if "personal" in changed:
        changed.remove("personal")
        if outcome.faults:  # good rows are kept as they are, and what is in quarantine shows its values
            return True
    return bool(changed)


def _bounds(column: Mapping[str, Any]) -> tuple[Decimal | None, Decimal | None]:
    low, high = column["between"] or (column["at_least"], column["at_most"])
    return (None if low is None else Decimal(low), None if high is None else Decimal(high))


def _within(inner: tuple[Decimal | None, Decimal | None], outer: tuple[Decimal | None, Decimal | None]) -> bool:
    """Whether every value between the inner bounds lies between the outer ones."""
    low = outer[0] is None or (inner[0] is not None and outer[0] <= inner[0])
    return low and (outer[1] is None or (inner[1] is not None and inner[1] <= outer[1]))
