"""A landed file, whatever its format, as chunks of text columns."""

from __future__ import annotations

from collections.abc import Iterator

from assets.ingestion import columnar, delimited, jsonlines
from assets.ingestion.chunk import Chunk
from assets.ingestion.files import LandedFile
from resources.contract.dataset import Dataset

_READERS = {"csv": delimited.chunks, "jsonl": jsonlines.chunks, "parquet": columnar.chunks}


def read(dataset: Dataset, file: LandedFile) -> Iterator[Chunk]:
    """The rows of a landed file in its order; nothing for an empty one. Raises DataError where the file is refused."""
    return _READERS[dataset.source.format](dataset, file) if file.bytes else iter(())
