"""Notebooks and manifests that ship with nbaudio, located in a wheel or a checkout."""

from pathlib import Path

from nbaudio.core.errors import InputError

PACKAGE = Path(__file__).resolve().parents[1]
FOLDERS = ("notebooks", "data_manifests")


def bundled(name: str) -> Path:
    """Return the path of a bundled file or folder, such as ``notebooks/01_ingest.ipynb``; raise InputError with known names."""
    folder = name.split("/", 1)[0]
    if folder not in FOLDERS or ".." in name.split("/"):
        raise InputError(f"{name}: is not bundled with nbaudio; bundled files are in {' or '.join(FOLDERS)}")
    for top in (PACKAGE / "_bundled", PACKAGE.parent):
        if (top / name).exists():
            return top / name
        if (top / folder).is_dir():
            held = sorted(path.name for path in (top / folder).iterdir() if not path.name.startswith((".", "__")))
            raise InputError(f"{name}: is not bundled with nbaudio; {folder} holds {', '.join(held)}")
    raise InputError(
        f"{name}: this installation of nbaudio lacks its {folder}; install the wheel, or a checkout with pip install -e"
    )
