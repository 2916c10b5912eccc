"""A workspace: the folder that holds the tables and what each step reported.

W/workspace.json       where transcripts and audio came from
W/recordings.parquet   W/segments.parquet   W/names.parquet (how each name was resolved)
W/problems.parquet     what could not be read, with file, item and reason
W/decisions.parquet    what people accept and reject by hand, which `select` follows
W/threshold.json       the threshold on similarity that was chosen in the tuner
W/reports/<step>.json  what each step reported
W/reviews/<name>.json  which segments reviewers were given
W/packs/               encoded clips, kept so that another threshold, split or container costs no decode
W/fetched/             recordings that lie elsewhere, as far as the bound of this cache lets them stay
W/source/              transcripts that lie elsewhere
W/logs/<corpus>.jsonl  what the run did that finished a corpus
W/publishing/          what is on its way to a corpus that lies elsewhere, and what came there
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from nbaudio.errors import InputError, brief
from nbaudio.files import full_disk, read_json, whole_file, write_json
from nbaudio.frames import Frame, as_polars
from nbaudio.limits import check_regular
from nbaudio.places.addresses import is_address
from nbaudio.places.cache import LIMIT, Cache
from nbaudio.places.remote import Remote, remote
from nbaudio.tables import RECORDINGS, ROWS_A_GROUP, SEGMENTS, conform, parquet_schema, read_parquet

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Workspace:
    """Reads and writes one workspace folder; every file is replaced whole.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp() + "/w", source="asr.json", audio=None)
        >>> workspace.settings["source"]
        'asr.json'
    """

    path: Path

    def __post_init__(self) -> None:
        # Workers have other working directories, and the caller's may change.
        object.__setattr__(self, "path", self.path.absolute())

    @classmethod
    def create(cls, path: str | Path, **settings: Any) -> "Workspace":
        """Make the folder, or take the one that is there, and note its settings."""
        workspace = cls(Path(path))
        write_json(workspace.path / "workspace.json", settings)
        return workspace

    @classmethod
    def open(cls, path: "str | Path | Workspace") -> "Workspace":
        """The workspace at `path`.

        Raises:
            InputError: there is no workspace.
        """
        if isinstance(path, Workspace):
            return path
        workspace = cls(Path(path))
        try:
            check_regular(workspace.path / "workspace.json")
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputError(
                f"{path}: not a workspace (no workspace.json); make one with 'nbaudio ingest FORMAT SOURCE --out {path}'"
            ) from error
        return workspace

    @property
    def settings(self) -> dict[str, Any]:
        """What `create` noted."""
        return read_json(self.path / "workspace.json")

    @property
    def threshold(self) -> float | None:
        """The threshold on similarity that `choose_threshold` stored, None where none is.

        Raises:
            InputError: the file has none from -1 to 1.
        """
        path = self.path / "threshold.json"
        if not os.path.lexists(path):
            return None
        value = read_json(path).get("min_similarity")
        if isinstance(value, bool) or not isinstance(value, int | float) or not -1 <= value <= 1:
            raise InputError(f"{path}: min_similarity must be a number from -1 to 1, not {value!r}")
        return float(value)

    def choose_threshold(self, value: float | None) -> None:
        """Store the threshold on similarity that `select` takes unless it is told another; None stores none.

        Args:
            value: from -1 to 1.

        Raises:
            InputError: it is not.

        Examples:
            >>> import tempfile
            >>> workspace = Workspace.create(tempfile.mkdtemp() + "/w", source="asr.json", audio=None)
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
            write_json(path, {"min_similarity": float(value)})

    @property
    def audio_root(self) -> Path | Remote | None:
        """The folder that `recordings.path` is relative to; None while there is no audio."""
        audio = self.settings.get("audio")
        if audio and is_address(audio):
            return remote(audio, Cache(self.path / "fetched", self.settings.get("cache", LIMIT)))
        return Path(audio).absolute() if audio else None

    @property
    def recordings(self) -> pl.DataFrame:
        """The recordings table."""
        return self._conformed(self.table("recordings"), "recordings", "recording_id", RECORDINGS)

    @property
    def segments(self) -> pl.DataFrame:
        """The segments table."""
        return self._conformed(self.table("segments"), "segments", "segment_id", SEGMENTS)

    def table(self, name: str) -> pl.DataFrame:
        """Any table of the workspace by name, such as ``names`` or ``problems``.

        Raises:
            InputError: it is not there or not a Parquet file.
        """
        return read_parquet(self.path / f"{name}.parquet")

    def segment_columns(self, *names: str) -> pl.DataFrame:
        """Some columns of the segments table, the others not read: transcripts and word times are most of it.

        Further columns of a source are left out where they are not there.
        """
        path = self.path / "segments.parquet"
        held = parquet_schema(path)
        frame = read_parquet(path, [name for name in dict.fromkeys(("segment_id", *names)) if name in held])
        whole = self._conformed(frame, "segments", "segment_id", SEGMENTS)
        return whole.select(name for name in names if name in whole.columns)

    def to_pandas(self, table: str = "segments") -> "pd.DataFrame":
        """A table as a pandas frame; `split` and `decision` are categorical, whole numbers with gaps are float64 with NaN.

        Args:
            table: ``segments``, ``recordings``, or another one by its name, as of `table`.

        Raises:
            InputError: it is not there or not a Parquet file.

        Examples:
            >>> import tempfile
            >>> workspace = Workspace.create(tempfile.mkdtemp())
            >>> workspace.save(segments=pl.DataFrame({"segment_id": ["a", "b"], "similarity": [0.5, None]}))
            >>> float(workspace.to_pandas()["similarity"].mean())
            0.5
        """
        frame = self.segments if table == "segments" else self.recordings if table == "recordings" else self.table(table)
        return frame.to_pandas()

    def save(self, **tables: Frame) -> None:
        """Write tables by name, of pandas or polars, each whole or not at all."""
        for name, table in tables.items():
            frame = as_polars(table, name)
            with whole_file(self.path / f"{name}.parquet") as partial:
                frame.write_parquet(partial, row_group_size=ROWS_A_GROUP)

    def replace_columns(self, columns: pl.DataFrame) -> None:
        """Replace columns of the segments table, row by row; stream the other columns from file to file.

        Raises:
            InputError: the table is not there, cannot be read, or a column has another type.

        Examples:
            >>> import tempfile
            >>> workspace = Workspace.create(tempfile.mkdtemp())
            >>> workspace.save(segments=pl.DataFrame({"segment_id": ["a", "b"], "text": ["da", "ne"]}))
            >>> workspace.replace_columns(pl.DataFrame({"similarity": [0.5, 1.0]}))
            >>> workspace.segments.select("text", "similarity").rows()
            [('da', 0.5), ('ne', 1.0)]
        """
        path = self.path / "segments.parquet"
        held = parquet_schema(path)
        odd = [name for name, dtype in SEGMENTS.items() if name not in columns.columns and held.get(name) != dtype]
        new = pl.concat([columns, self.segment_columns(*odd)], how="horizontal") if odd else columns
        order = dict.fromkeys((*SEGMENTS, *held, *new.columns))
        kept = pl.scan_parquet(path, glob=False).drop(new.columns, strict=False)
        with whole_file(path) as partial:
            try:
                whole = pl.concat([kept, new.lazy()], how="horizontal").select(*order)
                whole.sink_parquet(partial, row_group_size=ROWS_A_GROUP)
            except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
                if full_disk(error):
                    raise
                raise InputError(f"{path}: not a readable Parquet file ({brief(error)})") from error

    def report(self, step: str) -> dict[str, Any]:
        """What a step reported last; empty when it has not run."""
        path = self.path / f"reports/{step}.json"
        return read_json(path) if os.path.lexists(path) else {}

    def save_report(self, step: str, report: dict[str, Any]) -> None:
        """Keep what a step reported."""
        write_json(self.path / f"reports/{step}.json", report)

    def reviewed(self) -> dict[str, set[str]]:
        """Segments that reviewers were given, by the name of the review."""
        given: dict[str, set[str]] = {}
        for path in sorted((self.path / "reviews").glob("*.json")):
            try:
                given[path.stem] = set(msgspec.convert(read_json(path).get("segment_ids"), list[str]))
            except msgspec.ValidationError as error:
                raise InputError(f"{path}: not the record of a review: segment_ids: {error}") from error
        return given

    def reviewed_ids(self) -> set[str]:
        """Segments that any reviewer was given in a round."""
        return set().union(*self.reviewed().values())

    def _conformed(self, frame: pl.DataFrame, table: str, key: str, schema: pl.Schema) -> pl.DataFrame:
        """A table with the columns of its schema (see `tables.conform`).

        Raises:
            InputError: it lacks its key, or a column has another type; names the file.
        """
        path = self.path / f"{table}.parquet"
        if frame.columns and key not in frame.columns:
            raise InputError(f"{path}: the key column {key} is missing; columns are {', '.join(frame.columns) or 'none'}")
        return conform(frame, schema, str(path))
