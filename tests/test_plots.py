"""Views and plots show the contents of the workspace, whatever names and numbers it has."""

import io
import re
import subprocess
import sys
from functools import partial
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hostile import MARKUP, NAMES
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread

from nbaudio.core.errors import InputError
from nbaudio.core.tables import RECORDINGS, SEGMENTS
from nbaudio.storage.workspace import Workspace
from nbaudio.text.score import score
from nbaudio.ui import plots, views
from nbaudio.ui.histogram_bins import equal_width_edges
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


def test_examples_by_similarity(workspace_of):
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


def test_times_that_are_none_are_no_hours(workspace_of):
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


def test_speakers_by_split(workspace_of):
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


def test_names_that_need_a_look_come_first(workspace_of):
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


def test_many_recordings_become_a_histogram_of_all(workspace_of):
    recordings = [
        {
            "recording_id": f"r{n}",
            "sampling_rate": 16000 if n % 3 else 48000,
            "num_channels": 2,
            "num_samples": 16000 * n,
        }
        for n in range(1, 101)
    ]
    (axes,) = plots.recordings(workspace_of([segment(0)], recordings)).axes
    assert sum(bar.get_height() for container in axes.containers for bar in container) == 100
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "16 kHz, stereo: 67",
        "48 kHz, stereo: 33",
    ]


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


def test_scores_show_every_segment(workspace_of):
    rows = [
        segment(i, similarity=0.5, wer=wer) for i, wer in enumerate([0.0, 0.5, 7.0, float("nan")])
    ]
    drawn = plots.scores(workspace_of(rows)).axes
    assert [sum(bar.get_height() for bar in axes.containers[0]) for axes in drawn] == [4, 3, 4]


def test_durations_that_differ_by_rounding_are_one_bar(workspace_of, tmp_path):
    rows = [
        {
            "segment_id": f"s{start}",
            "recording_id": "r",
            "text": "da",
            "source_start": start,
            "source_end": end,
        }
        for start, end in (("0", "5.2"), ("12.4", "17.6"), ("1000.1", "1005.3"))
    ]
    workspace = workspace_of(rows, [{"recording_id": "r"}])
    durations = views.segments(workspace)["duration_s"]
    assert 0 < durations.max() - durations.min() < 1e-12
    duration_bars = plots.scores(workspace).axes[2].containers[0]
    assert [bar.get_height() for bar in duration_bars] == [3]
    assert stats(workspace.path, out=tmp_path / "page.html").facts["page"]


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
def test_a_histogram_has_one_bin_where_values_have_no_span(values, bars):
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


def test_splits_add_up(workspace_of):
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
def test_shards_by_size(monkeypatch, count):
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


def test_shards_of_what_is_no_corpus(tmp_path):
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
        "similarity of transcript and hypothesis: 0.08 to 0.12\nsegments: 1\nbelow: 1\nkept: 0"
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


def test_names_from_outside_are_drawn_as_they_are(workspace_of):
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
def test_a_workspace_without_segments_or_scores(workspace_of):
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
