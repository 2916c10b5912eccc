"""Rows that earlier draws have left over: the next round begins with them.

A sheet that ends before its last row leaves rows that nobody has judged, and a round that was taken
back leaves all of its rows. If nobody had to hear them, one could end a sheet where it gets hard.
"""

from collections.abc import Sequence

import polars as pl

from nbaudio.review.draws import Draw, Part, all_draws, has_frame
from nbaudio.review.rounds import begun_shares, parts_by_draw, rows_of_part
from nbaudio.review.state import Resumed, ReviewRecord, ReviewState


def left_over_rows(state: ReviewState) -> list[Resumed]:
    """Return the rows that are left over, in the order in which they were drawn.

    They are the rows that nobody has judged on sheets that were begun, and those of rounds that
    were taken back, but for rows that a later sheet has which nobody has begun. A draw whose frame
    is not stored proves nothing, and leaves none.
    """
    on_sheets = parts_by_draw(state)
    left_over = []
    for draw in all_draws(state):
        if not has_frame(state, draw.name):
            continue
        places = _places_left_over(draw, on_sheets[draw.name], state)
        if places:
            left_over.append(Resumed(draw.name, places))
    return left_over


def _places_left_over(draw: Draw, on_sheets: Sequence[Part], state: ReviewState) -> list[int]:
    """Return the places of a draw's rows that are left over on the last sheet that has them."""
    is_left_over = dict.fromkeys(range(len(draw.ids)), draw.is_taken_back)
    reached: set[int] = set()
    for part in on_sheets:
        rows = rows_of_part(draw, part, state)
        is_reached = pl.col("line").is_not_null() & ~pl.col("is_next")
        reached.update(rows.filter("listed", is_reached)["place"])
        left_on_sheet = _left_on_begun_sheets(rows, part.record, state)
        is_left_over |= {place: place in left_on_sheet for place in part.places}
    return [place for place, is_left in is_left_over.items() if is_left and place not in reached]


def _left_on_begun_sheets(rows: pl.DataFrame, record: ReviewRecord, state: ReviewState) -> set[int]:
    """Return the places of rows that nobody has judged and that are on begun sheets only."""
    begun = begun_shares(record, state)
    waiting = {
        segment_id
        for share, segment_ids in record.shares().items()
        if share not in begun
        for segment_id in segment_ids
    }
    judged = state.verdicts_ever["segment_id"]
    is_judged = pl.col("segment_id").is_in(judged.implode())
    is_waiting = pl.col("segment_id").is_in(list(waiting))
    return set(rows.filter("listed", ~is_judged, ~is_waiting)["place"])
