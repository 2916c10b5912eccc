"""Read the rows of a published dataset, however it is stored, without its audio."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

import polars as pl

from nbaudio.audio import name_matching
from nbaudio.core.errors import InputError, get_by_name
from nbaudio.formats import table
from nbaudio.formats.published.card_header import read_card
from nbaudio.formats.published.counted_reads import DatasetFiles
from nbaudio.formats.published.dataset import USUAL_COLUMNS, Published, as_rows, with_source_ids
from nbaudio.formats.published.parquet_rows import PARQUET, read_parquet_rows
from nbaudio.formats.published.tar_rows import TAR, read_tar_rows
from nbaudio.formats.transcripts import END_OF_RECORDING, Transcripts, numbered_lines
from nbaudio.sources.detection import list_layouts
from nbaudio.sources.source_formats import READERS
from nbaudio.tables.split_names import split_in, split_of_folder

# Files in which manifests and tables are; others of a remote dataset are not fetched.
_MANIFESTS = (
    *(".json", ".jsonl", ".json.gz", ".jsonl.gz", ".csv", ".tsv", ".txt", ".scp", ".stm"),
    *("text", "segments", "utt2spk", "spk2utt", "utt2dur", "reco2dur", "spk2gender"),
)
_METADATA = ("metadata.csv", "metadata.jsonl")


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
    if files.ending(PARQUET):
        return read_parquet_rows(files, configuration=configuration, options=options)
    with _manifests(files) as folder:
        if metadata := [name for name in files.names if PurePosixPath(name).name in _METADATA]:
            return _read_audio_folder(files, folder, metadata, options)
        if files.ending(TAR) and not _is_nemo(files):
            return read_tar_rows(files, configuration=configuration, options=options)
        return _read_manifest(files, folder)


def _is_nemo(files: DatasetFiles) -> bool:
    """Return whether manifests of NeMo are beside the tars."""
    return any("manifest" in PurePosixPath(name).name for name in files.ending(".json"))


@contextmanager
def _manifests(files: DatasetFiles) -> Iterator[Path]:
    """Yield a folder on this machine with the manifests of a dataset."""
    local = files.place.local
    if local is not None:
        yield local
        return
    with tempfile.TemporaryDirectory(prefix="nbaudio-") as folder:
        for name in files.names:
            is_manifest = name.lower().endswith(_MANIFESTS) and not name_matching.is_audio(name)
            if is_manifest and not name.startswith("/") and ".." not in name.split("/"):
                target = Path(folder, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(files.whole(name))
        yield Path(folder)


def _read_audio_folder(
    files: DatasetFiles, folder: Path, metadata: Sequence[str], options: Mapping[str, str]
) -> Published:
    """Read the tables of an AudioFolder: one a folder, whose path names the split."""
    frames = []
    problems: list[str] = []
    columns: dict[str, str] = {}
    chosen = {field: name for field, name in options.items() if field in ("text", "speaker_id")}
    for name in metadata:
        transcripts = table.read(folder / name, **chosen)
        inside = str(PurePosixPath(name).parent)
        frames.append(_rows(transcripts, name, split_of_folder(name), inside))
        problems += _problems(transcripts)
        columns |= transcripts.columns
    card = read_card(files)
    rows = with_source_ids(pl.concat(frames))
    declared = card.examples.get(card.configuration(None) or "", {})
    problems += filter(None, [card.problem])
    listed = {*files.names}
    missing = [clip for clip in rows["clip"].drop_nulls() if clip not in listed]
    if missing:
        problems.append(f"{len(missing):,} clips of the tables are no files, such as {missing[0]}")
    return Published("AudioFolder", rows, columns, declared, card.license, (), problems)


def _read_manifest(files: DatasetFiles, folder: Path) -> Published:
    """Read the manifests of another format that `ingest` reads; those of several splits as one."""
    single = len(files.names) == 1 and not (folder / files.names[0]).is_dir()
    layouts = list_layouts(folder / files.names[0] if single else folder)
    if any(layout.format == "align" for layout in layouts):
        raise InputError(f"{files.place}: transcripts that are not cut; run nbaudio align first")
    frames = []
    problems: list[str] = []
    not_read: list[str] = []
    columns: dict[str, str] = {}
    for layout in layouts:
        transcripts = READERS[layout.format](layout.source, **layout.options)
        inside = layout.source.relative_to(folder)
        place = inside.as_posix() if inside.name else files.place.name
        split = split_in(inside.with_suffix("").as_posix()) if inside.name else None
        frames.append(_with_kaldi_durations(_rows(transcripts, place, split, "."), layout.source))
        problems += _problems(transcripts)
        not_read += [each.sentence().removeprefix("not read: ") for each in transcripts.not_read]
        columns |= transcripts.columns
    rows = with_source_ids(pl.concat(frames))
    return Published(layouts[0].format, rows, columns, {}, None, not_read, problems)


def _with_kaldi_durations(rows: pl.DataFrame, folder: Path) -> pl.DataFrame:
    """Return rows with the durations of Kaldi's utt2dur, where it has them."""
    path = folder / "utt2dur"
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


def _rows(transcripts: Transcripts, place: str, split: str | None, inside: str) -> pl.DataFrame:
    """Return the rows of transcripts, as `dataset.ROWS`.

    `split` is that of rows without one; `inside` is the folder of the recordings.
    """
    frame = transcripts.frame
    columns = {
        "recording_id": pl.col("name"),
        "source_id": pl.col("segment_id"),
        "duration_s": _duration(frame),
        "split": pl.lit(split, pl.String),
        "clip": _whole_clip(inside),
    }
    if "source_split" in frame.columns:
        columns["split"] = pl.coalesce(pl.col("source_split"), pl.lit(split, pl.String))
    for name in ("license", "consent", "language", "audio_sha256"):
        if f"source_{name}" in frame.columns and name not in frame.columns:
            columns[name] = pl.col(f"source_{name}")
    others = [name for name in frame.columns if name not in columns and name != "segment_id"]
    fields = [column.alias(name) for name, column in columns.items()]
    return as_rows(frame.select(*others, *fields), place)


def _whole_clip(inside: str) -> pl.Expr:
    """Return the path of a clip that is a whole recording; null for windows."""
    path = pl.col("name") if inside == "." else pl.lit(f"{inside}/") + pl.col("name")
    return pl.when(pl.col("source_start").is_null()).then(path)


def _duration(frame: pl.DataFrame) -> pl.Expr:
    """Return the seconds of segments, as far as the source has them."""
    start = pl.col("source_start").cast(pl.Float64, strict=False).fill_null(0.0)
    end = pl.col("source_end").replace(END_OF_RECORDING, None).cast(pl.Float64, strict=False)
    whole = pl.lit(None, pl.Float64)
    if "source_duration" in frame.columns:
        whole = pl.col("source_duration").cast(pl.Float64, strict=False)
    return pl.coalesce(end, whole) - start
