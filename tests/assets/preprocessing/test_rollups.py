from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest

from assets.preprocessing import rollups
from assets.sharding import cut
from assets.sharding.pieces import read_table
from resources.contract.buckets import bucket_of, hash64, hash64_text
from resources.contract.errors import DataError, TransientError
from resources.contract.manifest import Check, Manifest
from resources.lake import Lake

FIRST = date(2026, 1, 1)
Fixture = Callable[..., Any]


def tables(lake: Lake, made: Manifest) -> dict[str, pa.Table]:
    return {entry.name: read_table(lake, made, entry) for entry in made.files}


def test_users_and_items_are_counted_by_kind_of_event(
    lake: Lake, shop: Fixture, built: Fixture, week: Fixture, manifest: Fixture
) -> None:
    dataset = shop(user={"column": "user", "missing": "spread"}, duplicates={"keep": "all"})
    days = week(dataset, num_days=1, num_rows=300, seed=1)
    built(dataset, days, upto="rollups")
    found = tables(lake, manifest("rollups", FIRST))

    def kind(row: dict[str, Any]) -> str:
        return row["kind"] if row["kind"] in ("buy", "look") else "other"

    for key, name in (("user", "users/"), ("item", "items")):
        wanted = Counter((hash64_text(row[key]), kind(row)) for row in days[FIRST] if row[key] is not None)
        counted = {
            (row[key], k): row[f"count_{k}"]
            for table_name, table in found.items()
            if table_name.startswith(name)
            for row in table.to_pylist()
            for k in ("buy", "look", "other")
        }
        assert {key: count for key, count in counted.items() if count} == wanted
    last = {row["user"]: row["last_us"] for n, t in found.items() if n.startswith("users/") for row in t.to_pylist()}
    assert last == {
        hash64_text(user): max(row["event_time"] for row in days[FIRST] if row["user"] == user)
        for user in {row["user"] for row in days[FIRST]} - {None}
    }


def test_a_user_lies_in_the_rollup_of_its_bucket_and_keys_are_sorted(
    lake: Lake, shop: Fixture, built: Fixture, week: Fixture, manifest: Fixture
) -> None:
    dataset = shop()
    built(dataset, week(dataset, num_days=1, num_rows=300, seed=2), upto="rollups")
    made = manifest("rollups", FIRST)
    for entry in made.files:
        keys = read_table(lake, made, entry)["item" if entry.bucket is None else "user"].to_numpy()
        assert keys.tolist() == sorted(set(keys.tolist()))
        assert entry.bucket is None or set(bucket_of(keys, 4).tolist()) == {entry.bucket}


def test_every_event_is_counted_once(shop: Fixture, built: Fixture, week: Fixture, manifest: Fixture) -> None:
    dataset = shop(user={"column": "user", "missing": "keep"})
    built(dataset, week(dataset, num_days=1, num_rows=300, seed=3), upto="rollups")
    made, shards = manifest("rollups", FIRST), manifest("shards", FIRST)
    assert made.counts["events"] == made.rows_in == shards.rows_out
    assert made.counts["users"] + made.counts["items"] == made.rows_out
    assert [(check.name, check.passed) for check in made.checks] == [("conservation", True)]
    assert {check.name for check in made.checks} == set(rollups.CHECKS)


def test_an_empty_day_has_empty_rollups(shop: Fixture, built: Fixture, manifest: Fixture) -> None:
    dataset = shop()
    built(dataset, {FIRST: []}, upto="rollups")
    made = manifest("rollups", FIRST)
    assert (made.files, made.parents, made.rows_out) == ((), (), 0)


def test_a_dataset_without_items_has_no_rollup_of_them(shop: Fixture, built: Fixture, manifest: Fixture) -> None:
    dataset = shop(item=None, features={"history": [{"since_last": "user"}]})
    built(dataset, {FIRST: [{"event_time": f"{FIRST}T01:00Z", "user": "u", "item": "a"}]}, upto="rollups")
    made = manifest("rollups", FIRST)
    bucket = bucket_of(hash64(pa.array(["u"])), 4)[0]
    assert [entry.name for entry in made.files] == [f"users/bucket={bucket:03d}.parquet"]


def test_shards_are_required_and_named(lake: Lake, shop: Fixture) -> None:
    with pytest.raises(TransientError, match="shards 2026-01-01 is required and not built"):
        rollups.build(shop(), lake, FIRST)


def test_a_blocked_delivery_is_named_although_no_shards_came_of_it(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture
) -> None:
    dataset = shop()
    bad = Check(name="bad_row_share", passed=False, blocking=True, message="9 of 10 rows are bad")
    deliver(dataset, {FIRST: rows(dataset, [])}, checks=[bad])
    with pytest.raises(DataError, match="deliveries 2026-01-01 failed bad_row_share: 9 of 10 rows are bad"):
        rollups.build(dataset, lake, FIRST)


def test_shards_of_an_older_contract_are_waited_for(lake: Lake, shop: Fixture, built: Fixture) -> None:
    row = {"event_time": f"{FIRST}T01:00Z", "user": "u"}
    built(shop(), {FIRST: [row]}, upto="shards")
    with pytest.raises(TransientError, match="shards 2026-01-01 by the present contract is required"):
        rollups.build(shop(cut={"buckets": 8}), lake, FIRST)


def test_unchanged_shards_mean_no_work(lake: Lake, shop: Fixture, built: Fixture, week: Fixture) -> None:
    dataset = shop()
    built(dataset, week(dataset, num_days=2, num_rows=50, seed=4), upto="rollups")
    assert not rollups.build(dataset, lake, FIRST).built
    assert not rollups.build(dataset, lake, FIRST + timedelta(days=1)).built


def test_only_what_matters_to_rollups_is_in_their_contract_digest(shop: Fixture) -> None:
    base = rollups.present(shop())
    assert rollups.present(shop(features={"history": []}, train={"epochs": 3}, examples="gift")) == base
    assert rollups.present(shop(item={"column": "kind"})) != base
    assert rollups.present(shop(events={"buy": "kind = 'buy'"})) != base
    assert cut.present(shop(item={"column": "kind"})) == cut.present(shop())
