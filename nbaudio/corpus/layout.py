"""Files of a corpus folder, validation of corpus.json, and the claim on a folder.

The claim keeps a folder to one corpus and one run.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, cast

import msgspec

from nbaudio.core.atomic import read_json, remove, remove_partials, sha256_file, write_json
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.storage.folders import Folder, folder_at, read_object
from nbaudio.storage.remote import Remote
from nbaudio.storage.run_log import run_log

CORPUS_JSON = "corpus.json"
TABLES = ("segments.parquet", "rejected.parquet", "vocab.json")
# The claim, and (in the workspace for a corpus at a URL) state and log of an unfinished run
_WORK = ".work"
IDENTITY = f"{_WORK}/identity.json"
UNREADABLE_AUDIO = "unreadable_audio"  # the reason of a segment whose audio cannot be cut
SILENT_AUDIO = "silent_audio"  # the reason of a segment whose clip has no signal
_one_claims = Lock()


@dataclass(frozen=True)
class Layout:
    """A corpus that is being written.

    The layout is its folder, the local folder of an unfinished run, and where the log of a finished
    run goes.
    """

    folder: Folder
    work: Path
    finished_log: Path | None = None

    @classmethod
    def at(cls, out: str | Path, workspace: Path | None = None) -> "Layout":
        """Return the layout of the corpus at a path or URL.

        The workspace that it is made from keeps the log of a finished run.
        """
        where = str(folder_at(out)).rstrip("/")
        name = where.rpartition("/")[2]
        key = hashlib.sha256(where.encode()).hexdigest()[:16]
        home = (workspace or Path()).absolute()
        desk = home / "publishing" / key
        folder = folder_at(out, desk=desk)
        if folder.place.local is None:
            work = desk / "work"
        else:
            work = folder.place.local / _WORK
        if workspace is None:
            return cls(folder, work, None)
        return cls(folder, work, home / "logs" / f"{name}-{key[:8]}.jsonl")

    def __str__(self) -> str:
        return str(self.folder)

    def record(self, shard: str, suffix: str = ".json") -> Path:
        """Return the path of a shard's record, or of another file about it.

        These files exist while the corpus is made.
        """
        return self.work / f"{shard.replace('/', '.')}{suffix}"

    @property
    def plan(self) -> Path:
        """The plan of an unfinished run."""
        return self.work / "plan.parquet"

    @property
    def failures(self) -> Path:
        """The clips that an unfinished run could not cut, with reasons."""
        return self.work / "failures.jsonl"

    @property
    def log(self) -> Path:
        """The run log of an unfinished run."""
        return self.work / "log.jsonl"

    @contextmanager
    def claimed(
        self, identity: dict[str, Any], step: str, logged: Mapping[str, Any]
    ) -> Iterator[bool]:
        """Lock the folder for a corpus with this identity (parameters and selection).

        Yield whether it is already complete.
        """
        self._claimed_by(identity)  # before anything is written there
        with run_log(self.log, step, logged, of=self, keep=self.finished_log):
            marker = self._claimed_by(identity)
            if self.folder.place.local is None:
                self._claim_address(identity)
                marker = self._claimed_by(identity)  # another run may have finished just before
            elif marker != IDENTITY:
                with self.folder.new(IDENTITY) as path:
                    write_json(path, {"identity": identity})
            remove_partials(self.work)
            self.folder.tidy()
            yield marker == CORPUS_JSON

    def _claimed_by(self, identity: dict[str, Any]) -> str | None:
        """Return the file that identifies the folder as this corpus; None if it is empty."""
        marker = next((name for name in (CORPUS_JSON, IDENTITY) if self.folder.exists(name)), None)
        if marker:
            stored = read_object(self.folder, marker).get("identity", {})
            if names := [
                name
                for name in sorted({*stored, *identity})
                if stored.get(name) != identity.get(name)
            ]:
                differ = ", ".join(
                    _difference(name, stored.get(name), identity.get(name)) for name in names
                )
                raise ExistsError(
                    f"{self}: holds a corpus with other parameters ({differ}); "
                    "choose another --out, or delete that folder first"
                )
        # A run that was killed while it claimed the folder leaves only its work folder.
        elif any(not name.startswith(f"{_WORK}/") for name in self.folder.names()):
            raise ExistsError(
                f"{self}: the folder is not empty and not a corpus; choose another for --out"
            )
        return marker

    def _claim_address(self, identity: dict[str, Any]) -> None:
        """Claim an address, which has no locks, for this workspace, whose next run goes on.

        Raise ExistsError if another workspace has claimed it.
        """
        mine = self.work / "claim.json"
        if not mine.exists():
            write_json(mine, {"identity": identity, "workspace": os.urandom(8).hex()})
        with _one_claims:  # threads that share a store without conditional writes
            cast(Remote, self.folder.place / IDENTITY).create(mine)
            claimant = read_object(self.folder, IDENTITY).get("workspace")
        if claimant not in (None, read_json(mine)["workspace"]):
            raise ExistsError(
                f"{self}: workspace {claimant} is making a corpus there; wait for it, or, "
                "if that run was killed, run it again "
                f"or remove {self}/{IDENTITY}"
            )

    def finish(self, corpus_info: dict[str, Any]) -> None:
        """Write corpus.json last, then remove what the run needed to resume."""
        self.folder.tidy()  # workers may have been killed
        with self.folder.new(CORPUS_JSON) as partial:
            write_json(partial, corpus_info)
        self.folder.remove(IDENTITY)
        for path in self.work.iterdir():
            if path != self.log:
                remove(path)


def _object(**fields: Any) -> Any:
    """Return the type of an object with these fields.

    A field whose type is in a tuple may be absent.
    """
    described = [
        (key, *kind, None) if isinstance(kind, tuple) else (key, kind)
        for key, kind in fields.items()
    ]
    return msgspec.defstruct("_", described)


_list_of = list.__class_getitem__
_dict_of = dict.__class_getitem__
_SplitName = Annotated[str, msgspec.Meta(pattern=r"^[^\W\d]\w{0,63}$")]


# Corpora have had these keys since the first version.
_ABOUT = [(key, str | None, None) for key in ("title", "language", "licence")]
_About = msgspec.defstruct("_About", _ABOUT, forbid_unknown_fields=True)
_CorpusInfo = _object(
    nbaudio=str,
    identity=dict[str, Any],
    parameters=_object(container=str, rate=int | None, channel=str, encoding=str),
    splits=_dict_of((_SplitName, _object(segments=int, hours=float, speakers=int, recordings=int))),
    shards=_list_of(
        _object(name=str, split=_SplitName, segments=int, bytes=int, sha256=str, plan=str)
    ),
    tables=dict[str, str],
    rejected=dict[str, int],
    selection=_object(
        parameters=(_object(group_by=(list[str],)),),
        shared_by_fixed_splits=(_list_of(_object(check=str, shared=int)),),
    ),
    leakage=(_dict_of((str, _object(shared=int, segments=int))),),
    sources=(list[dict[str, Any]],),
    table_bytes=(dict[str, int],),
    card=(str,),
    evidence=(dict[str, Any] | None,),
    about=(_About | None,),
    version=(Annotated[int, msgspec.Meta(ge=1)],),
    base=(_object(version=int, sha256=str) | None,),
    tombstones=(_list_of(_object(kind=str, sha256=str, reason=str)),),
)


def read_corpus_info(folder: Folder) -> dict[str, Any]:
    """Read corpus.json, which may come from anywhere, and validate the types of what nbaudio uses.

    Further keys are kept.
    """
    corpus_info = read_object(folder, CORPUS_JSON)
    try:
        tables = msgspec.convert(corpus_info, _CorpusInfo).tables
    except msgspec.ValidationError as error:
        raise InputError(f"{folder}/{CORPUS_JSON}: {error}; is {folder} a corpus?") from error
    if missing := [name for name in TABLES if name not in tables]:
        raise InputError(f"{folder}/{CORPUS_JSON}: tables lack {missing[0]}; is {folder} a corpus?")
    return corpus_info


@contextmanager
def intact_table(folder: Folder, corpus_info: Mapping[str, Any], name: str) -> Iterator[Path]:
    """Yield a table of a corpus on this machine.

    Raise InputError if it is not as it was written.
    """
    with folder.local(name) as path:
        if sha256_file(path) != corpus_info["tables"][name]:
            raise InputError(
                f"{folder}/{name}: changed since it was written; "
                f"'nbaudio verify {folder}' lists all damage"
            )
        yield path


def _difference(name: str, stored: Any, requested: Any) -> str:
    """Say how a parameter differs; a selection is a hash, which says nothing to a person."""
    if name == "selection":
        return "the selection"
    return f"{name} is {stored}, not {requested}"
