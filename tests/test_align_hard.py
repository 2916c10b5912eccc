"""Hard input of align: odd texts, odd times, partial truths; nothing is forced, nothing is lost,
nothing takes long."""

import json
import re
import unicodedata
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sittings import Sitting, lexicon, make_sitting
from test_align import judge, run, seconds, write

from nbaudio.core.errors import InputError
from nbaudio.formats.documents import Document, Utterance
from nbaudio.formats.timed_words import TimedWords
from nbaudio.sources.align_task import Item, Task, align_recording
from nbaudio.sources.pairing import pair
from nbaudio.text.segmentation import Heard, Typed, cut_segments
from nbaudio.text.word_pairs import WordPairs, pair_words


def random_words(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    words, frequency = lexicon(rng)
    return [words[number] for number in rng.choice(len(words), count, p=frequency)]


def align_one(
    heard: TimedWords, documents: list[Document], shortest: float = 2, longest: float = 20
) -> pl.DataFrame:
    """Align a recording with documents, whose files are called by their numbers."""
    items = tuple(
        Item(str(number), str(number), Path("absent"), each)
        for number, each in enumerate(documents)
    )
    return align_recording(
        Task(0, Item("r", "r", Path("absent"), heard), items, shortest, longest)
    )[1]


def document(lines: list[str], speakers: list[str | None] | None = None) -> Document:
    starts = np.cumsum([0, *(len(line) + 1 for line in lines)]).tolist()
    who = speakers or [None] * len(lines)
    spans = [
        Utterance(start, start + len(line), each)
        for line, start, each in zip(lines, starts, who, strict=False)
    ]
    return Document(None, "\n".join(lines), spans)


# what holds for all input


def check(
    heard: TimedWords,
    documents: list[Document],
    rows: pl.DataFrame,
    shortest: float,
    longest: float,
) -> None:
    """Check what holds of all results: words are in one place each, boundaries in silence,
    characters those of the document."""
    segments = rows.filter(kind="segment")
    times = sorted(map(tuple, seconds(segments).tolist()))
    assert all(end <= start for (_, end), (start, _) in pairwise(times))
    for start, end in times:
        assert start >= 0
        assert shortest - 1e-5 <= end - start <= longest + 1e-5
        for edge in (start, end):
            assert not ((heard.starts < edge - 1e-5) & (edge + 1e-5 < heard.ends)).any()
    typed = rows.filter(pl.col("kind").is_in(["segment", "text"]))
    for number, each in enumerate(documents):
        own = typed.filter(document=str(number)).sort("document_start")
        spans = own.select("document_start", "document_end").rows()
        labels = own.filter(kind="segment").select("document_start", "document_end").rows()
        unspoken = [
            (start, end)
            for start, end in own.filter(kind="text")
            .select("document_start", "document_end")
            .rows()
            if any(first < start and end < last for first, last in labels)
        ]
        apart = [span for span in spans if span not in unspoken]
        assert all(end <= start for (_, end), (start, _) in pairwise(apart))
        assert [each.text[start:end] for start, end in spans] == own.select(
            pl.coalesce("text_raw", "text")
        ).to_series().to_list()
        words = [
            found.span()
            for found in re.finditer(r"\S+", each.text)
            if re.search(r"[^\W_]", found[0])
        ]
        assert all(
            sum(one <= start and end <= other for one, other in apart) == 1 for start, end in words
        )
        check_labels(each.text, own.filter(kind="segment"), unspoken)
    said = [*segments["asr_text"], *rows.filter(kind="audio")["text"]]
    assert sorted(re.findall(r"\w+", " ".join(said))) == sorted(
        re.findall(r"\w+", " ".join(heard.words))
    )
    for text, start, end, own in segments.select(
        "text", "source_start", "source_end", "word_times"
    ).iter_rows():
        edges = np.array([(word["start"], word["end"]) for word in own])
        assert len(edges) == len(text.split())
        assert (np.diff(edges[:, 0]) >= -1e-9).all()
        assert (edges[:, 1] >= edges[:, 0] - 1e-9).all()
        assert edges.min() >= -1e-5
        length = float(end) - float(start)
        assert edges.max() <= length + 1e-5 + 1e-6 * length  # word times are 32-bit floats


def check_labels(text: str, segments: pl.DataFrame, unspoken: list[tuple[int, int]]) -> None:
    """Check that labels have the words of their characters, without unspoken ones."""
    for label, start, end in segments.select("text", "document_start", "document_end").rows():
        spoken = text[start:end]
        for first, last in sorted(unspoken, reverse=True):
            if start < first and last < end:
                spoken = spoken[: first - start] + spoken[last - start :]
        assert re.findall(r"\w+", label) == re.findall(r"\w+", spoken)


def odd_times(rng: np.random.Generator, kind: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    lengths = rng.choice([0.1, 0.25, 0.3, 1.0], count) if kind != "micro" else rng.random(count) / 3
    starts = np.cumsum(lengths + rng.choice([0, 0, 0, 0.5, 2], count)) - lengths
    if kind == "zero":
        lengths[rng.random(count) < 0.5] = 0
    elif kind == "same":
        starts[:], lengths[:] = 3.0, 0
    elif kind == "gaps":
        starts += np.cumsum(rng.choice([0, 0, 0, 0, 7200.0], count)) + 1e5
    elif kind == "overlap":
        starts = np.maximum(0, starts - rng.random(count) / 2)
        lengths += rng.random(count) * 3 * (rng.random(count) < 0.3)
    elif kind == "disorder":
        late = rng.random(count) < 0.2
        starts[late] = rng.random(int(late.sum())) * starts.max()
    order = np.argsort(starts, kind="stable")
    return starts[order], (starts + lengths)[order]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.integers(0, 10**9),
    st.sampled_from(["plain", "micro", "zero", "same", "gaps", "overlap", "disorder"]),
    st.sampled_from([3, 30, 300]),
    st.sampled_from([(2, 20), (0.5, 5), (1e-9, 1e9), (3, 3.0001)]),
)
@pytest.mark.slow
def test_each_word_is_in_one_segment_and_no_boundary_cuts_a_word(seed, kind, vocabulary, durations):
    rng = np.random.default_rng(seed)
    known = lexicon(rng, vocabulary)[0]
    spoken = [known[number] for number in rng.integers(0, vocabulary, int(rng.integers(1, 150)))]
    marks = ["–", "...", "♪"]
    words = [
        word if rng.random() < 0.85 else str(rng.choice([*marks, *known[:5]]))
        for word in spoken
        if rng.random() > 0.1
    ]
    heard = TimedWords("r", words, *odd_times(rng, kind, len(words)))
    documents = []
    for part in (
        np.array_split(spoken, int(rng.integers(1, 4))) if rng.random() < 0.7 else [spoken, spoken]
    ):
        shapes = ["{}", "{}", "{}", "{}", "{}.", "{} .", "– {}", "«{}»", "{}\n", "{} !\n", known[0]]
        text = " ".join(str(rng.choice(shapes)).format(word) for word in [*part, "z"])
        lines = [line.strip() for line in text.split("\n") if re.search(r"\w", line)]
        documents.append(document(lines, [*rng.choice(["A", "B"], len(lines))]))
    rng.shuffle(documents)
    check(heard, documents, align_one(heard, documents, *durations), *durations)


def test_no_segment_holds_words_that_are_in_another_one():
    words = random_words(30)
    start = np.arange(30) * 1.0
    # What is typed last was said in between.
    left, right = (
        np.arange(30),
        np.concatenate((np.arange(12), np.arange(15, 30), np.arange(12, 15))),
    )
    typed = Typed(
        [words[number] for number in right], np.zeros(30, np.bool_), np.zeros(30, np.int64)
    )
    found = cut_segments(
        WordPairs(left, right, np.ones(30, np.float32)),
        typed,
        Heard(words, start, start + 0.5),
        shortest=2,
        longest=20,
    )
    spans = sorted(map(tuple, found.heard.tolist()))
    assert len(spans) > 2
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_no_segment_ends_in_a_word_that_began_before_its_last_word():
    words = random_words(12)
    start = np.arange(12) * 0.5
    end = start + 0.3
    start[6:] += 3
    end[6:] += 3
    end[4] = 4.5  # while the next word is from 2.5 to 2.8
    pairs = WordPairs(np.arange(12), np.arange(12), np.ones(12, np.float32))
    typed = Typed(words, np.arange(12) == 5, np.zeros(12, np.int64))
    found = cut_segments(pairs, typed, Heard(words, start, end), shortest=1, longest=4)
    assert len(found.seconds)
    for edge in found.seconds.ravel():
        assert not ((start < edge) & (edge < end)).any()


def test_an_empty_word_in_the_hypothesis_changes_no_pair():
    words = random_words(30, 5)
    words[15] = "sjednicama"
    heard = [*words[:15], "sjednicame", *words[16:]]
    expected = pair_words(words, heard)
    found = pair_words(words, [*heard, ""])
    assert expected.left.tolist() == list(range(30))
    assert found.left.tolist() == expected.left.tolist()
    assert found.probability == pytest.approx(expected.probability, abs=0.01)


# odd texts


CHANGES = {
    "zero width": lambda text: text.replace(" ", " \u200b"),
    "direction marks": lambda text: re.sub(r"(\w+)", "\u200f\\1", text),
    "soft hyphens": lambda text: re.sub(r"(\w\w)(\w)", "\\1\u00ad\\2", text),
    "decomposed": lambda text: text.replace("č", "c\u030c").replace("š", "s\u030c"),
    "ligatures": lambda text: text.replace("ti", "\ufb01"),
    "marks apart": lambda text: re.sub(r"(\w+)([.])", r"\1 \2", text),
    "marks and dashes apart": lambda text: re.sub(r"(\w+) (\w+)[.]", r"– \1 – \2 !", text),
    "no-break spaces": lambda text: text.replace(" ", "\u00a0"),
    "line ends": lambda text: text.replace(" ", "\r\n"),
}


@pytest.fixture(scope="module")
def plain_segments(tmp_path_factory):
    return run(write(tmp_path_factory.mktemp("plain"), make_sitting(50, 30, errors=0.03)))[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_punctuation_and_typography_do_not_change_the_alignment(tmp_path, plain_segments, name):
    sitting, expected = make_sitting(50, 30, errors=0.03), plain_segments
    sitting.heard = (
        [word.replace("ti", "fi") for word in sitting.heard]
        if name == "ligatures"
        else sitting.heard
    )
    text = CHANGES[name](sitting.text)
    folder = write(tmp_path, sitting)
    (folder / "t" / "day 1.txt").write_bytes(text.encode())
    _, segments, _ = run(folder)
    assert len(segments) >= 5
    if name != "ligatures":
        assert segments.select("source_start", "source_end").equals(
            expected.select("source_start", "source_end")
        )
    plain = text.replace("\r\n", "\n")
    for start, end, said in segments.select("document_start", "document_end", "text").iter_rows():
        assert " ".join(unicodedata.normalize("NFC", plain[start:end]).split()) == said
    whole = segments["text"].str.contains(r"[.!]$").mean()
    assert whole == expected["text"].str.contains(r"[.!]$").mean()
    assert (
        segments["word_times"].list.len().to_list()
        == segments["text"].str.split(" ").list.len().to_list()
    )


@pytest.mark.parametrize(
    "label", ["PREDSJEDNIK HORVAT: {}", "HORVAT, IVAN (KLUB)\n{}", "[00:01:12] {}", "(Pljesak.) {}"]
)
def test_unspoken_names_and_remarks_are_in_no_segment(tmp_path, label):
    sitting = make_sitting(51, 40, not_spoken=0)
    folder = write(tmp_path, sitting)
    lines = [
        label.format(line) if number % 3 == 0 else line for number, line in enumerate(sitting.lines)
    ]
    (folder / "t" / "day 1.txt").write_text("\n".join(lines), "utf8")
    _, segments, unmatched = run(folder)
    word = re.search(r"[A-Z]{5,}|\d\d:\d\d|Pljesak", label)[0]
    assert len(segments) > 10
    assert not segments["text"].str.contains(word).any()
    assert unmatched["text"].str.contains(word).any()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("主席先生各位委員" * 200, "no blanks separate its words (Cjk), which is not supported"),
        ("один два три " * 200, "the transcript is in Cyrillic, the hypothesis in Latin: trans"),
        ("!!! ... ???\na", "is this the transcript of this recording?"),
    ],
)
def test_texts_without_a_word_in_common_give_no_segment(tmp_path, text, reason):
    folder = write(tmp_path, make_sitting(52, 20))
    (folder / "t" / "day 1.txt").write_text(text, "utf8")
    report, segments, _ = run(folder)
    assert segments.is_empty()
    assert reason in report.problems[0]


@pytest.mark.parametrize("words", [[], ["..."], ["–", "?", "–"], ["a"], ["♪"]])
def test_hypotheses_of_very_few_words_are_aligned_without_errors(words):
    heard = TimedWords("r", words, np.arange(len(words)) * 1.0, np.arange(len(words)) + 0.5)
    rows = align_one(heard, [document(["a"])], 0.1, 5)
    assert set(rows["kind"]) >= {"text", "unmatched"}


# partial truths


@pytest.mark.parametrize("period", [3, 20])
def test_phrases_repeated_by_a_recognizer_cause_no_wrong_edges(tmp_path, period):
    sitting = make_sitting(3, 100, errors=0.05)
    heard, times, until = [], [], -1.0
    for number, (word, (start, end)) in enumerate(
        zip(sitting.heard, sitting.heard_times.tolist(), strict=True)
    ):
        if start < until:
            continue
        heard.append(word)
        times.append((start, end))
        # 15 s of a phrase that was just said, in place of what was said then
        if number % 150 == 100:
            until = end + 15
            heard += [sitting.heard[number - period + 1 + repeat % period] for repeat in range(50)]
            times += [(end + 0.3 * repeat, end + 0.3 * repeat + 0.3) for repeat in range(50)]
    sitting.heard, sitting.heard_times = heard, np.array(times)
    _, segments, _ = run(write(tmp_path, sitting))
    found, wrong = judge(sitting, segments)
    assert found > 0.65
    assert wrong <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize(
    "made",
    [{"errors": 0.4}, {"not_spoken": 4, "not_typed": 0.5}, {"not_typed": 0.9}],
    ids=["40 % errors", "90 % not spoken", "90 % not typed"],
)
def test_text_without_a_spoken_counterpart_stays_out_of_segments(tmp_path, made):
    sitting = make_sitting(4, 150, **made)
    _, segments, _ = run(write(tmp_path, sitting))
    found, wrong = judge(sitting, segments)
    assert found > 0.7
    assert wrong <= 0.02


def test_minutes_that_are_given_twice_are_aligned_once(tmp_path):
    sitting = make_sitting(53, 40)
    folder = write(tmp_path, sitting)
    (folder / "t" / "day 1.txt").write_text(f"{sitting.text}\n\n{sitting.text}", "utf8")
    (folder / "t" / "day 1.html").write_text(f"<p>{sitting.text}</p>", "utf8")
    _, segments, _ = run(folder)
    found, wrong = judge(sitting, segments)
    assert found > 0.9
    assert wrong <= 0.02
    starts = seconds(segments)
    assert (starts[1:, 0] >= starts[:-1, 1]).all()


# files


def test_an_infinite_maximum_duration_is_refused(tmp_path):
    folder = write(tmp_path, make_sitting(56, 5))
    with pytest.raises(InputError, match="below max_duration"):
        run(folder, max_duration=float("inf"))
    assert not (folder / "W").exists()


def test_a_hypothesis_is_not_used_as_its_own_transcript(tmp_path):
    sitting = make_sitting(54, 20)
    folder = write(tmp_path, sitting)
    whisper = json.dumps(sitting.whisper() | {"text": " ".join(sitting.heard)})
    (folder / "t" / "day 1.json").write_text(whisper, "utf8")
    report, segments, _ = run(folder, hypotheses=folder / "t", out=folder / "t" / "W")
    assert segments["document"].unique().to_list() == ["day 1.txt"]
    assert not report.problems
    # W is in both sources.
    again, _, _ = run(folder, hypotheses=folder / "t", out=folder / "t" / "W")
    assert not again.problems
    with pytest.raises(InputError, match="no recording with a transcript"):
        run(
            folder,
            hypotheses=folder / "t" / "day 1.json",
            transcripts=folder / "t" / "day 1.json",
            out=folder / "other",
        )


def test_of_two_hypotheses_of_a_recording_one_is_used_and_one_reported(tmp_path):
    sitting = make_sitting(55, 20)
    folder = write(tmp_path, sitting)
    other = Sitting(
        sitting.words, sitting.times, sitting.sentence, sitting.heard, sitting.heard_times + 0.1
    )
    (folder / "h" / "day 1.ctm").write_text(other.ctm("day_1"), "utf8")
    (folder / "h" / "day_1.json").write_text(json.dumps(sitting.whisper()), "utf8")
    (folder / "pairs.csv").write_text("recording,transcript\nday_1,day 1.txt\n", "utf8")
    report, segments, _ = run(folder, pairs=folder / "pairs.csv")
    starts = np.sort(seconds(segments), axis=0)
    assert (starts[1:, 0] >= starts[:-1, 1] - 1e-6).all()
    assert any(
        "day_1.json" in problem and "another hypothesis" in problem for problem in report.problems
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (f"recording,transcript\na,{'x' * 200_000}\n", "line 2: there is no recording 'a'"),
        ('recording,transcript\n"a\nb",t\n', None),
        ("recording,transcript\nc\u2028d,t\n", None),
    ],
)
def test_a_table_of_pairs_takes_names_with_line_breaks(tmp_path, content, message):
    hypotheses = [
        Item(name, f"{name}.json", Path(f"/h/{name}.json")) for name in ("a\nb", "c\u2028d")
    ]
    transcripts = [Item("t", "t.txt", Path("/t/t.txt"))]
    (tmp_path / "pairs.csv").write_text(content, "utf8")
    if message:
        with pytest.raises(InputError, match=message):
            pair(hypotheses, transcripts, tmp_path / "pairs.csv", [])
    else:
        [(_, found)] = pair(hypotheses, transcripts, tmp_path / "pairs.csv", [])
        assert found == (transcripts[0],)


# long input


def long_word() -> tuple[list[str], list[str]]:
    words = random_words(300)
    return [*words[:150], "abcdefghij" * 60_000, *words[150:]], [
        *words[:150],
        "abcdefghij" * 55_000,
        *words[150:],
    ]


def blocks() -> tuple[list[str], list[str]]:
    words = random_words(60_000)
    order = np.random.default_rng(0).permutation(len(words) // 8)
    return words, [word for block in order for word in words[8 * block : 8 * block + 8]]


@pytest.mark.parametrize(
    ("texts", "least", "most"),
    [
        (lambda: (["da"] * 60_000,) * 2, 0, 0),
        (lambda: (random_words(30) * 1000,) * 2, 0, 0),
        (long_word, 300, 301),
        (blocks, 57_000, 60_000),
    ],
    ids=["equal words", "refrain", "long word", "moved blocks"],
)
def test_long_repetitive_texts_are_paired_and_cut(texts, least, most):
    left, right = texts()
    starts = np.arange(len(right)) * 0.4
    typed = Typed(left, np.zeros(len(left), np.bool_), np.zeros(len(left), np.int64))
    pairs = pair_words(left, right)
    assert least <= len(pairs.left) <= most
    found = cut_segments(pairs, typed, Heard(right, starts, starts + 0.3), shortest=2, longest=20)
    inside = int(np.diff(found.typed, axis=1).sum())
    assert 0.7 * len(pairs.left) <= inside <= len(pairs.left)


def test_a_table_of_600_pairs_is_read(tmp_path):
    numbers = range(600)
    hypotheses = [
        Item(f"h/recording {n}", f"h/recording {n}.json", Path(f"/h/recording {n}.json"))
        for n in numbers
    ]
    transcripts = [
        Item(f"minutes {n}", f"minutes {n}.txt", Path(f"/t/minutes {n}.txt")) for n in numbers
    ]
    table = tmp_path / "pairs.csv"
    table.write_text(
        "recording,transcript\n" + "".join(f"recording {n},minutes {n}\n" for n in numbers), "utf8"
    )
    found = pair(hypotheses, transcripts, table, [])
    assert found == [(one, (other,)) for one, other in zip(hypotheses, transcripts, strict=True)]
