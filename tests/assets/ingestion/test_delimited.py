"""CSV: every row has its line, every stray quote costs one line, and no block boundary can be seen in the result."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assets.ingestion import delimited, unpacking
from assets.ingestion.chunk import Chunk
from resources.contract.errors import ConfigError, DataError

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

COLUMNS = "{user_id: {as: user, type: id}, note: {type: text, required: false}}"
Rows = list[tuple[int, list[str], str]]
Broken = list[tuple[int, str, str]]


def found(chunks: list[Chunk]) -> tuple[Rows, Broken]:
    rows: Rows = []
    broken: Broken = []
    for chunk in chunks:
        values = [list(row.values()) for row in chunk.columns.to_pylist()]
        rows += [(int(line), values[i], chunk.raw(i) or "") for i, line in enumerate(chunk.lines)]
        broken += [(row.line, row.reason.text, row.raw) for row in chunk.broken]
    return rows, sorted(broken)


def read_letter_by_letter(text: str, width: int) -> tuple[Rows, Broken]:
    """What the grammar says, by a machine that reads one letter after the other."""
    rows: Rows = []
    broken: Broken = []
    at, line = 0, 1
    while at < len(text):
        start, fields, pairs = at, [], True
        while pairs:
            value = ""
            if text[at : at + 1] == '"':
                at += 1
                while at < len(text) and (text[at] != '"' or text[at : at + 2] == '""'):
                    value += text[at]
                    at += 2 if text[at] == '"' else 1
                pairs = at < len(text) and (at + 1 == len(text) or text[at + 1] in ",\r\n")
                at += 1
            else:
                while at < len(text) and text[at] not in ",\r\n":
                    value += text[at]
                    at += 1
            fields.append(value)
            if text[at : at + 1] != ",":
                break
            at += 1
        if not pairs:
            at = start
            while at < len(text) and text[at] not in "\r\n":
                at += 1
            broken.append((line, "broken_quotes", text[start:at]))
        elif at > start and len(fields) != width:
            broken.append((line, "ragged", text[start:at]))
        elif at > start:
            rows.append((line, fields, text[start:at]))
        line += text[start:at].replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
        at += 2 if text[at : at + 2] == "\r\n" else 1
    return rows, sorted(broken)


LETTERS = st.lists(
    st.sampled_from(["a", "é", ",", ",", '"', '"', "\n", "\n", "\r", "\r\n", '""', ',"', '",', '"\n']), max_size=40
).map("".join)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=LETTERS, block=st.sampled_from([1, 2, 3, 5, 1 << 20]))
def test_rows_lines_and_broken_quotes_are_those_of_a_letter_by_letter_reading(
    room: Room, body: str, block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpacking, "BLOCK_BYTES", block)
        dataset = room.dataset(COLUMNS)
        rows, broken = found(room.chunks(dataset, "event_time,user_id,note\n" + body))
    expected, expected_broken = read_letter_by_letter("event_time,user_id,note\n" + body, 3)
    assert rows == expected[1:]
    assert broken == expected_broken


@pytest.mark.parametrize(
    ("body", "rows", "broken"),
    [
        ('1,2,"a\n\nb"\n3,4,5\n', [(2, '1,2,"a\n\nb"'), (5, "3,4,5")], []),
        ('1,2,5" nail\n3,4,5\n', [(2, '1,2,5" nail'), (3, "3,4,5")], []),
        ('1,2,"open\n3,4,5\n6,7,8\n', [(3, "3,4,5"), (4, "6,7,8")], [(2, "broken_quotes")]),
        ('1,2,"open\n3,4,"5"\n', [(3, '3,4,"5"')], [(2, "broken_quotes")]),
        ('1,2,"a"b\n3,4,5\n', [(3, "3,4,5")], [(2, "broken_quotes")]),
        ("\n\n1,2,3\n\n4,5,6", [(4, "1,2,3"), (6, "4,5,6")], []),
        ("1,2,3\r4,5,6\r", [(2, "1,2,3"), (3, "4,5,6")], []),
        ("1,2,3\n,,\n", [(2, "1,2,3"), (3, ",,")], []),
    ],
)
def test_each_row_has_the_physical_line_in_which_it_begins(
    room: Room, body: str, rows: list[tuple[int, str]], broken: list[tuple[int, str]]
) -> None:
    good, bad = found(room.chunks(room.dataset(COLUMNS), "event_time,user_id,note\n" + body))
    assert [(line, raw) for line, _, raw in good] == rows
    assert [(line, reason) for line, reason, _ in bad] == broken


@pytest.mark.parametrize(("end", "cut"), [("", 0), ("", 1), ('1,1,x"\n', 0)])  # never closed, or too late to be meant
def test_a_quote_that_stays_open_for_a_whole_block_costs_one_line(
    room: Room, monkeypatch: pytest.MonkeyPatch, end: str, cut: int
) -> None:
    text = 'event_time,user_id,note\n0,0,"open\n' + "".join(f"{i},{i},x\n" for i in range(120)) + end
    monkeypatch.setattr(unpacking, "BLOCK_BYTES", len(text) - 1 + cut)
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 64)
    rows, broken = found(room.chunks(room.dataset(COLUMNS), text + "y,y,y\n" * 10))
    assert len(rows) == 130 + bool(end) and broken == [(2, "broken_quotes", '0,0,"open')]


def test_columns_are_found_by_name_and_undeclared_ones_are_named(room: Room) -> None:
    [chunk] = room.chunks(room.dataset(COLUMNS), "z,note,user_id,a,event_time\n1,2,3,4,5\n")
    assert chunk.columns.to_pylist() == [{"event_time": "5", "user_id": "3", "note": "2"}]
    assert chunk.undeclared == {"a", "z"}


def test_a_missing_column_is_null_if_it_may_and_refuses_the_file_if_it_must(room: Room) -> None:
    [chunk] = room.chunks(room.dataset(COLUMNS), "user_id,event_time\n3,5\n")
    assert chunk.columns["note"].to_pylist() == [None]
    with pytest.raises(DataError, match=r"landed\.csv has no column 'user_id'.*it has 'note', 'event_time'\. Land"):
        room.chunks(room.dataset(COLUMNS), "note,event_time\n3,5\n")


def test_a_declared_column_that_stands_there_twice_refuses_the_file(room: Room) -> None:
    with pytest.raises(DataError, match=r"landed\.csv has two columns 'user_id'"):
        room.chunks(room.dataset(COLUMNS), "user_id,user_id,event_time\n1,2,3\n")
    [chunk] = room.chunks(room.dataset(COLUMNS), "x,x,user_id,event_time\n1,2,3,4\n")
    assert chunk.columns["user_id"].to_pylist() == ["3"]


def test_a_header_with_broken_quotes_refuses_the_file(room: Room) -> None:
    with pytest.raises(DataError, match=r"landed\.csv: the quotes of the header do not pair"):
        room.chunks(room.dataset(COLUMNS), 'user_id,"event_time,note\n1,2,3\n')


def test_delimiter_and_quote_are_the_contract_s(room: Room) -> None:
    source = "format: csv, csv: {delimiter: ';', quote: \"'\"}"
    [chunk] = room.chunks(room.dataset(COLUMNS, source=source), "user_id;event_time;'no;te'\n'1;''';2;3\n")
    assert chunk.columns["user_id"].to_pylist() == ["1;'"] and chunk.undeclared == {"no;te"}


@pytest.mark.parametrize("csv", ["{delimiter: '§'}", "{delimiter: ',', quote: ','}", '{delimiter: "\\n"}'])
def test_a_delimiter_that_cannot_work_is_refused_in_the_contract(room: Room, csv: str) -> None:
    with pytest.raises(ConfigError, match="different ASCII characters"):
        room.dataset(source=f"format: csv, csv: {csv}")


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_a_header_cut_at_the_wrong_delimiter_names_the_likely_one(room: Room, delimiter: str) -> None:
    text = delimiter.join(["user_id", "event_time", "note"]) + "\n"
    with pytest.raises(DataError, match=r"set `source\.csv\.delimiter` to ") as refused:
        room.chunks(room.dataset(COLUMNS), text)
    assert json.dumps(delimiter) in str(refused.value)


def test_a_message_names_at_most_ten_columns_and_never_excuses_the_time(room: Room) -> None:
    with pytest.raises(DataError, match=r"'c0', 'c1'.*'c9' and 3 more") as refused:
        room.chunks(room.dataset(COLUMNS), ",".join(f"c{i}" for i in range(13)) + "\n")
    assert "'c10'" not in str(refused.value)
    with pytest.raises(DataError, match=r"no column 'event_time'.*`time\.column`") as refused:
        room.chunks(room.dataset(COLUMNS), "user_id,at\n")
    assert "required: false" not in str(refused.value)
