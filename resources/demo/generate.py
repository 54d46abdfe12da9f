"""The demo's landed files: an invented shop's impressions, day by day, with the dirt that real deliveries have.

A day is a pure function of (day, seed, scale): no other day needs to be made first. The shop opens on FIRST_DAY.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache

import numpy as np
import pyarrow as pa

from resources.contract.days import SECOND_US, day_bounds_us
from resources.demo.chance import deviates, uniforms
from resources.demo.truth import ZONE, hours_of, probability

FIRST_DAY = date(2026, 1, 1)
NUM_DAYS = 16
ROWS_PER_DAY = 36_000
_WEEKDAY = (0.94, 0.95, 0.97, 1.0, 1.03, 1.07, 1.04)  # Monday to Sunday
_HOUR = (22, 13, 8, 5, 4, 6, 14, 28, 42, 52, 58, 60, 62, 58, 54, 54, 58, 66, 76, 86, 90, 80, 60, 38)
_COUNTRIES = {"DE": 24, "FR": 18, "IT": 14, "ES": 12, "PL": 11, "NL": 9, "AT": 7, "NO": 5}
_DEVICES = {"mobile": 42, "desktop": 30, "tablet": 17, "tv": 11}
_NUM_CATEGORIES, _NUM_BRANDS = 30, 200
_MISSING = {"user": 0.02, "category": 0.004, "brand": 0.03, "device": 0.005, "country": 0.01, "price": 0.015}


def _pick(weights, drawn):
    ends = np.cumsum(np.asarray(weights, dtype=float))
    return np.searchsorted(ends / ends[-1], drawn, side="right").clip(max=len(ends) - 1)


@lru_cache(8)
def _popularity(n):
    return (np.arange(n) + 10.0) ** -0.9


def _who(kind, *, base, daily, newcomers, day, num_rows, seed, scale):
    rows = np.arange(num_rows)
    per_day = max(1, round(daily * scale))
    known = max(20, round(base * scale)) + (day - FIRST_DAY).days * per_day
    draw = uniforms(f"{day}/{kind}", rows, seed=seed)
    old = _pick(_popularity(known), draw)
    new = known + (draw * per_day).astype(np.int64)
    return np.where(uniforms(f"{day}/new {kind}", rows, seed=seed) < newcomers, new, old)


def observed(day, *, seed=0, scale=1.0):
    num_rows = round(ROWS_PER_DAY * scale * _WEEKDAY[day.weekday()] * (1 + 0.03 * deviates("rows", np.array([day.toordinal()]), seed=seed)[0]))
    rows = np.arange(num_rows)
    def draw(purpose): return uniforms(f"{day}/{purpose}", rows, seed=seed)
    start, end = day_bounds_us(day, ZONE)
    hourly = np.cumsum((0, *_HOUR)) / sum(_HOUR)
    t = np.interp(np.sort(draw("time")), hourly, np.linspace(0, 1, 25))
    et = start + (t * (end - start)).astype(np.int64) // 1000 * 1000
    u = _who("user", base=22000, daily=500, newcomers=.04, day=day, num_rows=num_rows, seed=seed, scale=scale)
    i = _who("item", base=4600, daily=25, newcomers=.01, day=day, num_rows=num_rows, seed=seed, scale=scale)
    cat = _pick((np.arange(_NUM_CATEGORIES) + 5.0) ** -0.7, uniforms("category", i, seed=seed))
    brand = _pick((np.arange(_NUM_BRANDS) + 5.0) ** -0.7, uniforms("brand", i, seed=seed))
    price = np.exp(3.1 + .5 * deviates("category price", cat, seed=seed) + .75 * deviates("item price", i, seed=seed) + .1 * deviates(f"{day}/price", rows, seed=seed))
    price = np.rint(price * 100) / 100
    country = _pick(list(_COUNTRIES.values()), uniforms("country", u, seed=seed))
    main = uniforms("device", u, seed=seed)
    device = _pick(list(_DEVICES.values()), np.where(draw("own device") < .7, main, draw("device")))
    def text(name, values, index): return pa.array(np.array(values, dtype=object)[index], pa.string(), mask=draw(f"missing {name}") < _MISSING.get(name, 0))
    ids = lambda pre, mul, dig, x: np.array([f"{pre}{int(k) * mul % 10**dig:0{dig}d}" for k in x], dtype=object)
    un, ui = np.unique(u, return_inverse=True); inn, ii = np.unique(i, return_inverse=True)
    cols = dict(
        event_time=pa.array(et, pa.timestamp("us", "UTC")),
        user=text("user", ids("u", 7654321, 8, un), ui), item=text("item", ids("", 387421, 6, inn), ii),
        category=text("category", [f"c{k:02d}" for k in range(_NUM_CATEGORIES)], cat), brand=text("brand", [f"b{k:03d}" for k in range(_NUM_BRANDS)], brand),
        device=text("device", list(_DEVICES), device), country=text("country", list(_COUNTRIES), country),
        price=pa.array(price, mask=draw("missing price") < _MISSING["price"]))
    cols["hour"] = hours_of(cols["event_time"])
    p = probability(cols, seed=seed)
    cols["clicked"] = pa.array(draw("click") < p)
    cols["p"] = pa.array(p)
    return pa.table(cols)
