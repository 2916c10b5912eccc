"""The plan of a corpus, which can be read while a run works and afterwards."""

import json
from itertools import chain

import polars as pl
import pytest

import nbaudio
from nbaudio import views
from nbaudio.core.errors import InputError
from nbaudio.corpus import materialize as materialize_module
from nbaudio.corpus.clip_states import count_states, write_failures
from nbaudio.corpus.layout import Layout
from nbaudio.corpus.plan import PLAN, plan_of_corpus

QUIET = {"jobs": 1, "engine": "threading", "show_progress": False}


@pytest.fixture
def workspace(make_workspace):
    return make_workspace({f"r{number}.flac": (12.0, 16000) for number in range(3)})


def states(corpus):
    counts = views.plan(corpus).group_by("state").agg(pl.col("clips").sum())
    return dict(counts.iter_rows())


def test_the_plan_has_a_row_for_each_clip_before_the_first_is_cut(workspace, tmp_path, monkeypatch):
    corpus = tmp_path / "c"
    plans = []
    run_cut_tasks = materialize_module.run_cut_tasks

    def read_plan(*args, **options):
        plans.append((pl.read_parquet(corpus / ".work/plan.parquet"), states(corpus)))
        yield from run_cut_tasks(*args, **options)
        plans.append((None, states(corpus)))

    monkeypatch.setattr(materialize_module, "run_cut_tasks", read_plan)
    nbaudio.materialize(workspace, out=corpus, shard_size="60kB", **QUIET)
    (plan, before), (_, after) = plans
    accepted = workspace.segments.filter(pl.col("decision") == "accept")
    assert plan.schema == PLAN
    assert sorted(plan["segment_id"]) == sorted(accepted["segment_id"])
    assert before == {"planned": len(accepted)}
    assert after == {"cut": len(accepted)}
    assert states(corpus) == {"packed": len(accepted)}
    table = pl.read_parquet(corpus / "segments.parquet")
    places = plan.select("segment_id", "shard", "position").sort("shard", "position")
    assert places["segment_id"].to_list() == (
        table.sort("shard", maintain_order=True)["segment_id"].to_list()
    )
    of_corpus = plan_of_corpus(corpus / "segments.parquet").collect()
    columns = ["segment_id", "recording_id", "start_sample", "end_sample", "shard", "position"]
    assert (
        of_corpus.select(columns).sort("segment_id").equals(plan.select(columns).sort("segment_id"))
    )
    assert not (corpus / ".work/plan.parquet").exists()


def test_a_clip_that_cannot_be_cut_is_named_with_its_reason_while_the_run_works(
    workspace, tmp_path, monkeypatch
):
    """A segment that was not selected is in no plan."""
    is_first = pl.int_range(pl.len()) == 0
    workspace.save(
        segments=workspace.segments.with_columns(
            decision=pl.when(is_first).then(pl.lit("reject")).otherwise("decision"),
            reason=pl.when(is_first).then(pl.lit("too_short")).otherwise("reason"),
        )
    )
    (workspace.audio_root / "r1.flac").write_bytes(b"fLaC" + b"\0" * 90_000)
    seen = []
    locate_clips = materialize_module.locate_clips

    def read_states(*args, **options):
        seen.append(views.plan(tmp_path / "c").filter(state="failed"))
        return locate_clips(*args, **options)

    monkeypatch.setattr(materialize_module, "locate_clips", read_states)
    report = nbaudio.materialize(workspace, out=tmp_path / "c", **QUIET)
    assert len(report.problems) == seen[0]["clips"].sum() > 0
    assert all("r1.flac" in reason for reason in seen[0]["reason"])
    finished = views.plan(tmp_path / "c").filter(state="failed")
    assert finished.select("reason", "clips").rows() == [("unreadable_audio", len(report.problems))]


def test_the_state_of_a_clip_is_read_from_the_files_of_its_run(tmp_path):
    packs_of_runs = {"earlier": ["of an earlier run"], "last": ["cut now", "cut now, too"]}
    names = ["failed", "cut before", "packed", "planned", *chain(*packs_of_runs.values())]
    shards = dict.fromkeys(names, "train/train-00001-of-00002.tar")
    shards["packed"] = "train/train-00000-of-00002.tar"
    clips = [
        {
            "clip_key": name,
            "pack": f"{name}.pack",
            "shard": shards[name],
            "is_cut": name == "cut before",
        }
        for name in names
    ]
    layout = Layout.at(tmp_path / "c")
    layout.plan.parent.mkdir(parents=True)
    pl.DataFrame(clips, schema=PLAN).write_parquet(layout.plan)
    write_failures(layout.failures, {"failed": "first reason"})
    write_failures(layout.failures, {"failed": "last reason"})
    began = []
    for run, packed in packs_of_runs.items():
        packs = tmp_path / run / "packs"
        packs.mkdir(parents=True)
        for name in packed:
            (packs / f"{name}.pack").touch()
        began.append({"event": "began", "parameters": {"workspace": str(packs.parent)}})
    layout.log.write_text("".join(f"{json.dumps(line)}\n" for line in began))
    shard = tmp_path / "c" / shards["packed"]
    shard.parent.mkdir()
    shard.touch()
    assert count_states(tmp_path / "c").select("state", "reason", "clips").rows() == [
        ("packed", None, 1),
        ("cut", None, 3),
        ("failed", "last reason", 1),
        ("planned", None, 2),
    ]


def test_reading_a_missing_plan_is_a_one_line_error(tmp_path):
    with pytest.raises(InputError, match=r"no corpus\.json, and no run has planned one there"):
        views.plan(tmp_path)


def test_segments_with_the_same_window_are_cut_once_and_counted_as_audio_once(workspace, tmp_path):
    segments = workspace.segments
    twins = segments.with_columns(segment_id=pl.col("segment_id") + "-again")
    workspace.save(segments=pl.concat([segments, twins]))
    report = nbaudio.measure(workspace, **QUIET)
    assert report.facts["measured_now"] == 2 * len(segments)
    rates = workspace.recordings.select("recording_id", "sampling_rate")
    seconds = (pl.col("end_sample") - pl.col("start_sample")) / pl.col("sampling_rate")
    hours = segments.join(rates, on="recording_id").select(seconds.sum() / 3600).item()
    assert report.facts["hours"] == round(hours, 6)
    signals = workspace.segments
    assert signals["rms_dbfs"].null_count() == 0
    made = nbaudio.materialize(workspace, out=tmp_path / "c", **QUIET)
    assert made.problems == []
    assert nbaudio.verify(tmp_path / "c", show_progress=False).facts["whole"]
