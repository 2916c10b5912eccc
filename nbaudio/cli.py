"""The command line: every command is the Python function of the same name, its report on standard output.

Exit codes: 0 done, 1 done with problems that the report lists, 2 wrong use or unusable input.
"""

import json
from collections.abc import Callable
from typing import Annotated

import typer

from nbaudio.errors import InputError, NbaudioError
from nbaudio.report import Report, harmless

app = typer.Typer(
    help="Long recordings, transcripts and a recogniser's hypotheses into a training corpus whose label quality is known.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
review_app = typer.Typer(help="Samples for reviewers as spreadsheets, and their verdicts back.", no_args_is_help=True)
app.add_typer(review_app, name="review")

Workspace = Annotated[str, typer.Argument(metavar="W", help="the workspace folder")]
AsJson = Annotated[bool, typer.Option("--json", help="the report as JSON, for machines")]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="tasks at once; one a core unless given")]
Seed = Annotated[int, typer.Option(help="another seed, another choice")]
Container = Annotated[str, typer.Option(help="webdataset, parquet, zip, tfrecord, lhotse, mds, arrow or files")]
ShardSize = Annotated[str, typer.Option(help="wanted size of a shard, such as 500MB")]
ShardCount = Annotated[int | None, typer.Option(min=1, help="how many shards each split has instead")]
Window = Annotated[int, typer.Option(min=1, help="consecutive segments of a recording that lie together")]
Engine = Annotated[str, typer.Option(help="where tasks run: loky, threading, dask, ray, spark or beam")]
Address = Annotated[str | None, typer.Option(metavar="tcp://HOST:PORT", help="a cluster of that engine that runs already")]
BeamOptions = Annotated[str, typer.Option(metavar='"--runner=..."', help="further options of Beam, in one text")]


def _finish(make: Callable[[], Report], *, as_json: bool) -> None:
    """Print the report of a step and leave with its exit code."""
    try:
        report = make()
    except NbaudioError as error:
        line = harmless(" ".join(str(error).split()))
        typer.echo(json.dumps({"error": line}, ensure_ascii=False) if as_json else f"nbaudio: {line}", err=not as_json)
        raise typer.Exit(2) from error
    typer.echo(json.dumps(report.to_dict(), ensure_ascii=False, indent=2) if as_json else str(report))
    if report.problems:
        raise typer.Exit(1)


@app.command(epilog="Example: nbaudio demo --out demo-output")
def demo(
    out: Annotated[str | None, typer.Option(help="the folder for everything; nbaudio-demo unless given")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the whole job on the bundled corpus and show each of its troubles being caught."""
    from nbaudio.runs import demo as step

    _finish(lambda: step(out=out), as_json=as_json)


@app.command(epilog="Example: nbaudio run data_manifests/demo.yaml --out demo-output --set min_similarity=0.9 --only 1-5")
def run(
    manifest: Annotated[str, typer.Argument(metavar="MANIFEST.yaml", help="parameters of the whole job")],
    out: Annotated[str | None, typer.Option(help="the folder for notebooks, workspace and corpus")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="a parameter, over the manifest")] = None,
    only: Annotated[str | None, typer.Option(metavar="1-5", help="only these notebooks")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the notebooks in order, unattended, with the parameters of a manifest."""
    from nbaudio.runs import parse_settings
    from nbaudio.runs import run as step

    _finish(lambda: step(manifest, out=out, settings=parse_settings(set_ or []), only=only), as_json=as_json)


@app.command(epilog="Example: nbaudio download openslr:librispeech:dev-clean,test-clean --out archives --per-second 1")
def download(
    source: Annotated[str, typer.Argument(metavar="LIST", help="a .csv, .tsv or .jsonl of url, name, checksum; or a known name")],
    out: Annotated[str, typer.Option(help="the folder for the files: new, or one to go on with")],
    connections: Annotated[int, typer.Option(min=1, help="files at once")] = 4,
    per_host: Annotated[int, typer.Option(min=1, help="files at once from one host")] = 2,
    per_second: Annotated[float, typer.Option(help="requests to one host")] = 4.0,
    tries: Annotated[int, typer.Option(min=1, help="in a row without a new byte")] = 6,
    timeout: Annotated[float, typer.Option(help="seconds without a byte")] = 60.0,
    max_wait: Annotated[float, typer.Option(help="seconds; a host that asks for a longer pause is given up")] = 900.0,
    seed: Annotated[int | None, typer.Option(help="of the pauses' random share")] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch the files of a list; run it again after a kill and it goes on."""
    from nbaudio import download as step

    _finish(
        lambda: step(
            source,
            out=out,
            connections=connections,
            per_host=per_host,
            per_second=per_second,
            tries=tries,
            timeout=timeout,
            max_wait=max_wait,
            seed=seed,
        ),
        as_json=as_json,
    )


@app.command(epilog="Example: nbaudio ingest parlaspeech asr.json --audio recordings --names wav.scp --out W")
def ingest(
    format_: Annotated[str, typer.Argument(metavar="FORMAT", help="the layout of the source, such as parlaspeech")],
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="the file or folder of transcripts, or its address")],
    out: Annotated[str, typer.Option(help="the workspace folder to make")],
    audio: Annotated[str | None, typer.Option(help="the folder of recordings, or its address; may come later")] = None,
    names: Annotated[str | None, typer.Option(help="a Kaldi wav.scp, or a table of name and path")] = None,
    jobs: Jobs = None,
    sha256: Annotated[bool, typer.Option("--sha256/--no-sha256", help="hash every recording, to notice when one changes")] = True,
    cache: Annotated[str, typer.Option(help="room for recordings that lie elsewhere, such as 50GB")] = "20GB",
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="of the format, such as window=10 of folder; repeat for more")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read transcripts, resolve the names of recordings, look at every recording."""
    from nbaudio import ingest as step

    _finish(
        lambda: step(
            format_,
            source,
            audio=audio,
            names=names,
            out=out,
            jobs=jobs,
            sha256=sha256,
            cache=cache,
            options=_named(option or []),
        ),
        as_json=as_json,
    )


@app.command(epilog="Example: nbaudio score W --normalize nfc --normalize lower")
def score(
    workspace: Workspace,
    normalize: Annotated[list[str] | None, typer.Option(help="a step of normalisation before scoring; repeat for more")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare transcripts with hypotheses: similarity, WER, CER."""
    from nbaudio import score as step

    _finish(lambda: step(workspace, normalize=tuple(normalize or ())), as_json=as_json)


@review_app.command(
    "export", epilog="Example: nbaudio review export W --out sheet.xlsx --n 1000 --reviewers ana,ben --overlap 100"
)
def review_export(
    workspace: Workspace,
    out: Annotated[str, typer.Option(help="the spreadsheet to write; clips go beside it")],
    n: Annotated[int, typer.Option(min=1, help="how many clips")] = 1000,
    strategy: Annotated[
        str, typer.Option(help="how they are drawn: random, stratified, speaker, recording, near or suspicious")
    ] = "random",
    threshold: Annotated[float, typer.Option(help="the similarity that stratified and near look at; -1 to 1")] = 0.8,
    seed: Seed = 42,
    reviewers: Annotated[str, typer.Option(metavar="ANA,BEN", help="a sheet for each of them")] = "",
    overlap: Annotated[int, typer.Option(min=0, help="how many clips all of them are given")] = 0,
    verdicts: Annotated[str | None, typer.Option(help="the words to choose from, by commas; ok is one of them")] = None,
    clips: Annotated[str, typer.Option(help="wav or mp3")] = "wav",
    table: Annotated[list[str] | None, typer.Option(help="csv or tsv, to write beside the sheet; repeat for both")] = None,
    zip_: Annotated[bool, typer.Option("--zip", help="each sheet with its clips in one archive, to send")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw clips for reviewers into spreadsheets; they stay out of training."""
    from nbaudio import review

    _finish(
        lambda: review.export(
            workspace,
            out=out,
            n=n,
            strategy=strategy,
            threshold=threshold,
            seed=seed,
            reviewers=_parts(reviewers),
            overlap=overlap,
            verdicts=tuple(review.VERDICTS) if verdicts is None else _parts(verdicts),
            clips=clips,
            tables=tuple(table or ()),
            zip=zip_,
        ),
        as_json=as_json,
    )


@review_app.command("import", epilog="Example: nbaudio review import W sheet-ana.xlsx sheet-ben.xlsx")
def review_import(
    workspace: Workspace,
    sheets: Annotated[list[str], typer.Argument(metavar="SHEET...", help="filled in: .xlsx, .csv, .tsv, or folders of them")],
    reviewer: Annotated[str | None, typer.Option(help="who filled them in; the sheets say so unless given")] = None,
    as_json: AsJson = False,
) -> None:
    """Take verdicts and corrected texts from sheets that came back; say what cannot be taken, and how far reviewers agree."""
    from nbaudio import review

    _finish(lambda: review.import_(workspace, sheets, reviewer=reviewer), as_json=as_json)


@review_app.command("correct-bounds", epilog="Example: nbaudio review correct-bounds W")
def review_correct_bounds(workspace: Workspace, as_json: AsJson = False) -> None:
    """Put the bounds that reviewers moved while listening into the segments table."""
    from nbaudio import review

    _finish(lambda: review.correct_bounds(workspace), as_json=as_json)


@review_app.command("correct-texts", epilog="Example: nbaudio review correct-texts W")
def review_correct_texts(workspace: Workspace, as_json: AsJson = False) -> None:
    """Put the words that reviewers corrected into the segments table; review import does it too."""
    from nbaudio import review

    _finish(lambda: review.correct_texts(workspace), as_json=as_json)


@app.command(epilog="Example: nbaudio evidence W --precision 0.98 --confidence 0.95")
def evidence(
    workspace: Workspace,
    precision: Annotated[float, typer.Option(help="the share of right segments that is wanted, between 0 and 1")] = 0.98,
    confidence: Annotated[float, typer.Option(help="with which it is to be proven, between 0 and 1")] = 0.95,
    min_duration: Annotated[float, typer.Option(help="seconds; shorter is not counted, as in select")] = 0.0,
    max_duration: Annotated[float, typer.Option(help="seconds; longer is not counted, as in select")] = 20.0,
    as_json: AsJson = False,
) -> None:
    """Say how right the labels are above each threshold, as far as the reviews prove it, and what to review next."""
    from nbaudio import evidence as step

    _finish(
        lambda: step(workspace, precision=precision, confidence=confidence, min_duration=min_duration, max_duration=max_duration),
        as_json=as_json,
    )


@app.command(epilog="Example: nbaudio select W --min-similarity 0.8 --hours 200 --dev 2000 --test 2000")
def select(
    workspace: Workspace,
    min_similarity: Annotated[float, typer.Option(help="less is out; -1 to 1")] = 0.8,
    max_duration: Annotated[float, typer.Option(help="seconds; longer is out")] = 20.0,
    min_duration: Annotated[float, typer.Option(help="seconds; shorter is out")] = 0.0,
    hours: Annotated[float | None, typer.Option(help="at most so many hours, spread over all speakers")] = None,
    disk: Annotated[str | None, typer.Option(metavar="900GB", help="at most so large a corpus, spread over all speakers")] = None,
    dev: Annotated[
        str | None, typer.Option(metavar="2000|1.5h", help="segments or hours; 5 %, at most 2000, unless given")
    ] = None,
    test: Annotated[str | None, typer.Option(metavar="2000|1.5h", help="likewise")] = None,
    group_by: Annotated[str, typer.Option(help="columns whose values never cross splits, by commas")] = "speaker_id,recording_id",
    seed: Seed = 42,
    gold: Annotated[bool, typer.Option("--gold", help="test is made of segments that reviewers call right")] = False,
    as_json: AsJson = False,
) -> None:
    """Decide every segment: filters, budget, train, dev and test without leakage."""
    from nbaudio import select as step

    _finish(
        lambda: step(
            workspace,
            min_similarity=min_similarity,
            max_duration=max_duration,
            min_duration=min_duration,
            hours=hours,
            disk=disk,
            dev=_amount(dev),
            test=_amount(test),
            group_by=_parts(group_by),
            seed=seed,
            gold=gold,
        ),
        as_json=as_json,
    )


@app.command(epilog="Example: nbaudio export nemo W --out manifests")
def export(
    format_: Annotated[str, typer.Argument(metavar="FORMAT", help="nemo, lhotse or kaldi")],
    workspace: Workspace,
    out: Annotated[str, typer.Option(help="the folder for the manifests: new, or an earlier export, which is replaced")],
    paths: Annotated[str, typer.Option(help="of the recordings: absolute, or relative to the manifests")] = "absolute",
    as_json: AsJson = False,
) -> None:
    """Write manifests of the accepted segments for other toolkits, which read the recordings themselves."""
    from nbaudio import export as step

    _finish(lambda: step(workspace, format_, out=out, paths=paths), as_json=as_json)


@app.command(epilog="Example: nbaudio materialize W --out CORPUS --container parquet --rate 16000 --channel mix --jobs 2")
def materialize(
    workspace: Workspace,
    out: Annotated[str, typer.Option(help="the corpus folder or its address: new, or one to go on with")],
    container: Container = "webdataset",
    rate: Annotated[int, typer.Option(min=1, help="Hz of the clips")] = 16000,
    channel: Annotated[
        str, typer.Option(help="mix, left, right or a number from 0; segments' own channels go before it")
    ] = "mix",
    encoding: Annotated[str, typer.Option(help="flac, wav, opus, mp3, or 256 levels: mulaw, linear")] = "flac",
    shard_size: ShardSize = "500MB",
    shard_count: ShardCount = None,
    window: Window = 1,
    title: Annotated[str | None, typer.Option(help="name of the corpus, for its data card")] = None,
    language: Annotated[str | None, typer.Option(metavar="hr", help="codes, by commas; likewise")] = None,
    licence: Annotated[str | None, typer.Option(metavar="cc-by-4.0", help="likewise")] = None,
    jobs: Jobs = None,
    engine: Engine = "loky",
    address: Address = None,
    beam_options: BeamOptions = "",
    packs: Annotated[str | None, typer.Option(help="folder or address for clips that are cut; W/packs unless given")] = None,
    as_json: AsJson = False,
) -> None:
    """Cut every accepted segment and write the corpus; run it again after a kill and it goes on."""
    from nbaudio import materialize as step

    _finish(
        lambda: step(
            workspace,
            out=out,
            container=container,
            rate=rate,
            channel=channel,
            encoding=encoding,
            shard_size=shard_size,
            shard_count=shard_count,
            window=window,
            title=title,
            language=language,
            licence=licence,
            jobs=jobs,
            engine=engine,
            address=address,
            beam_options=beam_options,
            packs=packs,
        ),
        as_json=as_json,
    )


@app.command(epilog="Example: nbaudio status CORPUS")
def status(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="the corpus folder or its address")],
    workspace: Annotated[str | None, typer.Option(metavar="W", help="its workspace, for a corpus at an address")] = None,
    as_json: AsJson = False,
) -> None:
    """Say how far a corpus is: stage, rate, time left, failures, whether anybody is at work on it, and what to do next."""
    from nbaudio import status as step

    _finish(lambda: step(corpus, workspace=workspace), as_json=as_json)


@app.command(epilog="Example: nbaudio convert CORPUS --container tfrecord --out OTHER --shard-count 64")
def convert(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="the folder of a whole corpus")],
    container: Container,
    out: Annotated[str, typer.Option(help="the folder for the new corpus: new, or one to go on with")],
    shard_size: ShardSize = "500MB",
    shard_count: ShardCount = None,
    window: Window = 1,
    jobs: Jobs = None,
    engine: Engine = "threading",
    as_json: AsJson = False,
) -> None:
    """Write a corpus anew in another container or in other shards; audio is copied, not decoded."""
    from nbaudio import convert as step

    _finish(
        lambda: step(
            corpus,
            container=container,
            out=out,
            shard_size=shard_size,
            shard_count=shard_count,
            window=window,
            jobs=jobs,
            engine=engine,
        ),
        as_json=as_json,
    )


@app.command(epilog="Example: nbaudio verify CORPUS")
def verify(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="the corpus folder or its address")],
    jobs: Jobs = None,
    engine: Engine = "loky",
    address: Address = None,
    beam_options: BeamOptions = "",
    as_json: AsJson = False,
) -> None:
    """Prove that a corpus is whole: every shard by hash, every clip by decoding it."""
    from nbaudio import verify as step

    _finish(lambda: step(corpus, jobs=jobs, engine=engine, address=address, beam_options=beam_options), as_json=as_json)


@app.command(epilog="Example: nbaudio stats W --out report.html")
def stats(
    path: Annotated[str, typer.Argument(metavar="W-or-CORPUS")],
    out: Annotated[str | None, typer.Option(metavar="PAGE.html|.xlsx", help="one page of it, with tables and plots")] = None,
    as_json: AsJson = False,
) -> None:
    """Hours, speakers, durations, similarity, splits and reasons of a workspace or corpus."""
    from nbaudio import stats as step

    _finish(lambda: step(path, out=out), as_json=as_json)


@app.command(epilog="Example: nbaudio wheel --out dist")
def wheel(
    out: Annotated[str, typer.Option(help="the folder for the wheel")] = "dist",
    as_json: AsJson = False,
) -> None:
    """Write a wheel of this very nbaudio, which is all that workers of a cluster need to install."""
    from nbaudio import wheel as step

    _finish(lambda: step(out=out), as_json=as_json)


def _named(options: list[str]) -> dict[str, str]:
    """Options written as ``name=value``."""
    found = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--option {option!r}: wanted is name=value, such as window=10")
        found[name.strip()] = value
    return found


def _parts(text: str) -> tuple[str, ...]:
    """What stands between commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _amount(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isdigit() else text


def main() -> None:
    """The `nbaudio` command."""
    app()
