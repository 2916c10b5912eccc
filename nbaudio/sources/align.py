"""Align: make a workspace of long recordings and transcripts that are not cut, by the words that a recognizer heard and when."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from nbaudio.core import atomic
from nbaudio.core.errors import InputError
from nbaudio.core.progress import progress
from nbaudio.core.report import Report
from nbaudio.core.rows import Rows
from nbaudio.engine import EngineLocation, worker_pool
from nbaudio.formats.base import PROBLEMS, TRANSCRIPTS, Transcripts
from nbaudio.sources.align_task import VERSION, Task, align_recording
from nbaudio.sources.ingest import bring_in
from nbaudio.sources.pairing import Problems, list_hypotheses, list_transcripts, pair
from nbaudio.storage.cache import LIMIT
from nbaudio.storage.urls import is_url
from nbaudio.storage.workspace import Workspace, locks_workspace

_STORED = ".aligned"  # folder of a workspace with the alignment of each recording
_SPOOL = ".align.partial"

_UNMATCHED = ("name", "kind", "source_start", "source_end", "text", "document", "document_start", "document_end", "reason")


class _Counts(NamedTuple):
    """Words of transcripts and hypotheses, and those in segments."""

    typed: int = 0
    typed_in_segments: int = 0
    heard: int = 0
    heard_in_segments: int = 0


@locks_workspace("align", new="out")
def align(
    hypotheses: str | Path,
    transcripts: str | Path,
    *,
    audio: str | Path | None = None,
    pairs: str | Path | None = None,
    min_duration: float = 2.0,
    max_duration: float = 20.0,
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
    r"""Find the words of transcripts in hypotheses with word times, cut segments, and write the tables of a workspace.

    Only texts are compared; docs/align.md has the method. A segment is cut where both edges are sure, at pauses, at ends of
    sentences first, never inside a word or across speakers. What is in no segment is listed in ``unmatched.parquet``. Formats
    are recognized by content. Recordings that were aligned before are not aligned again, unless their files changed.

    Args:
        hypotheses: file or folder of a recognizer's words with times: CTM, Whisper-style JSON, word-timed SRT or WebVTT, or
            ParlaSpeech JSON lines.
        transcripts: file or folder of .txt, .docx, .html, TEI XML with utterances (ParlaMint), or JSON lines.
        audio: the folder of the recordings, or its URL; it may follow in a later run.
        pairs: a .csv or .tsv with the columns recording and transcript; else names are compared, as those of recordings are.
        min_duration: seconds of the shortest segment.
        max_duration: seconds of the longest segment.
        out: the workspace folder.
        jobs: recordings that are aligned, and probed, at once; one per core unless given.
        engine: where recordings are aligned: loky, threading, dask, ray, spark or beam; workers read the same paths.
        address: of a running cluster of that engine.
        beam_options: further options of Beam, as on a command line.
        sha256: hash every recording, to detect changes.
        cache: bytes, or a size such as ``"20GB"``, for remote recordings that are kept in the workspace.
        add: keep what the workspace has, and bring in these recordings, as `ingest`.
        show_progress: show progress with rate and time left on standard error.

    Returns:
        Counts of words and how many are in segments, and what `ingest` reports; a problem for each recording without a match.

    Raises:
        InputError: an input or a duration is not usable, or no hypothesis has a transcript.
        ExistsError: `out` holds something else.

    Examples:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> words = "poštovane kolegice i kolege otvaram sjednicu hrvatskoga sabora".split()
        >>> lines = [f"day1 1 {second} 0.8 {word}" for second, word in enumerate(words)]
        >>> _ = (folder / "day1.ctm").write_text("\n".join(lines), "utf8")
        >>> _ = (folder / "day1.txt").write_text("Poštovane kolegice i kolege! Otvaram sjednicu Hrvatskoga sabora.", "utf8")
        >>> _ = align(folder / "day1.ctm", folder / "day1.txt", out=folder / "W", show_progress=False)
        >>> Workspace.open(folder / "W").segments.select("source_start", "source_end", "text").row(0)
        ('0', '7.8', 'Poštovane kolegice i kolege! Otvaram sjednicu Hrvatskoga sabora.')
    """
    if not 0 < min_duration < max_duration:
        raise InputError(f"min_duration must be above 0 and below max_duration, not {min_duration} and {max_duration}")
    if is_url(str(transcripts)):
        raise InputError(f"{transcripts}: transcripts are read from this machine; fetch them with 'nbaudio download'")
    site, folder = EngineLocation(engine, jobs, address, beam_options), Path(out).absolute()
    given = {"transcripts": Path(transcripts).absolute(), "pairs": pairs and Path(pairs).absolute()}
    options = {name: str(path) for name, path in given.items() if path} | {
        "min_duration": min_duration,
        "max_duration": max_duration,
    }
    counts = _Counts()

    def read(source: Path) -> Transcripts:
        nonlocal counts
        found, counts = _read(source, given, folder, site, (min_duration, max_duration), show_progress=show_progress)
        return found

    place = {"source": hypotheses, "audio": audio, "names": None, "out": out}
    report = bring_in("align", read, place, options, jobs=jobs, sha256=sha256, cache=cache, add=add)
    facts = {
        "words_of_transcripts": counts.typed,
        "in_segments": counts.typed_in_segments,
        "words_of_hypotheses": counts.heard,
        "heard_in_segments": counts.heard_in_segments,
    }
    shown = Report("align", facts | report.facts, report.warnings, report.problems, report.hidden)
    Workspace.open(folder).save_report("align", shown.to_dict())
    return shown


def _read(
    source: Path, given: dict[str, Any], out: Path, site: EngineLocation, lengths: tuple[float, float], *, show_progress: bool
) -> tuple[Transcripts, _Counts]:
    """Align all recordings."""
    problems: Problems = []
    spool = out / _SPOOL
    atomic.remove(spool)  # of a killed run
    try:
        hypotheses = list_hypotheses(source, spool / "hypotheses", problems)
        transcripts = list_transcripts(given["transcripts"], spool / "transcripts", problems)
        recordings = pair(hypotheses, transcripts, given["pairs"], problems)
        if not recordings:
            why = "; ".join(": ".join(problem) for problem in problems[:1]) or "there is none"
            raise InputError(f"{source}: no hypothesis with a transcript in {given['transcripts']}; {why}")
        tasks = [Task(number, *both, *lengths) for number, both in enumerate(recordings)]
        results = _align_all(tasks, out / _STORED, spool, site, show_progress=show_progress)
        return _collect(source, tasks, results, problems)
    finally:
        atomic.remove(spool)


def _align_all(tasks: Sequence[Task], stored: Path, spool: Path, site: EngineLocation, *, show_progress: bool) -> list[Path]:
    """Return files with the results of tasks, stored ones where inputs and method are the same."""
    paths = [stored / f"{_key(task)}.arrow" for task in tasks]
    missing = [task for task, path in zip(tasks, paths, strict=True) if not path.is_file()]
    for folder in (stored, spool):
        folder.mkdir(parents=True, exist_ok=True)
    if missing:
        with progress("align", len(missing), "recordings", show=show_progress) as advance, worker_pool(site) as run:
            for number, frame in run(align_recording, missing):
                if (frame["reason"] == "unreadable").any():  # perhaps not in the next run
                    paths[number] = spool / f"{number}.arrow"
                with atomic.atomic_write(paths[number]) as path:
                    frame.write_ipc(path, compression="zstd")
                advance(1)
    return paths


def _key(task: Task) -> str:
    """Return what a result depends on, as a hash."""
    files = [(item.name, item.file, _content(item.path)) for item in (task.hypothesis, *task.transcripts)]
    return hashlib.sha256(json.dumps([VERSION, files, task.shortest, task.longest]).encode()).hexdigest()[:32]


def _content(path: Path) -> str:
    try:
        return atomic.sha256_file(path)
    except OSError as error:  # the task says so
        return str(error)


def _collect(source: Path, tasks: Sequence[Task], results: Sequence[Path], problems: Problems) -> tuple[Transcripts, _Counts]:
    """Return the segments of all recordings, and what is in no segment, with the words of both."""
    further: list[pl.DataFrame] = []
    uses = Counter[str]()  # recordings that were compared with each document
    typed = heard = 0

    def segments() -> Iterator[pl.DataFrame]:
        nonlocal typed, heard
        for task, path in zip(tasks, results, strict=True):
            frame = pl.read_ipc(path)
            found = frame.filter(kind="segment")
            problems.extend(frame.filter(kind="problem").select("document", "text").iter_rows())
            others = frame.filter(pl.col("kind").is_in(["text", "audio"])).with_columns(name=pl.lit(task.hypothesis.name))
            further.append(others.select(*_UNMATCHED, "words"))
            uses.update(pl.concat([found, others], how="diagonal")["document"].drop_nulls().unique())
            typed += int(found["words"].sum())
            heard += int(found["asr_text"].str.count_matches(" ").sum()) + len(found)
            if len(found):
                yield _transcripts(found, task.hypothesis.name)

    rows = Rows.collect(segments())
    if not uses:
        raise InputError(f"{source}: no recording can be aligned; {': '.join(problems[0])}")
    unmatched = _intersected(pl.concat(further), uses)
    words = dict(unmatched.group_by("kind").agg(pl.sum("words")).iter_rows())
    counts = _Counts(typed + words.get("text", 0), typed, heard + words.get("audio", 0), heard)
    listed = [(file, None, reason) for file, reason in problems]
    found = Transcripts(
        replace(rows, schema=pl.Schema({**TRANSCRIPTS, **rows.schema})),
        pl.DataFrame(listed, schema=PROBLEMS, orient="row"),
        unmatched=unmatched.drop("words"),
    )
    return found, counts


def _transcripts(segments: pl.DataFrame, name: str) -> pl.DataFrame:
    """Return segments of a recording as `Transcripts` have them."""
    seconds = {
        column: pl.Series([f"{value:.6f}".rstrip("0").rstrip(".") for value in segments[column]], dtype=pl.String)
        for column in ("source_start", "source_end")
    }
    typed = segments["text"].str.normalize("NFC")
    text = typed.str.replace_all(r"\s+", " ")
    frame = segments.drop("kind", "reason", "words").with_columns(
        name=pl.lit(name),
        segment_id=pl.lit(None, pl.String),
        **seconds,
        text=text,
        text_raw=pl.when(typed != text).then(typed),
        asr_text=pl.col("asr_text").str.normalize("NFC"),
    )
    return frame.select(column for column in frame.columns if column in TRANSCRIPTS or frame[column].null_count() < len(frame))


def _intersected(unmatched: pl.DataFrame, uses: Mapping[str, int]) -> pl.DataFrame:
    """Replace the text of documents of several recordings by what is in no segment of any of them, without a recording."""
    shared = pl.col("document").is_in([document for document, count in uses.items() if count > 1]).fill_null(value=False)
    kept = [unmatched.filter(~shared)]
    for (document,), rows in unmatched.filter(shared).group_by("document", maintain_order=True):
        edges = [(row["document_start"], 1, row) for row in rows.iter_rows(named=True)]
        edges += [(row["document_end"], -1, row) for _, _, row in edges]
        depth, found = 0, []
        edges.sort(key=lambda edge: edge[:2])
        for (start, step, row), (end, _, _) in pairwise(edges):
            depth += step
            if depth == uses[str(document)] and start < end:
                text = row["text"][start - row["document_start"] : end - row["document_start"]]
                found.append(
                    row | {"name": None, "text": text, "document_start": start, "document_end": end, "words": len(text.split())}
                )
        kept.append(pl.DataFrame(found, schema=unmatched.schema))
    return pl.concat(kept)
