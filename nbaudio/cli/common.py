"""What all commands share: the app, options that several have, and how a report is told."""

import io
import json
import os
import sys
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any

import typer

from nbaudio.core.errors import NbaudioError, strip_queries
from nbaudio.core.guards import is_utf8
from nbaudio.core.report import Report, escape_control
from nbaudio.storage import network

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,  # importing rich would take half of the start-up time
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer calls it
    if asked:
        from nbaudio.core.version import __version__

        typer.echo(f"nbaudio {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="the version, and nothing else")
    ] = False,
) -> None:
    """Long recordings, transcripts and a recognizer's hypotheses into a training corpus whose label quality is known."""


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


_NETWORK = {
    "timeout": (
        float,
        typer.Option(min=0.001, help="seconds without a byte before a request to a server fails; 15 unless given"),
    ),
    "tries": (int, typer.Option(min=1, help="requests in a row that fail before an item is given up; 3 unless given")),
    "max_wait": (float, typer.Option(min=0, help="seconds that a server may ask to wait (Retry-After); 45 unless given")),
    "max_size": (
        str,
        typer.Option(metavar="50GB", help="of the largest file; 1TB, or 1GB where no length is announced, unless given"),
    ),
}


def network_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that fetches the options of `nbaudio.storage.network`, which hold while it runs."""

    @wraps(command)
    def run(**options: Any) -> None:
        with network.environment(**{name: options.pop(name) for name in _NETWORK}):
            try:
                network.Network.of()
            except NbaudioError as error:
                refuse(str(error), as_json=options["as_json"])
                raise typer.Exit(2) from error
            command(**options)

    own = {
        name: Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option])
        for name, (kind, option) in _NETWORK.items()
    }
    *first, as_json = signature(command).parameters.values()
    keywords = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in (*first, *own.values(), as_json)]
    run.__signature__ = Signature(keywords)  # type: ignore[attr-defined]  # where typer looks
    run.__annotations__ = {each.name: each.annotation for each in keywords}
    return run


# Of click, or of the copy of it that newer versions of typer bring.
_WrongUse: Any = typer.BadParameter.__mro__[1]


def main() -> None:
    """The `nbaudio` command."""
    _in_utf8()
    try:
        code = app(standalone_mode=False)
    except typer.Abort:
        sys.exit(1)
    except _WrongUse as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            path = error.ctx.command_path if error.ctx else "nbaudio"
            refuse(f"{error.format_message().rstrip('.')}; '{path} --help' tells more", as_json="--json" in sys.argv)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _in_utf8() -> None:
    """Start Python again in UTF-8 mode where the locale has another encoding: names of files are UTF-8, whatever the locale.

    Workers and notebooks inherit the mode. Output that the terminal cannot show is escaped instead of an error.
    """
    arguments = sys.orig_argv[1:]
    if not is_utf8() and sys.executable and arguments[:2] != ["-X", "utf8"]:
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *arguments])  # noqa: S606  # this very command, no shell
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _as_json(value: object, *, indent: int | None = None) -> str:
    """JSON, in ASCII alone where standard output takes no more."""
    is_narrow = (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"
    return json.dumps(value, ensure_ascii=is_narrow, indent=indent)


def finish(make: Callable[[], Report], *, as_json: bool) -> None:
    """Print the report of a step and leave with its exit code."""
    try:
        report = make()
    except (NbaudioError, OSError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "can't start new thread" not in str(error):
            raise
        refuse(_told(error), as_json=as_json)
        raise typer.Exit(2) from error
    typer.echo(_as_json(report.to_dict(), indent=2) if as_json else str(report))
    if report.problems:
        raise typer.Exit(1)


def refuse(why: str, *, as_json: bool) -> None:
    """Say in one line why nothing is done."""
    line = escape_control(strip_queries(" ".join(why.split())))
    typer.echo(_as_json({"error": line}) if as_json else f"nbaudio: {line}", err=not as_json)


def _told(error: Exception) -> str:
    if isinstance(error, MemoryError | RuntimeError):
        return "not enough memory; with fewer --jobs less is needed, and what is done is kept: run the same again"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: cannot be used ({error.strerror})"
    return str(error)


def split_commas(text: str) -> tuple[str, ...]:
    """What stands between commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
