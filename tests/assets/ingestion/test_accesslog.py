"""Access logs: every field as it was written, and one malformed line costs one line."""

from __future__ import annotations

import re
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.ingestion import unpacking
from resources.contract.dataset import Dataset
from resources.contract.source import ACCESS_LOG_FIELDS

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

COLUMNS = "{host: {as: user, type: id}, " + ", ".join(
    f"{name}: {{as: c{i}, type: text, required: false}}"
    for i, name in enumerate(ACCESS_LOG_FIELDS)
    if name not in ("host", "time")
)
CONTRACTS: list[Dataset] = []
LINE = '203.0.113.9 - eve [10/Oct/2000:13:55:36 -0700] "GET /a?b=c HTTP/1.1" 200 2326 "http://x/" "Mozilla/5.0 (X11)"'
Values = dict[str, str | None]
TOKEN = re.compile(r'"(?P<quoted>(?:[^"\\]|\\.)*)"|\[(?P<bracketed>[^\]]*)\]|(?P<plain>[^ "\[]+)')
REQUEST = re.compile(r"(?P<method>[A-Za-z]+) (?P<path>.+) (?P<protocol>HTTP/[^ ]*)")


def contract(room: Room) -> Dataset:
    if not CONTRACTS:
        CONTRACTS.append(room.dataset(COLUMNS + "}", source="format: access_log", time="column: time"))
    return CONTRACTS[0]


def of_line(line: str) -> Values | None:
    """What a regular expression a field makes of a line; None if it is malformed."""
    found, at = [], 0
    while True:
        token = TOKEN.match(line, at)
        if token is None or line[token.end() : token.end() + 1] not in ("", " "):
            return None
        found.append(token)
        at = token.end() + 1
        if token.end() == len(line):
            break
    kinds = ["plain", "plain", "plain", "bracketed", "quoted", "plain", "plain", "quoted", "quoted"]
    if len(found) not in (7, 9) and len(found) < 9:
        return None
    if any(token[kind] is None for token, kind in zip(found, kinds, strict=False)):
        return None
    texts = [token[kind] for token, kind in zip(found, kinds, strict=False)] + [None] * 2
    whole = REQUEST.fullmatch(texts[4])
    request = [whole["method"], whole["path"], whole["protocol"]] if whole else [None, texts[4], None]
    values = [*texts[:4], *request, *texts[5:9]]
    return {name: None if value == "-" else value for name, value in zip(ACCESS_LOG_FIELDS, values, strict=True)}


def written(chance: Random) -> str:
    """A line that is sound more often than not."""
    request = chance.choice(
        ["GET / HTTP/1.1", "POST /a b HTTP/2.0", "-", "", r"\x16\x03", "GET /", r"GET /\" HTTP/1.0", "get  HTTP/1.0"]
    )
    parts = [
        *(chance.choice(["::1", "host", "-"]), "-", chance.choice(["-", "eve"]), "[10/Oct/2000:13:55:36 -0700]"),
        *(f'"{request}"', chance.choice(["200", "-"]), chance.choice(["0", "-"])),
    ]
    if chance.random() < 0.7:
        parts += [f'"{chance.choice(["-", "http://é/", ""])}"', chance.choice([r'"a \"b\" \\"', '"-"'])]
        parts += chance.choice([[], [], ['"1.2.3.4"', "0.003"], ["[x]"]])
    line = " ".join(parts)
    for _ in range(chance.choice([0, 0, 1, 2])):
        at = chance.randrange(len(line) + 1)
        line = line[:at] + chance.choice([*' "[]\\-', "é", "x", ""]) + line[at + chance.randrange(2) :]
    return line


@settings(max_examples=150)
@given(
    seed=st.integers(0, 1 << 32),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    block=st.sampled_from([5, 100, 1 << 20]),
)
def test_fields_are_those_that_regular_expressions_find(room: Room, seed: int, end: str, block: int) -> None:
    chance = Random(seed)
    lines = [written(chance) if chance.random() < 0.9 else "" for _ in range(40)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpacking, "BLOCK_BYTES", block)
        chunks = room.chunks(contract(room), end.join(lines))
    found: dict[int, Values | None] = {}
    for chunk in chunks:
        found |= dict(zip(chunk.lines.tolist(), chunk.columns.to_pylist(), strict=True))
        found |= {broken.line: None for broken in chunk.broken if broken.reason.text == "malformed_line"}
        assert all(lines[int(line) - 1] == chunk.raw(i) for i, line in enumerate(chunk.lines))
        assert all(lines[broken.line - 1] == broken.raw for broken in chunk.broken)
    assert found == {at: of_line(line) for at, line in enumerate(lines, 1) if line}


def test_combined_lines_are_read_field_by_field(room: Room) -> None:
    [chunk] = room.chunks(contract(room), LINE)
    values = ["203.0.113.9", None, "eve", "10/Oct/2000:13:55:36 -0700", "GET", "/a?b=c", "HTTP/1.1", "200", "2326"]
    expected = dict(zip(ACCESS_LOG_FIELDS, [*values, "http://x/", "Mozilla/5.0 (X11)"], strict=True))
    assert chunk.columns.to_pylist() == [expected] and chunk.raw(0) == LINE
    assert [name for name, _ in chunk.seen] == list(ACCESS_LOG_FIELDS)


def test_common_lines_have_neither_referer_nor_agent(room: Room) -> None:
    [chunk] = room.chunks(contract(room), LINE[: LINE.index(' "http')] + "\n")
    [row] = chunk.columns.to_pylist()
    assert row["bytes"] == "2326" and row["referer"] is None and row["agent"] is None
    assert [name for name, _ in chunk.seen] == list(ACCESS_LOG_FIELDS[:9])


@pytest.mark.parametrize(
    "line",
    [
        LINE.replace("- eve", "- John Doe"),  # a name with a blank could as well be another format's field
        "site:80 " + LINE,
        LINE[:-1],
        LINE.replace('"http://x/" ', ""),
        LINE + " ",
        LINE.replace("2326", "23 26"),
        "x",
    ],
)
def test_a_line_of_another_format_is_malformed_rather_than_misread(room: Room, line: str) -> None:
    [chunk] = room.chunks(contract(room), f"{LINE}\n{line}\n{LINE}")
    assert [(row.line, row.reason.text, row.raw) for row in chunk.broken] == [(2, "malformed_line", line)]
    assert chunk.lines.tolist() == [1, 3]
