"""Notebooks whose kernel ended: saved outputs show when reopened, and live widgets report that the
kernel is gone."""

import os
import signal

from browser import run_all
from test_browser_notebooks import errors
from test_browser_widgets import WIDGETS, lab, notebook, workspace  # noqa: F401 - fixtures

from nbaudio.review.state import verdict_log

GONE = "kernel gone: run this cell again"

# Whether each of so many widgets shows a text in an alarm.
ALL_SHOW = """([number, text]) => {
    const widgets = [...document.querySelectorAll('.nba')];
    return widgets.length === number && widgets.every(widget =>
        [...widget.querySelectorAll('.nba-alarm')].some(alarm =>
            alarm.checkVisibility() && alarm.innerText.includes(text)));
}"""
USABLE = """() => [...document.querySelectorAll('.nba :is(button, input, select, textarea)')]
    .filter(one => !one.closest('[inert]')).length"""


def are_gone(page, number):
    """All widgets, of which there are so many, say so, nothing in them can be used or sounds, and
    no key in them reaches the notebook."""
    page.wait_for_function(ALL_SHOW, arg=[number, GONE])
    assert page.evaluate(USABLE) == 0
    assert page.evaluate(
        "() => [...document.querySelectorAll('audio')].every(audio => audio.paused)"
    )
    before = page.evaluate("() => window.jupyterapp.shell.currentWidget.content.model.cells.length")
    for widget in page.locator(".nba").all():
        widget.focus()
        for key in ("1", "ArrowDown", "d", "d", " "):
            page.keyboard.press(key)
        assert GONE in widget.locator(".nba-alarm").inner_text()
    assert (
        page.evaluate("() => window.jupyterapp.shell.currentWidget.content.model.cells.length")
        == before
    )
    assert page.evaluate(
        "() => [...document.querySelectorAll('audio')].every(audio => audio.paused)"
    )


def test_all_widgets_say_that_the_kernel_was_restarted(lab, workspace):  # noqa: F811
    page = lab.page
    number = len(WIDGETS)
    with notebook(lab, workspace, *WIDGETS.values(), new_kernel=True):
        page.wait_for_function(
            "number => document.querySelectorAll('.nba').length === number", arg=number
        )
        page.wait_for_timeout(1000)
        assert page.locator(".nba-alarm:visible").count() == 0
        page.locator(".nba").first.focus()
        page.evaluate(
            "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
        )
        are_gone(page, number)
        assert errors(run_all(page)) == []
        page.wait_for_function(
            "number => document.querySelectorAll('.nba').length === number && "
            "!document.querySelector('.nba-gone')",
            arg=number,
        )


def test_a_verdict_that_the_kernel_did_not_keep_is_not_shown_as_kept(lab, workspace):  # noqa: F811
    page = lab.page
    with notebook(lab, workspace, WIDGETS["ReviewPanel"], new_kernel=True) as ask:
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
        are_gone(page, 1)
    assert len(verdict_log(workspace)) == 0


def test_a_busy_kernel_is_not_taken_for_a_dead_one(lab, workspace):  # noqa: F811
    page = lab.page
    with notebook(lab, workspace, WIDGETS["ReviewPanel"], new_kernel=True) as ask:
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
    page = lab.page
    with notebook(lab, workspace, WIDGETS["ReviewPanel"], new_kernel=True) as ask:
        page.wait_for_function(
            "() => document.querySelector('.nba-title code')?.innerText === 's0'"
        )
        forget = "import comm; manager = comm.get_comm_manager(); manager.comms.clear()"
        ask("0", forget)
        page.locator(".nba-review-panel").focus()
        page.keyboard.press("1")
        page.wait_for_selector(f".nba-alarm:visible:has-text('not saved: {GONE}')")
    assert len(verdict_log(workspace)) == 0
