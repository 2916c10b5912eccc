"""Clips of a corpus: where their bytes are, and how they are requested and decoded.

`clip` cuts a single clip from a workspace.
"""

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from nbaudio.core.atomic import write_bytes
from nbaudio.core.errors import AudioError, InputError, get_by_name
from nbaudio.core.threads import shut_down
from nbaudio.core.tracebacks import interruptible
from nbaudio.corpus.clip_locations import verified_clip
from nbaudio.reading.clip_table import SplitRows
from nbaudio.reading.order import IntArray
from nbaudio.storage.folders import Folder

if TYPE_CHECKING:
    from nbaudio.audio.pydub_bridge import PlayableSegment
    from nbaudio.tables.workspace import Workspace

_ENCODINGS: Mapping[str, str] = MappingProxyType(
    {".wav": "wav", ".flac": "flac", ".mp3": "mp3", ".ogg": "opus", ".opus": "opus"}
)

_MAX_GAP = 8 << 10  # bytes between clips that one request joins
_MAX_REQUEST = 5 << 18
_MIN_REQUEST = 1 << 19  # the most in the first blocks of a stream, which come by several requests
_OPEN_FILES = 16  # shards that a thread keeps open
_HAS_PREADV = hasattr(os, "preadv")


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """One clip; can be pickled.

    Attributes:
        samples: shape (samples,): int16, or uint8 levels; None where only the bytes were requested.
        sampling_rate: Hz.
        encoded: its bytes, a complete file, where they were requested.
    """

    segment_id: str
    samples: NDArray[np.int16] | NDArray[np.uint8] | None
    sampling_rate: int
    encoded: bytes | None
    _row: Callable[[], dict[str, Any]] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle the row alone, not the table that it comes from.
        return Clip, (
            self.segment_id,
            self.samples,
            self.sampling_rate,
            self.encoded,
            partial(dict, self.metadata),
        )

    @property
    def metadata(self) -> dict[str, Any]:
        """The clip's row of `Corpus.segments`."""
        return self._row()

    @property
    def text(self) -> str | None:
        """The transcript."""
        return cast(str | None, self.metadata["text"])

    @property
    def rate(self) -> int:
        """`sampling_rate`, Hz."""
        return self.sampling_rate

    def to_pydub(self) -> "PlayableSegment":
        """Return a `pydub.AudioSegment` that plays in a notebook without ffmpeg.

        Raise InputError for levels or encoded bytes.
        """
        from nbaudio.audio.pydub_bridge import to_audiosegment

        return to_audiosegment(self._pcm(), self.sampling_rate)

    def save(self, path: str | Path) -> Path:
        """Write the clip atomically to a file, and return its path.

        A .wav or .flac file is exact; an .mp3, .ogg or .opus (Opus) file is not.

        Raises:
            InputError: another suffix, a rate that the format does not support, or the clip was
                read as levels or encoded bytes.
        """
        from nbaudio.audio import encoder

        target = Path(path)
        form = encoder(get_by_name(_ENCODINGS, target.suffix.lower(), "suffix"))
        form.check_rate(self.sampling_rate)
        write_bytes(target, form.encode(self._pcm(), self.sampling_rate))
        return target

    def _repr_html_(self) -> str | None:
        if self.samples is None or self.samples.dtype != np.int16:
            return None
        return str(self.to_pydub()._repr_html_())

    def _pcm(self) -> NDArray[np.int16]:
        """Return the samples; raise InputError if they are not int16."""
        if self.samples is None or self.samples.dtype != np.int16:
            raise InputError(
                f"{self.segment_id}: the clip has no int16 samples; read it with give='samples'"
            )
        return cast("NDArray[np.int16]", self.samples)


@dataclass(slots=True)
class Request:
    """Bytes of a shard that are requested at once, and the clips in them: number, start, end."""

    shard: str
    start: int
    stop: int
    clips: list[tuple[int, int, int]]


@dataclass(frozen=True)
class ClipReader:
    """Reader of the clips in `rows`.

    On this machine, the threads that decode read the files of `folder` themselves.
    """

    rows: SplitRows
    folder: Folder
    read: Callable[[str, int, int], bytes]  # the bytes [start, stop) of a shard
    decode: Callable[[bytes | memoryview], NDArray[Any]] | None  # None leaves clips encoded
    in_flight: int  # concurrent requests
    # Reads past the cache, for bytes that turned out to be wrong.
    read_uncached: Callable[[str, int, int], bytes]

    def requests(self, clips: IntArray) -> list[Request]:
        """Return the requests for these clips, in the order of first need; neighbors share one."""
        needed = {clip: place for place, clip in enumerate(clips.tolist())}
        numbers = np.sort(clips)
        columns = (self.rows[name][numbers].tolist() for name in ("shard", "offset", "length"))
        requests: list[Request] = []
        most = min(_MAX_REQUEST, max(_MIN_REQUEST, int(self.rows["length"][numbers].sum()) // 4))
        for number, shard, start, length in zip(numbers.tolist(), *columns, strict=True):
            stop = start + length
            last = requests[-1] if requests else None
            if (
                last
                and last.shard == shard
                and start - last.stop <= _MAX_GAP
                and stop - last.start <= most
            ):
                last.clips.append((number, start - last.start, stop - last.start))
                last.stop = max(stop, last.stop)
            else:
                requests.append(Request(shard, start, stop, [(number, 0, length)]))
        return sorted(
            requests, key=lambda request: min(needed[clip] for clip, _, _ in request.clips)
        )

    def decoded(self, number: int, content: bytes | memoryview) -> Clip:
        """Decode a clip from its bytes, and read them again if their checksum is wrong.

        Raise AudioError if it still is.
        """
        place = self.rows.numbers[number]
        segment_id, sha256, rate = self.rows.table.facts(place)
        if (encoded := verified_clip(content, sha256)) is None:
            shard, start, length = (
                self.rows[name][number] for name in ("shard", "offset", "length")
            )
            encoded = verified_clip(
                self.read_uncached(shard, int(start), int(start + length)), sha256
            )
        if encoded is None:
            raise AudioError(
                f"{self.rows['shard'][number]}: clip {segment_id!r} is damaged; "
                "'nbaudio verify' lists all damage"
            )
        row = partial(self.rows.table.row, place)
        if self.decode:
            return Clip(segment_id, self.decode(encoded), rate, None, row)
        return Clip(segment_id, None, rate, bytes(encoded), row)


class ClipRequests(ExitStack):
    """Requests of a reader in this process; the context closes its files."""

    def __init__(self, reader: ClipReader) -> None:
        super().__init__()
        self._reader = reader
        self._fetchers = ThreadPoolExecutor(reader.in_flight)
        self._fetching = set[Future[bytes]]()
        self._shards: _LocalShards | None = None
        if reader.folder.place.local is not None:
            self._shards = _LocalShards(reader.folder, self)
        # Requests of the last call, where each clip has a request of its own.
        self.small = list[Future[bytes]]()

    def parts(self, clips: IntArray) -> dict[int, Callable[[], bytes | memoryview]]:
        """Request clips in the order of need.

        Return for each clip a function that waits for its bytes. The same thread may overwrite them
        later.
        """
        waiting: dict[int, Callable[[], bytes | memoryview]] = {}
        requests = self._reader.requests(clips)
        self.small = []
        shards = self._shards
        for request in requests:
            shard = request.shard
            first = request.start
            if shards is None:
                future = self._fetchers.submit(self._reader.read, shard, first, request.stop)
                self._fetching.add(future)
                future.add_done_callback(self._fetching.discard)
                if len(requests) == len(clips):
                    self.small.append(future)
                waiting |= {
                    clip: partial(_part, future, start, end) for clip, start, end in request.clips
                }
            else:
                if len(request.clips) > 1:
                    shards.expect(shard, first, request.stop)
                waiting |= {
                    clip: partial(shards.read, shard, first + start, first + end)
                    for clip, start, end in request.clips
                }
        return waiting

    def cancel(self) -> None:
        """Cancel what has not begun, and wait for the rest."""
        shut_down(self._fetchers, list(self._fetching))


def _part(future: Future[bytes], start: int, end: int) -> memoryview:
    """Wait for the bytes of a request and return those of a clip."""
    return memoryview(future.result())[start:end]


class _LocalShards(threading.local):
    """Shards on this machine.

    Each thread has its own buffer and a few open files, which are closed with `owner`.
    """

    def __init__(self, folder: Folder, owner: ExitStack) -> None:
        self._folder = folder
        self._buffer = bytearray()
        # Descriptors of this thread; `owner` may close them in another one.
        self._files = files = dict[str, int]()
        owner.callback(lambda: list(map(os.close, files.values())))

    def read(self, shard: str, start: int, stop: int) -> memoryview:
        """Return the bytes [start, stop), until this thread reads again."""
        size = stop - start
        if len(buffer := self._buffer) < size:
            self._buffer = buffer = bytearray(size)
        view = memoryview(buffer)[:size]
        file = self._open(shard)
        if _HAS_PREADV:  # one call: in each, another thread may take the interpreter
            count = os.preadv(file, [view], start)
        else:  # Windows
            os.lseek(file, start, os.SEEK_SET)
            content = os.read(file, size)
            count = len(content)
            view[:count] = content
        if count != size:
            raise AudioError(f"{self._folder}/{shard}: ends before byte {stop:,}")
        return view

    def expect(self, shard: str, start: int, stop: int) -> None:
        """Let the system read ahead, where it can."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._open(shard), start, stop - start, os.POSIX_FADV_WILLNEED)

    def _open(self, shard: str) -> int:
        """Return the descriptor of a shard; at most `_OPEN_FILES` stay open in a thread."""
        files = self._files
        if (file := files.get(shard)) is None:
            files[shard] = file = self._folder.opened(shard)
            if len(files) > _OPEN_FILES:
                os.close(files.pop(next(iter(files))))
        return file


@interruptible
def clip(
    workspace: "str | Path | Workspace",
    segment_id: str,
    *,
    rate: int | None = 16000,
    channel: str = "mix",
) -> Clip:
    """Cut the clip of a segment from its recording.

    Its samples are those that `materialize` cuts for the same rate and channel.

    Args:
        workspace: the workspace or its folder.
        segment_id: which segment.
        rate: Hz; None keeps the recording's own.
        channel: ``mix``, ``left``, ``right`` or numbers such as ``0,1``, where the segment has no
            `source_channel` of its own.

    Returns:
        A clip with `samples` (int16, shape (samples,)), `rate`, `text`, `metadata`, `save(path)`
        and `to_pydub()`.

    Raises:
        InputError: there is no such segment, the rate or channel is invalid, or the audio folder
            is missing.
        AudioError: its recording is missing or cannot be decoded, or its times are not inside the
            recording.

    Examples:
        >>> import numpy as np, polars as pl, soundfile, tempfile
        >>> from nbaudio.tables.workspace import Workspace
        >>> folder = Path(tempfile.mkdtemp())
        >>> soundfile.write(folder / "a.wav", np.zeros(48000), 48000)
        >>> workspace = Workspace.create(folder / "w", source="asr.json", audio=str(folder))
        >>> recordings = pl.DataFrame({"recording_id": ["a"], "path": ["a.wav"]}).with_columns(
        ...     sampling_rate=48000, num_channels=1, num_samples=48000
        ... )
        >>> segments = pl.DataFrame({"segment_id": ["s"], "recording_id": ["a"]}).with_columns(
        ...     start_sample=12000, end_sample=36000
        ... )
        >>> workspace.save(recordings=recordings, segments=segments)
        >>> clip(workspace, "s").samples.shape
        (8000,)
    """
    import polars as pl  # imported on demand: reading a corpus does not need Polars

    from nbaudio.audio import read_clip
    from nbaudio.sources.audio_folder import check_audio_folders
    from nbaudio.tables import workspace_tables
    from nbaudio.tables.workspace import Workspace

    workspace = Workspace.open(workspace)
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int) or rate < 1):
        raise InputError(f"rate={rate!r}: must be a whole number of Hz, 1 or more, or None")
    segments = workspace_tables.read(workspace, where=pl.col("segment_id") == segment_id)
    if segments.is_empty():
        raise InputError(f"{workspace.path}: no segment {segment_id!r}")
    row = segments.row(0, named=True)
    recordings = workspace.recordings.filter(pl.col("recording_id") == row["recording_id"])
    source = recordings.row(0, named=True) if len(recordings) else {}
    root = workspace.audio
    start = row["start_sample"]
    end = row["end_sample"]
    length = source.get("num_samples")
    if root is None or length is None or start is None or end is None:
        raise AudioError(
            f"{segment_id}: its recording {row['recording_id']} is missing; ingest with audio"
        )
    if not 0 <= start < end <= length:
        raise AudioError(
            f"{segment_id}: samples {start} to {end} are not inside the recording of {length}"
        )
    check_audio_folders(workspace, [row["recording_id"]])
    segment_channel = row.get("source_channel") or channel
    samples = read_clip(
        root / source["path"], start, end, num_samples=length, rate=rate, channel=segment_channel
    )
    return Clip(segment_id, samples, rate or source["sampling_rate"], None, partial(dict, row))
