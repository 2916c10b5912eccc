"""File names are UTF-8 in every locale: restart the command line in UTF-8 mode, raise in other programs."""

import sys

from nbaudio.core.errors import InputError

REMEDY = "start Python with -X utf8, or with PYTHONUTF8=1 in the environment"


def is_utf8() -> bool:
    """Whether this process reads and writes names of files as UTF-8; the locale decides that when Python starts."""
    return sys.getfilesystemencoding().replace("-", "") == "utf8"


def check_utf8(name: str) -> None:
    """Let a name from the disk pass, unless it is another one than it seems since the locale is not UTF-8.

    Raises:
        InputError: it is not ASCII, and names of files are read in another encoding; says how to change that.

    Examples:
        >>> check_utf8("sjednica č.wav")
    """
    if not is_utf8() and not name.isascii():
        raise InputError(f"{name!a}: names of files are read as {sys.getfilesystemencoding()} here, not as UTF-8; {REMEDY}")
