"""The notebooks as people use them: opened in JupyterLab, run with their defaults, in order, from nothing."""

import pytest
from browser import chromium, copy_notebooks, jupyter_lab, open_notebook, run_all

import nbaudio
from nbaudio.core.bundled_files import bundled
from nbaudio.corpus.verify import verify
from nbaudio.runs.manifests import list_notebooks

# Live widgets of each notebook, and what shows that they have what they asked for.
LIVE = {
    "02_transcripts": (2, ".nba-row .nba-cell:not(:empty)"),
    "03_listen": (3, ".nba-title code"),
    "04_threshold": (1, ".nba-example"),
    "05_review_sheet": (1, ".nba-title code"),
    "06_splits": (1, ".nba-row .nba-cell:not(:empty)"),
    "07_materialize": (1, ".nba-stage-row"),
}
PLAYABLE = "() => [...document.querySelectorAll('audio[src]')].every(audio => audio.duration > 0.5 && !audio.error)"


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


def test_every_notebook_runs_in_order_and_nothing_else_is_contacted(lab):
    root, names, address = lab
    with chromium() as (page, tried):
        for name in names:
            open_notebook(page, address, f"notebooks/{name}")
            cells = run_all(page)
            assert errors(cells) == [], name
            code = [cell for cell in cells if cell["cell_type"] == "code"]
            assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1)), name
            assert any(cell["outputs"] for cell in code), name
            stem = name.removesuffix(".ipynb")
            if stem in LIVE:
                live = "([n, sign]) => document.querySelectorAll('.nba').length === n && document.querySelector(sign)"
                page.wait_for_function(live, arg=LIVE[stem])
                assert page.locator(".nba-alarm:visible").count() == 0, stem
            page.wait_for_function(PLAYABLE)
        assert tried == []
    assert (root / "demo-output/corpus/corpus.json").is_file()
    assert verify(root / "demo-output/corpus", show_progress=False).problems == []


def test_a_page_that_was_run_unattended_plays_offline(tmp_path):
    nbaudio.run(bundled("data_manifests/demo.yaml"), out=tmp_path / "out")
    pages = sorted((tmp_path / "out/html").glob("*.html"))
    assert [page.stem for page in pages] == [*(path.stem for path in list_notebooks()), "index"]
    with chromium() as (page, tried):
        page.unroute_all()
        page.context.set_offline(True)
        clips = 0
        for path in pages:
            page.goto(path.as_uri())
            page.wait_for_function(PLAYABLE)
            clips += page.locator("audio").count()
        assert clips >= 20
        assert tried == []
