"""Review sheets as CSV and TSV: for programs that read no workbook. Without types, texts are guarded from being computed.

Conventions: UTF-8 with a byte order mark, by which Excel knows it; texts as in the cells of a workbook, and one that a
spreadsheet might compute has an apostrophe before it, as people write it there by hand. Some programs take it off, so reading
leaves it where it is: only who knows the text can tell.
"""

import csv
import io
import re
from pathlib import Path

import polars as pl

from nbaudio.core import guards
from nbaudio.core.errors import InputError, one_line
from nbaudio.review.cells import cell_text

#: What is between the fields, by the ending of the file.
SEPARATORS = {"csv": ",", "tsv": "\t"}

# What makes a formula, a number, a date or a constant; and the guard itself, or a text that begins with one would lose it.
_COMPUTED = re.compile(r"[=+\-@\t\r'#]|\d[\d.,:/%eE-]*$|(true|false)$", re.IGNORECASE)


def escape_formula(text: str) -> str:
    """A text that no spreadsheet computes or takes for a number.

    Examples:
        >>> escape_formula("=1+1"), escape_formula("007"), escape_formula("da"), unescape_formula(escape_formula("'tis"))
        ("'=1+1", "'007", 'da', "'tis")
    """
    return f"'{text}" if _COMPUTED.match(text) else text


def unescape_formula(text: str) -> str:
    """The text that `escape_formula` was given; others stay as they are."""
    return text[1:] if text.startswith("'") and _COMPUTED.match(text[1:]) else text


def write_delimited(rows: pl.DataFrame, kind: str) -> bytes:
    """Rows as the bytes of a .csv or .tsv; nulls are empty.

    Args:
        rows: columns as they are to be called; texts and numbers.
        kind: a key of `SEPARATORS`.
    """
    out = io.StringIO()
    writer = csv.writer(out, delimiter=SEPARATORS[kind])
    writer.writerow(rows.columns)
    for row in rows.iter_rows():
        writer.writerow([escape_formula(cell_text(value)) if isinstance(value, str) else value for value in row])
    return out.getvalue().encode("utf-8-sig")


def read_delimited(path: Path) -> list[list[str]]:
    r"""The rows of a .csv or .tsv, as other programs save it too: between the fields may be comma, semicolon or tab.

    Raises:
        InputError: it is no text in UTF-8 or UTF-16, or cannot be parted into fields.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "sheet.csv"
        >>> _ = path.write_text("segment_id;verdict\n'-a;ok\n")
        >>> read_delimited(path)
        [['segment_id', 'verdict'], ["'-a", 'ok']]
    """
    data = guards.read_all(path)
    # Excel's "Unicode text" is UTF-16.
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text; save it as 'CSV UTF-8' or as .xlsx") from error
    header = text.partition("\n")[0]
    separator = max(",;\t", key=header.count)
    limit = csv.field_size_limit(1 << 30)
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    except csv.Error as error:
        raise InputError(f"{path}: cannot be read as a table ({one_line(error)})") from error
    finally:
        csv.field_size_limit(limit)
