"""Read and write Lhotse manifests.

They are recordings with supervisions, or cuts, as JSON lines, plain or gzipped.
"""

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import polars as pl

from nbaudio.audio.name_matching import composed
from nbaudio.core import input_guards
from nbaudio.core.errors import InputError, one_line
from nbaudio.core.times import add_seconds, decimal_seconds
from nbaudio.formats.source_files import Layout, SourceFiles, list_words
from nbaudio.formats.transcripts import (
    Problem,
    Transcripts,
    collect_rows,
    list_manifests,
    with_audio_root,
)
from nbaudio.formats.writers import Parts, Writer, drop_none, timed_segments, write_json_lines
from nbaudio.storage.urls import is_url
from nbaudio.tables import split_names
from nbaudio.tables.provenance import PROVENANCE

_KINDS = ("recordings", "supervisions", "cuts")
# Fields of the first object of each kind of manifest.
_FIELDS = {
    "recordings": {"id", "sources"},
    "supervisions": {"id", "recording_id", "start", "duration"},
    "cuts": {"id", "supervisions"},
}
_ENDINGS = (".jsonl", ".jsonl.gz")
# A name is a kind and a split, such as ``corpus_recordings_train.jsonl.gz``.
_MANIFEST = re.compile(
    r"(?:.*[_-])?(recordings|supervisions|cuts)(?:[_-](.+?))?(?:\.jsonl)?(?:\.gz)?"
)
# Custom fields that are columns of their own.
_ABOUT = tuple(name for names in PROVENANCE.values() for name in names)
_ALTERED = "the file is damaged inside, and any line may be altered; fetch it again"
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+-]*")

_Shape = TypeVar("_Shape", bound=msgspec.Struct)


class _Source(msgspec.Struct):
    type: str
    source: str = ""
    channels: list[int] = []


class _Recording(msgspec.Struct):
    id: str
    sources: list[_Source]
    duration: msgspec.Raw = msgspec.Raw(b"null")
    num_samples: int | None = None
    sampling_rate: int | None = None
    transforms: list[msgspec.Raw] | None = None


class _Supervision(msgspec.Struct):
    id: str
    recording_id: str
    start: msgspec.Raw
    duration: msgspec.Raw
    channel: int | list[int] = 0
    text: str | None = None
    language: str | None = None
    speaker: str | None = None
    gender: str | None = None
    custom: dict[str, msgspec.Raw] | None = None
    alignment: dict[str, list[list[str | float | None]]] | None = None


class _Cut(msgspec.Struct):
    id: str
    type: str = "MonoCut"
    start: msgspec.Raw = msgspec.Raw(b"0")
    supervisions: list[_Supervision] = []
    recording: _Recording | None = None


def detect(files: SourceFiles) -> list[Layout]:
    """Return the folders with recordings and supervisions, or with cuts, among files."""
    manifests: dict[str, list[str]] = {}
    for name in files.ending(*_ENDINGS):
        kind = _MANIFEST.fullmatch(Path(name).name)
        if kind and _FIELDS[kind[1]] <= files.first_object(name).keys():
            manifests.setdefault(str(Path(name).parent), []).append(name)
    layouts = []
    for folder, names in manifests.items():
        source = files.source if files.is_single_file else files.path(folder)
        with suppress(InputError):  # recordings without supervisions, or the other way around
            _sets(source)
            layouts.append(
                Layout(
                    "lhotse",
                    source,
                    f"{list_words(Path(name).name for name in names)} are Lhotse's manifests",
                    frozenset(names),
                    recording=_first_path(files, names),
                )
            )
    return layouts


def _first_path(files: SourceFiles, names: Iterable[str]) -> str | None:
    """Return the path of the first recording that manifests name, if it is a file."""
    for name in names:
        first = files.first_object(name)
        with suppress(LookupError, TypeError):
            return str((first.get("recording") or first)["sources"][0]["source"])
    return None


def read(source: Path) -> Transcripts:
    """Read a file of cuts, or a folder of manifests.

    Of a folder, recordings and supervisions are read, or cuts where one of these is missing.
    """
    transcripts = collect_rows(
        source,
        (item for split, files in _sets(source).items() for item in _items(split, files)),
        further=(
            "source_recording",
            "source_split",
            "source_channel",
            "source_duration",
            "language",
            "speaker_gender",
            "custom",
            *_ABOUT,
        ),
        expected="Lhotse's recordings.jsonl.gz with supervisions.jsonl.gz, or its cuts",
    )
    return with_audio_root(transcripts, source if source.is_dir() else source.parent)


def _sets(source: Path) -> dict[str | None, dict[str, Path]]:
    """Return the manifests of each split by their kind; raise InputError if none is complete."""
    if source.is_file():
        match = _MANIFEST.fullmatch(source.name)
        if match and split_names.split_role(match[2] or ""):
            return {match[2]: {"cuts": source}}
        return {None: {"cuts": source}}
    sets: dict[str | None, dict[str, Path]] = {}
    for path in list_manifests(source, _ENDINGS):
        if match := _MANIFEST.fullmatch(path.name):
            files = sets.setdefault(match[2], {})
            if match[1] in files:
                raise InputError(
                    f"{source}: {path.name} and {files[match[1]].name} are the same; "
                    "keep one of them"
                )
            files[match[1]] = path
    if not any("cuts" in files or len(files) > 1 for files in sets.values()):
        raise InputError(
            f"{source}: expected recordings.jsonl.gz and supervisions.jsonl.gz of one "
            "split, or cuts.jsonl.gz"
        )
    return sets


def _items(split: str | None, files: Mapping[str, Path]) -> Iterator[dict[str, Any] | Problem]:
    """Yield the rows and problems of the manifests of a split."""
    recordings: dict[str, _Recording] = {}

    def note(recording: _Recording) -> Iterable[dict[str, Any]]:
        recordings[composed(recording.id)] = recording
        _name(recording)
        return ()

    def row(supervision: _Supervision) -> Iterable[dict[str, Any]]:
        recording = recordings.get(composed(supervision.recording_id))
        if recording is None:
            raise ValueError(f"recording {supervision.recording_id!r} is not among the recordings")
        return (_row(supervision, recording, "0", split),)

    if {"recordings", "supervisions"} <= files.keys():
        yield from _read(files["recordings"], _Recording, note)
        yield from _read(files["supervisions"], _Supervision, row)
    elif "cuts" in files:
        yield from _read(files["cuts"], _Cut, partial(_of_cut, split=split))
    else:
        for file in files.values():
            yield Problem(
                file.name,
                None,
                "expected recordings and supervisions of one split, found only one of them",
            )


def _of_cut(cut: _Cut, *, split: str | None) -> Iterable[dict[str, Any]]:
    if cut.type not in ("MonoCut", "MultiCut") or cut.recording is None:
        raise ValueError(f"cut {cut.id!r} is a {cut.type}, not a cut of one recording")
    if not cut.supervisions:
        raise ValueError(f"cut {cut.id!r} has no supervision")
    begin = _number(cut.start, "start")
    return (_row(supervision, cut.recording, begin, split) for supervision in cut.supervisions)


def _row(
    supervision: _Supervision, recording: _Recording, begin: str, split: str | None
) -> dict[str, Any]:
    """Return one segment; its times are relative to `begin`, in seconds."""
    relative = _number(supervision.start, "start")
    duration = _number(supervision.duration, "duration")
    start = relative if begin == "0" else add_seconds(begin, relative)
    custom = {key: msgspec.json.decode(value) for key, value in (supervision.custom or {}).items()}
    custom_json = msgspec.json.encode(supervision.custom).decode() if supervision.custom else None
    hypothesis = custom.get("asr_text")
    if not isinstance(hypothesis, str):
        hypothesis = None
    return {
        "name": _name(recording),
        "source_start": start,
        "source_end": add_seconds(start, duration),
        "text": supervision.text,
        "asr_text": hypothesis,
        "speaker_id": supervision.speaker,
        "word_times": _word_times(supervision, float(relative)),
        "segment_id": supervision.id,
        "source_recording": recording.id,
        "source_split": split,
        "source_channel": _channel(supervision.channel, recording),
        "source_duration": _declared_duration(recording),
        "language": supervision.language,
        "speaker_gender": supervision.gender,
        "custom": custom_json,
        **{name: str(custom[name]) for name in _ABOUT if custom.get(name) is not None},
    }


def _declared_duration(recording: _Recording) -> str | None:
    """Return the seconds that a recording lasts by its manifest, if it says so."""
    if bytes(recording.duration) != b"null":
        return _number(recording.duration, "duration")
    if recording.num_samples is not None and recording.sampling_rate:
        return str(decimal_seconds(recording.num_samples, recording.sampling_rate))
    return None


def _word_times(supervision: _Supervision, start: float) -> list[dict[str, float]] | None:
    """Return start and end of each word in seconds, from the start of the segment.

    Return None without an alignment, and raise ValueError for one of another form.
    """
    times = []
    for word in (supervision.alignment or {}).get("word", []):
        match word:
            case [_, int() | float() as at, int() | float() as lasting, *_]:
                times.append({"start": at - start, "end": at - start + lasting})
            case _:
                raise ValueError(
                    f"alignment: expected a word, its start and its duration, not {word}"
                )
    return times or None


def _name(recording: _Recording) -> str:
    """Return the path of a recording, which must be one file without transforms."""
    for source in recording.sources:
        if source.type == "command":
            raise ValueError(
                f"recording {recording.id!r} is a command; commands are not executed, "
                "only files are read"
            )
        is_file = source.type == "file" and source.source
        if not is_file and not (
            source.type == "url" and is_url(source.source) and not source.source.startswith("file:")
        ):
            raise ValueError(
                f"recording {recording.id!r} is of the type {source.type!r}; "
                "only files and URLs are read"
            )
    if len(recording.sources) != 1:
        raise ValueError(
            f"recording {recording.id!r} has {len(recording.sources)} files; expected one"
        )
    if recording.transforms:
        raise ValueError(
            f"recording {recording.id!r} is transformed when it is read; save it as a file first"
        )
    return recording.sources[0].source


def _channel(channel: int | list[int], recording: _Recording) -> str | None:
    """Return the places of a supervision's channels in the file.

    Return None if they are all channels that the file has.
    """
    numbers = [channel] if isinstance(channel, int) else channel
    available = recording.sources[0].channels
    if unknown := set(numbers) - set(available):
        raise ValueError(
            f"the recording has no channel {min(unknown)}; it has "
            f"{', '.join(map(str, available)) or 'none'}"
        )
    if set(numbers) == set(available):
        return None
    return ",".join(str(available.index(number)) for number in numbers)


def _number(raw: msgspec.Raw, key: str) -> str:
    if not _NUMBER.fullmatch(bytes(raw)):
        raise ValueError(
            f"{key}: expected a number, not {bytes(raw)[:40].decode(errors='replace')}"
        )
    return bytes(raw).decode()


def _read(
    file: Path, shape: type[_Shape], take: Callable[[_Shape], Iterable[dict[str, Any]]]
) -> Iterator[dict[str, Any] | Problem]:
    """Decode each line and pass it to `take`; yield its rows, or what is wrong with the line.

    Blank lines are skipped. Raise InputError if a compressed file was altered.
    """
    decode = msgspec.json.Decoder(shape).decode
    number = 0
    num_bytes = 0
    try:
        input_guards.check_regular(file)
        packed = file.stat().st_size
        for number, line in enumerate(_unpacked_lines(file), 1):
            num_bytes += len(line)
            input_guards.check_expansion(file, packed, num_bytes)
            if not line.strip():
                continue
            encoding = "utf-8-sig" if number == 1 else "utf8"
            try:
                # Msgspec does not look into the values that it leaves raw.
                rows = list(take(decode(line.decode(encoding))))
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                yield Problem(file.name, number, str(error))
            else:
                yield from rows
    except (OSError, EOFError, zlib.error, InputError) as error:
        if _is_altered(error):
            raise InputError(f"{file}: {_ALTERED} ({one_line(error)})") from error
        yield Problem(file.name, number + 1, f"cannot be read on: {one_line(error)}")


def _unpacked_lines(file: Path) -> Iterator[bytes]:
    """Yield the lines of a file, plain or compressed with gzip."""
    open_file: Callable[..., Any] = gzip.open if file.suffix == ".gz" else Path.open
    with open_file(file, "rb") as lines:
        yield from input_guards.lines(lines, file)


def _is_altered(error: Exception) -> bool:
    """Return whether compressed bytes or their checksum are wrong.

    Bytes that follow them, and a file that is not compressed, alter nothing.
    """
    is_other_content = "Not a gzipped file" in str(error)
    return isinstance(error, zlib.error | gzip.BadGzipFile) and not is_other_content


def _files(out: Path, split: str | None) -> list[Path]:
    suffix = f"_{split}" if split else ""
    return [out / f"{kind}{suffix}.jsonl.gz" for kind in _KINDS]


def _write(
    segments: Parts, recordings: pl.DataFrame, out: Path, split: str | None
) -> tuple[list[Path], list[str]]:
    """Write recordings, supervisions and cuts of a split; return the files and no notes."""
    written = {
        row["recording_id"]: _recording_line(row) for row in recordings.iter_rows(named=True)
    }
    parts: tuple[Iterator[dict[str, Any]], ...] = (
        iter(written.values()),
        (_supervision_line(row, row["start"]) for row in timed_segments(segments, recordings)),
        (
            _cut_line(row, written[row["recording_id"]])
            for row in timed_segments(segments, recordings)
        ),
    )
    return [
        write_json_lines(file, lines) for file, lines in zip(_files(out, split), parts, strict=True)
    ], []


def _recording_line(row: dict[str, Any]) -> dict[str, Any]:
    """Return a recording as Lhotse's manifests have it."""
    channels = list(range(row["num_channels"]))
    kind = "url" if is_url(row["file"]) else "file"
    return {
        "id": row["recording_id"],
        "sources": [{"type": kind, "channels": channels, "source": row["file"]}],
        "sampling_rate": row["sampling_rate"],
        "num_samples": row["num_samples"],
        "duration": decimal_seconds(row["num_samples"], row["sampling_rate"]),
        "channel_ids": channels,
    }


def _supervision_line(row: dict[str, Any], start: Any) -> dict[str, Any]:
    """Return a segment as a supervision that begins at `start`, in seconds."""
    custom = drop_none(asr_text=row["asr_text"], similarity=row["similarity"])
    channels = row["channels"]
    return drop_none(
        id=row["segment_id"],
        recording_id=row["recording_id"],
        start=start,
        duration=row["duration"],
        channel=channels[0] if len(channels) == 1 else channels,
        text=row["text"],
        speaker=row["speaker_id"],
        custom=custom or None,
    )


def _cut_line(row: dict[str, Any], recording: dict[str, Any]) -> dict[str, Any]:
    """Return a segment as a cut of a recording, with one supervision."""
    supervision = _supervision_line(row, 0)
    return {
        "id": row["segment_id"],
        "start": row["start"],
        "duration": row["duration"],
        "channel": supervision["channel"],
        "supervisions": [supervision],
        "recording": recording,
        "type": "MonoCut" if len(row["channels"]) == 1 else "MultiCut",
    }


WRITER = Writer(_files, _write)
