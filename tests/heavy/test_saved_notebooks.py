"""Notebooks whose kernel ended: saved outputs show when reopened, and live widgets report that the kernel is gone."""

import json
import os
import signal

import pytest
from browser import chromium, copy_notebooks, jupyter_lab, open_notebook, run_all
from test_browser_notebooks import errors
from test_browser_widgets import WIDGETS, lab, notebook, workspace  # noqa: F401 - fixtures

from nbaudio.review.state import verdict_log

WIDGET = "application/vnd.jupyter.widget-view+json"
GONE = "kernel gone: run this cell again"
OUTPUTS = "() => [...document.querySelectorAll('.jp-OutputArea-output')].map(output => output.innerText).join('\\n')"

TRUSTED = "() => [...window.jupyterapp.shell.currentWidget.content.model.cells].some(cell => cell.trusted)"
USABLE = """() => [...document.querySelectorAll('.nba :is(button, input, select, textarea)')]
    .filter(one => !one.closest('[inert]')).length"""


def save(page, path):
    """Save the notebook; gives the bundles of its widgets as stored."""
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    saved = json.loads(path.read_text(encoding="utf8"))
    data = [output.get("data", {}) for cell in saved["cells"] for output in cell.get("outputs", [])]
    return [bundle for bundle in data if WIDGET in bundle]


def shut_down(page):
    page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")


def test_notebooks_show_their_stored_views_when_opened_again(tmp_path):
    (tmp_path / "root").mkdir()
    names = copy_notebooks(tmp_path / "root")[:6]
    with jupyter_lab(tmp_path / "root", tmp_path / "home") as address, chromium() as (page, tried):
        for name in names:
            open_notebook(page, address, f"notebooks/{name}")
            assert errors(run_all(page)) == [], name
            if name[:2] not in {"03", "06"}:
                continue
            page.wait_for_selector(".nba")
            bundles = save(page, tmp_path / "root/notebooks" / name)
            assert bundles
            assert all("<script" not in bundle["text/html"] for bundle in bundles), "for nbviewer and GitHub"

            shut_down(page)
            open_notebook(page, address, f"notebooks/{name}")
            assert page.evaluate(TRUSTED), "other notebooks prefer HTML to widgets"
            stored = "number => document.querySelectorAll('.jp-OutputArea-output :is(audio, table)').length >= number"
            page.wait_for_function(stored, arg=sum(bundle["text/html"].count("<audio") or 1 for bundle in bundles))
            page.wait_for_timeout(4000)  # JupyterLab looks for a model for 2 s before it gives up
            page.wait_for_function(stored, arg=1)
            assert "Error displaying widget" not in page.evaluate(OUTPUTS)
            assert "Loading widget" not in page.evaluate(OUTPUTS)
            assert page.locator(".nba").count() == 0

            run_all(page)
            page.wait_for_function("number => document.querySelectorAll('.nba').length === number", arg=len(bundles))
            assert page.locator(".nba-alarm:visible").count() == 0
        assert tried == []


def is_gone(page):
    """The widget says so, nothing in it can be used or sounds, and no key in it reaches the notebook."""
    page.wait_for_selector(f".nba-alarm:visible:has-text('{GONE}')")
    assert page.evaluate(USABLE) == 0
    assert page.evaluate("() => [...document.querySelectorAll('audio')].every(audio => audio.paused)")
    before = page.evaluate("() => window.jupyterapp.shell.currentWidget.content.model.cells.length")
    page.locator(".nba").focus()
    for key in ("1", "ArrowDown", "d", "d", " "):
        page.keyboard.press(key)
    assert page.evaluate("() => window.jupyterapp.shell.currentWidget.content.model.cells.length") == before
    assert page.evaluate("() => [...document.querySelectorAll('audio')].every(audio => audio.paused)")
    assert GONE in page.locator(".nba-alarm").inner_text()


@pytest.mark.parametrize("name", list(WIDGETS))
def test_widgets_say_that_the_kernel_was_restarted(lab, workspace, name):  # noqa: F811
    page = lab[2]
    with notebook(lab, workspace, WIDGETS[name]):
        page.wait_for_timeout(1000)
        assert page.locator(".nba-alarm:visible").count() == 0
        page.locator(".nba").focus()
        page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
        is_gone(page)
        assert errors(run_all(page)) == []
        page.wait_for_function("() => document.querySelectorAll('.nba').length === 1 && !document.querySelector('.nba-gone')")


def test_a_verdict_that_the_kernel_did_not_keep_is_not_shown_as_kept(lab, workspace):  # noqa: F811
    page = lab[2]
    with notebook(lab, workspace, WIDGETS["ReviewPanel"]) as ask:
        page.wait_for_function("() => document.querySelector('.nba-title code')?.innerText === 's0'")
        pid = int(ask("pid", "import os; pid = os.getpid()"))
        os.kill(pid, signal.SIGSTOP)
        page.locator(".nba-review-panel").focus()
        page.keyboard.press("1")
        page.wait_for_selector(".nba-alarm:visible:has-text('nothing is saved until it responds')")
        os.kill(pid, signal.SIGKILL)
        page.wait_for_selector(f".nba-alarm:visible:has-text('not saved: {GONE}')")
        assert "0 of 9 judged" in page.locator(".nba-progress").inner_text()
        assert page.locator(".nba-verdicts [aria-pressed=true]").count() == 0
        page.locator(".jp-Dialog .jp-mod-accept").click()  # JupyterLab's own message
        is_gone(page)
    assert len(verdict_log(workspace)) == 0


def test_a_busy_kernel_is_not_taken_for_a_dead_one(lab, workspace):  # noqa: F811
    page = lab[2]
    with notebook(lab, workspace, WIDGETS["ReviewPanel"]) as ask:
        page.wait_for_function("() => document.querySelector('.nba-title code')?.innerText === 's0'")
        pid = int(ask("pid", "import os; pid = os.getpid()"))
        os.kill(pid, signal.SIGSTOP)
        page.locator(".nba-review-panel").focus()
        page.keyboard.press("1")
        page.wait_for_selector(".nba-alarm:visible:has-text('nothing is saved until it responds')")
        os.kill(pid, signal.SIGCONT)
        page.wait_for_selector(".nba-progress:has-text('1 of 9 judged')")
        page.wait_for_function("() => !document.querySelector('.nba-alarm:not([hidden])')")
        assert page.locator(".nba-gone").count() == 0
    assert len(verdict_log(workspace)) == 1


def test_a_kernel_without_the_widget_is_noticed_when_no_answer_comes(lab, workspace):  # noqa: F811
    page = lab[2]
    with notebook(lab, workspace, WIDGETS["ReviewPanel"]) as ask:
        page.wait_for_function("() => document.querySelector('.nba-title code')?.innerText === 's0'")
        forget = "import comm; manager = comm.get_comm_manager(); manager.comms.clear()"
        ask("0", forget)
        page.locator(".nba-review-panel").focus()
        page.keyboard.press("1")
        page.wait_for_selector(f".nba-alarm:visible:has-text('not saved: {GONE}')")
    assert len(verdict_log(workspace)) == 0
