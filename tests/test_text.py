import json
import unicodedata

import jiwer
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import nbaudio
from nbaudio import text
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.tables.workspace import Workspace
from nbaudio.text import edit_distance
from nbaudio.text.score import score

# Few letters, so that texts resemble each other, every kind of blank, and letters beyond the basic
# plane.
letters = st.sampled_from("aabčć😀 \t\n\x1c\x85\xa0\u2003\u3000")
hostile = st.text(letters, max_size=12) | st.lists(
    st.sampled_from(["da", "ne", "evo", "Da"]), max_size=8
).map(" ".join)
pairs = st.lists(st.tuples(st.none() | hostile, st.none() | hostile), max_size=8)
# Whatever polars can hold: no lone surrogates.
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def textbook_distance(a: str, b: str) -> int:
    """The textbook's table, row by row."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row = row, [i]
        for j, y in enumerate(b, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (x != y)))
    return row[-1]


# --- similarity and error rates


@given(any_text | hostile, any_text | hostile)
def test_similarity_equals_the_documented_formula(a, b):
    total = len(a) + len(b)
    expected = 1 - 2 * textbook_distance(a, b) / total if total else 1
    assert text.similarity(a, b) == expected
    assert -1 <= expected <= 1
    assert text.similarity(b, a) == expected


def test_similarity_of_empty_and_short_texts():
    assert text.similarity("", "") == 1
    assert text.similarity("a", "") == text.similarity("", "a") == -1
    # Levenshtein.ratio and 1 - edits / longest are 0 here, the next ones part them.
    assert text.similarity("abc", "xyz") == 0
    assert text.similarity("abcd", "ab") == pytest.approx(1 / 3)


@given(hostile | any_text, hostile | any_text)
def test_error_rates_are_those_of_jiwer(reference, hypothesis):
    assert text.wer(reference, hypothesis) == jiwer.wer(reference, hypothesis)
    assert text.cer(reference, hypothesis) == jiwer.cer(reference, hypothesis)


@pytest.mark.slow
@given(pairs)
@example([(None, None)])
@example([("", "a b"), ("a", ""), ("", "")])
@example([("a b", "a b"), (" a \t b", "a b ")])
@example([("a  b", "a b"), (" a", "b a "), ("", "a b")])
def test_columns_equal_the_plain_functions(rows):
    left, right = (
        pl.Series(name, [row[i] for row in rows], dtype=pl.String)
        for i, name in enumerate(("text", "asr_text"))
    )

    def one_by_one(measure):
        return [None if a is None or b is None else measure(a, b) for a, b in rows]

    expected = pl.DataFrame(
        {
            "similarity": one_by_one(text.similarity),
            "wer": one_by_one(text.wer),
            "cer": one_by_one(text.cer),
        },
        schema=dict.fromkeys(("similarity", "wer", "cer"), pl.Float64),
    )
    assert_frame_equal(text.score_columns(left, right), expected, check_exact=True)
    alone = pl.DataFrame(
        [
            text.similarity_column(left, right),
            text.wer_column(left, right),
            text.cer_column(left, right),
        ]
    )
    assert_frame_equal(alone, expected, check_exact=True)


def test_column_scores_keep_the_order_across_blocks(monkeypatch):
    monkeypatch.setattr(edit_distance, "_BLOCK", 3)
    left = pl.Series([f"riječ {n} i {n % 7}" for n in range(50)])
    right = pl.Series([f"riječ {n // 2} {n % 5}" for n in range(50)])
    scores = text.score_columns(left, right)
    assert scores["similarity"].to_list() == [
        text.similarity(a, b) for a, b in zip(left, right, strict=True)
    ]
    assert scores["wer"].to_list() == [text.wer(a, b) for a, b in zip(left, right, strict=True)]


@pytest.mark.parametrize("alphabet", [3, 70_000])
def test_error_rates_are_exact_for_more_than_60000_distinct_words(monkeypatch, alphabet):
    monkeypatch.setattr(edit_distance, "_ALPHABET", alphabet)
    reference = " ".join(f"w{n}" for n in range(60_000))
    hypothesis = " ".join(f"w{n}" for n in range(3, 60_003))
    assert text.wer_column(pl.Series([reference]), pl.Series([hypothesis]))[0] == pytest.approx(
        6 / 60_000
    )


def test_score_columns_accepts_nulls_and_refuses_other_lengths_and_types():
    nothing = pl.Series([None, None])
    assert text.similarity_column(nothing, pl.Series(["a", "b"])).to_list() == [None, None]
    with pytest.raises(InputError, match="2 and 1 rows"):
        text.score_columns(nothing, pl.Series(["a"]))
    with pytest.raises(InputError, match="n holds Int64"):
        text.score_columns(pl.Series("n", [1]), pl.Series(["a"]))


# --- words and their diff


@given(hostile | any_text)
def test_words_are_those_of_jiwer_at_their_places(given_text):
    assert text.words(given_text) == jiwer.process_words(given_text, "").references[0]
    assert [given_text[start:stop] for start, stop in text.word_spans(given_text)] == text.words(
        given_text
    )


@given(hostile, hostile)
def test_word_diff_tells_both_sides_and_as_many_edits_as_wer(reference, hypothesis):
    parts = text.word_diff(reference, hypothesis)
    assert [w for part in parts for w in part.reference] == text.words(reference)
    assert [w for part in parts for w in part.hypothesis] == text.words(hypothesis)
    for part in parts:
        shape = {
            "equal": part.reference == part.hypothesis != (),
            "replace": len(part.reference) == len(part.hypothesis) > 0,
            "insert": part.reference == () != part.hypothesis,
            "delete": part.hypothesis == () != part.reference,
        }
        assert shape[part.kind]
    edits = sum(max(len(p.reference), len(p.hypothesis)) for p in parts if p.kind != "equal")
    assert edits / max(len(text.words(reference)), 1) == text.wer(reference, hypothesis)


# --- normal forms


def test_blanks_are_the_whitespace_characters_of_python():
    assert set(edit_distance.BLANKS) == {chr(c) for c in range(0x110000) if chr(c).isspace()}


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        (
            "„Dobar dan“, rekao je – «ne»… »da« ’tko’ “to” 'je'?!",
            "Dobar dan rekao je ne da tko to je",
        ),
        ("5. ožujka 2015., u 3. (5.) redu.", "5. ožujka 2015. u 3. 5. redu"),
        ("Kraj. Bilo ih je 7...", "Kraj Bilo ih je 7"),
        ("d’Artagnan, crno‑bijeli i rock'n'roll", "d'Artagnan crno-bijeli i rock'n'roll"),
        ("-5 i/ili a,b 2010–2015", "5 i ili a b 2010 2015"),
        ("a + b = 3 €", "a + b = 3 €"),
    ],
)
def test_punctuation_is_removed_and_marks_within_words_stay(given_text, expected):
    assert text.normalize(given_text, ["punctuation", "blanks"]) == expected


def test_every_punctuation_character_of_unicode_goes():
    marks = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)).startswith("P")]
    assert text.normalize(" ".join(marks), ["punctuation", "blanks"]) == ""


def test_steps_run_in_the_order_given():
    assert text.normalize("ČĆ  c\u030c", ["lower"]) == "čć  č"
    assert text.normalize("Da.  Ne.", ["blanks"]) == "Da. Ne."
    assert text.normalize("Da.", []) == "Da."
    with pytest.raises(InputError, match=r"'punct'.*nfc, lower, punctuation, blanks"):
        text.normalize("", ["nfc", "punct"])
    with pytest.raises(TypeError):
        text.NORMALIZERS["mine"] = str.upper


@given(any_text | st.text("aA5.,'’-–\u0301\u0323İ č", max_size=12))
@example("İ\u0323")
def test_default_normalization_is_idempotent_and_composed(given_text):
    once = text.normalize(given_text)
    assert text.normalize(once) == once
    assert unicodedata.is_normalized("NFC", once)
    assert once == " ".join(once.split())


@given(st.lists(st.none() | any_text, max_size=6))
def test_normal_column_equals_the_plain_function(rows):
    column = text.normalize_column(pl.Series("t", rows, dtype=pl.String))
    assert column.name == "t"
    assert column.to_list() == [None if row is None else text.normalize(row) for row in rows]


# Letters whose forms depend on what is beside them: a final sigma, marks to compose, Hangul, marks
# inside and at the ends of words, blanks of all kinds, and letters of right-to-left scripts.
BESIDE = "aAΣΟİ\u0301\u0323한가ש\u05b8ل\u0651 \t\n\u00a0\x1c\u2028-–.,'’/1_`´„?"
STEPS = st.lists(st.sampled_from([*text.NORMALIZERS]), max_size=5)


@given(st.lists(st.none() | st.text(BESIDE, max_size=12), max_size=6), STEPS)
@example(["ΟΣ Σ.", "a – b", " -", "i/ili a\n.", ""], ["blanks", "punctuation"])
def test_a_column_is_normalized_by_its_words_with_any_steps(rows, steps):
    column = text.normalize_column(pl.Series("t", rows, dtype=pl.String), steps)
    assert column.to_list() == [None if row is None else text.normalize(row, steps) for row in rows]


# --- vocabulary


@given(st.lists(st.none() | any_text, max_size=6))
def test_vocabulary_counts_every_character(rows):
    found = text.vocabulary(rows)
    joined = "".join(row or "" for row in rows)
    assert found.counts == {c: joined.count(c) for c in sorted(set(joined))}
    assert list(found.ids.values()) == list(range(len(found.ids)))
    assert set(found.ids) == {"|", "[UNK]", "[PAD]"} | (set(joined) - {" "})
    assert json.loads(json.dumps(found.to_json())) == found.ids
    fine = ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Mn", "Mc", "Me")
    odd = {
        c
        for c in joined
        if c != " " and (unicodedata.category(c) not in fine or "\u0300" <= c <= "\u036f")
    }
    assert set(found.odd["character"]) == odd
    for row in found.odd.iter_rows(named=True):
        assert row["character"] in rows[int(row["example"])]
        assert row["count"] == joined.count(row["character"])


def test_odd_characters_are_listed_with_name_count_and_example():
    found = text.vocabulary(pl.Series(["ne", "da – da", "„da“ – a|b"]), segment_ids=["x", "y", "z"])
    assert found.odd.rows() == [
        ("–", "U+2013", "EN DASH", 2, "y"),
        ("|", "U+007C", "VERTICAL LINE", 1, "z"),
        ("“", "U+201C", "LEFT DOUBLE QUOTATION MARK", 1, "z"),
        ("„", "U+201E", "DOUBLE LOW-9 QUOTATION MARK", 1, "z"),
    ]
    assert found.ids["|"] == 0
    assert " " not in found.ids
    with pytest.raises(InputError, match="1 ids for 2 texts"):
        text.vocabulary(["a", "b"], segment_ids=["x"])


# --- the step


@pytest.fixture
def workspace(tmp_path):
    made = Workspace.create(tmp_path / "w")
    segments = pl.DataFrame(
        {
            "segment_id": ["c", "a", "b"],
            "extra": [1, 2, 3],
            "text": ["Evo, blic –", "", "Dobar dan."],
            "asr_text": ["evo blic", "da", None],
        }
    )
    made.save(segments=segments)
    return made


def test_score_writes_its_measures_and_keeps_other_columns(workspace):
    before = workspace.segments
    report = score(workspace)
    after = workspace.segments
    assert after.columns == [*before.columns, "spoken_similarity", "spoken_wer", "spoken_cer"]
    assert_frame_equal(
        after.select(before.columns).drop("similarity", "wer", "cer"),
        before.drop("similarity", "wer", "cer"),
    )
    assert after["similarity"].to_list() == [text.similarity("Evo, blic –", "evo blic"), -1.0, None]
    assert after["wer"].to_list() == [2 / 3, 1.0, None]
    assert report.facts["segments"] == 3
    assert report.facts["scored"] == 2
    assert report.facts["without_hypothesis"] == 1
    assert report.facts["above_0_8"] == 0
    # Two of three words, and one inserted where there are none.
    assert report.facts["word_error_rate"] == 1.0
    assert report.facts["odd_characters"] == ["comma , 1", "full stop . 1", "en dash – 1"]
    assert workspace.report("score") == report.to_dict()
    assert not report.warnings


def test_score_keeps_the_texts_and_stores_their_normal_forms(workspace):
    before = workspace.segments
    report = score(workspace, normalize=text.DEFAULT_STEPS)
    after = workspace.segments
    assert_frame_equal(
        after.select(before.columns).drop("similarity", "wer", "cer"),
        before.drop("similarity", "wer", "cer"),
    )
    assert after["text_normalized"].to_list() == ["evo blic", "", "dobar dan"]
    assert after["asr_text_normalized"].to_list() == ["evo blic", "da", None]
    assert after["similarity"].to_list() == [1.0, -1.0, None]
    assert report.facts["odd_characters"] == []
    tables = (workspace.path / "segments.parquet").read_bytes()
    with pytest.raises(InputError, match="'upper'"):
        score(workspace, normalize=["upper"])
    assert (workspace.path / "segments.parquet").read_bytes() == tables


any_steps = st.lists(st.sampled_from(sorted(text.NORMALIZERS)), max_size=4)


@pytest.mark.slow
@given(st.lists(any_steps, min_size=1, max_size=3))
@settings(max_examples=30, deadline=None)
def test_repeated_scoring_equals_the_last_scoring_alone(tmp_path_factory, several):
    rows = {
        "segment_id": ["a", "b"],
        "text": ["Dvadeset – „Č”", None],
        "text_raw": ["20", None],
        "asr_text": ["20 č", "Da."],
    }
    often, once = (Workspace.create(tmp_path_factory.mktemp("w")) for _ in range(2))
    for workspace in (often, once):
        workspace.save(segments=pl.DataFrame(rows))
    for steps in several:
        score(often, normalize=steps)
    score(once, normalize=several[-1])
    assert_frame_equal(often.segments, once.segments, check_column_order=False)
    assert often.segments.select(*rows).to_dict(as_series=False) == rows


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"asr_text": [None, None, None]},
            "no segment has a hypothesis (asr_text): nothing was scored; "
            "join one with 'nbaudio join --hypothesis', or make one with 'nbaudio recognize'",
        ),
        (
            {"asr_text": [None, None, None], "asr_text_large": ["evo", None, None]},
            "no segment has a hypothesis (asr_text): nothing was scored; there are others: "
            "--hypothesis large",
        ),
        (
            {"text": [None, None, None]},
            "no segment has a transcript (text): nothing was scored; join one with 'nbaudio join "
            "--text', and name it by --text",
        ),
        (
            {"text": ["evo", None, None], "asr_text": [None, "da", None]},
            "no segment has both a transcript (text) and a hypothesis (asr_text): "
            "nothing was scored",
        ),
    ],
    ids=["no hypothesis", "another hypothesis", "no transcript", "never both"],
)
def test_nothing_that_can_be_scored_is_a_problem_that_names_the_remedy(workspace, columns, said):
    workspace.save(
        segments=workspace.segments.with_columns(
            pl.Series(name, values, dtype=pl.String) for name, values in columns.items()
        )
    )
    done = CliRunner().invoke(app, ["score", str(workspace.path), "--json"])
    report = json.loads(done.stdout)
    assert (done.exit_code, report["problems"], report["warnings"]) == (1, [said], [])
    assert report["facts"]["scored"] == 0
    assert report["facts"]["mean_similarity"] is None
    assert report["facts"]["word_error_rate"] is None
    assert workspace.segments["similarity"].to_list() == [None] * 3
    # `nbaudio run` exits with 1 for problems in the reports of steps; a corpus without hypotheses
    # is none.
    stored = workspace.report("score")
    assert (stored["problems"], stored["warnings"]) == ([], [said])


def test_one_of_several_hypotheses_that_nothing_is_scored_of_is_a_problem(workspace):
    heard = pl.DataFrame({"segment_id": ["a"], "text": [""]})
    nbaudio.join(workspace, heard, hypothesis="large")
    workspace.save(segments=workspace.segments.with_columns(asr_text=pl.lit(None, pl.String)))
    report = score(workspace, hypothesis=["asr", "large"])
    assert report.facts["large"]["scored"] == 1
    [problem] = report.problems
    assert problem.startswith("no segment has a hypothesis (asr_text): nothing was scored")


def test_a_hypothesis_that_is_named_twice_is_scored_once(workspace):
    report = score(workspace, hypothesis=["asr", "asr"])
    assert report.to_dict() == score(workspace).to_dict()


def test_score_refuses_a_folder_that_is_no_workspace(tmp_path):
    with pytest.raises(InputError, match="not a workspace"):
        score(tmp_path)
