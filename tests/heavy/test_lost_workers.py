"""Workers of clusters that nbaudio starts are killed at any moment, and by their own tasks;
test_engines.py kills those of running clusters, test_faults.py those of Dask at random."""

import pytest
from clusters import killed_once, probe


@pytest.mark.parametrize(
    ("engine", "moment"),
    [("beam", "before"), ("beam", "after"), ("dask", "after"), ("ray", "in")],
)
def test_a_worker_that_is_killed_at_any_moment_does_not_stop_a_run(engine, moment, tmp_path):
    assert killed_once(engine, tmp_path, moment) == [*range(8)]


@pytest.mark.parametrize("engine", ["spark", "beam"])
def test_a_task_that_kills_two_workers_is_run_again_and_one_that_kills_three_is_named(
    engine, tmp_path
):
    twice, always = tmp_path / "twice", tmp_path / "always"
    found = probe("lost", engine, f"{twice},2", f"{always},100")
    assert found == [
        {"results": [*range(8)], "lost": []},
        {"results": [0, 1, 2, 4, 5, 6, 7], "lost": [3]},
    ]
    assert len(twice.read_text()) == 2
    assert len(always.read_text()) == 3
