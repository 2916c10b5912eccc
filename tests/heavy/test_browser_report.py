"""The statistics page in Chromium, opened as a file: light and dark, values on hover, clips that
play, nothing fetched."""

import re
from itertools import pairwise

import polars as pl
import pytest
from browser import CHROMIUM, chromium
from contrast import faint_texts

from nbaudio.corpus.materialize import materialize
from nbaudio.selection.select import select
from nbaudio.ui.statistics.stats import stats

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
NARROW = {"width": 400, "height": 800}
PLAY = """async () => {
    const clip = document.querySelector("audio");
    clip.muted = true;
    await clip.play();
    await new Promise((done) => clip.addEventListener(
        "timeupdate", () => clip.currentTime > 0 && done()
    ));
    return [clip.duration, clip.currentTime];
}"""


@pytest.fixture
def pages(make_workspace, tmp_path):
    """Pages of a workspace and of its corpus, with the hypothesis wrong in places."""
    workspace = make_workspace({"one.wav": (60.0, 16000), "two.flac": (30.0, 16000)}, channels=1)
    number = pl.int_range(pl.len())
    changed = workspace.segments.with_columns(
        asr_text=pl.col("text") + " nešto",
        similarity=pl.when(number % 9 == 8).then(0.3).otherwise(0.9),
        wer=0.1,
    )
    workspace.save(segments=changed)
    select(workspace, dev=2, test=2, group_by="")
    materialize(workspace, out=tmp_path / "c", jobs=1, engine="threading", show_progress=False)
    for path, name in ((workspace.path, "w.html"), (tmp_path / "c", "c.html")):
        stats(path, out=tmp_path / name)
    return [tmp_path / "w.html", tmp_path / "c.html"]


def test_a_page_is_read_heard_and_hovered_offline(pages):
    with chromium() as (page, tried):
        refused = []
        page.on("console", lambda message: refused.append(message.text))
        # Nothing but the file itself: the browser's guard would refuse files.
        page.unroute("**/*")
        page.on(
            "request",
            lambda request: (
                tried.append(request.url)
                if not request.url.startswith(("file:", "data:"))
                else None
            ),
        )
        for path in pages:
            grounds = []
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.goto(path.as_uri())
                assert faint_texts(page) == []
                grounds.append(
                    page.evaluate("() => getComputedStyle(document.body).backgroundColor")
                )
            assert grounds[0] != grounds[1]
            headings = page.locator("h1, h2, h3").evaluate_all(
                "all => all.map((each) => Number(each.tagName[1]))"
            )
            assert headings[0] == 1
            assert all(after - before <= 1 for before, after in pairwise(headings))
            duration, played = page.evaluate(PLAY)
            assert duration > 0
            assert played > 0
            # A link to a finding leads to its section; a bar says its numbers under the pointer.
            page.get_by_role("link", name="Durations and similarity").click()
            bar = page.locator("svg .nbaudio-values rect").first
            bar.hover()
            assert re.search(r"segments: \d", bar.locator("title").text_content())
            assert bar.evaluate("(element) => element.matches(':hover')")
            assert all(
                page.locator("svg[role=img]").evaluate_all(
                    "all => all.map((each) => each.ariaLabel.length > 20)"
                )
            )
            # Narrow windows and paper: nothing sticks out of the page, and a plot stays legible.
            page.set_viewport_size(NARROW)
            assert page.evaluate("() => document.documentElement.scrollWidth") <= NARROW["width"]
            heights = page.locator("svg text").evaluate_all(
                "all => all.map((each) => each.getBoundingClientRect().height)"
            )
            assert min(heights) > 8
            page.emulate_media(media="print", color_scheme="dark")
            assert faint_texts(page) == []
            assert not page.locator("audio").first.is_visible()
            page.set_viewport_size({"width": 1280, "height": 900})
            page.emulate_media(media="screen")
        assert not refused
        assert not tried
