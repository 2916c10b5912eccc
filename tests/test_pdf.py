"""PDFs as transcripts: reading order, what is left out, what cannot be read."""

import json
import sys
from pathlib import Path

import pytest
from pdf_files import HEIGHT, WIDTH, Text, lines, make_pdf, width, wrapped

from nbaudio import align
from nbaudio.cli import main
from nbaudio.core.errors import InputError
from nbaudio.formats import pdf_glyphs
from nbaudio.formats.documents import Document, read_documents
from nbaudio.tables.workspace import Workspace

pytest.importorskip("pypdfium2")

SPEECH = (
    "Poštovane kolegice i kolege, otvaram sjednicu i molim vas za pažnju. Prelazimo na prvu točku "
    "dnevnog reda, izvještaj o radu odbora za čuvanje građe. Riječ ima izvjestiteljica odbora. "
    "Hvala lijepa, odbor je raspravio prijedlog i jednoglasno ga podržao, uz dvije primjedbe "
    "koje su dostavljene predlagatelju prije deset dana. Prva se tiče rokova za predaju građe, "
    "a druga načina na koji se građa popisuje i kasnije objavljuje na mrežnim stranicama. "
)


def document(folder: Path, content: bytes) -> Document:
    path = folder / "minutes.pdf"
    path.write_bytes(content)
    [only] = read_documents(path)
    return only


def texts(folder: Path, content: bytes) -> list[str]:
    """The paragraphs of a PDF, with blanks at line ends."""
    made = document(folder, content)
    return [made.text[item.start : item.end].replace("\n", " ") for item in made.utterances]


def speech(number: int, count: int) -> str:
    """So many words, others on each page."""
    words = SPEECH.split() * (2 + count // 60)
    return " ".join(words[number * 7 : number * 7 + count])


def test_two_columns_are_read_one_after_the_other(tmp_path):
    heading = Text(80, 70, "Stenografski zapisnik prve sjednice odbora za čuvanje građe", 14)
    pages = []
    expected = ""
    for number in (11, 12, 13):
        column = wrapped(speech(number, 600), 220)
        left, right = column[:30], column[30:60]
        head = Text(60, 30, f"Sjednica odbora, {number}. stranica, 12. 3. 2024")
        body = [*lines(320, 105, right), *lines(60, 100, left)]  # the right one comes first
        above = [heading] if number == 11 else []
        pages.append([head, *above, *body, Text(290, 800, str(number))])
        expected += " ".join([*(item.text for item in above), *left, *right]) + " "
    made = document(tmp_path, make_pdf(pages))
    assert made.text.split() == expected.split()
    assert made.left_out == (("running heads and page numbers of PDFs", 6),)


def write_hypothesis(path: Path, text: str) -> None:
    """Word times of a recognizer that heard a text, half a second a word."""
    words = [
        {"word": word.strip(".,;:").lower(), "start": number / 2, "end": number / 2 + 0.4}
        for number, word in enumerate(text.split())
    ]
    path.write_text(json.dumps({"words": words}), "utf8")


def test_segments_have_the_page_and_line_where_they_begin(tmp_path):
    pages = [wrapped(speech(number, 150), 400) for number in range(2)]
    heads = [Text(60, 30, f"Zapisnik {number}") for number in (1, 2)]
    drawn = [[head, *lines(60, 80, page)] for head, page in zip(heads, pages, strict=True)]
    (tmp_path / "day1.pdf").write_bytes(make_pdf(drawn))
    spoken = " ".join(line for page in pages for line in page)
    write_hypothesis(tmp_path / "day1.json", spoken)
    report = align(
        tmp_path / "day1.json", tmp_path / "day1.pdf", out=tmp_path / "W", engine="threading"
    )
    assert report.problems == []
    segments = Workspace.open(tmp_path / "W").segments
    assert " ".join(segments["text"]) == spoken
    for text, page, line in segments.select("text", "document_page", "document_line").iter_rows():
        (first, *_) = text.split()
        assert first in pages[page - 1][line - 1].split()
    assert segments["document_page"].to_list()[-1] == 2


def test_without_the_extra_the_command_names_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    monkeypatch.chdir(tmp_path)
    Path("day1.pdf").write_bytes(make_pdf([lines(60, 80, ["Dobar dan."])]))
    write_hypothesis(Path("day1.json"), "Dobar dan.")
    command = [
        "nbaudio",
        *["align", "day1.json", "day1.pdf", "--out", "W", "--engine", "threading"],
    ]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as exited:
        main()
    assert exited.value.code == 2
    error = "nbaudio: pypdfium2 is not installed: pip install 'nbaudio[pdf]'\n"
    assert capsys.readouterr().err == error


# Layout


def test_three_columns_and_a_short_last_column_are_columns(tmp_path):
    column = wrapped(speech(1, 400), 150)
    first = [line for x in (50, 220, 390) for line in lines(x, 60, column[:20])]
    full = wrapped(speech(2, 300), 150)
    last = [*lines(50, 60, full[:20]), *lines(220, 60, full[20:21])]
    read = document(tmp_path, make_pdf([first, last])).text.split()
    assert read == " ".join([*column[:20] * 3, *full[:21]]).split()


def test_cells_stay_in_rows_where_few_pages_have_columns(tmp_path):
    column = wrapped(speech(1, 300), 220)[:24]
    pages = [[*lines(60, 60, column[:12]), *lines(320, 60, column[12:])]]
    rows = []
    for name in ("Ivan", "Ana", "Marko", "Petra"):
        roles = [f"Predsjednik {name}", f"Tajnik {name}"]
        pages.append([*lines(60, 60, roles), *lines(320, 60, [f"{name}a", f"{name}u"])])
        rows += [f"{roles[0]} {name}a", f"{roles[1]} {name}u"]
    read = document(tmp_path, make_pdf(pages)).text
    assert read.split() == " ".join([*column, *rows]).split()


def test_names_beside_turns_and_cells_of_tables_are_read_row_by_row(tmp_path):
    turns = wrapped(speech(1, 60), 330)[:5]
    page = [*lines(60, 60, ["HORVAT:", "", "KOVAČ:", "", "HORVAT:"]), *lines(150, 60, turns)]
    expected = f"HORVAT: {turns[0]} {turns[1]} KOVAČ: {turns[2]} {turns[3]} HORVAT: {turns[4]}"
    assert document(tmp_path, make_pdf([page])).text.split() == expected.split()


def test_lines_are_read_from_top_to_bottom_whatever_their_order_in_the_file(tmp_path):
    body = lines(60, 60, wrapped(speech(1, 80), 400))
    drawn = make_pdf([body[::-1]])
    assert document(tmp_path, drawn).text.split() == speech(1, 80).split()


def test_words_are_joined_over_runs_and_split_at_gaps_without_blanks(tmp_path):
    x = 60 + width("Pred")
    page = [
        Text(60, 60, "Pred"),
        Text(x, 60, "sjednik"),
        Text(x + width("sjednik") + 3, 60, "Sabora"),
        Text(60, 75, "otvara", form="scaled"),
        Text(60 + width("otvara") + 2.5, 75, "sjednicu", form="scaled"),
        Text(60.2, 75, "otvara", form="scaled"),  # again, for bold letters
    ]
    assert texts(tmp_path, make_pdf([page])) == ["Predsjednik Sabora otvara sjednicu"]


def test_ligatures_and_accents_of_their_own_are_letters(tmp_path):
    accent = Text(60, 60, "ˇ"), Text(60, 60, "cetiri ˇ")
    page = [*accent, Text(60, 80, "Poˇcetak, ﬁnancije ﬂote, ˇsest")]
    pdf = make_pdf([page[2:]])
    assert texts(tmp_path, pdf) == ["Početak, financije flote, šest"]


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
@pytest.mark.parametrize("rotate", [0, 90])
def test_pages_are_read_in_the_direction_of_their_letters(turns, rotate, tmp_path):
    body = wrapped(speech(1, 40), 300)
    page = []
    for number, line in enumerate(body):
        across, down = 100.0, 100 + 12.0 * number
        x, y = (
            (across, down),
            (down, HEIGHT - across),
            (WIDTH - across, HEIGHT - down),
            (WIDTH - down, across),
        )[turns]
        page.append(Text(x, y, line, turns=turns))
    stamp = Text(300, 400, "PRIMLJENO", turns=(turns + 1) % 4)
    made = document(tmp_path, make_pdf([[*page, stamp]], rotate=rotate))
    assert made.text.split() == speech(1, 40).split()
    assert made.left_out == (("letters of PDFs in another direction", 9),)


# What is left out


def test_oblique_letters_such_as_watermarks_are_left_out(tmp_path):
    body = lines(100, 100, wrapped(speech(1, 40), 300))
    watermark = Text(150, 500, "NACRT", 40, turns=0.4)
    made = document(tmp_path, make_pdf([[*body, watermark]]))
    assert made.text.split() == speech(1, 40).split()
    assert made.left_out == (("letters of PDFs in another direction", 5),)


def test_running_heads_with_numbers_and_dates_are_left_out(tmp_path):
    pages = []
    for number in range(1, 6):
        heads = [Text(60, 30, f"Sjednica {number}. dan, 1{number}. 3. 2024")]
        if number % 2:
            heads.append(Text(60, 42, "Zapisnik Sabora"))
        feet = [Text(280, 810, f"- {number + 8} -")]
        body = lines(60, 80, wrapped(speech(number, 100), 400))
        pages.append([*feet, *body, *heads])
    made = document(tmp_path, make_pdf(pages))
    assert made.text.split() == " ".join(speech(number, 100) for number in range(1, 6)).split()
    assert made.left_out == (("running heads and page numbers of PDFs", 13),)


def test_a_page_number_close_to_a_footnote_is_left_out_with_it(tmp_path):
    # As LibreOffice sets them: the footnote stands right above the foot of the page
    pages = []
    for number in range(1, 7):
        body = lines(60, 80, wrapped(speech(number, 100), 400))
        feet = [Text(60, 800, f"Stranica {number}")]
        if number % 3 == 0:
            feet.append(Text(60, 788, "1 Narodne novine, br. 12.", 8))
        pages.append([*body, *feet])
    made = document(tmp_path, make_pdf(pages))
    assert made.text.split() == " ".join(speech(number, 100) for number in range(1, 7)).split()
    assert dict(made.left_out) == {
        "running heads and page numbers of PDFs": 6,
        "footnotes of PDFs": 2,
    }


def test_heads_of_changing_text_are_left_out_where_a_gap_divides_them(tmp_path):
    names = ["Ana Horvat", "Ivan Kovač", "Rasprava o proračunu", "Marija Babić"]
    pages = [
        [Text(60, 30, name), *lines(60, 80, wrapped(speech(number, 100), 400))]
        for number, name in enumerate(names)
    ]
    made = document(tmp_path, make_pdf(pages))
    assert made.text.split() == " ".join(speech(number, 100) for number in range(4)).split()


def test_first_lines_of_pages_stay_where_they_are_text(tmp_path):
    pages = [
        lines(60, 80, [f"Točka {number}.", *wrapped(speech(number, 60), 400), "Da li"])
        for number in (1, 2)
    ]
    made = document(tmp_path, make_pdf(pages))
    assert made.left_out == ()
    assert made.text.split()[:2] == ["Točka", "1."]


def test_footnotes_and_line_numbers_are_left_out(tmp_path):
    body = wrapped(speech(1, 120), 400)
    numbers = [Text(40, item.y, str(row)) for row, item in enumerate(lines(0, 60, body), 1)]
    mark = Text(60 + width(body[3]), 60 + 3 * 12 - 4, "1", 6)
    notes = lines(60, 700, ["1 Narodne novine, br. 12.", "i drugi propisi."], size=8)
    made = document(tmp_path, make_pdf([[*numbers, *lines(60, 60, body), mark, *notes]]))
    body[3] += "¹"
    assert made.text.split() == " ".join(body).split()
    counts = dict(made.left_out)
    assert counts == {"line numbers of PDFs": len(body), "footnotes of PDFs": 2}


def test_bold_names_before_words_are_marked_by_a_tab(tmp_path):
    name = Text(60, 60, "Ana Horvat", font="bold")
    turn = [name, Text(130, 60, "Hvala lijepa."), *lines(60, 72, wrapped(speech(1, 40), 300))]
    page = [*turn, Text(60, 150, "Naslov", font="bold")]
    first, last = texts(tmp_path, make_pdf([page]))
    assert first.startswith("Ana Horvat\tHvala lijepa. molim")
    assert last == "Naslov"


# Paragraphs and hyphens


def test_paragraphs_begin_at_indents_gaps_and_behind_short_lines(tmp_path):
    long = wrapped(speech(1, 30), 300)
    page = [
        *lines(60, 60, long),
        *lines(72, 60 + 12 * len(long), ["Uvučeni redak počinje ovdje i ide"]),
        *lines(60, 72 + 12 * len(long), ["dalje.", "Novi odlomak."]),
        *lines(60, 120 + 12 * len(long), ["iza razmaka"]),
    ]
    assert texts(tmp_path, make_pdf([page]))[1:] == [
        "Uvučeni redak počinje ovdje i ide dalje.",
        "Novi odlomak.",
        "iza razmaka",
    ]


@pytest.mark.parametrize(
    ("broken", "read"),
    [
        (["zastup-", "nika ima"], "zastupnika ima"),
        (["zastup\xad", "nika ima"], "zastupnika ima"),
        (["sivo-", "plava i sivo-plava"], "sivo-plava i sivo-plava"),
        (["Kovač-", "Horvat ima"], "Kovač-Horvat ima"),
        (["ZASTUP-", "NIKA IMA"], "ZASTUPNIKA IMA"),
        (["za 2023-", "2024 godinu"], "za 2023-2024 godinu"),
        (["Haus-", "und Hof"], "Haus- und Hof"),
        (["rekao -", "naime"], "rekao - naime"),
        (["rekao —", "naime"], "rekao — naime"),
    ],
)
def test_hyphens_at_line_ends(broken, read, tmp_path):
    assert " ".join(texts(tmp_path, make_pdf([lines(60, 60, broken)]))) == read


# What cannot be read

STAMP = Text(300, 400, "PRIMLJENO", turns=1)


def test_scanned_pages_are_problems_with_their_numbers(tmp_path):
    text = lines(60, 60, ["Dobar dan.", "Hvala."])
    stamp = [Text(60, 20, "Arhiv, primljeno 3. 5. 1998.")]
    pages = [text, stamp, stamp, text, stamp, []]
    made = document(tmp_path, make_pdf(pages, images=(1, 2, 4)))
    assert made.problems == (
        "3 of 6 pages are scanned, without text: 2-3, 5; recognize their letters (OCR) first",
    )


def test_align_lists_scanned_pages_and_left_out_parts(tmp_path):
    pages = [lines(60, 60, wrapped(speech(1, 60), 400)), [], [Text(60, 60, "Hvala."), STAMP]]
    (tmp_path / "day1.pdf").write_bytes(make_pdf(pages, images=(1,)))
    write_hypothesis(tmp_path / "day1.json", speech(1, 60))
    report = align(
        tmp_path / "day1.json", tmp_path / "day1.pdf", out=tmp_path / "W", engine="threading"
    )
    reason = "1 of 3 pages is scanned, without text: 2; recognize their letters (OCR) first"
    assert report.problems == [f"day1.pdf as a whole: {reason}"]
    assert "letters of PDFs in another direction" in str(report)


def test_a_damaged_page_is_a_problem(tmp_path):
    content = make_pdf([lines(60, 60, ["Dobar dan."]), lines(60, 60, ["Hvala."])])
    before, page, behind = content.rpartition(b"/Type /Page ")
    made = document(tmp_path, before + page.replace(b"Page", b"Pear") + behind)
    assert made.text == "Dobar dan."
    assert made.problems == ("1 of 2 pages is damaged: 2",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (make_pdf([[], []], images=(0, 1)), "all 2 pages are scanned, without text; recognize"),
        (make_pdf([[]]), "no text"),
        (
            make_pdf([[Text(60, 60, "Dobar dan.")]], has_unicode=False),
            "its page is in fonts that do not say which letters they have; recognize",
        ),
        (make_pdf([[Text(60, 60, "Dobar dan.")]])[:300], "a damaged PDF (Data format error)"),
        (
            make_pdf(
                [[]],
                trailer=b"/ID [<00><00>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4"
                b" /O <%s> /U <%s> >>" % (b"00" * 32, b"00" * 32),
            ),
            "encrypted; save it without a password",
        ),
    ],
)
def test_a_file_that_cannot_be_read_has_one_reason(content, reason, tmp_path):
    path = tmp_path / "a.pdf"
    path.write_bytes(content)
    with pytest.raises(InputError) as raised:
        list(read_documents(path))
    assert str(raised.value).startswith(f"{path}: {reason}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("name", "most"), [("MOST_PAGES", 1), ("MOST_GLYPHS", 5)])
def test_pdfs_of_any_size_are_not_read(name, most, tmp_path, monkeypatch):
    monkeypatch.setattr(pdf_glyphs, name, most)
    with pytest.raises(InputError, match="more than"):
        document(tmp_path, make_pdf([lines(60, 60, ["Dobar dan."])] * 2))
