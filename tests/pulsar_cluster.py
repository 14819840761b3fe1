"""One cluster of Pulsar for all tests of it, in namespaces, as it takes a minute to start; each has its own tenant.

Its brokers are at the sites of a city, so that a control plane can be deployed beside them, and the store in the cloud.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

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
        leaving_nothing(up, folder),
    ):
        yield up


@contextmanager
def leaving_nothing(cluster: "PulsarCluster", folder: Path) -> Iterator[None]:
    """At the end the cluster is stopped; its processes are gone, and have written nowhere but in ``folder``."""
    from testbed.hosts.capabilities import CHECKOUT
    from testbed.hosts.state import start_time

    yield
    pids = [process.pid for _, process in cluster.processes if process.alive]
    used = {file.path for pid in pids for file in psutil.Process(pid).memory_maps()}
    used |= {file.path for pid in pids for file in psutil.Process(pid).open_files()}
    ours = str(folder), str(CHECKOUT)  # the checkout, too, may be anywhere
    assert not [path for path in used if path.startswith("/tmp/") and not path.startswith(ours)]
    assert not Path("logs").exists(), "a log was written where we are"
    cluster.stop()
    assert pids and [start_time(pid) for pid in pids] == [None] * len(pids)
