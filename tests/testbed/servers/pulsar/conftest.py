"""One cluster of Pulsar for all tests here, in namespaces, as it takes a minute to start; each has its own tenant."""

from collections.abc import Iterator

import pytest

from testbed.hosts.mininet.site import MininetSite
from testbed.servers.pulsar.cluster import PulsarCluster
from testbed.topologies.topology import mesh

NETWORK = ("root", "namespaces", "mininet", "mnexec", "brctl", "ip", "iptables", "nfqueue")
NAMES = ["b1", "b2", "b3"]
CLIENTS = "clients"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarCluster]:
    folder, topology = tmp_path_factory.mktemp("pulsar"), mesh("apart", [*NAMES, CLIENTS], 0)
    with MininetSite(topology, folder / "run", folder) as site, PulsarCluster(site, NAMES, "b1") as up:
        yield up
