"""Reasons why a file is not usable as a recording.

Decoders give no reasons that users understand.
"""

from codecs import getincrementaldecoder
from pathlib import Path

#: What warnings say of sound that is not read.
BEHIND_HEADER = "behind that are not read"
CHAINED = "chained: another recording begins"

#: How the reason of a clip without any signal begins.
NO_SIGNAL = "no signal"

# More than any recorder writes; a damaged header with larger numbers would allocate gigabytes
MAX_RATE = 1_000_000
MAX_CHANNELS = 64

_HEAD_BYTES = 4096
_SHORTENED = (
    "a NIST SPHERE file compressed with shorten, which cannot be decoded; "
    "unpack it first with 'sph2pipe -f wav'"
)
_NAMES = {
    b"fLaC": "FLAC",
    b"OggS": "Ogg",
    b"FORM": "AIFF",
    b"\x1aE\xdf\xa3": "Matroska or WebM",
    b"ID3": "MP3",
}
# What is wrong with a file that begins with these bytes and cannot be opened.
_DAMAGED = {
    start: f"begins like {name} and is damaged or truncated there" for start, name in _NAMES.items()
}
_DAMAGED |= dict.fromkeys(
    (b"RIFF", b"RIFX", b"RF64"), "a WAV file whose format chunk is missing or damaged"
)


def implausible_header(rate: int, channels: int) -> str | None:
    """Return what is wrong with the numbers of a header; None when they are plausible."""
    if 0 < rate <= MAX_RATE and 0 < channels <= MAX_CHANNELS:
        return None
    return f"its header is damaged: it says {rate} Hz, {channels} channels"


def unknown_format_reason(path: Path) -> str:
    """Return what kind of file it is that no decoder opens, judging by its first bytes."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if _is_shortened(head):
        return _SHORTENED
    if head[4:8] == b"ftyp":
        return "an MP4 file without its index; it is truncated, or still being written"
    if problem_reason := next(
        (problem for start, problem in _DAMAGED.items() if head.startswith(start)), None
    ):
        return problem_reason
    if not head.strip(b"\0"):
        return "not audio: it begins with nothing but zeros; was it written to its end?"
    try:
        text = getincrementaldecoder("utf8")().decode(head)  # the last character may be incomplete
    except UnicodeDecodeError:
        text = "\0"
    if not all(letter.isprintable() or letter.isspace() for letter in text):
        return f"not a known audio format; it begins with the bytes {head[:8].hex(' ')}"
    is_page = head.lstrip()[:9].lower().startswith((b"<!doctype", b"<html"))
    return "not audio but a web page; did a download fail?" if is_page else "not audio but text"


def no_samples_reason(path: Path) -> str:
    """Return why a file with a readable header has no samples."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if _is_shortened(head):
        return _SHORTENED
    return "a header without any sample that can be decoded"


def _is_shortened(head: bytes) -> bool:
    return head.startswith(b"NIST_1A") and b"shorten" in head
