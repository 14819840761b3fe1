"""Rates, and delays where the kernel has netem: the lines of a ``tc -batch``.

``tbf`` limits a link: one at each end.  Where a host's packets must be told apart by target, each target has a class
of ``htb`` with the path's delay (netem) or rate in it.
"""

from collections.abc import Mapping
from math import prod

from core.errors import MachineError
from core.units import MILLISECOND_NS, SECOND_NS
from testbed.links import PathState
from testbed.topologies.topology import Topology

UNSHAPED_FROM_BPS = 10 * 10**9  # ours: a rate from here on is none; namespaces do not reach it anyway
BURST_NS = 4 * MILLISECOND_NS  # a tick of a kernel of 250 Hz
BURST_LEAST_BYTES = 16_384
QUEUE_NS = 50 * MILLISECOND_NS  # ours: what may wait for a limited link
QUEUE_LEAST_BYTES = 150_000
QUEUE_LEAST_PACKETS = 100
NETEM_PACKETS = 100_000
LEAST_PACKET_BYTES, FULL_PACKET_BYTES = 64, 1500
OPEN_RATE = "100gbit"
LEAST_RATE_BPS = 8  # tc's: a byte


def is_limited(rate_bps: int | None) -> bool:
    """Whether a rate is worth a shaper."""
    return rate_bps is not None and rate_bps < UNSHAPED_FROM_BPS


def unmet_rates(topology: Topology, is_tree: bool) -> list[str]:
    """What of the links' rates shapers do not give; ``is_tree``: each is at its link's own ends."""
    rates = {link.rate_bps for link in topology.links if link.rate_bps}
    notes = []
    if any(not is_limited(rate) for rate in rates):
        notes.append(f"rates from {UNSHAPED_FROM_BPS / 1e9:g} Gb/s on are as fast as the machine is")
    if not is_tree and any(is_limited(rate) for rate in rates):
        notes.append("rates hold for each path alone: the paths of a link do not share it")
    return notes


def link_lines(device: str, rate_bps: int | None) -> list[str]:
    """One end of a link: what leaves by ``device`` is limited, and waits in a queue of 50 ms."""
    if rate_bps is None or not is_limited(rate_bps):
        return []
    burst = max(BURST_LEAST_BYTES, rate_bps * BURST_NS // (8 * SECOND_NS))
    limit = max(QUEUE_LEAST_BYTES, rate_bps * QUEUE_NS // (8 * SECOND_NS))
    return [f"qdisc replace dev {device} root tbf rate {rate_bps}bit burst {burst} limit {limit + burst}"]


def host_lines(
    device: str,
    targets: Mapping[str, PathState],
    rate_bps: int | None = None,
    *,
    netem: bool,
    has_classes: bool = False,
) -> list[str]:
    """The end of a link: its rate, and what is of the paths behind it, by address: rates, and delays for ``netem``.

    Without either, targets need no classes; ``has_classes``: they have them all the same.
    """
    if not (netem or has_classes or any(is_limited(path.rate_bps) for path in targets.values())):
        return link_lines(device, rate_bps)
    root_bps = _narrowest(rate_bps)
    lines = [
        f"qdisc replace dev {device} root handle 1: htb default 0",
        f"class replace dev {device} parent 1: classid 1:1 htb rate {_rate_word(root_bps)} quantum 60000",
    ]
    for number, (address, path) in enumerate(targets.items(), 2):
        most_bps = _narrowest(rate_bps, path.rate_bps)
        rate = _rate_word(most_bps)
        if root_bps is not None and most_bps is not None:  # below its own rate a class does not ask the link's
            rate = f"{max(LEAST_RATE_BPS, min(most_bps, root_bps // len(targets)))}bit ceil {rate}"
        lines += [
            f"class replace dev {device} parent 1:1 classid 1:{number:x} htb rate {rate} quantum 60000",
            f"filter replace dev {device} parent 1: protocol ip prio 1 handle 800::{number:x} u32"
            f" match ip dst {address}/32 flowid 1:{number:x}",
        ]
        if netem:
            words = netem_words(path, most_bps)
            lines.append(f"qdisc replace dev {device} parent 1:{number:x} handle {number:x}0: netem {words}")
    return lines


def _narrowest(*rates_bps: int | None) -> int | None:
    return min((rate_bps for rate_bps in rates_bps if rate_bps is not None and is_limited(rate_bps)), default=None)


def _rate_word(rate_bps: int | None) -> str:
    return OPEN_RATE if rate_bps is None else f"{rate_bps}bit"


def netem_words(path: PathState, rate_bps: int | None = None) -> str:
    """A path in netem's words; MachineError for packets that are held back, which it cannot do.

    ``rate_bps`` of the class around it, which takes packets from here: those that wait for it are few, too.
    """
    if path.reorderings:
        raise MachineError("netem cannot hold packets back", 'use the delays "user-space"')
    words = f"limit {_packet_limit(path, rate_bps)} delay {path.delay_ns / 1000:.3f}us"
    if path.jitters_ns:
        words += f" {sum(path.jitters_ns) / 1000:.3f}us"
    loss = 1.0 if path.is_cut else path.loss_probability
    if loss:
        words += f" loss {100 * loss:.6f}%"
    if path.duplications:
        single = prod(1 - probability for probability in path.duplications)
        words += f" duplicate {100 * (1 - single):.6f}%"
    return words


def _packet_limit(path: PathState, rate_bps: int | None) -> int:
    """Netem counts packets of any size: as the shortest those under way, of which none may go; as full what waits."""
    if rate_bps is None:
        return NETEM_PACKETS
    under_way = rate_bps * (path.delay_ns + sum(path.jitters_ns)) // (8 * SECOND_NS * LEAST_PACKET_BYTES)
    waiting = max(QUEUE_LEAST_PACKETS, rate_bps * QUEUE_NS // (8 * SECOND_NS * FULL_PACKET_BYTES))
    return min(NETEM_PACKETS, under_way + waiting)
