"""The notebooks and manifests that come with nbaudio: where they are, installed or in a checkout.

Names are POSIX paths as in the repository, such as ``notebooks/01_ingest.ipynb`` or ``data_manifests/demo.yaml``.
"""

from pathlib import Path

from nbaudio.core.errors import InputError

PACKAGE = Path(__file__).resolve().parents[1]
FOLDERS = ("notebooks", "data_manifests")


def bundled(name: str) -> Path:
    """The path of a file or folder that comes with nbaudio.

    Args:
        name: its path below the repository's top; it begins with ``notebooks`` or ``data_manifests``.

    Returns:
        An absolute path: inside the installed package, or in the checkout that an editable install points to.

    Raises:
        InputError: there is no such thing; the message names what its folder holds.

    Examples:
        >>> bundled("data_manifests/demo.yaml").name
        'demo.yaml'
        >>> bundled("data_manifests/demo.yml")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        nbaudio.core.errors.InputError: data_manifests/demo.yml: does not come with nbaudio; data_manifests holds ...
    """
    folder = name.split("/", 1)[0]
    if folder not in FOLDERS or ".." in name.split("/"):
        raise InputError(f"{name}: does not come with nbaudio; what does lies in {' or '.join(FOLDERS)}")
    for top in (PACKAGE / "_bundled", PACKAGE.parent):
        if (top / name).exists():
            return top / name
        if (top / folder).is_dir():
            held = sorted(path.name for path in (top / folder).iterdir() if not path.name.startswith((".", "__")))
            raise InputError(f"{name}: does not come with nbaudio; {folder} holds {', '.join(held)}")
    raise InputError(
        f"{name}: this installation of nbaudio lacks its {folder}; install the wheel, or a checkout with pip install -e"
    )
