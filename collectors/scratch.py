"""Scratch files, in this machine's folder for temporary ones: who finds it full is told so, of no other disk."""

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from core.errors import MachineError

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}  # what a disk says that takes no more


class ScratchFull(OSError):
    """The folder for temporary files, its ``filename``, takes no more, or there is none."""

    def told(self) -> MachineError:
        """The same for whoever gave the command."""
        fix = "free disk space there, or set TMPDIR to another folder; finished runs stay"
        return MachineError(f"cannot write {self.filename}: {self.strerror}", fix)


@contextmanager
def writing_scratch() -> Iterator[None]:
    """ScratchFull where no more can be written inside; nothing is written there but scratch files."""
    folder = ""
    try:
        folder = tempfile.gettempdir()
        yield
    except OSError as error:
        if folder and error.errno not in FULL:
            raise
        raise ScratchFull(errno.ENOSPC, error.strerror, folder or "temporary files") from None
