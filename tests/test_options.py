"""Every command runs with each of its options, and succeeds.

One archive goes through all commands, in the order of their lines. Options of a cluster, and the
demo, are for tests/heavy/test_options_clusters.py.
"""

import csv
import json
import re
import shlex
import shutil
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, redirect_stdout
from io import StringIO
from pathlib import Path

import polars as pl
import pytest
import typer
import yaml
from hub import TOKEN, URL, serving_hub
from sittings import make_sitting
from specimens import tone
from web import serving

from nbaudio.cli import app, main

NETWORK = "--timeout 5 --tries 2 --max-wait 1 --max-size 1GB --json"
THREADS = "--jobs 1 --engine threading"
#: Options that need a cluster, and a command that takes a minute.
ELSEWHERE = {"address", "beam_options", ("demo", "out"), ("demo", "as_json")}
ROWS = 18  # of each sitting
RECOGNIZER = """
version = "1"

def transcribe(clips):
    return ["čuo sam nešto" for _ in clips]
"""
#: Commands in order. A name before a line is that of what a person does before it, in `ACTS`.
LINES = f"""
wheel --out dist --json
run mine.yaml --out R --set seed=7 --only 1 --json
download list.csv --out D --connections 2 --per-host 2 --per-second 50 {NETWORK}
align H T --audio sitting --pairs pairs.csv --min-duration 1 --max-duration 15 --side mix --option clock=sound --no-sha256 --cache 1GB --add --out A {THREADS} {NETWORK}
ingest parlaspeech asr.json --audio audio --names wav.scp --out W --jobs 1 --no-sha256 --cache 1GB --option word_times=no --add {NETWORK}
join W verbatim.tsv --text verbatim --on segment_id --from words --json
join W large.csv --hypothesis large --on file,start,end --tolerance 0.01
join W room.csv --column room
recognize W --with recognizer:transcribe --as toy --batch 4 {THREADS} {NETWORK}
score W --language hr --formatting own.tsv --json
score W --text verbatim --hypothesis large --normalize lower
measure W --channel mix {THREADS} {NETWORK}
review export W --out sheets/one.xlsx --n 6 --strategy stratified --threshold 0.7 --seed 1 --reviewers ana,ben --overlap 2 --verdicts ok,wrong --clips wav --zip --no-blind {NETWORK}
review export W --out two.csv --n 5
review export W --out three --n 4 --reviewers ana=xlsx,ben=html --overlap 2 --planted 2 --strategy worst --by speaker_id --json
review export W --undo three {NETWORK}
[differ] review import W two.csv --reviewer ben
[judge] review import W two.csv --reviewer ana --map dobro=ok
review export W --out undecided.csv --adjudicator cy
[judge] review import W two.csv --reviewer ana --adjudicator ana --map dobro=ok --json
review correct-texts W --json
review correct-bounds W --json
evidence W --precision 0.9 --confidence 0.9 --json
select W --gold --dev 1 --test 1 --disk 1GB
select W --splits splits.csv --look-alikes apart --near-held-out 0.97 --avoid others.csv:test --avoid-by speaker_id
select W --min-similarity 0.5 --max-duration 10 --min-duration 0.1 --where 'wer_verbatim_large < 2' --hours 1 --dev 2 --test 2 --group-by speaker_id --seed 3 {NETWORK}
export nemo W --out M --paths relative --json
materialize W --out C --container webdataset --text verbatim --rate 8000 --channel left --encoding flac --shard-size 1MB --window 2 --signals --title Sittings --language hr --license mit --packs P {THREADS} {NETWORK}
materialize W --out F --container parquet --shard-count 1 {THREADS}
status C --workspace W {NETWORK}
verify C --workspace W {THREADS} {NETWORK}
convert C --container zip --out Z --shard-size 1MB {THREADS} --json
convert C --container tfrecord --shard-count 2 --window 2 --out X
publish C {URL} --consent forms --private --dry-run {NETWORK}
select W --splits C --where "segment_id <> 'day1_0-1.5'" --dev 2 --test 2
materialize W --out C2 --base C {THREADS}
diff C C2 {NETWORK}
stats W --out page.html --no-audio {NETWORK}
audit hub --config default --column text=sentence --avoid other.txt --out audit.html --audio 2 --max-duration 20 --limit 'noisy audio=1' {NETWORK}
ingest dataset hub --out HUB --option config=default
stats C2 --base C
ingest parlaspeech asr.json --out B
withdraw B --speaker s5 --why 'consent withdrawn' --json
withdraw B --recording day2 --why 'consent withdrawn'
[list] withdraw B --segments gone.txt --why 'consent withdrawn'
"""  # noqa: E501


def make_archive(folder: Path) -> None:
    """Recordings of two sittings, transcripts, further tables, and sources of other commands."""
    words = [f"rečenica broj {'abcdefghij'[n % 10]} govora {n}" for n in range(2 * ROWS)]
    rows = []
    for day in (1, 2):
        tone(folder / f"audio/day{day}.wav", 2 * ROWS + 2, seed=day)
        for n in range(ROWS):
            text = words[ROWS * (day - 1) + n]
            row = {"file": f"day{day}.wav", "start": 2 * n, "end": 2 * n + 1.5}
            rows.append({**row, "words": text.split(), "asr": text.split(), "speaker": f"s{n % 6}"})
    write = lambda name, text: (folder / name).write_text(text, encoding="utf8")  # noqa: E731
    write("asr.json", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    write("wav.scp", "day1 day1.wav\nday2 day2.wav\n")
    write("recognizer.py", RECOGNIZER)
    write("own.tsv", "hr\tRH\tRepublika Hrvatska\n")
    write("mine.yaml", yaml.safe_dump({"format": "parlaspeech", "source": "asr.json"}))
    keys = [f"day{1 + n // ROWS}_{2 * (n % ROWS)}-{2 * (n % ROWS) + 1.5}" for n in range(2 * ROWS)]
    tables = {
        "verbatim.tsv": {"segment_id": keys, "words": [f"{text}!" for text in words]},
        "large.csv": {
            "file": [row["file"] for row in rows],
            "start": [row["start"] + 0.005 for row in rows],
            "end": [row["end"] for row in rows],
            "text": words,
        },
        "room.csv": {"segment_id": keys, "room": ["hall"] * len(keys)},
        "splits.csv": {"speaker_id": ["s0", "s1"], "split": ["dev", "test"]},
        "others.csv": {"sentence": ["one", "two"], "split": ["train", "test"]},
    }
    for name, table in tables.items():
        pl.DataFrame(table).write_csv(folder / name, separator="\t" if "tsv" in name else ",")
    tone(folder / "clip.wav", 3)
    make_dataset(folder / "hub", folder / "clip.wav")
    write("other.txt", "nothing that is shared\n")
    sitting = make_sitting(1, 12)
    tone(folder / "sitting/day1.wav", sitting.times[-1, 1] + 1)
    for part, file, text in (("H", "day1.ctm", sitting.ctm("day1")), ("T", "1.txt", sitting.text)):
        (folder / part).mkdir()
        (folder / part / file).write_text(text, encoding="utf8")
    write("pairs.csv", "recording,transcript\nday1,1.txt\n")


def make_dataset(folder: Path, recording: Path) -> None:
    """A dataset as on the Hugging Face Hub: four rows with one recording."""
    audio = [{"bytes": recording.read_bytes(), "path": f"{n}.wav"} for n in range(4)]
    words = ["prvi govor danas", "drugi glas sutra", "treća sjednica", "četvrto pitanje"]
    rows = {"audio": audio, "sentence": words, "client_id": [*"abcd"], "duration": [3.0] * 4}
    (folder / "data").mkdir(parents=True)
    pl.DataFrame(rows).write_parquet(folder / "data/train-00000-of-00001.parquet")
    header = "---\nlicense: mit\nconfigs:\n- {config_name: default, data_files: data/*}\n---\n"
    (folder / "README.md").write_text(header)


def judge(folder: Path, verdict: str = "dobro") -> None:
    """Fill in a sheet."""
    with (folder / "two.csv").open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    with (folder / "two.csv").open("w", newline="", encoding="utf-8-sig") as file:
        sheet = csv.DictWriter(file, rows[0].keys())
        sheet.writeheader()
        sheet.writerows({**row, "verdict": verdict} for row in rows)


def differ(folder: Path) -> None:
    """Fill in the sheet as somebody who finds all transcripts wrong."""
    judge(folder, "wrong words")


def list_gone(folder: Path) -> None:
    """Name a segment that is to be withdrawn."""
    (folder / "gone.txt").write_text("day1_0-1.5\n")


ACTS: Mapping[str, Callable[[Path], None]] = {
    "judge": judge,
    "differ": differ,
    "list": list_gone,
}


def split_line(line: str) -> tuple[str, list[str]]:
    """What a person does before a line, and its words."""
    act, _, command = line.rpartition("] ")
    return act.removeprefix("["), shlex.split(command)


def all_commands() -> dict[str, typer.core.TyperCommand]:
    """Commands by their name, such as ``review export``."""
    named = dict(typer.main.get_command(app).commands)
    review = named.pop("review")
    return named | {f"review {name}": command for name, command in review.commands.items()}


def named_options(words: list[str]) -> Iterator[tuple[str, str]]:
    """The command of a line with each option that the line gives."""
    name = " ".join(words[:2]) if words[0] == "review" else words[0]
    for parameter in all_commands()[name].params:
        if {*parameter.opts, *parameter.secondary_opts} & {*words}:
            yield name, parameter.name


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[str, tuple[int, str]]:
    """Exit code and output of each line."""
    folder = tmp_path_factory.mktemp("options")
    make_archive(folder)
    ended = {}
    with pytest.MonkeyPatch.context() as patch, ExitStack() as servers:
        web = servers.enter_context(serving(folder / "audio"))
        (folder / "list.csv").write_text(f"url,name\n{web.url}/day1.wav,one.wav\n")
        use_hub(patch, servers)
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        for line in LINES.strip().split("\n"):
            act, words = split_line(line)
            if act:
                ACTS[act](folder)
            patch.setattr(sys, "argv", ["nbaudio", *words])
            output = StringIO()
            with redirect_stdout(output), pytest.raises(SystemExit) as end:
                main()
            ended[line] = (int(end.value.code or 0), output.getvalue())
    shutil.rmtree(folder)
    return ended


def use_hub(patch: pytest.MonkeyPatch, servers: ExitStack) -> None:
    """Let huggingface_hub find a stand-in of the Hub and a token."""
    import huggingface_hub
    from huggingface_hub import constants
    from huggingface_hub.utils import _http

    hub = servers.enter_context(serving_hub())
    servers.callback(huggingface_hub.close_session)
    for name in ("HUGGINGFACE_CO_URL_TEMPLATE", "ENDPOINT"):
        address = getattr(constants, name).replace(constants.ENDPOINT, hub.url)
        patch.setattr(constants, name, address)
    patch.setattr(_http, "time", types.SimpleNamespace(sleep=lambda _: None))
    patch.setenv("HF_TOKEN", TOKEN)


def keys_of(value: object) -> list[str]:
    """All keys of a JSON value, nested ones too."""
    if isinstance(value, dict):
        return [*value, *(key for item in value.values() for key in keys_of(item))]
    return [key for item in value for key in keys_of(item)] if isinstance(value, list) else []


@pytest.mark.parametrize("line", LINES.strip().split("\n"))
def test_each_command_line_succeeds(results, line: str) -> None:
    code, output = results[line]
    assert code == 0, output
    if line.endswith("--json"):
        report = json.loads(output)
        assert report["problems"] == []
        assert report["facts"]
        # A condition is named by itself; `diff` names claims in words.
        names = [key for key in keys_of(report) if not key.startswith("where ")]
        if not line.startswith("diff "):
            assert [name for name in names if not re.fullmatch(r"[a-z0-9_,]+", name)] == []


def test_each_option_of_each_command_has_a_test_line() -> None:
    used = {
        option
        for line in LINES.strip().split("\n")
        for option in named_options(split_line(line)[1])
    }
    there = {
        (name, parameter.name)
        for name, command in all_commands().items()
        for parameter in command.params
        if parameter.opts[0].startswith("-") and parameter.name != "help"
    }
    missing = {each for each in there - used if each not in ELSEWHERE and each[1] not in ELSEWHERE}
    assert missing == set()
