"""Draws: which rows were drawn together, and which reviews have them on their sheets.

A review has its own draw. It begins with rows that earlier draws have left over (`left_over_rows`):
then one review has rows of several draws, and one draw has rows in several reviews.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass

from nbaudio.review.state import ReviewRecord, ReviewState, frame_table
from nbaudio.tables.workspace_tables import table_path

#: The strategy where somebody picked the segments: no round, as nothing follows from it about
#: others.
PICKED = "picked"


@dataclass(frozen=True)
class Draw:
    """Segments that were drawn together, in order, from one frame."""

    name: str  # of its frame (`frame_table`): that of its review, or ``taken_back/NAME``
    record: ReviewRecord  # the review that drew them
    is_taken_back: bool

    @property
    def ids(self) -> list[str]:
        """The segments in the order in which they were drawn."""
        return self.record.drawn_ids


@dataclass(frozen=True)
class Part:
    """Rows of one draw that a review has."""

    record: ReviewRecord  # the review
    places: Sequence[int]  # of the rows in the order of the draw, from 0, ascending
    # The segments that are on the sheets as rows of this draw. The others were passed over: they
    # could not be reviewed any more, or are rows of another draw that the review has too.
    listed: Set[str]
    # Whether the review was taken back, and no later one has begun with these rows.
    is_owed: bool = False


def all_draws(state: ReviewState) -> list[Draw]:
    """Return all draws ever made, in order, also those of rounds that were taken back.

    A round that only has rows of earlier draws is among them, with an empty draw.
    """
    draws = [Draw(name, record, is_taken_back=False) for name, record in state.records.items()]
    draws += [Draw(name, record, is_taken_back=True) for name, record in state.taken_back.items()]
    at_random = [draw for draw in draws if draw.record.strategy != PICKED]
    return sorted(at_random, key=lambda draw: (len(draw.record.after), draw.name))


def parts(state: ReviewState, record: ReviewRecord) -> dict[str, Part]:
    """Return the rows of a review by the name of the draw that they are of, in their order."""
    left = set(record.segment_ids)
    draw_parts = {}
    for resumed in record.resumes:
        drawn_by = record_of_draw(state, resumed.draw)
        if drawn_by is None:  # somebody removed its record: its rows prove nothing
            continue
        ids = drawn_by.drawn_ids
        listed = left.intersection(ids[place] for place in resumed.rows)
        left -= listed
        draw_parts[resumed.draw] = Part(record, resumed.rows, listed)
    if record.drawn_ids:
        left_of_draw = left.intersection(record.drawn_ids)
        draw_parts[record.name] = Part(record, range(len(record.drawn_ids)), left_of_draw)
    return draw_parts


def record_of_draw(state: ReviewState, draw: str) -> ReviewRecord | None:
    """Return the review that made a draw; None if somebody has removed its record."""
    return state.taken_back.get(draw) or state.records.get(draw)


def owed_parts(state: ReviewState) -> dict[str, Part]:
    """Return the rows of rounds that were taken back which no later round has begun with.

    They are by the name of their draw. A draw whose frame is not stored proves nothing, and has
    none.
    """
    resumed_places: dict[str, set[int]] = {}
    for record in state.records.values():
        for resumed in record.resumes:
            resumed_places.setdefault(resumed.draw, set()).update(resumed.rows)
    owed = {}
    for draw in all_draws(state):
        if not draw.is_taken_back or not has_frame(state, draw.name):
            continue
        done = resumed_places.get(draw.name, set())
        places = [place for place in range(len(draw.ids)) if place not in done]
        if places:
            listed = {draw.ids[place] for place in places}
            owed[draw.name] = Part(draw.record, places, listed, is_owed=True)
    return owed


def has_frame(state: ReviewState, draw: str) -> bool:
    """Return whether the frame of a draw is stored."""
    return table_path(state.workspace, frame_table(draw)).exists()
