"""What changed about the columns of a source: by name, told once for all files that show it."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from assets.ingestion.drift import drift

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

D1, D2, D3 = date(2025, 3, 1), date(2025, 3, 2), date(2025, 3, 3)
DECLARED = "event_time event_id user_id item_id event_type price"


def layout(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, kind) for name, _, kind in (word.partition(":") for word in text.split()))


@pytest.mark.parametrize(
    ("earlier", "now", "expected"),
    [
        (DECLARED, DECLARED, []),
        (f"{DECLARED} x", f"{DECLARED} x", []),
        (DECLARED, f"{DECLARED} channel", [("added", "channel", "not declared")]),
        (DECLARED, f"{DECLARED} channel:string", [("added", "channel", "string")]),
        (f"{DECLARED} x", DECLARED, [("missing", "x", "not declared")]),
        (DECLARED, DECLARED.replace(" price", ""), [("missing", "price", "declared")]),
        (DECLARED.replace(" price", ""), DECLARED.replace(" price", ""), []),  # it was so before
        (DECLARED.replace(" price", ""), DECLARED, [("added", "price", "declared")]),
        (DECLARED, DECLARED.replace("user_id", "User_ID"), [("renamed_case", "user_id", "now User_ID")]),
        (DECLARED, f"{DECLARED} x x", [("duplicated", "x", "2 times"), ("added", "x", "not declared")]),
        ("a:int32 b:string", "a:int64 b:string", [("widened", "a", "int32, now int64")]),
        ("a:double b:string", "a:int64 b:string", [("narrowed", "a", "double, now int64")]),
        ("a b c", "a c b", [("reordered", "c", "now in the place of b")]),
        ("a b c", "c b", [("missing", "a", "not declared"), ("reordered", "c", "now in the place of b")]),
        (None, DECLARED, []),
        (None, DECLARED.replace(" price", " x"), [("missing", "price", "declared")]),
        (None, DECLARED.replace("price", "PRICE"), [("renamed_case", "price", "now PRICE")]),
    ],
)
def test_what_a_file_shows_otherwise_than_before_is_an_event(
    room: Room, earlier: str | None, now: str, expected: list[tuple[str, str, str]]
) -> None:
    found = drift(room.dataset(), {"f.csv": layout(now)}, [layout(earlier)] if earlier else [])
    assert [(event["event"], event["column"], event["detail"]) for event in found] == expected


def test_files_that_show_the_same_are_told_together(room: Room) -> None:
    layouts = {f"{n}.csv": layout(DECLARED + (" x" if n % 2 else "")) for n in range(10)}
    assert drift(room.dataset(), layouts, [layout(DECLARED)]) == [
        {"event": "added", "column": "x", "detail": "not declared", "files": 5, "file": "1.csv"}
    ]


def test_the_keys_of_json_lines_have_no_order_and_paths_lead_into_them(room: Room) -> None:
    dataset = room.dataset(
        '{"u.id": {as: user, type: id}, "tags[0]": {as: tag, type: text, required: false}}', source="format: jsonl"
    )
    assert drift(dataset, {"f": layout("tags u event_time")}, [layout("event_time u tags")]) == []
    assert drift(dataset, {"f": layout("event_time u tags")}, []) == []


def test_a10_a_column_that_comes_later_is_told_on_its_day_and_in_whatever_order_days_are_built(room: Room) -> None:
    dataset = room.dataset()
    head = "event_id,user_id,item_id,event_time,event_type,price"
    for day, more in ((D1, ""), (D2, ""), (D3, ",channel")):
        line = f"1,u,i,{day}T10:00:00Z,view,1{',app' if more else ''}"
        room.land(f"{day}.csv", f"{head}{more}\n{line}\n")
    events = {day: room.build(dataset, day).manifest.facts["drift"] for day in (D1, D2, D3)}
    assert (events[D1], events[D2]) == ([], [])
    [event] = events[D3]
    assert (event["event"], event["column"], event["files"], event["file"]) == ("added", "channel", 1, f"{D3}.csv")
    day = date(2025, 3, 8)  # days without files tell nothing
    for empty in (date(2025, 3, 4), date(2025, 3, 5)):
        room.build(dataset, empty)
    room.land(f"{day}.csv", f"{head},channel\n1,u,i,{day}T10:00:00Z,view,1,app\n")
    assert room.build(dataset, day).manifest.facts["drift"] == []
    # and a file that is kept from an earlier build goes on showing it
    room.land(f"{D3}_b.csv", f"{head}\n2,u,i,{D3}T10:00:00Z,view,1\n")
    again = room.build(dataset, D3).manifest
    assert again.facts["drift"] == [event]
