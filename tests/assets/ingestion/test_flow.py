"""Threads beside a stream: its order stays, errors come out, and nobody is left running."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from assets.ingestion.flow import in_order, prefetched, side_by_side


@pytest.fixture(autouse=True)
def nobody_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def test_results_come_in_the_order_of_the_items_whoever_is_done_first() -> None:
    def slow_at_first(number: int) -> int:
        time.sleep(0.01 / (number + 1))
        return number

    with ThreadPoolExecutor(3) as pool, prefetched(range(20), ahead=2) as items:
        assert list(in_order(items, slow_at_first, pool=pool, ahead=4)) == list(range(20))


def test_only_so_many_items_are_in_front_of_whoever_takes_them() -> None:
    fetched = []

    def numbers() -> Iterator[int]:
        for number in range(100):
            fetched.append(number)
            yield number

    with prefetched(numbers(), ahead=2) as items:
        assert next(items) == 0
        time.sleep(0.2)
        assert len(fetched) <= 5
    assert len(fetched) <= 6  # and whoever stops taking ends it


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_behind_some_items_is_raised_behind_them(error: type[BaseException]) -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise error("behind the first")

    with pytest.raises(error, match="behind the first"), prefetched(failing(), ahead=2) as items:
        assert next(items) == 1
        next(items)


def test_an_error_in_the_work_is_raised_where_its_result_would_be() -> None:
    def refuses_two(number: int) -> int:
        if number == 2:
            raise ValueError("two")
        return number

    taken = []
    with ThreadPoolExecutor(2) as pool, pytest.raises(ValueError, match="two"), prefetched(range(9), ahead=2) as items:
        for number in in_order(items, refuses_two, pool=pool, ahead=3):
            taken.append(number)
    assert taken == [0, 1]


def test_a_task_that_fails_stops_the_others_and_its_error_is_the_one_that_is_raised() -> None:
    begun = threading.Event()

    def work(task: int, checkpoint) -> int:
        if task == 0:
            begun.set()
            while True:  # for ever, unless somebody fails
                checkpoint()
                time.sleep(0.005)
        begun.wait()
        raise ValueError(f"task {task}")

    with pytest.raises(ValueError, match="task 1"):
        side_by_side([0, 1, 2], work, workers=2)


def test_tasks_give_their_results_in_order() -> None:
    assert side_by_side([3, 1, 2], lambda task, _: task * 10, workers=2) == [30, 10, 20]
