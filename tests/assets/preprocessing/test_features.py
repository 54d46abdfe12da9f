from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any

import numpy as np
import pytest

from assets.preprocessing import features, labels, rollups
from assets.preprocessing.layout import Layout
from assets.preprocessing.statistics import Moments, distinct_estimate
from assets.sharding.inputs import own_buckets
from resources.contract.buckets import hash64_text, mix32, salt_of
from resources.contract.dataset import Dataset
from resources.contract.errors import DataError, TransientError
from resources.contract.manifest import Check, Manifest, staleness
from resources.lake import Lake

FIRST = date(2026, 1, 1)
SECOND = FIRST + timedelta(days=1)
Fixture = Callable[..., Any]


def records_of(lake: Lake, made: Manifest) -> np.ndarray:
    return np.concatenate([np.load(lake.verified_path(made, e)) for e in made.files if e.bucket is not None])


def code(field: str, text: str) -> int:
    return int(mix32(np.array([hash64_text(text)], np.uint64), salt_of(field))[0])


def single(lake: Lake, dataset: Dataset, built: Fixture, manifest: Fixture, row: dict[str, Any]) -> dict[str, float]:
    """The one record that a one-row day gives, by name."""
    day = dataset.days.first
    built(dataset, {day: [row]}, upto="features")
    layout, record = Layout.of(dataset), records_of(lake, manifest("features", day))
    values = [*layout.categories_of(record)[0].tolist(), *layout.numbers_of(record)[0].tolist()]
    return dict(zip((*layout.categories, *layout.numbers), values, strict=True))


def test_a_record_holds_the_row_as_codes_and_raw_numbers(
    lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture
) -> None:
    dataset = shop()
    row = {
        "event_time": f"{FIRST}T23:59:59.999999Z",
        "user": "00042",
        "item": "a",
        "kind": "buy",
        "amount": 7,
        "price": Decimal("9.99"),
        "gift": True,
    }
    assert single(lake, dataset, built, manifest, row) == {
        "user": code("user", "00042"),
        "item": code("item", "a"),
        "kind": code("kind", "buy"),
        "amount": code("amount", "7"),
        "gift": code("gift", "true"),
        "hour": code("hour", "23"),
        "weekday": code("weekday", "4"),  # a Thursday
        "price": np.float32(9.99),
        "amount_log1p": np.float32(np.log1p(7.0)),
        "user_count_1d": 0,
        "user_count_3d": 0,
        "item_count_1d": 0,
        "item_count_3d": 0,
        "user_buy_count_2d": 0,
        "user_since_last_s": pytest.approx(np.nan, nan_ok=True),
    }
    record = records_of(lake, manifest("features", FIRST))
    layout = Layout.of(dataset)
    assert layout.users_of(record).tolist() == [hash64_text("00042")]
    assert layout.items_of(record).tolist() == [hash64_text("a")]
    assert layout.times_of(record).tolist() == [1767311999999999]


def test_what_is_missing_is_zero_or_nan_and_never_a_value(
    lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture
) -> None:
    dataset = shop(user={"column": "user", "missing": "keep"})
    found = single(lake, dataset, built, manifest, {"event_time": f"{FIRST}T00:00Z"})
    assert {name: found[name] for name in ("user", "item", "kind", "amount", "gift")} == dict.fromkeys(
        ("user", "item", "kind", "amount", "gift"), 0
    )
    assert found["hour"] == code("hour", "0")
    numbers = Layout.of(dataset).numbers
    assert [name for name in numbers if not np.isnan(found[name])] == []


def test_negative_zero_is_zero_in_the_record(lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture) -> None:
    dataset = shop(columns={"price": {"type": "number"}})
    found = single(lake, dataset, built, manifest, {"event_time": f"{FIRST}T00:00Z", "user": "u", "price": -0.0})
    assert not np.signbit(found["price"])


@pytest.mark.parametrize(
    ("day", "instant", "hour", "weekday"),
    [
        (date(2026, 3, 29), "2026-03-28T23:00:00Z", "0", "7"),
        (date(2026, 3, 29), "2026-03-29T00:59:59.999999Z", "1", "7"),
        (date(2026, 3, 29), "2026-03-29T01:00:00Z", "3", "7"),
        (date(2026, 3, 29), "2026-03-29T21:59:59.999999Z", "23", "7"),
        (date(2026, 10, 25), "2026-10-25T00:30:00Z", "2", "7"),
        (date(2026, 10, 25), "2026-10-25T01:30:00Z", "2", "7"),
        (date(2026, 10, 25), "2026-10-25T22:59:59.999999Z", "23", "7"),
        (date(2026, 10, 26), "2026-10-25T23:00:00Z", "0", "1"),
    ],
)
def test_hour_and_weekday_are_those_on_the_wall_also_when_the_clock_changes(
    lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture, day: date, instant: str, hour: str, weekday: str
) -> None:
    dataset = shop(days={"zone": "Europe/Berlin", "first": day})
    found = single(lake, dataset, built, manifest, {"event_time": instant, "user": "u"})
    assert (found["hour"], found["weekday"]) == (code("hour", hour), code("weekday", weekday))


def test_c9_ids_never_pass_through_a_float(lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture) -> None:
    ids = ["16777216", "16777217", "9007199254740992", "9007199254740993"]
    dataset = shop()
    built(dataset, {FIRST: [{"event_time": f"{FIRST}T01:00Z", "user": i, "item": i} for i in ids]}, upto="features")
    layout, records = Layout.of(dataset), records_of(lake, manifest("features", FIRST))
    assert (
        set(layout.users_of(records).tolist())
        == {hash64_text(i) for i in ids}
        == set(layout.items_of(records).tolist())
    )
    for place in range(2):
        assert len(set(layout.categories_of(records)[:, place].tolist())) == 4


def test_c3_an_id_never_seen_before_has_a_code_like_any_other(
    lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture
) -> None:
    dataset = shop()
    built(dataset, {FIRST: [], SECOND: [{"event_time": f"{SECOND}T01:00Z", "user": "new"}]}, upto="features")
    records = records_of(lake, manifest("features", SECOND))
    assert Layout.of(dataset).categories_of(records)[0, 0] == code("user", "new")


@pytest.mark.parametrize("amount", [-1, -10])
def test_c11_a_negative_number_under_a_logarithm_is_refused_with_its_count(
    lake: Lake, shop: Fixture, built: Fixture, amount: int
) -> None:
    dataset = shop()
    found = [
        {"event_time": f"{FIRST}T01:00Z", "user": f"u{i}", "amount": a} for i, a in enumerate([amount] * 3 + [0, 5])
    ]
    with pytest.raises(DataError) as raised:
        built(dataset, {FIRST: found}, upto="features")
    assert str(raised.value).startswith("shop/features 2026-01-01: 3 examples have a negative 'amount'")
    assert "`at_least: 0`" in str(raised.value)
    assert lake.read("shop", "features", FIRST) is None


def test_c11_a_fraction_below_zero_is_as_negative_as_the_rest(shop: Fixture, built: Fixture) -> None:
    dataset = shop(features={"numbers": [{"log1p": "price"}]})
    with pytest.raises(DataError, match="1 examples have a negative 'price'"):
        built(
            dataset,
            {FIRST: [{"event_time": f"{FIRST}T01:00Z", "user": "u", "price": Decimal("-0.50")}]},
            upto="features",
        )


def test_c11_a_negative_number_that_is_no_example_is_none_of_features_business(
    lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture
) -> None:
    dataset = shop(examples="amount >= 0")
    found = [{"event_time": f"{FIRST}T01:00Z", "user": f"u{i}", "amount": a} for i, a in enumerate([-5, 0, None])]
    built(dataset, {FIRST: found}, upto="features")
    assert manifest("features", FIRST).counts["examples"] == 1


def test_a_number_that_a_float32_cannot_hold_is_refused(shop: Fixture, built: Fixture) -> None:
    dataset = shop(columns={"price": {"type": "number"}})
    with pytest.raises(DataError, match="1 examples have a 'price' beyond what a float32 holds"):
        built(dataset, {FIRST: [{"event_time": f"{FIRST}T01:00Z", "user": "u", "price": 1e39}]}, upto="features")


def test_the_facts_describe_what_lies_in_the_files(
    lake: Lake, shop: Fixture, built: Fixture, week: Fixture, manifest: Fixture
) -> None:
    dataset = shop(user={"column": "user", "missing": "keep"})
    built(dataset, week(dataset, num_days=2, num_rows=200, seed=1), upto="features")
    made, layout = manifest("features", SECOND), Layout.of(dataset)
    records = records_of(lake, made)
    assert Layout.from_json(made.facts["layout"]) == layout
    assert made.counts["examples"] == made.rows_out == len(records)
    assert made.rows_in == manifest("shards", SECOND).rows_out
    for name, values in zip(layout.numbers, layout.numbers_of(records).T, strict=True):
        n, mean, m2 = made.facts["moments"][name]
        wanted = Moments.of(values)
        assert (n, mean, m2) == (wanted.n, pytest.approx(wanted.mean), pytest.approx(wanted.m2))
    entry = made.file(features.DISTINCT)
    assert entry is not None and entry.rows == 0
    sketches = np.load(lake.path(made, entry))
    for name, sketch, codes in zip(layout.categories, sketches, layout.categories_of(records).T, strict=True):
        assert distinct_estimate(sketch) == len(set(codes.tolist()) - {0}), name


def test_missing_numbers_are_reported_without_blocking(shop: Fixture, built: Fixture, manifest: Fixture) -> None:
    dataset = shop()
    found = [
        {"event_time": f"{FIRST}T01:00Z", "user": f"u{i}", "price": 1, "amount": 1 if i else None} for i in range(4)
    ]
    built(dataset, {FIRST: found, SECOND: [{"event_time": f"{SECOND}T01:00Z", "user": "u"}]}, upto="features")
    (_, first), (_, second) = manifest("features", FIRST).checks, manifest("features", SECOND).checks
    assert (first.name, first.value, first.passed) == ("missing_share", 0.25, True)
    assert (second.value, second.passed, second.blocking) == (1.0, False, False)
    assert list(features.CHECKS) == ["conservation", "missing_share"]


def test_an_example_that_gets_no_record_blocks_the_day(
    lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = shop(examples="event = 'buy'")
    kinds = ["buy", "look", "buy"]
    found = [{"event_time": f"{FIRST}T01:00Z", "user": f"u{i}", "kind": kind} for i, kind in enumerate(kinds)]
    built(dataset, {FIRST: found}, upto="features")
    sound = manifest("features", FIRST).checks[0]
    assert (sound.name, sound.passed, sound.blocking) == ("conservation", True, True)
    assert sound.message == "3 of 3 events read, 2 examples among them, 2 rows"
    whole = features.records_of
    monkeypatch.setattr(features, "records_of", lambda *a, **k: whole(*a, **k)[1:])
    blocked = features.build(dataset, lake, FIRST, rebuild=True).manifest.blocked_by
    assert blocked is not None and blocked.startswith("conservation: 3 of 3 events read, 2 examples among them, 0 rows")


def test_a_bucket_of_events_that_is_not_read_blocks_features_labels_and_rollups(
    lake: Lake, shop: Fixture, built: Fixture, week: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = shop(examples="true")
    built(dataset, week(dataset, num_days=1, num_rows=100, seed=5))
    for room in (features, labels, rollups):
        made = room.build(dataset, lake, FIRST, rebuild=True).manifest
        assert made.blocked_by is None and made.rows_in
        monkeypatch.setattr(room, "own_buckets", lambda *a, **k: islice(own_buckets(*a, **k), 1, None))
        blocked = room.build(dataset, lake, FIRST, rebuild=True).manifest.blocked_by
        assert blocked is not None and f"of {made.rows_in} events read" in blocked


def test_an_empty_day_has_no_features_and_is_built(shop: Fixture, built: Fixture, manifest: Fixture) -> None:
    built(shop(), {FIRST: []}, upto="features")
    made = manifest("features", FIRST)
    assert (made.files, made.parents, made.counts, made.blocked_by) == ((), (), {"examples": 0}, None)


def test_a_day_whose_rows_are_no_examples_has_none(shop: Fixture, built: Fixture, manifest: Fixture) -> None:
    dataset = shop(examples="event = 'look'")
    built(dataset, {FIRST: [{"event_time": f"{FIRST}T01:00Z", "user": "u", "kind": "buy"}]}, upto="features")
    made = manifest("features", FIRST)
    assert (made.files, made.rows_in, made.rows_out) == ((), 1, 0)


def test_f15_a_missing_earlier_day_is_named_and_refused(
    lake: Lake, shop: Fixture, built: Fixture, week: Fixture
) -> None:
    dataset = shop()
    days = week(dataset, num_days=5, num_rows=20, seed=2)
    built(dataset, days, upto="rollups")
    lake.pointer_path("shop", "rollups", FIRST + timedelta(days=2)).unlink()
    with pytest.raises(
        TransientError, match="shop/features 2026-01-05: rollups 2026-01-03 is required and not built yet"
    ):
        features.build(dataset, lake, FIRST + timedelta(days=4))
    features.build(dataset, lake, FIRST + timedelta(days=2))


def test_f15_before_the_first_day_there_is_no_history_and_none_is_missing(shop: Fixture) -> None:
    assert features.history_days(shop(), FIRST) == []
    assert features.history_days(shop(), SECOND) == [FIRST]
    assert len(features.history_days(shop(), FIRST + timedelta(days=90))) == 30
    no_history = shop(features={"history": [{"count": "user", "days": [1]}]})
    assert features.history_days(no_history, FIRST + timedelta(days=90)) == []


def test_a_blocked_earlier_day_blocks(
    lake: Lake, shop: Fixture, built: Fixture, week: Fixture, deliver: Fixture, rows: Fixture
) -> None:
    dataset = shop()
    built(dataset, week(dataset, num_days=3, num_rows=20, seed=3), upto="rollups")
    lake.pointer_path("shop", "rollups", SECOND).unlink()
    bad = Check(name="bad_row_share", passed=False, blocking=True, message="all rows are bad")
    deliver(dataset, {SECOND: rows(dataset, [])}, checks=[bad])
    with pytest.raises(DataError, match="deliveries 2026-01-02 failed bad_row_share: all rows are bad"):
        features.build(dataset, lake, FIRST + timedelta(days=2))


def test_parents_are_the_days_own_shards_and_the_rollups_of_days_with_rows(
    lake: Lake, shop: Fixture, built: Fixture, week: Fixture, manifest: Fixture
) -> None:
    dataset = shop()
    days = week(dataset, num_days=4, num_rows=30, seed=4)
    days[SECOND] = []
    built(dataset, days, upto="features")
    made = manifest("features", FIRST + timedelta(days=3))
    found = [(p.asset, p.role, (p.day - FIRST).days, p.rows) for p in made.parents]
    events = {d: manifest("rollups", FIRST + timedelta(days=d)).counts["events"] for d in (0, 2)}
    assert found == [
        ("shards", "own", 3, manifest("shards", FIRST + timedelta(days=3)).rows_out),
        ("rollups", "history", 0, events[0]),
        ("rollups", "history", 2, events[2]),
    ]


def test_a_changed_user_rewrites_one_bucket_and_makes_later_days_stale_by_its_weight(
    lake: Lake, shop: Fixture, built: Fixture, week: Fixture, manifest: Fixture
) -> None:
    dataset = shop()
    days = week(dataset, num_days=2, num_rows=120, seed=5)
    built(dataset, days, upto="features")
    before = manifest("features", SECOND)
    assert not features.build(dataset, lake, SECOND).built
    days[SECOND] = [*days[SECOND], {"event_time": f"{SECOND}T12:34Z", "user": "u1", "amount": 3}]
    built(dataset, days, upto="features")
    changed = [e.name for e in manifest("features", SECOND).files if e not in before.files]
    assert len([name for name in changed if name.startswith("bucket=")]) == 1

    days[FIRST] = [*days[FIRST], {"event_time": f"{FIRST}T12:34Z", "user": "u1", "amount": 3}]
    built(dataset, days, upto="rollups")
    stale = staleness(manifest("features", SECOND), features.plan(dataset, lake.ledger("shop"), SECOND))
    assert stale is not None
    assert (stale.history_only, stale.weight) == (True, 1.0)


def test_history_of_an_older_contract_is_waited_for(lake: Lake, shop: Fixture, built: Fixture, week: Fixture) -> None:
    before, after = shop(), shop(events={"look": "kind = 'look'", "buy": "kind = 'buy' or kind = 'odd'"})
    days = week(before, num_days=2, num_rows=30, seed=8)
    built(before, days, upto="rollups")
    built(after, days, upto="shards")
    with pytest.raises(TransientError, match="rollups 2026-01-01 by the present contract is required"):
        features.build(after, lake, SECOND)


def test_only_what_matters_to_features_is_in_their_contract_digest(shop: Fixture) -> None:
    base = features.present(shop())
    same = [
        shop(train={"epochs": 2}),
        shop(label={"where": "gift"}),
        shop(duplicates={"keep": "all"}),
        shop(days={"late": 5}),
        shop(columns={"amount": {"type": "integer", "required": False, "at_least": 0}}),
    ]
    assert {features.present(dataset) for dataset in same} == {base}
    other = [
        shop(examples="gift"),
        shop(features={"categories": ["item"]}),
        shop(days={"zone": "Europe/Berlin"}),
        shop(item={"column": "kind"}),
        shop(columns={"price": {"type": "number"}}),
    ]
    assert base not in {features.present(dataset) for dataset in other}


def test_a_change_of_features_leaves_shards_and_rollups_alone(
    lake: Lake, shop: Fixture, built: Fixture, week: Fixture
) -> None:
    before = shop()
    built(before, week(before, num_days=2, num_rows=30, seed=6), upto="features")
    after = shop(features={"categories": ["item"]}, train={"epochs": 2})
    assert not rollups.build(after, lake, SECOND).built
    assert features.build(after, lake, SECOND).built


def test_a_kill_between_buckets_leaves_the_old_features(
    lake: Lake, shop: Fixture, built: Fixture, week: Fixture, manifest: Fixture
) -> None:
    class Killed(BaseException):
        pass

    def step(name: str) -> None:
        if name == "features:bucket":
            raise Killed

    dataset = shop()
    built(dataset, week(dataset, num_days=1, num_rows=50, seed=7), upto="features")
    before = manifest("features", FIRST)
    with pytest.raises(Killed):
        features.build(dataset, Lake(lake.root, step=step), FIRST, rebuild=True)
    assert manifest("features", FIRST) == before
    again = features.build(dataset, lake, FIRST, rebuild=True).manifest
    assert again.content_digest == before.content_digest
    assert [entry.checksum for entry in again.files] == [entry.checksum for entry in before.files]


def test_the_same_records_in_another_order_are_other_features(
    lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture
) -> None:
    # rows of one user and instant take their places by the other columns, of which `item` is in no record here
    dataset = shop(item={"column": "kind"}, features={"categories": ["kind"], "numbers": [], "history": []})
    found = [{"event_time": f"{FIRST}T10:00Z", "user": "u", "kind": f"k{i}", "item": f"i{i:02}"} for i in range(20)]
    built(dataset, {FIRST: found}, upto="features")
    before, records = manifest("features", FIRST), records_of(lake, manifest("features", FIRST))
    built(dataset, {FIRST: [{**row, "item": f"i{19 - i:02}"} for i, row in enumerate(found)]}, upto="features")
    after, reordered = manifest("features", FIRST), records_of(lake, manifest("features", FIRST))
    assert sorted(map(bytes, records)) == sorted(map(bytes, reordered))
    assert not np.array_equal(records, reordered)
    assert after.content_digest != before.content_digest


def test_c9_an_unsigned_integer_above_the_signed_ones_is_a_category_and_a_number_of_its_own(
    lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture
) -> None:
    dataset = shop(columns={"amount": {"type": "integer", "unsigned": True}})
    found = single(lake, dataset, built, manifest, {"event_time": f"{FIRST}T01:00Z", "user": "u", "amount": 2**64 - 1})
    assert found["amount"] == code("amount", "18446744073709551615")
    assert found["amount_log1p"] == np.float32(np.log1p(float(2**64)))
