"""Align: make a workspace of long recordings and transcripts that are not cut.

Transcripts are aligned by the words that a recognizer heard, and when.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from nbaudio.core import atomic
from nbaudio.core.errors import InputError, one_line
from nbaudio.core.progress import progress
from nbaudio.core.report import Report
from nbaudio.engine import EngineLocation, worker_pool
from nbaudio.formats.transcripts import PROBLEMS, TRANSCRIPTS, NotRead, Transcripts, with_not_read
from nbaudio.sources.align_task import ALIGNED, VERSION, Task, align_recording
from nbaudio.sources.ingest import Request, bring_in, option_texts
from nbaudio.sources.media_tracks import CLOCK, TRACK
from nbaudio.sources.pairing import UnusableFiles, list_items, pair
from nbaudio.storage.cache import LIMIT
from nbaudio.storage.urls import is_url
from nbaudio.tables.rows import Rows
from nbaudio.tables.workspace import Workspace, locks_workspace

_STORED = ".aligned"  # folder of a workspace with what each recording gave
_UNMATCHED = (
    "name",
    "kind",
    "source_start",
    "source_end",
    "text",
    "document",
    "document_start",
    "document_end",
    "document_page",
    "document_line",
    "reason",
)


@locks_workspace("align", new="out")
def align(
    hypotheses: str | Path,
    transcripts: str | Path,
    *,
    audio: str | Path | None = None,
    pairs: str | Path | None = None,
    min_duration: float = 2.0,
    max_duration: float = 20.0,
    side: str | None = None,
    options: Mapping[str, object] | None = None,
    out: str | Path,
    jobs: int | None = None,
    engine: str = "loky",
    address: str | None = None,
    beam_options: str = "",
    sha256: bool = True,
    cache: str | int = LIMIT,
    add: bool = False,
    show_progress: bool = True,
) -> Report:
    r"""Find the words of transcripts in hypotheses with word times, and cut segments.

    This writes the tables of a workspace. Only texts are compared; `nbaudio.text.word_pairs` and
    `nbaudio.text.segmentation` have the method. A segment is cut where both edges are sure, at
    pauses, at ends of sentences first, never inside a word or across speakers. What is in no
    segment is listed in ``unmatched.parquet``. Formats are recognized by content. Recordings that
    were aligned before are not aligned again, unless their files changed.

    Args:
        hypotheses: file or folder of a recognizer's words with times: CTM, JSON of recognizers and
            aligners, word-timed SRT or WebVTT, or ParlaSpeech JSON lines.
        transcripts: file or folder of .txt, .srt, .vtt, .sbv, .docx, .pdf, .html, TEI XML with
            utterances (ParlaMint), or JSON lines.
        audio: the folder of the recordings, or its URL; it may follow in a later run.
        pairs: a .csv or .tsv with the columns recording and transcript; else names are compared, as
            those of recordings are.
        min_duration: seconds of the shortest segment.
        max_duration: seconds of the longest segment.
        side: of calls whose sides are recorded apart: the label in the hypotheses, such as ``A``,
            or ``left`` or ``right``; its channel is that of the segments. ``mix`` takes the words
            of all sides together.
        options: ``track`` and ``clock`` of recordings with several audio tracks or pictures, as
            those of `ingest`.
        out: the workspace folder.
        jobs: recordings that are aligned, and probed, at once; one per core unless given.
        engine: where recordings are aligned: loky, threading, dask, ray, spark or beam; workers
            read the same paths.
        address: of a running cluster of that engine.
        beam_options: further options of Beam, as on a command line.
        sha256: hash every recording, to detect changes.
        cache: bytes, or a size such as ``"20GB"``, for remote recordings that are kept in the
            workspace.
        add: keep what the workspace has, and bring in these recordings, as `ingest`.
        show_progress: show progress with rate and time left on standard error.

    Returns:
        Counts of words and how many are in segments, and what `ingest` reports; a problem for each
        recording without a match.

    Raises:
        InputError: an input or a duration is not usable, or no hypothesis has a transcript.
        ExistsError: `out` holds something else.

    Examples:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> words = "poštovane kolegice i kolege otvaram sjednicu hrvatskoga sabora".split()
        >>> lines = [f"day1 1 {second} 0.8 {word}" for second, word in enumerate(words)]
        >>> _ = (folder / "day1.ctm").write_text("\n".join(lines), "utf8")
        >>> text = "Poštovane kolegice i kolege! Otvaram sjednicu Hrvatskoga sabora."
        >>> _ = (folder / "day1.txt").write_text(text, "utf8")
        >>> _ = align(
        ...     folder / "day1.ctm", folder / "day1.txt", out=folder / "W", show_progress=False
        ... )
        >>> segments = Workspace.open(folder / "W").segments
        >>> segments.select("source_start", "source_end", "text").row(0)
        ('0', '7.8', 'Poštovane kolegice i kolege! Otvaram sjednicu Hrvatskoga sabora.')
    """
    _check_arguments(transcripts, min_duration, max_duration)
    chosen = option_texts("align", options or {}, allowed=(TRACK, CLOCK))
    job = _Job(
        transcripts=Path(transcripts).absolute(),
        pairs=Path(pairs).absolute() if pairs is not None else None,
        min_duration=min_duration,
        max_duration=max_duration,
        side=side,
        stored=Path(out).absolute() / _STORED,
    )
    site = EngineLocation(engine, jobs, address, beam_options)
    counts: dict[str, int] = {}

    def read(source: Path) -> Transcripts:
        """Align the recordings of the source; return their segments as transcripts."""
        pairs = _pair(job, source)
        results = _align_all(pairs.tasks, job.stored, site, show_progress=show_progress)
        if not add:
            _remove_others(job.stored, results)
        aligned = _collect(source, pairs, results)
        counts.update(aligned.counts)
        return aligned.transcripts

    request = Request(
        format="align",
        source=hypotheses,
        audio=audio,
        names=None,
        out=out,
        jobs=jobs,
        sha256=sha256,
        cache=cache,
        add=add,
        options=job.settings() | chosen,
    )
    report = bring_in(request, read)
    return _with_counts(Workspace.open(out), report, counts)


@dataclass(frozen=True)
class _Job:
    """What is aligned with hypotheses; see the arguments of `align`.

    Attributes:
        transcripts: their file or folder.
        pairs: the table of recordings and transcripts, None to compare names.
        min_duration: in seconds.
        max_duration: in seconds.
        side: of calls, None for the whole recordings.
        stored: the folder of the results of recordings.
    """

    transcripts: Path
    pairs: Path | None
    min_duration: float
    max_duration: float
    side: str | None
    stored: Path

    def settings(self) -> dict[str, Any]:
        """Return the settings of a workspace that are those of `align`."""
        settings: dict[str, Any] = {
            "transcripts": str(self.transcripts),
            "pairs": self.pairs and str(self.pairs),
            "durations": [self.min_duration, self.max_duration],
        }
        if self.side is not None:
            settings["side"] = self.side
        return settings


@dataclass(frozen=True)
class _Pairs:
    """Recordings with their transcripts, and files that are unusable, with reasons."""

    tasks: list[Task]
    problems: UnusableFiles


def _pair(job: _Job, source: Path) -> _Pairs:
    """Pair recordings of hypotheses with transcripts; raise InputError if there are no pairs."""
    problems: UnusableFiles = []
    apart = {job.stored.parent}
    hypotheses = list_items(source, problems, hypotheses=True, apart=apart, side=job.side)
    # What was heard is no transcript of itself.
    apart |= {item.path.absolute() for item in hypotheses}
    transcripts = list_items(job.transcripts, problems, hypotheses=False, apart=apart)
    recordings = pair(hypotheses, transcripts, job.pairs, problems)
    # Transcripts may be in one folder with the hypotheses, but are none of them.
    paths = {item.path for _, items in recordings for item in items}
    problems = [
        (file, reason) for file, reason in problems if source.absolute() / file not in paths
    ]
    if not recordings:
        why = "; ".join(": ".join(problem) for problem in problems[:1]) or "no files"
        raise InputError(f"{source}: no recording with a transcript in {job.transcripts} ({why})")
    tasks = [
        Task(number, hypothesis, items, job.min_duration, job.max_duration, job.side)
        for number, (hypothesis, items) in enumerate(recordings)
    ]
    return _Pairs(tasks, problems)


def _remove_others(stored: Path, results: Sequence[pl.DataFrame | Path]) -> None:
    """Remove stored results of earlier files, which are none of these."""
    current = {path for path in results if isinstance(path, Path)}
    for path in {*stored.glob("*.arrow")} - current:
        path.unlink()


def _with_counts(workspace: Workspace, report: Report, counts: dict[str, int]) -> Report:
    """Return the report of `bring_in` with numbers of words in front; it is stored."""
    shown = Report("align", counts | report.facts, report.warnings, report.problems, report.hidden)
    workspace.save_report("align", shown.to_dict())
    return shown


def _check_arguments(transcripts: str | Path, min_duration: float, max_duration: float) -> None:
    """Raise InputError if the arguments of `align` are not usable."""
    if not 0 < min_duration < max_duration < math.inf:
        raise InputError(
            "min_duration must be above 0 and below max_duration, "
            f"not {min_duration} and {max_duration}"
        )
    if is_url(str(transcripts)):
        raise InputError(
            f"{transcripts}: transcripts are read from this machine; "
            "fetch them with 'nbaudio download'"
        )


def _align_all(
    tasks: Sequence[Task], stored: Path, site: EngineLocation, *, show_progress: bool
) -> list[pl.DataFrame | Path]:
    """Return what each task gives, or a file with it.

    Results are stored as they come. Stored ones are used where nothing has changed.
    """
    paths = [stored / f"{_key(task)}.arrow" for task in tasks]
    results: list[pl.DataFrame | Path] = [*paths]
    missing = [task for task, path in zip(tasks, paths, strict=True) if not path.is_file()]
    if not missing:
        return results
    shown = show_progress and len(missing) > 1
    with (
        progress("align", len(missing), "recordings", show=shown) as advance,
        worker_pool(site) as run,
    ):
        for number, frame in run(align_recording, missing):
            if (frame["kind"] == "unreadable").any():  # perhaps not in the next run
                results[number] = frame
            else:
                _store(frame, paths[number])
            advance(1)
    return results


def _store(frame: pl.DataFrame, path: Path) -> None:
    """Write the result of a task."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic.atomic_write(path) as written:
        frame.write_ipc(written, compression="zstd")


def _key(task: Task) -> str:
    """Return a hash of all that the result of a task depends on."""
    parts: list[Any] = [VERSION, task.shortest, task.longest, task.side]
    for item in (task.hypothesis, *task.transcripts):
        try:
            content = [
                part.tolist() if isinstance(part, np.ndarray) else part
                for part in item.content or ()
            ]
            parts += [item.name, item.file, content or atomic.sha256_file(item.path)]
        except OSError:  # the task names the reason
            parts.append(None)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _stored(path: Path) -> pl.DataFrame:
    """Read the result of a task; raise InputError if the file is damaged."""
    try:
        return pl.read_ipc(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"{path}: damaged ({one_line(error)}); remove it and run the command again"
        ) from error


@dataclass(frozen=True)
class _Aligned:
    """The segments of all recordings with what is in none, and numbers of words by their names."""

    transcripts: Transcripts
    counts: dict[str, int]


@dataclass(frozen=True)
class _Words:
    """Numbers of words of a recording that were typed and heard, and of those in segments."""

    typed_words: int
    typed_in_segments: int
    heard_words: int
    heard_in_segments: int

    @classmethod
    def of(cls, frame: pl.DataFrame) -> "_Words":
        """Count the words in the result of a task."""
        segments = frame.filter(kind="segment")
        typed = int(segments["words"].sum())
        heard = int(segments["asr_text"].str.split(" ").list.len().sum())
        typed_only = int(frame.filter(kind="text")["words"].sum())
        heard_only = int(frame.filter(kind="audio")["words"].sum())
        return cls(typed + typed_only, typed, heard + heard_only, heard)

    @property
    def is_sparse(self) -> bool:
        """Whether segments have some of what was heard, but less than half."""
        return 0 < self.heard_in_segments < self.heard_words - self.heard_in_segments


@dataclass(frozen=True)
class _Rest:
    """What the result of a task has besides segments.

    Attributes:
        name: of the recording.
        unmatched: text and audio without a match, with the columns `_UNMATCHED`.
        left_out: parts of files that were not read.
        problems: files that are unreadable or unmatched, with reasons.
        words: the numbers of words.
    """

    name: str
    unmatched: pl.DataFrame
    left_out: pl.DataFrame
    problems: UnusableFiles
    words: _Words

    @classmethod
    def of(cls, name: str, frame: pl.DataFrame) -> "_Rest":
        """Return the rest of the result of a recording."""
        unmatched = frame.filter(pl.col("kind").is_in(["text", "audio"])).select(*_UNMATCHED)
        left_out = frame.filter(kind="left out")
        return cls(name, unmatched, left_out, _problems(frame), _Words.of(frame))


def _collect(source: Path, pairs: _Pairs, results: Sequence[pl.DataFrame | Path]) -> _Aligned:
    """Return what was aligned; raise InputError if no recording has a word."""
    rests: list[_Rest] = []

    def segments() -> Iterator[pl.DataFrame]:
        for task, outcome in zip(pairs.tasks, results, strict=True):
            name = task.hypothesis.name
            frame = _stored(outcome) if isinstance(outcome, Path) else outcome
            frame = frame.with_columns(name=pl.lit(name))
            rests.append(_Rest.of(name, frame))
            yield _segments(frame)

    rows = Rows.collect(segments())
    problems = [*pairs.problems, *(problem for rest in rests for problem in rest.problems)]
    counts = {
        field.name: sum(getattr(rest.words, field.name) for rest in rests)
        for field in fields(_Words)
    }
    if not counts["heard_words"] + counts["typed_words"]:
        raise InputError(f"{source}: no recording can be aligned; {': '.join(problems[0])}")
    unmatched = pl.concat([rest.unmatched for rest in rests])
    transcripts = Transcripts(
        rows,
        pl.DataFrame(
            [(file, None, reason) for file, reason in problems], schema=PROBLEMS, orient="row"
        ),
        notes=_notes([rest.name for rest in rests if rest.words.is_sparse]),
        unmatched=unmatched.with_columns(pl.col("source_start", "source_end").cast(pl.Float64)),
    )
    not_read = _not_read([rest.left_out for rest in rests])
    return _Aligned(with_not_read(transcripts, *not_read), counts)


def _segments(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the segments in the result of a task; of further columns, those with values."""
    segments = frame.filter(kind="segment")
    names = [name for name in ALIGNED if name not in ("kind", "reason", "words")]
    texts = segments.with_columns(pl.col("text", "text_raw", "asr_text").str.normalize("NFC"))
    return texts.select(
        name
        for name in names
        if name in TRANSCRIPTS or segments[name].null_count() < max(1, len(segments))
    )


def _problems(frame: pl.DataFrame) -> list[tuple[str, str]]:
    """Return files that are unreadable or unmatched, with the reasons."""
    return frame.filter(pl.col("kind").str.starts_with("un")).select("document", "text").rows()


def _notes(sparse: Sequence[str]) -> list[str]:
    """Return what to report about recordings of which little is in segments."""
    if not sparse:
        return []
    names = ", ".join(sparse[:3]) + ", ..." * (len(sparse) > 3)
    return [f"less than half of what was heard is in segments of {names}"]


def _not_read(left_out: Sequence[pl.DataFrame]) -> list[NotRead]:
    """Return the parts of files that were not read, each once, summed over their files.

    A document of several recordings counts once.
    """
    parts = pl.concat(left_out).unique(["document", "text"], maintain_order=True)
    option = pl.col("reason").fill_null("").alias("option")
    sums = parts.group_by("text", option, maintain_order=True).agg(pl.sum("words"))
    return [
        NotRead(what, count, option)
        for what, count, option in sums.select("text", "words", "option").rows()
    ]
