"""What macOS and Windows have otherwise than Linux, as far as Linux can show it: processes that are
spawned, and folders that ignore case."""

import json
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from specimens import tone

import nbaudio
from nbaudio import review

# Equal but for case: names of clips, and those that Windows reserves for devices.
IDS = ["clip", "Clip", "CLIP", "con", "COM1", "straße", "STRASSE", "last"]
SPAWNED = """
import json
import multiprocessing
import sys

import nbaudio


def read_ids(opened):
    return sorted(clip.segment_id for clip in opened.stream("train"))


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    workspace, corpus = sys.argv[1:]
    nbaudio.measure(workspace, jobs=2)
    nbaudio.materialize(workspace, out=corpus, jobs=2, engine="loky", container="files")
    report = nbaudio.verify(corpus, jobs=2)
    with multiprocessing.Pool(1) as pool:
        segment_ids = pool.apply(read_ids, [nbaudio.open_corpus(corpus)])
    print(json.dumps([report.problems, segment_ids]))
"""


def make_workspace(folder: Path) -> Path:
    """Eight segments of a second, whose ids differ in case only."""
    tone(folder / "audio/one.wav", 10)
    rows = [f"{name},one.wav,{start},{start + 1},riječ {start}" for start, name in enumerate(IDS)]
    table = folder / "segments.csv"
    table.write_text("\n".join(["id,file,start,end,text", *rows, ""]), encoding="utf8")
    workspace = folder / "W"
    report = nbaudio.ingest("table", table, audio=folder / "audio", out=workspace)
    assert report.problems == []
    nbaudio.select(workspace, dev=0, test=0)
    return workspace


def file_contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def names_that_meet(names: list[str]) -> list[str]:
    """Names that are one name in a folder that ignores case."""
    counts = Counter(name.casefold() for name in names)
    return [name for name in names if counts[name.casefold()] > 1]


def reserved_names(names: list[str]) -> list[str]:
    """Names that Windows takes for a device."""
    return [name for name in names if Path(name).name.partition(".")[0].lower() in ("con", "com1")]


@pytest.mark.slow
def test_spawned_processes_make_the_same_corpus(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    script = tmp_path / "spawned.py"
    script.write_text(SPAWNED, encoding="utf8")
    command = [sys.executable, script, workspace, tmp_path / "spawned"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr
    problems, segment_ids = json.loads(process.stdout.splitlines()[-1])
    assert problems == []
    assert segment_ids == sorted(IDS)
    nbaudio.materialize(
        workspace, out=tmp_path / "threads", jobs=1, engine="threading", container="files"
    )
    assert file_contents(tmp_path / "spawned") == file_contents(tmp_path / "threads")


@pytest.mark.slow
@pytest.mark.parametrize("container", ["files", "zip"])
def test_clips_of_a_corpus_have_names_that_differ_in_more_than_case(
    tmp_path: Path, container: str
) -> None:
    workspace = make_workspace(tmp_path)
    corpus = tmp_path / "C"
    nbaudio.materialize(workspace, out=corpus, jobs=1, container=container)
    names = [path.relative_to(corpus).as_posix() for path in corpus.rglob("*") if path.is_file()]
    members = [
        member for shard in corpus.rglob("*.zip") for member in zipfile.ZipFile(shard).namelist()
    ]
    audio_names = [name for name in [*names, *members] if name.endswith(".flac")]
    assert len(audio_names) == len(IDS)
    assert names_that_meet([*names, *members]) == []
    assert reserved_names([*names, *members]) == []


def test_clips_of_a_sheet_have_names_that_differ_in_more_than_case(tmp_path: Path) -> None:
    workspace = make_workspace(tmp_path)
    review.export(workspace, out=tmp_path / "sheet.csv", n=len(IDS))
    names = [path.name for path in tmp_path.rglob("*.wav") if path.parent.name != "audio"]
    assert len(names) == len(IDS)
    assert names_that_meet(names) == []
    assert reserved_names(names) == []
