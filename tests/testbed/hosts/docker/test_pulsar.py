"""Apache Pulsar's brokers in containers, joined by our links: topics go from one to the other under load."""

import pytest

from core.units import MILLISECOND_NS
from testbed.hosts.docker.site import DockerSite
from testbed.hosts.places import DOCKER
from testbed.servers.pulsar.cluster import PulsarWanted, cluster_on
from testbed.servers.pulsar.trial import TransferTrial
from testbed.topologies.topology import mesh
from tests.live import needs
from tests.pulsar_cluster import CLIENTS, NETWORK

DELAY_NS = 5 * MILLISECOND_NS
BROKERS = ("broker1", "broker2")

pytestmark = [
    needs("pulsar", *NETWORK, "docker-sdk", "dockerd", "runc"),
    pytest.mark.long,
    pytest.mark.night,
    pytest.mark.slow,
]


def test_topics_go_from_container_to_container_and_nothing_persistent_is_lost() -> None:
    topology = mesh("containers", [*BROKERS, CLIENTS], DELAY_NS)
    place = DOCKER.with_options({}, topology)
    with place.site(topology, 1, PulsarWanted(BROKERS, BROKERS[0])) as site:
        cluster = cluster_on(site)
        assert isinstance(site, DockerSite) and set(site.containers) == {*BROKERS, CLIENTS}
        assert not [measure.problem for measure in site.verify() if measure.problem]
        moved = TransferTrial(cluster, CLIENTS, 4).carry_out(8, 4, rate_rps=20, pause_s=1.0)
        told = moved.told()
        assert told["landed"] == told["asked"] == 8
        assert told["persistent"]["sent"] > 100 and told["persistent"]["lost"] == told["out_of_order"] == 0
        used = {host for host, metric, value in site.usage() if metric == "container_cpu_ns" and value > 1e9}
        assert {*BROKERS} <= used, "Java's time is counted as the containers'"
