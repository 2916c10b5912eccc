"""Recognize parts of recordings: what a worker does.

Workers import this module when they start, so it imports no Polars. Positions are samples at 16
kHz from the start of a recording.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from nbaudio.audio import Recording, open_recording, resample_window
from nbaudio.core import allocator
from nbaudio.core.errors import AudioError
from nbaudio.core.threads import read_ahead
from nbaudio.core.times import rescale
from nbaudio.recognition.chunks import RATE, Chunk, Samples, cut_chunks, quietest_place
from nbaudio.recognition.recognizers import Failure, Recognizer
from nbaudio.recognition.timed_answers import PlacedAnswer, place_answer
from nbaudio.storage.location import Location

#: About how many seconds a part of a recording has, from half to one and a half times as many.
#: A command runs once for as much audio, and a kill loses as much for each job.
PART_S = 600
# Parts meet at the quietest place that is at most as many seconds from where they would be equal.
_REACH_S = 5
_BLOCK_S = 30  # seconds that are decoded at once

# What decoders raise on bad data; anything else is a bug and stops the run.
_BAD_AUDIO = (AudioError, OSError, RuntimeError, ValueError)


@dataclass(frozen=True)
class Source:
    """A recording, and what is known of its file.

    Attributes:
        path: relative to the folder of the recordings.
        place: of the file.
        num_bytes: of the file.
        version: of the file, as `Location.status` has it.
        sampling_rate: in Hz.
        num_samples: that can be decoded, at the sampling rate.
        channel: that is recognized, as `nbaudio.audio.channels` writes it.
    """

    path: str
    place: Location
    num_bytes: int | None
    version: str | int | None
    sampling_rate: int
    num_samples: int
    channel: str

    @property
    def length(self) -> int:
        """Samples at 16 kHz."""
        return rescale(self.num_samples, self.sampling_rate, RATE)


@dataclass(frozen=True)
class Part:
    """A part of a recording.

    Attributes:
        source: the recording.
        number: from 0.
        start_s: about where it starts.
        stop_s: about where it stops; None for the end of the recording.
        answered: the starts of chunks that have answers from earlier runs.
    """

    source: Source
    number: int
    start_s: int
    stop_s: int | None
    answered: frozenset[int] = field(default=frozenset(), repr=False)

    @property
    def first(self) -> int:
        """About the first sample."""
        return RATE * self.start_s

    @property
    def last(self) -> int:
        """About the last sample."""
        return self.source.length if self.stop_s is None else RATE * self.stop_s

    @property
    def seconds(self) -> float:
        """About how long it is."""
        return (self.last - self.first) / RATE


@dataclass(frozen=True)
class PartTask:
    """Parts that a worker recognizes together, as batches may have chunks of several."""

    parts: tuple[Part, ...]

    @property
    def seconds(self) -> float:
        """About how long they are."""
        return sum(part.seconds for part in self.parts)


@dataclass(frozen=True)
class FailedChunk:
    """A window of a recording without an answer, and why."""

    start: int
    stop: int
    reason: str


@dataclass
class PartOutcome:
    """What a recognizer gave for a part of a recording.

    Attributes:
        path: of the recording.
        number: of the part.
        answers: JSON values by the key of the chunk, see `chunk_key`: `segments` and `counts`.
        failures: windows without an answer.
        num_chunks: of the part.
    """

    path: str
    number: int
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: list[FailedChunk] = field(default_factory=list)
    num_chunks: int = 0


@dataclass(frozen=True)
class ChunkSettings:
    """How recordings are cut, and given to a recognizer.

    Attributes:
        longest: samples of the longest chunk.
        batch: most chunks in one call of a function.
    """

    longest: int
    batch: int


def parts_of(source: Source, *, can_seek: bool) -> list[Part]:
    """Divide a recording into an even number of parts of about `PART_S`, for two jobs.

    It is one part if it is short, or if it cannot seek.
    """
    seconds = source.length // RATE
    number = max(1, 2 * round(seconds / PART_S / 2)) if can_seek else 1
    starts = [seconds * part // number for part in range(number)]
    stops = [*starts[1:], None]
    return [
        Part(source, part, start, stop)
        for part, (start, stop) in enumerate(zip(starts, stops, strict=True))
    ]


def chunk_key(start: int, stop: int) -> str:
    """Return the key of a chunk in its recording."""
    return f"{start}-{stop}"


def recognize_parts(
    recognizer: Recognizer, settings: ChunkSettings, task: PartTask
) -> list[PartOutcome]:
    """Recognize the chunks of some parts that have no answer, a batch at a time.

    Runs in a worker. The next batch is read meanwhile, as a recognizer on a GPU leaves the
    processor free.
    """
    allocator.reuse_memory()
    outcomes = [PartOutcome(part.source.path, part.number) for part in task.parts]
    chunks = _chunks_of_parts(task.parts, outcomes, settings.longest)
    for batch in read_ahead(_batches(chunks, recognizer, settings.batch)):
        samples = {str(number): chunk.samples for number, (_, chunk) in enumerate(batch)}
        answers = recognizer(samples)
        for (outcome, chunk), answer in zip(batch, answers.values(), strict=True):
            _add_answer(outcome, chunk, answer)
    return outcomes


def _add_answer(outcome: PartOutcome, chunk: Chunk, answer: Any) -> None:
    """Add the answer for a chunk, or why it has none."""
    placed: PlacedAnswer | Failure = answer
    if not isinstance(answer, Failure):
        placed = place_answer(answer, chunk.start, chunk.stop)
    if isinstance(placed, Failure):
        outcome.failures.append(FailedChunk(chunk.start, chunk.stop, placed.reason))
    else:
        value = {"segments": placed.segments, "counts": placed.counts}
        outcome.answers[chunk_key(chunk.start, chunk.stop)] = value


_PartChunk = tuple[PartOutcome, Chunk]


def _batches(
    chunks: Iterator[_PartChunk], recognizer: Recognizer, batch: int
) -> Iterator[list[_PartChunk]]:
    """Yield as many chunks as a function, or a command, gets at once."""
    if not recognizer.is_command:
        while some := list(islice(chunks, batch)):
            yield some
        return
    waiting: list[_PartChunk] = []
    for item in chunks:
        waiting.append(item)
        if sum(len(chunk.samples) for _, chunk in waiting) >= PART_S * RATE:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _chunks_of_parts(
    parts: Iterable[Part], outcomes: Iterable[PartOutcome], longest: int
) -> Iterator[_PartChunk]:
    """Yield the chunks without answers; add windows that cannot be decoded to the failures."""
    for part, outcome in zip(parts, outcomes, strict=True):
        try:
            yield from _chunks_of_part(part, outcome, longest)
        except _BAD_AUDIO as error:
            outcome.failures.append(FailedChunk(part.first, part.last, str(error)))


def _chunks_of_part(part: Part, outcome: PartOutcome, longest: int) -> Iterator[_PartChunk]:
    """Yield the chunks of a part; raise AudioError if its file cannot be read, or has changed."""
    source = part.source
    _check_unchanged(source)
    with ExitStack() as stack:
        recording = stack.enter_context(open_recording(source.place))
        reader = _PartReader(recording, source, outcome.failures)
        start = reader.edge(part.start_s)
        stop = source.length if part.stop_s is None else reader.edge(part.stop_s)
        for chunk in cut_chunks(reader.blocks(start, stop), longest):
            outcome.num_chunks += 1
            if chunk.start not in part.answered:
                yield outcome, chunk
    _check_unchanged(source)


def _check_unchanged(source: Source) -> None:
    """Raise AudioError if a file is no longer the one that was probed."""
    status = source.place.status()
    if (status.num_bytes, status.version) != (source.num_bytes, source.version):
        raise AudioError("the file changed during the run; run the command again")


@dataclass(frozen=True)
class _PartReader:
    """Reads a recording at 16 kHz in blocks; adds those that cannot be decoded to `failures`."""

    recording: Recording
    source: Source
    failures: list[FailedChunk]

    def edge(self, second: int) -> int:
        """Return where the parts meet that do so near a second, which both parts compute alike."""
        if second == 0:
            return 0
        first = RATE * (second - _REACH_S)
        try:
            return first + quietest_place(self._read(first, first + 2 * RATE * _REACH_S))
        except _BAD_AUDIO:
            return RATE * second

    def blocks(self, start: int, stop: int) -> Iterator[Chunk]:
        """Yield the samples from `start` to `stop`, without those that cannot be decoded."""
        position = start
        while position < stop:
            end = min(stop, (position // (RATE * _BLOCK_S) + 1) * RATE * _BLOCK_S)
            try:
                yield Chunk(position, self._read(position, end))
            except _BAD_AUDIO as error:
                self.failures.append(FailedChunk(position, end, str(error)))
            position = end

    def _read(self, start: int, stop: int) -> Samples:
        """Return samples: whole seconds are read, as these are whole samples at every rate."""
        first_second = start // RATE
        rate = self.source.sampling_rate
        end = min(self.source.num_samples, -(-stop // RATE) * rate)
        samples = resample_window(
            self.recording,
            first_second * rate,
            end,
            num_samples=self.source.num_samples,
            rate=RATE,
            channel=self.source.channel,
        )
        return samples[start - first_second * RATE : stop - first_second * RATE]
