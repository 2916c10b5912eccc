"""Atomic files, hashes and locks of `nbaudio.storage`."""

import polars as pl
import pytest

from nbaudio.core.errors import InputError
from nbaudio.storage.atomic import JsonRows, append_lines, parse_lines, read_json, read_lines, sha256_listed, write_json
from nbaudio.storage.locks import lock


def test_rows_of_a_frame_are_written_as_objects(tmp_path):
    write_json(tmp_path / "a.json", {"rows": JsonRows(pl.DataFrame({"n": [1, 2]}))})
    assert read_json(tmp_path / "a.json") == {"rows": [{"n": 1}, {"n": 2}]}
    with pytest.raises(InputError, match="cannot be read"):
        read_json(tmp_path / "b.json")


def test_the_hash_of_a_list_of_files_does_not_depend_on_their_order():
    assert sha256_listed({"b": "11", "a": "00"}) == sha256_listed({"a": "00", "b": "11"})


def test_half_a_line_at_the_end_of_a_log_is_dropped(tmp_path):
    log = tmp_path / "a.jsonl"
    append_lines(log, [b'{"n": 1}'])
    with log.open("ab") as file:
        file.write(b'{"n": 2')
    assert read_lines(log, bytes, "bytes") == [b'{"n": 1}']
    append_lines(log, [b'{"n": 3}', b"[4]", b"no"])
    assert log.read_bytes() == b'{"n": 1}\n{"n": 3}\n[4]\nno\n'
    assert list(parse_lines(log.read_bytes())) == [{"n": 1}, {"n": 3}]


def test_locks_are_shared_or_exclusive(tmp_path):
    path = tmp_path / "a.lock"
    with path.open("ab") as first, path.open("ab") as second:
        assert lock(first, shared=True)
        assert lock(second, shared=True, wait=False)
        assert not lock(second, wait=False)
    with path.open("ab") as third:
        assert lock(third, wait=False)
