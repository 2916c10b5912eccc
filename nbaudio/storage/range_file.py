"""A file that reads the ranges it is asked for, for decoders that seek."""

import io
from collections import OrderedDict
from collections.abc import Callable

from nbaudio.core.errors import AudioError

_BLOCK_BYTES = 1 << 18
_BLOCKS = 16


class RangeFile(io.RawIOBase):
    r"""Bytes by ranges, in blocks of which the last few are kept.

    Decoders call it from C, where an exception is lost: what fails reads as the end of the file, and `settle` raises it.

    Args:
        read: gives the bytes [start, stop), all of them, or raises AudioError.
        check: raises AudioError when the file is no longer the one that was opened.
        size: of the file.

    Examples:
        >>> file = RangeFile(lambda start, stop: bytes(range(start, stop)), lambda: None, 10)
        >>> file.seek(7), file.read(5)
        (7, b'\x07\x08\t')
    """

    def __init__(self, read: Callable[[int, int], bytes], check: Callable[[], None], size: int) -> None:
        super().__init__()
        self._read, self._check, self._size, self._position = read, check, size, 0
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._trouble: AudioError | None = None
        self._unchecked = False

    def settle(self) -> None:
        """Make sure that all that was read until now came, and came from the same file.

        Raises:
            AudioError: it did not.
        """
        if self._trouble is not None:
            raise self._trouble
        if self._unchecked:
            self._check()
            self._unchecked = False

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next byte is read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go somewhere."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        """Fill the buffer as far as the file goes."""
        wanted = min(len(buffer), max(0, self._size - self._position))
        done = 0
        while done < wanted:
            number, offset = divmod(self._position, _BLOCK_BYTES)
            block = self._block(number)[offset : offset + wanted - done]
            if not block:
                break
            buffer[done : done + len(block)] = block
            done += len(block)
            self._position += len(block)
        return done

    def _block(self, number: int) -> bytes:
        if number in self._blocks:
            self._blocks.move_to_end(number)
            return self._blocks[number]
        try:
            start = number * _BLOCK_BYTES
            block = self._read(start, min(start + _BLOCK_BYTES, self._size))
        except AudioError as error:
            self._trouble = error
            return b""
        self._unchecked = True
        self._blocks[number] = block
        if len(self._blocks) > _BLOCKS:
            self._blocks.popitem(last=False)
        return block
