"""Player and TranscriptDiff without a browser: audio, pictures, and aligned words."""

import io
import json

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from hostile import MARKUP
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from test_widget_tables import ask
from test_widgets import Page

from nbaudio.audio import read_clip
from nbaudio.core.errors import AudioError, InputError
from nbaudio.review.review_page import segment_facts
from nbaudio.review.state import corrections
from nbaudio.tables.workspace import Workspace
from nbaudio.text import words
from nbaudio.text.formatting import Formatting
from nbaudio.ui import widgets
from nbaudio.ui.widgets import Player, TranscriptDiff, clip_audio, static_html
from nbaudio.ui.widgets.clip_audio import BANDS, RATE, clip_picture, peaks, read_sound, spectrogram
from nbaudio.ui.widgets.segments import align_words, load_segments

AS_RECORDED = {"before": 0, "after": 0, "channel": None, "even": False, "columns": 300}


@pytest.fixture
def workspace(make_workspace):
    return make_workspace({"a.wav": (9.0, 44100), "b.flac": (6.0, 16000)})


def heard(buffer):
    samples, rate = sf.read(io.BytesIO(buffer), dtype="int16")
    assert rate == RATE
    return samples


# sound


def test_the_player_sends_only_the_window_as_a_corpus_would_store_it(workspace):
    player = Player(workspace, ["a_3.0-5.37", "b_0.0-2.37"])
    assert ask(player, "player.open")[0] == {"total": 2, "at": 0, "fixed": False, "linked": False}
    said, (drawn, bands, wav) = ask(player, "clip", number=0, **AS_RECORDED)
    path = workspace.audio_root / "a.wav"
    np.testing.assert_array_equal(heard(wav), read_clip(path, 132300, 236817, rate=RATE))
    assert said == {"seconds": len(heard(wav)) / RATE, "start": 0.0, "end": pytest.approx(2.37)}
    assert (len(drawn), len(bands)) == (2 * 300, BANDS * 300)


def test_context_is_bounded_by_the_recording_and_says_where_the_segment_is(workspace):
    player = Player(workspace, ["a_0.0-2.37"])
    said, (*_, wav) = ask(player, "clip", number=0, **{**AS_RECORDED, "before": 2, "after": 1.5})
    assert (said["start"], said["end"]) == (0.0, pytest.approx(2.37))
    assert len(heard(wav)) == pytest.approx(3.87 * RATE, abs=1)
    later, _ = ask(
        Player(workspace, ["a_3.0-5.37"]), "clip", number=0, **{**AS_RECORDED, "before": 2}
    )
    assert (later["start"], later["end"]) == (2.0, pytest.approx(4.37))
    answer, _ = ask(player, "clip", number=0, **{**AS_RECORDED, "before": 31})
    assert "must be from 0 to 30 s" in answer["error"]


def test_the_beginning_of_a_long_segment_is_played_with_its_context(workspace, monkeypatch):
    monkeypatch.setattr(clip_audio, "LONGEST_S", 1.5)
    segments = load_segments(workspace, ["a_3.0-5.37"])
    sound = read_sound(segments.audio_root, segments.row(0), before=1, after=0.5)
    assert (sound.start, sound.end) == (1.0, 2.5)
    assert len(sound.samples) == 3 * RATE


def test_the_player_plays_the_chosen_channel_at_normalized_volume(workspace):
    segments = load_segments(workspace, ["a_3.0-5.37"])
    root, row = segments.audio_root, segments.row(0)
    left, right, mix = (
        read_sound(root, row, channel=channel, even=False).samples
        for channel in ("left", "right", "mix")
    )
    assert (left != right).any()
    np.testing.assert_allclose(mix, (left.astype(float) + right) / 2, atol=1.5)
    quiet = read_sound(root, row, even=True).samples.astype(float)
    assert 20 * np.log10(np.sqrt((quiet**2).mean()) / 32768) == pytest.approx(-20, abs=0.3)
    owned = {**row, "source_channel": "right"}
    np.testing.assert_array_equal(read_sound(root, owned, even=False).samples, right)


def test_a_segment_that_cannot_be_played_shows_the_reason_and_its_words(workspace):
    (workspace.audio_root / "b.flac").write_bytes(b"no audio")
    player = Player(workspace, ["b_0.0-2.37"])
    said, buffers = ask(player, "clip", number=0, **AS_RECORDED)
    assert "b.flac" in said["note"]
    assert buffers == []
    assert [pair["reference"] for pair in ask(player, "segment", number=0)[0]["words"]] == [
        "rečenica",
        "0",
        "iz",
        "b",
    ]
    row = {
        "recording_path": "a.wav",
        "start_sample": 5,
        "end_sample": 10**9,
        "sampling_rate": 44100,
        "num_samples": 396900,
    }
    with pytest.raises(AudioError, match="not inside the recording"):
        read_sound(workspace.audio_root, row)
    with pytest.raises(AudioError, match="its recording is missing"):
        read_sound(None, row)
    assert "columns=0" in ask(player, "clip", number=0, **{**AS_RECORDED, "columns": 0})[0]["error"]


@given(st.lists(st.integers(-32768, 32767), min_size=1, max_size=300), st.integers(1, 40))
def test_peaks_are_minimum_and_maximum_of_each_stretch(values, columns):
    samples = np.array(values, dtype=np.int16)
    found = peaks(samples, columns)
    for i, (low, high) in enumerate(found):
        start, stop = i * len(values) // columns, (i + 1) * len(values) // columns
        stretch = values[start : max(stop, start + 1)]
        assert (low, high) == (min(stretch) >> 8, max(stretch) >> 8)


def test_the_spectrogram_shows_a_tone_at_its_frequency():
    t = np.arange(2 * RATE) / RATE
    tone = (200 * np.sin(2 * np.pi * np.where(t < 1, 500, 3000) * t)).astype(np.int16)
    loudest = spectrogram(tone, 40).argmax(axis=1) * RATE / (2 * BANDS)
    assert set(loudest[2:18]) == {500}
    assert set(loudest[22:38]) == {3000}
    assert not spectrogram(np.zeros(10, dtype=np.int16), 7).any()


# bounds


def test_moved_bounds_are_logged_and_shown_and_taken_back(workspace):
    player = Player(workspace, ["a_3.0-5.37"], reviewer="ana")
    before = workspace.segments
    kept, _ = ask(player, "correct", number=0, start_ms=-20, end_ms=40)
    assert kept == {"reviewer": "ana", "start_ms": -20, "end_ms": 40}
    row = corrections(workspace).row(0, named=True)
    assert (row["start_sample"], row["end_sample"], row["reviewer"]) == (
        132300 - 882,
        236817 + 1764,
        "ana",
    )
    assert workspace.segments.equals(before)
    again = Player(workspace, ["a_3.0-5.37"])
    assert ask(again, "segment", number=0)[0]["correction"] == kept
    assert ask(again, "correct", number=0, start_ms=0, end_ms=0)[0] is None
    assert len(corrections(workspace)) == 0
    assert ask(again, "segment", number=0)[0]["correction"] is None


def test_bounds_outside_the_recording_are_refused(workspace):
    player = Player(workspace, ["a_0.0-2.37"])
    for moved in (
        {"start_ms": -10, "end_ms": 0},
        {"start_ms": 2500, "end_ms": 0},
        {"start_ms": 0, "end_ms": 10**6},
    ):
        assert "not inside the recording" in ask(player, "correct", number=0, **moved)[0]["error"]
    assert len(corrections(workspace)) == 0


# words


@given(
    st.lists(st.sampled_from("abcd"), max_size=12), st.lists(st.sampled_from("abcd"), max_size=12)
)
def test_pairs_hold_all_words_of_both_sides_and_times_of_the_transcripts(left, right):
    times = [(float(i), i + 0.5) for i in range(len(left))]
    pairs = align_words(" ".join(left), " ".join(right), times)
    assert [pair.reference for pair in pairs if pair.reference is not None] == left
    assert [pair.hypothesis for pair in pairs if pair.hypothesis is not None] == right
    assert [(pair.start, pair.end) for pair in pairs if pair.reference is not None] == times
    if left:
        starts = [pair.start for pair in pairs]
        assert starts == sorted(starts)
        assert all(pair.start <= pair.end for pair in pairs)


def test_word_times_that_do_not_fit_the_words_are_ignored():
    assert all(pair.start is None for pair in align_words("da ne", "da", [(0.0, 1.0)]))
    assert [pair.hypothesis for pair in align_words("da ne", None)] == [None, None]
    assert align_words("", "") == []


def test_word_times_are_read_for_one_segment_at_a_time(workspace):
    segments = workspace.segments
    times = [[{"start": i + 0.0, "end": i + 0.25} for i in range(4)] for _ in range(len(segments))]
    workspace.save(segments=segments.with_columns(word_times=pl.Series(times)))
    loaded = load_segments(workspace, ["b_3.0-5.37"])
    assert [pair.start for pair in loaded.lines(0)[""]] == [0, 1, 2, 3]
    workspace.save(segments=workspace.segments.reverse())  # made anew meanwhile
    assert [pair.start for pair in loaded.lines(0)[""]] == [None] * 4


@pytest.mark.parametrize("hostile", [*MARKUP, "riječ " * 20_000])
def test_hostile_words_are_sent_to_the_front_end_as_text(hostile, tmp_path):
    workspace = Workspace.create(tmp_path / "w", source="made", audio=None)
    rows = {
        "segment_id": [hostile],
        "recording_id": ["r"],
        "text": [hostile],
        "asr_text": [hostile[::-1]],
        "speaker_id": [hostile],
    }
    workspace.save(recordings=pl.DataFrame({"recording_id": ["r"]}), segments=pl.DataFrame(rows))
    for widget in (Player(workspace), TranscriptDiff(workspace)):
        said, _ = ask(widget, "segment", number=0)
        assert said["segment_id"] == hostile
        assert [pair["reference"] for pair in said["words"] if pair["reference"]] == words(
            hostile[:2000]
        )
        assert len(json.dumps(said["words"])) < 100_000
        assert said["unshown"] == max(0, len(hostile) - 2000)
        Page(widget.static_html()).check_harmless()
        state = {
            name: value
            for name, value in widget.get_state().items()
            if name not in ("_esm", "_css")
        }
        assert len(json.dumps(state)) < 2000
    assert ask(TranscriptDiff(workspace), "diffs")[0] == {"shown": 1, "hidden": 0}


def test_facts_of_a_segment_are_short_and_similarity_near_1_has_more_decimals():
    unknown = {"speaker_id": None, "duration_s": 5.84, "similarity": 0.9}
    assert segment_facts(unknown) == ["speaker not known", "5.8 s", "similarity 0.90"]
    assert segment_facts({"speaker_id": "ana", "duration_s": 2.0, "similarity": 0.9968}) == [
        "ana",
        "2.0 s",
        "similarity 0.9968",
    ]


def test_stored_bounds_are_undone_one_correction_at_a_time(workspace):
    player = Player(workspace, ["a_3.0-5.37"], reviewer="ana")
    assert ask(player, "undo_correction", number=0)[0] is None
    for start_ms in (-20, -40, -60):
        ask(player, "correct", number=0, start_ms=start_ms, end_ms=0)
    again = Player(workspace, ["a_3.0-5.37"], reviewer="ben")
    said = [ask(again, "undo_correction", number=0)[0] for _ in range(4)]
    assert [each and (each["reviewer"], each["start_ms"]) for each in said] == [
        ("ben", -40),
        ("ben", -20),
        None,
        None,
    ]
    assert len(corrections(workspace)) == 0


# parts of a clip


def test_a_zoomed_part_is_drawn_without_sending_audio(workspace):
    player = Player(workspace, ["a_3.0-5.37"])
    _, (wave, bands, _) = ask(player, "clip", number=0, **AS_RECORDED)
    options = {**AS_RECORDED, "number": 0, "first": 0.79, "last": 1.58}
    _, (part, part_bands) = ask(player, "picture", **{**options, "columns": 100})
    third = np.frombuffer(wave, np.int8).reshape(300, 2)[100:200]
    np.testing.assert_allclose(np.frombuffer(part, np.int8).reshape(100, 2), third, atol=8)
    near = np.frombuffer(bands, np.uint8).reshape(300, BANDS)[100:200].astype(int)
    assert np.abs(np.frombuffer(part_bands, np.uint8).reshape(100, BANDS) - near).mean() < 4
    _, lanes = ask(player, "picture", **options, lanes=2)
    assert [len(each) for each in lanes] == [600, 600, 300 * BANDS]
    assert lanes[0] != lanes[1]
    # The loudest sample of all channels is at full scale.
    loudest = max(np.abs(np.frombuffer(wave, np.int8).astype(int)).max() for wave in lanes[:2])
    assert loudest >= 127
    for wrong in ({"first": 2.0, "last": 1.0}, {"first": -1.0}, {"columns": 10**6}):
        assert "error" in ask(player, "picture", **{**options, **wrong})[0]


def test_a_picture_of_a_clip_is_a_small_png_that_shows_it(workspace):
    t = np.arange(RATE) / RATE
    tone = (20000 * np.sin(2 * np.pi * 2000 * t) * (t > 0.5)).astype(np.int16)
    alpha = np.asarray(Image.open(io.BytesIO(clip_picture(tone, RATE))).convert("RGBA"))[..., 3]
    height, width = alpha.shape
    wave, bands = alpha[: height // 2], alpha[height // 2 :]
    assert (wave[:, width * 3 // 4] > 0).mean() > 0.9
    assert (wave[:, width // 4] > 0).mean() < 0.1
    assert not bands[:, width // 4].any()
    loudest = bands[:, width * 3 // 4].argmax()
    assert 1 - loudest / len(bands) == pytest.approx(2000 / 8000, abs=0.05)
    noise = np.random.default_rng(0).normal(0, 3000, 20 * RATE).astype(np.int16)
    assert len(clip_picture(noise, RATE)) < 12_000


def test_each_further_hypothesis_is_a_line_of_its_own(workspace):
    further = {
        "asr_text_b": pl.lit("<b>krivo</b>"),
        "asr_text_a": pl.col("text"),
        "asr_text_none": pl.lit(None, pl.String),
    }
    segments = workspace.segments.with_columns(**further)
    workspace.save(segments=segments)
    diff = widgets.TranscriptDiff(workspace, segments["segment_id"].head(1))
    shown, _ = ask(diff, "segment", number=0)
    assert [name for name, _ in shown["lines"]] == ["b", "a"]
    assert {pair["kind"] for pair in dict(shown["lines"])["a"]} == {"equal"}
    page = Page(diff.static_html()).check_harmless()
    assert [text for text in page.texts if text in ("a", "b", "none")] == ["b", "a"]
    assert "<b>krivo</b>" in page.marked["ins"]


def test_formatting_is_marked_mildly_in_saved_pages():
    page = Page(
        static_html.diff_html("5. točka", "peta točka", formatting=Formatting("hr"))
    ).check_harmless()
    attributes = dict(page.tags)["span"]
    assert "dotted" in attributes["style"]
    assert attributes["title"] == "formatting: peta"
    assert page.marked == {"del": [], "ins": []}
    assert "".join(page.texts).split() == ["5.", "točka"]


def test_the_vocabulary_plays_the_examples_of_the_word_under_the_cursor(workspace):
    number = pl.int_range(pl.len())
    heard = pl.when(number == 2).then(pl.lit("krivo")).otherwise("text")
    workspace.save(segments=workspace.segments.with_columns(asr_text_big=heard))
    found = widgets.Vocabulary(workspace, "big", where="duration_s > 0")
    row = found.words["word"].index_of("iz")
    assert found.words.row(row, named=True)["accuracy"] < 1
    found._table.current = [row, 1]
    first, asked = found._player.current
    ids = found._segments.frame["segment_id"]
    assert (ids[first], asked) == (workspace.segments["segment_id"][2], 1)
    assert ask(found._player, "player.open")[0]["linked"] is True
    second, _ = ask(found._player, "player.turn", number=first, by=1)
    assert second != first
    assert ask(found._player, "player.turn", number=second, by=-1)[0] == first
    assert ask(found._player, "player.turn", number=second, by=9)[0] == found._examples(row)[-1]
    html = found._repr_mimebundle_()["text/html"]
    assert "accuracy" in html
    assert "data:audio/flac" in html
    with pytest.raises(InputError, match="hypothesis 'small' is unknown; known are asr, big"):
        widgets.Vocabulary(workspace, "small")


def test_the_vocabulary_widget_shows_an_empty_list_without_hypotheses(workspace):
    workspace.save(segments=workspace.segments.with_columns(asr_text=pl.lit(None, pl.String)))
    found = widgets.Vocabulary(workspace)
    assert found.words.is_empty()
    assert found._player.current == [-1, 0]
    assert ask(found._player, "player.turn", number=0, by=1)[0] == -1
    assert "no rows" in found.static_html()
