"""What a broker's machine has, and what share of it the broker uses: the input of the 85 % rule (ePulsar, 3.4.2)."""

from typing import NamedTuple

import msgspec

from core.units import SECOND_NS
from systems.placement.messages import Traffic, Used


class BrokerMachine(msgspec.Struct, frozen=True):
    """A broker's processor, memory and network.  The first two are those of ePulsar's profile (5.4)."""

    cores: float = 8.0
    memory_bytes: float = 16.0 * 2**30
    network_bytes: float = 1.25e9  # a second and direction: 10 Gbit/s (ours)
    topic_bytes: float = 2.0**20  # modelled: what an open topic takes of the memory (ours)


class Spent(NamedTuple):
    """Counters of a broker's process and its host's interfaces, since their start; memory, as it is."""

    cpu_ns: float
    memory_bytes: float
    received_bytes: float
    sent_bytes: float


def used(machine: BrokerMachine, before: Spent, now: Spent, span_ns: int) -> Used:
    """What was used in a span between two looks at a real broker.

    The network's share is that of the direction with more; interfaces carry all that comes to the broker's host.
    """
    span_s = span_ns / SECOND_NS
    processor = (now.cpu_ns - before.cpu_ns) / span_ns / machine.cores
    bytes_ = max(now.received_bytes - before.received_bytes, now.sent_bytes - before.sent_bytes)
    return shares(processor, now.memory_bytes / machine.memory_bytes, bytes_ / span_s / machine.network_bytes)


class Counted(NamedTuple):
    """Messages that a broker had taken of a topic, and passed on, at an instant."""

    at_ns: int
    taken_count: int
    passed_on_count: int


def traffic(topic: str, before: Counted, now: Counted) -> Traffic:
    """The rates between two looks, which may be late, or left out; a broker that began anew has carried nothing."""
    span_s = max(now.at_ns - before.at_ns, 1) / SECOND_NS
    taken, passed_on = now.taken_count - before.taken_count, now.passed_on_count - before.passed_on_count
    return Traffic(topic, max(0, taken) / span_s, max(0, passed_on) / span_s)


def shares(processor: float, memory: float, network: float) -> Used:
    """Cut to 0 to 1: counters begin anew with a broker, and a short span is measured badly."""
    return Used(*(min(1.0, max(0.0, share)) for share in (processor, memory, network)))
