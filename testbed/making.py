"""Folders of the checkout that are made once (fetched, unpacked, compiled): whole, or not there."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_ASIDE = ".making-"


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """``folder``; where it is not there, ``make(made)`` makes it, aside, in an empty folder that it is given.

    Of two that want it at once the second waits for the first.  What was left by one that was killed is removed.
    """
    if folder.is_dir():
        return folder
    with alone_in(folder.parent):
        if not folder.is_dir():
            for left in folder.parent.glob(f"{_ASIDE}*"):
                shutil.rmtree(left)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=_ASIDE) as aside:
                made = Path(aside, folder.name)
                made.mkdir()
                make(made)
                made.rename(folder)
    return folder


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until nobody else is alone in ``folder``, which is made where it is not there.

    The folder itself is locked, so that nothing is left in it; whoever is killed holds it no longer.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
