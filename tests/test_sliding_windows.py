"""Sliding windows: every window once whoever shares, resumed anywhere, each clip decoded once per
block; notes of `--window`."""

import hashlib
import json
import weakref
from collections import Counter
from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_reading import ids, index_of, indices, left_to, shares

from nbaudio.core.errors import InputError
from nbaudio.corpus.convert import convert
from nbaudio.corpus.materialize import materialize
from nbaudio.corpus.plan import assign_windows, short_windows
from nbaudio.reading import open_corpus, streams
from nbaudio.reading.adapters.arrays import batches
from nbaudio.reading.clips import ClipReader
from nbaudio.reading.order import Epoch, Partition

QUIET = {"jobs": 1, "engine": "threading", "show_progress": False}


def windows_of(keys, size, step):
    """Windows of a recording, by hand."""
    found = []
    for start in range(0, len(keys), step):
        found.append(tuple(keys[start : start + size]))
        if start + size >= len(keys):
            break
    return found


def windows_by_hand(index, size, step):
    clips = {}
    for number, (recording, start) in enumerate(
        index.select("recording_id", "start_sample").iter_rows()
    ):
        clips.setdefault(recording, []).append((start, number))
    return [
        window
        for _, own in sorted(clips.items())
        for window in windows_of([n for _, n in sorted(own)], size, step)
    ]


sizes = st.integers(2, 6).flatmap(lambda size: st.tuples(st.just(size), st.integers(1, size)))
sliding = st.builds(
    lambda size_and_step, **options: Epoch(
        consecutive=size_and_step[0], step=size_and_step[1], **options
    ),
    sizes,
    index=indices,
    seed=st.integers(0, 3),
    epoch=st.integers(0, 3),
    shuffle=st.booleans(),
    run=st.integers(1, 5),
    buffer=st.sampled_from([1, 30_000, 10**6]),
)

# --- order


@given(sliding)
def test_windows_cover_every_clip_and_are_in_order_without_shuffle(epoch):
    wanted = windows_by_hand(epoch.index, epoch.consecutive, epoch.step)
    found = [tuple(step) for step in left_to(epoch, Partition())]
    assert Counter(found) == Counter(wanted)
    assert {clip for window in found for clip in window} == set(range(len(epoch.index)))
    assert [tuple(step) for step in left_to(replace(epoch, shuffle=False), Partition())] == wanted
    assert left_to(replace(epoch), Partition()) == list(map(list, found))


@given(sliding)
def test_without_a_step_or_with_the_whole_window_nothing_overlaps(epoch):
    plain = replace(epoch, step=None)
    whole = replace(epoch, step=epoch.consecutive)
    assert left_to(whole, Partition()) == left_to(plain, Partition())
    assert sorted(clip for step in left_to(whole, Partition()) for clip in step) == list(
        range(len(epoch.index))
    )


@given(sliding, st.integers(1, 5), st.integers(1, 4), st.booleans())
def test_ranks_and_workers_together_yield_each_window_once(epoch, world_size, num_workers, pad):
    epoch = replace(epoch, pad=pad)
    found, ranks = Counter(), Counter()
    for share in shares(world_size, num_workers):
        steps = left_to(epoch, share)
        found.update(map(tuple, steps))
        ranks[share.rank] += len(steps)
    wanted = windows_by_hand(epoch.index, epoch.consecutive, epoch.step)
    counts = [ranks[rank] for rank in range(world_size)]
    if pad:
        assert set(found) == set(wanted)
        assert set(counts) == {-(-len(wanted) // world_size)}
    else:
        assert found == Counter(wanted)
        assert max(counts) - min(counts) <= 1


@given(sliding, st.data())
def test_the_rest_of_an_epoch_of_windows_is_divided_again_without_loss(epoch, data):
    done, seen = [], []
    for _ in range(data.draw(st.integers(1, 3))):
        level = []
        for share in shares(data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))):
            steps = left_to(epoch, share, done)
            taken = data.draw(st.integers(0, len(steps)))
            seen += map(tuple, steps[:taken])
            level.append((share, taken))
        done.append(level)
    seen += map(tuple, left_to(epoch, Partition(), done))
    assert Counter(seen) == Counter(windows_by_hand(epoch.index, epoch.consecutive, epoch.step))


@given(sliding)
def test_blocks_hold_the_bytes_of_each_clip_once(epoch):
    lengths = epoch.index["length"].to_numpy()
    steps, edges = epoch.of(Partition(), epoch.whole)
    largest = max(int(lengths[step].sum()) for step in steps)
    blocks = [steps[start:end] for start, end in pairwise(edges)]
    for block in blocks:
        assert len(block) == 1 or lengths[np.unique(block.members)].sum() <= epoch.buffer + largest
    assert [clip for block in blocks for clip in block.members.tolist()] == [
        clip for step in steps for clip in step.tolist()
    ]


def test_windows_are_shuffled_in_runs_of_the_given_length():
    index = index_of([1] * 600, [0], [0, 1, 2])
    firsts = {}
    for run in (1, 16):
        epoch = Epoch(index, consecutive=10, step=1, run=run)
        firsts[run] = [step[0] for step in epoch.whole]
        assert firsts[run] != sorted(firsts[run])
    places = {step[0]: place for place, step in enumerate(windows_by_hand(index, 10, 1))}
    together = {
        run: np.mean(np.diff([places[first] for first in order]) == 1)
        for run, order in firsts.items()
    }
    assert together[1] < 0.02
    assert together[16] > 0.9


def test_stream_orders_equal_those_of_earlier_versions():
    index = index_of(list(range(1, 31)) * 4, [0, 3, 1], [0, 0, 1, 2])
    kinds = ({}, {"consecutive": 4}, {"batch_s": 40.0}, {"consecutive": 3, "shuffle": False})
    orders = [
        left_to(Epoch(index, seed=2, buffer=300_000, **kind), Partition(1, 2, 0, 2))
        for kind in kinds
    ]
    assert (
        hashlib.sha256(json.dumps(orders).encode()).hexdigest()
        == "6b3e1fd51f0f627237b13a610edbba6f174f7233ae4c57d223e2cf34d546ce55"
    )


# --- streams


@pytest.fixture
def make(make_workspace, tmp_path):
    """Clips of 0.3 s from recordings of 2, 14 and 23 s at three rates, of which one is read at its
    own."""

    def make_corpus(**options):
        workspace = make_workspace(
            {"z.wav": (2.0, 8000), "b.flac": (14.0, 22050), "a.wav": (23.0, 44100)},
            every=0.5,
            length=0.3,
        )
        materialize(
            workspace,
            out=tmp_path / "c",
            **({"rate": 11025, "shard_size": "90kB"} | QUIET | options),
        )
        return open_corpus(tmp_path / "c")

    return make_corpus


class Held(np.ndarray):
    """Samples that can be counted: an array has no hash."""

    __hash__ = object.__hash__


def ids_by_hand(corpus, split, size, step):
    rows = corpus.rows(split).sort("recording_id", "start_sample")
    groups = (
        rows.group_by("recording_id", maintain_order=True).agg("segment_id")["segment_id"].to_list()
    )
    return [list(window) for keys in groups for window in windows_of(keys, size, step)]


@pytest.fixture
def work(monkeypatch):
    """Clips that are decoded, by position."""
    seen = Counter()
    decoded = ClipReader.decoded

    def counted(reader, number, data):
        seen[number] += 1
        return decoded(reader, number, data)

    monkeypatch.setattr(ClipReader, "decoded", counted)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("container", "rate"),
    [("webdataset", None), ("parquet", 8000), ("zip", 11025), ("files", 16000)],
)
def test_windows_have_the_samples_and_texts_of_their_clips(make, container, rate):
    corpus = make(container=container, rate=rate)
    wanted = {clip.segment_id: clip for clip in corpus.read_many(corpus.segments["segment_id"])}
    for split, size, step in (("train", 10, 1), ("train", 4, 3), ("dev", 5, 2)):
        windows = ids_by_hand(corpus, split, size, step)
        assert (
            ids(corpus.stream(split, consecutive=size, step=step, shuffle=False, threads=2))
            == windows
        )
        found = list(corpus.stream(split, seed=3, consecutive=size, step=step, buffer=60_000))
        assert sorted(ids(found)) == sorted(windows)
        for clip in (clip for window in found for clip in window):
            assert np.array_equal(clip.samples, wanted[clip.segment_id].samples)
            assert (clip.sampling_rate, clip.text) == (
                wanted[clip.segment_id].sampling_rate,
                wanted[clip.segment_id].text,
            )


def test_a_clip_is_read_and_decoded_once_per_block(make, work):
    corpus = make()
    count = corpus.splits["train"]
    for shuffle in (False, True):
        work.clear()
        stream = corpus.stream("train", consecutive=10, step=1, shuffle=shuffle)
        assert sum(map(len, stream)) > 5 * count
        assert work == Counter(dict.fromkeys(range(count), 1))
    small = corpus.stream("train", consecutive=10, step=1, shuffle=False, buffer=60_000)
    work.clear()
    steps = sum(map(len, small))
    blocks = len(small.epoch.of(small.share, small.epoch.whole)[1]) - 1
    assert blocks > 2
    assert count < work.total() <= count + 9 * blocks < steps / 2
    work.clear()
    assert (
        sum(map(len, corpus.stream("train", consecutive=10, step=1, run=1, buffer=1)))
        == work.total()
        == steps
    )


@pytest.mark.parametrize("options", [{}, {"consecutive": 4, "step": 1}], ids=str)
def test_clips_are_freed_after_their_last_window(make, monkeypatch, options):
    monkeypatch.setattr(streams, "_AT_ONCE", 1)
    decoded, alive, most = ClipReader.decoded, weakref.WeakSet(), 0

    def watched(reader, number, data):
        clip = decoded(reader, number, data)
        held = Held(clip.samples.shape, clip.samples.dtype)
        alive.add(held)
        return replace(clip, samples=held)

    monkeypatch.setattr(ClipReader, "decoded", watched)
    corpus = make()
    for _ in corpus.stream("train", shuffle=False, threads=1, **options):
        most = max(most, len(alive))
    assert most <= 12 < corpus.splits["train"] / 3


def test_arrays_that_windows_share_are_read_only(make):
    corpus = make()
    first, second = islice(corpus.stream("train", consecutive=3, step=1, shuffle=False), 2)
    assert first[1].samples is second[0].samples
    with pytest.raises(ValueError, match="read-only"):
        first[1].samples[:] = 0
    next(iter(corpus.stream("train", consecutive=3)))[0].samples[:] = 0
    for window in corpus.stream("train", consecutive=3, step=2, give="encoded"):
        assert all(clip.encoded.startswith(b"fLaC") for clip in window)


def test_batches_of_a_windowed_stream_are_its_windows(make):
    corpus = make()
    found = list(
        batches(corpus.stream("train", consecutive=4, step=2, shuffle=False), dtype="int16")
    )
    assert [batch["segment_id"] for batch in found] == ids_by_hand(corpus, "train", 4, 2)
    assert all(
        batch["samples"].shape == (len(batch["segment_id"]), batch["lengths"].max())
        for batch in found
    )


@pytest.mark.parametrize("buffer", [30_000, 24 << 20])
def test_a_stream_continues_in_the_middle_of_a_block(make, buffer):
    corpus = make()
    options = {"seed": 5, "rank": 1, "world_size": 2, "consecutive": 5, "step": 2, "buffer": buffer}
    whole = ids(corpus.stream("train", **options))
    for taken in (0, 1, len(whole) // 2, len(whole)):
        stream, again = (corpus.stream("train", **options) for _ in range(2))
        before = ids(islice(stream, taken))
        again.load_state_dict(json.loads(json.dumps(stream.state_dict())))
        assert len(again) == len(whole) - taken
        assert before + ids(again) == whole


def test_another_number_of_workers_resumes_windows_without_loss_or_repeat(make):
    corpus = make()
    options = {"consecutive": 4, "step": 1, "buffer": 50_000}
    three = [corpus.stream("train", worker=worker, num_workers=3, **options) for worker in range(3)]
    seen = [
        window
        for stream, taken in zip(three, (5, 0, 9), strict=True)
        for window in ids(islice(stream, taken))
    ]
    two = [corpus.stream("train", rank=rank, world_size=2, **options) for rank in range(2)]
    for stream in two:
        stream.load_state_dict([state.state_dict() for state in three])
    seen += ids(islice(two[0], 7)) + ids(two[1])
    one = corpus.stream("train", **options)
    one.load_state_dict([stream.state_dict() for stream in two])
    assert sorted(seen + ids(one)) == sorted(ids_by_hand(corpus, "train", 4, 1))


def test_a_state_of_another_step_is_refused_and_one_without_step_loads(make):
    corpus = make()

    def stream(**options):
        return corpus.stream("train", consecutive=4, **options)

    state = stream().state_dict()
    assert "step" not in state["epoch"]
    assert stream(step=4).state_dict() == state
    stream(step=4).load_state_dict(state)
    with pytest.raises(InputError, match="another stream: step 4, not 1"):
        stream(step=1).load_state_dict(state)
    for options, wanted in (({}, 4), ({"step": 4}, 4), ({"step": 2}, 2)):
        with pytest.raises(InputError, match=f"another stream: step 1, not {wanted}"):
            stream(**options).load_state_dict(stream(step=1).state_dict())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"consecutive": 3, "step": 0}, "step must be 1 or more, not 0"),
        ({"consecutive": 3, "step": 1.5}, "step must be a whole number, not 1.5"),
        (
            {"consecutive": 3, "step": 4},
            "step must be at most consecutive, .* got step=4, consecutive=3",
        ),
        ({"step": 1}, "consecutive, which must be 2 or more; got step=1, consecutive=1"),
        ({"batch_s": 3.0, "step": 1}, "which must be 2 or more"),
    ],
)
def test_invalid_steps_are_refused(make, options, says):
    with pytest.raises(InputError, match=says):
        make().stream("train", **options)


# --- recordings that are too short for --window


@given(indices, st.integers(2, 9), st.sampled_from([["train"], ["train", "dev"], ["a", "b", "c"]]))
def test_the_note_of_short_windows_counts_recordings_and_windows(index, size, splits):
    named = pl.Series("split", [splits[n % len(splits)] for n in range(len(index))])
    table = index.select(
        "recording_id",
        "start_sample",
        named,
        end_sample="start_sample",
        segment_id=pl.int_range(pl.len()),
    )
    counts = Counter(table.select("split", "recording_id").rows())
    short = {recording for (_, recording), count in counts.items() if count < size}
    held = Counter(assign_windows(table, size).select("split", "window").rows())
    partial = sum(count < size for count in held.values())
    says = (
        f"{len(short)} of {table['recording_id'].n_unique()} recordings have fewer than "
        f"{size} segments in a split; "
    )
    says += f"{partial} of {len(held)} windows are shorter, ends of longer recordings included"
    assert short_windows(table, size) == ([f"window {size}: {says}"] if short else [])


@pytest.mark.slow
def test_materialize_and_convert_note_recordings_that_are_too_short(make_workspace, tmp_path):
    workspace = make_workspace(
        {"a.wav": (12.0, 8000), "b.wav": (3.0, 16000)}, every=0.5, length=0.3
    )
    one = pl.lit("train").alias("split")
    workspace.save(segments=workspace.segments.with_columns(one))  # 24 segments and 6
    options = {"rate": 8000, "container": "tfrecord"} | QUIET
    says = (
        "window 8: 1 of 2 recordings have fewer than 8 segments in a split; "
        "1 of 4 windows are shorter"
    )
    written = materialize(workspace, out=tmp_path / "c", window=8, **options)
    assert [note.startswith(says) for note in written.warnings] == [True]
    assert not materialize(workspace, out=tmp_path / "d", window=6, **options).warnings
    assert not materialize(workspace, out=tmp_path / "e", **options).warnings
    converted = convert(tmp_path / "e", container="tfrecord", out=tmp_path / "f", window=8, **QUIET)
    assert converted.warnings == written.warnings
    assert not convert(
        tmp_path / "c", container="zip", out=tmp_path / "g", window=3, **QUIET
    ).warnings
