"""The script that words are written in, by the names of their characters in Unicode."""

import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import islice

#: Scripts whose words no blanks separate, by the first words of the names of their characters.
WITHOUT_BLANKS = frozenset(("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR"))

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
