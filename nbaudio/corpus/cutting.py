"""Cut windows of recordings into a pack: what a worker does.

Workers import this module when they start, so it imports no Polars.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from nbaudio.audio import Recording, encode_clip, open_recording, resample_window
from nbaudio.audio.signals import Value, window_signals
from nbaudio.audio.silence import silence_reason
from nbaudio.core import allocator, atomic
from nbaudio.core.errors import AudioError, redact_urls
from nbaudio.corpus.pack_index import IndexRow, index_bytes
from nbaudio.storage.location import Location
from nbaudio.storage.remote import CHANGED_MESSAGE

Result = TypeVar("Result")

# What decoders raise on bad data; anything else is a bug and stops the run.
_BAD_AUDIO = (AudioError, OSError, RuntimeError, ValueError)


@dataclass(frozen=True)
class ClipFormat:
    """Format of the clips.

    `rate` is in Hz; None keeps the rate of the recording. `channel` is for segments that have no
    `source_channel`. `encoding` is a name such as ``flac``.
    """

    rate: int | None
    channel: str
    encoding: str


Window = tuple[str, int, int, str]
"""Key of a clip, its first sample, one past the last, and the channel."""


@dataclass(frozen=True)
class Source:
    """One recording and the windows to cut from it, in order.

    `inputs` has for each window the values that a model gets beside the samples, as a JSON list; it
    is empty elsewhere. The other fields hold what is known of its file since it was ingested.
    """

    recording_id: str
    path: Location
    num_samples: int
    sha256: str | None
    num_bytes: int | None
    version: str | int | None
    windows: tuple[Window, ...]
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class CutTask:
    """Windows to cut into one pack."""

    pack: Location
    sources: tuple[Source, ...]
    seconds: float


class CutResult(NamedTuple):
    """The outcome of a cut task.

    It has the seconds of audio and, by clip key, why clips failed, and texts or signals of others.
    """

    seconds: float
    failures: dict[str, str]
    values: dict[str, Any]


class MeasuredClip(NamedTuple):
    """The window of a clip, at the rate of its recording, and its signals."""

    recording_id: str
    start_sample: int
    end_sample: int
    source_channel: str
    signals: dict[str, Value]


def clip_of(
    recording: Recording, source: Source, window: Window, rate: int | None
) -> NDArray[np.int16]:
    """Return the samples of the clip of a window, int16, at `rate` or the recording's own."""
    _, start, stop, channel = window
    return resample_window(
        recording, start, stop, num_samples=source.num_samples, rate=rate, channel=channel
    )


def _clip_with_signal(
    recording: Recording, source: Source, window: Window, rate: int | None
) -> NDArray[np.int16]:
    """Return the clip of a window, as `clip_of`; raise AudioError if it has no signal."""
    clip = clip_of(recording, source, window, rate)
    if reason := silence_reason(recording, *window[1:], clip):
        raise AudioError(reason)
    return clip


@dataclass(frozen=True)
class _CutClip:
    """A clip as it goes into a pack: its samples, encoded, and its signals if they are wanted."""

    num_samples: int
    content: bytes
    measured: MeasuredClip | None


def cut(clip_format: ClipFormat, task: CutTask, *, measured: bool = False) -> CutResult:
    """Cut a task's windows, in order, into its pack; if `measured`, return `MeasuredClip`s, too.

    Report what fails, and clips without any signal. Runs in a worker.
    """
    index: list[IndexRow] = []
    failures: dict[str, str] = {}
    values: dict[str, MeasuredClip | None] = {}
    cut_window = partial(_cut_window, clip_format, measured=measured)
    # Not synced: the hashes detect what a power cut leaves.
    with task.pack.new() as path, path.open("wb") as file:
        for source in task.sources:
            start = file.tell()
            before = len(index)
            for key, clip in _source_windows(source, cut_window, failures):
                checksum = hashlib.sha256(clip.content).hexdigest()
                index.append((key, file.tell(), len(clip.content), clip.num_samples, checksum))
                file.write(clip.content)
                values[key] = clip.measured
            # The file changed meanwhile: some of its clips may be of the old file, some of the new
            # one.
            if any(key in failures for key, *_ in index[before:]):
                del index[before:]
                file.seek(start)
                file.truncate()
        file.write(index_bytes(index))
    good_values = {
        key: value for key, value in values.items() if value is not None and key not in failures
    }
    return CutResult(task.seconds, failures, good_values)


def _cut_window(
    clip_format: ClipFormat,
    recording: Recording,
    source: Source,
    window: Window,
    *,
    measured: bool,
) -> _CutClip:
    """Return the clip of a window; raise AudioError if it has no signal."""
    signals = _measured_clip(recording, source, window) if measured else None
    clip = _clip_with_signal(recording, source, window, clip_format.rate)
    rate = clip_format.rate or recording.sampling_rate
    return _CutClip(len(clip), encode_clip(clip, rate, clip_format.encoding), signals)


def measure_windows(task: CutTask) -> CutResult:
    """Measure a task's windows, in order; report recordings and windows that fail.

    Runs in a worker.
    """
    failures: dict[str, str] = {}
    values = dict(task_windows(task, _signals_of, failures))
    good_values = {key: value for key, value in values.items() if key not in failures}
    return CutResult(task.seconds, failures, good_values)


def _signals_of(recording: Recording, source: Source, window: Window) -> dict[str, Value]:
    return window_signals(recording, *window[1:], num_samples=source.num_samples)


def _measured_clip(recording: Recording, source: Source, window: Window) -> MeasuredClip:
    """Return the key of a clip's measurement, and its signals."""
    return MeasuredClip(source.recording_id, *window[1:], _signals_of(recording, source, window))


def task_windows(
    task: CutTask, use: Callable[[Recording, Source, Window], Result], failures: dict[str, str]
) -> Iterator[tuple[str, Result]]:
    """Yield clip keys of a task with what `use` returns.

    Add to `failures` why others fail, also those of a file that changed meanwhile.
    """
    for source in task.sources:
        yield from _source_windows(source, use, failures)


def _source_windows(
    source: Source, use: Callable[[Recording, Source, Window], Result], failures: dict[str, str]
) -> Iterator[tuple[str, Result]]:
    """Yield clip keys of a recording with what `use` returns; see `task_windows`."""
    allocator.reuse_memory()
    num_samples = sum(stop - start for _, start, stop, _ in source.windows)
    share = num_samples / max(1, source.num_samples)
    try:
        _check_unchanged(source)
        with open_recording(source.path, windows=len(source.windows), share=share) as recording:
            yield from _recording_windows(recording, source, use, failures)
        # Remote files are checked when they are fetched; a file removed after the last window does
        # no harm.
        if source.path.local is not None and source.path.local.exists():
            _check_unchanged(source)
    except _BAD_AUDIO as error:
        reason = redact_urls(str(error))
        failures.update({key: reason for key, *_ in source.windows})


def _recording_windows(
    recording: Recording,
    source: Source,
    use: Callable[[Recording, Source, Window], Result],
    failures: dict[str, str],
) -> Iterator[tuple[str, Result]]:
    """Yield clip keys of an open recording with what `use` returns; see `task_windows`."""
    for window in source.windows:
        key = window[0]
        try:
            outcome = use(recording, source, window)
        except _BAD_AUDIO as error:
            failures[key] = f"{source.path.name}: {error}"
        else:
            yield key, outcome


def _check_unchanged(source: Source) -> None:
    """Raise `AudioError` if a file is not the one that was ingested.

    Its windows would be of something else.
    """
    file = source.path
    try:
        status = file.status()
    except FileNotFoundError as error:
        raise AudioError(f"{file.name}: the file has disappeared since it was ingested") from error
    was_measured = source.num_bytes is not None or source.sha256 is not None
    is_same = status == (source.num_bytes, source.version)
    is_same = is_same or (file.local is not None and not was_measured)
    if not is_same and source.sha256 is not None and source.num_bytes in (None, status.num_bytes):
        with file.fetched() as path:
            is_same = atomic.sha256_file(path) == source.sha256
    if not is_same:
        shown = file.name if file.local else file
        raise AudioError(f"{shown}: {CHANGED_MESSAGE}")
