"""Hostile inputs: names, texts, archives, manifests and bombs, for every reader, writer, sheet,
page and widget.

Wherever something comes of one of them that must not, a file or a word appears that is called after
`PWNED`.
"""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
from spreadsheets import ods_cell, ods_row, ods_table, write_ods

PWNED = "PWNED"

#: Names of recordings, segments and speakers: places elsewhere, other systems' places, shells,
#: characters that hide or break.
NAMES = [
    "../../PWNED",
    "a/../../../PWNED",
    "/PWNED",
    "//PWNED",
    "./PWNED",
    ".",
    "..",
    "~/PWNED",
    "č ž/š",
    "..\\..\\PWNED",
    "C:\\PWNED",
    "C:PWNED",
    "\\\\server\\share\\PWNED",
    "CON",
    "nul.txt",
    "aux.",
    "trailing ",
    "a:b",
    "%2e%2e%2fPWNED",
    "a%2Fb",
    "file:///PWNED",
    "PWNED::https://a.b",
    "{split}",
    "%s",
    "a*b?[c]",
    "$(touch PWNED)",
    "`touch PWNED`",
    "a;touch PWNED",
    "|touch PWNED",
    "touch PWNED |",
    "-rf",
    "a.b.c",
    "A.B.C",
    ".hidden",
    "a\0b",
    "a\nb",
    "\x1b]0;PWNED\x07",
    "\u202ewav.exe",
    "\u200fabc",
    "שלום",
    "\U0001f600",
    "e\u0301",
    "é",
    "x" * 300,
    "č" * 200,
]

#: What spreadsheets take for something else: formulas, numbers, dates, links, escapes, what no cell
#: can hold.
CELLS = [
    "=1+1",
    "-5",
    "+x",
    "@a",
    "'=1",
    "''",
    "1e5",
    "007",
    "1/2",
    "TRUE",
    "#N/A",
    "http://a.b",
    "mailto:a@b",
    "=cmd|'/c calc'!A1",
    '=HYPERLINK("http://a.b")',
    "{=1}",
    "<r><t>ne</t></r>",
    "&amp;",
    "]]>",
    "_x0041_ da",
    "_x000D_",
    " rub ",
    "a\nb",
    "a\tb",
    "a\r\nb",
    "a,b;c",
    '"',
    "a\x00b",
    "\x0b\x1f",
    "\ufffe",
    "\u2028",
    "\ufeff",
    "\u200f",
    "مرحبا \u202eabc",
    "😀",
    "👩‍👩‍👧",
    "e\u0301",
    "č",
    "[cut here: 3 characters in all]",
]

#: What pages, notebooks, cards, plots and terminals take for something else.
MARKUP = [
    "<script>window.hurt = 1</script> <img src=x onerror='window.hurt = 2'> <b>bold</b>",
    '"><img src=x onerror=alert(1)>',
    '" onmouseover="alert(1)',
    "</p></div><iframe>",
    "&lt;b&gt; &amp;",
    "**bold** [link](javascript:window.hurt=3) $x^2$ `code` | cell",
    "--- \n---\nlicense: mit",
    "# heading",
    "x: [y",
    r"$\frac{$",
    "abc \u202edef\u202c \u2066ghi",
    "שלום לכולם مرحبا بالعالم",
    "NUL \0 BEL \x07 ESC \x1b[31m",
]

#: Transcripts; all of it is text and stays what it is.
TEXTS = [*MARKUP, *CELLS, *NAMES]

#: One of each kind, where each takes its time, and one that is long.
WORST = [
    MARKUP[0],
    "=cmd|'/c calc'!A1 +1 @x -2",
    MARKUP[5],
    *MARKUP[-3:],
    "riječ " * 16_000 + "kraj",
]

_LAUGHS = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))

#: Manifests of a run that would run, read or become something else.
MANIFESTS = {
    "a call": "source: !!python/object/apply:os.system ['touch PWNED']\n",
    "an object": "source: !!python/object/new:pathlib.PosixPath ['PWNED']\n",
    "a name": "source: !!python/name:os.system\n",
    "an unknown tag": "source: !include PWNED\n",
    "a billion laughs": f"a0: &a0 [ha, ha]\n{_LAUGHS}source: *a11\n",
    "a circle": "source: &a [*a]\n",
    "a merge": "x: &a {source: b}\n<<: *a\n",
    "depth": f"source: {'[' * 1_200}\n",
    "a long number": f"min_similarity: 0x{'f' * 10_000}\n",
    "a date that is none": "source: 2026-99-99\n",
    "NUL": "source: a\0b\n",
    "bytes that are no UTF-8": "source: \udcff\n",
}


def zip_of(path: Path, members: dict[str, bytes]) -> Path:
    """A zip with members of any names."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return path


def tar_of(path: Path, members: dict[str, bytes], *, links: str = "PWNED") -> Path:
    """A tar, compressed as its name says, with members of any names; and links and devices that are
    called as recordings are.

    Args:
        path: of the archive.
        members: bytes by name.
        links: what the links lead to.
    """
    with tarfile.open(
        path, f"w:{path.suffix[1:] if path.suffix != '.tar' else ''}", format=tarfile.PAX_FORMAT
    ) as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        kinds = {
            "symlink": tarfile.SYMTYPE,
            "hardlink": tarfile.LNKTYPE,
            "fifo": tarfile.FIFOTYPE,
            "device": tarfile.CHRTYPE,
        }
        for name, kind in kinds.items():
            entry = tarfile.TarInfo(f"{name}.wav")
            entry.type, entry.linkname = kind, links if "link" in name else ""
            archive.addfile(entry)
    return path


# Bombs: small files that grow to `size` bytes and more when they are read, each a source of the
# format before its name.

_PIECE = 1 << 20


def _pieces(size: int, piece: bytes):
    """So many bytes as copies of one piece, generated one by one."""
    return (piece for _ in range(size // len(piece)))


def _holes(path: Path, size: int, head: bytes = b"") -> Path:
    """Write a sparse file of a size that begins with `head`; its other bytes are zeros."""
    path.write_bytes(head)
    with path.open("r+b") as file:
        file.truncate(size)
    return path


def parlaspeech_one_line(folder: Path, size: int) -> Path:
    """Transcripts of ParlaSpeech that are one line of zeros."""
    return _holes(folder / "asr.json", size)


def table_one_line(folder: Path, size: int) -> Path:
    """A CSV table with a header and one line of zeros."""
    return _holes(folder / "a.csv", size, b"name,text\n")


def kaldi_one_line(folder: Path, size: int) -> Path:
    """A Kaldi folder whose `wav.scp` is one line."""
    return _holes(folder / "wav.scp", size, b"a ").parent


def subtitles_one_file(folder: Path, size: int) -> Path:
    """A folder with subtitles of zeros."""
    return _holes(folder / "a.srt", size).parent


def textgrid_one_file(folder: Path, size: int) -> Path:
    """A folder with a TextGrid of zeros."""
    return _holes(folder / "a.TextGrid", size).parent


def lhotse_gzip(folder: Path, size: int) -> Path:
    """Compressed cuts of Lhotse that grow to many blank lines."""
    with gzip.open(folder / "cuts.jsonl.gz", "wb") as file:
        file.writelines(_pieces(size, b" " * 1023 + b"\n"))
    return folder


def lhotse_gzip_one_line(folder: Path, size: int) -> Path:
    """Compressed cuts of Lhotse that grow to one line of zeros."""
    with gzip.open(folder / "cuts.jsonl.gz", "wb") as file:
        file.writelines(_pieces(size, bytes(_PIECE)))
    return folder


def table_repeated(folder: Path, size: int) -> Path:
    """A text that is there once, in a thousand rows."""
    texts = pa.DictionaryArray.from_arrays(
        pa.array([0] * 1000, pa.int32()), pa.array(["a" * (size // 1000)])
    )
    pq.write_table(
        pa.table({"name": ["a.wav"] * 1000, "text": texts}),
        folder / "a.parquet",
        compression="zstd",
    )
    return folder / "a.parquet"


def table_repeated_in_a_list(folder: Path, size: int) -> Path:
    """A Parquet table with one text that a list repeats a thousand times."""
    texts = pa.DictionaryArray.from_arrays(
        pa.array([0] * 1000, pa.int32()), pa.array(["a" * (size // 1000)])
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 1000], pa.int32()), texts)
    pq.write_table(
        pa.table({"name": ["a.wav"], "text": ["da"], "words": lists}),
        folder / "a.parquet",
        compression="zstd",
    )
    return folder / "a.parquet"


def table_zeros(folder: Path, size: int) -> Path:
    """A Parquet table with texts of zeros that compress well."""
    schema = pa.schema({"name": pa.string(), "text": pa.string()})
    with pq.ParquetWriter(
        folder / "a.parquet", schema, compression="zstd", use_dictionary=False
    ) as file:
        for piece in _pieces(size, bytes(_PIECE)):
            file.write_table(pa.table({"name": ["a.wav"], "text": [piece.decode()]}))
    return folder / "a.parquet"


def _dataset(rows: int, data: bytes) -> pa.Table:
    """A table of a Hugging Face dataset with the same audio in each row."""
    audio = pa.array(
        [{"bytes": data, "path": "a.wav"}], pa.struct({"bytes": pa.binary(), "path": pa.string()})
    )
    return pa.table({"audio": pa.chunked_array([audio] * rows), "text": ["da"] * rows})


def hf_repeated(folder: Path, size: int) -> Path:
    """A dataset in Parquet whose rows repeat one large recording."""
    rows = 100
    pq.write_table(
        _dataset(rows, bytes(size // rows)),
        folder / "a.parquet",
        compression="zstd",
        dictionary_pagesize_limit=size,
    )
    return folder


def hf_arrow(folder: Path, size: int) -> Path:
    """A dataset in Arrow with compressed recordings of zeros."""
    table = _dataset(1, bytes(_PIECE))
    with pa.ipc.new_stream(
        folder / "a.arrow", table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as stream:
        for _ in range(size // _PIECE):
            stream.write_table(table)
    return folder


def table_span(folder: Path, size: int) -> Path:
    """A cell in the last corner of a sheet, and nothing between."""
    del size
    book = openpyxl.Workbook()
    book.active["A1"], book.active["XFD1048576"] = "name", "text"
    book.save(folder / "a.xlsx")
    return folder / "a.xlsx"


def table_workbook(folder: Path, size: int) -> Path:
    """A workbook with a sheet of blanks that compress well."""
    table_span(folder, size)
    with (
        zipfile.ZipFile(folder / "a.xlsx", "a", zipfile.ZIP_DEFLATED) as book,
        book.open("xl/worksheets/sheet2.xml", "w", force_zip64=True) as file,
    ):
        file.writelines(_pieces(size, b" " * _PIECE))
    return folder / "a.xlsx"


def table_cell_of_libreoffice(folder: Path, size: int) -> Path:
    """A text in a million rows, written once."""
    row = ods_row(
        ods_cell("<text:p>name</text:p>"),
        ods_cell(f"<text:p>{'a' * (size // 1000)}</text:p>"),
        attributes=' table:number-rows-repeated="1000000"',
    )
    return write_ods(folder / "a.ods", ods_table(row))


def table_entities_of_libreoffice(folder: Path, size: int) -> Path:
    """A document type whose entities expand to nearly any size."""
    del size
    entities = "".join(
        f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "a" * 100}">' for n in range(9)
    )
    content = f"<!DOCTYPE x [{entities}]><office:document-content>&e8;</office:document-content>"
    return write_ods(folder / "a.ods", more=[("content.xml", content)])


def nemo_zip(folder: Path, size: int) -> str:
    """A NeMo manifest of blanks in a zip; return its URL."""
    with (
        zipfile.ZipFile(folder / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("train.json", "w", force_zip64=True) as file,
    ):
        file.writelines(_pieces(size, b" " * _PIECE))
    return f"zip://::{folder / 'a.zip'}"


def librispeech_tar(
    folder: Path, size: int, *, name: str = "dev/1/2/1-2-0000.flac", kind: bytes = tarfile.REGTYPE
) -> Path:
    """A compressed LibriSpeech tar with one large member of zeros."""
    with gzip.open(folder / "a.tar.gz", "wb", 1) as file:
        entry = tarfile.TarInfo(name)
        entry.size, entry.type = size // _PIECE * _PIECE, kind
        file.write(entry.tobuf())
        file.writelines(_pieces(size, bytes(_PIECE)))
    return folder / "a.tar.gz"


def librispeech_tar_header(folder: Path, size: int) -> Path:
    """Not a file is this large, but what is said of one."""
    return librispeech_tar(folder, size, kind=tarfile.XHDTYPE)


def folder_tar_holes(folder: Path, size: int) -> str:
    """A recording that is nothing but a hole."""
    entry = tarfile.TarInfo("a.wav")
    entry.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    header[386:410] = b"%011o\0" % size + b"%011o\0" % 0
    header[483:495] = b"%011o\0" % size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    (folder / "a.tar").write_bytes(bytes(header) + bytes(2 * tarfile.BLOCKSIZE))
    return f"tar://::{folder / 'a.tar'}"


BOMBS = [
    parlaspeech_one_line,
    table_one_line,
    kaldi_one_line,
    subtitles_one_file,
    textgrid_one_file,
    lhotse_gzip,
    lhotse_gzip_one_line,
    table_repeated,
    table_repeated_in_a_list,
    table_zeros,
    hf_repeated,
    hf_arrow,
    table_span,
    table_workbook,
    table_cell_of_libreoffice,
    table_entities_of_libreoffice,
    nemo_zip,
    librispeech_tar,
    librispeech_tar_header,
    folder_tar_holes,
]
#: What is said of one of them.
REFUSED = (
    "a bomb|longer than|larger than|with compression|no usable item|there is no such file|"
    "a document type"
)
