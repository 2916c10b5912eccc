"""What reviewers said, kept in the workspace as ``W/reviews/verdicts.jsonl``, one JSON object a line.

The log only grows: whoever changes their mind adds a line. What holds is the last line of each reviewer on each segment as it was
shown; a line without a verdict withdraws the one before it. What was said of an earlier text stays known, as said of that one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import msgspec
import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.storage.atomic import append_lines, read_lines
from nbaudio.storage.workspace import Workspace

#: What a reviewer can say of a clip, and what is meant by it.
VERDICTS: Mapping[str, str] = MappingProxyType(
    {
        "ok": "the clip holds the words of the transcript, all of them and nothing else",
        "wrong words": "other words are spoken than the transcript says, or it lacks some",
        "cut off": "a word at the start or the end is cut",
        "extra speech": "before or after, there is speech that the transcript does not have",
        "other speaker": "more than one person speaks, or not the one named",
        "noise": "too noisy, distorted or silent to be of use",
        "unsure": "cannot be told",
    }
)


@dataclass(frozen=True)
class Verdict:
    """What one reviewer said of one segment.

    Attributes:
        segment_id: the segment.
        content: the hash of what was judged, as `records.content_hashes` makes it.
        verdict: a word of the review's list; None withdraws what the reviewer said before.
        comment: a remark; empty for none.
        corrected_text: the right words; None where the transcript was not corrected.
        reviewer: who says it.
        time: when, ISO 8601 in UTC, such as ``2026-11-21T03:00:00Z``.
        review: the name of the sheet, or ``panel``.
    """

    segment_id: str
    content: str
    verdict: str | None
    comment: str
    corrected_text: str | None
    reviewer: str
    time: str
    review: str


_WORD = re.compile(r"\w[\w '/-]{0,39}")
_SCHEMA = pl.Schema(dict.fromkeys(Verdict.__annotations__, pl.String))
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Verdict).decode


def check_verdict_list(words: Sequence[str]) -> None:
    """Refuse words that a list of verdicts cannot have: spreadsheets would read them as something else, or not count them.

    Raises:
        InputError: says what is wrong with which word.
    """
    if odd := [word for word in words if not _WORD.fullmatch(word) or word != word.strip()]:
        raise InputError(
            f"verdict {odd[0]!r}: letters, digits, blanks and - / ' are allowed, at most 40, beginning with no blank or mark"
        )
    if len({word.casefold() for word in words}) < len(words):
        raise InputError(f"verdicts {', '.join(words)}: one is there twice")
    if odd := [word for word in words if word.casefold() in {"ok", "unsure"} and not word.islower()]:
        raise InputError(f"verdict {odd[0]!r}: write {odd[0].lower()!r}, which has a meaning of its own")
    if "ok" not in words:
        raise InputError(f"verdicts {', '.join(words) or 'none'}: 'ok' must be one, it says that a transcript is right")


def append_verdicts(workspace: Workspace | str | Path, rows: Iterable[Verdict]) -> None:
    """Add verdicts to the log, in order; they are on the disk when this returns, and several programs may do it at once.

    Args:
        workspace: the workspace or its folder.
        rows: what was said.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> append_verdicts(workspace, [Verdict("s", "c", "ok", "", None, "ana", "2026-11-21T03:00:00Z", "panel")])
        >>> verdicts(workspace)["verdict"].to_list()
        ['ok']
    """
    append_lines(_path(Workspace.open(workspace)), map(_encode, rows))


def verdict_log(workspace: Workspace | str | Path) -> pl.DataFrame:
    """All that was ever said, in order: the attributes of `Verdict` as columns of strings.

    Raises:
        InputError: a line of the log is none of ours.
    """
    said = read_lines(_path(Workspace.open(workspace)), _decode, "a verdict")
    return pl.DataFrame({name: [getattr(one, name) for one in said] for name in _SCHEMA}, schema=_SCHEMA)


def verdicts(workspace: Workspace | str | Path) -> pl.DataFrame:
    """What holds now: the last verdict of each reviewer on each segment as it was shown, in the order in which they were given.

    Returns:
        The attributes of `Verdict` as columns of strings; none of `verdict` is null.

    Raises:
        InputError: a line of the log is none of ours.
    """
    last = verdict_log(workspace).unique(["reviewer", "segment_id", "content"], keep="last", maintain_order=True)
    return last.filter(pl.col("verdict").is_not_null())


def reviewed_by_review(workspace: Workspace) -> dict[str, set[str]]:
    """Segments that reviewers were given or judged, by the name of the review; training has none of them."""
    seen = workspace.reviewed()
    for review, segment_id in verdicts(workspace).select("review", "segment_id").iter_rows():
        seen.setdefault(review, set()).add(segment_id)
    return seen


def reviewed_ids(workspace: Workspace) -> set[str]:
    """As `reviewed_by_review`, of all reviews together."""
    return set().union(*reviewed_by_review(workspace).values())


def _path(workspace: Workspace) -> Path:
    return workspace.path / "reviews" / "verdicts.jsonl"
