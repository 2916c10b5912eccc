"""SegmentTable without a browser: rows, orders, filters, requests of the front end, and the saved
form."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_widgets import Page

from nbaudio.core.errors import InputError
from nbaudio.tables.workspace import Workspace
from nbaudio.ui.filters import sort_and_filter
from nbaudio.ui.widgets import SegmentTable, Table, table
from nbaudio.ui.widgets.table_view import cell, row_page

FRAME = pl.DataFrame(
    {
        "segment_id": ["a", "b", "c", "d", "e"],
        "text": ["Dobar dan", "čuješ li (ovo)?", None, "dan.*", "<b>dan</b>"],
        "similarity": [0.5, float("nan"), None, 0.9, 0.5],
        "start_sample": [1, 2, 3, 4, 5],
        "list": [[1], [2], [], None, [3]],
    }
)


def ask(widget, call, **arguments):
    """What a question of the front end is answered with, and the buffers behind it."""
    sent = []
    widget.send = lambda content, buffers=None: sent.append((content, buffers))
    widget._answer(widget, {"call": call, "number": "v:1", "arguments": arguments}, [])
    (content, buffers), *later = sent
    assert content.pop("number") == "v:1"
    assert content.pop("comm") == widget.model_id
    assert content.pop("more", False) == bool(later)
    assert all(told == {"number": "v:1", "later": True} for told, _ in later)
    json.dumps(content, allow_nan=False)
    return content.get("result", content), [
        *(buffers or []),
        *(buffer for _, behind in later for buffer in behind),
    ]


@pytest.mark.parametrize("near", [True, False])
def test_small_answers_are_padded_to_a_packet_for_local_browsers(near):
    table = SegmentTable(FRAME)
    sent = []
    table.send = lambda content, buffers=None: sent.append(
        (content["result"]["total"], sum(map(len, buffers or [])))
    )
    table._answer(table, {"call": "table.open", "number": "v:1", "near": near}, [])
    assert sent == [(len(FRAME), 65536 if near else 0)]


def test_sorting_is_stable_with_missing_numbers_last():
    assert sort_and_filter(FRAME, sort="similarity").tolist() == [0, 4, 3, 1, 2]
    assert sort_and_filter(FRAME, sort="similarity", descending=True).tolist() == [3, 0, 4, 1, 2]
    assert sort_and_filter(FRAME).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("descending", [False, True])
def test_many_texts_are_sorted_stably_with_missing_ones_last(descending):
    rng = np.random.default_rng(3)
    number = pl.Series(rng.integers(0, 50_000, 150_000))
    texts = ("š" + number.cast(pl.String)).set(number % 7 == 0, None)
    rows = list(enumerate(texts.to_list()))
    with_text = [row for row in rows if row[1] is not None]
    expected = sorted(with_text, key=lambda row: row[1], reverse=descending)
    expected += [row for row in rows if row[1] is None]
    order = sort_and_filter(pl.DataFrame({"text": texts}), sort="text", descending=descending)
    assert order.tolist() == [number for number, _ in expected]


def test_filters_by_condition_and_text():
    assert sort_and_filter(FRAME, where="similarity < 0.8").tolist() == [0, 4]
    assert sort_and_filter(FRAME, where="text LIKE '%dan%' AND start_sample > 1").tolist() == [3, 4]
    assert sort_and_filter(FRAME, where="text IS NULL").tolist() == [2]
    assert sort_and_filter(FRAME, where="true").tolist() == [0, 1, 2, 3, 4]
    assert sort_and_filter(FRAME, where="1 > 2").tolist() == []
    assert sort_and_filter(
        FRAME, find="DAN", where="similarity = 0.5", sort="start_sample", descending=True
    ).tolist() == [4, 0]


@given(st.text(alphabet="aAčČ.*+?()[]{}|^$\\#&-~ \n/<", min_size=1, max_size=5))
def test_the_search_text_is_matched_literally(text):
    frame = pl.DataFrame({"text": [f"x{text}y", "none of it", None]})
    expected = [
        i for i, value in enumerate(frame["text"]) if value and text.lower() in value.lower()
    ]
    assert sort_and_filter(frame, find=text).tolist() == expected


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"where": "similarity <"}, "filter 'similarity <': "),
        ({"where": "sim < 1"}, "sim"),
        ({"where": "similarity"}, "must be a condition"),
        ({"where": "similarity < 'x'"}, "quote strings, not numbers"),
        ({"where": "similarty < 0.5"}, "there is no column similarty; did you mean similarity"),
        ({"where": "segment_id = spk7"}, "there is no column spk7; strings are quoted: 'spk7'"),
        ({"where": "similarity <"}, "not understood; write a condition such as similarity < 0.5"),
        ({"where": "loud(similarity) > 1"}, "there is no function loud"),
        ({"sort": "similarty"}, "did you mean similarity"),
        ({"where": "read_csv('/etc/passwd')"}, "read_csv"),
        ({"where": "__import__('os').system('x')"}, "filter"),
        ({"sort": "sim"}, "no column 'sim'"),
        ({"sort": "list"}, "holds lists"),
    ],
)
def test_invalid_filters_and_sorts_are_refused_in_one_line(asked, message):
    with pytest.raises(InputError) as caught:
        sort_and_filter(FRAME, **asked)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("rpad(text, 2000000000, 'x') = 'a'", "there is no function rpad; functions are abs, "),
        ("\"lpad\"(text, 2000000000, 'x') = 'a'", "there is no function lpad"),
        ("text || text = 'a'", "|| is not supported"),
        ("text = $$a$$ || rpad(text, 2000000000, '$$a$$')", "$ is not supported"),
        ("similarity < 1 -- '", "-- is not supported"),
        (
            " or ".join(f"similarity = {i}" for i in range(3000)),
            "write many values as speaker_id IN",
        ),
        ("similarity < " + "1 + " * 3000 + "1", "too long"),
        ("(" * 900 + "similarity < 1" + ")" * 900, "too long"),
        (f"text = '{'x' * 5000}'", "5,002 characters; at most 1,000"),
        ("text ~ '(a{100}){100}'", "1,000 repetitions"),
        (f"text in ({', '.join(['text'] * 900)})", "too long"),
        ("x" * 2_000_000, "2,000,000 characters"),
    ],
)
def test_expensive_conditions_are_refused_with_a_short_reason(where, message):
    with pytest.raises(InputError) as caught:
        sort_and_filter(FRAME, where=where)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        (
            "segment_id IN (" + ", ".join(f"'{name}'" for name in ["a", "c", *range(20_000)]) + ")",
            [0, 2],
        ),
        ("similarity BETWEEN 0.4 AND 0.6 AND NOT (text IS NULL)", [0, 4]),
        (" OR ".join(f"start_sample = {i}" for i in range(5, 205)), [4]),
        ("text ~ 'li{1,3}' OR text ILIKE 'DOBAR%'", [0, 1]),
        ("text = 'it''s -- $ ; || rpad('", []),
        ("length(text) > 9 AND upper(text) != lower(text)", [1, 4]),
        ("start_sample > avg(start_sample)", [3, 4]),
        ("start_sample in (-1, 2)", [1]),
    ],
)
def test_usual_conditions_are_within_the_complexity_limits(where, rows):
    assert sort_and_filter(FRAME, where=where).tolist() == rows


def test_narrow_adds_a_condition_to_the_typed_one():
    table = SegmentTable(FRAME, where="start_sample > 1", find="dan")
    table.narrow("similarity < 0.8")
    assert table.shown["segment_id"].to_list() == table.selected["segment_id"].to_list() == ["e"]
    assert table.where == "(start_sample > 1) AND (similarity < 0.8)"
    assert sort_and_filter(FRAME, where=table.where).tolist() == [4]
    ask(table, "table.arrange", where="", find="", sort="segment_id", descending=True)
    assert table.shown["segment_id"].to_list() == ["e", "a"]
    assert table.where == "similarity < 0.8"
    with pytest.raises(InputError, match="did you mean similarity"):
        table.narrow("similarty < 1")
    assert len(table.shown) == 2
    table.narrow("")
    assert (table.where, len(table.shown)) == ("", 5)


def test_narrow_and_replace_make_the_front_end_ask_for_the_rows_anew():
    table = SegmentTable(FRAME, sort="similarity")
    sent = []
    table.send = sent.append
    table.narrow("similarity < 0.8")
    table.replace(FRAME.with_columns(similarity=pl.Series([0.7, 0.9, 0.1, 0.9, 0.5])))
    assert table.shown["segment_id"].to_list() == ["c", "e", "a"]
    assert [list(message) for message in sent] == [["arranged"], ["arranged"]]
    assert sent[0]["arranged"] < sent[1]["arranged"]


def test_default_columns_have_values_and_the_rates_of_all_hypotheses():
    rates = {"wer": 0.1, "wer_b": 0.2, "wer_text_b": 0.3}
    values = {"asr_text": None, "asr_text_b": "da", "speaker_id": None, **rates}
    frame = pl.DataFrame(
        {"text": [None], "segment_id": ["s"], **{k: [v] for k, v in values.items()}}
    )
    opened, _ = ask(SegmentTable(frame), "table.open")
    assert opened["shown"] == ["segment_id", "text", "asr_text_b", "wer", "wer_b"]
    assert opened["charts"]


def test_of_a_frame_without_columns_of_segments_the_first_are_shown():
    frame = pl.DataFrame({f"c{number}": [number] for number in range(12)})
    assert ask(SegmentTable(frame), "table.open")[0]["shown"] == frame.columns[:8]


def test_the_front_end_has_a_player_only_with_a_workspace(make_workspace):
    workspace = make_workspace({"a.wav": (9, 16000)}, every=3.0)
    modes = [
        SegmentTable(source, player=player).get_state()["_player"]
        for source, player in ((workspace, True), (workspace, False), (FRAME, True))
    ]
    assert modes == ["own", "linked", "missing"]


def test_pages_of_rows_hold_plain_values_of_limited_length():
    order = np.arange(5, dtype=np.uint32)[::-1].copy()
    assert row_page(FRAME, order, 1, 3, ["text", "similarity", "list"]) == [
        [3, "dan.*", 0.9, None],
        [2, None, None, "none"],
    ]
    assert row_page(FRAME, order, 4, 99, ["segment_id"]) == [[0, "a"]]
    assert row_page(FRAME, order, 7, 9, ["segment_id"]) == []
    long = pl.DataFrame({"n": range(2000)})
    assert len(row_page(long, np.arange(2000, dtype=np.uint32), 0, 2000, ["n"])) == 500
    with pytest.raises(InputError, match="there is no 'x'"):
        row_page(FRAME, order, 0, 1, ["x"])
    assert cell("x" * 1000) == "x" * 400 + " …"
    assert cell(b"abc") == "3 bytes"


def test_front_end_sorts_pages_marks_and_moves():
    table = SegmentTable(FRAME, columns=["segment_id", "text"], where="start_sample > 1")
    opened, _ = ask(table, "table.open")
    assert (opened["total"], opened["all"], opened["shown"]) == (4, 5, ["segment_id", "text"])
    arranged, _ = ask(
        table, "table.arrange", where="", find="dan", sort="segment_id", descending=True
    )
    assert arranged == {"total": 3, "all": 5, "version": 1}
    ask(table, "table.cursor", position=1, version=1)
    assert table.selected["segment_id"].to_list() == ["d"]
    ask(table, "table.mark", first=0, last=2, on=True, version=1)
    ask(table, "table.mark", first=1, last=2, on=False, version=1)
    ask(table, "table.mark", first=2, last=3, on=True, version=0)  # of an order that is gone
    rows, _ = ask(table, "table.rows", first=0, last=9, columns=["segment_id"])
    assert [(row["cells"], row["marked"]) for row in rows["rows"]] == [
        (["e"], True),
        (["d"], False),
        (["a"], False),
    ]
    assert table.selected["segment_id"].to_list() == ["e"]
    assert table.shown["segment_id"].to_list() == ["e", "d", "a"]
    arranged, _ = ask(
        table, "table.arrange", where="text == 'Dobar don'", find="", sort="", descending=False
    )
    assert arranged == {
        "total": 0,
        "all": 5,
        "version": 2,
        "note": "no text 'Dobar don'; did you mean 'Dobar dan'?",
    }


def test_an_error_is_sent_to_the_front_end_and_leaves_the_rows_as_they_were():
    table = SegmentTable(FRAME)
    answer, _ = ask(table, "table.arrange", where="sim < 1", find="", sort="", descending=False)
    assert set(answer) == {"error"}
    assert "sim" in answer["error"]
    assert ask(table, "no such call")[0] == {"error": "KeyError: 'no such call'"}
    assert len(table.shown) == 5


def test_saved_form_and_state_are_small():
    table = SegmentTable(pl.DataFrame({"text": ["<script>alert(1)</script>"] * 100}))
    bundle, _ = table._repr_mimebundle_()
    assert "&lt;script&gt;" in bundle["text/html"]
    assert "<script" not in bundle["text/html"]
    assert "and 75 more rows" in bundle["text/html"]
    # JupyterLab centers other tables of saved widgets.
    assert '<table style="margin-left:0">' in bundle["text/html"]
    state = {
        name: value for name, value in table.get_state().items() if name not in ("_esm", "_css")
    }
    assert len(json.dumps(state)) < 2000


@pytest.mark.parametrize(
    ("content", "message"), [(None, "missing"), (b"no table", "not a readable Parquet file")]
)
def test_a_table_widget_of_an_unreadable_workspace_is_refused(tmp_path, content, message):
    workspace = Workspace.create(tmp_path / "w", source="made", audio=None)
    if content:
        (workspace.path / "segments.parquet").write_bytes(content)
    with pytest.raises(InputError, match=rf"segments\.parquet: {message}"):
        SegmentTable(workspace)


def test_the_layout_of_columns_is_kept_for_the_next_view():
    table = SegmentTable(FRAME)
    shown = ["text", "segment_id"]
    ask(table, "table.layout", shown=shown, widths={"text": 300}, wrap=True, charts=False)
    opened, _ = ask(table, "table.open")
    assert [opened[key] for key in ("shown", "widths", "wrap", "charts")] == [
        shown,
        {"text": 300},
        True,
        False,
    ]
    assert ask(table, "table.cell", number=1, column="text")[0] == "čuješ li (ovo)?"


def test_columns_of_few_values_and_numbers_get_a_fitting_width():
    n = 500
    frame = pl.DataFrame(
        {
            "segment_id": [f"s{i}" for i in range(n)],
            "text": ["da"] * n,
            "reason": (["similarity_below_minimum", None] * n)[:n],
            "said": [f"sentence {i}" for i in range(n)],
            "long": ["x" * 41] * n,
            "samples": list(range(-n, 0)),
            "share": [float("nan"), None, -12.5, *[0.25] * (n - 3)],
            "cut_end": [True, False] * (n // 2),
            "empty": pl.Series([None] * n, dtype=pl.String),
            "words": [[i] for i in range(n)],
        }
    )
    columns = SegmentTable(frame, columns=frame.columns)
    assert ask(columns, "table.open")[0]["characters"] == {
        "reason": 24,
        "samples": 4,
        "share": 7,
        "cut_end": 5,
    }
    layout = {"widths": {}, "wrap": False, "charts": True, "stacked": False, "fitted": False}
    assert ask(columns, "table.layout", shown=["text", "reason"], **layout)[0] == {"reason": 24}


def test_a_saved_table_has_the_hypothesis_below_the_transcript_and_the_rest_below_the_id():
    frame = pl.DataFrame(
        {
            "segment_id": ["s1"],
            "speaker_id": ["<i>ana"],
            "text": ["dobar <b>dan"],
            "asr_text": ["dobar dam"],
            "wer": [0.5],
        }
    )
    saved = SegmentTable(frame).static_html()
    Page(saved).check_harmless()
    assert saved.count("<th ") == 2
    order = ["s1", "speaker_id &lt;i&gt;ana · wer 0.5", "dobar &lt;b&gt;dan", "dobar dam"]
    places = [saved.index(text) for text in order]
    assert places == sorted(places)
    chosen = SegmentTable(frame, columns=["segment_id", "text", "wer"]).static_html()
    assert chosen.count("<th ") == 3


def test_headers_describe_the_rows_that_are_shown():
    n = 1000
    frame = pl.DataFrame(
        {
            "id": [f"s{i}" for i in range(n)],
            "x": [float("nan"), None, float("inf"), *range(n - 3)],
            "who": ["ana", "ana", "ana", "ben", None] * 200,
            "ok": [True, False] * 500,
            "words": [[i] for i in range(n)],
            "nothing": pl.Series([None] * n, dtype=pl.String),
        }
    )
    table = SegmentTable(frame)
    found = {name: ask(table, "table.distribution", column=name)[0] for name in frame.columns}
    assert [found["x"][key] for key in ("min", "median", "max", "missing")] == [0, 498, 996, 3]
    assert len(found["x"]["counts"]) == 24
    assert sum(found["x"]["counts"]) == n - 3
    assert (found["who"]["top"], found["who"]["distinct"], found["who"]["missing"]) == (
        [["ana", 600], ["ben", 200]],
        2,
        200,
    )
    assert dict(found["ok"]["top"]) == {True: 500, False: 500}
    assert (found["id"]["top"], found["nothing"]["missing"], found["words"]["missing"]) == (
        None,
        n,
        0,
    )
    table.narrow("who = 'ben' and x < 20")
    assert [
        ask(table, "table.distribution", column="x")[0][key] for key in ("min", "max", "rows")
    ] == [0, 15, 4]
    table.narrow("x < 0")
    assert ask(table, "table.distribution", column="x")[0]["rows"] == 0


def test_filters_are_kept_in_the_workspace(tmp_path):
    workspace = Workspace.create(tmp_path / "w", source="made", audio=None)
    workspace.save(
        recordings=pl.DataFrame({"recording_id": ["r"]}),
        segments=FRAME.drop("list").with_columns(recording_id=pl.lit("r")),
    )
    first, second = SegmentTable(workspace, where="similarity < 0.8"), SegmentTable(workspace)
    assert list(ask(first, "filters.save", name=" low ")[0]) == ["low"]
    ask(second, "filters.save", name="all")
    held = ask(SegmentTable(workspace), "filters.list")[0]
    assert held["low"] == {"where": "similarity < 0.8", "find": "", "sort": "", "descending": False}
    assert list(ask(first, "filters.delete", name="low")[0]) == ["all"]
    assert "1 to 100 characters" in ask(first, "filters.save", name="x" * 101)[0]["error"]
    (workspace.path / "filters.json").write_text(
        '{"a": 1, "b": {"where": 1}, "c": {"where": "", "find": "x", "sort": "", '
        '"descending": true}}'
    )
    assert list(ask(second, "filters.list")[0]) == ["c"]
    (workspace.path / "filters.json").write_text("[")
    assert "filters.json" in ask(second, "filters.list")[0]["error"]
    plain = SegmentTable(FRAME)
    assert (
        list(ask(plain, "filters.save", name="mine")[0])
        == list(ask(plain, "filters.list")[0])
        == ["mine"]
    )


def test_a_long_frame_of_segments_begins_with_the_transcript():
    facts = {"recording_id": "r", "wer": 0.5, "segment_id": "s", "text": "da"}
    frame = pl.DataFrame({name: [value] * 60 for name, value in facts.items()})
    shown = ask(table(frame), "table.open")[0]["shown"]
    assert shown == ["segment_id", "text", "recording_id", "wer"]
    others = ask(table(frame.drop("text")), "table.open")[0]["shown"]
    assert others == ["recording_id", "wer", "segment_id"]


def test_long_frames_are_widgets_and_small_ones_are_plain():
    frame = pl.DataFrame(
        {"n": range(120), "sampling_rate": 8000, "text": ["<b>" + "x" * 400] * 120}
    )
    long = table(frame)
    opened, _ = ask(long, "table.open")
    assert (opened["shown"], opened["total"]) == (frame.columns, 120)
    assert [column["name"] for column in opened["columns"]] == frame.columns
    saved = long._repr_mimebundle_()[0]["text/html"]
    assert saved == Table(frame)._repr_html_() == long._repr_html_()
    assert "and 70 more rows" in saved
    assert isinstance(table(frame.head(50)), Table)
    assert isinstance(table(frame, limit=0), Table)
