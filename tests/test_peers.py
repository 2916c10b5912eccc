"""The usual libraries read our corpora and find the same samples and words."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import soundfile as sf

from nbaudio.corpus.materialize import materialize
from nbaudio.tables.workspace import Workspace


@pytest.fixture
def corpus(make_workspace: Callable[..., Workspace], tmp_path: Path) -> Callable[[str], Path]:
    workspace = make_workspace({"one [AbC-d_f0123].wav": (24.0, 48000), "two.flac": (18.0, 22050)})
    segments = workspace.segments.with_columns(
        text=pl.when(pl.int_range(pl.len()) == 0)
        .then(pl.lit('=1+1 „čšž“ <b>"x"</b>\n'))
        .otherwise("text"),
        word_times=pl.Series(
            [[{"start": 0.0, "end": 0.5}, {"start": 0.5, "end": 1.25}]] * workspace.segments.height
        ),
    )
    workspace.save(segments=segments)

    def make(container: str) -> Path:
        materialize(
            workspace,
            out=tmp_path / "c",
            container=container,
            jobs=1,
            shard_size="200kB",
            show_progress=False,
        )
        return tmp_path / "c"

    return make


def expected(corpus: Path) -> dict[str, dict[str, Any]]:
    rows = pl.read_parquet(corpus / "segments.parquet").iter_rows(named=True)
    return {
        row["segment_id"]: row
        | {"samples": sf.read(io.BytesIO(clip_bytes(corpus, row)), dtype="int16")[0]}
        for row in rows
    }


def clip_bytes(corpus: Path, row: dict[str, Any]) -> bytes:
    return (corpus / row["shard"]).read_bytes()[row["offset"] : row["offset"] + row["length"]]


def compare(
    found: Iterator[tuple[dict[str, Any], bytes]], wanted: dict[str, dict[str, Any]]
) -> None:
    seen = set()
    for metadata, audio in found:
        row = wanted[metadata["segment_id"]]
        samples, rate = sf.read(io.BytesIO(audio), dtype="int16")
        np.testing.assert_array_equal(samples, row["samples"])
        assert rate == 16000
        for column in (
            "text",
            "asr_text",
            "speaker_id",
            "split",
            "similarity",
            "duration_s",
            "word_times",
            "recording_id",
        ):
            assert metadata[column] == row[column]
        assert metadata["segment_id"] not in seen
        seen.add(metadata["segment_id"])
    assert seen == wanted.keys()


# webdataset leaves its files to the garbage collector.
@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:unclosed file:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_webdataset_reads_our_tars(corpus: Callable[[str], Path]) -> None:
    import webdataset

    folder = corpus("webdataset")
    shards = sorted(str(path) for path in folder.glob("*/*.tar"))
    samples = webdataset.WebDataset(shards, shardshuffle=False, empty_check=False)
    compare(((json.loads(sample["json"]), sample["flac"]) for sample in samples), expected(folder))


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.slow
def test_datasets_loads_our_parquet_with_an_audio_column(
    corpus: Callable[[str], Path], tmp_path: Path, streaming: bool
) -> None:
    import datasets

    folder = corpus("parquet")
    files = {
        split: sorted(str(path) for path in folder.glob(f"{split}/*.parquet"))
        for split in ("train", "dev", "test")
    }
    loaded = datasets.load_dataset(
        "parquet", data_files=files, streaming=streaming, cache_dir=str(tmp_path / "cache")
    )
    assert set(loaded) == {"train", "dev", "test"}
    assert all(isinstance(split.features["audio"], datasets.Audio) for split in loaded.values())
    assert all(split.features["audio"].sampling_rate == 16000 for split in loaded.values())
    undecoded = (
        split.cast_column("audio", datasets.Audio(decode=False)) for split in loaded.values()
    )
    compare(
        ((row, row["audio"]["bytes"]) for split in undecoded for row in split), expected(folder)
    )
