"""Checks of texts: empty, markup, digits, odd characters, another script, length for the clip."""

import unicodedata
from collections import Counter

import polars as pl

from nbaudio.selection.audits.audited import Audited
from nbaudio.selection.audits.findings import Check, Hits, Settings, rows_where
from nbaudio.text.characters import count_characters
from nbaudio.text.near_duplicates import sentences
from nbaudio.text.scripts import script_of

_TEXT = pl.col("text")
_RATE = _TEXT.str.len_chars() / pl.col("duration_s")
# Tags, entities, addresses, and what stands in brackets.
_MARKUP = r"</?\w[^<>]*>|&#?\w+;|https?://|\{[^{}]*\}|\[[^\[\]]*\]|\*\*|^#+ "
# A digit and, somewhere, a word of two letters.
_DIGITS = r"\p{Nd}"
_WORD = r"\p{L}{2}"
_LEAST_S = 1.0
# Punctuation that transcripts have in any language, beside that of their script.
_USUAL = frozenset(" .,;:?!'\"-–—…’‘“”„‚«»‹›¡¿·()/%&+")
_GENERAL_PUNCTUATION = range(0x2000, 0x2070)  # has bullets and daggers
_FIRST_OF_SCRIPTS = 0x100
_SCRIPT_TEXTS = 2000


def _empty(audited: Audited, _: Settings) -> Hits:
    is_empty = sentences(_TEXT.fill_null("")).is_null()
    return rows_where(audited, is_empty, "text")


def _markup(audited: Audited, _: Settings) -> Hits:
    return rows_where(audited, _TEXT.str.contains(_MARKUP), "text")


def _digits(audited: Audited, _: Settings) -> Hits:
    has_both = _TEXT.str.contains(_DIGITS) & _TEXT.str.contains(_WORD)
    return rows_where(audited, has_both, "text")


def _odd_characters(audited: Audited, _: Settings) -> Hits:
    has_markup = _TEXT.str.contains(_MARKUP)
    plain = audited.rows.select("segment_id", "text").filter(~has_markup)
    parts = plain.iter_slices(1 << 16)
    unusual = count_characters(parts).odd["character"]
    odd = [character for character in unusual if not _is_usual(character)]
    if not odd:
        return Hits(0, len(audited.shipped))
    has_odd = pl.any_horizontal(_TEXT.str.contains(character, literal=True) for character in odd)
    hits = rows_where(audited, has_odd & ~has_markup, "text")
    listed = " ".join(f"U+{ord(character):04X}" for character in odd[:8])
    examples = [f"characters {listed}", *hits.examples][:5] if hits.examples else hits.examples
    return Hits(hits.count, hits.of, examples, hits.left_out)


def _is_usual(character: str) -> bool:
    """Return whether a character is common punctuation, also that of a script, such as ``。``."""
    plain = unicodedata.normalize("NFKC", character)
    is_of_script = ord(character) >= _FIRST_OF_SCRIPTS and (
        ord(character) not in _GENERAL_PUNCTUATION
    )
    is_punctuation = is_of_script and unicodedata.category(character).startswith("P")
    return character in _USUAL or plain in _USUAL or (is_punctuation and not plain.isascii())


def main_script(audited: Audited) -> str:
    """Return the script of most texts, by the name that Unicode has for it; empty for none."""
    texts = audited.rows["text"].drop_nulls()
    # Texts from all of the table, so that a first part in another script does not decide.
    drawn = texts.gather_every(max(1, len(texts) // _SCRIPT_TEXTS))
    counts = Counter(script_of([text]) for text in drawn)
    counts.pop("", None)
    return max(sorted(counts), key=lambda name: counts[name], default="")


def _other_script(audited: Audited, _: Settings) -> Hits:
    script = main_script(audited)
    if not script:
        return Hits(0, len(audited.shipped))
    distinct = audited.rows.select(_TEXT.drop_nulls().unique()).to_series()
    # Most texts are plain: in Latin script, only those with another letter are looked at.
    if script == "LATIN":
        distinct = distinct.filter(distinct.str.contains(r"[^\x00-\x7FÀ-ɏ]"))
    others = [text for text in distinct if script_of([text]) not in (script, "")]
    return rows_where(audited, _TEXT.is_in(others), "text")


def _other_language(audited: Audited, _: Settings) -> Hits:
    # Of en-US, EN and en, all are en.
    language = pl.col("language").str.to_lowercase().str.extract(r"^\s*(\p{L}+)")
    languages = audited.shipped.select(language.drop_nulls()).to_series()
    main_language = languages.mode().sort().first()
    has_language = language.is_not_null()
    return rows_where(audited, language != main_language, "language", "text", among=has_language)


def _too_long(audited: Audited, settings: Settings) -> Hits:
    is_fast = (pl.col("duration_s") > 0) & (settings.max_rate < _RATE)
    return rows_where(audited, is_fast, "duration_s", "text")


def _too_short(audited: Audited, settings: Settings) -> Hits:
    is_slow = (pl.col("duration_s") >= _LEAST_S) & (settings.min_rate > _RATE)
    return rows_where(audited, is_slow, "duration_s", "text")


CHECKS = (
    Check(
        "empty texts",
        "texts without a letter or digit",
        0.0,
        "Leave them out: nbaudio select W, or filter the rows.",
        _empty,
        ("text",),
    ),
    Check(
        "texts too long for their clips",
        "more than 30 characters a second",
        0.002,
        "Texts may be of other clips; listen to some: nbaudio review export W --out s.xlsx.",
        _too_long,
        ("text", "duration_s"),
    ),
    Check(
        "texts too short for their clips",
        "fewer than 2 characters a second, in clips of 1 s and more",
        0.01,
        "Texts may lack speech; listen to some: nbaudio review export W --out s.xlsx.",
        _too_short,
        ("text", "duration_s"),
    ),
    Check(
        "another script",
        "the script of most letters is not that of most texts",
        0.001,
        "Correct the source, or reject them by nbaudio.review.import_decisions(W, table).",
        _other_script,
        ("text",),
    ),
    Check(
        "another language",
        "the language is not that of most texts",
        0.01,
        "Leave them out: nbaudio select W --where \"language = 'LANGUAGE'\".",
        _other_language,
        ("language",),
    ),
    Check(
        "odd characters",
        "characters that are no letters, digits or common punctuation; texts with markup aside",
        0.01,
        "See nbaudio.views.characters(W); correct the source, and ingest it again.",
        _odd_characters,
        ("text",),
    ),
    Check(
        "markup in texts",
        "tags, entities, web addresses, brackets",
        0.001,
        "Remove it in the source, and ingest it again; or leave these rows out: "
        "nbaudio select W --where \"text not like '%<%>%'\".",
        _markup,
        ("text",),
    ),
    Check(
        "digits beside words",
        "a digit in a text that has words",
        0.02,
        "Write numbers in one way; compare them with words: nbaudio score W --language LANGUAGE.",
        _digits,
        ("text",),
    ),
)
