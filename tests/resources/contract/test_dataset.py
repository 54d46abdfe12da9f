"""The contract takes what it knows and refuses everything else, each with one line that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from datetime import date
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ruamel.yaml import YAML

from resources.contract.dataset import Dataset, EventLabel, RowLabel, load_dataset, parse_dataset
from resources.contract.errors import ConfigError

REPOSITORY = Path(__file__).parents[3]

SHOP: dict[str, Any] = {
    "name": "shop",
    "source": {"files": "${LANDING}/{day}.csv", "format": "csv"},
    "time": {"column": "at", "epoch": "us"},
    "days": {"zone": "Europe/Berlin", "first": date(2026, 1, 1)},
    "columns": {
        "Visitor": {"as": "user", "type": "id"},
        "Product": {"as": "item", "type": "id"},
        "brand": {"type": "category"},
        "Title": {"as": "title", "type": "text", "required": False},
        "quantity": {"type": "integer", "between": [0, 100]},
        "price": {"type": "decimal", "at_least": 0},
        "clicked": {"type": "flag"},
    },
    "user": {"column": "user"},
    "item": {"column": "item"},
    "events": {"buy": "quantity > 0"},
    "label": {"where": "clicked"},
    "features": {"categories": ["item", "hour"], "numbers": ["quantity", {"log1p": "price"}]},
}


def as_text(raw: object) -> str:
    stream, yaml = StringIO(), YAML(typ="safe", pure=True)
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(raw, stream)
    return stream.getvalue()


def parsed(change: Callable[[dict[str, Any]], object] = lambda raw: None) -> Dataset:
    raw = deepcopy(SHOP)
    change(raw)
    return parse_dataset(as_text(raw), file="shop.yaml")


def put(path: str, value: object) -> Callable[[dict[str, Any]], object]:
    """A change of one key, given by its path; `...` takes it away."""

    def change(raw: dict[str, Any]) -> None:
        *outer, last = path.split("/")
        for key in outer:
            raw = raw.setdefault(key, {})
        if value is ...:
            del raw[last]
        else:
            raw[last] = value

    return change


def test_what_need_not_be_said_has_a_good_default() -> None:
    shop = parsed()
    assert (shop.days.late, shop.days.settle_hours, shop.days.deadline_hours, shop.days.last) == (7, 6, 24, None)
    assert (shop.train.window_days, shop.train.batch_rows, shop.train.model) == (14, 4096, "dcn_v2")
    assert (shop.cut.num_buckets, shop.user.missing, shop.bad_rows.at_most) == (16, "drop", 0.02)
    assert (shop.duplicates.key, shop.duplicates.keep, shop.examples) == ("all_columns", "first", "true")
    assert shop.source.on_delete == "keep"
    assert (shop.source.names_day, shop.horizon_hours) == (True, 0)


def test_rows_have_the_declared_columns_under_their_as_names_with_exact_types() -> None:
    schema = parsed(put("columns/price/scale", 2)).row_schema
    assert [(field.name, field.type) for field in schema] == [
        ("event_time", pa.timestamp("us", "UTC")),
        ("user", pa.string()),
        ("item", pa.string()),
        ("brand", pa.string()),
        ("title", pa.string()),
        ("quantity", pa.int64()),
        ("price", pa.decimal128(18, 2)),
        ("clicked", pa.bool_()),
    ]


def test_bounds_are_the_numbers_that_stand_in_the_yaml() -> None:
    shop = parsed(put("columns/price", {"type": "decimal", "at_least": 0.1, "at_most": 3}))
    assert shop.by_name["price"].bounds == (Decimal("0.1"), Decimal(3))
    assert shop.by_name["quantity"].bounds == (Decimal(0), Decimal(100))


def test_both_kinds_of_label_are_told_apart_by_their_keys() -> None:
    assert parsed().label == RowLabel(where="clicked")
    shop = parsed(put("label", {"event": "buy", "same": ["user", "item"], "within_hours": 48}))
    assert isinstance(shop.label, EventLabel)
    assert shop.horizon_hours == 48


def test_a_contract_cannot_be_changed_after_it_was_read() -> None:
    with pytest.raises(Exception, match="frozen"):
        parsed().train.epochs = 2  # type: ignore[misc]


@pytest.mark.parametrize("name", ["online_retail"])
def test_the_shipped_contracts_are_valid(name: str) -> None:
    assert load_dataset(REPOSITORY / "datasets" / f"{name}.yaml", variables={"LANDING": "/x"}).name == name


def test_variables_are_put_into_the_address_of_the_files() -> None:
    shop = parse_dataset(as_text(SHOP), file="shop.yaml", variables={"LANDING": "/data"})
    assert shop.source.files == "/data/{day}.csv"


FAULTS = [
    ("an unknown key", put("cutt", {"buckets": 4}), "shop.yaml: cutt: there is no such key"),
    ("an unknown inner key", put("train/lr", 1), "shop.yaml: train.lr: there is no such key"),
    ("a missing key", put("user", ...), "shop.yaml: user: Field required"),
    ("another file's name", put("name", "store"), "name must be the file's own, 'shop', got 'store'"),
    ("an unknown zone", put("days/zone", "Berlin"), "days.zone: must be an IANA time zone such as Europe/Berlin"),
    ("days backwards", put("days/last", date(2025, 1, 1)), "`last` must not lie before `first` (2026-01-01)"),
    ("a text for a date", put("days/first", "January"), "days.first"),
    ("a text for a number", put("days/late", "7"), "days.late: Input should be a valid integer, got '7'"),
    ("a number out of range", put("days/late", 61), "less than or equal to 60, got 61"),
    ("an unknown format", put("source/format", "xml"), "source.format"),
    ("an unknown encoding", put("source/encoding", "utf-99"), "must be an encoding that Python knows"),
    ("quote and delimiter alike", put("source/csv", {"delimiter": '"'}), "different ASCII characters"),
    ("epoch with a zone", put("time/zone", "UTC"), "`epoch` counts from 1970 in UTC: leave out `format` and `zone`"),
    ("no column at all", put("columns", {}), "columns"),
    ("an unknown type", put("columns/brand/type", "string"), "columns.brand.type"),
    ("a fault in a column in capitals", put("columns/Visitor/type", "x"), "shop.yaml: columns.Visitor.type: "),
    ("a name of the product's own", put("columns/brand/as", "event"), "`as: event` is a name of the product's own"),
    ("a name in capitals", put("columns/brand/as", "Brand"), "must be lower-case letters"),
    ("one name twice", put("columns/brand/as", "item"), "two columns are called `as: item`"),
    ("the time as a column", put("columns/at", {"type": "text"}), "time.column 'at' stands under `columns` too"),
    ("bounds on a text", put("columns/brand/at_least", 0), "bounds need an integer, number or decimal column"),
    ("bounds twice", put("columns/quantity/at_least", 0), "either `between` or `at_least`/`at_most`"),
    ("bounds backwards", put("columns/quantity/between", [2, 1]), "the lower bound 2 lies above the upper bound 1"),
    ("ids only", put("columns/brand/strip_decimal_zero", True), "`strip_decimal_zero` is for ids"),
    ("yes and no alike", put("columns/clicked/true", ["0"]), "a word cannot mean both true and false"),
    ("an unknown user", put("user/column", "visitor"), "user.column: 'visitor' is no column"),
    ("a user by its source name", put("user/column", "Visitor"), "must be lower-case"),
    ("a user that is no id", put("user/column", "brand"), "user.column: 'brand' must be of type id"),
    ("an item that is a text", put("item/column", "title"), "'title' must be of type id or category"),
    ("an unknown way with missing users", put("user/missing", "guess"), "user.missing"),
    ("a key that is no column", put("duplicates", {"key": ["x"], "keep": "all"}), "duplicates.key: 'x' is no column"),
    ("a key without an order", put("duplicates", {"key": ["item"]}), "needs `order`"),
    (
        "an order that is no number",
        put("duplicates", {"key": ["item"], "order": "brand"}),
        "duplicates.order: 'brand' must be of type integer or number or decimal",
    ),
    ("too many buckets", put("cut/buckets", 5000), "cut.buckets"),
    ("a broken expression", put("events/buy", "quantity >"), "shop.yaml: events.buy: 'quantity >' is not a DuckDB"),
    ("an impure expression", put("examples", "random() < 1"), "shop.yaml: examples: the function 'random'"),
    (
        "an unknown column",
        put("label", {"where": "bought"}),
        "label.where: 'bought' reads 'bought', which is no column",
    ),
    ("the event in an event's condition", put("events/buy", "event = 'x'"), "events.buy: "),
    (
        "an unknown event",
        put("label", {"event": "sell", "same": ["user"], "within_hours": 1}),
        "label.event 'sell' is none of the kinds under `events`",
    ),
    (
        "a label across users",
        put("label", {"event": "buy", "same": ["item"], "within_hours": 1}),
        "label.same must name the user column",
    ),
    (
        "a horizon of nothing",
        put("label", {"event": "buy", "same": ["user"], "within_hours": 0}),
        "label.within_hours: Input should be greater than 0",
    ),
    ("a text as a category", put("features/categories", ["title"]), "'title' must be of type id or category or"),
    ("an id as a number", put("features/numbers", ["item"]), "'item' must be of type integer or number or decimal"),
    ("an unknown number", put("features/numbers", [{"log1p": "x"}]), "features.numbers: 'x' is no column"),
    (
        "history of an unknown event",
        put("features/history", [{"count": "user", "days": [1], "event": "sell"}]),
        "features.history counts 'sell', which is none of `events`",
    ),
    ("history too long", put("features/history", [{"count": "user", "days": [31]}]), "less than or equal to 30"),
    ("no features", put("features", {}), "name at least one category, number or history"),
    ("uneven lanes", put("train/batch_rows", 100), "multiple of the 64 lanes that feed a batch, got 100: say 64"),
]


@pytest.mark.parametrize(("change", "message"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_a_fault_is_one_line_with_file_key_and_rule(change: Callable[[dict[str, Any]], object], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parsed(change)
    text = str(raised.value)
    assert message in text
    assert text.startswith("shop.yaml: ")
    assert len(text.splitlines()) == 1


def test_item_history_needs_an_item() -> None:
    def change(raw: dict[str, Any]) -> None:
        del raw["item"]
        raw["features"]["history"] = [{"count": "item", "days": [1]}]

    with pytest.raises(ConfigError, match="counts by item, but the dataset names no `item"):
        parsed(change)


def test_two_faults_are_two_lines() -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["cutt"] = raw["trainn"] = 1

    with pytest.raises(ConfigError) as raised:
        parsed(change)
    assert len(str(raised.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a\n- b\n", "must be a mapping of keys such as name, source, columns; got list"),
        ("", "got NoneType"),
        ("name: [", "not readable as YAML"),
        ("name: a\nname: b\n", "not readable as YAML"),
    ],
)
def test_what_is_no_contract_at_all_is_said_so(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"^shop\.yaml: ") as raised:
        parse_dataset(text, file="shop.yaml")
    assert message in str(raised.value)


def test_a_variable_that_is_not_set_is_named_with_the_remedy() -> None:
    with pytest.raises(ConfigError, match=r"source\.files.*'LANDING', which is not set\. Set it in \.env"):
        parse_dataset(as_text(SHOP), file="shop.yaml", variables={})
