"""Servers that send wrong lengths, endless bodies, nothing, or secrets: for downloads and for
recordings of ingest."""

import gzip
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
from datetime import UTC, datetime
from email.utils import format_datetime

import polars as pl
import pytest
from typer.testing import CliRunner
from web import answers, refusing, serving, silent

import nbaudio
from nbaudio import Workspace
from nbaudio.cli import app
from nbaudio.core.errors import AudioError, DiskFullError, InputError
from nbaudio.sources import recordings
from nbaudio.storage import network
from nbaudio.storage.network import Network, environment
from nbaudio.storage.remote import remote

SECRET = "geheim" + "0123456789"
ENDLESS = 1_000_000  # pieces of 64 kB
ABSURD = 2**62
DATES = ("Mon, 02 Mar 2026 10:00:00 GMT", "Tue, 03 Mar 2026 10:00:00 GMT")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(network, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setenv("NBAUDIO_TIMEOUT", "5")


@pytest.fixture
def web(tmp_path, recorded):
    """Three recordings; `b.wav` is the one that has trouble."""
    (tmp_path / "www").mkdir()
    for number, name in enumerate("abc"):
        shutil.copy(
            recorded(".wav", 2, 8000, channels=1, seed=number), tmp_path / f"www/{name}.wav"
        )
    with serving(tmp_path / "www") as web:
        yield web


def transcripts(path, names):
    lines = [
        {
            "file": name,
            "start": 0.25,
            "end": 1.5,
            "words": ["dobar", "dan"],
            "asr": ["dobar", "dan"],
        }
        for name in names
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def fetch_by_download(web, tmp_path):
    """Fetch all three; what is said of each that failed, and names of those that came."""
    rows = [json.dumps({"url": f"{web.url}/{name}.wav"}) + "\n" for name in "abc"]
    (tmp_path / "list.jsonl").write_text("".join(rows))
    report = nbaudio.download(tmp_path / "list.jsonl", out=tmp_path / "out", per_second=1000)
    ledger = [
        json.loads(line) for line in (tmp_path / "out/downloads.jsonl").read_text().splitlines()
    ]
    # The next run may continue what broke off.
    broken = {f".{row['name']}.partial" for row in ledger if "tries" in (row["reason"] or "")}
    files = {path.name for path in (tmp_path / "out").iterdir()} - broken
    files = {name for name in files if name.endswith((".partial", ".wav"))}
    assert files == {row["name"] for row in ledger if row["state"] == "done"}
    return report, {row["name"]: row["reason"] for row in ledger}


def fetch_by_ingest(web, tmp_path):
    source = transcripts(tmp_path / "asr.json", ["a.wav", "b.wav", "c.wav"])
    report = nbaudio.ingest("parlaspeech", source, audio=web.url, out=tmp_path / "W")
    workspace = Workspace.open(tmp_path / "W")
    problems = dict(
        workspace.table("problems")
        .filter(pl.col("reason").str.contains("://"))
        .select("file", "reason")
        .iter_rows()
    )
    come = workspace.recordings.filter(pl.col("num_samples").is_not_null())["path"].to_list()
    assert not list((tmp_path / "W/fetched").rglob("*.partial"))
    return report, dict.fromkeys(come) | problems


BOTH = pytest.mark.parametrize("fetch", [fetch_by_download, fetch_by_ingest])


def only_b_fails(fetch, web, tmp_path):
    began = time.monotonic()
    report, reasons = fetch(web, tmp_path)
    assert time.monotonic() - began < 20
    assert {name: reason is None for name, reason in reasons.items()} == {
        "a.wav": True,
        "b.wav": False,
        "c.wav": True,
    }
    assert (
        len([line for line in report.problems if "b.wav" in line and "segments" not in line]) >= 1
    )
    assert all("\n" not in line for line in report.problems)
    return reasons["b.wav"]


# bodies


@BOTH
def test_an_endless_body_is_cut_off_at_the_announced_length(fetch, web, tmp_path):
    web.acts["HEAD b.wav"] = answers(200, Content_Length=96_044)
    web.acts["b.wav"] = answers(200, bytes(65536), pieces=ENDLESS)
    for _ in range(2):  # it is met again
        assert "sends more than the 96,044 bytes that it announced" in only_b_fails(
            fetch, web, tmp_path
        ).replace(
            "of a file of unannounced length that are fetched (--max-size)", "that it announced"
        )
    assert web.sent < 200_000_000


def test_a_body_of_unknown_length_has_a_limit(web, tmp_path, monkeypatch):
    monkeypatch.setenv("NBAUDIO_MAX_SIZE", "20MB")
    web.acts["HEAD b.wav"] = answers(501, Content_Length=0)
    web.acts["b.wav"] = answers(200, bytes(65536), pieces=ENDLESS)
    reason = only_b_fails(fetch_by_download, web, tmp_path)
    assert reason == (
        "the server sends more than the 20,000,000 bytes of a file of unannounced length "
        "that are fetched (--max-size); removed"
    )
    web.acts["b.wav"] = answers(200, b"x" * 1000, pieces=300)
    assert fetch_by_download(web, tmp_path)[0].problems == []
    assert (tmp_path / "out/b.wav").stat().st_size == 300_000


@BOTH
def test_an_absurd_announced_length_is_refused_in_one_line(fetch, web, tmp_path, capsys):
    for method in ("b.wav", "HEAD b.wav"):
        web.acts[method] = answers(200, b"abc", Content_Length=ABSURD)
    assert f"announces {ABSURD:,} bytes; at most 1,000,000,000,000 are fetched" in only_b_fails(
        fetch, web, tmp_path
    )
    shown = capsys.readouterr().err
    assert not any(unit in shown for unit in ("E/", "E ", "EB", "PB", str(ABSURD)[:6]))


@BOTH
def test_a_file_larger_than_the_free_disk_space_is_refused(fetch, web, tmp_path, monkeypatch):
    for method in ("b.wav", "HEAD b.wav"):
        web.acts[method] = answers(200, b"abc", Content_Length=900_000_000_000)
    assert "no space for its 900,000,000,000 bytes" in only_b_fails(fetch, web, tmp_path)


def test_a_full_disk_stops_ingest_with_the_remedy(web, tmp_path):
    (web.folder / "b.wav").write_bytes(bytes(3_000_000))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        with pytest.raises(DiskFullError, match=r"free some space and run the command again"):
            fetch_by_ingest(web, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@BOTH
def test_compressed_bodies_are_not_unpacked(fetch, web, tmp_path):
    bomb = gzip.compress(bytes(50_000_000))
    web.acts["HEAD b.wav"] = answers(200, Content_Length=50_000_000)
    web.acts["b.wav"] = answers(200, bomb, Content_Length=len(bomb), Content_Encoding="gzip")
    assert "sends it compressed (gzip), which was not requested" in only_b_fails(
        fetch, web, tmp_path
    )


@pytest.mark.parametrize(
    "act",
    [
        answers(206, bytes(65536), pieces=ENDLESS, Content_Range="bytes 100-199/44100"),
        answers(
            206,
            bytes(65536),
            pieces=ENDLESS,
            Content_Range="bytes 100-199/44100",
            Content_Length=65536 * ENDLESS,
        ),
        answers(206, bytes(100), Content_Range="bytes 0-99/44100", Content_Length=100),
        answers(
            206,
            gzip.compress(bytes(9_000_000)),
            Content_Range="bytes 100-199/44100",
            Content_Encoding="gzip",
        ),
        answers(200, bytes(65536), pieces=ENDLESS),
    ],
)
def test_a_response_with_another_range_than_requested_is_refused(web, act):
    web.acts["b.wav"] = act
    with pytest.raises(
        AudioError,
        match=r"more than the 100 bytes|were requested|does not support range requests|compressed",
    ):
        remote(f"{web.url}/b.wav").read(100, 200)
    assert web.sent < 20_000_000
    assert web.asked["GET", "b.wav"] == 1


def test_a_continued_file_that_gets_too_many_bytes_is_fetched_anew(web, tmp_path):
    body = bytes(range(256)) * 400
    acts = [
        answers(200, body[:100], Content_Length=len(body), ETag='"1"'),
        answers(
            206,
            bytes(65536),
            pieces=ENDLESS,
            Content_Range=f"bytes 100-{len(body) - 1}/{len(body)}",
        ),
        answers(200, body, Content_Length=len(body), ETag='"1"'),
    ]

    def act(handler):
        acts.pop(0)(handler)

    web.acts["b.wav"] = act
    assert fetch_by_download(web, tmp_path)[0].problems == []
    assert (tmp_path / "out/b.wav").read_bytes() == body


def test_recordings_that_go_bad_after_ingest_are_ledgered_while_cutting(web, tmp_path):
    fetch_by_ingest(web, tmp_path)
    shutil.rmtree(tmp_path / "W/fetched")
    nbaudio.select(tmp_path / "W", min_similarity=-1, dev=0, test=0, group_by=())
    status = (web.folder / "b.wav").stat()
    version = format_datetime(datetime.fromtimestamp(status.st_mtime, UTC), usegmt=True)
    web.acts["HEAD b.wav"] = answers(200, Content_Length=status.st_size, Last_Modified=version)
    web.acts["b.wav"] = answers(200, bytes(65536), pieces=ENDLESS)
    nbaudio.materialize(tmp_path / "W", out=tmp_path / "C", jobs=1, show_progress=False)
    rejected = pl.read_parquet(tmp_path / "C/rejected.parquet")
    assert rejected["recording_id"].to_list() == ["b"]
    assert (
        f"sends more than the {status.st_size:,} bytes that it announced"
        in rejected["detail"].item()
    )
    assert pl.read_parquet(tmp_path / "C/segments.parquet").height == 2


def test_an_endless_listing_page_is_not_used(web, tmp_path):
    (tmp_path / "www/sub").mkdir()
    web.acts["sub"] = answers(
        200, b"<a href='x.wav'>x</a>" * 4000, pieces=ENDLESS, Content_Type="text/html"
    )
    assert remote(f"{web.url}/sub").listing(lambda _: True) is None
    assert web.sent < 200_000_000


# dead servers


def test_a_failing_host_costs_at_most_two_minutes_by_default():
    """One item at a time, on a clock of its own: what a host costs that is silent, refuses, or asks
    for pauses."""
    for each, asked in ((15.0, None), (0.01, None), (0.01, 10.0), (0.01, 40.0), (15.0, 20.0)):
        network, now, costs = Network(), 1000.0, []
        for _ in range(10_000):
            first = now
            for attempt in range(network.tries):
                if network.given_up("host"):
                    break
                pause = 1.25 if attempt and asked is None else 0.0
                now += pause + each
                network.failed("host", each + pause, "silence", now=now)
                if asked is not None:
                    if not network.may_wait("host", asked, item=now - first, now=now):
                        break
                    now += asked
            costs.append(now - first)
        assert max(costs) <= 60, (each, asked)
        assert sum(costs) <= 120, (each, asked)
        network.succeeded("host")
        assert network.given_up("host") is None
        assert Network().given_up("host") is None


def dead_hosts():
    return pytest.mark.parametrize("dead", ["silent", "refusing"])


@dead_hosts()
@pytest.mark.parametrize("fetch", ["download", pytest.param("ingest", marks=pytest.mark.slow)])
def test_a_host_that_always_fails_is_skipped_until_the_next_run(
    fetch, dead, web, tmp_path, monkeypatch
):
    monkeypatch.setenv("NBAUDIO_TIMEOUT", "0.2")
    monkeypatch.setenv("NBAUDIO_TRIES", "2")
    if dead == "refusing":
        monkeypatch.setattr(network, "FIRST_PAUSE_S", 0.2)

    def run(bad):
        names = [f"{bad}/{number}.wav" for number in range(60)] + [f"{web.url}/a.wav"]
        began = time.monotonic()
        if fetch == "download":
            (tmp_path / "list.jsonl").write_text(
                "".join(json.dumps({"url": name}) + "\n" for name in names)
            )
            report = nbaudio.download(tmp_path / "list.jsonl", out=tmp_path / "out", per_second=20)
            rows = [
                json.loads(line)
                for line in (tmp_path / "out/downloads.jsonl").read_text().splitlines()
            ]
            reasons = {row["name"]: row["reason"] for row in rows}
        else:
            source = transcripts(tmp_path / "asr.json", names)
            report = nbaudio.ingest(
                "parlaspeech", source, audio="http://", out=tmp_path / "W", jobs=2
            )
            rows = [
                json.loads(line) for line in (tmp_path / "W/probes.jsonl").read_text().splitlines()
            ]
            reasons = {row["path"].rpartition("/")[2]: row.get("error") for row in rows}
        return report, reasons, time.monotonic() - began

    with silent() if dead == "silent" else environment() as address:
        _, reasons, seconds = run(address or refusing())
    assert seconds < 5  # 60 items of two tries of 0.2 s would be 12 s and more
    assert len(reasons) == 61
    assert reasons["a.wav"] is None
    given_up = [
        reason
        for name, reason in reasons.items()
        if name != "a.wav" and "skipped for the rest of this run: 127.0.0.1:" in reason
    ]
    assert len(given_up) > 30
    assert all("has only failed for" in reason for reason in given_up)


def test_a_host_that_comes_back_is_requested_again_in_the_next_run(web, tmp_path, monkeypatch):
    monkeypatch.setenv("NBAUDIO_TIMEOUT", "0.1")
    monkeypatch.setenv("NBAUDIO_TRIES", "1")
    for fetch in (fetch_by_download, fetch_by_ingest):
        web.hangs.update(("a.wav", "b.wav", "c.wav"))
        report, reasons = fetch(web, tmp_path)
        assert None not in reasons.values(), fetch
        web.hangs.clear()
        report, reasons = fetch(web, tmp_path)
        assert (report.problems, list(reasons.values())) == ([], [None] * 3)


def test_a_host_with_bad_files_is_not_given_up(web, tmp_path, monkeypatch):
    """Files that are served in between show that it lives."""
    monkeypatch.setenv("NBAUDIO_TIMEOUT", "0.05")
    monkeypatch.setenv("NBAUDIO_TRIES", "2")
    for number in range(20):
        shutil.copy(web.folder / "a.wav", web.folder / f"{number}.wav")
    web.says = {f"{number}.wav": 500 for number in range(0, 20, 2)}
    source = transcripts(tmp_path / "asr.json", [f"{number}.wav" for number in range(20)])
    nbaudio.ingest("parlaspeech", source, audio=web.url, out=tmp_path / "W", jobs=1)
    come = Workspace.open(tmp_path / "W").recordings.filter(pl.col("num_samples").is_not_null())[
        "path"
    ]
    assert {f"{number}.wav" for number in range(1, 20, 2)} <= {*come}


@BOTH
@pytest.mark.parametrize(
    "target",
    [
        "file:///etc/passwd",
        "gopher://127.0.0.1/x",
        "/b.wav",
        "/loop/b.wav",
        f"http://me:{SECRET}@127.0.0.1/b.wav",
        f"/b.wav?sig={SECRET}",
    ],
)
def test_invalid_redirects_fail_at_once(fetch, target, web, tmp_path, monkeypatch):
    monkeypatch.setattr(network, "FIRST_PAUSE_S", 60.0)
    for name in ("b.wav", "HEAD b.wav"):
        web.acts[name] = answers(302, Content_Length=0, Location=target)
    reason = only_b_fails(fetch, web, tmp_path)
    assert "redirect" in reason
    assert SECRET not in reason
    assert web.asked["GET", "b.wav"] <= 12


@pytest.mark.slow
@BOTH
def test_retry_after_is_kept_up_to_max_wait(fetch, web, tmp_path, monkeypatch):
    asked = [1]

    def busy(handler):
        if asked:
            answers(503, Content_Length=0, Retry_After=asked.pop())(handler)
        else:
            del web.acts["b.wav"], web.acts["HEAD b.wav"]
            (handler.do_HEAD if handler.command == "HEAD" else handler.do_GET)()

    web.acts |= {"b.wav": busy, "HEAD b.wav": busy}
    assert fetch(web, tmp_path)[0].problems == []
    asked.append(100)
    (web.folder / "b.wav").touch()
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    web.acts |= {"b.wav": busy, "HEAD b.wav": busy}
    assert "100 s" in fetch(web, tmp_path)[1]["b.wav"]


@pytest.mark.parametrize(
    "fetch", [fetch_by_download, pytest.param(fetch_by_ingest, marks=pytest.mark.slow)]
)
@pytest.mark.slow
def test_progress_names_the_host_that_is_waited_for(fetch, web, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("NBAUDIO_TIMEOUT", "4")
    monkeypatch.setenv("NBAUDIO_TRIES", "1")
    web.hangs.add("b.wav")
    fetch(web, tmp_path)
    assert f"waiting for {web.url.removeprefix('http://')}" in capfd.readouterr().err


@pytest.mark.slow
@BOTH
def test_progress_names_the_host_that_requested_a_pause(fetch, web, tmp_path, capfd):
    acts = [answers(503, Content_Length=0, Retry_After=5)]
    for name, serve in (("b.wav", "do_GET"), ("HEAD b.wav", "do_HEAD")):

        def act(handler, serve=serve):
            if acts:
                acts.pop()(handler)
            else:
                web.acts.clear()
                getattr(handler, serve)()

        web.acts[name] = act
    assert fetch(web, tmp_path)[0].problems == []
    assert f"waiting for {web.url.removeprefix('http://')}" in capfd.readouterr().err


@pytest.mark.slow
def test_archives_and_sources_on_silent_servers_fail_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("NBAUDIO_TIMEOUT", "0.2")
    monkeypatch.setenv("NBAUDIO_TRIES", "2")
    source = transcripts(tmp_path / "asr.json", ["a.wav"])
    with silent() as address:
        for audio in (f"zip://::{address}/all.zip", f"tar://::{address}/all.tar", address):
            began = time.monotonic()
            with pytest.raises(InputError, match="could not be read in 2 tries"):
                nbaudio.ingest("parlaspeech", source, audio=audio, out=tmp_path / "W")
            assert time.monotonic() - began < 2
        report = nbaudio.ingest(
            "parlaspeech", source, audio=f"tar://::{address}/all.tar.gz", out=tmp_path / "W"
        )
        assert any("could not be read in 2 tries" in problem for problem in report.problems)
        with pytest.raises(InputError, match="could not be read in 2 tries"):
            nbaudio.ingest("nemo", f"{address}/m.json", out=tmp_path / "V")
        with pytest.raises(nbaudio.NbaudioError, match="could not be read in 2 tries"):
            nbaudio.open_corpus(f"{address}/corpus")


def test_options_and_environment_set_the_limits(tmp_path, monkeypatch):
    monkeypatch.setenv("NBAUDIO_TIMEOUT", "60")
    source = transcripts(tmp_path / "asr.json", ["a.wav"])
    words = ["ingest", "parlaspeech", str(source), "--out", str(tmp_path / "W")]
    with silent() as address:
        for command in (
            [*words, "--audio", address],
            ["verify", f"{address}/c"],
            ["stats", f"{address}/c"],
        ):
            done = CliRunner().invoke(
                app, [*command, "--timeout", "0.1", "--tries", "1", "--max-wait", "0"]
            )
            assert (done.exit_code, "in 1 tries" in done.stderr) == (2, True), (
                command,
                done.stderr,
            )
    assert Network.of().timeout == 60
    for name, value in (
        ("TIMEOUT", "0"),
        ("TRIES", "1.5"),
        ("MAX_WAIT", "-1"),
        ("MAX_SIZE", "much"),
    ):
        monkeypatch.setenv(f"NBAUDIO_{name}", value)
        with pytest.raises(InputError, match=f"NBAUDIO_{name} is {value}"):
            remote("http://127.0.0.1/a")
        monkeypatch.delenv(f"NBAUDIO_{name}")


# going on


@pytest.mark.slow
def test_a_killed_ingest_of_urls_resumes(web, tmp_path):
    for number in range(6):
        shutil.copy(web.folder / "a.wav", web.folder / f"{number}.wav")
    names = [f"{number}.wav" for number in range(6)]
    web.hangs.add("5.wav")
    words = [
        sys.executable,
        "-m",
        "nbaudio",
        "ingest",
        "parlaspeech",
        transcripts(tmp_path / "asr.json", names),
    ]
    words += ["--audio", web.url, "--out", tmp_path / "W", "--jobs", "2", "--timeout", "60"]
    probes = tmp_path / "W/probes.jsonl"
    with subprocess.Popen(
        [*map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        until = time.monotonic() + 30
        while not (probes.exists() and probes.read_bytes().count(b"\n") == 5):
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
    web.hangs.clear()
    shutil.rmtree(tmp_path / "W/fetched")
    with probes.open("ab") as file:
        file.write(b'{"file": "half')
    web.asked.clear()
    report = nbaudio.ingest("parlaspeech", tmp_path / "asr.json", audio=web.url, out=tmp_path / "W")
    assert report.problems == []
    assert {name for method, name in web.asked if method == "GET" and name} == {"5.wav"}
    there = Workspace.open(tmp_path / "W")
    nbaudio.ingest("parlaspeech", tmp_path / "asr.json", audio=web.url, out=tmp_path / "V")
    assert there.recordings.equals(Workspace.open(tmp_path / "V").recordings)
    # Another version is looked at again.
    os.utime(web.folder / "3.wav", ns=(0, 0))
    web.asked.clear()
    nbaudio.ingest("parlaspeech", tmp_path / "asr.json", audio=web.url, out=tmp_path / "W")
    assert {name for method, name in web.asked if method == "GET" and name} == {"3.wav"}


def test_a_stopped_ingest_of_a_folder_resumes(web, tmp_path, monkeypatch):
    looked = []
    look = recordings.probe

    def stopping(path, **options):
        looked.append(path.name)
        if len(looked) == 3:
            raise KeyboardInterrupt
        return look(path, **options)

    monkeypatch.setattr(recordings, "probe", stopping)
    monkeypatch.setattr(recordings, "_BUNDLE_FILES", 1)
    source = transcripts(tmp_path / "asr.json", ["a.wav", "b.wav", "c.wav"])
    with pytest.raises(KeyboardInterrupt):
        nbaudio.ingest("parlaspeech", source, audio=web.folder, out=tmp_path / "W", jobs=1)
    assert looked == ["a.wav", "b.wav", "c.wav"]
    (web.folder / "a.wav").write_bytes((web.folder / "c.wav").read_bytes())
    assert (
        nbaudio.ingest("parlaspeech", source, audio=web.folder, out=tmp_path / "W", jobs=1).problems
        == []
    )
    assert looked[3:] == ["a.wav", "c.wav"]  # and b.wav is known
    assert not (tmp_path / "W/probes.jsonl").exists()
    nbaudio.ingest("parlaspeech", source, audio=web.folder, out=tmp_path / "V", jobs=1)
    assert Workspace.open(tmp_path / "W").recordings.equals(
        Workspace.open(tmp_path / "V").recordings
    )


# secrets


def holding(folder, *secrets):
    """Files below a folder in which a secret can be read; in Parquet in its columns."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            text = path.read_bytes().decode("latin1") + str(path)
            if path.suffix == ".parquet":
                text += pl.read_parquet(path).write_json()
            found += [str(path.relative_to(folder)) for secret in secrets if secret in text]
    return found


@pytest.mark.slow
def test_no_secret_of_a_signed_address_is_written_anywhere(web, tmp_path, capfd):
    """List, downloads, ingest from the downloads, select, materialize, and errors on the way: none
    has the signature."""
    query = f"X-Amz-Signature={SECRET}&X-Amz-Expires=60"
    web.says["gone.wav"] = 403
    web.acts["cut.wav"] = answers(500, SECRET.encode(), Content_Length=len(SECRET))
    web.acts["moved.wav"] = answers(
        302, Content_Length=0, Location=f"ftp://me:{SECRET}@host/x?{query}"
    )
    web.acts["told.wav"] = lambda handler: handler.send_error(404, f"no {SECRET}")
    names = ["a", "b", "c", "gone", "cut", "moved", "told"]
    urls = [f"{web.url}/{name}.wav?{query}" for name in names]
    bad = [
        f"ftp://me:{SECRET}@host/a.wav",
        f"http://me:{SECRET}@host/z.wav?{query}",
        f"http:me:{SECRET}@h/a",
        f"http://[::1/b?{query}",
    ]
    (tmp_path / "in").mkdir()
    (tmp_path / "in/list.csv").write_text("url\n" + "\n".join([*urls, *bad]))
    out = tmp_path / "work"
    said = [
        str(nbaudio.download(tmp_path / "in/list.csv", out=out / "audio", per_second=1000, tries=2))
    ]
    rows = {
        row["name"]: row
        for row in map(json.loads, (out / "audio/downloads.jsonl").read_text().splitlines())
    }
    assert rows["a.wav"]["url"] == f"{web.url}/a.wav"
    assert rows["a.wav"]["url_sha256"] == hashlib.sha256(urls[0].encode()).hexdigest()
    assert {name for name, row in rows.items() if row["state"] == "done"} == {
        "a.wav",
        "b.wav",
        "c.wav",
    }
    said.append(
        str(nbaudio.download(tmp_path / "in/list.csv", out=out / "audio", per_second=1000, tries=1))
    )
    assert "there before  3" in said[-1]

    # What is no row of a ledger, such as one with a whole URL, is dropped.
    old = {
        "url": urls[0],
        "name": "a.wav",
        "state": "failed",
        "reason": f"the server responded with {urls[0]}",
    }
    old |= dict.fromkeys(("bytes", "sha256", "checksum", "validator"))
    (out / "old").mkdir()
    (out / "old/downloads.jsonl").write_text(json.dumps(old) + "\n")
    (tmp_path / "in/empty.csv").write_text("url\n")
    nbaudio.download(tmp_path / "in/empty.csv", out=out / "old")

    lines = [
        {
            "audio_filepath": url,
            "text": "dobar dan",
            "duration": 1.5,
            "offset": 0.25,
            "page": f"https://host/?v=1&sig={SECRET}",
        }
        for url in urls
    ]
    (tmp_path / "in/m.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for target, audio in (("W", out / "audio"), ("V", "http://")):
        report = nbaudio.ingest("nemo", tmp_path / "in/m.json", audio=audio, out=out / target)
        said.append(str(report))
    assert Workspace.open(out / "V").recordings["num_samples"].null_count() == len(names)
    assert "fetch such files with 'nbaudio download'" in said[-1]
    workspace = Workspace.open(out / "W")
    come = workspace.recordings.filter(pl.col("num_samples").is_not_null())["path"].to_list()
    assert come == ["a.wav", "b.wav", "c.wav"]
    nbaudio.select(workspace, min_similarity=-1, dev=0, test=0, group_by=())
    said.append(str(nbaudio.materialize(workspace, out=out / "C", jobs=1, show_progress=False)))
    assert pl.read_parquet(out / "C/segments.parquet").height == 3
    said.append(str(nbaudio.verify(out / "C", jobs=1, show_progress=False)))

    for call in (
        ["ingest", "nemo", f"{web.url}/m.json?{query}", "--out", str(out / "U")],
        [
            "ingest",
            "nemo",
            str(tmp_path / "in/m.json"),
            "--audio",
            f"http://me:{SECRET}@host/a",
            "--out",
            str(out / "U"),
        ],
        ["verify", f"{web.url}/c?{query}"],
        ["download", str(tmp_path / "in/list.csv"), "--out", str(out / "audio")],
        [
            "run",
            str(tmp_path / "in/run.yaml"),
            "--set",
            f"audio='{web.url}/?{query}'",
            "--out",
            str(out / "R"),
        ],
    ):
        (tmp_path / "in/run.yaml").write_text("format: nemo")
        done = CliRunner().invoke(app, call)
        assert done.exit_code in (1, 2)
        said += [done.stdout, done.stderr]
    said += [*capfd.readouterr()]
    assert [text for text in said if SECRET in text] == []
    assert holding(out, SECRET, "X-Amz-Signature=") == []


def test_no_traceback_has_the_signature_of_a_redirect(web, tmp_path):
    web.acts["HEAD b.wav"] = web.acts["b.wav"] = answers(
        302, Content_Length=0, Location=f"/gone.wav?X-Amz-Signature={SECRET}"
    )
    web.says["gone.wav"] = 503
    with pytest.raises(AudioError) as caught:
        remote(f"{web.url}/b.wav").status()
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in fetch_by_download(web, tmp_path)[1]["b.wav"]


def test_urls_that_differ_only_in_their_query_are_two_recordings(web, tmp_path):
    def serve(handler):
        body = handler.path.partition("?")[2].encode()
        answers(200, body, Content_Length=len(body))(handler)

    web.acts["get"] = serve
    rows = [{"url": f"{web.url}/get?id={number}&v=2", "name": f"{number}.wav"} for number in (5, 6)]
    (tmp_path / "list.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for there in (0, 2):
        report = nbaudio.download(tmp_path / "list.jsonl", out=tmp_path / "out", per_second=1000)
        assert (report.problems, report.facts["there_before"]) == ([], there)
    assert (tmp_path / "out/6.wav").read_bytes() == b"id=6&v=2"
    source = transcripts(tmp_path / "asr.json", [row["url"] for row in rows])
    for number, name in ((5, "a.wav"), (6, "b.wav")):
        shutil.copy(web.folder / name, tmp_path / f"out/{number}.wav")
    (tmp_path / "names.csv").write_text(
        "name,path\n" + "".join(f"{row['url']},{row['name']}\n" for row in rows)
    )
    nbaudio.ingest("parlaspeech", source, audio=tmp_path / "out", out=tmp_path / "W")
    assert Workspace.open(tmp_path / "W").recordings["recording_id"].n_unique() == 2
    nbaudio.ingest(
        "parlaspeech",
        source,
        audio=tmp_path / "out",
        names=tmp_path / "names.csv",
        out=tmp_path / "V",
    )
    found = Workspace.open(tmp_path / "V")
    joined = found.segments.join(found.recordings, on="recording_id", maintain_order="left")
    assert joined["path"].to_list() == ["5.wav", "6.wav"]


# the end of a body


def sending(data, **headers):
    """Acts for GET and HEAD: the data in chunks, of which the last marks the end."""
    return answers(200, data, **headers)


def in_order(acts):
    """An act: each of some acts once."""

    def act(handler):
        acts.pop(0)(handler)

    return act


def without_last_chunk(data):
    """An act: all bytes of the data in a chunk, but not the chunk that ends the body."""

    def act(handler):
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        if handler.command == "GET":
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    return act


@pytest.mark.parametrize("head", [answers(405, Content_Length=0), None])
def test_a_chunked_recording_is_complete_with_its_last_chunk(web, tmp_path, head):
    data = (web.folder / "b.wav").read_bytes()
    web.acts["b.wav"] = sending(data)
    web.acts["HEAD b.wav"] = head or sending(data)
    assert fetch_by_ingest(web, tmp_path)[0].problems == []
    recordings = Workspace.open(tmp_path / "W").recordings
    assert recordings["num_samples"].to_list() == [16_000] * 3


@BOTH
def test_a_chunked_body_without_its_last_chunk_is_incomplete(fetch, web, tmp_path):
    data = (web.folder / "b.wav").read_bytes()
    web.acts["b.wav"] = web.acts["HEAD b.wav"] = without_last_chunk(data)
    assert "could not be read in 3 tries" in only_b_fails(fetch, web, tmp_path)


@BOTH
def test_content_length_is_ignored_for_chunked_bodies(fetch, web, tmp_path):
    data = (web.folder / "b.wav").read_bytes()

    def act(handler):
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.send_header("Content-Length", str(len(data) // 2))
        handler.end_headers()
        if handler.command == "GET":
            handler.wfile.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data))

    web.acts["b.wav"] = web.acts["HEAD b.wav"] = act
    assert fetch(web, tmp_path)[0].problems == []
    if fetch is fetch_by_download:
        assert (tmp_path / "out/b.wav").read_bytes() == data
    else:
        recordings = Workspace.open(tmp_path / "W").recordings
        assert recordings["num_samples"].to_list() == [16_000] * 3


@pytest.mark.slow
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "GZIP"])
def test_ingest_names_the_compression_of_a_body(web, tmp_path, coding):
    body = gzip.compress((web.folder / "b.wav").read_bytes())
    for length in ({}, {"Content_Length": len(body)}):
        web.acts["b.wav"] = web.acts["HEAD b.wav"] = answers(
            200, body, Content_Encoding=coding, **length
        )
        reason = only_b_fails(fetch_by_ingest, web, tmp_path)
        assert f"sends it compressed ({coding.lower()}), which was not requested" in reason
        shutil.rmtree(tmp_path / "W")


def test_a_gz_file_with_content_encoding_gzip_is_stored_as_sent(web):
    data = gzip.compress(b"text", mtime=0)
    web.acts["x.jsonl.gz"] = web.acts["HEAD x.jsonl.gz"] = answers(
        200, data, Content_Encoding="x-gzip", Content_Length=len(data)
    )
    with remote(f"{web.url}/x.jsonl.gz").fetched() as path:
        assert path.read_bytes() == data


def test_a_compressed_range_is_not_appended(web, tmp_path):
    body = bytes(range(256)) * 400
    acts = [
        answers(200, body[:100], Content_Length=len(body), ETag='"1"'),
        answers(
            206,
            body[100:],
            Content_Length=len(body) - 100,
            Content_Encoding="gzip",
            Content_Range=f"bytes 100-{len(body) - 1}/{len(body)}",
        ),
        answers(200, body, Content_Length=len(body), ETag='"1"'),
    ]
    web.acts["b.wav"] = in_order(acts)
    assert fetch_by_download(web, tmp_path)[0].problems == []
    assert (tmp_path / "out/b.wav").read_bytes() == body


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/octet-stream", b"\xef\xbb\xbf\n<!DOCTYPE HTML><title>Sign in</title>"),
        ("audio/wav", b"<html><body>Not found</body></html>"),
        ("application/xhtml+xml", b"<?xml version='1.0'?><html/>"),
        ("application/json", b'{"error": "expired"}'),
    ],
)
def test_html_or_json_with_status_200_is_not_taken_for_a_recording(web, tmp_path, kind, body):
    web.acts["b.wav"] = answers(200, body, Content_Length=len(body), Content_Type=kind)
    reason = only_b_fails(fetch_by_download, web, tmp_path)
    assert "the server sends a web page instead" in reason or "sends application/json" in reason


def test_a_redirect_to_a_login_page_is_no_recording(web, tmp_path):
    page = b"<html>Sign in</html>"
    web.acts["b.wav"] = answers(302, Location=f"{web.url}/login", Content_Length=0)
    web.acts["login"] = answers(200, page, Content_Length=len(page), Content_Type="text/html")
    assert "a web page instead" in only_b_fails(fetch_by_download, web, tmp_path)


# versions


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"ETag": '"1"'}, {"ETag": '"2"'}),
        ({"Last_Modified": DATES[0]}, {"Last_Modified": DATES[1]}),
        ({"ETag": 'W/"1"', "Last_Modified": DATES[0]}, {"Last_Modified": DATES[1]}),
    ],
)
def test_parts_of_two_versions_are_never_joined(web, tmp_path, before, after):
    old, new = b"1" * 90_000, b"2" * 90_000
    rest = {"Content_Length": 89_900, "Content_Range": "bytes 100-89999/90000"}
    acts = [
        answers(200, old[:100], Content_Length=90_000, **before),
        answers(206, new[100:], **rest, **after),
        answers(200, new, Content_Length=90_000, **after),
    ]
    web.acts["b.wav"] = in_order(acts)
    assert fetch_by_download(web, tmp_path)[0].problems == []
    assert (tmp_path / "out/b.wav").read_bytes() == new


def test_a_range_of_another_version_is_refused(web):
    part = {"Content_Length": 100, "Content_Range": "bytes 100-199/9000"}
    place = remote(f"{web.url}/b.wav")
    web.acts["b.wav"] = answers(206, b"1" * 100, ETag='"1"', **part)
    assert place.read(100, 200) == (place.parent / "b.wav").read(100, 200)
    web.acts["b.wav"] = answers(206, b"2" * 100, ETag='"2"', **part)
    with pytest.raises(AudioError, match="the file changed while it was read"):
        place.read(100, 200)
    assert remote(f"{web.url}/b.wav").read(100, 200) == b"2" * 100  # of a new run


def test_a_broken_transfer_is_continued_with_the_same_version_only(web, tmp_path):
    old, new = b"1" * 90_000, b"2" * 90_000
    whole = {"Content_Length": 90_000}
    rest = {"Content_Length": 89_900, "Content_Range": "bytes 100-89999/90000"}
    acts = [
        answers(200, old[:100], ETag='"1"', **whole),
        answers(206, new[100:], ETag='"2"', **rest),
    ]
    web.acts["HEAD b.wav"] = answers(200, ETag='"1"', **whole)
    web.acts["b.wav"] = in_order(acts)
    place = remote(f"{web.url}/b.wav")
    with pytest.raises(AudioError, match="the file changed while it was read"), place.fetched():
        pass
    assert acts == []


# slow servers


def dripping(data, **headers):
    """An act: a byte of the data every 20 ms, 50 a second."""

    def act(handler):
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            handler.send_header(name, value)
        handler.end_headers()
        for place in range(len(data) if handler.command == "GET" else 0):
            handler.wfile.write(data[place : place + 1])
            handler.wfile.flush()
            time.sleep(0.02)

    return act


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("headers", [{}, {"ETag": '"1"'}])
def test_a_server_below_the_minimum_rate_is_given_up(fetch, web, tmp_path, monkeypatch, headers):
    monkeypatch.setenv("NBAUDIO_TIMEOUT", "0.3")
    web.acts["b.wav"] = dripping((web.folder / "b.wav").read_bytes(), **headers)
    reason = only_b_fails(fetch, web, tmp_path)
    assert "bytes came in" in reason or "skipped for the rest of this run" in reason
    assert web.asked["GET", "b.wav"] <= 3


def dripping_header(handler):
    """An act: the header of a response without end, a byte every 20 ms."""
    try:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Name: ")
        for _ in range(2_000):
            handler.wfile.write(b"a")
            handler.wfile.flush()
            time.sleep(0.02)
    except OSError:
        pass


@pytest.mark.slow
@BOTH
def test_a_response_header_that_never_ends_is_given_up(fetch, web, tmp_path, monkeypatch):
    monkeypatch.setenv("NBAUDIO_TIMEOUT", "0.3")
    web.acts["b.wav"] = web.acts["HEAD b.wav"] = dripping_header
    reason = only_b_fails(fetch, web, tmp_path)
    assert "header of its response did not come in" in reason or "only failed" in reason


@pytest.mark.slow
def test_a_slow_server_above_the_minimum_rate_is_read(web, tmp_path, monkeypatch):
    monkeypatch.setattr("nbaudio.storage.http.MIN_BYTES_PER_S", 10)
    monkeypatch.setenv("NBAUDIO_TIMEOUT", "0.1")
    data = bytes(range(60))
    web.acts["x.txt"] = web.acts["HEAD x.txt"] = dripping(data)
    with remote(f"{web.url}/x.txt").fetched() as path:
        assert path.read_bytes() == data


def test_ingest_by_http_works_for_users_without_a_home_folder(web, tmp_path, monkeypatch):
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("NETRC", raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])
    assert fetch_by_ingest(web, tmp_path)[0].problems == []
