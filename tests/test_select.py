import json
import re
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from nbaudio.cli import app as cli
from nbaudio.core.errors import InputError
from nbaudio.core.report import percent
from nbaudio.review.rounds import gold_ids
from nbaudio.review.state import Verdict, append_verdicts, content_hashes
from nbaudio.selection.parameters import Parameters
from nbaudio.selection.select import decide as decide_rows
from nbaudio.selection.select import select
from nbaudio.selection.select_report import count_reasons, reasons_of
from nbaudio.selection.size_budget import CLIP_OVERHEAD_BYTES, PCM_BYTES_PER_SECOND
from nbaudio.tables.schemas import RECORDINGS, SEGMENTS, conform
from nbaudio.tables.workspace import Workspace

RATE = 16000
DAY = 24 * 3600
ALONE = {"dev": 0, "test": 0, "group_by": ()}


def recordings_table(ids, *, seconds=DAY, rate=RATE):
    rows = [
        {
            "recording_id": i,
            "path": f"{i}.wav",
            "sampling_rate": rate,
            "num_samples": seconds * rate,
        }
        for i in ids
    ]
    return conform(pl.DataFrame(rows), RECORDINGS, "recordings")


def segments_table(rows):
    """Rows of segment_id, recording_id, speaker_id, start, end (seconds) and further columns by
    name."""
    columns = []
    for row in rows:
        start, end = row["start"], row["end"]
        placed = {"start_sample": round(start * RATE), "end_sample": round(end * RATE)}
        times = {"source_start": str(start), "source_end": str(end)}
        columns.append(
            {"text": f"text {row['segment_id']}", "similarity": 0.9, **placed, **times, **row}
        )
    schema = {**SEGMENTS, "start": pl.Float64, "end": pl.Float64}
    return conform(
        pl.DataFrame(columns, schema_overrides=schema, infer_schema_length=None),
        SEGMENTS,
        "segments",
    )


def segment(number, *, recording="r0", speaker="s0", length=5, **more):
    start = 30 * number
    return {
        "segment_id": f"x{number:04d}",
        "recording_id": recording,
        "speaker_id": speaker,
        "start": start,
        "end": start + length,
        **more,
    }


def corpus(speakers=10, recordings=10, each=2):
    """Every speaker in a recording of their own, `each` segments of 5 seconds."""
    return segments_table(
        [
            segment(s * each + k, recording=f"r{s % recordings}", speaker=f"s{s}")
            for s in range(speakers)
            for k in range(each)
        ]
    )


def with_decisions(recordings, segments, reviewed, parameters, **given):
    """Return the segments with their decisions, and the grouping."""
    decisions = decide_rows(recordings, segments, reviewed, parameters, **given)
    return segments.with_columns(
        decisions.rows.with_columns(pl.col("split", "reason").cast(pl.String))
    ), decisions.grouping


def decide(segments, reviewed=(), recordings=None, **parameters):
    recordings = (
        recordings_table([f"r{i}" for i in range(20)]) if recordings is None else recordings
    )
    return with_decisions(recordings, segments, reviewed, Parameters(**parameters))[0]


def reasons(segments, **parameters):
    return decide(segments, **parameters)["reason"].to_list()


cells = st.fixed_dictionaries(
    {
        "recording": st.sampled_from(["r0", "r1", "r2", "r3", "elsewhere"]),
        "speaker": st.sampled_from(["s0", "s1", "s2", None]),
        "length": st.sampled_from([0, 1, 5, 10, 20, 21]),
        "similarity": st.sampled_from([0.2, 0.8, 0.95, None]),
        "text": st.sampled_from(["da", "ne", ""]),
    }
)
tables = st.lists(cells, max_size=40).map(
    lambda rows: segments_table([segment(n, **row) for n, row in enumerate(rows)])
)
budgets = st.one_of(st.none(), st.floats(0, 0.1))


@pytest.mark.slow
@given(
    tables,
    st.sets(st.sampled_from(["speaker_id", "recording_id"])),
    budgets,
    st.sets(st.integers(0, 39)),
    st.integers(0, 3),
)
@settings(max_examples=80, deadline=None)
def test_every_segment_is_accepted_or_rejected_and_no_group_crosses_splits(
    segments, keys, hours, numbers, held_out
):
    reviewed = {f"x{number:04d}" for number in numbers}
    try:
        chosen = decide(
            segments,
            reviewed,
            hours=hours,
            dev=held_out,
            test=held_out,
            group_by=tuple(sorted(keys)),
        )
    except InputError:
        return
    assert chosen.drop("split", "decision", "reason").equals(
        segments.drop("split", "decision", "reason")
    )
    accepted = chosen["decision"] == "accept"
    assert (accepted | (chosen["decision"] == "reject")).all()
    assert (accepted == chosen["split"].is_not_null()).all()
    assert (accepted == chosen["reason"].is_null()).all()
    train = chosen.filter(pl.col("split") == "train")
    assert not reviewed & set(train["segment_id"])
    for key in keys:
        values = (
            chosen.filter(accepted).drop_nulls(key).group_by(key).agg(pl.col("split").n_unique())
        )
        assert (values["split"] == 1).all()
    if hours is not None:
        kept = chosen.filter(accepted)
        assert (kept["end_sample"] - kept["start_sample"]).sum() <= hours * 3600 * RATE + 1e-6


@pytest.mark.slow
@given(tables, budgets, st.sets(st.integers(0, 39)), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_selection_does_not_depend_on_row_order_and_earlier_decisions(
    segments, hours, numbers, random
):
    reviewed = {f"x{number:04d}" for number in numbers}
    order = list(range(len(segments)))
    random.shuffle(order)
    try:
        chosen = decide(segments, reviewed, hours=hours)
    except InputError:
        return
    assert decide(segments[order], reviewed, hours=hours).equals(chosen[order])
    assert decide(chosen, reviewed, hours=hours).equals(chosen)


def test_the_reason_is_the_first_rule_that_rejects():
    rows = [
        segment(0, recording="elsewhere", similarity=0.1),
        segment(1, length=-5),
        segment(2, text=" ", similarity=0.1),
        segment(3, recording="short"),
        segment(4, recording="lost", similarity=0.1, start_sample=None, end_sample=None),
        segment(5, similarity=0.7999, length=25),
        segment(6, length=25),
        segment(7, length=0.5),
        segment(8, similarity=0.8, length=20),
        segment(9, similarity=None, length=1),
        segment(10, similarity=float("nan")),
    ]
    recordings = pl.concat(
        [
            recordings_table(["r0"]),
            recordings_table(["short"], seconds=90),
            conform(pl.DataFrame({"recording_id": ["lost"]}), RECORDINGS, "recordings"),
        ]
    )
    expected = [
        "unknown_recording",
        "end_before_start",
        "empty_text",
        "past_the_end",
        "no_audio",
        "below_similarity",
    ]
    expected += ["too_long", "too_short", None, None, None]
    assert reasons(segments_table(rows), recordings=recordings, min_duration=1, **ALONE) == expected


def test_of_two_segments_with_the_same_window_one_is_kept():
    twice = segments_table([segment(1), {**segment(1), "segment_id": "x0001b"}])
    assert reasons(twice, **ALONE) == [None, "duplicate"]
    assert reasons(twice[::-1], **ALONE) == ["duplicate", None]


@pytest.mark.parametrize(("samples", "reason"), [(RATE // 10, None), (RATE // 10 + 1, "too_long")])
def test_durations_are_compared_to_the_sample(samples, reason):
    # 0.1 s has no exact float, and 7.3 + 0.1 differs from 7.4 in its last bit.
    start = 73 * RATE // 10
    row = segment(
        0, start_sample=start, end_sample=start + samples, source_start="7.3", source_end="7.4"
    )
    assert reasons(segments_table([row]), max_duration=0.1, **ALONE) == [reason]


def test_a_segment_without_samples_ends_at_its_start_whatever_its_times_say():
    row = segment(0, start_sample=80, end_sample=80, source_start="0.005", source_end="0.00501")
    assert reasons(segments_table([row]), min_duration=0, **ALONE) == ["end_before_start"]


@pytest.mark.parametrize("key", ["source_channel", "rate", "num_channels", "said", "is_empty"])
def test_any_column_can_be_grouped_by_whatever_its_name(tmp_path, key):
    segments = segments_table([segment(n, speaker=f"s{n}") for n in range(20)])
    workspace = Workspace.create(tmp_path / "w", source="x", audio=None)
    recordings = recordings_table(["r0"]).with_columns(num_channels=pl.lit(2, pl.Int16))
    values = pl.Series(key, ["left"] * 15 + ["right"] * 5)
    workspace.save(recordings=recordings, segments=segments.with_columns(values))
    select(workspace, dev=5, test=0, group_by=(key,))
    assert workspace.segments.group_by(key, "split").len().sort("len").rows() == [
        ("right", "dev", 5),
        ("left", "train", 15),
    ]


def test_columns_with_names_of_what_select_computes_are_refused_as_groups(tmp_path):
    workspace = Workspace.create(tmp_path / "w", source="x", audio=None)
    segments = segments_table([segment(n, reviewed="a") for n in range(3)])
    workspace.save(recordings=recordings_table(["r0"]), segments=segments)
    with pytest.raises(InputError, match="'reviewed' is not a column to group segments by"):
        select(workspace, group_by=("reviewed",))


@pytest.mark.parametrize("end", ["NaN", "inf", "1e400", "soon", ""])
def test_a_segment_with_invalid_times_is_rejected_and_adds_no_hours(tmp_path, end):
    rows = [
        segment(number, source_end=end if number == 3 else str(30 * number + 5))
        for number in range(9)
    ]
    workspace = Workspace.create(tmp_path / "w", source="x", audio=None)
    # The recordings table may name a recording twice.
    workspace.save(
        recordings=recordings_table(["r0", "r0"]),
        segments=segments_table(rows).with_columns(start_sample=None),
    )
    facts = select(workspace, **ALONE).facts
    assert (facts["kept"], facts["rejected"]) == (0, {"no_audio": 8, "no_times": 1})
    workspace.save(recordings=pl.DataFrame({"recording_id": ["r0", "r0"]}))
    facts = select(workspace, **ALONE, hours=0.01).facts
    assert (facts["kept"], facts["hours"], facts["rejected"]) == (
        7,
        0.0097,
        {"no_times": 1, "over_budget": 1},
    )
    assert workspace.segments.height == 9


def test_without_any_audio_the_times_of_the_source_decide():
    recordings = conform(pl.DataFrame({"recording_id": ["r0"]}), RECORDINGS, "recordings")
    nothing = {"start_sample": None, "end_sample": None}
    rows = [
        segment(0, **nothing, source_start="3207.7", source_end="3227.7"),
        segment(1, **nothing, source_start="3207.7", source_end="3227.700001"),
        segment(2, **nothing, source_start="soon", source_end="5"),
    ]
    assert reasons(segments_table(rows), recordings=recordings, **ALONE) == [
        None,
        "too_long",
        "no_times",
    ]


def test_dev_and_test_have_the_requested_sizes():
    chosen = decide(corpus(speakers=20, recordings=20, each=7), dev=10, test="0.02h")
    counts = dict(chosen.drop_nulls("split")["split"].value_counts().iter_rows())
    # 0.02 hours are 72 seconds: 14 segments of 5 seconds.
    assert counts == {"train": 140 - 10 - 14 - chosen["reason"].count(), "dev": 10, "test": 14}


def test_dev_and_test_are_a_twentieth_of_what_budget_leaves():
    segments = corpus(speakers=100, recordings=20, each=4)
    assert dict(decide(segments, group_by=()).group_by("split").len().iter_rows()) == {
        "train": 360,
        "dev": 20,
        "test": 20,
    }
    # 1000 seconds hold 200 segments of 5 seconds.
    chosen = decide(segments, group_by=(), hours=1000 / 3600 + 1e-9).drop_nulls("split")
    assert dict(chosen.group_by("split").len().iter_rows()) == {"train": 180, "dev": 10, "test": 10}


def test_reviewed_segments_stay_out_of_train_and_may_be_held_out():
    segments = corpus(speakers=10, each=4)
    chosen = decide(segments, set(segments["segment_id"]), dev=4, test=4)
    assert set(chosen["reason"].drop_nulls()) == {"reviewed"}
    assert chosen["split"].drop_nulls().value_counts().sort("split").rows() == [
        ("dev", 4),
        ("test", 4),
    ]


@pytest.mark.slow
@given(st.lists(st.integers(1, 12), min_size=1, max_size=12), st.floats(0, 0.2), st.integers(0, 5))
@settings(deadline=None)
def test_a_budget_is_reached_but_never_passed(lengths, hours, seed):
    segments = segments_table(
        [segment(n, speaker=f"s{n % 4}", length=length) for n, length in enumerate(lengths)]
    )
    chosen = decide(segments, hours=hours, seed=seed, **ALONE)
    length = (pl.col("end_sample") - pl.col("start_sample")).sum() / RATE
    used = chosen.filter(pl.col("split").is_not_null()).select(length).item()
    assert used <= hours * 3600 + 1e-6
    assert used == sum(lengths) or used > hours * 3600 - max(lengths) - 1e-5


@pytest.mark.slow
@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.integers(1, 60), st.integers(0, 5))
@settings(deadline=None)
def test_a_budget_of_hours_is_spread_evenly_over_speakers(speakers, room, seed):
    segments = segments_table([segment(n, speaker=f"s{s}") for n, s in enumerate(speakers)])
    chosen = decide(segments, hours=room * 5 / 3600 + 1e-9, seed=seed, **ALONE)
    there = dict(segments.group_by("speaker_id").len().iter_rows())
    kept = dict(chosen.filter(pl.col("split") == "train").group_by("speaker_id").len().iter_rows())
    assert sum(kept.values()) == min(room, len(speakers))
    # Nobody is more than one turn behind, unless they have no more to give.
    most = max(kept.values())
    assert all(kept.get(speaker, 0) >= min(number, most - 1) for speaker, number in there.items())
    assert room < len(there) or kept.keys() == there.keys()


def test_a_recording_stands_in_for_an_unknown_speaker():
    rows = [segment(n, recording="r0", speaker=None) for n in range(20)] + [
        segment(20, recording="r1", speaker=None)
    ]
    chosen = decide(segments_table(rows), hours=2 * 5 / 3600 + 1e-9, **ALONE)
    assert sorted(chosen.filter(pl.col("split") == "train")["recording_id"]) == ["r0", "r1"]


def test_a_disk_budget_counts_seconds_and_clips():
    parameters = {"clip_size": 1000, **ALONE}
    each = 5 * 1000 + CLIP_OVERHEAD_BYTES
    segments = corpus(speakers=1, each=10)
    for disk, number in ((str(10 * each - 1), 9), (f"{10 * each // 1000}kB", 10), (each - 1, 0)):
        assert (decide(segments, disk=disk, **parameters)["split"] == "train").sum() == number
    assert set(reasons(segments, disk=1, **parameters)) == {"over_budget"}


def test_dev_and_test_count_within_the_budget():
    segments = corpus(speakers=10, each=10)
    chosen = decide(segments, hours=0.1, dev=10, test=10)
    assert chosen["split"].count() == 72
    with pytest.raises(
        InputError, match=r"dev and test alone take 0\.028 hours, the budget is 0\.020 hours"
    ):
        decide(segments, hours=0.02, dev=10, test=10)


def test_grouping_that_leaves_nothing_for_train_is_refused():
    with pytest.raises(
        InputError, match=r"no speaker_id .*leave nothing for train.*group by fewer"
    ):
        decide(corpus(speakers=2, each=50), dev=5, test=5, group_by=("speaker_id",))
    with pytest.raises(InputError, match=r"group by fewer"):
        decide(corpus(speakers=1, each=50), dev=2, test=2)
    assert decide(corpus(speakers=2, each=50), group_by=(), dev=40, test=60)["split"].count() == 100


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"min_similarity": 1.5}, "min_similarity=1.5: must be a number from -1 to 1"),
        ({"min_similarity": float("nan")}, "min_similarity=nan"),
        ({"max_duration": "20"}, "max_duration='20'"),
        ({"max_duration": 5, "min_duration": 6}, "min_duration=6: must be a number from 0 to 5"),
        ({"hours": -1}, "hours=-1"),
        ({"hours": 1, "disk": "1GB"}, "give one of the two"),
        ({"disk": "plenty"}, "'plenty' is not a size"),
        ({"dev": "many"}, "dev='many'"),
        ({"test": -1}, "test=-1"),
        ({"seed": "42"}, "seed='42'"),
        ({"group_by": ("chamber",)}, "'chamber' is not a column"),
        ({"test": 41}, "test: 41 segments requested"),
    ],
)
def test_invalid_parameters_of_select_are_refused(parameters, message):
    with pytest.raises(InputError, match=message):
        decide(corpus(speakers=10, each=4), **parameters)


@pytest.fixture
def workspace(tmp_path):
    workspace = Workspace.create(tmp_path / "w", source="asr.json", audio=None)
    segments = corpus(speakers=20, recordings=20, each=6)
    workspace.save(recordings=recordings_table([f"r{i}" for i in range(20)]), segments=segments)
    return workspace


def test_sizes_may_be_numbers_of_numpy(workspace):
    sizes = {"dev": np.int64(6), "test": np.int64(6)}
    report = select(workspace, seed=np.int64(1), min_similarity=np.float32(0.5), **sizes)
    assert json.loads(json.dumps(report.to_dict()))["facts"]["parameters"]["dev"] == 6


def test_select_saves_decisions_and_its_report(workspace):
    report = select(workspace.path, min_similarity=0.5, dev=6, test=6, seed=7)
    saved = workspace.segments
    assert saved["decision"].to_list() == ["accept"] * 120
    assert workspace.report("select") == json.loads(json.dumps(report.to_dict()))
    facts = report.facts
    assert (facts["segments"], facts["kept"], facts["rejected"]) == (120, 120, {})
    assert facts["hours"] == pytest.approx(600 / 3600, abs=1e-4)
    assert facts["dev"] == {
        "segments": 6,
        "hours": pytest.approx(30 / 3600, abs=1e-4),
        "speakers": 1,
    }
    # Their texts differ in one character of ten.
    assert facts["leakage"] == {
        "speaker": 0,
        "recording": 0,
        "identical_sentence": 0,
        "near_identical_sentence": 12,
    }
    assert facts["parameters"]["seed"] == 7
    assert facts["parameters"]["group_by"] == ["speaker_id", "recording_id"]
    assert re.search(
        r"shared between splits \(leakage\) +12 near identical sentences\n", str(report)
    )
    assert report.warnings == []


def test_rejections_are_counted_and_a_second_call_starts_anew(workspace):
    report = select(workspace, hours=0.05, max_duration=4.9, dev=0, test=0)
    assert report.facts["rejected"] == {"too_long": 120}
    report = select(workspace, hours=0.05, dev=0, test=0)
    assert report.facts["rejected"] == {"over_budget": 120 - 36}
    assert report.facts["kept"] == 36
    assert report.facts["budget"] == {"limit": "0.050 hours", "used": "0.050 hours"}


def test_a_repeated_sentence_is_reported_as_leakage(workspace):
    workspace.save(segments=workspace.segments.with_columns(text=pl.lit("Hvala.")))
    assert select(workspace, dev=6, test=6).facts["leakage"]["identical_sentence"] == 1


def test_reviews_of_the_workspace_stay_out_of_train(workspace):
    (workspace.path / "reviews").mkdir()
    (workspace.path / "reviews/first.json").write_text(
        json.dumps({"segment_ids": ["x0003"]}), encoding="utf8"
    )
    assert select(workspace, dev=0, test=0).facts["rejected"] == {"reviewed": 1}


def judge(workspace, *said):
    """Verdicts of (segment, verdict, reviewer) on the segments as they are."""
    contents = dict(
        zip(workspace.segments["segment_id"], content_hashes(workspace.segments), strict=True)
    )
    append_verdicts(
        workspace,
        [
            Verdict(i, contents[i], verdict, "", None, who, "2026-11-21T03:00:00Z", "panel")
            for i, verdict, who in said
        ],
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "key", ["segment_id", "split", "reason", "start_sample", "micros", "sentence", "earlier"]
)
def test_columns_unique_to_each_segment_are_refused_as_groups(workspace, key):
    before = workspace.segments.with_columns(micros=pl.lit(1))
    workspace.save(segments=before)
    with pytest.raises(
        InputError,
        match=f"group_by: '{key}' is not a column to group segments by; columns are recording_id",
    ):
        select(workspace, group_by=key)
    assert workspace.segments.equals(before)
    assert select(workspace, group_by=None).facts["parameters"]["group_by"] == []


def test_gold_segments_are_called_right_by_all_reviewers_in_their_current_form(workspace):
    judge(
        workspace,
        ("x0000", "ok", "a"),
        ("x0000", "ok", "b"),
        ("x0001", "ok", "a"),
        ("x0001", "unsure", "b"),
    )
    judge(
        workspace,
        ("x0002", "cut off", "a"),
        ("x0002", "ok", "a"),
        ("x0003", "ok", "a"),
        ("x0003", None, "a"),
    )
    judge(workspace, ("x0004", "ok", "a"))
    assert gold_ids(workspace, workspace.segments) == {"x0000", "x0002", "x0004"}
    changed = pl.when(pl.col("segment_id") == "x0004").then(pl.lit("other words")).otherwise("text")
    assert gold_ids(workspace, workspace.segments.with_columns(text=changed)) == {"x0000", "x0002"}


def test_a_gold_test_set_is_gold_alone_and_takes_its_groups_out_of_train(workspace):
    # Each speaker has 6 segments in a recording of their own, x0000 to x0005 the first.
    judge(
        workspace, *((f"x{number:04d}", "ok", "a") for number in (0, 1, 7)), ("x0013", "noise", "a")
    )
    report = select(workspace, dev=0, gold=True)
    chosen = workspace.segments
    assert sorted(chosen.filter(pl.col("split") == "test")["segment_id"]) == [
        "x0000",
        "x0001",
        "x0007",
    ]
    assert report.facts["rejected"] == {"not_gold": 9, "reviewed": 1}
    assert report.facts["lost_to_grouping"]["segments"] == 9
    assert report.facts["parameters"]["gold"] is True
    assert report.facts["leakage"]["speaker"] == report.facts["leakage"]["recording"] == 0
    select(workspace, dev=6, test=1, gold=True)
    assert (
        workspace.segments.filter(pl.col("split") == "test")["segment_id"]
        .is_in(["x0000", "x0001", "x0007"])
        .all()
    )
    with pytest.raises(
        InputError,
        match=(
            r"test: 4 segments requested, but of the 3 segments that pass the filters and are "
            r"gold"
        ),
    ):
        select(workspace, dev=6, test=4, gold=True)


def test_gold_segments_must_pass_the_filters(workspace):
    judge(workspace, ("x0000", "ok", "a"), ("x0006", "ok", "a"))
    low = pl.when(pl.col("segment_id") == "x0000").then(0.1).otherwise("similarity")
    workspace.save(segments=workspace.segments.with_columns(similarity=low))
    select(workspace, dev=0, gold=True)
    assert workspace.segments.filter(pl.col("split") == "test")["segment_id"].to_list() == ["x0006"]
    with pytest.raises(
        InputError, match="gold: of the segments that pass the filters, reviewers judged none right"
    ):
        select(workspace, dev=0, gold=True, min_similarity=0.95)


def test_judged_segments_without_a_sheet_stay_out_of_train(workspace):
    judge(workspace, ("x0003", "noise", "a"))
    assert select(workspace, dev=0, test=0).facts["rejected"] == {"reviewed": 1}


@pytest.mark.parametrize("column", ["text", "text_raw", "asr_text"])
def test_splits_may_be_grouped_by_texts(workspace, column):
    segments = workspace.segments
    workspace.save(
        segments=segments.with_columns((pl.int_range(pl.len()) % 7).cast(pl.String).alias(column))
    )
    report = select(workspace, dev=2, test=2, min_similarity=-1, group_by=column)
    assert report.facts["parameters"]["group_by"] == [column]
    kept = workspace.segments.drop_nulls("split")
    assert kept[column].n_unique() > 1
    assert (
        kept.group_by(column).agg(pl.col("split").n_unique())["split"].to_list()
        == [1] * kept[column].n_unique()
    )


def test_keys_may_be_given_as_one_string(workspace):
    report = select(workspace, group_by="recording_id, speaker_id")
    assert report.facts["parameters"]["group_by"] == ["recording_id", "speaker_id"]
    assert select(workspace, group_by="").facts["parameters"]["group_by"] == []


@pytest.mark.parametrize(
    ("changes", "parameters", "warning"),
    [
        ({"similarity": None}, {}, "120 segments have no similarity"),
        ({"speaker_id": None}, {}, "speaker_id is empty: nothing is grouped by it"),
        ({}, {"dev": 60, "test": 60}, "train is empty"),
        ({}, {"hours": 3}, "the budget is not reached"),
    ],
)
def test_select_warns_of_missing_columns_empty_splits_and_unreached_budgets(
    workspace, changes, parameters, warning
):
    workspace.save(
        segments=workspace.segments.with_columns(
            **{name: pl.lit(value) for name, value in changes.items()}
        )
    )
    assert [line for line in select(workspace, **parameters).warnings if warning in line]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({}, "no segment has a hypothesis"),
        ({"asr_text": "da"}, "no segment has a score; run 'nbaudio score' first"),
        ({"asr_text": "da", "text": None}, "no segment has a transcript"),
        (
            {"asr_text_large": "da"},
            "no segment has asr_text; score another hypothesis and filter by it, such as "
            "--where 'similarity_large >= 0.8'",
        ),
    ],
    ids=["no hypothesis", "not scored", "no transcript", "another hypothesis"],
)
def test_without_any_similarity_the_report_says_first_that_nothing_was_filtered(
    workspace, tmp_path, columns, said
):
    values = {name: pl.lit(value, pl.String) for name, value in columns.items()}
    workspace.save(
        segments=workspace.segments.with_columns(similarity=pl.lit(None, pl.Float64), **values)
    )
    splits = tmp_path / "splits.csv"
    splits.write_text("speaker_id,split\ns0,test\nnobody,test\n")
    done = CliRunner().invoke(cli, ["select", str(workspace.path), "--json"])
    warnings = json.loads(done.stdout)["warnings"]
    assert warnings[0] == f"nothing was filtered by similarity: {said}"
    given = select(workspace, splits=str(splits))
    assert given.warnings[0] == warnings[0]
    assert "such as 'nobody'" in given.warnings[1]


def test_segments_without_a_similarity_beside_others_are_counted(workspace):
    unknown = pl.when(pl.col("segment_id") != "x0000").then("similarity")
    workspace.save(segments=workspace.segments.with_columns(similarity=unknown))
    assert select(workspace).warnings == ["1 segment has no similarity and passed that filter"]


def test_segments_without_a_speaker_are_counted(workspace):
    known = pl.when(pl.col("segment_id") != "x0000").then("speaker_id")
    workspace.save(segments=workspace.segments.with_columns(speaker_id=known))
    assert select(workspace).warnings == ["1 segment has no speaker_id: nothing groups by it there"]


@pytest.fixture
def sittings(workspace):
    """20 speakers who all speak in all of 12 recordings."""
    crossed = [segment(n, recording=f"r{n % 12}", speaker=f"s{n // 12 % 20}") for n in range(480)]
    workspace.save(segments=segments_table(crossed))
    return workspace


def crossing(segments, key):
    """How many values of a column are in more than one split."""
    values = segments.drop_nulls(["split", key]).group_by(key).agg(pl.col("split").n_unique())
    return (values["split"] > 1).sum()


def test_the_default_grouping_keeps_recurring_speakers_in_one_split_at_low_cost(sittings):
    report = select(sittings, dev=24, test=24)
    facts = report.facts
    assert facts["lost_to_grouping"]["share"] <= 0.05
    assert facts["kept"] >= 0.95 * 480
    assert facts["parameters"]["group_by"] == ["speaker_id"]
    assert crossing(sittings.segments, "speaker_id") == facts["leakage"]["speaker"] == 0
    assert facts["leakage"]["recording"] == 12
    alternatives = {row["group_by"]: row for row in facts["grouping_alternatives"]}
    assert set(alternatives) == {"speaker_id,recording_id", "speaker_id", "recording_id"}
    both = alternatives["speaker_id,recording_id"]
    assert both["share"] > 0.05
    assert both["share"] == pytest.approx(both["segments"] / 480)
    [line] = [line for line in report.warnings if line.startswith("grouped by speaker_id alone")]
    assert f"would lose {both['segments']:,} segments ({percent(both['share'])}" in line
    assert line.endswith("; --group-by speaker_id,recording_id keeps recordings apart as well")


def test_a_requested_costly_grouping_is_used_and_an_alternative_reported(
    sittings,
):
    sizes = {"dev": 20, "test": 24, "seed": 7}
    report = select(sittings, group_by=["speaker_id", "recording_id"], **sizes)
    facts = report.facts
    lost = facts["rejected"]["crosses_splits"]
    assert (
        crossing(sittings.segments, "speaker_id")
        == crossing(sittings.segments, "recording_id")
        == 0
    )
    [own] = [
        row
        for row in facts["grouping_alternatives"]
        if row["group_by"] == "speaker_id,recording_id"
    ]
    assert (
        own["segments"]
        == facts["lost_to_grouping"]["segments"]
        == lost + facts["rejected"].get("beyond_split_size", 0)
    )
    assert report.warnings[0].startswith(
        f"{own['segments']} of 480 segments are lost to exact sizes (crosses_splits"
    )
    [line] = [line for line in report.warnings if "loses" in line]
    assert line.startswith(
        f"grouping by speaker_id,recording_id loses {own['segments']:,} segments "
        f"({percent(own['share'])}"
    )
    # The very option that is named, and what it is said to lose.
    words = line.partition("; ")[2].partition(" loses")[0].split()
    options = [f"--{name}={value}" for name, value in sizes.items()]
    assert (
        CliRunner()
        .invoke(cli, ["select", str(sittings.path), *options, *words, "--json"])
        .exit_code
        == 0
    )
    assert sittings.report("select")["facts"]["lost_to_grouping"]["share"] <= 0.05
    assert not [line for line in sittings.report("select")["warnings"] if "loses" in line]


@pytest.fixture
def scored(workspace):
    """0.80 to 0.99 in turn."""
    scores = [0.8 + 0.01 * (n % 20) for n in range(120)]
    workspace.save(segments=workspace.segments.with_columns(similarity=pl.Series(scores).round(2)))
    return workspace


@pytest.mark.slow
def test_the_threshold_chosen_in_the_tuner_is_taken_unless_another_is_requested_and_is_named(
    scored,
):
    assert "threshold" not in select(scored, **ALONE).facts
    assert select(scored, **ALONE).facts["rejected"] == {}
    scored.choose_threshold(0.83)
    report = select(scored, **ALONE)
    assert report.facts["threshold"] == "similarity 0.83, chosen in the tuner"
    assert report.facts["parameters"]["min_similarity"] == 0.83
    assert report.facts["rejected"] == {"below_similarity": 18}
    assert scored.report("select")["facts"] == json.loads(json.dumps(report.facts))
    asked = select(scored, min_similarity=0.8, **ALONE)
    assert asked.facts["rejected"] == {}
    assert "threshold" not in asked.facts
    [line] = [line for line in asked.warnings if "tuner" in line]
    assert line == "similarity 0.83 was chosen in the tuner, but 0.8 was given and is used"
    scored.choose_threshold(None)
    assert select(scored, **ALONE).facts["parameters"]["min_similarity"] == 0.8


def test_the_command_line_takes_the_threshold_chosen_in_the_tuner(scored):
    scored.choose_threshold(0.83)

    def least(*options):
        said = CliRunner().invoke(
            cli, ["select", str(scored.path), "--dev", "0", "--test", "0", "--json", *options]
        )
        return json.loads(said.stdout)["facts"]["parameters"]["min_similarity"]

    assert least() == 0.83
    assert least("--min-similarity", "0.8") == 0.8


@pytest.mark.parametrize(
    "stored",
    ['{"min_similarity": "0.83"}', '{"min_similarity": 2}', "{}", '{"min_similarity": NaN}', "x"],
)
def test_a_damaged_threshold_is_an_error_that_names_the_file(workspace, stored):
    (workspace.path / "threshold.json").write_text(stored)
    with pytest.raises(InputError, match=r"threshold\.json"):
        select(workspace)


def test_only_a_similarity_is_stored_as_threshold(workspace):
    with pytest.raises(InputError, match=r"threshold 1\.5: must be from -1 to 1"):
        workspace.choose_threshold(1.5)
    assert workspace.threshold is None


def test_by_default_speaker_and_recording_are_grouped_if_both_cost_little(workspace):
    report = select(workspace, dev=6, test=6)
    assert report.facts["parameters"]["group_by"] == ["speaker_id", "recording_id"]
    assert "grouping_alternatives" not in report.facts
    assert report.warnings == []


def test_a_costly_grouping_by_speaker_is_reported_with_alternatives(workspace):
    rows = [segment(n, recording=f"r{n % 20}", speaker=f"s{n % 3}") for n in range(300)]
    workspace.save(segments=segments_table(rows))
    report = select(workspace, dev=15, test=15)
    assert report.facts["parameters"]["group_by"] == ["speaker_id"]
    assert report.facts["lost_to_grouping"]["share"] > 0.5
    assert [line for line in report.warnings if "--group-by recording_id loses" in line]
    by_recording = select(workspace, dev=15, test=15, group_by="recording_id")
    assert not [line for line in by_recording.warnings if "loses" in line]


def test_other_sizes_are_proposed_if_no_other_grouping_helps(workspace):
    def proposed(dev, test):
        warnings = select(
            workspace, dev=dev, test=test, group_by="speaker_id,recording_id"
        ).warnings
        return [line.rpartition("; ")[2] for line in warnings if line.startswith("grouping by")]

    # The rest of two of three speakers is lost.
    rows = [segment(n, recording=f"r{n % 3}", speaker=f"s{n % 3}") for n in range(300)]
    workspace.save(segments=segments_table(rows))
    assert proposed(15, 15) == ["larger dev and test lose less"]
    assert proposed(100, 100) == []
    # Every speaker is in every recording, and few of either.
    rows = [segment(n, recording=f"r{n // 3 % 3}", speaker=f"s{n % 3}") for n in range(300)]
    workspace.save(segments=segments_table(rows))
    (line,) = proposed(30, 30)
    assert line.endswith(", or smaller dev and test lose less")


def test_grouping_costs_nothing_if_the_budget_is_still_filled(sittings):
    report = select(sittings, hours=0.2)
    assert report.facts["parameters"]["group_by"] == ["speaker_id", "recording_id"]
    assert report.facts["lost_to_grouping"]["share"] == 0
    assert report.facts["hours"] == pytest.approx(0.2, abs=0.002)
    assert not [line for line in report.warnings if "loses" in line or "grouped by" in line]


def test_without_speakers_segments_are_grouped_by_recording(sittings):
    sittings.save(segments=sittings.segments.with_columns(speaker_id=pl.lit(None, dtype=pl.String)))
    report = select(sittings)
    assert report.facts["parameters"]["group_by"] == ["speaker_id", "recording_id"]
    assert crossing(sittings.segments, "recording_id") == 0
    assert "speaker_id is empty: nothing is grouped by it" in report.warnings


@pytest.mark.slow
@given(tables, st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_the_default_grouping_always_keeps_speakers_apart(segments, held_out):
    recordings = recordings_table([f"r{i}" for i in range(20)])
    try:
        chosen, grouping = with_decisions(
            recordings, segments, (), Parameters(dev=held_out, test=held_out)
        )
    except InputError:
        return
    kept = chosen.filter(chosen["decision"] == "accept")
    assert grouping.columns in (("speaker_id", "recording_id"), ("speaker_id",))
    assert all(crossing(kept, key) == 0 for key in grouping.columns)
    own = grouping.losses[grouping.columns]
    assert own.segments == chosen["reason"].is_in(["crosses_splits", "beyond_split_size"]).sum()


def with_source_splits(workspace, name):
    """Every fourth segment is in the source's split of that name."""
    split = (
        pl.when(pl.int_range(pl.len()) % 4 == 0)
        .then(pl.lit(name))
        .otherwise(pl.lit("train-clean-100"))
    )
    workspace.save(segments=workspace.segments.with_columns(source_split=split))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "test-clean",
        "validation",
        "dev_clean_2",
        "test_eval92",
        "DEV",
        "eval",
        "train_dev",
        "dt05_real",
    ],
)
def test_held_out_segments_of_the_source_that_would_be_trained_on_are_reported(workspace, name):
    with_source_splits(workspace, name)
    result = CliRunner().invoke(cli, ["select", str(workspace.path), "--json"])
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    train = workspace.segments.filter(
        (pl.col("split") == "train") & (pl.col("source_split") == name)
    )
    assert told["facts"]["source_held_out_in_train"] == [{"split": name, "segments": len(train)}]
    start = (
        f"{len(train)} of the segments that the source holds out ({name} {len(train)}) would be "
        "trained on"
    )
    assert [line for line in told["warnings"] if line.startswith(start)]
    assert start in CliRunner().invoke(cli, ["select", str(workspace.path)]).stdout
    assert workspace.report("select")["facts"]["source_held_out_in_train"] == [
        {"split": name, "segments": len(train)}
    ]


@pytest.mark.parametrize(
    "name",
    ["train-clean-360", "validated", "other", "tr_no_dev", "train_nodev", "training", "2018", ""],
)
def test_train_splits_of_the_source_are_not_taken_for_held_out(workspace, name):
    with_source_splits(workspace, name)
    report = select(workspace)
    assert report.facts["source_held_out_in_train"] == []
    assert not [line for line in report.warnings if "source" in line]


def test_held_out_segments_of_the_source_may_be_held_out_or_left_out(workspace):
    with_source_splits(workspace, "test")
    low = pl.when(pl.col("source_split") == "test").then(0.1).otherwise("similarity")
    workspace.save(segments=workspace.segments.with_columns(similarity=low))
    assert not [line for line in select(workspace).warnings if "source" in line]
    workspace.save(segments=workspace.segments.drop("source_split"))
    assert "source_held_out_in_train" not in select(workspace).facts


def review_record(workspace, name, numbers):
    (workspace.path / "reviews").mkdir(exist_ok=True)
    ids = {"segment_ids": [f"x{number:04d}" for number in numbers]}
    (workspace.path / f"reviews/{name}.json").write_text(json.dumps(ids), encoding="utf8")


def test_reviews_that_leave_train_empty_are_reported(workspace):
    review_record(workspace, "first", range(100))
    review_record(workspace, "second", range(100, 120))
    low = pl.when(pl.col("segment_id") == "x0110").then(0.1).otherwise("similarity")
    workspace.save(segments=workspace.segments.with_columns(similarity=low))
    report = select(workspace, dev=6, test=0)
    taken = {row["review"]: row["segments"] for row in report.facts["reviewed"]}
    assert sum(taken.values()) == report.facts["rejected"]["reviewed"] == 113
    [line] = [line for line in report.warnings if line.startswith("train is empty")]
    named = (
        f"113 reviewed (first {taken['first']}, second {taken['second']}), "
        "1 below_similarity (min_similarity 0.8), 6 in dev"
    )
    assert line == f"train is empty; of 120 segments: {named}"


def test_reviews_that_take_many_segments_from_train_are_reported(workspace):
    review_record(workspace, "sheet", range(30))
    judge(workspace, *((f"x{number:04d}", "ok", "a") for number in range(25, 40)))
    report = select(workspace, dev=0, test=0)
    assert report.facts["reviewed"] == [
        {"review": "sheet", "segments": 30},
        {"review": "panel", "segments": 10},
    ]
    assert (
        "40 of 120 segments for train were given to reviewers and stay out (by round: sheet 30, "
        "panel 10)" in report.warnings
    )
    review_record(workspace, "sheet", range(5))
    (workspace.path / "reviews/verdicts.jsonl").unlink()
    report = select(workspace, dev=0, test=0)
    assert report.facts["reviewed"] == [{"review": "sheet", "segments": 5}]
    assert report.warnings == []


@pytest.mark.parametrize(
    ("changes", "parameters", "warning"),
    [
        (
            {"similarity": pl.lit(0.5)},
            {},
            "nothing is kept; of 120 segments: 120 below_similarity (min_similarity 0.8)",
        ),
        (
            {},
            {"max_duration": 1},
            "nothing is kept; of 120 segments: 120 too_long (max_duration 1)",
        ),
        (
            {},
            {"min_duration": 6},
            "nothing is kept; of 120 segments: 120 too_short (min_duration 6)",
        ),
        ({"text": pl.lit(" ")}, {}, "nothing is kept; of 120 segments: 120 empty_text"),
        ({}, {"hours": 0}, "nothing is kept; of 120 segments: 120 over_budget (0.000 hours)"),
        (
            {"similarity": pl.when(pl.col("segment_id") < "x0018").then(0.9).otherwise(0.1)},
            {},
            "dev is empty: 5 % of the 18 segments that pass the filters is less than one "
            "(out: 102 below_similarity "
            "(min_similarity 0.8)); set a size, such as --dev 10",
        ),
        ({}, {"dev": "0.0001h"}, "dev is empty: 0.000 hours hold none"),
    ],
)
def test_a_split_that_is_empty_is_reported_with_its_cause(workspace, changes, parameters, warning):
    workspace.save(segments=workspace.segments.with_columns(**changes))
    assert [line for line in select(workspace, **parameters).warnings if line.startswith(warning)]


def test_a_split_larger_than_the_filtered_segments_is_refused_with_counts(workspace):
    low = pl.when(pl.col("segment_id") < "x0100").then(0.1).otherwise("similarity")
    workspace.save(segments=workspace.segments.with_columns(similarity=low))
    with pytest.raises(
        InputError,
        match=(
            r"test: 30 segments requested.*of 120 segments the filters reject 100 "
            r"below_similarity"
        ),
    ):
        select(workspace, test=30)


def test_select_before_audio_reports_that_it_is_a_preview(workspace):
    nothing = {
        name: pl.lit(None, dtype=RECORDINGS[name]) for name in ("sampling_rate", "num_samples")
    }
    unplaced = {name: pl.lit(None, dtype=pl.Int64) for name in ("start_sample", "end_sample")}
    with_audio = select(workspace, disk="10MB")
    workspace.save(
        recordings=workspace.recordings.with_columns(**nothing),
        segments=workspace.segments.with_columns(**unplaced),
    )
    report = select(workspace, disk="10MB")
    assert "preview" in report.warnings[0]
    assert report.facts["kept"] == with_audio.facts["kept"]
    assert report.facts["hours"] == with_audio.facts["hours"]
    assert report.facts["budget"]["estimate"] == "32.0 kB/s (upper bound, nothing measured)"


@pytest.mark.slow
def test_disk_is_estimated_from_the_clips_themselves(tmp_path):
    audio = tmp_path / "audio"
    audio.mkdir()
    rng = np.random.default_rng(3)
    sf.write(audio / "r0.wav", rng.normal(0, 300, 60 * RATE).astype(np.int16), RATE)
    rows = [{**segment(n), "start": 2 * n, "end": 2 * n + 2} for n in range(30)]
    workspace = Workspace.create(tmp_path / "w", source="asr.json", audio=str(audio))
    workspace.save(recordings=recordings_table(["r0"], seconds=60), segments=segments_table(rows))
    kept = [
        select(workspace, disk=disk, **ALONE).facts["kept"] for disk in ("200kB", "600kB", "1MB")
    ]
    assert all(fewer < more for fewer, more in pairwise(kept))
    report = select(workspace, disk="600kB", **ALONE)
    assert "measured)" in report.facts["budget"]["estimate"]
    chosen = workspace.segments.filter(pl.col("split") == "train")
    # Noise at this level needs about 10.5 of 16 bits, so more fits than the upper bound would
    # allow.
    assert len(chosen) * (2 * PCM_BYTES_PER_SECOND + CLIP_OVERHEAD_BYTES) > 600_000


def test_counts_of_reasons_are_shown_with_their_limits():
    told = reasons_of(
        count_reasons(pl.Series(["too_long", None, "reviewed", "too_long"])),
        Parameters(),
        {"sheet": 1},
    )
    assert told == "2 too_long (max_duration 20), 1 reviewed (sheet 1)"


def test_a_budget_of_hours_is_counted_in_microseconds():
    assert Parameters(hours=1.5).budget().total(pl.DataFrame({"micros": [10, 20]})) == 30


def test_each_condition_rejects_segments_with_its_own_reason():
    rows = [
        segment(n, snr=snr, text=text)
        for n, (snr, text) in enumerate([(5.0, "a"), (None, "b"), (20.0, "c"), (20.0, "applause")])
    ]
    segments = segments_table(rows)
    found = reasons(segments, where=("snr > 10", "text <> 'applause'", "duration_s < 6"), **ALONE)
    assert found == ["where snr > 10", "where snr > 10", None, "where text <> 'applause'"]
    # Filters come first, and a segment that people accept passes conditions as it passes filters.
    assert (
        reasons(segments, where=("snr > 10",), min_similarity=0.95, **ALONE)
        == ["below_similarity"] * 4
    )
    by_hand = pl.DataFrame({"segment_id": ["x0000"], "decision": ["accept"], "reason": [None]})
    chosen = with_decisions(
        recordings_table(["r0"]),
        segments,
        (),
        Parameters(where=("snr > 10",), **ALONE),
        by_hand=by_hand,
    )[0]
    assert chosen["reason"].to_list() == [None, "where snr > 10", None, None]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("snrr > 10", "filter 'snrr > 10': there is no column snrr; did you mean snr"),
        ("snr", "must be a condition such as similarity < 0.5"),
        ("decision = 'accept'", "there is no column decision"),
        ("snr > 'a'", "filter"),
        ("pg_sleep(1) > 0", "there is no function pg_sleep"),
    ],
)
def test_an_invalid_condition_is_refused(where, message):
    with pytest.raises(InputError, match=message):
        reasons(segments_table([segment(0, snr=1.0)]), where=(where,), **ALONE)


def test_conditions_are_in_the_report(tmp_path):
    workspace = Workspace.create(tmp_path / "w", source="x")
    rows = [segment(n, recording=f"r{n}", speaker=f"s{n}", snr=float(n)) for n in range(6)]
    workspace.save(
        recordings=recordings_table([f"r{n}" for n in range(6)]), segments=segments_table(rows)
    )
    report = select(workspace, where=["snr >= 2", "snr < 5"], dev=0, test=0)
    assert report.facts["rejected"] == {"where snr >= 2": 2, "where snr < 5": 1}
    assert report.facts["parameters"]["where"] == ["snr >= 2", "snr < 5"]
    assert select(workspace, where="snr >= 2", dev=0, test=0).facts["kept"] == 4
    result = CliRunner().invoke(
        cli,
        [
            "select",
            str(workspace.path),
            "--where",
            "snr >= 2",
            "--where",
            "snr < 5",
            "--dev",
            "0",
            "--test",
            "0",
        ],
    )
    assert result.exit_code == 0, result.output
    assert workspace.segments["split"].to_list() == [None, None, "train", "train", "train", None]
    assert "where" not in select(workspace, dev=0, test=0).facts["parameters"]
