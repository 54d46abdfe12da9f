"""Days in a zone: their bounds, the day an instant falls on, and spans of hours counted in real time.

A day is the half-open interval between two local midnights, so it has 23, 24 or 25 hours. Instants are
microseconds since 1970-01-01T00:00Z (int64) everywhere in the product.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import numpy as np

SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant_us(moment: datetime) -> int:
    """Microseconds since the epoch of an aware datetime, exactly."""
    if moment.tzinfo is None:
        raise ValueError(f"instant_us needs an aware datetime, got {moment!r}")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def day_start_us(day: date, zone: str) -> int:
    """The instant of local midnight that begins `day`."""
    # In UTC, since the difference of two aware datetimes of one zone ignores its clock changes.
    return instant_us(datetime.combine(day, time.min, tzinfo=ZoneInfo(zone)).astimezone(UTC))


def day_bounds_us(day: date, zone: str) -> tuple[int, int]:
    """First instant of `day` and first instant of the next one."""
    return day_start_us(day, zone), day_start_us(day + timedelta(days=1), zone)


def day_of(instant: int, zone: str) -> date:
    """The day in `zone` on which one instant (us) falls."""
    return (_EPOCH + timedelta(microseconds=instant)).astimezone(ZoneInfo(zone)).date()


def days_of(instants: np.ndarray, zone: str) -> np.ndarray:
    """The days (datetime64[D]) in `zone` on which instants (int64 us) fall, one per instant.

    Exact for any offset: the local midnights between the first and the last instant are laid out, and each
    instant is looked up among them. Spans of more than 1,000 years are refused: filter implausible times first.
    """
    if len(instants) == 0:
        return np.empty(0, dtype="datetime64[D]")
    first, last = day_of(int(instants.min()), zone), day_of(int(instants.max()), zone)
    if (last - first).days > 366_000:
        raise ValueError(f"instants span {first}..{last}: filter implausible times before asking for their days")
    starts = np.array([day_start_us(day, zone) for day in days_between(first, last + timedelta(days=1))])
    index = np.searchsorted(starts, instants, side="right") - 1
    return np.datetime64(first, "D") + index.astype("timedelta64[D]")


def days_between(first: date, last: date) -> Iterator[date]:
    """Every day from `first` to `last`, both included; nothing when `last` is earlier."""
    for offset in range((last - first).days + 1):
        yield first + timedelta(days=offset)


def horizon_day(day: date, *, zone: str, within_hours: float) -> date:
    """The last day on which something can happen within `within_hours` of an event of `day`.

    Computed from the day's last instant in real hours, so that a clock change inside the horizon is counted.
    """
    last_instant = day_bounds_us(day, zone)[1] - 1
    return day_of(last_instant + round(within_hours * HOUR_US), zone)
