"""Readers of transcripts that are not cut: texts are as typed, utterances lie where they say, each
bad file has one reason."""

import io
import json
import os
import struct
import zipfile
from pathlib import Path

import pytest

from nbaudio.core import input_guards
from nbaudio.core.errors import InputError
from nbaudio.formats.documents import Document, read_documents

PARAGRAPHS = [
    "Poštovane kolege,\nnastavljamo sa 7. sjednicom.",
    "Hvala.",
    "Riječ ima kolegica Horvat & sin.",
]


def documents(folder: Path, content: object) -> list[Document]:
    """Read bytes, text (as UTF-8), or an object (as JSON); every utterance is checked against the
    text."""
    path = folder / "transcript"
    if not isinstance(content, bytes):
        content = (content if isinstance(content, str) else json.dumps(content)).encode()
    path.write_bytes(content)
    found = list(read_documents(path))
    for document in found:
        end = 0
        for utterance in document.utterances:
            assert end <= utterance.start < utterance.end
            text = document.text[utterance.start : utterance.end]
            assert text == text.strip()
            between, end = document.text[end : utterance.start], utterance.end
            assert not any(character.isalnum() for character in between)
        assert not any(character.isalnum() for character in document.text[end:])
    return found


def read(folder: Path, content: object) -> list[str]:
    """Texts of the utterances of the only document of a file."""
    [document] = documents(folder, content)
    return [document.text[each.start : each.end] for each in document.utterances]


def refused(folder: Path, content: object) -> str:
    with pytest.raises(InputError) as caught:
        documents(folder, content)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(folder / "transcript"))
    return str(caught.value).removeprefix(str(folder / "transcript"))


# Plain text


@pytest.mark.parametrize("encoding", ["utf8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_plain_text_keeps_its_offsets(encoding, end, tmp_path):
    text = "\n\n  " + "  \n \t\n".join(PARAGRAPHS) + "\n\n* * *\n"
    data = text.replace("\n", end).encode(encoding)
    data = b"\xfe\xff" + data if encoding == "utf-16-be" else data
    [document] = documents(tmp_path, data)
    assert document.text == text
    assert document.text == (tmp_path / "transcript").read_text(
        "utf-16" if "16" in encoding else "utf-8-sig"
    )
    assert [document.text[each.start : each.end] for each in document.utterances] == PARAGRAPHS
    assert document.recording is None
    assert [each[2:] for each in document.utterances] == [(None, None)] * 3


def test_text_without_blank_lines_is_one_utterance(tmp_path):
    assert read(tmp_path, "jedan\ndva\ntri") == ["jedan\ndva\ntri"]


@pytest.mark.parametrize(
    "text",
    [
        "[Pljesak] Hvala.",
        "<smijeh> Hvala.",
        "{ne} Hvala.",
        "a < b",
        "<3 Hvala",
        "f\x0cg",
        "PK je kratica",
    ],
)
def test_text_that_resembles_another_format_is_read_as_plain_text(text, tmp_path):
    assert read(tmp_path, text) == [text]


# TEI

TEI = """<?xml version="1.0" encoding="UTF-8"?>
<TEI xmlns="http://www.tei-c.org/ns/1.0" xml:lang="hr">\
<teiHeader><title>Sjednica</title><p>Opis</p></teiHeader>
 <text><body><div><head>Naslov</head><note type="speaker">PREDSJEDNIK</note>%s</div></body></text>
</TEI>"""


def test_utterances_of_tei_have_texts_speakers_and_ids(tmp_path):
    turns = """
      <u who="#Horvat.Ana" xml:id="u1" ana="#chair">
        <seg xml:id="u1.s1">Poštovane   kolege,
            <note>pljesak</note>nastavljamo<gap
                reason="inaudible"><desc>šum</desc></gap> dalje.</seg>
        <vocal><desc>smijeh</desc></vocal><kinesic><desc>ustaje</desc></kinesic><incident><desc>zvono</desc></incident>
        <seg>Hvala<lb/>vam.</seg>
      </u>
      <u who="list.xml#Marić"
          xml:id="u2">Bez <choice><sic>greske</sic><corr>greške</corr></choice>.</u>
      <u who="#A #B" xml:id="u3"><seg xml:id="s3">Zajedno.</seg> i dalje</u>
      <u><seg>—</seg><p>Nitko.</p></u>"""
    [document] = documents(tmp_path, TEI % turns)
    assert [(document.text[each.start : each.end], *each[2:4]) for each in document.utterances] == [
        ("Poštovane kolege, nastavljamo dalje.", "Horvat.Ana", "u1.s1"),
        ("Hvala vam.", "Horvat.Ana", "u1"),
        ("Bez greske.", "Marić", "u2"),
        ("Zajedno.", None, "s3"),
        ("i dalje", None, "u3"),
        ("Nitko.", None, None),
    ]
    assert document.text.split("\n") == [
        document.text[each.start : each.end] for each in document.utterances
    ]


def test_tokens_of_tei_are_joined_to_words(tmp_path):
    tokens = """<u who="#A"><seg xml:id="s1"><s xml:id="s1.1">
        <w xml:id="w1" lemma="da" msd="UPosTag=PART" join="right">Da</w><pc xml:id="w2">,</pc>
        <name type="PER"><w>Ana</w>
          <w join="right">Horvat</w></name>
        <pc join="right">(</pc><w join="right">abych<w
          xml:id="w5" norm="aby"/><w xml:id="w6" norm="bych"/></w><pc>)</pc>
        <w join="right"><w>do</w>
          <w>n't</w></w><pc join="left">…</pc><w>10 000</w><pc
          join="both">-</pc><w join="right">tak</w><pc>.</pc>
        <linkGrp targFunc="head argument"
          type="UD-SYN"><link ana="ud-syn:root" target="#s1 #w1"/></linkGrp>
      </s><s><w>Ne</w></s></seg><seg>Bez <gap/> oznaka</seg></u>"""
    assert read(tmp_path, TEI % tokens) == [
        "Da, Ana Horvat(abych) don't… 10 000-tak. Ne",
        "Bez oznaka",
    ]


def test_tei_without_turns_has_paragraphs(tmp_path):
    body = "<p xml:id='p1'>Jedan <hi>dva</hi>.</p><note><p>ne</p></note><p>Tri.</p><ab>Četiri.</ab>"
    assert read(tmp_path, TEI % body) == ["Jedan dva.", "Tri.", "Četiri."]
    assert read(tmp_path, (TEI % body).replace("UTF-8", "UTF-16").encode("utf-16")) == [
        "Jedan dva.",
        "Tri.",
        "Četiri.",
    ]
    assert read(tmp_path, (TEI % body).replace("UTF-8", "windows-1250").encode("cp1250")) == [
        "Jedan dva.",
        "Tri.",
        "Četiri.",
    ]
    assert read(tmp_path, "<TEI.2><text><p>Jedan.</p></text></TEI.2>") == ["Jedan."]
    assert read(tmp_path, "\n" + (TEI % body).partition("\n")[2]) == [
        "Jedan dva.",
        "Tri.",
        "Četiri.",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("tag", ["p", "note"])
def test_deeply_nested_tei_is_read(tag, tmp_path):
    deep = f"<u><seg>Da {f'<{tag}>' * 100_000}{f'</{tag}>' * 100_000}</seg></u>"
    assert read(tmp_path, TEI % deep) == ["Da"]


# Word documents

NAMESPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
COMPATIBLE = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'


def run(text: str) -> str:
    return f'<w:r><w:rPr><w:i/></w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>'


def docx(body: str, *, namespace: str = NAMESPACE, name: str = "word/document.xml") -> bytes:
    space = f'xmlns:w="{namespace}" {COMPATIBLE} xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'
    xml = (
        '<?xml version="1.0" encoding="UTF-8" standalone="yes"?><w:document '
        f"{space}><w:body>{body}</w:body></w:document>"
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("[Content_Types].xml", "<Types/>")
        book.writestr(
            "word/comments.xml", f"<w:comments {space}><w:p>{run('komentar')}</w:p></w:comments>"
        )
        book.writestr(
            "word/footnotes.xml", f"<w:footnotes {space}><w:p>{run('bilješka')}</w:p></w:footnotes>"
        )
        book.writestr(name, xml)
    return file.getvalue()


@pytest.mark.parametrize("namespace", [NAMESPACE, STRICT])
def test_paragraphs_of_a_word_document_are_read(namespace, tmp_path):
    body = f"""
      <w:p><w:pPr><w:tabs><w:tab w:val="left"
        w:pos="720"/></w:tabs></w:pPr>{run("Poštovane ")}{run("kolege")}
        <w:r><w:tab/><w:t>Hvala</w:t><w:br/><w:t>e</w:t><w:noBreakHyphen/><w:t>mail</w:t></w:r>
        <w:r><w:footnoteReference w:id="1"/></w:r></w:p>
      <w:p/><w:p><w:ins>{run("novo")}</w:ins><w:del><w:r><w:delText>staro</w:delText></w:r></w:del><w:moveFrom>{run("drugdje")}</w:moveFrom></w:p>
      <w:tbl><w:tr><w:tc><w:p>{run("prva")}</w:p></w:tc><w:tc><w:p>{run("druga")}</w:p></w:tc></w:tr></w:tbl>
      <w:p><w:r><w:instrText>PAGE</w:instrText></w:r><w:hyperlink>{run("veza")}</w:hyperlink><w:r><a:t>crtež</a:t></w:r></w:p>
      <w:p>{run("okvir:")}<mc:AlternateContent>
        <mc:Choice><w:txbxContent><w:p>{run("u okviru")}</w:p></w:txbxContent></mc:Choice>
        <mc:Fallback><w:txbxContent><w:p>{run("u okviru")}</w:p></w:txbxContent></mc:Fallback>
        </mc:AlternateContent>
        {run(" dalje")}</w:p>"""
    expected = [
        "Poštovane kolege\tHvala\ne-mail",
        "novo",
        "prva",
        "druga",
        "veza",
        "u okviru",
        "okvir: dalje",
    ]
    assert read(tmp_path, docx(body, namespace=namespace)) == expected


def test_other_zip_files_are_refused(tmp_path):
    for name in ("content.xml", "word/other.xml"):
        assert refused(tmp_path, docx("", name=name)).startswith(
            ": a zip file without word/document.xml, so no .docx; save it as"
        )
    whole = docx(f"<w:p>{run('da ' * 999)}</w:p>")
    assert refused(tmp_path, whole[: len(whole) // 2]).startswith(": a damaged .docx (")
    assert refused(tmp_path, docx("<w:p>")).startswith(
        ", line 1: not well-formed XML (mismatched tag"
    )
    assert refused(tmp_path, docx("<w:p/>")) == ": empty, it has no words"


def test_encrypted_and_damaged_members_are_refused(tmp_path):
    data = bytearray(docx(f"<w:p>{run('da')}</w:p>"))
    entry = data.rindex(b"PK\1\2")
    local = data.rindex(b"PK\3\4")
    encrypted = data.copy()
    encrypted[entry + 8] |= 1
    encrypted[local + 6] |= 1
    assert refused(tmp_path, bytes(encrypted)) == ": encrypted; save it without a password"
    damaged = data.copy()
    damaged[entry + 16] ^= 1  # the checksum
    damaged[local + 14] ^= 1
    assert refused(tmp_path, bytes(damaged)).startswith(": a damaged .docx (Bad CRC-32")
    unknown = data.copy()
    unknown[entry + 10] = 99
    unknown[local + 8] = 99
    assert refused(tmp_path, bytes(unknown)).startswith(": a damaged .docx (")


def test_decompression_bombs_are_refused_also_if_their_header_lies(tmp_path, monkeypatch):
    monkeypatch.setattr(input_guards, "FREE_BYTES", 1 << 16)
    bomb = docx(f"<w:p>{run('a' * (1 << 20))}</w:p>")
    assert "that grow to more than" in refused(tmp_path, bomb)
    data = bytearray(bomb)
    entry = data.rindex(b"PK\1\2")
    struct.pack_into("<I", data, entry + 24, 1 << 14)  # the header says less: no more is unpacked
    assert ": a damaged .docx (" in refused(tmp_path, bytes(data))
    struct.pack_into("<I", data, entry + 20, 1 << 30)  # or says that more is packed
    struct.pack_into("<I", data, entry + 24, 1 << 20)
    assert "that grow to more than" in refused(tmp_path, bytes(data))


# Web pages

PAGE = """<!DOCTYPE html><!-- a > b --><html lang="hr"><head>
<meta charset="%s"><title>Naslov</title>
<style>p > a { color: red }</style><script>if (a < b) document.write("<p>ne</p>")</script></head>
<BODY class=x onload='f("<p>")'><h1>Sjednica</h1><div>Poštovane
 <b>kol</b>ege &amp; drugi<p title="a > b">prvi<br>red<br/> <BR>drugi</p><ul><li>tri<li>četiri</ul>
<template><p>ne</p></template><table><tr><td>pet<td>šest</table><!-- <p>ne</p> --><?php ne ?></div>
<SCRIPT src="x">ne</SCRIPT >sedam &#353;&nbsp;&lt;i&gt; a < b &x;
</body></html>"""
SAID = [
    "Sjednica",
    "Poštovane kolege & drugi",
    "prvi red",
    "drugi",
    "tri",
    "četiri",
    "pet",
    "šest",
    "sedam š <i> a < b &x;",
]


@pytest.mark.parametrize("encoding", ["utf-8", "windows-1250", "ISO-8859-2"])
def test_paragraphs_of_an_html_page_are_read_in_its_encoding(encoding, tmp_path):
    assert read(tmp_path, (PAGE % encoding).encode(encoding)) == SAID
    assert read(tmp_path, b"\xef\xbb\xbf" + (PAGE % encoding).encode()) == SAID
    assert read(tmp_path, (PAGE % encoding).replace("\n", "\r\n").encode("utf-16")) == SAID


def test_html_fragments_and_old_doctypes_are_read(tmp_path):
    assert read(tmp_path, "<p>Jedan<p>dva") == ["Jedan", "dva"]
    assert read(
        tmp_path,
        (
            "<?xml version='1.0'?>\n<!DOCTYPE html SYSTEM 'x'>\n<html><script "
            "src='a'/><p>da</p></html>"
        ),
    ) == ["da"]
    assert read(
        tmp_path,
        (
            b'<html><meta http-equiv="Content-Type" content="text/html; '
            b'charset=iso-8859-1"><p>\x93a\x94'
        ),
    ) == ["“a”"]
    assert read(tmp_path, "<p>&#" + "1" * 5000 + "; da") == ["&#" + "1" * 5000 + "; da"]
    assert (
        refused(tmp_path, "<html><meta charset=utf-8><p>š".encode("cp1250"))
        == ": not utf-8 text (byte 30); save it as UTF-8"
    )
    assert refused(tmp_path, "<html><script>da</script>") == ": empty, it has no words"


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "<!--",
        "<a ",
        "<a b='",
        '<a b="',
        "</",
        "<?",
        "<!",
        "&",
        "<",
        "<script>",
        "<a =",
        "<br>",
        "<p><b>",
        "<p><b>a</b> ",
        "<sup>",
        "<sup>1",
        "<p ",
        "&#1",
    ],
)
def test_pages_take_linear_time(piece, tmp_path):
    (tmp_path / "transcript").write_text("<p>da</p>" + piece * 50_000)
    assert next(read_documents(tmp_path / "transcript")).text.startswith("da")


NAVIGATION = "navigation, headers and footers of web pages"
HIDDEN = "hidden texts of web pages"


@pytest.mark.parametrize(
    ("markup", "what"),
    [
        ("<nav><ul><li>Doma</ul></nav>", NAVIGATION),
        ("<header><h1>Sabor</h1></header>", NAVIGATION),
        ("<FOOTER class='x'>Impressum</FOOTER>", NAVIGATION),
        ("<aside><p>Vijesti</p></aside>", NAVIGATION),
        ('<div role="navigation"><div>Doma</div>Natrag</div>', NAVIGATION),
        ("<button>Ispis</button>", NAVIGATION),
        ("<nav><nav>Doma</nav>Natrag</nav>", NAVIGATION),
        ("<p hidden>tajno</p>", HIDDEN),
        ("<p class=x hidden=until-found>tajno", HIDDEN),
        ('<div style="color:red; display: none"><p>tajno</div>', HIDDEN),
        ("<div style='visibility:hidden'>tajno</div>", HIDDEN),
        ('<div aria-hidden="true">tajno</div>', HIDDEN),
        ("<noscript>tajno</noscript>", HIDDEN),
        ('<p>Da.<span style="display:none">tajno</span></p>', HIDDEN),
        ("<p>Da.<del>tajno</del></p>", "deleted texts of web pages"),
        ("<p>Da.<s>tajno</s></p>", "deleted texts of web pages"),
        ("<nav></nav><nav> <br> </nav>", None),
        ("<script>tajno</script><style>p{display:none}</style>", None),
    ],
)
def test_navigation_and_hidden_text_of_html_are_omitted_and_counted(tmp_path, markup, what):
    [document] = documents(tmp_path, f"<html><body>{markup}<p>Dobar dan.</p></body></html>")
    assert document.text.split("\n")[-1] == "Dobar dan."
    assert document.text.removeprefix("Da.").strip() == "Dobar dan."
    assert document.left_out == (((what, 1),) if what else ())


@pytest.mark.parametrize(
    "markup",
    [
        '<p class="hidden md:block">Dobar dan.</p>',
        '<p aria-hidden="false" style="display:block">Dobar dan.</p>',
        "<header>Dobar dan.",
        "<p>Dobar <ins>dan</ins>.</p>",
        "<p>Dobar d<del></del>an.</p>",
    ],
)
def test_visible_text_of_html_is_kept(tmp_path, markup):
    [document] = documents(tmp_path, f"<html><body>{markup}")
    assert document.text == "Dobar dan."
    assert document.left_out == ()


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["<p hidden>", "<div hidden>", "<nav>a</nav>", "<p style="])
def test_hidden_elements_take_linear_time(piece, tmp_path):
    (tmp_path / "transcript").write_text("<p>da</p>" + piece * 50_000)
    assert next(read_documents(tmp_path / "transcript")).text.startswith("da")


# JSON lines


def test_json_objects_are_grouped_by_recording(tmp_path):
    rows = [
        {
            "text": " Dobar dan. ",
            "file": "b.wav",
            "speaker": "Ana",
            "id": 7,
            "start": 1.50,
            "note": None,
            "ok": True,
            "tags": ["x"],
        },
        {
            "sentence": "Da\nne.",
            "audio_filepath": "a.wav",
            "speaker_id": "s1",
            "segment_id": "x-1",
            "lang": "hr",
        },
        {
            "words": ["Hvala", "svima"],
            "orig_file": "b.wav",
            "utterance_id": "u",
            "speaker": "Ana",
            "words_times": [1],
        },
        {"transcript": "", "recording": "c"},
        {"text": None, "content": "Kraj", "recording_id": "b.wav"},
        {"text": "Bez", "words": "ne", "audio": {"path": "x"}},
    ]
    text = "\ufeff" + "\r\n\n".join(json.dumps(row) for row in rows)
    found = documents(tmp_path, text)
    assert [document.recording for document in found] == ["b.wav", "a.wav", None]
    assert [document.text for document in found] == [
        "Dobar dan.\nHvala svima\nKraj",
        "Da\nne.",
        "Bez",
    ]
    assert [each[2:] for document in found for each in document.utterances] == [
        ("Ana", "7"),
        ("Ana", "u"),
        (None, None),
        ("s1", "x-1"),
        (None, None),
    ]
    assert documents(tmp_path, rows) == documents(tmp_path, json.dumps(rows, indent=1)) == found
    assert (
        read(tmp_path, '{"text": "da", "start": 1.50}')
        == read(tmp_path, '{\n"text": "da"\n}')
        == ["da"]
    )


# Refused files


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", ": empty, it has no words"),
        (b"\xef\xbb\xbf \n\n", ": empty, it has no words"),
        ("* * *\n", ": empty, it has no words"),
        (TEI % "", ": empty, it has no words"),
        ({"text": ""}, ": empty, it has no words"),
        ([], ": empty, it has no words"),
        (b"%PDF-1.7\n%\xe2\xe3", ": a damaged PDF (Data format error)"),
        (
            b"{\\rtf1\\ansi da}",
            ": an RTF file, which is not read; save it as .docx or as plain text",
        ),
        (
            bytes.fromhex("D0CF11E0A1B11AE1") + bytes(512),
            ": an old or encrypted Word file; save it as .docx without a password",
        ),
        (b"RIFF\x00\x00\x00\x00WAVE", ": binary data, not text"),
        ("da".encode("utf-16-le"), ": binary data, not text"),
        ("da\x07", ": not text; it has the control character 0x07"),
        ("da\x00".encode("utf-16"), ": not text; it has the control character 0x00"),
        ({"text": "da\u0001"}, ": not text; it has the control character 0x01"),
        ("kuća".encode("cp1250"), ": not utf-8 text (byte 3); save it as UTF-8"),
        (b"\xff\xfed", ": not utf-16"),
        (
            '<?xml version="1.0"?><x:p xmlns:x="y">da</x:p>',
            ": XML that is not TEI; its root is <p>",
        ),
        ((TEI % "<u>da</u>")[:-6], ", line 4: not well-formed XML (no element found"),
        ((TEI % "<u>da</u>")[:-4], ", line 4: not well-formed XML (unclosed token"),
        (TEI % "<u>\n\nda</v>", ", line 5: not well-formed XML (mismatched tag"),
        (TEI % "<u>&nbsp;</u>", ", line 3: not well-formed XML (undefined entity"),
        ('<?xml version="1.0" encoding="nothing"?><TEI/>', ": XML in an encoding that is not read"),
        (
            '{"text": "da"}\n{"text" "ne"}',
            ", line 2: not JSON: Expecting ':' delimiter (character 9 of the line)",
        ),
        ('[{"text": "da"},\n{"text": ]', ", line 2: not JSON"),
        (
            '[{"text": "da"}, 5]',
            (
                ", line 1, item 2: expected an object with one of text, transcript, sentence, "
                "content, words"
            ),
        ),
        (
            '{"text": "da"}\n{"title": "ne"}',
            ", line 2: expected an object with one of text, transcript",
        ),
        ('{"text": "\\ud800 da"}', ", line 1: half a surrogate pair, which is not Unicode"),
        ('{"x":' + "[" * 100_000, ", line 1: JSON that is nested too deeply"),
    ],
)
def test_an_unreadable_document_is_refused_with_one_reason(content, reason, tmp_path):
    assert refused(tmp_path, content).startswith(reason)


@pytest.mark.parametrize("encoding", ["utf8", "utf-16"])
@pytest.mark.parametrize(
    "subset",
    [
        'SYSTEM "x.dtd"',
        '[<!ENTITY a "da"><!ENTITY b "&a;&a;">]',
        '[<!ENTITY a SYSTEM "file:///etc/passwd">]',
    ],
)
def test_document_types_are_refused(subset, encoding, tmp_path):
    reason = ": XML with a document type or entities, which are not read; remove <!DOCTYPE ...>"
    assert (
        refused(tmp_path, f"<!DOCTYPE TEI {subset}><TEI><u>&a;</u></TEI>".encode(encoding))
        == reason
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as book:
        book.writestr("word/document.xml", f"<!DOCTYPE d {subset}><d>&a;</d>".encode(encoding))
    assert refused(tmp_path, file.getvalue()) == reason


def test_missing_special_and_too_large_files_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "a"
    with pytest.raises(InputError, match="No such file"):
        next(read_documents(path))
    os.mkfifo(path)
    with pytest.raises(InputError, match="a pipe, not a regular file"):
        next(read_documents(path))
    with pytest.raises(InputError, match="a folder, not a regular file"):
        next(read_documents(tmp_path))
    monkeypatch.setattr(input_guards.read_all, "__kwdefaults__", {"most": 1 << 20})
    assert refused(tmp_path, "da " * (1 << 19)) == ": larger than 1 MB, which is not read"


# Subtitles


def test_subtitles_are_read_as_cues(tmp_path):
    text = (
        "\ufeff1\r\n00:00:01,000 --> 00:00:02,000\r\n<i>Dobar</i>\r\ndan &amp; hvala.\r\n2\r\n"
        "00:00:02,000 --> 00:00:03,000\r\nIdemo.\r\n"
    )
    assert read(tmp_path, text) == ["Dobar\ndan & hvala.\nIdemo."]


def test_subtitles_give_speakers_and_repeated_lines_once(tmp_path):
    cues = ["<v Ana>Da.", "<v Ana>Da.\n<v Ana>Ne.", "<v Ana>Ne.\n<v Ivo>Tko?", "Svi."]
    text = "WEBVTT\n\nNOTE x\n\n" + "\n".join(
        f"00:0{n}.000 --> 00:0{n + 1}.000\n{cue}\n" for n, cue in enumerate(cues)
    )
    [document] = documents(tmp_path, text)
    found = [
        (each.speaker_id, document.text[each.start : each.end]) for each in document.utterances
    ]
    assert found == [("Ana", "Da.\nNe."), ("Ivo", "Tko?"), (None, "Svi.")]


def test_cues_without_times_are_counted(tmp_path):
    text = "1\n00:00:01,000 --> 00:00:02,000\nDa.\n\n2\n00:00:99,0 --> x\nNe.\n"
    [document] = documents(tmp_path, text)
    assert document.text == "Da."
    assert document.left_out == (("cues without readable times", 1),)


def test_minutes_that_quote_a_cue_are_read_as_plain_text(tmp_path):
    minutes = "Da. " * 2000 + "\n00:00:01,000 --> 00:00:02,000\nNe."
    [document] = documents(tmp_path, minutes)
    assert document.text == minutes


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("SubStation Alpha", "[Script Info]\nTitle: x\n"),
        ("SubStation Alpha", "; by Aegisub\n[Script Info]\nTitle: x\n"),
        ("SubStation Alpha", "Dialogue: 0,0:00:01.00,0:00:02.00,Default,,0,0,0,,da\n"),
        ("TTML", '<tt xmlns="http://www.w3.org/ns/ttml"><body><p begin="1s">da</p></body></tt>'),
        ("TTML", '<?xml version="1.0"?>\n<tt:tt xml:lang="hr"><tt:p>da</tt:p></tt:tt>'),
        ("SAMI", "<SAMI><BODY><SYNC Start=500><P Class=EN>da\n</BODY></SAMI>"),
        ("SubViewer", "00:00:01.00,00:00:02.00\nda\n"),
        ("YouTube", '<?xml version="1.0"?><timedtext format="3"><p t="1">da</p></timedtext>'),
        ("MicroDVD", "{10}{50}da|ne\n{60}{90}da\n"),
        ("MPL2", "[10][50]da|ne\n[60][90]da\n"),
        ("LRC", "[ti:x]\n[00:01.50]da\n[00:02.50]ne\n"),
        ("Whisper", "[00:00.000 --> 00:02.000]  da\n[00:02.000 --> 00:03.500]  ne\n"),
        ("Audacity", "0.500000\t1.500000\tda\n1.500000\t2.500000\tne\n"),
        ("RTTM", "SPEAKER a 1 0.50 1.00 <NA> <NA> x <NA>\n" * 2),
        ("STM", "a 1 x 0.50 1.50 <o> da\na 1 x 1.50 2.50 <o> ne\n"),
        ("CTM", "a 1 0.50 0.30 da\na 1 0.90 0.30 ne\n"),
        ("TextGrid", 'File type = "ooTextFile"\nObject class = "TextGrid"\n'),
        ("table of segments", "start\tend\ttext\n500\t1500\tda\n"),
        ("table of segments", 'file,start_time,end_time,text\na,0.5,1.5,"da"\n'),
        ("LaTeX", "\\documentclass{article}\n\\begin{document}\nda\n\\end{document}\n"),
    ],
)
def test_timed_formats_are_refused_as_transcripts_by_name(tmp_path, name, content):
    reason = refused(tmp_path, content)
    assert name in reason
    assert "not read as a transcript; " in reason


@pytest.mark.parametrize(
    "text",
    ["[00:12] Ana: da\n[00:15] Ben: ne", "12.5 da\n13.5 ne", "We start, end and stop.", "{1} da"],
)
def test_text_that_mentions_times_is_read_as_plain_text(tmp_path, text):
    assert read(tmp_path, text) == [text]


def test_the_dos_end_of_file_character_is_not_read_as_text(tmp_path):
    assert read(tmp_path, "Dobar dan.\r\n\x1a") == ["Dobar dan."]


def test_cues_out_of_order_are_read_by_their_times(tmp_path):
    cue = "{0}\n00:00:{0:02},000 --> 00:00:{1:02},000\n{2}\n\n"
    assert read(tmp_path, cue.format(3, 4, "ne") + cue.format(1, 2, "da")) == ["da\nne"]


# What is left out


@pytest.mark.parametrize(
    ("hidden", "number"),
    [
        ("<w:r><w:rPr><w:vanish/></w:rPr><w:t>tajno</w:t></w:r>", 1),
        ('<w:r><w:rPr><w:vanish w:val="true"/></w:rPr><w:t>tajno</w:t></w:r>', 1),
        ('<w:r><w:rPr><w:rStyle w:val="Secret"/></w:rPr><w:t>tajno</w:t></w:r>', 1),
    ],
)
def test_hidden_text_of_word_is_left_out_and_counted(tmp_path, hidden, number):
    body = f"<w:p>{run('Dobar ')}{hidden}{run('dan.')}</w:p>"
    styles = (
        f'<w:styles xmlns:w="{NAMESPACE}"><w:style w:styleId="Secret"><w:rPr><w:vanish/></w:rPr>'
        "</w:style></w:styles>"
    )
    data = io.BytesIO(docx(body))
    with zipfile.ZipFile(data, "a") as book:
        book.writestr("word/styles.xml", styles)
    [document] = documents(tmp_path, data.getvalue())
    assert document.text == "Dobar dan."
    assert document.left_out == (("hidden texts of Word documents", number),)


@pytest.mark.parametrize("mark", ["<w:strike/>", '<w:dstrike w:val="1"/>'])
def test_struck_out_text_of_word_is_left_out_and_counted(tmp_path, mark):
    struck = f"<w:r><w:rPr><w:b/>{mark}</w:rPr><w:t>ne </w:t></w:r>"
    plain = '<w:r><w:rPr><w:strike w:val="0"/></w:rPr><w:t>dan.</w:t></w:r>'
    [document] = documents(tmp_path, docx(f"<w:p>{run('Dobar ')}{struck}{plain}</w:p>"))
    assert document.text == "Dobar dan."
    assert document.left_out == (("deleted texts of Word documents", 1),)


def test_raised_numbers_are_those_of_footnotes(tmp_path):
    raised = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>{}</w:t></w:r>'
    body = f"<w:p>{run('Dan')}{raised.format(12)}{run('. 1')}{raised.format('st')}</w:p>"
    assert read(tmp_path, docx(body)) == ["Dan¹². 1st"]
    page = '<html><p>Dan<sup>12</sup>, m<sup>2</sup>, 1<sup>st</sup><sup><a href="#1">[3]</a></sup>'
    assert read(tmp_path, page) == ["Dan¹², m², 1st³"]


def test_a_bold_name_at_the_start_of_a_paragraph_is_separated(tmp_path):
    bold = '<w:r><w:rPr><w:b/></w:rPr><w:t xml:space="preserve">{}</w:t></w:r>'
    body = f"<w:p>{bold.format('Ana ')}{bold.format('Kos ')}{run('Dobar dan.')}</w:p>"
    body += f"<w:p>{bold.format('Sve')}</w:p><w:p>{bold.format('D')}{run('obar dan.')}</w:p>"
    body += f"<w:p>{run(' Hvala.')}</w:p>"
    assert read(tmp_path, docx(body)) == ["Ana Kos\tDobar dan.", "Sve", "Dobar dan.", "Hvala."]
    page = "<p><b>Ana Kos</b> Dobar <b>dan</b>.<p><strong>D</strong>obar dan.<p><b>Sve</b></p>"
    assert read(tmp_path, page) == ["Ana Kos\t Dobar dan.", "Dobar dan.", "Sve"]


def test_stage_directions_of_tei_are_left_out_and_counted(tmp_path):
    body = "<sp><speaker>ANA</speaker><p>Da <stage>smije se</stage>ne.<fw>12</fw></p></sp>"
    [document] = documents(tmp_path, TEI % body)
    assert document.text == "Da ne."
    counts = dict(document.left_out)
    assert counts["stage directions of TEI"] == counts["headers and footers of TEI"] == 1


def test_an_html_page_uses_the_encoding_of_its_xml_declaration(tmp_path):
    page = '<?xml version="1.0" encoding="windows-1250"?><html><p>Šest kuća.</p></html>'
    assert read(tmp_path, page.encode("cp1250")) == ["Šest kuća."]


def test_headers_and_footers_of_word_are_counted(tmp_path):
    data = io.BytesIO(docx(f"<w:p>{run('Dobar dan.')}</w:p>"))
    space = f'xmlns:w="{NAMESPACE}"'
    with zipfile.ZipFile(data, "a") as book:
        book.writestr("word/header1.xml", f"<w:hdr {space}><w:p>{run('Zapisnik')}</w:p></w:hdr>")
        book.writestr("word/header2.xml", f"<w:hdr {space}><w:p/></w:hdr>")
        book.writestr("word/footer1.xml", f"<w:ftr {space}><w:p>{run('Str. 1')}</w:p></w:ftr>")
    [document] = documents(tmp_path, data.getvalue())
    assert document.text == "Dobar dan."
    assert document.left_out == (("headers and footers of Word documents", 2),)


def test_word_text_explicitly_marked_as_visible_is_kept(tmp_path):
    shown = '<w:r><w:rPr><w:vanish w:val="0"/></w:rPr><w:t>javno</w:t></w:r>'
    mark = "<w:pPr><w:rPr><w:vanish/></w:rPr></w:pPr>"
    [document] = documents(tmp_path, docx(f"<w:p>{mark}{shown}</w:p>"))
    assert document.text == "javno"
    assert document.left_out == ()


def test_deleted_text_and_footnotes_of_word_are_counted(tmp_path):
    deleted = "<w:del><w:r><w:delText>ne</w:delText></w:r></w:del>"
    note = '<w:r><w:footnoteReference w:id="2"/></w:r>'
    [document] = documents(tmp_path, docx(f"<w:p>{run('Da')}{deleted}{note}</w:p>"))
    assert document.text == "Da"
    assert document.left_out == (
        ("deleted texts of Word documents", 1),
        ("footnotes of Word documents", 1),
    )


def test_notes_and_gaps_of_tei_are_counted(tmp_path):
    text = (
        '<TEI><text><u who="#A"><note>(Pljesak.)</note><seg>Da.<gap/><vocal><desc>smijeh</desc>'
        "</vocal></seg><kinesic><desc>ustaju</desc></kinesic></u></text></TEI>"
    )
    [document] = documents(tmp_path, text)
    assert document.text == "Da."
    assert document.left_out == (
        ("notes of TEI", 1),
        ("gaps of TEI", 1),
        ("incidents of TEI", 2),
    )
