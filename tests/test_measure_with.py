"""Measuring with a model: what it gets, what becomes a column, and where columns are used."""

import json
import math
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from test_risk import answer, make_segments
from typer.testing import CliRunner

import nbaudio
from nbaudio.cli import app
from nbaudio.core.errors import EngineError, InputError
from nbaudio.recognition.measure import measure
from nbaudio.review import Verdict, append_verdicts, correct_texts
from nbaudio.review.risk import refresh
from nbaudio.review.state import Correction, append_corrections, content_hashes
from nbaudio.runs.parameters import parameters
from nbaudio.runs.preflight import check_modules

TOP = Path(nbaudio.__file__).parent.parent


@pytest.fixture
def workspace(make_workspace):
    """Stereo at 48 kHz and mono at 16 kHz: 7 segments of 2.37 s."""
    return make_workspace({"a.wav": (12.0, 48000), "b.flac": (9.0, 16000)})


def run(workspace, with_, as_="x", **options):
    options = {"jobs": 1, "engine": "threading", "show_progress": False, **options}
    return measure(workspace, with_=with_, as_=as_, **options)


def lengths(clips):
    return [len(clip) for clip in clips]


def test_a_function_gets_samples_and_makes_a_column(workspace):
    report = run(workspace, lengths)
    column = workspace.segments["x"]
    assert column.dtype == pl.Int64
    assert column.to_list() == [round(2.37 * 16000)] * 7
    assert report.facts["columns"] == [{"column": "x", "type": "Int64", "unit": "", "values": 7}]
    assert report.facts["measured_now"] == 7
    assert run(workspace, lengths).facts["already_measured"] == 7


class Voice(NamedTuple):
    """A record of values of all kinds."""

    level: float
    loud: bool
    kind: str | None
    frames: np.int64


def test_a_record_makes_a_column_for_each_field_with_type_and_unit(workspace):
    def voices(samples, rate, texts):
        return [
            Voice(np.float32(0.5) if number % 2 else 1, len(text) > 3, "e\u0301 ", np.int64(rate))
            for number, text in enumerate(texts)
        ]

    voices.units = {"level": "share of full scale", "frames": "Hz"}
    run(workspace, voices, "v", rate=8000)
    segments = workspace.segments
    types = {name: str(segments.schema[f"v_{name}"]) for name in Voice._fields}
    assert types == {"level": "Float64", "loud": "Boolean", "kind": "String", "frames": "Int64"}
    assert segments["v_kind"].unique().to_list() == ["é"]
    assert segments["v_frames"].unique().to_list() == [8000]
    record = workspace.settings["joined"]["v_level"]
    assert (record["type"], record["unit"]) == ("Float64", "share of full scale")
    assert record["inputs"] == {"samples": {"rate": 8000, "channel": "mix"}, "columns": ["text"]}


def test_values_that_are_not_finite_become_null_with_a_count(workspace):
    broken = [math.nan, math.inf, None, 2.5, 3, -math.inf, 0]
    report = run(workspace, lambda ids, texts: broken)
    assert sorted(workspace.segments["x"].drop_nulls()) == [0, 2.5, 3]
    assert workspace.segments["x"].dtype == pl.Float64
    assert report.facts["not_finite"] == 3


@pytest.mark.parametrize(
    ("returned", "why"),
    [
        ([1, "one"] * 3 + [2], "column x: the function returned numbers and words"),
        ([{"a": True, "b": 1}] * 6 + [{"a": 0}], "column x_a: .* numbers and yes or no"),
        ([{"a b": 1}] * 7, "field 'a b': names have letters"),
        ([[1, 2]] * 7, "list is neither a number nor a word"),
        ([1] * 6, "it returned 6 values for a list of 7 clips$"),
    ],
)
def test_values_that_make_no_column_are_an_error_that_says_why(workspace, returned, why):
    with pytest.raises(InputError, match=why):
        run(workspace, lambda ids: returned[: len(ids)] if len(ids) > 1 else [returned[0]] * 2)


def test_columns_of_a_source_signals_and_other_steps_stay(workspace):
    workspace.save(segments=workspace.segments.with_columns(place_name=pl.lit("hall")))
    nbaudio.recognize(workspace, with_=lambda c: [""] * len(c), as_="r", show_progress=False)
    run(workspace, lambda texts: [{"a": 1} for _ in texts], "vad")
    taken = {
        "place_name": "the source has a column place_name",
        "snr_db": "other steps write such a column",
        "text_x": "other steps write such a column",
        "vad_a": "measure wrote the column vad_a",
        "1a": "begins with a letter",
    }
    for name, why in taken.items():
        with pytest.raises(InputError, match=why):
            run(workspace, lambda texts: [1] * len(texts), name)
    with pytest.raises(InputError, match="the source has a column place_name"):
        run(workspace, lambda texts: [{"name": 1}] * len(texts), "place")
    assert workspace.segments["place_name"].unique().to_list() == ["hall"]


class Counted:
    """A function that counts calls and clips, and fails on some texts."""

    version = "1"

    def __init__(self, broken=()):
        self.calls, self.broken = [], broken

    def __call__(self, texts):
        self.calls.append(len(texts))
        if bad := [text for text in texts if text in self.broken]:
            raise ValueError(f"cannot read {bad[0]}")
        return [len(text) for text in texts]


def test_failures_are_listed_and_tried_again_and_other_clips_of_a_batch_have_values(workspace):
    broken = workspace.segments["text"][3]
    model = Counted([broken])
    report = run(workspace, model)
    bad_id = workspace.segments["segment_id"][3]
    assert report.problems == [f"{bad_id}: ValueError: cannot read {broken}"]
    assert model.calls == [7] + [1] * 7
    assert workspace.segments["x"].null_count() == 1
    assert workspace.table("measured/x.problems").rows() == [
        (bad_id, report.problems[0][len(bad_id) + 2 :])
    ]
    healed = Counted()
    facts = run(workspace, healed).facts
    assert (healed.calls, facts["measured_now"], facts["already_measured"]) == ([1], 1, 6)
    assert workspace.table("measured/x.problems").is_empty()


def test_only_texts_that_changed_and_other_versions_are_measured_again(workspace):
    run(workspace, Counted())
    segments = workspace.segments
    changed = pl.when(pl.col("segment_id") == segments["segment_id"][2]).then(pl.lit("new text"))
    workspace.save(segments=segments.with_columns(text=changed.otherwise("text")))
    model = Counted()
    run(workspace, model)
    assert model.calls == [1]
    assert workspace.segments["x"][2] == len("new text")
    model = Counted()
    model.version = "2"
    run(workspace, model)
    assert model.calls == [7]
    assert len((workspace.path / "measured/x.jsonl").read_text().splitlines()) == 7


def test_a_workspace_that_grows_keeps_values_and_measures_the_rest(tmp_path):
    line = '{{"audio_filepath": "a{0}.wav", "duration": 2, "text": "text {0}"}}'
    (tmp_path / "m.json").write_text("\n".join(line.format(number) for number in range(3)))
    nbaudio.ingest("nemo", tmp_path / "m.json", out=tmp_path / "w")
    workspace = nbaudio.Workspace.open(tmp_path / "w")
    run(workspace, Counted())
    (tmp_path / "m.json").write_text("\n".join(line.format(number) for number in range(8, 12)))
    nbaudio.ingest("nemo", tmp_path / "m.json", out=tmp_path / "w", add=True)
    assert workspace.segments["x"].null_count() == len(workspace.segments) - 3
    model = Counted()
    run(workspace, model)
    assert sum(model.calls) == len(workspace.segments) - 3
    letters = workspace.segments["text"].str.len_chars().cast(pl.Int64)
    assert workspace.segments["x"].to_list() == letters.to_list()


def test_a_model_that_gets_no_samples_needs_no_audio(tmp_path):
    lines = [
        f'{{"audio_filepath": "a{n}.wav", "duration": 2, "text": "one two"}}' for n in range(3)
    ]
    (tmp_path / "m.json").write_text("\n".join(lines))
    nbaudio.ingest("nemo", tmp_path / "m.json", out=tmp_path / "w")
    workspace = nbaudio.Workspace.open(tmp_path / "w")
    words = lambda texts, durations: [  # noqa: E731
        {"per_second": len(text.split()) / seconds}
        for text, seconds in zip(texts, durations, strict=True)
    ]
    report = run(workspace, words, "words")
    assert workspace.segments["words_per_second"].to_list() == [1.0] * 3
    assert "hours" not in report.facts
    with pytest.raises(InputError, match="ingested without audio"):
        run(workspace, lengths)


COMMAND = """
import json, sys, wave
for line in sys.stdin:
    line = json.loads(line)
    rate = wave.open(line["audio"]).getframerate() if "audio" in line else 0
    fields = {"rate": rate, "letters": len(line["text"])}
    answer = {"value": rate} if sys.argv[1] == "value" else fields
    print(json.dumps({"id": line["id"], **answer}))
"""


def test_a_command_gets_audio_and_text_and_writes_a_value_or_fields(
    workspace, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(COMMAND)
    done = CliRunner().invoke(
        app,
        [
            "measure",
            str(workspace.path),
            "--with",
            f"{sys.executable} script.py value",
            "--as",
            "c",
            "--rate",
            "8000",
            "--engine",
            "threading",
            "--json",
        ],
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["facts"]["columns"][0]["type"] == "Int64"
    assert workspace.segments["c"].to_list() == [8000] * 7
    run(workspace, f"{sys.executable} script.py fields", "d")
    segments = workspace.segments
    assert segments["d_rate"].to_list() == [16000] * 7
    assert segments["d_letters"].to_list() == segments["text"].str.len_chars().to_list()


def test_lines_of_a_command_that_are_no_objects_are_named(workspace, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text("print('[1, 2]'); print(42)" + COMMAND)
    run(workspace, f"{sys.executable} script.py value")
    assert workspace.segments["x"].to_list() == [16000] * 7
    (tmp_path / "script.py").write_text("print('[1, 2]')")
    with pytest.raises(InputError, match=r"; line 1 is not \{.*: '\[1, 2\]'"):
        run(workspace, f"{sys.executable} script.py")


def test_a_function_that_exits_fails_for_its_clip(workspace):
    def leave(ids):
        if workspace.segments["segment_id"][3] in ids:
            sys.exit("no license")
        return [1] * len(ids)

    report = run(workspace, leave)
    assert workspace.segments["x"].to_list() == [1, 1, 1, None, 1, 1, 1]
    assert report.problems[0].endswith("SystemExit: no license")


def test_arguments_and_variables_of_a_function_are_part_of_its_version(workspace):
    def scaled(texts, factor):
        return [factor] * len(texts)

    def closure(factor):
        return lambda texts: [factor] * len(texts)

    for number in (1, 2):
        run(workspace, partial(scaled, factor=number), "p")
        run(workspace, closure(number), "c")
        assert workspace.segments.select("p", "c").unique().rows() == [(number, number)]
    assert run(workspace, closure(2), "c").facts["already_measured"] == 7


def test_a_function_that_cannot_be_sent_to_workers_says_what_can(workspace):
    lock = threading.Lock()
    with pytest.raises(EngineError, match="Use one job or the engine threading"):
        run(workspace, lambda texts: [lock.locked()] * len(texts), jobs=2, engine="loky")


@pytest.mark.slow
def test_jobs_engines_and_batches_give_equal_bytes(workspace):
    def level(samples, rates, texts):
        return [
            {"rms": float(np.sqrt((clip**2).mean())), "rate": rate, "text": text}
            for clip, rate, text in zip(samples, rates, texts, strict=True)
        ]

    level.version = "1"
    ways = {"a": {}, "b": {"jobs": 2, "engine": "loky"}, "c": {"batch": 1, "jobs": 2}}
    for name, options in ways.items():
        run(workspace, level, name, rate=0, **options)
    ledgers = {(workspace.path / f"measured/{name}.jsonl").read_bytes() for name in ways}
    assert len(ledgers) == 1
    segments = workspace.segments
    assert sorted(segments["a_rate"].unique()) == [16000, 48000]
    for field in ("rms", "rate", "text"):
        assert (
            segments[f"a_{field}"].to_list()
            == segments[f"b_{field}"].to_list()
            == segments[f"c_{field}"].to_list()
        )


KILLED = """
import os, sys, nbaudio
calls = []
def model(samples):
    calls.append(samples)
    if len(calls) == 4:
        os.kill(os.getpid(), 9)
    return [float(clip[0]) for clip in samples]
model.version = "1"
nbaudio.measure(sys.argv[1], with_=model, as_="x", jobs=1, engine="threading", show_progress=False)
"""


@pytest.mark.slow
def test_a_run_that_was_killed_does_the_rest_when_it_is_run_again(make_workspace, tmp_path):
    workspace = make_workspace({f"{n}.wav": (66.0, 16000) for n in range(3)}, every=2.4)
    (tmp_path / "killed.py").write_text(KILLED)
    done = subprocess.run(
        [sys.executable, "killed.py", str(workspace.path)],
        cwd=tmp_path,
        check=False,
        env=os.environ | {"PYTHONPATH": str(TOP)},
    )
    assert done.returncode == -9
    assert "x" not in workspace.segments
    left = len((workspace.path / "measured/x.jsonl").read_text().splitlines())
    calls = []

    def model(samples):
        calls.extend(samples)
        return [float(clip[0]) for clip in samples]

    model.version = "1"
    facts = run(workspace, model).facts
    total = len(workspace.segments)
    assert (0 < left < total, len(calls), facts["already_measured"]) == (True, total - left, left)
    assert workspace.segments["x"].null_count() == 0


def test_parameters_get_columns_and_others_with_a_default_keep_it(workspace):
    workspace.save(segments=workspace.segments.with_columns(place=pl.lit("hall"), size=pl.lit(3)))

    def places(place, ids, durations, size=5):
        assert durations == pytest.approx([2.37] * len(ids))
        return [f"{name} {key} {size}" for name, key in zip(place, ids, strict=True)]

    run(workspace, places)
    ids = workspace.segments["segment_id"]
    assert workspace.segments["x"].to_list() == [f"hall {key} 5" for key in ids]


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda clips, places: 1, "the function takes clips, places: parameters are samples"),
        (lambda: 1, "the function takes no parameter"),
        (lambda samples, nothing: 1, "the function takes nothing"),
    ],
)
def test_a_function_with_unknown_parameters_is_refused(workspace, function, why):
    with pytest.raises(InputError, match=why):
        run(workspace, function)


def test_options_of_a_model_without_one_are_refused(workspace):
    with pytest.raises(InputError, match="as is of a model; name one with --with"):
        measure(workspace, as_="x")


def level(samples, rates, texts):
    values = zip(samples, rates, texts, strict=True)
    return [
        {"db": 20 * math.log10(np.abs(clip).max()), "long": len(text) > 3, "word": text}
        for clip, rate, text in values
    ]


level.units = {"db": "dBFS"}
level.rate = 0


@pytest.mark.slow
def test_columns_are_in_conditions_plots_widgets_statistics_and_corpora(workspace, tmp_path):
    run(workspace, level, "level")
    median = workspace.segments["level_db"].median()
    nbaudio.select(workspace, where=[f"level_db >= {median}", "level_word is not null"])
    decisions = workspace.segments.select("decision", above=pl.col("level_db") >= median)
    assert decisions.filter("above")["decision"].unique().to_list() == ["accept"]
    assert decisions.filter(~pl.col("above"))["decision"].unique().to_list() == ["reject"]

    corpus = tmp_path / "c"
    nbaudio.materialize(workspace, out=corpus, jobs=1, engine="threading", show_progress=False)
    facts = json.loads((corpus / "corpus.json").read_text())
    assert facts["measured"]["level_db"]["unit"] == "dBFS"
    assert [row["signal"] for row in facts["signals"]] == ["level_db", "level_long"]
    assert r"| level\_db | " in (corpus / "README.md").read_text()
    shipped = nbaudio.open_corpus(corpus).segments
    assert shipped.schema["level_word"] == pl.String
    assert shipped["level_db"].min() >= median
    (clip,) = nbaudio.open_corpus(corpus).read_many(shipped["segment_id"].to_list()[:1])
    assert clip.metadata["level_word"] == clip.text

    for source in (workspace, corpus):
        ranges = nbaudio.views.signals(source)
        assert ranges["signal"].to_list() == ["level_db", "level_long"]
        assert "level_db: median" in nbaudio.plots.signals(source).alt_text
    page = tmp_path / "page.html"
    nbaudio.stats(workspace, out=page, audio=False)
    assert "level_db" in page.read_text()

    tuner = nbaudio.widgets.ThresholdTuner(workspace, column="level_db")
    assert tuner.where.startswith("level_db")
    explorer = nbaudio.widgets.Explorer(workspace)
    names = set(explorer._histograms._columns)
    assert {"level_db", "level_long", "level_word"} <= names


@pytest.mark.slow
def test_columns_inform_risk_and_the_precision_by_signal(tmp_path):
    workspace, wrong = make_segments(tmp_path / "w", shift=0)
    rng = np.random.default_rng(4)
    noise = rng.normal(size=len(wrong)) + 3 * wrong
    run(workspace, lambda texts: [noise[int(text.split()[-1])] for text in texts], "model")
    nbaudio.review.export(workspace, out=tmp_path / "one.xlsx", strategy="random", n=300)
    answer(workspace, wrong, "one")
    model = refresh(workspace)
    assert max(model["weigh"], key=lambda row: row["weight"])["column"] == "model"
    ranked = nbaudio.views.signal_precision(workspace)
    assert ranked["column"][0] in ("model", "risk")
    assert ranked.filter(column="model")["direction"].item() == "lower is right"
    assert "model: AUC" in nbaudio.plots.signal_precision(workspace).alt_text


def test_corrected_bounds_and_withdrawals_drop_values(workspace):
    run(workspace, level, "level")
    first, second = workspace.segments["segment_id"][:2]
    segments = workspace.segments.filter(pl.col("segment_id") == second)
    start, end = segments.select("start_sample", "end_sample").row(0)
    correction = Correction(second, start + 800, end, start, end, "ana", "2026-11-21T03:00:00Z")
    append_corrections(workspace, [correction])
    nbaudio.review.correct_bounds(workspace)
    assert workspace.segments["level_db"].null_count() == 1
    assert run(workspace, level, "level").facts["measured_now"] == 1
    text = workspace.segments["text"][0]
    assert text in (workspace.path / "measured/level.jsonl").read_text()
    ids = workspace.path / "ids.txt"
    ids.write_text(first)
    nbaudio.withdraw(workspace, segments=ids, why="consent withdrawn")
    lines = (workspace.path / "measured/level.jsonl").read_text().splitlines()
    assert len(lines) == 6
    assert not any(json.loads(line)["values"]["word"] == text for line in lines)


def test_corrected_texts_say_which_columns_are_from_the_texts_before(workspace):
    def letters(texts):
        return [len(text) for text in texts]

    run(workspace, letters, "letters")
    run(workspace, lambda samples: [1] * len(samples), "sound")
    rows = workspace.segments[:1]
    (segment_id,), (content,) = rows["segment_id"], content_hashes(rows)
    time = "2026-11-21T03:00:00Z"
    verdict = Verdict(segment_id, content, "wrong words", "", "novi", "ana", time, "sheet")
    append_verdicts(workspace, [verdict])
    (warning,) = correct_texts(workspace).warnings
    assert warning.startswith("letters is from the texts before: run nbaudio measure again")
    assert warning.endswith("--as letters")
    assert correct_texts(workspace).warnings == []
    assert run(workspace, letters, "letters").facts["measured_now"] == 1
    assert workspace.segments["letters"][0] == 4


WORDS = "def rate(texts):\n    return [len(text) for text in texts]\n"


@pytest.mark.slow
def test_the_module_of_a_function_is_found_in_the_folder_before_it(workspace, tmp_path):
    (tmp_path / "my models").mkdir()
    (tmp_path / "my models" / "words_of_folder.py").write_text(WORDS)
    name = f"{tmp_path}/my models/words_of_folder:rate"
    run(workspace, name, None, jobs=2, engine="loky")
    expected = workspace.segments["text"].str.len_chars().to_list()
    assert workspace.segments["words_of_folder"].to_list() == expected
    assert workspace.settings["joined"]["words_of_folder"]["with"] == "words_of_folder:rate"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "words_of_folder.py").write_text(WORDS)
    with pytest.raises(InputError, match="a module words_of_folder of another place is imported"):
        run(workspace, f"{tmp_path}/other/words_of_folder:rate")


def test_a_module_beside_a_manifest_or_in_the_current_folder_is_found(tmp_path, monkeypatch):
    for folder, module in (("data", "beside"), ("here", "current")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{module}.py").write_text(WORDS)
    monkeypatch.chdir(tmp_path / "here")
    manifest = tmp_path / "data" / "m.yaml"
    for module, folder in (("beside", "data"), ("current", "here")):
        manifest.write_text(f"measure_with: {module}:rate\n")
        values = parameters(manifest, {})
        assert values == {"measure_with": f"{tmp_path / folder}/{module}:rate"}
        check_modules(values, ["measure_with"], tmp_path)
    for program in ("no_such:rate", "python model.py", "json.tool:main"):
        manifest.write_text(f"measure_with: {program}\n")
        assert parameters(manifest, {}) == {"measure_with": program}
    assert parameters(manifest, {"recognizer": "current:rate"})["recognizer"].endswith(
        "/here/current:rate"
    )


def test_a_function_that_answers_once_for_a_batch_is_refused(workspace):
    """Clip by clip it would pass, as one answer is that of one clip."""
    with pytest.raises(InputError, match=r"it returned 1 value for a list of 7 clips$"):
        run(workspace, lambda samples: [float(np.mean(samples[0]))])
    report = run(workspace, lambda samples: [1.0], batch=6)
    assert report.facts["measured_now"] == 1
    assert len(report.problems) == 6
    assert all("it returned 1 value for a list of 6 clips" in line for line in report.problems)
