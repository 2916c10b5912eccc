"""All commands, in the order of the help."""

from contextlib import suppress
from typing import Annotated

import typer
from typer import Argument, Option

from nbaudio.cli import common
from nbaudio.cli.help_panels import CommandPanel, OptionPanel, PanelGroup
from nbaudio.core.errors import InputError

_FORMATS = (
    "parlaspeech, librispeech, kaldi, commonvoice, folder, hf, dataset, nemo, lhotse, table, "
    "subtitles or textgrid"
)
_GROUPS = (
    "columns whose values no two splits share; auto: these two, "
    "or speaker_id alone if both lose over 5 %"
)
_SIZES = "segments or hours, exact; default: whole speakers, a goal of 5 %, at most 2000"
_VERDICTS = "verdicts to choose from, separated by commas; ok must be one"
_STRATEGIES = (
    "random, stratified, risk, speaker, recording, near, suspicious, worst (with --by), or a "
    "column; disagreements"
)

review_app = typer.Typer(
    cls=PanelGroup,
    help="Export samples for review as spreadsheets, and import the verdicts.",
    no_args_is_help=True,
)
common.app.add_typer(review_app, name="review", rich_help_panel=CommandPanel.REVIEW)

_Cache = Annotated[
    str,
    Option(
        help="size of the cache of remote recordings, such as 50GB",
        rich_help_panel=OptionPanel.NETWORK,
    ),
]


def _names(text: str) -> tuple[str, ...]:
    """Return the names of a list that is separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _size(text: str) -> int | str:
    """Return a number of segments as a number, and hours, such as 1.5h, as text."""
    return int(text) if text.isascii() and text.isdigit() else text


def _pairs_of(options: list[str] | None, name: str) -> list[tuple[str, str]]:
    """Return the names and values of options such as ``text=sentence``."""
    pairs = [tuple(map(str.strip, option.partition("=")[::2])) for option in options or ()]
    for pair, option in zip(pairs, options or (), strict=True):
        if not all(pair):
            raise InputError(f"option {name}: expected NAME=VALUE, not {option!r}")
    return [(pair[0], pair[1]) for pair in pairs]


def _share(text: str) -> float:
    """Return a share in [0, 1] as a number."""
    with suppress(ValueError):
        if 0 <= float(text) <= 1:
            return float(text)
    raise InputError(f"option limit: expected a share between 0 and 1, not {text!r}")


@common.command("demo --out demo-output", panel=CommandPanel.START)
def demo(
    out: Annotated[str | None, Option(help="output folder; default: nbaudio-demo")] = None,
    as_json: common.AsJson = None,
) -> None:
    """Run all steps on the bundled corpus and show how each of its problems is caught."""


@common.command(
    "run data_manifests/demo.yaml --out demo-output --set min_similarity=0.9 --only 1-5",
    panel=CommandPanel.START,
)
def run(
    manifest: Annotated[
        str,
        Argument(
            metavar="MANIFEST.yaml|FOLDER|FILE",
            help="parameters of the notebooks, in YAML; or data, whose format is found out",
        ),
    ],
    out: Annotated[str | None, Option(help="folder for notebooks, workspace and corpus")] = None,
    settings: Annotated[
        list[str] | None,
        Option("--set", metavar="NAME=VALUE", help="override a parameter; repeat for more"),
    ] = None,
    only: Annotated[str | None, Option(metavar="1-5", help="run only these notebooks")] = None,
    as_json: common.AsJson = None,
) -> common.Options:
    """Run the notebooks in order, unattended, with a manifest or on a folder of own data."""
    from nbaudio.runs.parameters import parse_settings

    return {"settings": parse_settings(settings or [])}


@common.command(
    "download openslr:librispeech:dev-clean,test-clean --out archives --per-second 1",
    panel=CommandPanel.START,
)
def download(
    source: Annotated[
        str,
        Argument(
            metavar="LIST", help="a .csv, .tsv or .jsonl of url, name, checksum; or a known name"
        ),
    ],
    out: Annotated[str, Option(help="folder for the files: new, or one to resume")],
    connections: Annotated[
        int, Option(min=1, help="files in parallel", rich_help_panel=OptionPanel.NETWORK)
    ] = 4,
    per_host: Annotated[
        int,
        Option(min=1, help="files in parallel from one host", rich_help_panel=OptionPanel.NETWORK),
    ] = 2,
    per_second: Annotated[
        float,
        Option(help="requests per second to one host", rich_help_panel=OptionPanel.NETWORK),
    ] = 4.0,
    timeout: common.Timeout = None,
    tries: common.Tries = None,
    max_wait: common.MaxWait = None,
    max_size: common.MaxSize = None,
    as_json: common.AsJson = None,
) -> None:
    """Download the files of a list; run it again after a kill to resume."""


@common.command(
    "align hypotheses minutes --audio recordings --out W",
    panel=CommandPanel.START,
)
def align(
    hypotheses: Annotated[
        str,
        Argument(
            metavar="HYPOTHESES",
            help="file or folder of words with times, CTM, Whisper's JSON, ...",
        ),
    ],
    transcripts: Annotated[
        str,
        Argument(
            metavar="TRANSCRIPTS",
            help="file or folder of .txt, .srt, .vtt, .sbv, .docx, .html, TEI or JSON lines",
        ),
    ],
    out: Annotated[str, Option(help="workspace folder to write")],
    audio: Annotated[
        str | None, Option(help="folder or URL of the recordings; may be given later")
    ] = None,
    pairs: Annotated[
        str | None,
        Option(metavar="FILE", help="a .csv or .tsv with the columns recording and transcript"),
    ] = None,
    min_duration: Annotated[float, Option(help="seconds of the shortest segment")] = 2.0,
    max_duration: Annotated[float, Option(help="seconds of the longest segment")] = 20.0,
    side: Annotated[
        str | None,
        Option(help="of calls: the side as the hypotheses label it, left, right, or mix for all"),
    ] = None,
    options: Annotated[
        list[str] | None,
        Option("--option", metavar="NAME=VALUE", help="track=2 or clock=picture of videos; repeat"),
    ] = None,
    sha256: Annotated[
        bool, Option("--sha256/--no-sha256", help="hash every recording, to detect changes")
    ] = True,
    cache: _Cache = "20GB",
    add: Annotated[
        bool, Option("--add", help="keep what W has, and bring in these recordings")
    ] = False,
    jobs: common.Jobs = None,
    engine: common.Engine = None,
    address: common.Address = None,
    beam_options: common.BeamOptions = None,
    timeout: common.Timeout = None,
    tries: common.Tries = None,
    max_wait: common.MaxWait = None,
    max_size: common.MaxSize = None,
    as_json: common.AsJson = None,
) -> common.Options:
    """Find uncut transcripts in a recognizer's timed words, and cut segments at pauses.

    No model is needed.
    """
    from nbaudio.runs.parameters import split_settings

    return {"options": split_settings(options or [], what="--option", example="track=2")}


@common.command(
    "ingest parlaspeech asr.json --audio recordings --names wav.scp --out W",
    panel=CommandPanel.START,
)
def ingest(
    format: Annotated[str, Argument(metavar="FORMAT", help=f"layout of the source: {_FORMATS}")],
    source: Annotated[
        str, Argument(metavar="SOURCE", help="file, folder or URL of the transcripts")
    ],
    out: Annotated[str, Option(help="workspace folder to write")],
    audio: Annotated[
        str | None, Option(help="folder or URL of the recordings; may be given later")
    ] = None,
    names: Annotated[
        str | None, Option(help="a Kaldi wav.scp, or a table of name and path")
    ] = None,
    jobs: common.Jobs = None,
    sha256: Annotated[
        bool, Option("--sha256/--no-sha256", help="hash every recording, to detect changes")
    ] = True,
    cache: _Cache = "20GB",
    options: Annotated[
        list[str] | None,
        Option("--option", metavar="NAME=VALUE", help="such as window=10 of folder; repeat"),
    ] = None,
    add: Annotated[
        bool,
        Option(
            "--add", help="keep what W has; bring in the source grown or changed, or a further one"
        ),
    ] = False,
    timeout: common.Timeout = None,
    tries: common.Tries = None,
    max_wait: common.MaxWait = None,
    max_size: common.MaxSize = None,
    as_json: common.AsJson = None,
) -> common.Options:
    """Read transcripts, resolve the names of recordings, probe every recording."""
    from nbaudio.runs.parameters import split_settings

    return {"options": split_settings(options or [], what="--option", example="window=10")}


@common.command(
    "join W verbatim.tsv --text verbatim --on file,start,end --tolerance 0.01",
    panel=CommandPanel.START,
)
def join(
    workspace: common.Workspace,
    table: Annotated[
        str,
        Argument(
            metavar="FILE",
            help="a .csv, .tsv, .jsonl, .parquet or .xlsx with a row for each segment",
        ),
    ],
    on: Annotated[
        str,
        Option(
            metavar="segment_id|file,start,end|recording_id",
            help="columns that name the segment; one of another name: hashname=segment_id",
        ),
    ] = "segment_id",
    text: Annotated[
        str | None, Option(metavar="NAME", help="join a further transcript, as text_NAME")
    ] = None,
    hypothesis: Annotated[
        str | None, Option(metavar="NAME", help="join a further hypothesis, as asr_text_NAME")
    ] = None,
    column: Annotated[
        str | None, Option(metavar="NAME", help="join anything else, as a column NAME")
    ] = None,
    from_: Annotated[
        str | None, Option("--from", metavar="COLUMN", help="column of FILE with the values")
    ] = None,
    tolerance: Annotated[float, Option(min=0, help="most seconds by which times may differ")] = 0.0,
    as_json: common.AsJson = None,
) -> None:
    """Bring a further transcript, hypothesis or column from a table into a workspace.

    List what matches no single segment.
    """


@common.command(
    "recognize W --with recognizer:transcribe --as large --jobs 2",
    panel=CommandPanel.START,
)
def recognize(
    workspace: common.Workspace,
    with_: Annotated[
        str,
        Option("--with", metavar="MODULE:FUNCTION|COMMAND", help="a Python function, or a command"),
    ],
    as_: Annotated[
        str | None,
        Option("--as", metavar="NAME", help="write asr_text_NAME; default: the module's name"),
    ] = None,
    batch: Annotated[int, Option(min=1, help="most clips in one call of a function")] = 16,
    jobs: Annotated[
        int,
        Option(
            min=1,
            help="tasks in parallel, each process with a recognizer of its own",
            rich_help_panel=OptionPanel.PARALLEL,
        ),
    ] = 1,
    engine: common.Engine = None,
    address: common.Address = None,
    beam_options: common.BeamOptions = None,
    timeout: common.Timeout = None,
    tries: common.Tries = None,
    max_wait: common.MaxWait = None,
    max_size: common.MaxSize = None,
    as_json: common.AsJson = None,
) -> None:
    """Recognize all segments, as a further hypothesis.

    Run it again after a kill or growth to do the rest.
    """


@common.command(
    "score W --text verbatim --hypothesis large --language hr", panel=CommandPanel.INSPECT
)
def score(
    workspace: common.Workspace,
    text: Annotated[
        str | None, Option(metavar="NAME", help="a further transcript, text_NAME; default: text")
    ] = None,
    hypothesis: Annotated[
        list[str] | None, Option(metavar="NAME", help="asr_text_NAME; repeat; default: asr_text")
    ] = None,
    normalize: Annotated[
        list[str] | None, Option(help="nfc, lower, punctuation or blanks before comparing; repeat")
    ] = None,
    language: Annotated[
        str | None, Option(metavar="hr", help="of numbers and abbreviations; default: the last one")
    ] = None,
    formatting: Annotated[
        str | None,
        Option(metavar="FILE.tsv", help="further alternatives: language, written, spoken"),
    ] = None,
    as_json: common.AsJson = None,
) -> None:
    """Compare transcripts with hypotheses: similarity, WER, CER, also without formatting.

    Agreement of several hypotheses.
    """


@common.command("measure W --jobs 2", panel=CommandPanel.INSPECT)
def measure(
    workspace: common.Workspace,
    channel: Annotated[
        str, Option(help="mix, left, right or a number from 0, as materialize will cut")
    ] = "mix",
    jobs: common.Jobs = None,
    engine: common.Engine = None,
    address: common.Address = None,
    beam_options: common.BeamOptions = None,
    timeout: common.Timeout = None,
    tries: common.Tries = None,
    max_wait: common.MaxWait = None,
    max_size: common.MaxSize = None,
    as_json: common.AsJson = None,
) -> None:
    """Measure levels, noise, clipping, bandwidth, silence and speech of every segment.

    Run it again after growth for the rest.
    """


@common.command("stats W --out report.html", panel=CommandPanel.INSPECT)
def stats(
    path: Annotated[str, Argument(metavar="W-or-CORPUS")],
    out: Annotated[
        str | None,
        Option(metavar="PAGE.html", help="write a page with tables and plots, .html or .xlsx"),
    ] = None,
    audio: Annotated[
        bool, Option("--audio/--no-audio", help="clips of some segments in the .html page")
    ] = True,
    base: Annotated[
        str | None,
        Option(metavar="EARLIER", help="compare with it; default: the base beside a corpus"),
    ] = None,
    timeout: common.Timeout = None,
    tries: common.Tries = None,
    max_wait: common.MaxWait = None,
    max_size: common.MaxSize = None,
    as_json: common.AsJson = None,
) -> None:
    """Report hours, speakers, durations, similarity and splits of a workspace or corpus."""


@common.command(
    "audit hf://datasets/OWNER/NAME --avoid test.csv --out audit.html", panel=CommandPanel.INSPECT
)
def audit(
    target: Annotated[
        str, Argument(metavar="TARGET", help="a workspace, a corpus or a dataset, or its URL")
    ],
    avoid: Annotated[
        list[str] | None,
        Option(metavar="OTHER", help="test set that training must not share; repeat for more"),
    ] = None,
    out: Annotated[
        str | None, Option(metavar="PAGE.html", help="write a page with all findings")
    ] = None,
    config: Annotated[
        str | None,
        Option(metavar="NAME", help="configuration of a dataset; default: the first of its card"),
    ] = None,
    columns: Annotated[
        list[str] | None,
        Option(
            "--column",
            metavar="FIELD=NAME",
            help="column of a field, such as text=sentence; repeat for more",
        ),
    ] = None,
    limits: Annotated[
        list[str] | None,
        Option(
            "--limit",
            metavar='"CHECK=SHARE"',
            help='largest share that is no finding, such as "odd characters=0.05"',
        ),
    ] = None,
    max_duration: Annotated[
        float, Option(min=0, help="seconds of the longest clip that a model takes")
    ] = 30.0,
    audio: Annotated[
        int, Option(min=0, metavar="N", help="clips to draw, fetch and decode for further checks")
    ] = 0,
    timeout: common.Timeout = None,
    tries: common.Tries = None,
    max_wait: common.MaxWait = None,
    max_size: common.MaxSize = None,
    as_json: common.AsJson = None,
) -> common.Options:
    """Check splits, texts, durations, licenses and counts of any corpus, without its audio."""
    return {
        "columns": dict(_pairs_of(columns, "column")),
        "limits": {name: _share(text) for name, text in _pairs_of(limits, "limit")},
    }


@common.command(
    "review export W --out sheet.xlsx --n 1000 --reviewers ana,ben --overlap 100",
    group=review_app,
)
def export_(
    workspace: common.Workspace,
    out: Annotated[
        str | None,
        Option(
            help=(
                "sheet (.xlsx, .csv, .tsv) to write, with clips beside it, or page for a browser "
                "(.html); a folder if reviewers have formats"
            )
        ),
    ] = None,
    n: Annotated[
        int | None,
        Option(
            min=1, help="number of clips; default: a tenth of those not drawn yet, at most 1000"
        ),
    ] = None,
    strategy: Annotated[str, Option(help=_STRATEGIES)] = "random",
    threshold: Annotated[
        float, Option(help="similarity that stratified and near use, -1 to 1")
    ] = 0.8,
    seed: common.Seed = 42,
    reviewers: Annotated[
        str,
        Option(
            metavar="ANA,BEN",
            parser=_names,
            help="write a sheet or page for each of them; with formats: ana=xlsx,ben=html",
        ),
    ] = "",
    overlap: Annotated[int, Option(min=0, help="number of clips that all reviewers get")] = 0,
    verdicts: Annotated[str | None, Option(metavar="<str>", parser=_names, help=_VERDICTS)] = None,
    clips: Annotated[
        str | None, Option(help="format of clips: wav (default for sheets) or mp3 (for pages)")
    ] = None,
    zip: Annotated[
        bool, Option("--zip", help="pack each sheet or page with its clips into a .zip")
    ] = False,
    blind: Annotated[
        bool | None,
        Option("--blind/--no-blind", help="hide hypothesis and similarity; default: blind"),
    ] = None,
    by: Annotated[
        str,
        Option(metavar="COLUMN", help="groups that get bounds of their own, such as speaker_id"),
    ] = "",
    planted: Annotated[
        int,
        Option(min=0, help="number of wrong labels to mix in, which measure reviewers"),
    ] = 0,
    adjudicator: Annotated[
        str | None,
        Option(
            metavar="CY", help="who decides what is undecided: a file with these segments for them"
        ),
    ] = None,
    undo: Annotated[
        str | None,
        Option(
            metavar="ROUND",
            help="take back a round of which nothing was judged, in place of a draw",
        ),
    ] = None,
    timeout: common.Timeout = None,
    tries: common.Tries = None,
    max_wait: common.MaxWait = None,
    max_size: common.MaxSize = None,
    as_json: common.AsJson = None,
) -> None:
    """Draw a sample for review into spreadsheets or pages with clips.

    Drawn segments stay out of training, unless the round is taken back (--undo).
    """


@common.command("review import W sheet-ana.xlsx page-ben-verdicts.json", group=review_app)
def import_(
    workspace: common.Workspace,
    sheets: Annotated[
        list[str],
        Argument(
            metavar="SHEET...", help=".xlsx, .ods, .csv, .tsv; .json of pages; or folders of them"
        ),
    ],
    reviewer: Annotated[
        str | None, Option(help="name of the reviewer; default: the name in each sheet")
    ] = None,
    adjudicator: Annotated[
        str | None, Option(help="reviewer who has the last word where others disagree")
    ] = None,
    verdict_map: Annotated[
        list[str] | None,
        Option("--map", metavar="WORD=VERDICT", help="a word for a verdict: dobro=ok; repeat"),
    ] = None,
    as_json: common.AsJson = None,
) -> common.Options:
    """Import verdicts and corrected texts from sheets and pages.

    List unusable rows and report annotator agreement.
    """
    from nbaudio.runs.parameters import split_settings

    verdicts = split_settings(verdict_map or [], what="--map", example="dobro=ok")
    return {"verdict_map": verdicts}


@common.command("review correct-bounds W", group=review_app)
def correct_bounds(workspace: common.Workspace, as_json: common.AsJson = None) -> None:
    """Apply bounds that reviewers corrected to the segments table."""


@common.command("review correct-texts W", group=review_app)
def correct_texts(workspace: common.Workspace, as_json: common.AsJson = None) -> None:
    """Apply texts that reviewers corrected to the segments table; review import does it too."""


@common.command("evidence W --precision 0.98 --confidence 0.95", panel=CommandPanel.REVIEW)
def evidence(
    workspace: common.Workspace,
    precision: Annotated[
        float, Option(help="target share of right segments, between 0 and 1")
    ] = 0.98,
    confidence: Annotated[float, Option(help="confidence of the proof, between 0 and 1")] = 0.95,
    as_json: common.AsJson = None,
) -> None:
    """Report how right the shipped clips are, as far as reviews prove it, and what to review."""


@common.command(
    "select W --min-similarity 0.8 --hours 200 --dev 2000 --test 2000",
    panel=CommandPanel.MAKE,
)
def select(
    workspace: common.Workspace,
    min_similarity: Annotated[
        float | None, Option(help="-1 to 1; default: the one chosen in the tuner, else 0.8")
    ] = None,
    max_duration: Annotated[float, Option(help="seconds; longer segments are rejected")] = 20.0,
    min_duration: Annotated[float, Option(help="seconds; shorter segments are rejected")] = 0.0,
    where: Annotated[
        list[str] | None,
        Option(metavar="EXPR", help="SQL condition, such as 'wer_large < 0.2'; repeat"),
    ] = None,
    splits: Annotated[
        str | None,
        Option(metavar="source|FILE|CORPUS", help="keep splits: of source, table or corpus"),
    ] = None,
    hours: Annotated[
        float | None, Option(help="budget of the corpus in hours, spread over all speakers")
    ] = None,
    disk: Annotated[
        str | None,
        Option(metavar="900GB", help="budget of the corpus in bytes, spread over all speakers"),
    ] = None,
    dev: Annotated[str | None, Option(metavar="2000|1.5h", parser=_size, help=_SIZES)] = None,
    test: Annotated[
        str | None, Option(metavar="2000|1.5h", parser=_size, help="like --dev")
    ] = None,
    group_by: Annotated[str, Option(metavar="speaker_id,recording_id", help=_GROUPS)] = "auto",
    seed: common.Seed = 42,
    gold: Annotated[
        bool, Option("--gold", help="fill test with segments that reviewers judged right")
    ] = False,
    look_alikes: Annotated[
        str,
        Option(
            metavar="together|apart",
            help="speakers whose ids differ in case, blanks, accents: one person, or several",
        ),
    ] = "together",
    near_held_out: Annotated[
        float,
        Option(
            metavar="0.9..1",
            help="similarity to a sentence of dev or test that keeps a segment out of train; "
            "1 keeps none out",
        ),
    ] = 0.95,
    avoid: Annotated[
        list[str] | None,
        Option(
            metavar="OTHER",
            help="corpus, dataset, manifest, table or text file, or URL, whose sentences and audio "
            "stay out of train: its held-out splits, or OTHER:train, OTHER:all; repeat",
        ),
    ] = None,
    avoid_by: Annotated[
        str,
        Option(metavar="speaker_id,recording_id", help="ids of OTHER that stay out of train, too"),
    ] = "",
    timeout: common.Timeout = None,
    tries: common.Tries = None,
    max_wait: common.MaxWait = None,
    max_size: common.MaxSize = None,
    as_json: common.AsJson = None,
) -> None:
    """Decide which segments are kept: filters, budget, train, dev and test without leakage."""


@common.command(
    "materialize W --out CORPUS --container parquet --rate 16000 --channel mix --jobs 2",
    panel=CommandPanel.MAKE,
)
def materialize(
    workspace: common.Workspace,
    out: Annotated[str, Option(help="folder or URL of the corpus: new, or one to resume")],
    base: Annotated[
        str | None,
        Option(metavar="CORPUS", help="earlier version: keep its unchanged shards and parameters"),
    ] = None,
    container: Annotated[
        str | None, Option(help=f"default: webdataset; {common.CONTAINERS}")
    ] = None,
    text: Annotated[
        str | None,
        Option(metavar="NAME", help="ship text_NAME as text, such as normalized; see score"),
    ] = None,
    rate: Annotated[
        int | None, Option(min=1, help="sampling rate of the clips in Hz; default: 16000")
    ] = None,
    channel: Annotated[
        str | None,
        Option(help="mix (default), left, right or a number from 0; the source's comes first"),
    ] = None,
    encoding: Annotated[
        str | None, Option(help="flac (default), wav, opus, mp3, or 256 levels: mulaw, linear")
    ] = None,
    shard_size: Annotated[str | None, Option(help="target size of a shard; default: 500MB")] = None,
    shard_count: common.ShardCount = None,
    window: Annotated[
        int | None, Option(min=1, help="consecutive segments to store together; default: 1")
    ] = None,
    signals: Annotated[
        bool, Option("--signals", help="measure the segments in the same pass; see measure")
    ] = False,
    title: Annotated[str | None, Option(help="name of the corpus in its data card")] = None,
    language: Annotated[
        str | None,
        Option(metavar="hr", help="language codes for the data card, separated by commas"),
    ] = None,
    license: Annotated[
        str | None, Option(metavar="cc-by-4.0", help="license for the data card")
    ] = None,
    packs: Annotated[
        str | None, Option(help="folder or URL for packs of cut clips; default: W/packs")
    ] = None,
    jobs: common.Jobs = None,
    engine: common.Engine = None,
    address: common.Address = None,
    beam_options: common.BeamOptions = None,
    timeout: common.Timeout = None,
    tries: common.Tries = None,
    max_wait: common.MaxWait = None,
    max_size: common.MaxSize = None,
    as_json: common.AsJson = None,
) -> None:
    """Cut every accepted segment and write the corpus; run it again after a kill to resume."""


@common.command("status CORPUS", panel=CommandPanel.MAKE)
def status(
    corpus: Annotated[str, Argument(metavar="CORPUS", help="folder or URL of the corpus")],
    workspace: Annotated[
        str | None, Option(metavar="W", help="its workspace, for a corpus at a URL")
    ] = None,
    timeout: common.Timeout = None,
    tries: common.Tries = None,
    max_wait: common.MaxWait = None,
    max_size: common.MaxSize = None,
    as_json: common.AsJson = None,
) -> None:
    """Show the progress of a corpus.

    Stage, rate, time left, failures, whether a run is active, and what to do next.
    """


@common.command(
    "convert CORPUS --container tfrecord --out OTHER --shard-count 64", panel=CommandPanel.MAKE
)
def convert(
    corpus: Annotated[str, Argument(metavar="CORPUS", help="folder of a finished corpus")],
    container: Annotated[str, Option(help=common.CONTAINERS)],
    out: Annotated[str, Option(help="folder of the new corpus: new, or one to resume")],
    shard_size: Annotated[str, Option(help="target size of a shard, such as 500MB")] = "500MB",
    shard_count: common.ShardCount = None,
    window: Annotated[
        int,
        Option(
            min=1, help="consecutive segments of a recording to store together, for reading windows"
        ),
    ] = 1,
    jobs: common.Jobs = None,
    engine: Annotated[
        str,
        Option(
            help="where tasks run: loky, threading, dask, ray, spark or beam",
            rich_help_panel=OptionPanel.PARALLEL,
        ),
    ] = "threading",
    as_json: common.AsJson = None,
) -> None:
    """Rewrite a corpus in another container or in other shards; audio is copied, not decoded."""


@common.command("export nemo W --out manifests", panel=CommandPanel.MAKE)
def export(
    format: Annotated[str, Argument(metavar="FORMAT", help="nemo, lhotse or kaldi")],
    workspace: common.Workspace,
    out: Annotated[
        str, Option(help="folder for the manifests: new, or an earlier export, which is replaced")
    ],
    paths: Annotated[
        str, Option(help="paths of the recordings: absolute, or relative to the manifests")
    ] = "absolute",
    as_json: common.AsJson = None,
) -> None:
    """Write manifests of accepted segments for toolkits that read the recordings themselves."""


@common.command("wheel --out dist", panel=CommandPanel.MAKE)
def wheel(
    out: Annotated[str, Option(help="folder for the wheel")] = "dist", as_json: common.AsJson = None
) -> None:
    """Write a wheel of the running nbaudio and the requirements of the workers of a cluster."""


@common.command("verify CORPUS", panel=CommandPanel.KEEP)
def verify(
    corpus: Annotated[str, Argument(metavar="CORPUS", help="folder or URL of the corpus")],
    workspace: Annotated[
        str | None, Option(metavar="W", help="store the report in this workspace")
    ] = None,
    jobs: common.Jobs = None,
    engine: common.Engine = None,
    address: common.Address = None,
    beam_options: common.BeamOptions = None,
    timeout: common.Timeout = None,
    tries: common.Tries = None,
    max_wait: common.MaxWait = None,
    max_size: common.MaxSize = None,
    as_json: common.AsJson = None,
) -> None:
    """Verify a corpus: every shard by its checksum, every clip by decoding it."""


@common.command("diff CORPUS-1 CORPUS-2", panel=CommandPanel.KEEP)
def diff(
    a: Annotated[str, Argument(metavar="A", help="the earlier corpus or workspace, folder or URL")],
    b: Annotated[str, Argument(metavar="B", help="the later one")],
    timeout: common.Timeout = None,
    tries: common.Tries = None,
    max_wait: common.MaxWait = None,
    max_size: common.MaxSize = None,
    as_json: common.AsJson = None,
) -> None:
    """Compare two versions: segments, hours, speakers and shards, and what is proven of each."""


@common.command("withdraw W --speaker ana --why 'consent withdrawn'", panel=CommandPanel.KEEP)
def withdraw(
    workspace: common.Workspace,
    why: Annotated[
        str, Option(help="the reason, without personal data; later versions of corpora state it")
    ],
    speaker: Annotated[
        list[str] | None, Option(metavar="ID", help="a speaker; repeat for more")
    ] = None,
    recording: Annotated[
        list[str] | None, Option(metavar="ID", help="a recording; repeat for more")
    ] = None,
    segments: Annotated[
        str | None, Option(metavar="FILE", help="an id in each line, or a table with segment_id")
    ] = None,
    as_json: common.AsJson = None,
) -> None:
    """Remove speakers, recordings or segments from a workspace for good.

    Materialize --base removes them from the corpus.
    """


@common.command(
    "publish CORPUS hf://datasets/OWNER/NAME --private --consent 'signed consent forms'",
    panel=CommandPanel.KEEP,
)
def publish(
    corpus: Annotated[str, Argument(metavar="CORPUS", help="folder of a finished corpus")],
    url: Annotated[
        str, Argument(metavar="hf://datasets/OWNER/NAME", help="dataset on the Hugging Face Hub")
    ],
    consent: Annotated[
        str | None, Option(metavar="TEXT", help="on which basis these recordings may be published")
    ] = None,
    private: Annotated[
        bool, Option("--private", help="create a dataset that others cannot read")
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="report what would be uploaded and removed")
    ] = False,
    timeout: common.Timeout = None,
    tries: common.Tries = None,
    max_wait: common.MaxWait = None,
    max_size: common.MaxSize = None,
    as_json: common.AsJson = None,
) -> None:
    """Upload a corpus, only what changed, to the Hugging Face Hub.

    Run it again after a kill to resume.
    """
