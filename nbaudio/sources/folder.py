"""Read a folder of audio without transcripts.

Each file is a segment, or is divided into windows of one length.
"""

import re
from dataclasses import replace
from decimal import Decimal

from nbaudio.core.errors import InputError
from nbaudio.core.source_splits import split_of_folder
from nbaudio.formats.base import Problem, Transcripts, collect_rows
from nbaudio.formats.source_files import Layout, SourceFiles
from nbaudio.sources.recordings import list_audio
from nbaudio.storage.location import LocationLike, location

_SECONDS = re.compile(r"[0-9]{1,7}(\.[0-9]{1,6})?")  # the precision of segment times


def detect(files: SourceFiles) -> list[Layout]:
    """Return the folder of recordings that files are in."""
    recordings = files.audio()
    if not recordings or files.names == (recordings[0],):
        return []
    return [
        Layout(
            "folder",
            files.folder,
            f"{len(recordings):,} files are recordings, such as {recordings[0]}",
            frozenset(recordings),
        )
    ]


def read(source: LocationLike, *, window: str | None = None, partial: str = "keep") -> Transcripts:
    """Read all audio files below a folder or URL.

    `window` divides them into windows of so many seconds; `partial` says whether to keep or drop a
    shorter last one.
    """
    place = location(source)
    if place.local is not None and not place.is_folder():
        raise InputError(f"{source}: there is no such folder")
    if window is not None and (not _SECONDS.fullmatch(window) or not Decimal(window)):
        raise InputError(
            f"option window={window!r}: expected seconds above 0 with at most six "
            "decimals, such as 10 or 0.5"
        )
    if partial not in ("keep", "drop"):
        raise InputError(f"option partial={partial!r}: must be keep or drop")
    paths, rejected = list_audio(place)
    # Where there is any recording, ingest reports the rejected ones.
    problems = [Problem(name, None, reason) for name, reason in rejected]
    rows = ({"name": path, "source_split": split_of_folder(path)} for path in paths)
    found = collect_rows(
        source,
        rows if len(paths) else problems,
        further=("source_split",),
        expected="a folder with audio files",
    )
    windows = (Decimal(window), partial == "keep") if window is not None else None
    return replace(found, audio_root=place.local or str(place), windows=windows)
