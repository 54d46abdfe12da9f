from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from assets.preprocessing import labels
from assets.preprocessing.layout import Layout
from resources.contract.buckets import hash64_text
from resources.contract.dataset import Dataset, EventLabel
from resources.contract.days import HOUR_US
from resources.contract.errors import DataError, TransientError
from resources.contract.manifest import staleness
from resources.lake import Lake

FIRST = date(2026, 1, 1)
SECOND = FIRST + timedelta(days=1)
Fixture = Callable[..., Any]


def labels_of(lake: Lake, manifest: Fixture, dataset: Dataset, day: date) -> dict[tuple[int, int, int], set[float]]:
    """(user, item, time) -> labels, joined row by row with the features of the same day."""
    features, made = manifest("features", day), manifest("labels", day)
    assert features.facts["examples"] == made.facts["examples"]
    found: dict[tuple[int, int, int], set[float]] = {}
    layout = Layout.of(dataset)
    for entry in made.files:
        beside = features.file(entry.name)
        assert beside is not None and beside.rows == entry.rows
        records, values = np.load(lake.path(features, beside)), np.load(lake.path(made, entry))
        assert (values.dtype, values.shape) == (np.float32, (len(records),))
        keys = zip(layout.users_of(records), layout.items_of(records), layout.times_of(records), strict=True)
        for key, value in zip(keys, values, strict=True):
            found.setdefault(key, set()).add(float(value))
    return found


def oracle(days: Mapping[date, list[dict[str, Any]]], *, within_us: int) -> dict[tuple[int, int, int], set[float]]:
    rows = [(row["user"], row["item"], row["event_time"], row["kind"]) for found in days.values() for row in found]
    users, items, times, kinds = zip(*rows, strict=True)
    with duckdb.connect() as connection:
        connection.register("events", pa.table({"user": users, "item": items, "t": times, "kind": kinds}))
        found = connection.execute(
            "select distinct a.user, a.item, a.t, exists (select 1 from events b where b.kind = 'buy' and b.user = a.user and "
            "b.item = a.item and b.t > a.t and b.t - a.t <= $1) as label from events a where a.kind = 'buy'",
            [within_us],
        ).fetchall()

    def code(text: str | None) -> int:
        return 0 if text is None else hash64_text(text)

    return {(code(user), code(item), time): {float(label)} for user, item, time, label in found}


@pytest.mark.parametrize(
    ("zone", "first", "hours"),
    [
        ("UTC", FIRST, 48),
        ("UTC", FIRST, 2.5),
        ("Europe/Berlin", date(2026, 3, 27), 24),
        ("Europe/Berlin", date(2026, 10, 23), 25),
        ("America/Sao_Paulo", date(2018, 11, 2), 30.25),
    ],
)
def test_every_label_is_what_sql_over_all_rows_says(
    lake: Lake, shop: Fixture, built: Fixture, week: Fixture, manifest: Fixture, zone: str, first: date, hours: float
) -> None:
    dataset = shop(
        days={"zone": zone, "first": first},
        user={"column": "user", "missing": "spread"},
        duplicates={"keep": "all"},
        examples="event = 'buy'",
        label={"event": "buy", "same": ["user", "item"], "within_hours": hours},
    )
    days = week(dataset, num_days=5, num_rows=120, seed=first.toordinal())
    days[first + timedelta(days=3)] = []
    built(dataset, days)
    found: dict[tuple[int, int, int], set[float]] = {}
    for day in days:
        found |= labels_of(lake, manifest, dataset, day)
    expected = oracle(days, within_us=round(hours * HOUR_US))
    assert found == expected
    assert {0.0, 1.0} == set().union(*expected.values())


def test_the_end_of_the_hours_counts_and_the_instant_itself_does_not(
    lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture
) -> None:
    dataset = shop(label={"event": "buy", "same": ["user", "item"], "within_hours": 24}, examples="amount = 1")

    def bought(user: str, time: str, amount: int | None = None) -> dict[str, Any]:
        return {"event_time": time, "user": user, "item": "a", "kind": "buy", "amount": amount}

    built(
        dataset,
        {
            FIRST: [
                *(
                    bought(user, f"{FIRST}T10:00:00Z", 1)
                    for user in ("exact", "late", "same", "other item", "looked", "alone")
                ),
                bought("same", f"{FIRST}T10:00:00Z", 2),
            ],
            SECOND: [
                bought("exact", f"{SECOND}T10:00:00Z"),
                bought("late", f"{SECOND}T10:00:00.000001Z"),
                {**bought("other item", f"{SECOND}T09:00:00Z"), "item": "b"},
                {**bought("looked", f"{SECOND}T09:00:00Z"), "kind": "look"},
            ],
        },
    )
    found = {key[0]: values for key, values in labels_of(lake, manifest, dataset, FIRST).items()}
    positive = {
        user for user in ("exact", "late", "same", "other item", "looked", "alone") if found[hash64_text(user)] == {1.0}
    }
    assert positive == {"exact"}
    assert manifest("labels", FIRST).counts == {"examples": 6, "positives": 1}


def test_a_missing_value_is_the_same_as_nothing(lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture) -> None:
    dataset = shop(user={"column": "user", "missing": "keep"})
    times = [f"{FIRST}T0{i}:00Z" for i in range(3)]
    nameless = [
        {"event_time": t, "user": u, "item": i, "kind": "buy"} for t in times for u, i in [(None, "a"), ("u", None)]
    ]
    built(dataset, {FIRST: nameless})
    assert manifest("labels", FIRST).counts == {"examples": 6, "positives": 0}


def table(keys: list[tuple[str | None, int]]) -> pa.Table:
    times = pa.array([time for _, time in keys], pa.int64()).cast(pa.timestamp("us", "UTC"))
    return pa.table({"user": pa.array([key for key, _ in keys], pa.string()), "event_time": times})


def test_no_events_ahead_mean_no_positive_label() -> None:
    label = EventLabel(event="buy", same=("user",), within_hours=1)
    assert labels.followed(table([("u", 0), (None, 0)]), table([]), label).tolist() == [False, False]
    assert labels.followed(table([]), table([("u", 0)]), label).tolist() == []


def test_labels_mature_when_the_last_day_ahead_is_there_even_an_empty_one(
    lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture
) -> None:
    dataset = shop()
    row = {"event_time": f"{FIRST}T10:00Z", "user": "u", "item": "a", "kind": "buy"}
    built(dataset, {FIRST: [row], SECOND: []})
    made = manifest("labels", FIRST)
    assert (made.facts["complete"], made.facts["horizon_last"]) == (False, "2026-01-03")
    built(dataset, {FIRST: [row], SECOND: []}, last=FIRST + timedelta(days=2), upto="shards")
    stale = staleness(made, labels.plan(dataset, lake.ledger("shop"), FIRST))
    assert stale is not None and not stale.history_only
    mature = labels.build(dataset, lake, FIRST).manifest
    assert (mature.facts["complete"], mature.counts["positives"]) == (True, 0)
    assert [(p.role, p.rows) for p in mature.parents] == [("own", 1), ("ahead", 0), ("ahead", 0)]
    assert mature.files == made.files


def test_a_later_day_that_changes_makes_the_labels_stale_and_changes_them(
    lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture
) -> None:
    dataset = shop()
    row = {"event_time": f"{FIRST}T10:00Z", "user": "u", "item": "a", "kind": "buy"}
    days = {FIRST: [row], SECOND: [], FIRST + timedelta(days=2): []}
    built(dataset, days)
    assert manifest("labels", FIRST).counts["positives"] == 0
    assert not labels.build(dataset, lake, FIRST).built
    built(dataset, {**days, SECOND: [{**row, "event_time": f"{SECOND}T10:00Z"}]})
    assert manifest("labels", FIRST).counts["positives"] == 1


def test_rows_that_change_places_change_features_and_labels_alike(
    lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture
) -> None:
    # the records and the labels of the day stay the same as sets; only which row is which changes
    dataset = shop(
        cut={"buckets": 1}, label={"where": "gift"}, features={"categories": ["kind"], "numbers": [], "history": []}
    )
    found = [{"event_time": f"{FIRST}T10:{i:02}Z", "user": f"u{i % 7}", "gift": i % 3 == 0} for i in range(40)]
    built(dataset, {FIRST: found})
    before = manifest("labels", FIRST)
    built(dataset, {FIRST: [{**row, "gift": found[(i + 1) % 40]["gift"]} for i, row in enumerate(found)]})
    after = manifest("labels", FIRST)
    assert before.counts["positives"] != 0 and before.content_digest != after.content_digest
    by_time = {key[2]: values for key, values in labels_of(lake, manifest, dataset, FIRST).items()}
    wanted = {1767261600000000 + i * 60 * 10**6: {float(found[(i + 1) % 40]["gift"])} for i in range(40)}
    assert by_time == wanted


def test_a_label_of_the_row_is_mature_at_once(shop: Fixture, built: Fixture, manifest: Fixture) -> None:
    dataset = shop(label={"where": "gift"}, examples="gift is not null")
    found = [
        {"event_time": f"{FIRST}T10:00Z", "user": f"u{i}", "gift": g} for i, g in enumerate([True, False, None, True])
    ]
    built(dataset, {FIRST: found})
    made = manifest("labels", FIRST)
    assert made.counts == {"examples": 3, "positives": 2}
    assert (made.facts["complete"], made.facts["horizon_last"]) == (True, "2026-01-01")
    assert [p.role for p in made.parents] == ["own"]


def test_c13_whole_numbers_zero_and_one_are_labels(shop: Fixture, built: Fixture, manifest: Fixture) -> None:
    dataset = shop(label={"where": "amount"})
    built(dataset, {FIRST: [{"event_time": f"{FIRST}T10:00Z", "user": f"u{i}", "amount": i % 2} for i in range(5)]})
    assert manifest("labels", FIRST).counts == {"examples": 5, "positives": 2}


@pytest.mark.parametrize(
    ("where", "values", "message"),
    [
        ("amount", [0, 1, 2, 2], r"2 examples get a label that is neither true nor false, 0 nor 1: 2 \(2 times\)"),
        ("amount", [0, 1, None], r"1 examples .*: None \(1 times\)"),
        ("amount > 0", [0, 1, None], r"1 examples .*: None \(1 times\)"),
        ("amount / 2", [0, 1], r"1 examples .*: 0\.5 \(1 times\)"),
        ("kind", [0, 1], r"2 examples .*: 'buy' \(2 times\)"),
    ],
)
def test_c13_any_other_label_is_refused(
    lake: Lake, shop: Fixture, built: Fixture, where: str, values: list[int | None], message: str
) -> None:
    dataset = shop(label={"where": where})
    found = [
        {"event_time": f"{FIRST}T10:00Z", "user": f"u{i}", "kind": "buy", "amount": v} for i, v in enumerate(values)
    ]
    with pytest.raises(DataError, match=f"^shop/labels {FIRST}: {message}"):
        built(dataset, {FIRST: found})
    assert lake.read("shop", "labels", FIRST) is None


def test_a_day_of_one_kind_of_label_is_reported_without_blocking(
    shop: Fixture, built: Fixture, manifest: Fixture
) -> None:
    dataset = shop(label={"where": "gift"})
    rows = [{"event_time": f"{FIRST}T10:00Z", "user": f"u{i}", "gift": True} for i in range(3)]
    built(dataset, {FIRST: rows, SECOND: []})
    (_, check), (_, empty) = manifest("labels", FIRST).checks, manifest("labels", SECOND).checks
    assert (check.name, check.passed, check.blocking, check.value) == ("label_share", False, False, 1.0)
    assert empty.passed
    assert list(labels.CHECKS) == ["conservation", "label_share"]


def test_an_example_that_gets_no_label_blocks_the_day(
    lake: Lake, shop: Fixture, built: Fixture, manifest: Fixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = shop(label={"where": "gift"}, cut={"buckets": 1})
    built(dataset, {FIRST: [{"event_time": f"{FIRST}T10:00Z", "user": f"u{i}", "gift": i > 0} for i in range(3)]})
    sound = manifest("labels", FIRST).checks[0]
    assert (sound.name, sound.passed, sound.blocking) == ("conservation", True, True)
    monkeypatch.setattr(labels, "row_labels", lambda *_: np.array([True, False]))
    blocked = labels.build(dataset, lake, FIRST, rebuild=True).manifest.blocked_by
    assert blocked == ("conservation: 3 of 3 events read, 3 examples among them, 2 rows; they differ in bucket=000.npy")


def test_shards_are_required_and_days_ahead_are_not(lake: Lake, shop: Fixture, built: Fixture) -> None:
    with pytest.raises(TransientError, match="shards 2026-01-01 is required"):
        labels.build(shop(), lake, FIRST)
    built(shop(), {FIRST: []})
    assert not labels.build(shop(), lake, FIRST).built


def test_days_ahead_of_an_older_contract_are_not_read(lake: Lake, shop: Fixture, built: Fixture) -> None:
    row = {"event_time": f"{SECOND}T10:00Z", "user": "u", "item": "a", "kind": "buy"}
    days = {FIRST: [{**row, "event_time": f"{FIRST}T10:00Z"}], SECOND: [row]}
    built(shop(), days, upto="shards")
    after = shop(cut={"buckets": 8})
    built(after, {FIRST: days[FIRST]}, upto="shards", last=FIRST)
    made = labels.build(after, lake, FIRST).manifest
    assert (made.facts["complete"], made.counts["positives"], len(made.parents)) == (False, 0, 1)


def test_only_what_matters_to_labels_is_in_their_contract_digest(shop: Fixture) -> None:
    base = labels.present(shop())
    assert labels.present(shop(features={"categories": ["item"]}, train={"epochs": 2})) == base
    for other in (
        shop(examples="gift"),
        shop(label={"event": "buy", "same": ["user"], "within_hours": 48}),
        shop(label={"event": "buy", "same": ["user", "item"], "within_hours": 49}),
        shop(days={"zone": "Europe/Berlin"}),
    ):
        assert labels.present(other) != base
