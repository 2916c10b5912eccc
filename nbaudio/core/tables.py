"""The two tables that every step takes and gives, and the rules that they keep.

`recordings` has one row per recording, `segments` one row per stretch of speech. Positions are samples per channel at the
recording's own rate, half open; seconds appear only as the source's own decimals. Further columns of a source are kept as
they are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nbaudio.core.channels import has_unknown_channel, source_channel
from nbaudio.core.errors import InputError, one_line
from nbaudio.core.frames import Frame, as_polars
from nbaudio.core.guards import check_regular

SPLITS = ("train", "dev", "test")
DECISIONS = ("pending", "accept", "reject")

# Rows that are read or written at once where a table is too large to be held whole.
ROWS_A_GROUP = 16_384

RECORDINGS = pl.Schema(
    {
        "recording_id": pl.String,
        "path": pl.String,
        "sampling_rate": pl.Int32,
        "num_channels": pl.Int16,
        "num_samples": pl.Int64,
        "codec": pl.String,
        "sha256": pl.String,
    }
)

WORD_TIMES: pl.DataType = pl.List(pl.Struct({"start": pl.Float32, "end": pl.Float32}))

SEGMENTS = pl.Schema(
    [
        ("segment_id", pl.String),
        ("recording_id", pl.String),
        ("start_sample", pl.Int64),
        ("end_sample", pl.Int64),
        ("source_start", pl.String),
        ("source_end", pl.String),
        ("text", pl.String),
        ("text_raw", pl.String),
        ("asr_text", pl.String),
        ("speaker_id", pl.String),
        ("word_times", WORD_TIMES),
        ("similarity", pl.Float64),
        ("wer", pl.Float64),
        ("cer", pl.Float64),
        ("split", pl.Enum(SPLITS)),
        ("decision", pl.Enum(DECISIONS)),
        ("reason", pl.String),
    ]
)

NORMALIZED = {"text_normalized": "text", "asr_text_normalized": "asr_text"}
"""Columns that `score` writes, and whose normal forms they are."""

CORRECTED_TEXTS = "corrected_texts"
"""The table of a workspace with texts and scores as they were before reviewers corrected them."""

FAILURES = pl.Schema({"table": pl.String, "row": pl.UInt32, "key": pl.String, "rule": pl.String, "detail": pl.String})


def conform(frame: pl.DataFrame, schema: pl.Schema, name: str) -> pl.DataFrame:
    """`frame` with the columns of `schema` first, in order and of the right type; absent ones null, further ones kept behind.

    Raises:
        InputError: a column cannot be cast to its type; names table, column and types.

    Examples:
        >>> conform(pl.DataFrame({"recording_id": ["a"]}), RECORDINGS, "recordings").columns[:3]
        ['recording_id', 'path', 'sampling_rate']
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
                raise InputError(f"{name}: column {column} is {frame.schema[column]} and cannot be read as {dtype}") from error
    return frame.select(*columns, *(c for c in frame.columns if c not in schema))


@contextmanager
def reading_parquet(path: Path, *, checked: bool = False) -> Iterator[None]:
    """Raise what goes wrong while a Parquet file is read as one InputError that names the file.

    Args:
        path: the file.
        checked: its footer has been checked before.

    Raises:
        InputError: the file is missing, no regular file, damaged, or too large for the memory.

    Examples:
        >>> with reading_parquet(Path("/dev/null")):
        ...     pl.read_parquet("/dev/null")
        Traceback (most recent call last):
        nbaudio.core.errors.InputError: /dev/null: a device, not a regular file
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
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a readable Parquet file ({one_line(error)})") from error


def _check_footer(path: Path) -> None:
    """Refuse what polars panics at, which prints further lines: a damaged footer, or columns that lie outside of the file.

    Raises:
        pa.ArrowException, OSError: it is damaged.
    """
    size = path.stat().st_size
    footer = pq.read_metadata(path)
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for chunk in map(group.column, range(group.num_columns)):
            start = (chunk.has_dictionary_page and chunk.dictionary_page_offset) or chunk.data_page_offset
            if not 0 < start <= start + chunk.total_compressed_size <= size:
                raise pa.ArrowInvalid(f"column {chunk.path_in_schema} lies outside of the file")


def read_parquet(path: Path, columns: list[str] | None = None) -> pl.DataFrame:
    """A Parquet file, or some of its columns.

    Raises:
        InputError: as of `reading_parquet`, or a column is not there.
    """
    with reading_parquet(path):
        return pl.read_parquet(path, columns=columns, glob=False)


def parquet_schema(path: Path) -> pl.Schema:
    """The columns of a Parquet file and their types.

    Raises:
        InputError: as of `reading_parquet`.
    """
    with reading_parquet(path):
        return pl.scan_parquet(path, glob=False).collect_schema()


def parquet_slices(path: Path) -> Iterator[pl.DataFrame]:
    """A Parquet file's rows, `ROWS_A_GROUP` at a time, in order.

    Raises:
        InputError: as of `reading_parquet`.
    """
    table = pl.scan_parquet(path, glob=False)
    with reading_parquet(path):
        rows = table.select(pl.len()).collect().item()
    for start in range(0, rows, ROWS_A_GROUP):
        with reading_parquet(path, checked=True):
            part = table.slice(start, ROWS_A_GROUP).collect()
        yield part


RESERVED = frozenset(("audio", "audio_sha256", "file_name", "json", "length", "offset", "shard", "window"))
"""Names that corpora give to columns and members of their own, so that no column of a source can have them."""

WRITTEN = frozenset((*NORMALIZED, "text_corrected", "text_origin", "corrected_by", "sampling_rate", "num_samples", "duration_s"))
"""Names of columns that steps after ingest write, so that no column of a source can have them either."""


def text_column(frame: pl.DataFrame, name: str) -> pl.Series:
    """A column of texts that a table may lack: then all null."""
    return frame[name] if name in frame.columns else pl.Series(name, [None] * len(frame), dtype=pl.String)


def seconds_column() -> pl.Expr:
    """Duration in seconds of segments that carry their recording's `sampling_rate`; to show and to sum, not to cut by.

    Without audio the source's decimals stand in.
    """
    by_samples = (pl.col("end_sample") - pl.col("start_sample")) / pl.col("sampling_rate")
    by_source = pl.col("source_end").cast(pl.Float64, strict=False) - pl.col("source_start").cast(pl.Float64, strict=False)
    return pl.coalesce(by_samples, by_source).alias("duration_s")


def with_durations(segments: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """`segments` with `sampling_rate` (Hz, null without audio) and `duration_s` (seconds) joined on; the order is kept."""
    rates = recordings.select("recording_id", "sampling_rate")
    return segments.join(rates, on="recording_id", how="left", maintain_order="left").with_columns(seconds_column())


def without_audio(recordings: pl.DataFrame) -> bool:
    """Whether no recording is there yet, so that a selection is a preview by the source's own times."""
    return recordings["num_samples"].null_count() == len(recordings)


def whole_recording() -> pl.Expr:
    """Whether a segment is a whole recording whose length is not known yet: it has no times at all."""
    return pl.col("source_start").is_null() & pl.col("source_end").is_null()


def segment_failures(recordings: pl.DataFrame) -> dict[str, pl.Expr]:
    """The rules that a segment can fail, by name, most telling first; each expression is true for a failing row.

    The expressions want `segments` as `with_recordings` gives them. A segment without any times is
    a whole recording that is not there yet; where no segment has a text, there are no transcripts, and none is empty.
    """
    start = pl.col("source_start").cast(pl.Float64, strict=False)
    end = pl.col("source_end").cast(pl.Float64, strict=False)
    known = pl.Series(recordings["recording_id"]).implode()
    # The same time may be written with other decimals; what is no time has a rule of its own.
    unread = pl.col("source_start").is_not_null() & start.is_null()
    window = ("recording_id", start, end.alias("end"), unread.alias("unread"), "source_channel")
    return {
        "unknown_recording": ~pl.col("recording_id").is_in(known) | pl.col("recording_id").is_null(),
        "no_times": ~whole_recording() & (start.is_null() | end.is_null() | ~start.is_finite() | ~end.is_finite()),
        "negative_start": start < 0,
        "end_before_start": end <= start,
        "duplicate": ~pl.struct(*window).is_first_distinct(),
        "unknown_channel": has_unknown_channel(),
        "empty_text": (pl.col("text").count() > 0) & (pl.col("text").is_null() | ~pl.col("text").str.contains(r"\S")),
        "past_the_end": pl.col("end_sample") > pl.col("num_samples"),
    }


def with_recordings(segments: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """`segments` with `source_channel` and the facts of their recordings that rules look at; the order is kept."""
    facts = recordings.select("recording_id", "sampling_rate", "num_channels", "num_samples")
    return segments.with_columns(source_channel(segments)).join(facts, on="recording_id", how="left", maintain_order="left")


def check_tables(recordings: Frame, segments: Frame) -> pl.DataFrame:
    """Every row of these tables, of pandas or polars, that breaks a rule, once per rule.

    Returns:
        A frame with `table`, `row` (from 0), `key`, `rule` and `detail` (the values that broke it); empty when all is well.

    Raises:
        InputError: a table lacks its key or a column has a type that cannot be read.

    Examples:
        >>> recordings = pl.DataFrame({"recording_id": ["r"], "sampling_rate": [16000], "num_samples": [160000]})
        >>> times = {"source_start": ["9"], "source_end": ["2"]}
        >>> segments = pl.DataFrame({"segment_id": ["s"], "recording_id": ["r"], **times, "text": ["da"]})
        >>> check_tables(recordings, segments)["rule"].to_list()
        ['end_before_start']
    """
    recordings, segments = as_polars(recordings, "recordings"), as_polars(segments, "segments")
    for name, frame, key in (("recordings", recordings, "recording_id"), ("segments", segments, "segment_id")):
        if key not in frame.columns:
            raise InputError(f"{name}: the key column {key} is missing; columns are {', '.join(frame.columns) or 'none'}")
    recordings = conform(recordings, RECORDINGS, "recordings")
    segments = conform(segments, SEGMENTS, "segments")
    joined = with_recordings(segments, recordings.unique("recording_id", keep="first"))

    def failing(key: str, rule: str, broken: pl.Expr, detail: pl.Expr) -> pl.DataFrame:
        table, frame = ("recordings", recordings) if key == "recording_id" else ("segments", joined)
        rows = frame.with_row_index("row").filter(broken.fill_null(value=False))
        return rows.select(
            pl.lit(table).alias("table"), "row", pl.col(key).alias("key"), pl.lit(rule).alias("rule"), detail.alias("detail")
        ).cast(FAILURES)

    times = pl.format(
        "{} {} to {}",
        pl.col("recording_id").fill_null("?"),
        pl.col("source_start").fill_null("?"),
        pl.col("source_end").fill_null("?"),
    )
    rate = pl.col("sampling_rate")
    found = [
        failing("recording_id", rule, broken, detail)
        for rule, broken, detail in (
            ("duplicate_id", pl.col("recording_id").is_duplicated(), pl.col("path")),
            ("null_id", pl.col("recording_id").is_null(), pl.col("path")),
            ("sampling_rate", (rate <= 0), rate.cast(pl.String)),
            ("num_channels", pl.col("num_channels") <= 0, pl.col("num_channels").cast(pl.String)),
            ("no_samples", pl.col("num_samples") <= 0, pl.col("num_samples").cast(pl.String)),
        )
    ]
    found += [
        failing("segment_id", rule, broken, times)
        for rule, broken in (
            ("duplicate_id", pl.col("segment_id").is_duplicated()),
            ("null_id", pl.col("segment_id").is_null()),
            ("text_not_nfc", pl.col("text").str.normalize("NFC") != pl.col("text")),
            ("similarity_range", ~pl.col("similarity").is_between(-1, 1)),
            *segment_failures(recordings).items(),
        )
    ]
    return pl.concat(found)
