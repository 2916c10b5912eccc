"""Which segments reviewers are given, and with what probability each could have been chosen.

A strategy takes segments, how many to draw and a seed, and gives a frame with `segment_id` and `probability` (the inclusion
probability, above 0), in the order of the sheet. It depends on ids and columns, never on the order of rows. Another strategy is
one function here and one line in `STRATEGIES`.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import polars as pl

from nbaudio.keys import hash_column

Strategy = Callable[[pl.DataFrame, int, int], pl.DataFrame]


def random(segments: pl.DataFrame, n: int, seed: int) -> pl.DataFrame:
    """A simple random sample: every segment is equally likely.

    The order is random too, so that whoever reviews only the first rows has still reviewed a random sample; a larger `n` with
    the same seed only adds rows.

    Examples:
        >>> random(pl.DataFrame({"segment_id": ["a", "b", "c", "d"]}), 2, 42)["probability"].to_list()
        [0.5, 0.5]
    """
    ids = segments.select("segment_id").with_columns(hash_column(segments["segment_id"], f"review {seed}").alias("order"))
    drawn = ids.sort("order", "segment_id").head(n)
    return drawn.select("segment_id", probability=pl.lit(len(drawn) / max(len(ids), 1)))


STRATEGIES: Mapping[str, Strategy] = MappingProxyType({"random": random})
