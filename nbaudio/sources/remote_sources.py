"""Sources that lie elsewhere: a file is fetched whole into the workspace, of a folder all that is no recording.

Conventions: what is fetched is kept in W/source under its own name, and fetched again when its server tells another version;
a run that was killed goes on with the files that are missing. The readers of `BY_THEMSELVES` go through a folder as it is: one
for its size, one for having nothing but recordings.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath

import msgspec
import polars as pl

from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.guards import check_regular
from nbaudio.core.names import is_audio
from nbaudio.core.progress import progress
from nbaudio.core.threads import ordered_map
from nbaudio.formats.base import PROBLEMS, Problem, Reader, Transcripts
from nbaudio.storage.atomic import append_lines, atomic_write, raise_disk_full, read_lines
from nbaudio.storage.cache import Cache
from nbaudio.storage.remote import Remote, remote
from nbaudio.storage.urls import is_url

BY_THEMSELVES = frozenset({"librispeech", "folder"})
_NOTES = ".fetched.jsonl"
_JOBS = 8
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[str, int, str | None]).decode
# File systems take 255; `.name.pid.partial` must fit as well.
_MOST_NAME_BYTES = 230


def origin(source: str | Path, cache: Cache) -> Path | Remote:
    """Where a source is: an absolute path or an address, of which nothing is asked yet.

    Raises:
        InputError: the address is not usable, or the path is that of a pipe, socket or device.

    Examples:
        >>> print(origin("s3://bucket/LibriSpeech/", Cache(Path("cache"))))
        s3://bucket/LibriSpeech
    """
    if not is_url(str(source)):
        path = Path(source).absolute()
        if not path.is_dir():
            with suppress(FileNotFoundError):  # the reader says what is wanted
                check_regular(path)
        return path
    place = remote(str(source), cache)
    if place.is_scheme:
        raise InputError(f"{source}: names neither a file nor a folder")
    return place


def read_elsewhere(
    format: str, reader: Reader, place: Remote, options: Mapping[str, str], *, folder: Path, begin: Callable[[], object]
) -> Transcripts:
    """The transcripts of a source that lies elsewhere; its recordings stay there.

    Args:
        format: its name.
        reader: of the format.
        place: of the source.
        options: of the format.
        folder: for what is fetched.
        begin: called when the source is there, before anything is written.

    Raises:
        InputError: the source cannot be had, or the reader can do nothing with it.
    """
    try:
        is_folder = place.is_folder()
        begin()
        if is_folder and format in BY_THEMSELVES:
            return reader(place, **options)
        if is_folder:
            names, refused = _listed(place)
            _fetch(folder, {name: place / name for name in names if not is_audio(name)})
            for name in {str(PurePosixPath(name).parent) for name in names}:  # readers look for folders of recordings
                (folder / name).mkdir(parents=True, exist_ok=True)
            found = reader(folder, **options)
            told = pl.DataFrame([Problem(name, None, reason) for name, reason in refused], schema=PROBLEMS, orient="row")
            found = replace(found, problems=pl.concat([found.problems, told]))
        else:
            _fetch(folder, {place.name: place})
            found = reader(folder / place.name, **options)
    except AudioError as error:
        raise InputError(str(error)) from error
    except OSError as error:  # such as a name that is of a file and of a folder
        raise InputError(f"{place}: cannot be kept in {folder} ({error.strerror or error})") from error
    root = found.audio_root
    if isinstance(root, Path) and root.is_relative_to(folder):
        # Recordings lie where they would lie beside the source: in its folder, be it that of a single file.
        beside = place if is_folder else place.parent
        relative = root.relative_to(folder).as_posix()
        return replace(found, audio_root=str(beside if relative == "." else beside / relative))
    return found


def _listed(place: Remote) -> tuple[list[str], list[tuple[str, str]]]:
    """All files of a folder, hidden ones left out; and name and reason of those that no file here can be called after."""
    listed = place.listing(lambda _: True)
    if listed is None:
        raise InputError(f"{place}: the server does not list what is in this folder; name a file")
    paths, refused = listed
    long = [name for name in paths if any(len(part.encode()) > _MOST_NAME_BYTES for part in name.split("/"))]
    refused += [(name, "its name is too long for a file") for name in long]
    return [name for name in paths if name not in {*long}], [each for each in refused if not is_audio(each[0])]


def _fetch(folder: Path, places: Mapping[str, Remote]) -> None:
    """Fetch files that are not there in their present version, and remove all others."""
    notes = folder / _NOTES
    try:
        known = {name: status for name, *status in read_lines(notes, _decode, "a name, a size and a version")}
    except InputError:  # of another version
        notes.unlink()
        known = {}

    def fetch(name: str) -> None:
        status, target = places[name].status(), folder / name
        here = known.get(name) == [*status] and status.version and target.is_file() and target.stat().st_size == status.num_bytes
        if not here:
            with atomic_write(target, sync=False) as partial:
                places[name].download(partial, status)
            with raise_disk_full(notes):
                append_lines(notes, [_encode([name, *status])])

    with progress("fetch source", len(places), "files", show=len(places) > 1) as advance:
        for _ in ordered_map(fetch, places, jobs=_JOBS):
            advance(1)
    _keep_only(folder, {*places, _NOTES})


def _keep_only(folder: Path, names: Iterable[str]) -> None:
    wanted = {folder / name for name in names}
    for path in folder.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()
