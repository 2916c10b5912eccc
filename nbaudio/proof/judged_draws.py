"""The segments of a workspace in sums, and its reviews as draws from them.

The draws are in the order in which they were made, as far as reviewers have reached them.
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
from nbaudio.proof.segment_sums import TICKS, Kinds, StoredFrame, read_some, read_sums
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
#: The columns of `read_sums` with each amount, and how much of it is one unit.
_UNITS = {"segments": ("segments", 1), "hours": ("ticks", 3600 * TICKS), "words": ("words", 1)}
#: What is computed once for all kinds of segments, as it does not depend on `rows`.
_WITHOUT_ROWS = ("population", "rounds", "usable", "rules", "labels", "_frames", "_drawn")
_DRAWN = pl.Schema(
    {"line": pl.Int64(), "round": pl.Int32(), "segment_id": pl.String(), "verdict": OUTCOMES}
)


@dataclass(frozen=True)
class ProofState(ReviewState):
    """Review state with the segments in sums and the draws, computed once.

    Arrays are by row of `rows`: masks say which rows count, and `count` how many segments they are.
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
        """The thresholds that tell segments apart."""
        if self.kinds.cuts is None:
            return sorted({*THRESHOLDS, self.selection_threshold})
        return self.kinds.cuts

    @cached_property
    def rounds(self) -> list[Round]:
        """The reviews that were drawn at random."""
        return rounds(self, self.population.read(self.drawn["segment_id"], JUDGED))

    @cached_property
    def usable(self) -> list[Round]:
        """The rounds whose draws count: those with a stored frame."""
        return [round_ for round_ in self.rounds if has_frame(self, round_.draw)]

    @cached_property
    def rules(self) -> list[FixedRule]:
        """The rules that rounds have fixed, in their order."""
        return fixed_rules(self)

    @cached_property
    def next_strata(self) -> Strata:
        """What the next round would draw from if risk steers it."""
        return self.population.strata(
            "risk", threshold=self.selection_threshold, rounds=self.rounds
        )

    @cached_property
    def labels(self) -> pl.DataFrame:
        """The `verdict` on what each judged segment is now, with its `segment_id` and `key`."""
        judged = self.verdicts["segment_id"]
        segments = workspace_tables.read(
            self.workspace, JUDGED, where=pl.col("segment_id").is_in(judged.implode())
        )
        labels = current_labels(self, segments)
        return labels.with_columns(key=pl.col("segment_id").hash()).sort("segment_id")

    @cached_property
    def rows(self) -> pl.DataFrame:
        """The segments in sums, see `read_sums`."""
        return self._read_sums([replace(self.kinds, cuts=self.cuts)])[0]

    def by_columns(self, several_kinds: Sequence[Kinds]) -> "list[ProofState]":
        """Return states that tell other kinds of segments apart, whose sums are read together.

        They have `cuts`, and nothing that does not ship.
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
            self.kinds, read_some(self.population, self._frames, self._ids_alone)
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
        """Return a column of `rows` with flags: which rows have it."""
        return self.rows[column].to_numpy()

    def count(self, where: Bools) -> int:
        """Return how many segments some rows have."""
        return int(self.rows["segments"].to_numpy()[where].sum())

    def sum(self, what: str, where: Bools) -> float:
        """Return how many `segments`, `hours` or `words` some rows have."""
        column, unit = _UNITS[what]
        return float(self.rows[column].to_numpy()[where].sum() / unit)

    def amounts(self, what: str, where: Bools) -> Values:
        """Return what segments of some rows count for by `segments`, `hours` or `words`."""
        column, unit = _UNITS[what]
        sums, counts, largest = (
            self.rows[column + ending].to_numpy() for ending in ("", "_counted", "_largest")
        )
        return Values(sums / unit, counts, largest / unit).within(where)

    @cached_property
    def label(self) -> NDArray[np.int8]:
        """The verdict on what each segment is now: its place among right, wrong, unsure.

        Rows without a verdict have -1.
        """
        verdicts = self.rows.select("key").join(
            self.labels, on="key", how="left", maintain_order="left"
        )["verdict"]
        return verdicts.to_physical().cast(pl.Int8).fill_null(-1).to_numpy()

    def labelled(self, *words: str) -> Bools:
        """Return which rows have one of these verdicts as they are now."""
        return np.isin(self.label, [VERDICTS.index(word) for word in words])

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
        """Which segments were reached in a round, or judged although no round could draw them."""
        reached = np.zeros(len(self.rows), dtype=np.bool_)
        reached[self.draws.item] = True
        reached[self.draws.outside] = True
        return reached & self.flags("is_there")

    @cached_property
    def _frames(self) -> list[StoredFrame]:
        """What the usable rounds could draw."""
        records = {draw.name: draw.record for draw in all_draws(self)}
        frames = []
        for round_ in self.usable:
            table = frame_table(round_.draw)
            record = records[round_.draw]
            frames.append(
                StoredFrame(
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
        """The columns whose groups rounds have fixed, with the place of the first draw by them."""
        first_draws: dict[str, int] = {}
        for frame in sorted(self._frames, key=lambda frame: frame.place):
            if frame.by:
                first_draws.setdefault(frame.by, frame.place)
        return first_draws

    def _strata(self, table: str) -> pl.DataFrame:
        """Return the strata of a frame, see `StoredFrame`."""
        by_stratum = workspace_tables.scan(self.workspace, table=table).group_by("stratum")
        facts = by_stratum.agg(pl.col("weight", "rate").first(), size=pl.len())
        return facts.collect(**STREAMED).sort("stratum").with_row_index("number")

    @cached_property
    def draw_order(self) -> Ints:
        """The place of the draw of each usable round in the order of all draws ever made."""
        return np.array([frame.place for frame in self._frames], dtype=np.int64)

    @cached_property
    def lines(self) -> Ints:
        """The line of the verdict log that reached each draw, or a draw before it."""
        return self._drawn["line"].cum_max().to_numpy()

    @property
    def drawn_ids(self) -> pl.Series:
        """The segment, or its tombstone, of each draw."""
        return self._drawn["segment_id"]

    @cached_property
    def draws(self) -> Draws:
        """The draws of all rounds."""
        drawn = self._drawn
        frames = tuple(self._frame(number) for number in range(len(self._frames)))
        row_of = self.rows.select("key").with_row_index("row").drop_nulls()
        keys = drawn.select(key=pl.col("segment_id").hash())
        rows = keys.join(row_of, on="key", how="left", maintain_order="left")["row"]
        item = rows.to_numpy().astype(np.int64)
        number = drawn["round"].to_numpy().astype(np.int64)
        is_wrong, is_unsure = (
            drawn["verdict"].eq_missing(name).to_numpy() for name in ("wrong", "unsure")
        )
        valid = np.zeros(len(item), dtype=np.bool_)
        for place, frame in enumerate(frames):
            valid[number == place] = frame.valid[item[number == place]]
        nothing = np.zeros(0, dtype=np.int64)
        draws = Draws(
            frames,
            round=number,
            item=item,
            wrong=is_wrong,
            unsure=is_unsure,
            replaced=~valid & (self.flags("is_there")[item] | is_wrong | is_unsure),
            first=drawn["segment_id"].is_first_distinct().to_numpy(),
            outside=nothing,
            outside_wrong=nothing.astype(np.bool_),
            outside_unsure=nothing.astype(np.bool_),
        )
        return judged_apart(draws, frames, self.label)

    def _frame(self, number: int) -> Frame:
        """Return what a round could draw, by row."""
        strata = self._frames[number].strata
        weights = np.maximum(strata["weight"].to_numpy(), 1e-300)
        return Frame(
            self.rows[f"stratum_frame_{number}"].fill_null(-1).to_numpy(),
            self.flags(f"valid_frame_{number}"),
            strata["size"].to_numpy().astype(float),
            weights / weights.sum(),
            None if strata["rate"].has_nulls() else strata["rate"].to_numpy(),
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
        """Return what the draws say about the segments that a threshold kept when it was fixed.

        The first round that could draw a segment fixes its similarity. Segments without one are
        kept too. Claims about it count segments only.

        Args:
            place: of the threshold among `Kinds.cuts`.
            has_duration: take only segments that had a duration that was selected.
        """
        is_kept = self.flags("fixed_cut") > place
        if has_duration:
            is_kept = is_kept & self.flags("fixed_has_duration")
        fixed_draw = self.rows["fixed_draw"].fill_null(NEVER).to_numpy()
        nothing = np.zeros(len(fixed_draw))
        first_draw = np.where(is_kept, fixed_draw, NEVER)
        rule = RuleSegments(1, first_draw, self.flags("is_there"), nothing, nothing)
        return self.about(rule)

    def about(self, rule: RuleSegments) -> RuleDraws:
        """Return what the draws say about the segments of a rule."""
        return draws_about(rule, self.draws, order=self.draw_order, label=self.label)

    @cached_property
    def _drawn(self) -> pl.DataFrame:
        """The rows of all rounds that were reached, in the order in which they were drawn.

        A segment of several rounds is in each of them. The order in which sheets return counts for
        nothing: somebody may look into them and import those without a fault first.
        """
        parts = [pl.DataFrame(schema=_DRAWN)]
        for number, (round_, frame) in enumerate(zip(self.usable, self._frames, strict=True)):
            rows = self._with_strata(round_.rows, frame)
            rows = _with_withdrawn_faults(rows, self._withdrawn_faults(frame.table))
            rows = rows.with_columns(rank=pl.int_range(1, pl.len() + 1).over("stratum"))
            rows = rows.with_columns(line=_counted_lines(), round=pl.lit(number)).drop_nulls("line")
            parts.append(rows.select(pl.col(name).cast(dtype) for name, dtype in _DRAWN.items()))
        return pl.concat(parts)

    def _with_strata(self, rows: pl.DataFrame, frame: StoredFrame) -> pl.DataFrame:
        """Return rows of a draw with `stratum` and its `size`, null where the frame has them not.

        Of segments that were withdrawn since, the frame has the tombstones, which replace the ids.
        """
        ids = rows["segment_id"]
        tombstones = pl.Series([tombstone("segment", key) for key in ids], dtype=pl.String)
        wanted = pl.concat([ids, tombstones])
        in_frame = (
            workspace_tables.scan(self.workspace, ("segment_id", "stratum"), table=frame.table)
            .filter(pl.col("segment_id").is_in(wanted.implode()))
            .collect(**STREAMED)
            .join(frame.strata.select("stratum", "number", "size"), on="stratum")
            .select("segment_id", stratum="number", size=pl.col("size").cast(pl.Int64))
        )
        is_gone = ~ids.is_in(in_frame["segment_id"].implode())
        rows = rows.with_columns(segment_id=ids.zip_with(~is_gone, tombstones))
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
    """Return the line that reached each row of a draw, null for rows that do not count.

    Once a stratum is used up, the others are drawn more often: then rows count if all before them
    were reached. Needs the columns `line`, `rank` in the stratum and `size` of the stratum.
    """
    is_last = (pl.col("rank") >= pl.col("size")).fill_null(value=False)
    late = is_last.cum_max().shift(1, fill_value=False)
    missing = pl.col("line").is_null().cum_max()
    return pl.when(~late).then("line").when(~missing).then(pl.col("line").cum_max())


def _with_withdrawn_faults(rows: pl.DataFrame, faulty: pl.Series) -> pl.DataFrame:
    """Return rows of a draw with the faults among those that were withdrawn since.

    Their verdicts are gone from the log, where they may have been the last ones of a sheet.
    """
    is_faulty = pl.col("segment_id").is_in(faulty.implode())
    line_before = pl.col("line").forward_fill().fill_null(0)
    return rows.with_columns(
        verdict=pl.when(is_faulty).then(pl.lit("wrong", OUTCOMES)).otherwise("verdict"),
        line=pl.when(is_faulty).then(pl.coalesce("line", line_before)).otherwise("line"),
    )
