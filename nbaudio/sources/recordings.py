"""List the recordings of an audio folder and probe each of them.

A cache of results serves interrupted runs.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import polars as pl

from nbaudio.audio import probe
from nbaudio.audio.name_matching import is_audio
from nbaudio.core import atomic, threads
from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.progress import progress
from nbaudio.core.version import __version__
from nbaudio.formats.transcripts import frame_of_rows
from nbaudio.storage import archives
from nbaudio.storage.location import (
    FOLDER_OF_THAT_NAME,
    LocalPath,
    Location,
    LocationLike,
    location,
)
from nbaudio.storage.remote import Remote
from nbaudio.storage.urls import check_url, redact_url, stays_inside
from nbaudio.tables import schemas

FACTS = pl.Schema(
    {name: dtype for name, dtype in schemas.RECORDINGS.items() if name != "recording_id"}
    | {
        "num_bytes": pl.Int64(),
        "mtime_ns": pl.Int64(),
        "probe_warning": pl.String(),
        "track": pl.Int16(),  # the audio track, from 1, of these facts, where there are several
        "sound_start": pl.Int64(),  # samples from the first picture to the first sample
        "tracks_not_read": pl.String(),  # a line for each
        "uncancelled_channel": pl.String(),  # which is used where the channels cancel in their mix
        "error": pl.String(),
    }
)

# A column if there are many, since objects take several times the memory.
Paths: TypeAlias = Sequence[str] | pl.Series

# Paths and places that a thread probes in turn, and their amount in the unit of the progress:
# gigabytes of local recordings, or the number of others.
_Bundle: TypeAlias = tuple[Iterable[tuple[str, Location]], float]

# A bundle ends with the file that exceeds its bytes, or with its last file.
_BUNDLE_FILES = 256
_BUNDLE_BYTES = 8_000_000
_MEMBERS_BYTES = 2_000_000  # members of archives are in memory until a thread has probed them
# Mean gigabytes of a recording up to which threads cost more in waiting for the interpreter's lock
# than they gain.
_SMALL_GB = 16e-6

_encode = msgspec.json.Encoder().encode


def list_audio(
    root: LocationLike, names: Iterable[str] = (), members: Iterable[str] | None = None
) -> tuple[pl.Series, list[tuple[str, str]]]:
    """List the audio files below a folder, and the rejected ones with reasons.

    `names` are those that transcripts give recordings: they are the files if a server lists none.
    `members` are the names of all files of an archive, or None where it is to be read for them.
    The paths are sorted.
    """
    place = location(root)
    listed = _listing(place, is_audio, members)
    paths, rejected = _readable(place, names) if listed is None else listed
    return pl.Series("path", paths, dtype=pl.String), rejected


def _readable(
    place: Location, names: Iterable[str]
) -> tuple[Collection[str], list[tuple[str, str]]]:
    """Return which names of recordings may be read below a place, and the rejected with reasons."""
    if not place.is_scheme:
        return [name for name in sorted(set(names)) if is_audio(name) and stays_inside(name)], []
    paths = []
    rejected = []
    for name in sorted(set(names)):
        if not name.startswith(str(place)):
            continue
        try:
            if "::" in name:
                rejected.append((name, "nested URLs are not read from transcripts"))
            else:
                paths.append(check_url(name))
        except InputError as error:
            rejected.append((redact_url(name), str(error)))
    return paths, rejected


def _listing(
    place: Location, wanted: Callable[[str], bool], members: Iterable[str] | None = None
) -> tuple[Collection[str], list[tuple[str, str]]] | None:
    """List the wanted files below a folder or in an archive.

    Return their paths, and the refused ones with reasons; None if a server lists no files.
    """
    if archives.is_in_archive(place):
        return archives.listing(place, wanted, members)
    return place.listing(wanted)


@dataclass(frozen=True)
class FolderFiles:
    """The files below a folder, as paths relative to it, and the refused ones with reasons."""

    audio: pl.Series  # sorted
    others: pl.Series  # sorted; those that are no recordings
    refused_audio: list[tuple[str, str]]
    refused_others: list[tuple[str, str]]


def list_folder(place: Location) -> FolderFiles:
    """List all files below a folder that are not hidden; there are none if a server lists none."""
    listed = _listing(place, _is_any)
    paths, refused = listed or ((), [])
    names = pl.Series("path", paths, dtype=pl.String)
    are_audio = pl.Series([is_audio(name) for name in names], dtype=pl.Boolean)
    refused_audio = []
    refused_others = []
    for name, reason in refused:
        if is_audio(name):
            refused_audio.append((name, reason))
        elif not _contains_files(place, name):
            refused_others.append((name, reason))
        elif reason != FOLDER_OF_THAT_NAME:  # as all names are wanted, every folder has this one
            refused_audio.append((name, reason))
    return FolderFiles(
        names.filter(are_audio), names.filter(~are_audio), refused_audio, refused_others
    )


def _is_any(_name: str) -> bool:
    return True


def _contains_files(place: Location, name: str) -> bool:
    """Return whether a refused name is that of a folder, or of the archive that is listed."""
    if isinstance(place, LocalPath):
        return (place.local / name).is_dir()
    return name in (place.name, place.root.rpartition("/")[2])


class Probes:
    """The cache of probed files, a log in the folder of a workspace; threads may share it.

    It returns what it had when it was opened; what is added serves the next run. Facts of the audio
    track that an option chooses are stored apart from those of the default one.
    """

    def __init__(
        self,
        folder: Path,
        schema: pl.Schema,
        *,
        sha256: bool,
        before: pl.DataFrame | None = None,
        track: str | None = None,
    ) -> None:
        """Read the log in a folder.

        Args:
            folder: the folder of the log.
            schema: columns of the facts.
            sha256: whether facts have a hash; those stored without one are then ignored.
            before: a recordings table of an earlier run, whose facts count where the log has none.
            track: the audio track that an option chooses, None without the option.
        """
        self.path = folder / "probes.jsonl"
        self.track = track
        self._facts = list(schema)
        self.sha256 = sha256
        lines = atomic.read_log(self.path)
        schema = pl.Schema({**schema, "file": pl.String(), "nbaudio": pl.String()})
        try:
            # Rows of other versions may have other columns.
            probes = frame_of_rows(
                (row for row in lines if row.get("nbaudio") == __version__), schema
            )
        except (pl.exceptions.PolarsError, ValueError, TypeError, OverflowError):
            # The file is damaged: all are probed again.
            probes = pl.DataFrame(schema=schema)
        if before is not None and track is None:
            earlier = schemas.conform(before, schema, "recordings").select(schema.names())
            # Where there are several tracks, an option may have chosen that of the earlier run.
            of_only_track = earlier.filter(pl.col("track").is_null())
            probes = pl.concat([of_only_track, probes])
        usable = pl.col("error").is_null() & (pl.col("sha256").is_not_null() | pl.lit(not sha256))
        # A frame and a row number for each file: as objects, rows would take several times the
        # memory.
        self._stored = probes.unique("file", keep="last", maintain_order=True).filter(usable)
        self._numbers = {file: number for number, file in enumerate(self._stored["file"])}

    def get(self, file: object, **now: object) -> dict[str, Any] | None:
        """Return the stored facts of a file, or None if there are none or it may have changed.

        `now` is its present `num_bytes`, and `mtime_ns` or `version`, which must be those of the
        stored row.
        """
        number = self._numbers.get(self._key(file))
        if number is None or None in now.values():  # None: a server does not tell
            return None
        row = self._stored.row(number, named=True)
        if any(row[name] != value for name, value in now.items()):
            return None
        facts = {name: row[name] for name in self._facts}
        if not self.sha256:
            facts["sha256"] = None
        return facts

    def add(self, rows: Iterable[tuple[object, Mapping[str, Any]]]) -> None:
        """Append facts of files to the log; they are on the disk when this returns."""
        with atomic.raise_disk_full(self.path):
            atomic.append_lines(
                self.path,
                [
                    _encode({**row, "file": self._key(file), "nbaudio": __version__})
                    for file, row in rows
                ],
            )

    def _key(self, file: object) -> str:
        """Return the name under which facts of a file are stored."""
        if self.track is None:
            return str(file)
        return f"{file} (track {self.track})"


def probe_recordings(
    root: LocationLike,
    paths: Paths,
    *,
    jobs: int | None = None,
    sha256: bool = True,
    keep: Path,
    before: pl.DataFrame | None = None,
    track: str | None = None,
) -> pl.DataFrame:
    """Probe recordings below `root` that the cache does not have; return `FACTS`.

    `keep` is the folder of the cache, `before` a recordings table of an earlier run that adds to
    it, `track` the number or language of the audio track that is read where there are several.
    """
    place = location(root)
    schema = FACTS if place.local else pl.Schema({**FACTS, "version": pl.String()})
    probes = Probes(keep, schema, sha256=sha256, before=before, track=track)
    bundles, workers, shown = _work(place, paths)
    with shown as advance:

        def rows() -> Iterator[dict[str, Any]]:
            for done, amount in threads.ordered_map(
                lambda bundle: _probe_bundle(*bundle, probes), bundles, jobs=jobs or workers
            ):
                advance(amount)
                yield from done

        facts = frame_of_rows(rows(), schema)
    if place.local is None:
        return facts.sort("path")  # archives are read in their own order
    # It served interrupted runs. A later run compares local files with the recordings table.
    probes.path.unlink(missing_ok=True)
    return facts


def _work(
    place: Location, paths: Paths
) -> tuple[Iterable[_Bundle], int, AbstractContextManager[Callable[[float], object]]]:
    """Return the bundles of recordings, how many threads probe them, and the progress shown."""
    cores = os.cpu_count() or 1
    if isinstance(place, LocalPath):
        bundles = list(_bundles(place, paths))
        total = sum(size for _, size in bundles)
        workers = cores if total > _SMALL_GB * len(paths) else 1
        return bundles, workers, progress("probe", total, "GB of recordings", show=total > 1)
    fetched = progress("fetch", len(paths), "recordings")
    if archives.is_in_archive(place):
        # One beside this thread, which unpacks; more would wait for the interpreter's lock.
        return _bundles_of_members(place, paths), 1, fetched
    # Threads that wait for the network leave the processor to others.
    return (([item], 1) for item in _places(place, paths)), 2 * cores, fetched


def _bundles(root: LocalPath, paths: Paths) -> Iterator[_Bundle]:
    """Group paths of local files; the amount of a bundle is its gigabytes.

    Many small files are together, large ones alone.
    """
    first = 0
    size = 0
    for after, path in enumerate(paths, 1):
        with suppress(OSError):  # removed since it was listed: probing it reports that
            size += os.stat(os.path.join(root.local, path)).st_size  # noqa: PTH116, PTH118 - faster
        if size > _BUNDLE_BYTES or after - first == _BUNDLE_FILES or after == len(paths):
            yield _places(root, paths[first:after]), size / 1e9
            first = after
            size = 0


def _places(root: Location, paths: Paths) -> Iterator[tuple[str, Location]]:
    return ((path, root / path) for path in paths)


def _bundles_of_members(root: Remote, paths: Paths) -> Iterator[_Bundle]:
    """Group members of an archive, in its order; the amount of a bundle is their number.

    The place of a member has its bytes.
    """
    members: list[tuple[str, Location]] = []
    size = 0
    for member in archives.all_in_order(root, paths):
        members.append((member.path, member))
        if member.content:
            size += len(member.content.file_bytes)
        if size > _MEMBERS_BYTES or len(members) == _BUNDLE_FILES:
            yield members, len(members)
            members = []
            size = 0
    if members:
        yield members, len(members)


def _probe_bundle(
    items: Iterable[tuple[str, Location]], amount: float, probes: Probes
) -> tuple[list[dict[str, Any]], float]:
    """Probe some recordings and store new facts; return their rows and the amount of work."""
    rows = []
    new = []
    for path, place in items:
        facts, is_known = _facts(place, probes)
        rows.append(facts | {"path": path})
        if not is_known:
            new.append((place, rows[-1]))
    if new:
        probes.add(new)
    return rows, amount


def _facts(place: Location, probes: Probes) -> tuple[dict[str, Any], bool]:
    """Return the facts of a recording, or its `error`, and whether the cache had them."""
    version_column = "mtime_ns" if place.local else "version"
    try:
        status = place.status()
        now = {"num_bytes": status.num_bytes, version_column: status.version}
        if facts_before := probes.get(place, **now):
            return facts_before, True
        with place.fetched(status) as path:
            try:
                recording = probe(path, track=probes.track)
                digest = atomic.sha256_file(path) if probes.sha256 else None
            except (AudioError, OSError) as error:
                # The path may be that of a temporary copy.
                return {"error": str(error).replace(str(path), str(place))}, False
    except (AudioError, OSError) as error:
        return {"error": str(error)}, False
    facts = {
        name: getattr(recording, name)
        for name in ("sampling_rate", "num_channels", "num_samples", "codec")
    }
    further = {
        "sha256": digest,
        "probe_warning": recording.warning,
        "track": recording.track,
        "sound_start": recording.sound_start or None,
        "tracks_not_read": "\n".join(recording.not_read) or None,
        "uncancelled_channel": recording.channel,
    }
    return facts | now | further, False
