"""Where tasks run. A task is a picklable function and its argument; the engine only says which processes call it.

An engine is a context manager over an `EngineLocation`, listed in `ENGINES`: it finds or starts workers, gives a function to run
tasks on them, and lets them go. Dask, Ray and the processes of one machine are joblib backends. Workers need the driver's
nbaudio.

Workers may be killed: tasks are such that they can be run again, and those that were underway are. Workers of this machine end
with a driver that is killed.
"""

import base64
import os
import pickle
import shlex
import socket
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from threading import Thread
from traceback import format_tb
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import joblib
from joblib.externals.loky import get_reusable_executor

from nbaudio.core.errors import EngineError, InputError, NbaudioError, WorkerLostError, get_by_name, requires_extra, root_cause
from nbaudio.engine import spark

Task = TypeVar("Task")
Result = TypeVar("Result")

# Tasks a worker that are handed over together where no result comes before all are done.
_AT_ONCE = 16
# What joblib, Dask and Ray raise when a worker is gone, by name, as their packages may not be here.
_LOST = frozenset({"BrokenProcessPool", "KilledWorker", "RayActorError", "WorkerCrashedError", "OwnerDiedError"})
# So often a task is begun whose worker is lost.
_ATTEMPTS = 3
# Seconds between looks at the driver.
_LOOK_S = 0.2


class RunTasks(Protocol):
    """Calls a module-level function on every task; results come in no order, tasks are taken as workers become free."""

    def __call__(self, function: Callable[[Task], Result], tasks: Iterable[Task], /) -> Iterator[Result]:
        """Run the tasks."""
        ...


@dataclass(frozen=True)
class EngineLocation:
    """Where workers are.

    Attributes:
        jobs: how many tasks at once; None means one a core. A cluster with an address has as many as it has.
        address: of a cluster that runs already; None starts workers on this machine.
        beam_options: further options of Beam, as on a command line.
    """

    jobs: int | None = None
    address: str | None = None
    beam_options: str = ""

    @property
    def local_jobs(self) -> int:
        """How many tasks at once on this machine."""
        return self.jobs or joblib.cpu_count()


@contextmanager
def _loky(site: EngineLocation) -> Iterator[RunTasks]:
    with joblib.parallel_config(backend="loky", n_jobs=site.local_jobs, initializer=_end_with, initargs=(os.getpid(),)):
        yield _run_joblib
    # The processes would be kept for the next call: their memory is wanted, or the program is about to end.
    get_reusable_executor().shutdown(wait=True)


@contextmanager
def _threading(site: EngineLocation) -> Iterator[RunTasks]:
    yield partial(_run_threads, site.local_jobs)


@contextmanager
def _dask(site: EngineLocation) -> Iterator[RunTasks]:
    with requires_extra("dask"):
        import distributed
    with ExitStack() as stack:
        cluster = site.address or stack.enter_context(
            distributed.LocalCluster(n_workers=site.local_jobs, threads_per_worker=1, dashboard_address=None)
        )
        stack.enter_context(distributed.Client(cluster))
        stack.enter_context(joblib.parallel_config(backend="dask", n_jobs=-1))
        yield _run_joblib


@contextmanager
def _ray(site: EngineLocation) -> Iterator[RunTasks]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to others
    with requires_extra("ray"):
        import ray
        from ray.util.joblib import register_ray
    _check_reachable(site.address or "")
    cores = {} if site.address else {"num_cpus": site.local_jobs, "include_dashboard": False}
    with ExitStack() as stack:
        if not ray.is_initialized():
            stack.enter_context(ray.init(address=site.address or "local", log_to_driver=False, logging_level="error", **cores))
        register_ray()
        stack.enter_context(joblib.parallel_config(backend="ray", n_jobs=-1))
        yield _run_joblib


def _check_reachable(address: str) -> None:
    """Raise `EngineError` where nothing answers at ``host:port``: Ray would try for minutes and print its own log."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        if port.isdigit():
            socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise EngineError(f"engine ray at {address}: {error.strerror or error}") from error


@contextmanager
def _spark(site: EngineLocation) -> Iterator[RunTasks]:
    with spark.context(site.address or f"local[{site.local_jobs}]") as context:
        yield partial(_run_spark, context)


@contextmanager
def _beam(site: EngineLocation) -> Iterator[RunTasks]:
    with requires_extra("beam"):
        from apache_beam.options.pipeline_options import PipelineOptions
    flags = [_absolute(flag) for flag in shlex.split(site.beam_options)]
    if not any(flag.partition("=")[0] == "--runner" for flag in flags):
        local = ["--runner=DirectRunner", f"--direct_num_workers={site.local_jobs}", "--direct_running_mode=multi_processing"]
        # There are no triggers; so told, DirectRunner does not fetch another runner from the web first.
        flags = [*local, "--allow_unsafe_triggers", "--default_sdk_harness_log_level=ERROR", *flags]
    yield partial(_run_beam, PipelineOptions(flags))


def _absolute(flag: str) -> str:
    """An option of Beam; a folder of this machine in it, such as ``--temp_location=tmp``, absolute."""
    name, equals, value = flag.partition("=")
    return f"{name}={Path(value).absolute()}" if name.endswith("_location") and equals and "://" not in value else flag


# Engine -> the context manager of its workers.
ENGINES: Mapping[str, Callable[[EngineLocation], AbstractContextManager[RunTasks]]] = MappingProxyType(
    {"loky": _loky, "threading": _threading, "dask": _dask, "ray": _ray, "spark": _spark, "beam": _beam}
)
_CLUSTERS = ("dask", "ray", "spark")


def check_engine(engine: str | None, site: EngineLocation) -> None:
    """Refuse an engine that is not there, or a site that it does not have, before any work is done.

    Raises:
        InputError: names what is allowed.
    """
    if engine is not None:
        get_by_name(ENGINES, engine, "engine")
    if site.jobs is not None and site.jobs < 1:
        raise InputError(f"jobs must be 1 or more, not {site.jobs}")
    if site.address is not None and engine not in _CLUSTERS:
        raise InputError(f"engine {engine!r} takes no address; {', '.join(_CLUSTERS)} do")
    if site.beam_options and engine != "beam":
        raise InputError(f"engine {engine!r} takes no Beam options")


@contextmanager
def worker_pool(engine: str | None, site: EngineLocation) -> Iterator[RunTasks]:
    """Workers for as long as the context lasts.

    Args:
        engine: a key of `ENGINES`; None takes the backend that ``joblib.parallel_config`` has set.
        site: where they are. One job on this machine runs in this process.

    Raises:
        InputError: the engine is not known, or does not have such a site.
        MissingExtraError: its package is not installed.
        EngineError: it cannot be started or reached, or fails later.

    Examples:
        >>> with worker_pool("threading", EngineLocation(jobs=2)) as run:
        ...     sorted(run(abs, [-2, 1]))
        [1, 2]
    """
    check_engine(engine, site)
    config = nullcontext(partial(_run_joblib, jobs=site.jobs)) if engine is None else ENGINES[engine](site)
    with ExitStack() as stack:
        with _failing(engine):
            run = stack.enter_context(config)
        yield partial(_run, engine, run)


def run_tasks(
    function: Callable[[Task], Result], tasks: Iterable[Task], *, engine: str | None = "loky", site: EngineLocation | None = None
) -> Iterator[Result]:
    """Call a module-level function on every task, with workers that are let go afterwards.

    Examples:
        >>> sorted(run_tasks(abs, [-2, 1], site=EngineLocation(jobs=1)))
        [1, 2]
    """
    with worker_pool(engine, site or EngineLocation()) as run:
        yield from run(function, tasks)


def _run(engine: str | None, run: RunTasks, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """Run tasks; errors of tasks are raised here as they were there: some engines make texts of exceptions, some try again."""
    own: list[Exception] = []

    def planned() -> Iterator[Task]:
        try:
            yield from chain(tasks)  # closes no generator: after a lost worker the rest is run
        except Exception as error:
            own.append(error)
            raise

    with _failing(engine, own):
        for result, error in run(partial(_attempt, function), planned()):
            if error is not None:
                own.append(error)
                raise error
            yield result


@contextmanager
def _failing(engine: str | None, own: Collection[Exception] = ()) -> Iterator[None]:
    """Raise what an engine raises as `EngineError` of one line; errors of ours, and those in `own`, as they are."""
    try:
        yield
    except Exception as error:
        if error in own or isinstance(error, NbaudioError):
            raise
        raise EngineError(f"engine {engine or 'of joblib.parallel_config'}: {root_cause(error)}") from error


def _attempt(function: Callable[[Task], Result], task: Task) -> tuple[Any, Exception | None]:
    try:
        return function(task), None
    except Exception as error:  # noqa: BLE001 - the driver raises it again
        error.add_note(f"In a task:\n{''.join(format_tb(error.__traceback__))}")
        try:
            copy(error)  # the way that pickle goes
            pickle.dumps(error)
        except Exception:  # noqa: BLE001 - whatever its class raises
            return None, RuntimeError(f"{type(error).__name__}: {error}")
        return None, error


def _run_joblib(function: Callable[[Task], Result], tasks: Iterable[Task], *, jobs: int | None = None) -> Iterator[Result]:
    """Run tasks on the backend that ``joblib.parallel_config`` has set, with its number of jobs unless told otherwise."""
    waiting = enumerate(tasks)
    underway: dict[int, Task] = {}
    losses: Counter[int] = Counter()

    def taken() -> Iterator[tuple[int, Task]]:
        yield from list(underway.items())
        for number, task in waiting:
            underway[number] = task
            yield number, task

    while True:
        try:
            with closing(_parallel(partial(_numbered, function), taken(), jobs)) as results:
                for number, result in results:
                    del underway[number]
                    yield result
        except Exception as error:
            if not _is_loss(error):
                raise
            over = list(underway) or [-1]  # none: they were lost while they began
            losses.update(over)
            if max(losses[number] for number in over) >= _ATTEMPTS:
                raise WorkerLostError(
                    f"workers were lost {_ATTEMPTS} times over the same tasks (killed, short of memory, a decoder's crash); "
                    "with fewer jobs they need less memory; run the same again, what is done is kept",
                    underway.values(),
                ) from error
        else:
            if not underway:
                return


def _is_loss(error: BaseException | None) -> bool:
    """Whether an error, or one behind it, tells of a lost worker."""
    if error is None:
        return False
    names = {kind.__name__ for kind in type(error).__mro__}
    return not _LOST.isdisjoint(names) or _is_loss(error.__cause__ or error.__context__)


def _numbered(function: Callable[[Task], Result], numbered: tuple[int, Task]) -> tuple[int, Result]:
    number, task = numbered
    return number, function(task)


def _end_with(driver: int) -> None:
    """End this process when its parent is gone: what a killed run has left running would write beside the next one."""

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(_LOOK_S)
        os._exit(1)

    Thread(target=watch, name="nbaudio driver", daemon=True).start()


def _parallel(function: Callable[[Task], Result], tasks: Iterable[Task], jobs: int | None) -> Generator[Result]:
    options = {"n_jobs": jobs, "batch_size": 1, "pre_dispatch": "2*n_jobs"}
    try:
        parallel = joblib.Parallel(return_as="generator_unordered", **options)
    except ValueError:  # the backend knows lists only
        with joblib.Parallel(**options) as parallel:
            for some in _batches(tasks, joblib.effective_n_jobs(jobs)):
                yield from parallel(joblib.delayed(function)(task) for task in some)
    else:
        results = parallel(joblib.delayed(function)(task) for task in tasks)
        try:
            for result in results:  # noqa: UP028 - `yield from` would close it outside the filter
                yield result
        finally:
            with warnings.catch_warnings():
                # Whoever leaves early, by an error or on purpose, knows that tasks are left.
                warnings.filterwarnings("ignore", ".* tasks which were still being processed", UserWarning)
                results.close()


def _run_threads(jobs: int, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """Run tasks in threads, of which none is left at work behind the last result or an error, as joblib's would be."""
    running: set[Future[Result]] = set()
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for task in tasks:
                running.add(pool.submit(function, task))
                if len(running) == 2 * jobs:
                    done, running = wait(running, return_when=FIRST_COMPLETED)
                    yield from (each.result() for each in done)
            yield from (each.result() for each in as_completed(running))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _run_spark(context: Any, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    for some in _batches(tasks, context.defaultParallelism):
        yield from context.parallelize(some, len(some)).map(function).collect()


def _batches(tasks: Iterable[Task], jobs: int) -> Iterator[list[Task]]:
    waiting = iter(tasks)
    while some := list(islice(waiting, _AT_ONCE * jobs)):
        yield some


def _run_beam(options: Any, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
    """Run tasks as a pipeline: lines of a file in, lines of files out, where Beam keeps temporary files."""
    import apache_beam as beam
    from apache_beam.io.filesystems import FileSystems

    coder = beam.coders.BytesCoder()
    shared = options.get_all_options().get("temp_location")
    with tempfile.TemporaryDirectory(prefix="nbaudio-") as here:
        folder = FileSystems.join(shared or here, f"nbaudio-{os.urandom(8).hex()}")
        FileSystems.mkdirs(folder)
        try:
            with FileSystems.create(FileSystems.join(folder, "tasks")) as file:
                for task in tasks:
                    file.write(_line(task) + b"\n")
            with beam.Pipeline(options=options) as pipeline:
                lines = pipeline | beam.io.ReadFromText(FileSystems.join(folder, "tasks"), coder=coder)
                results = lines | beam.Reshuffle() | beam.Map(partial(_call_on_line, function))
                results | beam.io.WriteToText(FileSystems.join(folder, "results"), coder=coder)
            for found in FileSystems.match([FileSystems.join(folder, "results*")])[0].metadata_list:
                with FileSystems.open(found.path) as file:
                    yield from map(_object, file)
        finally:
            FileSystems.delete([folder])


def _call_on_line(function: Callable[[Any], Any], line: bytes) -> bytes:
    return _line(function(_object(line)))


def _line(value: Any) -> bytes:
    return base64.b64encode(pickle.dumps(value))


def _object(line: bytes) -> Any:
    return pickle.loads(base64.b64decode(line))  # noqa: S301 - written by this very call, in a folder of its own
