import json
from collections import defaultdict

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pytest
from hypothesis import given as given_rows
from hypothesis import settings
from hypothesis import strategies as st
from specimens import librispeech_tree, lines
from spreadsheets import write_table_ods
from test_earlier_splits import grow, parameters, some_rows, table
from test_select import (
    corpus,
    crossing,
    judge,
    recordings_table,
    segment,
    segments_table,
    with_decisions,
)
from typer.testing import CliRunner

import nbaudio
from nbaudio.cli import app as cli
from nbaudio.core.errors import InputError
from nbaudio.corpus.layout import read_corpus_info
from nbaudio.corpus.materialize import materialize
from nbaudio.reading import open_corpus
from nbaudio.selection.fixed_splits import fixed_splits
from nbaudio.selection.given_splits import given_splits
from nbaudio.selection.parameters import Parameters
from nbaudio.selection.select import select
from nbaudio.storage.folders import folder_at
from nbaudio.tables.rejection_reasons import GROUPING_REASONS
from nbaudio.tables.workspace import Workspace


@pytest.fixture
def workspace(tmp_path):
    """Twenty speakers with a recording each and six segments in it; of every segment a sentence of
    its own."""
    workspace = Workspace.create(tmp_path / "w", source="asr.json", audio=None)
    words = [
        " ".join(np.random.default_rng(n).choice([*"abcdefghijklmnopqrst"], 30)) for n in range(120)
    ]
    segments = corpus(speakers=20, recordings=20, each=6).with_columns(text=pl.Series(words))
    workspace.save(recordings=recordings_table([f"r{i}" for i in range(20)]), segments=segments)
    return workspace


def of_source(workspace, **names):
    """Give the speakers these splits of the source: `dev_clean="s1 s2"` is dev-clean."""
    split = {
        speaker: name.replace("_", "-")
        for name, speakers in names.items()
        for speaker in speakers.split()
    }
    named = pl.col("speaker_id").replace_strict(split, default=None, return_dtype=pl.String)
    workspace.save(segments=workspace.segments.with_columns(source_split=named))


def speakers(workspace):
    """The speakers of each split."""
    kept = (
        workspace.segments.drop_nulls("split").group_by("split").agg(pl.col("speaker_id").unique())
    )
    return {split: set(names) for split, names in kept.iter_rows()}


OTHERS = " ".join(f"s{n}" for n in range(4, 20))


def test_two_held_out_splits_of_one_role_keep_their_names(workspace):
    of_source(
        workspace,
        dev_clean="s0",
        dev_other="s1",
        test_clean="s2",
        train_clean_100="s3 s4",
        train_other_500=OTHERS[3:],
    )
    before = workspace.segments["source_split"]
    report = select(workspace, splits="source")
    found = speakers(workspace)
    assert list(report.facts)[3:7] == ["train", "dev_clean", "dev_other", "test"]
    assert {split: found[split] for split in ("dev_clean", "dev_other", "test")} == {
        "dev_clean": {"s0"},
        "dev_other": {"s1"},
        "test": {"s2"},
    }
    assert len(found["train"]) == 17
    assert workspace.segments["source_split"].equals(before)
    assert report.facts["parameters"]["splits"] == "source"
    assert report.facts["source_held_out_in_train"] == []
    assert report.warnings == []


def test_without_splits_source_the_report_names_the_option(workspace):
    of_source(workspace, validation="s0 s1 s2 s3", train=OTHERS)
    (line,) = [line for line in select(workspace).warnings if "holds out" in line]
    assert "; --splits source, without --dev and --test, keeps the source's splits" in line


def test_segments_of_unknown_split_names_are_divided_as_usual(workspace):
    of_source(
        workspace, test="s0 s1", validated="s2 s3 s4", other=" ".join(f"s{n}" for n in range(5, 20))
    )
    report = select(workspace, splits="source", dev=6)
    assert report.warnings[0] == (
        "splits=source: no split is known by these names, "
        "and their segments are divided as usual: 'other' 90, 'validated' 18"
    )
    found = speakers(workspace)
    assert found["test"] == {"s0", "s1"}
    assert len(found["dev"]) == 1
    assert not found["dev"] & found["train"]


def test_a_source_without_splits_is_refused(workspace):
    with pytest.raises(InputError, match="splits=source: the source gives no splits"):
        select(workspace, splits="source")


def written(folder, name, table):
    path = folder / name
    if path.suffix in (".csv", ".tsv"):
        table.write_csv(path, separator="," if path.suffix == ".csv" else "\t")
    elif path.suffix == ".jsonl":
        table.write_ndjson(path)
    elif path.suffix == ".ods":
        write_table_ods(path, [table.columns, *table.rows()])
    else:
        (table.write_parquet if path.suffix == ".parquet" else table.write_excel)(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet", ".xlsx", ".ods"])
@pytest.mark.parametrize("key", ["segment_id", "recording_id", "speaker_id"])
def test_a_table_gives_splits_by_any_key(workspace, tmp_path, ending, key):
    rows = workspace.segments.filter(pl.col("speaker_id").is_in(["s3", "s7"])).unique(key)
    table = rows.select(key, split=pl.col("speaker_id").replace({"s3": "challenge_1", "s7": "dev"}))
    path = written(tmp_path, f"splits{ending}", table.sample(fraction=1, shuffle=True, seed=1))
    report = select(workspace, splits=path, test=12, dev=6)
    found = speakers(workspace)
    assert (found["challenge_1"], found["dev"], len(found["test"])) == ({"s3"}, {"s7"}, 2)
    assert sum(map(len, found.values())) == 20
    assert report.facts["challenge_1"]["segments"] == 6
    assert report.facts["parameters"]["splits"] == f"splits{ending}"


def test_an_unread_second_sheet_of_a_splits_workbook_is_reported(workspace, tmp_path):
    book = openpyxl.Workbook()
    for row in (("speaker_id", "split"), ("s3", "test")):
        book.active.append(row)
    book.create_sheet("older").append(("s4", "dev"))
    book.save(tmp_path / "splits.xlsx")
    report = select(workspace, splits=tmp_path / "splits.xlsx")
    assert speakers(workspace)["test"] == {"s3"}
    assert [note for note in report.warnings if "splits.xlsx" in note and "'older'" in note]


def test_of_train_dev_and_test_case_does_not_count_in_a_table(workspace, tmp_path):
    """Else TRAIN would be a second split beside train, and the same folder on some disks."""
    rows = ["speaker_id,split", "s1,TRAIN", "s2,Test", "s3,DEV", "s4,Challenge"]
    (tmp_path / "splits.csv").write_text("\n".join(rows))
    select(workspace, splits=tmp_path / "splits.csv")
    found = speakers(workspace)
    assert {*found} == {"train", "dev", "test", "Challenge"}
    assert "s1" in found["train"]
    assert (found["test"], found["dev"], found["Challenge"]) == ({"s2"}, {"s3"}, {"s4"})


@pytest.mark.parametrize("kind", [pl.DataFrame, pd.DataFrame])
def test_a_table_in_memory_gives_splits(workspace, kind):
    report = select(workspace, splits=kind({"speaker_id": ["s1", "s2"], "split": ["test", "dev"]}))
    assert (speakers(workspace)["test"], speakers(workspace)["dev"]) == ({"s1"}, {"s2"})
    assert report.facts["parameters"]["splits"] == "table"


def test_a_table_at_a_url_gives_splits(workspace):
    import fsspec

    with fsspec.open("memory://given/official.csv", "w") as file:
        file.write("recording_id,split\nr5,test\n")
    report = select(workspace, splits="memory://given/official.csv")
    assert speakers(workspace)["test"] == {"s5"}
    assert report.facts["parameters"]["splits"] == "memory://given/official.csv"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["speaker_id,split", "s1,test", "s2,"], "splits.csv: row 3: split is empty"),
        (["speaker_id,split", ",test"], "splits.csv: row 2: speaker_id is empty"),
        (
            ["speaker_id,split", "s1,test-clean"],
            "row 2: split 'test-clean': a name has letters, digits and _",
        ),
        (["speaker_id,split", "s1,../x"], "row 2: split '../x': a name has letters, digits and _"),
        (
            ["speaker_id,split", "s1,dev", "s2,train", "s1,test"],
            "row 4: speaker_id 's1' is given as test, in row 2 as dev",
        ),
        (["speaker_id,split", "s1,Dev", "s2,dev"], "the splits Dev and dev differ only in case"),
        (
            ["speaker_id,recording_id,split", "s1,r1,dev"],
            "expected a column split and one of segment_id, recording_id, speaker_id",
        ),
        (["speaker,split", "s1,dev"], "it has speaker, split"),
        (["speaker_id,part", "s1,dev"], "it has speaker_id, part"),
        (
            ["speaker_id,split", "s1"],
            "splits.csv: no readable rows; line 2: 1 fields, the header has 2",
        ),
        (["speaker_id,split", "x1,dev"], "none of its 1 values of speaker_id is in the workspace"),
        (["speaker_id,split"], "splits.csv: no readable rows"),
    ],
)
def test_an_invalid_splits_table_is_refused_with_the_reason(workspace, tmp_path, rows, message):
    path = lines(tmp_path / "splits.csv", *rows)
    with pytest.raises(InputError) as error:
        select(workspace, splits=path)
    assert message in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
    result = CliRunner().invoke(cli, ["select", str(workspace.path), "--splits", str(path)])
    assert result.exit_code == 2


@pytest.mark.parametrize("name", ["gone.csv", "gone", "https://user:secret@nowhere.invalid/x.csv"])
def test_splits_that_cannot_be_read_are_named(workspace, tmp_path, name):
    with pytest.raises(InputError) as error:
        select(workspace, splits=name if "://" in name else tmp_path / name)
    assert name.rpartition("/")[2] in str(error.value)
    assert "secret" not in str(error.value)


def test_an_equal_row_may_be_repeated_and_unknown_keys_are_counted(workspace, tmp_path):
    path = lines(
        tmp_path / "splits.csv", "speaker_id,split", "s1,test", "s1, test ", "x1,dev", "x2,dev"
    )
    report = select(workspace, splits=str(path))
    assert (
        report.warnings[0]
        == f"{path}: 2 of 3 values of speaker_id are not in the workspace, such as 'x1'"
    )
    assert speakers(workspace)["test"] == {"s1"}


def test_filters_also_reject_segments_with_a_given_split(workspace, tmp_path):
    low = pl.when(pl.col("segment_id") == "x0006").then(0.1).otherwise("similarity")
    workspace.save(segments=workspace.segments.with_columns(similarity=low))
    lines(workspace.path / "reviews/sheet.json", json.dumps({"segment_ids": ["x0012", "x0006"]}))
    path = lines(tmp_path / "splits.csv", "speaker_id,split", "s1,test", "s2,train_extra")
    select(workspace, splits=path, dev=0)
    reasons = dict(
        workspace.segments.drop_nulls("reason").select("segment_id", "reason").iter_rows()
    )
    assert reasons == {"x0006": "below_similarity", "x0012": "reviewed"}
    assert workspace.segments.filter(pl.col("speaker_id") == "s1")["split"].to_list() == [
        None,
        *["test"] * 5,
    ]
    assert workspace.segments.filter(pl.col("speaker_id") == "s2")["split"].to_list() == [
        None,
        *["train_extra"] * 5,
    ]


def test_given_splits_that_share_a_speaker_stay_as_they_are_and_are_reported(workspace, tmp_path):
    # s1 in two held-out splits, s2 in train and test, s3 in two splits for training: nothing else
    # may go where s1 and s2 are.
    rows = [
        "x0006,dev",
        "x0007,test",
        "x0012,train",
        "x0013,test",
        "x0018,train",
        "x0019,train_extra",
    ]
    report = select(workspace, splits=lines(tmp_path / "splits.csv", "segment_id,split", *rows))
    saved = {row["segment_id"]: row for row in workspace.segments.iter_rows(named=True)}
    assert [f"{row[:5]},{saved[row[:5]]['split']}" for row in rows] == rows
    for speaker, outcome in (
        ("s1", (None, "crosses_splits")),
        ("s2", (None, "crosses_splits")),
        ("s3", ("train", None)),
    ):
        rest = [
            row
            for row in saved.values()
            if row["speaker_id"] == speaker and f"{row['segment_id']},{row['split']}" not in rows
        ]
        assert {(row["split"], row["reason"]) for row in rest} == {outcome}
    assert report.facts["shared_by_fixed_splits"] == [
        {"check": "speaker_id", "splits": "dev and test", "shared": 1},
        {"check": "speaker_id", "splits": "train and test", "shared": 1},
        {"check": "recording_id", "splits": "dev and test", "shared": 1},
        {"check": "recording_id", "splits": "train and test", "shared": 1},
    ]
    assert report.facts["leakage"]["speaker"] == 2
    (line,) = [line for line in report.warnings if line.startswith("fixed splits share")]
    assert "speaker_id: dev and test 1; speaker_id: train and test 1" in line


def test_splits_that_a_table_gives_get_no_further_segments(workspace):
    given = pl.DataFrame({"segment_id": ["x0000", "x0006"], "split": ["challenge", "test"]})
    select(workspace, splits=given, dev=0)
    rows = workspace.segments
    outcome = dict(
        rows.group_by("speaker_id").agg(pl.struct("split", "reason").unique().sort()).iter_rows()
    )
    assert outcome["s0"] == [
        {"split": None, "reason": "crosses_splits"},
        {"split": "challenge", "reason": None},
    ]
    assert outcome["s1"] == [
        {"split": None, "reason": "beyond_split_size"},
        {"split": "test", "reason": None},
    ]
    assert rows.filter(pl.col("split") == "train").height == 120 - 12


@pytest.mark.parametrize(
    ("test", "size"), [(None, 6), (6, 6), (2, 6), (20, 20), ("0.01h", 7), (0, 6)]
)
def test_a_requested_size_includes_given_segments(workspace, test, size):
    given = pl.DataFrame({"speaker_id": ["s1"], "split": ["test_clean"]})
    report = select(workspace, splits=given, test=test, dev=0)
    kept = workspace.segments.drop_nulls("split")
    assert kept.filter(pl.col("split").is_in(["test", "test_clean"])).height == size
    assert kept.filter(pl.col("split") == "test_clean")["speaker_id"].to_list() == ["s1"] * 6
    assert crossing(kept, "speaker_id") == 0
    notes = [line for line in report.warnings if "requested" in line]
    assert len(notes) == (test in (2, 0))
    assert all(
        note.startswith(f"test: {test} segments requested, but 6 segments are fixed")
        for note in notes
    )


@pytest.mark.parametrize(("dev", "requested"), [(7, "7 segments"), ("0.1h", "0.100 hours")])
def test_given_splits_limit_the_size_that_dev_can_reach(workspace, dev, requested):
    given = pl.DataFrame({"speaker_id": [f"s{n}" for n in range(19)], "split": ["train"] * 19})
    report = select(workspace, splits=given, dev=dev, test=0)
    assert report.facts["dev"]["segments"] == 6
    (warning,) = [line for line in report.warnings if "requested" in line]
    assert warning.startswith(f"dev: {requested} requested, but ")
    assert "beside the segments whose split is fixed" in warning
    # By default nothing is asked of what is not there.
    report = select(workspace, splits=given, dev=0)
    assert report.facts["test"]["segments"] == 6
    assert not [line for line in report.warnings if "requested" in line]


@pytest.mark.slow
def test_a_stricter_threshold_with_the_splits_of_the_corpus_and_the_sizes_of_the_manifest(
    make_workspace, tmp_path
):
    workspace = make_workspace({f"r{n}.wav": (60.0, 16000) for n in range(6)}, channels=1)
    number = pl.int_range(pl.len())
    workspace.save(
        segments=workspace.segments.with_columns(
            similarity=pl.when(2 * (number // 20 + 4) > number % 20).then(0.95).otherwise(0.85),
            speaker_id=pl.col("recording_id"),
            text=pl.format("rečenica {}", number),
        )
    )
    sizes = {"dev": 15, "test": 15, "group_by": "speaker_id"}
    quiet = {"jobs": 1, "engine": "threading", "show_progress": False}
    first, second = tmp_path / "corpus", tmp_path / "corpus-v2"
    select(workspace, **sizes)
    materialize(workspace, out=first, **quiet)
    select(workspace, min_similarity=0.9, **sizes)
    with pytest.raises(
        InputError, match=r"select .* --splits .*corpus', or splits: .*corpus in a manifest, keeps"
    ):
        materialize(workspace, out=second, base=first, **quiet)
    report = select(workspace, min_similarity=0.9, splits=str(first), **sizes)
    materialize(workspace, out=second, base=first, **quiet)
    before, after = (open_corpus(corpus).segments for corpus in (first, second))
    held_out = set(before.filter(pl.col("split") != "train")["segment_id"])
    assert not held_out & set(after.filter(split="train")["segment_id"])
    sizes_now = dict(after.group_by("split").len().iter_rows())
    for split in ("dev", "test"):
        warned = any(line.startswith(f"{split}: 15 segments requested") for line in report.warnings)
        assert warned == (sizes_now[split] < 15)
        kept = set(before.filter(split=split)["segment_id"])
        assert kept & set(after.filter(split=split)["segment_id"])


def test_gold_is_refused_if_a_table_gives_the_test_split(workspace):
    given = pl.DataFrame({"speaker_id": ["s1"], "split": ["test"]})
    with pytest.raises(InputError, match="gold: test is given by splits=table"):
        select(workspace, splits=given, gold=True)


def test_earlier_test_segments_stay_beside_new_gold_ones(workspace):
    select(workspace, dev=0, test=6)
    grow(workspace, workspace.segments.head(0))
    test = workspace.segments.filter(pl.col("split") == "test")["segment_id"].to_list()
    new = segments_table(
        [
            segment(500 + n, recording=f"n{n // 2}", speaker=f"n{n // 2}", text=f"other {n}")
            for n in range(8)
        ]
    )
    judge_right = new["segment_id"][:3].to_list()
    workspace.save(segments=pl.concat([workspace.segments, new], how="diagonal_relaxed"))
    workspace.save(
        recordings=recordings_table(workspace.segments["recording_id"].unique(maintain_order=True))
    )
    judge(workspace, *((one, "ok", "me") for one in judge_right))
    select(workspace, dev=0, gold=True)
    rows = workspace.segments
    assert rows.filter(pl.col("split") == "test")["segment_id"].to_list() == sorted(
        [*test, *judge_right]
    )
    assert rows.filter(pl.col("segment_id") == new["segment_id"][3])["reason"].to_list() == [
        "not_gold"
    ]


@pytest.fixture
def librispeech(tmp_path):
    parts = {
        "dev-clean": (1, 2),
        "dev-other": (3,),
        "test-clean": (4,),
        "train-clean-100": (5, 6, 7),
        "train-other-500": (2, 8),
    }
    for chapter, (part, readers) in enumerate(parts.items()):
        said = {
            f"{r}-{chapter}-{n:04d}": f"{part} SAYS {r * 'X'} {n * 'Y'}"
            for r in readers
            for n in range(2)
        }
        librispeech_tree(tmp_path / "LibriSpeech" / part, said)
    return tmp_path / "LibriSpeech"


@pytest.mark.slow
@pytest.mark.parametrize("container", ["webdataset", "tfrecord", "files"])
def test_splits_of_a_source_ship_under_their_names(librispeech, tmp_path, container):
    where, out = tmp_path / "w", tmp_path / "corpus"
    nbaudio.ingest("librispeech", librispeech, out=where)
    report = nbaudio.select(where, splits="source")
    # Reader 2 is in dev-clean and in train.
    assert report.facts["shared_by_fixed_splits"] == [
        {"check": "speaker_id", "splits": "train and dev_clean", "shared": 1}
    ]
    nbaudio.materialize(where, out=out, container=container, rate=8000, jobs=1, engine="threading")
    assert nbaudio.verify(out, jobs=1, engine="threading").problems == []
    info = read_corpus_info(folder_at(out))
    sizes = {name: facts["segments"] for name, facts in info["splits"].items()}
    assert sizes == {"train": 10, "dev_clean": 4, "dev_other": 2, "test": 2}
    assert info["selection"]["parameters"]["splits"] == "source"
    card = (out / "README.md").read_text(encoding="utf8")
    assert all(f"| {name} | {count} |" in card.replace("\\", "") for name, count in sizes.items())
    opened = nbaudio.open_corpus(out)
    assert sorted(clip.segment_id[0] for clip in opened.stream("dev_clean", seed=1)) == [
        "1",
        "1",
        "2",
        "2",
    ]
    assert set(opened.segments["source_split"]) == {
        "dev-clean",
        "dev-other",
        "test-clean",
        "train-clean-100",
        "train-other-500",
    }


def test_splits_from_a_corpus_keep_its_held_out_sentences_out_of_train(librispeech, tmp_path):
    old, new, out = tmp_path / "old", tmp_path / "new", tmp_path / "corpus"
    nbaudio.ingest("librispeech", librispeech, out=old)
    nbaudio.select(old, splits="source")
    nbaudio.materialize(old, out=out, rate=8000, jobs=1, engine="threading")
    said = nbaudio.open_corpus(out).segments.filter(pl.col("split") == "test")["text"][0]
    librispeech_tree(
        librispeech / "train-clean-360",
        {"9-90-0001": said.lower(), "9-90-0002": "NEW WORDS", "4-90-0003": "MORE"},
    )
    nbaudio.ingest("librispeech", librispeech, out=new)
    report = nbaudio.select(new, splits=out)
    before = {
        row["segment_id"]: row["split"]
        for row in nbaudio.open_corpus(out).segments.iter_rows(named=True)
    }
    after = {
        row["segment_id"]: (row["split"], row["reason"])
        for row in Workspace(new).segments.iter_rows(named=True)
    }
    assert {key: after[key][0] for key in before} == before
    assert after["9-90-0001"] == (None, "held_out_sentence")
    assert after["9-90-0002"] == ("train", None)
    assert after["4-90-0003"][1] in ("crosses_splits", "beyond_split_size")
    assert report.facts["parameters"]["splits"] == "corpus"
    assert report.facts["parameters"]["group_by"] == ["speaker_id", "recording_id"]
    with pytest.raises(InputError, match=r"old: neither 'source', a table .* nor a corpus"):
        nbaudio.select(new, splits=old)


def test_the_sets_of_a_grown_source_keep_the_name_of_the_earlier_version(workspace):
    of_source(workspace, dev_clean="s0", dev_other="s1", train=OTHERS)
    earlier = pl.DataFrame(
        {"segment_id": ["x0000", "x0030"], "split": ["dev", "train"], "sentence": ["a", "b"]}
    )
    names = given_splits(workspace.segments, "source", earlier=earlier).split
    assert names.to_list()[0:12:6] == ["dev", "dev_other"]
    assert given_splits(workspace.segments, "source").split.to_list()[0:12:6] == [
        "dev_clean",
        "dev_other",
    ]


@pytest.mark.slow
@given_rows(
    some_rows,
    parameters,
    st.lists(
        st.sampled_from([None, None, "train", "train_2", "dev", "test", "test_2", "x"]),
        min_size=25,
        max_size=25,
    ),
)
@settings(max_examples=20, deadline=None)
def test_given_splits_stay_and_others_share_no_group_with_them(rows, changes, names):
    segments, keys = table(rows), changes["group_by"]
    fixed = fixed_splits(
        segments, given_split=pl.Series("given", names[: len(rows)], dtype=pl.String)
    )
    try:
        ids = recordings_table([f"r{n}" for n in range(6)])
        chosen, _ = with_decisions(ids, segments, (), Parameters(**changes), fixed=fixed)
    except InputError:
        return
    claimed = defaultdict(set)
    for row, name in zip(chosen.iter_rows(named=True), names, strict=False):
        for key in keys if name else ():
            claimed[key, row[key]].add("train" if name == "train_2" else name)
    for row, name in zip(chosen.iter_rows(named=True), names, strict=False):
        assert (row["split"] is None) == (row["reason"] is not None)
        if name is not None:
            assert row["split"] == name or (
                row["split"] is None and row["reason"] not in GROUPING_REASONS
            )
        elif row["split"] is not None:
            assert row["split"] in ("train", "dev", "test")
            assert all(
                claimed[key, row[key]] <= {row["split"]} for key in keys if row[key] is not None
            )
