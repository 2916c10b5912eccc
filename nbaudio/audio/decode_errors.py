"""Why a file is of no use as a recording, in words for people: the decoders' own words say little."""

from pathlib import Path

# Beyond what any recorder writes. A damaged header that says more would ask for gigabytes.
MAX_RATE = 1_000_000
MAX_CHANNELS = 64

_HEAD_BYTES = 4096


def implausible_header(rate: int, channels: int) -> str | None:
    """What is wrong with a header's numbers; None when they can be true.

    Examples:
        >>> implausible_header(44100, 2)
        >>> implausible_header(2**31 - 1, 2)
        'its header is damaged: it says 2147483647 Hz, 2 channels'
    """
    if 0 < rate <= MAX_RATE and 0 < channels <= MAX_CHANNELS:
        return None
    return f"its header is damaged: it says {rate} Hz, {channels} channels"


def unknown_format_reason(path: Path) -> str:
    """What a file is that no decoder takes, from its first bytes.

    Examples:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.wav"
        >>> path.write_text("<!DOCTYPE html><html>not found</html>")
        37
        >>> unknown_format_reason(path)
        'not audio but a web page; did a download fail?'
    """
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    kind = _kind(head)
    if kind is not None:
        return kind
    if not head.strip(b"\0"):
        return "not audio: it begins with nothing but zeros; was it written to its end?"
    if _is_text(head):
        page = head.lstrip()[:9].lower().startswith((b"<!doctype", b"<html"))
        return "not audio but a web page; did a download fail?" if page else "not audio but text"
    return f"not audio of any kind that is known; it begins with the bytes {head[:8].hex(' ')}"


def no_samples_reason(path: Path) -> str:
    """Why a file whose header is read gives no sample."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    return _shortened(head) or "a header without a single sample behind it that can be decoded"


def _shortened(head: bytes) -> str | None:
    if not head.startswith(b"NIST_1A") or b"shorten" not in head:
        return None
    return "a NIST SPHERE file compressed with shorten, which cannot be decoded; unpack it first with 'sph2pipe -f wav'"


def _kind(head: bytes) -> str | None:
    """Formats that are audio, of which something is missing."""
    if shortened := _shortened(head):
        return shortened
    if head[:4] in (b"RIFF", b"RIFX", b"RF64"):
        return "the beginning of a WAV file without the part that says what its samples are, or damaged there"
    if head[4:8] == b"ftyp":
        return "an MP4 file without its index; it was cut short, or is still being written"
    names = {b"fLaC": "FLAC", b"OggS": "Ogg", b"FORM": "AIFF", b"\x1aE\xdf\xa3": "Matroska or WebM", b"ID3": "MP3"}
    found = next((name for start, name in names.items() if head.startswith(start)), None)
    return f"begins like {found} and is damaged or cut short there" if found else None


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode("utf8")
    except UnicodeDecodeError as error:  # the cut may have split the last character
        if error.start < len(head) - 3:
            return False
        text = head[: error.start].decode("utf8")
    return all(letter.isprintable() or letter.isspace() for letter in text)
