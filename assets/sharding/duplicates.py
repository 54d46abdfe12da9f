"""Which rows repeat another one, by the contract's rule."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from assets.sharding.groups import groups_of
from resources.contract.dataset import Duplicates


def repeats(table: pa.Table, hashes: np.ndarray, rule: Duplicates) -> np.ndarray:
    """bool per row of a day in canonical order: whether another row is kept in its place.

    Where several rows of a key tie in the order column, the canonical order decides. A row without a value to order by
    loses against one that has it. A row that lacks every column of a declared key repeats nothing.

    Args:
        hashes: the rows' hashes, uint64[2, rows].
    """
    if rule.keep == "all" or table.num_rows == 0:
        return np.zeros(table.num_rows, bool)
    if rule.key == "all_columns":  # equal rows stand side by side
        return np.insert((hashes[:, 1:] == hashes[:, :-1]).all(axis=0), 0, False)
    assert rule.order is not None, "the contract asks for `order` with a declared key"
    groups, nulls = groups_of(table.select(rule.key))
    first = rule.keep == "first"
    direction = "ascending" if first else "descending"
    rank = pc.rank(table[rule.order], sort_keys=[("", direction, "at_end")], tiebreaker="dense").to_numpy()
    place = np.arange(table.num_rows) * (1 if first else -1)
    order = np.lexsort((place, rank, groups))
    repeated = np.zeros(table.num_rows, bool)
    repeated[order[1:]] = groups[order[1:]] == groups[order[:-1]]
    return repeated & (nulls < len(rule.key))
