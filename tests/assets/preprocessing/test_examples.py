from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from assets.preprocessing.examples import examples_of
from assets.sharding.canonical import canonical_order
from resources.contract.buckets import hash64
from resources.contract.errors import ConfigError

DAY = date(2026, 1, 5)
Fixture = Callable[..., Any]


def shard(table: pa.Table, event: str = "buy") -> pa.Table:
    table = table.append_column("event", pa.array([event] * table.num_rows))
    return table.take(canonical_order(table, user="user", buckets=np.zeros(table.num_rows, np.int64)))


def test_the_examples_are_the_rows_where_the_expression_holds_each_once(
    shop: Fixture, rows: Fixture, traffic: Fixture
) -> None:
    dataset = shop(examples="amount > 0 and gift")
    bucket = shard(rows(dataset, traffic(dataset, DAY, num_rows=300, seed=1)))
    examples = examples_of(dataset, bucket, DAY)
    wanted = [row for row in bucket.to_pylist() if row["gift"] and (row["amount"] or 0) > 0]
    assert Counter(map(repr, examples.table.to_pylist())) == Counter(map(repr, wanted))
    assert examples.table.equals(bucket.take(examples.rows))
    assert examples.users.tolist() == hash64(examples.table["user"]).tolist()
    assert examples.times_us.tolist() == examples.table["event_time"].cast("int64").to_pylist()


def test_the_order_is_one_of_the_day_and_of_the_rows_alone(shop: Fixture, rows: Fixture, traffic: Fixture) -> None:
    dataset = shop()
    bucket = shard(rows(dataset, traffic(dataset, DAY, num_rows=300, seed=2)))
    here, again = examples_of(dataset, bucket, DAY), examples_of(dataset, bucket, DAY)
    other = examples_of(dataset, bucket, date(2026, 1, 6))
    assert here.rows.tolist() == again.rows.tolist()
    assert here.rows.tolist() != other.rows.tolist() != sorted(other.rows.tolist())
    assert (here.digest == again.digest, here.digest == other.digest) == (True, False)


def test_an_example_more_leaves_the_others_in_their_order(shop: Fixture, rows: Fixture) -> None:
    dataset = shop()
    some = [{"event_time": f"{DAY}T01:00Z", "user": f"u{i}"} for i in range(100)]

    def users(found: list[dict[str, Any]]) -> list[str]:
        return examples_of(dataset, shard(rows(dataset, found)), DAY).table["user"].to_pylist()

    assert [user for user in users([*some, {**some[0], "user": "new"}]) if user != "new"] == users(some)


def test_equal_rows_that_are_kept_twice_stand_apart(shop: Fixture, rows: Fixture) -> None:
    dataset = shop(duplicates={"keep": "all"})
    bucket = shard(rows(dataset, [{"event_time": f"{DAY}T01:00Z", "user": f"u{i // 2}"} for i in range(200)]))
    users = examples_of(dataset, bucket, DAY).table["user"].to_pylist()
    assert set(Counter(users).values()) == {2}
    assert sum(a == b for a, b in pairwise(users)) < 10


def test_the_first_rows_are_a_uniform_sample_over_users_and_the_day(shop: Fixture, rows: Fixture) -> None:
    dataset = shop()
    start = int(rows(dataset, [{"event_time": f"{DAY}T00:00Z"}])["event_time"].cast("int64")[0])
    random = np.random.default_rng(3)
    found = [
        {"event_time": start + int(random.integers(24 * 3600 * 10**6)), "user": f"u{random.integers(50)}", "amount": i}
        for i in range(4000)
    ]
    examples = examples_of(dataset, shard(rows(dataset, found)), DAY)
    half = len(examples.rows) // 2
    counts = Counter(examples.table["user"].to_pylist()[:half])
    assert len(counts) == 50
    assert max(counts.values()) < 2.2 * min(counts.values())
    assert np.mean(examples.times_us[:half]) == pytest.approx(np.mean(examples.times_us), abs=3600 * 10**6)
    assert np.corrcoef(np.arange(len(examples.rows)), examples.times_us)[0, 1] == pytest.approx(0, abs=0.05)


def test_the_digest_sees_which_rows_and_in_which_order(shop: Fixture, rows: Fixture) -> None:
    some = [{"event_time": f"{DAY}T01:00Z", "user": f"u{i}", "amount": i} for i in range(10)]
    everyone, few = shop(), shop(examples="amount > 3")
    bucket = shard(rows(everyone, some))
    assert examples_of(everyone, bucket, DAY).digest != examples_of(few, bucket, DAY).digest
    assert examples_of(everyone, bucket, DAY).digest != examples_of(everyone, bucket, date(2026, 1, 6)).digest


def test_a_bucket_without_examples_gives_none(shop: Fixture, rows: Fixture) -> None:
    dataset = shop(examples="event = 'look'")
    examples = examples_of(dataset, shard(rows(dataset, [{"event_time": f"{DAY}T01:00Z", "user": "u"}])), DAY)
    assert (len(examples.rows), examples.table.num_rows) == (0, 0)


def test_examples_must_be_a_condition(shop: Fixture, rows: Fixture) -> None:
    dataset = shop(examples="amount")
    with pytest.raises(ConfigError, match="examples: 'amount' must be true or false"):
        examples_of(dataset, shard(rows(dataset, [{"event_time": f"{DAY}T01:00Z", "user": "u"}])), DAY)
