"""From recordings and minutes to segments in the notebooks: the recognizer of a manifest, the
demo's recording with minutes, the map of what segments cover."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from pdf_files import lines, make_pdf, wrapped

from nbaudio import plots
from nbaudio.core.bundled_files import bundled
from nbaudio.core.errors import InputError
from nbaudio.runs.minutes_example import align_example
from nbaudio.runs.preflight import check_run
from nbaudio.runs.read_source import read_source
from nbaudio.tables.workspace import Workspace

RATE = 16000
# A recognizer that hears a word of a list in each tone, by its frequency: 300, 340, 380 Hz, ...
HEARING = """
import numpy as np

version = "1"
WORDS = {words!r}
FRAME = 320

def recognize(clips):
    return [list(words(clip)) for clip in clips]

def words(clip):
    frames = clip[: len(clip) // FRAME * FRAME].reshape(-1, FRAME)
    is_on = abs(frames).max(axis=1) > 0.05
    edges = np.flatnonzero(np.diff(is_on, prepend=False, append=False))
    for first, end in edges.reshape(-1, 2):
        samples = clip[first * FRAME : end * FRAME]
        samples = samples[FRAME:-FRAME]
        hertz = np.count_nonzero(np.diff(samples > 0)) / 2 / (len(samples) / 16000)
        word = WORDS[round((hertz - 300) / 40)]
        yield {{"word": word, "start": first * FRAME / 16000, "end": end * FRAME / 16000}}
"""
WORDS = [
    f"{first}{second}{third}"
    for first in ("bra", "kolo", "pet")
    for second in ("da", "mi", "ra", "tu")
    for third in ("c", "k", "lo", "na")
]


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A recording of 40 words, two a second, with a pause behind each ten, and its minutes."""
    (tmp_path / "recordings").mkdir()
    (tmp_path / "minutes").mkdir()
    (tmp_path / "hearing.py").write_text(HEARING.format(words=WORDS))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    time = np.arange(int(0.4 * RATE)) / RATE
    pause = np.zeros(RATE // 10)
    parts = []
    sentences = []
    for first in range(0, 40, 10):
        for number in range(first, first + 10):
            parts += [0.3 * np.sin(2 * np.pi * (300 + 40 * number) * time), pause]
        parts += [pause] * 10
        sentences.append(f"{' '.join(WORDS[first : first + 10]).capitalize()}.")
    samples = np.concatenate(parts)
    soundfile.write(tmp_path / "recordings/day1.wav", samples, RATE)
    page = lines(60, 60, wrapped(" ".join(sentences), 300))
    (tmp_path / "minutes/day1.pdf").write_bytes(make_pdf([page]))
    return tmp_path, sentences


def test_recordings_are_recognized_and_aligned_with_pdf_minutes(recorded):
    pytest.importorskip("pypdfium2")
    folder, sentences = recorded
    report = read_source(
        "align",
        None,
        documents=folder / "minutes",
        recognizer="hearing:recognize",
        audio=folder / "recordings",
        out=folder / "R/workspace",
        jobs=1,
    )
    assert report.problems == []
    words = json.loads((folder / "R/hypotheses/day1.json").read_text("utf8"))["segments"]
    assert sum(len(segment["words"]) for segment in words) == 40
    segments = Workspace.open(folder / "R/workspace").segments
    assert " ".join(segments["text"]) == " ".join(sentences)
    assert segments["document_page"].unique().to_list() == [1]
    lines_of_segments = segments["document_line"].to_list()
    assert lines_of_segments == sorted(lines_of_segments)
    assert lines_of_segments[-1] > lines_of_segments[0] == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"source": "."}, "source and recognizer: both give words"),
        ({"documents": None}, "recognizer: expected documents"),
        ({"audio": None}, "recognizer: expected audio"),
    ],
)
def test_a_recognizer_needs_documents_and_recordings_and_no_source(changes, reason, tmp_path):
    values = {"source": None, "documents": str(tmp_path), "audio": str(tmp_path)}
    with pytest.raises(InputError, match=reason):
        check_run({**values, "recognizer": "a:b", **changes}, [*values, "recognizer"])
    check_run({**values, "recognizer": "a:b"}, [*values, "recognizer"])


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The workspace of the demo's recording with minutes."""
    out = tmp_path_factory.mktemp("example") / "workspace"
    demo = Path(bundled("data_manifests/demo.yaml")).parent / "demo"
    report = align_example(demo / "minutes", demo / "audio", out)
    assert report.problems == []
    return Workspace.open(out)


def test_the_minutes_of_the_demo_cover_all_but_what_they_leave_out(example):
    unmatched = example.table("unmatched")
    [(start, end)] = (
        unmatched.filter(kind="audio", reason="not typed")
        .select("source_start", "source_end")
        .rows()
    )
    assert 12 < end - start < 14
    texts = unmatched.filter(kind="text")["text"].to_list()
    assert any(text.startswith("(Laughter.) The committee takes note") for text in texts)
    assert len(example.segments) == 13
    assert align_example(None, None, "nowhere") is None


def test_the_map_shows_where_segments_are_and_what_is_in_none(example):
    plot = plots.coverage(example)
    (axes,) = plot.axes
    whole, segments, rest = axes.collections
    spans = example.segments.select("source_start", "source_end").cast(float).sort("source_start")
    drawn = [path.get_extents() for path in segments.get_paths()]
    assert [(box.x0, box.x1) for box in drawn] == [pytest.approx(row) for row in spans.rows()]
    assert len(rest.get_paths()) == 1
    (bar,) = whole.get_paths()
    assert bar.get_extents().x1 == pytest.approx(73.8, abs=0.5)
    assert plot.alt_text.endswith(" of 1 min 14 s in segments, 1 part heard and in none")
