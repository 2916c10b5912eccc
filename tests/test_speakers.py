"""One speaker has one id, however a source spells it; see "What is read, and what is not"."""

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl
import pytest

import nbaudio
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.text.speaker_names import look_alikes

NAME = "Žana Kos"


def _table(folder: Path, speakers: Sequence[object], name: str = "t.parquet") -> Path:
    rows = {
        "name": [f"{name}-{number}.wav" for number in range(len(speakers))],
        "start": [0.0] * len(speakers),
        "end": [1.0] * len(speakers),
        "text": [f"satz {number}" for number in range(len(speakers))],
        "speaker_id": speakers,
    }
    frame = pl.DataFrame(rows, strict=False)
    path = folder / name
    if path.suffix == ".csv":
        frame.write_csv(path)
    else:
        frame.write_parquet(path)
    return path


def _ingest(source: Path, **options: str) -> tuple[Report, pl.DataFrame]:
    out = source.parent / "W"
    report = nbaudio.ingest("table", source, out=out, options=options)
    return report, nbaudio.Workspace.open(out).segments


def _warned(report: Report, words: str) -> list[str]:
    return [line for line in report.warnings if words in line]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_spellings_that_differ_in_blanks_or_composition_are_one_speaker(
    tmp_path: Path, ending: str
) -> None:
    spellings = [
        NAME,
        f"{NAME} ",
        unicodedata.normalize("NFD", NAME),
        NAME.replace(" ", "\u00a0"),
        NAME.replace(" ", "  "),
        f"\ufeff{NAME}",
        f"{NAME}\u200b",
        f"\u200e{NAME}",
        "Ben",
    ]
    report, segments = _ingest(_table(tmp_path, spellings, f"t{ending}"))
    assert segments["speaker_id"].to_list() == [NAME] * 8 + ["Ben"]
    assert segments["source_speaker"].to_list()[2] == spellings[2]
    assert len(_warned(report, "became the id of the same speaker")) == 1


def test_speaker_ids_with_one_spelling_are_unchanged(tmp_path: Path) -> None:
    report, segments = _ingest(_table(tmp_path, ["007", "b 1", "Đuro", None]))
    assert segments["speaker_id"].to_list() == ["007", "b 1", "Đuro", None]
    assert "source_speaker" not in segments.columns
    assert not _warned(report, "look alike")
    [line] = _warned(report, "no speaker")
    assert line.startswith("1 segment has no speaker")


@pytest.mark.parametrize(
    ("speakers", "ids"),
    [
        ([12.0, None, 7.0], ["12", None, "7"]),
        (["12.0", "", "7"], ["12", None, "7"]),
        ([12.5, 7.0], ["12.5", "7.0"]),
        (["12.0", "ana"], ["12.0", "ana"]),
        (["v1.0", "2.0"], ["v1.0", "2.0"]),
    ],
)
def test_speaker_numbers_written_as_whole_floats_become_integers(
    tmp_path: Path, speakers: Sequence[object], ids: Iterable[str | None]
) -> None:
    _, segments = _ingest(_table(tmp_path, speakers))
    assert segments["speaker_id"].to_list() == ids


def test_values_that_pandas_and_r_write_for_missing_speakers_are_null(tmp_path: Path) -> None:
    report, segments = _ingest(
        _table(tmp_path, ["12.0", "nan", "NA", "None", r"\N", "#REF!", "7.0"], "t.csv")
    )
    assert segments["speaker_id"].to_list() == ["12", *[None] * 5, "7"]
    assert segments["source_speaker"].to_list()[1:6] == ["nan", "NA", "None", r"\N", "#REF!"]
    [line] = _warned(report, "is read as a missing one")
    assert "the speaker '#REF!', 'NA', 'None'" in line
    assert _warned(report, "5 segments have no speaker, others have one")


def test_a_speaker_called_na_is_named_in_the_table_of_speakers(tmp_path: Path) -> None:
    table = tmp_path / "speakers.csv"
    table.write_text("speaker_id,same_as\nNA,NA\n")
    source = _table(tmp_path, ["NA", "Ben", "nan"], "t.csv")
    report, segments = _ingest(source, speakers=str(table))
    assert segments["speaker_id"].to_list() == ["NA", "Ben", None]
    assert len(_warned(report, "is read as a missing one")) == 1


def test_look_alikes_of_two_sources_are_reported_and_merged_by_a_table(tmp_path: Path) -> None:
    _ingest(_table(tmp_path, ["Žana Kos", "Ben"], "t1.parquet"))
    second = _table(tmp_path, ["zana-kos", "ben2"], "t2.parquet")
    out = tmp_path / "W"
    report = nbaudio.ingest("table", second, out=out, add=True)
    [line] = _warned(report, "look alike")
    assert "'zana-kos', 'Žana Kos'" in line
    merged = tmp_path / "speakers.csv"
    merged.write_text("speaker_id,same_as\nzana-kos,Žana Kos\nben2,Ben\n", encoding="utf8")
    report = nbaudio.ingest("table", second, out=out, add=True, options={"speakers": str(merged)})
    assert not _warned(report, "look alike")
    segments = nbaudio.Workspace.open(out).segments
    assert segments["speaker_id"].to_list() == ["Žana Kos", "Ben", "Žana Kos", "Ben"]
    assert segments["source_speaker"].to_list()[2:] == ["zana-kos", "ben2"]


def test_speakers_that_may_be_several_people_are_named(tmp_path: Path) -> None:
    source = tmp_path / "t.csv"
    source.write_text(
        "file,start,end,text,speaker\na,0,1,da,SPEAKER_00\nb,0,1,ne,SPEAKER_00\n"
        "b,1,2,da,SPEAKER_01\nb,2,3,ne,Unknown\nb,3,4,da,?\n"
    )
    report, _ = _ingest(source)
    [unnamed] = _warned(report, "may be several people")
    assert unnamed.startswith("2 segments have the speaker '?', 'Unknown', who ")
    [numbered] = _warned(report, "diarizer")
    assert numbered.startswith("1 speaker is in several recordings, such as 'SPEAKER_00': ")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("speaker,same\na,b\n", "expected the columns speaker_id and same_as"),
        ("speaker_id,same_as\na,b\na,c\n", "'a' is 'c' here and 'b' before"),
        ("speaker_id,same_as\na,b\nb,c\n", "write the last one for both"),
        ("speaker_id,same_as\na,\n", "a speaker is empty"),
    ],
)
def test_invalid_tables_of_speakers_are_refused(tmp_path: Path, lines: str, message: str) -> None:
    source = _table(tmp_path, ["a", "b"])
    merged = tmp_path / "speakers.csv"
    merged.write_text(lines)
    with pytest.raises(InputError, match=message):
        _ingest(source, speakers=str(merged))
    with pytest.raises(InputError, match="cannot be read"):
        _ingest(source, speakers=str(tmp_path / "absent.csv"))


def test_look_alikes_groups_similar_speaker_names() -> None:
    assert look_alikes(["Spk_A", "spk a", "spkB", "7", "07", "1-12", "11-2", "112", "?", "!"]) == [
        ["07", "7"],
        ["Spk_A", "spk a"],
    ]
    assert look_alikes(
        ["Kovač, Ana", "Ana Kovač", "ANA KOVAC", "Ana Kovacs", "a, b, c", "b a c"]
    ) == [["ANA KOVAC", "Ana Kovač", "Kovač, Ana"]]
    assert look_alikes(["Đurić", "Duric", "Łoś", "Los", "1,5", "5.1"]) == [
        ["Duric", "Đurić"],
        ["Los", "Łoś"],
    ]
    assert look_alikes(
        ["\u0410na Kos", "Ana Kos", "Dr. Ana Kos", "Kos, prof. dr. Ana", "Dr. 1", "1"]
    ) == [["Ana Kos", "Dr. Ana Kos", "Kos, prof. dr. Ana", "\u0410na Kos"]]
    assert look_alikes(["Drago Kos", "ago Kos", "Mr. Kos", "Ms. Kos", "Dr. Kos", "Kos"]) == [
        ["Dr. Kos", "Kos"]
    ]


def _kaldi(folder: Path, **files: str) -> pl.DataFrame:
    source = folder / "d"
    source.mkdir()
    (source / "wav.scp").write_text("".join(f"u{number} a{number}.wav\n" for number in range(4)))
    (source / "text").write_text("".join(f"u{number} satz\n" for number in range(4)))
    for name, lines in files.items():
        (source / name).write_text(lines)
    nbaudio.ingest("kaldi", source, out=folder / "W")
    return nbaudio.Workspace.open(folder / "W").segments


def test_kaldi_speakers_are_read_from_spk2utt_without_utt2spk(tmp_path: Path) -> None:
    segments = _kaldi(tmp_path, spk2utt="s1 u0 u1\ns2\tu2  u3\n")
    assert segments["speaker_id"].to_list() == ["s1", "s1", "s2", "s2"]


def test_contradictions_of_utt2spk_and_spk2utt_are_problems(tmp_path: Path) -> None:
    segments = _kaldi(tmp_path, utt2spk="u0 s1\nu1 s1\nu2 s2\n", spk2utt="s1 u0\ns2 u1 u2 u3\n")
    assert segments["speaker_id"].to_list() == ["s1", "s1", "s2", "s2"]
    problems = nbaudio.Workspace.open(tmp_path / "W").table("problems")
    reasons = problems.filter(file="spk2utt")["reason"].to_list()
    assert reasons == ["'u1' was of speaker 's1' before, which is kept"]


def _spellings_of_20_speakers() -> list[str]:
    """Return two spellings for each of 20 speakers."""
    pairs = ((f"Spk {number:02}x", f"spk-{number:02}X") for number in range(20))
    return [spelling for pair in pairs for spelling in pair]


def _splits_by_plain_name(workspace: Path) -> dict[str, set[str]]:
    """Return the splits of each of these speakers."""
    plain = pl.col("speaker_id").str.to_lowercase().str.replace_all(r"\W", "")
    segments = nbaudio.Workspace.open(workspace).segments.drop_nulls("split")
    splits = segments.group_by(plain).agg(pl.col("split").cast(pl.String).unique())
    return {name: set(names) for name, names in splits.iter_rows()}


def test_select_keeps_look_alikes_in_one_split(tmp_path: Path) -> None:
    report, before = _ingest(_table(tmp_path, _spellings_of_20_speakers()))
    assert len(_warned(report, "look alike")) > 1
    report = nbaudio.select(tmp_path / "W", dev=5, test=5)
    [line] = _warned(report, "look alike")
    assert line.startswith("20 speakers have several ids that look alike, such as 'Spk 00x' and ")
    splits = _splits_by_plain_name(tmp_path / "W")
    assert max(map(len, splits.values())) == 1
    assert set[str]().union(*splits.values()) == {"train", "dev", "test"}
    after = nbaudio.Workspace.open(tmp_path / "W").segments
    assert after["speaker_id"].equals(before["speaker_id"])
    assert "look_alikes" not in report.facts["parameters"]


def test_option_look_alikes_apart_allows_them_in_several_splits(tmp_path: Path) -> None:
    _ingest(_table(tmp_path, _spellings_of_20_speakers()))
    report = nbaudio.select(tmp_path / "W", dev=5, test=5, look_alikes="apart")
    [line] = _warned(report, "look alike")
    assert "are in several splits, such as 'Spk " in line
    assert max(map(len, _splits_by_plain_name(tmp_path / "W").values())) == 2
    assert report.facts["parameters"]["look_alikes"] == "apart"
    with pytest.raises(InputError, match="look_alikes='no': must be 'together' or 'apart'"):
        nbaudio.select(tmp_path / "W", look_alikes="no")


def test_look_alikes_that_a_table_merges_are_one_speaker(tmp_path: Path) -> None:
    source = _table(tmp_path, _spellings_of_20_speakers())
    merged = tmp_path / "speakers.csv"
    pairs = "".join(f"spk-{number:02}X,Spk {number:02}x\n" for number in range(20))
    merged.write_text(f"speaker_id,same_as\n{pairs}")
    _, segments = _ingest(source, speakers=str(merged))
    assert segments["speaker_id"].n_unique() == 20
    report = nbaudio.select(tmp_path / "W", dev=5, test=5)
    assert not _warned(report, "look alike")
    assert max(map(len, _splits_by_plain_name(tmp_path / "W").values())) == 1


def test_a_speaker_without_look_alikes_changes_no_selection(tmp_path: Path) -> None:
    _ingest(_table(tmp_path, [f"s{number}" for number in range(30)]))
    decisions = []
    for choice in ("together", "apart"):
        nbaudio.select(tmp_path / "W", dev=5, test=5, look_alikes=choice)
        decisions.append((tmp_path / "W/segments.parquet").read_bytes())
    assert decisions[0] == decisions[1]


def test_splits_of_a_table_apply_to_other_spellings_of_a_speaker(tmp_path: Path) -> None:
    _ingest(_table(tmp_path, ["Ana Kos", "ana-kos", "Zoe\u0308", "12", "Ben", "ben"]))
    table = tmp_path / "splits.csv"
    lines = ("ANA  KOS,dev", "Zo\u00eb,test", "12.0,dev", "Ben,train", "ben,test", "Eve,dev")
    table.write_text("\n".join(("speaker_id,split", *lines)), encoding="utf8")
    report = nbaudio.select(tmp_path / "W", dev=0, test=0, splits=table)
    segments = nbaudio.Workspace.open(tmp_path / "W").segments
    assert segments["split"].to_list() == ["dev", "dev", "test", "dev", "train", "test"]
    [line] = _warned(report, "not in the workspace")
    assert line.endswith("1 of 6 values of speaker_id are not in the workspace, such as 'Eve'")
    report = nbaudio.select(tmp_path / "W", dev=0, test=0, splits=table, look_alikes="apart")
    segments = nbaudio.Workspace.open(tmp_path / "W").segments
    assert segments["split"].to_list() == ["train", "train", "test", "train", "train", "test"]


def test_a_speaker_held_out_under_another_spelling_stays_out_of_train(tmp_path: Path) -> None:
    speakers = [f"Dr. S{number}" for number in range(30)]
    _ingest(_table(tmp_path, speakers, "t1.parquet"))
    nbaudio.select(tmp_path / "W", dev=5, test=5)
    before = nbaudio.Workspace.open(tmp_path / "W").segments
    held_out = before.filter(pl.col("split") == "test")["speaker_id"].to_list()
    earlier = before.select("segment_id", "speaker_id", pl.col("split").cast(pl.String), "text")
    earlier.drop("text").with_columns(sentence=pl.lit(None, pl.String)).write_parquet(
        tmp_path / "W/earlier_splits.parquet"
    )
    second = _table(tmp_path, [name.upper().replace(".", "") for name in speakers], "t2.parquet")
    nbaudio.ingest("table", second, out=tmp_path / "W", add=True)
    nbaudio.select(tmp_path / "W")
    after = nbaudio.Workspace.open(tmp_path / "W").segments
    trained = set(after.filter(pl.col("split") == "train")["speaker_id"])
    assert len(held_out) == 5
    assert trained.isdisjoint(name.upper().replace(".", "") for name in held_out)
    assert len(trained) > 20


def test_a_withdrawn_spelling_does_not_come_back_by_a_merge(tmp_path: Path) -> None:
    source = _table(tmp_path, ["ana", "Ana K.", "Ben"])
    _ingest(source)
    nbaudio.withdraw(tmp_path / "W", speaker="ana", why="asked")
    merged = tmp_path / "speakers.csv"
    merged.write_text("speaker_id,same_as\nana,Ana K.\n")
    _, segments = _ingest(source, speakers=str(merged))
    assert segments["speaker_id"].to_list() == ["Ana K.", "Ben"]
