"""Vocabulary of a workspace: words by frequency and accuracy, with a player of examples."""

from pathlib import Path
from typing import Any

import ipywidgets

from nbaudio.storage.workspace import Workspace
from nbaudio.ui import views
from nbaudio.ui.widgets.players import Player
from nbaudio.ui.widgets.segment_table import SegmentTable
from nbaudio.ui.widgets.segments import load_segments
from nbaudio.ui.widgets.static_html import saved_clips

COLUMNS = ("word", "count", "right", "accuracy", "segments")


class Vocabulary(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Words of the transcripts, how often a hypothesis has them, and a player of examples of the word under the cursor.

    `words` is the table of `views.words`; the first example of a word has an error if there is one.
    """

    def __init__(self, workspace: str | Path | Workspace, hypothesis: str = "asr", *, where: str | None = None) -> None:
        """Load the segments and count the words.

        Args:
            workspace: the workspace or its folder.
            hypothesis: ``asr`` for the column `asr_text`, NAME for `asr_text_NAME`.
            where: SQL condition over the columns of the segments, such as ``split = 'test'``.

        Raises:
            InputError: there is no such workspace or hypothesis, or the condition is not valid.

        Examples:
            >>> import tempfile
            >>> import polars as pl
            >>> workspace = Workspace.create(tempfile.mkdtemp())
            >>> texts = {"text": ["evo blic"], "asr_text": ["evo blitz"]}
            >>> segments = pl.DataFrame({"segment_id": ["a"], "recording_id": ["r"], **texts})
            >>> workspace.save(recordings=pl.DataFrame({"recording_id": ["r"]}), segments=segments)
            >>> Vocabulary(workspace).words["accuracy"].to_list()
            [0.0, 1.0]
        """
        self._segments = load_segments(workspace)
        self.words = views.words(workspace, hypothesis, where=where)
        self._table = SegmentTable(self.words, columns=COLUMNS, player=False)
        self._player = Player(self._segments)
        self._player._calls["player.turn"] = self._turn
        self._table.observe(lambda change: self._play(*change["new"]), "current")
        self._table.current = [self._table._rows.current, 0]
        self._play(*self._table.current)
        super().__init__([self._table, self._player])

    def _examples(self, word: int) -> list[int]:
        ids = self._segments.frame["segment_id"]
        found = (ids.index_of(segment_id) for segment_id in self.words["examples"][word]) if word >= 0 else ()
        return [number for number in found if number is not None]

    def _play(self, word: int, asked: int) -> None:
        """Show the first example of a word, and play it if that was asked for once more."""
        self._player.current = [next(iter(self._examples(word)), -1), asked]

    def _turn(self, *, number: int, by: int) -> int:
        """Return the number of another example of the same word, -1 without any."""
        examples = self._examples(self._table.current[0])
        place = examples.index(number) + by if number in examples else 0
        return examples[max(0, min(place, len(examples) - 1))] if examples else -1

    def static_html(self) -> str:
        """Return the most frequent words and the clips of the first one's examples."""
        clips = saved_clips(self._segments, self._examples(self._table.current[0]))
        return f"<div>{self._table.static_html()}{clips._repr_html_()}</div>"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        return {**super()._repr_mimebundle_(**options), "text/html": self.static_html()}

    def __repr__(self) -> str:
        return type(self).__name__
