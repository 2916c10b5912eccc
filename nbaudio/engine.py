"""Run tasks in threads or processes, or on Dask, Ray, Spark or Beam (docs/materialize.md).

A task whose worker is killed may run twice.
"""

import base64
import os
import pickle
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import (
    AbstractContextManager,
    ExitStack,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from multiprocessing import resource_tracker
from pathlib import Path
from pickle import PicklingError
from traceback import format_tb
from types import MappingProxyType
from typing import IO, Any, Literal, NoReturn, Protocol, TypeVar, cast

import joblib
from joblib.externals.loky import get_reusable_executor

from nbaudio.core.atomic import atomic_write
from nbaudio.core.errors import (
    EngineError,
    InputError,
    NbaudioError,
    WorkerLostError,
    get_by_name,
    requires_extra,
    root_cause,
)
from nbaudio.core.interrupts import interrupts_blocked, interrupts_deferred
from nbaudio.core.processes import exit_with_driver, skip_garbage_collection_at_exit, stderr_to
from nbaudio.core.threads import ordered_map

Task = TypeVar("Task")
Result = TypeVar("Result")

# Tasks per worker: in a batch, for backends that return results only when all of a batch are done,
# and at most underway in joblib, with those whose result the caller has not taken.
_BATCH = 16
_NOT_PICKLED = " Use one job or the engine threading, or name a function of a module"
_ONE_BY_ONE = MappingProxyType({"batch_size": 1, "pre_dispatch": "2*n_jobs"})  # for joblib
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
# What the threads of Beam's DirectRunner that wait for a worker say when it dies, and what the
# pipeline itself may say then.
_BEAM_LOST = re.compile(r"Worker subprocess exited")
_CHANNEL_LOST = re.compile(r"Channel closed prematurely|StatusCode\.(?:UNAVAILABLE|CANCELLED)")
# Seconds for the thread of a lost worker, which knows more than the error of its pipeline.
_HOOK_S = 1.0
_IDLE_ENDS = 5  # pipelines in a row that may end without a result
_STALL_S = 120.0  # seconds without a task in work after which a local pipeline counts as stopped
_STALL_CHECK_S = 10.0
# Seconds after which loky's thread has taken the first calls. If calls that it has not taken are
# cancelled, it ends with a KeyError, and Python prints its traceback.
_CALLS_TAKEN_S = 0.1
_ATTEMPTS = 3  # most starts of a task whose worker dies
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
_MAX_LOG_BYTES = 1 << 20  # of the end of Java's log


class _TasksEndedError(Exception):
    """The iterator of tasks raised the cause of this error, such as KeyboardInterrupt.

    Unlike its cause, this is an Exception, which joblib passes on.
    """


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
    # A function that tasks will call: loky's processes start, and import it, when the pool opens,
    # not with the first task.
    preload: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        """Raise InputError for an unknown engine, or an option that it does not take."""
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
    """Run tasks in processes of this machine."""
    with interrupts_deferred():
        # If it started only later, it would unblock the signals of `interrupts_blocked`.
        resource_tracker.ensure_running()
    try:
        with (
            joblib.parallel_config(
                backend="loky",
                n_jobs=site.local_jobs,
                initializer=_begin_process,
                initargs=(os.getpid(), site.preload),
            ),
            _first_call(site.preload) as run_tasks,
        ):
            yield run_tasks
    except BaseException:
        _end_processes(kill=True)
        raise
    _end_processes(kill=False)


@contextmanager
def _first_call(preload: Callable[..., Any] | None) -> Iterator[RunTasks]:
    """Yield what runs tasks; start all processes now if there is a function to preload.

    A call of `abs` starts them. `_begin_process` receives the function, whose module they import.
    """
    if preload is None:
        yield _run_joblib
    else:
        with _dispatched(_parallel_of(None), abs, [0]) as first_call:
            yield partial(_run_after, first_call)


def _end_processes(*, kill: bool) -> None:
    """End loky's processes, which joblib keeps, with their memory, for the next call.

    `kill` ends their tasks, too.
    """
    with interrupts_deferred():
        get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=kill)


def _begin_process(driver: int, _preload: Callable[..., Any] | None) -> None:
    """Prepare a new process of loky.

    It has imported the module of the function to preload when it has read the arguments.
    """
    exit_with_driver(driver)
    skip_garbage_collection_at_exit()


def _run_after(
    first_call: Iterable[int], function: Callable[[Task], Result], tasks: Iterable[Task]
) -> Iterator[Result]:
    """Run tasks as `_run_joblib`, when the first call has ended."""
    try:
        deque(first_call, maxlen=0)
    except Exception as error:
        if not _is_worker_lost(error):  # the tasks start other processes
            raise
    yield from _run_joblib(function, tasks)


def _threading(site: EngineLocation) -> AbstractContextManager[RunTasks]:
    # No thread runs on after an error, unlike joblib's.
    return nullcontext(partial(ordered_map, jobs=site.local_jobs, ahead=2))


@contextmanager
def _dask(site: EngineLocation) -> Iterator[RunTasks]:
    """Run tasks on a Dask cluster: that of an address, or one that this process starts."""
    with requires_extra("dask"):
        import distributed
    with ExitStack() as stack:
        cluster = site.address or stack.enter_context(_start_dask_cluster(site.local_jobs))
        stack.enter_context(distributed.Client(cluster))
        stack.enter_context(joblib.parallel_config(backend="dask", n_jobs=-1))
        yield _run_joblib


def _start_dask_cluster(jobs: int) -> Any:
    """Start a cluster of this machine, anew if a worker is killed while it starts."""
    import distributed

    attempt = 1
    while True:
        try:
            return distributed.LocalCluster(
                n_workers=jobs, threads_per_worker=1, dashboard_address=None
            )
        except RuntimeError:  # of its nanny, which only tries again after the start
            if attempt >= _ATTEMPTS:
                raise
            attempt += 1


def _ray_connection(site: EngineLocation) -> AbstractContextManager[Any]:
    """Start Ray, or connect to a cluster; raise EngineError if it refuses."""
    import ray

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if not site.address:
        started: AbstractContextManager[Any] = ray.init(
            address="local", num_cpus=site.local_jobs, include_dashboard=False, **quiet
        )
        return started
    try:
        with tempfile.TemporaryFile() as log, stderr_to(log):  # each attempt is printed there
            connected: AbstractContextManager[Any] = ray.init(address=site.address, **quiet)
    except (ConnectionError, RuntimeError) as error:
        raise EngineError(
            f"engine ray at {site.address}: {root_cause(error)}; a cluster with tokens, such as "
            "`ray start` makes where there is one, needs RAY_AUTH_MODE=token in the environment"
        ) from error
    return connected


@contextmanager
def _ray(site: EngineLocation) -> Iterator[RunTasks]:
    """Run tasks on Ray: the cluster of an address, a running one, or one that is started."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # send no usage statistics
    # Workers start with their first task: where one that has none is killed while Ray starts, Ray
    # may wait for it forever.
    os.environ.setdefault("RAY_enable_worker_prestart", "0")
    os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
    with requires_extra("ray"):
        import ray
        from ray.util.joblib import register_ray
    host, _, port = (site.address or "").rpartition("://")[2].rpartition(":")
    try:
        if port.isdigit():  # Ray itself would retry for minutes and print its own log
            socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise EngineError(f"engine ray at {site.address}: {error.strerror or error}") from error
    with ExitStack() as stack:
        if not ray.is_initialized():
            stack.enter_context(_ray_connection(site))
        register_ray()
        stack.enter_context(joblib.parallel_config(backend="ray", n_jobs=-1))
        yield _run_joblib


@contextmanager
def _spark(site: EngineLocation) -> Iterator[RunTasks]:
    """Run tasks on the active Spark session, or on one that is started, and stopped afterwards.

    Of an error, raise EngineError with the cause that Java logs, in one line.
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
            cause = _java_cause(log) or root_cause(error)
            raise EngineError(f"engine spark at {master}: {cause}") from error


def _java_cause(log: IO[bytes]) -> str | None:
    """Return the cause that Java's log names, the most specific one; None if it names none."""
    log.seek(max(0, log.seek(0, os.SEEK_END) - _MAX_LOG_BYTES))
    text = log.read().decode(errors="replace")
    for pattern in _JAVA_CAUSES:
        if causes := pattern.findall(text):
            return str(causes[-1]).strip()
    return None


def _with_absolute_folder(flag: str) -> str:
    """Make the local folder of a flag of Beam absolute, such as that of --temp_location=tmp."""
    name, equals, value = flag.partition("=")
    if name.endswith("_location") and equals and "://" not in value:
        return f"{name}={Path(value).absolute()}"
    return flag


@contextmanager
def _beam(site: EngineLocation) -> Iterator[RunTasks]:
    """Run tasks in pipelines of Beam, by DirectRunner unless the options name a runner."""
    with requires_extra("beam"):
        import apache_beam  # noqa: F401 - whether it is installed
    flags = [_with_absolute_folder(flag) for flag in shlex.split(site.beam_options)]
    is_local = not any(flag.partition("=")[0] == "--runner" for flag in flags)
    if is_local:
        local = [
            "--runner=DirectRunner",
            f"--direct_num_workers={site.local_jobs}",
            "--direct_running_mode=multi_processing",
        ]
        # Without this option DirectRunner downloads another runner first; there are no triggers.
        flags = [*local, "--allow_unsafe_triggers", "--default_sdk_harness_log_level=ERROR", *flags]
    yield partial(_run_beam, _BeamRunner(flags, is_local))


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
    engine: AbstractContextManager[RunTasks]
    if site.engine is None:
        engine = nullcontext(partial(_run_joblib, jobs=site.jobs))
    else:
        engine = ENGINES[site.engine](site)
    with ExitStack() as stack:
        with _engine_errors(site.engine):
            run = stack.enter_context(engine)
        yield partial(_run, site.engine, run)


def _run(
    engine: str | None, run: RunTasks, function: Callable[[Task], Result], tasks: Iterable[Task]
) -> Iterator[Result]:
    """Run tasks; raise errors of tasks unchanged.

    Some engines convert exceptions to text, and some retry.
    """
    task_errors: list[Exception] = []

    def planned() -> Iterator[Task]:
        try:
            # An engine that gives up closes this iterator. Closing `chain` does not close `tasks`,
            # so that the rest can be run after a worker is lost.
            yield from chain(tasks)
        except Exception as error:
            task_errors.append(error)
            raise
        except GeneratorExit:
            raise
        except BaseException as error:
            # Polars raises KeyboardInterrupt in each of its threads, and its panics are no
            # Exception. joblib takes tasks in a thread of its own; it would lose the error, and
            # wait forever for the tasks.
            raise _TasksEndedError from error

    with _engine_errors(engine, task_errors):
        for outcome, error in run(partial(_attempt, function), planned()):
            if error is not None:
                task_errors.append(error)
                raise error
            yield outcome


@contextmanager
def _engine_errors(engine: str | None, task_errors: Collection[Exception] = ()) -> Iterator[None]:
    """Convert errors of an engine to an `EngineError` of one line.

    Raise nbaudio's errors, those in `task_errors`, and the cause of `_TasksEndedError`, unchanged.
    """
    try:
        yield
    except _TasksEndedError as error:
        raise cast(BaseException, error.__cause__) from None
    except Exception as error:
        if error in task_errors or isinstance(error, NbaudioError):
            raise
        remedy = _NOT_PICKLED if isinstance(error, PicklingError) else ""
        raise EngineError(
            f"engine {engine or 'of joblib.parallel_config'}: {root_cause(error)}{remedy}"
        ) from error


def _attempt(function: Callable[[Task], Result], task: Task) -> tuple[Any, Exception | None]:
    """Run a task in a worker; return its result, or None and an error that can be pickled."""
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
    """Run tasks on the backend of ``joblib.parallel_config``, in rounds.

    A round begins with the tasks that a lost worker left without a result, or with a new one. If
    `jobs` is None, the number of jobs is also that of ``joblib.parallel_config``.
    """
    numbered_tasks = enumerate(tasks)
    most = _BATCH * joblib.effective_n_jobs(jobs)
    underway: dict[int, Task] = dict(islice(numbered_tasks, 1))
    losses: Counter[int] = Counter()

    def taken() -> Iterator[tuple[int, Task]]:
        yield from list(underway.items())
        # joblib keeps all results that the caller has not taken yet. Where the caller is so slow
        # that they are many, the round ends here; the next one begins when they are taken.
        while len(underway) < most and (numbered := next(numbered_tasks, None)):
            underway.update([numbered])
            yield numbered

    while underway:
        try:
            results = _parallel(partial(_numbered, function), taken(), jobs)
            yield from _remove_finished(underway, results)
        except Exception as error:
            if not _is_worker_lost(error):
                raise
            losses.update(list(underway))  # a mapping would be added as counts
            if max((losses[number] for number in underway), default=0) >= _ATTEMPTS:
                raise WorkerLostError(_LOST, underway.values()) from error
        if not underway:
            underway.update(islice(numbered_tasks, 1))


def _remove_finished(
    underway: dict[int, Task], numbered_results: Generator[tuple[int, Result]]
) -> Iterator[Result]:
    """Yield results as they come, and remove their tasks; close the results in any case."""
    with closing(numbered_results):
        for number, outcome in numbered_results:
            del underway[number]
            yield outcome


def _is_worker_lost(error: BaseException | None) -> bool:
    """Whether an error, or its cause, says that a worker was lost."""
    if error is None:
        return False
    names = {kind.__name__ for kind in type(error).__mro__}
    return not _WORKER_LOST.isdisjoint(names) or _is_worker_lost(
        error.__cause__ or error.__context__
    )


def _numbered(function: Callable[[Task], Result], numbered: tuple[int, Task]) -> tuple[int, Result]:
    """Run a task; return its number and its result."""
    return numbered[0], function(numbered[1])


def _parallel(
    function: Callable[[Task], Result], tasks: Iterable[Task], jobs: int | None
) -> Generator[Result]:
    """Yield the results of tasks as they come, or batch by batch where joblib returns lists."""
    try:
        parallel = _parallel_of(jobs)
    except ValueError:  # the backend returns lists only
        with joblib.Parallel(n_jobs=jobs, **_ONE_BY_ONE) as parallel:
            waiting = iter(tasks)
            size = _BATCH * joblib.effective_n_jobs(jobs)
            while batch := list(islice(waiting, size)):
                yield from parallel(joblib.delayed(function)(task) for task in batch)
    else:
        with _dispatched(parallel, function, tasks) as outcomes:
            for outcome in outcomes:  # noqa: UP028 - `yield from` would close it too early
                yield outcome


def _parallel_of(jobs: int | None) -> joblib.Parallel:
    """Return a `Parallel` that yields results as they come.

    Raise ValueError if the backend returns lists only.
    """
    return joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", **_ONE_BY_ONE)


@contextmanager
def _dispatched(
    parallel: joblib.Parallel, function: Callable[[Task], Result], tasks: Iterable[Task]
) -> Iterator[Iterator[Result]]:
    """Start tasks, and yield their results as they come; at the end, cancel those that are left.

    An interrupt while loky starts or ends its processes would leave a pool that runs no task, and
    the next call would wait for it forever.
    """
    outcomes: Generator[Result] | None = None
    try:
        with interrupts_deferred(), interrupts_blocked():
            outcomes = parallel(joblib.delayed(function)(task) for task in tasks)
        yield outcomes
    except BaseException:
        time.sleep(_CALLS_TAKEN_S)  # until loky has taken the calls that are cancelled below
        raise
    finally:
        with interrupts_deferred(), warnings.catch_warnings():
            # A caller that stops early, by an error or on purpose, knows that tasks are left.
            warnings.filterwarnings(
                "ignore", ".* tasks which were still being processed", UserWarning
            )
            if outcomes is not None:
                outcomes.close()


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
        if not results:
            lost.append(task)
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


@dataclass(frozen=True)
class _BeamRunner:
    """Where pipelines run."""

    flags: Sequence[str]  # options of Beam
    is_local: bool  # DirectRunner with processes of this machine


@dataclass(frozen=True)
class _Pipeline:
    """A pipeline over the tasks of a folder, as the process that runs it reads it."""

    runner: _BeamRunner
    function: Callable[[Any], Any]
    folder: str  # has the file "tasks", and receives a file per beginning and per result
    skipped: frozenset[str]  # numbers of tasks


@dataclass(frozen=True)
class _PipelineEnd:
    """How a pipeline ended."""

    outcome: Literal["complete", "worker lost", "failed"]
    lost: frozenset[str] = frozenset()  # numbers of the tasks that it began and did not end
    message: str = ""


def _run_beam(
    runner: _BeamRunner, function: Callable[[Task], Result], tasks: Iterable[Task]
) -> Iterator[Result]:
    """Run tasks, the lines of a file, in a pipeline that writes a file per result.

    After a lost worker, what has no result is run in another pipeline. Raise EngineError if
    pipelines end again and again without a result, WorkerLostError for tasks that lost each of
    their workers.
    """
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    shared = PipelineOptions(list(runner.flags)).get_all_options().get("temp_location")
    with tempfile.TemporaryDirectory(prefix="nbaudio-") as here:
        folder = FileSystems.join(shared or here, f"nbaudio-{os.urandom(8).hex()}")
        FileSystems.mkdirs(folder)
        try:
            numbers = _write_tasks(folder, tasks)
            pipeline = _Pipeline(runner, function, folder, frozenset())
            yield from _run_pipelines(pipeline, numbers)
        finally:
            FileSystems.delete([folder])


def _write_tasks(folder: str, tasks: Iterable[Task]) -> set[str]:
    """Write the file of the tasks; return their numbers."""
    from apache_beam.io.filesystems import FileSystems

    numbers = set()
    with FileSystems.create(FileSystems.join(folder, "tasks")) as file:
        for number, task in enumerate(tasks):
            file.write(base64.b64encode(pickle.dumps((f"{number}", task))) + b"\n")
            numbers.add(f"{number}")
    return numbers


def _run_pipelines(pipeline: _Pipeline, numbers: Collection[str]) -> Iterator[Any]:
    """Run pipelines until each task has a result or has lost its workers too often."""
    done: set[str] = set()
    lost: set[str] = set()
    losses: Counter[str] = Counter()
    idle_ends = 0  # pipelines in a row that ended without a result and lost no task
    while len(done | lost) < len(numbers):
        end = _run_pipeline(replace(pipeline, skipped=frozenset(done | lost)))
        results = _files(pipeline.folder, "result") - done
        for number in results:
            yield _load_result(pipeline.folder, number)
        done |= results
        losses.update(end.lost - done)
        _forget_beginnings(pipeline.folder, done)
        lost = {number for number, times in losses.items() if times >= _ATTEMPTS}
        idle_ends = 0 if results or end.lost else idle_ends + 1
        # A pipeline that fails before any of its tasks is done or lost would fail again.
        if idle_ends >= _IDLE_ENDS or (end.outcome == "failed" and idle_ends):
            raise EngineError(f"engine beam: {end.message or 'the pipeline ran no task'}")
    if lost:
        raise WorkerLostError(_LOST, _load_tasks(pipeline.folder, lost))


def _run_pipeline(pipeline: _Pipeline) -> _PipelineEnd:
    """Run a pipeline in a process of its own, as DirectRunner waits for lost workers for ever.

    No process of it is left afterwards.
    """
    with tempfile.TemporaryDirectory(prefix="nbaudio-") as name:
        exchange = Path(name)
        (exchange / "pipeline").write_bytes(pickle.dumps(pipeline))
        script = f"from nbaudio.engine import execute_pipeline; execute_pipeline({name!r})"
        with (exchange / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", script],
                stdout=log,
                stderr=log,
                start_new_session=True,  # workers are in its process group
            )
        try:
            _wait_for_pipeline(process, pipeline)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        with suppress(OSError, EOFError, pickle.UnpicklingError):
            return cast(_PipelineEnd, pickle.loads((exchange / "end").read_bytes()))  # noqa: S301
        written = (exchange / "log").read_text(errors="replace").strip()
        return _PipelineEnd(
            "worker lost", frozenset(_begun(pipeline.folder)), written.rpartition("\n")[2]
        )


def _wait_for_pipeline(process: subprocess.Popen[bytes], pipeline: _Pipeline) -> None:
    """Wait until the process of a pipeline ends.

    Return earlier if no worker of this machine has a task and none has begun or ended one for
    `_STALL_S`.
    """
    files: set[str] = set()
    last_change = time.monotonic()
    while True:
        try:
            process.wait(_STALL_CHECK_S)
        except subprocess.TimeoutExpired:
            pass
        else:
            return
        if not pipeline.runner.is_local:  # other runners take their time to find workers
            continue
        begun = _begun(pipeline.folder)
        written = _files(pipeline.folder, "result") | begun.keys()
        if written != files or any(map(_is_alive, begun.values())):
            files = written
            last_change = time.monotonic()
        if time.monotonic() - last_change > _STALL_S:
            return


def execute_pipeline(exchange: str) -> None:
    """Run the pipeline of the file `pipeline` in a folder, and write there how it ended.

    This is the main function of a process of `_run_pipeline`.
    """
    folder = Path(exchange)
    exit_with_driver(os.getppid())
    pipeline: _Pipeline = pickle.loads((folder / "pipeline").read_bytes())  # noqa: S301
    # DirectRunner waits for each worker in a thread, which raises an error when it is killed.
    threading.excepthook = partial(_end_with_worker, folder, pipeline)
    try:
        _apply_pipeline(pipeline)
    except Exception as error:  # noqa: BLE001 - the driver raises it again
        time.sleep(_HOOK_S)  # for the thread of a worker, which knows more
        lost = frozenset(_begun(pipeline.folder))
        is_loss = _CHANNEL_LOST.search(str(error)) is not None
        end = _PipelineEnd("worker lost" if is_loss else "failed", lost, root_cause(error))
    else:
        end = _PipelineEnd("complete")
    _exit_pipeline(folder, end)


def _end_with_worker(
    exchange: Path, pipeline: _Pipeline, failure: threading.ExceptHookArgs
) -> None:
    """End the process of a pipeline when a worker is lost, while the others are still there."""
    if _BEAM_LOST.search(str(failure.exc_value)) is None:
        threading.__excepthook__(failure)
        return
    begun = _begun(pipeline.folder)
    lost = frozenset(number for number, worker in begun.items() if not _is_alive(worker))
    _exit_pipeline(exchange, _PipelineEnd("worker lost", lost, str(failure.exc_value)))


def _exit_pipeline(exchange: Path, end: _PipelineEnd) -> NoReturn:
    """Write how the pipeline ended; end this process, whatever its threads wait for."""
    with atomic_write(exchange / "end", sync=False) as partial_file:
        partial_file.write_bytes(pickle.dumps(end))
    os._exit(0)


def _apply_pipeline(pipeline: _Pipeline) -> None:
    """Run a pipeline that calls the function on every line that is not to be skipped."""
    import apache_beam as beam
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options.pipeline_options import PipelineOptions

    call = partial(_call_on_line, pipeline.function, pipeline.folder, pipeline.skipped)
    path = FileSystems.join(pipeline.folder, "tasks")
    with beam.Pipeline(options=PipelineOptions(list(pipeline.runner.flags))) as steps:
        lines = steps | beam.io.ReadFromText(path, coder=beam.coders.BytesCoder())
        # Without an output, DirectRunner would not wait for all tasks.
        _ = lines | beam.Reshuffle() | beam.Map(call) | "end" >> beam.Reshuffle()


def _begun(folder: str) -> dict[str, str]:
    """Return the tasks without a result by their number, each with the process that began it."""
    from apache_beam.io.filesystems import FileSystems

    workers = {}
    for number in _files(folder, "begun") - _files(folder, "result"):
        with FileSystems.open(FileSystems.join(folder, f"{number}.begun")) as file:
            workers[number] = file.read().decode()
    return workers


def _is_alive(process_id: str) -> bool:
    """Return whether a process of this machine runs; one that wrote no id was killed before."""
    if not process_id:
        return False
    try:
        os.kill(int(process_id), 0)
    except ProcessLookupError:
        return False
    return True


def _forget_beginnings(folder: str, done: Collection[str]) -> None:
    """Delete the files of tasks that were begun and are not done.

    `_begun` then returns those that the next pipeline begins.
    """
    from apache_beam.io.filesystems import FileSystems

    begun = _files(folder, "begun").difference(done)
    if begun:
        FileSystems.delete([FileSystems.join(folder, f"{number}.begun") for number in begun])


def _load_result(folder: str, number: str) -> Any:
    """Return the result of a task."""
    from apache_beam.io.filesystems import FileSystems

    with FileSystems.open(FileSystems.join(folder, f"{number}.result")) as file:
        return pickle.load(file)  # noqa: S301 - written by this very call, in a folder of its own


def _load_tasks(folder: str, numbers: Collection[str]) -> list[Any]:
    """Return the tasks with these numbers."""
    from apache_beam.io.filesystems import FileSystems

    with FileSystems.open(FileSystems.join(folder, "tasks")) as file:
        return [task for number, task in map(_load_line, file) if number in numbers]


def _files(folder: str, kind: str) -> set[str]:
    """Return the numbers of the tasks that have a file of a kind in a folder of Beam.

    A kind is ``begun`` or ``result``.
    """
    from apache_beam.io.filesystems import FileSystems

    [matches] = FileSystems.match([FileSystems.join(folder, f"*.{kind}")])
    names = (metadata.path.rpartition("/")[2] for metadata in matches.metadata_list)
    return {name.removesuffix(f".{kind}") for name in names}


def _call_on_line(
    function: Callable[[Any], Any], folder: str, skipped: Collection[str], line: bytes
) -> None:
    """Run the task of a line in a worker, unless it is to be skipped.

    Write a file with the id of this process when it begins, and another with its result.
    """
    from apache_beam.io.filesystems import FileSystems

    number, task = _load_line(line)
    if number in skipped:
        return
    with FileSystems.create(FileSystems.join(folder, f"{number}.begun")) as file:
        file.write(str(os.getpid()).encode())
    partial_file = FileSystems.join(folder, f"{number}.{os.urandom(4).hex()}")
    with FileSystems.create(partial_file) as file:
        pickle.dump(function(task), file)
    FileSystems.rename([partial_file], [FileSystems.join(folder, f"{number}.result")])


def _load_line(line: bytes) -> Any:
    """Return the number and the task of a line of the file of tasks."""
    # This very call has written the line, in a folder of its own.
    return pickle.loads(base64.b64decode(line))  # noqa: S301
