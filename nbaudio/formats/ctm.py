"""Read CTM: recording, channel, start, duration and word in each line."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from nbaudio.core.errors import InputError
from nbaudio.formats.timed_tokens import (
    ALTERNATIVES,
    SOUNDS,
    Place,
    Side,
    Token,
    Utterance,
    is_mark,
    seconds,
)
from nbaudio.formats.transcripts import numbered_lines

# The name of a recording may have blanks; a confidence, a type and a speaker may follow the word.
_LINE = re.compile(
    r"\s*(\S.{0,300}?)\s+(\S+)\s+(nan|-?[\d.]+)\s+(nan|-?[\d.]+)"
    r"(?:\s+(\S+)(?:\s+(?:NA|nan|[-+\d.eE]+)(?:\s+(\S+)(?:\s+\S+)?)?)?)?\s*$"
)
# Begin, separate and end the alternatives of some words.
_ALTERNATIVE = re.compile(r"\s*\S.*\s\*\s+\*\s+<(ALT_BEGIN|ALT|ALT_END)>", re.IGNORECASE)
# Types of tokens that are no words, as NIST has them.
_SOUND_TYPES = frozenset({"non-lex", "misc", "noscore"})
_CHANNELS = {"A": 0, "1": 0, "B": 1, "2": 1}
# What aligners write for a blank inside of a token.
_BLANK = "<space>"


def is_ctm(line: str) -> bool:
    """Return whether a line is one of CTM."""
    return (_LINE.match(line) or _ALTERNATIVE.match(line)) is not None


def read_ctm(path: Path) -> Iterator[Utterance]:
    """Yield each word of a CTM file.

    Of alternatives, the first one is read. Channels are sides: ``A`` and ``1`` are the first,
    ``B`` and ``2`` the second.

    Raises:
        InputError: a line is neither a word nor a comment.
    """
    is_further = False
    for number, line in numbered_lines(path.resolve()):
        if line.startswith(";;"):
            continue
        if alternative := _ALTERNATIVE.match(line):
            is_further = alternative[1].upper() == "ALT"
            continue
        row = _LINE.match(line)
        if row is None:
            expected = "expected recording, channel, start, duration and word"
            raise InputError(f"{path}, line {number}: {expected}, not {line.strip()[:60]!r}")
        yield _utterance(path, row.groups(), is_further=is_further)


def _utterance(path: Path, row: Sequence[str | None], *, is_further: bool) -> Utterance:
    """Return the word of a line; `is_further` says that it is a further alternative."""
    recording, label, start, duration, word, kind = row
    place = Place(recording, f"{path}, {recording}")
    text = (word or "").replace(_BLANK, " ")
    side = Side(label or "", _CHANNELS.get(label or ""))
    if is_further:
        return Utterance(place, left_out={ALTERNATIVES: 1})
    if is_mark(text) or (kind or "").lower() in _SOUND_TYPES:
        return Utterance(place, left_out={SOUNDS: 1})
    begin = seconds(start)
    token = Token(text, begin, begin + seconds(duration))
    return Utterance(place, [token], side=side, has_unit=False)
