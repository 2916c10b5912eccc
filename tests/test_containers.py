"""The contract of every container."""

import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import soundfile as sf
from conftest import encoded
from hostile import NAMES
from hypothesis import example, given
from hypothesis import strategies as st

from nbaudio.audio import probe
from nbaudio.core.errors import AudioError, ExistsError, InputError
from nbaudio.corpus.containers.registry import CONTAINERS
from nbaudio.corpus.containers.shard_files import Shard, as_json
from nbaudio.corpus.containers.tfrecord import _field, _varint
from nbaudio.corpus.containers.webdataset import header, write_tar
from nbaudio.corpus.convert import convert
from nbaudio.corpus.materialize import materialize
from nbaudio.corpus.plan import assign_windows
from nbaudio.corpus.shard_names import shard_name
from nbaudio.corpus.shards import shard_advice
from nbaudio.corpus.verify import verify
from nbaudio.reading import open_corpus
from nbaudio.tables.parquet_files import digest
from nbaudio.tables.workspace import Workspace

RATE = 16000
every_container = pytest.mark.parametrize("container", list(CONTAINERS))
DEFAULT = ("webdataset", "files")
some_containers = pytest.mark.parametrize(
    "container",
    [pytest.param(name, marks=() if name in DEFAULT else pytest.mark.slow) for name in CONTAINERS],
)


def build(folder, segments):
    """A workspace of one recording in noise, from (id, start in seconds, end, split)."""
    (folder / "audio").mkdir(parents=True)
    noise = np.random.default_rng(5).integers(-20000, 20000, 60 * RATE, dtype=np.int16)
    path = folder / "audio/r.wav"
    sf.write(path, noise, RATE)
    facts = {
        "recording_id": "r",
        "path": "r.wav",
        "sampling_rate": RATE,
        "num_channels": 1,
        "num_samples": probe(path).num_samples,
    }
    facts |= {
        "codec": "pcm_s16le",
        "num_bytes": path.stat().st_size,
        "mtime_ns": path.stat().st_mtime_ns,
    }
    words = [{"start": 0.0, "end": 0.25}]
    rows = [
        {
            "segment_id": key,
            "recording_id": "r",
            "start_sample": int(start * RATE),
            "end_sample": int(end * RATE),
            "split": split,
        }
        | {
            "source_start": str(start),
            "source_end": str(end),
            "text": f"čaša „{number}“ \U0001f600",
            "asr_text": None,
        }
        | {
            "speaker_id": f"s{number % 3}",
            "similarity": 0.1 * number,
            "decision": "accept",
            "word_times": words * (number % 3),
        }
        for number, (key, start, end, split) in enumerate(segments)
    ]
    workspace = Workspace.create(folder / "w", source="made", audio=str(folder / "audio"))
    workspace.save(
        recordings=pl.DataFrame([facts]), segments=pl.DataFrame(rows, infer_schema_length=None)
    )
    return workspace


def encoding_of(container):
    return "mulaw" if CONTAINERS[container].levels_only else "flac"


def make_corpus(workspace, out, *, container="webdataset", **options):
    """Materialize a small corpus in a container, in the encoding that it stores."""
    usual = {
        "jobs": 1,
        "engine": "threading",
        "shard_size": "60kB",
        "encoding": encoding_of(container),
    }
    return materialize(
        workspace, out=out, container=container, show_progress=False, **usual | options
    )


def converted(corpus, out, container, **options):
    options = {"jobs": 1, "engine": "threading", "shard_size": "60kB"} | options
    return convert(corpus, container=container, out=out, show_progress=False, **options)


def contents(folder):
    """Hash of every file by name."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def check(corpus):
    assert verify(corpus, jobs=1, engine="threading", show_progress=False).problems == []


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """A workspace with ids of all sorts in two splits, none in dev, and its corpora by encoding."""
    folder = tmp_path_factory.mktemp("base")
    ids = [*NAMES[:42:3], *(f"AbC-d_f0123_{i}.5-{i + 1}.25" for i in range(26))]
    segments = [(key, i, i + 0.75, "test" if i % 4 == 1 else "train") for i, key in enumerate(ids)]
    workspace = build(folder, segments)
    for encoding in {encoding_of(container) for container in CONTAINERS}:
        make_corpus(workspace, folder / encoding, encoding=encoding)
    return workspace, {path.name: path for path in folder.iterdir()}


@pytest.fixture
def base(corpora, request):
    """The workspace, and the corpus that the container of the test can hold."""
    given = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    return corpora[0], corpora[1][encoding_of(given.get("container", "webdataset"))]


@pytest.fixture(scope="module")
def whole(corpora, tmp_path_factory):
    """A function that returns the corpus in a container, converted once; copy it before changing
    it."""
    folder = tmp_path_factory.mktemp("whole")

    def path(container):
        out = folder / container
        if not out.exists():
            converted(corpora[1][encoding_of(container)], out, container, jobs=2)
        return out

    return path


@some_containers
def test_conversion_and_back_keeps_clips_metadata_and_bytes(base, whole, tmp_path, container):
    workspace, corpus = base
    make_corpus(workspace, tmp_path / "made", container=container, jobs=2)
    assert contents(tmp_path / "made") == contents(whole(container))
    check(tmp_path / "made")
    before, after = (
        open_corpus(folder).segments.sort("segment_id") for folder in (corpus, tmp_path / "made")
    )
    places = ["shard", "offset", *(["length"] if container == "arrow" else [])]
    assert after.drop(places).equals(before.drop(places))
    ids = before["segment_id"].to_list()
    assert encoded(tmp_path / "made", ids) == encoded(corpus, ids)
    assert after.filter(pl.col("split") == "train")["shard"].n_unique() > 1
    assert all(
        ".." not in Path(name).parts and name.isascii() and len(Path(name).name) < 200
        for name in contents(tmp_path / "made")
    )
    # and back again
    converted(tmp_path / "made", tmp_path / "back", "webdataset")
    assert contents(tmp_path / "back") == contents(corpus)


KILL = """
import os, signal, sys
from pathlib import Path
from nbaudio.corpus import shards
from nbaudio.corpus.convert import convert
from test_containers import encoding_of

corpora, out, *containers = sys.argv[1:]
read = shards.read_clips

def dying(clips):
    for number, clip in enumerate(read(clips)):
        written = Path(out, container).glob("t*/*")
        if number == 2 and any(not path.name.startswith(".") for path in written):
            os.kill(os.getpid(), signal.SIGKILL)
        yield clip

shards.read_clips = dying
for container in containers:
    if not os.fork():
        options = {"shard_size": "60kB", "jobs": 1, "engine": "threading", "show_progress": False}
        corpus = Path(corpora, encoding_of(container))
        convert(corpus, container=container, out=Path(out, container), **options)
        os._exit(0)
    print(container, os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.fixture(scope="module")
def killed(corpora, tmp_path_factory):
    """What was left in each container by a run that was killed in its second shard."""
    folder = tmp_path_factory.mktemp("killed")
    command = [sys.executable, "-c", KILL, corpora[1]["flac"].parent, folder, *CONTAINERS]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert run.stdout.splitlines() == [f"{container} {-signal.SIGKILL}" for container in CONTAINERS]
    return folder


@pytest.mark.slow
@some_containers
def test_a_killed_conversion_is_finished_with_the_same_bytes(base, killed, whole, container):
    assert list((killed / container).rglob(".*.partial"))
    assert not (killed / container / "corpus.json").exists()
    report = converted(base[1], killed / container, container)
    assert report.facts["shards_kept_from_before"] >= 1
    assert contents(killed / container) == contents(whole(container))


@pytest.mark.slow
@some_containers
def test_single_clips_and_clips_larger_than_a_shard_are_stored(tmp_path, container):
    segments = [
        ("one", 0, 0.5, "dev"),
        ("a", 1, 1.5, "train"),
        ("large", 2, 12, "train"),
        ("b", 13, 13.5, "train"),
    ]
    workspace = build(tmp_path, segments)
    make_corpus(workspace, tmp_path / "c", container=container, shard_size="20kB")
    check(tmp_path / "c")
    clips = open_corpus(tmp_path / "c").segments
    manifest = json.loads((tmp_path / "c/corpus.json").read_text())
    for split in ("train", "dev"):
        names = [shard["name"] for shard in manifest["shards"] if shard["split"] == split]
        assert names == [
            shard_name(CONTAINERS[container], split, index, len(names))
            for index in range(len(names))
        ]
    assert clips.filter(pl.col("segment_id") == "large")["length"].item() > 100_000
    make_corpus(workspace, tmp_path / "single", container=container, shard_count=1)
    assert len(json.loads((tmp_path / "single/corpus.json").read_text())["shards"]) == 2


def harmed(data):
    """What can happen to a file: one bit another, its last byte gone, or all of it."""
    middle = len(data) // 2
    return {
        "flipped": data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :],
        "shortened": data[:-1],
        "removed": None,
    }


def problems_of(corpus):
    try:
        return verify(corpus, jobs=1, engine="threading", show_progress=False).problems
    except InputError as error:
        return [str(error)]


@pytest.mark.slow
@some_containers
def test_verify_finds_damage_to_every_kind_of_file_and_unlisted_shards(whole, tmp_path, container):
    corpus = shutil.copytree(whole(container), tmp_path / "c")
    files = [
        path
        for path in corpus.rglob("*")
        if path.is_file() and path.name not in ("corpus.json", "README.md")
    ]
    for victim in {path.suffix: path for path in sorted(files)}.values():
        data = victim.read_bytes()
        for harm, bad in harmed(data).items():
            victim.unlink() if bad is None else victim.write_bytes(bad)
            assert problems_of(corpus), f"{victim} {harm}"
            victim.write_bytes(data)
    clip = corpus / open_corpus(corpus).segments["shard"][0]
    stray = re.sub(r"\d{5,6}", lambda number: "9" * len(number.group()), clip.name, count=1)
    stray = clip.with_name(stray if stray != clip.name else f"99999{clip.suffix}")
    stray.write_bytes(clip.read_bytes())
    assert problems_of(corpus) == [f"{stray.relative_to(corpus)}: not listed in corpus.json"]
    stray.unlink()
    check(corpus)


@pytest.mark.slow
@pytest.mark.parametrize("container", ["webdataset", "tfrecord"])
def test_segments_of_a_window_are_stored_in_order_within_one_recording(base, tmp_path, container):
    workspace, corpus = base
    make_corpus(workspace, tmp_path / "made", container=container, window=4)
    converted(corpus, tmp_path / "c", container, window=4)
    assert contents(tmp_path / "made") == contents(tmp_path / "c")
    check(tmp_path / "c")
    clips = open_corpus(tmp_path / "c").segments.sort("shard", "offset")
    windows = clips.group_by("split", "window", maintain_order=True).agg(
        pl.len(), "start_sample", pl.col("shard").n_unique()
    )
    assert windows["shard"].to_list() == [1] * len(windows)
    assert all(starts == sorted(starts) for starts in windows["start_sample"].to_list())
    assert windows.filter(pl.col("len") < 4).height <= 2
    rows = clips.sort("split", "start_sample").with_columns(
        number=pl.int_range(pl.len()).over("split") // 4
    )
    assert (
        rows.select(
            pl.struct("split", "window").rank("dense") == pl.struct("split", "number").rank("dense")
        )
        .to_series()
        .all()
    )
    assert encoded(tmp_path / "c", clips["segment_id"]) == encoded(corpus, clips["segment_id"])


@pytest.mark.slow
def test_convert_refuses_missing_or_damaged_corpora_and_existing_outputs(base, tmp_path):
    _, corpus = base
    with pytest.raises(InputError, match="missing"):
        converted(tmp_path, tmp_path / "c", "zip")
    with pytest.raises(InputError, match="folders of this machine"):
        converted(corpus, "s3://bucket/c", "zip")
    with pytest.raises(InputError, match="webdataset, parquet, zip"):
        converted(corpus, tmp_path / "c", "rar")
    with pytest.raises(InputError, match="shard_count must be 1 or more, not 0"):
        converted(corpus, tmp_path / "c", "zip", shard_count=0)
    converted(corpus, tmp_path / "a", "zip")
    with pytest.raises(ExistsError, match="container is zip, not parquet"):
        converted(corpus, tmp_path / "a", "parquet")
    shard = next((tmp_path / "a/train").iterdir())
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(AudioError, match=r"train-.*zip: a clip is damaged; 'nbaudio verify"):
        converted(tmp_path / "a", tmp_path / "b", "parquet")
    assert not (tmp_path / "b/corpus.json").exists()


@pytest.mark.slow
@some_containers
def test_levels_are_numpy_files_in_every_container(base, tmp_path, container):
    workspace, _ = base
    make_corpus(workspace, tmp_path / "c", container=container, encoding="mulaw")
    check(tmp_path / "c")
    clips = open_corpus(tmp_path / "c").segments
    for data, samples in zip(
        encoded(tmp_path / "c", clips["segment_id"]), clips["num_samples"], strict=True
    ):
        levels = np.load(io.BytesIO(data), allow_pickle=False)
        assert (levels.dtype, levels.shape) == (np.uint8, (samples,))
    if container == "files":
        assert np.load(tmp_path / "c" / clips["shard"][0], mmap_mode="r").shape == (
            clips["num_samples"][0],
        )


@pytest.mark.slow
def test_arrow_shards_are_memory_mapped_and_hold_levels_only(base, tmp_path):
    workspace, corpus = base
    make_corpus(workspace, tmp_path / "c", container="arrow", encoding="linear")
    clips = open_corpus(tmp_path / "c").segments
    shards = [
        pa.ipc.open_file(pa.memory_map(str(tmp_path / "c" / name))).read_all()
        for name in clips["shard"].unique()
    ]
    assert pa.total_allocated_bytes() < 1_000_000
    rows = [row for shard in shards for row in pl.from_arrow(shard).iter_rows(named=True)]
    assert len(rows) == len(clips)
    for row in rows:
        clip = open_corpus(tmp_path / "c").read(row["segment_id"], give="levels")
        assert np.array_equal(clip.samples, row["levels"])
        assert {name: row[name] for name in ("text", "word_times")} == {
            name: clip.metadata[name] for name in ("text", "word_times")
        }
    for refused in (
        lambda: make_corpus(workspace, tmp_path / "d", container="arrow", encoding="flac"),
        lambda: converted(corpus, tmp_path / "d", "arrow"),
    ):
        with pytest.raises(
            InputError,
            match="container arrow stores levels: encoding must be mulaw or linear, not flac",
        ):
            refused()
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("key", ["a" * 95, "a" * 96, "č" * 60, "a/b"])
def test_tarfile_reads_what_is_written_at_the_offsets_returned(tmp_path, key):
    places = write_tar(tmp_path / "a.tar", [(key, b"audio", b"{}"), ("b", b"", b"{}")], "flac")
    with tarfile.open(tmp_path / "a.tar") as archive:
        members = archive.getmembers()
    assert [(member.name, member.size) for member in members[:2]] == [
        (f"{key}.flac", 5),
        (f"{key}.json", 2),
    ]
    assert [(member.offset_data, member.size) for member in members[::2]] == [
        place[:2] for place in places
    ]
    assert {(member.mode, member.mtime, member.uid, member.uname) for member in members} == {
        (0o644, 0, 0, "")
    }


def test_metadata_is_valid_json_with_null_for_infinite_numbers():
    assert as_json({"text": "čaša", "cer": None}).decode() == '{"cer":null,"text":"čaša"}'
    assert (
        as_json({"snr": float("nan"), "all": [1.5, float("-inf")]}).decode()
        == '{"all":[1.5,null],"snr":null}'
    )


def test_zip_members_have_safe_names_in_hashed_folders(tmp_path):
    metadata = pl.DataFrame({"segment_id": ["HlauTe_NK6U_3207.7-3227.54", "../x"]})
    CONTAINERS["zip"].write(
        tmp_path / "shard.zip", metadata, [b"1", b"2"], extension="flac", rate=None
    )
    with zipfile.ZipFile(tmp_path / "shard.zip") as archive:
        assert archive.namelist()[1:] == [
            "db/HlauTe_NK6U_3207,7-3227,54.flac",
            "fe/___x-d6b96a97d147daaa.flac",
        ]


def test_protocol_buffers_are_encoded_as_the_specification_says():
    assert (_varint(300).hex(), len(_varint(-1)), _field(1, b"ab").hex()) == (
        "ac02",
        10,
        "0a026162",
    )


def test_how_to_read_a_corpus_depends_on_its_encoding():
    assert [len(CONTAINERS["parquet"].readers(encoding)) for encoding in ("flac", "mulaw")] == [
        2,
        1,
    ]


def test_consecutive_segments_of_a_recording_share_a_window():
    table = pl.DataFrame(
        {"segment_id": ["b", "a", "c"], "start_sample": [9, 0, 12], "end_sample": [12, 9, 20]}
    )
    windows = assign_windows(table.with_columns(recording_id=pl.lit("r"), split=pl.lit("dev")), 2)
    assert windows["window"].to_list() == ["r 0", "r 0", "r 1"]


def test_the_hash_of_a_table_does_not_depend_on_its_parts():
    parts = [pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2]})]
    assert digest([pl.concat(parts)]) == digest(parts)


def test_the_advice_on_shards_names_suitable_numbers_of_readers():
    assert shard_advice([Shard("", "train", 1, 480_000_000, "", "", Path())] * 12) == (
        "12 shards are enough for 3 readers at once (a reader is one worker of one training "
        "process); 2 or 4 readers get equally many shards; for 8 readers take --shard-count 32 "
        "(180 MB a shard)"
    )
    assert shard_advice([Shard("", "train", 1, 1_200_000_000, "", "", Path())]) == (
        "1 shard is enough for 1 reader at once (a reader is one worker of one training process); "
        "for 4 readers take --shard-count 16 (75 MB a shard); the largest shard has 1.2 GB: below "
        "1 GB a broken transfer repeats less, and hubs recommend it"
    )
    assert shard_advice([Shard("", "dev", 1, 1, "", "", Path())]) == ""


@given(
    name=st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=300
    ),
    size=st.integers(0, 1 << 40),
)
@example(name="a" * 100, size=8**11 - 1)
@example(name="a" * 101, size=8**11)
@example(name="a/b", size=0)
def test_a_tar_header_equals_that_of_tarfile(name, size):
    info = tarfile.TarInfo(name)
    info.size = size
    assert header(name, size) == info.tobuf(tarfile.PAX_FORMAT)


def test_a_header_is_one_block_unless_the_name_needs_another():
    assert [
        header("a.flac", 4096)[:6],
        len(header("a.flac", 4096)),
        len(header("č" * 60, 4096)),
    ] == [b"a.flac", 512, 1536]
