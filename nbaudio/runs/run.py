"""Run the notebooks in order with the parameters of a manifest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbaudio.core.report import Report
from nbaudio.core.tracebacks import interruptible
from nbaudio.runs.server_process import kernel_server


@interruptible
def run(
    manifest: str | Path,
    *,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    only: str | None = None,
) -> Report:
    """Run the notebooks in order with the parameters of a manifest, or on a folder or file of data.

    Run it again with the same `out` to resume: clips that have been cut are not cut again.

    Args:
        manifest: a YAML file, such as those in data_manifests. Or a folder or file of transcripts
            and recordings: then their format is found out, and ``manifest.yaml`` is written in
            `out` with what was assumed.
        out: the folder for everything; the manifest's name with ``-output``, in the current folder,
            unless given.
        settings: parameters that override those of the manifest.
        only: which notebooks, such as ``1-5`` or ``2,4-6``; all unless given.

    Returns:
        Paths of all outputs, the counts of each step, and the page to open, with the warnings and
        problems of the steps.

    Raises:
        InputError: the manifest cannot be read, a parameter is unknown or not allowed, a path does
            not exist, or the format of data cannot be found out.
        NbaudioError: a notebook failed; names the cell and its error. The notebook is kept up to
            that cell.
    """
    with kernel_server() as server:  # it imports while this process imports
        from nbaudio.runs.manifest_run import run_manifest

        return run_manifest(manifest, out=out, settings=settings or {}, only=only, server=server)
