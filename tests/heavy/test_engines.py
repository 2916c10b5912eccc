"""Engines on local clusters: the same bytes as one job of loky, the same errors, tasks taken as
workers become free.

NBAUDIO_WORKER names the Python of an environment that was made from nbaudio's wheel (and Beam)
alone: see .ci/run.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import distributed
import psutil
import pytest
from sittings import make_sitting

from nbaudio import Workspace, materialize

TOP = Path(__file__).resolve().parents[2]
WORKER = os.environ["NBAUDIO_WORKER"]
SIZE = "40kB"
# Two executors, each a JVM of its own that starts Python processes of the wheel's environment.
SPARK_CLUSTER = "local-cluster[2,1,1024]"


@pytest.fixture
def workspace(make_workspace):
    made = make_workspace(
        {f"r{i}.flac": (60.0, 16000) for i in range(3)} | {"s.wav": (40.0, 44100)}
    )
    return made.path


def environment():
    """Nothing of the checkout is on the workers' path; Spark is the one that pip installed."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # What Spark's scripts look for, which are not there where pip has installed it.
    return inherited | {
        "PYSPARK_PYTHON": WORKER,
        "SPARK_SCALA_VERSION": "2.13",
        "PYTHONWARNINGS": "default",
    }


def materialize_by_command(workspace, out, *options, python=sys.executable):
    """The bytes of a corpus that the command line has made."""
    command = [
        python,
        "-m",
        "nbaudio",
        "materialize",
        workspace,
        "--out",
        out,
        "--shard-size",
        SIZE,
        "--signals",
        *options,
    ]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=False, cwd=out.parent
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for pack in (workspace / "packs").iterdir():  # the next engine shall cut for itself
        pack.unlink()
    (workspace / "signals.parquet").unlink(missing_ok=True)  # and measure
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def expected(workspace, tmp_path):
    one = materialize_by_command(workspace, tmp_path / "one", "--jobs", "1")
    assert len([name for name in one if name.endswith(".tar")]) > 6
    return one


def probe(engine, *address):
    command = [sys.executable, str(TOP / "tests/heavy/engine_probe.py"), engine, *address]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def dask_cluster(folder):
    """A scheduler and two worker processes of the command line; its address."""
    file = ["--no-dashboard", "--scheduler-file", str(folder / "scheduler.json")]
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", *file]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", *file]
    quiet = {
        "env": environment() | {"PYTHONPATH": str(TOP / "tests/heavy")},  # has engine_probe
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "cwd": folder,
    }
    processes = [subprocess.Popen(scheduler, **quiet)]
    try:
        # The scheduler creates the file and then fills it.
        written = folder / "scheduler.json"
        while not (written.exists() and written.read_text().rstrip().endswith("}")):
            time.sleep(0.1)
        processes += [subprocess.Popen(worker, **quiet) for _ in range(2)]
        address = json.loads(written.read_text())["address"]
        with distributed.Client(address) as client:
            client.wait_for_workers(2, timeout=60)
        yield address
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(30)


def test_the_worker_environment_imports_nbaudio_from_the_wheel():
    code = "import nbaudio; print(nbaudio.__file__)"
    found = subprocess.run(
        [WORKER, "-c", code], env=environment(), capture_output=True, text=True, check=True, cwd="/"
    )
    assert "site-packages" in found.stdout
    assert not Path(found.stdout).is_relative_to(TOP / "nbaudio")


def test_loky_gives_the_same_bytes_with_two_and_three_jobs(workspace, expected, tmp_path):
    for jobs in ("2", "3"):
        assert materialize_by_command(workspace, tmp_path / jobs, "--jobs", jobs) == expected


def test_dask_gives_the_expected_bytes_by_address_and_by_jobs(workspace, expected, tmp_path):
    with dask_cluster(tmp_path) as address:
        assert (
            materialize_by_command(
                workspace, tmp_path / "c", "--engine", "dask", "--address", address
            )
            == expected
        )
    assert (
        materialize_by_command(workspace, tmp_path / "own", "--engine", "dask", "--jobs", "2")
        == expected
    )


def test_a_corpus_made_on_ray_has_the_expected_bytes(workspace, expected, tmp_path):
    assert (
        materialize_by_command(workspace, tmp_path / "c", "--engine", "ray", "--jobs", "2")
        == expected
    )


def test_spark_executors_that_have_only_the_wheel_give_the_expected_bytes(
    workspace, expected, tmp_path
):
    assert (
        materialize_by_command(
            workspace, tmp_path / "c", "--engine", "spark", "--address", SPARK_CLUSTER
        )
        == expected
    )


@pytest.mark.parametrize(
    "options",
    [("spark", "--address", SPARK_CLUSTER), ("dask", "--jobs", "2"), ("ray", "--jobs", "2")],
    ids=lambda options: options[0],
)
def test_workers_resolve_relative_paths_in_the_folder_of_the_driver(
    workspace, expected, tmp_path, options
):
    place = tmp_path / "here"
    place.mkdir()
    (place / "W").symlink_to(workspace)
    words = [
        "materialize",
        "W",
        "--out",
        "rel",
        "--packs",
        "packs",
        "--shard-size",
        SIZE,
        "--engine",
        *options,
    ]
    done = subprocess.run(
        [sys.executable, "-m", "nbaudio", *words],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        cwd=place,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert {name: (place / "rel" / name).read_bytes() for name in expected} == expected


@pytest.mark.parametrize(
    ("engine", "address", "said"),
    [
        ("spark", "local-cluster[2,1]", "Could not parse Master URL"),
        ("spark", "nonsense", "Master must either be yarn"),
        ("dask", "tcp://127.0.0.1:1", "tcp://127.0.0.1:1"),
        ("ray", "127.0.0.1:1", "127.0.0.1:1"),
    ],
)
def test_an_engine_that_cannot_be_reached_is_a_one_line_error(
    workspace, tmp_path, engine, address, said
):
    [line] = refused(workspace, tmp_path / "c", "--engine", engine, "--address", address)
    assert line.startswith(f"nbaudio: engine {engine}")
    assert said in line


def refused(workspace, out, *options):
    """The lines that the command line prints where an engine cannot be used."""
    done = subprocess.run(
        [sys.executable, "-m", "nbaudio", "materialize", workspace, "--out", out, *options],
        env=environment() | {"PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr.splitlines()


def test_beam_gives_the_expected_bytes_with_two_processes_and_passed_options(
    workspace, expected, tmp_path
):
    # Beam wants an older Arrow, which writes its version into tables: they are compared with those
    # of its own environment.
    own = materialize_by_command(workspace, tmp_path / "own", "--jobs", "2", python=WORKER)
    options = f"--job_name=corpus --temp_location={tmp_path / 'shared'}"
    (tmp_path / "shared").mkdir()
    beam = materialize_by_command(
        workspace,
        tmp_path / "c",
        "--engine",
        "beam",
        "--jobs",
        "2",
        "--beam-options",
        options,
        python=WORKER,
    )
    assert beam == own
    assert not list((tmp_path / "shared").iterdir())
    tars = {name: data for name, data in beam.items() if name.endswith(".tar")}
    assert tars == {name: data for name, data in expected.items() if name.endswith(".tar")}


@pytest.mark.parametrize(
    "options",
    [("dask",), ("ray",), ("spark", "--address", SPARK_CLUSTER), ("beam",)],
    ids=lambda options: options[0],
)
def test_align_gives_the_same_tables_on_every_engine(tmp_path, options):
    for part in ("h", "t"):
        (tmp_path / part).mkdir()
    for number in range(5):
        sitting = make_sitting(number, 60)
        (tmp_path / "h" / f"day {number}.ctm").write_text(sitting.ctm(f"day {number}"), "utf8")
        (tmp_path / "t" / f"day {number}.txt").write_text(sitting.text, "utf8")

    def tables(out, *further, python=sys.executable):
        command = [python, "-m", "nbaudio", "align", "h", "t", "--out", out, *further]
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr[-3000:]
        workspace = Workspace.open(tmp_path / out)
        return [workspace.table(name) for name in ("segments", "unmatched", "names", "recordings")]

    python = WORKER if options == ("beam",) else sys.executable
    one = tables("one", "--engine", "loky", "--jobs", "1", python=python)
    assert one[0]["recording_id"].n_unique() == 5
    other = tables("other", "--engine", *options, python=python)
    assert all(table.equals(same) for table, same in zip(one, other, strict=True))


@pytest.mark.parametrize("engine", ["loky", "threading", "dask", "ray", "spark"])
def test_engines_reraise_task_errors_and_take_few_tasks_ahead(engine):
    found = probe(engine)
    assert found["values"] == [1000 * number for number in range(1, 41)]
    assert found["error"].startswith("InputError: 'a lot' is not a size")
    assert found["taken before the first result"] <= 40
    assert found["results"] == 200


def test_without_an_engine_the_joblib_config_is_used(workspace, tmp_path):
    code = (
        "import sys, joblib, nbaudio, ray; from ray.util.joblib import register_ray; "
        "register_ray()\n"
        "with ray.init('local', num_cpus=2, include_dashboard=False), "
        "joblib.parallel_config(backend='ray', n_jobs=2):\n"
        f"    nbaudio.materialize(sys.argv[1], out=sys.argv[2], engine=None, shard_size='{SIZE}')"
    )
    command = [sys.executable, "-c", code, workspace, tmp_path / "c"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    one = materialize(workspace, out=tmp_path / "one", jobs=1, shard_size=SIZE, show_progress=False)
    assert one.facts["clips_cut_now"] == 0
    assert (tmp_path / "c/corpus.json").read_bytes() == (tmp_path / "one/corpus.json").read_bytes()


@pytest.mark.parametrize(
    "command",
    [
        ["scale.py", "--recordings", "40000", "--seconds", "0.3", "--driver-mb", "400"],
        ["engines.py", "--engines", "loky,threading", "--tasks", "20", "--work", "0.01"],
    ],
    ids=["40,000 tiny recordings in bounded memory of the driver", "overhead of engines"],
)
def test_the_engine_benchmarks_run(command):
    run = [sys.executable, str(TOP / "benchmarks" / command[0]), *command[1:]]
    done = subprocess.run(run, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "| loky |" in done.stdout


def lost(engine, tmp_path, times):
    """Results of 8 tasks, of which one kills its worker this many times; and the tasks that were
    lost for good."""
    command = [
        sys.executable if engine == "spark" else WORKER,
        str(TOP / "tests/heavy/engine_probe.py"),
        "lost",
        engine,
    ]
    command += [str(tmp_path / "deaths"), str(times)]
    worker = environment() | {"PYSPARK_PYTHON": WORKER, "PYTHONPATH": str(TOP / "tests/heavy")}
    done = subprocess.run(
        command, env=worker, capture_output=True, text=True, check=False, timeout=400
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


# What the command line of a worker without a task has in it (Ray's agents are `ray::` as well).
WORKER_COMMANDS = {"beam": "sdk_worker_main", "dask": "spawn_main", "ray": "ray::IDLE"}


def started_slowly(engine, folder, *address):
    """A run of slow tasks, which write what they do into a folder."""
    command = [
        WORKER if engine == "beam" else sys.executable,
        str(TOP / "tests/heavy/engine_probe.py"),
        "slow",
        engine,
        str(folder),
        *address,
    ]
    return subprocess.Popen(
        command,
        env=environment() | {"PYTHONPATH": str(TOP / "tests/heavy")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )


def worker_to_kill(run, engine, folder, moment):
    """The id of a process that has begun no task, has one, or has done its tasks and has none."""
    begun = [path.name.split(".") for path in folder.glob("*.begun")]
    if moment == "before":
        workers = [
            process.pid
            for process in psutil.Process(run.pid).children(recursive=True)
            if WORKER_COMMANDS[engine] in " ".join(process.cmdline())
        ]
        return workers[0] if workers and not begun else None
    if moment == "in":
        return int(begun[0][1]) if begun else None
    if len(list(folder.glob("*.done"))) < 7:
        return None
    [long_worker] = {worker for number, worker, _ in begun if number == "0"} or {""}
    idle = [int(worker) for _, worker, _ in begun if worker != long_worker]
    return idle[0] if idle else int(long_worker)


def killed_once(engine, folder, moment, *address):
    """The results of a run, of which one worker was killed at a moment."""
    run = started_slowly(engine, folder, *address)
    try:
        until = time.monotonic() + 120
        victim = None
        while victim is None and run.poll() is None:
            assert time.monotonic() < until
            with suppress(psutil.NoSuchProcess):
                victim = worker_to_kill(run, engine, folder, moment)
            time.sleep(0.01)
        assert victim is not None, run.communicate()
        os.kill(victim, signal.SIGKILL)
        output, errors = run.communicate(timeout=250)  # Ray waits a minute for a worker to start
    finally:
        run.kill()
        run.wait()
        for pipe in (run.stdout, run.stderr):  # other processes may still hold them open
            if pipe is not None:
                pipe.close()
    assert run.returncode == 0, errors[-3000:]
    return json.loads(output.splitlines()[-1])


@pytest.mark.parametrize("moment", ["before", "in", "after"])
@pytest.mark.parametrize("engine", ["beam", "dask", "ray"])
def test_a_worker_that_is_killed_at_any_moment_does_not_stop_a_run(engine, moment, tmp_path):
    assert killed_once(engine, tmp_path, moment) == [*range(8)]


@pytest.mark.parametrize("moment", ["in", "after"])
def test_tasks_of_a_killed_dask_worker_are_run_again(moment, tmp_path):
    with dask_cluster(tmp_path) as address:
        assert killed_once("dask", tmp_path, moment, address) == [*range(8)]


@contextmanager
def ray_cluster(folder):
    """A head node of Ray's command line with two processors; its address."""
    token = subprocess.run(
        [sys.executable, "-m", "ray.scripts.scripts", "get-auth-token", "--generate"],
        capture_output=True,
        check=False,
    )
    assert token.returncode == 0, token.stderr
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"]
    command += ["--port", address.rpartition(":")[2], "--num-cpus", "2"]
    command += ["--include-dashboard", "false", "--disable-usage-stats"]
    # Ray stores the address of a cluster there, for all who name none; a short path, for sockets.
    temporary = tempfile.mkdtemp(prefix="ray-")
    command += ["--temp-dir", temporary]
    log = folder / "ray.log"
    with log.open("w") as file:
        head = subprocess.Popen(
            command,
            env=environment() | {"PYTHONPATH": str(TOP / "tests/heavy")},  # has engine_probe
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
    try:
        until = time.monotonic() + 120
        while "Ray runtime started" not in log.read_text():
            assert head.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        yield address
    finally:
        head.terminate()
        head.wait(60)
        shutil.rmtree(temporary, ignore_errors=True)


def test_a_corpus_made_on_a_running_ray_cluster_has_the_expected_bytes(
    workspace, expected, tmp_path, monkeypatch
):
    with ray_cluster(tmp_path) as address:
        arguments = ("--engine", "ray", "--address", address)
        [line] = refused(workspace, tmp_path / "refused", *arguments)
        assert line.startswith(f"nbaudio: engine ray at {address}: ")
        assert "RAY_AUTH_MODE=token" in line
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        assert materialize_by_command(workspace, tmp_path / "c", *arguments) == expected
        for moment in ("in", "after"):
            folder = tmp_path / moment
            folder.mkdir()
            assert killed_once("ray", folder, moment, address) == [*range(8)]


@pytest.mark.parametrize("engine", ["spark", "beam"])
def test_tasks_of_a_killed_worker_are_run_again(engine, tmp_path):
    assert lost(engine, tmp_path, 2) == {"results": [*range(8)], "lost": []}
    assert len((tmp_path / "deaths").read_text()) == 2


@pytest.mark.parametrize("engine", ["spark", "beam"])
def test_a_task_that_kills_three_workers_is_named_and_the_others_finish(engine, tmp_path):
    assert lost(engine, tmp_path, 100) == {"results": [0, 1, 2, 4, 5, 6, 7], "lost": [3]}
    assert len((tmp_path / "deaths").read_text()) == 3
