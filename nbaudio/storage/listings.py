"""List remote folders, by their filesystem or by the links of their web page."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from nbaudio.storage.urls import stays_inside

_DEEPEST = 30


def filter_names(names: Iterable[str], wanted: Callable[[str], bool]) -> tuple[list[str], list[tuple[str, str]]]:
    """Names that are wanted and not hidden, sorted; and those that lead out of their folder, each with that reason.

    Examples:
        >>> filter_names(["b.wav", ".a.wav", "../c.wav", "a/d.txt"], lambda name: name.endswith("wav"))
        (['b.wav'], [('../c.wav', 'its name leads out of the audio folder')])
    """
    paths, refused = [], []
    for name in sorted(names):
        parts = name.split("/")
        if not wanted(name) or any(part.startswith(".") and part not in (".", "..") for part in parts):
            continue
        if stays_inside(name):
            paths.append(name)
        else:
            refused.append((name, "its name leads out of the audio folder"))
    return paths, refused


def files(fs: Any, folder: str, levels: int) -> Iterator[str]:
    """Files below a folder: below its second level by one request each, as one for all would hold facts on each at once.

    Raises:
        FileNotFoundError: there is no such folder.
    """
    for entry in fs.ls(folder, detail=True):
        name = entry["name"].rstrip("/")
        if entry["type"] != "directory":
            yield name
        elif name.strip("/") != folder.strip("/"):  # stores may hold a marker of the folder itself
            yield from files(fs, name, levels - 1) if levels else fs.find(name)


def links(fs: Any, top: str) -> set[str]:
    """What the pages of a web folder link to below it, relative to it."""
    top = f"{top.rstrip('/')}/"
    names: set[str] = set()
    seen, folders = {top}, [top]
    while folders:
        folder = folders.pop()
        for link in fs.ls(folder, detail=False):
            # Servers link to themselves in other orders: ?C=M;O=A.
            if link in seen or not link.startswith(folder) or "?" in link or "#" in link:
                continue
            seen.add(link)
            name = unquote(link.removeprefix(top))
            if not link.endswith("/"):
                names.add(name)
            elif name.count("/") <= _DEEPEST and stays_inside(name.rstrip("/")):
                folders.append(link)
    return names
