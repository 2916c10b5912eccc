"""Commands for the whole job at once: the demo, and the notebooks of a manifest."""

from typing import Annotated

import typer

from nbaudio.cli.common import AsJson, app, finish


@app.command(epilog="Example: nbaudio demo --out demo-output")
def demo(
    out: Annotated[str | None, typer.Option(help="the folder for everything; nbaudio-demo unless given")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the whole job on the bundled corpus and show each of its troubles being caught."""
    from nbaudio.runs import demo as step

    finish(lambda: step(out=out), as_json=as_json)


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

    finish(lambda: step(manifest, out=out, settings=parse_settings(set_ or []), only=only), as_json=as_json)
