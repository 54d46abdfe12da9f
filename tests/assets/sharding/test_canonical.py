from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assets.sharding.canonical import canonical_order

ROW = st.tuples(
    st.sampled_from([None, "", "a", "b", "ü", "Z"]),
    st.integers(0, 3),
    st.sampled_from([None, 0, 1]),
    st.sampled_from([None, "x", "y"]),
)


def table_of(rows: list[tuple[Any, ...]], *, span: int = 1) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    times = pa.array([t * span for t in columns[1]], pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table(
        {
            "event_time": times,
            "user": pa.array(columns[0], pa.string()),
            "n": pa.array(columns[2], pa.int64()),
            "text": pa.array(columns[3], pa.string()),
        }
    )


def bucket(user: str | None) -> int:
    return 1 if user in ("a", "Z", None) else 0


def key(row: tuple[Any, ...]) -> tuple[Any, ...]:
    user, time, n, text = row

    def last(value: Any) -> tuple[bool, Any]:
        return value is None, (value.encode() if isinstance(value, str) else value or 0)

    return bucket(user), last(user), time, last(n), last(text)


# within a day the sort key fits into one number; over centuries it does not, and another sort is taken
@pytest.mark.parametrize("span", [1, 2**60])
def test_rows_stand_by_bucket_user_time_and_all_else_whatever_their_arrival(span: int) -> None:
    @given(st.lists(ROW, max_size=30))
    def holds(rows: list[tuple[Any, ...]]) -> None:
        table = table_of(rows, span=span)
        buckets = np.array([bucket(row[0]) for row in rows], np.int64)
        order = canonical_order(table, user="user", buckets=buckets)
        assert [rows[i] for i in order] == sorted(rows, key=key)
        assert sorted(order.tolist()) == list(range(len(rows)))

    check: Callable[[], None] = holds
    check()


def test_a_table_of_users_and_times_alone_is_ordered_too() -> None:
    table = table_of([("b", 1, 0, "x"), ("a", 2, 0, "x"), ("a", 1, 0, "x")]).select(["event_time", "user"])
    assert canonical_order(table, user="user", buckets=np.zeros(3, np.int64)).tolist() == [2, 1, 0]
