"""The packed record: what one feature row looks like on disk, on the way to a device and inside a model.

A bucket's features are one `.npy` of uint32 words, shape [rows, words]:

    categories  one word each: `mix32` of the value's 64-bit hash and the field's salt; 0 is missing
    numbers     one word each: the bits of a float32; NaN is missing
    user, item  two words each, low word first: the 64-bit hash of the id; 0 is missing
    time        two words, low word first: event_time in microseconds (int64)

Facts only: table sizes, fills and normalisation belong to the model that was fitted on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from resources.contract.dataset import Dataset

_ID_WORDS = 2


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Names and places of a record's words."""

    categories: tuple[str, ...]
    numbers: tuple[str, ...]

    @property
    def words(self) -> int:
        return len(self.categories) + len(self.numbers) + 3 * _ID_WORDS

    def empty(self, rows: int) -> np.ndarray:
        """Zeroed records, uint32[rows, words]."""
        return np.zeros((rows, self.words), dtype=np.uint32)

    def categories_of(self, records: np.ndarray) -> np.ndarray:
        """View of the category words, uint32[rows, categories]."""
        return records[:, : len(self.categories)]

    def numbers_of(self, records: np.ndarray) -> np.ndarray:
        """View of the number words, float32[rows, numbers]."""
        start = len(self.categories)
        return records.view(np.float32)[:, start : start + len(self.numbers)]

    def users_of(self, records: np.ndarray) -> np.ndarray:
        """The users' 64-bit hashes, uint64[rows] (a copy)."""
        return self._pair(records, 0).view(np.uint64)

    def items_of(self, records: np.ndarray) -> np.ndarray:
        """The items' 64-bit hashes, uint64[rows] (a copy)."""
        return self._pair(records, 1).view(np.uint64)

    def times_of(self, records: np.ndarray) -> np.ndarray:
        """event_time in microseconds, int64[rows] (a copy)."""
        return self._pair(records, 2).view(np.int64)

    def set_ids(self, records: np.ndarray, *, users: np.ndarray, items: np.ndarray, times_us: np.ndarray) -> None:
        """Writes the three 64-bit words of every record: uint64, uint64, int64, each of shape [rows]."""
        start = len(self.categories) + len(self.numbers)
        for place, values in enumerate((users, items, times_us)):
            pairs = np.ascontiguousarray(values).view(np.uint32).reshape(-1, _ID_WORDS)
            records[:, start + place * _ID_WORDS : start + (place + 1) * _ID_WORDS] = pairs

    def _pair(self, records: np.ndarray, place: int) -> np.ndarray:
        start = len(self.categories) + len(self.numbers) + place * _ID_WORDS
        return np.ascontiguousarray(records[:, start : start + _ID_WORDS]).reshape(-1)

    def as_json(self) -> dict[str, Any]:
        return {"categories": list(self.categories), "numbers": list(self.numbers)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Layout:
        return cls(categories=tuple(value["categories"]), numbers=tuple(value["numbers"]))

    @classmethod
    def of(cls, dataset: Dataset) -> Layout:
        """The layout that a contract's `features` ask for."""
        # here, so that training and serving processes, which know no contract, need not load pydantic and DuckDB
        from resources.contract.dataset import CountHistory, Log1p

        numbers = [n.log1p + "_log1p" if isinstance(n, Log1p) else n for n in dataset.features.numbers]
        for history in dataset.features.history:
            if isinstance(history, CountHistory):
                kind = f"_{history.event}" if history.event else ""
                numbers += [f"{history.count}{kind}_count_{days}d" for days in history.days]
            else:
                numbers.append("user_since_last_s")
        return cls(categories=dataset.features.categories, numbers=tuple(numbers))
