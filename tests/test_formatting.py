"""Formatting: what is read alike counts as equal, and nothing else does."""

import random

import polars as pl
import pytest

from nbaudio import text
from nbaudio.core.errors import InputError
from nbaudio.text.edit_distance import edit_counts, words
from nbaudio.text.formatting import Formatting, fold, spoken_counts

EQUAL = [
    ("hr", "25 % od 5. članka", "Dvadeset i pet posto od petog članka."),
    ("hr", "25% poreza", "dvadeset pet posto poreza"),
    ("hr", "i 25", "i dvadeset i pet"),
    ("hr", "2018. godine", "dvije tisuće osamnaeste godine"),
    ("hr", "1991. i 1992.", "tisuću devetsto devedeset prve i tisuću devetsto devedeset druge"),
    ("hr", "100 000 kuna", "sto tisuća kuna"),
    ("hr", "100.000 kn", "sto tisuća kuna"),
    ("hr", "1.234.567", "milijun dvjesto trideset četiri tisuće petsto šezdeset sedam"),
    ("hr", "2.000.000", "dva milijuna"),
    ("hr", "3,5 %", "tri zarez pet posto"),
    ("hr", "5.6.2018.", "petog šestog dvije tisuće osamnaeste"),
    ("hr", "1/2 i 3/4", "pola i tri četvrtine"),
    ("hr", "dr. sc. Horvat itd.", "doktor znanosti Horvat i tako dalje"),
    ("hr", "1 kuna", "jedna kuna"),
    ("hr", "21. sjednica", "dvadeset prva sjednica"),
    ("hr", "treći 3. put", "3. treći put"),
    ("en", "In 2010, 25% paid $5.", "in twenty ten twenty five percent paid five dollars"),
    ("en", "1,250", "one thousand two hundred and fifty"),
    ("en", "1,250", "one thousand two hundred fifty"),
    ("en", "the 21st", "the twenty-first"),
    ("en", "3.5", "three point five"),
    ("en", "e.g. this", "for example this"),
    ("en", "12:30", "twelve thirty"),
    ("en", "room 405", "room four zero five"),
    ("de", "25 %", "fünfundzwanzig Prozent"),
    ("fr", "25 %", "vingt-cinq pour cent"),
    (None, "crno-bijeli svijet", "crno bijeli svijet"),
    (None, "crnobijeli svijet", "crno-bijeli svijet"),
    (None, "ﬁnal ﬂat Œuvre ǆep", "final flat oeuvre džep"),
    (None, "„Da“, ne – možda!", "da ne možda"),
    (None, "", "–"),
]
DIFFERENT = [
    ("hr", "25 %", "dvadeset šest posto", 1),
    ("hr", "25 % i 26 kuna", "dvadeset pet posto i dvadeset kuna", 1),
    ("hr", "5", "šest", 1),
    ("hr", "1000", "sto", 1),
    ("hr", "25 %", "dvadeset pet", 1),
    ("en", "21st", "twenty second", 1),
    ("en", "$5", "five euros", 1),
    (None, "25", "dvadeset", 1),
    (None, "da ne", "da da ne", 1),
    (None, "sabor", "sabora", 1),
    (None, "", "a b", 2),
]


@pytest.mark.parametrize(("language", "one", "other"), EQUAL)
def test_texts_that_are_read_aloud_alike_count_as_equal(language, one, other):
    rules = Formatting(language)
    assert rules.edits(one, other) == 0
    assert rules.edits(other, one) == 0
    left, right = rules.spoken_forms(one, other)
    assert left == right
    kinds = {part.kind for part in text.word_diff(one, other, formatting=rules)}
    assert kinds <= {"equal", "formatting"}


@pytest.mark.parametrize(("language", "one", "other", "edits"), DIFFERENT)
def test_texts_that_are_read_aloud_differently_count_as_errors(language, one, other, edits):
    rules = Formatting(language)
    assert rules.edits(one, other) == edits
    assert rules.edits(other, one) == edits


def test_croatian_numbers_equal_their_spoken_forms():
    rules = Formatting("hr")
    said = {
        0: "nula",
        7: "sedam",
        13: "trinaest",
        40: "četrdeset",
        99: "devedeset devet",
        101: "sto jedan",
        215: "dvjesto petnaest",
    }
    said |= {
        1001: "tisuću jedan",
        2022: "dvije tisuće dvadeset dva",
        345_678: "tristo četrdeset pet tisuća šesto sedamdeset osam",
    }
    said |= {10**6: "milijun", 7_000_001: "sedam milijuna jedan", 10**9: "milijarda"}
    for number, spoken in said.items():
        assert rules.edits(str(number), spoken) == 0, number
        assert not rules.uncovered(pl.Series([str(number)]))
    assert all(rules.alternatives(str(number)) for number in range(0, 2_000_000, 997))


def test_numbers_that_num2words_cannot_say_in_a_language_are_left_out():
    # In Polish, Catalan and Korean it raises errors of lookups for some ordinals; in Serbian it has
    # none.
    for language, written, spoken in (
        ("pl", "0", "zero"),
        ("ca", "30", "trenta"),
        ("ko", "10", "십"),
        ("sr", "5:6", "pet šest"),
    ):
        rules = Formatting(language)
        assert rules.edits(written, spoken) == 0
        assert all(rules.alternatives(written))
    assert Formatting("sr").edits("5:6", "pet") > 0


def test_spoken_numbers_equal_only_their_own_digits():
    rules = Formatting("hr")
    spoken = {
        number: " ".join(min(words) for words in rules.alternatives(str(number))[0])
        for number in range(1, 400)
    }
    draw = random.Random(5)
    for _ in range(300):
        one, other = draw.sample(sorted(spoken), 2)
        assert rules.edits(str(one), spoken[other]) > 0, (one, other)
        assert rules.edits(str(one), spoken[one]) == 0


def test_the_diff_tells_formatting_from_errors_and_keeps_the_words():
    rules = Formatting("hr")
    parts = text.word_diff(
        "Prvo, 25 % – od 26 kuna.", "prvo dvadeset i pet posto od dvadeset kuna e", formatting=rules
    )
    found = [(part.kind, part.reference, part.hypothesis) for part in parts]
    assert found == [
        ("formatting", ("Prvo,", "25", "%"), ("prvo", "dvadeset", "i", "pet", "posto")),
        ("equal", ("–",), ()),
        ("equal", ("od",), ("od",)),
        ("replace", ("26",), ("dvadeset",)),
        ("formatting", ("kuna.",), ("kuna",)),
        ("insert", (), ("e",)),
    ]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))]
)
def test_the_diff_has_all_words_in_order_and_no_more_edits_than_without_formatting(seed):
    draw = random.Random(seed)
    some = [
        "da",
        "ne",
        "25",
        "%",
        "dvadeset",
        "pet",
        "posto",
        "i",
        "Da,",
        "–",
        "5.",
        "peti",
        "crno-bijeli",
        "crno",
        "bijeli",
        "itd.",
        "tako",
        "dalje",
    ]
    rules = Formatting("hr")
    for _ in range(60):
        one, other = (" ".join(draw.choices(some, k=draw.randrange(9))) for _ in range(2))
        parts = text.word_diff(one, other, formatting=rules)
        assert [word for part in parts for word in part.reference] == words(one)
        assert [word for part in parts for word in part.hypothesis] == words(other)
        plain = edit_counts(pl.Series([one]), pl.Series([other]))
        spoken = spoken_counts(pl.Series([one]), pl.Series([other]), rules, plain)
        for name in ("edits", "word_edits", "inner_edits"):
            assert spoken[name][0] <= plain[name][0]
        folded = [" ".join(filter(None, map(fold, words(side)))) for side in (one, other)]
        assert (
            rules.edits(one, other)
            <= edit_counts(pl.Series([folded[0]]), pl.Series([folded[1]]))["word_edits"][0]
        )


def test_a_table_of_the_user_extends_the_rules(tmp_path):
    table = tmp_path / "own.tsv"
    table.write_text(
        (
            "language\twritten\tspoken\nhr\tRH\tRepublika Hrvatska | Republike "
            "Hrvatske\n*\tkm/h\tkilometara na sat\n"
        ),
        encoding="utf8",
    )
    rules = Formatting("hr", table)
    assert rules.edits("u RH je 50 km/h", "u Republike Hrvatske je pedeset kilometara na sat") == 0
    assert Formatting("en", table).edits("RH", "Republika Hrvatska") > 0
    table.write_text("sr\t1000\thiljadu\n", encoding="utf8")
    assert Formatting("sr", table).has_numbers
    table.write_text("hr\tRH\n", encoding="utf8")
    with pytest.raises(
        InputError, match=r"own\.tsv: line 1: expected language, written and spoken"
    ):
        Formatting("hr", table)
    table.write_bytes(b"hr\t\xff\tda\n")
    with pytest.raises(InputError, match=r"own\.tsv: cannot be read as a table of formatting"):
        Formatting("hr", table)
    with pytest.raises(InputError, match=r"gone\.tsv: cannot be read"):
        Formatting("hr", tmp_path / "gone.tsv")


def test_tokens_that_no_formatting_rule_covers_are_counted():
    texts = ["u 12 h A4 i 20-ak", "po čl. 5. st. 2. abc. i A4", None, "kraj."]
    assert dict(Formatting("hr").uncovered(pl.Series(texts))) == {"A4": 2, "20-ak": 1, "abc.": 1}
    assert "12" in Formatting().uncovered(pl.Series(texts))


def test_a_language_without_spoken_numbers_is_recognized():
    assert not Formatting("xx").has_numbers
    assert Formatting("hr,en").language == "hr"
    assert Formatting("en").has_numbers
    assert not Formatting().has_numbers


def test_counts_of_null_texts_are_null():
    frame = pl.DataFrame({"text": ["25", None, "da"], "asr_text": ["dvadeset pet", "da", None]})
    plain = edit_counts(frame["text"], frame["asr_text"])
    assert spoken_counts(frame["text"], frame["asr_text"], Formatting("hr"), plain)[
        "word_edits"
    ].to_list() == [0, None, None]
