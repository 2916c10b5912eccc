"""Views and plots show the contents of the workspace, whatever names and numbers it has."""

import io
import re
import subprocess
import sys
from functools import partial
from html.parser import HTMLParser
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hostile import MARKUP, NAMES
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from nbaudio.core.errors import InputError
from nbaudio.tables.schemas import RECORDINGS, SEGMENTS, SIGNALS
from nbaudio.tables.workspace import Workspace
from nbaudio.text.score import score
from nbaudio.ui import plots, views
from nbaudio.ui.histogram_bins import equal_width_edges
from nbaudio.ui.similarity_axis import similarity_axis
from nbaudio.ui.statistics.stats import stats
from nbaudio.ui.widgets.table_view import distribution
from nbaudio.ui.widgets.threshold_tuner import ThresholdCounts

HOSTILE = [*MARKUP[8:], *NAMES[-5:], "漢字"]


@pytest.fixture
def workspace_of(tmp_path):
    """A workspace of given rows; what is left out is null."""

    def make(segments, recordings=None):
        workspace = Workspace.create(tmp_path / "w", source="made", audio=None)
        if recordings is None:
            recordings = [
                {"recording_id": key, "sampling_rate": 100, "num_samples": 100_000}
                for key in dict.fromkeys(row["recording_id"] for row in segments)
            ]
        workspace.save(
            recordings=pl.DataFrame(recordings, schema_overrides=RECORDINGS),
            segments=pl.DataFrame(segments, schema_overrides=SEGMENTS),
        )
        return workspace

    return make


def segment(number, *, seconds=10, recording="r", **further):
    times = {"start_sample": 2000 * number, "end_sample": 2000 * number + 100 * seconds}
    return {
        "segment_id": f"s{number:03}",
        "recording_id": recording,
        "text": "da",
        **times,
        **further,
    }


# views


def test_examples_are_ordered_by_similarity_or_random(workspace_of):
    scores = [0.9, -1.0, 0.8, None, 0.79, 0.2, 1.0]
    workspace = workspace_of([segment(i, similarity=score) for i, score in enumerate(scores)])

    def found(order, n=3):
        return views.examples(workspace, order, n=n)["similarity"].to_list()

    assert found("worst") == [-1.0, 0.2, 0.79]
    assert found("best") == [1.0, 0.9, 0.8]
    assert len(found("random", n=100)) == len(scores)
    with pytest.raises(InputError, match=r"'wurst' is unknown; known are worst, best"):
        found("wurst")


def test_random_examples_follow_the_seed_and_not_the_order_of_rows(workspace_of):
    rows = [segment(i, similarity=0.5) for i in range(50)]
    one = views.examples(workspace_of(rows), "random", n=5, seed=1)["segment_id"].to_list()
    assert (
        views.examples(workspace_of(rows[::-1]), "random", n=5, seed=1)["segment_id"].to_list()
        == one
    )
    assert views.examples(workspace_of(rows), "random", n=5, seed=2)["segment_id"].to_list() != one


def test_playable_examples_are_inside_their_recording(workspace_of):
    rows = [
        segment(0, similarity=0.1),
        segment(1, similarity=0.2, seconds=9000),
        segment(2, similarity=0.3, recording="absent"),
    ]
    rows += [
        segment(3, similarity=0.4, seconds=0),
        segment(4, similarity=0.5) | {"start_sample": None},
    ]
    here = {"recording_id": "r", "sampling_rate": 100, "num_samples": 100_000}
    workspace = workspace_of(
        rows, [here, {"recording_id": "absent", "sampling_rate": None, "num_samples": None}]
    )
    assert views.examples(workspace, "worst")["segment_id"].to_list() == ["s000"]
    assert len(views.examples(workspace, "worst", playable=False)) == 5


@settings(max_examples=40, deadline=None)
@given(
    scores=st.lists(
        st.one_of(st.none(), st.just(float("nan")), st.integers(-100, 100).map(lambda n: n / 100)),
        max_size=30,
    ),
    length=st.integers(1, 40),
)
def test_threshold_curve_counts_what_select_would_keep(scores, length, tmp_path_factory):
    workspace = Workspace.create(tmp_path_factory.mktemp("curve"), source="made", audio=None)
    rows = [segment(i, similarity=score, seconds=length) for i, score in enumerate(scores)]
    recording = pl.DataFrame({"recording_id": ["r"], "sampling_rate": [100]})
    workspace.save(
        recordings=recording,
        segments=pl.DataFrame(rows, schema_overrides=SEGMENTS) if rows else SEGMENTS.to_frame(),
    )
    curve = views.threshold_curve(workspace)
    assert curve["threshold"].to_list() == [round(n / 100, 2) for n in range(-100, 101)]
    for threshold, segments, hours in curve.select("threshold", "segments", "hours").iter_rows():
        kept = sum(score is None or np.isnan(score) or score >= threshold for score in scores)
        assert segments == kept
        assert hours == pytest.approx(kept * length / 3600, abs=1e-12)


def test_invalid_times_add_no_hours(workspace_of):
    times = [("0", "Infinity"), ("NaN", "5"), ("9", "2"), ("0", "3600")]
    rows = [
        {
            "segment_id": f"s{i}",
            "recording_id": "r",
            "source_start": start,
            "source_end": end,
            "reason": "no_times",
            "text": "da",
        }
        for i, (start, end) in enumerate(times)
    ]
    workspace = workspace_of(rows, [{"recording_id": "r"}])
    assert views.reasons(workspace).select("segments", "hours").row(0) == (4, 1.0)
    assert views.recordings(workspace)["transcribed_s"].to_list() == [3600.0]


def test_hours_of_speakers_are_counted_by_split(workspace_of):
    rows = [
        segment(0, seconds=3600, speaker_id="a", split="train"),
        segment(1, seconds=1800, speaker_id="a"),
    ]
    rows += [segment(2, seconds=3600, speaker_id="b", split="test"), segment(3, seconds=3600)]
    assert views.speakers(workspace_of(rows)).rows() == [
        ("a", 1.0, 0.0, 0.0, 0.5),
        ("b", 0.0, 0.0, 1.0, 0.0),
        (None, 0.0, 0.0, 0.0, 1.0),
    ]


def test_missing_and_ambiguous_names_come_first(workspace_of):
    workspace = workspace_of([segment(0)])
    decisions = pl.Enum(["exact", "blanks", "ambiguous", "missing"])
    audit = {
        "name": ["a", "b", "c", "d"],
        "decision": ["exact", "missing", "blanks", "ambiguous"],
        "path": None,
        "candidates": [[]] * 4,
    }
    workspace.save(
        names=pl.DataFrame(audit, schema_overrides={"decision": decisions, "path": pl.String})
    )
    assert views.names(workspace)["name"].to_list() == ["b", "d", "c", "a"]


# plots


def pixels(plot):
    return imread(io.BytesIO(plot._repr_png_()))


def bar_lengths(axes, number):
    return [bar.get_width() for bar in axes.containers[number]]


def test_what_a_notebook_shows_of_a_plot_are_the_files_that_it_makes_alone(workspace_of):
    workspace = workspace_of([segment(number, seconds=3 + number) for number in range(9)])
    score(workspace)
    shown = plots.scores(workspace)._repr_mimebundle_()
    assert list(shown) == ["text/html", "image/png"]
    assert shown["image/png"] == plots.scores(workspace)._repr_png_()
    assert plots.scores(workspace).svg() in shown["text/html"]
    assert shown["text/html"].endswith(plots.scores(workspace).img())


def test_recordings_are_bars_of_their_lengths(workspace_of):
    recordings = [
        {"recording_id": key, "sampling_rate": 100, "num_channels": 1, "num_samples": 6000 * n}
        for n, key in enumerate("ab", 2)
    ]
    workspace = workspace_of(
        [segment(0, seconds=60, recording="b")], [*recordings, {"recording_id": "c"}]
    )
    (axes,) = plots.recordings(workspace).axes
    assert axes.get_xlabel() == "length [min]"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "a", "c"]
    assert bar_lengths(axes, 0) == [3, 2, 0]
    assert bar_lengths(axes, 1) == [1, 0, 0]
    assert [text.get_text().strip() for text in axes.texts][-1] == "no audio"


def archive(number, *, truncated=(), audio=True):
    """Recordings of 10 to 100 s, and segments of half of each; those of truncated ones go on past
    the end."""
    recordings = []
    rows = []
    for n in range(number):
        seconds = 10 + n % 91
        recordings.append(
            {
                "recording_id": f"r{n:03}",
                "codec": "flac" if audio else None,
                "sampling_rate": (16000 if n % 3 else 48000) if audio else None,
                "num_channels": 2 if audio else None,
                "num_samples": (16000 if n % 3 else 48000) * seconds if audio else None,
            }
        )
        rate = recordings[-1]["sampling_rate"]
        start = seconds * 3 / 4 if n in truncated else seconds / 4
        rows.append(
            {
                "segment_id": f"s{n}",
                "recording_id": f"r{n:03}",
                "text": "da",
                "source_start": str(start),
                "source_end": str(start + seconds / 2),
                "start_sample": round(rate * start) if audio else None,
                "end_sample": round(rate * (start + seconds / 2)) if audio else None,
            }
        )
    return rows, recordings


def heights(container):
    return [bar.get_height() for bar in container]


def test_many_recordings_become_histograms_of_lengths_and_transcribed_shares(workspace_of):
    plot = plots.recordings(workspace_of(*archive(742, truncated=(3, 200, 641))))
    lengths, shares = plot.axes
    assert sum(sum(heights(container)) for container in lengths.containers) == 742
    assert [text.get_text() for text in lengths.get_legend().get_texts()] == [
        "16 kHz, stereo: 494",
        "48 kHz, stereo: 248",
    ]
    whole, truncated = map(heights, shares.containers)
    assert (sum(whole), sum(truncated)) == (739, 3)
    assert whole[9] + whole[10] == 739  # half of each
    assert [text.get_text() for text in shares.get_legend().get_texts()] == [
        "whole: 739",
        "truncated: 3",
    ]
    assert re.fullmatch(r"Transcribed: [\d.]+ h of [\d.]+ h \(50 %\)", shares.get_title("left"))
    named = "3 recordings are truncated; segments past the end: r003 (1 segment), r200 (1 segment),"
    assert named in plot.get_supxlabel()
    assert "r641 (1 segment)" in plot.alt_text


@pytest.mark.parametrize("number", [5, 742])
def test_the_plot_of_recordings_says_that_there_is_no_audio(workspace_of, number):
    plot = plots.recordings(workspace_of(*archive(number, audio=False)))
    (axes,) = plot.axes
    assert plot.get_suptitle().startswith("There is no audio in this workspace")
    assert axes.get_title("left") == f"{number} recordings, none with audio"
    assert "There is no audio in this workspace" in plot.alt_text
    [bars] = axes.containers
    drawn = sum(heights(bars)) if number > 24 else len(bars)
    assert drawn == number


def test_a_truncated_recording_is_named_at_its_bar(workspace_of):
    plot = plots.recordings(workspace_of(*archive(4, truncated=(2,))))
    notes = [text.get_text() for text in plot.axes[0].texts]
    assert notes == [
        "flac, 48 kHz, stereo",
        "flac, 16 kHz, stereo; truncated, 1 segment past the end",
        "flac, 16 kHz, stereo",
        "flac, 48 kHz, stereo",
    ]
    assert views.recordings(workspace_of(*archive(4, truncated=(2,))))["past_the_end"].sum() == 1


def test_recordings_of_equal_length_are_a_sentence_instead_of_a_histogram(workspace_of):
    _, recordings = archive(30)
    same = [row | {"num_samples": row["sampling_rate"] * 600} for row in recordings]
    lengths, _ = plots.recordings(workspace_of([segment(0)], same)).axes
    assert not lengths.containers
    assert "All 30 recordings are 10 min long" in lengths.texts[0].get_text().replace("\n", " ")


def test_an_axis_of_similarity_begins_where_the_data_is_and_says_so(workspace_of):
    values = [-1.0, 0.2, *np.linspace(0.75, 1, 198)]
    workspace = workspace_of([segment(i, similarity=s, wer=0.1) for i, s in enumerate(values)])
    axes = plots.scores(workspace).axes[0]
    assert axes.get_xlabel() == "similarity, 0.7 to 1\nfirst bar: with 2 segments below 0.7"
    assert axes.get_xlim() == pytest.approx((0.694, 1.006))
    [bars] = axes.containers
    assert (bars[0].get_x(), bars[0].get_height()) == (0.7, 2)
    assert sum(heights(bars)) == 200
    title = Drawing(plots.scores(workspace).svg()).texts["title"][0]
    assert title == "similarity: less than 0.71\nsegments: 2"


@pytest.mark.parametrize(
    ("values", "threshold", "least", "below"),
    [
        ([0.95, 0.99], None, 0.9, 0),
        ([0.95, 0.99], 0.8, 0.7, 0),
        ([0.95, 0.99], -1.0, -1.0, 0),
        ([0.62] * 2 + [0.9] * 98, None, 0.6, 0),
        ([0.62] + [0.93] * 98, None, 0.9, 1),
        ([-0.35, 0.5, 1.0], None, -0.4, 0),
        ([-0.5, 0.5, 1.0], None, -0.6, 0),
        ([], 0.8, -1.0, 0),
    ],
)
def test_the_similarity_axis_covers_the_values_and_the_threshold(values, threshold, least, below):
    axis = similarity_axis(np.array(values), threshold=threshold)
    assert (axis.least, axis.below) == (least, below)
    assert (axis.edges[0], axis.edges[-1]) == (least, 1)
    assert len(axis.edges) <= 51
    assert np.diff(axis.edges) == pytest.approx(axis.edges[1] - least)


def test_the_threshold_is_inside_the_axes_and_its_note_beside_it(workspace_of):
    workspace = workspace_of([segment(i, similarity=0.9 + i / 1000) for i in range(100)])
    for value, side in ((0.35, "left"), (0.95, "right")):
        for axes in plots.threshold(workspace, value).axes:
            low, high = axes.get_xlim()
            assert low < value < high
            assert "to 1" in axes.get_xlabel()
        assert axes.texts[0].get_ha() == side


def test_threshold_parts_the_histogram_and_marks_the_curve(workspace_of):
    scores = [0.9, 0.95, 0.8, 0.1]
    left, right = plots.threshold(
        workspace_of([segment(i, similarity=s, seconds=15) for i, s in enumerate(scores)]), 0.8
    ).axes
    out, kept = left.containers
    assert (sum(bar.get_height() for bar in out), sum(bar.get_height() for bar in kept)) == (1, 3)
    marker = right.lines[1]
    assert (marker.get_xdata()[0], marker.get_ydata()[0]) == (0.8, pytest.approx(45))
    assert "kept [s]" in right.get_ylabel()
    assert "75% of all" in right.texts[0].get_text()


def test_the_plot_of_scores_counts_every_segment(workspace_of):
    rows = [
        segment(i, similarity=i / 9, wer=wer, seconds=i + 1)
        for i, wer in enumerate([0.0, 0.5, 7.0, float("nan")])
    ]
    drawn = plots.scores(workspace_of(rows)).axes
    assert [sum(heights(axes.containers[0])) for axes in drawn] == [4, 3, 4]


def test_equal_values_are_a_sentence_instead_of_a_histogram(workspace_of, tmp_path):
    rows = [
        {
            "segment_id": f"s{start}",
            "recording_id": "r",
            "text": "da",
            "source_start": start,
            "source_end": end,
            "similarity": 1.0,
        }
        for start, end in (("0", "5.2"), ("12.4", "17.6"), ("1000.1", "1005.3"))
    ]
    workspace = workspace_of(rows, [{"recording_id": "r"}])
    durations = views.segments(workspace)["duration_s"]
    assert 0 < durations.max() - durations.min() < 1e-12
    plot = plots.scores(workspace)
    assert [axes.texts[0].get_text() for axes in plot.axes] == [
        "1 in all 3 segments.",
        "No segment has a value.",
        "5.2 s in all 3 segments.",
    ]
    assert not any(axes.containers for axes in plot.axes)
    assert plot.alt_text == (
        "Histograms. Similarity: 1 in all 3 segments; Duration: 5.2 s in all 3 segments"
    )
    left, right = plots.threshold(workspace).axes
    assert left.texts[0].get_text() == "1 in all 3 segments."
    assert right.lines
    assert stats(workspace.path, out=tmp_path / "page.html").facts["page"]


# signals


@pytest.mark.slow
def test_every_panel_of_signals_has_title_unit_and_counts(workspace_of):
    names = [name for name, dtype in SIGNALS.items() if dtype != pl.Boolean]
    rows = [
        segment(i, **dict.fromkeys(names, 0.01 * i), cut_start=i == 3, cut_end=i % 2 == 0)
        for i in range(9)
    ]
    rows[0]["snr_db"] = None
    plot = plots.signals(workspace_of(rows))
    assert len(plot.axes) == len(SIGNALS) == 15
    labels = {axes.get_title("left"): axes.get_xlabel() for axes in plot.axes}
    assert len(labels) == 15
    assert labels["Signal-to-noise ratio"] == "snr_db [dB]\n1 without a value"
    assert labels["Speech rate"] == "speech_rate [characters/s]"
    assert labels["Speech cut at the start"] == "cut_start"
    for axes, (name, dtype) in zip(plot.axes, SIGNALS.items(), strict=True):
        label = axes.get_xlabel()
        assert label == name if dtype == pl.Boolean else label.startswith(f"{name} [")
        assert axes.get_ylabel() == "segments"
    assert not overlapping_texts(plot)


def overlapping_texts(plot):
    """Titles, labels and ticks that lie on each other or outside the plot."""
    plot._repr_png_()  # places all of them
    texts = [text for axes in plot.axes for text in texts_of(axes) if text.get_text()]
    boxes = [text.get_window_extent() for text in texts]
    outside = [
        text.get_text()
        for text, box in zip(texts, boxes, strict=True)
        if box.x0 < 0 or box.x1 > plot.bbox.x1
    ]
    pairs = combinations(zip(texts, boxes, strict=True), 2)
    return outside + [
        (text.get_text(), other.get_text())
        for (text, box), (other, other_box) in pairs
        if box.overlaps(other_box)
    ]


def texts_of(axes):
    """Title, labels and drawn ticks of axes."""
    ticks = [*axes.xaxis._update_ticks(), *axes.yaxis._update_ticks()]
    labels = [tick.label1 for tick in ticks]
    return [axes._left_title, axes.xaxis.label, axes.yaxis.label, *labels]


def test_signals_with_equal_values_are_sentences_instead_of_histograms(workspace_of):
    rows = [
        segment(
            i,
            silence_share=0.0,
            clipped_share=0.02 if i == 7 else 0.0,
            channel_correlation=1.0,
            cut_end=False,
            snr_db=20.0 + i % 7,
        )
        for i in range(200)
    ]
    plot = plots.signals(workspace_of(rows))
    assert [axes.get_title("left") for axes in plot.axes] == ["Signal-to-noise ratio"]
    assert plot.get_suptitle().splitlines() == [
        "The outermost bars hold the lowest and the highest 0.5 % of the values.",
        "Clipped samples: 0 % in 199 of 200 segments, 2 % in the other.",
        "Digital silence: 0 % in all 200 segments.",
        "Channel correlation: 1 in all 200 segments.",
        "Speech cut at the end: no in all 200 segments.",
    ]
    assert "snr_db: median 23" in plot.alt_text
    assert "Digital silence: 0 % in all 200 segments" in plot.alt_text


@pytest.mark.parametrize(
    ("values", "bars"),
    [
        ([], 1),
        ([5.2], 1),
        ([5.2, 5.199999999999999], 1),
        ([-3.0, -3.0000000000000004], 1),
        ([0.0, 5e-324], 1),
        ([1e-310, 2e-310], 1),
        ([1e20, 1e20], 1),
        ([1.7e18, 1.7e18 + 256], 1),
        ([1.0, 2.0], 24),
        ([0.0, 1e-9], 24),
        ([-1.7e308, 1.7e308], 24),
    ],
)
def test_equal_or_denormal_values_get_a_histogram_of_one_bin(values, bars):
    counts = distribution(pl.Series(values, dtype=pl.Float64), np.arange(len(values))).get("counts")
    assert counts is None or (len(counts), sum(counts)) == (bars, len(values))
    edges = equal_width_edges(np.array(values), 24)
    assert len(edges) == bars + 1
    assert (np.diff(edges / 2) > 0).all()
    if values:
        assert edges[0] <= min(values)
        assert max(values) <= edges[-1]
        counts = ThresholdCounts(
            pl.DataFrame({"x": values, "speaker_id": "a", "duration_s": 1.0}), "x"
        )
        assert counts.segments.max() == len(values)


def test_sizes_of_splits_are_those_requested_or_five_percent(workspace_of):
    rows = [segment(n, speaker_id=f"s{n % 4}") for n in range(60)]
    rows += [segment(60 + n, reason="past_the_end", decision="reject") for n in range(20)]
    rows += [segment(80, reason="below_similarity", decision="reject")]
    workspace = workspace_of(rows)  # 61 usable segments of 10 s
    sizes = partial(views.split_sizes, workspace)
    assert sizes().rows() == [("train", 55, None), ("dev", 3, None), ("test", 3, None)]
    assert sizes(dev=30, test=0).rows()[0] == ("train", 31, None)
    hours = sizes(dev="0.05h", test="0.1h")["hours"].to_list()
    assert hours == pytest.approx([610 / 3600 - 0.15, 0.05, 0.1])
    assert sizes(dev=4, test="0.1h").rows() == [
        ("train", None, None),
        ("dev", 4, None),
        ("test", None, pytest.approx(0.1)),
    ]
    assert sizes(dev=2000, splits="source").is_empty()
    for dev, test in ((30, 31), (61, 0), ("0.1h", "0.07h"), ("1h", 0)):
        with pytest.raises(InputError, match="nothing would be left for train"):
            sizes(dev=dev, test=test)
    earlier = pl.DataFrame({"segment_id": ["s000"], "split": ["dev"], "sentence": ["da"]})
    workspace.save(earlier_splits=earlier)
    assert sizes(dev=30, test=31).height == 3


def test_the_plot_of_splits_counts_every_segment(workspace_of):
    rows = [
        segment(i, speaker_id=f"s{i % 3}", split=["train", "dev", "test"][i % 3]) for i in range(9)
    ]
    rows += [
        segment(9, speaker_id="s0", reason="too_long"),
        segment(10, reason="too_long"),
        segment(11, reason="duplicate"),
    ]
    left, right = plots.splits(workspace_of(rows)).axes
    assert [sum(bar_lengths(left, number)) for number in range(4)] == [30, 30, 30, 30]
    assert [text.get_text() for text in left.figure.legends[0].get_texts()] == [
        f"{name}: 30 s" for name in ("train", "dev", "test", "out")
    ]
    assert bar_lengths(right, 0) == [2, 1]
    assert [label.get_text() for label in right.get_yticklabels()] == ["too_long", "duplicate"]


@pytest.mark.parametrize("count", [3, 200])
def test_shards_are_drawn_as_bars_or_a_histogram_of_sizes(monkeypatch, count):
    listed = [
        {
            "name": f"train/{n}.tar",
            "split": "train" if n else "dev",
            "segments": 2,
            "bytes": 10**6 * (n + 1),
            "sha256": "0",
        }
        for n in range(count)
    ]
    monkeypatch.setattr(
        plots, "open_corpus", lambda _: SimpleNamespace(shards=pl.DataFrame(listed))
    )
    (axes,) = plots.shards("CORPUS").axes
    bars = [bar for container in axes.containers for bar in container]
    assert (
        sum(bar.get_height() for bar in bars) == count
        if count > 24
        else [bar.get_width() for bar in bars] == [2, 3, 1]
    )
    assert axes.get_xlabel() == "size [MB]"


def test_the_plot_of_shards_refuses_a_folder_without_a_corpus(tmp_path):
    with pytest.raises(InputError, match=r"is .* a corpus"):
        plots.shards(tmp_path)


class Drawing(HTMLParser):
    """Texts of an SVG by the element that they are in, and its ids."""

    def __init__(self, html):
        super().__init__()
        self.texts, self.attributes, self.inside = {}, [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.inside = tag
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        self.inside = ""

    def handle_data(self, data):
        self.texts.setdefault(self.inside, []).append(data)


def test_values_are_shown_on_hover_and_in_words(workspace_of):
    scores = [0.9, 0.95, 0.8, 0.1]
    workspace = workspace_of(
        [segment(i, similarity=s, seconds=15, speaker_id="ana") for i, s in enumerate(scores)]
    )
    drawn = Drawing(plots.threshold(workspace, 0.8).svg())
    assert (
        "similarity of transcript and hypothesis: less than 0.12\nsegments: 1\nbelow: 1\nkept: 0"
        in drawn.texts["title"]
    )
    assert "threshold 0.85\nkept: 2 segments, 30 s, 50.0% of all hours" in drawn.texts["title"]
    [alt] = [value for tag, name, value in drawn.attributes if (tag, name) == ("svg", "aria-label")]
    assert "4 segments: 1 below 0.8, 3 kept" in alt
    assert (
        "ana\ntrain: 0 s\ndev: 0 s\ntest: 0 s\nout: 1 min"
        in Drawing(plots.splits(workspace).svg()).texts["title"]
    )


def test_a_drawing_has_the_colors_of_the_page_and_no_ids_of_others(workspace_of):
    workspace = workspace_of([segment(i, similarity=i / 9) for i in range(9)])
    one, other = plots.threshold(workspace, 0.8).svg(), plots.scores(workspace).svg()
    assert plots.threshold(workspace, 0.8).svg() == one
    assert "currentColor" in one
    assert "#000000" not in one
    names = [
        {value for _, name, value in Drawing(svg).attributes if name == "id"}
        for svg in (one, other)
    ]
    assert names[0]
    assert not names[0] & names[1]
    for svg, known in zip((one, other), names, strict=True):
        assert set(re.findall(r'(?:url\(|href=")#([^")]*)', svg)) == known


@pytest.mark.slow
def test_plots_draw_hostile_names_as_text(workspace_of):
    rows = [
        segment(
            i, recording=name, speaker_id=name, reason=name, similarity=0.5, wer=0.1, split="train"
        )
        for i, name in enumerate(HOSTILE)
    ]
    workspace = workspace_of(rows)
    for draw in (plots.recordings, plots.scores, plots.threshold, plots.splits):
        assert pixels(draw(workspace)).std() > 0
    for draw in (plots.recordings, plots.splits):
        drawn = Drawing(draw(workspace).svg())
        assert {title.partition("\n")[0] for title in drawn.texts["title"]} >= {
            name.partition("\n")[0] for name in HOSTILE
        }
        assert not {"script", "style", "a", "img", "foreignobject"} & {
            tag for tag, *_ in drawn.attributes
        }


@pytest.mark.slow
def test_plots_of_an_empty_or_unscored_workspace_are_drawn(workspace_of):
    empty = [dict.fromkeys(SEGMENTS)][:0]
    workspace = workspace_of(empty, [{"recording_id": "r"}])
    for draw in (plots.recordings, plots.scores, plots.threshold, plots.splits):
        assert pixels(draw(workspace)).std() > 0
    unscored = workspace_of([segment(0)])
    for draw in (plots.scores, plots.threshold):
        assert pixels(draw(unscored)).std() > 0


@pytest.mark.slow
def test_a_plot_shows_itself_once_with_and_without_the_inline_backend(workspace_of):
    """Without any backend by its own method; and where `%matplotlib inline` has its formatter,
    nothing is shown twice or kept."""
    workspace = workspace_of([segment(0, similarity=0.9)])
    code = f"""
import sys
from IPython.core.interactiveshell import InteractiveShell
from nbaudio import plots
shell = InteractiveShell.instance()
plot = plots.threshold({str(workspace.path)!r})
data, _ = shell.display_formatter.format(plot)
assert data["image/png"][:4] == b"\\x89PNG"
assert set(data) == {{"image/png", "text/html", "text/plain"}}, set(data)
assert "matplotlib.pyplot" not in sys.modules
from matplotlib import pyplot
from matplotlib_inline.backend_inline import configure_inline_support
configure_inline_support(shell, "module://matplotlib_inline.backend_inline")
data, _ = shell.display_formatter.format(plot)
assert set(data) == {{"image/png", "text/html", "text/plain"}}, set(data)
assert pyplot.get_fignums() == []
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_scores_of_a_further_hypothesis_are_plotted(workspace_of):
    workspace = workspace_of(
        [segment(i, text=text, asr_text="da") for i, text in enumerate(["da ne", "da"])]
    )
    further = pl.Series("asr_text_big", ["x y", "da"])
    workspace.save(segments=workspace.segments.with_columns(further))
    score(workspace, hypothesis=["asr", "big"])
    assert "Word error rate, 2 segments: median 0.25," in plots.scores(workspace).alt_text
    assert "Word error rate, 2 segments: median 0.5," in plots.scores(workspace, "big").alt_text
    with pytest.raises(
        InputError,
        match="there are no scores of small: 'nbaudio score W --hypothesis small' writes them",
    ):
        plots.scores(workspace, "small")
