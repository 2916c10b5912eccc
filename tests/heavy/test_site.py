"""The documentation site: every page opens from disk without a network, nothing on it fails, and
search works."""

import os
import subprocess
from pathlib import Path

import pytest
from browser import CHROMIUM, CHROMIUM_OPTIONS
from playwright.sync_api import sync_playwright

TOP = Path(__file__).resolve().parents[2]
BUILT = os.environ.get("NBAUDIO_SITE")  # a site that was built just now: see .ci/run
SITE = Path(BUILT) if BUILT else TOP / "site"
LOCAL = ("file:", "data:", "blob:")
ABORTED = "net::ERR_ABORTED"  # the page was left before the request was done
# Pictures that are not there.
LOST = "() => [...document.images].filter(image => !image.naturalWidth).map(image => image.alt)"


@pytest.fixture(scope="module")
def pages():
    """Pages of the site that `make docs` builds."""
    if not BUILT:
        subprocess.run(["make", "docs"], cwd=TOP, check=True)
    # 404.html wants a server.
    return sorted(path for path in SITE.rglob("*.html") if path.name != "404.html")


@pytest.fixture(scope="module")
def window():
    """A page of a browser without network, and what went wrong or was requested from elsewhere."""
    wrong = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        page = browser.new_context(offline=True).new_page()
        page.on(
            "request",
            lambda request: None if request.url.startswith(LOCAL) else wrong.append(request.url),
        )
        page.on(
            "requestfailed",
            lambda request: None if request.failure == ABORTED else wrong.append(request.url),
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "console",
            lambda message: wrong.append(message.text) if message.type == "error" else None,
        )
        yield page, wrong
        browser.close()


def test_pages_of_the_site_open_from_disk_without_a_network(pages, window):
    page, wrong = window
    assert len(pages) > 40
    for path in pages:
        page.goto(path.as_uri())
        assert page.locator(".md-header").count() == 1, path
        assert wrong == [], path
        assert page.evaluate(LOST) == [], path


def test_the_first_page_is_the_readme_with_a_picture_and_links_the_list_of_pages(pages, window):
    page, wrong = window
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto((SITE / "index.html").as_uri())
    picture = page.locator("article img").first
    assert picture.get_attribute("src") == "img/listen.png"
    box = picture.bounding_box()
    assert box["y"] + box["height"] / 2 < 900  # pixels: most of it is on the first screen
    assert page.locator("h2", has_text="Two commands").count() == 1
    page.locator("article").get_by_role("link", name="All documentation").click()
    assert page.url == (SITE / "pages.html").as_uri()
    listed = page.locator("article li a").evaluate_all(
        "links => links.map(link => link.pathname.split('/').pop())"
    )
    assert {"story.html", "reference.html", "evidence.html", "changelog.html"} <= set(listed)
    assert wrong == []


def test_search_finds_a_page_from_disk(pages, window):
    page, wrong = window
    page.goto((SITE / "index.html").as_uri())
    page.click("input[name=query]")
    page.keyboard.type("backoff", delay=30)
    page.locator(".md-search-result__item", has_text="When a server fails").first.wait_for()
    assert wrong == []


def test_notebook_pages_show_outputs_and_play_audio(pages, window):
    page, wrong = window
    page.goto((SITE / "notebooks/03_listen.html").as_uri())
    player = page.locator(".notebook-output audio").first
    assert player.evaluate("async player => { await player.play(); return player.duration }") > 1
    assert page.locator(".notebook-output").count() >= 4
    assert wrong == []


def test_the_reference_is_generated(pages, window):
    page, _ = window
    page.goto((SITE / "reference.html").as_uri())
    assert page.locator("h3:has-text('nbaudio materialize')").count() == 1
    assert page.locator("td:has-text('--shard-size')").count() >= 2
    page.goto((SITE / "api/steps.html").as_uri())
    assert page.locator("h2[id$=ingest]").count() == 1
    page.goto((SITE / "tables.html").as_uri())
    assert page.locator("tr:has-text('start_sample') >> text=Int64").count() == 1
