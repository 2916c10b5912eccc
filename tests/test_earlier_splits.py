from collections import defaultdict

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_select import recordings_table, segment, segments_table, with_decisions

from nbaudio.core.errors import InputError
from nbaudio.selection.fixed_splits import fixed_splits
from nbaudio.selection.parameters import Parameters
from nbaudio.selection.select import select
from nbaudio.tables.rejection_reasons import GROUPING_REASONS
from nbaudio.tables.schemas import EARLIER_SPLITS
from nbaudio.tables.split_names import is_held_out
from nbaudio.tables.workspace import Workspace
from nbaudio.text.near_duplicates import sentences

KEYS = ["speaker_id", "recording_id"]


def after_growth(chosen, columns, earlier=None):
    """The table of earlier splits as it is when a workspace grows after a selection.

    What was held out keeps its earlier words and values in rows of their own.
    """
    kept = chosen.drop_nulls("split").select(
        "segment_id",
        "split",
        *(pl.col(name).cast(pl.String) for name in columns),
        sentence=sentences(pl.col("text")),
    )
    if earlier is None:
        return kept
    held_out = pl.col("split").is_in([*filter(is_held_out, earlier["split"].unique())])
    before = pl.concat(
        [
            earlier.filter(held_out),
            earlier.filter(~held_out).join(kept, on="segment_id", how="anti"),
        ]
    )
    return pl.concat([before, kept], how="diagonal").unique(maintain_order=True)


def rows_of(speakers, *, start=0, each=6, text="segment", **more):
    """Segments of speakers, each in a recording of their own unless another is given."""
    return segments_table(
        [
            segment(
                start + n * each + k,
                speaker=name,
                **{"recording": f"r-{name}", "text": f"{text} {name} {k}", **more},
            )
            for n, name in enumerate(speakers)
            for k in range(each)
        ]
    )


@pytest.fixture
def workspace(tmp_path):
    workspace = Workspace.create(tmp_path / "w", source="asr.json", audio=None)
    segments = rows_of([f"s{n}" for n in range(20)])
    workspace.save(
        recordings=recordings_table(segments["recording_id"].unique(maintain_order=True)),
        segments=segments,
    )
    return workspace


def grow(workspace, *new):
    """Add segments to a workspace as `ingest --add` does."""
    columns = workspace.report("select")["facts"]["parameters"]["group_by"]
    path = workspace.path / f"{EARLIER_SPLITS}.parquet"
    earlier = workspace.table(EARLIER_SPLITS) if path.exists() else None
    workspace.save(**{EARLIER_SPLITS: after_growth(workspace.segments, columns, earlier)})
    if new:
        segments = pl.concat([workspace.segments, *new], how="diagonal_relaxed")
        ids = segments["recording_id"].unique(maintain_order=True)
        workspace.save(segments=segments, recordings=recordings_table(ids))


def outcome(workspace):
    return {
        row["segment_id"]: (row["split"], row["reason"])
        for row in workspace.segments.iter_rows(named=True)
    }


def test_segments_keep_the_splits_of_the_earlier_version(workspace):
    select(workspace, dev=12, test=6, seed=1)
    before = outcome(workspace)
    grow(workspace, rows_of([f"n{n}" for n in range(10)], start=200, text="more"))
    report = select(workspace, dev=18, test=6, seed=2)
    after = outcome(workspace)
    assert {key: after[key] for key in before} == before
    assert report.facts["kept_from_earlier"] == {"train": 102, "dev": 12, "test": 6}
    assert report.facts["new"] == {"train": 54, "dev": 6}
    assert report.facts["leakage"]["speaker"] == 0
    assert report.warnings == []


def test_new_segments_that_share_a_speaker_or_sentence_with_what_is_held_out_are_not_trained_on(
    workspace,
):
    select(workspace, dev=6, test=6, group_by=["speaker_id"])
    held = workspace.segments.filter(pl.col("split") == "dev")
    trained = workspace.segments.filter(pl.col("split") == "train")
    spoken, said = held["speaker_id"][0], f"„{held['text'][0].upper()}!“"
    grow(
        workspace,
        rows_of([spoken], start=200, recording="other"),
        rows_of(["new"], start=300, text=said, each=1).with_columns(text=pl.lit(said)),
        rows_of(["new"], start=400, text="nothing of that", each=2),
        rows_of([trained["speaker_id"][0]], start=500, each=1),
    )
    report = select(workspace, dev=6, test=6)
    after = outcome(workspace)
    assert {after[f"x{number:04d}"] for number in range(200, 206)} == {(None, "beyond_split_size")}
    assert after["x0300"] == (None, "held_out_sentence")
    assert after["x0400"] == after["x0401"] == after["x0500"] == ("train", None)
    # By default the columns of the earlier version.
    assert report.facts["parameters"]["group_by"] == ["speaker_id"]
    # They bar what shares a value also where others are requested.
    select(workspace, dev=6, test=6, group_by=["recording_id"])
    assert {outcome(workspace)[f"x{number:04d}"] for number in range(200, 206)} == {
        (None, "crosses_splits")
    }


def test_new_held_out_segments_share_neither_speaker_nor_sentence_with_the_earlier_train(workspace):
    select(workspace, dev=0, test=0)
    said = workspace.segments["text"][0]
    new = pl.concat(
        [
            rows_of(["n1"], start=200),
            rows_of(["n2"], start=300, text="x").with_columns(text=pl.lit(said)),
        ]
    )
    grow(workspace, new, rows_of(["s3"], start=400, recording="r-new"))
    select(workspace, dev=4, test=0)
    assert set(workspace.segments.filter(pl.col("split") == "dev")["speaker_id"]) == {"n1"}
    report = select(workspace, dev=7, test=0)
    assert report.facts["dev"]["segments"] == 6
    assert (
        "dev: 7 segments requested, but 6 segments can be filled beside the segments whose split "
        "is fixed"
    ) in report.warnings


@pytest.mark.slow
def test_what_is_filtered_out_of_a_held_out_split_is_lost_and_counted(workspace):
    select(workspace, dev=6, test=6)
    dev = workspace.segments.filter(pl.col("split") == "dev")
    grow(workspace, rows_of([dev["speaker_id"][0]], start=200))
    low = (
        pl.when(pl.col("segment_id").is_in(dev["segment_id"].to_list()))
        .then(0.1)
        .otherwise("similarity")
    )
    workspace.save(
        segments=workspace.segments.with_columns(similarity=low).filter(
            pl.col("segment_id") != dev["segment_id"][0]
        )
    )
    report = select(workspace, dev=0, test=6)
    after = outcome(workspace)
    assert {after[key] for key in dev["segment_id"][1:]} == {(None, "below_similarity")}
    # Their speaker is still not trained on.
    assert not {after[f"x{number:04d}"][0] for number in range(200, 206)} & {"train", "test"}
    assert (
        "6 of the segments that an earlier version held out are lost (dev 6), for these reasons: "
        "below_similarity 5, not in the tables 1"
    ) in report.warnings


def test_a_stricter_grouping_says_which_old_train_segments_it_rejects(workspace):
    rows = workspace.segments
    # Two of a session of s0 are by others.
    session = (
        pl.when(pl.col("speaker_id") == "s0")
        .then(pl.lit("a"))
        .when(pl.col("segment_id").is_in(["x0030", "x0060"]))
    )
    rows = rows.with_columns(session=session.then(pl.lit("a")).otherwise("recording_id"))
    fixed = pl.DataFrame({"speaker_id": ["s0"], "split": ["dev"]})
    workspace.save(segments=rows)
    select(workspace, splits=fixed, test=0)
    grow(workspace)
    report = select(workspace, group_by="speaker_id,session", dev=6, test=0)
    assert report.facts["earlier_train_rejected"] == {"segments": 2, "first": ["x0030", "x0060"]}
    assert outcome(workspace)["x0030"] == (None, "crosses_splits")
    (line,) = [line for line in report.warnings if "earlier train" in line]
    assert line == (
        "2 segments of the earlier train share speaker_id, session, "
        "recording_id with what is held out, and are out: x0030, x0060"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("now", "before"), [("train", "dev"), ("test", "dev"), ("dev", "train")])
def test_given_splits_that_contradict_earlier_ones_are_refused(workspace, now, before):
    select(workspace, dev=6, test=6)
    grow(workspace)
    ids = workspace.segments.filter(pl.col("split") == before)["segment_id"].sort()
    message = f"splits: segment {ids[0]} is given as {now}, but is {before} in an earlier version"
    with pytest.raises(InputError, match=message):
        select(workspace, splits=pl.DataFrame({"segment_id": ids[:2], "split": [now] * 2}))
    both = pl.DataFrame(
        {"segment_id": ids[:1], "split": [before if before != "train" else "train_2"]}
    )
    assert select(workspace, splits=both).facts["kept"] == 120


def test_held_out_segments_with_changed_text_stay_and_keep_their_sentence_out(workspace):
    select(workspace, dev=6, test=6)
    dev = workspace.segments.filter(pl.col("split") == "dev").row(0, named=True)
    train = workspace.segments.filter(pl.col("split") == "train")["segment_id"][0]
    new = rows_of(["n1"], start=200, each=2).with_columns(
        text=pl.Series([dev["text"], "changed text"])
    )
    grow(workspace, new)
    text = pl.col("segment_id").replace_strict(
        {dev["segment_id"]: "Changed text", train: dev["text"]}, default=None
    )
    workspace.save(segments=workspace.segments.with_columns(text=pl.coalesce(text, "text")))
    select(workspace, dev=6, test=6)
    after = outcome(workspace)
    assert after[dev["segment_id"]] == ("dev", None)
    assert after["x0200"] == after["x0201"] == after[train] == (None, "held_out_sentence")


def test_a_budget_takes_the_earlier_train_first(workspace):
    select(workspace, hours=40 * 5 / 3600 + 1e-9, dev=6, test=6)
    trained = {key for key, (split, _) in outcome(workspace).items() if split == "train"}
    assert len(trained) == 28
    grow(workspace, rows_of([f"n{n}" for n in range(10)], start=200, text="more"))
    report = select(workspace, hours=41 * 5 / 3600 + 1e-9, seed=5, dev=6, test=6)
    assert trained < {key for key, (split, _) in outcome(workspace).items() if split == "train"}
    assert report.facts["new"] == {"train": 1}


def test_a_damaged_table_of_earlier_splits_is_named(workspace):
    workspace.save(**{EARLIER_SPLITS: pl.DataFrame({"segment_id": ["x0000"], "split": ["dev"]})})
    with pytest.raises(InputError, match=r"earlier_splits.parquet: the column sentence is missing"):
        select(workspace)


# Properties

speakers = st.sampled_from(["a", "b", "c", "d", "e", "f", None])
recordings = st.sampled_from(["r0", "r1", "r2", "r3", "r4", "r5"])
sessions = st.sampled_from(["u", "v", "w", None])
texts = st.integers(0, 12).map(lambda n: f"Text {n}")
some_rows = st.lists(
    st.tuples(
        speakers,
        recordings,
        st.sampled_from(["u", "v", "w", None]),
        texts,
        st.sampled_from([0.3, 0.9]),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=25,
)
parameters = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 5),
        "min_similarity": st.sampled_from([0.2, 0.8]),
        "group_by": st.sets(st.sampled_from([*KEYS, "session"])).map(
            lambda keys: tuple(sorted(keys))
        ),
        "dev": st.sampled_from([None, 0, 1, 4, "0.003h"]),
        "test": st.sampled_from([None, 0, 2, "0.002h"]),
        "hours": st.sampled_from([None, None, 0.02]),
    }
)


def table(rows, start=0):
    return segments_table(
        [
            segment(
                start + n,
                recording=recording,
                speaker=speaker,
                session=session,
                text=text,
                similarity=similarity,
                length=length,
            )
            for n, (speaker, recording, session, text, similarity, length) in enumerate(rows)
        ]
    ).with_columns(pl.col("session").cast(pl.String))


def divided(segments, earlier, reviewed=(), **changes):
    fixed = fixed_splits(segments, earlier=earlier)
    ids = recordings_table([f"r{n}" for n in range(6)])
    return with_decisions(ids, segments, reviewed, Parameters(**changes), fixed=fixed)[0]


def check_guarantee(chosen, columns, versions):
    """Check all that earlier versions promise, row by row."""
    now = {row["segment_id"]: row for row in chosen.iter_rows(named=True)}
    train = [row for row in now.values() if row["split"] == "train"]
    said = {
        row["segment_id"]: row["sentence"]
        for row in chosen.select("segment_id", sentence=sentences(pl.col("text"))).to_dicts()
    }
    trained, held_out = {}, {}
    for rows, _ in versions:
        for row in rows:
            (held_out if is_held_out(row["split"]) else trained)[row["segment_id"]] = row
    for key, row in held_out.items():
        assert now[key]["split"] == row["split"] or (
            now[key]["split"] is None and now[key]["reason"] not in GROUPING_REASONS
        ), key
    for key in trained.keys() - held_out.keys():
        assert now[key]["split"] in ("train", None), key
    for rows, version_columns in versions:
        held = [row for row in rows if is_held_out(row["split"])]
        for column in version_columns:
            values = {row[column] for row in held} - {None}
            assert not [row for row in train if row[column] in values]
        sentences_held = {row["sentence"] for row in held}
        for row in train:
            key = row["segment_id"]
            assert said[key] not in sentences_held or (
                key in trained and trained[key]["sentence"] == said[key]
            )
    sentences_trained = {row["sentence"] for row in trained.values()}
    splits = defaultdict(set)
    for key, row in now.items():
        if row["split"] is not None and key not in held_out:
            assert row["split"] == "train" or said[key] not in sentences_trained
            for column in columns:
                splits[column, row[column]].add(row["split"])
    assert not [
        value for (_, value), names in splits.items() if value is not None and len(names) > 1
    ]


@pytest.mark.slow
@given(
    st.lists(st.tuples(some_rows, parameters, st.integers(0, 3)), min_size=2, max_size=4), st.data()
)
@settings(max_examples=20, deadline=None)
def test_splits_share_no_group_after_any_history_of_versions(history, data):
    segments, earlier, versions = None, None, []
    for step, (rows, changes, number) in enumerate(history):
        new = table(rows, start=100 * step)
        segments = new if segments is None else pl.concat([segments, new])
        if step and number:
            # Texts of some segments changed under their ids.
            changed = data.draw(
                st.lists(
                    st.sampled_from(segments["segment_id"].to_list()), max_size=number, unique=True
                )
            )
            text = (
                pl.when(pl.col("segment_id").is_in(changed))
                .then(pl.lit(data.draw(texts)))
                .otherwise("text")
            )
            segments = segments.with_columns(text=text)
        reviewed = set(segments["segment_id"][step::7].to_list()) if number == 2 else ()
        try:
            chosen = divided(segments, earlier, reviewed, **changes)
        except InputError:
            continue
        assert (chosen["split"].is_null() == chosen["reason"].is_not_null()).all()
        check_guarantee(chosen, changes["group_by"], versions)
        kept = after_growth(chosen, changes["group_by"])
        # What a version has of a column that it was not grouped by promises nothing.
        versions.append((kept.to_dicts(), changes["group_by"]))
        earlier = after_growth(chosen, changes["group_by"], earlier)


@pytest.mark.slow
@given(some_rows, parameters, st.integers(0, 3), st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_selecting_again_without_new_rows_changes_nothing(rows, changes, number, random):
    segments = table(rows)
    reviewed = set(segments["segment_id"][::5].to_list()) if number == 2 else ()
    try:
        chosen = divided(segments, None, reviewed, **changes)
    except InputError:
        return
    earlier = after_growth(chosen, changes["group_by"])
    again = divided(
        segments,
        earlier.sample(fraction=1, shuffle=True, seed=random.randint(0, 9)),
        reviewed,
        **changes,
    )
    assert again["split"].to_list() == chosen["split"].to_list()
    if changes["hours"] is None:
        assert again["reason"].to_list() == chosen["reason"].to_list()


@pytest.mark.slow
@given(some_rows, some_rows, parameters, st.data())
@settings(max_examples=20, deadline=None)
def test_with_given_splits_adding_recordings_and_removing_them_again_changes_nothing(
    rows, more, changes, data
):
    changes = {**changes, "hours": None, "dev": None, "test": None}
    segments = table(rows)
    names = data.draw(
        st.lists(
            st.sampled_from(["train", "dev", "test", "test_2"]),
            min_size=len(rows),
            max_size=len(rows),
        )
    )
    splits = pl.Series("given", names)
    ids = recordings_table([f"r{n}" for n in range(6)])

    def chosen(segments, splits, earlier):
        fixed = fixed_splits(segments, given_split=splits, earlier=earlier)
        return with_decisions(ids, segments, (), Parameters(**changes), fixed=fixed)[0]

    before = chosen(segments, splits, None)
    grown = pl.concat([segments, table(more, start=100)])
    earlier = after_growth(before, changes["group_by"])
    middle = chosen(grown, pl.concat([splits, pl.Series("given", ["train"] * len(more))]), earlier)
    earlier = after_growth(middle, changes["group_by"], earlier)
    earlier = earlier.filter(pl.col("segment_id").is_in(segments["segment_id"].to_list()))
    assert chosen(segments, splits, earlier).equals(before)
