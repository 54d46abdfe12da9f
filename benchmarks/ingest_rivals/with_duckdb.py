"""DuckDB: one query types, checks and numbers the rows; texts are cast with `try_cast` and written back to compare."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import duckdb

from ingest_rivals.event_day import AHEAD_DAYS, COLUMNS, DAY, FIRST, KEY, LATE_DAYS, NUM_CATEGORIES, LandedDay
from ingest_rivals.taken import Taken, files_of

_REQUIRED = ("user_id", "item_id", "category", "brand", "event_type", "device", "site", "session_id", "label")
_BOUNDS = {"category": f"not between 0 and {NUM_CATEGORIES - 1}", "label": "not between 0 and 1", "price": "< 0"}


def take(day: LandedDay, folder: Path) -> Taken:
    """The day through DuckDB. Texts are parsed once, into a table; Parquet is cheaper to scan twice."""
    engine = duckdb.connect()
    # rows may be written in any order
    engine.execute("SET TimeZone = 'UTC'; SET preserve_insertion_order = false")
    engine.execute(f"SET temp_directory = '{folder}/spilled'")
    kind = "view" if day.shape.format == "parquet" else "temp table"
    engine.execute(f"create {kind} rows as {_checked(day)}")
    (folder / "quarantine").mkdir(parents=True)
    engine.execute(
        f"copy (select {', '.join(COLUMNS)}, event_time::date as event_day from rows where reason is null) "
        f"to '{folder}/good' (format parquet, compression zstd, compression_level 1, partition_by (event_day))"
    )
    value = "case fault[2] " + " ".join(f"when '{name}' then {_shown(name, day)}" for name in COLUMNS) + " end"
    engine.execute(
        f'copy (select file, line, fault[2] as "column", {value} as value, fault[1] as reason, {_raw(day)} as raw '
        f"from rows where reason is not null) to '{folder}/quarantine/0.parquet' (format parquet, compression zstd, compression_level 1)"
    )
    key = f"row({', '.join(KEY)}, event_time::date)"
    found = engine.execute(f"select count(*) - count(distinct {key}) from rows where reason is null").fetchone()
    assert found is not None
    return replace(files_of(folder), duplicates=found[0])


def _shown(name: str, day: LandedDay) -> str:
    return f"t_{name}" if day.shape.format != "parquet" and name in _TYPED else f"{name}::varchar"


_TYPED = {"event_time": "timestamptz", "category": "bigint", "price": "double", "label": "bigint"}


def _checked(day: LandedDay) -> str:
    """Every row with its types, its file and line, and its first fault, if it has one."""
    parquet, json = day.shape.format == "parquet", day.shape.format.startswith("json")
    if parquet:
        casts = {"user_id": "varchar", "item_id": "varchar", "category": "bigint", "label": "bigint"}
        shown = [f"{name}::{casts[name]} as {name}" if name in casts else name for name in COLUMNS]
        source = f"read_parquet({_paths(day)}, hive_partitioning = false, file_row_number = true, filename = true)"
        typed = f"select {', '.join(shown)}, filename as file, file_row_number + 1 as line from {source}"
        faults = []
    else:
        shown = [f"try_cast({n} as {_TYPED[n]}) as {n}, {n} as t_{n}" if n in _TYPED else n for n in COLUMNS]
        more = "" if json else ", surplus"
        rows = " union all ".join(_numbered(path, json=json) for path in day.files)
        typed = f"select {', '.join(shown)}{more}, file, line from ({rows})"
        broken = " and ".join(f"{name} is null" for name in COLUMNS).replace("event_time", "t_event_time")
        faults = [
            (broken if json else "surplus is not null or label is null", "malformed_json" if json else "ragged", None),
            ("event_time is null and t_event_time is not null", "unreadable_time", "event_time"),
            ("category is null and t_category is not null", "not_an_integer", "category"),
            ("category::varchar <> t_category", "not_an_integer", "category"),
            ("price is null and t_price is not null", "not_a_number", "price"),
            ("label is null and t_label is not null", "not_an_integer", "label"),
            ("label::varchar <> t_label", "not_an_integer", "label"),
        ]
    faults += [
        ("event_time is null", "missing", "event_time"),
        (f"event_time < '{FIRST}'::timestamptz", "before_first_day", "event_time"),
        (f"event_time < '{DAY - timedelta(days=LATE_DAYS)}'::timestamptz", "too_late", "event_time"),
        (f"event_time >= '{DAY + timedelta(days=AHEAD_DAYS + 1)}'::timestamptz", "implausible_time", "event_time"),
        *((f"{name} is null", "missing", name) for name in _REQUIRED),
        *((f"{name} {bound}", "out_of_bounds", name) for name, bound in _BOUNDS.items()),
        ("not isfinite(price)", "not_finite", "price"),
    ]
    # one number per fault: a short text or a list per row would cost more
    reason = "case " + " ".join(f"when {rule} then {place}" for place, (rule, *_) in enumerate(faults, 1)) + " end"
    names = ", ".join(f"['{why}', {_quoted(column)}]" for _, why, column in faults)
    return f"select *, {reason} as reason, [{names}][reason] as fault from ({typed})"


def _quoted(text: str | None) -> str:
    return "null" if text is None else f"'{text}'"


def _paths(day: LandedDay) -> str:
    return "[" + ", ".join(f"'{path}'" for path in day.files) + "]"


def _numbered(path: Path, *, json: bool) -> str:
    """The texts of a file with the line of each row, which are its rows' numbers: there are no line breaks in quotes."""
    names = COLUMNS if json else (*COLUMNS, "surplus")
    columns = "{" + ", ".join(f"'{name}': 'varchar'" for name in names) + "}"
    if json:
        source = f"read_json('{path}', format = 'newline_delimited', columns = {columns}, ignore_errors = true)"
        first = 0
    else:
        source = (
            f"read_csv('{path}', auto_detect = false, header = false, skip = 1, delim = ',', quote = '\"', escape = '\"', "
            f"columns = {columns}, null_padding = true)"
        )
        first = 1
    return f"select *, '{path.name}' as file, row_number() over () + {first} as line from {source}"


def _raw(day: LandedDay) -> str:
    """The row as it can be put together again: DuckDB does not keep the line itself."""
    if day.shape.format == "parquet":
        return "null::varchar"
    shown = [f"t_{name}" if name in _TYPED else name for name in COLUMNS]
    return f"concat_ws(',', {', '.join(shown)})"
