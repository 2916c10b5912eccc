"""Corpora in MDS shards, which only earlier versions of nbaudio wrote."""

import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from test_versions import CLIPS, QUIET, check, first, grown, samples, shards, start, version

from nbaudio.cli import main
from nbaudio.core.errors import InputError
from nbaudio.corpus.containers import registry
from nbaudio.corpus.containers.shard_files import ClipLocation, as_json, group_by_split
from nbaudio.corpus.convert import convert
from nbaudio.corpus.diff import diff
from nbaudio.corpus.materialize import materialize
from nbaudio.corpus.status import status
from nbaudio.reading import open_corpus

_FORMAT = {
    "column_encodings": ["bytes", "json"],
    "column_names": ["audio", "json"],
    "column_sizes": [None, None],
    "compression": None,
    "format": "mds",
    "hashes": [],
    "size_limit": None,
    "version": 2,
}
_ALLOWED = "webdataset, parquet, zip, tfrecord, lhotse, arrow, files"


def write(path, metadata, audio, **_):
    """A shard as earlier versions wrote it: number of samples, offsets, format, then samples."""
    offsets = np.zeros(len(metadata) + 1, dtype="<u4")
    places = []
    with path.open("wb") as file:
        file.seek(4 + offsets.nbytes)
        file.write(as_json(_FORMAT))
        for number, (row, clip) in enumerate(
            zip(metadata.iter_rows(named=True), audio, strict=True)
        ):
            offsets[number] = file.tell()
            file.write(struct.pack("<II", len(clip), len(as_json(row))))
            places.append(ClipLocation(file.tell(), len(clip)))
            file.writelines((clip, as_json(row)))
        offsets[-1] = file.tell()
        file.seek(0)
        file.write(struct.pack("<I", len(metadata)) + offsets.tobytes())
    return places


def side_files(shards):
    for split, inside in group_by_split(shards).items():
        listed = [
            _FORMAT
            | {
                "raw_data": {
                    "basename": Path(shard.name).name,
                    "bytes": shard.num_bytes,
                    "hashes": {},
                },
                "zip_data": None,
                "samples": shard.segments,
            }
            for shard in inside
        ]
        yield f"{split}/index.json", [as_json({"version": 2, "shards": listed})]


@pytest.fixture
def earlier(tmp_path):
    """A workspace with its tables, a corpus of it in tars, and the same in MDS."""
    workspace, recordings, segments = start(tmp_path)
    first(workspace, tmp_path / "tar")
    with pytest.MonkeyPatch.context() as patch:
        mds = registry.Container("mds", write, "", side_files)
        patch.setattr(registry, "CONTAINERS", registry.CONTAINERS | {"mds": mds})
        options = {"container": "mds", "encoding": "flac", "shard_size": "100kB"}
        materialize(workspace, out=tmp_path / "mds", **options, **QUIET)
    assert (tmp_path / "mds/train/index.json").exists()
    return workspace, recordings, segments


@pytest.mark.slow
def test_an_mds_corpus_opens_and_is_verified_compared_and_converted(earlier, tmp_path):
    tar, mds = tmp_path / "tar", tmp_path / "mds"
    assert samples(mds) == samples(tar)
    assert len(samples(mds)) == 5 * CLIPS
    assert check(mds).facts["clips_decoded"] == 5 * CLIPS
    assert status(mds).facts["state"] == "finished"
    assert diff(mds, tar).facts["changed"] == {
        **{"segments": 0, "hours": 0.0, "speakers": 0},
        **{"text": 0, "bounds": 0, "audio": 0},
    }
    convert(mds, container="webdataset", out=tmp_path / "back", shard_size="100kB")
    check(tmp_path / "back")
    assert shards(tmp_path / "back") == shards(tar)


@pytest.mark.slow
def test_a_version_is_based_on_the_converted_copy(earlier, tmp_path):
    workspace, recordings, segments = earlier
    grown(tmp_path, workspace, recordings, segments, 7)
    expected = "container mds is no longer written; .*convert .*mds --container webdataset --out"
    for options in ({}, {"container": "webdataset"}):
        with pytest.raises(InputError, match=expected):
            version(workspace, tmp_path / "mds", tmp_path / "v2", **options)
    assert not (tmp_path / "v2").exists()
    convert(tmp_path / "mds", container="zip", out=tmp_path / "zip")
    version(workspace, tmp_path / "zip", tmp_path / "v2")
    check(tmp_path / "v2")
    before, after = samples(tmp_path / "mds"), samples(tmp_path / "v2")
    assert {key: after[key] for key in before} == before
    assert open_corpus(tmp_path / "v2").info["version"] == 2
    assert len(after) == 6 * CLIPS


@pytest.mark.slow
def test_nothing_new_is_written_in_mds(earlier, tmp_path, monkeypatch, capsys):
    workspace, *_ = earlier
    for command in (
        ["materialize", str(workspace.path)],
        ["convert", str(tmp_path / "tar")],
    ):
        out = ["--container", "mds", "--out", str(tmp_path / "new")]
        monkeypatch.setattr(sys, "argv", ["nbaudio", *command, *out])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        assert f"container 'mds' is unknown; known are {_ALLOWED}" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
