"""Explorer without a browser: distributions of inconvenient columns, filters that combine, actions,
and the saved form."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_widget_tables import ask
from test_widgets import Page

from nbaudio import evidence, review
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.review.state import ReviewState, Verdict, append_verdicts, content_hashes, verdicts
from nbaudio.tables.workspace import Workspace
from nbaudio.ui.filters import sort_and_filter
from nbaudio.ui.widgets import Explorer, segments
from nbaudio.ui.widgets.column_counts import density, number_bins, value_counts

NAN, INF = float("nan"), float("inf")
NUMBERS = {
    "none": [],
    "only nulls": [None, None],
    "one": [5.0],
    "equal": [7.0] * 50,
    "what is no number": [NAN, INF, -INF, None, 1.0, 2.0],
    "whole range": [-1.7e308, 0.0, 1.7e308],
    "tiny": [0.0, 5e-324],
    "large and close": [1e17, 1e17 + 16],
    "outlier": [*np.linspace(0, 1, 1000).tolist(), 36000.0],
    "integers": list(range(-5, 500)),
}
NAMES = {
    "quotes": ["o'Neil", "o''Neil", '"', "a'); drop table", None],
    "direction and control": ["\u202eabc", "a\nb", "", " ", "ž"],
    "booleans": [True, False, None, True],
    "one for each row": [f"s{i}" for i in range(100_000)],
}


in_memory_or_in_the_file = pytest.mark.parametrize(
    "many", [1000, 3], ids=["memory", "file"], indirect=True
)


@pytest.fixture
def workspace(make_workspace):
    return make_workspace({"a.wav": (9.0, 16000), "b.flac": (6.0, 16000)})


@pytest.fixture
def many(tmp_path, monkeypatch, request):
    """300 segments without audio; a third of those of speaker o'x is wrong. They stay in their file
    where that is asked for."""
    monkeypatch.setattr(segments, "_MOST_IN_MEMORY", getattr(request, "param", 1000))
    n = 300
    workspace = Workspace.create(tmp_path / "w")
    workspace.save(
        recordings=pl.DataFrame({"recording_id": ["r"]}),
        segments=pl.DataFrame(
            {
                "segment_id": [f"s{i}" for i in range(n)],
                "recording_id": "r",
                "source_start": [str(10 * i) for i in range(n)],
                "source_end": [str(10 * i + 1 + i / 100) for i in range(n)],
                "text": [f"riječ {i}" for i in range(n)],
                "asr_text": "riječ",
                "speaker_id": [["o'x", "spk1", None][i % 3] for i in range(n)],
                "similarity": [i / n for i in range(n)],
                "wer": [None if i % 2 else 0.25 for i in range(n)],
            }
        ),
    )
    return workspace


def item(explorer, column):
    state, _ = ask(explorer._histograms, "histograms.state")
    return next(one for one in state["items"] if one["column"] == column)


def test_signals_have_histograms_at_first_and_filter_with_missing_values(many):
    number = pl.int_range(pl.len())
    columns = {
        "snr_db": pl.when(number % 3 > 0).then(number / 10),
        "cut_end": pl.when(number % 5 > 0).then(number % 2 == 0),
    }
    many.save(
        segments=many.segments.with_columns(**columns, clipped_share=pl.lit(None, pl.Float64))
    )
    explorer = Explorer(many)
    shown = [one["column"] for one in ask(explorer._histograms, "histograms.state")[0]["items"]]
    assert {"snr_db", "cut_end"} <= set(shown)
    assert "clipped_share" not in shown  # without a value
    assert item(explorer, "snr_db")["without"] == 100
    values = {one["name"]: one for one in item(explorer, "cut_end")["values"]}
    assert sorted(one["all"] for one in values.values()) == [60, 120, 120]
    place = next(one["place"] for one in values.values() if one["all"] == 60)
    ask(explorer._histograms, "histograms.pick", column="cut_end", place=place)
    assert explorer.where == "cut_end is null"
    assert explorer.shown["cut_end"].null_count() == len(explorer.shown) == 60
    ask(explorer._histograms, "histograms.clear")
    explorer._table.narrow("snr_db < 5 and not cut_end")
    expected = many.segments.filter((pl.col("snr_db") < 5) & ~pl.col("cut_end"))
    assert explorer.shown["segment_id"].to_list() == expected["segment_id"].to_list()
    Page(explorer.static_html()).check_harmless()


# distributions


@pytest.mark.parametrize("dtype", [pl.Float64, pl.Float32, pl.Int32], ids=str)
def test_ranges_from_either_edge_have_the_rows_of_their_bars(dtype):
    random = np.random.default_rng(0)
    for _ in range(30):
        values = random.normal(0, 3, 200).round(1 if dtype.is_float() else 0)
        frame = pl.DataFrame({"x": pl.Series(values).cast(dtype)})
        bins = number_bins(frame["x"])
        *counts, _ = bins.counts()
        half = len(counts) // 2
        below = sort_and_filter(frame, where=bins.condition(0, half))
        above = sort_and_filter(frame, where=bins.condition(half + 1, len(counts) - 1))
        assert len(below) == sum(counts[: half + 1])
        assert len(above) == sum(counts[half + 1 :])
        rows = frame["x"].to_numpy()
        assert rows.argmin() in below
        assert rows.argmax() in above


@pytest.mark.parametrize(
    ("values", "constant", "without"),
    [
        ([16000] * 3, "16000", 0),
        ([0.1 + 0.2, 0.3, None], "0.3", 1),
        (["train"] * 3, "train", 0),
        ([True] * 2, "yes", 0),
        ([None, None], "none", 0),
    ],
)
def test_a_column_with_one_value_is_a_text_instead_of_a_histogram(many, values, constant, without):
    dtype = pl.Float64 if values == [None, None] else None
    held = pl.Series("held", (values * 300)[:300], dtype=dtype)
    many.save(segments=many.segments.with_columns(held))
    explorer = Explorer(many, histograms=["held", "similarity"])
    shown = item(explorer, "held")
    assert shown["constant"] == constant
    assert (shown["without"] > 0) == (without > 0)
    saved = explorer.static_html()
    assert f"{constant}; 100 without a number" in saved if without else f"all: {constant}" in saved
    assert saved.count("<svg") == 1


@pytest.mark.parametrize("values", NUMBERS.values(), ids=NUMBERS)
def test_each_histogram_bin_counts_the_rows_of_its_condition(values):
    frame = pl.DataFrame({"x": pl.Series(values, dtype=pl.Float64)})
    found = number_bins(frame["x"])
    *counts, without = found.counts()
    bins = len(found.edges) - 1
    assert 1 <= bins <= 40
    finite = frame["x"].is_finite().sum()
    assert (sum(counts), without) == (finite, len(frame) - finite)
    assert found.condition(0, bins - 1) == ""
    if bins > 1:
        for place in range(bins):
            assert len(sort_and_filter(frame, where=found.condition(place, place))) == counts[place]
    with pytest.raises(InputError):
        found.condition(0, bins)


def test_a_few_outliers_do_not_squeeze_the_histogram():
    found = number_bins(pl.Series("x", NUMBERS["outlier"]))
    assert (np.array(found.counts()) > 0).sum() > 10


@pytest.mark.parametrize("values", NAMES.values(), ids=NAMES)
def test_each_listed_value_counts_the_rows_of_its_condition(values):
    frame = pl.DataFrame({'odd "name"': values})
    found = value_counts(frame.to_series())
    counts = found.counts()
    assert sum(counts) == len(values)
    for place in range(min(8, len(found.values))):
        kept = sort_and_filter(frame, where=found.condition(found.values[place]))
        assert (len(kept), frame[int(kept[0]), 0]) == (counts[place], found.values[place])
    both = found.condition(*found.values[:2])
    assert len(sort_and_filter(frame, where=both)) == counts[:2].sum()


@given(st.lists(st.text(alphabet="a'\"\\%_;-( \n\0", max_size=4), min_size=1, max_size=5))
def test_a_picked_value_is_matched_literally(values):
    frame = pl.DataFrame({"x": values})
    found = value_counts(frame["x"])
    kept = sort_and_filter(frame, where=found.condition(values[0]))
    assert kept.tolist() == [i for i, value in enumerate(values) if value == values[0]]


def test_values_are_found_by_a_search_and_picked_ones_stay():
    found = value_counts(pl.Series("x", [f"Spk{i}" for i in range(100)] + [None]))
    places, more = found.search("spk9", 3, ["Spk50", None, "gone"])
    assert [found.values[place] for place in places] == ["Spk50", None, "Spk9", "Spk90", "Spk91"]
    assert more == 8
    assert found.search("none", 3)[0] == [100]


def test_the_density_grid_counts_each_row_with_two_numbers_once():
    frame = pl.DataFrame({"x": [0.0, 1.0, None, 1.0, NAN], "y": [1, 2, 3, 2, 5]})
    found = density(frame["x"], frame["y"], (10, 10))
    assert (found.codes < found.cells).sum() == 3
    levels = found.levels()
    assert len(levels) == found.cells
    assert sorted(set(levels.tolist())) == [0, 172, 255]
    assert not found.levels(np.array([2], dtype=np.uint32)).any()
    empty = pl.Series("x", [], dtype=pl.Float64)
    assert not density(empty, empty, (10, 10)).levels().any()


# filters


@in_memory_or_in_the_file
def test_filters_combine_to_one_condition_and_counts_follow(many):
    explorer = Explorer(many, where="similarity < 0.9")
    histograms = explorer._histograms
    bins = item(explorer, "similarity")
    first, last = 0, bins["edges"].index(0.5) - 1
    ask(histograms, "histograms.brush", column="similarity", first=first, last=last)
    speaker = next(
        value for value in item(explorer, "speaker_id")["values"] if value["name"] == "o'x"
    )
    assert (speaker["all"], speaker["passing"]) == (100, 50)
    ask(histograms, "histograms.pick", column="speaker_id", place=speaker["place"])
    assert explorer.shown["segment_id"].to_list() == [f"s{i}" for i in range(0, 150, 3)]
    assert sum(item(explorer, "similarity")["passing"]) == 50
    assert explorer.rule() == explorer.where
    assert sort_and_filter(many.segments, where=explorer.where).tolist() == list(range(0, 150, 3))
    none = next(
        value for value in item(explorer, "speaker_id")["values"] if value["name"] == "none"
    )
    ask(histograms, "histograms.pick", column="speaker_id", place=none["place"])
    assert len(explorer.shown) == 100
    ask(histograms, "histograms.clear", column="similarity")
    assert len(explorer.shown) == 180
    ask(histograms, "histograms.clear")
    assert explorer.where == "similarity < 0.9"
    assert len(json.dumps(ask(histograms, "histograms.state")[0])) < 6000


@in_memory_or_in_the_file
def test_a_filter_in_the_table_is_counted_in_the_histograms(many):
    explorer = Explorer(many)
    before = explorer._histograms.version
    ask(
        explorer._table,
        "table.arrange",
        where="speaker_id is null",
        find="",
        sort="",
        descending=False,
    )
    assert explorer._histograms.version > before
    assert sum(item(explorer, "similarity")["passing"]) == 100
    ask(explorer._table, "table.mark", first=0, last=3, on=True, version=1)
    assert explorer._actions.counts == [3, 100]


def test_histograms_are_chosen_and_leave_no_filter_behind(many):
    explorer = Explorer(many)
    state, _ = ask(explorer._histograms, "histograms.state")
    assert [one["column"] for one in state["items"]] == [
        "duration_s",
        "similarity",
        "wer",
        "speaker_id",
        "recording_id",
        "verdict",
    ]
    assert "place" not in state["columns"]
    ask(explorer._histograms, "histograms.brush", column="wer", first=0, last=0)
    ask(explorer._histograms, "histograms.pick", column="recording_id", place=0)
    ask(explorer._histograms, "histograms.show", columns=["text", "wer"])
    assert explorer.where == ""
    ask(explorer._histograms, "histograms.find", column="text", text="RIJEČ 29")
    assert len(item(explorer, "text")["values"]) == 8
    assert item(explorer, "text")["more"] == 3
    answer, _ = ask(explorer._histograms, "histograms.show", columns=["word_times"])
    assert "there is no histogram" in answer["error"]
    assert [one["column"] for one in ask(explorer._histograms, "histograms.state")[0]["items"]] == [
        "text",
        "wer",
    ]


@in_memory_or_in_the_file
def test_a_scatter_box_filters_and_a_point_shows_the_nearest_row(many):
    explorer = Explorer(many)
    state, buffers = ask(explorer._scatter, "scatter.state")
    assert list(state["axes"]) == ["duration_s", "similarity"]
    assert sum(map(len, buffers)) < 10_000
    wide, high = len(state["x"]) - 1, len(state["y"]) - 1
    ask(explorer._scatter, "scatter.box", box=[0, wide - 1, 0, state["y"].index(0.1) - 1])
    assert explorer.shown["segment_id"].to_list() == [f"s{i}" for i in range(30)]
    assert ask(explorer._scatter, "scatter.nearest", x=wide, y=high)[0] == 29
    assert explorer._table.current == [29, 0]
    ask(explorer._scatter, "scatter.axes", x="wer", y="similarity")
    assert (explorer.where, len(explorer.shown)) == ("", 300)
    answer, _ = ask(explorer._scatter, "scatter.axes", x="text", y="similarity")
    assert answer == {"error": "text is no numeric column"}


@pytest.mark.parametrize("n", [0, 1])
def test_the_explorer_opens_a_workspace_with_few_columns_and_rows(tmp_path, n):
    workspace = Workspace.create(tmp_path / "w")
    workspace.save(
        recordings=pl.DataFrame({"recording_id": ["r"]}),
        segments=pl.DataFrame({"segment_id": ["a"], "recording_id": "r", "text": "da"}).head(n),
    )
    explorer = Explorer(workspace)
    assert len(explorer.shown) == n
    ask(explorer._histograms, "histograms.state")
    ask(explorer._scatter, "scatter.state")
    assert "no rows" in explorer.static_html() or n


# actions


@in_memory_or_in_the_file
def test_verdicts_are_logged_shown_and_picked(many):
    explorer = Explorer(many, reviewer="ana")
    ask(explorer._table, "table.mark", first=0, last=2, on=True, version=0)
    done, _ = ask(
        explorer._actions,
        "actions.verdict",
        word="wrong words",
        comment="x",
        rows="marked",
        confirm=False,
    )
    assert done == 2
    log = verdicts(many)
    assert log.select("segment_id", "verdict", "comment", "reviewer", "review").rows() == [
        (f"s{i}", "wrong words", "x", "ana", "panel") for i in range(2)
    ]
    assert log["content"].to_list() == content_hashes(many.segments[:2])
    wrong = next(
        value for value in item(explorer, "verdict")["values"] if value["name"] == "wrong words"
    )
    ask(explorer._histograms, "histograms.pick", column="verdict", place=wrong["place"])
    assert explorer.shown["segment_id"].to_list() == ["s0", "s1"]
    with pytest.raises(InputError, match="cannot use verdict"):
        explorer.rule()
    explorer.verdict("ok", rows="shown")  # none has the picked verdict any more
    assert len(explorer.shown) == 0
    assert (
        "there are no rows"
        in ask(explorer._actions, "actions.note", text="x", rows="shown")[0]["error"]
    )
    assert Explorer(many).shown["verdict"].drop_nulls().to_list() == ["ok", "ok"]


def test_many_verdicts_need_a_confirmation(many):
    explorer = Explorer(many)
    answer, _ = ask(
        explorer._actions, "actions.verdict", word="noise", comment="", rows="shown", confirm=False
    )
    assert answer == {"error": "300 verdicts at once: more than 100 need confirm=True"}
    assert (
        "known are ok"
        in ask(explorer._actions, "actions.verdict", word="fine", rows="shown")[0]["error"]
    )
    assert len(verdicts(many)) == 0
    assert explorer.verdict("noise", rows="shown", confirm=True) == 300


def shown_columns(explorer):
    return ask(explorer._table, "table.open")[0]["shown"]


@in_memory_or_in_the_file
def test_the_transcript_is_the_second_column_and_verdicts_appear_once_given(many):
    explorer = Explorer(many)
    first = ["segment_id", "text", "asr_text"]
    others = ["similarity", "duration_s", "speaker_id", "wer"]
    assert shown_columns(explorer) == [*first, *others]
    explorer.verdict("noise")
    assert shown_columns(explorer) == [*first, "verdict", *others]
    explorer.note("music")
    assert shown_columns(explorer) == [*first, "verdict", "note", *others]
    assert shown_columns(Explorer(many)) == [*first, "verdict", "note", *others]
    explorer.note("")
    assert shown_columns(explorer) == [*first, "verdict", *others]
    # Chosen columns stay.
    layout = {"widths": {}, "wrap": False, "charts": False, "stacked": True, "fitted": False}
    ask(explorer._table, "table.layout", shown=["text", "wer"], **layout)
    explorer.note("noise")
    assert shown_columns(explorer) == ["text", "wer"]
    assert shown_columns(Explorer(many, columns=["text"])) == ["text"]


def test_a_workspace_without_hypotheses_has_no_columns_of_them(many):
    texts = many.segments.drop("asr_text", "similarity", "wer")
    many.save(segments=texts)
    explorer = Explorer(many)
    assert shown_columns(explorer) == ["segment_id", "text", "duration_s", "speaker_id"]
    assert ask(explorer._table, "table.open")[0]["hypothesis"] is None
    many.save(segments=texts.with_columns(asr_text_small=pl.lit("heard")))
    explorer = Explorer(many)
    assert shown_columns(explorer)[:3] == ["segment_id", "text", "asr_text_small"]
    assert ask(explorer._table, "table.open")[0]["hypothesis"] == "asr_text_small"
    Page(explorer.static_html()).check_harmless()
    assert ">heard</div>" in explorer.static_html()


@in_memory_or_in_the_file
def test_a_verdict_on_other_words_is_not_shown(many):
    Explorer(many).verdict("ok")
    many.save(segments=many.segments.with_columns(text=pl.lit("other")))
    assert Explorer(many).shown["verdict"].null_count() == 300


@in_memory_or_in_the_file
def test_notes_are_stored_unchanged_and_can_be_removed(many):
    explorer = Explorer(many, reviewer="ana")
    assert explorer.note("<b>čuj</b>\n") == 1
    ask(explorer._table, "table.mark", first=1, last=3, on=True, version=explorer._rows.version)
    explorer.note("two")
    explorer.note("")
    again = Explorer(many)
    assert again.shown["note"].drop_nulls().to_list() == ["<b>čuj</b>"]
    ask(again._table, "table.arrange", where="", find="ČUJ", sort="note", descending=False)
    assert again.shown["segment_id"].to_list() == ["s0"]
    assert explorer.notes.select("segment_id", "note", "reviewer").rows() == [
        ("s0", "<b>čuj</b>", "ana")
    ]
    assert len((many.path / "reviews/notes.jsonl").read_text().splitlines()) == 5


def test_making_a_rule_without_a_reusable_condition_is_refused(many):
    explorer = Explorer(many)
    with pytest.raises(InputError, match="no filter is set"):
        explorer.rule()
    ask(
        explorer._table, "table.arrange", where="wer > 0.1", find="riječ", sort="", descending=False
    )
    with pytest.raises(InputError, match="the search for a text"):
        explorer.rule()


@in_memory_or_in_the_file
def test_conditions_see_the_columns_of_the_table_and_the_sampling_rate(many):
    assert len(Explorer(many, where="wer > 2 or sampling_rate is null or true").shown) == 300
    for hidden in ("recording_path", "place", "num_samples"):
        with pytest.raises(InputError, match=f"there is no column {hidden}"):
            Explorer(many, where=f"{hidden} is null")


def test_a_sheet_has_exactly_the_picked_segments(workspace, tmp_path):
    explorer = Explorer(workspace)
    ask(explorer._table, "table.mark", first=1, last=3, on=True, version=0)
    text, _ = ask(
        explorer._actions, "actions.review", out=str(tmp_path / "odd.xlsx"), rows="marked"
    )
    assert text.startswith(f"2 segments in {tmp_path / 'odd.xlsx'}")
    record = ReviewState.load(workspace).records["odd"]
    assert record.segment_ids == explorer.selected["segment_id"].to_list()
    assert (record.strategy, record.probabilities) == ("picked", [1.0, 1.0])
    assert len(list((tmp_path / "clips").iterdir())) == 2
    explorer.review(out=tmp_path / "odd.xlsx")  # again: the same
    with pytest.raises(ExistsError):
        review.export(
            workspace, out=tmp_path / "odd.xlsx", segment_ids=workspace.segments["segment_id"][2:4]
        )
    for wrong in ([], ["nobody"]):
        with pytest.raises(InputError):
            review.export(workspace, out=tmp_path / "other.xlsx", segment_ids=wrong)


def test_picked_segments_are_no_evidence_and_can_be_drawn_later(many, tmp_path):
    """Half of the segments are wrong; only right ones are picked, and judged on a sheet and by the
    explorer."""
    right = [f"s{i}" for i in range(150, 300)]
    review.export(many, out=tmp_path / "best.xlsx", segment_ids=right)
    record = ReviewState.load(many).records["best"]
    said = zip(record.segment_ids, record.contents, strict=True)
    time = "2026-11-21T03:00:00Z"
    append_verdicts(
        many, [Verdict(key, content, "ok", "", None, "ana", time, "best") for key, content in said]
    )
    Explorer(many, where="similarity >= 0.5").verdict("ok", rows="shown", confirm=True)
    report = evidence(many, precision=0.9)
    assert report.facts["reviewed"] == {"right": 0, "wrong": 0, "unsure": 0}
    assert report.facts["lowest_proven"] is None
    assert any("150 judged segments were not drawn by a round" in line for line in report.warnings)
    review.export(many, out=tmp_path / "drawn.xlsx", n=100)
    drawn = ReviewState.load(many).records["drawn"]
    assert drawn.after == []
    assert 30 <= len(set(right) & set(drawn.segment_ids)) <= 70
    assert drawn.probabilities == pytest.approx([1 / 300] * 100)


# saved


@in_memory_or_in_the_file
def test_the_saved_form_has_pictures_and_rows_and_no_scripts(many):
    bundle = Explorer(many, where="similarity < 0.5")._repr_mimebundle_()
    page = Page(bundle["text/html"]).check_harmless()
    assert "s0" in page.texts
    assert "o'x" in page.texts
    labels = [attributes["aria-label"] for tag, attributes in page.tags if tag == "svg"]
    assert labels[1] == "similarity: 150 of 300 rows, 0 to 1"
    assert "application/vnd.jupyter.widget-view+json" in bundle


def test_the_current_row_is_always_the_one_in_the_player(many):
    explorer = Explorer(many, reviewer="ana")

    def current():
        assert explorer.selected["segment_id"].to_list() == [f"s{explorer._table.current[0]}"]
        return explorer._table.current

    ask(
        explorer._table,
        "table.arrange",
        where="similarity >= 0.5",
        find="",
        sort="similarity",
        descending=True,
    )
    assert current() == [299, 0]
    explorer._table.current = [299, 3]  # the user has played it
    explorer._show(280)
    assert current() == [280, 3]
    explorer._table.narrow("similarity < 0.97")  # it passes, hence it stays
    assert current() == [280, 3]
    explorer._table.narrow("similarity < 0.6")
    assert current() == [179, 3]
    explorer.verdict("ok")
    assert current() == [179, 3]
    assert verdicts(many)["segment_id"].to_list() == ["s179"]
    explorer._table.narrow("similarity > 2")
    assert explorer._table.current == [-1, 3]


def test_the_player_turns_to_the_rows_of_the_table(many):
    explorer = Explorer(many, reviewer="ana")

    def turned(number, by):
        to = ask(explorer._player, "player.turn", number=number, by=by)[0]
        assert to == -1 or explorer.selected["segment_id"].to_list() == [f"s{to}"]
        return to

    ask(
        explorer._table,
        "table.arrange",
        where="similarity >= 0.5",
        find="",
        sort="similarity",
        descending=True,
    )
    assert turned(299, 1) == 298
    assert turned(298, -1) == 299
    assert turned(299, -1) == 299, "the first row stays"
    assert turned(200, 1) == 199, "from the row in the player, whatever the cursor's last report"
    assert turned(3, 1) == 198, "from the cursor where that row is not shown"
    assert turned(150, 1) == 150, "the last row stays"
    explorer._table.narrow("similarity > 2")
    assert turned(0, 1) == -1


def test_marks_on_rows_that_a_filter_hides_do_not_count(many):
    explorer = Explorer(many, reviewer="ana")
    ask(explorer._table, "table.mark", first=0, last=2, on=True, version=explorer._rows.version)
    explorer._table.narrow("similarity > 0.5")
    assert (explorer._actions.counts[0], explorer.selected["segment_id"].to_list()) == (0, ["s151"])
    explorer._table.narrow("")
    assert explorer.selected["segment_id"].to_list() == ["s0", "s1"]


@in_memory_or_in_the_file
def test_a_key_logs_a_verdict_on_the_row_under_the_cursor(many):
    explorer = Explorer(many, sort="similarity", descending=True, reviewer="ana")
    for part in (explorer._table, explorer._player):
        assert part._verdicts == list(review.VERDICTS)
    assert explorer._table._calls["verdict"](number=299, word="ok") == "s299: ok"
    ask(explorer._player, "verdict", number=298, word=list(review.VERDICTS)[1])
    assert explorer.shown["verdict"].head(2).to_list() == list(review.VERDICTS)[:2]
    assert explorer.selected["segment_id"].to_list() == ["s299"]
    assert "no row" in ask(explorer._table, "verdict", number=-1, word="ok")[0]["error"]


def test_the_scatter_begins_with_two_systems_and_the_table_has_their_rates(many):
    assert Explorer(many)._scatter._axes == ("duration_s", "similarity")
    segments = many.segments.with_columns(asr_text_big=pl.lit("riječ"), wer_big=0.5)
    many.save(segments=segments)
    explorer = Explorer(many, sort="wer_big", descending=True)
    assert explorer._scatter._axes == ("wer", "wer_big")
    shown = explorer._rows.columns
    assert shown[shown.index("wer") + 1] == "wer_big"
