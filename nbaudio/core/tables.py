"""The tables `recordings` and `segments`, and the rules that segments keep.

All tables of a workspace are read and written here.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from polars.io.plugins import register_io_source

from nbaudio.core.atomic import atomic_write, disk_full_reason
from nbaudio.core.errors import InputError, one_line
from nbaudio.core.input_guards import check_regular
from nbaudio.tables.dataframes import IN_ORDER, STREAMED
from nbaudio.tables.row_groups import RowGroups
from nbaudio.tables.rows import with_starts
from nbaudio.tables.segment_rules import has_unknown_channel, source_channel

SPLITS = ("train", "dev", "test")
"""The splits that `select` makes; splits that a source or a table gives may have other names."""
DECISIONS = ("pending", "accept", "reject")

# Rows that are read or written at once where a table is too large for memory.
ROWS_A_GROUP = 16_384

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
"""Columns that `measure` writes; docs/signals.md defines them."""

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
"""Name of the workspace table of segments that `ingest --add` added or changed, as `GROWN`.

docs/tables.md has its columns.
"""

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


@contextmanager
def reading_parquet(path: Path, *, checked: bool = False) -> Iterator[None]:
    """Raise all errors of reading a Parquet file as one InputError that names it.

    `checked` skips the check of the footer.
    """
    try:
        check_regular(path)
        if not checked:
            _check_footer(path)
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path}: missing; run the step that makes it again") from error
    except MemoryError as error:
        raise InputError(f"{path}: not enough memory to read it") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or one_line(error)})") from error
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        pa.ArrowException,
        UnicodeDecodeError,
    ) as error:
        raise InputError(f"{path}: not a readable Parquet file ({one_line(error)})") from error


def _check_footer(path: Path) -> None:
    """Raise for what makes polars panic, which prints further lines.

    That is a damaged footer, or columns outside of the file.
    """
    size = path.stat().st_size
    footer = pq.read_metadata(path)
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            start = (
                chunk.has_dictionary_page and chunk.dictionary_page_offset
            ) or chunk.data_page_offset
            if not 0 < start <= start + chunk.total_compressed_size <= size:
                raise pa.ArrowInvalid(f"column {chunk.path_in_schema} lies outside of the file")


def read_parquet(path: Path, columns: list[str] | None = None) -> pl.DataFrame:
    """Read a Parquet file, or some of its columns; raise InputError where it is not usable."""
    with reading_parquet(path):
        return pl.read_parquet(path, columns=columns, glob=False)


def open_parquet(path: Path) -> RowGroups:
    """Open a Parquet file; raise InputError if it is unusable."""
    with reading_parquet(path), path.open("rb") as file:
        footer = pq.read_metadata(file)
        sizes = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        file.seek(0)  # polars reads from where the file is
        return RowGroups(pl.scan_parquet(file), np.cumsum([0, *sizes]))


def num_rows(path: Path) -> int:
    """Return the number of rows of a Parquet file; raise InputError where it is not usable."""
    with reading_parquet(path):
        return int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())


def scan_file(path: Path) -> pl.LazyFrame:
    """Scan a Parquet file; raise InputError where it is not usable."""
    with reading_parquet(path):
        return pl.scan_parquet(path, glob=False)


def parquet_slices(
    path: Path,
    columns: Iterable[str] | None = None,
    *,
    start: int = 0,
    stop: int | None = None,
    rows: int = ROWS_A_GROUP,
) -> Iterator[pl.DataFrame]:
    """Yield the rows [start, stop) of a Parquet file, some `rows` at a time, at least once.

    Of `columns`, those that the file has are read; where it has none of them, its first column.
    Raise InputError if the file is not usable.
    """
    table = pl.scan_parquet(path, glob=False)
    length = num_rows(path)
    with reading_parquet(path, checked=True):
        if columns is not None:
            held = table.collect_schema()
            table = table.select([name for name in columns if name in held] or held.names()[:1])
    stop = length if stop is None else min(length, stop)
    for first in range(start, max(stop, start + 1), rows):
        with reading_parquet(path, checked=True):
            part = table.slice(first, max(0, min(rows, stop - first))).collect()
        yield part


_KEYS = {"recordings": ("recording_id", RECORDINGS), "segments": ("segment_id", SEGMENTS)}

WorkspacePath = str | os.PathLike[str]


def table_path(workspace: WorkspacePath, table: str = "segments") -> Path:
    """Return the file of a workspace's table."""
    return Path(workspace) / f"{table}.parquet"


def table_schema(workspace: WorkspacePath, table: str = "segments") -> pl.Schema:
    """Return the columns and types that the file of a table has.

    Raise InputError where it is not usable or has no key.
    """
    path = table_path(workspace, table)
    with reading_parquet(path):
        held = pl.scan_parquet(path, glob=False).collect_schema()
    key, _ = _KEYS.get(table, ("", None))
    if held and key and key not in held:
        raise InputError(f"{path}: the key column {key} is missing; columns are {', '.join(held)}")
    return held


def scan(
    workspace: WorkspacePath, columns: Iterable[str] | None = None, *, table: str = "segments"
) -> pl.LazyFrame:
    """Scan columns of a table, or all, with the types of its schema, null where absent.

    Names that nothing has are left out.
    """
    held = table_schema(workspace, table)
    expected = _expected(held, columns, table)
    absent = [
        pl.lit(None, dtype).alias(name) for name, dtype in expected.items() if name not in held
    ]
    other = pl.Schema(
        {name: dtype for name, dtype in expected.items() if dtype != held.get(name, dtype)}
    )
    return (
        pl.scan_parquet(table_path(workspace, table), glob=False)
        .with_columns(absent)
        .select(expected.names())
        .cast(other)
    )


def read(
    workspace: WorkspacePath,
    columns: Iterable[str] | None = None,
    *,
    where: pl.Expr | None = None,
    table: str = "segments",
    row: str | None = None,
) -> pl.DataFrame:
    """Read a table into memory, with the columns of `scan`, and row numbers as `row`.

    `where` filters by columns of the file.
    """
    held = table_schema(workspace, table)
    path = table_path(workspace, table)
    number = row or "\0row"
    expected = _expected(held, columns, table)
    # The first gives the length
    names = list(dict.fromkeys((*list(held)[:1], *(name for name in expected if name in held))))
    with reading_parquet(path, checked=True):
        rows = pl.scan_parquet(path, glob=False, row_index_name=number)
        if where is None:
            frame = rows.select(number, *names).collect()
        else:
            # By numbers: filtered lists of polars keep the lists of all rows that were read with
            # them.
            before = path.stat()
            file = open_parquet(path)
            found = rows.filter(where).select(number).collect(**STREAMED)
            # Replaced meanwhile
            if (
                now := path.stat()
            ).st_ino != before.st_ino or now.st_mtime_ns != before.st_mtime_ns:
                return read(workspace, columns, where=where, table=table, row=row)
            frame = found.hstack(file.gather(found.to_series().to_numpy(), names))
    return conform(frame, expected, str(path)).select(*([row] if row else []), *expected)


def has_id(ids: pl.Series) -> pl.Expr:
    """Return whether `segment_id` is one of some ids."""
    return pl.col("segment_id").cast(pl.String).is_in(ids.implode())


def _expected(held: pl.Schema, columns: Iterable[str] | None, table: str) -> pl.Schema:
    """Return the columns to read and their types, those of the table's schema where it has them."""
    _, schema = _KEYS.get(table, ("", pl.Schema()))
    whole = {**held, **schema}
    order = (*schema, *held) if columns is None else columns
    return pl.Schema({name: whole[name] for name in order if name in whole})


def write(
    workspace: WorkspacePath,
    batches: pl.DataFrame | pl.LazyFrame | Iterable[pl.DataFrame],
    *,
    table: str = "segments",
) -> None:
    """Replace a table atomically by a frame, a lazy frame, or several frames.

    A lazy frame is streamed. Several frames have equal columns and are written one after the other.
    """
    path = table_path(workspace, table)
    failed = list[Exception]()
    rows = (
        batches.lazy()
        if isinstance(batches, pl.DataFrame | pl.LazyFrame)
        else _stream(iter(batches), failed)
    )
    with atomic_write(path) as partial:
        try:
            with partial.open("wb") as file:  # by its path, polars might create it after an error
                # 3 is slower, saves 2 %
                rows.sink_parquet(
                    file, compression_level=2, row_group_size=ROWS_A_GROUP, **IN_ORDER
                )
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            if failed:
                raise failed[0] from None
            if disk_full_reason(error) or not isinstance(batches, pl.LazyFrame):
                raise
            raise InputError(f"{path}: not a readable Parquet file ({one_line(error)})") from error


def _stream(batches: Iterator[pl.DataFrame], failed: list[Exception]) -> pl.LazyFrame:
    """Return frames as one lazy frame.

    An exception of the iterator, which polars wraps, is added to `failed`.
    """
    first = next(batches, pl.DataFrame())

    def source(*_: object) -> Iterator[pl.DataFrame]:
        try:
            yield from chain([first], batches)
        except Exception as error:
            failed.append(error)
            raise

    return register_io_source(source, schema=first.schema)


def replace_columns(workspace: WorkspacePath, columns: pl.DataFrame) -> None:
    """Replace columns of the segments table by those of a frame with as many rows.

    The table is rewritten in batches.
    """
    held = table_schema(workspace)
    order = dict.fromkeys((*SEGMENTS, *held, *columns.columns))
    parts = with_starts(
        read_batches(workspace, columns=[name for name in held if name not in columns.columns])
    )
    new = (part.with_columns(columns[start : start + len(part)]) for start, part in parts)
    write(workspace, (conform(part, SEGMENTS, "segments").select(*order) for part in new))


def read_batches(
    workspace: WorkspacePath,
    table: str = "segments",
    columns: Iterable[str] | None = None,
    *,
    rows: int = ROWS_A_GROUP,
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a table as the file has them, some `rows` at a time.

    Raise InputError where it is not usable.
    """
    return parquet_slices(table_path(workspace, table), columns, rows=rows)


RESERVED = frozenset(
    ("audio", "audio_sha256", "file_name", "json", "length", "offset", "shard", "window")
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
    own = {"asr": "asr_text"} if "asr_text" in columns else {}
    return own | {
        name[9:]: name
        for name in columns
        if name.startswith("asr_text_") and name not in _NO_HYPOTHESES
    }


def text_column(frame: pl.DataFrame, name: str) -> pl.Series:
    """Return a text column; all null where the table lacks it."""
    return (
        frame[name]
        if name in frame.columns
        else pl.Series(name, [None] * len(frame), dtype=pl.String)
    )


def seconds_column() -> pl.Expr:
    """Return the duration in seconds, from samples or else from the source's decimals.

    It is to show and to sum, not to cut by.
    """
    by_samples = (pl.col("end_sample") - pl.col("start_sample")) / pl.col("sampling_rate")
    by_source = pl.col("source_end").cast(pl.Float64, strict=False) - pl.col("source_start").cast(
        pl.Float64, strict=False
    )
    return pl.coalesce(by_samples, by_source).alias("duration_s")


def with_durations(segments: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Join `sampling_rate` and `duration_s` to segments, in order.

    The sampling rate is in Hz and null without audio; the duration is in seconds.
    """
    rates = recordings.select("recording_id", "sampling_rate")
    return segments.join(rates, on="recording_id", how="left", maintain_order="left").with_columns(
        seconds_column()
    )


def amounts(segments: pl.DataFrame) -> dict[str, Any]:
    """Count segments, hours (of `duration_s`), speakers and recordings."""
    hours = round(float(segments["duration_s"].sum()) / 3600, 6)
    speakers = segments["speaker_id"].drop_nulls().n_unique()
    recordings = segments["recording_id"].n_unique()
    return {
        "segments": len(segments),
        "hours": hours,
        "speakers": speakers,
        "recordings": recordings,
    }


def without_audio(recordings: pl.DataFrame) -> bool:
    """Return whether no recording has audio yet.

    A selection is then a preview by the source's own times.
    """
    return recordings["num_samples"].null_count() == len(recordings)


def whole_recording() -> pl.Expr:
    """Return whether a segment has no times.

    It is then a whole recording whose length is not known yet.
    """
    return pl.col("source_start").is_null() & pl.col("source_end").is_null()


GROUPING_RULES = ("crosses_splits", "beyond_split_size", "not_gold", "held_out_sentence")
"""Reasons of segments that are kept out of all splits.

Grouping, or a sentence of an earlier dev or test, keeps them out.
"""

NEAR_HELD_OUT = "near_held_out"
"""Reason of segments of train whose sentence is nearly one that is held out."""

LATER_RULES = ("reviewed", *GROUPING_RULES, NEAR_HELD_OUT, "over_budget")
"""Reasons of segments that pass every filter and still are out."""

RULES = ("no_audio", "below_similarity", "too_long", "too_short", *LATER_RULES)
"""Reasons that `select` gives, besides those of `segment_failures`."""


WINDOW = ("recording_id", "source_start", "source_end", "start_sample", "end_sample")
"""Columns of the place of a segment, besides `source_channel`."""


def window() -> pl.Expr:
    """Return the recording, times and channel of a segment; duplicates have the same."""
    start, end = (
        pl.col(name).cast(pl.Float64, strict=False) for name in ("source_start", "source_end")
    )
    # Times are compared as numbers, as the same time may have other decimals; an invalid time has a
    # rule of its own.
    invalid = pl.col("source_start").is_not_null() & start.is_null()
    return pl.struct(
        "recording_id", start, end.alias("end"), invalid.alias("invalid"), "source_channel"
    )


def segment_failures(recordings: pl.DataFrame) -> dict[str, pl.Expr]:
    """Return the rules that a segment can fail, most specific first.

    They are expressions over `with_recordings`, true for a failure.
    """
    start = pl.col("source_start").cast(pl.Float64, strict=False)
    end = pl.col("source_end").cast(pl.Float64, strict=False)
    known = pl.Series(recordings["recording_id"]).implode()
    return {
        "unknown_recording": ~pl.col("recording_id").is_in(known)
        | pl.col("recording_id").is_null(),
        "no_times": ~whole_recording()
        & (start.is_null() | end.is_null() | ~start.is_finite() | ~end.is_finite()),
        "negative_start": start < 0,
        "end_before_start": end <= start,
        "duplicate": ~window().is_first_distinct(),
        "unknown_channel": has_unknown_channel(),
        "empty_text": (pl.col("text").count() > 0)
        & (pl.col("text").is_null() | ~pl.col("text").str.contains(r"\S")),
        "past_the_end": pl.col("end_sample") > pl.col("num_samples"),
        "before_the_sound": pl.col("end_sample") <= 0,
    }


def with_recordings(segments: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Join `source_channel` and columns of the recordings to segments, in order.

    The columns are those that the rules need.
    """
    facts = recordings.select("recording_id", "sampling_rate", "num_channels", "num_samples")
    return segments.with_columns(source_channel(segments)).join(
        facts, on="recording_id", how="left", maintain_order="left"
    )
