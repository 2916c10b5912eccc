"""Cut tasks are run with a progress bar, also past recordings that kill their workers."""

from contextlib import contextmanager

import pytest

from nbaudio.core.errors import WorkerLostError
from nbaudio.corpus import cut_runs
from nbaudio.corpus.cut_runs import run_cut_tasks
from nbaudio.corpus.cut_tasks import CutAmount, named_task
from nbaudio.corpus.cutting import CutResult, Source
from nbaudio.storage.location import location

CLIP_KEYS = {"a": ["a1", "a2"], "b": ["b1"], "bad": ["bad1", "bad2"], "c": ["c1"]}
HOUR = 3600.0


@pytest.fixture
def tasks(tmp_path):
    """Three tasks of two hours each: of one recording, of two of which one is bad, and of one."""
    sources = {
        name: Source(
            recording_id=name,
            path=location(tmp_path / f"{name}.wav"),
            num_samples=1,
            sha256=None,
            num_bytes=None,
            version=None,
            windows=tuple((key, 0, 1, "mix") for key in keys),
        )
        for name, keys in CLIP_KEYS.items()
    }
    parts = (["a"], ["b", "bad"], ["c"])
    packs = location(tmp_path)
    return [named_task([sources[name] for name in part], packs, 2 * HOUR) for part in parts]


@pytest.fixture
def shown(monkeypatch):
    """What the progress shows: the total, each amount and the notes."""
    lines = []

    @contextmanager
    def progress(what, total, unit, *, show):
        lines.append((what, total, unit, show))
        yield lines.append

    monkeypatch.setattr(cut_runs, "progress", progress)
    monkeypatch.setattr(cut_runs, "progress_note", lines.append)
    return lines


def run_tasks(function, tasks):
    """Run tasks as an engine does; a recording named bad kills its worker."""
    for task in tasks:
        if any(source.recording_id == "bad" for source in task.sources):
            raise WorkerLostError("lost 3 times", [task])
        yield function(task)


def cut(task):
    """Return the keys of the clips of a task as values."""
    keys = [key for source in task.sources for key, *_ in source.windows]
    return CutResult(task.seconds, {}, dict.fromkeys(keys))


def test_a_recording_that_kills_its_worker_fails_alone_and_all_audio_counts(tasks, shown):
    amount = CutAmount(num_clips=6, seconds=6 * HOUR)
    results = list(run_cut_tasks(run_tasks, "measure", cut, amount, tasks, show=False))
    assert [list(result.values) for result in results] == [["a1", "a2"], ["b1"], [], ["c1"]]
    failures = results[2].failures
    assert list(failures) == ["bad1", "bad2"]
    assert failures["bad1"].startswith("bad.wav: the worker that decodes it is killed")
    first, *later = shown
    assert first == ("measure", 6.0, "h of audio", False)
    assert later == [2.0, 1.0, *failures.values(), 1.0, 2.0]


def test_without_clips_nothing_is_run_or_shown(tasks, shown):
    amount = CutAmount(num_clips=0, seconds=0.0)
    assert list(run_cut_tasks(run_tasks, "measure", cut, amount, tasks, show=True)) == []
    assert shown == []
