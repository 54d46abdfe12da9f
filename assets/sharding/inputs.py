"""Which results a day may be made from: there, of today's contract, not refused by their own checks; and their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

import pyarrow as pa

from assets.sharding.pieces import read_table
from resources.contract.dataset import Dataset
from resources.contract.manifest import Ledger, Manifest, Parent, Plan, Role
from resources.lake import Lake

_FLOW = ("deliveries", "shards", "rollups")


def names_and_types(schema: pa.Schema) -> list[list[str]]:
    """The columns of a schema, in order."""
    return [[column.name, str(column.type)] for column in schema]


def columns_key(dataset: Dataset) -> list[list[str]]:
    """Names and types of an ingested row, in order: content digests do not know a column's name."""
    return names_and_types(dataset.row_schema)


@dataclass
class Inputs:
    """The parents of a plan, gathered one by one; what is required and cannot be read stands in the other two lists."""

    ledger: Ledger
    parents: list[Parent] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)

    def readable(
        self, asset: str, day: date, *, required: bool, present: tuple[str, int] | None = None
    ) -> Manifest | None:
        """The manifest of one input, or None where it must not be read.

        Args:
            required: whether the plan waits for it; an input ahead is read as far as it is there.
            present: contract digest and logic version that it must have been built by: results of an older contract
                do not mix with new ones.
        """
        manifest = self.ledger.get(asset, day)
        outdated = manifest is not None and present not in (None, (manifest.contract_digest, manifest.logic_version))
        refusal = manifest.blocked_by if manifest else None
        if manifest is not None and not outdated and refusal is None:
            return manifest
        if not required:
            return None
        if outdated:
            self.missing.append(f"{asset} {day} by the present contract")
        elif refusal is not None:
            self.blocked.append(f"{asset} {day} failed {refusal}")
        elif (refusal := self._refused_before(asset, day)) is not None:
            self.blocked.append(refusal)
        else:
            self.missing.append(f"{asset} {day}")
        return None

    def add(self, manifest: Manifest, *, role: Role, rows: int) -> None:
        """Records an input that is read as a whole."""
        self.parents.append(
            Parent(asset=manifest.asset, day=manifest.day, digest=manifest.content_digest, role=role, rows=rows)
        )

    def plan(self, asset: str, day: date, *, present: tuple[str, int]) -> Plan:
        """The plan of a day from what was gathered, for the present contract digest and logic version."""
        return Plan(
            asset=asset,
            day=day,
            contract_digest=present[0],
            logic_version=present[1],
            parents=tuple(self.parents),
            missing=tuple(self.missing),
            blocked=tuple(self.blocked),
        )

    def _refused_before(self, asset: str, day: date) -> str | None:
        """Why an input that is not there will not come either: what it would be made from was refused."""
        for before in _FLOW[: _FLOW.index(asset)]:
            manifest = self.ledger.get(before, day)
            if manifest is not None and manifest.blocked_by:
                return f"{before} {day} failed {manifest.blocked_by}"
        return None


def manifest_of(ledger: Ledger, parent: Parent) -> Manifest:
    """The manifest that a plan over the same ledger named as a parent."""
    manifest = ledger.get(parent.asset, parent.day)
    assert manifest is not None
    return manifest


def own_buckets(
    lake: Lake, ledger: Ledger, plan: Plan, *, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, pa.Table]]:
    """Bucket and rows of each file of the day's own shards, one bucket in memory at a time."""
    for parent in plan.parents:
        if (parent.asset, parent.role) == ("shards", "own"):
            shards = manifest_of(ledger, parent)
            for entry in shards.files:
                if entry.bucket is not None:
                    yield entry.bucket, read_table(lake, shards, entry, columns=columns)
