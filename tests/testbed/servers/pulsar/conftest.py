"""The cluster of all tests of Pulsar."""

import pytest

from testbed.servers.pulsar.cluster import PulsarCluster


@pytest.fixture
def cluster(pulsar_cluster: PulsarCluster) -> PulsarCluster:
    return pulsar_cluster
