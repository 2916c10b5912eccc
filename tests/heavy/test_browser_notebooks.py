"""The notebooks as people use them: opened in JupyterLab, run with their defaults, in order, from nothing."""

import json

import pytest
from browser import chromium, copy_notebooks, jupyter_lab, open_notebook, run_all

from nbaudio.corpus import verify

# Played clips of each notebook, counted in the page.
CLIPS = {"03_listen": 11, "04_threshold": 6, "07_materialize": 3}


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
            if stem in CLIPS:
                page.wait_for_function(f"() => document.querySelectorAll('audio').length === {CLIPS[stem]}")
                page.wait_for_function("() => [...document.querySelectorAll('audio')].every(a => a.duration > 0.5 && !a.error)")
        assert tried == []
    assert (root / "demo-output/corpus/corpus.json").is_file()
    assert verify(root / "demo-output/corpus", show_progress=False).problems == []


def test_clip_plays(lab):
    _, _, address = lab
    with chromium() as (page, _):
        open_notebook(page, address, "notebooks/03_listen.ipynb")
        assert errors(run_all(page)) == []
        page.locator("audio").first.evaluate("audio => audio.play()")
        page.wait_for_function("() => document.querySelector('audio').currentTime > 0.2")


def test_slider_answers_to_keys_and_the_kernel_knows_its_value(lab):
    root, _, address = lab
    path = root / "notebooks/04_slider.ipynb"
    notebook = json.loads((root / "notebooks/04_threshold.ipynb").read_text(encoding="utf8"))
    for cell in notebook["cells"]:
        if "widgets.threshold(" in "".join(cell["source"]):
            cell["source"] = ["tuner = widgets.threshold(workspace, min_similarity)\n", "tuner"]
    path.write_text(json.dumps(notebook), encoding="utf8")
    with chromium() as (page, tried):
        open_notebook(page, address, "notebooks/04_slider.ipynb")
        assert errors(run_all(page)) == []
        line = page.locator(".widget-label", has_text="kept:")
        assert line.inner_text().startswith("at 0.80 kept: 107 segments")
        handle = page.locator(".noUi-handle")
        handle.focus()
        for _ in range(16):
            handle.press("ArrowRight")
        page.wait_for_function("() => document.body.innerText.includes('at 0.96 kept: 76 segments')")
        value = page.evaluate(
            """async () => {
                const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
                const future = kernel.requestExecute({code: '', user_expressions: {value: 'tuner.value'}, silent: false});
                const reply = await future.done;
                return reply.content.user_expressions.value.data['text/plain'];
            }"""
        )
        assert value == "0.96"
        assert tried == []
