"""Work on a stream by several threads, with the results in the stream's order and a bounded part of it in memory.

What fails in any thread is raised where the results are taken; whoever stops taking them leaves no thread behind.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")

_POLL_S = 0.05


class Stopped(Exception):
    """Somebody else failed: no error of its own."""


class _End:
    """Behind the last item of a queue: `error` is what ended it, if something did."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


@contextmanager
def prefetched(items: Iterable[A], *, ahead: int) -> Iterator[Iterator[A]]:
    """The items, taken by a thread of their own that is up to `ahead` of them in front."""
    waiting: queue.Queue[A | _End] = queue.Queue(maxsize=ahead)
    stop = threading.Event()

    def put(item: A | _End) -> None:
        while not stop.is_set():
            try:
                waiting.put(item, timeout=_POLL_S)
            except queue.Full:
                continue
            return

    def fetch() -> None:
        error: BaseException | None = None
        try:
            for item in items:
                put(item)
                if stop.is_set():
                    break
        except BaseException as raised:  # noqa: BLE001 (raised again where the items are taken)
            error = raised
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
        put(_End(error))

    def taken() -> Iterator[A]:
        while True:
            item = waiting.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item

    thread = threading.Thread(target=fetch, daemon=True)
    thread.start()
    try:
        yield taken()
    finally:
        stop.set()
        thread.join()


def in_order(items: Iterator[A], work: Callable[[A], B], *, pool: Executor, ahead: int) -> Iterator[B]:
    """What `work` makes of each item, in their order, up to `ahead` of them at a time."""
    running: deque[Future[B]] = deque()
    try:
        for item in items:
            running.append(pool.submit(work, item))
            if len(running) >= ahead:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            future.cancel()


def side_by_side(tasks: list[A], work: Callable[[A, Callable[[], None]], B], *, workers: int) -> list[B]:
    """What `work` makes of each task, some at a time, in the tasks' order.

    `work` also gets a function that raises Stopped once another task has failed, or whoever waits was interrupted.
    """
    stop = threading.Event()

    def checkpoint() -> None:
        if stop.is_set():
            raise Stopped

    def watched(task: A) -> B:
        checkpoint()
        try:
            return work(task, checkpoint)
        except BaseException:
            stop.set()
            raise

    with ThreadPoolExecutor(max_workers=workers) as pool:
        running = [pool.submit(watched, task) for task in tasks]
        try:
            return [future.result() for future in running]
        except Stopped:
            errors = [future.exception() for future in running]
            raise next(error for error in errors if error is not None and not isinstance(error, Stopped)) from None
        finally:
            stop.set()
