"""Packs: encoded clips end to end, then their index.

The index is verified when it is read, and every clip when it is copied.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.audio import Recording, encode_clip, open_recording, resample_window
from nbaudio.audio.signals import Value, window_signals
from nbaudio.audio.silence import silence_reason
from nbaudio.core import allocator, atomic, threads
from nbaudio.core.errors import AudioError, NbaudioError, WorkerLostError, strip_queries
from nbaudio.core.progress import progress, progress_note
from nbaudio.core.progress_text import AUDIO
from nbaudio.corpus.clip_keys import ClipFormat, rows_without_key
from nbaudio.corpus.clip_locations import verified_clip
from nbaudio.corpus.cut_tasks import CutAmount, CutTask, Source, named_task
from nbaudio.engine import RunTasks
from nbaudio.storage.location import Location, LocationLike, location
from nbaudio.storage.network import RemoteNotFoundError
from nbaudio.storage.remote import CHANGED_MESSAGE
from nbaudio.storage.urls import is_url
from nbaudio.tables.buckets import Buckets, store

Result = TypeVar("Result")

_TRAILER = struct.Struct("<Q32s8s")  # length of the index, its SHA-256, `_MAGIC`
_MAGIC = b"nbpack01"
# What decoders raise on bad data; anything else is a bug and stops the run.
_BAD_AUDIO = (AudioError, OSError, RuntimeError, ValueError)
_READERS = 16  # concurrent requests of remote packs

_COUNTS = dict.fromkeys(("offset", "length", "clip_samples"), pl.Int64)
INDEX = pl.Schema({"clip_key": pl.String, **_COUNTS, "clip_sha256": pl.String, "pack": pl.String})
_INDEX_ROW = ("clip_key", "offset", "length", "clip_samples", "clip_sha256")
_decode_index = msgspec.json.Decoder(list[tuple[str, int, int, int, str]]).decode

_KEYS_OF_PACKS = pl.Schema({"clip_key": pl.String, "pack": pl.UInt32})

Window = tuple[str, int, int, str]  # a row of `Source.windows`


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


def cut_all(
    run_tasks: RunTasks,
    what: str,
    function: Callable[[CutTask], CutResult],
    amount: CutAmount,
    tasks: Iterable[CutTask],
    *,
    show: bool,
) -> Iterator[CutResult]:
    """Call a function, such as `cut`, on tasks, which have some `amount` of audio.

    Note failures, and show the progress.
    """
    if not amount.num_clips:
        return
    with progress(what, amount.seconds / 3600, AUDIO, show=show) as advance:
        for cut_result in _results(run_tasks, tasks, function):
            yield cut_result
            for reason in cut_result.failures.values():
                progress_note(reason)
            advance(cut_result.seconds / 3600)


def _results(
    run_tasks: RunTasks, tasks: Iterable[CutTask], function: Callable[[CutTask], CutResult]
) -> Iterator[CutResult]:
    """Yield the results of tasks.

    A recording that kills its worker fails, like any other bad recording.
    """
    waiting = iter(tasks)
    while True:
        try:
            yield from run_tasks(function, waiting)
        except WorkerLostError as error:
            for task in cast(tuple[CutTask, ...], error.tasks):
                yield from _results_by_source(run_tasks, task, function)
        else:
            return


def _results_by_source(
    run_tasks: RunTasks, task: CutTask, function: Callable[[CutTask], CutResult]
) -> Iterator[CutResult]:
    """Cut the sources of a task one by one; a source that kills its worker becomes a failure."""
    seconds = task.seconds / len(task.sources)
    for source in task.sources:
        try:
            yield from run_tasks(function, [named_task([source], task.pack.parent, seconds)])
        except WorkerLostError:
            reason = (
                f"{source.path.name}: the worker that decodes it is killed: it crashes a library, "
                "or needs too much memory"
            )
            yield CutResult(seconds, {key: reason for key, *_ in source.windows}, {})


def clip_of(
    recording: Recording, source: Source, window: Window, rate: int | None
) -> NDArray[np.int16]:
    """Return the samples of a window's clip."""
    _, start, stop, channel = window
    return resample_window(
        recording, start, stop, num_samples=source.num_samples, rate=rate, channel=channel
    )


def _clip_with_signal(
    recording: Recording, source: Source, window: Window, rate: int | None
) -> NDArray[np.int16]:
    """Return the samples of a window's clip; raise AudioError if it has no signal."""
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
    index: list[tuple[str, int, int, int, str]] = []
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
        file.write(_index_bytes(index))
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


def _index_bytes(index: Sequence[tuple[str, int, int, int, str]]) -> bytes:
    """Return the index of a pack and the trailer.

    The index is a JSON list of [key, offset, length, samples, sha256] of each clip.
    """
    encoded = json.dumps(index, separators=(",", ":")).encode()
    return encoded + _TRAILER.pack(len(encoded), hashlib.sha256(encoded).digest(), _MAGIC)


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
        reason = strip_queries(str(error))
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
        raise AudioError(f"{file if file.local is None else file.name}: {CHANGED_MESSAGE}")


def read_index(pack: LocationLike) -> pl.DataFrame | None:
    """Read the clips of a pack; None if the pack is incomplete or damaged."""
    place = location(pack)
    try:
        size = place.status().num_bytes
        end = size - _TRAILER.size
        if end < 0:
            return None
        length, checksum, magic = _TRAILER.unpack(place.read(end, size))
        if magic != _MAGIC or length > end:
            return None
        encoded = place.read(end - length, end)
    except (OSError, AudioError):
        if place.local is None:
            raise
        return None
    if hashlib.sha256(encoded).digest() != checksum:
        return None
    rows = _decode_index(encoded)
    columns = zip(*rows, strict=True) if rows else [()] * len(_INDEX_ROW)
    index = pl.DataFrame(
        [
            pl.Series(name, list(values), INDEX[name])
            for name, values in zip(_INDEX_ROW, columns, strict=True)
        ]
    )
    return index.with_columns(pack=pl.lit(str(pack)))


def pack_names(packs: Location) -> list[str]:
    """Return the names of the packs in a folder."""
    return [name for name in packs.files() if name.endswith(".pack")]


def indexes(packs: LocationLike, names: Iterable[str] | None = None) -> Iterator[pl.DataFrame]:
    """Yield the index of each pack in a folder, after an empty one.

    `names` are those of some packs, in any order; None means all packs of the folder. Skip packs
    that are absent, incomplete or damaged.
    """
    folder = location(packs)
    yield pl.DataFrame(schema=INDEX)
    places = (folder / name for name in (pack_names(folder) if names is None else names))
    tables: Iterator[pl.DataFrame | None]
    if folder.local is None:
        tables = threads.ordered_map(read_index, places, jobs=_READERS)
    else:  # threads would only wait for each other
        tables = map(read_index, places)
    yield from (index for index in tables if index is not None)


def keep_clips(packs: Location, keys: Buckets, folder: Path) -> int:
    """Remove all clips but some, and damaged packs, from a folder.

    Args:
        packs: the folder of packs.
        keys: the keys of the clips that stay; see `clip_keys.divide_keys`.
        folder: a new folder for buckets.

    Returns:
        how many clips were removed.
    """
    names = pack_names(packs)
    places = [packs / name for name in names]
    clips = store(_keys_of_packs(places), folder / "clips", _KEYS_OF_PACKS)
    removed = rows_without_key(clips, keys, folder / "clips-by-key")
    whole = set(clips.select(pl.col("pack").unique()).collect()["pack"]) - {*removed["pack"]}
    return sum(
        _remove_clips(place, removed.filter(pack=number)["clip_key"])
        for number, place in enumerate(places)
        if number not in whole
    )


def _keys_of_packs(places: Iterable[Location]) -> Iterator[pl.DataFrame]:
    """Yield the keys of the clips of packs, with the number of the pack, from 0."""
    for number, place in enumerate(places):
        index = read_index(place)
        if index is not None:
            yield index.select("clip_key", pack=pl.lit(number, pl.UInt32))


def _remove_clips(pack: Location, keys: pl.Series) -> int:
    """Remove clips from a pack; remove the pack if no other is left, or if it is damaged.

    Return how many clips were removed.
    """
    index = read_index(pack)
    clips = INDEX.to_frame() if index is None else index
    remaining = clips.filter(~pl.col("clip_key").is_in(keys.implode()))
    try:
        if remaining.is_empty():
            pack.remove()
        elif len(keys):
            _rewrite(pack, remaining)
    except PackDamagedError:
        remaining = INDEX.to_frame()
        pack.remove()
    return len(clips) - len(remaining)


def _rewrite(pack: Location, clips: pl.DataFrame) -> None:
    """Write a pack with some of its clips; columns as in `INDEX`."""
    index = []
    with pack.new() as path, path.open("wb") as file:
        for row, content in zip(clips.iter_rows(named=True), read_clips(clips), strict=True):
            place = (file.tell(), len(content))
            index.append((row["clip_key"], *place, row["clip_samples"], row["clip_sha256"]))
            file.write(content)
        file.write(_index_bytes(index))


class PackDamagedError(NbaudioError):
    """A clip's bytes are not those that were written.

    The pack, whose path is the argument, must be cut again.
    """


def read_clips(clips: pl.DataFrame) -> Iterator[bytes]:
    """Yield the encoded bytes of each row's clip, verified by hash.

    Raise `PackDamagedError` at the first that differs.
    """
    places = clips.select("pack", "offset", "length").rows()
    # Remote packs are read several at once, to hide latency.
    contents: Iterator[bytes]
    if places and is_url(places[0][0]):
        contents = threads.ordered_map(_read, places, jobs=_READERS)
    else:
        contents = map(_read, places)
    for (pack, *_), sha256, content in zip(places, clips["clip_sha256"], contents, strict=True):
        clip = verified_clip(content, sha256)
        if clip is None:
            raise PackDamagedError(pack)
        yield bytes(clip)


def _read(place: tuple[str, int, int]) -> bytes:
    """Read the bytes of a clip: its pack, offset and length.

    Raise `PackDamagedError` if the pack is missing or too short.
    """
    pack, offset, length = place
    file = location(pack)
    try:
        return file.read(offset, offset + length)
    except (AudioError, OSError) as error:
        if file.local is None and not isinstance(error, RemoteNotFoundError):
            raise
        raise PackDamagedError(pack) from error
