"""One cluster of Pulsar for all tests of it, in namespaces, as it takes a minute to start; each has its own tenant.

Its brokers are at the sites of a city, so that a control plane can be deployed beside them, and the store in the cloud.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed.servers.pulsar.cluster import PulsarCluster
    from testbed.topologies.topology import Topology

NETWORK = ("root", "namespaces", "mininet", "mnexec", "brctl", "ip", "iptables", "nfqueue")
SITES = 3
NAMES = [f"broker{number}" for number in range(1, SITES + 1)]
CLIENTS = "clients1"


def placed_topology() -> "Topology":
    """Sites 10 ms (one way) from each other; clients are added to it."""
    from testbed.topologies.topology import load_topology

    return load_topology("city-mec", {"sites": SITES, "site_rtt": "20ms", "cloud_delay": "5ms", "managers": 2})


@contextmanager
def started(folder: Path) -> Iterator["PulsarCluster"]:
    """The cluster, up, with hosts for clients and TB Adaptor at the first two sites; it shares quotas of groups."""
    from systems.distribution.tb_adaptor import ADAPTOR
    from testbed.hosts.mininet.site import MininetSite
    from testbed.servers.pulsar.cluster import PulsarCluster
    from testbed.servers.pulsar.settings import group_settings
    from testbed.topologies.places import with_clients

    topology = with_clients(placed_topology(), {CLIENTS: 0, "clients2": 1, ADAPTOR: 0}, 0)
    with (
        MininetSite(topology, folder / "run", folder) as site,
        PulsarCluster(site, NAMES, "store", NAMES[:1], broker_options=group_settings(1)) as up,
    ):
        yield up
