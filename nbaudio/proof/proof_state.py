"""`ProofState`: the segments of a workspace in sums, and its reviews as draws from them.

Segments that no claim tells apart share a row of the sums. The draws are in the order in which they
were made, as far as reviewers have reached them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.proof.betting import Bools, Draws, Frame, Ints, Values
from nbaudio.proof.rule_segments import (
    NEVER,
    VERDICTS,
    RuleDraws,
    RuleSegments,
    all_segments,
    draws_about,
    is_in_a_frame,
    judged_apart,
    rule_segments,
)
from nbaudio.proof.segment_sums import TICKS, Kinds, RoundFrame, read_segment_rows, read_sums
from nbaudio.review.draws import all_draws, has_frame
from nbaudio.review.fixed_rules import DEFAULT_SIMILARITY, FixedRule, fixed_rules
from nbaudio.review.population import Population
from nbaudio.review.rounds import JUDGED, OUTCOMES, Round, current_labels, rounds
from nbaudio.review.sampling import Strata
from nbaudio.review.state import WAS_FAULTY, ReviewState, frame_table
from nbaudio.tables import workspace_tables
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.tombstones import tombstone

#: Thresholds on similarity that tables show.
THRESHOLDS = (-1.0, 0.0, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
#: By the name of an amount, the column of `read_sums` that has it, and how much of it is one unit.
_UNITS = {"segments": ("segments", 1), "hours": ("ticks", 3600 * TICKS), "words": ("words", 1)}
#: Properties that do not depend on `rows`: states of other kinds of segments share their values.
_WITHOUT_ROWS = ("population", "rounds", "usable", "rules", "labels", "_frames", "_drawn")
_LEAST_WEIGHT = 1e-300  # of a stratum, so that no sum of weights is 0
#: Columns of the draws. `line` is that of the verdict log which reached a draw, and `round` is its
#: place in `ProofState.usable`.
_DRAWN = pl.Schema(
    {"line": pl.Int64(), "round": pl.Int32(), "segment_id": pl.String(), "verdict": OUTCOMES}
)
_LABELS = pl.Schema({"segment_id": pl.String(), "verdict": OUTCOMES, "key": pl.UInt64()})


@dataclass(frozen=True)
class ProofState(ReviewState):
    """Review state with the segments in sums and the draws; each property is computed once.

    Arrays have a value for each row of `rows`, a row being one or several segments. Those of type
    `Bools` are masks of rows: `count`, `sum` and `amounts` say how much the rows of a mask are.

    Attributes:
        kinds: which segments `rows` tells apart, beside those that every claim needs.
    """

    kinds: Kinds = field(default_factory=Kinds)

    @cached_property
    def population(self) -> Population:
        """The segments, one per id."""
        return Population(self)

    @cached_property
    def selection_threshold(self) -> float:
        """The threshold on similarity of the last `select`."""
        return selection_threshold(self.workspace.report("select").get("facts", {}))

    @cached_property
    def cuts(self) -> Sequence[float]:
        """The thresholds on similarity between which `rows` tells segments apart, ascending."""
        if self.kinds.cuts is None:
            return sorted({*THRESHOLDS, self.selection_threshold})
        return self.kinds.cuts

    @cached_property
    def rounds(self) -> list[Round]:
        """The rounds that were drawn at random, with their verdicts."""
        if not all_draws(self):
            return []
        return rounds(self, self.segments_of_reviews)

    @cached_property
    def usable(self) -> list[Round]:
        """The rounds whose draws count: those with a stored frame."""
        return [round_ for round_ in self.rounds if has_frame(self, round_.draw)]

    @cached_property
    def rules(self) -> list[FixedRule]:
        """The rules that rounds have fixed, in the order of the rounds."""
        return fixed_rules(self)

    @cached_property
    def next_strata(self) -> Strata:
        """What the next round would draw from if risk steers it."""
        return self.population.strata(
            "risk", threshold=self.selection_threshold, rounds=self.rounds
        )

    @cached_property
    def labels(self) -> pl.DataFrame:
        """The `verdict` on what each judged segment is now, with `segment_id` and its hash `key`.

        `verdict_codes` has the same by row.
        """
        if self.verdicts.is_empty():
            return pl.DataFrame(schema=_LABELS)
        labels = current_labels(self, self.rows_of_reviews)
        return labels.with_columns(key=pl.col("segment_id").hash()).sort("segment_id")

    @cached_property
    def rows_of_reviews(self) -> pl.DataFrame:
        """The rows of the table whose segments were drawn or judged, with the columns `JUDGED`."""
        drawn = (pl.Series(draw.ids, dtype=pl.String) for draw in all_draws(self))
        ids = [self.drawn["segment_id"], self.verdicts["segment_id"], *drawn]
        rows = self.population.rows(pl.concat(ids).unique(), JUDGED)
        # By Arrow, as texts of polars keep those of all rows that were read with them.
        return pl.DataFrame(rows.to_arrow(compat_level=pl.CompatLevel.oldest()))

    @cached_property
    def segments_of_reviews(self) -> pl.DataFrame:
        """The segments that were drawn or judged, as they were given to reviewers."""
        return self.population.as_reviewed(self.rows_of_reviews)

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The segments in sums, with the columns that `read_sums` states."""
        return self._read_sums([replace(self.kinds, cuts=self.cuts)])[0]

    def by_columns(self, several_kinds: Sequence[Kinds]) -> "list[ProofState]":
        """Return a state for each of several kinds of segments, such as cuts of other columns.

        The sums of all are read together. All kinds have `cuts` and the same `by`, and none has
        `without`.
        """
        several_rows = self._read_sums(several_kinds)
        return [
            self._with_rows(kinds, rows)
            for kinds, rows in zip(several_kinds, several_rows, strict=True)
        ]

    @cached_property
    def of_drawn(self) -> "ProofState":
        """The state whose rows are the drawn and the judged segments only.

        Its `draws` are as those of all segments, but for the numbers of rows, and sooner there.
        """
        return self._with_rows(
            self.kinds,
            read_segment_rows(
                self.workspace, self.segments_of_reviews, self._frames, self._ids_alone
            ),
        )

    def _with_rows(self, kinds: Kinds, rows: pl.DataFrame) -> "ProofState":
        """Return a state with other rows, which shares what does not depend on them."""
        state = replace(self, kinds=kinds)
        shared = {name: getattr(self, name) for name in _WITHOUT_ROWS}
        vars(state).update(shared, rows=rows)
        return state

    @property
    def _ids_alone(self) -> pl.Series:
        """The segments, or their tombstones, that have a row each: drawn or judged ones."""
        return pl.concat([self.labels["segment_id"], self._drawn["segment_id"]])

    def _read_sums(self, several_kinds: Sequence[Kinds]) -> list[pl.DataFrame]:
        """Return `read_sums` of each of several kinds."""
        has_risk = "risk" in workspace_tables.table_schema(self.workspace)
        strata = self.next_strata if self.kinds.by_risk and has_risk else None
        return read_sums(
            self.population,
            several_kinds,
            strata=strata,
            frames=self._frames,
            rules=self.rules,
            alone=self._ids_alone,
        )

    def flags(self, column: str) -> Bools:
        """Return a column of `rows` that has flags, as a mask."""
        return self.rows[column].to_numpy()

    def count(self, where: Bools) -> int:
        """Return how many segments the rows of a mask have."""
        return int(self.rows["segments"].to_numpy()[where].sum())

    def sum(self, what: str, where: Bools) -> float:
        """Return how many `segments`, `hours` or `words` the rows of a mask have."""
        column, unit = _UNITS[what]
        return float(self.rows[column].to_numpy()[where].sum() / unit)

    def amounts(self, what: str, where: Bools) -> Values:
        """Return the `segments`, `hours` or `words` of each row, 0 outside of a mask."""
        column, unit = _UNITS[what]
        sums = self.rows[column].to_numpy()
        counts = self.rows[f"{column}_counted"].to_numpy()
        largest = self.rows[f"{column}_largest"].to_numpy()
        return Values(sums / unit, counts, largest / unit).within(where)

    @cached_property
    def verdict_codes(self) -> NDArray[np.int8]:
        """The verdict on what each row is now, as its place in `VERDICTS`; -1 without a verdict."""
        verdicts = self.rows.select("key").join(
            self.labels, on="key", how="left", maintain_order="left"
        )["verdict"]
        return verdicts.to_physical().cast(pl.Int8).fill_null(-1).to_numpy()

    def labelled(self, *verdicts: str) -> Bools:
        """Return which rows have one of these verdicts as they are now."""
        # A table, as np.isin takes long for few rows; the code -1 is at its end
        is_among = np.zeros(len(VERDICTS) + 1, dtype=np.bool_)
        is_among[[VERDICTS.index(verdict) for verdict in verdicts]] = True
        return is_among[self.verdict_codes]

    @cached_property
    def accepted(self) -> Bools:
        """Which segments the last `select` keeps."""
        return self.flags("accepted")

    @cached_property
    def left_out(self) -> Bools:
        """Which segments `select` leaves out only because they were reviewed."""
        return self.flags("left_out")

    @cached_property
    def judged(self) -> Bools:
        """Which segments were reached in a round, or judged although no round could draw them.

        Segments that were removed since are left out.
        """
        reached = np.zeros(len(self.rows), dtype=np.bool_)
        reached[self.draws.item] = True
        reached[self.draws.outside] = True
        return reached & self.flags("is_there")

    @cached_property
    def _frames(self) -> list[RoundFrame]:
        """The frame of each round in `usable`: the segments that it could draw."""
        records = {draw.name: draw.record for draw in all_draws(self)}
        frames = []
        for round_ in self.usable:
            table = frame_table(round_.draw)
            record = records[round_.draw]
            frames.append(
                RoundFrame(
                    table,
                    self._strata(table),
                    place=len(record.after),
                    later=self.later(round_.corpus),
                    by=record.by,
                )
            )
        return frames

    @cached_property
    def group_columns(self) -> dict[str, int]:
        """The columns whose groups rounds have fixed, with the place of the first draw that did.

        Places are those of `draw_order`.
        """
        first_draws: dict[str, int] = {}
        for frame in sorted(self._frames, key=lambda frame: frame.place):
            if frame.by:
                first_draws.setdefault(frame.by, frame.place)
        return first_draws

    def _strata(self, table: str) -> pl.DataFrame:
        """Return the strata of a frame, see `RoundFrame`."""
        by_stratum = workspace_tables.scan(self.workspace, table=table).group_by("stratum")
        facts = by_stratum.agg(pl.col("weight", "rate").first(), size=pl.len())
        return facts.collect(**STREAMED).sort("stratum").with_row_index("number")

    @cached_property
    def draw_order(self) -> Ints:
        """The place of the draw of each usable round in the order of all draws ever made."""
        return np.array([frame.place for frame in self._frames], dtype=np.int64)

    @cached_property
    def lines(self) -> Ints:
        """The latest line of the verdict log that reached each draw or one before it."""
        return self._drawn["line"].cum_max().to_numpy()

    @property
    def drawn_ids(self) -> pl.Series:
        """The segment, or its tombstone, of each draw."""
        return self._drawn["segment_id"]

    @cached_property
    def draws(self) -> Draws:
        """The draws of all rounds, and what was judged although no round could draw it."""
        drawn = self._drawn
        frames = tuple(self._frame(number) for number in range(len(self._frames)))
        rounds = drawn["round"].to_numpy().astype(np.int64)
        rows = self._rows_of_draws(drawn)
        is_wrong = drawn["verdict"].eq_missing("wrong").to_numpy()
        is_unsure = drawn["verdict"].eq_missing("unsure").to_numpy()
        is_valid = np.zeros(len(rows), dtype=np.bool_)
        for number, frame in enumerate(frames):
            of_round = rounds == number
            is_valid[of_round] = frame.valid[rows[of_round]]
        no_rows = np.zeros(0, dtype=np.int64)
        draws = Draws(
            frames,
            round=rounds,
            item=rows,
            wrong=is_wrong,
            unsure=is_unsure,
            replaced=~is_valid & (self.flags("is_there")[rows] | is_wrong | is_unsure),
            first=drawn["segment_id"].is_first_distinct().to_numpy(),
            outside=no_rows,
            outside_wrong=no_rows.astype(np.bool_),
            outside_unsure=no_rows.astype(np.bool_),
        )
        return judged_apart(draws, frames, self.verdict_codes)

    def _rows_of_draws(self, drawn: pl.DataFrame) -> NDArray[np.int64]:
        """Return the row of `rows` that is the segment, or tombstone, of each draw."""
        row_of_key = self.rows.select("key").with_row_index("row").drop_nulls()
        keys = drawn.select(key=pl.col("segment_id").hash())
        rows = keys.join(row_of_key, on="key", how="left", maintain_order="left")["row"]
        return rows.to_numpy().astype(np.int64)

    def _frame(self, number: int) -> Frame:
        """Return what the usable round of a number, from 0, could draw."""
        strata = self._frames[number].strata
        weights = np.maximum(strata["weight"].to_numpy(), _LEAST_WEIGHT)
        return Frame(
            stratum=self.rows[f"stratum_frame_{number}"].fill_null(-1).to_numpy(),
            valid=self.flags(f"valid_frame_{number}"),
            sizes=strata["size"].to_numpy().astype(float),
            weights=weights / weights.sum(),
            rates=None if strata["rate"].has_nulls() else strata["rate"].to_numpy(),
        )

    def about_rule(self, rule: FixedRule, split: str | None = None) -> RuleDraws:
        """Return what the draws say about a rule, or about what it gives to a split."""
        return self.about(rule_segments(self.rows, rule, split))

    def about_all_segments(self) -> RuleDraws:
        """Return what the draws say about all segments that a round could draw."""
        is_there = self.flags("is_there")
        frames = self.draws.frames
        inside = self.flags("reviewable") | (is_there & is_in_a_frame(frames, len(is_there)))
        size = max(self.count(inside), 1)
        rule = all_segments(
            is_there,
            inside,
            mean_hours=self.sum("hours", inside) / size,
            mean_words=self.sum("words", inside) / size,
        )
        return self.about(rule)

    def about_threshold(self, place: int, *, has_duration: bool) -> RuleDraws:
        """Return what the draws say about the segments at or above a threshold when it was fixed.

        The first round that could draw a segment fixes its similarity. Segments without one count
        as above every threshold. Claims count segments only.

        Args:
            place: of the threshold among `Kinds.cuts`.
            has_duration: take only segments that had a duration that was selected.
        """
        is_above = self.flags("fixed_cut") > place
        if has_duration:
            is_above = is_above & self.flags("fixed_has_duration")
        fixed_draw = self.rows["fixed_draw"].fill_null(NEVER).to_numpy()
        first_draw = np.where(is_above, fixed_draw, NEVER)
        no_amounts = np.zeros(len(fixed_draw))
        rule = RuleSegments(1, first_draw, self.flags("is_there"), no_amounts, no_amounts)
        return self.about(rule)

    def about(self, rule: RuleSegments) -> RuleDraws:
        """Return what the draws say about the segments of a rule."""
        return draws_about(rule, self.draws, order=self.draw_order, label=self.verdict_codes)

    @cached_property
    def _drawn(self) -> pl.DataFrame:
        """The rows of all usable rounds that were reached, in the order in which they were drawn.

        A segment of several rounds is in each of them. The order in which sheets return does not
        matter: somebody may look into them and import those without a fault first.
        """
        parts = [pl.DataFrame(schema=_DRAWN)]
        for number, (round_, frame) in enumerate(zip(self.usable, self._frames, strict=True)):
            rows = self._with_strata(round_.rows, frame)
            rows = _with_withdrawn_faults(rows, self._withdrawn_faults(frame.table))
            rows = rows.with_columns(rank=pl.int_range(1, pl.len() + 1).over("stratum"))
            rows = rows.with_columns(line=_counted_lines(), round=pl.lit(number)).drop_nulls("line")
            parts.append(rows.select(pl.col(name).cast(dtype) for name, dtype in _DRAWN.items()))
        return pl.concat(parts)

    def _with_strata(self, rows: pl.DataFrame, frame: RoundFrame) -> pl.DataFrame:
        """Return rows of a draw with `stratum`, a number, and the `size` of the stratum.

        Both are null where the frame has none. Segments that were withdrawn since are in the frame
        with their tombstones, which replace the ids here.
        """
        ids = rows["segment_id"]
        tombstones = pl.Series([tombstone("segment", key) for key in ids], dtype=pl.String)
        either = pl.concat([ids, tombstones])
        in_frame = (
            workspace_tables.scan(self.workspace, ("segment_id", "stratum"), table=frame.table)
            .filter(pl.col("segment_id").is_in(either.implode()))
            .collect(**STREAMED)
            .join(frame.strata.select("stratum", "number", "size"), on="stratum")
            .select("segment_id", stratum="number", size=pl.col("size").cast(pl.Int64))
        )
        is_stored = ids.is_in(in_frame["segment_id"].implode())
        rows = rows.with_columns(segment_id=ids.zip_with(is_stored, tombstones))
        return rows.join(in_frame, on="segment_id", how="left", maintain_order="left")

    def _withdrawn_faults(self, table: str) -> pl.Series:
        """Return the withdrawn segments of a frame that were wrong or unsure, as tombstones."""
        if WAS_FAULTY not in workspace_tables.table_schema(self.workspace, table):
            return pl.Series("segment_id", [], dtype=pl.String)
        rows = workspace_tables.scan(self.workspace, ["segment_id", WAS_FAULTY], table=table)
        faulty = rows.filter(pl.col(WAS_FAULTY).fill_null(value=False))
        return faulty.select("segment_id").collect(**STREAMED).to_series()


def selection_threshold(selection: Mapping[str, Any]) -> float:
    """Return the threshold on similarity in the facts of a report of `select`, or else 0.8."""
    return float(selection.get("parameters", {}).get("min_similarity", DEFAULT_SIMILARITY))


def _counted_lines() -> pl.Expr:
    """Return the line of the log that reached each row of a draw, null for rows that do not count.

    Needs the columns `line` (null: not reached), `rank` in the stratum, from 1, and `size` of the
    stratum. Rows count that were reached. Once a stratum is used up, the others are drawn more
    often, which depends on all rows before: from there on, a row counts if none is missing up to
    it, and its line is the last of those.
    """
    is_last_of_stratum = (pl.col("rank") >= pl.col("size")).fill_null(value=False)
    is_after_end = is_last_of_stratum.cum_max().shift(1, fill_value=False)
    has_gap = pl.col("line").is_null().cum_max()
    latest_line = pl.col("line").cum_max()
    return pl.when(~is_after_end).then("line").when(~has_gap).then(latest_line)


def _with_withdrawn_faults(rows: pl.DataFrame, faulty: pl.Series) -> pl.DataFrame:
    """Return rows of a draw with verdict and line of the withdrawn segments that are `faulty`.

    The log has no longer their verdicts. They count as wrong, and as reached with the row before
    them, or at line 0: they may have been the last ones that a reviewer reached.
    """
    is_faulty = pl.col("segment_id").is_in(faulty.implode())
    line_before = pl.col("line").forward_fill().fill_null(0)
    return rows.with_columns(
        verdict=pl.when(is_faulty).then(pl.lit("wrong", OUTCOMES)).otherwise("verdict"),
        line=pl.when(is_faulty).then(pl.coalesce("line", line_before)).otherwise("line"),
    )
