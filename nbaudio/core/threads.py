"""Threads for work that waits for I/O or releases the GIL."""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], *, jobs: int, ahead: int = 4
) -> Generator[Result, None, None]:
    """Yield results in the order of the items, at most `ahead` times `jobs` of them in memory.

    No thread runs on afterwards.
    """
    waiting = deque[Future[Result]]()
    taken = 0
    with ThreadPoolExecutor(jobs) as pool:  # noqa: PLR1702
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
            for future in waiting:
                future.cancel()


def in_threads(
    function: Callable[[Item], Result], items: Iterable[Item]
) -> Generator[Result, None, None]:
    """Call `ordered_map` with up to four threads, at most one per core.

    Few results are in memory.
    """
    return ordered_map(function, items, jobs=min(4, os.cpu_count() or 1), ahead=1)
