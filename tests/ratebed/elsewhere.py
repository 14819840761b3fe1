"""A testbed that is not the virtual one and whose answers differ: slower brokers, and clocks that are off.

Real enough to be compared with: it runs everything, in virtual time.
"""

from dataclasses import replace

from testbed.trust.evidence import Evidence, Fidelity
from testbed.virtual.backend import VirtualBackend

PUMP_NS = 200_000


class Elsewhere(VirtualBackend):
    """Virtual time with other brokers."""

    def deploy(self, topology, schedule, spec, config):
        deployment = super().deploy(topology, schedule, spec, config)
        deployment.fleet.model = replace(deployment.model, pump_ns=deployment.model.pump_ns + PUMP_NS)
        return deployment

    def limit(self, *arguments, **more):
        return super().limit(*arguments, **{**more, "clock_skew_ns": 3_000_000_000})


def doubtful(journal, *reasons, validity="degraded"):
    """The journal of a run that found itself degraded, or invalid."""
    return replace(journal, evidence=Evidence(Fidelity(validity, reasons, {"lateness_p99_ns": 5e6})))


BACKEND = Elsewhere()
