"""The time of a row and the days of a dataset: how they are written, where they begin, and what has to be asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from assets.ingestion.look import roles
from assets.ingestion.look.contract_text import Line
from assets.ingestion.look.moments import Moments, moments, row_instants, timely
from assets.ingestion.look.pattern import Found
from assets.ingestion.look.question import Question, counted, every
from assets.ingestion.look.samples import Samples
from assets.ingestion.look.values import Values
from resources.contract.days import HOUR_US, day_of

_DAY_US = 24 * HOUR_US
_STRAY = 0.001  # the share of rows before the first day that may be strays
_LATE, _MOST_LATE = 7, 60  # days: what a contract allows by itself, and at most
_NEVER = np.iinfo(np.int64).max
_OFFSETS = range(-12, 15)  # hours, of all zones


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """The contract's lines of `time` and `days`. `moments` is None where no column holds times."""

    time: Line
    days: Line
    moments: Moments | None
    further: frozenset[str]  # other columns that hold times
    questions: tuple[Question, ...]

    @property
    def column(self) -> str:
        return str(self.time.value["column"])

    @property
    def has_clock(self) -> bool:
        return self.moments is None or self.moments.has_clock


def timeline(samples: Samples, values: Mapping[str, Values], pattern: Found, *, today: date) -> Timeline:
    """How the samples tell the time.

    Args:
        today: the first day of a dataset whose samples have no time.
    """
    found = {column: m for column, v in values.items() if column not in samples.lacking and (m := moments(v))}
    chosen, asked = roles.time_of(found)
    if chosen is None:
        return _untimed(samples, values, today=today)
    chosen = _by_file_days(samples, chosen, pattern)
    marks, questions = (["which column?"], [asked]) if asked else ([], [])
    for mark, question in _doubts(chosen, values[chosen.column]):
        marks.append(mark)
        questions.append(question)
    said = {"column": chosen.column, "format": chosen.format, "epoch": chosen.epoch}
    if chosen.zoneless:
        said["zone"] = "UTC"
    days, asked = _days(samples, chosen, pattern)
    return Timeline(
        time=Line(
            key="time",
            value={key: value for key, value in said.items() if value is not None},
            question=" ".join(marks),
            reason=_reason(chosen, values[chosen.column]),
        ),
        days=days,
        moments=chosen,
        further=frozenset(found) - {chosen.column},
        questions=(*questions, *([asked] if asked else ())),
    )


def _reason(chosen: Moments, values: Values) -> str:
    told = f"{every(chosen.of, 'value')} {chosen.written}"
    if chosen.read < chosen.of:
        told = f"{chosen.read:,} of {chosen.of:,} values are {chosen.written}, the others go to quarantine"
    if values.num_null:
        told += f"; {counted(values.num_null, 'row')} without a time go there"
    return told + ("; they carry no offset" if chosen.zoneless else "")


def _doubts(chosen: Moments, values: Values) -> list[tuple[str, Question]]:
    """What cannot be told of how the times are written: in a few words, and the whole question."""
    doubts = []
    if chosen.units:
        by_unit = ", ".join(f"{unit}: {rows:,}" for unit, rows in chosen.units.items())
        text = (
            f"the values of {chosen.column!r} are of several units (rows by unit: {by_unit}), and one contract reads one: "
            f"{chosen.epoch!r} until you say; rows of the others go to quarantine"
        )
        doubts.append(("which unit?", Question(key="time.epoch", text=text)))
    if chosen.also:
        text = (
            f"does {values.distinct[0].as_py()!r} begin with the day or the month? Every value can be read both ways; "
            f"{chosen.format!r} until you say, else {chosen.also!r}"
        )
        doubts.append(("day or month first?", Question(key="time.format", text=text)))
    if chosen.zoneless:
        text = (
            f"the times of {chosen.column!r} carry no offset: in which zone are they written (such as Europe/London)? UTC until "
            "you say"
        )
        doubts.append(("which zone?", Question(key="time.zone and days.zone", text=text)))
    return doubts


def _untimed(samples: Samples, values: Mapping[str, Values], *, today: date) -> Timeline:
    """Where no column holds times: one that is named for it and empty, or the question which it is."""
    empty = next((column for column, v in values.items() if not v.rows and timely(column)), None)
    column = empty or ("event_time" if "event_time" not in values else "happened_at")
    if isinstance(header := samples.written.csv.header, tuple):  # names that the contract gives hold the time's too
        column = empty or header[0]
    why, until = (
        "no column holds times: which says when a row happened?",
        f"Until you say, files without {column!r} are refused",
    )
    if empty:
        why, until = f"{empty!r} holds no value: how does it write times?", "ISO 8601, in UTC, until you say"
    return Timeline(
        time=Line(key="time", value={"column": column, "zone": "UTC"}, question=why),
        days=Line(key="days", value={"zone": "UTC", "first": today}, reason="no day was seen"),
        moments=None,
        further=frozenset(),
        questions=(Question(key="time", text=f"{why} {until}"),),
    )


def _by_file_days(samples: Samples, chosen: Moments, pattern: Found) -> Moments:
    """The times with the order of day and month that the days in the names tell, if they do."""
    if not chosen.also or not pattern.days:
        return chosen
    both = [replace(chosen, also=None), replace(chosen, format=chosen.also, also=None)]
    near = []
    for one in both:
        times, fine = row_instants(samples.table[one.column].combine_chunks(), one.time())
        near.append(float((fine & (abs(times // _DAY_US - _file_days(samples, pattern)) <= 1)).mean()))
    best = int(np.argmax(near))
    return both[best] if near[best] > 0.9 > 0.5 > near[1 - best] else chosen


def _file_days(samples: Samples, pattern: Found) -> np.ndarray:
    """Per row the day in its file's name, counted from 1970."""
    numbers = [(day - date(1970, 1, 1)).days for day in pattern.days]
    return np.repeat(np.array(numbers, dtype=np.int64), samples.rows)


def _days(samples: Samples, chosen: Moments, pattern: Found) -> tuple[Line, Question | None]:
    """The first day, how late rows may be, and where midnight is."""
    times, fine = row_instants(samples.table[chosen.column].combine_chunks(), chosen.time())
    found = np.where(fine, times // _DAY_US, _NEVER)  # UTC's days, since that is the zone until somebody says
    hint, late = "", 0
    if pattern.days:
        of_file = _file_days(samples, pattern)
        name = samples.files[pattern.days.index(min(pattern.days))].name
        counts = Counter(found[fine & (of_file == of_file.min())].tolist())
        first = counts.most_common(1)[0][0] if counts else int(found.min())
        reason = f"most rows of {name} are of it"
        ages = (of_file - found)[fine & (found >= first)]
        late = int(ages.max(initial=0))
        hint = _midnight(times[fine], of_file[fine])
    else:
        first = int(np.sort(found[fine])[int(np.count_nonzero(fine) * _STRAY)])
        reason = "the oldest rows are of it"
    said: dict[str, object] = {"zone": "UTC", "first": day_of(first * _DAY_US, "UTC")}
    if older := int(np.count_nonzero(found < first)):
        reason += f"; {counted(older, 'older one')} not taken"
    if _LATE < late <= _MOST_LATE:
        said["late"] = late
        reason += f"; rows come up to {late} days late"
    if chosen.zoneless:
        return Line(key="days", value=said, reason=reason), None
    text = f"in which zone does your day begin (such as Europe/Berlin)? UTC until you say{hint}"
    asked = Question(key="days.zone", text=text)
    return Line(key="days", value=said, question="where is midnight?", reason=reason), asked


def _midnight(times: np.ndarray, of_file: np.ndarray) -> str:
    """Where the days in the names have their midnight, if rows tell that it is not UTC's."""
    shares = {hours: float(((times + hours * HOUR_US) // _DAY_US == of_file).mean()) for hours in _OFFSETS}
    best = max(shares, key=lambda hours: (shares[hours], -abs(hours)))
    if shares[best] < shares[0] + 0.005:
        return ""
    return f"; the days in the names fit UTC{best:+d} best ({shares[best]:.1%} of the rows, UTC {shares[0]:.1%})"
