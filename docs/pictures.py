"""Pictures in docs/img that show nbaudio, and whether each still shows what nbaudio looks like.

`docs/screenshots.py` takes the pictures, and records in docs/pictures.json a hash of what each
picture shows: the front end of a widget, a function that draws, the cells of a notebook.
tests/test_pictures.py compares the record with the sources of today.

Only what can change a picture is hashed: comments, docstrings and white space are left out.
"""

import ast
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
IMAGES = TOP / "docs/img"
RECORD = TOP / "docs/pictures.json"
RETAKE = ".venv/bin/python docs/screenshots.py"
_STYLE = "nbaudio/ui/widgets/js/style.css"
_PLAYER = (
    "core",
    "diff",
    "player_drawing",
    "player_timeline",
    "player_bounds",
    "player_clips",
    "player",
)
_TABLE = ("table_columns", "table")


@dataclass(frozen=True)
class Picture:
    """A file of docs/img.

    `sources` are what it shows: `FILE`, `FILE::NAME` for a function or class at the top of a
    module, or `NOTEBOOK::BEGINNING` for the cell whose source begins so.
    """

    name: str
    sources: tuple[str, ...]


def _front_end(*names: str) -> tuple[str, ...]:
    """Return the scripts of a widget, and the style sheet of all widgets."""
    return (*(f"nbaudio/ui/widgets/js/{name}.js" for name in names), _STYLE)


PICTURES = (
    Picture(
        "names.png",
        (
            "notebooks/01_ingest.ipynb::## Names",
            "notebooks/01_ingest.ipynb::widgets.table(views.names(",
            "nbaudio/ui/views.py::names",
            "nbaudio/ui/widgets/static_html.py::Table",
        ),
    ),
    Picture(
        "transcripts.png",
        (
            "notebooks/02_transcripts.ipynb::explorer = widgets.Explorer(",
            "nbaudio/ui/widgets/explorer.py::Explorer",
            *_front_end(
                *_PLAYER,
                *_TABLE,
                "table_filters",
                "segment_table",
                "range_handles",
                "histograms",
                "scatter",
                "single_player",
                "explorer_actions",
            ),
        ),
    ),
    Picture(
        "listen.png",
        (
            "notebooks/03_listen.ipynb::worst = views.examples(",
            *_front_end(*_PLAYER, "single_player"),
        ),
    ),
    Picture(
        "threshold.png",
        (
            "notebooks/04_threshold.ipynb::tuner = widgets.ThresholdTuner(",
            *_front_end(*_PLAYER, "tuner_plot", "threshold_tuner"),
        ),
    ),
    Picture(
        "review.png",
        (
            "notebooks/05_review_sheet.ipynb::widgets.ReviewPanel(",
            *_front_end(*_PLAYER, *_TABLE, "review_panel"),
        ),
    ),
    Picture("sheet.png", ("nbaudio/review/sheet_writer.py",)),
    Picture(
        "splits.png",
        (
            "notebooks/06_splits.ipynb::plots.splits(",
            "nbaudio/ui/plots.py::splits",
            "nbaudio/ui/plot_style.py",
        ),
    ),
    Picture(
        "report.png",
        ("nbaudio/ui/statistics/page_html.py", "nbaudio/ui/widgets/js/stats_page.css"),
    ),
)


def read_record() -> dict[str, str]:
    """Return the hash of what each picture showed when it was taken, by name of the picture."""
    record: dict[str, str] = json.loads(RECORD.read_text(encoding="utf8"))
    return record


def write_record(names: Iterable[str]) -> None:
    """Record that these pictures show the sources of today."""
    record = read_record() if RECORD.exists() else {}
    record |= {picture.name: source_hash(picture) for picture in PICTURES if picture.name in names}
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf8")


def outdated_pictures() -> list[str]:
    """Return the names of the pictures whose sources differ from those that were recorded."""
    record = read_record()
    return [
        picture.name for picture in PICTURES if record.get(picture.name) != source_hash(picture)
    ]


def source_hash(picture: Picture) -> str:
    """Return a hash of what a picture shows, 16 hex digits.

    Raises:
        LookupError: If a source has no such function, class or cell.
    """
    parts = [re.sub(r"\s+", "", visible_source(source)) for source in picture.sources]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def visible_source(source: str) -> str:
    """Return the text of a source without comments and docstrings."""
    file, _, name = source.partition("::")
    text = (TOP / file).read_text(encoding="utf8")
    if file.endswith(".ipynb"):
        return _cell(text, name, source)
    if file.endswith(".py"):
        return _python_code(text, name, source)
    without_blocks = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    return re.sub(r"^\s*//.*$", "", without_blocks, flags=re.MULTILINE)


def _cell(text: str, beginning: str, source: str) -> str:
    for cell in json.loads(text)["cells"]:
        code = "".join(cell["source"])
        if code.startswith(beginning):
            return code
    raise LookupError(f"{source}: no cell begins so")


def _python_code(text: str, name: str, source: str) -> str:
    """Return the lines of a module, or of a name at its top, without docstrings and comments."""
    tree = ast.parse(text)
    nodes: Sequence[ast.AST] = [tree]
    if name:
        nodes = [node for node in tree.body if getattr(node, "name", None) == name]
    if not nodes:
        raise LookupError(f"{source}: no function or class has this name")
    lines = text.splitlines()
    for node in ast.walk(tree):
        for number in _docstring_lines(node):
            lines[number - 1] = ""
    node = nodes[0]
    first = getattr(node, "lineno", 1)
    last = getattr(node, "end_lineno", len(lines))
    code_lines = [line for line in lines[first - 1 : last] if not line.lstrip().startswith("#")]
    return "\n".join(code_lines)


def _docstring_lines(node: ast.AST) -> range:
    """Return the numbers of the lines of the docstring of a module, class or function."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    if not isinstance(node, documented) or ast.get_docstring(node) is None:
        return range(0)
    docstring = node.body[0]
    return range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1)
