"""Typer app, options that several commands share, and the printing of reports and errors."""

import io
import json
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer
from typer import Argument, Option

import nbaudio
from nbaudio.cli.help_panels import CommandPanel, OptionPanel, PanelCommand, PanelGroup
from nbaudio.core.errors import NbaudioError, redact_urls
from nbaudio.core.home_folder import ensure_home
from nbaudio.core.input_guards import is_utf8
from nbaudio.core.processes import skip_garbage_collection_at_exit
from nbaudio.core.report import Report, escape_control
from nbaudio.storage import network

_WIDEST_LINE = 100  # columns of the help in a wide terminal; click's default is 80

app = typer.Typer(
    cls=PanelGroup,
    no_args_is_help=True,
    rich_markup_mode=None,  # importing rich would take half of the start-up time; help_panels.py
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST_LINE},
)


def _print_version(requested: bool) -> None:  # noqa: FBT001 - typer calls it
    if requested:
        from nbaudio.core.version import __version__

        typer.echo(f"nbaudio {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Turn recordings, transcripts and hypotheses into a corpus of known label quality."""


Options = dict[str, Any]
_Command = Callable[..., Options | None]
Workspace = Annotated[str, Argument(metavar="W", help="workspace folder")]
AsJson = Annotated[bool | None, Option("--json", help="print the report as JSON")]
Jobs = Annotated[
    int | None,
    Option(
        "--jobs",
        min=1,
        help="tasks in parallel; default: one per core",
        rich_help_panel=OptionPanel.PARALLEL,
    ),
]
Seed = Annotated[int, Option(help="seed of random choices")]
CONTAINERS = "webdataset, parquet, zip, tfrecord, lhotse, arrow or files"
ShardCount = Annotated[
    int | None, Option(min=1, help="number of shards of each split, instead of a size")
]

# Options of all commands that any engine runs, besides `Jobs`.
Engine = Annotated[
    str | None,
    Option(
        help="where tasks run: loky (default), threading, dask, ray, spark or beam",
        rich_help_panel=OptionPanel.PARALLEL,
    ),
]
Address = Annotated[
    str | None,
    Option(
        metavar="tcp://HOST:PORT",
        help="running cluster of that engine",
        rich_help_panel=OptionPanel.PARALLEL,
    ),
]
BeamOptions = Annotated[
    str | None,
    Option(
        metavar='"--runner=..."',
        help="options of Beam, as one string",
        rich_help_panel=OptionPanel.PARALLEL,
    ),
]
# Limits of requests, options of all commands that fetch.
Timeout = Annotated[
    float | None,
    Option(
        min=0.001,
        help="seconds without a byte before a request fails; default: 15",
        rich_help_panel=OptionPanel.NETWORK,
    ),
]
Tries = Annotated[
    int | None,
    Option(
        min=1,
        help="failed requests in a row before an item is given up; default: 3",
        rich_help_panel=OptionPanel.NETWORK,
    ),
]
MaxWait = Annotated[
    float | None,
    Option(
        min=0,
        help="most seconds that a server may require (Retry-After); default: 45",
        rich_help_panel=OptionPanel.NETWORK,
    ),
]
MaxSize = Annotated[
    str | None,
    Option(
        metavar="50GB",
        help="of a file; default: 1TB, or 1GB without a stated length",
        rich_help_panel=OptionPanel.NETWORK,
    ),
]
_LIMITS = ("timeout", "tries", "max_wait", "max_size")


def command(
    example: str, *, panel: CommandPanel | None = None, group: typer.Typer = app
) -> Callable[[_Command], object]:
    """Add a command that prints the report of nbaudio's function of the same name.

    What is decorated declares the options, `as_json` among them, and may return some of them
    converted; those that are not given are left to the defaults of nbaudio's function. The limits
    of requests, where it declares them, hold for all requests of the command.

    Args:
        example: a command line, without ``nbaudio``, for the help of the command.
        panel: the heading above the command in the help of `nbaudio`.
        group: the app that has the command.
    """

    def add(function: _Command) -> object:
        step = _find_step(function.__name__, in_review=group is not app)

        @wraps(function)  # typer reads the options of what is wrapped
        def run(*, as_json: bool, **options: Any) -> None:
            try:
                report = _run_step(step, function, options)
            except (NbaudioError, OSError, MemoryError, RuntimeError) as error:
                if isinstance(error, RuntimeError) and "can't start new thread" not in str(error):
                    raise
                show_error(_reason(error), as_json=as_json)
                raise typer.Exit(2) from error
            shown = _dump_json(report.to_dict(), indent=2) if as_json else str(report)
            typer.echo(shown)
            if report.problems:
                raise typer.Exit(1)

        group.command(
            function.__name__.rstrip("_").replace("_", "-"),
            cls=PanelCommand,
            epilog=f"Example: nbaudio {example}",
            rich_help_panel=panel,
        )(run)
        return run

    return add


def _run_step(step: Callable[..., Report], function: _Command, options: Options) -> Report:
    """Call the step of a command within the limits of its requests.

    `function` converts the options.
    """
    limits = {name: options[name] for name in _LIMITS if name in options}
    with network.environment(**limits):
        if limits:
            network.Network.of()  # before any work
        arguments = options | (function(**options) or {})
        return step(
            **{
                name: value
                for name, value in arguments.items()
                if name not in limits and value not in (None, [])
            }
        )


def _find_step(name: str, *, in_review: bool) -> Callable[..., Report]:
    """Return a call of nbaudio's function of a command, which is imported when it is called."""

    def call_step(**arguments: Any) -> Report:
        package = nbaudio.review if in_review else nbaudio
        step = getattr(package, name, None) or getattr(package, name.rstrip("_"))
        report: Report = step(**arguments)
        return report

    return call_step


_INTERRUPTED = 130  # the exit code after Ctrl-C, by which shells know it, and typer's

# The usage error of click, or of the copy of click in newer versions of typer.
_UsageError: Any = typer.BadParameter.__mro__[1]


def main() -> None:
    """Run the `nbaudio` command."""
    skip_garbage_collection_at_exit()
    _ensure_utf8()
    ensure_home()
    # pyarrow's default pool keeps freed memory: up to 60 MB more for 40,000 segments. pyarrow reads
    # this when it is first used.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    try:
        code = app(standalone_mode=False)
    except KeyboardInterrupt:  # Polars makes two of one Ctrl-C, and typer handles the first
        code = _INTERRUPTED
    except typer.Abort:
        sys.exit(1)
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            path = error.ctx.command_path if error.ctx else "nbaudio"
            show_error(
                f"{error.format_message().rstrip('.')}; '{path} --help' has the options",
                as_json="--json" in sys.argv,
            )
        sys.exit(2)
    if code == _INTERRUPTED:
        show_error("stopped; run the same command again to continue", as_json="--json" in sys.argv)
    sys.exit(code if isinstance(code, int) else 0)


def _ensure_utf8() -> None:
    """Restart Python in UTF-8 mode, which workers inherit, if the locale has another encoding.

    Escape what cannot be printed.
    """
    arguments = sys.orig_argv[1:]
    if not is_utf8() and sys.executable and arguments[:2] != ["-X", "utf8"]:
        os.environ["PYTHONUTF8"] = "1"
        # This very command, without a shell.
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *arguments])  # noqa: S606
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _dump_json(value: object, *, indent: int | None = None) -> str:
    """JSON, in ASCII where standard output has another encoding than UTF-8."""
    return json.dumps(
        value,
        ensure_ascii=(sys.stdout.encoding or "").lower().replace("-", "") != "utf8",
        indent=indent,
    )


def show_error(reason: str, *, as_json: bool) -> None:
    """Print in one line why nothing is done."""
    line = escape_control(redact_urls(" ".join(reason.split())))
    if as_json:
        typer.echo(_dump_json({"error": line}))
    else:
        typer.echo(f"nbaudio: {line}", err=True)


def _reason(error: Exception) -> str:
    """Return an error that is no error of nbaudio's as one line."""
    if isinstance(error, MemoryError | RuntimeError):
        return (
            "not enough memory; run the same command again with fewer --jobs: finished work is kept"
        )
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: cannot be used ({error.strerror})"
    return str(error)
