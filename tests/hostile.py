"""What means harm: names, texts, archives, manifests and bombs. Every reader, writer, sheet, page and widget meets all of it.

Wherever something comes of one of them that must not, a file or a word appears that is called after `PWNED`.
"""

import io
import tarfile
import zipfile
from pathlib import Path

PWNED = "PWNED"

#: Names of recordings, segments and speakers: places elsewhere, other systems' places, shells, characters that hide or break.
NAMES = [
    *("../../PWNED", "a/../../../PWNED", "/PWNED", "//PWNED", "./PWNED", ".", "..", "~/PWNED", "č ž/š"),
    *("..\\..\\PWNED", "C:\\PWNED", "C:PWNED", "\\\\server\\share\\PWNED", "CON", "nul.txt", "aux.", "trailing ", "a:b"),
    *("%2e%2e%2fPWNED", "a%2Fb", "file:///PWNED", "PWNED::https://a.b", "{split}", "%s", "a*b?[c]"),
    *("$(touch PWNED)", "`touch PWNED`", "a;touch PWNED", "|touch PWNED", "touch PWNED |", "-rf", "a.b.c", "A.B.C", ".hidden"),
    *(
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
    ),
]

#: What spreadsheets take for something else: formulas, numbers, dates, links, escapes, what no cell can hold.
CELLS = [
    *("=1+1", "-5", "+x", "@a", "'=1", "''", "1e5", "007", "1/2", "TRUE", "#N/A", "http://a.b", "mailto:a@b"),
    *("=cmd|'/c calc'!A1", '=HYPERLINK("http://a.b")', "{=1}", "<r><t>ne</t></r>", "&amp;", "]]>", "_x0041_ da", "_x000D_"),
    *(" rub ", "a\nb", "a\tb", "a\r\nb", "a,b;c", '"', "a\x00b", "\x0b\x1f", "\ufffe", "\u2028", "\ufeff", "\u200f"),
    *("مرحبا \u202eabc", "😀", "👩‍👩‍👧", "e\u0301", "č", "[cut here: 3 characters in all]"),
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
WORST = [MARKUP[0], "=cmd|'/c calc'!A1 +1 @x -2", MARKUP[5], *MARKUP[-3:], "riječ " * 16_000 + "kraj"]

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
    "depth": f"source: {'[' * 2_000}\n",
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
    """A tar, compressed as its name says, with members of any names; and links and devices that are called as recordings are.

    Args:
        path: of the archive.
        members: bytes by name.
        links: what the links lead to.
    """
    with tarfile.open(path, f"w:{path.suffix[1:] if path.suffix != '.tar' else ''}", format=tarfile.PAX_FORMAT) as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
        kinds = {"symlink": tarfile.SYMTYPE, "hardlink": tarfile.LNKTYPE, "fifo": tarfile.FIFOTYPE, "device": tarfile.CHRTYPE}
        for name, kind in kinds.items():
            entry = tarfile.TarInfo(f"{name}.wav")
            entry.type, entry.linkname = kind, links if "link" in name else ""
            archive.addfile(entry)
    return path
