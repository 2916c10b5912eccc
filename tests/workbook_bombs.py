"""Small workbooks that would take their reader much memory or time, of every kind."""

import zipfile
from pathlib import Path
from xml.etree.ElementTree import tostring

from openpyxl import Workbook
from openpyxl.styles.stylesheet import write_stylesheet
from spreadsheets import ods_cell, ods_row, ods_table, write_ods

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"
STYLES = tostring(write_stylesheet(Workbook())).decode()
HEADER = '<row r="1">' + "".join(
    f'<c r="{column}1" t="inlineStr"><is><t>{name}</t></is></c>'
    for column, name in zip("ABCD", ("verdict", "segment_id", "name", "text"), strict=True)
)
HEADER += "</row>"


def sheet(rows, *, before="", after=""):
    """The XML of a sheet of a header and rows."""
    data = f"<sheetData>{HEADER}{rows}</sheetData>"
    return f'<worksheet xmlns="{MAIN}">{before}{data}{after}</worksheet>'


def members(sheet_xml, *, place="xl/worksheets/sheet1.xml", **further):
    """The parts of a workbook of one sheet; `strings` and `styles` replace those parts."""
    parts = {
        place: sheet_xml,
        "xl/sharedStrings.xml": further.get("strings", f'<sst xmlns="{MAIN}"/>'),
        "xl/styles.xml": further.get("styles", STYLES),
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>'
        '<sheet name="a" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
        f'<Relationship Id="r1" Type="{OFFICE}/worksheet" Target="/{place}"/></Relationships>',
    }
    kinds = {
        "xl/workbook.xml": "sheet.main",
        place: "worksheet",
        "xl/sharedStrings.xml": "sharedStrings",
        "xl/styles.xml": "styles",
    }
    overrides = "".join(
        f'<Override PartName="/{name}" ContentType="{_TYPE}.{kind}+xml"/>'
        for name, kind in kinds.items()
    )
    parts["[Content_Types].xml"] = (
        f'<Types xmlns="{PACKAGE}/content-types">'
        f'<Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>'
    )
    return parts


def pack(path, parts, *, compression=zipfile.ZIP_DEFLATED):
    """Write a workbook of parts, each a text or bytes."""
    with zipfile.ZipFile(path, "w", compression) as book:
        for name, content in parts.items():
            book.writestr(name, content)
    return path


def wide_rows(count, *, cell='<c r="XFD{row}"><v>1</v></c>'):
    """Rows of which only the last column has a value."""
    return "".join(f'<row r="{row}">{cell.format(row=row)}</row>' for row in range(2, count + 2))


FAR = sheet('<row r="900000000"><c r="A900000000"><v>1</v></c></row>')
WIDE = sheet(wide_rows(3000))
STRING = "<si><t>a</t></si>"
_FORMULA = "1+" * 20_000 + "1"


def _in_utf16(xml, order):
    """XML in UTF-16 with its byte order mark."""
    mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}[order]
    return mark + f'<?xml version="1.0" encoding="utf-16"?>{xml}'.encode(order)


def _with_prefix(xml):
    """XML of a worksheet with a namespace prefix at each element."""
    named = xml.replace(f'xmlns="{MAIN}"', f'xmlns:x="{MAIN}"')
    for name in ("worksheet", "sheetData", "row", "c", "v", "is", "t"):
        named = named.replace(f"<{name} ", f"<x:{name} ").replace(f"<{name}>", f"<x:{name}>")
        named = named.replace(f"</{name}>", f"</x:{name}>")
    return named


#: Parts of workbooks, by what is unusual.
XLSX = {
    "single quotes": members(WIDE.replace('"', "'")),
    "blanks around equal signs": members(FAR.replace("=", " = ")),
    "line breaks in tags": members(WIDE.replace("<c ", "<c\n\n ")),
    "character references": members(sheet('<row r="&#57;00000000"><c r="A9"><v>1</v></c></row>')),
    "references in hexadecimal": members(WIDE.replace("XFD", "&#x58;&#x46;&#x44;")),
    "lower-case references": members(WIDE.replace("XFD", "xfd")),
    "UTF-16, little end first": members(_in_utf16(WIDE, "utf-16-le")),
    "UTF-16, big end first": members(_in_utf16(FAR, "utf-16-be")),
    "blanks before the XML": members(" " * 100_000 + WIDE),
    "a prefix": members(_with_prefix(WIDE)),
    "a sheet elsewhere": members(WIDE, place="other/data.xml"),
    "a sheet of another ending": members(WIDE, place="xl/worksheets/sheet1.png"),
    "cells of another name": members(
        WIDE.replace('<c r="XFD', '<z r="XFD').replace("<v>1</v></c></row>", "<v>1</v></z></row>")
    ),
    "a number of a row with an exponent": members(FAR.replace('row r="900000000', 'row r="9e8')),
    "full-width digits": members(
        FAR.replace('row r="900000000', 'row r="\uff19\uff10\uff10\uff10\uff10\uff10\uff10\uff10')
    ),
    "the largest rows": members(FAR.replace("900000000", "1000000")),
    "far columns in few rows": members(sheet(wide_rows(60))),
    "cells without reference": members(sheet("<row>" + "<c/>" * 200_000 + "</row>")),
    "rows without reference": members(sheet("<row/>" * 200_000)),
    "rows and cells without reference": members(sheet("<row><c><v>1</v></c></row>" * 60_000)),
    "texts within cells": members(
        sheet('<row><c t="inlineStr"><is><t>a</t></is></c></row>' * 30_000)
    ),
    "shared strings": members(sheet(""), strings=f'<sst xmlns="{MAIN}">{STRING * 100_000}</sst>'),
    "parts of one shared string": members(
        sheet(""), strings=f'<sst xmlns="{MAIN}"><si>{"<r><t>a</t></r>" * 100_000}</si></sst>'
    ),
    "a long shared string": members(
        sheet(""), strings=f'<sst xmlns="{MAIN}"><si><t>{"a" * 20_000_000}</t></si></sst>'
    ),
    "styles": members(
        sheet(""),
        styles=f'<styleSheet xmlns="{MAIN}"><cellXfs>{"<xf/>" * 200_000}</cellXfs></styleSheet>',
    ),
    "a number format": members(
        sheet(""),
        styles=f'<styleSheet xmlns="{MAIN}"><numFmts><numFmt numFmtId="200" formatCode="'
        f'{"[" * 60_000}"/></numFmts></styleSheet>',
    ),
    "shared formulas": members(
        sheet(
            f'<row><c r="A2"><f t="shared" si="0" ref="A2:A9999">{_FORMULA}</f></c></row>'
            + '<row><c r="A3"><f t="shared" si="0"/></c></row>' * 5000
        )
    ),
    "merged cells": members(
        sheet("", after='<mergeCells><mergeCell ref="A1:XFD1048576"/></mergeCells>')
    ),
    "ranges of a rule": members(
        sheet(
            "",
            after=f'<conditionalFormatting sqref="{"A1 " * 100_000}"><cfRule/>'
            "</conditionalFormatting>",
        )
    ),
    "a document type": members(
        f'<!DOCTYPE worksheet [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>{sheet("")}'
    ),
    "a document type of the styles": members(
        sheet(""), styles=f'<!DOCTYPE a SYSTEM "file:///etc/passwd"><styleSheet xmlns="{MAIN}"/>'
    ),
    "a bomb behind an unused part": {"a.xml": "<a", **members(FAR)},
    "many sheets of one part": {
        **members(sheet("<row><c><v>1</v></c></row>" * 5000)),
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets>'
        + "".join(f'<sheet name="s{n}" sheetId="{n}" r:id="r{n}"/>' for n in range(1, 300))
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
        + "".join(
            f'<Relationship Id="r{n}" Type="{OFFICE}/worksheet" Target="{"./" * n}worksheets/'
            'sheet1.xml"/>'
            for n in range(1, 300)
        )
        + "</Relationships>",
    },
}
#: Members of archives that are unusual.
ARCHIVES = {
    "many members": {**members(sheet("")), **{f"m{n}.bin": "" for n in range(11_000)}},
    "zeros": {**members(sheet("")), "xl/media/image1.png": bytes(20_000_000)},
}
_ROW = ods_row(ods_cell("<text:p>text</text:p>"))
#: Sheets of LibreOffice, by what is unusual.
ODS = {
    "rows that are repeated": ods_row(
        *[ods_cell("<text:p>text</text:p>")] * 9,
        attributes=' table:number-rows-repeated="100000"',
    ),
    "numbers that are repeated": (
        '<table:table-row table:number-rows-repeated="1000000"><table:table-cell '
        'office:value-type="float" office:value="1"><text:p>1</text:p></table:table-cell>'
        "</table:table-row>"
    ),
    "rows that are repeated in single quotes": (
        "<table:table-row table:number-rows-repeated = '&#x39;00000'><table:table-cell "
        "office:value-type='float' office:value='1'/></table:table-row>"
    ),
    "blanks that are repeated": ods_row(
        ods_cell('<text:p>a<text:s text:c="1900000000"/>b</text:p>')
    ),
    "a row far below": (
        '<table:table-row table:number-rows-repeated="900000"><table:table-cell/>'
        f"</table:table-row>{_ROW}"
    ),
    "many cells": "<table:table-row>" + "<table:table-cell/>" * 200_000 + "</table:table-row>",
    "many paragraphs": ods_row(ods_cell("<text:p/>" * 200_000)),
    "a long text": ods_row(ods_cell(f"<text:p>{'a' * 20_000_000}</text:p>")),
}


def write_hidden_tables(path: Path) -> Path:
    """A workbook whose content.xml goes on behind the size that its entry gives."""
    write_ods(path, ods_table(_ROW))
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    shown = parts["content.xml"]
    parts["content.xml"] = shown + shown * 2000
    pack(path, parts)
    packed = bytearray(path.read_bytes())
    entry = packed.rindex(b"content.xml") - 46
    packed[entry + 16 : entry + 20] = zipfile.crc32(shown).to_bytes(4, "little")
    packed[entry + 24 : entry + 28] = len(shown).to_bytes(4, "little")
    path.write_bytes(packed)
    return path
