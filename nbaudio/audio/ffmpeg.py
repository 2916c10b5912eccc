"""Recordings read by FFmpeg (PyAV).

It reads formats that libsndfile cannot read, or reads slowly or inexactly; see `recording_reader`.
"""

import sys
import zlib
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import av
import av.error
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from av.audio.resampler import AudioResampler
from av.codec.context import Flags2
from av.stream import Disposition
from numpy.typing import NDArray

from nbaudio.audio.decode_errors import implausible_header, no_samples_reason, unknown_format_reason
from nbaudio.audio.mp3_tags import declared_samples
from nbaudio.audio.ogg_pages import first_packet, index_packets_of_ogg
from nbaudio.audio.packets import AudioPacket, PacketIndex, index_packets, opus_samples, packet_time
from nbaudio.core.errors import AudioError

# Run-up: seconds decoded and discarded before a window after a seek. AAC and Vorbis converge in a
# frame or two. Opus converges in 1 s where it predicts speech (SILK, at low bit rates), and in 80
# ms elsewhere (RFC 7845, section 4.6). AMR and GSM predict from much earlier samples; measured on
# speech and tones. Others may never converge, because of the predictors of G.722 and G.726 or the
# noise that fills bands in WMA; they are decoded from the beginning of the recording.
_RUN_UP_S = {
    **dict.fromkeys(
        ("aac", "ac3", "alac", "eac3", "flac", "mp1", "mp2", "mp3", "tta", "vorbis", "wavpack"), 0.3
    ),
    "opus": 2.0,
    **dict.fromkeys(("amrnb", "amrwb", "gsm", "gsm_ms"), 3.0),
}
# Below 32 kHz, an MP3 frame uses up to 255 bytes of earlier ones (ISO 13818-3, main_data_begin): 51
# at 8 kbit/s and 22.05 kHz.
_LOW_MP3_RUN_UP_S = 2.0

# Decoders that a flush does not reset: AAC keeps the seed of its noise, AMR its predictors, MP3
# bits from earlier frames.
_STATEFUL = {"aac", "ac3", "amrnb", "amrwb", "eac3", "mp2", "mp3"}
# Decoders to prefer over the default ones: the default for MP2 dithers, depending on where it
# began.
_PREFERRED = {"mp2": "mp2float"}

# Codecs whose decoders fill bands with noise that depends on where decoding begins. They are
# decoded in blocks at fixed positions, each by a new decoder, so that windows have the same samples
# as a read of the whole.
_NOISY = {"aac", "ac3", "amrwb", "eac3"}
_BLOCK_S = 5.0
# Seconds of a recording decoded from its beginning that stay in memory, since segments may overlap
_KEPT_S = 30
_TAIL_S = 5.0  # seconds that are decoded to find the end of a recording
# Samples that are decoded for the same, where packets count their samples.
_TAIL_PACKETS_SAMPLES = 8192
# Sound that starts later than this after the picture starts later on purpose
_LATE_S = Fraction(1, 10)
_END_TOLERANCE_S = 0.5  # the last picture may last longer than its packet says
_MOST_LABEL = 100  # characters of a title
_CHECKED_ENTRIES = 500  # entries of a container's index that are checked for an even clock
# Packets that a seek goes back further than needed: in MPEG program streams the first times are off
# by one
_SEEK_BACK = 16

# Formats that contain sound themselves. FFmpeg would also follow playlists, which refer to other
# files and to the network.
_FORMATS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dsf,dts,eac3,flac,flv,loas,"
    "matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,"
    "mp3,mpc,mpc8,mpeg,mpegts,nistsphere,nut,ogg,rm,shn,tak,tta,voc,w64,wav,wv"
)
# Bare streams: their length is an estimate from the bit rate, and seeking means reading from the
# start.
_BARE = {"aac", "ac3", "amr", "amrnb", "amrwb", "eac3", "loas", "mp3"}
# Containers in which FFmpeg searches for packets: behind damage, it finds others after a seek.
_SCANNED = {"nut", "ogg"}
# Containers in which a seek ends at a multiple of the byte rate in the header
_BY_BYTE_RATE = {"w64", "wav"}


@dataclass(frozen=True)
class AudioTrack:
    """One of the audio tracks of a container.

    Attributes:
        number: from 1, in the order of the container.
        language: such as ``hrv``; empty where the container does not say it.
        title: for people; may be empty.
        is_default: whether players begin with it.
    """

    number: int
    language: str
    title: str
    is_default: bool

    def label(self) -> str:
        """Return the number, with language, title and whether players begin with it."""
        default = "default" if self.is_default else ""
        about = ", ".join(filter(None, [self.language, self.title, default]))
        return f"{self.number} ({about})" if about else str(self.number)


class _WrongPacketError(Exception):
    """In a damaged file, a seek finds other packets than a read from the beginning."""


class _Decoded(NamedTuple):
    """Samples, shape (samples, channels), and ranges of them that could not be decoded.

    Those ranges are zeros.
    """

    samples: NDArray[np.float32]
    holes: list[tuple[int, int]]


def _plain(text: str) -> str:
    """Return a text of a container on one line, without what is no letter of it."""
    printable = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(printable.split())[:_MOST_LABEL]


def _seconds(clock: str) -> float | None:
    """Return the seconds of a time such as ``00:00:03.008000000``; None for other texts."""
    parts = clock.split(":")
    try:
        hours, minutes, seconds = (float(part) for part in parts)
    except ValueError:
        return None
    return 3600 * hours + 60 * minutes + seconds


class AvRecording:
    """Recording that FFmpeg reads.

    The samples of a window do not depend on earlier reads (docs/audio.md).
    """

    def __init__(self, path: Path, file: BinaryIO, *, number: int = 1) -> None:
        """Take an open file, which `close` closes, and the number of its audio track, from 1.

        Raise AudioError unless FFmpeg can decode it.
        """
        self.path = path
        self.number = number
        self._others: dict[int, AvRecording] = {}
        self.local_file = file
        self._open()
        # PyAV's types exclude an unknown codec, which is None.
        context: AudioCodecContext | None = self._stream.codec_context
        if context is None:
            raise self._refused("its codec is unknown, or its header is damaged")
        self.sampling_rate: int = context.sample_rate
        self.num_channels: int = context.channels
        self.codec: str = context.name.removesuffix("float").removeprefix("lib")
        self._ticks = self._samples_per_tick()
        self._run_up = self._find_run_up()
        container = self._container.format.name
        is_indexed = container == "ogg" and self.codec in ("opus", "vorbis")
        self._ogg = index_packets_of_ogg(file, self.codec) if is_indexed else None
        self._clock_tells = self._has_exact_clock(container)
        self._decoded: Iterator[tuple[int, NDArray[np.float32]]] | None = None
        self._recent: deque[tuple[int, NDArray[np.float32]]] = deque()
        self._jumps = True
        self._block: tuple[int, _Decoded] | None = None
        self._origin = max(0, int((self._stream.start_time or 0) * self._ticks))
        self.declared_samples = self._declared_samples(container)

    def _samples_per_tick(self) -> Fraction:
        """Return the samples per tick of the container's clock.

        Raise AudioError for a header without samples, or with implausible values.
        """
        if not self.sampling_rate or not self.num_channels or not self._stream.time_base:
            raise self._refused(no_samples_reason(self.path))
        if problem := implausible_header(self.sampling_rate, self.num_channels):
            raise self._refused(problem)
        ticks: Fraction = self._stream.time_base * self.sampling_rate
        return ticks

    def _declared_samples(self, container: str) -> int:
        """Return the length that a file of this container declares; 0 where it declares none."""
        if container in _BARE:
            if container == "mp3":
                return declared_samples(self.local_file.fileno())
            return 0
        if self._stream.duration:
            return int(self._stream.duration * self._ticks)
        return (self._container.duration or 0) * self.sampling_rate // av.time_base

    def read(self, start: int, stop: int) -> NDArray[np.float32]:
        """See `Recording.read`."""
        if self._ogg or self.codec == "opus":
            stop = min(stop, (self._ogg or self._index).num_samples)
        if self.codec not in _NOISY:
            window = self._read(start, stop)
            self._check_holes(window, start, stop)
            return window.samples
        length = int(_BLOCK_S * self.sampling_rate)
        parts = [np.empty((0, self.num_channels), np.float32)]
        for number in range(start // length, -(-stop // length)):
            if self._block is None or self._block[0] != number:
                self._block = number, self._read(number * length, (number + 1) * length)
            block = self._block[1]
            self._check_holes(block, start, stop)
            parts.append(block.samples[max(0, start - number * length) : stop - number * length])
            if len(block.samples) < length:
                break
        return np.concatenate(parts)

    def _check_holes(self, window: _Decoded, start: int, stop: int) -> None:
        for first, last in window.holes:
            if first < stop and start < last:
                raise AudioError(
                    f"{self.path}: damaged: samples {first} to {last} cannot be decoded"
                )

    def _read(self, start: int, stop: int) -> _Decoded:
        try:
            return self._decode_window(start, stop)
        except _WrongPacketError:
            self._jumps = False
            return self._decode_window(start, stop)

    def _decode_window(self, start: int, stop: int) -> _Decoded:
        """Decode samples [start, stop), or fewer at the end of the recording.

        Ranges between decoded frames are zeros and are listed as holes.
        """
        parts = [np.empty((self.num_channels, 0), np.float32)]
        holes = []
        end = start
        for position, samples in self._decode_from(start):
            if end < min(position, stop):
                holes.append((end, position))
                parts.append(np.zeros((self.num_channels, min(position, stop) - end), np.float32))
                end = min(position, stop)
            if position + samples.shape[1] > end and end < stop:
                parts.append(samples[:, end - position :])
                end = position + samples.shape[1]
            if end >= stop:
                break
        return _Decoded(np.concatenate(parts, axis=1)[:, : max(0, stop - start)].T, holes)

    @property
    def seeks(self) -> bool:
        """Whether a window is read without decoding the recording from its beginning."""
        return self._run_up < sys.maxsize

    @property
    def sound_start(self) -> int:
        """Samples from the first picture or sound of the container to the first sample.

        0 where it is less than 0.1 s, as encoders delay sound by some frames.
        """
        begin = Fraction(self._container.start_time or 0, av.time_base)
        time_base = self._stream.time_base or Fraction(1)
        late = (self._stream.start_time or 0) * time_base - begin
        if late < _LATE_S:
            return 0
        return round(late * self.sampling_rate)

    def tracks(self) -> list[AudioTrack]:
        """Return the audio tracks of the container."""
        return [
            AudioTrack(
                number,
                _plain(stream.metadata.get("language", "")).replace("und", ""),
                _plain(stream.metadata.get("title", "")),
                bool(stream.disposition & Disposition.default),
            )
            for number, stream in enumerate(self._container.streams.audio, 1)
        ]

    def is_complete(self, num_samples: int) -> bool:
        """Return whether a container with other streams is whole, though its sound ends earlier.

        It is if the sound ends where its own duration says, or any stream where the container's
        duration says. Reading starts again from the beginning.
        """
        if len(self._container.streams) == 1:
            return False
        end = float(self.sound_start + num_samples) / self.sampling_rate
        track_end = _seconds(self._stream.metadata.get("DURATION", ""))
        if track_end is not None:
            return track_end <= end + _END_TOLERANCE_S
        declared = (self._container.duration or 0) / av.time_base
        return self._last_end() >= declared - _END_TOLERANCE_S

    def _last_end(self) -> float:
        """Return the seconds from the start of the container to the end of its last packet."""
        self._container.close()
        self._open()
        begin = (self._container.start_time or 0) / av.time_base
        last = 0.0
        with suppress(IndexError, av.error.FFmpegError):  # as in `_demux`
            for packet in self._container.demux():
                if packet.pts is not None:
                    end = (packet.pts + (packet.duration or 0)) * packet.time_base
                    last = max(last, float(end) - begin)
        self._container.close()
        self._open()
        return last

    def count_samples(self) -> int:
        """Return where decoding ends; only the last seconds are decoded where possible."""
        if self._ogg or self.codec == "opus":
            return self._end_of_counted((self._ogg or self._index).num_samples)
        expected = self.declared_samples if self._clock_tells else self._index.num_samples
        for start in (max(0, expected - int(_TAIL_S * self.sampling_rate)), 0):
            end = 0
            try:
                for position, samples in self._decode_from(start):
                    end = position + samples.shape[1]
            except _WrongPacketError:
                end = 0
            if end:
                break
        return end

    def _end_of_counted(self, num_counted: int) -> int:
        """Return where decoding ends, of samples that the packets count.

        Only the last packets are decoded, unless none of them can be.
        """
        for start in (max(0, num_counted - _TAIL_PACKETS_SAMPLES), 0):
            packets = self._packets_from(start or -sys.maxsize)
            end = 0
            with suppress(_WrongPacketError):
                for position, samples in self._decode(packets):
                    end = position + samples.shape[1]
            if end > 0:
                break
        return min(num_counted, end)

    def track(self, number: int) -> "AvRecording":
        """Return the recording of an audio track, from 1; closed with this one.

        Raise AudioError if there is no such track.
        """
        if number == self.number:
            return self
        if number not in self._others:
            self._others[number] = AvRecording(self.path, self.path.open("rb"), number=number)
        return self._others[number]

    def close(self) -> None:
        """Release the file."""
        for recording in self._others.values():
            recording.close()
        self._container.close()
        self.local_file.close()

    def _find_run_up(self) -> int:
        """Return how many samples to decode before a window.

        It is `sys.maxsize`, which means all, where no smaller number is known to suffice.
        """
        if self.codec == "mp3" and self.sampling_rate < 32000:
            return int(_LOW_MP3_RUN_UP_S * self.sampling_rate)
        if self.codec.startswith("pcm_"):
            return 0
        if self._container.format.name == "flac":
            # FFmpeg only gets FLAC that libsndfile cannot open; seeks may find nothing after a
            # damaged header.
            return sys.maxsize
        if self.codec not in _RUN_UP_S:
            return sys.maxsize
        return int(_RUN_UP_S[self.codec] * self.sampling_rate)

    def _open(self) -> None:
        """Open the file with FFmpeg and choose the audio stream of this track.

        Raise AudioError, with the reason, if FFmpeg cannot read the file or it has no such stream.
        """
        self.local_file.seek(0)
        # Opened by descriptor: the content decides on the format, and no part of the name is parsed
        # as a protocol.
        options = {
            "fd": str(self.local_file.fileno()),
            "protocol_whitelist": "fd",
            "format_whitelist": _FORMATS,
        }
        try:
            self._container = av.open("fd:", options=options)
        except (av.error.FFmpegError, OSError, ValueError) as error:
            self.local_file.close()
            reason = getattr(error, "strerror", None) or error
            raise AudioError(
                f"{self.path}: {unknown_format_reason(self.path)} ({reason})"
            ) from error
        streams = self._container.streams.audio
        if not streams:
            raise self._refused("has no audio stream, only pictures or text")
        if self.number > len(streams):
            raise self._refused(f"has {len(streams)} audio tracks, no track {self.number}")
        self._stream = streams[self.number - 1]

    def _refused(self, reason: str) -> AudioError:
        self.close()
        return AudioError(f"{self.path}: {reason}")

    @cached_property
    def _index(self) -> PacketIndex:
        """Index the packets of the stream; see `index_packets`."""
        header = self._stream.codec_context.extradata or b""
        container = self._container.format.name
        misread = "matroska" in container or ("mov" in container and self._ticks != 1)
        if self.codec == "opus" and misread and header.startswith(b"OpusHead"):
            # The pre-skip of the container is unreliable: some Matroska writers store it at another
            # rate, and FFmpeg reads MP4's, which is at the rate of the container's clock, as 48
            # kHz. The codec's own header counts (RFC 7845, section 5.1).
            return index_packets(self._begin, self._ticks, int.from_bytes(header[10:12], "little"))
        return index_packets(self._begin, self._ticks)

    def _has_exact_clock(self, container: str) -> bool:
        """Return whether the times of packets are those of their samples, also after a seek."""
        if container in _BARE or container in _SCANNED or self.codec == "opus":
            return False
        counts = self._ticks.numerator == 1 or self._ticks == 2
        if not counts or not self._is_even():
            return False
        return container not in _BY_BYTE_RATE or not self.seeks or self._has_right_byte_rate()

    def _has_right_byte_rate(self) -> bool:
        """Return whether the byte rate in the header is that of the first packet.

        FFmpeg calculates times from it after a seek.
        """
        first = next(self._demux(), None)
        if first is None or not first.duration:
            return False
        samples = first.duration * self._ticks
        expected = samples * (self._stream.codec_context.bit_rate or 0) / 8 / self.sampling_rate
        return abs(expected - first.size) <= 1

    def _is_even(self) -> bool:
        """Return whether all packets but the last have the same duration.

        The durations are those of the container's index; without one it is true.
        """
        entries = self._stream.index_entries
        last = len(entries) - 1
        if last < 2:
            return True
        first = entries[0].timestamp
        step = entries[1].timestamp - entries[0].timestamp
        checked = range(0, last + 1, max(1, last // _CHECKED_ENTRIES))
        return all(
            entries[number].timestamp == first + number * step for number in (*checked, last)
        )

    def _begin(self) -> tuple[Iterator[AudioPacket], AudioCodecContext]:
        self._container.close()
        self._open()
        return self._demux(), self._stream.codec_context

    def _demux(self) -> Iterator[AudioPacket]:
        # PyAV raises IndexError after the last packet, at random, where streams appear after the
        # beginning (seen in 18.1).
        with suppress(IndexError):
            yield from self._container.demux(self._stream)

    def _packets_from(self, target: int) -> Iterator[tuple[AudioPacket, int | None]]:
        """Yield packets from the one at a position on, each with its end position.

        The end position is None where the clock tells it.
        """
        if self._ogg:
            self._stream.codec_context.flush_buffers()
            for number in range(first_packet(self._ogg.ends, target), len(self._ogg.ends)):
                payload = self._ogg.packet(self.local_file, number)
                # Decoders read its zero padding; `av.Packet(data)` has none.
                packet = cast(AudioPacket, av.Packet(len(payload)))
                packet.update(payload)
                yield packet, int(self._ogg.ends[number])
            return
        if self._clock_tells:
            self._container.seek(
                int((target + self._origin) / self._ticks), stream=self._stream, backward=True
            )
            yield from ((packet, None) for packet in self._demux())
            return
        index = self._index
        first = first_packet(index.ends, target)
        packets: Iterator[AudioPacket] | None = None
        if first and self._jumps:
            packets = self._jump_to(first)
        packets = packets or islice(self._begin()[0], first, None)
        if first and self._jumps:
            packets = self._verified(packets, first)
        for number, packet in enumerate(packets, first):
            if packet_time(packet) is None:
                yield packet, index.num_samples
            elif number < len(index.ends):
                yield packet, int(index.ends[number])

    def _verified(self, packets: Iterator[AudioPacket], number: int) -> Iterator[AudioPacket]:
        """Yield packets after a seek, the first of which has a number in the index.

        Raise _WrongPacketError where they differ from those of the index, or end earlier.
        """
        checks = self._index.checks
        with suppress(av.error.FFmpegError):  # packets after damage are not found
            for packet in packets:
                is_last = packet_time(packet) is None
                if number < len(checks) and (is_last or zlib.crc32(packet) != checks[number]):
                    raise _WrongPacketError
                yield packet
                number += 1
        if number < len(checks):
            raise _WrongPacketError

    def _jump_to(self, number: int) -> Iterator[AudioPacket] | None:
        """Seek and yield packets from one of the index on.

        Return None if time and bytes of the packet show that the seek found another one.
        """
        index = self._index
        if (
            not index.rising
            or not len(index.stamps)
            or (np.diff(index.stamps[max(0, number - 1) : number + 2]) == 0).any()
        ):
            return None
        wanted = index.stamps[number], index.checks[number]
        with suppress(av.error.FFmpegError):
            self._container.seek(
                int(index.stamps[max(0, number - _SEEK_BACK)]), stream=self._stream, backward=True
            )
            packets = self._demux()
            for packet in packets:
                at = packet_time(packet)
                if at is None or at > wanted[0]:
                    return None
                if (at, zlib.crc32(packet)) == wanted:
                    return chain([packet], packets)
        return None

    def _decode_from(self, start: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield decoded frames as (position, samples of shape (channels, n)).

        They begin a run-up before `start`.
        """
        if self._run_up < start:
            yield from self._decode(self._packets_from(start - self._run_up))
            return
        if self._run_up < sys.maxsize:
            yield from self._decode_all()
            return
        # The decoder continues from its current position, so that windows in rising order take one
        # pass.
        if self._decoded is None or not self._recent or start < self._recent[0][0]:
            self._decoded = self._decode_all()
            self._recent.clear()
        yield from tuple(self._recent)
        for position, samples in self._decoded:
            self._recent.append((position, samples))
            while self._recent[0][0] < position - _KEPT_S * self.sampling_rate:
                self._recent.popleft()
            yield position, samples

    def _decode_all(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield decoded frames from the beginning of the recording; see `_decode_from`."""
        if self._clock_tells or self._run_up == sys.maxsize:
            yield from self._decode(((packet, None) for packet in self._begin()[0]), 0)
        else:
            yield from self._decode(self._packets_from(-sys.maxsize))

    def _decode(
        self, packets: Iterator[tuple[AudioPacket, int | None]], position: int | None = None
    ) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Decode packets, given with their end positions, from `position` on.

        `position` is None where the packets tell it.
        """
        to_packed = AudioResampler(format="flt")
        decoder: AudioCodecContext | None = None
        while True:
            decoding = False
            try:
                packet_with_end = next(packets, None)
                if packet_with_end is None:
                    return
                packet, end = packet_with_end
                decoder = decoder or self._decoder()
                decoding = True
                frames = decoder.decode(packet)
            except av.error.FFmpegError:
                if not decoding or self._run_up == sys.maxsize:
                    return  # no later position can be determined
                position = None
                continue
            if position is None and frames:
                # The first frame of Opus may be shorter than its packet: a decoder that resamples
                # delays samples.
                if self.codec == "opus":
                    num_samples = opus_samples(memoryview(packet))
                else:
                    num_samples = sum(frame.samples for frame in frames)
                time = int((frames[0].pts or 0) * self._ticks)
                if self.codec in _STATEFUL:
                    # A new decoder drops the samples before 0 as the container says, but does not
                    # change the time of the frame.
                    time = max(0, time)
                position = time - self._origin if end is None else end - num_samples
            for frame in frames:
                if (frame.sample_rate, frame.layout.nb_channels) != (
                    self.sampling_rate,
                    self.num_channels,
                ):
                    return  # the stream changes its rate or channels
                for samples in self._samples(frame, to_packed):
                    yield cast(int, position), samples
                    position = cast(int, position) + samples.shape[1]

    def _samples(
        self, frame: av.AudioFrame, to_packed: AudioResampler
    ) -> list[NDArray[np.float32]]:
        """Return the samples of a decoded frame in parts, each of shape (channels, samples)."""
        # PyAV reads past the planes of a frame that has eight or more (`AudioFrame.planes`, seen in
        # 18.1).
        if frame.format.name == "fltp" and self.num_channels < 8:
            return [cast(NDArray[np.float32], frame.to_ndarray())]
        packed = (part.to_ndarray() for part in to_packed.resample(frame))
        return [
            cast(NDArray[np.float32], samples.reshape(-1, self.num_channels).T)
            for samples in packed
        ]

    def _decoder(self) -> AudioCodecContext:
        """Return a decoder for packets after a seek.

        It is the stream's own, or a new one where a flush does not reset that.
        """
        decoder = self._stream.codec_context
        if self.codec == "opus":
            # Without the flag, the pre-skip is dropped from the first packet that is decoded,
            # whichever that is.
            decoder.flags2 |= int(Flags2.skip_manual)
        if self.codec not in _STATEFUL:
            return decoder
        new = cast(
            AudioCodecContext,
            AudioCodecContext.create(_PREFERRED.get(decoder.name, decoder.codec), "r"),
        )
        new.extradata = decoder.extradata
        return new
