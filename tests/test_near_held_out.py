"""Sentences that are nearly those of dev or test stay out of train."""

import polars as pl
import pytest
from typer.testing import CliRunner

import nbaudio
from nbaudio.cli import app
from nbaudio.core.errors import InputError
from nbaudio.tables.workspace import Workspace

HELD_OUT = "Sutra ujutro otvaramo raspravu o zakonu"
NEAR = {
    "the same": HELD_OUT,
    "case": "SUTRA ujutro otvaramo RASPRAVU o zakonu",
    "punctuation": "Sutra, ujutro, otvaramo raspravu o zakonu!",
    "diacritics": "Šutra ujutro otvaramo raspravu o zakonu",
    "composition": "S\u030cutra ujutro otvaramo raspravu o zakonu",
    "a Cyrillic letter": "Sutr\u0430 ujutro otvaramo raspravu o zakonu",
    "Cyrillic letters": HELD_OUT.translate(str.maketrans("aeo", "\u0430\u0435\u043e")),
    "a Greek letter": "Sutra ujutr\u03bf otvaramo raspravu o zakonu",
    "one letter": "Sutra ujutro otvaramo rasprave o zakonu",
    "the last word": "Sutra ujutro otvaramo raspravu o proračunu",
}
FAR = {
    "two words": "Danas ujutro otvaramo raspravu o proračunu",
    "another sentence": "Nešto sasvim drugo je na dnevnom redu",
    "few words": "Hvala lijepa",
    "five words": "Sutra ujutro otvaramo prvu sjednicu",
}


def make(folder, texts, split_of=None):
    """A workspace with a held-out sentence of test, and a speaker for each text of train."""
    rows = [HELD_OUT, "Hvala lijepa", "Sutra ujutro otvaramo prvu raspravu", *texts]
    ids = [f"s{number:02}" for number in range(len(rows))]
    segments = pl.DataFrame(
        {
            "segment_id": ids,
            "recording_id": ids,
            "speaker_id": ids,
            "source_start": ["0"] * len(ids),
            "source_end": ["3"] * len(ids),
            "text": rows,
            "similarity": [1.0] * len(ids),
            "source_split": ["test"] * 3 + [split_of] * len(texts),
        },
        schema_overrides={"source_split": pl.String},
    )
    workspace = Workspace.create(folder, source="x", audio=None)
    workspace.save(recordings=pl.DataFrame({"recording_id": ids}), segments=segments)
    return workspace


def reasons(workspace):
    return workspace.segments["reason"].cast(pl.String).to_list()[3:]


def test_sentences_near_a_held_out_one_are_left_out_and_counted(tmp_path):
    workspace = make(tmp_path / "w", [*NEAR.values(), *FAR.values()])
    report = nbaudio.select(workspace, splits="source", dev=0)
    found = dict(zip([*NEAR, *FAR], reasons(workspace), strict=True))
    assert found == {**dict.fromkeys(NEAR, "near_held_out"), **dict.fromkeys(FAR)}
    assert report.facts["rejected"] == {"near_held_out": len(NEAR)}
    assert report.facts["leakage"]["near_identical_sentence"] == 0
    assert "near_held_out" in str(report)


@pytest.mark.parametrize(
    ("num_near", "far", "expected"),
    [
        (3, ["two words", "another sentence"], "3 of 5 segments for train are left out"),
        (2, [], "2 of 2 segments for train are left out"),
        (2, ["two words", "another sentence"], None),
    ],
)
def test_more_than_half_of_train_is_a_warning_that_names_the_option(
    tmp_path, num_near, far, expected
):
    texts = [*list(NEAR.values())[:num_near], *(FAR[name] for name in far)]
    workspace = make(tmp_path / "w", texts)
    report = nbaudio.select(workspace, splits="source", dev=0)
    warnings = [line for line in report.warnings if "near_held_out); --near-held-out 1" in line]
    assert [line.partition(", as")[0] for line in warnings] == ([expected] if expected else [])
    report = nbaudio.select(workspace, splits="source", dev=0, near_held_out=1)
    assert not any("near-held-out" in line for line in report.warnings)


def test_near_held_out_1_disables_the_check(tmp_path):
    workspace = make(tmp_path / "w", NEAR.values())
    arguments = ["select", str(workspace.path), "--splits", "source", "--dev", "0"]
    done = CliRunner().invoke(app, [*arguments, "--near-held-out", "1"])
    assert done.exit_code == 0, done.output
    assert reasons(workspace) == [None] * len(NEAR)
    with pytest.raises(InputError, match=r"near_held_out=0\.5: must be a number from 0\.9 to 1"):
        nbaudio.select(workspace, near_held_out=0.5)


def test_near_held_out_compares_letters_with_the_threshold(tmp_path):
    workspace = make(tmp_path / "w", [NEAR["one letter"], NEAR["case"]])
    nbaudio.select(workspace, splits="source", dev=0, near_held_out=0.99)
    assert reasons(workspace) == [None, "near_held_out"]


def test_given_splits_are_not_changed_by_near_held_out(tmp_path):
    workspace = make(tmp_path / "w", NEAR.values(), split_of="train")
    nbaudio.select(workspace, splits="source", dev=0)
    assert reasons(workspace) == [None] * len(NEAR)
