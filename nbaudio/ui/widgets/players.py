"""Widgets that play clips of a workspace or a corpus."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import ipywidgets
import polars as pl
import traitlets

from nbaudio.audio.pydub_bridge import normalize_loudness
from nbaudio.core.errors import InputError
from nbaudio.reading import Corpus, open_corpus
from nbaudio.tables.dataframes import Ids, as_ids
from nbaudio.tables.workspace import Workspace
from nbaudio.ui import views
from nbaudio.ui.widgets.base_widget import VIEW, BaseWidget, SavedHtml, esm
from nbaudio.ui.widgets.clip_audio import Playback, Sound, corpus_sound
from nbaudio.ui.widgets.segment_table import SegmentTable
from nbaudio.ui.widgets.segments import (
    SegmentPlayback,
    Segments,
    align_lines,
    described,
    load_segments,
)
from nbaudio.ui.widgets.static_html import LONGEST_S, MOST_CLIPS, Clips, read_clips, saved_clips

MOST_DIFFS = 50
_SAVED_EXAMPLES = 2  # examples of a word in a saved page
WORD_COLUMNS = ("word", "count", "right", "accuracy", "segments")


class ClipPlayer(BaseWidget):
    """Clips to listen to, one after the other.

    If `fixed`, there are no keys for bounds, context and channels.
    """

    _esm = esm("core", "player", "single_player")
    current = traitlets.List(traitlets.Int(), [0, 0], minlen=2, maxlen=2).tag(sync=True)

    def __init__(
        self, playback: Playback, saved: Callable[[], Clips], total: int, *, fixed: bool
    ) -> None:
        self._saved = saved
        self._opened = {"total": total, "fixed": fixed}
        super().__init__(
            {"player.open": self._open, **playback.calls}, current=[min(0, total - 1), 0]
        )

    def _open(self) -> dict[str, int | bool]:
        return {
            **self._opened,
            "at": max(0, self.current[0]),
            "linked": "player.turn" in self._calls,
        }

    @property
    def clips(self) -> Clips:
        """Clips as a saved page holds them."""
        return self._saved()

    def static_html(self) -> str:
        """Return the HTML of all clips, with their audio, in a column."""
        return self.clips._repr_html_()


class Player(ClipPlayer):
    """Segments to listen to, one after the other; ``?`` shows the keys.

    `current` is a trait that links to other widgets: the number of the segment shown, and how many
    times playing was requested.
    """

    _verdicts = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(
        self,
        workspace: str | Path | Workspace | Segments,
        segment_ids: Ids | None = None,
        *,
        limit: int = MOST_CLIPS,
        reviewer: str = "me",
    ) -> None:
        """Load the segments.

        Args:
            workspace: with audio; without it the words are shown alone. Segments that are loaded
                already are shown all.
            segment_ids: ids in the order to play, also as a pandas or polars table; None for all.
            limit: number of clips in a saved page at most.
            reviewer: name logged with corrected bounds.

        Raises:
            InputError: a segment is not in the workspace.
        """
        if isinstance(workspace, Segments):
            segments = workspace
        else:
            segments = load_segments(workspace, segment_ids)
        every = range(len(segments.rows))
        saved = partial(saved_clips, segments, every, limit=limit)
        super().__init__(SegmentPlayback(segments, reviewer), saved, len(every), fixed=False)


class TranscriptDiff(BaseWidget):
    """Word differences of transcripts and hypotheses.

    A click on a word whose time is known plays from it.

    Words only in the transcript are struck through, words only in the hypothesis underlined,
    another word has a wavy line.
    """

    _esm = esm("core", "diff", "transcript_diff")

    def __init__(
        self,
        workspace: str | Path | Workspace,
        segment_ids: Ids | None = None,
        *,
        limit: int = MOST_DIFFS,
    ) -> None:
        """Load the segments.

        Args:
            workspace: the workspace.
            segment_ids: ids in the order to show, also as a pandas or polars table; None for all.
            limit: number of segments to show at most.

        Raises:
            InputError: a segment is not in the workspace.
        """
        self._segments = load_segments(workspace, segment_ids)
        self._limit = limit
        total = len(self._segments.frame)
        opened = {"shown": min(limit, total), "hidden": max(0, total - limit)}
        super().__init__({"diffs": lambda: opened, **SegmentPlayback(self._segments, "").calls})

    def static_html(self) -> str:
        """Return the same with marks, without audio."""
        return saved_clips(
            self._segments, range(len(self._segments.frame)), limit=self._limit, sound=False
        )._repr_html_()


class Vocabulary(SavedHtml, ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Words of the transcripts, how often a hypothesis has them, and a player of examples.

    The player has examples of the word under the cursor.

    `words` is the table of `views.words`; the first example of a word has an error if there is one.
    """

    def __init__(
        self,
        workspace: str | Path | Workspace,
        hypothesis: str = "asr",
        *,
        where: str | None = None,
    ) -> None:
        """Load the segments and count the words.

        Args:
            workspace: the workspace or its folder.
            hypothesis: ``asr`` for the column `asr_text`, NAME for `asr_text_NAME`.
            where: SQL condition over the columns of the segments, such as ``split = 'test'``.

        Raises:
            InputError: there is no such workspace or hypothesis, or the condition is not valid.

        Examples:
            >>> import tempfile
            >>> workspace = Workspace.create(tempfile.mkdtemp())
            >>> texts = {"text": ["evo blic"], "asr_text": ["evo blitz"]}
            >>> segments = pl.DataFrame({"segment_id": ["a"], "recording_id": ["r"], **texts})
            >>> workspace.save(recordings=pl.DataFrame({"recording_id": ["r"]}), segments=segments)
            >>> Vocabulary(workspace).words["accuracy"].to_list()
            [0.0, 1.0]
        """
        self.words = views.words(workspace, hypothesis, where=where)
        self._segments = load_segments(workspace, self.words["examples"].explode().drop_nulls())
        self._table = SegmentTable(self.words, columns=WORD_COLUMNS, player=False)
        self._player = Player(self._segments)
        self._player._calls["player.turn"] = self._turn
        self._table.observe(lambda change: self._play(*change["new"]), "current")
        self._table.current = [self._table._rows.current, 0]
        self._play(*self._table.current)
        super().__init__([self._table, self._player])
        self.add_class(VIEW)

    def _examples(self, word: int) -> list[int]:
        """Return the row numbers of the examples of a word; none for a negative number."""
        ids = self._segments.frame["segment_id"]
        if word < 0:
            return []
        numbers = (ids.index_of(segment_id) for segment_id in self.words["examples"][word])
        return [number for number in numbers if number is not None]

    def _play(self, word: int, asked: int) -> None:
        """Show the first example of a word, and play it if that was asked for once more."""
        self._player.current = [next(iter(self._examples(word)), -1), asked]

    def _turn(self, *, number: int, by: int) -> int:
        """Return the number of another example of the same word, -1 without any."""
        examples = self._examples(self._table.current[0])
        if not examples:
            return -1
        place = examples.index(number) + by if number in examples else 0
        return examples[max(0, min(place, len(examples) - 1))]

    def static_html(self) -> str:
        """Return the most frequent words, and the first clips of the first word's examples."""
        examples = self._examples(self._table.current[0])
        clips = saved_clips(self._segments, examples, limit=_SAVED_EXAMPLES)
        style = "display:flex;flex-wrap:wrap;gap:1em 3em"
        words = f"<div>{self._table.static_html()}</div>"
        heard = f'<div style="flex:1 1 20em">{clips._repr_html_()}</div>'
        return f'<div style="{style}">{words}{heard}</div>'


class CorpusPlayback(Playback):
    """Handler of a player's requests for the clips of `frame`, rows of a corpus."""

    def __init__(self, corpus: Corpus, frame: pl.DataFrame) -> None:
        super().__init__()
        self.corpus = corpus
        self.frame = frame

    def segment(self, *, number: int) -> dict[str, Any]:
        """Return id, facts, words and sampling rate of a clip."""
        row = self.frame.row(number, named=True)
        return described(
            row,
            align_lines(row),
            _place(row),
            correction=None,
            rate=row["sampling_rate"],
            channels=1,
        )

    def read(self, number: int, *, even: bool = False, **_options: Any) -> Sound:
        """Read a clip by its byte offset; it has no context and no other channels."""
        sound = corpus_sound(self.corpus, self.frame["segment_id"][number])
        if even:
            return sound._replace(samples=normalize_loudness(sound.samples, sound.rate))
        return sound


def corpus_player(
    corpus: str | Path, segment_ids: Ids | None = None, *, limit: int = 3
) -> ClipPlayer:
    """Read clips from the shards of a corpus by byte offset, to hear what a training program gets.

    Args:
        corpus: the corpus folder.
        segment_ids: ids, also as a pandas or polars table; all of the corpus unless given.
        limit: number of clips in a saved page at most.

    Raises:
        InputError: there is no corpus, or a clip is not in it.
    """
    opened = open_corpus(corpus)
    if segment_ids is None:
        segment_ids = opened.segments
    wanted = pl.DataFrame({"segment_id": as_ids(segment_ids)}, {"segment_id": pl.String})
    frame = wanted.join(opened.segments, on="segment_id", how="left", maintain_order="left")
    for missing in frame.filter(pl.col("shard").is_null())["segment_id"].head(1):
        raise InputError(f"{opened.folder}: no clip {missing!r}")

    def saved() -> Clips:
        rows = ((row, _place(row)) for row in frame.head(limit).iter_rows(named=True))
        clips = read_clips(
            rows, lambda row: corpus_sound(opened, row["segment_id"]), longest_s=LONGEST_S
        )
        return Clips(tuple(clips), max(0, len(frame) - limit))

    return ClipPlayer(CorpusPlayback(opened, frame), saved, len(frame), fixed=True)


def _place(row: dict[str, Any]) -> str:
    """Return in words where a corpus stores the clip of a row."""
    return f"{row['shard']} at byte {row['offset']:,}, {row['length']:,} bytes"
