"""A corpus holds the selected segments, with the same bytes however it was made, and `verify` finds
every fault."""

import hashlib
import io
import json
import os
import resource
import shutil
import signal
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import joblib
import numpy as np
import polars as pl
import pytest
import soundfile as sf

from nbaudio import review
from nbaudio.audio import read_clip
from nbaudio.core.errors import DiskFullError, ExistsError, InputError
from nbaudio.core.times import rescale
from nbaudio.corpus.containers.shard_files import escape_key
from nbaudio.corpus.convert import convert
from nbaudio.corpus.materialize import materialize
from nbaudio.corpus.verify import verify
from nbaudio.reading import open_corpus
from nbaudio.review.state import Verdict, append_verdicts
from nbaudio.tables.workspace import Workspace

MakeWorkspace = Callable[..., Workspace]
RECORDINGS = {
    "one.wav": (24.0, 48000),
    "two.mp3": (21.0, 44100),
    "three.flac": (18.0, 22050),
    "four.m4a": (12.0, 48000),
}


def make(workspace: Workspace, out: Path, **options: Any) -> Any:
    return materialize(
        workspace, out=out, show_progress=False, **{"jobs": 1, "shard_size": "200kB"} | options
    )


def check(corpus: Path) -> list[str]:
    return verify(corpus, jobs=1, show_progress=False).problems


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


@pytest.fixture
def workspace(make_workspace: MakeWorkspace) -> Workspace:
    return make_workspace(RECORDINGS)


@pytest.mark.parametrize("container", ["webdataset", "parquet"])
@pytest.mark.parametrize("encoding", ["flac", pytest.param("wav", marks=pytest.mark.slow)])
def test_every_clip_is_its_window_and_is_found_by_its_byte_range(
    workspace: Workspace, tmp_path: Path, container: str, encoding: str
) -> None:
    report = make(workspace, tmp_path / "c", container=container, encoding=encoding)
    assert check(tmp_path / "c") == []
    kept = pl.read_parquet(tmp_path / "c/segments.parquet")
    assert sorted(kept["segment_id"]) == sorted(workspace.segments["segment_id"])
    assert report.facts["kept"] == kept.height
    facts = {row["recording_id"]: row for row in workspace.recordings.iter_rows(named=True)}
    for row in kept.iter_rows(named=True):
        data = (tmp_path / "c" / row["shard"]).read_bytes()[
            row["offset"] : row["offset"] + row["length"]
        ]
        samples, rate = sf.read(io.BytesIO(data), dtype="int16")
        recording = facts[row["recording_id"]]
        path = workspace.audio_root / recording["path"]
        wanted = read_clip(
            path, row["start_sample"], row["end_sample"], num_samples=recording["num_samples"]
        )
        np.testing.assert_array_equal(samples, wanted)
        own = recording["sampling_rate"]
        assert rate == row["sampling_rate"] == 16000
        assert (
            len(samples)
            == row["num_samples"]
            == rescale(row["end_sample"], own, 16000) - rescale(row["start_sample"], own, 16000)
        )


def test_a_tar_has_fixed_headers_escaped_keys_and_plain_metadata(
    workspace: Workspace, tmp_path: Path
) -> None:
    make(workspace, tmp_path / "c")
    kept = pl.read_parquet(tmp_path / "c/segments.parquet")
    seen = []
    for shard in kept["shard"].unique():
        with tarfile.open(tmp_path / "c" / shard) as tar:
            members = tar.getmembers()
            assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in members} == {
                (0, 0, 0, "", "")
            }
            assert all(m.name.count(".") == 1 for m in members)
            for member in members[1::2]:
                metadata = json.load(tar.extractfile(member))
                assert unquote(member.name.removesuffix(".json")) == metadata["segment_id"]
                seen.append(metadata)
    by_id = {
        row["segment_id"]: row
        for row in kept.drop("shard", "offset", "length", "audio_sha256", "added_in").iter_rows(
            named=True
        )
    }
    assert {row["segment_id"]: row for row in seen} == by_id


@pytest.mark.parametrize(
    "key",
    ["a.b", "../../etc/passwd", "C:\\x", "č ž/š", "x" * 300, "a%2Eb", "\u202eexe", "a\0b", "~"],
)
def test_escaped_keys_are_ascii_and_can_be_unescaped(key: str) -> None:
    escaped = escape_key(key)
    assert escaped.isascii()
    assert not set(escaped) & set("./\\\0 ~")
    assert unquote(escaped) == key


@pytest.mark.parametrize(
    "container", ["webdataset", pytest.param("parquet", marks=pytest.mark.slow)]
)
def test_jobs_engine_and_order_do_not_change_a_byte(
    workspace: Workspace, tmp_path: Path, container: str
) -> None:
    make(workspace, tmp_path / "a", container=container)
    wanted = contents(tmp_path / "a")
    segments = workspace.segments
    for number, options in enumerate(
        ({"jobs": 2}, {"jobs": 3, "engine": "threading"}, {"jobs": None, "engine": None})
    ):
        shutil.rmtree(workspace.path / "packs")
        workspace.save(segments=segments)
        with joblib.parallel_config("threading", n_jobs=2):
            make(workspace, tmp_path / f"b{number}", container=container, **options)
        assert contents(tmp_path / f"b{number}") == wanted


def test_every_segment_is_in_the_corpus_or_rejected_with_its_reason(
    workspace: Workspace, tmp_path: Path
) -> None:
    (workspace.audio_root / "two.mp3").write_bytes(b"no longer audio")
    (workspace.audio_root / "three.flac").unlink()
    segments = workspace.segments.with_columns(
        decision=pl.when(pl.col("segment_id").str.starts_with("one_0"))
        .then(pl.lit("reject"))
        .otherwise("decision"),
        reason=pl.when(pl.col("segment_id").str.starts_with("one_0")).then(
            pl.lit("below_similarity")
        ),
    )
    workspace.save(segments=segments)
    report = make(workspace, tmp_path / "c")
    assert check(tmp_path / "c") == []
    kept = pl.read_parquet(tmp_path / "c/segments.parquet")
    out = pl.read_parquet(tmp_path / "c/rejected.parquet")
    assert sorted([*kept["segment_id"], *out["segment_id"]]) == sorted(segments["segment_id"])
    assert set(kept["recording_id"]) == {"one", "four"}
    reasons = dict(out.group_by("recording_id").agg(pl.col("reason").unique().sort()).iter_rows())
    assert reasons == {
        "one": ["below_similarity"],
        "two": ["unreadable_audio"],
        "three": ["unreadable_audio"],
    }
    details = out.filter(pl.col("recording_id") == "two")["detail"].unique().to_list()
    assert len(details) == 1
    assert "two.mp3" in details[0]
    assert "changed since it was ingested" in details[0]
    assert any("three.flac" in problem for problem in report.problems)


@pytest.mark.slow
def test_recordings_spread_over_all_shards_and_shards_are_even(
    make_workspace: MakeWorkspace, tmp_path: Path
) -> None:
    workspace = make_workspace(
        {f"r{i}.wav": (60.0, 16000) for i in range(4)}, every=0.6, length=0.5, channels=1
    )
    workspace.save(segments=workspace.segments.with_columns(split=pl.lit("train")))
    make(workspace, tmp_path / "c", shard_size="1MB")
    kept = pl.read_parquet(tmp_path / "c/segments.parquet")
    shards = kept.group_by("shard").agg(
        pl.len(), pl.col("recording_id").n_unique(), pl.col("length").sum()
    )
    assert shards.height >= 4
    assert set(shards["recording_id"]) == {4}
    sizes = [(tmp_path / "c" / name).stat().st_size for name in shards["shard"]]
    assert max(sizes) <= 1.2 * min(sizes)
    assert max(sizes) <= 1_100_000  # noise takes more bytes than speech


def test_another_split_or_container_reuses_all_clips_that_are_cut(
    workspace: Workspace, tmp_path: Path
) -> None:
    assert make(workspace, tmp_path / "a").facts["clips_already_cut"] == 0
    workspace.save(segments=workspace.segments.with_columns(split=pl.lit("train")))
    shutil.move(workspace.audio_root, tmp_path / "away")  # not even opened
    report = make(workspace, tmp_path / "b", container="parquet")
    assert report.facts["clips_cut_now"] == 0
    assert report.problems == []
    assert check(tmp_path / "b") == []


def test_a_recording_is_opened_once_for_all_of_its_windows(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: Counter[str] = Counter()
    really, folder = Path.open, workspace.audio_root

    def counted(path: Path, *words: Any, **options: Any) -> Any:
        opened[path.name] += path.parent == folder
        return really(path, *words, **options)

    monkeypatch.setattr(Path, "open", counted)
    report = make(workspace, tmp_path / "c", engine="threading", jobs=2)
    assert report.facts["clips_cut_now"] == workspace.segments.height > 3 * len(RECORDINGS)
    assert {name: opened[name] for name in RECORDINGS} == dict.fromkeys(RECORDINGS, 1)


def test_an_output_folder_with_other_content_is_refused_and_left_unchanged(
    workspace: Workspace, tmp_path: Path
) -> None:
    make(workspace, tmp_path / "c")
    before = contents(tmp_path / "c")
    with pytest.raises(ExistsError, match=r"rate is 16000, not 8000.*choose another --out"):
        make(workspace, tmp_path / "c", rate=8000)
    workspace.save(segments=workspace.segments.with_columns(split=pl.lit("train")))
    with pytest.raises(ExistsError, match="the selection"):
        make(workspace, tmp_path / "c")
    assert contents(tmp_path / "c") == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("keep")
    with pytest.raises(ExistsError, match="not empty"):
        make(workspace, tmp_path / "mine")
    assert contents(tmp_path / "mine").keys() == {"notes.txt"}


@pytest.mark.slow
def test_the_same_call_repairs_damaged_shards_and_keeps_the_others(
    workspace: Workspace, tmp_path: Path
) -> None:
    make(workspace, tmp_path / "c")
    wanted = contents(tmp_path / "c")
    shards = sorted((tmp_path / "c/train").iterdir())
    damaged = bytearray(shards[0].read_bytes())
    damaged[3000] ^= 1
    shards[0].write_bytes(damaged)
    shards[1].unlink()
    problems = check(tmp_path / "c")
    assert any(shards[0].name in problem for problem in problems)
    assert any(shards[1].name in problem and "missing" in problem for problem in problems)
    report = make(workspace, tmp_path / "c")
    assert contents(tmp_path / "c") == wanted
    assert report.facts["shards_kept_from_before"] == report.facts["shards"] - 2


@pytest.mark.slow
def test_a_damaged_pack_is_cut_again(workspace: Workspace, tmp_path: Path) -> None:
    make(workspace, tmp_path / "a")
    wanted = contents(tmp_path / "a")
    shutil.rmtree(tmp_path / "a")
    for at in (100, -10):  # inside a clip, inside the trailer
        pack = sorted((workspace.path / "packs").iterdir())[0]
        data = bytearray(pack.read_bytes())
        data[at] ^= 1
        pack.write_bytes(data)
        make(workspace, tmp_path / "b")
        assert contents(tmp_path / "b") == wanted
        shutil.rmtree(tmp_path / "b")


def _say(corpus: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    said = json.loads((corpus / "corpus.json").read_text(encoding="utf8"))
    change(said)
    (corpus / "corpus.json").write_text(json.dumps(said), encoding="utf8")


HARMS: list[tuple[Callable[[Path], Any], str]] = [
    (
        lambda c: shutil.copy(
            sorted((c / "train").iterdir())[0], c / "train/train-00099-of-00100.tar"
        ),
        "not listed",
    ),
    (
        lambda c: (
            pl.read_parquet(c / "rejected.parquet").head(0).write_parquet(c / "rejected.parquet")
        ),
        "rejected.parquet",
    ),
    (lambda c: (c / "vocab.json").write_text("{}"), "vocab.json"),
    (
        lambda c: _say(c, lambda said: said["shards"].pop()),
        "clips are in shards that corpus.json does not list",
    ),
    (
        lambda c: _say(c, lambda said: said["shards"].append(said["shards"][0])),
        "a shard is listed twice",
    ),
    (
        lambda c: _say(c, lambda said: said["shards"][0].update(segments=1)),
        "clips of segments.parquet; corpus.json says 1",
    ),
    (
        lambda c: _say(c, lambda said: said["splits"]["train"].update(recordings=99)),
        "recordings; corpus.json says 99",
    ),
    (
        lambda c: _say(c, lambda said: said.update(rejected={"too_short": 1})),
        "(too_long 1); corpus.json says",
    ),
]


@pytest.mark.slow
def test_verify_finds_every_change_to_a_corpus(workspace: Workspace, tmp_path: Path) -> None:
    workspace.save(
        segments=workspace.segments.with_columns(
            decision=pl.when(pl.int_range(pl.len()) == 0)
            .then(pl.lit("reject"))
            .otherwise("decision"),
            reason=pl.when(pl.int_range(pl.len()) == 0).then(pl.lit("too_long")),
        )
    )
    make(workspace, tmp_path / "whole")
    assert check(tmp_path / "whole") == []
    for number, (harm, says) in enumerate(HARMS):
        corpus = shutil.copytree(tmp_path / "whole", tmp_path / f"harmed {number}")
        harm(corpus)
        found = check(corpus)
        assert any(says in problem for problem in found), (says, found)


@pytest.mark.slow
def test_glob_characters_in_a_path_are_taken_literally(
    workspace: Workspace, tmp_path: Path
) -> None:
    shutil.copytree(workspace.path, tmp_path / "W [v*]")
    make(workspace, tmp_path / "run1", encoding="wav")
    make(Workspace.open(tmp_path / "W [v*]"), tmp_path / "run[1]")
    assert check(tmp_path / "run[1]") == []
    shards = [
        open_corpus(tmp_path / name).segments["length"].to_list() for name in ("run1", "run[1]")
    ]
    assert shards[0] != shards[1]
    convert(
        tmp_path / "run[1]", container="zip", out=tmp_path / "run?", show_progress=False, jobs=1
    )
    assert check(tmp_path / "run?") == []


@pytest.mark.parametrize(
    ("name", "value"), [("audio", "x"), ("file_name", "x"), ("shard", "x"), ("blob", b"\0")]
)
def test_segment_columns_that_cannot_be_stored_are_refused(
    workspace: Workspace, tmp_path: Path, name: str, value: object
) -> None:
    workspace.save(segments=workspace.segments.with_columns(pl.lit(value).alias(name)))
    with pytest.raises(InputError, match=f"the column '{name}' "):
        make(workspace, tmp_path / "c")
    assert not (tmp_path / "c").exists()


@pytest.mark.slow
def test_a_channel_may_be_given_as_a_number_or_text(workspace: Workspace, tmp_path: Path) -> None:
    make(workspace, tmp_path / "a", channel=0)
    make(workspace, tmp_path / "b", channel="0")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_verify_refuses_a_folder_without_a_corpus_or_with_an_unfinished_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a corpus"):
        verify(tmp_path)
    (tmp_path / ".work").mkdir()
    (tmp_path / ".work/identity.json").write_text("{}")
    with pytest.raises(InputError, match="unfinished"):
        verify(tmp_path)


@pytest.mark.slow
def test_a_run_stopped_by_a_full_disk_is_finished_later(
    workspace: Workspace, tmp_path: Path
) -> None:
    make(workspace, tmp_path / "a")
    wanted = contents(tmp_path / "a")
    shutil.rmtree(workspace.path / "packs")
    # A limit on file size makes writes fail for real, in this process, as a full disk does.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (20_000, 150_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(DiskFullError, match="run the command again"):
                make(workspace, tmp_path / "b")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        assert not list(tmp_path.rglob("*.partial"))
        assert not (tmp_path / "b/corpus.json").exists()
    make(workspace, tmp_path / "b")
    assert contents(tmp_path / "b") == wanted


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"container": "zipp"}, "webdataset, parquet"),
        ({"encoding": "mp4"}, "flac, wav"),
        ({"channel": "middle"}, "mix, left, right"),
        ({"engine": "sparkle"}, "loky, threading"),
        ({"rate": 0}, "1 Hz or more"),
        ({"shard_size": "many"}, "500MB"),
        ({"jobs": 0}, "jobs must be 1 or more"),
    ],
)
def test_a_wrong_parameter_is_named_with_what_is_allowed(
    workspace: Workspace, tmp_path: Path, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        make(workspace, tmp_path / "c", **options)


@pytest.mark.slow
def test_clips_of_train_that_were_drawn_for_review_give_a_warning(
    workspace: Workspace, tmp_path: Path
) -> None:
    train = workspace.segments.filter(pl.col("split") == "train")
    assert make(workspace, tmp_path / "before").warnings == []
    said = ("", "ok", "", None, "ana", "2026-01-01T00:00:00Z", "panel")
    append_verdicts(workspace, [Verdict(key, *said) for key in train["segment_id"][:2]])
    assert (
        make(workspace, tmp_path / "judged")
        .warnings[0]
        .startswith("2 of the clips of train were drawn for review")
    )
    report = review.export(workspace, out=tmp_path / "sheet.xlsx", n=train.height, seed=1)
    drawn = (set(workspace.reviewed_ids()) & set(train["segment_id"])) | set(
        train["segment_id"][:2]
    )
    assert report.facts["clips"] == len(workspace.reviewed_ids())
    assert (
        make(workspace, tmp_path / "after")
        .warnings[0]
        .startswith(f"{len(drawn)} of the clips of train were drawn for review")
    )


def test_a_workspace_that_is_not_ready_is_refused_with_the_missing_step(
    workspace: Workspace, tmp_path: Path
) -> None:
    segments = workspace.segments
    workspace.save(segments=segments.with_columns(decision=pl.lit("pending")))
    with pytest.raises(InputError, match="nbaudio select"):
        make(workspace, tmp_path / "c")
    workspace.save(segments=segments.with_columns(decision=pl.lit("reject")))
    with pytest.raises(InputError, match="no segment is accepted"):
        make(workspace, tmp_path / "c")
    workspace.save(segments=segments.with_columns(start_sample=pl.lit(None)))
    with pytest.raises(InputError, match="have no audio"):
        make(workspace, tmp_path / "c")
    assert not (tmp_path / "c").exists()


@pytest.fixture
def no_long_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of a terabyte would be hashed for an hour: that is a failure at once."""
    digest = hashlib.file_digest

    def quick(file: Any, *options: Any) -> Any:
        assert os.fstat(file.fileno()).st_size < 1 << 30
        return digest(file, *options)

    monkeypatch.setattr(hashlib, "file_digest", quick)


@pytest.mark.slow
@pytest.mark.usefixtures("no_long_hashes")
def test_verify_compares_sizes_before_it_hashes(workspace: Workspace, tmp_path: Path) -> None:
    make(workspace, tmp_path / "c")
    shard = sorted((tmp_path / "c/train").iterdir())[0]
    sizes = {
        path: path.stat().st_size
        for path in (shard, *(tmp_path / "c" / name for name in ("segments.parquet", "vocab.json")))
    }
    for path, size in sizes.items():
        os.truncate(path, 1 << 40)
        [problem] = verify(tmp_path / "c", jobs=1, engine="threading", show_progress=False).problems
        name = path.relative_to(tmp_path / "c").as_posix()
        assert problem == f"{name}: 1,099,511,627,776 bytes, not the {size:,} that were written"
        os.truncate(path, size)
    assert verify(tmp_path / "c", jobs=1, engine="threading", show_progress=False).problems == []
    # A run that goes on with such a folder compares them first, too.
    os.truncate(shard, 1 << 40)
    make(workspace, tmp_path / "c")
    assert shard.stat().st_size == sizes[shard]


def test_verify_does_not_fetch_a_shard_whose_size_differs(workspace: Workspace) -> None:
    import fsspec

    make(workspace, "memory://verify-sizes/c")  # type: ignore[arg-type]
    store = fsspec.filesystem("memory")
    shard = sorted(store.ls("/verify-sizes/c/train", detail=False))[0]
    store.pipe_file(shard, store.cat_file(shard) + b"0")
    [problem, *others] = verify(
        "memory://verify-sizes/c", jobs=1, engine="threading", show_progress=False
    ).problems
    assert "its clips are not checked" in " ".join([problem, *others])
    store.rm("/verify-sizes", recursive=True)


@pytest.mark.slow
def test_verify_reports_edited_cards_and_unlisted_files(
    workspace: Workspace, tmp_path: Path
) -> None:
    make(workspace, tmp_path / "c")
    card = tmp_path / "c/README.md"

    def verify_corpus() -> Any:
        return verify(tmp_path / "c", jobs=1, engine="threading", show_progress=False)

    assert (verify_corpus().facts["data_card"], verify_corpus().warnings) == ("as written", [])
    card.write_text(card.read_text() + "\nOurs.\n")
    assert (verify_corpus().facts["data_card"], verify_corpus().problems) == ("edited", [])
    assert "README.md" in verify_corpus().warnings[0]
    (tmp_path / "c/notes.txt").write_text("ours")
    assert "notes.txt" in verify_corpus().warnings[1]
    card.unlink()
    assert verify_corpus().problems == ["README.md: missing"]
