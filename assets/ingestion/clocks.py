"""What the clocks of a zone showed: offsets from UTC of times on a wall clock."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

_MINUTE_US = 60_000_000
_DAY_MINUTES = 24 * 60
_EPOCH = datetime(1970, 1, 1)
_DAYS = tuple((bound - _EPOCH).days for bound in (datetime(1, 1, 2), datetime(9999, 12, 30)))


def offsets(walls_us: np.ndarray, zone: str) -> tuple[np.ndarray, np.ndarray]:
    """Per time on a wall clock, the zone's offset in us before and after a clock change there; else twice the same.

    By PEP 495 the two of a skipped time rise, and those of a repeated time fall; the first gives the earlier instant of a
    repeated time.
    """
    days, minutes = np.divmod(walls_us // _MINUTE_US, _DAY_MINUTES)
    days = np.clip(days, _DAYS[0], _DAYS[1])  # what lies outside is implausible in any zone
    distinct = np.unique(days) if days.min() != days.max() else days[:1]
    known = [_of_day(zone, day) for day in distinct.tolist()]
    first = np.array([before[0] for before, _ in known])[np.searchsorted(distinct, days)]
    second = first.copy()
    for day, (before, after) in zip(distinct, known, strict=True):
        if len(before) > 1:
            rows = np.flatnonzero(days == day)
            first[rows], second[rows] = before[minutes[rows]], after[minutes[rows]]
    return first, second


@lru_cache(maxsize=1 << 14)
def _of_day(zone: str, day: int) -> tuple[np.ndarray, np.ndarray]:
    """Both offsets in every minute of a day on the wall clock; of a day without a clock change, one for all."""
    rules, midnight = ZoneInfo(zone), _EPOCH + timedelta(days=day)

    def offset_us(minute: int, fold: int) -> int:
        offset = (midnight + timedelta(minutes=minute)).replace(tzinfo=rules, fold=fold).utcoffset()
        assert offset is not None
        return offset // timedelta(microseconds=1)

    hours = {offset_us(minute, fold) for minute in range(0, _DAY_MINUTES + 1, 60) for fold in (0, 1)}
    # no clock is changed and changed back within an hour
    every = range(1) if len(hours) == 1 else range(_DAY_MINUTES)
    before, after = (np.array([offset_us(minute, fold) for minute in every]) for fold in (0, 1))
    return before, after
