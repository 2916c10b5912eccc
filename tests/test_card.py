"""The data card: its header for Hugging Face, and escaping of markup."""

import json
import re
import sys

import polars as pl
import pytest
import yaml
from conftest import encoded
from hostile import MARKUP
from test_containers import encoding_of

import nbaudio
from nbaudio import review
from nbaudio.core.errors import InputError
from nbaudio.corpus.card import CARD, card, signal_ranges
from nbaudio.corpus.containers.registry import CONTAINERS
from nbaudio.corpus.materialize import materialize
from nbaudio.review.state import ReviewState, Verdict, append_verdicts


@pytest.fixture
def workspace(make_workspace):
    return make_workspace({"one.wav": (18.0, 16000), "two.flac": (12.0, 16000)}, channels=1)


def make(workspace, out, **options):
    return materialize(
        workspace, out=out, show_progress=False, **{"jobs": 1, "engine": "threading"} | options
    )


def header(text):
    return yaml.safe_load(text.split("---\n")[1])


def run_code(corpus, number):
    """The names that a block of code of the card defines, run as it is but for the path."""
    blocks = re.findall(
        r"```python\n(.*?)```", (corpus / CARD).read_text(encoding="utf8"), re.DOTALL
    )
    names = {}
    exec(compile(blocks[number].replace("path/to/this/folder", str(corpus)), CARD, "exec"), names)  # noqa: S102 - is tested
    return names


@pytest.mark.slow
@pytest.mark.parametrize(
    "container", [name for name, container in CONTAINERS.items() if container.for_datasets]
)
def test_load_dataset_of_the_folder_finds_the_splits(workspace, tmp_path, container):
    import datasets

    folder = tmp_path / "c"
    about = {"title": "Naslov", "language": "hr, en", "license": "cc-by-4.0"}
    make(
        workspace,
        folder,
        container=container,
        shard_size="100kB",
        encoding=encoding_of(container),
        **about,
    )
    counts = dict(pl.read_parquet(folder / "segments.parquet")["split"].value_counts().iter_rows())
    builder = datasets.load_dataset_builder(str(folder), cache_dir=str(tmp_path / "cache"))
    files = {
        split: {path.rpartition("/")[2] for path in paths}
        for split, paths in builder.config.data_files.items()
    }
    assert files == {
        split: {path.name for path in (folder / split).rglob("*") if path.is_file()}
        for split in counts
    }
    assert {name: split.num_examples for name, split in builder.info.splits.items()} == counts


@pytest.mark.parametrize(
    ("container", "encoding"),
    [
        pytest.param(name, encoding, marks=pytest.mark.slow if encoding == "opus" else ())
        for name, container in CONTAINERS.items()
        if container.for_datasets
        for encoding in (("mulaw",) if container.levels_only else ("flac", "opus", "mulaw"))
    ],
)
def test_the_first_code_of_the_card_runs_without_torchcodec(
    workspace, tmp_path, monkeypatch, container, encoding
):
    import datasets

    monkeypatch.setitem(sys.modules, "torchcodec", None)
    monkeypatch.setattr(datasets.config, "TORCHCODEC_AVAILABLE", False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    make(workspace, tmp_path / "c", container=container, encoding=encoding)
    found = run_code(tmp_path / "c", 0)
    rows = found["clips"] if "clips" in found else found["corpus"]["train"]
    assert len(rows) == (
        10 if "clips" in found else nbaudio.open_corpus(tmp_path / "c").splits["train"]
    )
    if "encoded" in found:
        assert found["encoded"] in encoded(
            tmp_path / "c", nbaudio.open_corpus(tmp_path / "c").segments["segment_id"]
        )


def test_the_header_has_title_language_license_and_size(workspace, tmp_path):
    make(workspace, tmp_path / "c", title="Naslov", language="hr, en", license="cc-by-4.0")
    # The key of the first corpora.
    about = {"title": "Naslov", "language": "hr, en", "licence": "cc-by-4.0"}
    assert json.loads((tmp_path / "c/corpus.json").read_text(encoding="utf8"))["about"] == about
    text = (tmp_path / "c" / CARD).read_text(encoding="utf8")
    found = header(text)
    assert (found["pretty_name"], found["language"], found["license"]) == (
        "Naslov",
        ["hr", "en"],
        "cc-by-4.0",
    )
    assert found["task_categories"] == ["automatic-speech-recognition"]
    assert found["size_categories"] == ["n<1K"]
    size = sum(path.stat().st_size for path in (tmp_path / "c").glob("*/*.tar"))
    assert found["dataset_info"]["dataset_size"] == size
    assert "# Naslov" in text


def test_unknown_facts_are_left_out_of_the_card(workspace, tmp_path):
    workspace.save(segments=workspace.segments.with_columns(text=pl.lit(None, dtype=pl.String)))
    make(workspace, tmp_path / "c")
    text = (tmp_path / "c" / CARD).read_text(encoding="utf8")
    assert not {"license", "language", "pretty_name", "task_categories"} & set(header(text))
    assert "Not stated." in text
    assert "nobody has judged" in text


@pytest.mark.slow
def test_the_card_counts_review_rounds_that_were_taken_back(workspace, tmp_path):
    review.export(workspace, out=tmp_path / "one.csv", n=1)
    review.export(workspace, undo="one")
    make(workspace, tmp_path / "a")
    evidence = json.loads((tmp_path / "a/corpus.json").read_text())["evidence"]
    assert evidence["selection"]["rounds_taken_back"] == 1
    text = (tmp_path / "a" / CARD).read_text(encoding="utf8")
    assert "nobody has judged a sample of it. Rounds of review taken back: 1." in text
    review.export(workspace, out=tmp_path / "two.csv", n=1)
    judge(workspace, "two")
    make(workspace, tmp_path / "b")
    text = (tmp_path / "b" / CARD).read_text(encoding="utf8")
    assert "| rounds taken back | 1 |" in text
    perfect = "taken to be always right: faults that they overlook are not counted"
    assert f"| reviewers | {perfect} |" in text
    assert "| unsure |" not in text
    review.export(workspace, out=tmp_path / "three.csv", n=3)
    judge(workspace, "three", ["unsure", "ok"])
    make(workspace, tmp_path / "c")
    text = (tmp_path / "c" / CARD).read_text(encoding="utf8")
    assert "| unsure | 1 |" in text


def judge(workspace, name, words=None):
    """Judge the first segments of a review; by default all of them are right."""
    record = ReviewState.load(workspace).records[name]
    time = "2026-11-21T03:00:00Z"
    words = words or ["ok"] * len(record.segment_ids)
    rows = zip(record.segment_ids, record.contents, words, strict=False)
    append_verdicts(
        workspace,
        [Verdict(key, content, word, "", None, "ana", time, name) for key, content, word in rows],
    )


def test_the_card_has_signals_of_the_corpus_if_they_were_measured(workspace, tmp_path):
    make(workspace, tmp_path / "a")
    assert "signals" not in json.loads((tmp_path / "a/corpus.json").read_text(encoding="utf8"))
    assert "Audio signals" not in (tmp_path / "a" / CARD).read_text(encoding="utf8")
    number = pl.int_range(pl.len())
    columns = {
        "snr_db": number * 10.0,
        "cut_end": number < 5,
        "channel_correlation": pl.lit(None, pl.Float64),
    }
    segments = workspace.segments.with_columns(**columns)
    out = segments["segment_id"][0]
    decided = {
        "decision": pl.when(pl.col("segment_id") == out)
        .then(pl.lit("reject"))
        .otherwise("decision")
    }
    workspace.save(segments=segments.with_columns(**decided))
    make(workspace, tmp_path / "b")
    text = (tmp_path / "b" / CARD).read_text(encoding="utf8")
    ships = nbaudio.open_corpus(tmp_path / "b").segments
    assert out not in ships["segment_id"].to_list()
    values = [ships["snr_db"].quantile(q, "linear") for q in (0.5, 0.05, 0.95)]
    assert (
        "| " + " | ".join(["snr\\_db", *(f"{value:.4g}" for value in values), "0.0%"]) + " |"
        in text
    )
    assert f"| cut\\_end | {ships['cut_end'].mean():.1%} |  |  | 0.0% |" in text
    assert "channel" not in text[text.index("Audio signals") : text.index("How right")]
    nbaudio.convert(tmp_path / "b", container="zip", out=tmp_path / "c", show_progress=False)
    assert "| snr\\_db |" in (tmp_path / "c" / CARD).read_text(encoding="utf8")


def test_equal_corpora_have_equal_cards_and_no_path_or_sentence_is_in_them(workspace, tmp_path):
    make(workspace, tmp_path / "a")
    make(workspace, tmp_path / "b", jobs=2)
    first = (tmp_path / "a" / CARD).read_bytes()
    assert first == (tmp_path / "b" / CARD).read_bytes()
    assert str(tmp_path).encode() not in first
    assert "rečenica".encode() not in first


@pytest.mark.slow
def test_an_edited_card_is_kept_and_an_unedited_one_is_rewritten(workspace, tmp_path):
    path = tmp_path / "c" / CARD
    make(workspace, tmp_path / "c")
    assert make(workspace, tmp_path / "c", title="Drugi").warnings == []
    assert "# Drugi" in path.read_text(encoding="utf8")
    path.write_text("Read by hand.", encoding="utf8")
    for _ in range(2):
        assert make(workspace, tmp_path / "c", title="Treći").warnings == [
            f"{path} was edited and is not overwritten"
        ]
        assert path.read_text(encoding="utf8") == "Read by hand."
    path.unlink()
    assert make(workspace, tmp_path / "c", title="Treći").warnings == []
    assert "# Treći" in path.read_text(encoding="utf8")


@pytest.mark.slow
@pytest.mark.parametrize("text", MARKUP)
def test_markup_in_titles_and_parameters_is_escaped(workspace, tmp_path, text):
    make(workspace, tmp_path / "c")
    manifest = json.loads((tmp_path / "c/corpus.json").read_text(encoding="utf8"))
    manifest["about"] = {"title": text, "licence": text}
    manifest["selection"] = {"parameters": {text: text}}
    manifest["leakage"] |= {text: {"shared": 0, "segments": 0}}
    written = card(manifest, transcribed=True)
    found = header(written)
    assert found["pretty_name"] == text
    assert found["license"] == "other"
    assert found["license_name"] == text
    body = written.partition("\n---\n\n")[2]
    assert "<script" not in body
    assert not re.search(r"(?<!\\)\]\(", body)
    assert not [
        line
        for line in body.splitlines()
        if line.startswith("|") and line.replace("\\|", "").count("|") not in (3, 5, 6)
    ]


def test_a_language_that_yaml_reads_as_false_is_refused(workspace, tmp_path):
    with pytest.raises(InputError, match="language False: must be text; in YAML, quote it"):
        make(workspace, tmp_path / "c", language=yaml.safe_load("no"))


@pytest.mark.parametrize("language", ["Croatian", "hr_HR", "hr,,en", " "])
def test_a_language_that_is_no_code_is_refused(workspace, tmp_path, language):
    with pytest.raises(InputError, match="is not a language code"):
        make(workspace, tmp_path / "c", language=language)
    assert not (tmp_path / "c").exists()


def test_the_median_of_signed_zeros_is_shown_without_a_sign():
    for zeros in ([-0.0, 0.0, 0.0], [0.0, -0.0, -0.0], [-0.0, -0.0, -0.0]):
        ranges = signal_ranges(pl.LazyFrame({"dc_offset": zeros}))
        assert str(ranges["median"].item()) == "0.0"


def test_the_card_has_hours_by_license_consent_and_source_of_the_recordings(workspace, tmp_path):
    segments = workspace.segments
    licenses = ["CC0-1.0" if name == "one" else None for name in segments["recording_id"]]
    recordings = sorted(set(segments["recording_id"]))
    workspace.save(segments=segments.with_columns(licence=pl.Series(licenses, dtype=pl.String)))
    table = pl.DataFrame({"recording_id": recordings, "consent": ["signed", "| `oral`"]})
    nbaudio.join(workspace, table, on="recording_id", column="consent")
    make(workspace, tmp_path / "c")
    rows = pl.read_parquet(tmp_path / "c/segments.parquet")
    hours = {
        name: round(part["duration_s"].sum() / 3600, 6)
        for (name,), part in rows.group_by("consent")
    }
    info = json.loads((tmp_path / "c/corpus.json").read_text())
    found = {row["value"]: row["hours"] for row in info["provenance"] if row["field"] == "consent"}
    assert found == pytest.approx(hours, abs=2e-6)
    licenses = {row["value"] for row in info["provenance"] if row["field"] == "license"}
    assert licenses == {"CC0-1.0", "not stated"}
    text = (tmp_path / "c" / CARD).read_text(encoding="utf8")
    assert "| of the recordings | value | clips | hours |" in text
    assert "| consent | \\| \\`oral\\` |" in text
    nbaudio.select(workspace, where="consent = 'signed' and licence is not null", dev=0, test=0)
    kept = workspace.segments.filter(pl.col("decision") == "accept")
    assert set(kept["recording_id"]) == {"one"}
    workspace.save(segments=segments)
    make(workspace, tmp_path / "d")
    assert "provenance" not in json.loads((tmp_path / "d/corpus.json").read_text())
