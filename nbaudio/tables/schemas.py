"""Schemas of the tables of a workspace, and the names of their columns."""

import re
from collections.abc import Container, Iterable, Mapping

import polars as pl

from nbaudio.core.errors import InputError

SPLITS = ("train", "dev", "test")
"""The splits that `select` makes; splits that a source or a table gives may have other names."""
DECISIONS = ("pending", "accept", "reject")

RECORDINGS = pl.Schema(
    {
        "recording_id": pl.String(),
        "path": pl.String(),
        "sampling_rate": pl.Int32(),
        "num_channels": pl.Int16(),
        "num_samples": pl.Int64(),
        "codec": pl.String(),
        "sha256": pl.String(),
    }
)
"""Columns of the recordings table; the rate is in Hz, and samples count once for all channels."""

WORD_TIMES: pl.DataType = pl.List(pl.Struct({"start": pl.Float32, "end": pl.Float32}))
"""Start and end of each word, in seconds from the start of the segment."""

SEGMENTS = pl.Schema(
    {
        "segment_id": pl.String(),
        "recording_id": pl.String(),
        "start_sample": pl.Int64(),
        "end_sample": pl.Int64(),
        "source_start": pl.String(),
        "source_end": pl.String(),
        "text": pl.String(),
        "text_raw": pl.String(),
        "asr_text": pl.String(),
        "speaker_id": pl.String(),
        "word_times": WORD_TIMES,
        "similarity": pl.Float64(),
        "wer": pl.Float64(),
        "cer": pl.Float64(),
        "split": pl.String(),
        "decision": pl.Enum(DECISIONS),
        "reason": pl.String(),
    }
)
"""Columns that all segments tables have; docs/tables.md defines them.

`source_start` and `source_end` are text, since they are the source's own decimals of seconds.
"""

SIGNALS = pl.Schema(
    {
        "rms_dbfs": pl.Float64(),
        "peak_dbfs": pl.Float64(),
        "clipped_share": pl.Float64(),
        "dc_offset": pl.Float64(),
        "snr_db": pl.Float64(),
        "noise_floor_dbfs": pl.Float64(),
        "bandwidth_hz": pl.Float64(),
        "silence_share": pl.Float64(),
        "channel_correlation": pl.Float64(),
        "speech_share": pl.Float64(),
        "leading_silence_s": pl.Float64(),
        "trailing_silence_s": pl.Float64(),
        "cut_start": pl.Boolean(),
        "cut_end": pl.Boolean(),
        "speech_rate": pl.Float64(),
    }
)
"""Columns that `measure` writes; docs/audio.md defines them."""

CORRECTED_TEXTS = "corrected_texts"
"""Name of the workspace table with texts and scores before reviewers' corrections."""

LEFT_OUT = "left_out"
"""Name of the workspace table of segments that `select` leaves out because of reviews alone.

They were reviewed, which keeps them out of train, or rejected by hand.
"""

EARLIER_SPLITS = "earlier_splits"
"""Name of the workspace table with an earlier selection.

It has the splits, sentences and grouping columns from before the workspace last grew.
"""

GROWTH = "growth"
"""Name of the workspace table of segments that `ingest --add` added or changed, as `GROWN`."""

GROWN = pl.Schema(
    {
        "segment_id": pl.String(),
        "added_in": pl.Int32(),
        "source_number": pl.Int32(),
        "verdicts": pl.Int64(),
        "corrections": pl.Int64(),
    }
)
"""Columns of `GROWTH`.

`added_in` is the generation of the workspace that added or changed the segment, `source_number` the
number of its source, from 0. `verdicts` and `corrections` are the numbers of lines that these logs
had then, which are about what a changed segment was before; null for an added one.
"""

RAW_TEXT = "text_raw"
"""The transcript as the source has it: null where it is that of `text`, or where there is none."""

NORMALIZED = {"text_normalized": "text", "asr_text_normalized": "asr_text"}
"""Columns with normalized texts that `score` writes, and their sources."""

AGREEMENT = ("agreement", "agreement_text", "text_disputed", "disputed_words")
"""Columns that `score` writes about several hypotheses."""

_SCORE = re.compile(r"(spoken_)?(similarity|wer|cer)(_\w+)?")
_SPOKEN = ("spoken_similarity", "spoken_wer", "spoken_cer")
_CORRECTED = ("text_corrected", "text_origin", "corrected_by")

RESERVED = frozenset(
    (
        "added_in",
        "audio",
        "audio_sha256",
        "file_name",
        "json",
        "length",
        "offset",
        "shard",
        "window",
    )
)
"""Names of columns and of fields of rows in corpora, which no column of a source can have."""

WRITTEN = frozenset(
    (
        *NORMALIZED,
        *AGREEMENT,
        *_SPOKEN,
        *_CORRECTED,
        *SIGNALS,
        "risk",
        "sampling_rate",
        "num_samples",
        "duration_s",
    )
)
"""Names of columns that steps after ingest write, which no column of a source can have either."""

# Columns of nbaudio with names such as `text_NAME` and `asr_text_NAME`, which have further
# transcripts and hypotheses in all other columns. `materialize` writes `text_source`;
# `asr_text_raw` is in workspaces of earlier versions.
_NO_TRANSCRIPTS = frozenset(
    ("text_corrected", "text_disputed", "text_normalized", "text_origin", "text_source")
)
_NO_HYPOTHESES = frozenset(("asr_text_normalized", "asr_text_raw"))


def conform(frame: pl.DataFrame, schema: pl.Schema, name: str) -> pl.DataFrame:
    """Return a frame with the columns of `schema` first, cast to its types, then all others.

    Columns that the frame lacks are null. Raise InputError with the `name` of the table if a column
    cannot be cast.
    """
    columns = []
    for column, dtype in schema.items():
        if column not in frame.columns:
            columns.append(pl.lit(None, dtype=dtype).alias(column))
        elif frame.schema[column] == dtype:
            columns.append(pl.col(column))
        else:
            # Cast alone, as an error of all columns at once would not say which one it is about.
            try:
                columns.append(pl.lit(frame[column].cast(dtype)).alias(column))
            except pl.exceptions.PolarsError as error:
                raise InputError(
                    f"{name}: column {column} is {frame.schema[column]} and cannot be "
                    f"read as {dtype}"
                ) from error
    return frame.select(*columns, *(c for c in frame.columns if c not in schema))


def columns_or_nulls(schema: Mapping[str, pl.DataType], names: Container[str]) -> list[pl.Expr]:
    """Return an expression for each column of a schema, cast to its type.

    A column that is not among `names` is null in all rows.
    """
    columns = []
    for name, dtype in schema.items():
        if name in names:
            columns.append(pl.col(name).cast(dtype))
        else:
            columns.append(pl.lit(None, dtype).alias(name))
    return columns


def is_score(column: str) -> bool:
    """Return whether a column has the name of one that `score` writes."""
    return column in (*AGREEMENT, *NORMALIZED) or _SCORE.fullmatch(column) is not None


def number_columns(schema: pl.Schema) -> list[str]:
    """Return the columns of numbers, and of yes and no."""
    return [name for name, dtype in schema.items() if dtype.is_numeric() or dtype == pl.Boolean]


def text_names(columns: Iterable[str]) -> dict[str, str]:
    """Return the columns of further transcripts, NAME to `text_NAME`, in order.

    `text_raw` is one of them; all segments tables have it, also without any value.
    """
    return {
        column.removeprefix("text_"): column
        for column in columns
        if column.startswith("text_") and column not in _NO_TRANSCRIPTS
    }


def hypothesis_names(columns: Iterable[str]) -> dict[str, str]:
    """Return the columns of hypotheses, NAME to `asr_text_NAME`, in order.

    The hypothesis of the source comes first, `asr` to `asr_text`.
    """
    columns = list(columns)
    source_hypothesis = {"asr": "asr_text"} if "asr_text" in columns else {}
    return source_hypothesis | {
        column.removeprefix("asr_text_"): column
        for column in columns
        if column.startswith("asr_text_") and column not in _NO_HYPOTHESES
    }


def text_column(frame: pl.DataFrame, name: str) -> pl.Series:
    """Return a text column; all null where the table lacks it."""
    if name in frame.columns:
        return frame[name]
    return pl.Series(name, [None] * len(frame), dtype=pl.String)
