"""What a program made of a day, and whether it is what was planted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest_rivals.event_day import START_MS, LandedDay


@dataclass(frozen=True, kw_only=True)
class Taken:
    """Parquet files of good rows by event day and of quarantined rows, and how many good rows repeat a key."""

    good: Mapping[str, list[Path]]
    quarantine: list[Path]
    duplicates: int


def differences(day: LandedDay, taken: Taken) -> list[str]:
    """Everything in which the result is not the planted truth; empty where it is."""
    planted, wrong = day.planted, []
    paths = [str(path) for paths in taken.good.values() for path in paths]
    for path in paths:
        wrong += _type_differences(day, Path(path))
    good = {name: sum(pq.read_metadata(path).num_rows for path in paths) for name, paths in taken.good.items()}
    engine = duckdb.connect()
    engine.execute("SET TimeZone = 'UTC'")
    names = ("cents", "priced", "category", "label", "ms", "users", "items")
    found = engine.execute(
        "select sum(round(price * 100)::bigint), count(price), sum(category), sum(label), "
        f"sum(epoch_ms(event_time) - {START_MS}), count(distinct user_id), count(distinct item_id) "
        "from read_parquet($1, hive_partitioning = false)",
        [paths],
    ).fetchone()
    assert found is not None
    sums = dict(zip(names, map(int, found), strict=True))
    bad = engine.execute(
        "select reason, count(*), sum(line) from read_parquet($1) group by reason",
        [[str(path) for path in taken.quarantine]],
    ).fetchall()
    reasons = {reason: count for reason, count, _ in bad}
    lines = {reason: int(total) for reason, _, total in bad if total is not None}
    single = day.shape.files <= 16  # otherwise the truth about lines is told of the whole
    wanted_lines = {reason: planted.lines[reason] for reason in lines if reason in planted.lines and single}
    facts = (
        ("good rows", good, planted.good),
        ("quarantine", reasons, planted.reasons),
        ("lines of the bad rows", lines if single else {}, wanted_lines),
        ("duplicates", taken.duplicates, planted.duplicates),
        ("sums of the good rows", sums, planted.sums),
    )
    wrong += [f"{what}: {is_} instead of {should}" for what, is_, should in facts if is_ != should]
    return wrong


def _type_differences(day: LandedDay, path: Path) -> list[str]:
    """Columns that are not of the contract's type; large texts and dictionaries of texts are texts in Parquet."""
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
        packed = {file.metadata.row_group(0).column(0).compression} if file.metadata.num_row_groups else {"ZSTD"}

    def plain(kind: pa.DataType) -> pa.DataType:
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind

    found = [(field.name, str(plain(field.type))) for field in schema]
    wanted = [(field.name, str(field.type)) for field in day.contract.row_schema]
    wrong = [f"{path.name}: columns {found} instead of {wanted}"] if found != wanted else []
    return wrong + ([f"{path.name}: packed as {packed}"] if packed != {"ZSTD"} else [])


def files_of(folder: Path) -> Taken:
    """The files below good/event_day=D/ and quarantine/ of a rival's folder; its duplicates are yet to be told."""
    days = sorted((folder / "good").glob("event_day=*"))
    good = {day.name.removeprefix("event_day="): sorted(day.rglob("*.parquet")) for day in days}
    return Taken(good=good, quarantine=sorted((folder / "quarantine").glob("*.parquet")), duplicates=-1)
