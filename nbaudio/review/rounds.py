"""Rounds of review: the outcome of each draw.

The rules are in docs/review.md and docs/evidence-method.md.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from nbaudio.review.draws import PICKED, Draw, Part, all_draws, owed_parts, parts
from nbaudio.review.state import OK, UNSURE, ReviewRecord, ReviewState, content_hashes, word_hashes
from nbaudio.tables.schemas import text_column
from nbaudio.tables.workspace import Workspace

OUTCOMES = pl.Enum(["right", "wrong", "unsure"])
"""What the verdicts of all reviewers on a segment come to; null if nobody has reached it."""

_REACHED = {"segment_id": pl.String, "line": pl.UInt32, "is_next": pl.Boolean}
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
    """One draw, with what reviewers have said of it."""

    # Of the review that drew them. If it was taken back: of the one that has its rows; of several,
    # with commas.
    name: str
    strategy: str  # a key of `sampling.STRATEGIES`
    # `segment_id`, `verdict` (`OUTCOMES`; null if not reached), `line` (of the verdict log, which
    # reached it), `skipped` (reached, and judged by nobody), `ended` (the first row that
    # a reviewer has not judged, while others went on) and `listed` (on a sheet as a row of this
    # draw), in the order drawn
    rows: pl.DataFrame
    corpus: str = ""  # the `Workspace.fingerprint` of the segments table at the time
    changed: int = 0  # how many rows have changed since they were judged
    resumed: str = ""  # the name of the draw if it is of a round that was taken back
    exported: str = ""  # the name under which it was exported first
    blind: bool | None = None  # whether hypothesis and similarity were hidden; None: not from all
    is_owed: bool = False  # whether it was taken back, and has rows that no later round has

    @property
    def draw(self) -> str:
        """The name of the draw, which its frame has too."""
        return self.resumed or self.name

    @property
    def judged_ids(self) -> pl.Series:
        """The segments that reviewers have reached, without those at which a sheet ended."""
        return self.rows.filter(pl.col("line").is_not_null() & ~pl.col("ended"))["segment_id"]


def rounds(state: ReviewState, segments: pl.DataFrame) -> list[Round]:
    """Return the draws of which a review has rows, in the order drawn, without picked ones.

    `segments` are `uncorrected` and have the columns `JUDGED`.
    """
    now = _now(
        segments.filter(pl.col("segment_id").is_in(state.drawn["segment_id"].implode()))
    ).unique("segment_id")
    on_sheets = parts_by_draw(state)
    log = _log_of_reviews(state)
    for name, part in owed_parts(state).items():
        if not _lines_elsewhere(part.record, "", log).is_empty():
            on_sheets[name].append(part)
    return [
        _round(draw, on_sheets[draw.name], state, now)
        for draw in all_draws(state)
        if draw.name in on_sheets
    ]


def parts_by_draw(state: ReviewState) -> defaultdict[str, list[Part]]:
    """Return the rows that reviews have on their sheets, in the order of their export."""
    on_sheets: defaultdict[str, list[Part]] = defaultdict(list)
    for record in _records_in_order(state):
        for name, part in parts(state, record).items():
            on_sheets[name].append(part)
    return on_sheets


def _records_in_order(state: ReviewState) -> list[ReviewRecord]:
    """Return the reviews in the order of their export, without those of picked segments."""
    drawn = [record for record in state.records.values() if record.strategy != PICKED]
    return sorted(drawn, key=lambda record: len(record.after))


def consensus(verdicts: pl.DataFrame, adjudicators: Sequence[str]) -> pl.DataFrame:
    """Merge the last verdict of each reviewer (`segment_id`, `reviewer`, `verdict`) by segment.

    The merged `verdict` is one of `OUTCOMES`.
    """
    verdicts = verdicts.unique(["segment_id", "reviewer"], keep="last", maintain_order=True)
    last = verdicts.filter(pl.col("reviewer").is_in(adjudicators)).unique(
        "segment_id", keep="last", maintain_order=True
    )
    verdicts = pl.concat([last, verdicts.join(last, on="segment_id", how="anti")])
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
    return verdicts.group_by("segment_id").agg(verdict=verdict.cast(OUTCOMES))


def unreturned_shares(state: ReviewState) -> list[str]:
    """Return the sheets of random rounds with no verdict, while others were judged since.

    Each is the name of its round, with the reviewer's in brackets.
    """
    log = _log_of_reviews(state)
    judged = set(log.select("review", "reviewer").rows())
    begun = {review for review, _ in judged}
    at_random = _records_in_order(state)
    last = max(
        (
            len(record_at_random.after)
            for record_at_random in at_random
            if record_at_random.name in begun
        ),
        default=-1,
    )
    missing = []
    for record in at_random:
        is_passed_over = len(record.after) < last or len(_lines_elsewhere(record, "", log)) > 0
        if record.name not in begun and is_passed_over:
            missing.append(record.name)
        elif record.name in begun and len(record.reviewers) > 1:
            missing += [
                f"{record.name} ({reviewer})"
                for reviewer in record.reviewers
                if (record.name, reviewer) not in judged
            ]
    return missing


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

    The columns are `segment_id` and `verdict`, one of `OUTCOMES`.
    """
    verdicts = state.verdicts.select("segment_id", "reviewer", "content", "verdict")
    judged = segments.filter(pl.col("segment_id").is_in(verdicts["segment_id"].implode()))
    corrected = (
        text_column(judged, "corrected_by").is_not_null()
        | text_column(judged, "text_corrected").is_not_null()
    )
    # A review did not show a text that was corrected later.
    now = _now(judged).with_columns(words_now=pl.when(~corrected).then("words")).drop("words")
    shown = state.drawn.unique(["segment_id", "content"]).rename({"shown": "words"})
    compared = verdicts.join(now, on="segment_id", maintain_order="left")
    compared = compared.join(shown, on=["segment_id", "content"], how="left", maintain_order="left")
    same = (pl.col("content") == pl.col("content_now")) | (
        pl.col("words") == pl.col("words_now")
    ).fill_null(value=False)
    return consensus(compared.filter(same), state.adjudicators)


def _now(segments: pl.DataFrame) -> pl.DataFrame:
    """Return the hashes of segments as they are: `segment_id`, `content_now`, `words`."""
    hashes = {"content_now": content_hashes(segments), "words": word_hashes(segments)}
    return segments.select(
        "segment_id",
        **{name: pl.Series(column, dtype=pl.String) for name, column in hashes.items()},
    )


def _round(draw: Draw, on_sheets: Sequence[Part], state: ReviewState, now: pl.DataFrame) -> Round:
    """Return the outcome of a draw; `now` are the hashes of segments that are there."""
    # What `ingest --add` changed after the draw stays unsure, since a change may follow from the
    # verdicts.
    later = state.later(draw.record.corpus)
    as_they_were = now.filter(~pl.col("segment_id").is_in(later.implode()))
    rows = _rows_in_order(draw, on_sheets, state)
    rows = rows.join(as_they_were, on="segment_id", how="left", maintain_order="left")
    rows = rows.with_columns(gone=~pl.col("segment_id").is_in(now["segment_id"].implode()))
    rows = rows.join(
        consensus(_valid_verdicts(rows, state), state.adjudicators),
        on="segment_id",
        how="left",
        maintain_order="left",
    )
    reviews = [part.record.name for part in on_sheets]
    rows = _with_outcomes(rows, reviews, state)
    blind = {part.record.blind for part in on_sheets}
    name = draw.name
    resumed = ""
    if draw.is_taken_back:
        name = ", ".join(reviews)
        resumed = draw.name
    return Round(
        name=name,
        strategy=draw.record.strategy,
        rows=rows.select("segment_id", "line", "skipped", "ended", "listed", "verdict"),
        corpus=draw.record.corpus,
        changed=int(rows["changed"].sum()),
        resumed=resumed,
        exported=draw.record.name,
        blind=blind.pop() if len(blind) == 1 else None,
        is_owed=any(part.is_owed for part in on_sheets),
    )


def _with_outcomes(rows: pl.DataFrame, reviews: Sequence[str], state: ReviewState) -> pl.DataFrame:
    """Return rows with the `verdict` that counts, and whether it was `skipped` or has `changed`.

    What was reached and is empty is unsure, also where a sheet has `ended`. `reviews` are those
    that have the rows.
    """
    judged_ids = state.verdicts_ever.filter(pl.col("review").is_in(reviews))["segment_id"]
    judged = pl.col("segment_id").is_in(judged_ids.implode())
    reached = pl.col("line").is_not_null()
    empty = pl.col("verdict").is_null() & ~pl.col("gone")
    verdict = pl.when(reached).then(
        pl.when(empty).then(pl.lit("unsure", OUTCOMES)).otherwise("verdict")
    )
    ended = pl.col("is_next") & empty & ~judged
    return rows.with_columns(
        skipped=reached & empty & ~judged & ~ended,
        changed=reached & empty & judged,
        ended=ended,
        verdict=verdict,
    )


def _valid_verdicts(rows: pl.DataFrame, state: ReviewState) -> pl.DataFrame:
    """Return the verdicts on rows of `_rows_in_order` as they were drawn, or as they are now."""
    about = state.verdicts.join(
        rows.rename({"content": "drawn"}), on="segment_id", maintain_order="left"
    )
    as_drawn = (pl.col("content") == pl.col("drawn")) & (
        (pl.col("shown") == pl.col("words")) | pl.col("gone")
    )
    as_now = pl.col("content") == pl.col("content_now")
    return about.filter((as_drawn | as_now).fill_null(value=False))


def _rows_in_order(draw: Draw, on_sheets: Sequence[Part], state: ReviewState) -> pl.DataFrame:
    """Return all rows of a draw in its order, with what reviewers have reached.

    The columns are `segment_id`, `content` and `shown` (hashes, see `ReviewRecord.rows`), `line`
    of the verdict log, `is_next` (see `_lines`), and `listed` (see `Part`).

    A row may be on several sheets, if it was left over on the first: it is reached where it is
    reached first, and as it is on the last. Rows that were passed over are reached with the next
    row that is listed; those that the review has for another draw not before they are reached
    there.
    """
    exported = pl.concat([rows_of_part(draw, part, state) for part in on_sheets])
    every = pl.DataFrame({"segment_id": draw.ids}, schema={"segment_id": pl.String})
    rows = every.with_row_index("place").join(
        _merged(exported), on="place", how="left", maintain_order="left"
    )
    rows = rows.with_columns(next_line=pl.col("line").cum_min(reverse=True).backward_fill())
    is_in_another_draw = pl.col("content").is_not_null()
    both = pl.max_horizontal("line_of_other", "next_line")
    is_reached_twice = pl.col("line_of_other").is_not_null() & pl.col("next_line").is_not_null()
    passed = (
        pl.when("passed_over", is_in_another_draw & is_reached_twice)
        .then(both)
        .when("passed_over", ~is_in_another_draw)
        .then("next_line")
    )
    rows = rows.with_columns(line=pl.coalesce("line", passed))
    # A row that is on no sheet still has the content that was drawn.
    first = draw.record.rows.select("segment_id", drawn="content", drawn_words="shown")
    rows = rows.join(first, on="segment_id", how="left", maintain_order="left")
    return rows.select(
        "segment_id",
        pl.coalesce("content", "drawn").alias("content"),
        pl.coalesce("shown", "drawn_words").alias("shown"),
        "line",
        pl.col("listed").fill_null(value=False),
        pl.col("is_next").fill_null(value=False),
    )


def _merged(exported: pl.DataFrame) -> pl.DataFrame:
    """Merge the rows that reviews have of a draw (`rows_of_part`) by `place`.

    The columns are `content` and `shown` on the last sheet, `line`, `line_of_other` (of the row of
    another draw), `listed`, `is_next`, and `passed_over`: the last review does not list it.
    """
    is_reached = pl.col("line").is_not_null()
    listed_line = pl.when("listed").then("line")
    return exported.group_by("place", maintain_order=True).agg(
        pl.col("content", "shown").last(),
        line=listed_line.min(),
        line_of_other=pl.when(~pl.col("listed")).then("line").min(),
        listed=pl.col("listed").any(),
        is_next=pl.col("is_next").any() & pl.col("is_next").filter(is_reached).all(),
        passed_over=~pl.col("listed").last(),
    )


def rows_of_part(draw: Draw, part: Part, state: ReviewState) -> pl.DataFrame:
    """Return the rows of a draw that a review has, with the lines that reached them.

    The columns are `place` in the order of the draw, from 0, and those of `_rows_in_order`. The
    line of a row that is not listed is that of the row of another draw.
    """
    ids = [draw.ids[place] for place in part.places]
    rows = pl.DataFrame(
        {"place": part.places, "segment_id": ids},
        schema={"place": pl.UInt32, "segment_id": pl.String},
    )
    rows = rows.join(part.record.rows, on="segment_id", how="left", maintain_order="left")
    if part.is_owed:
        lines = _lines_of_owed(part, state)
    else:
        lines = _lines(part.record, state)
    rows = rows.join(lines, on="segment_id", how="left", maintain_order="left")
    rows = rows.with_columns(listed=pl.col("segment_id").is_in(list(part.listed)))
    return rows.select("place", "segment_id", "content", "shown", "line", "listed", "is_next")


def _lines(record: ReviewRecord, state: ReviewState) -> pl.DataFrame:
    """Return what reviewers have reached, and the first line of the log that says so.

    The columns are `segment_id`; `line`, that of a verdict on it or on a row after it; and
    `is_next`: it is the first row of a share that nobody has reached, and verdicts were given
    elsewhere since. Such a row counts as reached: somebody may have heard it and ended the sheet,
    or left all of it out, for that reason.
    """
    shares = record.shares()
    log = _log_of_reviews(state)
    judged_ids = state.verdicts_ever["segment_id"]
    reached = [pl.DataFrame(schema=_REACHED)]
    begun: set[str] = set()
    for (reviewer,), verdicts in _verdicts_on_rows(record, state, log).group_by("reviewer"):
        is_own = (pl.col("review") == record.name) & (pl.col("reviewer") == reviewer)
        elsewhere = log.filter(~is_own)["line"]
        for share in _shares_of(str(reviewer), set(verdicts["segment_id"]), shares):
            rows = _with_first_lines(shares[share], verdicts)
            lines = rows["line"].drop_nulls()
            if lines.is_empty():  # the reviewer has judged rows of other sheets only
                continue
            begun.add(share)
            last_line = lines[-1]
            rows = rows.with_columns(pl.col("line").cum_min(reverse=True).backward_fill())
            later_lines = elsewhere.filter(elsewhere > last_line)
            reached += [rows, _next_row(rows, later_lines, judged_ids)]
    for share in shares.keys() - begun:
        rows = _with_first_lines(shares[share], log.clear())
        reached.append(_next_row(rows, _lines_elsewhere(record, share, log), judged_ids))
    return (
        pl.concat(reached)
        .group_by("segment_id")
        .agg(pl.col("line").min().cast(pl.Int64), pl.col("is_next").any())
    )


def begun_shares(record: ReviewRecord, state: ReviewState) -> set[str]:
    """Return the keys of `ReviewRecord.shares` of which somebody has judged a row."""
    shares = record.shares()
    verdicts_by_reviewer = _verdicts_on_rows(record, state, _log_of_reviews(state)).group_by(
        "reviewer"
    )
    return {
        share
        for (reviewer,), verdicts in verdicts_by_reviewer
        for share in _shares_of(str(reviewer), set(verdicts["segment_id"]), shares)
    }


def _lines_of_owed(part: Part, state: ReviewState) -> pl.DataFrame:
    """Return the same of rows of a round that was taken back: the first one counts as reached.

    Somebody may have heard it, and taken the round back for that reason.
    """
    log = _log_of_reviews(state)
    segment_ids = [part.record.drawn_ids[place] for place in part.places]
    rows = _with_first_lines(segment_ids, log.clear())
    later_lines = _lines_elsewhere(part.record, "", log)
    reached = _next_row(rows, later_lines, state.verdicts_ever["segment_id"])
    return reached.select("segment_id", pl.col("line").cast(pl.Int64), "is_next")


def _verdicts_on_rows(record: ReviewRecord, state: ReviewState, log: pl.DataFrame) -> pl.DataFrame:
    """Return the lines of `_log_of_reviews` with verdicts on rows of a review that still hold."""
    # The log may have others under this name, such as those of a panel without a review, which is
    # called so too.
    is_row = pl.col("segment_id").is_in(record.segment_ids)
    verdicts = log.filter(pl.col("review") == record.name, is_row)
    still = state.verdicts_ever.filter(review=record.name)
    return verdicts.join(still, on=["reviewer", "segment_id"], how="semi", maintain_order="left")


def _with_first_lines(segment_ids: Sequence[str], verdicts: pl.DataFrame) -> pl.DataFrame:
    """Return rows of a share, each with the first line about it among those of a reviewer."""
    rows = pl.DataFrame({"segment_id": segment_ids}, schema={"segment_id": pl.String})
    first_lines = verdicts.group_by("segment_id").agg(pl.col("line").min())
    rows = rows.join(first_lines, on="segment_id", how="left", maintain_order="left")
    return rows.with_columns(is_next=pl.lit(value=False))


def _log_of_reviews(state: ReviewState) -> pl.DataFrame:
    """Return the verdicts of reviews that are on record, each with its `line` of the log."""
    log = state.verdict_log.with_row_index("line")
    return log.filter(pl.col("review").is_in(list(state.records)))


def _lines_elsewhere(record: ReviewRecord, reviewer: str, log: pl.DataFrame) -> pl.Series:
    """Return the lines about other sheets that were added since a review was exported.

    There are none if an earlier version exported it, which has not stored how many there were.

    Args:
        record: the review.
        reviewer: whose sheet it is; empty for one sheet without a name.
        log: what `_log_of_reviews` returns.
    """
    if record.verdict_lines is None:
        return log["line"].clear()
    is_elsewhere = pl.col("review") != record.name
    if reviewer:
        is_elsewhere |= pl.col("reviewer") != reviewer
    return log.filter(is_elsewhere, pl.col("line") >= record.verdict_lines)["line"]


def _next_row(rows: pl.DataFrame, later_lines: pl.Series, judged_ids: pl.Series) -> pl.DataFrame:
    """Return the first row of a share that was not reached, with the first of the later lines.

    Rows that were judged on other sheets are passed over, and returned before it. There are none if
    the share is finished, or if nobody has given a verdict elsewhere since.
    """
    left = rows.filter(pl.col("line").is_null())
    if later_lines.is_empty():
        return left.clear()
    is_open = ~left["segment_id"].is_in(judged_ids.implode())
    number_open = is_open.cast(pl.Int64).cum_sum()
    left = left.with_columns(line=pl.lit(later_lines.min(), pl.UInt32), is_next=is_open)
    return left.filter((number_open == 0) | ((number_open == 1) & is_open))


def _shares_of(
    reviewer: str, segment_ids: set[str], shares: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    """Yield the names of the shares that a reviewer has judged rows of.

    For a name that is on no sheet, these are the shares that hold what was judged.
    """
    left = segment_ids
    if reviewer in shares:
        yield reviewer
        left = left.difference(shares[reviewer])
    while left:
        name = max(shares, key=lambda share: len(left.intersection(shares[share])))
        yield name
        left = left.difference(shares[name])
