"""How far the reviewers of a round are, how well they agree, and where sheets stopped."""

from dataclasses import dataclass

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.review.population import Population
from nbaudio.review.rounds import Round, rounds
from nbaudio.review.state import ReviewRecord, ReviewState

SCHEMA = pl.Schema(
    {
        "reviewer": pl.String(),
        "rows": pl.UInt32(),
        "judged": pl.UInt32(),
        "left": pl.UInt32(),
        "skipped": pl.UInt32(),
        "stopped_at": pl.String(),
        "last_verdict": pl.String(),
        "shared": pl.UInt32(),
        "agreement": pl.Float64(),
    }
)

_SECONDS = len("2026-11-29T20:48:00")  # of a time, without fractions of a second
_ROWS = {"segment_id": pl.String, "skipped": pl.Boolean, "ended": pl.Boolean}


@dataclass(frozen=True)
class _Passed:
    """Rows of a round that count as unsure, as nobody judged them."""

    skipped: set[str]  # rows before the last judged one
    stopped_at: set[str]  # the first row that is left of a sheet, while verdicts came elsewhere


def round_progress(state: ReviewState, review: str) -> pl.DataFrame:
    """Return a row for each reviewer of a round with the columns `SCHEMA`.

    `agreement` is the share of the segments that another reviewer judged as well (`shared`) on
    which all of them gave the same verdict. The name is empty where nobody has judged one sheet
    without a name.

    Raises:
        InputError: there is no such round.
    """
    record = state.records.get(review)
    if record is None:
        names = ", ".join(state.records) or "none"
        raise InputError(
            f"{state.workspace.path}: there is no review {review!r}; known are {names}"
        )
    passed = _passed_rows(state, record)
    verdicts = state.verdicts.filter(pl.col("content").is_in(record.contents))
    agreements = _agreements(verdicts)
    rows = []
    for reviewer, segment_ids in _shares_by_reviewer(state, record).items():
        judged = verdicts.filter(reviewer=reviewer)
        shared = agreements.filter(reviewer=reviewer)
        number_judged = len(set(segment_ids).intersection(judged["segment_id"]))
        rows.append(
            {
                "reviewer": reviewer,
                "rows": len(segment_ids),
                "judged": number_judged,
                "left": len(segment_ids) - number_judged,
                "skipped": len(passed.skipped.intersection(segment_ids)),
                "stopped_at": next(iter(passed.stopped_at.intersection(segment_ids)), None),
                "last_verdict": judged["time"].str.head(_SECONDS).max(),
                "shared": len(shared),
                "agreement": shared["is_equal"].mean(),
            }
        )
    return pl.DataFrame(rows, schema=SCHEMA)


def _shares_by_reviewer(state: ReviewState, record: ReviewRecord) -> dict[str, list[str]]:
    """Return the segments of each reviewer.

    Of one sheet without a name, these are all segments for everybody who has judged some of them.
    """
    if record.reviewers:
        return record.shares()
    judged = state.verdict_log.filter(review=record.name)["reviewer"].unique().sort()
    return dict.fromkeys(judged.to_list() or [""], record.segment_ids)


def _passed_rows(state: ReviewState, record: ReviewRecord) -> _Passed:
    """Return the rows of a round that reviewers passed over or stopped at."""
    segments = Population(state).read(state.drawn["segment_id"])
    of_round: list[Round] = [
        draw for draw in rounds(state, segments) if record.name in draw.name.split(", ")
    ]
    rows = pl.concat([pl.DataFrame(schema=_ROWS), *(draw.rows.select(*_ROWS) for draw in of_round)])
    return _Passed(
        set(rows.filter("skipped")["segment_id"]), set(rows.filter("ended")["segment_id"])
    )


def _agreements(verdicts: pl.DataFrame) -> pl.DataFrame:
    """Return whether all verdicts are equal on each segment that several reviewers judged.

    There is a row for each of them: `reviewer`, `segment_id`, `is_equal`.
    """
    several = verdicts.filter(pl.col("reviewer").n_unique().over("segment_id") > 1)
    is_equal = pl.col("verdict").n_unique().over("segment_id") == 1
    return several.select("reviewer", "segment_id", is_equal=is_equal)
