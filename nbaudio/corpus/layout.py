"""Where things lie in a corpus folder, and whose folder it is.

CORPUS/corpus.json is written last: where it is, the corpus is whole. CORPUS/.work holds what an unfinished run needs to go on; of
a corpus that lies elsewhere, all but the claim is in the workspace. The log of an unfinished run is there too; that of a finished
one is in the workspace.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbaudio.core.errors import ExistsError
from nbaudio.storage.atomic import remove, remove_partials
from nbaudio.storage.folders import Folder, LocalFolder, folder_at, read_object, write_object
from nbaudio.storage.run_log import run_log

MANIFEST = "corpus.json"
TABLES = ("segments.parquet", "rejected.parquet", "vocab.json")
_WORK = ".work"
UNREADABLE_AUDIO = "unreadable_audio"
"""The rule that puts a segment out whose audio fails while it is cut."""
IDENTITY = f"{_WORK}/identity.json"
_SHARD_NAME = re.compile(r"(?P<split>\w+)/((?P=split)-\d{5}-of-\d{5}(\.\w+|/[^/]+)|recording\.\d{6}\.tar)")


@dataclass(frozen=True)
class Layout:
    """One corpus.

    Attributes:
        folder: where it is.
        work: the folder of an unfinished run, on this machine.
        log_kept: where the log of a run goes that ends well; None keeps none.
    """

    folder: Folder
    work: Path
    log_kept: Path | None = None

    @classmethod
    def at(cls, out: str | Path, workspace: Path) -> "Layout":
        """The corpus at a path or address, made from a workspace.

        Raises:
            InputError: the address is not usable.
        """
        where = str(folder_at(out)).rstrip("/")
        name, key = where.rpartition("/")[2], hashlib.sha256(where.encode()).hexdigest()[:16]
        workspace = workspace.absolute()
        desk = workspace / "publishing" / key
        folder = folder_at(out, desk=desk)
        work = folder.root / _WORK if isinstance(folder, LocalFolder) else desk / "work"
        return cls(folder, work, workspace / "logs" / f"{name}-{key[:8]}.jsonl")

    def __str__(self) -> str:
        return str(self.folder)

    def record(self, shard: str) -> Path:
        """Where the record of a shard lies while the corpus is made."""
        return self.work / f"{shard.replace('/', '.')}.json"

    @property
    def log(self) -> Path:
        """Where a run logs what it does."""
        return self.work / "log.jsonl"

    @contextmanager
    def claimed(self, identity: dict[str, Any], step: str, told: Mapping[str, Any]) -> Iterator[bool]:
        """Hold the folder, alone, for a corpus of this identity (parameters and selection), new or gone on with.

        Args:
            identity: what makes the corpus this one.
            step: the command that makes it, and what it was told, for the log.
            told: see there.

        Yields:
            Whether a whole corpus of this identity is there already.

        Raises:
            ExistsError: the folder holds something else, or another run is at work there; says how to go on.
        """
        self._held(identity)  # before anything is written there
        with run_log(self.log, step, told, of=self, keep=self.log_kept):
            held = self._held(identity)
            if held != IDENTITY:
                write_object(self.folder, IDENTITY, {"identity": identity})
            remove_partials(self.work)
            self.folder.tidy()
            yield held == MANIFEST

    def _held(self, identity: dict[str, Any]) -> str | None:
        """What says that the folder is that of this corpus; None where it is empty."""
        held = next((name for name in (MANIFEST, IDENTITY) if self.folder.exists(name)), None)
        if held:
            _compare(self, read_object(self.folder, held).get("identity", {}), identity)
        # A run that was killed while it claimed the folder has left its work folder only.
        elif any(not name.startswith(f"{_WORK}/") for name in self.folder.names()):
            raise ExistsError(f"{self}: the folder is not empty and not a corpus; choose another for --out")
        return held

    def keep_only(self, shards: set[str]) -> None:
        """Remove shards of an interrupted run that are not among `shards`, the names of this one's."""
        for name in sorted(shard_names(self.folder) - shards):
            if name.rpartition("/")[0] not in shards:
                self.folder.remove(name)

    def finish(self, manifest: dict[str, Any]) -> None:
        """Publish: the manifest last, then what the run needed to go on goes."""
        self.folder.tidy()  # workers may have been killed
        write_object(self.folder, MANIFEST, manifest)
        self.folder.remove(IDENTITY)
        for path in self.work.iterdir():
            if path != self.log:
                remove(path)


def shard_names(folder: Folder) -> set[str]:
    """All files of a corpus that have the name of a shard, or of a file in one."""
    return {name for name in folder.names() if _SHARD_NAME.fullmatch(name)}


def _compare(layout: Layout, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    if found == wanted:
        return
    names = [name for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)]
    differ = ", ".join("the selection" if n == "selection" else f"{n} is {found.get(n)}, not {wanted.get(n)}" for n in names)
    raise ExistsError(f"{layout}: holds a corpus made otherwise ({differ}); choose another --out, or delete that folder first")
