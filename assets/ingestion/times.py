"""Texts as instants: microseconds since 1970 in UTC, by the declared format, epoch unit and zone, or ISO 8601.

Offsets in the text are honoured. A zone-less time is read by the declared zone: one that a clock change skips is a
failure, one that it repeats is taken as the earlier and counted. The machine's own zone is never asked.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.ingestion.reasons import Reason
from resources.contract.errors import ConfigError
from resources.contract.source import Time

_CLOCK = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6}0*)?)?"
_OFFSET = r"(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)"
_ISO = rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}{_OFFSET}?"
_FINER = rf"\d{{4}}-\d\d-\d\d[T ][\d:]+\.\d{{6}}\d*[1-9]\d*{_OFFSET}?"  # digits below the microsecond
_MINUTE_US = 60_000_000
_EPOCH = datetime(1970, 1, 1)
_MINUTES = tuple((bound - _EPOCH) // timedelta(minutes=1) for bound in (datetime(1, 1, 2), datetime(9999, 12, 30)))
_EPOCH_DIGITS = {"s": r"^-?[0-9]{1,19}(\.[0-9]{1,6}0{0,10})?$"}
_WHOLE_DIGITS = r"^-?[0-9]{1,19}$"
_thread = threading.local()
_SCALE = {"s": 6, "ms": 3, "us": 0, "ns": 0}


@dataclass(frozen=True, kw_only=True)
class Instants:
    """`times_us` is int64 (0 where it failed), `reasons` uint8, `ambiguous` bool; one each per text."""

    times_us: np.ndarray
    reasons: np.ndarray
    ambiguous: np.ndarray


def instants(text: pa.Array, time: Time) -> Instants:
    """What each text means. A null is MISSING; nothing raises because of data."""
    if len(text) == 0:
        return Instants(times_us=np.empty(0, np.int64), reasons=np.empty(0, np.uint8), ambiguous=np.empty(0, bool))
    found = _of_epoch(text, time.epoch) if time.epoch else _of_texts(text, time)
    found.reasons[text.is_null().to_numpy(zero_copy_only=False)] = Reason.MISSING
    found.times_us[found.reasons != Reason.FINE] = 0
    return found


def _of_epoch(text: pa.Array, unit: str) -> Instants:
    matched = pc.match_substring_regex(text, _EPOCH_DIGITS.get(unit, _WHOLE_DIGITS)).fill_null(False)
    scaled = pc.if_else(matched, text, "0").cast(pa.decimal128(38, _SCALE[unit]))
    # A decimal is a 128-bit integer of its last digits, which here are microseconds (of ns: nanoseconds).
    low, high = np.frombuffer(scaled.buffers()[1], np.int64, 2 * len(scaled)).reshape(-1, 2).T
    reasons = np.where(high == low >> 63, Reason.FINE, Reason.IMPLAUSIBLE_TIME).astype(np.uint8)
    times = low.copy()
    if unit == "ns":
        times, below = np.divmod(times, 1000)
        reasons[below != 0] = Reason.NOT_EXACT
    reasons[~matched.to_numpy(zero_copy_only=False)] = Reason.UNREADABLE_TIME
    return Instants(times_us=times, reasons=reasons, ambiguous=np.zeros(len(times), dtype=bool))


def _of_texts(text: pa.Array, time: Time) -> Instants:
    if time.format is None:
        parsed, values = f"case when regexp_full_match(t, '{_ISO}') then try_cast(t as timestamptz) end", []
        zoned, finer = f"regexp_matches(t[12:], '{_OFFSET}$')", f"regexp_full_match(t, '{_FINER}')"
    else:
        # Python's %z takes a Z as well, DuckDB's does not
        written = "regexp_replace(t, 'Z$', '+00')" if time.format.endswith("%z") else "t"
        parsed, values = f"try_strptime({written}, $1)", [time.format]
        zoned, finer = str("%z" in time.format or "%Z" in time.format), "false"
    engine = _engine()
    engine.register("landed", pa.table({"t": text}))
    try:
        query = f"select epoch_us({parsed}) as us, {zoned} as zoned, {finer} as finer from landed"
        found = engine.sql(query, params=values).to_arrow_table().combine_chunks()
    except duckdb.InvalidInputException as error:
        raise ConfigError(f"time.format {time.format!r} cannot be used: {str(error).splitlines()[0]}") from error
    finally:
        engine.unregister("landed")
    readable = found["us"].is_valid().to_numpy()
    finer = found["finer"].fill_null(False).to_numpy()
    reasons = np.where(readable, Reason.FINE, np.where(finer, Reason.NOT_EXACT, Reason.UNREADABLE_TIME)).astype(
        np.uint8
    )
    times = found["us"].fill_null(0).to_numpy().copy()
    ambiguous = np.zeros(len(times), dtype=bool)
    local = readable & ~found["zoned"].fill_null(False).to_numpy()
    if time.zone is None:
        reasons[local] = Reason.TIME_WITHOUT_ZONE
    elif local.any():
        offsets, skipped, repeated = _offsets(times[local], time.zone)
        times[local] -= offsets
        ambiguous[local] = repeated
        reasons[np.flatnonzero(local)[skipped]] = Reason.NONEXISTENT_TIME
    return Instants(times_us=times, reasons=reasons, ambiguous=ambiguous)


def _engine() -> duckdb.DuckDBPyConnection:
    """This thread's own in-memory DuckDB, whose zone is UTC whatever the machine's is."""
    if not hasattr(_thread, "engine"):
        _thread.engine = duckdb.connect()
        _thread.engine.execute("SET TimeZone = 'UTC'")
    return _thread.engine


def _offsets(walls_us: np.ndarray, zone: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per wall-clock time: the zone's offset in us, whether a clock change skips it, and whether it repeats it.

    Each distinct minute is asked once. By PEP 495 the two folds of a skipped time have rising offsets, those of a
    repeated time falling ones; the first fold is the earlier instant.
    """
    rules = ZoneInfo(zone)
    # Python's calendar ends sooner than the texts can; what lies outside is implausible in any zone
    minutes, index = np.unique(np.clip(walls_us // _MINUTE_US, _MINUTES[0], _MINUTES[1]), return_inverse=True)

    def offset_us(minute: int, fold: int) -> int:
        wall = (_EPOCH + timedelta(minutes=minute)).replace(tzinfo=rules, fold=fold)
        offset = wall.utcoffset()
        assert offset is not None
        return offset // timedelta(microseconds=1)

    first = np.array([offset_us(minute, 0) for minute in minutes.tolist()])
    second = np.array([offset_us(minute, 1) for minute in minutes.tolist()])
    return first[index], (first < second)[index], (first > second)[index]
