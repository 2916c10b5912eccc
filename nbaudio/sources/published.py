"""Read the rows of a published dataset, however it is stored, without its audio."""

import posixpath
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import polars as pl

from nbaudio.audio import name_matching
from nbaudio.core.errors import InputError, get_by_name
from nbaudio.formats import table
from nbaudio.formats.published.card_header import read_card
from nbaudio.formats.published.counted_reads import DatasetFiles
from nbaudio.formats.published.dataset import (
    USUAL_COLUMNS,
    Published,
    as_rows,
    chosen_columns,
    with_source_ids,
)
from nbaudio.formats.published.parquet_rows import PARQUET, read_parquet_rows
from nbaudio.formats.published.tar_rows import TAR, read_tar_rows
from nbaudio.formats.source_files import Layout
from nbaudio.formats.transcripts import END_OF_RECORDING, Transcripts, numbered_lines
from nbaudio.sources.detection import list_layouts
from nbaudio.sources.source_formats import READERS
from nbaudio.storage.urls import is_url
from nbaudio.tables.split_names import split_in, split_of_folder

# Files in which manifests and tables are; others of a remote dataset are not fetched.
_MANIFESTS = (
    *(".json", ".jsonl", ".json.gz", ".jsonl.gz", ".csv", ".tsv", ".txt", ".scp", ".stm"),
    *("text", "segments", "utt2spk", "spk2utt", "utt2dur", "reco2dur", "spk2gender"),
)
_METADATA = ("metadata.csv", "metadata.jsonl")
_UTT2DUR = "utt2dur"
# Fields whose columns readers of transcripts keep as the source calls them.
_AS_IN_SOURCE = ("license", "consent", "language", "audio_sha256")


def read_published(
    files: DatasetFiles,
    *,
    configuration: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Published:
    """Read the rows of a dataset without its audio.

    Args:
        files: of the dataset.
        configuration: of a dataset of Hugging Face with several.
        options: by field of `dataset.USUAL_COLUMNS`, the column that holds it.

    Raises:
        InputError: the files are no dataset that can be read, or an option is unknown.
    """
    options = options or {}
    for name in options:
        get_by_name(USUAL_COLUMNS, name, "field")
    published = _read(files, configuration, options)
    for field, column in options.items():
        if field not in published.columns:
            listed = ", ".join(sorted({*published.columns.values()})) or "none"
            raise InputError(f"{field}={column}: there is no such column; read are {listed}")
    return published


def _read(files: DatasetFiles, configuration: str | None, options: Mapping[str, str]) -> Published:
    """Read the rows of a dataset by its layout."""
    if files.ending(PARQUET):
        return read_parquet_rows(files, configuration=configuration, options=options)
    with _manifests(files) as folder:
        if metadata := [name for name in files.names if PurePosixPath(name).name in _METADATA]:
            return _read_audio_folder(files, folder, metadata, options)
        if files.ending(TAR) and not _is_nemo(files):
            return read_tar_rows(files, configuration=configuration, options=options)
        return _read_manifest(files, folder, options)


def _is_nemo(files: DatasetFiles) -> bool:
    """Return whether manifests of NeMo are beside the tars."""
    return any("manifest" in PurePosixPath(name).name for name in files.ending(".json"))


@contextmanager
def _manifests(files: DatasetFiles) -> Iterator[Path]:
    """Yield a folder on this machine with the manifests of a dataset.

    Those of a remote dataset are fetched; an InputError that names their folder then names the
    address instead. Raise InputError if it has none and no tar.
    """
    local = files.place.local
    if local is not None:
        yield local
        return
    manifests = [name for name in files.names if _is_manifest(name)]
    if not manifests and not files.ending(TAR):
        listed = ", ".join(files.names[:5]) or "none"
        raise InputError(
            f"{files.place}: none of its files is Parquet, a tar, a table or a manifest: {listed}"
        )
    with tempfile.TemporaryDirectory(prefix="nbaudio-") as folder:
        for name in manifests:
            target = Path(folder, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(files.whole(name))
        try:
            yield Path(folder)
        except InputError as error:
            raise InputError(str(error).replace(folder, str(files.place))) from error


def _is_manifest(name: str) -> bool:
    """Return whether a file of a remote dataset may be a manifest or a table, by its name."""
    is_inside = not name.startswith("/") and ".." not in name.split("/")
    return is_inside and name.lower().endswith(_MANIFESTS) and not name_matching.is_audio(name)


def _read_audio_folder(
    files: DatasetFiles, folder: Path, metadata: Sequence[str], options: Mapping[str, str]
) -> Published:
    """Read the tables of an AudioFolder: one a folder, whose path names the split."""
    frames = []
    problems: list[str] = []
    columns: dict[str, str] = {}
    chosen = {field: name for field, name in options.items() if field in ("text", "speaker_id")}
    notes: dict[str, None] = {}
    for name in metadata:
        transcripts = table.read(folder / name, **chosen)
        inside = str(PurePosixPath(name).parent)
        further = _further_columns(transcripts.frame, options)
        frames.append(_rows(transcripts, name, split_of_folder(name), inside, further))
        problems += _problems(transcripts)
        columns |= {**transcripts.columns, **further}
        notes |= dict.fromkeys(_notes(transcripts))
    card = read_card(files)
    listed = _listed_around(files)
    rows = with_source_ids(_with_listed_clips(pl.concat(frames), listed))
    declared = card.examples.get(card.configuration(None) or "", {})
    problems += filter(None, [card.problem])
    missing = [clip for clip in rows["clip"].drop_nulls() if clip not in listed]
    if missing:
        problems.append(f"{len(missing):,} clips of the tables are no files, such as {missing[0]}")
    return Published(
        "AudioFolder",
        rows,
        columns,
        declared,
        card.license,
        notes=[*notes],
        problems=problems,
    )


def _listed_around(files: DatasetFiles) -> set[str]:
    """Return the files of a dataset; of a single file those that are around it."""
    if len(files.names) > 1:
        return {*files.names}
    try:
        return {*DatasetFiles.at(files.place).names}
    except InputError:  # a server that does not list the folder
        return {*files.names}


def _with_listed_clips(rows: pl.DataFrame, listed: Collection[str]) -> pl.DataFrame:
    """Complete clip names without a folder or an ending to the paths of files in the dataset.

    A name that several files fit stays as it is.
    """
    unlisted = [clip for clip in rows["clip"].drop_nulls().unique() if clip not in listed]
    audio = [name for name in listed if name_matching.is_audio(name)]
    if not unlisted or not audio:
        return rows
    matches = name_matching.resolve(unlisted, audio).drop_nulls("path")
    paths = dict(matches.select("name", "path").iter_rows())
    is_whole = pl.col("recording_id") == pl.col("clip")
    path = pl.col("clip").replace(paths)
    return rows.with_columns(
        clip=path, recording_id=pl.when(is_whole).then(path).otherwise("recording_id")
    )


def _notes(transcripts: Transcripts) -> list[str]:
    """Return the notes of a reader on what it did not read, or read by a rule of its own."""
    return [note for note in transcripts.notes if "not read" in note or "no header" in note]


def _read_manifest(files: DatasetFiles, folder: Path, options: Mapping[str, str]) -> Published:
    """Read the manifests of another format that `ingest` reads; those of several splits as one."""
    single = len(files.names) == 1 and not (folder / files.names[0]).is_dir()
    layouts = list_layouts(folder / files.names[0] if single else folder)
    if any(layout.format == "align" for layout in layouts):
        raise InputError(f"{files.place}: transcripts that are not cut; run nbaudio align first")
    parts = [_read_layout(layout, folder, files.place.name, options) for layout in layouts]
    rows = pl.concat([part.rows for part in parts])
    rows = with_source_ids(_with_listed_clips(rows, _listed_around(files)))
    num_open = int((rows["is_open"] & rows["duration_s"].is_null()).sum())
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    if num_open:
        notes[f"clips to the end of recordings, whose lengths are not declared: {num_open:,}"] = (
            None
        )
    return Published(
        layouts[0].format,
        rows,
        columns={field: column for part in parts for field, column in part.columns.items()},
        not_read=[line for part in parts for line in part.not_read],
        notes=[*notes],
        problems=[line for part in parts for line in part.problems],
    )


def _read_layout(layout: Layout, folder: Path, name: str, options: Mapping[str, str]) -> Published:
    """Read one manifest of a dataset in a folder; `name` is that of a manifest in its top."""
    transcripts = READERS[layout.format](layout.source, **layout.options)
    inside = layout.source.relative_to(folder)
    place = inside.as_posix() if inside.name else name
    split = split_in(inside.with_suffix("").as_posix()) if inside.name else None
    further = _further_columns(transcripts.frame, options)
    rows = _rows(transcripts, place, split, _folder_of_names(transcripts, folder), further)
    not_read = [
        part.sentence().removeprefix("not read: ")
        for part in transcripts.not_read
        if _UTT2DUR not in part.what
    ]
    return Published(
        layout.format,
        _with_kaldi_durations(rows, layout.source),
        columns={**transcripts.columns, **further},
        not_read=not_read,
        notes=_notes(transcripts),
        problems=_problems(transcripts),
    )


def _with_kaldi_durations(rows: pl.DataFrame, folder: Path) -> pl.DataFrame:
    """Return rows with the durations of Kaldi's utt2dur, where it has them."""
    path = folder / _UTT2DUR
    if not path.is_file():
        return rows
    pairs = [line.split() for _, line in numbered_lines(path)]
    seconds = pl.DataFrame(
        [pair for pair in pairs if len(pair) == 2],
        schema={"source_id": pl.String, "listed": pl.String},
        orient="row",
    ).unique("source_id", keep="first")
    listed = pl.col("listed").cast(pl.Float64, strict=False)
    joined = rows.join(seconds, on="source_id", how="left", maintain_order="left")
    return joined.with_columns(duration_s=pl.coalesce("duration_s", listed)).drop("listed")


def _problems(transcripts: Transcripts) -> list[str]:
    """Return a line for each item that could not be read; of many, the first."""
    lines = [
        f"{file}{'' if line is None else f', line {line}'}: {reason}"
        for file, line, reason in transcripts.problems.head(20).iter_rows()
    ]
    rest = len(transcripts.problems) - len(lines)
    return [*lines, f"and {rest:,} more lines that cannot be read"] if rest > 0 else lines


def _folder_of_names(transcripts: Transcripts, folder: Path) -> str:
    """Return the folder that names of recordings are relative to, inside that of the dataset."""
    root = transcripts.audio_root
    if isinstance(root, Path) and root.is_relative_to(folder):
        return root.relative_to(folder).as_posix()
    return "."


def _further_columns(frame: pl.DataFrame, options: Mapping[str, str]) -> dict[str, str]:
    """Return by field the column of transcripts that holds it, where readers have no name for it.

    `options` name columns of any field.
    """
    # Names that are reserved have a prefix.
    names = {name.removeprefix("source_"): name for name in frame.columns}
    return {
        field: names[column]
        for field, column in chosen_columns([*names], options).items()
        if field in _AS_IN_SOURCE or column == options.get(field)
    }


def _rows(
    transcripts: Transcripts,
    place: str,
    split: str | None,
    inside: str,
    further: Mapping[str, str],
) -> pl.DataFrame:
    """Return the rows of transcripts, as `dataset.ROWS`.

    `split` is that of rows without one; `inside` is the folder of the recordings, and `further`
    are the columns of further fields.
    """
    frame = transcripts.frame
    columns = {
        "recording_id": _path_inside(frame["name"], inside),
        "source_id": pl.col("segment_id"),
        "duration_s": _duration(frame),
        "is_open": pl.col("source_end") == END_OF_RECORDING,
        "split": pl.lit(split, pl.String),
    }
    columns["clip"] = pl.when(pl.col("source_start").is_null()).then(columns["recording_id"])
    if "source_split" in frame.columns:
        columns["split"] = pl.coalesce(pl.col("source_split"), pl.lit(split, pl.String))
    columns |= {field: pl.col(column) for field, column in further.items()}
    if "audio_sha256" in further:
        # Else it is the hash of a recording that has other clips too.
        is_whole = pl.col("source_start").is_null()
        columns["audio_sha256"] = pl.when(is_whole).then(columns["audio_sha256"])
    others = [name for name in frame.columns if name not in columns and name != "segment_id"]
    fields = [column.alias(name) for name, column in columns.items()]
    return as_rows(frame.select(*others, *fields), place)


def _path_inside(names: pl.Series, inside: str) -> pl.Expr:
    """Return the paths of recordings in a dataset, so that folders have names of their own."""
    if inside == "." or names.is_empty():
        return pl.lit(names)
    paths = [name if is_url(name) else posixpath.normpath(f"{inside}/{name}") for name in names]
    return pl.lit(pl.Series(names.name, paths, pl.String))


def _duration(frame: pl.DataFrame) -> pl.Expr:
    """Return the seconds of segments, as far as the source has them."""
    start = pl.col("source_start").cast(pl.Float64, strict=False).fill_null(0.0)
    end = pl.col("source_end").replace(END_OF_RECORDING, None).cast(pl.Float64, strict=False)
    whole = pl.lit(None, pl.Float64)
    if "source_duration" in frame.columns:
        whole = pl.col("source_duration").cast(pl.Float64, strict=False)
    return pl.coalesce(end, whole) - start
