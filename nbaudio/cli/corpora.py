"""Commands that choose, cut, look after and describe a corpus."""

from typing import Annotated

import typer

from nbaudio.cli.common import (
    Address,
    AsJson,
    BeamOptions,
    Container,
    Engine,
    Jobs,
    Seed,
    ShardCount,
    ShardSize,
    Window,
    Workspace,
    app,
    finish,
    network_options,
    split_commas,
)


@app.command(epilog="Example: nbaudio select W --min-similarity 0.8 --hours 200 --dev 2000 --test 2000")
@network_options
def select(
    workspace: Workspace,
    min_similarity: Annotated[
        float | None, typer.Option(help="less is out; -1 to 1; unless given the one chosen in the tuner, or 0.8")
    ] = None,
    max_duration: Annotated[float, typer.Option(help="seconds; longer is out")] = 20.0,
    min_duration: Annotated[float, typer.Option(help="seconds; shorter is out")] = 0.0,
    hours: Annotated[float | None, typer.Option(help="at most so many hours, spread over all speakers")] = None,
    disk: Annotated[str | None, typer.Option(metavar="900GB", help="at most so large a corpus, spread over all speakers")] = None,
    dev: Annotated[
        str | None, typer.Option(metavar="2000|1.5h", help="segments or hours; 5 %, at most 2000, unless given")
    ] = None,
    test: Annotated[str | None, typer.Option(metavar="2000|1.5h", help="likewise")] = None,
    group_by: Annotated[
        str,
        typer.Option(
            metavar="speaker_id,recording_id",
            help="columns whose values never cross splits; auto: these two, or speaker_id alone where both lose over 5 %",
        ),
    ] = "auto",
    seed: Seed = 42,
    gold: Annotated[bool, typer.Option("--gold", help="test is made of segments that reviewers call right")] = False,
    as_json: AsJson = False,
) -> None:
    """Decide every segment: filters, budget, train, dev and test without leakage."""
    from nbaudio import select as step

    finish(
        lambda: step(
            workspace,
            min_similarity=min_similarity,
            max_duration=max_duration,
            min_duration=min_duration,
            hours=hours,
            disk=disk,
            dev=_amount(dev),
            test=_amount(test),
            group_by=split_commas(group_by),
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

    finish(lambda: step(workspace, format_, out=out, paths=paths), as_json=as_json)


@app.command(epilog="Example: nbaudio materialize W --out CORPUS --container parquet --rate 16000 --channel mix --jobs 2")
@network_options
def materialize(
    workspace: Workspace,
    out: Annotated[str, typer.Option(help="the corpus folder or its address: new, or one to go on with")],
    container: Container = "webdataset",
    text: Annotated[
        str | None, typer.Option(metavar="NAME", help="ship the transcript text_NAME as text, such as normalized; see score")
    ] = None,
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

    finish(
        lambda: step(
            workspace,
            out=out,
            container=container,
            text=text,
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
@network_options
def status(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="the corpus folder or its address")],
    workspace: Annotated[str | None, typer.Option(metavar="W", help="its workspace, for a corpus at an address")] = None,
    as_json: AsJson = False,
) -> None:
    """Say how far a corpus is: stage, rate, time left, failures, whether anybody is at work on it, and what to do next."""
    from nbaudio import status as step

    finish(lambda: step(corpus, workspace=workspace), as_json=as_json)


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

    finish(
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
@network_options
def verify(
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="the corpus folder or its address")],
    jobs: Jobs = None,
    engine: Engine = "loky",
    address: Address = None,
    beam_options: BeamOptions = "",
    workspace: Annotated[str | None, typer.Option(metavar="W", help="keep the report among those of this workspace")] = None,
    as_json: AsJson = False,
) -> None:
    """Prove that a corpus is whole: every shard by hash, every clip by decoding it."""
    from nbaudio import verify as step

    finish(
        lambda: step(corpus, jobs=jobs, engine=engine, address=address, beam_options=beam_options, workspace=workspace),
        as_json=as_json,
    )


@app.command(epilog="Example: nbaudio stats W --out report.html")
@network_options
def stats(
    path: Annotated[str, typer.Argument(metavar="W-or-CORPUS")],
    out: Annotated[
        str | None, typer.Option(metavar="PAGE.html", help="one page of it, .html or .xlsx, with tables and plots")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Hours, speakers, durations, similarity, splits and reasons of a workspace or corpus."""
    from nbaudio import stats as step

    finish(lambda: step(path, out=out), as_json=as_json)


@app.command(epilog="Example: nbaudio wheel --out dist")
def wheel(
    out: Annotated[str, typer.Option(help="the folder for the wheel")] = "dist",
    as_json: AsJson = False,
) -> None:
    """Write a wheel of this very nbaudio, which is all that workers of a cluster need to install."""
    from nbaudio import wheel as step

    finish(lambda: step(out=out), as_json=as_json)


def _amount(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else text
