"""Long recordings, their transcripts and a recogniser's hypotheses into a training corpus whose label quality is known.

Every step is a function of the name of its command, tables in and tables out:

    ingest -> score -> review.export -> evidence -> select -> materialize -> verify

and `open_corpus` reads back what came of it.
"""

from nbaudio import _allocator as _allocator  # first: polars looks at the environment once
from nbaudio import review
from nbaudio.corpus import convert, materialize, status, verify
from nbaudio.downloads import download
from nbaudio.errors import NbaudioError
from nbaudio.evidence import evidence
from nbaudio.exports import export
from nbaudio.ingest import ingest
from nbaudio.reading import clip, open_corpus
from nbaudio.report import Report
from nbaudio.runs import demo, run
from nbaudio.select import select
from nbaudio.stats import stats
from nbaudio.text import score
from nbaudio.version import __version__
from nbaudio.wheels import wheel
from nbaudio.workspace import Workspace

__all__ = [
    "NbaudioError",
    "Report",
    "Workspace",
    "__version__",
    "clip",
    "convert",
    "demo",
    "download",
    "evidence",
    "export",
    "ingest",
    "materialize",
    "open_corpus",
    "review",
    "run",
    "score",
    "select",
    "stats",
    "status",
    "verify",
    "wheel",
]
