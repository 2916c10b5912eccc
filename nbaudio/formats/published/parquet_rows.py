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
# A path of a number of up to five digits, and what stands before it.
_COUNT = r"^(.*/)?[^0-9/]*[0-9]{1,5}\.\w+$"
_SECONDS = {"duration_ms": 0.001}


@dataclass(frozen=True)
class _Part:
    """A file with its split, the columns of its fields, and the path of its clips, if any."""

    file: RangedParquet
    split: str | None
    columns: Mapping[str, str]
    path: str | None

    def rows(self) -> pl.DataFrame:
        """Return its rows, as `dataset.ROWS`."""
        leaves = [*dict.fromkeys([*self.columns.values(), *filter(None, [self.path])])]
        if not leaves:
            raise InputError(f"{self.file.name}: no column of texts, ids or speakers in it")
        fields = [pl.col(column).alias(name) for name, column in self.columns.items()]
        if self.path:
            fields.append(pl.col(self.path).alias("path"))
        frames = [frame.select(fields) for frame in self.file.frames(leaves)]
        if not frames:
            return as_rows(pl.DataFrame(schema=dict.fromkeys(self.columns, pl.String)), "")
        return as_rows(self._completed(pl.concat(frames)), self.file.name)

    def _completed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return fields with the split of the file, the place of each clip, and seconds."""
        number = pl.int_range(pl.len()).cast(pl.String)
        columns = [(pl.lit(f"{self.file.name}#") + number).alias("clip")]
        if self.split is not None:
            columns.append(pl.lit(self.split).alias("split"))
        factor = _SECONDS.get(self.columns.get("duration_s", ""))
        if factor is not None:
            columns.append(pl.col("duration_s").cast(pl.Float64, strict=False) * factor)
        if "recording_id" not in frame and "path" in frame and _names_recordings(frame["path"]):
            columns.append(pl.col("path").alias("recording_id"))
        return frame.with_columns(columns)


def _names_recordings(paths: pl.Series) -> bool:
    """Return whether the paths of clips name recordings.

    Neither a path that several clips of a file have, such as ``audio.wav``, does so, nor a count,
    such as ``17.wav``.
    """
    is_unique = paths.n_unique() == len(paths)
    return is_unique and not bool(paths.str.contains(_COUNT).fill_null(value=True).all())


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
    return Published(
        "Parquet",
        with_source_ids(pl.concat(rows)),
        columns,
        card.examples.get(configuration or "", {}),
        card.license,
        _not_read(files, splits, parts, card),
        [*problems, *filter(None, [card.problem])],
        sum(part.file.size for part in parts),
    )


def _splits(
    files: DatasetFiles, card: CardHeader, configuration: str | None
) -> dict[str, str | None]:
    """Return the Parquet files of a configuration with their splits."""
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
    """Return the first column that is a struct of bytes and path."""
    for field in schema:
        fields = {part.name for part in field.type} if pa.types.is_struct(field.type) else set()
        if {"bytes", "path"} <= fields:
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
    used = {column.partition(".")[0] for part in parts for column in part.columns.values()}
    used |= {part.path.partition(".")[0] for part in parts if part.path}
    lines = []
    if unread := sorted(columns - used):
        lines.append(f"columns: {', '.join(unread)}")
    if others := [name for name in files.ending(PARQUET) if name not in splits]:
        configurations = ", ".join([*card.patterns])
        lines.append(
            f"{len(others):,} files of other configurations ({configurations}); "
            "--config NAME audits another one"
        )
    return lines
