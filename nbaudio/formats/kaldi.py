"""Kaldi data folders: ``wav.scp``, and where they are there ``segments``, ``text``, ``utt2spk``, ``spk2gender``, ``reco2dur``.

Conventions: a line is a key, blanks and the rest. Without ``segments`` every recording is one utterance and its key is the
utterance's. Paths of ``wav.scp`` are absolute or relative to the folder, or names that are looked for among the recordings; a
command there is refused and never run. The channel of an utterance is the fifth field of ``segments``; where two recordings of
``wav.scp`` are one file, it is the side (A or 1, B or 2) that ``reco2file_and_channel`` says.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbaudio.core.errors import InputError
from nbaudio.core.source_splits import split_role
from nbaudio.formats.base import Problem, Transcripts, collect_rows, numbered_lines
from nbaudio.formats.manifests import innermost_root

_LINE = re.compile(r"[ \t]*([^ \t]+)(?:[ \t]+(.*?))?[ \t]*")
# Channels as ``segments`` counts them or letters them, and sides as ``reco2file_and_channel`` does.
_CHANNELS = {"A": "0", "B": "1", **{str(number): str(number) for number in range(64)}}
_SIDES = {"A": "0", "1": "0", "B": "1", "2": "1"}
_FURTHER = ("segment_id", "source_split", "source_recording", "source_channel", "source_duration", "speaker_gender")


def read(source: Path, *, asr: str | None = None) -> Transcripts:
    r"""Read a Kaldi data folder.

    Args:
        source: the folder.
        asr: a file beside ``text`` and of its form that holds hypotheses, such as the result of a decoding.

    Returns:
        The utterances with their own ids; `source_recording` is the key in ``wav.scp``, `source_split` the name of the folder
        where it is that of a split, such as ``test_clean``. The recordings' own folder where the first is found. Problems: lines
        that have another form, commands, recordings or utterances that are in one file and not in the other.

    Raises:
        InputError: it is no such folder or nothing in it is of use.

    Examples:
        >>> import tempfile
        >>> source = Path(tempfile.mkdtemp())
        >>> _ = (source / "wav.scp").write_text("r1 a.wav\nr2 touch x; cat b.wav |\n")
        >>> _ = (source / "text").write_text("r1 dobar dan\n")
        >>> found = read(source)
        >>> found.frame.select("segment_id", "name", "text").rows()
        [('r1', 'a.wav', 'dobar dan')]
        >>> found.problems["reason"][0]
        "'r2' is a command; nothing is run, only file names are allowed"
    """
    if not (source / "wav.scp").is_file():
        raise InputError(f"{source}: there is no wav.scp; wanted is a Kaldi data folder")
    if asr is not None and not (source / asr).is_file():
        raise InputError(f"{source / asr}: there is no such file; the option asr names hypotheses in the form of text")
    return innermost_root(collect_rows(source, _items(source, asr), further=_FURTHER, wanted="a Kaldi data folder"), source)


def _items(source: Path, asr: str | None) -> Iterator[dict[str, Any] | Problem]:
    paths: dict[str, str] = {}
    for number, key, path in _pairs(source / "wav.scp"):
        if path.endswith("|"):
            yield Problem("wav.scp", number, f"{key!r} is a command; nothing is run, only file names are allowed")
        elif not path:
            yield Problem("wav.scp", number, f"{key!r} has no file name")
        elif paths.setdefault(key, path) != path:
            yield Problem("wav.scp", number, f"{key!r} was {paths[key]!r} before")
    tables: list[dict[str, str]] = []
    for name in ("text", asr, "utt2spk", "spk2gender", "reco2dur"):
        tables.append({})
        for number, key, value in _pairs(source / name) if name and (source / name).is_file() else ():
            if tables[-1].setdefault(key, value) != value:
                yield Problem(name or "", number, f"{key!r} was {tables[-1][key]!r} before, which is taken")
    texts, hypotheses, speakers, genders, durations = tables
    sides = _sides(source / "reco2file_and_channel", paths)
    split = source.name if split_role(source.name) else None
    seen = set()
    for utterance in _segments(source / "segments") if (source / "segments").is_file() else _wholes(paths):
        if isinstance(utterance, Problem):
            yield utterance
            continue
        line, key, recording, start, end, channel = utterance
        seen.add(key)
        if recording not in paths:
            yield Problem("segments", line, f"{key!r}: no usable recording {recording!r} in wav.scp")
            continue
        speaker = speakers.get(key)
        yield {
            "name": paths[recording],
            "source_start": start,
            "source_end": end,
            "text": texts.get(key),
            "asr_text": hypotheses.get(key),
            "speaker_id": speaker,
            "segment_id": key,
            "source_split": split,
            "source_recording": recording,
            "source_channel": channel or sides.get(recording),
            "source_duration": durations.get(recording),
            "speaker_gender": genders.get(speaker or ""),
        }
    for name, file in (("text", texts), (asr or "", hypotheses)):
        yield from (Problem(name, None, f"{key!r} is no utterance of this folder") for key in file if key not in seen)


def _pairs(path: Path) -> Iterator[tuple[int, str, str]]:
    """Number, key and rest of each line; blanks are spaces and tabs, all others belong to names and texts."""
    for number, line in numbered_lines(path):
        if found := _LINE.fullmatch(line):
            yield number, found[1], found[2] or ""


def _segments(path: Path) -> Iterator[tuple[int, str, str, str, str, str | None] | Problem]:
    for number, key, rest in _pairs(path):
        match re.split("[ \t]+", rest):
            case [recording, start, end]:
                yield number, key, recording, start, end, None
            case [recording, start, end, channel] if channel in _CHANNELS:
                yield number, key, recording, start, end, _CHANNELS[channel]
            case [_, _, _, channel]:
                yield Problem("segments", number, f"{key!r}: channel {channel!r} is unknown; known are numbers from 0, A and B")
            case _:
                yield Problem("segments", number, f"{key!r}: wanted are utterance, recording, start and end")


def _sides(path: Path, paths: dict[str, str]) -> dict[str, str]:
    """Channels of recordings that share a file; of others the side only says what the file was made from."""
    if not path.is_file():
        return {}
    files = Counter(paths.values())
    said = ((key, rest.split()[-1:]) for _, key, rest in _pairs(path))
    return {key: _SIDES[side] for key, [*named] in said for side in named if side in _SIDES and files[paths.get(key, "")] > 1}


def _wholes(paths: dict[str, str]) -> Iterator[tuple[int, str, str, None, None, None]]:
    return ((number, key, key, None, None, None) for number, key in enumerate(paths, 1))
