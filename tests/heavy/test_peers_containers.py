"""The usual readers read every container as it is, and find the original samples and metadata."""

import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import datasets
import lhotse
import numpy as np
import polars as pl
import pytest
import soundfile as sf
import tensorflow as tf
import tensorflow_datasets as tfds
from conftest import encoded

from nbaudio.corpus.materialize import materialize
from nbaudio.reading import open_corpus
from nbaudio.tables.workspace import Workspace

# `datasets` leaves metadata to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:unclosed file:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
    pytest.mark.usefixtures("nothing_left_open"),
]
SPLITS = ("train", "dev", "test")
COLUMNS = (
    "text",
    "asr_text",
    "speaker_id",
    "split",
    "similarity",
    "duration_s",
    "word_times",
    "recording_id",
    "num_samples",
)
Make = Callable[..., Path]


@pytest.fixture
def corpus(make_workspace: Callable[..., Workspace], tmp_path: Path) -> Make:
    """The second version of a corpus in a container; ids, texts and word times of all sorts, two
    shards and more of train."""
    workspace = make_workspace({"one [AbC-d_f0123].wav": (48.0, 48000), "two.flac": (36.0, 22050)})
    number = workspace.segments.height
    words = [
        [{"start": 0.0, "end": 0.5}, {"start": 0.5, "end": 1.25}][: i % 3] for i in range(number)
    ]
    hostile = ["../../x", "č ž/š", "x" * 300, "\U0001f600", "C:\\con", "a%2Fb"]
    segments = workspace.segments.with_columns(
        segment_id=pl.Series([*hostile, *workspace.segments["segment_id"][len(hostile) :]]),
        text=pl.when(pl.int_range(pl.len()) == 0)
        .then(pl.lit('=1+1 „čšž“ <b>"x"</b>,\n'))
        .otherwise("text"),
        word_times=pl.Series(words),
    )
    later = pl.int_range(pl.len()) % 4 == 3

    def make(container: str, **options: Any) -> Path:
        out = tmp_path / container
        base = out.with_name(f"{container}-base")
        usual: dict[str, Any] = {
            "container": container,
            "jobs": 1,
            "show_progress": False,
            "shard_size": "200kB",
        }
        words = pl.col("word_times")
        # `datasets` infers types from each zip, so that a small one needs a value in each column.
        filled = (
            pl.when(words.list.len() == 0)
            .then(pl.lit(pl.Series([[{"start": 0.0, "end": 0.5}]])))
            .otherwise(words)
            .alias("word_times")
        )
        rows = segments.with_columns(filled if container == "zip" else words)
        workspace.save(segments=rows.filter(~later))
        materialize(workspace, out=base, **usual | options)
        # One clip of the base is out, which rewrites its shard, and one has changed.
        out_now, changed = (base_ids := segments.filter(~later)["segment_id"])[1], base_ids[8]
        text = (
            pl.when(pl.col("segment_id") == changed)
            .then(pl.lit("drugo"))
            .otherwise("text")
            .alias("text")
        )
        workspace.save(segments=rows.filter(pl.col("segment_id") != out_now).with_columns(text))
        materialize(workspace, out=out, base=base, **usual | options)
        assert container == "lhotse" or any(
            "-v2-" in name for name in open_corpus(out).shards["name"]
        )
        return out

    return make


def compare(
    found: Iterable[tuple[dict[str, Any], bytes]], folder: Path, columns: Iterable[str] = COLUMNS
) -> None:
    """All clips are found once, each with its samples and metadata."""
    wanted = {row["segment_id"]: row for row in open_corpus(folder).segments.iter_rows(named=True)}
    audio = dict(zip(wanted, encoded(folder, list(wanted)), strict=True))
    seen = []
    for metadata, data in found:
        key = metadata["segment_id"]
        seen.append(key)
        ours, rate = sf.read(io.BytesIO(audio[key]), dtype="int16")
        theirs, their_rate = sf.read(io.BytesIO(data), dtype="int16")
        np.testing.assert_array_equal(theirs, ours)
        assert their_rate == rate == wanted[key]["sampling_rate"]
        assert {column: metadata[column] for column in columns} == {
            column: wanted[key][column] for column in columns
        }
    assert sorted(seen) == sorted(wanted)


def rows_of(splits: dict[str, Any]) -> Iterable[dict[str, Any]]:
    undecoded = (
        split.cast_column("audio", datasets.Audio(decode=False)) for split in splits.values()
    )
    return (row for split in undecoded for row in split)


def audio_of(row: dict[str, Any]) -> bytes:
    """Bytes of a row of `datasets`, which may only say where they are."""
    if row["audio"]["bytes"] is not None:
        return row["audio"]["bytes"]
    with datasets.utils.file_utils.xopen(row["audio"]["path"], "rb") as file:
        return file.read()


def test_audiofolder_reads_and_streams_zips(corpus: Make, tmp_path: Path) -> None:
    folder = corpus("zip")
    files = {
        split: [str(path) for path in sorted(folder.glob(f"{split}/*.zip"))] for split in SPLITS
    }
    assert len(files["train"]) > 1
    for streaming in (False, True):
        loaded = datasets.load_dataset(
            "audiofolder", data_files=files, streaming=streaming, cache_dir=str(tmp_path / "cache")
        )
        compare(((row, audio_of(row)) for row in rows_of(loaded)), folder)


def test_audiofolder_reads_and_streams_files(corpus: Make, tmp_path: Path) -> None:
    folder = corpus("files")
    files = {split: str(folder / split / "**") for split in SPLITS}
    for streaming in (False, True):
        loaded = datasets.load_dataset(
            "audiofolder", data_files=files, streaming=streaming, cache_dir=str(tmp_path / "cache")
        )
        rows = (row | {"word_times": json.loads(row["word_times"])} for row in rows_of(loaded))
        compare(((row, audio_of(row)) for row in rows), folder)


@pytest.mark.parametrize("container", ["zip", "files", "parquet", "webdataset", "arrow"])
def test_a_corpus_is_loaded_and_streamed_by_its_folder_alone(
    corpus: Make, tmp_path: Path, container: str
) -> None:
    folder = corpus(container, encoding="mulaw" if container == "arrow" else "flac")
    heard = {"webdataset": "flac", "arrow": "levels"}.get(container, "audio")
    for streaming in (False, True):
        loaded = datasets.load_dataset(
            str(folder), streaming=streaming, cache_dir=str(tmp_path / "cache")
        )
        assert set(loaded) == set(SPLITS)
        found = sum(1 for split in loaded.values() for _ in split.remove_columns(heard))
        assert found == open_corpus(folder).segments.height


def test_tensorflow_datasets_builds_from_the_directory(corpus: Make) -> None:
    folder = corpus("tfrecord")
    builder = tfds.builder_from_directory(folder)
    clips = open_corpus(folder).segments
    is_new = pl.col("shard").str.contains("-v2-")
    counts = clips.select(
        pl.when(is_new).then(pl.col("split") + "_v2").otherwise("split").alias("name")
    )["name"].value_counts()
    assert {name: split.num_examples for name, split in builder.info.splits.items()} == dict(
        counts.rows()
    )
    assert (
        len(tfds.as_numpy(builder.as_dataset("train+train_v2")))
        == clips.filter(pl.col("split") == "train").height
    )

    def rows() -> Iterable[tuple[dict[str, Any], bytes]]:
        for split in builder.info.splits:
            for example in tfds.as_numpy(builder.as_dataset(split)):
                metadata = json.loads(example["json"])
                for column in (
                    "text",
                    "asr_text",
                    "speaker_id",
                    "segment_id",
                    "recording_id",
                    "split",
                ):
                    assert example[column].decode() == metadata[column]
                assert example["num_samples"] == metadata["num_samples"]
                np.testing.assert_allclose(example["duration_s"], metadata["duration_s"], rtol=1e-6)
                for side in ("start", "end"):
                    assert example["word_times"][side].tolist() == [
                        word[side] for word in metadata["word_times"]
                    ]
                yield metadata, example["audio"]

    compare(rows(), folder)


def test_tf_data_parses_examples(corpus: Make) -> None:
    folder = corpus("tfrecord")
    paths = sorted(str(path) for path in folder.glob("*/*.tfrecord"))
    features = {
        "audio": tf.io.FixedLenFeature((), tf.string),
        "json": tf.io.FixedLenFeature((), tf.string),
    }
    records = tf.data.TFRecordDataset(paths).map(
        lambda record: tf.io.parse_single_example(record, features)
    )
    compare(
        ((json.loads(row["json"]), row["audio"]) for row in records.as_numpy_iterator()), folder
    )


def test_lhotse_reads_shar(corpus: Make) -> None:
    folder = corpus("lhotse")

    def rows() -> Iterable[tuple[dict[str, Any], bytes]]:
        for split in SPLITS:
            cuts = lhotse.CutSet.from_shar(in_dir=folder / split)
            lhotse.qa.validate(cuts.to_eager(), read_data=False)
            for cut in cuts:
                (supervision,) = cut.supervisions
                assert (supervision.id, supervision.text) == (
                    supervision.custom["segment_id"],
                    supervision.custom["text"],
                )
                samples = (cut.load_audio()[0] * 32768).astype(np.int16)
                ours, _ = sf.read(io.BytesIO(cut.recording.sources[0].source), dtype="int16")
                np.testing.assert_array_equal(samples, ours)
                yield supervision.custom, cut.recording.sources[0].source

    compare(rows(), folder)


def test_tf_io_parses_windows(corpus: Make) -> None:
    folder = corpus("tfrecord", window=3)
    assert not (folder / "features.json").exists()
    lists = {
        name: tf.io.FixedLenSequenceFeature((), tf.string) for name in ("audio", "json", "text")
    }
    lists["word_times/start"] = tf.io.RaggedFeature(tf.float32)
    windows = []

    def rows() -> Iterable[tuple[dict[str, Any], bytes]]:
        for record in tf.data.TFRecordDataset(
            sorted(str(path) for path in folder.glob("*/*.tfrecord"))
        ):
            context, found = tf.io.parse_single_sequence_example(
                record, {"window": tf.io.FixedLenFeature((), tf.string)}, lists
            )
            inside = [json.loads(told) for told in found["json"].numpy()]
            assert {metadata["window"] for metadata in inside} == {
                context["window"].numpy().decode()
            }
            assert [text.decode() for text in found["text"].numpy()] == [
                metadata["text"] for metadata in inside
            ]
            starts = [[word["start"] for word in metadata["word_times"]] for metadata in inside]
            assert found["word_times/start"].to_list() == starts
            windows.append([metadata["start_sample"] for metadata in inside])
            yield from zip(inside, found["audio"].numpy(), strict=True)

    compare(rows(), folder)
    assert all(window == sorted(window) for window in windows)
    assert max(map(len, windows)) == 3
