"""Lossy clips: exact lengths, no delay, the same bytes everywhere."""

import hashlib
import io
import subprocess
import sys
from contextlib import nullcontext

import numpy as np
import pytest
import soundfile as sf
from conftest import sweeps

from nbaudio.audio import ENCODERS, decode_clip, encode_clip
from nbaudio.core.errors import AudioError, InputError
from nbaudio.corpus.materialize import materialize
from nbaudio.corpus.verify import verify
from nbaudio.reading import open_corpus

LOSSY = ("opus", "mp3")
# By how many seconds an encoding may shift what is heard, as measured.
SHIFT_S = {"opus": 0.00013, "mp3": 0}


def speech(samples, rate):
    return (sweeps(samples / rate + 0.01, rate, channels=1)[:samples, 0] * 20000).astype(np.int16)


@pytest.mark.parametrize("encoding", LOSSY)
@pytest.mark.parametrize("samples", [1, 2, 100, 1151, 5000, 37777])
def test_lossy_clips_decode_with_exact_length_and_without_delay(encoding, samples):
    for rate in ENCODERS[encoding].rates:
        clip = speech(samples, rate)
        found, own_rate = decode_clip(encode_clip(clip, rate, encoding), encoding)
        assert (len(found), own_rate) == (samples, rate)
        if samples >= 5000:
            near = {
                lag: np.corrcoef(clip[50:-50], found[50 + lag : len(found) - 50 + lag])[0, 1]
                for lag in range(-8, 9)
            }
            assert abs(max(near, key=near.__getitem__)) <= SHIFT_S[encoding] * rate
            assert max(near.values()) > 0.98


@pytest.mark.parametrize("encoding", LOSSY)
def test_the_same_samples_give_the_same_bytes_in_another_process(encoding):
    code = (
        "import hashlib, numpy as np; from nbaudio.audio import encode_clip\n"
        "print(hashlib.sha256(encode_clip((np.arange(9000) % 377 * 50).astype(np.int16), "
        f"16000, {encoding!r})).hexdigest())"
    )
    other = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.strip()
    clip = (np.arange(9000) % 377 * 50).astype(np.int16)
    assert hashlib.sha256(encode_clip(clip, 16000, encoding)).hexdigest() == other


@pytest.mark.slow
@pytest.mark.parametrize("encoding", LOSSY)
def test_a_corpus_of_lossy_clips_verifies_and_is_small(make_workspace, tmp_path, encoding):
    workspace = make_workspace({"a.wav": (12.0, 48000)}, channels=1)
    sizes = {}
    for name in (encoding, "flac"):
        materialize(
            workspace,
            out=tmp_path / name,
            encoding=name,
            container="zip",
            jobs=1,
            engine="threading",
            show_progress=False,
        )
        assert (
            verify(tmp_path / name, jobs=1, engine="threading", show_progress=False).problems == []
        )
        sizes[name] = open_corpus(tmp_path / name).segments["length"].sum()
    assert sizes[encoding] < sizes["flac"] / 2


def test_an_unsupported_rate_is_refused_before_clips_are_cut(make_workspace, tmp_path):
    workspace = make_workspace({"a.wav": (6.0, 16000)}, channels=1)
    for encoding, rate in (("opus", 22050), ("mp3", 96000)):
        with pytest.raises(InputError, match=rf"{encoding} has no rate of {rate} Hz; it has 8000"):
            materialize(
                workspace, out=tmp_path / "c", encoding=encoding, rate=rate, show_progress=False
            )
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("container", ["FLAC", "WAV"])
@pytest.mark.parametrize("subtype", ["PCM_S8", "PCM_16", "PCM_24"])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000])
def test_lossless_clips_decode_as_libsndfile_decodes_them(container, subtype, channels, rate):
    samples = np.random.default_rng(rate).integers(-32768, 32768, (5001, channels), dtype=np.int16)
    file = io.BytesIO()
    sf.write(
        file,
        samples,
        rate,
        format=container,
        subtype="PCM_U8" if (container, subtype) == ("WAV", "PCM_S8") else subtype,
    )
    file.seek(0)
    wanted = sf.read(file, dtype="int16")[0]
    for data in (file.getvalue(), memoryview(file.getvalue())):
        found, own_rate = decode_clip(data)
        np.testing.assert_array_equal(found, wanted)
        assert (own_rate, found.dtype, found.flags.writeable) == (rate, np.int16, True)


@pytest.mark.parametrize("encoding", ["flac", "wav"])
def test_a_truncated_lossless_clip_is_refused_or_decodes_shorter(encoding):
    data = encode_clip(speech(20_000, 16000), 16000, encoding)
    for length in (3, 30, 41, 43, len(data) // 2, len(data) - 1):
        try:
            assert len(decode_clip(data[:length])[0]) < 20_000
        except AudioError as error:
            assert f"an encoded clip of {length} bytes cannot be decoded" in str(error)  # noqa: PT017
    claims = bytearray(data)
    claims[21:26] = b"\xff" * 5  # of FLAC: as many samples as a header can claim
    with (
        pytest.raises(AudioError, match="cannot be decoded")
        if encoding == "flac"
        else nullcontext()
    ):
        decode_clip(claims if encoding == "flac" else data)
