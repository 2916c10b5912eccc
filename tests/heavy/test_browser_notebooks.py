"""The notebooks as people use them: opened in JupyterLab, run with their defaults, in order, from
nothing."""

import json

import pytest
from browser import (
    chromium,
    copy_notebooks,
    jupyter_lab,
    open_beside,
    open_notebook,
    run_all,
)

from nbaudio.corpus.verify import verify

# Live widgets of each notebook (the explorer is five), and what shows that they have what they
# asked for.
LIVE = {
    "02_transcripts": (8, ".nba-row .nba-cell:not(:empty)"),
    "03_listen": (9, ".nba-title code"),
    "04_threshold": (1, ".nba-example"),
    "05_review_sheet": (1, ".nba-title code"),
    "06_splits": (1, ".nba-row .nba-cell:not(:empty)"),
    "07_materialize": (1, ".nba-title code"),
}
# Notebooks that are opened again without their kernel.
STORED = ("03_listen", "06_splits")
WIDGET = "application/vnd.jupyter.widget-view+json"
OUTPUTS = (
    "() => [...document.querySelectorAll('.jp-OutputArea-output')].map(output => "
    "output.innerText).join('\\n')"
)
TRUSTED = (
    "() => [...window.jupyterapp.shell.currentWidget.content.model.cells].some(cell => "
    "cell.trusted)"
)
PLAYABLE = (
    "() => [...document.querySelectorAll('audio[src]')].every(audio => audio.duration > "
    "0.5 && !audio.error)"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    root, home = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("home")
    names = copy_notebooks(root)
    with jupyter_lab(root, home) as address:
        yield root, names, address


def errors(cells):
    return [
        f"{output['ename']}: {output['evalue']}"
        for cell in cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "error"
    ]


def save(page, path):
    """Save the notebook; gives the bundles of its widgets as stored."""
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    saved = json.loads(path.read_text(encoding="utf8"))
    data = [output.get("data", {}) for cell in saved["cells"] for output in cell.get("outputs", [])]
    return [bundle for bundle in data if WIDGET in bundle]


def shut_down(page):
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")


def check_stored(page, address, path):
    """Check what a notebook opened again without its kernel shows, and that running it makes its
    widgets live again."""
    bundles = save(page, path)
    assert bundles
    assert all("<script" not in bundle["text/html"] for bundle in bundles), (
        "for nbviewer and GitHub"
    )

    shut_down(page)
    open_notebook(page, address, f"notebooks/{path.name}")
    assert page.evaluate(TRUSTED), "other notebooks prefer HTML to widgets"
    stored = (
        "number => document.querySelectorAll('.jp-OutputArea-output :is(audio, "
        "table)').length >= number"
    )
    page.wait_for_function(
        stored, arg=sum(bundle["text/html"].count("<audio") or 1 for bundle in bundles)
    )
    page.wait_for_timeout(4000)  # JupyterLab looks for a model for 2 s before it gives up
    page.wait_for_function(stored, arg=1)
    assert "Error displaying widget" not in page.evaluate(OUTPUTS)
    assert "Loading widget" not in page.evaluate(OUTPUTS)
    assert page.locator(".nba").count() == 0

    run_all(page)
    page.wait_for_function(
        "number => document.querySelectorAll('.nba').length >= number", arg=len(bundles)
    )
    assert page.locator(".nba-alarm:visible").count() == 0


def test_every_notebook_runs_in_order_and_nothing_else_is_contacted(lab):
    root, names, address = lab
    with chromium() as (page, tried):
        for name in names:
            if name == names[0]:
                open_notebook(page, address, f"notebooks/{name}")
            else:
                open_beside(page, f"notebooks/{name}")
            cells = run_all(page)
            assert errors(cells) == [], name
            code = [cell for cell in cells if cell["cell_type"] == "code"]
            assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1)), name
            assert any(cell["outputs"] for cell in code), name
            stem = name.removesuffix(".ipynb")
            if stem in LIVE:
                live = (
                    "([n, sign]) => document.querySelectorAll('.nba').length === n && "
                    "document.querySelector(sign)"
                )
                page.wait_for_function(live, arg=LIVE[stem])
                assert page.locator(".nba-alarm:visible").count() == 0, stem
            page.wait_for_function(PLAYABLE)
            if stem in STORED:
                check_stored(page, address, root / "notebooks" / name)
        assert tried == []
    assert (root / "demo-output/corpus/corpus.json").is_file()
    assert verify(root / "demo-output/corpus", show_progress=False).problems == []
