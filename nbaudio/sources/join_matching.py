"""Find the segment of each row of a table: by its id, or by its recording and times.

Rows of the table are counted from 0 as `table_row`, segments of the workspace as `row`.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

import polars as pl

from nbaudio.tables import parquet_files, workspace_tables
from nbaudio.tables.buckets import Buckets, bucket_count, hash_bucket, store, write_buckets
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.workspace import Workspace

UNMATCHED = "matches no segment"
NO_KEY = "a key is empty or no number"
NO_RECORDING = "no recording has this name"
SEVERAL_RECORDINGS = "several recordings have this name"
TWICE = "the table has this segment several times"
SEVERAL = "matches several segments"

MATCHES = pl.Schema({"table_row": pl.UInt32, "row": pl.UInt32, "reason": pl.String})
"""Columns of matches, one row for each row of the table: `reason` says why one has no segment."""

_SECOND = 10**9  # times are compared in nanoseconds
_TIMES = ("recording_id", "start", "end")
_BY_TIMES = pl.Schema(
    {
        "table_row": pl.UInt32,
        "file": pl.String,
        "recording_id": pl.String,
        "start": pl.Int64,
        "end": pl.Int64,
        "reason": pl.String,
    }
)
_SEGMENTS = pl.Schema(
    {"row": pl.UInt32, "recording_id": pl.String, "start": pl.Int64, "end": pl.Int64}
)


@dataclass(frozen=True)
class _Pairs:
    """Rows of the table and of the segments with equal keys, in equally many buckets."""

    table: Buckets
    segments: Buckets

    def __iter__(self) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
        return zip(self.table, self.segments, strict=True)


def match_ids(workspace: Workspace, keys: Iterable[pl.DataFrame], folder: Path) -> pl.LazyFrame:
    """Match ids, which are the same in every Unicode composition; return `MATCHES`.

    Args:
        workspace: the workspace.
        keys: parts of the table with `table_row` and `segment_id`.
        folder: a folder for buckets.
    """
    schema = pl.Schema({"table_row": pl.UInt32, "segment_id": pl.String})
    key = pl.col("segment_id").str.normalize("NFC")
    table = store(keys, folder / "keys", schema).with_columns(key)
    segments = (
        workspace_tables.scan(workspace, ["segment_id"]).with_columns(key).with_row_index("row")
    )
    pairs = _divide(workspace, table, segments, "segment_id", folder)
    return store((_match_ids_of(rows, ids) for rows, ids in pairs), folder / "matches", MATCHES)


def _match_ids_of(rows: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """Return the matches of some rows of the table; all segments with their ids are there."""
    missing = pl.when(pl.col("segment_id").is_null()).then(pl.lit(NO_KEY)).otherwise(None)
    matched = rows.join(segments, on="segment_id", how="left")
    return _one_for_each_row(matched.with_columns(reason=missing))


def match_times(
    workspace: Workspace, keys: Iterable[pl.DataFrame], tolerance: Decimal, folder: Path
) -> pl.LazyFrame:
    """Match recordings and times; return `MATCHES`.

    Times match if they are equal, or else if start and end each differ by `tolerance` seconds at
    most.

    Args:
        workspace: the workspace.
        keys: parts of the table with `table_row`, `file`, `start`, and `end` or `duration`, as
            texts.
        tolerance: the most seconds.
        folder: a folder for buckets.
    """
    names = _recording_names(workspace)
    located = store((_located(part, names) for part in keys), folder / "keys", _BY_TIMES)
    located = _without_other_folders(located, names)
    segments = store(_segment_times(workspace), folder / "segments", _SEGMENTS)
    pairs = _divide(workspace, located, segments, "recording_id", folder)
    most = int(tolerance * _SECOND)
    return store(
        (_match_times_of(rows, times, most) for rows, times in pairs), folder / "matches", MATCHES
    )


def _divide(
    workspace: Workspace, table: pl.LazyFrame, segments: pl.LazyFrame, key: str, folder: Path
) -> _Pairs:
    """Divide rows of the table and segments by a key."""
    count = bucket_count(parquet_files.num_rows(workspace_tables.table_path(workspace)))
    bucket = hash_bucket(key, count)
    return _Pairs(
        write_buckets(table, bucket, count=count, folder=folder / "keys-by-bucket"),
        write_buckets(segments, bucket, count=count, folder=folder / "segments-by-bucket"),
    )


def _match_times_of(rows: pl.DataFrame, segments: pl.DataFrame, most: int) -> pl.DataFrame:
    """Return the matches of some rows of the table; all segments of their recordings are there."""
    exact = rows.join(segments, on=_TIMES, how="inner").select("table_row", "row")
    others = rows.join(exact, on="table_row", how="anti")
    near = _near(others, segments, most) if most else exact.clear()
    pairs = pl.concat([exact, near])
    return _one_for_each_row(rows.join(pairs, on="table_row", how="left"))


def _near(rows: pl.DataFrame, segments: pl.DataFrame, most: int) -> pl.DataFrame:
    """Return the pairs of rows and segments whose starts and ends differ by `most` ns at most."""
    width = most + 1  # near starts are in the same interval, or in neighboring ones
    interval = pl.col("start") // width
    placed = segments.with_columns(interval=interval)
    shifted = [rows.with_columns(interval=interval + step) for step in (-1, 0, 1)]
    candidates = pl.concat(shifted).join(placed, on=["recording_id", "interval"], suffix="_segment")
    is_near = pl.all_horizontal(
        (pl.col(name) - pl.col(f"{name}_segment")).abs() <= most for name in ("start", "end")
    )
    return candidates.filter(is_near).select("table_row", "row")


def _one_for_each_row(matched: pl.DataFrame) -> pl.DataFrame:
    """Return one match for each row of the table, with the reason where it has none.

    Args:
        matched: each row with each of its segments, or with null; `reason` where it has no key.
    """
    num_segments = pl.col("row").count().over("table_row")
    num_rows = pl.col("table_row").count().over("row")
    reason = (
        pl.when(pl.col("reason").is_not_null())
        .then("reason")
        .when(num_segments == 0)
        .then(pl.lit(UNMATCHED))
        .when(num_segments > 1)
        .then(pl.lit(SEVERAL))
        .when(num_rows > 1)
        .then(pl.lit(TWICE))
    )
    return (
        matched.with_columns(reason=reason).unique("table_row", keep="any").select(MATCHES.names())
    )


def _located(part: pl.DataFrame, names: Mapping[str, str | int]) -> pl.DataFrame:
    """Return the recording and the times of rows of the table, as `_BY_TIMES`."""
    start = _nanoseconds(part["start"])
    if "end" in part.columns:
        end = _nanoseconds(part["end"])
    else:
        end = start + _nanoseconds(part["duration"])
    recordings = [_recording_of(name, names) for name in part["file"]]
    reasons = [
        _reason_without_recording(name, recording)
        for name, recording in zip(part["file"], recordings, strict=True)
    ]
    ids = [recording if isinstance(recording, str) else None for recording in recordings]
    located = part.select("table_row", "file").with_columns(
        pl.Series("recording_id", ids, dtype=pl.String),
        start.alias("start"),
        end.alias("end"),
        pl.Series("reason", reasons, dtype=pl.String),
    )
    has_times = pl.all_horizontal(pl.col("start", "end").is_not_null())
    return located.with_columns(
        reason=pl.when(pl.col("recording_id").is_null())
        .then("reason")
        .when(~has_times)
        .then(pl.lit(NO_KEY))
    )


def _without_other_folders(located: pl.LazyFrame, names: Mapping[str, str | int]) -> pl.LazyFrame:
    """Return rows as `_BY_TIMES` without `file`, and without recordings of other folders.

    If `x/1.wav` and `y/1.wav` are both in the table, they are not one recording: it is the one
    whose folder its id, path or name in the source has, and else none.
    """
    matched = located.select("recording_id", "file").drop_nulls().unique().collect(**STREAMED)
    folders = defaultdict(set)
    for key, name in names.items():
        if isinstance(name, str) and "/" in key:
            folders[name].add(_parts(key))
    others = []
    for (recording,), group in matched.group_by("recording_id"):
        parts = {file: _parts(file) for file in group["file"]}
        longest = max(parts.values(), key=len)
        if all(_ends_alike(of_file, longest) for of_file in parts.values()):
            continue
        of_recording = folders[str(recording)]
        others += [
            file
            for file, of_file in parts.items()
            if not any(_ends_alike(of_file, of_name) for of_name in of_recording)
        ]
    is_other = pl.col("file").is_in(others)
    return located.with_columns(
        recording_id=pl.when(~is_other).then("recording_id"),
        reason=pl.when(is_other).then(pl.lit(NO_RECORDING)).otherwise("reason"),
    ).drop("file")


def _parts(name: str) -> tuple[str, ...]:
    """Return a file name without its ending, and its folders from the innermost one."""
    whole, _, stem = _spellings(name)
    folders = [folder for folder in whole.replace("\\", "/").split("/")[:-1] if folder]
    return (stem, *reversed(folders))


def _ends_alike(a: tuple[str, ...], b: tuple[str, ...]) -> bool:
    """Return whether two names agree as far as both have folders; see `_parts`."""
    return all(x == y for x, y in zip(a, b, strict=False))


def _recording_of(name: str | None, names: Mapping[str, str | int]) -> str | int | None:
    """Return the recording of a name, or the number of recordings that share it."""
    return next((names[key] for key in _spellings(name or "") if key in names), None)


def _reason_without_recording(name: str | None, recording: str | int | None) -> str:
    """Return why a name has no recording; `recording` is as `_recording_of` returns it."""
    if isinstance(recording, int):
        return SEVERAL_RECORDINGS
    return NO_RECORDING if name else NO_KEY


def _segment_times(workspace: Workspace) -> Iterator[pl.DataFrame]:
    """Yield the recordings and times of all segments, as `_SEGMENTS`."""
    row = 0
    for part in workspace_tables.read_batches(
        workspace, columns=("recording_id", "source_start", "source_end")
    ):
        yield part.select("recording_id").with_columns(
            _nanoseconds(part["source_start"]).alias("start"),
            _nanoseconds(part["source_end"]).alias("end"),
            row=pl.int_range(row, row + len(part), dtype=pl.UInt32),
        )
        row += len(part)


def _nanoseconds(texts: pl.Series) -> pl.Series:
    """Convert seconds to whole nanoseconds; null where a text is no number."""
    values = (decimal(text) for text in texts)
    rounded = [None if value is None else round(value * _SECOND) for value in values]
    return pl.Series(rounded, dtype=pl.Int64)


def decimal(text: str | None) -> Decimal | None:
    """Return a number of seconds; None for any other text."""
    try:
        value = Decimal((text or "").strip())
    except InvalidOperation:
        return None
    if value.is_finite() and -30 <= value.adjusted() <= 9:
        return value
    return None


def _recording_names(workspace: Workspace) -> dict[str, str | int]:
    """Return the recording of each id, path and name in the source, and of each file name.

    For a name that several recordings share, return the number of these recordings instead.
    """
    pairs = workspace.recordings.select("recording_id", "path").rows()
    if workspace_tables.table_path(workspace, "names").exists():
        pairs += workspace.table("names").select("recording_id", "name").rows()
    recordings: dict[str, set[str]] = defaultdict(set)
    for key, name in pairs:
        if name and key:
            for spelling in _spellings(name):
                recordings[spelling].add(key)
    unique: dict[str, str | int] = {}
    for name, keys in recordings.items():
        if len(keys) == 1:
            unique[name] = next(iter(keys))
        else:
            unique[name] = len(keys)
    return unique | {key: key for key, _ in pairs if key}


def _spellings(name: str) -> list[str]:
    """Return a name of a file as it is, without its folders, and without its ending."""
    name = unicodedata.normalize("NFC", name)
    last = name.replace("\\", "/").rpartition("/")[2]
    return [name, last, last.rpartition(".")[0] or last]
