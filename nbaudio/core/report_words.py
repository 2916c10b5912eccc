"""The words in which reports name facts, and which zeros are news.

Keys are names of facts or of columns, as in ``--json``.
"""

from collections.abc import Mapping

LABELS: Mapping[str, str] = {
    "hours": "audio",
    "minutes": "audio",
    "seconds": "time",
    "bytes": "size",
    "times_real_time": "speed",
    "megabytes_per_second": "speed",
    # ingest, score, measure
    "unreadable_lines": "lines that cannot be read",
    "names": "how names match files",
    "above_0_8": "similarity above 0.8",
    "above_0_8_without_formatting": "similarity above 0.8 without formatting",
    "word_error_rate_without_formatting": "word error rate without formatting",
    "formatting_not_covered": "words whose formatting has no rule",
    "skipped": "skipped, as their audio is unusable",
    "clipped": "with clipped samples",
    "cut_start": "that begin within a word",
    "cut_end": "that end within a word",
    # review and evidence
    "drawn": "segments drawn",
    "from": "drawn from",
    "left_for_train": "left for training",
    "left_empty": "rows without a verdict",
    "known_already": "verdicts imported before",
    "changed_since": "segments changed since export",
    "by_word": "verdicts by word",
    "by_reviewer": "verdicts by reviewer",
    "how_right": "how many are right",
    "target_proven": "is the target proven",
    "weakest": "where most is wrong",
    "by_part": "right labels by part",
    "lowest_proven": "lowest proven threshold",
    "curve": "all segments above a threshold",
    "in_force": "decisions in force",
    # select
    "lost_to_grouping": "left out to keep splits apart",
    "grouping_alternatives": "what other groupings would leave out",
    "reviewed_segments": "kept out of train for review",
    "duration_s": "duration in seconds",
    "wer": "word error rate",
    "cer": "character error rate",
    "leakage": "shared between splits (leakage)",
    "source_held_out_in_train": "held out by the source, now in train",
    # corpora
    "shards_of_train": "reading train",
    "clips_already_cut": "clips cut before",
    "shards_kept_from_before": "shards kept from before",
    "kept_and_rejected": "segments accounted for",
    "whole": "complete and undamaged",
    "model_against_label": "recognizer against transcripts",
    "p5": "5 % below",
    "p95": "95 % below",
    "true": "yes",
    "there_before": "there before",
}

#: Words that a fact has in the report of one step only.
STEP_LABELS: Mapping[str, Mapping[str, str]] = {
    "align": {
        "typed_words": "words of the transcripts",
        "typed_in_segments": "of them in segments",
        "heard_words": "words that the recognizer heard",
        "heard_in_segments": "of these in segments",
    },
    "ingest": {
        "new": "new segments",
        "changed": "changed segments",
        "changed_by": "changed in",
        "unchanged": "unchanged segments",
        "removed": "segments no longer in the source",
        "withdrawn": "segments withdrawn before",
        "recordings_by_status": "recordings since the last ingest",
    },
    "join": {
        "matched": "rows that match a segment",
        "without": "segments without a value",
        "new": "new values",
        "changed": "changed values",
        "unchanged": "unchanged values",
        "empty": "rows without a value",
        "not_joined": "rows not joined",
    },
    "materialize": {"kept": "clips", "rejected": "segments not in it"},
    "review export": {
        "taken_back": "round taken back",
        "segments": "segments in it",
        "back_for_training": "segments that may be trained on again",
    },
    "review import": {
        "rows": "rows with a segment",
        "new": "new verdicts",
        "changed": "changed verdicts",
        "disagreements": "segments on which reviewers disagree",
    },
    "select": {"kept": "segments kept", "reviewed": "kept out of train for review"},
    "status": {"kept": "clips", "rejected": "segments not in it", "alive": "running now"},
    "withdraw": {"segments": "segments withdrawn", "recordings": "recordings withdrawn"},
}

#: Facts that are shown when they are zero or empty.
NEWS = frozenset(
    {
        "clips_decoded",
        "corrected_now",
        "drawn",
        "files_uploaded",
        "in_force",
        "kept",
        "leakage",
        "matched",
        "new",
        "scored",
        "segments",
        "segments_kept",
        "target_proven",
    }
)

#: How the name of a recording in the transcripts matches a file.
NAME_MATCHES: Mapping[str, str] = {
    "unicode": "with other Unicode characters",
    "extension": "with another extension",
    "blanks": "with other blanks",
    "id": "by the id in the name",
}

#: Verbs that go with one thing.
SINGULAR: Mapping[str, str] = {
    "are": "is",
    "begin": "begins",
    "could": "could",
    "count": "counts",
    "end": "ends",
    "have": "has",
    "lack": "lacks",
    "only repeat": "only repeats",
    "share": "shares",
    "were": "was",
}

#: Nouns that stand in the singular as names of facts.
NOUNS = frozenset(
    {
        "clip",
        "hypothesis row",
        "identical audio clip",
        "identical sentence",
        "near identical sentence",
        "recording",
        "review",
        "segment",
        "similar sentence",
        "speaker",
        "word",
    }
)

#: Heads of the columns of tables; a column whose head is empty is not shown.
TABLES: Mapping[str, Mapping[str, str]] = {
    "curve": {
        "threshold": "similarity at least",
        "precision": "right (estimate)",
        "low": "at least right",
        "high": "at most right",
        "target": "",
        "proven": "target proven",
    },
    "avoided": {
        "avoided_id": "same id",
        "avoided_audio": "same audio",
        "avoided_sentence": "same sentence",
        "avoided_near_sentence": "near sentence",
        "held_out": "in dev or test",
    },
    "by_part": {
        "by": "counted by",
        "right": "right (estimate)",
        "at_least": "at least right",
        "at_most": "at most right",
    },
    "by_split": {
        "before_segments": "segments before",
        "before_hours": "audio before",
        "before_speakers": "speakers before",
        "after_segments": "segments after",
        "after_hours": "audio after",
        "after_speakers": "speakers after",
    },
    "columns": {"name": "what is read"},
    "findings": {
        "ok": "within limit",
        "left_out": "left out already",
        "examples": "",
        "mend": "",
        "means": "",
        "explained": "",
    },
    "evidence": {
        "precision": "right (estimate)",
        "low": "at least right",
        "target_proven": "is the target proven",
    },
    "grouping_alternatives": {"share": "share of what passed the filters"},
    "model_against_label": {
        "group": "split",
        "wer": "word error rate",
        "wer_low": "at least",
        "wer_high": "at most",
    },
    "not_read": {"what": "part of the source", "count": "how many", "option": "what reads it"},
    "reviewed": {"review": "round", "segments": "segments kept out of train"},
    "rounds": {"rows": "rows on sheets"},
}
