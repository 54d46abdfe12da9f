"""A landed file, whatever its format, as chunks of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from assets.ingestion import accesslog, columnar, delimited, jsonlines
from assets.ingestion.casting import without_nulls
from assets.ingestion.chunk import Chunk
from assets.ingestion.epochs import unit_of
from assets.ingestion.files import LandedFile
from resources.contract.dataset import Dataset

_READERS = {
    "csv": delimited.chunks,
    "jsonl": jsonlines.chunks,
    "parquet": columnar.chunks,
    "access_log": accesslog.chunks,
}


def read(dataset: Dataset, file: LandedFile) -> Iterator[Chunk]:
    """The rows of a landed file in its order; nothing for an empty one. Raises DataError where the file is refused."""
    if not file.bytes:
        return
    chunks = _READERS[dataset.source.format](dataset, file)
    if dataset.time.epoch != "auto":
        yield from chunks
        return
    for first in chunks:  # what refuses the file has been looked at before its times are
        unit = _epoch_unit(dataset, file)
        yield from (replace(chunk, epoch=unit) for chunk in chain([first], chunks))


def _epoch_unit(dataset: Dataset, file: LandedFile) -> str:
    """The unit of a file's times, by reading them all once beforehand."""
    chunks = _READERS[dataset.source.format](dataset.model_copy(update={"columns": {}}), file)
    columns = (without_nulls(chunk.columns[0].combine_chunks(), dataset.source.nulls) for chunk in chunks)
    return unit_of(columns, dataset.days, file=file.name)
