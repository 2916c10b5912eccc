"""A home folder for users without one, as in containers that run under any user id.

Jupyter and other libraries raise RuntimeError where they cannot find it.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path


def ensure_home() -> None:
    """Set HOME to a temporary folder, which workers inherit, if the user has no home folder.

    It is removed when the process ends.
    """
    try:
        Path.home()
    except RuntimeError:
        folder = tempfile.mkdtemp(prefix="nbaudio-home-")
        os.environ["HOME"] = folder
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
