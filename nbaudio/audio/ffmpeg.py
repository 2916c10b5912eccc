"""Recordings read by FFmpeg (PyAV): what libsndfile cannot read, does slowly or not exactly; see `recordings`."""

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, cast

import av
import av.error
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from av.audio.resampler import AudioResampler
from numpy.typing import NDArray

from nbaudio.audio.packets import AudioPacket, PacketIndex, index_packets, stamp
from nbaudio.audio.reasons import implausible, no_audio, no_samples
from nbaudio.errors import AudioError

# Decoded and thrown away before a window after a jump, in seconds: Opus settles in 80 ms (RFC 7845, section 4.6), AAC and
# Vorbis in a frame or two. AMR predicts from what it decoded long before; measured, on speech and on tones.
_RUN_UP_S = 0.3
_LONG_RUN_UP_S = {"amrnb": 3.0, "amrwb": 3.0}
# An MP3's frame takes up to 511 bytes of those before it (ISO 11172-3, main_data_begin), at rates below 32 kHz 255 bytes: at
# 8 kbit/s and 22.05 kHz, where a frame holds 5 bytes of its own, that is 51 frames.
_LOW_MP3_RUN_UP_S = 2.0

# Decoders that a flush does not bring back to their start: AAC keeps the seed of the noise that it fills bands with, AMR its
# predictors, MP3 what it makes up for a first frame that takes bits from before the file.
_REMEMBERING = {"aac", "amrnb", "amrwb", "mp3"}

# Formats that hold sound themselves. FFmpeg would also follow playlists, which lead to other files and to the network.
_FORMATS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dsf,dts,eac3,flac,flv,loas,matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,"
    "mp3,mpc,mpc8,mpeg,mpegts,nistsphere,nut,ogg,rm,shn,tak,tta,voc,w64,wav,wv"
)
# Bare streams: their length is a guess from the bit rate, and places are found by reading from the start.
_BARE = {"aac", "ac3", "amr", "amrnb", "amrwb", "eac3", "loas", "mp3"}


class AvRecording:
    """A recording read by FFmpeg.

    The samples of a window depend on the file and the window alone, never on what was read before. A seek flushes the decoder,
    which does for most codecs; those that remember all the same get a new decoder.

    Where a tick of the container's clock is one sample or part of one, or two samples where spectral band replication doubles the
    rate, places are found by the clock; elsewhere by an index of the packets, made at the first jump.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        """Read an open file, which `close` closes.

        Raises:
            AudioError: it is not audio that FFmpeg can decode.
        """
        self.path = path
        self._file = file
        self._open()
        # PyAV types a stream as if its codec were always known.
        context: AudioCodecContext | None = self._stream.codec_context
        if context is None:
            self.close()
            raise AudioError(f"{path}: its sound is in a codec that is not known, or its header is damaged")
        self.sampling_rate: int = context.sample_rate
        self.num_channels: int = context.channels
        self.codec: str = context.name.removesuffix("float").removeprefix("lib")
        if not self.sampling_rate or not self.num_channels or not self._stream.time_base:
            self.close()
            raise AudioError(f"{path}: {no_samples(path)}")
        if problem := implausible(self.sampling_rate, self.num_channels):
            self.close()
            raise AudioError(f"{path}: {problem}")
        self._ticks: Fraction = self._stream.time_base * self.sampling_rate
        run_up_s = _LONG_RUN_UP_S.get(self.codec, _RUN_UP_S)
        if self.codec == "mp3" and self.sampling_rate < 32000:
            run_up_s = _LOW_MP3_RUN_UP_S
        self._run_up = int(run_up_s * self.sampling_rate)
        bare = self._container.format.name in _BARE
        self._clock_tells = not bare and (self._ticks.numerator == 1 or self._ticks == 2)
        declared = Fraction(0)
        if self._stream.duration and not bare:
            declared = self._stream.duration * self._ticks
        elif self._container.duration and not bare:
            declared = Fraction(self._container.duration * self.sampling_rate, av.time_base)
        self.declared_samples = int(declared)

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
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
        return decoded[:, max(0, start - first) : max(0, stop - first)].T

    def count_samples(self, tail_s: float = 5.0) -> int:
        """Where decoding ends; only the last seconds are decoded where that is possible."""
        expected = self.declared_samples if self._clock_tells else self._index.num_samples
        for start in (max(0, expected - int(tail_s * self.sampling_rate)), 0):
            end = 0
            for position, samples in self._decode_from(start):
                end = position + samples.shape[1]
            if end:
                break
        return end

    def close(self) -> None:
        """See `Recording.close`."""
        self._container.close()
        self._file.close()

    def _open(self) -> None:
        self._file.seek(0)
        # Through the descriptor: the content decides, and no part of the name is taken for a protocol.
        options = {"fd": str(self._file.fileno()), "protocol_whitelist": "fd", "format_whitelist": _FORMATS}
        try:
            self._container = av.open("fd:", options=options)
        except (av.error.FFmpegError, OSError, ValueError) as error:
            self._file.close()
            raise AudioError(f"{self.path}: {no_audio(self.path)} ({_reason(error)})") from error
        if not self._container.streams.audio:
            self._container.close()
            self._file.close()
            raise AudioError(f"{self.path}: holds no sound, only pictures or text")
        self._stream = self._container.streams.audio[0]

    @cached_property
    def _index(self) -> PacketIndex:
        return index_packets(self._begin, self._ticks)

    def _begin(self) -> tuple[Iterator[AudioPacket], AudioCodecContext]:
        """All packets and a decoder, as if the file had just been opened."""
        self._container.close()
        self._open()
        return iter(self._container.demux(self._stream)), self._stream.codec_context

    def _packets_from(self, target: int) -> Iterator[tuple[AudioPacket, int | None]]:
        """Packets from the one that holds a position on, each with the position behind it; None where the clock tells."""
        if self._clock_tells:
            self._container.seek(int(target / self._ticks), stream=self._stream, backward=True)
            yield from ((packet, None) for packet in self._container.demux(self._stream))
            return
        index = self._index
        first = index.first_for(target)
        number = None if self._jump_to(first) else 0
        for packet in self._container.demux(self._stream):
            at = stamp(packet)
            if at is None:
                yield packet, index.num_samples
                continue
            if number is None:
                number = int(np.searchsorted(index.stamps, at))
            if first <= number < len(index.ends):
                yield packet, int(index.ends[number])
            number += 1

    def _jump_to(self, number: int) -> bool:
        """Seek to a packet of the index, or a little before it; False where only a rewind was possible."""
        index = self._index
        if index.rising and len(index.stamps):
            # Some files mark no packet as one to seek to.
            with suppress(av.error.FFmpegError):
                self._container.seek(int(index.stamps[number]), stream=self._stream, backward=True)
                return True
        self._begin()
        return False

    def _decode_from(self, start: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Decoded frames as (position, samples of shape (channels, n)), from a little before `start` on.

        A packet that is broken or missing ends it: what comes behind a hole has lost its place.
        """
        to_packed = AudioResampler(format="flt")
        position = decoder = None
        try:
            for packet, end in self._packets_from(max(0, start - self._run_up)):
                decoder = decoder or self._decoder()
                frames = decoder.decode(packet)
                if position is None and frames:
                    held = sum(frame.samples for frame in frames)
                    position = int((frames[0].pts or 0) * self._ticks) if end is None else end - held
                for frame in frames:
                    if (frame.sample_rate, frame.layout.nb_channels) != (self.sampling_rate, self.num_channels):
                        return  # the stream turns into another
                    for samples in self._samples(frame, to_packed):
                        yield cast(int, position), samples
                        position = cast(int, position) + samples.shape[1]
        except av.error.FFmpegError:
            return

    def _samples(self, frame: av.AudioFrame, to_packed: AudioResampler) -> list[NDArray[np.float32]]:
        """A frame's samples, each array of shape (channels, n)."""
        # PyAV reads past the planes of a frame that has eight or more (`AudioFrame.planes`, seen in 18.1).
        if frame.format.name == "fltp" and self.num_channels < 8:
            return [cast(NDArray[np.float32], frame.to_ndarray())]
        packed = (part.to_ndarray() for part in to_packed.resample(frame))
        return [cast(NDArray[np.float32], samples.reshape(-1, self.num_channels).T) for samples in packed]

    def _decoder(self) -> AudioCodecContext:
        """The stream's decoder, or a new one of its kind; asked for after a seek."""
        decoder = self._stream.codec_context
        if self.codec not in _REMEMBERING:
            return decoder
        new = cast(AudioCodecContext, AudioCodecContext.create(decoder.codec, "r"))
        new.extradata = decoder.extradata
        return new


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
