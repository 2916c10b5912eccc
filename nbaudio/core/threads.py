"""Threads for work that waits for I/O or releases the GIL."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar, cast

_LONGEST_WAIT_S = 10.0

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], *, jobs: int, ahead: int = 4
) -> Generator[Result, None, None]:
    """Yield results in the order of the items, at most `ahead` times `jobs` of them in memory.

    Afterwards no call runs on, but for one that takes more than 10 s longer.
    """
    waiting = deque[Future[Result]]()
    taken = 0
    pool = ThreadPoolExecutor(jobs)
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            # Few at first, as items may take time to come
            if len(waiting) > min(ahead * jobs, jobs + taken):
                taken += 1
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        shut_down(pool, waiting)


def read_ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield items; a thread makes the next one meanwhile."""
    end = object()
    pool = ThreadPoolExecutor(1)
    coming = pool.submit(next, items, end)
    try:
        while (item := coming.result()) is not end:
            coming = pool.submit(next, items, end)
            yield cast(Item, item)
    finally:
        shut_down(pool, [coming])


def shut_down(pool: ThreadPoolExecutor, futures: Iterable[Future[Any]]) -> None:
    """Cancel calls that have not begun, and wait up to 10 s for those that run.

    The threads are not joined: the garbage collector may end a generator that nobody has read to
    its end, at any moment. In the middle of the start of another thread, a join waits for ever.
    """
    running = [future for future in futures if not future.cancel()]
    wait(running, timeout=_LONGEST_WAIT_S)
    pool.shutdown(wait=False, cancel_futures=True)


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item]
) -> Generator[Result, None, None]:
    """Call `ordered_map` with up to four threads, at most one per core.

    Few results are in memory.
    """
    return ordered_map(function, items, jobs=min(4, os.cpu_count() or 1), ahead=1)
