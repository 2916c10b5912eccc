"""Workspace: the folder of the tables, reports and caches of a project.

docs/tables.md lists the files that users look at.
"""

import hashlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec
import polars as pl

from nbaudio.core import atomic, input_guards, leftovers
from nbaudio.core.errors import InputError
from nbaudio.core.tracebacks import interruptible
from nbaudio.storage.cache import LIMIT, Cache
from nbaudio.storage.location import Location, location
from nbaudio.storage.run_log import step_lock
from nbaudio.storage.urls import is_url
from nbaudio.tables import dataframes, schemas, split_names, tombstones, workspace_tables

if TYPE_CHECKING:
    import pandas as pd

P = ParamSpec("P")
R = TypeVar("R")

_LOCK_WAIT_S = 10.0  # seconds to wait for a step that writes to the same tables
_locked: ContextVar[frozenset[Path]] = ContextVar("locked", default=frozenset())  # by this thread
# Folders of files that get their names together: while they are written, and when they are
# complete.
_SAVING = leftovers.SAVING
_SAVED = "saved"


#: The kind of control rows that are repeated rows; the others are planted faults.
REPEATED = "repeated"


class _ControlRow(msgspec.Struct):
    """What the record of a review says of a control row, as far as workspaces need it."""

    segment_id: str
    kind: str


class _ReviewedSegments(msgspec.Struct):
    """What the record of a review says of the segments on its sheets."""

    segment_ids: list[str]
    control_rows: list[_ControlRow] = []


@dataclass(frozen=True)
class Workspace:
    """Tables and reports of one workspace folder; every file is replaced atomically.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp() + "/w", source="asr.json", audio=None)
        >>> workspace.settings["source"]
        'asr.json'
    """

    path: Path

    def __post_init__(self) -> None:
        # Workers have other working directories, and that of the caller may change.
        object.__setattr__(self, "path", self.path.absolute())

    def __fspath__(self) -> str:
        return str(self.path)

    @classmethod
    def create(cls, path: str | Path, **settings: Any) -> "Workspace":
        """Create the folder if it does not exist, and store its settings."""
        workspace = cls(Path(path))
        atomic.write_json(workspace.path / "workspace.json", settings)
        return workspace

    @classmethod
    def open(cls, path: "str | Path | Workspace") -> "Workspace":
        """Return the workspace at `path`; raise InputError if the folder is not a workspace."""
        if isinstance(path, Workspace):
            leftovers.remove_leftovers(path.path, own_locks=_locked.get())
            path._finish_saving()
            return path
        workspace = cls(Path(path))
        try:
            input_guards.check_regular(workspace.path / "workspace.json")
        except (FileNotFoundError, NotADirectoryError) as error:
            remedy = f"make one with 'nbaudio ingest FORMAT SOURCE --out {path}'"
            raise InputError(f"{path}: not a workspace (no workspace.json); {remedy}") from error
        leftovers.remove_leftovers(workspace.path, own_locks=_locked.get())
        workspace._finish_saving()
        return workspace

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that `create` stored."""
        return atomic.read_json(self.path / "workspace.json")

    @property
    def generation(self) -> int:
        """1 after the first ingest, one more whenever `ingest --add` adds or changes segments."""
        return int(self.settings.get("generation", 1))

    def fingerprint(self) -> str:
        """Return what identifies the rows of the segments table in a review.

        It is a hash of their ids, and the generation if that is a later one.
        """
        hashed = hashlib.sha256(b"[")
        ids = workspace_tables.scan(self, ["segment_id"]).sort("segment_id")
        parts = ids.collect_batches(**dataframes.IN_ORDER)
        separator = ""
        for part in parts:
            if len(part):
                listed = json.dumps(part["segment_id"].to_list())[1:-1]  # without brackets
                hashed.update(f"{separator}{listed}".encode())
                separator = ", "
        hashed.update(b"]")
        digest = hashed.hexdigest()[:16]
        return digest if self.generation == 1 else f"{digest} {self.generation}"

    def known_states(self, current: str | None = None) -> list[str]:
        """Return the known fingerprints of the segments table.

        They are those from before each change of its rows by a step, and the current one.
        """
        return list(
            dict.fromkeys([*self.settings.get("generations", []), current or self.fingerprint()])
        )

    @property
    def threshold(self) -> float | None:
        """The threshold on similarity, from -1 to 1, that `choose_threshold` stored, or None."""
        path = self.path / "threshold.json"
        if not os.path.lexists(path):
            return None
        value = atomic.read_json(path).get("min_similarity")
        if isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
            raise InputError(f"{path}: min_similarity must be a number from -1 to 1, not {value!r}")
        return float(value)

    def choose_threshold(self, value: float | None) -> None:
        """Store the default threshold on similarity of `select`, from -1 to 1.

        None removes the stored one.

        Examples:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp() + "/w"
            >>> workspace = Workspace.create(folder, source="asr.json", audio=None)
            >>> workspace.choose_threshold(0.83)
            >>> workspace.threshold
            0.83
        """
        path = self.path / "threshold.json"
        if value is None:
            path.unlink(missing_ok=True)
        elif not -1 <= value <= 1:
            raise InputError(f"threshold {value:g}: must be from -1 to 1")
        else:
            atomic.write_json(path, {"min_similarity": float(value)})

    @property
    def audio(self) -> Location | None:
        """The folder or address that `recordings.path` is relative to; None without audio."""
        settings = self.settings
        if not (audio := settings.get("audio")):
            return None
        cache = Cache(self.path / "fetched", settings.get("cache", LIMIT))
        root = location(audio, cache)
        if root.local is None:
            return root
        return location(root.local.absolute(), cache)

    @property
    def audio_root(self) -> Path | Location | None:
        """The same as `audio`, but a `Path` if it is on this machine."""
        return (audio := self.audio) and (audio.local or audio)

    @property
    def recordings(self) -> pl.DataFrame:
        """The recordings table."""
        return workspace_tables.read(self, table="recordings")

    @property
    def segments(self) -> pl.DataFrame:
        """The segments table."""
        return workspace_tables.read(self)

    @property
    def withdrawn(self) -> pl.DataFrame:
        """The tombstones of what was withdrawn (`core.tombstones.TOMBSTONES`).

        The table is empty if nothing was.
        """
        return self.table(tombstones.WITHDRAWN, tombstones.TOMBSTONES)

    @property
    def growth(self) -> pl.DataFrame:
        """The segments that `ingest --add` added or changed, as `tables.GROWN`."""
        return self.table(schemas.GROWTH, schemas.GROWN)

    def table(self, name: str, absent: pl.Schema | None = None) -> pl.DataFrame:
        """Read any table by name, such as ``names``.

        If there is none, raise InputError or return no rows of a schema.
        """
        if absent is not None and not workspace_tables.table_path(self, name).exists():
            return pl.DataFrame(schema=absent)
        return workspace_tables.read(self, table=name)

    @property
    def joined_columns(self) -> Collection[str]:
        """The columns that `join`, `recognize` and models of `measure` wrote."""
        joined: dict[str, Any] = self.settings.get("joined", {})
        return joined

    @property
    def measured_columns(self) -> dict[str, dict[str, Any]]:
        """The columns that models of `measure` wrote, in order of names, with facts on each.

        Facts are `name` (of the model), `type`, `version`, and `unit` if the model states one.
        """
        joined: dict[str, dict[str, Any]] = self.settings.get("joined", {})
        return {
            column: record
            for column, record in sorted(joined.items())
            if record.get("step") == "measure"
        }

    @property
    def has_raw_texts(self) -> bool:
        """Whether the source brought, or `join` wrote, any `text_raw`."""
        if schemas.RAW_TEXT not in workspace_tables.table_schema(self):
            return False
        any_value = pl.col(schemas.RAW_TEXT).is_not_null().any()
        return bool(
            workspace_tables.scan(self, [schemas.RAW_TEXT]).select(any_value).collect().item()
        )

    def transcript(self, column: str) -> pl.Expr:
        """Return the values of a transcript, a column of the segments table, as an expression.

        A source leaves `text_raw` out where it is that of `text`, which then stands for it. What
        `join` wrote is taken as it is.
        """
        if column == schemas.RAW_TEXT and column not in self.joined_columns:
            return pl.coalesce(schemas.RAW_TEXT, "text")
        return pl.col(column)

    def to_pandas(self, table: str = "segments") -> "pd.DataFrame":
        """Return a table by name, such as ``segments`` or ``recordings``, as a pandas frame.

        `split` and `decision` are categorical, integers with nulls are float64 with NaN. A missing
        table raises InputError.

        Examples:
            >>> import tempfile
            >>> workspace = Workspace.create(tempfile.mkdtemp())
            >>> segments = pl.DataFrame({"segment_id": ["a", "b"], "similarity": [0.5, None]})
            >>> workspace.save(segments=segments)
            >>> float(workspace.to_pandas()["similarity"].mean())
            0.5
        """
        frame = self.table(table)
        if "split" in frame.columns:
            frame = frame.with_columns(
                pl.col("split").cast(pl.Enum(split_names.listed_splits(frame["split"].unique())))
            )
        return frame.to_pandas()

    def save(self, **named: dataframes.Frame | pl.LazyFrame | Iterator[pl.DataFrame]) -> None:
        """Write pandas or polars tables, or iterators of frames, by name, each atomically."""
        for name, table in named.items():
            workspace_tables.write(self, _rows_of(table, name), table=name)

    def save_together(
        self,
        *,
        settings: Mapping[str, Any] | None = None,
        **named: dataframes.Frame | pl.LazyFrame | Iterator[pl.DataFrame],
    ) -> None:
        """Write tables (frames, or iterators of frames) and settings that belong together.

        If the run is killed, all of them are written, or none.
        """
        staged = self.path / _SAVING
        atomic.remove(staged)
        try:
            for name, table in named.items():
                workspace_tables.write(staged, _rows_of(table, name), table=name)
            if settings is not None:
                atomic.write_json(staged / "workspace.json", settings)
        except BaseException:
            atomic.remove(staged)
            raise
        staged.replace(self.path / _SAVED)
        self._finish_saving()

    def _finish_saving(self) -> None:
        """Move the files of a complete `save_together` to their names.

        The files of a killed run are moved, too.
        """
        saved = self.path / _SAVED
        for path in sorted(saved.glob("*")):
            with suppress(FileNotFoundError):  # another process does the same
                path.replace(self.path / path.name)
        with suppress(OSError):
            saved.rmdir()

    def report(self, step: str) -> dict[str, Any]:
        """Return the last report of a step; empty if it has not run."""
        path = self.path / f"reports/{step}.json"
        return atomic.read_json(path) if os.path.lexists(path) else {}

    def save_report(self, step: str, report: dict[str, Any]) -> None:
        """Store the report of a step."""
        atomic.write_json(self.path / f"reports/{step}.json", report)

    def reviewed(self) -> dict[str, set[str]]:
        """Return the segments of each review by its name, those of control rows included."""
        return {
            name: {*record.segment_ids, *(row.segment_id for row in record.control_rows)}
            for name, record in self._review_records().items()
        }

    def planted_ids(self) -> set[str]:
        """Return the segments that planted faults of reviews name: they never ship."""
        return {
            row.segment_id
            for record in self._review_records().values()
            for row in record.control_rows
            if row.kind != REPEATED
        }

    def _review_records(self) -> dict[str, _ReviewedSegments]:
        """Return the segments in the records of reviews, by the name of the review."""
        records = {}
        for path in sorted((self.path / "reviews").glob("*.json")):
            try:
                records[path.stem] = msgspec.convert(atomic.read_json(path), _ReviewedSegments)
            except msgspec.ValidationError as error:
                raise InputError(f"{path}: not the record of a review: {error}") from error
        return records

    def reviewed_ids(self) -> set[str]:
        """Return the segments of all reviews."""
        return set().union(*self.reviewed().values())


def _rows_of(table: Any, name: str) -> Any:
    if isinstance(table, Iterator | pl.LazyFrame):
        return table
    return dataframes.as_polars(table, name)


def _local_folder(argument: Any) -> Path | None:
    """Return the folder of a workspace, of an object that has one, or of a path.

    Return None for a URL and for anything else.
    """
    path = getattr(getattr(argument, "workspace", argument), "path", argument)
    if not isinstance(path, str | Path) or is_url(str(path)):
        return None
    return Path(path).absolute()


def locks_workspace(
    step: str, what: str = "tables", *, new: str = ""
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Lock `what` of a workspace while a function runs.

    The workspace is the first argument, or a possibly `new` one in the argument of that name.
    """

    def locking(function: Callable[P, R]) -> Callable[P, R]:
        """Return the function, called under the lock of its workspace."""

        @interruptible
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            """Call the function, with the lock if its argument is a local workspace."""
            first = None if new or not args else args[0]
            folder = _local_folder(kwargs.get(new or "workspace", first))
            # Nothing is written to what is no workspace; the function raises an error.
            if folder is None or not (
                (folder / "workspace.json").is_file() or (new and _is_free(folder))
            ):
                return function(*args, **kwargs)
            # Calls within a call share its lock; readers need none
            if (mark := folder / f".{what}.running") in _locked.get():
                return function(*args, **kwargs)
            leftovers.remove_leftovers(folder, own_locks=_locked.get())
            token = _locked.set(_locked.get() | {mark})
            try:
                with step_lock(mark, step, of=folder, wait_s=_LOCK_WAIT_S):
                    return function(*args, **kwargs)
            finally:
                _locked.reset(token)

        return call

    return locking


def _is_free(folder: Path) -> bool:
    """Return whether a path has nothing, or an empty folder."""
    return not os.path.lexists(folder) or (folder.is_dir() and not any(folder.glob("[!.]*")))
