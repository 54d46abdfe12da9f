"""What nobody can be faster than: the day's bytes read, unzipped, and parsed without a single check."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from isal import igzip

from ingest_rivals.event_day import COLUMNS, LandedDay
from ingest_rivals.with_polars import csv_texts, json_texts

_BLOCK_BYTES = 1 << 20


def limits(day: LandedDay) -> dict[str, Callable[[], object]]:
    """What can be measured of a day, by its name."""
    found: dict[str, Callable[[], object]] = {"read bytes": lambda: _each(day, _read)}
    if day.shape.format.endswith(".gz"):
        found |= {"gunzip, zlib": lambda: _each(day, _unzipped), "gunzip, isal": lambda: _each(day, _unzipped_by_isal)}
    if day.shape.format == "parquet":
        return found | {"decode, pyarrow": lambda: _each(day, _decoded)}
    texts = csv_texts if day.shape.format.startswith("csv") else json_texts
    rows = pl.concat([texts(path) for path in day.files])
    lengths = [pl.col(name).str.len_bytes().sum() for name in COLUMNS]
    return found | {"parse, Polars": lambda: rows.select(lengths).collect(engine="streaming")}


def _each(day: LandedDay, work: Callable[[Path], int]) -> int:
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        return sum(pool.map(work, day.files))


def _read(path: Path) -> int:
    total = 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            total += len(block)
    return total


def _unzipped(path: Path) -> int:
    unpacker, total = zlib.decompressobj(wbits=31), 0
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            total += len(unpacker.decompress(block))
    return total


def _unzipped_by_isal(path: Path) -> int:
    total = 0
    with igzip.open(path, "rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            total += len(block)
    return total


def _decoded(path: Path) -> int:
    with pq.ParquetFile(path) as file:
        return sum(batch.nbytes for batch in file.iter_batches(1 << 17, use_threads=False))
