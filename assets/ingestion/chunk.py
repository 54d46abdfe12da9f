"""Some rows of a landed file as columns of text: nothing is typed before the contract casts it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from assets.ingestion.reasons import Reason
from resources.contract.dataset import Dataset
from resources.contract.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A row that could not be split into columns. `line` counts from 1 in the unpacked file."""

    line: int
    reason: Reason
    raw: str


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some rows of a file, in its order: one text column per declared column, under the source's names.

    `lines` is the line (of a Parquet file: the row) in which each row begins, `raw` gives a row as it was written.
    """

    columns: pa.Table
    lines: np.ndarray
    raw: Callable[[int], str | None]
    broken: tuple[Broken, ...] = ()
    undeclared: frozenset[str] = frozenset()

    @property
    def num_rows(self) -> int:
        """All rows that were read, whether they could be split or not."""
        return self.columns.num_rows + len(self.broken)

    def first(self, rows: int) -> Chunk:
        """The first rows, with the broken ones that stand before the next."""
        until = self.lines[rows] if rows < len(self.lines) else math.inf
        return replace(
            self,
            columns=self.columns.slice(0, rows),
            lines=self.lines[:rows],
            broken=tuple(row for row in self.broken if row.line < until),
        )


def declared_columns(dataset: Dataset) -> dict[str, bool]:
    """The source's names of all declared columns, the time first, and whether each is required."""
    return {dataset.time.column: True} | {name: column.required for name, column in dataset.columns.items()}


def require_columns(dataset: Dataset, found: Collection[str], *, file: str) -> None:
    """Raises DataError naming a required column that a file does not have."""
    missing = [name for name, required in declared_columns(dataset).items() if required and name not in found]
    if not missing:
        return
    # of a file that lacks its header, the names found are the values of somebody's row
    personal = any(column.personal for column in dataset.columns.values())
    names = f"{len(found)} others" if personal else ", ".join(map(repr, sorted(found)))
    raise DataError(
        f"{file} has no column {', '.join(map(repr, missing))}, which the contract of {dataset.name} requires; it has "
        f"{names}. Land the file with it, or declare it `required: false`."
    )
