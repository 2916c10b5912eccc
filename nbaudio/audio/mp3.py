"""What an MP3's first frame says about the length of the file: the tag that Xing and LAME write in place of its samples."""

import os

_SEARCHED = 16384
# Flags of the tag: which numbers it holds.
_FRAMES_AND_BYTES = 3


def length_is_known(descriptor: int) -> bool:
    """Whether a tag says how many frames an open MP3 has, and nothing was added since, as by joining two files.

    Without, libmpg123 guesses the length from the first frame, which is far off at a variable rate. The place in the file, which
    libmpg123 counts on, stays.
    """
    start = _after_id3(os.pread(descriptor, 10, 0))
    data = os.pread(descriptor, _SEARCHED, start)
    at = next((i for i in range(len(data) - 3) if _is_header(data[i : i + 4])), None)
    if at is None:
        return False
    first = data[at : at + 64]
    tag = max(first.find(b"Xing"), first.find(b"Info"))
    if tag < 0 or int.from_bytes(first[tag + 4 : tag + 8], "big") & _FRAMES_AND_BYTES != _FRAMES_AND_BYTES:
        return False
    tagged_bytes = int.from_bytes(first[tag + 12 : tag + 16], "big")
    # ID3v1 and APE tags at the end are no sound, and small.
    return os.fstat(descriptor).st_size - start - at <= 1.02 * tagged_bytes + 8192


def _after_id3(head: bytes) -> int:
    """Where an ID3v2 tag ends."""
    if not head.startswith(b"ID3") or len(head) < 10:
        return 0
    size = 0
    for byte in head[6:10]:
        size = size << 7 | byte & 0x7F
    return 10 + size + (10 if head[5] & 0x10 else 0)


def _is_header(word: bytes) -> bool:
    """A frame header of layer III whose fields are all in use."""
    version, layer = word[1] >> 3 & 3, word[1] >> 1 & 3
    rate, bits = word[2] >> 2 & 3, word[2] >> 4
    return word[0] == 0xFF and word[1] >= 0xE0 and version != 1 and layer == 1 and rate != 3 and 0 < bits < 15
