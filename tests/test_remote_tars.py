"""Tars of published datasets over HTTP: how many requests and bytes an audit takes, and that rows
are those of one reading from the start to the end, wherever the reading was divided."""

import io
import json
import random
import re
import tarfile

import pytest
from web import serving

from nbaudio.core.errors import InputError
from nbaudio.formats.published import tar_clips
from nbaudio.formats.published.counted_reads import DatasetFiles
from nbaudio.sources.published import read_published
from nbaudio.ui.statistics.audit import audit

CLIP_BYTES = 20_000
NUM_CLIPS = 40


def add(tar, name, content, **facts):
    """Add a member."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for attribute, value in facts.items():
        setattr(member, attribute, value)
    tar.addfile(member, io.BytesIO(content))


def add_clip(tar, key, number, audio=None):
    """Add the audio and the JSON of a clip; the bytes of the audio are not zero."""
    chance = random.Random(number)
    size = CLIP_BYTES + chance.randrange(CLIP_BYTES // 4)
    add(tar, f"{key}.flac", chance.randbytes(size) if audio is None else audio)
    facts = {"text": f"dobar dan {number}", "speaker": f"s{number % 3}", "duration": 1.5}
    add(tar, f"{key}.json", json.dumps(facts).encode())


def plain(tar):
    for number in range(NUM_CLIPS):
        add_clip(tar, f"clip-{number}", number)


def long_names(tar):
    """Names over 100 bytes, which have headers of their own."""
    for number in range(NUM_CLIPS):
        add_clip(tar, f"d{number % 2}/{'ž' * 120}-{number}", number)


def with_folders_and_links(tar):
    for number in range(NUM_CLIPS):
        add(tar, f"d{number}", b"", type=tarfile.DIRTYPE)
        add_clip(tar, f"d{number}/clip", number)
        add(tar, f"d{number}/link.flac", b"", type=tarfile.SYMTYPE, linkname="clip.flac")


def repeated_keys(tar):
    """Each clip has a text far from its audio."""
    plain(tar)
    for number in range(NUM_CLIPS):
        add(tar, f"clip-{number}.en.txt", f"good day {number}".encode())


def tars_inside(tar):
    """Audio that is a tar itself, with headers where headers may be."""
    for number in range(NUM_CLIPS):
        inside = io.BytesIO()
        with tarfile.open(fileobj=inside, mode="w") as inner:
            for wrong in range(3 + number * 3 % 7):
                add(inner, f"wrong-{wrong}.flac", bytes(6000))
        add_clip(tar, f"clip-{number}", number, audio=inside.getvalue())


MEMBERS = {
    "plain": (plain, tarfile.USTAR_FORMAT),
    "long names, PAX": (long_names, tarfile.PAX_FORMAT),
    "long names, GNU": (long_names, tarfile.GNU_FORMAT),
    "folders and links": (with_folders_and_links, tarfile.PAX_FORMAT),
    "repeated keys": (repeated_keys, tarfile.USTAR_FORMAT),
    "tars inside": (tars_inside, tarfile.USTAR_FORMAT),
}


def write_tar(path, members="plain", **options):
    """Write a tar of some kind of members."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write, tar_format = MEMBERS[members]
    with tarfile.open(path, "w", format=tar_format, **options) as tar:
        write(tar)
    return path


def rows_of(place):
    """The rows of a dataset: id, text, speaker and where the audio is."""
    rows = read_published(DatasetFiles.at(place)).rows
    return rows.select("source_id", "text", "speaker_id", "clip").rows()


def expected_rows(path):
    """The rows of a tar as tarfile reads it from the start to the end."""
    clips = {}
    with tarfile.open(path) as tar:
        for member in tar:
            match = re.fullmatch(r"((?:.*/)?[^./]+)\.(.+)", member.name)
            if not match or not member.isfile():
                continue
            clip = clips.setdefault(match[1], {"text": None, "speaker": None, "clip": None})
            if match[2] == "flac":
                start = member.offset_data
                clip["clip"] = f"{path.name}#{start}-{start + member.size}.flac"
            elif match[2] == "json":
                clip |= json.load(tar.extractfile(member))
                clips[match[1]] = clip
            else:
                clip["text"] = tar.extractfile(member).read().decode()
    return [(key, clip["text"], clip["speaker"], clip["clip"]) for key, clip in clips.items()]


@pytest.fixture
def short_spans(monkeypatch):
    """Tars are divided after every few clips."""
    monkeypatch.setattr(tar_clips, "_FIRST_CLIPS", 3)
    monkeypatch.setattr(tar_clips, "_CLIPS_OF_SPAN", 5)


def test_a_clip_takes_one_request_of_less_than_two_kilobytes(tmp_path):
    write_tar(tmp_path / "D/train-000000.tar")
    with serving(tmp_path) as web:
        report = audit(f"{web.url}/D")
        requests = web.asked["GET", "train-000000.tar"]
    assert report.facts["rows"] == NUM_CLIPS
    # The first windows are longer, as nothing is known of the tar yet.
    assert requests <= NUM_CLIPS + 4
    assert report.facts["bytes_read"] <= NUM_CLIPS * 1700


def test_spans_of_a_tar_are_read_at_once(tmp_path, short_spans):
    path = write_tar(tmp_path / "D/train-000000.tar")
    with serving(tmp_path) as web:
        rows = rows_of(f"{web.url}/D/train-000000.tar")
        requests = web.asked["GET", "train-000000.tar"]
    assert rows == expected_rows(path)
    # A search for each of the spans, and the window at its start.
    assert NUM_CLIPS < requests <= NUM_CLIPS + 2 + 3 * (NUM_CLIPS // 5)


def test_short_clips_are_read_many_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr("test_remote_tars.CLIP_BYTES", 2000)
    path = write_tar(tmp_path / "D/train-000000.tar")
    with serving(tmp_path) as web:
        assert rows_of(f"{web.url}/D/train-000000.tar") == expected_rows(path)
        assert web.asked["GET", "train-000000.tar"] < NUM_CLIPS / 2


@pytest.mark.parametrize("members", MEMBERS)
def test_rows_are_those_of_one_reading(tmp_path, short_spans, members):
    path = write_tar(tmp_path / "train.tar", members)
    expected = expected_rows(path)
    assert len(expected) == NUM_CLIPS
    assert rows_of(path) == expected


def test_global_headers_apply_to_all_members(tmp_path, short_spans):
    path = write_tar(tmp_path / "train.tar", "long names, PAX", pax_headers={"comment": "x" * 600})
    assert rows_of(path) == expected_rows(path)


def test_members_behind_the_end_mark_are_no_clips(tmp_path, short_spans):
    path = write_tar(tmp_path / "train.tar")
    expected = expected_rows(path)
    path.write_bytes(path.read_bytes() * 2)
    assert rows_of(path) == expected


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_truncated_tar_is_a_problem(tmp_path, short_spans, share):
    path = write_tar(tmp_path / "D/train-000000.tar")
    write_tar(tmp_path / "D/train-000001.tar")
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    published = read_published(DatasetFiles.at(tmp_path / "D"))
    assert len(published.rows) == NUM_CLIPS
    line = "train-000000.tar: cannot be read as a tar (unexpected end of data)"
    assert published.problems == [line]


def test_a_server_without_ranges_is_an_error_of_one_line(tmp_path):
    write_tar(tmp_path / "train-000000.tar")
    with serving(tmp_path) as web:
        web.ranges = False
        with pytest.raises(InputError, match="does not support range requests"):
            audit(f"{web.url}/train-000000.tar")


def test_a_span_that_cannot_be_read_is_read_once_more(tmp_path, short_spans, monkeypatch):
    """A server refuses many requests at once, and then none."""
    path = write_tar(tmp_path / "train.tar")
    read = DatasetFiles.read
    refused = []

    def refuse_some(files, name, start, stop):
        if len(refused) < 4 and start > CLIP_BYTES * NUM_CLIPS // 2:
            refused.append(start)
            raise InputError("too many requests")
        return read(files, name, start, stop)

    monkeypatch.setattr(DatasetFiles, "read", refuse_some)
    assert rows_of(path) == expected_rows(path)
    assert len(refused) == 4
