"""How far a corpus is, asked from anywhere: who makes it may be a closed notebook, another machine on the same disk, or dead."""

import shlex
from datetime import timedelta
from pathlib import Path
from typing import Any

from nbaudio.core.errors import InputError
from nbaudio.core.report import Report, first_lines
from nbaudio.corpus.layout import IDENTITY, MANIFEST, UNREADABLE_AUDIO, Layout, shard_names
from nbaudio.storage import run_log
from nbaudio.storage.folders import Folder, LocalFolder, folder_at, read_object

_AGAIN = "run the same command again: what is done is kept"


def status(corpus: str | Path, *, workspace: str | Path | None = None) -> Report:
    """Say how far a corpus is, whether anybody is at work on it, and what to do next; nothing is changed.

    Args:
        corpus: the folder that `materialize` or `convert` writes to, or its address.
        workspace: which it is made from; it holds the log of a corpus at an address, and of a finished run.

    Returns:
        `state` is ``running``, ``stopped``, ``failed``, ``killed`` or ``finished``. Of a run that is not over, or did not end
        well: its stage; `done` of `total`, in `unit`; `rate` in units a second, and the time that is left at that rate; how many
        segments failed so far; when it began and was last heard of (UTC). Problems are what failed, and a run that needs to be
        run again.

    Raises:
        InputError: there is no corpus, nor the beginning of one.
    """
    folder = folder_at(corpus)
    here = isinstance(folder, LocalFolder)
    log = Layout.at(corpus, Path(workspace or "")).log if here or workspace else None
    whole, claimed, lines = folder.exists(MANIFEST), folder.exists(IDENTITY), run_log.read(log) if log else []
    if not whole and not claimed and not lines:
        raise InputError(f"{folder}: no {MANIFEST}, and no run has begun one there (not a corpus)")
    # Between the manifest and its end a run only tidies up.
    if whole and not claimed and not (log and run_log.alive(log)):
        return _finished(folder)
    if log and lines:
        try:
            return _unfinished(folder, log, lines)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise InputError(f"{log}: not the log of a run ({type(error).__name__}: {error})") from error
    hint = {} if here else {"log": "in the workspace: --workspace W shows it"}
    facts = {"corpus": str(folder), "state": "not finished", "shards_there": len(shard_names(folder)), **hint, "next": _AGAIN}
    return Report("status", facts, problems=["it is not finished"])


def what_next(corpus: object, *, failed: int) -> str:
    """What to do with a corpus that has just been finished, of which some segments could not be cut."""
    verify = f"nbaudio verify {shlex.quote(str(corpus))}"
    mend = f"mend the recordings that rejected.parquet calls {UNREADABLE_AUDIO} ({failed:,} segments) and run the same again, or go on: "
    return mend + verify if failed else verify


def _finished(folder: Folder) -> Report:
    manifest = read_object(folder, MANIFEST)
    try:
        splits, rejected = manifest["splits"].values(), manifest["rejected"]
        facts: dict[str, Any] = {
            "corpus": str(folder),
            "state": "finished",
            "alive": False,
            "kept": sum(split["segments"] for split in splits),
            "hours": round(sum(split["hours"] for split in splits), 6),
            "rejected": sum(rejected.values()),
            "failures": rejected.get(UNREADABLE_AUDIO, 0),
            "shards": len(manifest["shards"]),
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{folder}/{MANIFEST}: not that of a corpus ({type(error).__name__}: {error})") from error
    return Report("status", facts | {"next": what_next(folder, failed=facts["failures"])})


def _unfinished(folder: Folder, log: Path, lines: list[dict[str, Any]]) -> Report:
    start = max((number for number, line in enumerate(lines) if line.get("event") == "began"), default=0)
    began, run = lines[start], lines[start:]
    stage = next((number for number, line in reversed(list(enumerate(run))) if line.get("event") == "stage"), 0)
    told: dict[str, Any] = next((line for line in reversed(run[stage:]) if line.get("event") == "progress"), {})
    failures = [line["detail"] for line in run if line.get("event") == "failure"]
    ended = run[-1] if run[-1].get("event") == "ended" else {}
    alive = run_log.alive(log)
    state = "running" if alive else ended.get("how", "killed")
    facts: dict[str, Any] = {
        "corpus": str(folder),
        "state": state,
        "alive": alive,
        "step": began.get("step"),
        **(_progress(run[stage], told) if stage else {"stage": "begins"}),
        "failures": max(len(failures), *(line.get("failures", 0) for line in run)),
        "process": f"{began.get('pid')} on {began.get('host')}",
        "began": began.get("at"),
        "last_heard_of": run[-1].get("at"),
        "log": str(log),
        "next": f"wait, and ask again: nbaudio status {shlex.quote(str(folder))}" if alive else _AGAIN,
    }
    if alive:
        over = []
    elif ended:
        over = [f"the run {state}: {ended.get('error')}"]
    else:
        over = [f"the run was killed, not before {facts['last_heard_of']}"]
    return Report("status", facts, problems=over + first_lines(list(dict.fromkeys(failures)), str(log)))


def _progress(stage: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """How far a stage is, from the line that began it and the last one of its progress."""
    total, done, seconds = stage["total"], told.get("done", 0.0), told.get("seconds", 0.0)
    rate = done / seconds if done and seconds else None
    return {
        "stage": stage["stage"],
        "done": done,
        "total": total,
        "unit": stage["unit"],
        "rate": None if rate is None else float(f"{rate:.4g}"),
        "time_left": None if rate is None else str(timedelta(seconds=round((total - done) / rate))),
    }
