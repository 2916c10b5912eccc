"""Rounds of review: the outcome of each draw.

The rules are in docs/review.md and docs/evidence.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from nbaudio.core.tables import text_column
from nbaudio.review.state import OK, UNSURE, ReviewRecord, ReviewState, content_hashes, word_hashes
from nbaudio.storage.workspace import Workspace

# The strategy where somebody picked the segments: no round, as nothing follows from it about others
PICKED = "picked"
DISAGREEMENTS = "disagreements"  # in place of a strategy
#: Columns of the segments table that `rounds` and `gold_ids` read.
JUDGED = (
    "segment_id",
    "recording_id",
    "source_start",
    "source_end",
    "start_sample",
    "end_sample",
    "text",
    "asr_text",
    "text_corrected",
    "corrected_by",
)


@dataclass(frozen=True)
class Round:
    """One draw."""

    name: str  # of the review
    strategy: str  # a key of `sampling.STRATEGIES`
    # `segment_id`, `verdict` (right, wrong, unsure; null if not reached), `line` (of the verdict
    # log, which reached it) and `skipped` (reached, and judged by nobody), in the order of the
    # sheet
    rows: pl.DataFrame
    corpus: str = ""  # the `Workspace.fingerprint` of the segments table at the time
    changed: int = 0  # how many rows have changed since they were judged

    @property
    def judged_ids(self) -> pl.Series:
        """The segments that reviewers have reached."""
        return self.rows.filter(pl.col("line").is_not_null())["segment_id"]


def rounds(state: ReviewState, segments: pl.DataFrame) -> list[Round]:
    """Return the reviews, without picked ones, in the order drawn.

    `segments` are `uncorrected` and have the columns `JUDGED`.
    """
    drawn_at_random = [record for record in state.records.values() if record.strategy != PICKED]
    kept = sorted(drawn_at_random, key=lambda record: (len(record.after), record.name))
    now = _now(
        segments.filter(pl.col("segment_id").is_in(state.drawn["segment_id"].implode()))
    ).unique("segment_id")
    return [_round(record, state, now) for record in kept]


def consensus(said: pl.DataFrame, adjudicators: Sequence[str]) -> pl.DataFrame:
    """Merge the last verdict of each reviewer (`segment_id`, `reviewer`, `verdict`) by segment.

    The merged verdict is right, wrong or unsure.
    """
    said = said.unique(["segment_id", "reviewer"], keep="last", maintain_order=True)
    last = said.filter(pl.col("reviewer").is_in(adjudicators)).unique(
        "segment_id", keep="last", maintain_order=True
    )
    said = pl.concat([last, said.join(last, on="segment_id", how="anti")])
    word = pl.col("verdict")
    right = (word == OK).mean() > 0.5
    wrong = (~word.is_in([OK, UNSURE])).mean() > 0.5
    verdict = (
        pl.when(right)
        .then(pl.lit("right"))
        .when(wrong)
        .then(pl.lit("wrong"))
        .otherwise(pl.lit("unsure"))
    )
    return said.group_by("segment_id").agg(verdict=verdict)


def undecided_ids(state: ReviewState) -> list[str]:
    """Return the segments that several reviewers judged, and that are unsure."""
    several = state.verdicts.filter(pl.col("reviewer").n_unique().over("segment_id") > 1)
    return (
        consensus(several, state.adjudicators)
        .filter(verdict="unsure")["segment_id"]
        .sort()
        .to_list()
    )


def gold_ids(workspace: Workspace | ReviewState, segments: pl.DataFrame) -> set[str]:
    """Return the segments that are right with these words, whatever their case and punctuation."""
    return set(
        current_labels(ReviewState.load(workspace), segments).filter(verdict="right")["segment_id"]
    )


def current_labels(state: ReviewState, segments: pl.DataFrame) -> pl.DataFrame:
    """Return the verdicts on segments that were judged with the words that they have now.

    The columns are `segment_id` and `verdict` (right, wrong, unsure).
    """
    said = state.verdicts.select("segment_id", "reviewer", "content", "verdict")
    judged = segments.filter(pl.col("segment_id").is_in(said["segment_id"].implode()))
    corrected = (
        text_column(judged, "corrected_by").is_not_null()
        | text_column(judged, "text_corrected").is_not_null()
    )
    # A corrected text is not the one that a review gave out.
    now = _now(judged).with_columns(words_now=pl.when(~corrected).then("words")).drop("words")
    shown = state.drawn.unique(["segment_id", "content"]).rename({"shown": "words"})
    known = said.join(now, on="segment_id", maintain_order="left")
    known = known.join(shown, on=["segment_id", "content"], how="left", maintain_order="left")
    same = (pl.col("content") == pl.col("content_now")) | (
        pl.col("words") == pl.col("words_now")
    ).fill_null(value=False)
    return consensus(known.filter(same), state.adjudicators)


def _now(segments: pl.DataFrame) -> pl.DataFrame:
    """Return the hashes of segments as they are: `segment_id`, `content_now`, `words`."""
    hashes = {"content_now": content_hashes(segments), "words": word_hashes(segments)}
    return segments.select(
        "segment_id", **{name: pl.Series(found, dtype=pl.String) for name, found in hashes.items()}
    )


def _round(record: ReviewRecord, state: ReviewState, now: pl.DataFrame) -> Round:
    """Return the outcome of a draw; `now` are the hashes of segments that are there."""
    # What `ingest --add` changed after the draw stays unsure, since a change may follow from the
    # verdicts.
    as_they_were = now.filter(~pl.col("segment_id").is_in(state.later(record.corpus).implode()))
    rows = record.rows.join(as_they_were, on="segment_id", how="left", maintain_order="left")
    rows = rows.with_columns(gone=~pl.col("segment_id").is_in(now["segment_id"].implode()))
    about = state.verdicts.join(
        rows.rename({"content": "drawn"}), on="segment_id", maintain_order="left"
    )
    as_drawn = (pl.col("content") == pl.col("drawn")) & (
        (pl.col("shown") == pl.col("words")) | pl.col("gone")
    )
    valid = about.filter(
        (as_drawn | (pl.col("content") == pl.col("content_now"))).fill_null(value=False)
    )
    rows = rows.join(
        consensus(valid, state.adjudicators), on="segment_id", how="left", maintain_order="left"
    )
    rows = rows.join(_lines(record, state), on="segment_id", how="left", maintain_order="left")
    reached = pl.col("line").is_not_null()
    empty = pl.col("verdict").is_null() & ~pl.col("gone")
    judged = pl.col("segment_id").is_in(
        state.verdicts_ever.filter(review=record.name)["segment_id"].implode()
    )
    rows = rows.with_columns(skipped=reached & empty & ~judged, changed=reached & empty & judged)
    verdict = pl.when(reached).then(pl.when(empty).then(pl.lit("unsure")).otherwise("verdict"))
    shown = rows.select("segment_id", "line", "skipped", verdict=verdict)
    return Round(
        record.name, record.strategy, shown, record.corpus, changed=int(rows["changed"].sum())
    )


def _lines(record: ReviewRecord, state: ReviewState) -> pl.DataFrame:
    """Return what reviewers have reached, and the first line of the log that says so.

    The columns are `segment_id` and `line`, that of a verdict on it or on a row after it.
    """
    shares = record.shares()
    held = state.verdicts_ever.filter(review=record.name)
    log = state.verdict_log.with_row_index("line").filter(review=record.name)
    # The log may have others under this name, such as those of a panel without a review, which is
    # called so too.
    log = log.filter(pl.col("segment_id").is_in(record.segment_ids))
    log = log.join(held, on=["reviewer", "segment_id"], how="semi", maintain_order="left")
    reached = [pl.DataFrame(schema={"segment_id": pl.String, "line": pl.UInt32})]
    for (reviewer,), said in log.group_by("reviewer"):
        for rows in _rows_of(str(reviewer), set(said["segment_id"]), shares):
            given = pl.DataFrame({"segment_id": rows}).join(
                said, on="segment_id", how="left", maintain_order="left"
            )
            reached.append(
                given.select("segment_id", pl.col("line").cum_min(reverse=True).backward_fill())
            )
    return pl.concat(reached).group_by("segment_id").agg(pl.col("line").min().cast(pl.Int64))


def _rows_of(
    reviewer: str, ids: set[str], shares: Mapping[str, Sequence[str]]
) -> Iterator[Sequence[str]]:
    """Yield the rows that a reviewer was given.

    For a name that is on no sheet, these are the shares that hold what was judged.
    """
    if reviewer in shares:
        yield shares[reviewer]
        ids = ids.difference(shares[reviewer])
    while ids:
        rows = max(shares.values(), key=lambda share: len(ids.intersection(share)))
        yield rows
        ids = ids.difference(rows)
