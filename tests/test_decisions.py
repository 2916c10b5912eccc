"""Decisions on single segments, edited in pandas: imported, kept, obeyed by `select`, withdrawn."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from test_select import corpus, recordings_table, segment, segments_table

import nbaudio
from nbaudio import review
from nbaudio.core.errors import InputError
from nbaudio.tables.workspace import Workspace

ALL = {"dev": 0, "test": 0, "group_by": ()}


def make(tmp_path, segments, **settings):
    workspace = Workspace.create(tmp_path / "w", source="made", audio=None, **settings)
    workspace.save(recordings=recordings_table([f"r{i}" for i in range(20)]), segments=segments)
    return workspace


@pytest.fixture
def workspace(tmp_path):
    """Six segments, the first two of which are below 0.8."""
    rows = [segment(n, similarity=0.5 if n < 2 else 0.9) for n in range(6)]
    workspace = make(tmp_path, segments_table(rows).drop("start", "end"))
    nbaudio.select(workspace, **ALL)
    return workspace


def now(workspace):
    """`decision` and `reason` by segment."""
    rows = workspace.segments.select("segment_id", "decision", "reason").iter_rows()
    return {key: (decision, reason) for key, decision, reason in rows}


def imported_decisions(workspace):
    return {
        key: (decision, reason) for key, decision, reason in review.decisions(workspace).iter_rows()
    }


RULE = ("reject", "below_similarity")
IN = ("accept", None)


@pytest.mark.parametrize(
    "form", ["whole", "part", "without split", "id as index", "polars", "categories"]
)
def test_only_changed_decisions_of_an_edited_table_are_imported(workspace, form):
    table = workspace.to_pandas()
    table.loc[table["segment_id"] == "x0000", "decision"] = "accept"
    table.loc[table["segment_id"] == "x0005", ["decision", "reason"]] = "reject", "applause"
    table.loc[table["segment_id"] == "x0004", "decision"] = "reject"
    table = {
        "whole": lambda: table,
        "part": lambda: table[table["segment_id"] != "x0003"].sample(frac=1, random_state=3),
        "without split": lambda: table[["segment_id", "decision", "reason"]],
        "id as index": lambda: table.set_index("segment_id"),
        "polars": lambda: as_frame(table),
        "categories": lambda: table.astype(
            {"segment_id": "category", "decision": "category", "reason": "category"}
        ),
    }[form]()
    report = review.import_decisions(workspace, table)
    assert (report.facts["accepted"], report.facts["rejected"], report.facts["pending"]) == (
        1,
        2,
        0,
    )
    assert report.facts["in_force"] == {"accept": 1, "reject": 2}
    expected = {
        "x0000": ("accept", None),
        "x0004": ("reject", "by_hand"),
        "x0005": ("reject", "applause"),
    }
    assert imported_decisions(workspace) == expected
    # What is accepted has no split before the next select.
    assert now(workspace) == dict.fromkeys(("x0002", "x0003"), IN) | expected | {
        "x0000": ("pending", None),
        "x0001": RULE,
    }
    assert nbaudio.select(workspace, **ALL).facts["by_hand"] == {"accept": 1, "reject": 2}
    assert now(workspace) == dict.fromkeys(("x0002", "x0003"), IN) | expected | {"x0001": RULE}
    again = review.import_decisions(workspace, workspace.to_pandas())
    assert (again.facts["unchanged"], again.warnings, imported_decisions(workspace)) == (
        6,
        [],
        expected,
    )


def as_frame(table):
    return pl.from_pandas(table.drop(columns="word_times"))


def test_decisions_apply_to_later_selections_until_they_are_withdrawn(workspace):
    bad = pd.DataFrame({"segment_id": ["x0000", "x0002"], "decision": "reject"})
    good = pd.DataFrame({"segment_id": ["x0001", "x0003"], "decision": "accept"}, index=[7, 7])
    for table in (bad, good):
        assert "select" in review.import_decisions(workspace, table).warnings[0]
    for limit in (0.0, 0.8, 0.95):
        nbaudio.select(workspace, min_similarity=limit, **ALL)
        found = now(workspace)
        assert found["x0000"] == found["x0002"] == ("reject", "by_hand")
        assert found["x0001"] == found["x0003"] == IN
        assert found["x0004"] == (("reject", "below_similarity") if limit > 0.9 else IN)
    back = pl.DataFrame({"segment_id": ["x0001", "x0002"], "decision": ["pending", "pending"]})
    review.import_decisions(workspace, back)
    nbaudio.select(workspace, **ALL)
    assert imported_decisions(workspace) == {
        "x0000": ("reject", "by_hand"),
        "x0003": ("accept", None),
    }
    assert (now(workspace)["x0001"], now(workspace)["x0002"]) == (RULE, IN)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pd.DataFrame(), "no column segment_id; columns are none"),
        (pd.DataFrame({"segment_id": ["x0000"]}), "no column decision; columns are segment_id"),
        (
            pd.DataFrame({"segment_id": ["x0000", "y", "z"], "decision": "accept"}),
            "has no segment 'y', 'z'; nothing imported",
        ),
        (
            pd.DataFrame({"segment_id": [*"abcde"], "decision": "accept"}),
            "has no segment 'a', 'b', 'c' and 2 more",
        ),
        (pd.DataFrame({"segment_id": [7], "decision": "accept"}), "has no segment '7'"),
        (
            pd.DataFrame({"segment_id": ["x0000"], "decision": "Yes"}),
            "pending, accept, reject; unknown are 'Yes'",
        ),
        (pd.DataFrame({"segment_id": ["x0000"], "decision": [True]}), "unknown are 'true'"),
        (
            pd.DataFrame({"segment_id": ["x0000", None], "decision": "accept"}),
            "rows with a decision have no segment_id",
        ),
        (
            pd.DataFrame({"segment_id": ["x0000"] * 2, "decision": ["accept", "reject"]}),
            "given twice, but differently: 'x0000'",
        ),
        (
            pd.DataFrame({"segment_id": ["x0003"], "decision": "reject", "reason": "too_long"}),
            "a rule of select .*'too_long'",
        ),
        ([("x0000", "accept")], "must be a pandas or polars DataFrame, not list"),
    ],
)
def test_an_invalid_table_of_decisions_is_refused_and_changes_nothing(workspace, table, message):
    before = workspace.segments
    with pytest.raises(InputError, match=message) as raised:
        review.import_decisions(workspace, table)
    assert "\n" not in str(raised.value)
    assert workspace.segments.equals(before)
    assert review.decisions(workspace).is_empty()


def test_rows_without_a_decision_and_equal_repeated_rows_are_accepted(workspace):
    ids = ["x0005", "x0005", "x0004", "x0003"]
    table = pd.DataFrame(
        {"segment_id": ids, "decision": ["reject", "reject", np.nan, None], "reason": np.nan}
    )
    review.import_decisions(workspace, table.astype({"decision": object}))
    assert imported_decisions(workspace) == {"x0005": ("reject", "by_hand")}
    assert review.import_decisions(workspace, table.iloc[:0]).facts["rejected"] == 0
    assert imported_decisions(workspace) == {"x0005": ("reject", "by_hand")}


def test_accepted_segments_pass_filters_but_not_checks_of_usable_audio(tmp_path):
    broken = {"text": ""}, {"recording": "elsewhere"}, {"start_sample": 5, "end_sample": 10**12}
    rows = [
        segment(0, length=30),
        segment(1, length=0.5),
        *(segment(n, **more) for n, more in enumerate(broken, 2)),
        segment(5),
    ]
    workspace = make(tmp_path, segments_table(rows).drop("start", "end"))
    table = pd.DataFrame({"segment_id": [f"x{n:04d}" for n in range(6)], "decision": "accept"})
    review.import_decisions(workspace, table.iloc[:5])
    report = nbaudio.select(workspace, min_duration=1, **ALL)
    out = [reason for _, reason in now(workspace).values()]
    assert out == [None, None, "empty_text", "unknown_recording", "past_the_end", None]
    assert any("accepted by hand stay out: 1 empty_text" in warning for warning in report.warnings)


def test_an_accepted_segment_is_rejected_if_it_would_leak_between_splits(tmp_path):
    # One speaker of two recordings, of which one is held out.
    rows = corpus(speakers=12, recordings=6, each=3)
    workspace = make(tmp_path, rows.drop("start", "end"))
    keys = ("speaker_id", "recording_id")
    nbaudio.select(workspace, dev=3, test=3, group_by=keys)
    everything = workspace.segments.select(
        "segment_id", decision=pl.lit("accept"), reason=pl.lit(None, pl.String)
    )
    review.import_decisions(workspace, everything.head(30))
    nbaudio.select(workspace, dev=3, test=3, group_by=keys)
    kept = workspace.segments.drop_nulls("split")
    for key in keys:
        assert kept.group_by(key).agg(pl.col("split").n_unique())["split"].max() == 1


def test_a_budget_is_filled_with_accepted_segments_first(tmp_path):
    workspace = make(tmp_path, corpus(speakers=10, each=2).drop("start", "end"))
    options = ALL | {"hours": 26 / 3600}  # five of twenty
    nbaudio.select(workspace, **options)
    out = workspace.segments.filter(pl.col("reason") == "over_budget")["segment_id"].head(4)
    review.import_decisions(
        workspace, pd.DataFrame({"segment_id": out.to_list(), "decision": "accept"})
    )
    nbaudio.select(workspace, **options)
    kept = workspace.segments.filter(pl.col("decision") == "accept")["segment_id"]
    assert (len(kept), out.is_in(kept.implode()).all()) == (5, True)


def test_what_was_accepted_below_the_threshold_is_reported(workspace):
    review.import_decisions(
        workspace, pd.DataFrame({"segment_id": ["x0000"], "decision": "accept"})
    )
    warnings = nbaudio.select(workspace, **ALL).warnings
    assert any(
        "in, though below min_similarity 0.8: 1 segment accepted by hand" in warning
        for warning in warnings
    )


def test_an_accepted_segment_that_was_reviewed_stays_out_of_train(workspace):
    (workspace.path / "reviews").mkdir()
    (workspace.path / "reviews" / "sheet.json").write_text('{"segment_ids": ["x0003"]}')
    review.import_decisions(
        workspace, pd.DataFrame({"segment_id": ["x0003"], "decision": "accept"})
    )
    nbaudio.select(workspace, **ALL)
    assert now(workspace)["x0003"] == ("reject", "reviewed")


def test_materialize_waits_for_select_after_a_segment_was_accepted(make_workspace, tmp_path):
    workspace = make_workspace({"a.wav": (8.0, 16000)})
    first, second, *_ = workspace.segments["segment_id"]
    review.import_decisions(
        workspace, pd.DataFrame({"segment_id": [first, second], "decision": "reject"})
    )
    review.import_decisions(workspace, pd.DataFrame({"segment_id": [second], "decision": "accept"}))
    with pytest.raises(InputError, match="1 of 2 segments are not decided; run 'nbaudio select"):
        nbaudio.materialize(workspace, out=tmp_path / "corpus", show_progress=False)
    nbaudio.select(workspace, **ALL)
    nbaudio.materialize(workspace, out=tmp_path / "corpus", jobs=1, show_progress=False)
    assert nbaudio.open_corpus(tmp_path / "corpus").segments["segment_id"].to_list() == [second]
