from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from assets.preprocessing.layout import Layout
from assets.training.loader import Loader, Source
from assets.training.order import Order
from resources.contract.errors import CorruptError, DataError

LAYOUT = Layout(categories=("item",), numbers=("price", "quantity"))


def sources_of(tmp_path: Path, *rows: int) -> list[Source]:
    """Files whose rows tell where they stand: file in the category, row in the price; every third label is 1."""
    made = []
    for file, length in enumerate(rows):
        records, labels = LAYOUT.empty(length), (np.arange(length) % 3 == 0).astype(np.float32)
        LAYOUT.categories_of(records)[:, 0] = file
        LAYOUT.numbers_of(records)[:, 0] = np.arange(length)
        source = Source(
            name=f"day {file}", features=tmp_path / f"features{file}.npy", labels=tmp_path / f"labels{file}.npy"
        )
        np.save(source.features, records)
        np.save(source.labels, labels)
        made.append(source)
    return made


def order_of(*rows: int, batch_rows: int = 128) -> Order:
    return Order(rows=rows, contents=tuple(map(str, rows)), batch_rows=batch_rows)


def change(source: Source, *, row: int, price: float | None = None, label: float | None = None) -> None:
    records, labels = np.load(source.features), np.load(source.labels)
    if price is not None:
        LAYOUT.numbers_of(records)[row, 0] = price
    if label is not None:
        labels[row] = label
    np.save(source.features, records)
    np.save(source.labels, labels)


@pytest.mark.parametrize("ranks", [1, 2])
def test_batches_hold_the_rows_that_the_order_says(tmp_path: Path, ranks: int) -> None:
    sources, order = sources_of(tmp_path, 500, 0, 37), order_of(500, 0, 37)
    for rank in range(ranks):
        with Loader(sources, order=order, layout=LAYOUT, rank=rank, ranks=ranks) as loader:
            seen = 0
            for batch in loader:
                files, rows = order.rows_at(batch.position, rank=rank, ranks=ranks)
                there = files >= 0
                assert (LAYOUT.categories_of(batch.records)[there, 0] == files[there]).all()
                assert (LAYOUT.numbers_of(batch.records)[there, 0] == rows[there]).all()
                assert (batch.labels[there] == (rows[there] % 3 == 0)).all()
                assert (batch.weights == there).all()
                assert not batch.records[~there].any()
                seen += 1
        assert seen == order.steps


def test_a_training_that_begins_later_gets_the_same_batches(tmp_path: Path) -> None:
    sources, order = sources_of(tmp_path, 900), order_of(900)

    def records(start: int) -> list[bytes]:
        with Loader(sources, order=order, layout=LAYOUT, start=start) as loader:
            return [batch.records.tobytes() for batch in loader]

    assert records(0)[3:] == records(3)
    assert records(order.steps) == []


def test_ids_stay_integers(tmp_path: Path) -> None:  # case C9
    [source] = sources_of(tmp_path, 2)
    records = LAYOUT.empty(2)
    LAYOUT.categories_of(records)[:, 0] = [16777216, 16777217]
    users = np.array([2**64 - 1, 2**53 + 1], np.uint64)
    LAYOUT.set_ids(records, users=users, items=users, times_us=np.array([1, 2]))
    np.save(source.features, records)
    with Loader([source], order=order_of(2), layout=LAYOUT) as loader:
        [batch] = [(b.records.copy(), b.weights.copy()) for b in loader]
    there = batch[0][batch[1] > 0]
    assert set(LAYOUT.categories_of(there)[:, 0].tolist()) == {16777216, 16777217}
    assert set(LAYOUT.users_of(there).tolist()) == set(users.tolist())


@pytest.mark.parametrize(
    ("price", "label", "expected"),
    [
        (float("inf"), None, r"price must be finite or missing, got inf, in row 321 of day 1"),
        (None, 2.0, r"the label must be 0 or 1, got 2.0, in row 321 of day 1"),  # case C13
        (None, float("nan"), r"the label must be 0 or 1, got nan, in row 321 of day 1"),
    ],
)
def test_a_batch_with_a_wild_row_is_refused_by_position_file_and_row(
    tmp_path: Path, price: float | None, label: float | None, expected: str
) -> None:  # case D14
    sources, order = sources_of(tmp_path, 40, 400), order_of(40, 400)
    change(sources[1], row=321, price=price, label=label)
    [position] = [p for p in range(order.steps) if [1, 321] in np.stack(order.rows_at(p), axis=1).tolist()]
    with Loader(sources, order=order, layout=LAYOUT) as loader, pytest.raises(DataError, match=expected) as caught:
        for batch in loader:
            assert batch.position < position
    assert f"batch {position} is refused" in str(caught.value)


def test_a_missing_number_is_no_wild_one(tmp_path: Path) -> None:
    sources, order = sources_of(tmp_path, 100), order_of(100)
    change(sources[0], row=5, price=float("nan"))
    with Loader(sources, order=order, layout=LAYOUT) as loader:
        assert sum(int(np.isnan(LAYOUT.numbers_of(b.records)).sum()) for b in loader) == 1


def test_files_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    sources = sources_of(tmp_path, 100)
    np.save(sources[0].labels, np.zeros(99, np.float32))
    with Loader(sources, order=order_of(100), layout=LAYOUT) as loader, pytest.raises(CorruptError, match="day 0"):
        next(iter(loader))


def test_leaving_early_stops_the_thread(tmp_path: Path) -> None:
    sources, order = sources_of(tmp_path, 5000), order_of(5000)
    before = threading.active_count()
    with Loader(sources, order=order, layout=LAYOUT) as loader:
        next(iter(loader))
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


def test_the_thread_runs_ahead_only_as_far_as_there_are_buffers(tmp_path: Path) -> None:
    sources, order = sources_of(tmp_path, 5000), order_of(5000)
    made: list[int] = []

    def allocate(shape: tuple[int, ...], dtype: type) -> np.ndarray:
        made.append(shape[0])
        return np.zeros(shape, dtype)

    with Loader(sources, order=order, layout=LAYOUT, allocate=allocate) as loader:
        batches = iter(loader)
        addresses = {next(batches).records.ctypes.data for _ in range(order.steps)}
    assert len(addresses) == len(made) // 3 == 4
