"""What was delivered on a day: parts that hold the rows of its landed files, each file's rows made of that file alone.

So a file that is unchanged is not read again, a file that comes again replaces its own rows and no others, and neither
the order in which files arrive nor how they are spread over parts can be seen in the result. A file that cannot be read
is left out by name, and the others go on; one that had rows before and comes again so holds its day instead, since
downstream has made something of them. A file that disappears keeps its rows (`source.on_delete`); the same content
under a second name adds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

from assets.ingestion.affected import FileOutcome, affected, reading_of
from assets.ingestion.chunk import Layout
from assets.ingestion.drift import drift
from assets.ingestion.known import Delivered, delivered, good_of, layouts_of, members_of
from assets.ingestion.landing import Landing
from assets.ingestion.parts import Member, arranged
from assets.ingestion.reasons import NOT_BAD, rows_of
from assets.ingestion.sifting import Span
from assets.ingestion.verdict import CHECKS as CHECKS  # with the asset, for its page
from assets.ingestion.verdict import checks
from assets.ingestion.writing import Sources, write_parts
from resources.contract.dataset import Dataset
from resources.contract.digest import combined, digest_of_json
from resources.contract.errors import DataError
from resources.contract.manifest import FileEntry, Ledger, Manifest, Parent, Plan, contract_digest
from resources.lake import Lake, Materialized, Outcome, Piece

LOGIC_VERSION = 3
_DAYS_BACK = 14  # that may have been without files, before a file's columns count as new
_MOST_LAYOUTS = 100  # that one manifest tells apart


def contract_key(dataset: Dataset) -> str:
    """The digest of what a contract says of deliveries."""
    return contract_digest(
        {
            "reading": reading_of(dataset),
            "names_day": dataset.source.names_day,
            "bad_rows": dataset.bad_rows,
            "bad_files": dataset.source.bad_files,
            "on_delete": dataset.source.on_delete,
        }
    )


def plan(dataset: Dataset, landing: Landing, ledger: Ledger, day: date, *, now: datetime) -> Plan:
    """What the delivery of a day would be made from now. Files that the manifest does not know yet are hashed."""
    current = ledger.get("deliveries", day)
    files = delivered(landing, current, day, version=LOGIC_VERSION)
    return _plan(dataset, landing, current, files, day, now=now)


def build(
    dataset: Dataset, lake: Lake, landing: Landing, day: date, *, now: datetime, rebuild: bool = False
) -> Materialized:
    """The delivery of a day, as the landing is now.

    Raises TransientError for an open day without a file, files that are not whole yet and files that change while they
    are read, DataError where rows of a file that is gone would have to be read again.
    """
    current = lake.read(dataset.name, "deliveries", day)
    files = delivered(landing, current, day, version=LOGIC_VERSION)
    wanted = _plan(dataset, landing, current, files, day, now=now)
    unchanged = current is not None and current.input_digest == wanted.input_digest
    if current is not None and unchanged and not (wanted.blocked or wanted.missing or rebuild):
        landed = {file.name: file.remembered(file.fact) for file in files}
        same = landed == current.facts["landed"]
        return Materialized(
            manifest=current if same else lake.amend(current, {**current.facts, "landed": landed}), built=False
        )

    def write(folder: Path) -> Outcome:
        again = _to_be_read(landing, current, files, day, rebuild=rebuild)
        loose, intact = _members(current, files, again)
        kept, parts = arranged(loose, intact)
        sources = Sources(
            dataset=dataset,
            lake=lake,
            landing=landing,
            current=current,
            day=day,
            span=Span.of_delivery(dataset, day),
            files={file.name: file for file in files},
        )
        pieces, read, layouts = write_parts(sources, parts, folder)
        return _outcome(
            dataset,
            pieces,
            [entry for entry in (current.files if current else ()) if Path(entry.name).stem in kept],
            {file.name: _replaced(file, file.remembered(read.get(file.name, file.fact))) for file in files},
            layouts={**_layouts(current, files, again), **layouts},
            earlier=_seen_before(dataset, lake, day),
        )

    return lake.materialize(wanted, write, dataset=dataset.name, rebuild=rebuild)


def _plan(
    dataset: Dataset, landing: Landing, current: Manifest | None, files: list[Delivered], day: date, *, now: datetime
) -> Plan:
    known = current.facts["landed"] if current else {}
    missing = [f"{file} to be whole" for file in landing.waits(day, known)]
    if not files and not missing and not landing.closed(day, now):
        until = landing.deadline(day).isoformat(timespec="minutes")
        missing = [f"a file for {day} (the day is still open, until {until} at the latest)"]
    owners = [file for file in files if file.same_as is None]
    parents = (
        Parent(
            asset="landed",
            day=day,
            digest=combined((file.name, digest_of_json([file.sha256, file.witness])) for file in owners),
            rows=sum(file.fact["rows"] for file in owners if file.fact),
        ),
    )
    unread = landing.index or {}
    stopped = [holds.refused for name, holds in unread.items() if holds.refused and name not in known]
    return Plan(
        asset="deliveries",
        day=day,
        contract_digest=contract_key(dataset),
        logic_version=LOGIC_VERSION,
        parents=parents if owners else (),
        missing=tuple(missing),
        # an export that cannot be read may hold rows of any day
        blocked=tuple(stopped) if dataset.source.bad_files == "stop" else (),
        changes=_changes(files, known),
    )


def _changes(files: Sequence[Delivered], known: Mapping[str, Any]) -> str | None:
    """Which landed files are not what the day was made from, in words."""
    new = [file.name for file in files if file.same_as is None and file.fact is None]
    moved = [file.name for file in files if file.fact is not None and file.source != file.name]
    gone = sorted(known.keys() - {file.name for file in files})
    names = [*new, *moved, *gone]
    return f"landed {names[0]} changed" + (f" and {len(names) - 1} more" if names[1:] else "") if names else None


def _to_be_read(
    landing: Landing, current: Manifest | None, files: Sequence[Delivered], day: date, *, rebuild: bool
) -> set[str]:
    """The names of the files that are read: new ones, and those that could come out differently than they did.

    Raises DataError for such a file if it is gone.
    """
    dataset, old = landing.dataset, current.facts.get("contract") if current else None
    same = old == reading_of(dataset)
    again = set()
    for file in (file for file in files if file.same_as is None):
        fact = file.fact
        delivery = day if dataset.source.names_day else None
        holds = landing.holdings(file.name, day)  # of an export, rows of no day may stand on another one by now
        could_differ = (
            fact is None
            or any(fact.get(key) != value for key, value in holds.items())
            or (
                not same
                and (
                    old is None or "refused" in fact or affected(old, dataset, FileOutcome.of(fact, delivered=delivery))
                )
            )
        )
        if file.file is not None and (could_differ or rebuild):
            again.add(file.name)
        elif could_differ and (rows := (file.own or {}).get("rows")):
            raise DataError(
                f"{dataset.name}/deliveries {day}: {file.name} is gone, and its {rows:,} rows were read by an earlier "
                "contract, so they cannot be read by the present one. Land it again, or leave the day as it is."
            )
    return again


def _members(
    current: Manifest | None, files: Sequence[Delivered], again: set[str]
) -> tuple[list[Member], dict[str, list[Member]]]:
    """What goes into new parts, and the old parts that could stay as they are."""
    loose: list[Member] = []
    intact: dict[str, list[Member]] = {}
    wanted = {file.source: file for file in files if file.fact is not None and file.name not in again}
    for part, members in members_of(current).items():
        present = [
            Member(name=wanted[name].name, key=wanted[name].key, bytes=fact["bytes"], of=part)
            for name, fact in members
            if name in wanted
        ]
        if [member.name for member in present] == [name for name, _ in members]:
            intact[part] = present
        else:
            loose += present
    loose += [
        Member(name=file.name, key=file.key, bytes=file.file.bytes)
        for file in files
        if file.name in again and file.file is not None
    ]
    return loose, intact


def _replaced(file: Delivered, fact: dict[str, Any]) -> dict[str, Any]:
    """The fact of a file, with how many rows it had before where it came again and cannot be read."""
    own = file.own or {}
    rows = own.get("replaced", own["rows"]) if own else 0
    return {**fact, "replaced": rows} if "refused" in fact and rows else fact


def _seen_before(dataset: Dataset, lake: Lake, day: date) -> list[Layout]:
    """The columns that the newest earlier delivery showed; a day without files shows none."""
    for _ in range(_DAYS_BACK):
        earlier = lake.newest_before(dataset.name, "deliveries", day)
        found = layouts_of(earlier)
        if earlier is None or found:
            return found
        day = earlier.day
    return []


def _layouts(current: Manifest | None, files: Sequence[Delivered], again: set[str]) -> dict[str, Layout]:
    """The columns of the files that are not read again."""
    found = layouts_of(current)
    return {
        file.name: found[file.fact["layout"]]
        for file in files
        if file.name not in again and file.fact is not None and "layout" in file.fact
    }


def _outcome(
    dataset: Dataset,
    pieces: list[Piece],
    kept: list[FileEntry],
    landed: dict[str, dict[str, Any]],
    *,
    layouts: Mapping[str, Layout],
    earlier: Sequence[Layout],
) -> Outcome:
    """The totals over all names of a delivery, and the verdict on them."""
    reasons: Counter[str] = Counter()
    distinct = list(dict.fromkeys(layouts[name] for name in sorted(layouts)))[:_MOST_LAYOUTS]
    places = {layout: at for at, layout in enumerate(distinct)}
    for name, fact in landed.items():
        fact.pop("layout", None)
        if name in layouts and layouts[name] in places:
            fact["layout"] = places[layouts[name]]
        for fault in fact.get("faults", ()):
            reasons[fault["reason"]] += fault["rows"]
    quarantined = dict(reasons)
    rows, good = sum(fact["rows"] for fact in landed.values()), sum(good_of(fact) for fact in landed.values())
    return Outcome(
        pieces=tuple(pieces),
        kept=tuple(kept),
        rows_in=rows,
        rows_out=good,
        counts={
            "delivered": rows,
            "good": good,
            "quarantined": reasons.total(),
            "bad": reasons.total() - rows_of(quarantined, NOT_BAD),
            "ambiguous_times": sum(fact.get("ambiguous", 0) for fact in landed.values()),
            "shifted_times": sum(fact.get("shifted", 0) for fact in landed.values()),
            "files": sum("same_as" not in fact for fact in landed.values()),
            "refused_files": sum("refused" in fact for fact in landed.values()),
        },
        quarantined=quarantined,
        checks=tuple(checks(dataset, landed, [*pieces, *kept])),
        facts={
            "landed": landed,
            "empty": not rows,
            "unverifiable": sum(bool(fact["rows"]) and "verified_by" not in fact for fact in landed.values()),
            "layouts": [[list(column) for column in layout] for layout in distinct],
            "drift": drift(dataset, layouts, earlier),
            "contract": reading_of(dataset),
        },
    )
