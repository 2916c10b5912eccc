"""Read the texts of clips in tars as WebDataset keeps them; their audio is skipped.

A member ``KEY.txt`` has the text of the clip KEY, or ``KEY.json`` has it in a field.
"""

import json
import re
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, cast

from nbaudio.core.errors import InputError, one_line
from nbaudio.core.input_guards import MAX_TEXT_BYTES
from nbaudio.formats.source_columns import choose
from nbaudio.formats.transcripts import decode_text
from nbaudio.storage.archives import BROKEN
from nbaudio.storage.location import Location
from nbaudio.storage.range_file import RangeFile

TAR = ".tar"
_PLAIN = ("txt", "text", "transcript")
# The key of a clip ends at the first dot of the name.
_MEMBER = re.compile(r"((?:.*/)?[^./]+)\.([^/]+)")
_BLOCK_BYTES = 1 << 15  # of a remote tar, read at once; most are skipped


def texts_of_tar(place: Location) -> list[str]:
    """Return the texts of the clips of a tar, in order; a clip without a text has none.

    Of a remote tar, ranges are read. Raise InputError if it cannot be read.
    """
    texts: dict[str, str] = {}
    try:
        with ExitStack() as stack:
            for key, text in _members(stack.enter_context(_opened(place, stack))):
                texts.setdefault(key, text)
    except BROKEN as error:
        raise InputError(f"{place}: cannot be read as a tar ({one_line(error)})") from error
    return list(texts.values())


def _members(tar: tarfile.TarFile) -> Iterator[tuple[str, str]]:
    """Yield the key of a clip and a text, for each member that has one."""
    for member in tar:
        match = _MEMBER.fullmatch(member.name)
        text = _text_of(tar, member, match[2].lower()) if match else None
        if match and text is not None:
            yield match[1], text


def _opened(place: Location, stack: ExitStack) -> tarfile.TarFile:
    """Open a tar at a place."""
    file: Any
    if place.local is not None:
        file = stack.enter_context(place.local.open("rb"))
    else:
        file = RangeFile(place.read, lambda: None, place.status().num_bytes, _BLOCK_BYTES)
    return tarfile.open(fileobj=cast(IO[bytes], file), mode="r:", encoding="utf8")


def _text_of(tar: tarfile.TarFile, member: tarfile.TarInfo, ending: str) -> str | None:
    """Return the text of a member; None if it has none."""
    if not member.isfile() or ending not in (*_PLAIN, "json") or member.size > MAX_TEXT_BYTES:
        return None
    file = tar.extractfile(member)
    try:
        text = decode_text(file.read() if file else b"")
        return text.strip() if ending in _PLAIN else _text_in(json.loads(text))
    except (ValueError, RecursionError):  # neither text nor JSON
        return None


def _text_in(value: Any) -> str | None:
    """Return the text in a JSON object that has a field with a usual name."""
    if not isinstance(value, dict):
        return None
    names = [name for name in value if isinstance(value[name], str)]
    columns, _ = choose(Path(), names, {"text": None})
    return str(value[columns["text"]]) if "text" in columns else None
