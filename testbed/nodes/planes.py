"""What a node's commands (``Actuate``) reach on a live testbed, and what reports back to it.

A system declares its plane (``System.plane``): a callable that is given the loop of the node's host, the node's
surroundings, what takes its reports, and what counts the bytes that it sends.
"""

import os
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Protocol

import msgspec

from core.errors import SpecError
from systems.api import Node, System
from systems.loader import declared
from testbed.hosts.loop import Clock, Loop

Report = Callable[[object], None]  # takes what the node is to hear
Count = Callable[[bytes], None]  # takes what is sent


class ServerAt(msgspec.Struct, frozen=True):
    """Where nodes reach a server program; ``secret``: the run's; ``begun_s``: when it was first started, Unix time.

    ``greeting``: what is asked there before the run.
    """

    address: str
    port: int
    secret: str = ""
    begun_s: int = 0
    greeting: tuple[bytes, ...] = ()


class ControlAt(msgspec.Struct, frozen=True):
    """A broker's control port, on its own host's loopback."""

    port: int
    token: str


class Surroundings(msgspec.Struct, frozen=True):
    """What a node is told of what is around it, beside the other nodes.

    ``servers``: by the names of those that the system declares.  The others are told where a study has such things:
    ``brokers`` by their nodes' names, the ``topic`` that they report, and ``script``, the path of what a study's planes
    read.
    """

    node: str = ""
    servers: dict[str, ServerAt] = {}
    brokers: dict[str, ControlAt] = {}
    topic: str = ""
    script: str = ""


class Plane(Protocol):
    """A node's way to what it commands."""

    def actuate(self, command: object) -> None:
        """Carry a command out, or begin to."""

    # What need not be known to all planes.

    def ready(self) -> bool:
        """Whether commands can be carried out now."""
        return True

    def go(self, clock: Clock) -> None:
        """The run's time 0 is agreed."""
        return None

    def finish(self) -> None:
        """The run ends."""
        return None


def plane_of(
    system: System,
    loop: Loop,
    around: Surroundings,
    report: Report,
    count_sent: Count,
) -> Plane | None:
    """The plane that the system declares, made; None where it declares none."""
    if not system.plane:
        return None
    plane: Plane = _made(system, system.plane, loop, around, report, count_sent)
    return plane


def standing_in(system: System, node: Node, around: Surroundings) -> Node:
    """The node, or the one that the system's declaration puts in its place."""
    if system.stand_in is None:
        return node
    other: Node = _made(system, system.stand_in.make, node, around)
    return other


def _made(system: System, name: str, *arguments: object) -> Any:
    make = declared(system, name)
    if not callable(make):
        raise SpecError(f"system {system.key}: {name!r} is a {type(make).__name__}", "name something that makes one")
    return make(*arguments)


class Heard:
    """What threads of a plane measure, reported one after the other by the loop's own thread."""

    def __init__(self, loop: Loop, report: Report):
        self._report = report
        self._come: SimpleQueue[object] = SimpleQueue()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK)
        loop.on_readable(self._wake, self._hear)

    def say(self, measurement: object) -> None:
        """Have it reported soon; any thread may."""
        self._come.put(measurement)
        os.eventfd_write(self._wake, 1)

    def _hear(self) -> None:
        os.eventfd_read(self._wake)
        for measurement in all_of(self._come):
            self._report(measurement)


def all_of(queue: "SimpleQueue[Any]") -> list[Any]:
    """What is in there now."""
    items: list[Any] = []
    while True:
        try:
            items.append(queue.get_nowait())
        except Empty:
            return items
