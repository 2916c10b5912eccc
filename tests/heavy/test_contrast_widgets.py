"""Texts of the widgets in the light and the dark theme of JupyterLab: contrast."""

import pytest
from contrast import faint_texts
from test_browser_widgets import WIDGETS, lab, notebook, workspace  # noqa: F401 - fixtures


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_every_text_of_the_widgets_has_contrast(lab, workspace, theme):  # noqa: F811
    page = lab[2]
    cells = [*WIDGETS.values(), "widgets.Explorer(W)"]
    with notebook(lab, workspace, f"W = {str(workspace.path)!r}", *cells):
        page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", theme
        )
        page.wait_for_function(f"() => document.body.dataset.jpThemeName === '{theme}'")
        page.wait_for_selector(".nba-review-panel .nba-title code")
        page.wait_for_timeout(1500)  # the other widgets ask for their rows
        assert faint_texts(page, ".nba") == []
