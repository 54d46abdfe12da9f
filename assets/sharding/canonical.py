"""The canonical order of a day's rows: what a result looks like must not depend on how its rows arrived."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def canonical_order(table: pa.Table, *, user: str, buckets: np.ndarray) -> np.ndarray:
    """Row indices in the order (bucket, user, event_time, all other columns); null comes last.

    One sort of a fused 64-bit key where bucket, user and time fit into it; only rows that tie are then compared by
    their other columns.

    Args:
        user: the column whose text orders the users.
        buckets: the bucket of every row.
    """
    if table.num_rows == 0:
        return np.empty(0, np.int64)
    encoded = table[user].combine_chunks().dictionary_encode()
    num_users = len(encoded.dictionary)
    rank = np.full(num_users + 1, num_users)  # the last place is that of null
    rank[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(num_users)
    owners = buckets * (num_users + 1) + rank[encoded.indices.fill_null(num_users).to_numpy()]
    times = table["event_time"].cast(pa.int64()).to_numpy()
    times = times - times.min()
    time_bits = int(times.max()).bit_length()
    if int(owners.max()).bit_length() + time_bits < 64:
        order = np.argsort((owners << time_bits) | times)
    else:
        order = np.lexsort((times, owners))
    return _ties_ordered(table.drop_columns([user, "event_time"]), order, owners=owners, times=times)


def _ties_ordered(others: pa.Table, order: np.ndarray, *, owners: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The same order, with runs of equal owner and time sorted by the remaining columns."""
    same = (owners[order[1:]] == owners[order[:-1]]) & (times[order[1:]] == times[order[:-1]])
    tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
    if len(tied) and others.num_columns:
        runs = np.cumsum(~np.insert(same, 0, False))[tied]
        rows = others.take(order[tied]).add_column(0, "", pa.array(runs))
        finer = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in rows.column_names])
        order[tied] = order[tied][finer.to_numpy()]
    return order
