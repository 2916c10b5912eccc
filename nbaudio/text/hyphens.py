"""Words that a hyphen divides at the end of a line, and those that only seem so."""

#: Words behind the end of a line that do not continue the word in front of it, such as "Haus- und".
CONJUNCTIONS = frozenset(
    (
        "a",
        "and",
        "bis",
        "e",
        "ed",
        "eller",
        "en",
        "et",
        "i",
        "ili",
        "ja",
        "nebo",
        "o",
        "och",
        "oder",
        "of",
        "og",
        "or",
        "oraz",
        "ou",
        "sau",
        "to",
        "u",
        "und",
        "y",
        "și",
        "и",
        "или",
        "та",
    )
)
