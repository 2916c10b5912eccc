"""Broken recordings are in the ledger with a readable reason; damaged headers cause no crash, hang
or large allocation."""

import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from audio_kinds import DAMAGED_KINDS, KINDS, make
from conftest import sweeps
from typer.testing import CliRunner

from nbaudio.audio import open_recording, probe, read_clip
from nbaudio.cli import app
from nbaudio.core.errors import AudioError
from nbaudio.corpus.materialize import materialize
from nbaudio.tables.workspace import Workspace

RATE = 16000
SHORTENED = b"""NIST_1A
   1024
sample_count -i 1000
sample_rate -i 16000
channel_count -i 1
sample_n_bytes -i 2
sample_coding -s26 pcm,embedded-shorten-v2.00
end_head
"""


def _wav(folder: Path) -> bytes:
    sf.write(folder / "whole.wav", sweeps(4, RATE, channels=1), RATE)
    return (folder / "whole.wav").read_bytes()


def _declaring(data: bytes, samples: int) -> bytes:
    """A FLAC whose STREAMINFO says another number of samples: 36 bits that end at byte 26."""
    high = data[21] & 0xF0 | samples >> 32
    return data[:21] + bytes([high]) + struct.pack(">I", samples & 0xFFFFFFFF) + data[26:]


def _specimens(audio: Path, scratch: Path) -> None:
    audio.mkdir()
    wav = _wav(scratch)
    sf.write(scratch / "whole.flac", sweeps(4, RATE, channels=1), RATE)
    flac = (scratch / "whole.flac").read_bytes()
    (audio / "good.wav").write_bytes(wav)
    (audio / "empty.wav").write_bytes(b"")
    (audio / "header.wav").write_bytes(wav[:44])
    (audio / "text.wav").write_text("dobar dan, ovo nije zvuk\n" * 20)
    (audio / "page.mp3").write_text("<!DOCTYPE html><html><body>404</body></html>")
    (audio / "zeros.wav").write_bytes(bytes(5000))
    (audio / "halfwav.wav").write_bytes(wav[: len(wav) // 2])
    (audio / "halfflac.flac").write_bytes(flac[: len(flac) // 2])
    (audio / "name.mp3").write_bytes(flac)
    (audio / "hugeflac.flac").write_bytes(_declaring(flac, 2_147_483_647))
    (audio / "hugewav.wav").write_bytes(
        wav.replace(b"data" + wav[40:44], b"data" + struct.pack("<I", 2_147_483_647))
    )
    (audio / "folder.wav").mkdir()
    (audio / "gone.wav").symlink_to("nothing")
    (audio / "shorten.sph").write_bytes(
        b"NIST_1A\n   1024\nsample_coding -s26 pcm,embedded-shorten-v2.00\nend_head\n".ljust(4000)
    )


def _command(*words: str | Path) -> dict[str, Any]:
    """A command's report."""
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert done.exit_code in (0, 1), done.output
    report: dict[str, Any] = json.loads(done.stdout)
    assert done.exit_code == bool(report["problems"])
    return report


def _source(folder: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """Transcripts, two segments a recording; all lines."""
    lines = [
        {
            "file": name,
            "start": start,
            "end": start + 1.5,
            "words": ["dobar"],
            "asr": ["dobar"],
            "speaker": name,
        }
        for name in names
        for start in (0.2, 2.3)
    ]
    (folder / "asr.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return lines


def _job(folder: Path, out: Path) -> dict[str, Any]:
    """The whole job from the command line: workspace and corpus in `out`; the report of ingest."""
    report = _command(
        "ingest",
        "parlaspeech",
        folder / "asr.jsonl",
        "--audio",
        folder / "audio",
        "--out",
        out / "w",
    )
    _command("select", out / "w", "--dev", "0", "--test", "0")
    _command("materialize", out / "w", "--out", out / "corpus", "--engine", "threading")
    assert _command("verify", out / "corpus", "--engine", "threading")["problems"] == []
    return report


def _ledger_text(workspace: Path, name: str) -> str:
    """All that the ledger says of a recording."""
    problems = pl.read_parquet(workspace / "problems.parquet")
    return " | ".join(
        problems.filter((pl.col("file") == name) | (pl.col("item") == name))["reason"].to_list()
    )


def test_every_broken_specimen_is_in_the_ledger_with_its_reason(tmp_path: Path) -> None:
    _specimens(tmp_path / "audio", tmp_path)
    lines = _source(tmp_path, sorted(path.name for path in (tmp_path / "audio").iterdir()))
    report = _job(tmp_path, tmp_path)
    expected = {
        "empty.wav": "the file is empty",
        "header.wav": "a header without any sample",
        "text.wav": "not audio but text",
        "page.mp3": "a web page; did a download fail?",
        "zeros.wav": "nothing but zeros",
        "folder.wav": "no such recording (folder.wav: a folder with the name of a recording",
        "gone.wav": "no such recording (gone.wav: a broken link)",
        "shorten.sph": "compressed with shorten",
    }
    for name, reason in expected.items():
        assert reason in _ledger_text(tmp_path / "w", name)
    warned = "\n".join(report["warnings"])
    for name in ("halfwav.wav", "halfflac.flac", "hugeflac.flac"):
        assert f"{name}: truncated: the header declares" in warned
    assert "hugewav.wav: its header has no length" in warned
    kept = pl.read_parquet(tmp_path / "corpus" / "segments.parquet")["segment_id"].to_list()
    rejected = pl.read_parquet(tmp_path / "corpus" / "rejected.parquet")
    whole = [
        f"{name}_{window}"
        for name in ("good", "hugeflac", "hugewav", "name")
        for window in ("0.2-1.7", "2.3-3.8")
    ]
    assert sorted(kept) == sorted([*whole, "halfflac_0.2-1.7", "halfwav_0.2-1.7"])
    assert len(kept) + len(rejected) == len(lines)
    reasons = dict(rejected.select("segment_id", "reason").iter_rows())
    assert {reasons[f"{name}_2.3-3.8"] for name in ("halfwav", "halfflac")} == {"past_the_end"}
    assert {reasons[f"{name.rpartition('.')[0]}_0.2-1.7"] for name in expected} == {"no_audio"}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may get to, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.parametrize("format", ["AIFF", "AU", "RF64", "W64", "VOC", "NIST", "WAV"])
def test_a_recording_that_ends_too_early_is_reported(tmp_path: Path, format: str) -> None:
    path = tmp_path / "a"
    sf.write(path, sweeps(4, RATE, channels=1), RATE, format=format, subtype="PCM_16")
    assert probe(path).warning is None
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    found = probe(path)
    assert str(found.warning).startswith("truncated: ")
    assert abs(found.num_samples - 2 * RATE) < RATE / 10


@pytest.mark.parametrize(("subtype", "rate"), [("VORBIS", RATE), ("OPUS", 48000)])
def test_an_ogg_file_is_read_up_to_where_it_breaks(tmp_path: Path, subtype: str, rate: int) -> None:
    path = tmp_path / "a.ogg"
    sf.write(path, sweeps(8, rate, channels=1), rate, format="OGG", subtype=subtype)
    data, middle = path.read_bytes(), path.stat().st_size // 2
    assert (probe(path).num_samples, probe(path).warning) == (8 * rate, None)
    whole = read_clip(path, 0, 2 * rate).astype(int)
    for changed, says, seconds in (
        (
            data + data,
            f"chained: another recording begins at byte {len(data):,}, which is not read; 8.0 s",
            8,
        ),
        (data[:middle], "truncated: ", 4),
        (data[:middle] + bytes(len(data) // 20) + data[middle + len(data) // 20 :], "damaged: ", 4),
    ):
        path.write_bytes(changed)
        found = probe(path)
        assert str(found.warning).startswith(says)
        assert abs(found.num_samples - seconds * rate) < 1.6 * rate
        assert np.abs(read_clip(path, 0, 2 * rate) - whole).max() < 300
    pages = [place for place in range(len(data)) if data[place : place + 4] == b"OggS"]
    path.write_bytes(data[: pages[-3]] + data[pages[-2] :])
    assert str(probe(path).warning).startswith(
        f"damaged: pages are missing before byte {pages[-3]:,}; "
    )


def test_a_flac_without_a_declared_length_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    sf.write(path, sweeps(4, RATE, channels=1), RATE)
    whole, clip = probe(path), read_clip(path, RATE, 4 * RATE)
    path.write_bytes(_declaring(path.read_bytes(), 0))
    assert probe(path) == whole
    assert np.array_equal(read_clip(path, RATE, 4 * RATE), clip)


@pytest.mark.slow
def test_files_without_read_permission_are_reported_as_such(open_folder: Path) -> None:
    folder = open_folder
    (folder / "audio/closed").mkdir(parents=True)
    (folder / "mine").mkdir()
    (folder / "mine").chmod(0o777)
    for name in ("good.wav", "locked.wav", "closed/a.wav"):
        (folder / "audio" / name).write_bytes(_wav(folder))
    _source(folder, ["good.wav", "locked.wav", "closed/a.wav"])
    # Once with all rights, which also imports what nobody may not be allowed to import.
    assert _job(folder, folder)["problems"] == []
    (folder / "audio/locked.wav").chmod(0)
    (folder / "audio/closed").chmod(0)
    with _without_privileges():
        _job(folder, folder / "mine")
    (folder / "audio/closed").chmod(0o755)
    workspace = folder / "mine/w"
    assert (
        "locked.wav: may not be read by this user (Permission denied); change its permissions"
        in _ledger_text(workspace, "locked.wav")
    )
    assert _ledger_text(workspace, "closed") == "the folder cannot be read: Permission denied"
    assert _ledger_text(workspace, "closed/a.wav") == "no such recording"
    corpus = pl.read_parquet(folder / "mine/corpus/segments.parquet")
    assert set(corpus["recording_id"]) == {"good"}


@contextmanager
def _without_privileges() -> Iterator[None]:
    """Nobody's rights instead of root's, which no permission stops; a user keeps his own."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_recording_that_breaks_after_ingest_is_rejected_by_name(
    make_workspace: Callable[..., Workspace], tmp_path: Path
) -> None:
    workspace = make_workspace({"a.wav": (6, RATE), "b.wav": (6, RATE)})
    path = Path(str(workspace.audio_root)) / "a.wav"
    path.write_bytes(path.read_bytes()[:50])
    report = materialize(
        workspace, out=tmp_path / "corpus", engine="threading", show_progress=False
    )
    assert set(report.facts["reasons"]) == {"unreadable_audio"}
    assert all(
        "a.wav: the file changed since it was ingested" in problem for problem in report.problems
    )


def test_a_window_with_nan_samples_is_refused(tmp_path: Path) -> None:
    samples = sweeps(1, RATE, channels=1)
    samples[8000] = np.nan
    sf.write(tmp_path / "a.wav", samples, RATE, subtype="FLOAT")
    assert len(read_clip(tmp_path / "a.wav", 0, 7000)) == 7000
    with pytest.raises(AudioError, match="not numbers"):
        read_clip(tmp_path / "a.wav", 7000, 9000)


def test_a_playlist_named_as_audio_is_refused_and_not_followed(tmp_path: Path) -> None:
    _wav(tmp_path)
    (tmp_path / "a.mp3").write_text(f"ffconcat version 1.0\nfile '{tmp_path}/whole.wav'\n")
    (tmp_path / "b.mp3").write_text(
        f"#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\n{tmp_path}/whole.wav\n#EXT-X-ENDLIST\n"
    )
    for name in ("a.mp3", "b.mp3"):
        with pytest.raises(AudioError, match="not audio but text"):
            probe(tmp_path / name)


@pytest.mark.parametrize(("channels", "rate"), [(1, 16000), (2, 48000), (8, 48000)])
def test_flac_with_a_damaged_block_length_is_refused(
    tmp_path: Path, channels: int, rate: int
) -> None:
    # libsndfile does not open it, and FFmpeg's seeks in it found nothing: windows came back empty,
    # or 4,096 samples early.
    path = tmp_path / "a.flac"
    sf.write(
        path, np.random.default_rng(0).normal(0, 0.1, (2 * rate, channels)), rate, subtype="PCM_16"
    )
    damaged = bytearray(path.read_bytes())
    # The length of the block of comments, behind the 42 bytes of the stream's.
    damaged[44:47] = bytes([0, 0, 0x80])
    path.write_bytes(damaged)
    with pytest.raises(AudioError, match=r"a\.flac: a header without any sample"):
        probe(path)


def fuzz(folder: Path, mutations: int, *, seed: int, timeout: float, seconds: float = 1.0) -> str:
    """Damage recordings of all kinds and some seconds in another process: its last line."""
    (folder / "specimens").mkdir(exist_ok=True)
    (folder / "scratch").mkdir(exist_ok=True)
    for kind in (*KINDS, *DAMAGED_KINDS):
        make(kind, folder / "specimens", seconds)
    program = Path(__file__).with_name("fuzzing.py")
    done = subprocess.run(
        [
            sys.executable,
            program,
            folder / "specimens",
            folder / "scratch",
            str(mutations),
            str(seed),
        ],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        # Memory is filled before use, so that what reads too far does so alike each time.
        env=os.environ | {"MALLOC_PERTURB_": "90"},
    )
    last = done.stdout.splitlines()[-1] if done.stdout else "nothing was done"
    assert done.returncode == 0, f"{last}; exit code {done.returncode}\n{done.stderr[-2000:]}"
    return last


@pytest.mark.slow
def test_damaged_headers_neither_crash_nor_hang_nor_eat_memory(tmp_path: Path) -> None:
    last = fuzz(tmp_path, 60, seed=int.from_bytes(b"nb"), timeout=120)
    assert last.startswith("done:")
    assert int(last.split()[-2]) < 500


@pytest.mark.parametrize("rate", [16000, 48000])
def test_windows_can_be_read_after_one_that_cannot_be_decoded(rate: int, tmp_path: Path) -> None:
    """libsndfile refuses to seek after an error."""
    x = np.random.default_rng(0).normal(0, 3000, (8 * rate, 2)).astype(np.int16)
    sf.write(tmp_path / "a.flac", x, rate)
    data = bytearray((tmp_path / "a.flac").read_bytes())
    data[len(data) // 2 : len(data) // 2 + 300] = bytes(300)
    (tmp_path / "a.flac").write_bytes(data)
    with open_recording(tmp_path / "a.flac") as recording:
        for start, stop in ((3, 5), (0, 3), (2, 5), (6, 8), (1, 3)):
            if stop == 5:
                with pytest.raises(AudioError, match="cannot be decoded"):
                    recording.read(start * rate, stop * rate)
            else:
                assert (
                    recording.read(start * rate, stop * rate) == x[start * rate : stop * rate]
                ).all()
