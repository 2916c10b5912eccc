"""WebDataset shards: tar files with `<key>.<audio extension>` and `<key>.json` for every clip.

WebDataset and Hugging Face split names at the first dot and take a slash for a folder, so keys are percent-encoded; the plain
`segment_id` is in the JSON.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import polars as pl

from nbaudio.core.hashing import RESERVED_DEVICE_NAMES
from nbaudio.corpus.containers.base import ClipLocation, as_json
from nbaudio.corpus.containers.tar import write_tar


def escape_key(segment_id: str) -> str:
    """A key without dots, slashes, blanks or anything but ASCII letters, digits, ``-`` and ``_``; `unescape_key` undoes it.

    Examples:
        >>> escape_key("HlauTe_NK6U_3207.7-3227.54"), escape_key("CON")
        ('HlauTe_NK6U_3207%2E7-3227%2E54', '%43ON')
    """
    return escape_device(quote(segment_id, safe="").replace(".", "%2E").replace("~", "%7E"))


def escape_device(name: str) -> str:
    """A name that Windows would take for a device with its first letter escaped; others as they are."""
    return f"%{ord(name[0]):02X}{name[1:]}" if RESERVED_DEVICE_NAMES.fullmatch(name) else name


def unescape_key(key: str) -> str:
    """The segment id of an escaped key.

    Examples:
        >>> unescape_key("HlauTe_NK6U_3207%2E7-3227%2E54")
        'HlauTe_NK6U_3207.7-3227.54'
    """
    return unquote(key)


def write(path: Path, metadata: pl.DataFrame, audio: Iterable[bytes], *, extension: str, rate: int | None) -> list[ClipLocation]:
    """Write one tar; see `containers.WriteShard`."""
    del rate  # every clip's own header and metadata say it

    def members() -> Iterator[tuple[str, bytes]]:
        for row, clip in zip(metadata.iter_rows(named=True), audio, strict=True):
            key = escape_key(row["segment_id"])
            yield f"{key}.{extension}", clip
            yield f"{key}.json", as_json(row)

    return write_tar(path, members())[::2]
