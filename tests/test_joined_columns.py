"""Columns that steps add: which names are allowed, what a second writing changes, and that a
source's column stays."""

import polars as pl
import pytest

from nbaudio.core.errors import InputError
from nbaudio.sources.joined_columns import check_name, store_column
from nbaudio.tables.workspace import Workspace


@pytest.fixture
def workspace(tmp_path):
    made = Workspace.create(tmp_path / "w", source="made", audio=None, cache=5)
    rows = {
        "segment_id": list("abcd"),
        "text": list("ABCD"),
        "text_verbatim": list("ABCD"),
        "asr_text_big": list("ABCD"),
    }
    made.save(segments=pl.DataFrame(rows))
    return made


def values(**by_id):
    return pl.DataFrame(
        {"segment_id": list(by_id), "value": list(by_id.values())},
        schema_overrides={"value": pl.String},
    )


def test_a_column_is_stored_by_id_and_says_what_changed(workspace):
    found = store_column(
        workspace, "asr_text_x", values(d="4", a="1", c=""), {"step": "join", "file": "x.csv"}
    )
    assert found == {"new": 3, "changed": 0, "gone": 0, "unchanged": 0}
    assert workspace.segments["asr_text_x"].to_list() == ["1", None, "", "4"]
    assert workspace.settings == {
        **{"source": "made", "audio": None, "cache": 5},
        "joined": {"asr_text_x": {"step": "join", "file": "x.csv"}},
    }
    found = store_column(
        workspace, "asr_text_x", values(a="1", b="2", c="3"), {"step": "recognize"}
    )
    assert found == {"new": 1, "changed": 1, "gone": 1, "unchanged": 1}
    assert workspace.segments["asr_text_x"].to_list() == ["1", "2", "3", None]
    assert workspace.settings["joined"] == {"asr_text_x": {"step": "recognize"}}


def test_a_column_may_get_another_type(workspace):
    numbers = pl.DataFrame({"segment_id": ["a", "b"], "value": [1, None]})
    assert store_column(workspace, "age", values(a="old", c="x"), {"step": "join"})["new"] == 2
    assert store_column(workspace, "age", numbers, {}) == {
        "new": 0,
        "changed": 1,
        "gone": 1,
        "unchanged": 0,
    }
    assert workspace.segments["age"].to_list() == [1, None, None, None]


def test_a_column_of_the_source_is_not_replaced(workspace):
    before = workspace.segments
    with pytest.raises(
        InputError, match=r"the source has a column asr_text_big, which stays.*such as big_2"
    ):
        store_column(workspace, "asr_text_big", values(a="1"), {"step": "join"})
    assert workspace.segments.equals(before)
    assert "joined" not in workspace.settings


def test_scores_of_a_changed_column_are_dropped_and_others_kept(workspace):
    store_column(workspace, "asr_text_x", values(a="1"), {"step": "join"})
    measures = ("similarity", "wer", "cer", "spoken_similarity")
    own = [f"{measure}_{pair}" for measure in measures for pair in ("x", "verbatim_x")]
    other = [*measures[:3], "wer_verbatim", "wer_big", "wer_verbatim_big", "wer_other_x"]
    scored = workspace.segments.with_columns(
        pl.lit(0.5).alias(name) for name in [*own, *other, "agreement", "agreement_text"]
    )
    workspace.save(segments=scored)
    store_column(workspace, "asr_text_x", values(a="1"), {"step": "join"})
    assert workspace.segments.columns[-1] == "agreement_text"
    store_column(workspace, "asr_text_x", values(a="2"), {"step": "join"})
    left = workspace.segments.columns
    assert set(scored.columns) - set(left) == {*own, "agreement", "agreement_text"}
    store_column(workspace, "text_y", values(a="2"), {"step": "join"})
    workspace.save(segments=workspace.segments.with_columns(wer_y=0.5, wer_y_big=0.5, wer_y_z=0.5))
    store_column(workspace, "text_y", values(a="3"), {"step": "join"})
    assert set(workspace.segments.columns) - set(left) == {"text_y", "wer_y_z"}


def test_names_of_joined_columns_are_checked(workspace):
    assert check_name(workspace, "hypothesis", "x_2") == "asr_text_x_2"
    assert check_name(workspace, "text", "x") == "text_x"
    assert check_name(workspace, "column", "age") == "age"
    store_column(workspace, "asr_text_x", values(a="1"), {"step": "join"})
    assert check_name(workspace, "hypothesis", "x") == "asr_text_x"
    refused = {
        ("hypothesis", "x-y"): "letters from a to z, digits and underscores",
        ("hypothesis", "1x"): "begins with a letter",
        ("hypothesis", ""): "begins with a letter",
        (
            "hypothesis",
            "verbatim",
        ): "another text has this name; choose another name, such as verbatim_2",
        ("text", "big"): "another text has this name",
        ("text", "x"): "another text has this name",
        ("hypothesis", "asr"): "another text has this name",
        ("text", "normalized"): "other steps write such a column",
        ("hypothesis", "raw"): "other steps write such a column",
        ("hypothesis", "big"): "the source has a column asr_text_big",
        ("text", "verbatim"): "the source has a column text_verbatim",
        (
            "column",
            "decision",
        ): "other steps write such a column; choose another name, such as decision_2",
        ("column", "text_z"): "other steps write such a column",
        ("column", "audio"): "other steps write such a column",
    }
    for (kind, name), why in refused.items():
        with pytest.raises(InputError, match=why):
            check_name(workspace, kind, name)
