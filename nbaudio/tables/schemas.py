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
        "recording_id": pl.String,
        "path": pl.String,
        "sampling_rate": pl.Int32,
        "num_channels": pl.Int16,
    }
    | {"num_samples": pl.Int64, "codec": pl.String, "sha256": pl.String}
)

WORD_TIMES: pl.DataType = pl.List(pl.Struct({"start": pl.Float32, "end": pl.Float32}))

SEGMENTS = pl.Schema(
    {
        "segment_id": pl.String(),
        "recording_id": pl.String(),
        "start_sample": pl.Int64(),
        "end_sample": pl.Int64(),
    }
    | dict.fromkeys(
        ("source_start", "source_end", "text", "text_raw", "asr_text", "speaker_id"), pl.String()
    )
    | {
        "word_times": WORD_TIMES,
        "similarity": pl.Float64(),
        "wer": pl.Float64(),
        "cer": pl.Float64(),
    }
    | {"split": pl.String(), "decision": pl.Enum(DECISIONS), "reason": pl.String()}
)

SIGNALS = pl.Schema(
    dict.fromkeys(
        ("rms_dbfs", "peak_dbfs", "clipped_share", "dc_offset", "snr_db", "noise_floor_dbfs"),
        pl.Float64(),
    )
    | dict.fromkeys(
        ("bandwidth_hz", "silence_share", "channel_correlation", "speech_share"), pl.Float64()
    )
    | dict.fromkeys(("leading_silence_s", "trailing_silence_s"), pl.Float64())
    | dict.fromkeys(("cut_start", "cut_end"), pl.Boolean())
    | {"speech_rate": pl.Float64()}
)
"""Columns that `measure` writes; docs/audio.md defines them."""

NORMALIZED = {"text_normalized": "text", "asr_text_normalized": "asr_text"}
"""Columns with normalized texts that `score` writes, and their sources."""

CORRECTED_TEXTS = "corrected_texts"
"""Name of the workspace table with texts and scores before reviewers' corrections."""

LEFT_OUT = "left_out"
"""Name of the workspace table with the segments that only reviews keep out.

`select` leaves them out only as they were reviewed, or rejected by hand.
"""

EARLIER_SPLITS = "earlier_splits"
"""Name of the workspace table with an earlier selection.

It has the splits, sentences and grouping columns from before the workspace last grew.
"""

GROWTH = "growth"
"""Name of the workspace table of segments that `ingest --add` added or changed, as `GROWN`."""

_LINES = dict.fromkeys(("verdicts", "corrections"), pl.Int64)
GROWN = pl.Schema(
    {"segment_id": pl.String, "added_in": pl.Int32, "source_number": pl.Int32, **_LINES}
)


def conform(frame: pl.DataFrame, schema: pl.Schema, name: str) -> pl.DataFrame:
    """Return a frame with the columns of `schema` first, cast.

    Absent columns are null, and further ones come behind. Raise InputError for one that cannot be
    cast.
    """
    columns = []
    for column, dtype in schema.items():
        if column not in frame.columns:
            columns.append(pl.lit(None, dtype=dtype).alias(column))
        elif frame.schema[column] == dtype:
            columns.append(pl.col(column))
        else:
            try:
                columns.append(pl.lit(frame[column].cast(dtype)).alias(column))
            except pl.exceptions.PolarsError as error:
                raise InputError(
                    f"{name}: column {column} is {frame.schema[column]} and cannot be "
                    f"read as {dtype}"
                ) from error
    return frame.select(*columns, *(c for c in frame.columns if c not in schema))


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
"""Names of columns and members that corpora add, which no column of a source can have."""

AGREEMENT = ("agreement", "agreement_text", "text_disputed", "disputed_words")
"""Columns that `score` writes about several hypotheses."""

_SPOKEN = ("spoken_similarity", "spoken_wer", "spoken_cer")
_CORRECTED = ("text_corrected", "text_origin", "corrected_by")
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


_SCORE = re.compile(r"(spoken_)?(similarity|wer|cer)(_\w+)?")


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


RAW_TEXT = "text_raw"
"""The transcript as the source has it: null where it is that of `text`, or where there is none."""

_NO_TRANSCRIPTS = frozenset(
    ("text_corrected", "text_disputed", "text_normalized", "text_origin", "text_source")
)
_NO_HYPOTHESES = frozenset(("asr_text_normalized", "asr_text_raw"))


def text_names(columns: Iterable[str]) -> dict[str, str]:
    """Return the columns of further transcripts, `text_NAME`, by name, in order.

    `text_raw` is one of them; all segments tables have it, also without any value.
    """
    return {
        name[5:]: name
        for name in columns
        if name.startswith("text_") and name not in _NO_TRANSCRIPTS
    }


def hypothesis_names(columns: Iterable[str]) -> dict[str, str]:
    """Return the columns of hypotheses by name, in order.

    The source's `asr_text` comes first as `asr`, then each `asr_text_NAME` as NAME.
    """
    columns = list(columns)
    source_hypothesis = {"asr": "asr_text"} if "asr_text" in columns else {}
    return source_hypothesis | {
        name[9:]: name
        for name in columns
        if name.startswith("asr_text_") and name not in _NO_HYPOTHESES
    }


def text_column(frame: pl.DataFrame, name: str) -> pl.Series:
    """Return a text column; all null where the table lacks it."""
    if name in frame.columns:
        return frame[name]
    return pl.Series(name, [None] * len(frame), dtype=pl.String)
