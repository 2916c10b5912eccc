"""Workbooks of LibreOffice, made by hand, with their XML as LibreOffice 7.4 writes it."""

import datetime as dt
import zipfile
from html import escape
from itertools import groupby

import openpyxl

MIMETYPE = "application/vnd.oasis.opendocument.spreadsheet"
_SCHEMAS = "urn:oasis:names:tc:opendocument:xmlns"
_NAMESPACES = " ".join(
    f'xmlns:{name}="{address}"'
    for name, address in {
        "office": f"{_SCHEMAS}:office:1.0",
        "table": f"{_SCHEMAS}:table:1.0",
        "text": f"{_SCHEMAS}:text:1.0",
        "draw": f"{_SCHEMAS}:drawing:1.0",
        "meta": f"{_SCHEMAS}:meta:1.0",
        "style": f"{_SCHEMAS}:style:1.0",
        "dc": "http://purl.org/dc/elements/1.1/",
        "xlink": "http://www.w3.org/1999/xlink",
        "calcext": "urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0",
    }.items()
)
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'
_HIDDEN = (
    '<office:automatic-styles><style:style style:name="ta2" style:family="table">'
    '<style:table-properties table:display="false"/></style:style></office:automatic-styles>'
)
_COLUMNS = 16_384
_ROWS = 1_048_576


def ods_cell(content="", kind='office:value-type="string" calcext:value-type="string"'):
    """A cell with the XML of its content, by default of a text."""
    return f"<table:table-cell {kind}>{content}</table:table-cell>"


def ods_row(*cells, attributes=""):
    """A row of cells up to the last possible column."""
    rest = f'<table:table-cell table:number-columns-repeated="{_COLUMNS - len(cells)}"/>'
    start = f'<table:table-row table:style-name="ro1"{attributes}>'
    return f"{start}{''.join(cells)}{rest}</table:table-row>"


def ods_table(*rows, name="Sheet1", hidden=False):
    """A sheet of rows up to the last possible one."""
    style = "ta2" if hidden else "ta1"
    empty = f'<table:table-cell table:number-columns-repeated="{_COLUMNS}"/>'
    count = _ROWS - len(rows)
    return (
        f'<table:table table:name="{escape(name)}" table:style-name="{style}">'
        f'<table:table-column table:number-columns-repeated="{_COLUMNS}"/>{"".join(rows)}'
        f'<table:table-row table:number-rows-repeated="{count}">{empty}</table:table-row>'
        "</table:table>"
    )


def write_ods(path, *tables, saved="2001-02-03T04:05:06", more=()):
    """Write a workbook of sheets, and further members of its archive."""
    body = f"<office:body><office:spreadsheet>{''.join(tables)}</office:spreadsheet></office:body>"
    content = (
        f"{_HEAD}<office:document-content {_NAMESPACES}>{_HIDDEN}{body}</office:document-content>"
    )
    meta = (
        f"{_HEAD}<office:document-meta {_NAMESPACES}><office:meta>"
        f"<dc:date>{saved}</dc:date></office:meta></office:document-meta>"
    )
    entry = '<manifest:file-entry manifest:full-path="/" manifest:media-type="{}"/>'
    manifest = (
        f'{_HEAD}<manifest:manifest xmlns:manifest="{_SCHEMAS}:manifest:1.0">'
        f"{entry.format(MIMETYPE)}</manifest:manifest>"
    )
    members = {"content.xml": content, "meta.xml": meta, "META-INF/manifest.xml": manifest}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", MIMETYPE, zipfile.ZIP_STORED)
        for name, text in {**members, **dict(more)}.items():
            archive.writestr(name, text)
    return path


def ods_value(value):
    """A cell with a value, as LibreOffice writes it."""
    match value:
        case None | "":
            return "<table:table-cell/>"
        case bool():
            text = str(value).lower()
            kind = f'office:value-type="boolean" office:boolean-value="{text}"'
        case int() | float():
            text = str(value)
            kind = f'office:value-type="float" office:value="{value!r}"'
        case dt.time():
            text = value.isoformat()
            time = f"PT{value:%H}H{value:%M}M{value:%S}S"
            kind = f'office:value-type="time" office:time-value="{time}"'
        case dt.date():
            text = value.isoformat()
            kind = f'office:value-type="date" office:date-value="{text}"'
        case _:
            return ods_cell(_paragraphs(str(value)))
    return ods_cell(f"<text:p>{text}</text:p>", kind)


def _paragraphs(text):
    """The XML of a text, in which blanks that are repeated or at an end are elements."""
    lines = []
    for line in text.split("\n"):
        pieces = []
        for is_blank, letters in groupby(line, key=" ".__eq__):
            piece = "".join(letters)
            inner = 1 if is_blank and pieces and len(piece) < len(line) else 0
            blanks = f'{" " * inner}<text:s text:c="{len(piece) - inner}"/>'
            pieces.append(escape(piece) if not is_blank or piece == " " * inner else blanks)
        lines.append(f"<text:p>{''.join(pieces)}</text:p>")
    return "".join(lines)


def write_table_ods(path, rows, name="Sheet1"):
    """Write rows of values, of which equal ones that follow each other are one element."""
    return write_ods(path, _table_of(rows, name))


def _table_of(rows, name, *, hidden=False):
    """A sheet of rows; equal rows in sequence are one repeated row."""
    parts = []
    for row, repeats in groupby(list(row) for row in rows):
        count = len(list(repeats))
        attributes = f' table:number-rows-repeated="{count}"' if count > 1 else ""
        parts.append(ods_row(*map(ods_value, row), attributes=attributes))
    return ods_table(*parts, name=name, hidden=hidden)


def as_ods(workbook, path, saved="2001-02-03T04:05:06"):
    """Save an .xlsx workbook as LibreOffice would, without its formats."""
    book = openpyxl.load_workbook(workbook)
    tables = [
        _table_of(sheet.values, sheet.title, hidden=sheet.sheet_state != "visible")
        for sheet in book.worksheets
    ]
    return write_ods(path, *tables, saved=saved)
