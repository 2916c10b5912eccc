"""Workbooks through every door: .xlsx and .ods give the same values, and what is not read is
named."""

import datetime as dt
import json
import re
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import openpyxl
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st
from sheets import fill_in, make_workspace, set_time
from spreadsheets import as_ods, ods_cell, ods_row, ods_table, write_ods, write_table_ods
from typer.testing import CliRunner

import nbaudio
from nbaudio import review
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.formats import table, workbook_guard
from nbaudio.formats.workbooks import open_workbook
from nbaudio.tables.workspace import Workspace

RATE = 8000


@pytest.fixture
def audio(tmp_path):
    """A folder with a recording of 10 s."""
    (tmp_path / "audio").mkdir()
    soundfile.write(tmp_path / "audio/a.wav", np.zeros(10 * RATE), RATE)
    return tmp_path / "audio"


def write_xlsx(path, rows, **further):
    """A workbook of a sheet `segments`, and further sheets."""
    book = openpyxl.Workbook()
    book.active.title = "segments"
    for row in rows:
        book.active.append([escaped(cell) for cell in row])
    for name, cells in further.items():
        sheet = book.create_sheet(name)
        for row in cells:
            sheet.append(row)
    book.save(path)
    return path


def escaped(cell):
    """A text as Excel stores it, whose underscore would look like that of an escape."""
    is_text = isinstance(cell, str)
    return re.sub("_(?=x[0-9A-Fa-f]{4}_)", "_x005F_", cell) if is_text else cell


def written(path, rows):
    return (write_xlsx if path.suffix == ".xlsx" else write_table_ods)(path, rows)


def texts_of(path, name=None, **options):
    with open_workbook(path, **options) as book:
        sheet = next(iter(book.sheets.values())) if name is None else book.sheets[name]
        return list(sheet.rows())


def ingest(path, audio, out, **options):
    return nbaudio.ingest("table", path, audio=audio, out=out, **options)


# --- the same values in both


VALUES = [
    ("name", "value"),
    ("text", "007"),
    ("blanks", "  two  and one "),
    ("lines", "one\n\ntwo"),
    ("hostile", "<b> & \"č\" 'x' =1+1 _x0041_"),
    ("whole", 12.0),
    ("integer", 12),
    ("decimal", 0.1),
    ("third", 1 / 3),
    ("small", 1e-7),
    ("large", 1e20),
    ("negative", -5.5),
    ("yes", True),
    ("no", False),
    ("date", dt.date(2024, 5, 1)),
    ("time", dt.time(0, 1, 30)),
    ("empty", None),
    (None, None),
    ("below an empty row", "x"),
]
TEXTS = [
    "value",
    "007",
    "  two  and one ",
    "one\n\ntwo",
    "<b> & \"č\" 'x' =1+1 _x0041_",
    "12",
    "12",
    "0.1",
    "0.3333333333333333",
    "1e-07",
    "100000000000000000000",
    "-5.5",
    "TRUE",
    "FALSE",
    "2024-05-01",
    "00:01:30",
    "",
    "",
    "x",
]


@pytest.mark.parametrize("ending", [".xlsx", ".ods"])
def test_cells_are_the_same_texts_in_every_format(tmp_path, ending):
    rows = texts_of(written(tmp_path / f"t{ending}", VALUES))
    assert [([*row, "", ""])[1] for row in rows] == TEXTS


def p(text):
    return f"<text:p>{text}</text:p>"


def of_kind(kind, shown="shown", value=None):
    value = "" if value is None else f" office:{'value' if kind == 'float' else kind}={value!r}"
    return ods_cell(p(shown), f'office:value-type="{kind}"{value}')


# What LibreOffice and others write, and its text.
ODS_CELLS = {
    ods_cell(p('a<text:s text:c="3"/>b<text:s/>c')): "a   b c",
    ods_cell(p("a<text:tab/>b")): "a\tb",
    ods_cell(p("a<text:line-break/>b")): "a\nb",
    ods_cell(p("one") + p("") + p("two")): "one\n\ntwo",
    ods_cell(
        p('a <text:span text:style-name="T1">b <text:span>c</text:span></text:span>')
    ): "a b c",
    ods_cell(p('<text:a xlink:href="clips/1.wav" xlink:type="simple">play</text:a>')): "play",
    ods_cell(p("&lt;b&gt; &amp; &quot; &#x10D; &#269;")): '<b> & " č č',
    ods_cell(
        "<office:annotation><dc:creator>ana</dc:creator><dc:date>2026-01-01T00:00:00</dc:date>"
        f"{p('a remark')}</office:annotation>{p('ok')}"
    ): "ok",
    ods_cell(f"<office:annotation>{p('a remark')}</office:annotation>", ""): "",
    ods_cell(p("25%"), 'office:value-type="percentage" office:value="0.25"'): "0.25",
    ods_cell(
        p("25 €"), 'office:value-type="currency" office:currency="EUR" office:value="25.5"'
    ): "25.5",
    ods_cell(p("0,3"), 'office:value-type="float" office:value="0.30000000000000004"'): (
        "0.30000000000000004"
    ),
    ods_cell(p("YES"), 'office:value-type="boolean" office:boolean-value="true"'): "TRUE",
    ods_cell(p("1.2.24"), 'office:value-type="date" office:date-value="2024-02-01"'): "2024-02-01",
    ods_cell(p("x"), 'office:value-type="date" office:date-value="2024-02-01T10:11:12.5"'): (
        "2024-02-01T10:11:12.500000"
    ),
    ods_cell(p("1:30"), 'office:value-type="time" office:time-value="PT00H01M30.250S"'): (
        "00:01:30.25"
    ),
    ods_cell(p("100:00"), 'office:value-type="time" office:time-value="PT100H01M30S"'): (
        "100:01:30"
    ),
    ods_cell(p("3"), 'table:formula="of:=1+2" office:value-type="float" office:value="3"'): "3",
    ods_cell(
        p("#N/A"),
        'table:formula="of:=#N/A" office:value-type="string" office:string-value="" '
        'calcext:value-type="error"',
    ): "#N/A",
    ods_cell(p("a text"), ""): "a text",
    ods_cell(p("ab"), 'office:value-type="string" office:string-value="a&#x0a;b"'): "a\nb",
}


def test_every_element_that_libreoffice_writes_in_a_cell_is_read(tmp_path):
    # All together, and each alone: only some of them need a copy.
    rows = [ods_row(cell, ods_cell(p("after"))) for cell in ODS_CELLS]
    found = texts_of(write_ods(tmp_path / "t.ods", ods_table(*rows)))
    assert [row[:2] for row in found] == [[text, "after"] for text in ODS_CELLS.values()]
    for row, text in zip(rows, ODS_CELLS.values(), strict=True):
        [[cell, after]] = texts_of(write_ods(tmp_path / "t.ods", ods_table(row)))
        assert (cell, after) == (text, "after")


def test_repeated_cells_and_rows_are_where_they_belong(tmp_path):
    ok = ods_cell(p("ok"), 'office:value-type="string" table:number-columns-repeated="3"')
    empty = '<table:table-cell table:number-columns-repeated="2"/>'
    x = ods_cell(p("x"))
    covered = '<table:covered-table-cell table:number-columns-repeated="2"/>'
    rows = [
        ods_row(empty, attributes=' table:number-rows-repeated="2"'),
        ods_row(empty, ok, x),
        ods_row(empty, attributes=' table:number-rows-repeated="3"'),
        ods_row(empty, attributes=' table:number-rows-repeated="1"'),
        ods_row(empty, x, covered, x, attributes=' table:number-rows-repeated="2"'),
        "<table:table-row-group><table:table-header-rows>",
        ods_row(empty, empty, x, attributes=' table:visibility="filter"'),
        "</table:table-header-rows></table:table-row-group>",
    ]
    found = texts_of(write_ods(tmp_path / "t.ods", ods_table(*rows)))
    assert found == [
        *[[""] * 6] * 2,
        ["", "", "ok", "ok", "ok", "x"],
        *[[""] * 6] * 4,
        *[["", "", "x", "", "", "x"]] * 2,
        ["", "", "", "", "x", ""],
    ]


def test_sheets_keep_their_order_and_hidden_ones_are_known(tmp_path):
    tables = [ods_table(name="first", hidden=True), ods_table(ods_row(), name="<&>")]
    with open_workbook(write_ods(tmp_path / "t.ods", *tables)) as book:
        assert [(name, sheet.is_hidden) for name, sheet in book.sheets.items()] == [
            ("first", True),
            ("<&>", False),
        ]
        assert list(book.sheets["<&>"].rows()) == []
        assert book.saved == dt.datetime(2001, 2, 3, 4, 5, 6, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("noted", "saved"),
    [
        ("2001-02-03T04:05:06.500000000Z", "2001-02-03T04:05:06.500000+00:00"),
        ("2001-02-03T04:05:06+02:00", "2001-02-03T02:05:06+00:00"),
        ("2001-13-03T04:05:06", None),
        ("yesterday", None),
    ],
)
def test_the_time_of_the_last_save_is_that_of_the_workbook(tmp_path, noted, saved):
    with open_workbook(write_ods(tmp_path / "t.ods", ods_table(), saved=noted)) as book:
        assert (book.saved and book.saved.isoformat()) == saved


# --- tables


ROWS = [("file", "start", "end", "text"), ("a.wav", 0.5, 2, "dobar dan"), ("a.wav", 2, 3.25, "007")]


@pytest.mark.parametrize("ending", [".xlsx", ".ods"])
def test_a_workbook_is_ingested_from_the_command_line(audio, tmp_path, ending):
    path = written(tmp_path / f"t{ending}", ROWS)
    command = ["ingest", "table", str(path), "--audio", str(audio), "--out", str(tmp_path / "W")]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    columns = ("source_start", "source_end", "start_sample", "end_sample", "text")
    segments = Workspace.open(tmp_path / "W").segments
    assert segments.select(columns).rows() == [
        ("0.5", "2", RATE // 2, 2 * RATE, "dobar dan"),
        ("2", "3.25", 2 * RATE, 3.25 * RATE, "007"),
    ]


@pytest.mark.parametrize("ending", [".xlsx", ".ods"])
def test_the_first_row_that_is_not_blank_names_the_columns(tmp_path, ending):
    rows = [(None,), ROWS[0], (None,), *ROWS[1:], (None, None, None, None, "aside")]
    cells = table.read_cells(written(tmp_path / f"t{ending}", rows))
    assert list(cells.lines) == [4, 5, 6]
    assert cells.frame.columns == ["file", "start", "end", "text", "column E"]
    assert cells.frame.rows() == [
        ("a.wav", "0.5", "2", "dobar dan", None),
        ("a.wav", "2", "3.25", "007", None),
        (None, None, None, None, "aside"),
    ]


@pytest.mark.parametrize("ending", [".xlsx", ".ods"])
def test_two_columns_of_one_name_are_one_error(tmp_path, ending):
    path = written(tmp_path / f"t{ending}", [("name", "text", "text"), ("a", "b", "c")])
    with pytest.raises(InputError, match=rf"t\{ending}: several columns are called 'text'"):
        table.read(path)


def of_excel(path):
    """A sheet with a title, a merged speaker, a hidden and a filtered row, and zeros in front."""
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (
        ["Sitting of May", None, None],
        [None, None, None],
        ["name", "speaker_id", "text"],
        ["a.wav", 7, "one_x000D_\ntwo"],
        ["b.wav", None, "three"],
        ["c.wav", 12, True],
        ["d.wav", 7, "_xD83D__xDE00_"],
    ):
        sheet.append(row)
    for row in range(4, 8):
        sheet[f"B{row}"].number_format = "000"
    sheet.merge_cells("A1:C1")
    sheet.merge_cells("B4:B5")
    sheet.row_dimensions[5].hidden = True
    sheet.row_dimensions[6].hidden = True
    book.save(path)
    return path


def spans(rows, columns):
    """Attributes of a merged cell."""
    return f'table:number-rows-spanned="{rows}" table:number-columns-spanned="{columns}"'


def of_libreoffice(path):
    """The same as LibreOffice stores it."""

    def number(value, shown, more=""):
        kind = f'{more} office:value-type="float" office:value="{value}" calcext:value-type="float"'
        return ods_cell(p(shown), kind)

    true = 'office:value-type="boolean" office:boolean-value="true" calcext:value-type="boolean"'
    covered = "<table:covered-table-cell/>"
    rows = [
        ods_row(ods_cell(p("Sitting of May"), spans(1, 3)), f"{covered}{covered}"),
        ods_row(),
        ods_row(*(ods_cell(p(name)) for name in ("name", "speaker_id", "text"))),
        ods_row(ods_cell(p("a.wav")), number(7, "007", spans(2, 1)), ods_cell(p("one") + p("two"))),
        ods_row(
            ods_cell(p("b.wav")),
            covered,
            ods_cell(p("three")),
            attributes=' table:visibility="collapse"',
        ),
        ods_row(
            ods_cell(p("c.wav")),
            number(12, "012"),
            ods_cell(p("TRUE"), true),
            attributes=' table:visibility="filter"',
        ),
        ods_row(ods_cell(p("d.wav")), number(7, "007"), ods_cell(p("\U0001f600"))),
    ]
    return write_ods(path, ods_table(*rows))


@pytest.mark.parametrize("write", [of_excel, of_libreoffice])
def test_cells_are_read_as_the_sheet_shows_them_and_the_rest_is_counted(tmp_path, write):
    path = write(tmp_path / ("t.xlsx" if write is of_excel else "t.ods"))
    found = table.read(path)
    assert found.frame.select("name", "speaker_id", "text").rows() == [
        ("a.wav", "007", "one\ntwo"),
        ("b.wav", "007", "three"),
        ("c.wav", "012", "TRUE"),
        ("d.wav", "007", "\U0001f600"),
    ]
    assert [(part.what, part.count) for part in found.not_read] == [
        (f"rows above the header of {path.name}", 1),
    ]
    assert (
        f"{path.name}: cells below the first one of merged cells have its value, as the sheet "
        "shows it: 1"
    ) in found.notes
    assert f"{path.name}: rows that the sheet hides are read like the others: 2" in found.notes


@pytest.mark.parametrize("ending", [".xlsx", ".ods"])
def test_vertically_merged_cells_repeat_the_first_value(tmp_path, ending):
    rows = [
        ["name", "text", "speaker_id", "room"],
        ["a.wav", "one", "Ana", "7"],
        ["b.wav", "two", "", ""],
        ["Afternoon", "", "", ""],
        ["c.wav", "three", "Ben", "8"],
        ["", "", "", ""],
        ["d.wav", "four", "", ""],
    ]
    merged = {(2, 2): (2, 1), (2, 3): (2, 1), (4, 0): (1, 4), (5, 2): (3, 1)}
    path = tmp_path / f"t{ending}"
    if ending == ".xlsx":
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append([cell or None for cell in row])
        for (row, column), (height, width) in merged.items():
            corner = {"start_row": row, "start_column": column + 1}
            ends = {"end_row": row + height - 1, "end_column": column + width}
            book.active.merge_cells(**corner, **ends)
        book.save(path)
    else:
        written = [
            ods_row(
                *(
                    ods_cell(p(cell), spans(*merged.get((number, column), (1, 1))))
                    if cell
                    else ods_cell("")
                    for column, cell in enumerate(row)
                )
            )
            for number, row in enumerate(rows, 1)
        ]
        write_ods(path, ods_table(*written))
    found = table.read(path)
    columns = ("name", "text", "speaker_id", "room")
    assert found.frame.select(columns).rows() == [
        ("a.wav", "one", "Ana", "7"),
        ("b.wav", "two", "Ana", "7"),
        ("Afternoon", None, None, None),
        ("c.wav", "three", "Ben", "8"),
        ("d.wav", "four", "Ben", None),
    ]
    [part] = found.not_read
    assert part.what.startswith(f"cells of {path.name} beside a merged one")
    assert part.count == 3
    assert any("as the sheet shows it: 3" in note for note in found.notes)


def respelled(path, respell):
    """Replace the XML of the sheet of a workbook by what a function makes of it."""
    with zipfile.ZipFile(path) as book:
        members = {name: book.read(name) for name in book.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    members[sheet] = respell(members[sheet].decode())
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        for name, content in members.items():
            book.writestr(name, content)


def in_single_quotes(xml):
    """XML whose attributes are in single quotes."""
    return xml.replace('"', "'").encode()


def in_utf16(xml):
    """XML in UTF-16, which its declaration names."""
    return xml.replace("utf-8", "utf-16").replace("UTF-8", "UTF-16").encode("utf-16")


@pytest.mark.parametrize("respell", [in_single_quotes, in_utf16])
@pytest.mark.parametrize(
    ("column", "rows"), [("A", [900_000_000]), ("XFD", range(100, 200))], ids=["rows", "columns"]
)
def test_a_sheet_that_spans_many_absent_cells_is_refused_in_every_spelling(
    audio, tmp_path, respell, column, rows
):
    path = write_xlsx(tmp_path / "t.xlsx", ROWS)
    respelled(path, respell)
    assert len(table.read(path).frame) == len(ROWS) - 1
    cells = [f'<row r="{row}"><c r="{column}{row}"><v>1</v></c></row>' for row in rows]
    path = write_xlsx(tmp_path / "t.xlsx", ROWS)
    end = f"{''.join(cells)}</sheetData>"
    respelled(path, lambda xml: respell(xml.replace("</sheetData>", end)))
    with pytest.raises(InputError, match=r"t\.xlsx: a sheet spans .* cells, .* a bomb, not read"):
        ingest(path, audio, tmp_path / "W")


@pytest.mark.parametrize("ending", [".xlsx", ".ods"])
def test_problems_of_a_workbook_name_the_row_of_the_sheet(tmp_path, ending):
    rows = [(), (), ("name", "text"), ("a.wav", "da"), (None, "ne"), ("b.wav", "ni")]
    found = table.read(written(tmp_path / f"t{ending}", rows))
    assert found.problems.select("line", "reason").rows() == [(5, "name is empty")]


@pytest.mark.parametrize("ending", [".xlsx", ".ods"])
def test_cells_formatted_as_clock_times_are_not_read_as_seconds(audio, tmp_path, ending):
    clock = dt.time(0, 1, 30)
    path = written(tmp_path / f"t{ending}", [ROWS[0], ("a.wav", clock, clock, "da")])
    said = r"column 'start' has times such as '00:01:30', which are not read: add a column in sec"
    with pytest.raises(InputError, match=said):
        ingest(path, audio, tmp_path / "W")
    path = written(tmp_path / f"u{ending}", [*ROWS, ("a.wav", clock, 5, "da")])
    report = ingest(path, audio, tmp_path / "W")
    assert "column 'start' has times such as '00:01:30' in some rows, which are not read: " in str(
        report
    )
    assert [line for line in report.problems if line.startswith("no_times: 1 ")]


def test_unread_parts_of_a_workbook_are_reported(audio, tmp_path):
    rows = [*ROWS, ("a.wav", 4, 5, "#N/A"), ("a.wav", 5, 6, "=1+1")]
    path = write_xlsx(
        tmp_path / "t.xlsx", rows, more=[("a",), (None,), ("b",)], empty=[], x=[("y",)]
    )
    report = ingest(path, audio, tmp_path / "W")
    notes = [line for line in report.warnings if line.startswith("t.xlsx: ")]
    assert notes == [
        "t.xlsx: cells that hold an error, such as #N/A, are read as that text: 1",
    ]
    assert report.facts["not_read"] == [
        {
            "what": "rows of the sheet 'more' of t.xlsx (read is 'segments')",
            "count": 2,
            "option": "--option sheet=more",
        },
        {
            "what": "rows of the sheet 'x' of t.xlsx (read is 'segments')",
            "count": 1,
            "option": "--option sheet=x",
        },
        {
            "what": "formulas of t.xlsx without a stored value, which are read as empty cells",
            "count": 1,
            "option": "open it in a spreadsheet program and save it",
        },
    ]
    shown = [
        ods_row(*(ods_cell(p(cell)) for cell in row)) for row in (("name", "text"), ("a", "b"))
    ]
    hidden = ods_table(ods_row(ods_cell(p("x"))), name="lists", hidden=True)
    path = write_ods(tmp_path / "t.ods", hidden, ods_table(*shown, name="segments"))
    found = table.read(path)
    assert found.frame.select("name", "text").rows() == [("a", "b")]
    assert [(part.what, part.count) for part in found.not_read] == [
        ("rows of the sheet 'lists' of t.ods (read is 'segments')", 1)
    ]
    with pytest.raises(InputError, match=r"there is no sheet 'none'; it has lists, segments"):
        table.read(path, sheet="none")


def test_a_folder_with_a_workbook_of_libreoffice_is_found_out(audio, tmp_path):
    from nbaudio.formats.source_files import list_source_files

    write_table_ods(audio / "list.ods", ROWS)
    [layout] = table.detect(list_source_files(audio))
    assert (layout.source, dict(layout.options)) == (audio / "list.ods", {"name": "file"})


def test_join_splits_and_withdraw_read_workbooks_of_libreoffice(tmp_path):
    workspace = make_workspace(tmp_path / "W")
    keys = ["s0", "s1", "s2", "s3"]
    spoken = write_table_ods(
        tmp_path / "t.ods", [("segment_id", "text"), *((key, f"{key} da") for key in keys)]
    )
    done = CliRunner().invoke(app, ["join", str(tmp_path / "W"), str(spoken), "--text", "own"])
    assert done.exit_code == 0, done.output
    assert workspace.segments["text_own"].to_list() == [f"{key} da" for key in keys]
    splits = [("segment_id", "split"), ("s0", "dev"), ("s1", "test"), ("s2", "train")]
    path = write_table_ods(tmp_path / "splits.ods", splits)
    command = ["select", str(tmp_path / "W"), "--min-similarity", "0", "--splits", str(path)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert workspace.segments["split"].to_list()[:3] == ["dev", "test", "train"]
    gone = write_table_ods(tmp_path / "gone.ods", [("segment_id",), ("s3",)])
    nbaudio.withdraw(workspace, segments=gone, why="consent withdrawn")
    assert workspace.segments["segment_id"].to_list() == keys[:3]


def test_a_partly_unreadable_list_of_ids_withdraws_nothing(tmp_path):
    workspace = make_workspace(tmp_path / "W")
    path = write_xlsx(
        tmp_path / "t.xlsx", [("segment_id",), ("s0",)], more=[("segment_id",), ("s1",)]
    )
    with pytest.raises(
        InputError, match="so nothing is withdrawn: not read: rows of the sheet 'more'"
    ):
        nbaudio.withdraw(workspace, segments=path, why="consent withdrawn")
    (tmp_path / "t.csv").write_text("segment_id,x\ns0,1\ns1\n")
    with pytest.raises(InputError, match="so nothing is withdrawn: line 3: 1 fields, the header"):
        nbaudio.withdraw(workspace, segments=tmp_path / "t.csv", why="consent withdrawn")
    assert len(workspace.segments) == 4


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("t.xls", r"t\.xls: \.xls files are not read: save it as \.xlsx or \.ods"),
        ("t.numbers", r"t\.numbers: \.numbers files are not read: save it as \.xlsx or \.ods"),
        ("t.pdf", r"expected a file that ends in one of \.csv, .*\.parquet, \.xlsx, \.ods"),
    ],
)
def test_tables_in_other_formats_are_one_error_that_says_what_to_do(tmp_path, name, says):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(InputError, match=says):
        table.read(tmp_path / name)


# --- review sheets


@pytest.fixture
def sheet(tmp_path):
    review.export(make_workspace(tmp_path / "w"), out=tmp_path / "sheet.xlsx", n=4, blind=False)
    return tmp_path / "sheet.xlsx"


SAID = {
    "s0": "ok",
    "s1": {"verdict": "wrong words", "comment": "-5", "corrected text": "=1+1  drugi"},
    "s2": {"verdict": "cut off", "second verdict": "noise"},
}


def test_a_sheet_saved_by_libreoffice_is_imported(sheet, tmp_path):
    filled = fill_in(sheet, SAID, to=tmp_path / "filled.xlsx", reviewer="ana")
    path = as_ods(filled, tmp_path / "sheet.ods")
    workspace = Workspace.open(tmp_path / "w")
    done = CliRunner().invoke(app, ["review", "import", str(tmp_path / "w"), str(path), "--json"])
    assert done.exit_code == 0, done.output
    facts = json.loads(done.output)["facts"]
    assert (facts["rows"], facts["left_empty"], facts["new"]) == (4, 1, 3)
    columns = ("segment_id", "verdict", "comment", "corrected_text", "reviewer", "time", "review")
    time = "2001-02-03T04:05:06Z"
    assert sorted(review.verdicts(workspace).select(columns).rows()) == [
        ("s0", "ok", "", None, "ana", time, "sheet"),
        ("s1", "wrong words", "-5", "=1+1  drugi", "ana", time, "sheet"),
        ("s2", "cut off, noise", "", None, "ana", time, "sheet"),
    ]
    # The same in another format is nothing new.
    set_time(filled, "2001-02-03T04:05:06+00:00")
    assert review.import_(workspace, filled).facts["known_already"] == 3


def test_a_folder_of_sheets_of_both_programs_is_read(sheet, tmp_path):
    folder = tmp_path / "returned"
    folder.mkdir()
    filled = fill_in(sheet, {"s0": "ok"}, to=tmp_path / "filled.xlsx", reviewer="ana")
    as_ods(filled, folder / "ana.ods")
    fill_in(sheet, {"s0": "noise"}, to=folder / "ben.xlsx", reviewer="ben")
    report = review.import_(tmp_path / "w", folder)
    assert (report.facts["sheets"], report.facts["new"]) == (2, 2)
    assert report.warnings == ["s0: reviewers disagree, ana: ok; ben: noise"]


def test_an_error_in_a_cell_for_a_verdict_is_a_problem(sheet, tmp_path):
    filled = fill_in(sheet, {"s0": "ok", "s1": "#N/A"}, to=tmp_path / "f.xlsx", reviewer="ana")
    path = as_ods(filled, tmp_path / "sheet.ods")
    for one in (filled, path):
        [line] = review.import_(tmp_path / "w", one).problems
        assert "verdict '#N/A' is not one of ok, wrong words, " in line


# --- files that are damaged, or larger than they look


REPEATED = {
    "cells up to the last corner": [
        ods_row(ods_cell(p("x"))),
        ods_row(attributes=' table:number-rows-repeated="1048574"'),
        '<table:table-row><table:table-cell table:number-columns-repeated="16383"/>'
        f"{ods_cell(p('x'))}</table:table-row>",
    ],
    "a cell in a million rows and all columns": [
        '<table:table-row table:number-rows-repeated="1048576">'
        '<table:table-cell office:value-type="string" table:number-columns-repeated="16384">'
        "<text:p>x</text:p></table:table-cell></table:table-row>"
    ],
    "a cell in more rows than there are": [
        f'<table:table-row table:number-rows-repeated="{"9" * 30}">'
        '<table:table-cell office:value-type="float" office:value="1" '
        'table:number-columns-repeated="2000000000"/></table:table-row>'
    ],
    "a long text in a million rows": [
        '<table:table-row table:number-rows-repeated="1000000">'
        f"{ods_cell(p('long ' * 1000))}</table:table-row>"
    ],
    "a long text in all columns": [
        '<table:table-row><table:table-cell office:value-type="string" '
        f'table:number-columns-repeated="16384"><text:p>{"long " * 5000}</text:p>'
        "</table:table-cell></table:table-row>"
    ],
}


@pytest.mark.parametrize("rows", REPEATED.values(), ids=REPEATED)
def test_repeated_cells_that_would_fill_memory_are_refused_as_a_bomb(tmp_path, rows):
    path = write_ods(tmp_path / "t.ods", ods_table(*rows))
    with pytest.raises(InputError, match=r"t\.ods: .* a bomb") as raised:
        table.read(path)
    assert "\n" not in str(raised.value)
    with pytest.raises(InputError, match=r"t\.ods: .* a bomb"):
        review.import_(make_workspace(tmp_path / "w"), path)


def test_many_sheets_with_few_distant_cells_are_refused_as_a_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr(workbook_guard, "FREE_CELLS", 5000)
    monkeypatch.setattr(workbook_guard, "CELLS_A_BYTE", 1)
    apart = '<table:table-cell table:number-columns-repeated="999"/>'
    sheets = [ods_table(ods_row(apart, ods_cell(p("x"))), name=f"{number}") for number in range(6)]
    texts_of(write_ods(tmp_path / "t.ods", *sheets[:5]))
    with pytest.raises(InputError, match="a sheet spans 6,000 cells, all of them hold 6: a bomb"):
        texts_of(write_ods(tmp_path / "t.ods", *sheets))


def test_a_large_workbook_with_much_white_space_is_read_fast(tmp_path):
    rows = [ods_row(ods_cell(p(f"{number}"))) for number in range(2000)]
    found = texts_of(write_ods(tmp_path / "t.ods", ods_table(*rows)))
    assert found == [[f"{number}"] for number in range(2000)]


def cut(text):
    return text[: len(text) // 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (cut, "content.xml: unclosed token"),
        (lambda text: text.replace("</table:table>", ""), "content.xml: mismatched tag"),
        (lambda text: text.replace("<office:body>", "&bomb;<office:body>"), "undefined entity"),
        (
            lambda text: text.replace(
                "<office:document-content",
                '<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><office:document-content',
            ),
            "content.xml has a document type, which is not read: save it in a spreadsheet program",
        ),
        (
            lambda text: text.replace("<text:p>da", "<text:p><![CDATA[da]]>"),
            "content.xml has a CDATA section, which is not read: save it in a spreadsheet program",
        ),
        (lambda text: text.replace("UTF-8", "UTF-7"), "cannot be read as a workbook|'da'"),
        (lambda _: "", "content.xml: no element found"),
        (lambda _: "\0\1", "content.xml: not well-formed"),
    ],
)
def test_a_damaged_workbook_is_one_error_and_ends(tmp_path, damage, says):
    path = write_table_ods(tmp_path / "t.ods", [("name", "text"), ("a", "da"), ("b", "da")])
    with zipfile.ZipFile(path) as archive:
        content = archive.read("content.xml").decode()
    rewritten = damage(content)
    write_ods(path, more={"content.xml": rewritten}.items())
    # In a process of its own: calamine alone does not end on some of these.
    code = (
        "import sys; from pathlib import Path; from nbaudio.formats import table; "
        "print(table.read(Path(sys.argv[1])).frame['text'].to_list())"
    )
    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    output = (done.stdout + done.stderr).splitlines()[-1]
    assert re.search(says, output), output


def test_workbooks_with_a_password_are_one_error(tmp_path):
    manifest = (
        '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
        '<manifest:file-entry manifest:full-path="content.xml"><manifest:encryption-data/>'
        "</manifest:file-entry></manifest:manifest>"
    )
    members = {"content.xml": "\1\2", "META-INF/manifest.xml": manifest}
    path = write_ods(tmp_path / "t.ods", more=members.items())
    for read in (
        lambda: table.read(path),
        lambda: review.import_(make_workspace(tmp_path / "w"), path),
    ):
        with pytest.raises(InputError, match=r"t\.ods: it has a password; save it without one"):
            read()


@pytest.mark.parametrize("name", ["t.ods", "t.xlsx"])
def test_a_workbook_with_the_extension_of_another_format_is_refused(tmp_path, name):
    other = {"t.ods": ".xlsx", "t.xlsx": ".ods"}[name]
    shutil.copy(written(tmp_path / f"other{other}", ROWS), tmp_path / name)
    with pytest.raises(InputError, match=rf"{name}: cannot be read as a workbook"):
        table.read(tmp_path / name)


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_a_workbook_with_changed_xml_is_read_or_one_error(tmp_path_factory, data):
    path = write_table_ods(tmp_path_factory.mktemp("t") / "t.ods", VALUES)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in ("content.xml", "meta.xml")}
    name = data.draw(st.sampled_from(sorted(members)))
    whole = bytearray(members[name])
    place = data.draw(st.integers(0, len(whole) - 1))
    piece = data.draw(st.sampled_from([b"", b"<", b"/>", b'"', b"&", b"9" * 30, b"\xff", b"<!--"]))
    whole[place : place + data.draw(st.integers(0, 20))] = piece
    write_ods(path, more={**members, name: bytes(whole)}.items())
    said = ""
    try:
        with open_workbook(path) as book:
            for sheet in book.sheets.values():
                assert len(list(sheet.rows())) <= workbook_guard.FREE_CELLS
    except InputError as error:
        said = str(error)
    assert "\n" not in said
