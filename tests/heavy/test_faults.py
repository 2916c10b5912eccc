"""Things break at random: drivers and workers are killed, disks are full; nothing is lost, the bytes are those of a quiet run.

NBAUDIO_KILLS says how many processes are killed (`make soak`), NBAUDIO_SEED when.
"""

import os

import pytest
from faults import die_once, die_unless, soak

from nbaudio.engine import Site, run_tasks
from nbaudio.errors import WorkerLostError

KILLS = int(os.environ.get("NBAUDIO_KILLS", "20"))
SEED = int(os.environ.get("NBAUDIO_SEED", "7"))


@pytest.fixture
def workspace(make_workspace):
    return make_workspace({f"r{i}.flac": (60.0, 48000) for i in range(5)}, every=1.9, length=1.5).path


def test_runs_that_are_killed_anywhere_end_with_the_same_bytes(workspace, tmp_path):
    counts = soak(workspace, tmp_path, kills=KILLS, seed=SEED)
    print(dict(counts))
    assert counts["kills"] == KILLS
    assert counts["finished"] > 0


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_workers_of_clusters_that_are_killed_are_made_up_for(workspace, tmp_path, engine):
    counts = soak(workspace, tmp_path, kills=3, seed=SEED, engine=engine, victims=["worker"])
    assert counts["worker"] == 3
    assert counts["finished"] >= 3


def test_tasks_of_a_worker_that_is_killed_are_done_by_others(tmp_path):
    tasks = [tmp_path / str(number) for number in range(9)]
    assert sorted(run_tasks(die_once, tasks, site=Site(2))) == sorted(map(str, tasks))


def test_a_task_that_always_kills_its_worker_ends_the_run_in_one_line(tmp_path):
    with pytest.raises(WorkerLostError, match="lost 3 times over the same tasks"):
        list(run_tasks(die_unless, ["good", "bad", "good"], site=Site(2)))
