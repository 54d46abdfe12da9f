"""Over generated files of every format, with faults planted at random places: every row is in exactly one place.

`make test-properties` runs thousands of files, `make test` some of them. What is expected of a row is known from how it
was made and never computed by the product.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assets.sharding import cut
from resources.contract.days import days_between

if TYPE_CHECKING:
    from tests.assets.ingestion.conftest import Room

DAY = date(2025, 3, 10)  # the delivery day
FIRST = date(2025, 3, 1)
COLUMNS = """
  user_id: {as: user, type: id, required: false}
  item: {type: id}
  n: {type: integer, between: [0, 1000], required: false}
  price: {type: decimal, scale: 2, at_least: 0, required: false}
  w: {type: number, required: false}
  ok: {type: flag, required: false}
  note: {type: text, required: false}
"""
NAMES: tuple[str, ...] = ("at", "user_id", "item", "n", "price", "w", "ok", "note")
NOON = datetime(2025, 3, 10, 12, tzinfo=UTC)
TEXTS = (
    *("plain", "with, comma", 'with "quotes"', "two\nlines", "Köln, Straße", "日本", "tab\there", "'", "a\r\nb", "007"),
    *("true", "1e5", "NO", "nan", " spaced ", "{", "[1,2]", "null", "\\", "🙂"),
)
# (column, what is written there, why it lies in quarantine)
FAULTS = (
    *(("n", text, "not_an_integer") for text in ("x", "1.5", "1,5", "0x10", "--1", "1 ")),
    *(("n", text, "out_of_bounds") for text in ("1001", "-1", "9223372036854775807")),
    *(("n", text, "out_of_range") for text in ("99999999999999999999", "9223372036854775808")),
    *(("price", text, "not_exact") for text in ("1.005", "0.001")),
    *(("price", text, "not_a_decimal") for text in ("abc", "1.2.3", "€5")),
    *(("price", text, "not_finite") for text in ("nan", "NaN", "-inf")),
    *(("price", text, "out_of_bounds") for text in ("-0.01", "-9.99")),
    *(("w", text, "not_finite") for text in ("inf", "-Infinity")),
    *(("w", text, "not_a_number") for text in ("1e", "one")),
    *(("w", text, "out_of_range") for text in ("1e400",)),
    *(("w", text, "not_exact") for text in ("0.1000000000000000055", "9007199254740993")),
    *(("ok", text, "not_a_flag") for text in ("perhaps", "2")),
    *(("item", None, "missing") for _ in range(2)),
    *(
        ("at", text, "unreadable_time")
        for text in ("soon", "2025-13-01T00:00:00Z", "2025-02-30T00:00:00Z", "1741608000")
    ),
    *(("at", text, "time_without_zone") for text in ("2025-03-10T10:00:00", "2025-03-10 10:00:00")),
    *(("at", text, "implausible_time") for text in ("9999-12-31T00:00:00Z", "1970-01-01T00:00:00Z")),
    *(("at", text, "too_late") for text in ("2025-03-02T12:00:00Z",)),
    *(("at", text, "before_first_day") for text in ("2025-02-20T12:00:00Z",)),
    *(("at", None, "missing") for _ in range(2)),
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row as it was meant: its texts by column, and where it must end."""

    texts: dict[str, str | None]
    day: date | None  # its event day, where it is good
    column: str | None = None
    reason: str | None = None
    structure: bool = False  # the row cannot be split at all


@dataclass
class File:
    """A written file, with the line on which each row begins."""

    name: str
    content: bytes
    lines: list[int] = field(default_factory=list)


def good_row(chance: random.Random) -> Row:
    at = NOON - timedelta(seconds=chance.randrange(6 * 86_400), microseconds=chance.randrange(10**6))
    offset = chance.choice(("Z", "+00:00"))
    empty = lambda value: value if chance.random() > 0.15 else None  # noqa: E731
    return Row(
        texts={
            "at": at.strftime("%Y-%m-%dT%H:%M:%S.%f") + offset,
            "user_id": empty(str(chance.randrange(50))),
            "item": chance.choice(("007", "7", "1e5", "NO", "nan", "x-1", "Ä", "00")),
            "n": empty(str(chance.randrange(1001))),
            "price": empty(f"{chance.randrange(10**6) / 100:.2f}"),
            "w": empty(repr(chance.uniform(-1e6, 1e6))),
            "ok": empty(chance.choice(("true", "false", "YES", "no", "1", "0"))),
            "note": empty(chance.choice(TEXTS)),
        },
        day=at.date(),
    )


def rows_of(chance: random.Random, num_rows: int, *, faults: Callable[[Row], bool], structure: bool) -> list[Row]:
    rows: list[Row] = []
    for _ in range(num_rows):
        row, kind = good_row(chance), chance.random()
        if kind < 0.25:
            column, text, reason = chance.choice(FAULTS)
            bad = Row(texts={**row.texts, column: text}, day=None, column=column, reason=reason)
            rows.append(bad if faults(bad) else row)
        elif kind < 0.3 and structure:
            rows.append(Row(texts=row.texts, day=None, structure=True))
        elif kind < 0.4 and rows:
            rows.append(chance.choice(rows))
        else:
            rows.append(row)
    return rows


def packed(chance: random.Random, name: str, content: bytes) -> tuple[str, bytes]:
    """The content plain or compressed, sometimes in several members."""
    kind = chance.choice(("", ".gz", ".bz2", ".zst"))
    half = chance.randrange(len(content) + 1)
    if kind == ".zst":
        return name + kind, pa.Codec("zstd").compress(content, asbytes=True)
    compress = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}[kind]
    parts = (content[:half], content[half:]) if chance.random() < 0.3 and content else (content,)
    return name + kind, b"".join(map(compress, parts))


def csv_file(chance: random.Random, rows: list[Row]) -> tuple[list[Row], File]:
    end, stream, lines, line = chance.choice(("\n", "\r\n")), io.StringIO(newline=""), [], 2
    order = chance.sample(NAMES, len(NAMES))
    quoting = chance.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    writer = csv.writer(stream, quoting=quoting, lineterminator=end)
    writer.writerow(order)
    expected = []
    for row in rows:
        text, row = csv_row(chance, row, order, quoting=quoting, end=end)
        stream.write(text)
        lines.append(line)
        expected.append(row)
        line += len(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")) - 1
    text = stream.getvalue()
    if chance.random() < 0.3 and not (rows and rows[-1].structure):
        text = text.removesuffix(end)
    name, content = packed(chance, f"{DAY}.csv", (b"\xef\xbb\xbf" if chance.random() < 0.2 else b"") + text.encode())
    return expected, File(name=name, content=content, lines=lines)


def csv_row(chance: random.Random, row: Row, order: list[str], *, quoting: Any, end: str) -> tuple[str, Row]:
    values = [row.texts[name] or "" for name in order]
    if row.structure and chance.random() < 0.5:
        return ",".join(["1"] * (len(values) + chance.choice((-1, 1)))) + end, structural(row, "ragged")
    if row.structure:
        # behind the quote that closes stands a letter, so that no quote of a later line can pair with it
        return f'"closed"too early{end}', structural(row, "broken_quotes")
    stream = io.StringIO(newline="")
    csv.writer(stream, quoting=quoting, lineterminator=end).writerow(values)
    return stream.getvalue(), row


def structural(row: Row, reason: str) -> Row:
    return Row(texts=row.texts, day=None, reason=reason, structure=True)


def jsonl_file(chance: random.Random, rows: list[Row]) -> tuple[list[Row], File]:
    lines, numbers, expected, line = [], [], [], 1
    for row in rows:
        while chance.random() < 0.05:
            lines.append("")
            line += 1
        text, row = json_row(chance, row)
        lines.append(text)
        numbers.append(line)
        expected.append(row)
        line += 1
    end = chance.choice(("\n", "\r\n"))
    name, content = packed(chance, f"{DAY}.jsonl", end.join(lines).encode())
    return expected, File(name=name, content=content, lines=numbers)


def json_row(chance: random.Random, row: Row) -> tuple[str, Row]:
    if row.structure:
        text, reason = chance.choice(
            (
                *(("{", "malformed_json"), ("[1, 2]", "malformed_json"), ('{"at": 1,}', "malformed_json")),
                *(("nonsense", "malformed_json"), ('{"at" 1}', "malformed_json"), ('{"at": 01}', "malformed_json")),
            )
        )
        return text, structural(row, reason)
    bare = {name for name in ("n", "price", "w") if is_json_number(row.texts[name])}
    pairs = []
    for name in chance.sample(NAMES, len(NAMES)):
        value = row.texts[name]
        if value is None and chance.random() < 0.5:
            continue
        if name in bare and chance.random() < 0.7:
            written = str(value)
        elif name == "ok" and value in ("true", "false") and chance.random() < 0.7:
            written = value
        else:
            written = json.dumps(value, ensure_ascii=chance.random() < 0.5)
        pairs.append(f"{json.dumps(name)}:{chance.choice(('', ' '))}{written}")
    if chance.random() < 0.3:
        pairs.insert(chance.randrange(len(pairs) + 1), '"other": {"deep": [1, {"x": "}"}]}')
    return "{" + chance.choice((",", ", ")).join(pairs) + "}", row


def is_json_number(text: str | None) -> bool:
    if text is None or text != text.strip():
        return False
    try:
        return not isinstance(json.loads(text, parse_constant=lambda _: None), str | None)
    except ValueError:
        return False


def parquet_file(chance: random.Random, rows: list[Row]) -> tuple[list[Row], File]:
    """Typed columns where every text is of the type, else texts."""

    def whole(text: str) -> int:
        if text != text.strip():
            raise ValueError("Python would take the blank away")
        return int(text)

    def times(texts: list[str | None]) -> pa.Array:
        moments = [datetime.fromisoformat(text) if text else None for text in texts]
        if any(moment and moment.tzinfo is None for moment in moments):
            raise ValueError("an instant needs its offset")
        return pa.array(moments, pa.timestamp("us", tz="UTC"))

    columns: dict[str, pa.Array] = {name: pa.array([row.texts[name] for row in rows], pa.string()) for name in NAMES}
    typed: dict[str, Callable[[list[str | None]], pa.Array]] = {
        "at": times,
        "n": lambda texts: pa.array([None if text is None else whole(text) for text in texts], pa.int64()),
        "price": lambda texts: pa.array([text and Decimal(text) for text in texts], pa.decimal128(20, 3)),
        "w": lambda texts: pa.array([text and float(text) for text in texts], pa.float64()),
        "user_id": lambda texts: pa.array([text and int(text) for text in texts], pa.int64()),
        "ok": lambda texts: pa.array([text and {"true": True, "false": False}[text] for text in texts], pa.bool_()),
        "item": lambda texts: pa.array(texts, pa.string()).dictionary_encode(),
    }
    for name, make in typed.items():
        try:
            if chance.random() < 0.8:
                columns[name] = make([row.texts[name] for row in rows])
        except (KeyError, ValueError, ArithmeticError, pa.ArrowInvalid):
            continue
    stream = io.BytesIO()
    table = pa.table({name: columns[name] for name in chance.sample(NAMES, len(NAMES))})
    pq.write_table(table, stream, row_group_size=chance.choice((7, 100)), write_page_checksum=chance.random() < 0.5)
    return rows, File(name=f"{DAY}.parquet", content=stream.getvalue(), lines=list(range(1, len(rows) + 1)))


def is_good_in_parquet(row: Row) -> bool:
    """Faults whose texts a Parquet file may hold as they are (those of `w` would change in a double)."""
    return row.column != "w"


WRITERS = {"csv": csv_file, "jsonl": jsonl_file, "parquet": parquet_file}
files = st.fixed_dictionaries({"seed": st.integers(0, 2**32 - 1), "num_rows": st.integers(0, 60)})


def planted(kind: str, seed: int, num_rows: int) -> tuple[list[Row], File]:
    """A file of a format, and what was meant by each of its rows."""
    chance = random.Random(seed)
    faults = is_good_in_parquet if kind == "parquet" else lambda row: True
    rows = rows_of(chance, num_rows, faults=faults, structure=kind != "parquet")
    return WRITERS[kind](chance, rows)


def fresh_room(root: str) -> Room:
    from tests.assets.ingestion.conftest import Room

    return Room(Path(root))


def contract(room: Room, kind: str) -> Any:
    return room.dataset(
        COLUMNS, source=f"format: {kind}", time="column: at", days=f"zone: UTC, first: {FIRST}, settle_hours: 0"
    )


@pytest.mark.parametrize("kind", WRITERS)
@given(made=files)
def test_every_row_is_good_or_in_quarantine_with_its_line_and_reason(kind: str, made: dict[str, int]) -> None:
    rows, file = planted(kind, made["seed"], made["num_rows"])
    with tempfile.TemporaryDirectory() as root:
        room = fresh_room(root)
        dataset = contract(room, kind)
        room.land(file.name, file.content)
        manifest = room.build(dataset, DAY).manifest
        good, quarantined = room.good(dataset, manifest), room.quarantine(manifest)
        found = {day: room.good(dataset, manifest, event_day=day).num_rows for day in days_between(FIRST, DAY)}
    assert good.num_rows + len(quarantined) == len(rows) == manifest.counts["delivered"]
    wanted = [(line, row.reason, row.column) for line, row in zip(file.lines, rows, strict=True) if row.reason]
    assert [(row["line"], row["reason"], row["column"]) for row in quarantined] == wanted
    days = Counter(row.day for row in rows if row.day is not None)
    assert {day: num for day, num in found.items() if num} == days
    expected = Counter((row.texts["item"], row.texts["note"]) for row in rows if row.day is not None)
    assert Counter(zip(good["item"].to_pylist(), good["note"].to_pylist(), strict=True)) == expected
    prices = sum((Decimal(row.texts["price"] or 0) for row in rows if row.day is not None), Decimal())
    assert sum((price for price in good["price"].to_pylist() if price is not None), Decimal()) == prices


@pytest.mark.parametrize("kind", WRITERS)
@settings(max_examples=settings().max_examples // 3)  # each is fifteen builds
@given(made=files)
def test_kept_and_duplicates_over_the_days_are_the_good_rows(kind: str, made: dict[str, int]) -> None:
    rows, file = planted(kind, made["seed"], made["num_rows"])
    with tempfile.TemporaryDirectory() as root:
        room = fresh_room(root)
        dataset = contract(room, kind)
        room.land(file.name, file.content)
        *_, manifest = [room.build(dataset, day).manifest for day in days_between(DAY - timedelta(days=7), DAY)]
        shards = [cut.build(dataset, room.lake, day).manifest for day in days_between(DAY - timedelta(days=6), DAY)]
    kept = sum(shard.rows_out for shard in shards)
    dropped = sum(shard.counts["dropped"] for shard in shards)
    repeated = sum(shard.counts["duplicates"] for shard in shards)
    good = [row for row in rows if row.day is not None]
    distinct = {tuple(row.texts.items()) for row in good}
    assert kept + repeated + dropped == len(good) == manifest.counts["good"]
    assert repeated == len(good) - len(distinct)
