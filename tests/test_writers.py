"""Two writers at the same time, threads or processes: one wins, others lose with one line or wait,
and all files are whole."""

import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fsspec
import polars as pl
import pytest
import stores

from nbaudio import ingest, materialize, score, select, verify
from nbaudio.core.atomic import append_lines, atomic_write
from nbaudio.core.errors import ExistsError, NbaudioError
from nbaudio.corpus import layout
from nbaudio.corpus.layout import Layout
from nbaudio.storage.remote import remote
from nbaudio.storage.run_log import step_lock
from nbaudio.tables import workspace as workspaces
from nbaudio.tables.workspace import Workspace, locks_workspace


@pytest.fixture
def twins(make_workspace, tmp_path):
    """Two workspaces with the same tables: their corpora have equal bytes."""
    first = make_workspace({"r.flac": (20.0, 16000)})
    second = Workspace.create(tmp_path / "twin", **first.settings)
    for name in ("recordings", "segments"):
        second.save(**{name: first.table(name)})
    return first, second


def at_once(*calls):
    """Outcomes of calls, in threads that start together: results or errors of nbaudio."""
    ready = threading.Barrier(len(calls))

    def outcome(call):
        ready.wait()
        try:
            return call()
        except NbaudioError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(outcome, calls))


def materializer(workspace, out):
    """A function that materializes a workspace into `out`."""
    return lambda: materialize(
        workspace, out=out, jobs=1, engine="threading", shard_size="40kB", show_progress=False
    )


def lines_of(outcomes):
    lost = [each for each in outcomes if isinstance(each, NbaudioError)]
    assert [each for each in lost if not isinstance(each, ExistsError) or "\n" in str(each)] == []
    return [str(each) for each in lost]


@pytest.mark.slow
@pytest.mark.parametrize("same", [True, False], ids=["one workspace", "two workspaces"])
def test_of_threads_that_write_to_one_folder_one_finishes_the_corpus(twins, tmp_path, same):
    lost = lines_of(
        at_once(
            *(materializer(twins[0 if same else number % 2], tmp_path / "c") for number in range(3))
        )
    )
    assert all("another run is active there" in line for line in lost)
    assert len(lost) < 3
    assert verify(tmp_path / "c", show_progress=False).problems == []
    assert not list(tmp_path.rglob("*.partial"))
    assert not (tmp_path / "c/.work").exists()


@pytest.mark.slow
@pytest.mark.parametrize("same", [True, False], ids=["one workspace", "two workspaces"])
def test_of_processes_that_write_to_one_folder_one_finishes_the_corpus(twins, tmp_path, same):
    words = [
        [str(twins[0 if same else number].path), "--out", str(tmp_path / "c"), "--jobs", "1"]
        for number in range(2)
    ]
    runs = [
        subprocess.Popen(
            [sys.executable, "-m", "nbaudio", "materialize", *each],
            stderr=subprocess.PIPE,
            text=True,
            stdout=-3,
        )
        for each in words
    ]
    said = [run.communicate()[1] for run in runs]
    codes = [run.returncode for run in runs]
    assert 0 in codes
    for code, text in zip(codes, said, strict=True):
        assert code == 0 or (code == 2 and "another run is active there" in text.splitlines()[-1])
    assert verify(tmp_path / "c", show_progress=False).problems == []
    assert not list(tmp_path.rglob("*.partial"))


@pytest.fixture(params=["memory", "gs", "hdfs"])
def address(request, tmp_path):
    """A store of this process, an object store and one that shows what is being written."""
    stores.register(tmp_path / "store")
    (tmp_path / "store").mkdir()
    yield f"{request.param}://bucket/{tmp_path.name}"
    stores.unregister()
    memory = fsspec.filesystem("memory")
    if memory.exists("bucket"):
        memory.rm("bucket", recursive=True)


@pytest.mark.slow
def test_of_threads_that_write_to_one_url_one_finishes_the_corpus(twins, address):
    lost = lines_of(
        at_once(
            materializer(twins[0], address),
            materializer(twins[1], address),
            materializer(twins[0], address),
        )
    )
    assert len(lost) < 3
    assert all(
        "another run is active there" in line or "is making a corpus there" in line for line in lost
    )
    assert verify(address, engine="threading", show_progress=False).problems == []
    names = list(remote(address).files())
    assert not [name for name in names if name.endswith(".partial") or name.startswith(".work")]


def test_an_address_is_claimed_by_one_workspace_until_its_run_has_finished(
    twins, address, tmp_path
):
    ours, theirs = (Layout.at(address, each.path) for each in twins)
    with pytest.raises(KeyboardInterrupt), ours.claimed({"rate": 1}, "materialize", {}):
        raise KeyboardInterrupt
    with pytest.raises(ExistsError) as told, theirs.claimed({"rate": 1}, "materialize", {}):
        pass
    held = json.loads((ours.work / "claim.json").read_text())["workspace"]
    assert f"{address}: workspace {held} is making a corpus there" in str(told.value)
    assert f"remove {address}/.work/identity.json" in str(told.value)
    assert str(tmp_path / "w") not in str(told.value).replace(address, "")
    with (
        pytest.raises(ExistsError, match="other parameters"),
        theirs.claimed({"rate": 2}, "materialize", {}),
    ):
        pass
    with ours.claimed({"rate": 1}, "materialize", {}) as is_whole:  # goes on after the kill
        assert not is_whole
        ours.finish({"identity": {"rate": 1}})
    with theirs.claimed({"rate": 1}, "materialize", {}) as is_whole:
        assert is_whole


def test_a_file_at_an_address_is_replaced(address, tmp_path):
    for content in ("a", "bc"):
        (tmp_path / "file").write_text(content)
        remote(f"{address}/file").put(tmp_path / "file")
    assert remote(f"{address}/file").read(0, 2) == b"bc"
    assert list(remote(address).files()) == ["file"]


@pytest.mark.parametrize("scheme", ["gs", "hdfs"])
def test_of_two_claims_at_the_same_time_one_object_remains(tmp_path, monkeypatch, scheme):
    stores.register(tmp_path / "store")
    store = {"gs": stores.Bucket, "hdfs": stores.Cluster}[scheme]
    address = f"{scheme}://bucket/{tmp_path.name}"
    (tmp_path / "ours").write_text("ours")
    (tmp_path / "theirs").write_text("theirs")
    written = store._write

    def overtaken(self, source, target):
        written(self, source, target)
        monkeypatch.setattr(store, "_write", written)
        remote(f"{address}/claim").create(tmp_path / "theirs")

    monkeypatch.setattr(store, "_write", overtaken)
    remote(f"{address}/claim").create(tmp_path / "ours")
    place = remote(f"{address}/claim")
    assert place.read(0, 6) == b"theirs"
    assert list(remote(address).files()) == ["claim"]
    stores.unregister()


def test_a_stale_claim_is_removed_as_the_message_says(twins, address):
    ours, theirs = (Layout.at(address, each.path) for each in twins)
    with pytest.raises(KeyboardInterrupt), ours.claimed({}, "materialize", {}):
        raise KeyboardInterrupt
    theirs.folder.remove(layout.IDENTITY)
    with theirs.claimed({}, "materialize", {}):
        pass
    with (
        pytest.raises(ExistsError, match="is making a corpus there"),
        ours.claimed({}, "materialize", {}),
    ):
        pass


def test_uploads_of_a_run_that_is_active_in_a_shared_folder_stay(address):
    if address.startswith("gs"):
        pytest.skip("an object appears when it is complete")
    place = remote(f"{address}/packs")
    fs, path, _ = place.located
    fs.makedirs(path, exist_ok=True)
    now, old = (f".a.pack.{int(time.time() - age):x}-0a0b0c0d.partial" for age in (60, 90_000))
    for name in (now, old, ".b.pack.partial"):
        fs.pipe_file(f"{path}/{name}", b"half")
    with place.shared():
        assert list(place.files()) == [now]
    place.tidy()
    assert list(place.files()) == []


def test_threads_that_write_the_same_file_leave_one_complete_version(tmp_path):
    target = tmp_path / "f"

    def write(text):
        with atomic_write(target, sync=False) as partial:
            partial.write_text(text * 1000)
            time.sleep(0.01)
        return text

    at_once(*(lambda text=text: write(text) for text in "abcdefgh"))
    assert target.read_text() in {text * 1000 for text in "abcdefgh"}
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_threads_that_append_to_one_log_lose_no_line(tmp_path):
    log = tmp_path / "log"
    at_once(
        *(lambda n=n: [append_lines(log, [b"%d %d" % (n, i)]) for i in range(20)] for n in range(4))
    )
    assert sorted(log.read_bytes().splitlines()) == sorted(
        b"%d %d" % (n, i) for n in range(4) for i in range(20)
    )


# steps of one workspace


def test_steps_wait_for_each_other(make_workspace, monkeypatch):
    monkeypatch.setattr(workspaces, "_LOCK_WAIT_S", 300)  # a machine may be busy
    workspace = make_workspace({"r.flac": (20.0, 16000)})
    text = pl.col("segment_id").alias("asr_text")
    workspace.save(segments=workspace.segments.with_columns(text))
    outcomes = at_once(
        lambda: score(workspace),
        lambda: select(workspace, min_similarity=-1, dev=1, test=1),
        lambda: score(workspace),
    )
    assert lines_of(outcomes) == []
    assert workspace.segments["similarity"].null_count() == 0
    assert set(workspace.segments["decision"]) <= {"accept", "reject"}
    assert not list(workspace.path.glob(".*"))


@pytest.mark.slow
def test_processes_that_add_to_one_workspace_wait_for_each_other_or_fail(make_workspace, tmp_path):
    workspace = make_workspace({"r.flac": (20.0, 16000)})
    runs = []
    for name in ("one", "two"):
        line = {"file": f"{name}.wav", "start": 0, "end": 2, "words": ["dobar"], "asr": ["dobar"]}
        (tmp_path / f"{name}.json").write_text(json.dumps(line))
        words = [
            "ingest",
            "parlaspeech",
            str(tmp_path / f"{name}.json"),
            "--out",
            str(workspace.path),
            "--add",
        ]
        runs.append(
            subprocess.Popen(
                [sys.executable, "-m", "nbaudio", *words],
                stdout=-3,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    said = [run.communicate()[1] for run in runs]
    # One waits for the other, or loses if that takes too long.
    assert min(run.returncode for run in runs) < 2, said
    assert all(
        run.returncode < 2 or "another run is active there" in text
        for run, text in zip(runs, said, strict=True)
    ), said
    held = {name for name, run in zip(("one", "two"), runs, strict=True) if run.returncode < 2}
    assert held <= {name.partition("_")[0] for name in workspace.segments["segment_id"]}


@pytest.mark.slow
def test_a_step_that_waits_too_long_names_the_other_and_readers_do_not_wait(
    make_workspace, monkeypatch, tmp_path
):
    monkeypatch.setattr(workspaces, "_LOCK_WAIT_S", 0.2)
    workspace = make_workspace({"r.flac": (20.0, 16000)})
    with step_lock(workspace.path / ".tables.running", "ingest", of="w", wait_s=1):
        for step in (
            score,
            lambda each: ingest("folder", tmp_path, out=each.path, add=True),
            lambda each: select(str(each.path)),
        ):
            with pytest.raises(
                ExistsError, match=r"another run is active there \(process .*, ingest\)"
            ):
                step(workspace)
        assert len(Workspace.open(workspace.path).segments)
        materializer(workspace, tmp_path / "c")()  # reads the tables only
    select(workspace, dev=1, test=1)
    assert not list(workspace.path.glob(".*"))


def test_a_lock_file_of_a_killed_step_does_not_block_the_next(make_workspace):
    workspace = make_workspace({"r.flac": (20.0, 16000)})
    (workspace.path / ".tables.running").write_text('{"event": "began", "step": "score"}\n{"half')
    select(workspace, dev=1, test=1)
    assert not list(workspace.path.glob(".*"))


def test_a_step_within_a_step_has_its_lock(make_workspace, monkeypatch):
    monkeypatch.setattr(workspaces, "_LOCK_WAIT_S", 0.2)
    workspace = make_workspace({"r.flac": (20.0, 16000)})

    @locks_workspace("outer")
    def outer(workspace):
        return select(workspace, dev=1, test=1)

    assert outer(workspace).facts


def test_a_failed_ingest_leaves_no_workspace(tmp_path):
    with pytest.raises(NbaudioError):
        ingest("parlaspeech", tmp_path / "none.json", out=tmp_path / "w")
    assert not (tmp_path / "w").exists()
    (tmp_path / "others").mkdir()
    (tmp_path / "others/file").touch()
    with pytest.raises(ExistsError, match="exists and is not a workspace"):
        ingest("parlaspeech", tmp_path / "none.json", out=tmp_path / "others")
    assert [path.name for path in Path(tmp_path / "others").iterdir()] == ["file"]
