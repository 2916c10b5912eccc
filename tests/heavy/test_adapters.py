"""A corpus in each framework: the clips equal those of `read`, each comes once, and a killed run
resumes exactly."""

import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import lhotse
import numpy as np
import pytest
import torch
from datasets.distributed import split_dataset_by_node
from lhotse.dataset import DynamicCutSampler
from lhotse.dataset.iterable_dataset import IterableDatasetWrapper
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader
from web import serving

from nbaudio import open_corpus
from nbaudio.core.errors import InputError
from nbaudio.corpus.materialize import materialize
from nbaudio.reading import Corpus
from nbaudio.reading.adapters import huggingface, tensorflow
from nbaudio.reading.adapters.lhotse import cuts
from nbaudio.reading.adapters.torch import ClipDataset, collate, states_of, stream_dataset
from nbaudio.tables.workspace import Workspace

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:'set_vital' is deprecated",
        "ignore:.*multi-threaded, use of fork:DeprecationWarning",
        "ignore:unclosed:ResourceWarning",
        "ignore:This DataLoader will create",
    ),
    pytest.mark.usefixtures("nothing_left_open"),
]
Make = Callable[..., Corpus]
COLUMNS = ["text", "speaker_id", "recording_id", "duration_s"]
NOTEBOOK = Path(__file__).parents[2] / "notebooks/08_read_back.ipynb"
STEPS = ({}, {"batch_s": 5.0}, {"consecutive": 3})


@pytest.fixture
def make(make_workspace: Callable[..., Workspace], tmp_path: Path) -> Make:
    """102 clips of train, of four lengths, in shards whose number nothing divides."""
    workspace = make_workspace(
        {"a.wav": (40.0, 8000), "b.wav": (33.0, 8000)}, every=0.5, length=0.47
    )
    segments = workspace.segments.with_row_index("n")
    shorter = segments["n"] % 4 * 400
    workspace.save(
        segments=segments.with_columns(end_sample=segments["end_sample"] - shorter).drop("n")
    )

    def make_corpus(**options: Any) -> Corpus:
        wanted = {"rate": 8000, "shard_count": 7, "jobs": 1, "show_progress": False} | options
        materialize(workspace, out=tmp_path / "c", **wanted)
        return open_corpus(tmp_path / "c")

    return make_corpus


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the corpus of `make` without options is, once a test has needed it."""
    return tmp_path_factory.mktemp("plain") / "c"


@pytest.fixture
def corpus(plain: Path, request: pytest.FixtureRequest) -> Corpus:
    """The corpus of `make` without options, which all tests read and none changes."""
    if not plain.exists():
        made: Corpus = request.getfixturevalue("make")()
        shutil.copytree(str(made.folder), plain)
    return open_corpus(plain)


def same(found: Iterable[dict[str, Any]], corpus: Corpus) -> None:
    """Every clip of train once, with the samples and the columns that `read` gives."""
    clips = {
        clip.segment_id: clip
        for clip in corpus.read_many(corpus.rows("train")["segment_id"].to_list())
    }
    for one in found:
        clip = clips.pop(one["segment_id"])
        samples = np.asarray(one["samples"])
        expected = clip.samples / np.float32(32768) if samples.dtype == np.float32 else clip.samples
        np.testing.assert_array_equal(samples, expected)
        assert samples.dtype == expected.dtype
        assert {name: one[name] for name in COLUMNS} == {
            name: clip.metadata[name] for name in COLUMNS
        }
        assert one["sampling_rate"] == clip.sampling_rate
    assert not clips


def apart(batches: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Clips of padded batches; behind their ends is silence."""
    for batch in batches:
        for row in range(len(batch["lengths"])):
            length = int(batch["lengths"][row])
            assert not np.asarray(batch["samples"][row][length:]).any()
            yield {name: values[row] for name, values in batch.items()} | {
                "samples": batch["samples"][row][:length]
            }


def flat(steps: Iterable[dict[str, Any]]) -> list[list[str]]:
    return [
        [step["segment_id"]] if isinstance(step["segment_id"], str) else list(step["segment_id"])
        for step in steps
    ]


def once(steps: Iterable[list[str]], corpus: Corpus) -> bool:
    return sorted(key for step in steps for key in step) == sorted(
        corpus.rows("train")["segment_id"]
    )


# torch


@pytest.mark.parametrize(
    ("workers", "start"), [(0, None), (1, "fork"), (2, "fork"), (2, "spawn"), (2, "forkserver")]
)
def test_torch_gives_the_same_clips(corpus: Corpus, workers: int, start: str | None) -> None:
    options = {"num_workers": workers, "multiprocessing_context": start}
    clips = stream_dataset(corpus.stream("train"), columns=COLUMNS)
    same(apart(DataLoader(clips, batch_size=5, collate_fn=collate, **options)), corpus)
    if start not in ("spawn", "forkserver"):  # such workers import torch anew for each loader
        same(DataLoader(clips, batch_size=None, **options), corpus)
        listed = stream_dataset(corpus.stream("train", batch_s=5.0), dtype="int16", columns=COLUMNS)
        same(apart(DataLoader(listed, batch_size=None, **options)), corpus)
    mapped = ClipDataset(corpus, "train", dtype="int16", columns=COLUMNS)
    same(
        apart(DataLoader(mapped, batch_size=5, shuffle=True, collate_fn=collate, **options)), corpus
    )
    assert len(mapped) == len(corpus.rows("train"))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_torch_workers_read_a_corpus_from_a_web_server(corpus: Corpus, start: str) -> None:
    with serving(Path(str(corpus.folder))) as web:
        there = open_corpus(web.url)
        there.read(there.segments["segment_id"][0])  # connections are there before the workers are
        for dataset in (
            stream_dataset(there.stream("train"), columns=COLUMNS),
            ClipDataset(there, "train", columns=COLUMNS),
        ):
            loader = DataLoader(
                dataset,
                batch_size=7,
                num_workers=2,
                collate_fn=collate,
                multiprocessing_context=start,
                timeout=60,
            )
            same(apart(loader), corpus)


def test_torch_batches_of_levels_are_padded_with_silence(make: Make) -> None:
    corpus = make(encoding="mulaw")
    [batch] = DataLoader(
        stream_dataset(corpus.stream("train", give="levels")),
        batch_size=len(corpus.rows("train")),
        collate_fn=collate,
    )
    assert batch["samples"].dtype == torch.uint8
    shortest = int(batch["lengths"].argmin())
    assert (batch["samples"][shortest, batch["lengths"][shortest] :] == 128).all()


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("workers", [0, 2])
def test_set_epoch_changes_the_order_also_in_persistent_workers(
    corpus: Corpus, steps: dict[str, Any], workers: int
) -> None:
    dataset = stream_dataset(corpus.stream("train", **steps))
    loader = DataLoader(
        dataset, batch_size=None, num_workers=workers, persistent_workers=workers > 0
    )
    first, again = flat(loader), flat(loader)
    dataset.set_epoch(1)
    second = flat(loader)
    assert first == again != second
    assert once(first, corpus)
    assert once(second, corpus)


def read_rank(rank: int, folder: str, store: str, results: Any) -> None:
    """One of two processes of torch.distributed; the dataset is there before the group is."""
    dataset = stream_dataset(open_corpus(folder).stream("train"))
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2
    )
    for start in ("fork", "spawn"):
        loader = DataLoader(
            dataset, batch_size=4, num_workers=2, collate_fn=collate, multiprocessing_context=start
        )
        results.put((start, rank, [key for step in flat(loader) for key in step]))
    torch.distributed.destroy_process_group()


def test_two_ranks_with_two_workers_give_each_clip_once(corpus: Corpus, tmp_path: Path) -> None:
    assert corpus.rows("train")["shard"].n_unique() % 4
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    arguments = (str(corpus.folder), str(tmp_path / "store"), results)
    ranks = [context.Process(target=read_rank, args=(rank, *arguments)) for rank in (0, 1)]
    for rank in ranks:
        rank.start()
    found = [results.get(timeout=120) for _ in range(4)]
    for rank in ranks:
        rank.join()
        assert rank.exitcode == 0
    for start in ("fork", "spawn"):
        parts = [keys for name, _, keys in found if name == start]
        assert once(parts, corpus)
        assert abs(len(parts[0]) - len(parts[1])) <= 1


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_stateful_dataloader_resumes_at_the_next_clip(
    corpus: Corpus, steps: dict[str, Any], workers: int
) -> None:
    options = {"num_workers": workers} | (
        {"batch_size": None} if steps else {"batch_size": 5, "collate_fn": collate}
    )

    def loader() -> StatefulDataLoader:
        return StatefulDataLoader(stream_dataset(corpus.stream("train", **steps)), **options)

    whole = flat(loader())
    assert once(whole, corpus)
    for stop in (0, 1, 4, len(whole) - 1, len(whole)):
        begun = loader()
        running = iter(begun)
        got = flat(islice(running, stop))
        state = json.loads(json.dumps(begun.state_dict()))
        del running
        other = loader()
        other.load_state_dict(state)
        assert got + flat(other) == whole
        assert flat(other) == whole


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_state_resumes_with_another_number_of_workers_without_repeats(
    corpus: Corpus, workers: int
) -> None:
    begun = StatefulDataLoader(
        stream_dataset(corpus.stream("train", epoch=3)), batch_size=None, num_workers=2
    )
    got = flat(islice(begun, 31))
    dataset = stream_dataset(corpus.stream("train"))
    dataset.load_state_dict(states_of(begun.state_dict()))
    rest = flat(DataLoader(dataset, batch_size=None, num_workers=workers))
    assert once(got + rest, corpus)


def test_invalid_states_are_refused(corpus: Corpus) -> None:
    seldom = StatefulDataLoader(
        stream_dataset(corpus.stream("train")),
        batch_size=None,
        num_workers=1,
        snapshot_every_n_steps=5,
    )
    running = iter(seldom)
    next(running)
    with pytest.raises(InputError, match="snapshot_every_n_steps=1"):
        states_of(seldom.state_dict())
    with pytest.raises(InputError, match="not the state of a StatefulDataLoader"):
        states_of({"epoch": 1})
    with pytest.raises(InputError, match="not the state of a stream"):
        stream_dataset(corpus.stream("train")).load_state_dict({"step": 1})


CONSUME = """
import json, os, sys, time, warnings
warnings.simplefilter("ignore")
from torchdata.stateful_dataloader import StatefulDataLoader
from nbaudio import open_corpus
from nbaudio.reading.adapters.torch import collate, stream_dataset

log = sys.argv[2]
lines = open(log, "rb").read().split(b"\\n")[:-1] if os.path.exists(log) else []
os.truncate(log, sum(len(line) + 1 for line in lines)) if lines else None
loader = StatefulDataLoader(
    stream_dataset(open_corpus(sys.argv[1]).stream("train", seed=5)),
    batch_size=3,
    collate_fn=collate,
    num_workers=2,
)
if lines:
    loader.load_state_dict(json.loads(lines[-1])[1])
with open(log, "ab", buffering=0) as file:
    for batch in loader:
        file.write(json.dumps([batch["segment_id"], loader.state_dict()]).encode() + b"\\n")
        time.sleep(0.02)
"""


def test_killed_consumer_continues_from_its_last_state(corpus: Corpus, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", CONSUME, str(corpus.folder), str(log)]

    def steps() -> int:
        return log.read_bytes().count(b"\n") if log.exists() else 0

    draw = random.Random(7)
    for _ in range(3):
        begun = steps()
        with subprocess.Popen(command, start_new_session=True) as consumer:
            while consumer.poll() is None and steps() < begun + draw.randint(2, 9):
                time.sleep(0.01)
            assert consumer.poll() is None
            os.killpg(consumer.pid, signal.SIGKILL)
    killed = steps()
    subprocess.run(command, check=True)
    found = [json.loads(line)[0] for line in log.read_text().splitlines()]
    assert killed < len(found)
    assert once(found, corpus)


# tf.data


def test_tensorflow_gives_the_same_clips_and_then_the_next_epoch(corpus: Corpus) -> None:
    def plain(value: Any) -> Any:
        return value.decode() if isinstance(value, bytes) else value

    def rows(steps: Any) -> Iterable[dict[str, Any]]:
        return ({name: plain(value) for name, value in row.items()} for row in steps)

    for dtype in ("float32", "int16"):
        clips = tensorflow.dataset(corpus.stream("train"), dtype=dtype, columns=COLUMNS)
        same(rows(clips.as_numpy_iterator()), corpus)
    listed = tensorflow.dataset(corpus.stream("train", batch_s=5.0), columns=COLUMNS)
    same(rows(apart(listed.as_numpy_iterator())), corpus)
    orders = [
        [key for step in listed.as_numpy_iterator() for key in step["segment_id"].tolist()]
        for _ in range(2)
    ]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])
    asked = [
        clip.segment_id for step in corpus.stream("train", batch_s=5.0, epoch=1) for clip in step
    ]
    assert [key.decode() for key in orders[0]] == asked


def test_tensorflow_begins_where_the_stream_is(corpus: Corpus) -> None:
    stream = corpus.stream("train", batch_s=5.0)
    whole = flat(
        {"segment_id": [clip.segment_id for clip in step]}
        for step in corpus.stream("train", batch_s=5.0)
    )
    stream.load_state_dict(stream.state_dict() | {"taken": 4})
    rest = [
        [key.decode() for key in step["segment_id"]]
        for step in tensorflow.dataset(stream).as_numpy_iterator()
    ]
    assert rest == whole[4:]


def test_tensorflow_reads_null_values_and_refuses_list_columns(corpus: Corpus) -> None:
    stream = corpus.stream("train")
    [row] = (
        tensorflow.dataset(stream, columns=["text_raw", "wer", "start_sample"])
        .take(1)
        .as_numpy_iterator()
    )
    assert row["text_raw"] == b""
    assert np.isnan(row["wer"])
    assert row["start_sample"] == corpus.read(row["segment_id"].decode()).metadata["start_sample"]
    with pytest.raises(InputError, match=r"'word_times' is .*TensorFlow takes text and numbers"):
        tensorflow.dataset(stream, columns=["word_times"])


# Hugging Face


def test_datasets_gives_the_same_clips(corpus: Corpus) -> None:
    clips = huggingface.dataset(corpus.stream("train"), columns=COLUMNS)
    same(clips, corpus)
    same(clips.with_format("torch"), corpus)
    encoded = huggingface.dataset(corpus.stream("train", give="encoded"), columns=COLUMNS)
    assert isinstance(encoded.features["audio"], datasets.Audio)
    heard = [(row, row["audio"].get_all_samples()) for row in encoded]
    same(
        (
            row | {"samples": audio.data[0].numpy(), "sampling_rate": audio.sample_rate}
            for row, audio in heard
        ),
        corpus,
    )
    with pytest.raises(InputError, match="without batch_s"):
        huggingface.dataset(corpus.stream("train", batch_s=5.0))
    with pytest.raises(InputError, match="shards must be 1 or more"):
        huggingface.dataset(corpus.stream("train"), shards=0)


@pytest.mark.parametrize(
    "adapt", [huggingface.dataset, stream_dataset, cuts], ids=["datasets", "torch", "lhotse"]
)
def test_adapters_refuse_a_stream_that_has_started(corpus, adapt):
    stream = corpus.stream("train")
    next(iter(stream))
    with pytest.raises(InputError, match="the stream has started"):
        adapt(stream)


def test_datasets_parts_go_to_nodes_and_workers_once_each(corpus: Corpus) -> None:
    nodes = [
        split_dataset_by_node(huggingface.dataset(corpus.stream("train"), shards=6), rank, 3)
        for rank in range(3)
    ]
    loaders = [DataLoader(node, batch_size=None, num_workers=2) for node in nodes]
    assert once((step for loader in loaders for step in flat(loader)), corpus)


@pytest.mark.parametrize("stop", [0, 1, 40, 102])
def test_datasets_continues_exactly(corpus: Corpus, stop: int) -> None:
    whole = flat(huggingface.dataset(corpus.stream("train"), shards=4))
    begun = huggingface.dataset(corpus.stream("train"), shards=4)
    got = flat(islice(begun, stop))
    other = huggingface.dataset(corpus.stream("train"), shards=4)
    other.load_state_dict(begun.state_dict())
    assert got + flat(other) == whole


# Lhotse


@pytest.mark.parametrize("encoding", ["flac", "mp3"])
def test_lhotse_loads_the_same_samples(make: Make, encoding: str) -> None:
    corpus = make(encoding=encoding)
    found = cuts(corpus.stream("train"))
    assert found.is_lazy
    lhotse.qa.validate(found.to_eager(), read_data=True)

    def rows() -> Iterable[dict[str, Any]]:
        for cut in found:
            [supervision] = cut.supervisions
            assert (supervision.text, supervision.speaker) == (
                supervision.custom["text"],
                supervision.custom["speaker_id"],
            )
            told = {
                "segment_id": cut.id,
                "samples": cut.load_audio()[0],
                "sampling_rate": cut.sampling_rate,
            }
            yield {name: supervision.custom[name] for name in COLUMNS} | told

    same(rows(), corpus)


def test_lhotse_refuses_a_stream_of_levels(make: Make) -> None:
    corpus = make(encoding="mulaw")
    with pytest.raises(InputError, match="the stream yields levels"):
        cuts(corpus.stream("train", give="levels"))


class Keys(torch.utils.data.Dataset):
    """What a sampler's cuts are called."""

    def __getitem__(self, found: lhotse.CutSet) -> list[str]:
        assert all(cut.load_audio().shape == (1, cut.num_samples) for cut in found)
        return [cut.id for cut in found]


@pytest.mark.parametrize("workers", [0, 2])
def test_lhotse_samplers_in_workers_give_each_clip_once(corpus: Corpus, workers: int) -> None:
    sampler = DynamicCutSampler(
        cuts(corpus.stream("train", give="encoded", consecutive=2)), max_duration=5.0, shuffle=False
    )
    loader = DataLoader(
        IterableDatasetWrapper(Keys(), sampler), batch_size=None, num_workers=workers
    )
    assert once(loader, corpus)


# all of them


@pytest.mark.parametrize("workers", [0, 2])
def test_adapters_yield_each_sliding_window_once(corpus: Corpus, workers: int) -> None:
    def stream() -> Any:
        return corpus.stream("train", consecutive=6, step=2)

    wanted = sorted([clip.segment_id for clip in window] for window in stream())
    clips = {
        clip.segment_id: clip.samples
        for clip in corpus.read_many(corpus.rows("train")["segment_id"].to_list())
    }
    loader = DataLoader(
        stream_dataset(stream(), dtype="int16"), batch_size=None, num_workers=workers
    )
    windows = list(loader)
    assert sorted(flat(windows)) == wanted
    for window in windows:
        for key, samples, length in zip(
            window["segment_id"], window["samples"], window["lengths"], strict=True
        ):
            np.testing.assert_array_equal(samples[:length], clips[key])
    steps = tensorflow.dataset(stream()).as_numpy_iterator()
    assert sorted([key.decode() for key in step["segment_id"]] for step in steps) == wanted
    assert [cut.id for cut in cuts(stream())] == [
        clip.segment_id for window in stream() for clip in window
    ]
    with pytest.raises(InputError, match="rows are single clips"):
        huggingface.dataset(stream())


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("08-7", r"^torch.Size\("),
        ("08-10", r"IterableDataset\(\{"),
        ("08-16", r"^\(\d+, \d+\) \(\d+,\) "),
    ],
)
def test_cells_of_the_adapter_notebook_read_the_corpus(
    corpus: Corpus, cell: str, shown: str, capfd: pytest.CaptureFixture[str]
) -> None:
    cells = {
        each["id"]: "".join(each["source"])
        for each in json.loads(NOTEBOOK.read_text(encoding="utf8"))["cells"]
    }
    names: dict[str, Any] = {"opened": corpus, "split": "train", "batch_s": 5.0, "seed": 1}
    for source in (cells["08-3"], cells[cell]):
        exec(source, names)  # noqa: S102 -- our own
    assert re.search(shown, capfd.readouterr().out)


def test_examples_of_the_documentation_work(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(str(corpus.folder)).parent)
    page = (Path(__file__).parents[2] / "docs/reading.md").read_text(encoding="utf8")
    examples, *_ = page.split(
        "\n## Shards, shuffling, decoding\n"
    )  # then code for shards without nbaudio
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", examples, re.DOTALL):
        exec(block.replace('"CORPUS"', '"c"'), names)  # noqa: S102 -- our own
    assert names["clip"].segment_id in set(corpus.segments["segment_id"])
    assert names["batch"]["samples"].shape[1] % 16000 == 0
