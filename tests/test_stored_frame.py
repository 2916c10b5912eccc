"""Rows that stay in a Parquet file: equal to the same rows in memory, for conditions, orders, pages and players."""

import numpy as np
import polars as pl
import pytest
from test_widget_tables import ask

from nbaudio.core.errors import InputError
from nbaudio.core.stored_frame import StoredFrame
from nbaudio.ui.filters import sort_and_filter
from nbaudio.ui.widgets import SegmentTable, ThresholdTuner, segments
from nbaudio.ui.widgets.segments import load_segments

ROWS = 1000


@pytest.fixture(params=[7, 400, 5000], ids="row groups of {}".format)
def stored(request, tmp_path, monkeypatch):
    """A frame, and its file."""
    monkeypatch.setattr("nbaudio.core.stored_frame._ROWS_AT_ONCE", 50)
    rng = np.random.default_rng(0)
    number = pl.Series(rng.integers(0, 40, ROWS))
    frame = pl.DataFrame(
        {
            "segment_id": [f"s{i}" for i in range(ROWS)],
            "text": pl.Series([f"rečenica {i} č" for i in number]).set(number == 3, None),
            "wer": pl.Series(rng.random(ROWS).round(1)).set(number == 5, float("nan")).set(number == 6, None),
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
        {"find": "ČENICA 7"},
        {"sort": "wer"},
        {"sort": "wer", "descending": True},
        {"sort": "split", "where": "wer > 0.2", "narrowed": "flag"},
        {"sort": "flag", "descending": True},
        {"sort": "text"},
        {"sort": "segment_id", "descending": True},
    ],
    ids=str,
)
def test_orders_are_those_of_the_frame(stored, how):
    frame, file = stored
    assert sort_and_filter(file, **how).tolist() == sort_and_filter(frame, **how).tolist()


def test_rows_columns_and_cells_are_those_of_the_frame(stored):
    frame, file = stored
    numbers = np.array([999, 0, 500, 500, 3], dtype=np.uint32)
    assert file.rows(numbers).equals(frame[numbers])
    assert file.rows(numbers[:0]).equals(frame[:0])
    assert file.rows(numbers, ["wer", "text"]).equals(frame[numbers].select("wer", "text"))
    assert all(file[name].equals(frame[name]) for name in frame.columns)
    assert (len(file), file.columns, file.schema) == (ROWS, frame.columns, frame.schema)
    assert file.row(7, named=True) == frame.row(7, named=True)


def test_errors_are_those_of_the_frame(stored):
    frame, file = stored
    for how in ({"where": "speaker = 'x'"}, {"where": "text < 3"}, {"sort": "texts"}, {"where": "wer <"}):
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


def test_a_table_of_a_file_answers_as_one_of_its_frame(stored, tmp_path):
    frame, _ = stored
    ours, theirs = SegmentTable(tmp_path / "t.parquet", sort="wer"), SegmentTable(frame, sort="wer")
    assert ours.shown.equals(theirs.shown)
    for table in (ours, theirs):
        table._rows.frame.advance = lambda _share: None
    for call in ({"call": "table.rows", "first": 3, "last": 9, "columns": ["text", "wer"]}, {"call": "table.open"}):
        assert ask(ours, **call) == ask(theirs, **call)
    for column in frame.columns:
        found, expected = (ask(table, "table.distribution", column=column)[0] for table in (ours, theirs))
        # Of values that are as frequent, any comes first.
        tops = [[count for _, count in each.pop("top", None) or []] for each in (found, expected)]
        assert (found, tops[0]) == (expected, tops[1])
        assert ask(ours, "table.cell", number=9, column=column) == ask(theirs, "table.cell", number=9, column=column)
    assert ours.static_html() == theirs.static_html()
    assert ours.selected.equals(theirs.selected)


def test_progress_is_sent_while_a_column_is_read(stored, tmp_path):
    table, sent = SegmentTable(tmp_path / "t.parquet"), []
    table.send = lambda content, *_: sent.append(content)
    table._answer(
        table, {"call": "table.arrange", "arguments": {"where": "", "find": "", "sort": "text", "descending": False}}, []
    )
    shares = [each["progress"] for each in sent if "progress" in each]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert sent[-1]["result"]["total"] == ROWS


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
        assert sort_and_filter(ours.stored, **how).tolist() == sort_and_filter(theirs.frame, **how).tolist()
    table = SegmentTable(workspace)
    assert table._rows.frame.columns == ours.rows.columns
    assert ask(table, "player.segment", number=2)[0] == ask(SegmentTable(theirs), "player.segment", number=2)[0]


def test_a_threshold_of_a_large_workspace_is_tuned_in_its_file(make_workspace, monkeypatch):
    workspace = make_workspace({"r.flac": (20.0, 16000), "s.wav": (9.0, 44100)})
    number = pl.int_range(pl.len())
    speaker = pl.when(number % 5 > 0).then(pl.format("s{}", number % 3))
    workspace.save(segments=workspace.segments.with_columns(similarity=number / pl.len(), speaker_id=speaker, number=number))

    def answers(column):
        tuner = ThresholdTuner(workspace, column=column)
        found, arrays = ask(tuner, "tuner.open", column=column)
        shown = tuner.static_html() if column == "similarity" else ask(tuner, "tuner.examples", column=column, value=1.5)
        return found, [bytes(each) for each in arrays], tuner.value, tuner.where, shown

    columns = ("similarity", "duration_s", "number")
    theirs = [*map(answers, columns)]
    monkeypatch.setattr(segments, "_MOST_IN_MEMORY", 3)
    assert [*map(answers, columns)] == theirs
