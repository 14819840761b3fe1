"""Folders of the checkout that are made once (fetched, unpacked, compiled): whole, or not there."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

_ASIDE = ".making-"


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """``folder``; where it is not there, ``make(made)`` makes it, aside, in an empty folder that it is given.

    Of two that want it at once the second waits for the first.  What was left by one that was killed is removed.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            for left in folder.parent.glob(f"{_ASIDE}*"):
                shutil.rmtree(left)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=_ASIDE) as aside:
                made = Path(aside, folder.name)
                made.mkdir()
                make(made)
                made.rename(folder)
    finally:
        os.close(lock)
    return folder
