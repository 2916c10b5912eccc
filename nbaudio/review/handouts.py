"""The files of a review: who gets which rows, as a workbook, as CSV or TSV, and in one archive with the clips."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nbaudio.errors import ExistsError, InputError
from nbaudio.review.delimited import write_delimited
from nbaudio.review.reading import read_sheet
from nbaudio.review.record import ReviewRecord, row_key
from nbaudio.review.sheet import COLUMNS, FILLED_IN, write_sheet


@dataclass(frozen=True)
class Handout:
    """A file to hand out: whose it is and which segments are in it."""

    reviewer: str
    path: Path
    segment_ids: list[str]


def handouts(record: ReviewRecord, out: Path) -> list[Handout]:
    """Who gets what: `out` itself, or a file beside it for each reviewer."""
    return [
        Handout(reviewer, out.with_name(f"{out.stem}-{reviewer}{out.suffix}") if reviewer else out, ids)
        for reviewer, ids in record.shares().items()
        if ids
    ]


def sheet_files(rows: pl.DataFrame, record: ReviewRecord, sheet: Handout, *, tables: Sequence[str]) -> dict[Path, bytes]:
    """The workbook of a sheet, and the same as CSV or TSV."""
    files = {sheet.path: write_sheet(rows, record, sheet.reviewer)}
    plain = rows.select(
        "clip",
        "segment_id",
        pl.col("text").alias("transcript"),
        pl.col("asr_text").alias("hypothesis"),
        pl.col("speaker_id").alias("speaker"),
        pl.col("duration_s").round(2).alias("duration s"),
        pl.col("similarity").round(3),
        *(pl.lit("").alias(name) for name in FILLED_IN),
        pl.Series("key", [row_key(content, sheet.reviewer, record.name) for content in rows["content"]], dtype=pl.String),
    ).select(*COLUMNS)
    for kind in tables:
        files[sheet.path.with_suffix(f".{kind}")] = write_delimited(plain, kind)
    return files


def zipped(files: Mapping[Path, bytes], rows: pl.DataFrame, sheet: Path) -> dict[Path, bytes]:
    """One archive of the files and the clips of their rows, in a folder of the sheet's name; equal files give equal bytes."""
    held = {path.name: data for path, data in files.items()}
    held |= {name: (sheet.parent / name).read_bytes() for name in rows["clip"].drop_nulls().sort()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in held.items():
            entry = zipfile.ZipInfo(f"{sheet.stem}/{name}")  # of 1980, and of no system
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return {sheet.with_suffix(".zip"): out.getvalue()}


def is_filled_in(path: Path, data: bytes, record: ReviewRecord) -> bool:
    """Whether a file of this review is there already and says something else than what is given out.

    Raises:
        ExistsError: what is there has nothing to do with this review.
    """
    if not path.exists() or path.read_bytes() == data:
        return False
    if path.suffix != ".zip":
        try:
            if record.name in read_sheet(path).reviews:
                return True
        except InputError:
            pass  # no sheet at all
    raise ExistsError(f"{path}: is there and is no sheet of review {record.name}; move it away or give another --out")
