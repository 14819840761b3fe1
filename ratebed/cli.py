"""The command line from end to end: errors are one line, exit codes are those of the README."""

import errno
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

from core.errors import HarnessError, MachineError, SpecError, described
from core.garbage import collect_rarely
from ratebed import interrupts

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, interrupts.INTERRUPTED
ROOT = Path(__file__).resolve().parents[1]
TRACEBACK = "RATEBED_TRACEBACK"  # the environment variable that asks for a fault of our own in full
_OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.EACCES, errno.EPERM)


def main() -> NoReturn:
    """Run the command line."""
    interrupts.end_at_once()
    interrupts.deaf_at_the_end()
    import ratebed.app  # noqa: F401  while Ctrl-C ends all at once

    interrupts.take_down_first()
    collect_rarely()
    logging.getLogger().addHandler(logging.NullHandler())  # libraries log what they also raise, with tracebacks
    try:
        code = answer()
        interrupts.end_at_once()
    except KeyboardInterrupt:
        interrupts.end_at_once()  # a command of ours that was interrupted may have raised it
        code = INTERRUPTED
    if code == INTERRUPTED:
        sys.stderr.write(interrupts.parting_words("interrupted"))
        interrupts.leave()
    sys.exit(code)


def answer(words: Sequence[str] | None = None) -> int:
    """Do what a command of these words (default: the process') says, or say why not; returns the exit code.

    A KeyboardInterrupt passes.
    """
    from ratebed.app import app

    try:
        code = app(None if words is None else list(words), standalone_mode=False)
    except Exception as error:
        code = _told(error)
    return code if isinstance(code, int) else DONE


def _told(error: Exception) -> int:
    """Say what went wrong; returns the exit code."""
    usage = getattr(error, "format_message", None)  # the command-line library's usage errors
    if usage is not None:
        error = _unknown_option(error) or SpecError(usage())
    elif isinstance(error, OSError):
        error = _of_the_machine(error)
    elif not isinstance(error, HarnessError):  # past all guards
        error = _of_code(error)
    print(f"ratebed: {error}", file=sys.stderr)
    return USAGE if isinstance(error, SpecError) else FAILED


def _unknown_option(error: Exception) -> SpecError | None:
    """Of an option that the verb does not have: the closest one, or the figures that have it."""
    name, known = getattr(error, "option_name", ""), getattr(error, "possibilities", None)
    if known is None:
        return None
    from paper_figs import FIGURES
    from ratebed.declared import declared

    theirs = declared(tuple(FIGURES)).get(name.removeprefix("--"))
    close = get_close_matches(name, known, 1)
    fix = f"it belongs to {', '.join(theirs[1])}" if theirs else f"did you mean {close[0]}?" if close else "see --help"
    return SpecError(f"unknown option {name}", fix)


def _of_the_machine(error: OSError) -> MachineError:
    """An error of files, or of sockets and processes, that nobody has explained."""
    if error.filename or error.errno in _OF_DISKS:
        return MachineError(described(error), "check space and permissions, or use --out")
    return MachineError(described(error), "a process that was asked is gone: look for free memory, repeat the command")


def _of_code(error: Exception) -> HarnessError:
    """A bug: of a file from outside the tree, if one is on the way to it, or of ours."""
    from core.files import line_outside

    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "site-packages" not in frame.filename]
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    where = f" ({os.path.relpath(frames[-1].filename, ROOT)}:{frames[-1].lineno})" if frames else ""
    what, shows = f"{type(error).__name__}: {error}{where}", f"{TRACEBACK}=1 shows where"
    if line := line_outside(error):
        return SpecError(f"{line}: {what}", f"mend the file: {shows}")
    return MachineError(what, f"a fault of Ratebed's: {shows}")
