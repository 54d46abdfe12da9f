"""pyarrow: batches through its compute functions, as many files at a time as there are cores.

It has no cast that fails by value, so texts are matched first. Its JSON reader stops at the first line that is
malformed or whose value has another type than declared: it gets the day without those.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from ingest_rivals.event_day import (
    AHEAD_DAYS,
    COLUMNS,
    DAY,
    FIRST,
    KEY,
    LATE_DAYS,
    NUM_CATEGORIES,
    LandedDay,
)
from ingest_rivals.taken import Taken, files_of

_BATCH_ROWS = 1 << 17
_BLOCK_BYTES = 8 << 20
_DAY_US = 86_400_000_000
_TIME = r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,6})?Z$"
_PATTERNS = {
    "event_time": (_TIME, pa.timestamp("us", tz="UTC"), "unreadable_time"),
    "category": (r"^-?\d{1,18}$", pa.int64(), "not_an_integer"),
    "price": (r"^[+-]?\d+(\.\d*)?([eE][+-]?\d{1,2})?$", pa.float64(), "not_a_number"),
    "label": (r"^-?\d{1,18}$", pa.int64(), "not_an_integer"),
}
_TYPES = {
    "event_time": pa.timestamp("us", tz="UTC"),
    "category": pa.int64(),
    "price": pa.float64(),
    "label": pa.int64(),
}
_ENUMS = ("brand", "event_type", "device", "site")
_REPEATING = ["user_id", "item_id", "category", *_ENUMS, "label"]
_QUARANTINE = pa.schema(
    {"file": "string", "line": "int64", "column": "string", "value": "string", "reason": "string", "raw": "string"}
)

_EMPTY = pa.schema([(name, pa.string()) for name in COLUMNS]).empty_table()

Batch = tuple[pa.Table, np.ndarray, list[tuple[int, str]]]  # rows as read, their lines, and ragged lines


def take(day: LandedDay, folder: Path) -> Taken:
    """The day through pyarrow."""
    pa.set_memory_pool(pa.system_memory_pool())  # takes a fifth less CPU than its own, freed by other threads
    (folder / "good").mkdir()
    (folder / "quarantine").mkdir()
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        keys = [part for parts in pool.map(lambda path: _of_file(day, path, folder), day.files) for part in parts]
    names = [*KEY, "event_day"]
    # its threads take twice as long here
    distinct = pa.concat_tables(keys).unify_dictionaries().group_by(names, use_threads=False).aggregate([])
    return replace(files_of(folder), duplicates=sum(part.num_rows for part in keys) - distinct.num_rows)


def _of_file(day: LandedDay, path: Path, folder: Path) -> list[pa.Table]:
    """Writes the rows of one file; the keys of its good rows."""
    writers: dict[date, pq.ParquetWriter] = {}
    bad = [_QUARANTINE.empty_table()]
    keys = []
    readers = {"parquet": _parquet, "csv": _csv, "jsonl": _json}
    for read, lines, ragged in readers[day.shape.format.split(".")[0]](path):
        typed, fault, names = _checked(read)
        bad += [_failed(path, read, lines, fault, names), _ragged(path, ragged)]
        good = typed.filter(pc.equal(fault, len(names)))
        days = pc.floor_temporal(good["event_time"], unit="day").cast(pa.int64()).to_numpy() // _DAY_US
        for number in np.unique(days).tolist():
            event_day = date(1970, 1, 1) + timedelta(days=number)
            rows = good.filter(pa.array(days == number))
            if event_day not in writers:
                at = folder / "good" / f"event_day={event_day}"
                at.mkdir(exist_ok=True)
                writers[event_day] = pq.ParquetWriter(
                    at / f"{path.name}.parquet",
                    rows.schema,
                    compression="zstd",
                    use_dictionary=_REPEATING,  # pyright: ignore[reportArgumentType]
                )
            writers[event_day].write_table(rows)
            keys.append(rows.select(KEY).append_column("event_day", pa.repeat(pa.scalar(number), rows.num_rows)))
    for writer in writers.values():
        writer.close()
    pq.write_table(pa.concat_tables(bad), folder / "quarantine" / f"{path.name}.parquet", compression="zstd")
    return keys


def _checked(read: pa.Table) -> tuple[pa.Table, pa.Array, list[tuple[str, str]]]:
    """The rows with the contract's types, the number of each one's first fault, and what the faults are called."""
    columns, rules = {}, []
    for name in COLUMNS:
        column = read[name].combine_chunks()
        if name in _PATTERNS and pa.types.is_string(column.type):
            pattern, kind, reason = _PATTERNS[name]
            fits = pc.match_substring_regex(column, pattern)
            if not pc.all(fits).as_py():
                rules.append(((name, reason), pc.invert(fits)))
                column = pc.if_else(fits, column, None)
            column = column.cast(kind)
        elif name in _TYPES:
            column = column.cast(_TYPES[name])
        elif not pa.types.is_dictionary(column.type):
            column = column.cast(pa.string())
        columns[name] = column
    time, price = columns["event_time"], columns["price"]
    rules += [
        (("event_time", "missing"), pc.is_null(time)),
        (("event_time", "before_first_day"), pc.less(time, _midnight(FIRST))),
        (("event_time", "too_late"), pc.less(time, _midnight(DAY - timedelta(days=LATE_DAYS)))),
        (("event_time", "implausible_time"), pc.greater_equal(time, _midnight(DAY + timedelta(days=AHEAD_DAYS + 1)))),
        *(
            ((name, "missing"), pc.is_null(columns[name]))
            for name in COLUMNS
            if name != "price" and columns[name].null_count
        ),
        (("category", "out_of_bounds"), _outside(columns["category"], NUM_CATEGORIES - 1)),
        (("label", "out_of_bounds"), _outside(columns["label"], 1)),
        (("price", "out_of_bounds"), pc.less(price, 0)),
        (("price", "not_finite"), pc.invert(pc.is_finite(price))),
    ]
    found = [(name, pc.fill_null(rule, False)) for name, rule in rules if pc.any(rule).as_py()]
    number = pa.repeat(pa.scalar(len(found), pa.int32()), read.num_rows)
    for place, (_, rule) in reversed(list(enumerate(found))):
        number = pc.if_else(rule, pa.scalar(place, pa.int32()), number)
    return pa.table(columns), number, [name for name, _ in found]


def _midnight(day: date) -> pa.Scalar:
    return pa.scalar((day - date(1970, 1, 1)).days * _DAY_US).cast(pa.timestamp("us", tz="UTC"))


def _outside(column: pa.Array, most: int) -> pa.Array:
    return pc.or_(pc.less(column, 0), pc.greater(column, most))


def _failed(path: Path, read: pa.Table, lines: np.ndarray, fault: pa.Array, names: list[tuple[str, str]]) -> pa.Table:
    places = np.flatnonzero(fault.to_numpy() < len(names))
    numbers = fault.to_numpy()[places].tolist()
    rows = read.take(places).to_pylist()
    columns = [names[number][0] for number in numbers]
    values = [None if row[name] is None else str(row[name]) for row, name in zip(rows, columns, strict=True)]
    return pa.table(
        {
            "file": pa.repeat(pa.scalar(path.name), len(rows)),
            "line": lines[places],
            "column": pa.array(columns, pa.string()),
            "value": pa.array(values, pa.string()),
            "reason": pa.array([names[number][1] for number in numbers], pa.string()),
            # the line itself is not kept
            "raw": pa.array(
                [None if path.suffix == ".parquet" else ",".join(map(str, row.values())) for row in rows], pa.string()
            ),
        },
        schema=_QUARANTINE,
    )


def _ragged(path: Path, ragged: list[tuple[int, str]]) -> pa.Table:
    rows = [{"file": path.name, "line": line, "reason": "ragged", "raw": raw} for line, raw in ragged]
    return pa.Table.from_pylist(rows, schema=_QUARANTINE)


def _parquet(path: Path) -> Iterator[Batch]:
    line = 1
    with pq.ParquetFile(path, read_dictionary=list(_ENUMS)) as file:
        for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
            yield pa.Table.from_batches([batch]), np.arange(line, line + batch.num_rows), []
            line += batch.num_rows


def _json(path: Path) -> Iterator[Batch]:
    kinds = {
        "user_id": pa.int64(),
        "item_id": pa.int64(),
        "category": pa.int64(),
        "price": pa.float64(),
        "label": pa.int64(),
    }
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
    line = 1
    with pa.input_stream(str(path)) as stream:
        reader = pyarrow.json.open_json(
            stream,
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=pyarrow.json.ParseOptions(explicit_schema=schema),
        )
        for batch in reader:
            yield pa.Table.from_batches([batch]), np.arange(line, line + batch.num_rows), []
            line += batch.num_rows


def _csv(path: Path) -> Iterator[Batch]:
    """Lines are numbered by the rows before them; ragged ones are told by the reader."""
    ragged: list[tuple[int, str]] = []

    def skipped(row: pyarrow.csv.InvalidRow) -> str:
        ragged.append((row.number, row.text))
        return "skip"

    kinds = {name: pa.dictionary(pa.int32(), pa.string()) if name in _ENUMS else pa.string() for name in COLUMNS}
    row = 0
    with pa.input_stream(str(path)) as stream:
        reader = pyarrow.csv.open_csv(
            stream,
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=pyarrow.csv.ParseOptions(invalid_row_handler=skipped),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=kinds, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
            ),
        )
        for batch in reader:
            rows = np.arange(row, row + batch.num_rows)
            before = [line - 2 - index for index, (line, _) in enumerate(ragged)]  # good rows before each ragged one
            row += batch.num_rows
            yield pa.Table.from_batches([batch]), rows + 2 + np.searchsorted(before, rows, side="right"), []
        yield _EMPTY, np.empty(0, dtype=np.int64), ragged
