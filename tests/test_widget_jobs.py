"""JobPanel without a browser: a step in a thread, with progress, cancelled at once, resumed."""

import asyncio
import time
from functools import partial
from threading import Event

import pytest
from test_widget_tables import ask
from test_widgets import Page

from nbaudio.core.errors import InputError, NbaudioError
from nbaudio.core.progress import progress, progress_note
from nbaudio.core.report import Report
from nbaudio.corpus.materialize import materialize
from nbaudio.corpus.verify import verify
from nbaudio.ui.widgets import JobPanel


def state(panel, until=lambda state: state["status"] not in ("running", "stopping")):
    """The panel's state once `until` holds."""
    for _ in range(1000):
        found, _ = ask(panel, "job.state")
        if until(found):
            return found
        time.sleep(0.01)
    raise AssertionError(found)


def test_stages_rate_time_left_and_ledger_are_reported_while_it_runs():
    go_on = Event()

    def step():
        with progress("cut ", 4.0, "h of audio", show=False) as advance:
            advance(3.0)
            progress_note("a.wav: <b>broken</b>")
            time.sleep(0.02)
            assert go_on.wait(10)
        with progress("pack", 2, "shards", show=False) as advance:
            advance(1)
            advance(1)
        return Report("materialize", {"kept": 7})

    panel = JobPanel(step)
    running = state(panel, lambda state: state["lines"])
    [stage] = running["stages"]
    assert (running["status"], stage["what"], stage["done"], stage["total"], stage["over"]) == ("running", "cut", 3.0, 4.0, False)
    later, _ = ask(panel, "job.state")
    assert later["stages"][0]["left_s"] == pytest.approx(1 / later["stages"][0]["rate"])
    assert running["lines"] == ["a.wav: <b>broken</b>"]
    assert "running in the background" in Page(panel.static_html()).check_harmless().texts[0]
    go_on.set()
    assert asyncio.run(panel.wait()).facts == {"kept": 7}
    assert panel.result().facts == {"kept": 7}
    over = state(panel)
    assert (over["status"], [stage["over"] for stage in over["stages"]]) == ("done", [True, True])


def test_cancel_stops_where_it_is_and_start_begins_again():
    runs = []

    def step():
        runs.append(len(runs))
        try:
            while len(runs) == 1:
                time.sleep(0.01)
        except Exception:  # noqa: BLE001 - what is to stop must not be held up by it
            runs.append("held up")
        return Report("materialize", {})

    panel = JobPanel(step)
    state(panel, lambda _: runs)
    began = time.monotonic()
    ask(panel, "job.cancel")
    assert state(panel)["status"] == "cancelled"
    assert time.monotonic() - began < 1
    with pytest.raises(NbaudioError, match="cancelled; start it to continue"):
        panel.result()
    ask(panel, "job.start")
    assert panel.result().step == "materialize"
    assert runs == [0, 1]
    ask(panel, "job.cancel")  # too late
    assert state(panel)["status"] == "done"


def test_what_fails_is_said_in_the_panel_and_raised_by_result():
    def step():
        raise InputError("w: no segment is accepted")

    panel = JobPanel(step, start=False)
    assert state(panel)["status"] == "not started"
    with pytest.raises(NbaudioError, match="not started"):
        panel.result()
    ask(panel, "job.start")
    failed = state(panel)
    assert (failed["status"], failed["error"]) == ("failed", "w: no segment is accepted")
    with pytest.raises(NbaudioError, match="no segment is accepted"):
        panel.result()
    unexpected = JobPanel(lambda: 1 / 0)
    assert state(unexpected)["error"] == "ZeroDivisionError: division by zero"


def test_a_cancelled_corpus_is_finished_by_the_next_run(make_workspace, tmp_path, monkeypatch):
    workspace = make_workspace({"a.wav": (30.0, 44100), "b.flac": (20.0, 16000)})
    (workspace.audio_root / "b.flac").write_bytes(b"no audio")
    corpus = tmp_path / "c"
    step = partial(materialize, workspace, out=corpus, jobs=1, shard_size="100kB", show_progress=False)
    panel = JobPanel(step, start=False)
    stage = panel.stage
    monkeypatch.setattr(panel, "stage", lambda *what: (stage(*what), time.sleep(0.2)))
    ask(panel, "job.start")
    state(panel, lambda state: state["stages"])
    ask(panel, "job.cancel")
    assert state(panel)["status"] == "cancelled"
    assert not (corpus / "corpus.json").exists()
    monkeypatch.undo()
    ask(panel, "job.start")
    assert panel.result().facts["kept"] == 10
    over = state(panel)
    assert over["noted"] == len(panel.result().problems) == 6
    assert over["corpus"].endswith("/c")
    assert verify(corpus, jobs=1, show_progress=False).problems == []
