"""From rounds of review to a weight for every judged segment.

What is estimated is a total E, the number of wrong segments. Round k draws segment i with probability p[k,i], given what came
before, from what no earlier round has given away. Known errors plus the Horvitz-Thompson sum over the round,

    E[k] = sum of e[i] over the segments of earlier rounds + sum of e[i] / p[k,i] over those of round k,

is therefore unbiased whatever was learnt from earlier verdicts (Des Raj, JASA 51, 1956, 269-284, for draws one by one), and so is
every mixture of the rounds whose proportions do not depend on verdicts. They may differ from segment to segment: here
l[k,i] = q[k,i] / sum over k of q[k,i], where q[k,i] is the probability that the strategy of round k gives the segment in a first
round, without any verdict. The weight of a segment that round k drew is then

    w[i] = l[k,i] / p[k,i] + sum over the rounds j after k of l[j,i],

near 1 / sum of q[k,i]: as if each segment had been drawn with its probabilities added up.

Where reviewers have come to a share r[k] of the rows only, p and q are r[k] times as large, and segments that stand for those of
round k in later rounds count 1 / r[k] (every beginning of a sheet is a random part of it; see `review.sampling`). Where no
row has been reached, what that round took away from later ones is made up for by 1 - q[k,i], which is exact unless
the strategy had learnt.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nbaudio.review.rounds import Round
from nbaudio.review.sampling import inclusion_probabilities

_LEAST_LEFT = 0.1


@dataclass(frozen=True)
class Sample:
    """What is known of a corpus from its reviews.

    Attributes:
        population: every segment: `segment_id`, `similarity` (null: kept by every threshold), `hours`, and `rate`: how many
            times it could be expected among the judged ones; 0 where no round could have drawn it.
        judged: `segment_id`, `similarity`, `verdict` (right, wrong, unsure), `weight` (how many segments it stands for), `cell`
            (round and stratum that drew it) and `cell_size` (how many were judged there: fixed by the design).
    """

    population: pl.DataFrame
    judged: pl.DataFrame

    def where(self, kept: pl.Expr) -> "Sample":
        """The part of the population for which an expression holds, and what of it was judged; the weights stay."""
        population = self.population.filter(kept)
        return Sample(population, self.judged.join(population, on="segment_id", how="semi", maintain_order="left"))


def weigh_rounds(pool: pl.DataFrame, rounds: Sequence[Round], *, corpus: str = "") -> Sample:
    """Weigh what was judged.

    Args:
        pool: all segments that can be reviewed: `segment_id`, `similarity`, `duration_s`, and what the strategies look at.
        rounds: in the order of their draws.
        corpus: the fingerprint of the segments that there are now. Of what a round drew from another corpus nothing follows for
            this one, except that it was not drawn again.

    Returns:
        The sample; with equal probabilities and one round the weights are N / n.
    """
    chances = np.zeros((len(rounds), len(pool)))
    for number, one in enumerate(rounds):
        if one.corpus == corpus:
            there = _there(pool, one)
            own = inclusion_probabilities(pool.filter(there), strategy=one.strategy, n=one.n, threshold=one.threshold)
            chances[number, there.to_numpy()] = own.to_numpy()
    reached = np.array([one.reached for one in rounds])
    rate = reached @ chances if rounds else np.zeros(len(pool))
    score = pl.col("similarity").fill_nan(None)
    population = pool.select("segment_id", score, hours=pl.col("duration_s") / 3600, rate=pl.Series(rate))
    places = population.select("segment_id", "similarity").with_row_index("place")
    judged = _verdicts(rounds).join(places, on="segment_id", maintain_order="left")
    weight = _weights(judged["segment_id"], rounds, chances[:, judged["place"].to_numpy()], reached)
    return Sample(population, judged.drop("place").with_columns(weight=pl.Series(weight, dtype=pl.Float64)))


def _weights(
    keys: pl.Series, rounds: Sequence[Round], chances: NDArray[np.float64], reached: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The weight of each judged segment; `chances` are those of the module's q by round and segment."""
    number = {one.name: place for place, one in enumerate(rounds)}
    drawn = [_drawn(keys, one) for one in rounds]
    heard = [keys.is_in(_judged_ids(one).implode()).to_numpy() for one in rounds]
    mixture = chances * reached[:, None]
    mixture /= np.maximum(mixture.sum(axis=0), np.finfo(float).tiny)
    weight = np.zeros(len(keys))
    for place, one in enumerate(rounds):
        if not reached[place]:
            continue
        before = [number[name] for name in one.after if name in number]
        # What an unopened round was certain to draw and yet is here shows that it had learnt; no weight is to be infinite.
        unknown = np.prod([np.maximum(1 - chances[k], _LEAST_LEFT) for k in before if not reached[k]], axis=0)
        own = heard[place] & (drawn[place] > 0)
        stands = np.divide(1.0, drawn[place] * reached[place] * unknown, out=np.zeros(len(keys)), where=own)
        for k in before:
            stands = np.where(heard[k] & ~own, 1 / max(reached[k], np.finfo(float).tiny), stands)
        weight += mixture[place] * stands
    return weight


def _verdicts(rounds: Sequence[Round]) -> pl.DataFrame:
    """One verdict of each judged segment, with its cell; passed over in one round and judged in another, it has been judged."""
    rows = [
        one.rows.select("segment_id", "verdict", cell=pl.format("{} {}", pl.lit(place), "stratum"))
        for place, one in enumerate(rounds)
    ]
    schema = {"segment_id": pl.String, "verdict": pl.String, "cell": pl.String}
    said = pl.concat([pl.DataFrame(schema=schema), *rows]).drop_nulls("verdict").with_columns(cell_size=pl.len().over("cell"))
    return said.sort(pl.col("verdict") == "unsure", maintain_order=True).unique("segment_id", keep="first", maintain_order=True)


def _judged_ids(one: Round) -> pl.Series:
    return one.rows.filter(pl.col("verdict").is_not_null())["segment_id"]


def _drawn(keys: pl.Series, one: Round) -> NDArray[np.float64]:
    """The probability with which a round drew each key; 0 for what it did not draw."""
    rows = one.rows.select("segment_id", "probability")
    found = pl.DataFrame({"segment_id": keys}).join(rows, on="segment_id", how="left", maintain_order="left")
    return found["probability"].fill_null(0.0).to_numpy()


def _there(pool: pl.DataFrame, one: Round) -> pl.Series:
    """Which segments could be drawn then: those of recordings that were there."""
    if not one.missing:
        return pl.Series([True]).new_from_index(0, len(pool))
    return ~pool["recording_id"].is_in(list(one.missing)).fill_null(value=False)
