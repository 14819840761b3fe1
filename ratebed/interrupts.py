"""Ctrl-C: the first lets the command take down what it made, the second ends it at once; both say what is left.

SIGTERM counts as Ctrl-C.  What is left is what the state files of this process' live runs list, and half-written
folders; ``ratebed clean`` removes both.
"""

import atexit
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
AT_COMMITS = "commits"  # in a folder of results: those that ``diff`` has had made at commits
_LATER_S = 0.01
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)  # the last is of our own, a Ctrl-C that comes again
_CURSOR = b"\x1b[?25h"  # a progress bar had hidden it
_outputs: list[Path] = []  # folders of results that this command writes to
_commands: list["subprocess.Popen[bytes]"] = []  # others that do part of this one's work


def end_at_once() -> None:
    """From now on Ctrl-C ends the process: it has made nothing yet, or all is said."""
    _on_signals(_ended)


def deaf_at_the_end() -> None:
    """When nothing more is to come, Python lets go of handlers before it ends: nothing is left to interrupt then."""
    atexit.register(_on_signals, signal.SIG_IGN)


def take_down_first() -> None:
    """From now on the first Ctrl-C is a KeyboardInterrupt, and the next ends the process."""
    import testbed.hosts.state  # noqa: F401  now, and not when it is asked what is left

    _on_signals(_interrupted)
    sys.unraisablehook = _unraisable


def writes_to(out: Path) -> None:
    """The command writes its results to ``out``."""
    _outputs.append(out)


def places(out: Path) -> list[Path]:
    """Where half-written folders may be in a folder of results; first its runs."""
    folders = [out, *(out / AT_COMMITS).glob("*")]
    return [*(place for folder in folders for place in (folder / "runs", folder, folder / "tables")), out / AT_COMMITS]


@contextmanager
def ends_with_us(command: "subprocess.Popen[bytes]") -> Iterator[None]:
    """While inside, ``command`` is ended where this process is ended at once, before it is said what is left."""
    _commands.append(command)
    try:
        yield
    finally:
        _commands.remove(command)


def parting_words(first: str) -> str:
    """The last line of a command that was interrupted."""
    return f"ratebed: {first}; {_left()}\n"


def leave() -> NoReturn:
    """End after all that is to be done at the end, and before Python takes itself apart.

    A thread that Ctrl-C has left at work, one that starts Spark, say, may hold standard error's lock just then, and
    Python gives up with a dump.
    """
    _end_workers()  # Python waits for them now, and may have closed already what would tell them to end
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def _on_signals(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> None:
    for number in _SIGNALS:
        signal.signal(number, handler)


def _interrupted(number: int, frame: FrameType | None) -> None:
    if _is_unraisable(frame):
        _again()
        return
    end_at_once()
    threading.excepthook = lambda args: None  # what other threads stumble over now is nobody's business
    raise KeyboardInterrupt


def _ended(number: int, frame: FrameType | None) -> NoReturn:
    """No clean-up of Python's own, and no files of Python's: their locks may be held just now."""
    _on_signals(signal.SIG_IGN)
    _end_workers()  # they would go by themselves, a moment after we have looked
    for command in _commands:
        command.kill()
        with suppress(ChildProcessError):
            os.waitpid(command.pid, 0)  # its own ``wait`` takes a lock
    words = parting_words("interrupted at once").encode(errors="replace")
    os.write(2, (_CURSOR if os.isatty(2) else b"") + words)
    os._exit(INTERRUPTED)


def _end_workers() -> None:
    if processes := sys.modules.get("multiprocessing.process"):
        for worker in processes.active_children():
            worker.kill()


def _unraisable(told: "sys.UnraisableHookArgs") -> None:
    """A KeyboardInterrupt where none can pass, as in a destructor, is raised again when it can."""
    if told.exc_type is KeyboardInterrupt:
        take_down_first()
        _again()
    else:
        sys.__unraisablehook__(told)


def _again() -> None:
    """Ctrl-C once more, when the hook has returned, for in it none can pass either; a thread would need locks."""
    signal.setitimer(signal.ITIMER_REAL, _LATER_S)


def _is_unraisable(frame: FrameType | None) -> bool:
    """Whether the hook is at work."""
    while frame is not None and frame.f_code is not _unraisable.__code__:
        frame = frame.f_back
    return frame is not None


def _left() -> str:
    try:
        things = [*_things_of_live_runs(), *_half_written()]
    except Exception:  # whatever it is: this is the last that is said
        return "ratebed clean removes what is left"
    if not things:
        return "what is finished stays, nothing else is left; repeat the command to go on"
    kinds = ", ".join(_counted(count, kind) for kind, count in Counter(things).items())
    out = f" --out {_outputs[-1]}" if _outputs and _outputs[-1] != Path("out") else ""
    return f"left: {kinds}; `ratebed clean{out}` removes them, what is finished stays"


def _counted(count: int, kind: str) -> str:
    return f"{count} {kind}{('es' if kind.endswith('s') else 's') * (count > 1)}"


def _things_of_live_runs() -> list[str]:
    state = sys.modules.get("testbed.hosts.state")  # what is not imported has made nothing
    own = [left for left in (state.all_states() if state else ()) if left.owner.get("owner") == os.getpid()]
    return ["record" for _ in own] + [thing["kind"] for left in own for thing in left.things.values()]


def _half_written() -> list[str]:
    folders = {folder for out in _outputs for place in places(out) for folder in place.glob("*.partial-*")}
    return ["half-written folder" for _ in folders]
