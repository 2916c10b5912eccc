"""Index the packets of streams whose clock is too coarse for samples.

They are not decoded if that is possible; see docs/audio.md.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import TypeAlias

import av.error
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from av.audio.stream import AudioStream
from av.packet import Packet
from numpy.typing import NDArray

from nbaudio.audio.ogg import packet_samples

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
    return packet.pts if packet.pts is not None else packet.dts


def index_packets(begin: Begin, ticks: Fraction, skipped: int | None = None) -> PacketIndex:  # noqa: PLR0914
    """Index a stream, which `begin` restarts, of `ticks` samples per tick.

    `skipped` is the pre-skip of Opus, if it is better known from elsewhere.
    """
    packets, decoder = begin()
    opus = decoder.name.removeprefix("lib") == "opus"
    # The first packet with samples as (its number, samples), and the samples of the last packet.
    lead, size = None, 0
    with suppress(av.error.FFmpegError):
        for number, packet in enumerate(islice(packets, 0 if opus else _FIRST)):
            size = sum(frame.samples for frame in decoder.decode(packet)) or size
            lead = lead or ((number, size) if size else None)
    packets, decoder = begin()
    # Samples that the container trims at the start and the end of a packet.
    trims: list[tuple[int, int]] = []
    stamps: list[int] = []
    checks: list[int] = []
    heads: list[bytes] = []
    with suppress(av.error.FFmpegError):  # packets after damage are not found  # noqa: PLR1702
        for packet in packets:
            at = packet_time(packet)
            if at is not None:
                stamps.append(at)
                checks.append(zlib.crc32(packet))
                heads.append(_head(memoryview(packet)))
                if opus and packet.has_sidedata("skip_samples"):
                    trims.append(
                        struct.unpack_from("<II", bytes(packet.get_sidedata("skip_samples")))
                    )
    clock = np.array(stamps, np.int64)
    known = np.array(checks, np.int64)
    rising = not (np.diff(clock) < 0).any()
    held = _counted(decoder, size, heads)
    ends = None if held is None else np.cumsum(held)
    dropped = 0
    if ends is not None and opus:  # packets tell their samples, whatever the clock says
        ends -= sum(start for start, _ in trims) if skipped is None else skipped
        dropped = sum(end for _, end in trims)
    elif ends is not None:
        # The first packet is not compared: where it decodes to no samples, writers disagree on its
        # duration.
        off = ends[:-1] - clock[1:] * float(ticks)
        agrees = not len(off) or np.ptp(off) <= _TICKS_OFF * max(1.0, float(ticks))
        if agrees and lead is not None and lead[0] < len(ends):
            ends -= int(ends[lead[0]]) - lead[1]
        else:
            ends = None
    if ends is None:
        ends = _decoded_ends(*begin(), len(clock))
    return PacketIndex(
        clock, known, ends, rising, max(0, int(ends[-1]) - dropped) if len(ends) else 0
    )


def _counted(context: AudioCodecContext, size: int, heads: list[bytes]) -> NDArray[np.int64] | None:
    """Return the number of samples of each packet.

    It is told by the first bytes of a packet, or is the same for all; None if neither is known.
    """
    name = context.name.removeprefix("lib")
    header = context.extradata or b""
    at = header.find(b"\x01vorbis")
    if name == "opus" or (name == "vorbis" and 0 <= at < len(header) - 28):
        return packet_samples(
            name, header[at:], np.frombuffer(b"".join(heads), np.uint8).reshape(-1, 2)
        )
    return np.full(len(heads), size, np.int64) if context.name in _FIXED and size else None


def _head(packet: bytes | memoryview) -> bytes:
    """Return the first two bytes of a packet.

    Missing bytes are filled in so that they declare an Opus packet of no frames.
    """
    data = bytes(packet[:2])
    return data + b"\3\0"[len(data) :]


def opus_samples(packet: bytes | memoryview) -> int:
    """Return the samples at 48 kHz in an Opus packet."""
    return int(packet_samples("opus", b"", np.frombuffer(_head(packet), np.uint8).reshape(1, 2))[0])


def _decoded_ends(
    packets: Iterator[AudioPacket], decoder: AudioCodecContext, length: int
) -> NDArray[np.int64]:
    """Return the end position of each packet by decoding; a broken packet has no samples."""
    ends: list[int] = []
    position = 0
    with suppress(av.error.FFmpegError):  # packets after damage are not found
        for packet in packets:
            with suppress(av.error.FFmpegError):
                position += sum(frame.samples for frame in decoder.decode(packet))
            ends.append(position)
    # The last packet only marks the end; samples that it flushes out of the decoder belong to the
    # one before.
    ends = [*ends[:length], *[position] * (length - len(ends))]
    return np.array([*ends[:-1], position] if ends else [], np.int64)
