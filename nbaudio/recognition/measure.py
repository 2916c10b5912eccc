"""The command `measure`: signals of the audio, or the values of a model, as columns."""

from pathlib import Path

from nbaudio.audio.channels import check_channel
from nbaudio.core.errors import InputError
from nbaudio.core.report import Report
from nbaudio.core.tracebacks import interruptible
from nbaudio.corpus.measure import measure as measure_signals
from nbaudio.engine import EngineLocation
from nbaudio.recognition.model_columns import SampleOptions, measure_columns
from nbaudio.recognition.model_tasks import Site
from nbaudio.recognition.recognizers import Function
from nbaudio.tables.workspace import Workspace


@interruptible
def measure(
    workspace: str | Path | Workspace,
    *,
    with_: str | Function | None = None,
    as_: str | None = None,
    batch: int | None = None,
    rate: int | None = None,
    channel: str = "mix",
    jobs: int | None = None,
    engine: str | None = "loky",
    address: str | None = None,
    beam_options: str = "",
    show_progress: bool = True,
) -> Report:
    """Measure all segments, selected or not, and write columns: signals, or a model's values.

    Without `with_`, the columns are those of `nbaudio.tables.schemas.SIGNALS`. Each recording is
    read once, in order, at its own rate.

    With it, they are `NAME`, or `NAME_field` for each field of a record. Columns of the source and
    of other steps stay. A column has one type: yes or no, whole numbers, numbers or words; NaN and
    infinite numbers become null. Values are kept in ``W/measured/NAME.jsonl`` as they come, by what
    the model gets and its version.

    Either way, values are the same for any number of jobs and any engine; after a kill or growth,
    the same call does the rest. docs/audio.md has formulas and recipes.

    Args:
        workspace: the workspace or its folder; with audio, unless a model gets none.
        with_: a callable, ``package.module:function``, or a command. A callable is called with
            lists that have an element for each clip of a batch, by the names of its parameters:
            `samples` (float32 arrays in [-1, 1]), `rates` or `rate` (Hz), `texts`, `ids`,
            `durations` (s), or any column of the segments table. A single parameter of another name
            gets the samples. It returns a number, bool, str, None, or a record of them (a dict,
            named tuple or dataclass) for each clip. Its attribute `units` is the unit, or units by
            field, and `rate` that of the samples. A command is run once for each task: it reads
            lines ``{"id": ..., "audio": "/tmp/0.wav", "duration_s": 3.2, "text": ...}``, without
            the audio where there is none, and writes lines ``{"id": ..., "value": ...}``, or with
            any fields in place of `value`. Versions are as in `recognize`.
        as_: NAME of the columns; by default that of the module or of the callable.
        batch: most clips in one call of a callable; by default 16, or 1,024 if it gets no samples.
        rate: of the samples for a model, in Hz; 0 is that of each recording; None is 16,000.
        channel: as in `materialize`, which should cut the same; a channel that a segment names
            takes precedence.
        jobs: number of parallel tasks; None means one per core, or with a model one.
        engine: as in `materialize`.
        address: as in `materialize`.
        beam_options: as in `materialize`.
        show_progress: show progress with rate and time left on standard error.

    Returns:
        Counts of segments, how fast they were measured, and how many are cut off or clipped, or
        the columns of the model; problems name those that failed.

    Raises:
        InputError: no audio, no such model, a name that is taken, values of two kinds in a column,
            or no segment can be measured.

    Examples:
        >>> import numpy, soundfile, tempfile
        >>> from nbaudio.sources.ingest import ingest
        >>> folder = tempfile.mkdtemp()
        >>> soundfile.write(f"{folder}/a.wav", 0.5 * numpy.sin(numpy.arange(16000) / 5), 16000)
        >>> _ = ingest("folder", folder, out=f"{folder}/w")
        >>> _ = measure(f"{folder}/w", show_progress=False)
        >>> Workspace.open(f"{folder}/w").segments["rms_dbfs"].to_list()
        [-9.03]
        >>> peaks = lambda samples: [float(clip.max()) for clip in samples]
        >>> _ = measure(f"{folder}/w", with_=peaks, as_="peak", show_progress=False)
        >>> Workspace.open(f"{folder}/w").segments["peak"].round(2).to_list()
        [0.5]
    """
    if with_ is None:
        options = {"as_": as_, "batch": batch, "rate": rate}
        if unused := [name for name, value in options.items() if value is not None]:
            raise InputError(f"{unused[0].rstrip('_')} is of a model; name one with --with")
        return measure_signals(
            workspace,
            channel=channel,
            jobs=jobs,
            engine=engine,
            address=address,
            beam_options=beam_options,
            show_progress=show_progress,
        )
    check_channel(channel)
    if batch is not None and batch < 1:
        raise InputError(f"batch must be 1 or more, not {batch}")
    return measure_columns(
        Workspace.open(workspace),
        with_,
        as_,
        SampleOptions(rate, channel, batch),
        Site(EngineLocation(engine, jobs or 1, address, beam_options), show_progress),
    )
