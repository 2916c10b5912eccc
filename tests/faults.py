"""Fault injection: runs killed at seeded random points, full disks; all remaining files must be
complete."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import psutil

from nbaudio import status, verify
from nbaudio.core.atomic import remove
from nbaudio.corpus.cutting import ClipFormat, CutResult, CutTask, cut
from nbaudio.corpus.packs import read_clips, read_index
from nbaudio.storage import run_log

SIZE = "60kB"
# Many small tasks, so that a kill may fall between any two of them.
RUN = (
    "import sys; from nbaudio import materialize; from nbaudio.corpus import plan; "
    "plan._TASK_SECONDS = 8.0\n"
    "materialize(sys.argv[1], out=sys.argv[2], jobs=int(sys.argv[3]), "
    f"engine=sys.argv[4], shard_size='{SIZE}')"
)
VICTIMS = ("driver", "worker", "all")
# What the command line of a worker has in it.
WORKERS = {"loky": "loky.backend.popen", "dask": "spawn_main", "ray": "ray::PoolActor"}


def contents(folder: Path) -> dict[str, str]:
    """Every file that has a final name, with its hash."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith(".partial") and ".work" not in path.parts
    }


def started(workspace: Path, out: Path, *, jobs: int = 2, engine: str = "loky") -> subprocess.Popen:
    """A run in a separate process, which has begun its first stage (or is over already)."""
    command = [sys.executable, "-c", RUN, str(workspace), str(out), str(jobs), engine]
    run = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    log = out / ".work/log.jsonl"
    while run.poll() is None and not _has_begun(run_log.read(log), run.pid):
        time.sleep(0.005)
    return run


def _has_begun(lines: list[dict], pid: int) -> bool:
    """Whether the run of a process has entered its first stage, by the lines of its log."""
    began = next(
        (number for number, line in enumerate(lines) if line.get("pid") == pid), len(lines)
    )
    return any(line["event"] == "stage" for line in lines[began:])


def workers_of(run: subprocess.Popen, engine: str) -> list[psutil.Process]:
    """Processes of a run that do its tasks."""
    return [
        child
        for child in psutil.Process(run.pid).children(recursive=True)
        if WORKERS[engine] in " ".join(child.cmdline())
    ]


def kill(run: subprocess.Popen, victim: str, chance: random.Random, engine: str = "loky") -> bool:
    """Kill the driver of a run, one of its workers, or all of its processes; whether there was
    something to kill."""
    try:
        if victim == "worker":
            chance.choice(workers_of(run, engine)).kill()
        elif victim == "driver":
            run.kill()
        else:
            os.killpg(run.pid, signal.SIGKILL)
    except (psutil.NoSuchProcess, ProcessLookupError, IndexError):
        return False
    return True


def check_packs(packs: Path) -> None:
    """All packs with a final name are whole, to the last byte."""
    for path in packs.glob("*.pack"):
        index = read_index(path)
        assert index is not None, path
        assert sum(map(len, read_clips(index))) == index["length"].sum()


def soak(
    workspace: Path,
    folder: Path,
    *,
    kills: int,
    seed: int,
    engine: str = "loky",
    victims: Sequence[str] = VICTIMS,
) -> Counter:
    """Make a corpus again and again, killed at random, until so many processes were killed.

    Returns:
        How often each victim was killed, in which stage, and how many corpora were finished.
    """
    chance = random.Random(seed)
    quiet = started(workspace, folder / "whole", engine=engine)
    began = time.monotonic()
    said = quiet.communicate()[1]
    assert quiet.returncode == 0, said
    span, wanted = time.monotonic() - began, contents(folder / "whole")
    assert verify(folder / "whole", jobs=1, show_progress=False).problems == []
    corpus, packs, counts = folder / "killed", workspace / "packs", Counter()
    while counts["kills"] < kills or corpus.exists():
        if not corpus.exists() and chance.random() < 0.7:
            for pack in packs.iterdir():
                pack.unlink()
        victim = chance.choice(victims) if counts["kills"] < kills else "nobody"
        run = started(
            workspace,
            corpus,
            jobs=chance.choice([1, 2, 3]) if engine == "loky" else 2,
            engine=engine,
        )
        if victim != "nobody":
            time.sleep(chance.uniform(0, span))
            if run.poll() is None and kill(run, victim, chance, engine):
                counts["kills"] += 1
                if counts["kills"] % 25 == 0:
                    print(dict(counts), flush=True)
                counts[victim] += 1
        said = run.communicate()[1]
        told = status(corpus)
        if victim != "worker" and run.returncode == -signal.SIGKILL:
            counts[f"in {told.facts.get('stage')}"] += 1
            assert told.facts["state"] in ("killed", "finished")
            assert contents(corpus).items() <= wanted.items()
            check_packs(packs)
        else:
            assert run.returncode == 0, said
            assert told.facts["state"] == "finished"
            assert contents(corpus) == wanted
            assert not [path for path in corpus.rglob("*") if path.name.startswith(".")]
            counts["finished"] += 1
            remove(corpus)
    return counts


def die_once(path: Path) -> str:
    """Kills its process when it is first called for a path that ends in 4."""
    if path.name == "4" and not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return str(path)


def die_unless(what: str) -> str:
    """A task that kills its worker, unless its argument is "good"."""
    if what != "good":
        os.kill(os.getpid(), signal.SIGKILL)
    return what


def cut_or_die(clip_format: ClipFormat, task: CutTask, *, measured: bool = False) -> CutResult:
    """As `packs.cut`, but one recording kills whoever cuts it."""
    if any(source.path.name == "r2.flac" for source in task.sources):
        os.kill(os.getpid(), signal.SIGKILL)
    return cut(clip_format, task, measured=measured)
