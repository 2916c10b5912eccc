"""Every kind of recording is probed, read in windows within the bounds of docs/audio.md, cut and verified."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import polars as pl
import pytest
from audio_kinds import FFMPEG_KINDS, KINDS, Kind, make

from nbaudio.audio import open_recording, probe
from nbaudio.audio.ffmpeg import AvRecording
from nbaudio.audio.packets import opus_samples
from nbaudio.corpus import materialize, verify
from nbaudio.names import AUDIO_EXTENSIONS
from nbaudio.workspace import Workspace

SECONDS = 5.0
DOCUMENT = Path(__file__).parents[1] / "docs" / "audio.md"
BOUNDS = {
    name: float(bound) for name, bound in re.findall(r"^\| ([^|]+?) \| ([\d.]+) \|", DOCUMENT.read_text("utf8"), re.MULTILINE)
}

every_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


@pytest.fixture(scope="module")
def specimens(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("specimens")
    return {kind.name: make(kind, folder, SECONDS) for kind in KINDS}


def test_the_table_of_bounds_lists_every_kind() -> None:
    assert sorted(BOUNDS) == sorted(kind.name for kind in (*KINDS, *FFMPEG_KINDS))


def test_the_extension_of_every_kind_is_known() -> None:
    assert {kind.suffix.removeprefix(".") for kind in (*KINDS, *FFMPEG_KINDS)} <= AUDIO_EXTENSIONS


@every_kind
def test_a_kind_is_what_was_written_and_its_windows_keep_the_stated_bound(specimens: dict[str, Path], kind: Kind) -> None:
    check_kind(specimens[kind.name], kind)


def check_kind(path: Path, kind: Kind) -> None:
    """A specimen is what was written; windows of it keep the bound and do not depend on what was read before."""
    found = probe(path)
    assert (found.sampling_rate, found.num_channels, found.warning) == (kind.rate, kind.channels, None)
    # Encoder delay that a container does not declare (bare AAC, AMR, WMA, MP2, AC-3) counts as recorded.
    assert abs(found.num_samples - SECONDS * kind.rate) <= 3072
    starts = np.random.default_rng(7).integers(0, found.num_samples - 1000, 8)
    largest = 0.0
    with open_recording(path) as recording:
        whole = recording.read(0, found.num_samples)
        assert whole.shape == (found.num_samples, kind.channels)
        for start in (0, 1, found.num_samples - 1000, *starts.tolist()):
            window = recording.read(start, start + 1000)
            assert window.shape == (1000, kind.channels)
            largest = max(largest, float(np.abs(window.astype(np.float64) - whole[start : start + 1000]).max()))
            with open_recording(path) as fresh:
                np.testing.assert_array_equal(fresh.read(start, start + 1000), window)
    assert largest <= BOUNDS[kind.name]


def test_every_kind_is_cut_and_verified(specimens: dict[str, Path], tmp_path: Path) -> None:
    audio = tmp_path / "audio"
    audio.mkdir()
    recordings, segments = [], []
    for number, kind in enumerate(KINDS):
        path = shutil.copy(specimens[kind.name], audio / f"{number}{kind.suffix}")
        found = probe(path)
        facts = {"sampling_rate": found.sampling_rate, "num_channels": found.num_channels, "num_samples": found.num_samples}
        recordings.append({"recording_id": str(number), "path": path.name, "codec": found.codec, **facts})
        for second in (0, 2):
            window = {"start_sample": second * kind.rate, "end_sample": (second + 2) * kind.rate}
            told = {"text": kind.name, "asr_text": None, "similarity": None, "split": "train", "decision": "accept"}
            source = {"source_start": str(second), "source_end": str(second + 2)}
            segments.append({"segment_id": f"{number}_{second}", "recording_id": str(number), **window, **source, **told})
    workspace = Workspace.create(tmp_path / "w", source="made", audio=str(audio))
    workspace.save(recordings=pl.DataFrame(recordings), segments=pl.DataFrame(segments))
    report = materialize(workspace, out=tmp_path / "corpus", engine="threading", show_progress=False)
    assert (report.facts["kept"], report.facts["rejected"], report.problems) == (2 * len(KINDS), 0, [])
    assert verify(tmp_path / "corpus", engine="threading", show_progress=False).facts["whole"] is True


@pytest.mark.parametrize(
    "name", ["WAV, PCM 16", "FLAC", "MP3", "Vorbis in WebM", "AAC in MP4", "SPHERE (NIST), PCM 16", "AC-3, bare"]
)
def test_the_content_decides_what_a_file_is_and_its_name_nothing(specimens: dict[str, Path], tmp_path: Path, name: str) -> None:
    known = probe(specimens[name])
    for wrong in ("a.wav", "a.mp3", "a.raw", "concat:a|b.m3u8", "without"):
        assert probe(shutil.copy(specimens[name], tmp_path / wrong)) == known


@pytest.mark.parametrize("name", ["Opus in WebM", "Vorbis in WebM", "AAC in Matroska", "AAC, bare (ADTS)", "MP3 in Matroska"])
def test_an_index_by_counting_equals_an_index_by_decoding(
    specimens: dict[str, Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_recording(specimens[name]) as counted:
        assert isinstance(counted, AvRecording)
        found = counted._index
    monkeypatch.setattr("nbaudio.audio.packets._counter", lambda *_: 0)
    with open_recording(specimens[name]) as decoded:
        assert isinstance(decoded, AvRecording)
        np.testing.assert_array_equal(decoded._index.stamps, found.stamps)
        # The last packets hold what the container says to drop.
        np.testing.assert_array_equal(decoded._index.ends[:-3], found.ends[:-3])


def _with_a_gap(source: Path, target: Path) -> Path:
    """The same packets, half a second later from the middle on, as a browser records when it falters."""
    with av.open(str(source)) as read, av.open(str(target), "w") as write:
        stream = write.add_stream_from_template(read.streams.audio[0])
        for number, packet in enumerate(read.demux(audio=0)):
            if packet.dts is not None:
                packet.stream = stream
                packet.pts = packet.dts = packet.dts + (500 if number > 100 else 0)
                write.mux(packet)
    return target


def test_a_gap_in_the_clock_and_a_clock_that_stands_still_move_no_sample(specimens: dict[str, Path], tmp_path: Path) -> None:
    gapped = _with_a_gap(specimens["Opus in WebM"], tmp_path / "gap.webm")
    num_samples = probe(gapped).num_samples
    assert num_samples == SECONDS * 48000
    with open_recording(specimens["Opus in WebM"]) as plain, open_recording(gapped) as recording:
        assert isinstance(recording, AvRecording)
        whole = plain.read(0, num_samples)
        for rising in (True, False):
            recording.__dict__["_index"] = replace(recording._index, rising=rising)
            for start in (0, 90_000, 120_000, num_samples - 4000):
                assert np.abs(recording.read(start, start + 4000) - whole[start : start + 4000]).max() <= BOUNDS["Opus in WebM"]


def _moved(source: Path, target: Path, samples: int) -> Path:
    """The same packets, all so much later, or earlier: then MP4's edit list says how much is to be dropped."""
    with av.open(str(source)) as read, av.open(str(target), "w") as write:
        stream = write.add_stream_from_template(read.streams.audio[0])
        for packet in read.demux(audio=0):
            if packet.dts is not None:
                packet.stream, packet.pts = stream, packet.pts + samples
                packet.dts = packet.pts
                write.mux(packet)
    return target


@pytest.mark.parametrize("name", ["AAC in MP4", "MP3 in MP4"])
@pytest.mark.parametrize("samples", [-1088, -500, 22050])
def test_sound_that_begins_later_or_within_a_packet_moves_no_window(
    specimens: dict[str, Path], tmp_path: Path, name: str, samples: int
) -> None:
    path = _moved(specimens[name], tmp_path / "a.mp4", samples)
    num_samples = probe(path).num_samples
    with open_recording(path) as recording, open_recording(specimens[name]) as plain:
        whole = recording.read(0, num_samples)
        assert len(whole) == num_samples
        for start in (0, 1, 60_000, 150_000, num_samples - 1000):
            window = recording.read(start, start + 1000)
            assert np.abs(window - whole[start : start + 1000]).max() <= BOUNDS[name]
        # What is dropped is missing at the beginning; a later begin brings the encoder's delay back.
        for start in (60_000, 150_000):
            offsets = range(-2500, 2500)
            same = plain.read(start, start + 1000)
            around = whole[start - 2500 : start + 3500]
            nearest = min(offsets, key=lambda by: float(np.abs(around[2500 + by : 3500 + by] - same).max()))
            assert nearest == {-1088: -1088, -500: -500}.get(samples, 1024 if name.startswith("AAC") else 1105)


def test_a_file_whose_packets_cannot_be_sought_is_read_all_the_same(specimens: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "a.mka"
    with av.open(str(specimens["AAC in Matroska"])) as read, av.open(str(path), "w") as write:
        stream = write.add_stream_from_template(read.streams.audio[0])
        for packet in read.demux(audio=0):
            if packet.dts is not None:
                packet.stream, packet.is_keyframe = stream, False
                write.mux(packet)
    assert probe(path) == probe(specimens["AAC in Matroska"])
    with open_recording(path) as recording, open_recording(specimens["AAC in Matroska"]) as plain:
        np.testing.assert_array_equal(recording.read(130_000, 140_000), plain.read(130_000, 140_000))


@pytest.mark.parametrize("name", ["AC-3 in MPEG-PS", "AC-3 in MPEG-TS", "FLAC in Ogg", "MP3 in AVI", "AAC, bare (ADTS)"])
def test_an_index_is_made_once_and_no_window_is_looked_for_from_the_beginning(
    specimens: dict[str, Path], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_recording(specimens[name]) as recording:
        assert isinstance(recording, AvRecording)
        recording.read(0, 1000)
        monkeypatch.delattr(AvRecording, "_begin")
        for second in (4, 1, 2, 3):
            assert len(recording.read(second * recording.sampling_rate, second * recording.sampling_rate + 1000)) == 1000


def test_opus_packets_of_several_frames_are_counted() -> None:
    assert [opus_samples(bytes(packet)) for packet in ([], [3], [0b01111_0_10, 0], [0b11111_0_11, 6])] == [0, 0, 1920, 5760]
