"""Word errors of transcripts, by the corrected texts of reviewers."""

import polars as pl

from nbaudio.review.state import OK, UNSURE, ReviewState, content_hashes, word_hashes
from nbaudio.tables.schemas import text_column
from nbaudio.text.edit_distance import edit_counts
from nbaudio.text.formatting import spoken_counts
from nbaudio.text.normalization import normalize_column
from nbaudio.text.score import formatting_rules, normalization_steps

#: The columns of `wrong_shares`.
SHARES = pl.Schema({"segment_id": pl.String, "wrong_share": pl.Float64})


def wrong_shares(state: ReviewState, segments: pl.DataFrame) -> pl.DataFrame:
    """Return the shares of words that are wrong in transcripts with a corrected text.

    Words are compared as in the column `spoken_wer` of the last `score`: formatting is no error. A
    share is the number of word edits over the words of the transcript, 1 at most.

    Args:
        state: the reviews.
        segments: segments with the texts that count; corrected texts of other texts do not.

    Returns:
        `segment_id` and `wrong_share` of segments of which a verdict names a fault and has a
        corrected text: the adjudicator's, or else the one with most errors.
    """
    corrections = _corrections_of_shown_texts(state, segments)
    if corrections.is_empty():
        return pl.DataFrame(schema=SHARES)
    shares = corrections.with_columns(wrong_share=_shares(state, corrections))
    is_last_word = pl.col("reviewer").is_in(state.adjudicators)
    of_adjudicators = shares.filter(is_last_word)
    others = shares.join(of_adjudicators, on="segment_id", how="anti")
    decisive = [_last(of_adjudicators, "segment_id"), _last(others, "segment_id", "reviewer")]
    by_segment = pl.concat(decisive).group_by("segment_id")
    return by_segment.agg(pl.col("wrong_share").max()).sort("segment_id").match_to_schema(SHARES)


def _corrections_of_shown_texts(state: ReviewState, segments: pl.DataFrame) -> pl.DataFrame:
    """Return the corrected texts of segments as they are: `text` and `corrected_text`, by verdict.

    A text as it is was shown, up to formatting. One that was corrected later was not.
    """
    verdicts = state.verdicts.filter(
        pl.col("corrected_text").is_not_null(), ~pl.col("verdict").is_in([OK, UNSURE])
    )
    judged = segments.filter(pl.col("segment_id").is_in(verdicts["segment_id"].implode()))
    is_corrected = (
        text_column(judged, "text_corrected").is_not_null()
        | text_column(judged, "corrected_by").is_not_null()
    )
    now = judged.select(
        "segment_id",
        "text",
        content_now=pl.Series(content_hashes(judged), dtype=pl.String),
        words_now=pl.when(~is_corrected).then(pl.Series(word_hashes(judged), dtype=pl.String)),
    ).unique("segment_id")
    shown = state.drawn.unique(["segment_id", "content"])
    compared = verdicts.join(now, on="segment_id", maintain_order="left")
    compared = compared.join(shown, on=["segment_id", "content"], how="left", maintain_order="left")
    is_as_shown = pl.col("content") == pl.col("content_now")
    has_words_as_shown = (pl.col("shown") == pl.col("words_now")).fill_null(value=False)
    return compared.filter(is_as_shown | has_words_as_shown)


def _shares(state: ReviewState, corrections: pl.DataFrame) -> pl.Series:
    """Return the share of wrong words in each `text`, by its `corrected_text`."""
    steps = ("nfc", *normalization_steps(state.workspace))
    text = normalize_column(corrections["text"].fill_null(""), steps)
    corrected = normalize_column(corrections["corrected_text"], steps)
    plain = edit_counts(text, corrected)
    counts = spoken_counts(text, corrected, formatting_rules(state.workspace), plain)
    words = pl.max_horizontal("words", 1)
    return counts.select(pl.min_horizontal("word_edits", words) / words).to_series()


def _last(rows: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Return the last row of each group."""
    return rows.unique(by, keep="last", maintain_order=True)
