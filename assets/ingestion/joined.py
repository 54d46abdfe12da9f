"""Many small text files as one: opening a reader for each of 20,000 files of a few rows costs more than reading them.

Files of one header are joined. Where then not every line of each is a row of its own (a quote that goes on over lines,
a blank line, a text that is refused), they are read alone after all: what stands in front of a line told nothing of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from assets.ingestion.files import LandedFile
from assets.ingestion.unpacking import PACKED, text_blocks
from resources.contract.dataset import Dataset
from resources.contract.errors import DataError

_SMALL_BYTES = 128 << 10
_SMALL_PACKED_BYTES = 32 << 10
_TEXT_BYTES = 4 << 20


@dataclass(frozen=True, kw_only=True)
class Joined:
    """The text of some files under the header that they share; `bases` is how many lines of others stand before each."""

    files: tuple[LandedFile, ...]
    header: bytes
    bodies: tuple[bytes, ...]

    @cached_property
    def lines(self) -> np.ndarray:
        """How many lines the rows of each file take."""
        return np.array([body.count(b"\n") for body in self.bodies], np.int64)

    @property
    def bases(self) -> np.ndarray:
        return np.cumsum(self.lines) - self.lines

    @property
    def firsts(self) -> np.ndarray:
        """The line in which the rows of each file begin."""
        return self.bases + self.header.count(b"\n") + 1

    @contextmanager
    def landed(self) -> Iterator[LandedFile]:
        """The text as a file that was never landed, and is gone with whoever reads it."""
        descriptor = os.memfd_create("joined")
        try:
            with os.fdopen(os.dup(descriptor), "wb") as stream:
                stream.writelines((self.header, *self.bodies))
                size = stream.tell()
            path = Path(f"/proc/self/fd/{descriptor}")
            yield LandedFile(name=self.files[0].name, path=path, bytes=size, modified_ns=0)
        finally:
            os.close(descriptor)


def joined(dataset: Dataset, files: Iterable[LandedFile]) -> Iterator[Joined | LandedFile]:
    """The files in their order: small ones of a kind together, the others as they are."""
    waiting: list[tuple[LandedFile, bytes]] = []
    header, size = b"", 0

    def together() -> Iterator[Joined | LandedFile]:
        if len(waiting) == 1:
            yield waiting[0][0]
        elif waiting:
            yield Joined(
                files=tuple(file for file, _ in waiting), header=header, bodies=tuple(body for _, body in waiting)
            )
        waiting.clear()

    for file in files:
        parts = _parts(dataset, file)
        if parts is None or (waiting and (parts[0] != header or size > _TEXT_BYTES)):
            yield from together()
            size = 0
        if parts is None:
            yield file
            continue
        header, body = parts
        waiting.append((file, body))
        size += len(body)
    yield from together()


def joinable(dataset: Dataset) -> Dataset | None:
    """The contract by which joined text is read, or None where no files can be joined."""
    if dataset.source.format == "parquet" or dataset.time.epoch == "auto":
        return None
    return dataset.model_copy(update={"source": dataset.source.model_copy(update={"encoding": "utf-8"})})


def _parts(dataset: Dataset, file: LandedFile) -> tuple[bytes, bytes] | None:
    """Header and body of a file that can be joined with others, or None."""
    limit = _SMALL_PACKED_BYTES if file.path.suffix in PACKED else _SMALL_BYTES
    if not 0 < file.bytes <= limit or file.remote is not None:
        return None
    try:
        text = b"".join(block for block, _ in text_blocks(file, dataset.source.encoding))
    except DataError:
        return None  # whoever reads it alone says why
    csv, end = dataset.source.csv, 0
    if dataset.source.format == "csv" and not isinstance(csv.header, tuple):
        end = text.find(b"\n") + 1
        head, comment = text[:end], csv.comment
        if not head.strip() or (comment is not None and head.startswith(comment.encode())):
            return None
    alone = b"\r" in text and text.count(b"\r") != text.count(b"\r\n")
    # an escape at the very end would be of the line break that joining adds
    alone |= csv.escape is not None and text.endswith(csv.escape.encode())
    if alone or len(text) > _TEXT_BYTES:
        return None
    body = text[end:].rstrip(b"\n")
    return text[:end], body + b"\n" if body else b""
