"""Random faults: drivers and workers are killed, disks are full; nothing is lost, the bytes equal
those of an undisturbed run.

NBAUDIO_KILLS says how many processes are killed (`make soak`), NBAUDIO_SEED when.
"""

import json
import os
import random
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import polars as pl
import psutil
import pytest
from faults import SIZE, contents, cut_or_die, die_once, die_unless, soak, started, workers_of
from killed_steps import (
    empty_bucket,
    measure_step,
    recognize_step,
    s3_step,
    soak_step,
    withdraw_step,
)
from s3_server import s3_server

from nbaudio import materialize, measure, status, verify
from nbaudio.core.errors import WorkerLostError
from nbaudio.engine import EngineLocation, worker_pool

KILLS = int(os.environ.get("NBAUDIO_KILLS", "8"))
SEED = int(os.environ.get("NBAUDIO_SEED", "7"))


# Of the steps measure, recognize, withdraw and materialize to a store; the others are of
# materialize to a folder.
KILLS_OF_A_STEP = KILLS // 8


@pytest.fixture
def store():
    """The URL of an S3 server with the bucket ``soak``."""
    with s3_server("soak") as url:
        yield url


@pytest.fixture
def workspace(make_workspace):
    return make_workspace(
        {f"r{i}.flac": (60.0, 48000) for i in range(5)}, every=1.9, length=1.5
    ).path


def test_runs_killed_at_any_moment_end_with_the_same_bytes(workspace, tmp_path):
    kills = KILLS - 4 * KILLS_OF_A_STEP
    counts = soak(workspace, tmp_path, kills=kills, seed=SEED)
    print("materialize", dict(counts))
    assert counts["kills"] == kills
    assert counts["finished"] > 0


@pytest.mark.parametrize("step", [measure_step(), recognize_step()], ids=lambda step: step.name)
def test_steps_killed_at_any_moment_end_with_the_same_tables(workspace, tmp_path, step):
    counts = soak_step(step, workspace, tmp_path, kills=KILLS_OF_A_STEP, chance=random.Random(SEED))
    print(step.name, dict(counts))
    assert counts["kills"] == KILLS_OF_A_STEP
    assert counts["finished"] > 0


def test_a_withdrawal_killed_at_any_moment_is_finished_by_the_same_call(workspace, tmp_path):
    measure(workspace, jobs=2, show_progress=False)
    materialize(workspace, out=tmp_path / "c", jobs=2, shard_size=SIZE, show_progress=False)
    counts = soak_step(
        withdraw_step(), workspace, tmp_path, kills=KILLS_OF_A_STEP, chance=random.Random(SEED)
    )
    print("withdraw", dict(counts))
    assert counts["kills"] == KILLS_OF_A_STEP


def test_a_killed_run_into_a_store_ends_with_the_same_objects(workspace, tmp_path, store):
    counts = soak_step(
        s3_step(store, "soak"),
        workspace,
        tmp_path,
        kills=KILLS_OF_A_STEP,
        chance=random.Random(SEED),
        begin=partial(empty_bucket, store, "soak"),
    )
    print("s3", dict(counts))
    assert counts["kills"] == KILLS_OF_A_STEP


def test_tasks_of_killed_cluster_workers_are_run_again(workspace, tmp_path):
    counts = soak(workspace, tmp_path, kills=1, seed=SEED, engine="dask", victims=["worker"])
    assert counts["worker"] == 1
    assert counts["finished"] >= 1


def test_tasks_of_a_worker_that_is_killed_are_done_by_others(tmp_path):
    tasks = [tmp_path / str(number) for number in range(9)]
    with worker_pool(EngineLocation("loky", 2)) as run:
        assert sorted(run(die_once, tasks)) == sorted(map(str, tasks))


def test_a_task_that_always_kills_its_worker_ends_the_run_in_one_line(tmp_path):
    with (
        pytest.raises(WorkerLostError, match="lost 3 times over the same tasks"),
        worker_pool(EngineLocation("loky", 2)) as run,
    ):
        list(run(die_unless, ["good", "bad", "good"]))


def test_a_run_continues_after_the_disk_was_full_at_any_point(workspace, tmp_path):
    disk, quiet = tmp_path / "disk", tmp_path / "quiet"
    disk.mkdir()
    # Whoever may not mount anything, in a namespace of their own, limits the length of files
    # instead.
    mounted = (
        subprocess.run(
            ["unshare", "-rm", "mount", "-t", "tmpfs", "none", disk],
            capture_output=True,
            check=False,
        ).returncode
        == 0
    )
    script = [
        sys.executable,
        Path(__file__).with_name("full_disk.py"),
        workspace,
        disk,
        "mounted" if mounted else "limited",
    ]
    # What is in memory goes with the namespace: it is copied out.
    steps = (
        'mount -t tmpfs -o size=8k none "$0" && "$@" && mkdir "$OUT" && cp -r "$0/corpus/." "$OUT"'
    )
    command = ["unshare", "-rm", "sh", "-c", steps, disk, *script] if mounted else script
    out = tmp_path / "out" if mounted else disk / "corpus"
    run = subprocess.run(
        list(map(str, command)),
        env=os.environ | {"OUT": str(out)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    full = json.loads(run.stdout)
    assert full["cut"] > 0
    assert full["pack"] > 0
    assert not mounted or full["publish"] > 0
    materialize(
        workspace, out=quiet, jobs=2, engine="threading", shard_size=SIZE, show_progress=False
    )
    assert contents(out) == contents(quiet)
    assert verify(out, jobs=1, show_progress=False).problems == []


def test_workers_end_when_their_driver_is_killed(workspace, tmp_path):
    run = started(workspace, tmp_path / "c")
    wait_for(lambda: len(workers_of(run, "loky")) == 2, seconds=60.0)
    workers = workers_of(run, "loky")
    run.kill()
    run.wait()
    assert status(tmp_path / "c").facts["state"] == "killed"
    wait_for(
        lambda: (
            not any(
                worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE
                for worker in workers
            )
        )
    )
    run.stderr.close()


def wait_for(condition, seconds=10.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_recording_that_kills_its_worker_is_rejected_and_others_are_cut(
    workspace, tmp_path, monkeypatch
):
    monkeypatch.setattr("nbaudio.corpus.materialize.cut", cut_or_die)
    report = materialize(
        workspace, out=tmp_path / "c", jobs=2, shard_size=SIZE, show_progress=False
    )
    assert report.problems
    assert all(
        "r2.flac: the worker that decodes it is killed" in line for line in report.problems[:-1]
    )
    assert set(pl.read_parquet(tmp_path / "c/segments.parquet")["recording_id"]) == {
        "r0",
        "r1",
        "r3",
        "r4",
    }
    assert verify(tmp_path / "c", jobs=1, show_progress=False).problems == []
