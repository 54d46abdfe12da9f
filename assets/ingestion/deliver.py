"""What was delivered on a day: one folder of pieces per landed file, made of that file alone.

So a file that is unchanged is not read again, a file that comes again replaces its own rows and no others, and the
order in which files arrive cannot be seen in the result. A file that disappears keeps its rows; the same content under
a second name adds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

from assets.ingestion.files import LandedFile, sha256_of_landed
from assets.ingestion.landing import Landing
from assets.ingestion.pieces import key_of, write_pieces
from assets.ingestion.reasons import NOT_BAD, rows_of
from assets.ingestion.sifting import Span
from assets.ingestion.verdict import CHECKS as CHECKS  # with the asset, for its page
from assets.ingestion.verdict import checks
from resources.contract.dataset import Dataset
from resources.contract.errors import DataError
from resources.contract.manifest import FileEntry, Ledger, Manifest, Parent, Plan, contract_digest
from resources.lake import Lake, Materialized, Outcome, Piece

LOGIC_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """One name in a delivery: a file that is there, or (`file` is None) what is remembered of one that is gone."""

    name: str
    sha256: str
    file: LandedFile | None
    fact: Mapping[str, Any] | None  # what the day's manifest says of this name, if it says so of this content
    same_as: str | None  # another name with the same content, which stands for both

    def remembered(self) -> dict[str, Any]:
        """What the manifest says of it before it has been read."""
        fact = dict(self.fact or {"rows": 0, "good": 0, "quarantined": 0, "reasons": {}, "faults": [], "ambiguous": 0})
        fact |= {"sha256": self.sha256, "gone": self.file is None}
        if self.file is not None:
            fact |= {"bytes": self.file.bytes, "modified_ns": self.file.modified_ns}
        if self.same_as is not None:
            fact["same_as"] = self.same_as
        return fact


def contract_key(dataset: Dataset) -> str:
    """The digest of what a contract says of deliveries."""
    return contract_digest(
        {
            "source": dataset.source.model_dump(mode="json", exclude={"files", "region", "on_delete"}),
            "names_day": dataset.source.names_day,
            "time": dataset.time,
            "days": dataset.days.model_dump(mode="json", include={"zone", "first", "last", "late"}),
            "columns": [[name, column.model_dump(mode="json")] for name, column in dataset.columns.items()],
            "bad_rows": dataset.bad_rows,
        }
    )


def plan(dataset: Dataset, landing: Landing, ledger: Ledger, day: date, *, now: datetime) -> Plan:
    """What the delivery of a day would be made from now. Files that the manifest does not know yet are hashed."""
    return _plan(dataset, landing, delivered(landing, ledger.get("deliveries", day), day), day, now=now)


def build(
    dataset: Dataset, lake: Lake, landing: Landing, day: date, *, now: datetime, rebuild: bool = False
) -> Materialized:
    """The delivery of a day, as the landing is now.

    Raises TransientError for an open day without a file and for files that change while they are read, DataError for
    files that are refused as a whole.
    """
    current = lake.read(dataset.name, "deliveries", day)
    files = delivered(landing, current, day)
    wanted = _plan(dataset, landing, files, day, now=now)
    unchanged = current is not None and current.input_digest == wanted.input_digest
    if current is not None and unchanged and not wanted.blocked and not rebuild:
        facts = _facts({file.name: file.remembered() for file in files})
        return Materialized(manifest=current if facts == current.facts else lake.amend(current, facts), built=False)
    outdated = current is not None and (current.contract_digest, current.logic_version) != (
        wanted.contract_digest,
        wanted.logic_version,
    )

    def write(folder: Path) -> Outcome:
        pieces: list[Piece] = []
        kept: list[FileEntry] = []
        facts: dict[str, dict[str, Any]] = {}
        for file in files:
            facts[file.name] = file.remembered()
            if file.same_as is not None:
                continue
            if file.file is None and outdated and file.fact and file.fact["rows"]:
                raise DataError(
                    f"{dataset.name}/deliveries {day}: {file.name} is gone, and its {file.fact['rows']:,} rows were read by an "
                    "earlier contract, so they cannot be read by the present one. Land it again, or leave the day as it is."
                )
            if file.file is None or (file.fact is not None and not rebuild and not outdated):
                assert current is not None
                kept += [entry for entry in current.files if entry.name.startswith(f"{key_of(file.name)}/")]
                continue
            index = landing.index[file.name] if landing.index else None
            span = index.span(dataset, day) if index else Span.of_delivery(dataset, day)
            rows = index.days[day] if index else None
            made, fact = write_pieces(dataset, file.file, folder, span=span, num_indexed=rows)
            if index:
                fact["rows_of_file"] = sum(index.days.values())
            pieces += made
            facts[file.name] |= fact
            lake.step("deliveries:file")
        return _outcome(dataset, pieces, kept, _facts(facts))

    return lake.materialize(wanted, write, dataset=dataset.name, rebuild=rebuild)


def delivered(landing: Landing, current: Manifest | None, day: date) -> list[Delivered]:
    """The names of a delivery, in order: the files that are there, and those whose rows are kept though they are gone."""
    known: Mapping[str, Any] = current.facts["landed"] if current else {}
    files = {file.name: file for file in landing.files(day)}
    owners: dict[str, str] = {}
    found = []
    for name in sorted(files.keys() | known.keys()):
        file, fact = files.get(name), known.get(name)
        alias = fact is not None and "same_as" in fact
        if file is None and (alias or (landing.holds(name) and not landing.refused(name))):
            continue  # it never had rows of its own, or holds none of this day any more
        sha256 = _sha256(file, fact)
        owner = owners.setdefault(sha256, name)
        mine = fact if fact and fact["sha256"] == sha256 and alias == (owner != name) else None
        found.append(
            Delivered(name=name, sha256=sha256, file=file, fact=mine, same_as=owner if owner != name else None)
        )
    return found


def _sha256(file: LandedFile | None, fact: Mapping[str, Any] | None) -> str:
    """The checksum of a landed file, remembered for as long as its size and time of modification stay."""
    if file is None:
        assert fact is not None
        return fact["sha256"]
    if fact and (fact["bytes"], fact["modified_ns"]) == (file.bytes, file.modified_ns):
        return fact["sha256"]
    return sha256_of_landed(file)


def _plan(dataset: Dataset, landing: Landing, files: list[Delivered], day: date, *, now: datetime) -> Plan:
    missing = ()
    if not files and not landing.closed(day, now):
        until = landing.deadline(day).isoformat(timespec="minutes")
        missing = (f"a file for {day} (the day is still open, until {until} at the latest)",)
    return Plan(
        asset="deliveries",
        day=day,
        contract_digest=contract_key(dataset),
        logic_version=LOGIC_VERSION,
        parents=tuple(
            Parent(
                asset="landed",
                day=day,
                piece=file.name,
                digest=file.sha256[:32],
                rows=file.fact["rows"] if file.fact else 0,
            )
            for file in files
            if file.same_as is None
        ),
        missing=missing,
        blocked=tuple(refusal for file in files if (refusal := landing.refused(file.name))),
    )


def _facts(landed: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What only this room says of a day."""
    return {"landed": landed, "empty": not any(fact["rows"] for fact in landed.values())}


def _outcome(dataset: Dataset, pieces: list[Piece], kept: list[FileEntry], facts: dict[str, Any]) -> Outcome:
    """The totals over all names of a delivery, and the verdict on them."""
    landed = facts["landed"].values()
    quarantined = dict(sum((Counter(fact["reasons"]) for fact in landed), Counter()))
    rows, good = sum(fact["rows"] for fact in landed), sum(fact["good"] for fact in landed)
    bad = sum(quarantined.values()) - rows_of(quarantined, NOT_BAD)
    return Outcome(
        pieces=tuple(pieces),
        kept=tuple(kept),
        rows_in=rows,
        rows_out=good,
        counts={
            "delivered": rows,
            "good": good,
            "quarantined": sum(quarantined.values()),
            "bad": bad,
            "ambiguous_times": sum(fact["ambiguous"] for fact in landed),
            "files": sum("same_as" not in fact for fact in landed),
        },
        quarantined=quarantined,
        checks=tuple(checks(dataset, facts["landed"], [*pieces, *kept])),
        facts=facts,
    )
