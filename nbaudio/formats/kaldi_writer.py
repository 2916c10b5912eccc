"""Kaldi data folders, one for every split: wav.scp, segments, text, utt2spk, spk2utt, reco2dur, sorted as Kaldi wants them.

Conventions: blanks and ``=`` in keys are written ``=20`` and the like. An utterance is called ``<speaker>-<segment_id>``, so that
sorting by utterance sorts by speaker; for that speakers lose all characters up to ``-`` in the same way. Where no speaker is
known the utterance stands for itself.
"""

import re
from collections import defaultdict
from pathlib import Path

import polars as pl

from nbaudio.core.times import decimal_seconds
from nbaudio.formats.rows import Writer, timed_segments
from nbaudio.storage.atomic import atomic_write

_NAMES = ("wav.scp", "segments", "text", "utt2spk", "spk2utt", "reco2dur")
_BLANKS = re.compile(r"[\s=\x00-\x1f\x7f]")
_UP_TO_DASH = re.compile(r"[\s=\x00-\x2d\x7f]")


def _files(out: Path, split: str | None) -> list[Path]:
    return [out / (split or "") / name for name in _NAMES]


def _write(segments: pl.DataFrame, recordings: pl.DataFrame, out: Path, split: str | None) -> tuple[list[Path], list[str]]:
    tables: dict[str, dict[str, str]] = {name: {} for name in _NAMES}
    for row in recordings.iter_rows(named=True):
        key = _key(row["recording_id"])
        tables["wav.scp"][key] = row["file"]
        tables["reco2dur"][key] = f"{decimal_seconds(row['num_samples'], row['sampling_rate']):f}"
    utterances, mixed, collapsed = defaultdict(list), 0, 0
    prefixed = _are_prefixed(segments)
    for each in timed_segments(segments, recordings):
        utterance = _key(each.row["segment_id"])
        speaker = utterance if each.row["speaker_id"] is None else _speaker(each.row["speaker_id"])
        if speaker != utterance and not prefixed:
            utterance = f"{speaker}-{utterance}"
        channel = f" {each.channels[0]}" if len(each.channels) == 1 and not each.is_on_all else ""
        mixed += len(each.channels) > 1 and not each.is_on_all
        tables["segments"][utterance] = f"{_key(each.row['recording_id'])} {each.start:f} {each.end:f}{channel}"
        if each.row["text"] is not None:
            tables["text"][utterance] = " ".join(each.row["text"].split())
            collapsed += tables["text"][utterance] != each.row["text"]
        tables["utt2spk"][utterance] = speaker
        utterances[speaker].append(utterance)
    tables["spk2utt"] = {speaker: " ".join(sorted(its)) for speaker, its in utterances.items()}
    files = [file for file in _files(out, split) if tables[file.name]]
    for file in files:
        # Code points sort as the bytes of UTF-8 do, which is what LC_ALL=C means.
        lines = [f"{key} {value}\n" for key, value in sorted(tables[file.name].items())]
        with atomic_write(file) as partial:
            partial.write_text("".join(lines), encoding="utf8", newline="\n")
    notes = [f"{mixed:,} segments are on several channels of more, which Kaldi's segments cannot say"] if mixed else []
    if collapsed:
        notes.append(f"{collapsed:,} texts have more than a blank between words, or around them, which Kaldi's lines cannot hold")
    return files, notes + _notes(tables["utt2spk"], recordings)


def _notes(speakers: dict[str, str], recordings: pl.DataFrame) -> list[str]:
    notes = []
    if [speakers[key] for key in sorted(speakers)] != sorted(speakers.values()):
        notes.append("sorting by utterance does not sort by speaker, since some have no speaker; run utils/fix_data_dir.sh")
    there = recordings.filter(pl.col("file").str.contains("://", literal=True))
    if len(there):
        notes.append(f"Kaldi itself reads no addresses; {len(there):,} recordings lie elsewhere, such as {there['file'][0]}")
    others = recordings.filter(~pl.col("file").str.to_lowercase().str.ends_with(".wav"))
    if len(others):
        notes.append(f"Kaldi itself reads only WAV; {len(others):,} recordings are not, such as {others['file'][0]}")
    return notes


def _are_prefixed(segments: pl.DataFrame) -> bool:
    """Whether all ids begin with their speaker already, as those that came from Kaldi do."""
    pairs = segments.select("segment_id", "speaker_id").drop_nulls().iter_rows()
    return all(_key(key).startswith(f"{_speaker(speaker)}-") for key, speaker in pairs)


def _key(text: str) -> str:
    return _BLANKS.sub(_escape, text)


def _speaker(text: str) -> str:
    return _UP_TO_DASH.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    return "".join(f"={byte:02X}" for byte in found[0].encode())


def _refuses(file: str) -> str | None:
    """Kaldi runs what ends in a bar, and its lists have a line for each."""
    if file.strip() != file or file.endswith("|") or re.search(r"[\x00-\x1f\x7f]", file):
        return f"Kaldi would misread the file name {file!r}"
    return None


WRITER = Writer(_files, _write, _refuses)
