"""Downloads from a local server that limits, truncates, sends wrong data and changes files."""

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import polars as pl
import pytest
import urllib3
from typer.testing import CliRunner

import nbaudio
from nbaudio import Workspace, download
from nbaudio.cli import app
from nbaudio.core.errors import DiskFullError, ExistsError, InputError
from nbaudio.sources.download_lists import DownloadList, read_list
from nbaudio.storage import network
from nbaudio.storage.network import retry_after
from nbaudio.storage.transfer import WebFile

BODY = bytes(i * i % 251 for i in range(300_000))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        web = self.server.web
        with web.lock:
            web.log.append(
                (
                    self.path,
                    self.headers.get("Range"),
                    self.headers.get("If-Range"),
                    time.monotonic(),
                )
            )
            web.active[self.path] = 1
            web.most_active = max(web.most_active, web.active.total())
            trick = web.tricks[self.path].pop(0) if web.tricks[self.path] else serve
        try:
            trick(self, web.files.get(self.path))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with web.lock:
                del web.active[self.path]

    def head(self, status, length, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.end_headers()


def md5(body):
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def etag(body):
    return f'"{md5(body)}"'


def serve(self, body, upto=None, **headers):
    """As a good server does, or only the first `upto` bytes of what it promises."""
    if body is None:
        self.head(404, 0)
        return
    headers = {"ETag": etag(body)} | headers
    asked, condition = self.headers.get("Range"), self.headers.get("If-Range")
    if asked and condition in (None, headers.get("ETag"), headers.get("Last_Modified")):
        start = int(asked.removeprefix("bytes=").rstrip("-"))
        if start >= len(body):
            self.head(416, 0, Content_Range=f"bytes */{len(body)}")
            return
        self.head(
            206,
            len(body) - start,
            Content_Range=f"bytes {start}-{len(body) - 1}/{len(body)}",
            **headers,
        )
        body = body[start:]
    else:
        self.head(200, len(body), **headers)
    self.wfile.write(body[:upto])
    if upto is not None:
        self.close_connection = True


def cut(upto, **headers):
    return lambda self, body: serve(self, body, upto, **headers)


def busy(status, **headers):
    return lambda self, _: self.head(status, 0, **headers)


def moved(to, status=302):
    return lambda self, _: self.head(status, 0, Location=to)


def without_range(self, body):
    self.head(200, len(body), ETag=etag(body))
    self.wfile.write(body)


def too_long_a_length(self, body):
    self.head(200, len(body) + 7, ETag=etag(body))
    self.wfile.write(body)
    self.close_connection = True


def no_length(self, body):
    self.head(200, None, Connection="close")
    self.wfile.write(body)
    self.close_connection = True


def chunked(self, body, whole=True):
    self.head(200, None, Transfer_Encoding="chunked")
    self.wfile.write(b"%x\r\n%b\r\n" % (len(body), body) + (b"0\r\n\r\n" if whole else b"5\r\nab"))
    self.close_connection = not whole


def slow(self, body):
    time.sleep(0.05)
    serve(self, body)


class Web:
    """The server: what it has, what it does first instead of serving it, and what it was asked."""

    def __init__(self, port):
        self.address = f"http://127.0.0.1:{port}"
        self.other_name = f"http://localhost:{port}"
        self.lock = threading.Lock()
        self.files = {}
        self.tricks = defaultdict(list)
        self.log = []
        self.active = Counter()
        self.most_active = 0

    def asked(self, path):
        return [asked for of, asked, _, _ in self.log if of == path]


@pytest.fixture
def web():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.web = Web(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.web
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(network, "FIRST_PAUSE_S", 0.01)
    for name in (
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def get(web, tmp_path):
    """Download these rows into the folder `out`."""

    def run(*rows, **options):
        path = tmp_path / "list.jsonl"
        path.write_text(
            "".join(
                json.dumps({"url": web.address + row} if isinstance(row, str) else row) + "\n"
                for row in rows
            )
        )
        return download(path, out=tmp_path / "out", **{"per_second": 1000, "timeout": 5} | options)

    return run


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def ledger(out):
    rows = [json.loads(line) for line in (out / "downloads.jsonl").read_text().splitlines()]
    return {row["name"]: row for row in rows}


def left_behind(out):
    return sorted(
        path.name
        for path in out.iterdir()
        if path.name not in ("downloads.jsonl", ".downloads.jsonl.lock")
    )


def test_files_of_a_table_of_urls_are_fetched_and_checked(web, tmp_path, out):
    web.files = {f"/{name}.wav": BODY + name.encode() for name in "abc"}
    sums = [f"sha256:{hashlib.sha256(BODY + b'a').hexdigest()}", md5(BODY + b"b").upper(), ""]
    lines = [
        f"{web.address}/{name}.wav,{called},{sum_}"
        for name, called, sum_ in zip("abc", ["", "b 2.wav", ""], sums, strict=True)
    ]
    (tmp_path / "list.csv").write_text("\ufeffurl,name,checksum\n" + "\n".join(lines))
    report = download(tmp_path / "list.csv", out=out, per_second=1000)
    assert report.problems == []
    assert report.facts == {
        "files": 3, "there_before": 0, "fetched": 3, "failed": 0, "bytes": 900_003,
        "ledger": str(out / "downloads.jsonl"),
    }  # fmt: skip
    assert report.warnings == ["1 of the files have no checksum; only their lengths were verified"]
    assert left_behind(out) == ["a.wav", "b 2.wav", "c.wav"]
    assert (out / "b 2.wav").read_bytes() == BODY + b"b"
    row = ledger(out)["a.wav"]
    assert (row["state"], row["bytes"], row["sha256"], row["reason"]) == (
        "done",
        300_001,
        sums[0][7:],
        None,
    )


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_a_column_named_after_a_hash_holds_checksums(web, get, out, kind):
    web.files = {"/a.wav": BODY, "/b.wav": BODY}
    right = hashlib.new(kind, BODY).hexdigest()
    report = get(
        {"url": f"{web.address}/a.wav", kind: right},
        {"url": f"{web.address}/b.wav", kind: "0" * len(right)},
    )
    assert (report.facts["fetched"], report.facts["failed"]) == (1, 1)
    assert left_behind(out) == ["a.wav"]


def test_a_second_run_requests_only_changed_files(web, get, out):
    web.files = {f"/{name}": BODY + name.encode() for name in "abc"}
    get("/a", "/b", "/c")
    (out / "a").write_bytes(BODY + b"x")  # of the same length
    (out / "b").unlink()
    web.log.clear()
    report = get("/a", "/b", "/c")
    assert sorted(path for path, *_ in web.log) == ["/a", "/b"]
    assert (report.facts["there_before"], report.facts["fetched"], report.problems) == (1, 2, [])
    assert (out / "a").read_bytes() == BODY + b"a"
    assert any("a has changed" in note for note in report.warnings)
    web.log.clear()
    assert get("/a", "/b", "/c").facts["there_before"] == 3
    assert web.log == []


def test_continues_where_a_connection_broke(web, get, out):
    web.files = {"/a.wav": BODY}
    web.tricks["/a.wav"] = [cut(100_000), cut(50_000), cut(0)]
    assert get("/a.wav", tries=2).problems == []
    assert web.asked("/a.wav") == [None, "bytes=100000-", "bytes=150000-", "bytes=150000-"]
    assert web.log[1][2] == etag(BODY)
    assert (out / "a.wav").read_bytes() == BODY
    assert left_behind(out) == ["a.wav"]


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("known", ["etag", "weak", "date", "nothing"])
def test_a_partial_file_is_continued_only_with_etag_date_or_checksum(
    web, get, out, known, checksum
):
    weak, date = {"ETag": 'W/"1"'}, {"Last_Modified": "Fri, 01 May 2026 10:00:00 GMT"}
    headers = {"etag": {}, "weak": weak, "date": weak | date, "nothing": {"ETag": ""}}[known]
    web.files = {"/a": BODY}
    web.tricks["/a"] = [cut(100_000, **headers), cut(None, **headers)]
    row = {"url": f"{web.address}/a", "checksum": md5(BODY) if checksum else None}
    assert get(row).problems == []
    assert web.asked("/a") == [
        None,
        "bytes=100000-" if checksum or known in ("etag", "date") else None,
    ]
    assert (out / "a").read_bytes() == BODY


@pytest.mark.parametrize(
    "trick", ["ignores range", "new version", "new version, no If-Range", "new length, no If-Range"]
)
def test_a_file_that_changed_meanwhile_is_begun_anew(web, get, out, trick):
    new = bytes(reversed(BODY)) + (
        b"" if "new version" in trick or "ignores" in trick else b"longer"
    )
    web.files = {"/a": BODY}
    checksum = {"checksum": hashlib.sha256(new).hexdigest()} if "no If-Range" in trick else {}

    def change(self, body):
        serve(self, body, 100_000, **({"ETag": ""} if "no If-Range" in trick else {}))
        web.files["/a"] = new

    web.tricks["/a"] = [change, *([without_range] if trick == "ignores range" else [])]
    assert get({"url": f"{web.address}/a", **checksum}).problems == []
    assert (out / "a").read_bytes() == new
    assert left_behind(out) == ["a"]


def test_a_part_of_another_url_is_never_continued(web, get, out):
    web.files = {"/one/a": BODY, "/two/a": bytes(reversed(BODY))}
    web.tricks["/one/a"] = [cut(100_000), busy(404)]
    web.tricks["/two/a"] = [cut(150_000), busy(404)]
    for path in ("/one/a", "/two/a"):
        assert get(path).problems == ["a: the server responded with 404 Not Found"]
    assert get("/one/a").problems == []
    assert web.asked("/one/a")[-1] is None
    assert (out / "a").read_bytes() == BODY


def test_a_partial_file_of_another_url_is_not_used(web, get, out):
    """The first URL was finished and removed; the part is of the second one."""
    web.files = {"/one/a": BODY, "/two/a": bytes(reversed(BODY))}
    assert get("/one/a").problems == []
    (out / "a").unlink()
    web.tricks["/two/a"] = [cut(150_000), busy(404)]
    web.tricks["/one/a"] = [busy(404)]
    for path in ("/two/a", "/one/a"):
        assert get(path).problems == ["a: the server responded with 404 Not Found"]
    assert left_behind(out) == [".a.partial"]
    assert get("/one/a").problems == []
    assert web.asked("/one/a") == [None] * 3
    assert (out / "a").read_bytes() == BODY


def test_a_folder_in_place_of_a_file_fails_only_that_file(web, get, out):
    web.files = {"/a": BODY, "/b": BODY}
    assert get("/a").problems == []
    (out / "a").unlink()
    (out / "a").mkdir()
    assert get("/a", "/b").problems == ["a: it cannot be written: Is a directory"]
    assert (out / "b").read_bytes() == BODY


def test_a_large_chunked_file_is_fetched_with_one_request_per_host(web, get, out):
    web.files = {"/a": bytes(20_000_000)}
    web.tricks["/a"] = [chunked]
    assert get("/a", per_host=1).problems == []
    assert (out / "a").stat().st_size == 20_000_000


def test_a_failed_part_is_kept_for_the_next_run(web, get, out):
    web.files = {"/a": BODY}
    web.tricks["/a"] = [cut(100_000), busy(500), busy(500)]
    report = get("/a", tries=2)
    assert report.problems == ["a: could not be read in 2 tries (the server responded with 500)"]
    assert left_behind(out) == [".a.partial"]
    assert ledger(out)["a"]["state"] == "failed"
    assert get("/a").problems == []
    assert web.asked("/a")[-1] == "bytes=100000-"
    assert ledger(out)["a"]["reason"] is None


@pytest.mark.slow
def test_retry_after_delays_all_requests_to_the_host(web, get):
    web.files = {"/a": BODY, "/b": BODY, "/c": BODY}
    web.tricks["/a"] = [busy(429, Retry_After="1")]
    assert get("/a", "/b", "/c", connections=1).problems == []
    assert [path for path, *_ in web.log] == ["/a", "/a", "/b", "/c"]
    assert web.log[1][3] - web.log[0][3] >= 0.95


def test_retry_after_is_read_as_seconds_or_a_date():
    def pause(**headers):
        return retry_after(
            urllib3.HTTPHeaderDict(
                {name.replace("_", "-"): value for name, value in headers.items()}
            )
        )

    assert pause(Retry_After=" 120 ") == 120
    date = "Sat, 21 Nov 2026 01:00:30 GMT"
    # By the server's clock.
    assert pause(Retry_After=date, Date="Sat, 21 Nov 2026 01:00:00 GMT") == 30
    assert pause(Retry_After=date, Date="Sat, 21 Nov 2026 02:00:00 GMT") == 0
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert 50 < pause(Retry_After=soon) <= 60
    assert [
        pause(Retry_After=text) for text in ("", "soon", "-1", "Sat, 99 Nov 2026 01:00:00 GMT")
    ] == [None] * 4
    assert pause() is None


@pytest.mark.slow
@pytest.mark.parametrize("connections", [1, 4])
@pytest.mark.parametrize("status", [429, 503])
def test_a_retry_after_beyond_max_wait_fails_only_that_file(status, connections, web, get, out):
    web.files = {f"/{name}": BODY for name in "abcd"}
    web.tricks["/a"] = [busy(status, Retry_After="86400")]
    web.tricks["/c"] = [busy(status, Retry_After="1"), busy(status, Retry_After="61")]
    report = get("/a", "/b", "/c", "/d", connections=connections, max_wait=60)
    why = f"(the server responded with {status}); try later"
    assert report.problems == [
        f"a: the server requires a wait of 86,400 s {why}",
        f"c: the server requires a wait of 61 s {why}",
    ]
    assert Counter(path for path, *_ in web.log) == {"/a": 1, "/b": 1, "/c": 2, "/d": 1}
    assert left_behind(out) == ["b", "d"]
    assert get("/a", "/b", "/c", "/d").problems == []


def test_transient_failures_are_retried_and_permanent_ones_reported(web, get, out):
    web.files = {"/a": BODY, "/b": BODY, "/d": BODY}
    web.tricks["/a"] = [busy(503), busy(502), busy(429), cut(10)]
    web.tricks["/b"] = [busy(503)] * 9
    web.tricks["/d"] = [busy(204)]
    report = get("/a", "/b", "/c", "/d", tries=5)
    assert report.problems == [
        "b: could not be read in 5 tries (the server responded with 503)",
        "c: the server responded with 404 Not Found",
        "d: the server responded with 204 No Content",
    ]
    assert (len(web.asked("/b")), len(web.asked("/c"))) == (5, 1)
    assert left_behind(out) == ["a"]
    assert report.facts["failed"] == 3


def test_backoff_grows_with_jitter_up_to_a_minute():
    assert all(
        network.backoff_seconds(n) < 1.001 * network.backoff_seconds(n + 1) for n in range(1, 7)
    )
    assert len({network.backoff_seconds(1) for _ in range(50)}) == 50
    assert network.backoff_seconds(1000) <= 60


def test_a_refused_connection_is_one_problem_after_all_tries(tmp_path, out):
    (tmp_path / "list.jsonl").write_text('{"url": "http://127.0.0.1:9/a"}\n')
    report = download(tmp_path / "list.jsonl", out=out, tries=2, per_second=1000)
    assert len(report.problems) == 1
    assert report.problems[0].startswith("a: could not be read in 2 tries (")
    assert "refused" in report.problems[0]
    assert "object at 0x" not in report.problems[0]


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("trick", [too_long_a_length, no_length, chunked])
def test_a_file_not_known_to_be_complete_gets_no_final_name(web, get, out, trick, checksum):
    web.files = {"/a": BODY}
    web.tricks["/a"] = [trick] * 9
    report = get(
        {"url": f"{web.address}/a", **({"checksum": md5(BODY)} if checksum else {})}, tries=2
    )
    if trick is chunked or (trick is no_length and checksum):
        assert report.problems == []
        assert (out / "a").read_bytes() == BODY
    else:
        assert len(report.problems) == 1
        assert not (out / "a").exists()
        assert ledger(out)["a"]["state"] == "failed"


def test_a_truncated_chunked_body_is_fetched_again(web, get, out):
    web.files = {"/a": BODY}
    web.tricks["/a"] = [lambda self, body: chunked(self, body, whole=False)]
    assert get("/a").problems == []
    assert (out / "a").read_bytes() == BODY
    assert len(web.log) == 2


def test_a_wrong_checksum_is_in_the_ledger_and_leaves_nothing(web, get, out):
    web.files = {"/a": BODY, "/b": BODY}
    right, wrong = md5(BODY), "0" * 32
    report = get(
        {"url": f"{web.address}/a", "checksum": wrong},
        {"url": f"{web.address}/b", "checksum": right},
    )
    assert report.problems == [f"a: it has md5:{right}, not md5:{wrong}; removed"]
    assert left_behind(out) == ["b"]
    assert ledger(out)["a"]["state"] == "failed"
    assert len(web.log) == 2


def test_a_body_with_unrequested_compression_is_refused(web, get, out):
    web.files = {"/a.wav": BODY, "/b.tar.gz": BODY}
    for path in web.files:
        web.tricks[path] = [cut(None, Content_Encoding="x-gzip")]
    assert get("/a.wav", "/b.tar.gz").problems == [
        "a.wav: the server sends it compressed (x-gzip), which was not requested"
    ]
    assert (out / "b.tar.gz").read_bytes() == BODY  # as sent: some servers call archives so


def test_a_web_page_is_no_recording(web, get, out):
    web.files = {"/a.wav": b"<html>please log in", "/b.html": b"<html>", "/c": b"<html>"}
    for path in web.files:
        web.tricks[path] = [cut(None, Content_Type="text/html; charset=utf-8")] * 2
    (problem,) = get(*web.files).problems
    assert problem.startswith("a.wav: the server sends a web page instead")
    row = {"url": f"{web.address}/a.wav", "checksum": md5(b"<html>please log in")}
    assert get(row).problems == []


def test_redirects_are_followed_to_http_urls_within_a_limit(web, get, out):
    web.files = {"/there/x": BODY}
    web.tricks |= {
        "/a": [moved("/a2", 301)], "/a2": [moved(f"{web.other_name}/there/x", 307)],
        "/b": [moved("/c")] * 99, "/c": [moved("/b")] * 99,
        "/d": [moved("file:///etc/passwd")], "/e": [moved("")], "/f": [moved("http://me:secret@127.0.0.1/x")],
    }  # fmt: skip
    report = get("/a", "/b", "/d", "/e", "/f", per_host=1)
    reasons = {name: row["reason"] for name, row in ledger(out).items()}
    assert (out / "a").read_bytes() == BODY
    assert reasons["a"] is None
    assert reasons["b"].startswith("a redirect loop: http://")
    assert len(web.asked("/b")) + len(web.asked("/c")) == 2
    assert "only http:// and https:// URLs are allowed" in reasons["d"]
    assert reasons["e"] == "the server responded with 404 Not Found" or "redirect" in reasons["e"]
    assert "user or password" in reasons["f"]
    assert "secret" not in (out / "downloads.jsonl").read_text()
    assert left_behind(out) == ["a"]
    assert len(report.problems) == 4


def test_a_transfer_broken_after_a_redirect_is_continued(web, get, out):
    web.files = {"/x": BODY}
    web.tricks |= {"/a": [moved("/x")] * 2, "/x": [cut(100_000)]}
    assert get("/a").problems == []
    assert [(path, asked) for path, asked, *_ in web.log] == [
        ("/a", None), ("/x", None), ("/a", "bytes=100000-"), ("/x", "bytes=100000-")
    ]  # fmt: skip
    assert (out / "a").read_bytes() == BODY


RAW = [
    b"", b"hello", b"HTTP/1.1 200 OK\r\n", b"HTTP/9 200\r\n\r\n", b"HTTP/1.1 999999 x\r\n\r\n",
    b"\x00\xff" * 2000,
    b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc",
    b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\nabc",
    b"HTTP/1.1 200 OK\r\nContent-Length: 3, 4\r\n\r\nabc",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc",
    b"HTTP/1.1 206 OK\r\nContent-Length: 3\r\n\r\nabc", b"HTTP/1.1 302 Found\r\n\r\n",
    b"HTTP/1.1 302 x\r\nLocation: http://[\r\n\r\n",
    b"HTTP/1.1 302 x\r\nLocation: http://" + b"a" * 300 + b"/\r\n\r\n",
    b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200 + b"\r\n",
    b"HTTP/1.1 503 x\r\nRetry-After: Mon, 99 Foo 99999999999999999999 25:61:61 GMT\r\n\r\n",
    b"HTTP/1.1 503 x\r\nRetry-After: " + b"9" * 400 + b"\r\n\r\n",
]  # fmt: skip


def test_invalid_http_responses_fail_only_their_files(web, get, out):
    def raw(answer):
        def trick(self, _):
            self.wfile.write(answer)
            self.close_connection = True

        return trick

    paths = [f"/{number}" for number in range(len(RAW))]
    web.files = {"/good": BODY}
    web.tricks |= {path: [raw(answer)] * 9 for path, answer in zip(paths, RAW, strict=True)}
    report = get(*paths, {"url": f"{web.other_name}/good"}, tries=2, connections=1)
    assert left_behind(out) == ["good"]
    assert [line.split(":")[0] for line in report.problems] == [path[1:] for path in paths]
    assert all(
        row["reason"] and row["reason"].isprintable()
        for name, row in ledger(out).items()
        if name != "good"
    )


def test_a_proxy_of_the_environment_is_used(web, get, out, monkeypatch):
    monkeypatch.setenv("http_proxy", web.address)
    web.files = {"http://files.invalid/a": BODY}
    assert get({"url": "http://files.invalid/a"}).problems == []
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(InputError, match="http_proxy"):
        get({"url": "http://files.invalid/b"})


# politeness


def test_connections_and_requests_stay_within_the_limits(web, get):
    paths = [f"/{i}" for i in range(8)]
    web.files = dict.fromkeys(paths, b"x")
    web.tricks |= {path: [slow] for path in paths}
    assert get(*paths, connections=4, per_host=2).problems == []
    assert web.most_active == 2
    web.log.clear()
    for path in paths:
        web.files[path] = b"y"
    times = [f"/{i}?again" for i in range(8)]
    web.files |= dict.fromkeys(times, b"z")
    rows = [{"url": web.address + path, "name": f"again{i}"} for i, path in enumerate(times)]
    assert get(*rows, per_second=20, connections=4, per_host=4).problems == []
    arrived = sorted(when for *_, when in web.log)
    assert arrived[-1] - arrived[0] >= 7 / 20 - 0.03


@pytest.mark.slow
def test_a_host_that_waits_does_not_delay_other_hosts(web, get):
    names = [f"/{i}" for i in range(4)]
    web.files = dict.fromkeys(names, BODY)
    web.tricks["/0"] = [busy(503, Retry_After="2")]
    others = [{"url": web.other_name + name, "name": f"other{name[1:]}"} for name in names]
    assert get(*names, *others, connections=2, per_host=1).problems == []
    order = [path for path, *_ in web.log]
    assert sorted(order[1:5]) == names  # of the other name
    assert order[5:] == names


# the list


def test_percent_encoded_names_and_any_checksum_notation_are_decoded(tmp_path):
    url = "https://example.org/audio/1%20a%20%5BHlauTe_NK6U%5D.wav?key=1"
    (tmp_path / "list.csv").write_text(f"url,checksum\n{url},42E2234BA48799C1F50F24A7926300A1\n")
    item = WebFile(
        url, "1 a [HlauTe_NK6U].wav", "md5:42e2234ba48799c1f50f24a7926300a1", is_recording=True
    )
    assert read_list(tmp_path / "list.csv") == DownloadList([item])


@pytest.mark.parametrize(
    ("name", "text", "encoding"),
    [
        ("list.csv", "url;name\nhttps://x/a,1.wav;a.wav\n", "utf-8-sig"),
        ("list.csv", 'url,name\r\n"https://x/a,1.wav",a.wav\r\n', "utf-16"),
        ("list.csv", "name\turl\na.wav\thttps://x/a,1.wav\n", "utf8"),
        ("list.tsv", "Files of May\t\nurl\tname\n\nhttps://x/a,1.wav\ta.wav\n", "utf8"),
    ],
)
def test_lists_of_urls_are_read_with_any_separator_and_encoding(tmp_path, name, text, encoding):
    (tmp_path / name).write_bytes(text.encode(encoding))
    listed = read_list(tmp_path / name)
    assert listed.wanted == [WebFile("https://x/a,1.wav", "a.wav", is_recording=True)]
    assert listed.refused == []
    assert any("above the header" in note for note in listed.notes) == (name == "list.tsv")


def test_a_line_that_cannot_be_read_is_listed_and_the_others_are_fetched(tmp_path):
    lines = (
        "url,name",
        "https://x/a,a.wav",
        "https://x/b,b.wav,b",
        '"https://x/c,c.wav',
        "ftp://x/d",
    )
    (tmp_path / "list.csv").write_text("\n".join((*lines, "https://x/e,e.wav")))
    listed = read_list(tmp_path / "list.csv")
    assert [item.name for item in listed.wanted] == ["a.wav", "e.wav"]
    assert [row.reason.partition(":")[0] for row in listed.refused] == [
        "line 3",
        "line 4",
        "line 5",
    ]


BAD_NAMES = ["../a", "a/b", "/etc/a", "..", ".", ".hidden", "a\\b", "a\0b", "a\nb", "\ud800", 7]
BAD_NAMES += ["CON", "nul.wav", "a.", "a ", "downloads.jsonl", "x" * 241]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_of_a_list_never_point_outside_the_folder(web, get, out, tmp_path, name):
    web.files = {"/a": BODY}
    report = get({"url": f"{web.address}/a", "name": name})
    assert len(report.problems) == 1
    assert web.log == []
    assert left_behind(out) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["list.jsonl", "out"]


@pytest.mark.parametrize("end", ["/..%2f..%2fa", "/", "/%00", "/a%5Cb", "/.%2e"])
def test_names_taken_from_urls_never_point_outside_the_folder(web, get, out, end):
    assert len(get(end).problems) == 1
    assert left_behind(out) == []


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"url": "ftp://example.org/a"}, "only http:// and https://"),
        ({"url": "file:///etc/passwd"}, "only http:// and https://"),
        ({"url": "/etc/passwd"}, "only http:// and https://"),
        ({"url": "http://"}, "only http:// and https://"),
        ({"url": "http://[::1/a"}, "is not a URL"),
        ({"url": "http://me:secret@example.org/a"}, "user or password"),
        ({"url": "http://example.org/a", "checksum": "sha256:12"}, "64 hex digits"),
        ({"url": "http://example.org/a", "checksum": "sha1:" + "0" * 40}, "64 hex digits"),
        ({"url": "http://example.org/a", "checksum": "md5:" + "0" * 64}, "64 hex digits"),
        ({"url": "http://example.org/a", "sha256": "0" * 32}, "64 hex digits"),
        (
            {"url": "http://example.org/a", "sha256": "0" * 64, "checksum": "md5:" + "0" * 32},
            "two checksums that differ",
        ),
        ({"name": "a"}, "only http:// and https://"),
        (["http://example.org/a"], "not a JSON object"),
        ({"url": 5}, "is not a string"),
    ],
)
def test_invalid_rows_of_a_list_are_refused_with_their_reason(get, out, row, says):
    report = get(row)
    assert len(report.problems) == 1
    assert says in report.problems[0]
    assert "secret" not in report.problems[0]
    (told,) = [json.loads(line) for line in (out / "downloads.jsonl").read_text().splitlines()]
    assert told["state"] == "failed"
    assert says in told["reason"]


def test_refusals_leave_the_ledger_once_the_list_is_corrected(web, get, out):
    web.files = {"/a": BODY}
    get({"url": f"{web.address}/a", "name": "../a"}, {"name": "x"})
    assert get("/a").problems == []
    assert list(ledger(out)) == ["a"]


def test_two_urls_of_one_name_are_distinguished(web, get, out):
    web.files = {"/1/a.wav": b"1", "/2/A.wav": b"2"}
    report = get("/1/a.wav", "/2/A.wav", "/1/a.wav")
    assert len(report.problems) == 1
    assert "its name 'A.wav' is also that of line 1; give each another name" in report.problems[0]
    rows = [
        {"url": f"{web.address}/1/a.wav"},
        {"url": f"{web.address}/2/A.wav", "name": "other.wav"},
    ]
    assert get(*rows).problems == []
    assert {path.name: path.read_bytes() for path in out.glob("*.wav")} == {
        "a.wav": b"1",
        "other.wav": b"2",
    }


def test_a_repeated_url_with_another_checksum_leaves_the_finished_file(web, get, out):
    web.files = {"/a": BODY}
    row = {"url": f"{web.address}/a", "name": "a"}
    get(row)
    (problem,) = get(row, row | {"checksum": md5(b"")}).problems
    assert problem.endswith("the same URL with another name or checksum; keep one of them")
    assert ledger(out)["a"]["state"] == "done"
    assert get(row).facts["there_before"] == 1


def test_existing_files_are_accepted_by_checksum_and_never_overwritten(web, get, out):
    web.files = {"/a": BODY, "/b": BODY}
    out.mkdir()
    (out / "a").write_bytes(BODY)
    (out / "b").write_text("mine")
    checksum = md5(BODY)
    report = get(*({"url": f"{web.address}/{name}", "checksum": checksum} for name in "ab"))
    assert web.log == []
    assert report.facts["there_before"] == 1
    assert report.problems == [
        "b: another file has its name and is not overwritten; move it away, or give another name"
    ]
    assert (out / "b").read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("absent.csv", None, "absent.csv"),
        ("list.csv", "address\nhttp://x/a\n", "a column url is required"),
        ("list.csv", "", "no readable rows"),
        ("list.txt", "http://x/a", "a .csv, .tsv or .jsonl"),
        ("list.jsonl", b"\xff", "cannot be read"),
        ("openslr:librispech:dev-clean", None, "openslr holds librispeech"),
        ("openslr:librispeech:dev", None, "librispeech holds dev-clean, dev-other"),
    ],
)
def test_unreadable_lists_of_urls_are_refused(tmp_path, out, name, text, says):
    source = name if ":" in name else tmp_path / name
    if text is not None:
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InputError, match=says):
        download(source, out=out)
    assert not out.exists()


@pytest.mark.parametrize(
    "options",
    [
        {"connections": 0},
        {"per_second": 0},
        {"tries": 0},
        {"timeout": -1},
        {"per_second": float("nan")},
    ],
)
def test_invalid_parameters_of_download_are_refused(get, options):
    with pytest.raises(InputError):
        get(**options)


def test_openslr_archives_are_listed_by_name_with_checksums():
    parts = (
        "dev-clean,dev-other,test-clean,test-other,train-clean-100,train-clean-360,"
        "train-other-500,intro-disclaimers"
    )
    listed = read_list(f"openslr:librispeech:{parts}")
    wanted = listed.wanted
    assert listed.refused == []
    assert [one.url for one in wanted] == [
        f"https://www.openslr.org/resources/12/{part}.tar.gz" for part in parts.split(",")
    ]
    assert len({one.checksum for one in wanted}) == 8
    assert all(one.checksum.startswith("md5:") for one in wanted)


# the folder


def test_a_second_download_into_a_folder_is_refused(web, get, out):
    web.files = {"/a": BODY}
    refused = []

    def meanwhile(self, body):
        try:
            get("/a")
        except ExistsError as error:
            refused.append(str(error))
        serve(self, body)

    web.tricks["/a"] = [meanwhile]
    assert get("/a").problems == []
    assert refused == [
        f"{out}: another download is active there; wait for it, or choose another folder"
    ]


def test_a_truncated_ledger_is_read_and_completed(web, get, out):
    web.files = {"/a": BODY, "/b": BODY}
    get("/a", "/b")
    path = out / "downloads.jsonl"
    names = list(ledger(out))
    path.write_bytes(path.read_bytes()[:-30] + b'\n{"url": 1}\n[]\n\xff')
    (out / names[-1]).unlink()
    assert get("/a", "/b").problems == []
    assert {row["state"] for row in ledger(out).values()} == {"done"}


def test_ingest_reads_straight_from_the_folder(web, get, out, tmp_path, recorded):
    name = "17 1 2018 - 2. dio [HlauTe_NK6U].wav"
    web.files = {"/audio": recorded(".wav", 3, 16000).read_bytes()}
    get({"url": f"{web.address}/audio", "name": name})
    (out / ".rest.wav.partial").write_bytes(b"half")
    line = {
        "file": name,
        "start": 0.5,
        "end": 2,
        "words": ["dobar", "dan"],
        "asr": ["dobar", "dan"],
    }
    (tmp_path / "asr.json").write_text(json.dumps(line))
    assert (
        nbaudio.ingest("parlaspeech", tmp_path / "asr.json", audio=out, out=tmp_path / "W").problems
        == []
    )
    assert Workspace.open(tmp_path / "W").segments.select("end_sample").item() == 32000
    assert Workspace.open(tmp_path / "W").recordings.filter(pl.col("path") == name).height == 1


def test_stopped_by_hand_it_ends_at_once_and_continues_later(web, get, out):
    web.files = {"/a": BODY, "/b": BODY}
    silent = threading.Event()

    def stall(self, body):
        self.head(200, len(body), ETag=etag(body))
        self.wfile.write(body[:200_000])
        silent.wait(30)
        self.close_connection = True

    def interrupt():
        while not (
            (out / ".a.partial").exists()
            and (out / ".a.partial").stat().st_size > 100_000
            and (out / "b").exists()
        ):
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    web.tricks["/a"] = [stall]
    hand = threading.Thread(target=interrupt)
    hand.start()
    begun = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            get("/a", "/b", timeout=20)
        assert time.monotonic() - begun < 10
    finally:
        silent.set()
        hand.join()
    assert ledger(out)["a"]["state"] == "begun"
    partial_bytes = (out / ".a.partial").stat().st_size
    assert 100_000 < partial_bytes <= 200_000
    report = get("/a", "/b")
    assert (report.problems, report.facts["there_before"]) == ([], 1)
    assert web.asked("/a")[1] == f"bytes={partial_bytes}-"
    assert (out / "a").read_bytes() == BODY


def test_a_full_disk_stops_it_and_the_same_call_continues(web, get, out):
    web.files = {"/a": BODY, "/b": b"small"}
    web.tricks["/b"] = [busy(503)]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        with pytest.raises(DiskFullError, match="finished work is kept"):
            get("/a", "/b")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    there = (out / ".a.partial").stat().st_size
    assert 100_000 < there <= 200_000
    assert get("/a", "/b").problems == []
    assert web.asked("/a") == [None, f"bytes={there}-"]
    assert (out / "a").read_bytes() == BODY


def test_a_file_that_cannot_be_written_fails_alone(web, get, out):
    web.files = {"/a": BODY, "/b": BODY}
    (out / ".a.partial").mkdir(parents=True)
    report = get("/a", "/b")
    assert report.problems == ["a: it cannot be written: Is a directory"]
    assert (out / "b").read_bytes() == BODY


# the command


def command(*words):
    return [sys.executable, "-m", "nbaudio", "download", *map(str, words), "--per-second", "1000"]


@pytest.mark.slow
def test_a_killed_download_requests_only_the_rest(web, tmp_path, out):
    big = BODY * 4
    web.files = {"/a": BODY, "/big": big}
    released = threading.Event()

    def stall(self, body):
        self.head(200, len(body), ETag=etag(body))
        self.wfile.write(body[:700_000])
        released.wait(30)
        self.close_connection = True

    web.tricks["/big"] = [stall]
    (tmp_path / "list.tsv").write_text(
        f"url\tchecksum\n{web.address}/a\t\n{web.address}/big\t{hashlib.sha256(big).hexdigest()}\n"
    )
    words = command(tmp_path / "list.tsv", "--out", out)
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        partial, until = out / ".big.partial", time.monotonic() + 30
        while not (partial.exists() and partial.stat().st_size > 600_000 and (out / "a").exists()):
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    released.set()
    there = partial.stat().st_size
    assert sorted(left_behind(out)) == [".big.partial", "a"]
    web.log.clear()
    done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=False)
    assert (done.returncode, json.loads(done.stdout)["facts"]["there_before"]) == (0, 1)
    assert [entry[:3] for entry in web.log] == [("/big", f"bytes={there}-", etag(big))]
    assert (out / "big").read_bytes() == big
    assert left_behind(out) == ["a", "big"]


def test_download_exits_with_0_1_or_2_and_shows_progress(web, tmp_path, out):
    web.files = {"/a": BODY}
    path = tmp_path / "list.jsonl"
    path.write_text(
        json.dumps({"url": f"{web.address}/a"})
        + "\n"
        + json.dumps({"url": f"{web.address}/b"})
        + "\n"
    )
    some = CliRunner().invoke(app, ["download", str(path), "--out", str(out)])
    assert some.exit_code == 1
    assert "problem: b: the server responded with 404 Not Found" in some.stdout
    for part in ("fetch: 300 kB in ", "2 of 2 files"):
        assert part in some.stderr
    path.write_text(path.read_text().splitlines()[0])
    assert CliRunner().invoke(app, ["download", str(path), "--out", str(out)]).exit_code == 0
    none = CliRunner().invoke(app, ["download", "absent.csv", "--out", str(out)])
    assert (none.exit_code, none.stdout, len(none.stderr.splitlines())) == (2, "", 1)
