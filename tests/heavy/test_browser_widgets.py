"""The widgets in JupyterLab, by keys and mouse: pixels, sound, state in Python, and unwanted
effects."""

import base64
import json
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from browser import chromium, jupyter_lab, open_beside, open_notebook, run_all
from conftest import sweeps
from hostile import WORST
from playwright.sync_api import Page, expect
from test_browser_notebooks import errors

import nbaudio
from nbaudio.review.state import corrections, verdict_log, verdicts
from nbaudio.tables.workspace import Workspace

RATE = 16000
KEYS = [
    *"abcdefghijklmnopqrstuvwxyz",
    *"ABCDMXYZ",
    *"0123456789",
    *" -+=/,.<>[]",
    "Enter",
    "Escape",
    "Delete",
    "Backspace",
]
KEYS += [
    "ArrowUp",
    "ArrowDown",
    "ArrowLeft",
    "ArrowRight",
    "PageUp",
    "PageDown",
    "Home",
    "End",
    "Shift+Enter",
    "Control+Enter",
]
KEYS += ["Alt+Enter", "Shift+ArrowDown", "Control+m", "Control+Shift+-"]
# Messages to the kernel take `window.latencyMs` longer.
SLOW = """() => {
    const Plain = window.WebSocket;
    window.latencyMs = 0;
    window.WebSocket = class extends Plain {
        send(data) {
            if (window.latencyMs)
                setTimeout(
                    () => this.readyState === Plain.OPEN && super.send(data), window.latencyMs
                );
            else super.send(data);
        }
    };
}"""
WIDGETS = {
    "SegmentTable": "widgets.SegmentTable(W)",
    "Player": "widgets.Player(W)",
    "TranscriptDiff": "widgets.TranscriptDiff(W)",
    "ThresholdTuner": "widgets.ThresholdTuner(W, 0.5)",
    "ReviewPanel": "widgets.ReviewPanel(W, reviewer='keys')",
}


@dataclass
class Lab:
    """A JupyterLab server with a page of it. Notebooks are opened in the page that is loaded, and
    share a kernel."""

    root: Path
    address: str
    page: Page
    kernel: str | None = None  # the id of the shared kernel, once it has started


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    root, home = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("home")
    with jupyter_lab(root, home) as address, chromium(height=1400) as (page, tried):
        page.set_default_timeout(60_000)
        page.add_init_script(f"({SLOW})()")
        yield Lab(root, address, page)
        assert tried == []


@pytest.fixture
def workspace(lab, request):
    """Segments of 2 s in one recording of gliding tones; the words of most mean harm."""
    root = lab.root / request.node.name.replace("[", "_").replace("]", "")
    (root / "audio").mkdir(parents=True)
    sf.write(root / "audio/a.wav", sweeps(30, RATE), RATE)
    texts = ["jedan dva tri četiri", "pet šest", *WORST]
    n = len(texts)
    workspace = Workspace.create(root / "w", source="made", audio=str(root / "audio"))
    facts = {
        "path": "a.wav",
        "sampling_rate": RATE,
        "num_channels": 2,
        "num_samples": 30 * RATE,
        "codec": "pcm_16",
    }
    times = [
        [{"start": 0.5 * i, "end": 0.5 * i + 0.5} for i in range(len(text.split()))]
        for text in texts[:2]
    ]
    workspace.save(
        recordings=pl.DataFrame({"recording_id": ["a"], **facts}),
        segments=pl.DataFrame(
            {
                "segment_id": [f"s{i}" for i in range(n)],
                "recording_id": "a",
                "start_sample": [(3 * i + 1) * RATE for i in range(n)],
                "end_sample": [(3 * i + 3) * RATE for i in range(n)],
                "source_start": [str(3 * i + 1) for i in range(n)],
                "source_end": [str(3 * i + 3) for i in range(n)],
                "text": texts,
                "asr_text": [
                    "jedan dvije tri četiri pet",
                    "pet šest",
                    *(text[::-1] for text in WORST),
                ],
                "speaker_id": [f"spk{i % 3}" for i in range(n)],
                "word_times": [*times, *[None] * (n - 2)],
                "similarity": [i / (n - 1) for i in range(n)],
                "decision": "accept",
                "split": "train",
            }
        ),
    )
    return workspace


def write_notebook(path, *sources):
    """Write a notebook of code cells with these sources."""
    cells = [
        {
            "cell_type": "code",
            "id": f"c{i}",
            "metadata": {},
            "outputs": [],
            "execution_count": None,
            "source": source,
        }
        for i, source in enumerate(sources)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    text = json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})
    path.write_text(text, encoding="utf8")


@contextmanager
def notebook(lab, workspace, *sources, view="doc/tree", new_kernel=False):
    """A notebook with these cells, run; gives a function that runs code in its kernel and reads an
    expression.

    Loading JupyterLab and starting a kernel take longer than most tests. So a notebook is opened in
    the page and by the kernel of the one before, whose widgets are closed and whose names are
    deleted, unless the view differs or the test changes more than that in its kernel.
    """
    page, folder = lab.page, workspace.path.parent
    setup = (
        "import nbaudio\nfrom functools import partial\nfrom nbaudio import widgets\nW = "
        f"{str(workspace.path)!r}"
    )
    write_notebook(folder / "n.ipynb", setup, *sources)
    path = f"{folder.name}/n.ipynb"
    shared = not new_kernel and view == "doc/tree"
    try:
        if lab.kernel and view == "doc/tree" and page.url.startswith(f"{lab.address}/{view}/"):
            open_beside(page, path, kernel=lab.kernel if shared else None)
        else:
            open_notebook(page, lab.address, path, view=view)
        if shared:
            lab.kernel = page.evaluate(f"() => {KERNEL}.id")
        assert errors(run_all(page)) == []
        page.wait_for_selector(".nba")
        yield partial(ask_kernel, page)
        page.evaluate(CLEAR if shared else SHUT_DOWN)
    except BaseException:
        lab.kernel = None  # the next test begins with a page and a kernel of which nothing is left
        raise


KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
CLEAR = f"""() => {KERNEL}.requestExecute(
    {{code: 'import ipywidgets; ipywidgets.Widget.close_all()\\n%reset -f', silent: true}}
).done.then(() => null)"""
SHUT_DOWN = "() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()"


def ask_kernel(page, expression, code=""):
    """Run code in the kernel of the notebook that is open; gives the repr of an expression."""
    return page.evaluate(
        f"""async ([code, expression]) => {{
            const reply = await {KERNEL}.requestExecute(
                {{code, user_expressions: {{value: expression}}, silent: false}}
            ).done;
            return reply.content.user_expressions.value.data['text/plain'];
        }}""",
        [code, expression],
    )


def change_theme(page, theme):
    """Show JupyterLab in a theme."""
    page.evaluate(
        "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme
    )
    page.wait_for_function(f"() => document.body.dataset.jpThemeName === '{theme}'")
    page.wait_for_timeout(500)  # its style sheets are loaded and applied


def cells(page):
    return page.evaluate(
        """() => Array.from(window.jupyterapp.shell.currentWidget.content.model.cells)
            .map(cell => [cell.type, cell.sharedModel.getSource()])"""
    )


def pixels(page, selector):
    """The canvas as an array of shape (height, width, 4)."""
    width, height, values = page.evaluate(
        """(selector) => {
            const canvas = document.querySelector(selector);
            const { data } =
                canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            let bytes = '';
            for (let i = 0; i < data.length; i += 8192)
                bytes += String.fromCharCode(...data.subarray(i, i + 8192));
            return [canvas.width, canvas.height, btoa(bytes)];
        }""",
        selector,
    )
    return np.frombuffer(base64.b64decode(values), dtype=np.uint8).reshape(height, width, 4)


def sound(page):
    """Which audio sounds: whether any does, where it is, its speed."""
    return page.evaluate(
        """() => {
            const all = [...document.querySelectorAll('audio')];
            const audio = all.find(each => !each.paused) ?? all[0];
            return {playing: !audio.paused, at: audio.currentTime, speed: audio.playbackRate};
        }"""
    )


SOUNDS = (
    "() => [...document.querySelectorAll('audio')].some(audio => !audio.paused && "
    "audio.currentTime > 0)"
)


@pytest.mark.parametrize("name", list(WIDGETS))
def test_keys_leave_the_notebook_unchanged_and_hostile_texts_are_only_shown(lab, workspace, name):
    page = lab.page
    with notebook(lab, workspace, WIDGETS[name]) as ask:
        page.wait_for_timeout(500)
        before = cells(page)
        widget = page.locator(".nba")
        for _ in WORST:  # all of them are looked at
            widget.evaluate("element => element.focus()")
            page.keyboard.press("ArrowDown")
            page.wait_for_timeout(50)
        for key in KEYS:
            widget.evaluate("element => element.focus()")
            page.keyboard.press(key)
        for place in page.locator(".nba button:visible:not(:disabled)").all()[:6]:
            for key in ("a", "x", "d", "d", "m"):
                if place.is_visible() and place.is_enabled():
                    place.evaluate("element => element.focus()")
                    page.keyboard.press(key)
        page.wait_for_timeout(300)
        assert cells(page) == before
        assert page.locator(".nba-alarm:visible").count() == 0
        assert page.evaluate("() => window.hurt") is None
        assert (
            page.locator(
                ".nba script, .nba img, .nba iframe, .nba b, .nba strong, .nba em, "
                ".nba a[href^=javascript]"
            ).count()
            == 0
        )
        assert ask("1 + 1") == "2"


def test_table_sorts_filters_moves_marks_and_tells_python(lab, workspace):
    page = lab.page
    with notebook(lab, workspace, "table = widgets.SegmentTable(W)\ntable") as ask:
        page.wait_for_selector(".nba-row:not([hidden]) .nba-cell:text('s0')")
        grid = page.get_by_role("grid")
        assert grid.get_attribute("aria-rowcount") == "10"
        page.get_by_role("button", name="sort by similarity").click()
        page.wait_for_selector("[aria-sort=ascending]:has-text('similarity')")
        page.get_by_role("button", name="sort by similarity").click()
        page.wait_for_selector("[aria-sort=descending]:has-text('similarity')")
        page.wait_for_selector(".nba-cursor .nba-cell:text('s8')")
        grid.focus()
        for key in ("ArrowDown", "ArrowDown", " ", "End", " "):
            page.keyboard.press(key)
            page.wait_for_timeout(100)
        assert ask("table.selected['segment_id'].to_list()") == "['s6', 's0']"
        page.locator(".nba-where").fill("similarity < 0.3")
        page.locator(".nba-where").press("Enter")
        page.wait_for_selector(".nba-count:text('3 of 9')")
        assert ask("table.shown['segment_id'].to_list()") == "['s2', 's1', 's0']"
        page.locator(".nba-where").fill("nonsense <")
        page.locator(".nba-where").press("Enter")
        page.wait_for_selector(".nba-alarm:visible:has-text('nonsense')")
        # Asked at once: the answer to the second counts
        for condition in (
            "nonsense <",
            "similarity == 0.1",
        ):
            page.locator(".nba-where").fill(condition)
            page.locator(".nba-where").press("Enter")
        page.wait_for_selector(".nba-alarm", state="hidden")
        page.locator(".nba-where").fill("speaker_id = 'nobody'")
        page.locator(".nba-where").press("Enter")
        page.wait_for_selector(".nba-count:has-text(\"0 of 9: no speaker_id 'nobody'\")")
        page.locator(".nba-where").fill("")
        page.locator(".nba-find").fill("ŠEST")
        page.wait_for_selector(".nba-count:text('1 of 9')")
        page.get_by_role("button", name="choose columns").click()
        page.locator(".nba-menu label:has-text('recording_id')").click()
        page.wait_for_selector("[role=columnheader]:has-text('recording_id')")
        # After a reload of the page the kernel still knows.
        page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        page.reload()
        page.wait_for_selector(".nba-count:text('1 of 9')")


def test_player_plays_loops_slows_widens_and_moves_bounds(lab, workspace):
    page = lab.page
    before = workspace.segments
    with notebook(
        lab, workspace, "player = widgets.Player(W, ['s0', 's1'], reviewer='ana')\nplayer"
    ):
        page.wait_for_selector("audio", state="attached")
        page.wait_for_function("() => document.querySelector('audio').readyState === 4")
        picture = pixels(page, ".nba-canvas")
        wave, bands = picture[:84], picture[86:194]
        assert (wave[..., 3] > 0).mean() > 0.05
        # Gliding tones: dark where the tone is, light elsewhere, and not the same at two times.
        assert bands[..., 0].min() < 60
        assert bands[..., 0].max() > 200
        assert (bands[:, 100] != bands[:, 400]).any()
        page.locator(".nba-player").focus()
        page.keyboard.press(" ")
        page.wait_for_function("() => document.querySelector('audio').currentTime > 0.1")
        page.wait_for_selector(".nba-lit .nba-word")
        page.keyboard.press(" ")
        assert not sound(page)["playing"]
        page.keyboard.press("-")
        page.keyboard.press("l")
        page.keyboard.press("s")
        page.wait_for_function(SOUNDS)
        assert sound(page)["speed"] == 0.75
        page.wait_for_timeout(3200)
        assert sound(page)["playing"], "a loop does not end"
        page.keyboard.press("l")
        page.keyboard.press(" ")
        page.locator(".nba-timed").nth(2).click()
        assert 1.0 <= sound(page)["at"] < 2.0
        page.keyboard.press("c")
        page.wait_for_function(
            "() => [...document.querySelectorAll('audio')].some(audio => "
            "Math.abs(audio.duration - 5) < 0.01)"
        )
        page.wait_for_selector(".nba-veil-after:visible")
        for key in ("q", "q", "w", "p", "k"):
            page.keyboard.press(key)
        page.wait_for_selector(
            ".nba-shift:has-text('corrected by ana: start −0.02 s, end +0.02 s')"
        )
        page.keyboard.press("ArrowDown")
        page.wait_for_selector(".nba-title:has-text('s1')")
    assert corrections(workspace).select("start_sample", "end_sample").rows() == [
        (RATE - 320, 3 * RATE + 320)
    ]
    assert workspace.segments.equals(before)
    assert nbaudio.review.correct_bounds(workspace).facts["corrected_now"] == 1


def test_a_click_on_a_word_plays_from_it_and_lights_it_in_both_lines(lab, workspace):
    page = lab.page
    with notebook(lab, workspace, "widgets.TranscriptDiff(W, ['s0', 's6'])"):
        page.wait_for_selector(".nba-item:nth-of-type(2) .nba-pair", state="attached")
        kinds = (
            page.locator(".nba-item")
            .first.locator(".nba-pair")
            .evaluate_all("all => all.map(e => e.className.split(' ')[1])")
        )
        assert kinds == ["nba-equal", "nba-replace", "nba-equal", "nba-equal", "nba-insert"]
        page.locator(".nba-timed").nth(1).click()
        page.wait_for_function("() => document.querySelectorAll('.nba-lit .nba-word').length === 2")
        page.wait_for_function("() => document.querySelector('audio').currentTime > 0.5")
        page.wait_for_function("() => document.querySelectorAll('.nba-words')[1].dir === 'rtl'")
        marks = page.evaluate(
            "() => getComputedStyle(document.querySelector('.nba-insert ins')).textDecorationLine"
        )
        assert "underline" in marks


NOW = "(value) => document.querySelector('[role=slider]').getAttribute('aria-valuenow') === value"
SIDE_PX = 46  # the numbers of the axis of segments
EDGE_PX = 14


def axis_start(page):
    """The similarity at which the axis of the tuner begins."""
    return float(page.get_by_role("slider").get_attribute("data-axis-start"))


def across(page, box, value):
    """Where the axis of the tuner has a similarity, in pixels of the page."""
    share = (value - axis_start(page)) / (1 - axis_start(page))
    return box["x"] + SIDE_PX + share * (box["width"] - SIDE_PX - EDGE_PX)


def test_a_threshold_moved_by_mouse_or_keys_is_available_in_python(lab, workspace):
    page = lab.page
    with notebook(lab, workspace, "tuner = widgets.ThresholdTuner(W, 0.5)\ntuner") as ask:
        page.wait_for_selector(".nba-example")
        slider = page.get_by_role("slider")
        assert slider.get_attribute("aria-valuenow") == "0.5"
        first = pixels(page, ".nba-plot")
        box = slider.bounding_box()
        start = axis_start(page)
        assert start > -1
        page.mouse.move(across(page, box, 0.6), box["y"] + 40)
        page.mouse.down()
        page.mouse.move(across(page, box, 0.8), box["y"] + 40, steps=10)
        page.mouse.up()
        page.wait_for_function(NOW, arg="0.8")
        # The pointer does not leave the axis; keys do, and it is whole from then on.
        page.mouse.move(across(page, box, 0.8), box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] - 50, box["y"] + 40, steps=5)
        page.mouse.up()
        page.wait_for_function(NOW, arg=f"{start:g}")
        page.locator(".nba-threshold-tuner").focus()
        page.keyboard.press("ArrowLeft")
        page.wait_for_function(NOW, arg=f"{round(start - 0.01, 2):g}")
        assert axis_start(page) == -1
        page.mouse.click(across(page, box, 0.8), box["y"] + 40)
        page.wait_for_function(NOW, arg="0.8")
        assert axis_start(page) == -1
        assert (pixels(page, ".nba-plot") != first).any()
        assert page.locator(".nba-figure").nth(1).inner_text().split("\n")[1] == "2"
        page.locator(".nba-threshold-tuner").focus()
        page.keyboard.press("ArrowLeft")
        page.wait_for_timeout(600)
        assert ask("tuner.value") == "0.79"
        page.wait_for_selector(".nba-example")
        page.keyboard.press("ArrowDown")
        page.wait_for_function(SOUNDS)
        ask("tuner.value", "tuner.value = 0.2")
        page.wait_for_function(NOW, arg="0.2")
        page.get_by_role("radio", name="duration_s").click()
        page.wait_for_selector(".nba-bar:has-text('duration in seconds, at most')")
        # The button turns it around; the condition for select follows.
        page.wait_for_selector(".nba-used:has-text('select(workspace, where=\"duration_s <= ')")
        page.locator(".nba-bar button:has-text('duration in seconds, at most')").click()
        page.wait_for_selector(".nba-bar:has-text('duration in seconds, at least')")
        page.wait_for_selector(".nba-used:has-text('select(workspace, where=\"duration_s >= ')")
        page.get_by_role("combobox", name="other column").select_option("start_sample")
        page.wait_for_selector(".nba-bar:has-text('start_sample, at least')")
        page.wait_for_timeout(600)
        assert ask("tuner.where").startswith("'start_sample >= ")


def test_a_threshold_is_typed_linked_and_stored_for_select(lab, workspace):
    page = lab.page
    link = (
        "import ipywidgets\nfield = ipywidgets.BoundedFloatText(value=tuner.value, min=-1, max=1)\n"
        "ipywidgets.jslink((tuner, 'value'), (field, 'value'))\nfield"
    )
    with notebook(lab, workspace, "tuner = widgets.ThresholdTuner(W)\ntuner", link) as ask:
        page.wait_for_selector(".nba-example")
        page.locator(".nba-threshold-tuner").focus()
        page.keyboard.press("t")
        page.keyboard.type("0.9835")
        page.keyboard.press("Enter")
        page.wait_for_function(NOW, arg="0.9835")
        assert page.locator(".nba-figure-value").first.inner_text() == "0.9835"
        page.wait_for_timeout(600)
        assert ask("tuner.value, field.value") == "(0.9835, 0.9835)"
        # Near 1 the steps are small and are shown.
        page.keyboard.press("ArrowRight")
        page.wait_for_function(NOW, arg="0.984")
        field = page.locator(".widget-text input[type=number]")
        expect(field).to_have_value("0.984")
        field.fill("0.835")
        field.press("Enter")
        page.wait_for_function(NOW, arg="0.835")
        assert workspace.threshold is None
        page.get_by_role("button", name="store it in the workspace").click()
        page.wait_for_selector(".nba-used:has-text('stored: select uses 0.835')")
        assert workspace.threshold == 0.835
        assert ask("tuner.used") == "0.835"
        page.get_by_role("radio", name="wer").click()
        page.wait_for_selector("button:disabled:has-text('use this threshold')")


def test_the_axis_of_segments_is_logarithmic_by_a_key_that_is_shown(lab, workspace):
    page = lab.page
    similarities = [1.0] * 6 + [0.2, 0.5, 0.7]
    workspace.save(
        segments=workspace.segments.with_columns(
            similarity=pl.Series(similarities[: len(workspace.segments)])
        )
    )
    with notebook(lab, workspace, "widgets.ThresholdTuner(W, 0.9)"):
        page.wait_for_selector(".nba-example")
        page.wait_for_timeout(300)
        assert "y log scale" in " ".join(page.locator(".nba-help").inner_text().split())
        linear = pixels(page, ".nba-plot")
        page.locator(".nba-threshold-tuner").focus()
        page.keyboard.press("y")
        page.wait_for_selector("button[aria-pressed=true]:has-text('log scale')")

        def bar(image, value):
            """The height of the bar at a similarity, in pixels."""
            scale = image.shape[1] / page.get_by_role("slider").bounding_box()["width"]
            left, right = SIDE_PX * scale, image.shape[1] - EDGE_PX * scale
            start = axis_start(page)
            # Its right side, as a bar of what is out is hollow.
            side = round(left + (value + 0.01 - start) / (1 - start) * (right - left))
            columns = image[round(25 * scale) : round(169 * scale), side - 3 : side + 2, 3]
            return int((columns > 0).any(axis=1).sum())

        logarithmic = pixels(page, ".nba-plot")
        assert bar(logarithmic, 0.2) > bar(linear, 0.2) + 5
        page.keyboard.press("y")
        page.wait_for_selector("button[aria-pressed=false]:has-text('log scale')")
        assert (pixels(page, ".nba-plot") == linear).all()


def test_only_clips_near_the_current_threshold_are_played(lab, workspace):
    page = lab.page
    with notebook(lab, workspace, "tuner = widgets.ThresholdTuner(W, 0.5)\ntuner") as ask:
        page.wait_for_selector(".nba-example")
        page.locator(".nba-threshold-tuner").focus()
        page.keyboard.press("ArrowDown")
        page.wait_for_function(SOUNDS)
        # The kernel is slow to name the segments at the new threshold; a key that is pressed
        # meanwhile waits for them.
        slow = (
            "import time\nheld = tuner._calls['tuner.examples']\ndef late(**asked):\n    "
            "time.sleep(1)\n    return held(**asked)"
        )
        ask("0", f"{slow}\ntuner._calls['tuner.examples'] = late")
        page.keyboard.press("Shift+ArrowLeft")
        page.keyboard.press("Shift+ArrowLeft")
        page.keyboard.press("Shift+ArrowLeft")
        page.keyboard.press("ArrowDown")
        page.wait_for_timeout(300)
        assert not sound(page)["playing"]
        page.wait_for_function(SOUNDS)
        # 0.2: the nearest that is kept is the third of the nine, at 0.25. Its name comes in a
        # message after its audio.
        page.wait_for_function(
            "() => document.querySelector('.nba-listening code').innerText === 's2'"
        )
        assert page.locator(".nba-example.nba-chosen .nba-score").inner_text() == "0.250"


def test_a_tuner_without_audio_shows_texts_and_fits_a_narrow_window(lab, workspace):
    page = lab.page
    bare = Workspace.create(workspace.path.parent / "bare", source="made", audio=None)
    names = ["segment_id", "recording_id", "text", "asr_text", "speaker_id", "similarity"]
    bare.save(
        recordings=pl.DataFrame({"recording_id": ["a"]}), segments=workspace.segments.select(names)
    )
    page.set_viewport_size({"width": 480, "height": 1400})
    try:
        with notebook(lab, bare, "widgets.ThresholdTuner(W, 0.1)"):
            page.wait_for_selector(".nba-example")
            texts = page.locator(".nba-example-text").all_inner_texts()
            assert texts[0] == "pet šest"
            assert "jedan dva tri četiri" in texts
            page.locator(".nba-threshold-tuner").focus()
            page.keyboard.press("ArrowDown")
            page.wait_for_selector(".nba-note:has-text('no')")
            page.wait_for_selector(".nba-listening .nba-pair")
            inside = (
                "() => { const w = document.querySelector('.nba'); "
                "return w.scrollWidth <= w.clientWidth; }"
            )
            assert page.evaluate(inside)
    finally:
        page.set_viewport_size({"width": 1280, "height": 1400})


def test_progress_is_a_bar_that_ends_as_a_line(lab, workspace):
    page = lab.page
    slow = (
        "import time\nfrom nbaudio.core.progress import progress\nwith progress('verify', "
        "20, 'shards') as advance:\n"
        "    for _ in range(20):\n        advance(1)\n        time.sleep(0.15)"
    )
    ended = ".jp-OutputArea-output:has-text('verify: 20 shards in 3')"
    with notebook(lab, workspace, "widgets.TranscriptDiff(W, ['s0'])", slow):
        page.wait_for_selector(ended)
        # Once more, and looked at meanwhile.
        page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
        page.wait_for_selector(".widget-hbox:has-text('verify') .widget-hprogress")
        page.wait_for_selector(".widget-hbox:has-text('shards')")
        page.wait_for_selector(ended)
        assert page.locator(".widget-hprogress").count() == 0
        assert page.locator("[data-mime-type='application/vnd.jupyter.stderr']").count() == 0


def test_a_review_by_keyboard_continues_in_another_kernel(lab, workspace):
    page = lab.page
    shown = "(id) => document.querySelector('.nba-title code')?.innerText === id"
    with notebook(lab, workspace, "panel = widgets.ReviewPanel(W, reviewer='ana')\npanel") as ask:
        page.wait_for_function(shown, arg="s0")
        page.locator(".nba-review-panel").focus()
        page.keyboard.press("1")
        page.wait_for_function(shown, arg="s1")
        page.wait_for_function(SOUNDS)
        page.keyboard.press("t")
        page.keyboard.type("tiho d d x 1")
        page.keyboard.press("Enter")
        page.keyboard.press("6")
        page.wait_for_function(shown, arg="s2")
        page.keyboard.press("3")
        page.wait_for_function(shown, arg="s3")
        page.keyboard.press("u")
        page.wait_for_function(shown, arg="s2")
        page.wait_for_selector(".nba-progress:has-text('2 of 9 judged')")
        assert ask("panel.progress['counts']") == "{'ok': 1, 'noise': 1}"
    assert verdicts(workspace).select("segment_id", "verdict", "comment").rows() == [
        ("s0", "ok", ""),
        ("s1", "noise", "tiho d d x 1"),
    ]
    assert len(verdict_log(workspace)) == 4
    again = "panel = widgets.ReviewPanel(W, reviewer='ana')\npanel"
    with notebook(lab, workspace, again, new_kernel=True):
        page.wait_for_function(shown, arg="s2")


def test_a_corrected_text_is_stored_with_a_fault_but_not_with_ok(lab, workspace):
    page = lab.page
    shown = "(id) => document.querySelector('.nba-title code')?.innerText === id"
    with notebook(lab, workspace, "panel = widgets.ReviewPanel(W, reviewer='ana')\npanel"):
        page.wait_for_function(shown, arg="s0")
        page.locator(".nba-review-panel").focus()
        page.keyboard.press("e")
        page.keyboard.press("End")
        page.keyboard.type(" kat")
        page.keyboard.press("Enter")
        page.keyboard.press("1")
        page.wait_for_selector(".nba-alarm:has-text('there are corrected words')")
        assert len(verdict_log(workspace)) == 0
        page.keyboard.press("2")
        page.wait_for_function(shown, arg="s1")
        page.keyboard.press("e")
        page.keyboard.press("Control+A")
        page.keyboard.press("Delete")
        page.keyboard.press("Enter")
        page.keyboard.press("1")
        page.wait_for_selector(".nba-progress:has-text('2 of 9 judged')")
    texts = workspace.segments["text"]
    assert verdicts(workspace).select("segment_id", "verdict", "corrected_text").rows() == [
        ("s0", "wrong words", f"{texts[0]} kat"),
        ("s1", "ok", None),
    ]


def test_saved_notebooks_hold_no_widget_state_and_show_without_a_kernel(lab, workspace):
    page = lab.page
    with notebook(lab, workspace, *WIDGETS.values()):
        page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        path = workspace.path.parent / "n.ipynb"
        for _ in range(100):
            saved = json.loads(path.read_text(encoding="utf8"))
            if saved["cells"][-1]["outputs"]:
                break
            page.wait_for_timeout(100)
    assert "widgets" not in saved["metadata"]
    for cell in saved["cells"]:
        for output in cell["outputs"]:
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
    (path.parent / "kept.ipynb").write_text(json.dumps(saved), encoding="utf8")
    # From elsewhere, hence not trusted; with no kernel that would know a widget.
    page.goto(f"{lab.address}/doc/tree/{path.parent.name}/kept.ipynb?reset")
    page.wait_for_selector(".jp-OutputArea-output audio", state="attached")
    page.wait_for_function(
        "() => [...document.querySelectorAll('audio')].every(audio => audio.duration > "
        "0.5 && !audio.error)"
    )
    assert page.locator(".jp-OutputArea-output table").count() >= 1
    assert page.locator(".jp-OutputArea-output script").count() == 0
    assert page.evaluate("() => window.hurt") is None
