"""Pictures of the documentation: each shows the widgets, plots and pages of today."""

import re
import sys

import pytest
from pages import TOP, text

from nbaudio import widgets

sys.path.insert(0, str(TOP / "docs"))
import pictures

BY_NAME = {picture.name: picture for picture in pictures.PICTURES}
# Widgets whose front end a picture shows.
FRONT_ENDS = {
    "transcripts.png": [
        widgets.SegmentTable,
        widgets.Player,
        sys.modules["nbaudio.ui.widgets.histograms"].Histograms,
        sys.modules["nbaudio.ui.widgets.histograms"].Scatter,
        sys.modules["nbaudio.ui.widgets.explorer"].ActionBar,
    ],
    "listen.png": [widgets.Player],
    "threshold.png": [widgets.ThresholdTuner],
    "review.png": [widgets.ReviewPanel],
}


def test_every_picture_is_newer_than_its_sources():
    outdated = pictures.outdated_pictures()
    assert outdated == [], (
        f"{', '.join(outdated)}: what they show has changed since they were taken. Retake all "
        f"pictures with '{pictures.RETAKE}', look at them, and commit docs/img and "
        "docs/pictures.json. If a picture still shows the truth, "
        f"'{pictures.RETAKE} --keep NAME.png' records that."
    )


def test_every_picture_of_docs_is_taken_by_a_script():
    scripts = {path.name: text(path) for path in (TOP / "docs").glob("*.py")}
    for path in (TOP / "docs/img").glob("*.png"):
        assert [name for name, code in scripts.items() if path.name in code], path.name


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_sources_of_a_picture_have_the_front_end_of_its_widgets(name):
    front_end = "".join(pictures.visible_source(source) for source in BY_NAME[name].sources)
    shown = re.sub(r"\s+", "", front_end)
    for widget in FRONT_ENDS[name]:
        script = widget._esm.partition("\nexport default")[0]
        without_comments = re.sub(r"/\*.*?\*/", "", script, flags=re.DOTALL)
        for line in re.sub(r"^\s*//.*$", "", without_comments, flags=re.MULTILINE).splitlines():
            assert re.sub(r"\s+", "", line) in shown, (name, line)


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A picture of a function, in a repository of its own."""
    monkeypatch.setattr(pictures, "TOP", tmp_path)
    path = tmp_path / "plot.py"
    path.write_text('def draw(x):\n    """Draw."""\n    return x  # bars\n\n\ndef other(): ...\n')
    return path, pictures.Picture("plot.png", ("plot.py::draw",))


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("return x ", "return 2 * x ", True),
        ('"""Draw."""', '"""Draw bars.\n\n    Twice.\n    """', False),
        ("    return x", "    # A comment.\n\n    return x", False),
        ("def other(): ...", "def other(y): ...", False),
    ],
)
def test_only_what_can_change_a_picture_makes_it_outdated(module, old, new, changes):
    path, picture = module
    before = pictures.source_hash(picture)
    path.write_text(path.read_text().replace(old, new))
    assert (pictures.source_hash(picture) != before) == changes


def test_a_missing_source_of_a_picture_is_an_error(module):
    with pytest.raises(LookupError, match=r"plot\.py::paint: no function or class"):
        pictures.source_hash(pictures.Picture("plot.png", ("plot.py::paint",)))


def test_a_cell_of_a_notebook_is_found_by_how_it_begins():
    source = pictures.visible_source("notebooks/06_splits.ipynb::plots.splits(")
    assert source.startswith("plots.splits(")
