"""Check whether an MP3 agrees with its Xing or LAME tag, frame by frame."""

import os
from functools import lru_cache, reduce
from typing import NamedTuple

_SEARCHED = 16384
_PIECE = 1 << 20
_FRAMES_AND_BYTES = 3  # flags of the tag: it holds the numbers of frames and bytes
# kbit/s of layer III by four bits, in MPEG 1 and in 2 and 2.5; Hz by two bits, in MPEG 2.5, 2 and 1
# (ISO 11172-3, 2.4.2.3).
_BIT_RATES = (
    (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
)
_RATES = {0: (11025, 12000, 8000), 2: (22050, 24000, 16000), 3: (44100, 48000, 32000)}


def is_consistent(descriptor: int) -> bool:
    """Return whether the tag of an open MP3 counts its frames, all of one kind, up to the end.

    Without such a tag libmpg123 guesses lengths.
    """
    status = os.fstat(descriptor)
    return _look_through(
        descriptor, status.st_size, (status.st_dev, status.st_ino, status.st_mtime_ns)
    )


def declared_samples(descriptor: int) -> int:
    """Return the samples that the tag of an open MP3 declares; 0 without a tag."""
    tag = _find_tag(descriptor)
    if tag is None:
        return 0
    is_mpeg_1 = tag.header[1] >> 3 & 3 == 3
    frame_samples = 1152 if is_mpeg_1 else 576
    return tag.frames * frame_samples


class _Tag(NamedTuple):
    at: int  # offset of the first frame
    header: bytes
    frames: int


def _find_tag(descriptor: int) -> _Tag | None:
    """Return the Xing or LAME tag of an open MP3.

    Return None if there is none, or if it lacks the number of frames or of bytes.
    """
    start = 0
    head = os.pread(descriptor, 10, 0)
    if head.startswith(b"ID3") and len(head) == 10:
        start = 10 + reduce(lambda size, byte: size << 7 | byte & 0x7F, head[6:], 0)
        if head[5] & 0x10:
            start += 10  # a footer
    piece = os.pread(descriptor, _SEARCHED, start)
    at = next((i for i in range(len(piece) - 3) if _frame_bytes(piece[i : i + 4])), None)
    if at is None:
        return None
    first = piece[at : at + 64]
    tag = max(first.find(b"Xing"), first.find(b"Info"))
    if (
        tag < 0
        or int.from_bytes(first[tag + 4 : tag + 8], "big") & _FRAMES_AND_BYTES != _FRAMES_AND_BYTES
    ):
        return None
    return _Tag(start + at, first[:4], int.from_bytes(first[tag + 8 : tag + 12], "big"))


@lru_cache(maxsize=1000)  # a recording is opened many times
def _look_through(descriptor: int, size: int, _identity: tuple[int, ...]) -> bool:
    """Return whether the tag is right; see `is_consistent`.

    `_identity` is the version of the file. It is only part of the key of the cache.
    """
    if not (tag := _find_tag(descriptor)):
        return False
    end, num_frames = _last_frame(descriptor, tag.at, size, kind=tag.header)
    # The tag may count its own frame. ID3v1, Lyrics3 and APE tags may follow the last frame.
    rest = os.pread(descriptor, 8, end)
    return num_frames - 1 <= tag.frames <= num_frames and (
        not rest.strip(b"\0") or rest.startswith((b"TAG", b"APETAGEX", b"LYRICS"))
    )


def _last_frame(descriptor: int, at: int, size: int, kind: bytes) -> tuple[int, int]:
    """Return the end of the run of frames of the first frame's kind, and their number."""
    # All frames must agree in version, layer, rate and mono or stereo.
    version_and_layer = kind[1] & 0xFE
    rate = kind[2] & 0x0C
    mono = kind[3] >> 6 == 3
    lengths = {
        bits: _frame_bytes(bytes((0xFF, kind[1], bits, kind[3])))
        for bits in range(256)
        if bits & 0x0C == rate
    }
    count = 0
    piece = b""
    begin = at
    while at + 4 <= size:
        if at + 4 > begin + len(piece):
            begin = at
            piece = os.pread(descriptor, _PIECE, at)
        header = at - begin
        length = 0
        if piece[header] == 0xFF and piece[header + 1] & 0xFE == version_and_layer:
            length = lengths.get(piece[header + 2], 0)
        if not length or at + length > size or (piece[header + 3] >> 6 == 3) != mono:
            break
        at += length
        count += 1
    return at, count


def _frame_bytes(header: bytes) -> int:
    """Return the bytes of a layer III frame by its header; 0 for an invalid header."""
    version = header[1] >> 3 & 3
    layer = header[1] >> 1 & 3
    bits = header[2] >> 4
    rate = header[2] >> 2 & 3
    if (
        header[0] != 0xFF
        or header[1] < 0xE0
        or version == 1
        or layer != 1
        or rate == 3
        or not 0 < bits < 15
    ):
        return 0
    frame_samples = 1152 if version == 3 else 576
    bits_per_second = 1000 * _BIT_RATES[version != 3][bits]
    padding = header[2] >> 1 & 1
    return frame_samples // 8 * bits_per_second // _RATES[version][rate] + padding
