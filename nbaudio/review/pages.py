"""The sheets beside the one to review: one that counts along, one that says what to do, and a hidden one of origins."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

import polars as pl

from nbaudio.review.cells import cell_text, put
from nbaudio.review.record import ReviewRecord
from nbaudio.review.verdicts import VERDICTS

#: The date in every workbook as it is made: without, equal rows would give other bytes.
MADE = dt.datetime(2000, 1, 1)  # noqa: DTZ001

#: What stands before the cell with the name of the reviewer.
REVIEWER = "Reviewer"

_STEPS = (
    "Click 'play' in the column 'clip' and listen. The links work as long as the folder 'clips' lies beside this file: copy both "
    "together, and unpack a .zip first. Where links are dead, as in Google Sheets, the clip of a row is the file in 'clips' "
    "that is called as 'segment_id' says.",
    "Compare with 'transcript', the words that the clip should hold. 'hypothesis' is what a speech recogniser heard. Words in "
    "which the two differ are bold, underlined and coloured; it may well be the recogniser that is wrong.",
    "Choose a verdict from the list in its cell.",
    "Where other words are spoken, the right ones may go into 'corrected text': all words of the clip, not only those that "
    "change. Copy the transcript and edit the copy. Remarks go into 'comment'.",
    "Rows may be sorted, filtered and left empty, columns moved. Please leave what is in the other columns as it is.",
    "The sheet 'summary' counts along. Write your name there unless it is there already. Save, and send this file back.",
)
_FIRST_VERDICT = 11
#: The height of a line of text in a cell.
LINE_POINTS = 15.0


def verdict_cells(words: Sequence[str]) -> str:
    """Where the summary lists the verdicts: a drop-down takes them from there, its own list could hold but 255 characters."""
    return f"$A${_FIRST_VERDICT + 1}:$A${_FIRST_VERDICT + len(words)}"


def write_summary(book: Any, record: ReviewRecord, reviewer: str, columns: dict[str, str], rows: int) -> None:
    """The sheet that counts verdicts while they are filled in.

    Args:
        book: the xlsxwriter workbook.
        record: the review.
        reviewer: whose sheet it is; empty leaves a cell to fill in.
        columns: the cells of `verdict`, `corrected text` and `duration s`, as formulas name them.
        rows: how many there are to judge.
    """
    sheet = book.add_worksheet("summary")
    sheet.hide_gridlines(2)
    sheet.set_column(0, 0, 24)
    sheet.set_column(1, 2, 12)
    sheet.set_column(3, 3, 80)
    sheet.fit_to_pages(1, 0)
    heading = book.add_format({"bold": True, "font_size": 13})
    label = book.add_format({"bold": True, "bottom": 1, "bg_color": "#E7E6E6"})
    right = book.add_format({"bold": True, "bottom": 1, "bg_color": "#E7E6E6", "align": "right", "indent": 1})
    name = book.add_format({"num_format": "@", "bg_color": "#FFF8E1", "border": 1, "border_color": "#D9D9D9"})
    figure = {"align": "right", "indent": 1}
    count, share, one_decimal = (book.add_format({**figure, "num_format": form}) for form in ("#,##0", "0.0%", "0.0"))
    judged = f"LEN({columns['verdict']})>0"

    sheet.write_string(0, 0, cell_text(f"Review {record.name}"), heading)
    sheet.write_string(2, 0, REVIEWER)
    sheet.write(2, 1, reviewer or None, name)
    sheet.write_string(3, 0, "Clips")
    sheet.write_number(3, 1, rows, count)
    facts = (
        ("Judged", f"=SUMPRODUCT(--({judged}))", count, 0),
        ("To do", "=B4-B5", count, rows),
        ("Minutes judged", f"=SUMPRODUCT(--({judged}),{columns['duration s']})/60", one_decimal, 0),
        ("Corrected texts", f"=SUMPRODUCT(--(LEN({columns['corrected text']})>0))", count, 0),
    )
    for row, (text, formula, form, value) in enumerate(facts, start=4):
        sheet.write_string(row, 0, text)
        sheet.write_formula(row, 1, formula, form, value)
    for column, text in enumerate(("Verdict", "clips", "of judged", "what it says")):
        sheet.write_string(_FIRST_VERDICT - 1, column, text, right if column in (1, 2) else label)
    for row, word in enumerate(record.verdicts, start=_FIRST_VERDICT):
        sheet.write_string(row, 0, word)
        sheet.write_formula(row, 1, f"=COUNTIF({columns['verdict']},A{row + 1})", count, 0)
        sheet.write_formula(row, 2, f'=IF($B$5=0,"",B{row + 1}/$B$5)', share, "")
        sheet.write_string(row, 3, VERDICTS.get(word, ""))
    last = _FIRST_VERDICT + len(record.verdicts)
    sheet.write_string(last, 0, "not one of these")
    sheet.write_formula(last, 1, f"=B5-SUM(B{_FIRST_VERDICT + 1}:B{last})", count, 0)


def write_instructions(book: Any, words: Sequence[str]) -> None:
    """The sheet that says what to do, and what each verdict says."""
    sheet = book.add_worksheet("instructions")
    sheet.hide_gridlines(2)
    sheet.set_column(0, 0, 16)
    sheet.set_column(1, 1, 90)
    sheet.fit_to_pages(1, 0)
    heading = book.add_format({"bold": True, "font_size": 13})
    label = book.add_format({"bold": True, "valign": "top", "align": "left"})
    wrapped = book.add_format({"text_wrap": True, "valign": "top"})
    steps = [(f"{number}.", step) for number, step in enumerate(_STEPS, start=1)]
    meanings = [(word, VERDICTS.get(word, " ")) for word in words]
    rows = [("What to do", ""), *steps, ("", ""), ("Verdicts", ""), *meanings]
    for number, (name, line) in enumerate(rows):
        sheet.set_row(number, LINE_POINTS * (1 + len(line) // 95))
        sheet.write_string(number, 0, name, label if line else heading)
        sheet.write_string(number, 1, line, wrapped)


def write_origin(book: Any, rows: pl.DataFrame, record: ReviewRecord, reviewer: str) -> None:
    """The hidden sheet: facts of the review, then id, content hash and inclusion probability of each row."""
    sheet = book.add_worksheet("nbaudio")
    sheet.hide()
    facts = {
        "review": record.name,
        "strategy": record.strategy,
        "seed": record.seed,
        "n": record.n,
        "corpus": record.corpus,
        "reviewer": reviewer,
    }
    texts = [(name, str(value)) for name, value in facts.items()]
    texts += [("", ""), ("segment_id", "content"), *rows.select("segment_id", "content").iter_rows()]
    font = {False: book.add_format()}
    for number, pair in enumerate(texts):
        for column, text in enumerate(pair):
            put(sheet, (number, column), [(cell_text(text), False)], font, None)
    first = len(facts) + 1
    sheet.write_string(first, 2, "probability")
    for number, probability in enumerate(rows["probability"], start=first + 1):
        sheet.write_number(number, 2, probability)
