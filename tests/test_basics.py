"""Errors, guards, ids and labels that every step uses."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from nbaudio.core import errors, input_guards, report, times
from nbaudio.core.bundled_files import bundled
from nbaudio.core.hashing import hash_column
from nbaudio.core.threads import ordered_map
from nbaudio.tables import split_names


def test_errors_name_the_known_values_and_the_package_to_install():
    assert errors.get_by_name({"flac": 1}, "flac", "encoding") == 1
    with pytest.raises(errors.InputError, match="encoding 'x' is unknown; known are flac, wav"):
        errors.get_by_name({"flac": 1, "wav": 2}, "x", "encoding")
    with (
        pytest.raises(
            errors.MissingExtraError,
            match=r"no_such_package is not installed: pip install 'nbaudio\[ray\]'",
        ),
        errors.requires_extra("ray"),
    ):
        import no_such_package  # noqa: F401  # its import is what is tested
    assert errors.one_line(MemoryError()) == "MemoryError"
    assert (
        errors.one_line(ValueError("\nparquet: damaged\n\nwith the following stack:\n[1] scan"))
        == "parquet: damaged"
    )


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "Job aborted.\n\tat a.b\nCaused by: java.io.IOException: disk\n\tat c.d",
            "java.io.IOException: disk",
        ),
        (
            "Py4JJavaError: o42\n: org.apache.spark.SparkException: Job aborted\n\tat a.b\n"
            "Caused by: java.lang.RuntimeException: task\n\tat c.d\nCaused by: disk: full",
            "disk: full",
        ),
        ("Py4JJavaError: o42\n: java.io.IOException: disk\n\tat a.b", "java.io.IOException: disk"),
        (
            "Traceback (most recent call last):\n  File 'a'\n    read()\n"
            "    ^^^^\nOSError: disk\n    ^\n",
            "OSError: disk",
        ),
        ("Traceback (most recent call last):\n  File 'a'\nOSError: disk\n", "OSError: disk"),
        ("one\ntwo", "one"),
    ],
)
def test_the_cause_is_found_in_tracebacks_of_java_and_python(text: str, cause: str):
    assert errors.root_cause(RuntimeError(text)) == cause


def test_errors_redact_what_may_be_secret_in_urls():
    error = errors.InputError(
        "https://me:word@host/a.wav?key=0&v=1: missing (see 'http://host/?b')"
    )
    assert str(error) == "https://host/a.wav?...: missing (see 'http://host/?...')"
    assert str(errors.InputError("http://host/a#key=0, gone")) == "http://host/a?..., gone"
    assert str(errors.InputError("HTTPS://me:word@host/a?key=0")) == "HTTPS://host/a?..."
    assert errors.redact_urls(str(error)) == str(error)
    stored = errors.InputError("s3://me:word@bucket/a?token=0: missing, as gs://bucket/what?.wav")
    assert str(stored) == "s3://bucket/a?...: missing, as gs://bucket/what?.wav"
    revision = "hf://datasets/owner/name@main/a.wav"
    assert str(errors.InputError(revision)) == revision


def test_only_regular_files_within_the_size_limit_are_read(tmp_path: Path):
    with pytest.raises(errors.InputError, match="/dev/zero: a device, not a regular file"):
        input_guards.check_regular(Path("/dev/zero"))
    path = tmp_path / "a"
    path.write_bytes(b"a\nb")
    assert input_guards.read_all(path) == b"a\nb"
    with path.open("rb") as file:
        assert list(input_guards.lines(file, path)) == [b"a\n", b"b"]
    input_guards.check_expansion("a.gz", 1_000, 50_000_000)
    with pytest.raises(
        errors.InputError, match=r"a\.gz: 1,000 bytes that grow to more than 64 MB, a bomb"
    ):
        input_guards.check_expansion("a.gz", 1_000, 70_000_000)
    input_guards.escape_surrogates("sjednica č.wav")


def test_hashes_depend_on_the_salt():
    keys = pl.Series(["a", None])
    assert hash_column(keys, "seed 42").to_list() == hash_column(keys, "seed 42").to_list()
    assert hash_column(keys, "seed 42").to_list() != hash_column(keys, "seed 43").to_list()


def test_bundled_files_are_found_or_listed():
    assert bundled("data_manifests/demo.yaml").name == "demo.yaml"
    with pytest.raises(
        errors.InputError,
        match=r"data_manifests/demo\.yml: is not bundled with nbaudio; data_manifests holds",
    ):
        bundled("data_manifests/demo.yml")


def test_splits_are_recognized_in_names_and_paths():
    names = {
        "train-clean-100": "train",
        "validation": "dev",
        "test_eval92": "test",
        "train_nodev": "train",
        "validated": None,
    }
    assert {name: split_names.split_role(name) for name in names} == names
    assert [split_names.split_in(path) for path in ("hr/test/0000", "2018/session")] == [
        "test",
        None,
    ]
    assert [split_names.split_of_folder(path) for path in ("test/a.wav", "test.wav")] == [
        "test",
        None,
    ]


def test_results_come_in_the_order_of_the_items():
    assert list(ordered_map(abs, range(-20, 0), jobs=2)) == list(range(20, 0, -1))


CLOSED_WHILE_A_THREAD_STARTS = """
import contextlib, threading
from nbaudio.core.threads import ordered_map
results = ordered_map(abs, range(100), jobs=2)
next(results)
with getattr(threading, "_shutdown_locks_lock", contextlib.nullcontext()):  # of Python 3.11, 3.12
    results.close()
"""


def test_results_can_be_closed_while_a_thread_starts():
    """As the garbage collector may do; a thread that starts holds a lock that a join needs."""
    subprocess.run([sys.executable, "-c", CLOSED_WHILE_A_THREAD_STARTS], check=True, timeout=60)


def test_conversions_between_samples_and_seconds_are_exact():
    assert (times.rescale(44100, 44100, 16000), times.rescale(1, 48000, 24000)) == (16000, 1)
    assert [
        times.add_seconds(*both) for both in (("3207.70", "19.84"), ("0.1", "0.2"), ("NaN", "1"))
    ] == [
        "3227.54",
        "0.3",
        "NaN",
    ]
    assert times.to_samples_column(
        pl.Series(["0.5", "1e-3", "x"]), pl.Series([16000] * 3)
    ).to_list() == [8000, 16, None]


def test_facts_have_keys_and_labels_and_long_lists_are_shortened():
    assert report.first_lines(["a", "b", "c"], "problems.parquet", most=2) == [
        "a",
        "b",
        "and 1 more: see problems.parquet",
    ]
    assert report.fact_key("near-identical sentence") == "near_identical_sentence"
    assert [report.fact_label(name) for name in ("mean_similarity", "hours")] == [
        "mean similarity",
        "audio",
    ]


def test_facts_are_formatted_for_people():
    assert report.escape_control("a\nb \x1b[31m č") == "a\\nb \\x1b[31m č"
    assert report.show(447542) == "447,542"
    assert report.show({"train": 3, "dev": 1, "share": 0.25}) == "3 train, 1 dev, 25 %"
    assert report.show({"seed": 42}, "parameters") == "seed=42"
    assert (report.show(0.001, "hours"), report.show(6_200_000, "bytes")) == ("3.6 s", "6.2 MB")
    assert [report.duration(s) for s in (3.61, 328.2, 5400, 7.2e6)] == [
        "3.6 s",
        "5 min 28 s",
        "1.5 h",
        "2,000 h",
    ]
    assert [report.size(n) for n in (800, 2_640_000_000, 64_000)] == [
        "800 bytes",
        "2.6 GB",
        "64 kB",
    ]
