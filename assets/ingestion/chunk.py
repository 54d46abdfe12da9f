"""Some rows of a landed file as columns, as the file has them: nothing of a value changes before the contract casts it."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from assets.ingestion.reasons import Reason
from resources.contract.dataset import Dataset
from resources.contract.errors import DataError

_DELIMITERS = ",;\t|"
_NAMED = 10  # columns of a file that a message names

Layout = tuple[tuple[str, str], ...]  # the names and types of all columns that a file shows, in its order


@dataclass(frozen=True, kw_only=True)
class Broken:
    """A row that could not be split into columns. `line` counts from 1 in the unpacked file."""

    line: int
    reason: Reason
    raw: str


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Some rows of a file, in its order: one column per declared one, under the source's names.

    Text formats give texts, Parquet the types that the file has.

    `lines` is the line (of a Parquet file: the row) in which each row begins, `raw` gives a row as it was written.
    `seen` are the columns that the file has shown, in its order, and the names of their types (of text: none).
    """

    columns: pa.Table
    lines: np.ndarray
    raw: Callable[[int], str | None]
    broken: tuple[Broken, ...] = ()
    seen: Layout = ()
    epoch: str | None = None  # the unit of the times, where the contract leaves it to the file

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


def categories_of(dataset: Dataset) -> frozenset[str]:
    """The source's names of the columns whose values repeat, as the contract says: they are quicker as dictionaries."""
    return frozenset(name for name, column in dataset.columns.items() if column.type == "category")


def declared_columns(dataset: Dataset) -> dict[str, bool]:
    """The source's names of all declared columns, the time first, and whether each is required."""
    return {dataset.time.column: True} | {name: column.required for name, column in dataset.columns.items()}


def resolved(found: Sequence[str], declared: Collection[str], *, file: str) -> dict[str, int | None]:
    """Where among a file's columns each declared one stands; None if it is missing.

    A name that differs only in case stands for one that the file does not have (unless the contract itself tells
    names apart by case). Raises DataError where a declared column stands there twice.
    """
    exact: dict[str, list[int]] = {}
    alike: dict[str, list[int]] = {}
    for place, name in enumerate(found):
        exact.setdefault(name, []).append(place)
        alike.setdefault(name.casefold(), []).append(place)
    folded = Counter(name.casefold() for name in declared)
    result: dict[str, int | None] = {}
    for name in declared:
        at = exact.get(name, [])
        if not at and folded[name.casefold()] == 1:
            at = alike.get(name.casefold(), [])
        if len(at) > 1:
            shown = " and ".join(repr(found[place]) for place in at[:2])
            raise DataError(
                f"{file} has two columns {name!r} ({shown}): it cannot be told which one is meant. Rename one."
            )
        result[name] = at[0] if at else None
    return result


def require_columns(dataset: Dataset, found: Collection[str], *, file: str) -> None:
    """Raises DataError naming a required column that a file does not have."""
    declared = declared_columns(dataset)
    places = resolved(list(found), declared, file=file)
    missing = [name for name, required in declared.items() if required and places[name] is None]
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
