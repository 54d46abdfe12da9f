"""The names of a delivery: the files that are there, and what the day's manifest remembers of them and of others.

A manifest remembers of each landed file, under `facts["landed"][name]`, its state (`sha256`, `bytes`, `modified_ns`, the
`witness` beside it), how many `rows` it had, of those how many good ones on which event `days` and how many `quarantined`
for which `faults`, and where they lie: in which `part`, as the how manyeth (`at`). What is zero or empty is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from assets.ingestion.chunk import Layout
from assets.ingestion.files import LandedFile, sha256_of_landed
from assets.ingestion.landing import Landing
from assets.ingestion.parts import Place
from resources.contract.errors import DataError
from resources.contract.manifest import Manifest

Fact = Mapping[str, Any]
_DIGITS = 32  # of a checksum that a manifest of 20,000 files repeats: 128 bits
_STATE = ("sha256", "bytes", "modified_ns", "witness", "gone", "same_as")


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """One name in a delivery: a file that is there, or (`file` is None) what is remembered of one that is gone."""

    name: str
    sha256: str
    witness: str | None
    file: LandedFile | None
    gone: bool
    own: Fact | None  # what the day's manifest says under this name
    fact: Fact | None  # what it says of this content, under this name or another
    source: str  # that name
    same_as: str | None  # another name with the same content, which stands for both
    fault: str | None = None  # why the file cannot be read at all

    @property
    def key(self) -> str:
        """Stands for the name and what is under it."""
        return f"{self.name} {self.sha256} {self.witness}"

    def remembered(self, fact: Fact | None = None) -> dict[str, Any]:
        """What the manifest says of it: its state, and the given fact of its rows."""
        found = {key: value for key, value in (fact or {"rows": 0}).items() if key not in _STATE}
        found["sha256"] = self.sha256
        if self.file is not None:
            found |= {"bytes": self.file.bytes, "modified_ns": self.file.modified_ns}
        elif self.own is not None:
            found |= {key: self.own[key] for key in ("bytes", "modified_ns")}
        if self.witness is not None:
            found["witness"] = self.witness
        if self.gone:
            found["gone"] = True
        if self.same_as is not None:
            found["same_as"] = self.same_as
        return found


def rows_at(fact: Fact, place: Place) -> int:
    """How many rows of a file lie in a place."""
    return fact.get("quarantined", 0) if place is None else fact.get("days", {}).get(place.isoformat(), 0)


def good_of(fact: Fact) -> int:
    return sum(fact.get("days", {}).values())


def layouts_of(manifest: Manifest | None) -> list[Layout]:
    """The columns that a day's files showed, without repeats."""
    found = manifest.facts.get("layouts", []) if manifest else []
    return [tuple((name, kind) for name, kind in layout) for layout in found]


def members_of(current: Manifest | None) -> dict[str, list[tuple[str, Fact]]]:
    """What lies in each part of a day, in its order."""
    found: dict[str, list[tuple[str, Fact]]] = {}
    for name, fact in (current.facts["landed"] if current else {}).items():
        if "part" in fact:
            found.setdefault(fact["part"], []).append((name, fact))
    return {part: sorted(members, key=lambda member: member[1]["at"]) for part, members in found.items()}


def delivered(landing: Landing, current: Manifest | None, day: date, *, version: int) -> list[Delivered]:
    """The names of a delivery, in order: the files that are there, and those whose rows are kept though they are gone.

    Args:
        version: of the logic; what an earlier one remembers of a file is only its state.
    """
    known: Mapping[str, Fact] = current.facts["landed"] if current else {}
    present = current is not None and current.logic_version == version
    files = {file.name: file for file in landing.files(day)}
    files |= {file.name: file for file in landing.all if file.name in known and landing.refused(file.name)}
    waiting = {file.name for file in landing.waits(day, known)}
    retracted = landing.dataset.source.on_delete == "retract" and landing.is_there
    contents = (
        {_content(name, fact["sha256"]): name for name, fact in known.items() if "part" in fact} if present else {}
    )
    owners: dict[tuple[str, str], str] = {}
    found = []
    for name in sorted(files.keys() | known.keys()):
        file, fact = files.get(name), known.get(name)
        gone = file is None and name not in waiting
        if file is None:
            assert fact is not None
            if landing.holds(name) or (gone and ("refused" in fact or retracted)):
                continue  # it holds none of this day any more, or has no rows to keep
        sha256, fault = _sha256(landing, file, fact)
        witness = file.witness if file else fact.get("witness") if fact else None
        content = _content(name, sha256)
        owner = owners.setdefault(content, name) if not fault else name
        source = name
        if fact is None or not _says(fact, sha256, witness) or "same_as" in fact:
            source = contents.get(content, name)
        says = known.get(source) if present else None
        mine = says if says is not None and "same_as" not in says and _says(says, sha256, witness) else None
        found.append(
            Delivered(
                name=name,
                sha256=sha256,
                witness=witness,
                file=file,
                gone=gone,
                own=fact,
                fact=mine if owner == name else None,
                source=source,
                same_as=owner if owner != name else None,
                fault=fault,
            )
        )
    return found


def _content(name: str, sha256: str) -> tuple[str, str]:
    """What is read alike: the same bytes under another ending are read by other rules."""
    _, dot, ending = name.rpartition("/")[2].rpartition(".")
    return sha256, ending if dot else ""


def _says(fact: Fact, sha256: str, witness: str | None) -> bool:
    return (fact["sha256"], fact.get("witness")) == (sha256, witness)


def _sha256(landing: Landing, file: LandedFile | None, fact: Fact | None) -> tuple[str, str | None]:
    """The checksum of a landed file, remembered for as long as its size and time of modification stay; or why there is none."""
    if file is None:
        assert fact is not None
        return fact["sha256"], None
    if landing.index and file.name in landing.index:
        return landing.index[file.name].sha256[:_DIGITS], None
    same = fact and fact["sha256"] and (fact["bytes"], fact["modified_ns"]) == (file.bytes, file.modified_ns)
    if fact and same and (file.remote is None or fact.get("witness") == file.witness):  # a store's clock is coarse
        return fact["sha256"], None
    try:
        return sha256_of_landed(file)[:_DIGITS], None
    except DataError as error:
        return "", str(error)
