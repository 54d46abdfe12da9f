"""Times are told by the letters they are written with, and read as the instants that they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from assets.ingestion.look.moments import Moments, moments
from assets.ingestion.look.values import Values
from assets.ingestion.times import instants
from resources.contract.days import instant_us


def told(texts: list[str], *, name: str = "at") -> Moments | None:
    return moments(Values.of(name, pa.chunked_array([pa.array(texts, pa.string())])))


@pytest.mark.parametrize(
    ("texts", "format_", "epoch", "zoneless"),
    [
        (["2026-03-01T10:00:00Z"], None, None, False),
        (["2026-03-01 10:00:00.123"], None, None, True),
        (["2026-03-01T10:00:00+01:00", "2026-03-01T10:00:00"], None, None, True),
        (["2026-03-01"], "%Y-%m-%d", None, True),
        (["31.03.2026 7:05"], "%d.%m.%Y %H:%M", None, True),
        (["03/31/2026 07:05 PM"], "%m/%d/%Y %I:%M %p", None, True),
        (["01/Mar/2026:10:00:00 +0100"], "%d/%b/%Y:%H:%M:%S %z", None, False),
        (["Sun, 01 Mar 2026 10:00:00 +0000"], "%a, %d %b %Y %H:%M:%S %z", None, False),
        (["20260301"], "%Y%m%d", None, True),
        (["20260301101112"], "%Y%m%d%H%M%S", None, True),
        (["1740787200", "1740787201.5"], None, "s", False),
        (["1740787200000"], None, "ms", False),
        (["1740787200000000"], None, "us", False),
        (["1740787200000000000"], None, "ns", False),
    ],
)
def test_each_way_of_writing(texts: list[str], format_: str | None, epoch: str | None, zoneless: bool) -> None:
    found = told(texts)
    assert found is not None
    assert (found.format, found.epoch, found.zoneless, found.also) == (format_, epoch, zoneless, None)
    assert (instants(pa.array(texts), found.time()).reasons == 0).all()


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("at", ["view", "click"]),
        ("user_id", ["1740787200"]),
        ("phone", ["4915112345678"]),
        ("code", ["20260301"]),
        ("at", ["1", "2"]),
        ("at", ["12:30", "13:00"]),
        ("version", ["1.2.3", "1.2.4"]),
        ("at", ["2026-03-01T10:00:00Z", "soon", "later"]),
    ],
)
def test_what_is_no_time_is_none(name: str, texts: list[str]) -> None:
    assert told(texts, name=name) is None


def test_the_order_of_day_and_month_is_asked_only_where_no_value_tells_it() -> None:
    ambiguous = told(["01/03/2026", "02/03/2026"])
    assert ambiguous is not None
    # two days of one month are likelier than one day of two months
    assert (ambiguous.format, ambiguous.also) == ("%d/%m/%Y", "%m/%d/%Y")
    for texts, format_ in ((["01/03/2026", "13/03/2026"], "%d/%m/%Y"), (["01/03/2026", "03/13/2026"], "%m/%d/%Y")):
        clear = told(texts)
        assert clear is not None and (clear.format, clear.also) == (format_, None)


def test_several_units_in_one_column_are_counted() -> None:  # case A20
    found = told(["1740787200", "1740787201", "1740787200000", "1740787200000000"], name="ts")
    assert found is not None and (found.epoch, found.read, found.units) == ("s", 2, {"s": 2, "ms": 1, "us": 1})


def test_a_few_unreadable_times_do_not_hide_the_others() -> None:
    found = told(["2026-03-01T10:00:00Z"] * 19 + ["yesterday"])
    assert found is not None and (found.read, found.of) == (19, 20)


_DATES = ["%Y-%m-%d", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%b-%Y", "%d %B %Y", "%b %d, %Y"]
_CLOCKS = ["%H:%M:%S", "%H:%M", "%I:%M:%S %p", "%H:%M:%S.%f"]


@settings(max_examples=100)
@given(
    format_=st.sampled_from([f"{date} {clock}" for date, clock in product(_DATES, _CLOCKS)]),
    times=st.lists(st.datetimes(datetime(1990, 1, 2), datetime(2090, 1, 1)), min_size=1, max_size=20),
    offset=st.sampled_from(["", "+0000", "+0530"]),
)
def test_times_are_read_as_the_instants_that_were_written(format_: str, times: list[datetime], offset: str) -> None:
    assume(any(time.day > 12 for time in times))
    # what is written keeps only what the format says
    whole = [
        time.replace(microsecond=time.microsecond * ("%f" in format_), second=time.second * ("%S" in format_))
        for time in times
    ]
    texts = [time.strftime(format_) + (f" {offset}" if offset else "") for time in whole]
    found = told(texts)
    assert found is not None and found.zoneless == (not offset) and found.also is None
    ahead = timedelta(hours=5, minutes=30) if offset == "+0530" else timedelta(0)
    expected = [instant_us((time - ahead).replace(tzinfo=UTC)) for time in whole]
    read = instants(pa.array(texts), found.time())
    assert read.reasons.sum() == 0 and np.array_equal(read.times_us, expected)
