"""List the recordings of an audio folder and probe each of them, with a cache of results for interrupted runs."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import polars as pl

from nbaudio.audio import probe
from nbaudio.core import atomic, tables, threads
from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.name_matching import is_audio
from nbaudio.core.progress import progress
from nbaudio.core.version import __version__
from nbaudio.formats.base import frame_of_rows
from nbaudio.storage import archives
from nbaudio.storage.location import Location, LocationLike, location
from nbaudio.storage.urls import check_url, redact_url, stays_inside

FACTS = pl.Schema(
    {name: dtype for name, dtype in tables.RECORDINGS.items() if name != "recording_id"}
    | {"num_bytes": pl.Int64(), "mtime_ns": pl.Int64(), "probe_warning": pl.String(), "error": pl.String()}
)

Paths: TypeAlias = Sequence[str] | pl.Series  # a column if there are many, since objects take several times the memory

_LONG_WORK_BYTES = 1_000_000_000
_BUNDLE_BYTES = 8_000_000
_SMALL_BYTES = 16_000
_BUNDLE_FILES = 256

_encode = msgspec.json.Encoder().encode


def list_audio(root: LocationLike, names: Iterable[str] = ()) -> tuple[pl.Series, list[tuple[str, str]]]:
    """List the audio files below a folder, sorted, or those of `names` if a server lists none; and rejected ones with reasons."""
    place = location(root)
    listed = archives.listing(place, is_audio) if archives.is_in_archive(place) else place.listing(is_audio)
    if listed is not None:
        return pl.Series("path", listed[0], dtype=pl.String), listed[1]
    scheme = str(place) if place.is_scheme else None
    paths, rejected = [], []
    for name in sorted(set(names)):
        try:
            if scheme and name.startswith(scheme) and "::" in name:
                rejected.append((name, "nested URLs are not read from transcripts"))
            elif scheme and name.startswith(scheme):
                paths.append(check_url(name))
            elif not scheme and is_audio(name) and stays_inside(name):
                paths.append(name)
        except InputError as error:
            rejected.append((redact_url(name), str(error)))
    return pl.Series("path", paths, dtype=pl.String), rejected


class Probes:
    """The cache of a workspace, for threads, with what was known `before`; with `sha256`, rows without a hash do not count."""

    def __init__(self, folder: Path, schema: pl.Schema, *, sha256: bool, before: pl.DataFrame | None = None) -> None:
        self.path = folder / "probes.jsonl"
        self._facts = list(schema)
        self.sha256 = sha256
        lines = atomic.parse_lines(self.path.read_bytes()) if self.path.is_file() else ()
        schema = pl.Schema({**schema, "file": pl.String(), "nbaudio": pl.String()})
        try:
            # Rows of other versions may have other columns.
            known = frame_of_rows((row for row in lines if row.get("nbaudio") == __version__), schema)
        except (pl.exceptions.PolarsError, ValueError, TypeError, OverflowError):  # damaged: all are probed again
            known = pl.DataFrame(schema=schema)
        if before is not None:
            known = pl.concat([tables.conform(before, schema, "recordings").select(schema.names()), known])
        usable = pl.col("error").is_null() & (pl.col("sha256").is_not_null() | pl.lit(not sha256))
        # A frame and a row number for each file: as objects, rows would take several times the memory.
        self._known = known.unique("file", keep="last", maintain_order=True).filter(usable)
        self._numbers = {file: number for number, file in enumerate(self._known["file"])}

    def get(self, file: object, **now: object) -> dict[str, Any] | None:
        """Return the known facts of a file if `now`, its `num_bytes` and `mtime_ns` or `version`, is not None and the same."""
        number = self._numbers.get(str(file))
        if number is None or None in now.values():
            return None
        row = self._known.row(number, named=True)
        if any(row[name] != value for name, value in now.items()):
            return None
        facts = {name: row[name] for name in self._facts}
        return facts if self.sha256 else facts | {"sha256": None}

    def add(self, rows: Iterable[tuple[object, Mapping[str, Any]]]) -> None:
        """Add facts of files; they are on the disk when this returns."""
        with atomic.raise_disk_full(self.path):
            atomic.append_lines(self.path, [_encode({**row, "file": str(file), "nbaudio": __version__}) for file, row in rows])


def probe_recordings(
    root: LocationLike,
    paths: Paths,
    *,
    jobs: int | None = None,
    sha256: bool = True,
    keep: Path,
    before: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Probe recordings below `root`, except those as `before`; return `FACTS`; `keep` is the folder of the cache."""
    place = location(root)
    schema = FACTS if place.local else pl.Schema({**FACTS, "version": pl.String()})
    probes = Probes(keep, schema, sha256=sha256, before=before)
    if (folder := place.local) is None:
        return _probe_remote(place, paths, probes, schema, jobs=jobs)
    bundles = list(_bundles(folder, paths))
    total = sum(size for _, size in bundles)
    # With files of a few kilobytes, threads cost more in waiting for the interpreter's lock than they gain.
    workers = jobs or (os.cpu_count() or 1 if total > _SMALL_BYTES * len(paths) else 1)
    facts = [pl.DataFrame(schema=FACTS)]
    with progress("probe recordings", total / 1e9, "GB", show=total > _LONG_WORK_BYTES) as advance:
        probed = threads.ordered_map(lambda bundle: _probe_bundle(folder, bundle[0], probes), bundles, jobs=workers)
        for (_, size), found in zip(bundles, probed, strict=True):
            facts.append(found)
            advance(size / 1e9)
    probes.path.unlink(missing_ok=True)
    return pl.concat(facts)


def _probe_remote(root: Location, paths: Paths, probes: Probes, schema: pl.Schema, *, jobs: int | None) -> pl.DataFrame:
    def probe_one(item: tuple[str, Location]) -> dict[str, Any]:
        path, place = item
        row: dict[str, Any] = {"path": path}
        try:
            status = place.status()
            if known := probes.get(place, num_bytes=status.num_bytes, version=status.version):
                return known | row
            with place.fetched(status) as fetched:
                row |= _probe_file(fetched, sha256=probes.sha256)
            if "error" in row:
                row["error"] = row["error"].replace(str(fetched), str(place))
            else:
                row |= {"mtime_ns": None, "version": status.version}
        except AudioError as error:
            row["error"] = str(error)
        probes.add([(place, row)])
        return row

    workers = jobs or 2 * (os.cpu_count() or 1)  # threads that wait for the network leave the processor to others
    with progress("fetch", len(paths), "recordings") as advance:

        def rows() -> Iterator[dict[str, Any]]:
            places = ((path, root / path) for path in paths)
            if archives.is_in_archive(root):
                places = ((place.path, place) for place in archives.all_in_order(root, paths))
            for row in threads.ordered_map(probe_one, places, jobs=workers):
                advance(1)
                yield row

        return frame_of_rows(rows(), schema).sort("path")


def _bundles(root: Path, paths: Paths) -> Iterator[tuple[Paths, int]]:
    """Group paths for one thread each, with their bytes: many small files together, large ones alone."""
    first, size = 0, 0
    for after, path in enumerate(paths, 1):
        with suppress(OSError):  # removed since it was listed: probing it reports that
            size += (root / path).stat().st_size
        if size > _BUNDLE_BYTES or after - first == _BUNDLE_FILES or after == len(paths):
            yield paths[first:after], size
            first, size = after, 0


def _probe_bundle(root: Path, paths: Paths, probes: Probes) -> pl.DataFrame:
    rows, new = [], []
    for path in paths:
        known = None
        with suppress(OSError):
            status = (root / path).stat()
            known = probes.get(root / path, num_bytes=status.st_size, mtime_ns=status.st_mtime_ns)
        rows.append({**(known or _probe_file(root / path, sha256=probes.sha256)), "path": path})
        new += [] if known else [(root / path, rows[-1])]
    if new:
        probes.add(new)
    return pl.DataFrame(rows, schema=FACTS)


def _probe_file(path: Path, *, sha256: bool) -> dict[str, Any]:
    try:
        found, status = probe(path), path.stat()
        digest = atomic.sha256_file(path) if sha256 else None
    except (AudioError, OSError) as error:
        return {"error": str(error)}
    facts = {name: getattr(found, name) for name in ("sampling_rate", "num_channels", "num_samples", "codec")}
    return facts | {"sha256": digest, "num_bytes": status.st_size, "mtime_ns": status.st_mtime_ns, "probe_warning": found.warning}
