"""Bounds of every group of a column at once: `review export --by`, `--strategy worst`."""

import json

import numpy as np
import polars as pl
import pytest
from sheets import fill_in

import nbaudio
from nbaudio import review
from nbaudio.core.errors import InputError
from nbaudio.review.population import group_hashes
from nbaudio.review.state import ReviewState, frame_table
from nbaudio.tables import workspace_tables
from nbaudio.tables.schemas import SEGMENTS, conform
from nbaudio.tables.workspace import Workspace

SPEAKERS = ("ana", "ben", "cy", None)
SIZE = 800


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Text alone: a fifth of the segments of cy is wrong, nothing of the others."""
    workspace = Workspace.create(tmp_path_factory.mktemp("archive") / "w")
    speakers = [SPEAKERS[number % 4] for number in range(SIZE)]
    segments = pl.DataFrame(
        {
            "segment_id": [f"s{number}" for number in range(SIZE)],
            "recording_id": [f"r{number % 40}" for number in range(SIZE)],
            "source_start": [str(number) for number in range(SIZE)],
            "source_end": [str(number + 1) for number in range(SIZE)],
            "text": [f"rečenica {number}" for number in range(SIZE)],
            "speaker_id": speakers,
            "similarity": np.random.default_rng(3).uniform(0.85, 1.0, SIZE),
        }
    )
    recordings = pl.DataFrame({"recording_id": sorted({f"r{number}" for number in range(40)})})
    workspace.save(recordings=recordings, segments=conform(segments, SEGMENTS, "segments"))
    return workspace


@pytest.fixture
def workspace(archive, tmp_path):
    copy = Workspace.create(tmp_path / "w")
    copy.save(recordings=archive.recordings, segments=archive.segments)
    return copy


def is_wrong(segment_id):
    number = int(segment_id[1:])
    return number % 4 == 2 and number // 4 % 5 == 0


def reviewed(workspace, name, folder, **options):
    """Export a round and import the verdicts of somebody who is always right."""
    out = folder / f"{name}.xlsx"
    review.export(workspace, out=out, **options)
    ids = ReviewState.load(workspace).records[name].segment_ids
    said = {key: "wrong words" if is_wrong(key) else "ok" for key in ids}
    review.import_(workspace, fill_in(out, said))
    return ids


@pytest.mark.slow
def test_the_worst_group_is_named_with_a_bound_that_holds_for_all_groups(workspace, tmp_path):
    nbaudio.select(workspace, dev=0, test=0)
    reviewed(workspace, "one", tmp_path, n=240, strategy="speaker", by="speaker_id")
    report = nbaudio.evidence(workspace)
    [worst] = report.facts["selection"]["worst"]
    assert (worst["by"], worst["groups"], worst["group"]) == ("speaker_id", 4, "cy")
    segments = workspace.segments.filter(decision="accept", speaker_id="cy")["segment_id"]
    truth = 1 - np.mean([is_wrong(key) for key in segments])
    assert worst["segments"] == len(segments)
    assert 0.4 < worst["low"] <= truth
    assert worst["low"] < report.facts["selection"]["low"] - 0.05
    assert report.facts["worst_groups"] == [worst["sentence"]]
    assert worst["sentence"].startswith("Of the clips of each speaker_id (4), at least ")
    assert "least is known of cy: " in worst["sentence"]


def test_the_strategy_draws_most_from_groups_that_may_be_worst(workspace, tmp_path):
    reviewed(workspace, "one", tmp_path, n=120, strategy="worst", by="speaker_id")
    counts = []
    for name in ("one", "two"):
        if name == "two":
            review.export(
                workspace, out=tmp_path / "two.csv", n=120, strategy="worst", by="speaker_id"
            )
        ids = ReviewState.load(workspace).records[name].segment_ids
        counts.append(np.bincount([int(key[1:]) % 4 for key in ids], minlength=4))
    assert counts[0].min() > 15
    # 6 of 30 are wrong of cy, none of the others: seven times as many of cy.
    assert counts[1][2] > 3 * counts[1][[0, 1, 3]].max()


@pytest.mark.slow
def test_groups_share_the_error_equally(workspace, tmp_path):
    nbaudio.select(workspace, dev=0, test=0)
    is_cy = pl.col("speaker_id").eq_missing("cy")
    two_groups = Workspace.create(tmp_path / "two")
    speaker = pl.when(is_cy).then("speaker_id").otherwise(pl.lit("ana"))
    segments = workspace.segments.with_columns(speaker_id=speaker)
    two_groups.save(recordings=workspace.recordings, segments=segments)
    nbaudio.select(two_groups, dev=0, test=0)
    bounds = {}
    for made, confidence in ((workspace, 0.95), (two_groups, 0.95), (two_groups, 0.975)):
        if not ReviewState.load(made).records:
            reviewed(made, "one", made.path, n=120, strategy="random", by="speaker_id")
        facts = nbaudio.evidence(made, confidence=confidence).facts["selection"]
        [worst] = facts["worst"]
        assert worst["group"] == "cy"
        bounds[worst["groups"], confidence] = worst["low"]
    # A quarter of 0.05 is half of 0.025.
    assert bounds[4, 0.95] == pytest.approx(bounds[2, 0.975])
    assert bounds[4, 0.95] < bounds[2, 0.95]


@pytest.mark.slow
def test_groups_are_those_of_the_round_whatever_the_column_says_later(workspace, tmp_path):
    nbaudio.select(workspace, dev=0, test=0)
    reviewed(workspace, "one", tmp_path, n=240, strategy="speaker", by="speaker_id")
    before = nbaudio.evidence(workspace).facts["selection"]["worst"][0]["low"]
    # Somebody gives the segments that were found wrong, and others of cy, to another speaker.
    found = [key for key in workspace.segments["segment_id"] if is_wrong(key)]
    speaker = pl.when(pl.col("segment_id").is_in(found)).then(pl.lit("ana")).otherwise("speaker_id")
    workspace.save(segments=workspace.segments.with_columns(speaker_id=speaker))
    after = nbaudio.evidence(workspace).facts["selection"]["worst"][0]
    assert (after["group"], after["low"]) == ("cy", before)
    workspace.save(segments=workspace.segments.with_columns(speaker_id=pl.lit("ana")))
    after = nbaudio.evidence(workspace).facts["selection"]["worst"][0]
    assert (after["groups"], after["low"]) == (4, before)
    assert after["group"].startswith("(no longer in the table, ")


@pytest.mark.slow
def test_draws_from_before_the_groups_were_fixed_do_not_count(workspace, tmp_path):
    nbaudio.select(workspace, dev=0, test=0)
    reviewed(workspace, "one", tmp_path, n=240, strategy="speaker")
    assert nbaudio.evidence(workspace).facts["selection"]["worst"] == []
    reviewed(workspace, "two", tmp_path, n=4, by="speaker_id")
    [worst] = nbaudio.evidence(workspace).facts["selection"]["worst"]
    assert worst["low"] < 0.1


def test_frames_store_hashes_of_groups_and_no_names(workspace, tmp_path):
    reviewed(workspace, "one", tmp_path, n=10, by="speaker_id")
    frame = workspace_tables.read(workspace, table=frame_table("one"))
    assert frame.schema["group"] == pl.UInt64
    table = workspace.segments.select("segment_id", "speaker_id")
    expected = table.with_columns(group=group_hashes(table["speaker_id"]))
    joined = frame.join(expected, on="segment_id", suffix="_expected")
    assert len(joined) == SIZE
    assert joined["group"].equals(joined["group_expected"], check_names=False)
    assert frame["group"].n_unique() == 4


@pytest.mark.parametrize("strategy", ["worst", "speaker"])
@pytest.mark.slow
def test_nothing_of_the_reviews_names_a_withdrawn_speaker(workspace, tmp_path, strategy):
    names = {"ana": "Ana Anić", "ben": "Ben Benić", "cy": "Cy Cyić"}
    speaker = pl.col("speaker_id").replace(names)
    workspace.save(segments=workspace.segments.with_columns(speaker))
    nbaudio.select(workspace, dev=0, test=0)
    reviewed(workspace, "one", tmp_path, n=60, strategy=strategy, by="speaker_id")
    before = nbaudio.evidence(workspace).facts["selection"]
    assert names_in(workspace.path, "Cy Cyić") != []
    nbaudio.withdraw(workspace, speaker="Cy Cyić", why="asked")
    assert names_in(workspace.path, "Cy Cyić") == []
    assert names_in(workspace.path, "Ben Benić") != []
    nbaudio.select(workspace, dev=0, test=0)
    after = nbaudio.evidence(workspace).facts["selection"]
    assert after["segments"] < before["segments"]
    assert {row["group"] for row in after["worst"]} < {"Ana Anić", "Ben Benić", "(none)"}


def names_in(folder, name):
    """The JSON and Parquet files of reviews and reports that hold a name."""
    files = [*folder.glob("reviews/**/*.*"), *folder.glob("reports/*.json")]
    return [path.name for path in files if name in content_of(path)]


def content_of(path):
    if path.suffix == ".parquet":
        return str(pl.read_parquet(path).to_dicts())
    return str(json.loads(path.read_text())) if path.suffix == ".json" else path.read_text()


@pytest.mark.slow
def test_corpus_and_card_have_the_worst_group(workspace, tmp_path):
    reviewed(workspace, "one", tmp_path, n=80, by="speaker_id")
    nbaudio.select(workspace, dev=0, test=0)
    claims = nbaudio.evidence(workspace).to_dict()["facts"]
    json.dumps(claims)
    assert claims["selection"]["worst"][0]["not_sampled"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "worst"}, "needs by, the column of the groups: --by speaker_id"),
        ({"by": "nobody"}, "by=nobody: is not a column with groups; columns are segment_id"),
    ],
)
def test_a_column_of_groups_is_needed_and_must_be_there(workspace, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        review.export(workspace, out=tmp_path / "one.csv", n=5, **options)
