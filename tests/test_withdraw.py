"""Withdrawal: nothing of what is withdrawn stays in a workspace, comes back, or enters a later
version."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from conftest import packed_clips
from test_versions import (
    CLIPS,
    check,
    contents,
    first,
    grown,
    samples,
    save,
    shards,
    start,
    version,
)
from typer.testing import CliRunner

import nbaudio
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.corpus.clip_keys import divide_keys
from nbaudio.corpus.packs import keep_clips
from nbaudio.corpus.withdraw import withdraw
from nbaudio.reading import open_corpus
from nbaudio.storage.location import location
from nbaudio.tables.tombstones import tombstone
from nbaudio.tables.workspace import Workspace


def texts_in(folder):
    """All bytes of the small files and tables of a folder."""
    found = b""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".parquet":
            found += pl.read_parquet(path).write_ndjson().encode()
        elif path.is_file() and path.suffix != ".pack":
            found += path.read_bytes()
    return found


@pytest.mark.slow
def test_a_speaker_disappears_and_only_their_shards_are_rewritten(tmp_path):
    workspace, _, segments = start(tmp_path)
    other = [
        row | ({"speaker_id": "ana"} if row["segment_id"] in ("r3-04", "r4-05") else {})
        for row in segments
    ]
    save(workspace, workspace.recordings.to_dicts(), other)
    first(workspace, tmp_path / "c1", shard_size="60kB")
    place = dict(open_corpus(tmp_path / "c1").segments.select("segment_id", "shard").iter_rows())
    report = withdraw(workspace, speaker="ana", why="consent withdrawn")
    assert (
        report.facts["segments"],
        report.facts["recordings"],
        report.facts["clips_removed_from_packs"],
    ) == (2, 0, 2)
    assert report.facts["corpora_of_this_workspace"] == [str(tmp_path / "c1")]
    assert b"ana" not in texts_in(workspace.path).replace(b"Banana", b"")
    version(workspace, tmp_path / "c1", tmp_path / "c2")
    checked = check(tmp_path / "c2")
    assert checked.facts["withdrawn"] == 1
    old, new = shards(tmp_path / "c1"), shards(tmp_path / "c2")
    assert {name for name in old if new.get(name) != old[name]} == {place["r3-04"], place["r4-05"]}
    kept = samples(tmp_path / "c2")
    assert kept.keys() == place.keys() - {"r3-04", "r4-05"}
    info = json.loads((tmp_path / "c2/corpus.json").read_text())
    mark = {"kind": "speaker", "sha256": tombstone("speaker", "ana"), "reason": "consent withdrawn"}
    assert info["tombstones"] == [mark]
    assert b'"ana"' not in texts_in(tmp_path / "c2")
    # A version of the version keeps the tombstone.
    version(workspace, tmp_path / "c2", tmp_path / "c3")
    assert json.loads((tmp_path / "c3/corpus.json").read_text())["tombstones"] == [mark]


@pytest.mark.slow
def test_a_withdrawn_recording_is_out_of_every_table(tmp_path):
    workspace, _, segments = start(tmp_path)
    everywhere = pl.DataFrame({"segment_id": [row["segment_id"] for row in segments]})
    workspace.save(
        decisions=everywhere.with_columns(
            decision=pl.lit("accept"), reason=pl.lit(None, dtype=pl.String)
        ),
        earlier_splits=everywhere.with_columns(split=pl.lit("train"), sentence=pl.lit("x")),
        corrected_texts=everywhere.with_columns(text=pl.lit("x")),
        names=pl.DataFrame(
            {
                "name": ["r2.wav", "r3.wav"],
                "recording_id": ["r2", "r3"],
                "path": ["r2.wav", "r3.wav"],
            }
        ),
        problems=pl.DataFrame(
            {"file": ["a", "b"], "item": ["r2-03", "r3-04"], "reason": ["odd", "odd"]}
        ),
    )
    lines = [
        {"segment_id": f"r{number}-00", "start_sample": 1, "reviewer": "ben"} for number in (2, 3)
    ]
    (workspace.path / "reviews").mkdir()
    (workspace.path / "reviews/corrections.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    workspace.save_report(
        "evidence",
        {"facts": {"first_of_them": ["r2-00", "r3-00"]}, "warnings": ["r2-01: odd", "r3-01: odd"]},
    )
    first(workspace, tmp_path / "c1")
    report = withdraw(workspace, recording="r2", why="not public")
    assert (report.facts["segments"], report.facts["recordings"]) == (CLIPS, 1)
    held = texts_in(workspace.path)
    assert b"r2-" not in held
    assert b'"r2"' not in held
    assert b"r2.wav" not in held
    for name in ("decisions", "earlier_splits", "corrected_texts", "segments"):
        assert len(workspace.table(name)) == 4 * CLIPS
    assert workspace.report("evidence")["facts"]["first_of_them"] == ["r3-00"]
    assert len(packed_clips(location(workspace.path / "packs"))) == 4 * CLIPS
    version(workspace, tmp_path / "c1", tmp_path / "c2")
    check(tmp_path / "c2")
    assert "r2" not in open_corpus(tmp_path / "c2").segments["recording_id"].to_list()
    assert {row["recording_id"] for row in open_corpus(tmp_path / "c2").info["sources"]} == {
        "r0",
        "r1",
        "r3",
        "r4",
    }


def test_segments_of_a_list_or_a_table_are_withdrawn(tmp_path):
    workspace, *_ = start(tmp_path)
    (tmp_path / "ids.txt").write_text("r3-01\n\nr3-02 \n")
    withdraw(workspace, segments=tmp_path / "ids.txt", why="a name is read out")
    pl.DataFrame({"segment_id": ["r3-03"], "note": ["x"]}).write_csv(tmp_path / "ids.csv")
    withdraw(workspace, segments=str(tmp_path / "ids.csv"), why="a name is read out")
    withdraw(workspace, segments=["r3-04"], why="a name is read out")
    withdraw(workspace, segments=pl.Series(["r3-05"]), why="a name is read out")
    left = workspace.segments.filter(pl.col("recording_id") == "r3")["segment_id"].to_list()
    assert left == ["r3-00", *(f"r3-{clip:02d}" for clip in range(6, CLIPS))]
    assert workspace.withdrawn["kind"].to_list() == ["segment"] * 5


def test_invalid_input_withdraws_nothing(tmp_path):
    workspace, *_ = start(tmp_path)
    before = contents(workspace.path)
    (tmp_path / "empty.txt").write_text("\n")
    pl.DataFrame({"id": ["r3-03"]}).write_csv(tmp_path / "other.csv")
    for given, message in (
        ({}, "name what to withdraw"),
        ({"speaker": "s9"}, r"no speaker 's9' \(1 of 1"),
        ({"recording": ["r1", "r9"]}, r"no recording 'r9' \(1 of 2"),
        ({"segments": tmp_path / "empty.txt"}, "lists no segment"),
        ({"segments": tmp_path / "other.csv"}, "no column segment_id; it has id"),
        ({"segments": tmp_path / "missing.txt"}, "cannot be read"),
    ):
        with pytest.raises(InputError, match=message):
            withdraw(workspace, **given, why="x")
    with pytest.raises(InputError, match="why is empty"):
        withdraw(workspace, speaker="s1", why=" ")
    assert contents(workspace.path) == before


SPELLINGS = {
    "no-break and double blanks": (["Ana  Kos", "Ana\u00a0Kos", "ben"], "Ana Kos", 2),
    "the other form of Unicode": (["Sre\u0107ko", "ben", "eva"], "Srec\u0301ko", 1),
    "whole floats for whole numbers": (["12", "12", "7"], "12.0", 2),
    "whole numbers for whole floats": (["12.0", "12", "7.0"], "12", 2),
    "an exact spelling beside others": (["ana", " ana", "ben"], "ana", 2),
}


def with_speakers(tmp_path, speakers):
    """A workspace whose first segments have these speakers, and the others `other`."""
    workspace, _, segments = start(tmp_path)
    names = [*speakers, *["100" if speakers[-1][0].isdigit() else "other"] * len(segments)]
    rows = [row | {"speaker_id": name} for row, name in zip(segments, names, strict=False)]
    save(workspace, workspace.recordings.to_dicts(), rows)
    return workspace


@pytest.mark.parametrize("case", SPELLINGS)
def test_a_speaker_is_withdrawn_in_all_spellings(case, tmp_path):
    speakers, named, num_segments = SPELLINGS[case]
    workspace = with_speakers(tmp_path, speakers)
    report = withdraw(workspace, speaker=named, why="consent withdrawn")
    assert report.facts["segments"] == num_segments
    left = set(workspace.segments["speaker_id"])
    assert left == set(speakers[num_segments:]) | left & {"other", "100"}
    assert report.problems == []
    assert "spelled otherwise in the workspace" in report.warnings[0]
    reports = texts_in(workspace.path / "reports")
    assert named.encode() not in reports.replace(str(workspace.path).encode(), b"")


def test_number_spellings_match_only_if_all_speakers_are_numbers(tmp_path):
    workspace = with_speakers(tmp_path, ["12", "7", "ben"])
    with pytest.raises(InputError, match=r"no speaker '12.0' .*; spelled alike: '12': name each"):
        withdraw(workspace, speaker="12.0", why="consent withdrawn")


def test_an_unknown_id_is_refused_with_the_spellings_that_look_like_it(tmp_path):
    workspace = with_speakers(tmp_path, ["Ana Kos", "ANA KO\u0160", "ana-kos", "ben"])
    before = contents(workspace.path)
    for named, message in (
        ({"speaker": ["ben", "ana kos"]}, r"'ana kos' \(1 of 2 are unknown\); spelled alike: "),
        ({"recording": "R3"}, r"no recording 'R3' .*; spelled alike: 'r3': name each"),
        ({"segments": ["R3_01"]}, r"no segment 'R3_01' .*; spelled alike: 'r3-01': name each"),
    ):
        with pytest.raises(InputError, match=message) as error:
            withdraw(workspace, **named, why="x")
        assert "\n" not in str(error.value)
    assert contents(workspace.path) == before
    finished = CliRunner().invoke(
        app, ["withdraw", str(workspace.path), "--speaker", "ana kos", "--why", "x"]
    )
    assert finished.exit_code == 2
    alike = "spelled alike: 'ANA KO\u0160', 'Ana Kos', 'ana-kos': name each that is meant"
    assert alike in " ".join(finished.stderr.split())


def test_speakers_that_stay_and_look_like_a_withdrawn_one_are_named_and_not_stored(tmp_path):
    workspace = with_speakers(tmp_path, ["Ana", "ana", "\u00c1na", "ben"])
    report = withdraw(workspace, speaker="Ana", why="consent withdrawn")
    assert report.facts["segments"] == 1
    why = "looks like 'Ana', which is withdrawn; withdraw it too if it is the same person"
    assert report.problems == [f"speaker {name!r} stays, and {why}" for name in ("ana", "\u00c1na")]
    assert b"Ana" not in texts_in(workspace.path / "reports")
    assert withdraw(workspace, speaker=["ana", "\u00c1na"], why="x").problems == []


def test_segment_ids_to_withdraw_match_in_any_unicode_composition(tmp_path):
    workspace, _, segments = start(tmp_path)
    rows = [
        row
        | {
            "segment_id": row["segment_id"]
            .replace("r3-01", "u\u017e \u010das")
            .replace("r3-02", "x  y")
        }
        for row in segments
    ]
    save(workspace, workspace.recordings.to_dicts(), rows)
    report = withdraw(workspace, segments=["uz\u030c c\u030cas", "x y"], why="x")
    assert report.facts["segments"] == 2
    assert not {"u\u017e \u010das", "x  y"} & set(workspace.segments["segment_id"])


@pytest.mark.slow
def test_an_interrupted_withdrawal_is_refused_by_materialize_and_finished_by_the_same_command(
    tmp_path, monkeypatch
):
    workspace, *_ = start(tmp_path)
    first(workspace, tmp_path / "c1")
    monkeypatch.setattr("nbaudio.corpus.withdraw.keep_clips", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        withdraw(workspace, speaker="s3", why="consent withdrawn")
    monkeypatch.undo()
    with pytest.raises(
        InputError,
        match=f"{CLIPS} withdrawn segments are still there; run the interrupted "
        "'nbaudio withdraw' again",
    ):
        version(workspace, tmp_path / "c1", tmp_path / "c2")
    report = withdraw(workspace, speaker="s3", why="consent withdrawn")
    assert (report.facts["segments"], report.facts["recordings"]) == (CLIPS, 1)
    after = contents(workspace.path)
    again = withdraw(workspace, speaker="s3", why="another reason")
    assert workspace.withdrawn["reason"].to_list() == ["consent withdrawn"]
    assert again.facts["segments"] == 0
    changed = {
        name for name, digest in contents(workspace.path).items() if after.get(name) != digest
    }
    assert changed <= {"reports/withdraw.json"}
    version(workspace, tmp_path / "c1", tmp_path / "c2")
    check(tmp_path / "c2")


def test_review_clips_are_removed_and_sheets_that_hold_them_are_named(tmp_path):
    workspace, *_ = start(tmp_path)
    nbaudio.review.export(workspace, out=tmp_path / "sent/sheet.xlsx", n=30, zip=True)
    nbaudio.review.export(workspace, out=tmp_path / "sent/page.html", n=20)
    clips = {path.name for path in (tmp_path / "sent/clips").iterdir()}
    gone = [name for name in clips if name.startswith("r3-")]
    assert gone
    report = withdraw(workspace, recording="r3", why="not public")
    assert {path.name for path in (tmp_path / "sent/clips").iterdir()} == clips - set(gone)
    named = [Path(line.partition(": holds ")[0]).name for line in report.problems]
    assert sorted(named) == ["page.html", "sheet.xlsx", "sheet.zip"]


def test_packs_keep_clips_that_are_not_withdrawn_byte_for_byte(tmp_path):
    workspace, *_ = start(tmp_path)
    first(workspace, tmp_path / "c1")
    packs = location(workspace.path / "packs")
    before = packed_clips(packs)
    wanted = set(before["clip_key"][::2])
    rows = pl.LazyFrame({"clip_key": sorted(wanted)})
    keys = divide_keys(rows, num_rows=len(wanted), folder=tmp_path / "buckets/keys")
    assert keep_clips(packs, keys, tmp_path / "buckets") == len(before) - len(wanted)
    after = packed_clips(packs)
    assert set(after["clip_key"]) == wanted
    facts = ["clip_key", "length", "clip_samples", "clip_sha256"]
    assert (
        after.select(facts)
        .sort("clip_key")
        .equals(
            before.filter(pl.col("clip_key").is_in(list(wanted))).select(facts).sort("clip_key")
        )
    )
    report = first(workspace, tmp_path / "c2")
    assert report.facts["clips_cut_now"] == len(before) - len(wanted)
    assert shards(tmp_path / "c1") == shards(tmp_path / "c2")


@pytest.mark.slow
def test_damaged_packs_are_removed(tmp_path):
    workspace, *_ = start(tmp_path)
    first(workspace, tmp_path / "c1")
    held = packed_clips(location(workspace.path / "packs"))
    for number, path in enumerate(sorted((workspace.path / "packs").glob("*.pack"))):
        data = bytearray(path.read_bytes())
        data[20 if number else -1] ^= 255
        path.write_bytes(data)
    withdraw(workspace, speaker="s3", why="consent withdrawn")
    left = packed_clips(location(workspace.path / "packs"))
    assert set(left["clip_key"]) < set(held["clip_key"])
    report = version(workspace, tmp_path / "c1", tmp_path / "c2")
    assert report.facts["kept"] == 4 * CLIPS
    check(tmp_path / "c2")


def test_verify_finds_what_should_have_been_withdrawn(tmp_path):
    workspace, *tables = start(tmp_path)
    first(workspace, tmp_path / "c1")
    path = tmp_path / "c1/corpus.json"
    info = json.loads(path.read_text())
    info["tombstones"] = [
        {"kind": "recording", "sha256": tombstone("recording", "r4"), "reason": "x"}
    ]
    path.write_text(json.dumps(info))
    problems = nbaudio.verify(
        tmp_path / "c1", jobs=1, engine="threading", show_progress=False
    ).problems
    assert len([line for line in problems if "was withdrawn, but is still there" in line]) == CLIPS
    grown(tmp_path, workspace, *tables, 5)


@pytest.mark.slow
def test_a_withdrawal_that_stops_at_any_write_is_finished_by_the_same_command(
    tmp_path, monkeypatch
):
    def prepared(folder):
        folder.mkdir()
        workspace, _, segments = start(folder)
        everywhere = pl.DataFrame(
            {
                "segment_id": [row["segment_id"] for row in segments],
                "decision": "accept",
                "reason": "x",
            }
        )
        earlier = everywhere.select("segment_id", split=pl.lit("train"), sentence=pl.lit("x"))
        workspace.save(decisions=everywhere, earlier_splits=earlier)
        workspace.save_report("evidence", {"facts": {"first_of_them": ["r3-00", "r4-00"]}})
        first(workspace, folder / "c1")
        return workspace

    def state(workspace):
        """What a workspace holds: its tables, its reports but for this one's, and the clips of its
        packs."""
        tables = {
            path.name: pl.read_parquet(path).write_ndjson()
            for path in workspace.path.glob("*.parquet")
        }
        clips = (
            packed_clips(location(workspace.path / "packs"))
            .sort("clip_key")["clip_sha256"]
            .to_list()
        )
        return tables, workspace.report("evidence"), clips

    ready = prepared(tmp_path / "ready")
    whole = Workspace(Path(shutil.copytree(ready.path, tmp_path / "whole")))
    withdraw(whole, speaker="s3", why="consent withdrawn")
    replace, stops = Path.replace, 0
    while True:
        workspace = Workspace(Path(shutil.copytree(ready.path, tmp_path / f"stop{stops}")))
        done = iter(range(stops))

        def stopping(path, target, done=done):
            if next(done, None) is None:
                raise KeyboardInterrupt
            return replace(path, target)

        monkeypatch.setattr(Path, "replace", stopping)
        try:
            withdraw(workspace, speaker="s3", why="consent withdrawn")
            break
        except KeyboardInterrupt:
            monkeypatch.undo()
        withdraw(workspace, speaker="s3", why="consent withdrawn")
        assert state(workspace) == state(whole)
        stops += 1
    assert stops >= 6


def test_a_sheet_returned_after_a_withdrawal_restores_no_withdrawn_segment(tmp_path):
    workspace, *_ = start(tmp_path)
    nbaudio.review.export(workspace, out=tmp_path / "sheet.csv", n=30)
    rows = pl.read_csv(tmp_path / "sheet.csv", infer_schema=False)
    judged = rows.with_columns(verdict=pl.lit("ok"), comment=pl.lit("said by Ana"))
    judged.write_csv(tmp_path / "sheet.csv")
    drawn = [key for key in rows["segment_id"] if key]
    withdrawn = [key for key in drawn if key.startswith("r3-")]
    assert withdrawn
    nbaudio.review.import_(workspace, tmp_path / "sheet.csv")
    withdraw(workspace, recording="r3", why="not public")
    before = (workspace.path / "reviews/verdicts.jsonl").read_text()
    proven = nbaudio.evidence(workspace).to_dict()
    report = nbaudio.review.import_(workspace, tmp_path / "sheet.csv")
    assert report.problems == [
        f"sheet.csv: not imported: {len(withdrawn)} verdicts on segments that were withdrawn"
    ]
    assert (workspace.path / "reviews/verdicts.jsonl").read_text() == before
    assert nbaudio.evidence(workspace).to_dict() == proven
