"""Access logs as Apache and nginx write them: the common format, and the combined one with referer and agent.

A hyphen is no value. The request is taken apart into method, path and protocol; one that is written otherwise (an
attack, a truncated one, plain noise) is the path as a whole, without method and protocol. Escapes such as `\\x16` stay as
they are written. Fields behind the agent are left out. Everything else is a malformed line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from assets.ingestion import unpacking
from assets.ingestion.chunk import Chunk, Layout, categories_of, declared_columns
from assets.ingestion.files import LandedFile
from assets.ingestion.reasons import Reason
from assets.ingestion.spans import Reading, Spans
from assets.ingestion.unpacking import text_blocks
from resources.contract.dataset import Dataset
from resources.contract.source import ACCESS_LOG_FIELDS

_OF_REQUEST = 2  # fields more than are written, since a request is three


def chunks(dataset: Dataset, file: LandedFile) -> Iterator[Chunk]:
    """The lines of an access log; blank ones are no rows."""
    names = list(declared_columns(dataset))
    reading = Reading(
        file=file.name,
        scan=Requests.of(names),
        columns={name: place for place, name in enumerate(names)},
        reasons=(Reason.MALFORMED_LINE,),
        categories=categories_of(dataset),
    )
    yield from reading.chunks(text_blocks(file, dataset.source.encoding), line=1)


@dataclass(frozen=True, kw_only=True)
class Requests:
    """Which fields are wanted, and how many fields a line of the file has had."""

    places: np.ndarray
    most: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))

    @classmethod
    def of(cls, names: list[str]) -> Requests:
        """For fields of these names, in this order."""
        places = [names.index(name) if name in names else -1 for name in ACCESS_LOG_FIELDS]
        return cls(places=np.array(places, np.int64))

    def __call__(self, data: bytes, at: int, line: int, spans: Spans, *, last: bool) -> tuple[int, int, int, int]:
        from assets.ingestion.kernels.accesslog import scan

        return scan(
            np.frombuffer(data, np.uint8),
            at,
            line,
            last,
            unpacking.LINE_BYTES,
            self.places,
            *spans.places,
            self.most,
        )

    def gather(self, data: bytes, *places_and_buffers: np.ndarray) -> int:
        from assets.ingestion.kernels.delimited import gather

        starts, stops, kinds, *buffers = places_and_buffers
        return gather(np.frombuffer(data, np.uint8), starts, stops, kinds, np.full(4, -1), *buffers)

    def seen(self) -> Layout:
        return tuple((name, "") for name in ACCESS_LOG_FIELDS[: int(self.most[0]) + _OF_REQUEST])
