"""Writes docs/story.md: from a disordered archive to a corpus that is proven, and grown again.

    python docs/story.py              run all commands of the page; write it and its picture
    python docs/story.py --out FILE   run them; write the page to a file, without the picture

Each chapter of the page is a function: it runs its commands and returns its text with the figures
that they printed. The archive is made by story_archive.py, in a temporary folder of 400 MB. Its
truth is known, and verdicts are simulated from it.
"""

import argparse
import contextlib
import json
import math
import re
import shlex
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openpyxl
import polars as pl
from story_archive import (
    SEGMENTS_A_SITTING,
    STEP_S,
    Line,
    make_sitting,
    sitting_name,
    truncate_recording,
    write_recording,
    write_transcripts,
    write_typed_transcripts,
)
from typer.testing import CliRunner

import nbaudio
from nbaudio.cli import app

PAGE = Path(__file__).resolve().with_suffix(".md")
PICTURE = PAGE.parent / "img/story-threshold.png"
RECORDINGS = Path("recordings")
TRANSCRIPTS = Path("asr.json")
TYPED_TRANSCRIPTS = Path("typed.tsv")

SITTINGS = range(1, 41)
LATER_SITTINGS = range(41, 45)
BLANKS_SITTING = 3
UPPER_CASE_SITTING = 8
FLAC_SITTING = 14
RENAMED_SITTING = 21
AMBIGUOUS_SITTING = 26
MISSING_SITTING = 33
TRUNCATED_SITTING = 37
TRUNCATED_SHARE = 0.3

PILOT_PRECISION = 0.995  # estimated by the pilot, above the threshold that is taken
ERRORS_OF_BEN = 3
WITHDRAWN_MEMBER = "member 07"
CORPORA = ("CORPUS", "CORPUS-2", "CORPUS-3")

Facts = dict[str, Any]
Truth = Mapping[str, Line]  # by segment id


@dataclass(frozen=True)
class Outcome:
    """A command as it was typed, and the facts, warnings and problems of its report."""

    command: str
    facts: Facts
    warnings: list[str]
    problems: list[str]


def run(command: str) -> Outcome:
    """Run a command of nbaudio in the current folder; exit if it did not do its work."""
    words = [*shlex.split(command)[1:], "--json"]
    result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise RuntimeError(command) from result.exception
    if result.exit_code not in (0, 1):  # 1: done, with listed problems
        sys.exit(f"{command}\n{result.output}")
    report = json.loads(result.stdout)
    return Outcome(command, report["facts"], report["warnings"], report["problems"])


def block(*outcomes: Outcome) -> str:
    """Return commands as a block of the page."""
    lines = [f"    {outcome.command}" for outcome in outcomes]
    return "\n".join(["<!-- not run: docs/story.py -->", "", *lines])


def percent(share: float) -> str:
    """Return a share in percent, rounded to one decimal."""
    return f"{100 * share:.1f} %"


def lower_bound(share: float) -> str:
    """Return a bound in percent, rounded down to one decimal: what is printed is proven."""
    return f"{math.floor(1000 * share + 1e-9) / 10:.1f} %"


def minutes(hours: float) -> str:
    """Return a duration in minutes."""
    return f"{60 * hours:.1f} minutes"


def proven(facts: Facts) -> str:
    """Return whether the target of evidence is proven."""
    return "proven" if facts["selection"]["proven"] else "not proven"


# The archive


def write_disordered_archive() -> list[Line]:
    """Write the recordings and transcripts of the first week; return the lines."""
    for number in SITTINGS:
        write_recording(RECORDINGS / sitting_name(number), number)
    disorder_names()
    truncate_recording(RECORDINGS / sitting_name(TRUNCATED_SITTING), TRUNCATED_SHARE)
    lines = [line for number in SITTINGS for line in make_sitting(number)]
    write_transcripts(TRANSCRIPTS, lines, broken_line='{"file": "12 2 2024 - 40. sit')
    write_typed_transcripts(TYPED_TRANSCRIPTS, lines)
    return lines


def disorder_names() -> None:
    """Give some recordings other names than the transcripts have."""
    name = sitting_name(BLANKS_SITTING)
    (RECORDINGS / name).rename(RECORDINGS / name.replace(". sitting", ".  sitting"))
    name = sitting_name(UPPER_CASE_SITTING)
    (RECORDINGS / name).rename(RECORDINGS / name.replace(".wav", ".WAV"))
    name = sitting_name(FLAC_SITTING)
    (RECORDINGS / name).unlink()
    write_recording(RECORDINGS / name.replace(".wav", ".flac"), FLAC_SITTING)
    name = sitting_name(RENAMED_SITTING)
    (RECORDINGS / name).rename(RECORDINGS / "Evening session (live) [sitting0021].wav")
    name = sitting_name(AMBIGUOUS_SITTING)
    shutil.copy(RECORDINGS / name, RECORDINGS / name.replace(".wav", ".flac"))
    (RECORDINGS / name).rename(RECORDINGS / name.replace(".wav", ".WAV"))
    (RECORDINGS / sitting_name(MISSING_SITTING)).unlink()


def write_later_sittings(lines: Iterable[Line]) -> list[Line]:
    """Add the sittings of the second week to the archive; return all lines."""
    for number in LATER_SITTINGS:
        write_recording(RECORDINGS / sitting_name(number), number)
    later_lines = [line for number in LATER_SITTINGS for line in make_sitting(number)]
    all_lines = [*lines, *later_lines]
    write_transcripts(TRANSCRIPTS, all_lines)
    write_typed_transcripts(TYPED_TRANSCRIPTS, all_lines)
    return all_lines


# The reviewers


def verdicts_of(segment_ids: Iterable[str], truth: Truth) -> dict[str, str]:
    """Return the verdicts of a reviewer who knows what was said, by segment id."""
    return {
        segment_id: "ok" if truth[segment_id].is_right else "wrong words"
        for segment_id in segment_ids
    }


def read_page(path: Path) -> Facts:
    """Return what a page for reviewers holds."""
    match = re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', path.read_text("utf8"), re.S)
    if match is None:
        sys.exit(f"{path}: no data")
    page: Facts = json.loads(match[1])
    return page


def read_sheet(path: Path) -> list[str]:
    """Return the segment ids of a workbook, in order."""
    sheet = openpyxl.load_workbook(path).worksheets[0]
    header, *rows = sheet.iter_rows(values_only=True)
    column = header.index("segment_id")
    return [str(row[column]) for row in rows if row[column]]


def fill_in_sheet(path: Path, verdicts: Mapping[str, str]) -> None:
    """Write verdicts into a workbook, as a reviewer does in a spreadsheet program."""
    book = openpyxl.load_workbook(path)
    sheet = book.worksheets[0]
    columns = {cell.value: cell.column for cell in sheet[1]}
    for row in range(2, sheet.max_row + 1):
        segment_id = sheet.cell(row, columns["segment_id"]).value
        if segment_id:
            sheet.cell(row, columns["verdict"]).value = verdicts[segment_id]
    book.save(path)


def save_verdicts_of_page(path: Path, verdicts: Mapping[str, str], reviewer: str) -> Path:
    """Write the file that a page saves after its clips were judged; return its path."""
    page = read_page(path)
    time = "2024-03-04T10:00:00.000Z"
    rows = [
        {
            "segment_id": clip["segment_id"],
            "content": clip["content"],
            "verdict": verdicts[clip["segment_id"]],
            "comment": "",
            "corrected_text": "",
            "time": time,
        }
        for clip in page["clips"]
    ]
    content = {
        "format": "nbaudio verdicts 1",
        "review": page["review"],
        "corpus": page["corpus"],
        "reviewer": reviewer,
        "saved": time,
        "verdicts": rows,
    }
    target = path.with_name(f"{path.stem}-verdicts.json")
    target.write_text(json.dumps(content), "utf8")
    return target


def judge_sheet(path: Path, truth: Truth) -> None:
    """Judge a workbook as a reviewer who never errs."""
    fill_in_sheet(path, verdicts_of(read_sheet(path), truth))


def judge_round(name: str, truth: Truth, *, errors: int = 0) -> None:
    """Judge a round: ana in a workbook, ben on a page, who errs on right clips that both judge."""
    sheet = Path(name) / f"{name}-ana.xlsx"
    page = Path(name) / f"{name}-ben.html"
    judge_sheet(sheet, truth)
    both = set(read_sheet(sheet))
    segment_ids = [clip["segment_id"] for clip in read_page(page)["clips"]]
    verdicts = verdicts_of(segment_ids, truth)
    right_in_both = [
        segment_id
        for segment_id in segment_ids
        if segment_id in both and verdicts[segment_id] == "ok"
    ]
    mistaken = dict.fromkeys(right_in_both[:errors], "noise")
    save_verdicts_of_page(page, verdicts | mistaken, "ben")


# The chapters


def introduce(lines: list[Line]) -> str:
    """Return the head of the page."""
    speakers = len({line.speaker for line in lines})
    return f"""\
<!-- Written by docs/story.py; change the text there. -->

# A story: from a disordered archive to a proven corpus

**The archive is made up.** It has {len(SITTINGS)} sittings, {len(lines):,} segments and {speakers}
speakers. The script knows which transcripts are wrong: *all verdicts are simulated from that
truth.* The commands are real: `python docs/story.py` runs them, and every figure is what they
printed.

`asr.json` has transcripts and hypotheses, the folder `recordings` the audio, and `typed.tsv` the
words as stenographers typed them, with capitals, commas and digits.
"""


def tell_of_names() -> str:
    """Ingest the archive; return the chapter on names."""
    ingest = run("nbaudio ingest parlaspeech asr.json --audio recordings --out W")
    names = ingest.facts["names"]
    past_the_end = ingest.facts["rejected"]["past_the_end"]
    declared_s = SEGMENTS_A_SITTING * STEP_S
    return f"""\
## 1. Names that match no file

{block(ingest)}

reads {ingest.facts["segments"]:,} segments, lists {ingest.facts["unreadable_lines"]} broken line
with its number, and looks for the files of {ingest.facts["recordings"]} names:

| the name in the transcripts | recordings | result |
|---|---|---|
| is the name of a file | {names["exact"]} | matched |
| has `.wav`, the file has `.WAV` or `.flac` | {names["extension"]} | matched |
| has one blank, the file has two | {names["blanks"]} | matched |
| has another title, but the same 11-character id | {names["id"]} | matched |
| could be either of two files | {names["ambiguous"]} | listed, not guessed |
| matches no file | {names["missing"]} | listed |

One recording is a download that broke off: its header declares {declared_s:.0f} s, and
{decoded_s(TRUNCATED_SITTING):.0f} s can be decoded. The {past_the_end} segments after that are
rejected as `past_the_end`. More: [ingest.md](ingest.md).
"""


def decoded_s(number: int) -> float:
    """Return the seconds of a sitting that can be decoded."""
    recordings = pl.read_parquet("W/recordings.parquet")
    sitting = recordings.row(
        by_predicate=pl.col("recording_id") == f"sitting{number:04}", named=True
    )
    return float(sitting["num_samples"] / sitting["sampling_rate"])


def tell_of_scores(truth: Truth) -> str:
    """Score both transcripts; return the chapter on what a hypothesis is worth."""
    score = run("nbaudio score W --language en")
    join = run("nbaudio join W typed.tsv --text typed --on file,start,end")
    score_typed = run("nbaudio score W --text typed --language en")
    segments = pl.read_parquet("W/segments.parquet", columns=["segment_id", "similarity"])
    similarity = dict(segments.iter_rows())
    wrong = [similarity[key] for key in similarity if not truth[key].is_right]
    right = [similarity[key] for key in similarity if truth[key].is_right]
    return f"""\
## 2. Scores, and the transcripts as they were typed

{block(score, join, score_typed)}

The first command compares each transcript with its hypothesis: {score.facts["above_0_8"]:,}
segments have a similarity of 0.8 or more. A low similarity may be the fault of the transcript or of
the recognizer, and a high one may hide a wrong word: of {len(wrong)} wrong transcripts
{sum(value >= 0.8 for value in wrong)} have 0.8 or more, and of {len(right):,} right ones
{sum(value < 0.8 for value in right)} have less.

The corpus is to have the typed transcripts, *34 %* instead of *thirty four percent*. `join` matches
{join.facts["matched"]:,} of {join.facts["rows"]:,} rows with a segment. More:
[transcripts.md](transcripts.md).
"""


def choose_threshold(truth: Truth) -> tuple[float, str]:
    """Review a pilot; return the threshold that it suggests, and the chapter on it."""
    shutil.copytree("W", "PILOT")
    export = run(
        "nbaudio review export PILOT --out pilot.xlsx --n 300 --strategy stratified --seed 1"
    )
    judge_sheet(Path("pilot.xlsx"), truth)
    imported = run("nbaudio review import PILOT pilot.xlsx")
    evidence = run("nbaudio evidence PILOT")
    curve = {row["threshold"]: row for row in evidence.facts["curve"]}
    threshold = min(key for key, row in curve.items() if row["precision"] >= PILOT_PRECISION)
    least = curve[threshold]
    lost_hours = least["hours"] - curve[0.9]["hours"]
    chapter = f"""\
## 3. A threshold from verdicts

Verdicts that choose a threshold do not count when it is proven. So the pilot is drawn in a copy
of the workspace, `PILOT`, and with another `--seed` than the round below.

{block(export, imported, evidence)}

![Estimated precision above each threshold, with its interval](img/{PICTURE.name})

The target is 98 %. A target close to the truth takes too many verdicts, so the lowest threshold
with an estimate of at least {percent(PILOT_PRECISION)} is taken: **{threshold:g}**. A threshold of
0.9 would lose {minutes(lost_hours)} of {minutes(least["hours"])}. More: [select.md](select.md).
"""
    return threshold, chapter


def review_with_colleagues(threshold: float, select_command: str, truth: Truth) -> str:
    """Review a round with two colleagues and an adjudicator; return the chapter on it."""
    select = run(select_command)
    export = run(
        "nbaudio review export W --out round-1 --n 600 --strategy stratified "
        f"--threshold {threshold:g} --reviewers ana=xlsx,ben=html --overlap 60"
    )
    judge_round("round-1", truth, errors=ERRORS_OF_BEN)
    imported = run(
        "nbaudio review import W round-1/round-1-ana.xlsx round-1/round-1-ben-verdicts.json"
    )
    undecided = run("nbaudio review export W --out undecided.xlsx --strategy disagreements")
    judge_sheet(Path("undecided.xlsx"), truth)
    adjudicated = run("nbaudio review import W undecided.xlsx --reviewer cy --adjudicator cy")
    agreement = imported.facts["agreement"][0]
    return f"""\
## 4. A review with two colleagues

{block(select, export, imported, undecided, adjudicated)}

The verdicts are about what the first command selects: {select.facts["kept"]:,} segments, with every
speaker and every sentence in one split (`--group-by`). `stratified` draws more of the
{export.facts["clips"]} clips where faults are likely. Ana judges in Excel, Ben in a browser; he
calls {ERRORS_OF_BEN} right clips *noise*. On the {agreement["segments"]} clips that both judge,
{percent(agreement["value"])} of the verdicts are equal. A third colleague decides the
{imported.facts["disagreements"]} others; then {adjudicated.facts["disagreements"]} clips are
undecided. More: [review.md](review.md).
"""


def prove(select_command: str) -> str:
    """Select and look at the proof; return the chapter on it."""
    select = run(select_command)
    evidence = run("nbaudio evidence W --precision 0.98")
    reviewed = evidence.facts["reviewed"]
    judged = reviewed["right"] + reviewed["wrong"]
    selection = evidence.facts["selection"]
    return f"""\
## 5. What is proven

The same selection, now without the reviewed segments, which are not to be trained on:

{block(select, evidence)}

Of the {selection["segments"]:,} clips that would ship, **at least
{lower_bound(selection["low"])}** are right, with a confidence of 95 %: the target of 98 % is
**{proven(evidence.facts)}**. {reviewed["wrong"]} of the {judged} judged clips are wrong. More:
[evidence.md](evidence.md).
"""


def make_corpus() -> str:
    """Materialize and verify the corpus; return the chapter on it."""
    materialize = run(
        "nbaudio materialize W --out CORPUS --text typed --language en --shard-size 10MB"
    )
    verify = run("nbaudio verify CORPUS")
    splits = verify.facts["splits"]
    leakage = verify.facts["leakage"]
    return f"""\
## 6. A corpus, and what its splits share

{block(materialize, verify)}

`materialize` packs {materialize.facts["clips_cut_now"]:,} clips into {materialize.facts["shards"]}
shards, with the typed transcripts. `verify` decodes every clip and counts again:

| | |
|---|---|
| clips in train, dev, test | {splits["train"]:,}, {splits["dev"]}, {splits["test"]} |
| speakers that dev or test share with another split | {leakage["speaker_id"]} |
| sentences that they share | {leakage["identical_sentence"]} |
| sentences that are nearly the same | {leakage["near_identical_sentence"]} |
| sittings with speakers of several splits | {leakage["recording_id"]} |

More: [materialize.md](materialize.md), [select.md](select.md).
"""


def grow(select_command: str) -> str:
    """Bring in the sittings of the next week, as version 2; return the chapter on it."""
    ingest = run("nbaudio ingest parlaspeech asr.json --audio recordings --out W --add")
    score = run("nbaudio score W")
    join = run("nbaudio join W typed.tsv --text typed --on file,start,end")
    score_typed = run("nbaudio score W --text typed")
    select = run(select_command)
    materialize = run("nbaudio materialize W --base CORPUS --out CORPUS-2")
    diff = run("nbaudio diff CORPUS CORPUS-2")
    evidence = run("nbaudio evidence W --precision 0.98")
    selection = evidence.facts["selection"]
    shards = diff.facts["shards"]
    crossing = select.facts["rejected"]["crosses_splits"]
    added = diff.facts["added"]["segments"]
    return f"""\
## 7. The next week: version 2

The same file and folder have {len(LATER_SITTINGS)} new sittings.

{block(ingest, score, join, score_typed, select, materialize, diff, evidence)}

| | |
|---|---|
| segments that are new, unchanged | {ingest.facts["new"]}, {ingest.facts["unchanged"]:,} |
| clips that are added to train, and cut | {added}, {materialize.facts["clips_cut_now"]} |
| new segments of speakers who are in dev or test, left out | {crossing} |
| shards that keep their bytes, are rewritten, are new | {shards_of(shards)} |

New segments count as wrong until they are sampled. Of {selection["segments"]:,} clips at least
{lower_bound(selection["low"])} are right, and 98 % is {proven(evidence.facts)} for this version.
"""


def shards_of(shards: Facts) -> str:
    """Return three counts of shards of a diff."""
    return ", ".join(str(shards[kind]) for kind in ("equal", "rewritten", "new"))


def withdraw(select_command: str, truth: Truth) -> str:
    """Review a further round and withdraw a speaker, as version 3; return the chapter on it."""
    export = run(
        "nbaudio review export W --out round-2 --n 300 --strategy random "
        "--reviewers ana=xlsx,ben=html"
    )
    judge_round("round-2", truth)
    imported = run("nbaudio review import W round-2")
    withdrawal = run(f'nbaudio withdraw W --speaker "{WITHDRAWN_MEMBER}" --why "consent withdrawn"')
    select = run(select_command)
    evidence = run("nbaudio evidence W --precision 0.98")
    materialize = run("nbaudio materialize W --base CORPUS-2 --out CORPUS-3")
    diff = run("nbaudio diff CORPUS-2 CORPUS-3")
    verify = run("nbaudio verify CORPUS-3")
    because = {row["reason"]: row["segments"] for row in diff.facts["removed_because"]}
    withdrawn = because["withdrawn: consent withdrawn"]
    selection = evidence.facts["selection"]
    shards = diff.facts["shards"]
    return f"""\
## 8. A further round, and a speaker who withdraws: version 3

A round at random gives the new sittings their share. In the same week a speaker withdraws consent.

{block(export, imported, withdrawal, select, evidence, materialize, diff, verify)}

| | |
|---|---|
| clips that are removed: withdrawn, reviewed | {withdrawn}, {because["reviewed"]} |
| shards that keep their bytes, are rewritten, are new | {shards_of(shards)} |
| problems that `verify` finds | {len(verify.problems)} |

{withdrawal.facts["segments"]} segments are removed from all tables. Of the
{selection["segments"]:,} clips of version {verify.facts["version"]}, **at least
{lower_bound(selection["low"])}** are right: 98 % is **{proven(evidence.facts)}**. More:
[materialize.md](materialize.md).
"""


def conclude(truth: Truth) -> str:
    """Return the last chapter: whether the claims are true."""
    rows = []
    false_claims = 0
    for name in CORPORA:
        claim = json.loads(Path(name, "corpus.json").read_text("utf8"))["evidence"]
        low = claim["selection"]["low"]
        clips = pl.read_parquet(f"{name}/segments.parquet")["segment_id"]
        right = sum(truth[segment_id].is_right for segment_id in clips) / len(clips)
        false_claims += right < low
        rows.append(f"| `{name}` | {len(clips):,} | {lower_bound(low)} | {percent(right)} |")
    table = "\n".join(rows)
    return f"""\
## Was it true?

In a made-up archive the truth is known:

| corpus | clips | at least right | right |
|---|---|---|---|
{table}

{false_claims} of these {len(CORPORA)} claims are false.
"""


# The page


def write_story(picture: Path | None) -> str:
    """Run all commands in the current folder; return the page.

    Args:
        picture: the file for the picture of chapter 3; None: it is not drawn.
    """
    lines = write_disordered_archive()
    truth = {line.segment_id: line for line in lines}
    chapters = [introduce(lines), tell_of_names(), tell_of_scores(truth)]
    threshold, chapter = choose_threshold(truth)
    chapters.append(chapter)
    if picture is not None:
        nbaudio.plots.evidence("PILOT").savefig(picture, dpi=100)
    select_command = f"nbaudio select W --min-similarity {threshold:g} --group-by speaker_id,text"
    chapters.append(review_with_colleagues(threshold, select_command, truth))
    chapters.append(prove(select_command))
    chapters.append(make_corpus())
    truth = {line.segment_id: line for line in write_later_sittings(lines)}
    chapters.append(grow(select_command))
    chapters.append(withdraw(select_command, truth))
    chapters.append(conclude(truth))
    return "\n".join(refill(chapter) for chapter in chapters)


def refill(chapter: str) -> str:
    """Fill the lines of the paragraphs of a chapter; tables, headings and commands stay."""
    parts = chapter.split("\n\n")
    filled = [
        textwrap.fill(part, 140, break_long_words=False, break_on_hyphens=False)
        if re.match(r"[\w*`{]", part)
        else part
        for part in parts
    ]
    return "\n\n".join(filled).rstrip("\n") + "\n"


def main() -> None:
    """Run the commands, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the page to this file")
    out = parser.parse_args().out
    page = PAGE if out is None else out.absolute()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        story = write_story(PICTURE if out is None else None)
    page.write_text(story, "utf8")


if __name__ == "__main__":
    main()
