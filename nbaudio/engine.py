"""Run tasks in threads or processes, or on Dask, Ray, Spark or Beam (docs/engines.md).

A task whose worker is killed may run twice.
"""

import base64
import os
import pickle
import re
import shlex
import socket
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from multiprocessing import resource_tracker
from pathlib import Path
from traceback import format_tb
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

import joblib
from joblib.externals.loky import get_reusable_executor

from nbaudio.core.errors import (
    EngineError,
    InputError,
    NbaudioError,
    WorkerLostError,
    get_by_name,
    requires_extra,
    root_cause,
)
from nbaudio.core.interrupts import interrupts_blocked
from nbaudio.core.processes import exit_with_driver, stderr_to
from nbaudio.core.threads import ordered_map

Task = TypeVar("Task")
Result = TypeVar("Result")

_BATCH = 16  # tasks per worker, for backends that return no result before all of a batch are done
# What joblib, Dask and Ray raise when a worker dies, by name, as their packages may not be
# installed.
_WORKER_LOST = frozenset(
    {"BrokenProcessPool", "KilledWorker", "RayActorError", "WorkerCrashedError", "OwnerDiedError"}
)
# What Spark says when a Python process or an executor dies; its jobs have no other errors that
# another try could mend.
_SPARK_LOST = re.compile(
    r"Python worker exited|ExecutorLostFailure|EOFException|Connection reset|Broken pipe"
)
_ATTEMPTS = 3  # starts of a task whose worker dies
_LOST = (
    f"workers were lost {_ATTEMPTS} times over the same tasks (killed, short of memory, "
    "a decoder's crash); "
    "with fewer jobs they need less memory; run the command again, finished work is kept"
)
# Lines of Java's log that name a cause, the most specific first.
_JAVA_CAUSES = (
    re.compile(r"^Caused by: (.+)$", re.MULTILINE),
    re.compile(
        r"^(?:Exception in thread \S+ |: )?((?:\w+\.)+\w*(?:Exception|Error): .+)$", re.MULTILINE
    ),
    re.compile(r" ERROR \S+ (.+)$", re.MULTILINE),
)
_MAX_LOG_BYTES = 1 << 20


class RunTasks(Protocol):
    """Call a module-level function on every task.

    Tasks are taken as workers become free, and results come in any order.
    """

    def __call__(
        self, function: Callable[[Task], Result], tasks: Iterable[Task], /
    ) -> Iterator[Result]:
        """Run the tasks."""


@dataclass(frozen=True)
class EngineLocation:
    """Where workers run.

    This is a running cluster, with all its workers, or this machine, by default with one job per
    core.
    """

    engine: str | None  # a key of `ENGINES`; None takes the backend of ``joblib.parallel_config``
    jobs: int | None = None
    address: str | None = None
    beam_options: str = ""  # further options of Beam, as on a command line

    def __post_init__(self) -> None:
        if self.engine is not None:
            get_by_name(ENGINES, self.engine, "engine")
        if self.jobs is not None and self.jobs < 1:
            raise InputError(f"jobs must be 1 or more, not {self.jobs}")
        if self.address is not None and self.engine not in _CLUSTERS:
            raise InputError(f"engine {self.engine!r} takes no address; {', '.join(_CLUSTERS)} do")
        if self.beam_options and self.engine != "beam":
            raise InputError(f"engine {self.engine!r} takes no Beam options")

    @property
    def local_jobs(self) -> int:
        """Number of parallel tasks on this machine."""
        return self.jobs or joblib.cpu_count()


@contextmanager
def _loky(site: EngineLocation) -> Iterator[RunTasks]:
    resource_tracker.ensure_running()  # its start would end `interrupts_blocked`
    with joblib.parallel_config(
        backend="loky",
        n_jobs=site.local_jobs,
        initializer=exit_with_driver,
        initargs=(os.getpid(),),
    ):
        yield _run_joblib
    # Otherwise joblib keeps the processes, and their memory, for the next call.
    get_reusable_executor().shutdown(wait=True)


def _threading(site: EngineLocation) -> AbstractContextManager[RunTasks]:
    # No thread runs on after an error, unlike joblib's.
    return nullcontext(partial(ordered_map, jobs=site.local_jobs, ahead=2))


@contextmanager
def _dask(site: EngineLocation) -> Iterator[RunTasks]:
    with requires_extra("dask"):
        import distributed
    with ExitStack() as stack:
        cluster = site.address or stack.enter_context(
            distributed.LocalCluster(
                n_workers=site.local_jobs, threads_per_worker=1, dashboard_address=None
            )
        )
        stack.enter_context(distributed.Client(cluster))
        stack.enter_context(joblib.parallel_config(backend="dask", n_jobs=-1))
        yield _run_joblib


@contextmanager
def _ray(site: EngineLocation) -> Iterator[RunTasks]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics
    with requires_extra("ray"):
        import ray
        from ray.util.joblib import register_ray
    host, _, port = (site.address or "").rpartition("://")[2].rpartition(":")
    try:
        if port.isdigit():  # Ray itself would retry for minutes and print its own log
            socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise EngineError(f"engine ray at {site.address}: {error.strerror or error}") from error
    cores = {} if site.address else {"num_cpus": site.local_jobs, "include_dashboard": False}
    with ExitStack() as stack:
        if not ray.is_initialized():
            stack.enter_context(
                ray.init(
                    address=site.address or "local",
                    log_to_driver=False,
                    logging_level="error",
                    **cores,
                )
            )
        register_ray()
        stack.enter_context(joblib.parallel_config(backend="ray", n_jobs=-1))
        yield _run_joblib


@contextmanager
def _spark(site: EngineLocation) -> Iterator[RunTasks]:
    """Use the active Spark session, or start one and stop it afterwards.

    Report the cause that Java logs in one line.
    """
    master = site.address or f"local[{site.local_jobs}]"
    # Spark's default Python need not have nbaudio.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with warnings.catch_warnings(), tempfile.TemporaryFile() as log:
        # A warning is about newer pandas, which is not used here.
        warnings.filterwarnings("ignore", module="pyspark")
        with requires_extra("spark"):
            from pyspark.errors import PySparkException
            from pyspark.sql import SparkSession
        from py4j.protocol import Py4JError  # comes with PySpark

        if session := SparkSession.getActiveSession():
            yield partial(_run_spark, session.sparkContext)
            return
        try:
            with stderr_to(log):
                builder = (
                    SparkSession.builder.master(master)
                    .appName("nbaudio")
                    .config("spark.log.level", "ERROR")
                )
                builder = builder.config("spark.task.maxFailures", "1")  # `_spark_job` retries
                session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
            with session:
                yield partial(_run_spark, session.sparkContext)
        except (PySparkException, Py4JError, EngineError) as error:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _MAX_LOG_BYTES))
            text = log.read().decode(errors="replace")
            causes = (
                lines[-1].strip() for pattern in _JAVA_CAUSES if (lines := pattern.findall(text))
            )
            raise EngineError(
                f"engine spark at {master}: {next(causes, None) or root_cause(error)}"
            ) from error


@contextmanager
def _beam(site: EngineLocation) -> Iterator[RunTasks]:
    with requires_extra("beam"):
        from apache_beam.options.pipeline_options import PipelineOptions
    # Local folders become absolute, such as that of --temp_location=tmp.
    flags = [
        f"{name}={Path(value).absolute()}"
        if name.endswith("_location") and equals and "://" not in value
        else flag
        for flag in shlex.split(site.beam_options)
        for name, equals, value in [flag.partition("=")]
    ]
    if not any(flag.partition("=")[0] == "--runner" for flag in flags):
        local = [
            "--runner=DirectRunner",
            f"--direct_num_workers={site.local_jobs}",
            "--direct_running_mode=multi_processing",
        ]
        # Without this option DirectRunner downloads another runner first; there are no triggers.
        flags = [*local, "--allow_unsafe_triggers", "--default_sdk_harness_log_level=ERROR", *flags]
    yield partial(_run_beam, PipelineOptions(flags))


ENGINES: Mapping[str, Callable[[EngineLocation], AbstractContextManager[RunTasks]]] = (
    MappingProxyType(
        {
            "loky": _loky,
            "threading": _threading,
            "dask": _dask,
            "ray": _ray,
            "spark": _spark,
            "beam": _beam,
        }
    )
)
_CLUSTERS = ("dask", "ray", "spark")


@contextmanager
def worker_pool(site: EngineLocation) -> Iterator[RunTasks]:
    """Start or connect to workers for as long as the context lasts."""
    config = (
        nullcontext(partial(_run_joblib, jobs=site.jobs))
        if site.engine is None
        else ENGINES[site.engine](site)
    )
    with ExitStack() as stack:
        with _engine_errors(site.engine):
            run = stack.enter_context(config)
        yield partial(_run, site.engine, run)


def _run(
    engine: str | None, run: RunTasks, function: Callable[[Task], Result], tasks: Iterable[Task]
) -> Iterator[Result]:
    """Run tasks; raise errors of tasks unchanged.

    Some engines convert exceptions to text, and some retry.
    """
    own: list[Exception] = []

    def planned() -> Iterator[Task]:
        try:
            # `chain` does not close a generator: the rest is run after a worker is lost.
            yield from chain(tasks)
        except Exception as error:
            own.append(error)
            raise

    with _engine_errors(engine, own):
        for result, error in run(partial(_attempt, function), planned()):
            if error is not None:
                own.append(error)
                raise error
            yield result


@contextmanager
def _engine_errors(engine: str | None, own: Collection[Exception] = ()) -> Iterator[None]:
    """Convert errors of an engine to an `EngineError` of one line.

    Raise nbaudio's errors, and those in `own`, unchanged.
    """
    try:
        yield
    except Exception as error:
        if error in own or isinstance(error, NbaudioError):
            raise
        raise EngineError(
            f"engine {engine or 'of joblib.parallel_config'}: {root_cause(error)}"
        ) from error


def _attempt(function: Callable[[Task], Result], task: Task) -> tuple[Any, Exception | None]:
    try:
        return function(task), None
    except Exception as error:  # noqa: BLE001 - the driver raises it again
        error.add_note(f"In a task:\n{''.join(format_tb(error.__traceback__))}")
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 - as the driver does
        except Exception:  # noqa: BLE001 - whatever its class raises
            return None, RuntimeError(f"{type(error).__name__}: {error}")
        return None, error


def _run_joblib(
    function: Callable[[Task], Result], tasks: Iterable[Task], *, jobs: int | None = None
) -> Iterator[Result]:
    """Run tasks on the backend of ``joblib.parallel_config``.

    If `jobs` is None, the number of jobs is also that of ``joblib.parallel_config``.
    """
    waiting = enumerate(tasks)
    most = _BATCH * joblib.effective_n_jobs(jobs)
    underway: dict[int, Task] = {}
    losses: Counter[int] = Counter()

    def taken() -> Iterator[tuple[int, Task]]:
        yield from list(underway.items())
        # joblib keeps all results that the caller has not taken yet: few enough, however slow the
        # caller is.
        while len(underway) < most and (numbered := next(waiting, None)):
            underway.update([numbered])
            yield numbered

    for first in waiting:  # noqa: PLR1702
        underway.update([first])
        while underway:
            try:
                with closing(_parallel(partial(_numbered, function), taken(), jobs)) as results:
                    for number, result in results:
                        del underway[number]
                        yield result
            except Exception as error:
                if not _is_worker_lost(error):
                    raise
                losses.update(list(underway))
                if max((losses[number] for number in underway), default=0) >= _ATTEMPTS:
                    raise WorkerLostError(_LOST, underway.values()) from error


def _is_worker_lost(error: BaseException | None) -> bool:
    """Whether an error, or its cause, says that a worker was lost."""
    if error is None:
        return False
    names = {kind.__name__ for kind in type(error).__mro__}
    return not _WORKER_LOST.isdisjoint(names) or _is_worker_lost(
        error.__cause__ or error.__context__
    )


def _numbered(function: Callable[[Task], Result], numbered: tuple[int, Task]) -> tuple[int, Result]:
    return numbered[0], function(numbered[1])


def _parallel(
    function: Callable[[Task], Result], tasks: Iterable[Task], jobs: int | None
) -> Generator[Result]:
    options = {"n_jobs": jobs, "batch_size": 1, "pre_dispatch": "2*n_jobs"}
    try:
        parallel = joblib.Parallel(return_as="generator_unordered", **options)
    except ValueError:  # the backend returns lists only
        with joblib.Parallel(**options) as parallel:
            waiting = iter(tasks)
            size = _BATCH * joblib.effective_n_jobs(jobs)
            while some := list(islice(waiting, size)):
                yield from parallel(joblib.delayed(function)(task) for task in some)
    else:
        with interrupts_blocked():  # loky starts its processes
            results = parallel(joblib.delayed(function)(task) for task in tasks)
        try:
            for result in results:  # noqa: UP028 - `yield from` would close it outside the filter
                yield result
        finally:
            with warnings.catch_warnings():
                # A caller that stops early, by an error or on purpose, knows that tasks are left.
                warnings.filterwarnings(
                    "ignore", ".* tasks which were still being processed", UserWarning
                )
                results.close()


def _run_spark(
    context: Any, function: Callable[[Task], Result], tasks: Iterable[Task]
) -> Iterator[Result]:
    """Run each task as a job of its own.

    A lost worker then takes no results of other tasks with it.
    """
    lost: list[Task] = []
    for task, results in ordered_map(
        partial(_spark_job, context, function), tasks, jobs=context.defaultParallelism, ahead=2
    ):
        yield from results
        lost += [] if results else [task]
    if lost:
        raise WorkerLostError(_LOST, lost)


def _spark_job(
    context: Any, function: Callable[[Task], Result], task: Task
) -> tuple[Task, list[Result]]:
    """Return a task with its result in a list.

    The list is empty if each worker that ran the task was lost.
    """
    from py4j.protocol import Py4JJavaError

    for _ in range(_ATTEMPTS):
        try:
            return task, context.parallelize([task], 1).map(function).collect()
        except Py4JJavaError as error:
            if not _SPARK_LOST.search(str(error)):
                raise
    return task, []


def _run_beam(
    options: Any, function: Callable[[Task], Result], tasks: Iterable[Task]
) -> Iterator[Result]:
    """Run tasks, the lines of a file, in a pipeline that writes a file per result.

    After a lost worker, the rest is run in another pipeline.
    """
    import apache_beam as beam
    from apache_beam.io.filesystems import FileSystems

    shared = options.get_all_options().get("temp_location")
    done: set[str] = set()
    losses: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="nbaudio-") as here:  # noqa: PLR1702
        folder = FileSystems.join(shared or here, f"nbaudio-{os.urandom(8).hex()}")
        FileSystems.mkdirs(folder)
        try:
            with FileSystems.create(FileSystems.join(folder, "tasks")) as file:
                for number, task in enumerate(tasks):
                    file.write(base64.b64encode(pickle.dumps((f"{number}", task))) + b"\n")
            failed = True
            while failed:
                failed = False
                lost = {number for number, times in losses.items() if times >= _ATTEMPTS}
                call = partial(_call_on_line, function, folder, done | lost)
                try:
                    with beam.Pipeline(options=options) as pipeline:
                        lines = beam.io.ReadFromText(
                            FileSystems.join(folder, "tasks"), coder=beam.coders.BytesCoder()
                        )
                        # Without an output, DirectRunner would wait for a lost worker for ever.
                        (
                            pipeline
                            | lines
                            | beam.Reshuffle()
                            | beam.Map(call)
                            | "end" >> beam.Reshuffle()
                        )
                except Exception:
                    failed = True
                    over = _files(folder, "begun") - _files(folder, "result")
                    if not over:
                        raise
                    losses.update(over)
                    FileSystems.delete(
                        [FileSystems.join(folder, f"{number}.begun") for number in over]
                    )
                for found in _files(folder, "result") - done:
                    done.add(found)
                    with FileSystems.open(FileSystems.join(folder, f"{found}.result")) as file:
                        yield pickle.load(file)  # noqa: S301 - written by this very call, in a folder of its own
            if lost:
                with FileSystems.open(FileSystems.join(folder, "tasks")) as file:
                    raise WorkerLostError(
                        _LOST, (task for number, task in map(_load_line, file) if number in lost)
                    )
        finally:
            FileSystems.delete([folder])


def _files(folder: str, kind: str) -> set[str]:
    """Return the numbers of the tasks that have a file of a kind in a folder of Beam.

    A kind is ``begun`` or ``result``.
    """
    from apache_beam.io.filesystems import FileSystems

    [found] = FileSystems.match([FileSystems.join(folder, f"*.{kind}")])
    return {each.path.rpartition("/")[2].removesuffix(f".{kind}") for each in found.metadata_list}


def _call_on_line(
    function: Callable[[Any], Any], folder: str, skipped: set[str], line: bytes
) -> None:
    """Run the task of a line in a worker, unless it is to be skipped.

    Write a file when it begins, and another with its result.
    """
    from apache_beam.io.filesystems import FileSystems

    number, task = _load_line(line)
    if number in skipped:
        return
    FileSystems.create(FileSystems.join(folder, f"{number}.begun")).close()
    partial_file = FileSystems.join(folder, f"{number}.{os.urandom(4).hex()}")
    with FileSystems.create(partial_file) as file:
        pickle.dump(function(task), file)
    FileSystems.rename([partial_file], [FileSystems.join(folder, f"{number}.result")])


def _load_line(line: bytes) -> Any:
    return pickle.loads(base64.b64decode(line))  # noqa: S301 - written by this very call, in a folder of its own
