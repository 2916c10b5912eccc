"""PDFs as transcripts: reading order, what is left out, what cannot be read."""

import json
import sys
from pathlib import Path

import pytest
from pdf_files import Text, lines, make_pdf, wrapped

from nbaudio import align
from nbaudio.cli import main
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
