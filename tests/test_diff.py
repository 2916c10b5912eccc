"""What `diff` says of two versions."""

import json

import polars as pl
import pytest
from test_versions import CLIPS, first, grown, kinds, recording, save, start, version

import nbaudio
from nbaudio.core.errors import InputError
from nbaudio.corpus.diff import diff
from nbaudio.corpus.withdraw import withdraw


def history(tmp_path):
    """Two versions: a recording added, one replaced, a speaker withdrawn, a text, bounds and a
    split changed, one rejected."""
    workspace, recordings, segments = start(tmp_path, 6)
    segments = [
        row | ({"speaker_id": "ana"} if row["segment_id"] == "r5-07" else {}) for row in segments
    ]
    save(workspace, recordings, segments)
    first(workspace, tmp_path / "c1")
    (tmp_path / "before").mkdir()
    for path in workspace.path.glob("*.parquet"):
        (tmp_path / "before" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "before/workspace.json").write_bytes(
        (workspace.path / "workspace.json").read_bytes()
    )
    recordings, segments = grown(tmp_path, workspace, recordings, segments, 6)
    recordings[4] = recording(tmp_path, 4, **kinds(4), seed=77)
    number = {row["segment_id"]: place for place, row in enumerate(segments)}
    segments[number["r2-00"]] |= {"text": "drugo"}
    segments[number["r2-01"]] |= {"end_sample": segments[number["r2-01"]]["end_sample"] - 9}
    segments[number["r2-02"]] |= {"split": "test"}
    segments[number["r2-03"]] |= {"decision": "reject", "reason": "too_long", "split": None}
    save(workspace, recordings, segments)
    withdraw(workspace, speaker="ana", why="consent withdrawn")
    version(workspace, tmp_path / "c1", tmp_path / "c2")
    return workspace


@pytest.mark.slow
def test_diff_counts_segments_that_were_added_removed_and_changed(tmp_path):
    history(tmp_path)
    facts = diff(tmp_path / "c1", tmp_path / "c2").facts
    assert facts["added"]["segments"] == CLIPS
    assert facts["added_because"][0] | {"hours": 0} == {
        "reason": "new in the source",
        "segments": CLIPS,
        "hours": 0,
        "examples": ["r6-00", "r6-01", "r6-02"],
    }
    assert facts["removed"]["segments"] == 2
    assert {row["reason"]: row["examples"] for row in facts["removed_because"]} == {
        "too_long": ["r2-03"],
        "withdrawn: consent withdrawn": ["r5-07"],
    }
    assert facts["moved"]["segments"] == 1
    assert [(row["reason"], row["examples"]) for row in facts["moved_between"]] == [
        ("train to test", ["r2-02"])
    ]
    changed = facts["changed"]
    assert (changed["segments"], changed["text"], changed["bounds"], changed["audio"]) == (
        2 + CLIPS,
        1,
        1,
        CLIPS,
    )
    assert facts["speakers"] == {"added": 1, "removed": 1}
    shards = facts["shards"]
    assert shards["equal"] > 0
    assert shards["new"] > 0
    assert shards["rewritten"] > 0
    assert shards["bytes_equal"] + shards["bytes_other"] == sum(
        path.stat().st_size for path in (tmp_path / "c2").glob("*/*.tar")
    )
    by_split = {row["split"]: row for row in facts["by_split"]}
    assert (by_split["test"]["before_segments"], by_split["test"]["after_segments"]) == (
        CLIPS,
        CLIPS + 1,
    )
    back = diff(tmp_path / "c2", tmp_path / "c1").facts
    assert (back["added"], back["removed"]) == (facts["removed"], facts["added"])


@pytest.mark.slow
def test_equal_corpora_in_other_containers_have_no_differences(tmp_path):
    workspace, *_ = start(tmp_path)
    first(workspace, tmp_path / "c1")
    first(workspace, tmp_path / "c2", container="parquet", encoding="wav")
    facts = diff(tmp_path / "c1", tmp_path / "c2").facts
    assert [facts[name]["segments"] for name in ("added", "removed", "moved", "changed")] == [
        0,
        0,
        0,
        0,
    ]
    assert "added_because" not in facts
    assert (facts["shards"]["equal"], facts["shards"]["gone"]) == (
        0,
        len(json.loads((tmp_path / "c1/corpus.json").read_text())["shards"]),
    )


@pytest.mark.slow
def test_diff_of_workspaces_has_the_facts_of_their_corpora(tmp_path):
    workspace = history(tmp_path)
    names = ("added", "removed", "moved", "changed", "removed_because", "speakers")
    corpora, workspaces = (
        diff(tmp_path / "c1", tmp_path / "c2").facts,
        diff(tmp_path / "before", workspace.path).facts,
    )
    mixed = diff(tmp_path / "before", tmp_path / "c2").facts
    for facts in (workspaces, mixed):
        assert {name: facts[name]["segments"] for name in names[:4]} == {
            name: corpora[name]["segments"] for name in names[:4]
        }
        assert facts["changed"]["audio"] == CLIPS
    assert [row["reason"] for row in workspaces["removed_because"]] == [
        row["reason"] for row in corpora["removed_because"]
    ]
    assert "shards" not in mixed


@pytest.mark.slow
def test_clips_show_changed_audio_where_recordings_have_no_hash(tmp_path):
    workspace, recordings, segments = start(tmp_path)
    for out, seed in (("c1", None), ("c2", 5)):
        recordings[3] = recording(tmp_path, 3, **kinds(3), seed=seed)
        facts = {"num_bytes": None, "mtime_ns": None}
        save(workspace, [{**facts, **each, "sha256": None} for each in recordings], segments)
        for path in (workspace.path / "packs").glob("*"):
            path.unlink()
        first(workspace, tmp_path / out)
    changed = diff(tmp_path / "c1", tmp_path / "c2").facts["changed"]
    assert (changed["segments"], changed["audio"]) == (CLIPS, CLIPS)


def test_without_a_selection_diff_counts_segments_that_are_not_rejected(tmp_path):
    workspace, recordings, segments = start(tmp_path)
    pending = [
        row | {"decision": "pending" if clip else "reject", "split": None}
        for clip, row in enumerate(segments)
    ]
    save(workspace, recordings, pending)
    assert diff(workspace.path, workspace.path).facts["after"]["segments"] == len(segments) - 1


@pytest.mark.slow
def test_the_diff_report_can_be_text_and_json(tmp_path):
    history(tmp_path)
    text = str(nbaudio.diff(tmp_path / "c1", tmp_path / "c2"))
    assert "withdrawn: consent withdrawn" in text
    with pytest.raises(InputError, match=r"neither a corpus .* nor a workspace"):
        diff(tmp_path, tmp_path / "c1")
    report = nbaudio.diff(tmp_path / "c1", tmp_path / "c2")
    facts = json.loads(json.dumps(report.to_dict()))["facts"]
    assert pl.DataFrame(facts["by_split"]).height == 3
    claims = ["claim", "precision", "low", "reviewed", "target_proven"]
    assert [list(row) for row in facts["evidence"]] == [claims, claims]
    assert [row["claim"] for row in facts["evidence"]] == ["before", "after"]
    assert [row["reviewed"] for row in facts["evidence"]] == [0, 0]
    assert "right (estimate)" in text


@pytest.mark.slow
def test_the_page_of_a_version_compares_it_with_its_base(tmp_path):
    workspace = history(tmp_path)
    nbaudio.stats(tmp_path / "c2", out=tmp_path / "page.html", audio=False)
    page = (tmp_path / "page.html").read_text()
    assert "Since the earlier version" in page
    assert "at least right" in page
    assert "withdrawn: consent withdrawn" in page
    nbaudio.stats(tmp_path / "c1", out=tmp_path / "first.html", audio=False)
    assert "Since the earlier version" not in (tmp_path / "first.html").read_text()
    nbaudio.stats(workspace.path, out=tmp_path / "w.html", audio=False, base=tmp_path / "before")
    assert "Since the earlier version" in (tmp_path / "w.html").read_text()
    # Another corpus under the name of the base is not the base.
    (tmp_path / "c1").rename(tmp_path / "other")
    (tmp_path / "c2").rename(tmp_path / "c1")
    (tmp_path / "other").rename(tmp_path / "c2")
    nbaudio.stats(tmp_path / "c2", out=tmp_path / "second.html", audio=False)
    assert "Since the earlier version" not in (tmp_path / "second.html").read_text()
