"""The testbed ``local``: plain processes that meet on loopback.  No delays, no root, no set-up.

For CI of the real-socket path.  All hosts are 127.0.0.1, so agents let the kernel choose their ports.
"""

import psutil

from core.errors import SpecError
from testbed.faults import Fault, Handover
from testbed.findings import Finding
from testbed.hosts.capabilities import CAPABILITIES, find_capability, probe_beside
from testbed.hosts.site import PathMeasure, Site
from testbed.nodes.retransmission import keeps_120_s, note_of
from testbed.topologies.topology import Topology

LOOPBACK = "127.0.0.1"


class LocalSite(Site):
    """Agents on this machine.  What the topology asks of its links and does not get is said in ``notes``."""

    def _set_up(self) -> None:
        if keeps_120_s():
            self.notes.append(note_of(["localhost"]))
        if wishes := unmet_wishes(self.topology):
            asker = self.topology.name
            self.notes.append(f"local links have no {', '.join(wishes)}, as {asker} asks for; mininet's have")

    def address(self, host: str) -> str:
        """The loopback, whatever the host."""
        self.topology.host_of(host)
        return LOOPBACK

    def verify(self) -> list[PathMeasure]:
        """There are no paths to measure; MachineError names agents that have ended."""
        self._check_alive()
        return []

    def apply(self, fault: Fault) -> None:
        """SpecError: there are no links to change.  A host that is handed over is where it was: on loopback."""
        if isinstance(fault, Handover):
            return
        raise SpecError(f"{fault}: local has no links to change", "use --testbed mininet, or virtual")

    def counters(self) -> list[tuple[str, str, float]]:
        """What passed over the loopback, others' traffic too."""
        count = psutil.net_io_counters(pernic=True).get("lo")
        if count is None:
            return []
        return [
            ("localhost", "loopback_received_bytes", float(count.bytes_recv)),
            ("localhost", "loopback_received_count", float(count.packets_recv)),
            ("localhost", "loopback_dropped_count", float(count.dropin + count.dropout)),
        ]


def unmet_wishes(topology: Topology, *, delays: bool = True) -> list[str]:
    """What the topology's links want that loopback has not, nor other links that nobody shapes; ``delays``, too."""
    links = topology.links
    slowest_ns = max((link.one_way_delay_ns for link in links), default=0)
    wanted = {
        f"delay (up to {slowest_ns / 1e6:g} ms a link)": delays and slowest_ns > 0,
        "jitter": any(link.jitter_ns for link in links),
        "loss": any(link.loss_probability for link in links),
        "rate limits": any(link.rate_bps for link in links),
    }
    return [wish for wish, is_wanted in wanted.items() if is_wanted]


def probe() -> list[Finding]:
    """Needs Linux; the rest is for the figures with live brokers, or steadies measurements."""
    where = find_capability("linux")
    return [
        Finding("processes", where is not None, "on loopback" if where else CAPABILITIES["linux"].fix),
        *probe_beside(),
    ]
