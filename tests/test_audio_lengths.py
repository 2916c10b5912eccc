"""Lengths in headers: placeholders, zeros, lengths that wrap, and sound behind the declared end."""

import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import soundfile as sf
from conftest import sweeps

import nbaudio
from nbaudio.audio import open_recording, probe

RATE = 8000
SECONDS = 3
NO_LENGTH = "its header has no length, as from a pipe or a crash: read to the end of the file"


class Container(NamedTuple):
    """Where a container has the length of its sound.

    Attributes:
        format: of libsndfile.
        offset: of the length in the file; None where it is behind the name of a chunk.
        code: of `struct`.
        extra: bytes of the chunk that count but are no sound.
        endian: of libsndfile.
    """

    format: str
    offset: int | None
    code: str
    extra: int = 0
    endian: str = "FILE"


CONTAINERS = {
    "wav": Container("WAV", None, "<I"),
    "rifx": Container("WAV", None, ">I", endian="BIG"),
    "wavex": Container("WAVEX", None, "<I"),
    "rf64": Container("RF64", 28, "<Q"),
    "w64": Container("W64", None, "<Q", 24),
    "aiff": Container("AIFF", None, ">I", 8),
    "au": Container("AU", 8, ">I"),
    "au_little": Container("AU", 8, "<I", endian="LITTLE"),
    "caf": Container("CAF", None, ">q", 4),
    "caf_little": Container("CAF", None, ">q", 4, endian="LITTLE"),
}


def write_whole(path: Path, name: str, subtype: str) -> bytearray:
    """Write a file with a true header; return its bytes."""
    container = CONTAINERS[name]
    samples = sweeps(SECONDS, RATE)
    sf.write(path, samples, RATE, format=container.format, subtype=subtype, endian=container.endian)
    return bytearray(path.read_bytes())


def set_length(content: bytearray, name: str, length: int) -> None:
    """Write the length of the sound, in bytes, into a header."""
    container = CONTAINERS[name]
    mark = b"SSND" if container.format == "AIFF" else b"data"
    name_bytes = 16 if container.format == "W64" else 4
    offset = container.offset or content.index(mark) + name_bytes
    limit = 1 << 8 * struct.calcsize(container.code)
    value = length + container.extra if 0 <= length < limit - container.extra else length
    struct.pack_into(container.code, content, offset, value)


def samples_of(path: Path) -> np.ndarray:
    """Return all samples; a decoder of FFmpeg gives floats."""
    with open_recording(path) as recording:
        samples = recording.read(0, 2 * SECONDS * RATE)
        is_16_bit = recording.codec == "pcm_s16be"
        return (samples * 32768).astype(np.int16) if is_16_bit else samples


def check_equal(whole: Path, damaged: Path) -> None:
    """Compare two files as wholes and in windows in any order."""
    expected = samples_of(whole)
    np.testing.assert_array_equal(samples_of(damaged), expected)
    with open_recording(damaged) as recording:
        assert recording.sampling_rate == RATE
        for start in (20000, 3, 9999, 20001, 0):
            window = recording.read(start, start + 500)
            scale = 32768 if window.dtype != expected.dtype else 1
            np.testing.assert_array_equal(window * scale, expected[start : start + 500])


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT", "ULAW"])
@pytest.mark.parametrize("name", CONTAINERS)
def test_a_header_with_length_zero_is_read_to_the_end(
    tmp_path: Path, name: str, subtype: str
) -> None:
    whole = tmp_path / "whole"
    content = write_whole(whole, name, subtype)
    set_length(content, name, 0)
    (tmp_path / "zero").write_bytes(content)
    assert probe(whole).warning is None
    found = probe(tmp_path / "zero")
    assert (found.num_samples, found.num_channels) == (SECONDS * RATE, 2)
    assert found.warning == NO_LENGTH
    check_equal(whole, tmp_path / "zero")


@pytest.mark.parametrize(
    ("name", "placeholder", "warning"),
    [
        ("wav", 0xFFFFFFFF, NO_LENGTH),
        ("wav", 0xFFFFFFFF - 36, NO_LENGTH),
        ("wav", 0x7FFFFFFF, NO_LENGTH),
        ("wav", 0x7FFFF000, NO_LENGTH),
        ("wav", 0x80000000, NO_LENGTH),
        ("wavex", 0xFFFFFFFF, NO_LENGTH),
        ("aiff", 0x7FFFF000, NO_LENGTH),
        ("w64", 0x7FFFFFFFFFFFFFFF, NO_LENGTH),
        ("au", 0xFFFFFFFF, None),
        ("caf", -1, None),
    ],
)
def test_placeholder_lengths_of_piped_files_are_no_truncation(
    tmp_path: Path, name: str, placeholder: int, warning: str | None
) -> None:
    whole = tmp_path / "whole"
    content = write_whole(whole, name, "PCM_16")
    set_length(content, name, placeholder)
    (tmp_path / "pipe").write_bytes(content)
    found = probe(tmp_path / "pipe")
    assert (found.num_samples, found.warning) == (SECONDS * RATE, warning)
    check_equal(whole, tmp_path / "pipe")


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_header_longer_than_the_data_is_reported_as_truncation(tmp_path: Path, name: str) -> None:
    content = write_whole(tmp_path / "whole", name, "PCM_16")
    set_length(content, name, 10 * RATE * 4)
    (tmp_path / "long").write_bytes(content)
    found = probe(tmp_path / "long")
    assert found.num_samples == SECONDS * RATE
    truncated = "truncated: the header declares 10.0 s, 3.0 s can be decoded"
    assert found.warning == truncated


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_second_file_appended_to_a_recording_gives_a_warning(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a"
    content = write_whole(path, name, "PCM_16")
    path.write_bytes(content + content)
    assert str(probe(path).warning).startswith("its header declares 3.0 s; 3.")


@pytest.mark.parametrize("name", CONTAINERS)
def test_sound_after_the_declared_end_gives_a_warning(tmp_path: Path, name: str) -> None:
    content = write_whole(tmp_path / "whole", name, "PCM_16")
    set_length(content, name, RATE * 4)
    (tmp_path / "short").write_bytes(content)
    found = probe(tmp_path / "short")
    is_read = name == "w64"  # libsndfile does not look at the length
    assert found.num_samples == (SECONDS if is_read else 1) * RATE
    what = "are read, too" if is_read else "are not read"
    assert found.warning == f"its header declares 1.0 s; 2.0 s behind that {what}"


def chunk(name: bytes, content: bytes) -> bytes:
    return name + struct.pack("<I", len(content)) + content + bytes(len(content) % 2)


@pytest.mark.parametrize(
    "trailer",
    [
        chunk(b"LIST", b"INFOISFT" + struct.pack("<I", 4) + b"abcd") + chunk(b"id3 ", b"x" * 31),
        chunk(b"abcd", b"12345") + chunk(b"bext", b"\0" * 602),
        chunk(b"LIST", b"x" * 1000)[:500],  # truncated within the metadata
        chunk(b"iXML", b"<BWFXML/>") + bytes(4096),
        b"TAG" + b"title".ljust(125, b"\0"),
        b"ID3\x04\0\0\0\0\0\x0a" + b"0123456789",
        b"APETAGEX" + b"\0" * 24,
        bytes(100_000),
        b"\x01\x02",
    ],
    ids=["chunks", "unknown", "cut", "zeros_behind", "id3v1", "id3v2", "ape", "zeros", "short"],
)
def test_chunks_tags_and_zeros_after_the_sound_are_not_read_as_sound(
    tmp_path: Path, trailer: bytes
) -> None:
    whole = tmp_path / "whole"
    content = write_whole(whole, "wav", "PCM_16")
    (tmp_path / "with_trailer").write_bytes(content + trailer)
    found = probe(tmp_path / "with_trailer")
    assert (found.num_samples, found.warning) == (SECONDS * RATE, None)
    check_equal(whole, tmp_path / "with_trailer")


def test_a_file_with_a_header_and_chunks_alone_is_refused(tmp_path: Path) -> None:
    sf.write(tmp_path / "a.wav", np.zeros(0), RATE)
    content = (tmp_path / "a.wav").read_bytes()
    (tmp_path / "a.wav").write_bytes(content + chunk(b"LIST", b"INFO"))
    with pytest.raises(nbaudio.core.errors.AudioError, match="without any sample"):
        probe(tmp_path / "a.wav")


def wrapped(path: Path, name: str, trailer: bytes) -> np.ndarray:
    """Write a sparse file of more than 4 GiB whose length has wrapped; return its last second."""
    whole = path.with_name("whole")
    content = write_whole(whole, name, "PCM_16")
    start = len(content) - SECONDS * RATE * 4
    end = samples_of(whole)[-RATE:]
    set_length(content, name, RATE * 4)
    with path.open("wb") as file:
        file.write(content[:start])
        file.seek(start + (1 << 32))
        file.write(content[-RATE * 4 :] + trailer)
    return end


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "trailer"),
    [("wav", b""), ("wav", chunk(b"LIST", b"INFO")), ("rifx", b""), ("au", b"")],
)
def test_a_file_whose_length_wrapped_at_4_gib_is_read_whole(
    tmp_path: Path, name: str, trailer: bytes
) -> None:
    path = tmp_path / "long"
    end = wrapped(path, name, trailer)
    found = probe(path)
    assert found.num_samples == (1 << 30) + RATE
    assert "does not fit its header" in str(found.warning)
    with open_recording(path) as recording:
        first = found.num_samples - RATE
        np.testing.assert_array_equal(recording.read(first, first + RATE), end)
        assert len(recording.read(first, first + 2 * RATE)) == RATE
    path.unlink()


def test_a_file_of_more_than_4_gib_that_is_cut_short_is_a_truncation(tmp_path: Path) -> None:
    content = write_whole(tmp_path / "whole", "rf64", "PCM_16")
    set_length(content, "rf64", 6 << 30)
    path = tmp_path / "cut"
    with path.open("wb") as file:
        file.write(content)
        file.truncate(5 << 30)
    assert "truncated: the header declares" in str(probe(path).warning)
    path.unlink()


def test_ingest_reports_recordings_longer_than_their_header_says(tmp_path: Path) -> None:
    folder = tmp_path / "audio"
    folder.mkdir()
    for name, length in (("zero", 0), ("short", RATE * 4)):
        content = write_whole(tmp_path / "whole", "wav", "PCM_16")
        set_length(content, "wav", length)
        (folder / f"{name}.wav").write_bytes(content)
    report = nbaudio.ingest("folder", folder, out=tmp_path / "W", jobs=1)
    recordings = nbaudio.Workspace.open(tmp_path / "W").recordings
    lengths = dict(recordings.select("recording_id", "num_samples").iter_rows())
    assert lengths == {"zero": SECONDS * RATE, "short": RATE}
    assert "2.0 s behind that are not read" in "\n".join(report.warnings)
    (part,) = report.facts["not_read"]
    assert part["what"] == "sound behind the length in the header (recordings)"
    assert part["count"] == 1
    assert "ffmpeg -ignore_length 1" in part["option"]
