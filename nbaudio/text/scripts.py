"""The script that words are written in, and letters of several scripts that look alike."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import islice

#: Scripts whose words no blanks separate, by the first words of the names of their characters.
WITHOUT_BLANKS = frozenset(("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR"))

#: Letters of Cyrillic and Greek, and letters with strokes, by the letter that they look like.
LOOKS_LIKE = dict(
    zip(
        "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u04bb\u0501\u051b\u051d"
        "\u043a\u043c\u0442\u0432\u043d\u03bf\u03b1\u03c1\u03bd\u03b9\u03ba\u03c4\u03c5\u03c7\u03b5"
        "\u0131\u0142\u0111\u00f8\u0127",
        "aeopcyxijshdqwkmtbhoapviktuxeildoh",
        strict=True,
    )
)

_MOST_LETTERS = 10_000  # letters that are looked at


def script_of(words: Iterable[str]) -> str:
    """Return the script of most letters, as Unicode names it; empty if there are none.

    Examples:
        >>> script_of(["dobar", "dan"]), script_of(["добар", "дан"]), script_of(["12"])
        ('LATIN', 'CYRILLIC', '')
    """
    letters = (letter for word in words for letter in word if letter.isalpha())
    names = (unicodedata.name(letter, "") for letter in islice(letters, _MOST_LETTERS))
    counts = Counter(name.partition(" ")[0] for name in names)
    return max(counts, key=lambda name: counts[name], default="")
