"""When TCP sends a lost message again: the rule of streams in virtual time, and what real connections ask Linux for.

As in Linux (RFC 6298): for the first time after a round trip and 200 ms, then each time after twice as long, up to a
maximum, and with the link as it is at that instant.  By default the maximum is 120 s (TCP_RTO_MAX), so that a
connection that was cut off for a minute may stay silent for another one.  Here it is a second, the least that Linux
lets a connection ask for (TCP_RTO_MAX_MS, from 6.15 on), and nobody gives up: with a maximum of a second Linux would
end a connection after 15 s in vain (tcp_retries2).  An older kernel refuses, and keeps its 120 s: after a loss or a
partition its streams may come back that much later than virtual time says, never later than twice what it lasted.
The run has a note of it.
"""

import socket
from collections.abc import Sequence
from contextlib import suppress

from core.units import MILLISECOND_NS, SECOND_NS

RETRANSMIT_MINIMUM_NS = 200 * MILLISECOND_NS  # Linux, TCP_RTO_MIN
RETRANSMIT_MAXIMUM_NS = SECOND_NS
_TCP_RTO_MAX_MS = 44  # linux/tcp.h
_NEVER_MS = 2**31 - 1


def first_wait_ns(rtt_ns: int) -> int:
    """From the first sending in vain to the second one."""
    return min(RETRANSMIT_MINIMUM_NS + rtt_ns, RETRANSMIT_MAXIMUM_NS)


def next_wait_ns(wait_ns: int) -> int:
    """After a further try in vain."""
    return min(2 * wait_ns, RETRANSMIT_MAXIMUM_NS)


def retry_soon(sock: socket.socket) -> bool:
    """Let a connection try at least every ``RETRANSMIT_MAXIMUM_NS``, and for ever; whether the kernel can do that."""
    with suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _NEVER_MS)
        sock.setsockopt(socket.IPPROTO_TCP, _TCP_RTO_MAX_MS, RETRANSMIT_MAXIMUM_NS // MILLISECOND_NS)
        return True
    return False


def keeps_120_s() -> bool:
    """Whether the kernel here refuses what ``retry_soon`` asks for."""
    with socket.socket() as sock:
        return not retry_soon(sock)


def note_of(hosts: Sequence[str]) -> str:
    """What is to be said of a run some of whose hosts have such a kernel."""
    others = f" and {len(hosts) - 3} more" if len(hosts) > 3 else ""
    return (
        f"the kernel of {', '.join(hosts[:3])}{others} lets a stream that lost messages wait for up to 120 s "
        f"(Linux below 6.15), virtual time for {RETRANSMIT_MAXIMUM_NS // SECOND_NS} s: it may come back that much later"
    )
