"""One table of what nbaudio takes against other ways of doing the same, all in one run.

    make bench
    python benchmarks/bench.py [--only NAME ...] [--print] [--turns N] [--folder DIR]

Each comparison lets nbaudio and its references take turns, as a machine's speed changes from one
moment to the next. A figure is the median of the turns. The ratio is how many times as fast as the
reference nbaudio is: the median, least and greatest ratio of the turns. The other scripts of this
folder make the recordings and run the contenders, and their docstrings say what these do.

The table replaces what is between two comments in docs/benchmarks.md. With `--only` it has the rows
of these comparisons alone. With `--print` it is printed and not written. A comparison whose package
or program is not installed has a row that names it. Exit code 1 where a comparison failed.
"""

import argparse
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import cut
import cutting
import librispeech
import numpy as np
import signals
import stream
from convert import make_corpus
from stream_readers import LINES, READERS

from nbaudio import __version__

TOP = Path(__file__).resolve().parents[1]
PAGE = TOP / "docs/benchmarks.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
PROGRAMS = ("curl", "ffmpeg")  # every other name in `needs` is a package
JOBS = 2
CLIP_SHARE = 0.9  # of the recordings of benchmarks/cut.py
MOST_ENCODED_HOURS = 2.6  # further recordings are copies: to encode MP3 takes longer than to cut
CUTTING_SCALE = 0.5  # of the recordings of benchmarks/cutting.py
STREAM_CLIPS, STREAM_CLIP_S = 3000, 6.0
INGEST_FILES = 5000


@dataclass(frozen=True)
class Contender:
    """One side of a comparison.

    Attributes:
        name: in the table.
        run: does the work once; returns its figure in the unit of the comparison.
        needs: packages and programs.
    """

    name: str
    run: Callable[[], float]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """nbaudio against references, in one unit.

    Attributes:
        measured: what all contenders do.
        unit: `s`, or a rate that ends in `/s`.
        contenders: makes in an empty folder, or one that earlier comparisons have filled, what
            the contenders read; returns these, nbaudio first.
        turns: how many times each contender runs.
        needs: packages and programs without which there is nothing to read.
    """

    measured: str
    unit: str
    contenders: Callable[[Path], Sequence[Contender]]
    turns: int = 5
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One line of the table: nbaudio against one reference.

    Attributes:
        ratios: of each turn, how many times as fast as the reference nbaudio was.
    """

    comparison: str
    measured: str
    unit: str
    nbaudio: float
    reference: str
    reference_figure: float
    ratios: tuple[float, ...]

    def __str__(self) -> str:
        ratio = f"**{median(self.ratios):.2f}** ({min(self.ratios):.2f}–{max(self.ratios):.2f})"
        figures = f"{self._figure(self.nbaudio)} | {self.reference} | "
        figures += self._figure(self.reference_figure)
        return f"| `{self.comparison}` | {self.measured} | {figures} | {ratio} |"

    def _figure(self, figure: float) -> str:
        decimals = max(0, 2 - max(0, int(math.log10(figure))))
        return f"{figure:,.{decimals}f} {self.unit}"


@dataclass(frozen=True)
class MissingRow:
    """A line of the table without figures, with the reason."""

    comparison: str
    measured: str
    reference: str
    reason: str

    def __str__(self) -> str:
        return (
            f"| `{self.comparison}` | {self.measured} | | {self.reference} | "
            f"not run: {self.reason} | |"
        )


# --- cutting


@cache
def demo_speech() -> np.ndarray:
    """The speech that recordings are made of."""
    return cut.demo_speech()


def cut_workspace(folder: Path, kind: str, clip_hours: float) -> Path:
    """A workspace of recordings with so many hours of selected segments, made once."""
    recordings = 6
    if clip_hours > 1:
        recordings = 12 * math.ceil(clip_hours / MOST_ENCODED_HOURS)
    return cut.make_workspace(
        folder / f"cut {clip_hours:g} {kind}",
        demo_speech(),
        kind,
        hours=clip_hours / CLIP_SHARE,
        recordings=recordings,
        encoded=12,
    )


def cut_seconds(name: str, workspace: Path, out: Path) -> float:
    """Seconds of a contender of benchmarks/cut.py."""
    return cut.measure(name, workspace, out, JOBS)["wall"]


def cutters(
    folder: Path, *, kind: str, clip_hours: float, references: Sequence[str]
) -> list[Contender]:
    """`materialize` against other ways to make the same clips, by their names in `cut`."""
    workspace = cut_workspace(folder, kind, clip_hours)
    return [
        Contender(name, partial(cut_seconds, name, workspace, folder / "out"))
        for name in ("nbaudio", *references)
    ]


def entrant_seconds(name: str, manifest: Path, out: Path) -> float:
    """Seconds of an entrant of benchmarks/cutting.py."""
    return cutting.run(name, manifest, out, JOBS)["wall"]


def entrants(folder: Path) -> list[Contender]:
    """Exact windows at the recording's own rate, of seven kinds of recordings."""
    manifest = cutting.make(folder / "cutting", CUTTING_SCALE)
    needs = {"lhotse": ("lhotse",)}
    return [
        Contender(
            name, partial(entrant_seconds, name, manifest, folder / "out"), needs.get(name, ())
        )
        for name in ("nbaudio", "soundfile", "lhotse")
    ]


def signals_seconds(name: str, workspace: Path, out: Path) -> float:
    """Seconds of a contender of benchmarks/signals.py."""
    return signals.seconds(name, workspace, out, JOBS)[0]


def measurers(folder: Path) -> list[Contender]:
    """`measure` against a loop that decodes every window and computes nothing."""
    workspace = cut_workspace(folder, "mp3", 0.5)
    names = {"nbaudio": "measure", "soundfile, decoding alone": "decode"}
    return [
        Contender(label, partial(signals_seconds, name, workspace, folder / "out"))
        for label, name in names.items()
    ]


# --- reading


def stream_corpus(folder: Path, container: str) -> Path:
    """The corpus that is read, in a container; each is made once."""
    folder = folder / "stream"
    corpus = folder / "corpus"
    if not corpus.exists():
        folder.mkdir()
        make_corpus(folder, STREAM_CLIPS, STREAM_CLIP_S, JOBS)
        stream.note_places(corpus)
    if container == "webdataset":
        return corpus
    if not (folder / container).exists():
        stream.make(folder, container, corpus)
    return folder / container


def clips_per_second(reader: str, line: str, corpus: Path) -> float:
    """Clips per second of a reader of benchmarks/stream.py that reads all clips once."""
    with stream.served(corpus, LINES[line]) as where:
        figures = stream.measured(reader, where, corpus, JOBS)
    if figures["count"] != STREAM_CLIPS:
        raise RuntimeError(f"{reader} read {figures['count']:,} of {STREAM_CLIPS:,} clips")
    return figures["rate"]


def readers(
    folder: Path, *, line: str, references: Sequence[str], container: str = "webdataset"
) -> list[Contender]:
    """A stream of nbaudio against other readers, by their names in `stream_readers`."""
    contenders = []
    for name in (f"nbaudio, {container}", *references):
        reader = READERS[name]
        needs = tuple(stream.absent(reader))
        if name.startswith(("webdataset", "lhotse")) and line != "local":
            needs += ("curl",)
        corpus = None if missing(needs) else stream_corpus(folder, reader.container)
        label = "nbaudio" if not contenders else name.removeprefix("floor: ")
        contenders.append(Contender(label, partial(clips_per_second, name, line, corpus), needs))
    return contenders


# --- ingest and the demo


def files_per_second(work: str, folder: Path) -> float:
    """Files per second of a work of benchmarks/librispeech.py, without an earlier workspace."""
    shutil.rmtree(folder / "W", ignore_errors=True)
    figures = librispeech.measured(work, folder)
    return figures["files"] / figures["seconds"]


def ingesters(folder: Path) -> list[Contender]:
    """`ingest` of a tree of small files against opening each with soundfile."""
    place = folder / "librispeech"
    place.mkdir()
    librispeech.make_up(place, INGEST_FILES, chapter=100)
    works = {"nbaudio": "ingest of a folder", "soundfile, opening alone": "soundfile"}
    return [
        Contender(label, partial(files_per_second, work, place)) for label, work in works.items()
    ]


def command_seconds(words: Sequence[str | Path]) -> float:
    """Seconds of a Python module that runs as a program at the top of the checkout."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=TOP, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{words[0]} failed:\n{done.stderr[-2000:]}")
    return time.perf_counter() - began


def demo_seconds(out: Path) -> float:
    """Seconds of `nbaudio demo`: eight notebooks and their pages."""
    shutil.rmtree(out, ignore_errors=True)
    return command_seconds(["nbaudio", "demo", "--out", out])


def papermill_seconds(out: Path) -> float:
    """Seconds of plain papermill, one call for each notebook of the demo; no pages."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    folders = ["-p", "workspace", out / "workspace", "-p", "corpus", out / "corpus"]
    manifest = ["-f", "data_manifests/demo.yaml", "--no-progress-bar"]
    return sum(
        command_seconds(["papermill", notebook, out / notebook.name, *manifest, *folders])
        for notebook in sorted((TOP / "notebooks").glob("*.ipynb"))
    )


def demos(folder: Path) -> list[Contender]:
    """The bundled demo against plain papermill on the same notebooks."""
    return [
        Contender("nbaudio", partial(demo_seconds, folder / "demo")),
        Contender("papermill, notebook by notebook", partial(papermill_seconds, folder / "mill")),
    ]


# --- the list


def cut_comparison(
    kind: str, clip_hours: float, references: Sequence[str] = ("bare loop",), turns: int = 5
) -> Comparison:
    """Clips of 48 kHz stereo recordings as 16 kHz mono FLAC in shards, against other ways."""
    contenders = partial(cutters, kind=kind, clip_hours=clip_hours, references=references)
    measured = f"cut {clip_hours:g} hours from 48 kHz {kind.upper()}"
    return Comparison(measured, "s", contenders, turns, ("ffmpeg",))


STREAM_REFERENCES = ("floor: prototype", "webdataset", "lhotse Shar")
COMPARISONS = {
    "cut-0.1h-mp3": cut_comparison("mp3", 0.1),
    "cut-0.1h-flac": cut_comparison("flac", 0.1),
    "cut-0.5h-mp3": cut_comparison("mp3", 0.5),
    "cut-0.5h-flac": cut_comparison("flac", 0.5),
    "cut-2.6h-mp3": cut_comparison("mp3", 2.6, turns=3),
    "cut-2.6h-flac": cut_comparison("flac", 2.6, turns=3),
    "cut-20h-mp3": cut_comparison("mp3", 20, turns=1),
    "cut-others": cut_comparison("mp3", 0.5, ("pydub", "ffmpeg"), turns=1),
    "cut-files": Comparison(
        "cut recordings of 1.2 hours in seven kinds, one file per clip",
        "s",
        entrants,
        3,
        ("ffmpeg",),
    ),
    "measure": Comparison(
        "all signals of 0.5 hours of 48 kHz MP3", "s", measurers, needs=("ffmpeg",)
    ),
    "stream-local": Comparison(
        "stream local shards",
        "clips/s",
        partial(readers, line="local", references=STREAM_REFERENCES),
    ),
    "stream-local-others": Comparison(
        "stream local shards",
        "clips/s",
        partial(
            readers,
            line="local",
            references=("floor: soundfile from memory", "datasets, parquet"),
        ),
        turns=1,
    ),
    "stream-40ms": Comparison(
        "stream over a line of 40 ms",
        "clips/s",
        partial(readers, line="40ms", references=STREAM_REFERENCES),
    ),
    **{
        f"stream-40ms-{container}": Comparison(
            f"stream {container} over 40 ms",
            "clips/s",
            partial(readers, line="40ms", references=("floor: prototype",), container=container),
        )
        for container in ("parquet", "zip")
    },
    "ingest-files": Comparison(
        f"ingest a LibriSpeech tree of {INGEST_FILES:,} files", "files/s", ingesters
    ),
    "demo": Comparison("the demo's eight notebooks", "s", demos, turns=3),
}


# --- running


def missing(needs: Sequence[str]) -> list[str]:
    """Return the packages and programs that are not installed."""
    return [
        name
        for name in needs
        if (shutil.which(name) if name in PROGRAMS else find_spec(name.partition(".")[0])) is None
    ]


def take_turns(contenders: Sequence[Contender], turns: int) -> list[list[float]]:
    """Run all contenders one after the other, `turns` times; return the figures of each."""
    figures: list[list[float]] = [[] for _ in contenders]
    for _ in range(turns):
        for contender, figures_of_contender in zip(contenders, figures, strict=True):
            figures_of_contender.append(contender.run())
    return figures


def compare(name: str, folder: Path, turns: int | None = None) -> list[Row | MissingRow]:
    """Run a comparison; return a row for each reference.

    Raises:
        Exception, SystemExit: a contender failed.
    """
    comparison = COMPARISONS[name]
    contenders: Sequence[Contender] = ()
    absent = missing(comparison.needs)
    if not absent:
        contenders = comparison.contenders(folder)
        absent = missing(contenders[0].needs)  # of nbaudio
    if absent:
        return [MissingRow(name, comparison.measured, "all", f"needs {', '.join(absent)}")]
    present = [contender for contender in contenders if not missing(contender.needs)]
    figures, *reference_figures = take_turns(present, turns or comparison.turns)
    rows: list[Row | MissingRow] = [
        row_of(name, figures, reference.name, its_figures)
        for reference, its_figures in zip(present[1:], reference_figures, strict=True)
    ]
    for reference in contenders:
        if absent := missing(reference.needs):
            reason = f"needs {', '.join(absent)}"
            rows.append(MissingRow(name, comparison.measured, reference.name, reason))
    return rows


def row_of(
    name: str, figures: Sequence[float], reference: str, reference_figures: Sequence[float]
) -> Row:
    """Return the row of a comparison and one reference, from the figures of their turns."""
    comparison = COMPARISONS[name]
    ratios = []
    for figure, reference_figure in zip(figures, reference_figures, strict=True):
        if comparison.unit == "s":
            ratios.append(reference_figure / figure)
        else:
            ratios.append(figure / reference_figure)
    return Row(
        comparison=name,
        measured=comparison.measured,
        unit=comparison.unit,
        nbaudio=median(figures),
        reference=reference,
        reference_figure=median(reference_figures),
        ratios=tuple(ratios),
    )


def compare_all(names: Sequence[str], turns: int | None, folder: Path) -> list[Row | MissingRow]:
    """Run comparisons and print their rows; one that fails has a row that says so."""
    rows: list[Row | MissingRow] = []
    for name in names:
        try:
            rows_of_comparison = compare(name, folder, turns)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the others run all the same
            print(f"{name}: {error}", file=sys.stderr)
            rows_of_comparison = [MissingRow(name, COMPARISONS[name].measured, "all", "failed")]
        for row in rows_of_comparison:
            print(row, flush=True)
        rows += rows_of_comparison
    return rows


# --- the table


def processor() -> str:
    """Return the name of the processor's model."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def heading(turns: int | None) -> str:
    """Return a line with machine, versions and date, and the head of the table."""
    machine = f"{processor()}, {os.cpu_count()} cores"
    versions = f"Python {platform.python_version()}, nbaudio {__version__}"
    date = datetime.now(UTC).date().isoformat()
    columns = ("comparison", "what", "nbaudio", "reference", "its figure", "times as fast")
    fixed_turns = f", turns: {turns}" if turns else ""
    table_head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
    return f"{machine}, {versions}, {date}{fixed_turns}:\n\n{table_head}"


def lines_of(rows: Sequence[Row | MissingRow]) -> list[str]:
    """Return the lines of the table; the cells before the reference are in the first of each."""
    lines = []
    comparison = ""
    for row in rows:
        line = str(row)
        if row.comparison == comparison:
            *_, reference = line.split("|", 4)
            line = f"| | | |{reference}"
        comparison = row.comparison
        lines.append(line)
    return lines


def insert_table(page: str, table: str) -> str:
    """Return a page with what is between the two comments replaced.

    Raises:
        ValueError: the page has not each comment once, in this order.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end) or BEGIN in rest or END in before + after:
        raise ValueError(f"the page needs {BEGIN} and, after it, {END}, once each")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def main() -> int:
    """Run the comparisons, print their table and write it into the page."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--only", nargs="+", choices=COMPARISONS, metavar="NAME")
    options.add_argument("--print", action="store_true", dest="print_only")
    options.add_argument("--turns", type=int, help="of every comparison; by default 1 to 5")
    options.add_argument(
        "--folder", type=Path, help="where to work; a temporary folder unless given"
    )
    asked = options.parse_args()
    if asked.folder is not None:
        asked.folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    table_heading = heading(asked.turns)
    print(table_heading, flush=True)
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        rows = compare_all(asked.only or list(COMPARISONS), asked.turns, Path(folder))
    print(f"\n{(time.monotonic() - began) / 60:.1f} minutes in all", flush=True)
    if not asked.print_only:
        table = "\n".join((table_heading, *lines_of(rows)))
        page = PAGE.read_text(encoding="utf8")
        PAGE.write_text(insert_table(page, table), encoding="utf8")
    return int(any(isinstance(row, MissingRow) and row.reason == "failed" for row in rows))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
