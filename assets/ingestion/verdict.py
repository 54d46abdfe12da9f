"""Whether a delivery is fit to build on: the checks on what was read from its files, and what they say.

Rows of an export that belong to no day all lie on its first one. That day is not to blame for them, so they are judged
against all rows of their file, and the day by its own rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assets.ingestion.reasons import NOT_BAD, OUT_OF_DAYS, Reason
from resources.contract.dataset import Dataset
from resources.contract.manifest import Check, FileEntry
from resources.lake import Piece

CHECKS = {
    "files_read": (
        True,
        "Every landed file could be read; blocks where none could, one had rows before, or source.bad_files says stop.",
    ),
    "conservation": (True, "Rows read from the files are the good rows and those in quarantine, as they were written."),
    "bad_row_share": (True, "Rows that do not fit the contract, as a share of those delivered."),
    "time_bounds": (False, "Rows of days that this delivery cannot hold, as a share of those delivered."),
}
_REMEDIES = {
    "bad_row_share": "correct the file, or the column's rules in the contract, or raise bad_rows.at_most",
    "time_bounds": "correct the file, or days.first, days.last or days.late in the contract",
}
_TOLD = 3  # shares that one message goes into


@dataclass(frozen=True, kw_only=True)
class Share:
    """How many of `rows` have one of these faults; `of` says which rows those are, `are` what the faults make of them."""

    faults: Sequence[Mapping[str, Any]]
    rows: int
    of: str = "rows"
    are: str = "bad"

    @property
    def num_bad(self) -> int:
        return sum(fault["rows"] for fault in self.faults)

    @property
    def value(self) -> float:
        return self.num_bad / self.rows if self.rows else 0.0

    def __str__(self) -> str:
        text = f"{self.num_bad:,} of {self.rows:,} {self.of} ({self.value:.2%}) are {self.are}"
        if not self.faults:
            return text
        most = max(self.faults, key=lambda fault: fault["rows"])
        column = f", column {most['column']}" if most["column"] else ""
        value = f", value {most['value']!r}" if most["value"] is not None else ""
        example = f"{most['file']}, line {most['line']:,}{column}{value}"
        return f"{text}, {most['rows']:,} of them {most['reason']} (such as {example})"


def checks(
    dataset: Dataset, landed: Mapping[str, Mapping[str, Any]], files: Sequence[Piece | FileEntry]
) -> list[Check]:
    """The verdict on a delivery: by what is remembered of each landed file, and by the pieces made of them."""
    limit, rows = dataset.bad_rows.at_most, sum(fact["rows"] for fact in landed.values())
    outside = Share(faults=_faults(landed, of=OUT_OF_DAYS), rows=rows, are="of days that are not taken")
    return [
        _files_read(dataset, landed),
        _conservation(files, rows=rows),
        _at_most("bad_row_share", _bad_shares(dataset, landed), limit=limit),
        _at_most("time_bounds", [outside], limit=limit),
    ]


def _faults(landed: Mapping[str, Mapping[str, Any]], *, of: Iterable[Reason]) -> list[dict[str, Any]]:
    """What is wrong with the rows of some files, for these reasons."""
    texts = {reason.text for reason in of}
    return [
        {**fault, "file": name}
        for name, fact in landed.items()
        for fault in fact.get("faults", ())
        if fault["reason"] in texts
    ]


def _bad_shares(dataset: Dataset, landed: Mapping[str, Mapping[str, Any]]) -> list[Share]:
    """The bad rows of a day, and apart from them those of each export that belong to no day."""
    bad = set(Reason) - set(NOT_BAD)
    own: list[dict[str, Any]] = []
    apart: list[Share] = []
    rows = 0
    for name, fact in landed.items():
        of_file = fact.get("rows_of_file", 0)
        if "faults" not in fact:
            rows += fact["rows"]
            continue
        # rows that could not be split have no column, those whose day is not taken the time's
        faults = fact["faults"]
        dayless = [fault for fault in faults if of_file and fault["column"] in (None, dataset.time.column)]
        rows += fact["rows"] - sum(fault["rows"] for fault in dayless)
        own += _faults({name: {"faults": [fault for fault in faults if fault not in dayless]}}, of=bad)
        if found := _faults({name: {"faults": dayless}}, of=bad):
            apart.append(Share(faults=found, rows=of_file, of=f"rows of {name}", are="bad and of no day"))
    return [Share(faults=own, rows=rows, of="rows" if dataset.source.names_day else "rows of the day"), *apart]


def refused_files(landed: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Why each file that was left out could not be read, by name."""
    return {name: fact["refused"] for name, fact in landed.items() if "refused" in fact}


def _files_read(dataset: Dataset, landed: Mapping[str, Mapping[str, Any]]) -> Check:
    """Whether all files could be read: one bad file stops a day if the contract says so, or if there is no other.

    So does one whose rows downstream has already: it came again and was damaged, which is no reason to lose them there.
    """
    files = [name for name, fact in landed.items() if "same_as" not in fact]
    refused = refused_files(landed)
    replaced = {name: landed[name]["replaced"] for name in refused if "replaced" in landed[name]}
    before = {
        name: f" It had {rows:,} rows before: what was made of them stays as it is until the file is sound, or taken away."
        for name, rows in replaced.items()
    }
    told = "; ".join([f"{why}{before.get(name, '')}" for name, why in refused.items()][:_TOLD])
    more = f"; and {len(refused) - _TOLD} more" if len(refused) > _TOLD else ""
    stops = dataset.source.bad_files == "stop" or len(refused) == len(files) or bool(replaced)
    return Check(
        name="files_read",
        passed=not refused,
        blocking=stops,
        message=f"{len(refused):,} of {len(files):,} files could not be read{': ' if refused else ''}{told}{more}",
        value=len(refused),
        limit=0,
    )


def _conservation(files: Sequence[Piece | FileEntry], *, rows: int) -> Check:
    good = sum(file.rows for file in files if file.event_day is not None)
    quarantined = sum(file.rows for file in files if file.event_day is None)
    return Check(
        name="conservation",
        passed=rows == good + quarantined,
        blocking=CHECKS["conservation"][0],
        message=f"{rows:,} rows read, {good:,} good, {quarantined:,} in quarantine",
        value=rows - good - quarantined,
        limit=0,
    )


def _at_most(name: str, shares: Sequence[Share], *, limit: float) -> Check:
    """Passed where no share lies above the limit; the message tells those that do, or else the largest."""
    worst = sorted(shares, key=lambda share: share.value, reverse=True)
    above = [share for share in worst if share.value > limit]
    told = "; ".join(map(str, above[:_TOLD] or worst[:1]))
    more = f"; so are those of {len(above) - _TOLD} more files" if len(above) > _TOLD else ""
    remedy = f": {_REMEDIES[name]}" if above else ""
    return Check(
        name=name,
        passed=not above,
        blocking=CHECKS[name][0],
        message=f"{told}{more}, where at most {limit:.2%} may be{remedy}",
        value=worst[0].value,
        limit=limit,
    )
