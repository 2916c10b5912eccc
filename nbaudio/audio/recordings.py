"""Windows of recordings, exact to the sample, without reading the file from its start.

libsndfile (soundfile) reads WAV, FLAC, MP3 and the like; FFmpeg (PyAV) reads what libsndfile cannot (AAC) or does slowly
(Opus). The content decides, never the extension. Windows asked for in order are decoded in one pass.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, cast

import av
import av.error
import numpy as np
import soundfile as sf
from av.audio.codeccontext import AudioCodecContext
from av.audio.resampler import AudioResampler
from numpy.typing import NDArray

from nbaudio.errors import AudioError

Window = NDArray[np.int16] | NDArray[np.float32]

# Subtypes whose samples fit int16 without loss; all others are read as float32.
_INT16_SUBTYPES = {"PCM_16", "PCM_S8", "PCM_U8", "ULAW", "ALAW"}

# Decoded and thrown away before a window after a jump, in seconds. An MP3 frame takes bits from up to nine frames before it
# (ISO 11172-3, main_data_begin); Opus settles in 80 ms (RFC 7845, section 4.6), AAC in a frame or two.
_RUN_UP_S = 0.3


class Recording(Protocol):
    """An open recording; one process opens a recording once and asks for windows in order."""

    sampling_rate: int
    num_channels: int
    codec: str

    def read(self, start: int, stop: int) -> Window:
        """Samples [start, stop) of all channels: shape (stop - start, channels), shorter where the recording ends before.

        Raises:
            AudioError: it cannot be decoded there.
        """
        ...

    def close(self) -> None:
        """Release the file."""
        ...


@contextmanager
def open_recording(path: Path) -> Iterator[Recording]:
    """Open a recording for reading windows.

    Raises:
        AudioError: no decoder makes sense of it; names the file and why.
    """
    recording = _open(path)
    try:
        yield recording
    finally:
        recording.close()


def _open(path: Path) -> Recording:
    try:
        if path.stat().st_size == 0:
            raise AudioError(f"{path}: the file is empty")
        recording = SoundfileRecording(path)
    except OSError as error:
        raise AudioError(f"{path}: {error.strerror or error}") from error
    except sf.LibsndfileError:
        return AvRecording(path)
    if recording.codec == "opus":
        recording.close()
        return AvRecording(path)
    return recording


class SoundfileRecording:
    """A recording read by libsndfile: any window equals the same window of a full decode, sample for sample."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = sf.SoundFile(path)
        self.sampling_rate: int = self._file.samplerate
        self.num_channels: int = self._file.channels
        self.declared_samples: int = self._file.frames
        self.log: str = self._file.extra_info
        subtype: str = self._file.subtype
        self.codec = {"MPEG_LAYER_III": "mp3"}.get(subtype, "flac" if self._file.format == "FLAC" else subtype.lower())
        self._dtype = "int16" if subtype in _INT16_SUBTYPES else "float32"
        self._run_up = int(_RUN_UP_S * self.sampling_rate) if self.codec in ("mp3", "vorbis") else 0

    def read(self, start: int, stop: int) -> Window:
        """See `Recording.read`."""
        # Run-up and window in one call: python-soundfile seeks after every read, and an MP3 decoder then starts anew.
        run_up = min(start, self._run_up)
        try:
            self._file.seek(start - run_up)
            window: Window = self._file.read(run_up + stop - start, dtype=self._dtype, always_2d=True)
        except sf.LibsndfileError as error:
            raise AudioError(f"{self.path}: samples {start} to {stop} cannot be decoded ({error})") from error
        return window[run_up:]

    def close(self) -> None:
        """See `Recording.close`."""
        self._file.close()


class AvRecording:
    """A recording read by FFmpeg.

    The samples of a window depend on the file and the window alone, never on what was read before. A seek flushes the decoder,
    which does for all codecs but AAC: that fills bands with noise whose seed survives the flush, so it gets a new decoder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._open()
        context = self._stream.codec_context
        self.sampling_rate: int = context.sample_rate
        self.num_channels: int = context.channels
        self.codec: str = context.name.removesuffix("float").removeprefix("lib")
        if not self.sampling_rate or not self.num_channels or self._stream.time_base is None:
            self._container.close()
            raise AudioError(f"{path}: the header gives neither rate nor channels")
        # How many samples one tick of the container's clock is: one, or two where spectral band replication doubles the rate.
        # Other clocks (Matroska counts milliseconds) cannot tell a sample, so everything is counted from the start.
        ticks = self._stream.time_base * self.sampling_rate
        self._samples_a_tick: int | None = int(ticks) if ticks in (1, 2) else None
        self.declared_samples = int(self._stream.duration * ticks) if self._stream.duration else 0

    def read(self, start: int, stop: int) -> Window:
        """See `Recording.read`."""
        parts, first = [], None
        for position, samples in self._decode_from(start):
            if position + samples.shape[1] > start:
                first = position if first is None else first
                parts.append(samples)
            if position + samples.shape[1] >= stop:
                break
        if first is None:
            return np.empty((0, self.num_channels), np.float32)
        decoded = np.concatenate(parts, axis=1)
        return decoded[:, max(0, start - first) : stop - first].T

    def count_samples(self, tail_s: float = 5.0) -> int:
        """Where decoding ends; only the last seconds are decoded where time stamps allow it."""
        end = 0
        for position, samples in self._decode_from(max(0, self.declared_samples - int(tail_s * self.sampling_rate))):
            end = position + samples.shape[1]
        return end if end or not self._samples_a_tick else sum(samples.shape[1] for _, samples in self._decode_from(0))

    def close(self) -> None:
        """See `Recording.close`."""
        self._container.close()

    def _open(self) -> None:
        try:
            self._container = av.open(str(self.path))
        except (av.error.FFmpegError, OSError, ValueError) as error:
            raise AudioError(f"{self.path}: not audio that can be decoded ({_reason(error)})") from error
        if not self._container.streams.audio:
            self._container.close()
            raise AudioError(f"{self.path}: holds no audio stream")
        self._stream = self._container.streams.audio[0]

    def _decode_from(self, start: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Decoded frames as (position, samples of shape (channels, n)), from a little before `start` on.

        A packet that is broken or missing ends it: what comes behind a hole has lost its place.
        """
        to_float = AudioResampler(format="fltp")
        position = None
        try:
            if self._samples_a_tick:
                target = max(0, start - int(_RUN_UP_S * self.sampling_rate))
                self._container.seek(target // self._samples_a_tick, stream=self._stream, backward=True)
            else:
                self.close()
                self._open()
                position = 0
            decoder = self._stream.codec_context
            if self.codec == "aac":
                decoder = cast(AudioCodecContext, AudioCodecContext.create(decoder.codec, "r"))
                decoder.extradata = self._stream.codec_context.extradata
            for packet in self._container.demux(self._stream):
                for frame in decoder.decode(packet):
                    if position is None:
                        position = (frame.pts or 0) * (self._samples_a_tick or 0)
                    for converted in to_float.resample(frame) if frame.format.name != "fltp" else (frame,):
                        samples = converted.to_ndarray().astype(np.float32, copy=False)
                        yield position, samples
                        position += samples.shape[1]
        except av.error.FFmpegError:
            return


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
