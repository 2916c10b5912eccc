"""Read subtitles beside their recordings: SubRip (.srt), WebVTT (.vtt) and YouTube's (.sbv).

Every cue is a segment, except for those of rolling captions that only repeat lines.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any

from nbaudio.core.report import count
from nbaudio.formats.rolling_captions import show_once
from nbaudio.formats.source_files import Layout, SourceFiles, list_words
from nbaudio.formats.subtitle_cues import cue_text, cues
from nbaudio.formats.transcripts import NotRead, Transcripts, read_sidecars, with_not_read

_ENDINGS = (".srt", ".vtt", ".sbv")
# Of subtitles that are not read: SubStation Alpha, TTML, SAMI, MicroDVD, lyrics.
_OTHER_ENDINGS = (".ass", ".ssa", ".ttml", ".dfxp", ".smi", ".sub", ".lrc")
# Sounds and music in subtitles, such as "[Music]", "(applause)", "*laughs*" and "♪ la la ♪".
_SOUND = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|\*[^*]+\*|[♪♫♬][^♪♫♬]*[♪♫♬]?")
# The name of a speaker at the start of a line: "ANNA:", ">> Mr. Smith:", "- Anna Kos (TV):"
_NAME = re.compile(
    r"(>+|[-–—])?\s*([^\W\d_][\w.]*(?:[ .]+[^\W\d_][\w.]*){0,4})(?: ?\([^()]{1,30}\))?:(?=\s|$)"
)
_CHANGE = re.compile(r"(?:>>|[-–—]\s?)\s*\w")  # mark of another speaker at the start of a line
_CUES_OF_A_NAME = 3  # cues of a file that begin with the name of one speaker
_MILLISECOND = 3  # decimals of seconds
_SAVE = "save them as .srt or .vtt, such as by ffmpeg"


def detect(files: SourceFiles) -> list[Layout]:
    """Return the folder of subtitles that files are in.

    Where no subtitles have the name of their recording alone, their language is found in names such
    as ``a.hr.srt``.
    """
    subtitles = files.ending(*_ENDINGS)
    if not subtitles:
        return []
    languages = _languages(files, subtitles)
    question = None
    if len(languages) > 1:
        question = (
            f"the subtitles are in {list_words(languages)}: choose one language, "
            f"such as --set 'options={{language: {languages[0]}}}'"
        )
    return [
        Layout(
            "subtitles",
            files.source,
            f"{len(subtitles):,} files are subtitles, such as {subtitles[0]}",
            frozenset(subtitles),
            options={"language": languages[0]} if languages else {},
            question=question,
        )
    ]


def _languages(files: SourceFiles, subtitles: Iterable[str]) -> list[str]:
    """Return the languages in the names of subtitles, sorted.

    There are none if any subtitles have the name of their recording alone, or of no recording.
    """
    recordings = {PurePosixPath(name).with_suffix("") for name in files.audio()}
    languages: set[str] = set()
    for name in subtitles:
        stem = PurePosixPath(name).with_suffix("")
        if stem in recordings or stem.with_suffix("") not in recordings:
            return []
        languages.add(stem.suffix.removeprefix("."))
    return sorted(languages)


def read(source: Path, *, language: str | None = None, encoding: str | None = None) -> Transcripts:
    """Read a folder of recordings with subtitles, or one file.

    With the language ``hr``, ``a.hr.srt`` has the subtitles of ``a.wav``. Of rolling captions, each
    line is one segment (see `rolling_captions`). Further subtitles in the folder are listed as not
    read: those in other languages and in other formats.
    """
    middle = f".{language.lower()}" if language else ""
    endings = tuple(f"{middle}{ending}" for ending in _ENDINGS)
    counts = Counter[str]()
    transcripts = read_sidecars(
        source,
        endings,
        partial(_segments, counts=counts),
        encoding=encoding,
        expected=f"subtitles that end in {' or '.join(endings)}{_others(source)}",
    )
    notes = [*transcripts.notes, *_notes(counts), *_speaker_notes(counts)]
    transcripts = replace(transcripts, notes=notes, on_picture_clock=True)
    return with_not_read(transcripts, *_not_read(source, endings))


def _segments(text: str, *, counts: Counter[str]) -> Iterator[dict[str, Any] | tuple[int, str]]:
    """Yield the cues of a file, each line once, and its problems; count what was changed."""
    rows = []
    counts["stream clock"] += "X-TIMESTAMP-MAP" in text
    for item in cues(text):
        if isinstance(item, dict):
            rows.append(item)
        else:
            yield item
    _count_times(rows, counts)
    captions = show_once(rows)
    counts["rolling"] += captions.is_rolling
    counts["repeated"] += captions.repeated
    counts["shortened"] += captions.shortened
    counts["overlapping"] += captions.overlapping
    for cue in captions.cues:
        speech = _SOUND.sub(" ", cue["text"])
        counts["sounds"] += speech != cue["text"]
        counts["only sounds"] += not any(map(str.isalnum, speech)) and speech != cue["text"]
    _count_speakers(captions.cues, counts)
    yield from captions.cues


def _count_times(rows: Sequence[Mapping[str, Any]], counts: Counter[str]) -> None:
    """Count the cues whose times programs read in several ways, and those out of order."""
    starts = [str(cue["source_start"]) for cue in rows]
    for cue in rows:
        fractions = (str(cue[name]).partition(".")[2] for name in ("source_start", "source_end"))
        counts["fractions"] += any(len(fraction) not in (0, _MILLISECOND) for fraction in fractions)
    for before, start in pairwise(map(Decimal, starts)):
        counts["back in time"] += start < before


def _count_speakers(rows: Sequence[Mapping[str, Any]], counts: Counter[str]) -> None:
    """Count the cues with names of speakers, and with several speakers, in their lines.

    A name that is not in capitals counts if many cues begin with it, or most with a name.
    """
    by_cue = [[str(cue_text([line])["text"] or "") for line in cue["lines"]] for cue in rows]
    first_names = [_capitalized_name(lines[0]) if lines else None for lines in by_cue]
    cues_of = Counter(filter(None, first_names))
    are_most = len(rows) >= _CUES_OF_A_NAME and 2 * cues_of.total() > len(rows)
    for lines, name in zip(by_cue, first_names, strict=True):
        is_repeated = name is not None and (are_most or cues_of[name] >= _CUES_OF_A_NAME)
        counts["names"] += is_repeated or any(map(_has_name, lines))
        counts["several speakers"] += sum(map(bool, map(_CHANGE.match, lines))) > 1


def _notes(counts: Counter[str]) -> Iterator[str]:
    """Yield what to report about cues that roll, repeat or overlap."""
    if files := counts["rolling"]:
        subject = count(files, "files", "have")
        yield f"{subject} rolling captions: each line is read once, in the cue that shows it first"
    if files := counts["stream clock"]:
        subject = count(files, "files", "have")
        yield f"{subject} X-TIMESTAMP-MAP of a stream: times are read as written, without it"
    if cues_back := counts["back in time"]:
        subject = count(cues_back, "cues", "begin")
        yield (
            f"{subject} before the one before: times are read as written, also where subtitles of "
            "several recordings are joined"
        )
    if fractions := counts["fractions"]:
        subject = count(fractions, "cues", "have")
        yield (
            f"{subject} times without three decimals: 00:00:01,5 is read as 1.5 s, although some "
            "programs mean 1.005 s"
        )
    if repeated := counts["repeated"]:
        subject = count(repeated, "cues", "only repeat")
        yield f"{subject} what another cue shows: left out"
    if shortened := counts["shortened"]:
        yield f"{shortened:,} cues overlap the next one, as most do: they end where it begins"
    if overlapping := counts["overlapping"]:
        subject = count(overlapping, "cues", "begin")
        yield f"{subject} before the end of the cue before: the audio of both has the words of both"
    if sounds := counts["sounds"]:
        subject = count(sounds, "cues", "have")
        yield (
            f"{subject} words in brackets, asterisks or notes of music, such as [Music]; "
            f"of {counts['only sounds']:,} these are the whole text. If nobody speaks them, leave "
            "such cues out: nbaudio select W --where \"text not like '[%'\""
        )


def _others(source: Path) -> str:
    """Return how many subtitles in other formats a folder or file is, and what to do with them."""
    paths = source.rglob("[!.]*") if source.is_dir() else [source]
    formats = Counter(path.suffix.lower() for path in paths if path.is_file())
    counts = [f"{formats[ending]:,} {ending}" for ending in _OTHER_ENDINGS if formats[ending]]
    return f"; there are {', '.join(counts)}: {_SAVE}" if counts else ""


def _capitalized_name(line: str) -> str | None:
    """Return the name that a line begins with if all of its words have capitals, else None."""
    name = _NAME.match(line)
    if name is not None and all(word[0].isupper() for word in re.findall(r"\w+", name[2])):
        return name[2]
    return None


def _has_name(line: str) -> bool:
    """Return whether a line begins with a name in capital letters, or with one behind >>."""
    name = _NAME.match(line)
    return name is not None and ((name[1] or "").startswith(">") or name[2].isupper())


def _speaker_notes(counts: Counter[str]) -> Iterator[str]:
    """Yield what to report about marks of speakers in the texts of cues."""
    if names := counts["names"]:
        subject = count(names, "cues", "begin")
        yield (
            f"{subject} a line with the name of a speaker, such as ANNA:, which is in the text "
            "although nobody speaks it"
        )
    if several := counts["several speakers"]:
        subject = count(several, "cues", "have")
        yield f"{subject} the words of several speakers, on lines that begin with dashes or >>"


def _not_read(source: Path, endings: tuple[str, ...]) -> Iterator[NotRead]:
    """Yield the subtitles of a folder that are not read: other languages, other formats."""
    if not source.is_dir():
        return
    names = [
        path.name.lower()
        for path in source.rglob("[!.]*")
        if path.is_file() and not path.name.lower().endswith(endings)
    ]
    languages = Counter(
        PurePosixPath(name).with_suffix("").suffix.removeprefix(".")
        for name in names
        if name.endswith(_ENDINGS)
    )
    for language, number in sorted(languages.items()):
        what = "subtitles of no language"
        option = "no option language"
        if language:
            what = f"subtitles in the language {language}"
            option = f"--option language={language}"
        yield NotRead(f"{what} (files)", number, option)
    formats = Counter(PurePosixPath(name).suffix for name in names)
    for ending in _OTHER_ENDINGS:
        yield NotRead(f"subtitles that end in {ending} (files)", formats[ending], _SAVE)
