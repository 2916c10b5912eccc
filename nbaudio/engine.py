"""Where tasks run. A task is a picklable function and its argument; the engine only says which processes call it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

import joblib
from joblib.externals.loky import get_reusable_executor

from nbaudio.errors import InputError, look_up

Task = TypeVar("Task")
Result = TypeVar("Result")

# Engine -> joblib backend. A cluster's backend is one more line here.
ENGINES: Mapping[str, str] = MappingProxyType({"loky": "loky", "threading": "threading"})


def check_engine(engine: str | None) -> None:
    """Refuse an engine that is not there, before any work is done.

    Raises:
        InputError: names the known engines.
    """
    if engine is not None:
        look_up(ENGINES, engine, "engine")


def run_tasks(
    function: Callable[[Task], Result], tasks: Iterable[Task], *, jobs: int | None = None, engine: str | None = "loky"
) -> Iterator[Result]:
    """Call `function` on every task and give results as they come, in no order.

    Tasks are taken from the iterable as workers become free, so that a long list need not be in memory.

    Args:
        function: a module-level function.
        tasks: its arguments.
        jobs: how many at once; None means one a core. One job runs here, without another process.
        engine: a key of `ENGINES`; None takes the backend that ``joblib.parallel_config`` has set.

    Examples:
        >>> sorted(run_tasks(abs, [-2, 1], jobs=1))
        [1, 2]
    """
    check_engine(engine)
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs must be 1 or more, not {jobs}")
    if engine is None:
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    else:
        count = jobs or joblib.cpu_count()
        parallel = joblib.Parallel(
            n_jobs=count, backend=ENGINES[engine], return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs"
        )
    yield from parallel(joblib.delayed(function)(task) for task in tasks)


def release_workers(engine: str | None) -> None:
    """End the processes that loky keeps for the next call: their memory is wanted, or the program is about to end."""
    if engine == "loky":
        get_reusable_executor().shutdown(wait=True)
