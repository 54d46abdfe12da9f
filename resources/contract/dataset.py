"""The contract of a dataset: what a user must say in `datasets/NAME.yaml`, and nothing more.

Unknown keys, contradictions and impossible values are refused with the file, the key, the rule, the value and the
remedy. Names on the left of `columns` are the source's; from ingestion on only the `as` names exist.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from string import Template
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field, ValidationError, field_validator, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from resources.contract.column import Column
from resources.contract.errors import ConfigError
from resources.contract.expressions import columns_of
from resources.contract.source import ACCESS_LOG_FIELDS, ACCESS_LOG_TIME, Source, Time
from resources.contract.strict import First, Name, Second, Strict, Zone, first_if, is_word, plain_name, says

RESERVED = frozenset({"event_time", "event", "hour", "weekday"})
DERIVED_CATEGORIES = ("hour", "weekday")
OTHER_EVENT = "other"


class Days(Strict):
    zone: Zone
    first: date
    last: date | None = None
    late: int = Field(default=7, ge=0, le=60)
    settle_hours: float = Field(default=6, ge=0)
    deadline_hours: float = Field(default=24, ge=0)
    ahead_hours: float = Field(default=24, ge=0, le=24)  # how far behind its delivery day's end a row may have happened
    # of the rows of the history that a day's features look back on, those of changed days; one late day in 30 is less
    rebuild_history_above: float = Field(default=0.05, ge=0, le=1)

    @model_validator(mode="after")
    def _in_order(self) -> Days:
        if self.last is not None and self.last < self.first:
            raise ValueError(f"`last` must not lie before `first` ({self.first}), got {self.last}")
        return self


class User(Strict):
    column: Name
    missing: Literal["drop", "spread", "keep"] = "drop"


class Item(Strict):
    column: Name


class Duplicates(Strict):
    key: Annotated[
        Annotated[Literal["all_columns"], First] | Annotated[tuple[Name, ...], Second], first_if(is_word)
    ] = "all_columns"
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
        Annotated[Literal["auto"], First] | Annotated[int, Field(ge=1, le=4096), Second], first_if(is_word)
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


Label = Annotated[Annotated[RowLabel, First] | Annotated[EventLabel, Second], first_if(says("where"))]
NumberOf = Annotated[Annotated[Name, First] | Annotated[Log1p, Second], first_if(is_word)]
History = Annotated[Annotated[SinceLast, First] | Annotated[CountHistory, Second], first_if(says("since_last"))]


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
    events: dict[Name, str] = Field(default_factory=dict)
    duplicates: Duplicates = Duplicates()
    bad_rows: BadRows = BadRows()
    cut: Cut = Cut()
    examples: str = "true"
    label: Label
    features: Features
    train: Train = Train()

    @model_validator(mode="before")
    @classmethod
    def _times_of_a_log(cls, raw: Any) -> Any:
        """An access log says by itself where its times stand and how they are written."""
        if not isinstance(raw, dict) or not isinstance(raw.get("source"), dict):
            return raw
        if raw["source"].get("format") != "access_log" or not isinstance(raw.get("time", {}), dict):
            return raw
        return {**raw, "time": {"column": "time", "format": ACCESS_LOG_TIME, **raw.get("time", {})}}

    @field_validator("columns")
    @classmethod
    def _with_names(cls, columns: dict[str, Column]) -> dict[str, Column]:
        named: dict[str, Column] = {}
        for source, column in columns.items():
            named[source] = column if column.as_ else column.model_copy(update={"as_": plain_name(source)})
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
        if self.source.format == "access_log":
            for field in (self.time.column, *self.columns):
                if field not in ACCESS_LOG_FIELDS:
                    raise ValueError(f"{field!r} is no field of an access log: {', '.join(ACCESS_LOG_FIELDS)}")
        header = self.source.csv.header
        if self.source.format == "csv" and isinstance(header, tuple):
            for field in (self.time.column, *(n for n, column in self.columns.items() if column.required)):
                if field not in header:
                    raise ValueError(f"{field!r} is none of the names in source.csv.header: {', '.join(header)}")
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
    places: dict[str, str] = {}
    for key in ("files", "ready"):
        if (place := getattr(dataset.source, key)) is None:
            continue
        try:
            places[key] = Template(place).substitute(variables)
        except (KeyError, ValueError) as error:
            raise ConfigError(
                f"{file}: source.{key}: {place!r} names {error}, which is not set. Set it in .env."
            ) from error
    return dataset.model_copy(update={"source": dataset.source.model_copy(update=places)})


def load_dataset(path: Path, *, variables: dict[str, str] | None = None) -> Dataset:
    """The contract in one file."""
    return parse_dataset(path.read_text(encoding="utf-8"), file=path.name, variables=variables)
