"""A corpus in the frameworks that train on it: each takes a `nbaudio.reading.Stream`, with its order, parts and batches.

`arrays` is plain NumPy, which JAX takes as it is; `torch`, `tensorflow`, `huggingface` and `lhotse` need what they are called
after, and say so where it is missing. They are imported by name, `from nbaudio.adapters.torch import stream_dataset`, and import
the framework when they are called.

Conventions: a clip is a dictionary of `segment_id`, `samples` (shape (samples,)), `sampling_rate` (Hz) and the columns that were
asked for. A step that is a list, of a stream with `batch_s` or `consecutive`, is one dictionary of the same names: `samples` has
shape (clips, samples), silent behind the end of each, and `lengths` says where that is.
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
