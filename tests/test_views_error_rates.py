"""Error rates of hypotheses, their intervals and differences, and the accuracy of words."""

import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from nbaudio import text
from nbaudio.core.errors import InputError
from nbaudio.core.progress import listen_to_progress
from nbaudio.corpus.materialize import materialize
from nbaudio.proof.rate_intervals import clustered_rates
from nbaudio.tables import parquet_files, workspace_tables
from nbaudio.tables.workspace import Workspace
from nbaudio.text.score import score
from nbaudio.ui import views

WORDS = ["da", "ne", "evo", "blic", "sabor"]


def table(speakers, errors, size=10, **columns):
    """A segment of `size` words for each speaker, with so many wrong words in the hypothesis."""
    n = len(speakers)
    texts = [" ".join(WORDS[(i + j) % 5] for j in range(size)) for i in range(n)]
    heard = [
        " ".join(["krivo"] * wrong + said.split()[wrong:])
        for said, wrong in zip(texts, errors, strict=True)
    ]
    facts = {
        "segment_id": [f"s{i}" for i in range(n)],
        "recording_id": [f"r{i}" for i in range(n)],
        "speaker_id": speakers,
    }
    return pl.DataFrame(
        {
            **facts,
            "duration_s": [1.0 + i for i in range(n)],
            "split": "test",
            "text": texts,
            "asr_text": heard,
            **columns,
        }
    )


def jackknife(errors, words):
    """Ratio, standard error and degrees of freedom by their definitions, with matrices, as the docs
    state them."""
    errors, words = np.array(errors, float), np.array(words, float)
    ratio, count = errors.sum() / words.sum(), len(errors)
    without = (errors.sum() - errors) / (words.sum() - words)
    variance = (count - 1) / count * ((without - ratio) ** 2).sum()
    h = words / words.sum()
    terms = np.diag(1 / (1 - h)) @ (np.eye(count) - np.outer(h, np.ones(count)))
    covariance = terms @ np.diag(h**2) @ terms.T
    return ratio, variance**0.5, np.trace(covariance) ** 2 / np.trace(covariance @ covariance)


@pytest.mark.parametrize(
    ("speakers", "errors"),
    [("aabbc", [1, 2, 0, 4, 3]), ("aaaabc", [0, 5, 2, 1, 9, 1]), ("abc", [1, 2, 3])],
)
def test_the_interval_is_that_of_the_jackknife_over_speakers(speakers, errors):
    found = views.error_rates(table(list(speakers), errors)).row(0, named=True)
    clusters = sorted(set(speakers))
    sums = [
        sum(wrong for one, wrong in zip(speakers, errors, strict=True) if one == name)
        for name in clusters
    ]
    ratio, error, freedom = jackknife(sums, [10 * speakers.count(name) for name in clusters])
    half = stats.t.ppf(0.975, freedom) * error
    assert found["wer"] == pytest.approx(ratio)
    assert found["wer_low"] == pytest.approx(max(0, ratio - half))
    assert found["wer_high"] == pytest.approx(ratio + half)
    assert (found["segments"], found["words"]) == (len(speakers), 10 * len(speakers))


def test_speakers_of_equal_size_give_the_textbook_interval_of_a_mean():
    errors = [1, 2, 3, 6]
    found = views.error_rates(table(list("abcd"), errors), confidence=0.9).row(0, named=True)
    low, high = stats.t.interval(0.9, 3, loc=0.3, scale=stats.sem(np.array(errors) / 10))
    assert (found["wer_low"], found["wer_high"]) == (
        pytest.approx(max(0, low)),
        pytest.approx(high),
    )


def test_error_rates_equal_those_of_the_concatenated_text():
    frame = table(list("aabb"), [1, 2, 3, 4])
    found = views.error_rates(frame).row(0, named=True)
    whole = [" ".join(frame[name]) for name in ("text", "asr_text")]
    assert found["wer"] == pytest.approx(text.wer(*whole))
    counts = [
        (text.cer(a, b) * len(a), len(a)) for a, b in frame.select("text", "asr_text").iter_rows()
    ]
    assert found["cer"] == pytest.approx(
        sum(edits for edits, _ in counts) / sum(length for _, length in counts)
    )


def test_one_cluster_has_no_interval_and_a_speaker_is_clustered_by_recording_then_segment():
    frame = table(["a"] * 4, [1, 2, 3, 6])
    by_recording = views.error_rates(frame, by="speaker_id").row(0, named=True)
    by_segment = views.error_rates(frame.with_columns(recording_id=pl.lit("r"))).row(0, named=True)
    assert by_recording["wer_low"] == by_segment["wer_low"] is not None
    single = views.error_rates(frame.head(1)).row(0, named=True)
    assert (single["wer"], single["wer_low"], single["wer_high"], single["cer_low"]) == (
        0.1,
        None,
        None,
        None,
    )


def test_the_difference_is_paired_over_segments_that_have_both():
    errors, better = [4, 5, 6, 7], [3, 4, 5, 6]
    big = table(list("abcd"), better)["asr_text"]
    frame = table(list("abcd"), errors, asr_text_big=big)
    asr, found = views.error_rates(frame).iter_rows(named=True)
    assert (asr["hypothesis"], asr["wer_difference"]) == ("asr", None)
    assert found["wer_difference"] == pytest.approx(-0.1)
    # Each speaker improves by as much: no variance, though the rates themselves vary.
    assert found["wer_difference_low"] == pytest.approx(found["wer_difference_high"])
    assert found["wer_high"] - found["wer_low"] > 0.2
    half = views.error_rates(
        frame.with_columns(asr_text=pl.when(pl.col("speaker_id") > "b").then("asr_text"))
    )
    assert half["segments"].to_list() == [2, 4]
    assert half["wer_difference"][1] == pytest.approx(-0.1)
    assert "wer_difference" not in views.error_rates(frame, ["big"]).columns


def test_groups_of_error_rates_are_in_their_natural_order():
    frame = table(["a", "b", None, "b"], [0, 2, 9, 4]).with_columns(
        duration_s=pl.Series([25.0, 1.9, 2.0, None]),
        split=pl.Series(["test", "train", None, "dev"]),
    )
    assert views.error_rates(frame, by="split")["group"].to_list() == [
        "train",
        "dev",
        "test",
        "out",
    ]
    assert views.error_rates(frame, by="duration")["group"].to_list() == [
        "0-2 s",
        "2-5 s",
        "20+ s",
        "not known",
    ]
    assert views.error_rates(frame, by="speaker_id").select("group", "wer").rows() == [
        ("not known", 0.9),
        ("b", 0.3),
        ("a", 0.0),
    ]
    assert views.error_rates(frame, where="split = 'dev'").select("segments", "wer").rows() == [
        (1, 0.4)
    ]
    assert views.error_rates(frame, where="split = 'x'").is_empty()


def test_error_rates_of_empty_texts_are_null():
    frame = table(["a", "b"], [0, 0]).with_columns(
        text=pl.Series(["", None]), asr_text=pl.Series(["da ne", "x"])
    )
    found = views.error_rates(frame).row(0, named=True)
    assert (found["segments"], found["words"], found["wer"], found["wer_low"]) == (1, 0, None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hypotheses": ["big"]}, "hypothesis 'big' is unknown; known are asr$"),
        (
            {"by": "text"},
            "by='text' is unknown; known are split, speaker_id, recording_id, duration and None",
        ),
        ({"text": "text_raw"}, "text='text_raw' is no column of text; columns are segment_id, "),
        ({"where": "spliit = 'dev'"}, "there is no column spliit; did you mean split"),
        ({"confidence": 1.0}, "confidence=1.0: must be above 0 and below 1"),
    ],
)
def test_invalid_options_of_error_rates_are_refused_in_one_line(options, message):
    with pytest.raises(InputError, match=message) as caught:
        views.error_rates(table(["a"], [1]), **options)
    assert "\n" not in str(caught.value)


def test_a_workspace_and_its_corpus_give_the_same(make_workspace, tmp_path):
    workspace = make_workspace({"a.wav": (30.0, 16000)}, channels=1)
    segments = workspace.segments
    workspace.save(
        segments=segments.with_columns(
            asr_text_big=pl.col("text") + " a", asr_text=pl.col("text").str.to_uppercase()
        )
    )
    materialize(workspace, out=tmp_path / "c", jobs=1, engine="threading", show_progress=False)
    found = views.error_rates(workspace, by="split")
    assert found["hypothesis"].unique().sort().to_list() == ["asr", "big"]
    assert views.error_rates(tmp_path / "c", by="split").equals(found)
    both = [views.words(each, "big").drop("examples") for each in (workspace, tmp_path / "c")]
    assert both[0].equals(both[1])
    # As `score` compares them.
    score(workspace, normalize=["lower"])
    assert views.error_rates(workspace, ["asr"])["wer"].to_list() == [0.0]


def simulated(count, sizes, rng):
    """Sums of speakers: rates of speakers from a beta distribution of mean 0.15 and deviation 0.1,
    errors that come in bursts."""
    words = 2000 * np.exp(rng.normal(0, sizes, count)) if sizes else np.full(count, 2000.0)
    words = np.maximum(words.round(), 20)
    rates = rng.beta(1.7625, 9.9875, count)
    return rng.negative_binomial(words * rates / 2, 1 / 3), words


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "sizes", "least"), [(8, 0.0, 0.91), (8, 1.0, 0.94), (8, 1.5, 0.94), (20, 1.0, 0.94)]
)
def test_intervals_of_few_unequal_speakers_hold_the_true_rate(count, sizes, least):
    rng, runs = np.random.default_rng(42), 1000
    drawn = [simulated(count, sizes, rng) for _ in range(runs)]
    held = taylor = 0
    for errors, words in drawn:
        ratio, error, freedom = jackknife(errors, words)
        held += abs(ratio - 0.15) <= stats.t.ppf(0.975, freedom) * error
        linear = count / (count - 1) * ((errors - ratio * words) ** 2).sum() / words.sum() ** 2
        taylor += abs(ratio - 0.15) <= stats.t.ppf(0.975, count - 1) * linear**0.5
    assert held / runs >= least
    assert held >= taylor


# words


def test_words_are_counted_by_position_with_erroneous_examples_first():
    frame = pl.DataFrame(
        {
            "segment_id": list("abcd"),
            "duration_s": 1.0,
            "text": ["Da, da!", "da ne", "– evo i/ili", "evo"],
            "asr_text": ["da da", "ne ne", "evo ili", None],
        }
    )
    found = views.words(frame)
    assert found.rows() == [
        ("da", 3, 2, pytest.approx(2 / 3), 2, ["b", "a"]),
        ("evo", 1, 1, 1.0, 1, ["c"]),
        ("i", 1, 0, 0.0, 1, ["c"]),
        ("ili", 1, 1, 1.0, 1, ["c"]),
        ("ne", 1, 1, 1.0, 1, ["b"]),
    ]
    assert views.words(frame, where="segment_id = 'd'").is_empty()
    with pytest.raises(InputError, match="hypothesis 'big' is unknown; known are asr"):
        views.words(frame, "big")


@pytest.mark.slow
@given(st.lists(st.tuples(*[st.text(alphabet="ab .'-\t", max_size=14)] * 2), max_size=8))
def test_words_are_those_of_the_word_diff(pairs):
    frame = pl.DataFrame(
        {"segment_id": [str(i) for i in range(len(pairs))], "duration_s": 1.0}
        | {
            name: pl.Series([pair[side] for pair in pairs], dtype=pl.String)
            for side, name in enumerate(("text", "asr_text"))
        }
    )
    said, right = Counter(), Counter()
    for pair in pairs:
        sides = [text.normalize(each) for each in pair]
        for part in text.word_diff(*sides):
            said.update(part.reference)
            right.update(part.reference if part.kind == "equal" else ())
    found = views.words(frame)
    assert dict(found.select("word", "count").iter_rows()) == said
    assert {
        word: count for word, count in found.select("word", "right").iter_rows() if count
    } == right


def plain_words(frame):
    """The table of words in plain Python: occurrences with an error first, then the others; the
    first three segments among the first twelve occurrences."""
    wrong, right = {}, {}
    for segment_id, *pair in frame.select("segment_id", "text", "asr_text").drop_nulls().rows():
        for part in text.word_diff(*map(text.normalize, pair)):
            for word in part.reference:
                (right if part.kind == "equal" else wrong).setdefault(word, []).append(segment_id)
    rows = []
    for word in wrong.keys() | right.keys():
        places = [*wrong.get(word, []), *right.get(word, [])]
        hits = len(right.get(word, []))
        examples = list(dict.fromkeys(places[:12]))[:3]
        rows.append((word, len(places), hits, hits / len(places), len({*places}), examples))
    return sorted(rows, key=lambda row: (-row[1], row[0]))


@given(
    st.lists(st.tuples(*[st.none() | st.text("ab .-'–éשl\u0301\u05b8 ", max_size=16)] * 2)),
    st.integers(1, 4),
)
@pytest.mark.slow
def test_words_do_not_depend_on_how_many_segments_are_read_at_once(pairs, rows):
    ids = {"segment_id": [f"s{i}" for i in range(len(pairs))], "duration_s": 1.0}
    texts = zip(*pairs, strict=True) if pairs else ((), ())
    columns = dict(zip(("text", "asr_text"), map(list, texts), strict=True))
    frame = pl.DataFrame(ids | columns, {"text": pl.String, "asr_text": pl.String} | SCHEMA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "_WORD_ROWS", rows)
        assert views.words(frame).rows() == plain_words(frame)


SCHEMA = {"segment_id": pl.String, "duration_s": pl.Float64}
LARGE = 20_000  # segments, of which the words are kept


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """A workspace that is large enough to keep its words, and these."""
    workspace = Workspace.create(tmp_path_factory.mktemp("large"))
    numbers = range(LARGE)
    workspace.save(
        recordings=pl.DataFrame({"recording_id": ["r"]}),
        segments=pl.DataFrame(
            {
                "segment_id": [f"s{i}" for i in numbers],
                "recording_id": "r",
                "text": [f"{WORDS[i % 5]} {i // 4}" for i in numbers],
                "asr_text": [f"{WORDS[i % 3]} {i // 4}" for i in numbers],
            }
        ),
    )
    return workspace, views.words(workspace)


def kept_words(workspace):
    """The files of words that a workspace keeps."""
    return sorted((workspace.path / ".words").glob("*"))


@pytest.fixture
def large(counted, tmp_path):
    """A copy of the workspace."""
    shutil.copytree(counted[0].path, tmp_path / "w")
    return Workspace.open(tmp_path / "w")


def test_word_counts_of_a_large_workspace_are_cached_until_a_text_changes(counted, large):
    assert views.words(large).equals(counted[1])
    [first] = kept_words(large)
    # What is kept is what is returned.
    marked = counted[1].with_columns(pl.col("count") + 1)
    workspace_tables.write(first.parent, marked, table=first.stem)
    assert views.words(large).equals(marked)
    # As long as before
    other = pl.when(pl.col("segment_id") == "s7").then(pl.lit("ovo 1")).otherwise("text")
    large.save(segments=large.segments.with_columns(text=other))
    changed = views.words(large)
    assert changed.equals(views.words(views.segments(large)))
    assert "ovo" in changed["word"]
    [second] = kept_words(large)
    assert second != first


def test_word_counts_are_cached_by_hypothesis_and_condition(large):
    large.save(segments=large.segments.with_columns(asr_text_big=pl.col("text")))
    assert views.words(large, "big")["accuracy"].min() == 1
    assert len(kept_words(large)) == 2
    for number in range(9):
        views.words(large, where=f"duration_s is null or duration_s > {number}")
    assert len(kept_words(large)) == 8


def test_word_counts_of_few_segments_are_not_cached(large):
    views.words(large, where="segment_id <> 's1'")
    assert len(kept_words(large)) == 1


def test_a_damaged_cache_of_word_counts_is_replaced(counted, large):
    [path] = kept_words(large)
    path.write_bytes(path.read_bytes()[:1000])
    assert views.words(large).equals(counted[1])
    assert parquet_files.read_parquet(path).equals(counted[1])
    workspace_tables.write(path.parent, counted[1].drop("examples"), table=path.stem)
    assert views.words(large).equals(counted[1])


def test_words_are_counted_if_the_workspace_is_not_writable(counted, large):
    shutil.rmtree(large.path / ".words")
    (large.path / ".words").write_text("not a folder")
    assert views.words(large).equals(counted[1])
    assert (large.path / ".words").read_text() == "not a folder"


def test_words_can_be_counted_by_several_threads_at_once(counted, large):
    shutil.rmtree(large.path / ".words")
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda _: views.words(large), range(3)))
    assert all(words.equals(counted[1]) for words in results)
    assert len(kept_words(large)) == 1


class Watcher:
    """Collects stages with their totals, and what they advanced by."""

    def __init__(self):
        self.stages, self.advanced = [], 0

    def stage(self, what, total, unit):
        self.stages.append((what, total, unit))

    def advance(self, amount):
        self.advanced += amount


@pytest.mark.parametrize(
    ("view", "what"), [(views.words, "count words"), (views.error_rates, "error rates")]
)
def test_progress_is_shown_for_many_segments(view, what, capsys, monkeypatch):
    frame = table(list("abcd") * 25, [1, 2, 3, 4] * 25)
    with listen_to_progress(watcher := Watcher()):
        view(frame)
    assert watcher.stages == [(what, 100, "segments")]
    assert watcher.advanced == 100
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(views, "_MANY_SEGMENTS", 99)
    view(frame)
    assert f"{what}" in capsys.readouterr().err


def test_without_a_hypothesis_error_rates_are_an_empty_table():
    frame = table(["a"], [1]).with_columns(group=pl.lit("all"), cluster=pl.lit("a"))
    assert clustered_rates([frame], "text", {}, 0.95).is_empty()
    assert views.error_rates(frame.drop("asr_text")).is_empty()


def test_a_segment_that_ends_before_it_starts_has_no_band_of_durations():
    found = views.error_rates(table(["a", "b"], [1, 2], duration_s=[-1.0, 3.0]), by="duration")
    assert found["group"].to_list() == ["2-5 s", "not known"]
