"""The recordings on disk: which there are, and what each of them is."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from nbaudio.audio import probe
from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.names import is_audio
from nbaudio.core.progress import progress
from nbaudio.core.threads import ordered_map
from nbaudio.formats.base import escape_surrogates
from nbaudio.sources.probes import Probes
from nbaudio.storage import archives
from nbaudio.storage.atomic import escapes_folder, sha256_file, trusted_root
from nbaudio.storage.remote import Remote
from nbaudio.storage.urls import check_url, redact_url, stays_inside

FACTS = pl.Schema(
    {
        "path": pl.String,
        "sampling_rate": pl.Int32,
        "num_channels": pl.Int16,
        "num_samples": pl.Int64,
        "codec": pl.String,
        "sha256": pl.String,
        "num_bytes": pl.Int64,
        "mtime_ns": pl.Int64,
        "probe_warning": pl.String,
        "error": pl.String,
    }
)

#: Many paths are a column, since as objects they would take several times the memory.
Paths: TypeAlias = Sequence[str] | pl.Series

_LONG_WORK_BYTES = 1_000_000_000
_BUNDLE_BYTES = 8_000_000
_SMALL_BYTES = 16_000
_BUNDLE_FILES = 256
# Rows that are Python objects at once.
_BATCH = 4096


def list_audio(root: Path) -> tuple[pl.Series, list[tuple[str, str]]]:
    """Audio files below a folder, hidden ones left out.

    Returns:
        POSIX paths relative to `root`, sorted; and path and reason of what is not taken: links that lead out of the folder or
        nowhere, names that are no Unicode, folders that cannot be read or are named like a recording, and what is no file at all.
    """
    home = trusted_root(root)
    found = [pl.Series("path", dtype=pl.String)]
    refused: list[tuple[str, str]] = []
    folders = [""]
    while folders:
        paths: list[str] = []  # of one folder at a time: as a column all of them take little
        folder = folders.pop()
        try:
            # What scandir knows of a file needs no further look at the disk.
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    name, is_folder = f"{folder}{entry.name}", _is(entry.is_dir)
                    if entry.name.startswith(".") or not (is_folder or is_audio(entry.name)):
                        continue
                    if entry.is_symlink() and escapes_folder(root / name, home):
                        refused.append((escape_surrogates(name), "a link that leads out of the audio folder"))
                    elif is_folder:
                        folders += [] if entry.is_symlink() else [f"{name}/"]
                        if is_audio(entry.name):
                            refused.append(
                                (escape_surrogates(name), "a folder with the name of a recording; recordings in it are taken")
                            )
                    elif escape_surrogates(name) != name:
                        refused.append((escape_surrogates(name), "its name is not Unicode; rename it"))
                    elif not _is(entry.is_file):
                        nothing = "a link that leads nowhere" if entry.is_symlink() else "no file but a pipe, socket or device"
                        refused.append((name, nothing))
                    else:
                        paths.append(name)
        except OSError as error:
            refused.append((escape_surrogates(folder.rstrip("/") or "."), f"the folder cannot be read: {error.strerror}"))
        found.append(pl.Series("path", paths, dtype=pl.String))
    return pl.concat(found).sort(), sorted(refused)


def list_remote(root: Remote, names: Iterable[str]) -> tuple[pl.Series, list[tuple[str, str]]]:
    """The same for a folder that lies elsewhere. Where it gives no list, recordings are taken to be called as they are named.

    Args:
        root: the folder.
        names: of recordings, as transcripts spell them.
    """
    listed = archives.listing(root, is_audio) if archives.is_in_archive(root) else root.listing(is_audio)
    if listed is not None:
        return pl.Series("path", listed[0], dtype=pl.String), listed[1]
    paths, refused = [], []
    for name in sorted(set(names)):
        try:
            if root.is_scheme and name.startswith(root.root) and "::" in name:
                refused.append((name, "an address inside another is not taken from transcripts"))
            elif root.is_scheme and name.startswith(root.root):
                paths.append(check_url(name))
            elif not root.is_scheme and is_audio(name) and stays_inside(name):
                paths.append(name)
        except InputError as error:
            refused.append((redact_url(name), str(error)))
    return pl.Series("path", paths, dtype=pl.String), refused


def _is(question: Callable[[], bool]) -> bool:
    """The answer of a directory's entry; a link that goes in circles is nothing."""
    try:
        return question()
    except OSError:
        return False


def probe_recordings(
    root: Path | Remote, paths: Paths, *, jobs: int | None = None, sha256: bool = True, keep: Path | None = None
) -> pl.DataFrame:
    """What each recording is: read, not believed.

    Args:
        root: the audio folder.
        paths: relative to it.
        jobs: recordings at once; one a core unless given, or one where they are tiny.
        sha256: hash them too.
        keep: a folder for `probes.PROBES`, where what is found is kept for the next run; of recordings on this machine until all
            were looked at.

    Returns:
        One row per path, sorted, with the columns of `FACTS`; `error` says why all the others are null. Recordings that lie
        elsewhere also have a `version`, which is what their server calls them.
    """
    if isinstance(root, Remote):
        return _look_at_elsewhere(root, paths, jobs=jobs, sha256=sha256, keep=keep)
    probes = Probes(keep, FACTS, sha256=sha256) if keep else None
    bundles = list(_bundles(root, paths))
    total = sum(size for _, size in bundles)
    # With files of a few kilobytes, threads cost more in waiting for the interpreter's lock than they bring.
    workers = jobs or (os.cpu_count() or 1 if total > _SMALL_BYTES * len(paths) else 1)
    with (
        ThreadPoolExecutor(workers) as pool,
        progress("look at recordings", total / 1e9, "GB", show=total > _LONG_WORK_BYTES) as advance,
    ):
        looks = {pool.submit(_look_at_some, root, some, probes, sha256=sha256): size for some, size in bundles}
        for look in as_completed(looks):
            advance(looks[look] / 1e9)
    facts = pl.concat([pl.DataFrame(schema=FACTS), *(look.result() for look in looks)])
    if probes:
        probes.remove()
    return facts


def _look_at_elsewhere(root: Remote, paths: Paths, *, jobs: int | None, sha256: bool, keep: Path | None) -> pl.DataFrame:
    schema = pl.Schema({**FACTS, "version": pl.String()})
    probes = Probes(keep, schema, sha256=sha256) if keep else None

    def look(place: Remote) -> dict[str, Any]:
        path = place.path
        try:
            status = place.status()
            if probes and (known := probes.get(place, num_bytes=status.num_bytes, version=status.version)):
                return {**known, "path": path, "known": True}
            with place.fetched(status) as fetched:
                found = _look(fetched, sha256=sha256)
        except AudioError as error:
            return {"path": path, "error": str(error)}
        if "error" in found:
            return {"path": path, "error": found["error"].replace(str(fetched), str(place))}
        return {"path": path, **found, "mtime_ns": None, "version": status.version}

    def kept(place: Remote) -> dict[str, Any]:
        row = look(place)
        if probes and not row.pop("known", False):
            probes.add([(place, row)])
        return row

    frames, rows = [], []
    # Whoever waits for a network leaves the processor to others.
    workers = jobs or 2 * (os.cpu_count() or 1)
    with progress("fetch", len(paths), "recordings") as advance:
        places = _as_they_come(root, paths) if archives.is_in_archive(root) else (root / path for path in paths)
        for row in ordered_map(kept, places, jobs=workers):
            rows.append(row)
            advance(1)
            if len(rows) == _BATCH:
                frames.append(pl.DataFrame(rows, schema=schema))
                rows = []
    return pl.concat([*frames, pl.DataFrame(rows, schema=schema)]).sort("path")


def _as_they_come(root: Remote, paths: Paths) -> Iterator[Remote]:
    """Files of a compressed tar, each with its bytes; those that the archive no longer has come last and without."""
    missing = set(paths)
    with suppress(AudioError):  # it breaks off
        for place in archives.members_in_order(root, missing):
            missing.discard(place.path)
            yield place
    yield from (root / path for path in sorted(missing))


def _bundles(root: Path, paths: Paths) -> Iterator[tuple[Paths, int]]:
    """Paths for one thread to look at, and their bytes: many small files together, large ones alone."""
    first, size = 0, 0
    for after, path in enumerate(paths, 1):
        size += _size(root / path)
        if size > _BUNDLE_BYTES or after - first == _BUNDLE_FILES or after == len(paths):
            yield paths[first:after], size
            first, size = after, 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # gone since it was listed: looking at it says so


def _look_at_some(root: Path, paths: Paths, probes: Probes | None, *, sha256: bool) -> pl.DataFrame:
    rows, new = [], []
    for path in paths:
        known = None
        if probes:
            with suppress(OSError):
                status = (root / path).stat()
                known = probes.get(root / path, num_bytes=status.st_size, mtime_ns=status.st_mtime_ns)
        rows.append({**(known or _look(root / path, sha256=sha256)), "path": path})
        new += [] if known else [(root / path, rows[-1])]
    if probes and new:
        probes.add(new)
    return pl.DataFrame(rows, schema=FACTS)


def _look(path: Path, *, sha256: bool) -> dict[str, Any]:
    try:
        found, status = probe(path), path.stat()
        digest = sha256_file(path) if sha256 else None
    except (AudioError, OSError) as error:
        return {"error": str(error)}
    return {
        "sampling_rate": found.sampling_rate,
        "num_channels": found.num_channels,
        "num_samples": found.num_samples,
        "codec": found.codec,
        "sha256": digest,
        "num_bytes": status.st_size,
        "mtime_ns": status.st_mtime_ns,
        "probe_warning": found.warning,
    }
