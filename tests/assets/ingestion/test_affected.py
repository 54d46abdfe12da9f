"""Which files another contract could read differently: a table of edits."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from assets.ingestion.affected import FileOutcome, affected, reading_of
from resources.contract.dataset import Dataset, parse_dataset

D1, D2, D3, D4 = (date(2025, 3, day) for day in (1, 2, 3, 4))
BASE: dict[str, str] = {
    "source": "format: csv",
    "time": "column: at",
    "days": "zone: UTC, first: 2025-03-01, late: 2",
    "a": "type: integer, between: [0, 10]",
    "b": "type: id",
    "rest": "",
}


def contract(**changes: str) -> Dataset:
    said = {**BASE, **changes}
    columns = said.get("columns") or f"{{a: {{{said['a']}}}, b: {{as: user, {said['b']}}}}}"
    text = f"""
name: shop
source: {{files: "/nowhere/{said.get("files", "{day}")}.csv", {said["source"]}}}
time: {{{said["time"]}}}
days: {{{said["days"]}}}
columns: {columns}
user: {{column: user}}
label: {{where: "true"}}
features: {{categories: [user]}}
{said["rest"]}
"""
    return parse_dataset(text, file="shop.yaml")


def outcome(
    *faults: tuple[str, str | None], days: tuple[date, ...] = (D3,), delivered: date | None = D3
) -> FileOutcome:
    return FileOutcome(faults=faults, days=days, delivered=delivered)


CLEAN = outcome()
OF_A, LACKS_B, LATE, RAGGED = ("out_of_bounds", "a"), ("missing", "user_id"), ("too_late", "at"), ("ragged", None)


@pytest.mark.parametrize(
    ("edit", "file", "expected"),
    [
        ({}, CLEAN, False),
        # how many bad rows or files there may be, and when a file is taken, changes no row
        ({"rest": "bad_rows: {at_most: 0.5}"}, outcome(RAGGED), False),
        ({"source": "format: csv, bad_files: stop"}, CLEAN, False),
        ({"source": "format: csv, settle_seconds: 99"}, CLEAN, False),
        ({"source": "format: csv, ready: '{file}.done'"}, CLEAN, False),
        ({"source": "format: csv, on_delete: retract"}, CLEAN, False),
        ({"rest": "duplicates: {keep: all}"}, CLEAN, False),
        # how a text is read changes all
        ({"source": "format: jsonl"}, CLEAN, True),
        ({"source": "format: csv, encoding: latin-1"}, CLEAN, True),
        ({"source": "format: csv, nulls: ['', NA]"}, CLEAN, True),
        ({"source": "format: csv, csv: {delimiter: ';'}"}, CLEAN, True),
        ({"time": "column: at, zone: UTC"}, CLEAN, True),
        ({"days": "zone: Asia/Tokyo, first: 2025-03-01, late: 2"}, CLEAN, True),
        ({"columns": "{b: {as: user, type: id}, a: {type: integer, between: [0, 10]}}"}, CLEAN, True),
        ({"columns": "{b: {as: user, type: id}}"}, CLEAN, True),
        ({"a": "type: number, between: [0, 10]"}, CLEAN, True),
        ({"a": "as: aa, type: integer, between: [0, 10]"}, CLEAN, True),
        # wider bounds let rows in that were out of them
        ({"a": "type: integer, between: [0, 11]"}, CLEAN, False),
        ({"a": "type: integer, between: [0, 11]"}, outcome(("out_of_bounds", "b")), False),
        ({"a": "type: integer, between: [0, 11]"}, outcome(OF_A), True),
        ({"a": "type: integer"}, outcome(OF_A), True),
        ({"a": "type: integer"}, outcome(RAGGED), False),
        ({"a": "type: integer, at_least: 0"}, CLEAN, False),
        ({"a": "type: integer, between: [1, 11]"}, CLEAN, True),
        ({"a": "type: integer, at_least: 1"}, CLEAN, True),
        # what may be missing
        ({"a": "type: integer, between: [0, 10], required: false"}, CLEAN, False),
        ({"a": "type: integer, between: [0, 10], required: false"}, outcome(("missing", "a")), True),
        ({"a": "type: integer, between: [0, 10], required: false"}, outcome(("missing", "b")), False),
        # what is personal is hidden in quarantine alone
        ({"b": "type: id, personal: true"}, CLEAN, False),
        ({"b": "type: id, personal: true"}, outcome(OF_A), True),
        # the days that are taken
        ({"days": "zone: UTC, first: 2025-03-01, late: 7"}, CLEAN, False),
        ({"days": "zone: UTC, first: 2025-03-01, late: 7"}, outcome(LATE), True),
        ({"days": "zone: UTC, first: 2025-03-01, late: 1"}, CLEAN, False),
        ({"days": "zone: UTC, first: 2025-03-01, late: 1"}, outcome(days=(D2, D3)), False),
        ({"days": "zone: UTC, first: 2025-03-01, late: 1"}, outcome(days=(D1, D3)), True),
        ({"days": "zone: UTC, first: 2025-03-02, late: 2"}, outcome(days=(D1, D3)), True),
        ({"days": "zone: UTC, first: 2025-03-02, late: 2"}, outcome(days=(D2, D3)), False),
        ({"days": "zone: UTC, first: 2025-02-02, late: 2"}, outcome(("before_first_day", "at")), True),
        ({"days": "zone: UTC, first: 2025-03-01, late: 2, last: 2025-03-03"}, outcome(days=(D3, D4)), True),
        ({"days": "zone: UTC, first: 2025-03-01, late: 2, last: 2025-03-03"}, CLEAN, False),
        ({"days": "zone: UTC, first: 2025-03-01, late: 2, ahead_hours: 1"}, CLEAN, False),
        ({"days": "zone: UTC, first: 2025-03-01, late: 2, ahead_hours: 1"}, outcome(days=(D3, D4)), True),
        ({"days": "zone: UTC, first: 2025-03-01, late: 2, settle_hours: 1"}, outcome(LATE), False),
        # which days the rows that failed lie on is not remembered; those of an export that have none stand on the first
        ({"days": "zone: UTC, first: 2025-03-02, late: 2"}, outcome(OF_A), True),
        ({"days": "zone: UTC, first: 2025-03-02, late: 2"}, outcome(RAGGED), False),
        ({"days": "zone: UTC, first: 2025-03-02, late: 2"}, outcome(RAGGED, days=(), delivered=None), True),
        ({"days": "zone: UTC, first: 2025-03-01, late: 1"}, outcome(RAGGED, days=(), delivered=None), False),
        # of an export, lateness tells nothing
        ({"days": "zone: UTC, first: 2025-03-01, late: 0"}, outcome(days=(D1, D4), delivered=None), False),
        (
            {"days": "zone: UTC, first: 2025-03-01, late: 2, last: 2025-03-03"},
            outcome(days=(D4,), delivered=None),
            True,
        ),
    ],
)  # fmt: skip
def test_only_what_could_come_out_differently_is_read_again(
    edit: dict[str, Any], file: FileOutcome, expected: bool
) -> None:
    assert affected(reading_of(contract()), contract(**edit), file) is expected


def test_bounds_that_were_narrowed_and_widened_again_are_taken_for_narrower() -> None:
    wide, narrow = contract(a="type: integer, between: [0, 20]"), contract()
    assert not affected(reading_of(narrow), wide, CLEAN)
    assert affected(reading_of(wide), narrow, CLEAN)
