"""Measure how fast a review page answers.

It has 1,000 clips of 2 to 10 s, and is opened from a file in headless Chromium.

    python benchmarks/page.py [--clips 1000] [--rounds 15] [--work DIR] [--json FILE]

Measured in the page: from the start of its loading to the first clip drawn, and from a verdict's
key to the next clip playing; with the clips embedded, and in a folder beside the page.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import soundfile as sf

TOP = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests" / "heavy")]

from browser import CHROMIUM, CHROMIUM_OPTIONS  # noqa: E402
from conftest import sweeps  # noqa: E402
from playwright.sync_api import Page, sync_playwright  # noqa: E402

from nbaudio import review  # noqa: E402
from nbaudio.review import review_page  # noqa: E402
from nbaudio.tables.workspace import Workspace  # noqa: E402

RATE = 16000
PAUSE_MS = 400  # between two keys: nobody judges faster
SHOWN = "() => Number(document.querySelector('.nba-review-panel')?.dataset.shown)"
KEY_TO_SOUND = """async () => {
    const root = document.querySelector('.nba-review-panel');
    const begun = performance.now();
    root.dispatchEvent(new KeyboardEvent('keydown', { key: '1', code: 'Digit1', bubbles: true }));
    while (!(Number(root.dataset.playing) > begun)) {
        await new Promise(resolve => requestAnimationFrame(resolve));
        if (performance.now() - begun > 10000) throw new Error('no sound in 10 s');
    }
    return Number(root.dataset.playing) - begun;
}"""


def make(folder: Path, clips: int) -> Workspace:
    """Make a workspace of texts of up to 25 words with their times.

    Its one recording is of gliding tones.
    """
    (folder / "audio").mkdir(parents=True)
    seconds = np.random.default_rng(0).uniform(2, 10, clips).round(2)
    ends = np.cumsum(seconds)
    total = int(ends[-1]) + 1
    samples = np.resize(sweeps(60, RATE, channels=1)[:, 0], total * RATE)
    sf.write(folder / "audio/a.flac", samples, RATE)
    starts = ((ends - seconds) * RATE).astype(int)
    words = [[f"riječ{i}" for i in range(int(2.5 * length))] for length in seconds]
    times = [
        [{"start": 0.4 * i, "end": 0.4 * i + 0.4} for i in range(len(text_words))]
        for text_words in words
    ]
    facts = {
        "path": "a.flac",
        "sampling_rate": RATE,
        "num_channels": 1,
        "num_samples": total * RATE,
        "codec": "flac",
    }
    workspace = Workspace.create(folder / "w", source="made", audio=str(folder / "audio"))
    workspace.save(
        recordings=pl.DataFrame({"recording_id": ["a"], **facts}),
        segments=pl.DataFrame(
            {
                "segment_id": [f"a_{i:05d}" for i in range(clips)],
                "recording_id": "a",
                "start_sample": starts,
                "end_sample": starts + (seconds * RATE).astype(int),
                "source_start": [f"{start / RATE:.4f}" for start in starts],
                "source_end": [
                    f"{start / RATE + length:.4f}"
                    for start, length in zip(starts, seconds, strict=True)
                ],
                "text": [" ".join(text_words) for text_words in words],
                "asr_text": [" ".join(text_words[1:]) for text_words in words],
                "word_times": times,
                "similarity": 0.9,
            }
        ),
    )
    return workspace


def measure(page: Page, path: Path, rounds: int) -> dict[str, list[float]]:
    """Return times in ms: opening the page, and verdicts to the next sound."""
    opening = []
    for _ in range(3):
        page.goto("about:blank")
        page.goto(path.as_uri(), wait_until="commit")
        if page.get_by_label("your name").count() or not opening:
            page.get_by_label("your name").fill("ana")
            page.get_by_label("your name").press("Enter")
            page.wait_for_function(f"{SHOWN} > 0")
            page.reload(wait_until="commit")
        page.wait_for_function(f"{SHOWN} > 0")
        opening.append(page.evaluate(SHOWN))
    page.keyboard.press("ArrowDown")  # browsers let a page play once a key was pressed
    page.wait_for_timeout(PAUSE_MS)
    sound = []
    for _ in range(rounds):
        sound.append(page.evaluate(KEY_TO_SOUND))
        page.wait_for_timeout(PAUSE_MS)
    return {"open": opening, "verdict to sound": sound}


def main() -> None:
    """Measure both kinds of pages and print medians and greatest values."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clips", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp())
    workspace = make(work, 2 * options.clips)
    results = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_OPTIONS)
        for kind, most in (("embedded", review_page.MOST_EMBEDDED_BYTES), ("folder", 0)):
            review_page.MOST_EMBEDDED_BYTES = most
            path = work / f"{kind}.html"
            begun = time.perf_counter()
            review.export(workspace, out=path, blind=False, n=options.clips)
            print(
                f"{kind}: {path.stat().st_size / 1e6:.1f} MB, "
                f"written in {time.perf_counter() - begun:.1f} s"
            )
            for what, times in measure(browser.new_page(), path, options.rounds).items():
                results[f"{kind}, {what}"] = times
                print(
                    f"{kind}, {what}: {statistics.median(times):.0f} ms, "
                    f"at most {max(times):.0f} ms"
                )
        browser.close()
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
