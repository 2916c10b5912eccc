"""Damaged recordings that can be opened: windows equal the full decode, or they are refused."""

from pathlib import Path

import av
import numpy as np
import pytest
import soundfile as sf
from audio_kinds import DAMAGED_KINDS, KINDS, full_scale, make

from nbaudio.audio import open_recording, probe
from nbaudio.core.errors import AudioError

BLOCK_LENGTHS = 8  # offset of the shortest and longest block of a FLAC, 16 bits each
BYTE_RATE = 28  # offset of the bytes a second of a WAV


def _make_specimen(name: str, folder: Path) -> Path:
    """A recording of three seconds of the kind with this name."""
    [kind] = [kind for kind in (*KINDS, *DAMAGED_KINDS) if kind.name == name]
    return make(kind, folder, 3.0)


def _replace(path: Path, offset: int, content: bytes) -> None:
    """Overwrite bytes of a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def _assert_windows_equal_the_whole(path: Path, tolerance: float = 0.0) -> None:
    """Compare windows, those at the end and at random, with a read of all that is promised."""
    length = probe(path).num_samples
    with open_recording(path) as recording:
        whole = full_scale(recording.read(0, length))
    assert len(whole) == length
    rng = np.random.default_rng(0)
    starts = [length - 1, length - 100, length - 1000, *rng.integers(0, length - 500, 20).tolist()]
    for start in starts:
        stop = min(length, start + 500)
        with open_recording(path) as recording:
            window = full_scale(recording.read(start, stop))
        assert window.shape == (stop - start, whole.shape[1])
        assert np.abs(window - whole[start:stop]).max() <= tolerance


@pytest.mark.parametrize("byte_rate", [0, 1, 1600, 520_000])
def test_gsm_with_a_wrong_byte_rate_is_read(tmp_path: Path, byte_rate: int) -> None:
    path = _make_specimen("WAV, GSM 06.10", tmp_path)
    expected = probe(path).num_samples
    _replace(path, BYTE_RATE, byte_rate.to_bytes(4, "little"))
    assert probe(path).num_samples == expected
    _assert_windows_equal_the_whole(path)


@pytest.mark.parametrize("name", ["PCM 16 in NUT", "FLAC in NUT"])
def test_a_nut_file_is_read_past_a_damaged_stretch(tmp_path: Path, name: str) -> None:
    path = _make_specimen(name, tmp_path)
    size = path.stat().st_size
    _replace(path, size // 3, bytes(size // 5))
    assert "truncated" in str(probe(path).warning)
    _assert_windows_equal_the_whole(path)


@pytest.mark.parametrize("name", ["Opus in Matroska, 5.1", "Opus in WebM"])
def test_an_opus_file_ends_before_its_damaged_last_packet(tmp_path: Path, name: str) -> None:
    path = _make_specimen(name, tmp_path)
    expected = probe(path).num_samples
    with av.open(str(path)) as file:
        last = [bytes(packet) for packet in file.demux(audio=0) if packet.size][-1]
    # Both bytes of the head stay, which declare the samples, and the rest is no frame.
    offset = path.read_bytes().rindex(last)
    _replace(path, offset + 2, b"\xff" * (len(last) - 2))
    length = probe(path).num_samples
    assert length <= expected
    _assert_windows_equal_the_whole(path, 0.001)


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 100, 4096])
@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
def test_an_flv_file_with_duplicated_bytes_is_read(tmp_path: Path, size: int, share: float) -> None:
    path = _make_specimen("MP3 in FLV", tmp_path)
    content = path.read_bytes()
    end = int(len(content) * share)
    path.write_bytes(content[:end] + content[end - size :])
    _assert_windows_equal_the_whole(path)


@pytest.mark.parametrize("lengths", [(16, 16), (576, 4608), (4608, 4608), (8192, 8192)])
@pytest.mark.parametrize(("rate", "channels"), [(16000, 1), (192_000, 6)])
def test_flac_that_declares_wrong_blocks_is_refused(
    tmp_path: Path, lengths: tuple[int, int], rate: int, channels: int
) -> None:
    path = tmp_path / "a.flac"
    samples = np.random.default_rng(0).normal(0, 0.1, (3 * rate, channels))
    sf.write(path, samples, rate, subtype="PCM_24")
    _replace(path, BLOCK_LENGTHS, b"".join(length.to_bytes(2, "big") for length in lengths))
    with pytest.raises(AudioError, match=r"a\.flac: damaged: "):
        probe(path)


@pytest.mark.slow
def test_alac_whose_last_packets_are_swapped_is_refused(tmp_path: Path) -> None:
    path = _make_specimen("CAF, ALAC, 24 bits, 5.1", tmp_path)
    content = path.read_bytes()
    # Sizes of packets, which libsndfile writes as numbers of three bytes, end the table.
    table = content.index(b"pakt")
    end = table + 12 + int.from_bytes(content[table + 4 : table + 12], "big")
    sizes = content[table + 36 : end].rstrip(b"\0")
    _replace(path, table + 36 + len(sizes) - 4, sizes[-2:] + sizes[-4:-2])
    with pytest.raises(AudioError):
        probe(path)


def test_nms_adpcm_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    sf.write(path, np.zeros(8000), 8000, subtype="NMS_ADPCM_32")
    with pytest.raises(AudioError, match="its codec is NMS ADPCM") as caught:
        probe(path)
    assert "\n" not in str(caught.value)
