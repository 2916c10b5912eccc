"""The demo's recording with minutes that are not cut: how `align` covers it."""

from pathlib import Path

from nbaudio.core.report import Report
from nbaudio.sources.align import align


def align_example(
    minutes: str | Path | None, audio: str | Path | None, out: str | Path
) -> Report | None:
    """Align the minutes of a recording with its words, into a workspace of their own.

    Args:
        minutes: a folder with ``hypotheses``, words with times, and ``documents``, the minutes;
            None: there is none, as with your own data.
        audio: the folder of the recording.
        out: the workspace folder.

    Returns:
        The report of `align`; None if there are no minutes.

    Raises:
        InputError: the folder lacks a part.
    """
    if minutes is None:
        return None
    return align(
        Path(minutes) / "hypotheses",
        Path(minutes) / "documents",
        audio=audio,
        out=out,
        jobs=1,
        engine="threading",
        add=True,
        show_progress=False,
    )
