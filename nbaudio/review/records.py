"""What was given to reviewers, kept in the workspace as ``W/reviews/<name>.json``.

Sheets come back sorted, renamed and through other programs: a row is known again by its segment id together with a hash of what
it showed, and a sheet by the corpus it was drawn from.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec
import polars as pl

from nbaudio.core import guards
from nbaudio.core.errors import ExistsError, InputError, one_line
from nbaudio.core.hashing import hash_column
from nbaudio.review.log import VERDICTS
from nbaudio.storage.atomic import write_json
from nbaudio.storage.workspace import Workspace
from nbaudio.text.near import sentences

#: The two verdicts that name no fault; every other word of a review's list does.
OK, UNSURE = "ok", "unsure"
_PLACE = ("segment_id", "recording_id", "source_start", "source_end")


@dataclass(frozen=True)
class ReviewRecord:
    """One review: a sheet, or one for each of several reviewers.

    Attributes:
        name: the sheet's name without its ending; unique in a workspace.
        strategy: how segments were drawn.
        n: how many were asked for.
        seed: the seed of the draw.
        corpus: the fingerprint of the segments that the workspace held.
        segment_ids: what was drawn, in the order of the sheet.
        probabilities: the inclusion probability of each.
        contents: a hash of each segment's recording, times and texts, as `content_hashes` makes it.
        verdicts: the words to choose from.
        reviewers: who gets a sheet; empty where there is one sheet for whoever it may be.
        overlap: how many segments all of them are given.
        strata: the stratum of each segment.
        threshold: the similarity at which the decision was expected.
        after: the reviews before it, whose segments were not drawn again.
        missing: recordings that were not there, so that nothing of them could be drawn.
        words: a hash of each segment's recording, times and words, as `word_hashes` makes it.
    """

    name: str
    strategy: str
    n: int
    seed: int
    corpus: str
    segment_ids: list[str]
    probabilities: list[float]
    contents: list[str]
    verdicts: list[str] = field(default_factory=lambda: list(VERDICTS))
    reviewers: list[str] = field(default_factory=list)
    overlap: int = 0
    strata: list[str] = field(default_factory=list)
    threshold: float = 0.8
    after: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    @classmethod
    def find(cls, workspace: Workspace, name: str) -> "ReviewRecord | None":
        """The review of that name, if the workspace knows one.

        Raises:
            InputError: its record cannot be read.
        """
        path = _path(workspace, name)
        try:
            return msgspec.json.decode(guards.read_all(path, most=guards.MOST_JSON_BYTES), type=cls)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise InputError(f"{path}: cannot be read ({one_line(error)})") from error

    def check_asked(self, asked: Mapping[str, object]) -> None:
        """Let pass when this very review is asked for again.

        Args:
            asked: values by the names of attributes.

        Raises:
            ExistsError: one of them differs; names it.
        """
        changed = [name for name, value in asked.items() if getattr(self, name) != value]
        if changed:
            had = ", ".join(
                f"{name} {_listed(getattr(self, name))}" for name in dict.fromkeys(("strategy", "n", "seed", *changed))
            )
            raise ExistsError(f"review {self.name} was exported with {had}; another {' and '.join(changed)} wants another name")

    def save(self, workspace: Workspace) -> None:
        """Remember it: from now on its segments stay out of training."""
        write_json(_path(workspace, self.name), asdict(self))

    def shares(self) -> dict[str, list[str]]:
        """The segments of each reviewer in the order of the draw; all under an empty name where nobody is named.

        Which ones everybody is given follows a hash of their ids, so they are a random part of any draw; the rest is dealt out
        in turns.

        Examples:
            >>> ids = ["a", "b", "c", "d"]
            >>> record = ReviewRecord("r", "random", 4, 42, "", ids, [1.0] * 4, [""] * 4, [], ["ana", "ben"], 2)
            >>> record.shares()
            {'ana': ['a', 'b', 'c'], 'ben': ['a', 'b', 'd']}
        """
        if not self.reviewers:
            return {"": self.segment_ids}
        ids = pl.Series("segment_id", self.segment_ids, dtype=pl.String)
        order = hash_column(ids, f"overlap {self.seed}").arg_sort()
        shared = set(ids.gather(order.head(self.overlap)))
        own = [key for key in self.segment_ids if key not in shared]
        of = {reviewer: shared | set(own[number :: len(self.reviewers)]) for number, reviewer in enumerate(self.reviewers)}
        return {reviewer: [key for key in self.segment_ids if key in keys] for reviewer, keys in of.items()}


def records(workspace: Workspace) -> dict[str, ReviewRecord]:
    """All reviews of a workspace by name.

    Raises:
        InputError: a record cannot be read.
    """
    names = sorted(path.stem for path in (workspace.path / "reviews").glob("*.json"))
    found = ((name, ReviewRecord.find(workspace, name)) for name in names)
    return {name: record for name, record in found if record is not None}


def _path(workspace: Workspace, name: str) -> Path:
    return workspace.path / "reviews" / f"{name}.json"


def _listed(value: object) -> str:
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def fingerprint(segments: pl.DataFrame) -> str:
    """A hash of which segments there are, whatever their order and scores: 16 hex digits.

    Examples:
        >>> fingerprint(pl.DataFrame({"segment_id": ["a", "b"]})) == fingerprint(pl.DataFrame({"segment_id": ["b", "a"]}))
        True
    """
    return _short_hash(segments["segment_id"].sort().to_list())


def content_hashes(segments: pl.DataFrame) -> list[str]:
    """A hash of what a reviewer judges in each segment: recording, times and both texts; 16 hex digits each.

    Bounds that a reviewer moved are among the times.
    """
    columns = [*_PLACE, "text", "asr_text"]
    rows: Iterable[tuple[object, ...]] = segments.select(columns).iter_rows()
    if "corrected_by" in segments.columns:
        bounds = segments.select("start_sample", "end_sample", "corrected_by").iter_rows()
        rows = ((*row, start, end) if by else row for row, (start, end, by) in zip(rows, bounds, strict=True))
    return [_short_hash(row) for row in rows]


def word_hashes(segments: pl.DataFrame) -> list[str]:
    """A hash of the words of each segment, of its recording and times: it stays the same when texts are normalised."""
    return [_short_hash(row) for row in segments.select(*_PLACE, sentences(pl.col("text"))).iter_rows()]


def _short_hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]
