"""How much of what comes from outside is taken into memory; beyond it is a bomb or a mistake, and refused in one line.

Conventions: packed files may grow by as much as real data does and no more, so that a small file never becomes a large one. What
is checked is what the decoders go by, before they do.
"""

import errno
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import AnyStr, Protocol, TypeVar

from nbaudio.core.errors import InputError

_Line_co = TypeVar("_Line_co", bytes, str, covariant=True)

#: Of a text file that is read whole, and of one line: a day of speech has a megabyte of words, and five of times of words.
MAX_TEXT_BYTES = 64 << 20
#: Of a file of ours, such as corpus.json: one that names 300,000 recordings and as many shards has 200 MB.
MOST_JSON_BYTES = 512 << 20
#: Anything may grow to so many bytes ...
FREE_BYTES = 64 << 20
#: ... and beyond, to so many times what it is packed: transcripts grow to 10 times, cells of a workbook to 30, zeros to 1,000.
MOST_TIMES = 100
#: Cells that a sheet may span whatever is in them; a larger one is to hold a cell for every fourth.
_FREE_CELLS = 1 << 20
_CELLS_A_CELL = 4

#: Of a workbook as it lies on the disk: 2 million cells of text take 100 MB.
MOST_WORKBOOK_BYTES = 256 << 20

_OTHER_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_READ_BYTES = 1 << 20
# What openpyxl goes through cell by cell: r="7", r="B7", ref="A1:B7". Filters and dimensions may span all that there could be.
_REFERENCE = re.compile(
    rb'<(?:\w+:)?(?:c|row|mergeCell|hyperlink|table)\s(?:[^<>]*?\s)?(?:r|ref)="(?:[A-Z0-9$]+:)?\$?([A-Z]{0,3})\$?([0-9]{1,12})"'
)
_LONGEST_ELEMENT = 4096

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str | int) -> int:
    """Bytes of a size such as ``"500MB"``, ``"1.5 TB"`` or ``"2GiB"``; a whole number is bytes already.

    Raises:
        InputError: it is no size, or less than one byte.

    Examples:
        >>> parse_size("500MB"), parse_size("1.5 GiB"), parse_size(42)
        (500000000, 1610612736, 42)
    """
    allowed = "a size is a number and a unit, such as 500MB, 1.5TB or 2GiB"
    if isinstance(text, int) and not isinstance(text, bool):
        size = text
    else:
        found = _SIZE.fullmatch(text) if isinstance(text, str) else None
        if not found or (found[3] and not found[2]):
            raise InputError(f"{text!r} is not a size; {allowed}")
        base = 1024 if found[3] else 1000
        size = int(Decimal(found[1]) * base ** _POWERS[found[2].lower()])
    if size < 1:
        raise InputError(f"{text!r} is less than one byte; {allowed}")
    return size


def check_regular(path: Path) -> os.stat_result:
    """Let a regular file pass, or a link to one; reading anything else may block forever or never end.

    Returns:
        Its status.

    Raises:
        InputError: it is a folder, pipe, socket or device, or its links form a loop; says which.
        OSError: there is no such file, or it cannot be reached.

    Examples:
        >>> check_regular(Path("/dev/zero"))
        Traceback (most recent call last):
        nbaudio.core.errors.InputError: /dev/zero: a device, not a regular file
    """
    try:
        status = path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"{path}: a loop of symbolic links") from error
        raise
    if not stat.S_ISREG(status.st_mode):
        kind = _OTHER_KINDS.get(stat.S_IFMT(status.st_mode), "a special file")
        raise InputError(f"{path}: {kind}, not a regular file")
    return status


def read_all(path: Path, *, most: int = MAX_TEXT_BYTES) -> bytes:
    """All bytes of a file.

    Raises:
        InputError: there are more than `most`, or it is no regular file.
        OSError: it cannot be read.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a"
        >>> path.write_bytes(b"dobar dan")
        9
        >>> read_all(path)
        b'dobar dan'
    """
    check_regular(path)
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise InputError(f"{path}: larger than {most >> 20} MB, which is not read")
    return data


class _Lines(Protocol[_Line_co]):
    def readline(self, size: int, /) -> _Line_co: ...


def lines(file: _Lines[AnyStr], path: Path) -> Iterator[AnyStr]:
    r"""The lines of an open file, each with its end.

    Raises:
        InputError: one is longer than `MAX_TEXT_BYTES`; names the file.

    Examples:
        >>> import io
        >>> list(lines(io.BytesIO(b"a\nb"), Path("a")))
        [b'a\n', b'b']
    """
    while line := file.readline(MAX_TEXT_BYTES + 1):
        check_line(line, path)
        yield line


def check_line(line: bytes | str, path: Path) -> None:
    """Let a line pass of which no more than one byte or character beyond `MAX_TEXT_BYTES` was read.

    Raises:
        InputError: it is longer.
    """
    if len(line) > MAX_TEXT_BYTES:
        raise InputError(f"{path}: a line is longer than {MAX_TEXT_BYTES >> 20} MB, which is not read")


def check_expansion(what: object, packed: int, unpacked: int) -> None:
    """Let something grow as far as real data do.

    Args:
        what: its path, for the message.
        packed: bytes that it has.
        unpacked: bytes that come out of it.

    Raises:
        InputError: it grows beyond.

    Examples:
        >>> check_expansion("a.gz", 1_000, 50_000_000)
        >>> check_expansion("a.gz", 1_000, 70_000_000)
        Traceback (most recent call last):
        nbaudio.core.errors.InputError: a.gz: 1,000 bytes that grow to more than 64 MB, a bomb; at most 100 times is unpacked
    """
    most = max(FREE_BYTES, MOST_TIMES * packed)
    if unpacked > most:
        raise InputError(
            f"{what}: {packed:,} bytes that grow to more than {most >> 20:,} MB, a bomb; at most {MOST_TIMES} times is unpacked"
        )


def check_workbook(path: Path) -> None:
    """Let a workbook pass that neither grows beyond measure nor spans cells that are not there; who reads it sees other damage.

    Raises:
        InputError: it is a bomb, larger than `MOST_WORKBOOK_BYTES`, or no regular file.
        OSError: it cannot be read.
    """
    size = check_regular(path).st_size
    if size > MOST_WORKBOOK_BYTES:
        raise InputError(f"{path}: {size:,} bytes; a workbook of at most {MOST_WORKBOOK_BYTES >> 20} MB is read")
    try:
        with zipfile.ZipFile(path) as book:
            members = book.infolist()
            # A member ends where its entry says, whatever follows.
            check_expansion(path, size, sum(member.file_size for member in members))
            spans, cells = zip(*(_span(book, member) for member in members if _is_sheet(member)), (0, 0), strict=True)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError, zlib.error):
        return
    if max(spans) > max(_FREE_CELLS, _CELLS_A_CELL * sum(cells)):
        raise InputError(f"{path}: a sheet spans {max(spans):,} cells, all of them hold {sum(cells):,}: a bomb, not read")


def _is_sheet(member: zipfile.ZipInfo) -> bool:
    return member.filename.startswith(("xl/worksheets/", "xl/tables/"))


def _span(book: zipfile.ZipFile, member: zipfile.ZipInfo) -> tuple[int, int]:
    """How many cells a sheet or table spans, and how many it holds."""
    rows = columns = last = found = 0
    with book.open(member) as file:
        rest = b""
        while data := file.read(_READ_BYTES):
            data = rest + data
            end = 0
            for cell in _REFERENCE.finditer(data):
                end = cell.end()
                if not cell[1]:  # a row: programs may note the last one that there could be
                    last = max(last, int(cell[2]))
                    continue
                rows, columns = max(rows, int(cell[2])), max(columns, _number(cell[1]))
                found += 1
            rest = data[max(end, len(data) - _LONGEST_ELEMENT) :]
    return max(rows * columns, last), found


def _number(column: bytes) -> int:
    """A column by its letters: A is 1, Z is 26, AA is 27."""
    number = 0
    for letter in column:
        number = 26 * number + letter - ord("A") + 1
    return number
