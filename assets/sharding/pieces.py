"""How a table lies in a file of the lake: Parquet under zstd with page checksums, read only after its own was compared."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from resources.contract.manifest import FileEntry, Manifest
from resources.lake import Lake, Piece

SMALL_BYTES = 64 << 10


def write_table(
    folder: Path,
    name: str,
    table: pa.Table,
    *,
    content: str,
    bucket: int | None = None,
    span_us: tuple[int, int] | None = None,
    often_opened: bool = False,
) -> Piece:
    """The piece that now lies in an attempt's folder.

    Args:
        content: the digest of its rows.
        span_us: earliest and latest event_time.
        often_opened: for files that are small and read by the hundred: they open twice as fast and pack less well.
    """
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    pq.write_table(
        table,
        path,
        compression="snappy" if often_opened else "zstd",
        use_dictionary=not often_opened,
        write_page_checksum=True,
    )
    first_us, last_us = span_us or (None, None)
    return Piece(name=name, rows=table.num_rows, content=content, bucket=bucket, first_us=first_us, last_us=last_us)


def read_table(lake: Lake, manifest: Manifest, entry: FileEntry, *, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a published Parquet file. Raises CorruptError where its checksum differs."""
    path = lake.verified_path(manifest, entry)
    if columns is None and entry.bytes <= SMALL_BYTES:
        return _small_table(path)
    return pq.ParquetFile(path).read(columns=list(columns) if columns is not None else None, use_threads=False)


@lru_cache(maxsize=1024)
def _small_table(path: Path) -> pa.Table:
    """The same, kept: a walk over days meets the rollups of one day thirty times. No path is ever written twice."""
    return pq.ParquetFile(path).read(use_threads=False)
