"""Lossy clips: exact lengths, no delay, the same bytes everywhere."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest
from conftest import sweeps

from nbaudio.audio import ENCODERS, decode_clip, encode_clip
from nbaudio.core.errors import InputError
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
def test_every_length_at_every_rate_comes_back_without_delay(encoding, samples):
    for rate in ENCODERS[encoding].rates:
        clip = speech(samples, rate)
        found, own_rate = decode_clip(encode_clip(clip, rate, encoding), encoding)
        assert (len(found), own_rate) == (samples, rate)
        if samples >= 5000:
            near = {lag: np.corrcoef(clip[50:-50], found[50 + lag : len(found) - 50 + lag])[0, 1] for lag in range(-8, 9)}
            assert abs(max(near, key=near.__getitem__)) <= SHIFT_S[encoding] * rate
            assert max(near.values()) > 0.98


@pytest.mark.parametrize("encoding", LOSSY)
def test_the_same_samples_give_the_same_bytes_in_another_process(encoding):
    code = (
        "import hashlib, numpy as np; from nbaudio.audio import encode_clip\n"
        f"print(hashlib.sha256(encode_clip((np.arange(9000) % 377 * 50).astype(np.int16), 16000, {encoding!r})).hexdigest())"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    clip = (np.arange(9000) % 377 * 50).astype(np.int16)
    assert hashlib.sha256(encode_clip(clip, 16000, encoding)).hexdigest() == other


@pytest.mark.parametrize("encoding", LOSSY)
def test_a_corpus_of_them_is_complete_and_small(make_workspace, tmp_path, encoding):
    workspace = make_workspace({"a.wav": (12.0, 48000)}, channels=1)
    sizes = {}
    for name in (encoding, "flac"):
        materialize(
            workspace, out=tmp_path / name, encoding=name, container="zip", jobs=1, engine="threading", show_progress=False
        )
        assert verify(tmp_path / name, jobs=1, engine="threading", show_progress=False).problems == []
        sizes[name] = open_corpus(tmp_path / name).segments["length"].sum()
    assert sizes[encoding] < sizes["flac"] / 2


def test_a_rate_that_an_encoding_has_not_is_refused_before_anything_is_cut(make_workspace, tmp_path):
    workspace = make_workspace({"a.wav": (6.0, 16000)}, channels=1)
    for encoding, rate in (("opus", 22050), ("mp3", 96000)):
        with pytest.raises(InputError, match=rf"{encoding} has no rate of {rate} Hz; it has 8000"):
            materialize(workspace, out=tmp_path / "c", encoding=encoding, rate=rate, show_progress=False)
    assert not (tmp_path / "c").exists()
