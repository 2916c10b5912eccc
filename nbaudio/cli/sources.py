"""Commands that bring recordings and transcripts in: download, ingest, score."""

from typing import Annotated

import typer

from nbaudio.cli.common import AsJson, Jobs, Workspace, app, finish, network_options
from nbaudio.core.errors import InputError


@app.command(epilog="Example: nbaudio download openslr:librispeech:dev-clean,test-clean --out archives --per-second 1")
@network_options
def download(
    source: Annotated[str, typer.Argument(metavar="LIST", help="a .csv, .tsv or .jsonl of url, name, checksum; or a known name")],
    out: Annotated[str, typer.Option(help="the folder for the files: new, or one to go on with")],
    connections: Annotated[int, typer.Option(min=1, help="files at once")] = 4,
    per_host: Annotated[int, typer.Option(min=1, help="files at once from one host")] = 2,
    per_second: Annotated[float, typer.Option(help="requests to one host")] = 4.0,
    seed: Annotated[int | None, typer.Option(help="of the pauses' random share")] = None,
    as_json: AsJson = False,
) -> None:
    """Fetch the files of a list; run it again after a kill and it goes on."""
    from nbaudio import download as step

    finish(
        lambda: step(
            source,
            out=out,
            connections=connections,
            per_host=per_host,
            per_second=per_second,
            seed=seed,
        ),
        as_json=as_json,
    )


@app.command(epilog="Example: nbaudio ingest parlaspeech asr.json --audio recordings --names wav.scp --out W")
@network_options
def ingest(
    format_: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="the layout of the source: parlaspeech, librispeech, kaldi, commonvoice, folder, hf, nemo, lhotse, table, "
            "subtitles or textgrid",
        ),
    ],
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

    finish(
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
    normalize: Annotated[
        list[str] | None,
        typer.Option(help="compare texts after nfc, lower, punctuation or blanks; repeat for more"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare transcripts with hypotheses: similarity, WER, CER."""
    from nbaudio import score as step

    finish(lambda: step(workspace, normalize=tuple(normalize or ())), as_json=as_json)


def _named(options: list[str]) -> dict[str, str]:
    """Options written as ``name=value``."""
    found = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name.strip():
            raise InputError(f"--option {option!r}: wanted is name=value, such as window=10")
        found[name.strip()] = value
    return found
