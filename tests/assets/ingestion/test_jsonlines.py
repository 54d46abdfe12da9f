"""JSON lines: values keep the text they were written with, and one bad line costs one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from assets.ingestion import unpacking

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

COLUMNS = "{u: {as: user, type: id}, v: {type: text, required: false}}"
JSONL = "format: jsonl"


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("12.750", "12.750"),
        ("9007199254740993", "9007199254740993"),
        ("1e5", "1e5"),
        ("-0", "-0"),
        ("NaN", "NaN"),
        ("true", "true"),
        ("false", "false"),
        ("null", None),
        ('"007"', "007"),
        ('"a\\nb\\u0000"', "a\nb\0"),
        ('"漢"', "漢"),
    ],
)
def test_a_value_keeps_its_text(room: Room, written: str, text: str | None) -> None:
    [chunk] = room.chunks(room.dataset(COLUMNS, source=JSONL), f'{{"event_time":"x","u":1,"v":{written}}}\n')
    assert chunk.columns.to_pylist() == [{"event_time": "x", "u": "1", "v": text}]


@pytest.mark.parametrize("block", [1, 10, 1 << 20])
def test_a_bad_line_is_broken_alone_with_its_number_and_text(
    room: Room, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(unpacking, "BLOCK_BYTES", block)
    bad = ['{"u": 1', "[1]", "5", '{"u": {"deep": 1}}', '{"u": [1]}', '{"u": "\\ud800"}', '{"u":1},{"u":2}', "x" * 50]
    lines = [line for text in bad for line in ('{"event_time": 1, "u": 2}', "", text)]
    chunks = room.chunks(room.dataset(COLUMNS, source=JSONL), "\r\n".join(lines))
    assert [line for chunk in chunks for line in chunk.lines.tolist()] == [1 + 3 * i for i in range(8)]
    broken = [row for chunk in chunks for row in chunk.broken]
    assert [(row.line, row.raw) for row in broken] == [(3 + 3 * i, text) for i, text in enumerate(bad)]
    assert [row.reason.text for row in broken] == [
        *("malformed_json", "malformed_json", "malformed_json", "not_a_scalar", "not_a_scalar", "not_text"),
        *("malformed_json", "malformed_json"),
    ]
    assert all(chunk.raw(0) == '{"event_time": 1, "u": 2}' for chunk in chunks if len(chunk.lines))


def test_keys_may_come_and_go_and_undeclared_ones_are_named(room: Room) -> None:
    [chunk] = room.chunks(room.dataset(COLUMNS, source=JSONL), '{"u":1}\n{"v":2,"event_time":3,"x":{"y":[1]}}\n')
    assert chunk.columns["u"].to_pylist() == ["1", None]
    assert chunk.columns["v"].to_pylist() == [None, "2"]
    assert chunk.undeclared == {"x"}


def test_an_exact_decimal_passes_through_a_whole_delivery(room: Room) -> None:
    dataset = room.dataset("{u: {as: user, type: id}, price: {type: decimal}, big: {type: integer}}", source=JSONL)
    manifest = room.delivered(
        dataset, '{"event_time":"2025-03-01T00:00:00Z","u":1,"price":12.750,"big":9007199254740993}\n'
    )
    [row] = room.good(dataset, manifest).to_pylist()
    assert (str(row["price"]), row["big"]) == ("12.750000", 9007199254740993)
