"""Some rows of a landed file as columns of text: nothing is typed before the contract casts it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from assets.ingestion.reasons import Reason
from resources.contract.dataset import Dataset
from resources.contract.errors import DataError

_DELIMITERS = ",;\t|"
_NAMED = 10  # columns of a file that a message names


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
    delimiter = dataset.source.csv.delimiter
    if dataset.source.format == "csv" and len(found) == 1:
        [header] = found
        likely = max(_DELIMITERS, key=header.count)
        if likely != delimiter and likely in header:
            raise DataError(
                f"{file} has one column when it is cut at {json.dumps(delimiter)}, and {json.dumps(likely)} in its header: set "
                f"`source.csv.delimiter` to {json.dumps(likely)}."
            )
    # of a file that lacks its header, the names found are the values of somebody's row
    personal = any(column.personal for column in dataset.columns.values())
    if personal and not declared_columns(dataset).keys() & set(found):
        names = f"{len(found)} others"
    else:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        names = (", ".join(map(repr, list(found)[:_NAMED])) or "none") + more
    remedies = ["Land the file with it"]
    if dataset.time.column in missing:
        remedies.append("name the column of the times in `time.column`")
    if missing != [dataset.time.column]:
        remedies.append("declare a column that may be missing `required: false`")
    raise DataError(
        f"{file} has no column {', '.join(map(repr, missing))}, which the contract of {dataset.name} requires; it has "
        f"{names}. {', or '.join(remedies)}."
    )
