"""A file that is read in short windows; what lies between them is skipped."""

from collections import deque

from nbaudio.storage.range_file import SeekableFile
from nbaudio.tables.parquet_ranges import ReadRange

_FIRST_WINDOW_BYTES = 2 << 10
_MOST_AHEAD_BYTES = 1 << 16
# A shorter gap is read, too: it takes less time than a further request.
_GAP_BYTES = 16 << 10
# After a shorter gap, a block goes on: members of tars are padded to multiples of it.
_PADDING_BYTES = 512
_FIRST_AHEAD_BYTES = 1 << 10
_MOST_DOUBLINGS = 8
_BLOCKS = 8


class SkippingFile(SeekableFile):
    """A file of blocks that are read, with gaps between them that are skipped.

    In a tar, a block is the headers and texts between the audio of two clips. A block takes one
    request, of as many bytes as the longest of the last blocks had. After short gaps, windows grow,
    so that a request has many blocks.
    """

    def __init__(self, read: ReadRange, size: int, start: int) -> None:
        """Take the function that reads a range of a file of `size` bytes; start at a position."""
        super().__init__(size)
        self._position = start
        self._read = read
        self._window_start = start
        self._window = b""
        self._block_start = start
        # The end of the block as far as it was read, and of what was read after short gaps.
        self._block_stop = start
        self._last_stop = start
        self._num_extended = 0
        self._block_lengths = deque[int](maxlen=_BLOCKS)

    def readinto(self, buffer: memoryview | bytearray, /) -> int:  # type: ignore[override]
        """Read into a buffer, and return the number of bytes."""
        stop = min(self._size, self._position + len(buffer))
        if stop <= self._position:
            return 0
        is_inside = self._window_start <= self._position
        if not is_inside or stop > self._window_start + len(self._window):
            self._fetch(stop)
        first = self._position - self._window_start
        content = self._window[first : stop - self._window_start]
        buffer[: len(content)] = content
        if 0 <= self._position - self._block_stop < _PADDING_BYTES:
            self._block_stop = stop
        self._last_stop = stop
        self._position = stop
        return len(content)

    def _fetch(self, stop: int) -> None:
        """Read a window from the position on, at least up to `stop`."""
        if 0 <= self._position - self._last_stop <= _GAP_BYTES and self._window:
            self._num_extended += 1
            ahead = _FIRST_AHEAD_BYTES << min(self._num_extended, _MOST_DOUBLINGS)
        else:
            ahead = self._start_block()
        self._window_start = self._position
        self._window = self._read(
            self._position, min(self._size, max(stop, self._position + ahead))
        )

    def _start_block(self) -> int:
        """Begin a block at the position, and return the bytes that it may have."""
        if self._block_stop > self._block_start:
            self._block_lengths.append(self._block_stop - self._block_start)
        self._num_extended = 0
        self._block_start = self._position
        self._block_stop = self._position
        lengths = self._block_lengths or [_FIRST_WINDOW_BYTES]
        return min(max(lengths), _MOST_AHEAD_BYTES)
