"""Tables, columns and ids of pandas, of unusual types too, give the same results as those of
polars."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from sheets import make_workspace as make_small
from table_checks import check_tables

import nbaudio
from nbaudio import review, text
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.selection import leakage
from nbaudio.selection.parameters import Parameters
from nbaudio.selection.select import decide
from nbaudio.tables.dataframes import as_ids, as_polars
from nbaudio.ui import plots, views, widgets

KINDS = {
    "as it is": lambda frame: frame,
    "filtered": lambda frame: pd.concat(
        [frame.iloc[:0], frame.set_index(np.arange(len(frame))[::-1] * 7)]
    ),
    "indexed by id": lambda frame: frame.set_index("segment_id"),
    "indexed by id, which stays": lambda frame: frame.set_index("segment_id", drop=False),
    "object": lambda frame: frame.astype({"segment_id": object, "text": object}),
    "arrow": lambda frame: frame.astype(
        {"segment_id": "string[pyarrow]", "text": "string[pyarrow]"}
    ),
    "categories": lambda frame: frame.astype({"segment_id": "category", "speaker_id": "category"}),
    "Arrow throughout": lambda frame: pl.from_pandas(
        frame.drop(columns="word_times", errors="ignore")
    ).to_pandas(use_pyarrow_extension_array=True),
}


@pytest.fixture
def workspace(tmp_path):
    return make_small(tmp_path / "w")


SELECT = {"min_similarity": 0.5, "dev": 0, "test": 0, "group_by": ()}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The plot of splits of `workspace`, from its own tables."""
    workspace = make_small(tmp_path_factory.mktemp("drawn") / "w")
    nbaudio.select(workspace, **SELECT)
    return plots.splits(views.segments(workspace))._repr_png_()


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pd.Series(["a", None, "c"], dtype="category"), ["a", None, "c"]),
        (pd.Series(["a", np.nan, pd.NA], dtype=object), ["a", None, None]),
        (pd.Series(["a", None, "c"], dtype="string[pyarrow]"), ["a", None, "c"]),
        (pd.Series(["a", 1, None], dtype=object), ["a", "1", None]),
        (pd.Series([1.5, np.nan, 2]), [1.5, None, 2.0]),
        (pd.Series([1, None, 3], dtype="Int64"), [1, None, 3]),
        (pd.Series([1, 2, 1], dtype="category"), [1, 2, 1]),
        (pd.Series(pd.period_range("2020", periods=3, freq="Y")), ["2020", "2021", "2022"]),
        (pd.Series([[1, 2], None, []]), [[1, 2], None, []]),
    ],
)
def test_columns_keep_their_values_and_what_is_missing_is_null(column, expected):
    frame = pd.DataFrame({"key": [1, 2, 3], "value": column.array}, index=[9, 9, 4])
    assert as_polars(frame).rows() == [(number + 1, value) for number, value in enumerate(expected)]
    assert as_polars(frame.iloc[:0]).columns == ["key", "value"]


def test_a_named_or_grouped_index_becomes_columns():
    frame = pd.DataFrame(
        {"speaker": ["a", "b", "a"], "part": [1, 1, 2], "similarity": [0.5, 1.0, 0.7]}
    )
    assert as_polars(frame.groupby(["speaker", "part"]).max()).columns == [
        "speaker",
        "part",
        "similarity",
    ]
    assert as_polars(frame.groupby("speaker").agg({"similarity": ["min", "max"]})).row(0) == (
        "a",
        0.5,
        0.7,
    )
    assert as_polars(frame["similarity"].describe())["index"][0] == "count"
    bands = pd.cut(frame["similarity"], [0, 0.6, 1])
    assert as_polars(frame.groupby(bands, observed=True).size().rename("n")).rows() == [
        ("(0.0, 0.6]", 1),
        ("(0.6, 1.0]", 2),
    ]
    assert as_polars(frame[frame["part"] == 2]).columns == list(frame.columns)
    assert as_polars(pd.DataFrame(columns=["a"])).columns == ["a"]
    assert as_polars(pd.DataFrame()).shape == (0, 0)


def test_levels_of_a_column_name_are_joined_by_spaces():
    frame = pd.DataFrame({("similarity", "max"): [0.7], ("speaker", ""): ["a"]})
    assert as_polars(frame).columns == ["similarity max", "speaker"]


def test_two_index_levels_without_names_are_refused():
    index = pd.MultiIndex.from_tuples([("ana", "a.wav"), ("ben", "b.wav")])
    with pytest.raises(InputError, match="segments: two columns are called 'index'"):
        as_polars(pd.DataFrame({"wer": [0.1, 0.2]}, index=index), "segments")


def test_an_argument_that_is_no_table_is_refused_in_one_line():
    for table, message in (
        (["a"], "must be a pandas or polars DataFrame, not list"),
        ({"a": [1]}, "not dict"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are called 'a'"),
    ):
        with pytest.raises(InputError, match=message) as raised:
            widgets.table(table)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "ids",
    [
        "b",
        ["b"],
        pd.Series(["b"], index=[5], dtype="category"),
        pd.Index(["b"]),
        np.array(["b"]),
        pl.Series(["b"]),
        pd.DataFrame({"wer": [0.1], "segment_id": ["b"]}),
        pd.DataFrame({"wer": [0.1]}, index=pd.Index(["b"], name="segment_id")),
    ],
)
def test_ids_are_accepted_as_lists_series_arrays_and_frames(ids):
    assert as_ids(ids) == ["b"]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (pd.Series(["a", np.nan], dtype=object), "an id is a text, not nan"),
        ([1], "an id is a text, not 1"),
        (pd.DataFrame({"id": ["a"]}), "no column segment_id; columns are id"),
        (pd.DataFrame(), "no column segment_id; columns are none"),
        (7, "must be ids or a table with a column segment_id, not int"),
    ],
)
def test_values_that_are_no_ids_are_refused(ids, message):
    with pytest.raises(InputError, match=message):
        as_ids(ids)


@pytest.mark.slow
def test_widgets_and_clips_take_tables_and_ids(make_workspace, tmp_path):
    workspace = make_workspace({"a.wav": (8.0, 16000)})
    nbaudio.materialize(workspace, out=tmp_path / "corpus", jobs=1, show_progress=False)
    corpus = nbaudio.open_corpus(tmp_path / "corpus")
    assert corpus.to_pandas()["segment_id"].tolist() == corpus.segments["segment_id"].to_list()
    wanted = corpus.segments["segment_id"].to_list()[::-1]
    for kind in KINDS.values():
        frame = kind(workspace.to_pandas().set_index("segment_id").loc[wanted].reset_index())
        assert [clip.segment_id for clip in corpus.read_many(frame)] == wanted
        assert [
            clip.segment_id
            for clip in widgets.corpus_player(tmp_path / "corpus", frame).clips.clips
        ] == wanted
        assert [clip.segment_id for clip in widgets.Player(workspace, frame).clips.clips] == wanted
        for widget in (
            widgets.TranscriptDiff(workspace, frame),
            widgets.ReviewPanel(workspace, frame, reviewer="ana"),
        ):
            assert all(key in widget.static_html() for key in wanted)
        assert widgets.SegmentTable(frame, sort="segment_id").shown[
            "segment_id"
        ].to_list() == sorted(wanted)
        for shown in (widgets.table(frame), widgets.Table(frame)):
            assert all(key in shown._repr_html_() for key in wanted)


@pytest.mark.slow
def test_views_plots_and_checks_take_tables(workspace, kind, drawn):
    nbaudio.select(workspace, **SELECT)
    here = views.segments(workspace)
    there = kind(here.to_pandas())
    for view in (views.reasons, views.speakers, views.threshold_curve):
        assert_frame_equal(view(there), view(here), check_row_order=view is not views.reasons)
    assert plots.splits(there)._repr_png_() == drawn
    held = workspace.segments.with_columns(split=pl.Series(["test", *["train"] * (len(here) - 1)]))
    assert_frame_equal(
        leakage.leakage(kind(held.to_pandas()), keys=["speaker_id"]),
        leakage.leakage(held, keys=["speaker_id"]),
    )
    segments, recordings = workspace.segments, workspace.recordings
    assert_frame_equal(
        check_tables(recordings.to_pandas(), kind(segments.to_pandas())),
        check_tables(recordings, segments),
    )
    chosen = decide(
        recordings.to_pandas(), kind(segments.to_pandas()), (), Parameters(**SELECT)
    ).rows
    expected = decide(recordings, segments, (), Parameters(**SELECT)).rows
    assert chosen["reason"].to_list() == expected["reason"].to_list()
    with pytest.raises(InputError, match="no column duration_s"):
        views.reasons(workspace.to_pandas())


def test_columns_of_text_are_scored(kind):
    frame = kind(
        pd.DataFrame({"segment_id": ["a", "b"], "speaker_id": None, "text": ["da – ne", None]})
    )
    assert text.similarity_column(frame["text"], frame["text"]).to_list() == [1.0, None]
    assert text.normalize_column(frame["text"], ["punctuation"]).to_list()[1] is None
    assert text.vocabulary(frame["text"]).odd["character"].to_list() == ["–"]


def test_a_workspace_reads_and_saves_pandas_tables(workspace, kind):
    assert (
        workspace.to_pandas("recordings")["recording_id"].tolist()
        == workspace.recordings["recording_id"].to_list()
    )
    before = workspace.segments
    workspace.save(segments=kind(workspace.to_pandas()))
    columns = [name for name in before.columns if name != "word_times"]
    assert_frame_equal(
        workspace.segments.select(columns), before.select(columns), check_column_order=False
    )
    with pytest.raises(InputError, match=r"none.parquet: missing"):
        workspace.to_pandas("none")


def test_a_report_is_a_table_of_facts():
    found = Report(
        "select", {"kept": 3, "train": {"segments": 2, "hours": 1.5}, "columns": ["a", "b"]}
    ).to_pandas()
    expected = [["kept", 3], ["train.segments", 2], ["train.hours", 1.5], ["columns", ["a", "b"]]]
    assert found.columns.tolist() == ["fact", "value"]
    assert found.to_numpy().tolist() == expected
    assert Report("select", {}).to_pandas().shape == (0, 2)


@pytest.mark.parametrize("engine", ["openpyxl", "calamine"])
def test_a_review_sheet_comes_back_out_of_pandas(engine, workspace, tmp_path):
    review.export(workspace, out=tmp_path / "sheet.xlsx", n=4)
    sheet = pd.read_excel(tmp_path / "sheet.xlsx", sheet_name="review", engine=engine)
    sheet["verdict"] = sheet["verdict"].astype(object)
    sheet["comment"] = sheet["comment"].astype(object)
    sheet.loc[sheet["segment_id"].isin(["s0", "s2"]), ["verdict", "comment"]] = "noise", "wind"
    report = review.import_(workspace, sheet.sample(frac=1, random_state=1), reviewer="ana")
    assert (report.problems, report.facts["new"], report.facts["left_empty"]) == ([], 2, 2)
    said = review.verdicts(workspace).sort("segment_id")
    assert said.select("segment_id", "verdict", "comment", "reviewer").rows() == [
        ("s0", "noise", "wind", "ana"),
        ("s2", "noise", "wind", "ana"),
    ]
    again = review.import_(
        workspace, [sheet, pl.from_pandas(sheet.astype(str).replace("nan", ""))], reviewer="ana"
    )
    assert (again.facts["new"], again.facts["known_already"]) == (0, 4)
    with pytest.raises(InputError, match="table: no review sheet"):
        review.import_(workspace, sheet.drop(columns="verdict"))
