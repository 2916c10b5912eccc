"""What was withdrawn does not enter the tables again: rows and names with a tombstone (`tables.WITHDRAWN`)."""

from pathlib import Path

import polars as pl

from nbaudio.core import tables
from nbaudio.core.name_matching import recording_id
from nbaudio.core.tables import TOMBSTONES, WITHDRAWN, table_path, tombstone


class Withdrawn:
    """The tombstones of a workspace."""

    def __init__(self, workspace: Path) -> None:
        there = table_path(workspace, WITHDRAWN).exists()
        held = tables.read(workspace, table=WITHDRAWN) if there else pl.DataFrame(schema=TOMBSTONES)
        self._hashes = {kind: set(rows["sha256"]) for (kind,), rows in held.group_by("kind")}

    def has(self, kind: str, ids: pl.Series) -> pl.Series:
        """Return for each id whether it was withdrawn."""
        hashes = self._hashes.get(kind, set())
        gone = [key for key in ids.drop_nulls().unique() if tombstone(kind, key) in hashes] if hashes else []
        return ids.is_in(gone).fill_null(value=False)

    def names(self, audit: pl.DataFrame, frame: pl.DataFrame) -> pl.Series:
        """Return for each name of an audit whether its recording, or the speaker of all its segments, was withdrawn."""
        if not self._hashes:
            return pl.Series([False] * len(audit), dtype=pl.Boolean)
        plain = pl.Series([recording_id(name) for name in audit["name"]], dtype=pl.String)
        silent = frame.filter(~self.has("speaker", frame["speaker_id"]))["name"].unique()
        return (
            self.has("recording", audit["recording_id"]) | self.has("recording", plain) | ~audit["name"].is_in(silent.implode())
        )

    def rows(self, placed: pl.DataFrame, frame: pl.DataFrame) -> pl.Series:
        """Return for each placed segment whether it, its recording or its speaker was withdrawn."""
        return (
            self.has("segment", placed["segment_id"])
            | self.has("recording", placed["recording_id"])
            | self.has("speaker", frame["speaker_id"])
        )
