"""Names are resolved to files, every decision is reported, and nothing is guessed."""

import unicodedata

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbaudio.audio.name_matching import (
    DECISIONS,
    is_audio,
    recording_id,
    resolve,
    segment_ids,
    segment_keys,
    youtube_id,
)

ID = "HlauTe_NK6U"


def decide(wanted, available, **options):
    """Decision and path of a single name."""
    audit = resolve([wanted], available, **options)
    assert len(audit) == 1
    return audit["decision"][0], audit["path"][0]


@pytest.mark.parametrize(
    ("wanted", "on_disk", "decision"),
    [
        ("a.wav", "a.wav", "exact"),
        ("a.wav", "2018/a.wav", "exact"),
        ("2018/a.wav", "2018/a.wav", "exact"),
        ("/data/2018/a.wav", "2018/a.wav", "exact"),
        ("./a.wav", "a.wav", "exact"),
        ("c\u030c.wav", "č.wav", "unicode"),
        ("č/a.wav", "c\u030c/a.wav", "unicode"),
        ("a.wav", "a.WAV", "extension"),
        ("a.wav", "a.mp3", "extension"),
        ("a", "a.wav", "extension"),
        ("c\u030c.wav", "č.mp3", "extension"),
        ("2. dio", "2. dio.m4a", "extension"),
        ("a b.wav", "a  b.wav", "blanks"),
        ("a b.wav", "a\u00a0b.wav", "blanks"),
        ("a b.wav", "a\tb.wav", "blanks"),
        ("a b.wav", "a\u200b b.wav", "blanks"),
        (" a.wav", "a.wav", "blanks"),
        ("a .wav", "a.wav", "blanks"),
        ("a.wav ", "a.wav", "blanks"),
        ("a.wav", "a . wav", "blanks"),
        ("2. dio/a.wav", "2.  dio/a.wav", "blanks"),
        ("a  č.wav", "a c\u030c.MP3", "blanks"),
        (f"sjednica [{ID}].wav", f"session [{ID}].mp3", "id"),
        (f"2018/sjednica [{ID}].wav", f"2019/session [{ID}].mp3", "id"),
        (f"sjednica [{ID}] .wav", f"{'x' * 9} [{ID}].wav", "id"),
    ],
)
def test_the_name_decision_is_the_strictest_comparison_that_matches(wanted, on_disk, decision):
    assert decide(wanted, [on_disk, "another one.wav", "another [abcdefghijk].wav"]) == (
        decision,
        on_disk,
    )


@pytest.mark.parametrize(
    ("wanted", "on_disk"),
    [
        ("a.wav", "b.wav"),
        ("a.wav", "A.wav"),
        ("ab.wav", "a b.wav"),
        ("2018/a.wav", "2019/a.wav"),
        ("a.wav", "a.wav.part"),
        ("a.wav", "a.txt"),
        (f"[{ID}] a.wav", f"[{ID}] b.wav"),
        ("a [short].wav", "b [short].wav"),
        ("", "a.wav"),
        ("..", "a.wav"),
    ],
)
def test_a_name_that_is_only_similar_to_a_file_is_missing(wanted, on_disk):
    assert decide(wanted, [on_disk]) == ("missing", None)


@pytest.mark.parametrize(
    ("wanted", "on_disk"),
    [
        ("a.wav", ["x/a.wav", "y/a.wav"]),
        ("a.wav", ["a.flac", "a.mp3"]),
        ("a.wav", ["a.WAV", "a.mp3"]),
        ("a   b.wav", ["a  b.wav", "a b.wav"]),
        (f"a [{ID}].wav", [f"b [{ID}].wav", f"c [{ID}].wav"]),
        (f"a [{ID}].wav", [f"a [{ID}].mp3", f"b [{ID}].wav"]),
    ],
)
def test_a_name_that_matches_two_files_is_ambiguous(wanted, on_disk):
    audit = resolve([wanted], on_disk)
    assert audit.row(0)[:4] == (wanted, "ambiguous", None, on_disk)


def test_names_in_different_folders_do_not_mean_one_file():
    audit = resolve(["x/1.wav", "y/1.wav", "z/x/2.wav", "x/2.wav"], ["1.wav", "2.wav"])
    assert audit.select("decision", "path").rows() == [
        ("ambiguous", None),
        ("exact", "2.wav"),
        ("ambiguous", None),
        ("exact", "2.wav"),
    ]
    names = {"x/1.wav": "1.wav"}
    audit = resolve(["x/1.wav", "y/1.wav"], ["1.wav"], mapping=names)
    assert audit["path"].to_list() == ["1.wav", None]


def test_a_byte_exact_match_is_preferred():
    files = ["a b.wav", "a  b.wav", "a b.mp3", "x/a b.wav"]
    assert decide("a b.wav", files) == ("exact", "a b.wav")
    assert resolve(["a b.wav"], files)["candidates"].to_list() == [["a b.wav"]]


def test_a_file_in_the_same_folder_is_preferred():
    files = ["a.flac", "sub/a.wav", "sub/b.wav", "x/b.flac"]
    assert decide("a", files) == ("extension", "a.flac")
    assert decide("sub/a", files) == ("extension", "sub/a.wav")
    assert decide("b", files) == ("ambiguous", None)


def test_a_key_of_wav_scp_resolves_to_its_path():
    mapping = {"reco000": "10 5 2019 -  12. sjednica [WoEEFk8lcDA].wav"}
    audit = resolve(
        ["reco000", "10 5 2019 - 12. sjednica [WoEEFk8lcDA].wav"],
        ["10 5 2019 - 12. sjednica [WoEEFk8lcDA].mp3"],
        mapping=mapping,
    )
    assert audit["decision"].to_list() == ["extension", "blanks"]
    assert audit["path"].n_unique() == 1
    assert audit["recording_id"].to_list() == ["WoEEFk8lcDA", "WoEEFk8lcDA"]


def test_a_names_file_settles_an_ambiguous_name():
    files = ["a.flac", "a.mp3"]
    assert decide("a.wav", files)[0] == "ambiguous"
    assert decide("a.wav", files, mapping={"a.wav": "a.mp3"}) == ("exact", "a.mp3")
    assert decide("a.wav", files, mapping={"a.wav": "b.mp3"}) == ("missing", None)


def test_a_names_file_decides_between_files_that_differ_in_blanks():
    files = ["a b.wav", "a  b.wav"]
    assert decide("a   b.wav", files, mapping={"reco1": "a  b.wav"}) == ("blanks", "a  b.wav")
    assert (
        decide("a   b.wav", files, mapping={"reco1": "a  b.wav", "reco2": "a b.wav"})[0]
        == "ambiguous"
    )


def test_resolve_lists_each_name_once_in_sorted_order():
    assert resolve(["b.wav", "a.wav", "b.wav"], ["a.wav"])["name"].to_list() == ["a.wav", "b.wav"]
    assert resolve([], ["a.wav"]).is_empty()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"17 1 2018 - 2. dio [{ID}].wav", ID),
        (f"x/17 1 2018 [{ID}]", ID),
        ("a  b\u00a0c.wav", "a b c"),
        ("2018/a.wav", "2018/a"),
        ("/mnt/disk/a.wav", "a"),
        ("../../a.wav", "a"),
        ("c\u030c.wav", "č"),
        ("a.b.wav", "a.b"),
        ("v1.0", "v1.0"),
    ],
)
def test_recording_ids_are_youtube_ids_or_file_stems(name, expected):
    assert recording_id(name) == expected
    assert resolve([name], [])["recording_id"].to_list() == [expected]


def test_recording_ids_of_different_files_differ():
    names = [
        "a.wav",
        "a.mp3",
        "a b.wav",
        "a  b.wav",
        "x/a.wav",
        f"one [{ID}].wav",
        f"two [{ID}].wav",
        "c\u030c.wav",
        "č.wav",
    ]
    audit = resolve(names, names)
    assert set(audit["decision"]) == {"exact"}
    assert audit["recording_id"].is_unique().all()
    assert (
        dict(audit.select("name", "recording_id").iter_rows())[f"one [{ID}].wav"]
        == f"one [{ID}].wav"
    )


def test_recording_ids_stay_when_the_audio_arrives():
    names = ["a.wav", "b  c.wav", f"x [{ID}].wav"]
    files = ["a.mp3", "b c.flac", f"y [{ID}].m4a"]
    assert (
        resolve(names, files)["recording_id"].to_list()
        == resolve(names, [])["recording_id"].to_list()
    )


# The same rules, written down without an index: every name against every file.


def spellings(name):
    parts = [part for part in name.split("/") if part not in ("", ".", "..")] or [""]
    normal = [unicodedata.normalize("NFC", part) for part in parts]
    stem, dot, extension = normal[-1].rpartition(".")
    audio = bool(dot) and is_audio(f"a.{extension}")
    bare = [*normal[:-1], stem if audio and extension == extension.strip() else normal[-1]]
    tidy = [" ".join(part.split()) for part in [*normal[:-1], stem if audio else normal[-1]]]
    return {
        "exact": parts,
        "unicode": normal,
        "extension": bare,
        "blanks": tidy,
        "id": youtube_id(name),
    }


def agree(one, other):
    for level in ("exact", "unicode", "extension", "blanks"):
        common = min(len(one[level]), len(other[level]))
        if one[level][-common:] == other[level][-common:]:
            return level
    return "id" if one["id"] and one["id"] == other["id"] else None


def slowly(name, files):
    if name in files:
        return "exact", [name]
    levels = {
        file: level for file in sorted(files) if (level := agree(spellings(name), spellings(file)))
    }
    exact = [file for file, level in levels.items() if level == "exact"]
    if len(exact) == 1:
        return "exact", exact
    depth = len(spellings(name)["exact"])
    whole = [file for file in levels if len(spellings(file)["exact"]) == depth]
    if len(levels) > 1 and len(whole) == 1 and levels[whole[0]] in ("unicode", "extension"):
        return levels[whole[0]], whole
    decision = (
        "missing" if not levels else "ambiguous" if len(levels) > 1 else next(iter(levels.values()))
    )
    return decision, list(levels)


def contradict(name, others):
    """Whether other names of the same file differ from a name in folders, at any level."""
    mine = spellings(name)["blanks"]
    for other in others:
        theirs = spellings(other)["blanks"]
        common = min(len(mine), len(theirs))
        if mine[-common:] != theirs[-common:]:
            return True
    return False


def resolved_slowly(wanted, files):
    """Decision and candidates of each name."""
    found = {name: slowly(name, files) for name in wanted}
    deep = {
        name: paths[0]
        for name, (_, paths) in found.items()
        if len(paths) == 1 and len(spellings(name)["exact"]) > len(spellings(paths[0])["exact"])
    }
    in_conflict = {
        file
        for name, file in deep.items()
        if contradict(name, [other for other in deep if deep[other] == file])
    }
    for name, file in deep.items():
        if file in in_conflict and found[name][0] != "id":
            found[name] = ("ambiguous", [file])
    return found


FOLDERS = st.sampled_from(["", "x/", "y/", "x  y/", "x y/", "/x/"])
STEMS = st.sampled_from(
    [
        "a",
        "a b",
        "a  b",
        "a\u00a0b",
        " a",
        "č",
        "c\u030c",
        "",
        f"a [{ID}]",
        f"b [{ID}]",
        "a.b",
        "wav",
    ]
)
EXTENSIONS = st.sampled_from(["", ".wav", ".WAV", ".mp3", ".wav ", " .wav", ".txt"])
NAMES = st.builds(lambda *parts: "".join(parts), FOLDERS, STEMS, EXTENSIONS)


@settings(deadline=None)
@given(st.sets(NAMES, max_size=6), st.sets(NAMES, max_size=8))
def test_resolve_equals_an_exhaustive_comparison(wanted, available):
    files = {path for path in available if is_audio(path)}
    audit = resolve(sorted(wanted), sorted(available))
    assert {
        row[0]: row[1:] for row in audit.select("name", "decision", "candidates").iter_rows()
    } == resolved_slowly(wanted, files)
    assert set(audit["decision"]) <= set(DECISIONS)
    one = (pl.col("candidates").list.len() == 1) & (pl.col("decision") != "ambiguous")
    assert (
        audit.filter(one)["path"].to_list()
        == audit.filter(one)["candidates"].list.first().to_list()
    )
    assert audit.filter(~one)["path"].null_count() == len(audit.filter(~one))


@settings(deadline=None)
@given(st.sets(NAMES, max_size=8), st.sets(NAMES, max_size=8))
def test_names_share_an_id_exactly_when_they_share_a_file(wanted, available):
    found = resolve(sorted(wanted), sorted(available)).drop_nulls("path")
    assert (
        found["recording_id"].n_unique()
        == found["path"].n_unique()
        == found.select("recording_id", "path").n_unique()
    )


# segments


def test_segment_ids_have_recording_id_start_and_end_as_in_the_source():
    keys = segment_keys(
        pl.Series([ID, "a b"]),
        pl.Series(["3207.70", "0"]),
        pl.Series(["3227.54", None], dtype=pl.String),
    )
    assert keys.to_list() == [f"{ID}_3207.70-3227.54", "a b_0-"]


def test_repeated_ids_are_numbered_in_order():
    keys = segment_ids(
        segment_keys(pl.Series(["r"] * 4), pl.Series(["1", "1", "2", "1"]), pl.Series(["2"] * 4))
    )
    assert keys.to_list() == ["r_1-2", "r_1-2#2", "r_2-2", "r_1-2#3"]


@settings(deadline=None)
@given(st.lists(st.sampled_from(["1", "1#2", "1#3", "2"]), max_size=12))
def test_segment_ids_are_unique_whatever_the_source_writes(ends):
    keys = segment_ids(
        segment_keys(
            *(
                pl.Series(part, dtype=pl.String)
                for part in (["r"] * len(ends), ["0"] * len(ends), ends)
            )
        )
    )
    assert keys.n_unique() == len(ends)
    assert all(key.startswith(f"r_0-{end}") for key, end in zip(keys, ends, strict=True))


PLAIN = st.lists(
    st.sampled_from(["a", "B", "a.b", ".a", "..", "a b", "č", "[HlauTe_NK6U]", "a.wav"]),
    min_size=1,
    max_size=3,
)
PLAIN_NAMES = st.builds(
    lambda parts, extension: "/".join(parts) + extension,
    PLAIN,
    st.sampled_from([".wav", ".FLAC", ".txt"]),
)


@settings(deadline=None)
@given(st.sets(PLAIN_NAMES, min_size=1, max_size=5), st.sets(PLAIN_NAMES, max_size=3))
def test_plain_names_resolve_equally_by_the_fast_and_general_path(wanted, others):
    for available in (sorted(wanted | others), []):
        # A mapping that says nothing takes the way of all others.
        slow = resolve(sorted(wanted), available, mapping={"no such name": "none.wav"})
        assert resolve(sorted(wanted), available).equals(slow)


def test_ids_of_the_source_are_preferred_and_numbered_if_repeated():
    one = pl.Series(["r"] * 3)
    assert segment_ids(
        segment_keys(one, one, one, source_keys=pl.Series(["u", "u", None]))
    ).to_list() == [
        "u",
        "u#2",
        "r_r-r",
    ]
