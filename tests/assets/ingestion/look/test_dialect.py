"""Delimiters, quotes, escapes, comments and headers are told from the first lines."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.ingestion.look import dialect
from resources.contract.errors import DataError
from resources.contract.source import Csv

if TYPE_CHECKING:
    from tests.assets.ingestion.look.conftest import Beginner


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("user,at\na,b\n", {}),
        ("user;at\na;1,5\nb;2,5\n", {"delimiter": ";"}),
        ("user\tat\na, b\tc\n", {"delimiter": "\t"}),
        ("user|at\na|b\n", {"delimiter": "|"}),
        ("user\x01at\na\x01b\n", {"delimiter": "\x01"}),
        ('user,at\n5" pipe,x\n"y,z\n', {"quote": None}),
        ('user,at\n"a, ""b""",c\n', {}),
        ("user,at\n'a, b','c'\n'd','e'\n", {"quote": "'"}),
        ('user,at\n"a \\"b\\", c",d\n', {"escape": "\\"}),
        ("# made by hand\n# in March\nuser,at\na,b\n", {"comment": "#"}),
        ("#user,at\na,b\n", {}),
        ("u1,7\nu2,8\n", {"header": ("column_1", "column_2")}),
        ("u1,view\nu1,view\n", {}),  # joined files repeat their header
        ("u1,view\nu2,view\n", {"header": ("column_1", "column_2")}),
        ("user,event_type\nu1,view\nu2\nu3,view,extra\nu4,view\n", {}),
    ],
)
def test_each_dialect(head: str, said: dict) -> None:
    assert dialect.of(head, file="x.csv").csv == Csv.model_validate(said)


def test_a_header_that_is_not_there_is_asked_for() -> None:
    found = dialect.of("u1,2026-03-01T00:00:00Z\nu2,2026-03-02T00:00:00Z\n", file="x.csv")
    assert [question.key for question in found.questions] == ["source.csv.header"]
    assert dialect.of("user,at\nu1,2\n", file="x.csv").questions == ()


def test_one_column_is_refused() -> None:
    with pytest.raises(DataError, match="one column"):
        dialect.of("user\na\nb\n", file="x.csv")


@pytest.mark.parametrize(
    "content",
    [
        "# a comment\nuser,at,t\nu1,2026-03-01T00:00:00Z,x\nu2,2026-03-01T00:00:01Z,y\n",
        'user,at,t\nu1,2026-03-01T00:00:00Z,"a \\"b\\", c"\nu2,2026-03-01T00:00:01Z,y\n',
        'user,at,t\nu1,2026-03-01T00:00:00Z,5" pipe\nu2,2026-03-01T00:00:01Z,"y\n',
        "user|at|t\nu1|2026-03-01T00:00:00Z|a,b\nu2|2026-03-01T00:00:01Z|y\n",
        "u1,2026-03-01T00:00:00Z,7\nu2,2026-03-01T00:00:01Z,8\n",
        "user;at;t\r\nu1;2026-03-01T00:00:00Z;'x'\r\nu2;2026-03-01T00:00:01Z;'y;z'\r\n",
    ],
)
def test_ingestion_takes_both_rows_of_each(beginner: Beginner, content: str) -> None:
    assert beginner.taken(beginner.begin(export__csv=content)).rows.num_rows == 2


_cell = st.text(st.sampled_from("abcäö \"',;|\t\n\\x"), min_size=1, max_size=6)


@settings(max_examples=200)
@given(
    rows=st.lists(st.tuples(_cell, _cell, _cell), min_size=3, max_size=20, unique=True),
    delimiter=st.sampled_from(",;|\t"),
)
def test_what_a_writer_of_csv_writes_is_read_with_its_delimiter(rows: list[tuple[str, ...]], delimiter: str) -> None:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerows([("first_name", "second_name", "third_name"), *rows])
    found = dialect.of(out.getvalue(), file="x.csv")
    assert (found.csv.delimiter, found.csv.quote) == (delimiter, '"')
    assert found.names == ("first_name", "second_name", "third_name")
