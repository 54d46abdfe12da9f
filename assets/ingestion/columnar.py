"""Parquet: columns in the types that the file gives them, nested ones by their path. Nothing of a value changes here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from assets.ingestion.chunk import Chunk, categories_of, declared_columns, require_columns, resolved
from assets.ingestion.fieldpath import parse_path
from assets.ingestion.files import LandedFile
from assets.ingestion.unpacking import PACKED, byte_blocks, kind_of, refusing_damage
from resources.contract.buffers import fixed_width
from resources.contract.dataset import Dataset
from resources.contract.errors import DataError

_BATCH_ROWS = 1 << 17
_PAGE_BYTES = 1 << 20  # read at once of a column; a row group as a whole may be larger than memory
_LAST_NANOS = (2**63 - 1) // 1000 * 1000
_MAGIC = (b"PAR1", b"PARE")
_UUID_PLACES = [place for place in range(36) if place not in (8, 13, 18, 23)]
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_LISTS_IN_VIEWS = (pa.types.is_list_view, pa.types.is_large_list_view)


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Where a declared column stands in a file: the name of a column, and the steps from there to a nested value."""

    column: str
    steps: tuple[str | int, ...] = ()

    def selection(self, schema: pa.Schema) -> str:
        """What has to be read for it."""
        kind, path = schema.field(schema.names.index(self.column)).type, [self.column]
        for step in self.steps:
            if not pa.types.is_struct(kind):
                break
            kind = kind.field(step).type
            path.append(str(step))
        return ".".join(path)


def chunks(dataset: Dataset, file: LandedFile) -> Iterator[Chunk]:
    """The rows of a Parquet file, numbered from 1. Page checksums are compared where the file has them."""
    declared, line = list(declared_columns(dataset)), 1
    with ExitStack() as opened:
        parquet = opened.enter_context(_opened(file))
        schema = parquet.schema_arrow
        places = _places(dataset, schema, file=file.name)
        if categories := _categories(dataset, places, schema):
            parquet = opened.enter_context(_opened(file, dictionaries=categories))
        seen = tuple((field.name, _held(field.type)) for field in schema)
        selection = list(dict.fromkeys(place.selection(schema) for place in places.values()))
        batches = parquet.iter_batches(_BATCH_ROWS, columns=selection, use_threads=False)
        old = _int96(parquet, places)
        coarse: Iterator[pa.RecordBatch] = iter(())
        if old:
            again = opened.enter_context(_opened(file, int96_unit="us"))
            coarse = again.iter_batches(_BATCH_ROWS, columns=old, use_threads=False)
        while True:
            with refusing_damage(file.name):
                batch = next(batches, None)
                if batch is None:
                    return
                batch.validate(full=True)  # texts that are no UTF-8
            columns = {name: _column(batch, places.get(name), name, file=file.name) for name in declared}
            if old:
                micros = next(coarse)
                for name, place in places.items():
                    if place.column in old:
                        columns[name] = _exact_int96(batch[place.column], micros[place.column])
            lines = np.arange(line, line + batch.num_rows)
            yield Chunk(columns=pa.table(columns), lines=lines, raw=lambda _: None, seen=seen)
            line += batch.num_rows


def _categories(dataset: Dataset, places: dict[str, _Place], schema: pa.Schema) -> list[str]:
    """The text columns whose values repeat, as the contract says: they are decoded once a page and not once a row."""
    plain = [places[name].column for name in categories_of(dataset) & places.keys() if not places[name].steps]
    return [name for name in plain if pa.types.is_string(schema.field(schema.names.index(name)).type)]


def _opened(
    file: LandedFile, *, int96_unit: str | None = None, dictionaries: list[str] | None = None
) -> pq.ParquetFile:
    """The file, open. Raises DataError where it is none."""
    with refusing_damage(file.name):
        if file.path.suffix in PACKED:
            source = pa.BufferReader(b"".join(byte_blocks(file)))
        else:
            source = pa.OSFile(str(file.path))
        head = source.read(16)
        source.seek(0)
        if not head.startswith(_MAGIC):
            raise DataError(
                f"{file.name} should be Parquet, as `source.format` says, and it is {kind_of(head) or 'something else'}, so it "
                "is refused as a whole. Land it again as Parquet, or declare its format."
            )
        return pq.ParquetFile(
            source,
            page_checksum_verification=True,
            pre_buffer=False,
            buffer_size=_PAGE_BYTES,
            read_dictionary=dictionaries,
            coerce_int96_timestamp_unit=int96_unit,
        )


def _places(dataset: Dataset, schema: pa.Schema, *, file: str) -> dict[str, _Place]:
    """Where each declared column stands that the file has. A column of exactly that name comes before a path."""
    declared = list(declared_columns(dataset))
    at = resolved(schema.names, declared, file=file)
    found = {name: _Place(column=schema.names[place]) for name, place in at.items() if place is not None}
    for name in declared:
        path = parse_path(name) if name not in found else None
        if path and schema.names.count(str(path[0])) == 1 and _leads(schema.field(str(path[0])).type, path[1:]):
            found[name] = _Place(column=str(path[0]), steps=path[1:])
    require_columns(dataset, [*schema.names, *(name for name, place in found.items() if place.steps)], file=file)
    return found


def _held(kind: pa.DataType) -> str:
    """A type by what it holds: one writer's texts are large, another's in views or dictionaries, and all are texts."""
    if pa.types.is_dictionary(kind):
        return _held(kind.value_type)
    return "string" if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else str(kind)


def _leads(kind: pa.DataType, steps: tuple[str | int, ...]) -> bool:
    """Whether a path's steps lead to something in a nested type."""
    for step in steps:
        if isinstance(step, int) and any(holds(kind) for holds in (*_LISTS, *_LISTS_IN_VIEWS)):
            kind = kind.value_type
        elif isinstance(step, str) and pa.types.is_map(kind) and pa.types.is_string(kind.key_type):
            kind = kind.item_type
        elif isinstance(step, str) and pa.types.is_struct(kind) and kind.get_field_index(step) >= 0:
            kind = kind.field(step).type
        else:
            return False
    return True


def _column(batch: pa.RecordBatch, place: _Place | None, name: str, *, file: str) -> pa.Array:
    """A declared column of a batch; nulls where the file has none. Raises DataError for values that are no single ones."""
    if place is None:
        return pa.nulls(batch.num_rows, pa.string())
    column = reduce(_step, place.steps, batch[place.column])
    if isinstance(column, pa.ExtensionArray):
        column = _uuids(column.storage) if isinstance(column.type, pa.UuidType) else column.storage
    if pa.types.is_float16(column.type):
        return column.cast(pa.float32())  # little of Arrow knows halves
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_nested(kind):
        raise DataError(
            f"{file}: column {name!r} is of type {kind}, which is no single text, number or time. Name what it holds by its "
            f"path, such as `{name}.key` or `{name}[0]`, or take the column out of the contract."
        )
    return column


def _step(values: pa.Array, step: str | int) -> pa.Array:
    """What stands under a key or in a place of each value, null where nothing does."""
    if isinstance(step, str):
        if pa.types.is_map(values.type):
            return pc.map_lookup(values, step, "last")
        return pc.struct_field(values, [step])
    if not any(holds(values.type) for holds in _LISTS[:2]):
        values = values.cast(pa.large_list(values.type.value_type))
    lengths = pc.list_value_length(values).fill_null(0).to_numpy(zero_copy_only=False)
    starts = values.offsets.to_numpy()[:-1]
    return values.values.take(pa.array(starts + step, mask=lengths <= step))


def _uuids(storage: pa.Array) -> pa.Array:
    """UUIDs as they are usually written: 36 letters, four of them dashes."""
    halves = fixed_width(storage, np.dtype("16u1"))
    written = np.full((len(storage), 36), ord("-"), np.uint8)
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    written[:, _UUID_PLACES] = digits[np.stack([halves >> 4, halves & 15], axis=2).reshape(len(storage), 32)]
    bounds = np.arange(len(storage) + 1, dtype=np.int32) * 36
    texts = pa.Array.from_buffers(pa.string(), len(storage), [None, pa.py_buffer(bounds), pa.py_buffer(written)])
    return pc.if_else(storage.is_valid(), texts, None)


def _int96(parquet: pq.ParquetFile, places: dict[str, _Place]) -> list[str]:
    """The declared columns of a type in which old writers put times: days and nanoseconds of the day."""
    columns = (parquet.schema.column(index) for index in range(len(parquet.schema.names)))
    old = {column.path for column in columns if column.physical_type == "INT96"}
    return [place.column for place in places.values() if place.column in old]


def _exact_int96(nanos: pa.Array, micros: pa.Array) -> pa.Array:
    """Times that Arrow reads in nanoseconds, which wrap around outside the years 1677 to 2262, or in microseconds, cut off.

    Where the two agree they are exact. A time that is so far out is shown as it is, unless another one has nanoseconds.
    """
    fine, coarse = (array.cast(pa.int64()).fill_null(0).to_numpy() for array in (nanos, micros))
    outside = fine // 1000 != coarse
    if not outside.any():
        return nanos
    if not (fine[~outside] % 1000).any():
        return micros
    ends = np.where(coarse < 0, -_LAST_NANOS, _LAST_NANOS)
    return pc.if_else(nanos.is_valid(), pa.array(np.where(outside, ends, fine)).cast(nanos.type), None)
