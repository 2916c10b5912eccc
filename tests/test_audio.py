"""Windows are exact, clips equal the conversion of the whole recording, and headers are not
trusted."""

import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile as sf
import soxr
from conftest import sweeps, write_audio, write_with_av
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nbaudio.audio import (
    decode_clip,
    encode_clip,
    open_recording,
    probe,
    read_clip,
    resample_window,
)
from nbaudio.core.errors import AudioError, InputError
from nbaudio.core.times import rescale

RATE = 48000
SECONDS = 20
LOSSLESS_OR_MP3 = [
    "pcm16.wav",
    "pcm24.wav",
    "float.wav",
    "mulaw.wav",
    "a.flac",
    "vbr.mp3",
    "cbr32.mp3",
    "noheader.mp3",
    "a.ogg",
]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    samples = sweeps(SECONDS, RATE)
    for name, subtype in (
        ("pcm16.wav", "PCM_16"),
        ("pcm24.wav", "PCM_24"),
        ("float.wav", "FLOAT"),
        ("mulaw.wav", "ULAW"),
    ):
        sf.write(folder / name, samples, RATE, subtype=subtype)
    for name in ("a.flac", "a.ogg", "vbr.mp3"):
        write_audio(folder / name, samples, RATE)
    # The bit reservoir is busiest at low constant rates: there a jump without run-up gives other
    # samples.
    sf.write(folder / "cbr32.mp3", samples, RATE, bitrate_mode="CONSTANT", compression_level=0.99)
    (folder / "noheader.mp3").write_bytes(_without_first_frame((folder / "cbr32.mp3").read_bytes()))
    for name in ("a.m4a", "a.opus"):
        write_audio(folder / name, samples, RATE)
    write_with_av(folder / "a.mka", samples, RATE, "libopus")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("rate", [8000, 16000, 22050, 44100])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("how", ["variable", "variable, no header", "lowest constant"])
def test_windows_of_mp3s_are_exact_and_their_length_is_not_guessed(
    tmp_path: Path, rate: int, channels: int, how: str
) -> None:
    path = tmp_path / "a.mp3"
    lowest = (
        {"bitrate_mode": "CONSTANT", "compression_level": 0.99} if how == "lowest constant" else {}
    )
    sf.write(path, sweeps(6, rate, channels=channels), rate, **lowest)
    theirs = sf.read(path, dtype="float32", always_2d=True)[0]
    # Without a header the encoder's delay counts as recorded.
    delay = 1105 if how == "variable, no header" else 0
    if delay:
        path.write_bytes(_without_first_frame(path.read_bytes()))
    num_samples = probe(path).num_samples
    assert len(theirs) + delay <= num_samples <= len(theirs) + delay + 2304
    with open_recording(path) as recording:
        whole = recording.read(0, num_samples)
        assert np.abs(whole[delay : delay + len(theirs)] - theirs).max() < 1e-5
        for start in (
            0,
            700,
            *range(3 * rate, 3 * rate + 12 * 576, 576),
            num_samples - 3000,
            2 * rate,
        ):
            np.testing.assert_array_equal(
                recording.read(start, start + 3000), whole[start : start + 3000]
            )


@pytest.mark.slow
def test_joined_mp3s_are_as_long_as_both(tmp_path: Path) -> None:
    for number in (1, 2):
        sf.write(tmp_path / f"{number}.mp3", sweeps(5, 44100, seed=number), 44100)
    first, second = ((tmp_path / f"{number}.mp3").read_bytes() for number in (1, 2))
    tag = b"ID3\x04\x00\x00\x00\x00\x04\x00" + bytes(512)
    (tmp_path / "joined.mp3").write_bytes(tag + first + second)
    found = probe(tmp_path / "joined.mp3")
    assert 10 <= found.num_samples / 44100 < 10.2
    assert found.warning is None
    with (
        open_recording(tmp_path / "joined.mp3") as recording,
        open_recording(tmp_path / "1.mp3") as plain,
    ):
        assert np.abs(recording.read(44100, 88200) - plain.read(44100, 88200)).max() < 1e-4
        assert len(recording.read(9 * 44100, 10 * 44100)) == 44100


def _without_first_frame(mp3: bytes) -> bytes:
    """Drop the frame that holds the encoder's header (length, delay)."""
    return mp3[mp3.index(mp3[:2], 4) :]


def _full_decode(path: Path) -> np.ndarray:
    if path.suffix in (".mp3", ".ogg"):
        with open_recording(path) as recording:
            whole = recording.read(0, probe(path).num_samples)
        theirs = sf.read(path, dtype="float32", always_2d=True)[0]
        assert path.name == "noheader.mp3" or np.abs(whole - theirs).max() < 1e-5
        return whole
    with sf.SoundFile(path) as file:
        dtype = "int16" if file.subtype in ("PCM_16", "ULAW") else "float32"
        return file.read(dtype=dtype, always_2d=True)


@pytest.mark.parametrize("name", LOSSLESS_OR_MP3)
def test_a_window_equals_the_same_window_of_a_full_decode(recordings: Path, name: str) -> None:
    whole = _full_decode(recordings / name)
    windows = st.lists(
        st.tuples(st.integers(0, len(whole) - 1), st.integers(1, RATE)), min_size=1, max_size=4
    )

    @settings(
        max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(windows)
    def check(asked: list[tuple[int, int]]) -> None:
        with open_recording(recordings / name) as recording:
            for start, length in asked:
                stop = min(start + length, len(whole))
                window = recording.read(start, stop)
                assert window.dtype == whole.dtype
                np.testing.assert_array_equal(window, whole[start:stop])

    check()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "bound"), [("a.m4a", 0.05), ("a.opus", 1e-4), ("a.mka", 1e-4)])
def test_lossy_windows_stay_within_tolerance_and_do_not_depend_on_earlier_reads(
    recordings: Path, name: str, bound: float
) -> None:
    found = probe(recordings / name)
    with open_recording(recordings / name) as recording:
        whole = recording.read(0, found.num_samples)
        assert whole.shape == (found.num_samples, 2)
        for start in (0, 1, 4711, 12 * RATE + 17, 3 * RATE, found.num_samples - 5000):
            window = recording.read(start, start + 5000)
            assert np.abs(window - whole[start : start + 5000]).max() <= bound
            with open_recording(recordings / name) as fresh:
                np.testing.assert_array_equal(fresh.read(start, start + 5000), window)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.m4a", "a.opus", "vbr.mp3", "a.mka"])
def test_sample_zero_is_the_first_recorded_sample_without_encoder_delay(
    recordings: Path, name: str
) -> None:
    source = sweeps(SECONDS, RATE)[:, 0]
    with open_recording(recordings / name) as recording:
        decoded = recording.read(0, 4 * RATE)[:, 0]
    start, length = RATE, RATE
    shifts = range(-1500, 1501)
    likeness = [
        float(np.dot(decoded[start + s : start + s + length], source[start : start + length]))
        for s in shifts
    ]
    # Opus rounds its delay to a few samples of 48 kHz; a missed encoder delay would be hundreds.
    assert abs(shifts[int(np.argmax(likeness))]) <= 5


@pytest.mark.slow
@pytest.mark.parametrize("own", [8000, 11025, 22050, 32000, 44100, 48000])
@pytest.mark.parametrize("channel", ["mix", "left", "right"])
def test_a_clip_equals_that_stretch_of_the_whole_recording_resampled(
    tmp_path: Path, own: int, channel: str
) -> None:
    path = tmp_path / "a.wav"
    sf.write(path, sweeps(6, own), own)
    pcm = sf.read(path, dtype="int16")[0].astype(np.float32) / 32768
    mono = {"mix": pcm.mean(axis=1), "left": pcm[:, 0], "right": pcm[:, 1]}[channel]
    whole = soxr.resample(mono, own, 16000)
    bounds = [(0, own), (own // 3, 2 * own + 7), (5 * own, 6 * own), (1, 6 * own)]
    with open_recording(path) as recording:
        for start, stop in bounds:
            clip = resample_window(recording, start, stop, num_samples=6 * own, channel=channel)
            first, last = rescale(start, own, 16000), rescale(stop, own, 16000)
            assert clip.dtype == np.int16
            assert len(clip) == last - first
            assert np.abs(clip / 32768 - whole[first:last]).max() < 1e-4


def test_without_resampling_samples_are_copied_exactly(tmp_path: Path) -> None:
    pcm = (sweeps(2, 16000, channels=1) * 32767).astype(np.int16)
    sf.write(tmp_path / "a.wav", pcm, 16000)
    np.testing.assert_array_equal(read_clip(tmp_path / "a.wav", 100, 20100), pcm[100:20100, 0])


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["flac", "wav"])
@given(samples=st.lists(st.integers(-32768, 32767), min_size=1, max_size=300))
def test_lossless_clips_decode_to_the_encoded_samples(encoding: str, samples: list[int]) -> None:
    clip = np.array(samples, dtype=np.int16)
    data = encode_clip(clip, 16000, encoding)
    assert data == encode_clip(clip, 16000, encoding)
    back, rate = decode_clip(data)
    np.testing.assert_array_equal(back, clip)
    assert rate == 16000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pcm16.wav", "a.flac", "vbr.mp3", "a.m4a", "a.opus", "a.ogg"])
def test_a_truncated_file_is_as_long_as_what_decodes(
    recordings: Path, tmp_path: Path, name: str
) -> None:
    data = (recordings / name).read_bytes()
    whole = probe(recordings / name)
    assert whole.warning is None
    cut = tmp_path / name
    cut.write_bytes(data[: int(len(data) * 0.6)])
    # Its index is at the end of the file: without it there is nothing to decode
    if name == "a.m4a":
        with pytest.raises(AudioError, match=r"a\.m4a"):
            probe(cut)
        return
    found = probe(cut)
    assert 0.4 * whole.num_samples < found.num_samples < 0.8 * whole.num_samples
    with open_recording(cut) as recording:
        assert len(recording.read(found.num_samples - 1000, found.num_samples)) == 1000
    if name in ("pcm16.wav", "a.flac", "vbr.mp3"):
        assert found.warning is not None
        assert found.warning.startswith("truncated: the header declares 20.0 s")


def test_a_wav_that_declares_two_gigabytes_is_as_long_as_its_bytes(
    recordings: Path, tmp_path: Path
) -> None:
    data = bytearray((recordings / "pcm16.wav").read_bytes())
    at = data.index(b"data") + 4
    data[at : at + 4] = struct.pack("<I", 2_147_483_644)
    (tmp_path / "liar.wav").write_bytes(data)
    found = probe(tmp_path / "liar.wav")
    assert found.num_samples == SECONDS * RATE
    assert found.warning is not None


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "empty"), (b"RIFF" + bytes(40), "a.wav"), (b"this is a text", "a.wav"), (None, "a.wav")],
    ids=["empty", "44 bytes", "text", "folder"],
)
def test_a_file_that_is_no_audio_is_refused_with_the_reason(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    path = tmp_path / "a.wav"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(AudioError, match=says):
        probe(path)


def test_a_window_past_the_end_and_a_missing_channel_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mono.wav"
    sf.write(path, np.zeros(8000), 8000)
    with pytest.raises(AudioError, match="ends after 8000"):
        read_clip(path, 7000, 9000, rate=8000)
    with pytest.raises(AudioError, match="one channel"):
        read_clip(path, 0, 100, channel="right")
    with pytest.raises(InputError, match="mix, left, right"):
        read_clip(path, 0, 100, channel="middle")
    with pytest.raises(InputError, match="flac, wav"):
        encode_clip(np.zeros(5, np.int16), 8000, "mp5")
