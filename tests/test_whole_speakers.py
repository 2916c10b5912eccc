"""Dev and test of default size: speakers and recordings are held out whole."""

import json
import random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_earlier_splits import grow
from test_select import judge, recordings_table, segment, segments_table
from test_splits import KEYS, crossing, table
from typer.testing import CliRunner

import nbaudio
from nbaudio.cli import app as cli
from nbaudio.core.errors import InputError
from nbaudio.selection.requested_sizes import requested_sizes
from nbaudio.selection.splits import Target, assign_splits
from nbaudio.selection.whole_groups import WholeSplits
from nbaudio.tables.workspace import Workspace

HELD_OUT = ("dev", "test")


def rows_of(*groups, start=0, **more):
    """Segments of (speaker, recording, number)."""
    pairs = [(speaker, recording) for speaker, recording, count in groups for _ in range(count)]
    return [
        segment(start + n, speaker=speaker, recording=recording, **more)
        for n, (speaker, recording) in enumerate(pairs)
    ]


@pytest.fixture
def workspace_of(tmp_path):
    def make_workspace(rows, name="w"):
        workspace = Workspace.create(tmp_path / name, source="asr.json", audio=None)
        segments = segments_table(rows)
        ids = segments["recording_id"].unique(maintain_order=True)
        workspace.save(recordings=recordings_table(ids), segments=segments)
        return workspace

    return make_workspace


def command(workspace, *options):
    """Facts and warnings of the report of the command."""
    done = CliRunner().invoke(cli, ["select", str(workspace.path), "--json", *options])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    return report["facts"], report["warnings"]


def sizes(facts):
    return {split: facts[split]["segments"] for split in ("train", *HELD_OUT)}


def split_of(segments, column="speaker_id"):
    """The split of each value of a column, all of whose segments must have the same."""
    found = segments.drop_nulls(column).group_by(column).agg(pl.col("split").unique())
    assert (found["split"].list.len() == 1).all()
    return dict(found.select(column, pl.col("split").list.first()).iter_rows())


def test_three_large_speakers_stay_in_train_and_the_report_names_options(workspace_of):
    workspace = workspace_of(rows_of(*((f"s{n}", f"r{n}", 20) for n in range(3))))
    facts, warnings = command(workspace)
    assert sizes(facts) == {"train": 60, "dev": 0, "test": 0}
    assert facts["rejected"] == {}
    assert facts["lost_to_grouping"] == {"segments": 0, "hours": 0.0, "share": 0.0}
    assert facts["parameters"]["group_by"] == KEYS
    for split, line in zip(HELD_OUT, warnings[:2], strict=True):
        assert line == (
            f"{split} is empty: none of the 3 speakers has at most 9 segments (three times the "
            f"goal of 3), and speakers are held out whole; --{split} 3 cuts one (the rest of that "
            "speaker is left out)"
        )
    assert warnings[2:] == [
        "only 3 speakers to divide: add speakers, or --dev 3 --test 3, which loses 34 segments "
        '(56.7 % of what could be kept), or --group-by "", which loses nothing but has the same '
        "speakers and recordings in several splits"
    ]
    # What is proposed does what it is said to do.
    facts, _ = command(workspace, "--dev", "3", "--test", "3")
    assert (sizes(facts), facts["rejected"]) == (
        {"train": 20, "dev": 3, "test": 3},
        {"beyond_split_size": 34},
    )
    facts, warnings = command(workspace, "--group-by", "")
    assert (sizes(facts), facts["rejected"]) == ({"train": 54, "dev": 3, "test": 3}, {})
    assert not [line for line in warnings if "only" in line]


def test_recordings_are_proposed_where_they_fill_dev_and_test(workspace_of):
    groups = ((f"s{n}", f"r{n}-{part}", 4) for n in range(3) for part in range(5))
    workspace = workspace_of(rows_of(*groups))
    facts, warnings = command(workspace)
    assert sizes(facts) == {"train": 60, "dev": 0, "test": 0}
    option = "--group-by recording_id divides by recordings"
    assert [line.endswith(option) for line in warnings] == [True, True, False]
    assert warnings[2].endswith(
        "--group-by recording_id, which loses nothing and may have the same speakers in several "
        "splits"
    )
    facts, warnings = command(workspace, "--group-by", "recording_id")
    assert (sizes(facts), facts["rejected"]) == ({"train": 52, "dev": 4, "test": 4}, {})
    assert warnings == []


@pytest.mark.slow
def test_options_that_leave_train_empty_are_not_proposed(workspace_of):
    two = workspace_of(rows_of(("s0", "r0", 20), ("s1", "r1", 20)), "two")
    facts, warnings = command(two)
    assert sizes(facts) == {"train": 40, "dev": 0, "test": 0}
    assert "--dev 2 cuts one" in warnings[0]
    assert "--test" not in "".join(warnings)
    facts, _ = command(two, "--dev", "2")
    assert sizes(facts) == {"train": 20, "dev": 2, "test": 0}
    for name, speaker in (("speaker", "s0"), ("unknown", None)):
        facts, warnings = command(workspace_of(rows_of((speaker, "r0", 60)), name))
        assert sizes(facts) == {"train": 60, "dev": 0, "test": 0}
        lines = [line for line in warnings if "is empty: the only" in line]
        assert len(lines) == 2
        assert all("--group-by" in line and "--dev" not in line for line in lines)


def test_the_smallest_speakers_are_held_out_whole_until_the_goals_are_reached(workspace_of):
    # 820 segments: goals of 41, speakers of at most 123.
    rows = rows_of(*((f"s{size}", f"r{size}", size) for size in range(1, 41)))
    workspace = workspace_of(rows)
    facts, warnings = command(workspace)
    found = split_of(workspace.segments)
    held_out = {split: [s for s in found if found[s] == split] for split in HELD_OUT}
    assert facts["rejected"] == {}
    assert warnings == []
    number = sum(map(len, held_out.values()))
    assert {s for s in found if found[s] != "train"} == {f"s{n}" for n in range(1, number + 1)}
    for split in HELD_OUT:
        own = sorted(int(speaker[1:]) for speaker in held_out[split])
        assert facts[split]["segments"] == sum(own) >= 41
        assert sum(own[:-1]) < 41  # the last one was needed
    shuffled = [*rows]
    random.Random(1).shuffle(shuffled)
    again = workspace_of(shuffled, "again")
    nbaudio.select(again)
    assert again.segments.sort("segment_id")["split"].equals(
        workspace.segments.sort("segment_id")["split"]
    )
    # Of speakers of equal size the seed decides.
    equal = workspace_of(rows_of(*((f"s{n}", f"r{n}", 5) for n in range(40))), "equal")
    drawn = set()
    for seed in range(4):
        facts = nbaudio.select(equal, seed=seed).facts
        assert sizes(facts) == {"train": 180, "dev": 10, "test": 10}
        drawn.add(tuple(sorted(split_of(equal.segments).items())))
    assert len(drawn) == 4


def test_a_speaker_with_more_than_three_times_the_goal_is_not_held_out(workspace_of):
    groups = (("a", "a", 16), ("b", "b", 15), ("c", "c", 69))  # goals of 5
    workspace = workspace_of(rows_of(*groups))
    facts, warnings = command(workspace)
    assert sizes(facts) == {"train": 85, "dev": 0, "test": 15}
    assert warnings[0].startswith(
        "dev is empty: none of the other 2 speakers has at most 15 segments (three times the goal "
        "of 5)"
    )


def test_a_speaker_in_every_recording_costs_few_segments(workspace_of):
    groups = [group for n in range(20) for group in ((f"m{n}", f"r{n}", 50), ("chair", f"r{n}", 5))]
    workspace = workspace_of(rows_of(*groups))
    facts, warnings = command(workspace)
    assert facts["parameters"]["group_by"] == KEYS
    assert sizes(facts) == {"train": 880, "dev": 100, "test": 100}
    assert facts["rejected"] == {"crosses_splits": 20}
    assert warnings == []
    main = workspace.segments.filter(pl.col("speaker_id") != "chair")
    found = split_of(main)
    assert found.keys() == {f"m{n}" for n in range(20)}
    assert {name[1:] for name in found if found[name] != "train"} == {
        name[1:] for name, split in split_of(main, "recording_id").items() if split != "train"
    }


def test_speakers_who_would_cost_more_than_they_bring_are_not_held_out(workspace_of):
    # A guest with one segment in each recording would take 51 of others along.
    groups = [
        group
        for n in range(20)
        for group in ((f"m{n}", f"r{n}", 46), ("chair", f"r{n}", 5), (f"guest{n}", f"r{n}", 1))
    ]
    workspace = workspace_of(rows_of(*groups))
    facts, _ = command(workspace)
    assert facts["rejected"] == {"crosses_splits": 24}
    held_out = workspace.segments.filter(pl.col("split").is_in(HELD_OUT))
    assert held_out["speaker_id"].str.starts_with("m").all()


def test_if_recordings_connect_all_speakers_only_speakers_are_grouped(workspace_of):
    rows = [segment(n, recording=f"r{n % 12}", speaker=f"s{n // 12 % 20}") for n in range(480)]
    rows += rows_of(("alone", "alone", 3), start=480)
    workspace = workspace_of(rows)
    facts, warnings = command(workspace)
    assert facts["parameters"]["group_by"] == ["speaker_id"]
    assert sizes(facts) == {"train": 432, "dev": 24, "test": 27}
    assert facts["rejected"] == {}
    assert split_of(workspace.segments)["alone"] == "test"
    assert [line for line in warnings if line.startswith("grouped by speaker_id alone")]
    # Both columns by name: three segments are apart, and more would cost too much.
    facts, warnings = command(workspace, "--group-by", "speaker_id,recording_id")
    assert sizes(facts) == {"train": 480, "dev": 0, "test": 3}
    assert warnings[0].startswith("dev is empty: every other speaker with at most 72 segments")
    assert warnings[1].startswith("test has 3 of 24 segments: every other speaker")
    assert all("--group-by speaker_id divides by speakers" in line for line in warnings[:2])


def test_without_speakers_whole_recordings_are_held_out(workspace_of):
    groups = ((None, f"r{n}", 1 + n % 5) for n in range(40))
    workspace = workspace_of(rows_of(*groups))
    facts, warnings = command(workspace)
    assert (sizes(facts), facts["rejected"]) == ({"train": 108, "dev": 6, "test": 6}, {})
    split_of(workspace.segments, "recording_id")
    assert warnings == ["speaker_id is empty: nothing is grouped by it"]


def test_segments_without_a_speaker_are_held_out_one_by_one_or_with_their_recording(workspace_of):
    groups = [
        (speaker, f"r{n}", 10) for n in range(20) for speaker in (f"s{n}", None)
    ]  # 400 segments
    workspace = workspace_of(rows_of(*groups))
    facts, _ = command(workspace)
    assert (sizes(facts), facts["rejected"]) == ({"train": 360, "dev": 20, "test": 20}, {})
    split_of(workspace.segments, "recording_id")
    facts, _ = command(workspace, "--group-by", "speaker_id")
    assert (sizes(facts), facts["rejected"]) == ({"train": 360, "dev": 20, "test": 20}, {})
    assert set(split_of(workspace.segments).values()) == {"train"}


def test_with_nothing_to_keep_apart_goals_are_met_exactly(workspace_of):
    workspace = workspace_of(rows_of(*((f"s{n}", f"r{n % 3}", 10) for n in range(20))))
    facts, warnings = command(workspace, "--group-by", "")
    assert (sizes(facts), facts["rejected"], warnings) == (
        {"train": 180, "dev": 10, "test": 10},
        {},
        [],
    )
    first = workspace.segments["split"]
    command(workspace, "--group-by", "", "--seed", "1")
    assert not workspace.segments["split"].equals(first)


@pytest.mark.parametrize(("exact", "whole"), [("dev", "test"), ("test", "dev")])
def test_a_requested_size_is_exact_beside_one_of_whole_speakers(workspace_of, exact, whole):
    workspace = workspace_of(rows_of(*((f"s{n}", f"r{n}", 7) for n in range(30))))
    facts, warnings = command(workspace, f"--{exact}", "9")
    assert facts[exact]["segments"] == 9
    assert facts[whole]["segments"] == 14  # of a goal of 10
    assert facts["rejected"] == {"beyond_split_size": 5}
    assert warnings == [
        "5 of 210 segments are lost to exact sizes (beyond_split_size): their speakers or "
        "recordings are in dev or test, which are full; without "
        f"--{exact}, speakers and recordings are held out whole; larger sizes may lose less"
    ]
    # The exact one is filled first, whatever is then left for the other.
    facts, warnings = command(workspace, f"--{exact}", "200")
    assert facts[exact]["segments"] == 200
    assert facts[whole]["segments"] == 0
    assert [line for line in warnings if line.startswith(f"{whole} is empty")]
    with pytest.raises(InputError, match=f"{exact}: 211 segments requested"):
        nbaudio.select(workspace, **{exact: 211})


def test_segments_lost_to_exact_sizes_are_reported_first(workspace_of):
    workspace = workspace_of(rows_of(*((f"s{n}", f"r{n}", 20) for n in range(3))))
    facts, warnings = command(workspace, "--dev", "3", "--test", "3")
    assert sizes(facts) == {"train": 20, "dev": 3, "test": 3}
    assert warnings[0] == (
        "34 of 60 segments are lost to exact sizes (beyond_split_size): their speakers or "
        "recordings are in dev or test, which are full; without --dev and --test, speakers and "
        "recordings are held out whole; larger sizes may lose less"
    )
    assert warnings[1].endswith("larger dev and test lose less")
    facts, warnings = command(workspace, "--dev", "20", "--test", "20")
    assert (facts["rejected"], warnings) == ({}, [])


def test_goals_are_a_share_of_what_the_budget_leaves(workspace_of):
    # 100 of 400 segments of 5 s: goals of 5.
    workspace = workspace_of(rows_of(*((f"s{n}", f"r{n}", 4) for n in range(100))))
    facts, warnings = command(workspace, "--hours", "0.1389")
    assert sizes(facts) == {"train": 84, "dev": 8, "test": 8}
    assert facts["rejected"] == {"over_budget": 300}
    assert warnings == []
    found = workspace.segments.filter(pl.col("split").is_in(HELD_OUT))
    assert (found.group_by("speaker_id").len()["len"] == 4).all()


def test_long_segments_of_small_speakers_do_not_exceed_the_budget(workspace_of):
    small = [row for n in range(60) for row in rows_of((f"l{n}", f"l{n}", 1), start=n, length=19)]
    large = rows_of(*((f"s{n}", f"s{n}", 120) for n in range(8)), start=100, length=1)
    workspace = workspace_of([*small, *large])
    facts, warnings = command(workspace, "--hours", "0.05")
    held_out = sum(facts[split]["hours"] for split in HELD_OUT)
    assert 0 < held_out <= 0.025
    assert facts["train"]["segments"] > 0
    assert facts["hours"] <= 0.05
    assert warnings[0].startswith("dev has 1 of 4 segments: by default dev and test take at most")
    facts, _ = command(workspace, "--hours", "0")
    assert sizes(facts) == {"train": 0, "dev": 0, "test": 0}


def test_after_growth_new_whole_speakers_fill_dev_and_test(workspace_of):
    workspace = workspace_of(rows_of(*((f"s{n}", f"r{n}", 6) for n in range(20))))
    facts, _ = command(workspace)  # goals of 6
    assert sizes(facts) == {"train": 108, "dev": 6, "test": 6}
    before = dict(workspace.segments.select("segment_id", "split").iter_rows())
    groups = ((f"n{n}", f"n{n}", 4) for n in range(30))
    grow(workspace, segments_table(rows_of(*groups, start=200)))
    facts, warnings = command(workspace)  # goals of 12, of which 6 are missing
    after = dict(workspace.segments.select("segment_id", "split").iter_rows())
    assert {key: after[key] for key in before} == before
    assert facts["new"] == {"train": 104, "dev": 8, "test": 8}
    assert facts["rejected"] == {}
    assert warnings == []
    split_of(workspace.segments)
    # Nothing new, nothing changes.
    grow(workspace)
    facts, _ = command(workspace)
    assert facts["new"] == {}
    assert dict(workspace.segments.select("segment_id", "split").iter_rows()) == after


@pytest.mark.slow
def test_a_source_that_grows_keeps_whole_speakers_held_out(tmp_path):
    def ingest(speakers, each):
        source = tmp_path / "asr.json"
        with source.open("a", encoding="utf8") as file:
            for speaker in speakers:
                for n in range(each):
                    words = f"{speaker} rečenica {n}".split()
                    row = {"file": f"{speaker}.wav", "start": n, "end": n + 0.9, "words": words}
                    file.write(json.dumps(row | {"asr": words, "speaker": speaker}) + "\n")
        command = ["ingest", "parlaspeech", str(source), "--out", str(workspace), "--add"]
        assert CliRunner().invoke(cli, command).exit_code == 0
        assert CliRunner().invoke(cli, ["score", str(workspace)]).exit_code == 0

    workspace = tmp_path / "w"
    ingest([f"s{n}" for n in range(20)], 6)
    facts, _ = command(Workspace.open(workspace))
    assert sizes(facts) == {"train": 108, "dev": 6, "test": 6}
    before = split_of(Workspace.open(workspace).segments)
    ingest([f"n{n}" for n in range(30)], 4)
    facts, _ = command(Workspace.open(workspace))
    assert facts["kept_from_earlier"] == {"train": 108, "dev": 6, "test": 6}
    assert facts["new"] == {"train": 104, "dev": 8, "test": 8}
    assert before.items() <= split_of(Workspace.open(workspace).segments).items()


def test_new_segments_of_held_out_speakers_count_for_what_is_missing(workspace_of):
    workspace = workspace_of(rows_of(*((f"s{n}", f"r{n}", 6) for n in range(20))))
    nbaudio.select(workspace)
    found = split_of(workspace.segments)
    dev = next(speaker for speaker in found if found[speaker] == "dev")
    more = rows_of((dev, f"r{dev[1:]}", 2), *((f"n{n}", f"n{n}", 6) for n in range(3)), start=200)
    grow(workspace, segments_table(more))
    facts, _ = command(workspace)  # goals of 7: one is missing
    assert facts["new"] == {"train": 12, "dev": 1, "test": 6}
    assert facts["rejected"] == {"beyond_split_size": 1}
    assert not [line for line in workspace.report("select")["warnings"] if "lost to exact" in line]


def test_train_segments_of_an_earlier_version_stay_in_train(workspace_of):
    workspace = workspace_of(rows_of(*((f"s{n}", f"r{n}", 6) for n in range(20))))
    nbaudio.select(workspace, dev=0, test=0)
    grow(workspace)
    facts, warnings = command(workspace)
    assert sizes(facts) == {"train": 120, "dev": 0, "test": 0}
    assert warnings == [
        f"{split} is empty: nothing is left for it beside the segments whose split is fixed; it "
        "needs new speakers or recordings"
        for split in HELD_OUT
    ]
    grow(workspace, segments_table(rows_of(("n", "n", 6), start=200)))
    facts, _ = command(workspace)
    assert sizes(facts) == {"train": 120, "dev": 0, "test": 6}


def test_a_gold_test_set_is_gold_beside_whole_speakers_of_dev(workspace_of):
    workspace = workspace_of(rows_of(*((f"s{n}", f"r{n}", 6) for n in range(20))))
    judge(workspace, ("x0000", "ok", "a"), ("x0006", "ok", "a"))
    facts, _ = command(workspace, "--gold")
    assert sizes(facts) == {"train": 102, "dev": 6, "test": 2}
    assert facts["rejected"] == {"not_gold": 10}


def test_sizes_of_defaults_are_never_refused_before_the_selection(workspace_of):
    workspace = workspace_of(rows_of(("s0", "r0", 20)))
    assert requested_sizes(workspace, dev=19)[1]["test"] == Target(1, "segments")
    for amount in (20, 21):
        with pytest.raises(InputError, match=f"dev: {amount} segments: nothing would be left"):
            requested_sizes(workspace, dev=amount)


values = st.sampled_from([*"abcdefgh", None])
rows = st.lists(st.tuples(values, values, st.just(1)), min_size=1, max_size=80)


@given(
    rows,
    st.sets(st.sampled_from(KEYS)),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
    st.integers(0, 20),
    st.randoms(use_true_random=False),
)
@settings(max_examples=100, deadline=None)
@pytest.mark.slow
def test_whole_speakers_are_held_out_within_the_allowed_loss_and_train_remains(
    rows, keys, goals, most_lost, random
):
    segments = table(rows)
    targets = {split: Target(goal, "segments") for split, goal in zip(HELD_OUT, goals, strict=True)}
    whole = WholeSplits(HELD_OUT, largest=3 * max(goals), most_lost=most_lost)
    options = {"keys": sorted(keys), "targets": targets, "seed": most_lost, "whole": whole}
    divided = assign_splits(segments, **options)
    assert crossing(segments.hstack(divided), keys) == set()
    order = list(range(len(rows)))
    random.shuffle(order)
    assert assign_splits(segments[order], **options).rows() == divided[order].rows()
    counts = dict(divided["split"].cast(pl.String).drop_nulls().value_counts().iter_rows())
    assert counts.get("train", 0) > 0
    for split, target in targets.items():
        assert counts.get(split, 0) < max(target.amount + whole.largest, 1)
    assert set(divided["reason"].drop_nulls()) <= {"crosses_splits"}
    assert divided["reason"].count() <= most_lost
    assert len(keys) == 2 or divided["reason"].count() == 0


@given(
    rows,
    st.sets(st.sampled_from(KEYS)),
    st.sampled_from(HELD_OUT),
    st.integers(0, 6),
    st.integers(0, 6),
)
@settings(max_examples=100, deadline=None)
@pytest.mark.slow
def test_an_exact_size_is_the_same_with_and_without_a_goal_of_the_other(
    rows, keys, split, size, goal
):
    segments = table(rows)
    exact = {split: Target(size, "segments")}
    other = {name: Target(goal, "segments") for name in HELD_OUT if name != split}
    options = {
        "keys": sorted(keys),
        "seed": 1,
        "whole": WholeSplits([*other], 3 * goal, most_lost=9),
    }
    try:
        alone = assign_splits(segments, targets=exact, **options)
    except InputError as error:
        with pytest.raises(InputError, match=str(error)[:20]):
            assign_splits(segments, targets=exact | other, **options)
        return
    both = assign_splits(segments, targets=other | exact, **options)
    found = [(divided["split"] == split).fill_null(value=False) for divided in (both, alone)]
    assert found[0].equals(found[1])
    assert found[0].sum() == size


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.integers(1, 20))
@settings(deadline=None)
@pytest.mark.slow
def test_the_smallest_speakers_are_held_out(numbers, goal):
    segments = table([(f"s{n}", None, 1) for n, size in enumerate(numbers) for _ in range(size)])
    targets = {split: Target(goal, "segments") for split in HELD_OUT}
    whole = WholeSplits(HELD_OUT, 3 * goal)
    divided = assign_splits(segments, keys=["speaker_id"], targets=targets, seed=1, whole=whole)
    found = split_of(segments.hstack(divided))
    size = {f"s{n}": number for n, number in enumerate(numbers)}
    held_out = sorted(size[name] for name in found if found[name] != "train")
    assert held_out == sorted(numbers)[: len(held_out)]
    assert max(held_out, default=0) <= 3 * goal
    train = [size[name] for name in found if found[name] == "train"]
    for split in HELD_OUT:
        have = sum(size[name] for name in found if found[name] == split)
        assert have >= goal or len(train) == 1 or min(train) > 3 * goal
