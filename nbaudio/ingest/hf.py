"""A Hugging Face dataset on disk: Parquet files with an Audio column, a struct of ``bytes`` and ``path``.

Bytes are written once into the workspace's ``audio`` folder, since cutting seeks in files, and Parquet has no place to seek to.
Without bytes the paths name files below the source.

Conventions: such a file is called after its Parquet file and row (``train-00000-of-00002/00000017.flac``) and never after what
the dataset calls it; of that only a known audio extension is kept.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from nbaudio.errors import InputError
from nbaudio.ingest.transcripts import Problem, Transcripts, gather, printable
from nbaudio.names import is_audio

_ROWS = 4096
_CLIPS = 32
_SHARD = re.compile(r"(?:^|.*/)([^/]+?)-[0-9]+-of-[0-9]+")
_FURTHER = ("segment_id", "source_split")
_WANTED = "Parquet files with an Audio column (a struct of bytes and path)"
# Names that datasets give these columns, the usual first.
_TEXT = ("text", "sentence", "transcription", "transcript", "normalized_text")
_ASR = ("asr_text", "pred_text", "hypothesis")
_SPEAKER = ("speaker_id", "client_id", "speaker")
_ID = ("segment_id", "id", "utterance_id")


@dataclass(frozen=True)
class _Part:
    """One Parquet file: where it is, its name without the extension, its Audio column and whether it holds any bytes."""

    path: Path
    stem: str
    audio: str
    embeds: bool


def read(
    source: Path,
    *,
    audio: str | None = None,
    text: str | None = None,
    asr: str | None = None,
    speaker: str | None = None,
    id: str | None = None,
) -> Transcripts:
    """Read the Parquet files of a dataset.

    Args:
        source: the folder with the Parquet files, at any depth, or one of them.
        audio: the Audio column; the only one unless given.
        text: the column of the transcripts; ``text``, ``sentence``, ``transcription`` and the like unless given.
        asr: the column of hypotheses; ``asr_text``, ``pred_text`` or ``hypothesis`` unless given.
        speaker: the column of speakers; ``speaker_id``, ``client_id`` or ``speaker`` unless given.
        id: the column of ids; ``segment_id``, ``id`` or ``utterance_id`` unless given.

    Returns:
        A whole recording per row; `source_split` is what names of files begin with (``train-00000-of-00002.parquet``). Problems:
        files that cannot be read.

    Raises:
        InputError: there is nothing of the kind, or a column that was asked for is in no file.

    Examples:
        >>> import tempfile
        >>> source = Path(tempfile.mkdtemp()) / "train-00000-of-00001.parquet"
        >>> pq.write_table(pa.table({"audio": [{"bytes": b"RIFF", "path": "x.wav"}], "sentence": ["dobar dan"]}), source)
        >>> read(source).frame.select("name", "text", "source_split").rows()
        [('train-00000-of-00001/00000000.wav', 'dobar dan', 'train')]
    """
    parts: list[_Part] = []
    problems: list[Problem] = []
    root = source if source.is_dir() else source.parent
    for path in _files(source):
        try:
            parts.append(_part(path, path.relative_to(root), audio))
        except (pa.ArrowException, OSError, InputError) as error:
            problems.append(Problem(printable(path.name), None, str(error)))
    choices = {
        "text": [text] if text else _TEXT,
        "asr_text": [asr] if asr else _ASR,
        "speaker_id": [speaker] if speaker else _SPEAKER,
        "segment_id": [id] if id else _ID,
    }
    asked = [name for name in (text, asr, speaker, id) if name]
    columns = {name for part in parts for name in pq.read_schema(part.path).names}
    if parts and (missing := [name for name in asked if name not in columns]):
        raise InputError(f"{source}: no column {missing[0]!r}; there are {', '.join(sorted(columns))}")
    embeds = any(part.embeds for part in parts)

    def items() -> Iterator[dict[str, Any] | Problem]:
        yield from problems
        for part in parts:
            try:
                yield from _rows(part, choices, embeds=embeds)
            except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
                yield Problem(part.path.name, None, f"cannot be read on: {error}")

    found = gather(source, items(), further=_FURTHER, wanted=_WANTED)
    return replace(found, embedded=_embedded(parts)) if embeds else replace(found, audio_root=root)


def _files(source: Path) -> list[Path]:
    if source.is_file():
        return [source]
    found = sorted(source.rglob("*.parquet"))
    if not found and any(source.rglob("*.arrow")):
        raise InputError(f"{source}: Arrow files, as of save_to_disk; write Parquet with to_parquet() and ingest that")
    return [path for path in found if not any(part.startswith(".") for part in path.relative_to(source).parts)]


def _part(path: Path, relative: Path, audio: str | None) -> _Part:
    stem = relative.with_suffix("").as_posix()
    if printable(stem) != stem:
        raise InputError("its name is not Unicode; rename it")
    schema = pq.read_schema(path)
    kinds = {name: schema.field(name).type for name in dict.fromkeys(schema.names)}
    found = [name for name, kind in kinds.items() if pa.types.is_struct(kind) and {"bytes", "path"} <= {f.name for f in kind}]
    if audio is not None:
        found = [name for name in found if name == audio]
    if len(found) != 1:
        raise InputError(
            f"{len(found)} Audio columns{f' called {audio!r}' if audio else ''} ({', '.join(found) or 'none'}); "
            f"it has {', '.join(kinds)}, the option audio says which one is meant"
        )
    return _Part(path, stem, found[0], _embeds(path, f"{found[0]}.bytes"))


def _embeds(path: Path, leaf: str) -> bool:
    """Whether any value of a column is there, by the statistics; where there are none, it is taken to be."""
    metadata = pq.read_metadata(path)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column in (group.column(place) for place in range(group.num_columns)):
            if column.path_in_schema == leaf:
                known = column.statistics
                if known is None or not known.has_null_count or known.null_count < group.num_rows:
                    return True
    return False


def _rows(part: _Part, choices: Mapping[str, Sequence[str]], *, embeds: bool) -> Iterator[dict[str, Any] | Problem]:
    split = _SHARD.fullmatch(part.stem)
    with pq.ParquetFile(part.path) as file:
        names = file.schema_arrow.names
        columns = {ours: next((name for name in theirs if name in names), None) for ours, theirs in choices.items()}
        wanted = [f"{part.audio}.path", *filter(None, columns.values())]
        row = 0
        for batch in file.iter_batches(batch_size=_ROWS, columns=wanted):
            for values in batch.to_pylist():
                path = (values[part.audio] or {}).get("path")
                if embeds or path:
                    found = {ours: _text(values[name]) for ours, name in columns.items() if name}
                    name = _name(part, row, path) if embeds else path
                    yield {"name": name, "source_split": split[1] if split else None, **found}
                else:
                    yield Problem(part.path.name, row + 1, "neither bytes nor a path")
                row += 1


def _text(value: object) -> str | None:
    return None if value is None or value == "" else str(value)


def _name(part: _Part, row: int, path: str | None) -> str:
    extension = PurePosixPath(path or "").suffix
    return f"{part.stem}/{row:08d}{extension.strip().lower() if is_audio(path or '') else '.wav'}"


def _embedded(parts: Sequence[_Part]) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of all recordings; one without bytes, and what is behind a damage, is missing."""
    for part in parts:
        row = 0
        try:
            with pq.ParquetFile(part.path) as file:
                for batch in file.iter_batches(batch_size=_CLIPS, columns=[part.audio]):
                    for value in batch.column(0):
                        audio = value.as_py() or {}
                        if audio.get("bytes") is not None:
                            yield _name(part, row, audio.get("path")), audio["bytes"]
                        row += 1
        except (pa.ArrowException, OSError):
            continue
