"""The segments of a workspace as a population, and its reviews as draws from it, in the order in which reviewers reached them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from nbaudio.core import tables
from nbaudio.core.tables import LEFT_OUT, table_path, with_durations
from nbaudio.core.tombstones import tombstone
from nbaudio.proof.betting import Array, Bools, Draws, Frame, Ints
from nbaudio.review.corrections import uncorrected
from nbaudio.review.risk import frozen
from nbaudio.review.rounds import JUDGED, Round, current_labels, rounds
from nbaudio.review.sampling import reviewable_segments
from nbaudio.review.state import ReviewState, frame_contents, frame_table

_NEEDED = (*JUDGED, "speaker_id", "source_channel", "similarity", "risk", "split", "decision", "reason")


@dataclass(frozen=True)
class ProofState(ReviewState):
    """Review state with the segments and the draws, computed once; arrays are aligned with `segments`."""

    @cached_property
    def segments(self) -> pl.DataFrame:
        """The segments, one per id, with `seconds`, `words`, and `label`: the verdict on what they are."""
        table = tables.read(self.workspace, _NEEDED)
        labels = current_labels(self, table).select("segment_id", label="verdict")
        first = uncorrected(self, table).unique("segment_id", keep="first", maintain_order=True)
        words = pl.col("text").str.count_matches(r"\S+").fill_null(0)
        found = with_durations(first, self.workspace.recordings).rename({"duration_s": "seconds"})
        found = found.with_columns(pl.col("seconds").fill_null(0.0), pl.col("similarity").fill_nan(None), words=words)
        return found.join(labels, on="segment_id", how="left", maintain_order="left")

    @cached_property
    def rounds(self) -> list[Round]:
        """The reviews that were drawn at random."""
        return rounds(self, self.segments)

    @cached_property
    def pool(self) -> pl.DataFrame:
        """The segments that can be reviewed."""
        return reviewable_segments(self.workspace, self.segments.drop("asr_text", "sampling_rate"))[0]

    @cached_property
    def amounts(self) -> dict[str, pl.Series]:
        """What a segment counts for, by measure."""
        hours, words = pl.col("seconds") / 3600, pl.col("words").cast(pl.Float64)
        return self.segments.select(segments=pl.repeat(1.0, pl.len()), hours=hours, words=words).to_dict()

    @cached_property
    def reviewable(self) -> Bools:
        """Which segments can be reviewed."""
        return self._where(pl.col("segment_id").is_in(self.pool["segment_id"].implode()))

    @cached_property
    def accepted(self) -> Bools:
        """Which segments the last `select` keeps."""
        return self._where(pl.col("decision") == "accept")

    @cached_property
    def left_out(self) -> pl.DataFrame:
        """`segment_id` and `split` of what `select` leaves out only as it was reviewed, or rejected by hand (null)."""
        if not table_path(self.workspace, LEFT_OUT).exists():  # nothing is selected yet
            return pl.DataFrame(schema={"segment_id": pl.String, "split": pl.String})
        rejected = self.segments.filter(pl.col("decision") == "reject").select("segment_id", "reason")
        kept = self.workspace.table(LEFT_OUT).join(rejected, on=["segment_id", "reason"], how="semi")
        return kept.select("segment_id", "split")

    @cached_property
    def usable(self) -> list[Round]:
        """The rounds whose draws count: those with a stored frame, after a frozen `risk` if there is one."""
        known = frozen(self.workspace).get("reviews", [])
        return [one for one in self.rounds if one.name in self._frames and one.name not in known]

    @cached_property
    def _frames(self) -> dict[str, pl.DataFrame]:
        """What each round could draw, if stored: `segment_id`, `stratum`, its `weight` and `size`, and `content`."""
        stored = {one.name: frame_table(one.name) for one in self.rounds}
        there = {name: table for name, table in stored.items() if table_path(self.workspace, table).exists()}
        return {name: self.workspace.table(table).with_columns(size=pl.len().over("stratum")) for name, table in there.items()}

    @cached_property
    def lines(self) -> Ints:
        """The line of the verdict log that reached each draw."""
        return self._drawn["line"].to_numpy()

    @cached_property
    def draws(self) -> Draws:
        """The draws of all rounds; what is not in `segments` any more follows them in the population."""
        own = self.segments["segment_id"]
        drawn = self._drawn
        frames = (self._frames[one.name]["segment_id"] for one in self.usable)
        ids = pl.concat([own, *frames, drawn["segment_id"]]).unique(maintain_order=True)
        contents = pl.DataFrame({"segment_id": own, "now": frame_contents(self.segments)})
        places = pl.DataFrame({"segment_id": ids}).with_row_index("place")
        places = places.join(contents, on="segment_id", how="left", maintain_order="left")
        drawn = drawn.join(places, on="segment_id", how="left", maintain_order="left")
        item, number = (drawn[name].to_numpy().astype(np.int64) for name in ("place", "round"))
        found = tuple(self._frame(one, places) for one in self.usable)
        valid = np.array([found[which].valid[place] for which, place in zip(number, item, strict=True)], dtype=bool)
        wrong, unsure = (drawn["verdict"].eq_missing(name).to_numpy() for name in ("wrong", "unsure"))
        in_no_frame = ~np.any([np.zeros(len(ids), dtype=bool), *(frame.valid for frame in found)], axis=0)
        known = np.flatnonzero(self.segments["label"].is_not_null().to_numpy() & in_no_frame[: len(own)])
        label = self.segments["label"].gather(known)
        return Draws(
            found,
            round=number,
            item=item,
            wrong=wrong,
            unsure=unsure,
            replaced=~valid & ((item < len(own)) | wrong | unsure),
            first=drawn["segment_id"].is_first_distinct().to_numpy(),
            known=known,
            known_wrong=label.eq("wrong").to_numpy(),
            known_unsure=label.eq("unsure").to_numpy(),
        )

    @cached_property
    def judged(self) -> Bools:
        """Which segments reviewers reached in a round, or judged although no round could draw them."""
        found = np.zeros(len(self.segments), dtype=bool)
        places = np.concatenate([self.draws.item, self.draws.known])
        found[places[places < len(found)]] = True
        return found

    def value(self, amounts: pl.Series, where: Bools, *, upper: bool) -> Array:
        """Return an amount by item of the population, 0 elsewhere; in upper bounds, replaced items that are gone are average."""
        replaced = self.draws.is_replaced
        found = np.zeros(max(len(replaced), len(where)))
        found[: len(where)] = np.where(where, amounts.to_numpy(), 0.0)
        if upper and where.any():
            found[len(where) :] = np.where(replaced[len(where) :], found.sum() / where.sum(), 0.0)
        return found

    def labelled(self, *words: str) -> Bools:
        """Return which segments have one of these verdicts as they are now."""
        found: Bools = np.any([self._by_label[word] for word in words], axis=0)
        return found

    @cached_property
    def _by_label(self) -> dict[str, Bools]:
        return {word: self._where(pl.col("label") == word) for word in ("right", "wrong", "unsure")}

    def _where(self, condition: pl.Expr) -> Bools:
        return self.segments.select(condition.fill_null(value=False)).to_series().to_numpy()

    @cached_property
    def _drawn(self) -> pl.DataFrame:
        """The rows of all rounds that were reached, in that order; a segment of several rounds is in each of them."""
        schema = {"line": pl.Int64, "round": pl.Int32, "segment_id": pl.String, "verdict": pl.String}
        parts = [pl.DataFrame(schema=schema)]
        for number, one in enumerate(self.usable):
            held = self._frames[one.name].select("segment_id", "stratum", "size")
            gone = one.rows.join(held, on="segment_id", how="anti")["segment_id"]
            rows = one.rows.with_columns(pl.col("segment_id").replace({key: tombstone("segment", key) for key in gone}))
            rows = rows.join(held, on="segment_id", how="left", maintain_order="left")
            rows = rows.with_columns(rank=pl.int_range(1, pl.len() + 1).over("stratum"))
            # Once a stratum is used up, the others are drawn more often: then rows count if all before them were reached.
            late = (pl.col("rank") >= pl.col("size")).fill_null(value=False).cum_max().shift(1, fill_value=False)
            missing = pl.col("line").is_null().cum_max()
            line = pl.when(~late).then("line").when(~missing).then(pl.col("line").cum_max())
            rows = rows.with_columns(line=line, round=pl.lit(number)).drop_nulls("line")
            parts.append(rows.select(pl.col(name).cast(dtype) for name, dtype in schema.items()))
        return pl.concat(parts).sort("line", "round", maintain_order=True)

    def _frame(self, one: Round, places: pl.DataFrame) -> Frame:
        """Return what a round could draw; `places` has the population in order, and the contents that it has `now`."""
        held = self._frames[one.name]
        held = held if "rate" in held.columns else held.with_columns(rate=pl.lit(None, pl.Float64))
        strata = held.group_by("stratum").agg(pl.col("weight", "rate").first()).sort("stratum").with_row_index("number")
        held = held.join(strata.select("stratum", "number"), on="stratum", how="left")
        held = places.join(held, on="segment_id", how="left", maintain_order="left")
        same = (pl.col("content") == pl.col("now")) & ~pl.col("segment_id").is_in(self.later(one.corpus).implode())
        weights = np.maximum(strata["weight"].to_numpy(), 1e-300)
        valid = held.select(same.fill_null(value=False)).to_series().to_numpy()
        rates = None if strata["rate"].has_nulls() else strata["rate"].to_numpy()
        return Frame(held["number"].cast(pl.Int64).fill_null(-1).to_numpy(), valid, weights / weights.sum(), rates)
