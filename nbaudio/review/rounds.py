"""Rounds of review: what was given to reviewers, kept in the workspace as ``W/reviews/<name>.json``, and what came of it.

Sheets come back sorted, renamed and through other programs: a row is known again by its segment id together with a hash of what
it showed, and a sheet by the corpus it was drawn from.

A segment is ``right`` when every reviewer who judged it says ``ok``, ``wrong`` when every one names a fault, and ``unsure``
otherwise: when one of them cannot tell, or they contradict each other. Rows of a sheet that were left empty before the last
judged one were passed over for a reason that nobody knows: they are ``unsure`` too. Rows after it have not been reached: that
part of the sheet is as if it had not been drawn.
"""

import hashlib
import json
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec
import polars as pl

from nbaudio.errors import ExistsError, InputError
from nbaudio.files import write_json
from nbaudio.keys import hash_column
from nbaudio.review.verdicts import VERDICTS, verdicts
from nbaudio.workspace import Workspace

#: The two verdicts that name no fault; every other word of a review's list does.
RIGHT, UNSURE = "ok", "unsure"
_CONTENT = ("segment_id", "recording_id", "source_start", "source_end", "text", "asr_text")


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
        contents: a hash of each segment's recording, times and texts.
        verdicts: the words to choose from.
        reviewers: who gets a sheet; empty where there is one sheet for whoever it may be.
        overlap: how many segments all of them are given.
        strata: the stratum of each segment.
        threshold: the similarity at which the decision was expected.
        after: the reviews before it, whose segments were not drawn again.
        missing: recordings that were not there, so that nothing of them could be drawn.
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

    @classmethod
    def find(cls, workspace: Workspace, name: str) -> "ReviewRecord | None":
        """The review of that name, if the workspace knows one.

        Raises:
            InputError: its record cannot be read.
        """
        path = _path(workspace, name)
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise InputError(f"{path}: cannot be read ({error})") from error

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
    """A hash of what a reviewer judges in each segment: recording, times and both texts; 16 hex digits each."""
    return [_short_hash(row) for row in segments.select(_CONTENT).iter_rows()]


def _short_hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Round:
    """One draw.

    Attributes:
        name: of the review.
        strategy: a key of `sampling.STRATEGIES`.
        n: how many were asked for.
        threshold: the similarity at which the decision was expected.
        rows: `segment_id`, `stratum`, `probability` (given the rounds in `after`) and `verdict` (right, wrong, unsure; null where
            not reached), in the order of the sheet.
        corpus: the fingerprint of the segments that there were.
        after: names of the earlier rounds, whose segments were not drawn again.
        missing: recordings that were not there, of which nothing could be drawn.
        passed: how many of its rows were passed over.
    """

    name: str
    strategy: str
    n: int
    threshold: float
    rows: pl.DataFrame
    corpus: str = ""
    after: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    passed: int = 0

    @property
    def reached(self) -> float:
        """The share of its rows that reviewers have come to, in [0, 1]."""
        return self.rows["verdict"].count() / max(len(self.rows), 1)


def rounds(workspace: Workspace | str | Path) -> list[Round]:
    """All reviews of a workspace in the order in which they were drawn, with the verdicts that hold now.

    A verdict counts for a review when what was judged is what was drawn: the same segment with the same times and texts.

    Raises:
        InputError: a record or the log of verdicts cannot be read.
    """
    workspace = Workspace.open(workspace)
    said = verdicts(workspace)
    kept = sorted(records(workspace).values(), key=lambda record: (len(record.after), record.name))
    return [_round(record, said) for record in kept]


def outside(workspace: Workspace | str | Path) -> int:
    """How many segments have verdicts but were drawn by no review, or have changed since: nothing follows from those."""
    workspace = Workspace.open(workspace)
    drawn = {pair for record in records(workspace).values() for pair in zip(record.segment_ids, record.contents, strict=True)}
    said = verdicts(workspace).select("segment_id", "content").unique()
    return sum(pair not in drawn for pair in said.iter_rows())


def consensus(said: pl.DataFrame) -> pl.DataFrame:
    """One verdict a segment out of those of its reviewers.

    Args:
        said: `segment_id`, `verdict` (a word of the review's list).

    Returns:
        `segment_id`, `verdict` (right, wrong or unsure).

    Examples:
        >>> said = pl.DataFrame({"segment_id": ["a", "a", "b", "b"], "verdict": ["ok", "ok", "ok", "noise"]})
        >>> consensus(said).sort("segment_id").rows()
        [('a', 'right'), ('b', 'unsure')]
    """
    word = pl.col("verdict")
    right, wrong = (word == RIGHT).all(), ~word.is_in([RIGHT, UNSURE]).any()
    verdict = pl.when(right).then(pl.lit("right")).when(wrong).then(pl.lit("wrong")).otherwise(pl.lit("unsure"))
    return said.group_by("segment_id").agg(verdict=verdict)


def gold_ids(workspace: Workspace, segments: pl.DataFrame) -> Set[str]:
    """Segments of which every reviewer who judged them, as they are now, says ``ok``.

    A verdict on an earlier text or on other times of a segment says nothing of it any more, and does not count.

    Args:
        workspace: holds the verdicts.
        segments: its segments table.

    Raises:
        InputError: the log of verdicts cannot be read.
    """
    said = verdicts(workspace).select("segment_id", "content", "verdict")
    judged = segments.filter(pl.col("segment_id").is_in(said["segment_id"].implode()))
    now = judged.select("segment_id", content=pl.Series(content_hashes(judged), dtype=pl.String))
    right = said.join(now, on=["segment_id", "content"]).group_by("segment_id").agg((pl.col("verdict") == "ok").all())
    return set(right.filter("verdict")["segment_id"])


def _round(record: ReviewRecord, said: pl.DataFrame) -> Round:
    drawn = pl.DataFrame(
        {
            "segment_id": record.segment_ids,
            "content": record.contents,
            "probability": record.probabilities,
            # Of a record that does not say, every segment is a stratum of its own, which is the cautious reading.
            "stratum": record.strata or record.segment_ids,
        },
        schema={"segment_id": pl.String, "content": pl.String, "probability": pl.Float64, "stratum": pl.String},
    )
    said = said.join(drawn, on=["segment_id", "content"])
    rows = drawn.join(consensus(said), on="segment_id", how="left", maintain_order="left")
    passed = pl.col("verdict").is_null() & pl.col("segment_id").is_in(list(_reached(record, said)))
    verdict = pl.when(passed).then(pl.lit("unsure")).otherwise("verdict")
    return Round(
        name=record.name,
        strategy=record.strategy,
        n=record.n,
        threshold=record.threshold,
        corpus=record.corpus,
        rows=rows.select("segment_id", "stratum", "probability", verdict=verdict),
        after=tuple(record.after),
        missing=tuple(record.missing),
        passed=rows.select(passed.sum()).item(),
    )


def _reached(record: ReviewRecord, said: pl.DataFrame) -> set[str]:
    """The segments that each reviewer's rows begin with, up to the last one judged.

    A reviewer who was not named has the whole draw for rows.
    """
    shares = record.shares()
    reached: set[str] = set()
    for reviewer, judged in said.group_by("reviewer"):
        rows, ids = shares.get(str(reviewer[0]), record.segment_ids), set(judged["segment_id"])
        places = [place for place, key in enumerate(rows) if key in ids]
        reached.update(rows[: max(places, default=-1) + 1])
    return reached
