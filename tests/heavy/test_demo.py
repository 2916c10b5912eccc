"""The demo from ingest to verify: every problem is caught, a second run redoes nothing, and missed
problems are reported."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from shutil import copytree

import polars as pl
import pytest
from browser import chromium
from contrast import faint_texts
from test_browser_notebooks import PLAYABLE
from typer.testing import CliRunner

import nbaudio
from nbaudio import review
from nbaudio.cli import app
from nbaudio.core.bundled_files import bundled
from nbaudio.core.report import Report
from nbaudio.corpus.verify import verify
from nbaudio.runs.demo_check import NAMES, SEGMENTS, check_demo
from nbaudio.runs.parameters import list_notebooks
from nbaudio.runs.run import run
from nbaudio.tables.workspace import Workspace

MANIFEST = bundled("data_manifests/demo.yaml")


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory):
    """What the command leaves, and its report; NBAUDIO_DEMO_REPORT names the report of a demo that
    was run just now (see .ci/run), which the tests change."""
    if stored := os.environ.get("NBAUDIO_DEMO_REPORT"):
        report = Report(**json.loads(Path(stored).read_text(encoding="utf8")))
        return Path(report.facts["corpus"]).parent, report
    out = tmp_path_factory.mktemp("demo")
    done = CliRunner().invoke(app, ["demo", "--out", str(out), "--json"])
    assert done.exit_code == 0, done.output
    return out, Report(**json.loads(done.stdout))


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_demo_run_catches_every_planted_problem(demonstrated):
    out, report = demonstrated
    assert report.problems == []
    assert set(NAMES) | set(SEGMENTS) < {row["trouble"] for row in report.facts["troubles"]}
    assert report.facts["made"]["kept"] + report.facts["made"]["rejected"] == 121
    assert verify(out / "corpus", show_progress=False).problems == []
    assert list(report.facts)[-1] == "open"
    assert report.facts["open"] == str(out / "html" / "index.html")
    assert "at least 98.3 % are right" in report.facts["proof_of_made_pairs"]
    pages = sorted((out / "html").glob("0*.html"))
    assert len(pages) == 8
    assert all(
        b"data:audio/flac" in page.read_bytes()
        for page in pages
        if page.stem[:2] in ("03", "04", "07", "08")
    )


def test_the_index_has_a_key_figure_and_a_picture_of_each_notebook(demonstrated):
    out, _ = demonstrated
    index = (out / "html" / "index.html").read_text(encoding="utf8")
    assert re.findall('<p class="figure">([^<]*)</p>', index) == [
        "121 segments, 7 recordings, 7 min 53 s, 2 names without a file",
        "median similarity 0.982, 121 of 121 segments scored",
        "106 segments measured, 1 with clipped samples, 1 cut within a word",
        "a similarity of 0.8 keeps 107 of 121 segments",
        "at least 39 % of 87 clips are right, 9 reviewed; "
        "made pairs: at least 98.3 % of 1,835 clips are right, 266 reviewed, "
        "at least 94.4 % of each session",
        "train 63 clips, 4 min 17 s; dev 8 clips, 32 s; test 8 clips, 34.6 s",
        "79 clips in 7 shards, 6.2 MB; 79 clips decoded, 0 problems",
        "12 clips in the first batch",
    ]
    with chromium() as (page, _):
        page.unroute_all()
        for width in (900, 1400):
            page.set_viewport_size({"width": width, "height": 900})
            page.goto((out / "html" / "index.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") == width
            widths = page.evaluate("[...document.images].map(image => image.naturalWidth)")
            assert len(widths) == 7
            assert min(widths) > 500


def test_a_page_that_was_run_unattended_plays_offline(demonstrated):
    out, _ = demonstrated
    pages = sorted((out / "html").glob("*.html"))
    assert [page.stem for page in pages] == [*(path.stem for path in list_notebooks()), "index"]
    with chromium() as (page, tried):
        page.unroute_all()
        page.context.set_offline(True)
        clips = 0
        for path in pages:
            page.goto(path.as_uri())
            page.wait_for_function(PLAYABLE)
            clips += page.locator("audio").count()
            assert str(out.parent) not in path.read_text(encoding="utf8")
            if path.stem == "02_transcripts":
                page.set_viewport_size({"width": 1400, "height": 900})
                assert page.evaluate("document.documentElement.scrollHeight") < 3000
        assert clips >= 20
        assert tried == []


def test_every_text_of_the_pages_of_the_demo_has_contrast_in_light_and_dark(demonstrated, tmp_path):
    out, _ = demonstrated
    copytree(out / "workspace", tmp_path / "workspace")
    review.export(tmp_path / "workspace", out=tmp_path / "review.html", n=4)
    paths = [*sorted((out / "html").glob("*.html")), out / "report.html", tmp_path / "review.html"]
    assert len(paths) == 11
    faint = {}
    with chromium(width=1400) as (page, _):
        page.unroute_all()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for path in paths:
                page.goto(path.as_uri())
                page.wait_for_timeout(400)  # the page of a reviewer draws its segments
                faint[scheme, path.name] = faint_texts(page)
    assert {name: texts for name, texts in faint.items() if texts} == {}


def test_the_demo_report_is_short_on_screen_and_complete_in_print(demonstrated):
    out, _ = demonstrated
    with chromium(width=1400) as (page, _):
        page.unroute_all()
        page.goto((out / "report.html").as_uri())
        assert page.evaluate("() => document.documentElement.scrollHeight") < 5000
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 1400
        figures = page.locator("dl dd.figure").first.bounding_box()
        assert figures
        assert figures["y"] < 300  # pixels: the key figures are what one sees first
        folded = page.locator("details table").first
        assert not folded.is_visible()
        page.emulate_media(media="print")
        assert folded.is_visible()


def test_a_second_demo_run_cuts_nothing_and_changes_no_file(demonstrated):
    out, _ = demonstrated
    before = contents(out / "corpus")
    report = run(MANIFEST, out=out, only="1,2,5-7")
    assert report.facts["materialize"]["clips_cut_now"] == 0
    assert contents(out / "corpus") == before


def test_another_container_reuses_all_clips_that_are_cut(demonstrated):
    out, _ = demonstrated
    report = run(
        MANIFEST,
        out=out,
        only="7",
        settings={"container": "parquet", "corpus": str(out / "parquet")},
    )
    assert report.facts["ran"] == ["07_materialize"]
    assert "ingest" not in report.facts
    assert report.facts["materialize"]["clips_cut_now"] == 0
    assert [path.suffix for path in sorted((out / "parquet/train").iterdir())] == [".parquet"] * 5


def test_a_run_in_parts_gives_the_bytes_of_one_run(demonstrated, tmp_path):
    out, _ = demonstrated
    for part in ("1-3", "5,6", "7"):
        run(MANIFEST, out=tmp_path, only=part, settings={"jobs": 1, "engine": "threading"})
    assert contents(tmp_path / "corpus") == contents(out / "corpus")


def test_planted_problems_that_are_not_caught_are_reported(demonstrated):
    out, _ = demonstrated
    workspace = Workspace.open(out / "workspace")
    workspace.save(names=workspace.table("names").with_columns(decision=pl.lit("exact")))
    report = workspace.report("ingest")
    workspace.save_report("ingest", report | {"problems": []})
    caught, problems = check_demo(
        out, ["ingest: transcripts.jsonl line 53: not JSON", "verify: train/train.tar: missing"]
    )
    assert "verify: train/train.tar: missing" in problems
    assert not [line for line in problems if "line 53" in line]
    assert {
        f"not caught: {trouble}" for trouble in (*NAMES, "a line that ends in the middle")
    } <= set(problems)
    assert not set(NAMES) & set(caught)
    json.dumps(caught)


@pytest.mark.parametrize("where", ["notebooks"])
def test_plain_papermill_runs_the_notebooks_from_every_folder(tmp_path, where):
    """A copy of the top of a checkout; entry points as pyproject.toml declares them."""
    for name in ("notebooks", "data_manifests"):
        copytree(bundled(name), tmp_path / name)
    top = Path(nbaudio.__file__).parent.parent
    metadata = tmp_path / "site" / "declared-1.dist-info"
    metadata.mkdir(parents=True)
    declared = tomllib.loads((top / "pyproject.toml").read_text(encoding="utf8"))["project"][
        "entry-points"
    ]["papermill.io"]
    lines = [f"{name} = {value}\n" for name, value in declared.items()]
    (metadata / "entry_points.txt").write_text("[papermill.io]\n" + "".join(lines))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: declared\nVersion: 1\n")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(top), str(metadata.parent)])}
    folder = tmp_path / where
    manifest = os.path.relpath(tmp_path / "data_manifests" / "demo.yaml", folder)
    # Those that write tables from the top; elsewhere, one that writes the workspace and one that
    # reads it.
    for notebook in sorted(
        (tmp_path / "notebooks").glob("0[12]*.ipynb" if where else "0[12567]*.ipynb")
    ):
        command = [
            sys.executable,
            "-m",
            "papermill",
            os.path.relpath(notebook, folder),
            "executed.ipynb",
            "-f",
            manifest,
        ]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == 0, f"{notebook.stem}: {done.stderr}"
        assert "unknown parameter" not in done.stderr
    assert (tmp_path / "demo-output" / "workspace" / "segments.parquet").is_file()
    if not where:
        assert verify(tmp_path / "demo-output" / "corpus", show_progress=False).problems == []
