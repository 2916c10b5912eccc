from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbaudio.core.errors import InputError
from nbaudio.selection.splits import Target, assign_splits, parse_target, usable_keys
from nbaudio.tables.rejection_reasons import GROUPING_REASONS

KEYS = ["speaker_id", "recording_id"]
MINUTE = 60_000_000

values = st.sampled_from(["a", "b", "c", "d", "e", "f", None])
rows = st.lists(st.tuples(values, values, st.integers(1, 5 * MINUTE)), min_size=1, max_size=60)


def table(rows):
    speakers, recordings, micros = zip(*rows, strict=True)
    ids = [f"s{number:03d}" for number in range(len(rows))]
    columns = {
        "segment_id": ids,
        "speaker_id": speakers,
        "recording_id": recordings,
        "micros": micros,
    }
    schema = {
        "segment_id": pl.String,
        "speaker_id": pl.String,
        "recording_id": pl.String,
        "micros": pl.Int64,
    }
    return pl.DataFrame(columns, schema=schema)


def crossing(segments, keys):
    """Values that are in more than one split, one by one."""
    seen = defaultdict(set)
    for row in segments.iter_rows(named=True):
        for key in keys:
            if row["split"] is not None and row[key] is not None:
                seen[key, row[key]].add(row["split"])
    return {value for value, splits in seen.items() if len(splits) > 1}


def speakers_by_recordings(speakers, recordings, each):
    return table(
        [(f"s{s}", f"r{r}", MINUTE) for s in speakers for r in recordings for _ in range(each)]
    )


@pytest.mark.slow
@given(
    rows, st.sets(st.sampled_from(KEYS)), st.integers(0, 4), st.integers(0, 4), st.integers(0, 5)
)
@settings(max_examples=200, deadline=None)
def test_no_group_crosses_splits_and_sizes_are_exact(rows, keys, test, dev, seed):
    segments = table(rows)
    targets = {"test": Target(test, "segments"), "dev": Target(dev, "segments")}
    try:
        divided = assign_splits(segments, keys=sorted(keys), targets=targets, seed=seed)
    except InputError:
        return
    assert (divided["split"].is_null() == divided["reason"].is_not_null()).all()
    assert crossing(segments.hstack(divided), keys) == set()
    assert (divided["split"] == "test").sum() == test
    assert (divided["split"] == "dev").sum() == dev


@given(
    rows,
    st.sets(st.sampled_from(KEYS)),
    st.tuples(st.integers(0, 4), st.integers(0, 3)),
    st.integers(0, 5),
    st.data(),
)
@settings(max_examples=100, deadline=None)
def test_a_gold_test_set_holds_gold_alone_and_no_value_crosses(rows, keys, sizes, seed, data):
    segments, (test, dev) = table(rows), sizes
    gold = pl.Series(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    targets = {"test": Target(test, "segments"), "dev": Target(dev, "segments")}
    try:
        divided = assign_splits(segments, keys=sorted(keys), targets=targets, seed=seed, gold=gold)
    except InputError:
        return
    assert (divided["split"].is_null() == divided["reason"].is_not_null()).all()
    assert crossing(segments.hstack(divided), keys) == set()
    assert gold.filter(divided["split"] == "test").to_list() == [True] * test
    assert not gold.filter(divided["reason"] == "not_gold").any()
    assert (divided["split"] == "dev").sum() == dev


def test_gold_is_taken_from_groups_that_cost_least():
    # Two speakers with two gold segments each, one among nine, one among three; a recording of both
    # connects them.
    alone = [("s0", "r0", 1)] * 9 + [("s1", "r1", 1)] * 3
    segments = table([*alone, ("s0", "r9", 1), ("s1", "r9", 1), *[("s4", "r4", 1)] * 5])
    gold = pl.Series([True, True, *[False] * 7, True, True, *[False] * 8])
    for seed in range(5):
        divided = assign_splits(
            segments, keys=KEYS, targets={"test": Target(2, "segments")}, seed=seed, gold=gold
        )
        assert divided["reason"].to_list()[9:] == [
            None,
            None,
            "not_gold",
            None,
            "crosses_splits",
            *[None] * 5,
        ]
        assert divided["split"].to_list()[:9] == ["train"] * 9


@given(rows, st.sets(st.sampled_from(KEYS)), st.integers(0, 5), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_rows_changes_nothing(rows, keys, seed, random):
    segments = table(rows)
    targets = {"test": Target(1, "segments"), "dev": Target(MINUTE, "micros")}
    order = list(range(len(rows)))
    random.shuffle(order)
    try:
        divided = assign_splits(segments, keys=sorted(keys), targets=targets, seed=seed)
    except InputError:
        with pytest.raises(InputError):
            assign_splits(segments[order], keys=sorted(keys), targets=targets, seed=seed)
        return
    shuffled = assign_splits(segments[order], keys=sorted(keys), targets=targets, seed=seed)
    assert shuffled.rows() == divided[order].rows()


@given(st.lists(st.integers(1, 30), min_size=3, max_size=20), st.integers(0, 9), st.data())
@settings(deadline=None)
def test_with_one_key_every_size_is_reached_exactly(sizes, seed, data):
    segments = table(
        [(f"s{number}", None, 1) for number, size in enumerate(sizes) for _ in range(size)]
    )
    asked = data.draw(st.integers(0, len(segments)))
    divided = assign_splits(
        segments, keys=["speaker_id"], targets={"test": Target(asked, "segments")}, seed=seed
    )
    assert (divided["split"] == "test").sum() == asked
    assert set(divided["reason"].drop_nulls()) <= {"beyond_split_size"}
    # Never more than the last group is opened for what is missing.
    assert divided["reason"].count() < max(sizes)


def test_without_keys_no_segment_is_lost():
    segments = table([("s", "r", number) for number in range(1, 200)])
    targets = {"test": Target(50, "segments"), "dev": Target(1000, "micros")}
    divided = assign_splits(segments, keys=[], targets=targets, seed=3)
    assert divided["reason"].count() == 0
    assert (divided["split"] == "test").sum() == 50
    dev = segments.filter(divided["split"] == "dev")["micros"].sum()
    assert 1000 - 199 < dev <= 1000


def test_a_split_in_hours_is_filled_up_to_its_limit():
    segments = speakers_by_recordings(range(20), [0], 9)
    divided = assign_splits(
        segments, keys=["speaker_id"], targets={"test": parse_target("0.5h", "test")}, seed=1
    )
    assert segments.filter(divided["split"] == "test")["micros"].sum() == 30 * MINUTE


def test_rows_without_key_values_fill_a_split_without_loss():
    segments = table([(None, None, 1)] * 30 + [("s", "r", 1)] * 30)
    divided = assign_splits(segments, keys=KEYS, targets={"test": Target(17, "segments")}, seed=1)
    assert divided["reason"].count() == 0
    assert (divided["split"] == "test").sum() == 17


def test_separate_groups_are_held_out_before_connected_ones_are_divided():
    crossed = speakers_by_recordings(range(6), range(6), 4)
    alone = table([(f"x{number}", f"y{number}", MINUTE) for number in range(10)])
    segments = pl.concat(
        [crossed, alone.with_columns(segment_id=pl.lit("alone ") + pl.col("segment_id"))]
    )
    targets = {"test": Target(5, "segments"), "dev": Target(5, "segments")}
    divided = assign_splits(segments, keys=KEYS, targets=targets, seed=1)
    assert divided["reason"].count() == 0


def test_connected_groups_are_divided_where_it_costs_least():
    # Two chambers share one speaker: to take the small one whole costs that speaker's three
    # segments in the large one.
    small = [(f"s{s}", f"r{r}", MINUTE) for s in range(5) for r in range(4)]
    large = [(f"t{s}", f"q{r}", MINUTE) for s in range(20) for r in range(20)]
    segments = table([*small, *large, *[("both", "r0", MINUTE)] * 2, *[("both", "q0", MINUTE)] * 3])
    divided = assign_splits(segments, keys=KEYS, targets={"test": Target(22, "segments")}, seed=1)
    assert divided["reason"].to_list() == [None] * 422 + ["crosses_splits"] * 3


def test_another_seed_gives_another_division():
    segments = speakers_by_recordings(range(40), [0], 2)
    targets = {"test": Target(10, "segments")}
    divisions = {
        tuple(
            assign_splits(segments, keys=["speaker_id"], targets=targets, seed=seed)[
                "split"
            ].to_list()
        )
        for seed in range(5)
    }
    assert len(divisions) == 5


def test_a_split_larger_than_the_segments_is_refused_with_the_available_amount():
    segments = table([("s", "r", MINUTE)] * 30)
    with pytest.raises(
        InputError, match=r"test: 31 segments requested.* 30 segments.*30 segments are available"
    ):
        assign_splits(segments, keys=[], targets={"test": Target(31, "segments")}, seed=1)
    with pytest.raises(
        InputError,
        match=r"dev: 1 segments requested.*no speaker_id.*0 segments are available.*fewer or other",
    ):
        assign_splits(
            segments,
            keys=["speaker_id"],
            targets={"test": Target(9, "segments"), "dev": Target(1, "segments")},
            seed=1,
        )
    with pytest.raises(
        InputError, match=r"test: 1\.000 hours requested.*0\.500 hours are available"
    ):
        assign_splits(segments, keys=[], targets={"test": parse_target("1h", "test")}, seed=1)


@pytest.mark.parametrize(
    "value",
    ["", "h", "1.5", "-1", -1, "nanh", "infh", "1e999h", "two", "1.5 hours", 1.5, True, None],
)
def test_a_size_of_a_split_is_a_count_or_hours(value):
    with pytest.raises(InputError, match="dev="):
        parse_target(value, "dev")


def test_sizes_of_splits_are_read_as_counts_or_hours():
    assert parse_target("2000", "dev") == parse_target(2000, "dev") == Target(2000, "segments")
    assert parse_target(" 1.5 H", "dev") == Target(90 * MINUTE, "micros")


def test_unknown_or_unusable_grouping_columns_are_refused():
    segments = pl.DataFrame(
        {"a": ["x"], "b": [None], "words": [["x"]]}, schema_overrides={"b": pl.String}
    )
    assert usable_keys(segments, ["a", "b", "a"]) == ["a"]
    with pytest.raises(InputError, match=r"'speaker' is not a column.*columns are a, b$"):
        usable_keys(segments, ["speaker"])
    with pytest.raises(InputError, match="'words'"):
        usable_keys(segments, ["words"])


def parliament(segments, speakers, recordings, *, seed=0, turn=6, exponent=1.0):
    """Sittings at which the same people speak again and again, few of them often: runs of segments
    of one speaker."""
    rng = np.random.default_rng(seed)
    often = 1 / np.arange(1, speakers + 1) ** exponent
    lengths = rng.geometric(1 / turn, segments)
    speaker = np.repeat(rng.choice(speakers, segments, p=often / often.sum()), lengths)[:segments]
    recording = np.repeat(rng.integers(recordings, size=segments), lengths)[:segments]
    return table(
        [
            (f"s{s}", f"r{r}", MINUTE // 6)
            for s, r in zip(speaker.tolist(), recording.tolist(), strict=True)
        ]
    )


def lost_with(segments, keys, size, seed=42):
    targets = {"test": Target(size, "segments"), "dev": Target(size, "segments")}
    divided = assign_splits(segments, keys=keys, targets=targets, seed=seed)
    for split in ("test", "dev"):
        assert (divided["split"] == split).sum() == size
    return divided["reason"].is_in(GROUPING_REASONS).sum() / len(segments)


@pytest.mark.slow
def test_division_of_a_parliament_loses_little_more_than_a_search_finds():
    # A search for a second finds divisions that lose 0.342, 0.294 and 0.413.
    for segments, exponent, bound in (
        (30_000, 1.0, 0.36),
        (20_000, 1.0, 0.31),
        (30_000, 1.5, 0.42),
    ):
        sittings = parliament(segments, 200, 60, exponent=exponent)
        assert lost_with(sittings, KEYS, segments // 20) < bound
        assert lost_with(sittings, ["speaker_id"], segments // 20) < 0.001
        assert lost_with(sittings, ["recording_id"], segments // 20) < 0.02


def test_held_out_splits_have_many_speakers():
    sittings = parliament(30_000, 200, 60)
    targets = {"test": Target(1500, "segments"), "dev": Target(1500, "segments")}
    for keys in (KEYS, ["speaker_id"]):
        divided = sittings.hstack(assign_splits(sittings, keys=keys, targets=targets, seed=42))
        speakers = dict(
            divided.drop_nulls("split")
            .group_by("split")
            .agg(pl.col("speaker_id").n_unique())
            .iter_rows()
        )
        assert min(speakers["dev"], speakers["test"]) >= 10


@pytest.mark.parametrize("seed", [-1, 0, 2**70])
def test_any_whole_number_is_a_seed(seed):
    assert lost_with(parliament(2000, 40, 20), KEYS, 100, seed=seed) < 0.6
