"""Every row ends in one place, and nothing personal can be read in quarantine."""

from __future__ import annotations

import logging
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pytest

from assets.ingestion.reasons import Reason
from assets.ingestion.sifting import Span, out_of_days
from resources.contract.days import instant_us
from resources.contract.errors import DataError

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

D = date(2025, 3, 20)
HEAD = "event_time,user_id,secret,n\n"
PRIVATE = "{user_id: {as: user, type: id, personal: true}, secret: {type: integer, personal: true}, n: {type: integer}}"


@pytest.mark.parametrize(
    ("day", "reason"),
    [
        (date(1970, 1, 1), Reason.IMPLAUSIBLE_TIME),
        (date(2015, 2, 20), Reason.IMPLAUSIBLE_TIME),
        (date(2025, 2, 28), Reason.BEFORE_FIRST_DAY),
        (date(2025, 3, 1), Reason.TOO_LATE),
        (date(2025, 3, 12), Reason.TOO_LATE),
        (date(2025, 3, 13), Reason.FINE),
        (date(2025, 3, 20), Reason.FINE),
        (date(2025, 3, 21), Reason.FINE),
        (date(2025, 3, 22), Reason.IMPLAUSIBLE_TIME),
        (date(9999, 12, 30), Reason.IMPLAUSIBLE_TIME),
    ],
)
def test_a_delivery_takes_the_days_before_as_late_as_allowed_and_the_next(
    room: Room, day: date, reason: Reason
) -> None:
    dataset = room.dataset(days="zone: Europe/Berlin, first: 2025-03-01, late: 7")
    start = datetime(day.year, day.month, day.day, tzinfo=UTC) - timedelta(hours=1)  # midnight in Berlin in winter
    times = np.array([instant_us(start), instant_us(start + timedelta(hours=24)) - 1])
    assert set(out_of_days(dataset, times, Span.of_delivery(dataset, D)).tolist()) == {reason}


@pytest.mark.parametrize(
    ("delivery", "day", "reason"),
    [
        (date(2025, 3, 20), date(2025, 3, 21), Reason.AFTER_LAST_DAY),
        (date(2025, 3, 20), date(2025, 3, 22), Reason.IMPLAUSIBLE_TIME),
        (date(2025, 3, 22), date(2025, 3, 20), Reason.FINE),
        (date(2025, 4, 20), date(2025, 3, 20), Reason.TOO_LATE),
        (date(2025, 4, 20), date(2025, 3, 30), Reason.TOO_LATE),
        (date(2025, 4, 20), date(2025, 4, 20), Reason.AFTER_LAST_DAY),
    ],
)
def test_after_the_last_day_only_late_rows_are_taken(room: Room, delivery: date, day: date, reason: Reason) -> None:
    dataset = room.dataset(days="zone: UTC, first: 2025-03-01, last: 2025-03-20")
    times = np.array([instant_us(datetime(day.year, day.month, day.day, tzinfo=UTC))])
    assert out_of_days(dataset, times, Span.of_delivery(dataset, delivery)).tolist() == [reason]


def test_quarantine_names_file_line_column_value_reason_and_raw_line(room: Room) -> None:
    dataset = room.dataset("{user_id: {as: user, type: id}, secret: {type: text}, n: {type: integer}}")
    content = (
        HEAD
        + '2025-03-01T00:00:00Z,u,"a\nb",1\nnever,u,"c\nd",x\nragged\n2025-03-01T00:00:00Z,u,s,"x, y"\n1970-01-01T00:00:00Z,u,s,x\n'
    )
    assert room.quarantine(room.delivered(dataset, content)) == [
        {
            "file": "2025-03-01.csv",
            "line": 4,
            "column": "event_time",
            "value": "never",
            "reason": "unreadable_time",
            "raw": 'never,u,"c\nd",x',
        },
        {"file": "2025-03-01.csv", "line": 6, "column": None, "value": None, "reason": "ragged", "raw": "ragged"},
        {
            "file": "2025-03-01.csv",
            "line": 7,
            "column": "n",
            "value": "x, y",
            "reason": "not_an_integer",
            "raw": '2025-03-01T00:00:00Z,u,s,"x, y"',
        },
        {
            "file": "2025-03-01.csv",
            "line": 8,
            "column": "event_time",
            "value": "1970-01-01T00:00:00Z",
            "reason": "implausible_time",
            "raw": "1970-01-01T00:00:00Z,u,s,x",
        },
    ]


@pytest.mark.parametrize("source", ["csv", "jsonl"])
def test_personal_values_are_shown_only_as_hashes(room: Room, source: str, caplog: pytest.LogCaptureFixture) -> None:
    lines = {
        "csv": [
            "event_time,user_id,secret,n,mail",
            "2025-03-01T00:00:00Z,Alice,Wonderland,1,Alice@x",
            "never,Alice,5,1,Alice@x",
            "2025-03-01T00:00:00Z,Alice",
            '2025-03-01T00:00:00Z,"Alice"x,5,1,Alice@x',
        ],
        "jsonl": [
            '{"event_time":"2025-03-01T00:00:00Z","user_id":"Alice","secret":"Wonderland","n":1,"mail":"Alice@x"}',
            '{"event_time":"never","user_id":"Alice","secret":5,"n":1}',
            '{"event_time":"2025-03-01T00:00:00Z","user_id":"Alice"',
            '{"user_id":["Alice"]}',
        ],
    }[source]
    dataset = room.dataset(PRIVATE, source=f"format: {source}", bad=0)
    with caplog.at_level(logging.DEBUG):
        manifest = room.delivered(dataset, "\n".join(lines))
    quarantined = room.quarantine(manifest)
    assert [row["reason"] for row in quarantined[:2]] == ["not_an_integer", "unreadable_time"]
    assert quarantined[0]["value"].startswith("sha256:") and quarantined[0]["raw"].count("sha256:") == 2
    assert quarantined[1]["value"] == "never"  # a time is no personal value
    assert [row["raw"] for row in quarantined[2:]] == [None, None]
    told = [str(quarantined), caplog.text, manifest.model_dump_json()]
    assert not any(word in text for text in told for word in ("Alice", "Wonderland"))
    assert "2025-03-01.csv: 4 rows, 0 good, 4 quarantined" in caplog.text


def test_a_file_without_its_header_does_not_show_its_first_row(room: Room) -> None:
    with pytest.raises(DataError, match="it has 2 others") as refused:
        room.delivered(room.dataset(PRIVATE), "2025-03-01T00:00:00Z,Alice\n")
    assert "Alice" not in str(refused.value)


def test_a_header_with_a_declared_name_shows_its_names_though_columns_are_personal(room: Room) -> None:
    with pytest.raises(DataError, match="it has 'event_time', 'customer', 'secret', 'n'"):
        room.delivered(room.dataset(PRIVATE), "event_time,customer,secret,n\n")
