"""The demo's truth: the probability of a click as a pure function of what the pipeline can see of a row.

Main effects of every column, and three crosses that no sum of main effects can express. The effect of a level (or of
a pair of levels) is drawn by hashing the level itself, so that a user first seen tomorrow has one too. A missing value
is a level of its own. Nothing is hidden from a model: what it misses of `best_possible`, it has failed to learn.

Frozen by golden digests in the tests. Its shape (best AUC about 0.755, of which a tuned logistic regression gets about
70 % of the way from 0.5) is checked by `benchmarks/demo_truth.py`. Work on the model, not on the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from resources.contract.buckets import hash64
from resources.contract.days import HOUR_US, SECOND_US
from resources.demo.chance import deviates

ZONE = "Europe/Berlin"

_INTERCEPT = -1.7
_MAIN_EFFECTS = {
    "user": 0.2,
    "item": 0.3,
    "category": 0.35,
    "brand": 0.2,
    "device": 0.2,
    "country": 0.3,
    "price_band": 0.2,
    "hour": 0.2,
}
_CROSS_EFFECTS = {("country", "category"): 0.5, ("hour", "device"): 0.5, ("price_band", "country"): 0.5}
_BAND_EDGES_CENTS = (500, 800, 1200, 1800, 2500, 3500, 5000, 7500, 12000)
_MISSING_BAND = 255

Columns = Mapping[str, pa.Array | pa.ChunkedArray]


def hours_of(event_time: pa.Array | pa.ChunkedArray, *, zone: str = ZONE) -> pa.Array:
    """The hour of the day in `zone`, 0 to 23, of UTC timestamps. The zone's offset must be of whole hours."""
    instants = event_time.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy(zero_copy_only=False)
    hours, position = np.unique(instants // HOUR_US, return_inverse=True)
    local = [datetime.fromtimestamp(int(hour) * (HOUR_US // SECOND_US), ZoneInfo(zone)).hour for hour in hours]
    return pa.array(np.array(local, dtype=np.int64)[position])


def price_band(price: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """The band (0 to 9; 255 where missing) of each price, told by its whole cents so that its type does not matter."""
    cents = np.rint(price.cast(pa.float64()).to_numpy(zero_copy_only=False) * 100)
    return np.where(np.isnan(cents), _MISSING_BAND, np.searchsorted(_BAND_EDGES_CENTS, cents, side="right"))


def _levels(columns: Columns) -> dict[str, np.ndarray]:
    """One 64-bit word per row and factor of the truth."""
    texts = {name: hash64(columns[name]) for name in ("user", "item", "category", "brand", "device", "country")}
    hour = columns["hour"].cast(pa.int64()).to_numpy(zero_copy_only=False)
    return {**texts, "price_band": price_band(columns["price"]), "hour": hour}


def logits(columns: Columns, *, seed: int) -> np.ndarray:
    """float64 log odds of a click per row; bit for bit the same everywhere (only sums and products of doubles)."""
    levels = _levels(columns)
    total = np.full(len(levels["hour"]), _INTERCEPT)
    for name, size in _MAIN_EFFECTS.items():
        total += size * deviates(name, levels[name], seed=seed)
    for (one, other), size in _CROSS_EFFECTS.items():
        total += size * deviates(f"{one} x {other}", levels[one], levels[other], seed=seed)
    return total


def probability(columns: Columns, *, seed: int) -> np.ndarray:
    """float64 probability of a click per row.

    Args:
        columns: user, item, category, brand, device, country (text), price (any number), hour (0 to 23 in the
            dataset's zone), each with nulls where missing.
    """
    return 1 / (1 + np.exp(-logits(columns, seed=seed)))
