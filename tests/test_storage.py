"""URLs, redaction, atomic files, hashes, locks and HTTP of `nbaudio.storage`."""

import errno
import pickle
import zipfile
from types import SimpleNamespace

import polars as pl
import pytest
from web import answers, serving

from nbaudio.core.atomic import (
    JsonRows,
    append_lines,
    disk_full_reason,
    escapes_folder,
    lock,
    parse_lines,
    read_json,
    read_lines,
    sha256_listed,
    trusted_root,
    write_json,
    write_lines,
)
from nbaudio.core.errors import AudioError, InputError
from nbaudio.storage import network
from nbaudio.storage.archives import is_in_archive
from nbaudio.storage.filesystems import filter_names
from nbaudio.storage.folders import folder_at
from nbaudio.storage.http import HttpFiles, HttpStatusError
from nbaudio.storage.location import LocalPath, location, read_whole
from nbaudio.storage.network import Network, environment
from nbaudio.storage.remote import remote
from nbaudio.storage.urls import (
    check_url,
    display_url,
    is_url,
    public_url,
    redact,
    redact_log,
    redact_url,
    stays_inside,
    stored_names,
)


def test_rows_of_a_frame_are_written_as_objects(tmp_path):
    write_json(tmp_path / "a.json", {"rows": JsonRows(pl.DataFrame({"n": [1, 2]}))})
    assert read_json(tmp_path / "a.json") == {"rows": [{"n": 1}, {"n": 2}]}
    with pytest.raises(InputError, match="cannot be read"):
        read_json(tmp_path / "b.json")


def test_the_hash_of_a_list_of_files_does_not_depend_on_their_order():
    assert sha256_listed({"b": "11", "a": "00"}) == sha256_listed({"a": "00", "b": "11"})


def test_an_incomplete_last_line_of_a_log_is_dropped(tmp_path):
    log = tmp_path / "a.jsonl"
    append_lines(log, [b'{"n": 1}'])
    with log.open("ab") as file:
        file.write(b'{"n": 2')
    assert read_lines(log, bytes, "bytes") == [b'{"n": 1}']
    append_lines(log, [b'{"n": 3}', b"[4]", b"no"])
    assert log.read_bytes() == b'{"n": 1}\n{"n": 3}\n[4]\nno\n'
    assert list(parse_lines(log.read_bytes())) == [{"n": 1}, {"n": 3}]


def test_lines_that_a_full_disk_breaks_off_are_dropped_by_the_next_write(tmp_path):
    class Full:
        """A file that takes ten bytes of the next line and then none."""

        def __init__(self, file):
            self._file, self._left = file, 10

        def __getattr__(self, name):
            return getattr(self._file, name)

        def write(self, data):
            if not self._left:
                raise OSError(errno.ENOSPC, "full")
            written, self._left = self._file.write(data[: self._left]), 0
            return written

    log = tmp_path / "a.jsonl"
    with log.open("a+b", buffering=0) as file:
        write_lines(file, [b'{"n": 1}'])
        with pytest.raises(OSError, match="full"):
            write_lines(Full(file), [b'{"number": 2}'])
        assert log.read_bytes() == b'{"n": 1}\n{"number":'
        write_lines(file, [b'{"n": 3}', b'{"n": 4}'], sync=False)
    assert log.read_bytes() == b'{"n": 1}\n{"n": 3}\n{"n": 4}\n'


def test_urls_are_distinguished_from_paths_and_checked():
    assert [is_url(text) for text in ("s3://bucket/a", "zip://::a.zip", "a/b c.wav")] == [
        True,
        True,
        False,
    ]
    assert check_url("https://host/a%20b") == "https://host/a%20b"
    assert [stays_inside(name) for name in ("./a/b.wav", "a/../../b.wav", "/b.wav", "a\0b")] == [
        True,
        False,
        False,
        False,
    ]
    assert filter_names(
        ["b.wav", ".a.wav", "../c.wav", "a/d.txt"], lambda name: name.endswith("wav")
    ) == (
        ["b.wav"],
        [("../c.wav", "its name points outside the audio folder")],
    )
    places = (remote("tar://LibriSpeech::/data/dev-clean.tar.gz"), remote("tar://::/data/all.tar"))
    assert [is_in_archive(place) for place in places] == [True, False]
    assert [str(folder_at(where)) for where in ("/data/corpus", "s3://bucket/corpus/")] == [
        "/data/corpus",
        "s3://bucket/corpus",
    ]


@pytest.mark.parametrize(
    ("hide", "text", "shown"),
    [
        (redact_url, "https://me:word@host/a.wav?sig=0", "https://...@host/a.wav?..."),
        (redact_url, "why? me@home.wav", "why? me@home.wav"),
        (redact_url, "s3://bucket/a.wav?token=0&b", "s3://bucket/a.wav?..."),
        (redact_url, "s3://bucket/what?.wav", "s3://bucket/what?.wav"),
        (public_url, "https://me:word@host:80/a.wav?sig=0#t", "https://host:80/a.wav"),
        (public_url, "HTTP://a?b@c:d", "HTTP://a"),
        (display_url, "ftp://me:secret@example.org/a.wav?key=0", "ftp://example.org/a.wav"),
        (display_url, "http:me:sec/ret@example.org/b", "http:example.org/b"),
        (
            lambda text: redact(text, "https://me:word@host/a?sig=0123&v=2"),
            "no such key: 0123 for me",
            "no such key: ... for me",
        ),
        (
            redact_log,
            "s3://me:word@bucket/a failed with aws_secret_key=abc, token: 'xyz'; key of 3 clips",
            "s3://...@bucket/a failed with aws_secret_key=..., token: ...; key of 3 clips",
        ),
    ],
)
def test_secrets_are_redacted(hide, text, shown):
    assert hide(text) == shown


def test_stored_names_of_urls_are_distinct_and_without_secrets():
    names = ["a?b.wav", "https://host/a.wav?sig=0"]
    assert stored_names(names) == {names[1]: "https://host/a.wav"}
    assert sorted(stored_names(["https://host/get?id=1", "https://host/get?id=2"]).values()) == [
        "https://host/get?sha256=61d9790ea0d4a9c1",
        "https://host/get?sha256=6f14a378d45d488c",
    ]


def test_backoff_grows_and_retry_after_is_read():
    assert [network.backoff_seconds(failures) for failures in (1, 3, 50)] == pytest.approx(
        [0.5, 2.0, 60.0], rel=0.25
    )
    date = {"Retry-After": "Sat, 21 Nov 2026 01:00:30 GMT", "Date": "Sat, 21 Nov 2026 01:00:00 GMT"}
    assert [network.retry_after(headers) for headers in ({"Retry-After": "120"}, {}, date)] == [
        120.0,
        None,
        30.0,
    ]


@pytest.mark.parametrize(
    ("required", "waits", "failed_s"),
    [
        ([None, None, None], [0.5, 1.0, 2.0], [0.0, 0.5, 1.0]),
        (["7", None, "0"], [7.0, 1.0, 0.0], [0.0, 0.0, 1.0]),
        ([None, "7", None], [0.5, 7.0, 2.0], [0.0, 0.5, 0.0]),
    ],
    ids=str,
)
def test_a_wait_is_that_of_retry_after_or_else_grows_and_counts_as_failed(
    monkeypatch, required, waits, failed_s
):
    """`required` is the Retry-After of each failure; `failed_s` is what each one is recorded as."""
    place = SimpleNamespace(host="host", network=Network(tries=4))
    failures = [HttpStatusError(503, {"Retry-After": text} if text else {}) for text in required]
    waited = []
    recorded = []

    def request():
        if failures:
            raise failures.pop(0)
        return "content"

    monkeypatch.setattr(network.random, "uniform", lambda *_: 1.0)
    monkeypatch.setattr(
        Network, "failed", lambda _self, _host, seconds, _reason, **_: recorded.append(seconds)
    )
    assert network.with_retries(place, request, wait=waited.append) == "content"
    assert waited == waits
    assert recorded == pytest.approx(failed_s, abs=0.2)


def test_http_status_and_disk_errors_are_read_from_exceptions():
    error = OSError("slow down")
    error.__cause__ = type(
        "ClientError", (Exception,), {"response": {"ResponseMetadata": {"HTTPStatusCode": 503}}}
    )()
    assert (network.http_status(error), network.http_status(OSError("no route"))) == (503, None)
    assert (
        network.one_line_error(OSError("cannot reach https://host/?key=secret"))
        == "cannot reach ..."
    )
    full = (OSError(28, "No space left on device"), OSError(5, "Input/output error"))
    assert [disk_full_reason(each) for each in full] == ["No space left on device", None]


def test_network_limits_come_from_arguments_or_the_environment():
    assert Network.of(timeout=5, max_size="2GB").max_size == 2_000_000_000
    with pytest.raises(InputError, match=r"^tries is 0; it must be a whole number, 1 or more$"):
        Network.of(tries=0)
    with environment(tries=7):
        assert Network.of().tries == 7


def test_symlinks_that_leave_a_folder_are_detected(tmp_path):
    home = trusted_root(tmp_path)
    (home / "inside").symlink_to(home / "a")
    (home / "outside").symlink_to("/etc")
    assert [escapes_folder(home / name, home) for name in ("inside", "outside/passwd")] == [
        False,
        True,
    ]


def test_locks_are_shared_or_exclusive(tmp_path):
    path = tmp_path / "a.lock"
    with path.open("ab") as first, path.open("ab") as second:
        assert lock(first, shared=True)
        assert lock(second, shared=True, wait=False)
        assert not lock(second, wait=False)
    with path.open("ab") as third:
        assert lock(third, wait=False)


@pytest.fixture
def served(tmp_path, monkeypatch):
    monkeypatch.setattr(network, "FIRST_PAUSE_S", 0.001)
    (tmp_path / "www/sub").mkdir(parents=True)
    (tmp_path / "www/a.wav").write_bytes(b"0123456789")
    with serving(tmp_path / "www") as web:
        yield web


def test_credentials_of_netrc_go_to_their_host_alone(served, tmp_path, monkeypatch):
    other = served.url.replace("127.0.0.1", "localhost")
    seen = []

    def note(handler):
        seen.append(
            (handler.headers["Host"].partition(":")[0], handler.headers.get("Authorization"))
        )
        answers(200, b"", Content_Length=7)(handler)

    def move(handler):
        seen.append(
            (handler.headers["Host"].partition(":")[0], handler.headers.get("Authorization"))
        )
        answers(302, Content_Length=0, Location=f"{other}/b.wav")(handler)

    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password word\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    served.acts |= {"HEAD b.wav": note, "HEAD moved.wav": move}
    assert remote(f"{served.url}/moved.wav").status().num_bytes == 7
    assert seen == [("127.0.0.1", "Basic bWU6d29yZA=="), ("localhost", None)]
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password other\n# changed\n")
    assert remote(f"{served.url}/b.wav").status().num_bytes == 7
    assert seen[-1] == ("127.0.0.1", "Basic bWU6b3RoZXI=")


def test_a_listing_takes_only_links_below_its_page(served):
    page = f"<A class='x' HREF='{served.url}/sub/b.wav'>b</A> {served.url}/sub/c.wav"
    page += " <a href='../'>up</a> <a href='/sub/d/'>d</a> <a href='/other'>o</a>"
    served.acts["sub"] = answers(
        200, page.encode(), Content_Length=len(page), Content_Type="text/html; charset=utf8"
    )
    assert HttpFiles(Network()).ls(f"{served.url}/sub/") == [
        f"{served.url}/sub/{name}" for name in ("b.wav", "c.wav", "d/")
    ]


def test_an_archive_on_a_server_without_ranges_is_refused(served, tmp_path):
    with zipfile.ZipFile(served.folder / "all.zip", "w") as file:
        file.writestr("a/b.wav", b"wav" + bytes(5_000_000))
    place = remote(f"zip://a::{served.url}/all.zip") / "b.wav"
    assert place.read(1, 3) == b"av"
    served.ranges = False
    with pytest.raises(
        AudioError, match=r"does not support range requests.*fetch the archive first"
    ):
        (remote(f"zip://::{served.url}/all.zip") / "a/b.wav").status()


def test_an_idle_connection_that_the_server_closed_costs_no_try(served, monkeypatch):
    monkeypatch.setenv("NBAUDIO_TRIES", "1")
    place = remote(f"{served.url}/a.wav")
    for _ in range(20):
        assert place.read(2, 5) == b"234"
        served.acts["HEAD a.wav"] = answers(200, Content_Length=10)  # and the server hangs up
        assert place.status().num_bytes == 10


# locations


@pytest.fixture(params=["local", "remote"])
def place(request, tmp_path, monkeypatch):
    monkeypatch.setattr(network, "FIRST_PAUSE_S", 0.001)
    return location(
        tmp_path / "folder" if request.param == "local" else f"memory://{tmp_path.name}/folder"
    )


def test_local_and_remote_files_have_the_same_methods(place, tmp_path):
    file = place / "a.wav"
    with place.shared(), file.new() as partial:
        partial.write_bytes(b"0123456789")
    assert (file.name, str(file.parent), str(file)) == ("a.wav", str(place), f"{place}/a.wav")
    assert (place.is_folder(), file.is_folder(), file.is_scheme) == (True, False, False)
    status = file.status()
    assert status.num_bytes == 10
    assert file.read(2, 5) == b"234"
    with pytest.raises(AudioError, match=r"/a\.wav: "):
        file.read(5, 11)
    assert (read_whole(file, 10), read_whole(file, 9)) == (b"0123456789", None)
    with file.fetched() as whole, file.fetched(status) as again:
        assert whole.read_bytes() == again.read_bytes() == b"0123456789"
    for name in ("b.wav", "notes.txt"):
        with (place / name).new() as partial:
            partial.write_bytes(b"0123456789")
    assert file.ranges(1, 0.01)[1] is None  # small files are read whole
    found = place.listing(lambda name: name.endswith(".wav"))
    assert found is not None
    assert (list(found[0]), found[1]) == (["a.wav", "b.wav"], [])
    assert list(place.files()) == ["a.wav", "b.wav", "notes.txt"]
    assert pickle.loads(pickle.dumps(file.with_sha256("00"))) == file.with_sha256("00")  # noqa: S301
    file.remove()
    place.tidy()
    assert list(place.files()) == ["b.wav", "notes.txt"]
    assert list((place / "gone").files()) == []


def test_any_path_or_address_is_a_location(tmp_path):
    assert (
        location(tmp_path)
        == location(str(tmp_path))
        == location(tmp_path.as_uri())
        == LocalPath(tmp_path)
    )
    assert location("s3://bucket/a") == remote("s3://bucket/a")
    assert location(remote("s3://bucket/a")).local is None
    with pytest.raises(InputError, match="scheme 'ftp' is unknown"):
        location("ftp://host/a")
