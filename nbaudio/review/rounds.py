"""Rounds of review: what came of each draw.

A segment is ``right`` when every reviewer who judged it says ``ok``, ``wrong`` when every one names a fault, and ``unsure``
otherwise: when one of them cannot tell, or they contradict each other. Rows of a sheet that were left empty before the last
judged one were passed over for a reason that nobody knows: they are ``unsure`` too, and so are rows that have changed since they
were judged. Rows after the last judged one have not been reached: that part of the sheet is as if it had not been drawn. How far
reviewers have come is told by what they said in that review; what was said of its segments elsewhere counts within that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nbaudio.core.tables import text_column
from nbaudio.review.log import verdicts
from nbaudio.review.records import OK, UNSURE, ReviewRecord, content_hashes, records, word_hashes
from nbaudio.review.text_corrections import uncorrected
from nbaudio.storage.workspace import Workspace

JUDGED = (
    *("segment_id", "recording_id", "source_start", "source_end", "start_sample", "end_sample", "text", "asr_text"),
    *("text_corrected", "corrected_by"),
)


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
        changed: how many of its rows were judged as they are no longer.
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
    changed: int = 0

    @property
    def reached(self) -> float:
        """The share of its rows that reviewers have come to, in [0, 1]."""
        return self.rows["verdict"].count() / max(len(self.rows), 1)


def rounds(workspace: Workspace | str | Path) -> list[Round]:
    """All reviews of a workspace in the order in which they were drawn, with the verdicts that hold now.

    A verdict counts for a review when what was judged is what was drawn, the same segment with the same times and texts, and the
    segment has these times and words still; normalised anew, it has. Corrections that came of reviews change nothing here.

    Raises:
        InputError: a record or the log of verdicts cannot be read.
    """
    workspace = Workspace.open(workspace)
    kept = sorted(records(workspace).values(), key=lambda record: (len(record.after), record.name))
    said = verdicts(workspace)
    drawn = pl.Series([key for record in kept for key in record.segment_ids], dtype=pl.String)
    there = workspace.segment_columns(*JUDGED).filter(pl.col("segment_id").is_in(drawn.implode()))
    there = uncorrected(workspace, there)
    now = there.select(
        "segment_id",
        content_now=pl.Series(content_hashes(there), dtype=pl.String),
        words=pl.Series(word_hashes(there), dtype=pl.String),
    )
    return [_round(record, said, now.unique("segment_id")) for record in kept]


def verdicts_outside(workspace: Workspace, known: Sequence[Round]) -> int:
    """How many segments have verdicts but were drawn by none of the rounds, or lie beyond what it has reached."""
    reached = [one.rows.filter(pl.col("verdict").is_not_null())["segment_id"] for one in known]
    return len(set(verdicts(workspace)["segment_id"]).difference(*reached))


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
    right, wrong = (word == OK).all(), ~word.is_in([OK, UNSURE]).any()
    verdict = pl.when(right).then(pl.lit("right")).when(wrong).then(pl.lit("wrong")).otherwise(pl.lit("unsure"))
    return said.group_by("segment_id").agg(verdict=verdict)


def gold_ids(workspace: Workspace, segments: pl.DataFrame) -> set[str]:
    """Segments of which every reviewer who judged them, as they are now, says ``ok``.

    A verdict on an earlier text or on other times of a segment says nothing of it any more, and does not count; one on a row of a
    review does as long as the words are the same, whatever case and punctuation have become.

    Args:
        workspace: holds the verdicts.
        segments: its segments table.

    Raises:
        InputError: a record or the log of verdicts cannot be read.
    """
    said = verdicts(workspace).select("segment_id", "reviewer", "content", "verdict")
    judged = segments.filter(pl.col("segment_id").is_in(said["segment_id"].implode()))
    corrected = text_column(judged, "corrected_by").is_not_null() | text_column(judged, "text_corrected").is_not_null()
    now = judged.select(
        "segment_id",
        content_now=pl.Series(content_hashes(judged), dtype=pl.String),
        # What was corrected is not what a review gave out.
        words_now=pl.when(~corrected).then(pl.Series(word_hashes(judged), dtype=pl.String)),
    )
    shown = [_shown(record) for record in records(workspace).values()]
    words = pl.concat([_shown(None), *shown]).unique(["segment_id", "content"])
    known = said.join(now, on="segment_id", maintain_order="left")
    known = known.join(words, on=["segment_id", "content"], how="left", maintain_order="left")
    same = (pl.col("content") == pl.col("content_now")) | (pl.col("words") == pl.col("words_now")).fill_null(value=False)
    last = known.filter(same).unique(["segment_id", "reviewer"], keep="last", maintain_order=True)
    right = last.group_by("segment_id").agg((pl.col("verdict") == OK).all())
    return set(right.filter("verdict")["segment_id"])


def _shown(record: ReviewRecord | None) -> pl.DataFrame:
    """`segment_id`, `content` and `words` of what a review gave out; none of those of a record that does not say."""
    of = (record.segment_ids, record.contents, record.words) if record and record.words else ([], [], [])
    names = ("segment_id", "content", "words")
    return pl.DataFrame(dict(zip(names, of, strict=True)), schema=dict.fromkeys(names, pl.String))


def _round(record: ReviewRecord, said: pl.DataFrame, now: pl.DataFrame) -> Round:
    """What came of a draw.

    Args:
        record: what was drawn.
        said: the verdicts that hold.
        now: `segment_id`, `content_now` and `words` as they are in the table.
    """
    drawn = pl.DataFrame(
        {
            "segment_id": record.segment_ids,
            "content": record.contents,
            "shown": record.words or [None] * len(record.segment_ids),
            "probability": record.probabilities,
            # Of a record that does not say, every segment is a stratum of its own, which is the cautious reading.
            "stratum": record.strata or record.segment_ids,
        },
        schema={
            "segment_id": pl.String,
            "content": pl.String,
            "shown": pl.String,
            "probability": pl.Float64,
            "stratum": pl.String,
        },
    )
    rows = drawn.join(now, on="segment_id", how="left", maintain_order="left")
    about = said.join(rows.rename({"content": "drawn"}), on="segment_id", maintain_order="left")
    as_drawn = (pl.col("content") == pl.col("drawn")) & (pl.col("shown") == pl.col("words"))
    valid = about.filter((as_drawn | (pl.col("content") == pl.col("content_now"))).fill_null(value=False))
    votes = valid.unique(["segment_id", "reviewer"], keep="last", maintain_order=True)
    rows = rows.join(consensus(votes), on="segment_id", how="left", maintain_order="left")
    own = about.filter(pl.col("review") == record.name)
    reached = pl.col("segment_id").is_in(list(_reached(record, own)))
    empty, judged = pl.col("verdict").is_null(), pl.col("segment_id").is_in(own["segment_id"].implode())
    verdict = pl.when(reached).then(pl.col("verdict").fill_null("unsure"))
    return Round(
        name=record.name,
        strategy=record.strategy,
        n=record.n,
        threshold=record.threshold,
        corpus=record.corpus,
        rows=rows.select("segment_id", "stratum", "probability", verdict=verdict),
        after=tuple(record.after),
        missing=tuple(record.missing),
        passed=rows.select((reached & empty & ~judged).sum()).item(),
        changed=rows.select((reached & empty & judged).sum()).item(),
    )


def _reached(record: ReviewRecord, own: pl.DataFrame) -> set[str]:
    """The segments that each reviewer's rows begin with, up to the last one judged in this review."""
    shares = record.shares()
    reached: set[str] = set()
    for (reviewer,), judged in own.group_by("reviewer"):
        ids = set(judged["segment_id"])
        for rows in _rows_of(str(reviewer), ids, shares):
            places = [place for place, key in enumerate(rows) if key in ids]
            reached.update(rows[: max(places, default=-1) + 1])
    return reached


def _rows_of(reviewer: str, ids: set[str], shares: Mapping[str, Sequence[str]]) -> Iterator[Sequence[str]]:
    """The rows that a reviewer was given; of one with another name than on the sheets, those that hold what was judged."""
    if reviewer in shares:
        yield shares[reviewer]
        ids = ids.difference(shares[reviewer])
    while ids:
        rows = max(shares.values(), key=lambda share: len(ids.intersection(share)))
        yield rows
        ids = ids.difference(rows)
