"""The segments of a workspace as a population, and its reviews as draws from it.

The draws are in the order in which they were made, as far as reviewers have reached them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.proof.betting import Bools, Draws, Frame, Ints, Values
from nbaudio.proof.fixed_scores import FixedScores, fixed_scores
from nbaudio.proof.rule_segments import (
    LABELS,
    RuleDraws,
    RuleSegments,
    all_segments,
    draws_about,
    read_rule,
)
from nbaudio.review.draws import all_draws, has_frame
from nbaudio.review.fixed_rules import FixedRule, fixed_rules
from nbaudio.review.population import Population
from nbaudio.review.rounds import JUDGED, Round, current_labels, rounds
from nbaudio.review.state import WAS_FAULTY, ReviewState, frame_contents, frame_table
from nbaudio.tables import workspace_tables
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.tombstones import tombstone


@dataclass(frozen=True)
class _StoredFrame:
    """What a round could draw."""

    frame: Frame  # of the segments that are there
    removed: dict[int, int]  # the strata of further ids, by their hashes
    faulty: pl.Series  # those of them that were withdrawn, and were wrong or unsure


@dataclass(frozen=True)
class ProofState(ReviewState):
    """Review state with the segments and the draws, computed once.

    Arrays are aligned with the population.
    """

    @cached_property
    def population(self) -> Population:
        """The segments, one per id."""
        return Population(self)

    @cached_property
    def label(self) -> NDArray[np.int8]:
        """The verdict on what each segment is now: its place among right, wrong, unsure.

        Segments without a verdict have -1.
        """
        judged = self.verdicts["segment_id"]
        held = workspace_tables.read(
            self.workspace, JUDGED, where=pl.col("segment_id").is_in(judged.implode())
        )
        labels = current_labels(self, held)
        found = np.full(len(self.population), -1, dtype=np.int8)
        places = self.population.places(labels["segment_id"])
        number = (
            labels["verdict"]
            .replace_strict(LABELS, range(len(LABELS)), return_dtype=pl.Int8)
            .to_numpy()
        )
        found[places[places >= 0]] = number[places >= 0]
        return found

    @cached_property
    def rounds(self) -> list[Round]:
        """The reviews that were drawn at random."""
        return rounds(self, self.population.read(self.drawn["segment_id"]))

    def amounts(self, what: str, where: Bools) -> Values:
        """Return what each segment counts for by `segments`, `hours` or `words`.

        Segments outside of the part `where` count for 0.
        """
        if what == "segments":
            return Values(np.broadcast_to(1.0, len(where)), where)
        numbers = self.population.numbers
        return (
            Values(numbers["words"], where)
            if what == "words"
            else Values(numbers["seconds"], where, divisor=3600.0)
        )

    @property
    def accepted(self) -> Bools:
        """Which segments the last `select` keeps."""
        return self.population.accepted

    @property
    def left_out(self) -> pl.DataFrame:
        """See `Population.left_out`."""
        return self.population.left_out

    @cached_property
    def usable(self) -> list[Round]:
        """The rounds whose draws count: those with a stored frame."""
        return [one for one in self.rounds if one.draw in self._frames]

    @cached_property
    def _frames(self) -> dict[str, _StoredFrame]:
        """What each draw could take, if stored."""
        there = [one for one in self.rounds if has_frame(self, one.draw)]
        if not there:
            return {}
        contents = self.population.arrays(
            (), lambda rows: frame_contents(rows).to_frame("content")
        )["content"]
        places_of = self.population.index()
        return {one.draw: self._stored_frame(one, contents, places_of) for one in there}

    def _stored_frame(
        self, one: Round, contents: NDArray[np.uint64], places_of: Callable[[pl.Series], Ints]
    ) -> _StoredFrame:
        size = len(self.population)
        table = frame_table(one.draw)
        strata = self._strata_of_frame(table)
        numbers = strata.select("stratum").with_row_index("number")
        weights = np.maximum(strata["weight"].to_numpy(), 1e-300)
        rates = None if strata["rate"].has_nulls() else strata["rate"].to_numpy()
        smallest = np.min_scalar_type(-len(strata) - 1)
        found = Frame(
            np.full(size, -1, dtype=smallest),
            np.zeros(size, dtype=np.bool_),
            weights / weights.sum(),
            rates,
        )
        others: dict[int, int] = {}
        for batch in workspace_tables.read_batches(
            self.workspace, table, ("segment_id", "stratum", "content")
        ):
            places = places_of(batch["segment_id"])
            number = batch.join(numbers, on="stratum", how="left", maintain_order="left")[
                "number"
            ].to_numpy()
            inside = places >= 0
            gone = places < 0
            found.stratum[places[inside]] = number[inside]
            found.valid[places[inside]] = (
                contents[places[inside]] == batch["content"].fill_null(0).to_numpy()[inside]
            )
            others |= zip(
                batch["segment_id"].filter(pl.Series(gone)).hash().to_list(),
                number[gone].tolist(),
                strict=True,
            )
        found.valid[self.population.mask(self.later(one.corpus))] = False
        return _StoredFrame(found, others, self._withdrawn_faults(table))

    def _strata_of_frame(self, table: str) -> pl.DataFrame:
        """Return the strata of a frame with their weight and rate, in order of their names."""
        by_stratum = workspace_tables.scan(self.workspace, table=table).group_by("stratum")
        return by_stratum.agg(pl.col("weight", "rate").first()).collect(**STREAMED).sort("stratum")

    def _withdrawn_faults(self, table: str) -> pl.Series:
        """Return the withdrawn segments of a frame that were wrong or unsure, as tombstones."""
        if WAS_FAULTY not in workspace_tables.table_schema(self.workspace, table):
            return pl.Series("segment_id", [], dtype=pl.String)
        rows = workspace_tables.scan(self.workspace, ["segment_id", WAS_FAULTY], table=table)
        faulty = rows.filter(pl.col(WAS_FAULTY).fill_null(value=False))
        return faulty.select("segment_id").collect(**STREAMED).to_series()

    @cached_property
    def lines(self) -> Ints:
        """The line of the verdict log that reached each draw, or a draw before it."""
        return self._drawn["line"].cum_max().to_numpy()

    @cached_property
    def draws(self) -> Draws:
        """The draws of all rounds; items that are no segments any more follow the segments."""
        drawn = self._drawn
        size = len(self.population)
        stored = [self._frames[one.draw] for one in self.usable]
        places = self.population.places(drawn["segment_id"])
        keys = drawn["segment_id"].hash()
        further = self.further
        at = (
            place if place >= 0 else further[key]
            for place, key in zip(places.tolist(), keys, strict=True)
        )
        item = np.fromiter(at, np.int64)
        number = drawn["round"].to_numpy().astype(np.int64)
        found = tuple(_with_further(one, further) for one in stored)
        valid = np.array(
            [found[which].valid[place] for which, place in zip(number, item, strict=True)],
            dtype=bool,
        )
        wrong, unsure = (
            drawn["verdict"].eq_missing(name).to_numpy() for name in ("wrong", "unsure")
        )
        in_no_frame = ~np.any(
            [np.zeros(size + len(further), dtype=bool), *(frame.valid for frame in found)], axis=0
        )
        known = np.flatnonzero((self.label >= 0) & in_no_frame[:size])
        return Draws(
            found,
            round=number,
            item=item,
            wrong=wrong,
            unsure=unsure,
            replaced=~valid & ((item < size) | wrong | unsure),
            first=drawn["segment_id"].is_first_distinct().to_numpy(),
            known=known,
            known_wrong=self.label[known] == LABELS.index("wrong"),
            known_unsure=self.label[known] == LABELS.index("unsure"),
        )

    @cached_property
    def further(self) -> dict[int, int]:
        """The places of items that are no segments any more, by the hashes of their ids.

        They are behind those of the segments.
        """
        stored = [self._frames[one.draw] for one in self.usable]
        drawn = self._drawn["segment_id"]
        is_gone = pl.Series(self.population.places(drawn) < 0, dtype=pl.Boolean)
        keys = (*(key for each in stored for key in each.removed), *drawn.hash().filter(is_gone))
        return dict(zip(dict.fromkeys(keys), count(len(self.population))))

    @cached_property
    def draw_order(self) -> Ints:
        """The place of the draw of each usable round in the order of all draws ever made."""
        place = {draw.name: len(draw.record.after) for draw in all_draws(self)}
        return np.array([place[one.draw] for one in self.usable], dtype=np.int64)

    @cached_property
    def rules(self) -> list[FixedRule]:
        """The rules that rounds have fixed, in their order."""
        return fixed_rules(self)

    def about_rule(self, rule: FixedRule, split: str | None = None) -> RuleDraws:
        """Return what the draws say about a rule, or about what it gives to a split.

        It takes some bytes for each segment, and is not kept.
        """
        places_of = self.population.index()
        return self.about(read_rule(self.population, rule, places_of, split=split))

    def about_all_segments(self) -> RuleDraws:
        """Return what the draws say about all segments that a round could draw."""
        return self.about(all_segments(self.population, self.draws.frames, self.further))

    @cached_property
    def fixed_scores(self) -> FixedScores:
        """The similarity that each segment had in the first frame that has it.

        It takes 13 bytes for each segment.
        """
        order = np.argsort(self.draw_order, kind="stable")
        frames = [(frame_table(self.usable[k].draw), int(self.draw_order[k])) for k in order]
        return fixed_scores(self.population, frames)

    def about(self, rule: RuleSegments) -> RuleDraws:
        """Return what the draws say about the segments of a rule."""
        return draws_about(
            rule, self.draws, order=self.draw_order, label=self.label, further=self.further
        )

    @cached_property
    def judged(self) -> Bools:
        """Which segments were reached in a round, or judged although no round could draw them."""
        found = np.zeros(len(self.population), dtype=bool)
        places = np.concatenate([self.draws.item, self.draws.known])
        found[places[places < len(found)]] = True
        return found

    def value(self, what: str, where: Bools, *, upper: bool) -> Values:
        """Return `amounts` of all items of the draws.

        Items that were replaced and are gone count for the average in upper bounds, else for 0.
        """
        found = self.amounts(what, where)
        replaced = self.draws.is_replaced[len(where) :]
        average = found.total / where.sum() if upper and where.any() else 0.0
        return replace(found, further=replaced * average)

    def labelled(self, *words: str) -> Bools:
        """Return which segments have one of these verdicts as they are now."""
        return np.isin(self.label, [LABELS.index(word) for word in words])

    @cached_property
    def _drawn(self) -> pl.DataFrame:
        """The rows of all rounds that were reached, in the order in which they were drawn.

        A segment of several rounds is in each of them. The order in which sheets return counts for
        nothing: somebody may look into them and import those without a fault first.
        """
        schema = {
            "line": pl.Int64,
            "round": pl.Int32,
            "segment_id": pl.String,
            "verdict": pl.String,
        }
        parts = [pl.DataFrame(schema=schema)]
        for number, one in enumerate(self.usable):
            stored = self._frames[one.draw]
            rows = one.rows
            rows = rows.with_columns(stratum=self._strata(stored, rows["segment_id"]))
            if gone := rows.filter(pl.col("stratum").is_null())["segment_id"].to_list():
                rows = rows.with_columns(
                    pl.col("segment_id").replace({key: tombstone("segment", key) for key in gone})
                )
                rows = rows.with_columns(stratum=self._strata(stored, rows["segment_id"]))
            rows = _with_withdrawn_faults(rows, stored.faulty)
            sizes = pl.Series(_with_further(stored, stored.removed).sizes).cast(pl.Int64)
            rows = rows.with_columns(
                size=sizes.gather(rows["stratum"]),
                rank=pl.int_range(1, pl.len() + 1).over("stratum"),
            )
            rows = rows.with_columns(line=_counted_lines(), round=pl.lit(number)).drop_nulls("line")
            parts.append(rows.select(pl.col(name).cast(dtype) for name, dtype in schema.items()))
        return pl.concat(parts)

    def _strata(self, stored: _StoredFrame, segment_ids: pl.Series) -> pl.Series:
        """Return the number of the stratum of each id, null where it could not be drawn."""
        places = self.population.places(segment_ids).tolist()
        keys = segment_ids.hash()
        numbers = (
            stored.frame.stratum[place] if place >= 0 else stored.removed.get(key, -1)
            for place, key in zip(places, keys, strict=True)
        )
        return pl.Series(
            [int(number) if number >= 0 else None for number in numbers], dtype=pl.UInt32
        )


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
        verdict=pl.when(is_faulty).then(pl.lit("wrong")).otherwise("verdict"),
        line=pl.when(is_faulty).then(pl.coalesce("line", line_before)).otherwise("line"),
    )


def _with_further(stored: _StoredFrame, further: Mapping[int, int]) -> Frame:
    """Return a frame of the segments and of `further` items, given by the hashes of their ids."""
    frame = stored.frame
    if not further:
        return frame
    strata = np.array([stored.removed.get(key, -1) for key in further], frame.stratum.dtype)
    valid = np.zeros(len(further), dtype=np.bool_)
    return replace(
        frame, stratum=np.append(frame.stratum, strata), valid=np.append(frame.valid, valid)
    )
