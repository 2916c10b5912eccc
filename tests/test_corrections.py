"""Corrected bounds: an append-only log, and the step that applies it to the table."""

from dataclasses import replace

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from nbaudio import review
from nbaudio.core.errors import InputError
from nbaudio.review.corrections import correct_bounds
from nbaudio.review.rounds import gold_ids
from nbaudio.review.state import Correction, append_corrections, content_hashes, corrections
from nbaudio.ui.widgets import ReviewPanel

WHEN = "2026-11-21T03:00:00Z"


@pytest.fixture
def workspace(make_workspace):
    made = make_workspace({"a.wav": (9.0, 44100)})
    times = [[{"start": 0.0, "end": 0.5}], None, [{"start": 1.0, "end": 2.0}]]
    made.save(segments=made.segments.with_columns(word_times=pl.Series(times)))
    return made


def bounds(workspace):
    return workspace.segments.select("start_sample", "end_sample").rows()


def test_the_last_correction_applies_when_correct_bounds_is_called(workspace):
    ids, before = workspace.segments["segment_id"], bounds(workspace)
    (start, end), rate = before[1], 44100
    append_corrections(workspace, [Correction(ids[1], start - rate, end, start, end, "ana", WHEN)])
    append_corrections(
        workspace,
        [
            Correction(ids[1], start - rate // 2, end + 1, start, end, "ivo", WHEN),
            Correction(ids[0], 5, 6, *before[0], "ana", WHEN),
            Correction(ids[0], None, None, *before[0], "ana", WHEN),
        ],
    )
    assert corrections(workspace).select("segment_id", "start_sample", "reviewer").rows() == [
        (ids[1], start - rate // 2, "ivo")
    ]
    assert bounds(workspace) == before

    report = correct_bounds(workspace)
    assert report.facts["corrected_now"] == 1
    assert bounds(workspace) == [before[0], (start - rate // 2, end + 1), *before[2:]]
    segments = workspace.segments
    assert segments["corrected_by"].to_list() == [None, "ivo", None]
    assert segments["segment_id"].to_list() == ids.to_list()
    assert segments["source_start"].to_list() == ["0.0", "3.0", "6.0"]
    again = correct_bounds(workspace)
    assert (again.facts["corrected_now"], again.facts["corrected_before"], again.problems) == (
        0,
        1,
        [],
    )


def test_word_times_move_with_the_start(workspace):
    segment = workspace.segments.row(2, named=True)
    start, end = segment["start_sample"], segment["end_sample"]
    append_corrections(
        workspace, [Correction(segment["segment_id"], start - 4410, end, start, end, "ana", WHEN)]
    )
    correct_bounds(workspace)
    moved = workspace.segments["word_times"].to_list()
    assert moved[:2] == [[{"start": 0.0, "end": 0.5}], None]
    assert [round(value, 4) for value in moved[2][0].values()] == [1.1, 2.1]


def test_a_verdict_applies_to_the_bounds_that_were_played(workspace):
    whole = workspace.segments
    segment = whole.row(2, named=True)
    key, start, end = segment["segment_id"], segment["start_sample"], segment["end_sample"]
    [content] = content_hashes(whole[2])
    review.append_verdicts(
        workspace, [review.Verdict(key, content, "ok", "", None, "ana", WHEN, "panel")]
    )
    assert gold_ids(workspace, workspace.segments) == {key}
    for was, now in (
        ((start, end), (start + 4410, end)),
        ((start + 4410, end), (start + 4410, end - 99)),
    ):
        append_corrections(workspace, [Correction(key, *now, *was, "ana", WHEN)])
        correct_bounds(workspace)
    assert gold_ids(workspace, workspace.segments) == set()
    again = review.uncorrected(workspace, workspace.segments)
    assert_frame_equal(again.drop("corrected_by", "word_times"), whole.drop("word_times"))
    assert [round(value, 9) for value in again["word_times"][2][0].values()] == [1.0, 2.0]
    assert again["corrected_by"].null_count() == 3
    panel = ReviewPanel(workspace, reviewer="ana")
    assert panel.progress["done"] == 1
    panel._give(number=2, verdict="ok", comment="", corrected_text=None)
    assert gold_ids(workspace, workspace.segments) == {key}


def test_bounds_that_are_no_longer_those_of_the_table_are_reported(workspace):
    segment_id = workspace.segments["segment_id"][0]
    before = bounds(workspace)
    append_corrections(workspace, [Correction(segment_id, 5, 60000, 17, 18, "ana", WHEN)])
    report = correct_bounds(workspace)
    assert report.problems == [f"{segment_id}: its bounds are no longer those that were corrected"]
    assert bounds(workspace) == before


def test_an_incomplete_line_of_the_log_is_dropped_and_an_invalid_one_refused(workspace):
    log = workspace.path / "reviews" / "corrections.jsonl"
    log.parent.mkdir()
    log.write_bytes(b'{"segment_id": "a_0')
    append_corrections(workspace, [Correction("s", 1, 2, 0, 2, "ana", WHEN)])
    assert corrections(workspace)["segment_id"].to_list() == ["s"]
    log.write_bytes(b"{}\n")
    with pytest.raises(InputError, match=r"corrections\.jsonl: line 1: not a correction"):
        corrections(workspace)


@pytest.mark.parametrize("size", [1, 3])
def test_tables_do_not_depend_on_how_many_rows_are_read_at_once(workspace, monkeypatch, size):
    rows = workspace.segments
    signals = (
        pl.Series("snr_db", range(6), dtype=pl.Float64),
        pl.Series("source_channel", ["left", "right", None] * 2),
    )
    rows = pl.concat(
        [rows, rows[[1, 2]], rows[[0]].with_columns(segment_id=pl.lit(None, pl.String))]
    ).with_columns(signals)

    def changed(size):
        """The table after corrections and a decision, and after the corrections were taken back."""
        monkeypatch.setattr("nbaudio.tables.parquet_files.ROWS_A_GROUP", size)
        workspace.save(segments=rows)
        for path in (
            workspace.path / "corrected_texts.parquet",
            workspace.path / "decisions.parquet",
        ):
            path.unlink(missing_ok=True)
        said = [
            review.Verdict(row["segment_id"], "", "noise", "", "da", "ana", WHEN, "sheet")
            for row in rows[1:3].to_dicts()
        ]
        said = [
            replace(one, content=key)
            for one, key in zip(said, content_hashes(rows[1:3]), strict=True)
        ]
        start, end = rows["start_sample"][1], rows["end_sample"][1]
        review.append_verdicts(workspace, said)
        append_corrections(
            workspace,
            [Correction(rows["segment_id"][1], start - 4410, end, start, end, "ana", WHEN)],
        )
        review.correct_texts(workspace)
        correct_bounds(workspace)
        review.import_decisions(
            workspace, pl.DataFrame({"segment_id": rows["segment_id"][:1], "decision": ["reject"]})
        )
        found = workspace.segments
        review.append_verdicts(workspace, [replace(one, verdict=None) for one in said])
        review.correct_texts(workspace)
        return found, workspace.segments

    (whole, back), (found, back_found) = changed(100), changed(size)
    assert_frame_equal(found, whole)
    assert_frame_equal(back_found, back)
    assert whole["text"].to_list() == [rows["text"][0], *["da"] * 4, rows["text"][5]]
    assert whole["snr_db"].to_list() == [0.0, None, 2.0, None, 4.0, 5.0]
    assert whole["decision"].to_list() == ["reject", *["accept"] * 5]
    assert_frame_equal(
        back.select("text", "asr_text", "similarity"), rows.select("text", "asr_text", "similarity")
    )
