"""Packs of a few clips, some of them damaged."""

import hashlib

import polars as pl
import pytest

from nbaudio.core.errors import AudioError
from nbaudio.corpus import packs as packs_module
from nbaudio.corpus.clip_keys import divide_keys
from nbaudio.corpus.pack_index import index_bytes
from nbaudio.corpus.packs import INDEX, PackDamagedError, indexes, keep_clips, read_clips
from nbaudio.storage.location import location
from nbaudio.storage.network import RemoteNotFoundError

CLIPS = {f"{number}a": bytes([number]) * 10 for number in range(8)}


@pytest.fixture
def packs(tmp_path):
    """A folder of four packs with two clips each."""
    folder = tmp_path / "packs"
    folder.mkdir()
    keys = list(CLIPS)
    for number in range(4):
        content = b""
        rows = []
        for key in keys[2 * number : 2 * number + 2]:
            clip = CLIPS[key]
            sha256 = hashlib.sha256(clip).hexdigest()
            rows.append((key, len(content), len(clip), 5, sha256))
            content += clip
        (folder / f"{number}.pack").write_bytes(content + index_bytes(rows))
    return folder


def damage(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 255
    path.write_bytes(content)


def test_without_packs_the_index_is_an_empty_table(tmp_path):
    [index] = indexes(tmp_path)
    assert index.schema == INDEX
    assert index.is_empty()


def test_clips_are_read_in_the_order_of_the_rows_until_one_is_damaged(packs):
    index = pl.concat(indexes(packs)).sort("clip_key", descending=True)
    assert list(read_clips(index)) == list(CLIPS.values())[::-1]
    damage(packs / "2.pack", 0)
    clips = read_clips(index)
    assert [next(clips) for _ in range(3)] == [CLIPS["7a"], CLIPS["6a"], CLIPS["5a"]]
    with pytest.raises(PackDamagedError, match=r"2\.pack"):
        next(clips)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (AudioError("no answer"), AudioError),
        (RemoteNotFoundError("gone"), PackDamagedError),
    ],
)
def test_a_remote_pack_is_cut_again_only_if_it_is_missing(packs, monkeypatch, error, raised):
    class RemotePack:
        local = None

        def read(self, start, end):
            raise error

    index = pl.concat(indexes(packs)).with_columns(pack=pl.lit("https://host/0.pack"))
    monkeypatch.setattr(packs_module, "location", lambda pack: RemotePack())
    with pytest.raises(raised):
        list(read_clips(index))


def test_clips_that_are_removed_are_counted_and_damaged_packs_are_removed(packs, tmp_path):
    unchanged = (packs / "0.pack").read_bytes()
    modified = (packs / "0.pack").stat().st_mtime_ns
    damage(packs / "2.pack", 0)
    damage(packs / "3.pack", -1)
    wanted = ["0a", "1a", "2a", "4a", "6a"]  # all of pack 0, and a clip of each other pack
    rows = pl.LazyFrame({"clip_key": wanted})
    keys = divide_keys(rows, num_rows=len(wanted), folder=tmp_path / "keys")
    # One of pack 1, both of pack 2, whose other clip is damaged; those of pack 3 are not known.
    assert keep_clips(location(packs), keys, tmp_path / "buckets") == 3
    assert sorted(path.name for path in packs.iterdir()) == ["0.pack", "1.pack"]
    assert (packs / "0.pack").read_bytes() == unchanged
    assert (packs / "0.pack").stat().st_mtime_ns == modified
    index = pl.concat(indexes(packs)).sort("clip_key")
    assert index["clip_key"].to_list() == ["0a", "1a", "2a"]
    assert list(read_clips(index)) == [CLIPS["0a"], CLIPS["1a"], CLIPS["2a"]]
