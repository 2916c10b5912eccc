"""Lhotse reads its export sample-exactly, and nbaudio reads what Lhotse writes."""

from collections.abc import Callable
from pathlib import Path

import lhotse
import numpy as np
import polars as pl
import pytest
import soundfile as sf

import nbaudio
from nbaudio.tables.workspace import Workspace

SPLITS = ("train", "dev", "test")


@pytest.fixture
def exported(make_workspace: Callable[..., Workspace], tmp_path: Path) -> tuple[Workspace, Path]:
    """Mono and stereo at rates with and without finite decimals, and their manifests."""
    recordings = {
        "a.wav": (20.0, 16000),
        "b.flac": (20.0, 44100),
        "c.wav": (20.0, 48000),
        "d.flac": (20.0, 11025),
    }
    workspace = make_workspace(recordings, every=1.3)
    odd = workspace.segments.with_columns(pl.col("start_sample") + 1, pl.col("end_sample") + 2)
    workspace.save(segments=odd)
    nbaudio.export(workspace, "lhotse", out=tmp_path / "manifests")
    return workspace, tmp_path / "manifests"


@pytest.mark.parametrize("split", SPLITS)
def test_lhotse_loads_the_samples_of_exported_segments(
    exported: tuple[Workspace, Path], split: str
) -> None:
    workspace, folder = exported
    recordings = lhotse.RecordingSet.from_file(folder / f"recordings_{split}.jsonl.gz")
    supervisions = lhotse.SupervisionSet.from_file(folder / f"supervisions_{split}.jsonl.gz")
    lhotse.qa.validate_recordings_and_supervisions(recordings, supervisions)
    cuts = lhotse.CutSet.from_file(folder / f"cuts_{split}.jsonl.gz")
    paths = workspace.recordings.select("recording_id", "path")
    rows = workspace.segments.filter(pl.col("split") == split).join(paths, on="recording_id")
    wanted = {row["segment_id"]: row for row in rows.iter_rows(named=True)}
    assert {cut.id for cut in cuts} == set(wanted)
    joined = lhotse.CutSet.from_manifests(recordings=recordings, supervisions=supervisions)
    trimmed = joined.trim_to_supervisions(keep_overlapping=False)
    for cut in [*cuts, *trimmed]:
        [supervision] = cut.supervisions
        row = wanted[supervision.id]
        assert (supervision.text, supervision.speaker, supervision.asr_text) == (
            row["text"],
            row["speaker_id"],
            row["asr_text"],
        )
        window = {"start": row["start_sample"], "stop": row["end_sample"]}
        samples, _ = sf.read(
            workspace.audio_root / row["path"], **window, dtype="float32", always_2d=True
        )
        np.testing.assert_array_equal(cut.load_audio(), samples.T)


def test_cuts_written_by_lhotse_are_ingested_sample_exactly(
    exported: tuple[Workspace, Path], tmp_path: Path
) -> None:
    workspace, folder = exported
    (tmp_path / "written").mkdir()
    for split in SPLITS:
        cuts = lhotse.CutSet.from_file(folder / f"cuts_{split}.jsonl.gz")
        cuts.to_file(tmp_path / f"written/my_cuts_{split}.jsonl.gz")
    report = nbaudio.ingest("lhotse", tmp_path / "written", out=tmp_path / "again")
    assert report.problems == []
    key = [
        "segment_id",
        "start_sample",
        "end_sample",
        "text",
        "asr_text",
        "speaker_id",
        "source_split",
    ]
    found = Workspace.open(tmp_path / "again").segments.select(key).sort("segment_id")
    wanted = (
        workspace.segments.with_columns(source_split=pl.col("split").cast(pl.String))
        .select(key)
        .sort("segment_id")
    )
    assert found.rows() == wanted.rows()
