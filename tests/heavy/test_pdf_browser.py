"""Minutes that a browser has set in two columns, with running heads and hyphens, are read as they
were written."""

import random
import re
import subprocess
from html import escape

import pytest
from browser import CHROMIUM, CHROMIUM_OPTIONS

from nbaudio.formats.documents import read_documents

pytest.importorskip("pypdfium2")

WORDS = """the assembly considered amendment committee representative proposal government financial
responsibility of and to in that would municipality well-known honourable member environmental
infrastructure transportation difficult efficient office first flow"""
PAGE = """<html lang=en><meta charset=utf-8><style>
@page { size: A4; margin: 2cm;
  @top-center { content: "Minutes of the assembly, page " counter(page) }
  @bottom-center { content: counter(page) } }
body { font: 10pt serif; text-align: justify }
p { text-indent: 1em; margin: 0 }
h1 { font-size: 15pt; text-align: center }
div { columns: 2; column-gap: .7cm }
</style><h1>Stenographic record of the first sitting</h1><div>%s</div>"""


def test_minutes_of_a_browser_are_read_in_order(tmp_path):
    chance = random.Random(3)
    paragraphs = [
        " ".join(chance.choices(WORDS.split(), k=chance.randint(20, 90))).capitalize() + "."
        for _ in range(60)
    ]
    # A soft hyphen in each long word, where the browser may break it.
    hyphenated = [re.sub(r"(\w{5})(\w{5})", "\\1\xad\\2", escape(text)) for text in paragraphs]
    body = "".join(f"<p>{text}</p>" for text in hyphenated)
    (tmp_path / "minutes.html").write_text(PAGE % body, "utf8")
    printed = tmp_path / "minutes.pdf"
    command = [CHROMIUM, "--headless", *CHROMIUM_OPTIONS, "--no-pdf-header-footer"]
    subprocess.run(
        [*command, f"--print-to-pdf={printed}", (tmp_path / "minutes.html").as_uri()],
        check=True,
        capture_output=True,
        timeout=120,
    )
    [document] = read_documents(printed)
    read = [document.text[item.start : item.end].replace("\n", " ") for item in document.utterances]
    assert read == ["Stenographic record of the first sitting", *paragraphs]
    pages = document.lines[-1].page
    assert document.left_out == (("running heads and page numbers of PDFs", 2 * pages),)
