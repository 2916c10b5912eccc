"""Read the verdict file of a review page as a `Sheet`: a JSON file with all rows of the page, also those without a verdict.

A verdict has the time that the page noted when it was given, by the clock of the reviewer's machine, but at most the time when
the file was saved: a forged or wrong clock cannot make a verdict hold against later ones.
"""

import codecs
import datetime as dt
from pathlib import Path

import msgspec

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError, one_line
from nbaudio.review.cell_escaping import MADE, cell_text
from nbaudio.review.sheet_reader import Row, Sheet, modified

#: The value of `format` in a verdict file.
FORMAT = "nbaudio verdicts 1"


class _Given(msgspec.Struct):
    """One row: the segment as shown, and what the reviewer said; without a verdict if it was not judged."""

    segment_id: str
    content: str
    verdict: str = ""
    comment: str = ""
    corrected_text: str = ""
    time: str = ""


class _VerdictFile(msgspec.Struct):
    format: str
    review: str
    corpus: str
    reviewer: str
    saved: str
    verdicts: list[_Given]


def read_verdict_file(path: Path) -> Sheet:
    """Read a verdict file; raise InputError for any other file."""
    written = modified(path)
    try:
        data = input_guards.read_all(path).removeprefix(codecs.BOM_UTF8)
        file = msgspec.json.decode(data, type=_VerdictFile)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise InputError(f"{path}: not the verdict file of a review page, or not all of it ({one_line(error)})") from error
    if file.format != FORMAT:
        raise InputError(f"{path}: its format is {file.format[:60]!r}, only {FORMAT!r} can be read")
    saved = _time(file.saved, written)
    rows = [
        Row(
            number,
            {
                "segment_id": one.segment_id,
                "verdict": cell_text(one.verdict),
                "comment": cell_text(one.comment),
                "corrected text": one.corrected_text,
            },
            (one.content, file.reviewer, file.review),
            _time(one.time, saved),
        )
        for number, one in enumerate(file.verdicts, start=1)
    ]
    origin = {"review": file.review, "corpus": file.corpus, "reviewer": file.reviewer}
    return Sheet(path, rows, cell_text(file.reviewer).strip(), origin, saved, missing=[], unknown=[], further=[])


def _time(noted: str, latest: dt.datetime) -> dt.datetime:
    """Parse a time; return the latest one possible for a later one, and for text that is no time in UTC."""
    try:
        time = dt.datetime.fromisoformat(noted)
    except ValueError:
        return latest
    return min(time, latest) if time.utcoffset() == dt.timedelta() and time > MADE.replace(tzinfo=dt.UTC) else latest
