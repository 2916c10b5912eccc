"""Redirects from public servers to private addresses.

A server at 127.0.0.2 stands for a public one: `is_private` says so, all else is real.
"""

import ipaddress
import json
import shutil
from urllib.parse import urlsplit

import polars as pl
import pytest
from web import answers, serving

import nbaudio
from nbaudio import Workspace
from nbaudio.core.errors import AudioError
from nbaudio.storage import hub, network, private_hosts
from nbaudio.storage.network import RedirectError
from nbaudio.storage.remote import remote

PUBLIC = "127.0.0.2"
REASON = "it redirects from a public server to a private address, which is refused"


@pytest.fixture(autouse=True)
def public_host(monkeypatch):
    """Let one address of this machine count as public, and let no proxy be there."""
    is_private = private_hosts.is_private

    def is_private_here(address):
        return str(address) != PUBLIC and is_private(address)

    monkeypatch.setattr(private_hosts, "is_private", is_private_here)
    monkeypatch.setattr(network, "FIRST_PAUSE_S", 0.01)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def inside(tmp_path, recorded):
    """A server of a private network, with a recording."""
    (tmp_path / "inside").mkdir()
    shutil.copy(recorded(".wav", 2, 8000, channels=1), tmp_path / "inside/a.wav")
    with serving(tmp_path / "inside") as web:
        yield web


@pytest.fixture
def public(tmp_path):
    (tmp_path / "public").mkdir()
    with serving(tmp_path / "public", host=PUBLIC) as web:
        yield web


def redirect(web, name, target):
    """Redirect all requests for a name."""
    for request in (name, f"HEAD {name}"):
        web.acts[request] = answers(302, Content_Length=0, Location=target, Connection="close")


def reason_of_download(url, tmp_path):
    (tmp_path / "list.jsonl").write_text(json.dumps({"url": url}) + "\n")
    report = nbaudio.download(tmp_path / "list.jsonl", out=tmp_path / "out", per_second=1000)
    return report.problems[0] if report.problems else None


def reason_of_ingest(url, tmp_path):
    words = ["dobar", "dan"]
    row = {"file": "a.wav", "start": 0.25, "end": 1.5, "words": words, "asr": words}
    (tmp_path / "asr.json").write_text(json.dumps(row) + "\n")
    folder = url.removesuffix("/a.wav")
    nbaudio.ingest("parlaspeech", tmp_path / "asr.json", audio=folder, out=tmp_path / "W")
    problems = Workspace.open(tmp_path / "W").table("problems")
    reasons = problems.filter(pl.col("reason").str.contains("://"))["reason"].to_list()
    return reasons[0] if reasons else None


def reason_of_range(url, tmp_path):
    try:
        remote(url).read(100, 200)
    except AudioError as error:
        return str(error)
    return None


def reason_of_source(url, tmp_path):
    try:
        nbaudio.ingest("table", url, out=tmp_path / "W")
    except nbaudio.NbaudioError as error:
        return str(error)
    return None


DOORS = [reason_of_download, reason_of_ingest, reason_of_range, reason_of_source]
HOSTS = ["127.0.0.1", "localhost", "LOCALHOST.", "2130706433", "0177.0.0.1", "0x7f.1", "127.1"]
HOSTS += ["[::ffff:127.0.0.1]", "[::1]", "0.0.0.0", "169.254.169.254", "10.0.0.1", "[fe80::1]"]  # noqa: S104


@pytest.mark.parametrize("door", DOORS)
def test_a_public_server_redirects_to_no_private_one(door, public, inside, tmp_path):
    redirect(public, "a.wav", f"{inside.url}/a.wav")
    reason = door(f"{public.url}/a.wav", tmp_path)
    assert reason.endswith(REASON)
    assert "\n" not in reason
    assert not inside.asked
    assert public.asked["GET", "a.wav"] + public.asked["HEAD", "a.wav"] == 1


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("door", [reason_of_download, reason_of_range])
def test_private_hosts_are_recognized_however_they_are_written(
    door, host, public, inside, tmp_path
):
    redirect(public, "a.wav", f"http://{host}:{urlsplit(inside.url).port}/a.wav")
    assert door(f"{public.url}/a.wav", tmp_path).endswith(REASON)
    assert not inside.ports


def test_a_second_public_redirect_does_not_allow_a_private_target(public, inside, tmp_path):
    redirect(public, "a.wav", f"{public.url}/b.wav")
    redirect(public, "b.wav", f"{inside.url}/a.wav")
    for door in (reason_of_download, reason_of_range):
        assert door(f"{public.url}/a.wav", tmp_path).endswith(REASON)
    assert not inside.ports


def test_a_name_that_changes_its_address_after_the_check_gets_no_request(
    public, inside, tmp_path, monkeypatch
):
    monkeypatch.setattr(private_hosts, "check_redirect", lambda *_, **__: None)
    redirect(public, "a.wav", f"{inside.url}/a.wav")
    for door in (reason_of_download, reason_of_range):
        assert door(f"{public.url}/a.wav", tmp_path).endswith(REASON)
    assert not inside.ports


@pytest.mark.parametrize("door", [reason_of_download, reason_of_ingest, reason_of_range])
def test_redirects_among_public_or_among_private_servers_are_followed(
    door, public, inside, tmp_path, recorded
):
    wav = recorded(".wav", 2, 8000, channels=1)
    shutil.copy(wav, public.folder / "moved.wav")
    redirect(public, "a.wav", f"{public.url}/moved.wav")
    assert door(f"{public.url}/a.wav", tmp_path) is None
    shutil.copy(wav, inside.folder / "moved.wav")
    redirect(inside, "a.wav", f"http://localhost:{urlsplit(inside.url).port}/moved.wav")
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    shutil.rmtree(tmp_path / "W", ignore_errors=True)
    assert door(f"{inside.url}/a.wav", tmp_path) is None


def test_a_private_server_that_a_list_names_may_redirect_by_a_public_one(public, inside, tmp_path):
    shutil.copy(inside.folder / "a.wav", inside.folder / "moved.wav")
    redirect(inside, "a.wav", f"{public.url}/a.wav")
    redirect(public, "a.wav", f"{inside.url}/moved.wav")
    for door in (reason_of_download, reason_of_range):
        assert door(f"{inside.url}/a.wav", tmp_path) is None


def test_behind_a_proxy_addresses_are_refused_and_names_left_to_it(public, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", public.url)
    public.acts["named"] = answers(302, Content_Length=0, Location="http://10.0.0.1/a.wav")
    public.acts["far"] = answers(302, Content_Length=0, Location="http://other.invalid/b.wav")
    public.acts["b.wav"] = answers(200, b"bytes", Content_Length=5)
    assert reason_of_download("http://files.invalid/named", tmp_path).endswith(REASON)
    assert not public.asked["GET", "a.wav"]
    assert reason_of_download("http://files.invalid/far", tmp_path) is None
    assert public.asked["GET", "b.wav"] == 1


def test_redirects_of_huggingface_hub_requests_are_checked(public, inside, monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    from huggingface_hub import get_session

    monkeypatch.setattr(constants, "ENDPOINT", public.url)
    hub._prepare(5)
    monkeypatch.setenv("no_proxy", "example.org")
    redirect(public, "a.wav", f"{inside.url}/a.wav")
    with pytest.raises(RedirectError, match="private address"):
        get_session().get(f"{public.url}/a.wav")
    assert not inside.ports
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.3")
    assert get_session().get(f"{public.url}/a.wav").status_code == 200


PRIVATE = ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"]
PRIVATE += ["0.0.0.0", "224.0.0.1", "::1", "::", "fe80::1", "fc00::1", "fec0::1", "ff02::1"]  # noqa: S104
PRIVATE += [
    "::ffff:10.0.0.1",
    "::127.0.0.1",
    "::ffff:0:127.0.0.1",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
]
PUBLIC_ADDRESSES = ["8.8.8.8", "2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::808:808", "172.32.0.1"]


def test_private_ip_addresses_are_recognized():
    parse = ipaddress.ip_address
    assert {each: private_hosts.is_private(parse(each)) for each in PRIVATE} == dict.fromkeys(
        PRIVATE, True
    )
    assert not any(private_hosts.is_private(parse(each)) for each in PUBLIC_ADDRESSES)
