"""Killed at any moment, a run leaves only complete files under final names; the next run finishes
with the same bytes."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nbaudio.corpus.materialize import materialize
from nbaudio.corpus.verify import verify
from nbaudio.tables.workspace import Workspace

RUN = (
    "import sys; from nbaudio import materialize; materialize(sys.argv[1], "
    "out=sys.argv[2], jobs=2, shard_size='150kB')"
)

# When to kill: each looks at the workspace's packs and the corpus folder, and is true from that
# moment on.
MOMENTS: dict[str, Callable[[Path, Path], bool]] = {
    "claimed": lambda packs, corpus: (corpus / ".work/identity.json").exists(),
    "first pack begun": lambda packs, corpus: any(packs.glob(".*.partial")),
    "first pack done": lambda packs, corpus: any(packs.glob("*.pack")),
    "first shard begun": lambda packs, corpus: any(corpus.glob("t*/.*.partial")),
    "half of the shards": lambda packs, corpus: len(list(corpus.glob("*/*.tar"))) >= 5,
    "tables written": lambda packs, corpus: (corpus / "rejected.parquet").exists(),
}


def contents(folder: Path) -> dict[str, str]:
    """Every file that has a final name, with its hash."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(".partial") and ".work" not in path.parts
    }


@pytest.fixture
def workspace(make_workspace: Callable[..., Workspace]) -> Workspace:
    return make_workspace({f"r{i}.flac": (30.0, 24000) for i in range(4)}, every=1.5, length=1.2)


WANTED: dict[str, str] = {}


def wanted_of(workspace: Workspace, out: Path) -> dict[str, str]:
    """The files of a run that was not killed, made once: workspaces of different names give equal
    corpora."""
    if not WANTED:
        materialize(workspace, out=out, jobs=1, shard_size="150kB", show_progress=False)
        WANTED.update(contents(out))
    return WANTED


DEFAULT = {"half of the shards"}


@pytest.mark.parametrize(
    "moment",
    [pytest.param(name, marks=() if name in DEFAULT else pytest.mark.slow) for name in MOMENTS],
)
@pytest.mark.slow
def test_a_killed_run_is_finished_by_another_with_the_same_bytes(
    workspace: Workspace, tmp_path: Path, moment: str
) -> None:
    packs, corpus = workspace.path / "packs", tmp_path / "killed"
    run = subprocess.Popen(
        [sys.executable, "-c", RUN, workspace.path, corpus],
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while run.poll() is None and not MOMENTS[moment](packs, corpus):
        assert time.monotonic() < deadline
        time.sleep(0.0005)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    left = contents(corpus)

    jobs = 1 + list(MOMENTS).index(moment) % 3
    report = materialize(workspace, out=corpus, jobs=jobs, shard_size="150kB", show_progress=False)
    assert report.problems == []
    assert verify(corpus, jobs=1, show_progress=False).problems == []
    assert not list(corpus.rglob("*.partial"))

    wanted = wanted_of(workspace, tmp_path / "whole")
    assert contents(corpus) == wanted
    assert left.items() <= wanted.items()
    assert report.facts["shards_kept_from_before"] == sum(name.endswith(".tar") for name in left)
