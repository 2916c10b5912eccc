"""Texts of the demo's pages in Chromium, light and dark: contrast, and the length of its report."""

import pytest
from browser import CHROMIUM, CHROMIUM_OPTIONS
from contrast import faint_texts
from playwright.sync_api import sync_playwright
from typer.testing import CliRunner

from nbaudio import review
from nbaudio.cli import app

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
FAINT = """<body style="background: white">
    <p style="color: #777">4.48 : 1</p>
    <p style="color: #767676">4.54 : 1</p>
    <p style="color: black; opacity: 0.5">3.95 : 1</p>
    <div style="background: rgb(0 0 0 / 50%)"><p style="color: white">3.95 : 1</p></div>
    <p style="color: color-mix(in srgb, white, #0072b2)">2.3 : 1</p>
    <details><p style="color: #999">2.85 : 1</p></details>
    <svg><text y="20" fill="#ddd">1.36 : 1</text></svg>
    <p style="color: #fff; display: none">not shown</p>
</body>"""


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The folder that the demo writes, with a page for a reviewer."""
    out = tmp_path_factory.mktemp("demo")
    process = CliRunner().invoke(app, ["demo", "--out", str(out)])
    assert process.exit_code == 0, process.output
    review.export(out / "workspace", out=out / "review.html", n=4)
    return out


def test_contrast_is_measured_against_the_painted_background(browser):
    page = browser.new_page()
    page.set_content(FAINT)
    faint = {text["text"]: round(text["contrast"], 1) for text in faint_texts(page)}
    page.close()
    assert faint.pop("2.3 : 1") == pytest.approx(2.3, abs=0.2)
    assert faint == {
        "4.48 : 1": 4.5,
        "3.95 : 1": 4.0,
        "2.85 : 1": 2.8,
        "1.36 : 1": 1.4,
    }


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_of_the_pages_of_the_demo_has_contrast(browser, demo, scheme):
    page = browser.new_page(color_scheme=scheme, viewport={"width": 1400, "height": 900})
    paths = [*sorted((demo / "html").glob("*.html")), demo / "report.html", demo / "review.html"]
    assert len(paths) == 11
    faint = {}
    for path in paths:
        page.goto(path.as_uri())
        page.wait_for_timeout(400)  # the page of a reviewer draws its segments
        faint[path.name] = faint_texts(page)
    page.close()
    assert {name: texts for name, texts in faint.items() if texts} == {}


def test_the_demo_report_is_short_on_screen_and_complete_in_print(browser, demo):
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto((demo / "report.html").as_uri())
    assert page.evaluate("() => document.documentElement.scrollHeight") < 5000
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 1400
    figures = page.locator("dl dd.figure").first.bounding_box()
    assert figures
    assert figures["y"] < 300  # pixels: the key figures are what one sees first
    folded = page.locator("details table").first
    assert not folded.is_visible()
    page.emulate_media(media="print")
    assert folded.is_visible()
    page.close()
