"""A Spark session for the engine; Java's output is captured, and a failure is one line with its cause."""

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import IO, Any

from nbaudio.core.errors import EngineError, requires_extra, root_cause

# Lines of Java's log that tell of a failure, the most telling first.
_CAUSES = (
    re.compile(r"^Caused by: (.+)$", re.MULTILINE),
    re.compile(r"^(?:Exception in thread \S+ |: )?((?:\w+\.)+\w*(?:Exception|Error): .+)$", re.MULTILINE),
    re.compile(r" ERROR \S+ (.+)$", re.MULTILINE),
)
_MOST_LOG = 1 << 20


@contextmanager
def context(master: str) -> Iterator[Any]:
    """The context of the active session, or of one on `master` that is stopped afterwards.

    Args:
        master: such as ``local[2]`` or ``spark://host:7077``.

    Raises:
        MissingExtraError: PySpark is not installed.
        EngineError: no session starts there, or it stops; has the cause in one line.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # what Spark looks for otherwise need not have nbaudio
    with warnings.catch_warnings(), TemporaryFile() as log:
        warnings.filterwarnings("ignore", module="pyspark")  # newer pandas, of which nothing is used here
        with requires_extra("spark"):
            from pyspark.errors import PySparkException
            from pyspark.sql import SparkSession
        from py4j.protocol import Py4JError  # comes with PySpark

        session = SparkSession.getActiveSession()
        if session is not None:
            yield session.sparkContext
            return
        try:
            with _output_to(log):
                builder = SparkSession.builder.master(master).appName("nbaudio").config("spark.log.level", "ERROR")
                session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
            with session:
                yield session.sparkContext
        except (PySparkException, Py4JError, EngineError) as error:
            raise EngineError(f"engine spark at {master}: {_cause(log) or root_cause(error)}") from error


@contextmanager
def _output_to(log: IO[bytes]) -> Iterator[None]:
    """Let processes that are started meanwhile write their standard error to a file, as the JVM writes tracebacks there."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _cause(log: IO[bytes]) -> str | None:
    """The last cause that Java's log names."""
    log.seek(max(0, log.seek(0, os.SEEK_END) - _MOST_LOG))
    text = log.read().decode(errors="replace")
    found = (pattern.findall(text) for pattern in _CAUSES)
    return next((lines[-1].strip() for lines in found if lines), None)
