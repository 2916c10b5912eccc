"""Read the pages of Ogg files (RFC 3533).

Detect damage, and index the packets and samples of Opus and Vorbis.
"""

import os
import struct
import zlib
from collections.abc import Iterator
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
_FIRST, _LAST = 0x02, 0x04  # flags: the first and the last page of a stream
_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
# The first bytes of a codec's first packet, and the number of header packets before the audio.
_HEADERS = {"opus": (b"OpusHead", 2), "vorbis": (b"\x01vorbis", 3)}
# Samples at 48 kHz in one frame of an Opus packet, by the five bits of its configuration (RFC 6716,
# section 3.1).
_OPUS_FRAME = np.array(
    [480, 960, 1920, 2880] * 3 + [480, 960] * 2 + [120, 240, 480, 960] * 4, np.int64
)


class _Page(NamedTuple):
    """One page: flags, granule position, stream, offset of its body in the file, lacing values."""

    flags: int
    granule: int
    serial: int
    body: int
    lacing: bytes


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
        held = slice(*self.starts[number : number + 2].tolist())
        segments = zip(self.sizes[held].tolist(), self.offsets[held].tolist(), strict=True)
        return b"".join(os.pread(file.fileno(), size, offset) for size, offset in segments)


def first_packet(ends: NDArray[np.int64], position: int) -> int:
    """Return the number of the first packet that ends after a position.

    It is the first packet for position 0, and the last one if none ends after the position.
    """
    return (
        0
        if position <= 0
        else max(0, min(int(np.searchsorted(ends, position, side="right")), len(ends) - 1))
    )


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
            for page in _pages(file, checked=True):
                begin = begin or os.pread(file.fileno(), 4096, 0)
                serials.add(page.serial)
                position = max(position, page.granule)
        except _DamagedError as damaged:
            problem = str(damaged)
    opus = begin.find(b"OpusHead")
    counts_samples = opus >= 0 or b"\x01vorbis" in begin or b"\x7fFLAC" in begin
    if len(serials) != 1 or not counts_samples:
        return problem, None
    # Pre-skip: samples that the encoder adds before the sound (RFC 7845, section 5.1).
    delay = int.from_bytes(begin[opus + 10 : opus + 12], "little") if opus >= 0 else 0
    return problem, max(0, position - delay)


def index_packets_of_ogg(file: BinaryIO, codec: str) -> OggIndex | None:  # noqa: PLR0914
    """Index the first ``opus`` or ``vorbis`` stream by file offset.

    Return None if there is none, or if pages contradict the packets.
    """
    magic, headers = _HEADERS[codec]
    pages: list[_Page] = []
    begin = b""
    with suppress(_DamagedError):  # the pages after the damage are not used
        for page in _pages(file, checked=False):
            if not pages and os.pread(file.fileno(), len(magic), page.body) == magic:
                begin = os.pread(file.fileno(), 64, page.body)
            if begin and (not pages or page.serial == pages[0].serial):
                pages.append(page)
    if not pages:
        return None
    lacing = np.frombuffer(b"".join(page.lacing for page in pages), np.uint8).astype(np.int64)
    counts = np.array([len(page.lacing) for page in pages])
    before = np.cumsum(lacing) - lacing
    firsts = np.cumsum(counts) - counts
    bodies = np.repeat([page.body for page in pages], counts)
    offsets = (
        bodies + before - np.repeat(before[np.minimum(firsts, max(0, len(lacing) - 1))], counts)
    )
    starts = np.concatenate([[0], np.flatnonzero(lacing < 255) + 1])
    # Audio packets up to the end of each page.
    completed = np.searchsorted(starts, firsts + counts, side="right") - 1 - headers
    starts = starts[headers:]
    if len(starts) < 2:
        return None
    data = np.memmap(file, np.uint8, "r")
    at = np.append(offsets, len(data))[starts[:-1]]
    ends = np.cumsum(
        packet_samples(
            codec, begin, data[np.minimum(np.stack([at, at + 1], axis=1), len(data) - 1)]
        )
    )
    pre_skip = int.from_bytes(begin[10:12], "little") if codec == "opus" else 0
    known = [
        (page.granule, int(ends[done - 1]))
        for page, done in zip(pages, completed, strict=True)
        if page.granule > 0 < done
    ]
    total = int(ends[-1])
    if known:
        # A stream may be an excerpt of a longer one: then all positions are greater by the same
        # number.
        by = known[0][0] - known[0][1] if len(known) > 1 else 0
        if (
            any(granule - end != by for granule, end in known[:-1])
            or known[-1][0] - known[-1][1] > by
        ):
            return None
        total = min(total, known[-1][0] - by) if pages[-1].flags & _LAST else total
    return OggIndex(ends - pre_skip, max(0, total - pre_skip), starts, offsets, lacing)


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


def _chained(offset: int) -> str:
    return f"{CHAINED} at byte {offset:,}, which is not read"


def _pages(file: BinaryIO, *, checked: bool) -> Iterator[_Page]:  # noqa: PLR0914
    """Yield all pages; `checked` verifies their checksums first.

    Raise _DamagedError at a problem or another recording.
    """
    numbers: dict[int, int] = {}
    at = 0
    ended = False
    in_data = False
    size = os.fstat(file.fileno()).st_size
    while at < size:
        data = os.pread(file.fileno(), _HEADER.size + 255, at)
        if not data.startswith(b"OggS"):
            if at:
                raise _DamagedError(f"damaged: there is no page at byte {at:,}")
            return
        if len(data) < _HEADER.size or len(data) < _HEADER.size + data[26]:
            raise _DamagedError(f"truncated: it ends within a page, which begins at byte {at:,}")
        _, _, flags, granule, serial, number, check, segments = _HEADER.unpack_from(data)
        lacing = data[_HEADER.size : _HEADER.size + segments]
        body = at + _HEADER.size + segments
        end = body + sum(lacing)
        if end > size:
            raise _DamagedError(f"truncated: it ends within a page, which begins at byte {at:,}")
        if checked:
            page = os.pread(file.fileno(), end - at, at)
            # zlib's polynomial, most significant bit first, without inversion.
            mirrored = (
                zlib.crc32((page[:22] + bytes(4) + page[26:]).translate(_MIRRORED), 0xFFFFFFFF)
                ^ 0xFFFFFFFF
            )
            if int(f"{mirrored:032b}"[::-1], 2) != check:
                raise _DamagedError(f"damaged: the page at byte {at:,} has a wrong checksum")
        if flags & _FIRST and in_data:
            raise _DamagedError(_chained(at))
        if not flags & _FIRST and number != numbers.get(serial, number - 1) + 1:
            raise _DamagedError(f"damaged: pages are missing before byte {at:,}")
        in_data |= not flags & _FIRST and granule > 0
        numbers[serial] = number
        ended = bool(flags & _LAST)
        yield _Page(flags, granule, serial, body, lacing)
        at = end
    if not ended:
        raise _DamagedError("truncated: its last page is missing")
