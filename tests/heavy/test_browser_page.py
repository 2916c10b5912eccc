"""Review pages opened from a file in Chromium, as a colleague does who was sent one: judge, come
back, save, send back."""

import json
import re
from contextlib import contextmanager

import numpy as np
import polars as pl
import pytest
import soundfile
from browser import CHROMIUM, CHROMIUM_OPTIONS
from conftest import sweeps
from hostile import WORST
from playwright.sync_api import expect, sync_playwright
from sheets import RATE, make_workspace

from nbaudio import review
from nbaudio.review import review_page

WORDS = pl.List(pl.Struct({"start": pl.Float64, "end": pl.Float64}))
SHOWN = (
    "number => document.querySelector(`[role=row][aria-rowindex='${number + "
    "2}']`)?.getAttribute('aria-selected') === 'true'"
)
PLAYS = "since => Number(document.querySelector('.nba-review-panel').dataset.playing) > since"
NOW = "performance.now()"
ROWS = ".nba-row:visible"
VERDICTS = ".nba-row [role=gridcell]:nth-child(3)"


@contextmanager
def browser(tmp_path, *, script=""):
    """Yield a function that opens a page in a new tab; nothing but files of the folder may be
    requested, nothing may fail."""
    bad = []

    def guard(route):
        if route.request.url.startswith((tmp_path.as_uri(), "blob:", "data:")):
            route.continue_()
        else:
            bad.append(route.request.url)
            route.abort()

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        context = chromium.new_context(viewport={"width": 1000, "height": 900})
        context.set_default_timeout(30_000)
        context.route("**/*", guard)
        context.add_init_script(script)

        def opened(path):
            page = context.new_page()
            page.on("pageerror", lambda error: bad.append(str(error)))
            page.on("console", lambda message: message.type == "error" and bad.append(message.text))
            page.goto(path.as_uri())
            return page

        yield opened, bad
        chromium.close()


@pytest.fixture
def workspace(tmp_path):
    """Eight segments of a second with word times, audible."""
    count = 8
    texts = [f"jedan {i} tri četiri" for i in range(count)]
    workspace = make_workspace(
        tmp_path / "w",
        texts,
        [f"jedan {i} tajna četiri" for i in range(count)],
        audio=tmp_path / "audio",
    )
    soundfile.write(tmp_path / "audio/r.wav", sweeps(count, RATE, channels=1)[:, 0], RATE)
    times = [[{"start": i / 4, "end": (i + 1) / 4} for i in range(4)]] * count
    workspace.save(
        segments=workspace.segments.with_columns(word_times=pl.Series(times, dtype=WORDS))
    )
    return workspace


def name_oneself(page, name="ana"):
    page.get_by_label("your name").fill(name)
    page.get_by_label("your name").press("Enter")


def judge(page, key, *, then):
    """Press a verdict's key; wait until the next clip, of that number, is shown and plays."""
    since = page.evaluate(NOW)
    page.keyboard.press(key)
    page.wait_for_function(SHOWN, arg=then)
    page.wait_for_function(PLAYS, arg=since)


def write(page, key, label, text):
    """Go to a field by its key, and write into it."""
    page.keyboard.press(key)
    expect(page.get_by_label(label)).to_be_focused()
    page.get_by_label(label).fill(text)
    page.keyboard.press("Enter")


def save(page, folder):
    with page.expect_download() as download:
        page.get_by_role("button", name="save the verdicts").click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def logged(workspace):
    columns = ("verdict", "comment", "corrected_text", "reviewer", "blind")
    return {
        row["segment_id"]: tuple(map(row.get, columns))
        for row in review.verdict_log(workspace).iter_rows(named=True)
    }


def test_a_colleague_judges_comes_back_saves_and_sends_the_file(tmp_path, workspace):
    review.export(workspace, out=tmp_path / "round.html", n=8, blind=False)
    ids = json.loads((workspace.path / "reviews/round.json").read_text())["segment_ids"]
    with browser(tmp_path) as (opened, bad):
        page = opened(tmp_path / "round.html")
        name_oneself(page)
        progress, status = page.locator(".nba-progress"), page.locator("header [role=status]")
        judge(page, "1", then=1)
        judge(page, "6", then=2)
        write(page, "t", "comment", "čuje se = pas")
        write(page, "e", "corrected words", "jedan dva")
        page.keyboard.press("1")
        expect(page.locator(".nba-alarm:visible")).to_contain_text("corrected words")
        judge(page, "2", then=3)
        page.keyboard.press("Shift+Digit6")
        expect(page.locator(VERDICTS).nth(3)).to_have_text("noise")
        judge(page, "3", then=4)
        page.keyboard.press("u")
        page.wait_for_function(SHOWN, arg=3)
        expect(progress).to_contain_text("4 of 8 judged")
        page.keyboard.press("u")
        expect(progress).to_contain_text("3 of 8 judged")
        expect(status).to_contain_text("7 changes are not in a verdict file yet")
        assert page.locator(VERDICTS).all_inner_texts() == ["ok", "noise", "wrong words", *[""] * 5]

        # Leaving warns; what was judged is there again.
        warned = []
        page.on("dialog", lambda dialog: (warned.append(dialog.type), dialog.accept()))
        page.reload()
        assert warned == ["beforeunload"]
        expect(progress).to_contain_text("3 of 8 judged")
        page.wait_for_function(SHOWN, arg=3)
        first = save(page, tmp_path)
        assert first.name == "round-ana-verdicts.json"
        expect(status).to_contain_text("all verdicts are in the verdict file")
        assert review.import_(workspace, first).problems == []
        said = dict(
            zip(ids, [("ok", ""), ("noise", ""), ("wrong words", "čuje se = pas")], strict=False)
        )
        expected = {key: (*words, None, "ana", False) for key, words in said.items()}
        expected[ids[2]] = ("wrong words", "čuje se = pas", "jedan dva", "ana", False)
        assert logged(workspace) == expected

        # The rest, to the end.
        page.locator(ROWS).nth(7).click()
        page.wait_for_function(SHOWN, arg=7)
        for then in (3, 4, 5, 6):
            judge(page, "1", then=then)
        page.keyboard.press("Shift+Digit6")
        expect(page.locator(VERDICTS).nth(6)).to_have_text("noise")
        page.keyboard.press("3")
        expect(page.locator(".nba-next-step")).to_contain_text("all judged")
        report = review.import_(workspace, [save(page, tmp_path), first])
        assert (report.problems, len(review.verdicts(workspace))) == ([], 8)
        assert logged(workspace)[ids[6]][0] == "cut off, noise"
        page.reload()
        assert (warned, bad) == (["beforeunload"], [])


def test_after_a_jump_the_next_segment_is_the_one_after_it(tmp_path, workspace):
    review.export(workspace, out=tmp_path / "round.html", n=8, blind=False)
    with browser(tmp_path) as (opened, bad):
        page = opened(tmp_path / "round.html")
        name_oneself(page)
        judge(page, "1", then=1)
        # The key comes right after the click, before anything is loaded for the row.
        page.evaluate("""() => {
            document.querySelectorAll(".nba-row")[5].click();
            const key = new KeyboardEvent("keydown", { key: "1", code: "Digit1", bubbles: true });
            document.querySelector(".nba-review-panel").dispatchEvent(key);
        }""")
        page.wait_for_function(SHOWN, arg=6)
        assert page.locator(VERDICTS).all_inner_texts() == ["ok", *[""] * 4, "ok", "", ""]
        assert bad == []


def test_a_page_has_all_controls_that_work_without_the_recording(tmp_path, workspace):
    review.export(workspace, out=tmp_path / "round.html", n=8, blind=False)
    with browser(tmp_path) as (opened, bad):
        page = opened(tmp_path / "round.html")
        name_oneself(page)
        judge(page, "6", then=1)
        expect(page.locator(".nba-lit")).to_have_count(1)  # the word that is playing
        assert page.get_by_role("button", name="context").count() == 0
        page.keyboard.press("?")
        assert "zoom in" in page.locator("dialog").inner_text()
        assert "start of the segment" not in page.locator("dialog").inner_text()
        page.keyboard.press("Escape")
        page.keyboard.press("z")
        expect(page.locator(".nba-canvas")).to_have_attribute(
            "aria-label", re.compile("from .* to .* seconds")
        )
        page.keyboard.press("l")
        expect(page.get_by_role("button", name="repeat")).to_have_attribute("aria-pressed", "true")
        page.keyboard.press("/")
        page.keyboard.type("noise")
        expect(page.locator(ROWS)).to_have_count(1)
        page.get_by_label("find text").fill("")
        expect(page.locator(ROWS)).to_have_count(8)
        assert bad == []


def test_comments_and_corrections_after_the_verdict_are_stored(tmp_path, workspace):
    review.export(workspace, out=tmp_path / "round.html", n=8, blind=False, reviewers=["ana"])
    ids = json.loads((workspace.path / "reviews/round.json").read_text())["segment_ids"]
    with browser(tmp_path) as (opened, bad):
        page = opened(tmp_path / "round-ana.html")
        expect(page.locator(".nba-progress")).to_contain_text("0 of 8 judged")
        judge(page, "6", then=1)
        judge(page, "1", then=2)
        page.keyboard.press("ArrowUp")
        page.wait_for_function(SHOWN, arg=1)
        expect(page.locator(".nba-verdicts button").nth(0)).to_have_attribute(
            "aria-pressed", "true"
        )
        write(page, "e", "corrected words", "jedan dva")
        expect(page.locator(".nba-alarm:visible")).to_contain_text("corrected words")
        page.keyboard.press("ArrowUp")
        page.wait_for_function(SHOWN, arg=0)
        expect(page.locator(".nba-verdicts button").nth(5)).to_have_attribute(
            "aria-pressed", "true"
        )
        write(page, "t", "comment", "drill")
        write(page, "e", "corrected words", "jedan tri")
        expect(page.locator("header [role=status]")).to_contain_text("4 changes")
        # Without a verdict there is nothing to store it with.
        page.keyboard.press("n")
        page.wait_for_function(SHOWN, arg=2)
        write(page, "t", "comment", "lost")
        page.keyboard.press("ArrowUp")
        page.wait_for_function(SHOWN, arg=1)
        expect(page.locator(".nba-alarm:visible")).to_contain_text(
            "the comment was not saved: a verdict is needed"
        )
        page.keyboard.press("ArrowUp")
        expect(page.locator(".nba-alarm:visible")).to_have_count(0)
        page.keyboard.press("n")
        page.wait_for_function(SHOWN, arg=2)
        write(page, "e", "corrected words", "jedan dva")
        page.keyboard.press("ArrowUp")
        page.wait_for_function(SHOWN, arg=1)
        expect(page.locator(".nba-alarm:visible")).to_contain_text(
            "the corrected words were not saved: a verdict is needed"
        )
        assert review.import_(workspace, save(page, tmp_path)).problems == []
        assert bad == []
    assert logged(workspace) == {
        ids[0]: ("noise", "drill", "jedan tri", "ana", False),
        ids[1]: ("ok", "", None, "ana", False),
    }


def test_verdicts_that_were_loaded_from_a_file_are_in_that_file(tmp_path, workspace):
    review.export(workspace, out=tmp_path / "round.html", n=8, blind=False, reviewers=["ana"])
    with browser(tmp_path) as (opened, _):
        page = opened(tmp_path / "round-ana.html")
        expect(page.locator(".nba-progress")).to_contain_text("0 of 8 judged")
        judge(page, "6", then=1)
        file = save(page, tmp_path)
    with browser(tmp_path) as (opened, bad):
        page = opened(tmp_path / "round-ana.html")
        page.locator("input[type=file]").set_input_files(file)
        expect(page.locator("header [role=alert]")).to_contain_text(
            "1 verdict is loaded; newer ones of this page are kept"
        )
        expect(page.locator("header [role=status]")).to_have_text(
            "all verdicts are in the verdict file"
        )
        judge(page, "1", then=2)
        expect(page.locator("header [role=status]")).to_contain_text(
            "1 change is not in a verdict file yet"
        )
        assert bad == []


def test_pages_of_two_reviewers_with_clips_in_a_folder(tmp_path, workspace, monkeypatch):
    monkeypatch.setattr(review_page, "MOST_EMBEDDED_BYTES", 1000)
    review.export(
        workspace,
        out=tmp_path / "round.html",
        n=8,
        reviewers=["ana", "ben"],
        overlap=8,
        blind=True,
        clips="wav",
    )
    with browser(tmp_path) as (opened, bad):
        files = []
        for name, keys in (("ana", "12111111"), ("ben", "12112111")):
            page = opened(tmp_path / f"round-{name}.html")
            expect(page.get_by_label("reviewer", exact=True)).to_have_value(name)
            assert "tajna" not in page.content()
            assert page.locator(".nba-hypothesis").count() == 0
            for number, key in enumerate(keys[:-1], start=1):
                judge(page, key, then=number)
            page.keyboard.press(keys[-1])
            expect(page.locator(".nba-progress")).to_contain_text("8 of 8 judged")
            files.append(save(page, tmp_path))
        report = review.import_(workspace, files)
        assert (report.problems, report.facts["disagreements"]) == ([], 1)
        assert report.facts["agreement"][0]["value"] == 7 / 8
        assert {said[-1] for said in logged(workspace).values()} == {True}
        assert bad == []

        # Without its folder, the page says what is missing.
        (tmp_path / "clips").rename(tmp_path / "elsewhere")
        page = opened(tmp_path / "round-ana.html")
        expect(page.locator("header [role=alert]")).to_contain_text(
            "keep the folder 'clips' beside this page"
        )


def test_hostile_texts_run_nothing_in_a_browser_without_local_storage(tmp_path):
    texts = [*WORST, "</script><script>window.hurt = 3</script>", "<!-- <script>"]
    workspace = make_workspace(tmp_path / "w", texts, texts[::-1], audio=tmp_path / "audio")
    soundfile.write(tmp_path / "audio/r.wav", np.zeros(len(texts) * RATE), RATE)
    review.export(workspace, out=tmp_path / "r'o\"<b>u.html", n=len(texts), blind=False)
    forbid = (
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('forbidden'); } })"
    )
    with browser(tmp_path, script=forbid) as (opened, bad):
        page = opened(tmp_path / "r'o\"<b>u.html")
        name_oneself(page, WORST[0][:40])
        expect(page.get_by_text("This browser keeps nothing for this page")).to_be_visible()
        for number in range(1, len(texts)):
            write(page, "t", "comment", "</script> =1+1 \u202e")
            judge(page, "6", then=number)
        file = save(page, tmp_path)
        page.reload()
        name_oneself(page, WORST[0][:40])
        expect(page.locator(".nba-progress")).to_contain_text(f"0 of {len(texts)}")
        page.locator("input[type=file]").set_input_files(file)
        expect(page.locator(".nba-progress")).to_contain_text(f"{len(texts) - 1} of {len(texts)}")
        (tmp_path / "bad.json").write_text('{"format": "nbaudio verdicts 1"}')
        page.locator("input[type=file]").set_input_files(tmp_path / "bad.json")
        expect(page.locator("header [role=alert]")).to_contain_text(
            "not a verdict file of this page"
        )
        assert page.evaluate("window.hurt") is None
        assert bad == []
    report = review.import_(workspace, file)
    assert report.problems == []
    assert {said[:2] for said in logged(workspace).values()} == {("noise", "</script> =1+1 \u202e")}


def test_two_reviewers_on_one_page_file_each_keep_their_own_verdicts(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.html", n=8)
    with browser(tmp_path) as (opened, bad):
        page = opened(tmp_path / "one.html")
        name_oneself(page, "ana")
        count = page.locator(".nba-progress")
        reviewer = page.get_by_label("reviewer")
        judge(page, "1", then=1)
        judge(page, "1", then=2)
        expect(count).to_contain_text("2 of 8 judged")
        reviewer.fill("ben")
        reviewer.press("Enter")
        expect(count).to_contain_text("0 of 8 judged")
        page.keyboard.press("Home")
        page.keyboard.press("2")
        expect(count).to_contain_text("1 of 8 judged")
        # Another tab of the same file goes on as the last reviewer, and as the first one.
        again = opened(tmp_path / "one.html")
        expect(again.locator(".nba-progress")).to_contain_text("1 of 8 judged")
        again.get_by_label("reviewer").fill("ana")
        again.get_by_label("reviewer").press("Enter")
        expect(again.locator(".nba-progress")).to_contain_text("2 of 8 judged")
        path = save(again, tmp_path)
    assert bad == []
    assert path.name == "one-ana-verdicts.json"
    verdicts = [row["verdict"] for row in json.loads(path.read_text())["verdicts"]]
    assert sorted(filter(None, verdicts)) == ["ok", "ok"]


def test_a_page_proposes_a_break_after_45_minutes_without_a_pause(workspace, tmp_path):
    clock = (
        "const now = performance.now.bind(performance); window.later = 0; "
        "performance.now = () => now() + window.later;"
    )
    review.export(workspace, out=tmp_path / "one.html", n=8)
    with browser(tmp_path, script=clock) as (opened, bad):
        page = opened(tmp_path / "one.html")
        name_oneself(page)
        advice = page.locator(".nba-next-step")
        count = page.locator(".nba-progress")
        for number in range(12):
            page.evaluate("window.later += 4 * 60000")
            # The same two clips again and again, so that others are left.
            page.keyboard.press("Home")
            page.keyboard.press("1")
            expect(count).to_contain_text("of 8 judged")
            expect(advice).to_be_hidden()
            page.wait_for_timeout(100 + number)
        page.evaluate("window.later += 4 * 60000")
        page.keyboard.press("Home")
        page.keyboard.press("1")
        expect(advice).to_contain_text("You have judged for 48 minutes without a pause")
        page.evaluate("window.later += 6 * 60000")
        page.keyboard.press("Home")
        page.keyboard.press("2")
        expect(advice).to_be_hidden()
    assert bad == []
