"""Commands for review sheets and corrections."""

from typing import Annotated

import typer

import nbaudio
from nbaudio.cli import common
from nbaudio.core.report import Report

review_app = typer.Typer(help="Export samples for reviewers as spreadsheets, and import their verdicts.", no_args_is_help=True)
common.app.add_typer(review_app, name="review")


@common.command("review export W --out sheet.xlsx --n 1000 --reviewers ana,ben --overlap 100", group=review_app, fetches=True)
def export(
    workspace: common.Workspace,
    out: Annotated[str, typer.Option(help="the spreadsheet to write; clips go beside it")],
    n: Annotated[
        int | None, typer.Option(min=1, help="how many clips; a tenth of those not drawn yet, at most 1000, unless given")
    ] = None,
    strategy: Annotated[
        str, typer.Option(help="how they are drawn: random, stratified, speaker, recording, near or suspicious")
    ] = "random",
    threshold: Annotated[float, typer.Option(help="the similarity that stratified and near look at; -1 to 1")] = 0.8,
    seed: common.Seed = 42,
    reviewers: Annotated[str, typer.Option(metavar="ANA,BEN", help="a sheet for each of them")] = "",
    overlap: Annotated[int, typer.Option(min=0, help="how many clips all of them are given")] = 0,
    verdicts: Annotated[str | None, typer.Option(help="the words to choose from, by commas; ok is one of them")] = None,
    clips: Annotated[str, typer.Option(help="wav or mp3")] = "wav",
    tables: Annotated[
        list[str] | None, typer.Option("--table", help="csv or tsv, to write beside the sheet; repeat for both")
    ] = None,
    zip: Annotated[bool, typer.Option("--zip", help="each sheet with its clips in one archive, to send")] = False,
) -> Report:
    """Draw clips for reviewers into spreadsheets; they stay out of training."""
    given = locals()
    parsed = {
        "reviewers": common.split_commas(reviewers),
        "verdicts": tuple(nbaudio.review.VERDICTS) if verdicts is None else common.split_commas(verdicts),
        "tables": tuple(tables or ()),
    }
    return nbaudio.review.export(**{**given, **parsed})


@common.command("review import W sheet-ana.xlsx sheet-ben.xlsx", group=review_app)
def import_(
    workspace: common.Workspace,
    sheets: Annotated[list[str], typer.Argument(metavar="SHEET...", help="filled in: .xlsx, .csv, .tsv, or folders of them")],
    reviewer: Annotated[str | None, typer.Option(help="who filled them in; the sheets say so unless given")] = None,
) -> Report:
    """Import verdicts and corrected texts from sheets; list what cannot be used, and report annotator agreement."""
    return nbaudio.review.import_(workspace, sheets, reviewer=reviewer)


@common.command("review correct-bounds W", group=review_app)
def correct_bounds(workspace: common.Workspace) -> Report:
    """Apply bounds that reviewers corrected to the segments table."""
    return nbaudio.review.correct_bounds(workspace)


@common.command("review correct-texts W", group=review_app)
def correct_texts(workspace: common.Workspace) -> Report:
    """Apply texts that reviewers corrected to the segments table; review import does it too."""
    return nbaudio.review.correct_texts(workspace)
