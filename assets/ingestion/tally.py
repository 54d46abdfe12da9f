"""What is counted of some landed rows: where they went, and what was wrong with those in quarantine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import pyarrow as pa

_SHOWN = 80  # letters of a value that a manifest repeats


@dataclass(kw_only=True)
class Tally:
    """Good rows by event day, rows in quarantine with their faults, and zone-less times that a clock change touched."""

    days: Counter[date] = field(default_factory=Counter)
    quarantined: int = 0
    ambiguous: int = 0
    shifted: int = 0
    faults: dict[tuple[str, str | None], dict[str, Any]] = field(default_factory=dict)

    def add_fault(self, fault: dict[str, Any]) -> None:
        """So many rows more with a fault; the first of all stays the example."""
        key = fault["reason"], fault["column"]
        if key in self.faults:
            self.faults[key]["rows"] += fault["rows"]
        else:
            self.faults[key] = {name: value for name, value in fault.items() if name != "file"}

    def add(self, other: Tally) -> None:
        """Those of the rows behind."""
        self.days.update(other.days)
        self.quarantined += other.quarantined
        self.ambiguous += other.ambiguous
        self.shifted += other.shifted
        for fault in other.faults.values():
            self.add_fault(fault)

    def fact(self, *, rows: int) -> dict[str, Any]:
        """What a manifest remembers of them; zeros and empty lists are left out, since a day may have 20,000 files."""
        found: dict[str, Any] = {"rows": rows}
        if days := {day.isoformat(): count for day, count in sorted(self.days.items()) if count}:
            found["days"] = days
        if self.quarantined:
            # in the order of the file, whichever other files were read in one block with it
            faults = sorted(self.faults.values(), key=lambda fault: (fault["line"], fault["reason"]))
            found |= {"quarantined": self.quarantined, "faults": faults}
        if self.ambiguous:
            found["ambiguous"] = self.ambiguous
        if self.shifted:
            found["shifted"] = self.shifted
        return found


def faults_of(quarantine: pa.Table) -> list[dict[str, Any]]:
    """The quarantined rows by file, reason and column: how many they are, and line and value of the first."""
    if not quarantine.num_rows:
        return []
    grouped = quarantine.group_by(["file", "reason", "column"], use_threads=False)  # threads know no first
    found = grouped.aggregate([([], "count_all"), ("line", "first"), ("value", "first")]).to_pylist()
    return [
        {
            "file": fault["file"],
            "reason": fault["reason"],
            "column": fault["column"],
            "rows": fault["count_all"],
            "line": fault["line_first"],
            "value": fault["value_first"] and fault["value_first"][:_SHOWN],
        }
        for fault in found
    ]
