"""From recordings and minutes to segments in the notebooks: the recognizer of a manifest, the
demo's recording with minutes, the map of what segments cover."""

import json
from pathlib import Path

import pytest
from heard_tones import WORDS, recognizer_code, typed, write_recording
from pdf_files import lines, make_pdf, wrapped

from nbaudio import plots
from nbaudio.core.bundled_files import bundled
from nbaudio.core.errors import InputError
from nbaudio.runs.minutes_example import align_example
from nbaudio.runs.preflight import check_modules, check_run
from nbaudio.runs.read_source import read_source
from nbaudio.tables.workspace import Workspace


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """A recording of 40 words, two a second, and its minutes."""
    sentences = [WORDS[first : first + 10] for first in range(0, 40, 10)]
    write_recording(tmp_path / "recordings/day1.wav", sentences)
    (tmp_path / "minutes").mkdir()
    page = lines(60, 60, wrapped(typed(sentences), 300))
    (tmp_path / "minutes/day1.pdf").write_bytes(make_pdf([page]))
    (tmp_path / "hearing.py").write_text(recognizer_code())
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path, typed(sentences)


def test_recordings_are_recognized_and_aligned_with_pdf_minutes(recorded):
    pytest.importorskip("pypdfium2")
    folder, minutes = recorded
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
    assert " ".join(segments["text"]) == minutes
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
    folder = Path(bundled("data_manifests/demo.yaml")).parent
    report = align_example(folder / "demo_minutes", folder / "demo" / "audio", out)
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


def test_a_module_that_is_missing_is_refused_before_the_first_notebook(tmp_path):
    for name in ("recognizer", "measure_with"):
        with pytest.raises(InputError, match=f"{name}: no_such.part:f: there is no module no_such"):
            check_modules({name: "no_such.part:f"}, [name], tmp_path)
        check_modules({name: "no_such:f"}, ["other"], tmp_path)
        check_modules({name: "python no_such.py"}, [name], tmp_path)
        check_modules({name: "json.tool:main"}, [name], tmp_path)
        check_modules({name: None}, [name], tmp_path)
    (tmp_path / "no_such.py").touch()
    check_modules({"recognizer": "no_such:f"}, ["recognizer"], tmp_path)
