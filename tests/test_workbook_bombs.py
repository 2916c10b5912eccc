"""Workbooks that would take their readers memory and time are one error that names the file."""

import zipfile

import openpyxl
import pytest
from sheets import make_workspace
from spreadsheets import ods_cell, ods_row, ods_table, write_ods
from typer.testing import CliRunner
from workbook_bombs import (
    ARCHIVES,
    FAR,
    ODS,
    XLSX,
    members,
    pack,
    sheet,
    wide_rows,
    write_hidden_tables,
)

from nbaudio import review
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.formats import table, workbook_guard
from nbaudio.formats.workbooks import open_workbook

REFUSED = (
    "a bomb|a document type|are the same part|are read$|is read$|with compression|"
    "same name|Bad CRC-32"
)


def refuse(path, workspace):
    """Check that each reader refuses a workbook with one line that names it."""
    for read in (
        lambda: table.read(path),
        lambda: review.import_(workspace, path),
        lambda: texts_of(path),
    ):
        with pytest.raises(InputError, match=REFUSED) as raised:
            read()
        assert path.name in str(raised.value)
        assert "\n" not in str(raised.value)


def texts_of(path):
    with open_workbook(path, formulas=True) as book:
        return [row for sheet_read in book.sheets.values() for row in sheet_read.rows()]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return make_workspace(tmp_path_factory.mktemp("w"))


@pytest.mark.slow
@pytest.mark.parametrize("parts", [*XLSX.values(), *ARCHIVES.values()], ids=[*XLSX, *ARCHIVES])
def test_a_workbook_that_is_a_bomb_is_one_error(tmp_path, workspace, parts):
    path = pack(tmp_path / "t.xlsx", parts)
    assert path.stat().st_size < 2_000_000
    refuse(path, workspace)


@pytest.mark.parametrize(
    "sheet_xml",
    [
        sheet('<row r="900000"><c r="A900000"><v>1</v></c></row>'),
        sheet('<row r="2000000"/>'),
        " " * 100_000 + FAR,
    ],
    ids=["rows far apart", "a row below the last of any sheet", "blanks before the XML"],
)
def test_a_sheet_of_few_cells_far_apart_is_refused_before_it_is_read(tmp_path, sheet_xml):
    path = pack(tmp_path / "t.xlsx", members(sheet_xml))
    with pytest.raises(InputError, match="a sheet spans"):
        workbook_guard.check_parts(path)


@pytest.mark.parametrize("rows", ODS.values(), ids=ODS)
def test_a_workbook_of_libreoffice_that_is_a_bomb_is_one_error(tmp_path, workspace, rows):
    refuse(write_ods(tmp_path / "t.ods", ods_table(rows)), workspace)


def test_content_beyond_the_size_in_the_zip_directory_is_not_read(tmp_path, workspace):
    refuse(write_hidden_tables(tmp_path / "t.ods"), workspace)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_workbook_in_an_unusual_compression_is_one_error(tmp_path, workspace, method):
    parts = members(sheet(wide_rows(2)))
    refuse(pack(tmp_path / "t.xlsx", parts, compression=method), workspace)


def test_members_of_one_name_and_members_that_overlap_are_one_error(tmp_path, workspace):
    path = pack(tmp_path / "t.xlsx", members(sheet("")))
    with zipfile.ZipFile(path, "a") as book, pytest.warns(UserWarning, match="Duplicate name"):
        book.writestr("xl/styles.xml", "<a/>")
    refuse(path, workspace)
    path = pack(tmp_path / "o.xlsx", {**members(sheet("")), "big.xml": " " * 1_000_000 + "<a/>"})
    with zipfile.ZipFile(path, "a") as book:
        big = book.getinfo("big.xml")
        for number in range(20):
            entry = zipfile.ZipInfo(f"big{number}.xml")
            for name in ("header_offset", "CRC", "compress_size", "file_size", "compress_type"):
                setattr(entry, name, getattr(big, name))
            book.filelist.append(entry)
            book.NameToInfo[entry.filename] = entry
        book._didModify = True
    refuse(path, workspace)


def test_the_command_names_the_file_and_the_limit(tmp_path):
    path = pack(tmp_path / "t.xlsx", XLSX["shared strings"])
    done = CliRunner().invoke(app, ["ingest", "table", str(path), "--out", str(tmp_path / "W")])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"nbaudio: {path}: ")
    assert "more than 50,000 cells, styles and texts: a bomb, not read" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_unusual_workbooks_that_are_no_bombs_are_read(tmp_path):
    rows = "".join(
        f'<row r="{number}"><c r="C{number}" t="inlineStr"><is><t>a{number}.wav</t></is></c>'
        f'<c r="D{number}" t="inlineStr"><is><t>text</t></is></c></row>'
        for number in (2, 7, 100_000)
    )
    end = '<row r="1048576"/>'
    path = pack(tmp_path / "t.xlsx", members(sheet(rows + end), place="other/data.xml"))
    read = table.read(path)
    assert read.frame["name"].to_list() == ["a2.wav", "a7.wav", "a100000.wav"]
    assert len(texts_of(path)) == 100_000


def test_texts_behind_a_shared_formula_are_no_part_of_it(tmp_path):
    texts = "".join(
        f'<row r="{row}"><c r="C{row}" t="inlineStr"><is><t>a.wav</t></is></c>'
        f'<c r="D{row}" t="inlineStr"><is><t>{"spoken words " * 8}</t></is></c></row>'
        for row in range(3, 20_003)
    )
    shared = "".join(
        f'<row r="{row}"><c r="C{row}"><f t="shared" si="1"/><v>1</v></c></row>'
        for row in range(20_004, 21_004)
    )
    rows = (
        '<row r="2"><c r="C2"><f t="shared" si="0" ref="C2:C3">LEN(D3)</f><v>1</v></c></row>'
        f"{texts}"
        '<row r="20003"><c r="C20003"><f t="shared" si="1" ref="C20003:C21003">LEN(D20001)</f>'
        f"<v>1</v></c></row>{shared}"
    )
    path = tmp_path / "formulas.xlsx"
    pack(path, members(sheet(rows)))
    read = table.read(path).frame
    assert read["text"].str.starts_with("spoken words").sum() == 20_000


def test_chart_sheets_names_and_links_are_left_out(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["name", "text"])
    book.active.append(["a.wav", "=1+1"])
    chart = openpyxl.chart.BarChart()
    chart.add_data(openpyxl.chart.Reference(book.active, min_col=1, min_row=1, max_row=2))
    book.create_chartsheet("chart", 0).add_chart(chart)
    book.active.print_title_rows = "1:1"
    names = openpyxl.workbook.defined_name.DefinedName("all", attr_text="Sheet!$A$1:$B$2")
    book.defined_names.add(names)
    book.save(tmp_path / "t.xlsx")
    assert texts_of(tmp_path / "t.xlsx") == [["name", "text"], ["a.wav", "=1+1"]]


def test_distant_cells_of_a_large_valid_sheet_are_read(tmp_path):
    rows = [ods_row(ods_cell("<text:p>a</text:p>")) for _ in range(100)]
    apart = '<table:table-row table:number-rows-repeated="50000"><table:table-cell/>'
    path = write_ods(tmp_path / "t.ods", ods_table(*rows, f"{apart}</table:table-row>", rows[0]))
    assert len(texts_of(path)) == 50_101
