"""The unit in which a file counts its times, where the contract leaves that to the file: the one that fits all its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date, timedelta

import numpy as np
import pyarrow as pa

from assets.ingestion.conversion import texts_of
from assets.ingestion.numerals import roughly
from resources.contract.dataset import Days
from resources.contract.days import day_start_us
from resources.contract.errors import DataError

UNITS_PER_US = {"s": 1e-6, "ms": 1e-3, "us": 1.0, "ns": 1e3}
CREDIBLE = timedelta(days=3653)  # times further back before the first day come from a wrong unit or a reset clock
_LONG = timedelta(days=36525)  # units lie a factor of 1,000 apart, so within a century no two fit


@dataclass(frozen=True)
class Fits:
    """How many counts were read, and how many of them each unit would put on a credible day."""

    rows: int = 0
    by_unit: dict[str, int] = field(default_factory=lambda: dict.fromkeys(UNITS_PER_US, 0))

    def __add__(self, other: Fits) -> Fits:
        return Fits(self.rows + other.rows, {unit: n + other.by_unit[unit] for unit, n in self.by_unit.items()})

    @property
    def units(self) -> frozenset[str]:
        """The units that fit all of them."""
        return frozenset(unit for unit, rows in self.by_unit.items() if rows == self.rows)


def epoch_units(values: pa.Array, *, first_us: int, last_us: int) -> Fits:
    """What the counts of some rows fit; what is no number counts for nothing."""
    known = values.drop_null()
    counts = known.to_numpy().astype(np.float64) if pa.types.is_integer(known.type) else roughly(texts_of(known))
    inside = {
        unit: int(np.count_nonzero((first_us * scale <= counts) & (counts <= last_us * scale)))
        for unit, scale in UNITS_PER_US.items()
    }
    return Fits(len(counts), inside)


def credible_us(days: Days) -> tuple[int, int]:
    """From when to when a row of a dataset can be said to have happened, whatever day it was delivered on."""
    last = min(days.last or date.max, days.first + _LONG, date.max - timedelta(days=2))
    return day_start_us(days.first - CREDIBLE, days.zone), day_start_us(last + timedelta(days=2), days.zone)


def unit_of(columns: Iterable[pa.Array], days: Days, *, file: str) -> str:
    """The unit of a file's times. Raises DataError, naming those that were found, where no single one fits all of its rows."""
    first_us, last_us = credible_us(days)
    fits = sum((epoch_units(values, first_us=first_us, last_us=last_us) for values in columns), Fits())
    if not fits.rows:
        return "s"
    if len(fits.units) == 1:
        return next(iter(fits.units))
    found = ", ".join(f"{rows:,} in {unit}" for unit, rows in fits.by_unit.items() if rows)
    raise DataError(
        f"{file}: `time.epoch: auto` takes the one unit in which all rows of a file fall on credible days, but of its "
        f"{fits.rows:,} rows {found or 'none do in any'}. Land rows of one unit in one file, or declare the unit in `time.epoch`."
    )
