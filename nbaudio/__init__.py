"""Long recordings, their transcripts and a recognizer's hypotheses into a training corpus whose label quality is known.

Every step is a function of the name of its command, tables in and tables out:

    ingest -> score -> review.export -> evidence -> select -> materialize -> verify

and `open_corpus` reads back what came of it. Names are imported when they are first used (SPEC 1, PEP 562).
"""

from typing import TYPE_CHECKING

from nbaudio import _allocator as _allocator  # first: polars looks at the environment once
from nbaudio import _lazy
from nbaudio.version import __version__ as __version__

if TYPE_CHECKING:
    from nbaudio import review as review
    from nbaudio.corpus.asking import status as status
    from nbaudio.corpus.converting import convert as convert
    from nbaudio.corpus.making import materialize as materialize
    from nbaudio.corpus.verifying import verify as verify
    from nbaudio.downloads import download as download
    from nbaudio.errors import NbaudioError as NbaudioError
    from nbaudio.exports import export as export
    from nbaudio.proof.evidence import evidence as evidence
    from nbaudio.reading import clip as clip
    from nbaudio.reading import open_corpus as open_corpus
    from nbaudio.report import Report as Report
    from nbaudio.runs import demo as demo
    from nbaudio.runs import run as run
    from nbaudio.selection.select import select as select
    from nbaudio.sources.ingest import ingest as ingest
    from nbaudio.statistics.stats import stats as stats
    from nbaudio.text import score as score
    from nbaudio.wheels import wheel as wheel
    from nbaudio.workspace import Workspace as Workspace

__getattr__, __dir__, __all__ = _lazy.attach(
    __name__,
    {
        "clip": "nbaudio.reading",
        "convert": "nbaudio.corpus.converting",
        "demo": "nbaudio.runs",
        "download": "nbaudio.downloads",
        "evidence": "nbaudio.proof.evidence",
        "export": "nbaudio.exports",
        "ingest": "nbaudio.sources.ingest",
        "materialize": "nbaudio.corpus.making",
        "NbaudioError": "nbaudio.errors",
        "open_corpus": "nbaudio.reading",
        "Report": "nbaudio.report",
        "review": "nbaudio.review",
        "run": "nbaudio.runs",
        "score": "nbaudio.text",
        "select": "nbaudio.selection.select",
        "stats": "nbaudio.statistics.stats",
        "status": "nbaudio.corpus.asking",
        "verify": "nbaudio.corpus.verifying",
        "wheel": "nbaudio.wheels",
        "Workspace": "nbaudio.workspace",
        "__version__": "nbaudio.version",
    },
)
