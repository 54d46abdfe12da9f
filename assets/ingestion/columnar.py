"""Parquet: typed columns as the texts that say exactly the same, so that one set of rules casts every format.

Whole floating-point numbers are written with their `.0`, as CSV exports write them: an id that passed through a float
is the contract's to accept (`strip_decimal_zero`), not ours to hide.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from assets.ingestion.chunk import Chunk, declared_columns, require_columns
from assets.ingestion.files import LandedFile
from assets.ingestion.unpacking import byte_blocks, refusing_damage
from resources.contract.dataset import Dataset
from resources.contract.errors import DataError

_BATCH_ROWS = 1 << 17
_EXACT_FLOAT = 2.0**53


def chunks(dataset: Dataset, file: LandedFile) -> Iterator[Chunk]:
    """The rows of a Parquet file, numbered from 1. Page checksums are compared where the file has them."""
    declared, line = list(declared_columns(dataset)), 1
    packed = file.path.suffix in (".gz", ".zst")
    with refusing_damage(file.name):
        source = pa.BufferReader(b"".join(byte_blocks(file))) if packed else file.path
        parquet = pq.ParquetFile(source, page_checksum_verification=True)
    with parquet:
        schema = parquet.schema_arrow
        require_columns(dataset, schema.names, file=file.name)
        undeclared = frozenset(schema.names) - set(declared)
        batches = parquet.iter_batches(_BATCH_ROWS, columns=[name for name in declared if name in schema.names])
        while True:
            with refusing_damage(file.name):
                batch = next(batches, None)
                if batch is None:
                    return
                batch.validate(full=True)  # texts that are no UTF-8
            columns = {
                name: _text(batch[name], name, file=file.name)
                if name in schema.names
                else pa.nulls(batch.num_rows, pa.string())
                for name in declared
            }
            lines = np.arange(line, line + batch.num_rows)
            yield Chunk(columns=pa.table(columns), lines=lines, raw=lambda _: None, undeclared=undeclared)
            line += batch.num_rows


def _text(column: pa.Array, name: str, *, file: str) -> pa.Array:
    """A typed column as text. Raises DataError for types that no single text can stand for."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        raise DataError(
            f"{file}: column {name!r} is of type {kind}, which is no single text, number or time. Land it as one of those, "
            "or take the column out of the contract."
        )
    if pa.types.is_timestamp(kind) and kind.tz:
        column = column.cast(pa.timestamp(kind.unit, "UTC"))  # the same instants, without asking a zone database
    if pa.types.is_float16(kind):
        column = column.cast(pa.float32())
    texts = column.cast(pa.string())
    if not pa.types.is_floating(kind):
        return texts
    numbers = column.cast(pa.float64())
    whole = pc.and_(pc.equal(pc.floor(numbers), numbers), pc.less(pc.abs(numbers), _EXACT_FLOAT))
    integers = pc.if_else(whole, numbers, None).cast(pa.int64()).cast(pa.string())
    return pc.if_else(whole, pc.binary_join_element_wise(integers, "0", "."), texts)
