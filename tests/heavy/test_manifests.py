"""The manifest of every layout runs end to end, unattended, on a small source of its kind; and
again when it has grown."""

import json
import os
import shutil

import pytest
from heard_tones import make_sentences, recognizer_code, typed, write_recording
from pdf_files import lines, make_pdf, wrapped
from sittings import make_sitting
from specimens import LAYOUTS, tone

import nbaudio
from nbaudio.core.bundled_files import bundled
from nbaudio.corpus.versions import latest_version

REVIEWED = 1


# The notebooks that write tables; the other ones only look at their results, and
# tests/heavy/test_jobs.py runs them too.
MAIN_JOB = "1,2,5-7"
# Those of a manifest whose splits are the source's, which hold out what would be reviewed.
WITHOUT_REVIEW = "1,2,6,7"
# Manifests that differ after ingestion: splits of the source, the clips' encoding; with the layout
# of the source that each is given. tests/heavy/test_own_data.py runs all formats.
WHOLE_JOB = {
    "librispeech": ("librispeech", WITHOUT_REVIEW),
    "commonvoice": ("commonvoice", WITHOUT_REVIEW),
    "wavenet": ("folder", MAIN_JOB),
}


def run_manifest(name, folder):
    layout, only = WHOLE_JOB[name]
    made = LAYOUTS[layout](folder / "source")
    audio = str(made.audio) if made.audio else None
    settings = {"source": str(made.source), "audio": audio, "names": None, "options": made.options}
    settings |= {"dev": 0, "test": 0, "review_n": REVIEWED, "jobs": 1}
    return made, nbaudio.run(
        bundled(f"data_manifests/{name}.yaml"), out=folder / "R", settings=settings, only=only
    )


@pytest.mark.parametrize("name", WHOLE_JOB)
def test_the_manifest_of_a_layout_makes_a_corpus(name, tmp_path):
    made, report = run_manifest(name, tmp_path)
    verified = nbaudio.verify(
        report.facts["corpus"], jobs=1, engine="threading", show_progress=False
    )
    assert verified.problems == []
    # These sources have no hypotheses, which is a note of a run and no problem.
    assert not [line for line in report.problems if line.startswith("score")]
    assert [line for line in report.warnings if line.startswith("score: no segment has a ")]
    # What a reviewer was given stays out of training.
    reviewed = (
        nbaudio.Workspace.open(report.facts["workspace"]).segments["reason"] == "reviewed"
    ).sum()
    assert reviewed == (REVIEWED if name == "wavenet" else 0)
    assert verified.facts["clips_decoded"] == len(made.segments) - reviewed


def test_the_manifest_of_transcripts_that_are_not_cut_runs(tmp_path):
    sitting = make_sitting(1, 40)
    for part, file, text in (
        ("hypotheses", "day.ctm", sitting.ctm("day")),
        ("minutes", "day.txt", sitting.text),
    ):
        (tmp_path / part).mkdir()
        (tmp_path / part / file).write_text(text, "utf8")
    tone(tmp_path / "recordings/day.wav", sitting.times[-1, 1] + 1)
    shutil.copy(bundled("data_manifests/align.yaml"), tmp_path)
    settings = {"dev": 0, "test": 0, "review_n": REVIEWED, "jobs": 1}
    report = nbaudio.run(
        tmp_path / "align.yaml", out=tmp_path / "R", settings=settings, only=MAIN_JOB
    )
    kept = nbaudio.open_corpus(report.facts["corpus"]).segments
    assert len(kept) > 5
    assert kept["edge_confidence"].min() > 0.5
    assert (
        nbaudio.verify(
            report.facts["corpus"], jobs=1, engine="threading", show_progress=False
        ).problems
        == []
    )


def test_the_manifest_of_recordings_and_minutes_recognizes_and_aligns(tmp_path, monkeypatch):
    (tmp_path / "minutes").mkdir()
    (tmp_path / "my_recognizer.py").write_text(recognizer_code())
    for number in range(2):
        sentences = make_sentences(12, seed=number)
        write_recording(tmp_path / f"recordings/day{number}.wav", sentences)
        page = lines(60, 60, wrapped(typed(sentences), 400))
        (tmp_path / f"minutes/day{number}.pdf").write_bytes(make_pdf([page]))
    shutil.copy(bundled("data_manifests/minutes.yaml"), tmp_path)
    folders = (str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(folders))
    settings = {"dev": 0, "test": 0, "jobs": 1}
    for _ in range(2):  # the second run finds everything done
        report = nbaudio.run(
            tmp_path / "minutes.yaml", out=tmp_path / "R", settings=settings, only="1"
        )
        assert report.problems == []
        segments = nbaudio.Workspace.open(tmp_path / "R/workspace").segments
        assert len(segments) == 24
        assert segments["document_page"].to_list() == [1] * 24
    assert len(list((tmp_path / "R/hypotheses").glob("*.json"))) == 2


def grow(archive, name, *, rate, channels):
    """Add a recording with eight segments of a new speaker to a copy of the demo's archive."""
    tone(archive / "audio" / f"{name}.wav", 40, rate=rate, seed=len(name), channels=channels)
    with (archive / "transcripts.jsonl").open("a", encoding="utf8") as file:
        for number in range(8):
            words = f"nova rečenica {name} broj {'abcdefgh'[number] * 5}".split()
            row = {
                "file": f"{name}.wav",
                "start": 5 * number + 0.5,
                "end": 5 * number + 4.0,
                "words": words,
                "asr": words,
            }
            file.write(
                json.dumps(row | {"speaker": f"speaker of {name}"}, ensure_ascii=False) + "\n"
            )


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def shown(notebook, cell_id):
    """The text that a cell of an executed notebook shows."""
    cells = json.loads(notebook.read_text(encoding="utf8"))["cells"]
    outputs = next(cell for cell in cells if cell["id"] == cell_id)["outputs"]
    return "".join(
        text for output in outputs for text in output.get("data", {}).get("text/plain", "")
    )


def held_out(corpus):
    segments = nbaudio.open_corpus(corpus).segments
    return {split: set(segments.filter(split=split)["segment_id"]) for split in ("dev", "test")}


def test_the_same_manifest_makes_the_next_version_when_the_archive_has_grown(tmp_path):
    for name in ("demo", "demo_minutes"):
        shutil.copytree(bundled(f"data_manifests/{name}"), tmp_path / name)
    shutil.copy(bundled("data_manifests/demo.yaml"), tmp_path)
    manifest, out = tmp_path / "demo.yaml", tmp_path / "out"

    nbaudio.run(manifest, out=out, only="1,2,6,7")
    assert latest_version(out / "corpus") == str(out / "corpus")
    assert shown(out / "notebooks/07_materialize.ipynb", "07-15") == ""
    first = contents(out / "corpus")
    before = held_out(out / "corpus")
    grow(tmp_path / "demo", "nova", rate=44100, channels=2)
    grow(tmp_path / "demo", "druga", rate=8000, channels=1)
    nbaudio.run(manifest, out=out, only="1,2,6-8")
    assert latest_version(out / "corpus") == str(out / "corpus-v2")
    assert contents(out / "corpus") == first
    assert held_out(out / "corpus-v2") == before
    shards = [
        shard["name"]
        for shard in json.loads((out / "corpus/corpus.json").read_text(encoding="utf8"))["shards"]
    ]
    assert all((out / "corpus" / name).samefile(out / "corpus-v2" / name) for name in shards)
    assert nbaudio.diff(out / "corpus", out / "corpus-v2").facts["added"]["segments"] == 16
    for notebook, cell, text in (
        ("01_ingest", "01-13", "│ new       ┆ 16       ┆ 2 "),
        ("06_splits", "06-16", f"│ dev   ┆ {len(before['dev'])}    ┆ 0 "),
        ("07_materialize", "07-15", "16 segments"),
        (
            "08_read_back",
            "08-5",
            str(len(nbaudio.open_corpus(out / "corpus-v2").segments.filter(split="train"))),
        ),
    ):
        assert text in shown(out / "notebooks" / f"{notebook}.ipynb", cell)
    # tests/test_version_folders.py runs an unchanged archive once more; test_own_data.py runs
    # notebooks by papermill alone.
    assert sorted(path.name for path in out.glob("corpus*")) == ["corpus", "corpus-v2"]
