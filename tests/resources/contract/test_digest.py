from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.contract.digest import (
    EMPTY,
    combined,
    digest_of_json,
    record_digest,
    row_hashes,
    splitmix64,
    table_digest,
)

ROWS = st.lists(
    st.tuples(st.one_of(st.none(), st.text("ab", max_size=2)), st.one_of(st.none(), st.integers(-3, 3)), st.booleans()),
    max_size=12,
)


def table(rows: list[tuple[str | None, int | None, bool]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    types = (pa.string(), pa.int64(), pa.bool_())
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=["a", "b", "c"])


def test_splitmix64_gives_the_published_sequence() -> None:
    # the first outputs for seed 1234567, as in the reference implementation by Sebastiano Vigna
    gamma = 0x9E3779B97F4A7C15
    states = np.array([(1234567 + i * gamma) % 2**64 for i in range(3)], np.uint64)
    assert splitmix64(states).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_a_digest_is_what_it_always_was() -> None:
    rows = pa.table(
        {
            "at": pa.array([datetime(2026, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
            "user": ["a", None],
            "n": [-1, None],
            "price": pa.array([Decimal("1.50"), None], pa.decimal128(18, 2)),
            "x": [0.5, None],
            "flag": [True, None],
        }
    )
    assert table_digest(rows) == "03c1a35ab13e31c0fef64b6c17294d88"
    assert record_digest(np.arange(6, dtype=np.uint32).reshape(2, 3)) == "fafde634fb5897eb887c6c1d92a0aaa0"
    assert record_digest(np.array([0, 1], np.float32), ordered=True) == "2c983fbd2cae44e0ad25842f8b5f7d2f"


@given(ROWS, st.randoms())
def test_neither_order_nor_chunking_of_rows_can_be_seen(rows: list, random) -> None:
    shuffled = rows.copy()
    random.shuffle(shuffled)
    half = len(rows) // 2
    pieces = pa.concat_tables([table(shuffled[:half]), table(shuffled[half:])])
    assert table_digest(pieces) == table_digest(table(rows))


@given(ROWS.filter(bool))
def test_two_copies_of_a_row_differ_from_one_and_from_none(rows: list) -> None:
    digests = {table_digest(table(rows + rows[:1] * copies)) for copies in range(4)}
    assert len(digests) == 4


@given(ROWS, ROWS)
def test_different_rows_have_different_digests(left: list, right: list) -> None:
    def as_multiset(rows: list) -> list[str]:
        return sorted(map(repr, rows))

    assert (table_digest(table(left)) == table_digest(table(right))) == (as_multiset(left) == as_multiset(right))


def test_no_rows_have_the_empty_digest() -> None:
    assert table_digest(table([])) == EMPTY
    assert record_digest(np.empty((0, 4), np.uint32)) == EMPTY


def test_a_value_in_another_column_is_another_row() -> None:
    left = pa.table({"a": ["x"], "b": ["y"]})
    right = pa.table({"a": ["y"], "b": ["x"]})
    assert table_digest(left) != table_digest(right)


def test_null_differs_from_zero_and_from_the_empty_text() -> None:
    assert table_digest(table([("", 0, False)])) != table_digest(table([(None, None, False)]))
    assert table_digest(table([("", None, False)])) != table_digest(table([("", 0, False)]))


def test_negative_zero_is_zero() -> None:
    assert table_digest(pa.table({"x": [0.0]})) == table_digest(pa.table({"x": [-0.0]}))


def test_the_two_lanes_are_independent() -> None:
    low, high = row_hashes(pa.table({"x": np.arange(1000)}))
    assert len(set(low.tolist())) == len(set(high.tolist())) == 1000
    assert not np.intersect1d(low, high).size
    bits = np.unpackbits((low ^ high).view(np.uint8)).mean()
    assert bits == pytest.approx(0.5, abs=0.02)


def test_positions_count_only_where_order_is_asked_for() -> None:
    labels = np.array([0, 1, 1], np.float32)
    assert record_digest(labels) == record_digest(labels[::-1])
    assert record_digest(labels, ordered=True) != record_digest(labels[::-1], ordered=True)


def test_json_digests_ignore_the_order_of_keys_alone() -> None:
    assert digest_of_json({"a": 1, "b": [1, 2]}) == digest_of_json({"b": [1, 2], "a": 1})
    assert digest_of_json([1, 2]) != digest_of_json([2, 1])
    assert digest_of_json(1) != digest_of_json("1")


def test_named_digests_combine_in_any_order_but_keep_their_names() -> None:
    assert combined([("a", "1"), ("b", "2")]) == combined([("b", "2"), ("a", "1")])
    assert combined([("a", "1"), ("b", "2")]) != combined([("a", "2"), ("b", "1")])
