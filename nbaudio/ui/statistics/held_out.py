"""Error rates of recognizers on the segments that a model is not trained on."""

from pathlib import Path

import polars as pl

from nbaudio.tables.schemas import hypothesis_names
from nbaudio.tables.split_names import ordered_splits, split_role
from nbaudio.ui import views
from nbaudio.ui.segment_rows import SegmentRows


def held_out_rates(path: str | Path, segments: SegmentRows, *, by: str) -> pl.DataFrame:
    """Return `views.error_rates` of the held-out splits.

    Without such splits they are those of all segments if there are several hypotheses; otherwise
    there are no rows.
    """
    split_names = segments.read("split", codes=True)["split"].unique().cast(pl.String)
    splits = [name for name in ordered_splits(split_names) if split_role(name) != "train"]
    hypotheses = [
        name for name, column in hypothesis_names(segments.schema).items() if segments.count(column)
    ]
    if not splits and len(hypotheses) == 1:
        hypotheses = []
    where = " or ".join("split = '{}'".format(name.replace("'", "''")) for name in splits)
    return views.error_rates(path, hypotheses, by=by, where=where)
