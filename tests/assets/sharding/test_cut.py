from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from assets.sharding import cut
from resources.contract.buckets import bucket_of, hash64
from resources.contract.dataset import Dataset
from resources.contract.errors import ConfigError, CorruptError, DataError, TransientError
from resources.contract.manifest import Check, Ledger, Manifest, Parent, Plan, staleness
from resources.lake import Lake

DAY = date(2026, 1, 5)
YESTERDAY, TOMORROW = DAY - timedelta(days=1), DAY + timedelta(days=1)

Fixture = Callable[..., Any]


def shards_of(lake: Lake, made: Manifest) -> dict[int, pa.Table]:
    """Bucket -> rows, as a reader of the manifest finds them."""
    return {
        entry.bucket: pq.read_table(lake.path(made, entry), page_checksum_verification=True)
        for entry in made.files
        if entry.bucket is not None
    }


def all_rows(tables: Sequence[pa.Table]) -> Counter[str]:
    return Counter(repr(row) for table in tables for row in table.to_pylist())


def test_every_row_of_the_event_day_lands_in_exactly_one_shard(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture, traffic: Fixture
) -> None:
    dataset = shop(user={"column": "user", "missing": "spread"}, duplicates={"keep": "all"})
    own = traffic(dataset, DAY, num_rows=300, seed=1)
    other = traffic(dataset, YESTERDAY, num_rows=50, seed=2) + traffic(dataset, TOMORROW, num_rows=50, seed=3)
    deliver(
        dataset,
        {
            YESTERDAY: rows(dataset, own[:10] + other),
            DAY: rows(dataset, own[10:200]),
            TOMORROW: rows(dataset, own[200:250]),
            TOMORROW + timedelta(days=1): rows(dataset, own[250:]),
            # later than the contract's `late`: not for this day
            TOMORROW + timedelta(days=2): rows(dataset, traffic(dataset, DAY, num_rows=5, seed=9)),
        },
    )
    made = cut.build(dataset, lake, DAY).manifest
    shards = shards_of(lake, made)
    assert all_rows([t.drop_columns(["event"]) for t in shards.values()]) == all_rows([rows(dataset, own)])
    assert made.counts["good"] == made.rows_in == made.rows_out == 300
    assert made.counts["late"] == 100
    assert made.blocked_by is None
    assert (made.bucket_hash, made.num_buckets) == ("md5-low64-le/1", 4)


def test_a_user_lies_in_the_bucket_of_its_hash_and_nowhere_else(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture, traffic: Fixture
) -> None:
    dataset = shop(cut={"buckets": 7})
    deliver(
        dataset,
        {YESTERDAY: rows(dataset, []), DAY: rows(dataset, traffic(dataset, DAY, num_rows=500, seed=1, users=50))},
    )
    made = cut.build(dataset, lake, DAY).manifest
    shards = shards_of(lake, made)
    assert len(shards) == 7
    for bucket, table in shards.items():
        assert set(bucket_of(hash64(table["user"]), 7).tolist()) == {bucket}
        entry = made.file(f"bucket={bucket:03d}.parquet")
        assert entry is not None
        times = table["event_time"].cast(pa.int64()).to_pylist()
        assert (entry.rows, entry.first_us, entry.last_us) == (len(times), min(times), max(times))


def test_shards_stand_in_canonical_order_without_repeats(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture, traffic: Fixture
) -> None:
    dataset = shop()
    delivered = traffic(dataset, DAY, num_rows=400, seed=4)
    deliver(dataset, {YESTERDAY: rows(dataset, []), DAY: rows(dataset, delivered)})
    made = cut.build(dataset, lake, DAY).manifest

    def comparable(row: dict[str, Any]) -> tuple[tuple[bool, Any], ...]:
        names = ("user", "event_time", "item", "kind", "amount", "price", "gift")
        return tuple((row[name] is None, 0 if row[name] is None else row[name]) for name in names)

    for table in shards_of(lake, made).values():
        found = [comparable(row) for row in table.to_pylist()]
        assert found == sorted(set(found))
    known = {comparable(row) for row in rows(dataset, delivered).to_pylist() if row["user"] is not None}
    assert made.rows_out == len(known)


def test_neither_arrival_nor_splitting_can_be_seen_in_the_bytes(
    tmp_path: Path, shop: Fixture, rows: Fixture, traffic: Fixture, request: pytest.FixtureRequest
) -> None:
    dataset = shop(duplicates={"key": ["user", "item"], "order": "amount", "keep": "last"})
    delivered = traffic(dataset, DAY, num_rows=300, seed=5)
    lake, deliver = request.getfixturevalue("lake"), request.getfixturevalue("deliver")
    deliver(dataset, {YESTERDAY: rows(dataset, []), DAY: rows(dataset, delivered)})
    first = cut.build(dataset, lake, DAY).manifest
    shuffled = [delivered[i] for i in np.random.default_rng(6).permutation(len(delivered))]
    deliver(dataset, {YESTERDAY: rows(dataset, shuffled[:100]), DAY: rows(dataset, shuffled[100:])})
    second = cut.build(dataset, lake, DAY, rebuild=True).manifest
    assert second.input_digest != first.input_digest
    assert second.content_digest == first.content_digest
    assert [entry.checksum for entry in second.files] == [entry.checksum for entry in first.files]


def test_the_first_condition_that_holds_names_the_event_and_null_is_no_match(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture
) -> None:
    dataset = shop(events={"cheap": "price < 5", "buy": "kind = 'buy'"}, label={"where": "gift"})
    found = [
        {"event_time": f"{DAY}T00:00:0{i}+00:00", "user": "u", "kind": kind, "price": price}
        for i, (kind, price) in enumerate([("buy", 1), ("buy", 9), ("buy", None), ("look", 9), (None, None)])
    ]
    deliver(dataset, {YESTERDAY: rows(dataset, []), DAY: rows(dataset, found)})
    (table,) = shards_of(lake, cut.build(dataset, lake, DAY).manifest).values()
    assert table["event"].to_pylist() == ["cheap", "buy", "buy", "other", "other"]


def test_a_condition_that_is_none_is_the_contracts_fault(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture
) -> None:
    dataset = shop(events={"buy": "amount"})
    deliver(dataset, {YESTERDAY: rows(dataset, []), DAY: rows(dataset, [{"event_time": f"{DAY}T01:00Z", "user": "u"}])})
    with pytest.raises(ConfigError, match=r"events\.buy: 'amount' must be true or false"):
        cut.build(dataset, lake, DAY)


@pytest.mark.parametrize(("missing", "rows_out", "dropped"), [("drop", 2, 3), ("keep", 5, 0), ("spread", 5, 0)])
def test_rows_without_a_user_go_where_the_contract_says(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture, missing: str, rows_out: int, dropped: int
) -> None:
    dataset = shop(user={"column": "user", "missing": missing})
    delivered = [
        {"event_time": f"{DAY}T01:00Z", "user": user, "amount": amount}
        for user, amount in [("u", 1), ("v", 1), (None, 1), (None, 2), (None, 3), (None, 3)]
    ]
    deliver(dataset, {YESTERDAY: rows(dataset, []), DAY: rows(dataset, delivered)})
    made = cut.build(dataset, lake, DAY).manifest
    assert made.rows_out == rows_out
    assert made.counts | {"max_bucket_rows": 0} == {
        "good": 6,
        "duplicates": 1,
        "late": 0,
        "users": 2,
        "without_user": 4,
        "dropped": dropped,
        "max_bucket_rows": 0,
    }
    assert made.blocked_by is None
    nameless = {b for b, t in shards_of(lake, made).items() if t["user"].null_count}
    assert nameless == {"drop": set(), "keep": {0}}.get(missing, nameless)


def test_spread_rows_fill_all_buckets_by_their_content_alone(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture
) -> None:
    dataset = shop(user={"column": "user", "missing": "spread"}, cut={"buckets": 8})
    delivered = [{"event_time": f"{DAY}T01:00Z", "user": None, "amount": i} for i in range(400)]
    deliver(dataset, {YESTERDAY: rows(dataset, []), DAY: rows(dataset, delivered)})
    made = cut.build(dataset, lake, DAY).manifest
    assert [entry.rows > 25 for entry in made.files] == [True] * 8


def test_late_rows_are_counted_only_where_the_path_tells_the_delivery_day(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture
) -> None:
    dataset = shop(source={"files": "/nowhere/*.csv", "format": "csv"})
    row = {"event_time": f"{DAY}T01:00Z", "user": "u"}
    deliver(dataset, {DAY: rows(dataset, [row])})
    made = cut.build(dataset, lake, DAY).manifest
    assert cut.delivery_days(dataset, DAY) == [DAY]
    assert (made.counts["late"], made.rows_out) == (0, 1)


def test_b1_a_rerun_with_fewer_rows_leaves_none_of_the_old_ones(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture
) -> None:
    dataset = shop(cut={"buckets": 8})
    times = np.arange(100_000) + int(rows(dataset, [{"event_time": f"{DAY}T01:00Z"}])["event_time"].cast("int64")[0])
    table = pa.table(
        {
            "event_time": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "user": (np.arange(100_000) % 1000).astype(str),
            **{f.name: pa.nulls(100_000, f.type) for f in list(dataset.row_schema)[2:]},
        }
    ).cast(dataset.row_schema)
    deliver(dataset, {YESTERDAY: rows(dataset, []), DAY: table})
    many = cut.build(dataset, lake, DAY).manifest
    assert (many.rows_out, len(many.files)) == (100_000, 8)
    few = table.filter(pa.array(np.isin(table["user"].to_numpy(zero_copy_only=False), ["1", "2"]))).slice(0, 4)
    deliver(dataset, {DAY: few})
    made = cut.build(dataset, lake, DAY).manifest
    assert (made.rows_out, len(made.files)) == (4, 2)
    assert sum(t.num_rows for t in shards_of(lake, made).values()) == 4


def test_b3_the_manifest_names_the_hash_and_its_version(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture
) -> None:
    dataset = shop()
    deliver(
        dataset, {YESTERDAY: rows(dataset, []), DAY: rows(dataset, [{"event_time": f"{DAY}T01:00Z", "user": "red"}])}
    )
    made = cut.build(dataset, lake, DAY).manifest
    assert made.bucket_hash == "md5-low64-le/1"
    # md5("red") begins bd a9 64 3a c6 60 17 22: 0x221760c6 modulo 4
    assert [entry.name for entry in made.files] == ["bucket=002.parquet"]


def test_b5_another_process_cuts_the_same_day_into_the_same_bytes(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture, traffic: Fixture, manifest: Fixture
) -> None:
    dataset = shop()
    deliver(dataset, {YESTERDAY: rows(dataset, []), DAY: rows(dataset, traffic(dataset, DAY, num_rows=100, seed=7))})
    made = cut.build(dataset, lake, DAY).manifest
    program = (
        "import pickle, sys; from datetime import date; from pathlib import Path\n"
        "from assets.sharding import cut; from resources.lake import Lake\n"
        "dataset = pickle.loads(bytes.fromhex(sys.argv[1]))\n"
        "made = cut.build(dataset, Lake(Path(sys.argv[2])), date.fromisoformat(sys.argv[3]), rebuild=True).manifest\n"
        "print([(e.name, e.checksum) for e in made.files])\n"
    )
    contract = pickle.dumps(dataset).hex()
    printed = subprocess.run(
        [sys.executable, "-c", program, contract, lake.root, DAY.isoformat()],
        env={**os.environ, "PYTHONHASHSEED": "3", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed.strip() == str([(entry.name, entry.checksum) for entry in made.files])


def test_b14_one_user_with_most_rows_stays_in_one_bucket_and_is_reported(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture
) -> None:
    dataset = shop(cut={"buckets": 16})
    num_rows = 1_000_000
    names = np.where(np.arange(num_rows) < 600_000, "bot", (np.arange(num_rows) % 40_000).astype(str))
    start = int(rows(dataset, [{"event_time": f"{DAY}T00:00Z"}])["event_time"].cast("int64")[0])
    table = pa.table(
        {
            "event_time": pa.array(start + np.arange(num_rows)).cast(pa.timestamp("us", "UTC")),
            "user": names,
            **{f.name: pa.nulls(num_rows, f.type) for f in list(dataset.row_schema)[2:]},
        }
    ).cast(dataset.row_schema)
    deliver(dataset, {YESTERDAY: rows(dataset, []), DAY: table})
    made = cut.build(dataset, lake, DAY).manifest
    balance = next(check for check in made.checks if check.name == "bucket_balance")
    assert made.counts["max_bucket_rows"] == pytest.approx(625_000, rel=0.02)
    assert balance.value == pytest.approx(10.0, rel=0.02)
    assert (balance.passed, balance.blocking, made.blocked_by) == (False, False, None)
    assert made.rows_out == num_rows
    (of_bot,) = [
        b for b, t in shards_of(lake, made).items() if "bot" in t["user"].to_pylist()[:1] + t["user"].to_pylist()[-1:]
    ]
    assert of_bot == bucket_of(hash64(pa.array(["bot"])), 16)[0]


def test_a_day_without_rows_is_built_and_empty(lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture) -> None:
    dataset = shop()
    deliver(dataset, {YESTERDAY: rows(dataset, []), DAY: rows(dataset, [])})
    made = cut.build(dataset, lake, DAY).manifest
    assert (made.files, made.rows_in, made.rows_out, made.parents, made.blocked_by) == ((), 0, 0, (), None)
    assert {check.name for check in made.checks} == set(cut.CHECKS)


def promised(num_rows: int) -> Plan:
    """A plan whose deliveries say that they hold so many rows of the day."""
    parents = (Parent(asset="deliveries", day=DAY, digest="d", rows=num_rows),)
    return Plan(asset="shards", day=DAY, contract_digest="c", logic_version=1, parents=parents)


def test_a_row_outside_the_day_blocks_it(lake: Lake, shop: Fixture, rows: Fixture, tmp_path: Path) -> None:
    dataset = shop()
    stray = rows(dataset, [{"event_time": f"{d}T00:00Z", "user": "u"} for d in (DAY, TOMORROW)])
    outcome = cut.cut_rows(stray, dataset=dataset, lake=lake, folder=tmp_path, wanted=promised(2))
    failed = [check for check in outcome.checks if not check.passed]
    assert [(check.name, check.blocking, check.value) for check in failed] == [("time_bounds", True, 1)]


def test_a_row_that_was_promised_and_is_not_there_blocks_the_day(
    lake: Lake, shop: Fixture, rows: Fixture, tmp_path: Path
) -> None:
    dataset = shop()
    table = rows(dataset, [{"event_time": f"{DAY}T01:00Z", "user": "u"}, {"event_time": f"{DAY}T01:00Z"}] * 2)
    outcome = cut.cut_rows(table, dataset=dataset, lake=lake, folder=tmp_path, wanted=promised(5))
    failed = [check for check in outcome.checks if check.blocking and not check.passed]
    assert [(check.name, check.value) for check in failed] == [("conservation", 1)]
    assert failed[0].message == "5 rows in, 1 out, 2 repeats, 1 dropped without a user"


def test_many_repeats_are_reported_without_blocking(lake: Lake, shop: Fixture, rows: Fixture, tmp_path: Path) -> None:
    dataset = shop()
    table = rows(dataset, [{"event_time": f"{DAY}T01:00Z", "user": "u"}] * 4)
    outcome = cut.cut_rows(table, dataset=dataset, lake=lake, folder=tmp_path, wanted=promised(4))
    share = next(check for check in outcome.checks if check.name == "duplicate_share")
    assert (share.value, share.passed, share.blocking) == (0.75, False, False)
    assert (outcome.rows_in, outcome.rows_out, outcome.counts["duplicates"]) == (4, 1, 3)


def test_unchanged_deliveries_mean_no_work_and_a_changed_user_rewrites_one_bucket(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture, traffic: Fixture
) -> None:
    dataset = shop()
    delivered = traffic(dataset, DAY, num_rows=200, seed=8)
    deliver(dataset, {YESTERDAY: rows(dataset, []), DAY: rows(dataset, delivered)})
    first = cut.build(dataset, lake, DAY).manifest
    assert not cut.build(dataset, lake, DAY).built
    extra = {"event_time": f"{DAY}T12:34Z", "user": "u1", "amount": 99}
    deliver(dataset, {DAY: rows(dataset, [*delivered, extra])})
    second = cut.build(dataset, lake, DAY).manifest
    touched = f"bucket={bucket_of(hash64(pa.array(['u1'])), 4)[0]:03d}.parquet"
    assert {e.name for e in second.files if e not in first.files} == {touched}
    assert second.rows_out == first.rows_out + 1


def test_a_late_delivery_makes_the_day_stale_unless_it_holds_nothing_for_it(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture
) -> None:
    dataset = shop()
    row = {"event_time": f"{DAY}T01:00Z", "user": "u"}
    deliver(dataset, {YESTERDAY: rows(dataset, []), DAY: rows(dataset, [row])})
    made = cut.build(dataset, lake, DAY).manifest
    deliver(dataset, {TOMORROW: rows(dataset, [{"event_time": f"{TOMORROW}T01:00Z", "user": "u"}])})
    assert staleness(made, cut.plan(dataset, lake.ledger("shop"), DAY)) is None
    deliver(dataset, {TOMORROW: rows(dataset, [{**row, "amount": 1}])})
    stale = staleness(made, cut.plan(dataset, lake.ledger("shop"), DAY))
    assert stale is not None and stale.reason == f"deliveries {TOMORROW} changed"
    late = cut.build(dataset, lake, DAY).manifest
    assert (late.rows_out, late.counts["late"]) == (2, 1)


def test_the_day_and_the_one_before_are_required_and_later_ones_are_not(shop: Fixture) -> None:
    dataset = shop()
    empty = Ledger([])
    assert cut.plan(dataset, empty, DAY).missing == (f"deliveries {YESTERDAY}", f"deliveries {DAY}")
    assert cut.plan(dataset, empty, dataset.days.first).missing == (f"deliveries {dataset.days.first}",)


def test_a_blocked_delivery_blocks_its_day_and_the_next_but_no_earlier_one(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture
) -> None:
    dataset = shop()
    bad = Check(name="bad_row_share", passed=False, blocking=True, message="30 % of the rows are bad")
    good = rows(dataset, [{"event_time": f"{d}T01:00Z", "user": "u"} for d in (YESTERDAY, DAY)])
    deliver(dataset, {YESTERDAY - timedelta(days=1): good, YESTERDAY: good, TOMORROW: good})
    deliver(dataset, {DAY: good}, checks=[bad])
    for day in (DAY, TOMORROW):
        with pytest.raises(DataError, match=f"deliveries {DAY} failed bad_row_share: 30 % of the rows are bad"):
            cut.build(dataset, lake, day)
    made = cut.build(dataset, lake, YESTERDAY).manifest
    assert DAY not in {parent.day for parent in made.parents}


def test_deliveries_of_an_older_contract_are_not_mixed_in(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture
) -> None:
    before = shop()
    deliver(before, {YESTERDAY: rows(before, []), DAY: rows(before, [{"event_time": f"{DAY}T01:00Z", "user": "u"}])})
    after = shop(columns={"price": {"type": "number", "required": False}})
    with pytest.raises(TransientError, match=f"deliveries {DAY} hold other columns"):
        cut.build(after, lake, DAY)


def test_only_what_matters_to_shards_is_in_their_contract_digest(shop: Fixture) -> None:
    base = cut.present(shop())
    features_only = {"categories": ["item"], "numbers": [], "history": []}
    for same in (
        shop(features=features_only),
        shop(train={"epochs": 2}),
        shop(examples="gift"),
        shop(days={"late": 5}),
    ):
        assert cut.present(same) == base
    for other in (
        shop(cut={"buckets": 8}),
        shop(events={"look": "kind = 'look'", "buy": "kind = 'buy'"}),
        shop(duplicates={"keep": "all"}),
        shop(user={"column": "user", "missing": "keep"}),
        shop(columns={"price": {"type": "decimal", "scale": 3}}),
        shop(columns={"gift": {"as": "present", "type": "flag"}}, features=features_only),
    ):
        assert cut.present(other) != base


def test_parents_say_which_days_were_read_and_how(lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture) -> None:
    dataset = shop()
    row = {"event_time": f"{DAY}T01:00Z", "user": "u"}
    deliver(dataset, {d: rows(dataset, [row] * n) for n, d in enumerate([YESTERDAY, DAY, TOMORROW], start=1)})
    planned = cut.plan(dataset, lake.ledger("shop"), DAY)

    def brief(parent: Parent) -> tuple[date, str, int]:
        return parent.day, parent.role, parent.rows

    assert [brief(p) for p in planned.parents] == [(YESTERDAY, "own", 1), (DAY, "own", 2), (TOMORROW, "ahead", 3)]


def test_a_kill_between_buckets_publishes_nothing_and_the_next_try_is_whole(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture, traffic: Fixture
) -> None:
    class Killed(BaseException):
        pass

    def step(name: str) -> None:
        if name == "shards:bucket":
            raise Killed

    dataset = shop()
    deliver(dataset, {YESTERDAY: rows(dataset, []), DAY: rows(dataset, traffic(dataset, DAY, num_rows=100, seed=3))})
    with pytest.raises(Killed):
        cut.build(dataset, Lake(lake.root, step=step), DAY)
    assert lake.read("shop", "shards", DAY) is None
    made = cut.build(dataset, lake, DAY).manifest
    assert made.rows_out + made.counts["duplicates"] + made.counts["dropped"] == 100


def test_a_flipped_bit_in_a_delivery_is_found(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture, manifest: Fixture
) -> None:
    dataset = shop()
    deliver(dataset, {YESTERDAY: rows(dataset, []), DAY: rows(dataset, [{"event_time": f"{DAY}T01:00Z", "user": "u"}])})
    delivered = manifest("deliveries", DAY)
    path = lake.path(delivered, delivered.files[0])
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptError, match=f"shop/deliveries {DAY}"):
        cut.build(dataset, lake, DAY)


def test_shard_files_have_the_exact_schema_and_nothing_of_pandas(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture
) -> None:
    dataset: Dataset = shop()
    deliver(dataset, {YESTERDAY: rows(dataset, []), DAY: rows(dataset, [{"event_time": f"{DAY}T01:00Z", "user": "u"}])})
    made = cut.build(dataset, lake, DAY).manifest
    path = lake.path(made, made.files[0])
    assert pq.read_schema(path).equals(dataset.row_schema.append(pa.field("event", pa.string())))
    assert b"pandas" not in path.read_bytes()


def test_unsigned_integers_of_64_bits_are_told_apart_ordered_and_compared_exactly(
    lake: Lake, shop: Fixture, rows: Fixture, deliver: Fixture
) -> None:
    top = 2**64 - 1
    dataset = shop(
        columns={"amount": {"type": "integer", "required": False, "unsigned": True}},
        events={"large": "amount > 9223372036854775807", "buy": "kind = 'buy'"},
        duplicates={"key": ["user", "item"], "order": "amount", "keep": "last"},
        label={"where": "gift"},
    )
    found = [
        {"event_time": f"{DAY}T00:00:00+00:00", "user": "u", "item": item, "amount": amount}
        for item, amount in [("i", top - 1), ("i", top), ("i", 2**63 - 1), ("j", 2**63 - 1), ("j", None), ("k", None)]
    ]
    deliver(dataset, {YESTERDAY: rows(dataset, []), DAY: rows(dataset, found)})
    made = cut.build(dataset, lake, DAY).manifest
    [shard] = shards_of(lake, made).values()
    assert shard.schema.field("amount").type == pa.uint64()
    kept = {row["item"]: (row["amount"], row["event"]) for row in shard.to_pylist()}
    assert kept == {"i": (top, "large"), "j": (2**63 - 1, "other"), "k": (None, "other")}
