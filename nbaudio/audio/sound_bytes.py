"""Find the bytes of the sound in WAV, RF64, Wave64, AIFF, AU and CAF, whatever their header says.

Programs that write to a pipe, and recorders that lost power, leave a length of 0 or a placeholder;
lengths of 32 bits wrap at 4 GiB; and some recorders go on after the last update of the header.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from io import RawIOBase, UnsupportedOperation
from typing import Any, BinaryIO

_WRAP = 1 << 32  # lengths of 32 bits are modulo this
# Placeholders that programs write as the length of a pipe: 0x7FFFF000 (SoX), 0x80000000 (arecord),
# 0xFFFFFFFF (FFmpeg), and what is left of them without the header.
_PLACEHOLDERS = (range(0x7FFFF000, 0x80000001), range(0xFFFFF000, 0x100000000))
_LONGEST = 1 << 62
# Marks for an unknown length that formats define
_OPEN_AU = 0xFFFFFFFF
_OPEN_CAF = -1
_BLOCK_BYTES = 1 << 20
_MOST_BLOCKS = 64
_MOST_CHUNKS = 10_000
_TAGS = (b"TAG", b"ID3", b"APETAGEX", b"LYRICSBEGIN")
# Chunks that are known to stand behind the sound; others count if they end where the file does.
_KNOWN_CHUNKS = {
    *(b"LIST", b"list", b"id3 ", b"ID3 ", b"bext", b"iXML", b"cue ", b"smpl", b"fact", b"PEAK"),
    *(b"PAD ", b"JUNK", b"junk", b"FLLR", b"levl", b"minf", b"elm1", b"regn", b"umid", b"DGDA"),
    *(b"afsp", b"_PMX", b"axml", b"chna", b"acid", b"inst", b"MARK", b"COMT", b"NAME", b"AUTH"),
    *(b"(c) ", b"ANNO", b"APPL", b"INST", b"MIDI", b"AESD", b"info", b"free", b"uuid", b"strg"),
}
# Last bytes of the names of chunks in Wave64.
_GUID_TAIL = bytes.fromhex("f3acd3118cd100c04f8edb8a")


@dataclass(frozen=True)
class SoundBytes:
    """Where the sound of a file is, in bytes.

    Attributes:
        start: of the first sample in the file.
        declared: length in the header; None where that says that it is unknown.
        available: length up to the next chunk, tag or padding, or to the end of the file.
        has_wrapped: whether the declared length is the available one modulo 4 GiB.
        is_open: whether the format has the mark for an unknown length that the header has.
    """

    start: int
    declared: int | None
    available: int
    has_wrapped: bool = False
    is_open: bool = False

    @property
    def behind(self) -> int:
        """Bytes behind the declared end that are neither chunks nor tags nor zeros."""
        if self.declared is None or self.has_wrapped:
            return 0
        return max(0, self.available - self.declared)


@dataclass(frozen=True)
class _Layout:
    """How chunks are written: the header of each, the alignment, and whether sizes count it."""

    header: struct.Struct  # name and size
    alignment: int
    counts_header: bool = False

    def content(self, size: int) -> int:
        """Return the bytes of a chunk's content."""
        if self.counts_header:
            return size - self.header.size
        return size

    def after(self, position: int, size: int) -> int:
        """Return where the next chunk begins."""
        end = position + self.header.size + self.content(size)
        return -(-end // self.alignment) * self.alignment


_RIFF = _Layout(struct.Struct("<4sI"), 2)
_BIG_RIFF = _Layout(struct.Struct(">4sI"), 2)  # RIFX and AIFF
_WAVE64 = _Layout(struct.Struct("<16sQ"), 8, counts_header=True)
_CAF = _Layout(struct.Struct(">4sq"), 1)

# Names of files that have the kind of their content at byte 8
_FORMS = (b"RIFF", b"RIFX", b"RF64", b"BW64", b"FORM")
_NEXT_FILES = (*_FORMS, b"riff", b"caff")
# By the names of a file and its content: how chunks are written, where the first one is, and the
# name of the one with the sound
_CHUNKED = {
    b"RIFFWAVE": (_RIFF, 12, b"data"),
    b"RIFXWAVE": (_BIG_RIFF, 12, b"data"),
    b"RF64WAVE": (_RIFF, 12, b"data"),
    b"BW64WAVE": (_RIFF, 12, b"data"),
    b"FORMAIFF": (_BIG_RIFF, 12, b"SSND"),
    b"FORMAIFC": (_BIG_RIFF, 12, b"SSND"),
    b"riff": (_WAVE64, 40, b"data" + _GUID_TAIL),
    b"caff": (_CAF, 8, b"data"),
}
_AU_ORDERS = {b".snd": ">", b"dns.": "<"}


class FileSlice(RawIOBase):
    """A range of bytes of an open file, as a file."""

    def __init__(self, file: BinaryIO, start: int, stop: int) -> None:
        """Take a file, which stays open."""
        self._descriptor = file.fileno()
        self._start = start
        self._length = stop - start
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to an offset, and return the new position."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._length}
        if whence not in base:
            raise UnsupportedOperation(f"whence {whence}")
        self._position = max(0, base[whence] + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, and return the number of bytes."""
        view = memoryview(buffer).cast("B")
        wanted = max(0, min(len(view), self._length - self._position))
        content = os.pread(self._descriptor, wanted, self._start + self._position)
        view[: len(content)] = content
        self._position += len(content)
        return len(content)


def find_sound_bytes(file: BinaryIO) -> SoundBytes | None:
    """Return where the sound of an open file is; None for other formats and damaged headers."""
    head = os.pread(file.fileno(), 12, 0)
    name = head[:4]
    if name in _FORMS:
        name += head[8:]
    if name in _AU_ORDERS and len(head) == 12:
        start, declared = struct.unpack_from(f"{_AU_ORDERS[name]}II", head, 4)
        return _extent(file, None, start, declared)
    if name not in _CHUNKED:
        return None
    layout, first, chunk = _CHUNKED[name]
    return _in_chunks(file, layout, first, chunk, length=_length_of_ds64(file))


def _length_of_ds64(file: BinaryIO) -> int | None:
    """Return the length of the sound in the chunk ``ds64`` of RF64 and BW64; None without one."""
    head = os.pread(file.fileno(), 36, 0)
    if len(head) < 36 or head[12:16] != b"ds64":
        return None
    return int(struct.unpack_from("<Q", head, 28)[0])


def _in_chunks(
    file: BinaryIO, layout: _Layout, first: int, name: bytes, *, length: int | None = None
) -> SoundBytes | None:
    """Return where the sound is that a chunk of a name has.

    `length` is that of the chunk where its header does not have it.
    """
    for position, chunk_name, size in _chunks(file, layout, first):
        if chunk_name == name:
            start = position + layout.header.size
            declared = layout.content(size) if length is None else length
            before = _bytes_before(file, start, name, layout)
            if declared >= before:
                declared -= before
            return _extent(file, layout, start + before, declared)
    return None


def _bytes_before(file: BinaryIO, start: int, name: bytes, layout: _Layout) -> int:
    """Return the bytes of a chunk before its sound."""
    if name == b"SSND":  # offset and block size
        head = os.pread(file.fileno(), 8, start)
        if len(head) < 8:
            return 8
        return 8 + int(struct.unpack(">I", head[:4])[0])
    if layout is _CAF:
        return 4  # the count of edits
    return 0


def _chunks(file: BinaryIO, layout: _Layout, position: int) -> Iterator[tuple[int, bytes, int]]:
    """Yield the position, name and size of each chunk."""
    for _ in range(_MOST_CHUNKS):
        head = os.pread(file.fileno(), layout.header.size, position)
        if len(head) < layout.header.size:
            return
        name, size = layout.header.unpack(head)
        yield position, name, size
        after = layout.after(position, size)
        if not position < after < _LONGEST:
            return
        position = after


def _extent(file: BinaryIO, layout: _Layout | None, start: int, declared: int) -> SoundBytes:
    """Return where the sound is, given where it starts and the length in the header."""
    size = os.fstat(file.fileno()).st_size
    rest = max(0, size - start)
    if declared == 0 and _is_trailer(file, layout, start, size):
        return SoundBytes(start, 0, 0)
    if declared <= 0 or (declared >= rest and _is_placeholder(declared)):
        of_open_file = _OPEN_AU if layout is None else _OPEN_CAF
        return SoundBytes(start, None, rest, is_open=declared == of_open_file)
    if declared >= rest or _is_trailer(file, layout, start + declared, size):
        return SoundBytes(start, declared, min(declared, rest))
    if _is_placeholder(declared):
        return SoundBytes(start, None, rest)
    if layout not in (_WAVE64, _CAF):
        for length in range(declared + _WRAP, rest + 1, _WRAP):
            if _is_trailer(file, layout, start + length, size):
                return SoundBytes(start, declared, length, has_wrapped=True)
    return SoundBytes(start, declared, rest)


def _is_placeholder(declared: int) -> bool:
    """Return whether a length is one that programs write where they do not know it."""
    return declared > _LONGEST or any(declared in lengths for lengths in _PLACEHOLDERS)


def _is_trailer(file: BinaryIO, layout: _Layout | None, position: int, size: int) -> bool:
    """Return whether all from a position on is chunks, a tag or zeros."""
    if layout is not None:
        position = -(-position // layout.alignment) * layout.alignment
    if size - position < 8 or os.pread(file.fileno(), 11, position).startswith(_TAGS):
        return True
    if layout is not None and _are_chunks(file, layout, position, size):
        return True
    return _are_zeros(file, position, size)


def _are_chunks(file: BinaryIO, layout: _Layout, position: int, size: int) -> bool:
    """Return whether chunks with plausible names follow each other up to the end of the file."""
    for start, name, length in _chunks(file, layout, position):
        if name[:4] in _NEXT_FILES:
            return False  # another recording, as where files were joined
        if not all(0x20 <= letter < 0x7F for letter in name[:4]):
            return start > position and _is_trailer(file, None, start, size)
        if layout.after(start, length) >= size:
            # The padding behind the last chunk may be missing.
            is_whole = layout.after(start, length) <= size + layout.alignment
            return is_whole or name[:4] in _KNOWN_CHUNKS
    return True


def _are_zeros(file: BinaryIO, position: int, size: int) -> bool:
    """Return whether the bytes from a position on are zeros, in blocks from the first to the last.

    Of many gigabytes, only some blocks are read.
    """
    last = max(position, size - _BLOCK_BYTES)
    step = max(_BLOCK_BYTES, (last - position) // _MOST_BLOCKS)
    starts = [*range(position, last, step), last]
    blocks = (os.pread(file.fileno(), _BLOCK_BYTES, start) for start in starts)
    return not any(block.strip(b"\0") for block in blocks)
