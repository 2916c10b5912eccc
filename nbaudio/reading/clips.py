"""Clips of a corpus: where their bytes are, how they are requested and decoded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.audio import encoder
from nbaudio.core.atomic import atomic_write
from nbaudio.core.errors import AudioError, InputError, get_by_name
from nbaudio.corpus.containers.base import verified_clip
from nbaudio.reading.order import IntArray

if TYPE_CHECKING:
    from nbaudio.audio.pydub_bridge import PlayableSegment

_ENCODINGS: Mapping[str, str] = MappingProxyType({".wav": "wav", ".flac": "flac", ".mp3": "mp3", ".ogg": "opus", ".opus": "opus"})

#: One request joins clips with smaller gaps between them, up to a size.
_MAX_GAP = 8 << 10
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
    """Reader of the clips in `frame`, rows of `Corpus.segments`, with `in_flight` concurrent requests.

    `read` returns the bytes [start, stop) of a shard, `read_uncached` bypasses the cache, for bytes that turned out to be wrong.
    `decode` decodes a clip's bytes to samples, None leaves them encoded.
    """

    frame: pl.DataFrame
    read: Callable[[str, int, int], bytes]
    decode: Callable[[bytes], NDArray[Any]] | None
    in_flight: int
    read_uncached: Callable[[str, int, int], bytes]

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
        """Columns by the number of the clip."""
        names = ("segment_id", "shard", "offset", "length", "audio_sha256", "sampling_rate")
        return [self.frame[name].to_list() for name in names]
