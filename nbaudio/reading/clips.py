"""Clips of a corpus: where their bytes are, how they are requested and decoded; and one clip cut from a workspace."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.audio import encoder, read_clip
from nbaudio.core import tables
from nbaudio.core.atomic import atomic_write
from nbaudio.core.errors import AudioError, InputError, get_by_name
from nbaudio.corpus.containers.base import verified_clip
from nbaudio.reading.order import IntArray
from nbaudio.storage.workspace import Workspace

if TYPE_CHECKING:
    from nbaudio.audio.pydub_bridge import PlayableSegment

_ENCODINGS: Mapping[str, str] = MappingProxyType({".wav": "wav", ".flac": "flac", ".mp3": "mp3", ".ogg": "opus", ".opus": "opus"})

_MAX_GAP = 8 << 10  # bytes between clips that one request joins
_MAX_REQUEST = 4 << 20


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
        return Clip, (self.segment_id, self.samples, self.sampling_rate, self.encoded, partial(dict, self.metadata))

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
        """Return a `pydub.AudioSegment` that plays in a notebook without ffmpeg; raise InputError for levels or encoded bytes."""
        from nbaudio.audio.pydub_bridge import to_audiosegment

        return to_audiosegment(self._pcm(), self.sampling_rate)

    def save(self, path: str | Path) -> Path:
        """Write the clip atomically to a .wav or .flac (exact), .mp3, .ogg or .opus (Opus) file; return its path.

        Raises:
            InputError: another suffix, a rate that the format does not support, or the clip was read as levels or encoded bytes.
        """
        target = Path(path)
        form = encoder(get_by_name(_ENCODINGS, target.suffix.lower(), "suffix"))
        form.check_rate(self.sampling_rate)
        data = form.encode(self._pcm(), self.sampling_rate)
        with atomic_write(target) as partial_file:
            partial_file.write_bytes(data)
        return target

    def _repr_html_(self) -> str | None:
        return None if self.samples is None or self.samples.dtype != np.int16 else str(self.to_pydub()._repr_html_())

    def _pcm(self) -> NDArray[np.int16]:
        if self.samples is None or self.samples.dtype != np.int16:
            raise InputError(f"{self.segment_id}: the clip has no int16 samples; read it with give='samples'")
        return cast("NDArray[np.int16]", self.samples)


class Request(NamedTuple):
    """Bytes of a shard that are requested at once, and the clips in them: number, start, end."""

    shard: str
    start: int
    stop: int
    clips: list[tuple[int, int, int]]


@dataclass(frozen=True)
class ClipReader:
    """Reader of the clips in `frame`, rows of `Corpus.segments`."""

    frame: pl.DataFrame
    read: Callable[[str, int, int], bytes]  # the bytes [start, stop) of a shard
    decode: Callable[[bytes], NDArray[Any]] | None  # None leaves clips encoded
    in_flight: int  # concurrent requests
    read_uncached: Callable[[str, int, int], bytes]  # past the cache, for bytes that turned out to be wrong

    def requests(self, clips: IntArray) -> list[Request]:
        """Return the requests for these clips, in the order of first need; neighbors share one."""
        needed = {clip: place for place, clip in enumerate(clips.tolist())}
        _, shards, starts, lengths, *_ = self._columns
        found: list[Request] = []
        for number in np.sort(clips).tolist():
            shard, start = shards[number], starts[number]
            stop = start + lengths[number]
            last = found[-1] if found else None
            if last and last.shard == shard and start - last.stop <= _MAX_GAP and stop - last.start <= _MAX_REQUEST:
                last.clips.append((number, start - last.start, stop - last.start))
                found[-1] = last._replace(stop=max(stop, last.stop))
            else:
                found.append(Request(shard, start, stop, [(number, 0, stop - start)]))
        return sorted(found, key=lambda request: min(needed[clip] for clip, _, _ in request.clips))

    def decoded(self, number: int, data: memoryview) -> Clip:
        """Decode a clip from its bytes, which are read again where their checksum is wrong; raise AudioError if it still is."""
        segment_id, shard, start, length, sha256, rate = (column[number] for column in self._columns)
        encoded = verified_clip(bytes(data), sha256) or verified_clip(self.read_uncached(shard, start, start + length), sha256)
        if encoded is None:
            raise AudioError(f"{shard}: clip {segment_id!r} is damaged; 'nbaudio verify' lists all damage")
        frame = self.frame
        samples = self.decode(encoded) if self.decode else None
        return Clip(segment_id, samples, rate, None if self.decode else encoded, lambda: frame.row(number, named=True))

    @cached_property
    def _columns(self) -> list[list[Any]]:
        names = ("segment_id", "shard", "offset", "length", "audio_sha256", "sampling_rate")
        return [self.frame[name].to_list() for name in names]


def clip(workspace: str | Path | Workspace, segment_id: str, *, rate: int | None = 16000, channel: str = "mix") -> Clip:
    """Cut the clip of a segment, with the samples that `materialize` cuts for the same rate and channel.

    Args:
        workspace: the workspace or its folder.
        segment_id: which segment.
        rate: Hz; None keeps the recording's own.
        channel: ``mix``, ``left``, ``right`` or numbers such as ``0,1``, where the segment has no `source_channel` of its own.

    Returns:
        A clip with `samples` (int16, shape (samples,)), `rate`, `text`, `metadata`, `save(path)` and `to_pydub()`.

    Raises:
        InputError: there is no such segment, or the rate or channel is invalid.
        AudioError: its recording is missing or cannot be decoded, or its times are not inside the recording.

    Examples:
        >>> import numpy as np, soundfile, tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> soundfile.write(folder / "a.wav", np.zeros(48000), 48000)
        >>> workspace = Workspace.create(folder / "w", source="asr.json", audio=str(folder))
        >>> facts = {"path": "a.wav", "sampling_rate": 48000, "num_channels": 1, "num_samples": 48000}
        >>> segment = {"segment_id": "s", "recording_id": "a", "start_sample": 12000, "end_sample": 36000}
        >>> workspace.save(recordings=pl.DataFrame([{"recording_id": "a", **facts}]), segments=pl.DataFrame([segment]))
        >>> clip(workspace, "s").samples.shape
        (8000,)
    """
    workspace = Workspace.open(workspace)
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int) or rate < 1):
        raise InputError(f"rate={rate!r}: must be a whole number of Hz, 1 or more, or None")
    found = tables.read(workspace, where=pl.col("segment_id") == segment_id)
    if found.is_empty():
        raise InputError(f"{workspace.path}: no segment {segment_id!r}")
    row = found.row(0, named=True)
    recordings = workspace.recordings.filter(pl.col("recording_id") == row["recording_id"])
    source = recordings.row(0, named=True) if len(recordings) else {}
    root, start, end, length = workspace.audio, row["start_sample"], row["end_sample"], source.get("num_samples")
    if root is None or length is None or start is None or end is None:
        raise AudioError(f"{segment_id}: its recording {row['recording_id']} is missing; ingest with audio")
    if not 0 <= start < end <= length:
        raise AudioError(f"{segment_id}: samples {start} to {end} are not inside the recording of {length}")
    own = row.get("source_channel") or channel
    samples = read_clip(root / source["path"], start, end, num_samples=length, rate=rate, channel=own)
    return Clip(segment_id, samples, rate or source["sampling_rate"], None, partial(dict, row))
