"""The widgets in Notebook 7 and in Voila, and their accessibility in the light and the dark theme
of JupyterLab."""

import re
from pathlib import Path

import axe_playwright_python
from browser import notebook_7, open_notebook, run_all, voila
from contrast import faint_texts
from test_browser_notebooks import errors
from test_browser_widgets import (  # noqa: F401 - fixtures
    WIDGETS,
    change_theme,
    lab,
    notebook,
    workspace,
    write_notebook,
)

import nbaudio
from nbaudio.review.state import verdict_log

# The explorer is a composition of widgets.
ALL = {
    **WIDGETS,
    "Explorer": "widgets.Explorer(W)",
    "table": "widgets.table(pl.DataFrame({'number': range(120)}))",
}
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js")
# What is wrong, at which element; color contrast is checked against what is painted.
VIOLATIONS = """async ([within, excluded]) => {
    const {violations} = await axe.run(
        {include: [[within]], exclude: excluded.map(each => [each])}
    );
    const line = (id, {html, failureSummary}) => `${id}: ${html.slice(0, 200)} ${failureSummary}`;
    return violations.flatMap(({id, nodes}) => nodes.map(node => line(id, node)));
}"""
# How many rows are filled, and whether a player and the panel show a segment.
SHOWN = """() => document.querySelectorAll('.nba-row .nba-cell:not(:empty)').length
    && document.querySelectorAll('.nba-title code').length > 1
    && document.querySelector('.nba-review-panel .nba-title code')"""
ALARMS = (
    "() => [...document.querySelectorAll('.nba-alarm:not([hidden])')].map(alarm => "
    "alarm.textContent)"
)


def violations(page, within=".nba", excluded=()):
    """What axe-core finds wrong in an element of a page."""
    page.add_script_tag(path=AXE)
    return page.evaluate(VIOLATIONS, [within, list(excluded)])


def names(workspace):  # noqa: F811
    """The lines that define the names used in the cells of widgets."""
    return f"import polars as pl\nW = {str(workspace.path)!r}"


def write_all_widgets(path, workspace):  # noqa: F811
    """Write a notebook with every widget in a cell of its own."""
    write_notebook(path, f"from nbaudio import widgets\n{names(workspace)}", *ALL.values())


def check_live(page, workspace):  # noqa: F811
    """Check that all widgets are there and that a key in the review panel logs a verdict."""
    page.wait_for_function(f"() => document.querySelectorAll('.nba').length >= {len(ALL)}")
    page.wait_for_function(SHOWN)
    panel = page.locator(".nba-review-panel")
    panel.focus()
    panel.press("3")
    page.wait_for_function(
        "() => document.querySelector('.nba-review-panel "
        ".nba-progress').textContent.startsWith('1 of')"
    )
    assert verdict_log(workspace)["verdict"].to_list() == ["cut off"]
    assert page.evaluate(ALARMS) == []


def test_all_widgets_work_in_notebook_7(lab, workspace, tmp_path):  # noqa: F811
    page = lab.page
    write_all_widgets(workspace.path.parent / "all.ipynb", workspace)
    with notebook_7(workspace.path.parent, tmp_path / "home") as address:
        open_notebook(page, address, "all.ipynb", view="notebooks")
        assert errors(run_all(page)) == []
        check_live(page, workspace)


def test_all_widgets_work_in_voila(lab, workspace, tmp_path):  # noqa: F811
    write_all_widgets(workspace.path.parent / "all.ipynb", workspace)
    page = lab.page.context.browser.new_page(viewport={"width": 1280, "height": 1400})
    # Voila's own template loads a font of icons.
    page.route(re.compile(r"^https://.*fontawesome"), lambda route: route.abort())
    tried = []
    page.on("request", lambda request: tried.append(request.url))
    with voila(workspace.path.parent / "all.ipynb", tmp_path / "home") as address:
        page.goto(address)
        check_live(page, workspace)
    page.close()
    assert [
        url
        for url in tried
        if not url.startswith((address, "data:", "blob:")) and "fontawesome" not in url
    ] == []


def test_widgets_are_accessible_and_have_contrast_in_both_themes(lab, workspace):  # noqa: F811
    page = lab.page
    with notebook(lab, workspace, names(workspace), *ALL.values()):
        page.wait_for_function(SHOWN)
        page.wait_for_timeout(1000)
        for theme in ("JupyterLab Light", "JupyterLab Dark"):
            change_theme(page, theme)
            assert violations(page) == [], theme
            assert faint_texts(page, ".nba") == [], theme


def test_pages_are_accessible_in_light_and_dark_and_narrow(lab, workspace, tmp_path):  # noqa: F811
    nbaudio.review.export(workspace, out=tmp_path / "page.html", n=5, reviewers=["ana"])
    nbaudio.stats(workspace.path, out=tmp_path / "report.html")
    # The pages' own policy forbids the script that looks for violations.
    page = lab.page.context.browser.new_page(bypass_csp=True)
    for name, sign in (("page-ana.html", ".nba-title code"), ("report.html", "section")):
        for scheme, width in (("light", 1280), ("dark", 1280), ("dark", 400)):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            page.goto((tmp_path / name).as_uri())
            page.wait_for_selector(sign)
            assert violations(page, "body") == [], (name, scheme, width)
    page.close()
