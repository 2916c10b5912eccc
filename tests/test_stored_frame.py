"""Rows that stay in a Parquet file: equal to the same rows in memory, for conditions, orders, pages
and players."""

import numpy as np
import polars as pl
import pytest
from test_widget_tables import ask

from nbaudio.core.errors import InputError
from nbaudio.tables.stored_frame import StoredFrame
from nbaudio.ui.filters import sort_and_filter
from nbaudio.ui.widgets import SegmentTable, ThresholdTuner, segments
from nbaudio.ui.widgets.segments import load_segments

ROWS = 1000


@pytest.fixture(params=[7, 400, 5000], ids="row groups of {}".format)
def stored(request, tmp_path, monkeypatch):
    """A frame, and its file."""
    monkeypatch.setattr("nbaudio.tables.stored_frame._ROWS_AT_ONCE", 50)
    monkeypatch.setattr("nbaudio.tables.stored_frame._SORTED_AT_ONCE", 128)
    rng = np.random.default_rng(0)
    number = pl.Series(rng.integers(0, 40, ROWS))
    frame = pl.DataFrame(
        {
            "segment_id": [f"s{i}" for i in range(ROWS)],
            "text": pl.Series([f"rečenica {i} č" for i in number]).set(number == 3, None),
            "wer": pl.Series(rng.random(ROWS).round(1))
            .set(number == 5, float("nan"))
            .set(number == 6, None),
            "split": pl.Series(rng.choice(["train", "dev"], ROWS), dtype=pl.Enum(["train", "dev"])),
            "flag": number > 20,
        }
    )
    frame.write_parquet(tmp_path / "t.parquet", row_group_size=request.param)
    return frame, StoredFrame(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"where": "wer < 0.5"},
        {"where": "wer > 0.2 and wer < 0.8"},
        {"where": "wer < 0.5 and text like '%1%'"},
        {"where": "true"},
        {"where": "split = 'dev' or flag"},
        {"where": "wer > avg(wer) and flag"},
        {"find": "ČENICA 7"},
        {"find": "S9", "where": "flag"},
        {"find": "s1", "where": "flag", "sort": "text", "descending": True},
        {"sort": "wer"},
        {"sort": "wer", "descending": True},
        {"sort": "split", "where": "wer > 0.2", "narrowed": "flag"},
        {"sort": "wer", "where": "1 > 2"},
        {"sort": "flag", "descending": True},
        {"sort": "text"},
        {"sort": "segment_id", "descending": True},
    ],
    ids=str,
)
def test_a_stored_frame_sorts_and_filters_as_in_memory(stored, how):
    frame, file = stored
    assert sort_and_filter(file, **how).tolist() == sort_and_filter(frame, **how).tolist()


def test_a_stored_frame_has_the_rows_columns_and_cells_of_the_frame(stored):
    frame, file = stored
    numbers = np.array([999, 0, 500, 500, 3], dtype=np.uint32)
    assert file.rows(numbers).equals(frame[numbers])
    assert file.rows(numbers[:0]).equals(frame[:0])
    assert file.rows(numbers, ["wer", "text"]).equals(frame[numbers].select("wer", "text"))
    assert all(file[name].equals(frame[name]) for name in frame.columns)
    assert (len(file), file.columns, file.schema) == (ROWS, frame.columns, frame.schema)
    assert file.row(7, named=True) == frame.row(7, named=True)


def test_a_stored_frame_raises_the_errors_of_the_frame(stored):
    frame, file = stored
    for how in (
        {"where": "speaker = 'x'"},
        {"where": "text < 3"},
        {"sort": "texts"},
        {"where": "wer <"},
    ):
        with pytest.raises(InputError) as one:
            sort_and_filter(frame, **how)
        with pytest.raises(InputError) as other:
            sort_and_filter(file, **how)
        assert str(other.value) == str(one.value)


def test_a_file_that_is_replaced_is_read_to_its_end(stored, tmp_path):
    frame, file = stored
    frame.reverse().write_parquet(tmp_path / "new")
    (tmp_path / "new").replace(tmp_path / "t.parquet")
    assert file["segment_id"].equals(frame["segment_id"])
    assert file.rows(np.array([5])).equals(frame[5])


def test_a_table_widget_of_a_file_equals_that_of_its_frame(stored, tmp_path):
    frame, _ = stored
    ours, theirs = SegmentTable(tmp_path / "t.parquet", sort="wer"), SegmentTable(frame, sort="wer")
    assert ours.shown.equals(theirs.shown)
    rows = {"call": "table.rows", "first": 3, "last": 9, "columns": ["text", "wer"]}
    assert ask(ours, **rows) == ask(theirs, **rows)
    (opened, _), (expected, _) = (ask(table, "table.open") for table in (ours, theirs))
    assert opened.pop("page") < 100, "rows of many row groups are requested a few at a time"
    assert opened == expected
    for column in frame.columns:
        found, expected = (
            ask(table, "table.distribution", column=column)[0] for table in (ours, theirs)
        )
        # Of values that are as frequent, any comes first.
        tops = [[count for _, count in each.pop("top", None) or []] for each in (found, expected)]
        assert (found, tops[0]) == (expected, tops[1])
        assert ask(ours, "table.cell", number=9, column=column) == ask(
            theirs, "table.cell", number=9, column=column
        )
    assert ours.static_html() == theirs.static_html()
    assert ours.selected.equals(theirs.selected)


def arrange(table, **how):
    return ask(
        table, "table.arrange", **{"where": "", "find": "", "sort": "", "descending": False, **how}
    )[0]


@pytest.fixture
def in_parts(stored, tmp_path, monkeypatch):
    """A table of the file that does one part at each request."""
    monkeypatch.setattr("nbaudio.ui.widgets.table_view._PART_S", 0.0)
    return SegmentTable(tmp_path / "t.parquet")


def finish(table, size):
    """The sizes that a front end gets until the arrangement is complete."""
    sizes = [size]
    while "progress" in sizes[-1]:
        sizes.append(ask(table, "table.continue", version=size["version"])[0])
    return sizes


@pytest.mark.parametrize("stored", [7], indirect=True)
@pytest.mark.parametrize(
    "how",
    [
        {"find": "čenica 1"},
        {"where": "wer < 0.5"},
        {"sort": "text"},
        {"sort": "wer", "descending": True, "find": "1"},
        {"where": "flag", "find": "s2", "sort": "segment_id"},
    ],
    ids=str,
)
def test_searching_in_parts_gives_the_rows_of_one_search(stored, in_parts, how):
    frame, _ = stored
    sizes = finish(in_parts, arrange(in_parts, **how))
    expected = sort_and_filter(frame, **how)
    assert len(sizes) > 5
    totals = [size["total"] for size in sizes]
    assert totals == sorted(totals)
    assert totals[-1] == len(expected)
    shares = [int(size["progress"].rsplit(" ", 2)[1]) for size in sizes[:-1]]
    assert shares == sorted(shares)
    assert len({size["version"] for size in sizes}) == (2 if "sort" in how else 1), (
        "other rows only once they are sorted"
    )
    assert in_parts.shown.equals(frame[expected])
    resorted = finish(in_parts, arrange(in_parts, **{**how, "sort": "flag"}))
    assert {size["total"] for size in resorted} == {len(expected)}, (
        "rows that are found are not searched again"
    )
    assert in_parts.shown.equals(frame[sort_and_filter(frame, **{**how, "sort": "flag"})])


@pytest.mark.parametrize("stored", [7], indirect=True)
def test_rows_already_found_stay_visible_during_a_search(stored, in_parts):
    frame, _ = stored
    size = arrange(in_parts, find="ČENICA 7")
    page = {"call": "table.rows", "first": 0, "last": 5, "columns": ["segment_id"]}
    first, _ = ask(in_parts, **page)
    for each in finish(in_parts, size):
        assert ask(in_parts, **page)[0]["rows"][: len(first["rows"])] == first["rows"]
        assert each["version"] == first["version"]
    arrange(in_parts, find="s7", where="flag")
    assert in_parts.shown.equals(frame[sort_and_filter(frame, find="s7", where="flag")]), (
        "Python gets all rows"
    )


@pytest.mark.parametrize("stored", [7], indirect=True)
def test_a_new_sort_or_filter_ends_a_running_search(stored, in_parts):
    frame, _ = stored
    old = arrange(in_parts, find="s1")
    new = arrange(in_parts, find="s7")
    assert "progress" in old
    assert ask(in_parts, "table.continue", version=old["version"])[0] == new, (
        "the old one does not go on"
    )
    assert "error" in arrange(in_parts, where="no condition")
    assert finish(in_parts, new)[-1]["total"] == frame["segment_id"].str.contains("s7").sum(), (
        "a mistake does not end it"
    )
    arrange(in_parts, find="s1")
    in_parts.narrow("flag")
    assert in_parts.shown.equals(frame[sort_and_filter(frame, find="s1", where="flag")])
    assert "progress" not in ask(in_parts, "table.open")[0]


def test_a_condition_that_fails_in_a_later_part_keeps_the_earlier_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("nbaudio.tables.stored_frame._ROWS_AT_ONCE", 5)
    monkeypatch.setattr("nbaudio.ui.widgets.table_view._PART_S", 0.0)
    frame = pl.DataFrame({"segment_id": [*map(str, range(40)), "x"]})
    frame.write_parquet(tmp_path / "t.parquet", row_group_size=5)
    table = SegmentTable(tmp_path / "t.parquet", where="segment_id < '3'")
    kept = table.shown
    size = arrange(table, where="cast(segment_id as int) > 3")
    while "progress" in size:
        size = ask(table, "table.continue", version=size["version"])[0]
    assert "a string that is not a number" in size["error"]
    assert table.shown.equals(kept)
    assert table.where == "segment_id < '3'"


@pytest.mark.parametrize("descending", [False, True])
def test_columns_of_all_types_are_sorted_as_in_memory(tmp_path, monkeypatch, descending):
    monkeypatch.setattr("nbaudio.tables.stored_frame._ROWS_AT_ONCE", 50)
    monkeypatch.setattr("nbaudio.tables.stored_frame._SORTED_AT_ONCE", 128)
    number = pl.Series(np.random.default_rng(0).integers(0, 30, 500))
    number = number.set(number == 3, None)
    types = [pl.UInt64, pl.Int8, pl.Float32, pl.Decimal(10, 2), pl.Datetime("us"), pl.Boolean]
    frame = pl.DataFrame({str(dtype): number.cast(dtype) for dtype in types})
    texts = number.cast(pl.String)
    frame = frame.with_columns(
        large=number + 2**60,
        category=texts.cast(pl.Categorical),
        alike="one beginning " + texts,
        none=None,
    )
    often = pl.when(number < 25).then(7).otherwise(number)
    frame = frame.with_columns(
        often=often, often_share=often / 9, often_text=pl.format("speaker {}", often)
    )
    frame.write_parquet(tmp_path / "t.parquet", row_group_size=20)
    file = StoredFrame(tmp_path / "t.parquet")
    for sort in frame.columns:
        how = {"sort": sort, "descending": descending}
        assert sort_and_filter(file, **how).tolist() == sort_and_filter(frame, **how).tolist(), sort


def test_aggregates_over_all_texts_are_refused(stored):
    with pytest.raises(InputError, match="numbers only"):
        sort_and_filter(stored[1], where="text > max(text)")


def test_a_large_workspace_stays_in_its_file(make_workspace, monkeypatch):
    workspace = make_workspace({"r.flac": (20.0, 16000), "s.wav": (9.0, 44100)})
    theirs = load_segments(workspace, stored=True)
    monkeypatch.setattr(segments, "_MOST_IN_MEMORY", 3)
    ours = load_segments(workspace, stored=True)
    assert theirs.stored is None
    assert ours.stored is not None
    assert ours.rows.columns == theirs.frame.columns
    numbers = np.arange(len(theirs.frame))[::-1]
    assert ours.stored.rows(numbers).equals(theirs.frame[numbers])
    assert ours.row(4) == theirs.row(4)
    assert ours.lines(4) == theirs.lines(4)
    for how in (
        {"where": "duration_s > 1.5"},
        {"sort": "duration_s"},
        {"where": "speaker_id is not null", "sort": "recording_id"},
    ):
        assert (
            sort_and_filter(ours.stored, **how).tolist()
            == sort_and_filter(theirs.frame, **how).tolist()
        )
    table = SegmentTable(workspace)
    assert table._rows.frame.columns == ours.rows.columns
    assert (
        ask(table, "player.segment", number=2)[0]
        == ask(SegmentTable(theirs), "player.segment", number=2)[0]
    )


@pytest.mark.slow
def test_a_threshold_of_a_large_workspace_is_tuned_in_its_file(make_workspace, monkeypatch):
    workspace = make_workspace({"r.flac": (20.0, 16000), "s.wav": (9.0, 44100)})
    number = pl.int_range(pl.len())
    speaker = pl.when(number % 5 > 0).then(pl.format("s{}", number % 3))
    workspace.save(
        segments=workspace.segments.with_columns(
            similarity=number / pl.len(), speaker_id=speaker, number=number
        )
    )

    def answers(column):
        tuner = ThresholdTuner(workspace, column=column)
        found, arrays = ask(tuner, "tuner.open", column=column)
        shown = (
            tuner.static_html()
            if column == "similarity"
            else ask(tuner, "tuner.examples", column=column, value=1.5)
        )
        return found, [bytes(each) for each in arrays], tuner.value, tuner.where, shown

    columns = ("similarity", "duration_s", "number")
    theirs = [*map(answers, columns)]
    monkeypatch.setattr(segments, "_MOST_IN_MEMORY", 3)
    assert [*map(answers, columns)] == theirs
