"""CSV: every row has its line, every stray quote costs one line, and no block boundary can be seen in the result."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assets.ingestion import unpacking
from assets.ingestion.chunk import Chunk
from resources.contract.dataset import Dataset
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


@dataclass(frozen=True)
class Grammar:
    """A reading of delimited text by a machine that looks at one letter after the other."""

    width: int = 3
    quote: str | None = '"'
    escape: str | None = None
    comment: str | None = None
    limit: int = 1 << 30

    def read(self, text: str) -> tuple[Rows, Broken] | None:
        """The rows and the broken ones; None where a line is longer than the limit."""
        rows: Rows = []
        broken: Broken = []
        at, line = 0, 1
        while at < len(text):
            start, (end, fields) = at, self._record(text, at)
            if text[at] in ("\r", "\n", self.comment):
                end, fields = self._line(text, at, escape=None), []
            elif fields is None or end - start > self.limit:
                end = self._line(text, at, escape=self.escape)
                broken.append((line, "broken_quotes", text[start:end]))
            elif len(fields) != self.width:
                broken.append((line, "ragged", text[start:end]))
            else:
                rows.append((line, fields, text[start:end]))
            if end - start > self.limit:
                return None
            line += text[start:end].replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1
            at = end + (2 if text[end : end + 2] == "\r\n" else 1)
        return rows, broken

    def _literal(self, text: str, at: int) -> str:
        """What an escape at this place makes literal."""
        return text[at + 1 : at + 3] if text[at + 1 : at + 3] == "\r\n" else text[at + 1 : at + 2]

    def _line(self, text: str, at: int, *, escape: str | None) -> int:
        while at < len(text) and text[at] not in "\r\n":
            at += 1 + (len(self._literal(text, at)) if text[at] == escape else 0)
        return at

    def _record(self, text: str, at: int) -> tuple[int, list[str] | None]:
        fields = []
        while True:
            begun, value = at, ""
            if quoted := self.quote is not None and text[at : at + 1] == self.quote:
                at += 1
            while at < len(text):
                if text[at] == self.escape:
                    literal = self._literal(text, at)
                    value += literal or text[at]
                    at += 1 + len(literal)
                elif quoted and text[at : at + 2] == f"{self.quote}{self.quote}":
                    value += text[at]
                    at += 2
                elif text[at] == self.quote if quoted else text[at] in ",\r\n":
                    break
                else:
                    value += text[at]
                    at += 1
            if quoted:
                at += 1
                if at > len(text) or text[at : at + 1] not in ("", ",", "\r", "\n"):
                    return at, None
            elif self.escape and text[begun:at] == f"{self.escape}N":
                value = text[begun:at]
            fields.append(value)
            if text[at : at + 1] != ",":
                return at, fields
            at += 1


LETTERS = st.lists(
    st.sampled_from(
        [
            "a",
            "é",
            ",",
            ",",
            '"',
            '"',
            "\n",
            "\n",
            "\r",
            "\r\n",
            '""',
            ',"',
            '",',
            '"\n',
            "\\",
            "\\N",
            "\\\n",
            "#",
            "\n#",
        ]
    ),
    max_size=40,
).map("".join)
CONTRACTS: dict[str, Dataset] = {}


def contract(room: Room, csv: str) -> Dataset:
    """Parsing YAML takes longer than reading these files."""
    if csv not in CONTRACTS:
        CONTRACTS[csv] = room.dataset(COLUMNS, source=f"format: csv, csv: {csv}")
    return CONTRACTS[csv]


GIVEN = "header: [event_time, user_id, note]"


@settings(max_examples=600)
@given(
    body=LETTERS,
    block=st.sampled_from([1, 2, 3, 5, 1 << 20]),
    quote=st.sampled_from(['"', '"', None]),
    escape=st.sampled_from([None, "\\"]),
    comment=st.sampled_from([None, "#"]),
)
def test_rows_lines_and_broken_quotes_are_those_of_a_letter_by_letter_reading(
    room: Room, body: str, block: int, quote: str | None, escape: str | None, comment: str | None
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpacking, "BLOCK_BYTES", block)
        csv = json.dumps({"quote": quote, "escape": escape, "comment": comment})
        read = found(room.chunks(contract(room, csv), "event_time,user_id,note\n" + body))
    expected = Grammar(quote=quote, escape=escape, comment=comment).read("event_time,user_id,note\n" + body)
    assert expected is not None and read == (expected[0][1:], expected[1])


@example(body=['"a\n', 'a","\n', 'bbbbb"\n'], block=1 << 20, limit=12, escape=None)
@example(body=['"a\n', 'a","\n', 'bbbbbb"\n'], block=1 << 20, limit=12, escape=None)
@example(body=['a","\n'] * 4 + ["b,c,d"], block=1 << 20, limit=12, escape=None)
@settings(max_examples=600)
@given(
    body=st.lists(
        st.sampled_from(["a", "a", ",", '"', '"', "\n", "\n", '""', ',"', '",', "\\\n", "\r\n"]), max_size=60
    ),
    block=st.sampled_from([1, 3, 7, 1 << 20]),
    limit=st.sampled_from([5, 8, 12]),
    escape=st.sampled_from([None, "\\"]),
)
def test_a_record_longer_than_the_limit_is_broken_and_a_line_refuses_the_file_whatever_the_blocks_are(
    room: Room, body: list[str], block: int, limit: int, escape: str | None
) -> None:
    text = "".join(body)
    expected = Grammar(escape=escape, limit=limit).read(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unpacking, "BLOCK_BYTES", block)
        patch.setattr(unpacking, "LINE_BYTES", limit)
        csv = json.dumps({"escape": escape})[1:-1]
        dataset = contract(room, f"{{{csv}, {GIVEN}}}")
        if expected is None:
            with pytest.raises(DataError, match=rf"longer than {limit} bytes"):
                room.chunks(dataset, text)
        else:
            assert found(room.chunks(dataset, text)) == expected


@pytest.mark.parametrize(
    ("piece", "end"),
    [
        ('"', ""),
        ('"\n', ""),
        ('a","\n', ""),
        ('a","\n', '"x'),
        ('"a\n', "x"),
        ('"""\n', "x"),
        (',"a"b\n', ""),
        ('a\\\n","\n', '"x'),
        ('a","\n', "b" * 250_000 + '"'),
    ],
)
def test_the_cost_of_stray_quotes_is_linear_whatever_the_bytes_are(
    room: Room, monkeypatch: pytest.MonkeyPatch, piece: str, end: str
) -> None:
    monkeypatch.setattr(unpacking, "BLOCK_BYTES", 1 << 19)
    monkeypatch.setattr(unpacking, "LINE_BYTES", 1 << 18)
    text = piece * ((3 << 18 if "\n" in piece else 1 << 18) // len(piece)) + end
    dataset = contract(room, f"{{escape: '\\', {GIVEN}}}")
    room.chunks(dataset, "a,b,c\n")
    begun = time.process_time()
    chunks = room.chunks(dataset, text)
    assert time.process_time() - begun < 6  # in truth about one; reading on from every line to the end takes a minute
    lines = sum(sum(broken.raw.count("\n") + 1 for broken in chunk.broken) for chunk in chunks)
    rows = sum(sum((chunk.raw(row) or "").count("\n") + 1 for row in range(chunk.columns.num_rows)) for chunk in chunks)
    assert lines + rows == text.removesuffix("\n").count("\n") + 1


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
    monkeypatch.setattr(unpacking, "LINE_BYTES", 64)
    rows, broken = found(room.chunks(room.dataset(COLUMNS), text + "y,y,y\n" * 10))
    assert len(rows) == 130 + bool(end) and broken == [(2, "broken_quotes", '0,0,"open')]


def test_columns_are_found_by_name_and_all_are_told(room: Room) -> None:
    [chunk] = room.chunks(room.dataset(COLUMNS), "z,note,user_id,a,event_time\n1,2,3,4,5\n")
    assert chunk.columns.to_pylist() == [{"event_time": "5", "user_id": "3", "note": "2"}]
    assert [name for name, _ in chunk.seen] == ["z", "note", "user_id", "a", "event_time"]


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
    assert chunk.columns["user_id"].to_pylist() == ["1;'"] and chunk.seen[2] == ("no;te", "")


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


def test_names_may_be_given_for_a_file_without_a_header(room: Room) -> None:
    [chunk] = room.chunks(contract(room, "{header: [note, other, user_id, event_time]}"), "1,2,3,4\n5,6,7\n")
    assert chunk.columns.to_pylist() == [{"event_time": "4", "user_id": "3", "note": "1"}]
    assert [(row.line, row.reason.text) for row in chunk.broken] == [(2, "ragged")]
    assert chunk.seen == (("note", ""), ("other", ""), ("user_id", ""), ("event_time", ""))


@pytest.mark.parametrize("delimiter", ["\t", "|", " ", "\x01", "a"])
def test_any_letter_may_stand_between_fields(room: Room, delimiter: str) -> None:
    csv = json.dumps({"delimiter": delimiter, "header": ["event_time", "user_id", "note"]})
    [chunk] = room.chunks(contract(room, csv), delimiter.join(["1", "2", "3,4"]))
    assert chunk.columns.to_pylist() == [{"event_time": "1", "user_id": "2", "note": "3,4"}]


def test_a_name_in_another_case_is_taken_and_shown_as_the_file_writes_it(room: Room) -> None:
    [chunk] = room.chunks(contract(room, "{}"), "EVENT_TIME,User_ID,note,NOTE\n1,2,3,4\n")
    assert chunk.columns.to_pylist() == [{"event_time": "1", "user_id": "2", "note": "3"}]
    assert [name for name, _ in chunk.seen] == ["EVENT_TIME", "User_ID", "note", "NOTE"]
    with pytest.raises(DataError, match="two columns 'user_id' \\('User_ID' and 'USER_ID'\\)"):
        room.chunks(contract(room, "{}"), "event_time,User_ID,USER_ID\n1,2,3\n")


def test_names_that_the_contract_tells_apart_by_case_are_not_taken_for_each_other(room: Room) -> None:
    columns = "{user_id: {as: user, type: id}, USER_ID: {as: other, type: id, required: false}}"
    [chunk] = room.chunks(room.dataset(columns), "event_time,user_id\n1,2\n")
    assert chunk.columns.to_pylist() == [{"event_time": "1", "user_id": "2", "USER_ID": None}]
    with pytest.raises(DataError, match="no column 'user_id'"):
        room.chunks(room.dataset(columns), "event_time,USER_ID\n1,2\n")


def test_many_columns_and_more_rows_than_a_chunk_holds_keep_their_order(room: Room) -> None:
    names = ",".join(["event_time", "user_id", *(f"c{i}" for i in range(300)), "note"])
    rows = "".join(f"{i},u{i},{'x,' * 300}n{i}\n" for i in range(3000))
    chunks = room.chunks(contract(room, "{}"), f"{names}\n{rows}")
    assert [u for chunk in chunks for u in chunk.columns["user_id"].to_pylist()] == [f"u{i}" for i in range(3000)]
    short = "".join(f"{i},{i},\n" for i in range(300_000))
    chunks = room.chunks(contract(room, "{}"), f"event_time,user_id,note\n{short}")
    assert len(chunks) > 1 and [int(line) for chunk in chunks for line in chunk.lines] == list(range(2, 300_002))
    assert chunks[1].raw(0) == "131072,131072,"


def test_the_null_word_of_databases_stays_what_it_is(room: Room) -> None:
    csv = json.dumps({"delimiter": "\t", "quote": None, "escape": "\\", "header": ["event_time", "user_id", "note"]})
    [chunk] = room.chunks(contract(room, csv), "1\t\\N\ta\\\tb\\\nc\n2\t\\\\N\tN\n")
    assert chunk.columns["user_id"].to_pylist() == ["\\N", "\\N"]
    assert chunk.columns["note"].to_pylist() == ["a\tb\nc", "N"] and chunk.lines.tolist() == [1, 3]
