"""SegmentTable in JupyterLab: playing rows, columns, distributions, saved filters, plain frames."""

import json

import polars as pl
from playwright.sync_api import expect
from test_browser_widgets import SOUNDS, cells, lab, notebook, workspace  # noqa: F401  # fixtures

SILENT = "() => [...document.querySelectorAll('audio')].every(audio => audio.paused)"
HOSTILE = "<img src=x onerror='window.hurt = 1'> ; drop"


# Rows of the keys' dialog: keys, and whether these end before their meaning begins.
KEY_ROWS = """() => [...document.querySelectorAll('.nba-keys > div')].map((row) => {
    const keys = [...row.querySelectorAll('kbd')];
    const end = Math.max(...keys.map((key) => key.getBoundingClientRect().right));
    return [
        keys.map((key) => key.textContent),
        end <= row.querySelector('dd').getBoundingClientRect().left,
    ];
})"""


def names(page):
    return [text.lstrip("↑↓ ") for text in page.locator(".nba-head button").all_inner_texts()]


def test_a_row_is_played_selected_from_python_and_copied(lab, workspace):  # noqa: F811
    page = lab.page
    with notebook(lab, workspace, "table = widgets.SegmentTable(W)\ntable") as ask:
        before = cells(page)
        row = page.locator(".nba-row:not([hidden])", has_text="spk1").first
        row.locator(".nba-cell").first.click()
        assert page.locator("audio").count() == 0, "a click only chooses"
        page.keyboard.press("Enter")
        page.wait_for_function(SOUNDS)
        expect(page.locator(".nba-title")).to_contain_text("s1")
        expect(page.locator(".nba-words")).to_contain_text("pet")
        page.keyboard.press("Enter")
        page.wait_for_function(SILENT)
        page.keyboard.press("ArrowUp")
        expect(page.locator(".nba-title")).to_contain_text("s0")
        expect(page.locator(".nba-replace")).to_have_count(1)
        assert page.evaluate(SILENT), "an arrow shows, and does not play"
        page.keyboard.press("Control+c")
        expect(page.locator(".nba-current")).to_contain_text("copied")
        page.keyboard.press("/")
        page.keyboard.press("Control+v")
        expect(page.locator(".nba-find")).to_have_value("s0")
        page.locator(".nba-find").fill("")
        page.wait_for_selector(".nba-count:text-is('9')")
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        expect(page.locator(".nba-listening")).to_be_hidden()
        page.locator(".nba-row .nba-cell:text-is('s0')").dblclick()
        page.wait_for_function(SOUNDS)
        page.keyboard.press("?")
        rows = page.evaluate(KEY_ROWS)
        shown = [key for keys, _ in rows for key in keys]
        assert len(rows) > 15
        assert len(shown) == len(set(shown)), "one meaning for each key"
        assert all(beside for _, beside in rows)
        assert page.get_by_role("button", name="play or pause").inner_text() == "❚❚ pause", (
            "Space marks rows"
        )
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        page.wait_for_function(SILENT)
        number, plays = json.loads(ask("table.current"))
        assert (number, plays) == (0, 2)
        ask("0", "table.current = [7, 3]")
        expect(page.locator(".nba-title")).to_contain_text("s7")
        page.wait_for_function(SOUNDS)
        expect(page.locator(".nba-cursor")).to_contain_text("s7")
        assert ask("table.selected['segment_id'].to_list()") == "['s7']"
        assert cells(page) == before


def test_column_layout_is_kept_and_headers_show_distributions(lab, workspace):  # noqa: F811
    page = lab.page
    with notebook(lab, workspace, "table = widgets.SegmentTable(W)\ntable") as ask:
        header = page.get_by_role("columnheader")
        chart = header.filter(has_text="similarity").get_by_role("img")
        expect(chart).to_have_attribute("aria-label", "min 0, median 0.5, max 1, 0 % missing")
        label = header.filter(has_text="speaker_id").get_by_role("img").get_attribute("aria-label")
        assert label.startswith("3 different, ")
        assert "spk0 33.3 %" in label
        # A drag at the edge, and the keyboard.
        grip = header.filter(has_text="speaker_id").locator(".nba-grip")
        before = header.filter(has_text="speaker_id").bounding_box()["width"]
        box = grip.bounding_box()
        page.mouse.move(box["x"] + 4, box["y"] + 10)
        page.mouse.down()
        page.mouse.move(box["x"] + 104, box["y"] + 10, steps=4)
        page.mouse.up()
        width = header.filter(has_text="speaker_id").bounding_box()["width"]
        assert abs(width - before - 100) < 3
        page.get_by_role("button", name="sort by speaker_id").press("Shift+ArrowLeft")
        assert abs(header.filter(has_text="speaker_id").bounding_box()["width"] - width + 20) < 2
        # A drag to the front, and the keyboard.
        start, end = (
            page.get_by_role("button", name="sort by similarity").bounding_box(),
            header.first.bounding_box(),
        )
        page.mouse.move(start["x"] + 20, start["y"] + 10)
        page.mouse.down()
        page.mouse.move(end["x"] + 20, end["y"] + 10, steps=5)
        page.mouse.up()
        expect(header.first).to_contain_text("similarity")
        expect(page.locator("[aria-sort=ascending], [aria-sort=descending]")).to_have_count(0)
        page.get_by_role("button", name="sort by similarity").press("Alt+ArrowRight")
        order = ["segment_id", "similarity", "text", "duration_s", "speaker_id"]
        expect(header.first).to_contain_text("segment_id")
        assert names(page) == order
        page.get_by_role("button", name="choose columns").click()
        page.get_by_role("button", name="move text to the left").click()
        order = ["segment_id", "text", "similarity", "duration_s", "speaker_id"]
        assert names(page) == order
        page.get_by_label("wrap long texts").check()
        row = page.locator(".nba-row:not([hidden])", has_text="window.hurt").first
        assert row.bounding_box()["height"] > 60
        # Views opened later have the same, and all follow Python.
        page.evaluate(
            """() => {
                const panel = window.jupyterapp.shell.currentWidget;
                window.jupyterapp.commands.execute('notebook:insert-cell-below');
                panel.content.activeCell.model.sharedModel.setSource('table');
                window.jupyterapp.commands.execute('notebook:run-cell');
            }"""
        )
        views = page.locator(".nba-segment-table")
        expect(views).to_have_count(2)
        other = views.nth(1).locator(".nba-head button")
        expect(other).to_have_text(order)
        assert views.nth(1).locator(".nba-row:not([hidden])").first.bounding_box()["height"] > 60
        same = views.nth(1).get_by_role("columnheader").filter(has_text="speaker_id")
        assert abs(same.bounding_box()["width"] - width + 20) < 2
        ask("0", "table.narrow('similarity > 0.8')")
        for view in (views.nth(0), views.nth(1)):
            expect(view.locator(".nba-count")).to_have_text("2 of 9")
            expect(view.locator(".nba-row:not([hidden])")).to_have_count(2)


def test_filters_are_saved_for_other_notebooks(lab, workspace):  # noqa: F811
    page = lab.page
    with notebook(lab, workspace, "widgets.SegmentTable(W)"):
        page.locator(".nba-where").fill("similarity > 0.5")
        page.locator(".nba-where").press("Enter")
        page.wait_for_selector(".nba-count:text('4 of 9')")
        page.get_by_role("button", name="sort by similarity").click()
        page.get_by_role("button", name="saved filters").click()
        for name in ("good ones", HOSTILE):
            page.get_by_label("name of the filter").fill(name)
            page.get_by_label("name of the filter").press("Enter")
            expect(page.locator(".nba-filters button", has_text=name[:5])).to_be_visible()
    other = "table = widgets.SegmentTable(W)\ntable"
    with notebook(lab, workspace, other, new_kernel=True) as ask:
        page.wait_for_selector(".nba-count:text-is('9')")
        page.get_by_role("button", name="saved filters").click()
        page.get_by_role("button", name=f"delete {HOSTILE}").click()
        expect(page.locator(".nba-filters .nba-choice")).to_have_count(2)
        page.get_by_role("button", name="filter by good ones").click()
        page.wait_for_selector(".nba-count:text('4 of 9')")
        page.wait_for_selector("[aria-sort=ascending]:has-text('similarity')")
        assert page.locator(".nba-where").input_value() == "similarity > 0.5"
        assert ask("table.where") == "'similarity > 0.5'"
        assert page.evaluate("() => window.hurt") is None
    assert list(json.loads((workspace.path / "filters.json").read_text())) == ["good ones"]


def test_a_table_of_a_plain_frame_shows_both_ends_of_long_ids(lab, workspace):  # noqa: F811
    page = lab.page
    frame = pl.DataFrame(
        {
            "name": [f"[HlauTe_NK6U_{'x' * 60}]_{i}.50-{i}.99" for i in range(120)],
            "n": range(120),
            "t": HOSTILE,
        }
    )
    frame.write_parquet(workspace.path.parent / "f.parquet")
    read = (
        "import polars as pl\nframe = "
        f"pl.read_parquet({str(workspace.path.parent / 'f.parquet')!r})"
    )
    with notebook(lab, workspace, read, "widgets.table(frame)", "widgets.SegmentTable(frame)"):
        long, table = (
            page.locator(".nba-segment-table").nth(0),
            page.locator(".nba-segment-table").nth(1),
        )
        expect(long.locator(".nba-count")).to_have_text("120")
        long.locator(".nba-find").fill("_50.50-50.99")
        expect(long.locator(".nba-count")).to_have_text("1 of 120")
        cell = table.locator(".nba-row .nba-cell").first
        seen = cell.evaluate(
            """cell => {
                const range = document.createRange();
                range.selectNodeContents(cell.lastChild);
                const [box, end] = [cell.getBoundingClientRect(), range.getBoundingClientRect()];
                return [
                    end.right <= box.right,
                    cell.firstChild.scrollWidth > cell.firstChild.clientWidth,
                ];
            }"""
        )
        assert seen == [True, True], "the end is seen, the middle is left out"
        expect(table.locator(".nba-current")).to_contain_text(frame["name"][0])
        table.get_by_role("grid").focus()
        page.keyboard.press("Enter")
        expect(table.locator(".nba-listening")).to_contain_text("a plain frame has no audio")
        assert page.evaluate("() => window.hurt") is None


# Keeps all texts that the count of rows has.
SEEN = """() => {
    window.seen = [];
    const count = document.querySelector('.nba-count');
    new MutationObserver(() => window.seen.push(count.textContent))
        .observe(count, { childList: true });
}"""


def test_rows_in_a_file_are_found_and_sorted_in_parts(lab, workspace):  # noqa: F811
    page, rows = lab.page, 3000
    path = workspace.path.parent / "many.parquet"
    number = pl.int_range(rows, eager=True)
    texts = pl.select(
        segment_id=pl.format("s{}", number),
        text=pl.format("line {} of many", 7919 * number % rows),
        number=number,
    )
    texts.write_parquet(path, row_group_size=100)
    slow = (
        "import time\nfrom nbaudio.tables import stored_frame\nfrom nbaudio.ui.widgets import "
        "table_view\n"
    )
    slow += "stored_frame._ROWS_AT_ONCE, table_view._PART_S = 100, 0.0\n"
    slow += (
        "whole = stored_frame.StoredFrame.part\nstored_frame.StoredFrame.part = lambda *a: "
        "(time.sleep(0.1), whole(*a))[1]"
    )
    table = f"table = widgets.SegmentTable({str(path)!r})\ntable"
    with notebook(lab, workspace, slow, table, new_kernel=True) as ask:
        count, first = page.locator(".nba-count"), page.locator(".nba-row:not([hidden])").first
        expect(count).to_have_text("3,000")
        page.evaluate(SEEN)
        page.locator(".nba-where").fill("text like '%7%'")
        page.locator(".nba-where").press("Enter")
        expect(count).to_contain_text("so far")
        expect(first).to_contain_text("7")
        page.get_by_role("grid").press("End")
        expect(page.locator(".nba-cursor")).to_contain_text("7")
        assert "so far" in count.inner_text(), "the cursor moves while the search goes on"
        cursor = page.locator(".nba-cursor").inner_text()
        expect(count).to_have_text("813 of 3,000", timeout=60_000)
        assert page.locator(".nba-cursor").inner_text() == cursor, "found rows stay where they are"
        found = [
            int(text.split()[0].replace(",", ""))
            for text in page.evaluate("() => window.seen")
            if "so far" in text
        ]
        assert found == sorted(found)
        assert len(set(found)) > 5
        # Typing again ends the search, and a mistake does not.
        page.locator(".nba-where").fill("number < 2000")
        page.locator(".nba-where").press("Enter")
        expect(count).to_contain_text("so far")
        page.locator(".nba-where").fill("no condition")
        page.locator(".nba-where").press("Enter")
        expect(page.locator(".nba-alarm")).to_be_visible()
        page.locator(".nba-where").fill("number < 1000")
        page.locator(".nba-where").press("Enter")
        expect(count).to_have_text("1,000 of 3,000", timeout=60_000)
        page.get_by_role("button", name="sort by text").click()
        expect(count).to_contain_text("not sorted yet")
        page.wait_for_selector("[aria-sort=ascending]:has-text('text')")
        expect(count).to_have_text("1,000 of 3,000")
        least = texts.head(1000)["text"].sort()[0]
        expect(first).to_contain_text(least)
        assert ask("table.shown['text'][0]") == repr(least)
