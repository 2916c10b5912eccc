"""The player in JupyterLab as people use it: zoom, words, region, bounds, channels, corpora, and
the keys that `?` shows."""

from contextlib import contextmanager

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from conftest import sweeps
from test_browser_widgets import SOUNDS, WIDGETS, cells, lab, notebook, pixels, sound, workspace

from nbaudio.corpus.materialize import materialize
from nbaudio.review.state import ReviewState, corrections

__all__ = ["lab", "workspace"]

RATE = 16000
WAVE, BANDS = slice(0, 84), slice(86, 190)
COUNT = """asked = []
def count(name, call, **values):
    asked.append((name, values.get('number')))
    return call(**values)
for name, call in list(player._calls.items()):
    player._calls[name] = partial(count, name, call)"""
SHARP = """() => {
    const pen = document.querySelector('.nba-canvas').getContext('2d');
    const columns = Array.from(
        {length: 200}, (_, i) => pen.getImageData(200 + i, 86, 1, 100).data.join()
    );
    return columns.filter((column, i) => i && column === columns[i - 1]).length < 100;
}"""
EVERY_KEY = [*"zZ,.fdD[]mlvhcbaCqwopkKs", "Escape", "?"]


def ruler(page):
    """Times of the ruler's ends: what is in view, as the canvas says."""
    return page.locator(".nba-canvas").first.get_attribute("aria-label")


@contextmanager
def player(lab, workspace, source="widgets.Player(W, ['s0', 's1'], reviewer='ana')"):
    """A player that has its first clip and the focus; gives what reads the kernel, and counts what
    is sent to it."""
    page = lab.page
    with notebook(lab, workspace, f"player = {source}\nplayer") as ask:
        page.wait_for_function("() => document.querySelector('audio')?.readyState === 4")
        ask("0", COUNT)
        page.locator(".nba").focus()
        yield ask


def drag(page, start, stop, *, hold_until=None):
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*stop, steps=6)
    if hold_until:
        page.wait_for_function(hold_until)
    page.mouse.up()


def test_zoom_enlarges_the_waveform_without_sending_audio_again(lab, workspace):
    page = lab.page
    with player(lab, workspace) as ask:
        assert ruler(page) == "waveform and spectrogram of 2.0 seconds"
        whole = pixels(page, ".nba-canvas")
        box = page.locator(".nba-stage").bounding_box()
        top = page.evaluate(
            "() => document.querySelector('.jp-WindowedPanel-outer, "
            ".jp-NotebookPanel-notebook').scrollTop"
        )
        page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 40)
        page.keyboard.down("Control")
        for _ in range(4):
            page.mouse.wheel(0, -60)
        page.keyboard.up("Control")
        page.wait_for_function(
            "() => document.querySelector('.nba-canvas').ariaLabel.includes('from 0.4')"
        )
        # The time under the pointer, half a second, stays there.
        assert ruler(page).endswith("from 0.45 to 0.64 seconds")
        # Sharp: neighboring columns of the spectrogram are not repeated, as they are in a stretched
        # picture.
        page.wait_for_function(SHARP)
        near = pixels(page, ".nba-canvas")
        assert (near[WAVE] != whole[WAVE]).any()
        page.keyboard.down("Shift")
        page.mouse.wheel(0, 300)
        page.keyboard.up("Shift")
        assert not ruler(page).endswith("from 0.45 to 0.64 seconds")
        page.keyboard.press("f")
        assert ruler(page) == "waveform and spectrogram of 2.0 seconds"
        np.testing.assert_array_equal(pixels(page, ".nba-canvas")[BANDS], whole[BANDS])
        # The playhead stays in view while a zoomed clip plays.
        for _ in range(4):
            page.keyboard.press("z")
        page.keyboard.press(" ")
        page.wait_for_function("() => document.querySelector('audio').currentTime > 1")
        assert page.locator(".nba-playhead").is_visible()
        page.keyboard.press(" ")
        # The next clip may be prefetched.
        assert ask("('clip', 0) in asked, ('picture', 0) in asked") == "(False, True)"
        # A wheel alone belongs to the page.
        page.mouse.wheel(0, 500)
        assert (
            page.evaluate(
                "() => document.querySelector('.jp-WindowedPanel-outer, "
                ".jp-NotebookPanel-notebook').scrollTop"
            )
            >= top
        )
        shown = ruler(page)
        page.mouse.wheel(0, 100)
        assert ruler(page) == shown


def test_the_levels_of_the_spectrogram_change_by_a_key(lab, workspace):
    page = lab.page
    with player(lab, workspace):
        before = pixels(page, ".nba-canvas")
        page.keyboard.press("d")
        page.get_by_role("button", name="least level").filter(has_text="−90 to −25 dB").wait_for()
        fewer = pixels(page, ".nba-canvas")
        assert fewer[BANDS, ..., 0].mean() > before[BANDS, ..., 0].mean(), (
            "less noise: more of it is the background"
        )
        np.testing.assert_array_equal(fewer[WAVE], before[WAVE])
        for _ in range(5):
            page.keyboard.press("d")
        np.testing.assert_array_equal(pixels(page, ".nba-canvas"), before)


def test_words_are_on_the_waveform_and_the_one_that_is_spoken_is_lit(lab, workspace):
    page = lab.page
    with player(lab, workspace):
        words = page.locator(".nba-mark")
        assert words.all_inner_texts() == ["jedan", "dva", "tri", "četiri"]
        width = page.locator(".nba-stage").bounding_box()["width"]
        stage = page.locator(".nba-stage").bounding_box()["x"]
        assert words.nth(2).bounding_box()["x"] - stage == pytest.approx(width / 2, abs=3)
        assert words.nth(2).bounding_box()["width"] == pytest.approx(width / 4, abs=3)
        page.locator(".nba-timed").nth(2).click()
        page.wait_for_selector(".nba-mark-now:text('tri')")
        page.wait_for_selector(".nba-mark-now:text('četiri')")
        page.wait_for_selector(".nba-mark-now", state="detached")


def test_a_region_is_dragged_loops_and_is_cleared(lab, workspace):
    page = lab.page
    with player(lab, workspace):
        box = page.locator(".nba-stage").bounding_box()
        y, at = box["y"] + 50, lambda share: box["x"] + share * box["width"]
        page.mouse.click(at(0.75), y)
        assert sound(page)["at"] == pytest.approx(1.5, abs=0.01)
        assert not page.locator(".nba-region").is_visible()
        drag(page, (at(0.25), y), (at(0.4), y))
        region = page.locator(".nba-region").bounding_box()
        assert region["x"] - box["x"] == pytest.approx(0.25 * box["width"], abs=3)
        page.evaluate(
            """() => {
                const audio = document.querySelector('audio');
                window.heard = [];
                const note = () => { heard.push(audio.currentTime); requestAnimationFrame(note); };
                note();
            }"""
        )
        page.keyboard.press(" ")
        # From its end back to its start, twice.
        page.wait_for_function(
            "() => heard.filter((now, i) => i && now < heard[i - 1] - 0.2).length >= 3"
        )
        heard = page.evaluate("() => heard.slice(heard.findIndex(now => now < 0.6))")
        assert min(heard) > 0.45
        assert max(heard) < 1.4, "few frames on a busy machine"
        page.keyboard.press("Escape")
        assert not page.locator(".nba-region").is_visible()
        page.wait_for_function("() => document.querySelector('audio').ended")
        # By keys: from here, to there.
        page.mouse.click(at(0.5), y)
        page.keyboard.press("]")
        region = page.locator(".nba-region").bounding_box()
        assert (region["x"] - box["x"], region["width"]) == (
            pytest.approx(0, abs=3),
            pytest.approx(box["width"] / 2, abs=3),
        )
        page.mouse.click(at(0.25), y)
        page.keyboard.press("[")
        assert page.locator(".nba-region").bounding_box()["width"] == pytest.approx(
            box["width"] / 4, abs=3
        )


def test_bounds_are_dragged_outwards_kept_and_undone(lab, workspace):
    page = lab.page
    said = ".nba-shift:has-text('{}')"
    with player(lab, workspace):
        for side, way in (("start", -1), ("end", 1)):
            bound = page.locator(f".nba-bound-{side}").bounding_box()
            stage = page.locator(".nba-stage").bounding_box()
            edge = stage["x"] if side == "start" else stage["x"] + stage["width"]
            x, y = bound["x"] + bound["width"] / 2, bound["y"] + 30
            drag(
                page,
                (x, y),
                (edge + way * 30, y),
                hold_until=(
                    f"() => /{side} "
                    ".(0.[1-9]|[1-9])/.test(document.querySelector('.nba-shift').innerText)"
                ),
            )
            page.keyboard.press("f")
        # The words are where they were, the context is heard, and playing stays with the segment.
        assert (
            float(page.evaluate("() => [...document.querySelectorAll('audio')].at(-1).duration"))
            > 3
        )
        moved = page.locator(".nba-shift").inner_text()
        page.keyboard.press("k")
        page.wait_for_selector(said.format("corrected by ana"))
        first = corrections(workspace).select("start_sample", "end_sample").row(0)
        assert first[0] < RATE
        assert first[1] > 3 * RATE
        for key in ("w", "k"):
            page.keyboard.press(key)
        page.wait_for_function(
            "(moved) => !document.querySelector('.nba-shift').innerText.endsWith(moved)",
            arg=moved.split(": ")[1],
        )
        page.wait_for_selector("button:visible:has-text('undo')")
        assert corrections(workspace)["start_sample"][0] == first[0] + RATE // 50
        page.keyboard.press("Shift+K")
        page.wait_for_selector(said.format(moved.split(": ")[1]))
        assert corrections(workspace).select("start_sample", "end_sample").row(0) == first
        page.get_by_role("button", name="withdraw the saved bounds").click()
        page.wait_for_selector(".nba-correcting", state="hidden")
    assert len(corrections(workspace)) == 0
    assert len(ReviewState.load(workspace).correction_log) == 4


@pytest.mark.parametrize(("channels", "rate"), [(2, 48000), (3, 44100)])
def test_each_channel_has_a_waveform(lab, workspace, channels, rate):
    page = lab.page
    tone = sweeps(30, rate)[:, :1] * np.arange(channels)  # the first is silent
    sf.write(workspace.audio_root / "a.wav", tone / channels, rate)
    facts = {"sampling_rate": rate, "num_channels": channels, "num_samples": 30 * rate}
    workspace.save(
        recordings=workspace.recordings.with_columns(
            **{name: pl.lit(value) for name, value in facts.items()}
        ),
        segments=workspace.segments.with_columns(
            pl.col("start_sample", "end_sample") * rate // RATE
        ),
    )
    with player(lab, workspace):
        height = pixels(page, ".nba-canvas").shape[0]
        page.get_by_role("button", name="a waveform for each channel").click()
        page.wait_for_function(
            "(height) => document.querySelector('.nba-canvas').height > height", arg=height
        )
        picture = pixels(page, ".nba-canvas")
        lane = (picture.shape[0] - 130) // channels
        inked = [
            (picture[i * lane + 2 : i * lane + lane - 16, 100:, 3] > 0).mean()
            for i in range(channels)
        ]
        assert inked[0] < 0.1 < inked[1]
        assert inked == sorted(inked), "the louder, the higher"
        assert page.evaluate(
            "() => document.querySelectorAll('audio')[0].duration"
        ) == pytest.approx(2, abs=0.01)
        page.keyboard.press("m")
        page.wait_for_function(
            "(height) => document.querySelector('.nba-canvas').height === height", arg=height
        )


def test_clips_of_a_corpus_have_the_same_player_without_bounds(lab, workspace):
    page = lab.page
    materialize(workspace, out=workspace.path.parent / "C", rate=8000, jobs=1, show_progress=False)
    with player(lab, workspace, "widgets.corpus_player(str(W).removesuffix('/w') + '/C')") as ask:
        before = cells(page)
        assert "bytes" in page.locator(".nba-title").inner_text()
        assert ".tar at byte" in page.locator(".nba-title").inner_text()
        assert (pixels(page, ".nba-canvas")[WAVE][..., 3] > 0).mean() > 0.05
        for key in EVERY_KEY:
            page.locator(".nba").focus()
            page.keyboard.press(key)
        page.keyboard.press("Escape")
        assert not page.locator(".nba-bound-start").is_visible()
        assert page.get_by_role("button", name="context").count() == 0
        page.locator(".nba").focus()
        page.keyboard.press("ArrowDown")
        page.wait_for_function(SOUNDS)
        page.wait_for_selector(".nba-count:has-text('2 of 9')")
        assert ask("player.current") == "[1, 0]"
        assert cells(page) == before
        assert page.locator(".nba-alarm:visible").count() == 0


@pytest.mark.parametrize("name", ["Player", "ReviewPanel"])
def test_a_question_mark_shows_all_keys_of_the_widget(lab, workspace, name):
    page = lab.page
    with notebook(lab, workspace, WIDGETS[name]):
        page.wait_for_selector(".nba-title code")
        before = cells(page)
        widget = page.locator(".nba")
        for key in EVERY_KEY[:-1]:
            widget.focus()
            page.keyboard.press(key)
        page.keyboard.press("?")
        text = page.get_by_role("dialog", name="keys").inner_text()
        assert "play or pause" in text
        assert ("give the verdict" in text) == (name == "ReviewPanel")
        playing = sound(page)["playing"]
        for key in ("d", "d", "a", "x", " "):
            page.keyboard.press(key)
        assert sound(page)["playing"] == playing
        for closing in ("?", "Escape"):
            page.keyboard.press(closing)
            page.get_by_role("dialog").wait_for(state="detached")
            assert page.evaluate(
                "() => document.activeElement === document.querySelector('.nba')"
            ), "the focus is back"
            page.keyboard.press("?")
        page.get_by_role("dialog").click()
        page.get_by_role("dialog").wait_for(state="detached")
        page.get_by_role("button", name="show the keys").click()
        page.get_by_role("dialog").click(position={"x": 5, "y": 5})
        if name == "ReviewPanel":
            page.get_by_label("comment").press_sequentially("why?")
            assert page.get_by_label("comment").input_value() == "why?"
            assert page.get_by_role("dialog").count() == 0
        assert cells(page) == before


def test_linked_players_show_the_same_segment(lab, workspace):
    page = lab.page
    link = (
        "import ipywidgets\nother = widgets.Player(W)\nipywidgets.jslink((player, 'current'), "
        "(other, 'current'))\nother"
    )
    with notebook(lab, workspace, "player = widgets.Player(W)\nplayer", link) as ask:
        page.wait_for_function("() => document.querySelectorAll('.nba-title code').length === 2")
        shown = (
            "(id) => [...document.querySelectorAll('.nba-title code')].every(each => "
            "each.innerText === id)"
        )
        page.locator(".nba").first.focus()
        page.keyboard.press("ArrowDown")
        page.wait_for_function(shown, arg="s1")
        assert ask("player.current, other.current") == "([1, 0], [1, 0])"
        ask("0", "player.current = [3, 0]")
        page.wait_for_function(shown, arg="s3")
        page.wait_for_function(
            "() => [...document.querySelectorAll('audio')].every(audio => audio.paused)"
        )
        ask("0", "other.current = [3, 1]")
        page.wait_for_function(SOUNDS)
