"""Sums over segments that changed between two rounds, and of which some were removed."""

from collections import OrderedDict

import polars as pl
import pytest
from sheets import make_workspace

from nbaudio import review
from nbaudio.proof import segment_sums
from nbaudio.proof.proof_state import ProofState
from nbaudio.proof.segment_sums import read_segment_rows
from nbaudio.review.state import ReviewState, frame_contents

NUMBERS_OF_WORDS = [number % 7 + 1 for number in range(40)]
CHANGED = "s37"
REMOVED = ["s38", "s39"]


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """The state after two rounds; all segments had a similarity of 0.87 in the first, now 0.63.

    A segment got another text, of one word, between the rounds; two were removed after both.
    """
    folder = tmp_path_factory.mktemp("sums")
    workspace = make_workspace(folder / "w", ["da " * number for number in NUMBERS_OF_WORDS])
    workspace.save(segments=workspace.segments.with_columns(similarity=0.87))
    review.export(workspace, out=folder / "first.csv", n=5, strategy="random")
    segment_id = pl.col("segment_id")
    text = pl.when(segment_id == CHANGED).then(pl.lit("ne")).otherwise("text")
    workspace.save(segments=workspace.segments.with_columns(text=text, similarity=0.63))
    review.export(workspace, out=folder / "second.csv", n=5, strategy="random")
    workspace.save(segments=workspace.segments.filter(~segment_id.is_in(REMOVED)))
    return ProofState(ReviewState.load(workspace).workspace)


def keys(*ids):
    return sorted(pl.Series(ids, dtype=pl.String).hash())


def test_segments_that_all_bounds_treat_alike_are_one_row(state):
    rows = state.rows.filter("is_there").sort("segments")
    amounts = rows.select("key", "segments", "words", "words_counted", "words_largest")
    others = sum(NUMBERS_OF_WORDS[:37])
    assert amounts.rows() == [(None, 1, 1, 1, 1), (None, 37, others, 37, 7)]
    assert rows.select("valid_frame_0", "valid_frame_1").rows() == [(False, True), (True, True)]


def test_the_first_round_fixes_the_similarity(state):
    kept_by = [sum(cut <= similarity for cut in state.cuts) for similarity in (0.63, 0.87)]
    there = state.rows.filter("is_there").select("cut", "fixed_cut", "fixed_draw")
    assert there.rows() == [(*kept_by, 0)] * 2
    removed = state.rows.filter(~pl.col("is_there")).select("cut", "fixed_cut", "fixed_draw")
    assert removed.rows() == [(0, kept_by[1], 0)] * 2


def test_removed_segments_are_the_last_rows_with_what_the_rule_has_of_them(state):
    assert state.rows["is_there"].to_list() == [True, True, False, False]
    removed = state.rows[2:]
    assert sorted(removed["key"]) == keys(*REMOVED)
    assert sorted(removed["words_rule_1"]) == sorted(NUMBERS_OF_WORDS[38:])
    assert removed.select("segments", "ticks", "words").rows() == [(1, 0, 0)] * 2


def test_some_segments_have_the_frames_of_the_sums(state):
    ids = pl.Series(["s0", CHANGED, REMOVED[0], "nobody"])
    segments = state.population.read([*ids, "s1"])
    rows = read_segment_rows(state.workspace, segments, state._frames, ids)
    assert sorted(rows["key"]) == keys("s0", CHANGED, REMOVED[0])
    columns = ("is_there", "stratum_frame_0", "valid_frame_0", "valid_frame_1")
    assert sorted(rows.select(columns).rows()) == [
        (False, 0, False, False),
        (True, 0, False, True),
        (True, 0, True, True),
    ]


@pytest.mark.parametrize("column", ["recording_id", "source_start", "source_end", "text"])
def test_a_segment_that_changes_between_two_views_is_not_as_it_was_drawn(tmp_path, column):
    workspace = make_workspace(tmp_path / "w", ["da", "ne", "da ne"])
    review.export(workspace, out=tmp_path / "sheet.csv", n=2, strategy="random")

    def count_valid():
        rows = ProofState(ReviewState.load(workspace).workspace).rows
        return int(rows.filter("valid_frame_0")["segments"].sum())

    assert count_valid() == 3
    others = {"recording_id": "b", "source_start": "0.5", "source_end": "0.75", "text": "možda"}
    is_first = pl.int_range(pl.len()) == 0
    changed = pl.when(is_first).then(pl.lit(others[column])).otherwise(column)
    workspace.save(segments=workspace.segments.with_columns(changed.alias(column)))
    assert count_valid() == 2


def test_contents_of_few_batches_are_in_memory(monkeypatch):
    monkeypatch.setattr(segment_sums, "_BATCHES_OF_CONTENTS", 2)
    monkeypatch.setattr(segment_sums, "_contents_of_batches", OrderedDict())
    times = {"recording_id": ["r"], "source_start": ["0"], "source_end": ["1"]}
    batches = [
        pl.DataFrame({**times, "text": [text]}) for text in ("da", "ne", "da", "možda", "ne")
    ]
    for batch in batches:
        assert segment_sums._contents(batch).equals(frame_contents(batch))
    assert len(segment_sums._contents_of_batches) == 2
