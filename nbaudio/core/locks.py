"""Advisory file locks (`flock`), which the system releases when the process that holds them ends."""

import fcntl
from typing import BinaryIO


def lock(file: BinaryIO | int, *, shared: bool = False, wait: bool = True, required: bool = True) -> bool:
    """Lock an open file or folder until it is closed; return False if another process holds the lock and `wait` is False.

    On a filesystem without locks this raises OSError, or returns True if the lock is not `required`.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(file, kind if wait else kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        if required:
            raise
    return True
