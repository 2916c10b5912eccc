"""Read-only tables of a workspace or a corpus, most informative rows first.

`duration_s` is for showing, never for computing.
"""

import builtins
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from nbaudio.core.errors import InputError
from nbaudio.core.hashing import hash_column
from nbaudio.core.progress import progress
from nbaudio.corpus.card import signal_ranges
from nbaudio.corpus.clip_states import count_states
from nbaudio.corpus.layout import CORPUS_JSON
from nbaudio.proof.evidence import expected_reviews
from nbaudio.proof.separation import precision_by, signal_precision  # noqa: F401 - public here
from nbaudio.review.round_progress import round_progress
from nbaudio.review.state import ReviewState
from nbaudio.selection.requested_sizes import requested_sizes
from nbaudio.storage.folders import folder_at
from nbaudio.tables import schemas, workspace_tables
from nbaudio.tables.dataframes import Frame, Ids, as_ids, as_polars
from nbaudio.tables.split_names import listed_splits, ordered_splits
from nbaudio.tables.workspace import Workspace
from nbaudio.text import normalize_column
from nbaudio.text.characters import count_characters
from nbaudio.text.score import normalization_steps
from nbaudio.ui.segment_rows import SegmentRows, corpus_rows, workspace_rows
from nbaudio.ui.words_cache import WordsCache, hash_texts

Source = str | Path | Workspace | Frame | SegmentRows
"""A workspace or a corpus, its folder or URL.

Or its `segments` in polars or pandas, to read them only once.
"""

ORDERS = ("worst", "best", "random")
# Invalid durations, and segments that end before they start, count as no hours.
HOURS = (
    pl.when(pl.col("duration_s").is_finite()).then(pl.col("duration_s").clip(0)).otherwise(0.0)
    / 3600
)
PLAYABLE = pl.col("start_sample").is_between(0, pl.col("end_sample") - 1) & (
    pl.col("end_sample") <= pl.col("num_samples")
)
_USED = tuple(name for name in schemas.SEGMENTS if name != "word_times")
_BANDS = {"0-2 s": 0, "2-5 s": 2, "5-10 s": 5, "10-20 s": 10, "20+ s": 20}
_MANY_SEGMENTS = 100_000  # segments whose texts take about a second, which is worth a progress bar
_WORD_ROWS = 1 << 15  # segments whose words a thread compares at once
_GROUPS = ("split", "speaker_id", "recording_id", "duration")
_SHOWN = (
    "segment_id",
    "recording_id",
    "speaker_id",
    "duration_s",
    "similarity",
    "wer",
    "text",
    "asr_text",
)


def names(workspace: str | Path | Workspace) -> pl.DataFrame:
    """Return how each file name was resolved: `name`, `decision`, `path`, `candidates`.

    Missing and ambiguous names are first.
    """
    audit = (
        Workspace.open(workspace).table("names").select("name", "decision", "path", "candidates")
    )
    return audit.sort(pl.col("decision").to_physical(), "name", descending=[True, False])


def growth(workspace: str | Path | Workspace) -> pl.DataFrame:
    """Return what the last `ingest` found new or changed: `change`, `segments`, `recordings`.

    There are no rows if it was the first one.
    """
    facts = Workspace.open(workspace).report("ingest").get("facts", {})
    recordings = facts.get("recordings_by_status", {})
    causes = {
        f"changed: {cause.replace('_', ' ')}": number
        for cause, number in facts.get("changed_by", {}).items()
    }
    counts = {
        name: facts[name]
        for name in ("new", "changed", "unchanged", "removed", "withdrawn")
        if name in facts
    } | causes
    rows = []
    if recordings:
        rows = [(change, number, recordings.get(change)) for change, number in counts.items()]
    schema = {"change": pl.String, "segments": pl.Int64, "recordings": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def plan(corpus: str | Path) -> pl.DataFrame:
    """Return how many clips of a corpus are in which state, also while `materialize` makes it.

    Args:
        corpus: the folder of the corpus.

    Returns:
        The columns `split`, `shard`, `state`, `reason` and `clips`. A clip is ``planned``, then
        ``cut``, then ``packed`` into its shard; or it has ``failed``, with the reason.

    Raises:
        InputError: there is no corpus, and no run has planned one.
    """
    return count_states(corpus)


def round(workspace: str | Path | Workspace, name: str) -> pl.DataFrame:
    """Return how far the reviewers of a round are, one row each.

    Args:
        workspace: the workspace or its folder.
        name: the name of the round, which its sheet has too.

    Returns:
        `reviewer`; `rows` of the sheet, `judged` and `left`; `skipped`, the rows before the last
        judged one without a verdict; `stopped_at`, the row at which the sheet ended while verdicts
        came elsewhere; `last_verdict`, its time; `shared`, the segments that another reviewer
        judged too, and `agreement`, the share of them with equal verdicts. The last row, ``all``,
        has sums, and `expected`: how many more verdicts are expected to prove the target of the
        last `evidence`, or else 98 % with 95 % confidence; 0 once it is proven, null where no
        number is expected to prove it.

    Raises:
        InputError: there is no such round.
    """
    state = ReviewState.load(workspace)
    reviewers = round_progress(state, name)
    of_all = reviewers.select(
        reviewer=pl.lit("all"),
        **{column: pl.col(column).sum() for column in ("rows", "judged", "left", "skipped")},
        last_verdict=pl.col("last_verdict").max(),
        expected=pl.lit(expected_reviews(state.workspace), pl.Int64),
    )
    return pl.concat([reviewers, of_all], how="diagonal")


def kept_and_new(workspace: str | Path | Workspace) -> pl.DataFrame:
    """Return how many segments of each `split` are `kept` from before the archive grew, and `new`.

    There are no rows if it never grew.
    """
    facts = Workspace.open(workspace).report("select").get("facts", {})
    kept_counts = facts.get("kept_from_earlier", {})
    new_counts = facts.get("new", {})
    rows = [
        (split, kept_counts.get(split, 0), new_counts.get(split, 0))
        for split in ordered_splits({**kept_counts, **new_counts})
    ]
    return pl.DataFrame(
        rows, schema={"split": pl.String, "kept": pl.Int64, "new": pl.Int64}, orient="row"
    )


def recordings(workspace: str | Path | Workspace) -> pl.DataFrame:
    """Return recordings with the duration of their segments.

    Returns:
        `recording_id`, `codec`, `sampling_rate` (Hz), `num_channels`, `duration_s` (null without
        audio), `segments`, `transcribed_s` (sum of the segments), `past_the_end` (segments that end
        after the recording does, as where it is truncated), longest first.

    Examples:
        >>> import tempfile
        >>> workspace = Workspace.create(tempfile.mkdtemp(), source="asr.json", audio=None)
        >>> table = pl.DataFrame({"recording_id": ["r"]})
        >>> workspace.save(recordings=table, segments=pl.DataFrame({"segment_id": []}))
        >>> recordings(workspace).rows()
        [('r', None, None, None, None, 0, 0.0, 0)]
    """
    workspace = Workspace.open(workspace)
    table = workspace.recordings
    lengths = table.select("recording_id", "num_samples")
    segments = workspace_rows(workspace).read("recording_id", "duration_s", "end_sample")
    spoken = (
        segments.join(lengths, on="recording_id", how="left")
        .group_by("recording_id")
        .agg(
            segments=pl.len(),
            transcribed_s=3600 * HOURS.sum(),
            past_the_end=(pl.col("end_sample") > pl.col("num_samples")).sum(),
        )
    )
    duration = (pl.col("num_samples") / pl.col("sampling_rate")).alias("duration_s")
    facts = ("recording_id", "codec", "sampling_rate", "num_channels", duration)
    joined = table.join(spoken, on="recording_id", how="left").select(
        *facts, pl.col("segments", "transcribed_s", "past_the_end").fill_null(0)
    )
    return joined.sort("duration_s", "recording_id", descending=[True, False], nulls_last=True)


def characters(workspace: str | Path | Workspace) -> pl.DataFrame:
    """Return characters of the transcripts that are no letter, digit or blank, most frequent first.

    See `text.Vocabulary`.
    """
    return count_characters(
        workspace_rows(Workspace.open(workspace)).parts(("segment_id", "text"))
    ).odd


def examples(
    workspace: str | Path | Workspace,
    order: str,
    *,
    n: int = 5,
    seed: int = 42,
    playable: bool = True,
    where: str | None = None,
    ids: Ids | None = None,
) -> pl.DataFrame:
    """Return a few segments to read or listen to.

    Args:
        workspace: the workspace.
        order: ``worst`` or ``best`` by similarity, or ``random``.
        n: number of segments at most.
        seed: seed of ``random``.
        playable: only segments within their recording; False takes all.
        where: SQL condition over the columns, such as ``wer > 0.5 and speaker_id = 'spk7'``.
        ids: only these segments.

    Returns:
        `segment_id`, `recording_id`, `speaker_id`, `duration_s`, `similarity`, `wer`, `text`,
        `asr_text`.

    Raises:
        InputError: the order or a segment is unknown, or the condition is not valid.
    """
    if order not in ORDERS:
        raise InputError(f"order {order!r} is unknown; known are {', '.join(ORDERS)}")
    workspace = Workspace.open(workspace)
    segments = workspace_rows(workspace)
    lengths = workspace.recordings.select("recording_id", "num_samples")
    if ids is not None:
        wanted = as_ids(ids)
        segments = segments.filter(pl.col("segment_id").is_in(wanted))
        if absent := sorted(set(wanted).difference(segments.read("segment_id")["segment_id"])):
            raise InputError(f"{workspace.path}: no segment {absent[0]!r}")
    nearest = pl.DataFrame()
    for part in segments.where(where or "").parts((*_SHOWN, "start_sample", "end_sample")):
        if playable:
            candidates = part.join(
                lengths, on="recording_id", how="left", maintain_order="left"
            ).filter(PLAYABLE)
        else:
            candidates = part
        if order == "random":
            candidates = candidates.with_columns(
                place=hash_column(candidates["segment_id"], f"look {seed}")
            )
        else:
            candidates = candidates.drop_nulls("similarity").with_columns(place="similarity")
        both = pl.concat([nearest, candidates], how="diagonal")
        nearest = both.sort("place", "segment_id", descending=[order == "best", False]).head(n)
    return nearest.select(_SHOWN)


def cut_or_clipped(
    workspace: str | Path | Workspace, *, n: int = 5, seed: int = 42
) -> pl.DataFrame:
    """Return up to `n` random segments with `cut_start`, `cut_end` or clipping, as `examples` does.

    There are none before `measure`.
    """
    workspace = Workspace.open(workspace)
    measured = {"cut_start", "cut_end", "clipped_share"} <= set(
        workspace_tables.table_schema(workspace)
    )
    where = "cut_start or cut_end or clipped_share > 0" if measured else "false"
    return examples(workspace, "random", n=n, seed=seed, where=where)


def threshold_curve(source: Source, *, step: float = 0.01) -> pl.DataFrame:
    """Return what each threshold on similarity alone keeps.

    Segments without a similarity pass all, as in `select`.

    Returns:
        `threshold` from -1 to 1, `segments`, `hours`, and their shares of all, `segments_share` and
        `hours_share`, in [0, 1].

    Examples:
        >>> frame = pl.DataFrame({"similarity": [0.3, 0.9], "duration_s": [1800.0, 5400.0]})
        >>> threshold_curve(frame, step=0.5).rows()[-2:]
        [(0.5, 1, 1.5, 0.5, 0.75), (1.0, 0, 0.0, 0.0, 0.0)]
    """
    # NaN means not scored, as null does; both pass.
    score = pl.col("similarity").fill_nan(None).fill_null(1.0 + step)
    counted = (
        rows(source).read("similarity", "duration_s").select(score=score, hours=HOURS).sort("score")
    )
    steps = builtins.round(2 / step)
    thresholds = pl.Series(
        "threshold", [builtins.round(-1 + 2 * i / steps, 6) for i in range(steps + 1)]
    )
    below = counted["score"].search_sorted(thresholds, side="left")
    hours_below = pl.concat([pl.Series([0.0]), counted["hours"].cum_sum()]).gather(below)
    total = float(counted["hours"].sum())
    amounts_kept = {
        "segments": len(counted) - below.cast(pl.Int64),
        "hours": (total - hours_below).clip(0),
    }
    shares = {
        "segments_share": amounts_kept["segments"] / max(len(counted), 1),
        "hours_share": amounts_kept["hours"] / (total or 1.0),
    }
    return pl.DataFrame({"threshold": thresholds, **amounts_kept, **shares})


def signals(source: Source) -> pl.DataFrame:
    """Return the distribution of each signal, and of numbers, yes and no of models.

    It shows what the audio of the segments is like.

    Returns:
        `signal`, `missing` (share without a value), `p5`, `median`, `p95` (null for yes and no),
        `true` (share, else null).

    Examples:
        >>> frame = pl.DataFrame(
        ...     {"duration_s": [2.0, 3.0], "snr_db": [20.0, None], "cut_end": [True, False]}
        ... )
        >>> signals(frame).select("signal", "missing", "median", "true").rows()
        [('snr_db', 0.5, 20.0, None), ('cut_end', 0.0, None, 0.5)]
    """
    segment_rows = rows(source)
    ranges = (
        signal_ranges(segment_rows.read(name).lazy(), segment_rows.measured)
        for name in (*schemas.SIGNALS, *segment_rows.measured)
        if name in segment_rows.schema
    )
    return pl.concat([signal_ranges(pl.LazyFrame()), *ranges])


def speakers(source: Source) -> pl.DataFrame:
    """Return the hours of each speaker.

    The columns are `speaker_id`, one for each split, such as `train`, and `out` (of the corpus).
    """
    table = rows(source).read("speaker_id", "split", "duration_s", codes=True)
    splits = listed_splits(table["split"].unique())
    place = pl.col("split").cast(pl.Categorical).fill_null("out")
    hours = (HOURS.filter(place == name).sum().alias(name) for name in (*splits, "out"))
    hours_of_speakers = (
        table.with_columns(pl.col(pl.Categorical).exclude("split").cast(pl.String))
        .group_by("speaker_id")
        .agg(hours)
    )
    return hours_of_speakers.sort(
        pl.sum_horizontal(splits), "speaker_id", descending=[True, False], nulls_last=True
    )


def reasons(source: Source) -> pl.DataFrame:
    """Return why segments are rejected, most frequent reasons first.

    The columns are `reason`, `segments`, `hours`, `example` (a segment id).
    """
    rejected = rows(source).filter(pl.col("reason").is_not_null())
    by_reason = rejected.read("reason", "duration_s", "segment_id").group_by("reason")
    counted = by_reason.agg(
        segments=pl.len(), hours=HOURS.sum(), example=pl.col("segment_id").first()
    )
    return counted.sort("segments", "reason", descending=[True, False])


def split_sizes(
    workspace: str | Path | Workspace,
    *,
    dev: int | str | None = None,
    test: int | str | None = None,
    splits: str | None = None,
) -> pl.DataFrame:
    """Return the sizes that dev and test are to have, and the rest for train, before filters.

    Args:
        workspace: the workspace, or its folder.
        dev: number of segments, or hours such as ``"1.5h"``; unless given, a goal of 5 %, at most
            2000 segments, which whole speakers reach or exceed.
        test: likewise.
        splits: given splits, as `select` takes them. Sizes are then what is left to fill, and the
            table has no rows.

    Returns:
        `split` (train, dev, test), `segments` and `hours`; null if the size has the other unit.

    Raises:
        InputError: a size is no size, or those that are given leave nothing for train.
    """
    schema = {"split": pl.String, "segments": pl.Int64, "hours": pl.Float64}
    if splits is not None:
        return pl.DataFrame(schema=schema)
    usable, sizes = requested_sizes(workspace, dev=dev, test=test)
    hours = {split: size.amount / 3.6e9 for split, size in sizes.items() if size.unit == "micros"}
    segments = {split: size.amount for split, size in sizes.items() if size.unit == "segments"}
    held_out = [(split, segments.get(split), hours.get(split)) for split in sorted(sizes)]
    # The rest in a unit is known only where no other split is stated in the other unit.
    segments_of_train = None
    if not hours:
        segments_of_train = max(0, usable.segments - sum(segments.values()))
    hours_of_train = None
    if not segments:
        hours_of_train = max(0.0, usable.micros / 3.6e9 - sum(hours.values()))
    train = ("train", segments_of_train, hours_of_train)
    return pl.DataFrame([train, *held_out], schema=schema, orient="row")


def error_rates(
    source: Source,
    hypotheses: Sequence[str] | None = None,
    *,
    by: str | None = None,
    where: str | None = None,
    text: str = "text",
    confidence: float = 0.95,
) -> pl.DataFrame:
    """Return error rates of hypotheses against a transcript, with intervals clustered by speaker.

    A rate R is the sum of errors over the sum of words (`wer`) or characters (`cer`). Its interval
    is that of the delete-one jackknife over speakers with Student's t (Wolter, Introduction to
    Variance Estimation, 2nd ed. 2007, chapter 4): with E_c errors and N_c of N words in cluster c
    of G, the variance is (G - 1) / G * sum(((E_c - R N_c) / (N - N_c)) ** 2), with at most G - 1
    degrees of freedom, fewer if a few clusters have most words. Clusters are speakers; in a group
    of one speaker recordings, of one recording segments; one cluster has no interval. Texts of a
    workspace are compared by the normalization steps of its last `score`, others as they are.

    Args:
        source: a workspace, a corpus, or a frame with the columns of `segments`.
        hypotheses: names, ``asr`` for the column `asr_text`, NAME for `asr_text_NAME`; None for all
            that have texts.
        by: ``split``, ``speaker_id``, ``recording_id``, ``duration`` (bands of seconds), or None
            for all segments in one group.
        where: SQL condition over the columns, such as ``split in ('dev', 'test')``.
        text: the column of the transcript.
        confidence: confidence level of the intervals, above 0 and below 1.

    Returns:
        A row per group and hypothesis, of the segments with both texts: `group`, `hypothesis`,
        `segments`, `words`, `wer` and `cer`, each with `_low` and `_high`. With several hypotheses
        also `wer_difference`, `_low` and `_high`: WER minus that of the first one, of the segments
        that have both. Speakers and recordings come in order of their highest WER.

    Raises:
        InputError: a hypothesis, `by` or a column is unknown, or the condition is not valid.

    Examples:
        >>> ids = {"segment_id": ["a", "b"], "recording_id": ["r", "s"], "speaker_id": ["x", "y"]}
        >>> texts = {"text": ["evo blic", "da ne"], "asr_text": ["evo blitz", "da ne"]}
        >>> frame = pl.DataFrame({**ids, **texts, "duration_s": [1.0, 2.0]})
        >>> error_rates(frame, by="duration").select("group", "hypothesis", "words", "wer").rows()
        [('0-2 s', 'asr', 2, 0.5), ('2-5 s', 'asr', 2, 0.0)]
    """
    from nbaudio.proof.rate_intervals import clustered_rates

    if by not in (None, *_GROUPS):
        raise InputError(f"by={by!r} is unknown; known are {', '.join(_GROUPS)} and None")
    if not 0 < confidence < 1:
        raise InputError(f"confidence={confidence}: must be above 0 and below 1")
    segment_rows, columns = _with_hypotheses(source, hypotheses, where, text)
    workspace = _workspace_of(source)
    steps = normalization_steps(workspace) if workspace else ()
    grouping = _grouping(segment_rows, by)
    parts = segment_rows.parts(list(dict.fromkeys((text, *columns.values(), *grouping.columns))))
    shown = grouping.num_segments > _MANY_SEGMENTS
    with progress("error rates", grouping.num_segments, "segments", show=shown) as advance:
        compared = (
            grouping.clustered(_normalized(part, {text, *columns.values()}, steps))
            for part in (_advancing(parts, advance) if columns else ())
        )
        rates = clustered_rates(compared, text, columns, confidence)
    worst = (
        rates.group_by("group")
        .agg(pl.max("wer"))
        .sort("wer", "group", descending=[True, False], nulls_last=True)["group"]
    )
    groups = {"split": ordered_splits(worst), "duration": [*_BANDS, "not known"]}.get(
        str(by), worst.to_list()
    )
    return rates.sort(
        pl.col("group").cast(pl.Enum(groups)), pl.col("hypothesis").cast(pl.Enum([*columns]))
    )


@dataclass(frozen=True)
class _Grouping:
    """How segments are grouped for `error_rates`, and clustered within a group.

    `several` has a row for each `group`, and whether it has several speakers and recordings.
    """

    group: pl.Expr
    columns: tuple[str, ...]
    several: pl.DataFrame
    num_segments: int

    def clustered(self, part: pl.DataFrame) -> pl.DataFrame:
        """Add `group` and `cluster` to segments."""
        speaker = pl.coalesce("speaker_id", "recording_id", "segment_id")
        cluster = (
            pl.when("speaker_ids")
            .then(speaker)
            .when("recording_ids")
            .then("recording_id")
            .otherwise("segment_id")
        )
        grouped = part.with_columns(group=self.group).join(
            self.several, on="group", how="left", maintain_order="left"
        )
        return grouped.with_columns(cluster=cluster)


def _grouping(segments: SegmentRows, by: str | None) -> _Grouping:
    """Return the groups of `error_rates` for its argument `by`."""
    keys = {None: (), "duration": ("duration_s",)}.get(by, (by,))
    who = ("speaker_id", "recording_id")
    columns = tuple(dict.fromkeys((*who, *keys)))
    group = _group_of(by)
    num_segments = 0
    places = []
    for part in segments.parts(columns):
        num_segments += len(part)
        places.append(part.select(*who, group=group).unique())
    is_several = ((pl.col(name).n_unique() > 1).alias(f"{name}s") for name in who)
    several = pl.concat(places).group_by("group").agg(is_several)
    return _Grouping(group, (*columns, "segment_id"), several, num_segments)


def _group_of(by: str | None) -> pl.Expr:
    """Return the name of a segment's group, never null."""
    if by is None:
        return pl.lit("all")
    if by != "duration":
        null_name = "out" if by == "split" else "not known"
        return pl.col(by).cast(pl.String).fill_null(null_name)
    bounds = (pl.col("duration_s") >= end for end in _BANDS.values())
    number = pl.sum_horizontal(bounds, ignore_nulls=False).cast(pl.Int64)
    names = dict(enumerate(_BANDS, start=1))
    band = number.replace_strict(names, return_dtype=pl.String, default=None)
    return band.fill_null("not known")


def _normalized(part: pl.DataFrame, texts: Collection[str], steps: Sequence[str]) -> pl.DataFrame:
    """Return segments with the normal forms of columns; as they are without any step."""
    if not steps:
        return part
    return part.with_columns(normalize_column(part[name], ("nfc", *steps)) for name in texts)


def words(source: Source, hypothesis: str = "asr", *, where: str | None = None) -> pl.DataFrame:
    """Return each word of the transcripts and how often a hypothesis has it.

    It shows the words that a recognizer fails on.

    Words are compared in lower case and without punctuation (`text.DEFAULT_STEPS`), aligned as in
    `text.word_diff`. A workspace of 20,000 segments or more keeps the table in its folder
    ``.words``: it is counted anew when an id or a text has changed.

    Args:
        source: a workspace, a corpus, or a frame with the columns of `segments`.
        hypothesis: ``asr`` for the column `asr_text`, NAME for `asr_text_NAME`.
        where: SQL condition over the columns, such as ``split = 'test'``.

    Returns:
        `word`, `count` (in transcripts that have a hypothesis), `right` (occurrences that the
        hypothesis has at that place), `accuracy` (right / count), `segments`, `examples` (up to
        three segment ids, first of those with an error), most frequent words first.

    Raises:
        InputError: the hypothesis is unknown, or the condition is not valid.

    Examples:
        >>> texts = {"text": ["Da, evo blic"], "asr_text": ["da evo blitz"]}
        >>> frame = pl.DataFrame({"segment_id": ["a"], "duration_s": [1.0], **texts})
        >>> words(frame).select("word", "count", "right", "examples").rows()
        [('blic', 1, 0, ['a']), ('da', 1, 1, ['a']), ('evo', 1, 1, ['a'])]
    """
    segment_rows, columns = _with_hypotheses(source, [hypothesis], where, "text")
    heard = columns[hypothesis]
    workspace = _workspace_of(source)
    if workspace is None:
        return _count_words(segment_rows, heard, segment_rows.count(heard))
    texts = hash_texts(_word_pairs(segment_rows, heard))
    cache = WordsCache(workspace, hypothesis, where or "")
    counted = cache.read(texts)
    if counted is None:
        counted = _count_words(segment_rows, heard, texts.num_segments)
        cache.write(texts, counted)
    return counted


def _count_words(segments: SegmentRows, heard: str, num_segments: int) -> pl.DataFrame:
    """Return the table of `words`, counted with a progress bar."""
    from nbaudio.text.word_accuracy import word_accuracy

    shown = num_segments > _MANY_SEGMENTS
    with progress("count words", num_segments, "segments", show=shown) as advance:
        return word_accuracy(_advancing(_word_pairs(segments, heard), advance))


def _word_pairs(segments: SegmentRows, heard: str) -> Iterator[pl.DataFrame]:
    """Yield `segment_id`, `text` and `heard` of the segments that have both texts."""
    for part in segments.parts(("segment_id", "text", heard)):
        pairs = part.select("segment_id", "text", heard=heard).drop_nulls(("text", "heard"))
        yield from pairs.cast(pl.String).iter_slices(_WORD_ROWS)


def _advancing(
    parts: Iterator[pl.DataFrame], advance: Callable[[float], object]
) -> Iterator[pl.DataFrame]:
    """Yield parts; advance a progress bar by the rows of a part once it was used."""
    for part in parts:
        yield part
        advance(len(part))


def _workspace_of(source: Source) -> Workspace | None:
    """Return the workspace of a source; None for a corpus and for frames."""
    if not isinstance(source, str | Path | Workspace):
        return None
    if folder_at(_place(source)).exists(CORPUS_JSON):
        return None
    return Workspace.open(source)


def _with_hypotheses(
    source: Source, hypotheses: Sequence[str] | None, where: str | None, text: str
) -> tuple[SegmentRows, dict[str, str]]:
    """Return the segments that meet a condition, and the columns of hypotheses by name."""
    segment_rows = rows(source, further=bool(where) or text != "text").where(where or "")
    hypothesis_columns = schemas.hypothesis_names(segment_rows.schema)
    if hypotheses is None or not hypothesis_columns.keys() >= {*hypotheses}:
        with_texts = [
            name
            for name, column in hypothesis_columns.items()
            if segment_rows.schema[column] == pl.String and segment_rows.count(column)
        ]
        if absent := [name for name in hypotheses or () if name not in hypothesis_columns]:
            raise InputError(
                f"hypothesis {absent[0]!r} is unknown; known are {', '.join(with_texts) or 'none'}"
            )
        hypotheses = with_texts
    if segment_rows.schema.get(text) not in (pl.String, pl.Null):
        raise InputError(
            f"text={text!r} is no column of text; columns are {', '.join(segment_rows.schema)}"
        )
    return segment_rows, {name: hypothesis_columns[name] for name in hypotheses}


def segments(source: Source, *, further: bool = False) -> pl.DataFrame:
    """Return all segments, rejected ones too, with `duration_s` and all hypotheses.

    If `further` is set, they have the source's further columns too.

    Raises:
        InputError: there is neither a workspace nor a corpus, or its tables cannot be read.

    Examples:
        >>> segments(pl.DataFrame({"segment_id": ["a"], "duration_s": [2.5]})).rows()
        [('a', 2.5)]
    """
    segment_rows = rows(source, further=further)
    return segment_rows.read(*segment_rows.schema)


def rows(source: Source, *, further: bool = False) -> SegmentRows:
    """Return the `segments`; their columns are read on demand."""
    if isinstance(source, SegmentRows):
        return source
    if not isinstance(source, str | Path | Workspace):
        frame = as_polars(source, "segments")
        if "duration_s" not in frame.columns:
            raise InputError(
                "segments: no column duration_s; use the table that views.segments returns"
            )
        return SegmentRows.of_frame(frame)

    def columns(column_names: Sequence[str]) -> list[str]:
        unread = {"word_times", *schemas.NORMALIZED, "sampling_rate", "duration_s"}
        if further:
            names = [name for name in column_names if name not in unread]
        else:
            names = [*schemas.hypothesis_names(column_names).values(), *schemas.SIGNALS]
        return list(dict.fromkeys((*_USED, *names)))

    folder = folder_at(_place(source))
    if folder.exists(CORPUS_JSON):
        return corpus_rows(folder, columns)
    if folder.place.local is not None and folder.exists("workspace.json"):
        return workspace_rows(Workspace.open(folder.place.local), columns)
    raise InputError(f"{folder}: neither a workspace (workspace.json) nor a corpus (corpus.json)")


def _place(source: str | Path | Workspace) -> str | Path:
    """Return the folder or URL of a workspace or corpus."""
    return source.path if isinstance(source, Workspace) else source
