"""What the pages of an Ogg file tell, which decoders pass over: where it breaks off, and what is chained behind its first part.

A page begins with ``OggS``, its flags, the position of the sound that it ends, the number of its stream, its own number and its
checksum (RFC 3533, section 6).
"""

import struct
import zlib
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct("<4sBBqIIIB")
# Of a stream.
_FIRST, _LAST = 0x02, 0x04
_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


class Pages(NamedTuple):
    """What is wrong with a file, None for nothing, and how many samples it holds before that; 0 where this is not known."""

    problem: str | None
    num_samples: int


def look_through(path: Path) -> Pages:
    """Go through the pages of an Ogg file up to the first that is not as it should be.

    Returns:
        A problem that names the byte, and how many samples the pages before it hold, in Opus those at 48 kHz; 0 where that is not
        known, as of streams side by side. Of a file that is no Ogg, no problem.
    """
    problem, position, streams = _walk(path)
    with path.open("rb") as file:
        begin = file.read(4096)
    opus = begin.find(b"OpusHead")
    if streams != 1 or (opus < 0 and b"\x01vorbis" not in begin):
        return Pages(problem, 0)
    # What the encoder puts before the sound is told in the header (RFC 7845, section 5.1).
    delay = int.from_bytes(begin[opus + 10 : opus + 12], "little") if opus >= 0 else 0
    return Pages(problem, max(0, position - delay))


def _walk(path: Path) -> tuple[str | None, int, int]:
    """The problem, the last position before it, and how many streams there are."""
    numbers: dict[int, int] = {}
    position, ended, in_data = 0, False, False
    with path.open("rb") as file:
        while head := file.read(_HEADER.size):
            at = file.tell() - len(head)
            if not head.startswith(b"OggS"):
                return f"damaged: there is no page at byte {at:,}" if at else None, position, len(numbers)
            lacing = file.read(head[-1])
            body = file.read(sum(lacing))
            if len(head) < _HEADER.size or len(lacing) < head[-1] or len(body) < sum(lacing):
                return f"truncated: it ends within a page, which begins at byte {at:,}", position, len(numbers)
            _, _, flags, granule, stream, number, check, _ = _HEADER.unpack(head)
            if _checksum(head[:22] + bytes(4) + head[26:] + lacing + body) != check:
                return f"damaged: the page at byte {at:,} is not what was written", position, len(numbers)
            if flags & _FIRST and in_data:
                return f"chained: another recording begins at byte {at:,}, which is not read", position, len(numbers)
            if not flags & _FIRST and number != numbers.get(stream, number - 1) + 1:
                return f"damaged: pages are missing before byte {at:,}", position, len(numbers)
            in_data |= not flags & _FIRST and granule > 0
            numbers[stream] = number
            position = max(position, granule)
            ended = bool(flags & _LAST)
    return None if ended else "truncated: its last page is missing", position, len(numbers)


def _checksum(page: bytes) -> int:
    """The CRC of a page: zlib's polynomial, from the highest bit on, and without inverting anything."""
    mirrored = zlib.crc32(page.translate(_MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{mirrored:032b}"[::-1], 2)
