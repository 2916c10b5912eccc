"""Notebooks and manifests that ship with nbaudio, located in a wheel or a checkout.

The front end of widgets and pages is found here, too.
"""

from pathlib import Path

from nbaudio.core.errors import InputError

PACKAGE = Path(__file__).resolve().parents[1]
FOLDERS = ("notebooks", "data_manifests")
_PLAYER = ("diff", "player_drawing", "player_timeline", "player_bounds", "player_clips", "player")


def bundled(name: str) -> Path:
    """Return the path of a bundled file or folder, such as ``notebooks/01_ingest.ipynb``.

    Raise InputError, with the known names, if it is not bundled.
    """
    folder = name.split("/", 1)[0]
    if folder not in FOLDERS or ".." in name.split("/"):
        raise InputError(
            f"{name}: is not bundled with nbaudio; bundled files are in {' or '.join(FOLDERS)}"
        )
    for top in (PACKAGE / "_bundled", PACKAGE.parent):
        if (top / name).exists():
            return top / name
        if (top / folder).is_dir():
            file_names = sorted(
                path.name
                for path in (top / folder).iterdir()
                if not path.name.startswith((".", "__"))
            )
            raise InputError(
                f"{name}: is not bundled with nbaudio; {folder} holds {', '.join(file_names)}"
            )
    raise InputError(
        f"{name}: this installation of nbaudio lacks its {folder}; install the wheel, "
        "or a checkout with pip install -e"
    )


def front_end(*names: str, kind: str = "js") -> str:
    """Concatenate files of the widgets, JavaScript unless `kind` is another ending.

    ``player`` stands for all files of the player.
    """
    files: dict[str, None] = {}
    for name in names:
        parts = _PLAYER if name == "player" else (name,)
        files |= dict.fromkeys(parts)
    folder = PACKAGE / "ui" / "widgets" / "js"
    return "\n".join((folder / f"{name}.{kind}").read_text(encoding="utf8") for name in files)
