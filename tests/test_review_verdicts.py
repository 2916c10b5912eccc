"""The log of verdicts: no verdict is lost, and the last one holds."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbaudio import review
from nbaudio.core.errors import InputError
from nbaudio.review import Verdict
from nbaudio.tables.workspace import Workspace

OK = Verdict("s1", "c1", "ok", "", None, "ana", "2026-11-21T03:00:00Z", "panel")
texts = st.text(st.characters(exclude_categories=["Cs"]))
said = st.builds(
    Verdict,
    st.sampled_from("ab"),
    texts,
    st.sampled_from(["ok", "noise", None]),
    texts,
    st.none() | texts,
    st.sampled_from("xy"),
    texts,
    texts,
    st.sampled_from([None, False, True]),
)


def about(row):
    return row.segment_id, row.content, row.reviewer


def rows_of(frame):
    return [Verdict(**row) for row in frame.iter_rows(named=True)]


@pytest.mark.slow
@given(st.lists(st.lists(said, max_size=4), max_size=4))
def test_the_last_verdict_of_a_reviewer_on_a_segment_applies(tmp_path_factory, batches):
    workspace = Workspace.create(tmp_path_factory.mktemp("w"))
    for batch in batches:
        review.append_verdicts(workspace, batch)
    everything = [row for batch in batches for row in batch]
    assert rows_of(review.verdict_log(workspace)) == everything
    last = {about(row): row for row in everything}
    held = rows_of(review.verdicts(workspace.path))
    assert {about(row): row for row in held} == {
        key: row for key, row in last.items() if row.verdict
    }
    assert len(held) == len({about(row) for row in held})


def test_verdict_lines_without_the_blind_field_are_read(tmp_path):
    workspace = Workspace.create(tmp_path)
    review.append_verdicts(workspace, [OK])
    line = (
        b'{"segment_id":"s1","content":"c1","verdict":"ok","comment":"","corrected_text":null,'
        b'"reviewer":"ana","time":"2026-11-21T03:00:00Z","review":"panel"}\n'
    )
    assert (tmp_path / "reviews/verdicts.jsonl").read_bytes() == line
    review.append_verdicts(workspace, [replace(OK, blind=True)])
    assert review.verdict_log(workspace)["blind"].to_list() == [None, True]


def test_an_incomplete_last_line_of_the_log_is_dropped(tmp_path):
    workspace = Workspace.create(tmp_path)
    review.append_verdicts(workspace, [OK, replace(OK, segment_id="s2")])
    log = tmp_path / "reviews/verdicts.jsonl"
    log.write_bytes(log.read_bytes()[:-3])
    assert rows_of(review.verdicts(workspace)) == [OK]
    review.append_verdicts(workspace, [replace(OK, segment_id="s3")])
    assert [json.loads(line)["segment_id"] for line in log.read_text("utf8").splitlines()] == [
        "s1",
        "s3",
    ]


def test_several_writers_do_not_mix_their_lines(tmp_path):
    workspace = Workspace.create(tmp_path)
    rows = [replace(OK, segment_id=f"s{number}", comment="č" * 5000) for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda row: review.append_verdicts(workspace, [row]), rows))
    assert sorted(rows_of(review.verdict_log(workspace)), key=str) == sorted(rows, key=str)


def test_an_invalid_line_of_the_log_is_refused_with_its_number(tmp_path):
    workspace = Workspace.create(tmp_path)
    review.append_verdicts(workspace, [OK])
    with (tmp_path / "reviews/verdicts.jsonl").open("a") as file:
        file.write('{"segment_id": 3}\n')
    with pytest.raises(InputError, match=r"verdicts\.jsonl: line 2: not a verdict"):
        review.verdicts(workspace)


def test_a_workspace_without_verdicts_has_none(tmp_path):
    assert review.verdicts(Workspace.create(tmp_path)).is_empty()
