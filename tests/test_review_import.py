"""Returned sheets: every verdict is matched whatever was done to the sheet, and unusable rows are
reported."""

import csv
import datetime as dt
import io
import itertools
import json
import shutil
import zipfile

import openpyxl
import polars as pl
import pytest
from hostile import CELLS
from hypothesis import example, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from sheets import any_text, columns_of, fill_in, make_workspace, set_time, typed_text
from spreadsheets import as_ods
from typer.testing import CliRunner

import nbaudio
from nbaudio import review, score
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.review import cell_escaping, state
from nbaudio.review.cell_escaping import cell_text
from nbaudio.review.corrections import uncorrected
from nbaudio.review.rounds import gold_ids, rounds
from nbaudio.review.state import ReviewState, Verdict, content_hashes
from nbaudio.tables.workspace import Workspace
from nbaudio.ui.widgets import ReviewPanel


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with a workspace `w` and its review, `sheet.xlsx`; tests work on copies."""
    folder = tmp_path_factory.mktemp("exported")
    workspace = make_workspace(folder / "w")
    shutil.copytree(workspace.path, folder / "new")
    review.export(workspace, out=folder / "sheet.xlsx", n=4, blind=False)
    return folder


@pytest.fixture
def workspace(exported, tmp_path):
    """A workspace without a review."""
    return Workspace(shutil.copytree(exported / "new", tmp_path / "w"))


def said_by(counts):
    return [{"reviewer": name, "verdicts": number} for name, number in counts.items()]


@pytest.fixture
def sheet(exported, workspace, tmp_path):
    """A sheet of four rows, whose review the workspace then has."""
    shutil.copytree(exported / "w", workspace.path, dirs_exist_ok=True)
    return shutil.copy2(exported / "sheet.xlsx", tmp_path / "sheet.xlsx")


def current_verdicts(workspace):
    """Verdicts that hold, by segment."""
    return dict(review.verdicts(workspace).select("segment_id", "verdict").iter_rows())


def change(sheet, edit, to=None):
    """Save a sheet after `edit(table, columns)`."""
    book = openpyxl.load_workbook(sheet)
    edit(book["review"], columns_of(book["review"]))
    book.save(to or sheet)
    return to or sheet


# --- there and back


def test_imported_verdicts_have_reviewer_time_and_sheet(workspace, sheet):
    said = {
        "s0": "ok",
        "s1": {"verdict": "wrong words", "comment": "-5", "corrected text": "=1+1 drugi"},
        "s2": {"verdict": " Cut  OFF "},
    }
    fill_in(sheet, said, reviewer="ana", saved="2001-02-03T04:05:06+00:00")
    contents = json.loads((workspace.path / "reviews/sheet.json").read_text())
    report = review.import_(workspace, sheet)
    assert report.problems == []
    rows = {row["segment_id"]: row for row in review.verdicts(workspace).iter_rows(named=True)}
    assert rows["s1"] == {
        "segment_id": "s1",
        "content": contents["contents"][contents["segment_ids"].index("s1")],
        "verdict": "wrong words",
        "comment": "-5",
        "corrected_text": "=1+1 drugi",
        "reviewer": "ana",
        "time": "2001-02-03T04:05:06Z",
        "review": "sheet",
        "blind": False,
    }
    assert current_verdicts(workspace) == {"s0": "ok", "s1": "wrong words", "s2": "cut off"}
    names = ("rows", "left_empty", "new", "known_already", "by_reviewer", "corrected_texts")
    assert [report.facts[name] for name in names] == [4, 1, 3, 0, said_by({"ana": 3}), 1]
    assert (
        json.loads((workspace.path / "reports/review_import.json").read_text())["facts"]["new"] == 3
    )


def test_a_sheet_may_be_imported_again_and_add_what_is_new(workspace, sheet):
    fill_in(sheet, {"s0": "ok"}, reviewer="ana", saved="2001-01-01T00:00:00+00:00")
    review.import_(workspace, sheet)
    log = (workspace.path / "reviews/verdicts.jsonl").read_bytes()
    assert review.import_(workspace, sheet).facts["known_already"] == 1
    assert (workspace.path / "reviews/verdicts.jsonl").read_bytes() == log
    fill_in(sheet, {"s1": "noise"}, saved="2001-01-02T00:00:00+00:00")
    report = review.import_(workspace, sheet)
    assert (report.facts["new"], report.facts["known_already"]) == (1, 1)
    assert current_verdicts(workspace) == {"s0": "ok", "s1": "noise"}


def sort_rows(table, columns):
    rows = [[cell.value for cell in row] for row in table.iter_rows(min_row=2)]
    for number, row in enumerate(
        sorted(rows, key=lambda row: row[columns["segment_id"] - 1], reverse=True), start=2
    ):
        for column, value in enumerate(row, start=1):
            table.cell(number, column).value = value


def filter_and_hide(table, columns):
    table.auto_filter.add_filter_column(columns["verdict"] - 1, ["ok"])
    table.row_dimensions[3].hidden = True
    for letter in "AFGHJ":
        table.column_dimensions[letter].hidden = True


def insert_rows(table, columns):
    table.insert_rows(3)
    table.cell(3, columns["comment"]).value = None
    table.insert_rows(1, 2)
    table.cell(1, 1).value = "My review"


def move_columns(table, columns):
    for row in table.iter_rows():
        values = [cell.value for cell in row]
        for cell, value in zip(row, reversed(values), strict=True):
            cell.value = value


def rename_columns(table, columns):
    for name, called in (
        ("verdict", "VERDICTS "),
        ("segment_id", "Segment-ID"),
        ("corrected text", "Correction"),
        ("comment", "Notes"),
    ):
        table.cell(1, columns[name]).value = called


def lose_the_key(table, columns):
    table.delete_cols(columns["key"])


def lose_the_id(table, columns):
    table.delete_cols(columns["segment_id"])


def rename_the_sheet(table, columns):
    table.title = "Tablica 1"


@pytest.mark.slow
@pytest.mark.parametrize(
    "edit",
    [
        sort_rows,
        filter_and_hide,
        insert_rows,
        move_columns,
        rename_columns,
        lose_the_key,
        lose_the_id,
        rename_the_sheet,
    ],
)
def test_verdicts_stay_with_their_segments_after_edits_of_the_sheet(
    workspace, sheet, tmp_path, edit
):
    said = {"s0": "ok", "s1": {"verdict": "noise", "comment": "psst"}, "s3": "unsure"}
    fill_in(sheet, said, reviewer="ana")
    report = review.import_(workspace, change(sheet, edit, to=tmp_path / "sheet (1) kopija.xlsx"))
    assert report.problems == []
    assert current_verdicts(workspace) == {"s0": "ok", "s1": "noise", "s3": "unsure"}
    assert set(review.verdicts(workspace)["reviewer"]) == {"ana"}
    assert (
        dict(review.verdicts(workspace).select("segment_id", "comment").iter_rows())["s1"] == "psst"
    )


@pytest.mark.slow
@settings(max_examples=6)
@given(
    st.lists(st.tuples(any_text, any_text), min_size=1, max_size=4),
    st.lists(typed_text(), min_size=4, max_size=4),
)
@example([(text, "da") for text in CELLS], CELLS[:13] + CELLS[-6:])
@example([("č" * 40_000, "😀" * 20_000)], ["č" * 32_766] * 4)  # and a ! behind
def test_random_texts_are_imported_unchanged(tmp_path_factory, pairs, typed):
    folder = tmp_path_factory.mktemp("hostile")
    texts, heard = zip(*((f"x{text}", other) for text, other in pairs), strict=True)
    ids = [f"{number}{text}" for number, text in enumerate(texts)]
    workspace = make_workspace(folder / "w", texts, heard, ids=ids)
    out = folder / "s.xlsx"
    for ending in (".csv", ".tsv", ".xlsx"):
        review.export(workspace, out=out.with_suffix(ending), n=len(ids))
    said = {
        cell_text(key): {
            "verdict": "wrong words",
            "comment": comment,
            "corrected text": f"{comment}!",
        }
        for key, comment in zip(ids, typed, strict=False)
    }
    book = openpyxl.load_workbook(out)
    shown = columns_of(book["review"])
    by_row = {
        book["review"].cell(row, shown["transcript"]).value: row for row in range(2, len(ids) + 2)
    }
    assert len(by_row) <= len(ids)
    fill_in(out, said, reviewer="ana")
    for path in (out, out.with_suffix(".csv"), out.with_suffix(".tsv")):
        report = review.import_(workspace, path)
        assert report.problems == []
    rows = {row["segment_id"]: row for row in review.verdicts(workspace).iter_rows(named=True)}
    filled = {key: row for key, row in zip(ids, typed, strict=False) if cell_text(key) in said}
    for key in rows:
        assert rows[key]["comment"] == said[cell_text(key)]["comment"]
        assert rows[key]["corrected_text"] == said[cell_text(key)]["corrected text"]
    assert len(filled) >= len(rows) > 0


# --- what cannot be taken


def put(name, value, row=2):
    def edit(table, columns):
        table.cell(row, columns[name]).value = value

    return edit


def filled(sheet):
    """A sheet with 'ok' in each row."""
    return change(
        sheet,
        lambda table, columns: [put("verdict", "ok", row)(table, columns) for row in range(2, 6)],
    )


def swap(*names):
    def edit(table, columns):
        for name in names:
            one, other = (table.cell(row, columns[name]) for row in (2, 3))
            one.value, other.value = other.value, one.value

    return edit


def copy_row(**changed):
    def edit(table, columns):
        for name, column in columns.items():
            table.cell(6, column).value = changed.get(name, table.cell(2, column).value)

    return edit


def forget(table, columns):
    for row in range(2, 6):
        table.cell(row, columns["key"]).value = None


def unknown_id(table, columns):
    forget(table, columns)
    table.cell(2, columns["segment_id"]).value = "s99"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("edit", "says", "taken"),
    [
        (put("verdict", "fine"), "verdict 'fine' is not one of ok, wrong words, cut off, ", 3),
        (put("verdict", "=A1"), "verdict '=A1' is not one of ok", 3),
        (unknown_id, "row 2: the id 's99' is unknown: not imported", 3),
        (
            put("key", "nb 0123456789abcdef - sheet"),
            "with such texts and times was not in review 'sheet'",
            3,
        ),
        (
            put("key", "nb 0123456789abcdef - other"),
            "review 'other' was not exported from this workspace",
            3,
        ),
        (
            put("transcript", "nešto"),
            "its transcript was changed to 'nešto', which is not imported; corrections go into",
            4,
        ),
        (
            put("hypothesis", "nešto"),
            "its hypothesis was changed to 'nešto', which is not imported",
            4,
        ),
        (put("speaker", None), "its speaker was changed to ''", 4),
        (put("segment_id", "s99"), "its segment_id was changed to 's99', which is not imported", 4),
        (
            swap("transcript"),
            "it has the transcript of another row: columns were sorted separately: not imported",
            2,
        ),
        (swap("key"), "columns were sorted separately: not imported", 2),
        (copy_row(verdict="noise"), "other rows of the sheet contradict it: not imported", 3),
        (
            put("corrected text", "x [cut here: 40,000 characters in all]"),
            "its corrected text is cut off as the transcript is",
            4,
        ),
    ],
)
def test_rows_in_doubt_are_reported_and_not_taken(workspace, sheet, edit, says, taken):
    report = review.import_(workspace, change(filled(sheet), edit))
    assert [line for line in report.problems if says in line]
    assert all("sheet.xlsx row " in line for line in report.problems)
    assert report.facts["new"] == taken == len(current_verdicts(workspace))


def test_a_remark_without_a_verdict_is_reported_and_not_taken(workspace, sheet):
    fill_in(sheet, {"s0": {"comment": "hm"}, "s1": {"corrected text": "x"}, "s2": "ok"})
    report = review.import_(workspace, sheet)
    assert [line.split(": ", 1)[1] for line in report.problems] == [
        "a comment or a corrected text, but no verdict: not imported"
    ] * 2
    assert current_verdicts(workspace) == {"s2": "ok"}


def test_ok_with_a_corrected_text_is_reported_and_not_taken(workspace, sheet):
    fill_in(
        sheet,
        {
            "s0": {"verdict": "ok", "corrected text": "x"},
            "s1": {"verdict": "ok", "corrected text": "drugi "},
        },
    )
    report = review.import_(workspace, sheet)
    assert [line.split(": ", 1)[1] for line in report.problems] == [
        "'ok' says that the transcript is right, but there is a corrected text: not imported"
    ]
    assert current_verdicts(workspace) == {"s1": "ok"}


def test_the_same_row_twice_is_one_verdict(workspace, sheet):
    report = review.import_(workspace, change(filled(sheet), copy_row()))
    assert (report.problems, report.facts["rows"], report.facts["new"]) == ([], 5, 4)


@pytest.mark.parametrize("kind", ["xlsx", "ods"])
@pytest.mark.parametrize("value", [dt.date(2020, 5, 3), dt.time(5, 30), True, 0.5, 7], ids=str)
def test_a_corrected_text_that_a_program_made_a_value_is_no_text(workspace, sheet, kind, value):
    """A cell that is not formatted as text: 3/5 became a date, 50 % a half, and 007 seven."""
    fill_in(sheet, dict.fromkeys(["s0", "s1", "s2", "s3"], "wrong words"))
    change(
        sheet,
        lambda table, columns: setattr(table.cell(2, columns["corrected text"]), "value", value),
    )
    if kind == "ods":
        sheet = as_ods(sheet, sheet.with_suffix(".ods"))
    report = review.import_(workspace, sheet)
    [problem] = report.problems
    assert "row 2, s" in problem
    assert "of the program and not what was typed: format the cell as text" in problem
    assert (report.facts["new"], report.facts["corrected_texts"]) == (3, 0)


def test_a_comment_may_be_a_date(workspace, sheet):
    fill_in(sheet, dict.fromkeys(["s0"], "noise"))
    date = dt.date(2020, 5, 3)
    change(
        sheet,
        lambda table, columns: [
            setattr(table.cell(row, columns["comment"]), "value", date) for row in range(2, 6)
        ],
    )
    review.import_(workspace, sheet)
    assert review.verdicts(workspace)["comment"].to_list() == ["2020-05-03"]


@pytest.mark.parametrize("kind", ["xlsx", "ods"])
def test_a_verdict_in_merged_cells_is_that_of_the_first_row(workspace, sheet, kind):
    def merge(table, columns):
        table.cell(2, columns["verdict"]).value = "ok"
        verdicts = columns["verdict"]
        table.merge_cells(start_row=2, end_row=4, start_column=verdicts, end_column=verdicts)

    change(sheet, merge)
    if kind == "ods":
        sheet = as_ods(sheet, sheet.with_suffix(".ods"))
        with_merged_verdicts(sheet)
    report = review.import_(workspace, sheet)
    assert report.problems == [
        f"{sheet.name}: 2 rows have cells that are merged with those above, which count for the "
        "first row only (row 3, 4): unmerge them and fill in each row"
    ]
    assert report.facts["new"] == 1


def with_merged_verdicts(sheet):
    """Merge the first verdict, which is ok, with the two below, as LibreOffice writes it."""
    with zipfile.ZipFile(sheet) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    cell = b'calcext:value-type="string"><text:p>ok</text:p>'
    merged = b'table:number-rows-spanned="3" table:number-columns-spanned="1" ' + cell
    members["content.xml"] = members["content.xml"].replace(cell, merged, 1)
    with zipfile.ZipFile(sheet, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_notes_at_cells_are_counted(workspace, sheet):
    def add_notes(table, columns):
        for row in (2, 3):
            note = openpyxl.comments.Comment("noise, in fact", "ana")
            table.cell(row, columns["verdict"]).comment = note

    report = review.import_(workspace, change(filled(sheet), add_notes))
    assert (
        "sheet.xlsx: 2 notes are attached to cells and not imported: only the column 'comment' is"
        in report.warnings
    )
    assert report.facts["new"] == 4


def test_a_row_without_key_and_of_another_text_is_of_another_corpus(workspace, sheet):
    """Its id alone may be that of another segment, of which the verdict is."""

    def forget_keys(table, columns):
        table.cell(3, columns["transcript"]).value = "nešto drugo"
        table.delete_cols(columns["key"])

    report = review.import_(workspace, change(filled(sheet), forget_keys))
    [problem] = report.problems
    assert "row 3, s" in problem
    assert (
        "its transcript is 'nešto drugo', not that of the segment, and it has no key: not imported"
        in problem
    )
    assert report.facts["new"] == 3


def test_removed_rows_of_a_sheet_are_counted(workspace, sheet):
    report = review.import_(
        workspace, change(filled(sheet), lambda table, columns: table.delete_rows(2, 2))
    )
    assert report.facts["rows_removed"] == 2
    assert [line for line in report.warnings if "2 of its rows are missing, such as s" in line]


def test_an_unknown_column_of_a_sheet_is_reported(workspace, sheet):
    def add(table, columns):
        table.cell(1, 14).value = "mood"
        table.cell(3, 14).value = "good"

    assert [
        line
        for line in review.import_(workspace, change(filled(sheet), add)).warnings
        if "'mood' is unknown" in line
    ]


def test_two_columns_of_one_name_are_refused(workspace, sheet):
    change(sheet, lambda table, columns: setattr(table.cell(1, 14), "value", "verdict"))
    with pytest.raises(InputError, match="two columns are called 'verdict'"):
        review.import_(workspace, sheet)


@pytest.mark.parametrize("name", ["Notes", "ID", "Text", "Duration", "Corrected"])
def test_a_column_with_a_similar_name_is_unknown(workspace, sheet, name):
    def add(table, columns):
        table.cell(1, 14).value = name
        table.cell(2, 14).value = "x"

    report = review.import_(workspace, change(filled(sheet), add))
    assert report.facts["new"] == 4
    assert [line for line in report.warnings if f"'{name}' is unknown" in line]


def test_verdicts_in_another_tab_are_reported(workspace, sheet):
    book = openpyxl.load_workbook(filled(sheet))
    book.copy_worksheet(book["review"]).title = "mine"
    book.save(sheet)
    report = review.import_(workspace, sheet)
    assert report.facts["new"] == 4
    assert report.problems == [
        (
            "sheet.xlsx: there are verdicts in the tab 'mine' too, which are not imported: "
            "save each as a file"
        )
    ]


def test_a_verdict_on_another_text_does_not_make_an_import_known(workspace, sheet, tmp_path):
    [content] = content_hashes(
        workspace.segments.filter(pl.col("segment_id") == "s1").with_columns(text=pl.lit("nešto"))
    )
    review.append_verdicts(
        workspace,
        [review.Verdict("s1", content, "ok", "", None, "ana", "2031-01-01T00:00:00Z", "panel")],
    )
    report = review.import_(workspace, fill_in(sheet, {"s1": "ok"}, reviewer="ana"))
    assert (report.facts["new"], report.facts["known_already"]) == (1, 0)
    assert gold_ids(workspace, workspace.segments) == {"s1"}
    assert len(review.disagreements(workspace)) == 0


def test_an_equal_verdict_of_the_panel_is_imported_once_for_the_sheet(workspace, sheet):
    [content] = content_hashes(workspace.segments.filter(pl.col("segment_id") == "s1"))
    review.append_verdicts(
        workspace,
        [review.Verdict("s1", content, "ok", "", None, "ana", "2031-01-01T00:00:00Z", "panel")],
    )
    fill_in(sheet, {"s1": "ok"}, reviewer="ana")
    assert [review.import_(workspace, sheet).facts["new"] for _ in range(2)] == [1, 0]
    assert review.verdicts(workspace)["review"].to_list() == ["sheet"]


def test_a_sheet_of_another_corpus_is_refused(workspace, sheet, tmp_path):
    other = make_workspace(tmp_path / "other", ["jedan", "dva", "tri", "četiri"])
    review.export(other, out=tmp_path / "again" / "sheet.xlsx", n=4)
    report = review.import_(workspace, filled(tmp_path / "again" / "sheet.xlsx"))
    assert report.problems == [
        "sheet.xlsx: made from another corpus: none of its 4 rows is imported"
    ]
    assert current_verdicts(workspace) == {}
    nameless = make_workspace(tmp_path / "third", ["prvi", "drugi", "treći", "četvrti", "peti"])
    review.export(nameless, out=tmp_path / "third.xlsx", n=5)
    assert (
        "made from another corpus"
        in review.import_(workspace, filled(tmp_path / "third.xlsx")).problems[0]
    )


def test_segments_that_have_changed_since_keep_the_verdict_on_what_they_were(workspace, sheet):
    workspace.save(segments=workspace.segments.with_columns(text=pl.col("text") + "!"))
    report = review.import_(workspace, filled(sheet))
    assert (report.problems, report.facts["changed_since"], report.facts["new"]) == ([], 4, 4)
    contents = json.loads((workspace.path / "reviews/sheet.json").read_text())["contents"]
    assert set(review.verdicts(workspace)["content"]) == set(contents)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("gone.xlsx", None, "there is no such file"),
        ("a.xlsx", b"PK no workbook", "cannot be read as a workbook"),
        ("a.pdf", b"x", "must end in .xlsx, .ods, .csv or .tsv"),
        ("a.xls", b"x", "a.xls: .xls files are not read: save it as .xlsx or .ods"),
        ("a.ods", b"PK no workbook", "cannot be read as a workbook"),
        (
            "a.csv",
            "key,verdict\n\u010d,ok\n".encode("cp1250"),
            "not UTF-8 text; save it as 'CSV UTF-8'",
        ),
        ("a.csv", b"a,b\n1,2\n", "no review sheet"),
        ("a.csv", b"", "no review sheet"),
    ],
)
def test_files_that_are_no_review_sheet_are_refused(workspace, sheet, tmp_path, name, data, says):  # noqa: PLR0917
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=says):
        review.import_(workspace, [filled(sheet), tmp_path / name])
    assert current_verdicts(workspace) == {}


def test_importing_without_returned_sheets_is_a_warning(workspace, tmp_path):
    (tmp_path / "returned").mkdir()
    where = f"; {tmp_path / 'returned'} has no file that ends in .xlsx, .ods, .csv, .tsv or "
    for sheets, place in (
        (None, ""),
        ([], ""),
        (tmp_path / "returned", f"{where}-verdicts.json"),
    ):
        report = review.import_(workspace, sheets)
        assert (report.facts["sheets"], report.facts["verdicts_in_all"]) == (0, 0)
        assert report.warnings == [f"no sheet has been returned yet{place}"]


def test_a_folder_of_sheets_is_read_without_temporary_files(workspace, sheet, tmp_path):
    folder = tmp_path / "returned"
    (folder / "from ben/later").mkdir(parents=True)
    (folder / ".cache").mkdir()
    fill_in(sheet, {"s0": "ok"}, to=folder / "ana.xlsx", reviewer="ana")
    fill_in(sheet, {"s0": "ok"}, to=folder / "from ben/later/ben.xlsx", reviewer="ben")
    for name in ("~$ana.xlsx", ".~lock.ben.xlsx#", ".ben.csv", ".cache/a.xlsx"):
        (folder / name).write_bytes(b"x")
    report = review.import_(workspace, folder)
    assert (report.facts["sheets"], report.facts["by_reviewer"]) == (
        2,
        said_by({"ana": 1, "ben": 1}),
    )
    assert report.warnings == report.problems == []


def test_every_other_file_of_a_folder_is_named_with_the_reason(workspace, sheet, tmp_path):
    folder = tmp_path / "returned"
    (folder / "clips").mkdir(parents=True)
    (folder / "more").mkdir()
    fill_in(sheet, {"s0": "ok"}, to=folder / "ana.xlsx", reviewer="ana")
    (folder / "link").symlink_to(folder / "more")
    (folder / "gone.xlsx").symlink_to(folder / "nowhere.xlsx")
    for name in (
        *("clips/a.wav", "clips/b.mp3", "round.pdf", "round.html", "round.json", "round.zip"),
        *("more/x.numbers", "x.XLS", "letter"),
    ):
        (folder / name).write_bytes(b"x")
    report = review.import_(workspace, folder)
    assert report.problems == []
    assert report.facts["new"] == 1
    assert report.facts["audio_files"] == 2
    assert dict(line.split(": not read: ", 1) for line in report.warnings) == {
        "gone.xlsx": "not a regular file",
        "letter": "not a sheet",
        "link": "a link to a folder",
        "more/x.numbers": ".numbers files are not read: save it as .xlsx or .ods",
        "round.html": (
            "a page does not hold its verdicts: open it, click 'save verdicts', "
            "and import that file"
        ),
        "round.json": (
            "its name does not end in -verdicts.json, as those of verdict files do; "
            "if it is one, give its own name"
        ),
        "round.pdf": "not a sheet",
        "round.zip": "an archive: unpack it",
        "x.XLS": ".xls files are not read: save it as .xlsx or .ods",
    }


def test_an_unreadable_sheet_does_not_stop_the_import_of_others(workspace, sheet, tmp_path):
    folder = tmp_path / "returned"
    folder.mkdir()
    fill_in(sheet, {"s0": "ok"}, to=folder / "ana.xlsx", reviewer="ana")
    (folder / "ben.xlsx").write_bytes(sheet.read_bytes()[:2000])
    (folder / "prices.csv").write_text("item,price\nbread,2\n")
    report = review.import_(workspace, folder)
    assert current_verdicts(workspace) == {"s0": "ok"}
    damaged, other = report.problems
    assert damaged.startswith(f"{folder / 'ben.xlsx'}: cannot be read as a workbook (")
    assert damaged.endswith("): not imported")
    assert other == (
        f"{folder / 'prices.csv'}: no review sheet: no table in it has a column 'verdict' and one "
        "'key' or 'segment_id': not imported"
    )


def test_a_folder_whose_only_sheet_is_damaged_has_a_problem(workspace, tmp_path):
    (tmp_path / "returned").mkdir()
    (tmp_path / "returned/ana.ods").write_bytes(b"x")
    report = review.import_(workspace, tmp_path / "returned")
    [line] = report.problems
    assert "ana.ods: cannot be read as a workbook" in line
    assert report.warnings == []


# --- who said it, and who said it last


def test_the_reviewer_is_taken_from_the_sheet_or_the_call(workspace, sheet):
    report = review.import_(workspace, filled(sheet))
    assert report.facts["by_reviewer"] == said_by({"unnamed": 4})
    assert [line for line in report.warnings if "--reviewer NAME" in line]
    report = review.import_(workspace, sheet, reviewer="cvita")
    assert report.facts["by_reviewer"] == said_by({"cvita": 4, "unnamed": 4})


def test_a_blank_reviewer_name_is_refused(workspace, sheet):
    fill_in(sheet, {"s1": "ok"})
    with pytest.raises(InputError, match="reviewer: a name is needed"):
        review.import_(workspace, sheet, reviewer=" ")
    review.import_(workspace, sheet, reviewer=" ana ")
    assert review.verdicts(workspace)["reviewer"].to_list() == ["ana"]


def test_the_verdict_of_the_later_saved_sheet_applies_in_any_order(workspace, sheet, tmp_path):
    early = fill_in(
        sheet,
        {"s0": "ok", "s1": "ok"},
        to=tmp_path / "a.xlsx",
        reviewer="ana",
        saved="2001-01-01T00:00:00+00:00",
    )
    late = fill_in(
        sheet,
        {"s0": "noise", "s1": "ok"},
        to=tmp_path / "b.xlsx",
        reviewer="ana",
        saved="2001-01-02T00:00:00+00:00",
    )
    report = review.import_(workspace, [late, early])
    assert (report.facts["new"], report.facts["changed"], current_verdicts(workspace)) == (
        2,
        1,
        {"s0": "noise", "s1": "ok"},
    )
    assert "s0: ana said 'ok', now says 'noise'" in report.warnings
    report = review.import_(workspace, early)
    assert report.problems == [
        "s0: ana said 'noise' later than a.xlsx was saved, which says 'ok': not imported"
    ]
    assert current_verdicts(workspace) == {"s0": "noise", "s1": "ok"}
    assert len(review.verdict_log(workspace)) == 3


def test_an_emptied_verdict_cell_keeps_the_imported_verdict(workspace, sheet):
    fill_in(sheet, {"s0": "ok"}, reviewer="ana", saved="2001-01-01T00:00:00+00:00")
    review.import_(workspace, sheet)
    fill_in(sheet, {"s0": {"verdict": None}})
    assert review.import_(workspace, sheet).facts["left_empty"] == 4
    assert current_verdicts(workspace) == {"s0": "ok"}


def test_a_later_verdict_of_the_panel_is_kept(workspace, sheet):
    content = json.loads((workspace.path / "reviews/sheet.json").read_text())["contents"][0]
    [first] = [
        key
        for key in workspace.segments["segment_id"]
        if key == json.loads((workspace.path / "reviews/sheet.json").read_text())["segment_ids"][0]
    ]
    fill_in(sheet, {first: "ok"}, reviewer="ana", saved="2001-01-01T00:00:00+00:00")
    review.append_verdicts(
        workspace,
        [
            review.Verdict(
                first, content, "noise", "", None, "ana", "2001-01-02T00:00:00+00:00", "panel"
            )
        ],
    )
    assert review.import_(workspace, sheet).facts["outdated"] == 1
    assert current_verdicts(workspace) == {first: "noise"}


def test_several_reviewers_and_their_agreement(tmp_path):
    ids = [f"s{number:02d}" for number in range(30)]
    workspace = make_workspace(tmp_path / "w", [f"riječ {key}" for key in ids], ids=ids)
    report = review.export(
        workspace, out=tmp_path / "round.xlsx", n=30, reviewers=["ana", "ben"], overlap=10
    )
    assert report.facts["reviewers"] == [
        {"reviewer": name, "segments": 20} for name in ("ana", "ben")
    ]
    of = {}
    for name in ("ana", "ben"):
        table = openpyxl.load_workbook(tmp_path / f"round-{name}.xlsx")["review"]
        of[name] = {
            table.cell(row, columns_of(table)["segment_id"]).value
            for row in range(2, table.max_row + 1)
        }
    shared = of["ana"] & of["ben"]
    assert (len(shared), of["ana"] | of["ben"]) == (10, set(ids))
    apart = min(shared)
    sheets = [
        fill_in(
            tmp_path / f"round-{name}.xlsx",
            {key: "noise" if name == "ben" and key == apart else "ok" for key in keys},
        )
        for name, keys in of.items()
    ]
    report = review.import_(workspace, sheets)
    assert (report.problems, report.facts["by_reviewer"]) == ([], said_by({"ana": 20, "ben": 20}))
    told = report.facts["agreement"][0]
    assert (told["of"], told["measure"], told["reviewers"]) == ("words", "agreement", "ana, ben")
    assert (told["segments"], told["value"]) == (10, 0.9)
    assert told["low"] < 0.9 < told["high"]
    assert f"{apart}: reviewers disagree, ana: ok; ben: noise" in report.warnings
    assert review.disagreements(workspace).rows() == [(apart, "ana: ok; ben: noise")]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["xlsx", "html"])
def test_segments_that_reviewers_left_undecided_are_a_review_of_their_own_and_an_adjudicator_decides_them(  # noqa: E501
    workspace, tmp_path, ending
):
    def label(segment_id):
        known = ReviewState.load(workspace)
        [drawn, *_] = rounds(known, uncorrected(known, workspace.segments))
        return drawn.rows.filter(segment_id=segment_id)["verdict"].item()

    with pytest.raises(InputError, match="reviewers left no segment undecided"):
        review.export(workspace, out=tmp_path / f"ties.{ending}", strategy="disagreements")
    review.export(workspace, out=tmp_path / "round.xlsx", n=4, reviewers=["ana", "ben"], overlap=4)
    both, tie, *others = json.loads((workspace.path / "reviews/round.json").read_text())[
        "segment_ids"
    ]
    said = {"ana": {both: "ok", tie: "ok"}, "ben": {both: "ok", tie: "noise"}}
    sheets = [
        fill_in(tmp_path / f"round-{name}.xlsx", dict.fromkeys(others, "ok") | said[name])
        for name in said
    ]
    review.import_(workspace, sheets)
    assert (label(both), label(tie)) == ("right", "unsure")
    for _ in range(2):
        report = review.export(workspace, out=tmp_path / f"ties.{ending}", strategy="disagreements")
        assert (report.facts["drawn"], report.facts["strategy"]) == (1, "picked")
    record = ReviewState.load(workspace).records["ties"]
    assert record.segment_ids == [tie]
    word = Verdict(
        tie,
        record.contents[0],
        "cut off",
        "",
        None,
        "cy",
        "2026-11-21T03:00:00Z",
        "ties",
        blind=True,
    )
    review.append_verdicts(workspace, [word])
    assert label(tie) == "wrong"  # by two of three
    report = review.import_(workspace, sheets, adjudicator="ana")
    assert (label(both), label(tie)) == ("right", "right")
    assert (report.facts["adjudicators"], report.facts["disagreements"]) == ("ana", 0)
    # It stays so.
    assert review.import_(workspace, sheets).facts["adjudicators"] == "ana"
    assert label(tie) == "right"


def test_an_adjudicator_without_name_or_verdicts_is_refused(workspace, sheet):
    fill_in(sheet, {"s0": "ok"}, reviewer="ana")
    for blank in (" ", "ana\nben"):
        with pytest.raises(InputError, match="adjudicator: a name is needed, in one line"):
            review.import_(workspace, sheet, adjudicator=blank)
    report = review.import_(workspace, sheet, adjudicator="bne")
    assert "the adjudicator 'bne' has judged nothing; reviewers are ana" in report.warnings


# --- CSV and TSV


def read_csv(path):
    return list(csv.reader(io.StringIO(path.read_text("utf-8-sig"), newline="")))


def write_csv(rows, separator=","):
    out = io.StringIO()
    csv.writer(out, delimiter=separator).writerows(rows)
    return out.getvalue()


@pytest.mark.parametrize(
    ("separator", "encoding", "name"),
    [
        (",", "utf8", "a.csv"),
        (";", "utf-8-sig", "a.csv"),
        ("\t", "utf-16", "a.csv"),
        ("\t", "utf8", "a.tsv"),
    ],
)
def test_tables_saved_by_other_programs_are_imported(
    workspace, tmp_path, separator, encoding, name
):
    review.export(workspace, out=tmp_path / "s.csv", n=4, reviewers=["ana"])
    header, *rows = read_csv(tmp_path / "s-ana.csv")
    for row in rows:
        row[header.index("verdict")] = "ok"
        row[header.index("comment")] = "č, š; ž\nda"
    (tmp_path / name).write_bytes(write_csv([header, *rows[::-1]], separator).encode(encoding))
    report = review.import_(workspace, tmp_path / name)
    assert (report.problems, report.facts["by_reviewer"], report.facts["new"]) == (
        [],
        said_by({"ana": 4}),
        4,
    )
    assert set(review.verdicts(workspace)["comment"]) == {"č, š; ž\nda"}


def test_a_plain_table_of_verdicts_is_enough(workspace, sheet, tmp_path):
    rows = [["segment_id", "verdict", "corrected text", "comment", "Reviewer"]]
    rows += [["s0", "ok", "", "", "ana"], ["s0", "noise", "", "", "ben"], ["s1", "ok", "", "", ""]]
    (tmp_path / "verdicts.csv").write_text(write_csv(rows))
    report = review.import_(workspace, tmp_path / "verdicts.csv")
    assert report.problems == []
    assert report.facts["by_reviewer"] == said_by({"ana": 1, "ben": 1, "unnamed": 1})


DANGEROUS = tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20")
FORMULAS = [
    *(f"{sign}1+1 da" for sign in "=+-@\uff1d\uff0b\uff0d\uff20\ufe66\u2212"),
    *("\n=1+1", "\t=1+1", "\r=1+1", " =1+1", "\u3000=1+1", "\ufeff=1+1", ";=1+1", ",=1+1", "; =1"),
    *("da;=1+1", "da\n=1+1", "da|@1", "da,-1", "da;\uff1d1", "'=1", "da;'=1", "''", "=1;'=1"),
]


@given(any_text)
@example("=1+1")
@example("'=1")
@example("''")
def test_escaped_formulas_are_not_computed_and_can_be_restored(text):
    guarded = cell_escaping.escape_formula(text)
    assert not guarded.startswith(DANGEROUS)
    assert not guarded.lstrip(" \n\t\r;,|").startswith(DANGEROUS)
    assert cell_escaping.unescape_formula(guarded) == text
    assert cell_escaping.unescape_copy(guarded, text) == text


@pytest.mark.parametrize("text", FORMULAS)
def test_no_separator_makes_a_cell_of_a_formula(text):
    table = pl.DataFrame({"number": [1], "text": [text], "comment": [""]})
    for kind, quoted in itertools.product(("csv", "tsv"), (True, False)):
        written = cell_escaping.write_delimited(table, kind).decode("utf-8-sig")
        for separator in ",;\t|":
            quoting = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
            rows = csv.reader(io.StringIO(written), delimiter=separator, quoting=quoting)
            for cell in itertools.chain.from_iterable(rows):
                assert not cell.lstrip(' \n"\u3000\ufeff').startswith(DANGEROUS), (kind, separator)


@pytest.mark.parametrize("ending", ["csv", "tsv", "xlsx"])
def test_corrections_of_formulas_come_back_as_they_were_typed(tmp_path, ending):
    texts = [text for text in FORMULAS if not set(text) & set("\t\r")]
    workspace = make_workspace(tmp_path / "w", texts)
    path = tmp_path / f"s-ana.{ending}"
    review.export(
        workspace, out=tmp_path / f"s.{ending}", n=len(texts), blind=False, reviewers=["ana"]
    )
    add_word(path, "ne")
    report = review.import_(workspace, path)
    assert report.problems == []
    verdicts = review.verdicts(workspace).select("segment_id", "corrected_text")
    expected = {f"s{number}": f"{text} ne".strip() for number, text in enumerate(texts)}
    assert {name: text.strip() for name, text in verdicts.iter_rows()} == expected


def add_word(path, word):
    """Correct each transcript of a sheet by a word behind a copy of it."""
    if path.suffix == ".xlsx":
        book = openpyxl.load_workbook(path)
        table = book["review"]
        columns = columns_of(table)
        for row in range(2, table.max_row + 1):
            if not table.cell(row, columns["transcript"]).value:
                continue
            copied = table.cell(row, columns["transcript"]).value
            corrected = table.cell(row, columns["corrected text"])
            corrected.value = f"{copied} {word}"
            corrected.data_type = "s"
            table.cell(row, columns["verdict"]).value = "wrong words"
        book.save(path)
        return
    separator = cell_escaping.SEPARATORS[path.suffix[1:]]
    with path.open(encoding="utf-8-sig", newline="") as file:
        header, *rows = csv.reader(file, delimiter=separator)
    for row in rows:
        row[header.index("verdict")] = "wrong words"
        row[header.index("corrected text")] = f"{row[header.index('transcript')]} {word}"
    path.write_text(write_csv([header, *rows], separator), "utf8", newline="")


def test_numbers_are_escaped_and_plain_words_are_not():
    assert [cell_escaping.escape_formula(text) for text in ("007", "3.5", "TRUE", "da")] == [
        "'007",
        "'3.5",
        "'TRUE",
        "da",
    ]


def test_each_log_is_read_once_per_step_and_once_more_after_an_import(
    workspace, sheet, monkeypatch
):
    read = []
    original = state.read_lines

    def counted(path, *given):
        read.extend([path.name] if path.suffix == ".jsonl" else [])
        return original(path, *given)

    monkeypatch.setattr(state, "read_lines", counted)
    fill_in(
        sheet,
        {"s0": "ok", "s1": {"verdict": "wrong words", "corrected text": "prvi"}},
        reviewer="ana",
    )
    for expected in (["verdicts.jsonl"] * 2, ["verdicts.jsonl"]):
        assert review.import_(workspace, sheet).problems == []
        assert read == expected
        read.clear()
    nbaudio.evidence(workspace)
    assert read == ["verdicts.jsonl"]


def test_a_review_state_does_not_change_after_loading(workspace):
    before = state.ReviewState.load(workspace)
    assert before.verdicts.is_empty()
    said = review.Verdict("s0", "", "ok", "", None, "ana", "2026-11-21T03:00:00Z", "panel")
    review.append_verdicts(workspace, [said])
    assert before.verdicts.is_empty()
    assert state.ReviewState.load(before) is before
    assert len(state.ReviewState.load(workspace).verdicts) == 1


# --- corrected texts


def corrected(workspace):
    return workspace.segments.select(
        "segment_id", "text", "text_raw", "text_corrected", "text_origin"
    ).row(by_predicate=pl.col("segment_id") == "s1", named=True)


def correction(sheet, text, name="ana", verdict="wrong words", **options):
    return fill_in(
        sheet, {"s1": {"verdict": verdict, "corrected text": text}}, reviewer=name, **options
    )


def test_a_corrected_text_goes_into_the_tables_and_the_original_stays(workspace, sheet):
    before = workspace.segments
    report = review.import_(workspace, correction(sheet, "drugi kat"))
    assert corrected(workspace) == {
        "segment_id": "s1",
        "text": "drugi kat",
        "text_raw": "drugi",
        "text_corrected": "drugi kat",
        "text_origin": "ana (sheet)",
    }
    assert [line for line in report.warnings if "1 of the texts changed: run select" in line]
    scores = (
        workspace.segments.filter(pl.col("segment_id") == "s1")
        .select("similarity", "wer", "cer")
        .row(0)
    )
    assert scores == pytest.approx((1 - 2 * 4 / 14, 1 / 2, 4 / 9))
    others = pl.col("segment_id") != "s1"
    assert_frame_equal(
        workspace.segments.filter(others).select(before.columns), before.filter(others)
    )
    back = review.uncorrected(workspace, workspace.segments)
    assert_frame_equal(
        back.drop("text_raw", "text_corrected", "text_origin"), before.drop("text_raw")
    )
    after = (workspace.path / "segments.parquet").read_bytes()
    review.import_(workspace, sheet)
    assert review.correct_texts(workspace).facts["corrected_now"] == 0
    assert (workspace.path / "segments.parquet").read_bytes() == after


def test_a_correction_equal_to_the_transcript_is_ignored(workspace, sheet):
    review.import_(workspace, correction(sheet, "drugi "))
    assert review.verdicts(workspace)["corrected_text"].to_list() == [None]
    assert "text_corrected" not in workspace.segments.columns


def test_a_correction_can_be_changed_and_taken_back(workspace, sheet, tmp_path):
    before = workspace.segments
    review.import_(
        workspace, correction(sheet, "a", saved="2001-01-01T00:00:00+00:00", to=tmp_path / "1.xlsx")
    )
    review.import_(
        workspace, correction(sheet, "b", saved="2001-01-02T00:00:00+00:00", to=tmp_path / "2.xlsx")
    )
    assert (corrected(workspace)["text"], corrected(workspace)["text_raw"]) == ("b", "drugi")
    review.import_(
        workspace,
        correction(
            sheet, None, verdict="ok", saved="2001-01-03T00:00:00+00:00", to=tmp_path / "3.xlsx"
        ),
    )
    assert_frame_equal(
        workspace.segments.select(before.columns).drop("text_raw"), before.drop("text_raw")
    )
    assert corrected(workspace)["text_origin"] is None


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (
            {"text": "drugi brat"},
            "s1: ana, ben correct its text differently: not applied until they agree",
        ),
        (
            {"text": None, "verdict": "ok"},
            "s1: ben says ok, ana corrects the text: not applied until they agree",
        ),
    ],
)
def test_contradicting_corrections_do_not_change_the_text(workspace, sheet, tmp_path, other, says):
    first = correction(sheet, "drugi kat", to=tmp_path / "1.xlsx")
    review.import_(workspace, first)
    report = review.import_(
        workspace, correction(sheet, name="ben", to=tmp_path / "2.xlsx", **other)
    )
    assert report.problems == [says]
    assert (corrected(workspace)["text"], corrected(workspace)["text_corrected"]) == ("drugi", None)
    assert len(review.verdicts(workspace)) == 2


def test_ok_on_a_corrected_text_does_not_contradict_the_correction(workspace, sheet):
    review.import_(workspace, correction(sheet, "drugi kat"))
    [content] = content_hashes(workspace.segments.filter(pl.col("segment_id") == "s1"))
    later = review.Verdict("s1", content, "ok", "", None, "ben", "2031-01-01T00:00:00Z", "panel")
    review.append_verdicts(workspace, [later])
    assert review.correct_texts(workspace).problems == []
    assert corrected(workspace)["text"] == "drugi kat"
    assert gold_ids(workspace, workspace.segments) == {"s1"}


def test_gold_depends_on_the_last_verdicts_on_the_current_words(workspace, sheet):
    review.import_(
        workspace, fill_in(sheet, {"s0": "noise", "s1": "ok", "s2": "ok"}, reviewer="ana")
    )
    assert gold_ids(workspace, workspace.segments) == {"s1", "s2"}
    score(workspace, normalize=["punctuation", "lower"])
    workspace.save(segments=workspace.segments.with_columns(text=pl.col("text") + "."))
    assert gold_ids(workspace, workspace.segments) == {"s1", "s2"}
    panel = ReviewPanel(workspace, reviewer="ana")
    for number, word in ((0, "ok"), (1, "cut off")):
        panel._give(number=number, verdict=word, comment="", corrected_text=None)
    assert gold_ids(workspace, workspace.segments) == {"s0", "s2"}


def test_a_correction_of_punctuation_makes_gold_once_it_is_called_ok(workspace, sheet):
    review.import_(workspace, correction(sheet, "Drugi!"))
    assert gold_ids(workspace, workspace.segments) == set()
    [content] = content_hashes(workspace.segments.filter(pl.col("segment_id") == "s1"))
    review.append_verdicts(
        workspace,
        [review.Verdict("s1", content, "ok", "", None, "ben", "2031-01-01T00:00:00Z", "panel")],
    )
    assert gold_ids(workspace, workspace.segments) == {"s1"}


def test_reviewers_of_different_texts_do_not_disagree(workspace, sheet):
    review.import_(workspace, correction(sheet, "drugi kat"))
    [content] = content_hashes(workspace.segments.filter(pl.col("segment_id") == "s1"))
    review.append_verdicts(
        workspace,
        [review.Verdict("s1", content, "ok", "", None, "ben", "2031-01-01T00:00:00Z", "panel")],
    )
    assert len(review.disagreements(workspace)) == len(review.agreement(workspace)) == 0


def test_a_correction_of_a_corrected_text_takes_its_place_and_can_be_taken_back(workspace, sheet):
    review.import_(workspace, correction(sheet, "drugi kat"))
    panel = ReviewPanel(workspace, reviewer="ana")
    assert panel._said(number=1)["said"] == {
        "verdict": "wrong words",
        "comment": "",
        "corrected_text": None,
    }
    panel._give(number=1, verdict="wrong words", comment="", corrected_text="drugi brat")
    for _ in range(2):
        assert review.correct_texts(workspace).problems == []
        assert corrected(workspace)["text"] == "drugi brat"
    panel._undo()
    assert review.correct_texts(workspace).problems == []
    assert corrected(workspace)["text"] == "drugi kat"


def test_a_panel_shows_the_verdict_on_the_corrected_text_rather_than_the_one_before(
    workspace, sheet
):
    review.import_(workspace, correction(sheet, "drugi kat"))
    panel = ReviewPanel(workspace, reviewer="ana")
    panel._give(number=1, verdict="ok", comment="", corrected_text=None)
    again = ReviewPanel(workspace, reviewer="ana")
    assert again._said(number=1)["said"]["verdict"] == "ok"
    panel._undo()
    again = ReviewPanel(workspace, reviewer="ana")
    assert again._said(number=1)["said"]["verdict"] == "wrong words"


def test_an_equal_correction_by_two_reviewers_names_both(workspace, sheet, tmp_path):
    sheets = [
        correction(sheet, "drugi kat", name=name, to=tmp_path / f"{name}.xlsx")
        for name in ("ben", "ana")
    ]
    assert review.import_(workspace, sheets).problems == []
    assert corrected(workspace)["text_origin"] == "ana, ben (sheet)"


def test_a_correction_of_what_has_changed_since_is_kept_but_not_applied(workspace, sheet):
    workspace.save(segments=workspace.segments.with_columns(text=pl.col("text") + "!"))
    report = review.import_(workspace, correction(sheet, "drugi kat"))
    assert report.problems == ["s1: has changed since ana corrected it: not applied"]
    assert workspace.segments["text"].to_list()[1] == "drugi!"
    assert review.verdicts(workspace)["corrected_text"].to_list() == ["drugi kat"]


def test_scoring_again_keeps_corrections(workspace, sheet):
    review.import_(workspace, correction(sheet, "Drugi KAT."))
    score(workspace, normalize=["lower", "punctuation"])
    assert corrected(workspace) == {
        "segment_id": "s1",
        "text": "Drugi KAT.",
        "text_raw": "drugi",
        "text_corrected": "Drugi KAT.",
        "text_origin": "ana (sheet)",
    }
    [normal] = workspace.segments.filter(pl.col("segment_id") == "s1")["text_normalized"]
    assert normal == "drugi kat"
    assert review.correct_texts(workspace).facts == {"corrected_texts": 1, "corrected_now": 0}


@pytest.mark.parametrize("steps", [["lower", "punctuation"], []])
def test_corrected_texts_are_scored_with_the_steps_of_the_last_score(
    workspace, sheet, tmp_path, steps
):
    score(workspace, normalize=["lower"])
    score(workspace, normalize=steps)
    never = workspace.segments
    review.import_(
        workspace,
        correction(sheet, "Drugi, KAT.", saved="2001-01-01T00:00:00+00:00", to=tmp_path / "1.xlsx"),
    )
    applied = workspace.segments
    score(workspace, normalize=steps)
    assert_frame_equal(workspace.segments, applied)
    for between in (["blanks"], steps):
        score(workspace, normalize=between)
    review.import_(
        workspace,
        correction(
            sheet, None, verdict="ok", saved="2001-01-03T00:00:00+00:00", to=tmp_path / "3.xlsx"
        ),
    )
    names = [name for name in never.columns if name != "text_raw"]
    assert_frame_equal(workspace.segments.select(names), never.select(names))


def test_a_review_can_be_exported_again_after_corrections(workspace, sheet):
    fresh = sheet.read_bytes()
    returned = correction(sheet, "drugi kat", to=sheet.with_name("returned.xlsx"))
    review.import_(workspace, returned)
    review.export(workspace, out=sheet, n=4)
    assert sheet.read_bytes() == fresh


def test_corrections_survive_a_kill_between_two_tables(workspace, sheet, monkeypatch):
    returned = correction(sheet, "drugi kat")
    save = Workspace.save

    def fail(self, **tables):
        if "segments" in tables:
            raise KeyboardInterrupt
        save(self, **tables)

    monkeypatch.setattr(Workspace, "save", fail)
    with pytest.raises(KeyboardInterrupt):
        review.import_(workspace, returned)
    monkeypatch.undo()
    assert review.uncorrected(workspace, workspace.segments).equals(workspace.segments)
    review.import_(workspace, returned)
    assert (corrected(workspace)["text"], corrected(workspace)["text_raw"]) == (
        "drugi kat",
        "drugi",
    )
    assert review.uncorrected(workspace, workspace.segments)["text"].to_list()[1] == "drugi"


def test_sheets_without_a_save_time_use_the_file_time(workspace, tmp_path):
    path = tmp_path / "s.csv"
    review.export(workspace, out=path, n=4)
    header, *rows = read_csv(path)
    rows[0][header.index("verdict")] = "ok"
    path.write_text(write_csv([header, *rows]), encoding="utf8")
    set_time(path, "2001-01-01T00:00:00+00:00")
    review.import_(workspace, path)
    assert set(review.verdicts(workspace)["time"]) == {"2001-01-01T00:00:00Z"}


def test_cells_are_restored_whatever_programs_made_of_escapes_and_control_characters():
    assert cell_escaping.restore_controls("da␇ ne␊", "da\x07") == "da\x07 ne␊"
    assert {
        cell_escaping.normalize_cell(cell) for cell in ("_x005F_x0041_ da", "_x0041_ da", "A da")
    } == {"A da"}


# --- two verdicts, blind sheets, names


@pytest.mark.parametrize(
    ("cells", "verdict"),
    [
        ({"verdict": "noise", "second verdict": "Cut off"}, "cut off, noise"),
        ({"verdict": "noise; extra speech / cut off"}, "cut off, extra speech, noise"),
        ({"verdict": "noise, ", "second verdict": "noise"}, "noise"),
        ({"second verdict": "noise"}, "noise"),
    ],
)
def test_a_second_verdict_is_joined_in_the_order_of_the_list(workspace, sheet, cells, verdict):
    fill_in(sheet, {"s0": cells, "s1": "noise"}, reviewer="ana")
    report = review.import_(workspace, sheet)
    assert report.warnings == report.problems == []
    assert current_verdicts(workspace) == {"s0": verdict, "s1": "noise"}
    counts = {row["verdict"]: row["count"] for row in report.facts["by_word"]}
    assert counts == {word: 1 + (word == "noise") for word in {*verdict.split(", "), "noise"}}
    assert not gold_ids(workspace, workspace.segments)


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        (
            {"verdict": "ok", "second verdict": "noise"},
            "verdict 'ok, noise': 'ok' cannot stand beside another verdict",
        ),
        (
            {"verdict": "unsure/cut off"},
            "verdict 'cut off, unsure': 'unsure' cannot stand beside another verdict",
        ),
        (
            {"verdict": "noise/ok", "second verdict": "noise"},
            "verdict 'ok, noise': 'ok' cannot stand beside another verdict",
        ),
        (
            {"second verdict": "ok", "verdict": "unsure"},
            "verdict 'ok, unsure': 'ok' cannot stand beside another verdict",
        ),
    ],
)
def test_a_second_verdict_beside_ok_or_unsure_is_one_problem(workspace, sheet, cells, problem):
    fill_in(sheet, {"s0": cells, "s1": "ok"})
    [line] = review.import_(workspace, sheet, reviewer="ana").problems
    assert f", s0: {problem}" in line
    assert current_verdicts(workspace) == {"s1": "ok"}


def test_rows_with_an_unknown_word_are_one_problem_with_the_nearest_verdict(
    workspace, sheet, tmp_path
):
    fill_in(sheet, {"s0": "Dobro", "s1": "noise; Dobro", "s2": "nois", "s3": "cut off"})
    other = fill_in(sheet, {"s3": "DOBRO"}, to=tmp_path / "b.xlsx", reviewer="ben")
    places = {}
    for path in (sheet, other):
        table = openpyxl.load_workbook(path)["review"]
        column = columns_of(table)["segment_id"]
        places |= {(path, table.cell(row, column).value): row for row in range(2, 6)}
    report = review.import_(workspace, [sheet, other])
    words = ", ".join(review.VERDICTS)
    rows = sorted(str(places[sheet, name]) for name in ("s0", "s1"))
    again = sorted(str(places[other, name]) for name in ("s0", "s1", "s3"))
    assert report.problems == [
        (
            f"verdict 'Dobro' is not one of {words}: 5 rows are not imported "
            f"(sheet.xlsx row {', '.join(rows)}, b.xlsx row {', '.join(again)}); "
            "--map Dobro=VERDICT takes it"
        ),
        (
            f"verdict 'nois' is not one of {words}: 2 rows are not imported "
            f"(sheet.xlsx row {places[sheet, 's2']}, b.xlsx row {places[other, 's2']}); "
            "does it mean 'noise'? --map nois=noise takes it"
        ),
    ]
    assert current_verdicts(workspace) == {"s3": "cut off"}


def test_many_rows_with_an_unknown_word_are_counted(tmp_path):
    workspace = make_workspace(tmp_path / "w", [f"riječ {number}" for number in range(9)])
    review.export(workspace, out=tmp_path / "s.xlsx", n=9)
    fill_in(tmp_path / "s.xlsx", dict.fromkeys((f"s{number}" for number in range(9)), "wrong word"))
    [line] = review.import_(workspace, tmp_path / "s.xlsx", reviewer="ana").problems
    assert "9 rows are not imported (s.xlsx row 2, 3, 4, 5, 6, ...)" in line
    assert "does it mean 'wrong words'? --map 'wrong word=wrong words' takes it" in line


def test_an_option_maps_a_word_to_a_verdict(workspace, sheet):
    fill_in(sheet, {"s0": "dobro", "s1": "šum, Cut off", "s2": "ŠUM", "s3": "ok"})
    meanings = {"Dobro": "OK", "šum": "noise", "loše": "wrong words"}
    report = review.import_(workspace, sheet, reviewer="ana", verdict_map=meanings)
    assert report.problems == []
    assert current_verdicts(workspace) == {
        "s0": "ok",
        "s1": "cut off, noise",
        "s2": "noise",
        "s3": "ok",
    }
    assert report.facts["mapped"] == [
        {"word": "dobro", "verdict": "ok", "rows": 1},
        {"word": "šum", "verdict": "noise", "rows": 2},
    ]
    assert report.warnings == ["no row has the word 'loše', which stands for 'wrong words'"]
    assert review.import_(workspace, sheet, reviewer="ana", verdict_map=meanings).facts[
        "known_already"
    ] == (4)


def test_words_are_mapped_from_the_command_line(workspace, sheet):
    fill_in(sheet, {"s0": "dobro", "s1": "Šum / loše ", "s2": "šum"}, reviewer="ana")
    command = ["review", "import", str(workspace.path), str(sheet), "--json"]
    done = CliRunner().invoke(app, [*command, "--map", "dobro=ok"])
    assert done.exit_code == 1
    lines = json.loads(done.output)["problems"]
    assert {line.split(" is not one of ")[0] for line in lines} == {
        "verdict 'Šum / loše'",
        "verdict 'šum'",
    }
    assert current_verdicts(workspace) == {"s0": "ok"}
    meanings = ["--map", "DOBRO=ok", "--map", "šum=noise", "--map", "loše=wrong words"]
    done = CliRunner().invoke(app, [*command, *meanings])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["facts"]["new"] == 2
    assert current_verdicts(workspace) == {"s0": "ok", "s1": "wrong words, noise", "s2": "noise"}
    for setting in ("dobro", "noise=ok", "dobro=fine"):
        done = CliRunner().invoke(app, [*command, "--map", setting])
        assert (done.exit_code, len(done.output.splitlines())) == (2, 1), done.output


def test_a_word_listed_by_a_review_cannot_be_mapped_otherwise(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "a.xlsx", n=2, verdicts=["ok", "loud", "noise"])
    review.export(workspace, out=tmp_path / "b.xlsx", n=2, verdicts=["ok", "noise"])
    for name in "ab":
        fill_in(tmp_path / f"{name}.xlsx", dict.fromkeys(("s0", "s1", "s2", "s3"), "loud"))
    sheets = [tmp_path / "a.xlsx", tmp_path / "b.xlsx"]
    report = review.import_(workspace, sheets, reviewer="ana", verdict_map={"loud": "noise"})
    assert report.problems == []
    by_review = review.verdicts(workspace).group_by("review").agg(pl.col("verdict").unique())
    assert dict(by_review.iter_rows()) == {"a": ["loud"], "b": ["noise"]}


@pytest.mark.parametrize(
    ("meanings", "says"),
    [
        ({"dobro": "fine"}, "map dobro=fine: 'fine' is no verdict of a review; they are cut off, "),
        ({"noise": "ok"}, "map noise=ok: 'noise' is a verdict itself, with its own meaning"),
        ({" ": "ok"}, "map  =ok: a word or phrase is needed, without commas"),
        ({"a, b": "ok"}, "map a, b=ok: a word or phrase is needed, without commas"),
        ({"a": "ok", "A": "noise"}, "map A=noise: 'a' stands for 'ok' already"),
    ],
)
def test_a_word_that_cannot_stand_for_a_verdict_is_one_error(workspace, sheet, meanings, says):
    fill_in(sheet, {"s0": "ok"})
    with pytest.raises(InputError, match=says):
        review.import_(workspace, sheet, verdict_map=meanings)
    assert current_verdicts(workspace) == {}


def test_a_word_of_the_list_with_a_slash_is_one_word(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "s.xlsx", n=4, verdicts=["ok", "b/d", "d", "x"])
    fill_in(tmp_path / "s.xlsx", {"s0": "b/d, x", "s1": "x/d", "s2": "B/D"})
    assert review.import_(workspace, tmp_path / "s.xlsx", reviewer="ana").problems == []
    assert current_verdicts(workspace) == {"s0": "b/d, x", "s1": "d, x", "s2": "b/d"}


def test_a_sheet_of_an_earlier_version_has_no_second_verdict(workspace, sheet):
    change(sheet, lambda table, columns: table.delete_cols(columns["second verdict"]))
    fill_in(sheet, {"s0": "noise"}, reviewer="ana")
    report = review.import_(workspace, sheet)
    assert report.warnings == report.problems == []
    assert current_verdicts(workspace) == {"s0": "noise"}


@pytest.mark.parametrize("kind", ["xlsx", "csv"])
def test_a_blind_sheet_comes_back_without_a_warning_and_its_verdicts_say_so(
    workspace, tmp_path, kind
):
    review.export(workspace, out=tmp_path / f"s.{kind}", n=4, blind=True)
    if kind == "xlsx":
        sheet = change(
            fill_in(tmp_path / "s.xlsx", {"s0": "ok", "s1": "noise"}, reviewer="ana"), sort_rows
        )
    else:
        sheet = tmp_path / "s.csv"
        rows = list(csv.DictReader(io.StringIO(sheet.read_text("utf-8-sig"))))
        said = [
            {**row, "verdict": {"s0": "ok", "s1": "noise"}.get(row["segment_id"], "")}
            for row in rows
        ]
        sheet.write_bytes(pl.DataFrame(said).write_csv().encode())
    report = review.import_(workspace, sheet, reviewer="ana")
    assert report.warnings == report.problems == []
    assert current_verdicts(workspace) == {"s0": "ok", "s1": "noise"}
    log = review.verdict_log(workspace)
    assert log["blind"].to_list() == [True, True]
    segments = workspace.segments.filter(pl.col("segment_id").is_in(log["segment_id"].implode()))
    assert sorted(log["content"]) == sorted(content_hashes(segments))
    assert gold_ids(workspace, workspace.segments) == {"s0"}


def test_a_row_of_a_blind_sheet_that_was_changed_is_reported(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "s.xlsx", n=4, blind=True)
    fill_in(
        tmp_path / "s.xlsx",
        {
            "s0": {"verdict": "ok", "transcript": "drugi"},
            "s1": {"verdict": "ok", "transcript": "nov"},
        },
    )
    first, second = review.import_(workspace, tmp_path / "s.xlsx", reviewer="ana").problems
    assert "columns were sorted separately" in first + second
    assert "its transcript was changed" in first + second


def test_a_reviewer_name_not_on_the_list_is_reported_and_imported(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "s.xlsx", n=4, reviewers=["ana", "ben"], overlap=4)
    fill_in(tmp_path / "s-ana.xlsx", {"s0": "ok", "s1": "ok"}, reviewer="Ana K.")
    fill_in(tmp_path / "s-ben.xlsx", {"s0": "ok"})
    report = review.import_(workspace, [tmp_path / "s-ana.xlsx", tmp_path / "s-ben.xlsx"])
    names = [line for line in report.warnings if "Ana K." in line]
    assert names == [
        (
            "s-ana.xlsx: reviewers of s are ana, ben, not 'Ana K.', "
            "under whose name its 2 verdicts are stored"
        )
    ]
    assert report.facts["by_reviewer"] == said_by({"Ana K.": 2, "ben": 1})


def test_a_name_of_the_list_in_another_case_is_that_name(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "s.xlsx", n=4, reviewers=["ana"])
    report = review.import_(
        workspace, fill_in(tmp_path / "s-ana.xlsx", {"s0": "ok"}, reviewer=" ANA")
    )
    assert report.facts["by_reviewer"] == said_by({"ana": 1})
    assert report.warnings == []


def test_a_fully_judged_review_names_the_next_step(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "s.xlsx", n=4, reviewers=["ana", "ben"], overlap=4)
    fill_in(tmp_path / "s-ana.xlsx", dict.fromkeys(("s0", "s1", "s2", "s3"), "ok"))
    assert "next" not in review.import_(workspace, tmp_path / "s-ana.xlsx").facts
    fill_in(tmp_path / "s-ben.xlsx", {"s0": "noise", **dict.fromkeys(("s1", "s2", "s3"), "ok")})
    for _ in range(2):
        [line] = review.import_(
            workspace, [tmp_path / "s-ana.xlsx", tmp_path / "s-ben.xlsx"]
        ).facts["next"]
        assert line.startswith(
            "s: all judged; reviewers disagree on 1 segment: "
            "nbaudio.review.disagreements(W) lists them; next: "
        )
