"""Landed times as instants: microseconds since 1970 in UTC, by the declared format, epoch unit and zone, or ISO 8601.

Offsets in the text are honoured. A zone-less time is read by the declared zone: what a clock change skips or repeats goes
by the contract's rule, and is counted. The machine's own zone is never asked.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.ingestion.clocks import offsets
from assets.ingestion.conversion import texts_of
from assets.ingestion.numerals import units_of
from assets.ingestion.reasons import Reason
from assets.ingestion.timeformat import program_of
from resources.contract.buffers import fixed_width, text_bytes
from resources.contract.errors import ConfigError
from resources.contract.source import Time

_CLOCK = r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6}0*)?)?"
_OFFSET = r"(Z|[+-]([01]\d|2[0-3])(:?[0-5]\d)?)"
_ISO = rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}{_OFFSET}?"
_FINER = rf"\d{{4}}-\d\d-\d\d[T ][\d:]+\.\d{{6}}\d*[1-9]\d*{_OFFSET}?"  # digits below the microsecond
_EPOCH_DIGITS = {"s": r"^-?[0-9]{1,19}(\.[0-9]{1,6}0{0,10})?$"}
_WHOLE_DIGITS = r"^-?[0-9]{1,19}$"
_thread = threading.local()
_SCALE = {"s": 6, "ms": 3, "us": 0, "ns": 0}  # digits from a unit to the microsecond, which ns are below


@dataclass(frozen=True, kw_only=True)
class Instants:
    """`times_us` is int64 (0 where it failed), `reasons` uint8, the others bool; one each per text.

    `ambiguous` are the zone-less times that a clock change repeats, `skipped` those that it leaves out, read by the contract's
    rules where they have one.
    """

    times_us: np.ndarray
    reasons: np.ndarray
    ambiguous: np.ndarray
    skipped: np.ndarray


def instants(values: pa.Array, time: Time) -> Instants:
    """What each text, or each value of a typed column, means. A null is MISSING; nothing raises because of data."""
    assert time.epoch != "auto", "whoever reads a file says which unit its times have"
    if len(values) == 0:
        empty = np.empty(0, bool)
        return Instants(times_us=np.empty(0, np.int64), reasons=np.empty(0, np.uint8), ambiguous=empty, skipped=empty)
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary_decode()
    if pa.types.is_timestamp(values.type):
        found = _of_timestamps(values, time)
    elif time.epoch and pa.types.is_integer(values.type):
        found = _of_counts(values, time.epoch)
    elif time.epoch:
        found = _of_epoch(texts_of(values), time.epoch)
    else:
        found = _of_texts(texts_of(values), time)
    if values.null_count:
        found.reasons[values.is_null().to_numpy(zero_copy_only=False)] = Reason.MISSING
    if found.reasons.any():
        found.times_us[found.reasons != Reason.FINE] = 0
    return found


def _of_timestamps(values: pa.Array, time: Time) -> Instants:
    """A column that is typed as times says by itself which unit it counts in, and whether in UTC."""
    found = _in_unit(fixed_width(values, np.int64), values.type.unit)
    return found if values.type.tz else _in_zone(found, np.ones(len(values), bool), time)


def _of_counts(values: pa.Array, unit: str) -> Instants:
    """Integers since 1970."""
    counts = fixed_width(values, np.dtype(values.type.to_pandas_dtype()))
    found = _in_unit(counts.astype(np.int64), unit)
    if counts.dtype == np.uint64:
        found.reasons[counts > np.iinfo(np.int64).max] = Reason.IMPLAUSIBLE_TIME
    return found


def _in_unit(counts: np.ndarray, unit: str) -> Instants:
    """Counts of a unit as instants."""
    reasons, none = np.zeros(len(counts), np.uint8), np.zeros(len(counts), bool)
    if unit == "ns":
        times, below = np.divmod(counts, 1000)
        reasons[below != 0] = Reason.NOT_EXACT
    else:
        factor = 10 ** _SCALE[unit]
        outside = (counts > (2**63 - 1) // factor) | (counts < -(2**63 // factor))
        times = np.where(outside, 0, counts) * factor
        reasons[outside] = Reason.IMPLAUSIBLE_TIME
    return Instants(times_us=times, reasons=reasons, ambiguous=none, skipped=none)


def _of_epoch(text: pa.Array, unit: str) -> Instants:
    """Written counts since 1970."""
    counts, plain = units_of(text, scale=_SCALE[unit])
    found = _in_unit(counts, unit if unit == "ns" else "us")
    rest = np.flatnonzero(~plain)
    if len(rest):
        found.times_us[rest], found.reasons[rest] = _of_written_epoch(text.take(rest), unit)
    return found


def _of_written_epoch(text: pa.Array, unit: str) -> tuple[np.ndarray, np.ndarray]:
    """Times and Reasons of what the loop does not take, in 128 bits."""
    matched = pc.match_substring_regex(text, _EPOCH_DIGITS.get(unit, _WHOLE_DIGITS)).fill_null(False)
    scaled = pc.if_else(matched, text, "0").cast(pa.decimal128(38, _SCALE[unit]))
    # A decimal is a 128-bit integer of its last digits, which here are microseconds (of ns: nanoseconds).
    low, high = fixed_width(scaled, np.dtype("2i8")).T
    reasons = np.where(high == low >> 63, Reason.FINE, Reason.IMPLAUSIBLE_TIME).astype(np.uint8)
    times = low.copy()
    if unit == "ns":
        times, below = np.divmod(times, 1000)
        reasons[below != 0] = Reason.NOT_EXACT
    reasons[~matched.to_numpy(zero_copy_only=False)] = Reason.UNREADABLE_TIME
    return times, reasons


def _of_texts(text: pa.Array, time: Time) -> Instants:
    from assets.ingestion.kernels import times as kernel

    times, codes = np.zeros(len(text), np.int64), np.full(len(text), kernel.OTHER)
    reasons, none = np.zeros(len(text), np.uint8), np.zeros(len(text), bool)
    program = program_of(time.format)
    if program is not None:
        kernel.read_times(*text_bytes(text), program, times, codes)
    walls, rest = codes == kernel.WALL, np.flatnonzero(codes == kernel.OTHER)
    if len(rest) and time.format is None:  # an engine need not be asked about what is no time at all
        odd = text.take(rest)
        finer, whole = (pc.match_substring_regex(odd, f"^{kind}$").fill_null(False) for kind in (_FINER, _ISO))
        reasons[rest] = np.where(finer.to_numpy(zero_copy_only=False), Reason.NOT_EXACT, Reason.UNREADABLE_TIME)
        rest = rest[whole.to_numpy(zero_copy_only=False)]
    if len(rest):
        times[rest], walls[rest], reasons[rest] = _of_engine(text.take(rest), time)
    return _in_zone(Instants(times_us=times, reasons=reasons, ambiguous=none, skipped=none), walls, time)


def _of_engine(text: pa.Array, time: Time) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, whether each stands on a wall clock, and Reasons, by DuckDB: it takes what the loop does not."""
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
        raise ConfigError(
            f"time.format {time.format!r} cannot be used, so no time can be read: {str(error).splitlines()[0]}. Write it with "
            "strptime's letters, such as '%d/%m/%Y %H:%M'."
        ) from error
    finally:
        engine.unregister("landed")
    readable = found["us"].is_valid().to_numpy()
    finer = found["finer"].fill_null(False).to_numpy()
    reasons = np.where(readable, Reason.FINE, np.where(finer, Reason.NOT_EXACT, Reason.UNREADABLE_TIME))
    walls = ~found["zoned"].fill_null(True).to_numpy()
    return found["us"].fill_null(0).to_numpy(), walls, reasons.astype(np.uint8)


def _in_zone(found: Instants, wall: np.ndarray, time: Time) -> Instants:
    """The same times, those on a wall clock as instants by the declared zone and the contract's rules."""
    wall = wall & (found.reasons == Reason.FINE)
    if not wall.any():
        return found
    if time.zone is None:
        found.reasons[wall] = Reason.TIME_WITHOUT_ZONE
        return found
    rows = slice(None) if wall.all() else np.flatnonzero(wall)
    first, second = offsets(found.times_us[rows], time.zone)
    skipped, repeated = first < second, first > second
    times = found.times_us[rows] - (second if time.repeated == "last" else first)
    reasons = np.zeros(len(times), np.uint8)
    if time.skipped == "shift":  # by the hour that is left out: what a clock that nobody changed would have meant
        times = np.where(skipped, found.times_us[rows] - first, times)
    else:
        reasons[skipped] = Reason.NONEXISTENT_TIME
    if time.repeated == "quarantine":
        reasons[repeated] = Reason.AMBIGUOUS_TIME
    marks = np.zeros((2, len(wall)), bool)
    marks[0, rows], marks[1, rows] = repeated, skipped
    found.times_us[rows], found.reasons[rows] = times, reasons
    return replace(found, ambiguous=marks[0], skipped=marks[1])


def _engine() -> duckdb.DuckDBPyConnection:
    """This thread's own in-memory DuckDB, whose zone is UTC whatever the machine's is."""
    if not hasattr(_thread, "engine"):
        _thread.engine = duckdb.connect()
        _thread.engine.execute("SET TimeZone = 'UTC'")
    return _thread.engine
