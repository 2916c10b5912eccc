"""Commands for sources: download, ingest, score."""

from typing import Annotated

import typer

import nbaudio
from nbaudio.cli import common
from nbaudio.core.report import Report


@common.command("download openslr:librispeech:dev-clean,test-clean --out archives --per-second 1", fetches=True)
def download(
    source: Annotated[str, typer.Argument(metavar="LIST", help="a .csv, .tsv or .jsonl of url, name, checksum; or a known name")],
    out: Annotated[str, typer.Option(help="the folder for the files: new, or one to resume")],
    connections: Annotated[int, typer.Option(min=1, help="files at once")] = 4,
    per_host: Annotated[int, typer.Option(min=1, help="files at once from one host")] = 2,
    per_second: Annotated[float, typer.Option(help="requests to one host")] = 4.0,
    seed: Annotated[int | None, typer.Option(help="of the pauses' random share")] = None,
) -> Report:
    """Download the files of a list; run it again after a kill to resume."""
    return nbaudio.download(**locals())


@common.command("ingest parlaspeech asr.json --audio recordings --names wav.scp --out W", fetches=True)
def ingest(
    format: Annotated[
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
    jobs: common.Jobs = None,
    sha256: Annotated[bool, typer.Option("--sha256/--no-sha256", help="hash every recording, to notice when one changes")] = True,
    cache: Annotated[str, typer.Option(help="room for recordings that lie elsewhere, such as 50GB")] = "20GB",
    options: Annotated[
        list[str] | None,
        typer.Option("--option", metavar="NAME=VALUE", help="of the format, such as window=10 of folder; repeat for more"),
    ] = None,
) -> Report:
    """Read transcripts, resolve the names of recordings, probe every recording."""
    given = locals()
    from nbaudio.runs.manifests import split_settings

    parsed = split_settings(options or [], what="--option", example="window=10")
    return nbaudio.ingest(**{**given, "options": parsed})


@common.command("score W --normalize nfc --normalize lower")
def score(
    workspace: common.Workspace,
    normalize: Annotated[
        list[str] | None,
        typer.Option(help="compare texts after nfc, lower, punctuation or blanks; repeat for more"),
    ] = None,
) -> Report:
    """Compare transcripts with hypotheses: similarity, WER, CER."""
    return nbaudio.score(workspace, normalize=tuple(normalize or ()))
