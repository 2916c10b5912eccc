"""The words of transcripts that are not cut: as typed, normalized, and those that were spoken."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from nbaudio.formats.documents import Document
from nbaudio.text.asides import Asides, find_asides, join_asides, split_footnotes
from nbaudio.text.hyphens import CONJUNCTIONS
from nbaudio.text.normalization import normalize_column
from nbaudio.text.segmentation import Typed
from nbaudio.text.unspoken import Spoken, spoken_letters
from nbaudio.text.word_pairs import WordPairs

Ints = npt.NDArray[np.int64]

# Also the parts of a word that a hyphen at the end of a line divides.
_TOKEN = re.compile(r"(?:(?<=[^\W\d_])[-‐\u00ad][^\S\n]*\n[^\S\n]*(?=[^\W\d_])|\S)+")
_HYPHEN_AT_LINE_END = re.compile(r"[-‐\u00ad]\s+")
_SENTENCE_END = re.compile(r"[.!?…:;。؟।)\]][\"'”’»«)\]]*$")  # end of a sentence, or of a remark
# Marks that belong to the word before them, after a blank as well.
_MARKS = re.compile(r"[.!?…:;。؟।,،%\"'”’»)\]]+")
# Marks behind a bracket or the number of a footnote, which end what is before the bracket.
_MARKS_BEHIND = re.compile(r"(?:[)\]}⁰¹²³⁴-⁹]|\A\^?\d{1,3})([.!?…:;,。؟।،]+[\"'”’»]*)$")
# Marks behind a remark that follows in the same line.
_MARKS_OF_NEXT = re.compile(
    r"[^\S\n]*(?:[(\[{][^()\[\]{}]*[)\]}]|[⁰¹²³⁴-⁹]+|(?<=\w)\^?\d{1,3})"
    r"([.!?…:;,。؟।،]+[\"'”’»]*)"
)
_HAS_MARK = re.compile(r"[.!?…:;,。؟।،]$")
_FIRST_WORD = re.compile(r"\w+")
_ENDING = 9  # characters at the end of a word in which the end of a sentence is looked for


@dataclass(frozen=True)
class Span:
    """A word with its marks: its document, its utterance, and its characters (half open)."""

    document: int
    utterance: int
    start: int
    end: int


@dataclass(frozen=True)
class TranscriptWords:
    """The words of documents, one after the other.

    Attributes:
        words: normalized, none empty.
        spans: where each is.
        texts: as typed, with marks.
        speakers: the speaker of each, or None.
        asides: which of them may not have been spoken.
    """

    words: list[str]
    spans: list[Span]
    texts: list[str]
    speakers: list[str | None]
    asides: Asides


@dataclass(frozen=True)
class SpokenWords:
    """The words of transcripts without those that nobody spoke.

    Attributes:
        typed: the words, with sentences and turns.
        numbers: the number of each word among all.
        pairs: pairs of these words.
    """

    typed: Typed
    numbers: Ints
    pairs: WordPairs


@dataclass(frozen=True)
class Label:
    """The text of a segment.

    Attributes:
        text: as typed, without words that nobody spoke, with single blanks.
        typed: all that is typed there.
        tokens: for each spoken word of the segment, the number of its token of `text`.
    """

    text: str
    typed: str
    tokens: list[int]

    def raw_text(self) -> str | None:
        """Return all that is typed there; None if the text is the same."""
        if self.typed == self.text:
            return None
        return self.typed


def split_documents(documents: Sequence[Document]) -> TranscriptWords:
    """Split documents into words."""
    words: list[str] = []
    spans: list[Span] = []
    asides: list[Asides] = []
    for number, document in enumerate(documents):
        document_words, document_spans = _split(number, document)
        typed = [document.text[span.start : span.end] for span in document_spans]
        starts = [span.start for span in document_spans]
        asides.append(find_asides(document.text, starts, typed))
        words += document_words
        spans += document_spans
    texts = [documents[span.document].text[span.start : span.end] for span in spans]
    speakers = [documents[span.document].utterances[span.utterance].speaker_id for span in spans]
    return TranscriptWords(words, spans, texts, speakers, join_asides(asides))


def _split(number: int, document: Document) -> tuple[list[str], list[Span]]:
    """Return the normalized words of a document, and where they are."""
    starts = [utterance.start for utterance in document.utterances]
    tokens = list(_tokens(document.text))
    texts = [_joined_at_line_ends(document.text[start:end]) for start, end in tokens]
    words: list[str] = []
    spans: list[Span] = []
    for (start, end), text, word in zip(tokens, texts, normalize_words(texts), strict=True):
        utterance = max(0, bisect_right(starts, start) - 1)
        if word:
            words.append(word)
            spans.append(Span(number, utterance, start, end))
        elif spans and spans[-1].utterance == utterance and _MARKS.fullmatch(text):
            spans[-1] = Span(number, utterance, spans[-1].start, end)
    return words, spans


def _tokens(text: str) -> Iterator[tuple[int, int]]:
    """Yield the characters of tokens, which blanks separate, and of numbers of footnotes."""
    for start, end in _written_tokens(text, 0, len(text)):
        place = start
        for part in split_footnotes(text[start:end]):
            yield place, place + len(part)
            place += len(part)


def _written_tokens(text: str, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the characters of what blanks separate, also of words that line ends divide."""
    for token in _TOKEN.finditer(text, first, last):
        start = token.start()
        for hyphen in _HYPHEN_AT_LINE_END.finditer(text, start, token.end()):
            behind = _FIRST_WORD.match(text, hyphen.end(), token.end())
            if behind and behind[0] in CONJUNCTIONS:
                yield start, hyphen.start() + 1
                start = hyphen.end()
        yield start, token.end()


def _joined_at_line_ends(token: str) -> str:
    r"""Return a token without hyphens at line ends, which stay before capital letters.

    Example:
        >>> _joined_at_line_ends("ses-\nsion"), _joined_at_line_ends("Smith-\nJones")
        ('session', 'Smith-Jones')
    """
    hyphens = [hyphen.span() for hyphen in _HYPHEN_AT_LINE_END.finditer(token)]
    joined = token
    for start, end in reversed(hyphens):
        mark = "-" if token[end].isupper() and token[start] != "\u00ad" else ""
        joined = joined[:start] + mark + joined[end:]
    return joined


def normalize_words(words: Sequence[str]) -> list[str]:
    """Normalize words, also their ligatures.

    Soft hyphens, zero-width characters and blanks in place of punctuation are removed.
    """
    different = [*dict.fromkeys(words)]
    visible = (
        pl.Series(different, dtype=pl.String).str.normalize("NFKC").str.replace_all(r"\p{Cf}", "")
    )
    normal = normalize_column(visible).str.replace_all(" ", "", literal=True)
    lexicon = dict(zip(different, normal, strict=True))
    return [lexicon[word] for word in words]


def leave_out_unspoken(words: TranscriptWords, spoken: Spoken) -> SpokenWords:
    """Return the words that were spoken.

    A segment leaves neither the turn of its speaker nor a part of the transcript between two names
    of speakers, or between two remarks or headings that are sentences of their own.
    """
    numbers = np.flatnonzero(~spoken.is_unspoken)
    letters = np.array([spoken_letters(word) for word in words.words], np.int64)
    unspoken_letters = np.concatenate(([0], np.cumsum(letters * spoken.is_unspoken)))
    left_out = np.diff(unspoken_letters[numbers], prepend=0)
    spoken_numbers = numbers.tolist()
    ends = [
        _ends_sentence(words, number, following) for number, following in pairwise(spoken_numbers)
    ]
    is_turn = [
        bool(spoken.is_break[following]) or _is_turn(words, number, following)
        for number, following in pairwise(spoken_numbers)
    ]
    place = np.cumsum(~spoken.is_unspoken) - 1
    pairs = spoken.pairs
    return SpokenWords(
        Typed(
            [words.words[number] for number in spoken_numbers],
            np.array([*ends, True][: len(spoken_numbers)], np.bool_),
            np.cumsum([True, *is_turn][: len(spoken_numbers)], dtype=np.int64),
            left_out,
        ),
        numbers,
        WordPairs(place[pairs.left], pairs.right, pairs.probability),
    )


def _ends_sentence(words: TranscriptWords, number: int, following: int) -> bool:
    """Return whether a word ends a sentence; words up to the following one are left out.

    Where the next word is in lower case, as after "str. 5", a full stop ends no sentence.
    """
    is_lower = words.texts[following][:1].islower()
    is_left_out = following > number + 1
    if _place(words, number) != _place(words, following) and not (is_left_out and is_lower):
        return True
    last = _ends_with_mark(words.texts[following - 1])
    return (_ends_with_mark(words.texts[number]) or last) and not is_lower


def _place(words: TranscriptWords, number: int) -> tuple[int, int]:
    span = words.spans[number]
    return span.document, span.utterance


def _ends_with_mark(text: str) -> bool:
    return bool(_SENTENCE_END.search(text[-_ENDING:]))


def _is_turn(words: TranscriptWords, number: int, following: int) -> bool:
    """Return whether no segment may span two words, between which others are left out."""
    if words.speakers[number] != words.speakers[following]:
        return True
    if words.spans[number].document != words.spans[following].document:
        return True
    left_out = range(number + 1, following)
    if any(int(words.asides.group[between]) in words.asides.labels for between in left_out):
        return True
    has_letters = any(any(map(str.isalpha, words.words[between])) for between in left_out)
    is_sentence = has_letters and _ends_with_mark(words.texts[following - 1])
    return is_sentence and _ends_with_mark(words.texts[number])


def label(
    text: str, words: TranscriptWords, numbers: Sequence[int], *, is_left_out_behind: bool
) -> Label:
    """Return the label of a segment.

    Args:
        text: of the document.
        words: of all documents.
        numbers: the words of the segment that were spoken, at least one.
        is_left_out_behind: whether the word behind the segment was not spoken.
    """
    tokens: list[str] = []
    places: list[int] = []
    for piece in _pieces(numbers):
        first = words.spans[piece[0]].start
        last = words.spans[piece[-1]].end
        written = list(_written_tokens(text, first, last))
        starts = [start for start, _ in written]
        places += [
            len(tokens) + bisect_right(starts, words.spans[number].start) - 1 for number in piece
        ]
        tokens += [_joined_at_line_ends(text[start:end]) for start, end in written]
        if piece[-1] != numbers[-1]:
            tokens[-1] += _marks_behind(text, words, piece[-1], numbers)
        elif is_left_out_behind:
            tokens[-1] += _marks_of_next_remark(text, words, piece[-1])
    typed = text[words.spans[numbers[0]].start : words.spans[numbers[-1]].end]
    return Label(" ".join(tokens), typed, places)


def _pieces(numbers: Sequence[int]) -> Iterator[list[int]]:
    """Yield runs of numbers that follow each other."""
    piece: list[int] = []
    for number in numbers:
        if piece and number != piece[-1] + 1:
            yield piece
            piece = []
        piece.append(number)
    yield piece


def _marks_behind(text: str, words: TranscriptWords, number: int, numbers: Sequence[int]) -> str:
    """Return the marks behind a remark that is left out after a word, if the word has none."""
    following = numbers[bisect_right(numbers, number)]
    remark = text[words.spans[number].end : words.spans[following - 1].end]
    marks = _MARKS_BEHIND.search(remark)
    if marks and not _HAS_MARK.search(words.texts[number]):
        return marks[1]
    return ""


def _marks_of_next_remark(text: str, words: TranscriptWords, number: int) -> str:
    """Return the marks behind a remark that follows a word, if the word has none."""
    marks = _MARKS_OF_NEXT.match(text, words.spans[number].end)
    if marks and not _HAS_MARK.search(words.texts[number]):
        return marks[1]
    return ""
