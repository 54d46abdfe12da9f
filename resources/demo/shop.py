"""The demo's invented shop: the impressions that happen on a day, before any delivery spoils them.

A day is a pure function of (day, seed, scale): no other day has to be made first. The shop opens on FIRST_DAY with most
of its users and items; more join every day, are seen a few times at once, and then lie in the tail. Both are drawn
with heavy tails. Users keep a country and mostly one device; items keep a category, a brand and roughly a price.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from resources.contract.days import day_bounds_us
from resources.demo.chance import deviates, uniforms
from resources.demo.truth import ZONE, planted_probability

FIRST_DAY = date(2026, 1, 1)

_ROWS_PER_DAY = 36_000
_WEEKDAY_SHARE = (0.94, 0.95, 0.97, 1.00, 1.03, 1.07, 1.04)  # Monday first
_HOUR_SHARE = (22, 13, 8, 5, 4, 6, 14, 28, 42, 52, 58, 60, 62, 58, 54, 54, 58, 66, 76, 86, 90, 80, 60, 38)
_COUNTRY_SHARE = {"DE": 24, "FR": 18, "IT": 14, "ES": 12, "PL": 11, "NL": 9, "AT": 7, "NO": 5}
_DEVICE_SHARE = {"mobile": 42, "desktop": 30, "tablet": 17, "tv": 11}
_OWN_DEVICE = 0.7  # of a user's impressions
_CATEGORIES = (
    "shoes shirts jackets dresses sport toys books games music garden tools kitchen lamps sofas beds carpets phones "
    "laptops cameras watches beauty health pets groceries"
).split()
_BRANDS = [f"brand-{number:03d}" for number in range(150)]
_MISSING_SHARE = {"user": 0.02, "category": 0.004, "brand": 0.03, "device": 0.005, "country": 0.01, "price": 0.015}


@dataclass(frozen=True, kw_only=True)
class _Population:
    """Who or what the impressions are of, at scale 1. Ids are scrambled, so that they tell nothing of age or rank."""

    name: str
    at_first: int
    per_day: int
    newcomers: float  # share of a day's rows that goes to those who join on it
    scramble: int  # odd and no multiple of 5, so that no two get the same id
    digits: int
    prefix: str = ""

    def drawn(self, day: date, *, num_rows: int, seed: int, scale: float) -> np.ndarray:
        """The number of the member that each row of a day is of."""
        rows = np.arange(num_rows)
        per_day = max(1, round(self.per_day * scale))
        known = max(10, round(self.at_first * scale)) + (day - FIRST_DAY).days * per_day
        popularity = (np.arange(known) + 10.0) ** -1.05
        old = _pick(popularity, uniforms(f"{self.name} {day}", rows, seed=seed))
        new = known + (uniforms(f"new {self.name} {day}", rows, seed=seed) * per_day).astype(np.int64)
        return np.where(uniforms(f"is new {self.name} {day}", rows, seed=seed) < self.newcomers, new, old)

    def ids(self, members: np.ndarray) -> pa.Array:
        """The id of each member, as text."""
        distinct, position = np.unique(members, return_inverse=True)
        scrambled = (int(member) * self.scramble % 10**self.digits for member in distinct)
        return pa.array([f"{self.prefix}{number:0{self.digits}d}" for number in scrambled]).take(pa.array(position))


_USERS = _Population(
    name="user", at_first=22_000, per_day=500, newcomers=0.04, scramble=7_654_321, digits=8, prefix="u"
)
_ITEMS = _Population(name="item", at_first=4_600, per_day=25, newcomers=0.01, scramble=387_421, digits=6)


def _pick(shares: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The index that each uniform number falls on when indices have these shares."""
    ends = np.cumsum(shares)
    return np.searchsorted(ends, drawn * ends[-1], side="right").clip(max=len(ends) - 1)


def _tailed(count: int) -> np.ndarray:
    return (np.arange(count) + 5.0) ** -0.7


def _times(day: date, drawn: np.ndarray) -> np.ndarray:
    """Instants (us, whole milliseconds) of a day in its order; a day of 23 or 25 hours stretches the same shape."""
    start, end = day_bounds_us(day, ZONE)
    passed = np.cumsum((0, *_HOUR_SHARE)) / sum(_HOUR_SHARE)
    share_of_day = np.interp(np.sort(drawn), passed, np.arange(25) / 24)
    return start + (share_of_day * (end - start)).astype(np.int64) // 1000 * 1000


def events(day: date, *, seed: int = 0, scale: float = 1.0) -> pa.Table:
    """The impressions of a day as ingestion should keep them (impression, event_time, ... clicked), ordered by time.

    Raises:
        ValueError: the day lies before the shop opened.
    """
    if day < FIRST_DAY:
        raise ValueError(f"the demo's shop opened on {FIRST_DAY}, there is nothing on {day}")
    busy = 1 + 0.03 * deviates("rows", np.array([day.toordinal()]), seed=seed)[0]
    num_rows = max(1, round(_ROWS_PER_DAY * scale * _WEEKDAY_SHARE[day.weekday()] * busy))
    rows = np.arange(num_rows)

    def drawn(purpose: str) -> np.ndarray:
        return uniforms(f"{purpose} {day}", rows, seed=seed)

    def shown(name: str, values: pa.Array) -> pa.Array:
        missing = pa.array(drawn(f"missing {name}") < _MISSING_SHARE[name])
        return pc.if_else(missing, None, values)

    def named(name: str, names: Sequence[str], index: np.ndarray) -> pa.Array:
        return shown(name, pa.array(names).take(pa.array(index)))

    users = _USERS.drawn(day, num_rows=num_rows, seed=seed, scale=scale)
    items = _ITEMS.drawn(day, num_rows=num_rows, seed=seed, scale=scale)
    categories = _pick(_tailed(len(_CATEGORIES)), uniforms("category", items, seed=seed))
    device_draws = np.where(drawn("own device") < _OWN_DEVICE, uniforms("device", users, seed=seed), drawn("device"))
    log_price = 3.1 + 0.5 * deviates("category price", categories, seed=seed)
    log_price += 0.75 * deviates("item price", items, seed=seed) + 0.1 * deviates(f"price {day}", rows, seed=seed)
    table = pa.table(
        {
            # unique over all days: the day, then the row
            "impression": int(f"{day:%Y%m%d}") * 10**8 + rows,
            "event_time": pa.array(_times(day, drawn("time")), pa.timestamp("us", tz="UTC")),
            "user": shown("user", _USERS.ids(users)),
            "item": _ITEMS.ids(items),
            "category": named("category", _CATEGORIES, categories),
            "brand": named("brand", _BRANDS, _pick(_tailed(len(_BRANDS)), uniforms("brand", items, seed=seed))),
            "device": named("device", list(_DEVICE_SHARE), _pick(np.array([*_DEVICE_SHARE.values()]), device_draws)),
            "country": named(
                "country",
                list(_COUNTRY_SHARE),
                _pick(np.array([*_COUNTRY_SHARE.values()]), uniforms("country", users, seed=seed)),
            ),
            "price": shown("price", pa.array(np.exp(log_price)).cast(pa.decimal128(18, 2))),
        }
    )
    chances = planted_probability(table, seed=seed)
    return table.append_column("clicked", pa.array(drawn("click") < chances))
