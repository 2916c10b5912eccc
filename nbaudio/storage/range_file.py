"""Status of a file, and range reads of one that is remote."""

import io
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from nbaudio.core.errors import AudioError

_BLOCK_BYTES = 1 << 18
# Most bytes of the cached blocks, of which there are at least two.
_CACHED_BYTES = 4 << 20

NO_LENGTH = (
    "the server does not announce its length, so that a broken connection would go unnoticed"
)


class SeekableFile(io.RawIOBase):
    """A file of a fixed size with a position; subclasses implement `readinto`."""

    def __init__(self, size: int) -> None:
        """Take the size in bytes."""
        super().__init__()
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset, and return the new position; nothing is read."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position


class RangeFile(SeekableFile):
    """A file over a function that returns the bytes [start, stop).

    Decoders in C lose the AudioError of that function, and an interrupt; `settle` raises them.
    """

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        check: Callable[[], None],
        size: int,
        block_bytes: int = _BLOCK_BYTES,
    ) -> None:
        """Take the functions `read` and `check` of a file of `size` bytes.

        `check` raises AudioError if the file has another version than before. Blocks of
        `block_bytes` are read and cached.
        """
        super().__init__(size)
        self._check = check
        self._block_bytes = block_bytes
        self._block = lru_cache(max(2, _CACHED_BYTES // block_bytes))(
            lambda number: read(number * block_bytes, min((number + 1) * block_bytes, size))
        )
        self._error: AudioError | KeyboardInterrupt | None = None
        self._num_checked = 0

    def settle(self) -> None:
        """Raise AudioError unless all reads so far succeeded, and read the same file.

        An interrupt of a read is raised here, too.
        """
        if self._error is not None:
            raise self._error
        if (num_read := self._block.cache_info().misses) != self._num_checked:
            self._check()
            self._num_checked = num_read

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        """Read into a buffer, and return the number of bytes; errors are kept for `settle`."""
        done = 0
        wanted = min(len(buffer), max(0, self._size - self._position))
        try:
            while done < wanted:
                number, offset = divmod(self._position, self._block_bytes)
                block = self._block(number)[offset : offset + wanted - done]
                if not block:
                    break
                buffer[done : done + len(block)] = block
                done += len(block)
                self._position += len(block)
        except (AudioError, KeyboardInterrupt) as error:
            self._error = error
        return done


class FileStatus(NamedTuple):
    """Size of a file, and its version.

    The version is the ETag or time of change on a server, or the nanoseconds of the last change on
    this machine.
    """

    num_bytes: int
    version: str | int | None
