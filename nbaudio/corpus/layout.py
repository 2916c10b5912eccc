"""Where things lie in a corpus folder, and whose folder it is.

CORPUS/corpus.json is written last: where it is, the corpus is whole. CORPUS/.work holds what an unfinished run needs to go on; of
a corpus that lies elsewhere, all but the claim is in the workspace.
"""

import hashlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.errors import ExistsError
from nbaudio.files import remove_partials
from nbaudio.folders import Folder, LocalFolder, folder_at, read_object, write_object

MANIFEST = "corpus.json"
TABLES = ("segments.parquet", "rejected.parquet", "vocab.json")
_WORK = ".work"
CLAIM = f"{_WORK}/identity.json"
_SHARD_NAME = re.compile(r"(?P<split>\w+)/((?P=split)-\d{5}-of-\d{5}(\.\w+|/[^/]+)|recording\.\d{6}\.tar)")


@dataclass(frozen=True)
class Layout:
    """One corpus.

    Attributes:
        folder: where it is.
        work: the folder of an unfinished run, on this machine.
    """

    folder: Folder
    work: Path

    @classmethod
    def at(cls, out: str | Path, workspace: Path) -> "Layout":
        """The corpus at a path or address, made from a workspace.

        Raises:
            InputError: the address is not usable.
        """
        desk = workspace.absolute() / "publishing" / hashlib.sha256(str(out).rstrip("/").encode()).hexdigest()[:16]
        folder = folder_at(out, desk=desk)
        return cls(folder, folder.root / _WORK if isinstance(folder, LocalFolder) else desk / "work")

    def __str__(self) -> str:
        return str(self.folder)

    def record(self, shard: str) -> Path:
        """Where the record of a shard lies while the corpus is made."""
        return self.work / f"{shard.replace('/', '.')}.json"

    def claim(self, identity: dict[str, Any]) -> bool:
        """Take the folder for a corpus of this identity (parameters and selection), or go on with it.

        Returns:
            Whether a whole corpus of this identity is there already.

        Raises:
            ExistsError: the folder holds something else; names what differs and how to go on.
        """
        held = next((name for name in (MANIFEST, CLAIM) if self.folder.exists(name)), None)
        if held:
            _compare(self, read_object(self.folder, held).get("identity", {}), identity)
        # A run that was killed while it claimed the folder has left its work folder only.
        elif any(not name.startswith(f"{_WORK}/") for name in self.folder.names()):
            raise ExistsError(f"{self}: the folder is not empty and not a corpus; choose another for --out")
        if held != CLAIM:
            write_object(self.folder, CLAIM, {"identity": identity})
        self.work.mkdir(parents=True, exist_ok=True)
        remove_partials(self.work)
        self.folder.tidy()
        return held == MANIFEST

    def keep_only(self, shards: set[str]) -> None:
        """Remove shards of an interrupted run that are not among `shards`, the names of this one's."""
        for name in sorted(shard_names(self.folder) - shards):
            if name.rpartition("/")[0] not in shards:
                self.folder.remove(name)

    def finish(self, manifest: dict[str, Any]) -> None:
        """Publish: the manifest last, then the work folder goes."""
        write_object(self.folder, MANIFEST, manifest)
        self.folder.remove(CLAIM)
        shutil.rmtree(self.work, ignore_errors=True)


def clips_in(shard: str) -> pl.Expr:
    """Which rows of a corpus's table are of clips in a shard, itself a file or a folder of files."""
    return (pl.col("shard") == shard) | pl.col("shard").str.starts_with(f"{shard}/")


def shard_names(folder: Folder) -> set[str]:
    """All files of a corpus that have the name of a shard, or of a file in one."""
    return {name for name in folder.names() if _SHARD_NAME.fullmatch(name)}


def _compare(layout: Layout, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    if found == wanted:
        return
    names = [name for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)]
    differ = ", ".join("the selection" if n == "selection" else f"{n} is {found.get(n)}, not {wanted.get(n)}" for n in names)
    raise ExistsError(f"{layout}: holds a corpus made otherwise ({differ}); choose another --out, or delete that folder first")
