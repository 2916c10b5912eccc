"""Planted faults and repeated rows, which measure reviewers: `review export --planted`."""

import io
import json

import numpy as np
import polars as pl
import pytest
import soundfile
from sheets import fill_in
from test_review_page import data_of, verdict_file
from test_widget_tables import ask

import nbaudio
from nbaudio import review
from nbaudio.core.errors import ExistsError, InputError
from nbaudio.proof.measured_reviewers import most_faults
from nbaudio.review.reviewer_rates import highest_rate
from nbaudio.review.sheet_reader import read_sheet
from nbaudio.review.state import ReviewState
from nbaudio.tables.schemas import SEGMENTS, conform
from nbaudio.tables.workspace import REPEATED, Workspace
from nbaudio.ui.widgets import ReviewPanel

RATE = 8000
SECONDS = 4
SPEAKERS = ("ana", "ivo", "eva")
NUMBER = 40  # segments of each speaker


def text_of(speaker, number):
    """A text of six words, unlike those of all other segments."""
    generator = np.random.default_rng(1000 * SPEAKERS.index(speaker) + number)
    letters = generator.integers(97, 123, (6, 6))
    return " ".join("".join(map(chr, word)) for word in letters)


@pytest.fixture(scope="module")
def audio(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audio")
    for place, speaker in enumerate(SPEAKERS):
        samples = np.random.default_rng(place).uniform(-0.3, 0.3, NUMBER * SECONDS * RATE)
        soundfile.write(folder / f"{speaker}.wav", samples, RATE)
    return folder


@pytest.fixture
def workspace(tmp_path, audio):
    keys = [(speaker, number) for speaker in SPEAKERS for number in range(NUMBER)]
    rows = [
        {
            "segment_id": f"{speaker}-{number}",
            "recording_id": speaker,
            "source_start": str(number * SECONDS),
            "source_end": str((number + 1) * SECONDS),
            "start_sample": number * SECONDS * RATE,
            "end_sample": (number + 1) * SECONDS * RATE,
            "text": text_of(speaker, number),
            "asr_text": text_of(speaker, number),
            "speaker_id": speaker,
            "similarity": 1.0,
        }
        for speaker, number in keys
    ]
    recordings = pl.DataFrame(
        {
            "recording_id": SPEAKERS,
            "path": [f"{speaker}.wav" for speaker in SPEAKERS],
            "sampling_rate": RATE,
            "num_channels": 1,
            "num_samples": NUMBER * SECONDS * RATE,
        }
    )
    made = Workspace.create(tmp_path / "w", audio=str(audio))
    segments = conform(pl.DataFrame(rows), SEGMENTS, "segments")
    made.save(recordings=recordings, segments=segments)
    return made


def record_of(workspace, name="one"):
    return ReviewState.load(workspace).records[name]


def planted_ids(workspace, name="one"):
    return [
        row.segment_id for row in record_of(workspace, name).control_rows if row.kind != REPEATED
    ]


def verdicts_of(workspace, *, missed=0, name="one"):
    """What reviewers say who call all drawn segments right, and miss some planted faults."""
    planted = planted_ids(workspace, name)
    return (
        dict.fromkeys(record_of(workspace, name).segment_ids, "ok")
        | dict.fromkeys(planted, "wrong words")
        | dict.fromkeys(planted[:missed], "ok")
    )


def facts_without_rates(facts):
    """The facts of evidence without what control rows add, and without times."""
    selection = {
        name: fact
        for name, fact in facts["selection"].items()
        if name not in {"statement", "reviewer_rates", "low_measured"}
    }
    selection["progress"] = {
        name: fact for name, fact in selection["progress"].items() if name != "since"
    }
    names = ("curve", "weakest", "rounds", "risk", "reviewed", "word_errors", "splits", "groups")
    return {"selection": selection, **{name: facts.get(name) for name in names}}


def test_a_sheet_has_planted_and_repeated_rows_that_look_like_the_others(workspace, tmp_path):
    report = review.export(workspace, out=tmp_path / "one.xlsx", n=20, planted=9)
    assert report.facts["planted"] == {"cut": 3, "speaker": 3, "text": 3}
    assert (report.facts["drawn"], report.facts["repeated"]) == (20, 4)
    rows = read_sheet(tmp_path / "one.xlsx").rows
    assert len(rows) == 33
    texts = dict(workspace.segments.select("segment_id", "text").iter_rows())
    record = record_of(workspace)
    drawn = set(record.segment_ids)
    planted = [row for row in rows if row["segment_id"] not in drawn]
    assert sorted(row["segment_id"] for row in planted) == sorted(planted_ids(workspace))
    wrong_texts = [row for row in planted if row["transcript"] != texts[row["segment_id"]]]
    assert len(wrong_texts) == 3
    for row in wrong_texts:
        # The text of another segment of the same recording.
        others = workspace.segments.filter(text=row["transcript"])
        assert others["recording_id"].to_list() == [row["segment_id"].partition("-")[0]]
    # All keys, cells and names of clips have the same form.
    assert {len(row.key[0]) for row in rows} == {16}
    assert len({row.key[0] for row in rows}) == 33
    assert {row["speaker"] for row in rows} <= set(SPEAKERS)
    names = {path.name for path in (tmp_path / "clips").iterdir()}
    assert names == {f"{row['segment_id']}-{row.key[0][:8]}.wav" for row in rows}
    ids = [row["segment_id"] for row in rows]
    for row in record.control_rows:
        assert ids[row.position] == row.segment_id
        if row.kind == REPEATED:
            assert ids.index(row.segment_id) < row.position


def test_clips_of_planted_rows_hold_another_speaker_or_lack_the_last_words(
    workspace, tmp_path, audio
):
    review.export(workspace, out=tmp_path / "one.xlsx", n=20, planted=9)
    record = record_of(workspace)
    kinds = {}
    for row, row_hash in zip(record.control_rows, record.control_hashes(), strict=True):
        [path] = (tmp_path / "clips").glob(f"{row.segment_id}-{row_hash[:8]}.wav")
        clip, rate = soundfile.read(path)
        speaker, _, number = row.segment_id.partition("-")
        seconds = len(clip) / rate
        kinds.setdefault(row.kind, []).append(seconds)
        if row.kind == "speaker":
            assert row.audio_of.partition("-")[0] != speaker
        elif row.kind == "cut":
            # 41 characters at 25 a second.
            assert seconds == pytest.approx(41 / 25, abs=0.001)
            assert row.start_sample == int(number) * SECONDS * RATE
    assert {kind: {round(length, 2) for length in lengths} for kind, lengths in kinds.items()} == {
        "text": {4.0},
        "speaker": {4.0},
        "cut": {1.64},
        "repeated": {4.0},
    }


@pytest.mark.slow
def test_the_same_call_writes_the_same_files_and_another_number_needs_another_name(
    workspace, tmp_path
):
    options = {"n": 20, "planted": 6, "reviewers": ["ana", "ben"], "overlap": 4}
    for name in ("one.xlsx", "one.html", "one.csv"):
        folder = tmp_path / f"first {name}"
        copy = tmp_path / f"again {name}"
        review.export(workspace, out=folder / name, **options)
        review.export(workspace, out=copy / name, **options)
        files = sorted(path.relative_to(folder) for path in folder.rglob("*.*"))
        assert files == sorted(path.relative_to(copy) for path in copy.rglob("*.*"))
        assert all((folder / file).read_bytes() == (copy / file).read_bytes() for file in files)
    with pytest.raises(ExistsError, match="another planted needs another name"):
        review.export(workspace, out=tmp_path / "one.xlsx", **(options | {"planted": 7}))


@pytest.mark.slow
def test_missed_faults_are_counted_and_the_measured_bound_is_below_the_plain_one(
    workspace, tmp_path
):
    out = tmp_path / "one.xlsx"
    review.export(workspace, out=out, n=60, planted=20)
    fill_in(out, verdicts_of(workspace, missed=2))
    report = review.import_(workspace, out)
    assert report.problems == []
    assert report.facts["reviewer_rates"]["missed"]["mistakes"] == 2
    assert report.facts["verdicts_in_all"] == 60  # control rows are not among them
    evidence = nbaudio.evidence(workspace)
    selection = evidence.facts["selection"]
    rates = selection["reviewer_rates"]
    assert (rates["missed"]["judged"], rates["missed"]["mistakes"]) == (20, 2)
    assert (rates["false_alarms"]["judged"], rates["false_alarms"]["mistakes"]) == (10, 0)
    high = highest_rate(2, 20, 0.05)
    assert rates["missed"]["high"] == pytest.approx(high)
    assert 0.25 < high < 0.4
    assert 0 < selection["low_measured"] < selection["low"]
    sentence = f"Reviewers missed 2 of 20 planted faults: up to {np.ceil(100 * high):.0f} %."
    assert sentence in selection["statement"]
    assert evidence.facts["reviewers"].startswith(sentence)


def test_verdicts_on_control_rows_change_nothing_but_the_rates(workspace, tmp_path):
    out = tmp_path / "one.xlsx"
    plain = Workspace.create(tmp_path / "plain", audio=str(workspace.audio_root))
    plain.save(recordings=workspace.recordings, segments=workspace.segments)
    review.export(plain, out=tmp_path / "plain" / "one.xlsx", n=60)
    review.export(workspace, out=out, n=60, planted=20)
    assert record_of(plain).segment_ids == record_of(workspace).segment_ids
    said = verdicts_of(workspace, missed=20)
    # Some say right words for planted rows too, and contradict themselves on repeated rows.
    planted = planted_ids(workspace)
    said |= {key: {"verdict": "wrong words", "corrected text": "nešto"} for key in planted[10:]}
    fill_in(out, said)
    fill_in(tmp_path / "plain" / "one.xlsx", verdicts_of(plain))
    review.import_(workspace, out)
    review.import_(plain, tmp_path / "plain" / "one.xlsx")
    assert workspace.segments.equals(plain.segments)
    first = nbaudio.evidence(plain).facts
    second = nbaudio.evidence(workspace).facts
    assert facts_without_rates(first) == facts_without_rates(second)
    assert review.agreement(workspace).equals(review.agreement(plain))
    assert len(review.verdicts(workspace)) == 60


@pytest.mark.slow
def test_a_second_look_at_clips_that_were_called_wrong_does_not_raise_the_measured_bound(
    workspace, tmp_path
):
    out = tmp_path / "one.xlsx"
    review.export(workspace, out=out, n=60, planted=20)
    drawn = record_of(workspace).segment_ids
    wrong = dict.fromkeys(drawn[:6], "wrong words")
    fill_in(out, verdicts_of(workspace) | wrong, to=tmp_path / "first.xlsx")
    review.import_(workspace, tmp_path / "first.xlsx")
    before = nbaudio.evidence(workspace).facts["selection"]
    second = [
        review.Verdict(key, content, "ok", "", None, "unnamed", "2999-01-01T00:00:00Z", "one")
        for key, content in zip(drawn[:6], record_of(workspace).contents, strict=False)
    ]
    review.append_verdicts(workspace, second)
    after = nbaudio.evidence(workspace).facts["selection"]
    assert after["low"] > before["low"]
    assert after["low_measured"] == before["low_measured"]


def test_planted_rows_never_ship_and_drawn_ones_leave_train(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.xlsx", n=20, planted=20)
    planted = set(planted_ids(workspace))
    assert len(planted) == 20
    nbaudio.select(workspace, dev=12, test=12, group_by=["text"])
    table = workspace.segments
    shipped = table.filter(decision="accept")
    assert planted.isdisjoint(shipped["segment_id"])
    assert shipped["split"].value_counts().sort("split").rows()[:1] == [("dev", 12)]
    reasons = table.filter(pl.col("segment_id").is_in(list(planted)))["reason"]
    assert set(reasons) == {"reviewed"}


def test_pages_carry_control_rows_and_their_verdict_files_are_imported(workspace, tmp_path):
    page = tmp_path / "one.html"
    review.export(workspace, out=page, n=20, planted=6, reviewers=["ana", "ben"])
    shown = data_of(tmp_path / "one-ana.html")
    assert len(shown["clips"]) == 10 + 3 + 2
    assert {frozenset(clip) for clip in shown["clips"]} == {frozenset(shown["clips"][0])}
    said = verdicts_of(workspace, missed=1)
    files = [
        verdict_file(tmp_path / f"one-{name}.html", said, reviewer=name) for name in ("ana", "ben")
    ]
    report = review.import_(workspace, files)
    assert report.problems == []
    missed = report.facts["reviewer_rates"]["missed"]
    assert (missed["judged"], missed["mistakes"]) == (6, 1)
    again = review.import_(workspace, files)
    assert (again.facts["new"], again.facts["known_already"]) == (0, 30)


def test_rows_without_a_key_are_known_by_their_ids(workspace, tmp_path):
    out = tmp_path / "one.csv"
    review.export(workspace, out=out, n=20, planted=6)
    table = pl.read_csv(out, infer_schema=False).with_columns(verdict=pl.lit("ok"))
    sheet = fill_in_csv(table.drop("key"), tmp_path / "back.csv")
    report = review.import_(workspace, sheet)
    assert report.problems == []


def fill_in_csv(table, path):
    path.write_text(table.write_csv(), encoding="utf-8")
    return path


def test_a_round_with_a_verdict_on_a_planted_row_cannot_be_taken_back(workspace, tmp_path):
    out = tmp_path / "one.xlsx"
    review.export(workspace, out=out, n=20, planted=6)
    fill_in(out, {planted_ids(workspace)[0]: "ok"})
    review.import_(workspace, out)
    with pytest.raises(InputError, match="1 of its 20 segments were judged"):
        review.export(workspace, undo="one")


def test_a_withdrawn_segment_leaves_no_clip_of_a_planted_row(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.xlsx", n=20, planted=9)
    row = next(row for row in record_of(workspace).control_rows if row.kind == "speaker")
    ids = tmp_path / "ids.txt"
    ids.write_text(row.audio_of)
    nbaudio.withdraw(workspace, segments=ids, why="asked")
    assert not list((tmp_path / "clips").glob(f"{row.segment_id}-*"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"planted": -1}, "planted must be 0 or more, not -1"),
        ({"planted": 5, "blind": False}, "leave out --no-blind"),
        ({"planted": 5, "segment_ids": ["ana-1"]}, "not into segments that were picked"),
    ],
)
def test_faults_cannot_be_planted_where_they_would_show(workspace, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        review.export(workspace, out=tmp_path / "one.xlsx", **options)


def test_a_workspace_with_too_few_segments_has_fewer_planted_rows_and_says_so(workspace, tmp_path):
    report = review.export(workspace, out=tmp_path / "one.xlsx", n=100, planted=40)
    assert sum(report.facts["planted"].values()) == 20
    assert (
        "40 planted faults were requested, only 20 could be made: each takes a segment that is on "
        "no sheet and not held out; a smaller n leaves more"
    ) in report.warnings


@pytest.mark.parametrize("rate", [0.02, 0.2, 0.5])
def test_the_highest_rate_is_too_low_at_some_time_in_few_of_many_sequences(rate):
    generator = np.random.default_rng(7)
    false = 0
    for _ in range(300):
        mistakes = np.cumsum(generator.random(80) < rate)
        false += any(highest_rate(int(mistakes[n - 1]), n, 0.05) < rate for n in range(1, 81, 3))
    assert false <= 0.05 * 300 + 8


def test_most_faults_counts_what_reviewers_miss():
    assert most_faults(10, 0.0, 0.01, total=1000) == 10
    assert most_faults(0, 0.5, 0.01, total=1000) == 6  # 0.5 ** 7 is below 0.01
    assert most_faults(30, 0.2, 0.001, total=35) == 35


def test_card_and_corpus_have_the_measured_bound(workspace, tmp_path):
    out = tmp_path / "one.xlsx"
    review.export(workspace, out=out, n=60, planted=20)
    fill_in(out, verdicts_of(workspace, missed=1))
    review.import_(workspace, out)
    nbaudio.select(workspace, dev=0, test=0)
    nbaudio.materialize(workspace, out=tmp_path / "corpus", jobs=1, engine="threading")
    claim = json.loads((tmp_path / "corpus" / "corpus.json").read_text())["evidence"]["selection"]
    assert claim["reviewer_rates"]["missed"]["mistakes"] == 1
    assert claim["low_measured"] < claim["low"]
    card = (tmp_path / "corpus" / "README.md").read_text()
    assert "Reviewers missed 1 of 20 planted faults" in card
    assert "at least, with measured reviewers" in card


VERDICT = {"comment": "", "corrected_text": None}


def give(panel, said):
    """Judge the rows of a panel in order by the verdicts of their segments."""
    for number, segment_id in enumerate(panel._frame["segment_id"]):
        fields = said[segment_id]
        fields = fields if isinstance(fields, dict) else {"verdict": fields, "corrected_text": None}
        ask(panel, "review.give", number=number, comment="", **fields)


def test_a_panel_shows_the_rows_of_the_sheet_and_nothing_tells_which_are_planted(
    workspace, tmp_path
):
    out = tmp_path / "one.xlsx"
    review.export(workspace, out=out, n=20, planted=9)
    panel = ReviewPanel(workspace, review="one", reviewer="ana")
    opened, _ = ask(panel, "table.open")
    names = [column["name"] for column in opened["columns"]]
    assert names == ["segment_id", "text", "speaker_id", "duration_s", "verdict"]
    assert ask(panel, "review.open")[0]["clip_only"] is True
    rows, _ = ask(panel, "table.rows", first=0, last=50, columns=["segment_id", "text"])
    sheet = read_sheet(out).rows
    assert [row["cells"] for row in rows["rows"]] == [
        [row["segment_id"], row["transcript"]] for row in sheet
    ]
    shapes = set()
    for number, row in enumerate(sheet):
        shown, _ = ask(panel, "segment", number=number)
        words = [word["reference"] for word in shown["words"]]
        assert " ".join(words) == row["transcript"]
        shapes.add((tuple(shown), tuple(shown["words"][0]), len(shown["facts"])))
        assert shown["correction"] is None
        said, _ = ask(panel, "review.said", number=number)
        assert said == {"said": None, "text": row["transcript"]}
    assert len(shapes) == 1
    assert "0 of 33 judged" in panel.static_html()
    for call in ("correct", "undo_correction"):
        assert "error" in ask(panel, call, number=0, start_ms=10, end_ms=10)[0]
    for where in ("recording_id = 'ana'", "start_sample > 0", "source_start > '1'"):
        asked = {"where": where, "find": "", "sort": "", "descending": False}
        assert "no column" in ask(panel, "table.arrange", **asked)[0]["error"]


def test_a_panel_plays_the_clips_of_the_sheet_without_their_context(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.xlsx", n=20, planted=9)
    record = record_of(workspace)
    panel = ReviewPanel(workspace, review="one", reviewer="ana")
    hashes = dict(zip(record.control_hashes(), record.control_rows, strict=True))
    for row_hash, row in hashes.items():
        [path] = (tmp_path / "clips").glob(f"{row.segment_id}-{row_hash[:8]}.wav")
        clip, rate = soundfile.read(path)
        for options in ({}, {"before": 1.0, "after": 1.0, "channel": "0"}):
            times, buffers = ask(panel, "clip", number=row.position, even=False, **options)
            assert times["seconds"] == pytest.approx(len(clip) / rate, abs=0.001)
            assert (times["start"], times["end"]) == (0.0, times["seconds"])
            played, _ = soundfile.read(io.BytesIO(buffers[-1]))
            shortest = min(len(played), len(clip))
            assert np.allclose(played[:shortest], clip[:shortest], atol=0.002)


@pytest.mark.slow
def test_verdicts_of_a_panel_on_control_rows_change_nothing_but_the_rates(workspace, tmp_path):
    plain = Workspace.create(tmp_path / "plain", audio=str(workspace.audio_root))
    plain.save(recordings=workspace.recordings, segments=workspace.segments)
    review.export(plain, out=tmp_path / "plain" / "one.xlsx", n=60)
    review.export(workspace, out=tmp_path / "one.xlsx", n=60, planted=20)
    planted = planted_ids(workspace)
    said = verdicts_of(workspace, missed=4)
    said |= {key: {"verdict": "noise", "corrected_text": "nešto"} for key in planted[10:]}
    give(ReviewPanel(workspace, review="one", reviewer="ana"), said)
    give(ReviewPanel(plain, review="one", reviewer="ana"), verdicts_of(plain))
    assert len(review.verdicts(workspace)) == 60
    assert len(ReviewState.load(workspace).control_verdicts) == 30
    for made in (workspace, plain):
        review.correct_texts(made)
    assert workspace.segments.equals(plain.segments)
    first = nbaudio.evidence(plain).facts
    second = nbaudio.evidence(workspace).facts
    assert facts_without_rates(first) == facts_without_rates(second)
    assert second["selection"]["reviewer_rates"]["missed"] == {
        "judged": 20,
        "mistakes": 4,
        "high": pytest.approx(highest_rate(4, 20, 0.05)),
    }
    assert second["selection"]["reviewer_rates"]["false_alarms"]["judged"] == 10
    assert review.agreement(workspace).equals(review.agreement(plain))


@pytest.mark.slow
def test_a_verdict_of_a_panel_on_a_control_row_is_resumed_changed_and_undone(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.xlsx", n=20, planted=9)
    record = record_of(workspace)
    planted = next(row.position for row in record.control_rows if row.kind != REPEATED)
    repeated = next(row for row in record.control_rows if row.kind == REPEATED)
    panel = ReviewPanel(workspace, review="one", reviewer="ana")
    first = panel._frame["segment_id"].index_of(repeated.segment_id)
    ask(panel, "review.give", number=planted, verdict="noise", **VERDICT)
    ask(panel, "review.give", number=planted, verdict="ok", **VERDICT)
    state, _ = ask(panel, "review.give", number=first, verdict="ok", **VERDICT)
    assert (state["done"], state["total"], state["counts"]) == (2, 33, {"ok": 2})
    # A verdict on a row is none on its repetition, and the other way round.
    again = ReviewPanel(workspace, review="one", reviewer="ana")
    assert again.progress["done"] == 2
    assert ask(again, "review.said", number=repeated.position)[0]["said"] is None
    assert ask(again, "review.said", number=planted)[0]["said"]["verdict"] == "ok"
    ask(again, "review.give", number=repeated.position, verdict="cut off", **VERDICT)
    ask(again, "review.give", number=planted, verdict="unsure", **VERDICT)
    undone, _ = ask(again, "review.undo")
    assert (undone["number"], undone["counts"]) == (planted, {"ok": 2, "cut off": 1})
    undone, _ = ask(again, "review.undo")
    assert (undone["number"], undone["counts"]) == (repeated.position, {"ok": 2})
    log = ReviewState.load(workspace).control_verdict_log
    assert log["verdict"].to_list() == ["noise", "ok", "cut off", "unsure", "ok", None]
    assert set(log["content"]) == {
        repeated.content,
        next(row.content for row in record.control_rows if row.position == planted),
    }
    assert log["review"].unique().to_list() == ["one"]
    assert len(review.verdicts(workspace)) == 1
    # The first verdict counts; a row that was skipped counts for nothing.
    rates = nbaudio.evidence(workspace).facts["selection"]["reviewer_rates"]
    assert (rates["missed"]["judged"], rates["missed"]["mistakes"]) == (1, 0)
    # A sheet that returns afterwards has its own verdict on the row that was undone.
    fill_in(tmp_path / "one.xlsx", verdicts_of(workspace), to=tmp_path / "back.xlsx")
    report = review.import_(workspace, tmp_path / "back.xlsx", reviewer="ana")
    assert not [line for line in report.warnings if "None" in line]


def test_each_reviewer_of_a_round_has_a_panel_with_the_control_rows_of_the_sheet(
    workspace, tmp_path
):
    review.export(
        workspace, out=tmp_path / "one.xlsx", n=20, planted=6, reviewers=["ana", "ben"], overlap=4
    )
    for name in ("ana", "ben"):
        panel = ReviewPanel(workspace, review="one", reviewer=name)
        sheet = read_sheet(tmp_path / f"one-{name}.xlsx").rows
        assert panel._frame["segment_id"].to_list() == [row["segment_id"] for row in sheet]
    workspace.save(segments=workspace.segments.with_columns(text=pl.lit("nešto drugo")))
    with pytest.raises(ExistsError, match="segments that have changed since"):
        ReviewPanel(workspace, review="one", reviewer="ana")


@pytest.mark.slow
def test_what_reviewers_call_right_who_were_not_measured_is_unsure_in_the_measured_bound(
    workspace, tmp_path
):
    review.export(workspace, out=tmp_path / "one.xlsx", n=30, planted=20)
    review.export(workspace, out=tmp_path / "two.xlsx", n=30)
    give(ReviewPanel(workspace, review="one", reviewer="ana"), verdicts_of(workspace))
    alone = nbaudio.evidence(workspace).facts["selection"]
    assert alone["reviewer_rates"]["right_by_others"] == 0
    right = dict.fromkeys(record_of(workspace, "two").segment_ids, "ok")
    give(ReviewPanel(workspace, review="two", reviewer="ben"), right)
    both = nbaudio.evidence(workspace).facts["selection"]
    assert both["low"] > alone["low"]
    assert both["low_measured"] < alone["low_measured"]
    assert both["reviewer_rates"]["right_by_others"] == 30
    assert "who judged no planted fault (30 verdicts), is unsure beside this" in both["statement"]
    # Once ben has judged planted faults, his verdicts count.
    review.export(workspace, out=tmp_path / "three.xlsx", n=10, planted=10)
    give(
        ReviewPanel(workspace, review="three", reviewer="ben"),
        verdicts_of(workspace, name="three"),
    )
    measured = nbaudio.evidence(workspace).facts["selection"]
    assert measured["reviewer_rates"]["right_by_others"] == 0
    assert measured["low_measured"] > alone["low_measured"]
