"""Who stood still: processes that were stopped, by SIGSTOP or under a debugger, found at looks from outside.

A look reads each process's state.  A stop that begins and ends between two looks leaves a mark as well, where the
process is a child of ours: Linux tells its parent, once, that it goes on (waitid, WCONTINUED).  So no stop of a child
is missed, however short; its length is known to one period of the looks either way.
"""

import os
from collections.abc import Iterable
from typing import NamedTuple

from collectors import procfs


class Look(NamedTuple):
    """What was seen of one process."""

    name: str
    pid: int
    stands: bool  # now
    went_on: bool  # since the last look, after a stop


class Stop(NamedTuple):
    """A process stood still until ``end_ns``, for ``span_ns``."""

    name: str
    end_ns: int
    span_ns: int


def looks_at(processes: Iterable[tuple[str, int]]) -> list[Look]:
    """One look at processes, (name, pid); about 20 us each."""
    return [Look(name, pid, procfs.is_stopped(pid), _went_on(pid)) for name, pid in processes]


class Stops:
    """Folds looks into stops.  A stop begins, and ends, in the middle between two looks; without end: at the last."""

    def __init__(self) -> None:
        self._over: list[Stop] = []
        self._since_ns: dict[tuple[str, int], int] = {}
        self._last_ns: int | None = None

    def look(self, at_ns: int, seen: Iterable[Look]) -> None:
        """One look further; who is not seen any more has ended."""
        before_ns = at_ns if self._last_ns is None else self._last_ns
        middle_ns, self._last_ns = (before_ns + at_ns) // 2, at_ns
        standing = set()
        for name, pid, stands, went_on in seen:
            if stands:
                standing.add((name, pid))
                self._since_ns.setdefault((name, pid), middle_ns)
            elif went_on and (name, pid) not in self._since_ns:  # all of it between two looks
                self._over.append(Stop(name, at_ns, (at_ns - before_ns) // 2))
        for name, pid in self._since_ns.keys() - standing:
            self._over.append(Stop(name, middle_ns, middle_ns - self._since_ns.pop((name, pid))))

    def all(self) -> list[Stop]:
        """Those that are over, and those that last."""
        last_ns = self._last_ns or 0
        return [
            *self._over,
            *(Stop(name, last_ns, last_ns - since_ns) for (name, _), since_ns in self._since_ns.items()),
        ]


def _went_on(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WCONTINUED | os.WNOHANG) is not None
    except ChildProcessError:  # it has ended, or is somebody else's
        return False
