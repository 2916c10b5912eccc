"""Score how well each segment's hypotheses agree with a transcript, and among themselves."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from nbaudio.core import allocator, atomic
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report, count, show
from nbaudio.tables import schemas, workspace_tables
from nbaudio.tables.dataframes import STREAMED
from nbaudio.tables.workspace import Workspace, locks_workspace
from nbaudio.text.agreement import with_agreement
from nbaudio.text.characters import ODD, vocabulary
from nbaudio.text.edit_distance import edit_counts, error_rates
from nbaudio.text.formatting import Formatting, spoken_counts
from nbaudio.text.normalization import normalize_column

_COUNT = re.compile(r" ([\d,]+)$")  # the count at the end of a line such as "comma , 12"
_SHOWN_LINES = 8  # lines of a list in the report; the rest is counted
_KEPT_TABLE = "formatting.tsv"  # the copy of the formatting table in a workspace
_SIMILAR = 0.8  # the report counts the segments above this similarity


class Pair(NamedTuple):
    """A transcript and a hypothesis that are compared.

    Attributes:
        text: column of the transcript.
        hypothesis: column of the hypothesis.
        suffix: end of the names of their scores, such as ``_large``; empty for `text` and
            `asr_text`.
        steps: normalization steps.
        transcript: values of the transcript where they are not those of its column: see
            `Workspace.transcript`.
    """

    text: str
    hypothesis: str
    suffix: str
    steps: Sequence[str] = ()
    transcript: pl.Expr | None = None

    def texts(self, segments: pl.DataFrame) -> pl.Series:
        """Return the transcripts of segments."""
        if self.transcript is None:
            return segments[self.text]
        return segments.select(self.transcript.alias(self.text)).to_series()


@locks_workspace("score")
def score(
    workspace: Workspace | str | Path,
    *,
    text: str | None = None,
    hypothesis: str | Sequence[str] | None = None,
    normalize: Sequence[str] = (),
    language: str | None = None,
    formatting: str | Path | None = None,
) -> Report:
    """Write similarity, WER and CER of every segment to the segments table.

    The rows and the order of columns stay, and texts never change. With `text` and `hypothesis` the
    columns are `similarity_NAME`, `wer_NAME` and so on, ``_TEXT_HYP`` with both.
    `spoken_similarity`, `spoken_wer` and `spoken_cer` beside them count as equal what differs in
    formatting only: case, punctuation, hyphens, ligatures, and in a `language` also digits,
    percent, currency and abbreviations (`text.formatting`).

    With normalization steps the normal forms are compared; those of `text` and `asr_text` are
    stored as `text_normalized` and `asr_text_normalized`, which a score of the two without steps
    removes. Unicode normal form C is applied first in any case. Each call starts from the texts.
    Once all of several hypotheses have scores with `text`, each call writes `agreement` (mean
    similarity of two hypotheses), `agreement_text` (mean similarity with `text`), `text_disputed`
    (the hypotheses have the same words, and the text has others) and `disputed_words` (where all
    hypotheses differ from the text in the same way).

    Args:
        workspace: the workspace or its folder.
        text: name of a further transcript, `text_NAME`; by default `text`.
        hypothesis: name of a further hypothesis, `asr_text_NAME`, or several names; by default
            `asr_text`.
        normalize: names of steps from `text.NORMALIZERS`, in order.
        language: such as ``hr``, for the formatting; by default that of the last call.
        formatting: table of further alternatives, as `text.formatting.Formatting` describes; the
            workspace keeps a copy.

    Returns:
        Counts, mean scores and odd characters; a problem where no segment has what is compared.

    Raises:
        InputError: there is no workspace, its table cannot be read, or a name or step is unknown.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp())
        >>> texts = {"text": ["evo blic", "da"], "asr_text": ["evo blitz", None]}
        >>> workspace.save(segments=pl.DataFrame({"segment_id": ["a", "b"], **texts}))
        >>> score(workspace).facts["above_0_8"]
        0
        >>> workspace.segments["similarity"].round(3).to_list()
        [0.765, None]
    """
    allocator.share_arenas()
    workspace = Workspace.open(workspace)
    rules = Formatting(
        language or workspace.settings.get("language"), formatting or _kept_table(workspace)
    )
    hypotheses = [hypothesis] if hypothesis is None or isinstance(hypothesis, str) else hypothesis
    comparison = _comparison(workspace, text, hypotheses, normalize, rules)
    if formatting:
        atomic.write_bytes(workspace.path / _KEPT_TABLE, Path(formatting).read_bytes())
    tallies = [_Tally(pair, rules) for pair in comparison.pairs]
    originals = {}
    if workspace_tables.table_path(workspace, schemas.CORRECTED_TEXTS).exists():
        originals[schemas.CORRECTED_TEXTS] = _scored_originals(workspace, comparison)
    workspace.save_together(
        settings=workspace.settings | comparison.settings(),
        **originals,
        segments=_scored_batches(workspace, comparison, tallies),
    )
    reports = {tally.pair.suffix: tally.report(tallies[0]) for tally in tallies}
    other_steps = comparison.scored_by_other_steps(normalize)
    for suffix, report in reports.items():
        if other_steps:
            report.warnings.append(
                f"{', '.join(other_steps)} compared with other normalization steps: "
                "do not compare the scores"
            )
        _save_report(workspace, f"score{suffix}", report)
    return _joined_reports(reports)


@dataclass(frozen=True)
class _Comparison:
    """What a call of `score` compares, and how.

    Attributes:
        pairs: what is compared.
        scored: all pairs that have scores afterwards, of this call or an earlier one, by suffix.
        agreeing: hypotheses of which the agreement is computed; see `_hypotheses_to_agree`.
        rules: of formatting.
    """

    pairs: list[Pair]
    scored: dict[str, Pair]
    agreeing: dict[str, str]
    rules: Formatting

    def settings(self) -> dict[str, Any]:
        """Return what the settings of a workspace say of its scores."""
        scored = {
            suffix: {"pair": (pair.text, pair.hypothesis), "normalize": list(pair.steps)}
            for suffix, pair in self.scored.items()
        }
        return {"scored": scored, "language": self.rules.language}

    def scored_by_other_steps(self, steps: Sequence[str]) -> list[str]:
        """Return the similarity columns that were computed with other normalization steps."""
        return [
            f"similarity{suffix}"
            for suffix, pair in self.scored.items()
            if list(pair.steps) != list(steps)
        ]


def _comparison(
    workspace: Workspace,
    text: str | None,
    hypotheses: Iterable[str | None],
    steps: Sequence[str],
    rules: Formatting,
) -> _Comparison:
    """Return what is compared; raise InputError for unknown names."""
    table = workspace_tables.scan(workspace)
    schema = table.collect_schema()
    # The settings also have pairs whose scores another step removed, with a hypothesis that changed
    # or was withdrawn.
    scored = {
        suffix: pair
        for suffix, pair in _scored_pairs(workspace).items()
        if f"similarity{suffix}" in schema
    }
    pairs = [
        _find_pair(workspace, schema.names(), text, name, scored)._replace(steps=steps)
        for name in dict.fromkeys(hypotheses)
    ]
    scored.update({pair.suffix: pair for pair in pairs})
    return _Comparison(pairs, scored, _hypotheses_to_agree(table, scored.values()), rules)


def _scored_batches(
    workspace: Workspace, comparison: _Comparison, tallies: Sequence["_Tally"]
) -> Iterator[pl.DataFrame]:
    """Yield the segments table with the scores, and count each batch in the tallies.

    There is a tally for each pair of the comparison, in the same order.
    """
    path = str(workspace_tables.table_path(workspace))
    for batch in workspace_tables.read_batches(workspace):
        segments = schemas.conform(batch, schemas.SEGMENTS, path)
        scored, edit_counts_of_pairs = _score_pairs(segments, comparison)
        for tally, counts in zip(tallies, edit_counts_of_pairs, strict=True):
            tally.add(scored, counts)
        yield scored


def _scored_originals(workspace: Workspace, comparison: _Comparison) -> pl.DataFrame:
    """Return the table of the texts that corrections replaced, with the scores of these texts.

    When a correction is withdrawn, its text and scores come back from there. The other transcripts
    and the hypotheses are those of the segments table.
    """
    originals = workspace.table(schemas.CORRECTED_TEXTS)
    schema = workspace_tables.table_schema(workspace)
    other_texts = [*schemas.text_names(schema).values(), *schemas.hypothesis_names(schema).values()]
    current = workspace_tables.read(
        workspace,
        ("segment_id", *other_texts),
        where=pl.col("segment_id").is_in(originals["segment_id"].implode()),
    )
    originals = originals.drop(other_texts, strict=False).join(
        current.unique("segment_id", keep="first"),
        on="segment_id",
        how="left",
        maintain_order="left",
    )
    scored, _ = _score_pairs(originals, comparison)
    return scored.drop(*other_texts, "asr_text_normalized", strict=False)


def _save_report(workspace: Workspace, step: str, report: Report) -> None:
    """Store the report of a pair, with its problem as a note.

    A corpus without hypotheses is no problem of `nbaudio run`, which scores any corpus.
    """
    with_note = replace(report, warnings=[*report.problems, *report.warnings], problems=[])
    workspace.save_report(step, with_note.to_dict())


def _joined_reports(reports: Mapping[str, Report]) -> Report:
    """Return the report of a call: that of its pair, or one with the facts of each of several."""
    if len(reports) == 1:
        return next(iter(reports.values()))
    return Report(
        "score",
        {suffix[1:] or "asr_text": report.facts for suffix, report in reports.items()},
        warnings=_unique(line for report in reports.values() for line in report.warnings),
        problems=_unique(line for report in reports.values() for line in report.problems),
        sentences={
            suffix[1:] or "asr_text": [_describe_scores(report.facts)]
            for suffix, report in reports.items()
        },
    )


def _describe_scores(facts: Mapping[str, Any]) -> str:
    """Give the scores of one of several hypotheses in a line."""
    scored = f"{facts['scored']:,} of {count(facts['segments'], 'segments')} scored"
    if not facts["scored"]:
        return scored
    return (
        f"{scored}, median similarity {show(facts['median_similarity'])}, word error rate "
        f"{show(facts['word_error_rate'], 'word_error_rate')}"
    )


def _unique(lines: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(lines))


def _find_pair(
    workspace: Workspace,
    columns: Sequence[str],
    text: str | None,
    hypothesis: str | None,
    scored: Mapping[str, Pair],
) -> Pair:
    """Return the pair of a transcript and a hypothesis of these names.

    Args:
        workspace: the workspace.
        columns: columns of its segments table.
        text: name of the transcript; None for `text`.
        hypothesis: name of the hypothesis; None for `asr_text`.
        scored: the pairs that have scores, by suffix.

    Raises:
        InputError: there is no such column, or a column or another pair has the name of a score.
    """
    texts = {"text": "text", "normalized": "text_normalized", **schemas.text_names(columns)}
    if not workspace.has_raw_texts:
        del texts["raw"]
    hypotheses = {"asr": "asr_text", **schemas.hypothesis_names(columns)}
    for kind, name, columns_by_name in (
        ("text", text, texts),
        ("hypothesis", hypothesis, hypotheses),
    ):
        if name is not None and columns_by_name.get(name) not in columns:
            available_names = ", ".join(
                available for available, column in columns_by_name.items() if column in columns
            )
            raise InputError(
                f"{workspace.path}: no {kind} {name!r}; there are {available_names}; "
                "'nbaudio join' brings in others"
            )
    suffixes = (f"_{name}" for name in (text, hypothesis) if name not in (None, "text", "asr"))
    column = texts[text or "text"]
    pair = Pair(
        column,
        hypotheses[hypothesis or "asr"],
        "".join(suffixes),
        transcript=workspace.transcript(column),
    )
    before = scored.get(pair.suffix)
    if before is None and pair.suffix and f"similarity{pair.suffix}" in columns:
        raise InputError(
            f"{workspace.path}: the source has a column similarity{pair.suffix}, "
            "which stays: choose another name"
        )
    if before is not None and before[:2] != pair[:2]:
        raise InputError(
            f"{workspace.path}: similarity{pair.suffix} compares {before[0]} with "
            f"{before[1]}: choose other names"
        )
    return pair


def _scored_pairs(workspace: Workspace) -> dict[str, Pair]:
    """Return the pairs that `score` compared, by suffix."""
    scored: dict[str, dict[str, Any]] = workspace.settings.get("scored", {})
    return {
        suffix: Pair(
            stored_pair["pair"][0],
            stored_pair["pair"][1],
            suffix,
            stored_pair["normalize"],
            workspace.transcript(stored_pair["pair"][0]),
        )
        for suffix, stored_pair in scored.items()
    }


def normalization_steps(workspace: Workspace) -> tuple[str, ...]:
    """Return the normalization steps of the last `score` of `text` and `asr_text`.

    There are none before any score.
    """
    return tuple(workspace.settings.get("scored", {}).get("", {}).get("normalize", ()))


def formatting_rules(workspace: Workspace) -> Formatting:
    """Return the formatting rules of the last `score`.

    They are those of its language, and the table that extends them.
    """
    table = _kept_table(workspace)
    return _cached_rules(
        workspace.settings.get("language"), table, table and table.stat().st_mtime_ns
    )


def compared(workspace: Workspace) -> dict[str, Any]:
    """Return how the last `score` compared texts: `steps` and `formatting` of `text.word_diff`."""
    was_scored = "scored" in workspace.settings
    rules = formatting_rules(workspace) if was_scored else None
    return {"steps": normalization_steps(workspace), "formatting": rules}


@lru_cache(maxsize=8)
def _cached_rules(language: str | None, table: Path | None, _version: int | None) -> Formatting:
    """Return formatting rules; the version of the table is there to read a changed one again."""
    return Formatting(language, table)


def _kept_table(workspace: Workspace) -> Path | None:
    """Return the formatting table that the workspace keeps, if it has one."""
    path = workspace.path / _KEPT_TABLE
    return path if path.exists() else None


def rescored(workspace: Workspace, segments: pl.DataFrame) -> pl.DataFrame:
    """Return rows of the segments table with their scores computed again.

    These are the scores of all pairs that `score` compared, or of `text` and `asr_text` before any
    score.
    """
    scored_pairs = _scored_pairs(workspace) or {"": Pair("text", "asr_text", "")}
    pairs = [
        pair
        for pair in scored_pairs.values()
        if pair.text in segments.columns and pair.hypothesis in segments.columns
    ]
    agreeing = _hypotheses_to_agree(segments, scored_pairs.values())
    comparison = _Comparison(pairs, scored_pairs, agreeing, formatting_rules(workspace))
    scored, _ = _score_pairs(segments, comparison)
    return scored


def _score_pairs(
    segments: pl.DataFrame, comparison: _Comparison
) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
    """Return segments with the scores of all pairs and their agreement, and edit counts by pair."""
    edit_counts_of_pairs = []
    for pair in comparison.pairs:
        segments, counts = _score_pair(segments, pair, comparison.rules)
        edit_counts_of_pairs.append(counts)
    if comparison.agreeing:
        segments = with_agreement(segments, comparison.agreeing, comparison.rules)
    else:
        segments = segments.drop(schemas.AGREEMENT, strict=False)
    return segments, edit_counts_of_pairs


def _score_pair(
    segments: pl.DataFrame, pair: Pair, rules: Formatting
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Score a pair; return segments with the scores, and the edit counts.

    For `text` and `asr_text`, the segments also get the normal forms.
    """
    text = pair.texts(segments)
    hypothesis = segments[pair.hypothesis]
    if pair.steps:
        steps = ("nfc", *pair.steps)
        text = normalize_column(text, steps)
        hypothesis = normalize_column(hypothesis, steps)
    if not pair.suffix and pair.steps:
        text_name, hypothesis_name = schemas.NORMALIZED
        segments = segments.with_columns(text.alias(text_name), hypothesis.alias(hypothesis_name))
    elif not pair.suffix:
        segments = segments.drop(schemas.NORMALIZED, strict=False)
    written_counts = edit_counts(text, hypothesis)
    spoken = spoken_counts(text, hypothesis, rules, written_counts)
    rates = [
        *error_rates(written_counts),
        *error_rates(spoken).select(pl.all().name.prefix("spoken_")),
    ]
    scores = [rate.alias(f"{rate.name}{pair.suffix}") for rate in rates]
    counts = pl.concat(
        [written_counts, spoken.select(pl.all().name.prefix("spoken_"))], how="horizontal"
    )
    return segments.with_columns(scores), counts


def _hypotheses_to_agree(
    segments: pl.DataFrame | pl.LazyFrame, scored: Iterable[Pair]
) -> dict[str, str]:
    """Return the hypotheses whose agreement can be computed, each with its similarity column.

    It is the column of the similarity with `text`. There are none unless several hypotheses have
    values, and all of these are scored with `text`.
    """
    schema = segments.collect_schema()
    hypothesis_columns = [
        name for name in schemas.hypothesis_names(schema).values() if schema[name] == pl.String
    ]
    counts = segments.lazy().select(pl.col(hypothesis_columns).count()).collect(**STREAMED)
    similarity_columns = {
        pair.hypothesis: f"similarity{pair.suffix}" for pair in scored if pair.text == "text"
    }
    used = {
        name: similarity_columns.get(name, "") for name in hypothesis_columns if counts[name].item()
    }
    if len(used) > 1 and all(used.values()):
        return used
    return {}


class _Tally:
    """What the report of a pair counts, batch by batch."""

    def __init__(self, pair: Pair, rules: Formatting) -> None:
        self.pair = pair
        self.rules = rules
        self.counts = Counter[str]()
        # Words with digits or abbreviations that no formatting rule reads, with their counts.
        self.uncovered_in_text = Counter[str]()
        self.uncovered_in_hypothesis = Counter[str]()
        self.odd_characters = [pl.DataFrame(schema=ODD)]  # of each batch
        self.similarity = list[pl.Series]()  # of each batch, without nulls
        self.has_agreement = False
        self.sum_of_agreement = 0.0
        self.other_hypotheses = dict[str, None]()  # names of those that any segment has

    def add(self, segments: pl.DataFrame, edit_counts: pl.DataFrame) -> None:
        """Count a batch of segments with their scores and edit counts."""
        pair = self.pair
        text = pair.texts(segments)
        hypothesis = segments[pair.hypothesis]
        similarity = segments[f"similarity{pair.suffix}"]
        spoken_similarity = segments[f"spoken_similarity{pair.suffix}"]
        is_formatting = (pl.col("edits") > 0) & (pl.col("spoken_word_edits") == 0)
        sums = edit_counts.select(
            pl.sum("word_edits", "spoken_word_edits", "words"),
            differ_only_in_formatting=is_formatting.sum(),
        )
        self.counts.update(sums.row(0, named=True))
        self.counts.update(
            segments=len(segments),
            texts=text.count(),
            hypotheses=hypothesis.count(),
            above_0_8=int((similarity > _SIMILAR).sum()),
            spoken_above_0_8=int((spoken_similarity > _SIMILAR).sum()),
        )
        self.similarity.append(similarity.drop_nulls())
        self.uncovered_in_text += self.rules.uncovered(text)
        self.uncovered_in_hypothesis += self.rules.uncovered(hypothesis)
        # Only the normal forms of `text` and `asr_text` are stored.
        is_normalized = pair.steps and not pair.suffix
        compared_text = segments["text_normalized"] if is_normalized else text
        self.odd_characters.append(
            vocabulary(compared_text, segment_ids=segments["segment_id"]).odd
        )
        self._count_agreement(segments)
        self._note_hypotheses(segments)

    def _count_agreement(self, segments: pl.DataFrame) -> None:
        """Add up the agreement of hypotheses, where segments have it."""
        if "text_disputed" not in segments.columns:
            return
        self.has_agreement = True
        self.sum_of_agreement += float(segments["agreement"].sum())
        self.counts.update(
            text_disputed=int(segments["text_disputed"].sum()),
            agreeing=segments["agreement"].count(),
        )

    def _note_hypotheses(self, segments: pl.DataFrame) -> None:
        """Note which other hypotheses have values, to name them where this one has none."""
        for name, column in schemas.hypothesis_names(segments.columns).items():
            if column != self.pair.hypothesis and segments[column].count():
                self.other_hypotheses[name] = None

    def report(self, first: "_Tally") -> Report:
        """Return the report of the pair.

        All pairs of a call have the same text. What is odd or uncovered in it is taken from the
        tally of the `first` pair.
        """
        uncovered = first.uncovered_in_text + self.uncovered_in_hypothesis
        facts = {
            **self._score_facts(),
            "formatting_not_covered": _first_lines(_most_frequent_words(uncovered)),
            "odd_characters": _first_lines(_most_frequent_characters(first.odd_characters)),
            **self._agreement_facts(),
            "normalized_by": list(self.pair.steps),
            "language": self.rules.language,
        }
        problems = []
        if not facts["scored"]:
            problems.append(self._why_nothing_is_scored())
        return Report(
            "score",
            facts,
            warnings=self._warnings(has_uncovered=bool(uncovered)),
            problems=problems,
            sentences=_readable_counts(facts),
        )

    def _score_facts(self) -> dict[str, Any]:
        """Return counts of segments, means of scores, and error rates over all words."""
        counts = self.counts
        similarity = pl.concat([pl.Series(dtype=pl.Float64), *self.similarity]).rechunk()
        return {
            "segments": counts["segments"],
            "scored": len(similarity),
            "without_hypothesis": counts["segments"] - counts["hypotheses"],
            "mean_similarity": similarity.mean(),
            "median_similarity": similarity.median(),
            "above_0_8": counts["above_0_8"],
            "word_error_rate": _share(counts["word_edits"], counts["words"]),
            "word_error_rate_without_formatting": _share(
                counts["spoken_word_edits"], counts["words"]
            ),
            "differ_only_in_formatting": counts["differ_only_in_formatting"],
            "above_0_8_without_formatting": counts["spoken_above_0_8"],
        }

    def _agreement_facts(self) -> dict[str, Any]:
        """Return the agreement of hypotheses; nothing where it is not computed."""
        if not self.has_agreement:
            return {}
        return {
            "text_disputed": self.counts["text_disputed"],
            "mean_agreement": _share(self.sum_of_agreement, self.counts["agreeing"]),
        }

    def _warnings(self, *, has_uncovered: bool) -> list[str]:
        """Return a line if numbers and abbreviations are not read as the language does."""
        language = self.rules.language
        if has_uncovered and language is None:
            return [
                "digits and abbreviations are compared as they are written: "
                "name the language, such as --language hr"
            ]
        if language is not None and not self.rules.has_numbers:
            return [
                f"language {language!r}: no rules for its numbers; "
                "a table of formatting can add them"
            ]
        return []

    def _why_nothing_is_scored(self) -> str:
        """Return the reason, and what brings in what is missing."""
        text = f"a transcript ({self.pair.text})"
        hypothesis = f"a hypothesis ({self.pair.hypothesis})"
        if not self.counts["texts"]:
            return (
                f"no segment has {text}: nothing was scored; join one with 'nbaudio join --text', "
                "and name it by --text"
            )
        if self.counts["hypotheses"]:
            return f"no segment has both {text} and {hypothesis}: nothing was scored"
        others = ", ".join(f"--hypothesis {name}" for name in self.other_hypotheses)
        remedy = "join one with 'nbaudio join --hypothesis', or make one with 'nbaudio recognize'"
        if others:
            remedy = f"there are others: {others}"
        return f"no segment has {hypothesis}: nothing was scored; {remedy}"


def _share(number: float, total: int) -> float | None:
    return number / total if total else None


def _most_frequent_words(counts: Mapping[str, int]) -> list[str]:
    """Return words with their counts, the most frequent one first."""
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    return [f"{word} {number:,}" for word, number in rows]


def _most_frequent_characters(batches: Iterable[pl.DataFrame]) -> list[str]:
    """Return odd characters with their names and counts, the most frequent one first."""
    odd = (
        pl.concat(batches)
        .group_by("character", "code_point", "name", maintain_order=True)
        .agg(pl.sum("count"))
        .sort("count", "code_point", descending=[True, False])
    )
    lines = []
    for character, code_point, name, number in odd.rows():
        shown = character if character.isprintable() else code_point
        lines.append(f"{name.lower()} {shown} {number:,}")
    return lines


def _readable_counts(facts: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the lists of words and characters as people read them: each with its count."""
    return {
        name: [", ".join(_COUNT.sub(r" (\1)", line) for line in facts[name])]
        for name in ("formatting_not_covered", "odd_characters")
        if facts[name]
    }


def _first_lines(lines: Sequence[str]) -> list[str]:
    """Return the first lines, and how many more there are."""
    shown = list(lines[:_SHOWN_LINES])
    if len(lines) > len(shown):
        shown.append(f"and {len(lines) - len(shown)} more")
    return shown
