"""A node's connection to a server program: questions out, answers in, in order, many under way at once."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from core.units import MILLISECOND_NS
from testbed.hosts.loop import Loop
from testbed.nodes.planes import Count, Plane, Report, ServerAt
from testbed.nodes.sockets import LoopSocket

REDIAL_NS = 10 * MILLISECOND_NS  # ours: a server that is back is asked again within one time-out, by far


class Wire(Protocol):
    """What passes over one connection to a server, as bytes; a new connection has a new one."""

    def hello(self) -> bytes:
        """What is said first."""

    def is_ready(self) -> bool:
        """Whether the server takes questions."""

    def ask(self, command: Any) -> bytes:
        """A node's command."""

    def take(self, content: bytes) -> Sequence[object]:
        """The reports in what came; the rest of an answer may come later.  MachineError for what is no answer."""


class _Link(LoopSocket):
    """To a server; ``take`` is given what comes."""

    def __init__(self, loop: Loop, at: ServerAt, take: Callable[[bytes], None]):
        self._give = take
        super().__init__(loop, (at.address, at.port))

    def _take(self, data: bytes) -> None:
        self._give(data)


class WirePlane(Plane):
    """See ``testbed.nodes.planes.Plane``.  What is asked while there is no connection is never answered."""

    def __init__(
        self,
        loop: Loop,
        at: ServerAt,
        make_wire: Callable[[], Wire],
        report: Report,
        count_sent: Count,
    ):
        self._loop, self._at, self._make_wire = loop, at, make_wire
        self._report, self._count_sent = report, count_sent
        self._wire: Wire | None = None  # of the connection, once that is made
        self._dial()

    def ready(self) -> bool:
        """Whether the server takes questions."""
        return self._wire is not None and self._wire.is_ready()

    def actuate(self, command: Any) -> None:
        """Ask, if there is a connection."""
        if self._wire is None or not self._wire.is_ready():
            return
        content = self._wire.ask(command)
        self._count_sent(content)
        self._link.write(content)

    def _dial(self) -> None:
        wire = self._make_wire()

        def greeted() -> None:
            self._wire = wire

        self._link = _Link(self._loop, self._at, self._take)
        self._link.on_drained, self._link.on_close = greeted, self._broken
        self._link.write(wire.hello())

    def _take(self, content: bytes) -> None:
        assert self._wire is not None
        for report in self._wire.take(content):
            self._report(report)

    def _broken(self, why: str) -> None:
        """What was asked is lost; try again soon."""
        self._wire = None
        self._loop.call_at(time.monotonic_ns() + REDIAL_NS, self._dial)
