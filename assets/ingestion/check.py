"""A look at what has landed, before anything is built: where a sample of it does not fit the contract."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from assets.ingestion.blocks import verified_by
from assets.ingestion.elsewhere import at_hand
from assets.ingestion.files import LandedFile, unmeant_files
from assets.ingestion.landing import Landing
from assets.ingestion.reading import read
from assets.ingestion.reasons import NOT_BAD
from assets.ingestion.sifting import Span, sift
from resources.contract.dataset import Dataset
from resources.contract.days import day_of
from resources.contract.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing about one file; `rows` is how many of the sampled rows show it, `example` the first of them.

    `share`: how many of the file's sampled rows are bad, for whatever reason; None where none could be read.
    `serious`: the file would be refused, or its share lies above `bad_rows.at_most` and this fault's own does too. Where
    no fault's own does, it is the most frequent one.
    """

    file: str
    what: str
    serious: bool = False
    rows: int | None = None
    example: str | None = None
    share: float | None = None

    def __str__(self) -> str:
        count = f" ({self.rows:,} of the sampled rows)" if self.rows is not None else ""
        name = "" if self.what.startswith(self.file) else f"{self.file}: "  # which messages of refusal begin with
        return f"{name}{self.what}{count}" + (f", for example {self.example}" if self.example else "")


def check_sample(dataset: Dataset, landing: Landing, *, max_files: int = 3, max_rows: int = 10_000) -> list[Finding]:
    """What does not fit in the first rows of some landed files, spread from the first to the last, and which are not taken.

    Changes nothing.
    """
    step = max(1, (len(landing.all) - 1) // max(1, max_files - 1))
    findings = [Finding(file=file.name, what=f"is not taken yet: it {file.why}") for file in landing.waiting]
    if unmeant := unmeant_files(dataset):
        others = len(unmeant) - 1
        more = f", nor {'is' if others == 1 else 'are'} {others:,} more" if others else ""
        findings.append(Finding(file=unmeant[0], what=f"is not taken{more}: source.files does not match its name"))
    for file in landing.all[::step][:max_files]:
        try:
            with at_hand(file) as here:
                verified_by(dataset, here)
                findings += _findings(dataset, landing, here, max_rows=max_rows)
        except DataError as error:
            findings.append(Finding(file=file.name, what=str(error), serious=True))
    return findings


def _findings(dataset: Dataset, landing: Landing, file: LandedFile, *, max_rows: int) -> list[Finding]:
    span, samples = _span(dataset, landing, file), []
    seen = num_good = 0
    empty = {name: True for name in dataset.columns}
    for chunk in read(dataset, file):
        sample = chunk.first(max_rows - seen)
        sifted = sift(dataset, sample, file=file.name, span=span)
        samples.append(sifted.quarantine)
        seen += sifted.num_good + sifted.quarantine.num_rows
        num_good += sifted.num_good
        for name in empty:
            columns = [table[str(dataset.columns[name].as_)] for table in sifted.good.values()]
            empty[name] &= all(column.null_count == len(column) for column in columns)
        if seen >= max_rows:
            break
    if not seen:
        return [Finding(file=file.name, what="holds no rows")]
    quarantine = pa.concat_tables(samples)
    faults = Counter(zip(*(quarantine[name].to_pylist() for name in ("reason", "column")), strict=True)).most_common()
    sound = {reason.text for reason in NOT_BAD}
    bad = [rows for (reason, _), rows in faults if reason not in sound]
    share, allowed = sum(bad) / seen, dataset.bad_rows.at_most * seen
    # the fewest rows that make a fault serious
    serious = min((rows for rows in bad if rows > allowed), default=bad[0]) if sum(bad) > allowed else math.inf
    found = [
        Finding(file=file.name, what=f"column {name!r} is empty or not there", rows=num_good, share=share)
        for name, nothing in empty.items()
        if nothing and num_good and not dataset.columns[name].required
    ]
    for (reason, column), rows in faults:
        first = next(row for row in quarantine.to_pylist() if (row["reason"], row["column"]) == (reason, column))
        value = f", {column} = {first['value']!r}" if column else ""
        found.append(
            Finding(
                file=file.name,
                what=reason,
                serious=rows >= serious and reason not in sound,
                rows=rows,
                example=f"line {first['line']:,}{value}",
                share=share,
            )
        )
    return found


def _span(dataset: Dataset, landing: Landing, file: LandedFile) -> Span:
    """The days that the file may hold: by its delivery day, or until a day after it was written."""
    for day, files in landing.by_day.items():
        if dataset.source.names_day and file in files:
            return Span.of_delivery(dataset, day)
    written = day_of(file.modified_ns // 1000, dataset.days.zone) + timedelta(days=1)
    return Span(oldest=dataset.days.first, newest=min(written, dataset.days.last or written), plausible=written)
