"""Find mojibake: UTF-8 that was decoded with a Windows code page, ``Å¡to`` for ``što``."""

import codecs
from contextlib import suppress

#: Matches all texts with mojibake: each letter became two or three characters outside of ASCII.
PATTERN = r"[^\x00-\x7F]{2}"
_CODE_PAGES = ("cp1252", "cp1250")
_KEEP_CONTROLS = "nbaudio.keep_controls"


def repaired(text: str) -> str | None:
    """Return the text as it was before it was decoded wrongly; None if it was not.

    Examples:
        >>> repaired("Å¡to je to"), repaired("Ĺˇto je to")
        ('što je to', 'što je to')
        >>> repaired("što je to") is None
        True
    """
    if text.isascii():
        return None
    for code_page in _CODE_PAGES:
        with suppress(UnicodeError):
            return text.encode(code_page, _KEEP_CONTROLS).decode("utf-8")
    return None


def _keep_control(error: UnicodeError) -> tuple[bytes, int]:
    """Encode a control character as one byte: bytes without a character are decoded to it."""
    if isinstance(error, UnicodeEncodeError):
        character = error.object[error.start]
        if "\x80" <= character <= "\x9f":
            return bytes([ord(character)]), error.start + 1
    raise error


codecs.register_error(_KEEP_CONTROLS, _keep_control)
