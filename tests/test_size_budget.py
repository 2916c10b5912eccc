"""Which segments of train a budget has no room for."""

import polars as pl
import pytest

from nbaudio.core.hashing import hash_column
from nbaudio.selection.size_budget import Budget, rows_over_budget

NONE_PREFERRED = (pl.lit(value=False),)


def over_budget(segments, limit, *, seed=0, preferred=NONE_PREFERRED):
    """Return the rows for which a budget of some microseconds has no room, in order.

    A segment is in train and takes a microsecond, unless it has other values.
    """
    defaults = {
        "split": "train",
        "micros": 1,
        "barred": False,
        "speaker_id": None,
        "recording_id": "r",
    }
    selected = pl.DataFrame(
        [{"row": row, **defaults, **segment} for row, segment in enumerate(segments)],
        schema_overrides={
            "row": pl.UInt32,
            "speaker_id": pl.Categorical,
            "recording_id": pl.Categorical,
        },
    )
    rows = rows_over_budget(
        selected,
        Budget(limit, pl.col("micros"), scale=1, unit="microseconds"),
        seed=seed,
        preferred=preferred,
        hashes=lambda rows, salt: hash_column(rows.cast(pl.String), salt),
    )
    return sorted(rows)


def test_in_a_turn_a_speaker_with_many_segments_comes_as_often_as_one_with_a_single_segment():
    speakers = [*(f"s{number}" for number in range(9)), *["many"] * 200]
    segments = [{"speaker_id": speaker} for speaker in speakers]
    many = set(range(9, len(segments)))
    # Ten speakers and room for five segments: each speaker is in about every second selection.
    times_in = sum(not many <= set(over_budget(segments, 5, seed=seed)) for seed in range(40))
    assert 8 < times_in < 32


@pytest.mark.parametrize("seed", range(5))
def test_a_recording_with_the_name_of_a_speaker_takes_other_turns(seed):
    segments = [
        {"speaker_id": "a"},
        {"recording_id": "a"},  # of an unknown speaker
        {"speaker_id": "b"},
        {"speaker_id": "b"},
    ]
    [row] = over_budget(segments, 3, seed=seed)
    assert row in {2, 3}


def test_the_first_flag_of_preferred_segments_counts_most():
    flags = [(False, False), (False, True), (True, False), (True, True)]
    segments = [{"first": first, "second": second} for first, second in flags]
    preferred = (pl.col("first"), pl.col("second"))
    over = [over_budget(segments, limit, preferred=preferred) for limit in range(5)]
    assert over == [[0, 1, 2, 3], [0, 1, 2], [0, 1], [0], []]


@pytest.mark.parametrize("barred", range(4))
def test_barred_segments_cost_nothing_and_leave_the_order_of_the_others(barred):
    segments = [{"speaker_id": "a"} for _ in range(4)]
    order = sorted(range(4), key=lambda row: _least_limit(segments, row))
    segments[barred]["barred"] = True
    others = [row for row in order if row != barred]
    assert [_least_limit(segments, row) for row in others] == [1, 2, 3]
    assert barred not in over_budget(segments, 3)


def _least_limit(segments, row):
    """Return the smallest budget that has room for a segment."""
    return next(limit for limit in range(9) if row not in over_budget(segments, limit))
