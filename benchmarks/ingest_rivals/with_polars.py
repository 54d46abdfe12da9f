"""Polars: one lazy query with three ends, which the streaming engine reads the files once for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path

import polars as pl

from ingest_rivals.event_day import AHEAD_DAYS, COLUMNS, DAY, FIRST, KEY, LATE_DAYS, NUM_CATEGORIES, LandedDay
from ingest_rivals.taken import Taken, files_of

_REQUIRED = ("user_id", "item_id", "category", "brand", "event_type", "device", "site", "session_id", "label")
_TYPED = ("event_time", "category", "price", "label")


def take(day: LandedDay, folder: Path) -> Taken:
    """The day through Polars."""
    rows = _checked(day).cache()  # both the good and the bad are taken from one reading
    good = rows.filter(pl.col("fault").is_null())
    good = good.select(*COLUMNS, event_day=pl.col("event_time").dt.date())
    names = {"parquet": COLUMNS}.get(day.shape.format, tuple(f"t_{n}" if n in _TYPED else n for n in COLUMNS))
    shown = {name: pl.col(text).cast(pl.String) for name, text in zip(COLUMNS, names, strict=True)}
    column, reason = (pl.col("fault").replace_strict(_names(part), return_dtype=pl.String) for part in (0, 1))
    value = pl.coalesce(pl.when(column == name).then(text) for name, text in shown.items())
    raw = pl.lit(None, pl.String)
    if day.shape.format != "parquet":  # the lines themselves are not kept, except malformed ones
        raw = pl.concat_str(*shown.values(), separator=",", ignore_nulls=True)
    if day.shape.format.startswith("json"):
        raw = pl.coalesce("text", raw)
    bad = rows.filter(pl.col("fault").is_not_null()).select(
        "file", "line", column=column, value=value, reason=reason, raw=raw
    )
    key = pl.struct(*KEY, "event_day")
    (folder / "quarantine").mkdir(parents=True)
    *_, counted = pl.collect_all(
        [
            good.sink_parquet(
                pl.PartitionBy(folder / "good", key="event_day", include_key=False),
                compression="zstd",
                compression_level=1,
                maintain_order=False,
                mkdir=True,
                lazy=True,
            ),
            bad.sink_parquet(folder / "quarantine" / "0.parquet", compression="zstd", lazy=True),
            good.select(pl.len() - key.n_unique()),
        ],
        engine="streaming",
    )
    return replace(files_of(folder), duplicates=counted.item())


_FAULTS = (
    *(("event_time", "unreadable_time"), ("category", "not_an_integer"), ("price", "not_a_number")),
    *(("label", "not_an_integer"), (None, "ragged"), (None, "malformed_json"), ("event_time", "missing")),
    *(("event_time", reason) for reason in ("before_first_day", "too_late", "implausible_time")),
    *((name, "missing") for name in _REQUIRED),
    *((name, "out_of_bounds") for name in ("category", "label", "price")),
    ("price", "not_finite"),
)


def _names(part: int) -> dict[int, str | None]:
    return {number: fault[part] for number, fault in enumerate(_FAULTS)}


def _checked(day: LandedDay) -> pl.LazyFrame:
    """Every row with its types, its file and line, and the number of its first fault, if it has one."""
    typed = _of_parquet(day) if day.shape.format == "parquet" else _of_text(day)
    moment, price = pl.col("event_time"), pl.col("price")
    rules: list[tuple[tuple[str | None, str], pl.Expr]] = []
    if day.shape.format != "parquet":
        for name, reason in _FAULTS[:4]:
            text = pl.col(f"t_{name}")
            wrong = pl.col(str(name)).is_null() & text.is_not_null()
            if reason == "not_an_integer":
                wrong |= pl.col(str(name)).cast(pl.String) != text
            rules.append(((name, reason), wrong))
        if day.shape.format.startswith("csv"):
            rules.insert(0, ((None, "ragged"), pl.col("surplus").is_not_null() | pl.col("t_label").is_null()))
        else:
            rules.insert(0, ((None, "malformed_json"), pl.col("text").is_not_null()))
    rules += [
        (("event_time", "missing"), moment.is_null()),
        (("event_time", "before_first_day"), moment < _midnight(FIRST)),
        (("event_time", "too_late"), moment < _midnight(DAY - timedelta(days=LATE_DAYS))),
        (("event_time", "implausible_time"), moment >= _midnight(DAY + timedelta(days=AHEAD_DAYS + 1))),
        *(((name, "missing"), pl.col(name).is_null()) for name in _REQUIRED),
        (("category", "out_of_bounds"), ~pl.col("category").is_between(0, NUM_CATEGORIES - 1)),
        (("label", "out_of_bounds"), ~pl.col("label").is_between(0, 1)),
        (("price", "out_of_bounds"), price < 0),
        (("price", "not_finite"), ~price.is_finite()),
    ]
    fault = pl.coalesce(pl.when(rule).then(pl.lit(_FAULTS.index(name), pl.UInt8)) for name, rule in rules)
    return typed.with_columns(fault=fault)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _of_parquet(day: LandedDay) -> pl.LazyFrame:
    files = [pl.scan_parquet(path, row_index_name="line", row_index_offset=1) for path in day.files]
    rows = pl.concat([file.with_columns(file=pl.lit(path.name)) for file, path in zip(files, day.files, strict=True)])
    return rows.with_columns(
        pl.col("event_time").cast(pl.Datetime("us", "UTC")),
        pl.col("user_id", "item_id").cast(pl.String),
        pl.col("category", "label").cast(pl.Int64),
        pl.col("line").cast(pl.Int64),
    )


def _of_text(day: LandedDay) -> pl.LazyFrame:
    """The texts, numbered as their lines are: there are no line breaks in quotes."""
    of_file = csv_texts if day.shape.format.startswith("csv") else json_texts
    rows = pl.concat([of_file(path).with_columns(file=pl.lit(path.name)) for path in day.files])
    return rows.rename({name: f"t_{name}" for name in _TYPED}).with_columns(
        event_time=pl.col("t_event_time").str.to_datetime(_ISO, time_unit="us", time_zone="UTC", strict=False),
        category=pl.col("t_category").cast(pl.Int64, strict=False),
        price=pl.col("t_price").cast(pl.Float64, strict=False),
        label=pl.col("t_label").cast(pl.Int64, strict=False),
        line=pl.col("line").cast(pl.Int64),
    )


_ISO = "%Y-%m-%dT%H:%M:%S%.fZ"


def csv_texts(path: Path) -> pl.LazyFrame:
    schema = dict.fromkeys((*COLUMNS, "surplus"), pl.String)
    return pl.scan_csv(
        path,
        has_header=False,
        skip_rows=1,
        schema=schema,
        missing_columns="insert",
        row_index_name="line",
        row_index_offset=2,
    )


def json_texts(path: Path) -> pl.LazyFrame:
    """Polars stops at the first malformed line, so it is told of those: it takes lines for whole that end with a }."""
    lines = pl.scan_lines(path, name="text", row_index_name="line", row_index_offset=1)
    whole = pl.col("text").str.ends_with("}")
    row = pl.when(whole).then("text").str.json_decode(pl.Struct(dict.fromkeys(COLUMNS, pl.String)))
    return lines.with_columns(row=row, text=pl.when(~whole).then("text")).unnest("row")
