"""The distinct values of a column, counted, and what a contract's column would say of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.ingestion.casting import cast_column
from assets.ingestion.look.question import counted
from assets.ingestion.reasons import Reason
from resources.contract.column import Column


@dataclass(frozen=True, kw_only=True)
class Values:
    """The distinct values of one column, how often each stands there, and how many rows have none."""

    name: str
    distinct: pa.Array
    counts: np.ndarray
    num_null: int

    @classmethod
    def of(cls, name: str, column: pa.ChunkedArray) -> Values:
        found = column.combine_chunks().value_counts()
        texts, counts = found.field("values"), found.field("counts").to_numpy()
        there = texts.is_valid().to_numpy(zero_copy_only=False)
        return cls(
            name=name,
            distinct=texts.filter(pa.array(there)),
            counts=counts[there],
            num_null=int(counts[~there].sum()),
        )

    @property
    def rows(self) -> int:
        """How many rows have a value."""
        return int(self.counts.sum())

    @property
    def are_whole(self) -> bool:
        """Whether each value is a whole number, maybe with a zero behind its point, or there is none."""
        return bool(self.matching(r"^[+-]?[0-9]+(\.0+)?$").all())

    def without(self, words: tuple[str, ...]) -> Values:
        """The column where these words mean that there is no value."""
        gone = pc.is_in(self.distinct, value_set=pa.array(words, pa.string())).to_numpy(zero_copy_only=False)
        lost = int(self.counts[gone].sum())
        return Values(
            name=self.name,
            distinct=self.distinct.filter(pa.array(~gone)),
            counts=self.counts[~gone],
            num_null=self.num_null + lost,
        )

    def matching(self, pattern: str) -> np.ndarray:
        """Whether each distinct value matches."""
        return pc.match_substring_regex(self.distinct, pattern).to_numpy(zero_copy_only=False)

    def share(self, mask: np.ndarray) -> float:
        """The share of the rows with a value whose value is one of these."""
        return float(self.counts[mask].sum()) / max(1, self.rows)

    def fitting(self, column: Column) -> np.ndarray:
        """Which distinct values ingestion takes for a contract's column."""
        return cast_column(self.distinct, column)[1] == Reason.FINE

    @property
    def variety(self) -> str:
        """How many different values there are, in words."""
        return f"{counted(len(self.distinct), 'different value')} in {counted(self.rows, 'row')}"


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a column holds: keys and values of a contract's column, the reason, and what has to be asked."""

    type: str
    reason: str
    options: Mapping[str, Any] = field(default_factory=dict)
    question: str | None = None
    mark: str = ""  # the question in a few words, for the contract
    lowest: float | None = None  # of numbers

    @property
    def contract(self) -> dict[str, Any]:
        return {"type": self.type, **self.options}


def words_of(name: str) -> tuple[str, ...]:
    """The words that a name is made of, in lower case: InvoiceNo is invoice, no."""
    spaced = re.sub(r"([a-z0-9])([A-Z])|([A-Z]+)([A-Z][a-z])", r"\1\3 \2\4", name)
    return tuple(word.lower() for word in re.split(r"[^A-Za-z0-9]+", spaced) if word)
