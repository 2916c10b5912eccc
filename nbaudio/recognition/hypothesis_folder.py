"""The folder of hypotheses of recordings: a JSON file for each, and the state of a run.

A file has `segments` with `start`, `end`, `text` and perhaps `words`, as Whisper writes them, and
`failed`, the windows that were not recognized. The hidden folder `.recognition` has the list of
recordings that are done, `done.jsonl`, and a ledger of answers for each of the others.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from nbaudio.core.atomic import (
    append_lines,
    atomic_write,
    parse_lines,
    remove,
    remove_partials,
    sha256_file,
    write_bytes,
)
from nbaudio.core.errors import ExistsError
from nbaudio.core.hashing import json_hash
from nbaudio.formats.timed_words import stem
from nbaudio.recognition.chunks import RATE
from nbaudio.recognition.ledger import AnswerLedger
from nbaudio.recognition.recording_parts import FailedChunk, PartOutcome, Source
from nbaudio.storage.run_log import step_lock
from nbaudio.storage.urls import stays_inside

_WORK = ".recognition"
_LOCK_WAIT_S = 10.0  # seconds to wait for another run with the same folder


@dataclass(frozen=True)
class DoneRecording:
    """A recording that was recognized: a line of `done.jsonl`.

    Attributes:
        path: relative to the folder of the recordings.
        num_bytes: of the file.
        version: of the file, as `Location.status` has it.
        identity: a hash of the recognizer and its settings.
        file: name of the file of the hypotheses, relative to their folder.
        sha256: of the file of the hypotheses.
        seconds: how long the recording is.
        counts: of chunks and words, by name.
    """

    path: str
    num_bytes: int | None
    version: str | int | None
    identity: str
    file: str
    sha256: str
    seconds: float
    counts: dict[str, int]


@dataclass(frozen=True)
class HypothesisFolder:
    """The folder of hypotheses; `identity` is that of a recognizer and its settings."""

    path: Path
    identity: str

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for a run, and remove partial files of killed runs.

        Raise ExistsError if the folder has other files than hypotheses.
        """
        is_new = not self.path.exists() or not any(self.path.iterdir())
        if not is_new and not (self.path / _WORK).is_dir():
            raise ExistsError(
                f"{self.path}: the folder is not empty and has no hypotheses of "
                "'nbaudio recognize'; choose another for --out"
            )
        self.work.mkdir(parents=True, exist_ok=True)
        with step_lock(self.work / "running", "recognize", of=self.path, wait_s=_LOCK_WAIT_S):
            remove_partials(self.path)
            yield

    @property
    def work(self) -> Path:
        """The hidden folder."""
        return self.path / _WORK

    @property
    def fetched(self) -> Path:
        """The folder of remote recordings during a run."""
        return self.work / "fetched"

    @property
    def problems(self) -> Path:
        """The list of what was not recognized in the last run."""
        return self.work / "problems.txt"

    @property
    def _list(self) -> Path:
        """The list of recordings that are done; of several lines of a recording the last holds."""
        return self.work / "done.jsonl"

    def done(self) -> dict[str, DoneRecording]:
        """Return the recordings that are listed as done, by path."""
        lines = parse_lines(self._list.read_bytes()) if self._list.exists() else ()
        recordings: dict[str, DoneRecording] = {}
        for line in lines:
            with suppress(msgspec.ValidationError):  # a damaged line: the recording is done again
                recording = msgspec.convert(line, DoneRecording)
                recordings[recording.path] = recording
        return recordings

    def is_whole(self, recording: DoneRecording) -> bool:
        """Return whether the file of the hypotheses has the listed hash."""
        target = self.path / recording.file
        return (
            stays_inside(recording.file)
            and target.is_file()
            and sha256_file(target) == recording.sha256
        )

    def rename(self, recording: DoneRecording, file: str) -> DoneRecording:
        """Rename the file of the hypotheses; return the recording with it, and list it anew."""
        if file == recording.file:
            return recording
        target = self.path / file
        target.parent.mkdir(parents=True, exist_ok=True)
        (self.path / recording.file).replace(target)
        fields = {**vars(recording), "file": file}
        append_lines(self._list, [json.dumps(fields, ensure_ascii=False).encode()])
        return DoneRecording(**fields)

    def ledger(self, source: Source, sha256: str | None) -> AnswerLedger:
        """Return the ledger of a recording.

        `sha256` is that of its file; if it is None, size and version stand for it.
        """
        content = sha256 or [source.num_bytes, source.version]
        key = json_hash([source.path, self.identity, content])
        return AnswerLedger(self.work / f"{key}.jsonl", self.identity, "answer", dict)

    def finish(self, problems: Sequence[str]) -> None:
        """Write the list of problems; without any, remove the recordings that were fetched."""
        if not problems:
            remove(self.fetched)
        write_bytes(self.problems, "".join(f"{line}\n" for line in problems).encode())

    def remove_other_ledgers(self, ledgers: Iterable[AnswerLedger]) -> None:
        """Remove the ledgers of earlier recognizers and files."""
        current = {ledger.path for ledger in ledgers} | {self._list}
        for path in self.work.glob("*.jsonl"):
            if path not in current:
                remove(path)

    def write(
        self, source: Source, file: str, answers: Mapping[str, Any], failed: Sequence[FailedChunk]
    ) -> DoneRecording:
        """Write the hypotheses of a recording; list it as done if no chunk failed.

        `answers` are those of all its chunks, by key, as in `LedgerAnswers`.
        """
        ordered = sorted(answers.items(), key=lambda item: _start_of(item[0]))
        header = {
            "duration": round(source.length / RATE, 3),
            "recognizer": self.identity,
            "failed": [_failed_window(chunk) for chunk in failed],
        }
        target = self.path / file
        with atomic_write(target) as partial:
            _write_hypotheses(partial, header, (answer["segments"] for _, answer in ordered))
        recording = DoneRecording(
            path=source.path,
            num_bytes=source.num_bytes,
            version=source.version,
            identity=self.identity,
            file=file,
            sha256=sha256_file(target),
            seconds=source.length / RATE,
            counts=_counts(answer["counts"] for _, answer in ordered),
        )
        if not failed:
            append_lines(self._list, [json.dumps(vars(recording), ensure_ascii=False).encode()])
        return recording


def output_names(paths: Iterable[str]) -> dict[str, str]:
    """Return the file of the hypotheses of each recording, both relative to their folders.

    It is ``day1.json`` for ``day1.flac``, but ``day1.flac.json`` if there is a ``day1.wav`` too.
    Names that differ in case alone are equal, as on some filesystems.
    """
    stems = {path: stem(path) for path in paths}
    num_recordings = Counter(name.casefold() for name in stems.values())
    files: dict[str, str] = {}
    for path, name in stems.items():
        is_unique = num_recordings[name.casefold()] == 1
        files[path] = f"{name}.json" if is_unique else f"{path}.json"
    return files


def add_outcome(ledger: AnswerLedger, outcome: PartOutcome) -> None:
    """Append the answers of a part to the ledger of its recording.

    If no chunk of the part failed, a line says that it is done.
    """
    lines: dict[str, Any] = dict(outcome.answers)
    if not outcome.failures:
        lines[_part_key(outcome.number)] = {"chunks": outcome.num_chunks}
    ledger.append(lines)


@dataclass(frozen=True)
class LedgerAnswers:
    """The answers in the ledger of a recording.

    Attributes:
        answers: of chunks, by `chunk_key`, such as ``0-448000``: samples at 16 kHz, half open.
        parts: numbers of the parts whose chunks all have answers.
        starts: of the chunks that have answers.
    """

    answers: dict[str, Any]
    parts: frozenset[int]
    starts: frozenset[int]


def read_answers(ledger: AnswerLedger) -> LedgerAnswers:
    """Read the answers that the ledger of a recording holds."""
    lines = ledger.read()
    answers = {key: value for key, value in lines.items() if {"segments", "counts"} <= value.keys()}
    parts = (key.removeprefix("part ") for key in lines if key.startswith("part "))
    return LedgerAnswers(answers, frozenset(map(int, parts)), frozenset(map(_start_of, answers)))


def _part_key(number: int) -> str:
    return f"part {number}"


def _start_of(key: str) -> int:
    """Return the first sample of a chunk by its key."""
    return int(key.partition("-")[0])


def _failed_window(chunk: FailedChunk) -> dict[str, Any]:
    return {
        "start": round(chunk.start / RATE, 3),
        "end": round(chunk.stop / RATE, 3),
        "reason": chunk.reason,
    }


def _counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums of the counts of chunks, and their number."""
    total = Counter[str]()
    for counts_of_chunk in counts:
        total["chunks"] += 1
        total.update(counts_of_chunk)
    return dict(sorted(total.items()))


def _write_hypotheses(
    path: Path, header: Mapping[str, Any], answers: Iterable[Sequence[Mapping[str, Any]]]
) -> None:
    """Write the JSON of a recording, a segment a line."""
    with path.open("w", encoding="utf8") as file:
        opened = json.dumps(header, ensure_ascii=False).removesuffix("}")
        file.write(opened + ', "segments": [')
        separator = "\n"
        for segments in answers:
            for segment in segments:
                file.write(separator + json.dumps(segment, ensure_ascii=False))
                separator = ",\n"
        file.write("\n]}\n")
