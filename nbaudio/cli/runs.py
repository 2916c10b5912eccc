"""Commands that run notebooks: the demo, and the notebooks with the parameters of a manifest."""

from typing import Annotated

import typer

import nbaudio
from nbaudio.cli import common
from nbaudio.core.report import Report


@common.command("demo --out demo-output")
def demo(
    out: Annotated[str | None, typer.Option(help="the folder for everything; nbaudio-demo unless given")] = None,
) -> Report:
    """Run the whole job on the bundled corpus and show each of its troubles being caught."""
    return nbaudio.demo(out=out)


@common.command("run data_manifests/demo.yaml --out demo-output --set min_similarity=0.9 --only 1-5")
def run(
    manifest: Annotated[str, typer.Argument(metavar="MANIFEST.yaml", help="parameters of the whole job")],
    out: Annotated[str | None, typer.Option(help="the folder for notebooks, workspace and corpus")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="a parameter, over the manifest")] = None,
    only: Annotated[str | None, typer.Option(metavar="1-5", help="only these notebooks")] = None,
) -> Report:
    """Run the notebooks in order, unattended, with the parameters of a manifest."""
    from nbaudio.runs.manifests import parse_settings

    return nbaudio.run(manifest, out=out, settings=parse_settings(set_ or []), only=only)
