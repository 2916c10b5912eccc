"""Adapters of a corpus for training frameworks.

Each takes a `nbaudio.reading.Stream`, with its order, parts and batches.

`arrays` is plain NumPy, which JAX takes as it is; `torch`, `tensorflow`, `huggingface` and `lhotse`
need the framework of that name and raise MissingExtraError without it. Import them by name, as in
`from nbaudio.adapters.torch import stream_dataset`; the framework is imported when they are called.

A clip is a dictionary of `segment_id`, `samples` (shape (samples,)), `sampling_rate` (Hz) and the
chosen columns. A step that is a list, of a stream with `batch_s` or `consecutive`, is one
dictionary of the same names: `samples` has shape (clips, samples), padded with silence, and
`lengths` has the length of each. The `dtype` of samples is ``float32``, from -1 to 1, or ``int16``,
half as many bytes; levels are ``uint8`` in any case. `columns` are of `Corpus.segments`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from nbaudio.core.errors import MissingExtraError, requires_extra


@contextmanager
def if_installed(extra: str) -> Iterator[None]:
    """Run the body of a ``with``, or print what to install if the packages of an extra are missing.

    Examples:
        >>> with if_installed("torch"):
        ...     import a_package_that_is_not_there
        a_package_that_is_not_there is not installed: pip install 'nbaudio[torch]'
    """
    try:
        with requires_extra(extra):
            yield
    except MissingExtraError as missing:
        print(missing)
