"""Read and write Kaldi data folders.

They have ``wav.scp``, ``segments``, ``text``, ``utt2spk``, ``reco2dur`` and other files.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import polars as pl

from nbaudio.audio.name_matching import composed
from nbaudio.core import atomic, times
from nbaudio.core.errors import InputError
from nbaudio.core.report import count
from nbaudio.formats.source_files import Layout, SourceFiles, list_words
from nbaudio.formats.transcripts import (
    END_OF_RECORDING,
    NotRead,
    Problem,
    Transcripts,
    collect_rows,
    numbered_lines,
    with_audio_root,
    with_not_read,
)
from nbaudio.formats.writers import Parts, Writer, timed_segments
from nbaudio.tables import split_names
from nbaudio.tables.buckets import in_order, store
from nbaudio.tables.dataframes import STREAMED

COMMAND = "is a command; commands are not executed, only file names are allowed"

# Line, utterance, recording, start, end and channel.
_Utterance = tuple[int, str, str, str | None, str | None, str | None]

_LINE = re.compile(r"[ \t]*([^ \t]+)(?:[ \t]+(.*?))?[ \t]*")
# Channels in ``segments``, by number or letter, and sides in ``reco2file_and_channel``.
_CHANNELS = {"A": "0", "B": "1", **{str(number): str(number) for number in range(64)}}
_SIDES = {"A": "0", "1": "0", "B": "1", "2": "1"}
_WRITTEN = ("wav.scp", "segments", "text", "utt2spk", "spk2utt", "reco2dur")
_READ = (*_WRITTEN, "spk2gender", "reco2file_and_channel")
# Escaped, as ``=20``, in keys and (all up to ``-``) in speakers: sorting by <speaker>-<segment_id>
# then sorts by speaker.
_BLANKS = re.compile(r"[\s=\x00-\x1f\x7f]")
_UP_TO_DASH = re.compile(r"[\s=\x00-\x2d\x7f]")
_ROWS = 1 << 14  # utterances that become a table at once
_UTTERANCES = pl.Schema(
    {
        "utterance": pl.String,
        "speaker": pl.String,
        "place": pl.String,
        "text": pl.String,
        "is_mixed": pl.Boolean,
        "is_collapsed": pl.Boolean,
    }
)
"""Columns of utterances that are written: keys, what ``segments`` has, and the text if any.

`is_mixed` is whether a segment is on some of several channels, `is_collapsed` whether blanks of its
text are lost.
"""
_FURTHER = (
    "source_split",
    "source_recording",
    "source_channel",
    "source_duration",
    "speaker_gender",
)


def detect(files: SourceFiles) -> list[Layout]:
    """Return the data folders among files: those with ``wav.scp`` and ``text`` or ``segments``."""
    layouts = []
    for wav_scp in files.named("wav.scp"):
        folder = str(Path(wav_scp).parent)
        beside = {Path(name).name: name for name in files.below(folder)}
        used = [name for name in _READ if name in beside]
        if not {"text", "segments"}.isdisjoint(used):
            _, _, first_path = next(split_pairs([(1, files.first_line(wav_scp))]))
            layouts.append(
                Layout(
                    "kaldi",
                    files.path(folder),
                    f"{folder} has the files {list_words(used)}",
                    frozenset(beside[name] for name in used),
                    recording=first_path,
                )
            )
    return layouts


def read(source: Path, *, asr: str | None = None) -> Transcripts:
    """Read a Kaldi data folder.

    `asr` is a file of hypotheses beside ``text``, in the same format.
    """
    if not (source / "wav.scp").is_file():
        raise InputError(f"{source}: there is no wav.scp; expected a Kaldi data folder")
    if asr is not None and not (source / asr).is_file():
        raise InputError(
            f"{source / asr}: there is no such file; the option asr names hypotheses in "
            "the form of text"
        )
    transcripts = collect_rows(
        source, _items(source, asr), further=_FURTHER, expected="a Kaldi data folder"
    )
    with_root = with_audio_root(transcripts, source)
    return with_not_read(with_root, *_files_not_read(source, asr))


def _files_not_read(source: Path, asr: str | None) -> Iterator[NotRead]:
    """Yield the tables of a data folder that are not read, with their lines.

    Tables have no ending, or .scp, or begin as one that is read does, as text.asr: recordings and
    README.txt are none.
    """
    for file in sorted(source.iterdir()):
        begins_as_table = file.name.partition(".")[0] in _READ
        has_ending_of_table = file.suffix in ("", ".scp") and not file.name.startswith(".")
        is_table = (begins_as_table or has_ending_of_table) and file.is_file()
        if is_table and file.name not in (*_READ, asr):
            lines = sum(1 for _ in numbered_lines(file))
            option = "--option asr=" + file.name if file.name.startswith("text") else ""
            yield NotRead(f"lines of the file {file.name}", lines, option)


@dataclass(frozen=True)
class _Folder:
    """The tables of a data folder, by ids in NFC, as its files may come from several systems.

    Attributes:
        paths: files of recordings.
        spelled: ids of recordings as the source has them.
        texts: of utterances, as `hypotheses` and `speakers`.
        genders: of speakers.
        durations: seconds of recordings, as text.
        sides: channels of recordings that share a file.
        split: the split of all utterances, if the folder is called as one.
    """

    paths: dict[str, str]
    spelled: dict[str, str]
    texts: dict[str, str]
    hypotheses: dict[str, str]
    speakers: dict[str, str]
    genders: dict[str, str]
    durations: dict[str, str]
    sides: dict[str, str]
    split: str | None


def _items(source: Path, asr: str | None) -> Iterator[dict[str, Any] | Problem]:
    """Yield the rows of utterances, and the problems of the tables."""
    problems: list[Problem] = []
    folder = _read_folder(source, asr, problems)
    yield from problems
    seen = set()
    for utterance in _utterances(source, folder):
        if isinstance(utterance, Problem):
            yield utterance
            continue
        line, key, recording, *_ = utterance
        seen.add(composed(key))
        if composed(recording) in folder.paths:
            yield _row(folder, utterance)
        else:
            reason = f"{key!r}: no usable recording {recording!r} in wav.scp"
            yield Problem("segments", line, reason)
    for name, file in (("text", folder.texts), (asr or "", folder.hypotheses)):
        yield from (
            Problem(name, None, f"{key!r} is not an utterance of this folder")
            for key in file
            if key not in seen
        )


def _read_folder(source: Path, asr: str | None, problems: list[Problem]) -> _Folder:
    """Read all files of a folder but ``segments``; add what cannot be used to `problems`."""
    paths: dict[str, str] = {}
    spelled: dict[str, str] = {}
    problems += _add_recordings(paths, spelled, source / "wav.scp")
    tables: list[dict[str, str]] = []
    for name in ("text", asr, "utt2spk", "spk2gender", "reco2dur"):
        tables.append({})
        if name:
            problems += _add_pairs(tables[-1], source / name)
    texts, hypotheses, speakers, genders, durations = tables
    problems += _add_speakers(speakers, source / "spk2utt")
    sides = _sides(source / "reco2file_and_channel", paths)
    split = source.name if split_names.split_role(source.name) else None
    return _Folder(paths, spelled, texts, hypotheses, speakers, genders, durations, sides, split)


def _add_recordings(
    paths: dict[str, str], spelled: dict[str, str], wav_scp: Path
) -> Iterator[Problem]:
    """Add the recordings of ``wav.scp`` to tables; yield those that are no files."""
    for number, key, path in split_pairs(numbered_lines(wav_scp)):
        if path.endswith("|"):
            yield Problem("wav.scp", number, f"{key!r} {COMMAND}")
        elif not path:
            yield Problem("wav.scp", number, f"{key!r} has no file name")
        elif paths.setdefault(composed(key), path) != path:
            yield Problem("wav.scp", number, f"{key!r} was {paths[composed(key)]!r} before")
        else:
            spelled.setdefault(composed(key), key)


def _utterances(source: Path, folder: _Folder) -> Iterator[_Utterance | Problem]:
    """Yield the utterances of ``segments``, or without this file all recordings as utterances."""
    if (source / "segments").is_file():
        yield from _segments(source / "segments")
    else:
        for number, key in enumerate(folder.spelled.values(), 1):
            yield number, key, key, None, None, None


def _row(folder: _Folder, utterance: _Utterance) -> dict[str, Any]:
    """Return the segment of an utterance."""
    _, key, recording, start, end, channel = utterance
    utterance_id = composed(key)
    recording_id = composed(recording)
    speaker = folder.speakers.get(utterance_id)
    return {
        "name": folder.paths[recording_id],
        "source_start": start,
        "source_end": end,
        "text": folder.texts.get(utterance_id),
        "asr_text": folder.hypotheses.get(utterance_id),
        "speaker_id": speaker,
        "segment_id": key,
        "source_split": folder.split,
        "source_recording": recording,
        "source_channel": channel or folder.sides.get(recording_id),
        "source_duration": folder.durations.get(recording_id),
        "speaker_gender": folder.genders.get(composed(speaker or "")),
    }


def _add_pairs(table: dict[str, str], path: Path) -> Iterator[Problem]:
    """Add the pairs of a file, if it is there, to a table; yield keys that have two values."""
    if not path.is_file():
        return
    for number, key, value in split_pairs(numbered_lines(path)):
        if table.setdefault(composed(key), value) != value:
            reason = f"{key!r} was {table[composed(key)]!r} before, which is kept"
            yield Problem(path.name, number, reason)


def _add_speakers(speakers: dict[str, str], path: Path) -> Iterator[Problem]:
    """Add the speakers of ``spk2utt`` to those of ``utt2spk``, which is kept where they differ."""
    if not path.is_file():
        return
    for number, speaker, rest in split_pairs(numbered_lines(path)):
        if not rest:
            continue
        for key in re.split("[ \t]+", rest):
            first_speaker = speakers.setdefault(composed(key), speaker)
            if composed(first_speaker) != composed(speaker):
                reason = f"{key!r} was of speaker {first_speaker!r} before, which is kept"
                yield Problem(path.name, number, reason)


def split_pairs(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, str]]:
    """Split numbered lines into key and rest.

    Only spaces and tabs are blanks here; others belong to names and texts.
    """
    for number, line in lines:
        if match := _LINE.fullmatch(line):
            yield number, match[1], match[2] or ""


def _segments(path: Path) -> Iterator[_Utterance | Problem]:
    """Yield the utterances of ``segments``, and a problem for each line that is none."""
    for number, key, rest in split_pairs(numbered_lines(path)):
        match re.split("[ \t]+", rest):
            case [recording, start, end]:
                yield number, key, recording, start, _end(end), None
            case [recording, start, end, channel] if channel in _CHANNELS:
                yield number, key, recording, start, _end(end), _CHANNELS[channel]
            case [_, _, _, channel]:
                yield Problem(
                    "segments",
                    number,
                    f"{key!r}: channel {channel!r} is unknown; known are numbers from 0, A and B",
                )
            case _:
                yield Problem(
                    "segments", number, f"{key!r}: expected utterance, recording, start and end"
                )


def _end(end: str) -> str:
    """Return an end; -1 is that of the recording, as for Kaldi's extract-segments."""
    return END_OF_RECORDING if re.fullmatch(r"-1(\.0*)?", end) else end


def _sides(path: Path, paths: dict[str, str]) -> dict[str, str]:
    """Return the channels of recordings that share a file.

    The side of any other recording only says what its file was made from.
    """
    if not path.is_file():
        return {}
    files = Counter(paths.values())
    named_sides = ((key, rest.split()[-1:]) for _, key, rest in split_pairs(numbered_lines(path)))
    return {
        composed(key): _SIDES[side]
        for key, [*last] in named_sides
        for side in last
        if side in _SIDES and files[paths.get(composed(key), "")] > 1
    }


def _files(out: Path, split: str | None) -> list[Path]:
    return [out / (split or "") / name for name in _WRITTEN]


def _write(
    parts: Parts, recordings: pl.DataFrame, out: Path, split: str | None
) -> tuple[list[Path], list[str]]:
    """Write the files of a data folder; return them, and notes on what they cannot express."""
    files = _files(out, split)
    scp, segments, text, utt2spk, spk2utt, reco2dur = files
    _write_recordings(recordings, scp, reco2dur)
    with _scratch_folder(scp.parent) as folder:
        utterances = store(_utterance_parts(parts, recordings), folder / "rows", _UTTERANCES)
        by_key = in_order(utterances, "utterance", folder=folder / "utterances")
        is_sorted = _write_utterances(by_key, segments, utt2spk, text)
        pairs = utterances.select(
            "speaker", "utterance", pair=pl.format("{} {}", "speaker", "utterance")
        )
        _write_speakers(in_order(pairs, "pair", folder=folder / "pairs"), spk2utt)
        counts = utterances.select(pl.col("is_mixed", "is_collapsed").sum()).collect(**STREAMED)
    for empty in [file for file in (segments, text) if not file.stat().st_size]:
        empty.unlink()
        files.remove(empty)
    notes = [*_notes_on_segments(*counts.row(0), is_sorted=is_sorted), *_notes_on_files(recordings)]
    return files, notes


def _notes_on_segments(num_mixed: int, num_collapsed: int, *, is_sorted: bool) -> list[str]:
    """Return notes on what Kaldi's files cannot express of segments.

    Args:
        num_mixed: segments on several, but not all, channels of their recording.
        num_collapsed: texts whose spaces were collapsed.
        is_sorted: whether the order of utterances is also that of speakers.
    """
    notes = {
        (
            f"{count(num_mixed, 'segments', 'are')} on several of more channels, "
            "which Kaldi's segments cannot express"
        ): num_mixed,
        (
            f"{count(num_collapsed, 'texts', 'have')} spaces at the ends or repeated ones, "
            "which Kaldi's lines cannot hold"
        ): num_collapsed,
        (
            "sorting by utterance does not sort by speaker, since some have no speaker; "
            "run utils/fix_data_dir.sh"
        ): not is_sorted,
    }
    return [note for note, holds in notes.items() if holds]


@contextmanager
def _scratch_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder in `out`; remove that of a killed run before."""
    folder = out / ".utterances.partial"
    atomic.remove(folder)
    folder.mkdir()
    try:
        yield folder
    finally:
        atomic.remove(folder)


def _write_recordings(recordings: pl.DataFrame, scp: Path, reco2dur: Path) -> None:
    """Write the files and the durations of recordings, in the order of their keys."""
    files = []
    durations = []
    for row in recordings.iter_rows(named=True):
        key = _key(row["recording_id"])
        seconds = times.decimal_seconds(row["num_samples"], row["sampling_rate"])
        files.append(f"{key} {row['file']}\n".encode())
        durations.append(f"{key} {seconds:f}\n".encode())
    atomic.write_bytes(scp, b"".join(sorted(files)))
    atomic.write_bytes(reco2dur, b"".join(sorted(durations)))


def _utterance_parts(parts: Parts, recordings: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield the utterances of segments, as `_UTTERANCES`."""
    is_prefixed = _begin_with_speakers(parts)
    rows = (_utterance(row, is_prefixed=is_prefixed) for row in timed_segments(parts, recordings))
    while batch := list(islice(rows, _ROWS)):
        yield pl.DataFrame(batch, schema=_UTTERANCES, orient="row")


def _begin_with_speakers(parts: Parts) -> bool:
    """Return whether all ids begin with their speaker already, as those that came from Kaldi do."""
    pairs = (part.select("segment_id", "speaker_id").drop_nulls().iter_rows() for part in parts())
    return all(
        _key(key).startswith(f"{_key(speaker, _UP_TO_DASH)}-")
        for key, speaker in chain.from_iterable(pairs)
    )


def _utterance(row: dict[str, Any], *, is_prefixed: bool) -> tuple[object, ...]:
    """Return the values of `_UTTERANCES` of a segment."""
    utterance = _key(row["segment_id"])
    speaker = utterance
    if row["speaker_id"] is not None:
        speaker = _key(row["speaker_id"], _UP_TO_DASH)
    if speaker != utterance and not is_prefixed:
        utterance = f"{speaker}-{utterance}"
    is_one_channel = row["partly"] and len(row["channels"]) == 1
    channel = f" {row['channels'][0]}" if is_one_channel else ""
    place = f"{_key(row['recording_id'])} {row['start']:f} {row['end']:f}{channel}"
    text = None if row["text"] is None else " ".join(row["text"].split())
    is_mixed = row["partly"] and not is_one_channel
    return utterance, speaker, place, text, is_mixed, text != row["text"]


def _write_utterances(
    utterances: Iterable[pl.DataFrame], segments: Path, utt2spk: Path, text: Path
) -> bool:
    """Write utterances, which are in order; return whether their speakers are in order, too."""
    files = {"place": segments, "speaker": utt2spk, "text": text}
    is_sorted = True
    speakers = pl.Series(dtype=pl.String)
    with ExitStack() as stack:
        writers = {
            column: stack.enter_context(
                stack.enter_context(atomic.atomic_write(file)).open(
                    "w", encoding="utf-8", newline="\n"
                )
            )
            for column, file in files.items()
        }
        for part in utterances:
            for column, writer in writers.items():
                lines = part.drop_nulls(column).select(pl.format("{} {}\n", "utterance", column))
                writer.write(lines.to_series().str.join("").item())
            speakers = pl.concat([speakers.tail(1), part["speaker"]])
            is_sorted = is_sorted and speakers.is_sorted()
    return is_sorted


def _write_speakers(pairs: Iterable[pl.DataFrame], spk2utt: Path) -> None:
    """Write the utterances of each speaker; `pairs` of speakers and utterances are in order."""
    with (
        atomic.atomic_write(spk2utt) as partial,
        partial.open("w", encoding="utf-8", newline="\n") as file,
    ):
        file.writelines(_speaker_lines(pairs))


def _speaker_lines(pairs: Iterable[pl.DataFrame]) -> Iterator[str]:
    """Yield the lines of speakers with their utterances, in pieces."""
    before = None
    for part in pairs:
        speakers = part.group_by("speaker", maintain_order=True)
        for speaker, utterances in speakers.agg(pl.col("utterance").str.join(" ")).iter_rows():
            if before is None:
                yield speaker
            elif speaker != before:
                yield f"\n{speaker}"
            yield f" {utterances}"
            before = speaker
    if before is not None:
        yield "\n"


def _notes_on_files(recordings: pl.DataFrame) -> list[str]:
    """Return notes on files that Kaldi itself does not read."""
    is_remote = pl.col("file").str.contains("://", literal=True)
    is_wav = pl.col("file").str.to_lowercase().str.ends_with(".wav")
    remote = recordings.filter(is_remote)["file"]
    others = recordings.filter(~is_wav)["file"]
    notes = []
    if len(remote):
        are_remote = count(len(remote), "recordings", "are")
        notes.append(f"Kaldi itself reads no URLs; {are_remote} remote, such as {remote[0]}")
    if len(others):
        are_others = count(len(others), "recordings", "are")
        notes.append(f"Kaldi itself reads only WAV; {are_others} not WAV, such as {others[0]}")
    return notes


def _key(text: str, pattern: re.Pattern[str] = _BLANKS) -> str:
    return pattern.sub(lambda match: "".join(f"={byte:02X}" for byte in match[0].encode()), text)


def _rejects(file: str) -> str | None:
    """Return why a file name cannot be in Kaldi's lists; None if it can.

    Kaldi runs a name that ends in a bar as a command, and its lists have one line per file.
    """
    misread = file.strip() != file or file.endswith("|") or re.search(r"[\x00-\x1f\x7f]", file)
    if misread:
        return f"Kaldi would misread the file name {file!r}"
    return None


WRITER = Writer(_files, _write, _rejects)
