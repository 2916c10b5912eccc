"""Read remote sources.

A file, or all files of a folder that are not recordings, are fetched into the workspace.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from nbaudio.audio import name_matching
from nbaudio.core import input_guards, progress, threads
from nbaudio.core.atomic import append_lines, atomic_write, raise_disk_full, read_log
from nbaudio.core.errors import AudioError, InputError
from nbaudio.formats.transcripts import PROBLEMS, Problem, Transcripts
from nbaudio.storage import urls
from nbaudio.storage.cache import Cache
from nbaudio.storage.location import LocalPath
from nbaudio.storage.remote import Remote, remote

# Readers of these formats read a remote folder themselves: it has very many files, or only
# recordings, and nothing is fetched in advance.
REMOTE_FORMATS = frozenset({"librispeech", "folder", "dataset"})
# Readers that read a remote file in ranges as well.
_RANGE_FORMATS = frozenset({"dataset"})
_FETCHED = ".fetched.jsonl"  # the log of the files of a folder, with the version of each
_JOBS = 8  # files that are fetched at once
_MOST_NAME_BYTES = 230  # file systems allow 255 bytes, and `.name.pid.partial` must fit


def resolve_source(source: str | Path, cache: Cache) -> LocalPath | Remote:
    """Return the absolute path or the URL of a source, without opening it."""
    if not urls.is_url(str(source)):
        path = Path(source).absolute()
        if not path.is_dir():
            with suppress(FileNotFoundError):  # the reader says what it expects
                input_guards.check_regular(path)
        return LocalPath(path)
    place = remote(str(source), cache)
    if place.is_scheme:
        raise InputError(f"{source}: names neither a file nor a folder")
    return place


def read_remote(
    format: str,
    read: Callable[[Any], Transcripts],
    place: Remote,
    *,
    folder: Path,
    begin: Callable[[], object],
) -> Transcripts:
    """Read a remote source, fetched into `folder`.

    Args:
        format: name of the format.
        read: its reader, which gets the fetched file or folder; for `REMOTE_FORMATS` the URL.
        place: the source.
        folder: where fetched files are written.
        begin: called once the source is known to exist, before anything is written.

    Returns:
        The transcripts; an audio folder that the reader found in `folder` is at its URL.

    Raises:
        InputError: the source cannot be read, or its files cannot be stored.
    """
    try:
        is_folder = place.is_folder()
        begin()
        if format in _RANGE_FORMATS or (is_folder and format in REMOTE_FORMATS):
            return read(place)
        if is_folder:
            transcripts = _read_folder(read, place, folder)
        else:
            _mirror(folder, {place.name: place})
            transcripts = read(folder / place.name)
    except AudioError as error:
        raise InputError(str(error)) from error
    except OSError as error:  # such as a file with the name of a folder, which URLs may have
        raise InputError(
            f"{place}: cannot be stored in {folder} ({error.strerror or error})"
        ) from error
    root = transcripts.audio_root
    if not isinstance(root, Path) or not root.is_relative_to(folder):
        return transcripts
    # Recordings were not fetched. They are beside the transcripts at the URL.
    audio_folder = place if is_folder else place.parent
    relative = root.relative_to(folder).as_posix()
    if relative != ".":
        audio_folder /= relative
    return replace(transcripts, audio_root=str(audio_folder))


def _read_folder(read: Callable[[Any], Transcripts], place: Remote, folder: Path) -> Transcripts:
    """Fetch the files of a remote folder, but for recordings, and read them.

    Files that cannot be listed or stored are problems. Raise InputError if the server does not list
    the folder.
    """
    listing = place.listing(lambda _: True)  # all names
    if listing is None:
        raise InputError(f"{place}: the server does not list this folder; name a file")
    all_names, rejected = listing
    too_long = {name for name in all_names if _has_long_part(name)}
    names = [name for name in all_names if name not in too_long]
    _mirror(folder, {name: place / name for name in names if not name_matching.is_audio(name)})
    # Readers look for the folders of the recordings, which are empty here.
    for parent in {str(PurePosixPath(name).parent) for name in names}:
        (folder / parent).mkdir(parents=True, exist_ok=True)
    transcripts = read(folder)
    not_fetched = [
        *rejected,
        *((name, "its name is too long for a file") for name in sorted(too_long)),
    ]
    # Recordings were not to be fetched; they are listed again as such, and have problems there.
    problems = [
        Problem(name, None, reason)
        for name, reason in not_fetched
        if not name_matching.is_audio(name)
    ]
    further = pl.DataFrame(problems, schema=PROBLEMS, orient="row")
    return replace(transcripts, problems=pl.concat([transcripts.problems, further]))


def _has_long_part(name: str) -> bool:
    """Return whether a part of a path is longer than the names of files may be."""
    return any(len(part.encode()) > _MOST_NAME_BYTES for part in name.split("/"))


def _mirror(folder: Path, places: Mapping[str, Remote]) -> None:
    """Make a folder hold exactly the current versions of files, by their names in it.

    Files that are there in their current version are not fetched again; other files are removed.
    """
    log = folder / _FETCHED
    # The last line about a file counts.
    fetched = {
        line.get("name"): (line.get("num_bytes"), line.get("version")) for line in read_log(log)
    }

    def fetch(name: str) -> None:
        """Fetch a file unless its current version is there; log its version."""
        status = places[name].status()
        target = folder / name
        is_current = (
            status.version  # without one, nobody knows
            and fetched.get(name) == (status.num_bytes, status.version)
            and target.is_file()
            and target.stat().st_size == status.num_bytes
        )
        if not is_current:
            with atomic_write(target, sync=False) as partial:
                places[name].download(partial, status)
            with raise_disk_full(log):
                append_lines(log, [json.dumps({"name": name, **status._asdict()}).encode()])

    with progress.progress("fetch source", len(places), "files", show=len(places) > 1) as advance:
        for _ in threads.ordered_map(fetch, places, jobs=_JOBS):
            advance(1)
    current = {folder / name for name in (*places, _FETCHED)}
    for path in folder.rglob("*"):
        if path.is_file() and path not in current:
            path.unlink()
