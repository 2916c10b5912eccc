"""The segments of a workspace as a population, and its reviews as draws from it, in the order in which reviewers reached them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from nbaudio.core import tables
from nbaudio.core.tables import LEFT_OUT, table_path, with_durations
from nbaudio.proof.betting import Array, Bools, Draws, Frame, Ints
from nbaudio.review.corrections import uncorrected
from nbaudio.review.rounds import JUDGED, Round, current_labels, rounds
from nbaudio.review.sampling import reviewable_segments
from nbaudio.review.state import ReviewState, frame_contents, read_frame

_NEEDED = (*JUDGED, "speaker_id", "source_channel", "similarity", "split", "decision", "reason")
_RANDOM = "random"


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
        found, _ = reviewable_segments(self.workspace, self.segments.drop("asr_text", "sampling_rate"))
        return found.join(self.growth.select("segment_id", "added_in"), on="segment_id", how="left", maintain_order="left")

    @cached_property
    def amounts(self) -> dict[str, pl.Series]:
        """What a segment counts for, by measure."""
        hours = self.segments["seconds"] / 3600
        return {
            "segments": pl.Series([1.0]).new_from_index(0, len(hours)),
            "hours": hours,
            "words": self.segments["words"].cast(pl.Float64),
        }

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
        rejected = self.segments.filter(pl.col("decision") == "reject").select("segment_id", "reason")
        if not table_path(self.workspace, LEFT_OUT).exists():
            # A selection of an earlier version, whose budget did not tell which reviewed segments would be in.
            known = pl.lit(not rejected["reason"].eq_missing("over_budget").any())
            return rejected.filter(known, reason="reviewed").select("segment_id", split=pl.lit("train"))
        kept = self.workspace.table(LEFT_OUT).join(rejected, on=["segment_id", "reason"], how="semi")
        return kept.select("segment_id", "split")

    @cached_property
    def usable(self) -> list[Round]:
        """The rounds whose draws count: those with a stored frame, and random ones of segments that are known."""
        return [
            one for one in self.rounds if one.name in self._frames or (one.strategy == _RANDOM and one.generation is not None)
        ]

    @cached_property
    def _frames(self) -> dict[str, pl.DataFrame]:
        found = {one.name: read_frame(self.workspace, one.name) for one in self.rounds}
        return {name: frame for name, frame in found.items() if frame is not None}

    @cached_property
    def lines(self) -> Ints:
        """The line of the verdict log that reached each draw."""
        return self._drawn["line"].to_numpy()

    @cached_property
    def draws(self) -> Draws:
        """The draws of all rounds; what is not in `segments` any more follows them in the population."""
        own = self.segments["segment_id"]
        gone = [frame["segment_id"] for frame in self._frames.values()]
        ids = pl.concat([own, *gone]).unique(maintain_order=True)
        places = pl.DataFrame({"segment_id": ids}).with_row_index("place")
        frames = tuple(self._frame(one, places) for one in self.usable)
        drawn = self._drawn.join(places, on="segment_id", how="left", maintain_order="left")
        item = drawn["place"].to_numpy().astype(np.int64)
        label = self.segments["label"].to_list() + [None] * (len(ids) - len(own))
        in_frame = np.any([frame.valid for frame in frames], axis=0) if frames else np.zeros(len(ids), dtype=bool)
        known = np.array([place for place, word in enumerate(label) if word and not in_frame[place]], dtype=np.int64)
        words = np.array([label[place] for place in known], dtype=object)
        return Draws(
            frames,
            round=drawn["round"].to_numpy().astype(np.int64),
            item=item,
            wrong=(drawn["verdict"] == "wrong").to_numpy(),
            unsure=(drawn["verdict"] == "unsure").to_numpy(),
            known=known,
            known_wrong=words == "wrong",
            known_unsure=words == "unsure",
        )

    def value(self, amounts: pl.Series, where: Bools) -> Array:
        """Return an amount by item of the population, 0 elsewhere."""
        found = np.zeros(len(self.draws.frames[0].stratum) if self.draws.frames else len(self.segments))
        found[: len(where)] = np.where(where, amounts.to_numpy(), 0.0)
        return found

    def labelled(self, *words: str) -> Bools:
        """Return which segments have one of these verdicts as they are now."""
        return self._where(pl.col("label").is_in(words))

    def _where(self, condition: pl.Expr) -> Bools:
        found: Bools = self.segments.select(condition.fill_null(value=False)).to_series().to_numpy()
        return found

    @cached_property
    def _drawn(self) -> pl.DataFrame:
        parts = [one.rows.with_columns(round=pl.lit(number)).with_row_index("row") for number, one in enumerate(self.usable)]
        schema = {"line": pl.Int64, "round": pl.Int32, "segment_id": pl.String, "verdict": pl.String, "row": pl.UInt32}
        reached = pl.concat(
            [
                pl.DataFrame(schema=schema),
                *(part.select(pl.col(name).cast(dtype) for name, dtype in schema.items()) for part in parts),
            ]
        )
        reached = reached.filter(pl.col("line").is_not_null()).sort("line", "round", "row")
        return reached.unique("segment_id", keep="first", maintain_order=True)

    def _frame(self, one: Round, places: pl.DataFrame) -> Frame:
        """Return what a round could draw; of an earlier version's random review, all that was there and could be reviewed."""
        frame = self._frames.get(one.name)
        content = pl.DataFrame({"segment_id": self.segments["segment_id"], "now": frame_contents(self.segments)})
        if frame is None:
            there = ~pl.col("recording_id").is_in(list(one.missing)) & (pl.col("added_in").fill_null(1) <= one.generation)
            there |= pl.col("segment_id").is_in(one.rows["segment_id"].implode())
            frame = self.pool.filter(there).select("segment_id", stratum=pl.lit("all"), weight=pl.lit(1.0))
            frame = frame.join(content.rename({"now": "content"}), on="segment_id", how="left")
        strata = frame.group_by("stratum").agg(pl.col("weight").first()).sort("stratum").with_row_index("number")
        held = frame.join(strata.select("stratum", "number"), on="stratum", how="left")
        held = places.join(held, on="segment_id", how="left", maintain_order="left").join(
            content, on="segment_id", how="left", maintain_order="left"
        )
        same = (pl.col("content") == pl.col("now")) & ~pl.col("segment_id").is_in(self.later(one.corpus).implode())
        weights = np.maximum(strata["weight"].to_numpy(), 1e-300)
        valid = held.select(same.fill_null(value=False)).to_series().to_numpy()
        return Frame(held["number"].cast(pl.Int64).fill_null(-1).to_numpy(), valid, weights)
