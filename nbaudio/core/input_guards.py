"""Limits on what is read into memory, checked before decoders run.

Packed files may expand as far as real data does.
"""

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import IO, AnyStr

from nbaudio.core.errors import InputError

#: Limit of a text file that is read at once, and of one line: a day of speech has 1 MB of words
#: and 5 MB of word times.
MAX_TEXT_BYTES = 64 << 20
#: Limit of a file written by nbaudio, such as corpus.json: one with 300,000 recordings and as many
#: shards has 200 MB.
MOST_JSON_BYTES = 512 << 20
#: Any packed file may expand to so many bytes ...
FREE_BYTES = 64 << 20
#: ... and to so many times its size: transcripts expand 10 times, cells of a workbook 30 times,
#: zeros 1,000 times.
MOST_TIMES = 100

_OTHER_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
_OTHER_KINDS |= dict.fromkeys((stat.S_IFCHR, stat.S_IFBLK), "a device")
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}

UTF8_REMEDY = "start Python with -X utf8, or with PYTHONUTF8=1 in the environment"
NOT_UNICODE = "its name is not Unicode; rename it"


def is_utf8() -> bool:
    """Return whether this process encodes file names as UTF-8.

    The locale decides that when Python starts.
    """
    return sys.getfilesystemencoding().replace("-", "") == "utf8"


def escape_surrogates(name: str) -> str:
    """Escape undecodable bytes in a file name.

    Raise InputError for a name that is not ASCII where names are not read as UTF-8.
    """
    if not is_utf8() and not name.isascii():
        raise InputError(
            f"{name!a}: names of files are read as {sys.getfilesystemencoding()} here, "
            f"not as UTF-8; {UTF8_REMEDY}"
        )
    return name.encode("utf8", "surrogateescape").decode("utf8", "backslashreplace")


def parse_size(text: str | int) -> int:
    """Return the bytes of a size such as ``"500MB"``, ``"1.5 TB"``, ``"2GiB"`` or 42.

    Raise InputError for anything else.
    """
    allowed = "a size is a number and a unit, such as 500MB, 1.5TB or 2GiB"
    if isinstance(text, int) and not isinstance(text, bool):
        size = text
    else:
        match = _SIZE.fullmatch(text) if isinstance(text, str) else None
        if not match or (match[3] and not match[2]):
            raise InputError(f"{text!r} is not a size; {allowed}")
        base = 1024 if match[3] else 1000
        size = int(Decimal(match[1]) * base ** _POWERS[match[2].lower()])
    if size < 1:
        raise InputError(f"{text!r} is less than one byte; {allowed}")
    return size


def check_regular(path: str | Path) -> os.stat_result:
    """Return the status of a regular file or a link to one.

    Raise InputError otherwise, as reading may block or never end.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - of texts too, without a path
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(f"{path}: a loop of symbolic links") from error
        raise
    if not stat.S_ISREG(status.st_mode):
        kind = _OTHER_KINDS.get(stat.S_IFMT(status.st_mode), "a special file")
        raise InputError(f"{path}: {kind}, not a regular file")
    return status


def read_all(path: Path, *, most: int = MAX_TEXT_BYTES) -> bytes:
    """Read a regular file of at most `most` bytes; raise InputError for a larger one."""
    check_regular(path)
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise InputError(f"{path}: larger than {most >> 20} MB, which is not read")
    return content


def lines(file: IO[AnyStr], path: Path) -> Iterator[AnyStr]:
    """Yield the lines of an open file with their ends.

    Raise InputError for one longer than `MAX_TEXT_BYTES`.
    """
    while line := file.readline(MAX_TEXT_BYTES + 1):
        check_line(line, path)
        yield line


def check_line(line: bytes | str, path: Path) -> None:
    """Raise InputError for a line longer than `MAX_TEXT_BYTES`.

    Of a longer line, one byte or character more than the limit was read.
    """
    if len(line) > MAX_TEXT_BYTES:
        raise InputError(
            f"{path}: a line is longer than {MAX_TEXT_BYTES >> 20} MB, which is not read"
        )


def check_expansion(what: object, packed: int, unpacked: int, *, free: int | None = None) -> None:
    """Raise InputError where `what` expands to more bytes than real data does.

    Its size is `packed` bytes before and `unpacked` bytes after. Anything may expand to `free`
    bytes, by default `FREE_BYTES`.
    """
    if free is None:
        free = FREE_BYTES
    most = max(free, MOST_TIMES * packed)
    if unpacked > most:
        raise InputError(
            f"{what}: {packed:,} bytes that grow to more than {most >> 20:,} MB, a bomb; "
            f"at most {MOST_TIMES} times is unpacked"
        )
