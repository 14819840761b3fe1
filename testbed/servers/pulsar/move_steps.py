"""How long each step of a move took, by the brokers' own log: the lines of Pulsar's ``UnloadManager``.

The broker that a bundle leaves: UNLOAD, from the question to the next owner; in it RELEASE, until its entry says that
somebody else is to have it, ASSIGN, from then until somebody has it, and DISCONNECT, which closes clients.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from core.units import MILLISECOND_NS

_LINE = re.compile(
    r"^(?P<at>\d+) INFO .* - Operation (?P<step>[A-Z]+) for service unit (?P<unit>\S+) took (?P<ms>\d+) ms", re.M
)


class StepTook(NamedTuple):
    """``at_ns``: its end, an instant of CLOCK_REALTIME, of milliseconds."""

    at_ns: int
    step: str
    unit: str  # "tenant/namespace/range of the bundle"
    span_ns: int


def steps_of(log: str) -> Iterator[StepTook]:
    """Of a broker's log (``settings.LOGGING``), in its order."""
    for match in _LINE.finditer(log):
        at_ns, span_ns = (int(match[name]) * MILLISECOND_NS for name in ("at", "ms"))
        yield StepTook(at_ns, match["step"].lower(), match["unit"], span_ns)
