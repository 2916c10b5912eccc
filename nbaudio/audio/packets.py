"""Index the packets of streams whose clock is too coarse for samples.

They are not decoded if that is possible; see docs/audio.md.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from typing import Any, TypeAlias

import av.error
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from av.audio.stream import AudioStream
from av.packet import Packet
from numpy.typing import NDArray

from nbaudio.audio.ogg_pages import packet_samples

AudioPacket: TypeAlias = "Packet[AudioStream]"
Begin = Callable[[], tuple[Iterator[AudioPacket], AudioCodecContext]]

# Codecs whose packets all have the same number of samples.
_FIXED = {"aac", "ac3", "amrnb", "amrwb", "eac3", "mp1float", "mp2float", "mp3float"}
_FIRST = 16  # packets that are decoded to find the encoder delay and the samples of a packet
# Tolerance between counted samples and the clock, which is rounded once when written and once when
# read
_TICKS_OFF = 2


@dataclass(frozen=True)
class PacketIndex:
    """Packets in the order of the file."""

    stamps: NDArray[np.int64]  # the container's times
    checks: NDArray[np.int64]  # CRC-32s, which identify packets after a seek
    ends: NDArray[np.int64]  # end positions before the container's trimming of the end
    rising: bool  # whether stamps never fall
    num_samples: int


def packet_time(packet: AudioPacket) -> int | None:
    """Return the container's time of a packet; None for the one that marks the end."""
    if packet.pts is not None:
        return packet.pts
    return packet.dts


@dataclass(frozen=True)
class _Packets:
    """Packets as they are in the file, without decoding.

    Attributes:
        stamps: the container's times.
        checks: CRC-32s.
        heads: the first two bytes of each, as by `_head`.
        trims: samples of Opus that the container trims at the start and the end of a packet, for
            each packet where it says so.
    """

    stamps: list[int]
    checks: list[int]
    heads: list[bytes]
    trims: list[tuple[int, int]]


@dataclass(frozen=True)
class _FirstPackets:
    """What the first packets of a stream decode to.

    Attributes:
        lead: the number of the first packet that gives samples; None if none does.
        lead_samples: how many it gives.
        packet_samples: how many the last packet gives; 0 if none gives any.
    """

    lead: int | None = None
    lead_samples: int = 0
    packet_samples: int = 0


@dataclass(frozen=True)
class _Timeline:
    """The end position of each packet, and the samples after the last one's that are trimmed."""

    ends: NDArray[np.int64]
    trimmed: int = 0

    @property
    def num_samples(self) -> int:
        """The samples of the stream."""
        if len(self.ends):
            return max(0, int(self.ends[-1]) - self.trimmed)
        return 0


def index_packets(begin: Begin, ticks: Fraction, skipped: int | None = None) -> PacketIndex:
    """Index a stream, which `begin` restarts, of `ticks` samples per tick.

    `skipped` is the pre-skip of Opus, if it is better known from elsewhere.
    """
    packets, decoder = begin()
    is_opus = _is_opus(decoder)
    first = _FirstPackets() if is_opus else _decode_first_packets(packets, decoder)
    packets, decoder = begin()
    stored = _read_packets(packets, has_trims=is_opus)
    stamps = np.array(stored.stamps, np.int64)
    counts = _count_samples(decoder, first.packet_samples, stored.heads)
    if counts is None:
        timeline = None
    elif is_opus:
        timeline = _timeline_of_opus(counts, stored.trims, skipped)
    else:
        timeline = _timeline_by_clock(counts, stamps * float(ticks), first, float(ticks))
    if timeline is None:
        timeline = _Timeline(_decoded_ends(*begin(), len(stamps)))
    return PacketIndex(
        stamps=stamps,
        checks=np.array(stored.checks, np.int64),
        ends=timeline.ends,
        rising=not (np.diff(stamps) < 0).any(),
        num_samples=timeline.num_samples,
    )


def _is_opus(decoder: AudioCodecContext) -> bool:
    return _codec_name(decoder) == "opus"


def _codec_name(decoder: AudioCodecContext) -> str:
    """Return the name of the codec, whichever library decodes it."""
    return decoder.name.removeprefix("lib")


def _decode_first_packets(
    packets: Iterator[AudioPacket], decoder: AudioCodecContext
) -> _FirstPackets:
    """Decode the first packets up to a damaged one."""
    first = _FirstPackets()
    with suppress(av.error.FFmpegError):
        for number, packet in enumerate(islice(packets, _FIRST)):
            samples = _decode_samples(decoder, packet)
            if not samples:
                continue
            if first.lead is None:
                first = _FirstPackets(number, samples)
            first = replace(first, packet_samples=samples)
    return first


def _decode_samples(decoder: AudioCodecContext, packet: AudioPacket) -> int:
    """Return how many samples the decoder gives for a packet."""
    return sum(frame.samples for frame in decoder.decode(packet))


def _read_packets(packets: Iterator[AudioPacket], *, has_trims: bool) -> _Packets:
    """Read the packets up to a damaged one; `has_trims` is whether to read what is trimmed."""
    stored = _Packets([], [], [], [])
    with suppress(av.error.FFmpegError):  # packets after damage are not found
        for packet in packets:
            stamp = packet_time(packet)
            if stamp is None:
                continue
            stored.stamps.append(stamp)
            stored.checks.append(zlib.crc32(packet))
            stored.heads.append(_head(memoryview(packet)))
            if has_trims and packet.has_sidedata("skip_samples"):
                side_data = bytes(packet.get_sidedata("skip_samples"))
                stored.trims.append(struct.unpack_from("<II", side_data))
    return stored


def _timeline_of_opus(
    counts: NDArray[np.int64], trims: list[tuple[int, int]], skipped: int | None
) -> _Timeline:
    """Return the timeline of Opus, whose packets have their samples, whatever the clock says."""
    if skipped is None:
        skipped = sum(start for start, _ in trims)
    return _Timeline(np.cumsum(counts) - skipped, sum(end for _, end in trims))


def _timeline_by_clock(
    counts: NDArray[np.int64], times: NDArray[np.floating[Any]], first: _FirstPackets, tick: float
) -> _Timeline | None:
    """Return the timeline of packets whose clock agrees with their samples.

    Return None if it does not, or if it is unknown how many samples the decoder drops first.
    `times` are those of the clock, and `tick` its step, in samples.
    """
    ends = np.cumsum(counts)
    # The first packet is not compared: where it decodes to no samples, writers disagree on its
    # duration.
    off = ends[:-1] - times[1:]
    agrees = not len(off) or np.ptp(off) <= _TICKS_OFF * max(1.0, tick)
    if not agrees or first.lead is None or first.lead >= len(ends):
        return None
    dropped = int(ends[first.lead]) - first.lead_samples
    return _Timeline(ends - dropped)


def _count_samples(
    decoder: AudioCodecContext, fixed_size: int, heads: list[bytes]
) -> NDArray[np.int64] | None:
    """Return the number of samples of each packet, without decoding.

    The first bytes of a packet tell it, or it is the same for all; None if neither is known.
    """
    name = _codec_name(decoder)
    header = decoder.extradata or b""
    vorbis = header.find(b"\x01vorbis")
    if name == "opus" or (name == "vorbis" and 0 <= vorbis < len(header) - 28):
        pairs = np.frombuffer(b"".join(heads), np.uint8).reshape(-1, 2)
        return packet_samples(name, header[vorbis:], pairs)
    if decoder.name in _FIXED and fixed_size:
        return np.full(len(heads), fixed_size, np.int64)
    return None


def _head(packet: bytes | memoryview) -> bytes:
    """Return the first two bytes of a packet.

    Missing bytes are filled in so that they declare an Opus packet of no frames.
    """
    head = bytes(packet[:2])
    return head + b"\3\0"[len(head) :]


def opus_samples(packet: bytes | memoryview) -> int:
    """Return the samples at 48 kHz in an Opus packet."""
    head = np.frombuffer(_head(packet), np.uint8).reshape(1, 2)
    return int(packet_samples("opus", b"", head)[0])


def _decoded_ends(
    packets: Iterator[AudioPacket], decoder: AudioCodecContext, length: int
) -> NDArray[np.int64]:
    """Return the end position of each packet by decoding; a broken packet has no samples."""
    ends: list[int] = []
    position = 0
    with suppress(av.error.FFmpegError):  # packets after damage are not found
        for packet in packets:
            with suppress(av.error.FFmpegError):
                position += _decode_samples(decoder, packet)
            ends.append(position)
    missing = length - len(ends)
    ends = [*ends[:length], *[position] * missing]
    # The last packet only marks the end; samples that it flushes out of the decoder belong to the
    # one before.
    if ends:
        ends[-1] = position
    return np.array(ends, np.int64)
