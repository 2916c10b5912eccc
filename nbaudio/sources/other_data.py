"""Read the sentences of data that is not brought in, to compare a corpus with them.

It may be a corpus, a workspace, a dataset of Hugging Face, a manifest, a table or a text file, on
this machine or at an address. Audio is not read.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

import polars as pl

from nbaudio.core.errors import AudioError, InputError, one_line
from nbaudio.core.input_guards import check_regular
from nbaudio.formats.headerless import headerless_form
from nbaudio.formats.published.tar_rows import TAR, texts_of_tar
from nbaudio.formats.source_columns import choose
from nbaudio.formats.source_files import Layout
from nbaudio.formats.table import ENDINGS, OTHER_SHEET, Cells, read_cells
from nbaudio.formats.transcripts import numbered_lines
from nbaudio.sources.detection import list_layouts
from nbaudio.sources.source_formats import READERS
from nbaudio.storage.folders import Folder, folder_at, read_object
from nbaudio.storage.location import Location, location
from nbaudio.storage.urls import is_url, redact_url
from nbaudio.tables.dataframes import Frame, as_polars
from nbaudio.tables.parquet_files import read_parquet
from nbaudio.tables.parquet_ranges import RangedParquet
from nbaudio.tables.split_names import is_held_out, ordered_splits, split_in, split_role

#: What a source of other data may be.
Other = str | Path | Frame

#: The columns of other data. `sha256` is that of the recording, and the window is in its samples;
#: a segment without a window is the whole recording. `audio_sha256` is that of the encoded clip.
OTHER = pl.Schema(
    {
        "text": pl.String,
        "split": pl.String,
        "speaker_id": pl.String,
        "recording_id": pl.String,
        "audio_sha256": pl.String,
        "sha256": pl.String,
        "start_sample": pl.Int64,
        "end_sample": pl.Int64,
    }
)

_ALL = "all"
_SPLITS = re.compile(r"(.+):([^\W\d]\w*(?:,[^\W\d]\w*)*)")
_LINES = (".txt", ".lst", "")
_TEXT_OF_KALDI = "text"
_ROWS = 1 << 16
_SHARD = re.compile(r"(.+?)-[0-9]+(?:-of-[0-9]+)?")
_NUMBERED_LINE = r"^\s*\(?(?<number>\d{1,9})(?:[.):]+|\s)\s*(?<sentence>\S.*)$"
_SPLIT_COLUMNS = ("split", "subset")


@dataclass(frozen=True)
class OtherData:
    """Other data as it was read.

    Attributes:
        name: its name, without folders of this machine and secrets.
        splits: names of the splits that count; empty where it has none, or all count.
        rows: the rows that count, as `OTHER`.
    """

    name: str
    splits: tuple[str, ...]
    rows: pl.DataFrame


def read_other(other: Other) -> OtherData:
    """Read other data.

    Where it has splits and some are held out by their names, only these count. ``OTHER:SPLIT``
    names the splits that count, separated by commas, ``OTHER:all`` takes all.

    Args:
        other: a path or URL, with splits or without, or a table with `text`.

    Raises:
        InputError: there is no such data, it has no sentences, or no such split.
    """
    if not isinstance(other, str | Path):
        frame = as_polars(other, "avoid")
        return _counting("table", _of_frame(frame, "avoid"), ())
    address, requested = split_address(str(other))
    name = _name_of(address)
    try:
        rows = _rows_of(address)
    except (AudioError, OSError) as error:
        raise InputError(f"{redact_url(address)}: cannot be read ({one_line(error)})") from error
    return _counting(name, rows, requested)


def split_address(other: str) -> tuple[str, tuple[str, ...]]:
    """Return the path or URL, and the splits that are named behind it."""
    match = _SPLITS.fullmatch(other)
    if match is None or (not is_url(other) and Path(other).exists()):
        return other, ()
    return match[1], tuple(match[2].split(","))


def _name_of(address: str) -> str:
    """Return the name by which reports name a path or URL, the same from any folder."""
    if is_url(address):
        return redact_url(address).rstrip("/")
    return Path(address).absolute().resolve().name


def _counting(name: str, rows: pl.DataFrame, requested: Sequence[str]) -> OtherData:
    """Return the rows that count: those of the requested splits, else of the held-out ones."""
    splits = ordered_splits(rows["split"].unique())
    if requested and list(requested) != [_ALL]:
        if missing := [split for split in requested if split not in splits]:
            raise InputError(
                f"{name}: there is no split {missing[0]!r}; there are {', '.join(splits) or 'none'}"
            )
        chosen = list(requested)
    elif requested:
        chosen = []
    else:
        chosen = [split for split in splits if split_role(split) and is_held_out(split)]
    if chosen:
        rows = rows.filter(pl.col("split").is_in(chosen))
    return OtherData(name, tuple(chosen), rows)


def _rows_of(address: str) -> pl.DataFrame:
    """Return all rows of a path or URL, as `OTHER`."""
    place = location(address if is_url(address) else str(Path(address).absolute()))
    if place.local is not None and not place.local.exists():
        raise InputError(f"{address}: there is no such file or folder")
    if not place.is_folder():
        return _of_file(place)
    folder = folder_at(address)
    if folder.exists("corpus.json"):
        return _of_corpus(folder)
    if folder.exists("segments.parquet") and folder.exists("recordings.parquet"):
        return _of_workspace(folder)
    return _of_folder(place)


def _of_corpus(folder: Folder) -> pl.DataFrame:
    """Return the clips of a corpus, with the hashes of their recordings."""
    sources = pl.DataFrame(
        read_object(folder, "corpus.json").get("sources", []),
        schema={"recording_id": pl.String, "sha256": pl.String},
    )
    with folder.local("segments.parquet") as path:
        return _with_hashes(read_parquet(path), sources)


def _of_workspace(folder: Folder) -> pl.DataFrame:
    """Return the segments of a workspace with the splits of the last selection, or the source's."""
    with folder.local("recordings.parquet") as path:
        recordings = read_parquet(path)
    with folder.local("segments.parquet") as path:
        segments = read_parquet(path)
    is_undivided = "split" not in segments or segments["split"].null_count() == len(segments)
    if is_undivided and "source_split" in segments.columns:
        segments = segments.with_columns(split="source_split")
    return _with_hashes(segments, recordings)


def _with_hashes(segments: pl.DataFrame, recordings: pl.DataFrame) -> pl.DataFrame:
    """Return segments as `OTHER`, with the hashes of their recordings, if there are any."""
    if "sha256" not in recordings.columns:
        return _conformed(segments.drop("sha256", strict=False))
    hashes = recordings.select("recording_id", "sha256").unique("recording_id", keep="first")
    joined = segments.drop("sha256", strict=False).join(
        hashes.cast(pl.String), on="recording_id", how="left", maintain_order="left"
    )
    return _conformed(joined)


def _conformed(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the columns of `OTHER`; absent ones are null."""
    nulls = [pl.lit(None).alias(name) for name in OTHER if name not in frame.columns]
    complete = frame.with_columns(nulls)
    return complete.select(pl.col(name).cast(dtype, strict=False) for name, dtype in OTHER.items())


def _of_frame(frame: pl.DataFrame, where: str) -> pl.DataFrame:
    """Return the rows of a table whose columns have usual names."""
    columns = _columns_of(frame.columns, where)
    renamed = frame.select(pl.col(column).alias(field) for field, column in columns.items())
    return _conformed(renamed)


def _columns_of(names: Sequence[str], where: str) -> dict[str, str]:
    """Return by field of `OTHER` its column; raise InputError if none has the texts."""
    fields = dict.fromkeys(("text", "speaker_id"))
    columns, _ = choose(Path(where), names, fields)
    if "text" not in columns:
        raise InputError(
            f"{where}: no column has sentences; expected one called text, sentence or transcript; "
            f"it has {', '.join(names)}"
        )
    split = next((name for name in _SPLIT_COLUMNS if name in names), None)
    if split:
        columns["split"] = split
    return columns | {
        name: name for name in OTHER if name in names and name not in ("text", "split")
    }


def _of_file(place: Location) -> pl.DataFrame:
    """Return the rows of one file: a table, or a text file with a sentence on each line."""
    name = PurePosixPath(place.name)
    ending = name.suffix.lower()
    if ending == ".parquet":
        return _of_parquet(place, name.name)
    if ending in ENDINGS:
        return _of_table(place)
    if ending == TAR:
        return _of_tar(place, name.name)
    with place.fetched() as path:
        if ending in _LINES and headerless_form(path):
            return _of_layout(Layout("table", path, "", frozenset()), path)
        if ending in _LINES:
            return _of_lines(path, has_ids=name.name == _TEXT_OF_KALDI)
        return _of_source(path)


def _of_table(place: Location) -> pl.DataFrame:
    """Return the rows of a table, which is fetched if it is remote."""
    with place.fetched() as path:
        cells = read_cells(path, ending=PurePosixPath(place.name).suffix.lower())
        _check_read(cells, str(place))
        columns = _columns_of(cells.columns, str(place))
        parts = cells.rows.batches({*columns.values()})
        frames = [
            _conformed(
                part.select(
                    pl.col(column).alias(field)
                    for field, column in columns.items()
                    if column in part.columns
                )
            )
            for part in parts
        ]
    return pl.concat([pl.DataFrame(schema=OTHER), *frames])


def _check_read(cells: Cells, where: str) -> None:
    """Raise InputError for a table with rows or sheets that are not read: nothing avoids them."""
    if cells.problems:
        raise InputError(f"{where}: line {cells.problems[0].line}: {cells.problems[0].reason}")
    sheets = [part for part in cells.not_read if part.count and part.what.startswith(OTHER_SHEET)]
    if sheets:
        raise InputError(f"{where}: {sheets[0].sentence()}, and avoid both")


def _of_lines(path: Path, *, has_ids: bool) -> pl.DataFrame:
    """Return the lines of a text file, without the ids before them if it has ids."""
    lines = pl.Series("text", dtype=pl.String)
    numbered = numbered_lines(path)
    while part := [line for _, line in islice(numbered, _ROWS)]:
        lines.append(pl.Series("text", part))
    if has_ids:
        lines = lines.str.strip_chars().str.extract(r"^\S+\s+(.*)$")
    return _conformed(_without_numbers(lines).to_frame())


def _without_numbers(lines: pl.Series) -> pl.Series:
    """Return the lines of a numbered list without their numbers, such as ``12. `` or ``(12)``.

    Each number is one more than the last, or 1, as a file may have several lists. Lines between
    them, such as headings, have no number. Other lines that begin with numbers stay.
    """
    groups = lines.str.extract_groups(_NUMBERED_LINE).struct.unnest()
    numbers = groups["number"].drop_nulls().cast(pl.Int64)
    continues = (numbers == numbers.shift(1) + 1) | (numbers == 1)
    if numbers.n_unique() < 2 or not continues.slice(1).all():
        return lines
    return pl.select(pl.coalesce(groups["sentence"], lines).alias(lines.name)).to_series()


def _of_source(path: Path) -> pl.DataFrame:
    """Return the segments of a source that `ingest` reads."""
    return pl.concat([_of_layout(layout, path) for layout in list_layouts(path)])


def _of_layout(layout: Layout, path: Path) -> pl.DataFrame:
    """Return the segments of a layout in a file or folder, with the split that its path names."""
    if layout.format not in READERS:
        raise InputError(f"{path}: transcripts that are not cut; name a table or a text file")
    transcripts = READERS[layout.format](layout.source, **layout.options)
    batches = transcripts.rows.batches({"text", "source_split", "speaker_id"})
    frames = [
        _conformed(batch.rename({"source_split": "split"}, strict=False)) for batch in batches
    ]
    split = pl.lit(split_in(layout.source.relative_to(path).as_posix()), dtype=pl.String)
    rows = pl.concat([pl.DataFrame(schema=OTHER), *frames])
    if layout.format == "folder" and rows["text"].null_count() == len(rows):
        raise InputError(
            f"{path}: recordings without texts in files beside them; name a table or a text file"
        )
    return rows.with_columns(pl.col("split").fill_null(split))


def _of_folder(place: Location) -> pl.DataFrame:
    """Return the rows of a dataset: Parquet files, a source that `ingest` reads, or tables."""
    listing = place.listing(lambda name: name.lower().endswith((*ENDINGS, TAR)))
    if listing is None:
        raise InputError(f"{place}: the server does not list this folder; name a file")
    names = list(listing[0])
    parquet = [name for name in names if name.endswith(".parquet")]
    if parquet:
        return pl.concat([_of_parquet(place / name, name) for name in parquet])
    if place.local is not None:
        try:
            return _of_source(place.local)
        except InputError:
            if not names:
                raise
    tables = [name for name in names if not name.endswith(TAR)]
    if not tables:
        return pl.concat([_of_tar(place / name, name) for name in names])
    return _of_tables(place, tables)


def _of_tar(place: Location, name: str) -> pl.DataFrame:
    """Return the texts in a tar, with the split that its path names."""
    texts = pl.Series("text", list(texts_of_tar(place)), dtype=pl.String)
    return _conformed(texts.to_frame()).with_columns(split=pl.lit(_split_of(name), dtype=pl.String))


def _of_tables(place: Location, names: Sequence[str]) -> pl.DataFrame:
    """Return the rows of the tables in a folder, with the splits that their paths name.

    Those without texts are left out. Raise the InputError of the first if none has any.
    """
    frames = []
    errors = []
    for name in names:
        try:
            rows = _of_table(place / name)
        except InputError as error:
            errors.append(error)
            continue
        split = pl.lit(_split_of(name), dtype=pl.String)
        frames.append(rows.with_columns(pl.col("split").fill_null(split)))
    if not frames:
        raise errors[0]
    return pl.concat(frames)


def _split_of(name: str) -> str | None:
    """Return the split that the path of a file in a dataset names."""
    stem = str(PurePosixPath(name).with_suffix(""))
    shard = _SHARD.fullmatch(PurePosixPath(stem).name)
    if shard and split_role(shard[1]):
        return shard[1]
    return split_in(stem)


def _of_parquet(place: Location, name: str) -> pl.DataFrame:
    """Return the rows of a Parquet file, of which only the columns that are needed are read."""
    if place.local is not None:
        check_regular(place.local)
    file = RangedParquet.open(str(place), place.read, place.status().num_bytes)
    columns = _columns_of(file.schema.names, str(place))
    frames = [
        _conformed(part.select(pl.col(column).alias(field) for field, column in columns.items()))
        for part in file.frames([*dict.fromkeys(columns.values())])
    ]
    rows = pl.concat([pl.DataFrame(schema=OTHER), *frames])
    return rows.with_columns(pl.col("split").fill_null(pl.lit(_split_of(name), dtype=pl.String)))
