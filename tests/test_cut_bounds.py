"""Boundaries that are proposed for cut segments: outward into silence, never into a neighbor,
applied only when accepted."""

import json

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from polars.testing import assert_frame_equal

import nbaudio
from nbaudio import review, views
from nbaudio.core.errors import InputError
from nbaudio.review.state import CORRECTION_LOG

RATE = 16000


def spoken(*spans, seconds=12.0, seed=0):
    """Syllables of harmonics within spans of seconds over faint noise; shape (samples,)."""
    rng, t = np.random.default_rng(seed), np.arange(int(seconds * RATE)) / RATE
    voice = sum(np.sin(2 * np.pi * 140 * k * t + k) / k for k in range(1, 20))
    loud = np.zeros(len(t))
    for start, end in spans:
        loud[int(start * RATE) : int(end * RATE)] = 0.15
    return voice * loud * (0.7 + 0.3 * np.sin(2 * np.pi * 4 * t)) + 1e-4 * rng.normal(size=len(t))


@pytest.fixture
def measured(tmp_path):
    """A workspace of one recording with speech in spans, and segments between given seconds."""

    def make(speech, segments, **columns):
        (tmp_path / "audio").mkdir(exist_ok=True)
        sf.write(tmp_path / "audio/a.wav", spoken(*speech), RATE, subtype="PCM_16")
        rows = [
            {"audio_filepath": "a.wav", "offset": a, "duration": b - a, "text": "da"}
            for a, b in segments
        ]
        (tmp_path / "m.json").write_text("\n".join(json.dumps(row) for row in rows))
        nbaudio.ingest("nemo", tmp_path / "m.json", audio=tmp_path / "audio", out=tmp_path / "w")
        nbaudio.measure(tmp_path / "w", jobs=1, engine="threading", show_progress=False)
        return nbaudio.Workspace.open(tmp_path / "w")

    return make


def seconds(proposals):
    return [
        (a / RATE, b / RATE)
        for a, b in proposals.select("proposed_start", "proposed_end").iter_rows()
    ]


def test_a_cut_boundary_moves_outward_into_the_nearest_silence(measured):
    workspace = measured([(1, 3), (4, 5), (5.4, 7), (8, 9)], [(0.5, 3.3), (4.2, 6.8)])
    assert workspace.segments.select("cut_start", "cut_end").rows() == [
        (False, False),
        (True, True),
    ]
    proposals = review.propose_bounds(workspace)
    assert proposals["segment_id"].to_list() == [workspace.segments["segment_id"][1]]
    [(start, end)] = seconds(proposals)
    assert 3.85 < start <= 4.0
    assert 7.0 <= end < 7.15
    # Accepted and applied, nothing is cut any more.
    assert review.accept_bounds(workspace, proposals, reviewer="ana") == 1
    nbaudio.review.correct_bounds(workspace)
    nbaudio.measure(workspace.path, jobs=1, engine="threading", show_progress=False)
    assert workspace.segments.select(pl.col("cut_start", "cut_end").any()).row(0) == (False, False)
    assert review.propose_bounds(workspace).is_empty()


def test_no_proposal_enters_a_neighbor_or_leaves_the_recording(measured):
    # Speech from 1 to 6 without a pause: the first two abut; the last runs to the end of the
    # recording.
    workspace = measured([(1, 6), (10, 12)], [(0.5, 3), (3, 5.8), (9.5, 11.8)])
    proposals = review.propose_bounds(workspace)
    assert seconds(proposals)[0][0] == 3.0
    assert 6.0 <= seconds(proposals)[0][1] < 6.15
    assert len(proposals) == 1
    # Between two cut segments lies one short silence, which both want.
    workspace = measured([(1, 3), (3.13, 6)], [(0.5, 2.9), (3.2, 6.5)])
    (_, end), (start, _) = seconds(review.propose_bounds(workspace))
    assert 3.0 <= end <= start <= 3.13
    # A neighbor begins within the silence.
    workspace = measured([(1, 3), (4, 6)], [(0.5, 2.9), (3.02, 6.5)])
    assert seconds(review.propose_bounds(workspace)) == [(0.5, 3.02)]


def test_segments_with_equal_windows_are_in_the_order_of_their_ids_whatever_is_read_at_once(
    measured, monkeypatch
):
    workspace = measured([(1, 3), (4, 7)], [(0.5, 2.8), (4.2, 7.5)])
    rows = workspace.segments
    workspace.save(
        segments=pl.concat(
            [rows.with_columns(segment_id=pl.col("segment_id") + end) for end in "cab"]
        ).reverse()
    )
    proposals = review.propose_bounds(workspace, most_s=1.0)
    ids = proposals["segment_id"].to_list()
    assert ids == sorted(ids)
    assert {key[-1] for key in ids} == {"a", "c"}  # the first and the last reach further
    monkeypatch.setattr("nbaudio.core.tables.ROWS_A_GROUP", 1)
    assert_frame_equal(review.propose_bounds(workspace, most_s=1.0), proposals)


def test_a_boundary_moves_by_no_more_than_is_allowed(measured):
    workspace = measured([(1, 4)], [(0.5, 3.2)])
    assert review.propose_bounds(workspace, most_s=0.5).is_empty()
    [(_, end)] = seconds(review.propose_bounds(workspace, most_s=1.0))
    assert 4.0 <= end <= 4.15
    for most_s in (0, -1, 11, float("nan")):
        with pytest.raises(InputError, match="above 0 and at most 10 seconds"):
            review.propose_bounds(workspace, most_s=most_s)


def test_proposals_change_nothing_until_they_are_accepted_and_applied(measured):
    workspace = measured([(1, 3), (4, 7)], [(0.5, 2.8), (4.2, 7.5)])
    before, ids = workspace.segments, workspace.segments["segment_id"]
    proposals = review.propose_bounds(workspace)
    assert proposals["reviewers"].to_list() == [None, None]
    assert not (workspace.path / CORRECTION_LOG).exists()
    review.accept_bounds(workspace, proposals.filter(segment_id=ids[0]), reviewer=" ana ")
    assert workspace.segments.equals(before)
    again = review.propose_bounds(workspace, [ids[0]])
    assert again.select("segment_id", "reviewers").rows() == [(ids[0], "ana")]
    report = review.correct_bounds(workspace)
    assert report.facts["corrected_now"] == 1
    assert workspace.segments["corrected_by"].to_list() == ["ana", None]
    with pytest.raises(InputError, match=f"proposals: {ids[0]}: unknown, changed since"):
        review.accept_bounds(workspace, proposals, reviewer="ana")
    pandas = proposals.filter(segment_id=ids[1]).to_pandas()
    assert review.accept_bounds(workspace, pandas, reviewer="ivo") == 1


def test_what_cannot_be_accepted_or_proposed_is_named(measured, make_workspace):
    workspace = measured([(1, 3)], [(0.5, 2.8)])
    proposals = review.propose_bounds(workspace)
    with pytest.raises(InputError, match="reviewer: a name is needed"):
        review.accept_bounds(workspace, proposals, reviewer=" ")
    with pytest.raises(
        InputError, match="no column proposed_end; expected the columns segment_id, start_sample"
    ):
        review.accept_bounds(workspace, proposals.drop("proposed_end"), reviewer="ana")
    for change in (
        {"proposed_end": 10**9},
        {"proposed_start": -1},
        {"proposed_start": 10**8},
        {"segment_id": "x"},
    ):
        with pytest.raises(InputError, match="not inside of its recording"):
            review.accept_bounds(
                workspace,
                proposals.with_columns(**{k: pl.lit(v) for k, v in change.items()}),
                reviewer="ana",
            )
    assert not (workspace.path / CORRECTION_LOG).exists()
    with pytest.raises(InputError, match="no segment 'x'"):
        review.propose_bounds(workspace, ["x"])
    # Nothing is measured
    assert review.propose_bounds(make_workspace({"b.wav": (6.0, RATE)})).is_empty()


def test_cut_and_clipped_segments_are_shown_once_they_are_measured(measured, make_workspace):
    workspace = measured([(1, 3), (4, 7)], [(0.5, 2.8), (3.5, 7.5)])
    assert views.cut_or_clipped(workspace)["segment_id"].to_list() == [
        workspace.segments["segment_id"][0]
    ]
    assert views.cut_or_clipped(make_workspace({"b.wav": (6.0, RATE)})).is_empty()


def test_a_recording_that_is_gone_has_no_proposals(measured, tmp_path):
    workspace = measured([(1, 3)], [(0.5, 2.8)])
    (tmp_path / "audio/a.wav").unlink()
    assert review.propose_bounds(workspace).is_empty()
