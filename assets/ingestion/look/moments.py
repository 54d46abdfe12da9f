"""How a column writes its times: the formats and epoch units under which ingestion itself reads its values."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import product

import numpy as np
import pyarrow as pa

from assets.ingestion.look.values import Values, words_of
from assets.ingestion.reasons import Reason
from assets.ingestion.times import instants
from resources.contract.days import instant_us
from resources.contract.source import Time

_DATES = (
    *("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%Y%m%d", "%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y"),
    *("%a, %d %b %Y", "%d/%b/%Y", "%d-%b-%y"),
)
_CLOCKS = ("", "%H:%M", "%H:%M:%S", "%H:%M:%S.%f", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p", "%H%M%S", "%H.%M.%S")
_BETWEEN = (" ", "T", ":", ", ", "")
_OFFSETS = ("", "%z", " %z", " %Z")
_ZONES = {"%z": ("Z", "+01", "+0100", "+01:00", "-01:00"), "%Z": ("UTC",)}
_ENOUGH = 0.9  # the share of values that a time's format must read
_FIRST, _LAST = (instant_us(datetime(year, 1, 1, tzinfo=UTC)) for year in (1990, 2100))
_EPOCH = r"^[0-9]{9,19}(\.[0-9]{1,9})?$"
# the best name first; a name that tells of another moment than the event's comes last
_EVENT = frozenset("event_time eventtime event_timestamp event_ts timestamp ts time datetime".split())
_TIMELY = frozenset("time timestamp ts date datetime at when on epoch occurred created day dt utc".split())
_OTHER = frozenset(
    "updated modified processed ingested received loaded inserted exported expires expired expiry birth birthday dob signup "
    "registered joined valid due end ended delivered deleted first last".split()
)


@dataclass(frozen=True, kw_only=True)
class Moments:
    """One way in which a column can be read as times: `format` (None: ISO 8601) or `epoch`.

    `also` is another format that reads as many values: the order of day and month cannot be told.
    """

    column: str
    format: str | None
    epoch: str | None
    zoneless: bool
    read: int  # rows
    of: int
    units: dict[str, int] | None = None  # rows by epoch unit, where there are several
    also: str | None = None

    @property
    def written(self) -> str:
        """The way, in words."""
        epochs = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
        if self.epoch:
            return f"{epochs[self.epoch]} since 1970"
        return "ISO 8601" if self.format is None else "of this format"

    @property
    def has_clock(self) -> bool:
        return self.epoch is not None or self.format is None or any(h in self.format for h in ("%H", "%I"))

    def time(self, zone: str = "UTC") -> Time:
        """The contract's words for it."""
        needs_zone = self.zoneless and self.epoch is None
        return Time.model_validate(
            {"column": self.column, "format": self.format, "epoch": self.epoch, "zone": zone if needs_zone else None}
        )

    @property
    def rank(self) -> tuple[int, bool]:
        """How much its name and its values speak for the moment of the event; the lowest is the best."""
        return _name_rank(self.column), not self.has_clock


def moments(values: Values) -> Moments | None:
    """How the values are written, if they are times: by their letters, or by the name and a credible epoch."""
    if not values.rows:
        return None
    return _texts(values) or _epoch(values)


def credible(times_us: np.ndarray) -> np.ndarray:
    """Whether instants lie where events of today's logs can."""
    return (times_us >= _FIRST) & (times_us < _LAST)


def timely(name: str) -> bool:
    return _name_rank(name) < 2


def _name_rank(name: str) -> int:
    words = words_of(name)
    if not _OTHER.isdisjoint(words):
        return 3
    if "_".join(words) in _EVENT:
        return 0
    return 1 if not _TIMELY.isdisjoint(words) or name.lower().endswith(("time", "date", "timestamp")) else 2


def _epoch(values: Values) -> Moments | None:
    if not timely(values.name) or not values.matching(_EPOCH).all():
        return None
    rows = {}
    for unit in ("s", "ms", "us", "ns"):
        found = instants(values.distinct, Time.model_validate({"column": values.name, "epoch": unit}))
        fine = np.isin(found.reasons, (Reason.FINE, Reason.NOT_EXACT)) & credible(found.times_us)
        if fine.any():
            rows[unit] = int(values.counts[fine].sum())
    if sum(rows.values()) < _ENOUGH * values.rows:
        return None
    unit = max(rows, key=lambda unit: rows[unit])
    return Moments(
        column=values.name,
        format=None,
        epoch=unit,
        zoneless=False,
        read=rows[unit],
        of=values.rows,
        units=rows if len(rows) > 1 else None,
    )


def _texts(values: Values) -> Moments | None:
    best: list[Moments] = []
    spans: list[float] = []
    for format_ in _candidates(values):
        found = instants(
            values.distinct, Time.model_validate({"column": values.name, "format": format_, "zone": "UTC"})
        )
        fine = found.reasons == Reason.FINE
        read = int(values.counts[fine].sum())
        if read < _ENOUGH * values.rows or (best and read < best[0].read):
            continue
        if format_ is not None and not credible(found.times_us[fine]).all():
            continue
        if best and read > best[0].read:
            best, spans = [], []
        zoned = format_ is not None and ("%z" in format_ or "%Z" in format_)
        zoneless = not zoned if format_ else _without_offset(values, read)
        best.append(
            Moments(column=values.name, format=format_, epoch=None, zoneless=zoneless, read=read, of=values.rows)
        )
        spans.append(float(np.ptp(found.times_us[fine])))
    if not best:
        return None
    # of two orders of day and month the right one rarely spreads a few days over the year
    narrow = int(np.argmin(spans)) if best[0].format is not None else 0
    first = best[narrow]
    also = next((m.format for m in best if m.format and first.format and _same_letters(m.format, first.format)), None)
    return replace(first, also=also)


def _same_letters(one: str, other: str) -> bool:
    """Whether two formats differ in the order of day and month alone."""
    return one != other and one.replace("%d", "%m") == other.replace("%d", "%m")


def _without_offset(values: Values, read: int) -> bool:
    bare = instants(values.distinct, Time.model_validate({"column": values.name}))
    return int(values.counts[bare.reasons == Reason.FINE].sum()) < read


def _candidates(values: Values) -> Iterator[str | None]:
    """ISO 8601, and each other format that writes texts of the same shape as one of the first values."""
    written = values.matching(r"[0-9]")
    if values.share(written) < _ENOUGH:
        return
    texts = values.distinct.filter(pa.array(written)).slice(0, 3).to_pylist()
    if all(text.isdigit() for text in texts) and not timely(values.name):
        return
    yield None
    for format_ in dict.fromkeys(format_ for text in texts for format_ in _formats().get(_shape(text), ())):
        if "%y" not in format_ or timely(values.name):  # 1.2.03 is a version as often as a day
            yield format_


@lru_cache(maxsize=1)
def _formats() -> dict[str, list[str]]:
    """The formats by the shape of what they write."""
    found: dict[str, list[str]] = defaultdict(list)
    moment = datetime(2011, 12, 13, 10, 11, 12)
    for date, clock, between, offset in product(_DATES, _CLOCKS, _BETWEEN, _OFFSETS):
        if not clock and (between != _BETWEEN[0] or offset != _OFFSETS[0]):
            continue
        format_ = f"{date}{between if clock else ''}{clock}{offset}"
        digits = range(1, 7) if "%f" in format_ else range(1)
        zones: tuple[str, ...] = _ZONES.get(offset.strip(), ("",))
        for pattern in (format_.replace("%f", "1" * length) for length in digits):
            for zone in zones:
                shape = _shape(moment.strftime(pattern.replace("%z", zone).replace("%Z", zone)))
                found[shape] += [] if format_ in found[shape] else [format_]
    return found


def _shape(text: str) -> str:
    """A text with its words and short numbers as one letter each; of long numbers the length counts."""
    digits = re.sub(r"[0-9]+", lambda run: "9" if len(run[0]) < 4 else "9" * len(run[0]), text.strip())
    return re.sub(r"[A-Za-z]+", "a", digits)


def row_instants(column: pa.Array, time: Time) -> tuple[np.ndarray, np.ndarray]:
    """Per row the instant (us), and whether there is a credible one."""
    found = instants(column, time)
    return found.times_us, (found.reasons == Reason.FINE) & credible(found.times_us)
