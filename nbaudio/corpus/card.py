"""Data card: README.md of a corpus, made from corpus.json alone.

It has no transcripts, and begins with the header that `datasets` needs.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import polars as pl
import yaml

from nbaudio.core.errors import InputError
from nbaudio.core.report import fact_label, show
from nbaudio.corpus.containers.registry import container_named
from nbaudio.proof.claim_sentences import in_percent
from nbaudio.proof.evidence import describe_claim, describe_parts
from nbaudio.selection.leakage import CHECK_MEANINGS
from nbaudio.storage.folders import Folder, read_object
from nbaudio.tables.schemas import SIGNALS
from nbaudio.tables.split_names import ordered_splits
from nbaudio.text.characters import DELIMITER, SPECIALS

CARD = "README.md"

_NO_CHARACTERS = len((DELIMITER, *SPECIALS))
# The keys are those of corpus.json since the first version.
_ABOUT = {"title": "title", "language": "language", "licence": "license"}
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
_LICENSE_ID = re.compile(r"[a-z0-9][a-z0-9.+-]*")
_SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
)
_QUANTILES = {"p5": 0.05, "median": 0.5, "p95": 0.95}
_NO_RANGES = pl.DataFrame(
    schema={"signal": pl.String, **dict.fromkeys(("missing", *_QUANTILES, "true"), pl.Float64)}
)
_FIELDS = {
    "audio": "the clip; in a tar its member is named after the encoding",
    "segment_id": "the key",
    "text": "what was said, by human hand",
    "asr_text": "what a recogniser heard",
    "speaker_id, recording_id": "who speaks, and where",
    "start_sample, end_sample": (
        "the window in the recording, half open, at the recording's own rate"
    ),
    "duration_s": "length of the clip in seconds",
    "similarity, wer, cer": "of transcript and hypothesis",
}


def about_of(arguments: Mapping[str, Any], base_about: Mapping[str, Any]) -> dict[str, str | None]:
    """Return title, language and license by the keys of corpus.json.

    Args:
        arguments: `title`, `language` and `license`, each None where not stated.
        base_about: those of the base, which hold where nothing is stated.

    Raises:
        InputError: one of them is not text, or a language is no language code.
    """
    for name, value in arguments.items():
        if value is not None and not isinstance(value, str):
            raise InputError(f"{name} {value!r}: must be text; in YAML, quote it")
    _languages(arguments["language"])
    return {key: arguments[name] or base_about.get(key) for key, name in _ABOUT.items()}


def _languages(codes: str | None) -> list[str]:
    """Return language codes that are separated by commas; raise InputError for something else."""
    languages = [code.strip() for code in codes.split(",")] if codes else []
    if invalid := [code for code in languages if not _LANGUAGE.fullmatch(code)]:
        raise InputError(
            f"language {invalid[0]!r} is not a language code; expected such as hr or pt-BR, "
            "separated by commas"
        )
    return languages


def card(corpus_info: Mapping[str, Any], *, transcribed: bool) -> str:
    """Return the card of a corpus, Markdown with a YAML header.

    `transcribed` is whether any segment has a text.
    """
    about = corpus_info.get("about") or {}
    splits = {
        name: corpus_info["splits"][name]
        for name in ordered_splits(corpus_info["splits"])
        if corpus_info["splits"][name]["segments"]
    }
    header = yaml.safe_dump(
        _header(corpus_info, about, splits, transcribed=transcribed),
        sort_keys=False,
        allow_unicode=True,
    )
    parts = [
        f"---\n{header}---\n\n# {_plain(about.get('title') or 'Speech corpus')}",
        _summary(corpus_info, splits),
        _split_table(splits),
        _how_to_read(corpus_info["parameters"]),
        "## Fields",
        _table(("field", "what it is"), list(_FIELDS.items())),
        *_signals(corpus_info.get("signals") or []),
        *_version(corpus_info),
        "## How right the labels are",
        _evidence(corpus_info.get("evidence")),
        *_leakage(corpus_info.get("leakage", {})),
        *_selection(corpus_info),
        "## Licence",
        _plain(about.get("licence") or "Not stated."),
        _provenance(corpus_info.get("provenance") or []),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _summary(corpus_info: Mapping[str, Any], splits: Mapping[str, Any]) -> str:
    """Return the amount and the format of the clips, and which files there are."""
    clips = sum(facts["segments"] for facts in splits.values())
    hours = sum(facts["hours"] for facts in splits.values())
    parameters = corpus_info["parameters"]
    if parameters["rate"]:
        rate = f"{parameters['rate']:,} Hz"
    else:
        rate = "the rate of their recordings"
    return (
        f"{clips:,} clips of speech, {hours:,.1f} hours, "
        f"one channel ({_plain(parameters['channel'])}), {rate}, "
        f"{parameters['encoding']} in {parameters['container']} shards. "
        f"Made by nbaudio {corpus_info['nbaudio']}. `corpus.json` holds all "
        "parameters and hashes, `segments.parquet` a row for each clip, "
        "`rejected.parquet` what is not in and why."
    )


def _split_table(splits: Mapping[str, Any]) -> str:
    """Return the table of clips, hours, speakers and recordings by split."""
    rows = [
        (
            name,
            facts["segments"],
            f"{facts['hours']:,.2f}",
            facts["speakers"],
            facts["recordings"],
        )
        for name, facts in splits.items()
    ]
    return _table(("split", "clips", "hours", "speakers", "recordings"), rows)


def _how_to_read(parameters: Mapping[str, Any]) -> str:
    """Return code that reads the clips: as bytes, and where `datasets` can, decoded."""
    readers = container_named(parameters["container"]).readers(parameters["encoding"])
    decoded = "With torchcodec and PyTorch (`pip install 'nbaudio[datasets]'`), `datasets` decodes:"
    return f"\n\n{decoded}\n\n".join(f"```python\n{code}\n```" for code in readers)


def _leakage(checks: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the section on values that splits share; usual checks come last."""
    about = (
        "Each clip of dev and test was compared with all clips of the other splits; "
        "`corpus.json` lists the exceptions."
    )
    in_order = sorted(checks.items(), key=lambda check: check[0] in CHECK_MEANINGS)
    rows = [
        (name, counts["shared"], counts["segments"], counts.get("means", ""))
        for name, counts in in_order
    ]
    head = ("check", "shared values", "clips of dev and test", "means")
    return ["## What the splits share", about, _table(head, rows)]


def _selection(corpus_info: Mapping[str, Any]) -> list[str]:
    """Return the section on the selection: parameters that were set, and rejected segments."""
    parameters = [
        (name, value)
        for name, value in corpus_info["selection"].get("parameters", {}).items()
        if value is not None and value != []
    ]
    rejected = sorted(corpus_info["rejected"].items(), key=lambda row: (-row[1], row[0]))
    return [
        "## How it was selected",
        _table(("parameter", "value"), parameters),
        "Segments that are not in, by reason:",
        _table(("reason", "segments"), rejected),
    ]


def signal_ranges(rows: pl.LazyFrame, measured: Iterable[str] = ()) -> pl.DataFrame:
    """Return the distribution of each signal that has values: see `views.signals`.

    `measured` are columns of models. One column at a time is in memory.
    """
    schema = rows.collect_schema()
    ranges = [
        rows.select(signal=pl.lit(name), **_range_of(name, schema[name])).collect()
        for name in (*SIGNALS, *measured)
        if name in schema and (schema[name].is_numeric() or schema[name] == pl.Boolean)
    ]
    return pl.concat([_NO_RANGES, *ranges]).filter(pl.col("missing") < 1)


def _range_of(name: str, dtype: pl.DataType) -> dict[str, pl.Expr]:
    """Return expressions for the share that is missing, quantiles, and the share of true values.

    Numbers have no share of true values, logical values have no quantiles.
    """
    number = pl.col(name).cast(pl.Float64).fill_nan(None)
    # Between 0.0 and -0.0 a quantile may give either.
    number = pl.when(number == 0).then(0.0).otherwise(number)
    missing = number.null_count() / pl.len()
    unknown = pl.lit(None, pl.Float64)
    if dtype == pl.Boolean:
        quantiles = dict.fromkeys(_QUANTILES, unknown)
        return {"missing": missing, **quantiles, "true": number.mean()}
    quantiles = {
        quantile: number.quantile(share, "linear") for quantile, share in _QUANTILES.items()
    }
    return {"missing": missing, **quantiles, "true": unknown}


def _signals(ranges: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the section on signals; nothing if they were not measured."""
    if not ranges:
        return []
    about = (
        "Measured on each clip by nbaudio, or by models that `corpus.json` names under `measured`; "
        "of yes and no, the share of yes."
    )
    rows = [
        (signal["signal"], *_range_cells(signal), f"{signal['missing']:.1%}") for signal in ranges
    ]
    return ["## Audio signals", about, _table(("signal", "median", "5 %", "95 %", "missing"), rows)]


def _range_cells(signal: Mapping[str, Any]) -> list[str]:
    """Return median, 5 % and 95 % of a signal as text, or the share of yes and two empty cells."""
    if signal["median"] is None:
        return [f"{signal['true']:.1%}", "", ""]
    return [f"{signal[quantile]:.4g}" for quantile in ("median", "p5", "p95")]


def _version(corpus_info: Mapping[str, Any]) -> list[str]:
    """Return the section on versions; nothing for a first version without withdrawals."""
    base = corpus_info.get("base")
    tombstones = corpus_info.get("tombstones") or []
    if not base and not tombstones:
        return []
    since = "This is version 1."
    if base:
        since = (
            f"This is version {corpus_info['version']}. Clips that are new or have changed since "
            f"version {base['version']} (SHA-256 of its "
            f"`corpus.json`: `{base['sha256']}`) are in shards of their own, "
            f"whose names have `-v{corpus_info['version']}-`."
        )
    numbers = Counter((tombstone["kind"], tombstone["reason"]) for tombstone in tombstones)
    rows = [(kind, number, reason) for (kind, reason), number in sorted(numbers.items())]
    return ["## Versions", since, _table(("withdrawn", "number", "reason"), rows)]


def _provenance(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of licenses, consent and sources of segments; empty if none is stated."""
    cells = [(row["field"], row["value"], row["segments"], f"{row['hours']:,.2f}") for row in rows]
    return _table(("of the recordings", "value", "clips", "hours"), cells)


def publish_card(folder: Folder, corpus_info: dict[str, Any], *, before: str) -> bool:
    """Write the card, and its hash in `corpus_info`.

    Return False if the card was edited since the one with the hash `before`.
    """
    # With the keys in the order of corpus.json, so that a corpus that is converted from it has the
    # same card.
    ordered = json.dumps(
        {name: value for name, value in corpus_info.items() if name != "sources"}, sort_keys=True
    )
    text = card(
        json.loads(ordered), transcribed=len(read_object(folder, "vocab.json")) > _NO_CHARACTERS
    )
    corpus_info["card"] = hashlib.sha256(text.encode()).hexdigest()
    if before and folder.exists(CARD) and not folder.holds(CARD, before):
        return False
    with folder.new(CARD) as path:
        path.write_text(text, encoding="utf8")
    return True


def _header(
    corpus_info: Mapping[str, Any],
    about: Mapping[str, Any],
    splits: Mapping[str, Any],
    *,
    transcribed: bool,
) -> dict[str, Any]:
    """Return the YAML header that Hugging Face reads."""
    container = container_named(corpus_info["parameters"]["container"])
    files = [{"split": name, "path": container.pattern(name)} for name in splits]
    size = {
        name: sum(shard["bytes"] for shard in corpus_info["shards"] if shard["split"] == name)
        for name in splits
    }
    examples = {name: facts["segments"] for name, facts in splits.items()}
    license_ = about.get("licence")
    configs = None
    if container.for_datasets:
        configs = [{"config_name": "default", "data_files": files}]
    license_name = None
    if license_ and not _LICENSE_ID.fullmatch(license_):
        license_name = license_
        license_ = "other"
    header = {
        "pretty_name": about.get("title"),
        "language": _languages(about.get("language")),
        "license": license_,
        "license_name": license_name,
        "task_categories": ["automatic-speech-recognition"] if transcribed else None,
        "size_categories": [
            next((name for most, name in _SIZES if sum(examples.values()) < most), "10M<n<100M")
        ],
        "configs": configs,
        "dataset_info": {
            "config_name": "default",
            "splits": [
                {"name": name, "num_bytes": size[name], "num_examples": examples[name]}
                for name in splits
            ],
            "download_size": sum(size.values()),
            "dataset_size": sum(size.values()),
        },
    }
    return {name: value for name, value in header.items() if value}


def _evidence(facts: Mapping[str, Any] | None) -> str:
    """Return what is proven about the clips by parts; without verdicts, that nothing is known."""
    claim = (facts or {}).get("selection")
    if not facts or not claim or claim["low"] is None or not claim["reviewed"]:
        taken_back = (claim or {}).get("rounds_taken_back")
        counted = ""
        if taken_back:
            counted = f" Rounds of review taken back: {taken_back}."
        return f"Not known: nobody has judged a sample of it.{counted}"
    rows = describe_parts(facts)
    about = (
        "By split, hours and words, each by itself. `corpus.json` also has the same about "
        "all segments at or above thresholds on "
        "similarity, whether they are in or not."
    )
    statement, *others = in_percent(describe_claim(claim)).items()
    by_part = _table(
        [fact_label(name) for name in rows[0]], [list(in_percent(row).values()) for row in rows]
    )
    claim_table = _table(("evidence", "value"), others)
    return "\n\n".join([_plain(statement[1]), claim_table, about, by_part])


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Format a Markdown table with escaped cells; empty without rows."""
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *([_plain(show(value)) for value in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> str:
    """Escape a text for Markdown and HTML, in one line."""
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", escape(" ".join(text.split()), quote=False))
