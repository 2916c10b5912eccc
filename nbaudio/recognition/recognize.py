"""The command `recognize`.

It runs a recognizer over the segments of a workspace, and keeps what it heard as a column.
"""

import json
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import polars as pl

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
from nbaudio.corpus.cut_tasks import CutTask, plan_cut
from nbaudio.corpus.packs import CutResult, clip_of, cut_all, task_windows
from nbaudio.engine import EngineLocation, worker_pool
from nbaudio.recognition.recognizers import Failure, Function, Recognizer
from nbaudio.sources.audio_folder import required_audio
from nbaudio.sources.joined_columns import check_name, store_column
from nbaudio.tables import parquet_files, workspace_tables
from nbaudio.tables.workspace import Workspace, locks_workspace


@locks_workspace("recognize", "recognized")
def recognize(  # noqa: PLR0914
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
    segments = _segments(workspace)
    ledger = workspace.path / RECOGNIZED_FOLDER / f"{name}.jsonl"
    earlier = _earlier_texts(ledger, recognizer.version, set(segments["clip_key"]))
    missing = segments.filter(~pl.col("clip_key").is_in([*earlier]))
    run = _run_recognizer(
        workspace, missing, recognizer, site, ledger=ledger, batch=batch, show=show_progress
    )
    if not earlier and not run.texts:
        why = next(iter(run.failures.values()), "no segment has audio; ingest with --audio")
        raise InputError(
            f"{workspace.path}: none of {len(missing):,} clips can be recognized; {why}"
        )
    outcomes = _outcomes(segments, earlier | run.texts, run.failures)
    _write_ledger(ledger, recognizer.version, outcomes)
    lost = outcomes.drop_nulls("reason").select("segment_id", "recording_id", "reason")
    problems_table = f"{RECOGNIZED_FOLDER}/{name}.problems"
    workspace_tables.write(workspace, lost, table=problems_table)
    # Without arguments, which may hold secrets.
    program = with_.split()[0] if isinstance(with_, str) else recognizer.name
    record = {"step": "recognize", "with": program, "version": recognizer.version}
    changes = store_column(workspace, column, outcomes.select("segment_id", "value"), record)
    seconds = time.monotonic() - began
    num_segments = parquet_files.num_rows(workspace_tables.table_path(workspace))
    recognized_now = int(outcomes["clip_key"].is_in([*run.texts]).sum())
    facts = {
        "column": column,
        "segments": num_segments,
        "recognized_now": recognized_now,
        "already_recognized": len(outcomes) - len(lost) - recognized_now,
        "failed": len(lost),
        "skipped": num_segments - len(outcomes),
        "texts": changes,
        "hours": round(run.seconds / 3600, 6),
        "seconds": round(seconds, 1),
        "times_real_time": round(run.seconds / seconds, 1),
        "next": f"nbaudio score {shlex.quote(str(workspace.path))} --hypothesis {name}",
    }
    problems = [f"{segment_id}: {reason}" for segment_id, _, reason in lost.iter_rows()]
    table = str(workspace_tables.table_path(workspace, problems_table))
    report = Report("recognize", facts, problems=first_lines(problems, table))
    workspace.save_report("recognize", report.to_dict())
    return report


@dataclass(frozen=True)
class _Run:
    """What a run of a recognizer gave: texts and failures by clip key, and seconds of audio."""

    texts: dict[str, str]
    failures: dict[str, str]
    seconds: float


def _segments(workspace: Workspace) -> pl.DataFrame:
    """Return the segments that can be cut, in order, with `channel` and `clip_key`."""
    facts = recording_facts(workspace.recordings)
    keyed = with_clip_keys(segments_with_audio(workspace), facts, RECOGNIZED)
    channel = pl.col("source_channel").fill_null(RECOGNIZED.channel)
    return keyed.with_columns(channel=channel).drop("row", "decision").collect()


def _run_recognizer(
    workspace: Workspace,
    missing: pl.DataFrame,
    recognizer: Recognizer,
    site: EngineLocation,
    *,
    ledger: Path,
    batch: int,
    show: bool,
) -> _Run:
    """Recognize the clips of some segments; append the texts to the ledger as they come."""
    if missing.is_empty():
        return _Run({}, {}, 0.0)
    texts: dict[str, str] = {}
    failures: dict[str, str] = {}
    facts = recording_facts(workspace.recordings)
    function = partial(_recognize_task, recognizer, batch)
    with scratch_folder(workspace.path) as scratch:
        planned = plan_cut(workspace, missing.lazy(), facts, folder=scratch)
        with worker_pool(site) as run_tasks:
            for result in cut_all(
                run_tasks, "recognize", function, planned.amount, planned.tasks, show=show
            ):
                append_lines(ledger, _lines(recognizer.version, result.values.items()))
                texts |= result.values
                failures |= result.failures
    return _Run(texts, failures, planned.amount.seconds)


def _outcomes(
    segments: pl.DataFrame, texts: Mapping[str, str], failures: Mapping[str, str]
) -> pl.DataFrame:
    """Return segments with what was recognized, `value`, or why it was not, `reason`."""
    rows = [
        *((key, text, None) for key, text in texts.items()),
        *((key, None, why) for key, why in failures.items()),
    ]
    columns = pl.Schema({"clip_key": pl.String, "value": pl.String, "reason": pl.String})
    outcomes = pl.DataFrame(rows, columns, orient="row")
    return segments.join(outcomes, on="clip_key", how="left", maintain_order="left")


def _write_ledger(ledger: Path, version: str, outcomes: pl.DataFrame) -> None:
    """Replace the ledger by the texts of the segments, each clip once."""
    texts = outcomes.drop_nulls("value").select("clip_key", "value")
    once = texts.unique("clip_key", keep="first", maintain_order=True)
    with atomic_write(ledger) as target:
        target.write_bytes(b"".join(line + b"\n" for line in _lines(version, once.iter_rows())))


def _earlier_texts(ledger: Path, version: str, keys: set[str]) -> dict[str, str]:
    """Return the texts of this version of the recognizer in the ledger, by clip key."""
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
