"""What a profile of a broker asks of a testbed, and what it gets back."""

from collections.abc import Sequence
from dataclasses import dataclass

from core.clients import ClientLoad
from core.errors import SpecError
from core.records import Int64, Sample
from testbed.topologies.topology import Topology
from testbed.trust.evidence import NOTHING, RunEvidence

ROLES = ("publisher", "subscriber")


@dataclass(frozen=True)
class ProfileRequest:
    """Offer ``load``, clients that stay, to the only broker of ``topology``, for ``duration_ns``.

    What is measured begins after ``warm_up_ns`` of it.
    """

    topology: Topology
    load: ClientLoad
    duration_ns: int
    warm_up_ns: int
    seed: int
    scale_ns: int  # the smallest latency that matters: what the generator's lateness is judged against
    core_share: float = 1.0  # of one core, what the broker may take


@dataclass(frozen=True)
class Profiled:
    """``latency_ns``: of each copy of a message (one a consumer) that was sent in the measured span and came.

    From the intended instant to the consumer.  ``samples``, at the span's end, of the node that is the broker:
    ``span_ns``, its length; ``span_in_count`` and ``span_in_bytes``, what it acknowledged then; ``span_out_count`` and
    ``span_out_bytes``, what consumers got then (bodies alone); ``span_offered_count``, copies that were due then;
    ``span_lost_count``, those of them that never came; ``span_cpu_ns``, processor time; and of the node ``clients``
    their ``span_cpu_ns``.
    """

    latency_ns: Int64
    samples: Sequence[Sample]
    evidence: RunEvidence = NOTHING


def broker_of(topology: Topology) -> str:
    """The name of the topology's only broker; SpecError where it has none, several, or no hosts for clients."""
    names = topology.node_names("broker")
    if len(names) != 1:
        raise SpecError(f"topology {topology.name!r} has {len(names)} brokers", "profile one: brokers=1")
    for role in ROLES:
        if not topology.node_names(role):
            raise SpecError(f"topology {topology.name!r} has no host with the role {role}", "use srtm-lan")
    return names[0]
