"""A workspace: the folder that holds the tables and what each step reported.

W/workspace.json       where transcripts and audio came from
W/recordings.parquet   W/segments.parquet   W/names.parquet (how each name was resolved)
W/problems.parquet     what could not be read, with file, item and reason
W/reports/<step>.json  what each step reported
W/reviews/<name>.json  which segments reviewers were given
W/packs/               encoded clips, kept so that another threshold, split or container costs no decode
W/fetched/             recordings that lie elsewhere, as far as the bound of this cache lets them stay
W/source/              transcripts that lie elsewhere
W/logs/<corpus>.jsonl  what the run did that finished a corpus
W/publishing/          what is on its way to a corpus that lies elsewhere, and what came there
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.errors import InputError
from nbaudio.files import read_json, whole_file, write_json
from nbaudio.places import Remote, remote
from nbaudio.places.addresses import is_address
from nbaudio.places.cache import LIMIT, Cache
from nbaudio.tables import RECORDINGS, ROWS_A_GROUP, SEGMENTS, conform


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
        if not (workspace.path / "workspace.json").is_file():
            raise InputError(
                f"{path}: not a workspace (no workspace.json); make one with 'nbaudio ingest FORMAT SOURCE --out {path}'"
            )
        return workspace

    @property
    def settings(self) -> dict[str, Any]:
        """What `create` noted."""
        return read_json(self.path / "workspace.json")

    @property
    def audio_root(self) -> Path | Remote | None:
        """The folder that `recordings.path` is relative to; None while there is no audio."""
        audio = self.settings.get("audio")
        if audio and is_address(audio):
            return remote(audio, Cache((self.path / "fetched").absolute(), self.settings.get("cache", LIMIT)))
        return Path(audio) if audio else None

    @property
    def recordings(self) -> pl.DataFrame:
        """The recordings table."""
        return conform(self.table("recordings"), RECORDINGS, "recordings")

    @property
    def segments(self) -> pl.DataFrame:
        """The segments table."""
        return conform(self.table("segments"), SEGMENTS, "segments")

    def table(self, name: str) -> pl.DataFrame:
        """Any table of the workspace by name, such as ``names`` or ``problems``.

        Raises:
            InputError: it is not there or not a Parquet file.
        """
        path = self.path / f"{name}.parquet"
        try:
            return pl.read_parquet(path, glob=False)
        except FileNotFoundError as error:
            raise InputError(f"{path}: missing; run the step that makes it again") from error
        except pl.exceptions.PolarsError as error:
            raise InputError(f"{path}: not a readable Parquet file ({error})") from error

    def segment_columns(self, *names: str) -> pl.DataFrame:
        """Some columns of the segments table, the others not read: transcripts and word times are most of it.

        Further columns of a source are left out where they are not there.
        """
        path = self.path / "segments.parquet"
        try:
            held = [name for name in names if name in pl.scan_parquet(path, glob=False).collect_schema()]
            frame = pl.read_parquet(path, columns=held, glob=False)
        except FileNotFoundError as error:
            raise InputError(f"{path}: missing; run the step that makes it again") from error
        except pl.exceptions.PolarsError as error:
            raise InputError(f"{path}: not a readable Parquet file ({error})") from error
        whole = conform(frame, SEGMENTS, "segments")
        return whole.select(name for name in names if name in whole.columns)

    def save(self, **tables: pl.DataFrame) -> None:
        """Write tables by name, each whole or not at all."""
        for name, frame in tables.items():
            with whole_file(self.path / f"{name}.parquet") as partial:
                frame.write_parquet(partial, row_group_size=ROWS_A_GROUP)

    def report(self, step: str) -> dict[str, Any]:
        """What a step reported last; empty when it has not run."""
        path = self.path / f"reports/{step}.json"
        return read_json(path) if path.is_file() else {}

    def save_report(self, step: str, report: dict[str, Any]) -> None:
        """Keep what a step reported."""
        write_json(self.path / f"reports/{step}.json", report)

    def reviewed(self) -> dict[str, set[str]]:
        """Segments that reviewers were given, by the name of the review."""
        return {path.stem: set(read_json(path)["segment_ids"]) for path in sorted((self.path / "reviews").glob("*.json"))}

    def reviewed_ids(self) -> set[str]:
        """Segments that any reviewer was given in a round."""
        return set().union(*self.reviewed().values())
