"""Archives that are damaged, truncated or longer than their end marker says."""

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile

import pytest
from specimens import tone

import nbaudio
from nbaudio import Workspace
from nbaudio.core.errors import InputError
from nbaudio.sources.detection import detect_source
from nbaudio.storage import archives

CHAPTERS = 8
COMPRESS = {
    "tar": bytes,
    "tar.gz": lambda data: gzip.compress(data, mtime=0),
    "tar.bz2": bz2.compress,
    "tar.xz": lzma.compress,
}
COMPRESSED = [ending for ending in COMPRESS if ending != "tar"]


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """The bytes of one recording."""
    path = tmp_path_factory.mktemp("clip") / "a.flac"
    tone(path, 1)
    return path.read_bytes()


def tar_of(members):
    """A tar of names and their bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def chapters_of(clip):
    """Chapters of LibriSpeech, each with one recording of one utterance."""
    members = {}
    for number in range(CHAPTERS):
        folder = f"L/dev-clean/{number}/1"
        members[f"{folder}/{number}-1-0000.flac"] = clip
        members[f"{folder}/{number}-1.trans.txt"] = f"{number}-1-0000 DA {number}\n".encode()
    return members


def offset_of(tar, name):
    with tarfile.open(fileobj=io.BytesIO(tar)) as archive:
        return archive.getmember(name).offset


def with_damaged_header(tar, name):
    """The tar with another byte in the header of one member."""
    place = offset_of(tar, name) + 100
    return tar[:place] + bytes([tar[place] ^ 1]) + tar[place + 1 :]


def segment_ids(workspace):
    return Workspace.open(workspace).segments["segment_id"].to_list()


def written(folder, ending, tar):
    path = folder / f"x.{ending}"
    path.write_bytes(COMPRESS[ending](tar))
    return path


@pytest.mark.parametrize("ending", COMPRESS)
def test_an_intact_archive_is_ingested_without_problems(tmp_path, clip, ending):
    archive = written(tmp_path, ending, tar_of(chapters_of(clip)))
    report = nbaudio.ingest("librispeech", archive, out=tmp_path / "W")
    assert len(segment_ids(tmp_path / "W")) == CHAPTERS
    assert report.problems == []
    assert "not_read" not in report.facts
    assert detect_source(archive).layout.format == "librispeech"


@pytest.mark.parametrize("ending", COMPRESS)
def test_files_after_a_damaged_tar_header_are_read_and_lost_ones_counted(tmp_path, clip, ending):
    tar = with_damaged_header(tar_of(chapters_of(clip)), "L/dev-clean/2/1/2-1.trans.txt")
    archive = written(tmp_path, ending, tar)
    report = nbaudio.ingest("librispeech", archive, out=tmp_path / "W")
    expected = [f"{number}-1-0000" for number in range(CHAPTERS) if number != 2]
    assert sorted(segment_ids(tmp_path / "W")) == expected
    assert f"x.{ending} as a whole: 1 header is damaged: " in "\n".join(report.problems)
    assert any("2-1-0000.flac" in line for line in report.problems)  # without a transcript
    [lost] = report.facts["not_read"]
    assert (lost["what"], lost["count"]) == (f"files of x.{ending} with a damaged header", 1)


def test_zeros_in_a_lost_file_are_not_taken_for_the_end_marker(tmp_path, clip):
    members = {"L/dev-clean/0/1/silence.bin": bytes(10_000), **chapters_of(clip)}
    members = {"L/a.bin": b"a", **members}
    tar = with_damaged_header(tar_of(members), "L/dev-clean/0/1/silence.bin")
    report = nbaudio.ingest("librispeech", written(tmp_path, "tar", tar), out=tmp_path / "W")
    assert len(segment_ids(tmp_path / "W")) == CHAPTERS
    assert all("damaged" in line for line in report.problems)  # no recording lacks its text


@pytest.mark.parametrize("ending", COMPRESSED)
def test_a_compressed_archive_with_an_altered_byte_is_refused(tmp_path, clip, ending):
    packed = bytearray(COMPRESS[ending](tar_of(chapters_of(clip))))
    for place in range(len(packed) // 8, len(packed) - 40, len(packed) // 8):
        altered = bytes(packed[:place]) + bytes([packed[place] ^ 16]) + bytes(packed[place + 1 :])
        (tmp_path / f"x.{ending}").write_bytes(altered)
        with pytest.raises(InputError, match=r"may be altered; fetch it again|truncated"):
            nbaudio.ingest("librispeech", tmp_path / f"x.{ending}", out=tmp_path / "W")


def test_a_gzip_is_unpacked_twice_once_for_the_texts_and_once_for_the_recordings(
    tmp_path, clip, monkeypatch
):
    opened = []

    def counting(*arguments):
        opened.append(arguments)
        return gzip.open(*arguments)

    monkeypatch.setitem(archives._OPEN, b"\x1f\x8b", counting)
    written(tmp_path, "tar.gz", tar_of(chapters_of(clip)))
    nbaudio.ingest("librispeech", tmp_path / "x.tar.gz", out=tmp_path / "W")
    assert len(opened) == 2
    assert len(Workspace.open(tmp_path / "W").recordings) == CHAPTERS


def test_a_damaged_recording_in_an_archive_is_named_by_its_place_there(tmp_path, clip):
    members = chapters_of(clip)
    name = "L/dev-clean/3/1/3-1-0000.flac"
    members[name] = b"fLaC" + bytes(400)
    written(tmp_path, "tar.gz", tar_of(members))
    report = nbaudio.ingest("librispeech", tmp_path / "x.tar.gz", out=tmp_path / "W")
    [problem] = report.problems
    assert name.removeprefix("L/") in problem
    assert "damaged or truncated" in problem
    assert "/proc/" not in problem
    recordings = Workspace.open(tmp_path / "W").recordings
    assert recordings["num_samples"].null_count() == 1


def test_the_checksum_of_a_gzip_is_verified(tmp_path, clip):
    packed = gzip.compress(tar_of(chapters_of(clip)), mtime=0)
    wrong = packed[:-8] + bytes([packed[-8] ^ 1]) + packed[-7:]
    (tmp_path / "x.tgz").write_bytes(wrong)
    with pytest.raises(InputError, match=r"x\.tgz: .*may be altered; fetch it again \(CRC"):
        nbaudio.ingest("librispeech", tmp_path / "x.tgz", out=tmp_path / "W")
    assert not (tmp_path / "W/segments.parquet").exists()


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
def test_of_concatenated_archives_the_first_is_read_and_the_rest_reported(tmp_path, clip, ending):
    chapters = list(chapters_of(clip).items())
    parts = [tar_of(dict(chapters[:4])), tar_of(dict(chapters[4:]))]
    archive = tmp_path / f"x.{ending}"
    archive.write_bytes(b"".join(map(COMPRESS[ending], parts)))
    report = nbaudio.ingest("librispeech", archive, out=tmp_path / "W")
    assert sorted(segment_ids(tmp_path / "W")) == ["0-1-0000", "1-1-0000"]
    [rest] = report.facts["not_read"]
    assert rest["what"] == f"what follows the end marker of x.{ending}"
    assert "--ignore-zeros" in rest["option"]


def test_bytes_after_the_end_of_a_gzip_are_reported_as_not_read(tmp_path, clip):
    packed = gzip.compress(tar_of(chapters_of(clip)), mtime=0)
    (tmp_path / "x.tar.gz").write_bytes(packed + b"signature")
    report = nbaudio.ingest("librispeech", tmp_path / "x.tar.gz", out=tmp_path / "W")
    assert len(segment_ids(tmp_path / "W")) == CHAPTERS
    assert report.facts["not_read"][0]["what"] == "what follows the end marker of x.tar.gz"


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
def test_an_archive_that_ends_between_two_files_may_be_truncated(tmp_path, clip, ending):
    tar = tar_of(chapters_of(clip))
    archive = written(tmp_path, ending, tar[: offset_of(tar, "L/dev-clean/3/1/3-1-0000.flac")])
    report = nbaudio.ingest("librispeech", archive, out=tmp_path / "W")
    assert sorted(segment_ids(tmp_path / "W")) == ["0-1-0000", "1-1-0000", "2-1-0000"]
    assert "its end marker is missing: it may be truncated" in "\n".join(report.problems)


@pytest.mark.parametrize("ending", ["tar", "tar.gz"])
def test_recordings_behind_a_damaged_header_are_read_and_the_damage_is_a_problem(
    tmp_path, clip, ending
):
    tar = with_damaged_header(tar_of({f"{name}.flac": clip for name in "abcd"}), "b.flac")
    archive = written(tmp_path, ending, tar)
    report = nbaudio.ingest("folder", f"tar://::{archive}", out=tmp_path / "W")
    recordings = Workspace.open(tmp_path / "W").recordings
    assert sorted(recordings["path"]) == ["a.flac", "c.flac", "d.flac"]
    assert recordings["num_samples"].null_count() == 0
    assert f"x.{ending}: " in report.problems[0]
    assert "damaged: the file" in report.problems[0]


def test_recordings_behind_the_end_marker_are_a_problem(tmp_path, clip):
    parts = [tar_of({f"{name}.flac": clip}) for name in "ab"]
    (tmp_path / "x.tar").write_bytes(b"".join(parts))
    report = nbaudio.ingest("folder", f"tar://::{tmp_path}/x.tar", out=tmp_path / "W")
    assert Workspace.open(tmp_path / "W").recordings["path"].to_list() == ["a.flac"]
    assert "what follows its end marker is not read" in "\n".join(report.problems)


def test_a_recording_of_a_zip_with_a_wrong_checksum_is_a_problem(tmp_path, clip):
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for name in "ab":
            packed.writestr(f"{name}.flac", clip)
    data = archive.read_bytes()
    place = data.rindex(b"b.flac", 0, len(data) // 2 + len(clip)) + len(clip) // 2
    archive.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    report = nbaudio.ingest("folder", f"zip://::{archive}", out=tmp_path / "W")
    recordings = Workspace.open(tmp_path / "W").recordings
    assert dict(recordings.select("path", "num_samples").iter_rows())["b.flac"] is None
    assert "CRC" in "\n".join(report.problems)


def test_a_zip_without_its_end_is_refused_in_one_line(tmp_path, clip):
    archive = tmp_path / "x.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("a.flac", clip)
    archive.write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"x\.zip.*not a zip file"):
        nbaudio.ingest("folder", f"zip://::{archive}", out=tmp_path / "W")


def cuts_of(tmp_path):
    """The bytes of Lhotse's cuts, 30 lines with one text each, beside their recording."""
    tone(tmp_path / "a.wav", 40)
    recording = {
        "id": "a",
        "sources": [{"type": "file", "channels": [0], "source": "a.wav"}],
        "sampling_rate": 8000,
        "num_samples": 320_000,
        "duration": 40.0,
    }
    cuts = []
    for number in range(30):
        supervision = {
            "id": f"s{number}",
            "recording_id": "a",
            "start": 0.0,
            "duration": 1.0,
            "text": f"sentence {number * number}",
        }
        cut = {"id": f"c{number}", "start": float(number), "recording": recording}
        cuts.append(json.dumps(cut | {"supervisions": [supervision]}) + "\n")
    return "".join(cuts).encode()


def test_a_compressed_manifest_with_altered_bytes_is_never_read(tmp_path):
    cuts = cuts_of(tmp_path)
    packed = gzip.compress(cuts, mtime=0)
    for place in range(20, len(packed) - 8, len(packed) // 12):
        altered = packed[:place] + bytes([packed[place] ^ 4]) + packed[place + 1 :]
        (tmp_path / "cuts.jsonl.gz").write_bytes(altered)
        with pytest.raises(InputError, match="any line may be altered; fetch it again"):
            nbaudio.ingest("lhotse", tmp_path / "cuts.jsonl.gz", out=tmp_path / "W")


@pytest.mark.parametrize(
    ("change", "number"),
    [
        (lambda packed: packed[: len(packed) // 2], None),
        (lambda packed: packed[:-4], 30),
        (lambda packed: packed + b"signature", 30),
    ],
)
def test_a_truncated_compressed_manifest_is_read_up_to_the_break(tmp_path, change, number):
    packed = gzip.compress(cuts_of(tmp_path), mtime=0)
    (tmp_path / "cuts.jsonl.gz").write_bytes(change(packed))
    report = nbaudio.ingest("lhotse", tmp_path / "cuts.jsonl.gz", out=tmp_path / "W")
    texts = Workspace.open(tmp_path / "W").segments["text"].to_list()
    assert 0 < len(texts) == (number or len(texts))
    assert texts == [f"sentence {number * number}" for number in range(len(texts))]
    assert "cannot be read on" in "\n".join(report.problems)
