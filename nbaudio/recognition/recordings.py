"""Recognize whole recordings: timed words for `align`, one file for each recording."""

import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import cast

from nbaudio.audio import open_recording
from nbaudio.core.atomic import remove
from nbaudio.core.errors import AudioError, InputError, WorkerLostError
from nbaudio.core.hashing import json_hash
from nbaudio.core.progress import progress, progress_note
from nbaudio.core.progress_text import AUDIO
from nbaudio.core.report import Report, count, first_lines
from nbaudio.engine import EngineLocation, RunTasks, worker_pool
from nbaudio.recognition.chunks import FRAME, LEAST_SECONDS, MOST_SECONDS, RATE
from nbaudio.recognition.facts import speed_facts
from nbaudio.recognition.hypothesis_folder import (
    DoneRecording,
    HypothesisFolder,
    add_outcome,
    output_names,
    read_answers,
)
from nbaudio.recognition.ledger import AnswerLedger
from nbaudio.recognition.recognizers import Function, Recognizer
from nbaudio.recognition.recording_parts import (
    PART_S,
    ChunkSettings,
    FailedChunk,
    Part,
    PartOutcome,
    PartTask,
    Source,
    parts_of,
    recognize_parts,
)
from nbaudio.recognition.timed_answers import (
    SEGMENTS_WITHOUT_WORDS,
    TIMED,
    WORDS,
    WORDS_CLIPPED,
    WORDS_WITHOUT_TIMES,
)
from nbaudio.sources.recordings import list_audio, probe_recordings
from nbaudio.storage.archives import is_in_archive
from nbaudio.storage.cache import LIMIT, Cache
from nbaudio.storage.location import Location, location
from nbaudio.storage.urls import is_url, redact_url

#: Seconds of the longest chunk by default: what Whisper takes at once, with a margin.
CHUNK_S = 28.0

# Rises when equal recordings would get other chunks or times.
_VERSION = 1
_MIX = "mix"
_LOST = "the worker that recognizes it is killed: it crashes a library, or needs too much memory"

_Call = Callable[[PartTask], list[PartOutcome]]


@dataclass(frozen=True)
class RecordingRun:
    """How recordings are recognized; see the arguments of `recognize`."""

    out: Path
    program: str | Function
    chunk: float
    batch: int
    site: EngineLocation
    show_progress: bool


def recognize_recordings(audio: str | Path, run: RecordingRun) -> Report:
    """Recognize recordings, and write a file of hypotheses for each.

    Raises:
        InputError: there are no recordings, an argument is not usable, or nothing can be
            recognized.
        ExistsError: the folder of the hypotheses holds something else.
    """
    began = time.monotonic()
    settings = _settings(run)
    recognizer = Recognizer.of(run.program, TIMED)
    identity = json_hash([_VERSION, recognizer.version, settings.longest])
    folder = HypothesisFolder(run.out.absolute(), identity)
    recordings = _list_recordings(audio, folder)
    workers = _Workers(partial(recognize_parts, recognizer, settings), run)
    with folder.locked():
        outcome = _recognize_missing(recordings, folder, workers)
        if not outcome.done:
            reason = next(iter(outcome.problems), "no recordings")
            number = count(len(recordings.files), "recordings")
            raise InputError(f"{audio}: none of {number} can be recognized; {reason}")
        folder.finish(outcome.problems)
    facts = {
        **_facts(recordings, outcome),
        **speed_facts(outcome.seconds, time.monotonic() - began),
        "next": _next_command(audio, run.out),
    }
    warnings = [*first_lines(outcome.warnings, "the recordings"), *_warnings(outcome.done)]
    problems = first_lines(outcome.problems, str(folder.problems))
    return Report("recognize", facts, [*warnings, *_gone(folder, recordings)], problems)


def _settings(run: RecordingRun) -> ChunkSettings:
    """Return how recordings are cut; raise InputError if the chunks would be too short."""
    if not LEAST_SECONDS <= run.chunk <= MOST_SECONDS:
        raise InputError(
            f"chunk must be from {LEAST_SECONDS:g} to {MOST_SECONDS:g} s, not {run.chunk:g}"
        )
    return ChunkSettings(int(run.chunk * RATE) // FRAME * FRAME, run.batch)


def _next_command(audio: str | Path, out: Path) -> str:
    is_file = not is_url(str(audio)) and Path(audio).is_file()
    folder = str(Path(audio).parent if is_file else audio)
    options = shlex.join(["--audio", redact_url(folder), "--out", "W"])
    return f"nbaudio align {shlex.quote(str(out))} TRANSCRIPTS {options}"


@dataclass(frozen=True)
class _Recordings:
    """Recordings of a folder.

    Attributes:
        root: the folder.
        files: of the hypotheses, by the path of the recording; see `output_names`.
        refused: a line for each that is not read.
    """

    root: Location
    files: dict[str, str]
    refused: list[str]


def _list_recordings(audio: str | Path, folder: HypothesisFolder) -> _Recordings:
    """List the recordings of a folder, or one file; raise InputError if there are none."""
    root: Location
    if is_url(str(audio)):
        root = location(str(audio), Cache(folder.fetched, LIMIT))
        if is_in_archive(root):
            raise InputError(f"{audio}: recordings in a compressed tar are not read; unpack it")
    else:
        path = Path(audio).absolute()
        if not path.exists():
            raise InputError(f"{audio}: there is no such file or folder")
        if path.is_file():
            return _Recordings(location(path.parent), output_names([path.name]), [])
        root = location(path)
    paths, refused = list_audio(root)
    if paths.is_empty():
        reason = "; ".join(": ".join(item) for item in refused[:1]) or "no audio files"
        raise InputError(f"{audio}: no recordings ({reason})")
    return _Recordings(root, output_names(paths), [": ".join(item) for item in refused])


def _earlier(recordings: _Recordings, folder: HypothesisFolder) -> dict[str, DoneRecording]:
    """Return the recordings whose hypotheses an earlier run has written, by path."""
    done = folder.done()
    return {
        path: folder.rename(done[path], file)
        for path, file in recordings.files.items()
        if path in done
        and done[path].identity == folder.identity
        and folder.is_whole(done[path])
        and _is_unchanged(recordings.root / path, done[path])
    }


def _is_unchanged(place: Location, recording: DoneRecording) -> bool:
    try:
        status = place.status()
    except (AudioError, OSError):
        return False
    return (status.num_bytes, status.version) == (recording.num_bytes, recording.version)


@dataclass(frozen=True)
class _Recording:
    """A recording to recognize.

    Attributes:
        source: the recording.
        file: of the hypotheses.
        ledger: of the answers.
    """

    source: Source
    file: str
    ledger: AnswerLedger


@dataclass(frozen=True)
class _Probed:
    """Recordings that can be read, lines about others, and about odd ones."""

    recordings: list[_Recording]
    problems: list[str]
    warnings: list[str]


def _probe(
    recordings: _Recordings, folder: HypothesisFolder, earlier: Mapping[str, DoneRecording]
) -> _Probed:
    """Probe the recordings that have no hypotheses."""
    missing = [path for path in recordings.files if path not in earlier]
    probed = _Probed([], [], [])
    if not missing:
        return probed
    facts = probe_recordings(recordings.root, missing, keep=folder.work)
    for row in facts.iter_rows(named=True):
        path = row["path"]
        place = recordings.root / path
        if row["error"] is not None:
            reason = row["error"].removeprefix(str(place)).lstrip(":, ")
            probed.problems.append(f"{path}: {reason}")
            continue
        if row["probe_warning"] is not None:
            probed.warnings.append(f"{path}: {row['probe_warning']}")
        source = Source(
            path=path,
            place=place.with_sha256(row["sha256"]),
            num_bytes=row["num_bytes"],
            version=row["mtime_ns" if place.local else "version"],
            sampling_rate=row["sampling_rate"],
            num_samples=row["num_samples"],
            channel=row["uncancelled_channel"] or _MIX,
        )
        ledger = folder.ledger(source, row["sha256"])
        probed.recordings.append(_Recording(source, recordings.files[path], ledger))
    return probed


@dataclass(frozen=True)
class _Workers:
    """The function that workers call for each task, and how they run."""

    call: _Call
    run: RecordingRun


@dataclass
class _Unfinished:
    """A recording that is recognized.

    Attributes:
        recording: the recording.
        parts: those without all answers.
        num_waiting: how many of them are not recognized yet.
        failures: windows without an answer, so far.
    """

    recording: _Recording
    parts: list[Part]
    num_waiting: int
    failures: list[FailedChunk] = field(default_factory=list)


@dataclass
class _Outcome:
    """What a run did.

    Attributes:
        done: recordings that have hypotheses, those of earlier runs first.
        problems: a line for each recording or window without an answer.
        warnings: about odd files.
        num_new: how many of `done` were written now.
        num_failed: how many windows have no answer.
        seconds: of audio that was recognized.
        ledgers: of recordings that have such windows, for the next run.
    """

    done: list[DoneRecording]
    problems: list[str]
    warnings: list[str]
    num_new: int = 0
    num_failed: int = 0
    seconds: float = 0.0
    ledgers: list[AnswerLedger] = field(default_factory=list)


def _recognize_missing(
    recordings: _Recordings, folder: HypothesisFolder, workers: _Workers
) -> _Outcome:
    """Recognize the recordings without hypotheses, part by part.

    Write the hypotheses of each after its last part.
    """
    earlier = _earlier(recordings, folder)
    probed = _probe(recordings, folder, earlier)
    outcome = _Outcome(
        [*earlier.values()], [*recordings.refused, *probed.problems], probed.warnings
    )
    unfinished = {item.source.path: _unfinished(item) for item in probed.recordings}
    for item in unfinished.values():
        if not item.parts:
            _finish(item, folder, outcome)
    parts = [part for item in unfinished.values() for part in item.parts]
    for part_outcome in _run_workers(parts, workers):
        item = unfinished[part_outcome.path]
        add_outcome(item.recording.ledger, part_outcome)
        item.failures += part_outcome.failures
        item.num_waiting -= 1
        if not item.num_waiting:
            _finish(item, folder, outcome)
    outcome.seconds = sum(part.seconds for part in parts)
    folder.remove_other_ledgers(outcome.ledgers)
    return outcome


def _unfinished(recording: _Recording) -> _Unfinished:
    """Return what is to do for a recording, without the parts that its ledger has."""
    answers = read_answers(recording.ledger)
    parts = [
        Part(part.source, part.number, part.start_s, part.stop_s, answers.starts)
        for part in parts_of(recording.source, can_seek=_can_seek(recording.source))
        if part.number not in answers.parts
    ]
    return _Unfinished(recording, parts, len(parts))


def _can_seek(source: Source) -> bool:
    """Return whether a long recording is read from its middle without decoding its beginning."""
    if len(parts_of(source, can_seek=True)) == 1:
        return True
    try:
        with open_recording(source.place) as recording:
            return recording.seeks
    except (AudioError, OSError):
        return True  # the worker reports why


def _finish(unfinished: _Unfinished, folder: HypothesisFolder, outcome: _Outcome) -> None:
    """Write the hypotheses of a recording; keep its ledger if windows failed."""
    recording = unfinished.recording
    answers = read_answers(recording.ledger).answers
    failures = sorted(unfinished.failures, key=lambda failed: failed.start)
    if failures:
        outcome.num_failed += len(failures)
        outcome.problems += [_problem(recording.source, failed) for failed in failures]
        outcome.ledgers.append(recording.ledger)
    if failures and not answers:
        remove(folder.path / recording.file)
        return
    outcome.num_new += 1
    outcome.done.append(folder.write(recording.source, recording.file, answers, failures))
    if not failures:
        remove(recording.ledger.path)


def _problem(source: Source, failed: FailedChunk) -> str:
    return f"{source.path}, {failed.start / RATE:.2f}-{failed.stop / RATE:.2f} s: {failed.reason}"


def _run_workers(parts: Sequence[Part], workers: _Workers) -> Iterator[PartOutcome]:
    """Yield what the recognizer gives for parts, in any order."""
    if not parts:
        return
    tasks = list(_tasks(parts))
    hours = sum(part.seconds for part in parts) / 3600
    seconds = {(part.source.path, part.number): part.seconds for part in parts}
    with (
        worker_pool(workers.run.site) as run_tasks,
        progress("recognize", hours, AUDIO, show=workers.run.show_progress) as advance,
    ):
        outcomes = chain.from_iterable(_outcomes(run_tasks, workers.call, tasks))
        for outcome in outcomes:
            yield outcome
            for failed in outcome.failures:
                progress_note(f"{outcome.path}: {failed.reason}")
            advance(seconds[outcome.path, outcome.number] / 3600)


def _tasks(parts: Iterable[Part]) -> Iterator[PartTask]:
    """Group parts into tasks: short recordings together, up to `PART_S`."""
    waiting: list[Part] = []
    for part in parts:
        waiting.append(part)
        if sum(item.seconds for item in waiting) >= PART_S:
            yield PartTask(tuple(waiting))
            waiting = []
    if waiting:
        yield PartTask(tuple(waiting))


def _outcomes(
    run_tasks: RunTasks, call: _Call, tasks: Iterable[PartTask]
) -> Iterator[list[PartOutcome]]:
    """Yield the outcomes of tasks; a part that kills its worker fails."""
    # A task that the engine took has a result, or is one of the lost tasks: `waiting` has the rest.
    waiting = iter(tasks)
    while True:
        try:
            yield from run_tasks(call, waiting)
        except WorkerLostError as error:
            lost_tasks = cast(tuple[PartTask, ...], error.tasks)
            for part in chain.from_iterable(task.parts for task in lost_tasks):
                yield from _outcomes_of_part(run_tasks, call, part)
        else:
            return


def _outcomes_of_part(run_tasks: RunTasks, call: _Call, part: Part) -> Iterator[list[PartOutcome]]:
    """Yield the outcome of a part by itself; it fails if it kills its worker again."""
    try:
        yield from run_tasks(call, [PartTask((part,))])
    except WorkerLostError:
        failed = FailedChunk(part.first, part.last, _LOST)
        yield [PartOutcome(part.source.path, part.number, failures=[failed])]


def _facts(recordings: _Recordings, outcome: _Outcome) -> dict[str, int]:
    """Count recordings by what became of them, chunks and words."""
    return {
        "recordings": len(recordings.files),
        "recognized_now": outcome.num_new,
        "already_recognized": len(outcome.done) - outcome.num_new,
        "failed": len(recordings.files) - len(outcome.done),
        **_counts(outcome.done),
        "failed_chunks": outcome.num_failed,
    }


def _counts(done: Iterable[DoneRecording]) -> dict[str, int]:
    """Return the sums of the counts of all recordings."""
    total = Counter[str]()
    for recording in done:
        total.update(recording.counts)
    names = ("chunks", WORDS, WORDS_WITHOUT_TIMES, WORDS_CLIPPED, SEGMENTS_WITHOUT_WORDS)
    return {name: total[name] for name in names}


def _warnings(done: Sequence[DoneRecording]) -> list[str]:
    """Return what is odd about the answers."""
    counts = _counts(done)
    warnings: list[str] = []
    silent = [
        recording.path
        for recording in done
        if not recording.counts.get(WORDS) and not recording.counts.get(SEGMENTS_WITHOUT_WORDS)
    ]
    if silent:
        listed = ", ".join(silent[:5])
        warnings.append(
            f"nothing was heard in {count(len(silent), 'recordings')}, such as {listed}"
        )
    if number := counts[SEGMENTS_WITHOUT_WORDS]:
        warnings.append(
            f"{count(number, 'segments', 'have')} no times of words, which align needs: "
            "the recognizer gives none"
        )
    if number := counts[WORDS_WITHOUT_TIMES]:
        warnings.append(
            f"{count(number, 'words', 'have')} no usable times, and are written without"
        )
    if number := counts[WORDS_CLIPPED]:
        warnings.append(
            f"times of {count(number, 'words')} were outside of the chunk: set to its edge"
        )
    return warnings


def _gone(folder: HypothesisFolder, recordings: _Recordings) -> list[str]:
    """Return a line about hypotheses of recordings that are no longer there, if any."""
    missing = sorted(set(folder.done()) - set(recordings.files))
    if not missing:
        return []
    return [
        f"hypotheses of {count(len(missing), 'recordings')} that are not there, "
        f"such as {missing[0]}, "
        "stay in the folder"
    ]
