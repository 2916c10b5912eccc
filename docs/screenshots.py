"""Take the pictures of README and docs.

They show the notebooks in JupyterLab on the demo corpus, the page of `stats`, and the review sheet
in LibreOffice.

    .venv/bin/python docs/screenshots.py                    retakes all pictures
    .venv/bin/python docs/screenshots.py --keep sheet.png   records that a picture still holds

It needs chromium and LibreOffice, runs every notebook from nothing in a temporary folder, and takes
some minutes. Pictures of equal code are equal but for positions of playback and figures of speed.
`docs/pictures.py` lists what each picture shows.
"""

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import openpyxl
import pypdfium2
from pictures import IMAGES, PICTURES, TOP, write_record
from PIL import Image, ImageChops
from playwright.sync_api import Locator, Page

sys.path.insert(0, str(TOP / "tests" / "heavy"))

from browser import chromium, copy_notebooks, jupyter_lab, open_notebook, run_all
from office import convert

CELLS = ".jp-Notebook .jp-Cell"
_KEY_PAUSE_MS = 600
_VERDICT_PAUSE_MS = 3000  # as long as a reviewer listens
_NO_TOOLBAR = ".jp-cell-toolbar { display: none !important; }"
_COLORS = 256
_SHEET_SCALE = 160 / 72  # pixels per point of paper
_SHEET_MARGIN = 12  # pixels


@dataclass(frozen=True)
class CellPicture:
    """Cells of a notebook, from one to another, by how their source begins."""

    name: str
    notebook: str
    first: str
    last: str
    keys: tuple[str, ...] = ()  # pressed in the widget of the last cell first
    pause_ms: int = _KEY_PAUSE_MS  # after each key
    focus: str = ".nba"  # the element of the widget that takes keys


EXPLORER = "explorer = widgets.Explorer("
TUNER = "tuner = widgets.ThresholdTuner("
PANEL = "widgets.ReviewPanel("
CELL_PICTURES = (
    CellPicture("names.png", "01_ingest", "## Names", "widgets.table(views.names("),
    CellPicture(
        "transcripts.png",
        "02_transcripts",
        EXPLORER,
        EXPLORER,
        keys=("ArrowDown", "ArrowDown", " ", "ArrowDown"),
        focus=".nba-segment-table",
    ),
    CellPicture(
        "threshold.png", "04_threshold", TUNER, TUNER, keys=("ArrowRight",) * 12 + ("ArrowDown",)
    ),
    CellPicture(
        "review.png",
        "05_review_sheet",
        PANEL,
        PANEL,
        keys=("1", "1", "3", "1", "1"),
        pause_ms=_VERDICT_PAUSE_MS,
    ),
    CellPicture("splits.png", "06_splits", "plots.splits(", "plots.splits("),
)
LISTEN_CELL = "worst = views.examples("


def main() -> None:
    """Take all pictures, or record that some still hold."""
    parser = argparse.ArgumentParser(description="Retake the pictures of docs/img.")
    parser.add_argument("--keep", nargs="+", metavar="NAME.png", help="pictures that still hold")
    parser.add_argument("--out", type=Path, default=IMAGES, help="another folder, to try it")
    options = parser.parse_args()
    names = [picture.name for picture in PICTURES]
    if options.keep:
        if unknown := sorted(set(options.keep) - set(names)):
            parser.error(f"no picture {', '.join(unknown)}; there are {', '.join(names)}")
        write_record(options.keep)
        return
    options.out.mkdir(parents=True, exist_ok=True)
    take_pictures(options.out)
    if options.out == IMAGES:
        write_record(names)
    for name in names:
        size = (options.out / name).stat().st_size
        sys.stdout.write(f"{name} {size / 1000:.0f} kB\n")


def take_pictures(out: Path) -> None:
    """Run the notebooks in order and photograph them, then the report and the sheet."""
    with tempfile.TemporaryDirectory() as folder:
        root, home = Path(folder) / "nbaudio", Path(folder) / "home"
        names = copy_notebooks(root)
        with jupyter_lab(root, home) as address, chromium(width=1180, height=3000) as (page, _):
            for name in names:
                open_notebook(page, address, f"notebooks/{name}")
                run_all(page)
                page.wait_for_timeout(1500)
                for picture in CELL_PICTURES:
                    if name == f"{picture.notebook}.ipynb":
                        photograph_cells(page, picture, out)
            for path in (root / "notebooks").iterdir():
                os.utime(path)  # the file browser shows their age
            photograph_player(page, address, out / "listen.png")
            photograph_report(page, root / "demo-output/report.html", out / "report.png")
        sheet = root / "demo-output/review/sheet.xlsx"
        photograph_sheet(sheet, Path(folder), out / "sheet.png")
    for shown in PICTURES:
        shrink(out / shown.name)


def numbers_of(page: Page, *beginnings: str) -> list[int]:
    """Which cells these are, by what their source begins with."""
    sources = page.evaluate(
        "() => "
        "Array.from(window.jupyterapp.shell.currentWidget.content.model.cells).map(cell "
        "=> cell.sharedModel.getSource())"
    )
    return [
        next(i for i, source in enumerate(sources) if source.startswith(beginning))
        for beginning in beginnings
    ]


def press_keys(page: Page, widget: Locator, keys: tuple[str, ...], pause_ms: int) -> None:
    """Press keys in a widget, in a reader's time."""
    for key in keys:
        widget.focus()
        widget.press(key)
        page.wait_for_timeout(pause_ms)


def photograph_cells(page: Page, picture: CellPicture, out: Path) -> None:
    """Take a picture from the first cell to the last."""
    first, last = numbers_of(page, picture.first, picture.last)
    last_cell = page.locator(CELLS).nth(last)
    if picture.keys:
        press_keys(page, last_cell.locator(picture.focus), picture.keys, picture.pause_ms)
    if picture.last == PANEL:
        check_blind(last_cell)
    page.add_style_tag(content=_NO_TOOLBAR)
    top = page.locator(CELLS).nth(first).bounding_box()
    bottom = last_cell.bounding_box()
    if top is None or bottom is None:
        raise RuntimeError(f"{picture.name}: the cells are not on the page")
    height = bottom["y"] + bottom["height"] - top["y"]
    page.screenshot(
        path=out / picture.name,
        clip={"x": top["x"], "y": top["y"], "width": top["width"], "height": height},
    )


def check_blind(cell: Locator) -> None:
    """Refuse a review panel that shows what a blind review hides.

    Raises:
        RuntimeError: If there is a similarity, or a word that is marked as different.
    """
    text = cell.locator(".nba-review-panel").inner_text()
    if "similarity" in text or "hypothesis" in text:
        raise RuntimeError("review.png: the panel shows hypothesis or similarity of a blind review")


def photograph_player(page: Page, address: str, target: Path) -> None:
    """Take a picture of JupyterLab with its file browser, and a clip that plays."""
    page.set_viewport_size({"width": 1280, "height": 800})
    open_notebook(page, address, "notebooks/03_listen.ipynb", view="lab/tree")
    run_all(page)
    page.wait_for_timeout(2500)
    heading, player = numbers_of(page, "## Lowest similarity", LISTEN_CELL)
    cells = page.locator(CELLS)
    cells.nth(heading).evaluate("cell => cell.scrollIntoView(true)")
    keys = ("ArrowDown", "ArrowDown", "ArrowDown", "c")
    press_keys(page, cells.nth(player).locator(".nba"), keys, _KEY_PAUSE_MS)
    page.add_style_tag(content=_NO_TOOLBAR)
    page.screenshot(path=target)


def photograph_report(page: Page, report: Path, target: Path) -> None:
    """Take a picture of the beginning of the page of `stats`."""
    page.unroute("**/*")  # the guard of this page refuses files
    page.set_viewport_size({"width": 1400, "height": 1060})
    page.goto(report.as_uri())
    page.screenshot(path=target)


def photograph_sheet(sheet: Path, folder: Path, target: Path) -> None:
    """Take a picture of a spreadsheet as LibreOffice prints it, without the empty rest.

    Raises:
        RuntimeError: If the sheet has no column `recording`, or nothing is printed.
    """
    header = next(openpyxl.load_workbook(sheet, read_only=True).worksheets[0].values)
    if "recording" not in header:
        raise RuntimeError(f"{target.name}: the sheet has no column recording: {header}")
    printed = pypdfium2.PdfDocument(convert(sheet, "pdf", folder))
    page = printed[0].render(scale=_SHEET_SCALE).to_pil().convert("RGB")
    box = ImageChops.invert(page).getbbox()
    if box is None:
        raise RuntimeError(f"{target.name}: the printed page is empty")
    left, top, right, bottom = box
    margin = _SHEET_MARGIN
    page.crop((left - margin, top - margin, right + margin, bottom + margin)).save(target)


def shrink(path: Path) -> None:
    """Write a picture with a palette, which takes half of the bytes."""
    picture = Image.open(path).convert("RGB")
    picture.quantize(_COLORS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
