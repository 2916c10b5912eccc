"""The wheel of the nbaudio that runs: what workers on other machines install, made without build tools or an index."""

import base64
import csv
import hashlib
import io
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from nbaudio.files import whole_file
from nbaudio.report import Report
from nbaudio.resources import FOLDERS, PACKAGE
from nbaudio.version import __version__

_FACTS = ("METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE")


def wheel(*, out: str | Path = "dist") -> Report:
    """Write a wheel of this very nbaudio; the same files give the same bytes.

    Workers must run the code that the driver runs: an image, environment or cluster gets it by ``pip install`` of this file, and
    needs no system package with it.

    Args:
        out: the folder for it.

    Returns:
        Where it is.
    """
    path = Path(out) / f"nbaudio-{__version__}-py3-none-any.whl"
    record = f"nbaudio-{__version__}.dist-info/RECORD"
    listed = io.StringIO()
    lines = csv.writer(listed, lineterminator="\n")
    with whole_file(path) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _files():
            archive.writestr(_entry(name), data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.writerow((name, f"sha256={digest}", len(data)))
        lines.writerow((record, "", ""))
        archive.writestr(_entry(record), listed.getvalue())
    return Report("wheel", {"wheel": str(path), "bytes": path.stat().st_size, "for_workers": f"pip install {path.name}"})


def _files() -> Iterator[tuple[str, bytes]]:
    """Everything that belongs into the wheel, by name: the package, what comes with it, what pip wants to know."""
    yield from _below(PACKAGE, "nbaudio")
    if not (PACKAGE / "_bundled").is_dir():  # a checkout
        for folder in FOLDERS:
            yield from _below(PACKAGE.parent / folder, f"nbaudio/_bundled/{folder}")
    installed = metadata.distribution("nbaudio")
    for fact in _FACTS:
        yield f"nbaudio-{__version__}.dist-info/{fact}", (installed.read_text(fact) or "").encode()


def _below(folder: Path, name: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in inside.parts):
            yield f"{name}/{inside.as_posix()}", path.read_bytes()


def _entry(name: str) -> zipfile.ZipInfo:
    """A file in the archive that says nothing of when it was made."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry
