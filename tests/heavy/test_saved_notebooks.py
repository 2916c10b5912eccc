"""Notebooks whose kernel ended: saved outputs show when reopened, and live widgets report that the
kernel is gone."""

import os
import signal

import pytest
from browser import run_all
from test_browser_notebooks import errors
from test_browser_widgets import WIDGETS, lab, notebook, workspace  # noqa: F401 - fixtures

from nbaudio.review.state import verdict_log

GONE = "kernel gone: run this cell again"

USABLE = """() => [...document.querySelectorAll('.nba :is(button, input, select, textarea)')]
    .filter(one => !one.closest('[inert]')).length"""


def is_gone(page):
    """The widget says so, nothing in it can be used or sounds, and no key in it reaches the
    notebook."""
    page.wait_for_selector(f".nba-alarm:visible:has-text('{GONE}')")
    assert page.evaluate(USABLE) == 0
    assert page.evaluate(
        "() => [...document.querySelectorAll('audio')].every(audio => audio.paused)"
    )
    before = page.evaluate("() => window.jupyterapp.shell.currentWidget.content.model.cells.length")
    page.locator(".nba").focus()
    for key in ("1", "ArrowDown", "d", "d", " "):
        page.keyboard.press(key)
    assert (
        page.evaluate("() => window.jupyterapp.shell.currentWidget.content.model.cells.length")
        == before
    )
    assert page.evaluate(
        "() => [...document.querySelectorAll('audio')].every(audio => audio.paused)"
    )
    assert GONE in page.locator(".nba-alarm").inner_text()


@pytest.mark.parametrize("name", list(WIDGETS))
def test_widgets_say_that_the_kernel_was_restarted(lab, workspace, name):  # noqa: F811
    page = lab[2]
    with notebook(lab, workspace, WIDGETS[name]):
        page.wait_for_timeout(1000)
        assert page.locator(".nba-alarm:visible").count() == 0
        page.locator(".nba").focus()
        page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
        )
        is_gone(page)
        assert errors(run_all(page)) == []
        page.wait_for_function(
            "() => document.querySelectorAll('.nba').length === 1 && "
            "!document.querySelector('.nba-gone')"
        )


def test_a_verdict_that_the_kernel_did_not_keep_is_not_shown_as_kept(lab, workspace):  # noqa: F811
    page = lab[2]
    with notebook(lab, workspace, WIDGETS["ReviewPanel"]) as ask:
        page.wait_for_function(
            "() => document.querySelector('.nba-title code')?.innerText === 's0'"
        )
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
        page.wait_for_function(
            "() => document.querySelector('.nba-title code')?.innerText === 's0'"
        )
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
        page.wait_for_function(
            "() => document.querySelector('.nba-title code')?.innerText === 's0'"
        )
        forget = "import comm; manager = comm.get_comm_manager(); manager.comms.clear()"
        ask("0", forget)
        page.locator(".nba-review-panel").focus()
        page.keyboard.press("1")
        page.wait_for_selector(f".nba-alarm:visible:has-text('not saved: {GONE}')")
    assert len(verdict_log(workspace)) == 0
