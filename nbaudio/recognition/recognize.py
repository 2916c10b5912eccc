"""The command `recognize`.

It runs a recognizer over the segments of a workspace, and keeps what it heard as a column.
"""

import json
import shlex
import time
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import polars as pl

from nbaudio.core import tables
from nbaudio.core.atomic import append_lines, atomic_write, parse_lines
from nbaudio.core.errors import InputError
from nbaudio.core.leftovers import scratch_folder
from nbaudio.core.report import Report, first_lines
from nbaudio.corpus.clip_keys import (
    RECOGNIZED,
    RECOGNIZED_FOLDER,
    recording_facts,
    segments_with_audio,
    with_clip_keys,
)
from nbaudio.corpus.cut_tasks import (
    CutTask,
    archived_recordings,
    cut_amount,
    cut_tasks,
    recordings_to_cut,
)
from nbaudio.corpus.packs import CutResult, clip_of, cut_all, task_windows
from nbaudio.corpus.plan import write_plan
from nbaudio.engine import EngineLocation, worker_pool
from nbaudio.recognition.recognizers import Failure, Function, Recognizer
from nbaudio.sources.audio_folder import required_audio
from nbaudio.sources.joined_columns import check_name, store_column
from nbaudio.storage.location import location
from nbaudio.storage.workspace import Workspace, locks_workspace


@locks_workspace("recognize", "recognized")
def recognize(  # noqa: PLR0914, PLR0915
    workspace: str | Path | Workspace,
    *,
    with_: str | Function,
    as_: str | None = None,
    batch: int = 16,
    jobs: int = 1,
    engine: str | None = "loky",
    address: str | None = None,
    beam_options: str = "",
    show_progress: bool = True,
) -> Report:
    """Recognize all segments, selected or not, and write the column `asr_text_NAME`.

    Other columns stay.

    Recognizers get the clips that `materialize` cuts by default, each once. Texts are kept in
    ``W/recognized/NAME.jsonl`` as they come, by clip and version of the recognizer: after a kill or
    growth, the same call does the rest; failures are tried again.

    Args:
        workspace: the workspace or its folder; with audio.
        with_: a callable, or ``package.module:function``, that takes a list of float32 arrays of
            shape (samples,) at 16 kHz in [-1, 1] and returns a list of as many texts. Any other
            text is a command, run without a shell, once for each task: it reads lines ``{"id": ...,
            "audio": "/tmp/0.wav", "duration_s": 3.2}`` and writes lines ``{"id": ..., "text":
            ...}``. The version is the attribute `version` of the function, `__version__` of its
            module, or else the hash of its source; of a command, its words and the hashes of small
            files among them.
        as_: NAME of the column; by default that of the module or of the callable.
        batch: most clips in one call of a callable.
        jobs: number of parallel tasks; each process has a recognizer of its own.
        engine: as in `materialize`.
        address: as in `materialize`.
        beam_options: as in `materialize`.
        show_progress: show progress with rate and time left on standard error.

    Returns:
        Counts of segments, and how fast they were recognized; problems name those that failed, with
        the reason.

    Raises:
        InputError: no audio, no such recognizer, a name that is taken, or none of the clips can be
            recognized.

    Examples:
        >>> import numpy as np, soundfile, tempfile
        >>> from nbaudio.sources.ingest import ingest
        >>> folder = tempfile.mkdtemp()
        >>> soundfile.write(f"{folder}/a.wav", np.zeros(8000, np.int16), 8000)
        >>> _ = ingest("folder", folder, out=f"{folder}/w")
        >>> lengths = lambda clips: [f"{len(clip)} samples" for clip in clips]
        >>> _ = recognize(f"{folder}/w", with_=lengths, as_="length", show_progress=False)
        >>> Workspace.open(f"{folder}/w").segments["asr_text_length"].to_list()
        ['16000 samples']
    """
    began = time.monotonic()
    workspace = Workspace.open(workspace)
    site = EngineLocation(engine, jobs, address, beam_options)
    if batch < 1:
        raise InputError(f"batch must be 1 or more, not {batch}")
    recognizer = Recognizer.of(with_)
    if not (name := as_ or recognizer.name):
        raise InputError(
            "this recognizer has no name: give one with --as NAME, for the column asr_text_NAME"
        )
    column = check_name(workspace, "hypothesis", name)
    required_audio(workspace)
    facts = recording_facts(workspace.recordings)
    segments = (
        with_clip_keys(segments_with_audio(workspace), facts, RECOGNIZED)
        .with_columns(channel=pl.col("source_channel").fill_null(RECOGNIZED.channel))
        .drop("row", "decision")
        .collect()
    )
    ledger = workspace.path / RECOGNIZED_FOLDER / f"{name}.jsonl"
    held = _held(ledger, recognizer.version, set(segments["clip_key"]))
    texts = dict[str, str]()
    failures = dict[str, str]()
    with scratch_folder(workspace.path) as scratch:  # noqa: PLR1702
        missing = segments.filter(~pl.col("clip_key").is_in([*held]))
        planned = scratch / "plan.parquet"
        write_plan(
            planned,
            missing.lazy(),
            facts=facts,
            archived=archived_recordings(facts, required_audio(workspace)),
            folder=scratch,
        )
        amount = cut_amount(planned, facts)
        hours = amount.seconds / 3600
        audio = required_audio(workspace, recordings_to_cut(planned))
        tasks = cut_tasks(planned, facts, audio_root=audio, packs=location(workspace.path))
        function = partial(_recognize_task, recognizer, batch)
        if amount.num_clips:
            with worker_pool(site) as run_tasks:
                for result in cut_all(
                    run_tasks, "recognize", function, amount, tasks, show=show_progress
                ):
                    append_lines(ledger, _lines(recognizer.version, result.values.items()))
                    texts |= result.values
                    failures |= result.failures
    if not held and not texts:
        why = next(iter(failures.values()), "no segment has audio; ingest with --audio")
        raise InputError(
            f"{workspace.path}: none of {amount.num_clips:,} clips can be recognized; {why}"
        )
    rows = [(key, text, None) for key, text in (held | texts).items()] + [
        (key, None, why) for key, why in failures.items()
    ]
    outcomes = pl.DataFrame(
        rows, pl.Schema(dict.fromkeys(("clip_key", "value", "reason"), pl.String())), orient="row"
    )
    found = segments.join(outcomes, on="clip_key", how="left", maintain_order="left")
    used = (
        found.drop_nulls("value")
        .select("clip_key", "value")
        .unique("clip_key", keep="first", maintain_order=True)
    )
    with atomic_write(ledger) as written:
        written.write_bytes(
            b"".join(line + b"\n" for line in _lines(recognizer.version, used.iter_rows()))
        )
    lost = found.drop_nulls("reason").select("segment_id", "recording_id", "reason")
    tables.write(workspace, lost, table=(table := f"{RECOGNIZED_FOLDER}/{name}.problems"))
    # Without arguments, which may hold secrets.
    program = with_.split()[0] if isinstance(with_, str) else recognizer.name
    record = {"step": "recognize", "with": program, "version": recognizer.version}
    changes = store_column(workspace, column, found.select("segment_id", "value"), record)
    total = tables.read(workspace, ["segment_id"]).height
    now = int(found["clip_key"].is_in([*texts]).sum())
    seconds = time.monotonic() - began
    counts = {
        "segments": total,
        "recognized_now": now,
        "already_recognized": len(found) - len(lost) - now,
        "failed": len(lost),
    }
    shown = {
        "column": column,
        **counts,
        "skipped": total - len(found),
        "texts": changes,
        "hours": round(hours, 6),
    }
    shown |= {"seconds": round(seconds, 1), "times_real_time": round(hours * 3600 / seconds, 1)}
    shown["next"] = f"nbaudio score {shlex.quote(str(workspace.path))} --hypothesis {name}"
    problems = [f"{segment_id}: {reason}" for segment_id, _, reason in lost.iter_rows()]
    report = Report(
        "recognize", shown, problems=first_lines(problems, str(tables.table_path(workspace, table)))
    )
    workspace.save_report("recognize", report.to_dict())
    return report


def _held(ledger: Path, version: str, keys: set[str]) -> dict[str, str]:
    lines = parse_lines(ledger.read_bytes()) if ledger.exists() else ()
    own = (
        line
        for line in lines
        if line.get("version") == version and isinstance(line.get("text"), str)
    )
    return {line["clip_key"]: line["text"] for line in own if str(line.get("clip_key")) in keys}


def _lines(version: str, texts: Iterable[tuple[str, str]]) -> Iterator[bytes]:
    rows = ({"clip_key": key, "version": version, "text": text} for key, text in texts)
    return (json.dumps(row, ensure_ascii=False).encode() for row in rows)


def _recognize_task(recognizer: Recognizer, batch: int, task: CutTask) -> CutResult:
    """Recognize the clips of a task, a batch at a time, or all at once by a command.

    Runs in a worker.
    """
    failures = dict[str, str]()
    texts = dict[str, str]()
    files = {key: source.path.name for source in task.sources for key, *_ in source.windows}
    waiting = task_windows(task, partial(clip_of, rate=RECOGNIZED.rate), failures)
    while some := dict(islice(waiting, None if isinstance(recognizer.given, tuple) else batch)):
        for key, answer in recognizer(some).items():
            if isinstance(answer, Failure):
                failures.setdefault(key, f"{files[key]}: {answer.reason}")
            else:
                texts[key] = answer
    return CutResult(
        task.seconds, failures, {key: text for key, text in texts.items() if key not in failures}
    )
