"""What a reader of a foreign layout gives: the transcripts as they stand in the source, before any audio is looked at."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nbaudio.tables import WORD_TIMES

#: The columns that every reader gives; further columns of a source are kept behind them.
TRANSCRIPTS = pl.Schema(
    {
        "name": pl.String(),
        "source_start": pl.String(),
        "source_end": pl.String(),
        "text": pl.String(),
        "text_raw": pl.String(),
        "asr_text": pl.String(),
        "speaker_id": pl.String(),
        "word_times": WORD_TIMES,
    }
)

PROBLEMS = pl.Schema({"file": pl.String(), "line": pl.UInt32(), "reason": pl.String()})


@dataclass(frozen=True)
class Transcripts:
    """The transcripts of a source.

    Attributes:
        frame: one row per segment in source order: `name` of the recording, `source_start` and `source_end` (seconds, the
            source's own characters), `text` (NFC), `text_raw` (null where the source has no other form), `asr_text` (null where
            there is no hypothesis), `speaker_id`, `word_times` (seconds from the segment's start), and what else the source has.
        problems: one row per line that could not be read: `file`, `line` (from 1), `reason`.
    """

    frame: pl.DataFrame
    problems: pl.DataFrame


#: Reads one file of a foreign layout.
Reader = Callable[[Path], Transcripts]
