"""Write a wheel of the running nbaudio and the requirements of cluster workers.

It needs neither build tools nor a package index.
"""

import base64
import csv
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from nbaudio.core.atomic import atomic_write, write_bytes
from nbaudio.core.bundled_files import FOLDERS, PACKAGE
from nbaudio.core.report import Report
from nbaudio.core.tracebacks import interruptible
from nbaudio.core.version import __version__

REQUIREMENTS = "requirements-worker.txt"
# Needed by notebooks, sheets and plots only; workers decode, cut, pack and verify.
_NOT_FOR_WORKERS = {
    "anywidget",
    "audioop-lts",
    "ipykernel",
    "ipywidgets",
    "jupyter_client",
    "jupyterlab",
    "matplotlib",
    "nbconvert",
    "openpyxl",
    "pandas",
    "papermill",
    "pydub",
    "python-calamine",
    "traitlets",
    "xlsxwriter",
}
# Engines bring their own version: Beam requires an older one.
_NOT_PINNED = {"pyarrow"}
_LABEXTENSION = ("ui/widgets/labextension", "share/jupyter/labextensions/nbaudio")
_FACTS = ("METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE")


@interruptible
def wheel(*, out: str | Path = "dist") -> Report:
    """Write a wheel of the running nbaudio and ``requirements-worker.txt`` to a folder.

    Equal files give equal bytes.

    Workers must run the code of the driver with the same versions of the packages that encode.
    Install both in their image or environment with ``pip install -r requirements-worker.txt`` and
    ``pip install --no-deps`` of the wheel. Jupyter is left out; no system package is needed. The
    report has the paths of both.
    """
    path = Path(out) / f"nbaudio-{__version__}-py3-none-any.whl"
    record = f"nbaudio-{__version__}.dist-info/RECORD"
    listed = io.StringIO()
    lines = csv.writer(listed, lineterminator="\n")
    with (
        atomic_write(path) as partial,
        zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, content in _files():
            archive.writestr(_entry(name), content)
            digest = (
                base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            )
            lines.writerow((name, f"sha256={digest}", len(content)))
        lines.writerow((record, "", ""))
        archive.writestr(_entry(record), listed.getvalue())
    requirements = path.with_name(REQUIREMENTS)
    write_bytes(requirements, "".join(f"{line}\n" for line in _requirements()).encode())
    install = f"pip install -r {REQUIREMENTS} && pip install --no-deps {path.name}"
    facts = {
        "wheel": str(path),
        "bytes": path.stat().st_size,
        "requirements": str(requirements),
        "for_workers": install,
    }
    return Report("wheel", facts)


def _requirements() -> Iterator[str]:
    """Yield the requirements of a worker, pinned to the versions installed here."""
    for requirement in sorted(metadata.requires("nbaudio") or ()):
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        marker = requirement.partition(";")[2]
        if "extra ==" in marker or name in _NOT_FOR_WORKERS:
            continue
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:  # a requirement of another version of Python
            continue
        if name in _NOT_PINNED:
            yield requirement
        elif marker:
            yield f"{name}=={version} ;{marker}"
        else:
            yield f"{name}=={version}"


def _files() -> Iterator[tuple[str, bytes]]:
    """Yield name and content of all files of the wheel.

    The package, bundled data, the labextension, metadata for pip.
    """
    yield from _below(PACKAGE, "nbaudio")
    yield from _below(
        PACKAGE / _LABEXTENSION[0], f"nbaudio-{__version__}.data/data/{_LABEXTENSION[1]}"
    )
    if not (PACKAGE / "_bundled").is_dir():  # nbaudio runs from a checkout
        for folder in FOLDERS:
            yield from _below(PACKAGE.parent / folder, f"nbaudio/_bundled/{folder}")
    installed = metadata.distribution("nbaudio")
    for fact in _FACTS:
        yield f"nbaudio-{__version__}.dist-info/{fact}", (installed.read_text(fact) or "").encode()


def _below(folder: Path, name: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files below a folder, in order."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and not any(
            part.startswith((".", "__pycache__")) for part in inside.parts
        ):
            yield f"{name}/{inside.as_posix()}", path.read_bytes()


def _entry(name: str) -> zipfile.ZipInfo:
    """Return an archive entry with a fixed time."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry
