"""What every driver of nodes does alike, in virtual time and on sockets: give an event, judge the answer, encode."""

from typing import Any

from core.codec import Codec
from core.errors import HarnessError, SystemFault
from core.seeds import child_seed
from core.units import duration_text
from systems.api import Effect, Event, Node, Timer, Transport
from systems.referee import Referee

DATAGRAM_BYTES_MAXIMUM = 65_507  # of UDP over IPv4


def answer(node: Node, referee: Referee, event: Event, clock_ns: int) -> list[Effect]:
    """The node's effects at ``clock_ns`` on its own clock; SystemFault where it breaks a rule, or breaks down.

    A host that rings a timer late is not the node's fault: what the node then sets is judged as of the
    instant at which the timer was due.
    """
    referee.saw(event)
    try:
        effects = node.handle(event, clock_ns)
    except HarnessError:
        raise
    except Exception as error:
        what = f"{referee.node_id} failed on {event!r} at {duration_text(clock_ns)}: {type(error).__name__}: {error}"
        raise SystemFault(what, "mend the node's handle") from error
    referee.check(effects, min(clock_ns, event.due_at_ns) if isinstance(event, Timer) else clock_ns)
    return effects


def encoded(codec: Codec, source: str, message: Any, transport: Transport) -> bytes:
    """The bytes of a message of ``source``; SystemFault where a datagram cannot hold them."""
    content = codec.encode(message)
    if len(content) > DATAGRAM_BYTES_MAXIMUM and transport is Transport.DATAGRAM:
        what = f"{source} sent a {type(message).__name__} of {len(content)} bytes, too long for a datagram"
        raise SystemFault(what, "declare transport=Transport.STREAM, or send less at once")
    return content


def node_seed(seed: int, restart: int) -> int:
    """The seed of the nodes that are made at the start (0) or for the run's n-th restart."""
    return child_seed(seed, "nodes", restart) >> 1
