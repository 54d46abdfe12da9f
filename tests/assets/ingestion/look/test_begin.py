"""Files that broke others, given to somebody who has no contract: each is taken as it should be, or the one thing is asked."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from assets.ingestion.look.begin import begin
from resources.contract.errors import ConfigError, DataError
from resources.demo.generate import write_days

if TYPE_CHECKING:
    from tests.assets.ingestion.look.conftest import Beginner

ROOT = Path(__file__).resolve().parents[4]
INPUTS = ROOT / "../shared/cases/inputs"
RETAIL = ROOT / "../shared/data/online_retail_2011-11"
TODAY = date(2026, 7, 1)
MIDNIGHT, LABEL, TIME = "days.zone", "label", "time"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What must come of some files: what is asked, what is taken, and some of the good rows' values."""

    asks: tuple[str, ...] = (MIDNIGHT, LABEL)
    good: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)
    values: dict[str, list[Any]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    refused: str = ""


CASES = {
    "bad_numbers.csv": Outcome(
        asks=(MIDNIGHT, "columns.price", "columns.price.at_least", LABEL),
        good=1,
        quarantined={"not_finite": 2, "out_of_bounds": 1},
        values={"price": [Decimal(10)]},
    ),
    "bom.csv": Outcome(good=1, values={"event_id": ["1"]}),
    "crlf.csv": Outcome(good=2, values={"price": [Decimal(1), Decimal(2)]}),
    "drift_day1.csv": Outcome(asks=(TIME, LABEL), types={"user": "id", "item": "id", "event_type": "category"}),
    "drift_day3_added.csv": Outcome(asks=(TIME, LABEL), types={"channel": "category"}),
    "drift_day1.csv drift_day3_added.csv": Outcome(asks=(TIME, LABEL), types={"channel": "category"}),
    "dst_berlin.csv": Outcome(good=8, values={"event_id": [str(i) for i in range(1, 9)]}),
    "dup_delivery_a.csv": Outcome(good=6),
    "dup_delivery_a.csv dup_delivery_b.csv": Outcome(good=13),
    "empty.csv": Outcome(refused="empty.csv is empty"),
    "epoch_mixed.csv": Outcome(
        asks=("time.epoch", MIDNIGHT, LABEL),
        good=1,
        quarantined={"implausible_time": 3},
        values={"event_time": [datetime(2025, 3, 1, tzinfo=UTC)]},
    ),
    "far_future_late.csv": Outcome(
        good=2,
        quarantined={"implausible_time": 3},
        values={"event_time": [datetime(2025, 2, 24, 10, tzinfo=UTC), datetime(2025, 3, 1, 10, tzinfo=UTC)]},
    ),
    "full.csv.gz": Outcome(good=5000),
    "header_only.csv": Outcome(asks=(TIME, "columns", LABEL), types={"user": "id", "item": "id", "price": "text"}),
    "ids_big.csv": Outcome(good=3, values={"user": ["9007199254740993", "9007199254740992", None]}),
    "ids_bool_words.csv": Outcome(asks=(TIME, LABEL), values={"country": ["NO", "no", "NO"]}),
    "ids_leading_zero.csv": Outcome(good=2, values={"user": ["00042", "42"], "item": ["007", "7"]}),
    "ids_true_false.csv": Outcome(asks=(TIME, LABEL), values={"user": ["true", "false", "TRUE"]}),
    "late_decimal_price.csv.gz": Outcome(good=21_001, types={"price": "decimal"}),
    "latin1.csv": Outcome(asks=("source.encoding", TIME, LABEL), values={"city": ["Málaga", "Köln", "Paris"]}),
    "no_final_newline.csv": Outcome(good=1),
    "nul_byte.csv": Outcome(asks=(TIME, LABEL), values={"query": ["ab\0cd", "ok"]}),
    "quoted_newline.csv": Outcome(asks=(TIME, LABEL), values={"query": ["red\nshoes", 'a "b" c', "x,y"]}),
    "ragged.csv": Outcome(asks=(TIME, LABEL), values={"event_type": ["view", "view"]}, quarantined={"ragged": 2}),
    "trailing_zeros.csv.gz": Outcome(good=5000),
    "truncated.csv.gz": Outcome(refused="truncated.csv.gz"),
    "truncated_footer.csv.gz": Outcome(refused="truncated_footer.csv.gz"),
    "two_members.csv.gz": Outcome(good=2),
}


def answered(text: str) -> str:
    """The contract of a case without times, as a person mends it whose event ids count seconds from 1970."""
    text = re.sub(r"(?m)^time: .*$", "time: {column: event_id, epoch: s}", text)
    text = re.sub(r"(?m)^  event_id: .*\n", "", text)
    return re.sub(r"first: \d{4}-\d\d-\d\d", "first: 1970-01-01", text)


@pytest.mark.skipif(not INPUTS.exists(), reason="the given inputs are not there")
@pytest.mark.parametrize("names", CASES)
def test_each_case_is_taken_as_it_should_be_or_asked_about(beginner: Beginner, names: str) -> None:
    expected = CASES[names]
    files: dict[str, bytes | str | pa.Table] = {name: (INPUTS / name).read_bytes() for name in names.split()}
    if expected.refused:
        with pytest.raises(DataError, match=expected.refused):
            beginner.begin_with(files)
        return
    begun = beginner.begin_with(files)
    assert tuple(question.key for question in begun.questions) == expected.asks
    assert ("QUESTION" in begun.text.split("label:")[0]) == (len(expected.asks) > 1)
    types = {name: column.type for name, column in beginner.contract(begun).by_name.items()}
    assert types.items() >= expected.types.items()
    if TIME in expected.asks and not expected.values:
        assert "nothing was tried" in begun.fit
        return
    found = beginner.taken(answered(begun.text) if TIME in expected.asks else begun)
    rows = found.rows.sort_by("event_time").to_pydict()
    assert found.quarantined == Counter(expected.quarantined)
    assert {name: rows[name] for name in expected.values} == expected.values
    if TIME not in expected.asks:
        assert found.rows.num_rows == expected.good
        all_ = expected.good + sum(expected.quarantined.values())
        assert begun.fit.split(",")[0].replace(",", "").endswith("in the samples") or f"{all_:,} row" in begun.fit
        assert ("all of them fit" in begun.fit) == (not expected.quarantined)


def test_no_case_is_left_out() -> None:
    if not INPUTS.exists():
        pytest.skip("the given inputs are not there")
    assert {path.name for path in INPUTS.iterdir()} == {name for names in CASES for name in names.split()}


@pytest.mark.skipif(not INPUTS.exists(), reason="the given inputs are not there")
def test_a_late_decimal_is_seen_and_stays_exact(beginner: Beginner) -> None:  # case A1
    begun = beginner.begin_with({"late.csv.gz": (INPUTS / "late_decimal_price.csv.gz").read_bytes()})
    assert pc.sum(beginner.taken(begun).rows["price"]).as_py() == Decimal("63012.75")
    assert "all 21,001 values are decimals, 0 to 12.75" in begun.text


@pytest.mark.skipif(not RETAIL.exists(), reason="the Online Retail slice is not there")
def test_online_retail_is_taken_to_the_row_and_its_zone_is_asked_for(beginner: Beginner) -> None:
    expected = json.loads((RETAIL / "EXPECTED.json").read_text())
    begun = beginner.begin_with({path.name: path.read_bytes() for path in sorted(RETAIL.glob("*.csv.gz"))})
    assert [question.key for question in begun.questions] == ["time.zone and days.zone", "label"]
    dataset, found = beginner.contract(begun), beginner.taken(begun)
    assert dataset.source.files.endswith("/{day}.csv.gz")
    assert (dataset.user.column, dataset.item and dataset.item.column) == ("user", "item")
    assert found.rows.num_rows == sum(day["rows"] for day in expected["per_day"].values())
    assert set(found.days) == set(expected["per_day"]) and not found.quarantined
    users = set(found.rows["user"].drop_null().to_pylist())
    assert len(users) == expected["users"] and not any(user.endswith(".0") for user in users)
    revenue = pc.sum(pc.multiply(found.rows["unit_price"], found.rows["quantity"])).as_py()
    assert revenue == Decimal(expected["revenue"])


def test_the_demo_is_told_from_its_files_with_all_its_dirt(beginner: Beginner) -> None:
    write_days(beginner.room.landing, seed=0, scale=0.05)
    begun = begin(sorted(beginner.room.landing.glob("*.csv.gz")), name="shop", today=datetime.now(UTC).date())
    dataset = beginner.contract(begun)
    assert dataset.source.files.endswith("/{day}*.csv.gz") and str(dataset.days.first) == "2026-01-01"
    types = {name: column.type for name, column in dataset.by_name.items()}
    assert (types["user"], types["item"], types["price"], types["clicked"]) == ("id", "id", "decimal", "flag")
    assert dataset.label.model_dump() == {"where": "clicked"}
    assert set(dataset.features.categories) >= {"user", "item", "category", "brand", "device", "country", "hour"}
    assert "clicked" not in dataset.features.categories
    assert any("unreadable_time" in fault for fault in begun.faults)


def test_values_beyond_the_stated_limit_are_not_looked_at_and_that_is_said(beginner: Beginner) -> None:
    rows = [f"u{i % 3},2026-03-01T00:00:{i % 60:02}Z,{i if i < 150 else 'x'}\n" for i in range(300)]
    content = "user_id,at,n\n" + "".join(rows)
    begun = beginner.begin_with({"export.csv": content}, max_rows=100)
    assert (
        "all values of its first 100 rows were looked at" in begun.read
        and beginner.contract(begun).by_name["n"].type == "integer"
    )
    assert "all 100 values are whole numbers, 0 to 99" in begun.text
    whole = beginner.begin_with({"export.csv": content})
    assert "larger" not in whole.read and beginner.contract(whole).by_name["n"].type != "integer"


def test_a_file_that_cannot_be_read_is_left_out_by_name_and_the_others_go_on(beginner: Beginner) -> None:
    good = gzip.compress(b"user_id,at,n\nu1,2026-03-01T00:00:00Z,1\n")
    begun = beginner.begin_with({"2026-03-01.csv.gz": good, "2026-03-02.csv.gz": good[:-9], "2026-03-03.csv.gz": good})
    assert list(begun.refused) == ["2026-03-02.csv.gz"] and "2 rows in the samples, all" in begun.fit


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"\n\n  \n", "blank lines alone"),
        ("a.csv", gzip.compress(b"a,b\n1,2\n"), "let its name end in .gz"),
        ("a.csv.gz", b"a,b\n1,2\n", "take the .gz off its name"),
        ("a.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 999)[:-20], "damaged, cut short"),
        ("a.xlsx", b"PK\x03\x04" + b"\0" * 99, "(as Excel sheets are), which is not read. Export it as CSV"),
        ("a.bin", bytes(range(256)) * 9 + b"\0" * 999, "no text"),
        ("a.csv", b"only\none\ncolumn\n", "has one column"),
        ("a.json", b'[{"a": 1},\n {"a": 2}]', "one JSON document"),
        ("a.json", b'{\n "a": 1\n}', "one JSON document"),
        ("a.parquet", b"PAR1" + b"\0" * 99 + b"PAR1", "damaged"),
    ],
)
def test_what_cannot_be_read_gets_a_sentence(beginner: Beginner, name: str, content: bytes, sentence: str) -> None:
    with pytest.raises(DataError, match=re.escape(sentence)):
        beginner.begin_with({name: content})


def test_files_of_two_kinds_and_names_that_no_dataset_can_have_are_refused(beginner: Beginner, tmp_path: Path) -> None:
    csv = "user_id,at\nu1,2026-03-01T00:00:00Z\n"
    with pytest.raises(ConfigError, match="not written alike"):
        beginner.begin_with({"a.csv": csv, "b.csv": csv.replace(",", ";")})
    with pytest.raises(ConfigError, match="lower-case letters"):
        begin([tmp_path], name="My Shop", today=datetime.now(UTC).date())
    with pytest.raises(ConfigError, match="no file"):
        begin([tmp_path], name="shop", today=datetime.now(UTC).date())
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        begin([tmp_path / "x.csv"], name="shop", today=datetime.now(UTC).date())


def test_json_lines_are_named_by_their_paths(beginner: Beginner) -> None:
    lines = [
        {
            "ts": 1_772_323_200_000 + row,
            "user": {"id": row % 5, "mail": f"u{row % 5}@example.org"},
            "items": [{"sku": f"s{row % 3}", "price": 1.5}] if row % 4 else [],
            "event": ["view", "add to cart", "purchase"][row % 3],
            "props": {f"k{row}": 1},
            "mixed": row if row % 2 else {"x": row},
        }
        for row in range(150)
    ]
    begun = beginner.begin_with({"export.jsonl": "\n".join(map(json.dumps, lines))})
    dataset = beginner.contract(begun)
    assert {name: (c.as_, c.type) for name, c in dataset.columns.items()} == {
        "user.id": ("user", "id"),
        "user.mail": ("user_mail", "category"),
        "items[0].sku": ("item", "id"),
        "items[0].price": ("items_0_price", "decimal"),
        "event": ("event_kind", "category"),
        "mixed.x": ("mixed_x", "integer"),
    }
    assert dataset.time.epoch == "ms" and dataset.by_name["user_mail"].personal
    assert set(begun.left_out) == {"props", "mixed"}
    assert dataset.events["add_to_cart"] == "event_kind = 'add to cart'"
    assert dataset.label.model_dump() == {"event": "purchase", "same": ("user", "item"), "within_hours": 168}
    assert beginner.taken(begun).rows.num_rows == 150


def test_parquet_says_its_own_types(beginner: Beginner) -> None:
    start = datetime(2026, 3, 1)
    table = pa.table(
        {
            "user_id": pa.array([float(row % 5) if row % 7 else None for row in range(100)]),
            "when": pa.array([start + timedelta(minutes=row) for row in range(100)], pa.timestamp("ms")),
            "rating": pa.array([row % 5 + 1 for row in range(100)], pa.int8()),
            "movie": pa.array([f"m{row % 9}" for row in range(100)]).dictionary_encode(),
            "cost": pa.array([Decimal(row) / 8 for row in range(100)], pa.decimal128(9, 3)),
            "weight": pa.array([row / 7 for row in range(100)]),
            "big": pa.array([2**63 + row for row in range(100)], pa.uint64()),
            "ok": [bool(row % 2) for row in range(100)],
            "tags": [["a"], []] * 50,
            "props": pa.array([[("k", 1)]] * 100, pa.map_(pa.string(), pa.int64())),
            "place": [{"city": "Köln", "zip": "00501"}] * 100,
        }
    )
    begun = beginner.begin_with({"2026-03-01.parquet": table})
    dataset = beginner.contract(begun)
    types = {name: column.type for name, column in dataset.by_name.items()}
    assert types == {
        **{"user": "id", "rating": "integer", "item": "id", "cost": "decimal", "weight": "number", "big": "integer"},
        **{"ok": "flag", "tags_0": "category", "place_city": "category", "place_zip": "id"},
    }
    assert dataset.by_name["big"].unsigned and dataset.by_name["user"].strip_decimal_zero
    assert set(begun.left_out) == {"props"} and dataset.time.zone == "UTC"
    assert dataset.label.model_dump() == {"where": "rating >= 3"}
    found = beginner.taken(begun).rows
    assert found.num_rows == 100 and set(found["user"].to_pylist()) == {None, "0", "1", "2", "3", "4"}


def test_an_access_log_is_known_by_its_lines(beginner: Beginner) -> None:
    lines = [
        f'10.0.0.{row % 9} - - [01/Mar/2026:00:00:{row % 60:02} +0000] "GET /p/{row % 5} HTTP/1.1" 200 {row or "-"} "-" "curl (x)"'
        for row in range(120)
    ]
    begun = beginner.begin_with({"access.log": "\n".join(lines)})
    dataset = beginner.contract(begun)
    assert (dataset.source.format, dataset.user.column) == ("access_log", "user")
    assert dataset.columns["host"].as_ == "user" and dataset.columns["host"].personal
    assert dataset.columns["path"].as_ == "item" and dataset.columns["bytes"].type == "integer"
    assert dataset.columns["status"].type == "category" and "referer" not in dataset.columns
    assert beginner.taken(begun).rows.num_rows == 120


def test_a_column_that_came_later_may_be_missing(beginner: Beginner) -> None:  # case A10
    begun = beginner.begin_with(
        {
            "2026-03-01.csv": "user_id,at\nu1,2026-03-01T00:00:00Z\n",
            "2026-03-03.csv": "user_id,at,channel\nu1,2026-03-03T00:00:00Z,app\n",
        }
    )
    assert not beginner.contract(begun).by_name["channel"].required
    assert "2026-03-01.csv has no such column" in begun.text
    assert beginner.taken(begun).rows.sort_by("event_time")["channel"].to_pylist() == [None, "app"]


def test_files_of_one_name_in_two_folders_and_one_named_twice(beginner: Beginner) -> None:
    content = "user_id,at\nu1,2026-03-01T00:00:00Z\n"
    paths = [beginner.room.land(f"{day}/part.csv", content) for day in ("2026-03-01", "2026-03-02")]
    twice = [*paths, paths[0].parent / ".." / "2026-03-01" / "part.csv"]
    begun = begin(twice, name="shop", today=TODAY, landing=beginner.room.root / "elsewhere")
    assert beginner.contract(begun).source.files.endswith("/{day}/part.csv") and "2 rows of 2 files" in begun.read


def test_checksums_beside_the_files_are_no_samples(beginner: Beginner) -> None:
    content = "user_id,at\nu1,2026-03-01T00:00:00Z\n"
    begun = beginner.begin_with({"a.csv": content, "a.csv.sha256": hashlib.sha256(content.encode()).hexdigest()})
    assert "1 row of 1 file" in begun.read and begun.refused == {}


def test_columns_that_no_contract_can_name_are_left_out_by_name(beginner: Beginner) -> None:
    begun = beginner.begin_with({"a.csv": ",user_id,ts,x,x\n0,u1,1772323200,1,2\n1,u2,1772323201,1,2\n"})
    assert set(begun.left_out) == {"", "x"} and set(beginner.contract(begun).columns) == {"user_id"}


def test_ascii_files_are_of_the_encoding_of_the_others(beginner: Beginner) -> None:
    content = "user_id,at,city\nu1,2026-03-01T00:00:00Z,{}\n"
    begun = beginner.begin_with({"a.csv": content.format("Paris"), "b.csv": content.format("Málaga").encode("latin-1")})
    assert beginner.contract(begun).source.encoding == "latin-1"
    assert sorted(beginner.taken(begun).rows["city"].to_pylist()) == ["Málaga", "Paris"]
    with pytest.raises(ConfigError, match="not written alike"):
        beginner.begin_with({"a.csv": content.format("Köln"), "b.csv": content.format("Málaga").encode("latin-1")})


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig", "cp1252"])
def test_encodings_are_told_from_the_bytes(beginner: Beginner, encoding: str) -> None:
    content = "user_id,at,city\nu1,2026-03-01T00:00:00Z,Málaga – Köln\n"
    begun = beginner.begin_with({"a.csv": content.encode(encoding)})
    assert beginner.taken(begun).rows["city"].to_pylist() == ["Málaga – Köln"]
    assert ("source.encoding" in {question.key for question in begun.questions}) == (encoding == "cp1252")


def test_columns_without_a_name_for_the_time_in_a_file_without_a_header(beginner: Beginner) -> None:
    begun = beginner.begin_with({"a.csv": "u1,7\nu2,8\n"})
    assert {question.key for question in begun.questions} >= {"source.csv.header", "time", "user.column"}
    assert beginner.contract(begun).source.csv.header == ("column_1", "column_2")


def test_a_broken_first_line_does_not_hide_that_lines_are_json(beginner: Beginner) -> None:
    line = '{"at": "2026-03-01T10:00:00Z", "user_id": "u", "n": 1}\n'
    begun = beginner.begin_with({"export.jsonl": '{"at": \n' + line * 5})
    assert beginner.contract(begun).source.format == "jsonl"
    assert "1 of the rows broken" in begun.read


def test_two_files_of_one_name_in_folders_are_told_apart(beginner: Beginner) -> None:
    good = "at,user_id,n\n" + "2026-03-0{0}T10:00:00Z,u,1\n" * 3
    files = {f"2026-03-0{day}/part.csv": good.format(day) for day in (1, 2)}
    begun = beginner.begin_with(files | {f"2026-03-0{day}/part.csv": "" for day in (3, 4)})
    assert list(begun.refused) == ["2026-03-03/part.csv", "2026-03-04/part.csv"]
