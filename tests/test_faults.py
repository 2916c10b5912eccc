"""Faults during a run: losses are in the ledger, finished work is kept, the bytes equal those of an
undisturbed run."""

import errno
import hashlib
import json
import os
import re
import resource
import shutil
import signal
from functools import partial
from pathlib import Path
from threading import Event

import fsspec
import polars as pl
import pytest
from conftest import packed_clips
from faults import contents
from web import serving

from nbaudio import Workspace, convert, engine, materialize, status, verify
from nbaudio.audio import recording_reader
from nbaudio.core.atomic import atomic_write
from nbaudio.core.errors import DiskFullError, ExistsError, InputError, WorkerLostError
from nbaudio.core.progress import listen_to_progress, progress, progress_note
from nbaudio.corpus import cutting, packs, plan
from nbaudio.storage import network, run_log
from nbaudio.storage.remote import remote

SIZE = "100kB"
NAMES = [f"r{number}.flac" for number in range(5)]


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    """A task for each recording."""
    monkeypatch.setattr(plan, "_TASK_SECONDS", 12.0)


@pytest.fixture
def workspace(make_workspace):
    """Recordings of eight segments each."""
    return make_workspace(dict.fromkeys(NAMES, (16.0, 16000)), every=2.0, length=1.5)


def make_corpus(workspace, out, **options):
    """Materialize a corpus of small shards with one job."""
    return materialize(
        workspace, out=out, show_progress=False, **{"jobs": 1, "shard_size": SIZE} | options
    )


def is_complete(corpus):
    """Whether `verify` finds no problem in a corpus."""
    return verify(corpus, jobs=1, engine="threading", show_progress=False).problems == []


def rejected(corpus):
    """Why segments are out, by recording."""
    table = pl.read_parquet(corpus / "rejected.parquet")
    return {key: sorted(set(part["detail"])) for (key,), part in table.group_by("recording_id")}


class Meanwhile:
    """Does something once, when the first task of a stage is done."""

    def __init__(self, stage, act):
        self.wanted, self.act, self.now = stage, act, ""

    def stage(self, what, total, unit):
        self.now = what

    def advance(self, amount):
        if self.now == self.wanted:
            self.wanted = None
            self.act()

    def note(self, line):
        pass


# recordings


@pytest.mark.slow
def test_recordings_that_vanish_or_change_are_rejected_and_others_are_cut(workspace, tmp_path):
    audio = workspace.audio_root
    kept_bytes = (audio / NAMES[4]).read_bytes()

    def harm():
        (audio / NAMES[1]).unlink()
        os.truncate(audio / NAMES[2], 9000)
        shutil.copy(audio / NAMES[4], audio / NAMES[3])
        (audio / NAMES[4]).write_bytes(kept_bytes)  # the very same, only later

    known = pl.when(pl.col("path") == NAMES[4]).then(pl.lit(hashlib.sha256(kept_bytes).hexdigest()))
    workspace.save(recordings=workspace.recordings.with_columns(sha256=known))
    with listen_to_progress(Meanwhile("cut", harm)):
        report = make_corpus(workspace, tmp_path / "c")
    assert is_complete(tmp_path / "c")
    assert rejected(tmp_path / "c") == {
        "r1": ["r1.flac: the file has disappeared since it was ingested"],
        "r2": ["r2.flac: the file changed since it was ingested; run ingest again"],
        "r3": ["r3.flac: the file changed since it was ingested; run ingest again"],
    }
    assert report.facts["kept"] == 2 * 8
    assert "run the same command again" in report.facts["next"]


@pytest.mark.slow
def test_a_recording_that_changes_while_it_is_cut_leaves_none_of_its_clips(
    workspace, tmp_path, monkeypatch
):
    make_corpus(workspace, tmp_path / "whole")
    shutil.rmtree(workspace.path / "packs")
    path, encode, seen = workspace.audio_root / NAMES[0], cutting.encode_clip, []

    def encode_and_change(*some):
        seen.append(some)
        if len(seen) == 3:
            path.write_bytes(path.read_bytes() + b"more")
        return encode(*some)

    monkeypatch.setattr(cutting, "encode_clip", encode_and_change)
    make_corpus(workspace, tmp_path / "c")
    assert rejected(tmp_path / "c") == {
        "r0": ["r0.flac: the file changed since it was ingested; run ingest again"]
    }
    assert is_complete(tmp_path / "c")
    sounds = dict(
        pl.read_parquet(tmp_path / "whole/segments.parquet")
        .select("segment_id", "audio_sha256")
        .iter_rows()
    )
    kept = (
        pl.read_parquet(tmp_path / "c/segments.parquet").select("segment_id", "audio_sha256").rows()
    )
    assert all(sounds[key] == sha256 for key, sha256 in kept)
    held = packed_clips(workspace.path / "packs")
    assert len(list(packs.read_clips(held))) == len(kept) == 4 * 8


@pytest.mark.slow
def test_recordings_with_disk_read_errors_are_rejected_and_cut_in_the_next_run(
    workspace, tmp_path, monkeypatch
):
    read = recording_reader.SoundfileRecording.read

    def failing(self, start, stop):
        if self.path.name == NAMES[1] and start > 100_000:
            raise OSError(errno.EIO, "Input/output error")
        return read(self, start, stop)

    monkeypatch.setattr(recording_reader.SoundfileRecording, "read", failing)
    report = make_corpus(workspace, tmp_path / "c")
    assert rejected(tmp_path / "c") == {"r1": ["r1.flac: [Errno 5] Input/output error"]}
    assert is_complete(tmp_path / "c")
    assert status(tmp_path / "c").facts["failures"] == len(report.problems) == 4
    monkeypatch.undo()
    assert make_corpus(workspace, tmp_path / "c").facts["clips_cut_now"] == 4
    make_corpus(workspace, tmp_path / "quiet")
    assert contents(tmp_path / "c") == contents(tmp_path / "quiet")


@pytest.mark.slow
def test_recordings_of_a_failing_server_are_rejected_and_cut_in_the_next_run(
    workspace, tmp_path, monkeypatch
):
    monkeypatch.setattr(network, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setenv("NBAUDIO_TIMEOUT", "0.3")
    make_corpus(workspace, tmp_path / "quiet")
    with serving(workspace.audio_root) as web:
        versions = [remote(f"{web.url}/{name}").status().version for name in NAMES]
        there = Workspace.create(tmp_path / "there", source="made", audio=web.url)
        there.save(
            recordings=workspace.recordings.with_columns(version=pl.Series(versions)),
            segments=workspace.segments,
        )

        def turn():
            web.says[NAMES[1]] = 500
            web.hangs.add(NAMES[2])
            web.cut[NAMES[3]] = 99
            web.busy[NAMES[4]], web.cut[NAMES[4]] = 2, 1

        with listen_to_progress(Meanwhile("cut", turn)):
            make_corpus(there, tmp_path / "c")
        found = rejected(tmp_path / "c")
        assert set(found) == {"r1", "r2", "r3"}
        assert "the server responded with 500" in found["r1"][0]
        assert "in 3 tries" in found["r2"][0]
        assert re.search(r"in 3 tries \([0-9,]+ of [0-9,]+ bytes came\)", found["r3"][0])
        assert is_complete(tmp_path / "c")
        web.says.clear()
        web.hangs.clear()
        web.cut.clear()
        assert make_corpus(there, tmp_path / "c").facts["clips_cut_now"] == 3 * 8
    tars = [
        {name: data for name, data in contents(tmp_path / each).items() if name.endswith(".tar")}
        for each in ("c", "quiet")
    ]
    assert tars[0] == tars[1]


def test_a_recording_that_kills_its_worker_is_rejected_and_others_are_cut(
    workspace, tmp_path, monkeypatch
):
    monkeypatch.setattr(plan, "_TASK_SECONDS", 30.0)  # several recordings in a task
    run_joblib, lost = engine._run_joblib, []

    def dying(function, tasks, **options):
        for task in tasks:
            if any(source.path.name == NAMES[2] for source in getattr(task, "sources", ())):
                lost.append(task)
                raise WorkerLostError("lost 3 times", [task])
            yield from run_joblib(function, [task], **options)

    monkeypatch.setattr(engine, "_run_joblib", dying)
    make_corpus(workspace, tmp_path / "c")
    [[detail]] = rejected(tmp_path / "c").values()
    assert detail.startswith("r2.flac: the worker that decodes it is killed")
    assert [len(task.sources) > 1 for task in lost] == [True, False]
    assert pl.read_parquet(tmp_path / "c/segments.parquet").height == 4 * 8
    assert is_complete(tmp_path / "c")


# disks


@pytest.fixture
def little_room():
    """Files can be no longer than this, as on a disk that is nearly full."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_while_a_table_is_written_leaves_no_file(tmp_path, little_room):
    table = pl.DataFrame({"a": list(range(100_000))})
    little_room(10_000)
    with (
        pytest.raises(DiskFullError, match="free some space and run"),
        atomic_write(tmp_path / "a.parquet") as partial,
    ):
        table.write_parquet(partial)  # polars has an error of its own for that
    assert not list(tmp_path.iterdir())


def test_a_disk_error_on_fsync_is_raised_and_leaves_no_file(tmp_path, monkeypatch):
    sync, failed = os.fsync, Event()

    def failing(descriptor):
        if failed.is_set():
            return sync(descriptor)
        failed.set()
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)

    def write():
        with atomic_write(tmp_path / "a.tar") as partial:
            partial.write_bytes(bytes(100))

    with pytest.raises(OSError, match="Input/output error"):
        write()
    assert not list(tmp_path.iterdir())


def test_a_disk_without_room_for_a_folder_is_reported_with_the_remedy(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with (
        pytest.raises(DiskFullError, match="run the command again"),
        run_log.run_log(tmp_path / "w/log.jsonl", "x", {}, of="c"),
    ):
        pass


@pytest.mark.slow
def test_a_run_continues_after_the_disk_was_full_while_publishing(workspace, tmp_path, little_room):
    make_corpus(workspace, tmp_path / "quiet")
    watcher = Meanwhile("", lambda: None)
    watcher.stage = lambda what, total, unit: little_room(5_000) if what == "publish" else None
    with (
        listen_to_progress(watcher),
        pytest.raises(DiskFullError, match=r"segments\.parquet: File too large"),
    ):
        make_corpus(workspace, tmp_path / "c")
    told = status(tmp_path / "c")
    assert (told.facts["state"], told.facts["stage"], told.facts["alive"]) == (
        "failed",
        "publish",
        False,
    )
    assert "DiskFullError" in told.problems[0]
    little_room(resource.RLIM_INFINITY)
    report = make_corpus(workspace, tmp_path / "c")
    assert report.facts["shards_kept_from_before"] == report.facts["shards"]
    assert contents(tmp_path / "c") == contents(tmp_path / "quiet")


@pytest.mark.slow
def test_only_damaged_shards_and_packs_are_rewritten(workspace, tmp_path):
    make_corpus(workspace, tmp_path / "c")
    wanted = contents(tmp_path / "c")
    shard = sorted((tmp_path / "c/train").iterdir())[1]
    table = pl.read_parquet(tmp_path / "c/segments.parquet")
    clip = table.filter(pl.col("shard") == f"train/{shard.name}").row(0, named=True)
    flip(shard, 3000)
    [place] = (
        packed_clips(workspace.path / "packs")
        .filter(pl.col("clip_sha256") == clip["audio_sha256"])
        .rows(named=True)
    )
    flip(Path(place["pack"]), place["offset"] + 10)
    assert any(
        shard.name in problem
        for problem in verify(tmp_path / "c", jobs=1, show_progress=False).problems
    )

    good = [
        path
        for folder in (tmp_path / "c", workspace.path / "packs")
        for path in folder.rglob("*.*")
    ]
    good = [
        path
        for path in good
        if path.suffix in (".tar", ".pack") and path not in (shard, Path(place["pack"]))
    ]
    before = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in good}
    report = make_corpus(workspace, tmp_path / "c")
    assert contents(tmp_path / "c") == wanted
    assert {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in good} == before
    assert len(before) > 8
    assert report.facts["clips_cut_now"] == len(packs.read_index(Path(place["pack"])))


def flip(path, at):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.mark.slow
def test_file_times_do_not_change_what_is_reused(workspace, tmp_path, monkeypatch):
    make_corpus(workspace, tmp_path / "c")
    wanted = contents(tmp_path / "c")
    files = [
        path
        for folder in (tmp_path / "c", workspace.path)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    for number, path in enumerate(files):
        # The times are to come, long ago, and in no order.
        os.utime(path, (4e9 - 1e8 * number, 4e9 - 1e8 * number))
    backwards = iter(range(2_000_000_000, 0, -1000))
    monkeypatch.setattr("time.time", lambda: float(next(backwards)))
    next((tmp_path / "c/train").iterdir()).unlink()
    report = make_corpus(workspace, tmp_path / "c")
    assert (report.facts["clips_cut_now"], report.facts["shards_kept_from_before"]) == (
        0,
        report.facts["shards"] - 1,
    )
    assert contents(tmp_path / "c") == wanted
    shutil.rmtree(workspace.path / "packs")
    make_corpus(workspace, tmp_path / "again")
    assert contents(tmp_path / "again") == wanted


def test_a_corpus_that_was_moved_still_verifies(workspace, tmp_path):
    make_corpus(workspace, tmp_path / "c")
    (tmp_path / "another disk").mkdir()
    shutil.copytree(tmp_path / "c", tmp_path / "another disk/č c", copy_function=shutil.copyfile)
    shutil.rmtree(tmp_path / "c")
    shutil.rmtree(workspace.path)
    assert is_complete(tmp_path / "another disk/č c")


# runs


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["cut", "pack"])
def test_an_interrupted_run_leaves_nothing_incomplete_and_is_finished_by_the_next(
    workspace, tmp_path, stage
):
    def interrupt():
        raise KeyboardInterrupt

    make_corpus(workspace, tmp_path / "whole")
    shutil.rmtree(workspace.path / "packs")
    with listen_to_progress(Meanwhile(stage, interrupt)), pytest.raises(KeyboardInterrupt):
        make_corpus(workspace, tmp_path / "c")
    assert status(tmp_path / "c").facts["state"] == "stopped"
    assert contents(tmp_path / "c").items() <= contents(tmp_path / "whole").items()
    report = make_corpus(workspace, tmp_path / "c")
    assert report.facts["clips_already_cut"] == (8 if stage == "cut" else 40)
    assert contents(tmp_path / "c") == contents(tmp_path / "whole")


@pytest.mark.slow
def test_a_second_run_into_one_folder_is_refused(workspace, tmp_path):
    def meet():
        with pytest.raises(
            ExistsError,
            match=rf"c: another run is active there \(process {os.getpid()} on .*, since 20",
        ):
            make_corpus(workspace, tmp_path / "c")
        told = status(tmp_path / "c")
        assert (told.facts["state"], told.facts["stage"], told.problems) == ("running", "cut", [])
        partial = next((workspace.path / "packs").glob("*.pack")).rename(
            workspace.path / "packs/.x.pack.1.partial"
        )
        make_corpus(workspace, tmp_path / "other")  # another corpus of the same workspace
        assert partial.exists()  # it could be of the run that goes on

    with listen_to_progress(Meanwhile("cut", meet)):
        make_corpus(workspace, tmp_path / "c")
    assert contents(tmp_path / "c") == contents(tmp_path / "other")
    assert not list((workspace.path / "packs").glob(".*"))
    assert status(tmp_path / "c").facts["state"] == "finished"


@pytest.mark.slow
def test_a_second_conversion_into_one_folder_is_refused(workspace, tmp_path):
    make_corpus(workspace, tmp_path / "c")
    again = partial(
        convert, tmp_path / "c", container="zip", out=tmp_path / "z", jobs=1, show_progress=False
    )

    def meet():
        with pytest.raises(ExistsError, match="another run is active there"):
            again()

    with listen_to_progress(Meanwhile("pack", meet)):
        again()
    assert is_complete(tmp_path / "z")
    assert not (tmp_path / "z/.work").exists()


# logs


def test_a_log_is_bounded_and_has_no_secrets(tmp_path, monkeypatch):
    log = tmp_path / "c/.work/log.jsonl"
    monkeypatch.setattr(run_log, "_KEPT_BYTES", 20_000)

    def run():
        with run_log.run_log(log, "materialize", {"packs": "s3://me:geheim@bucket/p"}, of="c"):
            with progress("cut", 100_000, "clips", show=False) as advance:
                for _ in range(100_000):
                    advance(1)
            for number in range(3000):
                progress_note(f"{number}.wav at https://host/a.wav?key=geheim: broken")
            raise KeyError("secret=geheim")

    for _ in range(3):
        with pytest.raises(KeyError):
            run()
        lines = run_log.read(log)
        log.write_bytes(log.read_bytes() + b'{"event": "half a line of a killed run')
    assert len([line for line in lines if line["event"] == "failure"]) <= 1000 + 20_000 // 50
    assert len(lines) < 1500
    assert "geheim" not in log.read_text()
    assert (lines[-1]["event"], lines[-1]["how"]) == ("ended", "failed")
    assert "half a line" not in log.read_text().splitlines()[-2]


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path, little_room):
    log = tmp_path / "log.jsonl"
    with run_log.run_log(log, "materialize", {}, of="c", keep=tmp_path / "kept.jsonl"):
        little_room(log.stat().st_size + 20)
        for number in range(10):
            progress_note(f"{number}")
        little_room(resource.RLIM_INFINITY)
        progress_note("room again")
    assert [
        line["detail"]
        for line in run_log.read(tmp_path / "kept.jsonl")
        if line["event"] == "failure"
    ] == ["room again"]


# status


def test_status_shows_a_running_and_a_finished_run(workspace, tmp_path, monkeypatch):
    corpus, seen = tmp_path / "č c", []
    (workspace.audio_root / NAMES[1]).unlink()
    monkeypatch.setattr(run_log, "_INTERVAL_S", 0.0)
    with listen_to_progress(Meanwhile("pack", lambda: seen.append(status(corpus)))):
        report = make_corpus(workspace, corpus)
    [running] = seen
    facts = running.facts
    assert (facts["state"], facts["alive"], facts["stage"], facts["unit"], facts["step"]) == (
        ("running", True, "pack", "shards", "materialize")
    )
    assert 0 <= facts["done"] < facts["total"] == report.facts["shards"]
    assert (facts["failures"], len(running.problems)) == (8, 1)
    assert "r1.flac" in running.problems[0]
    assert facts["next"] == f"wait, then check again: nbaudio status '{corpus}'"
    lines = [
        line for line in run_log.read(Path(report.facts["log"])) if line["event"] == "progress"
    ]
    assert lines[0]["failures"] in (0, 8)
    finished = status(corpus)
    assert (finished.facts["state"], finished.facts["kept"], finished.problems) == (
        "finished",
        32,
        [],
    )
    assert finished.facts["next"].endswith(f"nbaudio verify '{corpus}'")
    assert finished.facts["next"] == report.facts["next"]


def test_rate_and_time_left_come_from_the_log(tmp_path):
    log = tmp_path / ".work/log.jsonl"
    log.parent.mkdir()
    lines = [
        {
            "at": "2026-01-01T00:00:00.000Z",
            "event": "began",
            "step": "materialize",
            "pid": 1,
            "host": "far",
        },
        {
            "at": "2026-01-01T00:00:01.000Z",
            "event": "stage",
            "stage": "cut",
            "total": 100.0,
            "unit": "h of audio",
        },
        {
            "at": "2026-01-01T01:00:01.000Z",
            "event": "progress",
            "done": 40.0,
            "seconds": 3600.0,
            "failures": 3,
        },
    ]
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    report = status(tmp_path)
    assert report.facts["time_left"] == "1:30:00"
    assert report.facts["rate"] == pytest.approx(40 / 3600, rel=1e-3)
    assert report.facts["speed"] == "40 x real time"
    assert "rate  " not in str(report)
    assert (report.facts["state"], report.facts["failures"], report.facts["process"]) == (
        "killed",
        3,
        "1 on far",
    )
    assert report.problems == ["the run was killed, not before 2026-01-01T01:00:01.000Z"]
    assert report.facts["next"] == "run the same command again: finished work is kept"


@pytest.mark.parametrize(
    "lines",
    [
        ["[" * 100_000, '{"event": "failure"}'],
        ['{"event": "stage", "stage": 1, "total": "x", "unit": []}'] * 2
        + ['{"event": "progress", "done": "y", "seconds": 1}'],
        [
            '{"event": "began"}',
            '{"event": "stage", "stage": 1, "total": 1e300, "unit": 1}',
            '{"event": "progress", "done": 1e-9, "seconds": 1}',
        ],
    ],
)
def test_status_refuses_a_file_that_is_no_run_log(tmp_path, lines):
    (tmp_path / ".work").mkdir()
    (tmp_path / ".work/log.jsonl").write_text("\n".join(lines))
    with pytest.raises(InputError, match="not the log of a run"):
        status(tmp_path)


@pytest.mark.slow
def test_status_reads_local_web_and_store_locations(workspace, tmp_path):
    with pytest.raises(InputError, match="not a corpus"):
        status(tmp_path)
    make_corpus(workspace, tmp_path / "c")
    with serving(tmp_path / "c") as web:
        assert status(web.url).facts["kept"] == 40
    fs = fsspec.filesystem("memory")
    try:
        with listen_to_progress(Meanwhile("pack", lambda: 1 / 0)), pytest.raises(ZeroDivisionError):
            make_corpus(workspace, "memory://bucket/c")
        assert status("memory://bucket/c").facts["state"] == "not finished"
        assert status("memory://bucket/c", workspace=workspace.path).facts["state"] == "failed"
        make_corpus(workspace, "memory://bucket/c")
        assert status("memory://bucket/c").facts["state"] == "finished"
    finally:
        fs.rm("/bucket", recursive=True)
