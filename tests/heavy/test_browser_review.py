"""Reviews in JupyterLab: several faults at one segment, a blind review, names to choose from, and
what comes next."""

from test_browser_widgets import lab, notebook, workspace

from nbaudio import review
from nbaudio.review.state import verdict_log, verdicts

__all__ = ["lab", "workspace"]

SHOWN = "(id) => document.querySelector('.nba-title code')?.innerText === id"
PRESSED = (
    "() => [...document.querySelectorAll('.nba-verdicts [aria-pressed=true]')].map(each "
    "=> each.lastChild.textContent).join()"
)

# Keys `[key, code]` before anything else happens in the page; `#` with Shift.
AT_ONCE = """keys => {
    const panel = document.querySelector('.nba-review-panel');
    panel.focus();
    for (const [key, code] of keys)
        panel.dispatchEvent(new KeyboardEvent('keydown', {
            key, code, shiftKey: key === '#', bubbles: true, cancelable: true
        }));
}"""


def test_a_blind_review_with_two_faults_at_a_segment_ends_with_the_next_step(lab, workspace):
    page = lab.page
    review.export(
        workspace,
        out=workspace.path / "one.xlsx",
        n=3,
        reviewers=["ana", "ben"],
        overlap=3,
        blind=True,
    )
    first, second, third = review.state.ReviewState.load(workspace).records["one"].segment_ids
    with notebook(
        lab, workspace, "panel = widgets.ReviewPanel(W, review='one', reviewer='ana')\npanel"
    ) as ask:
        page.wait_for_function(SHOWN, arg=first)
        panel = page.locator(".nba-review-panel")
        assert "similarity" not in panel.inner_text()
        assert panel.locator(".nba-hypothesis").count() == 0
        assert panel.get_by_label("reviewer").input_value() == "ana"
        panel.focus()
        page.keyboard.press("Shift+Digit3")
        page.wait_for_function(f"() => ({PRESSED})() === 'cut off'")
        page.keyboard.press("Shift+Digit6")
        page.wait_for_selector(".nba-progress:has-text('1 of 3 judged')")
        page.wait_for_selector(".nba-row:has-text('cut off, noise')")
        assert page.evaluate(PRESSED) == "cut off,noise"
        assert page.evaluate(SHOWN, first)
        page.keyboard.press("4")
        page.wait_for_function(SHOWN, arg=second)
        assert verdicts(workspace)["verdict"].to_list() == ["cut off, extra speech, noise"]
        page.get_by_role("button", name="too noisy").click(modifiers=["Shift"])
        page.wait_for_selector(".nba-progress:has-text('2 of 3 judged')")
        page.keyboard.press("Shift+Digit6")
        page.wait_for_selector(".nba-progress:has-text('1 of 3 judged')")
        page.keyboard.press("u")
        page.wait_for_function(f"() => ({PRESSED})() === 'noise'")
        page.keyboard.press("1")
        page.wait_for_function(SHOWN, arg=third)
        page.keyboard.press("1")
        page.get_by_text("still to come: ben (3 of 3 segments)").wait_for()
        assert ask("panel.progress['done']") == "3"
    log = verdict_log(workspace)
    assert set(log["blind"]) == {True}
    assert dict(verdicts(workspace).select("segment_id", "verdict").iter_rows()) == {
        first: "cut off, extra speech, noise",
        second: "ok",
        third: "ok",
    }


def test_verdicts_typed_before_a_slow_kernel_responds_are_stored(lab, workspace):
    page = lab.page
    review.export(workspace, out=workspace.path / "one.xlsx", n=3, blind=False)
    first, second, third = review.state.ReviewState.load(workspace).records["one"].segment_ids
    with notebook(lab, workspace, "widgets.ReviewPanel(W, review='one', reviewer='ana')"):
        page.wait_for_function(SHOWN, arg=first)
        page.wait_for_timeout(500)  # the next clip is known
        page.locator(".nba-review-panel").focus()
        page.keyboard.press("e")
        words = page.get_by_label("corrected words")
        of_first = words.input_value()
        page.keyboard.press("Escape")
        page.evaluate("window.latencyMs = 400")
        page.keyboard.press("2")
        page.wait_for_selector(f".nba-cursor:has-text('{second}')")
        page.keyboard.press("e")
        of_second = words.input_value()  # empty, unless the machine is as slow as the kernel
        page.keyboard.press("Escape")
        page.keyboard.press("t")
        page.keyboard.type("a door")
        page.keyboard.press("Enter")
        page.keyboard.press("6")
        page.wait_for_selector(".nba-progress:has-text('2 of 3 judged')")
        page.wait_for_function(SHOWN, arg=third)
        # A further fault joins the earlier one, and the comment stays.
        page.evaluate(AT_ONCE, [["ArrowUp", ""], ["#", "Digit3"]])
        page.wait_for_selector(".nba-row:has-text('cut off, noise')")
        # What is typed right after a move stays.
        page.evaluate(AT_ONCE, [["ArrowDown", ""], ["e", ""]])
        page.keyboard.type("right ")
        page.wait_for_function(SHOWN, arg=third)
        page.wait_for_timeout(1000)
        assert words.input_value().startswith("right ")
    said = {
        row["segment_id"]: (row["verdict"], row["comment"])
        for row in verdicts(workspace).iter_rows(named=True)
    }
    assert of_second != of_first != ""
    assert said == {first: ("wrong words", ""), second: ("cut off, noise", "a door")}
