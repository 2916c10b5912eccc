"""Adapters without their frameworks: padded batches of NumPy arrays, and the error if a framework
is missing."""

import sys

import numpy as np
import pytest

from nbaudio import open_corpus
from nbaudio.core.errors import InputError, MissingExtraError
from nbaudio.corpus.materialize import materialize
from nbaudio.reading.adapters import huggingface, lhotse, tensorflow, torch
from nbaudio.reading.adapters.arrays import batches
from nbaudio.reading.order import Partition

COLUMNS = ["text", "speaker_id"]


@pytest.fixture
def make(make_workspace, tmp_path):
    """50 clips of train, of four lengths."""
    workspace = make_workspace({"a.wav": (36.0, 8000)}, every=0.5, length=0.4)
    segments = workspace.segments.with_row_index("n")
    workspace.save(
        segments=segments.with_columns(
            end_sample=segments["end_sample"] - segments["n"] % 4 * 500
        ).drop("n")
    )

    def make_corpus(**options):
        materialize(
            workspace,
            out=tmp_path / "c",
            rate=8000,
            jobs=1,
            engine="threading",
            show_progress=False,
            **options,
        )
        return open_corpus(tmp_path / "c")

    return make_corpus


@pytest.mark.slow
@pytest.mark.parametrize("steps", [{}, {"batch_s": 3.0}, {"consecutive": 3}], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int16"])
@pytest.mark.parametrize("multiple", [1, 1000])
def test_batches_hold_each_clip_once_padded_with_silence(make, steps, dtype, multiple):
    corpus = make()
    wanted = {
        clip.segment_id: clip
        for clip in corpus.read_many(corpus.rows("train")["segment_id"].to_list())
    }
    for batch in batches(
        corpus.stream("train", **steps), size=7, multiple=multiple, dtype=dtype, columns=COLUMNS
    ):
        samples, lengths = batch["samples"], batch["lengths"]
        assert samples.dtype == dtype
        assert samples.shape == (len(lengths), -(-lengths.max() // multiple) * multiple)
        assert len(lengths) == len(batch["segment_id"]) <= (7 if not steps else 100)
        for row, key in enumerate(batch["segment_id"]):
            clip = wanted.pop(key)
            heard = clip.samples / 32768 if dtype == "float32" else clip.samples
            np.testing.assert_array_equal(samples[row, : lengths[row]], heard)
            assert not samples[row, lengths[row] :].any()
            assert batch["sampling_rate"][row] == 8000
            assert [batch[name][row] for name in COLUMNS] == [
                clip.metadata[name] for name in COLUMNS
            ]
    assert not wanted


def test_mu_law_batches_are_padded_with_level_128(make):
    corpus = make(encoding="mulaw")
    [batch] = batches(corpus.stream("train", give="levels"), size=1000)
    assert batch["samples"].dtype == np.uint8
    shortest = batch["lengths"].argmin()
    assert set(batch["samples"][shortest, batch["lengths"][shortest] :]) == {128}


@pytest.mark.parametrize("steps", [{}, {"batch_s": 3.0}], ids=str)
def test_batches_resume_from_the_state_of_the_stream(make, steps):
    corpus = make()
    whole = [batch["segment_id"] for batch in batches(corpus.stream("train", **steps), size=6)]
    for stop in range(len(whole) + 1):
        stream, other = (corpus.stream("train", **steps) for _ in range(2))
        running = batches(stream, size=6)
        got = [next(running)["segment_id"] for _ in range(stop)]
        other.load_state_dict(stream.state_dict())
        assert got + [batch["segment_id"] for batch in batches(other, size=6)] == whole


@pytest.mark.parametrize(
    ("stream", "options", "message"),
    [
        ({}, {"size": 0}, "size must be 1 or more, not 0"),
        ({}, {"multiple": -1}, "multiple must be 1 or more, not -1"),
        ({}, {"dtype": "int8"}, "type of samples 'int8' is unknown; known are float32, int16"),
        ({}, {"columns": ["txt"]}, "column 'txt' is unknown; known are segment_id, .*text"),
        ({"give": "encoded"}, {}, "the stream yields encoded clips: create it with give='samples'"),
    ],
)
def test_invalid_options_of_batches_are_refused(make, stream, options, message):
    corpus = make()
    with pytest.raises(InputError, match=message):
        next(batches(corpus.stream("train", **stream), **options))


def test_states_of_workers_are_read_from_the_state_of_their_loader():
    workers = {"worker_0": {"dataset_state": {"step": 1}}, "worker_1": {"dataset_state": {}}}
    loader = {"_steps_since_snapshot": 0, "_snapshot": {"_worker_snapshots": workers}}
    assert torch.states_of(loader) == [{"step": 1}, {}]
    assert torch.states_of({"dataset_state": {"step": 2}}) == [{"step": 2}]
    with pytest.raises(InputError, match=r"older than the last step.*snapshot_every_n_steps=1"):
        torch.states_of(loader | {"_steps_since_snapshot": 1})
    with pytest.raises(InputError, match="not the state of a StatefulDataLoader: KeyError"):
        torch.states_of({"_snapshot": {}})


def test_a_partition_of_a_worker_cannot_be_divided_again():
    assert Partition(1, 2).part(2, 3) == Partition(1, 2, 2, 3)
    with pytest.raises(InputError, match="worker 0 of 2 has no workers"):
        Partition(0, 1, 0, 2).part(0, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adapt", "package", "extra"),
    [
        (lambda corpus: torch.stream_dataset(corpus.stream("train")), "torch", "torch"),
        (lambda corpus: torch.ClipDataset(corpus, "train"), "torch", "torch"),
        (lambda corpus: tensorflow.dataset(corpus.stream("train")), "tensorflow", "tensorflow"),
        (lambda corpus: huggingface.dataset(corpus.stream("train")), "datasets", "datasets"),
        (lambda corpus: lhotse.cuts(corpus.stream("train")), "lhotse", "lhotse"),
    ],
    ids=["torch", "torch by number", "tensorflow", "datasets", "lhotse"],
)
def test_missing_framework_is_named_with_its_extra(make, monkeypatch, adapt, package, extra):
    corpus = make()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingExtraError, match=rf"{package} is not installed: pip install 'nbaudio\[{extra}\]'"
    ):
        adapt(corpus)
