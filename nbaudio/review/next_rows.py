"""The rows of the next round: those that earlier draws have left over, then new ones.

Rows that are left over come first and in their order, whatever is drawn after them: otherwise one
could draw again until a sample looks good.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from nbaudio.review.draws import all_draws
from nbaudio.review.fixed_rules import selection_hash
from nbaudio.review.left_over_rows import left_over_rows
from nbaudio.review.population import Population
from nbaudio.review.rounds import Round
from nbaudio.review.sampling import Strata, salt_of
from nbaudio.review.state import Resumed, ReviewRecord

_ROWS = pl.Schema({"segment_id": pl.String, "probability": pl.Float64, "stratum": pl.String})


@dataclass(frozen=True)
class NextRows:
    """The rows of a new round."""

    # `segment_id`, `probability` of being first in its draw, and `stratum`, in order
    rows: pl.DataFrame
    resumes: list[Resumed]  # what the round begins with
    new_ids: list[str] | None  # see `ReviewRecord.new_ids`
    strata: Strata | None  # what new rows were drawn from; None if there are none


def next_rows(
    population: Population,
    *,
    strategy: str,
    threshold: float,
    n: int,
    seed: int,
    rounds: Sequence[Round],
) -> NextRows:
    """Return at most `n` rows: those left over, then new ones of segments nobody has reached.

    Which rows are drawn depends on the seed, on how many draws there were, and on what is selected
    now. New rows are drawn as if no rows were left over. Those that the round begins with are
    passed over, so that the draw stays one from its frame.

    Args:
        population: the segments.
        strategy: how new rows are drawn, see `STRATEGIES`.
        threshold: the similarity at which the decision is expected, from -1 to 1.
        n: how many rows in all.
        seed: of the draw.
        rounds: all earlier rounds.

    Raises:
        InputError: the strategy is unknown, or lacks its column.
    """
    first, resumes = _first_rows(population, n)
    strata = population.strata(strategy, threshold=threshold, rounds=rounds)
    number_of_new = n - len(first)
    if not number_of_new:
        return NextRows(first, resumes, [], None)
    salt = f"{salt_of(seed, all_draws(population.state))} of {selection_hash(population)}"
    drawn = population.draw(strata, n=n, salt=salt)
    is_new = ~drawn["segment_id"].is_in(first["segment_id"].implode())
    before = is_new.cast(pl.Int64).cum_sum() - is_new.cast(pl.Int64)
    drawn = drawn.filter(before < number_of_new)
    new = drawn.filter(~pl.col("segment_id").is_in(first["segment_id"].implode()))
    if new.is_empty():
        return NextRows(first, resumes, [], None)
    new_ids = drawn["segment_id"].to_list() if resumes else None
    return NextRows(pl.concat([first, new.cast(_ROWS)]), resumes, new_ids, strata)


def _first_rows(population: Population, n: int) -> tuple[pl.DataFrame, list[Resumed]]:
    """Return at most `n` rows that are left over, as `NextRows.rows`, and where they are from.

    Rows that were judged since or cannot be reviewed any more are passed over.
    """
    state = population.state
    judged = set(state.verdicts_ever["segment_id"])
    draws = {draw.name: draw for draw in all_draws(state)}
    rows: dict[str, tuple[str, float | None, str | None]] = {}
    resumes = []
    for left_over in left_over_rows(state):
        record = draws[left_over.draw].record
        is_usable = _is_usable(population, record.drawn_ids)
        chances = _chances(record)
        places = []
        for place in left_over.rows:
            if len(rows) == n:
                break
            places.append(place)
            segment_id = record.drawn_ids[place]
            if is_usable[place] and segment_id not in judged:
                rows.setdefault(segment_id, (segment_id, *chances[segment_id]))
        if places:
            resumes.append(Resumed(left_over.draw, places))
    return pl.DataFrame(list(rows.values()), schema=_ROWS, orient="row"), resumes


def _is_usable(population: Population, segment_ids: Sequence[str]) -> list[bool]:
    """Return which of some segments are there and can be reviewed."""
    places = population.places(pl.Series(segment_ids, dtype=pl.String))
    is_there = places >= 0
    is_usable = is_there & population.reviewable[np.where(is_there, places, 0)]
    return [bool(value) for value in is_usable]


def _chances(record: ReviewRecord) -> dict[str, tuple[float, str]]:
    """Return probability and stratum of each segment of a review."""
    strata = record.strata or [""] * len(record.segment_ids)  # of earlier versions
    drawn = zip(record.probabilities, strata, strict=True)
    return dict(zip(record.segment_ids, drawn, strict=True))
