"""The order in which a training sees the rows of its window: a pure function of (seed, epoch, content digests).

Files are cut into blocks of neighbouring rows; the blocks are permuted anew each epoch and laid end to end; that line
of rows is cut into 64 lanes of equal length, give or take a row. A step takes the same share from each lane. With N
ranks, N dividing 64, rank r owns lanes r*64/N to (r+1)*64/N - 1, so

- the batch of a step holds the same rows, in the same order, for any N, and a rank reads only its own blocks;
- every row comes exactly once an epoch, and all ranks have equally many steps;
- a position in the training is one integer.

Places of a batch for which a lane has no row left (in an epoch's last steps only) hold no row: weight zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from resources.contract.digest import digest_of_json, splitmix64
from resources.contract.errors import ConfigError

LANES = 64
_MOST_BLOCK_ROWS = 4096
_BLOCKS_PER_LANE = 32


def block_rows_of(rows: int) -> int:
    """Rows of a block: at most 4,096, and few enough that each of the 64 lanes has 32 blocks where there are so many rows."""
    return min(_MOST_BLOCK_ROWS, max(1, rows // (LANES * _BLOCKS_PER_LANE)))


@dataclass(frozen=True, kw_only=True)
class Order:
    """The order of the rows of some files.

    Args:
        rows: rows of each file.
        contents: content digest of each file: other contents, another order.
        batch_rows: rows of a global batch, a multiple of 64.
    """

    rows: tuple[int, ...]
    contents: tuple[str, ...]
    batch_rows: int
    epochs: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.batch_rows % LANES:
            raise ConfigError(
                f"batch_rows must be a multiple of the {LANES} lanes that feed a batch, got {self.batch_rows}: "
                f"use {max(1, self.batch_rows // LANES) * LANES}."
            )

    @cached_property
    def total(self) -> int:
        """Rows of an epoch."""
        return sum(self.rows)

    @property
    def share(self) -> int:
        """Rows that a step takes from each lane."""
        return self.batch_rows // LANES

    @property
    def steps_per_epoch(self) -> int:
        longest = -(-self.total // LANES)
        return -(-longest // self.share)

    @property
    def steps(self) -> int:
        """Steps of the whole training; positions are 0 to steps - 1."""
        return self.epochs * self.steps_per_epoch

    def lanes_of(self, rank: int, ranks: int) -> range:
        """The lanes that a rank owns. Raises ConfigError where the ranks cannot share the lanes evenly."""
        if ranks < 1 or LANES % ranks:
            raise ConfigError(
                f"the number of ranks must divide the {LANES} lanes, got {ranks}: some rank would wait for ever. "
                f"Use 1, 2, 4, 8, 16, 32 or 64."
            )
        return range(rank * LANES // ranks, (rank + 1) * LANES // ranks)

    def rows_at(self, position: int, *, rank: int = 0, ranks: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """File and row (int64 each, [batch_rows / ranks]) of a rank's part of a step; file -1 where there is no row."""
        epoch, step = divmod(position, self.steps_per_epoch)
        files, starts, places = _line(self, epoch)
        lanes = np.arange(len(self.lanes_of(rank, ranks))) + self.lanes_of(rank, ranks).start
        begins, ends = lanes * self.total // LANES, (lanes + 1) * self.total // LANES
        line = begins[:, None] + step * self.share + np.arange(self.share)  # [lanes, share]
        present = line < ends[:, None]
        block = np.searchsorted(places, np.where(present, line, 0).ravel(), side="right") - 1
        row = starts[block] + line.ravel() - places[block]
        return np.where(present.ravel(), files[block], -1), np.where(present.ravel(), row, 0)

    def runs_at(self, position: int, *, rank: int = 0, ranks: int = 1) -> np.ndarray:
        """The same as runs of neighbouring rows, int64[runs, 4]: file, first row, place in the part, number of rows."""
        files, rows = self.rows_at(position, rank=rank, ranks=ranks)
        begins = np.flatnonzero(np.concatenate([[True], (files[1:] != files[:-1]) | (rows[1:] != rows[:-1] + 1)]))
        lengths = np.diff(np.append(begins, len(files)))
        runs = np.stack([files[begins], rows[begins], begins, lengths], axis=1)
        return runs[runs[:, 0] >= 0]

    def rows_in_batch(self, position: int) -> int:
        """Rows of the global batch that count, over all ranks."""
        step = position % self.steps_per_epoch
        lanes = np.arange(LANES)
        lengths = (lanes + 1) * self.total // LANES - lanes * self.total // LANES
        return int(np.clip(lengths - step * self.share, 0, self.share).sum())


@lru_cache(maxsize=2)
def _line(order: Order, epoch: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """File, first row and place in the epoch's line of each block, in the order of that line."""
    size = block_rows_of(order.total)
    per_file = [np.arange(0, rows, size) for rows in order.rows]
    files = np.repeat(np.arange(len(order.rows)), [len(starts) for starts in per_file])
    starts = np.concatenate([*per_file, np.empty(0, np.int64)]).astype(np.int64)
    sizes = np.minimum(size, np.asarray(order.rows, np.int64)[files] - starts)
    key = int(digest_of_json([order.seed, epoch, list(order.contents)])[:16], 16)
    # not numpy's generators: their streams may change between versions
    permuted = np.argsort(
        splitmix64(splitmix64(np.arange(len(files), dtype=np.uint64)) ^ np.uint64(key)), kind="stable"
    )
    return files[permuted], starts[permuted], np.cumsum(sizes[permuted]) - sizes[permuted]


def files_at(order: Order, position: int, names: Sequence[str]) -> str:
    """The names of the files that a step's rows come from, for messages."""
    found = sorted({int(file) for file in order.rows_at(position)[0]} - {-1})
    return ", ".join(names[file] for file in found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")
