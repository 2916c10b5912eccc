"""Saved forms of clips and tables: what they show and play, and that texts and names are never
markup."""

from base64 import b64decode
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest
from conftest import encoded
from hostile import MARKUP
from hypothesis import given
from hypothesis import strategies as st

from nbaudio.audio import decode_clip, read_clip
from nbaudio.core.errors import AudioError, InputError
from nbaudio.corpus.materialize import materialize
from nbaudio.reading import open_corpus
from nbaudio.tables.workspace import Workspace
from nbaudio.text import words
from nbaudio.ui import views, widgets
from nbaudio.ui.widgets import static_html

ALLOWED = {
    "div",
    "p",
    "span",
    "code",
    "del",
    "ins",
    "audio",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "svg",
    "path",
    "line",
    "text",
    "img",
}


class Page(HTMLParser):
    """Tags with attributes, and the text, of some HTML."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.texts, self.marked, self._open = [], [], {"del": [], "ins": []}, []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data):
        self.texts.append(data)
        for tag in {"del", "ins"} & set(self._open):
            self.marked[tag].append(data)

    def check_harmless(self):
        assert not self._open
        assert {tag for tag, _ in self.tags} <= ALLOWED
        assert not [
            name for _, attributes in self.tags for name in attributes if name.startswith("on")
        ]
        addresses = [attributes.get("src") or attributes.get("href") for _, attributes in self.tags]
        assert all(
            address is None or address.startswith(("data:audio/", "data:image/png;base64,"))
            for address in addresses
        )
        return self


def sounds(html):
    found = []
    for tag, attributes in Page(html).check_harmless().tags:
        if tag == "audio":
            mime, data = attributes["src"].removeprefix("data:").split(";base64,")
            found.append((mime, decode_clip(b64decode(data))))
    return found


# word differences


def test_differences_are_struck_through_and_underlined():
    page = Page(
        static_html.diff_html("evo blic odgovori danas", "evo blitz odgovori na danas")
    ).check_harmless()
    assert page.marked == {"del": ["blic"], "ins": ["blitz", "na"]}
    styles = {tag: attributes["style"] for tag, attributes in page.tags}
    assert "line-through" in styles["del"]
    assert "underline" in styles["ins"]
    assert "bold" in styles["ins"]


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_difference_shows_the_words_of_both_texts_escaped(text, asr_text):
    page = Page(static_html.diff_html(text, asr_text)).check_harmless()
    # The parser reads \r, \0 and surrogates its own way; all else must come back as it was.
    shown = " ".join(page.texts).split()
    if not set("\r\0") & set(text + asr_text):
        assert set("".join(words(text))) | set("".join(words(asr_text))) >= set("".join(shown))
        inserted = " ".join(page.marked["ins"]).split()
        assert len(shown) - len(inserted) == len(" ".join(words(text)).split())


@pytest.mark.parametrize("hostile", MARKUP)
def test_hostile_texts_are_shown_without_running(hostile):
    clip = static_html.StaticClip(
        hostile, (hostile,), hostile, hostile.replace("a", "b"), None, hostile
    )
    page = Page(static_html.Clips((clip,))._repr_html_()).check_harmless()
    assert "".join(hostile.split()) in "".join("".join(page.texts).split())
    table = widgets.table(pl.DataFrame({hostile: [hostile], "list": [[hostile]]}))._repr_html_()
    assert hostile in Page(table).check_harmless().texts


def test_right_to_left_texts_do_not_change_the_direction_around_them():
    html = static_html.clip_html(static_html.StaticClip("s", ("\u202espk",), "שלום", "שלום לכם"))
    attributes = dict(Page(html).tags)["p"]
    assert attributes["dir"] == "auto"
    assert "unicode-bidi:isolate" in attributes["style"]
    assert "unicode-bidi:isolate" in dict(Page(html).tags)["span"]["style"]


def test_a_text_of_100000_characters_is_cut_and_says_so():
    html = static_html.clip_html(
        static_html.StaticClip("s", (), "riječ " * 20_000, "druga " * 20_000)
    )
    assert len(html) < 20_000
    assert "(118,000 more characters)" in html


# players


@pytest.fixture
def workspace(make_workspace):
    return make_workspace({"a.wav": (9.0, 44100), "b.flac": (6.0, 16000)})


def test_player_holds_the_clips_in_the_order_requested(workspace):
    ids = views.examples(workspace, "random", n=3)["segment_id"].to_list()[::-1]
    player = widgets.Player(workspace, ids).clips
    assert [clip.segment_id for clip in player.clips] == ids
    found = sounds(player._repr_html_())
    segments = {row["segment_id"]: row for row in workspace.segments.iter_rows(named=True)}
    recordings = {row["recording_id"]: row for row in workspace.recordings.iter_rows(named=True)}
    for segment_id, (mime, (samples, rate)) in zip(ids, found, strict=True):
        segment = segments[segment_id]
        recording = recordings[segment["recording_id"]]
        whole = read_clip(
            workspace.audio_root / recording["path"],
            segment["start_sample"],
            segment["end_sample"],
            rate=16000,
        )
        assert (mime, rate) == ("audio/flac", 16000)
        np.testing.assert_array_equal(samples, whole)


def test_player_shows_no_more_than_the_limit_and_says_how_many_there_are(workspace):
    ids = workspace.segments["segment_id"]
    player = widgets.Player(workspace, ids, limit=2).clips
    assert len(sounds(player._repr_html_())) == 2
    assert f"and {len(ids) - 2} more, not shown" in player._repr_html_()


def test_a_player_without_segments_says_so(workspace):
    assert "no segments" in widgets.Player(workspace, []).static_html()


def test_a_player_of_an_unknown_segment_is_refused(workspace):
    with pytest.raises(InputError, match="no segment 'x'"):
        widgets.Player(workspace, ["x"])


def test_a_clip_is_no_longer_than_the_bound_and_a_page_no_larger(workspace, monkeypatch):
    monkeypatch.setattr(static_html, "LONGEST_S", 1)
    monkeypatch.setattr(static_html, "MOST_BYTES", 40_000)
    player = widgets.Player(workspace, workspace.segments["segment_id"]).clips
    found = sounds(player._repr_html_())
    assert {len(samples) for _, (samples, _) in found} == {16000}
    assert 0 < len(found) < len(player.clips)
    assert sum(len(clip.audio or b"") for clip in player.clips) <= 40_000
    assert {clip.note for clip in player.clips} == {
        "the first 1 s of it",
        "no sound: the page holds 0.04 MB of it already",
    }


def test_examples_are_limited_to_the_given_segments(workspace):
    every = set(workspace.segments["segment_id"])
    some = sorted(every)[:3]
    assert set(views.examples(workspace, "random", n=100)["segment_id"]) == every
    assert set(views.examples(workspace, "random", n=100, ids=some)["segment_id"]) == set(some)
    found = views.examples(workspace, "random", n=100, where="recording_id = 'b'")["recording_id"]
    assert set(found) == {"b"}
    assert (
        len(views.examples(workspace, "random", n=100, where="recording_id == 'b'", ids=some[:1]))
        == 0
    )
    with pytest.raises(InputError, match="no segment 'nowhere'"):
        views.examples(workspace, "random", ids=["nowhere"])
    with pytest.raises(InputError, match="recording_idd"):
        views.examples(workspace, "random", where="recording_idd = 'b'")


def test_segments_that_cannot_be_played_say_why(workspace):
    (workspace.audio_root / "b.flac").write_bytes(b"no audio")
    segments = workspace.segments.with_columns(
        end_sample=pl.when(pl.col("segment_id") == "a_0.0-2.37").then(10**9).otherwise("end_sample")
    )
    workspace.save(segments=segments)
    broken, beyond = widgets.Player(workspace, ["b_0.0-2.37", "a_0.0-2.37"]).clips.clips
    assert (broken.audio, beyond.audio) == (None, None)
    assert broken.note.startswith("no sound: ")
    assert "b.flac" in broken.note
    assert beyond.note == "no sound: its times are not inside the recording"


def test_without_audio_the_words_are_shown_alone(tmp_path):
    workspace = Workspace.create(tmp_path / "w", source="made", audio=None)
    segments = {
        "segment_id": ["s"],
        "recording_id": ["r"],
        "text": ["evo blic"],
        "asr_text": [None],
    }
    workspace.save(
        recordings=pl.DataFrame({"recording_id": ["r"]}), segments=pl.DataFrame(segments)
    )
    page = Page(widgets.Player(workspace, ["s"]).static_html()).check_harmless()
    assert "evo blic" in page.texts
    assert "audio" not in dict(page.tags)
    assert page.marked == {"del": [], "ins": []}


def test_clips_of_a_corpus_are_read_back_by_offset(workspace, tmp_path):
    materialize(workspace, out=tmp_path / "c", jobs=1, show_progress=False)
    clips = open_corpus(tmp_path / "c").segments
    wanted = clips["segment_id"].to_list()[::-1]
    player = widgets.corpus_player(tmp_path / "c", wanted, limit=2).clips
    assert [clip.segment_id for clip in player.clips] == wanted[:2]
    assert player.hidden == len(wanted) - 2
    lengths = dict(clips.select("segment_id", "num_samples").iter_rows())
    assert [len(samples) for _, (samples, _) in sounds(player._repr_html_())] == [
        lengths[key] for key in wanted[:2]
    ]
    assert len(widgets.corpus_player(tmp_path / "c").clips.clips) == 3


def test_reading_clips_of_a_damaged_corpus_is_refused(workspace, tmp_path):
    corpus = tmp_path / "c"
    materialize(workspace, out=corpus, jobs=1, show_progress=False)
    clips = open_corpus(corpus).segments
    with pytest.raises(InputError, match="no clip 'x'"):
        encoded(corpus, ["x"])
    row = clips.row(0, named=True)
    (tmp_path / "outside").write_bytes(b"x" * 100)
    clips.with_columns(shard=pl.lit("../outside")).write_parquet(corpus / "segments.parquet")
    with pytest.raises(InputError, match="points outside the folder"):
        encoded(corpus, [row["segment_id"]])
    clips.write_parquet(corpus / "segments.parquet")
    shard = bytearray((corpus / row["shard"]).read_bytes())
    shard[row["offset"] + row["length"] // 2] ^= 255
    (corpus / row["shard"]).write_bytes(shard)
    with pytest.raises(AudioError, match="is damaged"):
        encoded(corpus, [row["segment_id"]])
    with pytest.raises(InputError, match=r"segments\.parquet: cannot be read"):
        open_corpus(tmp_path)


# tables


def test_table_cuts_rows_and_cells_and_says_so():
    frame = pl.DataFrame({"n": range(60), "text": ["x" * 1000] * 60})
    html = widgets.table(frame)._repr_html_()
    assert html.count("<tr>") == 51
    assert "and 10 more rows" in html
    assert f">{'x' * 300} …<" in html
    assert "no rows" in widgets.table(frame.head(0))._repr_html_()
