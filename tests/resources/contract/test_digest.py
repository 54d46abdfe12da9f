from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.contract.digest import (
    _LANE_SEEDS,
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
    assert table_digest(rows) == "b8b0fbd48bfdd143336d393d08a17aa8"
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


def stored_otherwise(column: pa.Array) -> list[pa.Array | pa.ChunkedArray]:
    """The same values in other clothes."""
    doubled = pa.concat_arrays([column, column])
    found = [doubled.slice(len(column)), pa.chunked_array([column.slice(0, 3), column.slice(3)])]
    if pa.types.is_string(column.type):
        found += [column.cast(pa.large_string()), column.cast(pa.string_view()), column.dictionary_encode()]
        found += [doubled.dictionary_encode().slice(len(column))]
        values, places = pa.array(["b", None, "a", "unused"]), pa.array([0, 2, 1, None, 0], pa.int8())
        if column.to_pylist() == ["b", "a", None, None, "b"]:
            found.append(pa.DictionaryArray.from_arrays(places, values))
    if pa.types.is_int64(column.type) and pc.min(column).as_py() is not None:
        found += [column.cast(pa.int8()), column.cast(pa.int16())]
    return found


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["b", "a", None, None, "b"]),
        pa.array(["", "ä", "a longer text than eight", None, "\0"] * 3),
        pa.array([1, -1, None, 127, 0, 5] * 3),
        pa.array([2**64 - 1, None, 0, 1, 2], pa.uint64()),
        pa.array([0.5, None, -0.0, 1e300, 3]),
        pa.array([Decimal("1.50"), None, Decimal("-0.01"), Decimal(0), Decimal(10**15)], pa.decimal128(18, 2)),
        pa.array([True, None, False, True, False]),
        pa.array([None] * 5, pa.null()),
        pa.array([None] * 5, pa.string()),
    ],
)
def test_a_value_counts_and_not_how_it_is_stored(column: pa.Array) -> None:
    expected = row_hashes(pa.table({"x": column}))
    assert len({*map(tuple, expected.T.tolist())}) == len(set(map(str, column.to_pylist())))
    for other in stored_otherwise(column):
        assert row_hashes(pa.table({"x": other})).tolist() == expected.tolist(), other.type


def reference(text: bytes) -> tuple[int, int]:
    """The words of a text, written down a second time."""
    mask = 2**64 - 1

    def turned(x: int, by: int) -> int:
        return (x << by | x >> (64 - by)) & mask

    def mixed(x: int) -> int:
        return int(splitmix64(np.array([x & mask], np.uint64))[0])

    a, b = 0x452821E638D01377, 0xBE5466CF34E90C6C
    whole = len(text) // 8 * 8
    words = [int.from_bytes(text[at : at + 8], "little") for at in range(0, whole, 8)]
    for word in [*words, int.from_bytes(text[whole:], "little")]:
        a = turned((a + word * 0xC0AC29B7C97C50DD) & mask, 31) * 0x3F84D5B5B5470917 & mask
        b = turned(b ^ word * 0x9216D5D98979FB1B & mask, 29) * 0xD1310BA698DFB5AD & mask
    return mixed(a ^ len(text)), mixed(b + len(text))


@given(st.lists(st.text(max_size=40), min_size=1))
def test_a_text_is_hashed_as_it_is_written_down_here(texts: list[str]) -> None:
    low, high = row_hashes(pa.table({"x": texts}))
    for row, text in enumerate(texts):
        for lane, seed, word in zip((low, high), _LANE_SEEDS, reference(text.encode()), strict=True):
            assert lane[row] == splitmix64(seed ^ splitmix64(np.array([word], np.uint64)))[0]


def test_no_two_of_a_million_rows_that_differ_in_one_letter_or_bit_have_one_hash() -> None:
    letters = np.frombuffer(b"0123456789abcdefghijklmnopqrstuvwxyz-_", np.uint8)
    base = np.random.default_rng(1).choice(letters, (400, 36))
    rows = np.repeat(base, 36 * 37, axis=0)  # every text with every letter in every place
    which = np.arange(len(rows))
    rows[which, which % (36 * 37) // 37] = letters[which % 37]
    padded = np.char.rstrip(rows.view("S36").ravel()).astype(str)
    texts = pa.array(np.unique(padded))
    bits = (np.arange(1 << 13, dtype=np.int64)[:, None] * 0x0001000100010001) ^ (1 << np.arange(63))
    numbers = pa.array(np.unique(bits))
    for column, least in ((texts, 500_000), (numbers, 500_000)):
        assert len(column) > least
        low, high = row_hashes(pa.table({"x": column}))
        assert len(np.unique(low)) == len(np.unique(high)) == len(column)
        assert abs(np.unpackbits(low.view(np.uint8)).mean() - 0.5) < 0.001
        assert len(np.unique(low >> np.uint64(32))) > len(column) * (1 - len(column) / 2**32)  # each half as well


def test_a_null_differs_from_every_value_that_its_words_could_be() -> None:
    words = [0xA4093822299F31D0, 0x082EFA98EC4E6C89]
    hashes = row_hashes(pa.table({"x": pa.array([*words, None], pa.uint64())}))
    assert len({*map(tuple, hashes.T.tolist())}) == 3


def test_texts_end_where_they_end() -> None:
    texts = ["", "\0", "\0\0", "a", "a\0", "aaaaaaaa", "aaaaaaaa\0", "aaaaaaaaa"]
    assert len(set(row_hashes(pa.table({"x": texts}))[0].tolist())) == len(texts)
    both = [pa.table({"a": ["ab"], "b": ["c"]}), pa.table({"a": ["a"], "b": ["bc"]})]
    assert table_digest(both[0]) != table_digest(both[1])


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
