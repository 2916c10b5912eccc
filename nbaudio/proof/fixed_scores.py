"""The similarities that segments had when rounds were drawn: thresholds on them are fixed rules.

Whoever scores again, withdraws segments or takes other durations after verdicts were heard changes
what is above a threshold. Claims about it rest on what was above it before: see docs/evidence.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.proof.betting import Array, Bools, Ints
from nbaudio.proof.rule_segments import NEVER, RemovedSegments, RuleSegments
from nbaudio.review.fixed_rules import have_selected_durations
from nbaudio.review.population import Population
from nbaudio.tables import workspace_tables
from nbaudio.tables.workspace import Workspace
from nbaudio.tables.workspace_tables import table_schema

_COLUMNS = ("segment_id", "similarity", "has_duration")
_REMOVED = {
    "key": pl.UInt64,
    "similarity": pl.Float64,
    "has_duration": pl.Boolean,
    "first_draw": pl.Int32,
}


@dataclass(frozen=True)
class _Scores:
    """Similarities of some segments, and when they were fixed; arrays have a value for each."""

    similarity: Array  # NaN: unknown
    has_duration: Bools  # whether the duration was one that was selected
    first_draw: Ints  # the place of the draw that fixed it, in the order of all draws

    def fix(self, batch: pl.DataFrame, places: Ints, draw: int) -> None:
        """Write the scores that a frame has where no earlier frame has fixed them.

        Args:
            batch: rows of the frame.
            places: of its segments, -1 for those that are gone.
            draw: the place of its draw.
        """
        is_new = (places >= 0) & (self.first_draw[places] == NEVER)
        new_places = places[is_new]
        self.first_draw[new_places] = draw
        if "similarity" in batch.columns:
            rows = batch.filter(pl.Series(is_new, dtype=pl.Boolean))
            self.similarity[new_places] = rows["similarity"].fill_null(np.nan).to_numpy()
            self.has_duration[new_places] = rows["has_duration"].to_numpy()

    def first_draw_above(self, threshold: float, *, has_duration: bool) -> Ints:
        """Return `first_draw` where a threshold takes a segment, elsewhere `NEVER`."""
        takes = ~(self.similarity < threshold)
        if has_duration:
            takes &= self.has_duration
        return np.where(takes, self.first_draw, NEVER).astype(np.int32)


@dataclass(frozen=True)
class FixedScores:
    """The similarities of segments that are there, and of those that are gone."""

    present: _Scores
    removed: _Scores
    removed_keys: NDArray[np.uint64]  # the hashes of their ids, or of their tombstones

    def above(self, threshold: float, *, has_duration: bool) -> RuleSegments:
        """Return the segments at or above a threshold as a rule.

        Segments without a similarity are taken too. Claims about it count segments only.

        Args:
            threshold: the least similarity.
            has_duration: take only segments with a duration that was selected.
        """
        first_draw = self.removed.first_draw_above(threshold, has_duration=has_duration)
        is_taken = first_draw != NEVER
        nothing = np.zeros(int(is_taken.sum()))
        removed = RemovedSegments(
            self.removed_keys[is_taken], first_draw[is_taken], nothing, nothing
        )
        inside = self.present.first_draw_above(threshold, has_duration=has_duration)
        return RuleSegments(1, inside, removed)


def fixed_scores(population: Population, frames: Sequence[tuple[str, int]]) -> FixedScores:
    """Return the similarity that each segment had in the first frame that has it.

    Frames of earlier versions have none: for them it is the one that the segment has now.

    Args:
        population: the segments.
        frames: the tables of what rounds could draw, each with the place of its draw, ascending.
    """
    size = len(population)
    present = _Scores(
        population.numbers["similarity"].astype(np.float64),
        have_selected_durations(population),
        np.full(size, NEVER, dtype=np.int32),
    )
    removed = [pl.DataFrame(schema=_REMOVED)]
    places_of = population.index()
    for table, place in frames:
        for batch in _read_scores(population.state.workspace, table):
            places = places_of(batch["segment_id"])
            present.fix(batch, places, place)
            gone = batch.filter(pl.Series(places < 0, dtype=pl.Boolean))
            removed.append(_removed_rows(gone, place))
    rows = pl.concat(removed).unique("key", keep="first", maintain_order=True)
    of_removed = _Scores(
        rows["similarity"].fill_null(np.nan).to_numpy(),
        rows["has_duration"].to_numpy(),
        rows["first_draw"].to_numpy(),
    )
    return FixedScores(present, of_removed, rows["key"].to_numpy())


def _read_scores(workspace: Workspace, table: str) -> Iterator[pl.DataFrame]:
    """Yield the scores that a frame has, batch by batch; a frame of an earlier version has none."""
    schema = table_schema(workspace, table)
    return workspace_tables.read_batches(
        workspace, table, [name for name in _COLUMNS if name in schema]
    )


def _removed_rows(rows: pl.DataFrame, place: int) -> pl.DataFrame:
    """Return rows of a frame whose segments are gone.

    In a frame of an earlier version they have no similarity: each threshold takes them.
    """
    has_scores = "similarity" in rows.columns
    return rows.select(
        key=pl.col("segment_id").hash(),
        similarity=pl.col("similarity") if has_scores else pl.lit(None, pl.Float64),
        has_duration=pl.col("has_duration") if has_scores else pl.lit(value=True),
        first_draw=pl.lit(place, pl.Int32),
    )
