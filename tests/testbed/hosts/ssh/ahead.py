"""A local site that says of its hosts that their clocks are ahead, as a machine's far away may be."""

from testbed.hosts.local import LocalSite

OFFSETS_NS = {"publishers1": 300_000_000, "publishers2": 300_000_000}


class AheadSite(LocalSite):
    """Publishers are told everything 300 ms later, and their instants are taken back by as much."""

    def clock_offset_ns(self, host: str) -> int:
        """By role."""
        return OFFSETS_NS.get(self.topology.host_of(host), 0)
