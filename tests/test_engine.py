"""Engines without their packages: what is refused, and how."""

import os
import shutil
import signal
import sys
import threading
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path

import joblib
import psutil
import pytest

import nbaudio
from nbaudio import engine as engines
from nbaudio.core.errors import EngineError, InputError, MissingExtraError
from nbaudio.core.input_guards import parse_size
from nbaudio.corpus.cutting import cut
from nbaudio.engine import ENGINES, EngineLocation, worker_pool

# Its thread ends with a KeyError where joblib cancels calls that it has not taken yet.
LOKY_THREAD_MAY_FAIL = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"
)


def run_tasks(function, tasks, *, engine, **options):
    with worker_pool(EngineLocation(engine, **options)) as run:
        yield from run(function, tasks)


@pytest.mark.parametrize(
    ("engine", "site", "said"),
    [
        ("slurm", {}, "known are loky"),
        ("loky", {"address": "tcp://h:1"}, "takes no address"),
        ("dask", {"beam_options": "--runner=x"}, "takes no Beam options"),
        ("ray", {"jobs": 0}, "jobs must be 1 or more"),
    ],
)
def test_addresses_and_options_that_an_engine_lacks_are_refused(engine, site, said):
    with pytest.raises(InputError, match=said):
        list(run_tasks(abs, [1], engine=engine, **site))


@pytest.mark.parametrize(
    ("engine", "module"),
    {"dask": "distributed", "ray": "ray", "spark": "pyspark", "beam": "apache_beam"}.items(),
)
def test_missing_package_is_named_with_its_extra(monkeypatch, engine, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(
        MissingExtraError,
        match=rf"^{module}\S* is not installed: pip install 'nbaudio\[{engine}\]'$",
    ):
        list(run_tasks(abs, [1], engine=engine))
    assert engine in ENGINES


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("engine", ["loky", "threading"])
def test_engines_raise_the_errors_of_tasks_unchanged(engine, jobs):
    with pytest.raises(InputError, match="'a lot' is not a size"):
        list(run_tasks(parse_size, ["1kB", "a lot", "2kB"], engine=engine, jobs=jobs))


class ListsOnly(joblib._parallel_backends.ThreadingBackend):
    """A backend that gives no result before all are there, as Ray's."""

    supports_return_generator = False


def test_backends_that_return_lists_get_few_tasks_at_once(monkeypatch):
    joblib.register_parallel_backend("ordered", ListsOnly)
    taken = []
    with (
        joblib.parallel_config(backend="ordered", n_jobs=2),
        worker_pool(EngineLocation(None)) as run,
    ):
        results = run(abs, (taken.append(number) or -number for number in range(1000)))
        next(results)
        assert 2 <= len(taken) <= 100
        assert len(list(results)) == 999


@pytest.mark.parametrize("engine", ["loky", pytest.param("threading", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_few_results_wait_for_a_slow_caller(engine):
    taken, used = 0, 0

    def tasks():
        nonlocal taken
        for taken in range(1, 401):
            yield -taken

    for _ in run_tasks(abs, tasks(), engine=engine, jobs=2):
        used += 1
        time.sleep(0.01)  # far longer than a task
        assert taken - used <= 40
    assert used == taken == 400


def test_no_thread_keeps_working_after_a_task_error():
    at_work = []

    def work(what):
        if what == "bad":
            raise InputError("bad")
        at_work.append(what)
        time.sleep(0.05)
        at_work.remove(what)

    with pytest.raises(InputError, match="bad"):
        list(run_tasks(work, ["good", "bad", "good", "good"], engine="threading", jobs=2))
    assert at_work == []


def tasks_that_end_with(error):
    yield from range(40)
    raise error


@LOKY_THREAD_MAY_FAIL
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("engine", ["loky", "threading"])
def test_an_interrupt_of_the_thread_that_takes_tasks_ends_the_run(engine, jobs):
    # As Polars raises it in joblib's thread
    with pytest.raises(KeyboardInterrupt):
        list(run_tasks(abs, tasks_that_end_with(KeyboardInterrupt()), engine=engine, jobs=jobs))
    assert loky_processes() == []


@pytest.fixture
def other_thread():
    """A thread that receives signals which the main thread blocks, as those of a kernel do."""
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    yield
    ended.set()
    thread.join()


@LOKY_THREAD_MAY_FAIL
@pytest.mark.usefixtures("other_thread")
def test_an_interrupt_while_tasks_start_is_raised_when_they_have_started():
    steps = []

    def interrupting_tasks():
        yield -1
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        steps.append("started")
        yield from [-2, -3]

    with pytest.raises(KeyboardInterrupt):
        list(run_tasks(abs, interrupting_tasks(), engine="loky", jobs=2))
    assert steps == ["started"]
    assert loky_processes() == []
    assert sorted(run_tasks(abs, [-1, -2, -3], engine="loky", jobs=2)) == [1, 2, 3]


def loky_processes():
    return [
        process
        for process in psutil.Process().children()
        if any("popen_loky" in part for part in process.cmdline())
    ]


@pytest.mark.slow
def test_processes_start_when_the_pool_opens_and_end_with_it():
    with worker_pool(EngineLocation("loky", 2, preload=cut)) as run:
        assert len(loky_processes()) == 2
        assert sorted(run(abs, [-1, -2, -3])) == [1, 2, 3]
        assert sorted(run(abs, [-4, -5])) == [4, 5]
    assert loky_processes() == []


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_tasks_run_if_the_processes_are_killed_before_the_first(jobs):
    with worker_pool(EngineLocation("loky", jobs, preload=cut)) as run:
        for process in loky_processes():
            process.kill()
        assert sorted(run(abs, [-1, -2, -3])) == [1, 2, 3]
    assert loky_processes() == []


@pytest.mark.slow
def test_no_process_is_left_after_an_error_before_the_first_task(make_workspace, tmp_path):
    workspace = make_workspace({"a.flac": (3.0, 16000)})
    with pytest.raises(InputError, match="absent"):
        nbaudio.materialize(workspace, out=tmp_path / "corpus", text="absent", jobs=2)
    assert loky_processes() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("least_bytes", "functions"),
    [(None, ["cut"]), (0, ["cut", "write_shard"])],
)
def test_few_bytes_are_packed_by_this_process(
    monkeypatch, make_workspace, tmp_path, least_bytes, functions
):
    in_workers = []

    def run(function, tasks):
        in_workers.append(function.args[0].func.__name__)
        yield from map(function, tasks)

    monkeypatch.setattr(engines, "ENGINES", {**ENGINES, "loky": lambda _: nullcontext(run)})
    if least_bytes is not None:
        module = sys.modules["nbaudio.corpus.materialize"]
        monkeypatch.setattr(module, "_MIN_BYTES_FOR_WORKERS", least_bytes)
    workspace = make_workspace({"a.flac": (30.0, 16000)})
    report = nbaudio.materialize(workspace, out=tmp_path / "corpus", jobs=2, show_progress=False)
    assert report.facts["kept"] > 0
    assert in_workers == functions


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """Every engine runs its tasks in a working directory that is not the driver's."""
    (tmp_path / "worker").mkdir()

    def run(function, tasks):
        for task in tasks:
            here = Path.cwd()
            os.chdir(tmp_path / "worker")
            try:
                result = function(task)
            finally:
                os.chdir(here)
            yield result

    @contextmanager
    def workers(site):
        yield run

    monkeypatch.setattr(engines, "ENGINES", dict.fromkeys(ENGINES, workers))


@pytest.mark.slow
def test_workers_resolve_relative_paths_in_the_folder_of_the_driver(
    elsewhere, make_workspace, tmp_path, monkeypatch
):
    audio = make_workspace({"r.wav": (18.0, 8000)}, channels=1).audio_root
    monkeypatch.chdir(tmp_path)
    shutil.move(audio, "audio")
    shutil.make_archive("all", "zip", "audio")
    (tmp_path / "t.csv").write_text(
        "path,start,end,text\n" + "".join(f"r.wav,{i},{i}.5,da {i}\n" for i in range(9))
    )
    columns = {"name": "path", "start": "start", "end": "end", "text": "text"}
    expected = None
    for engine, root in (("spark", "audio"), ("loky", "audio"), ("loky", "zip://::all.zip")):
        out = f"corpus of {engine} {'://' in root}"
        workspace = f"W {out}"
        nbaudio.ingest("table", "t.csv", audio=root, out=workspace, options=columns)
        nbaudio.select(workspace, dev=0, test=0, min_similarity=-1)
        packs = "packs" if "://" not in root else None
        report = nbaudio.materialize(
            workspace, out=out, engine=engine, packs=packs, shard_size="50kB", show_progress=False
        )
        assert (report.facts["kept"], report.problems) == (9, [])
        assert nbaudio.verify(out, engine=engine, show_progress=False).problems == []
        nbaudio.convert(
            out, out=f"zip of {out}", container="zip", engine=engine, show_progress=False
        )
        assert nbaudio.verify(f"zip of {out}", engine=engine, show_progress=False).problems == []
        shards = {path.name: path.read_bytes() for path in (tmp_path / out / "train").iterdir()}
        assert shards == (expected := expected or shards)
    assert list((tmp_path / "worker").iterdir()) == []


def test_opened_workspaces_and_corpora_survive_a_change_of_directory(
    make_workspace, tmp_path, monkeypatch
):
    made = make_workspace({"r.wav": (18.0, 8000)}, channels=1)
    monkeypatch.chdir(tmp_path)
    workspace = nbaudio.tables.workspace.Workspace.open(made.path.name)
    nbaudio.materialize(workspace, out="c", jobs=1, show_progress=False)
    corpus = nbaudio.open_corpus("c")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert len(corpus.read_many(corpus.segments["segment_id"].to_list())) == len(corpus.segments)
    assert nbaudio.verify(tmp_path / "c", jobs=1, show_progress=False).problems == []
    nbaudio.materialize(workspace, out="d", jobs=1, show_progress=False)
    assert (tmp_path / "other/d/corpus.json").read_bytes() == (
        tmp_path / "c/corpus.json"
    ).read_bytes()


JAVA = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2844)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""
REMOTE = """ray::call() (pid=1, ip=127.0.0.1)
Traceback (most recent call last):
  File "a.py", line 1, in call
ConnectionError: the head is gone
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (JAVA, "java.io.IOException: No space left on device"),
        (REMOTE, "ConnectionError: the head is gone"),
        ("", "ValueError"),
    ],
)
@pytest.mark.parametrize("moment", ["begins", "runs"])
def test_a_failing_engine_is_one_line_with_the_cause(monkeypatch, text, cause, moment):
    @contextmanager
    def failing(site):
        def run(function, tasks):
            yield function(next(iter(tasks)))
            raise ValueError(text)

        if moment == "begins":
            raise ValueError(text)
        yield run

    monkeypatch.setattr(engines, "ENGINES", {"spark": failing})
    with pytest.raises(EngineError) as told:
        list(run_tasks(abs, [1, 2], engine="spark"))
    assert str(told.value) == f"engine spark: {cause}"


def boom(kind):
    raise kind("own words")


@pytest.mark.parametrize("engine", ["loky", "threading"])
def test_task_errors_are_not_reported_as_engine_errors(engine):
    with pytest.raises(KeyError, match="own words") as told:
        list(run_tasks(boom, [KeyError], engine=engine, jobs=1))
    assert "in boom" in "".join(told.value.__notes__)

    def tasks():
        yield 1
        raise LookupError("no further task")

    with pytest.raises(LookupError, match="no further task"):
        list(run_tasks(abs, tasks(), engine=engine, jobs=1))
