"""The six jobs of docs/runs.md, and the commands of README: they run as printed, on small made
archives, and the job's own reader opens the result.

What no test can have is replaced: addresses of servers and clusters, and OpenSLR's list.
NBAUDIO_WORKER names a Python with nbaudio and Beam: see .ci/run.
"""

import io
import json
import random
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import yaml
from clusters import WORKER, command_line, environment
from heard_tones import make_sentences, recognizer_code, typed, write_recording
from nbaudio.adapters.arrays import batches
from openpyxl import load_workbook
from pages import TOP, Block, blocks, text
from pdf_files import Text, lines, make_pdf, wrapped
from specimens import librispeech_tree, tone
from web import serving

import nbaudio
from nbaudio.cli import main
from nbaudio.core import bundled_files

RUNS = TOP / "docs/runs.md"
README = TOP / "README.md"


def job(heading: str) -> list[Block]:
    """The blocks of a job."""
    return [block for block in blocks(RUNS) if block.heading == heading]


def commands(job_blocks: list[Block]) -> list[str]:
    return [
        line for block in job_blocks if block.kind == "shell" for line in block.code.split("\n")
    ]


def command_of_readme(job_name: str) -> str:
    """The command beside a job in README's table."""
    row = next(line for line in text(README).split("\n") if line.startswith(f"| {job_name} |"))
    return re.findall(r"`(nbaudio [^`]+)`", row)[0]


def run(command: str, folder: Path, *, python: str = sys.executable) -> str:
    """Run a command as printed; what it prints. Listed problems, exit code 1, are an error too."""
    program, *words = shlex.split(command)
    assert program == "nbaudio"
    done = subprocess.run(
        command_line(*words, python=python),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr[-3000:]}"
    return done.stdout


def execute(job_blocks: list[Block], **replaced: str) -> dict[str, object]:
    """Run the Python code of a job in the current folder; the names that it makes."""
    names: dict[str, object] = {"nbaudio": nbaudio}
    for block in job_blocks:
        if block.kind == "python":
            code = block.code
            for old, new in replaced.items():
                code = code.replace(f"https://{old}", new)
            exec(code, names)  # noqa: S102
    return names


def write_parliament(folder: Path, *, recordings: int, segments: int) -> None:
    """Sittings with a segment each second, in JSON lines as ParlaSpeech has them."""
    folder.mkdir(exist_ok=True)
    with (folder / "asr.json").open("w", encoding="utf8") as file:
        for number in range(recordings):
            tone(folder / f"audio/sitting {number}.wav", segments + 1, seed=number)
            for start in range(segments):
                letters = random.Random(f"{number} {start}")  # no sentence is like another
                names = ["".join(letters.choices("abčdefgh", k=5)) for _ in range(3)]
                words = [*names, "u", str(number), str(start)]
                # The similarity of every second segment of some speakers is above 0.8, below 0.9.
                heard = words if start % 12 < 6 or start % 2 else [*words[:-2], "xx"]
                line = {"file": f"sitting {number}.wav", "start": start, "end": start + 0.9}
                line |= {"words": words, "asr": heard, "speaker": f"{number} {start % 12}"}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")


@pytest.fixture(scope="module")
def parliament(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace `W` of two sittings, 120 segments, with a selection, in a folder to be copied."""
    folder = tmp_path_factory.mktemp("parliament")
    write_parliament(folder, recordings=2, segments=60)
    workspace = folder / "W"
    nbaudio.ingest("parlaspeech", folder / "asr.json", audio=folder / "audio", out=workspace)
    nbaudio.score(workspace)
    nbaudio.select(workspace)
    return folder


@pytest.fixture
def selected(parliament: Path, tmp_path: Path) -> Path:
    """A folder with a copy of the workspace `W` of `parliament`."""
    shutil.copytree(parliament / "W", tmp_path / "W")
    return tmp_path


def fill_in(folder: Path) -> None:
    """Unpack the archives of the reviewers and judge every row, as they do in Excel."""
    for reviewer in ("ana", "ben"):
        with zipfile.ZipFile(folder / f"round-{reviewer}.zip") as archive:
            archive.extractall(folder / reviewer)
        (sheet,) = (folder / reviewer).rglob("*.xlsx")
        book = load_workbook(sheet)
        rows = book["review"].iter_rows()
        verdict = [cell.value for cell in next(rows)].index("verdict")
        for row in rows:
            row[verdict].value = "ok"
        book.save(folder / f"round-{reviewer}.xlsx")


def test_the_parliament_job_runs_as_documented_with_review_in_excel(tmp_path):
    write_parliament(tmp_path, recordings=8, segments=200)
    manifest = yaml.safe_load(text(TOP / "data_manifests/parlaspeech.yaml"))
    manifest |= {"source": "asr.json", "audio": "audio", "names": None}
    (tmp_path / "parliament.yaml").write_text(yaml.safe_dump(manifest))
    printed = commands(job("A parliament, reviewed in Excel"))
    assert len(printed) == 5
    for command in printed:
        if command.startswith("nbaudio review import"):
            fill_in(tmp_path)
        output = run(command, tmp_path)
        if command.startswith("nbaudio evidence"):
            assert "are right" in output
    corpus = nbaudio.open_corpus(tmp_path / "RESULT/corpus")
    assert corpus.info["evidence"]["selection"]["proven"] is True
    batch = next(batches(corpus.stream("train", seed=1, batch_s=20)))
    assert len(batch["text"]) > 10


def test_the_review_command_of_the_readme_makes_sheets_for_two_reviewers(selected):
    run(command_of_readme("a parliament, reviewed in Excel"), selected)
    for reviewer in ("ana", "ben"):
        rows = load_workbook(selected / f"round-{reviewer}.xlsx")["review"].max_row - 1
        assert rows == 60


def test_the_job_from_recordings_and_pdf_minutes_runs_as_documented(tmp_path):
    served = tmp_path / "served"
    minutes = {}
    for number in range(2):
        sentences = make_sentences(24, seed=number)
        write_recording(served / f"sittings/day {number}.flac", sentences)
        minutes[f"day {number}"] = typed(sentences)
        column = wrapped(typed(sentences), 150)
        half = len(column) // 2
        head = Text(60, 30, f"Minutes of day {number}")
        drawn = [head, *lines(320, 70, column[half:]), *lines(60, 70, column[:half])]
        (served / "minutes").mkdir(exist_ok=True)
        (served / f"minutes/day {number}.pdf").write_bytes(make_pdf([drawn]))
    (tmp_path / "my_recognizer.py").write_text(recognizer_code())
    with serving(served) as web:
        for kind, ending in (("sittings", "flac"), ("minutes", "pdf")):
            urls = [f"{web.url}/{kind}/day%20{number}.{ending}" for number in range(2)]
            (tmp_path / f"{kind}.csv").write_text("\n".join(["url", *urls]) + "\n")
        for command in commands(job("A parliament from nothing")):
            run(command, tmp_path)
    segments = nbaudio.Workspace.open(tmp_path / "W").segments
    for name, texts in segments.group_by("recording_id", maintain_order=True).agg("text").rows():
        assert " ".join(texts) in minutes[name]
        assert len(" ".join(texts)) > 0.95 * len(minutes[name])
    assert len(nbaudio.open_corpus(tmp_path / "CORPUS").segments) > 20
    assert segments["document_page"].unique().to_list() == [1]


def write_openslr(folder: Path) -> dict[str, dict[str, dict[str, str]]]:
    """Archives of three parts of LibriSpeech; by part, their name."""
    parts = {"train-clean-100": 40, "dev-clean": 6, "test-clean": 5}
    for seed, (part, number) in enumerate(parts.items()):
        texts = {
            f"{100 * seed + n // 4}-1-{n:04}": f"WORDS {part.upper()} {n}" for n in range(number)
        }
        librispeech_tree(folder / "tree/LibriSpeech" / part, texts, seconds=1.0, rate=16000)
        shutil.make_archive(str(folder / part), "gztar", folder / "tree", f"LibriSpeech/{part}")
    return {part: f"{part}.tar.gz" for part in parts}


def test_the_librispeech_to_tfrecord_job_runs_on_beam_as_documented(tmp_path, monkeypatch):
    served = tmp_path / "server"
    archives = write_openslr(served)
    work = tmp_path / "work"
    work.mkdir()
    printed = commands(job("LibriSpeech to TFRecord on Beam"))
    with serving(served) as web:
        listed = {part: {"url": f"{web.url}/{name}"} for part, name in archives.items()}
        openslr = tmp_path / "openslr.yaml"
        openslr.write_text(yaml.safe_dump({"librispeech": listed}))
        with monkeypatch.context() as patch:
            patch.setattr(bundled_files, "bundled", lambda _name: openslr)
            patch.chdir(work)
            patch.setattr(sys, "argv", shlex.split(printed[0]))
            with pytest.raises(SystemExit) as end:
                main()
        assert end.value.code == 0
    for command in printed[1:]:
        run(command, work, python=WORKER if "--engine beam" in command else sys.executable)
    monkeypatch.chdir(work)
    train = execute(job("LibriSpeech to TFRecord on Beam"))["train"]
    texts = {example["text"].numpy().decode() for example in train}
    assert texts == {f"WORDS TRAIN-CLEAN-100 {n}" for n in range(40)}
    segments = nbaudio.open_corpus(work / "CORPUS").segments
    held_out = dict(segments.group_by("split").len().iter_rows())
    assert held_out == {"train": 40, "dev": 6, "test": 5}
    command = command_of_readme("LibriSpeech to TFRecord on Beam")
    run(command, work, python=WORKER)


def test_the_job_that_streams_zip_shards_over_http_runs_as_documented(selected, monkeypatch):
    job_blocks = job("ZIP shards streamed over HTTP")
    for command in commands(job_blocks):
        run(command, selected)
    monkeypatch.chdir(selected)
    with serving(selected) as web:
        names = execute(job_blocks, host=web.url)
        read = {key for batch in batches(names["stream"]) for key in batch["segment_id"]}
    train = nbaudio.open_corpus(selected / "CORPUS").segments.filter(split="train")
    assert len(train) == 100
    assert read == set(train["segment_id"])
    run(command_of_readme("ZIP shards streamed over HTTP"), selected)


def test_the_job_from_songs_to_mu_law_runs_on_spark_as_documented(tmp_path):
    for number in range(4):
        tone(tmp_path / f"songs/{number}.mp3", 12, rate=48000, channels=2, seed=number)
    shutil.copytree(TOP / "data_manifests", tmp_path / "data_manifests")
    for command in commands(job("Songs to mu-law on Spark")):
        run(command, tmp_path)
    opened = nbaudio.open_corpus(tmp_path / "RESULT/corpus")
    kept = opened.segments
    assert len(kept) >= 3
    for clip in opened.read_many(kept["segment_id"], give="encoded"):
        levels = np.load(io.BytesIO(clip.encoded))
        assert (levels.dtype, levels.ndim) == (np.uint8, 1)
        assert len(levels) == pytest.approx(12 * 8000, abs=1200)
        assert 100 < levels.mean() < 156
    assert command_of_readme("mp3 songs to mu-law on Spark").replace(
        "--out R ", "--out RESULT "
    ) in (commands(job("Songs to mu-law on Spark")))


def test_the_job_of_shards_for_tf_data_runs_as_documented(selected, monkeypatch):
    nbaudio.materialize(selected / "W", out=selected / "CORPUS", jobs=1, show_progress=False)
    job_blocks = job("Shards for tf.data")
    for command in commands(job_blocks):
        run(command, selected)
    monkeypatch.chdir(selected)
    examples = execute(job_blocks)["examples"]
    texts = [example["text"].numpy().decode() for example in examples]
    train = nbaudio.open_corpus(selected / "CORPUS").segments.filter(split="train")
    assert sorted(texts) == sorted(train["text"])
    (selected / "C").symlink_to("CORPUS")
    run(command_of_readme("shards for tf.data"), selected)


def test_both_readme_ways_to_use_own_recordings_make_a_corpus(tmp_path):
    folder = tmp_path / "MY-FOLDER"
    write_parliament(folder, recordings=4, segments=96)
    (folder / "audio").rename(folder / "recordings")
    own = [block for block in blocks(README) if block.heading == "Your own recordings"]
    (command,) = commands(own)
    run(command, tmp_path)
    verified = nbaudio.verify(tmp_path / "RESULT/corpus", jobs=1, engine="threading")
    assert verified.problems == []
    # Nothing of the demo is in what is made of own data.
    card = (tmp_path / "RESULT/corpus/README.md").read_text(encoding="utf8")
    assert not {"language", "license", "pretty_name"} & set(yaml.safe_load(card.split("---")[1]))
    pages = list((tmp_path / "RESULT/html").glob("0*.html"))
    assert len(pages) == 8
    assert not [page.name for page in pages if "nbaudio demo" in page.read_text(encoding="utf8")]
    first = nbaudio.open_corpus(tmp_path / "RESULT/corpus").segments
    # Three speakers of 8 segments, for a goal of 19.
    assert dict(first.group_by("split").len().iter_rows())["dev"] == 24

    # A stricter threshold, with the manifest of README, whose paths are links to the same data.
    (manifest,) = re.findall(r"```yaml\n(.*?)```", text(README), re.DOTALL)
    (tmp_path / "my-corpus.yaml").write_text(f"{manifest}dev: 30\ntest: 30\n")
    for name in ("asr.json", "recordings"):
        (tmp_path / name).symlink_to(folder / name)
    run(commands(job("A second variant"))[0], tmp_path)
    second = nbaudio.open_corpus(tmp_path / "RESULT/corpus-v2").segments
    assert second["similarity"].min() >= 0.9
    assert first["similarity"].min() < 0.9
    train = set(second.filter(split="train")["segment_id"])
    assert not train & set(first.filter(first["split"] != "train")["segment_id"])
