"""A real cluster of Pulsar, in namespaces and on the loopback: it comes up, moves topics, and goes."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from testbed.hosts.local import LocalSite
from testbed.servers.pulsar.admin import WHOLE, Admin, NotDone, Topic, boundaries, topic_hash
from testbed.servers.pulsar.cluster import PulsarCluster
from testbed.servers.pulsar.transfers import KNOWN_NS
from testbed.topologies.topology import mesh
from tests.live import needs
from tests.pulsar_cluster import NETWORK, leaving_nothing

MEMORY_BYTES = 1.5e9  # of all processes of three brokers

Seen = TypeVar("Seen")

pytestmark = [needs("pulsar", *NETWORK), pytest.mark.long, pytest.mark.slow]


@pytest.fixture
def tenant(cluster: PulsarCluster, request: pytest.FixtureRequest) -> str:
    """One of the test's own, with a namespace ``n`` of one bundle."""
    name = f"t{abs(hash(request.node.name))}"
    cluster.admin.make_tenant(name)
    cluster.admin.make_namespace(name, "n")
    return name


def bundle_of(admin: Admin, topic: Topic) -> str:
    """The range, as in ``WHOLE``."""
    path = f"/lookup/v2/topic/{topic.kind}/{topic.tenant}/{topic.namespace}/{topic.name}/bundle"
    return admin._ask("GET", path).decode().strip().strip('"')


def once_known(ask: Callable[[], Seen], wanted: Seen) -> Seen:
    """What brokers say of owners; at first some say the one before, as they hear of a move one after another."""
    until_ns = time.monotonic_ns() + KNOWN_NS
    while (seen := ask()) != wanted and time.monotonic_ns() < until_ns:
        time.sleep(0.05)
    return seen


def resident_bytes(cluster: PulsarCluster) -> int:
    return sum(psutil.Process(process.pid).memory_info().rss for _, process in cluster.processes)


def test_three_brokers_know_each_other_and_are_small(cluster: PulsarCluster) -> None:
    assert cluster.admin.alive() == sorted(cluster.brokers) and cluster.admin.leader() in cluster.brokers
    assert resident_bytes(cluster) <= MEMORY_BYTES


def test_a_topic_goes_to_the_broker_that_is_named(cluster: PulsarCluster, tenant: str) -> None:
    topic, admin = Topic(tenant, "n", "x"), cluster.admin
    owner = admin.owner_of(topic)
    assert bundle_of(admin, topic) == WHOLE
    others = [broker for broker in cluster.brokers if broker != owner]
    for target in [*others, owner]:
        admin.move(topic, WHOLE, target)
        assert once_known(lambda: {admin.owner_of(topic, asked) for asked in cluster.brokers}, {target}) == {target}
    with pytest.raises(NotDone, match="500"):
        admin.move(topic, WHOLE, owner)


def test_topics_of_one_namespace_are_moved_apart(cluster: PulsarCluster, tenant: str) -> None:
    topics = [Topic(tenant, "cut", f"x{number}") for number in range(8)]
    cluster.admin.make_namespace(tenant, "cut", boundaries(topics))
    bundles = {topic: bundle_of(cluster.admin, topic) for topic in topics}
    for topic, bundle in bundles.items():
        low, high = (int(cut, 16) for cut in bundle.split("_"))
        assert low <= topic_hash(topic) < high, "Pulsar counts its hashes otherwise"
    assert len(set(bundles.values())) == len(topics)
    owners = {topic: cluster.admin.owner_of(topic) for topic in topics}
    moved = topics[3]
    target = next(broker for broker in cluster.brokers if broker != owners[moved])
    cluster.admin.move(moved, bundles[moved], target)
    wanted = {**owners, moved: target}
    assert once_known(lambda: {topic: cluster.admin.owner_of(topic) for topic in topics}, wanted) == wanted


@pytest.mark.night
def test_on_the_loopback_it_leaves_nothing_either(tmp_path: Path) -> None:
    with LocalSite(mesh("near", ["b1"], 0), tmp_path / "run", tmp_path) as site:
        with PulsarCluster(site, ["b1"], "b1") as cluster, leaving_nothing(cluster, tmp_path):
            assert len(cluster.processes) == 3
            assert cluster.admin.owner_of(Topic("public", "default", "x")) == cluster.brokers[0]
            assert cluster.brokers[0].startswith("127.0.0.1:")
        assert site.processes == []
