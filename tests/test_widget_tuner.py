"""ThresholdTuner without a browser: counts of all positions equal those of each position alone."""

import math

import ipywidgets
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_widget_tables import ask
from test_widgets import Page, sounds

from nbaudio import review, select
from nbaudio.core.errors import InputError
from nbaudio.proof.claims import above, curve
from nbaudio.proof.proof_state import ProofState
from nbaudio.proof.segment_sums import Kinds
from nbaudio.tables.workspace import Workspace
from nbaudio.ui import views, widgets
from nbaudio.ui.widgets import threshold_tuner
from nbaudio.ui.widgets.threshold_tuner import (
    COLUMNS,
    UNKNOWN,
    Neighbors,
    ThresholdCounts,
    describe_precision,
    format_threshold,
)

SCORES = st.one_of(
    st.none(),
    st.just(float("nan")),
    st.sampled_from([-1.0, 0.79, 0.8, 0.81, 1.0, 1.3]),
    st.floats(-1, 1),
)
ROWS = st.lists(
    st.tuples(
        SCORES, st.sampled_from(["a", "b", None]), st.sampled_from([None, -1.0, 7.5, 3600.0])
    ),
    min_size=1,
)


def frame(rows):
    scores, speakers, durations = zip(*rows, strict=True)
    columns = {
        "similarity": pl.Float64,
        "wer": pl.Float64,
        "speaker_id": pl.String,
        "duration_s": pl.Float64,
    }
    return pl.DataFrame(
        dict(zip(columns, (scores, scores, speakers, durations), strict=True)), schema=columns
    )


@given(
    ROWS,
    st.sampled_from(["similarity", "wer", "duration_s"]),
    st.integers(0, threshold_tuner.STEPS + 50),
)
def test_counts_of_each_threshold_equal_those_of_filtering(rows, measure, position):
    table = frame(rows)
    counts = ThresholdCounts(table, measure)
    position = min(position, len(counts.scale.grid) - 1)
    threshold, column = counts.scale.grid[position], counts.scale.column
    score = pl.col(column).fill_nan(None)
    passes = score >= threshold if counts.scale.least else score <= threshold
    kept = table.filter(passes | score.is_null() if column == "similarity" else passes)
    hours = {None: 0.0, -1.0: 0.0, 7.5: 7.5 / 3600, 3600.0: 1.0}
    assert counts.segments[position] == len(kept)
    assert counts.hours[position] == pytest.approx(
        sum(hours[value] for value in kept["duration_s"])
    )
    gone = set(table["speaker_id"]) - set(kept["speaker_id"])
    assert counts.vanished[position] == len(gone)
    assert counts.all_speakers == len(set(table["speaker_id"]))
    for i, name in enumerate(counts.speakers):
        mine = kept.filter(pl.col("speaker_id").fill_null(UNKNOWN) == name)
        assert counts.speaker_segments[i, position] == len(mine)
        assert counts.speaker_hours[i, position] == pytest.approx(
            sum(hours[value] for value in mine["duration_s"])
        )


def test_more_speakers_than_are_listed_are_still_counted(monkeypatch):
    monkeypatch.setattr(threshold_tuner, "MOST_SPEAKERS", 2)
    table = pl.DataFrame(
        {
            "speaker_id": list("abcd"),
            "duration_s": [1.0, 4.0, 2.0, 3.0],
            "similarity": [0.1, 0.5, 0.9, 0.95],
        }
    )
    counts = ThresholdCounts(table, "similarity")
    assert counts.speakers == ("b", "d")
    assert counts.vanished[counts.scale.position(0.6)] == 2
    assert counts.segments[counts.scale.position(0.6)] == 2


@given(st.lists(st.floats(0, 1), max_size=30), st.floats(0, 1), st.booleans())
def test_examples_are_the_nearest_segments_on_both_sides_of_the_threshold(scores, value, least):
    place = {
        "start_sample": [0] * len(scores),
        "end_sample": [5] * len(scores),
        "num_samples": [5] * len(scores),
    }
    table = pl.DataFrame(
        {"wer": scores, **place}, schema={"wer": pl.Float64, **dict.fromkeys(place, pl.Int64)}
    )
    scale = threshold_tuner.Scale("wer", "", (0.0, 1.0), least)
    kept, out = Neighbors(table).around(scale, value, 3)
    passes = [score >= value if least else score <= value for score in scores]
    assert len(kept) == min(3, sum(passes))
    assert len(out) == min(3, len(scores) - sum(passes))
    distance = [abs(score - value) for score in scores]
    for found, side in ((kept, True), (out, False)):
        expected = sorted(distance[i] for i in range(len(scores)) if passes[i] is side)[:3]
        assert [distance[i] for i in found] == expected


def test_the_threshold_curve_of_plots_equals_the_tuner(make_workspace):
    workspace = make_workspace({"a.wav": (30.0, 16000)})
    scores = np.linspace(-1, 1, len(workspace.segments)).round(2)
    workspace.save(segments=workspace.segments.with_columns(similarity=pl.Series(scores)))
    curve = views.threshold_curve(workspace)
    counts = widgets.ThresholdTuner(workspace)._counted("similarity")
    edges = list(counts.scale.edges)
    assert curve["threshold"].to_list() == pytest.approx(
        [counts.scale.grid[edge] for edge in edges]
    )
    assert curve["segments"].to_list() == counts.segments[edges].tolist()
    np.testing.assert_allclose(curve["hours"], counts.hours[edges])


def test_front_end_gets_counts_once_and_examples_where_the_threshold_is(make_workspace):
    workspace = make_workspace({"a.wav": (30.0, 16000)})
    scores = [0.1 * i for i in range(len(workspace.segments))]
    workspace.save(segments=workspace.segments.with_columns(similarity=pl.Series(scores)))
    tuner = widgets.ThresholdTuner(workspace, 0.35)
    said, (kept, hours) = ask(tuner, "tuner.open", column="similarity")
    assert len(kept) == len(hours) == 4 * len(said["speakers"]) * (len(said["grid"]) + 1)
    by_speaker = np.frombuffer(kept, np.uint32).reshape(len(said["speakers"]), -1)
    assert by_speaker.sum(axis=0).tolist() == [*said["segments"], said["all_segments"]]
    examples, _ = ask(tuner, "tuner.examples", column="similarity", value=0.35)
    assert [round(one["score"], 1) for one in examples["kept"]] == [0.4, 0.5, 0.6]
    assert [round(one["score"], 1) for one in examples["out"]] == [0.3, 0.2, 0.1]
    for column in COLUMNS:
        assert ask(tuner, "tuner.open", column=column)[0]["label"]
    assert "unknown" in ask(tuner, "tuner.open", column="x")[0]["error"]
    page = tuner.static_html()
    assert f"at {tuner.value:.2f} kept" in page
    assert len(sounds(page)) == 6


@pytest.mark.parametrize("column", list(COLUMNS))
def test_a_workspace_that_is_not_scored_has_a_tuner_all_the_same(tmp_path, column):
    workspace = Workspace.create(tmp_path / "w", source="made", audio=None)
    workspace.save(
        recordings=pl.DataFrame({"recording_id": ["r"]}),
        segments=pl.DataFrame({"segment_id": ["s"], "recording_id": ["r"]}),
    )
    tuner = widgets.ThresholdTuner(workspace, 7, column=column)
    assert tuner.value == 1.0
    Page(tuner.static_html()).check_harmless()
    assert not math.isnan(tuner._counted(column).hours[0])
    with pytest.raises(
        InputError,
        match=(
            "column 'x' holds no numbers, or is unknown; columns to choose are similarity, "
            "wer, duration_s"
        ),
    ):
        widgets.ThresholdTuner(workspace, column="x")


def test_bars_below_the_threshold_are_hollow_and_a_divided_bar_part_full():
    table = pl.DataFrame(
        {
            "speaker_id": ["a"] * 5,
            "duration_s": [1.0] * 5,
            "similarity": [-1.0, 0.991, 0.996, 0.997, 0.999],
        }
    )
    counts = ThresholdCounts(table, "similarity")
    plot = counts.plot(counts.scale.position(0.995))
    Page(plot.img()).check_harmless()
    full, hollow = ([bar.get_height() for bar in bars] for bars in plot.axes[0].containers)
    assert (full[-1], hollow[-1], hollow[0], sum(full), sum(hollow)) == (3, 1, 1, 3, 2)


@pytest.mark.parametrize("value", [0.835, 0.9985, -0.333])
def test_a_value_between_two_positions_is_counted_as_it_is(value):
    scores = [-0.4, -0.333, 0.83, 0.834, 0.835, 0.84, 0.998, 0.9985, 0.999, 1.0]
    table = pl.DataFrame(
        {"speaker_id": ["a"] * 10, "duration_s": [3600.0] * 10, "similarity": scores}
    )
    counts = ThresholdCounts(table, "similarity", value)
    position = counts.scale.position(value)
    assert counts.scale.grid[position] == value
    assert (
        counts.segments[position]
        == counts.hours[position]
        == sum(score >= value for score in scores)
    )
    assert counts.line(position).startswith(f"at {value} kept")
    # The bars are the same as without it.
    bars = [
        np.add.reduceat(each.bins, each.scale.edges[:-1]).tolist()
        for each in (counts, ThresholdCounts(table, "similarity"))
    ]
    assert bars[0] == bars[1]
    assert len(bars[0]) == threshold_tuner.STEPS


def test_the_axis_begins_where_the_data_is_until_the_threshold_is_below():
    scores = [-1.0, 0.2, *np.linspace(0.75, 1, 198)]
    table = pl.DataFrame({"speaker_id": "a", "duration_s": 1.0, "similarity": scores})
    counts = ThresholdCounts(table, "similarity")
    assert counts.scale.grid[counts.axis.start] == 0.7
    assert counts.scale.grid[0] == -1  # it can be moved there all the same
    for value, begin, label in (
        (0.8, 0.7, "similarity, 0.7 to 1\nfirst bar: with 2 segments below 0.7"),
        (0.7, 0.7, "similarity, 0.7 to 1\nfirst bar: with 2 segments below 0.7"),
        (0.69, -1, "similarity, −1 to 1"),
    ):
        [axes] = counts.plot(counts.scale.position(value)).axes
        full, hollow = axes.containers
        assert (full[0].get_x(), axes.get_xlabel()) == (begin, label)
        assert sum(bar.get_height() for bar in full) == sum(score >= value for score in scores)
        assert sum(bar.get_height() for bar in hollow) == sum(score < value for score in scores)


def test_the_axis_of_another_column_says_what_its_outermost_bars_hold():
    values = [-50.0, *np.linspace(1, 2, 400), 70.0, 80.0]
    table = pl.DataFrame({"speaker_id": "a", "duration_s": 1.0, "snr_db": values})
    [axes] = ThresholdCounts(table, "snr_db").plot(0).axes
    assert axes.get_xlabel() == "snr_db\noutermost bars: with 1 below and 2 above"
    inside = ThresholdCounts(table[1:51], "snr_db").plot(0).axes[0]
    assert inside.get_xlabel() == "snr_db"


def test_the_axes_of_the_saved_picture_are_named(make_workspace):
    tuner = widgets.ThresholdTuner(make_workspace({"a.wav": (9.0, 16000)}), column="duration_s")
    [axes] = tuner._counted("duration_s").plot(0).axes
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("duration in seconds", "segments")


def test_examples_without_audio_follow_those_with_audio():
    place = {
        "start_sample": [0, None, None, 0],
        "end_sample": [5, None, None, 5],
        "num_samples": [5, None, None, 4],
    }
    schema = {"similarity": pl.Float64, **dict.fromkeys(place, pl.Int64)}
    table = pl.DataFrame({"similarity": [0.95, 0.85, 0.7, 0.75], **place}, schema=schema)
    neighbors, scale = Neighbors(table), threshold_tuner.scale(table, "similarity")
    # What can be played comes first though others are nearer.
    assert neighbors.around(scale, 0.8, 1) == ([0], [3])
    assert neighbors.around(scale, 0.8, 3) == ([0, 1], [3, 2])


def test_without_audio_the_tuner_shows_texts_on_both_sides(tmp_path):
    workspace = Workspace.create(tmp_path / "w", source="made", audio=None)
    segments = {
        "segment_id": ["a", "b"],
        "recording_id": "r",
        "text": ["dobar dan", "laku noć"],
        "similarity": [0.9, 0.1],
    }
    workspace.save(
        recordings=pl.DataFrame({"recording_id": ["r"]}), segments=pl.DataFrame(segments)
    )
    tuner = widgets.ThresholdTuner(workspace)
    examples, _ = ask(tuner, "tuner.examples", column="similarity", value=0.8)
    assert [one["text"] for one in examples["kept"] + examples["out"]] == ["dobar dan", "laku noć"]
    assert "laku noć" in tuner.static_html()


def test_the_chosen_threshold_is_stored_for_select_and_is_where_the_next_tuner_starts(
    make_workspace,
):
    workspace = make_workspace({"a.wav": (30.0, 16000)})
    tuner = widgets.ThresholdTuner(workspace)
    assert (tuner.value, tuner.used) == (0.8, None)
    assert workspace.threshold is None
    ask(tuner, "tuner.use", value=0.835)
    assert (tuner.used, workspace.threshold) == (0.835, 0.835)
    assert "similarity 0.835" in tuner.static_html()
    assert widgets.ThresholdTuner(workspace).value == 0.835
    assert widgets.ThresholdTuner(workspace, 0.5).value == 0.5
    tuner.value = 0.9
    tuner.use()
    assert workspace.threshold == 0.9
    assert "must be from -1 to 1" in ask(tuner, "tuner.use", value=7)[0]["error"]
    with pytest.raises(InputError, match="select\\(workspace, where='wer <= "):
        widgets.ThresholdTuner(workspace, column="wer").use()
    assert workspace.threshold == 0.9


def test_the_threshold_links_to_a_number_field_of_ipywidgets(make_workspace):
    tuner = widgets.ThresholdTuner(make_workspace({"a.wav": (30.0, 16000)}), 0.7)
    field = ipywidgets.BoundedFloatText(min=-1, max=1, step=0.01)
    ipywidgets.link((tuner, "value"), (field, "value"))
    assert field.value == 0.7
    field.value = 0.835
    assert tuner.value == 0.835
    assert ipywidgets.jslink((tuner, "value"), (field, "value")).source == (tuner, "value")


@given(ROWS, st.sampled_from(["similarity", "wer"]))
def test_histogram_bins_count_every_scored_segment(rows, measure):
    counts = ThresholdCounts(frame(rows), measure)
    assert counts.bins.sum() == len(rows) - counts.unscored
    assert (counts.bins >= 0).all()


@pytest.mark.slow
def test_verified_precision_is_that_of_the_evidence_at_every_position(make_workspace, tmp_path):
    workspace = make_workspace({"a.wav": (60.0, 16000)})
    scores = np.linspace(0.5, 1, len(workspace.segments)).round(3)
    workspace.save(segments=workspace.segments.with_columns(similarity=pl.Series(scores)))
    tuner = widgets.ThresholdTuner(workspace, 0.8)
    assert ask(tuner, "tuner.evidence", column="similarity")[0] is None
    review.export(workspace, out=tmp_path / "sheet.xlsx", n=12, blind=False)
    panel = widgets.ReviewPanel(workspace, review="sheet", reviewer="ana")
    for number in range(12):
        word = "ok" if panel._rows.frame["similarity"][number] > 0.7 else "wrong words"
        ask(panel, "review.give", number=number, verdict=word, comment="", corrected_text=None)
    proof, _ = ask(tuner, "tuner.evidence", column="similarity")
    row = curve(ProofState.load(workspace), [0.8]).row(0, named=True)
    at = tuner._counted("similarity").scale.position(0.8)
    assert {name: proof[name][at] for name in proof} == {name: row[name] for name in proof}
    assert proof["precision"][at] == 1.0
    assert "verified precision 100.0%" in tuner.static_html()
    # Of another column the claim is about what `select` would keep by the condition; turned around,
    # it is the same.
    rows = workspace.segments.with_row_index("n")
    snr = pl.when(pl.col("n") % 4 > 0).then(pl.col("similarity") * 40).round(1)
    workspace.save(segments=rows.with_columns(snr_db=snr, noise_floor_dbfs=-snr).drop("n"))
    tuner = widgets.ThresholdTuner(workspace, 32.0, column="snr_db")
    at, kept = (
        tuner._counted("snr_db", 32.0).scale.position(32.0),
        workspace.segments.filter(pl.col("snr_db") >= 32),
    )
    assert tuner._counted("snr_db", 32.0).segments[at] == len(kept) > 0
    proof, _ = ask(tuner, "tuner.evidence", column="snr_db", value=32.0)
    state = ProofState(workspace, Kinds("snr_db", cuts=[32.0]))
    claim = above(state, 32.0).by("segments", target=0.98, error=0.025, high_error=0.025)
    where = state.population.mask(kept["segment_id"]) & state.population.reviewable
    assert claim["segments"] == where.sum() > 0
    assert {name: proof[name][at] for name in proof} == {name: claim[name] for name in proof}
    other, _ = ask(tuner, "tuner.evidence", column="noise_floor_dbfs", value=-32.0, least=False)
    mirrored = tuner._counted("noise_floor_dbfs", -32.0).scale.position(-32.0)
    assert {name: other[name][mirrored] for name in proof} == {name: claim[name] for name in proof}


def test_a_threshold_on_another_column_is_the_condition_that_select_takes(make_workspace):
    workspace = make_workspace({"a.wav": (60.0, 16000)})
    values = [None, *(5.0 * n for n in range(len(workspace.segments) - 1))]
    segments = workspace.segments.with_columns(
        snr_db=pl.Series(values), clipped_share=pl.Series(values) / 1000, cut_end=True
    )
    workspace.save(segments=segments.with_columns(similarity=1.0))
    tuner = widgets.ThresholdTuner(workspace, 10.0, column="snr_db")
    assert (tuner.where, tuner.least) == ("snr_db >= 10", True)
    select(workspace, where=tuner.where, dev=0, test=0)
    kept = workspace.segments.filter(decision="accept")["snr_db"]
    counts = tuner._counted("snr_db", 10.0)
    assert counts.segments[counts.scale.position(10.0)] == len(kept)
    assert kept.min() == 10.0
    page = tuner.static_html()
    assert "select(workspace, where=&#x27;snr_db &gt;= 10&#x27;)" in page
    without = "1 segment without a value is not kept"
    assert f"; {without}</p>" in page
    assert ask(tuner, "tuner.open", column="snr_db")[0]["without_value"] == without
    assert ask(tuner, "tuner.open", column="similarity")[0]["without_value"] == ""
    assert len(sounds(page)) == 5  # three just kept, two out
    with pytest.raises(
        InputError,
        match=r"only a similarity can be stored; this threshold is .*where='snr_db >= 10'",
    ):
        tuner.use()
    # Unless told otherwise, what is worse is out: by default about 95 % of the values are kept.
    lower = widgets.ThresholdTuner(workspace, column="clipped_share")
    assert lower.where.startswith("clipped_share <= 0.0")
    assert (
        widgets.ThresholdTuner(workspace, 0.01, column="clipped_share", least=True).where
        == "clipped_share >= 0.01"
    )
    said, _ = ask(tuner, "tuner.open", column="clipped_share")
    assert said["label"] == "clipped_share, at most"
    assert {"snr_db", "clipped_share"} <= set(said["columns"])
    with pytest.raises(
        InputError, match="least=False: a threshold on similarity is the least value"
    ):
        widgets.ThresholdTuner(workspace, least=False)
    with pytest.raises(InputError, match="'cut_end' holds no numbers"):
        widgets.ThresholdTuner(workspace, column="cut_end")


def test_counts_and_thresholds_are_described_in_words():
    table = pl.DataFrame(
        {"speaker_id": ["a", "b"], "duration_s": [1800.0, 5400.0], "similarity": [0.3, 0.9]}
    )
    counts = ThresholdCounts(table, "similarity")
    line = counts.line(counts.scale.position(0.8))
    assert line == "at 0.80 kept: 1 segments (50.0%), 1.5 hours (75.0%), 1 of 2 speakers gone"
    unscored = table.with_columns(similarity=pl.lit(None, pl.Float64))
    table = pl.concat([table, unscored])
    counts = ThresholdCounts(table, "similarity")
    line = counts.line(counts.scale.position(0.8))
    assert line == (
        "at 0.80 kept: 3 segments (75.0%), 3.5 hours (87.5%); 2 segments without a value are kept"
    )
    assert [format_threshold(value) for value in (0.8, 0.995)] == ["0.80", "0.995"]
    proof = {"reviewed": [200], "precision": [0.97], "low": [0.94], "high": [0.985]}
    assert describe_precision(proof, 0) == "verified precision 97.0% (94.0% to 98.5%), 200 reviewed"
