"""Rates, and delays where the kernel has netem: the lines of a ``tc -batch``.

``tbf`` limits a link: one at each end.  Where a host's packets must be told apart by target, each target has a class
of ``htb`` with the path's delay (netem) or rate in it.
"""

from collections.abc import Mapping
from math import prod

from core.errors import MachineError
from core.units import MILLISECOND_NS, SECOND_NS
from testbed.links import PathState

UNSHAPED_FROM_BPS = 10 * 10**9  # ours: a rate from here on is none; namespaces do not reach it anyway
BURST_NS = 4 * MILLISECOND_NS  # a tick of a kernel of 250 Hz
BURST_LEAST_BYTES = 16_384
QUEUE_NS = 50 * MILLISECOND_NS  # ours: what may wait for a limited link
QUEUE_LEAST_BYTES = 150_000
NETEM_PACKETS = 100_000
OPEN_RATE = "100gbit"


def is_limited(rate_bps: int | None) -> bool:
    """Whether a rate is worth a shaper."""
    return rate_bps is not None and rate_bps < UNSHAPED_FROM_BPS


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
    root = f"{rate_bps}bit" if is_limited(rate_bps) else OPEN_RATE
    lines = [
        f"qdisc replace dev {device} root handle 1: htb default 0",
        f"class replace dev {device} parent 1: classid 1:1 htb rate {root} quantum 60000",
    ]
    for number, (address, path) in enumerate(targets.items(), 2):
        ceiling = f"{path.rate_bps}bit" if is_limited(path.rate_bps) else root
        lines += [
            f"class replace dev {device} parent 1:1 classid 1:{number:x} htb rate {ceiling} quantum 60000",
            f"filter replace dev {device} parent 1: protocol ip prio 1 handle 800::{number:x} u32"
            f" match ip dst {address}/32 flowid 1:{number:x}",
        ]
        if netem:
            words = netem_words(path)
            lines.append(f"qdisc replace dev {device} parent 1:{number:x} handle {number:x}0: netem {words}")
    return lines


def netem_words(path: PathState) -> str:
    """A path in netem's words; MachineError for packets that are held back, which it cannot do."""
    if path.reorderings:
        raise MachineError("netem cannot hold packets back", 'use the delays "user-space"')
    words = f"limit {NETEM_PACKETS} delay {path.delay_ns / 1000:.3f}us"
    if path.jitters_ns:
        words += f" {sum(path.jitters_ns) / 1000:.3f}us"
    loss = 1.0 if path.is_cut else path.loss_probability
    if loss:
        words += f" loss {100 * loss:.6f}%"
    if path.duplications:
        single = prod(1 - probability for probability in path.duplications)
        words += f" duplicate {100 * (1 - single):.6f}%"
    return words
