"""Take the pictures of README and docs.

They show the notebooks in JupyterLab on the demo corpus, and the review sheet in LibreOffice.

    .venv/bin/python docs/screenshots.py

It needs chromium, LibreOffice and pypdfium2, runs every notebook from nothing in a temporary
folder, and takes a minute.
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page

TOP = Path(__file__).resolve().parents[1]
IMAGES = TOP / "docs" / "img"
sys.path.insert(0, str(TOP / "tests" / "heavy"))

from browser import chromium, copy_notebooks, jupyter_lab, open_notebook, run_all  # noqa: E402
from office import convert  # noqa: E402

CELLS = ".jp-Notebook .jp-Cell"
# Picture: notebook, and the first and last of the cells that it shows, by what their source begins
# with.
PICTURES = {
    "names.png": ("01_ingest", "## Names", "widgets.table(views.names("),
    "transcripts.png": (
        "02_transcripts",
        "explorer = widgets.Explorer(",
        "explorer = widgets.Explorer(",
    ),
    "threshold.png": (
        "04_threshold",
        "tuner = widgets.ThresholdTuner(",
        "tuner = widgets.ThresholdTuner(",
    ),
    "review.png": ("05_review_sheet", "widgets.ReviewPanel(", "widgets.ReviewPanel("),
    "splits.png": ("06_splits", "plots.splits(", "plots.splits("),
}
# What is pressed in the widget first.
KEYS = {
    "transcripts.png": ("ArrowDown", "ArrowDown", " ", "ArrowDown"),
    "threshold.png": ("ArrowRight",) * 12 + ("ArrowDown",),
    "review.png": ("1", "1", "3", "1", "1"),
}


def main() -> None:
    """Run the notebooks in order and photograph them."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        root, home = Path(folder) / "nbaudio", Path(folder) / "home"
        names = copy_notebooks(root)
        with jupyter_lab(root, home) as address, chromium(width=1180, height=3000) as (page, _):
            for name in names:
                open_notebook(page, address, f"notebooks/{name}")
                run_all(page)
                page.wait_for_timeout(1500)
                for picture, (stem, first, last) in PICTURES.items():
                    if name == f"{stem}.ipynb":
                        press(page, last, KEYS.get(picture, ()))
                        photograph_cells(page, first, last, IMAGES / picture)
            page.set_viewport_size({"width": 1280, "height": 800})
            open_notebook(page, address, "notebooks/03_listen.ipynb", view="lab/tree")
            run_all(page)
            page.wait_for_timeout(2500)
            heading = numbers_of(page, "## Lowest similarity")[0]
            page.locator(CELLS).nth(heading).evaluate("cell => cell.scrollIntoView(true)")
            press(page, "widgets.Player(", ("ArrowDown", "ArrowDown", "ArrowDown", "c"))
            page.screenshot(path=IMAGES / "listen.png")
        photograph_sheet(
            root / "demo-output" / "review" / "sheet.xlsx", Path(folder), IMAGES / "sheet.png"
        )
    for image in sorted(IMAGES.glob("*.png")):
        sys.stdout.write(f"{image.relative_to(TOP)} {image.stat().st_size / 1000:.0f} kB\n")


def numbers_of(page: Page, *starts: str) -> list[int]:
    """Which cells these are, by what their source begins with."""
    sources = page.evaluate(
        "() => "
        "Array.from(window.jupyterapp.shell.currentWidget.content.model.cells).map(cell "
        "=> cell.sharedModel.getSource())"
    )
    return [
        next(i for i, source in enumerate(sources) if source.startswith(start)) for start in starts
    ]


def press(page: Page, start: str, keys: tuple[str, ...]) -> None:
    """Press keys in the widget of a cell, in a reader's time."""
    for key in keys:
        widgets = page.locator(CELLS).nth(numbers_of(page, start)[0])
        # Of the explorer, the table.
        widget = (
            widgets.locator(".nba-segment-table")
            if "Explorer(" in start
            else widgets.locator(".nba")
        )
        widget.focus()
        widget.press(key)
        page.wait_for_timeout(600)


def photograph_cells(page: Page, first: str, last: str, target: Path) -> None:
    """A picture from the first cell to the last."""
    boxes = [
        page.locator(CELLS).nth(number).bounding_box() for number in numbers_of(page, first, last)
    ]
    top, bottom = (box for box in boxes if box)
    height = bottom["y"] + bottom["height"] - top["y"]
    page.screenshot(
        path=target, clip={"x": top["x"], "y": top["y"], "width": top["width"], "height": height}
    )


def photograph_sheet(sheet: Path, folder: Path, target: Path) -> None:
    """The first page of a spreadsheet as LibreOffice prints it, without the empty rest."""
    import numpy as np
    import pypdfium2
    from matplotlib.image import imsave

    pages = pypdfium2.PdfDocument(convert(sheet, "pdf", folder))
    pixels = pages[0].render(scale=160 / 72, rev_byteorder=True).to_numpy()
    rows, columns = np.nonzero(pixels[..., :3].min(axis=2) < 242)
    margin = 12
    box = (
        slice(max(0, rows.min() - margin), rows.max() + margin),
        slice(max(0, columns.min() - margin), columns.max() + margin),
    )
    imsave(target, pixels[box])


if __name__ == "__main__":
    main()
