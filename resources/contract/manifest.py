"""The manifest of one materialization: what passes between rooms. The published pointer file *is* the manifest.

Two digests (see `resources.contract.digest`): `input_digest` says what the result was made from, and equal means
nothing to do; `content_digest` says what it holds, and equal means nothing to tell downstream.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from resources.contract.digest import combined, digest_of_json, sum_of

ASSETS = ("deliveries", "shards", "rollups", "features", "labels", "model", "evaluation", "champion")
DATA_ASSETS = ASSETS[:5]
JUDGEMENT_ASSETS = ASSETS[5:]

Role = Literal["own", "history", "ahead"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Parent(_Frozen):
    """One input: the content of one day of an asset (or of one `piece` of it), as it was when it was read.

    `own`: the day itself; `history`: an earlier day; `ahead`: a later one, read as far as it was there.
    A landed file is a parent too: asset "landed", piece = file name.
    """

    asset: str
    day: date
    digest: str
    piece: str | None = None
    role: Role = "own"
    rows: int = 0


class FileEntry(_Frozen):
    """One file of a result. `path` is relative to the day's folder and begins with the attempt that wrote it."""

    name: str
    path: str
    rows: int
    bytes: int
    checksum: str  # sha256 of the file, hex
    content: str  # content digest of its rows
    bucket: int | None = None
    event_day: date | None = None
    first_us: int | None = None  # earliest and latest event_time
    last_us: int | None = None
    whole: str | None = (
        None  # what this file is a part of: how rows are spread over the parts of one whole tells nothing
    )


class Check(_Frozen):
    """One verdict on a day. A failed blocking check forbids everything downstream, whoever runs it."""

    name: str
    passed: bool
    blocking: bool
    message: str
    value: float | None = None
    limit: float | None = None


class Manifest(_Frozen):
    format: Literal[1] = 1
    dataset: str
    asset: str
    day: date
    generation: int
    attempt: str
    logic_version: int
    contract_digest: str
    input_digest: str
    content_digest: str
    parents: tuple[Parent, ...]
    files: tuple[FileEntry, ...]
    counts: dict[str, int]
    quarantined: dict[str, int] = {}  # rows by reason
    checks: tuple[Check, ...] = ()
    facts: dict[str, Any] = {}  # what only this room says; never part of a digest
    bucket_hash: str | None = None
    num_buckets: int | None = None
    rows_in: int
    rows_out: int
    bytes: int
    seconds: float
    created: str
    made_by: dict[str, str] = {}  # library versions, recorded beside the digests

    @property
    def blocked_by(self) -> str | None:
        """Why nothing may be built on this day, or None."""
        return next((f"{c.name}: {c.message}" for c in self.checks if c.blocking and not c.passed), None)

    def file(self, name: str) -> FileEntry | None:
        """The file of that name, if there is one."""
        return next((entry for entry in self.files if entry.name == name), None)


class Ledger:
    """All manifests of one dataset: the state of its lake, read once, asked often. Pure: it touches no file."""

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        self._by_key = {(manifest.asset, manifest.day): manifest for manifest in manifests}

    def get(self, asset: str, day: date) -> Manifest | None:
        return self._by_key.get((asset, day))

    def days(self, asset: str) -> list[date]:
        """The days that are built, in order."""
        return sorted(day for name, day in self._by_key if name == asset)

    def with_(self, manifest: Manifest) -> Ledger:
        """The same ledger with one manifest more, or newer."""
        return Ledger([*self._by_key.values(), manifest])


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a day of an asset would be made from now: a pure function of the contract, the ledger and the landing.

    `missing` names required inputs that are not there (TransientError); `blocked` names inputs whose verdict forbids
    building on them (DataError).
    """

    asset: str
    day: date
    contract_digest: str
    logic_version: int
    parents: tuple[Parent, ...] = ()
    missing: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    changes: str | None = None  # what differs from what is built, where the plan knows it better than its parents say

    @property
    def input_digest(self) -> str:
        return input_digest(self.contract_digest, self.logic_version, self.parents)


def input_digest(contract_digest: str, logic_version: int, parents: Iterable[Parent]) -> str:
    """The digest of everything a result is made from."""
    inputs = sorted([p.asset, p.day.isoformat(), p.piece or "", p.digest] for p in parents)
    return digest_of_json({"contract": contract_digest, "logic": logic_version, "parents": inputs})


def contract_digest(keys: Mapping[str, Any]) -> str:
    """The digest of those keys of a contract that matter to one asset (pydantic models are taken as JSON)."""
    return digest_of_json({k: v.model_dump(mode="json") if isinstance(v, BaseModel) else v for k, v in keys.items()})


def content_digest(files: Iterable[FileEntry]) -> str:
    """The digest of what a result holds, from its files' names and contents. A file without rows counts as absent.

    The parts of a whole count as one, by the sum of their rows' hashes.
    """
    contents: dict[str, list[str]] = defaultdict(list)
    for entry in files:
        if entry.rows:
            contents[entry.whole or entry.name].append(entry.content)
    return combined((name, parts[0] if len(parts) == 1 else sum_of(parts)) for name, parts in contents.items())


@dataclass(frozen=True, kw_only=True)
class Staleness:
    """How far a built day lies behind its plan. `weight` is the share of its history rows that changed, 0 to 1."""

    reason: str
    history_only: bool
    weight: float


def staleness(built: Manifest, plan: Plan) -> Staleness | None:
    """Why a built day no longer is what its plan would give, or None."""
    if built.input_digest == plan.input_digest:
        return None
    if built.logic_version != plan.logic_version:
        reason = f"logic of {built.asset} is now version {plan.logic_version}, was {built.logic_version}"
        return Staleness(reason=reason, history_only=False, weight=1.0)
    if built.contract_digest != plan.contract_digest:
        return Staleness(reason=f"the contract's keys for {built.asset} changed", history_only=False, weight=1.0)

    if plan.changes is not None:
        return Staleness(reason=plan.changes, history_only=False, weight=1.0)

    def keyed(parents: Iterable[Parent]) -> dict[tuple[str, date, str | None], Parent]:
        return {(p.asset, p.day, p.piece): p for p in parents}

    before, now = keyed(built.parents), keyed(plan.parents)
    differing = [
        k for k in before.keys() | now.keys() if k not in before or k not in now or before[k].digest != now[k].digest
    ]
    changed = [now.get(k) or before[k] for k in sorted(differing, key=lambda k: (k[0], k[1], k[2] or ""))]
    history = [p for p in changed if p.role == "history"]
    own = [p for p in changed if p.role != "history"]
    first = (own or history)[0]
    reason = f"{first.asset} {first.piece or first.day} changed" + (
        f" and {len(changed) - 1} more" if changed[1:] else ""
    )
    if own:
        return Staleness(reason=reason, history_only=False, weight=1.0)
    rows = sum(p.rows for p in plan.parents if p.role == "history")
    weight = min(1.0, sum(p.rows for p in history) / rows) if rows else 1.0
    return Staleness(reason=f"history: {reason}", history_only=True, weight=weight)
