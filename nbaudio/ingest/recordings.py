"""The recordings on disk: which there are, and what each of them is."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.audio import probe
from nbaudio.errors import AudioError
from nbaudio.files import sha256_file
from nbaudio.names import is_audio
from nbaudio.progress import progress

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

_LONG_WORK_BYTES = 1_000_000_000


def list_audio(root: Path) -> tuple[list[str], list[tuple[str, str]]]:
    """Audio files below a folder, hidden ones left out.

    Returns:
        POSIX paths relative to `root`, sorted; and path and reason of what is not taken: links that lead out of the folder,
        names that are no Unicode, folders that cannot be read, and audio names that are no files.
    """
    inside = root.resolve()
    paths: list[str] = []
    refused: list[tuple[str, str]] = []

    def unreadable(error: OSError) -> None:
        refused.append((os.path.relpath(error.filename, root), f"the folder cannot be read: {error.strerror}"))

    for folder, folders, files in os.walk(root, onerror=unreadable):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for path in (Path(folder, name) for name in (*folders, *filter(is_audio, files)) if not name.startswith(".")):
            name = path.relative_to(root).as_posix()
            if path.is_symlink() and not path.resolve().is_relative_to(inside):
                refused.append((_printable(name), "a link that leads out of the audio folder"))
            elif path.name in folders:
                continue
            elif _printable(name) != name:
                refused.append((_printable(name), "its name is not Unicode; rename it"))
            elif not path.is_file():
                refused.append((name, "not a file"))
            else:
                paths.append(name)
    return sorted(paths), sorted(refused)


def look_at(root: Path, paths: Sequence[str], *, jobs: int | None = None, sha256: bool = True) -> pl.DataFrame:
    """What each recording is: read, not believed.

    Args:
        root: the audio folder.
        paths: relative to it.
        jobs: recordings at once; one a core unless given.
        sha256: hash them too.

    Returns:
        One row per path, in order, with the columns of `FACTS`; `error` says why all the others are null.
    """
    sizes = {path: (root / path).stat().st_size for path in paths}
    total = sum(sizes.values())
    facts = {}
    with (
        ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool,
        progress("look at recordings", total / 1e9, "GB", show=total > _LONG_WORK_BYTES) as advance,
    ):
        looks = {pool.submit(_look, root / path, sha256=sha256): path for path in paths}
        for look in as_completed(looks):
            path = looks[look]
            facts[path] = look.result()
            advance(sizes[path] / 1e9)
    return pl.DataFrame([{"path": path, **facts[path]} for path in paths], schema=FACTS)


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


def _printable(name: str) -> str:
    """A name from the disk without the lone surrogates that stand for bytes that are no Unicode."""
    return name.encode("utf8", "surrogateescape").decode("utf8", "backslashreplace")
