"""Remote recordings: the same corpora as from a local folder, whatever the servers do, or the
reason in the ledger."""

import importlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from web import serving

from nbaudio import ingest, materialize, review, select
from nbaudio.audio import open_recording, read_clip
from nbaudio.core.errors import AudioError, InputError, MissingExtraError
from nbaudio.storage import network
from nbaudio.storage.cache import Cache
from nbaudio.storage.range_file import RangeFile
from nbaudio.storage.remote import remote
from nbaudio.storage.urls import check_url
from nbaudio.tables.workspace import Workspace
from nbaudio.ui.widgets import Player

NAMES = ("7. sjednica  [HlauTe_NK6U].wav", "č & 100%.flac", "x#y?.mp3")


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(network, "FIRST_PAUSE_S", 0.001)


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Recordings in a folder with a blank, a zip and a tar of them, and transcripts."""
    top = tmp_path_factory.mktemp("archive")
    folder = top / "audio/sub dir"
    folder.mkdir(parents=True)
    t = np.arange(44100 * 12)[:, None] / 44100
    for number, name in enumerate(NAMES):
        sf.write(folder / name, 0.3 * np.sin(2 * np.pi * (200 + 30 * number) * t) * [1, 0.5], 44100)
    said = [
        {
            "file": name,
            "start": start,
            "end": start + 2.25,
            "words": ["dobar", "dan"],
            "asr": ["dobar", "dan"],
        }
        for name in NAMES
        for start in (0.5, 3.1, 6.7, 9.2)
    ]
    (top / "asr.json").write_text("\n".join(map(json.dumps, said)))
    for kind in ("zip", "tar"):
        shutil.make_archive(str(top / "all"), kind, top / "audio")
    return top


@pytest.fixture
def web(archive, tmp_path):
    shutil.copytree(archive, tmp_path / "www")
    with serving(tmp_path / "www") as web:
        yield web


def make(archive, out, audio, **options):
    """A corpus from recordings at an address: what ingest reported, what materialize reported, and
    the bytes of all its files."""
    first = ingest("parlaspeech", archive / "asr.json", audio=audio, out=out / "w", **options)
    select(out / "w", dev=2, test=2, group_by=())
    report = materialize(out / "w", out=out / "c", jobs=1, show_progress=False)
    return first, report, contents(out / "c")


def contents(corpus):
    return {
        path.relative_to(corpus).as_posix(): path.read_bytes()
        for path in corpus.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def local(archive, tmp_path_factory):
    return make(archive, tmp_path_factory.mktemp("local"), archive / "audio")[2]


@pytest.mark.slow
def test_corpora_of_remote_recordings_have_the_bytes_of_the_local_corpus(
    archive, web, local, tmp_path
):
    top = web.folder
    addresses = {
        "file": f"file://{top}/audio",
        "web": f"{web.url}/audio",
        "zip": f"zip://::{top}/all.zip",
        "zip on the web": f"zip://::{web.url}/all.zip",
        "tar on the web": f"tar://::{web.url}/all.tar",
    }
    assert len(local) > 6
    for name, address in addresses.items():
        first, report, made = make(archive, tmp_path / name, address)
        assert not first.problems, name
        assert not report.problems, name
        if name.startswith("tar"):  # its names begin with ./
            assert made.pop("corpus.json")
            assert made == {path: data for path, data in local.items() if path != "corpus.json"}, (
                name
            )
        else:
            assert made == local, name


@pytest.mark.slow
def test_worker_processes_fetch_remote_recordings(archive, web, local, tmp_path):
    ingest("parlaspeech", archive / "asr.json", audio=f"{web.url}/audio", out=tmp_path / "w")
    shutil.rmtree(tmp_path / "w/fetched")
    select(tmp_path / "w", dev=2, test=2, group_by=())
    assert not materialize(tmp_path / "w", out=tmp_path / "c", jobs=2, show_progress=False).problems
    assert contents(tmp_path / "c") == local


def test_urls_in_transcripts_are_used_if_plain_http_and_stored_without_secrets(
    archive, web, tmp_path
):
    line = {
        "file": f"{web.url}/audio/sub dir/{NAMES[0]}",
        "start": 1,
        "end": 3,
        "words": ["a"],
        "asr": ["a"],
    }
    secret = line | {"file": f"{web.url}/audio/x.wav?token=geheim"}
    chained = line | {"file": "http://x::file:///etc/hostname.wav"}
    (tmp_path / "asr.json").write_text("\n".join(map(json.dumps, (line, secret, chained))))
    report = ingest("parlaspeech", tmp_path / "asr.json", audio="http://", out=tmp_path / "w")
    recordings = Workspace.open(tmp_path / "w").recordings
    assert recordings.filter(pl.col("num_samples").is_not_null()).select(
        "recording_id", "path"
    ).rows() == [("HlauTe_NK6U", line["file"])]
    assert any("queries" in problem for problem in report.problems)
    assert any("nested URLs are not read" in problem for problem in report.problems)
    for path in (tmp_path / "w").rglob("*"):
        held = (
            pl.read_parquet(path).write_json()
            if path.suffix == ".parquet"
            else path.read_bytes()
            if path.is_file()
            else ""
        )
        assert "geheim" not in str(held), path


# servers with a temper


def test_transient_failures_are_retried_and_not_reported(archive, web, local, tmp_path):
    web.busy.update({NAMES[0]: 2, "audio": 2})
    web.cut[NAMES[1]] = 2
    first, report, made = make(archive, tmp_path, f"{web.url}/audio")
    assert (first.problems, report.problems) == ([], [])
    assert made == local
    assert web.busy[NAMES[0]] == web.cut[NAMES[1]] == 0


def test_retry_after_of_a_server_is_kept(archive, web, local, tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(network.time, "sleep", pauses.append)
    monkeypatch.setenv("NBAUDIO_MAX_WAIT", "300")
    web.busy.update({NAMES[0]: 2, NAMES[1]: 1})
    web.after.update(
        {
            NAMES[0]: "7",
            NAMES[1]: format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True),
        }
    )
    first, report, made = make(archive, tmp_path, f"{web.url}/audio")
    assert (first.problems, report.problems) == ([], [])
    assert made == local
    assert sorted(pauses)[:2] == [7, 7]
    assert 90 < sorted(pauses)[2] <= 101


def test_a_retry_after_beyond_max_wait_fails_at_once(archive, web, tmp_path, monkeypatch):
    monkeypatch.setattr(network.time, "sleep", lambda _: pytest.fail("waits"))
    web.busy[NAMES[0]] = 9
    web.after[NAMES[0]] = "90000"
    problems = ingest(
        "parlaspeech", archive / "asr.json", audio=f"{web.url}/audio", out=tmp_path / "w"
    ).problems
    assert any("the server requires a wait of 90,000 s" in problem for problem in problems)
    assert web.busy[NAMES[0]] == 8


@pytest.mark.parametrize("ranges", [True, False])
def test_a_broken_transfer_continues_where_it_broke(web, tmp_path, ranges):
    data = np.random.default_rng(3).bytes(4_000_000)
    (web.folder / "large.wav").write_bytes(data)
    web.cut["large.wav"], web.ranges = 2, ranges
    with (remote(web.url, Cache(tmp_path / "cache")) / "large.wav").fetched() as path:
        assert path.read_bytes() == data
    # Half, half of the rest in vain, the rest; or twice half and the whole.
    assert web.sent == (5_000_000 if ranges else 8_000_000)


def test_a_file_that_changes_while_a_broken_transfer_goes_on_is_refused(web, tmp_path, monkeypatch):
    large = web.folder / "large.wav"
    large.write_bytes(b"a" * 4_000_000)
    web.cut["large.wav"] = 1

    def change(_):
        large.write_bytes(b"b" * 4_000_000)
        os.utime(large, ns=(0, 0))

    monkeypatch.setattr(network.time, "sleep", change)
    place = remote(web.url, Cache(tmp_path / "cache")) / "large.wav"
    with pytest.raises(AudioError, match="changed while it was read"), place.fetched():
        pass
    assert not list((tmp_path / "cache").glob("*/*"))


def test_permanent_failures_are_reported_and_other_recordings_are_cut(
    archive, web, local, tmp_path
):
    web.lists = False
    web.gone.add(NAMES[2])
    web.cut[NAMES[1]] = 99
    for name in NAMES:
        shutil.move(web.folder / "audio/sub dir" / name, web.folder / "audio" / name)
    first, report, _ = make(archive, tmp_path, f"{web.url}/audio")
    problems = "\n".join(first.problems)
    assert "x%23y%3F.mp3: there is no such file" in problems
    assert "100%25.flac: could not be read in 3 tries" in problems
    assert not report.problems
    kept = pl.read_parquet(tmp_path / "c/segments.parquet")
    assert kept["recording_id"].unique().to_list() == ["HlauTe_NK6U"]
    whole = pl.read_parquet(local["segments.parquet"])
    sounds = dict(whole.select("segment_id", "audio_sha256").iter_rows())
    assert all(
        sounds[key] == sha256
        for key, sha256 in kept.select("segment_id", "audio_sha256").iter_rows()
    )
    assert len(kept) == 4


def test_a_recording_that_breaks_or_changes_after_ingest_gives_no_wrong_sample(
    archive, web, tmp_path
):
    ingest("parlaspeech", archive / "asr.json", audio=f"{web.url}/audio", out=tmp_path / "w")
    select(tmp_path / "w", dev=2, test=2, group_by=())
    shutil.rmtree(tmp_path / "w/fetched")
    web.busy[NAMES[0]] = 999
    other = web.folder / "audio/sub dir" / NAMES[1]
    data, status = bytearray(other.read_bytes()), other.stat()
    data[-100] ^= 1
    other.write_bytes(data)
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))  # size and date say nothing
    third = web.folder / "audio/sub dir" / NAMES[2]
    os.utime(third, ns=(0, 0))  # only the date changed: the bytes are compared
    report = materialize(tmp_path / "w", out=tmp_path / "c", jobs=1, show_progress=False)
    rejected = (
        pl.read_parquet(tmp_path / "c/rejected.parquet")
        .group_by("recording_id")
        .agg(pl.first("reason", "detail"))
    )
    assert len(report.problems) == 8
    details = {row["recording_id"]: row["detail"] for row in rejected.iter_rows(named=True)}
    assert set(rejected["reason"]) == {"unreadable_audio"}
    assert "the server responded with 503" in details["HlauTe_NK6U"]
    assert "changed since it was ingested" in details["č & 100%"]
    kept = pl.read_parquet(tmp_path / "c/segments.parquet")
    assert kept["recording_id"].unique().to_list() == ["x#y?"]


def test_without_a_hash_a_new_version_is_refused(archive, web, tmp_path):
    ingest(
        "parlaspeech",
        archive / "asr.json",
        audio=f"{web.url}/audio",
        out=tmp_path / "w",
        sha256=False,
    )
    select(tmp_path / "w", dev=0, test=0, group_by=())
    os.utime(web.folder / "audio/sub dir" / NAMES[0], ns=(0, 0))
    materialize(tmp_path / "w", out=tmp_path / "c", jobs=1, show_progress=False)
    kept = pl.read_parquet(tmp_path / "c/segments.parquet")
    assert sorted(kept["recording_id"].unique()) == ["x#y?", "č & 100%"]


def test_server_that_cannot_be_reached_is_reported_in_one_line(archive, tmp_path):
    with pytest.raises(InputError, match="could not be read in 3 tries"):
        ingest(
            "parlaspeech",
            archive / "asr.json",
            audio="http://127.0.0.1:9/audio",
            out=tmp_path / "w",
        )
    assert not (tmp_path / "w").exists()


def test_remote_segments_can_be_played_and_reviewed(archive, web, tmp_path):
    ingest("parlaspeech", archive / "asr.json", audio=f"{web.url}/audio", out=tmp_path / "w")
    ids = Workspace.open(tmp_path / "w").segments["segment_id"].to_list()
    assert all(clip.audio for clip in Player(tmp_path / "w", ids).clips.clips)
    review.export(tmp_path / "w", out=tmp_path / "sheet.xlsx", n=4)
    assert len(list(tmp_path.glob("**/*.wav"))) == 4 + 1  # the one of the server
    web.gone.update(NAMES)
    silent = Player(tmp_path / "w", ids[:1]).clips.clips[0]
    assert (silent.audio, "there is no such file" in silent.note) == (None, True)


@pytest.mark.slow
def test_local_recordings_do_not_import_fsspec(archive, tmp_path):
    code = (
        "import sys, nbaudio; from nbaudio import *\n"
        f"ingest('parlaspeech', {str(archive / 'asr.json')!r}, "
        f"audio={str(archive / 'audio')!r}, out='w')\n"
        "select('w', dev=0, test=0, group_by=()); materialize('w', out='c', jobs=1)\n"
        "print({'fsspec', 'aiohttp'} & set(sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert run.stdout.splitlines()[-1] == "set()"


# ranges


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """Recordings of a size that pays for ranges: noise, so that FLAC is large too."""
    folder = tmp_path_factory.mktemp("long")
    noise = np.random.default_rng(1).normal(0, 0.1, (48000 * 60, 2))
    for name, subtype in (("a.wav", "PCM_16"), ("b.wav", "PCM_24"), ("c.flac", "PCM_16")):
        sf.write(folder / name, noise, 48000, subtype=subtype)
    return folder


@pytest.mark.parametrize("name", ["a.wav", "b.wav", "c.flac"])
def test_few_windows_are_read_by_ranges_and_equal_local_ones(long, name, tmp_path):
    with serving(long) as web:
        place = remote(web.url, Cache(tmp_path / "cache")) / name
        for start in (0, 1_234_567, 48000 * 60 - 4000):
            wanted = read_clip(long / name, start, start + 4000, num_samples=48000 * 60)
            assert np.array_equal(
                read_clip(place, start, start + 4000, num_samples=48000 * 60), wanted
            )
        assert 0 < web.sent < (long / name).stat().st_size / 2
        assert not (tmp_path / "cache").exists()


def test_ranges_are_retried_and_a_change_on_the_way_is_refused(long, tmp_path):
    shutil.copytree(long, tmp_path / "www")
    with serving(tmp_path / "www") as web:
        place = remote(web.url, Cache(tmp_path / "cache")) / "a.wav"
        with open_recording(place, windows=2, share=0.01) as recording:
            web.cut["a.wav"] = 2
            with sf.SoundFile(long / "a.wav") as file:
                file.seek(2_000_000)
                assert np.array_equal(
                    recording.read(2_000_000, 2_001_000), file.read(1000, dtype="int16")
                )
            os.utime(tmp_path / "www/a.wav", ns=(0, 0))
            with pytest.raises(AudioError, match="changed while it was read"):
                recording.read(1_000_000, 1_001_000)
        web.busy["a.wav"] = 0
        with open_recording(place, windows=2, share=0.01) as recording:
            web.cut["a.wav"] = 99
            with pytest.raises(AudioError, match="could not be read in 3 tries"):
                recording.read(500_000, 501_000)


@pytest.mark.parametrize(("share", "ranges"), [(0.01, False), (0.9, True)])
def test_a_whole_file_is_fetched_without_range_support_or_for_large_shares(
    long, share, ranges, tmp_path
):
    with serving(long) as web:
        web.ranges = ranges
        place = remote(web.url, Cache(tmp_path / "cache")) / "a.wav"
        with (
            open_recording(place, windows=2, share=share) as recording,
            sf.SoundFile(long / "a.wav") as file,
        ):
            file.seek(9_000)
            assert np.array_equal(recording.read(9_000, 10_000), file.read(1000, dtype="int16"))
        assert web.asked["GET", "a.wav"] <= 2
        assert (
            sum(path.stat().st_size for path in (tmp_path / "cache").glob("*/*"))
            == (long / "a.wav").stat().st_size
        )


def test_a_range_file_reads_the_same_bytes():
    data = np.random.default_rng(2).bytes(3_000_000)
    file = RangeFile(lambda start, stop: data[start:stop], lambda: None, len(data))
    for start, length in (
        (0, 10),
        (262_140, 10),
        (2_999_990, 50),
        (5_000_000, 1),
        (100, 2_000_000),
    ):
        file.seek(start)
        assert file.read(length) == data[start : start + length]
        file.settle()


# the cache


def test_the_cache_stays_within_its_limit_and_keeps_files_in_use(tmp_path):
    cache = Cache(tmp_path, limit=1000)

    def fetched(name):
        with cache.pinned(name, 300, lambda path: path.write_bytes(name.encode() * 300)) as path:
            return path.read_bytes()[:1].decode()

    with cache.pinned("z", 300, lambda path: path.write_bytes(b"z" * 300)) as in_use:
        for name in "abcdabce":
            assert fetched(name) == name
            assert sum(path.stat().st_size for path in tmp_path.glob("*/*")) <= 1000
            assert in_use.read_bytes() == b"z" * 300


def test_concurrent_readers_of_a_cached_file_fetch_it_once(tmp_path):
    cache, fetches, seen = Cache(tmp_path), [], []

    def fetch(path):
        fetches.append(1)
        path.write_bytes(b"x")

    def use():
        with cache.pinned("same", 1, fetch) as path:
            seen.append(path.read_bytes())

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(fetches), seen) == (1, [b"x"] * 8)


def _use_many(folder, number, failures):
    rng = np.random.default_rng(number)
    cache = Cache(Path(folder), limit=5_000)
    for key in rng.integers(0, 12, 150):
        data = bytes([key]) * 1000
        with cache.pinned(str(key), 1000, lambda path, data=data: path.write_bytes(data)) as path:
            if path.read_bytes() != data or path.read_bytes() != data:
                failures.value += 1


@pytest.mark.slow
def test_processes_share_a_small_cache(tmp_path):
    context = multiprocessing.get_context("spawn")
    failures = context.Value("i", 0)
    processes = [
        context.Process(target=_use_many, args=(str(tmp_path), number, failures))
        for number in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert failures.value == 0


def test_a_failed_fetch_leaves_no_cache_file(tmp_path):
    def fail(path):
        path.write_bytes(b"half")
        raise AudioError("broken")

    with pytest.raises(AudioError), Cache(tmp_path).pinned("a", 4, fail):
        pass
    assert not list(tmp_path.glob("*/*"))


# addresses


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("https://me:geheim@host/a", "must not contain a user or password"),
        ("https://me@host/a", "must not contain a user or password"),
        ("s3://key:geheim@bucket/a", "must not contain a user or password"),
        ("zip://::https://me:geheim@host/a.zip", "must not contain a user or password"),
        ("https://host/a?sig=geheim", "queries are refused"),
        ("ftp://host/a", "scheme 'ftp' is unknown"),
        ("reference://x", "scheme 'reference' is unknown"),
        ("zip://a.zip", "expected zip://FOLDER-INSIDE::ARCHIVE"),
    ],
)
def test_refused_urls_are_reported_without_secrets(address, said):
    with pytest.raises(InputError, match=said) as caught:
        check_url(address)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["abfs://container@account.dfs.core.windows.net/a", "hdfs://me@node/a", "s3://bucket/a?b"],
)
def test_addresses_with_names_that_are_no_secrets(address):
    assert check_url(address) == address


@pytest.mark.parametrize(
    ("address", "extra"), [("s3://b/a", "s3"), ("gs://b/a", "gs"), ("abfs://c@h/a", "azure")]
)
def test_missing_package_names_the_extra(address, extra, monkeypatch, tmp_path):
    for package in ("s3fs", "gcsfs", "adlfs"):
        monkeypatch.setitem(sys.modules, package, None)
    importlib.import_module("fsspec.registry")  # the package has a mapping of the same name
    monkeypatch.setattr(sys.modules["fsspec.registry"], "_registry", {})
    with pytest.raises(MissingExtraError, match=rf"nbaudio\[{extra}\]"):
        remote(address, Cache(tmp_path)).listing(lambda _: True)


def test_missing_client_of_hadoop_is_reported_in_one_line(monkeypatch):
    monkeypatch.setattr("pyarrow.fs.HadoopFileSystem", no_libjvm)
    with pytest.raises(InputError, match="hdfs://node/a: Hadoop's own client is needed"):
        remote("hdfs://node/a").listing(lambda _: True)


def no_libjvm(**_):
    raise OSError("Unable to load libjvm: libjvm.so: cannot open shared object file")


def test_member_names_never_escape(tmp_path):
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as file:
        for name in ("../out.wav", "a/../../out.wav", "good/x.wav", ".hidden.wav"):
            file.writestr(name, b"x")
    listed = remote(f"zip://::{tmp_path}/evil.zip", Cache(tmp_path / "cache")).listing(
        lambda name: name.endswith("wav")
    )
    assert listed[0] == ["good/x.wav"]
    assert all(reason == "its name points outside the audio folder" for _, reason in listed[1])
    with (
        remote(f"zip://::{tmp_path}/evil.zip", Cache(tmp_path / "cache")) / "good/x.wav"
    ).fetched() as path:
        assert path.is_relative_to(tmp_path / "cache")


def test_links_of_a_listing_that_point_elsewhere_are_ignored(archive, tmp_path):
    page = "".join(
        f'<a href="{link}">x</a>'
        for link in ("/", "../up.wav", "/other/b.wav", "?C=M;O=A", "a.wav", "http://h/c.wav")
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in/index.html").write_text(page)
    with serving(tmp_path) as web:
        paths, refused = remote(f"{web.url}/in", Cache(tmp_path / "cache")).listing(
            lambda name: name.endswith("wav")
        )
    assert paths == ["a.wav"]
    assert refused == []


def test_a_workspace_at_a_url_is_refused(archive, tmp_path):
    with pytest.raises(InputError, match="a folder on this machine"):
        ingest("parlaspeech", archive / "asr.json", out="s3://bucket/w")
    with pytest.raises(InputError, match="there is no such file"):
        ingest("parlaspeech", archive / "asr.json", audio="memory://nowhere", out=tmp_path / "v")
