"""Measure how fast the widgets answer at real size.

There are 450,000 segments over 750 recordings of an hour, in JupyterLab and headless Chromium.

    python benchmarks/ui.py [--segments 450000] [--rounds 15] [--parts table,explorer,...]
                            [--work DIR] [--json FILE]

`--segments 10000000 --parts table` measures a table whose rows stay in their file, and the most
memory that its kernel held.

Times are from the key, click or call to the frame that shows the answer, measured in the page. The
recordings are one FLAC and one WAV of an hour at 48 kHz in stereo, under 750 names; segments are 2
to 20 s, the player is asked for those of 20 s.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import psutil
import soundfile as sf

TOP = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests" / "heavy")]

from browser import chromium, jupyter_lab, open_notebook, run_all  # noqa: E402
from conftest import sweeps  # noqa: E402
from playwright.sync_api import Page  # noqa: E402

from nbaudio.tables import workspace_tables  # noqa: E402
from nbaudio.tables.workspace import Workspace  # noqa: E402

RATE = 48000
HOUR_S = 3600
SEGMENTS_A_RECORDING = 600  # segments of a recording
AT_ONCE = 100_000  # segments that are made at once

# `timed` waits for a frame at the start of which `done()` holds, and until it is painted; it gives
# the ms since before `act()`.
SCRIPT = """() => {
    const frame = () => new Promise(resolve => requestAnimationFrame(resolve));
    window.timed = async (act, done) => {
        const begun = performance.now();
        act();
        while (!done(begun)) {
            await frame();
            if (performance.now() - begun > 20000) throw new Error(`no answer in 20 s: ${done}`);
        }
        await new Promise(resolve => setTimeout(resolve));  // behind the frame's paint
        return performance.now() - begun;
    };
    window.one = (selector) => document.querySelector(selector);
    window.key = (key) =>
        one('.nba').dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    window.since = (name) => (begun) => Number(one('.nba')?.dataset[name]) > begun;
    window.sorted = () => one('[aria-sort]:not([aria-sort=none])')?.innerText ?? '';
    window.filled = () => {
        const first = '.nba-row:not([hidden]) .nba-cell:first-child';
        const cells = [...document.querySelectorAll(first)];
        return cells.length > 0 && cells.every(cell => cell.textContent);
    };
    window.enter = (field, text) => {
        one(field).value = text;
        one(field).dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
    };
}"""

Times = dict[str, tuple[float | None, list[float]]]


def make(folder: Path, segments: int) -> Workspace:
    """The workspace: made texts of forty words, two channels of gliding tones."""
    (folder / "audio").mkdir(parents=True)
    minute = (sweeps(60, RATE) * 20000).astype(np.int16)
    for name in ("hour.wav", "hour.flac"):
        with sf.SoundFile(folder / "audio" / name, "w", RATE, 2, "PCM_16") as file:
            for _ in range(HOUR_S // 60):
                file.write(minute)
    names = [f"r{i:05d}" for i in range(-(-segments // SEGMENTS_A_RECORDING))]
    facts = {
        "sampling_rate": RATE,
        "num_channels": 2,
        "num_samples": HOUR_S * RATE,
        "codec": "pcm_16",
    }
    paths = [("hour.wav", "hour.flac")[i % 2] for i in range(len(names))]
    workspace = Workspace.create(folder / "w", source="made", audio=str(folder / "audio"))
    workspace.save(recordings=pl.DataFrame({"recording_id": names, "path": paths, **facts}))
    workspace_tables.write(workspace, rows(names, segments))
    return workspace


def rows(names: list[str], segments: int) -> Iterator[pl.DataFrame]:
    """The segments, some at a time."""
    rng = np.random.default_rng(0)
    lexicon = np.array(
        [
            f"{a}{b}{c}"
            for a in "bdgklmnprstvz"
            for b in "aeiou"
            for c in ("", "ti", "ma", "ško", "nje", "lac")
        ]
    )
    spoken = [lexicon[rng.integers(0, len(lexicon), 40)].tolist() for _ in range(2000)]
    texts = pl.Series([" ".join(words) for words in spoken])
    heard = pl.Series([" ".join(word for word in words if rng.random() > 0.05) for words in spoken])
    times = pl.Series([[{"start": 0.5 * i, "end": 0.5 * i + 0.5} for i in range(41)]])
    for first in range(0, segments, AT_ONCE):
        number = np.arange(first, min(segments, first + AT_ONCE))
        picked = rng.integers(0, len(spoken), len(number))
        start = (number % SEGMENTS_A_RECORDING) * (HOUR_S - 21) / SEGMENTS_A_RECORDING
        length = np.where(number % 3 == 0, 20.0, rng.uniform(2, 20, len(number))).round(2)
        recording = pl.Series(names).gather(number // SEGMENTS_A_RECORDING)
        frame = pl.DataFrame(
            {
                "recording_id": recording,
                "start_sample": (start * RATE).astype(np.int64),
                "end_sample": ((start + length) * RATE).astype(np.int64),
                "source_start": pl.Series(start.round(2)).cast(pl.String),
                "source_end": pl.Series((start + length).round(2)).cast(pl.String),
                "text": texts.gather(picked) + " " + pl.Series(number).cast(pl.String),
                "asr_text": heard.gather(picked),
                "speaker_id": "spk"
                + pl.Series(number // SEGMENTS_A_RECORDING % 300).cast(pl.String),
                "similarity": rng.beta(8, 1, len(number)) * 2 - 1,
                "wer": rng.beta(1, 8, len(number)),
            }
        )
        # Of a large table they would take most of the time that it takes to make.
        if segments <= AT_ONCE * 10:
            words = times.new_from_index(0, len(number))
        else:
            words = times.clear().extend_constant(None, len(number))
        yield frame.select(
            pl.concat_str("recording_id", pl.Series(number).cast(pl.String), separator="_").alias(
                "segment_id"
            ),
            "*",
            word_times=words,
        )


class Bench:
    """A notebook in a page, its last cell not run yet."""

    def __init__(self, page: Page, address: str, root: Path, workspace: Workspace) -> None:
        self.page, self.address, self.root, self.workspace = page, address, root, workspace

    def open(self, source: str) -> None:
        """A notebook with the workspace at hand, and a cell of that source to run."""
        setup = f"from nbaudio import widgets\nW = {str(self.workspace.path)!r}"
        cell = {
            "cell_type": "code",
            "id": "c0",
            "metadata": {},
            "outputs": [],
            "execution_count": None,
            "source": setup,
        }
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
        text = json.dumps({"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5})
        (self.root / "n.ipynb").write_text(text)
        open_notebook(self.page, self.address, "n.ipynb")
        run_all(self.page)
        self.page.evaluate(SCRIPT)
        self.page.evaluate(
            """(source) => {
                const { content } = window.jupyterapp.shell.currentWidget;
                window.jupyterapp.commands.execute('notebook:insert-cell-below');
                content.activeCell.model.sharedModel.setSource(source);
            }""",
            source,
        )

    def time(self, act: str, done: str) -> float:
        """Milliseconds from `act` until `done` is painted; both are expressions of JavaScript."""
        took: float = self.page.evaluate(f"() => timed(() => {act}, {done})")
        return took

    def run(self, done: str) -> list[float]:
        """Milliseconds from running the new cell until `done` is painted."""
        return [self.time("window.jupyterapp.commands.execute('notebook:run-cell')", done)]

    def now(self, expression: str) -> str:
        """A value out of the page, as JavaScript writes it."""
        return json.dumps(self.page.evaluate(f"() => {expression}"))


def table(bench: Bench, rounds: int) -> Times:
    """The virtual table."""
    bench.open("widgets.SegmentTable(W)")
    times_of: Times = {"table: first row": (1500, bench.run("() => filled()"))}
    jumps = []
    for share in np.random.default_rng(1).random(rounds):
        # Rows of before are still there in the very frame: their ids tell them from those of after.
        before = bench.now("one('.nba-row').id")
        act = f"one('.nba-scroller').scrollTop = {share} * one('.nba-scroller').scrollHeight"
        jumps.append(bench.time(act, f"() => one('.nba-row').id !== {before} && filled()"))
    times_of["table: jump"] = (80, jumps)
    for column in ("similarity", "text"):
        times = []
        for _ in range(4):
            before = bench.now("sorted()")
            act = f"one('button[title=\"sort by {column}\"]').click()"
            times.append(bench.time(act, f"() => sorted() !== {before} && filled()"))
        times_of[f"table: sort by {column}"] = (500, times)
    for name, field, text in (
        ("condition", ".nba-where", "similarity < 0.5 and duration_s > 10"),
        ("text", ".nba-find", "baško"),
    ):
        few = "() => one('.nba-count').textContent.includes(' of ')"
        times_of[f"table: filter by {name}"] = (
            None,
            [bench.time(f"enter('{field}', '{text}')", f"{few} && filled()")],
        )
        bench.time(f"enter('{field}', '')", f"() => !({few})()")
    return times_of


def player(bench: Bench, rounds: int) -> Times:
    """Clips of 20 s: such as nobody has asked for, and such as were fetched ahead."""
    segments = len(bench.workspace.segments)
    drawn = 3 * np.random.default_rng(2).integers(0, segments // 3, rounds)  # those of 20 s
    ids = [f"r{number // SEGMENTS_A_RECORDING:05d}_{number}" for number in drawn.tolist()]
    bench.open(f"widgets.Player(W, {ids}, limit=1)")
    bench.run("since('shown')")
    unknown, ahead = [], []
    for _ in range(len(set(ids)) - 1):
        bench.page.wait_for_timeout(600)
        # Another channel is another clip.
        unknown.append(bench.time("key('h')", "since('shown')"))
        bench.page.wait_for_timeout(600)
        ahead.append(bench.time("key('ArrowDown')", "since('shown')"))
    return {
        "player: clip of 20 s": (60, unknown),
        "player: clip of 20 s, next in line": (None, ahead),
    }


def tuner(bench: Bench, rounds: int) -> Times:
    """The threshold, a step at a time."""
    bench.open("widgets.ThresholdTuner(W)")
    first = bench.run("() => one('.nba-example')")
    moved, drawn = [], []
    for _ in range(2 * rounds):
        before = bench.now("one('[role=slider]').getAttribute('aria-valuenow')")
        moved.append(
            bench.time(
                "key('ArrowLeft')",
                f"() => one('[role=slider]').getAttribute('aria-valuenow') !== {before}",
            )
        )
        drawn.append(float(json.loads(bench.now("one('.nba').dataset.drawn"))))
    return {
        "tuner: first picture": (None, first),
        "tuner: redraw": (16, drawn),
        "tuner: key to frame": (None, moved),
    }


def reviewing(bench: Bench, rounds: int) -> Times:
    """From the verdict's key to the sound of the next clip."""
    bench.open("widgets.ReviewPanel(W, reviewer='bench')")
    first = bench.run("since('shown')")
    bench.page.locator(".nba").focus()
    bench.page.keyboard.press("Shift")  # a real key: now the page may play
    played = []
    for _ in range(rounds):
        bench.page.wait_for_timeout(1500)
        played.append(bench.time("key('1')", "since('playing')"))
    return {
        "review: first clip": (None, first),
        "review: verdict to next clip playing": (120, played),
    }


def explorer(bench: Bench, rounds: int) -> Times:
    """Histograms, scatter, table and player together."""
    bench.open("e = widgets.Explorer(W)\ne")
    times_of: Times = {
        "explorer: first row": (
            2000,
            bench.run("() => filled() && one('.nba-histogram .nba-passing')"),
        )
    }
    bench.page.wait_for_timeout(3000)
    bench.page.evaluate(
        """() => {
            window.counted = () => one('.nba-count').textContent;
            window.drag = (selector, from, to) => {
                const target = one(selector), box = target.getBoundingClientRect();
                target.setPointerCapture = () => {};
                const events = { pointerdown: from, pointermove: to, lostpointercapture: to };
                for (const [kind, [x, y]] of Object.entries(events)) {
                    target.dispatchEvent(new PointerEvent(kind, {
                        bubbles: true, buttons: 1, pointerId: 1,
                        clientX: box.left + x * box.width, clientY: box.top + y * box.height,
                    }));
                }
            };
        }"""
    )
    brushed, boxed = [], []
    for share in np.linspace(0.4, 0.9, rounds):
        before = bench.now("counted()")
        act = f"drag('[data-column=similarity] .nba-track', [0.1, 0.5], [{share:.3f}, 0.5])"
        brushed.append(bench.time(act, f"() => counted() !== {before} && filled()"))
        bench.page.wait_for_timeout(1500)
    bench.page.locator("[aria-label='clear all filters of the histograms']").click()
    bench.page.locator("summary").click()
    bench.page.wait_for_timeout(3000)
    for share in np.linspace(0.4, 0.9, rounds):
        before = bench.now("counted()")
        act = f"drag('.nba-cloud', [0.1, 0.9], [{share:.3f}, 0.3])"
        boxed.append(bench.time(act, f"() => counted() !== {before} && filled()"))
        bench.page.wait_for_timeout(1500)
    times_of |= {"explorer: brush to rows": (420, brushed), "explorer: box to rows": (420, boxed)}
    grid = bench.page.get_by_role("grid")
    played = []
    for _ in range(rounds):
        grid.press("ArrowDown")
        bench.page.wait_for_timeout(1500)
        press = (
            "one('.nba-grid').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', "
            "bubbles: true }))"
        )
        begins = "(begun) => Number(one('.nba-player').dataset.playing) > begun"
        played.append(bench.time(press, begins))
    return times_of | {"explorer: Enter to clip playing": (120, played)}


def kernel_memory() -> float:
    """The most resident bytes of a kernel that runs now."""
    peaks = [0.0]
    for process in psutil.Process().children(recursive=True):
        if "ipykernel_launcher" in " ".join(process.cmdline()):
            status = Path(f"/proc/{process.pid}/status").read_text()
            peaks.append(
                1024.0
                * next(
                    int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")
                )
            )
    return max(peaks)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--segments", type=int, default=450_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--parts", default="table,explorer,player,tuner,reviewing")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    times_of: Times = {}
    memory: dict[str, float] = {}
    if args.work is not None:
        args.work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=args.work) as folder:
        workspace = make(Path(folder) / "made", args.segments)
        parts = {
            "table": table,
            "explorer": explorer,
            "player": player,
            "tuner": tuner,
            "reviewing": reviewing,
        }
        root, home = Path(folder) / "root", Path(folder) / "home"
        root.mkdir()
        with jupyter_lab(root, home) as address, chromium() as (page, tried):
            page.set_default_timeout(60_000)
            for name in args.parts.split(","):
                times_of |= parts[name](Bench(page, address, root, workspace), args.rounds)
                memory[name] = kernel_memory()
        assert tried == []
    rows = {
        name: {
            "wanted_ms": wanted,
            "median_ms": round(statistics.median(times), 1),
            "worst_ms": round(max(times), 1),
        }
        for name, (wanted, times) in times_of.items()
    }
    sys.stdout.write(
        f"{args.segments:,} segments, ms {'':20}{'wanted':>8}{'median':>9}{'worst':>9}\n"
    )
    for name, row in rows.items():
        sys.stdout.write(
            f"{name:41}{row['wanted_ms'] or '-':>8}{row['median_ms']:9}{row['worst_ms']:9}\n"
        )
    for name, most in memory.items():
        sys.stdout.write(f"{name}: kernels held at most {most / 1e6:,.0f} MB\n")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
