"""One process at a time on one release: the system lets go of the lock when a process dies."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: there the ledger alone sees to it that nothing is paid twice
    fcntl = None

_PAUSE = 0.05  # seconds


@contextmanager
def alone(secret: Path, what: str, *, patience: float) -> Iterator[None]:
    """Hold an unfinished release, by its secret's file, for this process alone.

    Nothing is written and nothing is left behind, whenever the process is killed. File systems
    without locks, and Windows, hold nothing: two processes then do the same work with the same
    noise.

    Args:
        secret: the file; where it is gone, the release is done, and there is nothing to hold.
        what: is being made, for the message.
        patience: seconds to wait for another process.

    Raises:
        BlockingIOError: another process is at it.
    """
    if fcntl is None:  # an open file could not be removed there
        yield
        return
    try:
        handle = os.open(secret, os.O_RDONLY)
    except FileNotFoundError:
        yield
        return
    try:
        end = time.monotonic() + patience
        while not _locked(handle):
            if time.monotonic() >= end:
                raise BlockingIOError(
                    f"`{what}` is being made by another process now. Wait until that is done; "
                    "should it end before, the same call goes on, at no further cost."
                )
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    assert fcntl is not None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
