"""The command `recognize`.

It runs a recognizer over the segments of a workspace, and stores the texts as a column. Whole
recordings are in `nbaudio.recognition.recordings`.
"""

import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.leftovers import scratch_folder
from nbaudio.core.report import Report, first_lines
from nbaudio.corpus.clip_keys import (
    RECOGNIZED_FOLDER,
    RECOGNIZER_FORMAT,
    recording_facts,
    segments_with_audio,
    with_clip_keys,
)
from nbaudio.corpus.cut_runs import run_cut_tasks
from nbaudio.corpus.cut_tasks import plan_cut
from nbaudio.corpus.cutting import CutResult, CutTask, clip_of, task_windows
from nbaudio.engine import EngineLocation, worker_pool
from nbaudio.recognition.facts import program_name, speed_facts
from nbaudio.recognition.ledger import AnswerLedger
from nbaudio.recognition.recognizers import Failure, Function, Recognizer
from nbaudio.recognition.recordings import CHUNK_S, RecordingRun, recognize_recordings
from nbaudio.sources.audio_folder import required_audio
from nbaudio.sources.joined_columns import check_name, store_column
from nbaudio.storage.urls import is_url
from nbaudio.tables import parquet_files, workspace_tables
from nbaudio.tables.workspace import Workspace, locks_workspace


@locks_workspace("recognize", "recognized")
def recognize(
    workspace: str | Path | Workspace,
    *,
    with_: str | Function,
    as_: str | None = None,
    out: str | Path | None = None,
    chunk: float | None = None,
    batch: int = 16,
    jobs: int = 1,
    engine: str | None = "loky",
    address: str | None = None,
    beam_options: str = "",
    show_progress: bool = True,
) -> Report:
    """Recognize all segments of a workspace, or whole recordings.

    Segments, selected or not, get a further hypothesis, the column `asr_text_NAME`; other columns
    stay. Recognizers get the clips that `materialize` cuts by default, each once. Texts are kept in
    ``W/recognized/NAME.jsonl`` as they come, by clip and version of the recognizer.

    Recordings, of hours, get a file ``NAME.json`` each in the folder `out`, with the words and
    their times, which `align` reads. They are cut at pauses into chunks, see
    `nbaudio.recognition.chunks`. What functions and commands may return for a chunk is listed in
    `nbaudio.recognition.timed_answers.read_answer`.

    After a kill or growth, the same call does the rest; failures are tried again.

    Args:
        workspace: the workspace or its folder, with audio; or a folder of recordings, its URL, or
            one file. A folder with ``recordings.parquet`` is a workspace.
        with_: a callable, or ``package.module:function``, that takes a list of float32 arrays of
            shape (samples,) at 16 kHz in [-1, 1] and returns a list of as many texts, or answers
            with times. Any other text is a command, run without a shell, once for each task: it
            reads lines ``{"id": ..., "audio": "/tmp/0.wav", "duration_s": 3.2}`` and writes lines
            ``{"id": ..., "text": ...}``, or with `words` or `segments`. The version is the
            attribute `version` of the function, `__version__` of its module, or else the hash of
            its source; of a command, its words and the hashes of small files among them.
        as_: NAME of the column; by default that of the module or of the callable.
        out: the folder of the hypotheses of recordings: a new one, or one to go on with.
        chunk: seconds of the longest chunk of a recording; 28 unless given.
        batch: most clips in one call of a callable.
        jobs: number of parallel tasks; each process has a recognizer of its own. Two jobs share a
            recording of 10 minutes or more.
        engine: as in `materialize`.
        address: as in `materialize`.
        beam_options: as in `materialize`.
        show_progress: show progress with rate and time left on standard error.

    Returns:
        Counts of segments, or of recordings, chunks and words, and how fast they were recognized;
        problems name those that failed, with the reason.

    Raises:
        InputError: no audio, no such recognizer, a name that is taken, nothing that can be
            recognized, or an argument of the other use.
        ExistsError: `out` holds something else.

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
    site = EngineLocation(engine, jobs, address, beam_options)
    if batch < 1:
        raise InputError(f"batch must be 1 or more, not {batch}")
    if isinstance(workspace, Workspace) or _is_workspace(workspace):
        if out is not None or chunk is not None:
            raise InputError(
                f"{workspace}: a workspace, whose segments get a column; "
                "--out and --chunk are for a folder of recordings"
            )
        return _recognize_segments(
            Workspace.open(workspace), with_, as_, _Job(batch, site, show_progress)
        )
    if out is None:
        raise InputError(
            f"{workspace}: no workspace, as it has no recordings.parquet; "
            "recordings need --out DIR for their hypotheses"
        )
    if as_ is not None:
        raise InputError("--as names a column of a workspace; recordings have none")
    run = RecordingRun(Path(out), with_, chunk or CHUNK_S, batch, site, show_progress)
    return recognize_recordings(workspace, run)


def _is_workspace(path: str | Path) -> bool:
    """Return whether a path is the folder of a workspace."""
    return not is_url(str(path)) and (Path(path) / "recordings.parquet").exists()


@dataclass(frozen=True)
class _Job:
    """How segments are recognized; see the arguments of `recognize`."""

    batch: int
    site: EngineLocation
    show: bool


def _recognize_segments(
    workspace: Workspace, with_: str | Function, as_: str | None, job: _Job
) -> Report:
    """Recognize the segments of a workspace, and write a column."""
    began = time.monotonic()
    recognizer = Recognizer.of(with_)
    name = as_ or recognizer.name
    column = _column(workspace, name)
    required_audio(workspace)
    segments = _segments(workspace)
    ledger = AnswerLedger(workspace.path / RECOGNIZED_FOLDER / f"{name}.jsonl", recognizer.version)
    workers = _Workers(partial(_recognize_task, recognizer, job.batch), job.site, job.show)
    run = _recognize_missing(workspace, segments, ledger, workers)
    outcomes = _outcomes(segments, run)
    ledger.replace(_texts(outcomes))
    problems = _save_failures(workspace, name, outcomes)
    changes = store_column(
        workspace,
        column,
        outcomes.select("segment_id", "value"),
        {"step": "recognize", "with": program_name(with_), "version": recognizer.version},
    )
    facts = {
        "column": column,
        **_counts(workspace, outcomes, run),
        "texts": changes,
        **speed_facts(run.seconds, time.monotonic() - began),
        "next": f"nbaudio score {shlex.quote(str(workspace.path))} --hypothesis {name}",
    }
    report = Report("recognize", facts, problems=problems)
    workspace.save_report("recognize", report.to_dict())
    return report


def _column(workspace: Workspace, name: str) -> str:
    """Return the column of a recognizer; raise InputError without a name or if it is taken."""
    if not name:
        raise InputError(
            "this recognizer has no name: give one with --as NAME, for the column asr_text_NAME"
        )
    return check_name(workspace, "hypothesis", name)


@dataclass(frozen=True)
class _Workers:
    """The function that workers call for each task, their site, and whether to show progress."""

    function: Callable[[CutTask], CutResult]
    site: EngineLocation
    show: bool


@dataclass(frozen=True)
class _Run:
    """The texts of a workspace after a run of a recognizer, by clip key.

    Attributes:
        earlier_texts: those that the ledger had before.
        texts: those of clips that were recognized now.
        failures: why the other clips have none.
        seconds: the length of the clips that had no text before.
    """

    earlier_texts: dict[str, str]
    texts: dict[str, str]
    failures: dict[str, str]
    seconds: float


def _segments(workspace: Workspace) -> pl.DataFrame:
    """Return the segments that can be cut, in order, with `channel` and `clip_key`."""
    facts = recording_facts(workspace.recordings)
    keyed = with_clip_keys(segments_with_audio(workspace), facts, RECOGNIZER_FORMAT)
    channel = pl.col("source_channel").fill_null(RECOGNIZER_FORMAT.channel)
    return keyed.with_columns(channel=channel).drop("row", "decision").collect()


def _recognize_missing(
    workspace: Workspace, segments: pl.DataFrame, ledger: AnswerLedger, workers: _Workers
) -> _Run:
    """Recognize the clips that have no text in the ledger.

    Raise InputError if no clip of the segments has a text in the end.
    """
    earlier_texts = ledger.read(set(segments["clip_key"]))
    missing = segments.filter(~pl.col("clip_key").is_in([*earlier_texts]))
    run = _run_workers(workspace, missing, ledger, workers)
    if not earlier_texts and not run.texts:
        reason = next(iter(run.failures.values()), "no segment has audio; ingest with --audio")
        raise InputError(
            f"{workspace.path}: none of {len(missing):,} clips can be recognized; {reason}"
        )
    return replace(run, earlier_texts=earlier_texts)


def _run_workers(
    workspace: Workspace, missing: pl.DataFrame, ledger: AnswerLedger, workers: _Workers
) -> _Run:
    """Recognize the clips of some segments; append the texts to the ledger as they come."""
    if missing.is_empty():
        return _Run({}, {}, {}, 0.0)
    texts: dict[str, str] = {}
    failures: dict[str, str] = {}
    facts = recording_facts(workspace.recordings)
    with scratch_folder(workspace.path) as scratch:
        planned = plan_cut(workspace, missing.lazy(), facts, folder=scratch)
        with worker_pool(workers.site) as run_tasks:
            task_results = run_cut_tasks(
                run_tasks,
                "recognize",
                workers.function,
                planned.amount,
                planned.tasks,
                show=workers.show,
            )
            for task_result in task_results:
                ledger.append(task_result.values)
                texts |= task_result.values
                failures |= task_result.failures
    return _Run({}, texts, failures, planned.amount.seconds)


def _outcomes(segments: pl.DataFrame, run: _Run) -> pl.DataFrame:
    """Return segments with what was recognized, `value`, or why it was not, `reason`."""
    texts = run.earlier_texts | run.texts
    rows = [
        *((key, text, None) for key, text in texts.items()),
        *((key, None, reason) for key, reason in run.failures.items()),
    ]
    columns = pl.Schema({"clip_key": pl.String, "value": pl.String, "reason": pl.String})
    outcomes = pl.DataFrame(rows, columns, orient="row")
    return segments.join(outcomes, on="clip_key", how="left", maintain_order="left")


def _texts(outcomes: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield the texts of segments (see `_outcomes`), each clip once, with their clip keys."""
    texts = outcomes.drop_nulls("value").select("clip_key", "value")
    yield from texts.unique("clip_key", keep="first", maintain_order=True).iter_rows()


def _save_failures(workspace: Workspace, name: str, outcomes: pl.DataFrame) -> list[str]:
    """Write the table of the segments that failed; return a line for each of the first ones."""
    table = f"{RECOGNIZED_FOLDER}/{name}.problems"
    failed = outcomes.drop_nulls("reason").select("segment_id", "recording_id", "reason")
    workspace_tables.write(workspace, failed, table=table)
    problems = [f"{segment_id}: {reason}" for segment_id, _, reason in failed.iter_rows()]
    return first_lines(problems, str(workspace_tables.table_path(workspace, table)))


def _counts(workspace: Workspace, outcomes: pl.DataFrame, run: _Run) -> dict[str, int]:
    """Count the segments of the workspace by what became of them."""
    num_segments = parquet_files.num_rows(workspace_tables.table_path(workspace))
    num_failed = outcomes["reason"].count()
    recognized_now = int(outcomes["clip_key"].is_in([*run.texts]).sum())
    return {
        "segments": num_segments,
        "recognized_now": recognized_now,
        "already_recognized": len(outcomes) - num_failed - recognized_now,
        "failed": num_failed,
        "skipped": num_segments - len(outcomes),
    }


def _recognize_task(recognizer: Recognizer, batch: int, task: CutTask) -> CutResult:
    """Recognize the clips of a task, a batch at a time, or all at once by a command.

    Runs in a worker.
    """
    failures = dict[str, str]()
    texts = dict[str, str]()
    files = {key: source.path.name for source in task.sources for key, *_ in source.windows}
    windows = task_windows(task, partial(clip_of, rate=RECOGNIZER_FORMAT.rate), failures)
    size = None if recognizer.is_command else batch
    while clips := dict(islice(windows, size)):
        for key, answer in recognizer(clips).items():
            if isinstance(answer, Failure):
                failures.setdefault(key, f"{files[key]}: {answer.reason}")
            else:
                texts[key] = answer
    texts_without_failures = {key: text for key, text in texts.items() if key not in failures}
    return CutResult(task.seconds, failures, texts_without_failures)
