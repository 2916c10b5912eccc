"""Read the pages of Ogg files (RFC 3533).

Detect damage, and index the packets and samples of Opus and Vorbis.
"""

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nbaudio.audio.decode_errors import CHAINED

# OggS, version, flags, granule position (of the last sample that it completes), stream, number,
# checksum, count of lacing values.
_HEADER = struct.Struct("<4sBBqIIIB")
_CAPTURE = b"OggS"  # begins each page
_MOST_SEGMENTS = 255  # most segments of a page
_MOST_SEGMENT_BYTES = 255
# Place of the checksum in a page; its bytes count as zeros when it is computed.
_CHECKSUM = slice(22, 26)
_BEGINS_STREAM = 0x02  # flag of a page
_ENDS_STREAM = 0x04
_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
# The first bytes of the first packet of each codec.
_MAGIC = {"opus": b"OpusHead", "vorbis": b"\x01vorbis"}
_HEADER_PACKETS = {"opus": 2, "vorbis": 3}  # number of packets before the audio
_IDENTIFICATION_BYTES = 64  # bytes of the first packet that hold its fields
# Samples at 48 kHz in one frame of an Opus packet, by the five bits of its configuration (RFC 6716,
# section 3.1).
_OPUS_FRAME = np.array(
    [480, 960, 1920, 2880] * 3 + [480, 960] * 2 + [120, 240, 480, 960] * 4, np.int64
)


class _Page(NamedTuple):
    """One page.

    `granule` is its granule position; `offset`, `body` and `end` are offsets in the file, of its
    header, of its first segment and of what follows it. `lacing` has the size of each segment.
    """

    offset: int
    body: int
    end: int
    flags: int
    granule: int
    serial: int
    number: int
    checksum: int
    lacing: bytes

    @property
    def begins_stream(self) -> bool:
        """Whether it is the first page of its stream."""
        return bool(self.flags & _BEGINS_STREAM)

    @property
    def ends_stream(self) -> bool:
        """Whether it is the last page of its stream."""
        return bool(self.flags & _ENDS_STREAM)


class _DamagedError(Exception):
    """The file cannot be read further; the message has the reason and the byte."""


@dataclass(frozen=True)
class OggIndex:
    """The audio packets of one stream, and their segments, one lacing value each."""

    ends: NDArray[np.int64]  # positions of packets, 0 being the first sample of the recording
    num_samples: int
    starts: NDArray[np.int64]  # the number of each packet's first segment, and of all segments
    offsets: NDArray[np.int64]  # of segments in the file
    sizes: NDArray[np.int64]  # of segments in bytes

    def packet(self, file: BinaryIO, number: int) -> bytes:
        """Return a packet's bytes, joined where it spans pages."""
        numbers = slice(*self.starts[number : number + 2].tolist())
        segments = zip(self.sizes[numbers].tolist(), self.offsets[numbers].tolist(), strict=True)
        return b"".join(os.pread(file.fileno(), size, offset) for size, offset in segments)


def first_packet(ends: NDArray[np.int64], position: int) -> int:
    """Return the number of the first packet that ends after a position.

    It is the first packet for position 0, and the last one if none ends after the position.
    """
    if position <= 0:
        return 0
    number = int(np.searchsorted(ends, position, side="right"))
    return max(0, min(number, len(ends) - 1))


def scan_pages(path: Path) -> tuple[str | None, int | None]:
    """Return the first problem of an Ogg file and the number of samples before it.

    The problem is None if there is none. The samples, of Opus at 48 kHz, are None where they are
    unknown.
    """
    problem = None
    position = 0
    serials = set()
    begin = b""
    with path.open("rb") as file:
        try:
            for page in _pages(file, verify=True):
                begin = begin or os.pread(file.fileno(), 4096, 0)
                serials.add(page.serial)
                position = max(position, page.granule)
        except _DamagedError as damaged:
            problem = str(damaged)
    opus = begin.find(_MAGIC["opus"])
    counts_samples = opus >= 0 or _MAGIC["vorbis"] in begin or b"\x7fFLAC" in begin
    if len(serials) != 1 or not counts_samples:
        return problem, None
    pre_skip = _pre_skip(begin[opus:]) if opus >= 0 else 0
    return problem, max(0, position - pre_skip)


def index_packets_of_ogg(file: BinaryIO, codec: str) -> OggIndex | None:
    """Index the first ``opus`` or ``vorbis`` stream by file offset.

    Return None if there is none, or if pages contradict the packets.
    """
    pages = _first_stream(file, _MAGIC[codec])
    if not pages:
        return None
    identification = os.pread(file.fileno(), _IDENTIFICATION_BYTES, pages[0].body)
    segments = _segments_of(pages)
    packet_starts = _packet_starts(segments.sizes)
    starts = packet_starts[_HEADER_PACKETS[codec] :]
    if len(starts) < 2:
        return None
    heads = _read_heads(file, segments.offsets[starts[:-1]])
    ends = np.cumsum(packet_samples(codec, identification, heads))
    # Audio packets that are complete at the end of each page.
    complete = np.searchsorted(starts, segments.page_ends, side="right") - 1
    num_samples = _count_samples(pages, complete, ends)
    if num_samples is None:
        return None
    pre_skip = _pre_skip(identification) if codec == "opus" else 0
    return OggIndex(
        ends=ends - pre_skip,
        num_samples=max(0, num_samples - pre_skip),
        starts=starts,
        offsets=segments.offsets,
        sizes=segments.sizes,
    )


def packet_samples(codec: str, header: bytes, heads: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return how many samples each ``opus`` (at 48 kHz) or ``vorbis`` packet completes.

    `heads` has a row for each packet: its first two bytes.
    """
    first, second = heads.astype(np.int64).T
    if codec == "opus":
        frames = np.choose(first & 3, [1, 2, 2, second & 63])
        return np.asarray(_OPUS_FRAME[first >> 3] * frames, np.int64)
    # Half of a packet's window overlaps the one before; of the two modes in use, the first is the
    # short one (Vorbis I, 4.3).
    window = np.where(first & 2, 1 << (header[28] >> 4), 1 << (header[28] & 15))
    samples = np.zeros(len(window), np.int64)
    samples[1:] = (window[1:] + window[:-1]) // 4
    return samples


def _pre_skip(opus_head: bytes) -> int:
    """Return the samples that the encoder adds before the sound (RFC 7845, section 5.1)."""
    return int.from_bytes(opus_head[10:12], "little")


def _first_stream(file: BinaryIO, magic: bytes) -> list[_Page]:
    """Return the pages of the first stream whose first packet begins with some bytes."""
    pages: list[_Page] = []
    with suppress(_DamagedError):  # the pages after the damage are not used
        for page in _pages(file, verify=False):
            if pages:
                belongs = page.serial == pages[0].serial
            else:
                belongs = os.pread(file.fileno(), len(magic), page.body) == magic
            if belongs:
                pages.append(page)
    return pages


@dataclass(frozen=True)
class _Segments:
    """The segments of a stream.

    Attributes:
        sizes: of each segment in bytes, at most 255.
        offsets: of each segment in the file.
        page_ends: of each page, the number of segments up to its end.
    """

    sizes: NDArray[np.int64]
    offsets: NDArray[np.int64]
    page_ends: NDArray[np.int64]


def _segments_of(pages: Sequence[_Page]) -> _Segments:
    """Return the segments of the pages of a stream."""
    lacing = b"".join(page.lacing for page in pages)
    sizes = np.frombuffer(lacing, np.uint8).astype(np.int64)
    counts = np.array([len(page.lacing) for page in pages])
    bodies = np.array([page.body for page in pages])
    body_sizes = np.array([page.end - page.body for page in pages])
    # Bytes of the stream before each page and before each segment.
    before_pages = np.cumsum(body_sizes) - body_sizes
    before_segments = np.cumsum(sizes) - sizes
    offsets = np.repeat(bodies - before_pages, counts) + before_segments
    return _Segments(sizes, offsets, np.cumsum(counts))


def _packet_starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of the first segment of each packet, and where the next one would begin.

    A packet ends with its first segment of less than 255 bytes.
    """
    return np.concatenate([[0], np.flatnonzero(sizes < _MOST_SEGMENT_BYTES) + 1])


def _read_heads(file: BinaryIO, offsets: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return the first two bytes of packets, by their offsets in the file; shape (packets, 2)."""
    contents = np.memmap(file, np.uint8, "r")
    places = np.stack([offsets, offsets + 1], axis=1)
    return contents[np.minimum(places, len(contents) - 1)]


def _count_samples(
    pages: Sequence[_Page], complete: NDArray[np.int64], ends: NDArray[np.int64]
) -> int | None:
    """Return the number of samples of a stream, pre-skip included.

    Granule positions say where the last packet is trimmed. Return None if they contradict the ends
    of packets; `complete` has how many packets are complete at the end of each page.
    """
    total = int(ends[-1])
    clocked = [
        (page.granule, int(ends[packets - 1]))
        for page, packets in zip(pages, complete.tolist(), strict=True)
        if page.granule > 0 and packets > 0
    ]
    if not clocked:
        return total
    shifts = [granule - end for granule, end in clocked]
    # A stream may be an excerpt of a longer one: then all positions are greater by the same number.
    shift = shifts[0] if len(shifts) > 1 else 0
    if any(other != shift for other in shifts[:-1]) or shifts[-1] > shift:
        return None
    if not pages[-1].ends_stream:
        return total
    last_granule = clocked[-1][0]
    return min(total, last_granule - shift)


def _pages(file: BinaryIO, *, verify: bool) -> Iterator[_Page]:
    """Yield all pages of an Ogg file, none of another file.

    Raise _DamagedError at a problem or another recording. `verify` compares checksums, too.
    """
    size = os.fstat(file.fileno()).st_size
    if size and os.pread(file.fileno(), len(_CAPTURE), 0) != _CAPTURE:
        return
    last_numbers: dict[int, int] = {}  # by stream
    is_in_audio = False
    page = None
    offset = 0
    while offset < size:
        page = _read_page(file, offset, size)
        if verify:
            _verify_checksum(file, page)
        if page.begins_stream and is_in_audio:
            raise _DamagedError(f"{CHAINED} at byte {offset:,}, which is not read")
        last_number = last_numbers.get(page.serial, page.number - 1)
        if not page.begins_stream and page.number != last_number + 1:
            raise _DamagedError(f"damaged: pages are missing before byte {offset:,}")
        last_numbers[page.serial] = page.number
        if not page.begins_stream and page.granule > 0:
            is_in_audio = True
        yield page
        offset = page.end
    if page is None or not page.ends_stream:
        raise _DamagedError("truncated: its last page is missing")


def _read_page(file: BinaryIO, offset: int, file_size: int) -> _Page:
    """Read the header of the page at an offset; raise _DamagedError where none is complete."""
    header = os.pread(file.fileno(), _HEADER.size + _MOST_SEGMENTS, offset)
    if not header.startswith(_CAPTURE):
        raise _DamagedError(f"damaged: there is no page at byte {offset:,}")
    if len(header) < _HEADER.size:
        raise _truncated(offset)
    _, _, flags, granule, serial, number, checksum, segments = _HEADER.unpack_from(header)
    lacing = header[_HEADER.size : _HEADER.size + segments]
    body = offset + _HEADER.size + segments
    end = body + sum(lacing)
    if len(lacing) < segments or end > file_size:
        raise _truncated(offset)
    return _Page(offset, body, end, flags, granule, serial, number, checksum, lacing)


def _truncated(offset: int) -> _DamagedError:
    return _DamagedError(f"truncated: it ends within a page, which begins at byte {offset:,}")


def _verify_checksum(file: BinaryIO, page: _Page) -> None:
    """Raise _DamagedError if the bytes of a page do not have its checksum."""
    contents = bytearray(os.pread(file.fileno(), page.end - page.offset, page.offset))
    contents[_CHECKSUM] = bytes(4)
    # zlib's polynomial, most significant bit first, without inversion.
    mirrored = zlib.crc32(contents.translate(_MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    if int(f"{mirrored:032b}"[::-1], 2) != page.checksum:
        raise _DamagedError(f"damaged: the page at byte {page.offset:,} has a wrong checksum")
