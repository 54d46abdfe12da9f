"""How delimited text is written, told from its first lines: the reading under which most rows are as wide as the header."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from assets.ingestion.look.question import Question
from resources.contract.errors import DataError
from resources.contract.source import Csv

# a delimiter that is rare in values stands before one that is not
_DELIMITERS = {"\t": "tab", "\x01": "Hive's 0x01", "|": "|", ";": ";", ",": ","}
_HEAD_ROWS = 500
_VALUE = re.compile(r"[+-]?\d[\d.,eE+-]*|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?!\d).*|[^@\s]+@[^@\s]+\.\w+|true|false", re.I)


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The letters of a file, the names of its columns, and why."""

    csv: Csv
    names: tuple[str, ...]
    reasons: Mapping[str, str]
    questions: tuple[Question, ...]


@dataclass(frozen=True, kw_only=True)
class _Reading:
    delimiter: str
    quote: str | None
    escape: str | None
    rows: list[list[str]]
    pairs: bool  # whether all quotes do

    @property
    def width(self) -> int:
        return Counter(map(len, self.rows)).most_common(1)[0][0]

    @property
    def fit(self) -> float:
        """The share of rows as wide as most are; half of it where the first is not, and none for a single column."""
        alike = sum(len(row) == self.width for row in self.rows) / len(self.rows)
        return (self.width > 1) * alike * (1 if len(self.rows[0]) == self.width else 0.5)


def of(head: str, *, file: str) -> Dialect:
    """The dialect of a file that begins with these whole lines. Raises DataError where there is one column only."""
    comment = _comment(head)
    if comment:
        head = "\n".join(line for line in head.splitlines() if not line.startswith(comment))
    readings = [_read(head, delimiter=delimiter) for delimiter in _DELIMITERS]
    plain = max((reading for reading in readings if reading.rows), key=lambda reading: round(reading.fit, 2))
    if not plain.fit:
        raise DataError(
            f"{file} has one column, whichever of {', '.join(_DELIMITERS.values())} is taken for the delimiter: a dataset needs "
            "a time and a user at least."
        )
    best = _with_quotes(head, plain)
    header = _has_header(best.rows)
    names = tuple(best.rows[0]) if header else tuple(f"column_{place}" for place in range(1, best.width + 1))
    alike = sum(len(row) == best.width for row in best.rows)
    reasons = {
        "delimiter": f"it gives {alike:,} of the first {len(best.rows):,} lines {best.width} columns",
        "quote": "quotes do not pair, so they are letters" if best.quote is None else "values stand in them",
        "escape": "it stands before quotes within values",
        "comment": "the first lines begin with it",
        "header": "the first line holds values",
    }
    asked = Question(key="source.csv.header", text="no line names the columns: what are they called?")
    return Dialect(
        csv=Csv(
            delimiter=best.delimiter,
            quote=best.quote,
            escape=best.escape,
            comment=comment,
            header=True if header else names,
        ),
        names=names,
        reasons=reasons,
        questions=() if header else (asked,),
    )


def _read(head: str, *, delimiter: str, quote: str | None = '"', escape: str | None = None) -> _Reading:
    quoting = csv.QUOTE_NONE if quote is None else csv.QUOTE_MINIMAL

    def rows(*, strict: bool) -> list[list[str]]:
        reader = csv.reader(
            io.StringIO(head, newline=""),
            delimiter=delimiter,
            quotechar=quote,
            escapechar=escape,
            quoting=quoting,
            strict=strict,
        )
        return [row for row in islice(reader, _HEAD_ROWS) if row]

    try:
        return _Reading(delimiter=delimiter, quote=quote, escape=escape, rows=rows(strict=True), pairs=True)
    except csv.Error:
        pass
    try:
        return _Reading(delimiter=delimiter, quote=quote, escape=escape, rows=rows(strict=False), pairs=False)
    except csv.Error:  # a field beyond all measure: this reading is none
        return _Reading(delimiter=delimiter, quote=quote, escape=escape, rows=[], pairs=False)


def _with_quotes(head: str, plain: _Reading) -> _Reading:
    """The reading with the quotes that fit: double ones unless another one makes more rows as wide as the header."""
    cells = [cell for row in plain.rows for cell in row]
    in_single = sum(len(cell) > 1 and cell[0] == cell[-1] == "'" for cell in cells)
    if in_single:
        single = _read(head, delimiter=plain.delimiter, quote="'")
        if single.fit > plain.fit or (single.fit == plain.fit and in_single * 4 > len(cells)):
            plain = single
    others = []
    if "\\" in head:
        others.append(_read(head, delimiter=plain.delimiter, quote=plain.quote, escape="\\"))
    if plain.quote and plain.quote in head:
        others.append(_read(head, delimiter=plain.delimiter, quote=None))
    return max([plain, *others], key=lambda reading: bool(reading.rows) and (reading.fit, reading.pairs))


def _comment(head: str) -> str | None:
    """`#` where the first lines begin with it and the line behind them is of another kind."""
    lines = head.splitlines()[:_HEAD_ROWS]
    after = next((line for line in lines if not line.startswith("#")), "")
    if not lines or not lines[0].startswith("#") or not after:
        return None
    return None if any(lines[0].count(d) == after.count(d) > 0 for d in _DELIMITERS) else "#"


def _has_header(rows: list[list[str]]) -> bool:
    """Whether the first row names the columns: no cell of it is a number, a time or an address, or stands below again."""
    first, rest = rows[0], rows[1:]
    if any(_VALUE.fullmatch(cell.strip()) for cell in first):
        return False
    again = [any(place < len(row) and row[place] == cell for row in rest) for place, cell in enumerate(first) if cell]
    return not any(again) or all(again)  # a whole header that comes again is of files that were joined
