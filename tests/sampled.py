"""Draws from a pool that is a table with ids, as tests make it."""

import numpy as np
import polars as pl

from nbaudio.core.hashing import hash_column
from nbaudio.review.sampling import (
    anomaly_facts,
    draw_from,
    pool_columns,
    reached,
    risk_columns,
    salt_of,
    strata_of,
)


def strata_in(pool, *, strategy, threshold=0.8, rounds=()):
    """The strata of a pool after rounds of review."""
    pool_columns(strategy, pool.schema)
    facts = (
        pool.hstack(anomaly_facts(pool).drop("recording_id", "start_sample", "end_sample"))
        if strategy == "suspicious"
        else pool
    )
    if strategy == "risk" and "decision" in pool.columns:
        facts = pool.hstack(risk_columns(pool).select("accepted", "kept"))
    known = reached(rounds).with_columns(reached=pl.lit(value=True))
    facts = facts.join(known, on="segment_id", how="left", maintain_order="left").with_columns(
        pl.col("reached").fill_null(value=False)
    )
    return strata_of(facts, strategy=strategy, threshold=threshold)


def sampling_frame(pool, **options):
    """What can be drawn: `segment_id`, `stratum`, `weight`, `rate`."""
    strata = strata_in(pool, **options)
    places = np.flatnonzero(strata.number >= 0)
    return pool[places].select("segment_id").hstack(strata.table(places))


def draw(pool, *, n, seed, rounds=(), **options):
    """Draw from a pool after rounds of review: `segment_id`, `probability`, `stratum`."""
    strata, ids = strata_in(pool, rounds=rounds, **options), pool["segment_id"]
    drawn = draw_from(
        strata,
        lambda rows, salt: hash_column(ids.gather(rows), salt),
        n=n,
        salt=salt_of(seed, rounds),
    )
    return drawn.select(ids.gather(drawn["place"]), "probability", "stratum")
