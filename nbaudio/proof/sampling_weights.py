"""Weights of judged segments, from rounds of review: docs/evidence.md has the estimate and its sources.

Round k draws segment i with probability p[k,i], given the rounds before, from what no earlier round has drawn; q[k,i] is its
probability in a first round with that strategy, without any verdict. With l[k,i] = q[k,i] / sum over k of q[k,i], the weight of a
segment that round k drew is w[i] = l[k,i] / p[k,i] + sum over the rounds j after k of l[j,i]. The weighted sum of errors is
unbiased whatever was learned from earlier verdicts.

If reviewers have reached only a share r[k] of the rows, p and q are r[k] times as large, and segments that stand for those of
round k in later rounds count 1 / r[k] (every beginning of a sheet is a random part of it; see `review.sampling`). If no row has
been reached, later rounds are corrected by 1 - q[k,i] for what that round removed, which is exact unless the strategy had
learnt from verdicts.
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
    """A weighted sample of a corpus, from its reviews."""

    # every segment: `segment_id`, `similarity` (null: kept by every threshold), `hours`, and `rate`: how many times it is
    # expected among the judged ones; 0 if no round could have drawn it
    population: pl.DataFrame
    # `segment_id`, `similarity`, `verdict` (right, wrong, unsure), `weight` (how many segments it stands for), `cell` (round and
    # stratum that drew it) and `cell_size` (how many were judged there: fixed by the design)
    judged: pl.DataFrame


def weigh_rounds(pool: pl.DataFrame, rounds: Sequence[Round], *, corpus: str = "") -> Sample:
    """Compute the weights of the judged segments of a pool (all that can be reviewed), from its rounds in order.

    A round drawn from another corpus than this fingerprint is no evidence, unless it has a generation: then it could have drawn
    what was there by then (`added_in` of the pool). Segments of other rounds were not drawn again all the same.
    """
    chances = np.zeros((len(rounds), len(pool)))
    for number, one in enumerate(rounds):
        if one.corpus == corpus or one.generation is not None:
            # Only recordings that had audio then could be drawn.
            there = ~pool["recording_id"].is_in(list(one.missing)).fill_null(value=False)
            if one.generation is not None and "added_in" in pool.columns:
                there &= (pool["added_in"] <= one.generation) | pool["segment_id"].is_in(one.rows["segment_id"].implode())
            own = inclusion_probabilities(pool.filter(there), strategy=one.strategy, n=one.n, threshold=one.threshold)
            chances[number, there.to_numpy()] = own.to_numpy()
    reached = np.array([one.reached for one in rounds])
    rate = reached @ chances
    score = pl.col("similarity").fill_nan(None)
    population = pool.select("segment_id", score, hours=pl.col("duration_s") / 3600, rate=pl.Series(rate))
    places = population.select("segment_id", "similarity").with_row_index("place")
    judged = _verdicts(rounds).join(places, on="segment_id", maintain_order="left")
    weight = _weights(judged["segment_id"], rounds, chances[:, judged["place"].to_numpy()], reached)
    return Sample(population, judged.drop("place").with_columns(weight=pl.Series(weight, dtype=pl.Float64)))


def _weights(
    keys: pl.Series, rounds: Sequence[Round], chances: NDArray[np.float64], reached: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the weight of each judged segment; `chances` is q (see the module) by round and segment."""
    number = {one.name: place for place, one in enumerate(rounds)}
    # The probability with which each round drew a segment; 0 if it did not.
    drawn = [
        keys.replace_strict(one.rows["segment_id"], one.rows["probability"], default=0.0, return_dtype=pl.Float64).to_numpy()
        for one in rounds
    ]
    reviewed = [keys.is_in(one.judged_ids.implode()).to_numpy() for one in rounds]
    mixture = chances * reached[:, None]
    mixture /= np.maximum(mixture.sum(axis=0), np.finfo(float).tiny)
    weight = np.zeros(len(keys))
    for place, one in enumerate(rounds):
        if not reached[place]:
            continue
        before = [number[name] for name in one.after if name in number]
        # If an unopened round did not draw what it was certain to draw, it had learned from verdicts; no weight may be infinite.
        unknown = np.prod([np.maximum(1 - chances[k], _LEAST_LEFT) for k in before if not reached[k]], axis=0)
        own = reviewed[place] & (drawn[place] > 0)
        stands = np.divide(1.0, drawn[place] * reached[place] * unknown, out=np.zeros(len(keys)), where=own)
        for k in before:
            stands = np.where(reviewed[k] & ~own, 1 / max(reached[k], np.finfo(float).tiny), stands)
        weight += mixture[place] * stands
    return weight


def _verdicts(rounds: Sequence[Round]) -> pl.DataFrame:
    """Return one verdict per judged segment, with its cell; one skipped in one round and judged in another has been judged."""
    rows = [
        one.rows.select("segment_id", "verdict", cell=pl.format("{} {}", pl.lit(place), "stratum"))
        for place, one in enumerate(rounds)
    ]
    schema = {"segment_id": pl.String, "verdict": pl.String, "cell": pl.String}
    said = pl.concat([pl.DataFrame(schema=schema), *rows]).drop_nulls("verdict").with_columns(cell_size=pl.len().over("cell"))
    return said.sort(pl.col("verdict") == "unsure", maintain_order=True).unique("segment_id", keep="first", maintain_order=True)
