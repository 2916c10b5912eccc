"""Engines on local clusters: the same bytes as one job, the same errors, tasks taken as workers
become free, and workers of running clusters that are killed.

NBAUDIO_WORKER names the Python of an environment that was made from nbaudio's wheel (and Beam)
alone: see .ci/run. test_lost_workers.py has workers of clusters that nbaudio starts.
"""

import subprocess
import sys
from pathlib import Path

import pytest
from clusters import (
    SPARK_CLUSTER,
    TOP,
    WORKER,
    checkout_environment,
    command_line,
    dask_cluster,
    environment,
    killed_once,
    probe,
    ray_cluster,
)
from sittings import make_sitting

from nbaudio import Workspace, materialize

SIZE = "40kB"


@pytest.fixture
def workspace(make_workspace):
    made = make_workspace(
        {f"r{i}.flac": (60.0, 16000) for i in range(3)} | {"s.wav": (40.0, 44100)}
    )
    return made.path


@pytest.fixture(scope="module")
def made_once():
    """Results that are the same in all tests, by name, filled by the first test that needs them."""
    return {}


@pytest.fixture
def expected(workspace, tmp_path, made_once):
    """The bytes of the corpus that one job makes of the workspace, which all tests make alike."""
    if "corpus" not in made_once:
        out, packs = tmp_path / "one", tmp_path / "packs of one"
        materialize(
            workspace,
            out=out,
            packs=packs,
            jobs=1,
            shard_size=SIZE,
            signals=True,
            show_progress=False,
        )
        (workspace / "signals.parquet").unlink(missing_ok=True)  # the next engine shall measure
        made_once["corpus"] = contents(out)
        assert len([name for name in made_once["corpus"] if name.endswith(".tar")]) > 6
    return made_once["corpus"]


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    """The options that name a running cluster of Dask."""
    with dask_cluster(tmp_path_factory.mktemp("dask")) as address:
        yield ["--engine", "dask", "--address", address]


@pytest.fixture(scope="module")
def ray(tmp_path_factory):
    """The options that name a running cluster of Ray, which takes tokens."""
    with ray_cluster(tmp_path_factory.mktemp("ray")) as address:
        yield ["--engine", "ray", "--address", address]


@pytest.fixture
def options(request, monkeypatch):
    """Options of the command line for an engine: a running cluster where it has one."""
    engine = request.param
    if engine in ("dask", "ray"):
        running = request.getfixturevalue(engine)
        monkeypatch.setenv("RAY_AUTH_MODE", "token")  # for who uses the cluster, not its own
        return running
    return ["--engine", engine, *(["--address", SPARK_CLUSTER] if engine == "spark" else [])]


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def run(folder, *words, python=sys.executable):
    """Call the command line in a folder; it succeeds."""
    done = subprocess.run(
        command_line(*words, python=python),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def materialize_by_command(workspace, folder, *options, python=sys.executable):
    """The bytes of a corpus that the command line has made, called in a folder with relative
    paths."""
    folder.mkdir()
    (folder / "W").symlink_to(workspace)
    words = ["W", "--out", "C", "--packs", "packs", "--shard-size", SIZE, "--signals"]
    run(folder, "materialize", *words, *options, python=python)
    (workspace / "signals.parquet").unlink(missing_ok=True)  # the next engine shall measure
    return contents(folder / "C")


def refused(workspace, out, *options):
    """The lines that the command line prints where an engine cannot be used."""
    done = subprocess.run(
        command_line("materialize", workspace, "--out", out, *options),
        # Dask would try for half a minute.
        env=environment()
        | {"PYTHONWARNINGS": "ignore", "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr.splitlines()


def test_the_worker_environment_imports_nbaudio_from_the_wheel():
    code = "import nbaudio; print(nbaudio.__file__)"
    found = subprocess.run(
        [WORKER, "-c", code], env=environment(), capture_output=True, text=True, check=True, cwd="/"
    )
    assert "site-packages" in found.stdout
    assert not Path(found.stdout).is_relative_to(TOP / "nbaudio")


@pytest.mark.parametrize("options", ["dask", "ray", "spark"], indirect=True)
def test_a_corpus_made_on_a_cluster_from_relative_paths_has_the_expected_bytes(
    workspace, expected, tmp_path, options
):
    """Executors of Spark have only the wheel."""
    assert materialize_by_command(workspace, tmp_path / "here", *options) == expected


def test_three_jobs_of_loky_give_the_expected_bytes(workspace, expected, tmp_path):
    assert materialize_by_command(workspace, tmp_path / "3", "--jobs", "3") == expected


def test_beam_gives_the_expected_bytes_with_two_processes_and_passed_options(
    workspace, expected, tmp_path
):
    # Beam wants an older Arrow, which writes its version into tables: they are compared with those
    # of its own environment.
    own = materialize_by_command(workspace, tmp_path / "own", "--jobs", "2", python=WORKER)
    passed = f"--job_name=corpus --temp_location={tmp_path / 'shared'}"
    (tmp_path / "shared").mkdir()
    options = ("--engine", "beam", "--jobs", "2", "--beam-options", passed)
    beam = materialize_by_command(workspace, tmp_path / "here", *options, python=WORKER)
    assert beam == own
    assert not list((tmp_path / "shared").iterdir())
    tars = {name: data for name, data in beam.items() if name.endswith(".tar")}
    assert tars == {name: data for name, data in expected.items() if name.endswith(".tar")}


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


def test_a_ray_cluster_that_takes_tokens_refuses_who_has_none_in_one_line(workspace, tmp_path, ray):
    [line] = refused(workspace, tmp_path / "c", *ray)
    assert line.startswith(f"nbaudio: engine ray at {ray[-1]}: ")
    assert "RAY_AUTH_MODE=token" in line


@pytest.fixture(scope="module")
def sittings(tmp_path_factory):
    """A folder with the hypotheses and the transcripts of five sittings."""
    folder = tmp_path_factory.mktemp("sittings")
    for part in ("h", "t"):
        (folder / part).mkdir()
    for number in range(5):
        sitting = make_sitting(number, 60)
        (folder / "h" / f"day {number}.ctm").write_text(sitting.ctm(f"day {number}"), "utf8")
        (folder / "t" / f"day {number}.txt").write_text(sitting.text, "utf8")
    return folder


def aligned(sittings, out, *options, python=sys.executable):
    """The tables that `align` makes of the sittings."""
    run(sittings, "align", "h", "t", "--out", out, *options, python=python)
    workspace = Workspace.open(out)
    return [workspace.table(name) for name in ("segments", "unmatched", "names", "recordings")]


# Executors of Spark, which start slowly, run the tasks of `materialize` above.
@pytest.mark.parametrize(
    ("engine", "options"),
    [("dask", "dask"), ("ray", "ray"), ("beam", "beam")],
    indirect=["options"],
    ids=["dask", "ray", "beam"],
)
def test_align_gives_the_same_tables_on_other_engines_than_spark(
    sittings, tmp_path, engine, options, made_once
):
    python = WORKER if engine == "beam" else sys.executable
    if python not in made_once:
        loky = ("--engine", "loky", "--jobs", "1")
        made_once[python] = aligned(sittings, tmp_path / "one", *loky, python=python)
        assert made_once[python][0]["recording_id"].n_unique() == 5
    tables = aligned(sittings, tmp_path / "other", *options, python=python)
    assert all(table.equals(same) for table, same in zip(made_once[python], tables, strict=True))


@pytest.mark.parametrize("engine", ["loky", "threading", "dask", "ray", "spark"])
def test_engines_reraise_task_errors_and_take_few_tasks_ahead(engine):
    found = probe("plain", engine)
    assert found["values"] == [1000 * number for number in range(1, 41)]
    assert found["error"].startswith("InputError: 'a lot' is not a size")
    assert found["taken before the first result"] <= 40
    assert found["results"] == 80


def test_without_an_engine_the_joblib_config_is_used(workspace, tmp_path, dask):
    code = (
        "import sys, distributed, joblib, nbaudio\n"
        "with distributed.Client(sys.argv[3]) as client, "
        "joblib.parallel_config(backend='dask'):\n"
        f"    nbaudio.materialize(sys.argv[1], out=sys.argv[2], engine=None, shard_size='{SIZE}')\n"
        "    tasks = client.run_on_scheduler("
        "lambda dask_scheduler: dask_scheduler.transition_counter)\n"
        "assert tasks > 0"
    )
    command = [sys.executable, "-c", code, workspace, tmp_path / "c", dask[-1]]
    done = subprocess.run(
        command, env=checkout_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    one = materialize(workspace, out=tmp_path / "one", jobs=1, shard_size=SIZE, show_progress=False)
    assert one.facts["clips_cut_now"] == 0
    assert (tmp_path / "c/corpus.json").read_bytes() == (tmp_path / "one/corpus.json").read_bytes()


@pytest.mark.parametrize(
    ("options", "moment"), [("dask", "in"), ("ray", "after")], indirect=["options"]
)
def test_tasks_of_a_killed_worker_of_a_running_cluster_are_run_again(moment, options, tmp_path):
    _, engine, _, address = options
    assert killed_once(engine, tmp_path, moment, address) == [*range(8)]


@pytest.mark.parametrize(
    "command",
    [
        ["scale.py", "--recordings", "20000", "--seconds", "0.3", "--driver-mb", "400"],
        ["engines.py", "--engines", "loky,threading", "--tasks", "20", "--work", "0.01"],
    ],
    ids=["20,000 tiny recordings in bounded memory of the driver", "overhead of engines"],
)
def test_the_engine_benchmarks_run(command):
    run = [sys.executable, str(TOP / "benchmarks" / command[0]), *command[1:]]
    done = subprocess.run(
        run, env=checkout_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "| loky |" in done.stdout
