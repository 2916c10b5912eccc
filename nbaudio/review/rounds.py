"""Earlier rounds of review: what was drawn, how, and what was said of it.

A segment is ``right`` when every reviewer who judged it says ``ok``, ``wrong`` when every one names a fault, and ``unsure``
otherwise: when one of them cannot tell, or they contradict each other. Rows of a sheet that were left empty before the last
judged one were passed over for a reason that nobody knows: they are ``unsure`` too. Rows after it have not been reached: that
part of the sheet is as if it had not been drawn.
"""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nbaudio.review.record import ReviewRecord, records
from nbaudio.review.verdicts import verdicts
from nbaudio.workspace import Workspace

RIGHT, UNSURE = "ok", "unsure"
"""The two verdicts that name no fault; every other word of a review's list does."""


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
        rows = shares.get(str(reviewer[0]), record.segment_ids)
        places = [place for place, key in enumerate(rows) if key in set(judged["segment_id"])]
        reached.update(rows[: max(places, default=-1) + 1])
    return reached
