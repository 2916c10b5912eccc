"""Clusters of Dask and Ray on this machine, the environment of their workers, and runs of which a
worker is killed.

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

TOP = Path(__file__).resolve().parents[2]
WORKER = os.environ["NBAUDIO_WORKER"]
# Two executors, each a JVM of its own that starts Python processes of the wheel's environment.
SPARK_CLUSTER = "local-cluster[2,1,1024]"
# What the command line of a worker without a task has in it (Ray's agents are `ray::` as well).
WORKER_COMMANDS = {"beam": "sdk_worker_main", "dask": "spawn_main", "ray": "ray::IDLE"}


def environment():
    """Nothing of the checkout is on the workers' path; Spark is the one that pip installed."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # What Spark's scripts look for, which are not there where pip has installed it.
    return inherited | {
        "PYSPARK_PYTHON": WORKER,
        "SPARK_SCALA_VERSION": "2.13",
        "PYTHONWARNINGS": "default",
    }


def checkout_environment(*folders):
    """That of programs of this Python whose workers run by this Python, too: they import nbaudio
    from the checkout, and modules from further folders."""
    return environment() | {"PYTHONPATH": os.pathsep.join(map(str, (TOP, *folders)))}


def command_line(*words, python=sys.executable):
    """The command of nbaudio with these words: of the wheel by the workers' Python, else of the
    checkout, whatever is installed.

    The checkout is not in PYTHONPATH, as Spark's executors inherit that, and they have only the
    wheel.
    """
    if python == WORKER:
        return [python, "-m", "nbaudio", *words]
    return [python, "-c", f"{_FROM_CHECKOUT}; from nbaudio.cli import main; main()", *words]


_FROM_CHECKOUT = f"import sys; sys.path.insert(0, {str(TOP)!r})"
_RUN_SCRIPT = (
    f"{_FROM_CHECKOUT}; import runpy; del sys.argv[0]; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


@contextmanager
def dask_cluster(folder):
    """A scheduler and two worker processes of the command line; its address."""
    file = ["--no-dashboard", "--scheduler-file", str(folder / "scheduler.json")]
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", *file]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", *file]
    quiet = {
        "env": checkout_environment(TOP / "tests/heavy"),  # has engine_probe
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
            env=checkout_environment(TOP / "tests/heavy"),  # has engine_probe
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


def probe_command(action, engine, *arguments):
    """The command of engine_probe, and its environment, with which workers import engine_probe."""
    start = [WORKER] if engine == "beam" else [sys.executable, "-c", _RUN_SCRIPT]
    command = [*start, str(TOP / "tests/heavy/engine_probe.py"), action, engine, *arguments]
    # Ray waits so long for a worker that was killed while it started; its default is a minute.
    seconds = {"RAY_worker_register_timeout_seconds": "20"}
    return command, environment() | seconds | {"PYTHONPATH": str(TOP / "tests/heavy")}


def probe(action, engine, *arguments):
    """What engine_probe prints."""
    command, variables = probe_command(action, engine, *arguments)
    done = subprocess.run(
        command, env=variables, capture_output=True, text=True, check=False, timeout=400
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def started_slowly(engine, folder, *address):
    """A run of slow tasks, which write what they do into a folder."""
    command, variables = probe_command("slow", engine, str(folder), *address)
    return subprocess.Popen(
        command,
        env=variables,
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
        output, errors = run.communicate(timeout=250)
    finally:
        run.kill()
        run.wait()
        for pipe in (run.stdout, run.stderr):  # other processes may still hold them open
            if pipe is not None:
                pipe.close()
    assert run.returncode == 0, errors[-3000:]
    return json.loads(output.splitlines()[-1])
