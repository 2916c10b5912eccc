"""The explorer in JupyterLab, as a person uses it by mouse, and another by keys alone."""

import numpy as np
import polars as pl
import pytest
import soundfile as sf
from conftest import sweeps
from hostile import WORST
from test_browser_widgets import RATE, SOUNDS, cells, lab, notebook, pixels

from nbaudio.review.state import ReviewState, notes, verdicts
from nbaudio.tables.workspace import Workspace

__all__ = ["lab"]

SECONDS, N = 60, 200
OPEN = "e = widgets.Explorer(W, reviewer='ana')\ne"


@pytest.fixture
def workspace(lab, request):
    """200 segments of 0.5 to 4 s in one recording; the names of speakers mean harm, similarity
    rises from 0 to 1."""
    root = lab.root / request.node.name
    (root / "audio").mkdir(parents=True)
    sf.write(root / "audio/a.wav", sweeps(SECONDS, RATE), RATE)
    workspace = Workspace.create(root / "w", source="made", audio=str(root / "audio"))
    facts = {
        "path": "a.wav",
        "sampling_rate": RATE,
        "num_channels": 2,
        "num_samples": SECONDS * RATE,
        "codec": "pcm_16",
    }
    number = np.arange(N)
    start = number * 55 / N
    length = 0.5 + 3.5 * (number % 8) / 7
    speakers = ["o'Neil", WORST[0], "spk3", None]
    workspace.save(
        recordings=pl.DataFrame({"recording_id": ["a"], **facts}),
        segments=pl.DataFrame(
            {
                "segment_id": [f"s{i}" for i in number],
                "recording_id": "a",
                "start_sample": (start * RATE).astype(np.int64),
                "end_sample": ((start + length) * RATE).astype(np.int64),
                "source_start": start.round(3).astype(str),
                "source_end": (start + length).round(3).astype(str),
                "text": [f"jedan dva {i}" for i in number],
                "asr_text": [f"jedan dvije {i}" for i in number],
                "speaker_id": [speakers[i % 4] for i in number],
                "similarity": number / (N - 1),
                "decision": "accept",
                "split": "train",
            }
        ),
    )
    return workspace


def shown(page, count):
    """Wait until the table shows so many rows."""
    page.wait_for_selector(f".nba-count:text-is('{count}')")


def drag(page, element, start, end, steps=5):
    """Drag over an element, between two places in shares of its width and height."""
    element.evaluate("element => element.scrollIntoView({ block: 'center' })")
    box = element.bounding_box()
    for act, (across, down) in ((page.mouse.down, start), (page.mouse.up, end)):
        page.mouse.move(
            box["x"] + across * box["width"], box["y"] + down * box["height"], steps=steps
        )
        act()


def test_a_researcher_filters_listens_judges_and_writes_a_sheet_by_mouse(lab, workspace):
    page = lab.page
    with notebook(lab, workspace, OPEN) as ask:
        shown(page, "200")
        page.wait_for_selector(".nba-title code:text-is('s0')")
        drag(page, page.locator("[data-column=similarity] .nba-track"), (0.04, 0.5), (0.49, 0.6))
        shown(page, "100 of 200")
        page.locator("[data-column=similarity] .nba-range:text-is('0 to 0.5')").wait_for()
        page.locator("[data-column=speaker_id] .nba-pick", has_text="o'Neil").click()
        shown(page, "25 of 200")
        page.locator("[data-column=speaker_id] .nba-pick:has-text('25 of 50')").wait_for()
        page.locator("[data-column=speaker_id] .nba-pick", has_text="none").click()
        shown(page, "50 of 200")
        condition = (
            "similarity >= 0 and similarity < 0.5 and (speaker_id in ('o''Neil') or "
            "speaker_id is null)"
        )
        assert eval(ask("e.where")) == condition  # noqa: S307 - the repr of a string
        page.get_by_role("button", name="show the condition in force").click()
        page.wait_for_function(
            "() => document.querySelector('[aria-label=\"condition of the "
            f"rule\"]').value === {condition!r}"
        )
        # A click plays: waveform, words and sound of that row.
        page.locator(".nba-row:not([hidden])").nth(2).click()
        page.wait_for_selector(".nba-title code:text-is('s4')")
        page.wait_for_function(SOUNDS)
        page.wait_for_selector(".nba-player .nba-word:text-is('dvije')")
        assert (
            len(np.unique(pixels(page, ".nba-player canvas")[..., :3].reshape(-1, 3), axis=0)) > 10
        )
        # Two rows are marked and judged.
        for place in (0, 1):
            page.locator(".nba-row:not([hidden])").nth(place).click(modifiers=["Control"])
        page.wait_for_selector("option:text-is('2 marked')", state="attached")
        page.get_by_role("combobox", name="verdict").select_option("wrong words")
        page.get_by_role("button", name="log the verdict").click()
        page.wait_for_selector(".nba-action-status:text-is('2 verdicts logged')")
        page.locator("[data-column=verdict] .nba-pick", has_text="wrong words").click()
        shown(page, "2 of 200")
        page.get_by_role("button", name="clear all filters").click()
        shown(page, "200")
        # A box in the scatter, and a point in it.
        page.get_by_text("scatter of two columns").click()
        page.wait_for_function(
            "() => "
            "document.querySelector('.nba-density').getAttribute('aria-label')?.includes('200')"
        )
        version = int(ask("e._rows.version"))
        drag(page, page.locator(".nba-cloud"), (0.0, 0.995), (0.999, 0.8), steps=1)
        page.wait_for_function(
            "() => / of 200$/.test(document.querySelector('.nba-count').textContent)"
        )
        inside = int(ask("len(e.shown)"))
        assert 35 <= inside <= 45
        assert int(ask("e._rows.version")) == version + 1  # both sides of a box filter once
        assert ask("e.shown['similarity'].max() <= 0.23") == "True"
        cloud = page.locator(".nba-cloud").bounding_box()
        page.mouse.click(cloud["x"] + 1, cloud["y"] + cloud["height"] - 1)
        page.wait_for_selector(".nba-title code:text-is('s0')")
        # A sheet of all that is shown.
        page.get_by_label("rows that the actions").select_option("shown")
        page.get_by_label("sheet to write").fill(str(workspace.path.parent / "odd.xlsx"))
        page.get_by_role("button", name="write a review sheet").click()
        page.wait_for_selector(f".nba-action-status:has-text('{inside} segments in')")
        assert page.locator(".nba-alarm:visible").count() == 0
    assert verdicts(workspace).select("segment_id", "verdict", "reviewer").rows() == [
        ("s0", "wrong words", "ana"),
        ("s3", "wrong words", "ana"),
    ]
    record = ReviewState.load(workspace).records["odd"]
    assert (record.strategy, len(record.segment_ids)) == ("picked", inside)


# Of each table: the columns with their widths, and whether it can be scrolled sideways.
COLUMNS = """() => [...document.querySelectorAll('.nba-scroller')].map((scroller) => ({
    widths: Object.fromEntries([...scroller.querySelectorAll('[role=columnheader]')].map(
        (cell) => [cell.querySelector('button').textContent, cell.offsetWidth]
    )),
    scrolls: scroller.scrollWidth > scroller.clientWidth,
}))"""
# Whether all that is in cells of a class is inside of them.
WHOLE = """(selector) => [...document.querySelectorAll(selector)]
    .every((cell) => cell.scrollWidth <= cell.clientWidth)"""


def tables(page, width):
    """The columns of the explorer and of the panel below it, in a window of that width."""
    page.set_viewport_size({"width": width, "height": 1400})
    page.wait_for_timeout(500)
    both = page.evaluate(COLUMNS)
    for table in both:
        names = list(table["widths"])
        assert names[1] == "text"
        assert max(names, key=table["widths"].get) == "text"
        assert not table["scrolls"]
    return [list(table["widths"]) for table in both]


def test_the_transcript_is_shown_beside_the_file_browser_at_every_width(lab, workspace):
    page = lab.page
    panel = "widgets.ReviewPanel(W, reviewer='ben')"
    with notebook(lab, workspace, OPEN, panel, view="lab/tree"):
        shown(page, "200")
        page.wait_for_selector(".nba-review-panel .nba-title code:text-is('s0')")
        view = page.locator(".nba-view")
        for width in (1400, 900):
            explorer, reviewed = tables(page, width)
            assert explorer[2] == reviewed[2] == "similarity"
            assert not {"verdict", "note", "asr_text"} & {*explorer, *reviewed}
            cell = view.locator(".nba-cursor .nba-cell").nth(1)
            assert cell.locator("div").all_inner_texts() == ["jedan dva 0", "jedan dvije 0"]
        # One button of each name.
        assert view.locator("button:visible", has_text="columns").count() == 1
        assert view.locator(".nba-ask:visible").count() == 1
        view.locator(".nba-ask:visible").click()
        assert page.locator(".nba-dialog h4").all_inner_texts() == [
            "histograms",
            "table",
            "actions",
            "player",
            "scatter",
        ]
        page.keyboard.press("Escape")
        # A column of one value is a word.
        split = view.locator("[data-column=split]")
        assert split.inner_text().split("\n") == ["split", "all: train"]
        assert view.locator("[data-column=verdict]").inner_text().endswith("all: none")
        # The first verdict makes its column.
        view.get_by_role("grid").focus()
        page.keyboard.press("2")
        page.locator(".nba-review-panel").focus()
        page.keyboard.press("6")
        page.wait_for_function(
            "() => document.querySelectorAll('[aria-label=\"sort by verdict\"]').length === 2"
        )
        page.wait_for_selector(".nba-view .nba-row .nba-cell:text-is('wrong words')")
        page.wait_for_selector(".nba-review-panel .nba-row .nba-cell:text-is('noise')")
        for width in (1400, 900):
            assert [names[2] for names in tables(page, width)] == ["verdict", "verdict"]
        page.locator("[data-column=verdict] .nba-pick", has_text="wrong words").wait_for()
        # A column that is chosen stays, and its words are not cut.
        view.get_by_role("button", name="choose columns").click()
        view.get_by_role("checkbox", name="decision").check()
        page.wait_for_selector(".nba-view [aria-label='sort by decision']")
        assert page.evaluate(WHOLE, ".nba-view .nba-row:not([hidden]) .nba-cell:last-child")
        assert cell.locator("div").count() == 2
        page.set_viewport_size({"width": 1280, "height": 1400})


def test_a_range_that_is_dragged_from_an_edge_has_the_values_dragged_over(lab, workspace):
    page = lab.page
    with notebook(lab, workspace, OPEN) as ask:
        shown(page, "200")
        track = page.locator("[data-column=similarity] .nba-track")
        drag(page, track, (0.001, 0.5), (0.49, 0.5))
        shown(page, "100 of 200")
        assert ask("e.shown['similarity'].min()") == "0.0"
        drag(page, track, (0.999, 0.5), (0.61, 0.5))
        shown(page, "80 of 200")
        assert ask("e.shown['similarity'].min() > 0.6") == "True"
        assert ask("e.shown['similarity'].max()") == "1.0"
        # The handle of a range that does not begin at the edge moves its end.
        drag(page, track, (0.6, 0.9), (0.7, 0.9))
        shown(page, "60 of 200")


def test_a_researcher_filters_and_judges_by_keyboard_without_changing_the_notebook(lab, workspace):
    page = lab.page
    with notebook(lab, workspace, OPEN) as ask:
        shown(page, "200")
        before = cells(page)
        # The upper end of the similarity goes down by a page of bins and a bin.
        page.get_by_role("slider", name="similarity, to").focus()
        for key in ("PageDown", "ArrowLeft", "a", "x"):
            page.keyboard.press(key)
        shown(page, "140 of 200")
        assert (
            page.get_by_role("slider", name="similarity, to").get_attribute("aria-valuetext")
            == "0.7"
        )
        find = page.get_by_role("button", name="choose the histograms")
        find.focus()
        page.keyboard.press("Enter")
        page.get_by_role("checkbox", name="text", exact=True).focus()
        page.keyboard.press("Space")
        page.get_by_label("find a value of text").focus()
        page.keyboard.type("DVA 139")
        page.wait_for_selector("[data-column=text] .nba-pick:has-text('jedan dva 139')")
        page.locator("[data-column=text] .nba-pick", has_text="jedan dva 139").focus()
        page.keyboard.press("Enter")
        shown(page, "1 of 200")
        page.wait_for_function("() => document.activeElement.textContent.includes('jedan dva 139')")
        page.get_by_role("button", name="clear text").focus()
        page.keyboard.press("Enter")
        shown(page, "140 of 200")
        page.get_by_role("grid").focus()
        # The cursor stays on a row that passes.
        page.wait_for_selector(".nba-title code:text-is('s139')")
        for key in ("Home", "ArrowDown"):
            page.keyboard.press(key)
        page.wait_for_selector(".nba-title code:text-is('s1')")
        page.keyboard.press("Enter")
        page.wait_for_function(SOUNDS)
        page.get_by_label("comment or note").focus()
        page.keyboard.type("listen ＜again＞")
        page.get_by_role("button", name="log the text as a note").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector(".nba-action-status:text-is('1 note logged')")
        assert ask("e.selected['note'].to_list()") == "['listen ＜again＞']"
        # More than a hundred verdicts need a second press.
        page.get_by_label("rows that the actions").select_option("shown")
        page.get_by_role("combobox", name="verdict").select_option("noise")
        page.get_by_role("button", name="log the verdict").focus()
        page.keyboard.press("Enter")
        page.wait_for_selector(".nba-action-status:has-text('140 verdicts')")
        assert len(verdicts(workspace)) == 0
        page.keyboard.press("Enter")
        page.wait_for_selector(".nba-action-status:text-is('140 verdicts logged')")
        page.get_by_role("slider", name="similarity, to").focus()
        page.keyboard.press("Escape")
        shown(page, "200")
        assert cells(page) == before
    assert notes(workspace)["note"].to_list() == ["listen ＜again＞"]
    assert len(verdicts(workspace)) == 140


@pytest.mark.parametrize("latency_ms", [0, 400])
def test_the_player_turns_the_rows_of_the_table_and_says_whether_it_plays(
    lab, workspace, latency_ms
):
    page = lab.page
    playing = page.get_by_role("button", name="play or pause")
    with notebook(lab, workspace, OPEN) as ask:
        page.evaluate("ms => { window.latencyMs = ms; }", latency_ms)
        page.get_by_label("filter by a condition").fill("speaker_id = 'spk3'")
        page.keyboard.press("Enter")
        shown(page, "50 of 200")
        page.wait_for_selector(".nba-title code:text-is('s2')")  # the first row shown
        page.locator(".nba-row:not([hidden])").nth(1).click()
        page.wait_for_selector(".nba-title code:text-is('s6')")
        for _ in range(2):  # from the cache the second time
            page.wait_for_function(SOUNDS)
            page.wait_for_timeout(200)
            assert "pause" in playing.inner_text()
            page.keyboard.press("Enter")
        page.locator(".nba-player").focus()
        page.keyboard.press("ArrowDown")
        page.wait_for_selector(".nba-title code:text-is('s10')")
        page.wait_for_function(SOUNDS)
        assert ask("e.selected['segment_id'].to_list()") == "['s10']"
        page.locator(".nba-grid").focus()
        page.keyboard.press("ArrowUp")  # to a clip in the cache, without playing it
        page.wait_for_selector(".nba-title code:text-is('s6')")
        page.wait_for_timeout(200)
        assert "play" in playing.inner_text()
        page.keyboard.press("End")  # a row that is not loaded yet
        page.wait_for_selector(".nba-title code:text-is('s198')")
        page.get_by_label("filter by a condition").fill("")
        page.keyboard.press("Enter")
        shown(page, "200")
        page.locator(".nba-grid").focus()
        page.keyboard.press("End")
        page.keyboard.press("Enter")  # before the row is loaded
        page.wait_for_selector(".nba-title code:text-is('s199')")
        page.wait_for_function(SOUNDS)


def test_a_handle_stays_where_it_was_moved_while_a_slow_kernel_responds(lab, workspace):
    page = lab.page
    with notebook(lab, workspace, OPEN):
        shown(page, "200")
        page.evaluate("window.latencyMs = 400")
        handle = page.get_by_role("slider", name="similarity, to")
        handle.focus()
        handle.evaluate("""handle => {
            window.edges = [];
            new MutationObserver(
                () => window.edges.push(Number(handle.getAttribute("aria-valuenow")))
            ).observe(handle, { attributeFilter: ["aria-valuenow"] });
        }""")
        first = int(handle.get_attribute("aria-valuenow"))
        for _ in range(6):
            page.keyboard.press("ArrowLeft")
            page.wait_for_timeout(600)  # the counts for a move arrive after the next move
        shown(page, "140 of 200")
        page.wait_for_timeout(1000)
        edges = page.evaluate("window.edges")
        assert edges[-1] == first - 6
        assert edges == sorted(edges, reverse=True)


def test_hypotheses_are_lines_one_key_is_a_verdict_and_words_play(lab, workspace):
    page = lab.page
    number = pl.int_range(pl.len())
    heard = {
        "asr_text_big": pl.col("text").str.replace("dva", "tri"),
        "wer_big": number / 200,
        "wer": 1 - number / 200,
    }
    workspace.save(segments=workspace.segments.with_columns(**heard))
    opened = "e = widgets.Explorer(W, sort='wer_big', descending=True, reviewer='ana')\ne"
    with notebook(lab, workspace, opened, "v = widgets.Vocabulary(W, 'big')\nv") as ask:
        explorer, words = page.locator(".nba-segment-table .nba-grid").all()
        page.wait_for_selector(".nba-title code:text-is('s199')")
        # The transcript above the source's hypothesis, and a line of the other one with its name.
        line = page.locator(".nba-player .nba-lines").first
        assert line.locator("code").all_inner_texts() == ["big"]
        assert line.locator(".nba-replace").all_inner_texts() == ["tri"]
        # A key in the table and one in the player are verdicts on the row under the cursor, and
        # nothing else.
        explorer.focus()
        page.keyboard.press("2")
        page.wait_for_selector(".nba-segment-table [role=status]:text-is('s199: wrong words')")
        explorer.focus()  # the table was drawn anew
        page.keyboard.press("ArrowDown")
        page.wait_for_selector(".nba-title code:text-is('s198')")
        page.locator(".nba-player").first.focus()
        page.keyboard.press("1")
        page.wait_for_selector(".nba-player [role=status]:text-is('s198: ok')")
        for _ in range(40):  # the selection reaches the kernel in a message of its own
            if (selected := ask("e.selected['segment_id'].to_list()")) == "['s198']":
                break
            page.wait_for_timeout(250)
        assert selected == "['s198']"
        # A verdict is on the row of its key, wherever the cursor goes before the kernel responds.
        page.evaluate("window.latencyMs = 400")
        explorer.focus()
        page.keyboard.press("3")
        page.keyboard.press("ArrowDown")
        page.wait_for_selector(".nba-segment-table [role=status]:text-is('s198: cut off')")
        page.wait_for_timeout(1000)  # the rows are requested again
        page.evaluate("window.latencyMs = 0")
        page.wait_for_selector(".nba-view .nba-cursor .nba-cell:text-is('s197')")
        # The word that the hypothesis never has, and its examples.
        words.focus()
        page.keyboard.press("/")
        page.keyboard.type("dva")
        page.keyboard.press("Enter")
        page.keyboard.press("ArrowDown")
        words.locator(".nba-row:not([hidden]) .nba-cell:text-is('dva')").wait_for()
        page.keyboard.press("Enter")
        page.wait_for_selector(".nba-player >> nth=1 >> .nba-title code:text-is('s0')")
        page.locator(".nba-player").nth(1).focus()
        page.keyboard.press("ArrowDown")
        page.wait_for_selector(".nba-player >> nth=1 >> .nba-title code:text-is('s1')")
        assert page.locator(".nba-alarm:visible").count() == 0
    assert dict(verdicts(workspace).select("segment_id", "verdict").iter_rows()) == {
        "s199": "wrong words",
        "s198": "cut off",
    }
