"""The clips of one corpus: where their bytes lie, how they are asked for and decoded."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.audio import encoder
from nbaudio.core.errors import AudioError, InputError, get_by_name
from nbaudio.corpus.containers.base import verified_clip
from nbaudio.reading.order import IntArray
from nbaudio.storage.atomic import atomic_write

if TYPE_CHECKING:
    from nbaudio.audio.playable import PlayableSegment

_ENCODINGS: Mapping[str, str] = MappingProxyType({".wav": "wav", ".flac": "flac", ".mp3": "mp3", ".ogg": "opus", ".opus": "opus"})

#: One request reads clips that lie no further apart than this, and no more than so many bytes.
_GAP = 8 << 10
_MOST_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """One clip; may be pickled.

    Attributes:
        segment_id: its key.
        samples: shape (samples,): int16, or uint8 levels; None where only the bytes were asked for.
        sampling_rate: Hz.
        encoded: its bytes, a complete file, where they were asked for.
    """

    segment_id: str
    samples: NDArray[np.int16] | NDArray[np.uint8] | None
    sampling_rate: int
    encoded: bytes | None
    _row: Callable[[], dict[str, Any]] = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        # The row alone goes along, not the table that it is taken from.
        return Clip, (self.segment_id, self.samples, self.sampling_rate, self.encoded, partial(dict, self.metadata))

    @property
    def metadata(self) -> dict[str, Any]:
        """The clip's row of `Corpus.segments`."""
        return self._row()

    @property
    def text(self) -> str | None:
        """The human words."""
        text: str | None = self.metadata["text"]
        return text

    @property
    def rate(self) -> int:
        """`sampling_rate`, Hz."""
        return self.sampling_rate

    def to_pydub(self) -> "PlayableSegment":
        """A `pydub.AudioSegment`, which plays in a notebook without ffmpeg.

        Raises:
            InputError: it was read as levels or encoded bytes.
        """
        from nbaudio.audio.pydub_bridge import to_audiosegment

        return to_audiosegment(self._pcm(), self.sampling_rate)

    def save(self, path: str | Path) -> Path:
        """Write the clip to a file, whole or not at all; no ffmpeg is needed.

        Args:
            path: ends in .wav or .flac (exact), .mp3, .ogg or .opus (Opus); an older file of that name is replaced.

        Returns:
            The path.

        Raises:
            InputError: another suffix, a rate that the format cannot have, or the clip was read as levels or encoded bytes.
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
        samples: Any = self.samples
        if samples is None or samples.dtype != np.int16:
            raise InputError(f"{self.segment_id}: the clip has no int16 samples; read it with give='samples'")
        pcm: NDArray[np.int16] = samples
        return pcm


class Request(NamedTuple):
    """Bytes of a shard that are asked for at once, and where in them clips lie: number, start, end."""

    shard: str
    start: int
    stop: int
    clips: list[tuple[int, int, int]]


@dataclass(frozen=True)
class ClipReader:
    """All clips of a split or a corpus, and how to have them.

    Attributes:
        frame: rows of `Corpus.segments`, by shard and offset.
        read: gives the bytes [start, stop) of a shard.
        decode: makes samples of a clip's bytes; None leaves them as they are.
        in_flight: requests at once.
        read_anew: as `read`, from where the corpus lies, for bytes that turned out to be wrong.
    """

    frame: pl.DataFrame
    read: Callable[[str, int, int], bytes]
    decode: Callable[[bytes], NDArray[Any]] | None
    in_flight: int
    read_anew: Callable[[str, int, int], bytes]

    def requests(self, clips: IntArray) -> list[Request]:
        """Requests that bring these clips, in the order in which they are first needed; neighbours share one."""
        order = np.sort(clips)
        needed = {clip: place for place, clip in enumerate(clips.tolist())}
        found = list(self._joined(order.tolist()))
        return sorted(found, key=lambda request: min(needed[clip] for clip, _, _ in request.clips))

    def fetch(self, request: Request) -> bytes:
        """The bytes of a request."""
        return self.read(request.shard, request.start, request.stop)

    def decoded(self, number: int, data: memoryview) -> Clip:
        """A clip from its bytes; where they are not the right ones, they are asked for once more.

        Raises:
            AudioError: they are not the right ones.
        """
        table = self._table
        encoded = verified_clip(bytes(data), table.sha256[number])
        if encoded is None:
            start = table.starts[number]
            encoded = verified_clip(
                self.read_anew(table.shards[number], start, start + table.lengths[number]), table.sha256[number]
            )
            if encoded is None:
                which = f"{table.shards[number]}: clip {table.ids[number]!r}"
                raise AudioError(f"{which} is damaged; 'nbaudio verify' shows all that is")
        frame = self.frame
        samples = self.decode(encoded) if self.decode else None
        return Clip(
            table.ids[number],
            samples,
            table.rates[number],
            None if self.decode else encoded,
            lambda: frame.row(number, named=True),
        )

    def _joined(self, numbers: list[int]) -> Iterator[Request]:
        table = self._table
        request: Request | None = None
        for number in numbers:
            shard, start = table.shards[number], table.starts[number]
            stop = start + table.lengths[number]
            if request and request.shard == shard and start - request.stop <= _GAP and stop - request.start <= _MOST_BYTES:
                request.clips.append((number, start - request.start, stop - request.start))
                request = request._replace(stop=max(stop, request.stop))
                continue
            if request:
                yield request
            request = Request(shard, start, stop, [(number, 0, stop - start)])
        if request:
            yield request

    @cached_property
    def _table(self) -> "_Table":
        names = ("segment_id", "shard", "offset", "length", "audio_sha256", "sampling_rate")
        return _Table(*(self.frame[name].to_list() for name in names))


class _Table(NamedTuple):
    """Columns by the number of the clip."""

    ids: list[str]
    shards: list[str]
    starts: list[int]
    lengths: list[int]
    sha256: list[str]
    rates: list[int]
