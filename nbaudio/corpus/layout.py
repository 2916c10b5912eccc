"""Where things lie in a corpus folder, and whose folder it is.

CORPUS/corpus.json is written last: where it is, the corpus is whole. CORPUS/.work holds what an unfinished run needs to go on.
"""

import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbaudio.errors import ExistsError
from nbaudio.files import read_json, write_json

SHARD_NAME = re.compile(r"(?P<split>\w+)-\d{5}-of-\d{5}\.\w+")


@dataclass(frozen=True)
class Layout:
    """The paths of one corpus folder."""

    root: Path

    @property
    def manifest(self) -> Path:
        """corpus.json."""
        return self.root / "corpus.json"

    @property
    def work(self) -> Path:
        """The folder of an unfinished run."""
        return self.root / ".work"

    def record(self, shard: str) -> Path:
        """Where the record of a shard lies while the corpus is made."""
        return self.work / f"{Path(shard).name}.json"

    def shard_files(self) -> list[Path]:
        """All files that have a shard's name, in order."""
        return sorted(p for p in self.root.glob("*/*") if (m := SHARD_NAME.fullmatch(p.name)) and m["split"] == p.parent.name)

    def claim(self, identity: dict[str, Any]) -> bool:
        """Take the folder for a corpus of this identity (parameters and selection), or go on with it.

        Returns:
            Whether a whole corpus of this identity is there already.

        Raises:
            ExistsError: the folder holds something else; names what differs and how to go on.
        """
        claimed = self.work / "identity.json"
        for path in (self.manifest, claimed):
            if path.is_file():
                _compare(self.root, read_json(path).get("identity", {}), identity)
                break
        else:
            # A run that was killed while it claimed the folder has left its work folder only.
            if self.root.is_dir() and any(path != self.work for path in self.root.iterdir()):
                raise ExistsError(f"{self.root}: the folder is not empty and not a corpus; choose another for --out")
        write_json(claimed, {"identity": identity})
        return self.manifest.is_file()

    def keep_only(self, shards: set[str]) -> None:
        """Remove shards of an interrupted run that are not among `shards`, the names of this one's."""
        for path in self.shard_files():
            if path.relative_to(self.root).as_posix() not in shards:
                path.unlink()

    def finish(self, manifest: dict[str, Any]) -> None:
        """Publish: the manifest last, then the work folder goes."""
        write_json(self.manifest, manifest)
        shutil.rmtree(self.work, ignore_errors=True)


def _compare(root: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    if found == wanted:
        return
    names = [name for name in sorted({*found, *wanted}) if found.get(name) != wanted.get(name)]
    differ = ", ".join("the selection" if n == "selection" else f"{n} is {found.get(n)}, not {wanted.get(n)}" for n in names)
    raise ExistsError(f"{root}: holds a corpus made otherwise ({differ}); choose another --out, or delete that folder first")
