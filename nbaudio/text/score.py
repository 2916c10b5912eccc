"""Score how well each segment's hypotheses agree with a transcript, and among themselves."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from nbaudio.core import allocator, atomic, tables
from nbaudio.core.dataframes import STREAMED
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report, count, show
from nbaudio.storage.workspace import Workspace, locks_workspace
from nbaudio.text.agreement import with_agreement
from nbaudio.text.characters import ODD, vocabulary
from nbaudio.text.edit_distance import edit_counts, error_rates
from nbaudio.text.formatting import Formatting, spoken_counts
from nbaudio.text.normalization import normalize_column

_COUNT = re.compile(r" ([\d,]+)$")  # at the end of a line of words or characters
_SHOWN = 8
_TABLE = "formatting.tsv"


class Pair(NamedTuple):
    """A transcript and a hypothesis that are compared.

    Attributes:
        text: column of the transcript.
        hypothesis: column of the hypothesis.
        suffix: end of the names of their scores, such as ``_large``.
        steps: normalization steps.
        transcript: values of the transcript (`Workspace.transcript`); those of its column if None.
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
def score(  # noqa: PLR0914
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
    table = tables.scan(workspace)
    schema = table.collect_schema()
    # Other steps drop scores, with a hypothesis that changed or was withdrawn.
    scored = {
        suffix: pair
        for suffix, pair in _pairs(workspace).items()
        if f"similarity{suffix}" in schema
    }
    names = (
        [hypothesis]
        if hypothesis is None or isinstance(hypothesis, str)
        else dict.fromkeys(hypothesis)
    )
    pairs = [
        _pair(workspace, schema.names(), text, name, scored)._replace(steps=normalize)
        for name in names
    ]
    rules = Formatting(
        language or workspace.settings.get("language"), formatting or _own_table(workspace)
    )
    if formatting:
        atomic.write_bytes(workspace.path / _TABLE, Path(formatting).read_bytes())
    scored |= {pair.suffix: pair for pair in pairs}
    stored = {
        suffix: {"pair": pair[:2], "normalize": list(pair.steps)} for suffix, pair in scored.items()
    }
    settings = workspace.settings | {"scored": stored, "language": rules.language}
    agreeing = _agreeing(table, scored.values())
    tallies = [_Tally(pair, rules) for pair in pairs]

    def rows() -> Iterator[pl.DataFrame]:
        for batch in tables.read_batches(workspace):
            segments = tables.conform(batch, tables.SEGMENTS, str(tables.table_path(workspace)))
            found, counts = _all_scores(segments, pairs, agreeing, rules)
            for tally, sums in zip(tallies, counts, strict=True):
                tally.add(found, sums)
            yield found

    originals = {}
    if tables.table_path(workspace, tables.CORRECTED_TEXTS).exists():
        # Texts that corrections replaced are scored too, so that a withdrawn correction restores
        # the right scores.
        before = workspace.table(tables.CORRECTED_TEXTS)
        others = [*tables.text_names(schema).values(), *tables.hypothesis_names(schema).values()]
        hypotheses = tables.read(
            workspace,
            ("segment_id", *others),
            where=pl.col("segment_id").is_in(before["segment_id"].implode()),
        )
        before = before.drop(others, strict=False).join(
            hypotheses.unique("segment_id", keep="first"),
            on="segment_id",
            how="left",
            maintain_order="left",
        )
        before = _all_scores(before, pairs, agreeing, rules)[0]
        originals[tables.CORRECTED_TEXTS] = before.drop(
            *others, "asr_text_normalized", strict=False
        )
    workspace.save_together(settings=settings, **originals, segments=rows())
    others = [
        f"similarity{suffix}" for suffix, pair in scored.items() if [*pair.steps] != [*normalize]
    ]
    reports = {}
    for tally in tallies:
        reports[tally.pair.suffix] = report = tally.report(tallies[0])
        if others:
            report.warnings.append(
                f"{', '.join(others)} compared with other normalization steps: "
                "do not compare the scores"
            )
        _save_report(workspace, f"score{tally.pair.suffix}", report)
    return _together(reports)


def _save_report(workspace: Workspace, step: str, report: Report) -> None:
    """Store the report of a pair, with its problem as a note.

    A corpus without hypotheses is no problem of `nbaudio run`, which scores any corpus.
    """
    noted = replace(report, warnings=[*report.problems, *report.warnings], problems=[])
    workspace.save_report(step, noted.to_dict())


def _together(reports: Mapping[str, Report]) -> Report:
    """Return the report of one pair, or one of several by the ends of the names of their scores."""
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


def _pair(
    workspace: Workspace,
    columns: Sequence[str],
    text: str | None,
    hypothesis: str | None,
    scored: Mapping[str, Pair],
) -> Pair:
    """Return the columns of a transcript and a hypothesis by name, None for those of the source."""
    texts = {"text": "text", "normalized": "text_normalized", **tables.text_names(columns)}
    if not workspace.has_raw_texts:
        del texts["raw"]
    hypotheses = {"asr": "asr_text", **tables.hypothesis_names(columns)}
    for kind, name, known in (("text", text, texts), ("hypothesis", hypothesis, hypotheses)):
        if name is not None and known.get(name) not in columns:
            there = ", ".join(one for one, column in known.items() if column in columns)
            raise InputError(
                f"{workspace.path}: no {kind} {name!r}; there are {there}; "
                "'nbaudio join' brings in others"
            )
    own = (f"_{name}" for name in (text, hypothesis) if name not in (None, "text", "asr"))
    column = texts[text or "text"]
    pair = Pair(
        column,
        hypotheses[hypothesis or "asr"],
        "".join(own),
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


def _pairs(workspace: Workspace) -> dict[str, Pair]:
    """Return what was compared by `score`, by the end of the names of the scores."""
    scored: dict[str, dict[str, Any]] = workspace.settings.get("scored", {})
    return {
        suffix: Pair(
            one["pair"][0],
            one["pair"][1],
            suffix,
            one["normalize"],
            workspace.transcript(one["pair"][0]),
        )
        for suffix, one in scored.items()
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
    table = _own_table(workspace)
    return _rules(workspace.settings.get("language"), table, table and table.stat().st_mtime_ns)


def compared(workspace: Workspace) -> dict[str, Any]:
    """Return how the last `score` compared texts: `steps` and `formatting` of `text.word_diff`."""
    was_scored = "scored" in workspace.settings
    return {
        "steps": normalization_steps(workspace),
        "formatting": formatting_rules(workspace) if was_scored else None,
    }


@lru_cache(maxsize=8)
def _rules(language: str | None, table: Path | None, _version: int | None) -> Formatting:
    return Formatting(language, table)


def _own_table(workspace: Workspace) -> Path | None:
    path = workspace.path / _TABLE
    return path if path.exists() else None


def rescored(workspace: Workspace, segments: pl.DataFrame) -> pl.DataFrame:
    """Return rows of the segments table with their scores computed again.

    All existing scores are computed from the texts of the rows.
    """
    pairs = [*_pairs(workspace).values()] or [Pair("text", "asr_text", "")]
    there = [pair for pair in pairs if {pair.text, pair.hypothesis} <= {*segments.columns}]
    return _all_scores(segments, there, _agreeing(segments, pairs), formatting_rules(workspace))[0]


def _all_scores(
    segments: pl.DataFrame, pairs: Iterable[Pair], agreeing: Mapping[str, str], rules: Formatting
) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
    """Return segments with the scores of all pairs and their agreement, and the counts.

    There are edit counts for each pair.
    """
    counts = []
    for pair in pairs:
        segments, count = _scored(segments, pair, rules)
        counts.append(count)
    return with_agreement(segments, agreeing, rules) if agreeing else segments.drop(
        tables.AGREEMENT, strict=False
    ), counts


def _scored(
    segments: pl.DataFrame, pair: Pair, rules: Formatting
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Score a pair; return segments with the scores, and the edit counts.

    For `text` and `asr_text`, the segments also get the normal forms.
    """
    compared = pair.texts(segments), segments[pair.hypothesis]
    if pair.steps:
        compared = (
            normalize_column(compared[0], ("nfc", *pair.steps)),
            normalize_column(compared[1], ("nfc", *pair.steps)),
        )
    if not pair.suffix:
        forms = [
            column.alias(name) for column, name in zip(compared, tables.NORMALIZED, strict=True)
        ]
        segments = (
            segments.with_columns(forms)
            if pair.steps
            else segments.drop(tables.NORMALIZED, strict=False)
        )
    plain = edit_counts(*compared)
    spoken = spoken_counts(*compared, rules, plain)
    rates = [error_rates(plain), error_rates(spoken).select(pl.all().name.prefix("spoken_"))]
    columns = [column.alias(column.name + pair.suffix) for rate in rates for column in rate]
    return segments.with_columns(columns), pl.concat(
        [plain, spoken.select(pl.all().name.prefix("spoken_"))], how="horizontal"
    )


def _agreeing(segments: pl.DataFrame | pl.LazyFrame, scored: Iterable[Pair]) -> dict[str, str]:
    """Return the hypotheses, each with the column of its similarity with `text`.

    There are none unless several exist and all are scored.
    """
    schema = segments.collect_schema()
    there = [name for name in tables.hypothesis_names(schema).values() if schema[name] == pl.String]
    counts = segments.lazy().select(pl.col(there).count()).collect(**STREAMED)
    known = {pair.hypothesis: f"similarity{pair.suffix}" for pair in scored if pair.text == "text"}
    used = {name: known.get(name, "") for name in there if counts[name].item()}
    return used if len(used) > 1 and all(used.values()) else {}


class _Tally:
    """What the report of a pair counts, batch by batch."""

    def __init__(self, pair: Pair, rules: Formatting) -> None:
        self.pair = pair
        self.rules = rules
        self.counts = Counter[str]()
        self.unread_text = Counter[str]()
        self.unread = Counter[str]()
        self.odd = [pl.DataFrame(schema=ODD)]
        self.similarity = list[pl.Series]()
        self.agreement = 0.0
        self.other_hypotheses = dict[str, None]()  # names of those that any segment has

    def add(self, segments: pl.DataFrame, counts: pl.DataFrame) -> None:
        """Count a batch of segments with their scores and edit counts."""
        pair = self.pair
        text = pair.texts(segments)
        hypothesis = segments[pair.hypothesis]
        similarity, spoken = (
            segments[f"{name}similarity{pair.suffix}"] for name in ("", "spoken_")
        )
        self._note_hypotheses(segments)
        compared = segments["text_normalized"] if pair.steps and not pair.suffix else text
        self.odd.append(vocabulary(compared, segment_ids=segments["segment_id"]).odd)
        self.unread_text += self.rules.uncovered(text)
        self.unread += self.rules.uncovered(hypothesis)
        self.similarity.append(similarity.drop_nulls())
        sums = counts.select(pl.sum("word_edits", "spoken_word_edits", "words")).row(0, named=True)
        sums |= {"segments": len(segments), "texts": text.count(), "hypotheses": hypothesis.count()}
        sums |= {"above": (similarity > 0.8).sum(), "spoken_above": (spoken > 0.8).sum()}
        sums["only"] = counts.select(
            ((pl.col("edits") > 0) & (pl.col("spoken_word_edits") == 0)).sum()
        ).item()
        if "text_disputed" in segments.columns:
            sums |= {
                "text_disputed": segments["text_disputed"].sum(),
                "agreeing": segments["agreement"].count(),
            }
            self.agreement += float(segments["agreement"].sum())
        self.counts.update(sums)

    def _note_hypotheses(self, segments: pl.DataFrame) -> None:
        for name, column in tables.hypothesis_names(segments.columns).items():
            if column != self.pair.hypothesis and segments[column].count():
                self.other_hypotheses[name] = None

    def report(self, first: "_Tally") -> Report:
        """Return the report; odd and uncovered words of the text are those of the `first` pair."""
        counts = self.counts
        pair = self.pair
        rules = self.rules
        similarity = pl.concat([pl.Series(dtype=pl.Float64), *self.similarity]).rechunk()
        words = counts["words"]
        odd = (
            pl.concat(first.odd)
            .group_by("character", "code_point", "name", maintain_order=True)
            .agg(pl.sum("count"))
        )
        named = [
            f"{name.lower()} {c if c.isprintable() else code} {count:,}"
            for c, code, name, count in odd.sort(
                "count", "code_point", descending=[True, False]
            ).rows()
        ]
        unread = first.unread_text + self.unread
        facts: dict[str, Any] = {"segments": counts["segments"], "scored": len(similarity)}
        facts |= {"without_hypothesis": counts["segments"] - counts["hypotheses"]}
        facts |= {
            "mean_similarity": similarity.mean(),
            "median_similarity": similarity.median(),
            "above_0_8": counts["above"],
        }
        facts |= {"word_error_rate": counts["word_edits"] / words if words else None}
        facts |= {
            "word_error_rate_without_formatting": counts["spoken_word_edits"] / words
            if words
            else None
        }
        facts |= {
            "differ_only_in_formatting": counts["only"],
            "above_0_8_without_formatting": counts["spoken_above"],
        }
        facts["formatting_not_covered"] = _first(
            [
                f"{word} {number:,}"
                for word, number in sorted(unread.items(), key=lambda row: (-row[1], row[0]))
            ]
        )
        facts["odd_characters"] = _first(named)
        if "text_disputed" in counts:
            agreement = self.agreement / counts["agreeing"] if counts["agreeing"] else None
            facts |= {"text_disputed": counts["text_disputed"], "mean_agreement": agreement}
        facts |= {"normalized_by": list(pair.steps), "language": rules.language}
        problems = [] if len(similarity) else [self._why_nothing_is_scored()]
        return Report(
            "score",
            facts,
            warnings=self._warnings(is_unread=bool(unread)),
            problems=problems,
            sentences=_with_counts(facts),
        )

    def _warnings(self, *, is_unread: bool) -> list[str]:
        """Return a line if numbers and abbreviations are not read as the language does."""
        language = self.rules.language
        if is_unread and language is None:
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
        remedy = (
            f"there are others: {others}"
            if others
            else "join one with 'nbaudio join --hypothesis', or make one with 'nbaudio recognize'"
        )
        return f"no segment has {hypothesis}: nothing was scored; {remedy}"


def _with_counts(facts: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the lists of words and characters as people read them: each with its count."""
    return {
        name: [", ".join(_COUNT.sub(r" (\1)", line) for line in facts[name])]
        for name in ("formatting_not_covered", "odd_characters")
        if facts[name]
    }


def _first(lines: Sequence[str]) -> list[str]:
    return [*lines[:_SHOWN], *([f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else [])]
