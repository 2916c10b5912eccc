"""Compare the header of a FLAC with its first frame (RFC 9639)."""

import os
from typing import BinaryIO

_MAGIC = b"fLaC"
_LAST_BLOCK = 0x80  # flag in the type of a block of metadata
_MOST_BLOCKS = 1000
# Begins each frame of a file in which all frames have the same number of samples.
_SYNC = b"\xff\xf8"
_FRAME_BYTES = 7
# Samples per channel by the code of four bits in the header of a frame (section 9.1.1)
_SIZES = {
    1: 192,
    **{code: 144 << code for code in range(2, 6)},
    **{code: 1 << code for code in range(8, 16)},
}
_SIZE_OF_ONE_BYTE = 6
_SIZE_OF_TWO_BYTES = 7


def has_right_block_size(file: BinaryIO) -> bool:
    """Return whether the largest block size in the header of a FLAC is that of its first frame.

    Seeks depend on it. It is true where nothing can be compared: if frames vary in size, or the
    first frame is damaged or the only one.
    """
    header = os.pread(file.fileno(), 26, 0)
    if len(header) < 26 or not header.startswith(_MAGIC):
        return True
    largest = int.from_bytes(header[10:12], "big")
    num_samples = int.from_bytes(header[21:26], "big") & 0xFFFFFFFFF
    size = _first_frame_size(file)
    return size is None or size == largest or size >= num_samples > 0


def _first_frame_size(file: BinaryIO) -> int | None:
    """Return the samples per channel in the first frame; None where it has no fixed size."""
    position = len(_MAGIC)
    for _ in range(_MOST_BLOCKS):
        block = os.pread(file.fileno(), 4, position)
        if len(block) < 4:
            return None
        position += 4 + int.from_bytes(block[1:], "big")
        if block[0] & _LAST_BLOCK:
            return _frame_size(os.pread(file.fileno(), _FRAME_BYTES, position))
    return None


def _frame_size(frame: bytes) -> int | None:
    """Return the samples per channel in a frame with the number 0; None where it is damaged."""
    if len(frame) < _FRAME_BYTES or not frame.startswith(_SYNC) or frame[4]:
        return None
    code = frame[2] >> 4
    if code == _SIZE_OF_ONE_BYTE:
        return frame[5] + 1
    if code == _SIZE_OF_TWO_BYTES:
        return int.from_bytes(frame[5:7], "big") + 1
    return _SIZES.get(code)
