"""How many messages of a broker are late when groups of publishers emit at once: the M/D/1 model (ours).

SRTM's residual capacity knows a topic's rate and nothing of its bursts (IV-B); the report's conclusion asks for a model
of workloads of a known kind.  This is Eq. (1)'s, with batches as VI-B has them, of a broker's work instead of tokens:
a customer is a group's burst, each of its members' emissions takes the broker one unit of work, and an emission is late
where the work found and its place in the burst are more than the SLO leaves room for.

Bursts come as a Poisson process; of periodic groups, which overlap less, the model says more than the truth.
"""

from collections.abc import Mapping

from core.units import SECOND_NS
from systems.parts.md1 import wait_probability


def late_share(emissions_rps: Mapping[int, float], drain_ns: float, room_ns: float) -> float:
    """The share of emissions that a broker is done with later than ``room_ns`` after they came.

    ``emissions_rps``: by size of burst (a group's members on this broker), how many emissions a second come in bursts
    of this size.  ``drain_ns``: the work of one emission.  Groups of several sizes: each as if all were of its own.
    """
    total_rps, drain_rps = sum(emissions_rps.values()), SECOND_NS / drain_ns
    if total_rps <= 0:
        return 0.0
    if total_rps >= drain_rps:
        return 1.0
    room = room_ns / drain_ns
    late = (rps * wait_probability(total_rps, drain_rps, room, size) for size, rps in emissions_rps.items() if rps > 0)
    return sum(late) / total_rps
