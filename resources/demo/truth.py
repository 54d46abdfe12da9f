"""The demo's truth: the probability of a click as a pure function of what a pipeline can see of a row.

Main effects of every column, and three crosses that no sum of main effects can express. The effect of a level (or of a
pair of levels) is drawn by hashing the level itself, so that a user first seen tomorrow has one too; a missing value is
a level of its own. Nothing is hidden from a model: what it falls short of `best_possible`, it has failed to learn.

Frozen by golden digests in its test, after `benchmarks/demo_truth.py` had shown its shape on 12 seeds: a best AUC of
0.756 to 0.780; of the way there from 0.5, a tuned logistic regression gets 52 to 66 % (5 seeds) and one epoch of a DCN
93 to 96 %. Work on the model, not on the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from resources.contract.buckets import hash64
from resources.contract.days import HOUR_US, SECOND_US
from resources.demo.chance import deviates

ZONE = "Europe/Berlin"

_INTERCEPT = -1.4
_EFFECTS = {  # standard deviation, in log odds, over the levels of a factor or over the pairs of levels of two
    ("user",): 0.1,
    ("item",): 0.2,
    ("category",): 0.3,
    ("brand",): 0.1,
    ("device",): 0.1,
    ("country",): 0.2,
    ("price_band",): 0.1,
    ("hour",): 0.15,
    ("country", "category"): 0.65,
    ("hour", "device"): 0.7,
    ("price_band", "country"): 0.45,
}
_TEXTS = ("user", "item", "category", "brand", "device", "country")
_BAND_EDGES_CENTS = (8_00, 15_00, 25_00, 40_00, 80_00)
_MISSING_BAND = 255

Column: TypeAlias = pa.Array | pa.ChunkedArray


@dataclass(frozen=True, kw_only=True)
class BestPossible:
    """How well the planted probability itself predicts the clicks of some rows. `auc` is NaN where all rows agree."""

    rows: int
    auc: float
    log_loss: float


def hours_of(event_time: Column, *, zone: str = ZONE) -> pa.Array:
    """The hour of the day (0 to 23) in a zone whose offsets are whole hours, of UTC timestamps."""
    instants = event_time.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy(zero_copy_only=False)
    hours, position = np.unique(instants // HOUR_US, return_inverse=True)
    local = [datetime.fromtimestamp(int(hour) * HOUR_US // SECOND_US, ZoneInfo(zone)).hour for hour in hours]
    return pa.array(np.array(local, dtype=np.int64)[position])


def price_bands(price: Column) -> np.ndarray:
    """The band of each price, from its whole cents: decimal or double, it is the same band."""
    cents = np.rint(price.cast(pa.float64()).to_numpy(zero_copy_only=False) * 100)
    return np.where(np.isnan(cents), _MISSING_BAND, np.searchsorted(_BAND_EDGES_CENTS, cents, side="right"))


def logits(columns: Mapping[str, Column], *, seed: int) -> np.ndarray:
    """float64 log odds of a click per row, made of sums and products alone: the same bits on every machine."""
    levels = {name: hash64(columns[name]) for name in _TEXTS}
    levels["price_band"] = price_bands(columns["price"])
    levels["hour"] = columns["hour"].to_numpy(zero_copy_only=False)
    total = np.full(len(levels["hour"]), _INTERCEPT)
    for factors, size in _EFFECTS.items():
        total += size * deviates(" x ".join(factors), *(levels[factor] for factor in factors), seed=seed)
    return total


def probability(columns: Mapping[str, Column], *, seed: int) -> np.ndarray:
    """float64 probability of a click per row.

    Args:
        columns: user, item, category, brand, device, country (text), price (any number; these may all be null), and
            hour (0 to 23 in the shop's zone).
    """
    return 1 / (1 + np.exp(-logits(columns, seed=seed)))


def planted_probability(rows: pa.Table, *, seed: int = 0) -> np.ndarray:
    """`probability` of ingested rows: the hour is told from event_time."""
    columns = {name: rows[name] for name in (*_TEXTS, "price")}
    return probability({**columns, "hour": hours_of(rows["event_time"])}, seed=seed)


def best_possible(rows: pa.Table, *, seed: int = 0) -> BestPossible:
    """The AUC and log loss that nobody can expect to beat on these ingested rows (with `clicked`); at least one row."""
    from sklearn.metrics import log_loss, roc_auc_score

    clicked = rows["clicked"].to_numpy()
    planted = planted_probability(rows, seed=seed)
    both = 0 < clicked.sum() < len(clicked)
    return BestPossible(
        rows=len(clicked),
        auc=float(roc_auc_score(clicked, planted)) if both else float("nan"),
        log_loss=float(log_loss(clicked, planted, labels=[False, True])),
    )
