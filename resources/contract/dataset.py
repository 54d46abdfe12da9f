"""The contract of a dataset: what a user must say in `datasets/NAME.yaml`, and nothing more.

Unknown keys, contradictions and impossible values are refused with the file, the key, the rule, the value and the
remedy. Names on the left of `columns` are the source's; from ingestion on only the `as` names exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from string import Template
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, available_timezones

import pyarrow as pa
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from resources.contract.errors import ConfigError
from resources.contract.expressions import columns_of

RESERVED = frozenset({"event_time", "event", "hour", "weekday"})
DERIVED_CATEGORIES = ("hour", "weekday")
OTHER_EVENT = "other"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(f"must be lower-case letters, digits and '_', beginning with a letter; got {value!r}")
    return value


def _zone(value: str) -> str:
    if value not in available_timezones():
        raise ValueError(f"must be an IANA time zone such as Europe/Berlin or UTC; got {value!r}")
    ZoneInfo(value)
    return value


def _if(is_first: Callable[[Any], bool]) -> Discriminator:
    """Tells the two kinds of a union apart before they are checked, so that a fault is one line and not one per kind."""
    return Discriminator(lambda value: "<first>" if is_first(value) else "<second>")


def _is_word(value: Any) -> bool:
    return isinstance(value, str)


def _says(key: str) -> Callable[[Any], bool]:
    return lambda value: key in value if isinstance(value, dict) else hasattr(value, key)


First, Second = Tag("<first>"), Tag("<second>")
Name = Annotated[str, AfterValidator(_name)]
Zone = Annotated[str, AfterValidator(_zone)]


class Strict(BaseModel):
    """A model that refuses unknown keys and silent conversions, and cannot change."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, populate_by_name=True)


class Csv(Strict):
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    quote: str = Field(default='"', min_length=1, max_length=1)
    header: Literal[True] = True

    @model_validator(mode="after")
    def _distinct_letters(self) -> Csv:
        if self.delimiter == self.quote or any(not c.isascii() or c in "\r\n" for c in (self.delimiter, self.quote)):
            raise ValueError(
                f"`delimiter` and `quote` must be two different ASCII characters within a line, got {self.delimiter!r} and "
                f"{self.quote!r}"
            )
        return self


class Source(Strict):
    files: str
    format: Literal["csv", "jsonl", "parquet"]
    encoding: str = "utf-8"
    csv: Csv = Csv()
    nulls: tuple[str, ...] = Field(default=("",))
    on_delete: Literal["keep"] = "keep"
    region: str | None = None

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, value: str) -> str:
        try:
            "".encode(value)
        except LookupError as error:
            raise ValueError(
                f"must be an encoding that Python knows, such as utf-8 or latin-1; got {value!r}"
            ) from error
        return value

    @property
    def names_day(self) -> bool:
        """Whether the path tells the delivery day."""
        return "{day}" in self.files


class Time(Strict):
    column: str
    format: str | None = None  # strptime; none: ISO 8601
    epoch: Literal["s", "ms", "us", "ns"] | None = None
    zone: Zone | None = None  # of zone-less times; offsets in the text are honoured

    @model_validator(mode="after")
    def _one_reading(self) -> Time:
        if self.epoch and (self.format or self.zone):
            raise ValueError("`epoch` counts from 1970 in UTC: leave out `format` and `zone`")
        if self.format is not None and "%" not in self.format:
            raise ValueError(
                f"`format` is written with strptime's % letters, such as '%Y-%m-%d %H:%M:%S', got {self.format!r}; leave it "
                "out for ISO 8601"
            )
        if self.format and self.zone is None and not any(offset in self.format for offset in ("%z", "%Z")):
            raise ValueError(
                f"`format` {self.format!r} reads no offset (%z), so no row would have a time: name the `zone` that it is "
                "written in, such as UTC"
            )
        return self


class Days(Strict):
    zone: Zone
    first: date
    last: date | None = None
    late: int = Field(default=7, ge=0, le=60)
    settle_hours: float = Field(default=6, ge=0)
    deadline_hours: float = Field(default=24, ge=0)
    # of the rows of the history that a day's features look back on, those of changed days; one late day in 30 is less
    rebuild_history_above: float = Field(default=0.05, ge=0, le=1)

    @model_validator(mode="after")
    def _in_order(self) -> Days:
        if self.last is not None and self.last < self.first:
            raise ValueError(f"`last` must not lie before `first` ({self.first}), got {self.last}")
        return self


def _exact(value: object) -> object:
    # through text: Decimal(0.1) would be the double's 55 digits, not what the YAML says
    return Decimal(str(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value


Number = Annotated[Decimal, BeforeValidator(_exact)]


class Column(Strict):
    as_: Name | None = Field(default=None, alias="as")
    type: Literal["id", "category", "text", "integer", "number", "decimal", "flag"]
    required: bool = True
    personal: bool = False
    strip_decimal_zero: bool = False  # ids: "17850.0" is 17850
    scale: int = Field(default=6, ge=0, le=12)  # decimals: digits kept after the point
    between: tuple[Number, Number] | None = None
    at_least: Number | None = None
    at_most: Number | None = None
    true: tuple[str, ...] = Field(default=("true", "1", "yes"))  # flags, compared in lower case
    false: tuple[str, ...] = Field(default=("false", "0", "no"))

    @model_validator(mode="after")
    def _fitting(self) -> Column:
        bounded = self.between is not None or self.at_least is not None or self.at_most is not None
        if bounded and not self.is_number:
            raise ValueError(f"bounds need an integer, number or decimal column; this one is of type {self.type!r}")
        if self.between is not None and (self.at_least is not None or self.at_most is not None):
            raise ValueError("say either `between` or `at_least`/`at_most`")
        if self.bounds[0] is not None and self.bounds[1] is not None and self.bounds[0] > self.bounds[1]:
            raise ValueError(f"the lower bound {self.bounds[0]} lies above the upper bound {self.bounds[1]}")
        if self.strip_decimal_zero and self.type != "id":
            raise ValueError("`strip_decimal_zero` is for ids")
        if set(self.true) & set(self.false):
            raise ValueError("a word cannot mean both true and false")
        return self

    @property
    def is_number(self) -> bool:
        return self.type in ("integer", "number", "decimal")

    @property
    def bounds(self) -> tuple[Decimal | None, Decimal | None]:
        """Lowest and highest allowed value, both included."""
        return self.between if self.between is not None else (self.at_least, self.at_most)

    @property
    def arrow_type(self) -> pa.DataType:
        """How the column is kept: exact text, 64-bit integers, decimals of 18 digits, doubles, booleans."""
        if self.type == "decimal":
            return pa.decimal128(18, self.scale)
        return {"integer": pa.int64(), "number": pa.float64(), "flag": pa.bool_()}.get(self.type, pa.string())


class User(Strict):
    column: Name
    missing: Literal["drop", "spread", "keep"] = "drop"


class Item(Strict):
    column: Name


class Duplicates(Strict):
    key: Annotated[Annotated[Literal["all_columns"], First] | Annotated[tuple[Name, ...], Second], _if(_is_word)] = (
        "all_columns"
    )
    keep: Literal["first", "last", "all"] = "first"
    order: Name | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Duplicates:
        if self.key != "all_columns" and self.keep != "all" and self.order is None:
            raise ValueError(
                "`keep: first|last` by a key needs `order`, the column that says which row came first: files may arrive "
                "in any order, and the result must not depend on it"
            )
        return self


class BadRows(Strict):
    at_most: float = Field(default=0.02, ge=0, le=1)


class Cut(Strict):
    by: Literal["user"] = "user"
    buckets: Annotated[
        Annotated[Literal["auto"], First] | Annotated[int, Field(ge=1, le=4096), Second], _if(_is_word)
    ] = "auto"

    @property
    def num_buckets(self) -> int:
        """Fixed for the life of a dataset: a user's history lies in one bucket over all days."""
        return 16 if self.buckets == "auto" else self.buckets


class EventLabel(Strict):
    """1 where an event of this kind follows: same columns, strictly later, at most so many hours later."""

    event: str
    same: tuple[Name, ...] = Field(min_length=1)
    within_hours: float = Field(gt=0, le=24 * 60)


class RowLabel(Strict):
    """1 where the expression holds on the row itself."""

    where: str


class Log1p(Strict):
    log1p: Name


class CountHistory(Strict):
    count: Literal["user", "item"]
    days: tuple[Annotated[int, Field(ge=1, le=30)], ...] = Field(min_length=1)
    event: str | None = None


class SinceLast(Strict):
    since_last: Literal["user"]


Label = Annotated[Annotated[RowLabel, First] | Annotated[EventLabel, Second], _if(_says("where"))]
NumberOf = Annotated[Annotated[Name, First] | Annotated[Log1p, Second], _if(_is_word)]
History = Annotated[Annotated[SinceLast, First] | Annotated[CountHistory, Second], _if(_says("since_last"))]


class Features(Strict):
    categories: tuple[str, ...] = Field(default=())
    numbers: tuple[NumberOf, ...] = Field(default=())
    history: tuple[History, ...] = Field(default=())


class Train(Strict):
    window_days: int = Field(default=14, ge=1, le=400)
    model: Literal["dcn_v2"] = "dcn_v2"
    epochs: int = Field(default=1, ge=1, le=100)
    batch_rows: int = Field(default=4096, ge=64, le=1 << 20)
    seed: int = 0

    @field_validator("batch_rows")
    @classmethod
    def _whole_lanes(cls, value: int) -> int:
        if value % 64:
            raise ValueError(
                f"must be a multiple of the 64 lanes that feed a batch, got {value}: say {value // 64 * 64}"
            )
        return value


class Dataset(Strict):
    name: Name
    source: Source
    time: Time
    days: Days
    columns: dict[str, Column] = Field(min_length=1)
    user: User
    item: Item | None = None
    events: dict[Name, str] = {}
    duplicates: Duplicates = Duplicates()
    bad_rows: BadRows = BadRows()
    cut: Cut = Cut()
    examples: str = "true"
    label: Label
    features: Features
    train: Train = Train()

    @field_validator("columns")
    @classmethod
    def _with_names(cls, columns: dict[str, Column]) -> dict[str, Column]:
        named: dict[str, Column] = {}
        for source, column in columns.items():
            named[source] = column if column.as_ else column.model_copy(update={"as_": _name(source)})
        names = [str(column.as_) for column in named.values()]
        for name in names:
            if name in RESERVED:
                raise ValueError(
                    f"`as: {name}` is a name of the product's own ({', '.join(sorted(RESERVED))}): choose another"
                )
            if names.count(name) > 1:
                raise ValueError(f"two columns are called `as: {name}`: one would hide the other")
        return named

    @model_validator(mode="after")
    def _consistent(self) -> Dataset:
        if self.time.column in self.columns:
            raise ValueError(f"time.column {self.time.column!r} stands under `columns` too; it is kept as event_time")
        self._require(self.user.column, "user.column", types=("id",))
        if self.item is not None:
            self._require(self.item.column, "item.column", types=("id", "category"))
        for name in () if self.duplicates.key == "all_columns" else self.duplicates.key:
            self._require(name, "duplicates.key")
        if self.duplicates.order not in (None, "event_time"):
            self._require(str(self.duplicates.order), "duplicates.order", types=("integer", "number", "decimal"))
        for kind, expression in self.events.items():
            columns_of(expression, key=f"events.{kind}", known=self.row_columns)
        kinds = {*self.events, OTHER_EVENT}
        columns_of(self.examples, key="examples", known=(*self.row_columns, "event"))
        if isinstance(self.label, RowLabel):
            columns_of(self.label.where, key="label.where", known=(*self.row_columns, "event"))
        else:
            if self.label.event not in self.events:
                raise ValueError(
                    f"label.event {self.label.event!r} is none of the kinds under `events`: {sorted(kinds)}"
                )
            for name in self.label.same:
                self._require(name, "label.same")
            if self.user.column not in self.label.same:
                raise ValueError("label.same must name the user column: the cut keeps only one user's events together")
        for name in self.features.categories:
            if name not in DERIVED_CATEGORIES:
                self._require(name, "features.categories", types=("id", "category", "integer", "flag"))
        for number in self.features.numbers:
            name = number.log1p if isinstance(number, Log1p) else number
            self._require(name, "features.numbers", types=("integer", "number", "decimal"))
        for history in self.features.history:
            if isinstance(history, CountHistory):
                if history.count == "item" and self.item is None:
                    raise ValueError("features.history counts by item, but the dataset names no `item: {column: ...}`")
                if history.event is not None and history.event not in kinds:
                    raise ValueError(
                        f"features.history counts {history.event!r}, which is none of `events`: {sorted(kinds)}"
                    )
        if not (self.features.categories or self.features.numbers or self.features.history):
            raise ValueError("features: name at least one category, number or history")
        return self

    def _require(self, name: str, key: str, types: tuple[str, ...] | None = None) -> None:
        column = self.by_name.get(name)
        if column is None:
            raise ValueError(f"{key}: {name!r} is no column (the `as` names count). Known: {', '.join(self.by_name)}")
        if types and column.type not in types:
            raise ValueError(f"{key}: {name!r} must be of type {' or '.join(types)}, it is {column.type}")

    @property
    def by_name(self) -> dict[str, Column]:
        """Columns by their `as` name, in the YAML's order."""
        return {str(column.as_): column for column in self.columns.values()}

    @property
    def row_columns(self) -> tuple[str, ...]:
        """The columns of an ingested row: event_time, then the `as` names in the YAML's order."""
        return ("event_time", *self.by_name)

    @property
    def row_schema(self) -> pa.Schema:
        """Arrow schema of an ingested row."""
        fields = [pa.field("event_time", pa.timestamp("us", tz="UTC"), nullable=False)]
        fields += [pa.field(name, column.arrow_type) for name, column in self.by_name.items()]
        return pa.schema(fields)

    @property
    def horizon_hours(self) -> float:
        """How far ahead a label looks; 0 for row labels."""
        return self.label.within_hours if isinstance(self.label, EventLabel) else 0.0


def _frozen(value: Any) -> Any:
    """YAML's lists as tuples, so that the strict model takes them and nothing of a contract can change."""
    if isinstance(value, dict):
        # `true:` and `false:` are keys of a flag's words; YAML reads them as booleans
        return {str(k).lower() if isinstance(k, bool) else k: _frozen(inner) for k, inner in value.items()}
    return tuple(_frozen(inner) for inner in value) if isinstance(value, list) else value


def _located(file: str, error: ValidationError) -> str:
    lines = []
    faults = error.errors(include_url=False)
    places = [fault["loc"] for fault in faults]
    for fault in faults:
        if any(len(place) > len(fault["loc"]) and place[: len(fault["loc"])] == fault["loc"] for place in places):
            continue  # a list that is too short only because an item of it was refused
        key = ".".join(str(part) for part in fault["loc"] if not str(part).startswith("<"))
        message = fault["msg"].removeprefix("Value error, ")
        if fault["type"] == "extra_forbidden":
            message = "there is no such key, and a mistyped one would be silently without effect"
        shown = fault.get("input")
        found = f", got {shown!r}" if isinstance(shown, str | int | float | bool) and repr(shown) not in message else ""
        lines.append(f"{file}: {key or 'the dataset'}: {message}{found}")
    return "\n".join(dict.fromkeys(lines))


def parse_dataset(text: str, *, file: str, variables: dict[str, str] | None = None) -> Dataset:
    """The contract that a YAML text says. Raises ConfigError with one line per fault.

    Args:
        file: the file's name, for messages.
        variables: what `${LANDING}` and the like stand for; an unknown one is refused.
    """
    try:
        raw: Any = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise ConfigError(f"{file}: not readable as YAML: {' '.join(str(error).split())}") from error
    if not isinstance(raw, dict):
        raise ConfigError(f"{file}: must be a mapping of keys such as name, source, columns; got {type(raw).__name__}.")
    try:
        dataset = Dataset.model_validate(_frozen(raw))
    except ValidationError as error:
        raise ConfigError(_located(file, error)) from error
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from error
    if dataset.name != Path(file).stem:
        raise ConfigError(
            f"{file}: name must be the file's own, {Path(file).stem!r}, got {dataset.name!r}: it is the key prefix."
        )
    if variables is None:
        return dataset
    try:
        files = Template(dataset.source.files).substitute(variables)
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"{file}: source.files: {dataset.source.files!r} names {error}, which is not set. Set it in .env."
        ) from error
    return dataset.model_copy(update={"source": dataset.source.model_copy(update={"files": files})})


def load_dataset(path: Path, *, variables: dict[str, str] | None = None) -> Dataset:
    """The contract in one file."""
    return parse_dataset(path.read_text(encoding="utf-8"), file=path.name, variables=variables)
