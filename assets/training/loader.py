"""Feeds a rank with its part of each batch: memory-mapped files, gathered ahead of the device by one thread.

The thread copies a step's rows into one of a few buffers that are used again and again; a bounded queue holds those
that are ready, so a slow device stops the reading and a fast one finds the next steps waiting. Ids stay integers on
the whole way: a record's words are copied, never converted.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from assets.preprocessing.layout import Layout
from assets.training.order import Order
from resources.contract.errors import CorruptError, DataError

_AHEAD = 4  # steps that may be ready; twice the buffers that a device can keep busy
Allocate = Callable[[tuple[int, ...], type], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Source:
    """One bucket of one day: its features and labels, row by row, under a name for messages."""

    name: str
    features: Path
    labels: Path

    def open(self, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
        """Memory maps of uint32[rows, words] and float32[rows]. Raises CorruptError where their shapes disagree."""
        records, labels = np.load(self.features, mmap_mode="r"), np.load(self.labels, mmap_mode="r")
        expected = (np.uint32, np.float32, (len(labels), layout.words))
        if (records.dtype, labels.dtype, records.shape) != expected:
            raise CorruptError(
                f"{self.name}: features must be uint32[rows, {layout.words}] with a float32 label each, found "
                f"{records.dtype}{list(records.shape)} and {labels.dtype}{list(labels.shape)}. Rebuild that day."
            )
        return records, labels


@dataclass(kw_only=True)
class Batch:
    """A rank's part of a step. The arrays are a buffer's: they hold until the batch is handed back.

    Attributes:
        records: uint32[rows, words]; all zero where there is no row.
        labels: float32[rows], 0 or 1.
        weights: float32[rows]; 0 where there is no row.
    """

    position: int
    records: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


class Loader:
    """The batches of positions `start` to the order's end, for one rank. Use it as a context: it stops its thread.

    Whatever goes wrong in the thread is raised where the batch is asked for: DataError for a number that is infinite or
    a label that is not 0 or 1, with position, file, row and column; CorruptError for files that cannot be.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        order: Order,
        layout: Layout,
        rank: int = 0,
        ranks: int = 1,
        start: int = 0,
        allocate: Allocate = np.zeros,
    ) -> None:
        self._sources, self._order, self._layout = sources, order, layout
        self._rank, self._ranks = rank, ranks
        self._positions = range(start, order.steps)
        rows = len(order.lanes_of(rank, ranks)) * order.share
        self._free: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._ready: queue.SimpleQueue[Batch | BaseException] = queue.SimpleQueue()
        for _ in range(_AHEAD):
            self._free.put(
                Batch(
                    position=-1,
                    records=allocate((rows, layout.words), np.uint32),
                    labels=allocate((rows,), np.float32),
                    weights=allocate((rows,), np.float32),
                )
            )
        self._thread = threading.Thread(target=self._work, name="loader", daemon=True)

    def __enter__(self) -> Loader:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._free.put(None)
        self._thread.join()

    def __iter__(self) -> Iterator[Batch]:
        """Batch after batch. One is handed back, for the thread to fill anew, when the next is asked for."""
        for _ in self._positions:
            batch = self._ready.get()
            if isinstance(batch, BaseException):
                raise batch
            yield batch
            self._free.put(batch)

    def _work(self) -> None:
        try:
            opened = [source.open(self._layout) for source in self._sources]
            for position in self._positions:
                batch = self._free.get()
                if batch is None:
                    return
                self._fill(batch, position, opened)
                self._ready.put(batch)
        except BaseException as error:  # noqa: BLE001  raised again in the thread that asks for the batch
            self._ready.put(error)

    def _fill(self, batch: Batch, position: int, opened: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        runs = self._order.runs_at(position, rank=self._rank, ranks=self._ranks)
        full = int(runs[:, 3].sum()) == len(batch.labels)
        batch.position = position
        batch.weights.fill(1.0 if full else 0.0)
        if not full:
            batch.records.fill(0)
            batch.labels.fill(0)
        for file, first, place, rows in runs.tolist():
            records, labels = opened[file]
            batch.records[place : place + rows] = records[first : first + rows]
            batch.labels[place : place + rows] = labels[first : first + rows]
            if not full:
                batch.weights[place : place + rows] = 1.0
        self._check(batch, runs)

    def _check(self, batch: Batch, runs: np.ndarray) -> None:
        infinite = np.isinf(self._layout.numbers_of(batch.records))
        strange = (batch.labels != 0) & (batch.labels != 1)
        if not (infinite.any() or strange.any()):
            return
        row = int(np.flatnonzero(infinite.any(axis=1) | strange)[0])
        file, first, place, _ = next(run for run in runs[::-1].tolist() if run[2] <= row)
        if strange[row]:
            found = f"the label must be 0 or 1, got {batch.labels[row]}"
        else:
            column = int(np.flatnonzero(infinite[row])[0])
            value = self._layout.numbers_of(batch.records)[row, column]
            found = f"{self._layout.numbers[column]} must be finite or missing, got {value}"
        raise DataError(
            f"batch {batch.position} is refused: {found}, in row {first + row - place} of {self._sources[file].name}. "
            f"Trained on, it would spoil every weight on every rank. Mend the source or the contract's bounds, and "
            f"rebuild that day."
        )
