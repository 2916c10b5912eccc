"""Counted words that a workspace keeps, so that they are counted once for the same texts.

Files are in the folder `.words`. Their names have a hash of the texts; they are written atomically,
and can be removed at any time.
"""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from nbaudio.core import atomic
from nbaudio.core.errors import DiskFullError, InputError
from nbaudio.core.hashing import json_hash
from nbaudio.tables import workspace_tables
from nbaudio.tables.workspace import Workspace
from nbaudio.text.normalization import DEFAULT_STEPS

VERSION = 1
"""Version of the way of counting; files of another one are not used."""

FOLDER = ".words"
LEAST_SEGMENTS = 20_000  # segments whose words take a few tenths of a second
MOST_FILES = 8
_SCHEMA = pl.Schema(
    {
        "word": pl.String(),
        "count": pl.Int64(),
        "right": pl.Int64(),
        "accuracy": pl.Float64(),
        "segments": pl.Int64(),
        "examples": pl.List(pl.String()),
    }
)


@dataclass(frozen=True)
class TextsHash:
    """Hash of the ids, transcripts and hypotheses of some segments, and their number."""

    sha256: str
    num_segments: int


def hash_texts(parts: Iterable[pl.DataFrame]) -> TextsHash:
    """Hash frames of ids and texts; their columns are strings without nulls."""
    hashed = hashlib.sha256(json_hash([VERSION, DEFAULT_STEPS]).encode())
    num_segments = 0
    for part in parts:
        num_segments += len(part)
        for column in part:
            texts = column.to_arrow(compat_level=pl.CompatLevel.oldest())
            _, bounds, content = texts.buffers()
            stops = np.frombuffer(bounds, np.int64)[texts.offset :][: len(texts) + 1]
            hashed.update(np.diff(stops).tobytes())
            hashed.update(memoryview(content or b"")[stops[0] : stops[-1]])
    return TextsHash(hashed.hexdigest(), num_segments)


@dataclass(frozen=True)
class WordsCache:
    """The words that a workspace keeps for a hypothesis and a condition.

    There is a file for each of the latest `MOST_FILES` pairs of these, of its current texts.
    """

    workspace: Workspace
    hypothesis: str
    where: str

    @property
    def _folder(self) -> Path:
        """The folder of cached tables in the workspace."""
        return self.workspace.path / FOLDER

    @property
    def _request(self) -> str:
        """The hash of hypothesis and condition, with which names of cached tables begin."""
        return json_hash([self.hypothesis, self.where])

    def _name(self, texts: TextsHash) -> str:
        """Return the name of the cached table for some texts."""
        return f"{self._request}-{texts.sha256}"

    def read(self, texts: TextsHash) -> pl.DataFrame | None:
        """Return the words of texts; None if there are none, or their file is damaged."""
        if not workspace_tables.table_path(self._folder, self._name(texts)).is_file():
            return None
        try:
            words = workspace_tables.read(self._folder, table=self._name(texts))
        except InputError:
            return None
        if words.schema != _SCHEMA:
            return None
        return words

    def write(self, texts: TextsHash, words: pl.DataFrame) -> None:
        """Store the words of texts, in place of those of earlier texts.

        Nothing is stored where there are few segments, or in a workspace that cannot be written to.
        """
        if texts.num_segments < LEAST_SEGMENTS:
            return
        with suppress(OSError, DiskFullError):
            workspace_tables.write(self._folder, words, table=self._name(texts))
            self._remove_others(texts)

    def _remove_others(self, texts: TextsHash) -> None:
        """Remove the words of earlier texts, and the oldest files above `MOST_FILES`.

        Another kernel that has just found such a file counts anew.
        """
        current = workspace_tables.table_path(self._folder, self._name(texts))
        others = [path for path in self._folder.glob("*.parquet") if path != current]
        others.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
        latest = [path for path in others if not path.name.startswith(self._request)]
        for path in {*others}.difference(latest[: MOST_FILES - 1]):
            atomic.remove(path)
