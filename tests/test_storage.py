"""Atomic files, hashes, locks and HTTP of `nbaudio.storage`."""

import zipfile

import polars as pl
import pytest
from web import answers, serving

from nbaudio.core.errors import AudioError, InputError
from nbaudio.storage import retry
from nbaudio.storage.atomic import JsonRows, append_lines, parse_lines, read_json, read_lines, sha256_listed, write_json
from nbaudio.storage.http import HttpFiles
from nbaudio.storage.locks import lock
from nbaudio.storage.network import Network
from nbaudio.storage.remote import remote


def test_rows_of_a_frame_are_written_as_objects(tmp_path):
    write_json(tmp_path / "a.json", {"rows": JsonRows(pl.DataFrame({"n": [1, 2]}))})
    assert read_json(tmp_path / "a.json") == {"rows": [{"n": 1}, {"n": 2}]}
    with pytest.raises(InputError, match="cannot be read"):
        read_json(tmp_path / "b.json")


def test_the_hash_of_a_list_of_files_does_not_depend_on_their_order():
    assert sha256_listed({"b": "11", "a": "00"}) == sha256_listed({"a": "00", "b": "11"})


def test_half_a_line_at_the_end_of_a_log_is_dropped(tmp_path):
    log = tmp_path / "a.jsonl"
    append_lines(log, [b'{"n": 1}'])
    with log.open("ab") as file:
        file.write(b'{"n": 2')
    assert read_lines(log, bytes, "bytes") == [b'{"n": 1}']
    append_lines(log, [b'{"n": 3}', b"[4]", b"no"])
    assert log.read_bytes() == b'{"n": 1}\n{"n": 3}\n[4]\nno\n'
    assert list(parse_lines(log.read_bytes())) == [{"n": 1}, {"n": 3}]


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
    monkeypatch.setattr(retry, "FIRST_PAUSE_S", 0.001)
    (tmp_path / "www/sub").mkdir(parents=True)
    (tmp_path / "www/a.wav").write_bytes(b"0123456789")
    with serving(tmp_path / "www") as web:
        yield web


def test_credentials_of_netrc_go_to_their_host_alone(served, tmp_path, monkeypatch):
    other = served.url.replace("127.0.0.1", "localhost")
    seen = []

    def note(handler):
        seen.append((handler.headers["Host"].partition(":")[0], handler.headers.get("Authorization")))
        answers(200, b"", Content_Length=7)(handler)

    def move(handler):
        seen.append((handler.headers["Host"].partition(":")[0], handler.headers.get("Authorization")))
        answers(302, Content_Length=0, Location=f"{other}/b.wav")(handler)

    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password word\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    served.acts |= {"HEAD b.wav": note, "HEAD moved.wav": move}
    assert remote(f"{served.url}/moved.wav").status().num_bytes == 7
    assert seen == [("127.0.0.1", "Basic bWU6d29yZA=="), ("localhost", None)]


def test_links_of_a_page_below_it(served):
    page = f"<A class='x' HREF='{served.url}/sub/b.wav'>b</A> {served.url}/sub/c.wav"
    page += " <a href='../'>up</a> <a href='/sub/d/'>d</a> <a href='/other'>o</a>"
    served.acts["sub"] = answers(200, page.encode(), Content_Length=len(page), Content_Type="text/html; charset=utf8")
    assert HttpFiles(Network()).ls(f"{served.url}/sub/") == [f"{served.url}/sub/{name}" for name in ("b.wav", "c.wav", "d/")]


def test_a_server_of_archives_needs_ranges(served, tmp_path):
    with zipfile.ZipFile(served.folder / "all.zip", "w") as file:
        file.writestr("a/b.wav", b"wav" + bytes(5_000_000))
    place = remote(f"zip://a::{served.url}/all.zip") / "b.wav"
    assert place.read(1, 3) == b"av"
    served.ranges = False
    with pytest.raises(AudioError, match=r"serves no ranges.*fetch the archive first"):
        (remote(f"zip://::{served.url}/all.zip") / "a/b.wav").status()


def test_an_idle_connection_that_the_server_closed_costs_no_try(served, monkeypatch):
    monkeypatch.setenv("NBAUDIO_TRIES", "1")
    place = remote(f"{served.url}/a.wav")
    for _ in range(20):
        assert place.read(2, 5) == b"234"
        served.acts["HEAD a.wav"] = answers(200, Content_Length=10)  # and the server hangs up
        assert place.status().num_bytes == 10
