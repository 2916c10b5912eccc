"""Rows of datasets in Parquet, such as those of Hugging Face, with or without embedded audio."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from nbaudio.core.errors import InputError
from nbaudio.core.progress import progress
from nbaudio.formats.hf import split_of_file
from nbaudio.formats.published.card_header import CardHeader, read_card
from nbaudio.formats.published.counted_reads import DatasetFiles
from nbaudio.formats.published.dataset import (
    Published,
    as_rows,
    chosen_columns,
    with_source_ids,
)
from nbaudio.tables.parquet_ranges import RangedParquet, leaves_of

PARQUET = ".parquet"
# A file name that ends in a running number of up to five digits, such as ``clip_17.wav``.
_RUNNING_NUMBER = r"^(.*/)?[^0-9/]*[0-9]{1,5}\.\w+$"
# Columns of durations in another unit, with its length in seconds.
_UNITS = {"duration_ms": 0.001}


@dataclass(frozen=True)
class _Part:
    """A file of a dataset.

    Attributes:
        file: the Parquet file.
        split: of all its rows; None if a column says it, or nothing does.
        columns: by field of `dataset.ROWS`, the column that holds it.
        path: the column with the paths of clips, if there is one.
    """

    file: RangedParquet
    split: str | None
    columns: Mapping[str, str]
    path: str | None

    def rows(self) -> pl.DataFrame:
        """Read its rows, as `dataset.ROWS`; raise InputError if it has no column of a field."""
        leaves = set(self.columns.values())
        if self.path:
            leaves.add(self.path)
        if not leaves:
            raise InputError(f"{self.file.name}: no column of texts, ids or speakers in it")
        fields = [pl.col(column).alias(name) for name, column in self.columns.items()]
        if self.path:
            fields.append(pl.col(self.path).alias("path"))
        frames = [frame.select(fields) for frame in self.file.frames(sorted(leaves))]
        if not frames:
            return as_rows(pl.DataFrame(schema=dict.fromkeys(self.columns, pl.String)), "")
        return as_rows(self._completed(pl.concat(frames)), self.file.name)

    def _completed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Add the place of each clip, and split and recording where they are known otherwise.

        Durations are converted to seconds.
        """
        number = pl.int_range(pl.len()).cast(pl.String)
        columns = [(pl.lit(f"{self.file.name}#") + number).alias("clip")]
        if self.split is not None:
            columns.append(pl.lit(self.split).alias("split"))
        unit = _UNITS.get(self.columns.get("duration_s", ""))
        if unit is not None:
            columns.append(pl.col("duration_s").cast(pl.Float64, strict=False) * unit)
        if "recording_id" not in frame and "path" in frame and _names_recordings(frame["path"]):
            columns.append(pl.col("path").alias("recording_id"))
        return frame.with_columns(columns)


def _names_recordings(paths: pl.Series) -> bool:
    """Return whether the paths of clips can stand for the ids of recordings.

    They cannot if several clips have the same path, such as ``audio.wav``, or if all paths are
    running numbers, such as ``17.wav``.
    """
    is_unique = paths.n_unique() == len(paths)
    is_number = paths.str.contains(_RUNNING_NUMBER).fill_null(value=True)
    return is_unique and not is_number.all()


def read_parquet_rows(
    files: DatasetFiles, *, configuration: str | None, options: Mapping[str, str]
) -> Published:
    """Read the rows of a dataset in Parquet; only columns of fields are read.

    Raise InputError if no file can be read.
    """
    card = read_card(files)
    configuration = card.configuration(configuration)
    splits = _splits(files, card, configuration)
    parts, problems = _parts(files, splits, options)
    rows = []
    with progress("read tables", len(parts), "files", show=len(parts) > 1) as advance:
        for part in parts:
            try:
                rows.append(part.rows())
            except InputError as error:
                problems.append(str(error))
            advance(1)
    if not rows:
        raise InputError(f"{files.place}: {problems[0]}")
    columns = {name: column for part in parts for name, column in part.columns.items()}
    if card.problem:
        problems.append(card.problem)
    return Published(
        layout="Parquet",
        rows=with_source_ids(pl.concat(rows)),
        columns=columns,
        declared=card.examples.get(configuration or "", {}),
        license=card.license,
        not_read=_not_read(files, splits, parts, card),
        problems=problems,
        num_bytes=sum(part.file.size for part in parts),
    )


def _splits(
    files: DatasetFiles, card: CardHeader, configuration: str | None
) -> dict[str, str | None]:
    """Return the split of each Parquet file of a configuration, by name; None if not known."""
    names = files.ending(PARQUET)
    declared = card.splits(names, configuration)
    if declared:
        return {name: declared[name] for name in names if name in declared}
    return {name: split_of_file(name) for name in names}


def _parts(
    files: DatasetFiles, splits: Mapping[str, str | None], options: Mapping[str, str]
) -> tuple[list[_Part], list[str]]:
    """Return the files that can be read, and the reasons of the others."""
    parts = []
    problems = []
    for name, split in splits.items():
        try:
            file = files.parquet(name)
        except InputError as error:
            problems.append(str(error))
            continue
        leaves = leaves_of(file.schema)
        columns = chosen_columns([*leaves], options)
        parts.append(_Part(file, split, columns, _path_column(file.schema)))
    return parts, problems


def audio_column(schema: pa.Schema) -> str | None:
    """Return the first column that is a struct of bytes and path, None without one."""
    for field in schema:
        if not pa.types.is_struct(field.type):
            continue
        if {"bytes", "path"} <= {part.name for part in field.type}:
            return str(field.name)
    return None


def _path_column(schema: pa.Schema) -> str | None:
    """Return the column with the paths of clips."""
    column = audio_column(schema)
    return f"{column}.path" if column else None


def _not_read(
    files: DatasetFiles,
    splits: Mapping[str, str | None],
    parts: Sequence[_Part],
    card: CardHeader,
) -> list[str]:
    """Return lines about columns and files that are left out."""
    columns = {name for part in parts for name in part.file.schema.names}
    leaves = [leaf for part in parts for leaf in (*part.columns.values(), part.path) if leaf]
    used = {leaf.partition(".")[0] for leaf in leaves}
    unread = sorted(columns - used)
    others = [name for name in files.ending(PARQUET) if name not in splits]
    lines = []
    if unread:
        lines.append(f"columns: {', '.join(unread)}")
    if others:
        configurations = ", ".join([*card.patterns])
        lines.append(
            f"{len(others):,} files of other configurations ({configurations}); "
            "audit --config NAME or ingest --option config=NAME reads another one"
        )
    return lines
