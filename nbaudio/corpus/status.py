"""Progress of a corpus that is being made.

It is read from any process, also after the run was killed.
"""

import shlex
from datetime import timedelta
from pathlib import Path
from typing import Any

from nbaudio.core.errors import InputError
from nbaudio.core.progress_text import rate_and_time_left, speed_text
from nbaudio.core.report import Report, first_lines
from nbaudio.core.tracebacks import interruptible
from nbaudio.corpus.layout import (
    CORPUS_JSON,
    IDENTITY,
    UNREADABLE_AUDIO,
    Layout,
    read_corpus_info,
)
from nbaudio.corpus.shard_names import shard_names
from nbaudio.storage import run_log
from nbaudio.storage.folders import Folder, folder_at

_RESUME = "run the same command again: finished work is kept"


@interruptible
def status(corpus: str | Path, *, workspace: str | Path | None = None) -> Report:
    """Report the progress of a corpus, whether a run is active, and what to do next.

    Nothing is changed.

    Args:
        corpus: the folder that `materialize` or `convert` writes to, or its URL.
        workspace: that it is made from; it holds the log of a corpus at a URL, and of a finished
            run.

    Returns:
        `state` is ``running``, ``stopped``, ``failed``, ``killed`` or ``finished``. Unless it is
        finished: its stage; `done` of `total`, in `unit`; `rate` in units per second, `speed` in
        words, and the time left at that rate; how many segments failed so far; when it began and
        last wrote to its log (UTC). Problems are what failed, and a run that needs to be run again.

    Raises:
        InputError: there is no corpus, and no run has started one.
    """
    folder = folder_at(corpus)
    is_local = folder.place.local is not None
    if is_local or workspace:
        log = Layout.at(corpus, Path(workspace or "")).log
    else:
        log = None
    has_corpus = folder.exists(CORPUS_JSON)
    is_claimed = folder.exists(IDENTITY)
    lines = run_log.read(log) if log else []
    if not has_corpus and not is_claimed and not lines:
        raise InputError(f"{folder}: no {CORPUS_JSON}, and no run has started there (not a corpus)")
    # A run still cleans up after it has written corpus.json.
    if has_corpus and not is_claimed and not (log and run_log.alive(log)):
        return _finished(folder)
    if not log or not lines:
        return _without_log(folder, is_local=is_local)
    try:
        return _unfinished(folder, log, lines)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise InputError(
            f"{log}: not the log of a run ({type(error).__name__}: {error})"
        ) from error


def _finished(folder: Folder) -> Report:
    """Report what a finished corpus has."""
    corpus_info = read_corpus_info(folder)
    splits = corpus_info["splits"].values()
    failures = corpus_info["rejected"].get(UNREADABLE_AUDIO, 0)
    facts = {
        "corpus": str(folder),
        "state": "finished",
        "alive": False,
        "kept": sum(split["segments"] for split in splits),
        "hours": round(sum(split["hours"] for split in splits), 6),
        "rejected": sum(corpus_info["rejected"].values()),
        "failures": failures,
        "shards": len(corpus_info["shards"]),
        "next": next_step(folder, failed=failures),
    }
    return Report("status", facts)


def _without_log(folder: Folder, *, is_local: bool) -> Report:
    """Report on an unfinished corpus whose log is missing, or in a workspace that is not named."""
    facts: dict[str, Any] = {
        "corpus": str(folder),
        "state": "not finished",
        "shards_there": len(shard_names(folder)),
    }
    if not is_local:
        facts["log"] = "in the workspace: --workspace W shows it"
    facts["next"] = _RESUME
    return Report("status", facts, problems=["it is not finished"])


def next_step(corpus: object, *, failed: int) -> str:
    """Return what to do with a finished corpus, `failed` segments of which could not be cut."""
    verify = f"nbaudio verify {shlex.quote(str(corpus))}"
    if not failed:
        return verify
    recordings = (
        f"the recordings with reason {UNREADABLE_AUDIO} in rejected.parquet ({failed:,} segments)"
    )
    return f"repair {recordings} and run the same command again, or continue: {verify}"


def _unfinished(folder: Folder, log: Path, lines: list[dict[str, Any]]) -> Report:
    """Report on the last run in a log, which is active, has ended, or was killed.

    Raise one of the usual errors of wrong types and missing keys if it is not the log of a run.
    """
    start = _last_line(lines, "began")
    began = lines[start]
    run = lines[start:]
    stage = _last_line(run, "stage")
    failures = [line["detail"] for line in run if line.get("event") == "failure"]
    ended = run[-1] if run[-1].get("event") == "ended" else {}
    alive = run_log.alive(log)
    state = "running" if alive else ended.get("how", "killed")
    next_step_text = _RESUME
    if alive:
        next_step_text = f"wait, then check again: nbaudio status {shlex.quote(str(folder))}"
    progress = _progress(run[stage:]) if stage else {"stage": "begins"}
    facts = {
        "corpus": str(folder),
        "state": state,
        "alive": alive,
        "step": began.get("step"),
        **progress,
        "failures": max(len(failures), *(line.get("failures", 0) for line in run)),
        "process": f"{began.get('pid')} on {began.get('host')}",
        "began": began.get("at"),
        "last_heard_of": run[-1].get("at"),
        "log": str(log),
        "next": next_step_text,
    }
    problems = first_lines(list(dict.fromkeys(failures)), str(log))
    if ended and not alive:
        problems.insert(0, f"the run {state}: {ended.get('error')}")
    elif not alive:
        problems.insert(0, f"the run was killed, not before {facts['last_heard_of']}")
    return Report("status", facts, problems=problems, hidden=("rate",))


def _last_line(lines: list[dict[str, Any]], event: str) -> int:
    """Return the number of the last line of an event; 0 without one."""
    return max(
        (number for number, line in enumerate(lines) if line.get("event") == event), default=0
    )


def _progress(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the progress of a stage, from its first line and its last progress line."""
    stage = lines[0]
    last: dict[str, Any] = next(
        (line for line in reversed(lines) if line.get("event") == "progress"), {}
    )
    total = stage["total"]
    done = last.get("done", 0.0)
    seconds = last.get("seconds", 0.0)
    rate, left_s = rate_and_time_left(done, seconds, total - done)
    speed = None
    if rate is not None:
        speed = speed_text(stage["unit"], rate)
    time_left = None
    if left_s is not None:
        time_left = str(timedelta(seconds=round(left_s)))
    return {
        "stage": stage["stage"],
        "done": done,
        "total": total,
        "unit": stage["unit"],
        "rate": rate and float(f"{rate:.4g}"),
        "speed": speed,
        "time_left": time_left,
    }
