"""Read the tables of a published dataset, and leave its audio where it is.

Clips are fetched when a review draws them. `hf` brings in the audio of a dataset as well.
"""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.formats.published.counted_reads import DatasetFiles
from nbaudio.formats.published.dataset import Published
from nbaudio.formats.published.parquet_rows import PARQUET, read_parquet_rows
from nbaudio.formats.published.tar_rows import TAR, read_tar_rows
from nbaudio.formats.transcripts import PROBLEMS, TRANSCRIPTS, NotRead, Transcripts
from nbaudio.storage.location import Location
from nbaudio.tables.rows import Rows

#: The column that says where the audio of a segment is.
CLIP = "dataset_clip"
_FURTHER = ("license", "consent", "language", "audio_sha256")


def read(
    source: Path | Location,
    *,
    config: str | None = None,
    text: str | None = None,
    speaker: str | None = None,
    id: str | None = None,
) -> Transcripts:
    """Read a dataset in Parquet or WebDataset tars, at a path or URL, by ranges.

    Args:
        source: the folder, file or address.
        config: the configuration of a dataset of Hugging Face with several.
        text: column with the texts.
        speaker: column with the speakers.
        id: column with the ids of the clips.
    """
    files = DatasetFiles.at(source)
    named = {"text": text, "speaker_id": speaker, "source_id": id}
    options = {field: column for field, column in named.items() if column is not None}
    published = read_tables(files, config, options)
    problems = [(str(source), None, line) for line in published.problems]
    return Transcripts(
        rows=Rows.collect([_transcripts(published.rows)]),
        problems=pl.DataFrame(problems, schema=PROBLEMS, orient="row"),
        columns=published.columns,
        not_read=[NotRead(line, 1) for line in published.not_read],
        notes=["the audio stays in the dataset; 'nbaudio review export' fetches drawn clips"],
    )


def read_tables(files: DatasetFiles, config: str | None, options: Mapping[str, str]) -> Published:
    """Read the rows of a dataset in Parquet or tars; raise InputError if it has neither."""
    if files.ending(PARQUET):
        return read_parquet_rows(files, configuration=config, options=options)
    if files.ending(TAR):
        return read_tar_rows(files, configuration=config, options=options)
    raise InputError(
        f"{files.place}: no Parquet and no tars; nbaudio ingest has formats for other layouts, "
        "which 'nbaudio run FOLDER' finds by itself"
    )


def _transcripts(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows as readers do; a clip is a recording of its own, from 0 to its duration."""
    seconds = pl.col("duration_s").round(3).cast(pl.String)
    fields = {
        "name": pl.col("segment_id"),
        "source_start": pl.when(seconds.is_not_null()).then(pl.lit("0")),
        "source_end": seconds,
        "text": pl.col("text").str.normalize("NFC"),
        "asr_text": pl.col("asr_text").str.normalize("NFC"),
    }
    own_columns = {name: pl.lit(None, dtype) for name, dtype in TRANSCRIPTS.items()}
    own_columns |= {name: pl.col(name) for name in ("segment_id", "speaker_id")} | fields
    further = {"source_split": pl.col("split"), CLIP: pl.col("clip")}
    further["dataset_recording"] = pl.col("recording_id")
    present = [name for name in _FURTHER if rows[name].null_count() < len(rows)]
    further |= {name: pl.col(name) for name in present}
    columns = own_columns | further
    return rows.select(column.alias(name) for name, column in columns.items())
