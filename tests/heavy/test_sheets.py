"""Review sheets through LibreOffice: texts, links, lists and marks are kept, and the summary
counts."""

import datetime as dt
import re
import shutil
import sys
from pathlib import Path

import openpyxl
import polars as pl
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hostile import CELLS
from office import convert
from sheets import columns_of, fill_in, make_workspace

from nbaudio import review
from nbaudio.formats import table
from nbaudio.review.cell_escaping import escape_formula
from nbaudio.tables.workspace import Workspace

IDS = [f"s{number}" for number in range(len(CELLS))]
# Nobody can type controls into a cell, and LibreOffice drops a tab that is pasted.
TYPED = {
    key: re.sub("[\x00-\x09\x0b-\x1f\ufffe]", "", text)
    for key, text in zip(IDS, CELLS, strict=True)
}
SAID = {
    key: {
        "verdict": "cut off" if number % 3 else "wrong words",
        "comment": text,
        "corrected text": f"{text} kat" if number % 2 else None,
    }
    for number, (key, text) in enumerate(TYPED.items())
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Segments with texts that programs take for something else, and their sheet with clips."""
    folder = tmp_path_factory.mktemp("sheets")
    texts = [text if text.strip() else f"x{text}" for text in CELLS]
    make_workspace(
        folder / "w", texts, [f"{text} da" for text in texts], ids=IDS, audio=folder / "audio"
    )
    for ending in ("xlsx", "csv"):
        review.export(folder / "w", out=folder / "out" / f"sheet.{ending}", n=1000, blind=False)
    return folder


def escaped(said):
    """Cells as Excel stores them: it escapes what looks like its own escape, openpyxl does not."""
    return {
        key: {
            name: text and re.sub("_(?=x[0-9A-Fa-f]{4}_)", "_x005F_", text)
            for name, text in cells.items()
        }
        for key, cells in said.items()
    }


def filled(sheet, folder):
    return fill_in(sheet, escaped(SAID), to=folder / "filled.xlsx", reviewer="ana")


def filled_then_saved(sheet, folder):
    return convert(convert(filled(sheet, folder), "ods", folder), "xlsx", folder / "back")


def saved_then_filled(sheet, folder):
    return fill_in(
        convert(convert(sheet, "ods", folder), "xlsx", folder / "back"),
        escaped(SAID),
        reviewer="ana",
    )


def saved_as_ods(sheet, folder):
    return convert(filled(sheet, folder), "ods", folder)


def saved_as_csv(sheet, folder):
    return convert(filled(sheet, folder), "csv", folder)


def csv_saved_as_workbook(sheet, folder):
    """Corrected texts are copies of transcripts, with the apostrophes that those have in a .csv."""
    said = {
        key: {
            **cells,
            "corrected text": cells["corrected text"] and f"{escape_formula(TYPED[key])} kat",
        }
        for key, cells in SAID.items()
    }
    return fill_in(convert(sheet.with_suffix(".csv"), "xlsx", folder), escaped(said))


WAYS = [
    filled,
    filled_then_saved,
    saved_then_filled,
    saved_as_ods,
    saved_as_csv,
    csv_saved_as_workbook,
]


@pytest.mark.parametrize("way", WAYS)
def test_texts_saved_by_libreoffice_are_imported_unchanged(exported, tmp_path, way):
    workspace = Workspace.open(shutil.copytree(exported / "w", tmp_path / "w"))
    before = workspace.segments
    report = review.import_(
        workspace, way(exported / "out" / "sheet.xlsx", tmp_path), reviewer="ana"
    )
    assert report.problems == []
    rows = {row["segment_id"]: row for row in review.verdicts(workspace).iter_rows(named=True)}
    said = {
        key: {
            "verdict": row["verdict"],
            "comment": row["comment"],
            "corrected text": row["corrected_text"],
        }
        for key, row in rows.items()
    }
    blank = {"comment": ""}
    assert said == {
        key: cells if cells["comment"].strip() else cells | blank for key, cells in SAID.items()
    }
    corrected = [cells["corrected text"] for cells in SAID.values()]
    assert workspace.segments["text_corrected"].to_list() == corrected
    assert (
        review.uncorrected(workspace, workspace.segments)["text"].to_list()
        == before["text"].to_list()
    )


def test_links_to_clips_work_in_a_moved_copy_of_the_folder(exported, tmp_path):
    here = shutil.copytree(exported / "out", tmp_path / "here č")
    convert(here / "sheet.xlsx", "ods", here)
    there = here.rename(tmp_path / "there ž")
    for sheet in (there / "sheet.xlsx", convert(there / "sheet.ods", "xlsx", there)):
        table = openpyxl.load_workbook(sheet)["review"]
        links = [table.cell(row, 1).hyperlink.target for row in range(2, len(IDS) + 2)]
        assert {(there / link).resolve() for link in links} == set((there / "clips").iterdir())


def test_the_summary_counts_verdicts_in_libreoffice(exported, tmp_path):
    said = {
        **SAID,
        "s1": {"verdict": "fine"},
        "s2": {},
        "s3": {**SAID["s3"], "second verdict": "noise"},
    }
    filled = fill_in(exported / "out" / "sheet.xlsx", said, to=tmp_path / "sheet.xlsx")
    assert openpyxl.load_workbook(filled, data_only=True)["summary"]["B5"].value is None
    for path in (
        convert(filled, "xlsx", tmp_path / "new"),
        convert(convert(filled, "ods", tmp_path), "xlsx", tmp_path),
    ):
        rows = {
            row[0]: row[1:3]
            for row in openpyxl.load_workbook(path, data_only=True)["summary"].values
        }
        counts = {name: rows[name][0] for name in ("Clips", "Judged", "To do")}
        given = [cells["verdict"] for key, cells in SAID.items() if key not in {"s1", "s2"}]
        judged = len(given) + 1
        assert list(counts.values()) == [len(IDS), judged, 1]
        for word in review.VERDICTS:
            count = given.count(word) + (word == "noise")
            assert rows[word] == (count, pytest.approx(count / judged))


def test_a_table_that_libreoffice_saved_is_the_same(tmp_path):
    """Values of every kind, through both formats; LibreOffice keeps 15 digits."""
    book = openpyxl.Workbook()
    rows = [
        ("name", "start", "end", "text", "kind"),
        ("a.wav", 0.1, 3207.7, "  two  and one ", 0.25),
        ("a.wav", 12, 1 / 8, "one\n\ntwo", dt.date(2024, 5, 1)),
        ("b.wav", 1e-7, -5.5, "007", dt.datetime(2024, 5, 1, 10, 11, 12)),  # noqa: DTZ001
        ("b.wav", 0, 5, "=1+1", dt.time(0, 1, 30)),
        ("b.wav", 0, 5, "_x005F_x0041_", "#N/A"),
        ("b.wav", 0, 5, "same", dt.timedelta(hours=100, seconds=1.5)),
        *[("b.wav", 0, 5, "same", None)] * 3,
    ]
    for row in rows:
        book.active.append(row)
    for number in range(2, len(rows) + 1):
        book.active.cell(number, 4).data_type = "s"
    book.active["E2"].number_format = "0%"
    book.save(tmp_path / "t.xlsx")
    ours = table.read_cells(tmp_path / "t.xlsx").frame
    for path in (
        convert(tmp_path / "t.xlsx", "ods", tmp_path),
        convert(tmp_path / "t.xlsx", "xlsx", tmp_path / "back"),
    ):
        theirs = table.read_cells(path).frame
        assert theirs.drop("kind").rows() == ours.drop("kind").rows()
        assert [kind or "" for kind in theirs["kind"]] == [
            "0.25",
            "2024-05-01",
            "2024-05-01T10:11:12",
            "00:01:30",
            "#N/A",
            "100:00:01.5",
            *[""] * 3,
        ]


def test_a_folder_of_sheets_saved_by_libreoffice_is_imported(exported, tmp_path):
    workspace = Workspace.open(shutil.copytree(exported / "w", tmp_path / "w"))
    (tmp_path / "returned").mkdir()
    convert(filled(exported / "out" / "sheet.xlsx", tmp_path), "ods", tmp_path / "returned")
    convert(exported / "out" / "sheet.xlsx", "pdf", tmp_path / "returned")
    report = review.import_(workspace, tmp_path / "returned")
    assert (report.facts["sheets"], report.facts["new"]) == (1, len(IDS))
    assert [line for line in report.warnings if line.startswith("sheet.pdf: not read")]
    assert set(review.verdicts(workspace)["reviewer"]) == {"ana"}


def choices(book, name):
    """The words of each drop-down of a sheet, by its cells."""
    found = {}
    for choice in book[name].data_validations.dataValidation:
        assert (choice.type, choice.showErrorMessage) == ("list", True)
        source, cells = choice.formula1.split("!")
        found[str(choice.sqref)] = [cell.value for (cell,) in book[source][cells]]
    return found


def test_libreoffice_keeps_lists_filters_marks_and_the_hidden_sheet(exported, tmp_path):
    shutil.copytree(exported / "w", tmp_path / "w")
    (tmp_path / "w/reviews/sheet.json").unlink()
    review.export(
        tmp_path / "w",
        out=tmp_path / "s.xlsx",
        n=1000,
        blind=False,
        reviewers=["ana", "ben"],
        overlap=len(IDS),
    )
    sheet = convert(convert(tmp_path / "s-ana.xlsx", "ods", tmp_path), "xlsx", tmp_path / "back")
    book = openpyxl.load_workbook(sheet, rich_text=True)
    table = book["review"]
    words = list(review.VERDICTS)
    assert choices(book, "review") == {
        f"B2:B{len(IDS) + 1}": words,
        f"C2:C{len(IDS) + 1}": words[1:-1],
    }
    assert choices(book, "summary") == {"B3": ["ana", "ben"]}
    assert table.auto_filter.ref == f"A1:M{len(IDS) + 1}"
    assert table.print_title_rows == "$1:$1"
    assert table.page_setup.orientation == "landscape"
    assert table.sheet_properties.pageSetUpPr.fitToPage
    assert [
        table.cell(2, columns_of(table)[name]).number_format for name in ("verdict", "comment")
    ] == ["@", "@"]
    assert book["nbaudio"].sheet_state == "hidden"
    assert book["summary"]["B3"].value == "ana"
    row = next(
        row
        for row in table.iter_rows(min_row=2)
        if row[columns_of(table)["segment_id"] - 1].value == "s1"
    )
    hypothesis = row[columns_of(table)["hypothesis"] - 1]
    # What a hypothesis has beyond the transcript is underlined.
    assert [
        (str(part), bool(getattr(getattr(part, "font", None), "u", None)))
        for part in hypothesis.value
    ] == [
        ("-5 ", False),
        ("da", True),
    ]


LATIN = (
    "brza smeđa lisica preskače lijenog psa i odlazi u Split po Mirjanine naočale za "
    "gledanje na daljinu"
)
CYRILLIC = (
    "съешь ещё этих мягких французских булок да выпей чаю широкий щит Председатель "
    "Народной скупщины жжение"
)


def sentence(text, count):
    words = text.split()
    return " ".join(words[(7 * at + at // 3) % len(words)] for at in range(count))


def test_rows_are_high_enough_for_their_wrapped_texts_in_libreoffice(tmp_path):
    """Rows are as high as LibreOffice makes them when it may, or higher, and not by much."""
    counts = (3, 9, 12, 16, 20, 25, 31, 40, 60)
    texts = [sentence(words, count) for words in (LATIN, CYRILLIC) for count in counts]
    texts += [sentence(LATIN, count).upper() for count in counts] + [
        "今日は天気がいい" * count for count in counts
    ]
    texts += ["brzasmeđalisica" * count + " i pas" for count in counts]
    heard = [
        text if at % 3 == 0 else "da " * 9 if at % 3 == 1 else text.replace(" ", " x ")
        for at, text in enumerate(texts)
    ]
    make_workspace(tmp_path / "w", texts, heard)
    workspace = Workspace.open(tmp_path / "w")
    workspace.save(segments=workspace.segments.with_columns(speaker_id=pl.lit("ana")))
    review.export(workspace, out=tmp_path / "s.xlsx", n=1000)
    ours = openpyxl.load_workbook(tmp_path / "s.xlsx")["review"].row_dimensions
    book = openpyxl.load_workbook(tmp_path / "s.xlsx", rich_text=True)
    for row in range(2, len(texts) + 2):
        book["review"].row_dimensions[row].height = None
    book.save(tmp_path / "free.xlsx")
    measured = convert(convert(tmp_path / "free.xlsx", "ods", tmp_path), "xlsx", tmp_path / "back")
    theirs = openpyxl.load_workbook(measured)["review"].row_dimensions
    pairs = [(ours[row].height, theirs[row].height) for row in range(2, len(texts) + 2)]
    assert max(height for _, height in pairs) > 100
    assert [pair for pair in pairs if pair[0] < min(pair[1], 405)] == []
